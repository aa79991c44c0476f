(** Law 3, second half: scoring only visible rows is scoring all rows, with -infinity for those before the first. Here
    operations meet special values, so some facts about the arithmetic are needed; Binary32Mask.v proves them of binary32.
    Hidden rows may hold anything. *)
From Coq Require Import List Arith Bool Lia.
From KvStructure Require Import Lists Arithmetic Attend.
Import ListNotations.

(** The facts. [mass]: +0, positive, +infinity or NaN, what a sum of exponentials can be. [positive]: a mass other than
    +0. *)
Record MaskFacts (A : Arithmetic) := {
  nan : A;
  mass : A -> Prop;
  positive : A -> Prop;
  nothing_below : forall x : A, less x minus_infinity = false;
  grows : forall x y : A, less minus_infinity x = true -> less x y = true -> less minus_infinity y = true;
  exp_of_hidden : forall m : A, less minus_infinity m = true -> exp (sub minus_infinity m) = zero;
  exp_without_maximum : forall s : A, less minus_infinity s = false -> exp (sub s minus_infinity) = nan;
  zero_plus_zero : add zero zero = (zero : A);
  nan_plus : forall x, add nan x = nan;
  plus_nan : forall x, add x nan = nan;
  over_nan : forall x, div x nan = nan;
  mass_zero : mass zero;
  mass_exp : forall x, mass (exp x);
  mass_add : forall x y, mass x -> mass y -> mass (add x y);
  positive_mass : forall x, positive x -> mass x;
  positive_add : forall x y, positive x -> mass y -> positive (add x y);
  add_positive : forall x y, mass x -> positive y -> positive (add x y);
  exp_of_maximum : forall m : A, less minus_infinity m = true -> positive (exp (sub m m));
  zero_over_positive : forall x, positive x -> x = nan \/ div zero x = zero;
}.
Arguments nan {_}. Arguments mass {_}. Arguments positive {_}.

(** Sums by lanes. P: one addend makes the sum such; Q: holds of all addends. *)
Section Lanes.
Context {A : Arithmetic} (P Q : A -> Prop).
Hypothesis Q_zero : Q zero.
Hypothesis Q_add : forall x y, Q x -> Q y -> Q (add x y).
Hypothesis P_Q : forall x, P x -> Q x.
Hypothesis P_add : forall x y, P x -> Q y -> P (add x y).
Hypothesis add_P : forall x y, Q x -> P y -> P (add x y).

Definition lane_sums (first : nat) (ws : list A) (js : list nat) (lane : list A) : list A :=
  fold_left (fun lane i => update ((first + i) mod lanes) (fun x => add x (nth i ws zero)) lane) js lane.

Lemma fold_lanes_P lane i : length lane = lanes -> Forall Q lane -> i < lanes -> P (nth i lane zero) -> P (fold_lanes lane).
Proof.
  intros Hl HQ Hi HP. unfold lanes in *.
  do 16 (destruct lane as [|? lane]; [discriminate|]). destruct lane; [|discriminate].
  repeat match goal with H : Forall Q (_ :: _) |- _ => inversion_clear H end.
  unfold fold_lanes, halve, zip_with. simpl.
  do 16 (destruct i as [|i]; [simpl in HP; auto 12|]). lia.
Qed.

Lemma Forall_update i f (lane : list A) : (forall x, Q x -> Q (f x)) -> Forall Q lane -> Forall Q (update i f lane).
Proof. intros Hf H. revert i. induction H; intros [|i]; simpl; constructor; auto. Qed.

Lemma lane_sums_Q first ws js lane :
  Forall Q ws -> Forall Q lane -> Forall Q (lane_sums first ws js lane).
Proof.
  intro Hw. revert lane. induction js; simpl; auto. intros lane Hl. apply IHjs. apply Forall_update; auto.
  intros x Hx. apply Q_add; auto. destruct (Nat.lt_ge_cases a (length ws)).
  - rewrite Forall_forall in Hw. apply Hw, nth_In. auto.
  - rewrite nth_overflow; auto.
Qed.

Lemma lane_sums_length first ws js lane : length (lane_sums first ws js lane) = length lane.
Proof. revert lane. induction js; simpl; auto. intro. now rewrite IHjs, update_length. Qed.

Lemma lane_sums_P first ws js lane i :
  Forall Q ws -> Forall Q lane -> length lane = lanes -> i < lanes ->
  P (nth i lane zero) \/ (exists j, In j js /\ (first + j) mod lanes = i /\ P (nth j ws zero)) ->
  P (nth i (lane_sums first ws js lane) zero).
Proof.
  intro Hw. unfold lane_sums. revert lane. induction js as [|a js IH]; intros lane HQ Hl Hi H; cbn [fold_left].
  - destruct H as [|(j & [] & _)]; auto.
  - assert (HQa : Q (nth a ws zero)).
    { destruct (Nat.lt_ge_cases a (length ws)); [rewrite Forall_forall in Hw; apply Hw, nth_In | rewrite nth_overflow]; auto. }
    apply IH; auto.
    + apply Forall_update; auto.
    + now rewrite update_length.
    + destruct (Nat.eq_dec ((first + a) mod lanes) i) as [He|Hne].
      * destruct H as [H|(j & [<-|Hj] & Hji & HP)].
        -- left. rewrite He, nth_update_same by lia. auto.
        -- left. rewrite He, nth_update_same by lia. apply add_P; auto.
           rewrite Forall_forall in HQ. apply HQ, nth_In. lia.
        -- right. eauto.
      * rewrite nth_update_other by auto. destruct H as [H|(j & [<-|Hj] & Hji & HP)]; [left; auto|congruence|right; eauto].
Qed.

Lemma lanes_P first ws j :
  Forall Q ws -> j < length ws -> P (nth j ws zero) ->
  P (fold_lanes (lane_sums first ws (seq 0 (length ws)) no_lanes)).
Proof.
  intros Hw Hj HP. assert (H0 : Forall Q (no_lanes (A := A))).
  { apply Forall_forall. intros x Hx. apply repeat_spec in Hx. now subst. }
  apply fold_lanes_P with ((first + j) mod lanes).
  - now rewrite lane_sums_length.
  - now apply lane_sums_Q.
  - now apply Nat.mod_upper_bound.
  - apply lane_sums_P; auto; [now apply Nat.mod_upper_bound|]. right. exists j. rewrite in_seq. auto with arith.
Qed.

Lemma lanes_Q first ws : Forall Q ws -> Q (fold_lanes (lane_sums first ws (seq 0 (length ws)) no_lanes)).
Proof.
  intro Hw. assert (H0 : Forall Q (no_lanes (A := A))).
  { apply Forall_forall. intros x Hx. apply repeat_spec in Hx. now subst. }
  pose proof (lane_sums_Q first ws (seq 0 (length ws)) no_lanes Hw H0) as HQ.
  pose proof (lane_sums_length first ws (seq 0 (length ws)) (no_lanes (A := A))) as Hl.
  revert HQ Hl. generalize (lane_sums first ws (seq 0 (length ws)) no_lanes). intros lane HQ Hl.
  change (length lane = 16) in Hl.
  do 16 (destruct lane as [|? lane]; [discriminate|]). destruct lane; [|discriminate].
  repeat match goal with H : Forall Q (_ :: _) |- _ => inversion_clear H end.
  unfold fold_lanes, halve, zip_with. simpl. auto 12.
Qed.
End Lanes.

Section Mask.
Context {A : Arithmetic} {S : Storage A} (facts : MaskFacts A) (t : Task S) (q : Query A).
Hypothesis sees : from q < upto q.

Definition masked_scores : list A :=
  map (fun p => if p <? from q then minus_infinity else score t (vector q) p) (seq 0 (upto q)).
Definition masked_probabilities : list A := softmax 0 masked_scores (sink q).
Definition masked_output : list A :=
  finish S (fold_left (fun out pw => weigh_row t (fst pw) (snd pw) out) (combine (seq 0 (upto q)) masked_probabilities)
                      (repeat zero (head_dim t))).

Definition visible_scores : list A := map (score t (vector q)) (seq (from q) (upto q - from q)).
Definition shift : A := largest visible_scores (sink q).

Lemma masked_scores_split : masked_scores = repeat minus_infinity (from q) ++ visible_scores.
Proof.
  unfold masked_scores, visible_scores.
  replace (upto q) with (from q + (upto q - from q)) at 1 by lia. rewrite seq_app, map_app. f_equal.
  - rewrite <- (map_const_seq minus_infinity (from q) 0). apply map_ext_in. intros p Hp. apply in_seq in Hp.
    now destruct (Nat.ltb_spec p (from q)); [|lia].
  - apply map_ext_in. intros p Hp. apply in_seq in Hp. now destruct (Nat.ltb_spec p (from q)); [lia|].
Qed.

Lemma maximum_hidden (m : A) : maximum m minus_infinity = m.
Proof. unfold maximum. now rewrite (nothing_below A facts). Qed.

Lemma largest_masked : largest masked_scores (sink q) = shift.
Proof.
  unfold shift, largest. rewrite masked_scores_split, fold_left_app.
  rewrite (fold_left_skip maximum (repeat minus_infinity (from q))); auto.
  intros y u Hu. apply repeat_spec in Hu. subst. apply maximum_hidden.
Qed.

(** The maximum is -infinity and no score exceeds that, or it is a score or the sink. *)
Lemma maximum_is_met (scores : list A) (m : A) :
  let r := fold_left maximum scores m in
  (r = m /\ (m = minus_infinity -> Forall (fun s => less minus_infinity s = false) scores)) \/
  (In r scores /\ ((m = minus_infinity \/ less minus_infinity m = true) -> less minus_infinity r = true)).
Proof.
  revert m. induction scores as [|s scores IH]; intro m; simpl; [auto|].
  destruct (IH (maximum m s)) as [[Hr Hs]|[Hin Ha]]; unfold maximum in *; destruct (less m s) eqn:Hms.
  - right. rewrite Hr. split; auto. intros [->|Hm]; auto. eapply (grows A facts); eauto.
  - left. split; auto. intros ->. constructor; auto.
  - right. split; auto. intros [->|Hm]; apply Ha; right; auto. eapply (grows A facts); eauto.
  - right. split; auto.
Qed.

Lemma shift_is_met :
  (shift = minus_infinity /\ Forall (fun s => less minus_infinity s = false) visible_scores) \/
  (less minus_infinity shift = true /\ (In shift visible_scores \/ sink q = Some shift)).
Proof.
  unfold shift, largest. pose proof (maximum_is_met visible_scores minus_infinity) as H. simpl in H.
  set (r := fold_left maximum visible_scores minus_infinity) in *.
  assert (Hr : (r = minus_infinity /\ Forall (fun s => less minus_infinity s = false) visible_scores) \/
               (less minus_infinity r = true /\ In r visible_scores)) by (destruct H as [[Hr Hs]|[Hin Ha]]; auto).
  destruct (sink q) as [s|]; [|destruct Hr as [[? ?]|[? ?]]; auto].
  unfold maximum. destruct (less r s) eqn:Hrs.
  - right. split; auto. destruct Hr as [[-> _]|[Ha _]]; auto. eapply (grows A facts); eauto.
  - destruct Hr as [[? ?]|[? ?]]; auto.
Qed.

Definition weights : list A := map (fun s => exp (sub s shift)) visible_scores.
Definition total : A := denominator (from q) weights (sink q) shift.

Lemma zero_lanes js :
  fold_left (fun lane i => update (i mod lanes) (fun x => add x zero) lane) js no_lanes = no_lanes (A := A).
Proof.
  assert (H : forall j n, update j (fun x => add x zero) (repeat zero n) = repeat (zero : A) n).
  { intros j n. revert j. induction n; intros [|j]; simpl; f_equal; auto. apply (zero_plus_zero A facts). }
  induction js; cbn [fold_left]; auto. unfold no_lanes in *. now rewrite H.
Qed.

Lemma masked_total h :
  h = zero \/ (h = nan facts /\ Forall (fun w => w = nan facts) weights) ->
  denominator 0 (repeat h (from q) ++ weights) (sink q) shift = total /\
  (h = nan facts -> Forall (fun w => w = nan facts) weights -> total = nan facts).
Proof.
  intro Hh. assert (Hnan : forall first ws, Forall (fun w => w = nan facts) ws -> 0 < length ws ->
    fold_lanes (lane_sums first ws (seq 0 (length ws)) no_lanes) = nan facts).
  { intros first ws Hw Hl. apply (lanes_P (fun x => x = nan facts) (fun _ => True)) with 0; auto.
    - intros x y -> _. apply (nan_plus A facts).
    - intros x y _ ->. apply (plus_nan A facts).
    - apply Forall_forall. auto.
    - rewrite Forall_forall in Hw. apply Hw, nth_In. auto. }
  assert (Hlen : length weights = upto q - from q) by (unfold weights, visible_scores; now rewrite !map_length, seq_length).
  assert (Htotal : Forall (fun w => w = nan facts) weights -> total = nan facts).
  { intro Hw. unfold total, denominator. fold (lane_sums (from q) weights (seq 0 (length weights)) no_lanes).
    rewrite Hnan by (auto; lia). destruct (sink q); auto. apply (nan_plus A facts). }
  split; auto. destruct Hh as [->|[-> Hw]].
  - unfold total, denominator. rewrite app_length, repeat_length, seq_app, fold_left_app.
    rewrite (fold_left_ext_in _ (fun lane i => update (i mod lanes) (fun x => add x zero) lane) (seq 0 (from q))).
    2:{ intros lane i Hi. apply in_seq in Hi. cbn [Nat.add]. rewrite app_nth1 by (rewrite repeat_length; lia).
        now rewrite nth_repeat. }
    replace (fold_left _ (seq 0 (from q)) no_lanes) with (no_lanes (A := A)).
    + rewrite <- (Nat.add_0_r (0 + from q)), seq_from, fold_left_map.
      erewrite (fold_left_ext_in _ _ (seq 0 (length weights))); [reflexivity|].
      intros lane i Hi. cbn [Nat.add]. rewrite app_nth2 by (rewrite repeat_length; lia). rewrite repeat_length.
      now replace (from q + i - from q) with i by lia.
    + symmetry. apply zero_lanes.
  - rewrite Htotal by auto. unfold denominator.
    fold (lane_sums 0 (repeat (nan facts) (from q) ++ weights)
                    (seq 0 (length (repeat (nan facts) (from q) ++ weights))) no_lanes).
    rewrite Hnan.
    + destruct (sink q); auto. apply (nan_plus A facts).
    + apply Forall_app. split; auto. apply Forall_forall. intros x Hx. now apply repeat_spec in Hx.
    + rewrite app_length. lia.
Qed.

Lemma total_positive : less minus_infinity shift = true -> In shift visible_scores \/ sink q = Some shift -> positive facts total.
Proof.
  intros Ha Hin. unfold total, denominator. fold (lane_sums (from q) weights (seq 0 (length weights)) no_lanes).
  assert (Hw : Forall (mass facts) weights).
  { apply Forall_forall. intros w Hw. unfold weights in Hw. apply in_map_iff in Hw as (s & <- & _). apply (mass_exp A facts). }
  assert (Hlanes : mass facts (fold_lanes (lane_sums (from q) weights (seq 0 (length weights)) no_lanes)))
    by (apply lanes_Q; auto; [apply (mass_zero A facts) | apply (mass_add A facts)]).
  destruct Hin as [Hin|Hs].
  - assert (Hp : positive facts (fold_lanes (lane_sums (from q) weights (seq 0 (length weights)) no_lanes))).
    { apply (In_nth _ _ zero) in Hin as (j & Hj & Hs).
      apply (lanes_P (positive facts) (mass facts)) with j; auto.
      all: try first [apply (mass_zero A facts) | apply (mass_add A facts) | apply (positive_mass A facts)
                     | apply (positive_add A facts) | apply (add_positive A facts)].
      - unfold weights. now rewrite map_length.
      - unfold weights. rewrite (nth_indep _ zero (exp (sub zero shift))) by (now rewrite map_length).
        rewrite (map_nth (fun s => exp (sub s shift))), Hs. now apply (exp_of_maximum A facts). }
    destruct (sink q); auto. apply (positive_add A facts); auto. apply (mass_exp A facts).
  - rewrite Hs. apply (add_positive A facts); auto. now apply (exp_of_maximum A facts).
Qed.

(** Hidden rows get probability 0, or all rows get NaN. *)
Lemma masked_probabilities_split : exists hidden,
  masked_probabilities = repeat hidden (from q) ++ probabilities t q /\
  (hidden = zero \/ (hidden = nan facts /\ Forall (fun p => p = nan facts) (probabilities t q))).
Proof.
  assert (Hp : probabilities t q = map (fun e => div e total) weights) by reflexivity.
  assert (Hm : forall h, exp (sub minus_infinity shift) = h ->
    denominator 0 (repeat h (from q) ++ weights) (sink q) shift = total ->
    masked_probabilities = repeat (div h total) (from q) ++ probabilities t q).
  { intros h Hh Ht. unfold masked_probabilities, softmax. rewrite largest_masked, masked_scores_split, map_app.
    rewrite map_repeat, Hh. fold weights. now rewrite Ht, map_app, map_repeat. }
  destruct shift_is_met as [[Hs Hall]|[Ha Hin]].
  - assert (Hh : exp (sub minus_infinity shift) = nan facts)
      by (rewrite Hs; apply (exp_without_maximum A facts), (nothing_below A facts)).
    assert (Hw : Forall (fun w => w = nan facts) weights).
    { apply Forall_forall. intros w Hw. unfold weights in Hw. apply in_map_iff in Hw as (s & <- & Hi).
      rewrite Forall_forall in Hall. rewrite Hs. apply (exp_without_maximum A facts). auto. }
    destruct (masked_total (nan facts)) as [Ht Hn]; auto.
    exists (div (nan facts) total). split; auto. right. rewrite Hn by auto. rewrite (over_nan A facts). split; auto.
    rewrite Hp, Hn by auto. apply Forall_forall. intros p Hin. apply in_map_iff in Hin as (w & <- & _). apply (over_nan A facts).
  - destruct (masked_total zero) as [Ht _]; auto.
    exists (div zero total). split; [apply Hm; auto; now apply (exp_of_hidden A facts)|].
    destruct (zero_over_positive A facts total) as [Hn|Hz]; [now apply total_positive| |now left].
    right. rewrite Hn, (over_nan A facts). split; auto. rewrite Hp, Hn.
    apply Forall_forall. intros p Hi. apply in_map_iff in Hi as (w & <- & _). apply (over_nan A facts).
Qed.

Theorem law3b_mask_probabilities : skipn (from q) masked_probabilities = probabilities t q.
Proof.
  destruct masked_probabilities_split as (hidden & -> & _).
  rewrite skipn_app, skipn_all2, repeat_length, Nat.sub_diag by (now rewrite repeat_length). reflexivity.
Qed.

(** What is known of the rows, hidden ones included: weight 0 is skipped, and NaN makes all of the output NaN. Of f32 rows
    this holds whatever numbers they are. *)
Definition skips (p : nat) : Prop := is_zero (weight S zero (value t p)) = true.
Definition poisons (p : nat) : Prop :=
  is_zero (weight S (nan facts) (value t p)) = false /\
  forall out, length out = head_dim t ->
    add_row S (weight S (nan facts) (value t p)) (value t p) out = repeat (nan facts) (head_dim t).

Theorem law3b_mask_output : (forall p, p < upto q -> skips p /\ poisons p) -> masked_output = output t q.
Proof.
  intro Hrows. unfold masked_output, output. f_equal.
  destruct masked_probabilities_split as (hidden & -> & Hh).
  pose proof (probabilities_length t q) as Hlen.
  replace (seq 0 (upto q)) with (seq 0 (from q) ++ seq (from q) (upto q - from q))
    by (rewrite <- seq_app; f_equal; lia).
  rewrite combine_app by (now rewrite seq_length, repeat_length). rewrite fold_left_app.
  destruct Hh as [->|[-> Hn]].
  - f_equal. apply fold_left_skip. intros out [p w] Hp. simpl.
    pose proof (in_combine_r _ _ _ _ Hp) as Hw. apply repeat_spec in Hw. subst w.
    apply in_combine_l, in_seq in Hp. unfold weigh_row.
    destruct (Hrows p) as [Hs _]; [lia|]. unfold skips in Hs. now rewrite Hs.
  - assert (Hall : forall rows, (forall p w, In (p, w) rows -> p < upto q /\ w = nan facts) -> forall out,
      length out = head_dim t ->
      length (fold_left (fun out pw => weigh_row t (fst pw) (snd pw) out) rows out) = head_dim t /\
      (rows <> [] -> fold_left (fun out pw => weigh_row t (fst pw) (snd pw) out) rows out = repeat (nan facts) (head_dim t))).
    { induction rows as [|[p w] rows IH]; intros Hin out Ho; simpl; [split; [auto|congruence]|].
      destruct (Hin p w) as [Hp ->]; simpl; auto.
      assert (Hstep : weigh_row t p (nan facts) out = repeat (nan facts) (head_dim t)).
      { unfold weigh_row. destruct (Hrows p Hp) as [_ [Hz Hr]]. rewrite Hz. now apply Hr. }
      rewrite Hstep. destruct (IH (fun p w H => Hin p w (or_intror H)) (repeat (nan facts) (head_dim t))) as [H1 H2];
        [apply repeat_length|]. split; auto. intros _. destruct rows; auto. apply H2. discriminate. }
    assert (Hvis : forall p w, In (p, w) (combine (seq (from q) (upto q - from q)) (probabilities t q)) ->
                               p < upto q /\ w = nan facts).
    { intros p w Hi. split; [apply in_combine_l, in_seq in Hi; lia|].
      rewrite Forall_forall in Hn. apply Hn. eapply in_combine_r. eauto. }
    assert (Hne : combine (seq (from q) (upto q - from q)) (probabilities t q) <> []).
    { intro He. apply (f_equal (@length _)) in He. rewrite combine_length, seq_length, Hlen in He. simpl in He. lia. }
    assert (Hhid : forall p w, In (p, w) (combine (seq 0 (from q)) (repeat (nan facts) (from q))) ->
                               p < upto q /\ w = nan facts).
    { intros p w Hi. split; [apply in_combine_l, in_seq in Hi; lia|]. now apply in_combine_r, repeat_spec in Hi. }
    assert (Hz : length (repeat (zero : A) (head_dim t)) = head_dim t) by apply repeat_length.
    destruct (Hall _ Hhid _ Hz) as [Hl _].
    rewrite (proj2 (Hall _ Hvis _ Hl) Hne). symmetry. exact (proj2 (Hall _ Hvis _ Hz) Hne).
Qed.

(** The accumulator at visible rows. *)
Theorem law3b_mask_accumulator : forall acc p,
  from q <= p -> nth p (accumulate 0 masked_probabilities acc) zero = nth p (accumulate (from q) (probabilities t q) acc) zero.
Proof.
  intros acc p Hp. destruct masked_probabilities_split as (hidden & -> & _).
  unfold accumulate. rewrite app_length, repeat_length, seq_app, fold_left_app.
  rewrite <- (Nat.add_0_r (0 + from q)), seq_from, fold_left_map.
  assert (Hsame : forall l acc acc', length acc = length acc' -> nth p acc zero = nth p acc' zero ->
    nth p (fold_left (fun acc i => update (from q + i) (fun x => add x (nth i (probabilities t q) zero)) acc) l acc) zero =
    nth p (fold_left (fun acc i => update (from q + i) (fun x => add x (nth i (probabilities t q) zero)) acc) l acc') zero).
  { induction l as [|i l IH]; simpl; auto. intros a a' Hl Ha. apply IH; [now rewrite !update_length|].
    destruct (Nat.eq_dec (from q + i) p) as [->|]; [|now rewrite !nth_update_other by auto].
    destruct (Nat.lt_ge_cases p (length a)).
    - rewrite !nth_update_same by lia. now rewrite Ha.
    - rewrite !nth_overflow by (rewrite update_length; lia). reflexivity. }
  rewrite (fold_left_ext_in _ (fun acc i => update (from q + i) (fun x => add x (nth i (probabilities t q) zero)) acc)
             (seq 0 (length (probabilities t q)))).
  - apply Hsame.
    + generalize (seq 0 (from q)). clear. intro l. revert acc. induction l; simpl; auto. intro. now rewrite IHl, update_length.
    + assert (Hl : forall i, In i (seq 0 (from q)) -> i < p) by (intros i Hi; apply in_seq in Hi; lia).
      revert Hl. generalize (seq 0 (from q)). clear. intro l. revert acc. induction l; simpl; auto. intros acc Hl.
      rewrite IHl by auto. apply nth_update_other. specialize (Hl a). cbn [Nat.add]. lia.
  - intros a i Hi. cbn [Nat.add]. f_equal. 
    now rewrite app_nth2, repeat_length by (rewrite repeat_length; lia); replace (from q + i - from q) with i by lia.
Qed.

End Mask.

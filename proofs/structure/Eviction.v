(** Law 15: which positions eviction keeps. The earliest, the latest, and of those between the heaviest: NaN weighs least,
    +0 and -0 the same, and of equal masses the earlier goes first. The text is reference/evict.cpp.

    What is asked of the arithmetic: [less] ranks the numbers that are no NaN, and is false for a NaN. *)
From Coq Require Import List Arith ZArith Bool Lia Sorted Permutation.
From KvStructure Require Import Lists Arithmetic.
Import ListNotations.

Definition ranked (A : Arithmetic) : Prop :=
  exists rank : A -> Z, forall x y, less x y = negb (is_nan x) && negb (is_nan y) && (rank x <? rank y)%Z.

Section Sorting.
Context {T : Type} (before : T -> T -> bool).

Fixpoint place (x : T) (l : list T) : list T :=
  match l with
  | [] => [x]
  | y :: rest => if before x y then x :: l else y :: place x rest
  end.

Definition sort (l : list T) : list T := fold_right place [] l.

Lemma place_permutes x l : Permutation (place x l) (x :: l).
Proof.
  induction l as [|y l IH]; simpl; auto. destruct (before x y); auto.
  rewrite IH. apply perm_swap.
Qed.

Lemma sort_permutes l : Permutation (sort l) l.
Proof. induction l; simpl; auto. rewrite place_permutes. auto. Qed.

Hypothesis transitive : forall x y z, before x y = true -> before y z = true -> before x z = true.

Lemma place_sorted x l :
  (forall y, In y l -> before x y = false -> before y x = true) ->
  StronglySorted (fun a b => before a b = true) l -> StronglySorted (fun a b => before a b = true) (place x l).
Proof.
  intros Ht H. induction H as [|y l Hl IH Hy]; simpl; [repeat constructor|].
  destruct (before x y) eqn:Hxy.
  - constructor; [constructor; auto|]. constructor; auto.
    rewrite Forall_forall in *. intros z Hz. apply transitive with y; auto.
  - constructor.
    + apply IH. intros z Hz. apply Ht. simpl. auto.
    + rewrite Forall_forall in *. intros z Hz.
      apply (Permutation_in _ (place_permutes x l)) in Hz as [<-|Hz]; auto. apply Ht; simpl; auto.
Qed.

Lemma sort_sorted l :
  NoDup l -> (forall x y, In x l -> In y l -> x <> y -> before x y = false -> before y x = true) ->
  StronglySorted (fun a b => before a b = true) (sort l).
Proof.
  induction l as [|x l IH]; intros Hd Ht; simpl; [constructor|]. inversion Hd; subst.
  apply place_sorted.
  - intros y Hy. apply (Permutation_in _ (sort_permutes l)) in Hy. apply Ht; simpl; auto. congruence.
  - apply IH; auto. intros. apply Ht; simpl; auto.
Qed.
End Sorting.

Section Eviction.
Context {A : Arithmetic} (mass : list A).

Definition positions := length mass.

Definition goes_first (a b : nat) : bool :=
  let x := nth a mass zero in
  let y := nth b mass zero in
  if xorb (is_nan x) (is_nan y) then is_nan y
  else if less y x then true
  else if less x y then false
  else a <? b.

Definition earliest (keep sink : nat) : nat := min sink keep.
Definition latest (keep sink recent : nat) : nat := min recent (keep - earliest keep sink).

Definition kept_by_mass (keep sink recent : nat) : list nat :=
  let keep := min keep positions in
  let first := earliest keep sink in
  let final := latest keep sink recent in
  let between := seq first (positions - first - final) in
  let chosen := firstn (keep - first - final) (sort goes_first between) in
  sort Nat.ltb (seq 0 first ++ chosen ++ seq (positions - final) final).

(** evict_recent keeps the last ones; the optimized cache spells it evict_by_mass(keep, 0, keep). *)
Definition kept_recent (keep : nat) : list nat := seq (positions - min keep positions) (min keep positions).

(** What is specified, for keep at most T: in order, as many as told, the earliest, the latest, and no position between
    them that is left out goes before one that is kept. *)
Definition specified (keep sink recent : nat) (kept : list nat) : Prop :=
  let first := earliest keep sink in
  let final := latest keep sink recent in
  StronglySorted lt kept /\ length kept = keep /\ (forall p, In p kept -> p < positions) /\
  (forall p, p < first -> In p kept) /\ (forall p, positions - final <= p < positions -> In p kept) /\
  (forall a b, first <= a < positions - final -> first <= b < positions - final ->
     In a kept -> ~ In b kept -> goes_first a b = true).

Hypothesis order : ranked A.

Lemma goes_first_means : exists key : nat -> option Z, forall a b, goes_first a b = true <->
  match key a, key b with
  | Some x, Some y => (y < x)%Z \/ (x = y /\ a < b)
  | Some _, None => True
  | None, Some _ => False
  | None, None => a < b
  end.
Proof.
  destruct order as [rank Hr].
  exists (fun p => if is_nan (nth p mass zero) then None else Some (rank (nth p mass zero))).
  intros a b. unfold goes_first. rewrite !Hr.
  destruct (is_nan (nth a mass zero)), (is_nan (nth b mass zero)); simpl; try (split; auto; discriminate).
  - apply Nat.ltb_lt.
  - generalize (rank (nth a mass zero)) (rank (nth b mass zero)). intros x y.
    destruct (Z.ltb_spec y x), (Z.ltb_spec x y), (Nat.ltb_spec a b); split; intro; try discriminate; auto; lia.
Qed.

Lemma goes_first_asymmetric a b : goes_first a b = true -> goes_first b a = true -> False.
Proof.
  destruct goes_first_means as [key H]. rewrite !H. destruct (key a), (key b); lia.
Qed.

Lemma goes_first_transitive a b c : goes_first a b = true -> goes_first b c = true -> goes_first a c = true.
Proof.
  destruct goes_first_means as [key H]. rewrite !H. destruct (key a), (key b), (key c); lia.
Qed.

Lemma goes_first_total a b : a <> b -> goes_first a b = false -> goes_first b a = true.
Proof.
  intro Hab. destruct goes_first_means as [key H]. intro Hf.
  assert (Hn : ~ goes_first a b = true) by congruence. rewrite H in *. destruct (key a), (key b); lia.
Qed.

(** Sorting positions. *)
Lemma sort_positions l : NoDup l -> StronglySorted lt (sort Nat.ltb l).
Proof.
  intro H. assert (Hs : StronglySorted (fun a b => Nat.ltb a b = true) (sort Nat.ltb l)).
  { apply sort_sorted; auto.
    - intros x y z. rewrite !Nat.ltb_lt. lia.
    - intros x y _ _ Hxy. rewrite Nat.ltb_lt, Nat.ltb_ge. lia. }
  induction Hs as [|x m Hm IH Hx]; constructor; auto.
  eapply Forall_impl; [|exact Hx]. intro. apply Nat.ltb_lt.
Qed.

Lemma sorted_split {T} (before : T -> T -> Prop) l n a b :
  StronglySorted before l -> In a (firstn n l) -> In b (skipn n l) -> before a b.
Proof.
  intro H. revert n. induction H as [|x l Hl IH Hx]; intros [|n] Ha Hb; simpl in *; try tauto.
  rewrite Forall_forall in Hx. destruct Ha as [<-|Ha]; eauto.
  apply Hx. rewrite <- (firstn_skipn n l). apply in_or_app. auto.
Qed.

Lemma nodup_left {T} (l m : list T) : NoDup (l ++ m) -> NoDup l.
Proof.
  induction l; simpl; intro H; constructor; inversion H; subst; auto. intro Hi. auto using in_or_app.
Qed.

Theorem law15_kept_set : forall keep sink recent,
  keep <= positions -> specified keep sink recent (kept_by_mass keep sink recent).
Proof.
  intros keep sink recent Hk. unfold kept_by_mass. rewrite Nat.min_l by auto.
  set (first := earliest keep sink). set (final := latest keep sink recent).
  assert (Hf : first <= keep) by (unfold first, earliest; lia).
  assert (Hl : first + final <= keep) by (unfold final, latest; fold first; lia).
  set (between := seq first (positions - first - final)).
  assert (Hnd : NoDup between) by apply seq_NoDup.
  set (sorted := sort goes_first between). set (count := keep - first - final).
  assert (Hperm : Permutation sorted between) by apply sort_permutes.
  assert (Hsorted : StronglySorted (fun a b => goes_first a b = true) sorted).
  { apply sort_sorted; auto; [exact goes_first_transitive|]. intros x y _ _. apply goes_first_total. }
  set (all := seq 0 first ++ firstn count sorted ++ seq (positions - final) final).
  assert (Hin : forall p, In p (sort Nat.ltb all) <-> In p all).
  { intro p. split; apply Permutation_in; [|apply Permutation_sym]; apply sort_permutes. }
  assert (Hchosen : forall p, In p (firstn count sorted) -> first <= p < positions - final).
  { intros p Hp. assert (Hp' : In p sorted) by (rewrite <- (firstn_skipn count sorted); apply in_or_app; auto).
    apply (Permutation_in _ Hperm) in Hp'. unfold between in Hp'. apply in_seq in Hp'. lia. }
  assert (Hsd : NoDup sorted) by (apply (Permutation_NoDup (Permutation_sym Hperm)); auto).
  assert (Hcd : NoDup (firstn count sorted))
    by (rewrite <- (firstn_skipn count sorted) in Hsd; now apply nodup_left in Hsd).
  assert (Hall : NoDup all).
  { assert (Happ : forall (l m : list nat), NoDup l -> NoDup m -> (forall x, In x l -> ~ In x m) -> NoDup (l ++ m)).
    { induction l as [|x l IH]; simpl; intros m Hl' Hm Hx; auto. inversion Hl'; subst. constructor.
      - intro Hi. apply in_app_or in Hi as [|]; auto. apply (Hx x); auto.
      - apply IH; auto. }
    apply Happ; [apply seq_NoDup | apply Happ; auto using seq_NoDup |].
    - intros x Hx Hx'. apply Hchosen in Hx. apply in_seq in Hx'. lia.
    - intros x Hx Hx'. apply in_seq in Hx. apply in_app_or in Hx' as [Hx'|Hx'].
      + apply Hchosen in Hx'. lia.
      + apply in_seq in Hx'. lia. }
  unfold specified. fold first final. repeat split.
  - now apply sort_positions.
  - rewrite (Permutation_length (sort_permutes Nat.ltb all)). unfold all.
    rewrite !app_length, !seq_length, firstn_length, (Permutation_length Hperm). unfold between.
    rewrite seq_length. unfold count. lia.
  - intros p Hp. apply Hin in Hp. unfold all in Hp. rewrite !in_app_iff, !in_seq in Hp.
    destruct Hp as [|[Hp|]]; [lia|apply Hchosen in Hp; lia|lia].
  - intros p Hp. apply Hin. unfold all. rewrite !in_app_iff, in_seq. left. lia.
  - intros p Hp. apply Hin. unfold all. rewrite !in_app_iff, (in_seq final). right; right. lia.
  - intros a b Ha Hb Hka Hkb. apply Hin in Hka. unfold all in Hka. rewrite !in_app_iff, !in_seq in Hka.
    destruct Hka as [|[Hka|]]; [lia| |lia].
    apply (sorted_split _ sorted count a b Hsorted Hka).
    assert (Hb' : In b sorted) by (apply (Permutation_in _ (Permutation_sym Hperm)); unfold between; apply in_seq; lia).
    rewrite <- (firstn_skipn count sorted) in Hb'. apply in_app_or in Hb' as [Hb'|]; auto.
    exfalso. apply Hkb, Hin. unfold all. rewrite !in_app_iff. auto.
Qed.

Lemma sorted_lists_equal l m : StronglySorted lt l -> StronglySorted lt m -> (forall p, In p l <-> In p m) -> l = m.
Proof.
  intro Hl. revert m. induction Hl as [|x l Hl IH Hx]; intros m Hm H.
  - destruct m as [|y m]; auto. exfalso. apply (H y). simpl. auto.
  - destruct Hm as [|y m Hm Hy]; [exfalso; apply (H x); simpl; auto|].
    rewrite Forall_forall in *.
    assert (x = y).
    { destruct (proj1 (H x)) as [|Hi]; simpl; auto. destruct (proj2 (H y)) as [|Hj]; simpl; auto.
      apply Hx in Hj. apply Hy in Hi. lia. }
    subst. f_equal. apply IH; auto. intro p. specialize (H p). simpl in H. split; intro Hp.
    + destruct (proj1 H (or_intror Hp)); auto. subst. apply Hx in Hp. lia.
    + destruct (proj2 H (or_intror Hp)); auto. subst. apply Hy in Hp. lia.
Qed.

(** Whatever selects, by sorting or by partition: what meets the specification is this list. *)
Theorem law15_kept_set_is_unique : forall keep sink recent kept kept',
  specified keep sink recent kept -> specified keep sink recent kept' -> kept = kept'.
Proof.
  intros keep sink recent kept kept' (Hs & Hn & Hr & He & Hl & Hh) (Hs' & Hn' & Hr' & He' & Hl' & Hh').
  set (first := earliest keep sink) in *. set (final := latest keep sink recent) in *.
  assert (Hnd : forall l, StronglySorted lt l -> NoDup l).
  { induction 1 as [|x l Hl0 IH Hx]; constructor; auto. intro Hi. rewrite Forall_forall in Hx. apply Hx in Hi. lia. }
  assert (Hsub : forall l m, StronglySorted lt l -> length l = length m -> (forall p, In p l -> In p m) ->
                             forall p, In p m -> In p l).
  { intros l m Hl0 Hlen Hi. apply NoDup_length_incl; auto. lia. }
  apply sorted_lists_equal; auto.
  assert (Hall : forall p, In p kept -> In p kept').
  { intros a Ha. destruct (in_dec Nat.eq_dec a kept') as [|Hna]; auto. exfalso.
    destruct (Exists_dec (fun b => ~ In b kept) kept') as [Hex|Hno].
    { intro b. destruct (in_dec Nat.eq_dec b kept); [right|left]; auto. }
    - apply Exists_exists in Hex as (b & Hb & Hnb).
      assert (Ha' : first <= a < positions - final).
      { pose proof (Hr a Ha). destruct (Nat.lt_ge_cases a first); [exfalso; auto|].
        destruct (Nat.lt_ge_cases a (positions - final)); [lia|exfalso; apply Hna, Hl'; lia]. }
      assert (Hb' : first <= b < positions - final).
      { pose proof (Hr' b Hb). destruct (Nat.lt_ge_cases b first); [exfalso; auto|].
        destruct (Nat.lt_ge_cases b (positions - final)); [lia|exfalso; apply Hnb, Hl; lia]. }
      apply (goes_first_asymmetric a b); [apply Hh | apply Hh']; auto.
    - assert (Hi : forall p, In p kept' -> In p kept).
      { intros p Hp. destruct (in_dec Nat.eq_dec p kept); auto. exfalso. apply Hno, Exists_exists. eauto. }
      apply Hna. apply (Hsub kept' kept); auto. lia. }
  intro p. split; auto. apply (Hsub kept kept'); auto. lia.
Qed.

Theorem law15_recent : forall keep, keep <= positions -> kept_by_mass keep 0 keep = kept_recent keep.
Proof.
  intros keep Hk. apply (law15_kept_set_is_unique keep 0 keep); [now apply law15_kept_set|].
  unfold specified, kept_recent, latest, earliest. rewrite !Nat.min_l by auto. rewrite Nat.sub_0_r, Nat.min_id.
  repeat split.
  - generalize (positions - keep). induction keep; intro k; simpl; constructor; [apply IHkeep; lia|].
    apply Forall_forall. intros x Hx. apply in_seq in Hx. lia.
  - apply seq_length.
  - intros p Hp. apply in_seq in Hp. lia.
  - intros p Hp. lia.
  - intros p Hp. apply in_seq. lia.
  - intros a b Ha _ Hia. apply in_seq in Hia. lia.
Qed.

End Eviction.

(** A tile as optimized/attend.cpp computes it: some queries in order, each with its own visible rows, over the range of
    rows that some of them see. Scores row by row for all queries; then query by query cap, softmax and importance; then
    the weighted sum row by row for all queries. In a scratch buffer with anything in it. *)
From Coq Require Import List Arith Lia.
From KvStructure Require Import Lists Arithmetic Attend.
Import ListNotations.

Section Tile.
Context {A : Arithmetic} {S : Storage A} (t : Task S).

Definition nobody : Query A := {| vector := []; sink := None; from := 0; upto := 0 |}.
Definition vector_of (queries : list (Query A)) (u : nat) : list A := vector (nth u queries nobody).

(** Kernel scores: rows outer, queries inner. Row r of the tile is row first + r of the cache. *)
Definition tile_scores (queries : list (Query A)) (first rows : nat) (p : list (list A)) : list (list A) :=
  fold_left
    (fun p r =>
       fold_left (fun p u => update u (set r (raw_score t (vector_of queries u) (first + r))) p) (seq 0 (length p)) p)
    (seq 0 rows) p.

(** Kernel softmax_row, whose lanes start where it is told to. *)
Definition softmax_row (first_lane : nat) (row : list A) (sigma : option A) : list A := softmax first_lane row sigma.

(** Cap, softmax and fill for one query's row of the buffer: what it sees is capped and normalized, the rest becomes 0. *)
Definition seen (q : Query A) (first : nat) (row : list A) : list A :=
  softmax_row (from q mod lanes) (map (cap t) (firstn (upto q - from q) (skipn (from q - first) row))) (sink q).

Definition fill (q : Query A) (first rows : nat) (probs : list A) : list A :=
  repeat zero (from q - first) ++ probs ++ repeat zero (first + rows - upto q).

(** Query by query, the accumulator passed on. *)
Fixpoint tile_softmax (queries : list (Query A)) (first rows : nat) (p : list (list A)) (acc : list A)
  : list (list A) * list A :=
  match queries, p with
  | q :: queries, row :: p =>
      let probs := seen q first row in
      let (p, acc) := tile_softmax queries first rows p (accumulate (from q) probs acc) in
      (fill q first rows probs :: p, acc)
  | _, _ => ([], acc)
  end.

(** Kernel weighted_sum: rows outer, queries inner; a weight of zero is skipped. *)
Definition tile_sum (first rows : nat) (p out : list (list A)) : list (list A) :=
  fold_left
    (fun out r => fold_left (fun out u => update u (weigh_row t (first + r) (nth r (nth u p []) zero)) out)
                            (seq 0 (length out)) out)
    (seq 0 rows) out.

Definition attend_tile (scratch : list (list A)) (queries : list (Query A)) (first rows : nat) (acc : list A)
  : list (list A) * list A :=
  let p := tile_scores queries first rows scratch in
  let (p, acc) := tile_softmax queries first rows p acc in
  let out := tile_sum first rows p (repeat (repeat zero (head_dim t)) (length queries)) in
  (map (finish S) out, acc).

(** What the tile's range promises of a query: it sees something, and nothing outside. *)
Definition within (first rows : nat) (q : Query A) : Prop :=
  first <= from q /\ from q < upto q /\ upto q <= first + rows.

Definition scratch_for (queries : list (Query A)) (rows : nat) (scratch : list (list A)) : Prop :=
  length scratch = length queries /\ Forall (fun row => length row = rows) scratch.

(** 1. The scores kernel leaves in the buffer what each query alone would compute. *)
Lemma tile_scores_each queries first rows scratch :
  scratch_for queries rows scratch ->
  tile_scores queries first rows scratch = map (fun q => map (raw_score t (vector q)) (seq first rows)) queries.
Proof.
  intros [Hl Hf]. unfold tile_scores.
  rewrite (rows_outer_cells_inner (fun r u => set r (raw_score t (vector_of queries u) (first + r)))).
  rewrite (map_at_nth queries nobody _ (fun q _ => map (raw_score t (vector q)) (seq first rows))); auto.
  - clear Hf. revert scratch Hl. induction queries as [|q queries IH]; intros [|row scratch] Hl; simpl in *;
      try discriminate; auto. f_equal. apply IH. lia.
  - intros u row _ Hr. rewrite Forall_forall in Hf.
    rewrite set_all by auto.
    replace (seq first rows) with (seq (first + 0) rows) by (f_equal; lia). now rewrite seq_from, map_map.
Qed.

(** 2. What a query sees of its row are its probabilities; a lane is chosen by the absolute index of the row. *)
Lemma softmax_lane first scores sigma : softmax (first mod lanes) scores sigma = softmax (A := A) first scores sigma.
Proof.
  unfold softmax, denominator.
  erewrite fold_left_ext_in; [reflexivity|].
  intros lane i _. cbv beta. rewrite Nat.add_mod_idemp_l by discriminate. reflexivity.
Qed.

Lemma seen_probabilities q first rows :
  within first rows q -> seen q first (map (raw_score t (vector q)) (seq first rows)) = probabilities t q.
Proof.
  intros (Hb & Hbe & He). unfold seen, softmax_row, probabilities.
  rewrite slice_map_seq by lia. replace (first + (from q - first)) with (from q) by lia.
  now rewrite softmax_lane, map_map.
Qed.

Lemma tile_softmax_each queries first rows acc :
  Forall (within first rows) queries ->
  tile_softmax queries first rows (map (fun q => map (raw_score t (vector q)) (seq first rows)) queries) acc =
  (map (fun q => fill q first rows (probabilities t q)) queries, snd (attend_each t acc queries)).
Proof.
  intro H. revert acc. induction H as [|q queries Hq _ IH]; intro acc; simpl; auto.
  rewrite (seen_probabilities q first rows) by auto. rewrite IH.
  unfold attend_one, sees_nothing. destruct Hq as (? & ? & ?).
  destruct (Nat.leb_spec (upto q) (from q)); [lia|]. simpl.
  now destruct (attend_each t _ queries).
Qed.

(** 3. Rows outside a query's own weigh zero, and what weighs zero is skipped: nothing is known of their values. *)
Definition zero_is_skipped (first rows : nat) : Prop :=
  forall p, first <= p < first + rows -> is_zero (weight S zero (value t p)) = true.

Lemma fill_sum q first rows out :
  within first rows q -> zero_is_skipped first rows ->
  fold_left (fun x r => weigh_row t (first + r) (nth r (fill q first rows (probabilities t q)) zero) x)
            (seq 0 rows) out =
  fold_left (fun x pw => weigh_row t (fst pw) (snd pw) x)
            (combine (seq (from q) (upto q - from q)) (probabilities t q)) out.
Proof.
  intros (Hb & Hbe & He) Hz.
  assert (Hs : forall p x, first <= p < first + rows -> weigh_row t p zero x = x).
  { intros p x Hp. unfold weigh_row. now rewrite Hz. }
  pose proof (probabilities_length t q) as Hn. set (n := upto q - from q) in *. set (probs := probabilities t q) in *.
  set (before := from q - first). set (after := first + rows - upto q).
  assert (Hrows : seq 0 rows = seq 0 before ++ seq before n ++ seq (before + n) after).
  { replace rows with (before + (n + after)) at 1 by lia. now rewrite !seq_app. }
  rewrite Hrows, !fold_left_app. clear Hrows.
  rewrite (fold_left_skip _ (seq 0 before)).
  2:{ intros x r Hr. apply in_seq in Hr. unfold fill. rewrite app_nth1 by (rewrite repeat_length; lia).
      rewrite nth_repeat. apply Hs. lia. }
  rewrite (fold_left_skip _ (seq (before + n) after)).
  2:{ intros x r Hr. apply in_seq in Hr. unfold fill. rewrite app_nth2 by (rewrite repeat_length; lia).
      rewrite app_nth2 by (rewrite repeat_length; lia). rewrite nth_repeat. apply Hs. lia. }
  replace (seq (from q) n) with (seq (from q) (length probs)) by now rewrite Hn.
  rewrite (fold_places (fun x p w => weigh_row t p w x) zero). rewrite Hn.
  replace (seq before n) with (seq (before + 0) n) by (f_equal; lia). rewrite seq_from, fold_left_map.
  apply fold_left_ext_in. intros x i Hi. apply in_seq in Hi. simpl.
  unfold fill. rewrite app_nth2 by (rewrite repeat_length; lia). rewrite repeat_length.
  rewrite app_nth1 by lia. f_equal; [lia|]. f_equal. lia.
Qed.

Lemma tile_sum_each queries first rows :
  Forall (within first rows) queries -> zero_is_skipped first rows ->
  map (finish S) (tile_sum first rows (map (fun q => fill q first rows (probabilities t q)) queries)
                           (repeat (repeat zero (head_dim t)) (length queries))) =
  map (output t) queries.
Proof.
  intros Hq Hz. unfold tile_sum.
  set (p := map (fun q => fill q first rows (probabilities t q)) queries).
  rewrite (rows_outer_cells_inner (fun r u => weigh_row t (first + r) (nth r (nth u p []) zero))).
  rewrite (map_at_nth queries nobody _
             (fun q x => fold_left (fun x r => weigh_row t (first + r)
                                                (nth r (fill q first rows (probabilities t q)) zero) x) (seq 0 rows) x)).
  - rewrite map_map. clear p. induction Hq as [|q queries Hq _ IH]; simpl; auto. f_equal; auto.
    unfold output. f_equal. now apply fill_sum.
  - apply repeat_length.
  - intros u x Hu _. simpl. unfold p.
    rewrite (nth_indep _ [] (fill nobody first rows (probabilities t nobody))) by (now rewrite map_length).
    now rewrite (map_nth (fun q => fill q first rows (probabilities t q))).
Qed.

Lemma attend_each_outputs acc queries first rows :
  Forall (within first rows) queries -> fst (attend_each t acc queries) = map (output t) queries.
Proof.
  intro H. revert acc. induction H as [|q queries Hq _ IH]; intro acc; simpl; auto.
  unfold attend_one, sees_nothing. destruct Hq as (? & ? & ?).
  destruct (Nat.leb_spec (upto q) (from q)); [lia|].
  specialize (IH (accumulate (from q) (probabilities t q) acc)).
  destruct (attend_each t _ queries). simpl in *. now f_equal.
Qed.

(** A tile gives every query what it would get alone, in order, whatever the scratch buffer held. *)
Theorem tile_is_each scratch queries first rows acc :
  scratch_for queries rows scratch -> Forall (within first rows) queries -> zero_is_skipped first rows ->
  attend_tile scratch queries first rows acc = attend_each t acc queries.
Proof.
  intros Hs Hq Hz. unfold attend_tile.
  rewrite tile_scores_each by auto. rewrite tile_softmax_each by auto. rewrite tile_sum_each by auto.
  rewrite <- (attend_each_outputs acc queries first rows) by auto.
  now destruct (attend_each t acc queries).
Qed.

End Tile.

(** The optimized ring keeps its rollback rows in a circle of 64 (optimized/ring.cpp). It is the ring of Ring.v, whose
    rollback rows are a list, newest first: one step of the one is one step of the other. *)
From Coq Require Import List Arith Lia.
From KvStructure Require Import Lists Ring.
Import ListNotations.

Section Circular.
Context {Row : Type} (nothing : Row).

Record Circular := {
  cells : list Row;  (* the ring's slots *)
  place : nat;  (* its position *)
  undo : list Row;  (* 64 rows *)
  undo_next : nat;  (* the cell written next *)
  undo_count : nat;
}.

Definition circular_insert (c : Circular) (x : Row) : Circular :=
  let slot := place c mod length (cells c) in {|
  cells := set slot x (cells c);
  place := place c + 1;
  undo := set (undo_next c) (nth slot (cells c) nothing) (undo c);
  undo_next := (undo_next c + 1) mod undo_depth;
  undo_count := min (undo_count c + 1) undo_depth
|}.

Definition circular_take_back_one (c : Circular) : Circular :=
  let place' := place c - 1 in
  let next := (undo_next c + undo_depth - 1) mod undo_depth in {|
  cells := set (place' mod length (cells c)) (nth next (undo c) nothing) (cells c);
  place := place';
  undo := undo c;
  undo_next := next;
  undo_count := undo_count c - 1
|}.

Fixpoint circular_take_back (m : nat) (c : Circular) : Circular :=
  match m with
  | O => c
  | S m => circular_take_back m (circular_take_back_one c)
  end.

(** Rollback row i, the newest being row 0. *)
Definition undo_row (c : Circular) (i : nat) : Row := nth ((undo_next c + undo_depth - 1 - i) mod undo_depth) (undo c) nothing.

Definition as_ring (c : Circular) : Ring Row :=
  {| slots := cells c; position := place c; saved := map (undo_row c) (seq 0 (undo_count c)) |}.

Definition fits (c : Circular) : Prop :=
  0 < length (cells c) /\ length (undo c) = undo_depth /\ undo_next c < undo_depth /\ undo_count c <= undo_depth.

Lemma depth_positive : 0 < undo_depth.
Proof. unfold undo_depth. lia. Qed.

Lemma insert_fits c x : fits c -> fits (circular_insert c x).
Proof.
  intros (Hc & Hu & Hn & Hm). pose proof depth_positive. unfold fits, circular_insert.
  cbn [cells undo undo_next undo_count]. rewrite !set_length.
  repeat split; auto; [apply Nat.mod_upper_bound; lia | lia].
Qed.

Lemma insert_as_ring c x : fits c -> as_ring (circular_insert c x) = insert nothing (as_ring c) x.
Proof.
  intros (Hc & Hu & Hn & Hm). pose proof depth_positive as Hd.
  unfold as_ring, insert, row_at, slot, size. cbn [slots position saved]. f_equal.
  assert (Hnew : undo_row (circular_insert c x) 0 = nth (place c mod length (cells c)) (cells c) nothing).
  { unfold undo_row, circular_insert. cbn [undo undo_next]. rewrite Nat.sub_0_r, <- Nat.add_sub_assoc by lia.
    rewrite Nat.add_mod_idemp_l by lia. replace (undo_next c + 1 + (undo_depth - 1)) with (undo_next c + 1 * undo_depth) by lia.
    rewrite Nat.mod_add, Nat.mod_small by lia. apply nth_set_same. lia. }
  assert (Hold : forall i, i < undo_depth - 1 -> undo_row (circular_insert c x) (S i) = undo_row c i).
  { intros i Hi. unfold undo_row, circular_insert. cbn [undo undo_next].
    replace ((undo_next c + 1) mod undo_depth + undo_depth - 1 - S i)
      with ((undo_next c + 1) mod undo_depth + (undo_depth - 1 - S i)) by lia.
    rewrite Nat.add_mod_idemp_l by lia.
    replace (undo_next c + 1 + (undo_depth - 1 - S i)) with (undo_next c + undo_depth - 1 - i) by lia.
    apply nth_set_other. intro He.
    apply (mod_distinct (undo_next c) (undo_next c + undo_depth - 1 - i) undo_depth); [lia | lia |].
    now rewrite (Nat.mod_small (undo_next c)) by lia. }
  assert (Hw : exists w, undo_depth = S w) by (exists (undo_depth - 1); lia). destruct Hw as [w Hw].
  cbn [circular_insert undo_count]. rewrite <- Hnew.
  replace (min (undo_count c + 1) undo_depth) with (S (min (undo_count c) w)) by lia.
  replace (firstn undo_depth) with (@firstn Row (S w)) by now rewrite Hw.
  cbn [seq map]. rewrite firstn_cons. f_equal. rewrite <- seq_shift, map_map, firstn_map.
  replace (firstn w (seq 0 (undo_count c))) with (seq 0 (min (undo_count c) w)).
  - apply map_ext_in. intros i Hi. apply in_seq in Hi. apply Hold. lia.
  - destruct (Nat.le_gt_cases (undo_count c) w).
    + rewrite firstn_all2 by (rewrite seq_length; lia). f_equal. lia.
    + rewrite firstn_seq by lia. f_equal. lia.
Qed.

Lemma take_back_fits c : fits c -> fits (circular_take_back_one c).
Proof.
  intros (Hc & Hu & Hn & Hm). pose proof depth_positive. unfold fits, circular_take_back_one.
  cbn [cells undo undo_next undo_count]. rewrite set_length.
  repeat split; auto; [apply Nat.mod_upper_bound; lia | lia].
Qed.

Lemma take_back_as_ring c :
  fits c -> 0 < undo_count c -> as_ring (circular_take_back_one c) = take_back_one nothing (as_ring c).
Proof.
  intros (Hc & Hu & Hn & Hm) Hp. pose proof depth_positive as Hd.
  unfold as_ring, take_back_one, slot, size. cbn [slots position saved].
  destruct (undo_count c) as [|m] eqn:Hcount; [lia|].
  cbn [circular_take_back_one cells place undo_count seq map hd tl]. rewrite Hcount.
  replace (S m - 1) with m by lia. f_equal.
  - unfold undo_row. now rewrite Nat.sub_0_r.
  - rewrite <- seq_shift, map_map. apply map_ext_in. intros i Hi. apply in_seq in Hi.
    unfold undo_row, circular_take_back_one. cbn [undo undo_next]. f_equal.
    replace ((undo_next c + undo_depth - 1) mod undo_depth + undo_depth - 1 - i)
      with ((undo_next c + undo_depth - 1) mod undo_depth + (undo_depth - 1 - i)) by lia.
    rewrite Nat.add_mod_idemp_l by lia.
    replace (undo_next c + undo_depth - 1 + (undo_depth - 1 - i))
      with (undo_next c + undo_depth - 1 - S i + 1 * undo_depth) by lia.
    now rewrite Nat.mod_add by lia.
Qed.

Definition circular_insert_all (c : Circular) (xs : list Row) : Circular := fold_left circular_insert xs c.

Lemma insert_all_as_ring xs c :
  fits c -> fits (circular_insert_all c xs) /\ as_ring (circular_insert_all c xs) = insert_all nothing (as_ring c) xs.
Proof.
  unfold circular_insert_all, insert_all. revert c; induction xs as [|x xs IH]; intros c H; cbn [fold_left]; auto.
  rewrite <- insert_as_ring by auto. apply IH. now apply insert_fits.
Qed.

Lemma take_back_all_as_ring m c :
  fits c -> m <= undo_count c -> as_ring (circular_take_back m c) = take_back nothing m (as_ring c).
Proof.
  revert c; induction m; intros c H Hm; cbn [circular_take_back take_back]; auto.
  rewrite <- take_back_as_ring by (auto; lia). apply IHm; [now apply take_back_fits|].
  unfold circular_take_back_one. cbn [undo_count]. lia.
Qed.

Lemma sound_as_ring c : fits c -> sound (as_ring c).
Proof.
  intros (Hc & Hu & Hn & Hm). split; [exact Hc|]. unfold as_ring. cbn [saved]. now rewrite map_length, seq_length.
Qed.

(** Law 5 of the optimized ring. *)
Theorem law5_circular_rollback : forall c xs ys,
  fits c -> length ys <= undo_depth ->
  as_ring (circular_take_back (length ys) (circular_insert_all c (xs ++ ys))) =
  limited (undo_depth - length ys) (as_ring (circular_insert_all c xs)).
Proof.
  intros c xs ys H Hy. destruct (insert_all_as_ring (xs ++ ys) c H) as [Hf He].
  rewrite take_back_all_as_ring; auto.
  - rewrite He, law5_ring_rollback by (auto using sound_as_ring). now rewrite (proj2 (insert_all_as_ring xs c H)).
  - pose proof (law5_ring_depth nothing (as_ring c) (xs ++ ys) (proj2 (sound_as_ring c H))) as Hdepth.
    rewrite <- He in Hdepth. unfold as_ring at 1 in Hdepth. cbn [saved] in Hdepth.
    rewrite map_length, seq_length, app_length in Hdepth. rewrite Hdepth. lia.
Qed.

(** What it answers from is the same ring. *)
Theorem law5_circular_is_the_ring : forall c xs,
  fits c -> as_ring (circular_insert_all c xs) = insert_all nothing (as_ring c) xs.
Proof. intros c xs H. now apply insert_all_as_ring. Qed.

End Circular.

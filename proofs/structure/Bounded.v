(** Law 11: what a bounded layer answers is a function of the last min(T, W) inserts. The anchor's attention reads the
    ring by distance: trained sinks first, then the newest row, then older ones, each met by the query turned by its
    distance. *)
From Coq Require Import List Arith Lia.
From KvStructure Require Import Lists Arithmetic Attend Ring.
Import ListNotations.

Section Bounded.
Context {A : Arithmetic}.

(** A row of the ring: key and value of one KV head. *)
Definition KeyValue : Type := (list A * list A)%type.

Record Anchor := {
  query : list A;
  sink_rows : list KeyValue;
  cos : nat -> list A;  (* by distance: [half] *)
  sin : nat -> list A;
  half : nat;
  factor : A;  (* of scores *)
  unwritten : KeyValue;
}.

(** Dimension i is paired with i + half; dimensions past 2 half stay. *)
Definition turned (a : Anchor) (distance : nat) : list A :=
  let x := query a in
  let c i := nth i (cos a distance) zero in
  let s i := nth i (sin a distance) zero in
  let x0 i := nth i x zero in
  let x1 i := nth (i + half a) x zero in
  map (fun i => sub (mul (x0 i) (c i)) (mul (x1 i) (s i))) (seq 0 (half a)) ++
  map (fun i => add (mul (x0 i) (s i)) (mul (x1 i) (c i))) (seq 0 (half a)) ++
  skipn (2 * half a) x.

Definition slot_row (a : Anchor) (r : Ring KeyValue) (distance : nat) : KeyValue :=
  nth ((position r - 1 - distance) mod size r) (slots r) (unwritten a).

Definition bounded_scores (a : Anchor) (r : Ring KeyValue) : list A :=
  map (fun row => mul (dot (query a) (fst row)) (factor a)) (sink_rows a) ++
  map (fun distance => mul (dot (turned a distance) (fst (slot_row a r distance))) (factor a)) (seq 0 (visible r)).

Definition add_value (out : list A) (weighted : A * list A) : list A :=
  if is_zero (fst weighted) then out
  else zip_with (fun x o => fma (fst weighted) x o) (snd weighted) out.

Definition bounded_output (a : Anchor) (r : Ring KeyValue) : list A :=
  let p := softmax 0 (bounded_scores a r) None in
  let sinks := length (sink_rows a) in
  let out := fold_left add_value (combine (firstn sinks p) (map snd (sink_rows a)))
                       (repeat zero (length (query a))) in
  fold_left (fun out distance => add_value out (nth (sinks + distance) p zero, snd (slot_row a r distance)))
            (seq 0 (visible r)) out.

(** Inserting, then answering. *)
Definition bounded_step (a : Anchor) (r : Ring KeyValue) (row : KeyValue) : list A * Ring KeyValue :=
  let r := insert (unwritten a) r row in (bounded_output a r, r).

Lemma output_of_rows a r r' :
  newest_first (unwritten a) r = newest_first (unwritten a) r' -> bounded_output a r = bounded_output a r'.
Proof.
  unfold newest_first. intro H.
  assert (Hv : visible r = visible r') by (apply (f_equal (@length _)) in H; now rewrite !map_length, !seq_length in H).
  assert (Hrow : forall d, d < visible r -> slot_row a r d = slot_row a r' d).
  { intros d Hd. rewrite <- Hv in H. apply (f_equal (fun l => nth_error l d)) in H.
    rewrite !nth_error_map in H. rewrite !(nth_error_nth' _ 0) in H by (now rewrite seq_length).
    rewrite seq_nth in H by auto. simpl in H. now injection H. }
  assert (Hs : bounded_scores a r = bounded_scores a r').
  { unfold bounded_scores. rewrite <- Hv. f_equal. apply map_ext_in. intros d Hd. apply in_seq in Hd.
    now rewrite Hrow by lia. }
  unfold bounded_output. rewrite <- Hs, <- Hv.
  apply fold_left_ext_in. intros out d Hd. apply in_seq in Hd. now rewrite Hrow by lia.
Qed.

(** From a ring that nothing was written to: of two histories with the same last W inserts (all, where there are fewer)
    the answers are the same. *)
Definition empty (zero_row : KeyValue) (w : nat) : Ring KeyValue :=
  {| slots := repeat zero_row w; position := 0; saved := [] |}.

Theorem law11_output_of_the_last_inserts : forall a w zero_row history history',
  0 < w -> firstn w (rev history) = firstn w (rev history') ->
  bounded_output a (insert_all (unwritten a) (empty zero_row w) history) =
  bounded_output a (insert_all (unwritten a) (empty zero_row w) history').
Proof.
  intros a w zero_row history history' Hw H. apply output_of_rows.
  assert (Hs : size (empty zero_row w) = w) by (unfold size; simpl; apply repeat_length).
  rewrite !law11_ring_is_the_last_inserts by lia.
  change (newest_first (unwritten a) (empty zero_row w)) with (@nil KeyValue). now rewrite !app_nil_r, Hs.
Qed.

(** From any two rings of one size, restored or wrapped: after W inserts what came before is forgotten. *)
Theorem law11_longer_history_same_tail : forall a r r' tail,
  size r = size r' -> 0 < size r -> size r <= length tail ->
  bounded_output a (insert_all (unwritten a) r tail) = bounded_output a (insert_all (unwritten a) r' tail).
Proof.
  intros a r r' tail Hr Hw Ht. apply output_of_rows.
  rewrite !law11_ring_is_the_last_inserts, <- Hr by lia.
  rewrite !firstn_app, !rev_length. replace (size r - length tail) with 0 by lia. reflexivity.
Qed.

(** Law 5 for answers: after a rollback the ring answers as if the inserts had not been. *)
Theorem law5_ring_answers_after_rollback : forall a r xs ys zs,
  sound r -> length ys <= undo_depth ->
  bounded_output a (insert_all (unwritten a) (take_back (unwritten a) (length ys) (insert_all (unwritten a) r (xs ++ ys))) zs) =
  bounded_output a (insert_all (unwritten a) r (xs ++ zs)).
Proof.
  intros a r xs ys zs Hr Hy. rewrite law5_ring_rollback by auto.
  unfold insert_all at 3. rewrite fold_left_app. fold (insert_all (unwritten a) r xs).
  fold (insert_all (unwritten a) (insert_all (unwritten a) r xs) zs).
  generalize (insert_all (unwritten a) r xs). generalize (undo_depth - length ys). clear.
  intros k r. apply output_of_rows.
  assert (H : forall r r', slots r = slots r' -> position r = position r' ->
    slots (insert_all (unwritten a) r zs) = slots (insert_all (unwritten a) r' zs) /\
    position (insert_all (unwritten a) r zs) = position (insert_all (unwritten a) r' zs)).
  { clear. induction zs as [|z zs IH]; intros r r' Hs Hp; auto. unfold insert_all in *. cbn [fold_left].
    apply IH; unfold insert, slot, size; cbn [slots position]; now rewrite ?Hs, ?Hp. }
  destruct (H (limited k r) r eq_refl eq_refl) as [Hs Hp].
  unfold newest_first, visible, row_at, slot, size. now rewrite Hs, Hp.
Qed.

End Bounded.

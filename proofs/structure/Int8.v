(** Laws 1 and 2 for int8 rows, between freezes: the canonical product and weight of int8 rows, and the score loops of
    optimized/attend_int8.cpp, which go over groups first and over rows and queries within. *)
From Coq Require Import List Arith ZArith Lia.
From KvStructure Require Import Lists Arithmetic Attend Tile Chunk Layer Sequence.
Import ListNotations.

Section Int8.
Context {A : Arithmetic}.

Definition group := 32.

(** Integers, and a scale for each group. *)
Record Int8Row := { integers : list Z; scales : list A }.

(** A head's columns; none before they are frozen. *)
Definition times (x columns : list A) : list A := match columns with [] => x | _ => zip_with mul x columns end.

Definition piece {T} (g : nat) (l : list T) : list T := firstn group (skipn (g * group) l).

(** One group's term joins the sum: fma(dot, scale, sum). [x] is the query times the columns. *)
Definition add_group (x : list A) (row : Int8Row) (g : nat) (sum : A) : A :=
  fma (dot (piece g x) (map of_integer (piece g (integers row)))) (nth g (scales row) zero) sum.

Definition groups (head_dim : nat) : nat := (head_dim + group - 1) / group.

Definition int8_product (x : list A) (row : Int8Row) : A :=
  fold_left (fun sum g => add_group x row g sum) (seq 0 (groups (length x))) zero.

Definition int8_weight (probability : A) (row : Int8Row) : A := mul probability (nth 0 (scales row) zero).
Definition int8_add_row (w : A) (row : Int8Row) (out : list A) : list A :=
  zip_with (fun x o => fma w (of_integer x) o) (integers row) out.

(** Quantization, and what a freeze makes of rows: any functions. *)
Variables (quantize_key quantize_value : list A -> list A -> Int8Row)
          (freeze_columns : list (list Int8Row) -> list (list Int8Row) -> list (list A) * list (list A))
          (again_key again_value : list A -> Int8Row -> Int8Row).

Definition int8_format : Format A := {|
  columns_type := list (list A) * list (list A);  (* by head: of keys, of values *)
  key_type := Int8Row;
  value_type := Int8Row;
  store_key := fun c h x => quantize_key (nth h (fst c) []) x;
  store_value := fun c h x => quantize_value (nth h (snd c) []) x;
  freezes := true;
  frozen_columns := freeze_columns;
  frozen_key := fun c h row => again_key (nth h (fst c) []) row;
  frozen_value := fun c h row => again_value (nth h (snd c) []) row
|}.

Definition int8_reading : Reading int8_format :=
  @Build_Reading A int8_format
    (fun c h q (row : Int8Row) => int8_product (times q (nth h (fst c) [])) row)
    int8_weight int8_add_row
    (fun c h out => times out (nth h (snd c) []))
    {| integers := []; scales := [] |} {| integers := []; scales := [] |}.

(** A prompt at once = position by position, in an int8 layer that does not freeze meanwhile. *)
Theorem law2_int8_between_freezes : forall hd sc sm h sigmas w garbage sizes (l : Layer int8_format) acc steps,
  whole h l -> no_freeze l (length steps) ->
  (forall step, In step steps -> length (queries step) = length sigmas) ->
  tiling (call sigmas w l steps) sizes ->
  (forall row : Int8Row, In row (rows_of h (values (append_chunk l (map rows steps)))) ->
     is_zero (mul zero (nth 0 (scales row) zero)) = true) ->
  all_at_once int8_reading hd sc sm h sigmas w garbage sizes l acc steps =
  one_at_a_time int8_reading hd sc sm h sigmas w l acc steps.
Proof. intros. now apply law2_chunk_is_sequence. Qed.

(** The score loops of one block of rows: sums start at zero; groups outer, then queries, then rows. *)
Definition no_row : Int8Row := {| integers := []; scales := [] |}.

Definition block_scores (xs : list (list A)) (block : list Int8Row) (group_count : nat) : list (list A) :=
  fold_left
    (fun sums g =>
       fold_left (fun sums u =>
         fold_left (fun sums i => update u (update i (add_group (nth u xs []) (nth i block no_row) g)) sums)
                   (seq 0 (length block)) sums)
       (seq 0 (length xs)) sums)
    (seq 0 group_count) (repeat (repeat zero (length block)) (length xs)).

Lemma update_update {T} u (f g : T -> T) (m : list T) : update u f (update u g m) = update u (fun x => f (g x)) m.
Proof. revert u; induction m; intros [|u]; simpl; f_equal; auto. Qed.

Lemma update_id {T} u (m : list T) : update u (fun x => x) m = m.
Proof. revert u; induction m; intros [|u]; simpl; f_equal; auto. Qed.

Lemma update_ext {T} u (f g : T -> T) (m : list T) : (forall x, f x = g x) -> update u f m = update u g m.
Proof. intro H. revert u; induction m; intros [|u]; simpl; f_equal; auto. Qed.

(** A loop within one cell is a loop of the cell. *)
Lemma fold_in_cell {T} u (step : nat -> T -> T) is (m : list T) :
  fold_left (fun m i => update u (step i) m) is m = update u (fun x => fold_left (fun x i => step i x) is x) m.
Proof.
  revert m; induction is as [|i is IH]; intro m; cbn [fold_left]; [now rewrite update_id|].
  now rewrite IH, update_update.
Qed.

Theorem law2_int8_block_scores : forall xs block head_dim,
  (forall x, In x xs -> length x = head_dim) ->
  block_scores xs block (groups head_dim) = map (fun x => map (int8_product x) block) xs.
Proof.
  intros xs block head_dim Hx. unfold block_scores.
  assert (Hcell : forall u g (m : list (list A)),
    fold_left (fun sums i => update u (update i (add_group (nth u xs []) (nth i block no_row) g)) sums)
              (seq 0 (length block)) m =
    update u (fun row => fold_left (fun row i => update i (add_group (nth u xs []) (nth i block no_row) g) row)
                                   (seq 0 (length block)) row) m).
  { intros u g m. apply (fold_in_cell u (fun i => update i (add_group (nth u xs []) (nth i block no_row) g))). }
  set (start := repeat (repeat zero (length block)) (length xs)).
  assert (Hlen : length start = length xs) by apply repeat_length.
  assert (Hrows : forall row, In row start -> length row = length block).
  { intros row Hr. apply repeat_spec in Hr. subst. apply repeat_length. }
  (* queries: the exchange of groups and queries *)
  transitivity (map_at (fun u row => fold_left (fun row g =>
    fold_left (fun row i => update i (add_group (nth u xs []) (nth i block no_row) g) row) (seq 0 (length block)) row)
    (seq 0 (groups head_dim)) row) 0 start).
  { rewrite <- (rows_outer_cells_inner (fun g u row =>
      fold_left (fun row i => update i (add_group (nth u xs []) (nth i block no_row) g) row) (seq 0 (length block)) row)).
    revert Hlen. generalize start. generalize (seq 0 (groups head_dim)). clear - Hcell.
    induction l as [|g l IH]; intros m Hm; cbn [fold_left]; auto.
    assert (Hone : fold_left (fun sums u =>
        fold_left (fun sums i => update u (update i (add_group (nth u xs []) (nth i block no_row) g)) sums)
                  (seq 0 (length block)) sums) (seq 0 (length xs)) m =
      fold_left (fun l i => update i (fun row => fold_left (fun row i0 =>
        update i0 (add_group (nth i xs []) (nth i0 block no_row) g) row) (seq 0 (length block)) row) l)
        (seq 0 (length m)) m).
    { rewrite Hm. apply fold_left_ext_in. intros sums u _. apply Hcell. }
    rewrite Hone. apply IH. rewrite update_each, map_at_length. exact Hm. }
  (* rows: the exchange of groups and rows, for each query *)
  rewrite (map_at_nth xs [] _ (fun x row => map_at (fun i sum =>
    fold_left (fun sum g => add_group x (nth i block no_row) g sum) (seq 0 (groups head_dim)) sum) 0 row)); auto.
  - unfold start. clear - Hx. induction xs as [|x xs IH]; simpl; auto. f_equal; [|apply IH; intros; apply Hx; simpl; auto].
    rewrite (map_at_nth block no_row _ (fun row sum =>
      fold_left (fun sum g => add_group x row g sum) (seq 0 (groups head_dim)) sum)) by (auto using repeat_length).
    unfold int8_product. rewrite (Hx x) by (simpl; auto).
    clear. induction block; simpl; f_equal; auto.
  - intros u row Hu Hr. cbn [Nat.add].
    rewrite <- (rows_outer_cells_inner (fun g i => add_group (nth u xs []) (nth i block no_row) g)).
    apply Hrows in Hr. revert Hr. generalize row. generalize (seq 0 (groups head_dim)). clear.
    induction l as [|g l IH]; intros row Hr; cbn [fold_left]; auto.
    rewrite <- Hr at 1. apply IH. rewrite update_each, map_at_length. exact Hr.
Qed.

End Int8.

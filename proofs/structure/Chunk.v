(** Laws 1 and 2 for one call. Law 1: a group is computed as its heads one by one. Law 2: a chunk is computed in tiles of
    (position, head) pairs, as optimized/attend.cpp does, and gives position by position what attend_group_upto gives. *)
From Coq Require Import List Arith Lia.
From KvStructure Require Import Lists Arithmetic Attend Visible Tile.
Import ListNotations.

Section Chunk.
Context {A : Arithmetic} {S : Storage A} (t : Task S).

(** Query heads of one KV head at some positions. Vectors are [positions][heads]. *)
Record Call := {
  positions : nat;
  vectors : list (list A);
  sinks : list (option A);  (* one per head *)
  earliest : nat;  (* first row that any position sees *)
  last : nat;  (* position 0 sees rows before this one *)
  window : nat;  (* 0: unlimited *)
}.

Definition heads (c : Call) : nat := length (sinks c).

(** visible_at: rows of a position. *)
Definition begin_at (c : Call) (position : nat) : nat :=
  let upto := last c + position in
  max (earliest c) (if andb (negb (window c =? 0)) (window c <? upto) then upto - window c else 0).
Definition end_at (c : Call) (position : nat) : nat := last c + position.

(** Query number u, positions ascending, then heads. *)
Definition query (c : Call) (u : nat) : Query A := {|
  vector := nth u (vectors c) [];
  sink := nth (u mod heads c) (sinks c) None;
  from := begin_at c (u / heads c);
  upto := end_at c (u / heads c)
|}.

(** Tiles of these sizes, one after the other, each over the rows that some of its queries see. The buffer holds
    anything: number r of row u of the tile that begins at query [start] is [garbage start u r]. *)
Definition buffer (garbage : nat -> nat -> nat -> A) (start count rows : nat) : list (list A) :=
  map (fun u => map (garbage start u) (seq 0 rows)) (seq 0 count).

Definition tile_at garbage (c : Call) (start count : nat) (acc : list A) : list (list A) * list A :=
  let first := begin_at c (start / heads c) in
  let rows := end_at c ((start + count - 1) / heads c) - first in
  attend_tile t (buffer garbage start count rows) (map (query c) (seq start count)) first rows acc.

Fixpoint attend_tiles garbage (c : Call) (sizes : list nat) (start : nat) (acc : list A) : list (list A) * list A :=
  match sizes with
  | [] => ([], acc)
  | count :: sizes =>
      let (out, acc) := tile_at garbage c start count acc in
      let (outs, acc) := attend_tiles garbage c sizes (start + count) acc in
      (out ++ outs, acc)
  end.

Definition tiling (c : Call) (sizes : list nat) : Prop :=
  Forall (fun count => 1 <= count) sizes /\ list_sum sizes = positions c * heads c.

Definition sees_rows (c : Call) : Prop := earliest c < last c.

Lemma begin_at_mono c i j : i <= j -> begin_at c i <= begin_at c j.
Proof.
  intro H. unfold begin_at. apply Nat.max_le_compat_l.
  destruct (Nat.eqb_spec (window c) 0); simpl; [lia|].
  destruct (Nat.ltb_spec (window c) (last c + i)), (Nat.ltb_spec (window c) (last c + j)); lia.
Qed.

Lemma begin_before_end c i : sees_rows c -> begin_at c i < end_at c i.
Proof.
  unfold sees_rows, begin_at, end_at. intro H.
  destruct (Nat.eqb_spec (window c) 0); simpl; [lia|].
  destruct (Nat.ltb_spec (window c) (last c + i)); lia.
Qed.

Lemma tile_within c start count :
  sees_rows c -> 1 <= count ->
  let first := begin_at c (start / heads c) in
  let rows := end_at c ((start + count - 1) / heads c) - first in
  Forall (within first rows) (map (query c) (seq start count)).
Proof.
  intros Hs Hc first rows. apply Forall_forall. intros q Hq. apply in_map_iff in Hq as (u & <- & Hu). apply in_seq in Hu.
  assert (H1 : start / heads c <= u / heads c) by (destruct (heads c); [simpl; lia|apply Nat.div_le_mono; lia]).
  assert (H2 : u / heads c <= (start + count - 1) / heads c)
    by (destruct (heads c); [simpl; lia|apply Nat.div_le_mono; lia]).
  pose proof (begin_at_mono c _ _ H1). pose proof (begin_before_end c (u / heads c) Hs).
  unfold within, rows, first. simpl. unfold end_at in *. lia.
Qed.

Lemma buffer_shape garbage start count rows queries :
  length queries = count -> scratch_for queries rows (buffer garbage start count rows).
Proof.
  intro H. split.
  - unfold buffer. now rewrite map_length, seq_length.
  - unfold buffer. apply Forall_forall. intros row Hr. apply in_map_iff in Hr as (u & <- & _).
    now rewrite map_length, seq_length.
Qed.

Lemma attend_tiles_each garbage c sizes start acc :
  sees_rows c -> zero_is_skipped t 0 (last c + positions c - 1) -> Forall (fun count => 1 <= count) sizes ->
  start + list_sum sizes <= positions c * heads c ->
  attend_tiles garbage c sizes start acc = attend_each t acc (map (query c) (seq start (list_sum sizes))).
Proof.
  intros Hs Hz Hf. revert start acc. induction Hf as [|count sizes Hc _ IH]; intros start acc Hsum; simpl; auto.
  simpl in Hsum. rewrite seq_app, map_app, attend_each_app.
  unfold tile_at. rewrite tile_is_each.
  - destruct (attend_each t acc _) as [out acc1]. rewrite IH by lia. reflexivity.
  - apply buffer_shape. now rewrite map_length, seq_length.
  - now apply tile_within.
  - intros p Hp. apply Hz. unfold end_at in Hp.
    assert ((start + count - 1) / heads c < positions c); [|lia].
    apply Nat.div_lt_upper_bound; lia.
Qed.

(** What positions give one after the other: attend_group_upto on the heads of each. *)
Definition group_queries (vectors : list (list A)) (sinks : list (option A)) (first rows : nat) : list (Query A) :=
  map (fun vs => {| vector := fst vs; sink := snd vs; from := min first (rows - 1); upto := rows |})
      (combine vectors sinks).

Definition attend_group_upto (stored : nat) (vectors : list (list A)) (sinks : list (option A)) (first upto : nat)
    (acc : list A) : list (list A) * list A :=
  attend_each t acc (group_queries vectors sinks first (min stored upto)).

Fixpoint in_turn {X} (f : list A -> X -> list (list A) * list A) (acc : list A) (xs : list X) :=
  match xs with
  | [] => ([], acc)
  | x :: xs =>
      let (out, acc) := f acc x in
      let (outs, acc) := in_turn f acc xs in
      (out ++ outs, acc)
  end.

Definition vectors_at (c : Call) (i : nat) : list (list A) := firstn (heads c) (skipn (i * heads c) (vectors c)).

(** The window of position i of a chunk counts the position itself. *)
Definition first_in_window (window upto : nat) : nat := if window =? 0 then 0 else upto - window.

Definition position_in_turn (c : Call) (stored : nat) (acc : list A) (i : nat) : list (list A) * list A :=
  let upto := last c + i in
  attend_group_upto stored (vectors_at c i) (sinks c) (max (earliest c) (first_in_window (window c) upto)) upto acc.

Lemma queries_at c i stored :
  sees_rows c -> i < positions c -> length (vectors c) = positions c * heads c -> last c + i <= stored ->
  map (query c) (seq (i * heads c) (heads c)) =
  group_queries (vectors_at c i) (sinks c) (max (earliest c) (first_in_window (window c) (last c + i)))
                (min stored (last c + i)).
Proof.
  intros Hs Hi Hl Hst. unfold group_queries.
  assert (Hn : length (vectors_at c i) = heads c)
    by (unfold vectors_at; rewrite firstn_length, skipn_length; nia).
  replace (combine (vectors_at c i) (sinks c))
    with (map (fun h => (nth h (vectors_at c i) [], nth h (sinks c) None)) (seq 0 (heads c))).
  - replace (seq (i * heads c) (heads c)) with (seq (i * heads c + 0) (heads c)) by (f_equal; lia).
    rewrite seq_from, !map_map. apply map_ext_in. intros h Hh. apply in_seq in Hh. simpl.
    unfold query. rewrite Nat.add_comm, Nat.div_add, Nat.mod_add, Nat.div_small, Nat.mod_small by lia. simpl.
    f_equal.
    + unfold vectors_at. rewrite nth_firstn, nth_skipn by lia. f_equal. lia.
    + unfold begin_at, first_in_window, sees_rows in *.
      destruct (Nat.eqb_spec (window c) 0); simpl; [lia|].
      destruct (Nat.ltb_spec (window c) (last c + i)); lia.
    + unfold end_at. lia.
  - rewrite <- Hn. unfold heads in Hn. revert Hn. generalize (sinks c). generalize (vectors_at c i).
    induction l as [|v l IH]; intros [|s l'] Hn; simpl in *; try discriminate; auto.
    f_equal. rewrite <- seq_shift, map_map. apply IH. lia.
Qed.

Lemma in_turn_each c stored k acc :
  sees_rows c -> length (vectors c) = positions c * heads c -> last c + positions c <= stored + 1 ->
  forall i, i + k <= positions c ->
  in_turn (position_in_turn c stored) acc (seq i k) =
  attend_each t acc (map (query c) (seq (i * heads c) (k * heads c))).
Proof.
  intros Hs Hl Hst. revert acc. induction k; intros acc i Hi; simpl; auto.
  rewrite seq_app, map_app, attend_each_app.
  unfold position_in_turn at 1, attend_group_upto. rewrite <- (queries_at c i stored) by (auto; lia).
  destruct (attend_each t acc _) as [out acc1].
  rewrite IHk by lia. simpl. now rewrite (Nat.add_comm (i * heads c)).
Qed.

(** Law 2 for one call. Any tiling, any window, any garbage in the buffer. *)
Theorem law2_tiles_are_positions : forall garbage c sizes stored acc,
  sees_rows c -> tiling c sizes -> length (vectors c) = positions c * heads c ->
  last c + positions c <= stored + 1 -> zero_is_skipped t 0 (last c + positions c - 1) ->
  attend_tiles garbage c sizes 0 acc = in_turn (position_in_turn c stored) acc (seq 0 (positions c)).
Proof.
  intros garbage c sizes stored acc Hs [Hf Hsum] Hl Hst Hz.
  rewrite attend_tiles_each by (auto; lia). rewrite in_turn_each by auto. simpl. now rewrite Hsum.
Qed.

End Chunk.

Arguments Call : clear implicits.

(** Law 1, grouping: a group of query heads, computed rows outer and heads inner in tiles, is its heads one by one; and
    law 2 for one prompt split into several chunks. *)
From Coq Require Import List Arith Lia.
From KvStructure Require Import Lists Arithmetic Attend Visible Tile Chunk.
Import ListNotations.

Section Grouping.
Context {A : Arithmetic} {S : Storage A} (t : Task S).

(** Head h of a call at one position, alone. *)
Definition one_head (c : Call A) (h : nat) : Call A := {|
  positions := 1;
  vectors := [nth h (vectors c) []];
  sinks := [nth h (sinks c) None];
  earliest := earliest c;
  last := last c;
  window := window c
|}.

Definition well_formed (c : Call A) : Prop :=
  sees_rows c /\ length (vectors c) = positions c * heads c /\ zero_is_skipped t 0 (last c + positions c - 1).

Lemma one_head_query c h : h < heads c -> query (one_head c h) 0 = query c h.
Proof. intro H. unfold query. simpl. rewrite Nat.div_small, Nat.mod_small by auto. reflexivity. Qed.

Theorem law1_grouping : forall garbage garbage' c sizes acc,
  positions c = 1 -> tiling c sizes -> well_formed c ->
  attend_tiles t garbage c sizes 0 acc =
  in_turn (fun acc h => attend_tiles t (garbage' h) (one_head c h) [1] 0 acc) acc (seq 0 (heads c)).
Proof.
  intros garbage garbage' c sizes acc Hp [Hf Hsum] (Hs & Hl & Hz).
  rewrite attend_tiles_each by (auto; lia). rewrite Hsum, Hp, Nat.mul_1_l.
  enough (H : forall n k acc, k + n <= heads c ->
    attend_each t acc (map (query c) (seq k n)) =
    in_turn (fun acc h => attend_tiles t (garbage' h) (one_head c h) [1] 0 acc) acc (seq k n)) by (apply H; lia).
  induction n; intros k acc' Hk; [reflexivity|]. cbn [seq in_turn].
  rewrite attend_tiles_each.
  - change (map (query (one_head c k)) (seq 0 (list_sum [1]))) with [query (one_head c k) 0].
    rewrite one_head_query by lia.
    change (map (query c) (k :: seq (Datatypes.S k) n)) with ([query c k] ++ map (query c) (seq (Datatypes.S k) n)).
    rewrite attend_each_app. destruct (attend_each t acc' [query c k]) as [out acc1]. now rewrite IHn by lia.
  - exact Hs.
  - simpl. now rewrite Hp in Hz.
  - repeat constructor.
  - simpl. lia.
Qed.

(** The group is also what the specification says of its heads. *)
Theorem law1_group_is_specified : forall garbage c sizes stored acc,
  positions c = 1 -> window c = 0 -> last c <= stored -> tiling c sizes -> well_formed c ->
  attend_tiles t garbage c sizes 0 acc =
  attend_group_upto t stored (vectors c) (sinks c) (earliest c) (last c) acc.
Proof.
  intros garbage c sizes stored acc Hp Hw Hst Ht (Hs & Hl & Hz).
  rewrite (law2_tiles_are_positions t garbage c sizes stored) by (auto; lia). rewrite Hp. simpl.
  unfold position_in_turn, vectors_at, first_in_window. rewrite Hw. simpl.
  rewrite Nat.max_0_r, Nat.add_0_r, firstn_all2 by lia.
  destruct (attend_group_upto _ _ _ _ _ _ _). now rewrite app_nil_r.
Qed.

(** Positions [i, i + n) of a call, as a call of its own. *)
Definition part (c : Call A) (i n : nat) : Call A := {|
  positions := n;
  vectors := firstn (n * heads c) (skipn (i * heads c) (vectors c));
  sinks := sinks c;
  earliest := earliest c;
  last := last c + i;
  window := window c
|}.

(** A prompt in parts, each with its own tiling and its own garbage. *)
Fixpoint attend_parts (c : Call A) (parts : list (nat * list nat * (nat -> nat -> nat -> A))) (i : nat) (acc : list A) :=
  match parts with
  | [] => ([], acc)
  | (n, sizes, garbage) :: parts =>
      let (out, acc) := attend_tiles t garbage (part c i n) sizes 0 acc in
      let (outs, acc) := attend_parts c parts (i + n) acc in
      (out ++ outs, acc)
  end.

Lemma part_queries c i n :
  length (vectors c) = positions c * heads c -> i + n <= positions c ->
  map (query (part c i n)) (seq 0 (n * heads c)) = map (query c) (seq (i * heads c) (n * heads c)).
Proof.
  intros Hl Hi. replace (seq (i * heads c) (n * heads c)) with (seq (i * heads c + 0) (n * heads c)) by (f_equal; lia).
  rewrite seq_from, map_map. apply map_ext_in. intros u Hu. apply in_seq in Hu. unfold query.
  change (heads (part c i n)) with (heads c). simpl.
  assert (heads c <> 0) by (intro H0; rewrite H0 in Hu; lia).
  rewrite (Nat.add_comm (i * heads c) u), Nat.div_add, Nat.mod_add by auto.
  f_equal.
  - rewrite nth_firstn, nth_skipn by lia. f_equal. lia.
  - unfold begin_at. simpl. replace (last c + (u / heads c + i)) with (last c + i + u / heads c) by lia. reflexivity.
  - unfold end_at. simpl. lia.
Qed.

Theorem law2_any_split : forall garbage c sizes parts acc,
  tiling c sizes -> well_formed c ->
  list_sum (map (fun p => fst (fst p)) parts) = positions c ->
  Forall (fun p => Forall (fun count => 1 <= count) (snd (fst p)) /\
                   list_sum (snd (fst p)) = fst (fst p) * heads c) parts ->
  attend_tiles t garbage c sizes 0 acc = attend_parts c parts 0 acc.
Proof.
  intros garbage c sizes parts acc [Hf Hsum] (Hs & Hl & Hz) Hn Hp.
  rewrite attend_tiles_each by (auto; lia). rewrite Hsum.
  enough (H : forall parts i acc, Forall (fun p => Forall (fun count => 1 <= count) (snd (fst p)) /\
                   list_sum (snd (fst p)) = fst (fst p) * heads c) parts ->
    let n := list_sum (map (fun p => fst (fst p)) parts) in
    i + n <= positions c ->
    attend_each t acc (map (query c) (seq (i * heads c) (n * heads c))) = attend_parts c parts i acc).
  { specialize (H parts 0 acc Hp). simpl in H. rewrite Hn in H. apply H. lia. }
  clear Hn Hp parts acc. induction parts as [|[[n own] junk] parts IH]; intros i acc Hp; simpl; auto.
  intro Hi. inversion Hp as [|? ? [Hown Hownsum] Hp']; subst. simpl in Hown, Hownsum.
  rewrite Nat.mul_add_distr_r, seq_app, map_app, attend_each_app.
  rewrite attend_tiles_each.
  - rewrite Hownsum, part_queries by (auto; lia).
    destruct (attend_each t acc _) as [out acc1]. rewrite <- Nat.mul_add_distr_r, IH by (auto; lia). reflexivity.
  - unfold sees_rows in *. simpl. lia.
  - intros p Hin. apply Hz. simpl in Hin. lia.
  - exact Hown.
  - simpl. change (heads (part c i n)) with (heads c). lia.
Qed.

(** The tiling of the code: [most] queries at once, the last tile shorter. *)
Definition tiles_of (most total : nat) : list nat :=
  repeat most (total / most) ++ if total mod most =? 0 then [] else [total mod most].

Theorem law2_tiling_of_the_code : forall c : Call A, tiling c (tiles_of 64 (positions c * heads c)).
Proof.
  intro c. unfold tiling. generalize (positions c * heads c). intro total. unfold tiles_of.
  assert (Hr : forall n, list_sum (repeat 64 n) = 64 * n) by (induction n; simpl in *; lia).
  pose proof (Nat.div_mod total 64 ltac:(discriminate)) as Hd. split.
  - apply Forall_app. split.
    + apply Forall_forall. intros x Hx. apply repeat_spec in Hx. lia.
    + destruct (Nat.eqb_spec (total mod 64) 0); constructor; [lia|constructor].
  - rewrite list_sum_app, Hr. destruct (Nat.eqb_spec (total mod 64) 0); cbn [list_sum fold_right]; lia.
Qed.

End Grouping.

(** Law 15, second half: the kept rows move to the front in place, one after the other, and keys, values, scales and
    importance move alike; and the integers by which the optimized cache orders masses. *)
From Coq Require Import List Arith ZArith Lia Sorted.
From KvStructure Require Import Lists Arithmetic Layer Eviction.
Import ListNotations.

Section KeepRows.
Context {T : Type} (nothing : T).

(** for to: row[to] = row[kept[to]]; then only the first |kept| rows count. *)
Fixpoint compact (to : nat) (kept : list nat) (rows : list T) : list T :=
  match kept with
  | [] => rows
  | from :: kept => compact (S to) kept (set to (nth from rows nothing) rows)
  end.

Definition keep_rows (kept : list nat) (rows : list T) : list T := firstn (length kept) (compact 0 kept rows).

Lemma compact_below to kept rows i : i < to -> nth i (compact to kept rows) nothing = nth i rows nothing.
Proof.
  revert to rows; induction kept; simpl; intros to rows H; auto. rewrite IHkept by lia. apply nth_set_other. lia.
Qed.

Lemma compact_length to kept rows : length (compact to kept rows) = length rows.
Proof. revert to rows; induction kept; simpl; intros; auto. now rewrite IHkept, set_length. Qed.

Lemma compact_reads to kept rows :
  StronglySorted lt kept -> Forall (fun p => to <= p < length rows) kept ->
  forall i, i < length kept -> nth (to + i) (compact to kept rows) nothing = nth (nth i kept 0) rows nothing.
Proof.
  intro H. revert to rows. induction H as [|from kept Hs IH Hx]; intros to rows Hf i Hi; simpl in *; [lia|].
  inversion Hf as [|? ? Hfrom Hrest]; subst. destruct i.
  - rewrite Nat.add_0_r, compact_below by lia. apply nth_set_same. lia.
  - rewrite Nat.add_succ_r. rewrite <- Nat.add_succ_l.
    rewrite IH by (try lia; rewrite Forall_forall in *; intros p Hp; specialize (Hx p Hp); specialize (Hrest p Hp);
                   rewrite set_length; lia).
    apply nth_set_other. rewrite Forall_forall in Hx. specialize (Hx (nth i kept 0) ltac:(apply nth_In; lia)). lia.
Qed.

(** Moved in place, row i is the row that kept_i was: nothing is overwritten before it is read. *)
Theorem law15_in_place : forall kept rows,
  StronglySorted lt kept -> Forall (fun p => p < length rows) kept ->
  keep_rows kept rows = map (fun p => nth p rows nothing) kept.
Proof.
  intros kept rows Hs Hf. unfold keep_rows.
  assert (Hle : length kept <= length rows).
  { enough (forall k, Forall (fun p => k <= p < length rows) kept -> k + length kept <= length rows \/ kept = [])
      as Hk by (destruct (Hk 0) as [ | -> ]; simpl; try lia; eapply Forall_impl; [|exact Hf]; simpl; lia).
    clear Hf. induction Hs as [|p kept Hs IH Hx]; intros k Hk; auto. left. inversion Hk; subst. simpl.
    destruct (IH (S p)) as [ | -> ]; [|lia|simpl; lia].
    rewrite Forall_forall in *. intros q Hq. specialize (Hx q Hq). specialize (H2 q Hq). lia. }
  apply (nth_ext _ _ nothing nothing).
  - rewrite firstn_length, compact_length, map_length. lia.
  - intros i Hi. rewrite firstn_length, compact_length in Hi. rewrite nth_firstn by lia.
    change i with (0 + i) at 1.
    assert (Hz : Forall (fun p => 0 <= p < length rows) kept)
      by (rewrite Forall_forall in *; intros p Hp; specialize (Hf p Hp); lia).
    rewrite (compact_reads 0) by (auto; lia).
    rewrite (nth_indep (map _ kept) nothing (nth 0 rows nothing)) by (rewrite map_length; lia).
    now rewrite (map_nth (fun p => nth p rows nothing)).
Qed.
End KeepRows.

Section Aligned.
Context {A : Arithmetic} {F : Format A} (no_key : key_type F) (no_value : value_type F).

(** Sequence::keep_only: the same moves in every tensor. An int8 row is stored with its scales. *)
Definition keep_only (kept : list nat) (l : Layer F) : Layer F := {|
  frozen := frozen l;
  columns := columns l;
  keys := map (keep_rows no_key kept) (keys l);
  values := map (keep_rows no_value kept) (values l);
  importance := keep_rows zero kept (importance l)
|}.

Definition evict_by_mass (keep sink recent : nat) (l : Layer F) : Layer F :=
  if seq_len l <=? keep then l else keep_only (kept_by_mass (importance l) keep sink recent) l.

(** Position i of what is left is position kept_i of what was, in keys, values and importance of every head. *)
Theorem law15_rows_stay_together : forall keep sink recent (l : Layer F),
  ranked A -> keep < seq_len l ->
  Forall (fun rows => length rows = seq_len l) (keys l) -> Forall (fun rows => length rows = seq_len l) (values l) ->
  let kept := kept_by_mass (importance l) keep sink recent in
  let left := evict_by_mass keep sink recent l in
  length kept = keep /\ seq_len left = keep /\
  importance left = map (fun p => nth p (importance l) zero) kept /\
  keys left = map (fun rows => map (fun p => nth p rows no_key) kept) (keys l) /\
  values left = map (fun rows => map (fun p => nth p rows no_value) kept) (values l) /\
  frozen left = frozen l /\ columns left = columns l.
Proof.
  intros keep sink recent l Hr Hk Hkeys Hvalues kept left.
  destruct (law15_kept_set (importance l) Hr keep sink recent) as (Hs & Hn & Hb & _).
  { unfold positions, seq_len in *. lia. }
  fold kept in Hs, Hn, Hb. unfold left, evict_by_mass. destruct (Nat.leb_spec (seq_len l) keep); [lia|].
  assert (Hmove : forall {T} (d : T) rows, length rows = seq_len l ->
                  keep_rows d kept rows = map (fun p => nth p rows d) kept).
  { intros T d rows Hrows. apply law15_in_place; auto. apply Forall_forall. intros p Hp. rewrite Hrows. now apply Hb. }
  unfold seq_len at 1. cbn [keep_only importance keys values frozen columns]. fold kept.
  rewrite (Hmove _ zero) by reflexivity. rewrite map_length. repeat split; auto.
  - apply map_ext_in. intros rows Hin. rewrite Forall_forall in Hkeys. now apply Hmove, Hkeys.
  - apply map_ext_in. intros rows Hin. rewrite Forall_forall in Hvalues. now apply Hmove, Hvalues.
Qed.
End Aligned.

(** The optimized cache orders masses as integers made of their bits (layer_take_back.cpp): a NaN is 0, the rest keeps
    the order of sign and magnitude, and both zeros are one. *)
Section Weights.
Local Open Scope Z_scope.

Definition magnitude (bits : Z) : Z := bits mod 2 ^ 31.
Definition negative (bits : Z) : bool := 2 ^ 31 <=? bits.
Definition bits_are_nan (bits : Z) : bool := 2139095040 <? magnitude bits.  (* 0x7F800000 *)

Definition weight (bits : Z) : Z :=
  if bits_are_nan bits then 0
  else if (negb (magnitude bits =? 0) && negative bits)%bool then 2 ^ 32 - 1 - bits
  else magnitude bits + 2 ^ 31.

(** Sign and magnitude as one number: the order of binary32 numbers that are no NaN. *)
Definition signed (bits : Z) : Z := if negative bits then - magnitude bits else magnitude bits.

Definition heavier (a b : Z) : Prop :=
  (bits_are_nan a = false /\ bits_are_nan b = true) \/
  (bits_are_nan a = false /\ bits_are_nan b = false /\ signed b < signed a).

Theorem law15_integer_weights : forall a b,
  0 <= a < 2 ^ 32 -> 0 <= b < 2 ^ 32 -> (weight b < weight a <-> heavier a b).
Proof.
  intros a b Ha Hb.
  assert (Hbits : forall x, 0 <= x < 2 ^ 32 ->
    0 <= magnitude x < 2 ^ 31 /\ x = magnitude x + if negative x then 2 ^ 31 else 0).
  { intros x Hx. unfold magnitude, negative. pose proof (Z.mod_pos_bound x (2 ^ 31) ltac:(lia)). split; auto.
    pose proof (Z.div_mod x (2 ^ 31) ltac:(lia)).
    destruct (Z.leb_spec (2 ^ 31) x); [assert (x / 2 ^ 31 = 1) by (symmetry; apply (Z.div_unique x _ 1 (x - 2 ^ 31)); lia)
                                      |assert (x / 2 ^ 31 = 0) by (apply Z.div_small; lia)]; lia. }
  destruct (Hbits a Ha) as [Ham Hae]. destruct (Hbits b Hb) as [Hbm Hbe]. clear Hbits.
  unfold heavier, weight, signed, bits_are_nan in *.
  destruct (Z.ltb_spec 2139095040 (magnitude a)), (Z.ltb_spec 2139095040 (magnitude b)),
    (Z.eqb_spec (magnitude a) 0), (Z.eqb_spec (magnitude b) 0), (negative a), (negative b); cbn [negb andb];
    split; intro Hx; try lia; try (destruct Hx as [[? ?]|(? & ? & ?)]; try discriminate; lia);
    try (left; split; reflexivity); try (right; repeat split; lia).
Qed.
End Weights.

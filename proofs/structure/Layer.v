(** The rows of a layer, and appending. A row is stored as it is, or as int8 against columns; columns change in a freeze
    only, which rewrites the rows. Quantization and freeze are any functions.

    Law 2 for appends: append_chunk, which goes head by head and freezes in its midst, is one append after the other. *)
From Coq Require Import List Arith Bool Lia.
From KvStructure Require Import Lists Arithmetic.
Import ListNotations.

(** How rows are stored. Heads are those alive. *)
Record Format (A : Arithmetic) := {
  columns_type : Type;
  key_type : Type;
  value_type : Type;
  store_key : columns_type -> nat -> list A -> key_type;  (* of which head *)
  store_value : columns_type -> nat -> list A -> value_type;
  freezes : bool;  (* int8 *)
  frozen_columns : list (list key_type) -> list (list value_type) -> columns_type;
  frozen_key : columns_type -> nat -> key_type -> key_type;
  frozen_value : columns_type -> nat -> value_type -> value_type;
}.
Arguments columns_type {_}. Arguments key_type {_}. Arguments value_type {_}. Arguments store_key {_}.
Arguments store_value {_}. Arguments freezes {_}. Arguments frozen_columns {_}. Arguments frozen_key {_}.
Arguments frozen_value {_}.

Definition freeze_at := 64.

Section Layer.
Context {A : Arithmetic} (F : Format A).

Record Layer := {
  frozen : bool;
  columns : columns_type F;
  keys : list (list (key_type F));  (* by head, then position *)
  values : list (list (value_type F));
  importance : list A;  (* by position *)
}.

(** What one append brings: a row for each head. *)
Record Position := { k : list (list A); v : list (list A) }.

Definition seq_len (l : Layer) : nat := length (importance l).

Definition push_chunk (l : Layer) (ps : list Position) : Layer := {|
  frozen := frozen l;
  columns := columns l;
  keys := map_at (fun h rows => rows ++ map (fun p => store_key F (columns l) h (nth h (k p) [])) ps) 0 (keys l);
  values := map_at (fun h rows => rows ++ map (fun p => store_value F (columns l) h (nth h (v p) [])) ps) 0 (values l);
  importance := importance l ++ repeat zero (length ps)
|}.

Definition freeze (l : Layer) : Layer :=
  let c := frozen_columns F (keys l) (values l) in {|
  frozen := true;
  columns := c;
  keys := map_at (fun h rows => map (frozen_key F c h) rows) 0 (keys l);
  values := map_at (fun h rows => map (frozen_value F c h) rows) 0 (values l);
  importance := importance l
|}.

Definition must_freeze (l : Layer) : bool := freezes F && negb (frozen l) && (freeze_at <=? seq_len l).

Definition append (l : Layer) (p : Position) : Layer :=
  push_chunk (if must_freeze l then freeze l else l) [p].

(** Sequence::append of the optimized cache. *)
Definition append_chunk (l : Layer) (ps : list Position) : Layer :=
  let at_ := max (seq_len l) freeze_at in
  if freezes F && negb (frozen l) && (at_ <? seq_len l + length ps) then
    let before := at_ - seq_len l in
    push_chunk (freeze (push_chunk l (firstn before ps))) (skipn before ps)
  else push_chunk l ps.

Lemma push_nothing l : push_chunk l [] = l.
Proof.
  destruct l. unfold push_chunk. simpl. rewrite app_nil_r.
  rewrite !map_at_id by (intros; apply app_nil_r). reflexivity.
Qed.

Lemma push_push l ps qs : push_chunk (push_chunk l ps) qs = push_chunk l (ps ++ qs).
Proof.
  unfold push_chunk. simpl. rewrite !map_at_compose, app_length, repeat_app, app_assoc.
  f_equal; apply map_at_ext_all; intros; now rewrite map_app, app_assoc.
Qed.

Lemma seq_len_push l ps : seq_len (push_chunk l ps) = seq_len l + length ps.
Proof. unfold seq_len. simpl. now rewrite app_length, repeat_length. Qed.

(** A span without a freeze: none is due before its last append. *)
Definition no_freeze (l : Layer) (n : nat) : Prop :=
  freezes F = false \/ frozen l = true \/ seq_len l + n <= freeze_at.

Lemma appends_push l ps : no_freeze l (length ps) -> fold_left append ps l = push_chunk l ps.
Proof.
  revert l; induction ps as [|p ps IH]; intros l H; simpl; [now rewrite push_nothing|].
  assert (Hm : must_freeze l = false).
  { unfold must_freeze. destruct H as [-> | [-> | H]].
    - reflexivity.
    - now rewrite andb_false_r.
    - destruct (Nat.leb_spec freeze_at (seq_len l)); [simpl in H; lia | now rewrite andb_false_r]. }
  unfold append at 2. rewrite Hm, IH, push_push; auto.
  destruct H as [H | [H | H]]; [left | right; left | right; right]; auto. rewrite seq_len_push. simpl in *. lia.
Qed.

Theorem law2_append_chunk_is_appends : forall l ps, append_chunk l ps = fold_left append ps l.
Proof.
  intros l ps. unfold append_chunk.
  destruct (freezes F) eqn:Hq; simpl; [|now rewrite appends_push by (now left)].
  destruct (frozen l) eqn:Hf; simpl; [now rewrite appends_push by (right; now left)|].
  destruct (Nat.ltb_spec (max (seq_len l) freeze_at) (seq_len l + length ps)) as [H|H].
  - set (b := max (seq_len l) freeze_at - seq_len l) in *.
    assert (Hb : b < length ps) by lia.
    rewrite <- (firstn_skipn b ps) at 3. rewrite fold_left_app.
    assert (Hfirst : fold_left append (firstn b ps) l = push_chunk l (firstn b ps)).
    { destruct (Nat.le_gt_cases freeze_at (seq_len l)).
      - replace b with 0 by lia. simpl. now rewrite push_nothing.
      - apply appends_push. right; right. rewrite firstn_length. lia. }
    rewrite Hfirst. destruct (skipn b ps) as [|p rest] eqn:Hs.
    { apply (f_equal (@length _)) in Hs. rewrite skipn_length in Hs. simpl in Hs. lia. }
    simpl. unfold append at 2.
    replace (must_freeze (push_chunk l (firstn b ps))) with true.
    + rewrite appends_push by (right; now left). now rewrite push_push.
    + unfold must_freeze. rewrite Hq, seq_len_push, firstn_length.
      change (frozen (push_chunk l (firstn b ps))) with (frozen l). rewrite Hf. cbn [andb negb].
      symmetry. apply Nat.leb_le. lia.
  - destruct ps as [|p ps]; [now rewrite push_nothing|].
    rewrite appends_push; auto. right; right. simpl in *. lia.
Qed.

End Layer.
Arguments frozen {_ _}. Arguments columns {_ _}. Arguments keys {_ _}. Arguments values {_ _}. Arguments importance {_ _}.
Arguments k {_}. Arguments v {_}. Arguments Position : clear implicits. Arguments seq_len {_ _}.
Arguments append {_ _}. Arguments append_chunk {_ _}. Arguments push_chunk {_ _}. Arguments no_freeze {_ _}.
Arguments freeze {_ _}. Arguments must_freeze {_ _}.

(** Law 5, rollback, of rows: append n positions, take n back, and the layer is what it was, bit for bit. *)
From Coq Require Import List Arith Lia.
From KvStructure Require Import Lists Arithmetic Layer.
Import ListNotations.

Section TakingBack.
Context {A : Arithmetic} {F : Format A}.

(** The last min(n, T) positions go. Columns, once frozen, stay. *)
Definition truncate_last (n : nat) (l : Layer F) : Layer F :=
  let kept := seq_len l - n in {|
  frozen := frozen l;
  columns := columns l;
  keys := map (firstn kept) (keys l);
  values := map (firstn kept) (values l);
  importance := firstn kept (importance l)
|}.

(** Each head has a row for every position. *)
Definition rows_whole (l : Layer F) : Prop :=
  Forall (fun rows => length rows = seq_len l) (keys l) /\ Forall (fun rows => length rows = seq_len l) (values l).

Lemma firstn_of_appended {T U} (g : nat -> T -> U) (h : nat -> list T -> list U) n k (rows : list (list U)) new :
  Forall (fun r => length r = n) rows -> map (firstn n) (map_at (fun i r => r ++ h i new) k rows) = rows.
Proof.
  intro H. revert k. induction H as [|r rows Hr _ IH]; intro k; simpl; auto. f_equal; auto.
  rewrite <- Hr, firstn_app, firstn_all, Nat.sub_diag. simpl. apply app_nil_r.
Qed.

Theorem law5_rollback : forall (l : Layer F) ps,
  rows_whole l -> no_freeze l (length ps) -> truncate_last (length ps) (append_chunk l ps) = l.
Proof.
  intros l ps [Hk Hv] Hn. rewrite law2_append_chunk_is_appends, appends_push by auto.
  unfold truncate_last. rewrite seq_len_push, Nat.add_sub. simpl.
  destruct l as [fr cs ks vs imp]. unfold seq_len in *. simpl in *. f_equal.
  - apply (firstn_of_appended (fun _ _ => store_key F cs 0 []) _ _ 0 ks ps). exact Hk.
  - apply (firstn_of_appended (fun _ _ => store_value F cs 0 []) _ _ 0 vs ps). exact Hv.
  - rewrite firstn_app, firstn_all, Nat.sub_diag. simpl. apply app_nil_r.
Qed.

(** Taking back in two goes is taking back at once. *)
Theorem law5_rollbacks_add_up : forall (l : Layer F) m n,
  truncate_last n (truncate_last m l) = truncate_last (m + n) l.
Proof.
  intros l m n. unfold truncate_last, seq_len. simpl. rewrite firstn_length, !map_map, firstn_firstn.
  replace (min (length (importance l) - m) (length (importance l))) with (length (importance l) - m) by lia.
  rewrite Nat.sub_add_distr. f_equal.
  - apply map_ext. intro. rewrite firstn_firstn. f_equal. lia.
  - apply map_ext. intro. rewrite firstn_firstn. f_equal. lia.
  - f_equal. lia.
Qed.

End TakingBack.

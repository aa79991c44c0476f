(** Law 3, first half: only visible rows matter. Two caches that agree on the rows a query sees give the same bits,
    whatever is in the others. No assumption on the arithmetic. *)
From Coq Require Import List Arith Lia.
From KvStructure Require Import Lists Arithmetic Attend.
Import ListNotations.

Section Visible.
Context {A : Arithmetic} {S : Storage A}.

(** The same call on another cache. *)
Definition on (t : Task S) (keys : nat -> key_row S) (values : nat -> value_row S) : Task S :=
  {| head_dim := head_dim t; scale := scale t; softcap := softcap t; key := keys; value := values |}.

Definition agree_at {R} (rows rows' : nat -> R) (q : Query A) : Prop :=
  forall p, from q <= p < upto q -> rows p = rows' p.

Lemma probabilities_visible t keys keys' values values' q :
  agree_at keys keys' q -> probabilities (on t keys values) q = probabilities (on t keys' values') q.
Proof.
  intro H. unfold probabilities. f_equal. apply map_ext_in. intros p Hp. apply in_seq in Hp.
  unfold score, raw_score. simpl. rewrite H by lia. reflexivity.
Qed.

Lemma output_visible t keys keys' values values' q :
  agree_at keys keys' q -> agree_at values values' q ->
  output (on t keys values) q = output (on t keys' values') q.
Proof.
  intros Hk Hv. unfold output. rewrite (probabilities_visible t keys keys' values values') by auto. simpl. f_equal.
  apply fold_left_ext_in. intros out [p w] Hp. apply in_combine_l in Hp. apply in_seq in Hp.
  simpl in *. unfold weigh_row. cbn [value on]. rewrite (Hv p) by lia. reflexivity.
Qed.

Lemma attend_one_visible t keys keys' values values' acc q :
  agree_at keys keys' q -> agree_at values values' q ->
  attend_one (on t keys values) acc q = attend_one (on t keys' values') acc q.
Proof.
  intros Hk Hv. unfold attend_one.
  rewrite (output_visible t keys keys' values values') by auto.
  now rewrite (probabilities_visible t keys keys' values values').
Qed.

Theorem law3a_hidden_rows_do_not_matter : forall (t : Task S) keys keys' values values' acc queries,
  Forall (fun q => agree_at keys keys' q /\ agree_at values values' q) queries ->
  attend_each (on t keys values) acc queries = attend_each (on t keys' values') acc queries.
Proof.
  intros t keys keys' values values' acc queries H. revert acc. induction H as [|q queries [Hk Hv] _ IH]; intro acc; simpl; auto.
  rewrite (attend_one_visible t keys keys' values values') by auto.
  destruct (attend_one _ acc q). now rewrite IH.
Qed.

End Visible.

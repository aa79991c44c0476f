(** Law 2, chunk = sequence: append a prompt at once and attend its positions in tiles, or append and attend one position
    at a time; output, accumulator and layer are the same bits. In any storage, over a span without a freeze. *)
From Coq Require Import List Arith Lia.
From KvStructure Require Import Lists Arithmetic Attend Visible Tile Chunk Layer.
Import ListNotations.

(** How a query meets what the format stored. *)
Record Reading {A : Arithmetic} (F : Format A) := {
  meets : columns_type F -> nat -> list A -> key_type F -> A;
  weighs : A -> value_type F -> A;
  adds : A -> value_type F -> list A -> list A;
  finishes : columns_type F -> nat -> list A -> list A;
  no_key : key_type F;  (* read past the end, which never happens *)
  no_value : value_type F;
}.
Arguments meets {_ _}. Arguments weighs {_ _}. Arguments adds {_ _}. Arguments finishes {_ _}. Arguments no_key {_ _}.
Arguments no_value {_ _}.

Section Sequence.
Context {A : Arithmetic} {F : Format A} (R : Reading F).

Definition storage (c : columns_type F) (h : nat) : Storage A := {|
  key_row := key_type F;
  value_row := value_type F;
  product := meets R c h;
  weight := weighs R;
  add_row := adds R;
  finish := finishes R c h
|}.

(** What the queries of one KV head share beside the rows. *)
Variables (hd : nat) (sc : A) (sm : option A) (h : nat).

Definition rows_of {T} (rows : list (list T)) : list T := nth h rows [].

Definition task (l : Layer F) : Task (storage (columns l) h) :=
  @Build_Task A (storage (columns l) h) hd sc sm
    (fun p => nth p (rows_of (keys l)) (no_key R))
    (fun p => nth p (rows_of (values l)) (no_value R)).

(** A position of a prompt: its rows, and its query heads' vectors. *)
Record Step := { rows : Position A; queries : list (list A) }.

Variables (sigmas : list (option A)) (w : nat).

(** The newest position attends what its window leaves. *)
Definition attend_newest (l : Layer F) (acc : list A) (qs : list (list A)) : list (list A) * list A :=
  attend_group_upto (task l) (seq_len l) qs sigmas (first_in_window w (seq_len l)) (seq_len l) acc.

Fixpoint one_at_a_time (l : Layer F) (acc : list A) (steps : list Step) : list (list A) * list A * Layer F :=
  match steps with
  | [] => ([], acc, l)
  | step :: steps =>
      let l := append l (rows step) in
      let (out, acc) := attend_newest l acc (queries step) in
      let '(outs, acc, l) := one_at_a_time l acc steps in
      (out ++ outs, acc, l)
  end.

Definition call (l : Layer F) (steps : list Step) : Call A := {|
  positions := length steps;
  vectors := flat_map queries steps;
  sinks := sigmas;
  earliest := 0;
  last := seq_len l + 1;
  window := w
|}.

Definition all_at_once garbage sizes (l : Layer F) (acc : list A) (steps : list Step) :=
  let after := append_chunk l (map rows steps) in
  let (outs, acc) := attend_tiles (task after) garbage (call l steps) sizes 0 acc in
  (outs, acc, after).

(** Every head has a row for every position. *)
Definition whole (l : Layer F) : Prop :=
  h < length (keys l) /\ h < length (values l) /\
  length (rows_of (keys l)) = seq_len l /\ length (rows_of (values l)) = seq_len l.

Lemma rows_push_keys l ps :
  h < length (keys l) ->
  rows_of (keys (push_chunk l ps)) =
  rows_of (keys l) ++ map (fun p => store_key F (columns l) h (nth h (k p) [])) ps.
Proof. intro H. unfold rows_of. simpl. now rewrite nth_map_at. Qed.

Lemma rows_push_values l ps :
  h < length (values l) ->
  rows_of (values (push_chunk l ps)) =
  rows_of (values l) ++ map (fun p => store_value F (columns l) h (nth h (v p) [])) ps.
Proof. intro H. unfold rows_of. simpl. now rewrite nth_map_at. Qed.

Lemma whole_push l ps : whole l -> whole (push_chunk l ps).
Proof.
  intros (Hk & Hv & Hkl & Hvl). unfold whole. rewrite rows_push_keys, rows_push_values by auto.
  rewrite !app_length, !map_length, Hkl, Hvl, !seq_len_push. simpl. rewrite !map_at_length. auto.
Qed.

(** Rows appended later are hidden from an earlier position. *)
Lemma later_rows_are_hidden l ps qs first acc stored :
  whole l -> seq_len l <= stored ->
  attend_group_upto (task (push_chunk l ps)) stored qs sigmas first (seq_len l) acc =
  attend_group_upto (task l) (seq_len l) qs sigmas first (seq_len l) acc.
Proof.
  intros (Hk & Hv & Hkl & Hvl) Hs. unfold attend_group_upto. rewrite Nat.min_id, Nat.min_r by auto.
  change (attend_each (on (task l) (key (task (push_chunk l ps))) (value (task (push_chunk l ps)))) acc
            (group_queries qs sigmas first (seq_len l)) =
          attend_each (on (task l) (key (task l)) (value (task l))) acc (group_queries qs sigmas first (seq_len l))).
  apply law3a_hidden_rows_do_not_matter. apply Forall_forall. intros q Hq.
  unfold group_queries in Hq. apply in_map_iff in Hq as ([v' s'] & <- & _).
  split; intros p Hp; simpl in Hp; unfold task, key, value;
    [rewrite rows_push_keys by auto | rewrite rows_push_values by auto]; apply app_nth1; lia.
Qed.

Lemma vectors_of_step l steps1 step steps2 :
  (forall s, In s (steps1 ++ step :: steps2) -> length (queries s) = length sigmas) ->
  vectors_at (call l (steps1 ++ step :: steps2)) (length steps1) = queries step.
Proof.
  intro H. unfold vectors_at, heads. simpl. rewrite flat_map_app. simpl.
  assert (Hl : length (flat_map queries steps1) = length steps1 * length sigmas).
  { assert (H1 : forall s, In s steps1 -> length (queries s) = length sigmas)
      by (intros; apply H; apply in_or_app; auto).
    clear H. induction steps1; simpl; auto. rewrite app_length, IHsteps1, H1; simpl; auto.
    intros. apply H1. simpl. auto. }
  rewrite <- Hl, skipn_app, skipn_all, Nat.sub_diag. simpl.
  rewrite <- (H step) by (apply in_or_app; simpl; auto).
  rewrite firstn_app, firstn_all, Nat.sub_diag. simpl. apply app_nil_r.
Qed.

Theorem law2_chunk_is_sequence : forall garbage sizes l acc steps,
  whole l -> no_freeze l (length steps) ->
  (forall step, In step steps -> length (queries step) = length sigmas) ->
  tiling (call l steps) sizes ->
  (forall x, In x (rows_of (values (append_chunk l (map rows steps)))) -> is_zero (weighs R zero x) = true) ->
  all_at_once garbage sizes l acc steps = one_at_a_time l acc steps.
Proof.
  intros garbage sizes l acc steps Hw Hn Hq Ht Hz. unfold all_at_once.
  rewrite law2_append_chunk_is_appends, appends_push in * by (now rewrite map_length).
  set (after := push_chunk l (map rows steps)) in *.
  assert (Hlen : seq_len after = seq_len l + length steps) by (unfold after; now rewrite seq_len_push, map_length).
  assert (Hwa : whole after) by now apply whole_push.
  rewrite (law2_tiles_are_positions (task after) garbage (call l steps) sizes (seq_len after)).
  - enough (H : forall done rest acc, steps = done ++ rest ->
      (let (outs, acc1) := in_turn (position_in_turn (task after) (call l steps) (seq_len after)) acc
                                   (seq (length done) (length rest)) in (outs, acc1, after)) =
      one_at_a_time (push_chunk l (map rows done)) acc rest).
    { specialize (H [] steps acc eq_refl). simpl in H. rewrite push_nothing in H. exact H. }
    intros done rest. revert done. induction rest as [|step rest IH]; intros done acc' Hd; simpl.
    + subst after. rewrite Hd, app_nil_r. reflexivity.
    + assert (Happ : append (push_chunk l (map rows done)) (rows step) = push_chunk l (map rows (done ++ [step]))).
      { change (append (push_chunk l (map rows done)) (rows step))
          with (fold_left append [rows step] (push_chunk l (map rows done))).
        rewrite appends_push, push_push, map_app; auto.
        destruct Hn as [Hn | [Hn | Hn]]; [left | right; left | right; right]; auto.
        rewrite seq_len_push, map_length. simpl. rewrite Hd, app_length in Hn. simpl in Hn. lia. }
      rewrite Happ. set (now_ := push_chunk l (map rows (done ++ [step]))) in *.
      assert (Hnow : seq_len now_ = seq_len l + 1 + length done)
        by (unfold now_; rewrite seq_len_push, map_length, app_length; simpl; lia).
      assert (Hafter : after = push_chunk now_ (map rows rest)).
      { unfold after, now_. rewrite push_push, <- map_app, <- app_assoc. now rewrite Hd. }
      unfold position_in_turn at 1. simpl last. simpl window. simpl earliest. simpl sinks.
      replace (vectors_at (call l steps) (length done)) with (queries step)
        by (symmetry; rewrite Hd; apply vectors_of_step; rewrite <- Hd; exact Hq).
      rewrite Nat.max_0_l, <- Hnow. unfold attend_newest.
      assert (Hlater : forall first,
        attend_group_upto (task after) (seq_len after) (queries step) sigmas first (seq_len now_) acc' =
        attend_group_upto (task now_) (seq_len now_) (queries step) sigmas first (seq_len now_) acc').
      { intro first. rewrite Hafter. apply later_rows_are_hidden; [now apply whole_push|].
        rewrite seq_len_push. lia. }
      rewrite Hlater.
      destruct (attend_group_upto (task now_) _ _ _ _ _ _) as [out acc1].
      specialize (IH (done ++ [step]) acc1). rewrite app_length, Nat.add_1_r in IH. simpl in IH.
      rewrite <- app_assoc in IH. specialize (IH Hd). fold now_ in IH. rewrite <- IH.
      destruct (in_turn _ acc1 _). reflexivity.
  - unfold sees_rows. simpl. lia.
  - exact Ht.
  - simpl. unfold heads. simpl. clear - Hq. induction steps; simpl; auto.
    rewrite app_length, IHsteps, Hq; simpl; auto. intros. apply Hq. simpl. auto.
  - simpl. lia.
  - intros p Hp. simpl in Hp. simpl. apply Hz. apply nth_In.
    destruct Hwa as (_ & _ & _ & ->). rewrite Hlen. lia.
Qed.

End Sequence.

(** The bounded layer's ring: slots written round and round, and the rows that they held before, kept for rollback.

    Law 5: taking back m inserts, m at most 64, leaves what was there before them, whatever wrapped in between.
    Law 11, first half: read newest first, the ring is the last W inserts. *)
From Coq Require Import List Arith Lia.
From KvStructure Require Import Lists.
Import ListNotations.

Definition undo_depth := 64.

Section Ring.
Context {Row : Type} (nothing : Row).

Record Ring := { slots : list Row; position : nat; saved : list Row (* newest first *) }.

Definition size (r : Ring) : nat := length (slots r).
Definition slot (r : Ring) (p : nat) : nat := p mod size r.
Definition row_at (r : Ring) (p : nat) : Row := nth (slot r p) (slots r) nothing.

Definition insert (r : Ring) (x : Row) : Ring := {|
  slots := set (slot r (position r)) x (slots r);
  position := position r + 1;
  saved := firstn undo_depth (row_at r (position r) :: saved r)
|}.

Definition take_back_one (r : Ring) : Ring :=
  let p := position r - 1 in {|
  slots := set (slot r p) (hd nothing (saved r)) (slots r);
  position := p;
  saved := tl (saved r)
|}.

Fixpoint take_back (m : nat) (r : Ring) : Ring :=
  match m with
  | O => r
  | S m => take_back m (take_back_one r)
  end.

Definition insert_all (r : Ring) (xs : list Row) : Ring := fold_left insert xs r.

(** The same ring, with at most k rollback rows. *)
Definition limited (k : nat) (r : Ring) : Ring :=
  {| slots := slots r; position := position r; saved := firstn k (saved r) |}.

Definition sound (r : Ring) : Prop := 0 < size r /\ length (saved r) <= undo_depth.

Lemma sound_insert r x : sound r -> sound (insert r x).
Proof.
  intros [Hs Hl]. unfold sound, size, insert. cbn [slots saved]. rewrite set_length, firstn_length. split; [exact Hs | lia].
Qed.

Lemma sound_insert_all r xs : sound r -> sound (insert_all r xs).
Proof. revert r; induction xs; simpl; intros r H; auto. now apply IHxs, sound_insert. Qed.

Lemma slot_lt r p : 0 < size r -> slot r p < size r.
Proof. intro. apply Nat.mod_upper_bound. lia. Qed.

Lemma take_back_insert r x : sound r -> take_back_one (insert r x) = limited (undo_depth - 1) r.
Proof.
  intros [Hs Hl]. unfold take_back_one, insert, limited, slot, size. cbn [slots position saved].
  rewrite set_length, Nat.add_sub. f_equal.
  change (hd nothing (firstn undo_depth (row_at r (position r) :: saved r))) with (row_at r (position r)).
  rewrite set_set. unfold row_at, slot, size. apply set_nth.
Qed.

Lemma take_back_one_limited k r : take_back_one (limited (S k) r) = limited k (take_back_one r).
Proof. unfold take_back_one, limited, slot, size. simpl. destruct (saved r); simpl; now rewrite ?firstn_nil. Qed.

Lemma take_back_limited m k r : take_back m (limited (k + m) r) = limited k (take_back m r).
Proof.
  revert r; induction m; intro r; simpl; [now rewrite Nat.add_0_r|].
  now rewrite Nat.add_succ_r, take_back_one_limited, IHm.
Qed.

Lemma limited_limited j k r : limited j (limited k r) = limited (min j k) r.
Proof. unfold limited. simpl. now rewrite firstn_firstn. Qed.

(** After any inserts xs, then ys, at most 64 of them: taking back as many as ys has is as if only xs had come. Of
    rollback rows 64 - |ys| remain at most. *)
Theorem law5_ring_rollback : forall r xs ys,
  sound r -> length ys <= undo_depth ->
  take_back (length ys) (insert_all r (xs ++ ys)) = limited (undo_depth - length ys) (insert_all r xs).
Proof.
  intros r xs ys Hr. unfold insert_all. rewrite fold_left_app. fold (insert_all r xs).
  pose proof (sound_insert_all r xs Hr) as Hq. revert Hq. generalize (insert_all r xs). clear r xs Hr.
  intros r Hr. fold (insert_all r ys). induction ys as [|y ys IH] using rev_ind; intro Hl.
  - simpl. unfold limited. rewrite firstn_all2 by apply Hr. now destruct r.
  - rewrite app_length, Nat.add_1_r in *. unfold insert_all in *. rewrite fold_left_app. cbn [fold_left take_back].
    rewrite take_back_insert by (now apply sound_insert_all).
    replace (undo_depth - 1) with (undo_depth - 1 - length ys + length ys) by (unfold undo_depth in *; lia).
    rewrite take_back_limited, IH by lia. rewrite limited_limited. f_equal. lia.
Qed.

(** How many rollback rows there are, so how deep it goes: inserts since they were dropped, and 64 at most. *)
Theorem law5_ring_depth : forall r xs,
  length (saved r) <= undo_depth ->
  length (saved (insert_all r xs)) = min undo_depth (length (saved r) + length xs).
Proof.
  intros r xs. unfold insert_all. revert r; induction xs as [|x xs IH]; intros r Hl; cbn [fold_left length]; [lia|].
  rewrite IH; unfold insert; cbn [saved]; rewrite firstn_length; cbn [length]; lia.
Qed.

(** Newest first: distance d from the newest is position - 1 - d. *)
Definition visible (r : Ring) : nat := min (position r) (size r).
Definition newest_first (r : Ring) : list Row := map (fun d => row_at r (position r - 1 - d)) (seq 0 (visible r)).

Lemma mod_distinct a b w : a < b -> b < a + w -> a mod w <> b mod w.
Proof.
  intros H1 H2 He. assert (w <> 0) by lia.
  pose proof (Nat.div_mod a w ltac:(auto)). pose proof (Nat.div_mod b w ltac:(auto)).
  assert (b - a = w * (b / w - a / w)) by nia.
  destruct (b / w - a / w); nia.
Qed.

Lemma newest_first_insert r x : 0 < size r -> newest_first (insert r x) = firstn (size r) (x :: newest_first r).
Proof.
  intro Hs. unfold newest_first, visible.
  assert (Hsize : size (insert r x) = size r) by (unfold size, insert; cbn [slots]; apply set_length).
  rewrite Hsize. cbn [position insert]. rewrite Nat.add_sub.
  assert (Hnew : row_at (insert r x) (position r) = x).
  { unfold row_at, slot. rewrite Hsize. unfold insert; cbn [slots]. apply nth_set_same. now apply slot_lt. }
  assert (Hold : forall p, p < position r -> position r < p + size r -> row_at (insert r x) p = row_at r p).
  { intros p H1 H2. unfold row_at, slot. rewrite Hsize. unfold insert; cbn [slots]. apply nth_set_other.
    intro He. apply (mod_distinct p (position r) (size r)); auto. }
  destruct (size r) as [|w] eqn:Hw; [lia|]. rewrite firstn_cons.
  replace (min (position r + 1) (S w)) with (S (min (position r) w)) by lia.
  cbn [seq map]. rewrite Nat.sub_0_r, Hnew. f_equal.
  rewrite <- seq_shift, map_map, firstn_map.
  replace (firstn w (seq 0 (min (position r) (S w)))) with (seq 0 (min (position r) w)).
  - apply map_ext_in. intros d Hd. apply in_seq in Hd. rewrite Hold by lia. f_equal. lia.
  - destruct (Nat.le_gt_cases (position r) w).
    + rewrite firstn_all2 by (rewrite seq_length; lia). f_equal. lia.
    + rewrite firstn_seq by lia. f_equal. lia.
Qed.

Lemma size_insert_all r xs : size (insert_all r xs) = size r.
Proof.
  unfold insert_all. revert r; induction xs; simpl; intro r; auto. rewrite IHxs. unfold size, insert; cbn [slots].
  apply set_length.
Qed.

Theorem law11_ring_is_the_last_inserts : forall r xs,
  0 < size r -> newest_first (insert_all r xs) = firstn (size r) (rev xs ++ newest_first r).
Proof.
  intros r xs Hs. induction xs as [|x xs IH] using rev_ind.
  - simpl. unfold insert_all, newest_first. simpl. symmetry. apply firstn_all2.
    rewrite map_length, seq_length. unfold visible. lia.
  - unfold insert_all in *. rewrite fold_left_app, rev_app_distr. cbn [fold_left rev app].
    rewrite newest_first_insert by (fold (insert_all r xs); now rewrite size_insert_all).
    fold (insert_all r xs). fold (insert_all r xs) in IH. rewrite size_insert_all, IH.
    destruct (size r); [lia|]. cbn [app]. rewrite !firstn_cons, firstn_firstn. f_equal. f_equal. lia.
Qed.

End Ring.
Arguments slots {_}. Arguments position {_}. Arguments saved {_}. Arguments Ring : clear implicits.

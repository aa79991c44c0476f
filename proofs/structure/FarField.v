(** Law 12, counting: an O(1) group keeps its first rows for ever, the newest w in a ring, and gives every row that
    leaves the ring to each head's far field: once, in order, at the step at which it leaves. *)
From Coq Require Import List Arith Lia.
From KvStructure Require Import Lists Ring.
Import ListNotations.

Section FarField.
Context {Row Head : Type} (nothing : Row) (absorb : nat -> Head -> Row -> Head) (window sink : nat).
Hypothesis window_positive : 0 < window.

Record Group := {
  sinks : list Row;
  ring : list Row;  (* [window] slots *)
  ring_length : nat;
  ring_head : nat;  (* the slot written next *)
  far_count : nat;
  heads : list Head;
}.

Definition absorb_all (row : Row) (heads : list Head) : list Head := map_at (fun h head => absorb h head row) 0 heads.

(** O1Group::insert, past the exact-only mode. *)
Definition insert_row (g : Group) (row : Row) : Group :=
  let full := ring_length g =? window in
  let leaving := nth (ring_head g) (ring g) nothing in {|
  sinks := sinks g;
  ring := set (ring_head g) row (ring g);
  ring_length := if full then ring_length g else ring_length g + 1;
  ring_head := if ring_head g + 1 =? window then 0 else ring_head g + 1;
  far_count := if full then far_count g + 1 else far_count g;
  heads := if full then absorb_all leaving (heads g) else heads g
|}.

(** Sealing: the first rows stay exact, the others pass through the ring. *)
Definition sealed (fresh : list Head) (rows : list Row) : Group :=
  fold_left insert_row (skipn sink rows) {|
    sinks := firstn sink rows;
    ring := repeat nothing window;
    ring_length := 0;
    ring_head := 0;
    far_count := 0;
    heads := fresh
  |}.

(** The ring's rows, oldest first. *)
Definition ring_rows (g : Group) : list Row :=
  map (fun i => nth ((ring_head g + window - ring_length g + i) mod window) (ring g) nothing) (seq 0 (ring_length g)).

(** What a head's far field is after these rows in this order. *)
Definition far_field (fresh : list Head) (rows : list Row) : list Head :=
  map_at (fun h head => fold_left (absorb h) rows head) 0 fresh.

(** The state that a history leaves. [rest]: all rows but the sinks. *)
Definition holds (fresh : list Head) (first rest : list Row) (g : Group) : Prop :=
  let n := length rest in
  sinks g = first /\ length (ring g) = window /\
  ring_length g = min n window /\ ring_head g = n mod window /\ far_count g = n - window /\
  heads g = far_field fresh (firstn (n - window) rest) /\
  forall p, n - window <= p < n -> nth (p mod window) (ring g) nothing = nth p rest nothing.

Lemma far_field_app fresh rows row : far_field fresh (rows ++ [row]) = absorb_all row (far_field fresh rows).
Proof.
  unfold far_field, absorb_all. generalize 0. induction fresh; simpl; intro; f_equal; auto.
  now rewrite fold_left_app.
Qed.

Lemma next_slot n : (if n mod window + 1 =? window then 0 else n mod window + 1) = (n + 1) mod window.
Proof.
  pose proof (Nat.mod_upper_bound n window ltac:(lia)).
  rewrite <- (Nat.add_mod_idemp_l n 1 window) by lia.
  destruct (Nat.eqb_spec (n mod window + 1) window) as [->|]; [now rewrite Nat.mod_same by lia|].
  now rewrite (Nat.mod_small (n mod window + 1)) by lia.
Qed.

Lemma firstn_one_more {T} n (l : list T) d : n < length l -> firstn (n + 1) l = firstn n l ++ [nth n l d].
Proof.
  revert n; induction l; simpl; intros [|n] H; simpl; try lia; auto.
  f_equal. apply IHl. lia.
Qed.

Lemma holds_insert fresh first rest g row :
  holds fresh first rest g -> holds fresh first (rest ++ [row]) (insert_row g row).
Proof.
  intros (Hs & Hr & Hl & Hh & Hc & Hf & Hp). unfold holds, insert_row.
  cbn [sinks ring ring_length ring_head far_count heads]. rewrite app_length, set_length. cbn [length].
  set (n := length rest) in *. rewrite Hl, Hh, Hc.
  repeat split; auto.
  - destruct (Nat.eqb_spec (min n window) window); lia.
  - apply next_slot.
  - destruct (Nat.eqb_spec (min n window) window); lia.
  - destruct (Nat.eqb_spec (min n window) window) as [He|He].
    + replace (n + 1 - window) with (n - window + 1) by lia.
      rewrite firstn_app. replace (n - window + 1 - length rest) with 0 by (unfold n; lia). rewrite app_nil_r.
      rewrite (firstn_one_more _ _ nothing) by (unfold n; lia).
      rewrite far_field_app, <- Hf. f_equal. rewrite <- Hp by lia. f_equal.
      rewrite <- (Nat.mod_add (n - window) 1 window) by lia. f_equal. lia.
    + rewrite Hf. replace (n + 1 - window) with 0 by lia. now replace (n - window) with 0 by lia.
  - intros p Hin. destruct (Nat.eq_dec p n) as [->|Hne].
    + rewrite nth_set_same by (rewrite Hr; apply Nat.mod_upper_bound; lia).
      rewrite app_nth2 by (unfold n; lia). unfold n. now rewrite Nat.sub_diag.
    + rewrite nth_set_other by (intro He; symmetry in He; revert He; apply mod_distinct; lia).
      rewrite app_nth1 by (unfold n in *; lia). apply Hp. lia.
Qed.

Lemma sealed_holds fresh rows : holds fresh (firstn sink rows) (skipn sink rows) (sealed fresh rows).
Proof.
  unfold sealed. generalize (firstn sink rows) (skipn sink rows). intros first rest.
  induction rest as [|row rest IH] using rev_ind.
  - unfold holds. simpl. rewrite Nat.mod_0_l by lia. repeat split; auto using repeat_length; try lia.
    unfold far_field. now rewrite map_at_id.
  - rewrite fold_left_app. now apply holds_insert.
Qed.

Lemma holds_ring fresh first rest g : holds fresh first rest g -> ring_rows g = skipn (length rest - window) rest.
Proof.
  intros (_ & Hr & Hl & Hh & _ & _ & Hp). unfold ring_rows. rewrite Hl, Hh.
  set (n := length rest) in *.
  assert (Hn : length (skipn (n - window) rest) = min n window) by (rewrite skipn_length; unfold n; lia).
  apply (nth_ext _ _ nothing nothing); [now rewrite map_length, seq_length|].
  intros i Hi. rewrite map_length, seq_length in Hi.
  rewrite (nth_indep _ nothing (nth ((n mod window + window - min n window + 0) mod window) (ring g) nothing))
    by (now rewrite map_length, seq_length).
  rewrite (map_nth (fun i => nth ((n mod window + window - min n window + i) mod window) (ring g) nothing)).
  rewrite seq_nth by auto. rewrite nth_skipn, <- Hp by lia. f_equal. simpl.
  pose proof (Nat.div_mod n window ltac:(lia)) as Hd. pose proof (Nat.mod_upper_bound n window ltac:(lia)).
  rewrite <- (Nat.mod_add (n mod window + window - min n window + i) (n / window) window) by lia.
  rewrite <- (Nat.mod_add (n - window + i) 1 window) by lia.
  destruct (Nat.le_gt_cases window n).
  - f_equal. nia.
  - rewrite (Nat.mod_small n window), (Nat.div_small n window) by lia. f_equal. lia.
Qed.

(** Each head's far field has absorbed exactly the rows that are neither sinks nor in the ring: each once, in order. *)
Theorem law12_absorbed_once : forall fresh rows,
  let rest := skipn sink rows in
  heads (sealed fresh rows) = far_field fresh (firstn (length rest - window) rest).
Proof. intros fresh rows. apply (sealed_holds fresh rows). Qed.

(** Sinks, then the far field's rows, then the ring are all rows, in order: none twice, none missing. *)
Theorem law12_every_row_in_one_place : forall fresh rows,
  let g := sealed fresh rows in
  let rest := skipn sink rows in
  sinks g ++ firstn (far_count g) rest ++ ring_rows g = rows.
Proof.
  intros fresh rows g rest. destruct (sealed_holds fresh rows) as (Hs & _ & _ & _ & Hc & _).
  unfold g. rewrite Hs, Hc, (holds_ring fresh _ rest) by apply sealed_holds.
  unfold rest. rewrite firstn_skipn. apply firstn_skipn.
Qed.

(** A step inserts one row; what it absorbs is the row that was inserted [window] rows before, and nothing else. *)
Theorem law12_at_each_step : forall fresh rows row,
  sink <= length rows ->
  sealed fresh (rows ++ [row]) = insert_row (sealed fresh rows) row /\
  heads (sealed fresh (rows ++ [row])) =
  if window <=? length rows - sink
  then absorb_all (nth (length rows - window) rows nothing) (heads (sealed fresh rows))
  else heads (sealed fresh rows).
Proof.
  intros fresh rows row Hs.
  assert (Hstep : sealed fresh (rows ++ [row]) = insert_row (sealed fresh rows) row).
  { unfold sealed. rewrite firstn_app, skipn_app. replace (sink - length rows) with 0 by lia. simpl.
    now rewrite app_nil_r, fold_left_app. }
  split; auto. rewrite !law12_absorbed_once, skipn_app. replace (sink - length rows) with 0 by lia. cbn [skipn].
  rewrite app_length, skipn_length. cbn [length]. set (n := length rows - sink) in *.
  destruct (Nat.leb_spec window n).
  - replace (n + 1 - window) with (n - window + 1) by lia.
    rewrite firstn_app. replace (n - window + 1 - length (skipn sink rows)) with 0 by (rewrite skipn_length; unfold n in *; lia).
    rewrite app_nil_r, (firstn_one_more _ _ nothing) by (rewrite skipn_length; unfold n in *; lia).
    rewrite far_field_app, nth_skipn. do 2 f_equal. unfold n in *. lia.
  - replace (n + 1 - window) with 0 by lia. now replace (n - window) with 0 by lia.
Qed.

End FarField.

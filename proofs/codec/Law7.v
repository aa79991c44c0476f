(* Law 7, the theorems: decode(encode s) is s, and f16 rounds once. *)
From Coq Require Import NArith PeanoNat List Lia Bool.
From KvCodec Require Import Bytes Binary16 Grammar Record RoundTrip.
Import ListNotations.
Open Scope N_scope.

Lemma run_whole {A} (g : grammar A) b o : run g 0 (size b) b = o <-> reads g 0 b o.
Proof. rewrite <- (run_is_reads g 0 b [] o), app_nil_r. reflexivity. Qed.

(* --- the first four bytes ------------------------------------------------------------------------------------------- *)

Lemma same_bytes_spec a b : same_bytes a b = true <-> a = b.
Proof. unfold same_bytes. destruct (list_eq_dec N.eq_dec a b); split; congruence. Qed.

Lemma decode_versioned l r : decode l (magic ++ r) = run (versioned l) 0 (size (magic ++ r)) (magic ++ r).
Proof.
  unfold decode, decode_in. destruct (N.ltb_spec (size (magic ++ r)) 4) as [H|H].
  - rewrite size_app in H. change (size magic) with 4 in H. lia.
  - change 4 with (size magic). rewrite split_at_app.
    assert (same_bytes magic magic = true) as -> by now apply same_bytes_spec. reflexivity.
Qed.

Definition versioned_buffer (b : list N) : Prop := exists r, b = magic ++ r.

Lemma decode_unversioned l b : ~ versioned_buffer b -> decode l b =
  if refuses_unversioned l then Refused (Error unversioned_refused 0 0 0) else run (unversioned l) 0 (size b) b.
Proof.
  intros H. unfold decode, decode_in. destruct (N.ltb_spec (size b) 4) as [|Hs]; [reflexivity|].
  destruct (split_size 4 b Hs) as (m & r & -> & Hm). rewrite <- Hm, split_at_app.
  destruct (same_bytes m magic) eqn:E; [|reflexivity].
  apply same_bytes_spec in E. subst m. exfalso. apply H. now exists r.
Qed.

Lemma versioned_or_not b : versioned_buffer b \/ ~ versioned_buffer b.
Proof.
  destruct (same_bytes (firstn 4 b) magic) eqn:E.
  - left. apply same_bytes_spec in E. exists (skipn 4 b). rewrite <- E. symmetry. apply firstn_skipn.
  - right. intros [r ->]. cbn in E. discriminate.
Qed.

(* --- what the encoder writes ------------------------------------------------------------------------------------------ *)

Definition fits_u32 (n : N) : Prop := n < 2 ^ 32.
Definition fits_f16 (x : N) : Prop := overflows x = false.

Lemma find_none {A} (p : A -> bool) v : find p v = None <-> Forall (fun x => p x = false) v.
Proof.
  induction v as [|x v IH]; cbn [find]; [split; [constructor | reflexivity]|].
  rewrite Forall_cons_iff. destruct (p x); [split; [discriminate | intros [? _]; discriminate]|]. rewrite IH. tauto.
Qed.

Lemma fits_forall v : Forall (fun n => (2 ^ 32 - 1 <? n) = false) v <-> Forall fits_u32 v.
Proof.
  split; apply Forall_impl; unfold fits_u32; intros n; rewrite N.ltb_ge; change (2 ^ 32) with 4294967296; lia.
Qed.

(* The encoder refuses a length over 2^32 - 1 and, under f16, a finite value that would arrive as infinity; nothing else. *)
Theorem law7_encodes_what_fits l f16 s b : encode l f16 s = Written b <->
  Forall fits_u32 (lengths l s) /\ (f16 = true -> Forall fits_f16 (narrowed s)) /\ b = record_bytes l f16 s.
Proof.
  unfold encode. rewrite <- fits_forall, <- find_none.
  destruct (find _ (lengths l s)); [split; [discriminate | intros [? _]; discriminate]|].
  destruct f16.
  - assert (Forall fits_f16 (narrowed s) <-> find overflows (narrowed s) = None) as E by (symmetry; apply find_none).
    destruct (find overflows (narrowed s)).
    + split; [discriminate|]. intros (_ & H & _). specialize (H eq_refl). apply E in H. discriminate.
    + split; [intros H; injection H as <-; repeat split; intros _; now apply E | intros (_ & _ & ->); reflexivity].
  - split; [intros H; injection H as <-; repeat split; discriminate | intros (_ & _ & ->); reflexivity].
Qed.

Lemma takes_record l f16 s : coherent l s -> Forall fits_u32 (lengths l s) ->
  takes (versioned l) (record_bytes l f16 s) (f16, travelled f16 s).
Proof.
  intros [Hl Hs] Hf. unfold versioned. destruct s as [n vector importance hs | n vector | n k v]; cbn [record_bytes lengths] in *.
  - destruct Hs as (Hk & Pv & Pi & Hi & Hh & Hok). rewrite Hk.
    repeat (apply Forall_cons_iff in Hf; let H := fresh "F" in destruct Hf as [H Hf]). unfold fits_u32 in *.
    apply takes_header; [exact Hl | unfold max_count; change (2 ^ 32) with 4294967296 in *; lia |].
    unfold full_bytes. next_integer; [destruct f16; reflexivity|].
    next_integer; [now apply holds_equals|].
    apply takes_full_body; try assumption; [now apply Forall_map in Hf | apply takes_done].
  - destruct Hs as (Hk & Hn & Pv). rewrite Hk.
    repeat (apply Forall_cons_iff in Hf; let H := fresh "F" in destruct Hf as [H Hf]). unfold fits_u32 in *.
    apply takes_header; [exact Hl | exact Hn |]. unfold linear_body.
    next_integer; [now apply holds_equals|].
    next_integer; [now apply holds_equals|].
    next_integer. rewrite le_4 by assumption.
    apply takes_last; [apply (size_unwords false) | constructor |]. rewrite words_f32 by exact Pv. apply takes_done.
  - destruct Hs as (Hk & Hn & Ok & Ov). rewrite Hk. destruct Hl as (Hi & Hx & Hw). specialize (Hw Hk).
    repeat (apply Forall_cons_iff in Hf; let H := fresh "F" in destruct Hf as [H Hf]). unfold fits_u32 in *.
    apply takes_header; [split; auto | exact Hn |]. unfold bounded_body.
    assert (written l n < 2 ^ 32) by (unfold written; lia).
    assert (n mod window l < 2 ^ 32).
    { apply N.lt_trans with (window l); [apply N.mod_lt; lia | assumption]. }
    do 5 (next_integer; [now apply holds_equals|]).
    apply takes_ring; [exact Ok|]. rewrite <- (app_nil_r (element_bytes f16 v)).
    apply takes_ring; [exact Ov|]. apply takes_done.
Qed.

Lemma record_versioned l f16 s : versioned_buffer (record_bytes l f16 s).
Proof. destruct s; cbn [record_bytes]; unfold header_bytes; rewrite <- !app_assoc; eexists; reflexivity. Qed.

(* Whatever the encoder writes, the decoder takes, and the state is the one that was written, rounded once under f16. *)
Theorem law7_decode_encode l f16 s b : coherent l s -> encode l f16 s = Written b ->
  decode l b = Accepted (f16, travelled f16 s).
Proof.
  intros Hc He. apply law7_encodes_what_fits in He. destruct He as (Hf & _ & ->).
  pose proof (takes_record l f16 s Hc Hf 0) as H. apply run_whole in H.
  destruct (record_versioned l f16 s) as [r Hr]. rewrite Hr, decode_versioned, <- Hr. exact H.
Qed.

(* f32 loses nothing, NaN payloads included; f16 loses nothing of a state that binary16 holds. *)
Definition held_by_f16 (x : N) : Prop := exists h, h < 2 ^ 16 /\ x = widen h.

Lemma there_and_back_held v : Forall held_by_f16 v -> there_and_back true v = v.
Proof.
  unfold there_and_back. cbn [arrived leaving]. induction 1 as [|x v (h & Hh & ->) _ IH]; [reflexivity|].
  cbn [map]. now rewrite law7_narrow_widen, IH.
Qed.

Lemma travelled_exact f16 s : (f16 = true -> Forall held_by_f16 (narrowed s)) -> travelled f16 s = s.
Proof.
  intros H.
  assert (forall v, (f16 = true -> Forall held_by_f16 v) -> there_and_back f16 v = v) as E.
  { intros v Hv. destruct f16; [now apply there_and_back_held, Hv | reflexivity]. }
  destruct s as [n vector importance hs | n vector | n k v]; cbn [travelled narrowed] in *.
  - f_equal. induction hs as [|[k v] hs IH]; [reflexivity|]. cbn [map keys values].
    assert (f16 = true -> Forall held_by_f16 (k ++ v) /\ Forall held_by_f16 (flat_map (fun h => keys h ++ values h) hs)) as H'.
    { intros F. apply Forall_app. exact (H F). }
    rewrite IH by (intros F; now apply H'). rewrite !E by (intros F; apply H' in F; rewrite Forall_app in F; tauto).
    reflexivity.
  - reflexivity.
  - assert (f16 = true -> Forall held_by_f16 k /\ Forall held_by_f16 v) as H' by (intros F; apply Forall_app; exact (H F)).
    rewrite !E by (intros F; now apply H'). reflexivity.
Qed.

Theorem law7_f32_exact l s b : coherent l s -> encode l false s = Written b -> decode l b = Accepted (false, s).
Proof. intros Hc He. rewrite (law7_decode_encode _ _ _ _ Hc He), travelled_exact; [reflexivity | discriminate]. Qed.

Theorem law7_f16_exact l s b : coherent l s -> Forall held_by_f16 (narrowed s) -> encode l true s = Written b ->
  decode l b = Accepted (true, s).
Proof. intros Hc Hh He. rewrite (law7_decode_encode _ _ _ _ Hc He), travelled_exact; [reflexivity | auto]. Qed.

(* What arrived under f16 is held by binary16, so that the next trips change nothing. *)
Lemma there_and_back_holds v : patterns v -> Forall held_by_f16 (there_and_back true v).
Proof.
  intros H. unfold there_and_back. cbn [arrived leaving]. rewrite map_map. apply Forall_map. revert H.
  apply Forall_impl. intros x Hx. exists (narrow x). split; [now apply narrow_bound | reflexivity].
Qed.

Lemma travelled_held l s : coherent l s -> Forall held_by_f16 (narrowed (travelled true s)).
Proof.
  intros [_ Hs]. destruct s as [n vector importance hs | n vector | n k v]; cbn [travelled narrowed].
  - destruct Hs as (_ & _ & _ & _ & _ & Hok).
    induction Hok as [|h hs (_ & _ & Pk & Pv) _ IH]; cbn [map flat_map]; [constructor|].
    repeat rewrite Forall_app. cbn [keys values]. repeat split; try apply there_and_back_holds; assumption.
  - constructor.
  - destruct Hs as (_ & _ & (_ & Pk & _) & (_ & Pv & _)). apply Forall_app. split; now apply there_and_back_holds.
Qed.

Theorem law7_f16_rounds_once l s : coherent l s -> travelled true (travelled true s) = travelled true s.
Proof. intros H. apply travelled_exact. intros _. eapply travelled_held, H. Qed.

(* Law 8, the record is canonical: accepted bytes are written again. *)
From Coq Require Import NArith PeanoNat List Lia Bool.
From KvCodec Require Import Bytes Binary16 Grammar Record RoundTrip Law7 Taken.
Import ListNotations.
Open Scope N_scope.

Lemma read_done {A} (a0 a : A) at_ b : reads (Done a0) at_ b (Accepted a) -> b = [] /\ a = a0.
Proof. intros H. inversion H; subst; auto. Qed.

Ltac read_to_the_end H :=
  apply read_done in H; let H0 := fresh "H" in destruct H as [-> H0]; apply pair_equal_spec in H0; destruct H0 as [-> ->]; rewrite ?app_nil_r.

Lemma lengths_fit v : Forall (fun h => size (keys h) < 2 ^ 32) v -> Forall fits_u32 (map (fun h => size (keys h)) v).
Proof. intros H. apply Forall_map. exact H. Qed.

(* What was accepted with a header: its bytes, and everything that the encoder asks of a state. *)
Lemma taken_record l f16 s b : layer_ok l -> bytes b -> versioned_buffer b -> reads (versioned l) 0 b (Accepted (f16, s)) ->
  b = record_bytes l f16 s /\ coherent l s /\ Forall fits_u32 (lengths l s) /\ (f16 = true -> Forall fits_f16 (narrowed s)).
Proof.
  intros Hl Hb [r ->] H. unfold versioned in H.
  apply taken_header in H; [|exact Hb]. destruct H as (f & n & b1 & at1 & -> & Hn & Hb1 & H).
  destruct (layer_kind l) eqn:Hk.
  - taken 4%nat H Hb1 fl r1 Hfl. taken 4%nat H Hb1 sl r2 Hsl. conditions. rewrite ?E, ?E0 in *. subst fl sl.
    apply taken_full_body in H; [|exact Hb1].
    destruct H as (vec & imp & hs & rest & at2 & -> & Fh & Fd & Fv & Fr & Pv & Pi & Si & Sh & Hok & Hs & Hf & _ & H).
    read_to_the_end H. cbn [record_bytes lengths narrowed]. unfold full_bytes. rewrite !Si.
    split; [reflexivity|]. split; [split; [exact Hl|]; repeat split; auto|]. split; [|exact Hf].
    repeat (apply Forall_cons; [assumption|]). rewrite ?Si. now apply lengths_fit.
  - unfold linear_body in H.
    taken 4%nat H Hb1 h r1 Hh. taken 4%nat H Hb1 d r2 Hd. taken 4%nat H Hb1 m r3 Hm. conditions.
    rewrite ?E, ?E0, ?E1 in *. subst h d.
    apply (taken_array false) in H; [|exact Hb1]. destruct H as (vec & r4 & at4 & -> & Hb4 & _ & H & Ev & Sv & Pv & _).
    read_to_the_end H. cbn [record_bytes lengths narrowed arrived] in *. unfold element_bytes in Ev. cbn [leaving] in Ev.
    rewrite Ev, Sv. split; [reflexivity|]. split; [split; [exact Hl|]; auto|]. split; [|constructor].
    repeat constructor; assumption.
  - unfold bounded_body in H.
    taken 4%nat H Hb1 h r1 Hh. taken 4%nat H Hb1 d r2 Hd. taken 4%nat H Hb1 w r3 Hw. taken 4%nat H Hb1 len r4 Hlen.
    taken 4%nat H Hb1 nx r5 Hnx. conditions. rewrite ?E, ?E0, ?E1, ?E2, ?E3 in *. subst h d w len nx.
    apply taken_ring in H; [|exact Hb1]. destruct H as (k & r6 & at6 & -> & Hb6 & Ok & Fk & H).
    apply taken_ring in H; [|exact Hb6]. destruct H as (v & r7 & at7 & -> & Hb7 & Ov & Fv & H).
    read_to_the_end H. cbn [record_bytes lengths narrowed].
    split; [reflexivity|]. split; [split; [exact Hl|]; auto|]. split; [repeat constructor; assumption|].
    intros F. apply Forall_app. auto.
Qed.

Theorem law8_accepted_is_written_again l b f16 s : layer_ok l -> bytes b -> versioned_buffer b ->
  decode l b = Accepted (f16, s) -> encode l f16 s = Written b.
Proof.
  intros Hl Hb Hv H. assert (reads (versioned l) 0 b (Accepted (f16, s))) as R.
  { apply run_whole. destruct Hv as [r ->]. now rewrite <- decode_versioned. }
  destruct (taken_record l f16 s b Hl Hb Hv R) as (-> & _ & Hf & Ho).
  now apply law7_encodes_what_fits.
Qed.

(* A linear layer's state in an unversioned body: its position is the body's u32 seq_len. *)
Lemma no_rows whole hs : whole = 0 -> Forall (head_ok whole) hs -> hs = repeat (Head [] []) (length hs).
Proof.
  intros ->. induction 1 as [|[k v] hs (Hk & Hv & _) _ IH]; [reflexivity|]. cbn [length repeat keys values] in *.
  rewrite <- IH. assert (size k = 0) as Hk0 by (destruct Hk; assumption). rewrite Hk0 in Hv.
  now rewrite (size_zero _ Hk0), (size_zero _ Hv).
Qed.

Lemma taken_unversioned l f16 s b : layer_ok l -> bytes b -> layer_kind l <> kind_bounded ->
  reads (unversioned l) 0 b (Accepted (f16, s)) ->
  b = unversioned_bytes l f16 s /\ coherent l s /\ Forall fits_u32 (lengths l s) /\ (f16 = true -> Forall fits_f16 (narrowed s)).
Proof.
  intros Hl Hb Hk H. unfold unversioned in H.
  change (Field 4) with (@Field (bool * state) (N.of_nat 4)) in H.
  taken 4%nat H Hb fl r1 Hfl. taken 4%nat H Hb sl r2 Hsl. conditions. rewrite E in *.
  destruct (layer_kind l) eqn:Kd; [| |contradiction]; clear Hk.
  - apply taken_full_body in H; [|exact Hb].
    destruct H as (vec & imp & hs & rest & at2 & -> & Fh & Fd & Fv & Fr & Pv & Pi & Si & Sh & Hok & Hs & Hf & _ & H).
    read_to_the_end H. cbn [unversioned_bytes lengths narrowed]. unfold full_bytes. rewrite Si, <- flag_taken by assumption.
    split; [reflexivity|]. split; [split; [exact Hl|]; repeat split; auto|]. split; [|exact Hf].
    repeat (apply Forall_cons; [assumption|]). rewrite ?Si. now apply lengths_fit.
  - apply taken_full_body in H; [|exact Hb].
    destruct H as (vec & imp & hs & rest & at2 & -> & Fh & Fd & Fv & Fr & Pv & Pi & Si & Sh & Hok & Hs & Hf & _ & H).
    read_to_the_end H. cbn [unversioned_bytes lengths narrowed]. unfold full_bytes.
    rewrite <- flag_taken by assumption. apply size_zero in Si. subst imp.
    rewrite (no_rows _ hs eq_refl Hok) at 1.
    replace (length hs) with (N.to_nat (kv_heads l)) by (rewrite <- Sh; unfold size; lia).
    split; [reflexivity|]. split; [split; [exact Hl|]|]. 
    + repeat split; auto. unfold max_count. change (256 ^ N.of_nat 4) with 4294967296 in Hsl. lia.
    + split; [repeat constructor; assumption | constructor].
Qed.

Lemma accepted_unversioned l b f16 s : ~ versioned_buffer b -> decode l b = Accepted (f16, s) ->
  layer_kind l <> kind_bounded /\ reads (unversioned l) 0 b (Accepted (f16, s)).
Proof.
  intros Hv H. rewrite decode_unversioned in H by exact Hv. unfold refuses_unversioned in H.
  destruct (negb (unversioned_allowed l)); [discriminate|].
  destruct (layer_kind l) eqn:K; cbn [orb] in H; try discriminate; (split; [discriminate | now apply run_whole]).
Qed.

Theorem law8_accepted_unversioned_body l b f16 s : layer_ok l -> bytes b -> ~ versioned_buffer b ->
  decode l b = Accepted (f16, s) -> unversioned_bytes l f16 s = b.
Proof.
  intros Hl Hb Hv H. destruct (accepted_unversioned _ _ _ _ Hv H) as [Hk R].
  now destruct (taken_unversioned l f16 s b Hl Hb Hk R) as (-> & _).
Qed.

(* What a decoder hands over is a state that the layer may hold, and one that it can write: the record around an
   unversioned body is read back to the same state. *)
Theorem law8_accepted_is_coherent l b f16 s : layer_ok l -> bytes b -> decode l b = Accepted (f16, s) ->
  coherent l s /\ exists again, encode l f16 s = Written again /\ decode l again = Accepted (f16, travelled f16 s).
Proof.
  intros Hl Hb H.
  assert (coherent l s /\ Forall fits_u32 (lengths l s) /\ (f16 = true -> Forall fits_f16 (narrowed s))) as (Hc & Hf & Ho).
  { destruct (versioned_or_not b) as [Hv|Hv].
    - apply (taken_record l f16 s b Hl Hb Hv). apply run_whole. destruct Hv as [r ->]. now rewrite <- decode_versioned.
    - destruct (accepted_unversioned _ _ _ _ Hv H) as [Hk R]. apply (taken_unversioned l f16 s b Hl Hb Hk R). }
  split; [exact Hc|]. assert (encode l f16 s = Written (record_bytes l f16 s)) as He by now apply law7_encodes_what_fits.
  exists (record_bytes l f16 s). split; [exact He | now apply law7_decode_encode].
Qed.

(* No two states share a record, and no state has two under one flag. *)
Theorem law8_one_record_one_state l f16 g16 s t b : coherent l s -> coherent l t ->
  encode l f16 s = Written b -> encode l g16 t = Written b -> f16 = g16 /\ travelled f16 s = travelled g16 t.
Proof.
  intros Hs Ht Es Et. pose proof (law7_decode_encode _ _ _ _ Hs Es) as D.
  rewrite (law7_decode_encode _ _ _ _ Ht Et) in D. injection D as -> ->. auto.
Qed.

(* The unversioned body of a state is read as that state, by a layer that takes it. *)
Theorem law7_unversioned_body l f16 s : coherent l s -> Forall fits_u32 (lengths l s) ->
  (forall n vector, s = Linear n vector -> fits_u32 n) -> refuses_unversioned l = false ->
  decode l (unversioned_bytes l f16 s) = Accepted (f16, travelled f16 s).
Proof.
  intros [Hl Hs] Hf Hn Hr.
  assert (takes (unversioned l) (unversioned_bytes l f16 s) (f16, travelled f16 s)) as T.
  { unfold unversioned. destruct s as [n vec imp hs | n vec | n k v]; cbn [unversioned_bytes lengths] in *; unfold full_bytes.
    - destruct Hs as (Hk & Pv & Pi & Hi & Hh & Hok). rewrite Hk.
      repeat (apply Forall_cons_iff in Hf; let H := fresh "F" in destruct Hf as [H Hf]). unfold fits_u32 in *.
      next_integer; [destruct f16; reflexivity|]. next_integer. rewrite flag_le_4, le_4 by assumption.
      apply takes_full_body; try assumption; [now apply Forall_map in Hf | apply takes_done].
    - destruct Hs as (Hk & _ & Pv). rewrite Hk. specialize (Hn n vec eq_refl).
      repeat (apply Forall_cons_iff in Hf; let H := fresh "F" in destruct Hf as [H Hf]). unfold fits_u32 in *.
      next_integer; [destruct f16; reflexivity|]. next_integer. rewrite flag_le_4, le_4 by assumption.
      apply takes_full_body; try assumption; try reflexivity; try constructor.
      + unfold size. rewrite repeat_length. apply N2Nat.id.
      + apply Forall_forall. intros h Hin. apply repeat_spec in Hin. subst h. unfold head_ok. cbn [keys values].
        repeat split; auto; constructor.
      + apply Forall_forall. intros h Hin. apply repeat_spec in Hin. subst h. reflexivity.
    - destruct Hs as (Hk & _). exfalso. unfold refuses_unversioned in Hr. rewrite Hk in Hr.
      now rewrite orb_true_r in Hr. }
  assert (~ versioned_buffer (unversioned_bytes l f16 s)) as Hv.
  { destruct s as [n vec imp hs | n vec | n k v]; cbn [unversioned_bytes]; unfold full_bytes; intros [r E];
      destruct f16; discriminate E. }
  rewrite decode_unversioned, Hr by exact Hv. apply run_whole. apply T.
Qed.

(* Law 8, the reading: total, inside the buffer, the first fault and nothing later, nothing after the end. *)
From Coq Require Import NArith PeanoNat List Lia Bool.
From KvCodec Require Import Bytes Binary16 Grammar Record RoundTrip Law7.
Import ListNotations.
Open Scope N_scope.

(* --- docs/wire.md, without running anything --------------------------------------------------------------------------- *)

Inductive wire (l : layer) (b : list N) : outcome (bool * state) -> Prop :=
| with_header o : versioned_buffer b -> reads (versioned l) 0 b o -> wire l b o
| not_taken : ~ versioned_buffer b -> refuses_unversioned l = true ->
    wire l b (Refused (Error unversioned_refused 0 0 0))
| without_header o : ~ versioned_buffer b -> refuses_unversioned l = false -> reads (unversioned l) 0 b o -> wire l b o.

Theorem law8_decoder_follows_the_page l b o : decode l b = o <-> wire l b o.
Proof.
  destruct (versioned_or_not b) as [Hv|Hv].
  - assert (decode l b = run (versioned l) 0 (size b) b) as -> by (destruct Hv as [r ->]; apply decode_versioned).
    rewrite run_whole. split; [now constructor | intros H; inversion H; now try contradiction].
  - rewrite decode_unversioned by exact Hv. destruct (refuses_unversioned l) eqn:E.
    + split; [intros <-; now constructor | intros H; inversion H; now try congruence].
    + rewrite run_whole. split; [now constructor 3 | intros H; inversion H; now try congruence].
Qed.

(* --- inside the buffer ------------------------------------------------------------------------------------------------ *)

Theorem law8_total l b : (exists f16 s, decode l b = Accepted (f16, s)) \/ (exists e, decode l b = Refused e).
Proof.
  destruct (decode l b) as [[f16 s]|e|] eqn:E; [left; eauto | right; eauto |].
  exfalso. apply law8_decoder_follows_the_page in E. inversion E; subst; eapply reads_never_wild; eauto.
Qed.

(* The buffer ends where the memory does: no read is wild. It lies in a larger one: what is beyond changes nothing. *)
Theorem law8_never_past_the_end l b : decode l b <> Wild.
Proof. destruct (law8_total l b) as [(f & s & ->)|(e & ->)]; discriminate. Qed.

Theorem law8_beyond_changes_nothing l b beyond : decode_in l (b ++ beyond) (size b) = decode l b.
Proof.
  unfold decode, decode_in.
  assert (forall g : grammar (bool * state), run g 0 (size b) (b ++ beyond) = run g 0 (size b) b) as R.
  { intros g. apply run_is_reads. now apply run_whole. }
  rewrite !R. destruct (N.ltb_spec (size b) 4) as [|H]; [reflexivity|].
  destruct (split_size 4 b H) as (m & r & -> & <-). rewrite <- app_assoc, !split_at_app. reflexivity.
Qed.

(* --- conditions point into their fields ------------------------------------------------------------------------------- *)

Lemma inside_equals n v why : 0 < n -> inside n (equals v why).
Proof. intros Hn field f _. unfold equals. destruct (_ =? _); [discriminate|]. intros H. now injection H as <-. Qed.

Lemma inside_at_most n v why : 0 < n -> inside n (at_most v why).
Proof. intros Hn field f _. unfold at_most. destruct (_ <=? _); [discriminate|]. intros H. now injection H as <-. Qed.

Lemma inside_zero_or n v why : 0 < n -> inside n (zero_or v why).
Proof. intros Hn field f _. unfold zero_or. destruct (_ || _); [discriminate|]. intros H. now injection H as <-. Qed.

Lemma first_stray_index row written v : forall i j x, first_stray row written i v = Some (j, x) -> j < i + size v.
Proof.
  induction v as [|y v IH]; intros i j x H; cbn [first_stray] in H; [discriminate|]. rewrite size_cons.
  destruct (_ || _); [apply IH in H; lia | injection H as <- _; lia].
Qed.

Lemma words_room f16 b : size (words f16 b) * width f16 <= size b.
Proof.
  destruct f16; cbn [words width].
  - revert b. fix IH 1. intros [|x [|y r]]; cbn [words2]; change (size (@nil N)) with 0; rewrite ?size_cons; try lia. specialize (IH r). lia.
  - revert b. fix IH 1. intros [|w [|x [|y [|z r]]]]; cbn [words4]; change (size (@nil N)) with 0; rewrite ?size_cons; try lia. specialize (IH r). lia.
Qed.

Lemma inside_unwritten n f16 row written : inside n (unwritten_zero f16 row written).
Proof.
  intros field f <-. unfold unwritten_zero. destruct (first_stray _ _ _ _) as [[i x]|] eqn:E; [|discriminate].
  intros H. injection H as <-. cbn [f_offset]. apply first_stray_index in E. pose proof (words_room f16 field).
  destruct f16; cbn [width] in *; lia.
Qed.

Ltac pointed := split; [repeat (constructor; [try (apply inside_equals || apply inside_at_most || apply inside_zero_or); reflexivity|]);
  constructor | intros ? _].

Lemma pointed_heads {A} whole f16 : forall n (next : list head -> grammar A), (forall hs, well_pointed (next hs)) ->
  well_pointed (heads_of n whole f16 next).
Proof.
  induction n as [|n IH]; intros next H; cbn [heads_of]; [apply H|].
  do 4 (cbn [well_pointed]; pointed). now apply IH.
Qed.

Lemma pointed_full {A} l f16 rows (next : list N -> list N -> list head -> grammar A) :
  (forall v i hs, well_pointed (next v i hs)) -> well_pointed (full_body l f16 rows next).
Proof. intros H. unfold full_body. do 6 (cbn [well_pointed]; pointed). now apply pointed_heads. Qed.

Lemma pointed_ring {A} l f16 position (next : list N -> grammar A) :
  (forall r, well_pointed (next r)) -> well_pointed (ring_field l f16 position next).
Proof. intros H. unfold ring_field. split; [repeat constructor; apply inside_unwritten | intros ? _; apply H]. Qed.

Lemma pointed_versioned l : well_pointed (versioned l).
Proof.
  unfold versioned, header. do 8 (cbn [well_pointed]; pointed). destruct (layer_kind l).
  - do 2 (cbn [well_pointed]; pointed). now apply pointed_full.
  - unfold linear_body. do 4 (cbn [well_pointed]; pointed). exact I.
  - unfold bounded_body. do 5 (cbn [well_pointed]; pointed). do 2 (apply pointed_ring; intros ?). exact I.
Qed.

Lemma pointed_unversioned l : well_pointed (unversioned l).
Proof. unfold unversioned. do 2 (cbn [well_pointed]; pointed). destruct (layer_kind l); now apply pointed_full. Qed.

(* --- the first fault -------------------------------------------------------------------------------------------------- *)

(* How any refusal looks. `before` is the accepted part in front of the fault. *)
Inductive first_reason (l : layer) (b : list N) (e : error) : Prop :=
| header_missing :
    e = Error unversioned_refused 0 0 0 -> refuses_unversioned l = true -> first_reason l b e
| record_ended before rest a :
    b = before ++ rest -> rest <> [] -> e = Error trailing_bytes (size before) (size before) (size b) ->
    decode l before = Accepted a -> first_reason l b e
| field_cut before rest n :
    b = before ++ rest -> size rest < n -> e = Error truncated (size before) n (size rest) ->
    (forall z, size z < n -> decode l (before ++ z) = Refused (Error truncated (size before) n (size z))) ->
    first_reason l b e
| field_refused before field rest :
    b = before ++ field ++ rest -> size before <= offset e < size before + size field ->
    (forall later, decode l (before ++ field ++ later) = Refused e) ->
    (forall z, size z < size field ->
       decode l (before ++ z) = Refused (Error truncated (size before) (size field) (size z))) ->
    first_reason l b e.

Definition short (b : list N) : Prop := size b < 4.

Lemma short_unversioned b : short b -> ~ versioned_buffer b.
Proof. unfold short. intros H [r ->]. rewrite size_app in H. change (size magic) with 4 in H. lia. Qed.

Lemma same_start p x y : 4 <= size p -> versioned_buffer (p ++ x) -> versioned_buffer (p ++ y).
Proof.
  intros Hp [r E]. destruct (split_size 4 p Hp) as (m & t & -> & Hm). rewrite <- app_assoc in E.
  apply app_same_size in E; [|exact Hm]. destruct E as [-> _]. exists (t ++ y). now rewrite app_assoc.
Qed.

Lemma with_header_decodes l b o : versioned_buffer b -> reads (versioned l) 0 b o -> decode l b = o.
Proof. intros Hv H. apply law8_decoder_follows_the_page. now constructor. Qed.

Lemma without_header_decodes l b o : ~ versioned_buffer b -> refuses_unversioned l = false ->
  reads (unversioned l) 0 b o -> decode l b = o.
Proof. intros Hv Hr H. apply law8_decoder_follows_the_page. now constructor 3. Qed.

Lemma offset_from {A} (g : grammar A) at_ b e : reads g at_ b (Refused e) -> at_ <= offset e.
Proof.
  intros H. remember (Refused e) as o. revert Heqo.
  induction H; intros E; try discriminate; try (injection E as <-; cbn [offset error_at]; lia).
  specialize (IHreads E). lia.
Qed.

(* Both grammars begin with a field of four bytes, and the one with a header takes any. *)
Lemma first_field_cut {A} cs (next : list N -> grammar A) b e : size b < 4 -> reads (Field 4 cs next) 0 b (Refused e) ->
  e = Error truncated 0 4 (size b).
Proof. intros Hb H. inversion H; subst; rewrite ?size_app in *; try lia. reflexivity. Qed.

Lemma first_field_there {A} cs (next : list N -> grammar A) b a : reads (Field 4 cs next) 0 b (Accepted a) -> 4 <= size b.
Proof. intros H. inversion H; subst. rewrite size_app. lia. Qed.

Lemma magic_taken {A} (next : list N -> grammar A) b e : 4 <= size b -> reads (Field 4 [] next) 0 b (Refused e) -> 4 <= offset e.
Proof.
  intros Hb H. inversion H; subst; try lia.
  - match goal with E : ?l ++ _ :: _ = [] |- _ => now destruct l end.
  - match goal with R : reads (next _) _ _ _ |- _ => apply offset_from in R; lia end.
Qed.

Lemma reason_with_header l b e : versioned_buffer b -> reads (versioned l) 0 b (Refused e) -> first_reason l b e.
Proof.
  intros Hv H.
  assert (4 <= size b) as Hs by (destruct Hv as [r ->]; rewrite size_app; change (size magic) with 4; lia).
  pose proof (magic_taken _ _ _ Hs H) as Ho.
  destruct (refusals _ _ _ _ (pointed_versioned l) H) as [a before rest -> Hr -> R | before rest n -> Hn -> R
    | before field rest f -> -> Hf R C]; rewrite ?N.add_0_l in *; cbn [offset error_at] in *.
  - apply (record_ended l _ _ before rest a); try reflexivity; try exact Hr. apply with_header_decodes; [|exact R].
    rewrite <- (app_nil_r before). eapply same_start; [|exact Hv]. exact Ho.
  - apply (field_cut l _ _ before rest n); try reflexivity; try exact Hn. intros z Hz.
    apply with_header_decodes; [|exact (R z Hz)]. eapply same_start; [exact Ho | exact Hv].
  - assert (4 <= size before) as Hb.
    { destruct (N.le_gt_cases 4 (size before)) as [|Hb]; [assumption|]. exfalso.
      destruct (N.eq_dec (size field) 0) as [F|F]; [lia|].
      pose proof (C [] ltac:(rewrite size_nil; lia)) as C0. rewrite app_nil_r in C0.
      apply first_field_cut in C0; [|exact Hb]. injection C0 as E1 E2 _. lia. }
    apply (field_refused l _ _ before field rest); [reflexivity | cbn [offset error_at]; lia | |].
    + intros later. apply with_header_decodes; [|exact (R later)]. eapply same_start; [exact Hb | exact Hv].
    + intros z Hz. apply with_header_decodes; [|exact (C z Hz)]. eapply same_start; [exact Hb | exact Hv].
Qed.

Lemma still_without p x y : 4 <= size p -> ~ versioned_buffer (p ++ x) -> ~ versioned_buffer (p ++ y).
Proof. intros Hp Hn H. apply Hn. eapply same_start; [exact Hp | exact H]. Qed.

Lemma reason_without_header l b e : ~ versioned_buffer b -> refuses_unversioned l = false ->
  reads (unversioned l) 0 b (Refused e) -> first_reason l b e.
Proof.
  intros Hv Hu H. pose proof (without_header_decodes l) as D.
  (* An error in the first field, which is whole or cut: nothing stands before it. *)
  assert (forall before n, size before < 4 -> 0 < n ->
    (forall z, size z < n -> reads (unversioned l) 0 (before ++ z) (Refused (Error truncated (size before) n (size z)))) ->
    before = [] /\ n = 4) as First.
  { intros before n Hb Hn R. specialize (R [] ltac:(rewrite size_nil; lia)). rewrite app_nil_r in R.
    apply first_field_cut in R; [|exact Hb]. injection R as E1 E2 _. split; [now apply size_zero | exact E2]. }
  destruct (refusals _ _ _ _ (pointed_unversioned l) H) as [a before rest -> Hr -> R | before rest n -> Hn -> R
    | before field rest f -> -> Hf R C]; rewrite ?N.add_0_l in *; cbn [offset error_at] in *.
  - apply (record_ended l _ _ before rest a); try reflexivity; try exact Hr. apply D; [|exact Hu|exact R].
    rewrite <- (app_nil_r before). eapply still_without; [exact (first_field_there _ _ _ _ R) | exact Hv].
  - apply (field_cut l _ _ before rest n); try reflexivity; try exact Hn. intros z Hz. apply D; [|exact Hu|exact (R z Hz)].
    destruct (N.le_gt_cases 4 (size before)) as [Hb|Hb]; [eapply still_without; [exact Hb | exact Hv]|].
    destruct (First before n Hb ltac:(lia) R) as [-> ->]. now apply short_unversioned.
  - assert (size before < 4 -> before = [] /\ size field = 4) as F by (intros Hb; apply First; [exact Hb | lia | exact C]).
    apply (field_refused l _ _ before field rest); [reflexivity | cbn [offset error_at]; lia | |].
    + intros later. apply D; [|exact Hu|exact (R later)]. rewrite app_assoc in *. eapply still_without; [|exact Hv].
      rewrite size_app. destruct (N.le_gt_cases 4 (size before)) as [Hb|Hb]; [lia|]. destruct (F Hb). lia.
    + intros z Hz. apply D; [|exact Hu|exact (C z Hz)].
      destruct (N.le_gt_cases 4 (size before)) as [Hb|Hb]; [eapply still_without; [exact Hb | exact Hv]|].
      destruct (F Hb) as [-> F4]. apply short_unversioned. unfold short. cbn [app]. lia.
Qed.

(* Every refusal is for the first fault in byte order: what stands before it was accepted (cut there, the buffer is
   refused as truncated at that very place), and what stands behind its field was not looked at. *)
Theorem law8_first_fault l b e : decode l b = Refused e -> first_reason l b e.
Proof.
  intros H. apply law8_decoder_follows_the_page in H. inversion H; subst.
  - now apply reason_with_header.
  - now apply header_missing.
  - now apply reason_without_header.
Qed.

Theorem law8_offset_inside l b e : decode l b = Refused e -> offset e <= size b.
Proof.
  intros H. destruct (law8_first_fault l b e H) as [-> _ | before rest a -> _ -> _ | before rest n -> _ -> _
    | before field rest -> Ho _ _]; cbn [offset]; rewrite ?size_app; lia.
Qed.

(* Nothing after the end: an accepted record, made longer, is refused where it ended. *)
Theorem law8_nothing_after_the_end l b a rest : decode l b = Accepted a -> rest <> [] ->
  decode l (b ++ rest) = Refused (Error trailing_bytes (size b) (size b) (size (b ++ rest))).
Proof.
  intros H Hr. apply law8_decoder_follows_the_page in H. apply law8_decoder_follows_the_page. inversion H; subst.
  - constructor; [|exact (reads_longer _ _ _ _ _ H1 Hr)]. destruct H0 as [r ->]. exists (r ++ rest). now rewrite app_assoc.
  - constructor 3; [|assumption|exact (reads_longer _ _ _ _ _ H2 Hr)].
    rewrite <- (app_nil_r b) in H0. eapply still_without; [exact (first_field_there _ _ _ _ H2) | exact H0].
Qed.

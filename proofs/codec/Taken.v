(* The way back: what an accepted buffer looks like, part by part. *)
From Coq Require Import NArith PeanoNat List Lia Bool.
From KvCodec Require Import Bytes Binary16 Grammar Record RoundTrip Law7.
Import ListNotations.
Open Scope N_scope.

Lemma taken_field {A} n cs (next : list N -> grammar A) at_ b a : bytes b -> reads (Field n cs next) at_ b (Accepted a) ->
  exists field rest, b = field ++ rest /\ size field = n /\ bytes field /\ bytes rest /\ Forall (holds field) cs
  /\ reads (next field) (at_ + n) rest (Accepted a).
Proof.
  intros Hb H. inversion H; subst. apply bytes_app in Hb. destruct Hb. eexists _, _. repeat split; eauto.
Qed.

Lemma taken_integer {A} k cs (next : list N -> grammar A) at_ b a : bytes b ->
  reads (Field (N.of_nat k) cs next) at_ b (Accepted a) ->
  exists v rest, b = to_le k v ++ rest /\ v < 256 ^ N.of_nat k /\ le (to_le k v) = v /\ bytes rest
  /\ Forall (holds (to_le k v)) cs /\ reads (next (to_le k v)) (at_ + N.of_nat k) rest (Accepted a).
Proof.
  intros Hb H. destruct (taken_field _ _ _ _ _ _ Hb H) as (field & rest & -> & Hs & Hf & Hr & Hc & Hn).
  assert (field = to_le k (le field)) as E by now apply to_le_of.
  exists (le field), rest. rewrite <- E. repeat split; auto. rewrite <- Hs. now apply le_bound.
Qed.

(* From a hypothesis that some fields were taken: the fields. *)
Ltac taken k H Hb v rest Hv :=
  let Hle := fresh "E" in let Hc := fresh "C" in let H' := fresh H in let Hr := fresh "B" in
  apply (taken_integer k) in H; [|exact Hb];
  destruct H as (v & rest & -> & Hv & Hle & Hr & Hc & H');
  rewrite ?Hle in H'; clear Hb; rename Hr into Hb; rename H' into H.

Lemma equals_taken field v why : holds field (equals v why) -> le field = v.
Proof. unfold holds, equals. destruct (N.eqb_spec (le field) v); [auto | discriminate]. Qed.

Lemma at_most_taken field v why : holds field (at_most v why) -> le field <= v.
Proof. unfold holds, at_most. destruct (N.leb_spec (le field) v); [auto | discriminate]. Qed.

Lemma zero_or_taken field v why : holds field (zero_or v why) -> le field = 0 \/ le field = v.
Proof.
  unfold holds, zero_or. destruct (N.eqb_spec (le field) 0); [auto|].
  destruct (N.eqb_spec (le field) v); [auto | discriminate].
Qed.

Lemma flag_taken v : v <= 1 -> v = flag (v =? 1).
Proof. intros H. destruct (N.eqb_spec v 1) as [->|]; [reflexivity|]. cbn. lia. Qed.

Ltac conditions :=
  repeat match goal with
  | C : Forall (holds _) [] |- _ => clear C
  | C : Forall (holds _) (_ :: _) |- _ => apply Forall_cons_iff in C; let K := fresh "K" in destruct C as [K C]
  | K : holds _ (equals _ _) |- _ => apply equals_taken in K
  | K : holds _ (at_most _ _) |- _ => apply at_most_taken in K
  | K : holds _ (zero_or _ _) |- _ => apply zero_or_taken in K
  end.

Lemma taken_header {A} l (body : bool -> N -> grammar A) at_ r a : bytes (magic ++ r) ->
  reads (header l body) at_ (magic ++ r) (Accepted a) ->
  exists f16 n rest after, magic ++ r = header_bytes l f16 n ++ rest /\ n <= max_count /\ bytes rest
  /\ reads (body f16 n) after rest (Accepted a).
Proof.
  intros Hb H. unfold header in H.
  apply taken_field in H; [|exact Hb]. destruct H as (m & rest & E & Hs & _ & Hb' & _ & H).
  apply app_same_size in E; [|now rewrite Hs]. destruct E as [<- ->].
  taken 4%nat H Hb' ver r1 Hv1. taken 8%nat H Hb' ident r2 Hv2. taken 4%nat H Hb' index r3 Hv3.
  taken 1%nat H Hb' kd r4 Hv4. taken 1%nat H Hb' fl r5 Hv5. taken 2%nat H Hb' res r6 Hv6. taken 8%nat H Hb' pos r7 Hv7.
  conditions. repeat match goal with E : le (to_le ?k ?v) = ?v, K : context [le (to_le ?k ?v)] |- _ => rewrite E in K end.
  subst. exists (fl =? 1), pos, r7. eexists. repeat split; [|assumption|assumption|exact H].
  unfold header_bytes. rewrite <- !app_assoc, <- flag_taken by assumption. reflexivity.
Qed.

Lemma arrived_spec f16 b n : bytes b -> size b = n * width f16 ->
  element_bytes f16 (arrived f16 (words f16 b)) = b /\ size (arrived f16 (words f16 b)) = n
  /\ patterns (arrived f16 (words f16 b)) /\ (f16 = true -> Forall fits_f16 (arrived f16 (words f16 b))).
Proof.
  intros Hb Hs. destruct (words_spec f16 b n Hb Hs) as (Hu & Hn & Hw).
  rewrite size_arrived. unfold element_bytes.
  assert (leaving f16 (arrived f16 (words f16 b)) = words f16 b) as ->.
  { destruct f16; [|reflexivity]. cbn [leaving arrived]. rewrite map_map.
    revert Hw. generalize (words true b). induction 1 as [|x v Hx _ IH]; [reflexivity|].
    cbn [map]. now rewrite IH, law7_narrow_widen. }
  repeat split; [exact Hu | exact Hn | |].
  - destruct f16; [|exact Hw]. cbn [arrived]. apply Forall_map. revert Hw. apply Forall_impl. intros x. apply widen_bound.
  - intros ->. cbn [arrived]. apply Forall_map. revert Hw. apply Forall_impl. intros x. apply widen_fits.
Qed.

(* An array field of n elements. *)
Lemma taken_array {A} f16 n cs (next : list N -> grammar A) at_ b a : bytes b ->
  reads (Field (n * width f16) cs next) at_ b (Accepted a) ->
  exists field rest after, b = field ++ rest /\ bytes rest /\ Forall (holds field) cs
  /\ reads (next field) after rest (Accepted a)
  /\ element_bytes f16 (arrived f16 (words f16 field)) = field /\ size (arrived f16 (words f16 field)) = n
  /\ patterns (arrived f16 (words f16 field)) /\ (f16 = true -> Forall fits_f16 (arrived f16 (words f16 field))).
Proof.
  intros Hb H. apply taken_field in H; [|exact Hb]. destruct H as (field & rest & -> & Hs & Hf & Hr & Hc & H).
  eexists _, _, _. split; [reflexivity|]. split; [exact Hr|]. split; [exact Hc|]. split; [exact H|].
  now apply arrived_spec.
Qed.

Lemma taken_heads {A} f16 whole : forall n (next : list head -> grammar A) at_ b a, bytes b ->
  reads (heads_of n whole f16 next) at_ b (Accepted a) ->
  exists hs rest after, b = flat_map (head_bytes f16) hs ++ rest /\ bytes rest /\ length hs = n
  /\ Forall (head_ok whole) hs /\ Forall (fun h => size (keys h) < 2 ^ 32) hs
  /\ (f16 = true -> Forall fits_f16 (flat_map (fun h => keys h ++ values h) hs))
  /\ reads (next hs) after rest (Accepted a).
Proof.
  induction n as [|n IH]; intros next at_ b a Hb H; cbn [heads_of] in H.
  - exists [], b, at_. repeat split; auto; constructor.
  - taken 4%nat H Hb k_len r1 Hk. 
    apply (taken_array f16) in H; [|exact Hb]. destruct H as (k & r2 & after & -> & Hb2 & _ & H & Ek & Sk & Pk & Fk).
    taken 4%nat H Hb2 v_len r3 Hv. conditions. rewrite E, E0 in *. subst v_len.
    apply (taken_array f16) in H; [|exact Hb2]. destruct H as (v & r4 & after' & -> & Hb4 & _ & H & Ev & Sv & Pv & Fv).
    apply IH in H; [|exact Hb4]. destruct H as (hs & rest & after'' & -> & Hr & Hl & Hok & Hs & Hf & H).
    exists (Head (arrived f16 (words f16 k)) (arrived f16 (words f16 v)) :: hs), rest, after''.
    split; [|split; [exact Hr | split; [cbn [length]; now rewrite Hl | split; [|split; [|split]]]]].
    + set (h := Head _ _). change (flat_map (head_bytes f16) (h :: hs)) with (head_bytes f16 h ++ flat_map (head_bytes f16) hs).
      assert (head_bytes f16 h = to_le 4 k_len ++ k ++ to_le 4 k_len ++ v) as ->.
      { unfold head_bytes, h. cbn [keys values]. now rewrite Ek, Ev, Sk, Sv. }
      now rewrite <- !app_assoc.
    + constructor; [|exact Hok]. unfold head_ok. cbn [keys values]. rewrite Sk, Sv. auto.
    + constructor; [|exact Hs]. cbn [keys]. now rewrite Sk.
    + intros F. cbn [flat_map keys values]. rewrite !Forall_app. auto.
    + exact H.
Qed.

Lemma taken_full_body {A} l f16 rows (next : list N -> list N -> list head -> grammar A) at_ b a : bytes b ->
  reads (full_body l f16 rows next) at_ b (Accepted a) ->
  exists vector importance hs rest after,
    b = to_le 4 (kv_heads l) ++ to_le 4 (head_dim l) ++ to_le 4 (size vector) ++ to_le 4 (size importance)
        ++ unwords false vector ++ unwords false importance ++ flat_map (head_bytes f16) hs ++ rest
    /\ fits_u32 (kv_heads l) /\ fits_u32 (head_dim l) /\ fits_u32 (size vector) /\ fits_u32 rows
    /\ patterns vector /\ patterns importance /\ size importance = rows /\ size hs = kv_heads l
    /\ Forall (head_ok (rows * head_dim l)) hs /\ Forall (fun h => size (keys h) < 2 ^ 32) hs
    /\ (f16 = true -> Forall fits_f16 (flat_map (fun h => keys h ++ values h) hs))
    /\ bytes rest /\ reads (next vector importance hs) after rest (Accepted a).
Proof.
  intros Hb H. unfold full_body in H.
  taken 4%nat H Hb h r1 Hh. taken 4%nat H Hb d r2 Hd. taken 4%nat H Hb n r3 Hn. taken 4%nat H Hb i r4 Hi.
  conditions. rewrite ?E, ?E0, ?E1, ?E2 in *. subst h d i.
  apply (taken_array false) in H; [|exact Hb]. destruct H as (vec & r5 & at5 & -> & Hb5 & _ & H & Ev & Sv & Pv & _).
  apply (taken_array false) in H; [|exact Hb5]. destruct H as (imp & r6 & at6 & -> & Hb6 & _ & H & Ei & Si & Pi & _).
  apply taken_heads in H; [|exact Hb6]. destruct H as (hs & rest & at7 & -> & Hr & Hl & Hok & Hs & Hf & H).
  cbn [arrived] in *. unfold element_bytes in Ev, Ei. cbn [leaving] in Ev, Ei.
  exists (words false vec), (words false imp), hs, rest, at7. rewrite Ev, Ei, Sv, Si.
  repeat split; auto. unfold size. rewrite Hl. apply N2Nat.id.
Qed.

Lemma taken_ring {A} l f16 position (next : list N -> grammar A) at_ b a : bytes b ->
  reads (ring_field l f16 position next) at_ b (Accepted a) ->
  exists ring rest after, b = element_bytes f16 ring ++ rest /\ bytes rest /\ ring_ok l position ring
  /\ (f16 = true -> Forall fits_f16 ring) /\ reads (next ring) after rest (Accepted a).
Proof.
  intros Hb H. unfold ring_field in H. apply taken_array in H; [|exact Hb].
  destruct H as (field & rest & after & -> & Hr & Hc & H & E & S & P & F).
  exists (arrived f16 (words f16 field)), rest, after. rewrite E. repeat split; auto.
  apply Forall_inv in Hc. unfold holds, unwritten_zero in Hc.
  destruct (first_stray _ _ 0 (words f16 field)) as [[i x]|] eqn:Z; [discriminate|].
  destruct f16; [apply first_stray_map; auto | exact Z].
Qed.

(* Law 7: what is written is read back, and f16 rounds once. *)
From Coq Require Import NArith PeanoNat List Lia Bool.
From KvCodec Require Import Bytes Binary16 Grammar Record.
Import ListNotations.
Open Scope N_scope.

(* --- what a layer may hold ---------------------------------------------------------------------------------------- *)

Definition patterns (v : list N) : Prop := below (2 ^ 32) v.

Definition layer_ok (l : layer) : Prop :=
  identity l < 2 ^ 64 /\ layer_index l < 2 ^ 32 /\ (layer_kind l = kind_bounded -> 1 <= window l).

(* A head has no rows or all of them. *)
Definition head_ok (whole : N) (h : head) : Prop :=
  (size (keys h) = 0 \/ size (keys h) = whole) /\ size (values h) = size (keys h) /\ patterns (keys h) /\ patterns (values h).

Definition ring_ok (l : layer) (position : N) (ring : list N) : Prop :=
  size ring = kv_heads l * row l /\ patterns ring /\ first_stray (row l) (written l position * head_dim l) 0 ring = None.

Definition coherent (l : layer) (s : state) : Prop :=
  layer_ok l /\
  match s with
  | Full n vector importance hs =>
      layer_kind l = kind_full /\ patterns vector /\ patterns importance /\ size importance = n /\ size hs = kv_heads l
      /\ Forall (head_ok (n * head_dim l)) hs
  | Linear n vector => layer_kind l = kind_linear /\ n <= max_count /\ patterns vector
  | Bounded n k v => layer_kind l = kind_bounded /\ n <= max_count /\ ring_ok l n k /\ ring_ok l n v
  end.

(* A slot that was never written holds zeros only: what ring_ok says, element by element. *)
Lemma first_stray_none row written v : forall i,
  first_stray row written i v = None <->
  forall j x, nth_error v j = Some x -> written <= (i + N.of_nat j) mod row -> x = 0.
Proof.
  induction v as [|x v IH]; intros i; cbn [first_stray].
  - split; [intros _ [|j] y H; discriminate | reflexivity].
  - destruct ((x =? 0) || (i mod row <? written)) eqn:E.
    + rewrite IH. split.
      * intros H [|j] y Hj Hw; cbn [nth_error] in Hj.
        -- injection Hj as ->. rewrite N.add_0_r in Hw. apply orb_prop in E.
           destruct E as [E|E]; [now apply N.eqb_eq | apply N.ltb_lt in E; lia].
        -- apply (H j y Hj). now replace (i + 1 + N.of_nat j) with (i + N.of_nat (S j)) by lia.
      * intros H j y Hj Hw. apply (H (S j) y Hj). now replace (i + N.of_nat (S j)) with (i + 1 + N.of_nat j) by lia.
    + split; [discriminate|]. intros H. exfalso. apply orb_false_iff in E. destruct E as [E1 E2].
      apply N.eqb_neq in E1. apply N.ltb_ge in E2. apply E1, (H 0%nat x eq_refl). now rewrite N.add_0_r.
Qed.

(* --- elements on their way ---------------------------------------------------------------------------------------- *)

Lemma size_leaving f16 v : size (leaving f16 v) = size v.
Proof. destruct f16; [apply size_map | reflexivity]. Qed.

Lemma size_arrived f16 v : size (arrived f16 v) = size v.
Proof. destruct f16; [apply size_map | reflexivity]. Qed.

Lemma size_there_and_back f16 v : size (there_and_back f16 v) = size v.
Proof. unfold there_and_back. now rewrite size_arrived, size_leaving. Qed.

Lemma size_element_bytes f16 v : size (element_bytes f16 v) = size v * width f16.
Proof. unfold element_bytes. now rewrite size_unwords, size_leaving. Qed.

Lemma leaving_below f16 v : patterns v -> below (word_limit f16) (leaving f16 v).
Proof.
  intros H. destruct f16; [|exact H]. cbn [leaving word_limit]. apply Forall_map. revert H. apply Forall_impl.
  intros x Hx. now apply narrow_bound.
Qed.

Lemma words_element_bytes f16 v : patterns v -> arrived f16 (words f16 (element_bytes f16 v)) = there_and_back f16 v.
Proof. intros H. unfold element_bytes. now rewrite words_unwords by now apply leaving_below. Qed.

Lemma words_f32 v : patterns v -> words false (unwords false v) = v.
Proof. exact (words_unwords false v). Qed.

(* Unwritten slots are zeros on the wire too. *)
Lemma first_stray_map (f : N -> N) row written v : f 0 = 0 -> forall i,
  first_stray row written i v = None -> first_stray row written i (map f v) = None.
Proof.
  intros H0. induction v as [|x v IH]; intros i H; [reflexivity|]. cbn [map first_stray] in *.
  destruct (N.eqb_spec x 0) as [->|Hx]; [rewrite H0; cbn in *; now apply IH|].
  cbn [orb] in H. destruct (i mod row <? written); [|discriminate]. rewrite orb_true_r. now apply IH.
Qed.

Lemma unwritten_on_wire f16 row written v : patterns v -> first_stray row written 0 v = None ->
  holds (element_bytes f16 v) (unwritten_zero f16 row written).
Proof.
  intros Hp H. unfold holds, unwritten_zero, element_bytes. rewrite words_unwords by now apply leaving_below.
  destruct f16; cbn [leaving]; [rewrite first_stray_map; auto | now rewrite H].
Qed.

(* --- taking fields ------------------------------------------------------------------------------------------------ *)

Definition takes {A} (g : grammar A) (b : list N) (a : A) : Prop := forall at_, reads g at_ b (Accepted a).

Lemma takes_done {A} (a : A) : takes (Done a) [] a.
Proof. intros at_. constructor. Qed.

Lemma takes_field {A} n cs (next : list N -> grammar A) field rest a :
  size field = n -> Forall (holds field) cs -> takes (next field) rest a -> takes (Field n cs next) (field ++ rest) a.
Proof. intros Hn Hc H at_. now apply reads_on. Qed.

Lemma takes_last {A} n cs (next : list N -> grammar A) field a :
  size field = n -> Forall (holds field) cs -> takes (next field) [] a -> takes (Field n cs next) field a.
Proof. intros Hn Hc H. rewrite <- (app_nil_r field). now apply takes_field. Qed.

Lemma le_4 v : v < 2 ^ 32 -> le (to_le 4 v) = v.
Proof. exact (le_to_le 4 v). Qed.

Lemma holds_equals k v why : v < 256 ^ N.of_nat k -> holds (to_le k v) (equals v why).
Proof. intros H. unfold holds, equals. now rewrite le_to_le, N.eqb_refl. Qed.

Lemma holds_at_most k v largest why : v < 256 ^ N.of_nat k -> v <= largest -> holds (to_le k v) (at_most largest why).
Proof. intros H Hv. unfold holds, at_most. rewrite le_to_le by exact H. now apply N.leb_le in Hv as ->. Qed.

Lemma holds_zero_or v accepted why : v < 2 ^ 32 -> v = 0 \/ v = accepted -> holds (to_le 4 v) (zero_or accepted why).
Proof.
  intros H Hv. unfold holds, zero_or. rewrite le_4 by exact H.
  destruct Hv as [->| ->]; rewrite N.eqb_refl, ?orb_true_r; reflexivity.
Qed.

Ltac next_integer := apply takes_field; [apply size_to_le | repeat constructor |].

Lemma flag_le f16 : le (to_le 1 (flag f16)) =? 1 = f16.
Proof. now destruct f16. Qed.

Lemma flag_le_4 f16 : le (to_le 4 (flag f16)) =? 1 = f16.
Proof. now destruct f16. Qed.

Lemma takes_header {A} l (body : bool -> N -> grammar A) f16 position rest a :
  layer_ok l -> position <= max_count -> takes (body f16 position) rest a ->
  takes (header l body) (header_bytes l f16 position ++ rest) a.
Proof.
  intros (Hi & Hl & _) Hp H. assert (position < 2 ^ 64) as Hp64 by (unfold max_count in Hp; lia).
  unfold header, header_bytes. rewrite <- !app_assoc.
  apply takes_field; [reflexivity | constructor |].
  next_integer.
  next_integer; [now apply holds_equals|].
  next_integer; [now apply holds_equals|].
  next_integer; [destruct (layer_kind l); reflexivity | destruct (layer_kind l); reflexivity |].
  next_integer; [destruct f16; reflexivity|].
  next_integer.
  next_integer; [apply holds_at_most; assumption|].
  rewrite flag_le, le_to_le by exact Hp64. exact H.
Qed.

Lemma takes_heads {A} f16 whole : forall hs (next : list head -> grammar A) rest a,
  Forall (head_ok whole) hs -> Forall (fun h => size (keys h) < 2 ^ 32) hs ->
  takes (next (map (fun h => Head (there_and_back f16 (keys h)) (there_and_back f16 (values h))) hs)) rest a ->
  takes (heads_of (length hs) whole f16 next) (flat_map (head_bytes f16) hs ++ rest) a.
Proof.
  induction hs as [|h hs IH]; intros next rest a Hok Hs H; [exact H|].
  apply Forall_cons_iff in Hok. destruct Hok as [(Hk & Hv & Pk & Pv) Hok'].
  apply Forall_cons_iff in Hs. destruct Hs as [Hs1 Hs'].
  cbn [length heads_of].
  change (flat_map (head_bytes f16) (h :: hs)) with (head_bytes f16 h ++ flat_map (head_bytes f16) hs).
  unfold head_bytes at 1. rewrite <- !app_assoc.
  next_integer; [now apply holds_zero_or|]. rewrite le_4 by exact Hs1.
  apply takes_field; [apply size_element_bytes | constructor |].
  next_integer; [rewrite Hv; now apply holds_equals|].
  apply takes_field; [rewrite size_element_bytes, Hv; reflexivity | constructor |].
  rewrite !words_element_bytes by assumption. apply IH; assumption.
Qed.

Lemma takes_full_body {A} l f16 rows vector importance hs (next : list N -> list N -> list head -> grammar A) a :
  kv_heads l < 2 ^ 32 -> head_dim l < 2 ^ 32 -> size vector < 2 ^ 32 -> size importance = rows -> rows < 2 ^ 32 ->
  size hs = kv_heads l -> patterns vector -> patterns importance ->
  Forall (head_ok (rows * head_dim l)) hs -> Forall (fun h => size (keys h) < 2 ^ 32) hs ->
  takes (next vector importance (map (fun h => Head (there_and_back f16 (keys h)) (there_and_back f16 (values h))) hs)) [] a ->
  takes (full_body l f16 rows next)
    (to_le 4 (kv_heads l) ++ to_le 4 (head_dim l) ++ to_le 4 (size vector) ++ to_le 4 (size importance)
     ++ unwords false vector ++ unwords false importance ++ flat_map (head_bytes f16) hs) a.
Proof.
  intros Hh Hd Hv Hi Hr Hhs Pv Pi Hok Hs H. unfold full_body.
  next_integer; [now apply holds_equals|].
  next_integer; [now apply holds_equals|].
  next_integer. rewrite le_4 by exact Hv.
  next_integer; [rewrite Hi; now apply holds_equals|]. rewrite le_4 by now rewrite Hi.
  apply takes_field; [apply (size_unwords false) | constructor |].
  apply takes_field; [apply (size_unwords false) | constructor |].
  rewrite !words_f32 by assumption. rewrite <- (app_nil_r (flat_map _ _)).
  replace (N.to_nat (kv_heads l)) with (length hs) by (rewrite <- Hhs; unfold size; lia).
  now apply takes_heads.
Qed.

Lemma takes_ring {A} l f16 position ring (next : list N -> grammar A) rest a :
  ring_ok l position ring -> takes (next (there_and_back f16 ring)) rest a ->
  takes (ring_field l f16 position next) (element_bytes f16 ring ++ rest) a.
Proof.
  intros (Hs & Hp & Hz) H. unfold ring_field. apply takes_field.
  - rewrite size_element_bytes, Hs. reflexivity.
  - repeat constructor. now apply unwritten_on_wire.
  - now rewrite words_element_bytes.
Qed.

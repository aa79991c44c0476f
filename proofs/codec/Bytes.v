(* Bytes, little-endian integers, arrays of them. A buffer is a list of N, each below 256. *)
From Coq Require Import NArith PeanoNat List Lia Bool.
Import ListNotations.
Open Scope N_scope.

Definition bytes (b : list N) : Prop := Forall (fun x => x < 256) b.
Definition size {A} (b : list A) : N := N.of_nat (length b).

Fixpoint le (b : list N) : N :=
  match b with
  | [] => 0
  | x :: r => x + 256 * le r
  end.

Fixpoint to_le (n : nat) (v : N) : list N :=
  match n with
  | O => []
  | S m => v mod 256 :: to_le m (v / 256)
  end.

(* The first n bytes of memory and what lies behind them; None where the memory ends before. *)
Fixpoint split_at (n : N) (mem : list N) : option (list N * list N) :=
  if n =? 0 then Some ([], mem)
  else match mem with
       | [] => None
       | x :: r => match split_at (n - 1) r with
                   | Some (taken, rest) => Some (x :: taken, rest)
                   | None => None
                   end
       end.

(* Elements of an array: two bytes under f16, else four. *)
Definition width (f16 : bool) : N := if f16 then 2 else 4.

Fixpoint words4 (b : list N) : list N :=
  match b with
  | w :: x :: y :: z :: r => le [w; x; y; z] :: words4 r
  | _ => []
  end.

Fixpoint words2 (b : list N) : list N :=
  match b with
  | x :: y :: r => le [x; y] :: words2 r
  | _ => []
  end.

Definition words (f16 : bool) (b : list N) : list N := if f16 then words2 b else words4 b.
Definition unwords (f16 : bool) (v : list N) : list N := flat_map (to_le (if f16 then 2%nat else 4%nat)) v.

Definition below (limit : N) (v : list N) : Prop := Forall (fun x => x < limit) v.
Definition word_limit (f16 : bool) : N := if f16 then 2 ^ 16 else 2 ^ 32.

(* --- sizes ------------------------------------------------------------------------------------------------------ *)

Lemma size_app {A} (a b : list A) : size (a ++ b) = size a + size b.
Proof. unfold size. rewrite app_length. lia. Qed.

Lemma size_nil {A} : size (@nil A) = 0.
Proof. reflexivity. Qed.

Lemma size_zero {A} (b : list A) : size b = 0 -> b = [].
Proof. destruct b; [reflexivity | intros H; discriminate H]. Qed.

Lemma size_cons {A} (x : A) b : size (x :: b) = 1 + size b.
Proof. unfold size. cbn [length]. lia. Qed.

Lemma size_map {A B} (f : A -> B) b : size (map f b) = size b.
Proof. unfold size. now rewrite map_length. Qed.

Lemma length_to_le n v : length (to_le n v) = n.
Proof. revert v. induction n; simpl; intros; [reflexivity | now rewrite IHn]. Qed.

Lemma size_to_le n v : size (to_le n v) = N.of_nat n.
Proof. unfold size. now rewrite length_to_le. Qed.

(* --- integers --------------------------------------------------------------------------------------------------- *)

Lemma bytes_to_le n v : bytes (to_le n v).
Proof. revert v. induction n; simpl; intros; constructor; [apply N.mod_lt; lia | apply IHn]. Qed.

Lemma pow_256 n : 256 ^ N.of_nat (S n) = 256 * 256 ^ N.of_nat n.
Proof. rewrite Nat2N.inj_succ, N.pow_succ_r'. reflexivity. Qed.

Lemma le_to_le n v : v < 256 ^ N.of_nat n -> le (to_le n v) = v.
Proof.
  revert v. induction n; intros v H.
  - change (v < 1) in H. cbn [to_le le]. lia.
  - rewrite pow_256 in H. cbn [to_le le]. rewrite IHn.
    + pose proof (N.div_mod v 256). lia.
    + apply N.div_lt_upper_bound; lia.
Qed.

Lemma le_bound b : bytes b -> le b < 256 ^ size b.
Proof.
  unfold size. induction 1; [reflexivity|].
  cbn [length le]. rewrite pow_256. lia.
Qed.

Lemma to_le_le b : bytes b -> to_le (length b) (le b) = b.
Proof.
  induction 1 as [|x r Hx Hr IH]; [reflexivity|].
  cbn [length le to_le]. rewrite (N.mul_comm 256), N.mod_add, N.div_add by lia.
  rewrite N.mod_small, N.div_small by lia. now rewrite N.add_0_l, IH.
Qed.

Lemma to_le_of n b v : bytes b -> size b = N.of_nat n -> le b = v -> b = to_le n v.
Proof.
  intros Hb Hn <-. unfold size in Hn. apply Nat2N.inj in Hn. subst n. symmetry. now apply to_le_le.
Qed.

(* --- splitting -------------------------------------------------------------------------------------------------- *)

Lemma split_at_app a z : split_at (size a) (a ++ z) = Some (a, z).
Proof.
  induction a as [|x a IH].
  - destruct z; reflexivity.
  - rewrite size_cons. cbn [split_at app].
    destruct (N.eqb_spec (1 + size a) 0); [lia|].
    replace (1 + size a - 1) with (size a) by lia. now rewrite IH.
Qed.

Lemma split_at_some n mem a z : split_at n mem = Some (a, z) -> mem = a ++ z /\ size a = n.
Proof.
  revert n a z. induction mem as [|x r IH]; intros n a z H; cbn [split_at] in H;
    destruct (N.eqb_spec n 0) as [->|Hn].
  - now injection H as <- <-.
  - discriminate.
  - now injection H as <- <-.
  - destruct (split_at (n - 1) r) as [[a' z']|] eqn:E; [|discriminate].
    injection H as <- <-. destruct (IH _ _ _ E) as [-> Hs]. split; [reflexivity|].
    rewrite size_cons. lia.
Qed.

Lemma split_size n (b : list N) : n <= size b -> exists a z, b = a ++ z /\ size a = n.
Proof.
  intros H. exists (firstn (N.to_nat n) b), (skipn (N.to_nat n) b). split; [symmetry; apply firstn_skipn|].
  unfold size in *. rewrite firstn_length. lia.
Qed.

Lemma firstn_app_size (a z : list N) n : size a = n -> firstn (N.to_nat n) (a ++ z) = a.
Proof.
  intros <-. unfold size. rewrite Nat2N.id, firstn_app, Nat.sub_diag, firstn_all. simpl. now rewrite app_nil_r.
Qed.

Lemma bytes_app a b : bytes (a ++ b) <-> bytes a /\ bytes b.
Proof. apply Forall_app. Qed.

Lemma app_same_size {A} (a b c d : list A) : a ++ b = c ++ d -> size a = size c -> a = c /\ b = d.
Proof.
  revert c. induction a as [|x a IH]; intros [|y c] H Hs; rewrite ?size_cons, ?size_nil in Hs; try lia.
  - split; [reflexivity | exact H].
  - injection H as -> H. destruct (IH c H) as [-> ->]; [lia|]. split; reflexivity.
Qed.

(* --- arrays ----------------------------------------------------------------------------------------------------- *)

Lemma size_unwords f16 v : size (unwords f16 v) = size v * width f16.
Proof.
  unfold unwords. induction v as [|x v IH]; [reflexivity|].
  cbn [flat_map]. rewrite size_app, size_to_le, IH, size_cons. destruct f16; cbn [width]; lia.
Qed.

Lemma bytes_unwords f16 v : bytes (unwords f16 v).
Proof.
  unfold unwords. induction v as [|x v IH]; [constructor|].
  cbn [flat_map]. apply bytes_app. split; [apply bytes_to_le | exact IH].
Qed.

Lemma words_unwords f16 v : below (word_limit f16) v -> words f16 (unwords f16 v) = v.
Proof.
  destruct f16; cbn [word_limit words]; unfold unwords; induction 1 as [|x v Hx Hv IH]; try reflexivity;
    cbn [flat_map].
  - change (le (to_le 2 x) :: words2 (flat_map (to_le 2) v) = x :: v). rewrite IH, le_to_le; [reflexivity | exact Hx].
  - change (le (to_le 4 x) :: words4 (flat_map (to_le 4) v) = x :: v). rewrite IH, le_to_le; [reflexivity | exact Hx].
Qed.

Lemma words4_spec : forall b n, bytes b -> length b = (n * 4)%nat ->
  flat_map (to_le 4) (words4 b) = b /\ length (words4 b) = n /\ below (2 ^ 32) (words4 b).
Proof.
  fix IH 1. intros [|w [|x [|y [|z r]]]] [|n] Hb Hn; simpl in Hn; try lia.
  - repeat split. constructor.
  - inversion_clear Hb as [|? ? Hw Hb1]. inversion_clear Hb1 as [|? ? Hx Hb2].
    inversion_clear Hb2 as [|? ? Hy Hb3]. inversion_clear Hb3 as [|? ? Hz Hr].
    assert (bytes [w; x; y; z]) as H4 by (repeat constructor; assumption).
    destruct (IH r n Hr ltac:(lia)) as (H1 & H2 & H3). cbn [words4 flat_map].
    repeat split.
    + rewrite H1. change [w; x; y; z] with (firstn 4 [w; x; y; z]) at 1.
      change (firstn 4 [w; x; y; z]) with [w; x; y; z]. change 4%nat with (length [w; x; y; z]) at 1.
      now rewrite (to_le_le _ H4).
    + cbn [length]. now rewrite H2.
    + constructor; [exact (le_bound _ H4) | exact H3].
Qed.

Lemma words2_spec : forall b n, bytes b -> length b = (n * 2)%nat ->
  flat_map (to_le 2) (words2 b) = b /\ length (words2 b) = n /\ below (2 ^ 16) (words2 b).
Proof.
  fix IH 1. intros [|x [|y r]] [|n] Hb Hn; simpl in Hn; try lia.
  - repeat split. constructor.
  - inversion_clear Hb as [|? ? Hx Hb1]. inversion_clear Hb1 as [|? ? Hy Hr].
    assert (bytes [x; y]) as H2 by (repeat constructor; assumption).
    destruct (IH r n Hr ltac:(lia)) as (H3 & H4 & H5). cbn [words2 flat_map].
    repeat split.
    + rewrite H3. change 2%nat with (length [x; y]) at 1. now rewrite (to_le_le _ H2).
    + cbn [length]. now rewrite H4.
    + constructor; [exact (le_bound _ H2) | exact H5].
Qed.

Lemma words_spec f16 b n : bytes b -> size b = n * width f16 ->
  unwords f16 (words f16 b) = b /\ size (words f16 b) = n /\ below (word_limit f16) (words f16 b).
Proof.
  intros Hb Hn. unfold size in *. destruct f16; cbn [width word_limit words] in *; unfold unwords.
  - destruct (words2_spec b (N.to_nat n) Hb) as (H1 & H2 & H3); [lia|]. rewrite H2, N2Nat.id. auto.
  - destruct (words4_spec b (N.to_nat n) Hb) as (H1 & H2 & H3); [lia|]. rewrite H2, N2Nat.id. auto.
Qed.

(* Sums of products in any order: every binary tree, products rounded or fused, in any mixture. *)
From Coq Require Import Reals Lra Lia List Permutation.
From KvAccuracy Require Import Sums Rounding.
Import ListNotations.
Open Scope R_scope.

Section Tree.
Variables u lambda lambda_add : R.
Hypothesis Hu : 0 <= u < 1.
Hypothesis Hlambda : 0 <= lambda.
Hypothesis Hadd : 0 <= lambda_add.
Variables a b : nat -> R.

(* summed l h y: y is what some order of operations gives for the sum of a_j * b_j, j in l, no product meeting more than h
   roundings. A first fma onto +0 is a product. Adding +0 is no operation: it changes nothing. *)
Inductive summed : list nat -> nat -> R -> Prop :=
| s_product j y : rounds u lambda (a j * b j) y -> summed [j] 1 y
| s_fma j l h x y : summed l h x -> rounds u lambda (a j * b j + x) y -> summed (j :: l) (S h) y
| s_add l1 l2 h1 h2 x y z : summed l1 h1 x -> summed l2 h2 y -> rounds u lambda_add (x + y) z ->
    summed (l1 ++ l2) (S (Nat.max h1 h2)) z.

Definition tree_underflow (l : list nat) (h : nat) : R := INR (length l) * (lambda + lambda_add) * (1 + u) ^ h.

Lemma tree_underflow_step (n h h' : nat) (eta : R) (e : R) :
  (h < h')%nat -> 0 <= eta -> e <= INR n * eta * (1 + u) ^ h -> 0 <= e ->
  e * (1 + u) <= INR n * eta * (1 + u) ^ h'.
Proof.
  intros Hh He Hle H0. eapply Rle_trans with (INR n * eta * (1 + u) ^ (S h)).
  - simpl. replace (INR n * eta * ((1 + u) * (1 + u) ^ h)) with (INR n * eta * (1 + u) ^ h * (1 + u)) by ring.
    apply Rmult_le_compat_r; lra.
  - apply Rmult_le_compat_l.
    + apply Rmult_le_pos; [apply pos_INR|exact He].
    + apply pow_up; [lra|lia].
Qed.

Theorem summed_form l h y : summed l h y -> NoDup l ->
  exists f, (forall j, In j l -> band u 0 h (f j)) /\
    Rabs (y - sum l (fun j => a j * b j * f j)) <= (INR (length l) * lambda + (INR (length l) - 1) * lambda_add) * (1 + u) ^ h.
Proof.
  assert (H0 : 0 <= 0 < 1) by lra.
  induction 1 as [j y R|j l h x y Sx IH R|l1 l2 h1 h2 x y z S1 IH1 S2 IH2 R]; intros ND.
  - destruct R as (d & e & Hd & He & ->). exists (fun _ => 1 + d). split.
    + intros i _. replace (1 + d) with (1 * (1 + d)) by ring. apply band_step; auto. now apply band_one.
    + simpl. replace (a j * b j * (1 + d) + e - (a j * b j * (1 + d) + 0)) with e by ring.
      assert (lambda * (1 + u) >= lambda) by nra. lra.
  - inversion_clear ND as [|? ? NI ND']. destruct (IH ND') as (f & Hf & E).
    apply rounds_error with (z := a j * b j + sum l (fun i => a i * b i * f i)) (err := (INR (length l) * lambda + (INR (length l) - 1) * lambda_add) * (1 + u) ^ h) in R;
      [|lra|replace (a j * b j + x - (a j * b j + sum l (fun i => a i * b i * f i)))
         with (x - sum l (fun i => a i * b i * f i)) by ring; exact E].
    destruct R as (d & Hd & E').
    exists (join [j] (fun _ => 1 + d) (fun i => f i * (1 + d))). split.
    + intros i [<-|I].
      * rewrite join_left by now left. replace (1 + d) with (1 * (1 + d)) by ring.
        apply band_weaken with 1%nat; auto; [lia|]. apply band_step; auto. now apply band_one.
      * rewrite join_right by (intros [<-|[]]; contradiction). apply band_step; auto.
    + cbn [sum length]. rewrite join_left by now left.
      rewrite (sum_ext l _ (fun i => a i * b i * f i * (1 + d))).
      2:{ intros i I. rewrite join_right by (intros [<-|[]]; contradiction). ring. }
      rewrite sum_scale_r.
      replace (a j * b j * (1 + d) + sum l (fun i => a i * b i * f i) * (1 + d))
        with ((a j * b j + sum l (fun i => a i * b i * f i)) * (1 + d)) by ring.
      eapply Rle_trans; [exact E'|]. rewrite S_INR. cbn [pow].
      assert (1 <= (1 + u) ^ h) by (apply pow_ge_1; lra).
      assert (1 <= (1 + u) * (1 + u) ^ h) by nra.
      pose proof (pos_INR (length l)). nra.
  - apply nodup_parts in ND. destruct ND as (N1 & N2 & Dis).
    destruct (IH1 N1) as (f1 & Hf1 & E1). destruct (IH2 N2) as (f2 & Hf2 & E2).
    assert (G : forall l h y, summed l h y -> 1 <= INR (length l)).
    { clear. intros l h y. induction 1; cbn [length]; rewrite ?app_length, ?plus_INR, ?S_INR; simpl;
        try pose proof (pos_INR (length l)); try lra. }
    pose proof (G _ _ _ S1) as P1. pose proof (G _ _ _ S2) as P2. clear G.
    set (n1 := INR (length l1)) in *. set (n2 := INR (length l2)) in *.
    set (h := Nat.max h1 h2).
    assert (Q1 : (1 + u) ^ h1 <= (1 + u) ^ h) by (apply pow_up; [lra|lia]).
    assert (Q2 : (1 + u) ^ h2 <= (1 + u) ^ h) by (apply pow_up; [lra|lia]).
    assert (Q0 : 1 <= (1 + u) ^ h) by (apply pow_ge_1; lra).
    assert (E1' : Rabs (x - sum l1 (fun j => a j * b j * f1 j)) <= (n1 * lambda + (n1 - 1) * lambda_add) * (1 + u) ^ h).
    { eapply Rle_trans; [exact E1|]. apply Rmult_le_compat_l; [|exact Q1]. nra. }
    assert (E2' : Rabs (y - sum l2 (fun j => a j * b j * f2 j)) <= (n2 * lambda + (n2 - 1) * lambda_add) * (1 + u) ^ h).
    { eapply Rle_trans; [exact E2|]. apply Rmult_le_compat_l; [|exact Q2]. nra. }
    set (X := sum l1 (fun j => a j * b j * f1 j)) in *. set (Y := sum l2 (fun j => a j * b j * f2 j)) in *.
    apply rounds_error with (z := X + Y) (err := (n1 * lambda + (n1 - 1) * lambda_add) * (1 + u) ^ h + (n2 * lambda + (n2 - 1) * lambda_add) * (1 + u) ^ h) in R; [|lra|].
    2:{ replace (x + y - (X + Y)) with ((x - X) + (y - Y)) by ring.
        eapply Rle_trans; [apply Rabs_triang|]. lra. }
    destruct R as (d & Hd & E').
    exists (join l1 (fun j => f1 j * (1 + d)) (fun j => f2 j * (1 + d))). split.
    + intros i I. apply in_app_or in I. destruct (in_dec Nat.eq_dec i l1) as [I1|I1].
      * rewrite join_left by assumption. apply band_step; auto.
        apply band_weaken with h1; auto. unfold h; lia.
      * destruct I as [I|I]; [contradiction|]. rewrite join_right by assumption. apply band_step; auto.
        apply band_weaken with h2; auto. unfold h; lia.
    + rewrite sum_app, app_length, plus_INR. fold n1 n2.
      rewrite (sum_ext l1 _ (fun j => a j * b j * f1 j * (1 + d))).
      2:{ intros i I. rewrite join_left by assumption. ring. }
      rewrite (sum_ext l2 _ (fun j => a j * b j * f2 j * (1 + d))).
      2:{ intros i I. rewrite join_right by now apply Dis. ring. }
      rewrite !sum_scale_r. fold X Y. rewrite <- Rmult_plus_distr_r.
      eapply Rle_trans; [exact E'|]. cbn [pow].
      assert (1 <= (1 + u) * (1 + u) ^ h) by nra. nra.
Qed.

(* Layer 1: a dot product. *)
Theorem dot_error l h y : summed l h y -> NoDup l ->
  Rabs (y - sum l (fun j => a j * b j)) <=
    sum l (fun j => Rabs (a j * b j)) * ((1 + u) ^ h - 1) + tree_underflow l h.
Proof.
  intros Sy ND. destruct (summed_form l h y Sy ND) as (f & Hf & E).
  replace (y - sum l (fun j => a j * b j))
    with ((y - sum l (fun j => a j * b j * f j)) + sum l (fun j => a j * b j * (f j - 1))).
  2:{ rewrite (sum_ext l (fun j => a j * b j * (f j - 1)) (fun j => a j * b j * f j - a j * b j)) by (intros; ring).
      rewrite sum_minus. ring. }
  eapply Rle_trans; [apply Rabs_triang|]. rewrite Rplus_comm. apply Rplus_le_compat.
  - rewrite <- sum_scale_r. apply sum_abs_le. intros j I. rewrite Rabs_mult.
    apply Rmult_le_compat_l; [apply Rabs_pos|]. apply band_minus_1; auto.
  - eapply Rle_trans; [exact E|]. unfold tree_underflow.
    apply Rmult_le_compat_r; [apply pow_le; lra|]. nra.
Qed.

(* No partial sum is larger than this: what keeps a dot product from overflowing. *)
Theorem dot_magnitude l h y : summed l h y -> NoDup l ->
  Rabs y <= sum l (fun j => Rabs (a j * b j)) * (1 + u) ^ h + tree_underflow l h.
Proof.
  intros Sy ND. pose proof (dot_error l h y Sy ND) as E. pose proof (sum_abs l (fun j => a j * b j)).
  replace y with ((y - sum l (fun j => a j * b j)) + sum l (fun j => a j * b j)) by ring.
  eapply Rle_trans; [apply Rabs_triang|]. lra.
Qed.
End Tree.

(* Layer 2: a score. Stored q and k, a dot product in any order, the scaling, and the soft cap. *)
From Coq Require Import Reals Lra Lia List Permutation.
From KvAccuracy Require Import Sums Rounding Dot.
Import ListNotations.
Open Scope R_scope.

(* What a score may be off by, before and after a cap. Read together with Formula.v. *)
Definition plain_score_error (u lambda lambda_add u_q u_k A scale : R) (head_dim h_q r : nat) : R :=
  Rabs scale * A * ((1 + u_q) * (1 + u_k) * (1 + u) ^ (h_q + r) - 1)
  + (Rabs scale * (INR head_dim * (lambda + lambda_add)) * (1 + u) ^ h_q + INR r * lambda) * (1 + u) ^ r.

Definition capped_score_error (u lambda tau omega_t c D0 s t : R) (g_c : nat) : R :=
  (1 + tau) * (1 + u) *
    (D0 + ((1 + u) ^ g_c - 1) * (Rabs s + D0) + c * lambda
     + INR (g_c - 1) * c * lambda * (1 + u) * (Rabs s + D0))
  + ((1 + tau) * (1 + u) - 1) * Rabs t + c * omega_t * (1 + u) + lambda.

Section Score.
Variables u lambda lambda_add : R.
Hypothesis Hu : 0 <= u < 1.
Hypothesis Hlambda : 0 <= lambda.
Hypothesis Hadd : 0 <= lambda_add.

(* Narrow storage, then any order of summation. *)
Section Stored.
Variables u_q u_k : R.
Hypothesis Huq : 0 <= u_q.
Hypothesis Huk : 0 <= u_k.
Variables q k q_hat k_hat : nat -> R.
Hypothesis stored_q : forall j, exists d, Rabs d <= u_q /\ q_hat j = q j * (1 + d).
Hypothesis stored_k : forall j, exists d, Rabs d <= u_k /\ k_hat j = k j * (1 + d).

Lemma stored_product j : exists d, Rabs d <= (1 + u_q) * (1 + u_k) - 1 /\ q_hat j * k_hat j = q j * k j * (1 + d).
Proof.
  destruct (stored_q j) as (dq & Hq & ->). destruct (stored_k j) as (dk & Hk & ->).
  exists ((1 + dq) * (1 + dk) - 1). split; [|ring].
  replace ((1 + dq) * (1 + dk) - 1) with (dq + dk + dq * dk) by ring.
  eapply Rle_trans; [apply Rabs_triang|]. rewrite Rabs_mult.
  pose proof (Rabs_triang dq dk). pose proof (Rabs_pos dq). pose proof (Rabs_pos dk).
  assert (Rabs dq * Rabs dk <= u_q * u_k) by (apply Rmult_le_compat; assumption). lra.
Qed.

Variables (head_dim : nat) (l : list nat) (h : nat) (z_hat : R).
Hypothesis computed : summed u lambda lambda_add q_hat k_hat l h z_hat.
Hypothesis every_dimension : Permutation l (seq 0 head_dim).

Let z := sum (seq 0 head_dim) (fun j => q j * k j).
Let A := sum (seq 0 head_dim) (fun j => Rabs (q j * k j)).

Lemma stored_dot_error :
  Rabs (z_hat - z) <= A * ((1 + u_q) * (1 + u_k) * (1 + u) ^ h - 1)
                      + INR head_dim * (lambda + lambda_add) * (1 + u) ^ h.
Proof.
  assert (ND : NoDup l) by (eapply Permutation_NoDup; [symmetry; exact every_dimension|apply seq_NoDup]).
  pose proof (dot_error u lambda lambda_add Hu Hlambda Hadd q_hat k_hat l h z_hat computed ND) as E.
  unfold tree_underflow in E.
  rewrite (Permutation_length every_dimension), seq_length in E.
  rewrite !(sum_permutation _ _ _ every_dimension) in E.
  set (P := (1 + u_q) * (1 + u_k)) in *.
  assert (P1 : 1 <= P) by (unfold P; nra).
  assert (H1 : 1 <= (1 + u) ^ h) by (apply pow_ge_1; lra).
  assert (EA : sum (seq 0 head_dim) (fun j => Rabs (q_hat j * k_hat j)) <= A * P).
  { unfold A. rewrite <- sum_scale_r. apply sum_le. intros j _.
    destruct (stored_product j) as (d & Hd & ->). fold P in Hd. rewrite Rabs_mult.
    apply Rmult_le_compat_l; [apply Rabs_pos|]. apply abs_le_split in Hd. apply abs_le_join. lra. }
  assert (EZ : Rabs (sum (seq 0 head_dim) (fun j => q_hat j * k_hat j) - z) <= A * (P - 1)).
  { unfold z, A. rewrite <- sum_minus, <- sum_scale_r. apply sum_abs_le. intros j _.
    destruct (stored_product j) as (d & Hd & ->). fold P in Hd.
    replace (q j * k j * (1 + d) - q j * k j) with (q j * k j * d) by ring. rewrite Rabs_mult.
    apply Rmult_le_compat_l; [apply Rabs_pos|exact Hd]. }
  set (Zs := sum (seq 0 head_dim) (fun j => q_hat j * k_hat j)) in *.
  replace (z_hat - z) with ((z_hat - Zs) + (Zs - z)) by ring.
  eapply Rle_trans; [apply Rabs_triang|].
  assert (0 <= A) by (apply sum_nonneg; intros; apply Rabs_pos).
  assert (sum (seq 0 head_dim) (fun j => Rabs (q_hat j * k_hat j)) * ((1 + u) ^ h - 1) <= A * P * ((1 + u) ^ h - 1))
    by (apply Rmult_le_compat_r; lra).
  lra.
Qed.

(* The scaling: r roundings, each of a product. *)
Variables (scale s_hat : R) (r h_q : nat).
Hypothesis scaled : Rabs (s_hat - scale * z_hat) <=
  ((1 + u) ^ r - 1) * Rabs (scale * z_hat) + INR r * lambda * (1 + u) ^ r.
Hypothesis depth : (h <= h_q)%nat.

Theorem score_error :
  Rabs (s_hat - scale * z) <= plain_score_error u lambda lambda_add u_q u_k A scale head_dim h_q r.
Proof.
  pose proof stored_dot_error as E. unfold plain_score_error. rewrite pow_add.
  set (P := (1 + u_q) * (1 + u_k)) in *.
  assert (P1 : 1 <= P) by (unfold P; nra).
  assert (H1 : 1 <= (1 + u) ^ h) by (apply pow_ge_1; lra).
  assert (Hh : (1 + u) ^ h <= (1 + u) ^ h_q) by (apply pow_up; [lra|exact depth]).
  assert (Hr : 1 <= (1 + u) ^ r) by (apply pow_ge_1; lra).
  assert (A0 : 0 <= A) by (apply sum_nonneg; intros; apply Rabs_pos).
  assert (Hz : Rabs z <= A) by apply sum_abs.
  set (U := INR head_dim * (lambda + lambda_add)) in *.
  assert (U0 : 0 <= U) by (unfold U; apply Rmult_le_pos; [apply pos_INR|lra]).
  set (x := (1 + u) ^ h_q) in *. set (y := (1 + u) ^ r) in *.
  assert (E2 : Rabs (z_hat - z) <= A * (P * x - 1) + U * x).
  { eapply Rle_trans; [exact E|]. apply Rplus_le_compat.
    - apply Rmult_le_compat_l; [exact A0|]. apply Rplus_le_compat_r, Rmult_le_compat_l; lra.
    - apply Rmult_le_compat_l; lra. }
  replace (s_hat - scale * z) with ((s_hat - scale * z_hat) + scale * (z_hat - z)) by ring.
  eapply Rle_trans; [apply Rabs_triang|].
  rewrite (Rabs_mult scale (z_hat - z)).
  assert (Hs : Rabs (scale * z_hat) <= Rabs scale * (A + Rabs (z_hat - z))).
  { rewrite Rabs_mult. apply Rmult_le_compat_l; [apply Rabs_pos|].
    replace z_hat with ((z_hat - z) + z) at 1 by ring.
    eapply Rle_trans; [apply Rabs_triang|]. lra. }
  set (a := Rabs scale) in *. assert (a0 : 0 <= a) by apply Rabs_pos.
  set (e := Rabs (z_hat - z)) in *.
  assert ((y - 1) * Rabs (scale * z_hat) <= (y - 1) * (a * (A + e))) by (apply Rmult_le_compat_l; lra).
  assert (Ee : a * e * y <= a * (A * (P * x - 1) + U * x) * y).
  { apply Rmult_le_compat_r; [lra|]. apply Rmult_le_compat_l; assumption. }
  nra.
Qed.
End Stored.

(* tanh moves no two numbers apart. *)
Lemma exp_minus_exp x y : x <= y -> 0 <= exp y - exp x.
Proof. intros [L|E]; [pose proof (exp_increasing x y L); lra|subst; lra]. Qed.

Lemma tanh_eq x : tanh x = 1 - 2 / (exp (2 * x) + 1).
Proof.
  unfold tanh, sinh, cosh. pose proof (exp_pos x). pose proof (exp_pos (- x)).
  replace (2 * x) with (x + x) by ring. rewrite exp_plus. rewrite exp_Ropp in *.
  field. split; nra.
Qed.

Lemma tanh_bound x : Rabs (tanh x) <= 1.
Proof.
  rewrite tanh_eq. pose proof (exp_pos (2 * x)).
  assert (0 < / (exp (2 * x) + 1) <= 1).
  { split; [apply Rinv_0_lt_compat; lra|]. rewrite <- Rinv_1. apply Rinv_le_contravar; lra. }
  apply abs_le_join. unfold Rdiv. lra.
Qed.

Lemma tanh_increasing x y : x <= y -> tanh x <= tanh y.
Proof.
  intros H. rewrite !tanh_eq. pose proof (exp_pos (2 * x)). pose proof (exp_pos (2 * y)).
  assert (0 <= exp (2 * y) - exp (2 * x)) by (apply exp_minus_exp; lra).
  assert (/ (exp (2 * y) + 1) <= / (exp (2 * x) + 1)) by (apply Rinv_le_contravar; lra).
  unfold Rdiv. lra.
Qed.

Lemma derivable_tanh_minus (f := fun x => x - tanh x) x :
  derivable_pt_lim f x (1 - (1 - tanh x * tanh x)).
Proof.
  assert (C : cosh x <> 0) by (unfold cosh; pose proof (exp_pos x); pose proof (exp_pos (- x)); lra).
  assert (CS : cosh x * cosh x - sinh x * sinh x = 1).
  { unfold cosh, sinh. rewrite exp_Ropp. field. apply Rgt_not_eq, exp_pos. }
  apply derivable_pt_lim_minus; [apply derivable_pt_lim_id|].
  replace (1 - tanh x * tanh x) with ((cosh x * cosh x - sinh x * sinh x) / (Rsqr (cosh x))).
  2:{ unfold tanh, Rsqr. field_simplify; try assumption. f_equal; ring. }
  apply (derivable_pt_lim_div sinh cosh x (cosh x) (sinh x));
    [apply derivable_pt_lim_sinh|apply derivable_pt_lim_cosh|exact C].
Qed.

Lemma tanh_slope x y : x <= y -> tanh y - tanh x <= y - x.
Proof.
  intros H.
  assert (D : forall z, derivable_pt (fun x => x - tanh x) z)
    by (intros z; eexists; apply derivable_tanh_minus).
  assert (I : increasing (fun x => x - tanh x)).
  { apply nonneg_derivative_1 with D. intros z.
    rewrite (derive_pt_eq_0 _ _ _ (D z) (derivable_tanh_minus z)).
    nra. }
  specialize (I x y H). simpl in I. lra.
Qed.

Lemma tanh_lipschitz x y : Rabs (tanh x - tanh y) <= Rabs (x - y).
Proof.
  destruct (Rle_dec x y) as [H|H].
  - pose proof (tanh_slope x y H). pose proof (tanh_increasing x y H).
    rewrite (Rabs_left1 (x - y)), Rabs_left1; lra.
  - assert (H' : y <= x) by lra. pose proof (tanh_slope y x H'). pose proof (tanh_increasing y x H').
    rewrite (Rabs_right (x - y)), Rabs_right; lra.
Qed.

(* The cap: division by c, or multiplication by a rounded 1 / c; tanh; multiplication by c. *)
Variables tau omega_t c : R.
Hypothesis Htau : 0 <= tau.
Hypothesis Homega_t : 0 <= omega_t.
Hypothesis Hc : 0 < c.

Definition divided (g_c : nat) (s_hat x : R) : Prop :=
  (g_c = 1%nat /\ rounds u lambda (s_hat / c) x) \/
  (g_c = 2%nat /\ exists i, rounds u lambda (/ c) i /\ rounds u lambda (s_hat * i) x).

Lemma divided_error g_c s_hat x : divided g_c s_hat x ->
  c * Rabs (x - s_hat / c) <= ((1 + u) ^ g_c - 1) * Rabs s_hat + c * lambda
     + INR (g_c - 1) * c * lambda * (1 + u) * Rabs s_hat.
Proof.
  assert (B : forall d, Rabs d <= u -> Rabs (1 + d) <= 1 + u)
    by (intros d Hd; apply abs_le_split in Hd; apply abs_le_join; lra).
  intros [(-> & d & e & Hd & He & ->)|(-> & i & (d1 & e1 & Hd1 & He1 & ->) & (d & e & Hd & He & ->))]; simpl.
  - replace (c * Rabs (s_hat / c * (1 + d) + e - s_hat / c)) with (Rabs (s_hat * d + c * e)).
    2:{ rewrite <- (Rabs_right c) at 2 by lra. rewrite <- Rabs_mult. f_equal. field. lra. }
    eapply Rle_trans; [apply Rabs_triang|]. rewrite !Rabs_mult, (Rabs_right c) by lra.
    pose proof (Rabs_pos s_hat).
    assert (Rabs s_hat * Rabs d <= Rabs s_hat * u) by (apply Rmult_le_compat_l; assumption).
    assert (c * Rabs e <= c * lambda) by (apply Rmult_le_compat_l; lra). lra.
  - replace (c * Rabs (s_hat * (/ c * (1 + d1) + e1) * (1 + d) + e - s_hat / c))
      with (Rabs (s_hat * ((1 + d1) * (1 + d) - 1) + (c * e + c * s_hat * e1 * (1 + d)))).
    2:{ rewrite <- (Rabs_right c) at 3 by lra. rewrite <- Rabs_mult. f_equal. field. lra. }
    eapply Rle_trans; [apply Rabs_triang|].
    assert (T1 : Rabs (s_hat * ((1 + d1) * (1 + d) - 1)) <= Rabs s_hat * ((1 + u) * ((1 + u) * 1) - 1)).
    { rewrite Rabs_mult. apply Rmult_le_compat_l; [apply Rabs_pos|].
      replace ((1 + d1) * (1 + d) - 1) with (d1 + d + d1 * d) by ring.
      eapply Rle_trans; [apply Rabs_triang|]. rewrite Rabs_mult. pose proof (Rabs_triang d1 d).
      assert (Rabs d1 * Rabs d <= u * u) by (apply Rmult_le_compat; auto using Rabs_pos). lra. }
    assert (T2 : Rabs (c * e + c * s_hat * e1 * (1 + d)) <= c * lambda + c * Rabs s_hat * lambda * (1 + u)).
    { eapply Rle_trans; [apply Rabs_triang|]. rewrite !Rabs_mult, (Rabs_right c) by lra.
      apply Rplus_le_compat; [apply Rmult_le_compat_l; lra|].
      pose proof (Rabs_pos s_hat). pose proof (Rabs_pos e1).
      apply Rmult_le_compat; auto using Rabs_pos; [|apply Rmult_le_compat_l; auto].
      - repeat apply Rmult_le_pos; lra.
      - apply Rmult_le_pos; lra. }
    lra.
Qed.

Variables (s D0 s_hat x y t_hat : R) (g_c : nat).
Hypothesis score_known : Rabs (s_hat - s) <= D0.
Hypothesis step_divide : divided g_c s_hat x.
Hypothesis step_tanh : Rabs (y - tanh x) <= tau * Rabs (tanh x) + omega_t.
Hypothesis step_multiply : rounds u lambda (c * y) t_hat.

Let t := c * tanh (s / c).

Theorem cap_error : Rabs (t_hat - t) <= capped_score_error u lambda tau omega_t c D0 s t g_c.
Proof.
  unfold capped_score_error.
  set (g1 := INR (g_c - 1)). assert (G1 : 0 <= g1) by apply pos_INR.
  pose proof (divided_error _ _ _ step_divide) as Ed. fold g1 in Ed.
  assert (H1 : 1 <= (1 + u) ^ g_c) by (apply pow_ge_1; lra).
  assert (Hs : Rabs s_hat <= Rabs s + D0).
  { replace s_hat with ((s_hat - s) + s) by ring. eapply Rle_trans; [apply Rabs_triang|]. lra. }
  set (z := Rabs s + D0) in *.
  assert (Ex : c * Rabs (x - s / c) <= D0 + ((1 + u) ^ g_c - 1) * z + c * lambda + g1 * c * lambda * (1 + u) * z).
  { replace (x - s / c) with ((x - s_hat / c) + (s_hat - s) / c) by (field; lra).
    eapply Rle_trans; [apply Rmult_le_compat_l; [lra|apply Rabs_triang]|].
    rewrite Rmult_plus_distr_l.
    replace (c * Rabs ((s_hat - s) / c)) with (Rabs (s_hat - s)).
    2:{ unfold Rdiv. rewrite Rabs_mult, (Rabs_right (/ c)) by (apply Rle_ge, Rlt_le, Rinv_0_lt_compat; lra). field. lra. }
    assert (((1 + u) ^ g_c - 1) * Rabs s_hat <= ((1 + u) ^ g_c - 1) * z) by (apply Rmult_le_compat_l; lra).
    assert (g1 * c * lambda * (1 + u) * Rabs s_hat <= g1 * c * lambda * (1 + u) * z).
    { apply Rmult_le_compat_l; [|exact Hs]. repeat apply Rmult_le_pos; lra. }
    lra. }
  set (W := D0 + ((1 + u) ^ g_c - 1) * z + c * lambda + g1 * c * lambda * (1 + u) * z) in *.
  pose proof (tanh_lipschitz x (s / c)) as L. set (th := tanh (s / c)) in *.
  assert (EL : c * Rabs (tanh x - th) <= W) by (eapply Rle_trans; [apply Rmult_le_compat_l; [lra|exact L]|exact Ex]).
  destruct step_multiply as (d & e & Hd & He & ->).
  assert (Ht : c * Rabs th = Rabs t) by (unfold t; rewrite Rabs_mult, (Rabs_right c) by lra; reflexivity).
  assert (Ey : c * Rabs (y - th) <= W + tau * (Rabs t + W) + c * omega_t).
  { replace (y - th) with ((y - tanh x) + (tanh x - th)) by ring.
    eapply Rle_trans; [apply Rmult_le_compat_l; [lra|apply Rabs_triang]|].
    assert (Hx : c * Rabs (tanh x) <= Rabs t + W).
    { rewrite <- Ht. replace (tanh x) with (th + (tanh x - th)) by ring.
      eapply Rle_trans; [apply Rmult_le_compat_l; [lra|apply Rabs_triang]|]. lra. }
    assert (c * Rabs (y - tanh x) <= tau * (c * Rabs (tanh x)) + c * omega_t) by nra.
    assert (tau * (c * Rabs (tanh x)) <= tau * (Rabs t + W)) by (apply Rmult_le_compat_l; assumption).
    lra. }
  replace (c * y * (1 + d) + e - t) with ((c * (y - th)) * (1 + d) + t * d + e) by (unfold t; fold th; ring).
  eapply Rle_trans; [apply Rabs_triang|]. eapply Rle_trans; [apply Rplus_le_compat_r, Rabs_triang|].
  rewrite !Rabs_mult, (Rabs_right c) by lra.
  assert (B : Rabs (1 + d) <= 1 + u) by (apply abs_le_split in Hd; apply abs_le_join; lra).
  assert (0 <= c * Rabs (y - th)) by (apply Rmult_le_pos; [lra|apply Rabs_pos]).
  assert (c * Rabs (y - th) * Rabs (1 + d) <= (W + tau * (Rabs t + W) + c * omega_t) * (1 + u))
    by (apply Rmult_le_compat; auto using Rabs_pos).
  assert (Rabs t * Rabs d <= Rabs t * u) by (apply Rmult_le_compat_l; [apply Rabs_pos|exact Hd]).
  lra.
Qed.
End Score.

(* exp's polynomial against exp, and with what Gappa says of the roundings (exp_reduction*.g, exp_polynomial*.g) the error of
   exp_core; then why a margin makes the rounding test right. *)
From Coq Require Import Reals Lra.
From Interval Require Import Tactic.
From KvFunctions Require Import Coefficients.
Open Scope R_scope.

Definition exp_error : R := 363 / 36028797018963968.     (* 0x1.6bp-47, about 2^-46.5 *)

Lemma abs_split x a : Rabs x <= a -> - a <= x <= a.
Proof. intros H. pose proof (Rle_abs x). pose proof (Rle_abs (- x)) as N. rewrite Rabs_Ropp in N. lra. Qed.

Theorem exp_taylor r : Rabs r <= 34658 / 100000 -> Rabs (exp_polynomial r - exp r) <= 65 / 10000000000000000.
Proof.
  intros H. apply abs_split in H. apply Rabs_le. unfold exp_polynomial.
  split; interval with (i_bisect r, i_taylor r, i_degree 14, i_prec 90).
Qed.

Theorem exp_ln2_parts : Rabs (ln 2 - (ln2_high + ln2_low)) <= / 2 ^ 80.
Proof. unfold ln2_high, ln2_low. interval with (i_prec 120). Qed.

Lemma exp_small b : Rabs b <= / 2 ^ 20 -> Rabs (exp b - 1) <= 2 * Rabs b.
Proof.
  intros H. assert (B : - / 2 ^ 20 <= b <= / 2 ^ 20) by (apply abs_split; exact H). simpl in B.
  assert (L : 1 + b <= exp b).
  { destruct (Req_dec b 0) as [->|N]; [rewrite exp_0; lra|apply Rlt_le, exp_ineq1, N]. }
  destruct (Rle_dec 0 b) as [P|P].
  - assert (L' : 1 + - b <= exp (- b)).
    { destruct (Req_dec b 0) as [->|N]; [rewrite Ropp_0, exp_0; lra|apply Rlt_le, exp_ineq1; intros Z; apply N; lra]. }
    rewrite exp_Ropp in L'. pose proof (exp_pos b) as E0.
    assert (M : exp b * (1 + - b) <= 1).
    { apply Rmult_le_compat_l with (r := exp b) in L'; [|lra]. rewrite Rinv_r in L' by lra. exact L'. }
    assert (E2 : exp b <= 2) by nra.
    assert (0 <= (2 - exp b) * b) by (apply Rmult_le_pos; lra).
    rewrite (Rabs_right b) by lra. rewrite Rabs_right by lra. lra.
  - assert (E1 : exp b < exp 0) by (apply exp_increasing; lra). rewrite exp_0 in E1.
    rewrite (Rabs_left b) by lra. rewrite Rabs_left by lra. lra.
Qed.

(* x the argument, k the integer, r the reduced argument, p the polynomial's result, as computed. *)
Theorem exp_core_error x k r p :
  Rabs k <= 151 -> Rabs r <= 34658 / 100000 ->
  Rabs (r - (x - k * (ln2_high + ln2_low))) <= 2 / 2 ^ 55 ->
  Rabs (p - exp_polynomial r) <= 18 / 2 ^ 56 ->
  Rabs (p - exp (x - k * ln 2)) <= exp_error * exp (x - k * ln 2).
Proof.
  intros Hk Hr Hred Hp. set (y := x - k * ln 2). set (b := r - y).
  assert (Hb : Rabs b <= 4 / 2 ^ 55).
  { unfold b, y. replace (r - (x - k * ln 2)) with ((r - (x - k * (ln2_high + ln2_low))) + k * (ln 2 - (ln2_high + ln2_low))) by ring.
    eapply Rle_trans; [apply Rabs_triang|]. rewrite Rabs_mult. pose proof exp_ln2_parts as L.
    assert (Rabs k * Rabs (ln 2 - (ln2_high + ln2_low)) <= 151 * / 2 ^ 80) by (apply Rmult_le_compat; auto using Rabs_pos).
    simpl in *. lra. }
  pose proof (exp_taylor r Hr) as T.
  assert (S : Rabs (exp b - 1) <= 8 / 2 ^ 55).
  { eapply Rle_trans; [apply exp_small|]; simpl in *; lra. }
  assert (Er : exp r = exp y * exp b) by (rewrite <- exp_plus; f_equal; unfold b; ring).
  assert (y0 : 0 < exp y) by apply exp_pos. assert (b0 : 0 < exp b) by apply exp_pos. assert (r0 : 0 < exp r) by apply exp_pos.
  assert (M : 7 / 10 <= exp r) by (apply abs_split in Hr; interval).
  assert (T' : 65 / 10000000000000000 <= 65 / 10000000000000000 * (10 / 7) * exp r) by lra.
  replace (p - exp y) with ((p - exp_polynomial r) + (exp_polynomial r - exp r) + exp y * (exp b - 1)) by (rewrite Er; ring).
  eapply Rle_trans; [apply Rabs_triang|]. eapply Rle_trans; [apply Rplus_le_compat_r, Rabs_triang|].
  rewrite (Rabs_mult (exp y)), (Rabs_right (exp y)) by lra.
  assert (Eb : exp b <= 1 + 8 / 2 ^ 55) by (pose proof (Rle_abs (exp b - 1)); lra).
  assert (P' : 18 / 2 ^ 56 <= 18 / 2 ^ 56 * (10 / 7) * exp r).
  { simpl. lra. }
  assert (R1 : exp r <= exp y * (1 + 8 / 2 ^ 55)) by (rewrite Er; apply Rmult_le_compat_l; lra).
  assert (S1 : exp y * Rabs (exp b - 1) <= exp y * (8 / 2 ^ 55)) by (apply Rmult_le_compat_l; lra).
  unfold exp_error. simpl in *. lra.
Qed.

(* The test: y is computed, v is what it stands for. The ends are computed with up to two roundings; where a monotone
   rounding takes both to the same number, it takes v there. *)
Theorem rounding_test (round : R -> R) (monotone : forall a b, a <= b -> round a <= round b) y v error margin low high :
  0 < y -> 0 < v -> Rabs (y - v) <= error * v -> 0 <= error <= / 2 ^ 10 -> error * (1 + 2 * error) + / 2 ^ 51 <= margin ->
  Rabs (low - y * (1 - margin)) <= / 2 ^ 51 * y -> Rabs (high - y * (1 + margin)) <= / 2 ^ 51 * y ->
  round low = round high -> round v = round low.
Proof.
  intros y0 v0 Hv He Hm Hl Hh Same.
  apply abs_split in Hv. apply abs_split in Hl. apply abs_split in Hh.
  assert (E : error <= / 1000) by (simpl in He; lra).
  set (c := / 2 ^ 51) in *. assert (c0 : 0 < c) by (apply Rinv_0_lt_compat, pow_lt; lra). clearbody c.
  assert (e2 : 0 <= error * error) by (apply Rmult_le_pos; lra).
  assert (e3 : 0 <= error * error * (1 - 2 * error)) by (apply Rmult_le_pos; lra).
  assert (e1 : error * error <= error * / 1000) by (apply Rmult_le_compat_l; lra).
  assert (Dn : y * (1 - error * (1 + 2 * error)) <= v).
  { assert (Y : y <= v * (1 + error)) by lra.
    assert (Z : (1 + error) * (1 - error * (1 + 2 * error)) <= 1).
    { assert (0 <= error * error * error) by (apply Rmult_le_pos; lra). lra. }
    apply Rle_trans with (v * (1 + error) * (1 - error * (1 + 2 * error))); [apply Rmult_le_compat_r; lra|].
    rewrite Rmult_assoc. rewrite <- (Rmult_1_r v) at 2. apply Rmult_le_compat_l; lra. }
  assert (Up : v <= y * (1 + error * (1 + 2 * error))).
  { assert (Y : v * (1 - error) <= y) by lra.
    assert (Z : 1 <= (1 - error) * (1 + error * (1 + 2 * error))) by lra.
    apply Rle_trans with (v * (1 - error) * (1 + error * (1 + 2 * error))); [|apply Rmult_le_compat_r; lra].
    rewrite Rmult_assoc. rewrite <- (Rmult_1_r v) at 1. apply Rmult_le_compat_l; lra. }
  assert (Room : 0 <= y * (margin - (error * (1 + 2 * error) + c))) by (apply Rmult_le_pos; lra).
  assert (L : low <= v) by lra. assert (U : v <= high) by lra.
  apply Rle_antisym; [rewrite Same; now apply monotone|now apply monotone].
Qed.

Theorem exp_margin_suffices : exp_error * (1 + 2 * exp_error) + / 2 ^ 51 <= exp_margin.
Proof. unfold exp_error, exp_margin. simpl. lra. Qed.

(* tanh: the series is within 2^-47.9 of tanh (tanh_series.sollya), with 2^-51 of roundings (tanh_series*.g); the quotient
   within 0x1.6cp-46 and 0x1.9p-52 (tanh_quotient.g). *)
Definition tanh_error : R := 364 / 2 ^ 54 + 2 / 2 ^ 51.

Theorem tanh_margin_suffices : tanh_error * (1 + 2 * tanh_error) + / 2 ^ 51 <= tanh_margin.
Proof. unfold tanh_error, tanh_margin. simpl. lra. Qed.

(* The series' roundings: zp is the computed z P(z), a and s what the last product and sum leave. *)
Theorem tanh_series_error x q zp a s :
  0 < x -> -209 / 10000 <= zp <= 0 -> Rabs (zp - q) <= / 2 ^ 57 ->
  Rabs a <= / 2 ^ 53 -> Rabs s <= / 2 ^ 53 ->
  Rabs ((x + x * zp * (1 + a)) * (1 + s) - (x + x * q)) <= / 2 ^ 51 * (x + x * q).
Proof.
  intros x0 Hz Hq Ha Hs.
  replace ((x + x * zp * (1 + a)) * (1 + s) - (x + x * q)) with (x * ((1 + zp * (1 + a)) * (1 + s) - (1 + q))) by ring.
  replace (/ 2 ^ 51 * (x + x * q)) with (x * (/ 2 ^ 51 * (1 + q))) by ring.
  rewrite Rabs_mult, (Rabs_right x) by lra. apply Rmult_le_compat_l; [lra|].
  replace ((1 + zp * (1 + a)) * (1 + s) - (1 + q)) with ((zp - q) + zp * a + (1 + zp * (1 + a)) * s) by ring.
  apply abs_split in Hq. 
  assert (Q1 : 97 / 100 <= 1 + q) by (simpl in Hq; lra).
  eapply Rle_trans; [apply Rabs_triang|]. eapply Rle_trans; [apply Rplus_le_compat_r, Rabs_triang|]. rewrite !Rabs_mult.
  assert (A : Rabs (zp - q) <= / 2 ^ 57) by (apply Rabs_le; lra).
  assert (Z : Rabs zp <= 209 / 10000) by (apply Rabs_le; lra).
  assert (Z' : Rabs (1 + zp * (1 + a)) <= 2).
  { eapply Rle_trans; [apply Rabs_triang|]. rewrite Rabs_R1, Rabs_mult.
    assert (Rabs (1 + a) <= 2) by (eapply Rle_trans; [apply Rabs_triang|]; rewrite Rabs_R1; simpl in Ha; lra).
    assert (Rabs zp * Rabs (1 + a) <= 209 / 10000 * 2) by (apply Rmult_le_compat; auto using Rabs_pos). lra. }
  assert (Rabs zp * Rabs a <= 209 / 10000 * / 2 ^ 53) by (apply Rmult_le_compat; auto using Rabs_pos).
  assert (Rabs (1 + zp * (1 + a)) * Rabs s <= 2 * / 2 ^ 53) by (apply Rmult_le_compat; auto using Rabs_pos).
  simpl in *. lra.
Qed.

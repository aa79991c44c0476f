(* Layer 3: an error of an exponent, and what it makes of a weight. *)
From Coq Require Import Reals Lra Lia List.
From KvAccuracy Require Import Sums Rounding.
Open Scope R_scope.

Section Weight.
Variables u lambda_add epsilon omega : R.
Hypothesis Hu : 0 <= u < 1.
Hypothesis Hadd : 0 <= lambda_add.
Hypothesis Heps : 0 <= epsilon < 1.
Hypothesis Homega : 0 <= omega.

(* exp at x: what an engine's exponential may be off by. *)
Definition exp_accurate (x e : R) : Prop := Rabs (e - exp x) <= epsilon * exp x + omega.

Definition epsilon' : R := epsilon / (1 - epsilon).

Lemma epsilon'_nonneg : 0 <= epsilon'.
Proof. unfold epsilon'. apply Rmult_le_pos; [lra|apply Rlt_le, Rinv_0_lt_compat; lra]. Qed.

Lemma exp_ge x : 1 + x <= exp x.
Proof. destruct (Req_dec x 0) as [->|N]; [rewrite exp_0; lra|apply Rlt_le, exp_ineq1; exact N]. Qed.

Lemma exp_epsilon' : exp epsilon' * (1 - epsilon) >= 1.
Proof.
  pose proof (exp_ge epsilon').
  assert (E : (1 + epsilon') * (1 - epsilon) = 1) by (unfold epsilon'; field; lra). nra.
Qed.

Lemma ln_le x y : 0 < x -> x <= y -> ln x <= ln y.
Proof. intros P [L|E]; [apply Rlt_le, ln_increasing; assumption|subst; lra]. Qed.

(* A relative error within epsilon is one of the exponent within epsilon'. *)
Lemma relative_exponent d : Rabs d <= epsilon -> exists b, Rabs b <= epsilon' /\ exp b = 1 + d.
Proof.
  intros Hd. apply abs_le_split in Hd. exists (ln (1 + d)). split; [|apply exp_ln; lra].
  pose proof exp_epsilon' as X. pose proof (exp_pos epsilon').
  apply abs_le_join. split.
  - rewrite <- (ln_exp (- epsilon')). apply ln_le; [apply exp_pos|].
    rewrite exp_Ropp. apply Rmult_le_reg_l with (exp epsilon'); [assumption|].
    rewrite Rinv_r by lra. nra.
  - rewrite <- (ln_exp epsilon'). apply ln_le; [lra|].
    pose proof (exp_ge epsilon').
    assert (epsilon <= epsilon').
    { unfold epsilon'. apply Rmult_le_reg_r with (1 - epsilon); [lra|].
      unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. nra. }
    lra.
Qed.

Lemma exp_accurate_form x e : exp_accurate x e ->
  exists b w, Rabs b <= epsilon' /\ exp b <= 1 + epsilon /\ Rabs w <= omega /\ e = exp x * exp b + w.
Proof.
  unfold exp_accurate. intros H. pose proof (exp_pos x) as P.
  set (r := e - exp x) in *.
  assert (S : exists d w, Rabs d <= epsilon /\ Rabs w <= omega /\ r = exp x * d + w).
  { destruct (Rle_dec (Rabs r) (epsilon * exp x)) as [C|C].
    - exists (r / exp x), 0. rewrite Rabs_R0. repeat split; [|lra|field; lra].
      unfold Rdiv. rewrite Rabs_mult, (Rabs_right (/ exp x)) by (apply Rle_ge, Rlt_le, Rinv_0_lt_compat; lra).
      apply Rmult_le_reg_r with (exp x); [exact P|]. rewrite Rmult_assoc, Rinv_l by lra. lra.
    - destruct (Rle_dec 0 r) as [S|S].
      + rewrite Rabs_right in * by lra. exists epsilon, (r - epsilon * exp x).
        rewrite !Rabs_right by lra. repeat split; lra.
      + rewrite Rabs_left in * by lra. exists (- epsilon), (r + epsilon * exp x).
        rewrite Rabs_Ropp, (Rabs_right epsilon), Rabs_left by lra. repeat split; lra. }
  destruct S as (d & w & Hd & Hw & E).
  destruct (relative_exponent d Hd) as (b & Hb & Eb).
  exists b, w. repeat split; try assumption.
  - rewrite Eb. apply abs_le_split in Hd. lra.
  - rewrite Eb. unfold r in E. lra.
Qed.

(* The weight of a term against reference m: x = the rounded difference, e = its exponential. t is the real score,
   t_hat the computed one. *)
Definition weight (t_hat m e : R) : Prop :=
  exists x, rounds u lambda_add (t_hat - m) x /\ exp_accurate x e.
Definition weight_below (t_hat m e : R) : Prop :=
  exists x, rounds u lambda_add (t_hat - m) x /\ x <= 0 /\ exp_accurate x e.

Lemma weight_form t D t_hat m e : Rabs (t_hat - t) <= D -> weight t_hat m e ->
  exists b w, Rabs b <= D + u * Rabs (t_hat - m) + (epsilon' + lambda_add) /\ Rabs w <= omega /\
    e = exp (t - m + b) + w.
Proof.
  intros HD (x & (d & a & Hd & Ha & ->) & X).
  destruct (exp_accurate_form _ _ X) as (b & w & Hb & _ & Hw & E).
  exists ((t_hat - t) + (t_hat - m) * d + a + b), w. split; [|split; [exact Hw|]].
  - eapply Rle_trans; [apply Rabs_triang|]. eapply Rle_trans; [apply Rplus_le_compat_r, Rabs_triang|].
    eapply Rle_trans; [apply Rplus_le_compat_r, Rplus_le_compat_r, Rabs_triang|].
    rewrite Rabs_mult. assert (Rabs (t_hat - m) * Rabs d <= Rabs (t_hat - m) * u) by (apply Rmult_le_compat_l; auto using Rabs_pos).
    lra.
  - rewrite E, <- exp_plus. f_equal. f_equal. ring.
Qed.

Lemma weight_below_form t D t_hat m e : Rabs (t_hat - t) <= D -> t_hat <= m -> weight_below t_hat m e ->
  exists b w, Rabs b <= D + u * (m - t_hat) + (epsilon' + lambda_add) /\ exp (t - m + b) <= 1 + epsilon /\
    Rabs w <= omega /\ e = exp (t - m + b) + w.
Proof.
  intros HD Hm (x & (d & a & Hd & Ha & Ex) & X0 & X).
  destruct (exp_accurate_form _ _ X) as (b & w & Hb & Eb & Hw & E).
  exists ((t_hat - t) + (t_hat - m) * d + a + b), w.
  assert (EX : t - m + (t_hat - t + (t_hat - m) * d + a + b) = x + b) by (rewrite Ex; ring).
  split; [|split; [|split; [exact Hw|]]].
  - replace (m - t_hat) with (Rabs (t_hat - m)) by (rewrite Rabs_left1; lra).
    eapply Rle_trans; [apply Rabs_triang|]. eapply Rle_trans; [apply Rplus_le_compat_r, Rabs_triang|].
    eapply Rle_trans; [apply Rplus_le_compat_r, Rplus_le_compat_r, Rabs_triang|].
    rewrite Rabs_mult. assert (Rabs (t_hat - m) * Rabs d <= Rabs (t_hat - m) * u) by (apply Rmult_le_compat_l; auto using Rabs_pos).
    lra.
  - rewrite EX, exp_plus. rewrite <- (Rmult_1_l (1 + epsilon)).
    apply Rmult_le_compat; try (apply Rlt_le, exp_pos); [|exact Eb].
    rewrite <- exp_0. destruct X0 as [X1|X1]; [apply Rlt_le, exp_increasing, X1|rewrite X1; lra].
  - rewrite EX, E, <- exp_plus. reflexivity.
Qed.

(* The factor from reference m to a later, greater one m'. *)
Lemma rescale_form m m' e : m <= m' -> weight_below m m' e ->
  exists b w, Rabs b <= u * (m' - m) + (epsilon' + lambda_add) /\ exp (m - m' + b) <= 1 + epsilon /\
    Rabs w <= omega /\ e = exp (m - m' + b) + w.
Proof.
  intros Hm W.
  destruct (weight_below_form m 0 m m' e) as (b & w & Hb & E1 & Hw & E); auto.
  { replace (m - m) with 0 by ring. rewrite Rabs_R0. lra. }
  exists b, w. repeat split; auto. lra.
Qed.
End Weight.

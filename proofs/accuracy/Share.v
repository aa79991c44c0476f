(* Layer 5a: a quotient of a weighted sum by the sum of the weights, each weight off by a factor and each sum off by a
   little. Weights need not be the same in both. *)
From Coq Require Import Reals Lra Lia List Permutation.
From KvAccuracy Require Import Sums Rounding Weight Accumulate Bound.
Import ListNotations.
Open Scope R_scope.

Lemma maximum_ge l f p : In p l -> f p <= maximum l f.
Proof.
  induction l as [|q l IH]; [easy|]. intros [<-|I].
  - destruct l as [|r l]; simpl; [lra|]. apply Rmax_l.
  - destruct l as [|r l]; [easy|]. change (maximum (q :: r :: l) f) with (Rmax (f q) (maximum (r :: l) f)).
    eapply Rle_trans; [apply IH, I|apply Rmax_r].
Qed.

Lemma maximum_le l f a : l <> [] -> (forall p, In p l -> f p <= a) -> maximum l f <= a.
Proof.
  induction l as [|q l IH]; [easy|]. intros _ A. destruct l as [|r l]; [apply A; now left|].
  change (maximum (q :: r :: l) f) with (Rmax (f q) (maximum (r :: l) f)).
  apply Rmax_lub; [apply A; now left|]. apply IH; [easy|]. intros p I. apply A. now right.
Qed.

Section Share.
Variable E : engine.
Hypothesis sanity : sane E.
Variables n N : nat.
Hypothesis some_row : (1 <= n)%nat.
Hypothesis rows_first : (n <= N)%nat.
Variables t D v : nat -> R.

Notation rows := (rows n).
Notation all := (all N).
Notation m_plus := (m_plus N t D).
Notation B := (B E n N t D).
Notation S_min := (S_min N t D).
Notation w := (w N t D).
Notation K := (K E n N t D).
Notation Hw := (Hw E n N t D).
Notation C := (C E).
Notation F := (F E).
Notation Q := (Q E n N t D).
Notation relative := (relative E n N t D).
Notation Delta := (Delta E N).
Notation S_low := (S_low E n N t D).

Lemma all_some : all <> [].
Proof. unfold Bound.all. destruct N; [lia|easy]. Qed.

Lemma row_in_all p : In p rows -> In p all.
Proof. unfold Bound.rows, Bound.all. rewrite !in_seq. lia. Qed.

Lemma S_min_pos : 0 < S_min.
Proof. apply sum_pos; [apply all_some|]. intros. apply exp_pos. Qed.

Lemma w_pos p : 0 < w p.
Proof. unfold Bound.w. apply Rdiv_lt_0_compat; [apply exp_pos|apply S_min_pos]. Qed.

Lemma H_pos : 0 < Hw.
Proof.
  apply sum_pos; [apply all_some|]. intros. apply Rmult_lt_0_compat; [apply w_pos|apply exp_pos].
Qed.

Lemma K_pos : 0 < K.
Proof.
  apply sum_pos; [apply all_some|]. intros. apply Rmult_lt_0_compat; [apply w_pos|apply exp_pos].
Qed.

Lemma C_ge : 1 <= C.
Proof.
  destruct sanity. unfold Bound.C. rewrite <- Rinv_1. apply Rinv_le_contravar; [apply pow_pos; lra|].
  apply pow_le_1. lra.
Qed.

Lemma F_pos : 0 < F.
Proof.
  destruct sanity. unfold Bound.F. apply Rinv_0_lt_compat. repeat apply Rmult_lt_0_compat; try lra.
  apply pow_pos; lra.
Qed.

Lemma Q_pos p : 0 < Q p.
Proof.
  unfold Bound.Q. pose proof C_ge. pose proof F_pos. pose proof H_pos.
  apply Rdiv_lt_0_compat; [|assumption]. repeat apply Rmult_lt_0_compat; try lra. apply exp_pos.
Qed.

Lemma Delta_nonneg : 0 <= Delta.
Proof.
  destruct sanity. unfold Bound.Delta, Bound.G, Bound.Lam.
  repeat (apply Rmult_le_pos || apply Rplus_le_le_0_compat || apply pos_INR || apply pow_le); lra.
Qed.

(* The sums an engine ends up with. m is its last reference, b and b' errors of exponents, c and f factors of roundings. *)
Variables (m : R) (b b' c f : nat -> R) (num den En Es : R).
Hypothesis reference : m <= m_plus.
Hypothesis exponents : forall p, In p all -> Rabs (b p) <= B p.
Hypothesis exponents' : forall p, In p rows -> Rabs (b' p) <= B p.
Hypothesis factors : forall p, In p all -> / C <= c p <= C.
Hypothesis factors' : forall p, In p rows -> / F <= f p <= F.
Hypothesis den_is : den = sum all (fun p => exp (t p - m + b p) * c p) + Es.
Hypothesis num_is : num = sum rows (fun p => v p * exp (t p - m + b' p) * f p) + En.
Hypothesis Es_small : Rabs Es <= Delta.
Hypothesis den_large : 0 < S_low.

Let scale := exp (m_plus - m) * S_min.
Let den0 := sum all (fun p => exp (t p - m + b p) * c p).
Let num0 := sum rows (fun p => v p * exp (t p - m + b' p) * f p).

Lemma scale_pos : 0 < scale.
Proof. apply Rmult_lt_0_compat; [apply exp_pos|apply S_min_pos]. Qed.

Lemma weight_split p x : exp (t p - m + x) = scale * (w p * exp x).
Proof.
  unfold scale, Bound.w. pose proof S_min_pos. field_simplify; [|lra]. rewrite <- !exp_plus. f_equal. ring.
Qed.

Lemma exp_band p x : Rabs x <= B p -> exp (- B p) <= exp x <= exp (B p).
Proof.
  intros Hx. apply abs_le_split in Hx.
  split; (destruct (Rle_lt_or_eq_dec _ _ (proj1 Hx)) as [X|X] || idtac).
  - apply Rlt_le, exp_increasing, X.
  - rewrite <- X. lra.
  - destruct (Rle_lt_or_eq_dec _ _ (proj2 Hx)) as [Y|Y]; [apply Rlt_le, exp_increasing, Y|rewrite <- Y; lra].
  - destruct (Rle_lt_or_eq_dec _ _ (proj2 Hx)) as [Y|Y]; [apply Rlt_le, exp_increasing, Y|rewrite <- Y; lra].
Qed.

Lemma den0_low : scale * (Hw / C) <= den0.
Proof.
  unfold den0, Bound.Hw, Rdiv. rewrite <- sum_scale_r, <- sum_scale. apply sum_le. intros p I.
  rewrite weight_split, !Rmult_assoc. apply Rmult_le_compat_l; [apply Rlt_le, scale_pos|].
  apply Rmult_le_compat_l; [apply Rlt_le, w_pos|].
  pose proof C_ge. apply Rmult_le_compat.
  - apply Rlt_le, exp_pos.
  - apply Rlt_le, Rinv_0_lt_compat; lra.
  - apply exp_band; auto.
  - apply factors, I.
Qed.

Lemma den0_high : den0 <= scale * (K * C).
Proof.
  unfold den0, Bound.K. rewrite <- sum_scale_r, <- sum_scale. apply sum_le. intros p I.
  rewrite weight_split, !Rmult_assoc. apply Rmult_le_compat_l; [apply Rlt_le, scale_pos|].
  apply Rmult_le_compat_l; [apply Rlt_le, w_pos|].
  pose proof C_ge. destruct (factors p I) as [c0 c1].
  apply Rmult_le_compat; auto; try (apply Rlt_le, exp_pos).
  - eapply Rle_trans; [|exact c0]. apply Rlt_le, Rinv_0_lt_compat; lra.
  - apply exp_band; auto.
Qed.

Lemma den0_pos : 0 < den0.
Proof.
  eapply Rlt_le_trans; [|apply den0_low]. pose proof C_ge.
  apply Rmult_lt_0_compat; [apply scale_pos|]. apply Rdiv_lt_0_compat; [apply H_pos|lra].
Qed.

Lemma den_low : S_low <= den.
Proof.
  rewrite den_is. fold den0. apply abs_le_split in Es_small. pose proof den0_low as LowD.
  assert (X : (1 - u E) ^ (h_s E + L E) * (Hw * S_min) <= scale * (Hw / C)).
  { unfold Bound.C, Rdiv. rewrite Rinv_inv. unfold scale.
    replace (exp (m_plus - m) * S_min * (Hw * (1 - u E) ^ (h_s E + L E)))
      with (exp (m_plus - m) * ((1 - u E) ^ (h_s E + L E) * (Hw * S_min))) by ring.
    rewrite <- (Rmult_1_l ((1 - u E) ^ (h_s E + L E) * (Hw * S_min))) at 1.
    apply Rmult_le_compat_r.
    - pose proof H_pos. pose proof S_min_pos. destruct sanity.
      repeat apply Rmult_le_pos; try lra. apply pow_le; lra.
    - pose proof (exp_ge (m_plus - m)). lra. }
  unfold Bound.S_low. lra.
Qed.

(* A row's share of what it should be. *)
Let rho p := exp (b' p) * f p * scale / den0.

Lemma rho_high p : In p rows -> rho p <= Q p.
Proof.
  intros I. unfold rho, Bound.Q. pose proof C_ge as C1. pose proof H_pos as H0. pose proof scale_pos as s0.
  pose proof den0_low as LowD. pose proof den0_pos as d0. pose proof F_pos as F0.
  destruct (factors' p I) as [f0 f1]. destruct (exp_band p _ (exponents' p I)) as [_ e1].
  pose proof (exp_pos (b' p)) as eb. assert (0 < / F) by (apply Rinv_0_lt_compat; lra).
  assert (Y : scale / den0 <= C / Hw).
  { apply Rmult_le_reg_r with den0; [exact d0|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l, Rmult_1_r by lra.
    apply Rmult_le_compat_l with (r := C * / Hw) in LowD; [|apply Rmult_le_pos; [lra|apply Rlt_le, Rinv_0_lt_compat, H0]].
    replace (C * / Hw * (scale * (Hw / C))) with scale in LowD by (field; split; lra). exact LowD. }
  unfold Rdiv in *. rewrite !(Rmult_assoc _ _ (/ _)).
  apply Rmult_le_compat; try lra.
  - apply Rmult_le_pos; lra.
  - apply Rmult_le_pos; [lra|apply Rlt_le, Rinv_0_lt_compat, d0].
  - apply Rmult_le_compat; lra.
Qed.

Lemma rho_low p : In p rows -> / (exp (B p) * F * C * K) <= rho p.
Proof.
  intros I. unfold rho. pose proof C_ge as C1. pose proof K_pos as K0. pose proof scale_pos as s0.
  pose proof den0_high as HighD. pose proof den0_pos as d0. pose proof F_pos as F0.
  destruct (factors' p I) as [f0 f1]. destruct (exp_band p _ (exponents' p I)) as [e0 _].
  rewrite exp_Ropp in e0. pose proof (exp_pos (B p)) as eB. pose proof (exp_pos (b' p)) as eb.
  assert (iF : 0 < / F) by (apply Rinv_0_lt_compat; lra).
  assert (iE : 0 < / exp (B p)) by (apply Rinv_0_lt_compat; lra).
  assert (Y : / (C * K) <= scale / den0).
  { apply Rmult_le_reg_r with den0; [exact d0|]. unfold Rdiv. rewrite (Rmult_assoc scale), Rinv_l, Rmult_1_r by lra.
    apply Rmult_le_compat_l with (r := / (C * K)) in HighD; [|apply Rlt_le, Rinv_0_lt_compat, Rmult_lt_0_compat; lra].
    replace (/ (C * K) * (scale * (K * C))) with scale in HighD by (field; split; lra). exact HighD. }
  replace (/ (exp (B p) * F * C * K)) with (/ exp (B p) * / F * / (C * K)) by (field; repeat split; lra).
  unfold Rdiv in *. rewrite (Rmult_assoc _ scale).
  apply Rmult_le_compat; auto.
  - apply Rlt_le, Rmult_lt_0_compat; assumption.
  - apply Rlt_le, Rinv_0_lt_compat, Rmult_lt_0_compat; lra.
  - apply Rmult_le_compat; lra.
Qed.

Lemma rho_error p : In p rows -> Rabs (rho p - 1) <= relative p.
Proof.
  intros I. pose proof (rho_high p I). pose proof (rho_low p I). unfold Bound.relative.
  pose proof (Rmax_l (Q p - 1) (1 - / (exp (B p) * F * C * K))).
  pose proof (Rmax_r (Q p - 1) (1 - / (exp (B p) * F * C * K))).
  apply abs_le_join. lra.
Qed.

Lemma num0_share : num0 / den0 = sum rows (fun p => w p * v p * rho p).
Proof.
  unfold num0, Rdiv. rewrite <- sum_scale_r. apply sum_ext. intros p _.
  rewrite weight_split. unfold rho, Rdiv. ring.
Qed.

Theorem share_error :
  Rabs (num / den - exact n N t D v) <=
    main E n N t D v + (T E n N t D v * Delta + Rabs En) / S_low.
Proof.
  pose proof den_low as Low. pose proof den0_pos as d0. pose proof Delta_nonneg as D0.
  assert (M : Rabs (num0 / den0 - exact n N t D v) <= main E n N t D v).
  { rewrite num0_share. unfold exact, main. fold rows. rewrite <- sum_minus. apply sum_abs_le. intros p I.
    replace (w p * v p * rho p - w p * v p) with (w p * v p * (rho p - 1)) by ring.
    rewrite !Rabs_mult, (Rabs_right (w p)) by (apply Rle_ge, Rlt_le, w_pos).
    apply Rmult_le_compat_l; [|now apply rho_error].
    apply Rmult_le_pos; [apply Rlt_le, w_pos|apply Rabs_pos]. }
  assert (A : Rabs (num0 / den0) <= T E n N t D v).
  { rewrite num0_share. unfold T. fold rows. apply sum_abs_le. intros p I.
    rewrite !Rabs_mult, (Rabs_right (w p)) by (apply Rle_ge, Rlt_le, w_pos).
    apply Rmult_le_compat_l; [apply Rmult_le_pos; [apply Rlt_le, w_pos|apply Rabs_pos]|].
    pose proof (rho_low p I). pose proof (rho_high p I).
    assert (0 < / (exp (B p) * F * C * K)).
    { apply Rinv_0_lt_compat. pose proof F_pos. pose proof C_ge. pose proof K_pos.
      repeat apply Rmult_lt_0_compat; try lra. apply exp_pos. }
    rewrite Rabs_right; lra. }
  assert (Split : num / den - exact n N t D v =
    (num0 / den0 - exact n N t D v) + (En - num0 / den0 * Es) / den).
  { rewrite num_is. fold num0. replace Es with (den - den0) by (rewrite den_is; unfold den0; ring). field. lra. }
  rewrite Split. eapply Rle_trans; [apply Rabs_triang|]. apply Rplus_le_compat; [exact M|].
  unfold Rdiv. rewrite Rabs_mult, (Rabs_right (/ den)) by (apply Rle_ge, Rlt_le, Rinv_0_lt_compat; lra).
  apply Rmult_le_compat; [apply Rabs_pos|apply Rlt_le, Rinv_0_lt_compat; lra| |apply Rinv_le_contravar; lra].
  unfold Rminus. eapply Rle_trans; [apply Rabs_triang|]. rewrite Rabs_Ropp, Rabs_mult.
  assert (Rabs (num0 / den0) * Rabs Es <= T E n N t D v * Delta) by (apply Rmult_le_compat; auto using Rabs_pos).
  unfold Rdiv in *. lra.
Qed.
End Share.

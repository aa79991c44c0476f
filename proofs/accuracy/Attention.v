(* Layer 5: the bound holds, for engines that divide first and for those that divide last. *)
From Coq Require Import Reals Lra Lia List Permutation.
From KvAccuracy Require Import Sums Rounding Dot Weight Accumulate Bound Share Engine.
Import ListNotations.
Open Scope R_scope.

Section Attention.
Variable E : engine.
Hypothesis sanity : sane E.
Variables n N : nat.
Hypothesis some_row : (1 <= n)%nat.
Hypothesis rows_first : (n <= N)%nat.
Variables t D t_hat v v_hat dv : nat -> R.
Hypothesis scores_known : forall p, Rabs (t_hat p - t p) <= D p.
Hypothesis stored_v : forall p, Rabs (dv p) <= u_v E /\ v_hat p = v p * (1 + dv p).
Hypothesis den_large : 0 < S_low E n N t D.

Notation rows := (rows n).
Notation all := (all N).
Notation V := (V n v).

Let Fl := F_large E sanity.
Let F1 := F_ge_1 E sanity n N some_row rows_first.

Lemma V_nonneg : 0 <= V.
Proof. apply sum_nonneg. intros. apply Rabs_pos. Qed.

Lemma stored_abs p : Rabs (v_hat p) <= (1 + u_v E) * Rabs (v p).
Proof.
  destruct (stored_v p) as [Hd ->]. rewrite Rabs_mult, Rmult_comm. apply Rmult_le_compat_r; [apply Rabs_pos|].
  apply abs_le_split in Hd. destruct sanity. apply abs_le_join. lra.
Qed.

Lemma Lam_nonneg : 0 <= Lam E.
Proof.
  destruct sanity. unfold Lam. apply Rplus_le_le_0_compat; [|lra].
  apply Rmult_le_pos; [apply pos_INR|lra].
Qed.

Lemma G_ge_1 : 1 <= G E.
Proof. destruct sanity. unfold G. apply pow_ge_1. lra. Qed.

Theorem law14_divides_last o_hat :
  divides_last E n N t_hat v_hat o_hat -> Rabs (o_hat - exact n N t D v) <= bound E n N t D v.
Proof.
  intros (m & den & l & h & L' & num & (p0 & I0 & Em) & Hrows & Den & Pl & Hh & HL & A & Fin).
  pose proof sanity as sanity'. destruct sanity'.
  pose proof (reference_low N t D t_hat scores_known m p0 I0 Em) as Hm.
  destruct (denominator_form E sanity n N some_row rows_first t D t_hat scores_known m den Hm Hrows Den)
    as (b & c & Es & Hb & Hc & EqD & HEs).
  destruct (finished_form E sanity num den o_hat Fin) as (a & r & Ba & Hr & ->).
  assert (ND : NoDup l) by (eapply Permutation_NoDup; [symmetry; exact Pl|apply seq_NoDup]).
  pose proof (nonempty _ _ _ _ _ _ _ _ _ _ _ _ _ _ A) as Hl1.
  assert (Hlen : length l = n) by (rewrite (Permutation_length Pl); apply seq_length).
  apply (accumulated_approximates (u E) (lambda E) (lambda_add E) (epsilon E) (omega E) (u_P E) (lambda_P E)) with (t := t) (D := D) in A; auto.
  destruct A as (b' & f & M & Bb & _ & Bf & Err).
  assert (In' : forall p, In p rows -> In p l) by (intros p I; eapply Permutation_in; [symmetry; exact Pl|exact I]).
  set (num0 := sum l (fun p => v_hat p * exp (t p - m + b' p) * f p)) in *.
  set (En := (num - num0) * a).
  assert (a_pos : 0 < a) by (apply (band_pos (u E) 0 ltac:(lra) ltac:(lra) (g E)), Ba).
  assert (Fk : forall p, In p rows -> / F E <= (1 + dv p) * (f p * a) <= F E).
  { intros p I. apply (band_F E sanity (h + L' + g E)); [lia|apply stored_v|].
    specialize (Bf p (In' p I)). destruct Bf as [Lo Up]. destruct Ba as [Lo' Up'].
    unfold band. rewrite !(pow_add _ (h + L')).
    assert (0 <= (1 - u_P E) * (1 - u E) ^ (h + L')) by (apply Rmult_le_pos; [lra|apply pow_le; lra]).
    assert (0 <= (1 - u E) ^ g E) by (apply pow_le; lra).
    split; [rewrite <- (Rmult_assoc (1 - u_P E))|rewrite <- (Rmult_assoc (1 + u_P E))]; apply Rmult_le_compat; lra. }
  assert (EqN : num * a = sum rows (fun p => v p * exp (t p - m + b' p) * ((1 + dv p) * (f p * a))) + En).
  { unfold En. replace (num * a) with (num0 * a + (num - num0) * a) by ring. f_equal.
    unfold num0. rewrite (sum_permutation _ _ _ Pl), <- sum_scale_r. apply sum_ext. intros p I.
    destruct (stored_v p) as [_ ->]. ring. }
  assert (HEn : Rabs En <= F E * (G E * (INR (S (L E)) * (omega E + lambda_P E) * V + INR n * Lam E))).
  { unfold En. rewrite Rabs_mult.
    pose proof (band_abs (u E) 0 ltac:(lra) ltac:(lra) _ _ Ba) as aa.
    pose proof (stray_weaken (u E) (lambda E) (lambda_add E) (epsilon E) (omega E) (u_P E) (lambda_P E) ltac:(lra) ltac:(lra) ltac:(lra) ltac:(lra) ltac:(lra) ltac:(lra) ltac:(lra) v_hat l h (1 + h_v E) L' (L E) Hl1 Hh HL) as St.
    eapply Rle_trans; [apply Rmult_le_compat; [apply Rabs_pos|apply Rabs_pos|eapply Rle_trans; [exact Err|exact St]|exact aa]|].
    unfold stray, gamma, loss, reach, budget. rewrite Hlen.
    rewrite (sum_permutation _ _ _ Pl).
    set (P := (1 + u E) ^ (1 + h_v E + L E)).
    assert (HV : sum rows (fun p => Rabs (v_hat p)) <= (1 + u_v E) * V).
    { unfold Bound.V. rewrite <- sum_scale. apply sum_le. intros. apply stored_abs. }
    fold (G E). set (s := INR (S (L E))) in *.
    assert (s0 : 1 <= s) by (apply one_le; lia).
    assert (k1 : 1 <= INR n) by (apply one_le; lia).
    assert (inner : s * (omega E + lambda_P E) * sum rows (fun p => Rabs (v_hat p)) +
       (INR n * (s * lambda E) + (INR n - 1) * lambda_add E) <=
       (1 + u_v E) * (s * (omega E + lambda_P E) * V + INR n * Lam E)).
    { assert (s * (omega E + lambda_P E) * sum rows (fun p => Rabs (v_hat p)) <= s * (omega E + lambda_P E) * ((1 + u_v E) * V)).
      { apply Rmult_le_compat_l; [apply Rmult_le_pos; lra|exact HV]. }
      assert (INR n * (s * lambda E) + (INR n - 1) * lambda_add E <= INR n * Lam E) by (unfold Lam; fold s; lra).
      assert (0 <= u_v E * (INR n * Lam E)) by (apply Rmult_le_pos; [lra|apply Rmult_le_pos; [lra|apply Lam_nonneg]]).
      lra. }
    set (I1 := s * (omega E + lambda_P E) * V + INR n * Lam E) in *.
    assert (I10 : 0 <= I1).
    { unfold I1. pose proof V_nonneg. pose proof Lam_nonneg.
      apply Rplus_le_le_0_compat; repeat apply Rmult_le_pos; lra. }
    pose proof G_ge_1 as G1.
    assert (P0 : 0 <= P) by (apply pow_le; lra).
    assert (pg : 0 <= (1 + u E) ^ g E) by (apply pow_le; lra).
    apply Rle_trans with ((1 + u_P E) * P * G E * ((1 + u_v E) * I1) * ((1 + 0) * (1 + u E) ^ g E)).
    - apply Rmult_le_compat_r; [lra|]. apply Rmult_le_compat_l; [|exact inner].
      apply Rmult_le_pos; [apply Rmult_le_pos; lra|lra].
    - replace ((1 + u_P E) * P * G E * ((1 + u_v E) * I1) * ((1 + 0) * (1 + u E) ^ g E))
        with ((1 + u_P E) * (1 + u_v E) * (1 + u E) ^ (1 + h_v E + L E + g E) * (G E * I1))
        by (rewrite (pow_add _ (1 + h_v E + L E)); unfold P; ring).
      apply Rmult_le_compat_r; [apply Rmult_le_pos; lra|]. apply Fl. lia. }
  pose proof (share_error E sanity n N some_row rows_first t D v m b b' c (fun p => (1 + dv p) * (f p * a))
    (num * a) den En Es Hm Hb) as Share.
  assert (Hb' : forall p, In p rows -> Rabs (b' p) <= B E n N t D p).
  { intros p I. eapply Rle_trans; [apply Bb; auto|]. apply exponent_within; auto. }
  specialize (Share Hb' Hc Fk EqD EqN HEs den_large).
  replace (num / den * a + r - exact n N t D v) with ((num * a / den - exact n N t D v) + r) by (unfold Rdiv; ring).
  eapply Rle_trans; [apply Rabs_triang|]. unfold bound, underflow.
  assert (X : (T E n N t D v * Delta E N + Rabs En) / S_low E n N t D <=
    (T E n N t D v * Delta E N + F E * (G E * (INR (S (L E)) * (omega E + lambda_P E) * V + INR n * Lam E))) / S_low E n N t D).
  { apply Rmult_le_compat_r; [apply Rlt_le, Rinv_0_lt_compat, den_large|]. lra. }
  assert (Y : lambda E <= F E * ((lambda E + lambda_P E) * V + INR n * Lam E + lambda E)).
  { pose proof V_nonneg. pose proof Lam_nonneg.
    assert (0 <= (lambda E + lambda_P E) * V) by (apply Rmult_le_pos; lra).
    assert (0 <= INR n * Lam E) by (apply Rmult_le_pos; [apply pos_INR|assumption]).
    rewrite <- (Rmult_1_l (lambda E)) at 1. apply Rmult_le_compat; lra. }
  lra.
Qed.

Theorem law14_divides_first o_hat :
  divides_first E n N t_hat v_hat o_hat -> Rabs (o_hat - exact n N t D v) <= bound E n N t D v.
Proof.
  intros (m & den & l & h & P & (p0 & I0 & Em) & Hrows & Den & Prob & Pl & Hh & Tree).
  pose proof sanity as sanity'. destruct sanity'.
  pose proof (reference_low N t D t_hat scores_known m p0 I0 Em) as Hm.
  destruct (denominator_form E sanity n N some_row rows_first t D t_hat scores_known m den Hm Hrows Den)
    as (b & c & Es & Hb & Hc & EqD & HEs).
  assert (ND : NoDup l) by (eapply Permutation_NoDup; [symmetry; exact Pl|apply seq_NoDup]).
  assert (Hlen : length l = n) by (rewrite (Permutation_length Pl); apply seq_length).
  destruct (summed_form (u E) (lambda E) (lambda_add E) ltac:(lra) ltac:(lra) ltac:(lra) P v_hat l h o_hat Tree ND) as (f & Bf & Err).
  rewrite Hlen in Err. rewrite (sum_permutation _ _ _ Pl) in Err.
  assert (In' : forall p, In p rows -> In p l) by (intros p I; eapply Permutation_in; [symmetry; exact Pl|exact I]).
  (* each probability: its weight's main part and what strays, over the denominator; and what underflows after it *)
  assert (Form : forall p, exists b w a r, In p rows ->
     Rabs b <= B E n N t D p /\ Rabs w <= omega E /\ band (u E) (u_P E) (g E) a /\
     Rabs r <= (1 + u_P E) * (lambda E + lambda_P E) /\ P p = (exp (t p - m + b) + w) / den * a + r).
  { intros p. destruct (in_dec Nat.eq_dec p rows) as [I|I]; [|exists 0, 0, 0, 0; easy].
    destruct (Prob p I) as (e & P0 & W & Fin & (cp & xp & Hcp & Hxp & EP)).
    destruct (weight_below_form (u E) (lambda_add E) (epsilon E) (omega E) sane_epsilon sane_omega (t p) (D p) (t_hat p) m e
                (scores_known p) (Hrows p I) W) as (bp & w & Hbp & _ & Hw & Ee).
    destruct (finished_form E sanity e den P0 Fin) as (a & r & Ba & Hr & EP0).
    exists bp, w, (a * (1 + cp)), (r * (1 + cp) + xp). intros _. repeat split; auto.
    - eapply Rle_trans; [|apply (exponent_within E sanity n N t D t_hat scores_known m p 0); auto; lia].
      unfold exponent_error. simpl. lra.
    - destruct Ba as [Lo _]. rewrite (Rmult_comm a). apply abs_le_split in Hcp.
      assert (0 <= (1 - u E) ^ g E) by (apply pow_le; lra). apply Rmult_le_compat; lra.
    - destruct Ba as [Lo Up]. rewrite (Rmult_comm a). apply abs_le_split in Hcp.
      assert (0 <= (1 - u E) ^ g E) by (apply pow_le; lra). apply Rmult_le_compat; lra.
    - eapply Rle_trans; [apply Rabs_triang|]. rewrite Rabs_mult.
      assert (Rabs (1 + cp) <= 1 + u_P E) by (apply abs_le_split in Hcp; apply abs_le_join; lra).
      assert (Rabs r * Rabs (1 + cp) <= lambda E * (1 + u_P E)) by (apply Rmult_le_compat; auto using Rabs_pos).
      assert (0 <= u_P E * lambda_P E) by (apply Rmult_le_pos; lra). lra.
    - rewrite EP, EP0, Ee. unfold Rdiv. ring. }
  assert (Ch : exists b' w a r, forall p, In p rows ->
     Rabs (b' p) <= B E n N t D p /\ Rabs (w p) <= omega E /\ band (u E) (u_P E) (g E) (a p) /\
     Rabs (r p) <= (1 + u_P E) * (lambda E + lambda_P E) /\ P p = (exp (t p - m + b' p) + w p) / den * a p + r p).
  { clear - Form. set (Good := fun p x y z q => Rabs x <= B E n N t D p /\ Rabs y <= omega E /\ band (u E) (u_P E) (g E) z /\
     Rabs q <= (1 + u_P E) * (lambda E + lambda_P E) /\ P p = (exp (t p - m + x) + y) / den * z + q) in *.
    change (exists b' w a r, forall p, In p rows -> Good p (b' p) (w p) (a p) (r p)).
    generalize rows Form. clear Form. intros l Form. induction l as [|q l IH].
    - exists (fun _ => 0), (fun _ => 0), (fun _ => 0), (fun _ => 0). easy.
    - destruct IH as (b1 & w1 & a1 & r1 & A); [intros p; destruct (Form p) as (x & y & z & k & X); exists x, y, z, k; intros I; apply X; now right|].
      destruct (Form q) as (x & y & z & k & X). specialize (X (or_introl eq_refl)).
      exists (join [q] (fun _ => x) b1), (join [q] (fun _ => y) w1), (join [q] (fun _ => z) a1), (join [q] (fun _ => k) r1).
      intros p I. destruct (Nat.eq_dec p q) as [->|Ne].
      + rewrite !join_left by now left. exact X.
      + rewrite !join_right by (intros [J|[]]; auto). apply A. destruct I; [congruence|assumption]. }
  destruct Ch as (b' & w & a & r & Ch). clear Form Prob.
  set (num0 := sum rows (fun p => v p * exp (t p - m + b' p) * ((1 + dv p) * (a p * f p)))).
  set (En := sum rows (fun p => v_hat p * (w p * (a p * f p)))).
  set (rest := sum rows (fun p => v_hat p * (r p * f p))).
  assert (Split : sum rows (fun j => P j * v_hat j * f j) = (num0 + En) / den + rest).
  { unfold num0, En, rest. rewrite <- sum_plus. unfold Rdiv. rewrite <- sum_scale_r, <- sum_plus. apply sum_ext.
    intros p I. destruct (Ch p I) as (_ & _ & _ & _ & ->). destruct (stored_v p) as [_ ->]. unfold Rdiv. ring. }
  assert (Hk : (g E + h <= 1 + h_v E + L E + g E)%nat) by lia.
  assert (Baf : forall p, In p rows -> band (u E) (u_P E) (g E + h) (a p * f p)).
  { intros p I. destruct (Ch p I) as (_ & _ & [Lo Up] & _ & _). destruct (Bf p (In' p I)) as [Lo' Up'].
    unfold band. rewrite !pow_add.
    assert (0 <= (1 - u_P E) * (1 - u E) ^ g E) by (apply Rmult_le_pos; [lra|apply pow_le; lra]).
    assert (0 <= (1 - u E) ^ h) by (apply pow_le; lra).
    split; [rewrite <- (Rmult_assoc (1 - u_P E))|rewrite <- (Rmult_assoc (1 + u_P E))]; apply Rmult_le_compat; lra. }
  pose proof V_nonneg as V0. pose proof Lam_nonneg as La0. pose proof G_ge_1 as G1.
  assert (s1 : 1 <= INR (S (L E))) by (apply one_le; lia).
  assert (n0 : 1 <= INR n) by (apply one_le; lia).
  assert (HEn : Rabs En <= F E * (omega E * V)).
  { unfold En, Bound.V. rewrite <- !sum_scale. apply sum_abs_le. intros p I. rewrite !Rabs_mult, <- (Rabs_mult (a p)).
    destruct (Ch p I) as (_ & Hw & _ & _ & _).
    pose proof (band_abs (u E) (u_P E) ltac:(lra) ltac:(lra) _ _ (Baf p I)) as af. pose proof (stored_abs p) as vp.
    apply Rle_trans with ((1 + u_v E) * Rabs (v p) * (omega E * ((1 + u_P E) * (1 + u E) ^ (g E + h)))).
    - apply Rmult_le_compat; auto using Rabs_pos; [|apply Rmult_le_compat; auto using Rabs_pos].
      apply Rmult_le_pos; apply Rabs_pos.
    - replace ((1 + u_v E) * Rabs (v p) * (omega E * ((1 + u_P E) * (1 + u E) ^ (g E + h))))
        with ((1 + u_P E) * (1 + u_v E) * (1 + u E) ^ (g E + h) * (omega E * Rabs (v p))) by ring.
      apply Rmult_le_compat_r; [apply Rmult_le_pos; [lra|apply Rabs_pos]|]. apply Fl, Hk. }
  assert (Hrest : Rabs rest <= F E * ((lambda E + lambda_P E) * V)).
  { unfold rest, Bound.V. rewrite <- !sum_scale. apply sum_abs_le. intros p I. rewrite !Rabs_mult.
    destruct (Ch p I) as (_ & _ & _ & Hr & _).
    pose proof (band_abs (u E) 0 ltac:(lra) ltac:(lra) _ _ (Bf p (In' p I))) as af. pose proof (stored_abs p) as vp.
    apply Rle_trans with ((1 + u_v E) * Rabs (v p) * ((1 + u_P E) * (lambda E + lambda_P E) * ((1 + 0) * (1 + u E) ^ h))).
    - apply Rmult_le_compat; auto using Rabs_pos; [|apply Rmult_le_compat; auto using Rabs_pos].
      apply Rmult_le_pos; apply Rabs_pos.
    - replace ((1 + u_v E) * Rabs (v p) * ((1 + u_P E) * (lambda E + lambda_P E) * ((1 + 0) * (1 + u E) ^ h)))
        with ((1 + u_P E) * (1 + u_v E) * (1 + u E) ^ h * ((lambda E + lambda_P E) * Rabs (v p))) by ring.
      apply Rmult_le_compat_r; [apply Rmult_le_pos; [lra|apply Rabs_pos]|]. apply Fl. lia. }
  assert (Htree : (INR n * lambda E + (INR n - 1) * lambda_add E) * (1 + u E) ^ h <= F E * (INR n * Lam E)).
  { rewrite Rmult_comm. apply Rmult_le_compat.
    - apply pow_le; lra.
    - apply Rplus_le_le_0_compat; apply Rmult_le_pos; lra.
    - eapply Rle_trans; [|apply (Fl h); lia]. rewrite <- (Rmult_1_l ((1 + u E) ^ h)) at 1.
      apply Rmult_le_compat_r; [apply pow_le; lra|]. nra.
    - unfold Lam. assert (0 <= INR n * ((INR (S (L E)) - 1) * lambda E)) by (apply Rmult_le_pos; [lra|apply Rmult_le_pos; lra]). lra. }
  pose proof (share_error E sanity n N some_row rows_first t D v m b b' c (fun p => (1 + dv p) * (a p * f p))
    (num0 + En) den En Es Hm Hb) as Share.
  assert (Hb' : forall p, In p rows -> Rabs (b' p) <= B E n N t D p) by (intros p I; apply (Ch p I)).
  assert (Fk : forall p, In p rows -> / F E <= (1 + dv p) * (a p * f p) <= F E).
  { intros p I. apply (band_F E sanity (g E + h)); [lia|apply stored_v|auto]. }
  specialize (Share Hb' Hc Fk EqD eq_refl HEs den_large).
  replace (o_hat - exact n N t D v) with
    ((o_hat - sum rows (fun j => P j * v_hat j * f j)) + (((num0 + En) / den - exact n N t D v) + rest)).
  2:{ rewrite Split. ring. }
  eapply Rle_trans; [apply Rabs_triang|]. eapply Rle_trans; [apply Rplus_le_compat_l, Rabs_triang|].
  unfold bound, underflow.
  assert (X : (T E n N t D v * Delta E N + Rabs En) / S_low E n N t D <=
    (T E n N t D v * Delta E N + F E * (G E * (INR (S (L E)) * (omega E + lambda_P E) * V + INR n * Lam E))) / S_low E n N t D).
  { apply Rmult_le_compat_r; [apply Rlt_le, Rinv_0_lt_compat, den_large|]. apply Rplus_le_compat_l.
    eapply Rle_trans; [exact HEn|]. apply Rmult_le_compat_l; [lra|].
    assert (0 <= INR n * Lam E) by (apply Rmult_le_pos; lra).
    assert (Y1 : omega E * V <= INR (S (L E)) * (omega E + lambda_P E) * V).
    { apply Rmult_le_compat_r; [exact V0|]. rewrite <- (Rmult_1_l (omega E)) at 1. apply Rmult_le_compat; lra. }
    assert (0 <= omega E * V) by (apply Rmult_le_pos; lra).
    rewrite <- (Rmult_1_l (omega E * V)). apply Rmult_le_compat; lra. }
  assert (0 <= F E * lambda E) by (apply Rmult_le_pos; lra).
  lra.
Qed.
End Attention.

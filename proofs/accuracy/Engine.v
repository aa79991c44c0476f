(* Layer 5b: from scores to an output, in the two ways in which engines do it. Everything here is about one query head and
   one dimension of the output. *)
From Coq Require Import Reals Lra Lia List Permutation.
From KvAccuracy Require Import Sums Rounding Dot Weight Accumulate Bound Share.
Import ListNotations.
Open Scope R_scope.

Section Engine.
Variable E : engine.
Variables n N : nat.
Variables t_hat : nat -> R.   (* computed scores; the sink's is number n *)

Notation rows := (rows n).
Notation all := (all N).

(* x divided by the denominator, or multiplied by its rounded reciprocal, which does not underflow. *)
Definition finished (x den y : R) : Prop :=
  (g E = 1%nat /\ rounds (u E) (lambda E) (x / den) y) \/
  (g E = 2%nat /\ exists i, rounds (u E) 0 (/ den) i /\ rounds (u E) (lambda E) (x * i) y).

(* The denominator at reference m. The sink has joined the maximum and the sum like a row, or is added at the end to a
   reference that need not know of it. *)
Definition denominator (m den : R) : Prop :=
  (exists l h L', Permutation l all /\ (h <= h_s E)%nat /\ (L' <= L E)%nat /\
     accumulated (u E) (lambda E) (lambda_add E) (epsilon E) (omega E) 0 0 t_hat (fun _ => 1) l h L' m den) \/
  (N = S n /\ exists l h L' x e, Permutation l rows /\ (S h <= h_s E)%nat /\ (L' <= L E)%nat /\
     accumulated (u E) (lambda E) (lambda_add E) (epsilon E) (omega E) 0 0 t_hat (fun _ => 1) l h L' m x /\
     weight (u E) (lambda_add E) (epsilon E) (omega E) (t_hat n) m e /\
     rounds (u E) (lambda_add E) (x + e) den).

(* Weighted values are summed first, and the sum is divided: online softmax, merged parts, two passes. *)
Definition divides_last (v_hat : nat -> R) (o_hat : R) : Prop :=
  exists m den l h L' num,
    (exists p, In p all /\ m = t_hat p) /\ (forall p, In p rows -> t_hat p <= m) /\
    denominator m den /\
    Permutation l rows /\ (h <= 1 + h_v E)%nat /\ (L' <= L E)%nat /\
    accumulated (u E) (lambda E) (lambda_add E) (epsilon E) (omega E) (u_P E) (lambda_P E) t_hat v_hat l h L' m num /\
    finished num den o_hat.

(* Weights are divided first, and probabilities are summed with the values: the canonical order. *)
Definition divides_first (v_hat : nat -> R) (o_hat : R) : Prop :=
  exists m den l h P,
    (exists p, In p all /\ m = t_hat p) /\ (forall p, In p rows -> t_hat p <= m) /\
    denominator m den /\
    (forall p, In p rows -> exists e P0,
       weight_below (u E) (lambda_add E) (epsilon E) (omega E) (t_hat p) m e /\
       finished e den P0 /\ rounds (u_P E) (lambda_P E) P0 (P p)) /\
    Permutation l rows /\ (h <= 1 + h_v E)%nat /\
    summed (u E) (lambda E) (lambda_add E) P v_hat l h o_hat.
End Engine.

Section Attention.
Variable E : engine.
Hypothesis sanity : sane E.
Variables n N : nat.
Hypothesis some_row : (1 <= n)%nat.
Hypothesis rows_first : (n <= N)%nat.
Variables t D t_hat : nat -> R.
Hypothesis scores_known : forall p, Rabs (t_hat p - t p) <= D p.

Notation rows := (rows n).
Notation all := (all N).

Lemma band_C k x : (k <= h_s E + L E)%nat -> band (u E) 0 k x -> / C E <= x <= C E.
Proof.
  destruct sanity. intros Hk Bx.
  apply (band_weaken (u E) 0 ltac:(lra) ltac:(lra) k (h_s E + L E) x Hk) in Bx.
  destruct Bx as [Lo Up]. unfold C. rewrite Rinv_inv. split; [lra|].
  pose proof (pow_plus_le_inv (u E) (h_s E + L E) ltac:(lra)). lra.
Qed.

Lemma F_large k : (k <= 1 + h_v E + L E + g E)%nat -> (1 + u_P E) * (1 + u_v E) * (1 + u E) ^ k <= F E.
Proof.
  destruct sanity. intros Hk. unfold F.
  pose proof (pow_plus_le_inv (u E) (1 + h_v E + L E + g E) ltac:(lra)) as X.
  pose proof (inv_minus (u_P E) ltac:(lra)) as XP. pose proof (inv_minus (u_v E) ltac:(lra)) as Xv.
  assert (Y : (1 + u E) ^ k <= / (1 - u E) ^ (1 + h_v E + L E + g E)).
  { eapply Rle_trans; [|exact X]. apply pow_up; [lra|exact Hk]. }
  rewrite !Rinv_mult. replace ((1 + u_P E) * (1 + u_v E) * (1 + u E) ^ k)
    with ((1 + u E) ^ k * (1 + u_P E) * (1 + u_v E)) by ring.
  assert (0 <= (1 + u E) ^ k) by (apply pow_le; lra).
  repeat apply Rmult_le_compat; try lra. apply Rmult_le_pos; lra.
Qed.

Lemma F_ge_1 : 1 <= F E.
Proof.
  destruct sanity. eapply Rle_trans; [|apply (F_large 0); lia]. simpl. nra.
Qed.

Lemma band_F k x d : (k <= 1 + h_v E + L E + g E)%nat -> Rabs d <= u_v E -> band (u E) (u_P E) k x ->
  / F E <= (1 + d) * x <= F E.
Proof.
  destruct sanity. intros Hk Hd Bx.
  pose proof (band_pos (u E) (u_P E) ltac:(lra) ltac:(lra) k x Bx) as x0.
  destruct Bx as [Lo Up]. apply abs_le_split in Hd. split.
  - unfold F. rewrite Rinv_inv.
    assert (X : (1 - u E) ^ (1 + h_v E + L E + g E) <= (1 - u E) ^ k) by (apply pow_down; [lra|exact Hk]).
    assert (0 < (1 - u E) ^ (1 + h_v E + L E + g E)) by (apply pow_pos; lra).
    rewrite (Rmult_comm (1 + d)). apply Rmult_le_compat; try lra.
    + apply Rmult_le_pos; lra.
    + eapply Rle_trans; [|exact Lo]. rewrite Rmult_comm. apply Rmult_le_compat_l; lra.
  - eapply Rle_trans; [|apply (F_large k Hk)].
    replace ((1 + u_P E) * (1 + u_v E) * (1 + u E) ^ k) with ((1 + u_v E) * ((1 + u_P E) * (1 + u E) ^ k)) by ring.
    apply Rmult_le_compat; lra.
Qed.

Lemma reference_low m p : In p all -> m = t_hat p -> m <= m_plus N t D.
Proof.
  intros I ->. pose proof (scores_known p) as X. apply abs_le_split in X.
  pose proof (maximum_ge all (fun p => t p + D p) p I) as M. unfold m_plus. lra.
Qed.

Lemma reference_high m : (forall p, In p rows -> t_hat p <= m) -> m_minus n t D <= m.
Proof.
  intros A. unfold m_minus. apply maximum_le.
  - unfold Bound.rows. destruct n; [lia|easy].
  - intros p I. specialize (A p I). pose proof (scores_known p) as X. apply abs_le_split in X. lra.
Qed.

Lemma exponent_within m p L' : m <= m_plus N t D -> t_hat p <= m -> (L' <= L E)%nat ->
  exponent_error (u E) (lambda_add E) (epsilon E) D t_hat L' m p <= B E n N t D p.
Proof.
  destruct sanity. intros Hm Hp HL.
  eapply Rle_trans; [apply (exponent_error_weaken (u E) (lambda_add E) (epsilon E)) with (L' := L E); auto|].
  unfold exponent_error, B, epsilon'. pose proof (scores_known p) as X. apply abs_le_split in X.
  pose proof (Rmax_l (m_plus N t D - t p) (t p - m_minus n t D)).
  assert (u E * (m - t_hat p) <= u E * (Rmax (m_plus N t D - t p) (t p - m_minus n t D) + D p))
    by (apply Rmult_le_compat_l; lra).
  lra.
Qed.

Lemma finished_form x den y : finished E x den y ->
  exists a r, band (u E) 0 (g E) a /\ Rabs r <= lambda E /\ y = x / den * a + r.
Proof.
  destruct sanity. assert (Z : 0 <= 0 < 1) by lra.
  intros [(G1 & d & e & Hd & He & ->)|(G2 & i & (d1 & e1 & Hd1 & He1 & ->) & (d & e & Hd & He & ->))].
  - exists (1 * (1 + d)), e. rewrite G1. repeat split; auto; try ring;
      apply (band_step (u E) 0 sane_u Z 0 1 d Hd), (band_one (u E) 0 Z).
  - assert (e1 = 0) as -> by (apply abs_le_split in He1; lra).
    exists (1 * (1 + d1) * (1 + d)), e. rewrite G2. repeat split; auto.
    1, 2: apply (band_step (u E) 0 sane_u Z 1 _ d Hd), (band_step (u E) 0 sane_u Z 0 1 d1 Hd1), (band_one (u E) 0 Z).
    unfold Rdiv. ring.
Qed.

(* A denominator in the form that Share.v takes. *)
Lemma denominator_form m den : m <= m_plus N t D -> (forall p, In p rows -> t_hat p <= m) ->
  denominator E n N t_hat m den ->
  exists b c Es, (forall p, In p all -> Rabs (b p) <= B E n N t D p) /\
    (forall p, In p all -> / C E <= c p <= C E) /\
    den = sum all (fun p => exp (t p - m + b p) * c p) + Es /\ Rabs Es <= Delta E N.
Proof.
  intros Hm Hrows. pose proof sanity as sanity'. destruct sanity'. assert (Z : 0 <= 0 < 1) by lra.
  assert (Stray : forall l h L', (length l <= N)%nat -> (1 <= length l)%nat -> (h <= h_s E)%nat -> (L' <= L E)%nat ->
    stray (u E) (lambda E) (lambda_add E) (epsilon E) (omega E) 0 0 (fun _ => 1) l h L' <=
    (1 + u E) ^ (h + L E) * G E * (INR (length l) * (INR (S (L E)) * omega E) +
       (INR (length l) * (INR (S (L E)) * lambda E) + (INR (length l) - 1) * lambda_add E))).
  { intros l h L' HlN Hl1 Hh HL'.
    eapply Rle_trans; [apply stray_weaken with (h' := h) (L' := L E); auto; lra|].
    unfold stray, gamma, loss, reach, budget, G. rewrite (sum_ext l _ (fun _ => 1)), sum_const by (intros; apply Rabs_R1).
    right. ring. }
  assert (Q0 : 1 <= G E) by (unfold G; apply pow_ge_1; lra).
  assert (S0 : 1 <= INR (S (L E))) by (apply one_le; lia).
  intros [(l & h & L' & Pl & Hh & HL' & A)|(EN & l & h & L' & x & e & Pl & Hh & HL' & A & W & R)].
  - assert (ND : NoDup l) by (eapply Permutation_NoDup; [symmetry; exact Pl|apply seq_NoDup]).
    pose proof (nonempty _ _ _ _ _ _ _ _ _ _ _ _ _ _ A) as Hl1.
    assert (Hlen : length l = N) by (rewrite (Permutation_length Pl); apply seq_length).
    apply (accumulated_approximates (u E) (lambda E) (lambda_add E) (epsilon E) (omega E) 0 0) with (t := t) (D := D) in A; auto; try lra.
    destruct A as (b & f & M & Bb & _ & Bf & Err).
    assert (In' : forall p, In p all -> In p l) by (intros p I; eapply Permutation_in; [symmetry; exact Pl|exact I]).
    exists b, f, (den - sum all (fun p => exp (t p - m + b p) * f p)). repeat split.
    + intros p I. eapply Rle_trans; [apply Bb; auto|]. apply exponent_within; auto.
    + apply (band_C (h + L')); [lia|auto].
    + apply (band_C (h + L')); [lia|auto].
    + ring.
    + rewrite <- (sum_permutation _ _ _ Pl).
      rewrite (sum_ext l _ (fun p => 1 * exp (t p - m + b p) * f p)) by (intros; ring).
      eapply Rle_trans; [exact Err|]. eapply Rle_trans; [apply Stray; auto; lia|]. rewrite Hlen.
      unfold Delta, Lam. assert (N1 : 1 <= INR N) by (apply one_le; lia).
      apply Rmult_le_compat.
      * apply Rmult_le_pos; [apply pow_le|]; lra.
      * repeat apply Rplus_le_le_0_compat; repeat apply Rmult_le_pos; lra.
      * apply Rmult_le_compat_r; [lra|]. apply pow_up; [lra|lia].
      * lra.
  - assert (ND : NoDup l) by (eapply Permutation_NoDup; [symmetry; exact Pl|apply seq_NoDup]).
    pose proof (nonempty _ _ _ _ _ _ _ _ _ _ _ _ _ _ A) as Hl1.
    assert (Hlen : length l = n) by (rewrite (Permutation_length Pl); apply seq_length).
    apply (accumulated_approximates (u E) (lambda E) (lambda_add E) (epsilon E) (omega E) 0 0) with (t := t) (D := D) in A; auto; try lra.
    destruct A as (b & f & M & Bb & _ & Bf & Err).
    destruct (weight_form (u E) (lambda_add E) (epsilon E) (omega E) sane_epsilon sane_omega (t n) (D n) (t_hat n) m e (scores_known n) W)
      as (bs & ws & Hbs & Hws & ->).
    set (X := sum l (fun p => 1 * exp (t p - m + b p) * f p)) in *.
    apply rounds_error with (z := X + exp (t n - m + bs)) (err := stray (u E) (lambda E) (lambda_add E) (epsilon E) (omega E) 0 0 (fun _ => 1) l h L' + omega E) in R; [|lra|].
    2:{ replace (x + (exp (t n - m + bs) + ws) - (X + exp (t n - m + bs))) with ((x - X) + ws) by ring.
        eapply Rle_trans; [apply Rabs_triang|]. lra. }
    destruct R as (d & Hd & Err').
    assert (In' : forall p, In p rows -> In p l) by (intros p I; eapply Permutation_in; [symmetry; exact Pl|exact I]).
    assert (Parts : all = rows ++ [n]) by (unfold Bound.all, Bound.rows; rewrite EN, seq_S; reflexivity).
    assert (New : ~ In n rows) by (unfold Bound.rows; rewrite in_seq; lia).
    exists (join rows b (fun _ => bs)), (join rows (fun p => f p * (1 + d)) (fun _ => 1 * (1 + d))),
      (den - (X + exp (t n - m + bs)) * (1 + d)).
    assert (Bd : forall p, In p all -> (In p rows \/ p = n)).
    { intros p I. rewrite Parts in I. apply in_app_or in I. destruct I as [I|[<-|[]]]; auto. }
    repeat split.
    + intros p I. destruct (Bd p I) as [Ir| ->].
      * rewrite join_left by assumption. eapply Rle_trans; [apply Bb; auto|]. apply exponent_within; auto.
      * rewrite join_right by assumption. eapply Rle_trans; [exact Hbs|]. unfold B, epsilon'.
        pose proof (scores_known n) as Xn. apply abs_le_split in Xn. pose proof (reference_high m Hrows).
        pose proof (Rmax_l (m_plus N t D - t n) (t n - m_minus n t D)).
        pose proof (Rmax_r (m_plus N t D - t n) (t n - m_minus n t D)).
        assert (Rabs (t_hat n - m) <= Rmax (m_plus N t D - t n) (t n - m_minus n t D) + D n) by (apply abs_le_join; lra).
        assert (u E * Rabs (t_hat n - m) <= u E * (Rmax (m_plus N t D - t n) (t n - m_minus n t D) + D n))
          by (apply Rmult_le_compat_l; lra).
        pose proof (epsilon'_nonneg (epsilon E) sane_epsilon) as e0. unfold epsilon' in e0.
        assert (1 * (epsilon E / (1 - epsilon E) + lambda_add E) <= INR (S (L E)) * (epsilon E / (1 - epsilon E) + lambda_add E))
          by (apply Rmult_le_compat_r; lra).
        lra.
    + destruct (Bd p H) as [Ir| ->]; [rewrite join_left by assumption|rewrite join_right by assumption].
      * apply (band_C (S (h + L'))); [lia|]. apply (band_step (u E) 0 sane_u Z); auto.
      * apply (band_C 1); [lia|]. apply (band_step (u E) 0 sane_u Z 0 1 d Hd), (band_one (u E) 0 Z).
    + destruct (Bd p H) as [Ir| ->]; [rewrite join_left by assumption|rewrite join_right by assumption].
      * apply (band_C (S (h + L'))); [lia|]. apply (band_step (u E) 0 sane_u Z); auto.
      * apply (band_C 1); [lia|]. apply (band_step (u E) 0 sane_u Z 0 1 d Hd), (band_one (u E) 0 Z).
    + rewrite Parts, sum_app. cbn [sum]. rewrite !join_right by assumption.
      rewrite (sum_ext rows _ (fun p => 1 * exp (t p - m + b p) * f p * (1 + d))).
      2:{ intros p I. rewrite !join_left by assumption. ring. }
      rewrite sum_scale_r, <- (sum_permutation _ _ _ Pl). fold X. ring.
    + eapply Rle_trans; [exact Err'|].
      pose proof (Stray l h L' ltac:(lia) Hl1 ltac:(lia) HL') as St. rewrite Hlen in St.
      unfold Delta, Lam. rewrite EN, (S_INR n). set (s := INR (S (L E))) in *. set (k := INR n) in *.
      assert (k1 : 1 <= k) by (apply one_le; lia).
      set (Y := (1 + u E) ^ (h + L E)) in *.
      assert (Y1 : 1 <= Y) by (apply pow_ge_1; lra).
      assert (YS : Y * (1 + u E) <= (1 + u E) ^ (h_s E + L E)).
      { unfold Y. rewrite Rmult_comm. change ((1 + u E) * (1 + u E) ^ (h + L E)) with ((1 + u E) ^ S (h + L E)). apply pow_up; [lra|lia]. }
      set (I0 := k * (s * omega E) + (k * (s * lambda E) + (k - 1) * lambda_add E)) in *.
      assert (I00 : 0 <= I0) by (unfold I0; repeat apply Rplus_le_le_0_compat; repeat apply Rmult_le_pos; lra).
      assert (YG : 1 <= Y * (1 + u E) * G E).
      { assert (1 <= Y * (1 + u E)) by nra. nra. }
      apply Rle_trans with (Y * (1 + u E) * G E * (I0 + omega E + lambda_add E)).
      * assert (omega E * (1 + u E) <= Y * (1 + u E) * G E * omega E).
        { replace (Y * (1 + u E) * G E * omega E) with (omega E * (1 + u E) * (Y * G E)) by ring.
          rewrite <- (Rmult_1_r (omega E * (1 + u E))) at 1. apply Rmult_le_compat_l; [apply Rmult_le_pos; lra|]. nra. }
        assert (lambda_add E <= Y * (1 + u E) * G E * lambda_add E).
        { rewrite <- (Rmult_1_l (lambda_add E)) at 1. apply Rmult_le_compat_r; lra. }
        assert (stray (u E) (lambda E) (lambda_add E) (epsilon E) (omega E) 0 0 (fun _ => 1) l h L' * (1 + u E) <= Y * G E * I0 * (1 + u E))
          by (apply Rmult_le_compat_r; lra).
        lra.
      * apply Rmult_le_compat.
        -- apply Rmult_le_pos; [apply Rmult_le_pos|]; lra.
        -- lra.
        -- apply Rmult_le_compat_r; lra.
        -- unfold I0. assert (0 <= (s - 1) * omega E) by (apply Rmult_le_pos; lra).
           assert (0 <= s * lambda E) by (apply Rmult_le_pos; lra). lra.
Qed.
End Attention.

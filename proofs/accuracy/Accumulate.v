(* Layer 4: an accumulator of weighted values. Its terms may come in any order, each with the reference of its moment; a
   greater reference rescales what there is. So two-pass sums, online softmax with any tiles in any order, and partial
   results that are merged, are all trees of the same few steps. *)
From Coq Require Import Reals Lra Lia List Permutation.
From KvAccuracy Require Import Sums Rounding Weight.
Import ListNotations.
Open Scope R_scope.

Section Accumulate.
Variables u lambda lambda_add epsilon omega u_P lambda_P : R.
Hypothesis Hu : 0 <= u < 1.
Hypothesis Hlambda : 0 <= lambda.
Hypothesis Hadd : 0 <= lambda_add.
Hypothesis Heps : 0 <= epsilon < 1.
Hypothesis Homega : 0 <= omega.
Hypothesis HuP : 0 <= u_P < 1.
Hypothesis HlP : 0 <= lambda_P.

Variables t D t_hat v : nat -> R.   (* real scores, what the computed ones may be off by, the computed ones, values *)
Hypothesis scores_known : forall p, Rabs (t_hat p - t p) <= D p.

(* A weight at reference m, cast to a narrower type where u_P, lambda_P say so. *)
Definition cast_weight (p : nat) (m e' : R) : Prop :=
  t_hat p <= m /\ exists e, weight_below u lambda_add epsilon omega (t_hat p) m e /\ rounds u_P lambda_P e e'.

(* accumulated l h L m y: y is what some order of operations gives for the sum over l of v_p * exp (t_p - m). No term meets
   more than h roundings of products and sums, nor more than L rescalings. *)
Inductive accumulated : list nat -> nat -> nat -> R -> R -> Prop :=
| a_term p m e : v p = 1 -> cast_weight p m e -> accumulated [p] 0 0 m e
| a_product p m e y : cast_weight p m e -> rounds u lambda (e * v p) y -> accumulated [p] 1 0 m y
| a_fma p l h L m x e y : accumulated l h L m x -> cast_weight p m e -> rounds u lambda (e * v p + x) y ->
    accumulated (p :: l) (S h) L m y
| a_add l1 l2 h1 h2 L1 L2 m x y z : accumulated l1 h1 L1 m x -> accumulated l2 h2 L2 m y ->
    rounds u lambda_add (x + y) z -> accumulated (l1 ++ l2) (S (Nat.max h1 h2)) (Nat.max L1 L2) m z
| a_rescale l h L m m' x a y : accumulated l h L m x -> m <= m' ->
    weight_below u lambda_add epsilon omega m m' a -> rounds u lambda (x * a) y ->
    accumulated l h (S L) m' y.

Definition gamma : R := 1 + epsilon + omega.
Definition loss : R := omega + lambda_P.
Definition budget (n : nat) (L : nat) : R := INR n * (INR (S L) * lambda) + (INR n - 1) * lambda_add.
Definition reach (l : list nat) : R := sum l (fun p => Rabs (v p)).
Definition stray (l : list nat) (h L : nat) : R :=
  (1 + u_P) * (1 + u) ^ (h + L) * gamma ^ L * (INR (S L) * loss * reach l + budget (length l) L).
Definition exponent_error (L : nat) (m : R) (p : nat) : R :=
  D p + u * (m - t_hat p) + INR (S L) * (epsilon' epsilon + lambda_add).

Definition approximates (l : list nat) (h L : nat) (m y : R) : Prop :=
  exists b f,
    (forall p, In p l -> t_hat p <= m) /\
    (forall p, In p l -> Rabs (b p) <= exponent_error L m p) /\
    (forall p, In p l -> exp (t p - m + b p) <= (1 + epsilon) ^ S L) /\
    (forall p, In p l -> band u u_P (h + L) (f p)) /\
    Rabs (y - sum l (fun p => v p * exp (t p - m + b p) * f p)) <= stray l h L.

Lemma nonempty l h L m y : accumulated l h L m y -> (1 <= length l)%nat.
Proof. induction 1; simpl; rewrite ?app_length; lia. Qed.

Lemma reach_nonneg l : 0 <= reach l.
Proof. apply sum_nonneg. intros. apply Rabs_pos. Qed.

Lemma gamma_ge : 1 <= gamma.
Proof. unfold gamma. lra. Qed.

Lemma loss_nonneg : 0 <= loss.
Proof. unfold loss. lra. Qed.

Lemma one_le n : (1 <= n)%nat -> 1 <= INR n.
Proof. intros H. change 1 with (INR 1). apply le_INR, H. Qed.

Lemma budget_nonneg n L : (1 <= n)%nat -> 0 <= budget n L.
Proof.
  intros H. pose proof (one_le n H). unfold budget.
  apply Rplus_le_le_0_compat; [|apply Rmult_le_pos; lra].
  repeat apply Rmult_le_pos; try apply pos_INR; lra.
Qed.

Lemma inner_nonneg l L : (1 <= length l)%nat -> 0 <= INR (S L) * loss * reach l + budget (length l) L.
Proof.
  intros H. apply Rplus_le_le_0_compat; [|now apply budget_nonneg].
  repeat apply Rmult_le_pos; [apply pos_INR|apply loss_nonneg|apply reach_nonneg].
Qed.

Lemma stray_weaken l h h' L L' : (1 <= length l)%nat -> (h <= h')%nat -> (L <= L')%nat ->
  stray l h L <= stray l h' L'.
Proof.
  intros N Hh HL. unfold stray. pose proof gamma_ge. pose proof (inner_nonneg l L N).
  assert (HS : INR (S L) <= INR (S L')) by (apply le_INR; lia).
  apply Rmult_le_compat; auto.
  - repeat apply Rmult_le_pos; try apply pow_le; lra.
  - apply Rmult_le_compat; try (apply pow_le; lra).
    + apply Rmult_le_pos; [lra|apply pow_le; lra].
    + apply Rmult_le_compat_l; [lra|]. apply pow_up; [lra|lia].
    + apply pow_up; [lra|lia].
  - apply Rplus_le_compat.
    + apply Rmult_le_compat_r; [apply reach_nonneg|]. apply Rmult_le_compat_r; [apply loss_nonneg|exact HS].
    + unfold budget. apply Rplus_le_compat_r, Rmult_le_compat_l; [apply pos_INR|].
      apply Rmult_le_compat_r; assumption.
Qed.

Lemma exponent_error_weaken L L' m p : (L <= L')%nat -> exponent_error L m p <= exponent_error L' m p.
Proof.
  intros HL. unfold exponent_error. apply Rplus_le_compat_l, Rmult_le_compat_r.
  - pose proof (epsilon'_nonneg epsilon Heps). lra.
  - apply le_INR. lia.
Qed.

(* A leaf. *)
Lemma cast_weight_form p m e' : cast_weight p m e' ->
  t_hat p <= m /\ exists b c w, Rabs b <= exponent_error 0 m p /\ exp (t p - m + b) <= 1 + epsilon /\
    Rabs c <= u_P /\ Rabs w <= (1 + u_P) * loss /\ e' = exp (t p - m + b) * (1 + c) + w.
Proof.
  intros (Hm & e & W & (c & x & Hc & Hx & ->)). split; [exact Hm|].
  destruct (weight_below_form u lambda_add epsilon omega Heps Homega (t p) (D p) (t_hat p) m e
              (scores_known p) Hm W) as (b & w & Hb & E1 & Hw & ->).
  exists b, c, (w * (1 + c) + x). repeat split; auto.
  - unfold exponent_error. simpl. lra.
  - eapply Rle_trans; [apply Rabs_triang|]. rewrite Rabs_mult. unfold loss.
    assert (Rabs (1 + c) <= 1 + u_P) by (apply abs_le_split in Hc; apply abs_le_join; lra).
    assert (Rabs w * Rabs (1 + c) <= omega * (1 + u_P)) by (apply Rmult_le_compat; auto using Rabs_pos).
    nra.
  - ring.
Qed.

Lemma approximates_weaken l h h' L m y : (1 <= length l)%nat -> (h <= h')%nat ->
  approximates l h L m y -> approximates l h' L m y.
Proof.
  intros N Hh (b & f & M & B & X & F & E). exists b, f. split; [|split; [|split; [|split]]]; auto.
  - intros p I. apply (band_weaken u u_P Hu HuP (h + L) (h' + L)); [lia|auto].
  - eapply Rle_trans; [exact E|]. apply stray_weaken; auto.
Qed.

Lemma approx_product p m e y eta (k : nat) : cast_weight p m e -> 0 <= eta -> eta <= lambda ->
  (k = 0%nat /\ y = e * v p \/ k = 1%nat /\ rounds u eta (e * v p) y) -> approximates [p] k 0 m y.
Proof.
  intros W He0 He Hy. destruct (cast_weight_form p m e W) as (Hm & b & c & w & Hb & X & Hc & Hw & ->).
  pose proof loss_nonneg as L0. pose proof (Rabs_pos (v p)) as V0.
  assert (G : Rabs (w * v p) <= (1 + u_P) * loss * Rabs (v p))
    by (rewrite Rabs_mult; apply Rmult_le_compat_r; assumption).
  assert (ER : reach [p] = Rabs (v p)) by (unfold reach; simpl; ring).
  assert (P0 : 0 <= loss * Rabs (v p)) by (apply Rmult_le_pos; assumption).
  destruct Hy as [[-> ->]|[-> R]].
  - exists (fun _ => b), (fun _ => 1 + c).
    split; [|split; [|split; [|split]]]; try (intros q [<-|[]]; simpl; try rewrite Rmult_1_r; auto; fail).
    + intros q [<-|[]]. apply (band_start u u_P c Hc).
    + unfold stray, budget. rewrite ER. simpl.
      replace ((exp (t p - m + b) * (1 + c) + w) * v p - (v p * exp (t p - m + b) * (1 + c) + 0)) with (w * v p) by ring.
      assert (0 <= (1 + u_P) * lambda) by (apply Rmult_le_pos; lra). nra.
  - destruct R as (d & r & Hd & Hr & ->).
    exists (fun _ => b), (fun _ => (1 + c) * (1 + d)).
    split; [|split; [|split; [|split]]]; try (intros q [<-|[]]; simpl; try rewrite Rmult_1_r; auto; fail).
    + intros q [<-|[]]. apply (band_step u u_P Hu HuP 0 (1 + c) d Hd), (band_start u u_P c Hc).
    + unfold stray, budget. rewrite ER. simpl.
      replace ((exp (t p - m + b) * (1 + c) + w) * v p * (1 + d) + r - (v p * exp (t p - m + b) * ((1 + c) * (1 + d)) + 0))
        with (w * v p * (1 + d) + r) by ring.
      eapply Rle_trans; [apply Rabs_triang|]. rewrite (Rabs_mult (w * v p)).
      assert (Rabs (1 + d) <= 1 + u) by (apply abs_le_split in Hd; apply abs_le_join; lra).
      assert (Rabs (w * v p) * Rabs (1 + d) <= (1 + u_P) * loss * Rabs (v p) * (1 + u))
        by (apply Rmult_le_compat; auto using Rabs_pos).
      assert (1 <= (1 + u_P) * (1 + u)) by nra.
      assert (lambda <= (1 + u_P) * (1 + u) * lambda) by nra. lra.
Qed.

(* A sum: of two accumulators, or of an accumulator and a new product that is fused into it. *)
Lemma approx_add l1 l2 h1 h2 L1 L2 m x y z eta : NoDup (l1 ++ l2) ->
  (1 <= length l1)%nat -> (1 <= length l2)%nat ->
  approximates l1 h1 L1 m x -> approximates l2 h2 L2 m y ->
  0 <= eta -> eta <= lambda_add -> rounds u eta (x + y) z ->
  approximates (l1 ++ l2) (S (Nat.max h1 h2)) (Nat.max L1 L2) m z.
Proof.
  intros ND N1 N2 (b1 & f1 & M1 & B1 & X1 & F1 & E1) (b2 & f2 & M2 & B2 & X2 & F2 & E2) He0 He R.
  apply nodup_parts in ND. destruct ND as (_ & _ & Dis).
  set (h := Nat.max h1 h2). set (L := Nat.max L1 L2).
  pose proof (stray_weaken l1 h1 h L1 L N1 ltac:(lia) ltac:(lia)) as S1.
  pose proof (stray_weaken l2 h2 h L2 L N2 ltac:(lia) ltac:(lia)) as S2.
  set (X := sum l1 (fun p => v p * exp (t p - m + b1 p) * f1 p)) in *.
  set (Y := sum l2 (fun p => v p * exp (t p - m + b2 p) * f2 p)) in *.
  apply rounds_error with (z := X + Y) (err := stray l1 h L + stray l2 h L) in R; [|lra|].
  2:{ replace (x + y - (X + Y)) with ((x - X) + (y - Y)) by ring.
      eapply Rle_trans; [apply Rabs_triang|]. lra. }
  destruct R as (d & Hd & E).
  exists (join l1 b1 b2), (join l1 (fun p => f1 p * (1 + d)) (fun p => f2 p * (1 + d))).
  assert (Side : forall p, In p (l1 ++ l2) -> In p l1 \/ (~ In p l1 /\ In p l2)).
  { intros p I. destruct (in_dec Nat.eq_dec p l1); [now left|]. right. split; [assumption|].
    apply in_app_or in I. tauto. }
  assert (Pow : forall k, (k <= L)%nat -> (1 + epsilon) ^ S k <= (1 + epsilon) ^ S L).
  { intros k Hk. apply pow_up; [lra|lia]. }
  split; [|split; [|split; [|split]]].
  - intros p I. destruct (Side p I) as [I1|[_ I2]]; auto.
  - intros p I. destruct (Side p I) as [I1|[I1 I2]]; [rewrite join_left by assumption|rewrite join_right by assumption];
      (eapply Rle_trans; [first [now apply B1|now apply B2]|]); apply exponent_error_weaken; lia.
  - intros p I. destruct (Side p I) as [I1|[I1 I2]]; [rewrite join_left by assumption|rewrite join_right by assumption].
    + eapply Rle_trans; [now apply X1|]. apply Pow. lia.
    + eapply Rle_trans; [now apply X2|]. apply Pow. lia.
  - intros p I. destruct (Side p I) as [I1|[I1 I2]]; [rewrite join_left by assumption|rewrite join_right by assumption];
      simpl; apply (band_step u u_P Hu HuP); auto.
    + apply (band_weaken u u_P Hu HuP (h1 + L1)); [lia|auto].
    + apply (band_weaken u u_P Hu HuP (h2 + L2)); [lia|auto].
  - rewrite sum_app.
    rewrite (sum_ext l1 _ (fun p => v p * exp (t p - m + b1 p) * f1 p * (1 + d))).
    2:{ intros p I. rewrite !join_left by assumption. ring. }
    rewrite (sum_ext l2 _ (fun p => v p * exp (t p - m + b2 p) * f2 p * (1 + d))).
    2:{ intros p I. rewrite !join_right by now apply Dis. ring. }
    rewrite !sum_scale_r. fold X Y. rewrite <- Rmult_plus_distr_r.
    eapply Rle_trans; [exact E|]. unfold stray. fold L.
    unfold reach, budget. rewrite sum_app, app_length, plus_INR.
    cbn [Nat.add pow]. set (a1 := sum l1 _). set (a2 := sum l2 _).
    set (n1 := INR (length l1)). set (n2 := INR (length l2)).
    set (Z := (1 + u_P) * (1 + u) ^ (h + L) * gamma ^ L).
    assert (Z1 : 1 <= Z * (1 + u)).
    { pose proof gamma_ge. assert (1 <= gamma ^ L) by (apply pow_ge_1; lra).
      assert (1 <= (1 + u) ^ (h + L)) by (apply pow_ge_1; lra).
      assert (1 <= (1 + u_P) * (1 + u) ^ (h + L)) by nra. assert (1 <= Z) by (unfold Z; nra). nra. }
    replace ((1 + u_P) * ((1 + u) * (1 + u) ^ (h + L)) * gamma ^ L) with (Z * (1 + u)) by (unfold Z; ring).
    assert (eta <= Z * (1 + u) * lambda_add) by nra. lra.
Qed.

Lemma approx_fma p l h L m x e y : NoDup (p :: l) -> (1 <= length l)%nat ->
  approximates l h L m x -> cast_weight p m e -> rounds u lambda (e * v p + x) y ->
  approximates (p :: l) (S h) L m y.
Proof.
  intros ND N A W R. destruct A as (b & f & M & B & X & F & E).
  destruct (cast_weight_form p m e W) as (Hm & bp & c & w & Hb & Xp & Hc & Hw & ->).
  inversion_clear ND as [|? ? NI _].
  assert (NE : forall q, In q l -> ~ In q [p]) by (intros q I [<-|[]]; contradiction).
  set (X0 := sum l (fun p => v p * exp (t p - m + b p) * f p)) in *.
  set (T0 := v p * exp (t p - m + bp) * (1 + c)).
  assert (G : Rabs (w * v p) <= (1 + u_P) * loss * Rabs (v p))
    by (rewrite Rabs_mult; apply Rmult_le_compat_r; [apply Rabs_pos|exact Hw]).
  apply rounds_error with (z := T0 + X0) (err := (1 + u_P) * loss * Rabs (v p) + stray l h L) in R; [|lra|].
  2:{ replace ((exp (t p - m + bp) * (1 + c) + w) * v p + x - (T0 + X0)) with (w * v p + (x - X0)) by (unfold T0; ring).
      eapply Rle_trans; [apply Rabs_triang|]. lra. }
  destruct R as (d & Hd & E').
  exists (join [p] (fun _ => bp) b), (join [p] (fun _ => (1 + c) * (1 + d)) (fun q => f q * (1 + d))).
  assert (Bp : band u u_P (S h + L) ((1 + c) * (1 + d))).
  { apply (band_weaken u u_P Hu HuP 1); [lia|].
    apply (band_step u u_P Hu HuP 0 (1 + c) d Hd), (band_start u u_P c Hc). }
  split; [|split; [|split; [|split]]].
  - intros q [<-|I]; auto.
  - intros q [<-|I].
    + rewrite join_left by now left. eapply Rle_trans; [exact Hb|]. apply exponent_error_weaken; lia.
    + rewrite join_right by now apply NE. auto.
  - intros q [<-|I].
    + rewrite join_left by now left. eapply Rle_trans; [exact Xp|].
      rewrite <- (pow_1 (1 + epsilon)) at 1. apply pow_up; [lra|lia].
    + rewrite join_right by now apply NE. auto.
  - intros q [<-|I]; [rewrite join_left; [apply Bp|now left]|].
    rewrite join_right by now apply NE. apply (band_step u u_P Hu HuP (h + L)); auto.
  - cbn [sum]. rewrite !join_left by now left.
    rewrite (sum_ext l _ (fun q => v q * exp (t q - m + b q) * f q * (1 + d))).
    2:{ intros q I. rewrite !join_right by now apply NE. ring. }
    rewrite sum_scale_r. fold X0.
    replace (v p * exp (t p - m + bp) * ((1 + c) * (1 + d)) + X0 * (1 + d)) with ((T0 + X0) * (1 + d)) by (unfold T0; ring).
    eapply Rle_trans; [exact E'|]. unfold stray, reach, budget. cbn [sum length Nat.add pow].
    set (a := sum l _). rewrite (S_INR (length l)). set (n := INR (length l)).
    set (Z := (1 + u_P) * (1 + u) ^ (h + L) * gamma ^ L).
    replace ((1 + u_P) * ((1 + u) * (1 + u) ^ (h + L)) * gamma ^ L) with (Z * (1 + u)) by (unfold Z; ring).
    assert (ZP : 1 + u_P <= Z).
    { pose proof gamma_ge. assert (1 <= gamma ^ L) by (apply pow_ge_1; lra).
      assert (1 <= (1 + u) ^ (h + L)) by (apply pow_ge_1; lra). unfold Z.
      rewrite <- (Rmult_1_r (1 + u_P)) at 1. rewrite Rmult_assoc. apply Rmult_le_compat_l; [lra|]. nra. }
    assert (Z1 : 1 <= Z * (1 + u)) by nra.
    assert (HS : 1 <= INR (S L)) by (apply one_le; lia).
    pose proof loss_nonneg as L0. pose proof (Rabs_pos (v p)) as V0.
    assert (P0 : 0 <= loss * Rabs (v p)) by (apply Rmult_le_pos; assumption).
    assert (Q1 : (1 + u_P) * loss * Rabs (v p) * (1 + u) <= Z * (1 + u) * (INR (S L) * loss * Rabs (v p))).
    { replace ((1 + u_P) * loss * Rabs (v p) * (1 + u)) with ((1 + u_P) * (1 + u) * (1 * (loss * Rabs (v p)))) by ring.
      replace (Z * (1 + u) * (INR (S L) * loss * Rabs (v p))) with (Z * (1 + u) * (INR (S L) * (loss * Rabs (v p)))) by ring.
      apply Rmult_le_compat; [nra|lra|nra|]. apply Rmult_le_compat_r; assumption. }
    assert (Q2 : lambda <= Z * (1 + u) * (INR (S L) * lambda + lambda_add)).
    { assert (lambda <= INR (S L) * lambda + lambda_add) by nra. nra. }
    lra.
Qed.

Lemma approx_rescale l h L m m' x a y : (1 <= length l)%nat -> approximates l h L m x -> m <= m' ->
  weight_below u lambda_add epsilon omega m m' a -> rounds u lambda (x * a) y ->
  approximates l h (S L) m' y.
Proof.
  intros N (b & f & M & B & X & F & E) Hm W (d & r & Hd & Hr & ->).
  destruct (rescale_form u lambda_add epsilon omega Heps Homega m m' a Hm W) as (c & w & Hc & Xc & Hw & ->).
  exists (fun p => b p + c), (fun p => f p * (1 + d)).
  assert (EX : forall p, exp (t p - m' + (b p + c)) = exp (t p - m + b p) * exp (m - m' + c)).
  { intros p. rewrite <- exp_plus. f_equal. ring. }
  set (A := exp (m - m' + c)) in *. assert (A0 : 0 < A) by apply exp_pos.
  split; [|split; [|split; [|split]]].
  - intros p I. specialize (M p I). lra.
  - intros p I. specialize (B p I). unfold exponent_error in *. rewrite (S_INR (S L)).
    eapply Rle_trans; [apply Rabs_triang|]. lra.
  - intros p I. rewrite EX. cbn [pow]. rewrite Rmult_comm.
    apply Rmult_le_compat; auto; try (apply Rlt_le, exp_pos); lra.
  - intros p I. replace (h + S L)%nat with (S (h + L)) by lia. apply (band_step u u_P Hu HuP); auto.
  - rewrite (sum_ext l _ (fun p => v p * exp (t p - m + b p) * f p * (A * (1 + d)))) by (intros p I; rewrite EX; ring).
    rewrite sum_scale_r. set (X0 := sum l (fun p => v p * exp (t p - m + b p) * f p)) in *.
    assert (HX0 : Rabs X0 <= (1 + u_P) * (1 + u) ^ (h + L) * (1 + epsilon) ^ S L * reach l).
    { unfold X0, reach. rewrite <- sum_scale. apply sum_abs_le. intros p I. rewrite !Rabs_mult.
      pose proof (band_abs u u_P Hu HuP _ _ (F p I)) as Bf.
      rewrite (Rabs_right (exp _)) by (apply Rle_ge, Rlt_le, exp_pos).
      specialize (X p I). pose proof (exp_pos (t p - m + b p)). pose proof (Rabs_pos (v p)).
      assert (Rabs (v p) * exp (t p - m + b p) <= Rabs (v p) * (1 + epsilon) ^ S L) by (apply Rmult_le_compat_l; assumption).
      replace ((1 + u_P) * (1 + u) ^ (h + L) * (1 + epsilon) ^ S L * Rabs (v p))
        with (Rabs (v p) * (1 + epsilon) ^ S L * ((1 + u_P) * (1 + u) ^ (h + L))) by ring.
      apply Rmult_le_compat; auto using Rabs_pos. apply Rmult_le_pos; lra. }
    replace (x * (A + w) * (1 + d) + r - X0 * (A * (1 + d)))
      with (((x - X0) * (A + w) + X0 * w) * (1 + d) + r) by ring.
    assert (HA : Rabs (A + w) <= gamma).
    { unfold gamma. apply abs_le_split in Hw. apply abs_le_join. lra. }
    assert (HD : Rabs (1 + d) <= 1 + u) by (apply abs_le_split in Hd; apply abs_le_join; lra).
    eapply Rle_trans; [apply Rabs_triang|]. rewrite Rabs_mult.
    assert (I1 : Rabs ((x - X0) * (A + w) + X0 * w) <=
       stray l h L * gamma + (1 + u_P) * (1 + u) ^ (h + L) * (1 + epsilon) ^ S L * reach l * omega).
    { eapply Rle_trans; [apply Rabs_triang|]. rewrite !Rabs_mult.
      apply Rplus_le_compat; apply Rmult_le_compat; auto using Rabs_pos. }
    eapply Rle_trans; [apply Rplus_le_compat; [apply Rmult_le_compat; [apply Rabs_pos|apply Rabs_pos|exact I1|exact HD]|exact Hr]|].
    unfold stray. replace (h + S L)%nat with (S (h + L)) by lia.
    set (e1 := (1 + epsilon) ^ S L) in *. cbn [pow].
    set (P := (1 + u) ^ (h + L)) in *. set (g := gamma ^ L).
    pose proof gamma_ge as G1. assert (g1 : 1 <= g) by (apply pow_ge_1; lra).
    assert (P1 : 1 <= P) by (apply pow_ge_1; lra).
    assert (e0 : 0 <= e1) by (apply pow_le; lra).
    assert (EG : e1 <= gamma * g).
    { change (gamma * g) with (gamma ^ S L). apply pow_incr. unfold gamma. lra. }
    clearbody e1.
    pose proof (reach_nonneg l) as R0. pose proof loss_nonneg as L0.
    assert (OL : omega <= loss) by (unfold loss; lra).
    set (Z := (1 + u_P) * P * (1 + u) * (gamma * g)).
    replace ((1 + u_P) * ((1 + u) * P) * (gamma * g)) with Z by (unfold Z; ring).
    assert (Z1 : 1 <= Z).
    { unfold Z. assert (1 <= (1 + u_P) * P) by nra. assert (1 <= (1 + u_P) * P * (1 + u)) by nra.
      assert (1 <= gamma * g) by nra. nra. }
    assert (Q : (1 + u_P) * P * e1 * reach l * omega * (1 + u) <= Z * (loss * reach l)).
    { replace ((1 + u_P) * P * e1 * reach l * omega * (1 + u))
        with ((1 + u_P) * P * (1 + u) * e1 * (omega * reach l)) by ring.
      unfold Z. apply Rmult_le_compat.
      - repeat apply Rmult_le_pos; lra.
      - apply Rmult_le_pos; assumption.
      - apply Rmult_le_compat_l; [|exact EG]. repeat apply Rmult_le_pos; lra.
      - apply Rmult_le_compat_r; assumption. }
    unfold budget. rewrite (S_INR (S L)).
    assert (NN : 1 <= INR (length l)) by now apply one_le.
    assert (Q2 : lambda <= Z * (INR (length l) * lambda)).
    { assert (0 <= (INR (length l) - 1) * lambda) by (apply Rmult_le_pos; lra).
      assert (0 <= (Z - 1) * (INR (length l) * lambda)) by (apply Rmult_le_pos; lra). lra. }
    replace (((1 + u_P) * P * g * (INR (S L) * loss * reach l + (INR (length l) * (INR (S L) * lambda) + (INR (length l) - 1) * lambda_add)) * gamma
              + (1 + u_P) * P * e1 * reach l * omega) * (1 + u))
      with (Z * (INR (S L) * loss * reach l + (INR (length l) * (INR (S L) * lambda) + (INR (length l) - 1) * lambda_add))
            + (1 + u_P) * P * e1 * reach l * omega * (1 + u)) by (unfold Z; ring).
    lra.
Qed.

Theorem accumulated_approximates l h L m y : accumulated l h L m y -> NoDup l -> approximates l h L m y.
Proof.
  induction 1 as [p m e V W|p m e y W R|p l h L m x e y A IH W R|l1 l2 h1 h2 L1 L2 m x y z A1 IH1 A2 IH2 R
                 |l h L m m' x a y A IH Hm W R]; intros ND.
  - apply approx_product with e 0; auto; try lra. left. split; [reflexivity|]. rewrite V. ring.
  - apply approx_product with e lambda; auto; lra.
  - inversion_clear ND as [|? ? NI ND']. apply approx_fma with x e; auto.
    + now constructor.
    + eapply nonempty; eassumption.
  - pose proof ND as ND'. apply nodup_parts in ND'. destruct ND' as (N1 & N2 & _).
    apply approx_add with x y lambda_add; eauto using nonempty. lra.
  - eapply approx_rescale; eauto using nonempty.
Qed.
End Accumulate.

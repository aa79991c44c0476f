(* One case for which every hypothesis of the canonical theorem holds at once: two rows, two dimensions, a cap and a sink. So
   the theorem speaks of something. *)
From Coq Require Import Reals ZArith Lra Lia List Arith.
From Flocq Require Import Core.
From KvAccuracy Require Import Sums Rounding Score Weight Accumulate Bound Share Engine Attention Whole Binary32 Lanes Canonical.
Import ListNotations.
Open Scope R_scope.

Definition example : question := {|
  head_dim := 2; visible := 2;
  q := fun j => match j with O => 1 / 2 | _ => 1 / 4 end;
  k := fun p j => match p, j with O, O => 1 / 4 | O, _ => - (1 / 8) | _, O => - (1 / 4) | _, _ => 1 / 2 end;
  v := fun p => match p with O => 1 | _ => - (3 / 2) end;
  scale := 1 / 2; cap := Some 2; sink := Some (1 / 16) |}.

Notation E := (canonical_engine example).
Notation Z0 := (canonical_scoring example).

Lemma lambda32_small : 0 <= lambda32 <= / 1000000000.
Proof. split; [apply lambda32_nonneg|]. unfold lambda32. simpl. lra. Qed.

Lemma tanh_le x : Rabs (tanh x) <= Rabs x.
Proof.
  pose proof (tanh_lipschitz x 0) as H.
  assert (T0 : tanh 0 = 0) by (unfold tanh, sinh; rewrite Ropp_0; field; unfold cosh; rewrite Ropp_0, exp_0; lra).
  rewrite T0 in H. replace (x - 0) with x in H by ring. replace (tanh x - 0) with (tanh x) in H by ring. exact H.
Qed.

Lemma s_small p : (p < 2)%nat -> Rabs (s example p) <= / 20.
Proof.
  intros H. apply abs_le_join. unfold s. destruct p as [|[|p]]; [simpl; lra|simpl; lra|lia].
Qed.

Lemma A_small p : (p < 2)%nat -> 0 <= A example p <= / 2.
Proof.
  intros H. split; [apply sum_nonneg; intros; apply Rabs_pos|].
  unfold A. destruct p as [|[|p]]; [| |lia]; simpl; unfold Rabs; repeat destruct Rcase_abs; lra.
Qed.

Lemma D0_small p : (p < 2)%nat -> 0 <= D0 E Z0 example p <= / 100000.
Proof.
  intros H. pose proof (A_small p H) as [a0 a1]. pose proof lambda32_small as [l0 l1].
  unfold D0, plain_score_error. cbn [scale head_dim example].
  replace (h_q Z0) with 5%nat by reflexivity. replace (r Z0) with 1%nat by reflexivity.
  replace (u_q Z0) with 0 by reflexivity. replace (u_k Z0) with 0 by reflexivity.
  replace (u E) with u32 by reflexivity. replace (lambda E) with lambda32 by reflexivity.
  replace (lambda_add E) with 0 by reflexivity.
  rewrite (Rabs_right (1 / 2)) by lra. set (a := A example p) in *.
  assert (p6 : 1 <= (1 + u32) ^ (5 + 1) <= 1 + / 1000000) by (unfold u32; simpl; lra).
  assert (p5 : 1 <= (1 + u32) ^ 5 <= 2) by (unfold u32; simpl; lra).
  assert (p1 : 1 <= (1 + u32) ^ 1 <= 2) by (unfold u32; simpl; lra).
  set (x := (1 + u32) ^ (5 + 1)) in *. set (y := (1 + u32) ^ 5) in *. set (w := (1 + u32) ^ 1) in *.
  clearbody x y w a. cbn [INR].
  assert (0 <= 1 / 2 * a * ((1 + 0) * (1 + 0) * x - 1) <= / 2 * / 2 * / 1000000).
  { split; [apply Rmult_le_pos; lra|].
    apply Rmult_le_compat; try lra. }
  assert (0 <= (1 / 2 * ((1 + 1) * (lambda32 + 0)) * y + 1 * lambda32) * w <= (/ 1000000000 * 2 + / 1000000000) * 2).
  { assert (0 <= lambda32 * y <= / 1000000000 * 2) by (split; [apply Rmult_le_pos; lra|apply Rmult_le_compat; lra]).
    split; [apply Rmult_le_pos; lra|apply Rmult_le_compat; lra]. }
  lra.
Qed.

Lemma t_small p : (p < 3)%nat -> Rabs (t example p) <= / 10.
Proof.
  intros H. unfold t. destruct (Nat.ltb_spec p (Whole.n example)) as [L|L].
  - unfold Whole.n in L. simpl in L. pose proof (s_small p L) as Hs. unfold capped. cbn [cap example].
    rewrite Rabs_mult, (Rabs_right 2) by lra. pose proof (tanh_le (s example p / 2)) as Ht.
    unfold Rdiv in Ht. rewrite Rabs_mult, (Rabs_right (/ 2)) in Ht by lra. lra.
  - unfold sigma. cbn [sink example]. rewrite Rabs_right; lra.
Qed.

Lemma D_small p : (p < 3)%nat -> 0 <= D E Z0 example p <= / 1000.
Proof.
  intros H. pose proof lambda32_small as [l0 l1]. unfold D.
  destruct (Nat.ltb_spec p (Whole.n example)) as [L|L].
  - unfold Whole.n in L. simpl in L. pose proof (s_small p L) as Hs. pose proof (D0_small p L) as Hd.
    assert (Hc : Rabs (capped example p) <= / 10).
    { pose proof (t_small p H) as Ht. unfold t in Ht. replace (p <? Whole.n example)%nat with true in Ht; [exact Ht|].
      symmetry. now apply Nat.ltb_lt. }
    cbn [cap example]. unfold capped_score_error.
    replace (g_c Z0) with 1%nat by reflexivity. replace (tau Z0) with u32 by reflexivity.
    replace (omega_tanh Z0) with lambda32 by reflexivity.
    replace (u E) with u32 by reflexivity. replace (lambda E) with lambda32 by reflexivity.
    cbn [Nat.sub INR pow]. unfold u32 in *.
    pose proof (Rabs_pos (s example p)). pose proof (Rabs_pos (capped example p)).
    fold example. set (d := D0 E Z0 example p) in *. set (sa := Rabs (s example p)) in *.
    set (ca := Rabs (capped example p)) in *. clearbody d sa ca. lra.
  - unfold D_sigma. replace (r_sigma Z0) with 0%nat by reflexivity. cbn [pow INR].
    pose proof (Rabs_pos (sigma example)). lra.
Qed.

Lemma in_three p : In p (all 3) -> (p < 3)%nat.
Proof. unfold all. rewrite in_seq. lia. Qed.

(* One term is enough: the denominator stays well above what underflows. *)
Lemma floor_positive : 0 < denominator_floor E Z0 example.
Proof.
  unfold denominator_floor. replace (Whole.n example) with 2%nat by reflexivity.
  replace (N example) with 3%nat by reflexivity.
  set (tt := t example). set (DD := D E Z0 example).
  assert (Ht : forall p, (p < 3)%nat -> - / 10 <= tt p <= / 10) by (intros p H; apply abs_le_split, t_small, H).
  assert (HD : forall p, (p < 3)%nat -> 0 <= DD p <= / 1000) by (intros p H; apply D_small, H).
  clearbody tt DD. pose proof lambda32_small as [l0 l1].
  assert (Mp : - / 10 <= m_plus 3 tt DD <= / 5).
  { split.
    - pose proof (maximum_ge (all 3) (fun p => tt p + DD p) 0 (or_introl eq_refl)).
      pose proof (Ht 0%nat ltac:(lia)). pose proof (HD 0%nat ltac:(lia)). unfold m_plus. simpl in *. lra.
    - apply maximum_le; [easy|]. intros p I. apply in_three in I. pose proof (Ht p I). pose proof (HD p I). lra. }
  assert (Mm : - / 5 <= m_minus 2 tt DD <= / 10).
  { split.
    - pose proof (maximum_ge (rows 2) (fun p => tt p - DD p) 0 (or_introl eq_refl)).
      pose proof (Ht 0%nat ltac:(lia)). pose proof (HD 0%nat ltac:(lia)). unfold m_minus. simpl in *. lra.
    - apply maximum_le; [easy|]. intros p I. assert (p < 3)%nat by (unfold rows in I; rewrite in_seq in I; lia).
      pose proof (Ht p H). pose proof (HD p H). lra. }
  assert (HB : forall p, (p < 3)%nat -> B E 2 3 tt DD p <= / 100).
  { intros p H. pose proof (Ht p H). pose proof (HD p H). unfold B.
    replace (u E) with u32 by reflexivity. replace (L E) with 0%nat by reflexivity.
    replace (epsilon E) with u32 by reflexivity. replace (lambda_add E) with 0 by reflexivity. cbn [INR].
    assert (X : Rmax (m_plus 3 tt DD - tt p) (tt p - m_minus 2 tt DD) <= 1) by (apply Rmax_lub; lra).
    assert (Y : 0 <= Rmax (m_plus 3 tt DD - tt p) (tt p - m_minus 2 tt DD)).
    { eapply Rle_trans; [|apply Rmax_l]. pose proof (maximum_ge (all 3) (fun p => tt p + DD p) p) as M.
      assert (In p (all 3)) by (unfold all; rewrite in_seq; lia). specialize (M H2). unfold m_plus. lra. }
    set (x := Rmax _ _) in *. clearbody x.
    assert (u32 / (1 - u32) <= / 1000000) by (unfold u32; lra). unfold u32 in *. lra. }
  unfold S_low. replace (h_s E + L E)%nat with 5%nat by reflexivity.
  assert (HS : 1 / 2 <= Bound.Hw E 2 3 tt DD * S_min 3 tt DD).
  { assert (S0 : 0 < S_min 3 tt DD) by (apply S_min_pos with 2%nat; lia).
    unfold Hw. rewrite <- sum_scale_r.
    assert (Each : forall p, In p (all 3) -> 1 / 2 <= w 3 tt DD p * exp (- B E 2 3 tt DD p) * S_min 3 tt DD).
    { intros p I. apply in_three in I. unfold w.
      replace (exp (tt p - m_plus 3 tt DD) / S_min 3 tt DD * exp (- B E 2 3 tt DD p) * S_min 3 tt DD)
        with (exp (tt p - m_plus 3 tt DD + - B E 2 3 tt DD p)) by (rewrite exp_plus; field; lra).
      pose proof (exp_ge (tt p - m_plus 3 tt DD + - B E 2 3 tt DD p)). pose proof (Ht p I). pose proof (HB p I). lra. }
    eapply Rle_trans; [|apply sum_le, Each]. rewrite sum_const. unfold all. simpl. lra. }
  assert (P5 : / 2 <= (1 - u E) ^ 5) by (change (u E) with u32; unfold u32; simpl; lra).
  assert (De : Delta E 3 <= / 1000000).
  { unfold Delta, G, Lam. replace (h_s E + L E)%nat with 5%nat by reflexivity. replace (L E) with 0%nat by reflexivity.
    replace (omega E) with lambda32 by reflexivity. replace (lambda E) with lambda32 by reflexivity.
    replace (lambda_add E) with 0 by reflexivity. change (u E) with u32. cbn [pow INR]. unfold u32. lra. }
  assert (1 / 2 * / 2 <= (1 - u E) ^ 5 * (Bound.Hw E 2 3 tt DD * S_min 3 tt DD)).
  { rewrite Rmult_comm. apply Rmult_le_compat; lra. }
  lra.
Qed.

Lemma sink_format x : sink example = Some x -> binary32 x.
Proof.
  simpl. intros H. injection H as <-.
  replace (1 / 16) with (bpow radix2 (-4)) by (simpl; lra).
  apply generic_format_bpow. unfold FLT_exp. simpl. lia.
Qed.

Theorem law14_not_vacuous :
  0 < denominator_floor E Z0 example /\
  Rabs (canonical_output example - attention example) <= attention_bound E Z0 example.
Proof.
  split; [apply floor_positive|]. apply law14_canonical_order.
  - simpl. lia.
  - simpl. lia.
  - intros c H. injection H as <-. lra.
  - apply sink_format.
  - apply floor_positive.
Qed.

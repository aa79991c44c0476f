(* The rounding model holds for IEEE binary32 to nearest, ties to even, with gradual underflow (Flocq's FLT format: no
   overflow, which is a hypothesis on the magnitudes). *)
From Coq Require Import Reals ZArith Lra Lia.
From Flocq Require Import Core Relative Plus_error.
From KvAccuracy Require Import Sums Rounding Weight.
Open Scope R_scope.

Global Instance precision_positive : Prec_gt_0 24.
Proof. reflexivity. Qed.

Definition binary32 : R -> Prop := generic_format radix2 (FLT_exp (-149) 24).
Definition rnd : R -> R := round radix2 (FLT_exp (-149) 24) ZnearestE.
Definition u32 : R := / 16777216.                                      (* 2^-24 *)
Definition lambda32 : R := / 2 * bpow radix2 (-149).                   (* 2^-150 *)

Lemma u32_range : 0 <= u32 < 1.
Proof. unfold u32. lra. Qed.

Lemma lambda32_nonneg : 0 <= lambda32.
Proof. unfold lambda32. pose proof (bpow_ge_0 radix2 (-149)). lra. Qed.

Lemma rnd_binary32 x : binary32 (rnd x).
Proof. apply generic_format_round; auto with typeclass_instances. Qed.

Lemma rnd_id x : binary32 x -> rnd x = x.
Proof. apply round_generic; auto with typeclass_instances. Qed.

Lemma zero_binary32 : binary32 0.
Proof. apply generic_format_0. Qed.

Lemma rnd_nonpos x : x <= 0 -> rnd x <= 0.
Proof.
  intros H. rewrite <- (rnd_id 0 zero_binary32). apply round_le; auto with typeclass_instances.
Qed.

Lemma unit_eq : / 2 * bpow radix2 (- (24) + 1) = u32.
Proof. unfold u32. simpl. lra. Qed.

Theorem law14_binary32_rounds x : rounds u32 lambda32 x (rnd x).
Proof.
  destruct (error_N_FLT radix2 (-149) 24 eq_refl (fun x => negb (Z.even x)) x) as (d & e & Hd & He & _ & E).
  exists d, e. rewrite <- unit_eq. repeat split; assumption.
Qed.

Theorem law14_binary32_adds x y : binary32 x -> binary32 y -> rounds u32 0 (x + y) (rnd (x + y)).
Proof.
  intros Hx Hy.
  destruct (FLT_plus_error_N_ex radix2 (-149) 24 (fun x => negb (Z.even x)) x y Hx Hy) as (d & Hd & E).
  exists d, 0. rewrite Rabs_R0. repeat split; [|lra|rewrite Rplus_0_r; exact E].
  eapply Rle_trans; [exact Hd|]. unfold u_ro. rewrite unit_eq.
  pose proof u32_range. unfold Rdiv. rewrite <- (Rmult_1_r u32) at 3.
  apply Rmult_le_compat_l; [lra|]. rewrite <- Rinv_1. apply Rinv_le_contravar; lra.
Qed.

(* A correctly rounded exponential. *)
Theorem law14_binary32_exp x : exp_accurate u32 lambda32 x (rnd (exp x)).
Proof.
  destruct (law14_binary32_rounds (exp x)) as (d & e & Hd & He & ->). unfold exp_accurate.
  pose proof (exp_pos x). replace (exp x * (1 + d) + e - exp x) with (exp x * d + e) by ring.
  eapply Rle_trans; [apply Rabs_triang|]. rewrite Rabs_mult, (Rabs_right (exp x)) by lra.
  apply Rplus_le_compat; [|exact He]. rewrite Rmult_comm. apply Rmult_le_compat_r; lra.
Qed.

(* Finite sums over lists of row numbers, and the few facts about powers that error analysis uses. *)
From Coq Require Import Reals Lra Lia List Permutation.
Import ListNotations.
Open Scope R_scope.

Fixpoint sum (l : list nat) (f : nat -> R) : R :=
  match l with
  | [] => 0
  | p :: rest => f p + sum rest f
  end.

Lemma sum_ext l f g : (forall p, In p l -> f p = g p) -> sum l f = sum l g.
Proof.
  induction l as [|p l IH]; simpl; intros E; [reflexivity|].
  rewrite E, IH; auto.
Qed.

Lemma sum_le l f g : (forall p, In p l -> f p <= g p) -> sum l f <= sum l g.
Proof.
  induction l as [|p l IH]; simpl; intros E; [lra|].
  apply Rplus_le_compat; auto.
Qed.

Lemma sum_plus l f g : sum l (fun p => f p + g p) = sum l f + sum l g.
Proof. induction l as [|p l IH]; simpl; [lra|rewrite IH; lra]. Qed.

Lemma sum_minus l f g : sum l (fun p => f p - g p) = sum l f - sum l g.
Proof. induction l as [|p l IH]; simpl; [lra|rewrite IH; lra]. Qed.

Lemma sum_scale l f c : sum l (fun p => c * f p) = c * sum l f.
Proof. induction l as [|p l IH]; simpl; [lra|rewrite IH; lra]. Qed.

Lemma sum_scale_r l f c : sum l (fun p => f p * c) = sum l f * c.
Proof. induction l as [|p l IH]; simpl; [lra|rewrite IH; lra]. Qed.

Lemma sum_const l c : sum l (fun _ => c) = INR (length l) * c.
Proof.
  induction l as [|p l IH]; [simpl; lra|].
  cbn [sum length]. rewrite IH, S_INR. lra.
Qed.

Lemma sum_abs l f : Rabs (sum l f) <= sum l (fun p => Rabs (f p)).
Proof.
  induction l as [|p l IH]; simpl; [rewrite Rabs_R0; lra|].
  eapply Rle_trans; [apply Rabs_triang|]. lra.
Qed.

Lemma sum_abs_le l f g : (forall p, In p l -> Rabs (f p) <= g p) -> Rabs (sum l f) <= sum l g.
Proof.
  intros E. eapply Rle_trans; [apply sum_abs|]. apply sum_le. exact E.
Qed.

Lemma sum_nonneg l f : (forall p, In p l -> 0 <= f p) -> 0 <= sum l f.
Proof.
  intros E. replace 0 with (sum l (fun _ => 0)) by (rewrite sum_const; lra).
  apply sum_le. exact E.
Qed.

Lemma sum_pos l f : l <> [] -> (forall p, In p l -> 0 < f p) -> 0 < sum l f.
Proof.
  destruct l as [|p l]; intros NE E; [easy|]. simpl.
  pose proof (E p (or_introl eq_refl)).
  assert (0 <= sum l f) by (apply sum_nonneg; intros q Hq; apply Rlt_le, E; right; exact Hq).
  lra.
Qed.

Lemma sum_app l1 l2 f : sum (l1 ++ l2) f = sum l1 f + sum l2 f.
Proof. induction l1 as [|p l1 IH]; simpl; [lra|rewrite IH; lra]. Qed.

Lemma sum_permutation l1 l2 f : Permutation l1 l2 -> sum l1 f = sum l2 f.
Proof. induction 1; simpl; lra. Qed.

(* Two assignments, one per part of a list without repetitions, are one assignment. *)
Definition join (l1 : list nat) (f g : nat -> R) (p : nat) : R :=
  if in_dec Nat.eq_dec p l1 then f p else g p.

Lemma join_left l1 f g p : In p l1 -> join l1 f g p = f p.
Proof. unfold join. destruct (in_dec Nat.eq_dec p l1); easy. Qed.

Lemma join_right l1 f g p : ~ In p l1 -> join l1 f g p = g p.
Proof. unfold join. destruct (in_dec Nat.eq_dec p l1); easy. Qed.

Lemma nodup_parts (l1 l2 : list nat) :
  NoDup (l1 ++ l2) -> NoDup l1 /\ NoDup l2 /\ (forall p, In p l2 -> ~ In p l1).
Proof.
  induction l1 as [|p l1 IH]; simpl; intros ND.
  - repeat split; [constructor|exact ND|auto].
  - inversion_clear ND as [|? ? NI ND']. destruct (IH ND') as (A & B & C).
    repeat split; [constructor; [|exact A]|exact B|].
    + intros I. apply NI, in_or_app. now left.
    + intros q Hq [E|I]; [subst; apply NI, in_or_app; now right|now apply (C q)].
Qed.

(* Powers. *)

Lemma pow_ge_1 x n : 1 <= x -> 1 <= x ^ n.
Proof. intros; apply pow_R1_Rle; assumption. Qed.

Lemma pow_up x m n : 1 <= x -> (m <= n)%nat -> x ^ m <= x ^ n.
Proof. intros; apply Rle_pow; assumption. Qed.

Lemma pow_pos x n : 0 < x -> 0 < x ^ n.
Proof. intros; apply pow_lt; assumption. Qed.

Lemma pow_le_1 x n : 0 <= x <= 1 -> x ^ n <= 1.
Proof.
  intros [H0 H1]. induction n as [|n IH]; simpl; [lra|].
  assert (0 <= x ^ n) by (apply pow_le; exact H0). nra.
Qed.

Lemma pow_down x m n : 0 <= x <= 1 -> (m <= n)%nat -> x ^ n <= x ^ m.
Proof.
  intros Hx Hmn. replace n with (m + (n - m))%nat by lia. rewrite pow_add.
  assert (0 <= x ^ m) by (apply pow_le; tauto).
  pose proof (pow_le_1 x (n - m) Hx). nra.
Qed.

Lemma inv_minus u : 0 <= u < 1 -> 1 + u <= / (1 - u).
Proof.
  intros Hu. apply Rmult_le_reg_r with (1 - u); [lra|].
  rewrite Rinv_l by lra. nra.
Qed.

Lemma pow_plus_le_inv u n : 0 <= u < 1 -> (1 + u) ^ n <= / (1 - u) ^ n.
Proof.
  intros Hu. rewrite <- pow_inv. apply pow_incr. pose proof (inv_minus u Hu). lra.
Qed.

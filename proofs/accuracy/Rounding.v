(* The rounding model. One operation gives exact * (1 + d) + e with |d| <= u and |e| <= eta: eta = lambda for products,
   quotients and fused multiply-adds, and eta = lambda_add for additions, which is 0 unless the engine flushes subnormal
   results. Nothing else about an engine's numbers is used. *)
From Coq Require Import Reals Lra Lia.
From KvAccuracy Require Import Sums.
Open Scope R_scope.

Definition rounds (u eta x y : R) : Prop :=
  exists d e, Rabs d <= u /\ Rabs e <= eta /\ y = x * (1 + d) + e.

Lemma rounds_exact u eta x : 0 <= u -> 0 <= eta -> rounds u eta x x.
Proof.
  intros Hu He. exists 0, 0. rewrite Rabs_R0. repeat split; try assumption. lra.
Qed.

Lemma rounds_weaken u eta u' eta' x y : u <= u' -> eta <= eta' -> rounds u eta x y -> rounds u' eta' x y.
Proof. intros Hu He (d & e & Hd & He' & E). exists d, e. repeat split; try lra. Qed.

Lemma abs_le_split x a : Rabs x <= a -> - a <= x <= a.
Proof. intros H. pose proof (Rle_abs x). pose proof (Rle_abs (- x)). rewrite Rabs_Ropp in *. lra. Qed.

Lemma abs_le_join x a : - a <= x <= a -> Rabs x <= a.
Proof. intros H. apply Rabs_le. exact H. Qed.

(* One rounding of a number known up to err. *)
Lemma rounds_error u eta x y z err :
  0 <= u -> rounds u eta x y -> Rabs (x - z) <= err ->
  exists d, Rabs d <= u /\ Rabs (y - z * (1 + d)) <= err * (1 + u) + eta.
Proof.
  intros Hu (d & e & Hd & He & ->) Hz. exists d. split; [exact Hd|].
  replace (x * (1 + d) + e - z * (1 + d)) with ((x - z) * (1 + d) + e) by ring.
  eapply Rle_trans; [apply Rabs_triang|]. apply Rplus_le_compat; [|exact He].
  rewrite Rabs_mult. apply Rmult_le_compat; try apply Rabs_pos; [exact Hz|].
  apply abs_le_split in Hd. apply abs_le_join. lra.
Qed.

(* A product of k factors 1 + d, and a factor 1 + d with a bound c of its own. *)
Definition band (u c : R) (k : nat) (f : R) : Prop :=
  (1 - c) * (1 - u) ^ k <= f <= (1 + c) * (1 + u) ^ k.

Section Band.
Variables u c : R.
Hypothesis Hu : 0 <= u < 1.
Hypothesis Hc : 0 <= c < 1.

Lemma band_start d : Rabs d <= c -> band u c 0 (1 + d).
Proof. intros Hd. apply abs_le_split in Hd. unfold band. simpl. lra. Qed.

Lemma band_one : band u c 0 1.
Proof. unfold band; simpl; lra. Qed.

Lemma band_pos k f : band u c k f -> 0 < f.
Proof.
  intros [L _]. eapply Rlt_le_trans; [|exact L].
  apply Rmult_lt_0_compat; [lra|]. apply pow_pos; lra.
Qed.

Lemma band_step k f d : Rabs d <= u -> band u c k f -> band u c (S k) (f * (1 + d)).
Proof.
  intros Hd B. pose proof (band_pos k f B) as Hf. destruct B as [Lo Up].
  apply abs_le_split in Hd. unfold band. simpl.
  assert (0 < (1 - c) * (1 - u) ^ k) by (apply Rmult_lt_0_compat; [lra|apply pow_pos; lra]).
  split.
  - replace ((1 - c) * ((1 - u) * (1 - u) ^ k)) with ((1 - c) * (1 - u) ^ k * (1 - u)) by ring.
    apply Rmult_le_compat; lra.
  - replace ((1 + c) * ((1 + u) * (1 + u) ^ k)) with ((1 + c) * (1 + u) ^ k * (1 + u)) by ring.
    apply Rmult_le_compat; lra.
Qed.

Lemma band_weaken k k' f : (k <= k')%nat -> band u c k f -> band u c k' f.
Proof.
  intros Hk [Lo Up]. split.
  - eapply Rle_trans; [|exact Lo]. apply Rmult_le_compat_l; [lra|]. apply pow_down; [lra|exact Hk].
  - eapply Rle_trans; [exact Up|]. apply Rmult_le_compat_l; [lra|]. apply pow_up; [lra|exact Hk].
Qed.

Lemma band_abs k f : band u c k f -> Rabs f <= (1 + c) * (1 + u) ^ k.
Proof. intros B. pose proof (band_pos k f B). destruct B. rewrite Rabs_right; lra. Qed.
End Band.

(* Without a factor of its own, how far from 1. *)
Lemma band_minus_1 u k f : 0 <= u < 1 -> band u 0 k f -> Rabs (f - 1) <= (1 + u) ^ k - 1.
Proof.
  intros Hu [Lo Up]. apply abs_le_join. split; [|lra].
  assert (2 <= (1 + u) ^ k + (1 - u) ^ k).
  { clear Lo Up. induction k as [|k IH]; simpl; [lra|].
    assert ((1 - u) ^ k <= (1 + u) ^ k) by (apply pow_incr; lra). nra. }
  lra.
Qed.

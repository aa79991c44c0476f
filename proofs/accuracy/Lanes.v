(* Sixteen lanes and their fold, the canonical order of docs/arithmetic.md, as a tree of additions. *)
From Coq Require Import Reals Lra Lia List Permutation Arith.
From KvAccuracy Require Import Sums Rounding Binary32.
Import ListNotations.
Open Scope R_scope.

(* The indices below n that lane i takes, ascending. *)
Definition lane (n i : nat) : list nat := map (fun k => i + 16 * k)%nat (seq 0 ((n + 15 - i) / 16)).

Lemma lane_in n i j : (i < 16)%nat -> In j (lane n i) <-> (j < n /\ j mod 16 = i)%nat.
Proof.
  intros Hi. unfold lane. rewrite in_map_iff.
  pose proof (Nat.div_mod (n + 15 - i) 16 ltac:(lia)) as Dv.
  pose proof (Nat.mod_upper_bound (n + 15 - i) 16 ltac:(lia)) as Md.
  split.
  - intros (k & <- & I). apply in_seq in I. split; [lia|].
    rewrite Nat.mul_comm, Nat.mod_add by lia. apply Nat.mod_small, Hi.
  - intros [Hj Hm]. exists (j / 16)%nat.
    pose proof (Nat.div_mod j 16 ltac:(lia)) as Dj. split; [lia|]. apply in_seq. lia.
Qed.

Lemma lane_length n i : (length (lane n i) <= (n + 15) / 16)%nat.
Proof. unfold lane. rewrite map_length, seq_length. apply Nat.div_le_mono; lia. Qed.

Lemma lane_nodup n i : NoDup (lane n i).
Proof. apply FinFun.Injective_map_NoDup; [intros x y; lia|apply seq_NoDup]. Qed.

Lemma lane_count n i x : (i < 16)%nat ->
  count_occ Nat.eq_dec (lane n i) x = if (andb (x <? n)%nat (x mod 16 =? i)%nat) then 1%nat else 0%nat.
Proof.
  intros Hi. destruct (in_dec Nat.eq_dec x (lane n i)) as [I|I].
  - rewrite (proj1 (NoDup_count_occ' Nat.eq_dec _) (lane_nodup n i) x I).
    apply lane_in in I; [|exact Hi]. destruct I as [A B].
    apply Nat.ltb_lt in A. apply Nat.eqb_eq in B. rewrite A, B. reflexivity.
  - rewrite (proj1 (count_occ_not_In Nat.eq_dec _ x) I).
    destruct (andb (x <? n)%nat (x mod 16 =? i)%nat) eqn:EB; [|reflexivity].
    apply Bool.andb_true_iff in EB. destruct EB as [A B]. apply Nat.ltb_lt in A. apply Nat.eqb_eq in B.
    exfalso. apply I, lane_in; auto.
Qed.

(* lane i += lane i + 8, then + 4, + 2, + 1: fold 4. The indices that take part: gather 4. *)
Fixpoint fold (k : nat) (f : nat -> R) (i : nat) : R :=
  match k with
  | O => f i
  | S k' => fold k' (fun i => rnd (f i + f (i + 2 ^ k')%nat)) i
  end.

Fixpoint gather (k : nat) (l : nat -> list nat) (i : nat) : list nat :=
  match k with
  | O => l i
  | S k' => gather k' (fun i => l i ++ l (i + 2 ^ k')%nat) i
  end.

Lemma gather_permutation n l : (forall i, (i < 16)%nat -> Permutation (l i) (lane n i)) ->
  Permutation (gather 4 l 0) (seq 0 n).
Proof.
  intros Pl. apply (Permutation_count_occ Nat.eq_dec). intros x.
  assert (Cl : forall i, (i < 16)%nat ->
    count_occ Nat.eq_dec (l i) x = if (andb (x <? n)%nat (x mod 16 =? i)%nat) then 1%nat else 0%nat).
  { intros i Hi. rewrite <- lane_count by exact Hi. apply (Permutation_count_occ Nat.eq_dec), Pl, Hi. }
  assert (Cs : count_occ Nat.eq_dec (seq 0 n) x = if (x <? n)%nat then 1%nat else 0%nat).
  { destruct (Nat.ltb_spec x n).
    - apply (proj1 (NoDup_count_occ' Nat.eq_dec _) (seq_NoDup n 0)). apply in_seq. lia.
    - apply count_occ_not_In. rewrite in_seq. lia. }
  rewrite Cs. cbn [gather Nat.pow Nat.mul Nat.add]. rewrite !count_occ_app, !Cl by lia.
  destruct (x <? n)%nat; cbn [andb]; [|reflexivity].
  pose proof (Nat.mod_upper_bound x 16 ltac:(lia)) as Hr. generalize dependent (x mod 16)%nat. intros r _ Hr.
  do 16 (destruct r as [|r]; [reflexivity|]). lia.
Qed.

(* What a sum of some indices is: nothing and 0, or a tree P, of at most that depth. *)
Section Part.
Variable P : list nat -> nat -> R -> Prop.
Hypothesis P_add : forall l1 l2 h x y, P l1 h x -> P l2 h y -> binary32 x -> binary32 y -> P (l1 ++ l2) (S h) (rnd (x + y)).
Hypothesis P_deeper : forall l h h' y, (h <= h')%nat -> P l h y -> P l h' y.

Definition part (l : list nat) (h : nat) (y : R) : Prop := binary32 y /\ ((l = [] /\ y = 0) \/ P l h y).

Lemma part_deeper l h h' y : (h <= h')%nat -> part l h y -> part l h' y.
Proof. intros Hh [F [Z|Y]]; split; auto. right. eapply P_deeper; eassumption. Qed.

Lemma part_add l1 l2 h x y : part l1 h x -> part l2 h y -> part (l1 ++ l2) (S h) (rnd (x + y)).
Proof.
  intros [Fx [[-> ->]|Px]] [Fy [[-> ->]|Py]]; (split; [apply rnd_binary32|]).
  - left. rewrite Rplus_0_l, rnd_id by exact Fx. auto.
  - right. rewrite Rplus_0_l, rnd_id by exact Fy. apply P_deeper with h; auto.
  - right. rewrite Rplus_0_r, rnd_id by exact Fx. rewrite app_nil_r. apply P_deeper with h; auto.
  - right. apply P_add; assumption.
Qed.

Lemma fold_part k : forall f l h, (forall i, part (l i) h (f i)) ->
  forall i, part (gather k l i) (h + k) (fold k f i).
Proof.
  induction k as [|k IH]; intros f l h A i; simpl.
  - rewrite Nat.add_0_r. apply A.
  - replace (h + S k)%nat with (S h + k)%nat by lia. apply IH. intros j. apply part_add; apply A.
Qed.

Lemma part_some l h y : l <> [] -> part l h y -> P l h y.
Proof. intros NE [_ [[-> _]|Y]]; [easy|exact Y]. Qed.
End Part.

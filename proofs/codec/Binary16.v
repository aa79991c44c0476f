(* binary16 and binary32 on bit patterns: `widen` is exact, `narrow` rounds to nearest, ties to even. *)
From Coq Require Import NArith List Lia Bool.
Open Scope N_scope.

(* Exact; a NaN keeps its payload, and stays signalling if it was. *)
Definition widen (h : N) : N :=
  let sign := N.shiftl (N.shiftr h 15) 31 in
  let exponent := N.land (N.shiftr h 10) 0x1F in
  let fraction := N.land h 0x3FF in
  if exponent =? 0x1F then sign + 0x7F800000 + N.shiftl fraction 13
  else if negb (exponent =? 0) then sign + N.shiftl (exponent + 112) 23 + N.shiftl fraction 13
  else if fraction =? 0 then sign
  else (* subnormal, fraction * 2^-24: its leading bit becomes binary32's implicit one *)
    let top := N.log2 fraction in
    sign + N.shiftl (103 + top) 23 + (N.shiftl fraction (23 - top) - 0x800000).

(* floor(m / 2^d), or one more where the rest asks for it: to nearest, ties to even. d is at least 1. *)
Definition round_shift (m d : N) : N :=
  let units := N.shiftr m d in
  let rest := m - N.shiftl units d in
  let half := N.shiftl 1 (d - 1) in
  if (half <? rest) || ((rest =? half) && N.odd units) then units + 1 else units.

Definition exponent32 (x : N) : N := N.land (N.shiftr x 23) 0xFF.
Definition fraction32 (x : N) : N := N.land x 0x7FFFFF.

(* A finite magnitude is significand * 2^(scale - 150). *)
Definition significand (x : N) : N := if exponent32 x =? 0 then fraction32 x else fraction32 x + 0x800000.
Definition scale (x : N) : N := N.max (exponent32 x) 1.

Definition narrow_finite (x : N) : N :=
  let p := scale x in
  if 143 <=? p then 0x7C00                         (* 2^16 or more: infinity *)
  else
    let u := p - 113 in                            (* neighbours are 2^(u - 24) apart; u is 0 for subnormals *)
    let dropped := u + 126 - p in
    if 24 <? dropped then 0                        (* less than half a unit *)
    else N.shiftl u 10 + round_shift (significand x) dropped.

(* A NaN keeps its sign and the top 10 of its 23 fraction bits; where those are 0 it becomes sign | 0x7E00. *)
Definition narrow (x : N) : N :=
  let sign := N.shiftl (N.shiftr x 31) 15 in
  if exponent32 x =? 0xFF then
    let kept := N.shiftr (fraction32 x) 13 in
    if (fraction32 x =? 0) || negb (kept =? 0) then sign + 0x7C00 + kept else sign + 0x7E00
  else sign + narrow_finite x.

(* Finite, and infinite as binary16. *)
Definition overflows (x : N) : bool := negb (exponent32 x =? 0xFF) && (narrow_finite x =? 0x7C00).

(* --- every pattern, one by one -------------------------------------------------------------------------------------- *)

Fixpoint all_below (n : nat) (from : N) (p : N -> bool) : bool :=
  match n with
  | O => true
  | S m => if p from then all_below m (from + 1) p else false
  end.

Lemma all_below_spec n : forall from p, all_below n from p = true -> forall h, from <= h < from + N.of_nat n -> p h = true.
Proof.
  induction n as [|n IH]; intros from p H h Hh; cbn [all_below] in H; [lia|].
  destruct (p from) eqn:E; [|discriminate].
  destruct (N.eq_dec h from) as [->|Hne]; [exact E|]. apply (IH (from + 1) p H). lia.
Qed.

Definition survives (h : N) : bool :=
  (narrow (widen h) =? h) && (widen h <? 2 ^ 32) && negb (overflows (widen h)).

Lemma every_pattern_survives : all_below (N.to_nat 65536) 0 survives = true.
Proof. vm_cast_no_check (@eq_refl bool true). Qed.

Lemma survival h : h < 2 ^ 16 -> narrow (widen h) = h /\ widen h < 2 ^ 32 /\ overflows (widen h) = false.
Proof.
  intros H. pose proof (all_below_spec _ _ _ every_pattern_survives h) as S. rewrite N2Nat.id in S.
  specialize (S ltac:(change (2 ^ 16) with 65536 in H; lia)). unfold survives in S.
  apply andb_prop in S. destruct S as [S S3]. apply andb_prop in S. destruct S as [S1 S2].
  apply N.eqb_eq in S1. apply N.ltb_lt in S2. apply negb_true_iff in S3. auto.
Qed.

Theorem law7_narrow_widen h : h < 2 ^ 16 -> narrow (widen h) = h.
Proof. intros H. now destruct (survival h H). Qed.

Lemma widen_bound h : h < 2 ^ 16 -> widen h < 2 ^ 32.
Proof. intros H. now destruct (survival h H) as (_ & ? & _). Qed.

Lemma widen_fits h : h < 2 ^ 16 -> overflows (widen h) = false.
Proof. intros H. now destruct (survival h H) as (_ & _ & ?). Qed.

Lemma widen_zero : widen 0 = 0.
Proof. reflexivity. Qed.

Lemma narrow_zero : narrow 0 = 0.
Proof. reflexivity. Qed.

(* --- narrow gives 16 bits --------------------------------------------------------------------------------------- *)

Lemma fraction32_mod x : fraction32 x = x mod 2 ^ 23.
Proof. unfold fraction32. change 0x7FFFFF with (N.ones 23). apply N.land_ones. Qed.

Lemma fraction32_bound x : fraction32 x < 2 ^ 23.
Proof. rewrite fraction32_mod. apply N.mod_lt. discriminate. Qed.

Lemma round_shift_bound m d k : m < 2 ^ d * k -> round_shift m d <= k.
Proof.
  intros H. unfold round_shift. rewrite N.shiftr_div_pow2.
  assert (m / 2 ^ d < k) by (apply N.div_lt_upper_bound; [apply N.pow_nonzero; lia | exact H]).
  destruct (_ || _); lia.
Qed.

Lemma significand_bound x : significand x < 2 ^ 24.
Proof.
  unfold significand. pose proof (fraction32_bound x) as H. change (2 ^ 23) with 0x800000 in H.
  change (2 ^ 24) with 0x1000000. destruct (_ =? 0); lia.
Qed.

Lemma narrow_finite_bound x : narrow_finite x <= 0x7C00.
Proof.
  unfold narrow_finite. destruct (N.leb_spec 143 (scale x)) as [E|E]; [lia|].
  destruct (N.ltb_spec 24 (scale x - 113 + 126 - scale x)) as [D|D]; [lia|].
  assert (round_shift (significand x) (scale x - 113 + 126 - scale x) <= 2 ^ 11) as R.
  { apply round_shift_bound.
    apply N.lt_le_trans with (2 ^ 24); [apply significand_bound|].
    change (2 ^ 24) with (2 ^ 13 * 2 ^ 11). apply N.mul_le_mono_r. apply N.pow_le_mono_r; [discriminate | lia]. }
  rewrite N.shiftl_mul_pow2. change (2 ^ 11) with 2048 in R. change (2 ^ 10) with 1024. lia.
Qed.

Lemma narrow_bound x : x < 2 ^ 32 -> narrow x < 2 ^ 16.
Proof.
  intros H. unfold narrow. rewrite N.shiftl_mul_pow2, !N.shiftr_div_pow2.
  assert (x / 2 ^ 31 < 2) as S by (apply N.div_lt_upper_bound; [discriminate | exact H]).
  assert (fraction32 x / 2 ^ 13 < 2 ^ 10) as K.
  { apply N.div_lt_upper_bound; [discriminate | apply fraction32_bound]. }
  pose proof (narrow_finite_bound x).
  change (2 ^ 16) with 65536. change (2 ^ 15) with 32768. change (2 ^ 10) with 1024 in K.
  destruct (_ =? 255); [destruct (_ || _)|]; lia.
Qed.

Theorem law7_second_trip_is_the_first x : x < 2 ^ 32 -> narrow (widen (narrow x)) = narrow x.
Proof. intros H. apply law7_narrow_widen, narrow_bound, H. Qed.

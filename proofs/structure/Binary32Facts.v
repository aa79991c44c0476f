(** The facts that laws 3 and 15 ask of an arithmetic, proved of Flocq's binary32: one NaN, round to nearest even,
    subnormals kept, exp and tanh correctly rounded. Flocq's operations rest on the axioms of Coq's real numbers. *)
From Coq Require Import List Arith ZArith Bool Reals Lia Lra.
From Flocq Require Import Core IEEE754.BinarySingleNaN.
From KvStructure Require Import Lists Arithmetic Attend Tile Mask Eviction.
Import ListNotations.

Local Instance precision_positive : Prec_gt_0 24 := eq_refl.
Local Instance precision_fits : Prec_lt_emax 24 128 := eq_refl.

Definition b32 := binary_float 24 128.
Notation fexp32 := (SpecFloat.fexp 24 128).
Notation round32 := (round radix2 fexp32 ZnearestE).

(** The binary32 nearest to a real number, ties to even; an infinity beyond the largest. *)
Definition nearest (r : R) : b32 :=
  let x := round32 r in
  binary_normalize 24 128 _ _ mode_NE (Ztrunc (scaled_mantissa radix2 fexp32 x)) (cexp radix2 fexp32 x) false.

Definition exp32 (x : b32) : b32 :=
  match x with
  | B754_nan => B754_nan
  | B754_infinity true => B754_zero false
  | B754_infinity false => B754_infinity false
  | _ => nearest (Rtrigo_def.exp (B2R x))
  end.

Definition tanh32 (x : b32) : b32 :=
  match x with
  | B754_nan => B754_nan
  | B754_infinity s => if s then nearest (-1) else nearest 1
  | B754_zero s => B754_zero s
  | _ => nearest (Rtrigo_def.tanh (B2R x))
  end.

Definition binary32 : Arithmetic := {|
  num := b32;
  zero := B754_zero false;
  minus_infinity := B754_infinity true;
  Arithmetic.add := Bplus mode_NE;
  sub := Bminus mode_NE;
  mul := Bmult mode_NE;
  div := Bdiv mode_NE;
  fma := Bfma mode_NE;
  Arithmetic.exp := exp32;
  Arithmetic.tanh := tanh32;
  of_integer := fun z => binary_normalize 24 128 _ _ mode_NE z 0 false;
  less := Bltb;
  is_zero := fun x => match x with B754_zero _ => true | _ => false end;
  Arithmetic.is_nan := fun x => match x with B754_nan => true | _ => false end;
|}.

Local Instance fexp32_valid : Valid_exp fexp32 := BinarySingleNaN.fexp_correct 24 128 _.

Lemma nearest_correct r :
  if Rlt_bool (Rabs (round32 r)) (bpow radix2 128)
  then B2R (nearest r) = round32 r /\ is_finite (nearest r) = true /\
       Bsign (nearest r) = match Rcompare (round32 r) 0 with Lt => true | _ => false end
  else nearest r = B754_infinity (Rlt_bool (round32 r) 0).
Proof.
  unfold nearest. set (x := round32 r).
  assert (Hx : F2R (Float radix2 (Ztrunc (scaled_mantissa radix2 fexp32 x)) (cexp radix2 fexp32 x)) = x).
  { symmetry. apply generic_format_round; auto with typeclass_instances. }
  pose proof (binary_normalize_correct 24 128 _ _ mode_NE (Ztrunc (scaled_mantissa radix2 fexp32 x))
                (cexp radix2 fexp32 x) false) as H.
  cbv zeta in H. rewrite Hx in H.
  change (round_mode mode_NE) with ZnearestE in H.
  rewrite (round_generic radix2 fexp32 ZnearestE x) in H
    by (apply generic_format_round; auto with typeclass_instances).
  destruct (Rlt_bool (Rabs x) (bpow radix2 128)).
  - destruct H as (H1 & H2 & H3). repeat split; auto.
  - apply B2SF_inj. rewrite H. reflexivity.
Qed.

(** What exp32 means: e^x, rounded once. *)
Theorem binary32_exp_is_correctly_rounded : forall x : b32, is_finite x = true ->
  let exact := Rtrigo_def.exp (B2R x) in
  if Rlt_bool (Rabs (round32 exact)) (bpow radix2 128)
  then B2R (exp32 x) = round32 exact /\ is_finite (exp32 x) = true
  else exp32 x = B754_infinity false.
Proof.
  intros x Hx exact. assert (He : exp32 x = nearest exact) by (destruct x; try discriminate; reflexivity).
  rewrite He. pose proof (nearest_correct exact) as H.
  destruct (Rlt_bool (Rabs (round32 exact)) (bpow radix2 128)); [tauto|]. rewrite H. f_equal.
  apply Rlt_bool_false. apply round_ge_generic; auto with typeclass_instances; [apply generic_format_0|].
  apply Rlt_le, exp_pos.
Qed.

Definition mass32 (x : b32) : Prop := x = B754_nan \/ Bsign x = false.
Definition positive32 (x : b32) : Prop := x = B754_nan \/ (Bsign x = false /\ x <> B754_zero false).

Lemma positive_of_real (x : b32) : is_finite x = true -> (0 < B2R x)%R -> positive32 x.
Proof.
  intros _ H. right. destruct x as [s|s| |s m e Hb]; simpl in *; try lra.
  destruct s; [|split; [reflexivity|discriminate]]. exfalso.
  assert (F2R (Float radix2 (Z.neg m) e) < 0)%R by (apply F2R_lt_0; reflexivity). simpl in *. lra.
Qed.

Lemma real_of_positive (x : b32) : is_finite x = true -> positive32 x -> (0 < B2R x)%R.
Proof.
  intros Hf [->|[Hs Hz]]; [discriminate|]. destruct x as [s|s| |s m e Hb]; simpl in *; try discriminate; subst.
  - congruence.
  - now apply F2R_gt_0.
Qed.

Lemma real_of_mass (x : b32) : is_finite x = true -> mass32 x -> (0 <= B2R x)%R.
Proof.
  intros Hf [->|Hs]; [discriminate|]. destruct x as [s|s| |s m e Hb]; simpl in *; try discriminate; subst; try lra.
  apply Rlt_le. now apply F2R_gt_0.
Qed.

Lemma nearest_mass r : (0 <= r)%R -> mass32 (nearest r).
Proof.
  intro Hr. right. pose proof (nearest_correct r) as H.
  assert (Hge : (0 <= round32 r)%R)
    by (apply round_ge_generic; auto with typeclass_instances; apply generic_format_0).
  destruct (Rlt_bool (Rabs (round32 r)) (bpow radix2 128)).
  - destruct H as (_ & _ & ->). now destruct (Rcompare_spec (round32 r) 0); [lra| |].
  - rewrite H. simpl. now apply Rlt_bool_false.
Qed.

Lemma exp_mass (x : b32) : mass32 (exp32 x).
Proof.
  destruct x as [s|[|]| |s m e Hb]; simpl; try (right; reflexivity); try (left; reflexivity);
    apply nearest_mass; apply Rlt_le, exp_pos.
Qed.

Lemma exp_of_zero (x : b32) : is_finite x = true -> B2R x = 0%R -> positive32 (exp32 x).
Proof.
  intros Hf Hx. pose proof (binary32_exp_is_correctly_rounded x Hf) as H. cbv zeta in H. rewrite Hx, exp_0 in H.
  assert (H1 : round32 1 = 1%R).
  { apply round_generic; auto with typeclass_instances. change 1%R with (bpow radix2 0). apply generic_format_bpow.
    unfold SpecFloat.fexp, SpecFloat.emin. lia. }
  rewrite H1 in H. destruct (Rlt_bool (Rabs 1) (bpow radix2 128)).
  - destruct H as [Hr Hfin]. apply positive_of_real; auto. rewrite Hr. lra.
  - rewrite H. right. split; [reflexivity|discriminate].
Qed.

(** A finite sum of masses: correctly rounded, so no smaller than either, and +infinity beyond the largest. *)
Lemma finite_sum (x y : b32) : is_finite x = true -> is_finite y = true -> mass32 x -> mass32 y ->
  mass32 (Bplus mode_NE x y) /\ (positive32 x \/ positive32 y -> positive32 (Bplus mode_NE x y)).
Proof.
  intros Hx Hy Mx My. pose proof (Bplus_correct 24 128 _ _ mode_NE x y Hx Hy) as H.
  pose proof (real_of_mass x Hx Mx) as Rx. pose proof (real_of_mass y Hy My) as Ry.
  change (round_mode mode_NE) with ZnearestE in H.
  destruct (Rlt_bool (Rabs (round32 (B2R x + B2R y))) (bpow radix2 128)).
  - destruct H as (Hr & Hf & Hs). split.
    + right. rewrite Hs. destruct (Rcompare_spec (B2R x + B2R y) 0); try reflexivity; [lra|].
      destruct Mx as [->|Mx]; [discriminate|]. now rewrite Mx.
    + intro Hp. apply positive_of_real; auto. rewrite Hr.
      assert (Hle : forall z : b32, is_finite z = true -> positive32 z -> (B2R z <= B2R x + B2R y)%R ->
                                    (0 < round32 (B2R x + B2R y))%R).
      { intros z Hz Pz Hzle. pose proof (real_of_positive z Hz Pz).
        apply Rlt_le_trans with (B2R z); auto.
        rewrite <- (round_generic radix2 fexp32 ZnearestE (B2R z)) by apply generic_format_B2R.
        apply round_le; auto with typeclass_instances. }
      destruct Hp as [Hp|Hp]; [apply (Hle x) | apply (Hle y)]; auto; lra.
  - destruct H as [H Hs]. assert (Hi : Bplus mode_NE x y = B754_infinity false).
    { apply B2SF_inj. rewrite H. destruct Mx as [->|Mx]; [discriminate|]. rewrite Mx. reflexivity. }
    rewrite Hi. split; [right; reflexivity|]. intros _. right. split; [reflexivity|discriminate].
Qed.

Lemma sum_of_masses (x y : b32) : mass32 x -> mass32 y ->
  mass32 (Bplus mode_NE x y) /\ (positive32 x \/ positive32 y -> positive32 (Bplus mode_NE x y)).
Proof.
  intros Mx My. destruct (is_finite x) eqn:Hx, (is_finite y) eqn:Hy; try (now apply finite_sum).
  all: destruct x as [[|]|[|]| |[|] mx ex Bx]; try discriminate Hx; destruct y as [[|]|[|]| |[|] my ey By];
    try discriminate Hy; try (destruct Mx as [Mx|Mx]; discriminate Mx); try (destruct My as [My|My]; discriminate My);
    simpl; split; try (now left); try (now right); intros _; try (now left); right; split; try reflexivity; discriminate.
Qed.

Lemma difference_of_itself (m : b32) : is_finite m = true ->
  is_finite (Bminus mode_NE m m) = true /\ B2R (Bminus mode_NE m m) = 0%R.
Proof.
  intro Hm. pose proof (Bminus_correct 24 128 _ _ mode_NE m m Hm Hm) as H. rewrite Rminus_diag_eq in H by reflexivity.
  change (round_mode mode_NE) with ZnearestE in H. rewrite round_0 in H by auto with typeclass_instances.
  rewrite Rabs_R0, Rlt_bool_true in H by apply bpow_gt_0. tauto.
Qed.

Definition binary32_mask_facts : MaskFacts binary32.
Proof.
  refine {| nan := B754_nan : num binary32; mass := mass32; positive := positive32 |}.
  - intros [[|]|[|]| |[|] m e Hb]; reflexivity.
  - intros [[|]|[|]| |[|] m e Hb] [[|]|[|]| |[|] m' e' Hb']; try reflexivity; try discriminate.
  - intros [[|]|[|]| |[|] m e Hb]; try discriminate; reflexivity.
  - intros [[|]|[|]| |[|] m e Hb]; try discriminate; reflexivity.
  - reflexivity.
  - reflexivity.
  - intros [[|]|[|]| |[|] m e Hb]; reflexivity.
  - intros [[|]|[|]| |[|] m e Hb]; reflexivity.
  - right. reflexivity.
  - exact exp_mass.
  - intros x y Hx Hy. now apply sum_of_masses.
  - intros x [->|[Hs _]]; [left|right]; auto.
  - intros x y Hx Hy. apply sum_of_masses; auto. destruct Hx as [->|[Hs _]]; [left|right]; auto.
  - intros x y Hx Hy. apply sum_of_masses; auto. destruct Hy as [->|[Hs _]]; [left|right]; auto.
  - intros m Hm. destruct (is_finite m) eqn:Hf.
    + destruct (difference_of_itself m Hf). now apply exp_of_zero.
    + destruct m as [|[|]| |]; try discriminate. left. reflexivity.
  - intros x [->|[Hs Hz]]; [left; reflexivity|].
    destruct x as [[|]|[|]| |[|] m e Hb]; try discriminate; [congruence|now right|now left|now right].
Defined.

(** Law 3, mask form, of binary32 and f32 rows: whatever hidden rows hold, NaN and infinities included. *)
Theorem law3b_binary32 : forall (t : Task (f32 binary32)) (q : Query binary32),
  from q < upto q -> (forall p, p < upto q -> length (value t p) = head_dim t) ->
  masked_output t q = output t q /\ skipn (from q) (masked_probabilities t q) = probabilities t q /\
  forall acc p, from q <= p ->
    nth p (accumulate 0 (masked_probabilities t q) acc) zero = nth p (accumulate (from q) (probabilities t q) acc) zero.
Proof.
  intros t q Hs Hl. repeat split.
  - apply (law3b_mask_output binary32_mask_facts); auto. intros p Hp. split; [reflexivity|]. split; [reflexivity|].
    intros out Ho. specialize (Hl p Hp). simpl. rewrite <- Hl in *. revert out Ho.
    change (value_row (f32 binary32)) with (list b32) in *. generalize (value t p : list b32). intro row.
    induction row as [|x row IH]; intros [|o out] Ho; try discriminate; auto.
    unfold zip_with in *. simpl. f_equal. apply IH. now injection Ho.
  - now apply (law3b_mask_probabilities binary32_mask_facts).
  - intros acc p Hp. now apply (law3b_mask_accumulator binary32_mask_facts).
Qed.

(** The zeros that a tile writes outside a query's window are skipped (law 2 asks it). *)
Theorem law2_binary32_skips_zero : forall (t : Task (f32 binary32)) first rows, zero_is_skipped t first rows.
Proof. intros t first rows p _. reflexivity. Qed.

(** Sign, exponent and significand as one number, for the order of masses. *)
Definition rank32 (x : b32) : Z :=
  match x with
  | B754_zero _ | B754_nan => 0
  | B754_infinity s => if s then - 2 ^ 40 else 2 ^ 40
  | B754_finite s m e _ => let r := ((e + 149) * 2 ^ 24 + Zpos m)%Z in if s then - r else r
  end%Z.

Lemma finite_ranges m e : SpecFloat.bounded 24 128 m e = true -> (0 <= e + 149 < 2 ^ 10 /\ Zpos m < 2 ^ 24)%Z.
Proof.
  intro H. unfold SpecFloat.bounded, SpecFloat.canonical_mantissa in H. apply andb_prop in H as [Hc He].
  apply Zeq_bool_eq in Hc. apply Zle_bool_imp_le in He. unfold SpecFloat.fexp, SpecFloat.emin in Hc.
  assert (Hd : (Zpos (SpecFloat.digits2_pos m) <= 24)%Z) by lia. split; [lia|].
  rewrite Digits.Zpos_digits2_pos in Hd. apply (Digits.Zpower_gt_Zdigits radix2 24 (Zpos m)). exact Hd.
Qed.

Theorem law15_binary32_is_ranked : ranked binary32.
Proof.
  exists rank32. intros x y. simpl. unfold Bltb, SpecFloat.SFltb.
  destruct x as [sx|sx| |sx mx ex Hx], y as [sy|sy| |sy my ey Hy]; simpl; auto;
    try (destruct sx; reflexivity); try (destruct sy; reflexivity); try (destruct sx, sy; reflexivity);
    repeat match goal with H : SpecFloat.bounded _ _ _ _ = true |- _ => apply finite_ranges in H end.
  all: symmetry.
  all: try (destruct sx); try (destruct sy);
    repeat match goal with |- context [(?a ?= ?b)%Z] => destruct (Z.compare_spec a b) end;
    repeat match goal with |- context [Pos.compare_cont Eq ?a ?b] =>
      change (Pos.compare_cont Eq a b) with (Pos.compare a b); destruct (Pos.compare_spec a b) end;
    simpl; try (apply Z.ltb_lt; lia); try (apply Z.ltb_ge; lia).
Qed.

(** Three rows, the first hidden and full of NaN and infinities. *)
Example law3b_applies :
  let poison : list b32 := [B754_nan; B754_infinity false] in
  let plain : list b32 := [B754_zero true; B754_infinity true] in
  let t := @Build_Task binary32 (f32 binary32) 2 (B754_infinity false) None
             (fun p => if p =? 0 then poison else plain) (fun p => if p =? 0 then poison else plain) in
  let q := @Build_Query binary32 plain (Some (B754_nan : b32)) 1 3 in
  masked_output t q = output t q.
Proof.
  intros poison plain t q. apply law3b_binary32; [simpl; lia|]. intros [|p] _; reflexivity.
Qed.

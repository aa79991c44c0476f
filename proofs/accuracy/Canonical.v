(* The canonical order of docs/arithmetic.md on binary32, as it stands in its table, and that it is an engine of the theorem. *)
From Coq Require Import Reals Lra Lia List Permutation Arith.
From KvAccuracy Require Import Sums Rounding Dot Score Weight Accumulate Bound Share Engine Attention Whole Binary32 Lanes.
Import ListNotations.
Open Scope R_scope.

Section Canonical.
Variable X : question.
Notation n := (visible X).

Definition chain (a b : nat -> R) (l : list nat) : R := fold_left (fun acc j => rnd (a j * b j + acc)) l 0.
Definition canonical_dot (HD : nat) (a b : nat -> R) : R := fold 4 (fun i => chain a b (lane HD i)) 0.

Definition canonical_score (p : nat) : R :=
  let s := rnd (canonical_dot (head_dim X) (q X) (k X p) * scale X) in
  match cap X with None => s | Some c => rnd (c * rnd (tanh (rnd (s / c)))) end.

Definition scores (p : nat) : R := if (p <? n)%nat then canonical_score p else sigma X.
Definition canonical_maximum : R := maximum (seq 0 (N X)) scores.
Definition canonical_weight (p : nat) : R := rnd (exp (rnd (scores p - canonical_maximum))).
Definition total (l : list nat) : R := fold_left (fun acc p => rnd (acc + canonical_weight p)) l 0.
Definition canonical_denominator : R :=
  let d := fold 4 (fun i => total (lane n i)) 0 in
  match sink X with None => d | Some _ => rnd (d + canonical_weight n) end.
Definition canonical_probability (p : nat) : R := rnd (canonical_weight p / canonical_denominator).
Definition canonical_output : R := chain canonical_probability (v X) (seq 0 n).

Definition canonical_engine : engine := {|
  u := u32; lambda := lambda32; lambda_add := 0; epsilon := u32; omega := lambda32;
  u_P := 0; lambda_P := 0; u_v := 0; h_v := n - 1; h_s := (n + 15) / 16 + 4; g := 1; L := 0 |}.
Definition canonical_scoring : scoring := {|
  u_q := 0; u_k := 0; tau := u32; omega_tanh := lambda32;
  h_q := (head_dim X + 15) / 16 + 4; r := 1; r_sigma := 0; g_c := 1 |}.

Lemma canonical_sane : sane canonical_engine.
Proof. pose proof u32_range. pose proof lambda32_nonneg. split; simpl; lra. Qed.

Lemma canonical_sane_scoring : sane_scoring canonical_scoring.
Proof. pose proof u32_range. pose proof lambda32_nonneg. split; simpl; lra. Qed.

Hypothesis some_row : (1 <= n)%nat.
Hypothesis some_dimension : (1 <= head_dim X)%nat.
Hypothesis cap_positive : forall c, cap X = Some c -> 0 < c.
Hypothesis sink_binary32 : forall x, sink X = Some x -> binary32 x.

(* Dots and outputs. *)
Definition dots (a b : nat -> R) (l : list nat) (h : nat) (y : R) : Prop :=
  exists h', (h' <= h)%nat /\ summed u32 lambda32 0 a b l h' y.

Lemma dots_add a b l1 l2 h x y : dots a b l1 h x -> dots a b l2 h y -> binary32 x -> binary32 y ->
  dots a b (l1 ++ l2) (S h) (rnd (x + y)).
Proof.
  intros (h1 & H1 & S1) (h2 & H2 & S2) Fx Fy. exists (S (Nat.max h1 h2)). split; [lia|].
  apply s_add with x y; auto. now apply law14_binary32_adds.
Qed.

Lemma dots_deeper a b l h h' y : (h <= h')%nat -> dots a b l h y -> dots a b l h' y.
Proof. intros Hh (h1 & H1 & S1). exists h1. split; [lia|exact S1]. Qed.

Lemma chain_part a b l : part (dots a b) (rev l) (length l) (chain a b l).
Proof.
  unfold chain. induction l as [|j l IH] using rev_ind; simpl.
  - split; [apply zero_binary32|now left].
  - rewrite fold_left_app, rev_app_distr, app_length. simpl. destruct IH as [F IH].
    set (acc := fold_left _ l 0) in *. split; [apply rnd_binary32|]. right.
    destruct IH as [[-> ->]|(h & Hh & S1)].
    + exists 1%nat. split; [lia|]. apply s_product. rewrite Rplus_0_r. apply law14_binary32_rounds.
    + exists (S h). split; [lia|]. apply s_fma with acc; auto. apply law14_binary32_rounds.
Qed.

Lemma canonical_dot_tree HD a b : (1 <= HD)%nat ->
  exists l h, Permutation l (seq 0 HD) /\ (h <= (HD + 15) / 16 + 4)%nat /\
    summed u32 lambda32 0 a b l h (canonical_dot HD a b).
Proof.
  intros HHD. set (l := gather 4 (fun i => rev (lane HD i)) 0).
  assert (Pl : Permutation l (seq 0 HD)).
  { apply gather_permutation. intros i _. symmetry. apply Permutation_rev. }
  assert (Pt : part (dots a b) l ((HD + 15) / 16 + 4) (canonical_dot HD a b)).
  { apply (fold_part (dots a b) (dots_add a b) (dots_deeper a b)). intros i.
    apply (part_deeper (dots a b) (dots_deeper a b)) with (length (lane HD i)); [apply lane_length|apply chain_part]. }
  apply part_some in Pt.
  - destruct Pt as (h & Hh & St). exists l, h. auto.
  - intros E. rewrite E in Pl. apply Permutation_nil in Pl. destruct HD; [lia|easy].
Qed.

(* The maximum. *)
Lemma maximum_in (l : list nat) f : l <> [] -> exists p, In p l /\ maximum l f = f p.
Proof.
  induction l as [|x l IH]; [easy|]. intros _. destruct l as [|y l].
  - exists x. split; [now left|reflexivity].
  - change (maximum (x :: y :: l) f) with (Rmax (f x) (maximum (y :: l) f)).
    destruct (IH ltac:(easy)) as (p & I & E). unfold Rmax. destruct (Rle_dec (f x) (maximum (y :: l) f)).
    + exists p. split; [now right|exact E].
    + exists x. split; [now left|reflexivity].
Qed.

Lemma N_at_least : (n <= N X)%nat.
Proof. unfold N, Whole.n. destruct (sink X); lia. Qed.

Lemma below_maximum p : (p < N X)%nat -> scores p <= canonical_maximum.
Proof. intros H. apply (maximum_ge (seq 0 (N X)) scores p). apply in_seq. lia. Qed.

Lemma score_binary32 p : binary32 (scores p).
Proof.
  unfold scores. destruct (p <? n)%nat.
  - unfold canonical_score. destruct (cap X); apply rnd_binary32.
  - unfold sigma. destruct (sink X) as [x|] eqn:E; [now apply sink_binary32|apply zero_binary32].
Qed.

Lemma maximum_binary32 : binary32 canonical_maximum.
Proof.
  destruct (maximum_in (seq 0 (N X)) scores) as (p & _ & E).
  - pose proof N_at_least. destruct (N X); [lia|easy].
  - unfold canonical_maximum. rewrite E. apply score_binary32.
Qed.

Lemma weight_is p : (p < N X)%nat ->
  weight_below u32 0 u32 lambda32 (scores p) canonical_maximum (canonical_weight p).
Proof.
  intros Hp. exists (rnd (scores p - canonical_maximum)). repeat split.
  - unfold Rminus. apply law14_binary32_adds; [apply score_binary32|].
    apply Generic_fmt.generic_format_opp, maximum_binary32.
  - apply rnd_nonpos. pose proof (below_maximum p Hp). lra.
  - apply law14_binary32_exp.
Qed.

(* Denominators. *)
Definition totals (l : list nat) (h : nat) (y : R) : Prop :=
  (forall p, In p l -> (p < N X)%nat) ->
  exists h', (h' <= h)%nat /\ accumulated u32 lambda32 0 u32 lambda32 0 0 scores (fun _ => 1) l h' 0 canonical_maximum y.

Lemma totals_add l1 l2 h x y : totals l1 h x -> totals l2 h y -> binary32 x -> binary32 y ->
  totals (l1 ++ l2) (S h) (rnd (x + y)).
Proof.
  intros T1 T2 Fx Fy In'. destruct T1 as (h1 & H1 & S1); [intros; apply In', in_or_app; auto|].
  destruct T2 as (h2 & H2 & S2); [intros; apply In', in_or_app; auto|].
  exists (S (Nat.max h1 h2)). split; [lia|]. change 0%nat with (Nat.max 0 0).
  apply a_add with x y; auto. now apply law14_binary32_adds.
Qed.

Lemma totals_deeper l h h' y : (h <= h')%nat -> totals l h y -> totals l h' y.
Proof. intros Hh T0 In'. destruct (T0 In') as (h1 & H1 & S1). exists h1. split; [lia|exact S1]. Qed.

Lemma term_total p : totals [p] 0 (canonical_weight p).
Proof.
  intros In'. exists 0%nat. split; [lia|]. pose proof (In' p (or_introl eq_refl)) as Hp.
  apply a_term; [reflexivity|]. split; [now apply below_maximum|].
  exists (canonical_weight p). split; [now apply weight_is|]. apply rounds_exact; lra.
Qed.

Lemma total_part l : part totals l (length l - 1) (total l).
Proof.
  unfold total. induction l as [|j l IH] using rev_ind; simpl.
  - split; [apply zero_binary32|now left].
  - rewrite fold_left_app, app_length. simpl.
    destruct l as [|x l].
    + simpl. rewrite Rplus_0_l, rnd_id by apply rnd_binary32. split; [apply rnd_binary32|]. right. apply term_total.
    + replace (length (x :: l) + 1 - 1)%nat with (S (length (x :: l) - 1)) by (simpl; lia).
      apply (part_add totals totals_add totals_deeper); [exact IH|].
      split; [apply rnd_binary32|]. right. apply totals_deeper with 0%nat; [lia|apply term_total].
Qed.

Lemma canonical_denominator_is : denominator canonical_engine n (N X) scores canonical_maximum canonical_denominator.
Proof.
  set (l := gather 4 (fun i => lane n i) 0). set (d := fold 4 (fun i => total (lane n i)) 0).
  assert (Pl : Permutation l (seq 0 n)) by (apply gather_permutation; reflexivity).
  assert (K1 : (1 <= (n + 15) / 16)%nat) by (apply Nat.div_le_lower_bound; lia).
  assert (Pt : part totals l ((n + 15) / 16 - 1 + 4) d).
  { apply (fold_part totals totals_add totals_deeper). intros i.
    apply (part_deeper totals totals_deeper) with (length (lane n i) - 1)%nat; [|apply total_part].
    pose proof (lane_length n i). lia. }
  assert (NE : l <> []) by (intros E; rewrite E in Pl; apply Permutation_nil in Pl; destruct n; [lia|easy]).
  assert (Hin : forall p, In p l -> (p < N X)%nat).
  { intros p I. apply (Permutation_in p Pl) in I. apply in_seq in I. pose proof N_at_least. lia. }
  pose proof (term_total n) as Last.
  left. unfold canonical_denominator. fold d. destruct (sink X) as [x|] eqn:ES.
  - assert (EN : N X = S n) by (unfold N; rewrite ES; reflexivity).
    assert (Pt' : part totals (l ++ [n]) (S ((n + 15) / 16 - 1 + 4)) (rnd (d + canonical_weight n))).
    { apply (part_add totals totals_add totals_deeper); [exact Pt|].
      split; [apply rnd_binary32|]. right. apply totals_deeper with 0%nat; [lia|exact Last]. }
    apply part_some in Pt'; [|intros E; apply app_eq_nil in E; easy].
    destruct Pt' as (h & Hh & A).
    { intros p I. apply in_app_or in I. destruct I as [I|[<-|[]]]; [auto|lia]. }
    exists (l ++ [n]), h, 0%nat. split; [|split; [|split]].
    + unfold all. rewrite EN, seq_S. apply Permutation_app_tail, Pl.
    + change (h <= (n + 15) / 16 + 4)%nat. lia.
    + apply Nat.le_refl.
    + exact A.
  - assert (EN : N X = n) by (unfold N; rewrite ES; reflexivity).
    apply part_some in Pt; [|exact NE]. destruct Pt as (h & Hh & A); [exact Hin|].
    exists l, h, 0%nat. split; [|split; [|split]].
    + unfold all. rewrite EN. exact Pl.
    + change (h <= (n + 15) / 16 + 4)%nat. lia.
    + apply Nat.le_refl.
    + exact A.
Qed.

Lemma stored_exactly unit x : 0 <= unit -> stored unit x x.
Proof. intros Hu. exists 0. rewrite Rabs_R0. split; [exact Hu|ring]. Qed.

Lemma canonical_score_is p : (p < n)%nat ->
  computed_score canonical_engine canonical_scoring X (q X) (k X) p (scores p).
Proof.
  intros Hp. pose proof u32_range as U. pose proof lambda32_nonneg as La.
  unfold scores. replace (p <? n)%nat with true by (symmetry; now apply Nat.ltb_lt).
  destruct (canonical_dot_tree (head_dim X) (q X) (k X p) some_dimension) as (l & h & Pl & Hh & Tree).
  set (z := canonical_dot (head_dim X) (q X) (k X p)) in *.
  exists l, h, z, (rnd (z * scale X)). repeat split; auto.
  - destruct (law14_binary32_rounds (z * scale X)) as (d & e & Hd & He & ->). simpl.
    replace (z * scale X * (1 + d) + e - scale X * z) with (scale X * z * d + e) by ring.
    eapply Rle_trans; [apply Rabs_triang|]. rewrite Rabs_mult. pose proof (Rabs_pos (scale X * z)).
    assert (Rabs (scale X * z) * Rabs d <= Rabs (scale X * z) * u32) by (apply Rmult_le_compat_l; assumption).
    assert (0 <= lambda32 * u32) by (apply Rmult_le_pos; lra). lra.
  - unfold canonical_score. fold z. destruct (cap X) as [c|]; [|reflexivity].
    exists (rnd (rnd (z * scale X) / c)), (rnd (tanh (rnd (rnd (z * scale X) / c)))). repeat split.
    + left. split; [reflexivity|]. apply law14_binary32_rounds.
    + set (x := rnd (rnd (z * scale X) / c)). destruct (law14_binary32_rounds (tanh x)) as (d & e & Hd & He & ->). simpl.
      replace (tanh x * (1 + d) + e - tanh x) with (tanh x * d + e) by ring.
      eapply Rle_trans; [apply Rabs_triang|]. rewrite Rabs_mult. pose proof (Rabs_pos (tanh x)).
      apply Rplus_le_compat; [|exact He]. rewrite Rmult_comm. apply Rmult_le_compat_r; assumption.
    + apply law14_binary32_rounds.
Qed.

Theorem canonical_run : engine_run canonical_engine canonical_scoring X canonical_output.
Proof.
  pose proof u32_range as U. pose proof lambda32_nonneg as La.
  exists (q X), (k X), (v X), scores. split; [|split; [|split; [|split; [|split]]]].
  - intros j. apply stored_exactly. simpl. lra.
  - intros p j. apply stored_exactly. simpl. lra.
  - intros p. apply stored_exactly. simpl. lra.
  - apply canonical_score_is.
  - intros _. unfold computed_sink, scores, Whole.n. rewrite Nat.ltb_irrefl.
    change (Rabs (sigma X - sigma X) <= (1 - 1) * Rabs (sigma X) + 0 * lambda32 * 1).
    replace (sigma X - sigma X) with 0 by ring. rewrite Rabs_R0. lra.
  - left. destruct (maximum_in (seq 0 (N X)) scores) as (p0 & I0 & E0).
    { pose proof N_at_least. destruct (N X); [lia|easy]. }
    pose proof (chain_part canonical_probability (v X) (seq 0 n)) as Pt.
    apply part_some in Pt.
    2:{ intros E. apply (f_equal (@length nat)) in E. rewrite rev_length, seq_length in E. simpl in E. lia. }
    rewrite seq_length in Pt. destruct Pt as (h & Hh & Tree).
    exists canonical_maximum, canonical_denominator, (rev (seq 0 n)), h, canonical_probability.
    split; [exists p0; split; [exact I0|exact E0]|]. split; [|split; [apply canonical_denominator_is|split; [|split; [|split]]]].
    + intros p I. apply in_seq in I. unfold Whole.n in I. apply below_maximum. pose proof N_at_least. lia.
    + intros p I. apply in_seq in I. unfold Whole.n in I. pose proof N_at_least. exists (canonical_weight p), (canonical_probability p).
      split; [apply weight_is; lia|]. split; [left; split; [reflexivity|apply law14_binary32_rounds]|apply rounds_exact; simpl; lra].
    + symmetry. apply Permutation_rev.
    + change (h <= 1 + (n - 1))%nat. lia.
    + exact Tree.
Qed.

Theorem law14_canonical_order :
  0 < denominator_floor canonical_engine canonical_scoring X ->
  Rabs (canonical_output - attention X) <= attention_bound canonical_engine canonical_scoring X.
Proof.
  intros Floor.
  apply (law14_attention canonical_engine canonical_scoring X canonical_sane canonical_sane_scoring some_row cap_positive Floor).
  apply canonical_run.
Qed.
End Canonical.

(* Attention as a whole: from stored q, k, v, scale, cap and sink to one number of the output. *)
From Coq Require Import Reals Lra Lia List Permutation Arith.
From KvAccuracy Require Import Sums Rounding Dot Score Weight Accumulate Bound Share Engine Attention.
Import ListNotations.
Open Scope R_scope.

(* Scores that no step looks at do not matter. *)
Section Extension.
Variable E : engine.
Variables n N : nat.
Variables f g : nat -> R.
Hypothesis HN : (n <= N)%nat.
Hypothesis same : forall p, In p (all N) -> g p = f p.

Lemma accumulated_ext uP lP v l h L m y : (forall p, In p l -> g p = f p) ->
  accumulated (u E) (lambda E) (lambda_add E) (epsilon E) (omega E) uP lP f v l h L m y ->
  accumulated (u E) (lambda E) (lambda_add E) (epsilon E) (omega E) uP lP g v l h L m y.
Proof.
  intros Hs A. induction A as [p m e V W|p m e y W R|p l h L m x e y A IH W R|l1 l2 h1 h2 L1 L2 m x y z A1 IH1 A2 IH2 R
                              |l h L m m' x a y A IH Hm W R].
  - apply a_term; auto. unfold cast_weight. rewrite Hs by now left. exact W.
  - apply a_product with e; auto. unfold cast_weight. rewrite Hs by now left. exact W.
  - apply a_fma with x e; auto; [apply IH; intros; apply Hs; now right|].
    unfold cast_weight. rewrite Hs by now left. exact W.
  - apply a_add with x y; auto; [apply IH1|apply IH2]; intros; apply Hs, in_or_app; auto.
  - eapply a_rescale; eauto.
Qed.

Lemma rows_same p : In p (rows n) -> g p = f p.
Proof. intros I. apply same. unfold rows, all in *. rewrite in_seq in *. lia. Qed.

Lemma permuted_same l l' : (forall p, In p l' -> g p = f p) -> Permutation l l' -> forall p, In p l -> g p = f p.
Proof. intros Hs Pl p I. apply Hs. eapply Permutation_in; eassumption. Qed.

Lemma denominator_ext m den : denominator E n N f m den -> denominator E n N g m den.
Proof.
  intros [(l & h & L' & Pl & Hh & HL & A)|(EN & l & h & L' & x & e & Pl & Hh & HL & A & W & R)].
  - left. exists l, h, L'. repeat split; auto. apply accumulated_ext; auto. now apply permuted_same with (all N).
  - right. split; [exact EN|]. exists l, h, L', x, e. repeat split; auto.
    + apply accumulated_ext; auto. apply permuted_same with (rows n); [apply rows_same|exact Pl].
    + rewrite same; [exact W|]. unfold all. rewrite in_seq. lia.
Qed.

Lemma divides_last_ext v_hat o : divides_last E n N f v_hat o -> divides_last E n N g v_hat o.
Proof.
  intros (m & den & l & h & L' & num & (p0 & I0 & Em) & Hr & Den & Pl & Hh & HL & A & Fin).
  exists m, den, l, h, L', num. repeat split; auto.
  - exists p0. rewrite same by exact I0. auto.
  - intros p I. rewrite rows_same by exact I. auto.
  - apply denominator_ext, Den.
  - apply accumulated_ext; auto. apply permuted_same with (rows n); [apply rows_same|exact Pl].
Qed.

Lemma divides_first_ext v_hat o : divides_first E n N f v_hat o -> divides_first E n N g v_hat o.
Proof.
  intros (m & den & l & h & P & (p0 & I0 & Em) & Hr & Den & Prob & Rest).
  exists m, den, l, h, P. repeat split; try apply Rest.
  - exists p0. rewrite same by exact I0. auto.
  - intros p I. rewrite rows_same by exact I. auto.
  - apply denominator_ext, Den.
  - intros p I. rewrite rows_same by exact I. auto.
Qed.
End Extension.

(* An engine's scores. *)
Record scoring := {
  u_q : R; u_k : R;                (* storing q and k *)
  tau : R; omega_tanh : R;         (* tanh: relative, absolute *)
  h_q : nat; r : nat;              (* most roundings of a product in a dot; roundings of the scaling *)
  r_sigma : nat; g_c : nat         (* roundings of the sink's scaling; 1 for division by the cap, 2 for its reciprocal *)
}.

Record sane_scoring (Z : scoring) : Prop := {
  sane_u_q : 0 <= u_q Z;
  sane_u_k : 0 <= u_k Z;
  sane_tau : 0 <= tau Z;
  sane_omega_tanh : 0 <= omega_tanh Z
}.

(* One query head and one dimension of the values. *)
Record question := {
  head_dim : nat;
  visible : nat;
  q : nat -> R;
  k : nat -> nat -> R;             (* row, then dimension *)
  v : nat -> R;
  scale : R;
  cap : option R;
  sink : option R
}.

Section Whole.
Variable E : engine.
Variable Z : scoring.
Variable X : question.

Definition n := visible X.
Definition N := match sink X with Some _ => S n | None => n end.

Definition s p := scale X * sum (seq 0 (head_dim X)) (fun j => q X j * k X p j).
Definition A p := sum (seq 0 (head_dim X)) (fun j => Rabs (q X j * k X p j)).
Definition D0 p := plain_score_error (u E) (lambda E) (lambda_add E) (u_q Z) (u_k Z) (A p) (scale X) (head_dim X) (h_q Z) (r Z).

Definition capped p := match cap X with None => s p | Some c => c * tanh (s p / c) end.
Definition sigma := match sink X with Some x => x | None => 0 end.
Definition D_sigma := Rabs sigma * ((1 + u E) ^ r_sigma Z - 1) + INR (r_sigma Z) * lambda E * (1 + u E) ^ r_sigma Z.

Definition t p := if (p <? n)%nat then capped p else sigma.
Definition D p :=
  if (p <? n)%nat then
    match cap X with
    | None => D0 p
    | Some c => capped_score_error (u E) (lambda E) (tau Z) (omega_tanh Z) c (D0 p) (s p) (capped p) (g_c Z)
    end
  else D_sigma.

(* softmax with a sink, times the values: what attention is. *)
Definition attention : R :=
  sum (seq 0 n) (fun p => exp (capped p) * v X p)
  / (sum (seq 0 n) (fun p => exp (capped p)) + match sink X with Some x => exp x | None => 0 end).

(* The bound of docs/arithmetic.md. *)
Definition attention_bound : R := bound E n N t D (v X).
Definition denominator_floor : R := S_low E n N t D.

(* What an engine did. Numbers with a hat are the engine's. *)
Definition computed_score (q_hat : nat -> R) (k_hat : nat -> nat -> R) (p : nat) (t_hat : R) : Prop :=
  exists l h z_hat s_hat,
    Permutation l (seq 0 (head_dim X)) /\ (h <= h_q Z)%nat /\
    summed (u E) (lambda E) (lambda_add E) q_hat (k_hat p) l h z_hat /\
    Rabs (s_hat - scale X * z_hat) <=
      ((1 + u E) ^ r Z - 1) * Rabs (scale X * z_hat) + INR (r Z) * lambda E * (1 + u E) ^ r Z /\
    match cap X with
    | None => t_hat = s_hat
    | Some c => exists x y, divided (u E) (lambda E) c (g_c Z) s_hat x /\
                            Rabs (y - tanh x) <= tau Z * Rabs (tanh x) + omega_tanh Z /\
                            rounds (u E) (lambda E) (c * y) t_hat
    end.

Definition computed_sink (sigma_hat : R) : Prop :=
  Rabs (sigma_hat - sigma) <=
    ((1 + u E) ^ r_sigma Z - 1) * Rabs sigma + INR (r_sigma Z) * lambda E * (1 + u E) ^ r_sigma Z.

Definition stored (unit : R) (x x_hat : R) : Prop := exists d, Rabs d <= unit /\ x_hat = x * (1 + d).

Definition engine_run (o_hat : R) : Prop :=
  exists (q_hat : nat -> R) (k_hat : nat -> nat -> R) (v_hat t_hat : nat -> R),
    (forall j, stored (u_q Z) (q X j) (q_hat j)) /\
    (forall p j, stored (u_k Z) (k X p j) (k_hat p j)) /\
    (forall p, stored (u_v E) (v X p) (v_hat p)) /\
    (forall p, (p < n)%nat -> computed_score q_hat k_hat p (t_hat p)) /\
    (sink X <> None -> computed_sink (t_hat n)) /\
    (divides_first E n N t_hat v_hat o_hat \/ divides_last E n N t_hat v_hat o_hat).

(* The hypotheses. *)
Hypothesis sanity : sane E.
Hypothesis sanity' : sane_scoring Z.
Hypothesis some_row : (1 <= n)%nat.
Hypothesis cap_positive : forall c, cap X = Some c -> 0 < c.
Hypothesis denominator_stays : 0 < denominator_floor.

Lemma N_ge : (n <= N)%nat.
Proof. unfold N. destruct (sink X); lia. Qed.

Lemma exact_is_attention : exact n N t D (v X) = attention.
Proof.
  assert (EX : forall p, t p - m_plus N t D = t p + - m_plus N t D) by (intros; ring).
  assert (S0 : S_min N t D = sum (seq 0 N) (fun p => exp (t p)) * exp (- m_plus N t D)).
  { unfold S_min, all. rewrite <- sum_scale_r. apply sum_ext. intros p _. cbv beta. rewrite EX, exp_plus. reflexivity. }
  assert (P0 : 0 < S_min N t D) by (apply S_min_pos with n; [exact some_row|apply N_ge]).
  pose proof (exp_pos (- m_plus N t D)) as e0.
  set (M := sum (seq 0 N) (fun p => exp (t p))) in *.
  assert (M0 : M <> 0) by (intros M0; rewrite S0, M0 in P0; lra).
  assert (In_t : forall p, In p (seq 0 n) -> t p = capped p).
  { intros p I. unfold t. apply in_seq in I. replace (p <? n)%nat with true; [reflexivity|].
    symmetry. apply Nat.ltb_lt. lia. }
  assert (EM : M = sum (seq 0 n) (fun p => exp (capped p)) + match sink X with Some x => exp x | None => 0 end).
  { unfold M, N. destruct (sink X) as [x|] eqn:ES.
    - rewrite seq_S, sum_app. simpl. rewrite (sum_ext _ _ (fun p => exp (capped p))) by (intros p I; now rewrite In_t).
      unfold t. rewrite Nat.ltb_irrefl. unfold sigma. rewrite ES. lra.
    - rewrite (sum_ext _ _ (fun p => exp (capped p))) by (intros p I; now rewrite In_t). lra. }
  unfold attention. rewrite <- EM. unfold exact, w, rows, Rdiv. rewrite <- sum_scale_r. apply sum_ext.
  intros p I. cbv beta. rewrite S0, EX, exp_plus, (In_t p I). field. split; [exact M0|lra].
Qed.

Lemma scores_within q_hat k_hat p t_hat :
  (forall j, stored (u_q Z) (q X j) (q_hat j)) -> (forall p j, stored (u_k Z) (k X p j) (k_hat p j)) ->
  (p < n)%nat -> computed_score q_hat k_hat p t_hat -> Rabs (t_hat - t p) <= D p.
Proof.
  intros Sq Sk Hp (l & h & z_hat & s_hat & Pl & Hh & Tree & Sc & Out).
  destruct sanity, sanity'. unfold t, D. apply Nat.ltb_lt in Hp. rewrite Hp.
  pose proof (score_error (u E) (lambda E) (lambda_add E) ltac:(lra) ltac:(lra) ltac:(lra) (u_q Z) (u_k Z) ltac:(lra) ltac:(lra)
    (q X) (k X p) q_hat (k_hat p) Sq (Sk p) (head_dim X) l h z_hat Tree Pl (scale X) s_hat (r Z) (h_q Z) Sc Hh) as S0.
  unfold capped. destruct (cap X) as [c|] eqn:EC.
  - destruct Out as (x & y & Dv & Ta & Mu).
    apply (cap_error (u E) (lambda E)) with (s_hat := s_hat) (x := x) (y := y); auto; lra.
  - subst t_hat. exact S0.
Qed.

Theorem law14_attention o_hat : engine_run o_hat -> Rabs (o_hat - attention) <= attention_bound.
Proof.
  intros (q_hat & k_hat & v_hat & t_hat & Sq & Sk & Sv & Sc & Ss & Out).
  destruct sanity. pose proof N_ge as HN.
  (* numbers beyond the last are no part of anything *)
  set (t' := fun p => if (p <? N)%nat then t_hat p else t p).
  assert (Same : forall p, (p < N)%nat -> t' p = t_hat p).
  { intros p Hp. unfold t'. apply Nat.ltb_lt in Hp. rewrite Hp. reflexivity. }
  assert (Known : forall p, Rabs (t' p - t p) <= D p).
  { assert (D0' : forall p, (n <= p)%nat -> D p = D_sigma /\ 0 <= D_sigma).
    { intros p Hp. unfold D. replace (p <? n)%nat with false by (symmetry; apply Nat.ltb_ge; lia). split; [reflexivity|].
      unfold D_sigma. assert (1 <= (1 + u E) ^ r_sigma Z) by (apply pow_ge_1; lra).
      apply Rplus_le_le_0_compat; [apply Rmult_le_pos; [apply Rabs_pos|lra]|].
      repeat apply Rmult_le_pos; try apply pos_INR; lra. }
    intros p. destruct (Nat.ltb_spec p n) as [Hp|Hp].
    - rewrite Same by lia. apply scores_within with q_hat k_hat; auto.
    - destruct (D0' p Hp) as [-> Dp]. destruct (Nat.ltb_spec p N) as [HpN|HpN].
      + rewrite Same by lia. unfold N in HpN. destruct (sink X) as [x|] eqn:ES; [|lia].
        assert (p = n) as -> by lia. unfold t. rewrite Nat.ltb_irrefl.
        eapply Rle_trans; [apply Ss; congruence|]. unfold D_sigma. lra.
      + unfold t'. replace (p <? N)%nat with false by (symmetry; apply Nat.ltb_ge; lia).
        unfold Rminus. rewrite Rplus_opp_r, Rabs_R0. exact Dp. }
  set (dv := fun p => if Req_EM_T (v X p) 0 then 0 else v_hat p / v X p - 1).
  assert (Stored : forall p, Rabs (dv p) <= u_v E /\ v_hat p = v X p * (1 + dv p)).
  { intros p. unfold dv. destruct (Sv p) as (d & Hd & ->). destruct (Req_EM_T (v X p) 0) as [->|Nz].
    - rewrite Rabs_R0. lra.
    - replace (v X p * (1 + d) / v X p - 1) with d by (field; exact Nz). split; [exact Hd|ring]. }
  rewrite <- exact_is_attention. unfold attention_bound.
  assert (NT : forall p, In p (all N) -> t' p = t_hat p) by (intros p I; apply in_seq in I; apply Same; lia).
  destruct Out as [O|O].
  - apply (law14_divides_first E sanity n N some_row HN t D t' (v X) v_hat dv Known Stored denominator_stays).
    now apply divides_first_ext with t_hat.
  - apply (law14_divides_last E sanity n N some_row HN t D t' (v X) v_hat dv Known Stored denominator_stays).
    now apply divides_last_ext with t_hat.
Qed.
End Whole.

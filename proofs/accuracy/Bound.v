(* The accuracy bound as a function of the real quantities of a case: docs/arithmetic.md, "The accuracy bound of f32
   attention". Program.v has the same as a program, which certify evaluates. *)
From Coq Require Import Reals List.
From KvAccuracy Require Import Sums Rounding Weight Accumulate.
Import ListNotations.
Open Scope R_scope.

Fixpoint maximum (l : list nat) (f : nat -> R) : R :=
  match l with
  | [] => 0
  | [p] => f p
  | p :: rest => Rmax (f p) (maximum rest f)
  end.

(* What an engine's arithmetic is made of, the scores excepted. *)
Record engine := {
  u : R; lambda : R; lambda_add : R;      (* unit roundoff; what underflows, in an addition *)
  epsilon : R; omega : R;                 (* exp: relative, absolute *)
  u_P : R; lambda_P : R;                  (* casting a weight or probability *)
  u_v : R;                                (* storing v *)
  h_v : nat; h_s : nat; g : nat; L : nat  (* additions of a term in the output, in the denominator; division; rescalings *)
}.

Record sane (E : engine) : Prop := {
  sane_u : 0 <= u E < 1;
  sane_lambda : 0 <= lambda E;
  sane_lambda_add : 0 <= lambda_add E;
  sane_epsilon : 0 <= epsilon E < 1;
  sane_omega : 0 <= omega E;
  sane_u_P : 0 <= u_P E < 1;
  sane_lambda_P : 0 <= lambda_P E;
  sane_u_v : 0 <= u_v E < 1
}.

Section Bound.
Variable E : engine.
Variables n N : nat.            (* visible rows; with the sink, which is number n *)
Variables t D v : nat -> R.     (* scores (the sink's last) and what computed ones may be off by; values of one dimension *)

Definition rows := seq 0 n.
Definition all := seq 0 N.

Definition m_plus := maximum all (fun p => t p + D p).
Definition m_minus := maximum rows (fun p => t p - D p).
Definition B p := D p + u E * (Rmax (m_plus - t p) (t p - m_minus) + D p)
                  + INR (S (L E)) * (epsilon E / (1 - epsilon E) + lambda_add E).
Definition S_min := sum all (fun p => exp (t p - m_plus)).
Definition w p := exp (t p - m_plus) / S_min.
Definition K := sum all (fun p => w p * exp (B p)).
Definition Hw := sum all (fun p => w p * exp (- B p)).
Definition C := / (1 - u E) ^ (h_s E + L E).
Definition F := / ((1 - u E) ^ (1 + h_v E + L E + g E) * (1 - u_P E) * (1 - u_v E)).
Definition Q p := exp (B p) * F * C / Hw.
Definition relative p := Rmax (Q p - 1) (1 - / (exp (B p) * F * C * K)).
Definition G := (1 + epsilon E + omega E) ^ L E.
Definition Lam := INR (S (L E)) * lambda E + lambda_add E.
Definition Delta := (1 + u E) ^ (h_s E + L E) * G * (INR N * (INR (S (L E)) * omega E + Lam)).
Definition S_low := (1 - u E) ^ (h_s E + L E) * (Hw * S_min) - Delta.
Definition V := sum rows (fun p => Rabs (v p)).
Definition T := sum rows (fun p => w p * Rabs (v p) * Q p).
Definition main := sum rows (fun p => w p * Rabs (v p) * relative p).
Definition underflow :=
  (T * Delta + F * (G * (INR (S (L E)) * (omega E + lambda_P E) * V + INR n * Lam))) / S_low
  + F * ((lambda E + lambda_P E) * V + INR n * Lam + lambda E).
Definition bound := main + underflow.

Definition exact := sum rows (fun p => w p * v p).
End Bound.

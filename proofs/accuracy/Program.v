(* The bound as a program over named numbers: the one text that certify evaluates (certify/bound_formula.hpp is printed from
   it, by Print.v) and that is proven here to be the bound of the theorems. *)
From Coq Require Import Reals ZArith List String Arith.
From KvAccuracy Require Import Sums Score Bound Whole.
Import ListNotations.
Open Scope string_scope.

Inductive count :=
| CNum (k : nat)
| CVar (x : string)
| CAdd (a b : count)
| CSub (a b : count).

Inductive domain := Rows | All.   (* visible rows; rows and sink *)

Inductive expr :=
| Num (z : Z)
| Count (c : count)
| Var (x : string)        (* a number of the case or of the engine *)
| At (x : string)         (* a number of the row at hand *)
| Add (a b : expr)
| Sub (a b : expr)
| Mul (a b : expr)
| Div (a b : expr)
| Inverse (a : expr)
| Power (a : expr) (c : count)
| Abs (a : expr)
| Neg (a : expr)
| Exp (a : expr)
| Tanh (a : expr)
| Max (a b : expr)
| Sum (d : domain) (a : expr)
| Greatest (d : domain) (a : expr).

Inductive definition :=
| Number (x : string) (e : expr)
| Each (d : domain) (x : string) (e : expr).

(* --- The programs ------------------------------------------------------------------------------------------------- *)

Delimit Scope program_scope with P.
Notation "a + b" := (Add a b) : program_scope.
Notation "a - b" := (Sub a b) : program_scope.
Notation "a * b" := (Mul a b) : program_scope.
Notation "a / b" := (Div a b) : program_scope.
Notation "a ^ c" := (Power a c) : program_scope.
Notation "- a" := (Neg a) : program_scope.
Definition one := Num 1.
Definition up (c : count) := Power (Add one (Var "u")) c.
Definition down (c : count) := Power (Sub one (Var "u")) c.
Definition steps := CAdd (CNum 1) (CVar "L").      (* an exponential for each rescaling, and one for the weight itself *)

Definition scores_program : list definition := [
  Each Rows "s" (Var "scale" * At "z")%P;
  Each Rows "D0" (
    Abs (Var "scale") * At "A" * ((one + Var "u_q") * (one + Var "u_k") * up (CAdd (CVar "h_q") (CVar "r")) - one)
    + (Abs (Var "scale") * (Count (CVar "head_dim") * (Var "lambda" + Var "lambda_add")) * up (CVar "h_q")
       + Count (CVar "r") * Var "lambda") * up (CVar "r"))%P ].

Definition cap_program : list definition := [
  Each Rows "t_capped" (Var "c" * Tanh (At "s" / Var "c"))%P;
  Each Rows "D_capped" (
    (one + Var "tau") * (one + Var "u") *
      (At "D0" + (up (CVar "g_c") - one) * (Abs (At "s") + At "D0") + Var "c" * Var "lambda"
       + Count (CSub (CVar "g_c") (CNum 1)) * Var "c" * Var "lambda" * (one + Var "u") * (Abs (At "s") + At "D0"))
    + ((one + Var "tau") * (one + Var "u") - one) * Abs (At "t_capped") + Var "c" * Var "omega_tanh" * (one + Var "u")
    + Var "lambda")%P ].

Definition sink_program : list definition := [
  Number "D_sigma" (Abs (Var "sigma") * (up (CVar "r_sigma") - one)
    + Count (CVar "r_sigma") * Var "lambda" * up (CVar "r_sigma"))%P ].

Definition head_program : list definition := [
  Number "m_plus" (Greatest All (At "t" + At "D"))%P;
  Number "m_minus" (Greatest Rows (At "t" - At "D"))%P;
  Each All "B" (At "D" + Var "u" * (Max (Var "m_plus" - At "t") (At "t" - Var "m_minus") + At "D")
    + Count steps * (Var "epsilon" / (one - Var "epsilon") + Var "lambda_add"))%P;
  Number "S_min" (Sum All (Exp (At "t" - Var "m_plus")))%P;
  Each All "w" (Exp (At "t" - Var "m_plus") / Var "S_min")%P;
  Number "K" (Sum All (At "w" * Exp (At "B")))%P;
  Number "H" (Sum All (At "w" * Exp (- At "B")))%P;
  Number "C" (Inverse (down (CAdd (CVar "h_s") (CVar "L"))));
  Number "F" (Inverse (down (CAdd (CAdd (CAdd (CNum 1) (CVar "h_v")) (CVar "L")) (CVar "g"))
    * (one - Var "u_P") * (one - Var "u_v")))%P;
  Each Rows "Q" (Exp (At "B") * Var "F" * Var "C" / Var "H")%P;
  Each Rows "wQ" (At "w" * At "Q")%P;
  Each Rows "wR" (At "w" * Max (At "Q" - one) (one - Inverse (Exp (At "B") * Var "F" * Var "C" * Var "K")))%P;
  Number "G" (Power (one + Var "epsilon" + Var "omega") (CVar "L"))%P;
  Number "Lambda" (Count steps * Var "lambda" + Var "lambda_add")%P;
  Number "Delta" (up (CAdd (CVar "h_s") (CVar "L")) * Var "G"
    * (Count (CVar "N") * (Count steps * Var "omega" + Var "Lambda")))%P;
  Number "S" (down (CAdd (CVar "h_s") (CVar "L")) * (Var "H" * Var "S_min") - Var "Delta")%P ].

Definition dimension_program : list definition := [
  Number "V" (Sum Rows (Abs (At "v")))%P;
  Number "T" (Sum Rows (At "wQ" * Abs (At "v")))%P;
  Number "main_part" (Sum Rows (At "wR" * Abs (At "v")))%P;
  Number "U" ((Var "T" * Var "Delta" + Var "F" * (Var "G" * (Count steps * (Var "omega" + Var "lambda_P") * Var "V"
      + Count (CVar "n") * Var "Lambda"))) / Var "S"
    + Var "F" * ((Var "lambda" + Var "lambda_P") * Var "V" + Count (CVar "n") * Var "Lambda" + Var "lambda"))%P;
  Number "bound" (Var "main_part" + Var "U")%P ].

(* --- What a program means ----------------------------------------------------------------------------------------- *)

Open Scope R_scope.

Record state := { counts : string -> nat; numbers : string -> R; each : string -> nat -> R }.

Fixpoint count_value (st : state) (c : count) : nat :=
  match c with
  | CNum k => k
  | CVar x => counts st x
  | CAdd a b => (count_value st a + count_value st b)%nat
  | CSub a b => (count_value st a - count_value st b)%nat
  end.

Definition domain_value (st : state) (d : domain) : list nat :=
  seq 0 (match d with Rows => counts st "n" | All => counts st "N" end).

Fixpoint value (st : state) (p : nat) (e : expr) : R :=
  match e with
  | Num z => IZR z
  | Count c => INR (count_value st c)
  | Var x => numbers st x
  | At x => each st x p
  | Add a b => value st p a + value st p b
  | Sub a b => value st p a - value st p b
  | Mul a b => value st p a * value st p b
  | Div a b => value st p a / value st p b
  | Inverse a => / value st p a
  | Power a c => value st p a ^ count_value st c
  | Abs a => Rabs (value st p a)
  | Neg a => - value st p a
  | Exp a => exp (value st p a)
  | Tanh a => tanh (value st p a)
  | Max a b => Rmax (value st p a) (value st p b)
  | Sum d a => sum (domain_value st d) (fun q => value st q a)
  | Greatest d a => maximum (domain_value st d) (fun q => value st q a)
  end.

Definition step (st : state) (d : definition) : state :=
  match d with
  | Number x e =>
      let y := value st 0 e in
      {| counts := counts st; each := each st; numbers := fun z => if String.eqb z x then y else numbers st z |}
  | Each _ x e =>
      {| counts := counts st; numbers := numbers st;
         each := fun z => if String.eqb z x then (fun p => value st p e) else each st z |}
  end.

Definition run (program : list definition) (st : state) : state := fold_left step program st.

(* --- And that it is the bound ------------------------------------------------------------------------------------- *)

Fixpoint lookup {T} (table : list (string * T)) (default : T) (x : string) : T :=
  match table with
  | [] => default
  | (y, a) :: rest => if String.eqb x y then a else lookup rest default x
  end.

Definition engine_numbers (E : engine) : list (string * R) := [
  ("u", u E); ("lambda", lambda E); ("lambda_add", lambda_add E); ("epsilon", epsilon E); ("omega", omega E);
  ("u_P", u_P E); ("lambda_P", lambda_P E); ("u_v", u_v E) ].

Section Meaning.
Variable E : engine.

Definition head_state (n N : nat) (t D v : nat -> R) : state := {|
  counts := lookup [("n", n); ("N", N); ("h_v", h_v E); ("h_s", h_s E); ("g", g E); ("L", L E)] 0%nat;
  numbers := lookup (engine_numbers E) 0;
  each := lookup [("t", t); ("D", D); ("v", v)] (fun _ => 0) |}.

Variable Z : scoring.
Variable X : question.

Definition score_state (c : R) : state := {|
  counts := lookup [("n", n X); ("N", N X); ("head_dim", head_dim X); ("h_q", h_q Z); ("r", r Z); ("g_c", g_c Z); ("r_sigma", r_sigma Z)] 0%nat;
  numbers := lookup (engine_numbers E ++ [("u_q", u_q Z); ("u_k", u_k Z); ("tau", tau Z); ("omega_tanh", omega_tanh Z);
                       ("scale", scale X); ("c", c); ("sigma", sigma X)])%list 0;
  each := lookup [("z", fun p => sum (seq 0 (head_dim X)) (fun j => q X j * k X p j)); ("A", A X)] (fun _ => 0) |}.

Theorem law14_scores_evaluated c p :
  each (run scores_program (score_state c)) "s" p = s X p /\
  each (run scores_program (score_state c)) "D0" p = D0 E Z X p.
Proof. split; reflexivity. Qed.

Theorem law14_cap_evaluated c p : cap X = Some c ->
  each (run (scores_program ++ cap_program) (score_state c)) "t_capped" p = capped X p /\
  each (run (scores_program ++ cap_program) (score_state c)) "D_capped" p =
    capped_score_error (u E) (lambda E) (tau Z) (omega_tanh Z) c (D0 E Z X p) (s X p) (capped X p) (g_c Z).
Proof. intros H. unfold capped. rewrite H. split; reflexivity. Qed.

Theorem law14_sink_evaluated c : numbers (run sink_program (score_state c)) "D_sigma" = D_sigma E Z X.
Proof. reflexivity. Qed.

(* The whole: from scores and what they may be off by to the bound of one dimension. *)
Definition bound_state (n N : nat) (t D v : nat -> R) : state :=
  run (head_program ++ dimension_program) (head_state n N t D v).

Lemma sum_wQ n N t D v : T E n N t D v = sum (rows n) (fun p => w N t D p * Q E n N t D p * Rabs (v p)).
Proof. apply sum_ext. intros. ring. Qed.

Lemma sum_wR n N t D v : main E n N t D v = sum (rows n) (fun p => w N t D p * relative E n N t D p * Rabs (v p)).
Proof. apply sum_ext. intros. ring. Qed.

Theorem law14_floor_evaluated n N t D v : numbers (bound_state n N t D v) "S" = S_low E n N t D.
Proof. reflexivity. Qed.

Theorem law14_bound_evaluated n N t D v : numbers (bound_state n N t D v) "bound" = bound E n N t D v.
Proof.
  unfold bound, underflow. rewrite sum_wQ, sum_wR. reflexivity.
Qed.
End Meaning.

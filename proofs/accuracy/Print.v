(* The programs of Program.v as C++. tools of this folder write what `Compute` shows here to certify/bound_formula.hpp. *)
From Coq Require Import ZArith List String Ascii DecimalString Decimal.
From KvAccuracy Require Import Program.
Import ListNotations.
Open Scope string_scope.

Definition nat_text (k : nat) : string := NilEmpty.string_of_uint (Nat.to_uint k).
Definition integer_text (z : Z) : string := NilEmpty.string_of_int (Z.to_int z).
Definition newline : string := String (ascii_of_nat 10) "".

Fixpoint count_text (c : count) : string :=
  match c with
  | CNum k => nat_text k
  | CVar x => x
  | CAdd a b => count_text a ++ " + " ++ count_text b
  | CSub a b => "(" ++ count_text a ++ " - " ++ count_text b ++ ")"
  end.

Definition domain_text (d : domain) : string := match d with Rows => "n" | All => "N" end.

(* Sums bind weaker than products; everything else is a call or in brackets. `tight`: in a product. *)
Fixpoint text (tight : bool) (e : expr) : string :=
  let bracket (s : string) := if tight then "(" ++ s ++ ")" else s in
  let each (name : string) (d : domain) (a : expr) :=
    name ++ "<X>(" ++ domain_text d ++ ", [&](std::size_t p) -> X { return " ++ text false a ++ "; })" in
  match e with
  | Num z => "X(" ++ integer_text z ++ ")"
  | Count c => "count<X>(" ++ count_text c ++ ")"
  | Var x => x
  | At x => x ++ "[p]"
  | Add a b => bracket (text false a ++ " + " ++ text true b)
  | Sub a b => bracket (text false a ++ " - " ++ text true b)
  | Mul a b => "(" ++ text true a ++ " * " ++ text true b ++ ")"
  | Div a b => "(" ++ text true a ++ " / " ++ text true b ++ ")"
  | Inverse a => "(X(1) / " ++ text true a ++ ")"
  | Power a c => "power(" ++ text false a ++ ", " ++ count_text c ++ ")"
  | Abs a => "abs(" ++ text false a ++ ")"
  | Neg a => "(-" ++ text true a ++ ")"
  | Exp a => "exp(" ++ text false a ++ ")"
  | Tanh a => "tanh(" ++ text false a ++ ")"
  | Max a b => "maximum(" ++ text false a ++ ", " ++ text false b ++ ")"
  | Sum d a => each "sum" d a
  | Greatest d a => each "greatest" d a
  end.

Definition statement (d : definition) : string :=
  match d with
  | Number x e => "    " ++ x ++ " = " ++ text false e ++ ";"
  | Each d x e =>
      "    " ++ x ++ " = rows<X>(" ++ domain_text d ++ ", [&](std::size_t p) -> X { return " ++ text false e ++ "; });"
  end.

Definition member (d : definition) : string :=
  match d with
  | Number x _ => "  X " ++ x ++ ";"
  | Each _ x _ => "  std::vector<X> " ++ x ++ ";"
  end.

Definition function (name : string) (program : list definition) : list string :=
  ("  void " ++ name ++ "() {") :: (map statement program ++ ["  }"])%list.

Definition programs := [
  ("scores", scores_program); ("cap", cap_program); ("sink", sink_program); ("head", head_program);
  ("dimension", dimension_program)].

Definition lines : list string := (
  List.concat (map (fun p => map member (snd p)) programs) ++ [""] ++
  List.concat (map (fun p => function (fst p) (snd p)) programs))%list.

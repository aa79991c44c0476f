(* Writes the programs as C++ to bound_formula.out beside the compiled proofs; formula.py makes the header of it. *)
From Coq Require Import List String.
From KvAccuracy Require Import Print.
Open Scope string_scope.
Open Scope list_scope.
Set Printing Width 100000.
Set Printing Depth 100000.
Redirect "bound_formula" Eval vm_compute in lines.

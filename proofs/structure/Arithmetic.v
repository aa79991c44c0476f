(** The arithmetic: a carrier and operations, and nothing known about them. What is proven over it holds bit for bit,
    whatever the operations are; equality of results is equality of what was computed.

    Then the inner product of docs/arithmetic.md: sixteen lanes, folded. *)
From Coq Require Import List Arith ZArith.
From KvStructure Require Import Lists.
Import ListNotations.

Record Arithmetic := {
  num :> Type;
  zero : num;  (* +0 *)
  minus_infinity : num;
  add : num -> num -> num;
  sub : num -> num -> num;
  mul : num -> num -> num;
  div : num -> num -> num;
  fma : num -> num -> num -> num;  (* fma a b c = a * b + c *)
  exp : num -> num;
  tanh : num -> num;
  of_integer : Z -> num;
  less : num -> num -> bool;
  is_zero : num -> bool;  (* +0 or -0 *)
  is_nan : num -> bool;
}.

Arguments zero {_}. Arguments minus_infinity {_}.
Arguments add {_}. Arguments sub {_}. Arguments mul {_}. Arguments div {_}. Arguments fma {_}.
Arguments exp {_}. Arguments tanh {_}. Arguments of_integer {_}.
Arguments less {_}. Arguments is_zero {_}. Arguments is_nan {_}.

Definition lanes := 16.

Section Dot.
Context {A : Arithmetic}.

Definition no_lanes : list A := repeat zero lanes.

(** The upper half of 2n lanes is added to the lower half. *)
Definition halve (n : nat) (lane : list A) : list A := zip_with add (firstn n lane) (skipn n lane).

Definition fold_lanes (lane : list A) : A := nth 0 (halve 1 (halve 2 (halve 4 (halve 8 lane)))) zero.

(** Element j goes to lane j mod 16. *)
Definition dot_lanes (a b : list A) : list A :=
  fold_left (fun lane j => update (j mod lanes) (fma (nth j a zero) (nth j b zero)) lane) (seq 0 (length a)) no_lanes.

Definition dot (a b : list A) : A := fold_lanes (dot_lanes a b).

(** What exceeds the maximum so far becomes the maximum: a NaN, of which [less] says nothing, does not. *)
Definition maximum (m s : A) : A := if less m s then s else m.

End Dot.

(** One query head over the visible rows of its KV head, as docs/arithmetic.md states it. This is what the other files
    compare loops, tiles, windows and caches with.

    A storage says how a row enters: how a query meets a key row, what a value row's weight is, how a weighted value row
    is added, and what is done to the output at the end. *)
From Coq Require Import List Arith ZArith.
From KvStructure Require Import Lists Arithmetic.
Import ListNotations.

Record Storage (A : Arithmetic) := {
  key_row : Type;
  value_row : Type;
  product : list A -> key_row -> A;  (* the query's inner product with a row *)
  weight : A -> value_row -> A;  (* of a row, from its probability *)
  add_row : A -> value_row -> list A -> list A;  (* out + weight * row *)
  finish : list A -> list A;
}.
Arguments key_row {_}. Arguments value_row {_}. Arguments product {_}. Arguments weight {_}.
Arguments add_row {_}. Arguments finish {_}.

Section Attend.
Context {A : Arithmetic} (S : Storage A).

(** What all queries of a call share. *)
Record Task := {
  head_dim : nat;
  scale : A;
  softcap : option A;
  key : nat -> key_row S;  (* row by index *)
  value : nat -> value_row S;
}.

(** One query head, its sink, and the rows [from, upto) that it sees. *)
Record Query := { vector : list A; sink : option A; from : nat; upto : nat }.

Definition cap (t : Task) (s : A) : A :=
  match softcap t with
  | None => s
  | Some c => mul c (tanh (div s c))
  end.

Definition raw_score (t : Task) (q : list A) (p : nat) : A := mul (product S q (key t p)) (scale t).
Definition score (t : Task) (q : list A) (p : nat) : A := cap t (raw_score t q p).

(** The maximum of scores and sink, from -infinity. *)
Definition largest (scores : list A) (sigma : option A) : A :=
  let m := fold_left maximum scores minus_infinity in
  match sigma with
  | None => m
  | Some s => maximum m s
  end.

(** Weight i is the row's with index first + i: that index chooses its lane. *)
Definition denominator (first : nat) (weights : list A) (sigma : option A) (m : A) : A :=
  let lane := fold_left (fun lane i => update ((first + i) mod lanes) (fun x => add x (nth i weights zero)) lane)
                        (seq 0 (length weights)) no_lanes in
  match sigma with
  | None => fold_lanes lane
  | Some s => add (fold_lanes lane) (exp (sub s m))
  end.

Definition softmax (first : nat) (scores : list A) (sigma : option A) : list A :=
  let m := largest scores sigma in
  let weights := map (fun s => exp (sub s m)) scores in
  let total := denominator first weights sigma m in
  map (fun e => div e total) weights.

Definition probabilities (t : Task) (q : Query) : list A :=
  softmax (from q) (map (score t (vector q)) (seq (from q) (upto q - from q))) (sink q).

(** A row without weight is skipped: there 0 times infinity would be NaN. *)
Definition weigh_row (t : Task) (p : nat) (probability : A) (out : list A) : list A :=
  let w := weight S probability (value t p) in
  if is_zero w then out else add_row S w (value t p) out.

Definition output (t : Task) (q : Query) : list A :=
  finish S (fold_left (fun out pw => weigh_row t (fst pw) (snd pw) out)
                      (combine (seq (from q) (upto q - from q)) (probabilities t q))
                      (repeat zero (head_dim t))).

(** acc[p] grows by the probability of row p; acc may be shorter than the rows. *)
Definition accumulate (first : nat) (probs acc : list A) : list A :=
  fold_left (fun acc i => update (first + i) (fun x => add x (nth i probs zero)) acc) (seq 0 (length probs)) acc.

Definition sees_nothing (q : Query) : bool := upto q <=? from q.

(** One call: output and accumulator. Without rows the output is zero and the accumulator stays. *)
Definition attend_one (t : Task) (acc : list A) (q : Query) : list A * list A :=
  if sees_nothing q then (repeat zero (head_dim t), acc)
  else (output t q, accumulate (from q) (probabilities t q) acc).

(** Calls in order, each with the accumulator that the one before left. *)
Fixpoint attend_each (t : Task) (acc : list A) (queries : list Query) : list (list A) * list A :=
  match queries with
  | [] => ([], acc)
  | q :: rest =>
      let (out, acc1) := attend_one t acc q in
      let (outs, acc2) := attend_each t acc1 rest in
      (out :: outs, acc2)
  end.

Lemma probabilities_length t q : length (probabilities t q) = upto q - from q.
Proof. unfold probabilities, softmax. now rewrite !map_length, seq_length. Qed.

Lemma attend_each_app t acc qs rs :
  attend_each t acc (qs ++ rs) =
  let (outs, acc1) := attend_each t acc qs in
  let (more, acc2) := attend_each t acc1 rs in (outs ++ more, acc2).
Proof.
  revert acc; induction qs as [|q qs IH]; intro acc; simpl.
  - now destruct (attend_each t acc rs).
  - destruct (attend_one t acc q) as [out acc1]. rewrite IH.
    destruct (attend_each t acc1 qs) as [outs acc2]. now destruct (attend_each t acc2 rs).
Qed.

End Attend.

Arguments Query : clear implicits.
Arguments vector {_}. Arguments sink {_}. Arguments from {_}. Arguments upto {_}.
Arguments head_dim {_ _}. Arguments scale {_ _}. Arguments softcap {_ _}. Arguments key {_ _}. Arguments value {_ _}.
Arguments attend_one {_ _}. Arguments attend_each {_ _}. Arguments probabilities {_ _}. Arguments output {_ _}.
Arguments score {_ _}. Arguments raw_score {_ _}. Arguments cap {_ _}. Arguments weigh_row {_ _}.
Arguments attend_each_app {_ _}. Arguments probabilities_length {_ _}.

(** Rows of binary32 numbers. *)
Definition f32 (A : Arithmetic) : Storage A := {|
  key_row := list A;
  value_row := list A;
  product := dot;
  weight := fun probability _ => probability;
  add_row := fun w v out => zip_with (fun x o => fma w x o) v out;
  finish := fun out => out;
|}.

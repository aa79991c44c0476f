(** An arithmetic of terms: an operation's result is the operation written down. Two results are equal only if the same
    operations were done in the same order on the same inputs, so here the order is to be seen, and examples show that
    the theorems' hypotheses can be met and that their sides are not empty. *)
From Coq Require Import List Arith ZArith.
From KvStructure Require Import Lists Arithmetic Attend Visible Tile Chunk Grouping Layer Sequence.
Import ListNotations.

Inductive term :=
  | Zero | Below  (* -infinity *)
  | In (array : nat) (i : nat)  (* input i of an array *)
  | Add (a b : term) | Sub (a b : term) | Mul (a b : term) | Div (a b : term) | Fma (a b c : term)
  | Exp (a : term) | Tanh (a : term) | Int (z : Z).

Definition terms : Arithmetic := {|
  num := term;
  zero := Zero;
  minus_infinity := Below;
  add := Add;
  sub := Sub;
  mul := Mul;
  div := Div;
  fma := Fma;
  exp := Exp;
  tanh := Tanh;
  of_integer := Int;
  (* Any order does: here what comes first stays the maximum. *)
  less := fun a b => match a, b with Below, Below => false | Below, _ => true | _, _ => false end;
  is_zero := fun a => match a with Zero => true | _ => false end;
  is_nan := fun _ => false;
|}.

Definition row (array n : nat) : list terms := map (In array) (seq 0 n).

(** Element 16 joins lane 0, element 17 lane 1; then 16 lanes are folded to 8, 4, 2, 1. *)
Example law1_order_of_dot :
  dot (row 0 18) (row 1 18) =
  let once j := Fma (In 0 j) (In 1 j) Zero in
  let twice j := Fma (In 0 (16 + j)) (In 1 (16 + j)) (once j) in
  Add (Add (Add (Add (twice 0) (once 8)) (Add (once 4) (once 12))) (Add (Add (once 2) (once 10)) (Add (once 6) (once 14))))
      (Add (Add (Add (twice 1) (once 9)) (Add (once 5) (once 13))) (Add (Add (once 3) (once 11)) (Add (once 7) (once 15)))).
Proof. reflexivity. Qed.

(** Seven rows of two numbers; two positions of three heads, one with a sink. *)
Definition small : Task (f32 terms) :=
  @Build_Task terms (f32 terms) 2 (In 90 0) (Some (In 90 1)) (fun p => row (10 + p) 2) (fun p => row (20 + p) 2).

Definition two_positions (w : nat) : Call terms := {|
  positions := 2;
  vectors := map (fun u => row (30 + u) 2) (seq 0 6);
  sinks := [None; Some (In 91 0); None];
  earliest := 0;
  last := 6;
  window := w
|}.

Definition acc : list terms := row 92 5.  (* shorter than the rows *)
Definition garbage : nat -> nat -> nat -> terms := fun start u r => In (1000 + start + u) r.

(** What the last head gets with a window of one row: its own row's probability, and that row's values. *)
Example law2_one_visible_row :
  List.last (fst (attend_tiles small garbage (two_positions 1) [4; 2] 0 acc)) [] =
  let d i := Fma (In 35 i) (In 16 i) Zero in
  let lanes_of j := match j with 0 => d 0 | 1 => d 1 | _ => Zero end in
  let dot2 := Add (Add (Add (Add (d 0) Zero) (Add Zero Zero)) (Add (Add Zero Zero) (Add Zero Zero)))
                  (Add (Add (Add (d 1) Zero) (Add Zero Zero)) (Add (Add Zero Zero) (Add Zero Zero))) in
  let s := Mul (In 90 1) (Tanh (Div (Mul dot2 (In 90 0)) (In 90 1))) in
  let e := Exp (Sub s s) in
  (* row 6 is lane 6 of the denominator *)
  let total := Add (Add (Add (Add Zero Zero) (Add Zero Zero)) (Add (Add Zero Zero) (Add (Add Zero e) Zero)))
                   (Add (Add (Add Zero Zero) (Add Zero Zero)) (Add (Add Zero Zero) (Add Zero Zero))) in
  let p := Div e total in
  [Fma p (In 26 0) Zero; Fma p (In 26 1) Zero].
Proof. vm_compute. reflexivity. Qed.

Lemma small_skips first rows : zero_is_skipped small first rows.
Proof. intros p _. reflexivity. Qed.

(** Law 1's and law 2's theorems apply: nothing in their hypotheses is impossible. *)
Example law2_applies : forall w,
  attend_tiles small garbage (two_positions w) [4; 2] 0 acc =
  in_turn (position_in_turn small (two_positions w) 7) acc [0; 1].
Proof.
  intro w. apply (law2_tiles_are_positions small garbage (two_positions w) [4; 2] 7); simpl; auto using small_skips.
  - unfold sees_rows. simpl. auto with arith.
  - split; simpl; auto 10.
Qed.

Definition one_position : Call terms := part (two_positions 4) 1 1.

Example law1_applies :
  attend_tiles small garbage one_position [2; 1] 0 acc =
  in_turn (fun acc h => attend_tiles small (fun s u r => In (2000 + h + s + u) r) (one_head one_position h) [1] 0 acc)
          acc [0; 1; 2].
Proof.
  apply (law1_grouping small garbage (fun h s u r => In (2000 + h + s + u) r) one_position [2; 1]).
  - reflexivity.
  - split; simpl; auto 10.
  - split; [unfold sees_rows; simpl; auto with arith | split; [reflexivity | apply small_skips]].
Qed.

(** The window is felt: four rows are not three, and the accumulator sees its five entries. *)
Example law2_windows_differ :
  attend_tiles small garbage (two_positions 4) [6] 0 acc <> attend_tiles small garbage (two_positions 3) [6] 0 acc.
Proof. vm_compute. discriminate. Qed.

(** Order is felt: the heads in another order give another accumulator. *)
Example law1_order_of_importance :
  snd (attend_tiles small garbage one_position [3] 0 acc) <>
  snd (attend_tiles small garbage
         {| positions := 1; vectors := rev (vectors one_position); sinks := rev (sinks one_position);
            earliest := earliest one_position; Chunk.last := Chunk.last one_position; window := 4 |} [3] 0 acc).
Proof. vm_compute. discriminate. Qed.

Example law3a_applies :
  let other p := if p <? 3 then row 70 2 else row (20 + p) 2 in
  let q := {| vector := row 30 2; sink := None; from := 3; upto := 7 |} in
  attend_each (on small (key small) (value small)) acc [q] = attend_each (on small (key small) other) acc [q] /\
  attend_each (on small (key small) (value small)) acc [q] <>
  attend_each (on small (key small) (fun p => if p <? 4 then row 70 2 else row (20 + p) 2)) acc [q].
Proof.
  split; [|vm_compute; discriminate].
  apply law3a_hidden_rows_do_not_matter. constructor; [|constructor]. split; intros p [Hp _]; auto.
  simpl in Hp. simpl value. destruct (Nat.ltb_spec p 3); auto. exfalso. apply (Nat.lt_irrefl p). eauto using Nat.lt_le_trans.
Qed.

(** A format that freezes, and a prompt across its freeze. *)
Definition freezing : Format terms := {|
  columns_type := nat;
  key_type := list term * nat;
  value_type := list term;
  store_key := fun c _ (x : list terms) => (x : list term, c);
  store_value := fun _ _ (x : list terms) => (x : list term);
  freezes := true;
  frozen_columns := fun ks _ => length (nth 0 ks []);
  frozen_key := fun c _ k => (fst k, c);
  frozen_value := fun _ _ v => v;
|}.

Definition fresh : Layer freezing :=
  @Build_Layer terms freezing false 0 [[]] [[]] [].
Definition prompt (n : nat) : list (Position terms) := map (fun i => {| k := [row i 1]; v := [row (100 + i) 1] |}) (seq 0 n).

Example law2_freezes_at_the_65th :
  frozen (append_chunk fresh (prompt 64)) = false /\ frozen (append_chunk fresh (prompt 65)) = true /\
  (columns (append_chunk fresh (prompt 70)) : nat) = 64 /\
  append_chunk fresh (prompt 70) = fold_left append (prompt 70) fresh.
Proof. repeat split; vm_compute; reflexivity. Qed.

Definition reading : Reading freezing :=
  @Build_Reading terms freezing
    (fun _ _ q (row : list terms * nat) => dot q (fst row))
    (fun p _ => p)
    (fun w (v : list terms) out => zip_with (fun x o => Fma w x o) v out)
    (fun _ _ out => out)
    ([], 0) [].

(** A prompt of three positions after two, in a layer that could freeze and does not. *)
Example law2_sequence_applies :
  let before := append_chunk fresh (prompt 2) in
  let steps := map (fun i => {| rows := {| k := [row (40 + i) 1]; v := [row (50 + i) 1] |};
                                queries := [row (60 + i) 1; row (65 + i) 1] |}) [0; 1; 2] in
  all_at_once reading 1 (In 90 0) None 0 [None; Some (In 91 0)] 2 garbage [1; 3; 2] before acc steps =
  one_at_a_time reading 1 (In 90 0) None 0 [None; Some (In 91 0)] 2 before acc steps.
Proof.
  apply law2_chunk_is_sequence.
  - repeat split; simpl; auto.
  - right; right. unfold seq_len, freeze_at. simpl. auto 70 with arith.
  - intros step H. simpl in H. destruct H as [<-|[<-|[<-|[]]]]; reflexivity.
  - split; simpl; auto 10.
  - reflexivity.
Qed.

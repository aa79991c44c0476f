(** Instances of the theorems on rings, far fields and eviction, computed. *)
From Coq Require Import List Arith ZArith Lia.
From KvStructure Require Import Lists Arithmetic Attend Layer TakingBack Ring Bounded FarField Eviction KeepRows Terms.
Import ListNotations.

(** Rollback in a layer that holds rows. *)
Example law5_rollback_applies :
  let before := append_chunk fresh (prompt 2) in
  truncate_last 3 (append_chunk before (prompt 3)) = before /\ seq_len (append_chunk before (prompt 3)) = 5.
Proof.
  split; [|reflexivity]. apply (law5_rollback _ (prompt 3)).
  - split; repeat constructor.
  - right; right. unfold seq_len, freeze_at. simpl. lia.
Qed.

(** A ring of 3 slots after 80 inserts, wrapped many times. *)
Definition three : Ring nat := insert_all 0 {| slots := [0; 0; 0]; position := 0; saved := [] |} (seq 1 80).

Lemma three_is_sound : sound three.
Proof. split; vm_compute; repeat constructor. Qed.

Example law5_ring_to_depth_64 :
  let more := insert_all 0 three (seq 100 64) in
  slots (take_back 0 64 more) = slots three /\ position (take_back 0 64 more) = 80 /\
  slots three = [79; 80; 78] /\ saved (take_back 0 64 more) = [].
Proof. do 3 (split; [vm_compute; reflexivity|]). vm_compute. reflexivity. Qed.

Example law5_ring_applies :
  take_back 0 (length (seq 100 64)) (insert_all 0 three ([] ++ seq 100 64)) =
  limited (undo_depth - length (seq 100 64)) (insert_all 0 three []).
Proof. apply law5_ring_rollback; [exact three_is_sound | vm_compute; repeat constructor]. Qed.

(** 64 is sharp: one more is not what was there. *)
Example law5_not_to_depth_65 : slots (take_back 0 65 (insert_all 0 three (seq 100 65))) <> slots three.
Proof. vm_compute. discriminate. Qed.

(** The bounded layer in terms: the answer knows three inserts, and their order. *)
Definition anchor : Anchor := {|
  query := row 0 3;
  sink_rows := [(row 1 3, row 2 3)];
  cos := fun distance => row (100 + distance) 1;
  sin := fun distance => row (200 + distance) 1;
  half := 1;
  factor := In 90 0;
  unwritten := ([], []);
|}.
Definition inserted (ids : list nat) : list (list terms * list terms) := map (fun i => (row (10 + i) 3, row (30 + i) 3)) ids.
Definition answer (ids : list nat) : list terms :=
  bounded_output anchor (insert_all ([], []) (empty (row 99 3, row 99 3) 3) (inserted ids)).

Example law11_applies : answer [1; 2; 3; 4; 5; 6; 7] = answer [9; 5; 6; 7] /\ answer [1; 2] <> answer [1; 2; 1; 2] /\
  answer [5; 6; 7] <> answer [6; 5; 7].
Proof.
  split; [|split; vm_compute; discriminate].
  apply (law11_output_of_the_last_inserts anchor 3 (row 99 3, row 99 3)); [lia|vm_compute; reflexivity].
Qed.

(** The query is turned by its distance: the newest row's score, of distance 0. *)
Example law11_rotation :
  turned anchor 0 = [Sub (Mul (In 0 0) (In 100 0)) (Mul (In 0 1) (In 200 0));
                     Add (Mul (In 0 0) (In 200 0)) (Mul (In 0 1) (In 100 0)); In 0 2].
Proof. reflexivity. Qed.

(** Ten rows, two sinks, a ring of three: five rows in each of two far fields, each once. *)
Example law12_applies :
  let g := sealed 99 (fun _ absorbed row => absorbed ++ [row]) 3 2 [[]; []] (seq 0 10) in
  FarField.sinks g = [0; 1] /\ FarField.heads g = [[2; 3; 4; 5; 6]; [2; 3; 4; 5; 6]] /\ ring_rows 99 3 g = [7; 8; 9] /\
  far_count g = 5.
Proof. vm_compute. repeat split. Qed.

(** Integers and a NaN. *)
Definition masses : Arithmetic := {|
  num := option Z;
  zero := Some 0%Z;
  minus_infinity := None;
  add := fun a _ => a; sub := fun a _ => a; mul := fun a _ => a; div := fun a _ => a; fma := fun a _ _ => a;
  exp := fun a => a; tanh := fun a => a; of_integer := Some;
  less := fun a b => match a, b with Some x, Some y => (x <? y)%Z | _, _ => false end;
  is_zero := fun a => match a with Some 0%Z => true | _ => false end;
  is_nan := fun a => match a with None => true | _ => false end;
|}.

Lemma masses_are_ranked : ranked masses.
Proof. exists (fun a => match a with Some x => x | None => 0%Z end). intros [x|] [y|]; reflexivity. Qed.

(** Position 0 as sink, 7 as recent; between them 5 is heaviest, 2 and 4 tie and the earlier goes first, NaN at 1 last. *)
Example law15_applies :
  let mass : list masses := [Some 0; None; Some 3; Some 1; Some 3; Some 9; Some 0; Some 0]%Z in
  kept_by_mass mass 4 1 1 = [0; 2; 5; 7] /\ kept_by_mass mass 7 0 0 = [0; 2; 3; 4; 5; 6; 7] /\
  kept_by_mass mass 3 5 5 = [0; 1; 2] /\ kept_by_mass mass 3 0 3 = [5; 6; 7] /\
  specified mass 4 1 1 [0; 2; 5; 7].
Proof.
  intro mass. assert (H : kept_by_mass mass 4 1 1 = [0; 2; 5; 7]) by (vm_compute; reflexivity).
  split; [exact H|]. do 3 (split; [vm_compute; reflexivity|]). rewrite <- H.
  apply law15_kept_set; [exact masses_are_ranked | vm_compute; repeat constructor].
Qed.

Example law15_moves_in_place : keep_rows 0 [0; 2; 5; 7] [10; 11; 12; 13; 14; 15; 16; 17] = [10; 12; 15; 17].
Proof. reflexivity. Qed.

(* The record of docs/wire.md: what a layer expects, the states that a record describes, the grammar of each kind and of
   the unversioned body, and the encoder. Values of a state are binary32 bit patterns. *)
From Coq Require Import NArith PeanoNat List Bool.
From KvCodec Require Import Bytes Binary16 Grammar.
Import ListNotations.
Open Scope N_scope.

Inductive kind := kind_full | kind_linear | kind_bounded.
Definition kind_number (k : kind) : N := match k with kind_full => 0 | kind_linear => 1 | kind_bounded => 2 end.

Record layer := Layer {
  identity : N; layer_index : N; layer_kind : kind; unversioned_allowed : bool;
  kv_heads : N; head_dim : N;
  window : N (* kind bounded: the installed ring's *)
}.

(* Both lists empty: a dead head, or no positions. *)
Record head := Head { keys : list N; values : list N }.

Inductive state :=
| Full (seq_len : N) (recurrent importance : list N) (heads : list head)
| Linear (position : N) (recurrent : list N)
| Bounded (position : N) (ring_k ring_v : list N).

Definition magic : list N := [0x43; 0x4D; 0x46; 0x53].
Definition max_count : N := 2 ^ 63 - 1.
Definition flag (f16 : bool) : N := if f16 then 1 else 0.

(* --- conditions on a field ------------------------------------------------------------------------------------------ *)

Definition equals (accepted : N) (why : code) : condition := fun field =>
  if le field =? accepted then None else Some (Fault why 0 accepted (le field)).

Definition at_most (largest : N) (why : code) : condition := fun field =>
  if le field <=? largest then None else Some (Fault why 0 largest (le field)).

Definition zero_or (accepted : N) (why : code) : condition := fun field =>
  if (le field =? 0) || (le field =? accepted) then None else Some (Fault why 0 accepted (le field)).

(* The first element, counted from i, that is not zero and lies in a slot never written: `row` elements a head, of which
   the first `written` may hold anything. *)
Fixpoint first_stray (row written i : N) (elements : list N) : option (N * N) :=
  match elements with
  | [] => None
  | x :: r => if (x =? 0) || (i mod row <? written) then first_stray row written (i + 1) r else Some (i, x)
  end.

Definition unwritten_zero (f16 : bool) (row written : N) : condition := fun field =>
  match first_stray row written 0 (words f16 field) with
  | None => None
  | Some (i, x) => Some (Fault ring_slot_not_zero (i * width f16) 0 x)
  end.

(* --- the grammar ------------------------------------------------------------------------------------------------------ *)

Definition arrived (f16 : bool) (raw : list N) : list N := if f16 then map widen raw else raw.

(* What stands before the body: the f16 flag and the position. *)
Definition header {A} (l : layer) (body : bool -> N -> grammar A) : grammar A :=
  Field 4 [] (fun _ => (* the magic, seen already *)
  Field 4 [equals 2 bad_version] (fun _ =>
  Field 8 [equals (identity l) identity_mismatch] (fun _ =>
  Field 4 [equals (layer_index l) layer_mismatch] (fun _ =>
  Field 1 [at_most 2 unknown_kind; equals (kind_number (layer_kind l)) kind_mismatch] (fun _ =>
  Field 1 [at_most 1 bad_flag] (fun f =>
  Field 2 [equals 0 reserved_not_zero] (fun _ =>
  Field 8 [at_most max_count position_out_of_range] (fun p => body (le f =? 1) (le p))))))))).

Fixpoint heads_of {A} (n : nat) (whole : N) (f16 : bool) (next : list head -> grammar A) : grammar A :=
  match n with
  | O => next []
  | S m =>
      Field 4 [zero_or whole inconsistent_length] (fun k_len =>
      Field (le k_len * width f16) [] (fun k =>
      Field 4 [equals (le k_len) inconsistent_length] (fun _ =>
      Field (le k_len * width f16) [] (fun v =>
      heads_of m whole f16 (fun hs => next (Head (arrived f16 (words f16 k)) (arrived f16 (words f16 v)) :: hs))))))
  end.

(* The per-position body behind flag and seq_len, with rows at `rows` positions. *)
Definition full_body {A} (l : layer) (f16 : bool) (rows : N) (next : list N -> list N -> list head -> grammar A) : grammar A :=
  Field 4 [equals (kv_heads l) geometry_mismatch] (fun _ =>
  Field 4 [equals (head_dim l) geometry_mismatch] (fun _ =>
  Field 4 [] (fun linear_len =>
  Field 4 [equals rows inconsistent_length] (fun imp_len =>
  Field (le linear_len * 4) [] (fun vector =>
  Field (le imp_len * 4) [] (fun importance =>
  heads_of (N.to_nat (kv_heads l)) (rows * head_dim l) f16 (next (words false vector) (words false importance)))))))).

Definition linear_body {A} (l : layer) (next : list N -> grammar A) : grammar A :=
  Field 4 [equals (kv_heads l) geometry_mismatch] (fun _ =>
  Field 4 [equals (head_dim l) geometry_mismatch] (fun _ =>
  Field 4 [] (fun linear_len =>
  Field (le linear_len * 4) [] (fun vector => next (words false vector))))).

Definition written (l : layer) (position : N) : N := N.min position (window l).
Definition row (l : layer) : N := window l * head_dim l.
Definition ring_field {A} (l : layer) (f16 : bool) (position : N) (next : list N -> grammar A) : grammar A :=
  Field (kv_heads l * row l * width f16) [unwritten_zero f16 (row l) (written l position * head_dim l)]
    (fun ring => next (arrived f16 (words f16 ring))).

Definition bounded_body {A} (l : layer) (f16 : bool) (position : N) (next : list N -> list N -> grammar A) : grammar A :=
  Field 4 [equals (kv_heads l) geometry_mismatch] (fun _ =>
  Field 4 [equals (head_dim l) geometry_mismatch] (fun _ =>
  Field 4 [equals (window l) geometry_mismatch] (fun _ =>
  Field 4 [equals (written l position) ring_cursor_mismatch] (fun _ =>
  Field 4 [equals (position mod window l) ring_cursor_mismatch] (fun _ =>
  ring_field l f16 position (fun ring_k =>
  ring_field l f16 position (fun ring_v => next ring_k ring_v))))))).

Definition versioned (l : layer) : grammar (bool * state) :=
  header l (fun f16 position =>
    match layer_kind l with
    | kind_full =>
        Field 4 [equals (flag f16) bad_flag] (fun _ =>
        Field 4 [equals position position_mismatch] (fun _ =>
        full_body l f16 position (fun vector importance hs => Done (f16, Full position vector importance hs))))
    | kind_linear => linear_body l (fun vector => Done (f16, Linear position vector))
    | kind_bounded => bounded_body l f16 position (fun k v => Done (f16, Bounded position k v))
    end).

(* A linear layer takes it without rows, and becomes its vector. *)
Definition unversioned (l : layer) : grammar (bool * state) :=
  Field 4 [at_most 1 bad_flag] (fun f =>
  Field 4 [] (fun s =>
    match layer_kind l with
    | kind_linear => full_body l (le f =? 1) 0 (fun vector _ _ => Done (le f =? 1, Linear (le s) vector))
    | _ => full_body l (le f =? 1) (le s) (fun vector importance hs => Done (le f =? 1, Full (le s) vector importance hs))
    end)).

Definition refuses_unversioned (l : layer) : bool :=
  negb (unversioned_allowed l) || match layer_kind l with kind_bounded => true | _ => false end.

Definition same_bytes (a b : list N) : bool := if list_eq_dec N.eq_dec a b then true else false.

(* A buffer of `length` bytes that begins the memory. *)
Definition decode_in (l : layer) (memory : list N) (length : N) : outcome (bool * state) :=
  let without_header :=
    if refuses_unversioned l then Refused (Error unversioned_refused 0 0 0) else run (unversioned l) 0 length memory in
  if length <? 4 then without_header
  else match split_at 4 memory with
       | None => Wild
       | Some (first, _) => if same_bytes first magic then run (versioned l) 0 length memory else without_header
       end.

Definition decode (l : layer) (b : list N) : outcome (bool * state) := decode_in l b (size b).

(* --- the encoder -------------------------------------------------------------------------------------------------------- *)

Definition leaving (f16 : bool) (v : list N) : list N := if f16 then map narrow v else v.
Definition element_bytes (f16 : bool) (v : list N) : list N := unwords f16 (leaving f16 v).

Definition header_bytes (l : layer) (f16 : bool) (position : N) : list N :=
  magic ++ to_le 4 2 ++ to_le 8 (identity l) ++ to_le 4 (layer_index l) ++ to_le 1 (kind_number (layer_kind l))
  ++ to_le 1 (flag f16) ++ to_le 2 0 ++ to_le 8 position.

Definition head_bytes (f16 : bool) (h : head) : list N :=
  to_le 4 (size (keys h)) ++ element_bytes f16 (keys h) ++ to_le 4 (size (values h)) ++ element_bytes f16 (values h).

Definition full_bytes (l : layer) (f16 : bool) (seq_len : N) (vector importance : list N) (hs : list head) : list N :=
  to_le 4 (flag f16) ++ to_le 4 seq_len ++ to_le 4 (kv_heads l) ++ to_le 4 (head_dim l) ++ to_le 4 (size vector)
  ++ to_le 4 (size importance) ++ unwords false vector ++ unwords false importance ++ flat_map (head_bytes f16) hs.

Definition record_bytes (l : layer) (f16 : bool) (s : state) : list N :=
  match s with
  | Full n vector importance hs => header_bytes l f16 n ++ full_bytes l f16 n vector importance hs
  | Linear n vector =>
      header_bytes l f16 n ++ to_le 4 (kv_heads l) ++ to_le 4 (head_dim l) ++ to_le 4 (size vector) ++ unwords false vector
  | Bounded n k v =>
      header_bytes l f16 n ++ to_le 4 (kv_heads l) ++ to_le 4 (head_dim l) ++ to_le 4 (window l) ++ to_le 4 (written l n)
      ++ to_le 4 (n mod window l) ++ element_bytes f16 k ++ element_bytes f16 v
  end.

(* The form that older peers send; it is never written. A ring has none. *)
Definition unversioned_bytes (l : layer) (f16 : bool) (s : state) : list N :=
  match s with
  | Full n vector importance hs => full_bytes l f16 n vector importance hs
  | Linear n vector => full_bytes l f16 n vector [] (repeat (Head [] []) (N.to_nat (kv_heads l)))
  | Bounded _ _ _ => []
  end.

(* The u32 fields, in record order. *)
Definition lengths (l : layer) (s : state) : list N :=
  match s with
  | Full n vector importance hs =>
      [n; kv_heads l; head_dim l; size vector; size importance] ++ map (fun h => size (keys h)) hs
  | Linear _ vector => [kv_heads l; head_dim l; size vector]
  | Bounded _ _ _ => [kv_heads l; head_dim l; window l]
  end.

(* The values that become binary16 under the flag, in record order. *)
Definition narrowed (s : state) : list N :=
  match s with
  | Full _ _ _ hs => flat_map (fun h => keys h ++ values h) hs
  | Linear _ _ => []
  | Bounded _ k v => k ++ v
  end.

Inductive writing := Written (b : list N) | Too_long (length : N) | Overflow (value : N).

Definition encode (l : layer) (f16 : bool) (s : state) : writing :=
  match find (fun n => 2 ^ 32 - 1 <? n) (lengths l s) with
  | Some n => Too_long n
  | None => match (if f16 then find overflows (narrowed s) else None) with
            | Some x => Overflow x
            | None => Written (record_bytes l f16 s)
            end
  end.

(* What is left of a state after the way there and back. *)
Definition there_and_back (f16 : bool) (v : list N) : list N := arrived f16 (leaving f16 v).
Definition travelled (f16 : bool) (s : state) : state :=
  match s with
  | Full n vector importance hs =>
      Full n vector importance (map (fun h => Head (there_and_back f16 (keys h)) (there_and_back f16 (values h))) hs)
  | Linear n vector => Linear n vector
  | Bounded n k v => Bounded n (there_and_back f16 k) (there_and_back f16 v)
  end.

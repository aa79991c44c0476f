(* The extracted decoder as a program: a record a line in, a verdict a line out. Numbers are Coq's; this file turns text into
   them and back.

   in    KIND HEADS HEAD_DIM WINDOW LAYER IDENTITY ALLOWED BYTES    KIND 0, 1, 2; IDENTITY and BYTES hexadecimal ("-": none)
   out   CODE OFFSET EXPECTED FOUND
         accept FLAG STATE RECORD32 RECORD16    digests: of the state, and of its record in each format, which instead may
                                                be f16_overflow:BITS *)
open Wire_model

let rec positive_of_int i = if i = 1 then XH else if i land 1 = 0 then XO (positive_of_int (i lsr 1)) else XI (positive_of_int (i lsr 1))
let n_of_int i = if i = 0 then N0 else Npos (positive_of_int i)
let n_of_byte = Array.init 256 n_of_int

let rec int64_of_positive = function
  | XH -> 1L
  | XO p -> Int64.shift_left (int64_of_positive p) 1
  | XI p -> Int64.logor 1L (Int64.shift_left (int64_of_positive p) 1)
let int64_of_n = function N0 -> 0L | Npos p -> int64_of_positive p

(* For values below 2^62. *)
let rec int_of_positive = function XH -> 1 | XO p -> 2 * int_of_positive p | XI p -> 2 * int_of_positive p + 1
let int_of_n = function N0 -> 0 | Npos p -> int_of_positive p

let rec bits = function XH -> 1 | XO p | XI p -> 1 + bits p
let decimal n =
  match n with
  | Npos p when bits p > 64 -> failwith "a value over 64 bits"
  | _ -> Printf.sprintf "%Lu" (int64_of_n n)

let digit c =
  match c with
  | '0' .. '9' -> Char.code c - 48
  | 'a' .. 'f' -> Char.code c - 87
  | _ -> failwith "no hexadecimal digit"

let bytes_of_hex text =
  if text = "-" then []
  else begin
    if String.length text mod 2 <> 0 then failwith "half a byte";
    let rec from i rest =
      if i < 0 then rest else from (i - 2) (n_of_byte.((16 * digit text.[i]) + digit text.[i + 1]) :: rest)
    in
    from (String.length text - 2) []
  end

(* Most significant digit first. *)
let n_of_hex text =
  let byte_list = List.rev (bytes_of_hex text) in
  le byte_list

let n_of_decimal text = n_of_int (int_of_string text)

let name = function
  | Truncated -> "truncated"
  | Bad_version -> "bad_version"
  | Identity_mismatch -> "identity_mismatch"
  | Layer_mismatch -> "layer_mismatch"
  | Unknown_kind -> "unknown_kind"
  | Kind_mismatch -> "kind_mismatch"
  | Bad_flag -> "bad_flag"
  | Reserved_not_zero -> "reserved_not_zero"
  | Position_out_of_range -> "position_out_of_range"
  | Position_mismatch -> "position_mismatch"
  | Geometry_mismatch -> "geometry_mismatch"
  | Inconsistent_length -> "inconsistent_length"
  | Ring_cursor_mismatch -> "ring_cursor_mismatch"
  | Ring_slot_not_zero -> "ring_slot_not_zero"
  | Trailing_bytes -> "trailing_bytes"
  | Unversioned_refused -> "unversioned_refused"

(* A polynomial over words, kept to 62 bits. *)
let digest = List.fold_left (fun h w -> (h * 1000003) lxor w land max_int) 0

let words_of_position n =
  let i = int64_of_n n in
  [ Int64.to_int (Int64.logand i 0xFFFFFFFFL); Int64.to_int (Int64.shift_right_logical i 32) ]

let array v = List.length v :: List.map int_of_n v

let state_words = function
  | Full (n, vector, importance, heads) ->
      (0 :: words_of_position n) @ array vector @ array importance
      @ List.concat_map (fun h -> array h.keys @ array h.values) heads
  | Linear (n, vector) -> (1 :: words_of_position n) @ array vector
  | Bounded (n, k, v) -> (2 :: words_of_position n) @ array k @ array v

let record layer f16 state =
  match encode layer f16 state with
  | Written b -> string_of_int (digest (array b))
  | Overflow x -> "f16_overflow:" ^ decimal x
  | Too_long n -> "length_overflow:" ^ decimal n

let verdict layer buffer =
  match decode layer buffer with
  | Wild -> "wild"
  | Refused e -> Printf.sprintf "%s %s %s %s" (name e.why) (decimal e.offset) (decimal e.expected) (decimal e.found)
  | Accepted (f16, state) ->
      Printf.sprintf "accept %d %d %s %s" (Bool.to_int f16) (digest (state_words state)) (record layer false state)
        (record layer true state)

let judge line =
  match String.split_on_char ' ' line with
  | [ kind; heads; dim; window; layer; identity; allowed; buffer ] ->
      let layer_kind = match kind with "0" -> Kind_full | "1" -> Kind_linear | "2" -> Kind_bounded | _ -> failwith "kind" in
      let layer =
        { identity = n_of_hex identity; layer_index = n_of_decimal layer; layer_kind; unversioned_allowed = allowed = "1";
          kv_heads = n_of_decimal heads; head_dim = n_of_decimal dim; window = n_of_decimal window }
      in
      verdict layer (bytes_of_hex buffer)
  | _ -> failwith "eight words a line"

let () =
  try
    while true do
      print_endline (judge (input_line stdin))
    done
  with End_of_file -> ()

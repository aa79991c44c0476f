(* The model as an OCaml program. Only Coq's own mapping of bool, option, list, pairs is used: numbers stay Coq's. *)
From Coq Require Import Extraction ExtrOcamlBasic.
From KvCodec Require Import Grammar Record.

Extraction Language OCaml.
Extraction "wire_model.ml" decode encode le.

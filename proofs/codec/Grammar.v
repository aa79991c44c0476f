(* How a record is read: a grammar is fields in byte order, each with its size and the conditions of its "accepted"
   column; what comes next may depend on what was read. `run` reads a buffer that lies in a larger memory. `reads` says,
   without running anything, which outcome docs/wire.md's reading order gives. They are the same, for every grammar. *)
From Coq Require Import NArith PeanoNat List Lia Bool.
From KvCodec Require Import Bytes.
Import ListNotations.
Open Scope N_scope.

Inductive code :=
| truncated | bad_version | identity_mismatch | layer_mismatch | unknown_kind | kind_mismatch | bad_flag
| reserved_not_zero | position_out_of_range | position_mismatch | geometry_mismatch | inconsistent_length
| ring_cursor_mismatch | ring_slot_not_zero | trailing_bytes | unversioned_refused.

Record error := Error { why : code; offset : N; expected : N; found : N }.

(* A condition names its fault, with the offset inside the field. *)
Record fault := Fault { f_code : code; f_offset : N; f_expected : N; f_found : N }.
Definition condition := list N -> option fault.

Definition error_at (at_ : N) (f : fault) : error := Error (f_code f) (at_ + f_offset f) (f_expected f) (f_found f).

Fixpoint first_fault (conditions : list condition) (field : list N) : option fault :=
  match conditions with
  | [] => None
  | c :: cs => match c field with
               | Some f => Some f
               | None => first_fault cs field
               end
  end.

Inductive grammar (A : Type) : Type :=
| Done (a : A)
| Field (n : N) (conditions : list condition) (next : list N -> grammar A).
Arguments Done {A}.
Arguments Field {A}.

(* Wild: memory was read where there is none. *)
Inductive outcome (A : Type) : Type := Accepted (a : A) | Refused (e : error) | Wild.
Arguments Accepted {A}.
Arguments Refused {A}.
Arguments Wild {A}.

(* At byte at_, with `left` bytes of the buffer left; mem is the memory from here on, of any length. *)
Fixpoint run {A} (g : grammar A) (at_ left : N) (mem : list N) : outcome A :=
  match g with
  | Done a => if left =? 0 then Accepted a else Refused (Error trailing_bytes at_ at_ (at_ + left))
  | Field n conditions next =>
      if left <? n then Refused (Error truncated at_ n left)
      else match split_at n mem with
           | None => Wild
           | Some (field, rest) =>
               match first_fault conditions field with
               | Some f => Refused (error_at at_ f)
               | None => run (next field) (at_ + n) (left - n) rest
               end
           end
  end.

Definition holds (field : list N) (c : condition) : Prop := c field = None.

Inductive reads {A} : grammar A -> N -> list N -> outcome A -> Prop :=
| reads_end a at_ : reads (Done a) at_ [] (Accepted a)
| reads_trailing a at_ b : b <> [] -> reads (Done a) at_ b (Refused (Error trailing_bytes at_ at_ (at_ + size b)))
| reads_truncated n cs next at_ b :
    size b < n -> reads (Field n cs next) at_ b (Refused (Error truncated at_ n (size b)))
| reads_fault n before c after next at_ field rest f :
    size field = n -> Forall (holds field) before -> c field = Some f ->
    reads (Field n (before ++ c :: after) next) at_ (field ++ rest) (Refused (error_at at_ f))
| reads_on n cs next at_ field rest o :
    size field = n -> Forall (holds field) cs -> reads (next field) (at_ + n) rest o ->
    reads (Field n cs next) at_ (field ++ rest) o.

(* --- run and reads are one ------------------------------------------------------------------------------------------ *)

Lemma first_fault_none cs field : first_fault cs field = None <-> Forall (holds field) cs.
Proof.
  induction cs as [|c cs IH]; cbn [first_fault]; split; intros H.
  - constructor.
  - reflexivity.
  - destruct (c field) eqn:E; [discriminate|]. constructor; [exact E | now apply IH].
  - inversion_clear H as [|? ? Hc Hcs]. unfold holds in Hc. rewrite Hc. now apply IH.
Qed.

Lemma first_fault_some cs field f : first_fault cs field = Some f <->
  exists before c after, cs = before ++ c :: after /\ Forall (holds field) before /\ c field = Some f.
Proof.
  split.
  - induction cs as [|c cs IH]; cbn [first_fault]; intros H; [discriminate|].
    destruct (c field) eqn:E.
    + injection H as ->. exists [], c, cs. auto.
    + destruct (IH H) as (before & c' & after & -> & Hb & Hf). exists (c :: before), c', after.
      repeat split; [constructor; assumption | exact Hf].
  - intros (before & c & after & -> & Hb & Hf). induction Hb as [|c' before Hc' _ IH]; cbn [first_fault app].
    + now rewrite Hf.
    + unfold holds in Hc'. now rewrite Hc'.
Qed.

Lemma run_reads {A} (g : grammar A) : forall at_ b beyond, reads g at_ b (run g at_ (size b) (b ++ beyond)).
Proof.
  induction g as [a | n cs next IH]; intros at_ b beyond; cbn [run].
  - destruct (N.eqb_spec (size b) 0) as [E|E].
    + apply size_zero in E. subst b. constructor.
    + constructor. intros ->. now apply E.
  - destruct (N.ltb_spec (size b) n) as [E|E]; [now constructor|].
    destruct (split_size n b E) as (field & rest & -> & Hn).
    subst n. rewrite <- app_assoc, split_at_app.
    destruct (first_fault cs field) as [f|] eqn:F.
    + apply first_fault_some in F. destruct F as (before & c & after & -> & Hb & Hf). now econstructor.
    + apply first_fault_none in F. constructor; [reflexivity | exact F|].
      replace (size (field ++ rest) - size field) with (size rest) by (rewrite size_app; lia). apply IH.
Qed.

(* The reading order leaves one outcome, not two. *)
Lemma reads_run {A} (g : grammar A) at_ b beyond o : reads g at_ b o -> run g at_ (size b) (b ++ beyond) = o.
Proof.
  induction 1 as [a at_ | a at_ b Hb | n cs next at_ b Hn | n before c after next at_ field rest f Hn Hb Hf
                 | n cs next at_ field rest o Hn Hc H IH]; cbn [run].
  - reflexivity.
  - destruct (N.eqb_spec (size b) 0) as [E|E]; [apply size_zero in E; contradiction | reflexivity].
  - destruct (N.ltb_spec (size b) n); [reflexivity | lia].
  - subst n. destruct (N.ltb_spec (size (field ++ rest)) (size field)) as [E|E]; [rewrite size_app in E; lia|].
    rewrite <- app_assoc, split_at_app.
    assert (first_fault (before ++ c :: after) field = Some f) as -> by (apply first_fault_some; eauto 6).
    reflexivity.
  - subst n. destruct (N.ltb_spec (size (field ++ rest)) (size field)) as [E|E]; [rewrite size_app in E; lia|].
    rewrite <- app_assoc, split_at_app. apply first_fault_none in Hc. rewrite Hc.
    replace (size (field ++ rest) - size field) with (size rest) by (rewrite size_app; lia). exact IH.
Qed.

Theorem run_is_reads {A} (g : grammar A) at_ b beyond o : run g at_ (size b) (b ++ beyond) = o <-> reads g at_ b o.
Proof. split; [intros <-; apply run_reads | apply reads_run]. Qed.

Lemma reads_unique {A} (g : grammar A) at_ b o1 o2 : reads g at_ b o1 -> reads g at_ b o2 -> o1 = o2.
Proof. intros H1 H2. rewrite <- (reads_run _ _ _ [] _ H1). exact (reads_run _ _ _ [] _ H2). Qed.

Lemma reads_never_wild {A} (g : grammar A) at_ b : ~ reads g at_ b Wild.
Proof. intros H. remember Wild as o. induction H; try discriminate; auto. Qed.

(* --- what a reading looks at -------------------------------------------------------------------------------------- *)

(* Conditions point into their field. *)
Definition inside (n : N) (c : condition) : Prop := forall field f, size field = n -> c field = Some f -> f_offset f < n.

Fixpoint well_pointed {A} (g : grammar A) : Prop :=
  match g with
  | Done _ => True
  | Field n cs next => Forall (inside n) cs /\ forall field, size field = n -> well_pointed (next field)
  end.

(* How a refusal came about: everything before `start` was accepted, and then the end, a field too long for what is
   left, or a condition of the field [start, start + n) that fails. The second list is what was read; any bytes may
   follow it where the second constructor allows. *)
Inductive refusal {A} (g : grammar A) (at_ : N) (b : list N) (e : error) : Prop :=
| at_the_end a before rest :
    b = before ++ rest -> rest <> [] -> e = Error trailing_bytes (at_ + size before) (at_ + size before) (at_ + size b) ->
    reads g at_ before (Accepted a) -> refusal g at_ b e
| no_room before rest n :
    b = before ++ rest -> size rest < n -> e = Error truncated (at_ + size before) n (size rest) ->
    (forall z, size z < n -> reads g at_ (before ++ z) (Refused (Error truncated (at_ + size before) n (size z)))) ->
    refusal g at_ b e
| not_accepted before field rest f :
    b = before ++ field ++ rest -> e = error_at (at_ + size before) f -> f_offset f < size field ->
    (forall later, reads g at_ (before ++ field ++ later) (Refused e)) ->
    (forall z, size z < size field ->
       reads g at_ (before ++ z) (Refused (Error truncated (at_ + size before) (size field) (size z)))) ->
    refusal g at_ b e.

Lemma refusals {A} (g : grammar A) : forall at_ b e, well_pointed g -> reads g at_ b (Refused e) -> refusal g at_ b e.
Proof.
  induction g as [a | n cs next IH]; intros at_ b e W H.
  - inversion H; subst. apply (at_the_end _ _ _ _ a [] b); try reflexivity; auto.
    + rewrite size_nil, N.add_0_r. reflexivity.
    + constructor.
  - destruct W as [Wc Wn]. inversion H; subst.
    + apply (no_room _ _ _ _ [] b n); try reflexivity; auto.
      * rewrite size_nil, N.add_0_r. reflexivity.
      * intros z Hz. rewrite size_nil, N.add_0_r. now apply reads_truncated.
    + apply (not_accepted _ _ _ _ [] field rest f); try reflexivity.
      * rewrite size_nil, N.add_0_r. reflexivity.
      * apply Forall_app in Wc. destruct Wc as [_ Wc]. inversion_clear Wc as [|? ? Wc' _]. eapply Wc'; eauto.
      * intros later. cbn [app]. now apply reads_fault.
      * intros z Hz. rewrite size_nil, N.add_0_r. now apply reads_truncated.
    + pose proof (Wn field eq_refl) as Wn'.
      match goal with R : reads (next field) _ _ _ |- _ => destruct (IH field _ _ _ Wn' R) end; subst;
        rewrite <- N.add_assoc, <- size_app in *.
      * apply (at_the_end _ _ _ _ a (field ++ before) rest0); rewrite <- ?app_assoc; auto.
        -- rewrite !size_app. f_equal; lia.
        -- econstructor; eauto.
      * apply (no_room _ _ _ _ (field ++ before) rest0 n); rewrite <- ?app_assoc; auto.
        intros z Hz. rewrite <- app_assoc. econstructor; eauto.
      * apply (not_accepted _ _ _ _ (field ++ before) field0 rest0 f); rewrite <- ?app_assoc; auto.
        -- intros later. rewrite <- app_assoc. econstructor; eauto.
        -- intros z Hz. rewrite <- app_assoc. econstructor; eauto.
Qed.

Lemma reads_longer {A} (g : grammar A) : forall at_ b a rest, reads g at_ b (Accepted a) -> rest <> [] ->
  reads g at_ (b ++ rest) (Refused (Error trailing_bytes (at_ + size b) (at_ + size b) (at_ + size (b ++ rest)))).
Proof.
  induction g as [a' | n cs next IH]; intros at_ b a rest H Hr; inversion H; subst.
  - rewrite size_nil, N.add_0_r. now constructor.
  - rewrite <- app_assoc. econstructor; eauto.
    replace (at_ + size (field ++ rest0)) with (at_ + size field + size rest0) by (rewrite size_app; lia).
    replace (at_ + size (field ++ rest0 ++ rest)) with (at_ + size field + size (rest0 ++ rest)) by (rewrite !size_app; lia).
    eapply IH; eauto.
Qed.

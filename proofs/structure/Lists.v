(** Lists as memory: cells that are updated, loops over them, and the exchange of two loops. *)
From Coq Require Import List Arith Lia.
Import ListNotations.

Section Lists.
Context {T : Type}.

(** Cell i changed by f; a list has no cells past its end. *)
Fixpoint update (i : nat) (f : T -> T) (l : list T) : list T :=
  match l, i with
  | [], _ => []
  | x :: rest, O => f x :: rest
  | x :: rest, S j => x :: update j f rest
  end.

Definition set (i : nat) (x : T) : list T -> list T := update i (fun _ => x).

Lemma update_length i f l : length (update i f l) = length l.
Proof. revert i; induction l; destruct i; simpl; auto. Qed.

Lemma set_length i x l : length (set i x l) = length l.
Proof. apply update_length. Qed.

Lemma nth_error_update i f l j :
  nth_error (update i f l) j = if i =? j then option_map f (nth_error l j) else nth_error l j.
Proof.
  revert i j; induction l; intros [|i] [|j]; simpl; auto.
  - destruct (i =? j); auto.
Qed.

Lemma nth_update_same i f l d : i < length l -> nth i (update i f l) d = f (nth i l d).
Proof.
  revert i; induction l; simpl; intros i Hi; [lia|].
  destruct i; simpl; auto. apply IHl; lia.
Qed.

Lemma nth_update_other i j f l d : i <> j -> nth j (update i f l) d = nth j l d.
Proof.
  revert i j; induction l; intros [|i] [|j] H; simpl; auto; try lia.
Qed.

Lemma nth_set_same i x l d : i < length l -> nth i (set i x l) d = x.
Proof. intro. unfold set. now rewrite nth_update_same. Qed.

Lemma nth_set_other i j x l d : i <> j -> nth j (set i x l) d = nth j l d.
Proof. apply nth_update_other. Qed.

Lemma set_set i x y l : set i x (set i y l) = set i x l.
Proof. unfold set. revert i; induction l; destruct i; simpl; f_equal; auto. Qed.

Lemma set_nth i l d : set i (nth i l d) l = l.
Proof. unfold set. revert i; induction l; destruct i; simpl; f_equal; auto. Qed.

Lemma update_app g l1 x l2 : update (length l1) g (l1 ++ x :: l2) = l1 ++ g x :: l2.
Proof. induction l1; simpl; f_equal; auto. Qed.

(** A list written from the left, cell by cell, holds what was written, whatever was there before. *)
Lemma set_all (f : nat -> T) n l :
  length l = n -> fold_left (fun l i => set i (f i) l) (seq 0 n) l = map f (seq 0 n).
Proof.
  enough (H : forall k l1 l2, length l2 = k ->
    fold_left (fun l i => set i (f i) l) (seq (length l1) k) (l1 ++ l2) = l1 ++ map f (seq (length l1) k))
    by (intro; apply (H n [] l); auto).
  induction k; intros l1 [|x l2] Hl; simpl in *; try discriminate; auto.
  unfold set at 2. rewrite update_app.
  specialize (IHk (l1 ++ [f (length l1)]) l2).
  rewrite app_length, Nat.add_1_r, <- !app_assoc in IHk. apply IHk. lia.
Qed.

Lemma skipn_nth n (l : list T) d : n < length l -> skipn n l = nth n l d :: skipn (S n) l.
Proof.
  revert n; induction l; simpl; intros n Hn; [lia|].
  destruct n; auto. apply IHl; lia.
Qed.

Lemma skipn_seq n k m : skipn n (seq k m) = seq (k + n) (m - n).
Proof.
  revert k m; induction n; intros k m; [now rewrite Nat.add_0_r, Nat.sub_0_r|].
  destruct m; simpl; auto. rewrite IHn. f_equal; lia.
Qed.

Lemma firstn_seq n k m : n <= m -> firstn n (seq k m) = seq k n.
Proof.
  revert k m; induction n; intros k m H; auto.
  destruct m; [lia|]. simpl. f_equal. apply IHn. lia.
Qed.

Lemma nth_firstn n i (l : list T) d : i < n -> nth i (firstn n l) d = nth i l d.
Proof.
  revert n l; induction i; intros [|n] [|x l] H; simpl; auto; try lia. apply IHi. lia.
Qed.

Lemma nth_skipn n i (l : list T) d : nth i (skipn n l) d = nth (n + i) l d.
Proof. revert l; induction n; intros [|x l]; simpl; auto. now destruct i. Qed.

(** n elements from place b on are what [map] reads there. *)
Lemma slice_map_seq (f : nat -> T) b n k m :
  b + n <= m -> firstn n (skipn b (map f (seq k m))) = map f (seq (k + b) n).
Proof. intro H. rewrite skipn_map, skipn_seq, firstn_map, firstn_seq by lia. reflexivity. Qed.

(** The list with f of place and element in every cell. *)
Fixpoint map_at {U} (f : nat -> T -> U) (k : nat) (l : list T) : list U :=
  match l with
  | [] => []
  | x :: rest => f k x :: map_at f (S k) rest
  end.

Lemma map_at_length {U} (f : nat -> T -> U) k l : length (map_at f k l) = length l.
Proof. revert k; induction l; simpl; auto. Qed.

Lemma map_at_ext {U} (f g : nat -> T -> U) k l :
  (forall i x, In x l -> f i x = g i x) -> map_at f k l = map_at g k l.
Proof. revert k; induction l; simpl; intros k H; f_equal; auto. Qed.

Lemma nth_map_at (f : nat -> T -> T) k l i d :
  i < length l -> nth i (map_at f k l) d = f (k + i) (nth i l d).
Proof.
  revert k i; induction l; intros k [|i] H; simpl in *; try lia.
  - now rewrite Nat.add_0_r.
  - rewrite IHl by lia. f_equal. lia.
Qed.

Lemma map_at_compose (f g : nat -> T -> T) k l : map_at f k (map_at g k l) = map_at (fun i x => f i (g i x)) k l.
Proof. revert k; induction l; simpl; intro; f_equal; auto. Qed.

Lemma map_at_ext_all (f g : nat -> T -> T) k l : (forall i x, f i x = g i x) -> map_at f k l = map_at g k l.
Proof. revert k; induction l; simpl; intros k H; f_equal; auto. Qed.

Lemma map_at_id (f : nat -> T -> T) k l : (forall i x, f i x = x) -> map_at f k l = l.
Proof. revert k; induction l; simpl; intros k H; f_equal; auto. Qed.

Lemma update_each (f : nat -> T -> T) l :
  fold_left (fun l i => update i (f i) l) (seq 0 (length l)) l = map_at f 0 l.
Proof.
  enough (H : forall l2 l1,
    fold_left (fun l i => update i (f i) l) (seq (length l1) (length l2)) (l1 ++ l2) =
    l1 ++ map_at f (length l1) l2) by apply (H l []).
  induction l2; intros l1; simpl; auto.
  rewrite update_app.
  specialize (IHl2 (l1 ++ [f (length l1) a])).
  rewrite app_length, Nat.add_1_r, <- !app_assoc in IHl2. exact IHl2.
Qed.

(** The exchange of two loops: rows outer and cells inner leave in each cell what all rows do to that cell alone. *)
Lemma rows_outer_cells_inner {R} (step : R -> nat -> T -> T) rows l :
  fold_left (fun l r => fold_left (fun l i => update i (step r i) l) (seq 0 (length l)) l) rows l =
  map_at (fun i x => fold_left (fun x r => step r i x) rows x) 0 l.
Proof.
  revert l; induction rows; intro l; simpl.
  - generalize 0. induction l; simpl; intro; f_equal; auto.
  - rewrite update_each, IHrows. generalize 0.
    induction l; simpl; intro; f_equal; auto.
Qed.

(** Cells beside the elements of another list: what is done to a cell depends on its element. *)
Lemma map_at_nth {U V} (us : list U) d (f : nat -> T -> V) (g : U -> T -> V) k l :
  length l = length us -> (forall i x, i < length us -> In x l -> f (k + i) x = g (nth i us d) x) ->
  map_at f k l = map (fun ux => g (fst ux) (snd ux)) (combine us l).
Proof.
  revert k us; induction l as [|x l IH]; intros k [|u us] Hl H; simpl in *; try discriminate; auto.
  f_equal.
  - rewrite <- (Nat.add_0_r k) at 1. apply (H 0); auto; lia.
  - apply IH; [lia|]. intros i y Hi Hy. rewrite Nat.add_succ_comm. apply (H (S i)); auto; lia.
Qed.

End Lists.

Lemma fold_left_ext_in {T U} (f g : T -> U -> T) l x :
  (forall y u, In u l -> f y u = g y u) -> fold_left f l x = fold_left g l x.
Proof.
  revert x; induction l; simpl; intros x H; auto.
  rewrite H by auto. apply IHl. auto.
Qed.

Lemma fold_left_map {T U V} (f : T -> V -> T) (g : U -> V) l x :
  fold_left f (map g l) x = fold_left (fun y u => f y (g u)) l x.
Proof. revert x; induction l; simpl; auto. Qed.

Lemma fold_left_skip {T U} (f : T -> U -> T) l x :
  (forall y u, In u l -> f y u = y) -> fold_left f l x = x.
Proof.
  revert x; induction l; simpl; intros x H; auto.
  rewrite H by auto. apply IHl. auto.
Qed.

Lemma seq_from k m n : seq (k + m) n = map (fun i => k + i) (seq m n).
Proof.
  revert m; induction n; intro m; simpl; auto. f_equal. rewrite <- IHn. f_equal. lia.
Qed.

Lemma map_const_seq {T} (x : T) n k : map (fun _ => x) (seq k n) = repeat x n.
Proof. revert k; induction n; simpl; intro; f_equal; auto. Qed.

Lemma map_repeat {T U} (f : T -> U) x n : map f (repeat x n) = repeat (f x) n.
Proof. induction n; simpl; f_equal; auto. Qed.

Lemma combine_app {T U} (l1 l2 : list T) (m1 m2 : list U) :
  length l1 = length m1 -> combine (l1 ++ l2) (m1 ++ m2) = combine l1 m1 ++ combine l2 m2.
Proof. revert m1; induction l1; intros [|x m1] H; simpl in *; try discriminate; auto. f_equal. auto. Qed.

(** A fold over places and their elements, place by place. *)
Lemma fold_places {T U} (f : T -> nat -> U -> T) d k l x :
  fold_left (fun x pu => f x (fst pu) (snd pu)) (combine (seq k (length l)) l) x =
  fold_left (fun x i => f x (k + i) (nth i l d)) (seq 0 (length l)) x.
Proof.
  revert k x; induction l as [|u l IH]; intros k x; simpl; auto.
  rewrite IH, Nat.add_0_r, <- (seq_shift (length l) 0), fold_left_map.
  apply fold_left_ext_in. intros y i _. now rewrite Nat.add_succ_comm.
Qed.

(** Elements of two lists of equal length, with an operation. *)
Definition zip_with {T U V} (f : T -> U -> V) (l : list T) (m : list U) : list V :=
  map (fun xy => f (fst xy) (snd xy)) (combine l m).

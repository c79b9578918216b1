; Replay window of a receive SA: crates/secy/src/replay_window.rs, struct ReplayWindow.
;
; In words: for every window width up to 2^20, every PN and every order of calls,
;   - no PN is fresh twice;
;   - a PN that was never marked and is not below lowest_pn is fresh, so no good frame is taken for a replay;
;   - lowest_pn never falls;
;   - no calculation leaves 64 bits.
;
; Method: induction over calls, with full widths. The PN p and the call's argument are arbitrary. Of the ring only one bit is
; followed: that at p's slot. Other bits are arbitrary, so the code may do with them what it likes. `seen` is history: p was
; marked. The invariant says that p's bit is `seen` as long as p is not late and its block is not above the newest one.
;
; Tied to the code by replay_window.vectors: crates/secy's test writes it from runs of the code, and it is checked against the
; definitions below.

(set-logic QF_LIA)
(define-fun max ((a Int) (b Int)) Int (ite (>= a b) a b))
(define-fun min ((a Int) (b Int)) Int (ite (<= a b) a b))
(define-fun block_of ((pn Int)) Int (div pn 64))
(define-fun saturating_add_1 ((a Int)) Int (ite (= a 18446744073709551615) a (+ a 1)))
(define-fun saturating_sub ((a Int) (b Int)) Int (ite (>= a b) (- a b) 0))

; Number of blocks: 0 without a window, else (window.div_ceil(64) + 1).next_power_of_two(). `ring` is that number for a window
; of one or more; each of its values is a case of each goal, so that the solver sees a constant.
(define-fun needed ((window Int)) Int (+ (div (+ window 63) 64) 1))
(declare-const ring Int)
(define-fun is_ring ((window Int)) Bool
  (and (<= (needed window) ring) (< (div ring 2) (needed window))))
(define-fun blocks ((window Int)) Int (ite (= window 0) 0 ring))

; Two PNs share a bit of the ring: their blocks have one index, pn / 64 & (ring - 1), and they have one place in it. That this is a
; remainder of their difference is proven of the code's own terms in replay_ring.smt2.
(define-fun same_slot ((a Int) (b Int)) Bool
  (and (= (mod (- a b) 64) 0) (= (mod (div (- a b) 64) ring) 0)))

(define-fun lowest ((highest Int) (floor Int) (window Int)) Int
  (ite (= window 0) (saturating_add_1 highest)
       (max (saturating_sub highest (- window 1)) floor)))

; classify(): 0 fresh, 1 late, 2 duplicate. `bit` is that at pn's slot.
(define-fun classify ((highest Int) (floor Int) (window Int) (bit Bool) (pn Int)) Int
  (ite (> pn highest) 0
  (ite (or (= window 0) (< pn floor) (>= (- highest pn) window)) 1
  (ite bit 2 0))))

; clear_between(old, new): blocks new/64 - step for each step below `entered`. So p's block is cleared if its distance below
; new/64, around the ring, is less than that; `ring-distance` in replay_ring.smt2 is the reason.
(define-fun entered ((window Int) (old Int) (new Int)) Int (min (- (block_of new) (block_of old)) (blocks window)))
(define-fun cleared ((window Int) (old Int) (new Int) (p Int)) Bool
  (and (not (= window 0))
       (< (mod (- (block_of new) (block_of p)) ring) (entered window old new))))

; commit(pn): the next highest, and the next bit of p.
(define-fun commit_highest ((highest Int) (floor Int) (window Int) (bit_pn Bool) (pn Int)) Int
  (ite (and (= (classify highest floor window bit_pn pn) 0) (> pn highest)) pn highest))
(define-fun commit_bit ((highest Int) (floor Int) (window Int) (bit_pn Bool) (pn Int) (bit Bool) (p Int)) Bool
  (ite (not (= (classify highest floor window bit_pn pn) 0)) bit
  (ite (and (not (= window 0)) (same_slot pn p)) true
  (ite (and (> pn highest) (cleared window highest pn p)) false
  bit))))

; raise(lowest_pn): highest, floor, bit of p.
(define-fun raise_highest ((highest Int) (to Int)) Int (max highest (- to 1)))
(define-fun raise_floor ((floor Int) (to Int)) Int (max floor to))
(define-fun raise_bit ((highest Int) (window Int) (to Int) (bit Bool) (p Int)) Bool
  (let ((below (- to 1)))
  (ite (and (> below highest) (cleared window highest below p)) false bit)))

; advance(pn): without replay protection, nothing is marked.
(define-fun advance_highest ((highest Int) (pn Int)) Int (max highest pn))
(define-fun advance_bit ((highest Int) (window Int) (pn Int) (bit Bool) (p Int)) Bool
  (ite (and (> pn highest) (cleared window highest pn p)) false bit))

; take_over(before, marked), by a window that was just made at `floor`: highest, floor, bit of p.
(define-fun take_over_highest ((highest Int) (before Int)) Int (max before highest))
(define-fun take_over_floor ((floor Int) (marked Bool) (b_highest Int) (b_floor Int) (b_window Int)) Int
  (max floor (ite marked (lowest b_highest b_floor b_window) (saturating_add_1 b_highest))))
(define-fun take_over_bit ((highest Int) (floor Int) (window Int) (marked Bool) (b_highest Int) (b_floor Int) (b_window Int) (b_bit Bool) (p Int)) Bool
  (ite (or (= window 0) (= b_window 0)) false
  (let ((first (block_of (lowest (take_over_highest highest b_highest) (take_over_floor floor marked b_highest b_floor b_window) window)))
        (last (block_of b_highest)))
  (and (<= first (block_of p)) (<= (block_of p) last) b_bit))))

; The invariant.
(define-fun sane ((highest Int) (floor Int) (window Int)) Bool
  (and (<= window 1048576) (>= floor 1) (>= highest (- floor 1))))
(define-fun holds ((highest Int) (floor Int) (window Int) (bit Bool) (p Int) (seen Bool)) Bool
  (and (sane highest floor window)
       ; What was seen is not above the highest.
       (=> seen (<= p highest))
       (=> (and (not (= window 0))
                (>= p (lowest highest floor window))
                (<= (block_of p) (block_of highest)))
           (= bit seen))))

;@cases ring 2 4 8 16 32 64 128 256 512 1024 2048 4096 8192 16384 32768
;@vectors

(declare-const highest Int)
(declare-const floor Int)
(declare-const window Int)
(declare-const bit Bool)
(declare-const p Int)
(declare-const seen Bool)
(declare-const pn Int)
(declare-const other Bool)
(define-fun u64 ((a Int)) Bool (and (<= 0 a) (<= a 18446744073709551615)))
(assert (and (u64 highest) (u64 floor) (u64 window) (u64 p) (u64 pn)))
(define-fun bit_pn () Bool (ite (same_slot pn p) bit other))
(define-fun zero () Int 0)
(define-fun fits () Bool (or (= window zero) (is_ring window)))

;@goal new-window
(assert (and (<= window 1048576) (>= pn 1) (not (= p zero))))
(assert (not (holds (- pn 1) pn window false p false)))
;@goal commit-keeps-the-invariant
(assert (and fits (holds highest floor window bit p seen) (not (= pn zero)) (not (= p zero))))
(assert (not (holds (commit_highest highest floor window bit_pn pn) floor window
  (commit_bit highest floor window bit_pn pn bit p) p
  (or seen (and (= pn p) (= (classify highest floor window bit_pn pn) 0))))))
;@goal no-pn-is-fresh-twice
(assert (holds highest floor window bit p seen))
(assert (and seen (= (classify highest floor window bit p) 0)))
;@goal no-good-frame-is-a-replay
(assert (and (holds highest floor window bit p seen) (not seen) (not (= p zero))))
(assert (or (> p highest) (and (not (= window zero)) (>= p (lowest highest floor window)))))
(assert (not (= (classify highest floor window bit p) 0)))
;@goal what-is-below-lowest-is-late
(assert (and (sane highest floor window) (< p (lowest highest floor window)) (not (= (classify highest floor window bit p) 1))))
;@goal raise-keeps-the-invariant
(assert (and fits (holds highest floor window bit p seen) (not (= pn zero)) (not (= p zero))))
(assert (not (holds (raise_highest highest pn) (raise_floor floor pn) window (raise_bit highest window pn bit p) p seen)))
;@goal raise-makes-late
(assert (and (sane highest floor window) (not (= pn zero)) (< p pn)))
(assert (= (classify (raise_highest highest pn) (raise_floor floor pn) window bit p) 0))
;@goal advance-keeps-the-invariant
(assert (and fits (holds highest floor window bit p seen) (not (= pn zero)) (not (= p zero))))
(assert (not (holds (advance_highest highest pn) floor window (advance_bit highest window pn bit p) p seen)))
;@goal lowest-never-falls
(assert (and (sane highest floor window) (not (= pn zero))))
(assert (let ((low (lowest highest floor window)))
  (or (< (lowest (commit_highest highest floor window other pn) floor window) low)
      (< (lowest (raise_highest highest pn) (raise_floor floor pn) window) low)
      (< (lowest (advance_highest highest pn) floor window) low))))
;@goal nothing-leaves-64-bits
; highest - pn, new/64 - old/64, new - step * 64, each where the code computes it.
(assert fits)
(assert (sane highest floor window))
(assert (or (and (<= pn highest) (> (- highest pn) highest))
            (and (> pn highest) (< (block_of pn) (block_of highest)))
            (and (> pn highest) (< p (entered window highest pn)) (> (* 64 p) pn))))

(declare-const b_highest Int)
(declare-const b_floor Int)
(declare-const b_window Int)
(declare-const marked Bool)
(assert (and (u64 b_highest) (u64 b_floor) (u64 b_window)))
(define-fun t_highest () Int (take_over_highest highest b_highest))
(define-fun t_floor () Int (take_over_floor floor marked b_highest b_floor b_window))
(define-fun t_bit () Bool (take_over_bit highest floor window marked b_highest b_floor b_window bit p))
; At highest 2^64 - 1 there is no PN above, and saturating_add would leave the last PN itself fresh: an SA is exhausted before.
; A new window at floor `floor`, and one that may have delivered PNs up to its highest without a mark, if not `marked`.
(define-fun handover () Bool
  (and (sane highest floor window) (= highest (- floor 1)) (< b_highest 18446744073709551615) (holds b_highest b_floor b_window bit p seen) (not (= p zero))))
;@goal take-over-keeps-the-invariant
(assert (and handover marked (not (holds t_highest t_floor window t_bit p seen))))
;@goal take-over-without-marks-keeps-the-invariant
; Nothing above the highest was seen, and nothing below is fresh again, so `seen` counts for what is above alone.
(assert (and handover (not marked) (not (holds t_highest t_floor window t_bit p seen))))
;@goal take-over-makes-nothing-fresh
(assert (and handover marked (not (= (classify b_highest b_floor b_window bit p) 0))
  (= (classify t_highest t_floor window t_bit p) 0)))
;@goal take-over-without-marks-makes-all-late
(assert (and handover (not marked) (<= p b_highest) (= (classify t_highest t_floor window t_bit p) 0)))
;@goal take-over-copies-inside-the-ring
; At most a block of the ring each: first..=last is no longer than either ring.
(assert (and handover (not (= window zero)) (not (= b_window zero))))
(assert (let ((first (block_of (lowest t_highest t_floor window))) (last (block_of b_highest)))
  (and (<= first last) (or (>= (- last first) (needed window)) (>= (- last first) (needed b_window))))))
;@possible
; The hypotheses can be met: p was seen in the middle of a window of 64.
(assert (and (holds highest floor window bit p seen) seen fits (= window 64) (> highest 68719476736) (> p (lowest highest floor window))))
;@possible
(assert (and handover marked seen (= window 64) (= b_window 128) (> b_highest 68719476736) (> p (lowest t_highest t_floor window))))

;@mutant commit-keeps-the-invariant/a-ring-without-the-spare-block: (div (+ window 63) 64) 1) => (div (+ window 63) 64) 0)
;@mutant what-is-below-lowest-is-late/one-pn-too-many-in-the-window: (>= (- highest pn) window) => (> (- highest pn) window)
;@mutant what-is-below-lowest-is-late/no-floor: (< pn floor) (>= => (>=
;@mutant commit-keeps-the-invariant/the-last-entered-block-stays: (min (- (block_of new) (block_of old)) (blocks window)) => (min (- (- (block_of new) (block_of old)) 1) (blocks window))
;@mutant raise-keeps-the-invariant/raise-clears-nothing: (ite (and (> below highest) (cleared window highest below p)) false bit) => bit
;@mutant advance-keeps-the-invariant/advance-clears-nothing: (cleared window highest pn p)) false bit)) => (cleared window highest pn p)) bit bit))
;@mutant raise-makes-late/raise-moves-no-floor: (max floor to) => floor
;@mutant take-over-makes-nothing-fresh/take-over-forgets-the-floor: (max floor (ite marked => (ite true floor (ite marked
;@mutant take-over-keeps-the-invariant/take-over-copies-one-block-less: (<= first (block_of p)) => (< first (block_of p))

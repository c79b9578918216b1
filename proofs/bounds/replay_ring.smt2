; The ring of a replay window: crates/secy/src/replay_window.rs, block(), bit() and clear_between(), in the terms of the code, with
; 64 bits. replay_window.smt2 builds on both goals.

(set-logic QF_BV)
(declare-const ring (_ BitVec 64))
(define-sort U () (_ BitVec 64))
(define-fun block_of ((pn U)) U (bvlshr pn #x0000000000000006))
(define-fun index ((pn U)) U (bvand (block_of pn) (bvsub ring #x0000000000000001)))
(define-fun place ((pn U)) U (bvand pn #x000000000000003f))
(declare-const a U)
(declare-const b U)
(declare-const step U)
;@cases ring #x0000000000000002 #x0000000000000004 #x0000000000000008 #x0000000000000010 #x0000000000000020 #x0000000000000040 #x0000000000000080 #x0000000000000100 #x0000000000000200 #x0000000000000400 #x0000000000000800 #x0000000000001000 #x0000000000002000 #x0000000000004000 #x0000000000008000
;@goal same-slot
; Two PNs share a bit exactly if their difference is a multiple of 64 * ring.
(assert (not (= (and (= (index a) (index b)) (= (place a) (place b)))
  (= (bvurem (bvsub a b) (bvmul #x0000000000000040 ring)) #x0000000000000000))))
;@goal ring-distance
; A step of clear_between towards `a` clears the block of `b` exactly if `b` is that far behind, around the ring.
(assert (and (bvult step ring) (bvule (bvshl step #x0000000000000006) a)))
(assert (not (= (= (index (bvsub a (bvshl step #x0000000000000006))) (index b))
  (= (bvand (bvsub (block_of a) (block_of b)) (bvsub ring #x0000000000000001)) step))))
;@possible
(assert (and (bvult step ring) (bvule (bvshl step #x0000000000000006) a)))

;@mutant ring-distance/steps-of-a-pn: (bvsub a (bvshl step #x0000000000000006)) => (bvsub a step)

; Recovery of the high half of an XPN: crates/secy/src/replay_window.rs, recover().
;
; In words: for every highest PN and every sent PN,
;   - a PN within 2^31 of the expected one, before or behind it, is recovered exactly;
;   - whatever is recovered ends in the 32 bits that were received, so a forged SecTAG chooses nothing else;
;   - it is at most 2^31 from the expected one, except at the two ends of the PNs, where only one number is possible.
; 64 bits, all values. Tied to the code by recover.vectors, like replay_window.smt2. #x0 stands for None.

(set-logic QF_BV)
(define-sort U () (_ BitVec 64))
(define-fun expected ((highest U)) U (ite (= highest #xffffffffffffffff) highest (bvadd highest #x0000000000000001)))
(define-fun half () U #x0000000080000000)
(define-fun whole () U #x0000000100000000)
(define-fun recover ((low (_ BitVec 32)) (highest U)) U
  (let ((e (expected highest)))
  (let ((near (bvor (bvand e #xffffffff00000000) ((_ zero_extend 32) low))))
  (ite (and (bvugt near e) (bvugt (bvsub near e) half)) (ite (bvuge near whole) (bvsub near whole) near)
  (ite (and (bvult near e) (bvugt (bvsub e near) half)) (ite (bvule near #xfffffffeffffffff) (bvadd near whole) near)
  near)))))
(define-fun low_of ((pn U)) (_ BitVec 32) ((_ extract 31 0) pn))
(define-fun distance ((a U) (b U)) U (ite (bvuge a b) (bvsub a b) (bvsub b a)))
(declare-const highest U)
(declare-const pn U)
(declare-const low (_ BitVec 32))
;@vectors
;@goal near-pns-are-recovered
(assert (and (not (= highest #xffffffffffffffff)) (bvult (distance pn (bvadd highest #x0000000000000001)) half)))
(assert (not (= (recover (low_of pn) highest) pn)))
;@goal the-received-bits-stay
(assert (not (= (low_of (recover low highest)) low)))
;@goal nothing-is-far
(assert (and (bvugt (expected highest) half) (bvult (expected highest) #xffffffff80000000)))
(assert (bvugt (distance (recover low highest) (expected highest)) half))
;@possible
(assert (and (bvult (distance pn (expected highest)) half) (bvult pn highest) (bvugt highest whole)))

;@mutant near-pns-are-recovered/expects-the-highest-itself: (bvadd highest #x0000000000000001))) => highest))
;@mutant near-pns-are-recovered/never-back: (ite (bvuge near whole) (bvsub near whole) near) => near
;@mutant near-pns-are-recovered/never-ahead: (ite (bvule near #xfffffffeffffffff) (bvadd near whole) near) => near
;@mutant near-pns-are-recovered/a-narrower-half: (bvugt (bvsub near e) half) => (bvugt (bvsub near e) #x0000000040000000)

// Keystream and Poly1305 key of an SA's next PNs, made ahead of their frames by a thread in user space.
//
//   slots:  ring, PN mod SLOTS  ->  id | PN | octets | Poly1305 key 32 | keystream
//   rings:  ring                ->  next | made | longest | asleep | instance
//
// User space has both maps in its memory. It fills slots, and the programs use them: a frame takes the slot of exactly its SA and PN, and
// without one it is computed whole, bit by bit the same. An SA of which there is no ring has no slots.
//
// id: the instance of the SA (no other SA of the link ever has it), 0 if the slot is empty, HELD as long as somebody has it. Whoever wants a
// slot changes its id by an atomic comparison, so nobody reads what another one writes. What stands in a ring's own words decides
// nothing: it says what to make next.
//
// A sent frame spends its slot, whatever becomes of it: nobody else gets its PN. A received one spends it if it is authentic; otherwise
// the slot stays as it was, for the true one.
#pragma once
#include "sa.h"

// The transmit SC and three receive SCs, of each the SA in use and the next one.
#define RINGS 8
#define SLOTS 512
#define HELD 1ull

struct slot {
    u64 id, pn, octets, reserved;
    struct ahead ahead;
};

// next: the PN behind the newest frame; it never falls. made: slots of PNs below were made. longest: text of the longest frame since user
// space looked. asleep: the thread waits to be woken. instance: of the SA whose ring it is; 0 if it is none's.
struct ring {
    u64 next, made;
    u32 longest, asleep;
    u64 instance, reserved[4];
};

MAPPED_MAP(struct slot, RINGS * SLOTS) slots SECTION(".maps");
MAPPED_MAP(struct ring, RINGS) rings SECTION(".maps");
struct {
    NUMBER(type, RINGBUF);
    NUMBER(max_entries, 4096);
} wake SECTION(".maps");

// A slot that was held gets this id.
INLINE void release(struct slot *slot, u64 id) { __sync_lock_test_and_set(&slot->id, id); }

// The slot of an SA's PN, held.
INLINE struct slot *hold_slot(u32 number, u64 instance, u64 pn) {
    if (number >= RINGS || instance <= HELD) return 0;
    u32 at = number * SLOTS + (pn & (SLOTS - 1));
    struct slot *slot = map_lookup(&slots, &at);
    if (!slot || *(volatile u64 *)&slot->id != instance) return 0;
    if (__sync_val_compare_and_swap(&slot->id, instance, HELD) != instance) return 0;
    if (slot->pn == pn) return slot;
    release(slot, instance);
    return 0;
}

// Erases the keystream of a slot that is held, for so many octets of text.
INLINE void erase_text(struct slot *slot, u32 octets) {
    for (int i = 0; i < 8; i++) slot->ahead.poly1305_key[i] = 0;
    EACH_ONE_BY_ONE for (u32 i = 0; i < AHEAD_OCTETS / 8 && 8 * i < octets; i += 8) {
        volatile u64 *words = &slot->ahead.words[i];
        UNROLLED for (int j = 0; j < 8; j++) words[j] = 0;
    }
}

// Erases a slot that is held.
GLOBAL int erase(struct slot *slot) {
    if (!slot) return -1;
    erase_text(slot, slot->octets);
    return 0;
}

GLOBAL int wake_up(u32 number) { return ringbuf_output(&wake, &number, sizeof number, WAKE); }

// Tells user space how far the frames of an SA have come, and wakes it if it sleeps and less than half of the ring is ready.
INLINE void follow(u32 number, u64 instance, u64 next, u32 octets) {
    struct ring *ring = map_lookup(&rings, &number);
    if (!ring) return;
    // Read before the instance, and changed by a comparison alone: the ring may meanwhile have gone to another SA, with PNs of its own.
    u64 known = *(volatile u64 *)&ring->next;
    if (*(volatile u64 *)&ring->instance != instance) return;
    // Frames overtake each other, and an old one may come at any time: keystream of a PN is not made twice.
    if (next > known) __sync_val_compare_and_swap(&ring->next, known, next);
    if (octets > *(volatile u32 *)&ring->longest) *(volatile u32 *)&ring->longest = octets;
    if ((long)(*(volatile u64 *)&ring->made - next) >= SLOTS / 2 || !*(volatile u32 *)&ring->asleep) return;
    if (__sync_val_compare_and_swap(&ring->asleep, 1, 0) == 1) wake_up(number);
}

// Seals a frame with the slot of its PN, or without.
INLINE int seal_ahead(struct xdp_md *ctx, const struct job *job, struct sealing *sealing) {
    struct slot *slot = hold_slot(sealing->ring, sealing->instance, sealing->pn);
    if (!slot) return aead(ctx, job);
    sealing->ahead = slot->octets >= job->text;
    int failed = sealing->ahead ? seal_ready(ctx, job, &slot->ahead) : aead(ctx, job);
    // What was used of it is erased already.
    if (!sealing->ahead) erase(slot);
    release(slot, 0);
    return failed;
}

GLOBAL int open_ready(struct xdp_md *ctx, const struct job *job, struct ahead *ahead) { return aead_ready(ctx, job, ahead, OPENS_TEXT); }

// Opens a frame likewise.
INLINE int open_ahead(struct xdp_md *ctx, const struct job *job, struct opening *opening) {
    u64 instance = opening->instance;
    struct slot *slot = hold_slot(opening->ring, instance, opening->pn);
    if (!slot) return aead(ctx, job);
    opening->ahead = slot->octets >= job->text;
    int failed = opening->ahead ? open_ready(ctx, job, &slot->ahead) : aead(ctx, job);
    if (!failed) erase(slot);
    release(slot, failed ? instance : 0);
    return failed;
}

// The next PN of the SA that protects, if keystream for so many octets of secure data is ready: its slot, held. Without the lock. Otherwise
// nothing has happened, but that a PN may be spent, and `take_pn` decides.
//
// An instance is never that of another SA, and control publishes it behind all else of an SA and takes it away before. So what is read
// between two looks at the same instance is that SA's. The slot is held, and the PN taken, by atomic comparisons, which put what stands
// around them in order. Whoever disables the SA does so before looking at its next PN: a frame that took one meanwhile sees that.
// The second look is at the instance of the SA that protects then, whose AN is read first: the address of the second load depends on the
// first, so no CPU changes their order. In the other order an SA could be retired, and another one enabled under its AN, between the two.
// frameward-models' transmit_pns.rs is a model of these lines, and runs them in every order with control's.
INLINE struct slot *take_ready(struct transmit_sc *sc, u32 secure_data, struct sealing *sealing) {
    u32 an = *(volatile u32 *)&sc->encoding - 1;
    if (an >= ANS) return 0;
    BOUND(an, ANS - 1);
    struct transmit_sa *sa = &sc->sas[an];
    u64 instance = *(volatile u64 *)&sa->instance, pn = *(volatile u64 *)&sa->next;
    struct slot *slot = pn ? hold_slot(sa->ring, instance, pn) : 0;
    if (!slot) return 0;
    u64 reserved = *(volatile u64 *)&sa->reserved, last = *(volatile u64 *)&sa->last;
    u32 clear = sa->key.clear;
    int fits = clear < secure_data && slot->octets >= secure_data - clear;
    if (!fits || pn > reserved || __sync_val_compare_and_swap(&sa->next, pn, pn == last ? 0 : pn + 1) != pn) {
        release(slot, instance);
        return 0;
    }
    sealing->pn = pn, sealing->instance = instance, sealing->an = an, sealing->clear = clear, sealing->ring = sa->ring;
    an = *(volatile u32 *)&sc->encoding - 1;
    if (an < ANS) {
        BOUND(an, ANS - 1);
        if (*(volatile u64 *)&sc->sas[an].instance == instance) return slot;
    }
    erase(slot);
    release(slot, 0);
    return 0;
}

// The slot of a received frame that is worth the cipher, held, if it is ready for so many octets of secure data. Without the lock: what it
// cannot say for sure is left to `find_key`, and `commit` finds an SA that has gone.
INLINE struct slot *find_ready(struct receive_sa *sa, u32 low, u32 secure_data, struct opening *opening) {
    u64 instance = *(volatile u64 *)&sa->instance;
    u64 pn = sa->extended ? recover(low, *(volatile u64 *)&sa->highest) : low;
    struct slot *slot = *(volatile u32 *)&sa->in_use == IN_USE && pn ? hold_slot(sa->ring, instance, pn) : 0;
    if (!slot) return 0;
    u32 clear = *(volatile u32 *)&sa->key.clear;
    opening->pn = pn, opening->instance = instance, opening->clear = clear, opening->ring = sa->ring;
    // Of an SA that is retired meanwhile nothing is left, and its frame would seem forged.
    if (clear < secure_data && slot->octets >= secure_data - clear && *(volatile u64 *)&sa->instance == instance) return slot;
    release(slot, instance);
    return 0;
}

// Whether such a frame is worth the cipher for all that its window says now.
INLINE int is_fresh(const struct receive_sa *sa, const struct opening *opening, const struct block *block) {
    struct window window = {*(volatile u64 *)&sa->highest, *(volatile u64 *)&sa->floor, sa->window};
    return classify(opening, &window, block) == FRESH;
}

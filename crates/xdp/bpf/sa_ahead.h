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
    if (number >= RINGS) return 0;
    u32 at = number * SLOTS + (pn & (SLOTS - 1));
    struct slot *slot = map_lookup(&slots, &at);
    if (!slot || *(volatile u64 *)&slot->id != instance) return 0;
    if (__sync_val_compare_and_swap(&slot->id, instance, HELD) != instance) return 0;
    if (slot->pn == pn) return slot;
    release(slot, instance);
    return 0;
}

// Erases a slot that is held.
GLOBAL int erase(struct slot *slot) {
    if (!slot) return -1;
    for (int i = 0; i < 8; i++) slot->ahead.poly1305_key[i] = 0;
    u32 octets = slot->octets;
    EACH_ONE_BY_ONE for (u32 i = 0; i < AHEAD_OCTETS / 8 && 8 * i < octets; i += 8) {
        volatile u64 *words = &slot->ahead.words[i];
        UNROLLED for (int j = 0; j < 8; j++) words[j] = 0;
    }
    return 0;
}

// Tells user space how far the frames of an SA have come, and wakes it if it sleeps and less than half of the ring is ready.
GLOBAL int follow(u32 number, u64 instance, u64 next, u32 octets) {
    struct ring *ring = map_lookup(&rings, &number);
    if (!ring) return 0;
    // Read before the instance, and changed by a comparison alone: the ring may meanwhile have gone to another SA, with PNs of its own.
    u64 known = *(volatile u64 *)&ring->next;
    if (*(volatile u64 *)&ring->instance != instance) return 0;
    // Frames overtake each other, and an old one may come at any time: keystream of a PN is not made twice.
    if (next > known) __sync_val_compare_and_swap(&ring->next, known, next);
    if (octets > *(volatile u32 *)&ring->longest) *(volatile u32 *)&ring->longest = octets;
    if ((long)(*(volatile u64 *)&ring->made - next) >= SLOTS / 2 || !*(volatile u32 *)&ring->asleep) return 0;
    if (__sync_val_compare_and_swap(&ring->asleep, 1, 0) != 1) return 0;
    return ringbuf_output(&wake, &number, sizeof number, WAKE);
}

// Seals a frame with the slot of its PN, or without.
GLOBAL int seal_ahead(struct xdp_md *ctx, const struct job *job, struct sealing *sealing) {
    if (!job || !sealing) return -1;
    struct slot *slot = hold_slot(sealing->ring, sealing->instance, sealing->pn);
    if (!slot) return aead(ctx, job, 0);
    sealing->ahead = slot->octets >= job->text;
    int failed = aead(ctx, job, sealing->ahead ? &slot->ahead : 0);
    // What was used of it is erased already.
    if (!sealing->ahead) erase(slot);
    release(slot, 0);
    return failed;
}

// Opens a frame likewise. The job is to keep what was made ahead.
GLOBAL int open_ahead(struct xdp_md *ctx, const struct job *job, struct opening *opening) {
    if (!job || !opening) return -1;
    u64 instance = opening->instance;
    struct slot *slot = hold_slot(opening->ring, instance, opening->pn);
    if (!slot) return aead(ctx, job, 0);
    opening->ahead = slot->octets >= job->text;
    int failed = aead(ctx, job, opening->ahead ? &slot->ahead : 0);
    if (!failed) erase(slot);
    release(slot, failed ? instance : 0);
    return failed;
}

// Keystream and Poly1305 key of the next Seqs of each relation, both ways, made ahead of their frames.
//
//   slots:  place, way, Seq mod SLOTS  ->  id | octets | Poly1305 key 32 | keystream
//
// `fill` makes them, which user space runs when no frame waits. A frame takes the slot of exactly its key and Seq, uses it once and
// erases it; without one it computes all by itself, bit by bit the same.
//
// id names key and Seq in one word, so it cannot be torn: 0 if the slot is empty, HELD as long as one program has it. Whoever wants a
// slot changes its id by an atomic comparison, so nobody reads what another one writes. A slot gets its id under the relation's lock, if
// its key is still in use and its Seq is still to come. A change of keys empties all slots of the relation.
#pragma once
#include "relation.h"

#define HELD 1ull

struct slot {
    u64 id, octets;
    struct ahead ahead;
};

MAP(ARRAY, u32, struct slot, 1) slots SECTION(".maps");

INLINE struct slot *slot_at(u32 at) { return map_lookup(&slots, &at); }

INLINE struct slot *slot_of(u32 place, u32 way, u64 id) { return slot_at((2 * place + way) * SLOTS + ((u32)id & (SLOTS - 1))); }

// A program that has a slot gives it back with this id.
INLINE void set_id(struct slot *slot, u64 id) { __sync_lock_test_and_set(&slot->id, id); }

// Whether the slot had this id, and is held now.
INLINE int hold(struct slot *slot, u64 id) {
    return *(volatile u64 *)&slot->id == id && __sync_val_compare_and_swap(&slot->id, id, HELD) == id;
}

GLOBAL int wipe(struct slot *slot) {
    if (!slot) return -1;
    for (int i = 0; i < 8; i++) slot->ahead.poly1305_key[i] = 0;
    u32 words = slot->octets / 8;
    EACH_ONE_BY_ONE for (u32 i = 0; i < AHEAD_OCTETS / 8 && i < words; i++) *(volatile u64 *)&slot->ahead.words[i] = 0;
    slot->octets = 0;
    return 0;
}

INLINE void empty(struct slot *slot) { wipe(slot), set_id(slot, 0); }

// The slot of a frame, if it is ready and long enough. One that is too short is spent all the same.
INLINE struct slot *take_slot(u32 place, u32 way, u64 id, u32 octets) {
    struct slot *slot = slot_of(place, way, id);
    if (!slot || !hold(slot, id)) return 0;
    if (slot->octets >= octets) return slot;
    empty(slot);
    return 0;
}

GLOBAL int open_ready(struct xdp_md *ctx, const struct job *job, struct ahead *ahead) {
    return aead_ready(ctx, job, ahead, OPENS_TEXT | ERASES);
}

// Seals or opens a frame with the slot of its key and Seq, or without.
INLINE int aead_ahead(struct xdp_md *ctx, const struct job *job, u32 place, u32 way, u64 id) {
    struct slot *slot = take_slot(place, way, id, job->text);
    if (!slot) return aead(ctx, job);
    int failed = way == SENT ? seal_ready(ctx, job, &slot->ahead) : open_ready(ctx, job, &slot->ahead);
    set_id(slot, 0); // It is spent.
    return failed;
}

// Empties all slots of a relation. One that is held is emptied by its holder.
INLINE void empty_slots(u32 place) {
    EACH_ONE_BY_ONE for (u32 i = 0; i < 2 * SLOTS; i++) {
        struct slot *slot = slot_at(2 * SLOTS * place + i);
        if (!slot) return;
        u64 id = *(volatile u64 *)&slot->id;
        if (id == 0 || id == HELD || !hold(slot, id)) continue;
        empty(slot);
    }
}

// The direction whose frames are to come, and the first Seq of them. 0: there is none.
INLINE struct direction *coming_locked(struct relation *r, u32 way, u32 *first) {
    struct session *s;
    struct direction *d;
    if (way == SENT) {
        if (!r->enabled && !r->running) return 0;
        s = r->enabled ? apart_locked(r) : running_locked(r);
        d = &s->sent, *first = d->seq;
    } else {
        if (!r->entered && !r->running) return 0;
        s = r->running ? running_locked(r) : apart_locked(r);
        d = &s->received, *first = d->seq + 1;
    }
    return *first && *first < ~0u - SLOTS ? d : 0;
}

// The next slot that is to be made: key and nonce, its id, and how many are missing. 0: there are enough.
INLINE u64 missing_locked(struct relation *r, u32 way, struct job *job, u32 *octets, u32 *missing) {
    u32 first = 0;
    struct direction *d = coming_locked(r, way, &first);
    if (!d) return 0;
    struct made *made = &r->made[way];
    if (made->serial != d->now.serial || made->next < first) made->serial = d->now.serial, made->next = first;
    if (made->next - first >= SLOTS) return 0;
    *missing = SLOTS - (made->next - first);
    u32 seq = made->next++;
    use_key(job, &d->now, seq);
    *octets = made->octets;
    return id_of(&d->now, seq);
}

INLINE int still_missing_locked(struct relation *r, u32 way, u64 id) {
    u32 first = 0;
    struct direction *d = coming_locked(r, way, &first);
    return d && d->now.serial == id >> 32 && (u32)id >= first;
}

// Keystream of a slot that is held.
GLOBAL int make(struct slot *slot, const struct job *job, u32 octets) {
    if (!slot || !job) return -1;
    struct keystream first = {};
    if (chacha20_block(&first, job, 0)) return -1;
    for (int i = 0; i < 8; i++) slot->ahead.poly1305_key[i] = first.words[i];
    EACH_ONE_BY_ONE for (u32 i = 0; i < AHEAD_OCTETS / STREAM_OCTETS && STREAM_OCTETS * i < octets; i++)
        if (chacha20_block((struct keystream *)&slot->ahead.words[STREAM_OCTETS / 8 * i], job, 1 + i)) return -1;
    return 0;
}

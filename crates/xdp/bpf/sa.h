// SAs of a SecY: keys, PNs and replay windows. What secy's sa.rs, transmit_pns.rs and replay_window.rs are in Rust, rule by rule.
//
// Frames on any CPU, and changes by control, meet here. The transmit SC has one lock, and each receive SA has one. It is held
// for some ten instructions: no PN is ever taken twice, and none is delivered twice. Functions whose names end in _locked want the lock.
// Under it the kernel lets no function be called, so all of them are inlined. A lock costs as much as eight blocks of text, since the
// kernel turns interrupts off. So a frame whose keystream is ready takes its PN without one (sa_ahead.h): frames change PNs by atomic
// comparison alone. Control writes them plainly when it installs or retires an SA. Its instance is published behind that, or taken away
// before, so no frame uses a PN that it takes meanwhile.
#pragma once
#include "chacha20_poly1305.h"

#define ANS 4
#define RECEIVE_SCS 32

// base: the nonce without its PN, which is put in by exclusive or. It is the SCI, or SSCI and salt.
// clear: octets of secure data in front of the text; ALL_CLEAR if nothing is encrypted.
struct sa_key {
    u32 octets[8];
    u32 base[3];
    u32 clear;
};
#define ALL_CLEAR 0xffff

// next: the PN of the next frame, 0 if none is left. last: the suite's; 0 if there is no SA. instance: a number that no other SA of the link
// ever has. ring: of its keystream ahead, if there is one.
struct transmit_sa {
    struct sa_key key;
    u64 next, reserved, reserve_at, last, instance;
    u32 ring, unused;
};

// encoding: the AN of the SA that protects, plus 1; 0 if there is none.
struct transmit_sc {
    struct bpf_spin_lock lock;
    u32 encoding;
    struct transmit_sa sas[ANS];
};

// instance: as of a transmit SA. It tells a frame that the SA it was opened under has gone meanwhile.
// extended: the SecTAG has the low half of a PN alone. shared: PNs below the floor are those of an SA in user space.
struct receive_sa {
    struct bpf_spin_lock lock;
    u32 installed, in_use, extended, ring, shared;
    u64 instance, highest, floor, window;
    struct sa_key key;
};
// Of in_use; else 0. ENDS: frames that have begun are still accepted, and no other is.
enum { IN_USE = 1, ENDS };

// 64 PNs of a window, a bit for each that was seen. What is not of this number and SA counts as not seen, so nothing has to be cleared
// when a window moves.
struct block {
    u64 seen, number, instance;
};

// Key and nonce of a frame.
INLINE void use_key(struct job *job, const struct sa_key *key, u64 pn) {
    for (int i = 0; i < 8; i++) job->key[i] = key->octets[i];
    job->nonce[0] = key->base[0], job->nonce[1] = key->base[1] ^ BE32((u32)(pn >> 32)), job->nonce[2] = key->base[2] ^ BE32((u32)pn);
}

// An SA's frame: what it is protected under. ahead: its keystream was ready.
struct sealing {
    u64 pn, instance;
    u32 an, clear, ring, ahead;
};

enum taken { TAKEN, NO_SA, UNRESERVED, EXHAUSTED };

// Attempts to take a PN while other CPUs take some without the lock. Each failure is a frame of theirs.
#define TAKES 256

// The next PN of the SA that protects. It is the last thing to be asked for: what was taken is spent.
INLINE enum taken take_pn(struct transmit_sc *sc, struct job *job, struct sealing *sealing) {
    enum taken taken = NO_SA;
    spin_lock(&sc->lock);
    u32 an = sc->encoding - 1;
    if (an < ANS) {
        BOUND(an, ANS - 1);
        struct transmit_sa *sa = &sc->sas[an];
        u64 pn = 0;
        EACH_ONE_BY_ONE for (u32 i = 0; i < TAKES && taken != TAKEN; i++) {
            pn = *(volatile u64 *)&sa->next;
            taken = pn ? UNRESERVED : EXHAUSTED;
            if (!pn || pn > sa->reserved) break;
            if (__sync_val_compare_and_swap(&sa->next, pn, pn == sa->last ? 0 : pn + 1) == pn) taken = TAKEN;
        }
        if (taken == TAKEN) {
            use_key(job, &sa->key, pn);
            sealing->pn = pn, sealing->an = an, sealing->clear = sa->key.clear;
            sealing->instance = sa->instance, sealing->ring = sa->ring;
        }
    }
    spin_unlock(&sc->lock);
    return taken;
}

// The PN nearest to the expected one with these low 32 bits (`secy::recover`).
INLINE u64 recover(u32 low, u64 highest) {
    u64 expected = highest == ~0ull ? highest : highest + 1, half = 1ull << 31, whole = 1ull << 32;
    u64 near = (expected & ~(whole - 1)) | low;
    if (near > expected && near - expected > half && near >= whole) return near - whole;
    if (near < expected && expected - near > half && near + whole > near) return near + whole;
    return near;
}

// What a received frame is opened under, and of which SA. ahead: its keystream was ready.
struct opening {
    u64 pn, instance;
    u32 clear, ring, ahead, reserved;
};

// A window at one moment.
struct window {
    u64 highest, floor, width;
};

// Key and nonce of a received frame, if there is an SA in use for it; 0 if not. The PN is 0 if the frame can have none.
INLINE int find_key(struct receive_sa *sa, u32 low, struct job *job, struct opening *opening, struct window *window) {
    spin_lock(&sa->lock);
    u32 in_use = sa->in_use == IN_USE;
    u64 pn = sa->extended ? recover(low, sa->highest) : low;
    opening->pn = pn, opening->instance = sa->instance, opening->clear = sa->key.clear;
    opening->ring = sa->ring;
    window->highest = sa->highest, window->floor = sa->floor, window->width = sa->window;
    use_key(job, &sa->key, pn);
    spin_unlock(&sa->lock);
    return in_use;
}

// Of a PN. DELAYED: late, and delivered without replay protection. GONE: there is no SA for it. NO_PN: it is 0.
enum freshness { FRESH, LATE, DUPLICATE, DELAYED, GONE, NO_PN };

INLINE int is_seen(const struct block *block, u64 pn, u64 instance) {
    return block->instance == instance && block->number == pn / 64 && (block->seen >> (pn % 64) & 1);
}

// Whether a frame is worth the cipher. What comes meanwhile is found by `commit_locked`.
INLINE enum freshness classify(const struct opening *opening, const struct window *window, const struct block *block) {
    u64 pn = opening->pn;
    if (pn > window->highest) return FRESH;
    if (!window->width || pn < window->floor || window->highest - pn >= window->width) return LATE;
    return is_seen(block, pn, opening->instance) ? DUPLICATE : FRESH;
}

INLINE u64 lowest_locked(const struct receive_sa *sa) {
    if (!sa->window) return sa->highest == ~0ull ? ~0ull : sa->highest + 1;
    u64 behind = sa->window - 1, lowest = sa->highest > behind ? sa->highest - behind : 0;
    return lowest > sa->floor ? lowest : sa->floor;
}

// Judges the PN of a verified frame again, and marks it. The block is that of the PN; with a window of 0 it does not matter.
INLINE enum freshness commit_locked(struct receive_sa *sa, const struct opening *opening, struct block *block) {
    u64 pn = opening->pn;
    if (pn <= sa->highest) {
        if (!sa->window || pn < sa->floor || sa->highest - pn >= sa->window) return LATE;
        if (is_seen(block, pn, sa->instance)) return DUPLICATE;
    } else {
        sa->highest = pn;
    }
    if (block->number != pn / 64 || block->instance != sa->instance) {
        block->number = pn / 64, block->instance = sa->instance, block->seen = 0;
    }
    block->seen |= 1ull << (pn % 64);
    return FRESH;
}

// The same without replay protection: no PN is marked.
INLINE enum freshness advance_locked(struct receive_sa *sa, u64 pn) {
    enum freshness freshness = pn < lowest_locked(sa) ? DELAYED : FRESH;
    if (pn > sa->highest) sa->highest = pn;
    return freshness;
}

// Whether replays are refused is read under the lock: a frame that knew it before would be marked nowhere after a change.
INLINE enum freshness commit(struct receive_sa *sa, const struct opening *opening, struct block *block, const u32 *replay_protect) {
    enum freshness freshness = GONE;
    spin_lock(&sa->lock);
    if (sa->in_use && sa->instance == opening->instance)
        freshness = *(const volatile u32 *)replay_protect ? commit_locked(sa, opening, block) : advance_locked(sa, opening->pn);
    spin_unlock(&sa->lock);
    return freshness;
}

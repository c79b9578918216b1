// Keys of a relation and how far its Seqs have come: what `fieldbus::keys` is in Rust, rule by rule.
//
// Frames of both directions, on any CPU, and changes by control meet here. All of it stands under one lock for each
// relation, which is held for some ten instructions: no Seq is ever taken twice. Functions whose names end in _locked want the lock.
// Under it the kernel lets no function be called, so all of them are inlined.
#pragma once
#include "chacha20_poly1305.h"

// serial: 0 if no key is there; else a number that no other key of the cell has, given when it is put in.
struct key {
    u32 octets[8];
    u32 salt[2];
    u64 epoch;
    u32 key_id, serial;
};

// The key in use and that of the next epoch. seq: of a sender that of its next frame, 0 if none is left; of a receiver that of the newest
// verified frame. ended: an epoch has ended since the last change of keys.
struct direction {
    struct key now, next;
    u32 seq, ended;
};

struct session {
    u32 number, reserved;
    struct direction sent, received;
};

// What control has to know, until it asks.
enum { HEARD = 1, SENT_EPOCH = 2, RECEIVED_EPOCH = 4, ALARM = 8, LOST = 16 };
struct news {
    u32 flags, heard, sent_session, received_session;
    u64 sent_epoch, received_epoch, alarm;
};

// Slots made ahead (ahead.h), by way: the key's serial, the next Seq, and the length of the last frame's text.
#define SLOTS 8
enum { SENT, RECEIVED };
struct made {
    u32 serial, next, octets;
};

struct relation {
    struct bpf_spin_lock lock;
    // Which of the sessions runs, if one does; the other one was entered, if one was, and protects if it is enabled.
    u32 place, running, entered, enabled;
    // The watch: the configured times, the last verified frame (0: none yet), the longest gap. All in nanoseconds.
    u32 told;
    u64 cycle, alarm, last, worst_gap;
    // Frames of unknown keys beside verified ones, since the first of them.
    u64 unknown_since;
    u32 unknown, verified;
    struct news news;
    struct session sessions[2];
    struct made made[2];
};

// A key by what names it; and the id of a frame under it.
struct under {
    u64 epoch, id;
    u32 session;
};

// Names a key of the relation and a Seq.
INLINE u64 id_of(const struct key *key, u32 seq) { return (u64)key->serial << 32 | seq; }

INLINE struct session *running_locked(struct relation *r) { return &r->sessions[r->place & 1]; }
INLINE struct session *apart_locked(struct relation *r) { return &r->sessions[(r->place & 1) ^ 1]; }

// The next epoch, if its key is there and the key of the one before has been taken out.
INLINE int begin_locked(struct direction *d, u32 seq) {
    if (!d->next.serial || d->ended) return 0;
    d->now = d->next;
    d->next = (struct key){};
    d->seq = seq, d->ended = 1;
    return 1;
}

enum taken { TAKEN, NO_SESSION, SEQ_EXHAUSTED };

// Key and nonce of a frame.
INLINE void use_key(struct job *job, const struct key *key, u32 seq) {
    for (int i = 0; i < 8; i++) job->key[i] = key->octets[i];
    job->nonce[0] = key->salt[0], job->nonce[1] = key->salt[1], job->nonce[2] = BE32(seq);
}

// The next Seq of the key that protects. Seq is the last thing to be asked for: what was taken is spent.
INLINE enum taken take_seq(struct relation *r, u32 epoch_end, struct job *job, u32 *key_id, u64 *id, u32 *begun) {
    enum taken taken = NO_SESSION;
    spin_lock(&r->lock);
    if (r->enabled || r->running) {
        struct session *s = r->enabled ? apart_locked(r) : running_locked(r);
        struct direction *d = &s->sent;
        if ((!d->seq || d->seq > epoch_end) && begin_locked(d, 1)) {
            *begun = 1;
            r->news.flags |= SENT_EPOCH, r->news.sent_session = s->number, r->news.sent_epoch = d->now.epoch;
        }
        taken = SEQ_EXHAUSTED;
        if (d->seq) {
            use_key(job, &d->now, d->seq);
            *key_id = d->now.key_id, *id = id_of(&d->now, d->seq);
            d->seq++; // 0 behind the last
            r->made[SENT].octets = job->text;
            taken = TAKEN;
        }
    }
    spin_unlock(&r->lock);
    return taken;
}

enum admitted { ADMITTED, NOT_ENTERED, UNKNOWN_KEY, LATE };

// The key of a session that a received frame names, unless the frame is late under it.
INLINE enum admitted admit_locked(struct session *s, u32 key_id, u32 seq, struct job *job, struct under *under, enum admitted before) {
    struct direction *d = &s->received;
    struct key *named = &d->now;
    u32 newest = d->seq;
    if (d->now.key_id != key_id) {
        if (d->next.serial && d->next.key_id == key_id)
            named = &d->next, newest = 0;
        else if (d->now.epoch > 0 && d->now.key_id == ((key_id + 1) & 0xff))
            newest = ~0u;
        else
            return before == NOT_ENTERED ? UNKNOWN_KEY : before;
    }
    if (seq <= newest) return LATE;
    use_key(job, named, seq);
    under->session = s->number, under->epoch = named->epoch, under->id = id_of(named, seq);
    return ADMITTED;
}

INLINE enum admitted admit(struct relation *r, u32 key_id, u32 seq, u64 now, struct job *job, struct under *under) {
    enum admitted admitted = NOT_ENTERED;
    spin_lock(&r->lock);
    if (r->entered) admitted = admit_locked(apart_locked(r), key_id, seq, job, under, admitted);
    if (admitted != ADMITTED && r->running) admitted = admit_locked(running_locked(r), key_id, seq, job, under, admitted);
    if (admitted == UNKNOWN_KEY) {
        if (!r->unknown_since) r->unknown_since = now;
        if (r->unknown != ~0u) r->unknown++;
    }
    spin_unlock(&r->lock);
    return admitted;
}

// What a verified frame is the first of, and what it says of those before.
struct moved {
    u32 session, epoch, missing, gap_known, alarm;
    u64 gap;
};

// Judges a verified frame again, since others may have come meanwhile, and lets what it is the first of begin. 0: it is late.
INLINE int commit(struct relation *r, const struct under *under, u32 octets, u64 now, struct moved *moved) {
    u32 seq = under->id;
    int newer = 0;
    spin_lock(&r->lock);
    u32 is_entered = r->entered && apart_locked(r)->number == under->session;
    if (is_entered || (r->running && running_locked(r)->number == under->session)) {
        struct session *s = is_entered ? apart_locked(r) : running_locked(r);
        struct direction *d = &s->received;
        if (d->now.epoch == under->epoch) {
            newer = seq > d->seq;
        } else if (d->next.epoch == under->epoch && begin_locked(d, 0)) {
            newer = 1, moved->epoch = 1;
            r->news.flags |= RECEIVED_EPOCH, r->news.received_session = s->number, r->news.received_epoch = d->now.epoch;
        }
        if (newer) {
            moved->missing = seq - d->seq - 1;
            d->seq = seq, r->made[RECEIVED].octets = octets;
            if (is_entered) {
                moved->session = 1;
                r->news.flags |= HEARD, r->news.heard = s->number;
                r->place ^= 1, r->running = 1, r->entered = 0, r->enabled = 0;
            }
            if (r->unknown_since && r->verified != ~0u) r->verified++;
            if (r->last) {
                moved->gap_known = 1, moved->gap = time_since(r->last, now);
                if (moved->gap > r->worst_gap) r->worst_gap = moved->gap;
                if (moved->gap >= r->alarm && !r->told) {
                    moved->alarm = 1, r->news.flags |= ALARM;
                    if (moved->gap > r->news.alarm) r->news.alarm = moved->gap;
                }
                r->told = 0;
            }
            r->last = now;
        }
    }
    spin_unlock(&r->lock);
    return newer;
}

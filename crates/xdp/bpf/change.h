// What control does with a relation: `fieldbus::KeyChange`, and the look for silence. The programs are run by control itself
// (BPF_PROG_TEST_RUN), with the command as their frame, so that a change takes the relation's lock like a frame does:
// a map written from user space would overwrite Seqs that frames take meanwhile.
#pragma once
#include "ahead.h"

enum { ENTER, ENABLE, NEXT_TRANSMIT, NEXT_RECEIVE, TAKE_OUT, LEAVE, WATCH };
// What a program answers: the change was made; it does not fit what is there, and the key was not put in; no such command.
enum { DONE = 100, REFUSED, MALFORMED };

// The key of NEXT_TRANSMIT and NEXT_RECEIVE is session.sent.now. cycle and alarm, in nanoseconds: WATCH alone.
struct command {
    u32 what, relation, number, reserved;
    u64 cycle, alarm;
    struct session session;
};

// Serials that were given. They belong to the cell: a relation that is taken out and put in again must not begin anew, for a slot that was
// being made meanwhile would then be one of the new key's.
// A command has four keys at the most; of twice as many serials 0, which says that no key is there, is never one that is used.
#define SERIALS_OF_COMMAND 8
MAP(ARRAY, u32, u32, 1) serials SECTION(".maps");

INLINE void name_locked(u32 *serial, struct key *key) {
    if (key->serial) key->serial = ++*serial;
}

INLINE int put_next_locked(u32 *serial, struct direction *d, const struct key *key) {
    if (d->next.serial || d->now.epoch == ~0ull || d->now.epoch + 1 != key->epoch) return REFUSED;
    d->next = *key;
    name_locked(serial, &d->next);
    return DONE;
}

INLINE int next_locked(struct relation *r, const struct command *command, u32 *serial, int transmit) {
    struct session *s = running_locked(r);
    int found = r->running && s->number == command->number;
    if (r->entered && apart_locked(r)->number == command->number) s = apart_locked(r), found = 1;
    if (!found) return REFUSED;
    return put_next_locked(serial, transmit ? &s->sent : &s->received, &command->session.sent.now);
}

// serial: the last one that was given; the next ones are this command's.
INLINE int change_locked(struct relation *r, const struct command *command, u32 serial) {
    if (command->what == WATCH) {
        r->cycle = command->cycle, r->alarm = command->alarm;
        return DONE;
    }
    // What every change does: it takes out what has ended. A session that was never entered, or has ended, is wiped.
    r->made[SENT].serial = r->made[RECEIVED].serial = 0;
    r->sessions[0].sent.ended = r->sessions[0].received.ended = 0;
    r->sessions[1].sent.ended = r->sessions[1].received.ended = 0;
    if (!r->entered) *apart_locked(r) = (struct session){};
    switch (command->what) {
    case ENTER:
        // What protects goes on until the new one is enabled.
        if (r->enabled) r->place ^= 1, r->running = 1;
        *apart_locked(r) = command->session;
        name_locked(&serial, &apart_locked(r)->sent.now), name_locked(&serial, &apart_locked(r)->sent.next);
        name_locked(&serial, &apart_locked(r)->received.now), name_locked(&serial, &apart_locked(r)->received.next);
        r->entered = 1, r->enabled = 0;
        return DONE;
    case ENABLE:
        if (r->entered && apart_locked(r)->number == command->number) r->enabled = 1;
        return DONE;
    case NEXT_TRANSMIT:
        return next_locked(r, command, &serial, 1);
    case NEXT_RECEIVE:
        return next_locked(r, command, &serial, 0);
    case LEAVE:
        // Its frames are found as before, and counted; the watch for silence and what it has not told yet stay.
        r->sessions[0] = r->sessions[1] = (struct session){};
        r->running = r->entered = r->enabled = 0;
        return DONE;
    default:
        return DONE;
    }
}

// What user space sees of a relation: no octet of a key.
struct key_status {
    u64 epoch;
    u32 session, key_id, seq, there;
};
enum { STATE_NO_SESSION, STATE_ENTERED, STATE_RUNNING };
struct report {
    struct news news;
    struct key_status transmit, receive;
    u64 now, last, worst_gap;
    u32 state, reserved;
};

INLINE struct key_status status_locked(const struct session *s, const struct direction *d, u32 seq) {
    return (struct key_status){.epoch = d->now.epoch, .session = s->number, .key_id = d->now.key_id, .seq = seq, .there = 1};
}

// Whether frames of a relation have stopped, and whether its peer goes on under keys that are not known here
// (`Relations::handle_timeout`). 1: there is an alarm.
INLINE int look_locked(struct relation *r, u64 now) {
    int alarm = 0;
    u64 gap = time_since(r->last, now);
    if (r->last && gap >= r->alarm && !r->told) {
        r->told = 1, alarm = 1, r->news.flags |= ALARM;
        if (gap > r->news.alarm) r->news.alarm = gap;
    }
    if (r->unknown_since && time_since(r->unknown_since, now) >= 1000000000ull) {
        if (r->unknown > r->verified) r->news.flags |= LOST;
        r->unknown_since = 0, r->unknown = 0, r->verified = 0;
    }
    return alarm;
}

// All of it. The news only if they are asked for, and they are control's from then on.
enum { WITH_NEWS, WITHOUT_NEWS };
INLINE void report_locked(struct relation *r, u32 what, struct report *report) {
    if (what == WITH_NEWS) {
        report->news = r->news;
        r->news = (struct news){};
    }
    report->last = r->last, report->worst_gap = r->worst_gap;
    if (r->enabled || r->running) {
        const struct session *s = r->enabled ? apart_locked(r) : running_locked(r);
        report->transmit = status_locked(s, &s->sent, s->sent.seq - 1);
    }
    if (r->running || r->entered) {
        const struct session *s = r->running ? running_locked(r) : apart_locked(r);
        report->receive = status_locked(s, &s->received, s->received.seq);
        report->state = r->running && (s->received.seq || s->received.now.epoch) ? STATE_RUNNING : STATE_ENTERED;
    }
}

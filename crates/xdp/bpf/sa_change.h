// What control does with SCs and SAs, in secy's verbs: install, enable, retire. The programs are run by control itself
// (BPF_PROG_TEST_RUN), with the command as their frame, so that a change takes the lock like a frame does: a map written from user
// space would give PNs back that frames take meanwhile.
#pragma once
#include "sa.h"

enum {
    INSTALL_TRANSMIT, ENABLE_TRANSMIT, RETIRE_TRANSMIT, RESERVE_THROUGH, DISABLE_TRANSMIT,
    INSTALL_RECEIVE, ENABLE_RECEIVE, RETIRE_RECEIVE, RAISE_LOWEST, DISABLE_RECEIVE, END_RECEIVE, SHARE_BELOW,
    COMMANDS
};
// What a program answers: it was done; there is an SA already, or none; no such command.
enum { DONE = 100, REFUSED, MALFORMED };

// place: of a receive SA in its map, 4 for each SC; of a transmit SA its AN. pn: the next, the lowest, or the last reserved one.
struct command {
    u32 what, place, extended, ring;
    u64 pn, through, last, window, instance;
    struct sa_key key;
};

// An SA's instance, behind what was written before and in front of what is written next: frames read it without the lock.
INLINE void publish(u64 *instance, u64 value) { __sync_lock_test_and_set(instance, value); }

// Frames take PNs meanwhile: the next one is read once.
INLINE void reserve_through_locked(struct transmit_sa *sa, u64 through) {
    u64 next = *(volatile u64 *)&sa->next;
    if (!next) return;
    u64 reserved = through < sa->last ? through : sa->last;
    if (reserved < sa->reserved) reserved = sa->reserved;
    u64 left = reserved > next ? reserved - next : 0;
    sa->reserve_at = reserved == sa->last ? ~0ull : next + left / 2;
    sa->reserved = reserved;
}

INLINE int change_transmit_locked(struct transmit_sc *sc, const struct command *command) {
    u32 an = command->place;
    BOUND(an, ANS - 1);
    struct transmit_sa *sa = &sc->sas[an];
    if (!sa->last != (command->what == INSTALL_TRANSMIT)) return REFUSED;
    switch (command->what) {
    case INSTALL_TRANSMIT:
        sa->key = command->key, sa->last = command->last, sa->ring = command->ring;
        // A PN above the last one would repeat a nonce: then none is left.
        sa->next = command->pn <= command->last ? command->pn : 0;
        sa->reserved = command->through < command->last ? command->through : command->last;
        reserve_through_locked(sa, command->through);
        publish(&sa->instance, command->instance);
        return DONE;
    case ENABLE_TRANSMIT:
        __sync_lock_test_and_set(&sc->encoding, an + 1);
        return DONE;
    case DISABLE_TRANSMIT:
        if (sc->encoding == an + 1) __sync_lock_test_and_set(&sc->encoding, 0);
        return DONE;
    case RETIRE_TRANSMIT:
        if (sc->encoding == an + 1) __sync_lock_test_and_set(&sc->encoding, 0);
        publish(&sa->instance, 0);
        *sa = (struct transmit_sa){};
        return DONE;
    default:
        reserve_through_locked(sa, command->pn);
        return DONE;
    }
}

INLINE int change_receive_locked(struct receive_sa *sa, const struct command *command) {
    if (sa->installed == (command->what == INSTALL_RECEIVE)) return REFUSED;
    switch (command->what) {
    case INSTALL_RECEIVE:
        sa->installed = 1, sa->extended = command->extended, sa->ring = command->ring;
        sa->highest = command->pn - 1, sa->floor = command->pn, sa->window = command->window;
        sa->key = command->key;
        publish(&sa->instance, command->instance);
        return DONE;
    case ENABLE_RECEIVE:
        sa->in_use = IN_USE;
        return DONE;
    case DISABLE_RECEIVE:
        sa->in_use = 0;
        return DONE;
    case END_RECEIVE:
        if (sa->in_use) sa->in_use = ENDS;
        return DONE;
    case SHARE_BELOW:
        sa->shared = command->pn != 0;
        return DONE;
    case RETIRE_RECEIVE:
        sa->installed = 0, sa->in_use = 0, sa->shared = 0;
        publish(&sa->instance, 0);
        sa->key = (struct sa_key){};
        return DONE;
    default:
        if (command->pn - 1 > sa->highest) sa->highest = command->pn - 1;
        if (command->pn > sa->floor) sa->floor = command->pn;
        return DONE;
    }
}

// What user space sees of an SA: no octet of a key. Of a transmit SA the PNs of struct transmit_sa, and whether it protects; of a
// receive SA its window, and whether it is in use.
struct report {
    u32 there, used;
    u64 numbers[4];
};

enum { TRANSMIT, RECEIVE };

INLINE void report_transmit_locked(const struct transmit_sc *sc, u32 an, struct report *report) {
    const struct transmit_sa *sa = &sc->sas[an];
    report->there = sa->last != 0, report->used = sc->encoding == an + 1;
    report->numbers[0] = sa->next, report->numbers[1] = sa->reserved, report->numbers[2] = sa->reserve_at, report->numbers[3] = sa->last;
}

INLINE void report_receive_locked(const struct receive_sa *sa, struct report *report) {
    report->there = sa->installed, report->used = sa->in_use == IN_USE;
    report->numbers[0] = sa->highest, report->numbers[1] = lowest_locked(sa);
}

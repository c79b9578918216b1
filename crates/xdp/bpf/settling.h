// Order of a flow whose frames change from user space to the programs, at either end: none overtakes those that the worker has still.
#pragma once
#include "flows.h"

// Some milliseconds behind, and far cheaper.
static u64 (*const ktime_get_coarse_ns)(void) = (void *)160;

// A flow waits so long for a pause. Then user space has to be done with its frames, and with what a driver hands over at once. And one
// with which user space is never done waits so long.
#define WAIT_FOR_PAUSE 1000000000ull
#define HANDED_OVER 500000ull
#define MOST_SETTLING 4000000000ull
// A flow of a peer's may have been in its user space after a silence this long: user space does not add a flow again within a second.
#define AWAY 900000000ull

// Turns of the worker: how many have begun, and the last that found no frame of the LAN, and no packet at the data port. Written by the
// worker; without one, all is done.
struct turns {
    u64 begun, no_frame, no_packet;
};
// When a packet of a peer's went to the worker's socket last; the worker's turn then.
struct passed {
    u64 at, turn;
};

MAPPED_MAP(struct turns, 1) turns SECTION(".maps");
MAP(ARRAY, u32, struct passed, 1) passed SECTION(".maps");

// Whether user space has none of the flow's frames any more. A turn that began after them and found none says so; a pause, that they were
// handed over before that turn, and that they are through the other end's user space too.
INLINE int is_settled(const struct outward_flow *flow, const volatile struct turns *worker, u64 quiet, u64 now) {
    u64 waited = time_since(flow->added, now), pause = waited >= WAIT_FOR_PAUSE ? HANDED_OVER : quiet;
    if (waited >= MOST_SETTLING) return 1;
    return worker->no_frame > flow->turn && time_since(flow->left, now) >= pause;
}

INLINE void note_passed(struct passed *last, const volatile struct turns *worker, u64 exact) {
    last->turn = worker->begun, last->at = exact;
}

// Whether a packet of a peer's flow has to go behind those that the worker may have still: this one does then, too.
INLINE int is_behind(struct announced_flow *flow, struct passed *last, const volatile struct turns *worker, u64 now) {
    if (time_since(flow->used, now) >= AWAY) flow->place = SETTLING, flow->began = now;
    flow->used = now;
    if (flow->place == KERNEL) return 0;
    u64 exact = ktime_get_ns();
    int done = worker->no_packet > last->turn && time_since(last->at, exact) >= HANDED_OVER;
    if (done || !worker->begun || time_since(flow->began, now) >= MOST_SETTLING) {
        flow->place = KERNEL;
        return 0;
    }
    note_passed(last, worker, exact);
    return 1;
}

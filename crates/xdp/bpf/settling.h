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

// Ports of the worker to which packets of peers go: that of identifier mode, and that of plain mode.
enum socket_port { AT_DATA_PORT, AT_PLAIN_PORT };
// Turns of the worker: how many have begun, the last that found no frame of the LAN, and for each port the last that found no packet. And the
// nanoseconds that a packet costs it; 0: that is not known. And the period of tokens. Written by the worker; without one, all is done.
struct turns {
    u64 begun, no_frame, no_packet[2], cost, period;
};
// When a packet of a peer's went to a socket of the worker's last; the worker's turn then.
struct passed {
    u64 at, turn;
};

MAPPED_MAP(struct turns, 1) turns SECTION(".maps");
MAP(ARRAY, u32, struct passed, 2) passed SECTION(".maps");

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

// Whether a packet of a peer's has to go behind those that the worker may have still: this one does then, too.
INLINE int is_behind(struct order *order, struct passed *last, const volatile struct turns *worker, enum socket_port port, u64 now) {
    if (time_since(order->used, now) >= AWAY) order->place = SETTLING, order->began = now;
    order->used = now;
    if (order->place == KERNEL) return 0;
    u64 exact = ktime_get_ns();
    int done = worker->no_packet[port] > last->turn && time_since(last->at, exact) >= HANDED_OVER;
    if (done || !worker->begun || time_since(order->began, now) >= MOST_SETTLING) {
        order->place = KERNEL;
        return 0;
    }
    note_passed(last, worker, exact);
    return 1;
}

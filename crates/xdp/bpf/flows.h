// Flows and stations that user space tells the programs of a site.
#pragma once
#include "window.h"

// ES/SC/SCB 1 | reserved 3 | DA 6 | SA 6 | SCI 8: an encoded flow.
struct flow {
    u32 bits, address[3], sci[2];
};
// Where a flow's frames are sent: in user space until the flow is added anew, or (SETTLING) until user space is done with those it has
// and the flow pauses, so that none overtakes another.
enum place { KERNEL, USER_SPACE, SETTLING };
// A flow towards a peer. Its number as it stands in a header; stations that it needs where they are. When it was added, and when frames
// of it went this way and to user space last; the worker's turn then.
struct outward_flow {
    struct flow flow;
    u32 peer, number, source, destination, place, zero;
    u64 used, left, added, turn;
};
// Packets of a peer that have to stay in order: KERNEL or SETTLING; the path that they came by, in plain mode; when they began to settle, and
// when one of them came to the program last.
struct order {
    u32 place, path;
    u64 began, used;
};
// A flow that a peer has announced, the flow's source, and (peer << 16 | number).
struct announced_flow {
    struct flow flow;
    u32 station, key;
    struct order order;
};
// Where a station is: 0 unknown, 1 here, 2 and more: behind this peer, less 2. When it was heard there last. The address, the first octet
// lowest. The order of its packets in plain mode.
#define HERE 1
#define BEHIND 2
struct station {
    u64 heard;
    u32 where, zero;
    u64 address;
    struct order order;
};

// A hash map gives the memory of a deleted element to another key at once, and a program may be reading it still. So hash maps hold
// numbers alone, each read once. What they number stands in arrays together with its key, which is compared; and user space lets a
// number rest before it is another key's.
MAP(HASH, struct flow, u32, 1) flows SECTION(".maps");
MAP(ARRAY, u32, struct outward_flow, 1) outward_flows SECTION(".maps");
MAP(HASH, u32, u32, 1) announced SECTION(".maps");
MAP(ARRAY, u32, struct announced_flow, 1) announced_flows SECTION(".maps");
MAP(HASH, u64, u32, 1) addresses SECTION(".maps");
MAP(ARRAY, u32, struct station, 1) stations SECTION(".maps");

// What a key's number in a hash map stands for; null if there is none. It may be another key's.
INLINE void *numbered(void *numbers, const void *key, void *array) {
    volatile u32 *found = map_lookup(numbers, key);
    u32 number = found ? *found : ~0u;
    return map_lookup(array, &number);
}

INLINE struct outward_flow *outward_flow_of(const struct flow *key) {
    struct outward_flow *found = numbered(&flows, key, &outward_flows);
    if (!found) return 0;
    const struct flow *flow = &found->flow;
    u32 differs = flow->bits ^ key->bits;
    UNROLLED for (int i = 0; i < 3; i++) differs |= flow->address[i] ^ key->address[i];
    UNROLLED for (int i = 0; i < 2; i++) differs |= flow->sci[i] ^ key->sci[i];
    return differs ? 0 : found;
}

// Room behind a payload: it is taken in front of the frame, and the payload moves there. Frames out of a socket buffer have none behind.
#pragma once
#include "chacha20_poly1305.h"

// Copies octets of the frame to `to`, from `by` octets behind: 16 or more. In whole blocks that end with the last octet: up to 15 octets in
// front are spoilt.
GLOBAL int move_forward(struct xdp_md *ctx, u32 to, u32 by, u32 octets) {
    u32 blocks = (octets + BLOCK_OCTETS - 1) / BLOCK_OCTETS;
    to -= BLOCK_OCTETS * blocks - octets;
    u32 from = to + by;
    BOUND(to, 63);
    BOUND(from, 127);
    u8 *here = start_of(ctx) + to, *there = start_of(ctx) + from, *end = end_of(ctx);
    EACH_ONE_BY_ONE for (u32 i = 0; i < MOST_BLOCKS && i < blocks; i++) {
        if (here + BLOCK_OCTETS > end || there + BLOCK_OCTETS > end) return -1;
        u64 low = U64(there), high = U64(there + 8);
        U64(here) = low, U64(here + 8) = high;
        here += BLOCK_OCTETS, there += BLOCK_OCTETS;
    }
    return blocks > MOST_BLOCKS ? -1 : 0;
}

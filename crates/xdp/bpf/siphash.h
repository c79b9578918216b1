// SipHash-2-4: with 128 bits of output, of eight octets, the identifier, pad and mask of a seq; with 64 bits, of sixteen octets, the token of an
// opened packet (suite's tunnel.rs).
#pragma once
#include "kernel.h"

// Identifier in the low six octets, pad of the check in the two above, as they stand on the wire; and the mask of the header.
struct block {
    u64 front, mask;
};

#define ROTATED(value, by) ((value) << (by) | (value) >> (64 - (by)))
#define SIP_ROUND                                                             \
    do {                                                                      \
        v0 += v1, v1 = ROTATED(v1, 13), v1 ^= v0, v0 = ROTATED(v0, 32);       \
        v2 += v3, v3 = ROTATED(v3, 16), v3 ^= v2;                             \
        v0 += v3, v3 = ROTATED(v3, 21), v3 ^= v0;                             \
        v2 += v1, v1 = ROTATED(v1, 17), v1 ^= v2, v2 = ROTATED(v2, 32);       \
    } while (0)

#define OCTETS_IN_SEQ 8
// QUIC has this bit of the first octet set, and an identifier has it clear.
#define QUIC_BIT 0x40ull
#define QUIC_LONG_BIT 0x80ull

INLINE struct block block_of(const u64 key[2], u64 seq) {
    u64 v0 = key[0] ^ 0x736f6d6570736575ull, v1 = key[1] ^ 0x646f72616e646f6dull ^ 0xee;
    u64 v2 = key[0] ^ 0x6c7967656e657261ull, v3 = key[1] ^ 0x7465646279746573ull;
    u64 end = (u64)OCTETS_IN_SEQ << 56;
    v3 ^= seq;
    SIP_ROUND;
    SIP_ROUND;
    v0 ^= seq, v3 ^= end;
    SIP_ROUND;
    SIP_ROUND;
    v0 ^= end, v2 ^= 0xee;
    SIP_ROUND;
    SIP_ROUND;
    SIP_ROUND;
    SIP_ROUND;
    struct block block = {.front = (v0 ^ v1 ^ v2 ^ v3) & ~QUIC_BIT};
    v1 ^= 0xdd;
    SIP_ROUND;
    SIP_ROUND;
    SIP_ROUND;
    SIP_ROUND;
    block.mask = v0 ^ v1 ^ v2 ^ v3;
    return block;
}

INLINE u64 sip_of_two(const u64 key[2], u64 first, u64 second) {
    u64 v0 = key[0] ^ 0x736f6d6570736575ull, v1 = key[1] ^ 0x646f72616e646f6dull;
    u64 v2 = key[0] ^ 0x6c7967656e657261ull, v3 = key[1] ^ 0x7465646279746573ull;
    u64 words[3] = {first, second, (u64)(2 * sizeof(u64)) << 56};
    UNROLLED for (int i = 0; i < 3; i++) {
        v3 ^= words[i];
        SIP_ROUND;
        SIP_ROUND;
        v0 ^= words[i];
    }
    v2 ^= 0xff;
    SIP_ROUND;
    SIP_ROUND;
    SIP_ROUND;
    SIP_ROUND;
    return v0 ^ v1 ^ v2 ^ v3;
}

// Identifier and check of a header, as they stand on the wire: the check is a multilinear hash under the pad.
INLINE u64 checked_front(const u64 numbers[3], u64 front, u64 header) {
    u64 hash = numbers[0] + numbers[1] * BE32((u32)header) + numbers[2] * BE32((u32)(header >> 32));
    return front ^ (u64)BE16((u16)(hash >> 48)) << 48;
}

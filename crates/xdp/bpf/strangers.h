// Packets of strangers for user space: each kind of them gets a part of the worker's time, and those beyond it are dropped here, where
// they cost least. Else they take the CPU from packets that the programs could have carried.
//
// A stranger's packet is one that nobody has proved: made up, come again, or of somebody whom nobody knows yet. Packets of peers that are
// user space's are none, for their identifiers are in the table too (WATCHED). The worker says what a packet costs it, so a part is
// as many packets as this box can bear. Fragments of IP, IP options and other ports are the host's.
//
// QUIC's packets and probes cannot be proved here. Those from a peer's own address (`known`) have a part of their own in front of the
// strangers': a sixteenth too, in equal shares, one for each address. An attacker who sends in a peer's name takes that peer's share alone.
// What they take is taken from the strangers' part of their kind as well, so that all together get no more than without.
#pragma once
#include "settling.h"

#define IPV4_SOURCE 26
#define IPV4_DESTINATION 30
#define IPV6_SOURCE 22
#define IPV6_DESTINATION 38
// Of the worker's time a kind has one part in so many; and as much at once as it has in this time.
#define PARTS 16
#define AT_ONCE 16000000ull
// Of a known address: a handshake or a message comes in several packets at once.
#define KNOWN_AT_ONCE 64000000ull
#define EVER (1ull << 62)
// In `known`: not all lanes on which the peer sends are watched, so identifiers from there may be its own.
#define ANY_IDENTIFIER 0x80000000u
#define NOBODY (~0u)
// In `here`, above all kinds.
#define RECEIVES 0x80000000u

// Kinds, and bits of the number in `here`: an unknown identifier; QUIC's packets with a long header, by which connections begin, and with
// a short one; in plain mode, an address that is no peer's; on the LAN, what no site carries.
enum stranger { UNKNOWN_IDENTIFIER, LONG_HEADER, SHORT_HEADER, UNKNOWN_ADDRESS, NOT_CARRIED, STRANGERS };

// An address of a packet; of IPv4, mapped.
struct address {
    u64 word[2];
};
// Where a packet comes from: the address, and the UDP port as it is read.
struct source {
    struct address address;
    u32 port, zero;
};
// End of the time that was given away. Each has a cache line, for all CPUs write it.
struct part {
    u64 due, zero[7];
};
#define KINDS 8
struct floods {
    u64 of[KINDS];
};

MAP(ARRAY, u32, struct part, STRANGERS) parts SECTION(".maps");
// Packets that were dropped.
MAP(PERCPU_ARRAY, u32, struct floods, 1) floods SECTION(".maps");
// Addresses of this box, and which kinds are dropped that come to them. Packets for others only pass through the box. And whether the socket
// of the data port receives what comes to them (RECEIVES).
MAP(HASH, struct address, u32, 1) here SECTION(".maps");
// Current addresses of connected peers: the number of a part, read once, and ANY_IDENTIFIER. A number that has become another's charges
// the wrong part for a moment.
MAP(HASH, struct source, u32, 1) known SECTION(".maps");
MAP(ARRAY, u32, struct part, 1) known_parts SECTION(".maps");

// The address at an offset of a packet, by the kind of its headers.
INLINE struct address address_at(const u8 *data, u32 outer, u32 four, u32 six) {
    if (outer == MOST_OUTER) return (struct address){{U64(data + six), U64(data + six + 8)}};
    return (struct address){{0, (u64)U32(data + four) << 32 | 0xffff0000ull}};
}

// Takes time from a part, if it has some left.
INLINE int take_time(struct part *part, u64 price, u64 at_once, u64 now) {
    u64 due = *(volatile u64 *)&part->due;
    if (due > now + at_once) return 0;
    // Time that nobody took is not saved.
    if (due < now) __sync_val_compare_and_swap(&part->due, due, now);
    __sync_fetch_and_add(&part->due, price);
    return 1;
}

// What `here` has of the address that a packet is for; 0: it is for others.
INLINE u32 bits_here(const u8 *data, u32 outer) {
    struct address to = address_at(data, outer, IPV4_DESTINATION, IPV6_DESTINATION);
    volatile u32 *bits = map_lookup(&here, &to);
    return bits ? *bits : 0;
}

// True if there is time left for a packet, in the part of a known address (else NOBODY) of `knowns`, or in the strangers' of its kind. If it
// is dropped, it is counted.
INLINE int has_part(u32 kind, u32 number, u32 knowns) {
    u32 zero = 0, place = kind;
    const volatile struct turns *worker = map_lookup(&turns, &zero);
    struct part *part = map_lookup(&parts, &place), *own = map_lookup(&known_parts, &number);
    struct floods *count = map_lookup(&floods, &zero);
    if (!worker || !part || !count) return 1;
    u64 cost = worker->cost, price = cost * PARTS;
    if (!cost) return 1;
    u64 now = ktime_get_ns();
    if (own && take_time(own, price * knowns, KNOWN_AT_ONCE, now)) return take_time(part, price, EVER, now);
    if (take_time(part, price, AT_ONCE, now)) return 1;
    BOUND(kind, KINDS - 1);
    count->of[kind]++;
    return 0;
}

// True if a packet from the network that nobody has proved goes to user space.
GLOBAL int admits(struct xdp_md *ctx, u32 outer, u32 kind) {
    u32 zero = 0, number = NOBODY;
    struct settings *site = map_lookup(&settings, &zero);
    BOUND(outer, 63);
    u8 *data = start_of(ctx);
    if (!site || data + LEAST_PACKET > end_of(ctx)) return 1;
    if (!(bits_here(data, outer) >> (kind & 31) & 1)) return 1;
    if (kind != UNKNOWN_ADDRESS) {
        struct source from = {.address = address_at(data, outer, IPV4_SOURCE, IPV6_SOURCE)};
        from.port = outer == MOST_OUTER ? U16(data + MOST_OUTER - UDP_OCTETS) : U16(data + ETHERNET + IPV4_OCTETS);
        volatile u32 *found = map_lookup(&known, &from);
        u32 known_as = found ? *found : NOBODY;
        if (kind != UNKNOWN_IDENTIFIER) number = found ? known_as & ~ANY_IDENTIFIER : NOBODY;
        else if (found && known_as & ANY_IDENTIFIER) return 1;
    }
    return has_part(kind, number, site->knowns);
}

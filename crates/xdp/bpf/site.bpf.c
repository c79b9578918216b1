// A site's known flows in identifier mode and in plain mode (plain.h): what crate tunnel does in user space, frame by frame the same.
//
//   outward: DA | SA | SecTAG | body                                              at the LAN; leaves by a WAN interface
//   inward:  Ethernet | IP | UDP | RID 6 | check 2 | masked header 8 | body       the other way
//   change:  by user space
//
// In identifier mode whole frames in short form alone, on lanes that user space does not use. Outward all else goes to the AF_XDP socket of its queue
// as it came, and inward to the host's stack: unknown flows and stations, long frames, QUIC, identifiers of other lanes. Of strangers' packets
// those alone that the worker has time for (strangers.h). A flow that
// had a frame for user space stays there until it is added anew, and then until it pauses: so its frames keep their order. A peer's flow that
// begins to come on these lanes goes to the socket, opened, until none of its frames is in front of it there.
#include "settling.h"

char licence[] SECTION("license") = "MIT";

#define ETHERNET 14
#define IPV4_OCTETS 20
#define IPV6_OCTETS 40
#define UDP_OCTETS 8
#define TUNNEL 16
#define SECTAG_FRAME 20
#define SECTAG_SCI_FRAME 28
#define MOST_OUTER (ETHERNET + IPV6_OCTETS + UDP_OCTETS)
#define LEAST_PACKET (ETHERNET + IPV4_OCTETS + UDP_OCTETS + TUNNEL)
#define UDP 17
// As they are read.
#define MACSEC BE16(0x88e5)
#define EAPOL BE16(0x888e)
#define BEAT BE16(0x88b6)
#define CUSTOMER_VLAN BE16(0x8100)
#define SERVICE_VLAN BE16(0x88a8)
#define IPV4 BE16(0x0800)
#define IPV6 BE16(0x86dd)
// MF and the offset of a fragment.
#define FRAGMENT BE16(0x3fff)
// Bits of the TCI.
#define VERSION 0x80
#define SC 0x20
#define FLOW_BITS 0x70
#define PACKET_BITS 0x0f
#define STAY 1000000000ull
#define MOST_PAYLOAD 4096

// What a peer is sent on. Eight octets, so user space exchanges both at once.
struct peer {
    u32 lane, path;
};

// In the order of the Rust side's.
enum counter {
    OUT_TUNNELLED, OUT_OCTETS, OUT_SEQ_EXHAUSTED, IN_TUNNELLED, IN_OCTETS, IN_LATE, IN_BAD_HEADER, IN_FORGED_HEADER, IN_SOURCE_HERE,
    IN_UNKNOWN_FLOW, IN_TOO_LONG, STATIONS_MOVED, COUNTERS
};
struct counters {
    u64 of[COUNTERS];
};

MAP(ARRAY, u32, struct peer, 1) peers SECTION(".maps");
MAP(PERCPU_ARRAY, u32, struct counters, 1) counters SECTION(".maps");
// The LAN, then WAN interfaces.
MAP(DEVMAP, u32, u32, 4) ports SECTION(".maps");
MAP(XSKMAP, u32, u32, 64) sockets SECTION(".maps");
#define LAN_PORT 0

#include "plain.h"

INLINE int to_user_space(struct xdp_md *ctx, const struct settings *site) {
    return redirect_map(&sockets, ctx->rx_queue_index, site->rest);
}

// A station is heard on this LAN also in frames that are user space's: no peer may take its place meanwhile.
INLINE void hear_here(struct station *station, u64 now) {
    if (station->where > HERE) return;
    station->where = HERE, station->heard = now;
}

INLINE int unknown(struct xdp_md *ctx, const struct settings *site, const struct flow *key) {
    u64 address = key->address[1] >> 16 | (u64)key->address[2] << 16;
    struct station *station = numbered(&addresses, &address, &stations);
    if (station && station->address == address) hear_here(station, ktime_get_coarse_ns());
    return to_user_space(ctx, site);
}

INLINE u32 folded(u64 sum) {
    UNROLLED for (int i = 0; i < 4; i++) sum = (sum & 0xffff) + (sum >> 16);
    return (u32)sum;
}

// Else the compiler would look for the end of a loop by sums with the end of a frame, which the verifier refuses.
#define SEPARATE(pointer) asm volatile("" : "+r"(pointer))

// The sum of octets of the frame, for a checksum.
GLOBAL int sum_frame(struct xdp_md *ctx, u32 at, u32 octets) {
    BOUND(at, 63);
    u8 *here = start_of(ctx) + at, *end = end_of(ctx);
    u64 sum = 0;
    EACH_ONE_BY_ONE for (u32 i = 0; i < MOST_PAYLOAD / 16 && octets >= 16; i++, octets -= 16, here += 16) {
        SEPARATE(here);
        if (here + 16 > end) return -1;
        sum += (u64)U32(here) + U32(here + 4) + U32(here + 8) + U32(here + 12);
    }
    if (octets >= 16) return -1;
    EACH_ONE_BY_ONE for (u32 i = 0; i < 7 && octets >= 2; i++, octets -= 2, here += 2) {
        SEPARATE(here);
        if (here + 2 > end) return -1;
        sum += U16(here);
    }
    SEPARATE(here);
    if (octets) {
        if (here + 1 > end) return -1;
        sum += *here;
    }
    return (int)folded(sum);
}

// Ethernet, IP and UDP in front of a packet of `octets` octets of payload. The payload is there already.
INLINE int write_outer(struct xdp_md *ctx, const struct path *path, u32 octets) {
    u8 *data = start_of(ctx), *end = end_of(ctx);
    u32 udp = octets + UDP_OCTETS;
    if (path->octets != MOST_OUTER) {
        if (data + ETHERNET + IPV4_OCTETS + UDP_OCTETS > end) return -1;
        UNROLLED for (int i = 0; i < 5; i++) U64(data + 8 * i) = U64(path->head + 8 * i);
        U16(data + 40) = U16(path->head + 40);
        u32 ip = BE16(udp + IPV4_OCTETS);
        U16(data + 16) = ip, U16(data + 24) = ~folded((u64)path->sum + ip), U16(data + 38) = BE16(udp);
        return 0;
    }
    // Over IPv6 the checksum is a must (RFC 8200, 8.1).
    int sum = sum_frame(ctx, MOST_OUTER, octets);
    data = start_of(ctx), end = end_of(ctx);
    if (sum < 0 || data + MOST_OUTER > end) return -1;
    UNROLLED for (int i = 0; i < 7; i++) U64(data + 8 * i) = U64(path->head + 8 * i);
    U32(data + 56) = U32(path->head + 56);
    U16(data + 18) = BE16(udp), U16(data + 58) = BE16(udp);
    u16 checksum = ~folded((u64)path->sum + 2 * (u64)BE16(udp) + (u32)sum);
    U16(data + 60) = checksum ? checksum : 0xffff;
    return 0;
}

// True if user space does anything with a frame of the LAN but count it.
INLINE int may_be_carried(const struct settings *site, u32 ethertype) {
    return ethertype == MACSEC || ethertype == EAPOL || ethertype == CUSTOMER_VLAN || ethertype == SERVICE_VLAN || ethertype == BEAT
           || ethertype == site->cyclic;
}

SECTION("xdp") int outward(struct xdp_md *ctx) {
    u32 zero = 0;
    struct settings *site = map_lookup(&settings, &zero);
    if (!site) return XDP_DROP;
    u8 *data = start_of(ctx), *end = end_of(ctx);
    if (data + ETHERNET > end) return to_user_space(ctx, site);
    if (!may_be_carried(site, U16(data + 12)) && !has_part(NOT_CARRIED, NOBODY, 0)) return XDP_DROP;
    if (data + SECTAG_FRAME > end || U16(data + 12) != MACSEC || data[14] & VERSION) return to_user_space(ctx, site);
    struct flow key = {.bits = data[14] & FLOW_BITS, .address = {U32(data), U32(data + 4), U32(data + 8)}};
    u64 header = (u64)U32(data + 16) << 16 | (u64)(data[14] & PACKET_BITS) << 48 | (u64)data[15] << 56;
    u32 front = SECTAG_FRAME;
    if (data[14] & SC) {
        if (data + SECTAG_SCI_FRAME > end) return to_user_space(ctx, site);
        key.sci[0] = U32(data + 20), key.sci[1] = U32(data + 24), front = SECTAG_SCI_FRAME;
    }
    struct outward_flow *flow = outward_flow_of(&key);
    if (!flow) return unknown(ctx, site, &key);
    u32 number = flow->peer, at = flow->source, to = flow->destination;
    struct station *source = map_lookup(&stations, &at), *destination = map_lookup(&stations, &to);
    struct peer *peer = map_lookup(&peers, &number);
    struct counters *count = map_lookup(&counters, &number);
    if (!source || !destination || !peer || !count) return to_user_space(ctx, site);
    u64 now = ktime_get_coarse_ns();
    if (flow->place != KERNEL) {
        u64 exact = ktime_get_ns();
        const volatile struct turns *worker = map_lookup(&turns, &zero);
        if (!worker) return XDP_DROP;
        if (flow->place != SETTLING || !is_settled(flow, worker, site->quiet, exact)) {
            flow->left = exact, flow->turn = worker->begun;
            hear_here(source, now);
            return to_user_space(ctx, site);
        }
        flow->place = KERNEL;
    }
    // One load: user space exchanges both at once.
    u64 both = *(volatile u64 *)peer;
    u32 lane_number = both, path_number = both >> 32;
    struct transmit_lane *lane = map_lookup(&transmit_lanes, &lane_number);
    struct path *path = map_lookup(&paths, &path_number);
    if (!path || (!path->vxlan && (!lane || !lane->open)) || source->where != HERE || destination->where != BEHIND + number
        || time_since(destination->heard, now) >= site->station_age) {
        // A frame that is user space's takes those with it that follow, until the flow is added anew: so none overtakes another.
        flow->place = USER_SPACE, flow->left = now;
        hear_here(source, now);
        return to_user_space(ctx, site);
    }
    source->heard = now;
    // A frame of two packets, or one without room in front of it, likewise.
    u32 plain = path->vxlan != 0, tunnel_octets = plain ? VXLAN : TUNNEL, outer = path->octets;
    if (plain) front = 0;
    u32 octets = octets_of(ctx) - front + tunnel_octets;
    if (octets > path->most || adjust_head(ctx, (int)front - (int)(outer + tunnel_octets))) {
        flow->place = USER_SPACE, flow->left = now;
        return to_user_space(ctx, site);
    }
    BOUND(outer, 63);
    u8 *tunnel = start_of(ctx) + outer;
    if (tunnel + TUNNEL > end_of(ctx)) return XDP_DROP;
    if (plain) {
        U64(tunnel) = path->vxlan;
    } else {
        if (!lane) return XDP_DROP;
        u64 seq = __sync_fetch_and_add(&lane->seq, 1);
        if (seq > LAST_SEQ) {
            count->of[OUT_SEQ_EXHAUSTED]++;
            return XDP_DROP;
        }
        struct block block = block_of(lane->key, seq);
        header |= (u16)flow->number;
        U64(tunnel) = checked_front(lane->check, block.front, header), U64(tunnel + 8) = header ^ block.mask;
    }
    if (write_outer(ctx, path, octets)) return XDP_DROP;
    flow->used = now;
    count->of[OUT_TUNNELLED]++, count->of[OUT_OCTETS] += octets;
    return redirect_map(&ports, path->port, XDP_DROP);
}

// Learns that a station was heard behind a peer. 0: it was heard on this LAN within the last second (stations.rs).
INLINE int hear_behind(struct station *station, u32 behind, u64 now, struct counters *count) {
    if (station->where == behind) {
        station->heard = now;
        return 1;
    }
    if (station->where && time_since(station->heard, now) < STAY) return station->where != HERE;
    station->where = behind, station->heard = now;
    count->of[STATIONS_MOVED]++;
    return 1;
}

INLINE int discard(struct counters *count, enum counter reason) {
    count->of[reason]++;
    return XDP_DROP;
}

INLINE u64 half_words(u64 octets) { return (octets & 0xffffffff) + (octets >> 32); }

// Token of an opened packet, as it stands on the wire. It is of one header, peer and period, so that one that leaks opens nothing else.
INLINE u64 token_of(const struct settings *site, u64 header, u32 from, u64 period) {
    return sip_of_two(site->token_key, header, period << 16 | from) & RID_MASK & ~QUIC_BIT;
}

// Whether a packet, whose header of UDP stands here, goes to the data port with a token that the worker would take (turns.rs). Programs alone
// may write one.
GLOBAL int has_token(struct xdp_md *ctx, u32 at) {
    u32 zero = 0;
    const struct settings *site = map_lookup(&settings, &zero);
    const volatile struct turns *worker = map_lookup(&turns, &zero);
    BOUND(at, 127);
    u8 *udp = start_of(ctx) + at, *tunnel = udp + UDP_OCTETS;
    if (!site || !worker || tunnel + TUNNEL > end_of(ctx) || U16(udp + 2) != site->port) return 0;
    u64 front = U64(tunnel), header = U64(tunnel + 8), period = worker->period;
    EACH_ONE_BY_ONE for (u32 ago = 0; ago < 2; ago++) {
        if (token_of(site, header, BE16((u16)(front >> 48)), period - ago) == (front & RID_MASK)) return 1;
    }
    return 0;
}

// Sends a packet to the socket, opened: token 6 | peer 2 | header 8 | body. One that the socket does not get stays as it came: the host would
// answer it with what it holds, or send it on.
GLOBAL int pass_opened(struct xdp_md *ctx, u32 outer, u32 from, u64 header) {
    u32 zero = 0;
    const struct settings *site = map_lookup(&settings, &zero);
    const volatile struct turns *worker = map_lookup(&turns, &zero);
    struct counters *count = map_lookup(&counters, &from);
    u32 at = outer - UDP_OCTETS;
    BOUND(at, 63);
    u8 *data = start_of(ctx), *udp = data + at, *tunnel = udp + UDP_OCTETS;
    if (!site || !worker || !count || data + LEAST_PACKET > end_of(ctx) || tunnel + TUNNEL > end_of(ctx)) return XDP_DROP;
    if (!(bits_here(data, outer) & RECEIVES)) return XDP_PASS;
    u64 front = token_of(site, header, from, worker->period) | (u64)BE16(from) << 48;
    u16 checksum = U16(udp + 6);
    // RFC 1624: what was there is taken out of the sum.
    u64 sum = (u64)(u16)~checksum + half_words(~U64(tunnel)) + half_words(~U64(tunnel + 8)) + half_words(front) + half_words(header);
    U64(tunnel) = front, U64(tunnel + 8) = header;
    u16 new = ~folded(sum);
    if (checksum) U16(udp + 6) = new ? new : 0xffff;
    count->of[IN_TUNNELLED]++;
    return XDP_PASS;
}

SECTION("xdp") int inward(struct xdp_md *ctx) {
    u32 zero = 0, place = 0;
    struct settings *site = map_lookup(&settings, &zero);
    if (!site) return XDP_PASS;
    u8 *data = start_of(ctx), *end = end_of(ctx);
    if (data + LEAST_PACKET > end) return XDP_PASS;
    u32 outer = ETHERNET + IPV4_OCTETS + UDP_OCTETS, given;
    if (U16(data + 12) == IPV4) {
        if (U16(data + 20) & FRAGMENT || data[23] != UDP) return XDP_PASS;
        if (data[14] != 0x45) return has_token(ctx, ETHERNET + 4 * (data[14] & 0xf)) ? XDP_DROP : XDP_PASS;
        given = BE16(U16(data + 16)) - IPV4_OCTETS;
    } else if (U16(data + 12) == IPV6 && data[20] == UDP) {
        outer = MOST_OUTER, given = BE16(U16(data + 18));
    } else {
        return XDP_PASS;
    }
    BOUND(outer, 63);
    u8 *tunnel = data + outer;
    if (tunnel + TUNNEL > end) return XDP_PASS;
    u32 port = U16(tunnel - 6), udp = BE16(U16(tunnel - 4)), len = octets_of(ctx) - (outer - UDP_OCTETS);
    // A site without plain peers may have its data port anywhere.
    if (port != site->port && port != site->plain_port) return XDP_PASS;
    // No peer sends such.
    if (udp != given || udp > len || udp < UDP_OCTETS + TUNNEL)
        return admits(ctx, outer, port == site->port ? UNKNOWN_IDENTIFIER : UNKNOWN_ADDRESS) && !has_token(ctx, outer - UDP_OCTETS) ? XDP_PASS : XDP_DROP;
    if (port != site->port) return inward_plain(ctx, outer, udp, len);
    // A packet of QUIC has a bit set that no identifier has.
    u64 word = U64(tunnel), masked = U64(tunnel + 8), where = 0;
    struct block block = {};
    struct bucket *bucket = find(site, word & RID_MASK, &place);
    struct passed *last = map_lookup(&passed, &zero);
    const volatile struct turns *worker = map_lookup(&turns, &zero);
    if (!last || !worker) return XDP_DROP;
    if (!bucket || !take(bucket, place, &block, &where)) {
        u32 kind = !(word & QUIC_BIT) ? UNKNOWN_IDENTIFIER : word & QUIC_LONG_BIT ? LONG_HEADER : SHORT_HEADER;
        if (!admits(ctx, outer, kind)) return XDP_DROP;
        if (kind == UNKNOWN_IDENTIFIER && has_token(ctx, outer - UDP_OCTETS)) return XDP_DROP;
        if (kind == UNKNOWN_IDENTIFIER) note_passed(last, worker, ktime_get_ns());
        return XDP_PASS;
    }

    u32 number = where >> SEQ_BITS, entry = 0, open, late, width_bits = site->width_bits;
    u64 seq = where & ((1ull << SEQ_BITS) - 1), missing = 0, more = 0, half = 1ull << ((width_bits - 1) & 63);
    struct receive_lane *lane = map_lookup(&receive_lanes, &number);
    if (!lane) return XDP_PASS;
    spin_lock(&lane->lock);
    open = lane->open, late = seq + half < lane->newest || seq > LAST_SEQ;
    if (open && !late) {
        // From an anchor: the gap is filled from here down, the window continues behind it.
        if (seq >= lane->high) lane->gap_start = lane->high, lane->gap_end = seq, lane->high = seq + 1;
        if (seq > lane->newest) lane->newest = seq;
        missing = next_missing(lane, width_bits, &entry), more = count_missing(lane, width_bits);
    }
    u32 from = lane->peer;
    spin_unlock(&lane->lock);
    struct counters *count = map_lookup(&counters, &from);
    if (!open || !count) return XDP_PASS;
    if (late && open != WATCHED) return discard(count, IN_LATE);
    if (!late) {
        forget(site, number, seq);
        fill(site, number, lane, FILL, missing, entry, more);
    }
    if (open == WATCHED) {
        note_passed(last, worker, ktime_get_ns());
        return XDP_PASS;
    }

    u64 header = masked ^ block.mask, now = ktime_get_coarse_ns();
    if (checked_front(lane->check, block.front, header) != word) return discard(count, IN_FORGED_HEADER);
    // On these lanes there are whole frames in short form and nothing else.
    if (header >> 52 & 0xf) return discard(count, IN_BAD_HEADER);
    if (!lane->used) lane->used = now;
    u32 index = BE16((u16)header), key = from << 16 | index;
    struct announced_flow *flow = numbered(&announced, &key, &announced_flows);
    if (!flow || flow->key != key) {
        lane->unknown = index + 1;
        return discard(count, IN_UNKNOWN_FLOW);
    }
    u32 payload = udp - UDP_OCTETS, front = flow->flow.bits & SC ? SECTAG_SCI_FRAME : SECTAG_FRAME, at = flow->station;
    count->of[IN_OCTETS] += payload;
    if (front + payload - TUNNEL > site->lan_frame) return discard(count, IN_TOO_LONG);
    struct station *station = map_lookup(&stations, &at);
    if (!station) return XDP_DROP;
    if (!hear_behind(station, BEHIND + from, now, count)) return discard(count, IN_SOURCE_HERE);
    if (is_behind(&flow->order, last, worker, AT_DATA_PORT, now)) return pass_opened(ctx, outer, from, header);

    // Padding of a short packet goes, then the headers, whose room the frame's own beginning takes.
    if ((len > udp && adjust_tail(ctx, -(int)(len - udp))) || adjust_head(ctx, (int)(outer + TUNNEL - front))) return XDP_DROP;
    data = start_of(ctx), end = end_of(ctx);
    if (data + SECTAG_FRAME > end) return XDP_DROP;
    U32(data) = flow->flow.address[0], U32(data + 4) = flow->flow.address[1], U32(data + 8) = flow->flow.address[2];
    U16(data + 12) = MACSEC, data[14] = flow->flow.bits | (header >> 48 & PACKET_BITS), data[15] = header >> 56;
    U32(data + 16) = header >> 16;
    if (front == SECTAG_SCI_FRAME) {
        if (data + SECTAG_SCI_FRAME > end) return XDP_DROP;
        U32(data + 20) = flow->flow.sci[0], U32(data + 24) = flow->flow.sci[1];
    }
    count->of[IN_TUNNELLED]++;
    return redirect_map(&ports, LAN_PORT, XDP_DROP);
}

// Changes of a lane that peers send on, under its lock; the answer stands in the command's place.
// CLOSE, CLEAR and WIPE in this order: while frames that were in a program may still put identifiers in, they do it under the old key.
enum what { OPEN, FILL_UP, ADVANCE, CLOSE, CLEAR, WIPE, LOOK };
struct command {
    u32 what, lane, peer, from;
    u64 seq, key[2], check[3];
};
// advanced: whether ADVANCE has moved the window. missing: identifiers that the table lacks.
struct report {
    u64 now, newest, missing, used;
    u32 advanced, unknown;
};
enum { DONE = 100, MALFORMED = 102 };

SECTION("xdp") int change(struct xdp_md *ctx) {
    struct command *command = (struct command *)start_of(ctx);
    if ((u8 *)(command + 1) > end_of(ctx)) return MALFORMED;
    u32 zero = 0, number = command->lane, what = command->what;
    struct settings *site = map_lookup(&settings, &zero);
    struct receive_lane *lane = map_lookup(&receive_lanes, &number);
    if (!site || !lane || what > LOOK) return MALFORMED;
    u32 width_bits = site->width_bits, from = command->from;
    u64 half = 1ull << ((width_bits - 1) & 63), width = 2 * half, seq = command->seq;
    struct report report = {.now = ktime_get_coarse_ns()};
    u32 refused = 0;
    spin_lock(&lane->lock);
    switch (what) {
    case OPEN:
        // From seq 1 again, old identifiers would be taken once more.
        refused = lane->open;
        if (refused) break;
        lane->open = from ? WATCHED : TAKEN, lane->peer = command->peer, lane->unknown = 0;
        lane->key[0] = command->key[0], lane->key[1] = command->key[1];
        lane->check[0] = command->check[0], lane->check[1] = command->check[1], lane->check[2] = command->check[2];
        lane->newest = 0, lane->high = 1, lane->gap_start = lane->gap_end = 0, lane->anchors_high = 1, lane->used = 0;
        break;
    case ADVANCE:
        // Not if the window reaches it already: moving would bring nothing new, and lose packets in flight.
        if (lane->open && seq > lane->newest + width && !(seq & (half - 1)) && seq <= LAST_SEQ) {
            lane->newest = seq, report.advanced = 1;
            // The next packets are those before the anchor: filled upwards, they come first.
            if (lane->high < seq - half) lane->high = seq - half;
        }
        break;
    case CLOSE:
        lane->open = 0;
        break;
    case WIPE:
        lane->key[0] = lane->key[1] = lane->check[0] = lane->check[1] = lane->check[2] = 0;
        break;
    }
    spin_unlock(&lane->lock);
    if (refused) return MALFORMED;
    if (what == FILL_UP) fill(site, number, lane, 256, 0, 0, 1);
    if (what == CLEAR) {
        u32 places = (2u << (width_bits & 31)) + ANCHORS;
        EACH_ONE_BY_ONE for (u32 i = 0; i < 256 && from + i < places; i++) {
            struct held *held = held_of(site, number, from + i);
            if (!held) break;
            remove(held, number);
            held->seq = 0;
        }
    }
    spin_lock(&lane->lock);
    report.newest = lane->newest, report.missing = count_missing(lane, width_bits), report.used = lane->used;
    report.unknown = lane->unknown;
    if (what == LOOK) lane->unknown = 0;
    spin_unlock(&lane->lock);
    // The kernel frees the command's memory as it is.
    *command = (struct command){};
    *(struct report *)command = report;
    return DONE;
}

// Plain mode: VXLAN (RFC 7348, section 5), whole untagged MACsec frames alone.
//
//   Ethernet | IP | UDP | flags 1 | reserved 3 | VNI 3 | reserved 1 | frame
//
// Outward a frame is a known flow's, as in identifier mode. Inward a packet is the peer's from whose address it comes, whatever its port, as in
// user space. The program takes it to the LAN if user space has said that the frame's source is behind that peer; all else is the
// host's, so that user space learns, judges and counts it.
#pragma once
#include "strangers.h"

#define VXLAN 8
// As one word: a VNI is there; the VNI.
#define VNI_THERE 0x08ull
#define VNI_MASK 0x00ffffff00000000ull

// The headers in front of a packet, with lengths and checksums 0, and the sum of what the checksum covers without them. vxlan: the header of
// plain mode; 0: it is identifier mode. receives: whether packets that come this way in plain mode may go to the LAN.
struct path {
    u8 head[64];
    u32 octets, sum, most, port;
    u64 vxlan;
    u32 receives, zero;
};

MAP(ARRAY, u32, struct path, 1) paths SECTION(".maps");
// Peers in plain mode by address. The path has it too, and is compared.
MAP(HASH, struct address, u32, 1) plain_peers SECTION(".maps");

// Whether a packet did not come the way of a path: from its peer, to this site. On the wire there may be others' too.
INLINE u64 came_otherwise(const u8 *data, const struct path *path) {
    const u8 *head = path->head;
    u64 differs = (U32(data) ^ U32(head + 6)) | (U16(data + 4) ^ U16(head + 10));
    if (path->octets != MOST_OUTER) return differs | (U32(data + 26) ^ U32(head + 30)) | (U32(data + 30) ^ U32(head + 26));
    UNROLLED for (int i = 0; i < 2; i++)
        differs |= (U64(data + 22 + 8 * i) ^ U64(head + 38 + 8 * i)) | (U64(data + 38 + 8 * i) ^ U64(head + 22 + 8 * i));
    return differs;
}

// Counters of the peer whose frame goes to the LAN; null: the packet is the host's. `stranger`: nobody's who is known.
INLINE struct counters *take_plain(struct xdp_md *ctx, struct passed *last, const volatile struct turns *worker, u32 outer, u32 udp, int *stranger) {
    u32 zero = 0;
    struct settings *site = map_lookup(&settings, &zero);
    BOUND(outer, 63);
    u8 *data = start_of(ctx), *tunnel = data + outer, *inner = tunnel + VXLAN;
    if (!site || data + LEAST_PACKET > end_of(ctx)) return 0;
    struct address from = address_at(data, outer, IPV4_SOURCE, IPV6_SOURCE);
    volatile u32 *found = map_lookup(&plain_peers, &from);
    *stranger = !found;
    u32 number = found ? *found : ~0u;
    if (data + MOST_OUTER > end_of(ctx) || inner + SECTAG_FRAME > end_of(ctx)) return 0;
    u32 octets = udp - UDP_OCTETS - VXLAN, least = inner[14] & SC ? SECTAG_SCI_FRAME : SECTAG_FRAME;
    if (U16(inner + 12) != MACSEC || inner[14] & VERSION || octets < least || octets > site->lan_frame) return 0;

    struct peer *peer = map_lookup(&peers, &number);
    struct counters *count = map_lookup(&counters, &number);
    if (!peer || !count) return 0;
    u32 path_number = *(volatile u64 *)peer >> 32;
    struct path *path = map_lookup(&paths, &path_number);
    if (!path || !path->receives || path->octets != outer || came_otherwise(data, path)) return 0;
    u64 vxlan = U64(tunnel);
    if (!(vxlan & VNI_THERE) || (vxlan ^ path->vxlan) & VNI_MASK) return 0;

    u64 address = (u64)U32(inner + 8) << 16 | U16(inner + 6), now = ktime_get_coarse_ns();
    struct station *station = numbered(&addresses, &address, &stations);
    if (!station || station->address != address || station->where != BEHIND + number) return 0;
    station->heard = now;
    struct order *order = &station->order;
    // Packets of another path before may have gone to user space.
    if (order->path != path_number) order->path = path_number, order->place = SETTLING, order->began = now;
    return is_behind(order, last, worker, AT_PLAIN_PORT, now) ? 0 : count;
}

GLOBAL int inward_plain(struct xdp_md *ctx, u32 outer, u32 udp, u32 len) {
    u32 zero = 0, port = AT_PLAIN_PORT;
    struct passed *last = map_lookup(&passed, &port);
    const volatile struct turns *worker = map_lookup(&turns, &zero);
    if (!last || !worker) return XDP_DROP;
    int stranger = 0;
    struct counters *count = take_plain(ctx, last, worker, outer, udp, &stranger);
    if (!count) {
        if (stranger && !admits(ctx, outer, UNKNOWN_ADDRESS)) return XDP_DROP;
        note_passed(last, worker, ktime_get_ns());
        return XDP_PASS;
    }
    // Padding of a short packet goes, then the headers.
    if ((len > udp && adjust_tail(ctx, -(int)(len - udp))) || adjust_head(ctx, (int)(outer + VXLAN))) return XDP_DROP;
    count->of[IN_TUNNELLED]++, count->of[IN_OCTETS] += udp - UDP_OCTETS;
    return redirect_map(&ports, LAN_PORT, XDP_DROP);
}

// Which SDUs are express: the rules of secy's `ExpressClasses`.
#pragma once
#include "kernel.h"

#define ADDRESSES 12
#define VLAN_TAG 4
// EtherTypes as they are read.
#define VLAN BE16(0x8100)
#define SERVICE_VLAN BE16(0x88a8)
#define IPV4 BE16(0x0800)
#define IPV6 BE16(0x86dd)
#define IPV4_OCTETS 20
#define IPV6_OCTETS 40
#define TCP 6
#define UDP 17
// MF and the fragment's offset.
#define IPV4_FRAGMENT BE16(0x3fff)

// EtherTypes or ports, as they are read.
#define EXPRESS_LIST 16
struct list {
    u32 count;
    u16 of[EXPRESS_LIST];
};

// Which SDUs are express. A bit for each DSCP and PCP.
struct express_classes {
    u64 dscps;
    u32 pcps;
    struct list ethertypes, udp, tcp;
};

MAP(ARRAY, u32, struct express_classes, 1) express SECTION(".maps");

INLINE int is_vlan(u16 ethertype) { return ethertype == VLAN || ethertype == SERVICE_VLAN; }

// Whether a list has a number, or another one.
INLINE int lists(const struct list *list, u16 one, u16 other) {
    EACH_ONE_BY_ONE for (u32 at = 0; at < EXPRESS_LIST && at < list->count; at++) {
        if (list->of[at] == one || list->of[at] == other) return 1;
    }
    return 0;
}

// Whether an IP packet is of an express class. ipv4: a header that says so has length and version in one octet.
INLINE int is_express_ip(const struct express_classes *classes, u8 *at, u8 *end, u32 ipv4) {
    u32 octets = ipv4 ? IPV4_OCTETS : IPV6_OCTETS;
    if (at + octets > end || at[0] >> 4 != (ipv4 ? 4 : 6)) return 0;
    u32 dscp = ipv4 ? at[1] >> 2 : (at[0] << 2 | at[1] >> 6) & 0x3f, protocol = ipv4 ? at[9] : at[6];
    if (classes->dscps >> dscp & 1) return 1;
    if (ipv4) {
        octets = (at[0] & 0x0f) * 4;
        // Only whole datagrams are known by ports: their fragments take one way.
        if (octets < IPV4_OCTETS || U16(at + 6) & IPV4_FRAGMENT) return 0;
    }
    u8 *ports = at + octets;
    if ((protocol != UDP && protocol != TCP) || ports + 4 > end) return 0;
    return lists(protocol == UDP ? &classes->udp : &classes->tcp, U16(ports), U16(ports + 2));
}

// Whether an SDU is of an express class, by the rules of secy's `ExpressClasses`.
GLOBAL int is_express(struct xdp_md *ctx) {
    u32 zero = 0;
    struct express_classes *classes = map_lookup(&express, &zero);
    u8 *data = start_of(ctx), *end = end_of(ctx), *at = data + ADDRESSES;
    if (!classes || at + 2 > end) return 0;
    u16 ethertype = U16(at);
    at += 2;
    if (is_vlan(ethertype)) {
        if (at + VLAN_TAG > end) return 0;
        u32 pcp = at[0] >> 5;
        ethertype = U16(at + 2), at += VLAN_TAG;
        if (is_vlan(ethertype)) {
            if (at + VLAN_TAG > end) return 0;
            ethertype = U16(at + 2), at += VLAN_TAG;
        }
        if (classes->pcps >> pcp & 1) return 1;
    }
    if (lists(&classes->ethertypes, ethertype, ethertype)) return 1;
    return (ethertype == IPV4 || ethertype == IPV6) && is_express_ip(classes, at, end, ethertype == IPV4);
}

// For benches alone: every frame of one interface leaves by the other. What XDP can do at all, with nothing done to a frame. And frames
// that are made and end in the drivers, so that no socket bounds what lies between.
#include "kernel.h"

char licence[] SECTION("license") = "MIT";

#define HEAD_OCTETS 60
#define PN_AT 16
#define LENGTHS 16

// The beginning of all generated frames, and the PN of the next one. shorter: octets that frames lack at the longest, in turn; there are so
// many lengths, or 0 if all are as long.
struct template {
    u8 head[64];
    u32 pn, lengths;
    u32 shorter[LENGTHS];
};

MAP(DEVMAP, u32, u32, 2) ports SECTION(".maps");
MAP(ARRAY, u32, struct template, 1) templates SECTION(".maps");

SECTION("xdp") int to_first(struct xdp_md *ctx) {
    (void)ctx;
    return redirect_map(&ports, 0, XDP_DROP);
}

SECTION("xdp") int to_second(struct xdp_md *ctx) {
    (void)ctx;
    return redirect_map(&ports, 1, XDP_DROP);
}

// The kernel gives a frame's memory again when the frame has ended, as those on its way have left it: so the head is written each time.
SECTION("xdp") int generate(struct xdp_md *ctx) {
    u32 zero = 0;
    struct template *of = map_lookup(&templates, &zero);
    u8 *data = start_of(ctx), *end = end_of(ctx);
    if (!of || data + HEAD_OCTETS > end) return XDP_ABORTED;
    UNROLLED for (int i = 0; i < 7; i++) U64(data + 8 * i) = U64(of->head + 8 * i);
    U32(data + 56) = U32(of->head + 56), U32(data + PN_AT) = BE32(of->pn);
    u32 number = of->pn++;
    if (of->lengths) {
        number %= of->lengths;
        BOUND(number, LENGTHS - 1);
        if (adjust_tail(ctx, -(int)(of->shorter[number] & 0xffff))) return XDP_ABORTED;
    }
    return redirect_map(&ports, 0, XDP_DROP);
}

SECTION("xdp") int sink(struct xdp_md *ctx) {
    (void)ctx;
    return XDP_DROP;
}

// For benches alone: every frame of one interface leaves by the other. What XDP can do at all, with nothing done to a frame.
#include "kernel.h"

char licence[] SECTION("license") = "MIT";

MAP(DEVMAP, u32, u32, 2) ports SECTION(".maps");

SECTION("xdp") int to_first(struct xdp_md *ctx) {
    (void)ctx;
    return redirect_map(&ports, 0, XDP_DROP);
}

SECTION("xdp") int to_second(struct xdp_md *ctx) {
    (void)ctx;
    return redirect_map(&ports, 1, XDP_DROP);
}

// For tests alone: ChaCha20-Poly1305 with keys, nonces and AAD of other people's vectors.
//
//   frame:  key 32 | nonce 12 | AAD's length 2 | text's length 2 | AAD | text | ICV 16        lengths: little endian
#include "chacha20_poly1305.h"

char licence[] SECTION("license") = "MIT";

#define FRONT 48

INLINE int read(struct xdp_md *ctx, struct job *job) {
    u8 *data = start_of(ctx);
    if (data + FRONT > end_of(ctx)) return -1;
    for (int i = 0; i < 8; i++) job->key[i] = U32(data + 4 * i);
    for (int i = 0; i < 3; i++) job->nonce[i] = U32(data + 32 + 4 * i);
    job->at = FRONT, job->aad = U16(data + 44), job->text = U16(data + 46);
    return 0;
}

// The ICV's place in the frame; null if it is not there.
INLINE u8 *icv_of(struct xdp_md *ctx, struct job *job) {
    u32 at = job->at + job->aad + job->text;
    BOUND(at, 2 * MOST_OCTETS - 1);
    u8 *icv = start_of(ctx) + at;
    return icv + 16 > end_of(ctx) ? 0 : icv;
}

SECTION("xdp") int seal(struct xdp_md *ctx) {
    struct job job = {};
    return read(ctx, &job) || aead(ctx, &job) ? XDP_ABORTED : XDP_PASS;
}

// The verdict on a frame that is not authentic is XDP_DROP.
SECTION("xdp") int open(struct xdp_md *ctx) {
    struct job job = {.opens = 1};
    if (read(ctx, &job) || !icv_of(ctx, &job)) return XDP_ABORTED;
    return aead(ctx, &job) ? XDP_DROP : XDP_PASS;
}

// Poly1305 alone, with r and s in the place of the key: sums that no key of ChaCha20 is known to lead to.
SECTION("xdp") int mac(struct xdp_md *ctx) {
    struct job job = {};
    if (read(ctx, &job)) return XDP_ABORTED;
    struct poly1305 poly = {};
    for (int i = 0; i < 4; i++) poly.r[i] = job.key[i], poly.s[i] = job.key[4 + i];
    if (poly1305_frame(ctx, &poly, job.at, job.aad) || poly1305_end(&poly, job.aad, job.text)) return XDP_ABORTED;
    u8 *icv = icv_of(ctx, &job);
    if (!icv) return XDP_ABORTED;
    U64(icv) = poly.h[0], U64(icv + 8) = poly.h[1];
    return XDP_PASS;
}

// ChaCha20-Poly1305 (RFC 8439) over the octets of a frame, in place.
//
//   frame:  ... | AAD | text | ICV 16          AAD begins at octet `at` of the frame
//
// Time depends on lengths alone: no table, no branch on a secret. Poly1305 stands in four limbs of 32 bits, since BPF has products
// of 64 bits at the most: of the 25 partial products in five limbs of 26 bits four fall away.
//
// Loads and stores are 16 octets wide. They never leave the frame, since the ICV follows whatever they are over.
#pragma once
#include "kernel.h"

#define BLOCK_OCTETS 16
// Blocks of AAD or of text, and of 64 octets of keystream. No frame in one buffer of an interface is longer.
#define MOST_BLOCKS 128
#define MOST_OCTETS (MOST_BLOCKS * BLOCK_OCTETS)

// What is done with one frame.
struct job {
    u32 key[8];
    u32 nonce[3];
    u32 at, aad, text;
    u64 icv[2];
};

struct keystream {
    u32 words[16];
};

// r, clamped; the sum h; and s, which is added at the end (RFC 8439, section 2.5).
struct poly1305 {
    u32 r[4], h[5], s[4];
};

#define ROTATE(x, by) ((x) << (by) | (x) >> (32 - (by)))
#define QUARTER(a, b, c, d)                                              \
    (a += b, d = ROTATE(d ^ a, 16), c += d, b = ROTATE(b ^ c, 12), a += b, \
     d = ROTATE(d ^ a, 8), c += d, b = ROTATE(b ^ c, 7))

// The block function (section 2.3).
GLOBAL int chacha20_block(struct keystream *out, const struct job *job, u32 counter) {
    if (!out || !job) return -1;
    const u32 *k = job->key, *n = job->nonce;
    u32 a0 = 0x61707865, a1 = 0x3320646e, a2 = 0x79622d32, a3 = 0x6b206574;
    u32 b0 = k[0], b1 = k[1], b2 = k[2], b3 = k[3], c0 = k[4], c1 = k[5], c2 = k[6], c3 = k[7];
    u32 d0 = counter, d1 = n[0], d2 = n[1], d3 = n[2];
    EACH_ONE_BY_ONE for (int round = 0; round < 20; round += 2) {
        QUARTER(a0, b0, c0, d0), QUARTER(a1, b1, c1, d1), QUARTER(a2, b2, c2, d2), QUARTER(a3, b3, c3, d3);
        QUARTER(a0, b1, c2, d3), QUARTER(a1, b2, c3, d0), QUARTER(a2, b3, c0, d1), QUARTER(a3, b0, c1, d2);
    }
    u32 *w = out->words;
    w[0] = a0 + 0x61707865, w[1] = a1 + 0x3320646e, w[2] = a2 + 0x79622d32, w[3] = a3 + 0x6b206574;
    w[4] = b0 + k[0], w[5] = b1 + k[1], w[6] = b2 + k[2], w[7] = b3 + k[3];
    w[8] = c0 + k[4], w[9] = c1 + k[5], w[10] = c2 + k[6], w[11] = c3 + k[7];
    w[12] = d0 + counter, w[13] = d1 + n[0], w[14] = d2 + n[1], w[15] = d3 + n[2];
    return 0;
}

// r as it is multiplied with. 2^130 = 5 (mod p): what leaves the top comes back times 5, and since the lowest two bits of
// r1, r2 and r3 are clear, 2^128 times 4 of them is exact.
struct multiplier {
    u64 r0, r1, r2, r3, f0, f1, f2, f3;
};

struct sum {
    u64 h0, h1, h2, h3, h4;
};

INLINE struct multiplier multiplier_of(const struct poly1305 *poly) {
    u64 r0 = poly->r[0], r1 = poly->r[1], r2 = poly->r[2], r3 = poly->r[3];
    return (struct multiplier){r0, r1, r2, r3, (r0 >> 2) * 5, (r1 >> 2) * 5, (r2 >> 2) * 5, (r3 >> 2) * 5};
}

// h = (h + block + 2^128) r. Each of h0 to h3 is below 2^32 before and after, h4 below 8: no sum of products reaches 2^64.
INLINE void poly1305_block(struct sum *h, const struct multiplier *m, u64 low, u64 high) {
    u64 a0 = h->h0 + (u32)low, a1 = h->h1 + (low >> 32), a2 = h->h2 + (u32)high, a3 = h->h3 + (high >> 32), a4 = h->h4 + 1;
    u64 p0 = a0 * m->r0 + a1 * m->f3 + a2 * m->f2 + a3 * m->f1 + a4 * m->f0;
    u64 p1 = a0 * m->r1 + a1 * m->r0 + a2 * m->f3 + a3 * m->f2 + a4 * m->f1;
    u64 p2 = a0 * m->r2 + a1 * m->r1 + a2 * m->r0 + a3 * m->f3 + a4 * m->f2;
    u64 p3 = a0 * m->r3 + a1 * m->r2 + a2 * m->r1 + a3 * m->r0 + a4 * m->f3;
    // At 2^128, of which r0's lowest two bits are all that has not come back above.
    u64 p4 = a4 * (m->r0 & 3) + (p3 >> 32);
    u64 c = (p4 >> 2) * 5 + (u32)p0;
    h->h0 = (u32)c, c = (c >> 32) + (p0 >> 32) + (u32)p1;
    h->h1 = (u32)c, c = (c >> 32) + (p1 >> 32) + (u32)p2;
    h->h2 = (u32)c, c = (c >> 32) + (p2 >> 32) + (u32)p3;
    h->h3 = (u32)c, h->h4 = (c >> 32) + (p4 & 3);
}

// The lowest `octets` octets of a word, of 0 to 8.
INLINE u64 mask_of(u32 octets) { return octets >= 8 ? ~0ull : (1ull << (8 * octets)) - 1; }

// Takes octets of the frame into the sum, with zeros behind them up to a whole block (section 2.8).
GLOBAL int poly1305_frame(struct xdp_md *ctx, struct poly1305 *poly, u32 at, u32 octets) {
    if (!poly) return -1;
    BOUND(at, MOST_OCTETS - 1);
    u8 *here = start_of(ctx) + at, *end = end_of(ctx);
    struct multiplier m = multiplier_of(poly);
    struct sum h = {poly->h[0], poly->h[1], poly->h[2], poly->h[3], poly->h[4]};
    EACH_ONE_BY_ONE for (u32 block = 0; block < MOST_BLOCKS && octets; block++) {
        if (here + BLOCK_OCTETS > end) return -1;
        u64 low = U64(here), high = U64(here + 8);
        if (octets < BLOCK_OCTETS) {
            low &= mask_of(octets), high &= octets > 8 ? mask_of(octets - 8) : 0;
            octets = BLOCK_OCTETS;
        }
        poly1305_block(&h, &m, low, high);
        here += BLOCK_OCTETS, octets -= BLOCK_OCTETS;
    }
    poly->h[0] = h.h0, poly->h[1] = h.h1, poly->h[2] = h.h2, poly->h[3] = h.h3, poly->h[4] = h.h4;
    return octets ? -1 : 0;
}

// The lengths as the last block, and the sum modulo 2^130 - 5, plus s, modulo 2^128 (section 2.5.1).
GLOBAL int poly1305_end(const struct poly1305 *poly, struct job *job) {
    if (!poly || !job) return -1;
    struct multiplier m = multiplier_of(poly);
    struct sum h = {poly->h[0], poly->h[1], poly->h[2], poly->h[3], poly->h[4]};
    poly1305_block(&h, &m, job->aad, job->text);
    // Whether the sum is p or more shows in bit 130 of the sum plus 5; then p has to be taken off, which is adding 5. The same
    // for 2 p and 3 p.
    u64 c = h.h0 + 5;
    c = (c >> 32) + h.h1, c = (c >> 32) + h.h2, c = (c >> 32) + h.h3, c = (c >> 32) + h.h4;
    c = (c >> 2) * 5;
    c += h.h0 + poly->s[0];
    u64 t0 = (u32)c;
    c = (c >> 32) + h.h1 + poly->s[1];
    u64 t1 = (u32)c;
    c = (c >> 32) + h.h2 + poly->s[2];
    u64 t2 = (u32)c;
    c = (c >> 32) + h.h3 + poly->s[3];
    job->icv[0] = t0 | t1 << 32, job->icv[1] = t2 | c << 32;
    return 0;
}

// The ICV over AAD and ciphertext as they stand in the frame, into the job. It is 0 if that could be computed.
GLOBAL int compute_icv(struct xdp_md *ctx, struct job *job) {
    if (!job) return -1;
    struct keystream first = {};
    if (chacha20_block(&first, job, 0)) return -1;
    u32 *w = first.words;
    struct poly1305 poly = {
        .r = {w[0] & 0x0fffffff, w[1] & 0x0ffffffc, w[2] & 0x0ffffffc, w[3] & 0x0ffffffc},
        .s = {w[4], w[5], w[6], w[7]},
    };
    if (poly1305_frame(ctx, &poly, job->at, job->aad)) return -1;
    if (poly1305_frame(ctx, &poly, job->at + job->aad, job->text)) return -1;
    return poly1305_end(&poly, job);
}

// Encrypts or decrypts the text. What stands behind it, up to a whole block, is spoilt: the ICV, which is not there yet or
// has been compared already.
GLOBAL int apply_keystream(struct xdp_md *ctx, const struct job *job) {
    if (!job) return -1;
    u32 at = job->at + job->aad, octets = job->text;
    BOUND(at, MOST_OCTETS - 1);
    u8 *here = start_of(ctx) + at, *end = end_of(ctx);
    struct keystream stream = {};
    EACH_ONE_BY_ONE for (u32 block = 0; block < MOST_BLOCKS && octets; block++) {
        if (!(block & 3) && chacha20_block(&stream, job, 1 + block / 4)) return -1;
        if (here + BLOCK_OCTETS > end) return -1;
        const u64 *word = (const u64 *)&stream.words[4 * (block & 3)];
        U64(here) ^= word[0], U64(here + 8) ^= word[1];
        here += BLOCK_OCTETS, octets -= octets < BLOCK_OCTETS ? octets : BLOCK_OCTETS;
    }
    return octets ? -1 : 0;
}

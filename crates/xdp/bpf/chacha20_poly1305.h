// ChaCha20-Poly1305 (RFC 8439) over the octets of a frame, in one pass: each block of text is read, encrypted or decrypted, written, and
// taken into the sum of Poly1305.
//
//   sealed: ... | AAD | text         | room for an ICV 16       AAD begins at octet `at` of the frame
//               | AAD |    `from`    | text                     the text may stand so many octets behind its place
//   opened: ... | AAD | text         | ICV 16
//
// A frame whose ICV is wrong has been decrypted all the same, so whoever opens it has to drop it: no octet of it may leave the program.
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
#define STREAM_OCTETS 64
// Text that keystream made ahead is enough for.
#ifndef AHEAD_OCTETS
#define AHEAD_OCTETS 1536
#endif

// What is done with one frame. from: how many octets behind its place the text stands; 0, or at least 16. opens: 0 if the frame is sealed.
struct job {
    u32 key[8];
    u32 nonce[3];
    u32 at, aad, text, from, opens;
};

struct keystream {
    u32 words[16];
};

// Keystream made ahead, for one key and one nonce: the first 32 octets of the block of counter 0, and those from counter 1 on. What is
// used of it is erased, or left as it is.
struct ahead {
    u32 poly1305_key[8];
    u64 words[AHEAD_OCTETS / 8];
};

// r, clamped; the sum h; and s, which is added at the end (RFC 8439, section 2.5).
struct poly1305 {
    u64 h[5];
    u32 r[4], s[4];
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
// r1, r2 and r3 are clear, 2^128 times 4 of them is exact. volatile: each stands in its four octets of the stack, and is read from there;
// of values in registers the compiler would keep copies of eight octets.
struct multiplier {
    volatile u32 r0, r1, r2, r3, f0, f1, f2, f3;
};

struct sum {
    u64 h0, h1, h2, h3, h4;
};

INLINE void set_multiplier(struct multiplier *m, const u32 r[4]) {
    m->r0 = r[0], m->r1 = r[1], m->r2 = r[2], m->r3 = r[3];
    m->f0 = (r[0] >> 2) * 5, m->f1 = (r[1] >> 2) * 5, m->f2 = (r[2] >> 2) * 5, m->f3 = (r[3] >> 2) * 5;
}

INLINE struct sum sum_of(const struct poly1305 *poly) {
    return (struct sum){poly->h[0], poly->h[1], poly->h[2], poly->h[3], poly->h[4]};
}

INLINE void keep(struct poly1305 *poly, const struct sum *h) {
    poly->h[0] = h->h0, poly->h[1] = h->h1, poly->h[2] = h->h2, poly->h[3] = h->h3, poly->h[4] = h->h4;
}

// The lower half, in one instruction: of the cast alone the compiler makes two shifts.
INLINE u64 low_half(u64 value) {
    u32 half;
    asm("%0 = %1" : "=w"(half) : "w"((u32)value));
    return half;
}

// h = (h + block + 2^128) r. What goes over from a limb is added to the next one and not carried on, so no limb waits for the one before.
// Each of h0 to h3 is below 2^33 before and after, h4 below 4. So a0 to a3 are below 3 2^32 and r0 to r3 below 2^28, the largest sum of
// products is p0 below 3 (1 + 3 5/4) 2^60 < 2^64, and p3 is below 12 2^60.
INLINE void poly1305_block(struct sum *h, const struct multiplier *m, u64 low, u64 high) {
    u64 a0 = h->h0 + low_half(low), a1 = h->h1 + (low >> 32), a2 = h->h2 + low_half(high), a3 = h->h3 + (high >> 32), a4 = h->h4 + 1;
    u64 p3 = a0 * m->r3 + a1 * m->r2 + a2 * m->r1 + a3 * m->r0 + a4 * m->f3;
    u64 p0 = a0 * m->r0 + a1 * m->f3 + a2 * m->f2 + a3 * m->f1 + a4 * m->f0;
    u64 p1 = a0 * m->r1 + a1 * m->r0 + a2 * m->f3 + a3 * m->f2 + a4 * m->f1;
    u64 p2 = a0 * m->r2 + a1 * m->r1 + a2 * m->r0 + a3 * m->f3 + a4 * m->f2;
    // At 2^128, of which r0's lowest two bits are all that has not come back above.
    u64 p4 = a4 * (m->r0 & 3) + (p3 >> 32);
    h->h0 = low_half(p0) + (p4 >> 2) * 5, h->h1 = low_half(p1) + (p0 >> 32), h->h2 = low_half(p2) + (p1 >> 32);
    h->h3 = low_half(p3) + (p2 >> 32), h->h4 = p4 & 3;
}

// The lowest `octets` octets of a word, of 0 to 8.
INLINE u64 mask_of(u32 octets) { return octets >= 8 ? ~0ull : (1ull << (8 * octets)) - 1; }

// Takes octets of the frame into the sum, with zeros behind them up to a whole block (section 2.8).
INLINE int aad_blocks(struct xdp_md *ctx, struct sum *h, const struct multiplier *m, u32 at, u32 octets) {
    BOUND(at, MOST_OCTETS - 1);
    u8 *here = start_of(ctx) + at, *end = end_of(ctx);
    EACH_ONE_BY_ONE for (u32 block = 0; block < MOST_BLOCKS && octets; block++) {
        if (here + BLOCK_OCTETS > end) return -1;
        u64 low = U64(here), high = U64(here + 8);
        if (octets < BLOCK_OCTETS) {
            low &= mask_of(octets), high &= octets > 8 ? mask_of(octets - 8) : 0;
            octets = BLOCK_OCTETS;
        }
        poly1305_block(h, m, low, high);
        here += BLOCK_OCTETS, octets -= BLOCK_OCTETS;
    }
    return octets ? -1 : 0;
}

GLOBAL int poly1305_frame(struct xdp_md *ctx, struct poly1305 *poly, u32 at, u32 octets) {
    if (!poly) return -1;
    struct multiplier m;
    set_multiplier(&m, poly->r);
    struct sum h = sum_of(poly);
    int failed = aad_blocks(ctx, &h, &m, at, octets);
    keep(poly, &h);
    return failed;
}

// What Poly1305 gives.
struct tag {
    u64 low, high;
};

// The lengths as the last block, and the sum modulo 2^130 - 5, plus s, modulo 2^128 (section 2.5.1).
INLINE struct tag end_of_sum(struct sum *h, const struct multiplier *m, const u32 s[4], u32 aad, u32 text) {
    poly1305_block(h, m, aad, text);
    // The sum is below 2 p. Whether it is p or more shows in bit 130 of the sum plus 5; then p has to be taken off, which is adding 5.
    u64 c = h->h0 + 5;
    c = (c >> 32) + h->h1, c = (c >> 32) + h->h2, c = (c >> 32) + h->h3, c = (c >> 32) + h->h4;
    c = (c >> 2) * 5;
    c += h->h0 + s[0];
    u64 t0 = low_half(c);
    c = (c >> 32) + h->h1 + s[1];
    u64 t1 = low_half(c);
    c = (c >> 32) + h->h2 + s[2];
    u64 t2 = low_half(c);
    c = (c >> 32) + h->h3 + s[3];
    return (struct tag){t0 | t1 << 32, t2 | c << 32};
}

// The same, in the place of h0 and h1.
GLOBAL int poly1305_end(struct poly1305 *poly, u32 aad, u32 text) {
    if (!poly) return -1;
    struct multiplier m;
    set_multiplier(&m, poly->r);
    struct sum h = sum_of(poly);
    struct tag tag = end_of_sum(&h, &m, poly->s, aad, text);
    poly->h[0] = tag.low, poly->h[1] = tag.high;
    return 0;
}

// What is done with a text, and with its keystream: constants where it is called.
enum { SEALS, OPENS_TEXT, ERASES = 2 };

// Blocks of text, from octet `begin` of it, with keystream of `words`. `most` of them at the most.
INLINE int text_blocks(struct xdp_md *ctx, const struct job *job, struct sum *h, const struct multiplier *m, u64 *words, u32 begin, u32 octets,
                       const u32 most, const u32 how) {
    u32 at = job->at + job->aad + begin, source = at + job->from;
    u32 last = source + octets - BLOCK_OCTETS;
    BOUND(at, MOST_OCTETS - 1);
    BOUND(source, MOST_OCTETS - 1);
    u8 *here = start_of(ctx) + at, *there = start_of(ctx) + source, *end = end_of(ctx);
    EACH_ONE_BY_ONE for (u32 block = 0; block < most && octets; block++) {
        if (here + BLOCK_OCTETS > end) return -1;
        u64 k0 = words[2 * block], k1 = words[2 * block + 1], low, high;
        if (how & ERASES) words[2 * block] = 0, words[2 * block + 1] = 0;
        if (octets >= BLOCK_OCTETS) {
            if (there + BLOCK_OCTETS > end) return -1;
            low = U64(there), high = U64(there + 8), octets -= BLOCK_OCTETS;
            k0 ^= low, k1 ^= high;
            U64(here) = k0, U64(here + 8) = k1;
        } else {
            // The text's last octets, of which those of the block before are shifted out.
            BOUND(last, MOST_OCTETS - 1);
            u8 *tail = start_of(ctx) + last;
            if (tail + BLOCK_OCTETS > end) return -1;
            u32 by = 64 - 8 * (octets & 7);
            low = U64(tail), high = U64(tail + 8);
            if (octets <= 8)
                low = high, high = 0, k0 &= mask_of(octets), k1 = 0;
            else
                k1 &= mask_of(octets - 8);
            if (by < 64) low = low >> by | high << 1 << (63 - by), high >>= by;
            // What stands behind the text, such as its ICV, is left.
            U64(here) = job->from ? low ^ k0 : U64(here) ^ k0, U64(here + 8) = job->from ? high ^ k1 : U64(here + 8) ^ k1;
            k0 ^= low, k1 ^= high, octets = 0;
        }
        here += BLOCK_OCTETS, there += BLOCK_OCTETS;
        poly1305_block(h, m, how & OPENS_TEXT ? low : k0, how & OPENS_TEXT ? high : k1);
    }
    return octets ? -1 : 0;
}

INLINE int text_of_stream(struct xdp_md *ctx, const struct job *job, struct poly1305 *poly, struct keystream *stream, u32 begin, const u32 how) {
    if (!job || !poly || !stream) return -1;
    u32 octets = job->text - begin;
    if (octets > STREAM_OCTETS) octets = STREAM_OCTETS;
    struct multiplier m;
    set_multiplier(&m, poly->r);
    struct sum h = sum_of(poly);
    int failed = text_blocks(ctx, job, &h, &m, (u64 *)stream->words, begin, octets, STREAM_OCTETS / BLOCK_OCTETS, how);
    keep(poly, &h);
    return failed;
}

GLOBAL int seal_stream(struct xdp_md *ctx, const struct job *job, struct poly1305 *poly, struct keystream *stream, u32 begin) {
    return text_of_stream(ctx, job, poly, stream, begin, SEALS);
}

GLOBAL int open_stream(struct xdp_md *ctx, const struct job *job, struct poly1305 *poly, struct keystream *stream, u32 begin) {
    return text_of_stream(ctx, job, poly, stream, begin, OPENS_TEXT);
}

// Writes the ICV of a sealed frame, or compares that of an opened one.
INLINE int icv(struct xdp_md *ctx, const struct job *job, struct tag tag, u32 how) {
    u32 behind = job->at + job->aad + job->text;
    BOUND(behind, 2 * MOST_OCTETS - 1);
    u8 *icv = start_of(ctx) + behind;
    if (icv + BLOCK_OCTETS > end_of(ctx)) return -1;
    // Both halves always: where the first wrong octet is, no time tells.
    if (how & OPENS_TEXT) return ((U64(icv) ^ tag.low) | (U64(icv + 8) ^ tag.high)) != 0;
    U64(icv) = tag.low, U64(icv + 8) = tag.high;
    return 0;
}

// Seals or opens a frame with keystream made ahead. All in one function: where a return may not be predicted, each costs as much as a block
// of text. 0 if the frame is sealed, or authentic.
INLINE int aead_ready(struct xdp_md *ctx, const struct job *job, struct ahead *ahead, const u32 how) {
    if (!job || !ahead) return -1;
    u32 *w = ahead->poly1305_key;
    u32 r[4] = {w[0] & 0x0fffffff, w[1] & 0x0ffffffc, w[2] & 0x0ffffffc, w[3] & 0x0ffffffc}, s[4] = {w[4], w[5], w[6], w[7]};
    if (how & ERASES) UNROLLED for (int i = 0; i < 8; i++) w[i] = 0;
    struct multiplier m;
    set_multiplier(&m, r);
    struct sum h = {};
    if (aad_blocks(ctx, &h, &m, job->at, job->aad)) return -1;
    if (text_blocks(ctx, job, &h, &m, ahead->words, 0, job->text, AHEAD_OCTETS / BLOCK_OCTETS, how)) return -1;
    return icv(ctx, job, end_of_sum(&h, &m, s, job->aad, job->text), how);
}

GLOBAL int seal_ready(struct xdp_md *ctx, const struct job *job, struct ahead *ahead) { return aead_ready(ctx, job, ahead, SEALS | ERASES); }

// The same without.
GLOBAL int aead(struct xdp_md *ctx, const struct job *job) {
    if (!job) return -1;
    struct keystream stream = {};
    const u32 *w = stream.words;
    if (chacha20_block(&stream, job, 0)) return -1;
    struct poly1305 poly = {
        .r = {w[0] & 0x0fffffff, w[1] & 0x0ffffffc, w[2] & 0x0ffffffc, w[3] & 0x0ffffffc},
        .s = {w[4], w[5], w[6], w[7]},
    };
    if (poly1305_frame(ctx, &poly, job->at, job->aad)) return -1;
    EACH_ONE_BY_ONE for (u32 begin = 0; begin < MOST_OCTETS && begin < job->text; begin += STREAM_OCTETS)
        if (chacha20_block(&stream, job, 1 + begin / STREAM_OCTETS) || (job->opens ? open_stream(ctx, job, &poly, &stream, begin) : seal_stream(ctx, job, &poly, &stream, begin)))
            return -1;
    if (poly1305_end(&poly, job->aad, job->text)) return -1;
    return icv(ctx, job, (struct tag){poly.h[0], poly.h[1]}, job->opens ? OPENS_TEXT : SEALS);
}

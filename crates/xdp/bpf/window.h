// Identifiers that peers may use next, and the windows of their lanes: the rules of crate tunnel's window.rs and table.rs, for many
// CPUs at once.
//
// One table of the site maps an identifier to (lane, seq), with pad and mask. It has buckets of four places, and an identifier has two
// buckets. One place in four is used at most, so of 10^9 identifiers about one finds neither with room, and is left out. Identifiers of lanes
// that are watched have buckets of their own, behind the others: they take no room from those that frames need. Places are
// claimed and emptied by one atomic exchange each: of two packets with one identifier a single one takes it, and nobody finds half an
// entry.
//
// A window moves under the lock of its lane. What it lacks then is put into the table without the lock: whose seq it is has been
// decided before. A ring by seq knows in which place each identifier was put, so that expired ones go.
#pragma once
#include "siphash.h"

#define PLACES 4
#define ANCHORS 1024
// The last seq in use (crate tunnel's LAST_SEQ).
#define SEQ_BITS 48
#define LAST_SEQ ((1ull << SEQ_BITS) - (1ull << 32))
#define RID_MASK ((1ull << 48) - 1)
// No identifier has QUIC's bit set. A place that is being filled is nobody's.
#define BUSY (~0ull)
// Identifiers that a packet puts into its window: normally one, more after a gap or a jump.
#define FILL 64

// front 0: free. where: lane 16 | seq 48.
struct bucket {
    u64 front[PLACES], mask[PLACES], where[PLACES];
};
// The place, bucket and number, that a seq was put in; seq 0: none was.
struct held {
    u64 seq, place;
};
// Owner of the packets on a lane: the program, or user space, and the program only knows them.
enum lane { CLOSED, TAKEN, WATCHED };
// The window of a lane, as in window.rs. open: an `enum lane`. used: when its first packet came. unknown: one more than the number of a flow that is not known.
struct receive_lane {
    struct bpf_spin_lock lock;
    u32 open, peer, unknown;
    u64 key[2], check[3];
    u64 newest, high, gap_start, gap_end, anchors_high, used;
};
// Seqs are a counter; all else is written before the lane is used.
struct transmit_lane {
    u64 seq, key[2], check[3];
    u32 open, zero;
};
// buckets, watched_buckets: one less than a power of two. width_bits: W is a power of two. rest: see redirect of the sockets. quiet: a pause
// behind which no frame of a flow is in the other end's user space any more.
// token_key: key of the tokens of packets that the program has opened for user space. Ports and EtherTypes as they are read; no plain port and
// no EtherType of cells is above them all. knowns: how many addresses are known.
struct settings {
    u32 width_bits, buckets, lan_frame, port, rest, plain_port;
    u64 station_age, quiet;
    u32 cyclic, watched_buckets, knowns, zero;
    u64 token_key[2];
};

MAP(ARRAY, u32, struct settings, 1) settings SECTION(".maps");
MAP(ARRAY, u32, struct receive_lane, 1) receive_lanes SECTION(".maps");
MAP(ARRAY, u32, struct transmit_lane, 1) transmit_lanes SECTION(".maps");
MAP(ARRAY, u32, struct bucket, 1) identifiers SECTION(".maps");
// For each lane 2 W places by seq, and one for each anchor beyond.
MAP(ARRAY, u32, struct held, 1) rings SECTION(".maps");

INLINE u32 bucket_of(const struct settings *site, u64 front, int second, int watched) {
    u32 bucket = second ? front >> 28 : front >> 8;
    return watched ? site->buckets + 1 + (bucket & site->watched_buckets) : bucket & site->buckets;
}

// The place of an identifier on the wire, or of what has the same one; null if it is not there.
INLINE struct bucket *find(const struct settings *site, u64 rid, u32 *place) {
    EACH_ONE_BY_ONE for (int which = 0; which < 4; which++) {
        u32 number = bucket_of(site, rid, which & 1, which >> 1);
        struct bucket *bucket = map_lookup(&identifiers, &number);
        if (!bucket) return 0;
        UNROLLED for (u32 i = 0; i < PLACES; i++) {
            u64 front = bucket->front[i];
            if (front && (front & RID_MASK) == rid) {
                *place = i;
                return bucket;
            }
        }
    }
    return 0;
}

// The front of a place, read before what belongs to it, on processors too that read in another order.
INLINE u64 front_of(struct bucket *bucket, u32 place) { return __sync_fetch_and_add(&bucket->front[place], 0); }

// Uses an identifier up; 0 if another packet did.
INLINE int take(struct bucket *bucket, u32 place, struct block *block, u64 *where) {
    BOUND(place, PLACES - 1);
    u64 front = front_of(bucket, place);
    block->front = front, block->mask = bucket->mask[place], *where = bucket->where[place];
    return front && front != BUSY && __sync_val_compare_and_swap(&bucket->front[place], front, 0) == front;
}

// Puts an identifier into a free place. -1: there is none.
INLINE long insert(const struct settings *site, const struct block *block, u64 where, int watched) {
    EACH_ONE_BY_ONE for (int second = 0; second < 2; second++) {
        u32 number = bucket_of(site, block->front, second, watched);
        struct bucket *bucket = map_lookup(&identifiers, &number);
        if (!bucket) return -1;
        UNROLLED for (u32 i = 0; i < PLACES; i++) {
            if (!bucket->front[i] && __sync_val_compare_and_swap(&bucket->front[i], 0, BUSY) == 0) {
                bucket->mask[i] = block->mask, bucket->where[i] = where;
                __sync_lock_test_and_set(&bucket->front[i], block->front);
                return (long)number * PLACES + i;
            }
        }
    }
    return -1;
}

// Takes the identifier of a seq out of the place that its ring knows, if it is still there.
INLINE void remove(const struct held *held, u32 lane) {
    u32 number = held->place / PLACES, place = held->place % PLACES;
    struct bucket *bucket = held->seq ? map_lookup(&identifiers, &number) : 0;
    u64 where = (u64)lane << SEQ_BITS | held->seq;
    BOUND(place, PLACES - 1);
    if (!bucket || bucket->where[place] != where) return;
    u64 front = front_of(bucket, place);
    if (front && front != BUSY && bucket->where[place] == where) __sync_val_compare_and_swap(&bucket->front[place], front, 0);
}

INLINE struct held *held_of(const struct settings *site, u32 lane, u32 place) {
    u32 at = lane * ((2u << (site->width_bits & 31)) + ANCHORS) + place;
    return map_lookup(&rings, &at);
}
INLINE u32 anchor_place(const struct settings *site, u64 seq) {
    return (2u << (site->width_bits & 31)) + (u32)(seq >> ((site->width_bits - 1) & 63)) % ANCHORS;
}

// Its ring forgets a seq whose identifier was used up. So a place that nothing is in any more is not looked at when the seq expires: it lies
// anywhere in megabytes, and the ring in the order of the frames. If the ring does not know the seq yet, or it is an anchor, nothing is lost.
INLINE void forget(const struct settings *site, u32 lane, u64 seq) {
    struct held *held = held_of(site, lane, (u32)seq & ((2u << (site->width_bits & 31)) - 1));
    if (held && held->seq == seq) __sync_val_compare_and_swap(&held->seq, seq, 0);
}

// Why a seq enters the table.
enum entry { WINDOW, ANCHOR, MOVED_ANCHOR };

// The next seq that the table lacks; 0: none. For the caller it has entered. Under the lock.
INLINE u64 next_missing(struct receive_lane *lane, u32 width_bits, u32 *entry) {
    u64 width = 1ull << (width_bits & 63), half = width >> 1, seq;
    u64 behind = lane->newest > half ? lane->newest - half : 0;
    u64 gap = lane->gap_start > behind ? lane->gap_start : behind;
    u64 anchor = lane->newest >> ((width_bits - 1) & 63), last = anchor + ANCHORS;
    anchor = lane->anchors_high > anchor + 1 ? lane->anchors_high : anchor + 1;
    *entry = WINDOW;
    if (!lane->open) return 0;
    if (lane->high <= lane->newest + width) {
        seq = lane->high++;
    } else if (lane->gap_end > gap) {
        seq = --lane->gap_end;
    } else if (anchor <= last) {
        lane->anchors_high = anchor + 1, *entry = ANCHOR;
        return anchor << ((width_bits - 1) & 63);
    } else {
        return 0;
    }
    if (!(seq & (half - 1))) {
        u64 number = seq >> ((width_bits - 1) & 63);
        if (number < lane->anchors_high) *entry = MOVED_ANCHOR;
        else lane->anchors_high = number + 1;
    }
    return seq;
}

// Number of identifiers that the table lacks. Under the lock.
INLINE u64 count_missing(const struct receive_lane *lane, u32 width_bits) {
    u64 width = 1ull << (width_bits & 63), half = width >> 1;
    u64 behind = lane->newest > half ? lane->newest - half : 0;
    u64 gap = lane->gap_start > behind ? lane->gap_start : behind;
    u64 anchor = (lane->newest >> ((width_bits - 1) & 63)) + 1, end = anchor + ANCHORS;
    anchor = lane->anchors_high > anchor ? lane->anchors_high : anchor;
    if (!lane->open) return 0;
    return lane->newest + width + 1 - lane->high + (lane->gap_end > gap ? lane->gap_end - gap : 0) + end - anchor;
}

// Puts a seq into table and ring. An anchor, which is there or was used, moves from one ring to the other.
GLOBAL int put(u32 number, u64 seq, u32 entry) {
    u32 zero = 0;
    struct settings *site = map_lookup(&settings, &zero);
    struct receive_lane *lane = map_lookup(&receive_lanes, &number);
    if (!site || !lane) return -1;
    u32 in_window = (u32)seq & ((2u << (site->width_bits & 31)) - 1);
    struct held *held = held_of(site, number, entry == ANCHOR ? anchor_place(site, seq) : in_window);
    if (!held) return -1;
    remove(held, number);
    held->seq = 0;
    if (entry == MOVED_ANCHOR) {
        struct held *anchor = held_of(site, number, anchor_place(site, seq));
        if (!anchor) return -1;
        if (anchor->seq == seq) *held = *anchor, anchor->seq = 0;
        return 0;
    }
    struct block block = block_of(lane->key, seq);
    long place = insert(site, &block, (u64)number << SEQ_BITS | seq, lane->open == WATCHED);
    if (place >= 0) held->place = place, held->seq = seq;
    return 0;
}

// Puts up to `budget` missing identifiers into the table, the first of which may be known. Returns how many.
INLINE u32 fill(const struct settings *site, u32 number, struct receive_lane *lane, u32 budget, u64 seq, u32 entry, u64 more) {
    u32 filled = 0, width_bits = site->width_bits;
    EACH_ONE_BY_ONE for (; filled < 256 && filled < budget; filled++) {
        if (!seq) {
            if (!more) break;
            spin_lock(&lane->lock);
            seq = next_missing(lane, width_bits, &entry);
            more = count_missing(lane, width_bits);
            spin_unlock(&lane->lock);
            if (!seq) break;
        }
        put(number, seq, entry);
        seq = 0;
    }
    return filled;
}

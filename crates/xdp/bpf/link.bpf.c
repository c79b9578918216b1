// A link's frames, protected and verified by its SecY: what crate secy does in user space, frame by frame the same.
//
//   outward: DA | SA | SDU from its EtherType on                 at the plain interface; leaves by the protected one
//   inward:  DA | SA | SecTAG 8 or 16 | secure data | ICV 16     the other way
//   change, look: by control
//
// What a KaY has to hear goes to the AF_XDP socket of its queue; without one, wherever the link's settings say. So do frames without
// an SA here, while user space has SAs of the link too. Frames are strictly validated, and hold one SDU each.
//
// Of a link that splits frames the programs are the express SCs alone: express SDUs outward, frames with the SCI of an express SC inward.
// All else goes to the sockets.
#include "sa_change.h"
#include "sa_ahead.h"
#include "room.h"
#include "express.h"

char licence[] SECTION("license") = "MIT";

#define HEADER 14
#define ICV 16
#define SECTAG 8
#define SECTAG_SCI 16
#define SHORT_LENGTH_LIMIT 48
#define BYPASS 8
// EtherTypes as they are read.
#define MAC_CONTROL BE16(0x8808)
#define EAPOL BE16(0x888e)
#define MACSEC BE16(0x88e5)
// The third and fourth octet of a SecTAG.
enum { V = 0x80, ES = 0x40, SC = 0x20, SCB = 0x10, E = 0x08, C = 0x04, AN = 0x03 };
enum { SL = 0x3f, RESERVED_BITS = 0xc0 };

// longest: of a frame on the protected side. tci: how frames name the SC; sci as it stands in a frame. bypass: EtherTypes, of which
// there are so many. rest: the verdict on what is user space's, where that has no socket. ring: blocks of each window, a power of two.
// shared: user space has SAs of the link too. express: the SCs here are express SCs. aside: every frame is the sockets'.
struct settings {
    u32 longest, tci, replay_protect, strip_vlan;
    u32 rest, bypasses, ring, shared;
    u32 express, aside;
    u64 sci;
    u16 bypass[BYPASS];
};

// Receive SCs by their places. only: the place of the only one, of a LAN without SCIs; RECEIVE_SCS if there are none or several.
struct channels {
    u32 count, only;
    u64 scis[RECEIVE_SCS];
};

// In the order of secy's tables of counters; behind those of the SecY the link's own.
enum counted {
    OUT_UNTAGGED, OUT_TOO_LONG, OUT_TOO_SHORT, OUT_NO_SA, OUT_PN_EXHAUSTED, OUT_PN_UNRESERVED, IN_UNTAGGED, IN_NO_TAG, IN_BAD_TAG,
    IN_NO_SA, IN_NO_SA_ERROR, IN_TOO_SHORT, IN_CLEAR_VLAN, OUT_BYPASS, IN_BYPASS, OUT_MAC_CONTROL, IN_MAC_CONTROL, COUNTERS
};
enum sent {
    OUT_PROTECTED, OUT_ENCRYPTED, OUT_OCTETS_PROTECTED, OUT_OCTETS_ENCRYPTED, OUT_ANTEDATED, OUT_NOT_ANTEDATED = 6, SENT_COUNTERS
};
enum received {
    IN_OK, IN_UNCHECKED, IN_DELAYED, IN_LATE, IN_DUPLICATE, IN_INVALID, IN_NOT_VALID, IN_OCTETS_VALIDATED = 16, IN_OCTETS_DECRYPTED,
    IN_ANTEDATED, IN_NOT_ANTEDATED = 20, RECEIVED_COUNTERS
};
struct counters {
    u64 of[COUNTERS];
};
struct sent_counters {
    u64 of[SENT_COUNTERS];
};
struct received_counters {
    u64 of[RECEIVED_COUNTERS];
};
// The last frame of a CPU without an SA. at: of the kernel's clock; 0 if there was none.
struct unmatched {
    u64 at, sci;
    u32 an, names_sci;
};

MAP(ARRAY, u32, struct settings, 1) settings SECTION(".maps");
MAP(ARRAY, u32, struct channels, 1) channels SECTION(".maps");
MAP(ARRAY, u32, struct transmit_sc, 1) transmit SECTION(".maps");
MAP(ARRAY, u32, struct receive_sa, RECEIVE_SCS * ANS) receive SECTION(".maps");
MAP(ARRAY, u32, struct block, 1) blocks SECTION(".maps");
MAP(PERCPU_ARRAY, u32, struct counters, 1) counted SECTION(".maps");
MAP(PERCPU_ARRAY, u32, struct sent_counters, ANS) sent SECTION(".maps");
MAP(PERCPU_ARRAY, u32, struct received_counters, RECEIVE_SCS * ANS) received SECTION(".maps");
MAP(PERCPU_ARRAY, u32, struct unmatched, 1) last_unmatched SECTION(".maps");
MAP(DEVMAP, u32, u32, 2) ports SECTION(".maps");
MAP(XSKMAP, u32, u32, 64) plain_sockets SECTION(".maps");
MAP(XSKMAP, u32, u32, 64) protected_sockets SECTION(".maps");
enum { PROTECTED_PORT, PLAIN_PORT };

INLINE int discard(struct counters *count, enum counted reason) {
    count->of[reason]++;
    return XDP_DROP;
}

// Whether frames of an EtherType go around the SecY.
GLOBAL int is_bypassed(u32 ethertype) {
    u32 zero = 0, found = 0;
    struct settings *link = map_lookup(&settings, &zero);
    if (!link || !link->bypasses || is_vlan(ethertype)) return 0;
    UNROLLED for (u32 i = 0; i < BYPASS; i++) found |= (i < link->bypasses) & (link->bypass[i] == ethertype);
    return found;
}

// Functions of their own, since their variables and the cipher's together exceed the 512 octets of stack.

GLOBAL int take(struct job *job, struct sealing *sealing) {
    u32 zero = 0;
    struct transmit_sc *sc = map_lookup(&transmit, &zero);
    return sc && job && sealing ? take_pn(sc, job, sealing) : NO_SA;
}

// Whether an SA protects. Read without the lock: which of two reasons a frame is discarded for is all that this decides.
INLINE int has_sa(const struct transmit_sc *sc) { return *(volatile u32 *)&sc->encoding != 0; }

INLINE struct block *find_block(u32 place, u64 pn, u32 ring) {
    u32 number = place * ring + ((pn / 64) & (ring - 1));
    return map_lookup(&blocks, &number);
}

// Finds the key of a received frame, and looks at its PN early: it spares the cipher old frames.
GLOBAL int admit(u32 place, u32 low, struct job *job, struct opening *opening) {
    u32 zero = 0;
    struct settings *link = map_lookup(&settings, &zero);
    struct receive_sa *sa = map_lookup(&receive, &place);
    struct window window = {};
    if (!link || !sa || !job || !opening || !find_key(sa, low, job, opening, &window)) return GONE;
    if (!opening->pn) return NO_PN;
    if (opening->pn < window.floor && *(volatile u32 *)&sa->shared) return GONE;
    struct block *block = find_block(place, opening->pn, link->ring);
    if (!block) return GONE;
    return link->replay_protect ? classify(opening, &window, block) : FRESH;
}

// Judges a verified frame.
GLOBAL int settle(u32 place, const struct opening *opening) {
    u32 zero = 0;
    struct settings *link = map_lookup(&settings, &zero);
    struct receive_sa *sa = map_lookup(&receive, &place);
    if (!link || !sa || !opening) return GONE;
    struct block *block = find_block(place, opening->pn, link->ring);
    return block ? commit(sa, opening, block, &link->replay_protect) : GONE;
}

// The SA was disabled a moment ago, or has no reserved PN: user space may have another one. The frame has room for SecTAG and ICV in front by now.
GLOBAL int hand_over(struct xdp_md *ctx) {
    u32 zero = 0;
    struct settings *link = map_lookup(&settings, &zero);
    struct counters *count = map_lookup(&counted, &zero);
    if (!link || !count) return XDP_DROP;
    if (!link->shared || adjust_head(ctx, link->tci & SC ? SECTAG_SCI + ICV : SECTAG + ICV)) return discard(count, OUT_NO_SA);
    return redirect_map(&plain_sockets, ctx->rx_queue_index, link->rest);
}

SECTION("xdp") int outward(struct xdp_md *ctx) {
    u32 zero = 0;
    struct settings *link = map_lookup(&settings, &zero);
    struct counters *count = map_lookup(&counted, &zero);
    struct transmit_sc *sc = map_lookup(&transmit, &zero);
    if (!link || !count || !sc) return XDP_DROP;
    if (link->aside) return redirect_map(&plain_sockets, ctx->rx_queue_index, link->rest);
    u8 *data = start_of(ctx), *end = end_of(ctx);
    if (data + HEADER > end) return discard(count, has_sa(sc) ? OUT_TOO_SHORT : OUT_NO_SA);
    u64 first = U64(data);
    u32 second = U32(data + 8);
    u16 ethertype = U16(data + 12);
    if (ethertype == MAC_CONTROL) return discard(count, OUT_MAC_CONTROL);
    if (link->bypasses && is_bypassed(ethertype)) {
        count->of[OUT_BYPASS]++;
        return redirect_map(&ports, PROTECTED_PORT, XDP_DROP);
    }
    u32 secure_data = octets_of(ctx) - ADDRESSES, tag = link->tci & SC ? SECTAG_SCI : SECTAG;
    u32 header = ADDRESSES + tag;
    // An express SDU that fits no frame is split like any other.
    if (!has_sa(sc) || (link->express && (header + secure_data + ICV > link->longest || !is_express(ctx))))
        return link->shared ? redirect_map(&plain_sockets, ctx->rx_queue_index, link->rest) : discard(count, OUT_NO_SA);
    if (header + secure_data + ICV > link->longest || header + secure_data + ICV > MOST_OCTETS
        || adjust_head(ctx, -(int)(tag + ICV)))
        return discard(count, OUT_TOO_LONG);
    struct job job = {};
    struct sealing sealing = {};
    struct slot *slot = take_ready(sc, secure_data, &sealing);
    if (!slot) {
        switch (take(&job, &sealing)) {
        case NO_SA:
            return hand_over(ctx);
        // The other SC has PNs of its own, and carries express frames as well.
        case UNRESERVED:
            return link->express ? hand_over(ctx) : discard(count, OUT_PN_UNRESERVED);
        case EXHAUSTED:
            return link->express ? hand_over(ctx) : discard(count, OUT_PN_EXHAUSTED);
        default:
            break;
        }
    }
    u32 encrypts = sealing.clear != ALL_CLEAR, clear = sealing.clear < secure_data ? sealing.clear : secure_data;
    // A text moves while it is encrypted.
    int is_cut = clear && move_forward(ctx, header, ICV, secure_data);
    data = start_of(ctx), end = end_of(ctx);
    if (is_cut || data + ADDRESSES + SECTAG_SCI > end) {
        if (slot) erase(slot), release(slot, 0);
        return XDP_DROP;
    }
    U64(data) = first, U32(data + 8) = second, U16(data + 12) = MACSEC;
    data[14] = link->tci | (encrypts ? E | C : 0) | sealing.an;
    data[15] = secure_data < SHORT_LENGTH_LIMIT ? secure_data : 0;
    U32(data + 16) = BE32((u32)sealing.pn);
    if (tag == SECTAG_SCI) U64(data + 20) = link->sci;
    job.aad = header + clear, job.text = secure_data - clear, job.from = clear ? 0 : ICV;
    int failed;
    if (slot) {
        failed = seal_ready(ctx, &job, &slot->ahead), sealing.ahead = 1;
        release(slot, 0);
    } else {
        failed = seal_ahead(ctx, &job, &sealing);
    }
    if (failed) return XDP_DROP;
    follow(sealing.ring, sealing.instance, sealing.pn + 1, job.text);

    struct sent_counters *of_sa = map_lookup(&sent, &sealing.an);
    if (!of_sa) return XDP_DROP;
    of_sa->of[encrypts ? OUT_ENCRYPTED : OUT_PROTECTED]++;
    of_sa->of[encrypts ? OUT_OCTETS_ENCRYPTED : OUT_OCTETS_PROTECTED] += secure_data;
    if (encrypts && sealing.ring < RINGS) of_sa->of[sealing.ahead ? OUT_ANTEDATED : OUT_NOT_ANTEDATED]++;
    return redirect_map(&ports, PROTECTED_PORT, XDP_DROP);
}

// What a SecTAG says. sci as it stands in a frame.
struct sectag {
    u64 sci;
    u32 octets, an, pn, encrypted, names_sci, secure_data;
};

// The SecTAG of a frame, judged by clause 9; 0 if it breaks a rule.
INLINE int parse_sectag(struct xdp_md *ctx, struct sectag *tag) {
    u8 *data = start_of(ctx), *end = end_of(ctx);
    u32 len = octets_of(ctx);
    if (!tag || data + ADDRESSES + SECTAG > end) return 0;
    u32 tci = data[14], length = data[15];
    u64 source = U64(data) >> 48 | (u64)U32(data + 8) << 16;
    tag->pn = BE32(U32(data + 16)), tag->an = tci & AN, tag->encrypted = tci & E;
    tag->octets = SECTAG, tag->names_sci = 1;
    if (tci & V || (tci & (E | C)) == E) return 0;
    if (tci & SC) {
        if (tci & (ES | SCB) || data + ADDRESSES + SECTAG_SCI > end) return 0;
        tag->octets = SECTAG_SCI, tag->sci = U64(data + 20);
    } else if (tci & SCB) {
        tag->sci = source;
    } else if (tci & ES) {
        // Port 1, big endian, behind the address.
        tag->sci = source | 1ull << 56;
    } else {
        tag->names_sci = 0;
    }
    u32 given = length & SL, most = len - ADDRESSES - tag->octets - ICV;
    if (length & RESERVED_BITS || given == 1 || given >= SHORT_LENGTH_LIMIT || len < ADDRESSES + tag->octets + ICV) return 0;
    if (given ? given > most : most < SHORT_LENGTH_LIMIT) return 0;
    tag->secure_data = given ? given : most;
    return 1;
}

// A SecTAG's reserved bits are set, which say that extension headers follow, or more fragments.
INLINE int has_extension(struct xdp_md *ctx) {
    u8 *data = start_of(ctx);
    return data + ADDRESSES + SECTAG <= (u8 *)end_of(ctx) && data[15] & RESERVED_BITS;
}

GLOBAL int search_sc(const struct channels *table, u64 sci) {
    if (!table) return RECEIVE_SCS;
    EACH_ONE_BY_ONE for (u32 place = 0; place < RECEIVE_SCS && place < table->count; place++) {
        if (table->scis[place] == sci) return place;
    }
    return RECEIVE_SCS;
}

// The place of a receive SC; RECEIVE_SCS or more if there is none. Mostly there is one, in the first place.
INLINE u32 find_sc(const struct channels *table, u64 sci) { return table->count && table->scis[0] == sci ? 0 : (u32)search_sc(table, sci); }

// Whether a frame names an SC that is here, with or without VLAN tags in front of its SecTAG.
GLOBAL int names_sc(struct xdp_md *ctx) {
    u32 zero = 0;
    struct channels *table = map_lookup(&channels, &zero);
    u8 *at = start_of(ctx) + ADDRESSES, *end = end_of(ctx);
    if (at + VLAN_TAG <= end && is_vlan(U16(at))) at += VLAN_TAG;
    if (at + VLAN_TAG <= end && is_vlan(U16(at))) at += VLAN_TAG;
    if (!table || at + SECTAG_SCI > end || U16(at) != MACSEC || !(at[2] & SC)) return 0;
    return find_sc(table, U64(at + 8)) < RECEIVE_SCS;
}

GLOBAL int no_sa(struct xdp_md *ctx) {
    u32 zero = 0;
    struct sectag tag = {};
    struct unmatched *last = map_lookup(&last_unmatched, &zero);
    struct counters *count = map_lookup(&counted, &zero);
    if (!last || !count || !parse_sectag(ctx, &tag)) return XDP_DROP;
    last->at = ktime_get_ns(), last->sci = tag.sci, last->an = tag.an, last->names_sci = tag.names_sci;
    return discard(count, IN_NO_SA_ERROR);
}

GLOBAL int bad_tag(void) {
    u32 zero = 0;
    struct counters *count = map_lookup(&counted, &zero);
    return count ? discard(count, IN_BAD_TAG) : XDP_DROP;
}

INLINE int refuse(struct received_counters *count, enum received reason) {
    count->of[reason]++;
    return XDP_DROP;
}

// Takes VLAN tags in front of the SecTAG off.
INLINE int strip(struct xdp_md *ctx, u32 tags) {
    u8 *data = start_of(ctx), *end = end_of(ctx);
    u8 *to = data + (tags == 1 ? VLAN_TAG : 2 * VLAN_TAG);
    if (to + ADDRESSES > end) return -1;
    u64 first = U64(data);
    u32 second = U32(data + 8);
    U64(to) = first, U32(to + 8) = second;
    return adjust_head(ctx, tags == 1 ? VLAN_TAG : 2 * VLAN_TAG);
}

// The frame that is delivered: SecTAG, ICV and all behind the secure data are gone.
INLINE int unprotect(struct xdp_md *ctx, u32 tag, u32 behind) {
    if (adjust_tail(ctx, -(int)behind)) return -1;
    u8 *data = start_of(ctx), *end = end_of(ctx);
    u8 *to = data + (tag == SECTAG_SCI ? SECTAG_SCI : SECTAG);
    if (to + ADDRESSES > end) return -1;
    u64 first = U64(data);
    u32 second = U32(data + 8);
    U64(to) = first, U32(to + 8) = second;
    return adjust_head(ctx, tag == SECTAG_SCI ? SECTAG_SCI : SECTAG);
}

// Of a frame that `verify_ready` leaves as it is; of one that is not authentic.
enum { NOT_READY = NO_PN + 1, FORGED };

// Opens a frame whose keystream is ready, and judges it.
INLINE int verify_ready(struct xdp_md *ctx, const struct settings *link, u32 place, const struct sectag *tag, struct job *job, struct opening *opening) {
    struct receive_sa *sa = map_lookup(&receive, &place);
    if (!sa || ADDRESSES + tag->octets + tag->secure_data + ICV > MOST_OCTETS) return NOT_READY;
    struct slot *slot = find_ready(sa, tag->pn, tag->secure_data, opening);
    if (!slot) return NOT_READY;
    struct block *block = find_block(place, opening->pn, link->ring);
    if (!block || (link->replay_protect && !is_fresh(sa, opening, block))) {
        release(slot, opening->instance);
        return NOT_READY;
    }
    job->aad = ADDRESSES + tag->octets + opening->clear, job->text = tag->secure_data - opening->clear;
    if (open_ready(ctx, job, &slot->ahead)) {
        release(slot, opening->instance);
        return FORGED;
    }
    erase_text(slot, slot->octets);
    release(slot, 0);
    opening->ahead = 1;
    return commit(sa, opening, block, &link->replay_protect);
}

SECTION("xdp") int inward(struct xdp_md *ctx) {
    u32 zero = 0;
    struct settings *link = map_lookup(&settings, &zero);
    struct channels *table = map_lookup(&channels, &zero);
    struct counters *count = map_lookup(&counted, &zero);
    if (!link || !table || !count) return XDP_DROP;
    if (link->aside) return redirect_map(&protected_sockets, ctx->rx_queue_index, link->rest);
    u8 *data = start_of(ctx), *end = end_of(ctx);
    if (data + HEADER > end) return discard(count, IN_TOO_SHORT);
    u16 ethertype = U16(data + 12);
    if (ethertype == MAC_CONTROL) return discard(count, IN_MAC_CONTROL);
    if (link->bypasses && is_bypassed(ethertype)) {
        count->of[IN_BYPASS]++;
        return redirect_map(&ports, PLAIN_PORT, XDP_DROP);
    }
    if (ethertype == EAPOL || (link->express && !names_sc(ctx)))
        return redirect_map(&protected_sockets, ctx->rx_queue_index, link->rest);
    u32 tags = 0;
    if (is_vlan(ethertype)) {
        if (data + HEADER + VLAN_TAG > end) return discard(count, IN_TOO_SHORT);
        ethertype = U16(data + HEADER + 2), tags = 1;
        if (is_vlan(ethertype)) {
            if (data + HEADER + 2 * VLAN_TAG > end) return discard(count, IN_TOO_SHORT);
            ethertype = U16(data + HEADER + VLAN_TAG + 2), tags = 2;
        }
    }
    if (ethertype != MACSEC) return discard(count, IN_NO_TAG);
    if (tags) {
        if (!link->strip_vlan) return discard(count, IN_CLEAR_VLAN);
        if (strip(ctx, tags)) return XDP_DROP;
    }
    struct sectag tag = {};
    if (!parse_sectag(ctx, &tag)) {
        // Fragments and shared frames: SAs that allow them are in user space.
        if (link->shared && has_extension(ctx)) return redirect_map(&protected_sockets, ctx->rx_queue_index, link->rest);
        return discard(count, IN_BAD_TAG);
    }

    u32 sc = tag.names_sci ? find_sc(table, tag.sci) : table->only, place = sc * ANS + tag.an;
    struct received_counters *of_sa = map_lookup(&received, &place);
    if (!of_sa) return link->shared ? redirect_map(&protected_sockets, ctx->rx_queue_index, link->rest) : no_sa(ctx);
    struct job job = {.opens = 1};
    struct opening opening = {};
    u32 secure_data = tag.secure_data, header = ADDRESSES + tag.octets;
    int freshness = tag.encrypted ? verify_ready(ctx, link, place, &tag, &job, &opening) : NOT_READY;
    if (freshness == NOT_READY) {
        freshness = admit(place, tag.pn, &job, &opening);
        if (freshness == GONE)
            return link->shared ? redirect_map(&protected_sockets, ctx->rx_queue_index, link->rest) : no_sa(ctx);
        if (freshness == NO_PN) return bad_tag();
        if (freshness != FRESH) return refuse(of_sa, freshness == LATE ? IN_LATE : IN_DUPLICATE);
        u32 clear = secure_data;
        if (tag.encrypted) {
            clear = opening.clear == ALL_CLEAR ? 0 : opening.clear;
            clear = clear < secure_data ? clear : secure_data;
        }
        job.aad = header + clear, job.text = secure_data - clear;
        if (header + secure_data + ICV > MOST_OCTETS || open_ahead(ctx, &job, &opening)) return refuse(of_sa, IN_NOT_VALID);
        freshness = settle(place, &opening);
    }
    if (freshness == FORGED) return refuse(of_sa, IN_NOT_VALID);
    if (freshness == GONE) return no_sa(ctx);
    if (freshness == LATE || freshness == DUPLICATE) return refuse(of_sa, freshness == LATE ? IN_LATE : IN_DUPLICATE);
    if (freshness != DELAYED) follow(opening.ring, opening.instance, opening.pn + 1, job.text);
    of_sa->of[tag.encrypted ? IN_OCTETS_DECRYPTED : IN_OCTETS_VALIDATED] += secure_data;
    of_sa->of[freshness == DELAYED ? IN_DELAYED : IN_OK]++;
    if (tag.encrypted && opening.ring < RINGS) of_sa->of[opening.ahead ? IN_ANTEDATED : IN_NOT_ANTEDATED]++;
    if (unprotect(ctx, tag.octets, octets_of(ctx) - header - secure_data)) return XDP_DROP;
    return redirect_map(&ports, PLAIN_PORT, XDP_DROP);
}

SECTION("xdp") int change(struct xdp_md *ctx) {
    u32 zero = 0;
    struct command *command = (struct command *)start_of(ctx);
    if ((u8 *)(command + 1) > end_of(ctx)) return MALFORMED;
    u32 place = command->place, what = command->what;
    struct transmit_sc *sc = map_lookup(&transmit, &zero);
    struct receive_sa *sa = map_lookup(&receive, &place);
    if (!sc || !sa || what >= COMMANDS) return MALFORMED;
    int answer;
    if (what < INSTALL_RECEIVE) {
        if (place >= ANS) return MALFORMED;
        spin_lock(&sc->lock);
        answer = change_transmit_locked(sc, command);
        spin_unlock(&sc->lock);
    } else {
        spin_lock(&sa->lock);
        answer = change_receive_locked(sa, command);
        spin_unlock(&sa->lock);
    }
    // The kernel frees the command's memory as it is.
    command->key = (struct sa_key){};
    return answer;
}

// Looks at one SA. The answer is a struct report, in the command's place.
SECTION("xdp") int look(struct xdp_md *ctx) {
    u32 zero = 0;
    struct command *command = (struct command *)start_of(ctx);
    if ((u8 *)(command + 1) > end_of(ctx)) return MALFORMED;
    u32 place = command->place;
    struct transmit_sc *sc = map_lookup(&transmit, &zero);
    struct receive_sa *sa = map_lookup(&receive, &place);
    if (!sc || !sa) return MALFORMED;
    struct report report = {};
    if (command->what == TRANSMIT) {
        BOUND(place, ANS - 1);
        spin_lock(&sc->lock);
        report_transmit_locked(sc, place, &report);
        spin_unlock(&sc->lock);
    } else {
        spin_lock(&sa->lock);
        report_receive_locked(sa, &report);
        spin_unlock(&sa->lock);
    }
    *(struct report *)command = report;
    return DONE;
}

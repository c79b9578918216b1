// A cell's frames, protected and verified: what crate fieldbus does in user space, frame by frame the same.
//
//   outward: DA | SA | [VLAN] | 0x8892 | FrameID | payload          at the plain interface; leaves by the protected one
//            or another fieldbus' EtherType, with its identification in the place of the FrameID (wire::fieldbus::Protocol)
//   inward:  DA | SA | [VLAN] | EtherType | FrameID | KeyID | Seq | payload | ICV         the other way
//   change, look, fill: by user space
//
// While a frame is sealed or opened its addresses stand in front of the FrameID, in the place of VLAN tags and EtherType, so that the
// AAD is in one piece. What is of no relation, HELLOs and what only user space counts, goes to the AF_XDP socket of its queue;
// without one, wherever the cell's settings say.
// Text of the longest frame of an MTU of 1,500, nearly: what keystream ahead takes of room.
#define AHEAD_OCTETS 1472
#include "ahead.h"
#include "change.h"
#include "relation.h"
#include "room.h"

char licence[] SECTION("license") = "MIT";

#define HEADER 14
#define TAG 4
#define FRAME_ID 2
#define BEHIND_ETHERTYPE 7
#define ICV 16
#define AAD 19
#define SHORTEST_PAYLOAD (60 - HEADER - BEHIND_ETHERTYPE - ICV)
#define MOST_PAYLOAD (MOST_OCTETS - AAD - BLOCK_OCTETS)
// 802.1Q, 802.1ad, and the fieldbuses whose frames have their identification behind the EtherType, as they are read.
#define VLAN BE16(0x8100)
#define SERVICE_VLAN BE16(0x88a8)
#define PROFINET BE16(0x8892)
#define GOOSE BE16(0x88b8)
#define SAMPLED_VALUES BE16(0x88ba)
#define POWERLINK BE16(0x88ab)
#define ETHERCAT BE16(0x88a4)

// What all relations have in common. ethertype as it stands in a frame. rest: the verdict on what is user space's, where that has no
// socket. aside: every frame is user space's.
struct settings {
    u32 encrypts, mtu, epoch_end;
    u32 ethertype, rest, aside;
};

// The frames that a relation's machines have, and the tag of delivered ones, as they stand in a frame; tag 0: none.
struct machine {
    u32 tag, ethertype;
};

// DA, SA, FrameID as they stand in a frame.
struct address {
    u64 first;
    u32 second;
    u16 frame_id, zero;
};

// In the order of fieldbus' tables of counters.
enum sent { OUT_PROTECTED, OUT_OCTETS, OUT_CLEAR, OUT_NO_SESSION, OUT_SEQ_EXHAUSTED, OUT_TOO_LONG, OUT_EPOCHS, SENT_COUNTERS };
enum received {
    IN_OK, IN_OCTETS, IN_SHADOW, IN_CLEAR, IN_MISSING, IN_LATE, IN_UNKNOWN_KEY, IN_NOT_VALID, IN_NO_SESSION, IN_TOO_SHORT,
    IN_CLEAR_REFUSED, IN_CLEAR_TWIN, IN_EPOCHS, IN_SESSIONS, IN_ALARMS, RECEIVED_COUNTERS
};
struct sent_counters {
    u64 of[SENT_COUNTERS];
};
struct received_counters {
    u64 of[RECEIVED_COUNTERS];
};

// fieldbus' histogram: of its bounds, 1, 2, 5, 10 us and so on, each is 2, 2.5 and 2 times the one before.
#define BUCKETS 20
struct histogram {
    u64 sum, worst, counts[BUCKETS];
};

MAP(ARRAY, u32, struct settings, 1) settings SECTION(".maps");
MAP(HASH, struct address, u32, 1) outward_table SECTION(".maps");
MAP(HASH, struct address, u32, 1) inward_table SECTION(".maps");
MAP(ARRAY, u32, struct relation, 1) relations SECTION(".maps");
MAP(ARRAY, u32, struct machine, 1) machines SECTION(".maps");
MAP(PERCPU_ARRAY, u32, struct sent_counters, 1) sent SECTION(".maps");
MAP(PERCPU_ARRAY, u32, struct received_counters, 1) received SECTION(".maps");
MAP(PERCPU_ARRAY, u32, struct histogram, 1) jitter SECTION(".maps");
MAP(PERCPU_ARRAY, u32, struct histogram, 1) residence_outward SECTION(".maps");
MAP(PERCPU_ARRAY, u32, struct histogram, 1) residence_inward SECTION(".maps");
MAP(DEVMAP, u32, u32, 2) ports SECTION(".maps");
MAP(XSKMAP, u32, u32, 64) plain_sockets SECTION(".maps");
MAP(XSKMAP, u32, u32, 64) protected_sockets SECTION(".maps");
enum { PROTECTED_PORT, PLAIN_PORT };

INLINE int to_user_space(struct xdp_md *ctx, void *sockets, const struct settings *cell) {
    return redirect_map(sockets, ctx->rx_queue_index, cell->rest);
}

// What a frame's header says, and the octets that have to be written again.
struct front {
    struct address address;
    u32 tags, tag[2];
    u16 ethertype;
};

INLINE int is_vlan(u16 ethertype) { return ethertype == VLAN || ethertype == SERVICE_VLAN; }

// Other frames of machines need no look-up.
INLINE int is_fieldbus(u16 ethertype) {
    return ethertype == PROFINET || ethertype == GOOSE || ethertype == SAMPLED_VALUES || ethertype == POWERLINK || ethertype == ETHERCAT;
}

// Addresses, up to two tags, EtherType and FrameID; 0 if the frame ends before.
INLINE int parse(struct xdp_md *ctx, struct front *front) {
    u8 *data = start_of(ctx), *end = end_of(ctx);
    if (data + HEADER + FRAME_ID > end) return 0;
    front->address.first = U64(data), front->address.second = U32(data + 8);
    front->ethertype = U16(data + 12), front->address.frame_id = U16(data + 14);
    if (!is_vlan(front->ethertype)) return 1;
    if (data + HEADER + TAG + FRAME_ID > end) return 0;
    front->tags = 1, front->tag[0] = U32(data + 12);
    front->ethertype = U16(data + 16), front->address.frame_id = U16(data + 18);
    if (!is_vlan(front->ethertype)) return 1;
    if (data + HEADER + 2 * TAG + FRAME_ID > end) return 0;
    front->tags = 2, front->tag[1] = U32(data + 16);
    front->ethertype = U16(data + 20), front->address.frame_id = U16(data + 22);
    return 1;
}

// How addresses, header and payload divide into AAD and text. The text may stand so many octets behind its place.
INLINE void divide(struct job *job, u32 at, u32 payload, u32 encrypts, u32 from) {
    job->at = at, job->aad = encrypts ? AAD : AAD + payload, job->text = encrypts ? payload : 0, job->from = from;
}

// Zeros behind a payload that is too short.
GLOBAL int pad(struct xdp_md *ctx, u32 at, u32 octets) {
    BOUND(at, 63);
    u8 *here = start_of(ctx) + at, *end = end_of(ctx);
    EACH_ONE_BY_ONE for (u32 i = 0; i < SHORTEST_PAYLOAD && i < octets; i++) {
        if (here + 1 > end) return -1;
        *here++ = 0;
    }
    return 0;
}

// Puts a time of a relation into its bucket.
INLINE void add_time(void *histograms, u32 number, u64 time) {
    struct histogram *histogram = map_lookup(histograms, &number);
    if (!histogram) return;
    // How many bounds are below it. By branches the verifier would follow each bucket by itself.
    static const u64 bounds[] = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000, 500000, 1000000};
    u64 bucket = 0;
    UNROLLED for (int i = 0; i < BUCKETS - 1; i++) bucket += (1000 * bounds[i] - time) >> 63;
    if (bucket < BUCKETS) histogram->counts[bucket]++;
    histogram->sum += time;
    if (time > histogram->worst) histogram->worst = time;
}

// The time since a frame came to its program.
INLINE void add_residence(void *histograms, u32 number, u64 came) {
    add_time(histograms, number, time_since(came, ktime_get_ns()));
}

// An element that was deleted may give the number of another relation, whose addresses are others: its keys fit neither way.
INLINE struct relation *find(void *table, const struct address *address, u32 *number) {
    u32 *found = map_lookup(table, address);
    if (!found) return 0;
    *number = *found;
    return map_lookup(&relations, number);
}

SECTION("xdp") int outward(struct xdp_md *ctx) {
    u32 zero = 0, number = 0, key_id = 0, begun = 0;
    u64 id = 0;
    struct settings *cell = map_lookup(&settings, &zero);
    if (!cell) return XDP_DROP;
    struct front front = {};
    if (cell->aside || !parse(ctx, &front) || !is_fieldbus(front.ethertype)) return to_user_space(ctx, &plain_sockets, cell);
    struct relation *relation = find(&outward_table, &front.address, &number);
    struct machine *machine = map_lookup(&machines, &number);
    if (!relation || !machine || machine->ethertype != front.ethertype) return to_user_space(ctx, &plain_sockets, cell);
    struct sent_counters *count = map_lookup(&sent, &number);
    if (!count) return XDP_DROP;
    u64 came = ktime_get_ns();

    u32 tags = front.tags * TAG, header = HEADER + tags + FRAME_ID;
    u32 given = octets_of(ctx) - header;
    u32 payload = given < SHORTEST_PAYLOAD ? SHORTEST_PAYLOAD : given;
    // All room is taken in front: frames out of a socket buffer have none behind them.
    u32 more = ICV + payload - given;
    if (BEHIND_ETHERTYPE + payload + ICV > cell->mtu || payload > MOST_PAYLOAD
        || adjust_head(ctx, -(int)(BEHIND_ETHERTYPE - FRAME_ID + more))) {
        count->of[OUT_TOO_LONG]++;
        return XDP_DROP;
    }
    u32 at = HEADER + tags - 12;
    // A text moves while it is encrypted.
    u32 moves = !cell->encrypts || given < payload;
    if (moves && move_forward(ctx, at + AAD, more, given)) return XDP_DROP;
    if (given < payload && pad(ctx, at + AAD + given, payload - given)) return XDP_DROP;

    struct job job = {};
    divide(&job, at, payload, cell->encrypts, moves ? 0 : ICV);
    enum taken taken = take_seq(relation, cell->epoch_end, &job, &key_id, &id, &begun);
    if (taken != TAKEN) {
        count->of[taken == NO_SESSION ? OUT_NO_SESSION : OUT_SEQ_EXHAUSTED]++;
        return XDP_DROP;
    }
    count->of[OUT_EPOCHS] += begun;
    BOUND(at, 15);
    u8 *data = start_of(ctx), *end = end_of(ctx), *aad = data + at;
    if (aad + AAD > end) return XDP_DROP;
    U64(aad) = front.address.first, U32(aad + 8) = front.address.second, U16(aad + 12) = front.address.frame_id;
    aad[14] = key_id, U32(aad + 15) = BE32((u32)id);

    if (aead_ahead(ctx, &job, number, SENT, id)) return XDP_DROP;

    if (data + HEADER + 2 * TAG > end) return XDP_DROP;
    U64(data) = front.address.first, U32(data + 8) = front.address.second;
    if (front.tags == 0) U16(data + 12) = cell->ethertype;
    if (front.tags == 1) U32(data + 12) = front.tag[0], U16(data + 16) = cell->ethertype;
    if (front.tags == 2) U32(data + 12) = front.tag[0], U32(data + 16) = front.tag[1], U16(data + 20) = cell->ethertype;
    count->of[OUT_PROTECTED]++, count->of[OUT_OCTETS] += payload;
    add_residence(&residence_outward, number, came);
    return redirect_map(&ports, PROTECTED_PORT, XDP_DROP);
}

INLINE int discard(struct received_counters *count, enum received reason) {
    count->of[reason]++;
    return XDP_DROP;
}

SECTION("xdp") int inward(struct xdp_md *ctx) {
    u32 zero = 0, number = 0;
    struct settings *cell = map_lookup(&settings, &zero);
    if (!cell) return XDP_DROP;
    struct front front = {};
    if (cell->aside || !parse(ctx, &front) || front.ethertype != cell->ethertype || front.tags > 1) return to_user_space(ctx, &protected_sockets, cell);
    u32 header = HEADER + front.tags * TAG, at = header - 12;
    BOUND(at, 15);
    u8 *data = start_of(ctx), *end = end_of(ctx), *aad = data + at;
    if (aad + AAD > end) return to_user_space(ctx, &protected_sockets, cell);
    u32 key_id = aad[14], seq = BE32(U32(aad + 15));
    struct relation *relation = find(&inward_table, &front.address, &number);
    // Seq 0: a HELLO.
    if (!relation || !seq) return to_user_space(ctx, &protected_sockets, cell);
    struct received_counters *count = map_lookup(&received, &number);
    if (!count) return XDP_DROP;

    u32 len = octets_of(ctx);
    if (len < header + BEHIND_ETHERTYPE + ICV) return discard(count, IN_TOO_SHORT);
    u32 payload = len - header - BEHIND_ETHERTYPE - ICV;
    struct job job = {};
    struct under under = {};
    u64 now = ktime_get_ns();
    switch (admit(relation, key_id, seq, now, &job, &under)) {
    case NOT_ENTERED:
        return discard(count, IN_NO_SESSION);
    case UNKNOWN_KEY:
        return discard(count, IN_UNKNOWN_KEY);
    case LATE:
        return discard(count, IN_LATE);
    default:
        break;
    }
    U64(aad) = front.address.first, U32(aad + 8) = front.address.second;

    divide(&job, at, payload, cell->encrypts, 0);
    job.opens = 1;
    if (payload > MOST_PAYLOAD || aead_ahead(ctx, &job, number, RECEIVED, under.id)) return discard(count, IN_NOT_VALID);

    struct moved moved = {};
    if (!commit(relation, &under, job.text, now, &moved)) return discard(count, IN_LATE);
    count->of[IN_OCTETS] += payload, count->of[IN_MISSING] += moved.missing, count->of[IN_SESSIONS] += moved.session;
    count->of[IN_EPOCHS] += moved.epoch, count->of[IN_ALARMS] += moved.alarm;
    // How much the time between two verified frames differs from the cycle.
    u64 cycle = relation->cycle;
    if (moved.gap_known) add_time(&jitter, number, moved.gap > cycle ? moved.gap - cycle : cycle - moved.gap);

    // The front that the machine expects; the tag that was on the wire is gone.
    // It is looked up here, not before the frame is opened: the stack has no room for it meanwhile.
    struct machine *machine = map_lookup(&machines, &number);
    if (!machine) return XDP_DROP;
    u32 tag = machine->tag;
    u16 ethertype = machine->ethertype;
    u32 delivered = HEADER + (tag ? TAG : 0) + FRAME_ID;
    if (adjust_head(ctx, (int)(header + BEHIND_ETHERTYPE - delivered)) || adjust_tail(ctx, -ICV)) return XDP_DROP;
    data = start_of(ctx), end = end_of(ctx);
    if (data + HEADER + FRAME_ID > end) return XDP_DROP;
    U64(data) = front.address.first, U32(data + 8) = front.address.second;
    if (tag) {
        if (data + HEADER + TAG + FRAME_ID > end) return XDP_DROP;
        U32(data + 12) = tag, U16(data + 16) = ethertype, U16(data + 18) = front.address.frame_id;
    } else {
        U16(data + 12) = ethertype, U16(data + 14) = front.address.frame_id;
    }
    count->of[IN_OK]++;
    add_residence(&residence_inward, number, now);
    return redirect_map(&ports, PLAIN_PORT, XDP_DROP);
}

SECTION("xdp") int change(struct xdp_md *ctx) {
    struct command *command = (struct command *)start_of(ctx);
    if ((u8 *)(command + 1) > end_of(ctx)) return MALFORMED;
    u32 number = command->relation;
    struct relation *relation = map_lookup(&relations, &number);
    u32 zero = 0, *given = map_lookup(&serials, &zero);
    if (!relation || !given || command->what > WATCH) return MALFORMED;
    // Control alone runs this program, one command after the other.
    u32 serial = *given;
    *given = serial + SERIALS_OF_COMMAND;
    spin_lock(&relation->lock);
    int answer = change_locked(relation, command, serial);
    spin_unlock(&relation->lock);
    if (command->what != WATCH) empty_slots(number);
    // The kernel frees the command's memory as it is.
    command->session = (struct session){};
    return answer;
}

// Looks at one relation, `command.relation`. The answer is a struct report, in the command's place.
SECTION("xdp") int look(struct xdp_md *ctx) {
    struct command *command = (struct command *)start_of(ctx);
    if ((u8 *)(command + 1) > end_of(ctx)) return MALFORMED;
    u32 number = command->relation;
    struct relation *relation = map_lookup(&relations, &number);
    struct received_counters *count = map_lookup(&received, &number);
    if (!relation || !count) return MALFORMED;
    struct report report = {.now = ktime_get_ns()};
    spin_lock(&relation->lock);
    int alarm = look_locked(relation, report.now);
    report_locked(relation, command->what, &report);
    spin_unlock(&relation->lock);
    count->of[IN_ALARMS] += alarm;
    *(struct report *)command = report;
    return DONE;
}

// Places from `place` on, up to `end`; how many slots were made for them, and the most that one way of one of them lacked.
struct filling {
    u32 place, end, made, most;
};

// Makes one slot, so that no frame waits for more; or finds that the place has enough, and goes on to the next one. It is run many times.
SECTION("xdp") int fill(struct xdp_md *ctx) {
    struct filling *filling = (struct filling *)start_of(ctx);
    if ((u8 *)(filling + 1) > end_of(ctx)) return MALFORMED;
    u32 place = filling->place, way = SENT, octets = 0, lacks = 0;
    if (place >= filling->end) return DONE;
    struct relation *relation = map_lookup(&relations, &place);
    if (!relation) return MALFORMED;
    struct job job = {};
    spin_lock(&relation->lock);
    u64 id = missing_locked(relation, SENT, &job, &octets, &lacks);
    if (!id) way = RECEIVED, id = missing_locked(relation, RECEIVED, &job, &octets, &lacks);
    spin_unlock(&relation->lock);
    if (!id) {
        filling->place++;
        return DONE;
    }
    if (lacks > filling->most) filling->most = lacks;
    struct slot *slot = slot_of(place, way, id);
    if (!slot) return MALFORMED;
    u64 old = *(volatile u64 *)&slot->id;
    if (old == HELD || !hold(slot, old)) return DONE;
    octets = (octets + STREAM_OCTETS - 1) / STREAM_OCTETS * STREAM_OCTETS;
    if (octets > AHEAD_OCTETS) octets = AHEAD_OCTETS;
    if (octets < slot->octets) wipe(slot);
    slot->octets = octets;
    int failed = make(slot, &job, octets);
    spin_lock(&relation->lock);
    int missing = !failed && still_missing_locked(relation, way, id);
    if (missing) set_id(slot, id);
    spin_unlock(&relation->lock);
    if (missing)
        filling->made++;
    else
        empty(slot);
    return DONE;
}

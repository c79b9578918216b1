//! Order of packets at an uplink that is the bottleneck. What is sent faster than it carries waits in a modem or a router, in one queue
//! for all. A shaper sends a little slower than the uplink carries, so packets wait here, where express ones go first.
//!
//! ```text
//!  push ──┬─ express ─▶ one queue ───────────────────────────┐ first, within its share
//!         └─ bulk ────▶ a queue for each flow, in turns, CoDel ┴─▶ line: a virtual clock ──▶ depart
//! ```
//!
//! - **Rate.** The line is a clock of what was sent: [`line`]. Within any time `t` no more octets leave than the line carries in
//!   `t` + [`EXPRESS_AHEAD`], and one packet. What the management channel sends beside the shaper is charged ([`Shaper::charge`]).
//! - **Express** packets leave as soon as the line is no more than [`EXPRESS_AHEAD`] ahead of now; bulk goes up to [`BULK_AHEAD`]. So an
//!   express packet finds at most [`BULK_AHEAD`], one packet, and express packets before it.
//! - **No starvation.** While bulk waits, express packets go first within three quarters of the rate. Beyond that, bulk goes before them.
//! - **Flows** of bulk take turns (deficit round robin with new flows first, RFC 8290), each with CoDel (RFC 8289): [`flows`].
//! - **Split frames.** Packets of one frame stand one behind the other. They share its turn, and leave all or none: a half costs the line as
//!   much as it is worth nothing.
//! - **Bounds.** All memory is there from the start. What finds no room is discarded, from the longest queue, and counted.
//! - **Windows.** A receiver discards what others have overtaken by more than its window. So does the shaper, by half as many frames: what
//!   the receiver would discard costs the line nothing. Each frame has a number, for it uses up a PN and in each lane two seqs at most,
//!   whether it leaves or not.
//!
//! Left out on purpose: the clock, the socket, and which packets are express: the caller says so.

mod codel;
mod flows;
mod line;
mod store;

use core::time::Duration;

use arrayvec::ArrayVec;
use wire::Instant;

use flows::Flows;
use line::Line;
use store::{Fifo, Store};

/// Packets that leave at once at most.
pub const DEPARTING: usize = 64;
/// How far bulk may be sent ahead of the line.
pub const BULK_AHEAD: Duration = Duration::from_millis(1);
/// How far express packets may be sent ahead of the line.
pub const EXPRESS_AHEAD: Duration = Duration::from_micros(1500);
/// How far the line is ahead when bulk goes on: so it goes in bursts, and a late wake-up loses nothing.
const BULK_RESUMES: Duration = Duration::from_micros(500);
/// Express packets that leave at once before their share is used up, as time of the line.
const EXPRESS_AT_ONCE: Duration = Duration::from_millis(5);
/// Longest queues, as time of the line.
const EXPRESS_WAITS: Duration = Duration::from_millis(20);
const BULK_WAITS: Duration = Duration::from_millis(50);
/// What may wait however slow the line is, in packets of full length.
const LEAST_WAITING: usize = 16;
/// Most packets of each class that wait, beside the last ones of a frame whose first is one of them.
const MOST_WAITING: usize = 4096;
/// Most packets of a frame: two halves, over four paths.
const PACKETS_OF_FRAME: usize = 8;
/// What the management channel may send at once beyond its half of the rate, as time of that half.
const CHANNEL_AT_ONCE: Duration = Duration::from_millis(100);

/// Octets of a packet on the line besides its UDP payload: UDP 8, IP 20 or 40, and Ethernet 38: header 14, FCS 4, preamble 8, gap 12.
pub const fn line_overhead(ipv6: bool) -> usize {
    8 + if ipv6 { 40 } else { 20 } + 38
}

/// An uplink.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShaperSettings {
    /// Bits a second that it carries, at least 1; counted as [`line_overhead`] says.
    pub bits_per_second: u64,
    /// Octets of the longest UDP payload.
    pub most_payload: usize,
}

/// Class of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Class {
    /// Goes first.
    Express,
    /// Takes turns with other flows. Flows with one key share a turn.
    Bulk {
        /// Of the flow: any number that nobody else can predict.
        key: u64,
    },
}

/// What a packet is of.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PacketOf {
    /// Number of its frame, of those that [`Shaper::take_numbers`] gave.
    pub number: u64,
    /// It is of the same frame as the one that was pushed before it: they leave both, or neither.
    pub continues: bool,
}

/// What becomes of a packet that waited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Leaves,
    /// CoDel discards it.
    Delayed,
    /// It is too late for the peer's window.
    Overtaken,
}

wire::counters! {
    /// Packets and octets of a shaped uplink.
    UplinkCounters {
        /// Express packets that were sent.
        out_pkts_express = "OutPktsExpress",
        /// Other packets that were sent.
        out_pkts_bulk = "OutPktsBulk",
        /// Octets that both take on the line, with UDP, IP and Ethernet.
        out_octets_line = "OutOctetsLine",
        /// Octets that the management channel takes on the line; its packets never wait.
        out_octets_channel = "OutOctetsChannel",
        /// Express packets beyond what may wait: more come than the uplink carries.
        out_pkts_express_full = "OutPktsExpressFull" [discard],
        /// Other packets beyond what may wait, of the flow that has most.
        out_pkts_bulk_full = "OutPktsBulkFull" [discard],
        /// Packets of a flow that has waited too long for a tenth of a second, so that its sender slows down (CoDel).
        out_pkts_bulk_delayed = "OutPktsBulkDelayed" [discard],
        /// Packets that so many later ones have overtaken that a peer may discard them.
        out_pkts_overtaken = "OutPktsOvertaken" [discard],
        /// Packets longer than any path carries.
        out_pkts_uplink_too_long = "OutPktsUplinkTooLong" [discard],
    }
}

/// Packets and octets that wait.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Backlog {
    /// Express packets.
    pub express: usize,
    /// Other packets.
    pub bulk: usize,
    /// Octets of all of them on the line.
    pub octets: usize,
}

/// Packets that wait for an uplink; `M` says where each goes.
#[derive(Debug)]
pub struct Shaper<M> {
    line: Line,
    /// The share within which express packets go first.
    share: Line,
    /// Half of the rate: frames wait for no more of what the management channel sends.
    channel: Line,
    store: Store<M>,
    express: Fifo,
    bulk: Flows,
    /// Octets, and packets, of each class that may wait.
    most_express: [usize; 2],
    most_bulk: [usize; 2],
    /// Frames by which one may be overtaken.
    most_overtaken: u64,
    /// Numbers of frames in the order in which they came: the next one, and the newest that has left.
    next_number: u64,
    newest_left: u64,
    /// The frame whose packet came last found no room.
    refused: bool,
    /// Of the express frame whose packet was taken last.
    express_fate: Fate,
    /// Places of those that leave now.
    leaving: ArrayVec<u32, DEPARTING>,
    counters: UplinkCounters,
}

impl<M: Copy> Shaper<M> {
    /// An uplink where nothing waits, with all its memory. `window`: see [`Shaper::set_window`].
    pub fn new(settings: ShaperSettings, window: u64) -> Self {
        let ShaperSettings { bits_per_second, most_payload } = settings;
        let line = Line::new(bits_per_second);
        let longest = most_payload + line_overhead(true);
        let octets = |time| line.octets(time).max(LEAST_WAITING * longest);
        let most_overtaken = window / 2;
        let packets =
            usize::try_from(most_overtaken).unwrap_or(MOST_WAITING).clamp(LEAST_WAITING, MOST_WAITING);
        Self {
            line,
            share: Line::new(bits_per_second / 4 * 3),
            channel: Line::new(bits_per_second / 2),
            store: Store::new(2 * (packets + PACKETS_OF_FRAME) + DEPARTING, most_payload),
            express: Fifo::default(),
            bulk: Flows::new(line.time(2 * longest)),
            most_express: [octets(EXPRESS_WAITS), packets],
            most_bulk: [octets(BULK_WAITS), packets],
            most_overtaken,
            next_number: 0,
            newest_left: 0,
            refused: false,
            express_fate: Fate::Leaves,
            leaving: ArrayVec::new(),
            counters: UplinkCounters::default(),
        }
    }

    /// Sets the seqs, or PNs, by which a packet may be late at all peers.
    pub const fn set_window(&mut self, window: u64) {
        self.most_overtaken = window / 2;
    }

    /// Numbers for so many frames, one after the other: the first one. Each frame takes one, also what is not sent: it may have used up a PN.
    pub const fn take_numbers(&mut self, frames: u64) -> u64 {
        let first = self.next_number;
        self.next_number += frames;
        first
    }

    /// Takes a packet in two pieces, with `overhead` octets besides them. What finds no room is counted: its frame, or the oldest one of the
    /// flow that has most. Copies it; looks at each flow's queue if there is no room.
    pub fn push(
        &mut self,
        now: Instant,
        of: PacketOf,
        class: Class,
        to: M,
        overhead: usize,
        pieces: [&[u8]; 2],
    ) {
        let payload = pieces[0].len() + pieces[1].len();
        if payload > self.store.most() {
            self.refused = true;
            self.counters.out_pkts_uplink_too_long += 1;
            return;
        }
        if !of.continues {
            self.refused = !self.make_room(class, payload + overhead);
        }
        let cell = store::Cell::new(to, overhead, line::nanoseconds(now), of);
        let place = if self.refused { None } else { self.store.put(cell, pieces) };
        match (place, class) {
            (Some(place), Class::Express) => self.express.push(&mut self.store, place),
            (Some(place), Class::Bulk { key }) => self.bulk.push(&mut self.store, key, place),
            (None, Class::Express) => self.counters.out_pkts_express_full += 1,
            (None, Class::Bulk { .. }) => self.counters.out_pkts_bulk_full += 1,
        }
    }

    /// Has a frame find room that begins with so many octets, if it may have some. What else the frame has finds room behind it.
    fn make_room(&mut self, class: Class, octets: usize) -> bool {
        match class {
            Class::Express => {
                let [most_octets, most_packets] = self.most_express;
                self.express.octets() + octets <= most_octets && self.express.packets() < most_packets
            }
            Class::Bulk { .. } => {
                let [most_octets, most_packets] = self.most_bulk;
                while self.bulk.octets() + octets > most_octets || self.bulk.packets() >= most_packets {
                    let dropped = self.bulk.drop_longest(&mut self.store);
                    self.counters.out_pkts_bulk_full += dropped as u64;
                    if dropped == 0 {
                        break;
                    }
                }
                true
            }
        }
    }

    /// The management channel has sent so many octets, overhead included. Frames wait for them, but for no more than half of the rate in
    /// the long run, and for 50 ms at once.
    pub fn charge(&mut self, now: Instant, octets: u64) {
        self.counters.out_octets_channel = self.counters.out_octets_channel.wrapping_add(octets);
        let now = line::nanoseconds(now);
        let time = self.channel.charge_at_most(now, octets, line::as_nanoseconds(CHANNEL_AT_ONCE));
        self.line.charge_time(now, time / 2);
    }

    /// Decides which packets leave now, at most [`DEPARTING`], and says whether there are any: [`Shaper::leaving`] has them. Those before
    /// have left. Call it until there are none.
    pub fn depart(&mut self, now: Instant) -> bool {
        for place in self.leaving.drain(..) {
            self.store.free(place);
        }
        let now = line::nanoseconds(now);
        while !self.leaving.is_full()
            && let Some(place) = self.next(now)
        {
            self.newest_left = self.newest_left.max(self.store.cell(place).of.number);
            self.leaving.push(place);
        }
        !self.leaving.is_empty()
    }

    /// The packets that leave: where each goes, and its octets.
    pub fn leaving(&self) -> impl Iterator<Item = (&M, &[u8])> {
        self.leaving
            .iter()
            .filter_map(|place| Some((self.store.cell(*place).to.as_ref()?, self.store.octets(*place))))
    }

    fn next(&mut self, now: u64) -> Option<u32> {
        let first = self.bulk.is_empty() || self.share.is_within(now, EXPRESS_AT_ONCE);
        while first
            && !self.express.is_empty()
            && self.line.is_within(now, EXPRESS_AHEAD)
            && let Some(place) = self.express.pop(&mut self.store)
        {
            let cell = self.store.cell(place);
            let (of, octets) = (cell.of, cell.line_octets());
            if !of.continues {
                self.express_fate = if is_overtaken(of, self.newest_left, self.most_overtaken) {
                    Fate::Overtaken
                } else {
                    Fate::Leaves
                };
            }
            if self.express_fate != Fate::Leaves {
                self.store.free(place);
                self.counters.out_pkts_overtaken += 1;
                continue;
            }
            // With nobody else there is nothing to share, and no debt.
            if !self.bulk.is_empty() {
                self.share.charge(now, octets);
            }
            self.charge_line(now, octets);
            self.counters.out_pkts_express += 1;
            return Some(place);
        }
        while (!first || self.express.is_empty())
            && self.line.is_within(now, BULK_AHEAD)
            && let Some(taken) = self
                .bulk
                .pop(&mut self.store, now, |of| is_overtaken(of, self.newest_left, self.most_overtaken))
        {
            match taken.fate {
                Fate::Leaves => {
                    let octets = self.store.cell(taken.place).line_octets();
                    self.charge_line(now, octets);
                    self.counters.out_pkts_bulk += 1;
                    return Some(taken.place);
                }
                Fate::Delayed => self.counters.out_pkts_bulk_delayed += 1,
                Fate::Overtaken => self.counters.out_pkts_overtaken += 1,
            }
            self.store.free(taken.place);
        }
        None
    }

    fn charge_line(&mut self, now: u64, octets: usize) {
        self.line.charge(now, octets);
        self.counters.out_octets_line += octets as u64;
    }

    /// Moment at which [`Shaper::depart`] is due, if packets wait.
    pub fn due(&self) -> Option<Instant> {
        let bulk = (!self.bulk.is_empty()).then(|| self.line.due(BULK_RESUMES));
        let express = (!self.express.is_empty()).then(|| {
            let line = self.line.due(EXPRESS_AHEAD);
            // Beyond its share it waits for bulk, or until it has one again.
            if bulk.is_some() { line.max(self.share.due(EXPRESS_AT_ONCE)) } else { line }
        });
        [bulk, express].into_iter().flatten().min().map(line::instant)
    }

    /// What waits.
    pub const fn backlog(&self) -> Backlog {
        Backlog {
            express: self.express.packets(),
            bulk: self.bulk.packets(),
            octets: self.express.octets() + self.bulk.octets(),
        }
    }

    /// Its counters.
    pub const fn counters(&self) -> &UplinkCounters {
        &self.counters
    }
}

/// Whether a frame is too late for the peer's window.
const fn is_overtaken(of: PacketOf, newest_left: u64, most_overtaken: u64) -> bool {
    newest_left.saturating_sub(of.number) > most_overtaken
}

//! Planning of frames from SDUs: fragmentation and concatenation (thesis chapters 3 and 4; TII paper section
//! IV).
//!
//! ```text
//!  waiting:  | SDU 1        | SDU 2        | SDU 3  |           (of one DA and SA)
//!  frames:   | SDU 1        | SDU ─ MF  CF ─ 2 | SDU 3 |        full ones, and what is left over
//! ```
//!
//! A plan lists the octets of SDUs that each frame takes. The caller copies them together and has the frames
//! protected. Only SDUs that already wait are concatenated: a plan adds no delay.
//!
//! *Express* SDUs ([`crate::express`]) precede all others and never share a frame. Others keep their order among those
//! with the same DA and SA; an express one overtakes those of its own flow too.
//!
//! Work for n SDUs: at most n²/2 comparisons of addresses, and one step for each segment.

use alloc::vec::Vec;
use core::ops::Range;
use wire::Segments;
use wire::ethernet::{ADDRESSES_OCTETS, Header};
use wire::extension::{EXTENSION_OCTETS, SEGMENT_OCTETS, SEGMENTS};
use wire::sectag::ICV_OCTETS;

use crate::express::ExpressClasses;
use crate::sdu_buffer::SDU_OCTETS;
use crate::settings::{SciInclusion, Settings};
use crate::transmit::FrameLayout;

/// Rules for a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    /// Octets of extension headers and secure data that fit a frame.
    pub capacity: usize,
    /// An SDU may span frames.
    pub fragment: bool,
    /// A frame may hold several SDUs.
    pub concatenate: bool,
    /// Octets of the longest SDU, from its destination address, that may be fragmented or share a frame: at
    /// most [`SDU_OCTETS`].
    pub longest: usize,
}

impl Rules {
    /// Rules for the frames of a SecY whose receivers accept SDUs of [`SDU_OCTETS`].
    pub const fn new(settings: &Settings, fragment: bool, concatenate: bool) -> Self {
        let tag = match settings.sci_inclusion {
            SciInclusion::Always => wire::sectag::SECTAG_SCI_OCTETS,
            SciInclusion::Never | SciInclusion::EndStation => wire::sectag::SECTAG_OCTETS,
        };
        // The MTU counts from behind the first EtherType, which is the SecTAG's.
        let capacity = (settings.mtu + 2).saturating_sub(tag + ICV_OCTETS);
        Self { capacity, fragment, concatenate, longest: SDU_OCTETS }
    }

    /// Octets of secure data in a frame with this many extension headers.
    const fn room(&self, headers: usize) -> usize {
        self.capacity.saturating_sub(headers * EXTENSION_OCTETS)
    }
}

/// Properties of an SDU for a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sdu {
    addresses: [u8; ADDRESSES_OCTETS],
    /// Octets from its EtherType on.
    octets: usize,
    express: bool,
}

impl Sdu {
    /// Properties of the SDU `sdu`, where SDUs of these classes are express. `None` if it is shorter than an Ethernet header.
    pub fn of(sdu: &[u8], classes: &ExpressClasses) -> Option<Self> {
        let header = Header::parse(sdu).ok()?;
        let addresses = *sdu.first_chunk()?;
        let express = classes.has_sdu(&header, sdu);
        Some(Self { addresses, octets: sdu.len() - ADDRESSES_OCTETS, express })
    }

    /// True if it precedes all others and never shares a frame.
    pub const fn is_express(&self) -> bool {
        self.express
    }

    /// Octets of its secure data.
    pub const fn octets(&self) -> usize {
        self.octets
    }
}

/// A fragment of an SDU. Octets count from its EtherType.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fragment {
    /// Index of the SDU among the planned ones.
    pub sdu: usize,
    /// Range of its octets.
    pub octets: Range<usize>,
}

/// A planned frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlannedFrame {
    /// Its fragments, as indices into [`Plan::fragments`].
    fragments: Range<usize>,
    /// Layout of the secure data; `None` for one whole SDU.
    pub layout: Option<FrameLayout>,
}

/// Plan of frames for SDUs. Allocated once for the largest burst, and reused.
#[derive(Debug)]
pub struct Plan {
    frames: Vec<PlannedFrame>,
    fragments: Vec<Fragment>,
    /// SDUs longer than a frame that must not be fragmented: by the rules, or because no receiver accepts
    /// them.
    too_long: usize,
    fragmented: usize,
    concatenated: usize,
}

impl Plan {
    /// Memory for plans of up to `sdus` SDUs under `rules`.
    pub fn new(sdus: usize, rules: &Rules) -> Self {
        // Per SDU: frames that are full but for a header, and one that is not.
        let each = SDU_OCTETS / rules.room(1).max(1) + 2;
        Self {
            frames: Vec::with_capacity(sdus * each),
            fragments: Vec::with_capacity(sdus * (each + 1)),
            too_long: 0,
            fragmented: 0,
            concatenated: 0,
        }
    }

    /// The frames, in transmission order.
    pub fn frames(&self) -> &[PlannedFrame] {
        &self.frames
    }

    /// The fragments of a frame, in order.
    pub fn fragments(&self, frame: &PlannedFrame) -> &[Fragment] {
        &self.fragments[frame.fragments.clone()]
    }

    /// Number of SDUs in no frame, because they are too long.
    pub const fn too_long(&self) -> usize {
        self.too_long
    }

    /// Number of SDUs that span frames.
    pub const fn fragmented(&self) -> usize {
        self.fragmented
    }

    /// Number of SDUs that share a frame.
    pub const fn concatenated(&self) -> usize {
        self.concatenated
    }

    /// Makes a new plan.
    pub fn make(&mut self, rules: &Rules, sdus: &[Sdu]) {
        self.frames.clear();
        self.fragments.clear();
        (self.too_long, self.fragmented, self.concatenated) = (0, 0, 0);
        let numbered = || sdus.iter().enumerate();
        for (number, sdu) in numbered().filter(|(_, sdu)| sdu.express) {
            self.group(rules, core::iter::once((number, sdu)));
        }
        if !rules.concatenate {
            for (number, sdu) in numbered().filter(|(_, sdu)| !sdu.express) {
                self.group(rules, core::iter::once((number, sdu)));
            }
            return;
        }
        for (first, leader) in numbered() {
            let of_group = |(_, sdu): &(usize, &Sdu)| !sdu.express && sdu.addresses == leader.addresses;
            // The first SDU of a group has the whole group planned.
            if leader.express || numbered().take(first).any(|one| of_group(&one)) {
                continue;
            }
            self.group(rules, numbered().skip(first).filter(of_group));
        }
    }

    /// Plans SDUs that share DA and SA.
    fn group<'s>(&mut self, rules: &Rules, sdus: impl Iterator<Item = (usize, &'s Sdu)>) {
        let first_frame = self.frames.len();
        let mut open = OpenFrame::new(false, self.fragments.len());
        for (number, sdu) in sdus {
            // Receivers neither reassemble longer SDUs nor split them out of a shared frame.
            let divisible = sdu.octets + ADDRESSES_OCTETS <= rules.longest;
            if sdu.octets > rules.room(0) && !(rules.fragment && divisible) {
                self.too_long += 1;
                continue;
            }
            if divisible {
                self.place(rules, &mut open, number, sdu.octets);
            } else {
                self.close(&mut open, false);
                self.place(rules, &mut open, number, sdu.octets);
                self.close(&mut open, false);
            }
        }
        self.close(&mut open, false);
        self.number_chains(first_frame);
    }

    /// Puts one SDU into the open frame, and into further frames if it may be fragmented.
    fn place(&mut self, rules: &Rules, open: &mut OpenFrame, number: usize, octets: usize) {
        if open.count > 0 && !open.takes_whole(rules, octets) {
            // Cut only to fill the frame. The length of a segment behind the first has to fit a header.
            let room = open.room_for_next(rules);
            let cut = rules.fragment && (LEAST_CUT..=SEGMENT_OCTETS).contains(&room) && open.count < SEGMENTS;
            if !cut || octets <= room {
                self.close(open, false);
            }
        }
        let mut from = 0;
        while from < octets {
            let length = (octets - from).min(open.room_for_next(rules));
            open.add(length);
            self.fragments.push(Fragment { sdu: number, octets: from..from + length });
            from += length;
            if from < octets {
                self.close(open, true);
            }
        }
        if open.continues && open.count == 1 {
            self.fragmented += 1;
        }
    }

    /// Closes the open frame, if it holds anything, and opens the next.
    fn close(&mut self, open: &mut OpenFrame, more: bool) {
        if open.count > 0 {
            let fragments = open.first_fragment..self.fragments.len();
            // A whole SDU alone needs no header.
            let whole = open.count == 1 && !open.continues && !more;
            let layout = (!whole).then_some(FrameLayout { segments: open.segments, chain: u16::from(more) });
            if open.count > 1 {
                self.concatenated += open.count - usize::from(open.first_counted);
            }
            self.frames.push(PlannedFrame { fragments, layout });
        }
        let last_counted = open.count > 1 || open.first_counted;
        *open = OpenFrame::new(more, self.fragments.len());
        open.first_counted = more && last_counted;
    }

    /// Numbers the frames of each chain down to its last one.
    fn number_chains(&mut self, first: usize) {
        let mut behind = 0;
        for frame in self.frames[first..].iter_mut().rev() {
            behind = match &mut frame.layout {
                Some(layout) if layout.chain > 0 => {
                    behind += 1;
                    layout.chain = behind;
                    behind
                }
                _ => 0,
            };
        }
    }
}

/// Minimum octets of an SDU that a cut puts into the frame. Below, header and work cost more than the octets.
const LEAST_CUT: usize = 64;

/// The frame under construction.
struct OpenFrame {
    segments: Segments,
    count: usize,
    filled: usize,
    continues: bool,
    first_fragment: usize,
    /// The SDU that it continues already shared an earlier frame, and is counted.
    first_counted: bool,
}

impl OpenFrame {
    const fn new(continues: bool, first_fragment: usize) -> Self {
        let segments = Segments::one(0, continues);
        Self { segments, count: 0, filled: 0, continues, first_fragment, first_counted: false }
    }

    /// Number of extension headers with one segment more.
    const fn headers_with_next(&self) -> usize {
        match (self.count, self.continues) {
            (0, false) => 0,
            (0, true) => 1,
            (count, _) => count,
        }
    }

    const fn room_for_next(&self, rules: &Rules) -> usize {
        rules.room(self.headers_with_next()).saturating_sub(self.filled)
    }

    const fn takes_whole(&self, rules: &Rules, octets: usize) -> bool {
        let told = self.count == 0 || octets <= SEGMENT_OCTETS;
        told && rules.concatenate && self.count < SEGMENTS && octets <= self.room_for_next(rules)
    }

    fn add(&mut self, octets: usize) {
        // A frame's capacity, and so any segment, is below 2^16; the caller has checked the room.
        let length = octets as u16;
        if self.count == 0 {
            self.segments = Segments::one(length, self.continues);
        } else {
            let pushed = self.segments.push(length);
            debug_assert!(pushed.is_ok(), "the caller has looked for room");
        }
        self.count += 1;
        self.filled += octets;
    }
}

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
//! With [padding](Rules::padded), each frame has one of a few sizes: it is filled up behind its last segment.
//!
//! Work for n SDUs: at most n²/2 comparisons of addresses, and one step for each segment.

use alloc::vec::Vec;
use core::ops::Range;
use wire::Segments;
use wire::ethernet::{ADDRESSES_OCTETS, HEADER_OCTETS, Header};
use wire::extension::{EXTENSION_OCTETS, SEGMENT_OCTETS, SEGMENTS, padded};
use wire::sectag::ICV_OCTETS;

use crate::express::ExpressClasses;
use crate::padding::FrameSizes;
use crate::reassemble::MAX_FRAGMENTS;
use crate::sdu_buffer::SDU_OCTETS;
use crate::settings::{SciInclusion, Settings};
use crate::transmit::FrameLayout;

/// Most fragments of an SDU: what a receiver holds, and the last, which it never holds.
pub const MOST_FRAGMENTS: usize = MAX_FRAGMENTS + 1;

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
    /// Octets of a frame around these: DA, SA, SecTAG and ICV.
    pub around: usize,
    /// Sizes of the frames, if they are padded.
    pub sizes: FrameSizes,
}

impl Rules {
    /// Rules for the frames of a SecY whose receivers accept SDUs of [`SDU_OCTETS`].
    pub const fn new(settings: &Settings, fragment: bool, concatenate: bool) -> Self {
        let tag = match settings.sci_inclusion {
            SciInclusion::Always => wire::sectag::SECTAG_SCI_OCTETS,
            SciInclusion::Never | SciInclusion::EndStation => wire::sectag::SECTAG_OCTETS,
        };
        let around = ADDRESSES_OCTETS + tag + ICV_OCTETS;
        let capacity = (settings.mtu + HEADER_OCTETS).saturating_sub(around);
        Self { capacity, fragment, concatenate, longest: SDU_OCTETS, around, sizes: FrameSizes::NONE }
    }

    /// These rules, with every frame padded to one of `sizes`, as far as they fit the MTU of `settings`; if none does, every
    /// SDU is too long. SDUs that do not fit the largest size are fragmented, and those of more fragments than a receiver
    /// puts together are too long.
    #[must_use]
    pub fn padded(self, settings: &Settings, sizes: &FrameSizes) -> Self {
        if sizes.is_none() {
            return self;
        }
        let largest = sizes.largest_within(settings.mtu + HEADER_OCTETS);
        let capacity = largest.map_or(0, |size| size.saturating_sub(self.around));
        let rules = Self { capacity, fragment: true, sizes: *sizes, ..self };
        Self { longest: self.longest.min(rules.longest_of(MOST_FRAGMENTS)), ..rules }
    }

    /// Octets of an SDU, from its destination address, that never has more than `fragments` fragments in padded frames.
    pub const fn longest_of(&self, fragments: usize) -> usize {
        let room = self.room(self.headers(1, true));
        let room = if room < self.longest_segment() { room } else { self.longest_segment() };
        // An SDU that fills up a shared frame can have one fragment more there.
        ADDRESSES_OCTETS + fragments.saturating_sub(self.concatenate as usize) * room
    }

    /// Octets for segments in a frame with this many headers.
    const fn room(&self, headers: usize) -> usize {
        self.capacity.saturating_sub(headers * EXTENSION_OCTETS)
    }

    const fn is_padded(&self) -> bool {
        !self.sizes.is_none()
    }

    /// Number of headers of a frame with this many segments, at least one.
    const fn headers(&self, segments: usize, continues: bool) -> usize {
        match (segments, continues) {
            // One in clear, and one for each segment.
            _ if self.is_padded() => segments + 1,
            (1, continues) => continues as usize,
            (segments, _) => segments - 1,
        }
    }

    /// Octets of the longest segment that a header describes.
    const fn longest_segment(&self) -> usize {
        if self.is_padded() { padded::SEGMENT_OCTETS } else { SEGMENT_OCTETS }
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
        let addresses = *sdu.first_chunk().filter(|_| sdu.len() >= HEADER_OCTETS)?;
        // One that ends within a VLAN tag is none of a class, and takes part in all else.
        let express = Header::parse(sdu).is_ok_and(|header| classes.has_sdu(&header, sdu));
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
    /// Layout of the secure data; `None` for one whole SDU that is not padded.
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
    padding: usize,
}

impl Plan {
    /// Memory for plans of up to `sdus` SDUs under `rules`.
    pub fn new(sdus: usize, rules: &Rules) -> Self {
        // Per SDU: frames that are full but for a header, and one that is not.
        let each = match rules.room(rules.headers(1, true)).min(padded::SEGMENT_OCTETS) {
            0 => 1,
            room => rules.longest / room + 2,
        };
        Self {
            frames: Vec::with_capacity(sdus * each),
            fragments: Vec::with_capacity(sdus * (each + 1)),
            too_long: 0,
            fragmented: 0,
            concatenated: 0,
            padding: 0,
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

    /// Octets of padding in all its frames.
    pub const fn padding(&self) -> usize {
        self.padding
    }

    /// Makes a new plan.
    pub fn make(&mut self, rules: &Rules, sdus: &[Sdu]) {
        self.frames.clear();
        self.fragments.clear();
        (self.too_long, self.fragmented, self.concatenated, self.padding) = (0, 0, 0, 0);
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
            let fits = sdu.octets <= rules.room(rules.headers(1, false)) && (divisible || !rules.is_padded());
            let spans = rules.fragment && divisible && rules.room(rules.headers(1, true)) > 0;
            if !fits && !spans {
                self.too_long += 1;
                continue;
            }
            if divisible {
                self.place(rules, &mut open, number, sdu.octets);
            } else {
                self.close(rules, &mut open, false);
                self.place(rules, &mut open, number, sdu.octets);
                self.close(rules, &mut open, false);
            }
        }
        self.close(rules, &mut open, false);
        self.number_chains(first_frame);
    }

    /// Puts one SDU into the open frame, and into further frames if it may be fragmented.
    fn place(&mut self, rules: &Rules, open: &mut OpenFrame, number: usize, octets: usize) {
        if open.count > 0 && !open.takes_whole(rules, octets) {
            // Cut only to fill the frame. The length of a segment behind the first has to fit a header.
            let room = open.room_for_next(rules);
            let longest = rules.longest_segment();
            let cut = rules.fragment && (LEAST_CUT..=longest).contains(&room) && open.count < SEGMENTS;
            if !cut || octets <= room {
                self.close(rules, open, false);
            }
        }
        let mut from = 0;
        while from < octets {
            let length = (octets - from).min(open.room_for_next(rules));
            open.add(rules, length);
            self.fragments.push(Fragment { sdu: number, octets: from..from + length });
            from += length;
            if from < octets {
                self.close(rules, open, true);
            }
        }
        if open.continues && open.count == 1 {
            self.fragmented += 1;
        }
    }

    /// Closes the open frame, if it holds anything, and opens the next.
    fn close(&mut self, rules: &Rules, open: &mut OpenFrame, more: bool) {
        if open.count > 0 {
            let fragments = open.first_fragment..self.fragments.len();
            // A whole SDU alone needs no header.
            let whole = open.count == 1 && !open.continues && !more;
            let padding = open.padding(rules);
            self.padding += padding.map_or(0, usize::from);
            let layout = FrameLayout {
                segments: open.segments,
                chain: u16::from(more),
                padding,
                with_addresses: false,
            };
            let layout = (!whole || padding.is_some()).then_some(layout);
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

    /// Octets that one segment more can have.
    fn room_for_next(&self, rules: &Rules) -> usize {
        let room = rules.room(rules.headers(self.count + 1, self.continues)).saturating_sub(self.filled);
        if rules.is_padded() { room.min(rules.longest_segment()) } else { room }
    }

    /// Octets behind its last segment up to the next size, if frames are padded.
    fn padding(&self, rules: &Rules) -> Option<u16> {
        if !rules.is_padded() {
            return None;
        }
        let headers = rules.headers(self.count, self.continues) * EXTENSION_OCTETS;
        let octets = rules.around + headers + self.filled;
        let size = rules.sizes.smallest_from(octets);
        debug_assert!(size.is_some(), "no frame is filled beyond the largest size");
        Some((size.unwrap_or(octets) - octets) as u16)
    }

    fn takes_whole(&self, rules: &Rules, octets: usize) -> bool {
        let told = self.count == 0 || octets <= rules.longest_segment();
        told && rules.concatenate && self.count < SEGMENTS && octets <= self.room_for_next(rules)
    }

    fn add(&mut self, rules: &Rules, octets: usize) {
        // A frame's capacity, and so any segment, is below 2^16; the caller has checked the room.
        let length = octets as u16;
        if self.count == 0 {
            self.segments = Segments::one(length, self.continues);
        } else {
            let pushed = self.segments.push_up_to(length, rules.longest_segment());
            debug_assert!(pushed.is_ok(), "the caller has looked for room");
        }
        self.count += 1;
        self.filled += octets;
    }
}

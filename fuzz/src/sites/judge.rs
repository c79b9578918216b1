//! Frames, and what has become of them.

use std::collections::{BTreeMap, BTreeSet};

use super::site::{LAN_FRAME, SITES};

/// A frame to be made.
pub(crate) struct Frame {
    pub(crate) from: usize,
    /// A station, or all.
    pub(crate) to: Option<usize>,
    pub(crate) octets: usize,
    pub(crate) tags: usize,
}

/// A frame that went into a site.
#[derive(Debug)]
struct Sent {
    from: usize,
    station: usize,
    /// Sites that it was sent to, and at which it came out.
    to: [bool; SITES],
    delivered: [bool; SITES],
}

/// All that is known of frames.
#[derive(Default)]
pub(crate) struct Judge {
    pn: u32,
    sent: BTreeMap<Vec<u8>, Sent>,
    /// Of a site since its start, or since it took the other one in: stations whose frames came from that one. (at, station, other)
    heard: BTreeSet<(usize, usize, usize)>,
    /// (from, to, identifier)
    identifiers: BTreeSet<(usize, usize, [u8; 6])>,
    /// The last frame that came out of each site.
    pub(crate) last: [Option<Vec<u8>>; SITES],
}

/// The address of a station.
pub(crate) const fn address(station: usize) -> [u8; 6] {
    [2, 0, 0, 0, 7, station as u8]
}

impl Judge {
    /// The octets of a frame, unlike all before.
    pub(crate) fn make(&mut self, frame: &Frame) -> Vec<u8> {
        self.pn += 1;
        let to = frame.to.map_or([0xff; 6], address);
        let tags = [0x81, 0, 0, frame.tags as u8 & 3, 0x88, 0xa8, 0, 6];
        let tags = &tags[..4 * (frame.tags >> 2 & 3).min(2)];
        let mut octets = [&to[..], &address(frame.from), tags, &[0x88, 0xe5, 0x2c, 0]].concat();
        octets.extend(self.pn.to_be_bytes());
        octets.extend(address(frame.from));
        octets.extend([0, 1]);
        let longest = LAN_FRAME + tags.len();
        let pn = self.pn;
        octets.extend((octets.len()..frame.octets % (longest + 1)).map(|octet| (octet as u32 ^ pn) as u8));
        octets
    }

    /// A frame went into a site, and on to these.
    pub(crate) fn entered(&mut self, octets: &[u8], at: usize, frame: &Frame, to: [bool; SITES]) {
        let sent = Sent { from: at, station: frame.from, to, delivered: [false; SITES] };
        assert!(self.sent.insert(octets.to_vec(), sent).is_none(), "a frame that is not new");
    }

    /// A frame for one station goes to one site.
    pub(crate) fn directed(&self, at: usize, frame: &Frame, to: usize) {
        let station = frame.to.expect("a frame for all goes to one site");
        assert!(self.heard.contains(&(at, station, to)), "site {at} sends to {to} what is for {station}");
    }

    /// A packet goes to another site under an identifier.
    pub(crate) fn identified(&mut self, from: usize, to: usize, packet: &[u8]) {
        let identifier = *packet.first_chunk().expect("an identifier");
        assert!(self.identifiers.insert((from, to, identifier)), "an identifier was sent twice");
    }

    /// A frame came out of a site, from this other one.
    pub(crate) fn delivered(&mut self, octets: &[u8], at: usize, from: usize) {
        let sent = self.sent.get_mut(octets).expect("never sent");
        assert_eq!(sent.from, from, "another site sent it");
        assert!(sent.from != at && sent.to[at], "site {at} is a wrong one: {sent:?}");
        assert!(!std::mem::replace(&mut sent.delivered[at], true), "twice at {at}: {sent:?}");
        self.heard.insert((at, sent.station, from));
        self.last[at] = Some(octets.to_vec());
    }

    /// A site begins anew, or takes another one in, and has heard nothing from there.
    pub(crate) fn forget(&mut self, at: usize, other: Option<usize>) {
        self.heard.retain(|(site, _, from)| *site != at || other.is_some_and(|other| other != *from));
    }

    /// The sites that a frame was sent to, and those at which it came out.
    pub(crate) fn fate(&self, octets: &[u8]) -> Option<([bool; SITES], [bool; SITES])> {
        self.sent.get(octets).map(|sent| (sent.to, sent.delivered))
    }
}

//! Frames that go to a peer over all of its paths at once, so that the first copy arrives even if a path loses the other.
//!
//! A site sees stations' frames as MACsec leaves them. What is behind the SecTAG does not say here what a frame is for; its addresses and
//! the VLAN tags in front of the SecTAG do. Frames that the site's own SecY protects bear a mark of what they were.

use secy::ExpressClasses;
use wire::MacAddr;
use wire::tunnel::Flow;

use super::marking::Mark;

/// Group addresses of GOOSE and of sampled values (IEC 61850-8-1, annex B): the first four octets.
const GROUPS: [[u8; 4]; 2] = [[0x01, 0x0c, 0xcd, 0x01], [0x01, 0x0c, 0xcd, 0x04]];

/// Which frames go over all paths of a peer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum Copies {
    /// None: each frame goes over the better path.
    #[default]
    None,
    /// Cyclic frames of cells, GOOSE and sampled values by their destination, and what has a VLAN tag of an express priority
    /// in front of the SecTAG, by the default of `ExpressClasses`. Where the site has a SecY, also what that default says of machines' frames.
    Express,
    /// All.
    All,
}

impl Copies {
    pub(super) fn has(self, flow: &Flow, mark: Mark) -> bool {
        match self {
            Self::None => false,
            Self::Express => mark.is_express() || is_express(flow),
            Self::All => true,
        }
    }
}

/// Whether frames of this flow are express, by what is in front of their SecTAG.
pub(super) fn is_express(flow: &Flow) -> bool {
    let MacAddr(destination) = flow.destination;
    let [_, _, tci, ..] = flow.tags.encode();
    flow.cyclic().is_some()
        || ExpressClasses::DEFAULT.pcps() >> (tci >> 5) & 1 != 0
        || GROUPS.iter().any(|group| destination.starts_with(group))
}

#[cfg(test)]
mod tests {
    use wire::EtherType;
    use wire::tunnel::ParsedFrame;

    use super::*;

    #[test]
    fn a_frame_is_express_by_what_is_in_front_of_its_sectag() {
        const STATION: [u8; 6] = [2, 0, 0, 0, 0, 1];
        let macsec = [0x88, 0xe5, 0x2c, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 1, 0, 1, 9, 9, 9, 9];
        let flow = |destination: [u8; 6], tags: &[u8]| {
            let frame = [&destination[..], &STATION, tags, &macsec].concat();
            ParsedFrame::parse(&frame).expect("a frame").flow
        };
        for (destination, tags, express) in [
            (STATION, &[][..], false),
            ([1, 0x0c, 0xcd, 1, 0, 7], &[], true),
            ([1, 0x0c, 0xcd, 4, 0, 7], &[], true),
            ([1, 0x0c, 0xcd, 2, 0, 7], &[], false),
            (STATION, &[0x81, 0, 0xc0, 5], true),
            (STATION, &[0x81, 0, 0xa0, 5], false),
            (STATION, &[0x81, 0, 0xff, 0xff], true),
        ] {
            let flow = flow(destination, tags);
            assert_eq!(Copies::Express.has(&flow, Mark::default()), express, "{destination:x?} {tags:x?}");
            assert!(Copies::All.has(&flow, Mark::default()) && !Copies::None.has(&flow, Mark(0xff)));
            assert!(Copies::Express.has(&flow, Mark(0x80)));
        }
        let cyclic = [&STATION[..], &STATION, &[0x88, 0xb5], &[0; 40]].concat();
        let cyclic = ParsedFrame::parse_cyclic(&cyclic, EtherType(0x88b5));
        assert!(cyclic.is_ok_and(|cyclic| Copies::Express.has(&cyclic.flow, Mark::default())));
    }
}

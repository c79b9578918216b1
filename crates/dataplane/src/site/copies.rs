//! Frames that go to a peer over all of its paths at once, so that the first copy arrives even if a path loses the other.
//!
//! A site sees stations' frames as MACsec leaves them. What is behind the SecTAG does not say here what a frame is for; its addresses and
//! the VLAN tags in front of the SecTAG do. Frames that the site's own SecY protects bear a mark of what they were.

use secy::ExpressClasses;
use wire::tunnel::Flow;
use wire::{EtherType, MacAddr};

use super::marking::Mark;

/// Group addresses of GOOSE and of sampled values (IEC 61850-8-1, annex B): the first four octets, and the EtherType that stands behind the
/// SecTAG.
const GROUPS: [([u8; 4], EtherType); 2] =
    [([0x01, 0x0c, 0xcd, 0x01], EtherType::GOOSE), ([0x01, 0x0c, 0xcd, 0x04], EtherType::SAMPLED_VALUES)];

/// Which frames go over all paths of a peer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum Copies {
    /// None: each frame goes over the better path.
    #[default]
    None,
    /// Of the site's express classes: cyclic frames of cells, GOOSE and sampled values by their destination, and what has a VLAN tag of an express
    /// priority in front of the SecTAG. Where the site has a SecY, also what the classes say of machines' frames.
    Express,
    /// All.
    All,
}

impl Copies {
    pub(super) fn has(self, flow: &Flow, mark: Mark, classes: &ExpressClasses) -> bool {
        match self {
            Self::None => false,
            Self::Express => mark.is_express() || is_express(flow, classes),
            Self::All => true,
        }
    }
}

/// Whether frames of this flow are express, by what is in front of their SecTAG.
pub(super) fn is_express(flow: &Flow, classes: &ExpressClasses) -> bool {
    let MacAddr(destination) = flow.destination;
    let [_, _, tci, ..] = flow.tags.encode();
    let has = |of: EtherType| classes.ethertypes().contains(&of.0);
    flow.cyclic().is_some_and(has)
        || !flow.tags.is_empty() && classes.pcps() >> (tci >> 5) & 1 != 0
        || GROUPS.iter().any(|(group, of)| destination.starts_with(group) && has(*of))
}

#[cfg(test)]
mod tests {
    use secy::express::ExpressClass::{self, Pcp};
    use wire::tunnel::ParsedFrame;

    use super::*;

    const STATION: [u8; 6] = [2, 0, 0, 0, 0, 1];

    fn classes(of: &[ExpressClass]) -> ExpressClasses {
        of.iter().fold(ExpressClasses::NONE, |classes, class| classes.with(*class).expect("room"))
    }

    #[test]
    fn a_frame_is_express_by_what_is_in_front_of_its_sectag() {
        let macsec = [0x88, 0xe5, 0x2c, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 1, 0, 1, 9, 9, 9, 9];
        let flow = |destination: [u8; 6], tags: &[u8]| {
            let frame = [&destination[..], &STATION, tags, &macsec].concat();
            ParsedFrame::parse(&frame).expect("a frame").flow
        };
        let default = ExpressClasses::DEFAULT;
        let others = classes(&[Pcp(0), Pcp(5), ExpressClass::EtherType(EtherType::SAMPLED_VALUES)]);
        // By default, by other classes.
        for (destination, tags, by_default, by_others) in [
            (STATION, &[][..], false, false),
            ([1, 0x0c, 0xcd, 1, 0, 7], &[], true, false),
            ([1, 0x0c, 0xcd, 4, 0, 7], &[], true, true),
            ([1, 0x0c, 0xcd, 2, 0, 7], &[], false, false),
            (STATION, &[0x81, 0, 0xc0, 5], true, false),
            (STATION, &[0x81, 0, 0xa0, 5], false, true),
            (STATION, &[0x81, 0, 0xff, 0xff], true, false),
            (STATION, &[0x81, 0, 0x00, 5], false, true),
            // The outermost tag counts.
            (STATION, &[0x88, 0xa8, 0x20, 5, 0x81, 0, 0xa0, 5], false, false),
        ] {
            let flow = flow(destination, tags);
            let (copies, unmarked) = (Copies::Express, Mark::default());
            assert_eq!(copies.has(&flow, unmarked, &default), by_default, "{destination:x?} {tags:x?}");
            assert_eq!(copies.has(&flow, unmarked, &others), by_others, "{destination:x?} {tags:x?}");
            assert!(!copies.has(&flow, unmarked, &ExpressClasses::NONE));
            assert!(Copies::All.has(&flow, unmarked, &ExpressClasses::NONE));
            assert!(!Copies::None.has(&flow, Mark(0xff), &default));
            assert!(copies.has(&flow, Mark(0x80), &ExpressClasses::NONE));
        }
    }

    #[test]
    fn cyclic_frames_are_express_where_their_ethertype_is_a_class() {
        let frame = [&STATION[..], &STATION, &[0x88, 0xb5], &[0; 40]].concat();
        let flow = ParsedFrame::parse_cyclic(&frame, EtherType(0x88b5)).expect("a frame").flow;
        for (ethertype, express) in [(0x88b5, true), (0x88b6, false)] {
            let classes = classes(&[ExpressClass::EtherType(EtherType(ethertype))]);
            assert_eq!(Copies::Express.has(&flow, Mark::default(), &classes), express, "{ethertype:x}");
        }
    }
}

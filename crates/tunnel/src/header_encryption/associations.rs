//! SAs with their PN windows in an epoch.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use wire::tunnel::{OuterTags, ParsedFrame};
use wire::{An, Sci};

use super::window::{PnWindow, region};

/// Most SAs of one direction and epoch. A sender with one more begins another epoch, so that a receiver with
/// the same limit never overflows; about 800 octets each.
pub(crate) const ASSOCIATIONS: usize = 512;

/// Most SAs of flows that the peer has not acknowledged. The rest has room for known flows, however many new
/// ones come.
pub(crate) const NEWCOMERS: usize = ASSOCIATIONS / 2;

/// Standing of an SA's flow, which decides its share of the room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    /// The peer knows the flow.
    Known,
    /// The peer does not know the flow yet.
    Newcomer,
}

/// An SA and a region of its PNs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Association {
    sci: Sci,
    tags: OuterTags,
    an: An,
    region: u8,
}

impl Association {
    /// The association of a frame; `None` without SCI. What one station sends behind different VLAN tags may be of SecYs with the same
    /// SCI.
    pub(crate) fn of(taken: &ParsedFrame) -> Option<Self> {
        Some(Self::new(taken.flow.sci()?, taken.flow.tags, taken.fields.an(), taken.fields.pn))
    }

    /// The association of this PN.
    pub(crate) const fn new(sci: Sci, tags: OuterTags, an: An, pn: u32) -> Self {
        Self { sci, tags, an, region: region(pn) }
    }
}

/// Windows of the SAs of an epoch. An SA stays until the epoch ends, even if its flows are withdrawn:
/// otherwise recorded packets could be delivered again.
#[derive(Debug)]
pub(crate) struct Associations {
    /// Sorted, with the index into `windows`: chosen SCIs cannot slow the search.
    order: Vec<(Association, u16)>,
    windows: Box<[PnWindow]>,
    /// Number that were newcomers when opened.
    newcomers: usize,
}

impl Associations {
    /// Room for [`ASSOCIATIONS`]; all memory that is ever used.
    pub(crate) fn new() -> Self {
        Self {
            order: Vec::with_capacity(ASSOCIATIONS),
            windows: vec![PnWindow::new(); ASSOCIATIONS].into_boxed_slice(),
            newcomers: 0,
        }
    }

    /// Removes all of them.
    pub(crate) fn clear(&mut self) {
        self.order.clear();
        self.newcomers = 0;
    }

    /// True if there is no room for one more.
    pub(crate) fn is_full(&self, standing: Standing) -> bool {
        self.order.len() == ASSOCIATIONS || standing == Standing::Newcomer && self.newcomers == NEWCOMERS
    }

    /// Window of an SA, if it was used in this epoch. At most ten comparisons.
    pub(crate) fn window(&mut self, of: Association) -> Option<&mut PnWindow> {
        let place = self.order.binary_search_by_key(&of, |&(association, _)| association).ok()?;
        self.windows.get_mut(usize::from(self.order[place].1))
    }

    /// Window of an SA, with its number in the epoch, from 0. Opens a window at the first use. `None` if
    /// there is no room. At most ten comparisons, and one move of all entries per SA and epoch.
    pub(crate) fn find_or_open(
        &mut self,
        of: Association,
        standing: Standing,
    ) -> Option<(u16, &mut PnWindow)> {
        let number = match self.order.binary_search_by_key(&of, |&(association, _)| association) {
            Ok(place) => self.order[place].1,
            Err(_) if self.is_full(standing) => return None,
            Err(place) => {
                let free = self.order.len() as u16;
                self.order.insert(place, (of, free));
                self.newcomers += usize::from(standing == Standing::Newcomer);
                self.windows[usize::from(free)] = PnWindow::new();
                free
            }
        };
        Some((number, self.windows.get_mut(usize::from(number))?))
    }
}

#[cfg(test)]
mod tests {
    use super::super::window::FragmentKind::Whole;
    use super::super::window::Freshness::{New, Seen};
    use super::Standing::{Known, Newcomer};
    use super::*;

    fn association(number: u16) -> Association {
        let [high, low] = (number / 4).to_be_bytes();
        // Neither in the order of their SCIs nor in that of their ANs.
        let sci = Sci::from_octets([low.reverse_bits(), high, 0, 0, 0, 0, 0, 1]);
        Association::new(sci, OuterTags::default(), An::from_tci(number as u8), 1)
    }

    #[test]
    fn each_sa_has_a_window_of_its_own_until_the_epoch_goes() {
        let mut associations = Associations::new();
        for round in 0..2 {
            for number in 0..ASSOCIATIONS as u16 {
                assert!(!associations.is_full(Known) && associations.window(association(number)).is_none());
                let opened = associations.find_or_open(association(number), Known);
                let (place, window) = opened.expect("room");
                assert_eq!(place, number);
                assert_eq!(window.commit(u32::from(number), Whole), New, "round {round}");
            }
            assert!(associations.is_full(Known));
            assert!(associations.find_or_open(association(ASSOCIATIONS as u16), Known).is_none());
            for number in 0..ASSOCIATIONS as u16 {
                let window = associations.window(association(number)).expect("opened");
                assert_eq!(window.classify(u32::from(number), Whole), Seen);
                let (place, window) = associations.find_or_open(association(number), Known).expect("there");
                assert_eq!((place, window.classify(u32::from(number), Whole)), (number, Seen));
            }
            associations.clear();
        }
    }

    #[test]
    fn half_of_the_room_is_for_known_flows() {
        let mut associations = Associations::new();
        for _ in 0..2 {
            let (mut opened, mut refused) = (0, 0);
            for number in 0..2 * ASSOCIATIONS as u16 {
                match associations.find_or_open(association(number), Newcomer) {
                    Some(_) => opened += 1,
                    None => refused += 1,
                }
            }
            assert_eq!((opened, refused), (NEWCOMERS, 2 * ASSOCIATIONS - NEWCOMERS));
            assert!(associations.is_full(Newcomer) && !associations.is_full(Known));
            assert!(associations.find_or_open(association(0), Newcomer).is_some(), "it was there");
            for number in 2 * ASSOCIATIONS..3 * ASSOCIATIONS - NEWCOMERS {
                assert!(associations.find_or_open(association(number as u16), Known).is_some());
            }
            assert!(associations.is_full(Known));
            associations.clear();
        }
    }
}

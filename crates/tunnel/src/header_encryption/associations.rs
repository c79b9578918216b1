//! The SAs whose PNs are kept in an epoch.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use wire::{An, Sci};

use super::window::{PnWindow, region};

/// SAs of one direction and epoch. A sender that meets one more begins another epoch, so that a receiver, which has
/// room for as many, does not; about 800 octets each.
pub(crate) const ASSOCIATIONS: usize = 512;

/// SAs of flows that the peer has not acknowledged yet: the rest has room for those of known flows, however many new
/// ones come.
pub(crate) const NEWCOMERS: usize = ASSOCIATIONS / 2;

/// Whose SA it is, and so how much room there is for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    /// Of a flow that the peer knows.
    Known,
    /// Of a flow that it does not know yet.
    Newcomer,
}

/// Which SA, and which region of its PNs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Association {
    sci: Sci,
    an: An,
    region: u8,
}

impl Association {
    /// The one that this PN belongs to.
    pub(crate) const fn new(sci: Sci, an: An, pn: u32) -> Self {
        Self { sci, an, region: region(pn) }
    }
}

/// A window for each SA of an epoch. An SA stays until the epoch goes, also if its flows are withdrawn: else what was
/// recorded of it could be delivered again.
#[derive(Debug)]
pub(crate) struct Associations {
    /// Sorted: who chooses SCIs cannot make the search slow. Where in `windows`.
    order: Vec<(Association, u16)>,
    windows: Box<[PnWindow]>,
    /// How many were newcomers when they were opened.
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

    /// Forgets all of them.
    pub(crate) fn clear(&mut self) {
        self.order.clear();
        self.newcomers = 0;
    }

    /// Whether there is no room for one more.
    pub(crate) fn is_full(&self, standing: Standing) -> bool {
        self.order.len() == ASSOCIATIONS || standing == Standing::Newcomer && self.newcomers == NEWCOMERS
    }

    /// The window of an SA, if it was used in this epoch. Looks at ten SAs at most.
    pub(crate) fn window(&mut self, of: Association) -> Option<&mut PnWindow> {
        let place = self.order.binary_search_by_key(&of, |&(association, _)| association).ok()?;
        self.windows.get_mut(usize::from(self.order[place].1))
    }

    /// The window of an SA, and its number among those of the epoch, from 0; a new window if it is used for the first time. `None` if there is no room. Looks at ten SAs at most, and moves as many entries as
    /// there are once an SA and epoch.
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
        Association::new(sci, An::from_tci(number as u8), 1)
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

//! So many a second, and no more.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Addresses that are told apart in a second.
const ADDRESSES: usize = 1024;

/// What is left of this second.
#[derive(Debug)]
pub(super) struct Allowance {
    most: u32,
    used: u32,
    since: Instant,
}

impl Allowance {
    pub(super) fn new(most: u32) -> Self {
        Self { most, used: 0, since: Instant::now() }
    }

    /// Whether one more is allowed.
    pub(super) fn take(&mut self) -> bool {
        if self.since.elapsed() >= Duration::from_secs(1) {
            *self = Self::new(self.most);
        }
        self.used = self.used.saturating_add(1);
        self.used <= self.most
    }
}

/// So many a second for each address, as long as those are few, and so many for all others together: a flood from some
/// addresses keeps nobody out who has another, and one from forged addresses is bounded in all.
#[derive(Debug)]
pub(super) struct AllowanceByAddress {
    each: u32,
    used: BTreeMap<IpAddr, u32>,
    others: Allowance,
    since: Instant,
}

impl AllowanceByAddress {
    pub(super) fn new(each: u32, others: u32) -> Self {
        Self { each, used: BTreeMap::new(), others: Allowance::new(others), since: Instant::now() }
    }

    /// Whether one more is allowed from this address.
    pub(super) fn take(&mut self, from: IpAddr) -> bool {
        if self.since.elapsed() >= Duration::from_secs(1) {
            self.used.clear();
            self.since = Instant::now();
        }
        if self.used.len() == ADDRESSES && !self.used.contains_key(&from) {
            return self.others.take();
        }
        let used = self.used.entry(from).or_default();
        *used = used.saturating_add(1);
        *used <= self.each
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn a_flood_from_one_address_keeps_no_other_out() {
        let mut allowance = AllowanceByAddress::new(10, 5);
        let (loud, quiet) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        assert_eq!((0..1000).filter(|_| allowance.take(loud)).count(), 10);
        assert!(allowance.take(quiet));
    }

    #[test]
    fn a_flood_from_all_addresses_is_bounded() {
        let mut allowance = AllowanceByAddress::new(10, 5);
        let all = (0..1_u32 << 17).map(|number| IpAddr::V4(Ipv4Addr::from(number)));
        let taken = all.filter(|from| allowance.take(*from)).count();
        // A second may pass in between, or some.
        assert!((ADDRESSES + 5..20 * (ADDRESSES + 5)).contains(&taken), "{taken}");
        assert!(allowance.used.len() <= ADDRESSES);
    }
}

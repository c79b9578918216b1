//! A token bucket for each address, as long as those are few, and one for all others together: a flood from some addresses keeps nobody
//! out who has another, and one from forged addresses is bounded in all.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use wire::time::{Instant, TokenBucket};

/// Addresses that have a bucket of their own. One whose bucket is full again gives way to another address.
const ADDRESSES: usize = 1024;
/// Minimum spacing between two searches for full buckets.
const SEARCH: Duration = Duration::from_secs(1);

/// The buckets.
#[derive(Debug)]
pub(super) struct AddressBuckets {
    /// A new one for an address.
    each: TokenBucket,
    buckets: BTreeMap<IpAddr, TokenBucket>,
    others: TokenBucket,
    searched: Instant,
}

impl AddressBuckets {
    /// Buckets with `each` a second for an address, and `others` a second for all others together.
    pub(super) const fn new(each: u32, others: u32) -> Self {
        Self {
            each: TokenBucket::per_second(each),
            buckets: BTreeMap::new(),
            others: TokenBucket::per_second(others),
            searched: Instant::START,
        }
    }

    /// Whether one more is allowed from this address.
    pub(super) fn take(&mut self, now: Instant, from: IpAddr) -> bool {
        if let Some(bucket) = self.buckets.get_mut(&from) {
            return bucket.take(now);
        }
        if self.buckets.len() == ADDRESSES && now.since(self.searched) >= SEARCH {
            self.buckets.retain(|_, bucket| !bucket.is_full(now));
            self.searched = now;
        }
        if self.buckets.len() == ADDRESSES {
            return self.others.take(now);
        }
        self.buckets.entry(from).or_insert(self.each).take(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn at(milliseconds: u64) -> Instant {
        Instant::after_start(Duration::from_millis(milliseconds))
    }

    #[test]
    fn a_flood_from_one_address_keeps_no_other_out() {
        let mut buckets = AddressBuckets::new(10, 5);
        let (loud, quiet) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        assert_eq!((0..1000).filter(|_| buckets.take(at(0), loud)).count(), 10);
        assert!(buckets.take(at(0), quiet));
    }

    #[test]
    fn no_edge_between_two_seconds_lets_twice_the_rate_pass() {
        let mut buckets = AddressBuckets::new(10, 5);
        let loud = IpAddr::from([192, 0, 2, 1]);
        let mut taken = |now| (0..100).filter(|_| buckets.take(at(now), loud)).count();
        assert_eq!((taken(999), taken(1000), taken(1099)), (10, 0, 1));
    }

    #[test]
    fn a_flood_from_all_addresses_is_bounded() {
        let mut buckets = AddressBuckets::new(10, 5);
        let all = || (0..1_u32 << 17).map(|number| IpAddr::V4(Ipv4Addr::from(number)));
        assert_eq!(all().filter(|from| buckets.take(at(0), *from)).count(), ADDRESSES + 5);
        assert_eq!(buckets.buckets.len(), ADDRESSES);
        // Those who were silent meanwhile give way.
        let late = all().skip(ADDRESSES).filter(|from| buckets.take(at(2000), *from)).count();
        assert_eq!(late, ADDRESSES + 5);
        assert_eq!(buckets.buckets.len(), ADDRESSES);
    }
}

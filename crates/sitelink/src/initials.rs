//! Rate limit of Initials. Each costs some ten microseconds, and a handshake three of them: a hello is two packets long, and the
//! answer is acknowledged.
//!
//! A sender that does not know the site's public key has none of them ([`super::socket`]). One that knows it, or has recorded an
//! Initial of one that does, can send them in the name of anybody. Therefore each address has a share of its own, that of a peer a
//! larger one. An Initial with a token has another share than one without: only a receiver at that address can have a token.

use std::collections::BTreeMap;
use std::net::IpAddr;

use wire::time::{Instant, TokenBucket};

use super::address_buckets::AddressBuckets;

/// From each address, and from all others where there are very many.
const EACH: u32 = 200;
const OTHERS: u32 = 5000;
/// From each address where a peer is.
const OF_PEER: u32 = 400;
/// From all of these: a twelfth of a CPU, and the shares of twenty.
const OF_PEERS: u32 = 8000;

/// The shares of all addresses.
#[derive(Debug)]
pub(super) struct Initials {
    /// Known addresses of the peers, each with the one whose share it has: its own, or for all that a hub relays one of the hub.
    pub(super) peers: BTreeMap<IpAddr, IpAddr>,
    strangers: AddressBuckets,
    /// Without a token, and with one.
    known: [(AddressBuckets, TokenBucket); 2],
}

impl Initials {
    pub(super) fn new() -> Self {
        let known = || (AddressBuckets::new(OF_PEER, OF_PEER), TokenBucket::per_second(OF_PEERS));
        Self {
            peers: BTreeMap::new(),
            strangers: AddressBuckets::new(EACH, OTHERS),
            known: [known(), known()],
        }
    }

    /// Whether this one is looked at.
    pub(super) fn take(&mut self, now: Instant, from: IpAddr, initial: &[u8]) -> bool {
        let Some(share) = self.peers.get(&from) else { return self.strangers.take(now, from) };
        let (each, all) = &mut self.known[usize::from(has_token(initial))];
        each.take(now, *share) && all.take(now)
    }
}

/// Whether there is a token (RFC 9000, 17.2.2): behind first octet, version and both connection IDs its length is not 0.
fn has_token(initial: &[u8]) -> bool {
    let mut at = 5;
    for _ in 0..2 {
        let Some(length) = initial.get(at) else { return false };
        at += 1 + usize::from(*length);
    }
    initial.get(at).is_some_and(|length| *length != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn initial(token: u8) -> Vec<u8> {
        let mut octets = vec![0xc0, 0, 0, 0, 1, 8];
        octets.extend([7; 8]);
        octets.push(3);
        octets.extend([9; 3]);
        octets.push(token);
        octets.resize(1200, 5);
        octets
    }

    const NOW: Instant = Instant::START;

    #[test]
    fn a_flood_in_the_name_of_a_peer_takes_its_share_and_no_other_peers() {
        let [loud, quiet] = [1, 2].map(|last| IpAddr::from([192, 0, 2, last]));
        let mut initials = Initials::new();
        initials.peers = [loud, quiet].map(|ip| (ip, ip)).into();
        let taken = (0..16_000).filter(|_| initials.take(NOW, loud, &initial(0))).count();
        assert_eq!(taken, OF_PEER as usize);
        assert!(initials.take(NOW, quiet, &initial(0)), "another peer");
        assert!(initials.take(NOW, loud, &initial(16)), "who receives there, and has a token");
    }

    #[test]
    fn a_flood_in_the_name_of_all_peers_is_bounded() {
        let mut initials = Initials::new();
        let peers = || (0..255).map(|last| IpAddr::from([192, 0, 2, last]));
        initials.peers = peers().map(|ip| (ip, ip)).collect();
        let octets = initial(0);
        let taken = (0..1000).flat_map(|_| peers()).filter(|peer| initials.take(NOW, *peer, &octets)).count();
        assert_eq!(taken, OF_PEERS as usize);
    }

    #[test]
    fn a_flood_of_a_hub_in_the_name_of_all_behind_it_takes_one_share() {
        let mut initials = Initials::new();
        let (hub, direct) = (IpAddr::from([0, 1, 0, 0]), IpAddr::from([192, 0, 2, 1]));
        let relayed = || (1..=250).map(|last| IpAddr::from([0, 1, 0, last]));
        initials.peers = relayed().map(|ip| (ip, hub)).chain([(direct, direct)]).collect();
        let octets = initial(0);
        let taken = (0..100).flat_map(|_| relayed()).filter(|ip| initials.take(NOW, *ip, &octets)).count();
        assert_eq!(taken, OF_PEER as usize);
        assert!(initials.take(NOW, direct, &octets), "a peer that needs no hub");
    }

    #[test]
    fn tokens_are_seen_behind_both_ids() {
        let whole = initial(0);
        assert!(!has_token(&whole) && has_token(&initial(1)) && has_token(&initial(0x40)));
        assert!((0..whole.len()).all(|octets| !has_token(&whole[..octets])), "cut off");
    }
}

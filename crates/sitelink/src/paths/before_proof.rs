//! Where packets go on a new connection, until one of its paths is proved.

use std::net::SocketAddr;

use dataplane::site::{PATHS, Place};
use netdev::udp::Source;

use super::super::status::canonical;

/// Where a connection was made that has come from this address: the known place there; of an address that is new, by each path's way
/// out of this box, as nobody knows by which the peer is reached.
pub(super) fn made_at(address: SocketAddr, known: &[Option<Place>; PATHS], sources: &[Source]) -> Vec<Place> {
    let there = |place: &&Place| canonical(place.to) == canonical(address);
    if let Some(place) = known.iter().flatten().find(there) {
        return vec![Place { to: address, source: place.source }];
    }
    let mut places = Vec::new();
    for source in sources.iter().filter(|source| reaches(source, address)) {
        let place = Place { to: address, source: *source };
        if !places.contains(&place) {
            places.push(place);
        }
    }
    if places.is_empty() {
        places.push(Place { to: address, source: Source::default() });
    }
    places
}

/// Whether packets from there can have this destination: both are of one IP version.
pub(in super::super) fn reaches(source: &Source, address: SocketAddr) -> bool {
    source.address.is_none_or(|own| own.to_canonical().is_ipv4() == canonical(address).is_ipv4())
}

/// Where data goes, and over which of these places if it goes over one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BeforeProof {
    pub(super) places: [Option<Place>; PATHS],
    pub(super) preferred: u8,
}

/// The places of the connection before, each at its path's number, and in free numbers those where this one was made. `is_sure`: these
/// are preferred.
pub(super) fn places_before_proof(
    kept: [Option<Place>; PATHS],
    made: &[Place],
    preferred: u8,
    is_sure: bool,
) -> BeforeProof {
    let (mut places, mut first) = (kept, None);
    for place in made {
        let place = Place { to: canonical(place.to), source: place.source };
        let known = places.iter().position(|known| *known == Some(place));
        let number = known.or_else(|| places.iter().position(Option::is_none));
        // Of four paths in use one gives way for where the peer is now.
        let number = number.or(if first.is_none() { Some(PATHS - 1) } else { None });
        if let Some(number) = number {
            places[number] = Some(place);
            first = first.or(Some(number as u8));
        }
    }
    let stays = !is_sure && places.get(usize::from(preferred)).is_some_and(Option::is_some);
    let preferred = if stays { preferred } else { first.unwrap_or(preferred) };
    BeforeProof { places, preferred }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(to: &str, interface: u32) -> Place {
        Place { to: to.parse().expect("an address"), source: Source { address: None, interface } }
    }

    #[test]
    fn an_address_is_reached_as_before_or_by_each_way_out() {
        let known = [Some(place("192.0.2.1:7", 1)), Some(place("198.51.100.1:7", 2)), None, None];
        let ways = [1, 2, 2].map(|interface| Source { address: None, interface });
        let six = Source { address: Some("2001:db8::1".parse().expect("an address")), interface: 0 };
        let there = "[::ffff:198.51.100.1]:7".parse().expect("an address");
        assert_eq!(made_at(there, &known, &ways), [place("[::ffff:198.51.100.1]:7", 2)]);
        let new = "203.0.113.1:7".parse().expect("an address");
        let ways = [&ways[..], &[six]].concat();
        assert_eq!(made_at(new, &known, &ways), [place("203.0.113.1:7", 1), place("203.0.113.1:7", 2)]);
        assert_eq!(made_at(new, &known, &[six]), [place("203.0.113.1:7", 0)]);
    }

    #[test]
    fn places_of_before_stay_beside_the_new_one() {
        let (one, two, new) =
            (place("192.0.2.1:7", 1), place("198.51.100.1:7", 2), place("203.0.113.1:7", 2));
        let kept = [Some(one), Some(two), None, None];
        let of = |kept, made: &[Place], is_sure| {
            let BeforeProof { places, preferred } = places_before_proof(kept, made, 0, is_sure);
            (places, preferred)
        };
        assert_eq!(of([None; PATHS], &[new], true), ([Some(new), None, None, None], 0));
        assert_eq!(of(kept, &[new], true), ([Some(one), Some(two), Some(new), None], 2));
        assert_eq!(of(kept, &[two], true), (kept, 1));
        assert_eq!(of(kept, &[one, two], false), (kept, 0), "nobody knows by which it has called");
        assert_eq!(of([None, Some(two), None, None], &[two], false).1, 1, "one that is there is preferred");
        let full = [Some(one), Some(two), Some(one), Some(two)];
        assert_eq!(of(full, &[new], true), ([Some(one), Some(two), Some(one), Some(new)], 3));
    }
}

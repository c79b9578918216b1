//! The print of a state: equal for states that behave alike.
//!
//! It is made of what the objects say of themselves (`Debug`). Times count from now, and an age beyond [`OLDEST`] is one age. MIs
//! and keys count by their first appearance, MNs from the newest one of their MI. Records of sent MKPDUs count as long as a KaY heeds them.

use std::collections::HashMap;
use std::hash::{Hash as _, Hasher};

use suite::{CipherSuite, Sak};
use wire::mkpdu::{DistributedSak, Mkpdu, ParameterSet};
use wire::{Ckn, Instant};

use super::secy::Begun;
use super::station::cak;

/// An age beyond which no timer looks, in microseconds: but those between SAKs for a member that strays, which are kept apart.
const OLDEST: i64 = 25_000_000;
/// The same for records of sent MKPDUs: the schedule's window, and what is recent.
const SENT: i64 = 1_000_000;
const SAMPLES: i64 = 6_500_000;

/// A part of what an object says.
#[derive(Clone, Copy, Debug)]
pub(super) enum Token {
    /// Text between the others.
    Text(u64),
    Time(u64),
    /// A time that counts if it is at most so old, in microseconds.
    Recent(u64, i64),
    Mi(u64),
    /// A key, or the octets that it is wrapped in.
    Key(u64),
    /// Number of a message of this MI.
    Mn(u64, u32),
    /// The same with a time, which counts for a while.
    Sample(u64, u64, u32),
}

impl Token {
    /// A moment.
    pub(super) fn at(at: Instant) -> Self {
        Self::Time(microseconds(at))
    }
}

/// Microseconds of a moment.
pub(super) fn microseconds(at: Instant) -> u64 {
    u64::try_from(at.since(Instant::START).as_micros()).expect("invariant: a model runs for minutes")
}

fn mi_of(octets: &[u8]) -> u64 {
    octets.iter().take(8).fold(0, |sum, octet| sum << 8 | u64::from(*octet))
}

fn digest(text: &str) -> u64 {
    // FNV-1a: fast for short texts.
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |sum, octet| (sum ^ u64::from(octet)).wrapping_mul(0x0100_0000_01b3))
}

fn number_at(text: &str) -> (u64, usize) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    (text[..end].parse().unwrap_or(0), end)
}

/// The tokens of an object's text.
pub(super) fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    // The latest MI, and that of the participant.
    let (mut mi, mut own) = (0, 0);
    let (mut in_sent, mut in_samples) = (false, false);
    let (mut rest, mut begin) = (text, 0);
    while begin < rest.len() {
        let here = rest.get(begin..).unwrap_or_default();
        let marks = [
            "Mi([",
            "Instant(",
            "mn: ",
            "last: ",
            "sent: [",
            "samples: [",
            "Participant {",
            "wrapped: WrappedSak { octets: [",
            "]",
        ];
        let may_begin = b"MImlsPw]".contains(&rest.as_bytes()[begin]);
        let Some(mark) = marks.iter().filter(|_| may_begin).find(|mark| here.starts_with(**mark)) else {
            begin += 1;
            continue;
        };
        let before = &rest[..begin];
        tokens.push(Token::Text(digest(before)));
        let mut behind = &here[mark.len()..];
        match *mark {
            "Mi([" => {
                let end = behind.find(']').unwrap_or(0);
                let octets: Vec<u8> =
                    behind[..end].split(", ").filter_map(|octet| octet.parse().ok()).collect();
                mi = mi_of(&octets);
                if own == 0 {
                    own = mi;
                }
                tokens.push(Token::Mi(mi));
                behind = &behind[end + 1..];
            }
            "Instant(" => {
                let (at, end) = number_at(behind);
                behind = &behind[end..];
                if in_samples {
                    let pair = behind.strip_prefix("), ").unwrap_or(behind);
                    let (mn, end) = number_at(pair);
                    tokens.push(Token::Sample(own, at, mn as u32));
                    behind = &pair[end..];
                } else if in_sent && behind.starts_with("), ") {
                    tokens.push(Token::Recent(at, SENT));
                    behind = behind.trim_start_matches("), ");
                } else {
                    tokens.push(Token::Time(at));
                }
            }
            "mn: " => {
                let (mn, end) = number_at(behind);
                let of = if before.ends_with("heard_") { own } else { mi };
                tokens.push(Token::Mn(of, mn as u32));
                behind = &behind[end..];
            }
            "last: " if behind.starts_with(|c: char| c.is_ascii_digit()) => {
                let (mn, end) = number_at(behind);
                tokens.push(Token::Mn(own, mn as u32));
                behind = &behind[end..];
            }
            "sent: [" => in_sent = true,
            "samples: [" => in_samples = true,
            "Participant {" => own = 0,
            "wrapped: WrappedSak { octets: [" => {
                let end = behind.find(']').unwrap_or(0);
                let octets: Vec<u8> =
                    behind[..end].split(", ").filter_map(|octet| octet.parse().ok()).collect();
                tokens.push(wrapped(&octets));
                behind = &behind[end..];
            }
            _ => (in_sent, in_samples) = (false, false),
        }
        (rest, begin) = (behind, 0);
    }
    tokens.push(Token::Text(digest(rest)));
    tokens
}

/// Digest of a SAK.
pub(super) fn key(sak: &Sak) -> u64 {
    digest(&format!("{:?}", sak.octets()))
}

/// Wrapped octets of a SAK; a KaY's have zeros behind them.
fn wrapped(octets: &[u8]) -> Token {
    let length = octets.iter().rposition(|octet| *octet != 0).map_or(0, |last| last + 1);
    Token::Key(digest(&format!("{:?}", &octets[..length])))
}

/// The SAK that an MKPDU under this CKN hands out.
fn unwrapped(ckn: Ckn, sak: &DistributedSak<'_>) -> Option<Sak> {
    let entry = cak(*ckn.octets().first()?);
    let suite = sak.suite.map_or(Some(CipherSuite::GcmAes128), CipherSuite::from_identifier)?;
    entry.cak.kek(&entry.ckn).unwrap(suite, sak.wrapped).ok()
}

/// The tokens of SAKs that stations began with. The order is that of each station, not that among stations.
pub(super) fn begun_tokens(begun: &[Begun]) -> Vec<Token> {
    let mut begun: Vec<&Begun> = begun.iter().collect();
    begun.sort_by_key(|begun| begun.sci);
    let tokens = begun.into_iter().flat_map(|Begun { sci, ki, key, sscis }| {
        let text = digest(&format!("{sci:?}{}{sscis:?}", ki.kn));
        [Token::Text(text), Token::Mi(mi_of(&ki.server.0)), Token::Key(*key)]
    });
    tokens.collect()
}

/// The tokens of an MKPDU.
pub(super) fn frame_tokens(frame: &[u8]) -> Vec<Token> {
    let Ok(mkpdu) = Mkpdu::parse(frame) else { return vec![Token::Text(digest(&format!("{frame:?}")))] };
    let mut all = tokens(&format!("{:?}", mkpdu.basic));
    for set in mkpdu.sets() {
        match set {
            ParameterSet::LivePeers { peers, .. } | ParameterSet::PotentialPeers(peers) => {
                all.push(Token::Text(u64::from(matches!(set, ParameterSet::LivePeers { .. }))));
                for peer in peers.iter() {
                    let mi = mi_of(&peer.mi.0);
                    all.extend([Token::Mi(mi), Token::Mn(mi, peer.mn)]);
                }
            }
            ParameterSet::DistributedSak(Some(sak)) => {
                let DistributedSak { an, confidentiality, kn, suite, .. } = sak;
                all.push(Token::Text(digest(&format!("{an:?}{confidentiality:?}{kn}{suite:?}"))));
                all.push(wrapped(sak.wrapped));
                all.extend(unwrapped(mkpdu.basic.ckn, &sak).map(|sak| Token::Key(key(&sak))));
            }
            set => all.extend(tokens(&format!("{set:?}"))),
        }
    }
    all
}

/// Hashes token lists together; each with its station's present moment.
pub(super) fn hash<'t>(
    lists: impl Iterator<Item = (Instant, &'t [Token])> + Clone,
    hasher: &mut impl Hasher,
) {
    let mut newest: HashMap<u64, u32> = HashMap::new();
    for token in lists.clone().flat_map(|(_, list)| list) {
        if let Token::Mn(mi, mn) | Token::Sample(mi, _, mn) = *token {
            let newest = newest.entry(mi).or_default();
            *newest = (*newest).max(mn);
        }
    }
    let mut names: HashMap<u64, usize> = HashMap::new();
    for (now, list) in lists {
        let now = microseconds(now) as i64;
        let age = |at: u64| (now - at as i64).min(OLDEST);
        for token in list {
            match *token {
                Token::Text(digest) => digest.hash(hasher),
                Token::Time(at) => age(at).hash(hasher),
                Token::Recent(at, until) => {
                    if age(at) <= until {
                        age(at).hash(hasher);
                    }
                }
                Token::Mi(name) | Token::Key(name) => {
                    let next = names.len();
                    names.entry(name).or_insert(next).hash(hasher);
                }
                Token::Mn(mi, mn) => (newest[&mi] - mn).hash(hasher),
                Token::Sample(mi, at, mn) => {
                    if age(at) <= SAMPLES {
                        (age(at), newest[&mi] - mn).hash(hasher);
                    }
                }
            }
        }
        list.len().min(1).hash(hasher);
    }
}

#[cfg(test)]
mod tests {
    use std::hash::DefaultHasher;

    use wire::{Ki, MacAddr, Mi, Sci};

    use super::*;

    fn print(lists: &[Vec<Token>]) -> u64 {
        let mut hasher = DefaultHasher::new();
        hash(lists.iter().map(|list| (Instant::START, &list[..])), &mut hasher);
        hasher.finish()
    }

    fn of_wrapped(octets: [u8; 3]) -> Vec<Token> {
        tokens(&format!(
            "Ki {{ server: Mi([7, 7]), kn: 1 }}, wrapped: WrappedSak {{ octets: {octets:?}, length: 2 }}"
        ))
    }

    #[test]
    fn two_keys_under_one_name_are_two_and_which_ones_does_not_matter() {
        let (one, other) = (of_wrapped([1, 2, 0]), of_wrapped([1, 3, 0]));
        assert_ne!(print(&[one.clone(), one.clone()]), print(&[one.clone(), other.clone()]));
        assert_eq!(print(&[one.clone(), other.clone()]), print(&[other.clone(), one]));
    }

    #[test]
    fn saks_that_stations_began_with_count_and_their_order_among_stations_does_not() {
        let begun = |station: u8, mi: u8, key: u64| Begun {
            sci: Sci::new(MacAddr([2, 0, 0, 0, 0, station]), 1),
            ki: Ki { server: Mi([mi; 12]), kn: 1 },
            key,
            sscis: [].into(),
        };
        let of = |all: &[Begun]| print(&[begun_tokens(all)]);
        assert_ne!(of(&[begun(1, 1, 10)]), of(&[begun(1, 1, 10), begun(1, 2, 11)]));
        assert_ne!(of(&[begun(1, 1, 10), begun(1, 1, 10)]), of(&[begun(1, 1, 10), begun(1, 1, 11)]));
        assert_ne!(of(&[begun(1, 1, 10), begun(1, 1, 10)]), of(&[begun(1, 1, 10), begun(1, 2, 10)]));
        assert_eq!(of(&[begun(1, 1, 10), begun(2, 1, 10)]), of(&[begun(2, 3, 12), begun(1, 3, 12)]));
    }
}

//! What a gateway reads of a directory, and an operator of a gateway or of his audit log: whatever octets come, reading them ends, and what is
//! read encodes to itself. The first octet says what the others are taken for.

use fleet::audit::{Line, Log};
use fleet::directory::Address;
use fleet::{
    Bundle, Code, Enrolled, Files, GatewayName, HEARTBEAT_OCTETS, Heartbeat, HeartbeatRefusal, Known,
    MOST_PARTS, MOST_PEERS, Outcome, Part, PartKind, PartLevel, Parts, Peers, PublicIdentity, RECORD_OCTETS,
    REQUEST_OCTETS, Record, Request,
};
use suite::identity::{Identity, PublicKey};

/// Reads `octets` as a record, its files, a public identity, an address, a request, a bundle, the memory of one, a code, a heartbeat or an
/// audit log.
///
/// # Panics
/// If a parser is wrong.
pub fn run(octets: &[u8]) {
    let Some((what, octets)) = octets.split_first() else { return };
    let text = std::str::from_utf8(octets).ok();
    match what % 10 {
        0 => {
            if let Ok(record) = Record::parse(octets) {
                assert!(octets.len() <= RECORD_OCTETS);
                assert_eq!(record.encode(), octets);
                assert!(!record.is_signed_by(PublicKey([1; 32])), "a key that nobody has");
            }
        }
        1 => {
            if let Some(files) = Files::parse(octets) {
                assert_eq!(*files.encode(), octets);
            }
        }
        2 => {
            if let Some(identity) = text.and_then(|text| text.parse::<PublicIdentity>().ok()) {
                assert_eq!(identity.to_string().parse(), Ok(identity));
            }
        }
        4 => {
            if let Ok(request) = Request::parse(octets) {
                assert!(octets.len() <= REQUEST_OCTETS);
                assert_eq!(request.encode(), octets);
                assert!(!request.has_token(PublicKey([1; 32])), "a token that nobody has");
            }
        }
        5 => {
            if let Some(bundle) = text.and_then(|text| Bundle::parse(text).ok()) {
                assert_eq!(Bundle::parse(&bundle.text()).as_ref(), Ok(&bundle));
            }
        }
        6 => {
            if let Some(used) = Enrolled::parse(octets) {
                assert_eq!(used.encode(), octets);
            }
        }
        7 => {
            if let Some(code) = text.and_then(|text| text.parse::<Code>().ok()) {
                assert_eq!(code.to_string().parse(), Ok(code));
            }
        }
        8 => heartbeat(octets),
        9 => audit(octets),
        _ => {
            if let Some(address) = text.and_then(|text| text.parse::<Address>().ok()) {
                assert!(!address.to_string().is_empty());
            }
        }
    }
}

/// A log that chains goes on, and chains still. One that verifies has lines of one encoding alone, but for those that were cut off.
fn audit(octets: &[u8]) {
    let Ok(log) = Log::parse(octets) else { return };
    let next = log.appended(Line::default(), None).expect("invariant: no token signs");
    let longer = [octets, next.as_slice()].concat();
    let next = Log::parse(&longer).map(|longer| longer.count());
    assert_eq!(next, Ok(log.count() + 1));
    if let Ok(verified) = Log::verify(octets) {
        assert!(verified.open().count() as u64 <= verified.count());
        assert_eq!(Log::verify(&longer).map(|longer| longer.cut_off().count()), Ok(log.cut_off().count()));
    }
}

/// The octets as they come, and what a gateway signs that says this: it is believed once it is newer than what was seen, and never as
/// another one's.
fn heartbeat(octets: &[u8]) {
    let now = 1_800_000_000;
    let press = GatewayName::new("press").expect("invariant: a name");
    let identity = Identity::new(&[7; 32]);
    let known = Known { fleet: PublicKey([1; 32]), gateway: &press, member: identity.public() };
    if let Ok(read) = Heartbeat::verify(octets, known, None, now) {
        assert!(octets.len() <= HEARTBEAT_OCTETS);
        assert_eq!(read.sign(&identity), octets);
    }
    let Some((numbers, words)) = octets.split_first_chunk::<25>() else { return };
    let number = |at: usize| u64::from_be_bytes(*numbers[at..].first_chunk().expect("invariant: 25 octets"));
    let outcomes = [Outcome::Waits, Outcome::Confirmed, Outcome::TakenBack, Outcome::Refused];
    let said = Heartbeat {
        fleet: known.fleet,
        gateway: press.clone(),
        member: known.member,
        counter: number(0),
        time: number(8),
        in_use: Some(number(16)).filter(|version| *version != 0),
        outcome: outcomes[usize::from(numbers[24] % 4)],
        why: String::from_utf8_lossy(words).into_owned(),
        unused: (numbers[24] & 8 != 0).then_some(number(8)),
        parts: (numbers[24] & 4 != 0).then(|| parts(words)),
    };
    let signed = said.sign(&identity);
    assert!(signed.len() <= HEARTBEAT_OCTETS, "{} octets", signed.len());
    let Ok(believed) = Heartbeat::verify(&signed, known, None, now) else { return };
    assert!(!believed.why.chars().any(char::is_control));
    let told = believed.parts.iter().flat_map(Parts::told);
    assert!(
        told.clone().count() <= MOST_PARTS && told.clone().is_sorted_by(|one, next| one.level >= next.level)
    );
    let peers = told.clone().filter_map(|part| part.peers.as_ref());
    let names = peers.flat_map(|peers| peers.secured().iter().chain(peers.absent()));
    assert!(names.clone().count() <= MOST_PEERS && names.clone().all(|name| config::is_name(name)));
    assert!(!told.flat_map(|part| part.name.chars().chain(part.state.chars())).any(char::is_control));
    assert_eq!(Heartbeat::verify(&signed, known, Some(&believed), now), Ok(believed.clone()));
    let newer = Heartbeat { counter: believed.counter.saturating_add(1), ..believed.clone() };
    if newer.counter > believed.counter {
        let (counter, seen) = (believed.counter, newer.counter);
        let older = Heartbeat::verify(&signed, known, Some(&newer), now);
        assert_eq!(older, Err(HeartbeatRefusal::Older { counter, seen }));
    }
    let forged = said.sign(&Identity::new(&[8; 32]));
    assert_eq!(Heartbeat::verify(&forged, known, None, now), Err(HeartbeatRefusal::NotSigned));
}

/// Parts of any names and states: the octets between two line ends are one.
fn parts(octets: &[u8]) -> Parts {
    let kinds = [PartKind::Link, PartKind::Site, PartKind::Cell];
    let levels = [PartLevel::Good, PartLevel::Idle, PartLevel::Attention, PartLevel::Alarm];
    let part = |line: &[u8]| {
        let (first, rest) = line.split_first().unwrap_or((&0, &[]));
        let (name, state) = rest.split_at(rest.len() / 2);
        let text = |octets| String::from_utf8_lossy(octets).into_owned();
        let (kind, level) = (kinds[usize::from(first % 3)], levels[usize::from(first / 3 % 4)]);
        let lines = rest.split(|octet| *octet == b',').map(|name| std::str::from_utf8(name).ok());
        let named = lines.clone().flatten();
        let peers = (first & 64 != 0).then(|| Peers::new(lines, named));
        Part { kind, name: text(name), level, state: text(state), peers }
    };
    Parts::new(octets.split(|octet| *octet == b'\n').map(part).collect())
}

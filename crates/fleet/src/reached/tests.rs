use super::*;
use crate::files::{FileName, Files};
use crate::member::PublicIdentity;
use crate::name::GatewayName;
use crate::operator::{Draft, Operator};
use crate::record::{Kind, MalformedRecord, RECORD_OCTETS, Record, Validity};
use proptest::prelude::*;
use suite::identity::Identity;
use testkit::TestDirectory;
use zeroize::Zeroizing;

const NOW: u64 = 1_800_000_000;
const VALID: Validity = Validity { from: NOW - 10, until: NOW + 1000 };

fn operator(seed: u8) -> Operator {
    Operator::new(Identity::new(&[seed; 32]))
}

fn name(text: &str) -> GatewayName {
    GatewayName::new(text).unwrap()
}

fn files(key: &[u8]) -> Files {
    let mut files = Files::default();
    for (name, content) in [(FileName::CONFIGURATION, &b"[gateway]"[..]), ("press.cak", key)] {
        files.insert(FileName::new(name).unwrap(), Zeroizing::new(content.to_vec())).unwrap();
    }
    files
}

/// Gateway "press", of the operator with seed 1.
fn press(directory: &Path) -> Acceptor {
    let member =
        Member { fleet: operator(1).fleet(), name: name("press"), identity: Identity::new(&[7; 32]) };
    Acceptor::open(member, directory).unwrap()
}

/// A record for the gateway `to` with the identity of this seed.
fn publish(operator: &Operator, to: &str, seed: u8, version: u64, validity: Validity) -> Vec<u8> {
    let member = PublicIdentity::of(&Identity::new(&[seed; 32]));
    let draft = Draft {
        gateway: &name(to),
        member: &member,
        kind: Kind::Configuration,
        files: &files(b"secret key"),
    };
    operator.publish(draft, version, validity).unwrap()
}

fn refusal(acceptor: &mut Acceptor, record: &[u8], now: u64) -> String {
    match acceptor.accept(record, now) {
        Ok(accepted) => {
            format!("accepted {} {}", accepted.version, if accepted.is_new { "new" } else { "again" })
        }
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_record_is_accepted_with_its_files_and_each_other_is_refused_for_its_reason() {
    let directory = TestDirectory::new("fleet-accept");
    let mut press = press(directory.path());
    let (ours, theirs) = (operator(1), operator(2));
    let third = publish(&ours, "press", 7, 3, VALID);
    let accepted = press.accept(&third, NOW).unwrap();
    assert_eq!((accepted.version, accepted.is_new), (3, true));
    assert_eq!(accepted.files, files(b"secret key"));
    assert_eq!(accepted.files.configuration(), Some(&b"[gateway]"[..]));
    let far = Validity { from: NOW + 200, until: NOW + 300 };
    let rows = [
        (third.clone(), "accepted 3 again"),
        (publish(&ours, "press", 7, 3, VALID), "the record is another one than that of the same version 3"),
        (publish(&ours, "press", 7, 2, VALID), "the record has version 2, and version 3 was accepted before"),
        (publish(&theirs, "press", 7, 4, VALID), "the record belongs to the fleet of operator"),
        (publish(&ours, "crane", 7, 4, VALID), "the record is for gateway crane: somebody"),
        (publish(&ours, "press", 8, 4, VALID), "the record is for the identity"),
        (publish(&ours, "press", 7, 4, far), "the record is valid in 3 minutes by this box's clock"),
        (publish(&ours, "press", 7, 4, Validity { until: NOW, ..VALID }), "the record ended 0 seconds ago"),
        (
            publish(&ours, "press", 7, 4, Validity { until: NOW - 86_400 * 3, from: 0 }),
            "the record ended 3 days ago",
        ),
        (third[..third.len() - 1].to_vec(), "the record is no record of a fleet, or damaged"),
        ([&third[..], &[0]].concat(), "the record is no record of a fleet, or damaged"),
        (vec![0; RECORD_OCTETS + 1], "the record is longer than a record can be"),
        (vec![], "the record is no record of a fleet, or damaged"),
    ];
    for (record, expected) in rows {
        let told = refusal(&mut press, &record, NOW);
        assert!(told.starts_with(expected), "{expected}: {told}");
    }
    assert_eq!(press.version(), Some(3), "nothing of these was remembered");
    assert_eq!(
        refusal(&mut press, &publish(&ours, "press", 7, u64::MAX, VALID), NOW),
        format!("accepted {} new", u64::MAX)
    );
}

/// The sealed part of one record under the head of another: version, gateway, fleet and recipient are bound to it, even
/// if the operator's own key signs the mixture.
#[test]
fn files_open_under_their_own_head_alone() {
    let directory = TestDirectory::new("fleet-mix");
    let mut press = press(directory.path());
    let ours = operator(1);
    let (old, new) = (publish(&ours, "press", 7, 1, VALID), publish(&ours, "press", 7, 2, VALID));
    let (old, new) = (Record::parse(&old).unwrap(), Record::parse(&new).unwrap());
    let body = crate::record::body(new.header(), old.sealed());
    let signature = Identity::new(&[1; 32]).sign(crate::record::SIGNED, &body);
    let mixed = crate::record::signed(&body, &signature);
    assert!(matches!(press.accept(&mixed, NOW), Err(AcceptError::Refused(Refusal::NotSealed))));
    // Unmixed, the same signature is taken.
    let body = crate::record::body(new.header(), new.sealed());
    let signature = Identity::new(&[1; 32]).sign(crate::record::SIGNED, &body);
    assert!(press.accept(&crate::record::signed(&body, &signature), NOW).is_ok());
}

#[test]
fn what_was_accepted_is_remembered_and_damage_is_no_beginning() {
    let directory = TestDirectory::new("fleet-reached");
    let ours = operator(1);
    let (first, second) = (publish(&ours, "press", 7, 1, VALID), publish(&ours, "press", 7, 2, VALID));
    press(directory.path()).accept(&second, NOW).unwrap();
    let mut again = press(directory.path());
    assert!(
        refusal(&mut again, &first, NOW).starts_with("the record has version 1"),
        "played back after a restart"
    );
    assert_eq!(refusal(&mut again, &second, NOW), "accepted 2 again");
    // Another gateway or fleet on the same box begins by itself.
    let member =
        Member { fleet: operator(2).fleet(), name: name("press"), identity: Identity::new(&[7; 32]) };
    let mut other = Acceptor::open(member, directory.path()).unwrap();
    assert_eq!(refusal(&mut other, &publish(&operator(2), "press", 7, 1, VALID), NOW), "accepted 1 new");

    // One at a time; then the next.
    let member = || Member { fleet: ours.fleet(), name: name("press"), identity: Identity::new(&[7; 32]) };
    assert!(matches!(Acceptor::open(member(), directory.path()), Err(AcceptError::InUse { .. })));
    let file = directory.path().join(&again.file);
    drop(again);
    let whole = std::fs::read(&file).unwrap();
    for octet in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[octet] ^= 1;
        std::fs::write(&file, damaged).unwrap();
        let member = Member { fleet: ours.fleet(), name: name("press"), identity: Identity::new(&[7; 32]) };
        assert!(
            matches!(Acceptor::open(member, directory.path()), Err(AcceptError::Damaged { .. })),
            "octet {octet}"
        );
    }
}

#[test]
fn what_cannot_be_remembered_is_not_accepted() {
    let directory = TestDirectory::new("fleet-disk");
    let mut press = press(directory.path());
    // In the way of the file that is written first.
    let next = directory.path().join(format!("{}.new", press.file));
    std::fs::create_dir(&next).unwrap();
    let record = publish(&operator(1), "press", 7, 1, VALID);
    assert!(matches!(press.accept(&record, NOW), Err(AcceptError::Disk { .. })));
    assert_eq!(press.version(), None);
    std::fs::remove_dir(&next).unwrap();
    assert_eq!(refusal(&mut press, &record, NOW), "accepted 1 new");
}

#[test]
fn an_operator_knows_what_is_published() {
    let ours = operator(1);
    let octets = publish(&ours, "press", 7, 1, VALID);
    let record = Record::parse(&octets).unwrap();
    assert_eq!(record.encode(), octets);
    assert!(ours.has_files(&record, &files(b"secret key")));
    assert!(!ours.has_files(&record, &files(b"another key")));
    assert!(!operator(2).has_files(&record, &files(b"secret key")));
    // Nothing of the files is in clear.
    let needle = b"secret key";
    assert!(!octets.windows(needle.len()).any(|window| window == needle));
}

#[test]
fn another_release_is_told_from_damage() {
    let octets = publish(&operator(1), "press", 7, 1, VALID);
    // array, octets of a length of two octets, map of 10, key 0: the format follows.
    let at = 1 + 3 + 1 + 1;
    assert_eq!(&octets[at - 2..=at], [0xaa, 0, 1]);
    let mut newer = octets;
    newer[at] = 2;
    assert_eq!(Record::parse(&newer), Err(MalformedRecord::Unknown));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// However records come, and whenever the box restarts: accepted versions only rise, and a changed octet is never accepted.
    #[test]
    fn versions_only_rise(
        steps in proptest::collection::vec((1..6_u64, any::<bool>(), proptest::option::of((any::<proptest::sample::Index>(), 0..8_u8))), 1..12),
    ) {
        let directory = TestDirectory::new("fleet-rise");
        let ours = operator(1);
        let records: Vec<_> = (1..6).map(|version| publish(&ours, "press", 7, version, VALID)).collect();
        let mut acceptor = press(directory.path());
        let mut newest = 0;
        for (version, restart, flip) in steps {
            if restart {
                drop(acceptor);
                acceptor = press(directory.path());
            }
            let mut record = records[usize::try_from(version).unwrap() - 1].clone();
            if let Some((at, bit)) = flip {
                let at = at.index(record.len());
                record[at] ^= 1 << bit;
            }
            let accepted = acceptor.accept(&record, NOW).is_ok();
            prop_assert_eq!(accepted, flip.is_none() && version >= newest);
            if accepted {
                newest = version;
            }
        }
    }

    #[test]
    fn whatever_octets_come_reading_ends(octets in proptest::collection::vec(any::<u8>(), 0..400)) {
        if let Ok(record) = Record::parse(&octets) {
            prop_assert_eq!(record.encode(), octets);
        }
    }
}

/// The box's own configuration may have changed between two programs of one process.
#[test]
fn a_lock_of_another_place_is_none() {
    let directory = TestDirectory::new("fleet-other-lock");
    let member =
        || Member { fleet: operator(1).fleet(), name: name("press"), identity: Identity::new(&[7; 32]) };
    let (here, there) = (directory.path().join("here"), directory.path().join("there"));
    let first = press(&here);
    let passed = || first.lock().try_clone().unwrap();
    drop(Acceptor::go_on(member(), &here, passed()).unwrap());
    let other = Acceptor::go_on(member(), &there, passed()).unwrap();
    assert!(matches!(Acceptor::open(member(), &there), Err(AcceptError::InUse { .. })));
    drop(other);
    assert!(Acceptor::open(member(), &there).is_ok());
}

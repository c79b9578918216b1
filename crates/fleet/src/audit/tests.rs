use std::fs;

use proptest::prelude::*;
use suite::identity::Identity;
use testkit::TestDirectory;

use super::*;
use crate::directory::{Address, audit_key};

fn operator(seed: u8) -> Operator {
    Operator::new(Identity::new(&[seed; 32]))
}

fn record(action: &str, outcome: Outcome) -> Line {
    let text = str::to_owned;
    Line {
        time: text("2026-07-14T08:30:00Z"),
        login: text("anna"),
        host: text("controller"),
        action: text(action),
        outcome,
        ..Line::default()
    }
}

/// The log with one more record.
fn with(log: &[u8], record: Line, signer: Option<&Operator>) -> Vec<u8> {
    let appended = Log::parse(log).unwrap().appended(record, signer).unwrap();
    [log, appended.as_slice()].concat()
}

/// Eight lines. The first two and the sixth have no signature, the fourth one was cut off.
fn log() -> Vec<u8> {
    let signer = operator(7);
    let log = with(b"", record("approve", Outcome::Begun), None);
    let log = with(&log, Line { begun: Some(1), ..record("approve", Outcome::Done) }, None);
    let log = with(&log, record("apply", Outcome::Begun), Some(&signer));
    let mut log = with(&log, record("bundle", Outcome::Begun), None);
    log.truncate(log.len() - 30);
    let versions = BTreeMap::from([("press".to_owned(), 1_795_676_400)]);
    let log = with(&log, Line { begun: Some(3), versions, ..record("apply", Outcome::Done) }, Some(&signer));
    let log = with(&log, record("rotate", Outcome::Refused), None);
    let log = with(&log, record("revoke", Outcome::Begun), Some(&signer));
    let reason = "the directory is away \"\u{1b}\n".to_owned();
    with(&log, Line { begun: Some(7), reason, ..record("revoke", Outcome::Failed) }, Some(&signer))
}

fn head(log: &[u8]) -> Head {
    let octets = Log::parse(log).unwrap().head(&operator(7), "controller", "2026-07-14T08:31:00Z").unwrap();
    Head::parse(&octets, operator(7).fleet(), &name(log)).unwrap()
}

fn lines(log: &[u8]) -> Vec<&[u8]> {
    log.split_inclusive(|octet| *octet == b'\n').collect()
}

/// The log with another text in one of its lines.
fn changed(log: &[u8], line: usize, from: &str, to: &str) -> Vec<u8> {
    let mut lines: Vec<_> = lines(log).into_iter().map(<[u8]>::to_vec).collect();
    let text = String::from_utf8(lines[line - 1].clone()).unwrap();
    assert!(text.contains(from), "{text}");
    lines[line - 1] = text.replacen(from, to, 1).into_bytes();
    lines.concat()
}

#[test]
fn the_first_line_that_is_not_as_it_was_is_named() {
    let whole = log();
    let read = Log::verify(&whole).unwrap();
    assert_eq!(read.count(), 8);
    assert_eq!(read.signed(operator(7).fleet()), 8);
    assert_eq!(read.signed(operator(8).fleet()), 0, "another operator signed nothing");
    assert_eq!(read.cut_off().collect::<Vec<_>>(), [4]);
    assert_eq!(read.has(&head(&whole)), Ok(()));
    let ends =
        |at: &[usize]| at.iter().flat_map(|line| lines(&whole)[*line - 1].to_vec()).collect::<Vec<_>>();
    let without_end = whole[..whole.len() - 1].to_vec();
    let garbage = [whole.as_slice(), b"\n"].concat();
    // Who has no key writes the end anew: the chain holds, and the head does not.
    let anew = with(&ends(&[1, 2, 3, 4, 5, 6]), record("revoke", Outcome::Begun), None);
    let anew = with(&anew, record("revoke", Outcome::Done), None);
    for (log, line, broken) in [
        (changed(&whole, 2, "anna", "otto"), 3, Broken::Chain),
        (changed(&whole, 3, "anna", "otto"), 3, Broken::Signature),
        (changed(&whole, 1, "{", "{ "), 2, Broken::Chain),
        (changed(&whole, 4, "anna", "otto"), 5, Broken::Chain),
        (changed(&whole, 8, "{", "{ "), 8, Broken::NoLine),
        (changed(&whole, 8, "}", ",\"more\":1}"), 8, Broken::NoLine),
        (ends(&[2, 3, 4, 5, 6, 7, 8]), 1, Broken::Number(2)),
        (ends(&[1, 3, 4, 5, 6, 7, 8]), 2, Broken::Number(3)),
        (ends(&[1, 2, 3, 4, 6, 5, 7, 8]), 5, Broken::Number(6)),
        (ends(&[1, 2, 1, 3, 4, 5, 6, 7, 8]), 3, Broken::Number(1)),
        (without_end, 8, Broken::CutOff),
        (garbage, 9, Broken::NoLine),
        (ends(&[1, 2, 3, 4, 5, 6]), 7, Broken::Missing(8)),
        (Vec::new(), 1, Broken::Missing(8)),
        (anew, 8, Broken::Other),
    ] {
        let found = Log::verify(&log).and_then(|log| log.has(&head(&whole)));
        assert_eq!(found, Err(Fault { line, broken }), "{}", String::from_utf8_lossy(&log));
    }
}

#[test]
fn what_was_begun_and_has_no_end_is_seen() {
    let whole = log();
    let open = |octets: &[u8]| Log::parse(octets).unwrap().open().map(|line| line.line).collect::<Vec<_>>();
    assert_eq!(open(&whole), [] as [u64; 0]);
    // Cut off in its middle, and gone on.
    let lines = lines(&whole);
    assert_eq!(open(&lines[..7].concat()), [7]);
    assert_eq!(open(&with(&lines[..7].concat(), record("apply", Outcome::Begun), None)), [7, 8]);
}

#[test]
fn a_line_that_was_cut_off_stays_and_the_log_goes_on_behind_it() {
    let place = TestDirectory::new("audit-cut-off");
    let path = place.path().join("controller.audit");
    for line in 1..4 {
        let appended = append(&path, record("apply", Outcome::Begun), None).unwrap();
        assert_eq!(appended, Appended { line, cut_off: None });
    }
    let whole = fs::read(&path).unwrap();
    let last = lines(&whole)[..2].concat().len();
    for cut in [last + 1, last + 40, whole.len() - 2] {
        fs::write(&path, &whole[..cut]).unwrap();
        assert_eq!(
            Log::verify(&whole[..cut]).unwrap_err(),
            Fault { line: 3, broken: Broken::CutOff },
            "until the next command"
        );
        let appended = append(&path, record("revoke", Outcome::Begun), Some(&operator(7))).unwrap();
        assert_eq!(appended, Appended { line: 4, cut_off: Some(3) });
        let octets = fs::read(&path).unwrap();
        assert!(octets.starts_with(&whole[..cut]), "nothing is taken away");
        assert_eq!(Log::verify(&octets).unwrap().cut_off().collect::<Vec<_>>(), [3]);
    }
    // A log that is broken gets no line, and stays as it is.
    let broken = changed(&whole, 1, "anna", "otto");
    fs::write(&path, &broken).unwrap();
    let refused = append(&path, record("apply", Outcome::Begun), None).unwrap_err().to_string();
    assert!(refused.contains("controller.audit:2: does not name the line before it"), "{refused}");
    assert_eq!(fs::read(&path).unwrap(), broken);
    let refused = append(&place.path().join("none/x.audit"), Line::default(), None).unwrap_err().to_string();
    assert!(refused.contains("none/x.audit: ") && refused.contains("; free its disk, or give"), "{refused}");
}

#[test]
fn a_shorter_log_does_not_take_the_place_of_the_head_that_shows_it() {
    let place = TestDirectory::new("audit-head");
    let path = place.path().join("controller.audit");
    let mut directory = Address::File(place.path().join("fleet.redb")).open().unwrap();
    let signer = operator(7);
    for outcome in [Outcome::Begun, Outcome::Done] {
        append(&path, record("apply", outcome), Some(&signer)).unwrap();
    }
    let mut put = || put_head(&mut *directory, &signer, &path, "controller", "2026-07-14T08:31:00Z");
    put().unwrap();
    let whole = fs::read(&path).unwrap();
    // The last line is cut off, and the operator goes on without knowing.
    fs::write(&path, lines(&whole)[0]).unwrap();
    let refused = put().unwrap_err().to_string();
    assert!(refused.contains(":2: is missing: the directory has the signed head of line 2"), "{refused}");
    append(&path, record("revoke", Outcome::Begun), Some(&signer)).unwrap();
    append(&path, record("revoke", Outcome::Done), Some(&signer)).unwrap();
    let refused = put().unwrap_err().to_string();
    assert!(refused.contains(":2: is not the one that the directory has the signed head of"), "{refused}");
    // A copy that is whole is put there.
    fs::write(&path, &whole).unwrap();
    append(&path, record("revoke", Outcome::Begun), Some(&signer)).unwrap();
    put().unwrap();
    let (fleet, name) = (signer.fleet(), name(&whole));
    let value = directory.get(&audit_key(fleet, &name)).unwrap().unwrap().value;
    assert_eq!(Head::parse(&value, fleet, &name).unwrap().line, 3);
    assert_eq!(Head::parse(&value, operator(8).fleet(), &name), None, "of another fleet");
    assert_eq!(Head::parse(&value, fleet, &name.replace(char::is_numeric, "a")), None, "of another log");
    for at in 0..value.len() {
        let mut changed = value.clone();
        changed[at] ^= 1;
        assert_eq!(Head::parse(&changed, fleet, &name), None, "octet {at}");
    }
}

proptest! {
    /// Against the head, which nobody else can sign.
    #[test]
    fn whatever_is_changed_removed_inserted_or_exchanged_in_a_log_is_found(
        kind in 0..7,
        at in any::<prop::sample::Index>(),
        other in any::<prop::sample::Index>(),
        octet in 1_u8..,
    ) {
        let whole = log();
        let (mut octets, mut lines) = (whole.clone(), lines(&whole));
        let (line, place) = (at.index(lines.len()), other.index(lines.len()));
        match kind {
            0 => octets[at.index(whole.len())] ^= octet,
            1 => _ = octets.remove(at.index(whole.len())),
            2 => octets.insert(at.index(whole.len() + 1), octet),
            3 => octets.truncate(at.index(whole.len())),
            4 => _ = lines.remove(line),
            5 => lines.insert(place, lines[line]),
            _ => lines.swap(line, place),
        }
        let changed = if kind < 4 { octets } else { lines.concat() };
        prop_assume!(changed != whole);
        let found = Log::verify(&changed).and_then(|log| log.has(&head(&whole)));
        prop_assert!(found.is_err());
    }
}

use std::sync::mpsc;

use tracing::{debug, error, info, warn};

use time::OffsetDateTime;

use super::*;

/// Collects what is written.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Write for Kept {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(octets);
        Ok(octets.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Text that a log of this format writes of the events of `work`.
fn written(format: LogFormat, is_journal: bool, work: impl FnOnce()) -> String {
    let kept = Kept::default();
    let log = Log::to(kept.clone(), is_journal).unwrap();
    log.set_format(format);
    with_default(log.subscriber(), work);
    log.flush();
    let octets = kept.0.lock().unwrap().clone();
    String::from_utf8(octets).unwrap()
}

fn some() {
    let (link, name) = ("press", "stranger-under-cak");
    warn!(event = name, link, count = 7_u64, "{name}: somebody \"speaks\"\nhere");
    info!(event = "site-peer", site = "dresden", peer = "berlin", "connected");
    error!(event = "cell-silent", cell = "cell-4", "no frame");
    debug!(event = "nothing", "is not taken");
    info!(target: "quinn", event = "nothing", "is not ours");
    let span = tracing::info_span!("a span");
    let _entered = span.enter();
}

#[test]
fn text_has_the_level_the_subjects_and_the_words() {
    assert_eq!(
        written(LogFormat::Text, false, some),
        "frameward: warning: link \"press\": stranger-under-cak: somebody \"speaks\"; here\n\
         frameward: site \"dresden\": peer \"berlin\": connected\n\
         frameward: error: fieldbus \"cell-4\": no frame\n"
    );
}

#[test]
fn json_is_an_object_a_line() {
    let text = written(LogFormat::Json, false, some);
    let mut objects: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let now = OffsetDateTime::from(SystemTime::now()).year().to_string();
    for object in &mut objects {
        let time = object.as_object_mut().unwrap().remove("time").unwrap();
        let time = time.as_str().unwrap();
        // RFC 3339, in UTC, with milliseconds.
        let shape: String = time.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        assert_eq!(shape, "0000-00-00T00:00:00.000Z");
        assert!(time.starts_with(&now), "{time}");
    }
    assert_eq!(
        objects,
        [
            serde_json::json!({
                "level": "warning", "event": "stranger-under-cak", "link": "press", "count": 7,
                "message": "somebody \"speaks\"; here",
            }),
            serde_json::json!({
                "level": "info", "event": "site-peer", "site": "dresden", "peer": "berlin", "message": "connected",
            }),
            serde_json::json!({
                "level": "error", "event": "cell-silent", "cell": "cell-4", "message": "no frame",
            }),
        ]
    );
    assert!(text.starts_with("{\"time\":\""), "the time comes first: {text}");
}

#[test]
fn the_journal_gets_each_lines_level() {
    let begin = |format| {
        let text = written(format, true, some);
        text.lines().map(|line| line[..4].to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(begin(LogFormat::Text), ["<4>f", "<6>f", "<3>f"]);
    assert_eq!(begin(LogFormat::Json), ["<4>{", "<6>{", "<3>{"]);
    let stderr = std::fs::metadata("/proc/self/fd/2").unwrap();
    assert!(is_journal(Some(&format!("{}:{}", stderr.dev(), stderr.ino()))));
    for other in [None, Some(""), Some("1:1"), Some(&*format!("{}:{}", stderr.dev(), stderr.ino() + 1))] {
        assert!(!is_journal(other), "{other:?}");
    }
}

#[test]
fn the_last_words_are_those_of_any_command() {
    let last = |format, is_journal| {
        let kept = Kept::default();
        let log = Log::to(kept.clone(), is_journal).unwrap();
        log.set_format(format);
        log.last_words("frameward: ", &"no room; make some\nand more");
        let octets = kept.0.lock().unwrap().clone();
        String::from_utf8(octets).unwrap()
    };
    assert_eq!(last(LogFormat::Text, false), "frameward: no room; make some\nand more\n");
    assert_eq!(last(LogFormat::Text, true), "<3>frameward: no room; make some\n<3>and more\n");
    let object: serde_json::Value = serde_json::from_str(&last(LogFormat::Json, false)).unwrap();
    assert_eq!((&object["event"], &object["level"]), (&"gateway-failed".into(), &"error".into()));
}

#[test]
fn lines_that_are_lost_are_counted_in_the_same_format() {
    /// Writes nothing before it may.
    struct Held(mpsc::Receiver<()>, Kept);
    impl Write for Held {
        fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            self.1.write(octets)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let (go, held) = mpsc::channel();
    let kept = Kept::default();
    let log = Log::to(Held(held, kept.clone()), false).unwrap();
    log.set_format(LogFormat::Json);
    with_default(log.subscriber(), || {
        (0..3000_u64).for_each(|number| info!(event = "number", number, "a number"));
        drop(go);
        log.flush();
        info!(event = "last", "the last one");
    });
    log.flush();
    let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
    let objects: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [.., gap, last] = objects.as_slice() else { panic!("{text}") };
    assert_eq!((&gap["event"], &last["event"]), (&"lines-lost".into(), &"last".into()));
}

#[test]
fn who_asked_for_it_hears_what_was_logged() {
    let kept = Kept::default();
    let log = Log::to(kept.clone(), false).unwrap();
    let ((), lines) =
        with_default(log.subscriber(), || heard(|| warn!(event = "one", link = "press", "a word")));
    assert_eq!(lines, ["warning: link \"press\": a word"]);
    let ((), lines) = with_default(log.subscriber(), || heard_alone(|| info!(event = "two", "another")));
    assert_eq!(lines, ["another"]);
    log.flush();
    assert_eq!(kept.0.lock().unwrap().as_slice(), b"frameward: warning: link \"press\": a word\n");
}

/// Every name of an event stands in the first column of a table of the book.
#[test]
fn names_of_events_are_documented() {
    use std::collections::BTreeSet;
    use std::path::Path;

    fn names(directory: &Path, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                names(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs")
                && !path.ends_with("log/tests.rs")
            {
                let text = std::fs::read_to_string(&path).unwrap();
                for begin in ["event = \"", "event: \"", "Level::ERROR, \"", "Level::WARN, \""] {
                    let after = text.split(begin).skip(1).filter_map(|rest| rest.split_once('"'));
                    found.extend(after.map(|(name, _)| name.to_owned()));
                }
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut used = BTreeSet::new();
    names(&root.join("src"), &mut used);
    used.extend(report::site::site_verdict::SiteEvent::ALL.map(|event| event.name().to_owned()));
    assert!(used.len() > 40, "{used:?}");
    let page = std::fs::read_to_string(root.join("../../docs/book/src/watching.md")).unwrap();
    let documented: BTreeSet<String> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('|').next())
        .flat_map(|names| names.split('`').step_by(2))
        .map(str::to_owned)
        .collect();
    let missing: Vec<_> = used.difference(&documented).collect();
    assert!(missing.is_empty(), "not in docs/book/src/watching.md: {missing:?}");
}

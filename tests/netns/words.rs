//! Verdicts of a gateway on a link follow from what was verified lately: each state, its cause and its cure, in a
//! laboratory with static keys and in one where keys are agreed on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use frameward::keygen::{self, KeyLength};
use lab::topology::{LEFT, PLAIN, RIGHT};
use lab::{Machine, Namespace, PacketSocket, Shape, Topology};
use perf::demo::pair::{Choice, Scratch, Station};
use serde_json::Value;

use super::http::{HTTP, get};
use super::mka::{Group, LINE, all, secured_with, stop, third};
use super::reload::reloaded;
use super::{DEADLINE, EXPERIMENT, lab, marked, program};

/// Longer than a silence has to last before it is told.
const PATIENCE: Duration = Duration::from_secs(90);

/// A gateway's first word about its link.
fn verdict(scratch: &Scratch, gateway: &str) -> Value {
    let document = report::ask(&scratch.path().join("run"), gateway).unwrap();
    let report: Value = serde_json::from_str(&document).unwrap();
    report["links"][0]["verdict"].clone()
}

/// Waits until a gateway says of its link that it is in this state, with these words, and returns the sentence.
fn says(scratch: &Scratch, gateway: &str, state: &str, words: &[&str]) -> String {
    let end = Instant::now() + PATIENCE;
    loop {
        let verdict = verdict(scratch, gateway);
        let text = verdict["text"].as_str().unwrap_or_default();
        if verdict["state"] == state && words.iter().all(|word| text.contains(word)) {
            return text.to_owned();
        }
        assert!(Instant::now() < end, "{gateway}: {verdict} instead of {state} with {words:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Ten frames a second each way while `work` is done.
fn while_they_send(topology: &Topology, work: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    let send = |from: &Machine, to: &Machine| {
        let sender = PacketSocket::open(&from.namespace, from.ifname).unwrap();
        let frame = marked(to.mac, from.mac, EXPERIMENT, 100, 1);
        while !stop.load(Ordering::Relaxed) {
            // A link that is down takes none.
            let _ = sender.send(&frame);
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    let (a, b) = (&topology.machine_a, &topology.machine_b);
    std::thread::scope(|scope| {
        scope.spawn(|| send(a, b));
        scope.spawn(|| send(b, a));
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        stop.store(true, Ordering::Relaxed);
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

/// Drops what comes into the middle at one of its ports, or no longer.
fn deaf(middle: &Namespace, port: &str, on: bool) {
    deaf_to(middle, port, "", on);
}

/// The same of frames that match.
fn deaf_to(middle: &Namespace, port: &str, frames: &str, on: bool) {
    if !on {
        middle.run(&["nft", "delete table bridge deaf"]).unwrap();
        return;
    }
    for command in [
        "add table bridge deaf",
        "add chain bridge deaf ears { type filter hook forward priority 0 ; }",
        &format!("add rule bridge deaf ears iifname \"{port}\" {frames} drop"),
    ] {
        middle.run(&["nft", command]).unwrap();
    }
}

/// Static keys: what B says while A or the network is not as it should be, and that it is well again afterwards.
#[test]
fn a_link_with_static_keys_says_what_is_wrong() {
    let choice = Choice { gateway: HTTP, ..Choice::default() };
    let (topology, pair) = lab(&Shape::default(), &choice);
    let scratch = &pair.scratch;
    let file = scratch.path().join("b.toml");
    let good = std::fs::read_to_string(&file).unwrap();
    let other = keygen::static_key(KeyLength::Bits128, &scratch.path().join("other.key")).unwrap();
    let shown = pair.b.report().unwrap().links[0].secy.receive[0].sas[0].key.clone();
    says(scratch, "b", "idle", &["nothing"]);
    while_they_send(&topology, || {
        says(scratch, "b", "protecting", &["valid frames come"]);
        let (own, peer) = good.split_once("[[link.static.peer]]").unwrap();
        let with = |text: String| {
            std::fs::write(&file, text).unwrap();
            reloaded(scratch, "b");
        };
        let changed =
            |from: &str, to: &str| with(format!("{own}[[link.static.peer]]{}", peer.replace(from, to)));
        changed("a.key", "other.key");
        let text = says(scratch, "b", "keys differ", &["compare", "fingerprint"]);
        let report = pair.b.report().unwrap();
        assert!(text.contains(&report.links[0].secy.receive[0].sas[0].key), "{text}");
        // An alarm as soon as what is sent is not answered.
        let end = Instant::now() + PATIENCE;
        let lines = [
            "frameward_link_protecting{link=\"press\"} 0",
            "frameward_link_verdict{link=\"press\",state=\"keys differ\"} 3",
        ];
        loop {
            let metrics = get(&topology.gateway_b.namespace, "/metrics");
            if lines.iter().all(|line| metrics.lines().any(|known| known == *line)) {
                break;
            }
            assert!(Instant::now() < end, "{lines:?} are not in {metrics}");
            std::thread::sleep(Duration::from_millis(200));
        }
        assert!(status_text(scratch, "b").contains("  NOT PROTECTING, keys differ: Every frame of 02:"));
        changed("02:00:00:00:00:01/1", "02:00:00:00:00:09/1");
        says(scratch, "b", "sci differs", &["02:00:00:00:00:01/1", "02:00:00:00:00:09/1"]);
        changed("an = 0", "an = 3");
        says(scratch, "b", "an differs", &["AN 0", "AN 3"]);
        with(good.clone());
        says(scratch, "b", "protecting", &[]);

        // The peer sends in clear, and says so itself.
        let of_a = scratch.path().join("a.toml");
        let good_a = std::fs::read_to_string(&of_a).unwrap();
        std::fs::write(&of_a, good_a.replace("suite =", "protect_frames = false\nsuite =")).unwrap();
        reloaded(scratch, "a");
        says(scratch, "b", "clear frames", &["in clear"]);
        says(scratch, "a", "sends in clear", &["protect_frames"]);
        std::fs::write(&of_a, &good_a).unwrap();
        reloaded(scratch, "a");
        says(scratch, "b", "protecting", &[]);

        // One way: B hears nothing of A, A hears B.
        deaf(&topology.middle, LEFT, true);
        says(scratch, "b", "silent", &["last valid frame", " s ago"]);
        assert_eq!(verdict(scratch, "a")["state"], "protecting");
        let shown = status_text(scratch, "b");
        assert!(shown.contains("  ATTENTION, silent: ") && !shown.contains("PROTECTING"), "{shown}");
        // The log waits until it holds, and some seconds behind the line before.
        std::thread::sleep(Duration::from_secs(8));
        deaf(&topology.middle, LEFT, false);
        says(scratch, "b", "protecting", &[]);

        // Cut: no carrier.
        topology.middle.ip(&["link", "set", RIGHT, "down"]).unwrap();
        says(scratch, "b", "cut", &["carrier"]);
        topology.middle.ip(&["link", "set", RIGHT, "up"]).unwrap();
        says(scratch, "b", "protecting", &[]);
    });
    let said = pair.b.stop().unwrap();
    // Log of the changes of each reload, and of the signal that stopped the gateway.
    for words in [
        "gateway b stops: SIGTERM",
        "changed: link \"press\" static peer 02:00:00:00:00:01/1 AN 0 key_file: was \"a.key\", now \"other.key\"",
        &format!("its key's fingerprint: was {shown}, now {other}"),
        "changed: link \"press\" static peer 02:00:00:00:00:01/1 AN 3 an: was not set, now 3",
    ] {
        assert!(said.contains(words), "{words:?} is not in {said}");
    }
    for file in ["a.key", "b.key", "other.key"] {
        let key = std::fs::read_to_string(scratch.path().join(file)).unwrap();
        assert!(!said.contains(key.trim()), "a key is in the log");
    }
    assert!(said.contains("link \"press\": silent: Nothing answers"), "{said}");
    // The peer is gone, and never came since a start.
    pair.a.stop().unwrap();
    let b = Station::start(program(), &topology.gateway_b.namespace, scratch, "b").unwrap();
    while_they_send(&topology, || {
        says(scratch, "b", "peer absent", &["no valid frame has come"]);
    });
    b.stop().unwrap();
}

/// Output of `frameward status`.
fn status_text(scratch: &Scratch, gateway: &str) -> String {
    let variable = format!("FRAMEWARD_RUNTIME_DIR={}", scratch.path().join("run").display());
    let command = ["env", &variable, program().to_str().unwrap(), "status", gateway];
    lab::Program::spawn(&command).unwrap().wait(DEADLINE).unwrap().stdout
}

/// Keys that are agreed on: another CAK, another CKN, an MKPDU that comes one way alone.
#[test]
fn a_link_with_agreed_keys_says_what_is_wrong() {
    let group = Group::new();
    let scratch = &group.scratch;
    group.cak("good.cak", "line");
    group.cak("wrong.cak", "line");
    group.cak("other.cak", "another");
    let [a, b] = group.pair_with("", "cak_file = \"good.cak\"");
    let file = scratch.path().join("b.toml");
    let good = std::fs::read_to_string(&file).unwrap();
    let with = |cak: &str| {
        std::fs::write(&file, good.replace("good.cak", cak)).unwrap();
        reloaded(scratch, "b");
    };
    while_they_send(&group.topology, || {
        says(scratch, "b", "protecting", &[]);
        with("wrong.cak");
        says(scratch, "b", "wrong CAK", &["compare the cak"]);
        with("other.cak");
        // Nothing is said of the CAK that was configured before.
        says(scratch, "b", "wrong CKN", &["compare the ckn"]);
        with("good.cak");
        says(scratch, "b", "protecting", &[]);
        // B hears A, and A does not hear B.
        deaf(&group.topology.middle, RIGHT, true);
        says(scratch, "b", "one way", &["has not shown that it hears"]);
        says(scratch, "a", "peer absent", &["o other station is heard"]);
        std::thread::sleep(Duration::from_secs(8));
        deaf(&group.topology.middle, RIGHT, false);
        says(scratch, "b", "protecting", &[]);
    });
    let said = a.stop().unwrap();
    assert!(said.contains("link \"press\": peer absent: "), "{said}");
    b.stop().unwrap();
}

/// Keys that are agreed on, and frames that go one way alone, as GOOSE and SV do: nobody misses an answer. If they do not arrive, the end that they
/// do not reach says so.
#[test]
fn frames_that_go_one_way_alone_miss_no_answer_and_are_missed_where_they_do_not_arrive() {
    let group = Group::new();
    let scratch = &group.scratch;
    group.cak("line.cak", "line");
    let [a, b] = group.pair_with("", LINE);
    let (middle, machine) = (&group.topology.middle, &group.topology.machine_a);
    let sender = PacketSocket::open(&machine.namespace, machine.ifname).unwrap();
    let multicast = marked([1, 0x0c, 0xcd, 1, 0, 1], machine.mac, EXPERIMENT, 100, 1);
    let send_for = |seconds: u64| {
        for _ in 0..10 * seconds {
            sender.send(&multicast).unwrap();
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    send_for(12);
    says(scratch, "a", "protecting", &["live peers: 1", "no frame has come back"]);
    says(scratch, "b", "protecting", &["valid frames come"]);
    // A switch's STP.
    let stray = PacketSocket::open(middle, LEFT).unwrap();
    stray.send(&marked([1, 0x80, 0xc2, 0, 0, 0], [2, 0, 0, 0, 0, 0x77], EXPERIMENT, 50, 2)).unwrap();
    says(scratch, "a", "clear frames", &["another station"]);
    let told = verdict(scratch, "a");
    assert!(told["level"] == "attention" && told["protecting"] == true, "{told}");
    // MKPDUs pass, and other frames of A do not.
    deaf_to(middle, LEFT, "ether type 0x88e5", true);
    send_for(20);
    says(scratch, "b", "one way", &["MKPDUs of 02:", "its frames do not", "0x88e5 both ways"]);
    assert_eq!(verdict(scratch, "b")["protecting"], false);
    deaf(middle, LEFT, false);
    send_for(2);
    says(scratch, "b", "protecting", &["valid frames come"]);
    stop([a, b]);
}

/// Static keys, and two peers: one of them is gone while the other one answers.
#[test]
fn a_peer_that_is_gone_is_seen_beside_one_that_is_there() {
    let (topology, pair) = lab(&Shape::default(), &Choice::default());
    let scratch = &pair.scratch;
    let home = third(&topology);
    home.ip(&["link", "set", PLAIN, "mtu", "1400"]).unwrap();
    keygen::static_key(KeyLength::Bits128, &scratch.path().join("c.key")).unwrap();
    let peer = |name: &str, number: u8| {
        format!(
            "[[link.static.peer]]\nan = 0\nsci = \"02:00:00:00:00:0{number}/1\"\nkey_file = \"{name}.key\"\n"
        )
    };
    let file = scratch.path().join("b.toml");
    let alone = std::fs::read_to_string(&file).unwrap();
    let own = alone.split("[[link.static.peer]]").next().unwrap();
    let of_c = own
        .replace("name = \"b\"", "name = \"c\"")
        .replace("state-b", "state-c")
        .replace("02:00:00:00:00:02/1", "02:00:00:00:00:03/1")
        .replace("b.key", "c.key");
    scratch.write("c.toml", &(of_c + &peer("a", 1) + &peer("b", 2))).unwrap();
    let start = || Station::start(program(), &home, scratch, "c").unwrap();
    std::fs::write(&file, alone.clone() + &peer("c", 3)).unwrap();
    reloaded(scratch, "b");
    while_they_send(&topology, || {
        // It has never been there.
        let absent = "Nothing comes of 02:00:00:00:00:03/1, though others answer: no valid frame of it";
        says(scratch, "b", "partial mesh", &[absent]);
        let c = start();
        let machine = PacketSocket::open(&home, "machine").unwrap();
        let speaks = || {
            let frame = marked(topology.machine_b.mac, [2, 0, 0, 0, 0, 0xd1], EXPERIMENT, 100, 1);
            machine.send(&frame).unwrap();
        };
        let end = Instant::now() + PATIENCE;
        while verdict(scratch, "b")["state"] != "protecting" {
            assert!(Instant::now() < end, "{}", verdict(scratch, "b"));
            speaks();
            std::thread::sleep(Duration::from_millis(100));
        }
        // It talks without pauses: so it is missed soon.
        for _ in 0..40 {
            speaks();
            std::thread::sleep(Duration::from_millis(100));
        }
        c.stop().unwrap();
        let gone = "Nothing comes of 02:00:00:00:00:03/1, though others answer: its last valid frame came ";
        says(scratch, "b", "partial mesh", &[gone, "Check whether that gateway runs"]);
        assert!(status_text(scratch, "b").contains("  ATTENTION, partial mesh: Nothing comes of 02:"));
        // Its configuration has no word of that peer.
        assert_eq!(verdict(scratch, "a")["state"], "protecting");
        std::fs::write(&file, &alone).unwrap();
        reloaded(scratch, "b");
        says(scratch, "b", "protecting", &[]);
    });
    pair.stop().unwrap();
}

/// A member that `peers` names, and that is not there.
#[test]
fn a_member_that_peers_names_and_that_is_not_there_is_told() {
    let group = Group::new();
    let scratch = &group.scratch;
    group.cak("line.cak", "line");
    let home = third(&group.topology);
    let named = |name: &str| format!("announce_name = \"{name}\"\n");
    group.configure("a", &format!("{LINE}\npeers = [\"02:00:00:00:00:b3/1\", \"02:00:00:00:00:d3/1\"]"));
    group.configure_with(&named("press-b"), "b", LINE);
    group.configure_with(&named("press-c"), "c", LINE);
    let start = || Station::start(program(), &home, scratch, "c").unwrap();
    let [a, b] = ["a", "b"].map(|name| group.start(name));
    group.secured(&[&a, &b]);
    while_they_send(&group.topology, || {
        says(
            scratch,
            "a",
            "partial mesh",
            &["Named in peers, and not in the group: 02:00:00:00:00:d3/1. Check"],
        );
        says(scratch, "b", "protecting", &[]);
        let c = start();
        all([&a, &b, &c], "three agree", secured_with(2));
        says(scratch, "a", "protecting", &[]);
        c.stop().unwrap();
        says(scratch, "a", "partial mesh", &["02:00:00:00:00:d3/1 \"press-c\""]);
        assert!(status_text(scratch, "a").contains("  ATTENTION, partial mesh: Named in peers"));
        says(scratch, "b", "protecting", &[]);
    });
    stop([a, b]);
}

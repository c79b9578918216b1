//! Another master key at two gateways, one after the other, under cyclic frames; and new session keys by command.

use std::time::{Duration, Instant};

use frameward::keygen;
use lab::topology::LEFT;
use lab::{Capture, Shape, Topology};
use perf::demo::cells::{self, CellChoice, secured};
use perf::demo::pair::{Pair, Station};
use wire::fieldbus::ETHERTYPE;

use super::{DEVICES, cell, complete, exchange, for_the_kernel, kernel_choice};
use crate::reload::reloaded;
use crate::{DEADLINE, MARKER, program};

const CYCLE: Duration = Duration::from_millis(1);

/// Writes a gateway's configuration with these files of master keys, the preferred one first, and has it read.
fn reload(pair: &Pair, end: usize, choice: &CellChoice, files: [Option<&str>; 2]) -> String {
    let name = ["a", "b"][end];
    cells::configure(&pair.scratch, end, choice).unwrap();
    let file = pair.scratch.path().join(format!("{name}.toml"));
    let [first, second] = [("master_key_file", files[0]), ("fallback_master_key_file", files[1])]
        .map(|(key, file)| file.map(|file| format!("{key} = \"{file}\"\n")).unwrap_or_default());
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("master_key_file = \"cell.key\"\n", &format!("{first}{second}")))
        .unwrap();
    reloaded(&pair.scratch, name)
}

/// Waits until the sessions of all relations rest on this master key, at both gateways.
fn all_rest_on(pair: &Pair, key: &str) {
    for station in [&pair.a, &pair.b] {
        let end = Instant::now() + DEADLINE;
        let rests = |station: &Station| {
            cell(station).relations.iter().all(|of| of.master_key.as_deref() == Some(key))
        };
        while !rests(station) {
            assert!(Instant::now() < end, "{:?}", cell(station).relations);
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Runs `frameward rekey a cell-4`, and returns what it prints.
fn rekey(pair: &Pair) -> String {
    let variable = format!("FRAMEWARD_RUNTIME_DIR={}", pair.scratch.path().join("run").display());
    let command = ["env", &variable, program().to_str().unwrap(), "rekey", "a", "cell-4"];
    let output = lab::Program::spawn(&command).unwrap().wait(DEADLINE).unwrap();
    assert!(output.status.success(), "{}", output.stderr);
    output.stdout
}

fn master_keys_are_exchanged((topology, choice, pair): (Topology, CellChoice, Pair), path: &str) {
    secured(&pair).unwrap();
    let new = keygen::fieldbus(&pair.scratch.path().join("new.key")).unwrap();
    let old = cell(&pair.a).master_key;
    let wire = Capture::start(&topology.middle, LEFT).unwrap();
    let exchange = exchange(&topology, &choice);
    exchange.wait_for(100, DEADLINE).unwrap();
    all_rest_on(&pair, &old);
    let said = reload(&pair, 0, &choice, [Some("new.key"), Some("cell.key")]);
    assert!(said.contains("sessions change to the preferred master key"), "{said}");
    exchange.wait_for(300, DEADLINE).unwrap();
    all_rest_on(&pair, &old);
    let shown = cell(&pair.a);
    assert_eq!(
        (shown.master_key.as_str(), shown.fallback_master_key.as_deref()),
        (new.as_str(), Some(old.as_str()))
    );
    assert!(shown.verdict.text.contains("do not rest on the preferred master key"), "{:?}", shown.verdict);
    reload(&pair, 1, &choice, [Some("new.key"), Some("cell.key")]);
    all_rest_on(&pair, &new);
    exchange.wait_for(300, DEADLINE).unwrap();
    for end in [1, 0] {
        let said = reload(&pair, end, &choice, [Some("new.key"), None]);
        assert!(!said.contains("rest on a master key that is removed"), "{said}");
        exchange.wait_for(300, DEADLINE).unwrap();
    }
    all_rest_on(&pair, &new);
    // New keys at once, under the same master key.
    let sessions = |station: &Station| {
        cell(station).relations.iter().map(|of| of.transmit_key.unwrap().session).collect::<Vec<_>>()
    };
    let before = sessions(&pair.a);
    let said = rekey(&pair);
    assert_eq!(said.trim(), "fieldbus \"cell-4\": 3 relations have new sessions");
    assert!(before.iter().zip(sessions(&pair.a)).all(|(before, now)| now > *before));
    exchange.wait_for(300, DEADLINE).unwrap();
    for station in [&pair.a, &pair.b] {
        assert!(
            cell(station).path.is_empty() || cell(station).path.starts_with(path),
            "{}",
            cell(station).path
        );
    }
    complete(&exchange.stop().unwrap(), 1500);
    let wire = wire.stop().unwrap().complete().unwrap();
    assert!(wire.of_ethertype(ETHERTYPE.0).next().is_some());
    assert_eq!((super::in_clear(&wire), wire.find(MARKER)), (0, None), "nothing went in clear");
    pair.stop().unwrap();
}

#[test]
fn master_keys_are_exchanged_without_a_lost_frame() {
    for io in ["af_xdp", "af_packet"] {
        let topology = Topology::build(&Shape { protected_mtu: 1500, ..Shape::default() }).unwrap();
        let choice = CellChoice { io, ..CellChoice::new(&topology, DEVICES, CYCLE) };
        let pair = cells::start(program(), &topology, &choice).unwrap();
        master_keys_are_exchanged((topology, choice, pair), "user space");
    }
}

#[test]
fn master_keys_are_exchanged_in_the_kernel_without_a_lost_frame() {
    let topology = for_the_kernel();
    let choice = CellChoice {
        relations: CellChoice::new(&topology, DEVICES, CYCLE).relations,
        ..kernel_choice(&topology, "kernel")
    };
    let pair = cells::start(program(), &topology, &choice).unwrap();
    master_keys_are_exchanged((topology, choice, pair), "kernel");
}

/// The other gateway lacks the new key: sessions end within a second, and nothing passes, in clear or otherwise.
#[test]
fn a_removed_master_key_ends_its_sessions() {
    for io in ["af_packet", "kernel"] {
        let topology = for_the_kernel();
        let choice = kernel_choice(&topology, io);
        let pair = cells::start(program(), &topology, &choice).unwrap();
        secured(&pair).unwrap();
        let exchange = exchange(&topology, &choice);
        exchange.wait_for(50, DEADLINE).unwrap();
        keygen::fieldbus(&pair.scratch.path().join("new.key")).unwrap();
        let said = reload(&pair, 0, &choice, [Some("new.key"), None]);
        assert!(said.contains("sessions under a master key that is removed: 3;"), "{said}");
        std::thread::sleep(Duration::from_millis(1200));
        assert!(cell(&pair.a).relations.iter().all(|of| !of.has_session() && of.master_key.is_none()));
        let wire = Capture::start(&topology.middle, LEFT).unwrap();
        let before: Vec<u64> =
            exchange.heard().iter().map(|heard| heard[0].received + heard[1].received).collect();
        std::thread::sleep(Duration::from_millis(300));
        let after: Vec<u64> =
            exchange.heard().iter().map(|heard| heard[0].received + heard[1].received).collect();
        assert_eq!(before, after, "{io}: a frame was accepted under a removed key");
        let wire = wire.stop().unwrap().complete().unwrap();
        assert_eq!((super::in_clear(&wire), wire.find(MARKER)), (0, None), "nothing went in clear");
        reload(&pair, 1, &choice, [Some("new.key"), None]);
        secured(&pair).unwrap();
        drop(exchange.stop());
        pair.stop().unwrap();
    }
}

/// Each refusal is one line with its cure.
#[test]
fn wrong_master_keys_are_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let topology = Topology::build(&Shape::default()).unwrap();
    let choice = CellChoice::new(&topology, DEVICES, CYCLE);
    let scratch = cells::configured(&choice).unwrap();
    let path = |name: &str| scratch.path().join(name);
    keygen::fieldbus(&path("new.key")).unwrap();
    std::fs::copy(path("cell.key"), path("copy.key")).unwrap();
    keygen::fieldbus(&path("open.key")).unwrap();
    std::fs::set_permissions(path("open.key"), std::fs::Permissions::from_mode(0o644)).unwrap();
    let line = |file: &str| format!("fallback_master_key_file = \"{file}\"\n");
    let text = std::fs::read_to_string(path("a.toml")).unwrap();
    let rows = [
        (line("copy.key"), "fallback_master_key_file holds the key of master_key_file"),
        (line("open.key"), "can be read by others"),
        (line("none.key"), "make one with: frameward keygen fieldbus"),
        (
            "fallback_master_key_file = [\"new.key\", \"copy.key\"]\n".to_owned(),
            "fallback_master_key_file takes path of a file",
        ),
        (line("new.key") + &line("copy.key"), "duplicate key; correct this line"),
    ];
    for (lines, expected) in rows {
        let of_cell = "master_key_file = \"cell.key\"\n";
        std::fs::write(path("a.toml"), text.replace(of_cell, &format!("{of_cell}{lines}"))).unwrap();
        let file = path("a.toml");
        let output = std::process::Command::new(program()).arg("check").arg(&file).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        let told = said.lines().filter(|line| line.contains(expected)).count();
        assert!(!output.status.success() && told == 1, "{lines}: {said}");
    }
}

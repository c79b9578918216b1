//! Commands of somebody's first days with a gateway: names, and what they find.

use std::net::{TcpListener, TcpStream};

use lab::Shape;
use lab::program::Output;
use perf::demo::pair::{Choice, Scratch};

use super::http::{HTTP, get};
use super::reload::{reload, reloaded, while_they_talk};
use super::{DEADLINE, lab, program};

/// `frameward ARGUMENTS` beside the gateways of a laboratory.
pub(crate) fn frameward(scratch: &Scratch, arguments: &[&str]) -> Output {
    let variable = format!("FRAMEWARD_RUNTIME_DIR={}", scratch.path().join("run").display());
    let command = [&["env", &variable, program().to_str().unwrap()], arguments].concat();
    lab::Program::spawn(&command).unwrap().wait(DEADLINE).unwrap()
}

/// Two gateways on a box, both with a link `press`.
#[test]
fn one_name_finds_gateways_files_and_links() {
    let (_topology, pair) = lab(&Shape::default(), &Choice::default());
    let scratch = &pair.scratch;
    let ask = |arguments: &[&str]| frameward(scratch, arguments);
    let file = scratch.path().join("b.toml").display().to_string();
    for name in ["b", "frameward@b", "b.toml", &file] {
        let said = ask(&["status", name]);
        assert!(said.stdout.starts_with("gateway b, "), "{name}: {}{}", said.stdout, said.stderr);
    }
    let said = ask(&["reload", "b.toml"]);
    assert!(said.status.success() && said.stdout.contains("reloaded"), "{}{}", said.stdout, said.stderr);
    let said = ask(&["status", "press"]);
    assert_eq!(said.stderr, "frameward: \"press\" is found in several gateways; name one of a, b\n");
    let said = ask(&["status", "oven"]);
    let a = scratch.path().join("a.toml").display().to_string();
    assert_eq!(
        said.stderr,
        format!(
            "frameward: nothing that runs has the name \"oven\"; running: gateway a (link press, file {a}); gateway b (link press, file {file})\n"
        )
    );
    assert_eq!(said.status.code(), Some(1));
    pair.a.stop().unwrap();
    let said = ask(&["status", "press"]);
    assert!(
        said.stdout.starts_with("gateway b, ") && said.stdout.contains("\nlink press\n"),
        "{}",
        said.stdout
    );
    let said = ask(&["status", "--json", "press"]);
    assert!(said.stdout.contains("\"name\": \"b\",\n"), "{}", said.stdout);
    // Its keys are static: the right gateway and link say so.
    assert!(ask(&["rekey", "press"]).stderr.contains("link \"press\" has static keys"));
    pair.b.stop().unwrap();
}

/// A reload that is tried says what a reload would, and does nothing; http moves, comes and goes without a frame lost.
#[test]
fn a_reload_is_tried_first_and_http_changes_by_it() {
    let choice = Choice { gateway: HTTP, ..Choice::default() };
    let (topology, pair) = lab(&Shape::default(), &choice);
    let scratch = &pair.scratch;
    let file = scratch.path().join("a.toml");
    let before = std::fs::read_to_string(&file).unwrap();
    let with = |from: &str, to: &str| {
        assert!(before.contains(from), "{from}");
        std::fs::write(&file, before.replace(from, to)).unwrap();
    };
    let gateway = &topology.gateway_a.namespace;
    get(gateway, "/status");
    while_they_talk(&topology, || {
        // The same address on another line of the file is no change.
        with("[gateway]", "# Press line\n[gateway]");
        let said = reloaded(scratch, "a");
        assert!(said.contains("the configuration is unchanged"), "{said}");

        with("suite = \"gcm-aes-128\"", "suite = \"gcm-aes-128\"\nreplay_window = 64");
        let dry = frameward(scratch, &["reload", "--dry-run", "press.toml"]);
        assert_eq!(dry.status.code(), Some(1), "{}", dry.stdout);
        let dry = frameward(scratch, &["reload", "--dry-run", "a"]);
        let lines = ["changed: link \"press\" replay_window: was not set, now 64", "link \"press\": changed"];
        for line in lines {
            assert!(dry.stdout.lines().any(|said| said == line), "{line}: {}{}", dry.stdout, dry.stderr);
        }
        assert!(dry.stdout.ends_with("a.toml: would be reloaded; nothing was changed\n"), "{}", dry.stdout);
        let report = pair.a.report().unwrap();
        assert_eq!(
            (report.links[0].secy.replay_window, report.reload.map(|reload| reload.count)),
            (0, Some(1))
        );

        with("suite = \"gcm-aes-128\"", "suite = \"gcm-aes-129\"");
        let dry = frameward(scratch, &["reload", "--dry-run", "a"]);
        assert_eq!(dry.status.code(), Some(2));
        assert!(
            dry.stderr.contains("gcm-aes-129") && dry.stderr.contains("would not be reloaded"),
            "{}",
            dry.stderr
        );

        // Another port, all addresses at the same port, none, and again.
        for (http, said) in [
            ("http = \"127.0.0.1:9465\"", "was \"127.0.0.1:9464\", now \"127.0.0.1:9465\""),
            ("http = \"0.0.0.0:9465\"", "now \"0.0.0.0:9465\""),
            ("http = \"127.0.0.1:9464\"", "now \"127.0.0.1:9464\""),
            ("", "now not set"),
            (HTTP, "was not set, now"),
        ] {
            with(HTTP, http);
            let dry = frameward(scratch, &["reload", "--dry-run", "a"]);
            assert!(dry.stdout.contains(said), "{}{}", dry.stdout, dry.stderr);
            let told = reloaded(scratch, "a");
            assert!(
                told.contains(&format!("changed: gateway http: {said}")) || told.contains(said),
                "{told}"
            );
            let address = http.split('"').nth(1).map(|address| address.replace("0.0.0.0", "127.0.0.1"));
            let answers = |address: &str| {
                let address = address.parse().unwrap();
                gateway.enter(|| TcpStream::connect_timeout(&address, DEADLINE).is_ok()).unwrap()
            };
            for port in ["127.0.0.1:9464", "127.0.0.1:9465"] {
                assert_eq!(answers(port), address.as_deref() == Some(port), "{port} with {http}");
            }
        }
        // An address that another program has: nothing is changed, and the old one goes on.
        let taken = gateway.enter(|| TcpListener::bind("127.0.0.1:9470")).unwrap().unwrap();
        with(HTTP, "http = \"127.0.0.1:9470\"");
        let refused = reload(scratch, "a");
        assert_eq!(refused.status.code(), Some(2));
        assert!(refused.stderr.contains("cannot listen on http = \"127.0.0.1:9470\""), "{}", refused.stderr);
        drop(taken);
        get(gateway, "/status");
    });
    pair.a.stop().unwrap();
    pair.b.stop().unwrap();
}

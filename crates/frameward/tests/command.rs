//! The program itself: its exit status, its output, and that errors are one line each.
#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests too")]

mod terminal;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use terminal::Terminal;

struct Directory(PathBuf);

impl Directory {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("frameward-command-{test}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.join(name), text).unwrap();
    }

    fn run(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let Output { status, stdout, stderr } = Command::new(env!("CARGO_BIN_EXE_frameward"))
            .args(arguments)
            .current_dir(&self.0)
            .env("FRAMEWARD_RUNTIME_DIR", self.0.join("run"))
            .output()
            .unwrap();
        (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const CONFIG: &str = r#"[gateway]
name = "press-line"
[[link]]
name = "press"
plain = "fw-no-plain"
protected = "fw-no-prot"
suite = "gcm-aes-128"
[link.static]
an = 0
sci = "02:00:00:00:00:01/1"
key_file = "press.key"
[[link.static.peer]]
an = 0
sci = "02:00:00:00:00:02/1"
key_file = "keys/peer.key"
replay_floor = "off"
"#;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn keys_are_made_and_a_configuration_is_checked() {
    let directory = Directory::new("check");
    directory.write("gw.toml", CONFIG);
    fs::create_dir(directory.0.join("keys")).unwrap();

    let (status, output, errors) = directory.run(&["keygen", "static", "--out", "press.key"]);
    assert_eq!((status, errors.as_str()), (Some(0), ""));
    let fingerprint = output.trim().strip_prefix("fingerprint ").unwrap().to_owned();
    assert_eq!(mode(&directory.0.join("press.key")), 0o600);
    let key = fs::read_to_string(directory.0.join("press.key")).unwrap();
    assert_eq!(key.len(), 33);
    assert!(!output.contains(key.trim()));

    let (status, output, errors) = directory.run(&["keygen", "static", "--out", "press.key"]);
    assert_eq!((status, output.as_str()), (Some(1), ""));
    assert_eq!(
        errors,
        "frameward: press.key already exists; name another file, or remove it if no gateway needs its key\n"
    );
    assert_eq!(fs::read_to_string(directory.0.join("press.key")).unwrap(), key);

    let (status, output, _) = directory.run(&["check", "--offline", "gw.toml"]);
    assert_eq!((status, output.as_str()), (Some(2), ""), "the peer's key is missing");

    let (status, output, _) =
        directory.run(&["keygen", "static", "--bits", "128", "--salt", "--out", "keys/peer.key"]);
    assert_eq!((status, output.lines().count()), (Some(0), 2));
    let (status, output, errors) = directory.run(&["check", "--offline", "gw.toml"]);
    assert_eq!(status, Some(0), "{errors}");
    assert!(
        output.contains(&format!("own SA     SCI 02:00:00:00:00:01/1, AN 0, key {fingerprint}\n")),
        "{output}"
    );
    assert!(errors.lines().all(|line| line.starts_with("warning: gw.toml:")), "{errors}");

    // From elsewhere: key files are found beside the configuration.
    let elsewhere = Directory::new("elsewhere");
    let path = directory.0.join("gw.toml");
    assert_eq!(elsewhere.run(&["check", "--offline", path.to_str().unwrap()]).0, Some(0));

    let (status, output, errors) = directory.run(&["check", "gw.toml"]);
    assert_eq!((status, output.as_str()), (Some(1), ""));
    let errors: Vec<_> = errors.lines().filter(|line| !line.starts_with("warning: ")).collect();
    assert_eq!(
        errors,
        ["fw-no-plain", "fw-no-prot"].map(|name| format!(
            "gw.toml:3: link \"press\": interface {name} does not exist; 'ip link' lists those that do"
        ))
    );
}

#[test]
fn a_cak_is_made_and_a_link_that_agrees_on_its_keys_is_checked() {
    let directory = Directory::new("cak");
    directory.write(
        "gw.toml",
        "[gateway]\nname = \"press-line\"\n[[link]]\nname = \"press\"\nplain = \"fw-no-plain\"\n\
         protected = \"fw-no-prot\"\n[link.mka]\ncak_file = \"line.cak\"\nfallback_cak_file = \"old.cak\"\n",
    );
    let (status, output, errors) =
        directory.run(&["keygen", "cak", "--ckn", "6C696E65", "--out", "line.cak"]);
    assert_eq!((status, errors.as_str()), (Some(0), ""));
    assert_eq!(mode(&directory.0.join("line.cak")), 0o600);
    let kept = fs::read_to_string(directory.0.join("line.cak")).unwrap();
    let [name, key] = kept.lines().collect::<Vec<_>>().try_into().unwrap();
    assert_eq!((name, key.len()), ("ckn = 6c696e65", "cak = ".len() + 64));
    let fingerprint = output.trim().strip_prefix("ckn 6c696e65\nfingerprint ").unwrap().to_owned();
    assert!(!output.contains(key.trim_start_matches("cak = ")));

    let (status, _, errors) = directory.run(&["check", "--offline", "gw.toml"]);
    assert_eq!((status, errors.lines().count()), (Some(2), 1), "the fallback is missing: {errors}");
    let (status, output, _) = directory.run(&["keygen", "cak", "--bits", "128", "--out", "old.cak"]);
    assert_eq!((status, output.lines().next().unwrap().len()), (Some(0), "ckn ".len() + 32));
    let (status, output, errors) = directory.run(&["check", "--offline", "gw.toml"]);
    assert_eq!((status, errors.as_str()), (Some(0), ""));
    let line = format!("CAK        ckn 6c696e65, 256 bits, key {fingerprint}\n");
    assert!(output.contains(&line), "{output}");

    // One kind of key in the place of the other.
    directory.run(&["keygen", "static", "--out", "static.key"]);
    for (from, to, expected) in [
        ("line.cak", "static.key", "holds a static key, which has no name, for key_file in [link.static]"),
        (
            "[link.mka]\ncak_file = \"line.cak\"\nfallback_cak_file = \"old.cak\"\n",
            "suite = \"gcm-aes-128\"\n[link.static]\nan = 0\nsci = \"02:00:00:00:00:01/1\"\nkey_file = \"line.cak\"\n",
            "holds a CAK, for cak_file in [link.mka]",
        ),
    ] {
        let text = fs::read_to_string(directory.0.join("gw.toml")).unwrap();
        directory.write("other.toml", &text.replace(from, to));
        let (status, _, errors) = directory.run(&["check", "--offline", "other.toml"]);
        assert_eq!(status, Some(2));
        assert!(errors.contains(expected), "{errors}");
    }
}

#[test]
fn an_identity_is_made_and_a_site_is_checked() {
    let directory = Directory::new("site");
    let mut lines = Vec::new();
    for name in ["dresden.key", "berlin.key"] {
        let (status, output, errors) = directory.run(&["keygen", "site", "--out", name]);
        assert_eq!((status, errors.as_str()), (Some(0), ""));
        assert_eq!(mode(&directory.0.join(name)), 0o600);
        let kept = fs::read_to_string(directory.0.join(name)).unwrap();
        let [private, public] = kept.lines().collect::<Vec<_>>().try_into().unwrap();
        assert_eq!(output, format!("public_key = \"{public}\"\n"), "what a peer's configuration has");
        assert!(!output.contains(private) && private.len() == 64);
        lines.push(output);
    }
    let before = fs::read(directory.0.join("dresden.key")).unwrap();
    let (status, output, errors) = directory.run(&["keygen", "site", "--out", "dresden.key"]);
    assert_eq!((status, output.as_str()), (Some(1), ""));
    assert!(errors.starts_with("frameward: dresden.key already exists;"), "{errors}");
    assert_eq!(fs::read(directory.0.join("dresden.key")).unwrap(), before);

    let site = |peer: &str| {
        format!(
            "[gateway]\nname = \"edge\"\n[[site]]\nname = \"dresden\"\nlan = \"fw-no-lan\"\nbind = \"0.0.0.0:7787\"\n\
             identity = \"dresden.key\"\n[[site.peer]]\nname = \"berlin\"\n{peer}"
        )
    };
    directory.write("gw.toml", &site(&lines[1]));
    let (status, output, errors) = directory.run(&["check", "--offline", "gw.toml"]);
    assert_eq!((status, errors.as_str()), (Some(0), ""));
    assert!(output.contains("identifier                    1470           1438"), "{output}");
    assert!(
        output.contains(lines[0].trim().trim_start_matches("public_key = ").trim_matches('"')),
        "{output}"
    );

    let (status, output, errors) = directory.run(&["check", "gw.toml"]);
    assert_eq!((status, output.as_str()), (Some(1), ""));
    assert_eq!(
        errors,
        "gw.toml:3: site \"dresden\": interface fw-no-lan does not exist; 'ip link' lists those that do\n"
    );

    directory.write("gw.toml", &site("endpoint = \"192.0.2.1:4789\"\nmode = \"plain\"\nvni = 7\n"));
    let (status, output, errors) = directory.run(&["check", "--offline", "gw.toml"]);
    assert_eq!(status, Some(0), "{errors}");
    assert!(
        errors.starts_with("warning: gw.toml:11: site \"dresden\": peer \"berlin\": mode = \"plain\": "),
        "{errors}"
    );
    assert!(output.contains("plain, VNI 7, NOT PROTECTED, at 192.0.2.1:4789"), "{output}");

    directory.write("gw.toml", &site(&lines[0]));
    let (status, output, errors) = directory.run(&["check", "--offline", "gw.toml"]);
    assert_eq!((status, output.as_str(), errors.lines().count()), (Some(2), "", 1));
    assert!(errors.contains("this site's own"), "{errors}");
}

/// `run` becomes another user before it reads a key, so what root makes is that user's, as with `init`.
#[test]
fn keys_belong_to_the_gateways_user() {
    let directory = Directory::new("key-owner");
    let own = nix::unistd::geteuid();
    let user = if own.is_root() { 64_917 } else { own.as_raw() };
    for kind in ["static", "cak", "site", "fieldbus"] {
        let run = |user: &str| directory.run(&["keygen", kind, "--user", user, "--out", kind]);
        let (status, _, errors) = run("no-such-user");
        assert_eq!((status, errors.lines().count()), (Some(1), 1), "{errors}");
        assert!(errors.contains("no user \"no-such-user\"") && !directory.0.join(kind).exists(), "{errors}");
        let (status, output, errors) = run(&user.to_string());
        assert_eq!((status, errors.as_str()), (Some(0), ""));
        assert!(!output.is_empty());
        let made = fs::metadata(directory.0.join(kind)).unwrap();
        assert_eq!((made.uid(), made.permissions().mode() & 0o7777), (user, 0o600), "{kind}");
    }
}

/// Root's files stop a gateway that becomes another user. `doctor` of root says so, with the cure that helps.
#[test]
fn what_the_gateways_user_cannot_read_is_told_by_doctor_with_its_cure() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let directory = Directory::new("denied");
    let [press, peer, state] = ["press.key", "peer.key", "state"].map(|name| directory.0.join(name));
    for (key, digits) in
        [(&press, "00112233445566778899aabbccddeeff"), (&peer, "ffeeddccbbaa99887766554433221100")]
    {
        fs::write(key, digits).unwrap();
        fs::set_permissions(key, fs::Permissions::from_mode(0o600)).unwrap();
    }
    fs::create_dir(&state).unwrap();
    chown(&state, Some(64_917), None).unwrap();
    fs::set_permissions(&directory.0, fs::Permissions::from_mode(0o755)).unwrap();
    let gateway = format!("[gateway]\nstate = {state:?}\n");
    directory.write("gw.toml", &CONFIG.replace("keys/peer.key", "peer.key").replace("[gateway]\n", &gateway));
    let (_, said, errors) = directory.run(&["doctor", "--local", "gw.toml"]);
    let words = "PROBLEM  files      the gateway runs as user 64917, who is refused: gw.toml:";
    assert_eq!(said.matches(words).count(), 2, "{said} {errors}");
    let cure = "press.key cannot be read: Permission denied (os error 13); read it as root, or give it to the gateway's user: chown frameward: press.key";
    assert!(said.contains(cure), "{said}");
    // As keys that the gateway's user cannot read, so the configuration.
    fs::set_permissions(directory.0.join("gw.toml"), fs::Permissions::from_mode(0o600)).unwrap();
    let (_, said, _) = directory.run(&["doctor", "--local", "gw.toml"]);
    assert!(said.contains("chown frameward: gw.toml"), "{said}");
}

#[test]
fn bad_configurations_end_with_2_and_one_line() {
    let directory = Directory::new("bad");
    let key = "00112233445566778899aabbccddeeff\n";
    directory.write("press.key", key);
    fs::set_permissions(directory.0.join("press.key"), fs::Permissions::from_mode(0o644)).unwrap();
    directory.write("gw.toml", &CONFIG.replace("keys/peer.key", "press.key"));
    directory.write("unknown.toml", "[gateway]\nname = \"x\"\ncolor = 1\n");
    let open = |line| {
        format!(
            "gw.toml:{line}: link \"press\": press.key can be read by others (mode 0644); chmod 600 press.key\n"
        )
    };
    directory.write("large.toml", &"# much\n".repeat(200_000));
    // As an editor saves it that takes German for ISO 8859-1.
    fs::write(directory.0.join("latin.toml"), b"[gateway]\n# f\xfcr die Presse\nname = \"x\"\n").unwrap();
    for (file, expected) in [
        ("large.toml", "large.toml: is larger than 1048576 octets; name a configuration file\n".to_owned()),
        ("latin.toml", "latin.toml:2: octet 0xfc is not UTF-8; save the file as UTF-8\n".to_owned()),
        ("gw.toml", open(11) + &open(15)),
        ("unknown.toml", "unknown.toml:3: unknown key \"color\"; remove it or use one of name, announce_name, state, state_max_age, io, polling, realtime, cpus, antedate, http, log, unguarded, allow_experimental\n".to_owned()),
        ("none.toml", "none.toml: cannot be read: No such file or directory (os error 2); name a file that this user can read\n".to_owned()),
    ] {
        let (status, output, errors) = directory.run(&["check", file]);
        assert_eq!((status, output.as_str(), errors), (Some(2), "", expected));
    }
    fs::set_permissions(directory.0.join("press.key"), fs::Permissions::from_mode(0o600)).unwrap();
    directory.write(
        "gw.toml",
        &CONFIG.replace("keys/peer.key", "press.key").replace("gcm-aes-128", "gcm-aes-256"),
    );
    let (status, _, errors) = directory.run(&["check", "gw.toml"]);
    assert_eq!(status, Some(2));
    assert!(
        errors.starts_with(
            "gw.toml:11: link \"press\": press.key holds 128 bits where gcm-aes-256 needs 256; "
        )
    );
    assert!(!errors.contains("00112233"));
}

#[test]
fn usage_errors_end_with_2_and_failures_with_1() {
    let directory = Directory::new("usage");
    for (arguments, expected) in [
        (&["--help"][..], 0),
        (&["check", "--help"], 0),
        (&["--version"], 0),
        (&[], 2),
        (&["fly"], 2),
        (&["check"], 2),
        (&["keygen", "cak"], 2),
        (&["keygen", "cak", "--ckn", "line", "--out", "x"], 2),
        (&["keygen", "cak", "--ckn", "0", "--out", "x"], 2),
        (&["keygen", "cak", "--out", "none/x"], 1),
        (&["keygen", "static"], 2),
        (&["keygen", "static", "--bits", "64", "--out", "x"], 2),
        (&["keygen", "static", "--out", "none/x"], 1),
        (&["status"], 1),
        (&["status", "press-line"], 1),
        (&["status", "../x"], 2),
    ] {
        let (status, output, errors) = directory.run(arguments);
        assert_eq!(status, Some(expected), "{arguments:?}");
        assert_eq!(output.is_empty(), expected != 0, "{arguments:?}");
        assert_eq!(errors.is_empty(), expected == 0, "{arguments:?}");
        if expected == 1 {
            assert_eq!(errors.lines().count(), 1, "{errors}");
        }
    }
}

/// A gateway's answer, sent by this test through a real socket.
#[test]
fn status_shows_a_running_gateway() {
    use report::GatewayReport;
    use report::control_socket::{ControlSocket, Reply};
    let directory = Directory::new("status");
    let report = || GatewayReport {
        name: "line".into(),
        version: "9".into(),
        uptime_seconds: 61,
        privileges: None,
        configuration: None,
        suite_speeds: None,
        antedating: None,
        uptime_ms: 61_500,
        cleared_seconds: None,
        reload: None,
        reload_waits: None,
        upgrade: None,
        fleet: None,
        links: vec![],
        sites: vec![],
    };
    let _server =
        ControlSocket::serve(&directory.0.join("run"), "line", move |_| Reply::Report(report())).unwrap();
    let (status, output, errors) = directory.run(&["status"]);
    assert_eq!((status, errors.as_str()), (Some(0), ""));
    assert_eq!(output, "gateway line, version 9, up 00:01:01\n");
    let (status, output, _) = directory.run(&["status", "--json", "line"]);
    assert_eq!(status, Some(0));
    assert_eq!(output, format!("{}\n", serde_json::to_string_pretty(&report()).unwrap()));
}

/// `status --watch` in a terminal of its own.
impl Terminal {
    fn watching(directory: &Directory) -> Self {
        let commands = format!(
            "stty rows 24 cols 100; tty >tty; stty -a >before; FRAMEWARD_RUNTIME_DIR=\"$PWD/run\" '{}' status --watch; echo $? >status; stty -a >after",
            env!("CARGO_BIN_EXE_frameward")
        );
        Self::start(&directory.0, "xterm", &commands)
    }

    /// Sees it end well, and the terminal as it was.
    fn ended(mut self, directory: &Directory) {
        self.script.wait().unwrap();
        self.wait_for("\u{1b}[?1049l", 1);
        self.wait_for("\u{1b}[?25h", 1);
        let read = |name| fs::read_to_string(directory.0.join(name)).unwrap();
        assert_eq!(read("status"), "0\n");
        assert_eq!(read("after"), read("before"));
    }
}

#[test]
fn status_watch_follows_a_gateway_and_gives_the_terminal_back() {
    use report::GatewayReport;
    use report::control_socket::{ControlSocket, Reply};
    let directory = Directory::new("watch");
    let report = r#"{"name":"line","version":"9","uptime_seconds":61,"links":[]}"#;
    let report = || serde_json::from_str::<GatewayReport>(report).unwrap();
    let serve =
        || ControlSocket::serve(&directory.0.join("run"), "line", move |_| Reply::Report(report())).unwrap();
    let server = serve();

    let mut watching = Terminal::watching(&directory);
    watching.wait_for("live", 1);
    drop(server);
    watching.wait_for("NO ANSWER", 1);
    let _server = serve();
    watching.wait_for("live", 2);
    // Another size: everything is drawn anew.
    let before = watching.shown().matches("gateway line").count();
    let terminal = fs::read_to_string(directory.0.join("tty")).unwrap();
    let resized = Command::new("stty").args(["-F", terminal.trim(), "rows", "12", "cols", "60"]).status();
    assert!(resized.unwrap().success());
    watching.wait_for("gateway line", before + 1);
    let resized = Command::new("stty").args(["-F", terminal.trim(), "rows", "24", "cols", "100"]).status();
    assert!(resized.unwrap().success());
    watching.press("q");
    watching.ended(&directory);

    // Ctrl-C ends it as well.
    let mut watching = Terminal::watching(&directory);
    watching.wait_for("live", 1);
    watching.press("\u{3}");
    watching.ended(&directory);
}

/// Output without a terminal is lines, and ends when nobody reads them.
#[test]
fn status_watch_on_a_pipe_prints_lines() {
    use report::GatewayReport;
    use report::control_socket::{ControlSocket, Reply};
    let directory = Directory::new("watch-pipe");
    let link = r#"{"name":"press","plain":{"interface":"a","engine":"x","mtu":1500,"counters":{"RxFrames":1}},
        "protected":{"interface":"b","engine":"x","mtu":1500,"counters":{}},
        "secy":{"suite":"gcm-aes-128","protect_frames":true,"validate_frames":"strict","replay_protect":true,
        "replay_window":0,"counters":{"InPktsNoTag":7},"transmit":{"sci":"s","counters":{},"sas":[]},"receive":[]}}"#;
    let report = format!(r#"{{"name":"line","version":"9","uptime_seconds":61,"links":[{link}]}}"#);
    let report: GatewayReport = serde_json::from_str(&report).unwrap();
    let _server =
        ControlSocket::serve(&directory.0.join("run"), "line", move |_| Reply::Report(report.clone()))
            .unwrap();
    let mut watching = Command::new(env!("CARGO_BIN_EXE_frameward"))
        .args(["status", "--watch", "line"])
        .env("FRAMEWARD_RUNTIME_DIR", directory.0.join("run"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    for _ in 0..2 {
        assert_eq!(lines.next().unwrap().unwrap(), "line 61s press IDLE (unknown) InPktsNoTag=7");
    }
    drop(lines);
    assert!(watching.wait().unwrap().success());
}

/// A terminal of 100 columns, or none at all.
#[test]
fn every_help_fits_into_100_columns() {
    fn subcommands(help: &str) -> Vec<String> {
        let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
        let named = lines
            .take_while(|line| !line.is_empty())
            .filter(|line| line.starts_with("  ") && !line.starts_with("   "));
        named
            .filter_map(|line| Some(line.split_whitespace().next()?.to_owned()))
            .filter(|name| name != "help")
            .collect()
    }
    let directory = Directory::new("help");
    let mut pages = vec![Vec::<String>::new()];
    let mut looked_at = 0;
    while let Some(page) = pages.pop() {
        let arguments: Vec<&str> = page.iter().map(String::as_str).chain(["--help"]).collect();
        let (status, help, stderr) = directory.run(&arguments);
        assert_eq!(status, Some(0), "{arguments:?}: {stderr}");
        for line in help.lines() {
            assert!(line.chars().count() <= 100, "{arguments:?}: {line}");
        }
        pages.extend(subcommands(&help).into_iter().map(|name| [&page[..], &[name]].concat()));
        looked_at += 1;
    }
    assert!(looked_at >= 20, "{looked_at} pages");
    let (status, version, _) = directory.run(&["version"]);
    assert_eq!((status, version.as_str()), (Some(0), concat!("frameward ", env!("CARGO_PKG_VERSION"), "\n")));
    let (status, script, _) = directory.run(&["completions", "bash"]);
    assert!(status == Some(0) && script.contains("complete -F _frameward"), "{script}");
}

/// Whatever is typed is answered: by a page, or by an error, neither wider than the page.
#[test]
fn odd_calls_are_answered_within_100_columns() {
    let directory = Directory::new("odd");
    let page = |arguments: &[&str]| directory.run(arguments).1;
    let rows: [(&[&str], i32, &str); 22] = [
        (&["help"], 0, "Commands:"),
        (&["help", "--help"], 0, "Usage: frameward help [COMMAND]..."),
        (&["help", "-h"], 0, "Usage: frameward help [COMMAND]..."),
        (&["help", "help"], 0, "Usage: frameward help [COMMAND]..."),
        (&["help", "inspect"], 0, "Usage: frameward inspect [OPTIONS]"),
        (&["help", "init", "link"], 0, "Usage: frameward init link [OPTIONS]"),
        (&["help", "version"], 0, "Print the release"),
        (&["-h"], 0, "Commands:"),
        (&["version", "--help"], 0, "Print the release"),
        (&["help", "fly"], 2, "there is no command \"fly\"; frameward --help lists them"),
        (&["help", "init", "fly"], 2, "there is no command \"init fly\""),
        (&["help", "--fly"], 2, "--fly"),
        (&["fly"], 2, "fly"),
        (&["--fly"], 2, "--fly"),
        (&["init"], 2, "Usage: frameward init"),
        (&["init", "fly"], 2, "fly"),
        (&["keygen"], 2, "Usage: frameward keygen"),
        (&["keygen", "help"], 2, "help"),
        (&["inspect"], 2, "Usage: frameward inspect"),
        (&["inspect", "--write", "x", "y"], 2, "--keys"),
        (&["doctor"], 2, "Usage: frameward doctor"),
        (&["plan", "--cycle"], 2, "--cycle"),
    ];
    for (arguments, expected, words) in rows {
        let (status, output, errors) = directory.run(arguments);
        assert_eq!(status, Some(expected), "{arguments:?}: {output}{errors}");
        let told = if expected == 0 { &output } else { &errors };
        assert!(told.contains(words), "{arguments:?}: {told}");
        for line in output.lines().chain(errors.lines()) {
            assert!(line.chars().count() <= 100, "{arguments:?}: {line}");
        }
    }
    assert_eq!(page(&["help"]), page(&["--help"]));
    assert_eq!(page(&["help", "init", "cell"]), page(&["init", "cell", "--help"]));
}

/// Scripts ask the exit status. The rows do not depend on how fast this machine is.
#[test]
fn a_plan_that_does_not_fit_exits_with_1() {
    let directory = Directory::new("plan");
    let plan = |more: &[&str]| directory.run(&[&["plan", "--quick", "--payload"], more].concat());
    // A frame may take a quarter of a second.
    let one = ["1444", "--cycle", "512ms", "--link", "100k", "--relations", "1", "--protect", "encrypt"];
    let many = ["44", "--cycle", "1ms", "--relations", "58", "--protect", "encrypt"];
    let none = ["1444", "--cycle", "31.25us", "--protect", "encrypt"];
    let rows: [(&[&str], i32, &str, bool); 4] = [
        (&one, 0, "fits", true),
        (&many, 1, "58 are too many for the link", false),
        (&none, 1, "the link carries none", false),
        (&["44", "--cycle", "1h"], 2, "", false),
    ];
    for (asked, expected, words, fits) in rows {
        let (status, stdout, stderr) = plan(asked);
        assert_eq!(status, Some(expected), "{asked:?}: {stderr}");
        assert!(stdout.contains(words), "{asked:?}: {stdout}");
        let (status, stdout, _) = plan(&[asked, &["--json"]].concat());
        assert_eq!(status, Some(expected), "{asked:?} --json");
        if expected < 2 {
            let answer: serde_json::Value = serde_json::from_str(&stdout).unwrap();
            assert_eq!(answer["fits"], fits, "{asked:?}");
            assert_eq!(answer["verdict"], if fits { "fits" } else { "does-not-fit" }, "{asked:?}");
        }
    }
    let (_, _, stderr) = plan(&many);
    assert_eq!(stderr.lines().last(), Some("frameward: plan: some payloads do not fit"));
}

/// Commands as people type them, and output as their scripts look at it.
#[test]
fn a_fleet_is_planned_rendered_and_imported() {
    let directory = Directory::new("fleet");
    fs::create_dir(directory.0.join("inventory")).unwrap();
    let gateways = "[gateway.a]\nports = { plain = \"eth0\", protected = \"eth1\" }\n[gateway.b]\nports = { plain = \"eth2\", protected = \"eth3\" }\n";
    let link = "[[link]]\nname = \"press\"\ngateways = [\"a\", \"b\"]\n";
    directory.write("inventory/gateways.toml", gateways);
    directory.write("inventory/links.toml", &link.replace("\"b\"", "\"c\""));
    let plan = ["fleet", "plan", "inventory", "--against", "out"];
    let render = ["fleet", "render", "inventory", "--to", "out"];
    let refused = "inventory/links.toml:3: link \"press\": there is no gateway \"c\"; use one of a, b\n";
    for arguments in [plan, render] {
        assert_eq!(directory.run(&arguments), (Some(2), String::new(), refused.to_owned()));
    }
    assert!(!directory.0.join("out").exists() && !directory.0.join("inventory/keys").exists());
    directory.write("inventory/links.toml", link);
    let (status, said, _) = directory.run(&plan);
    assert!(
        status == Some(4)
            && said.starts_with("+ key inventory/keys/press.cak\n+ a\n    link \"press\": started\n"),
        "{said}"
    );
    assert!(!directory.0.join("inventory/keys").exists(), "a plan makes nothing");
    let said = "made inventory/keys/press.cak: a SECRET\nout: 2 gateways rendered\n";
    assert_eq!(directory.run(&render), (Some(0), said.to_owned(), String::new()));
    assert_eq!(directory.run(&render).1, "out: 2 gateways, all as they were\n");
    let nothing = "plan: 0 to add, 0 to change, 0 to remove, 2 unchanged; nothing is interrupted\n";
    assert_eq!(directory.run(&plan), (Some(0), nothing.to_owned(), String::new()));
    assert_eq!(mode(&directory.0.join("out/a/press.cak")), 0o600);
    for gateway in ["a", "b"] {
        let (status, ..) = directory.run(&["check", "--offline", &format!("out/{gateway}/frameward.toml")]);
        assert_eq!(status, Some(0));
    }
    let import = ["fleet", "import", "out", "--to", "imported"];
    assert_eq!(
        directory.run(&import),
        (Some(0), "imported: an inventory of 2 gateways\n".into(), String::new())
    );
    let (status, _, said) = directory.run(&import);
    assert_eq!((status, said.as_str()), (Some(1), "frameward: imported already exists; name a new folder\n"));
    assert_eq!(directory.run(&["fleet", "plan", "imported", "--against", "out"]).0, Some(0));
    // A folder that somebody else made is left alone.
    let (status, _, said) = directory.run(&["fleet", "render", "inventory", "--to", "inventory"]);
    assert!(status == Some(1) && said.contains("inventory is no rendering: "), "{said}");
}

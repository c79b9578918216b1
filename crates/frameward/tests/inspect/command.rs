//! The command: its lines, its exit status.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use super::ends::{A, SETTINGS, protected, sdus, sender, start_sending, transmit_sa};
use super::{ENDS, pcap, timed};

pub(super) struct Directory(pub(super) PathBuf);

impl Directory {
    pub(super) fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("frameward-inspect-{test}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(super) fn write(&self, name: &str, octets: impl AsRef<[u8]>) {
        fs::write(self.0.join(name), octets).unwrap();
        fs::set_permissions(self.0.join(name), fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_frameward"));
        command.arg("inspect").args(arguments).current_dir(&self.0);
        command
    }

    pub(super) fn run(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let Output { status, stdout, stderr } = self.command(arguments).output().unwrap();
        (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn frames(count: u64) -> Vec<Vec<u8>> {
    protected(&mut sender(A, SETTINGS, suite::CipherSuite::GcmAes128, 1), &sdus(count, 100))
}

#[test]
fn lines_summary_and_status() {
    let directory = Directory::new("lines");
    let mut frames = frames(3);
    frames.push(testkit::frames::ethernet(
        super::ends::MAC_B,
        super::ends::MAC_A,
        wire::EtherType::LLDP,
        &[0; 46],
    ));
    directory.write("good.pcap", pcap(&timed(&frames)));
    directory.write("keys.toml", ENDS);
    let (status, output, errors) = directory.run(&["good.pcap", "--keys", "keys.toml"]);
    assert_eq!((status, errors.as_str()), (Some(0), ""));
    assert_eq!(
        output,
        "     1      0.000000    144  ok    02:00:00:00:00:0a > 02:00:00:00:00:0b SC 02:00:00:00:00:0a/1 AN 0 E C PN 1 data 100; payload 112 0x0800\n\
         \x20    2      0.001000    144  ok    02:00:00:00:00:0a > 02:00:00:00:00:0b SC 02:00:00:00:00:0a/1 AN 0 E C PN 2 data 100; payload 112 0x0800\n\
         \x20    3      0.002000    144  ok    02:00:00:00:00:0a > 02:00:00:00:00:0b SC 02:00:00:00:00:0a/1 AN 0 E C PN 3 data 100; payload 112 0x0800\n\
         \x20    4      0.003000     60  clear 02:00:00:00:00:0a > 02:00:00:00:00:0b 0x88cc\n\
         \n\
         4 frames: 0 bad, 3 verified, 1 without SecTAG, 3 payloads delivered\n\
         SC 02:00:00:00:00:0a/1: 3 frames, 0 bad\n\
         \x20 AN 0: 3 frames, PN 1 to 3, 0 missing, 0 duplicates, 0 out of order\n\
         counters: InPktsOK 3\n\
         without SecTAG: 0x88cc 1\n"
    );
    frames[1][50] ^= 1;
    directory.write("bad.pcap", pcap(&timed(&frames)));
    let (status, output, errors) = directory.run(&["bad.pcap", "--keys", "keys.toml", "--bad"]);
    assert_eq!((status, errors.as_str()), (Some(1), ""));
    assert_eq!(output.lines().filter(|line| line.contains("BAD")).count(), 1);
    assert!(output.lines().next().unwrap().contains("InPktsNotValid: the ICV does not match"));
    let (status, output, _) = directory.run(&["bad.pcap", "--keys", "keys.toml", "--json"]);
    let objects: Vec<serde_json::Value> =
        output.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((status, objects.len()), (Some(1), 5));
    assert_eq!(objects[1]["verdict"], "bad");
    assert_eq!(objects[2]["sectag"]["pn"], 3);
    assert_eq!(objects[4]["summary"]["counters"]["InPktsNotValid"], 1);
    // Without keys nothing can be bad but what a SecTAG says.
    assert_eq!(directory.run(&["bad.pcap"]).0, Some(0));
}

#[test]
fn what_cannot_be_read_is_one_line() {
    let directory = Directory::new("errors");
    let capture = pcap(&timed(&frames(3)));
    directory.write("cut.pcap", &capture[..capture.len() - 5]);
    directory.write("text.pcap", "no capture at all, but a text");
    directory.write("capture.pcap", &capture);
    directory.write("keys.toml", ENDS.replace("000\"", "0\""));
    directory.write("open.toml", ENDS);
    fs::set_permissions(directory.0.join("open.toml"), fs::Permissions::from_mode(0o644)).unwrap();
    let rows: [(&[&str], i32, &str); 6] = [
        (
            &["cut.pcap", "--bad"],
            1,
            "frameward: cut.pcap ends in the middle of a record at octet 344, behind frame 2; the frames before it were read\n",
        ),
        (
            &["text.pcap"],
            1,
            "frameward: text.pcap is not a capture: it begins with neither a pcap nor a pcapng header; name a capture\n",
        ),
        (
            &["none.pcap"],
            1,
            "frameward: none.pcap cannot be read: No such file or directory (os error 2); name a capture that this user can read\n",
        ),
        (
            &["capture.pcap", "--keys", "keys.toml"],
            2,
            "keys.toml:6: [[sa]] key is not 32 hexadecimal digits, as gcm-aes-128 needs; correct it\n",
        ),
        (
            &["capture.pcap", "--keys", "open.toml"],
            2,
            "open.toml: open.toml can be read by others (mode 0644); chmod 600 open.toml\n",
        ),
        (
            &["capture.pcap", "--keys", "none.toml"],
            2,
            "none.toml: cannot be read: No such file or directory (os error 2); name a file that this user can read\n",
        ),
    ];
    for (arguments, status, errors) in rows {
        let (given, _, told) = directory.run(arguments);
        assert_eq!((given, told.as_str()), (Some(status), errors), "{arguments:?}");
    }
    let (status, output, _) = directory.run(&["cut.pcap"]);
    assert_eq!((status, output.lines().filter(|line| line.contains(" read ")).count()), (Some(1), 2));
    assert_eq!(directory.run(&["capture.pcap", "--replay-window", "5"]).0, Some(2), "without keys");
}

#[test]
fn a_gateways_configuration_gives_the_keys() {
    let directory = Directory::new("configuration");
    // A gateway's configuration may have no key of zeros, which is that of AN 0.
    let suite = suite::CipherSuite::GcmAes128;
    let mut sender = secy::SecY::new(A, SETTINGS);
    start_sending(&mut sender, transmit_sa(suite, 1, 1, wire::Pn::LAST_64));
    directory.write("capture.pcap", pcap(&timed(&protected(&mut sender, &sdus(3, 100)))));
    directory.write("a.key", "01".repeat(16));
    directory.write("b.key", "11".repeat(16));
    let config = |own: &str, peer: &str| {
        format!(
            "[gateway]\nname = \"press\"\n[[link]]\nname = \"press\"\nplain = \"p\"\nprotected = \"q\"\n\
             suite = \"gcm-aes-128\"\n[link.static]\nan = 1\nsci = \"02:00:00:00:00:0{own}/1\"\n\
             key_file = \"{own}.key\"\n[[link.static.peer]]\nan = 1\nsci = \"02:00:00:00:00:0{peer}/1\"\n\
             key_file = \"{peer}.key\"\nreplay_floor = \"off\"\n"
        )
    };
    // The capture holds what the first gateway sends and the second one receives.
    for (own, peer) in [("a", "b"), ("b", "a")] {
        directory.write("press.toml", config(own, peer));
        let (status, output, errors) = directory.run(&["capture.pcap", "--keys", "press.toml"]);
        assert_eq!((status, errors.as_str()), (Some(0), ""));
        assert!(output.contains("3 frames: 0 bad, 3 verified"), "{output}");
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let directory = Directory::new("pipe");
    directory.write("long.pcap", pcap(&timed(&frames(5000))));
    let mut child =
        directory.command(&["long.pcap"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut some = [0; 100];
    child.stdout.take().unwrap().read_exact(&mut some).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn standard_input_is_a_capture_too() {
    let directory = Directory::new("stdin");
    directory.write("capture.pcap", pcap(&timed(&frames(2))));
    let input = fs::File::open(directory.0.join("capture.pcap")).unwrap();
    let output = directory.command(&["-"]).stdin(input).output().unwrap();
    assert!(String::from_utf8(output.stdout).unwrap().contains("2 frames: 0 bad"));
}

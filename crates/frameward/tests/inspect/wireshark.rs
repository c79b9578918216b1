//! Wireshark on what we write and send: tshark reads decrypted captures, and runs the dissector for fragmented frames.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use secy::Settings;
use secy::fragment::Rules;
use suite::CipherSuite;
use testkit::fixture::vectors;

use super::command::Directory;
use super::ends::fragments::{EXT, Forged, MF, REASSEMBLING, data, header, protect_assembled, send};
use super::ends::{A, Outcome, SETTINGS, protected, sdu, sdus, sender};
use super::fixtures::keys;
use super::reasons::covered;
use super::{ENDS, inspect, pcap, sas, timed};

const GCM: CipherSuite = CipherSuite::GcmAes128;

/// Standard output of tshark: without its warning that it runs as root.
fn tshark(arguments: &[&str]) -> String {
    let output = Command::new("tshark")
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("tshark: {error}; install it with scripts/setup.sh test"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert!(!errors.contains("Lua"), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// The octets of all frames, as a hexadecimal dump.
fn dump(capture: &Path) -> Vec<String> {
    let text = tshark(&["-r", capture.to_str().unwrap(), "-x"]);
    let octets = |line: &&str| line.len() > 54 && line.as_bytes()[..4].iter().all(u8::is_ascii_hexdigit);
    text.lines().filter(octets).map(str::to_owned).collect()
}

fn path(directory: &Directory, name: &str) -> PathBuf {
    directory.0.join(name)
}

#[test]
fn wireshark_reads_decrypted_captures_as_the_clear_ones() {
    for name in ["gcm-aes-128-enc-sci", "gcm-aes-128-enc-jumbo", "gcm-aes-xpn-256-enc-cross32"] {
        let directory = Directory::new(name);
        let case = testkit::fixture::macsec_cases("macsec-kernel").into_iter().find(|case| case.name == name);
        directory.write("keys.toml", keys(&case.unwrap()));
        let folder = vectors().join("macsec-kernel");
        let wire = folder.join(format!("{name}.wire.pcap"));
        let arguments = [wire.to_str().unwrap(), "--keys", "keys.toml", "--write", "clear.pcapng"];
        let (status, _, errors) = directory.run(&arguments);
        assert_eq!((status, errors.as_str()), (Some(0), ""));
        let clear = dump(&folder.join(format!("{name}.clear.pcap")));
        assert!(!clear.is_empty());
        assert_eq!(dump(&path(&directory, "clear.pcapng")), clear, "{name}");
        // Plaintext is for the eyes of its owner, and never written over something else.
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &fs::metadata(path(&directory, "clear.pcapng")).unwrap().permissions(),
        );
        assert_eq!(mode & 0o777, 0o600);
        let (status, _, errors) = directory.run(&arguments);
        assert_eq!(status, Some(1));
        assert_eq!(
            errors,
            "frameward: cannot write clear.pcapng: File exists (os error 17); name a new file\n"
        );
    }
}

#[test]
fn decrypted_captures_say_where_each_frame_comes_from() {
    let directory = Directory::new("comments");
    let settings = Settings { mtu: 1500, ..REASSEMBLING };
    let mut wire =
        send(&mut sender(A, settings, GCM, 90), &Rules::new(&settings, true, false), &[sdu(1512, 1)]);
    wire.extend(protected(&mut sender(A, SETTINGS, GCM, 95), &sdus(2, 100)));
    wire[3][50] ^= 1;
    wire.push(testkit::frames::ethernet(
        super::ends::MAC_B,
        super::ends::MAC_A,
        wire::EtherType::LLDP,
        &[0; 46],
    ));
    directory.write("wire.pcap", pcap(&timed(&wire)));
    directory.write("keys.toml", ENDS);
    let arguments = ["wire.pcap", "--keys", "keys.toml", "--write", "clear.pcapng"];
    assert_eq!(directory.run(&arguments).0, Some(1), "one is bad");
    let fields = tshark(&[
        "-r",
        path(&directory, "clear.pcapng").to_str().unwrap(),
        "-T",
        "fields",
        "-E",
        "separator=|",
        "-e",
        "frame.time_epoch",
        "-e",
        "frame.len",
        "-e",
        "frame.comment",
    ]);
    let bad = "bad, frame 4: InPktsNotValid; the ICV does not match, but 3 frames of this SA were verified: altered on the way, or forged";
    assert_eq!(
        fields,
        format!(
            "1700000000.001000000|1524|decrypted: frames 1, 2; SC 02:00:00:00:00:0a/1 AN 0 PN 90 to 91\n\
             1700000000.002000000|112|decrypted: frame 3; SC 02:00:00:00:00:0a/1 AN 0 PN 95\n\
             1700000000.003000000|144|{bad}\n\
             1700000000.004000000|60|in clear, frame 5\n"
        )
    );
}

/// Runs the dissector, and prints these fields of each frame.
fn dissected(directory: &Directory, wire: &[Vec<u8>], fields: &[&str]) -> Vec<String> {
    directory.write("fragmented.pcap", pcap(&timed(wire)));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/wireshark/frameward.lua");
    let (capture, script) = (path(directory, "fragmented.pcap"), format!("lua_script:{}", script.display()));
    let mut arguments =
        vec!["-X", &script, "-r", capture.to_str().unwrap(), "-T", "fields", "-E", "separator=|"];
    fields.iter().for_each(|field| arguments.extend(["-e", field]));
    tshark(&arguments).lines().map(str::to_owned).collect()
}

#[test]
fn the_dissector_takes_padded_frames_for_what_they_are() {
    let directory = Directory::new("padded");
    let settings = Settings { mtu: 1500, ..REASSEMBLING };
    let sizes = secy::FrameSizes::new(&[256, 1514]).unwrap();
    let rules = Rules::new(&settings, true, false).padded(&settings, &sizes);
    let mut a = sender(A, settings, GCM, 90);
    let mut wire = send(&mut a, &rules, &[sdu(1512, 1)]);
    wire.extend(protect_assembled(&mut a, &[covered(&[], 98)]).into_iter().map(Outcome::passed));
    let fields = ["frameward.extension", "frameward.data.length", "frameward.segment.length", "_ws.expert"];
    let told = dissected(&directory, &wire, &fields);
    let seen = |mark: &str, octets| format!("{mark}|{octets}||");
    assert_eq!(told, [seen("0x0004", 1514 - 46), seen("0x0004", 256 - 46), seen("0x000c", 100)]);
}

#[test]
fn the_dissector_shows_what_we_fragment_and_leaves_the_rest() {
    let directory = Directory::new("dissector");
    let settings = Settings { mtu: 1500, ..REASSEMBLING };
    let sdus: Vec<_> =
        [1512, 200, 1512, 64].iter().enumerate().map(|(n, &octets)| sdu(octets, n as u64)).collect();
    let mut wire = send(&mut sender(A, settings, GCM, 90), &Rules::new(&settings, true, true), &sdus);
    let fragmented = wire.len();
    wire.extend(protected(&mut sender(A, SETTINGS, GCM, 95), &super::ends::sdus(1, 100)));
    let fields = [
        "frameward.an",
        "frameward.pn",
        "frameward.mf",
        "frameward.ext",
        "frameward.extension.segl",
        "frameward.extension.cf",
        "frameward.segment.length",
        "frameward.data.length",
        "macsec.PN",
        "_ws.expert",
    ];
    let told = dissected(&directory, &wire, &fields);
    let one = |set: bool| u8::from(set).to_string();
    let list = |values: Vec<String>| values.join(",");
    let expected: Vec<_> = inspect(&pcap(&timed(&wire)), Some(sas(ENDS)))
        .frames
        .iter()
        .map(|(report, _)| {
            let tag = report.sectag.as_ref().unwrap();
            if !tag.mf && !tag.ext {
                return format!("||||||||{}|", tag.pn);
            }
            let segl = list(tag.extensions.iter().map(|header| header.segl.to_string()).collect());
            let cf = list(tag.extensions.iter().map(|header| one(header.cf)).collect());
            let segments = list(tag.segments.iter().map(u16::to_string).collect());
            let data = report.secure_data.unwrap();
            format!("{}|{}|{}|{}|{segl}|{cf}|{segments}|{data}||", tag.an, tag.pn, one(tag.mf), one(tag.ext))
        })
        .collect();
    assert_eq!(told, expected);
    assert!(
        fragmented >= 3 && told[..fragmented].iter().filter(|line| !line.starts_with('|')).count() >= 2,
        "{told:?}"
    );
}

#[test]
fn the_dissector_names_each_broken_rule() {
    let directory = Directory::new("malformed");
    let frame = |octets| Forged::new(GCM, 7, &data(octets, 1));
    let cut = |frame: &[u8], octets: usize| frame[..octets].to_vec();
    let bits = |mut frame: Vec<u8>, at: usize, bits: u8| {
        frame[at] |= bits;
        frame
    };
    let many = vec![header(3, false); 33];
    let rows = [
        (frame(100).with_headers(&[header(40, false)]).seal(), ""),
        (frame(100).piece(true, true).seal(), ""),
        (frame(100).with_headers(&[header(40, false) | 4]).seal(), "A reserved bit"),
        (frame(100).with_headers(&[header(40, false), header(9, true)]).seal(), "CF outside the first"),
        (frame(100).with_headers(&[header(0, false)]).seal(), "SEGL 0 anywhere"),
        (frame(100).with_headers(&[header(0, true), header(4, false)]).seal(), "SEGL 0 anywhere"),
        (frame(100).with_headers(&[header(100, false)]).seal(), "The segments leave nothing"),
        (frame(100).with_headers(&[header(99, false)]).seal(), "A segment that begins a payload is shorter"),
        (frame(100).with_headers(&[header(1, true)]).seal(), "A segment that begins a payload is shorter"),
        (frame(200).with_headers(&many).seal(), "More than 32"),
        (cut(&frame(100).with_headers(&[header(40, false)]).seal(), 29), "More than 32"),
        (cut(&frame(100).with_headers(&[header(40, false)]).seal(), 20), "The frame ends inside the SecTAG"),
        (cut(&frame(100).piece(false, true).seal(), 60), "Fewer octets than SL"),
        (Forged { short_length: Some(50), ..frame(100).piece(false, true) }.seal(), "SL is above 47"),
        (Forged { short_length: Some(1), ..frame(100).piece(false, true) }.seal(), "SL is above 47"),
        (bits(frame(100).piece(false, true).seal(), 14, 0x80), "The version bit"),
        (bits(frame(100).piece(false, true).seal(), 14, 0x40), "ES or SCB"),
    ];
    let wire: Vec<_> = rows.iter().map(|(frame, _)| frame.clone()).collect();
    assert!(wire.iter().all(|frame| frame[15] & (MF | EXT) != 0));
    let told = dissected(&directory, &wire, &["_ws.expert.message"]);
    assert_eq!(told.len(), rows.len());
    for (index, (told, (_, expected))) in told.iter().zip(&rows).enumerate() {
        assert!(
            told.starts_with(expected) && told.is_empty() == expected.is_empty(),
            "{index}: {told:?} {expected:?}"
        );
    }
    // The same frames, as the product judges them.
    let judged = inspect(&pcap(&timed(&wire)), Some(sas(ENDS)));
    for (index, (report, _)) in judged.frames.iter().enumerate().skip(2) {
        assert!(report.counter.is_some(), "{index}: {report:?}");
    }
}

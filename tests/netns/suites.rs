//! Cipher suite that the program advises on this CPU, and on one whose AES instructions are masked.

use config::suite_speed::AesInstructions;
use lab::{Shape, Topology};
use perf::demo::pair::{Choice, Scratch, configure};
use suite::CipherSuite;

use super::{lab, program};

/// Bits of AES and CLMUL; of VAES and VPCLMULQDQ. aws-lc heeds them, libaegis does not.
#[cfg(target_arch = "x86_64")]
const MASK: &str = "OPENSSL_ia32cap=~0x200000200000000:~0x60000000000";

/// Lines of `check` on the suites, the link's suite and antedating, with this in its environment.
#[cfg(target_arch = "x86_64")]
fn plan(topology: &Topology, scratch: &Scratch, environment: &str) -> [String; 3] {
    let config = scratch.path().join("a.toml");
    let command = [
        "env",
        "-u",
        "OPENSSL_ia32cap",
        environment,
        program().to_str().unwrap(),
        "check",
        "--verbose",
        config.to_str().unwrap(),
    ];
    let output = topology.gateway_a.namespace.run(&command).unwrap();
    let line = |name: &str| {
        let found = output.stdout.lines().find(|line| line.trim_start().starts_with(name));
        found.unwrap_or_else(|| panic!("no {name} in {}", output.stdout)).to_owned()
    };
    [line("suites "), line("speed "), line("antedate ")]
}

/// Without AES instructions GCM takes many times as long (about 20 times here), so that ChaCha20-Poly1305 is advised;
/// AEGIS is not, since its figure would be that of a CPU with AES.
#[test]
#[cfg(target_arch = "x86_64")]
fn check_advises_what_is_fast_on_this_cpu() {
    assert!(std::arch::is_x86_feature_detected!("aes"), "nothing to be masked here");
    let topology = Topology::build(&Shape::default()).unwrap();
    let scratch = Scratch::new().unwrap();
    configure(&scratch, &Choice { suite: CipherSuite::GcmAes256, ..Choice::default() }).unwrap();
    let config = scratch.path().join("a.toml");
    let quiet = [program().to_str().unwrap(), "check", config.to_str().unwrap()];
    let quiet = topology.gateway_a.namespace.run(&quiet).unwrap().stdout;
    assert!(quiet.contains("overhead") && !quiet.contains("on this CPU"), "{quiet}");
    let [suites, speed, antedate] = plan(&topology, &scratch, "UNMASKED=1");
    assert!(suites.contains("on this CPU: ") && suites.contains("aegis-256 "), "{suites}");
    assert!(!suites.contains("morus"), "{suites}");
    assert!(
        suites.find("gcm-aes-256") < suites.find("chacha20-poly1305"),
        "the fastest comes first: {suites}"
    );
    assert!(!speed.contains("chacha20-poly1305"), "{speed}");
    // Whether it pays depends on how the program was built, too, and is not judged.
    assert!(antedate.contains("; gcm-aes-256 ") && antedate.contains(" for 1468 octets"), "{antedate}");
    let [suites, speed, _] = plan(&topology, &scratch, MASK);
    assert!(suites.contains("AES instructions masked") && !suites.contains("aegis-"), "{suites}");
    assert!(suites.contains(": chacha20-poly1305 "), "now this is the fastest: {suites}");
    assert!(speed.contains("; consider chacha20-poly1305 ("), "{speed}");
}

#[test]
fn a_running_gateway_tells_how_fast_the_suites_are() {
    let (_topology, pair) = lab(&Shape::default(), &Choice::default());
    let speeds = pair.a.report().unwrap().suite_speeds.unwrap();
    assert_ne!(speeds.aes_instructions, AesInstructions::Masked);
    for suite in CipherSuite::ALL {
        assert!(speeds.nanoseconds(suite).is_some_and(|ns| ns > 0), "{suite}");
    }
    let told = pair.a.stop().unwrap();
    assert!(told.contains(&format!("cipher suites, {speeds}\n")), "{told}");
}

use super::*;
use CipherSuite::*;

/// Figures as on a server with AES instructions.
const WITH_AES: [(CipherSuite, u64); 7] = [
    (GcmAes128, 105),
    (GcmAes256, 118),
    (ChaCha20Poly1305, 325),
    (Aegis128L, 51),
    (Aegis256, 75),
    (Morus640, 700),
    (Morus1280, 400),
];
/// Figures as on a small board without them.
const WITHOUT_AES: [(CipherSuite, u64); 7] = [
    (GcmAes128, 9000),
    (GcmAes256, 11000),
    (ChaCha20Poly1305, 2900),
    (Aegis128L, 12000),
    (Aegis256, 15000),
    (Morus640, 2000),
    (Morus1280, 1500),
];

/// Speeds as measured on some CPU.
pub(crate) fn speeds(aes: AesInstructions, figures: &[(CipherSuite, u64)]) -> SuiteSpeeds {
    SuiteSpeeds::new(aes, figures.iter().copied())
}

fn present() -> SuiteSpeeds {
    speeds(AesInstructions::Present, &WITH_AES)
}

#[test]
fn the_fastest_sound_suite_of_the_configured_kind_is_advised() {
    let absent = speeds(AesInstructions::Absent, &WITHOUT_AES);
    // As when AES is masked: AEGIS is not judged.
    let masked: Vec<_> =
        WITHOUT_AES.into_iter().filter(|(suite, _)| !matches!(suite, Aegis128L | Aegis256)).collect();
    let masked = speeds(AesInstructions::Masked, &masked);
    for (speeds, configured, expected) in [
        (
            &present(),
            GcmAes128,
            "gcm-aes-128 takes 105 ns for 512 octets on this CPU; consider aegis-128l (51 ns), if Frameward stands at both ends",
        ),
        // Never a shorter key, nor a narrower PN.
        (
            &present(),
            GcmAes256,
            "gcm-aes-256 takes 118 ns for 512 octets on this CPU; consider aegis-256 (75 ns), if Frameward stands at both ends",
        ),
        (
            &present(),
            GcmAesXpn128,
            "gcm-aes-xpn-128 takes 105 ns for 512 octets on this CPU: no secure suite of its kind is faster",
        ),
        (
            &present(),
            GcmAesXpn256,
            "gcm-aes-xpn-256 takes 118 ns for 512 octets on this CPU: no secure suite of its kind is faster",
        ),
        (
            &present(),
            ChaCha20Poly1305,
            "chacha20-poly1305 takes 325 ns for 512 octets on this CPU; consider gcm-aes-256 (118 ns), which other MACsec stations may have too, or aegis-256 (75 ns), if Frameward stands at both ends",
        ),
        (
            &present(),
            Aegis128L,
            "aegis-128l takes 51 ns for 512 octets on this CPU: no secure suite of its kind is faster",
        ),
        (
            &present(),
            Aegis256,
            "aegis-256 takes 75 ns for 512 octets on this CPU: no secure suite of its kind is faster",
        ),
        (
            &present(),
            Morus1280,
            "morus-1280-128 takes 400 ns for 512 octets on this CPU; consider gcm-aes-128 (105 ns), which other MACsec stations may have too, or aegis-128l (51 ns), if Frameward stands at both ends",
        ),
        (
            &absent,
            GcmAes128,
            "gcm-aes-128 takes 9000 ns for 512 octets on this CPU; consider chacha20-poly1305 (2900 ns, with a key of 256 bits), if Frameward stands at both ends",
        ),
        (
            &absent,
            Aegis256,
            "aegis-256 takes 15000 ns for 512 octets on this CPU; consider gcm-aes-256 (11000 ns), which other MACsec stations may have too, or chacha20-poly1305 (2900 ns), if Frameward stands at both ends",
        ),
        (
            &absent,
            ChaCha20Poly1305,
            "chacha20-poly1305 takes 2900 ns for 512 octets on this CPU: no secure suite of its kind is faster",
        ),
        // MORUS is faster and is left all the same.
        (
            &absent,
            Morus640,
            "morus-640-128 takes 2000 ns for 512 octets on this CPU; consider gcm-aes-128 (9000 ns), which other MACsec stations may have too, or chacha20-poly1305 (2900 ns, with a key of 256 bits), if Frameward stands at both ends",
        ),
        (
            &masked,
            GcmAes256,
            "gcm-aes-256 takes 11000 ns for 512 octets on this CPU; consider chacha20-poly1305 (2900 ns), if Frameward stands at both ends",
        ),
        (&masked, Aegis256, "aegis-256 was not measured"),
    ] {
        let advice = Advice::new(speeds, configured);
        assert_eq!(advice.to_string(), expected);
        assert_eq!(advice.is_to_change(), expected.contains("consider"), "{configured}");
    }
}

#[test]
fn less_than_a_tenth_is_noise() {
    for (aegis, is_to_change) in [(90, true), (91, false), (100, false), (101, false)] {
        let speeds = speeds(AesInstructions::Present, &[(GcmAes128, 100), (Aegis128L, aegis)]);
        assert_eq!(Advice::new(&speeds, GcmAes128).is_to_change(), is_to_change, "{aegis}");
    }
}

#[test]
fn the_fastest_comes_first_and_the_experimental_not_at_all() {
    assert_eq!(
        present().to_string(),
        "ns for 512 octets on this CPU: aegis-128l 51, aegis-256 75, gcm-aes-128 105, gcm-aes-256 118, chacha20-poly1305 325"
    );
    let absent = speeds(AesInstructions::Absent, &WITHOUT_AES).to_string();
    assert!(absent.starts_with(
        "ns for 512 octets on this CPU, which has no AES instructions: chacha20-poly1305 2900, "
    ));
    assert!(!absent.contains("morus"));
    let json = serde_json::to_string(&speeds(AesInstructions::Masked, &[(GcmAes128, 9)])).unwrap();
    assert_eq!(
        json,
        r#"{"aes_instructions":"masked","text_octets":512,"suites":[{"suite":"gcm-aes-128","nanoseconds":9}]}"#
    );
}

/// The measurement itself: every suite has a figure that a CPU can have.
#[test]
fn every_suite_is_measured() {
    let speeds = measure();
    for suite in CipherSuite::ALL {
        let nanoseconds = speeds.nanoseconds(suite);
        let left_out = speeds.aes_instructions == AesInstructions::Masked && nanoseconds.is_none();
        // The time is not judged: this also runs under emulators. But no CPU does 512 octets in a nanosecond.
        assert!(left_out || nanoseconds.is_some_and(|ns| ns > 1), "{suite}: {nanoseconds:?}");
    }
    assert!(speeds.suites.is_sorted_by_key(|speed| speed.nanoseconds));
}

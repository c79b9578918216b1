//! Keys: of the null suite for the fuzzer, which gets past its ICV at little cost; real ones for the ordinary tests, which
//! antedate where the body has idle time.

use suite::{CipherSuite, Key};

/// The one key that the bodies use with `suite`.
#[cfg(fuzzing)]
pub(crate) fn prepared(suite: CipherSuite) -> Key {
    Key::null(suite)
}

/// The one key that the bodies use with `suite`.
#[cfg(not(fuzzing))]
pub(crate) fn prepared(suite: CipherSuite) -> Key {
    let sak = suite::Sak::new(suite, &vec![0x42; suite.key_octets()]);
    let sak = sak.expect("invariant: a key of the suite's length");
    Key::prepare_antedated(suite, &sak).expect("invariant: a key of the suite's length")
}

//! A gateway and its operator before a directory that lies, by lists of operations that chance makes: the body of the fuzz target
//! `fleet_directory`.

use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_a_directory_shows_nothing_old_half_or_foreign_is_believed_and_what_is_withheld_is_told(
        operations in proptest::collection::vec(any::<u8>(), 0..600),
    ) {
        targets::fleet_directory::run(&operations);
    }
}

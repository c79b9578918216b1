//! Five sites by lists of operations that chance makes: the body of the fuzz target `sites`, with real cipher suites.

use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn five_sites_deliver_each_frame_once_and_where_it_belongs(
        setup in any::<[u8; 6]>(),
        operations in proptest::collection::vec(any::<u8>(), 0..1500),
    ) {
        targets::sites::run(&[&setup[..], &operations].concat());
    }
}

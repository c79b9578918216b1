//! The last PNs, as the kernel sends them and as it receives ours.
//!
//! Found of Linux 6.1: at the last 32-bit PN `macsec0` stops sending without a word and loses its carrier-like state
//! until another SA becomes its encoding SA; with XPN the PN field is 0 at each 2^32, and that frame counts.

use secy::SciInclusion;
use suite::CipherSuite;
use wire::SecTag;

use super::ends::{self, Outcome};
use super::exchange::{Bench, our_secy, receive_sa, sdus};
use super::kernel::{self, ITS, ITS_SEED, ITS_SSCI, Macsec};

const fn macsec(suite: CipherSuite) -> Macsec {
    Macsec { suite, encrypt: true, sci: SciInclusion::Always, replay_window: Some(0) }
}

#[test]
fn at_its_last_pn_the_kernel_stops_and_the_next_sa_goes_on() {
    let (mut bench, macsec) = (Bench::new(), macsec(CipherSuite::GcmAes128));
    let last = u64::from(u32::MAX);
    macsec.install(&mut bench.guest, last - 1, 1);
    kernel::join(&mut bench.guest);
    let mut secy = our_secy(&macsec, 1, last - 1);
    let [one, two, lost, next] = sdus(false, [100; 4].into_iter()).try_into().unwrap();
    bench.its_to_ours(&mut secy, &[one, two]);
    bench.plain.send(&lost);
    // The next SA, at both ends.
    ends::start_receiving(&mut secy, ITS, receive_sa(CipherSuite::GcmAes128, 1, 1, 0));
    let sa = macsec.sa("tx", 1, 1, ITS_SSCI, ITS_SEED);
    bench.guest.run(&format!("ip macsec add macsec0 {sa} && ip link set macsec0 type macsec encodingsa 1"));
    bench.plain.send(&next);
    let frame = bench.protected.receive();
    let tag = SecTag::parse(&frame[12..]).unwrap();
    assert_eq!((tag.an, tag.pn), (ends::an(1), 1), "the frame before was sent after all");
    assert_eq!(ends::verify(&mut secy, &frame), Outcome::Passed(next));
}

#[test]
fn xpn_goes_on_over_two_to_the_32_both_ways() {
    let (mut bench, macsec) = (Bench::new(), macsec(CipherSuite::GcmAesXpn256));
    for edge in [1 << 32, 7 << 32] {
        macsec.install(&mut bench.guest, edge - 3, edge - 5);
        kernel::join(&mut bench.guest);
        let mut secy = our_secy(&macsec, edge - 5, edge - 3);
        for _ in 0..3 {
            bench.its_to_ours(&mut secy, &sdus(false, [0, 46, 1000].into_iter()));
            bench.ours_to_its(&mut secy, &sdus(true, [0, 46, 1000].into_iter()));
        }
        let lowest = secy.receive_scs().next().unwrap().sas().next().unwrap().window().lowest();
        assert_eq!(lowest, edge + 6, "the kernel's nine frames from {} on", edge - 3);
    }
}

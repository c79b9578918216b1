//! Express SCs with static keys: where their SAs are, and that none of their PNs comes twice. Root, for programs.

use std::collections::BTreeSet;

use pnstore::PnBlock;
use secy::{
    ClearVlan, ConfidentialityOffset, ExpressClasses, Protection, ReceiveSa, ReceiveSc, SciInclusion,
    Settings, TransmitSa, ValidateFrames,
};
use suite::{CipherSuite, Key, Sak};
use wire::MacAddr;

use super::*;
use crate::kernel_link::{KernelLink, LinkPlaceSettings};
use crate::kernel_ports::PlaceWanted;

const SUITE: CipherSuite = CipherSuite::ChaCha20Poly1305;
const PROTECTION: Protection = Protection::Encrypt(ConfidentialityOffset::Zero);
const AN0: An = An::ALL[0];

const fn sci(number: u8) -> Sci {
    Sci::new(MacAddr([2, 0, 0, 0, 0, number]), 1)
}

fn pn(number: u64) -> Pn {
    Pn::new(number).unwrap()
}

fn key(number: u8) -> Sak {
    Sak::new(SUITE, &[number; 32]).unwrap()
}

fn express_sak(number: u8) -> StaticSak {
    let sak = key(number).express(SUITE).unwrap();
    StaticSak { sci: sci(number).express().unwrap(), an: AN0, sak, xpn: None }
}

fn settings() -> Settings {
    Settings {
        protect_frames: true,
        sci_inclusion: SciInclusion::Always,
        validate_frames: ValidateFrames::Strict,
        replay_protect: true,
        clear_vlan: ClearVlan::Refuse,
        mtu: 1500,
        reassemble: true,
    }
}

fn saks(own: u8) -> StaticSaks {
    let transmit = express_sak(own);
    StaticSaks {
        name: LeaseName::new(transmit.sak.octets(), transmit.sci),
        suite: SUITE,
        protection: PROTECTION,
        transmit,
        receive: vec![express_sak(9)],
    }
}

fn lease(name: LeaseName, through: u64) -> TransmitLease {
    TransmitLease { name, an: AN0, last: Pn::LAST_32, through: pn(through) }
}

/// PNs of a link's express SC from `next` to `through`.
fn express(own: u8, next: u64, through: u64) -> ExpressPns {
    ExpressPns { lease: lease(saks(own).name, through), next: Some(pn(next)) }
}

/// Control with a lease up to 1000 for the other transmit SA.
fn control(express: ExpressPns) -> StaticControl {
    let own = LeaseName::new(key(1).octets(), sci(1));
    let floor = ReceiveFloor { name: saks(9).name, sci: express_sak(9).sci, an: AN0 };
    let keys = StaticKeys { transmit: lease(own, 1000), express: Some(express), receive: vec![floor] };
    let mut control = StaticControl::new(keys);
    control.set_saks(Some(saks(1)));
    control
}

/// Programs for the express SCs, in front of no ports.
fn programs() -> KernelLink {
    let mut kernel = KernelLink::new(xdp::Link::load(64).unwrap());
    let settings = LinkPlaceSettings {
        wanted: PlaceWanted::Auto,
        suite: SUITE,
        sci: sci(1),
        refused: None,
        secy: settings(),
        express: Some(ExpressClasses::DEFAULT),
        bypass: vec![],
        replay_window: 0,
        saks: None,
    };
    kernel.configure(&settings, &saks(1).receive.iter().map(|of| of.sci).collect::<Vec<_>>(), true).unwrap();
    kernel
}

/// A worker's SecY, with a transmit SA and a receive SA of the peer's express SC that has had PNs below `lowest`.
fn worker(lowest: u64) -> SecY {
    let prepared = |sak: &Sak| Key::prepare(SUITE, sak).unwrap();
    let mut secy = SecY::new(sci(1), settings());
    let own = TransmitSa::new(AN0, prepared(&key(1)), None, PROTECTION, pn(1), pn(1000)).unwrap();
    secy.install_transmit(Box::new(own)).unwrap();
    secy.enable_transmit(AN0).unwrap();
    let of = express_sak(9);
    secy.install_prepared_sc(&mut Some(ReceiveSc::new(of.sci, false))).unwrap();
    let sa = ReceiveSa::new(AN0, prepared(&of.sak), None, PROTECTION, pn(lowest), 0).unwrap();
    secy.install_receive(of.sci, Box::new(sa)).unwrap();
    secy.enable_receive(of.sci, AN0).unwrap();
    secy
}

/// Moves the SAs to the programs as a gateway does.
fn enter(control: &mut StaticControl, secy: &mut SecY, kernel: &mut KernelLink) {
    assert!(control.may_enter_kernel());
    let mut limited = Limited::new(control.has_express(), 0);
    limited.limit(secy, &control.scs(), &mut TakenOut::new(control.has_express()));
    assert!(control.enter_kernel(&limited, kernel, Instant::now()).unwrap().is_none());
}

/// Moves them back.
fn leave(control: &mut StaticControl, secy: &mut SecY, kernel: &mut KernelLink) {
    control.leave_kernel(&TakenOut::default(), kernel).unwrap().unwrap().install(secy);
}

/// PNs with which so many express frames leave; those that leave with none go to the worker, and count as 0.
fn sent(kernel: &KernelLink, frames: usize) -> Vec<u32> {
    let frame = [&[2; 12][..], &[0x88, 0x92], &[7; 46]].concat();
    let run = |_| {
        let ran = kernel.run_outward(&frame);
        if ran.frame == frame {
            return 0;
        }
        assert_eq!(&ran.frame[20..28], &express_sak(1).sci.octets());
        u32::from_be_bytes(ran.frame[16..20].try_into().unwrap())
    };
    (0..frames).map(run).collect()
}

#[test]
fn no_pn_of_the_express_sc_comes_twice_wherever_its_sa_is() {
    let (mut control, mut kernel, mut secy) = (control(express(1, 5, 100)), programs(), worker(1));
    assert_eq!(sent(&kernel, 2), [0, 0], "without an SA express frames are the worker's");
    let mut seen = BTreeSet::new();
    for round in 0..4 {
        enter(&mut control, &mut secy, &mut kernel);
        let pns = sent(&kernel, 3);
        assert_eq!(pns[0], 5 + 3 * round);
        assert!(pns.into_iter().all(|pn| seen.insert(pn)));
        assert!(secy.encoding_sa().is_some(), "the other transmit SA is the worker's at all times");
        leave(&mut control, &mut secy, &mut kernel);
        assert_eq!(sent(&kernel, 1), [0]);
    }
    let name = saks(1).name;
    let unused = |next| Some(UnusedPns { name, next: pn(next), through: pn(100) });
    // A reload: it goes on, or another one begins and this one's PNs go back.
    let (.., none, _) = control.replace(None, ExpressChange::Same, vec![]);
    assert_eq!(none, None);
    control.set_saks(Some(saks(1)));
    enter(&mut control, &mut secy, &mut kernel);
    assert_eq!(sent(&kernel, 1), [17]);
    leave(&mut control, &mut secy, &mut kernel);
    let (.., back, _) = control.replace(None, ExpressChange::Begins(express(1, 101, 200)), vec![]);
    assert_eq!(back, unused(18));
    control.set_saks(Some(saks(1)));
    enter(&mut control, &mut secy, &mut kernel);
    assert_eq!(sent(&kernel, 2), [101, 102]);
    // An end in order, from the kernel.
    let (_, back) = control.end_in_kernel(Some(&mut kernel)).unwrap();
    assert_eq!(back, Some(UnusedPns { name, next: pn(103), through: pn(200) }));
    assert_eq!(sent(&kernel, 1), [0]);
    let (_, again) = control.end_in_kernel(Some(&mut kernel)).unwrap();
    assert_eq!(again, None, "PNs go back once");
}

#[test]
fn pns_that_nobody_knows_of_are_not_given_back() {
    let (mut control, mut kernel, mut secy) = (control(express(1, 5, 100)), programs(), worker(1));
    enter(&mut control, &mut secy, &mut kernel);
    assert_eq!(sent(&kernel, 1), [5]);
    control.lose_sas(Some(&mut kernel), "for a test");
    assert_eq!((control.end_in_kernel(Some(&mut kernel)).unwrap().1, sent(&kernel, 1)), (None, vec![0]));
    // Never in the kernel: all of them.
    let mut control = self::control(express(1, 5, 100));
    let (_, back) = control.end_in_kernel(None).unwrap();
    assert_eq!(back, Some(UnusedPns { name: saks(1).name, next: pn(5), through: pn(100) }));
}

#[test]
fn replay_windows_and_floors_go_with_the_express_sas() {
    let (mut control, mut kernel, mut secy) = (control(express(1, 1, 100)), programs(), worker(50));
    enter(&mut control, &mut secy, &mut kernel);
    assert_eq!(kernel.highest(express_sak(9).sci, AN0).unwrap(), Some(49));
    let floors = control.floors_in_kernel(&kernel).unwrap();
    assert_eq!(floors, [(saks(9).name, pn(50))]);
    leave(&mut control, &mut secy, &mut kernel);
    assert_eq!(kernel.highest(express_sak(9).sci, AN0).unwrap(), None);
    let mut read = Vec::with_capacity(1);
    crate::floors::read(&secy, &control.floors(), &mut read);
    assert_eq!(read, floors);
    enter(&mut control, &mut secy, &mut kernel);
    let (last, _) = control.end_in_kernel(Some(&mut kernel)).unwrap();
    assert_eq!(last, floors);
}

/// Each lease has its reservations: a block of the one is never the other's.
#[test]
fn blocks_go_to_the_sa_that_they_were_reserved_for() {
    let (mut control, mut kernel, mut secy) = (control(express(1, 1, 4)), programs(), worker(1));
    let now = Instant::now();
    let block = |first, last| Ok(Reservation::Block(PnBlock { first: pn(first), last: pn(last) }));
    control.lease.pending = Some(1);
    control.express.as_mut().unwrap().lease.pending = Some(2);
    assert!(control.awaits(1) && control.awaits(2) && !control.awaits(3));
    let taken = control.take_reservation(2, block(5, 8), now);
    assert!(matches!(taken, Ok(Some((AN0, through, PnUser::Later))) if through == pn(8)));
    let taken = control.take_reservation(1, block(1001, 2000), now);
    assert!(matches!(taken, Ok(Some((AN0, through, PnUser::Worker))) if through == pn(2000)));
    enter(&mut control, &mut secy, &mut kernel);
    assert_eq!(control.look_in_kernel(&mut kernel, now + LOOKED), Some(secy::NextAction::Continue));
    assert_eq!(sent(&kernel, 8), [1, 2, 3, 4, 5, 6, 7, 8]);
    let need = control.look_in_kernel(&mut kernel, now + 2 * LOOKED);
    assert_eq!(need, Some(secy::NextAction::AwaitReservation));
    control.express.as_mut().unwrap().lease.pending = Some(3);
    let gap = control.take_reservation(3, block(10, 20), now);
    assert!(matches!(gap, Err(ReservationFault::Gap)));
    control.express.as_mut().unwrap().lease.pending = Some(4);
    let taken = control.take_reservation(4, block(9, 20), now);
    let Ok(Some((an, through, PnUser::Kernel))) = taken else { panic!("for the programs") };
    kernel.reserve_through(an, through).unwrap();
    assert_eq!(sent(&kernel, 1), [9]);
    // A disk that failed is asked again for the one that needs it.
    control.express.as_mut().unwrap().lease.pending = Some(5);
    let failed = Err(LeaseError::Full { path: std::path::PathBuf::new() });
    assert!(matches!(control.take_reservation(5, failed, now), Err(ReservationFault::Disk(_))));
    let due = now + LEASE_RETRY;
    let of_express = control.express.as_ref().unwrap();
    assert!(of_express.lease.is_due(due) && !of_express.lease.is_due(now) && !control.lease.is_due(due));
}

/// Longer than control's interval between two looks.
const LOOKED: Duration = Duration::from_millis(20);

/// Programs that have no PN left of an SA take none: express frames are the worker's.
#[test]
fn without_pns_express_frames_go_out_on_the_other_sc() {
    let last = Pn::LAST_32.number();
    let (mut control, mut kernel, mut secy) = (control(express(1, last, last)), programs(), worker(1));
    enter(&mut control, &mut secy, &mut kernel);
    assert_eq!(sent(&kernel, 1), [u32::MAX]);
    let need = control.look_in_kernel(&mut kernel, Instant::now() + LOOKED);
    assert_eq!(need, Some(secy::NextAction::Exhausted));
    kernel.disable_transmit().unwrap();
    assert_eq!(sent(&kernel, 1), [0]);
    leave(&mut control, &mut secy, &mut kernel);
    enter(&mut control, &mut secy, &mut kernel);
    assert_eq!(sent(&kernel, 1), [0], "a used up SA does not come back");
}

/// A start with a lease that is used up, as after a restart: all other frames pass, and the place says why.
#[test]
fn a_start_without_express_pns_has_all_else() {
    let none = ExpressPns { lease: lease(saks(1).name, Pn::LAST_32.number()), next: None };
    let (mut control, mut kernel, mut secy) = (control(none), programs(), worker(1));
    assert!(control.is_express_used_up());
    enter(&mut control, &mut secy, &mut kernel);
    assert_eq!((sent(&kernel, 1), secy.encoding_sa()), (vec![0], Some(AN0)));
    assert_eq!(kernel.highest(express_sak(9).sci, AN0).unwrap(), Some(0), "the peer's are received");
    assert_eq!(control.end_in_kernel(Some(&mut kernel)).unwrap().1, None, "no PN goes back");
}

/// Blocks double while frames come; and an SA that takes over from one under load begins where that stands, not at 2^16.
#[test]
fn blocks_double_and_a_replacing_sa_goes_on_with_the_size() {
    let path = std::env::temp_dir().join(format!("frameward-blocks-{}", std::process::id()));
    let mut leases = pnstore::LeaseStore::open(&path, None).unwrap();
    let name = LeaseName::new(&[1; 32], sci(1));
    let Ok(Reservation::Block(first)) = leases.reserve(name, Pn::LAST_32, FIRST_BLOCK_PNS) else { panic!() };
    let mut lease_thread = LeaseThread::start(leases, std::thread::current()).unwrap();
    let lease_of = |through: Pn| TransmitLease { name, an: AN0, last: Pn::LAST_32, through };
    let keys = StaticKeys { transmit: lease_of(first.last), express: None, receive: Vec::new() };
    let mut control = StaticControl::new(keys);
    let mut next = |control: &mut StaticControl| {
        let before = control.transmit_lease().through.number();
        control.reserve(false, &mut lease_thread);
        let end = Instant::now() + Duration::from_secs(60);
        let (ticket, reservation) = loop {
            match lease_thread.next_answer() {
                Some(crate::lease_thread::Answer::Reserved { ticket, reservation }) => {
                    break (ticket, reservation);
                }
                _ => assert!(Instant::now() < end),
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        assert!(
            control.take_reservation(ticket, reservation, Instant::now()).is_ok_and(|block| block.is_some())
        );
        let size = control.transmit_lease().through.number() - before;
        assert_eq!(size, control.latest_block().get());
        size
    };
    assert_eq!([(); 3].map(|()| next(&mut control)), [1 << 17, 1 << 18, 1 << 19]);
    let goes_on = lease_of(control.transmit_lease().through);
    control.replace(Some(goes_on), ExpressChange::None, Vec::new());
    assert_eq!(control.latest_block().get(), 1 << 19);
    assert_eq!([(); 2].map(|()| next(&mut control)), [1 << 20, 1 << 20]);
    std::fs::remove_dir_all(&path).unwrap();
}

//! Frames through SecYs, for tests that look at frames one by one, and what the counters say of it.
#![allow(dead_code, unreachable_pub, missing_docs)] // each test binary uses its part

use secy::{
    ClearVlan, ConfidentialityOffset, Frame, Incoming, NextAction, Outgoing, Protection, ReceiveDiscard,
    ReceiveSa, ReceiveSaCounters, SciInclusion, SduBuffer, SecY, SecYCounters, Settings, TransmitDiscard,
    TransmitSa, TransmitSaCounters, ValidateFrames, XpnBinding,
};
use suite::{CipherSuite, Key, Sak, Salt};
use testkit::frames;
use wire::{An, EtherType, Instant, MacAddr, Pn, Sci, Ssci};

pub mod fragments;

/// Room in front of and behind a frame.
const ROOM: usize = 128;

pub const MAC_A: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xa]);
pub const MAC_B: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xb]);
/// The SCIs of stations that send; those of MAC_A and MAC_B at port 1 can be left out with ES.
pub const A: Sci = Sci::new(MAC_A, 1);
pub const B: Sci = Sci::new(MAC_B, 1);
/// The SCI of the SecY that receives.
pub const HERE: Sci = Sci::new(MacAddr([2, 0, 0, 0, 0, 1]), 1);

#[derive(Debug, PartialEq, Eq, Clone)]
pub enum Outcome<D> {
    Passed(Vec<u8>),
    Discarded(D),
}

impl<D: std::fmt::Debug> Outcome<D> {
    pub fn passed(self) -> Vec<u8> {
        match self {
            Self::Passed(octets) => octets,
            Self::Discarded(reason) => panic!("discarded: {reason:?}"),
        }
    }
}

pub const SETTINGS: Settings = Settings {
    protect_frames: true,
    sci_inclusion: SciInclusion::Always,
    validate_frames: ValidateFrames::Strict,
    replay_protect: true,
    clear_vlan: ClearVlan::Refuse,
    reassemble: false,
    mtu: 1532,
};

pub const fn an(number: u8) -> An {
    match An::new(number) {
        Some(an) => an,
        None => panic!("0 to 3"),
    }
}

pub fn pn(number: u64) -> Pn {
    Pn::new(number).expect("not 0")
}

/// A key of `suite`; `seed` tells it from others.
pub fn key(suite: CipherSuite, seed: u8) -> Key {
    let sak = Sak::new(suite, &vec![seed; suite.key_octets()]).expect("a key of the right length");
    Key::prepare(suite, &sak).expect("the suite's own SAK")
}

/// SSCI and salt, if `suite` wants them.
pub fn xpn(suite: CipherSuite) -> Option<XpnBinding> {
    suite.is_xpn().then_some(XpnBinding { ssci: Ssci(7), salt: Salt(*b"salt of test") })
}

/// Encrypted from the first octet on.
pub const ENCRYPT: Protection = Protection::Encrypt(ConfidentialityOffset::Zero);

/// Settings of a SecY, and how its SA protects.
#[derive(Clone, Copy, Debug)]
pub struct End {
    pub settings: Settings,
    pub protection: Protection,
}

impl From<Settings> for End {
    fn from(settings: Settings) -> Self {
        Self { settings, protection: ENCRYPT }
    }
}

impl From<(Settings, Protection)> for End {
    fn from((settings, protection): (Settings, Protection)) -> Self {
        Self { settings, protection }
    }
}

pub fn transmit_sa(suite: CipherSuite, number: u8, first: u64, reserved: Pn) -> Box<TransmitSa> {
    transmit_sa_of(ENCRYPT, suite, number, first, reserved)
}

pub fn transmit_sa_of(
    protection: Protection,
    suite: CipherSuite,
    number: u8,
    first: u64,
    reserved: Pn,
) -> Box<TransmitSa> {
    let sa = TransmitSa::new(an(number), key(suite, number), xpn(suite), protection, pn(first), reserved);
    Box::new(sa.expect("an SA"))
}

pub fn receive_sa(suite: CipherSuite, number: u8, lowest: u64, window: u32) -> Box<ReceiveSa> {
    receive_sa_of(ENCRYPT, suite, number, lowest, window)
}

pub fn receive_sa_of(
    protection: Protection,
    suite: CipherSuite,
    number: u8,
    lowest: u64,
    window: u32,
) -> Box<ReceiveSa> {
    let sa = ReceiveSa::new(an(number), key(suite, number), xpn(suite), protection, pn(lowest), window);
    Box::new(sa.expect("an SA"))
}

/// A SecY that sends as `sci` under AN 0, from PN `first` on.
pub fn sender(sci: Sci, end: impl Into<End>, suite: CipherSuite, first: u64) -> SecY {
    let End { settings, protection } = end.into();
    let mut secy = SecY::new(sci, settings);
    start_sending(&mut secy, transmit_sa_of(protection, suite, 0, first, Pn::LAST_64));
    secy
}

pub fn start_sending(secy: &mut SecY, sa: Box<TransmitSa>) {
    let an = sa.an();
    secy.install_transmit(sa).expect("a free AN");
    secy.enable_transmit(an).expect("installed");
}

/// A SecY that receives from A under AN 0.
pub fn receiver(end: impl Into<End>, suite: CipherSuite, lowest: u64, window: u32) -> SecY {
    let End { settings, protection } = end.into();
    let mut secy = SecY::new(HERE, settings);
    secy.install_receive_sc(A).expect("a free SCI");
    start_receiving(&mut secy, A, receive_sa_of(protection, suite, 0, lowest, window));
    secy
}

pub fn start_receiving(secy: &mut SecY, sci: Sci, sa: Box<ReceiveSa>) {
    let an = sa.an();
    secy.install_receive(sci, sa).expect("a free AN");
    secy.enable_receive(sci, an).expect("installed");
}

/// An SDU of `octets` octets behind its addresses, from MAC_A, that no other number has.
pub fn sdu(octets: usize, number: u64) -> Vec<u8> {
    frames::ethernet(MAC_B, MAC_A, EtherType::IPV4, &frames::payload(octets - 2, number))
}

pub fn sdus(count: u64, octets: usize) -> Vec<Vec<u8>> {
    (0..count).map(|number| sdu(octets, number)).collect()
}

pub fn chunk(octets: &[u8]) -> Vec<u8> {
    [&[0xaa; ROOM][..], octets, &[0xaa; ROOM]].concat()
}

pub fn protect(secy: &mut SecY, sdu: &[u8]) -> Outcome<TransmitDiscard> {
    protect_all(secy, &[sdu]).remove(0)
}

pub fn verify(secy: &mut SecY, frame: &[u8]) -> Outcome<ReceiveDiscard> {
    verify_all(secy, &[frame]).remove(0)
}

pub fn protect_all(secy: &mut SecY, sdus: &[impl AsRef<[u8]>]) -> Vec<Outcome<TransmitDiscard>> {
    protect_burst(secy, sdus).1
}

/// One burst; what has to be done next, and what became of each SDU.
pub fn protect_burst(
    secy: &mut SecY,
    sdus: &[impl AsRef<[u8]>],
) -> (NextAction, Vec<Outcome<TransmitDiscard>>) {
    let mut chunks: Vec<_> = sdus.iter().map(|sdu| chunk(sdu.as_ref())).collect();
    let mut burst: Vec<_> = chunks
        .iter_mut()
        .zip(sdus)
        .map(|(chunk, sdu)| Outgoing::new(Frame::new(chunk, ROOM, sdu.as_ref().len()).expect("inside")))
        .collect();
    let next = secy.protect(&mut burst);
    let done = |outgoing: Outgoing<'_>| {
        let octets = outgoing.frame().octets().to_vec();
        match outgoing.into_outcome() {
            Ok(_) => Outcome::Passed(octets),
            Err(discard) => Outcome::Discarded(discard),
        }
    };
    (next, burst.into_iter().map(done).collect())
}

/// Protects SDUs that all pass.
pub fn protected(secy: &mut SecY, sdus: &[impl AsRef<[u8]>]) -> Vec<Vec<u8>> {
    protect_all(secy, sdus).into_iter().map(Outcome::passed).collect()
}

pub fn verify_all(secy: &mut SecY, frames: &[impl AsRef<[u8]>]) -> Vec<Outcome<ReceiveDiscard>> {
    let mut chunks: Vec<_> = frames.iter().map(|frame| chunk(frame.as_ref())).collect();
    let mut burst: Vec<_> = chunks
        .iter_mut()
        .zip(frames)
        .map(|(chunk, frame)| Incoming::new(Frame::new(chunk, ROOM, frame.as_ref().len()).expect("inside")))
        .collect();
    secy.verify(Instant::START, &mut burst, &mut SduBuffer::none());
    let done = |incoming: Incoming<'_>| {
        let octets = incoming.frame().octets().to_vec();
        match incoming.into_outcome() {
            Ok(_) => Outcome::Passed(octets),
            Err(discard) => Outcome::Discarded(discard),
        }
    };
    burst.into_iter().map(done).collect()
}

/// All counters of a SecY at one moment.
#[derive(Debug, PartialEq, Eq, Clone)]
pub struct Books {
    pub secy: SecYCounters,
    pub transmit: TransmitSaCounters,
    pub transmit_sas: Vec<(An, TransmitSaCounters)>,
    pub scs: Vec<(Sci, ReceiveSaCounters)>,
    pub receive_sas: Vec<(Sci, An, ReceiveSaCounters)>,
}

pub fn books(secy: &SecY) -> Books {
    Books {
        secy: *secy.counters(),
        transmit: secy.transmit_counters(),
        transmit_sas: secy.transmit_sas().map(|sa| (sa.an(), *sa.counters())).collect(),
        scs: secy.receive_scs().map(|sc| (sc.sci(), sc.counters())).collect(),
        receive_sas: secy
            .receive_scs()
            .flat_map(|sc| sc.sas().map(|sa| (sc.sci(), sa.an(), *sa.counters())))
            .collect(),
    }
}

/// Counters that are higher in `after`, with the differences: `InPktsOK 1, InOctetsDecrypted 48`. A counter
/// that moves at an SA must move at its SC by as much.
pub fn moved(before: &Books, after: &Books) -> String {
    let mut text = Vec::new();
    let mut compare = |names: &[&'static str], before: &[u64], after: &[u64]| {
        for ((name, before), after) in names.iter().zip(before).zip(after) {
            if after != before {
                text.push(format!("{name} {}", after - before));
            }
        }
    };
    compare(SecYCounters::NAMES, &before.secy.values(), &after.secy.values());
    compare(TransmitSaCounters::NAMES, &before.transmit.values(), &after.transmit.values());
    for ((sci, sc_before), (_, sc_after)) in before.scs.iter().zip(&after.scs) {
        compare(ReceiveSaCounters::NAMES, &sc_before.values(), &sc_after.values());
        for (index, name) in ReceiveSaCounters::NAMES.iter().enumerate() {
            let of_sas = |books: &Books| -> u64 {
                let sas = books.receive_sas.iter().filter(|(of, _, _)| of == sci);
                sas.map(|(_, _, counters)| counters.values()[index]).sum()
            };
            let sc = sc_after.values()[index] - sc_before.values()[index];
            assert_eq!(of_sas(after) - of_sas(before), sc, "{name} of {sci}, SAs and SC");
        }
    }
    text.join(", ")
}

/// Frames that were given to `verify`, as the counters tell: each verdict is counted once.
pub fn received(secy: &SecY) -> u64 {
    let c = secy.counters();
    let of_secy = [
        c.in_pkts_untagged,
        c.in_pkts_no_tag,
        c.in_pkts_bad_tag,
        c.in_pkts_no_sa,
        c.in_pkts_no_sa_error,
        c.in_pkts_too_short,
        c.in_pkts_clear_vlan,
    ];
    let of_scs = secy.receive_scs().map(|sc| {
        let c = sc.counters();
        c.in_pkts_ok
            + c.in_pkts_unchecked
            + c.in_pkts_delayed
            + c.in_pkts_late
            + c.in_pkts_duplicate
            + c.in_pkts_invalid
            + c.in_pkts_not_valid
    });
    of_secy.iter().sum::<u64>() + of_scs.sum::<u64>()
}

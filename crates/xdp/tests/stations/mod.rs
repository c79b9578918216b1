//! Two gateways, each of them twice: once as the SecY of crate `secy`, and once as the programs. Whatever is done with one is done with
//! the other, and what comes of it is compared: frames octet by octet, outcomes, counters, PNs, windows.
#![allow(dead_code, clippy::unwrap_used)] // not every test uses all of it

use secy::{
    ClearVlan, ConfidentialityOffset, Delivered, Incoming, InstallError, Outgoing, Protection,
    ReceiveDiscard, ReceiveSa, ReceiveSaCounters, SciInclusion, SduBuffer, SecY, Settings, TransmitDiscard,
    TransmitSa, TransmitSaCounters, ValidateFrames, XpnBinding,
};
use suite::{CipherSuite, Key, Sak, Salt};
use wire::{An, Frame, Instant, Pn, Sci, Ssci};
use xdp::link::SaKey;
use xdp::{Link, Unclaimed, Verdict, XdpError};

pub(crate) const MTU: usize = 1532;
pub(crate) const ENCRYPT: Protection = Protection::Encrypt(ConfidentialityOffset::Zero);
pub(crate) const SETTINGS: Settings = Settings {
    protect_frames: true,
    sci_inclusion: SciInclusion::Always,
    validate_frames: ValidateFrames::Strict,
    replay_protect: true,
    clear_vlan: ClearVlan::Refuse,
    mtu: MTU,
    reassemble: false,
};
const HEADROOM: usize = 64;
const CHUNK: usize = 4096;
/// PNs of the widest replay window that the maps have room for.
pub(crate) const ROOM: u32 = 1000;
/// The loopback interface, as both ports of a gateway: a program that is only tried sends nothing.
const LOOPBACK: u32 = 1;

pub(crate) fn an(number: usize) -> An {
    An::ALL[number]
}

pub(crate) fn pn(number: u64) -> Pn {
    Pn::new(number).unwrap()
}

/// The SCI of a station.
pub(crate) fn sci(station: usize) -> Sci {
    Sci::from_octets([2, 0, 0, 0, 1, station as u8, 0, 1])
}

/// A frame that a machine behind `station` sends.
pub(crate) fn sdu(station: usize, ethertype: [u8; 2], payload: &[u8]) -> Vec<u8> {
    [&[2, 0, 0, 0, 0, 9][..], &sci(station).octets()[..6], &ethertype, payload].concat()
}

pub(crate) fn payload(octets: usize) -> Vec<u8> {
    (0..octets).map(|octet| (octet * 7 + octets) as u8).collect()
}

/// The programs: those of the crate, or those that `FRAMEWARD_LINK_OBJECT` names (`scripts/bpf_mutants.sh`).
pub(crate) fn load() -> Link {
    let loaded = match std::env::var_os("FRAMEWARD_LINK_OBJECT") {
        Some(file) => Link::load_object(&std::fs::read(file).unwrap(), ROOM),
        None => Link::load(ROOM),
    };
    loaded.unwrap_or_else(|error| panic!("{error}"))
}

/// Fate of a frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Outcome<D> {
    /// It goes on, and like this.
    Sent(Vec<u8>),
    /// It is dropped, for a reason that is counted.
    Discarded(D),
}

impl<D: std::fmt::Debug> Outcome<D> {
    pub(crate) fn sent(self) -> Vec<u8> {
        match self {
            Self::Sent(octets) => octets,
            Self::Discarded(reason) => panic!("{reason:?}"),
        }
    }
}

/// One gateway, twice.
pub(crate) struct Gateway {
    pub(crate) rust: SecY,
    pub(crate) kernel: Link,
    buffer: SduBuffer,
}

/// The gateways of two stations, 0 and 1.
pub(crate) struct World {
    pub(crate) gateways: [Gateway; 2],
    pub(crate) suite: CipherSuite,
    pub(crate) protection: Protection,
    pub(crate) window: u32,
}

impl World {
    pub(crate) fn new(suite: CipherSuite, protection: Protection, window: u32, settings: &Settings) -> Self {
        let gateways = [0, 1].map(|station| {
            let mut kernel = load();
            kernel.configure(sci(station), settings, &[], Unclaimed::Pass).unwrap();
            kernel.set_ports(LOOPBACK, LOOPBACK).unwrap();
            // Empty, until somebody fills them.
            kernel.share_slots().unwrap();
            Gateway { rust: SecY::new(sci(station), *settings), kernel, buffer: SduBuffer::none() }
        });
        Self { gateways, suite, protection, window }
    }

    /// Both stations with an SA under AN 0, whose first PN is `first`.
    pub(crate) fn secured(
        suite: CipherSuite,
        protection: Protection,
        window: u32,
        settings: &Settings,
        first: u64,
    ) -> Self {
        let mut world = Self::new(suite, protection, window, settings);
        (0..2).for_each(|station| world.install_sc(station, 1 - station).unwrap());
        (0..2).for_each(|station| world.secure(station, 0, 7, first));
        world
    }

    /// An SA of a station's transmit SC, and of its peer's receive SC, both in use.
    pub(crate) fn secure(&mut self, station: usize, number: usize, key: u8, first: u64) {
        self.install_receive(1 - station, station, number, key, first).unwrap();
        self.enable_receive(1 - station, station, number).unwrap();
        self.install_transmit(station, number, key, first, u64::MAX).unwrap();
        self.enable_transmit(station, number).unwrap();
    }

    /// A SAK and the binding of a station, both made of a number.
    fn sak(&self, station: usize, key: u8) -> (Sak, Option<XpnBinding>) {
        let sak = Sak::new(self.suite, &[key; 32]).unwrap();
        let xpn = XpnBinding { ssci: Ssci(1 + station as u32), salt: Salt([key ^ 0x5a; 12]) };
        (sak, self.suite.is_xpn().then_some(xpn))
    }

    /// Does something with both, and compares what comes of it.
    fn both(
        &mut self,
        station: usize,
        rust: impl FnOnce(&mut SecY) -> Result<(), InstallError>,
        kernel: impl FnOnce(&mut Link) -> Result<(), XdpError>,
    ) -> Result<(), InstallError> {
        let Gateway { rust: secy, kernel: link, .. } = &mut self.gateways[station];
        let (of_rust, of_kernel) = (rust(secy), kernel(link));
        match (of_rust, of_kernel) {
            (Ok(()), Ok(())) => {}
            (Err(error), Err(XdpError::Install(same))) => assert_eq!(error, same),
            (of_rust, of_kernel) => panic!("{of_rust:?} {of_kernel:?}"),
        }
        self.compare();
        of_rust
    }

    pub(crate) fn install_sc(&mut self, at: usize, of: usize) -> Result<(), InstallError> {
        self.both(at, |secy| secy.install_receive_sc(sci(of)), |link| link.install_receive_sc(sci(of)))
    }

    pub(crate) fn retire_sc(&mut self, at: usize, of: usize) {
        let retire = |secy: &mut SecY| {
            drop(secy.retire_receive_sc(sci(of)));
            Ok(())
        };
        self.both(at, retire, |link| link.retire_receive_sc(sci(of))).unwrap();
    }

    pub(crate) fn install_transmit(
        &mut self,
        station: usize,
        number: usize,
        key: u8,
        next: u64,
        reserved: u64,
    ) -> Result<(), InstallError> {
        let ((sak, xpn), suite, protection) = (self.sak(station, key), self.suite, self.protection);
        let sa = TransmitSa::new(
            an(number),
            Key::prepare(suite, &sak).unwrap(),
            xpn,
            protection,
            pn(next),
            pn(reserved),
        );
        let key = SaKey { suite, sak: &sak, xpn, protection };
        self.both(
            station,
            |secy| secy.install_transmit(Box::new(sa.unwrap())).map_err(|(error, _)| error),
            |link| link.install_transmit(an(number), &key, pn(next), pn(reserved)),
        )
    }

    pub(crate) fn enable_transmit(&mut self, station: usize, number: usize) -> Result<(), InstallError> {
        self.both(station, |secy| secy.enable_transmit(an(number)), |link| link.enable_transmit(an(number)))
    }

    pub(crate) fn reserve(
        &mut self,
        station: usize,
        number: usize,
        through: u64,
    ) -> Result<(), InstallError> {
        self.both(
            station,
            |secy| secy.reserve_through(an(number), pn(through)),
            |link| link.reserve_through(an(number), pn(through)),
        )
    }

    pub(crate) fn retire_transmit(&mut self, station: usize, number: usize) {
        let retire = |secy: &mut SecY| {
            drop(secy.retire_transmit(an(number)));
            Ok(())
        };
        self.both(station, retire, |link| link.retire_transmit(an(number))).unwrap();
    }

    pub(crate) fn install_receive(
        &mut self,
        at: usize,
        of: usize,
        number: usize,
        key: u8,
        lowest: u64,
    ) -> Result<(), InstallError> {
        let ((sak, xpn), suite, protection) = (self.sak(of, key), self.suite, self.protection);
        let window = self.window;
        let sa = ReceiveSa::new(
            an(number),
            Key::prepare(suite, &sak).unwrap(),
            xpn,
            protection,
            pn(lowest),
            window,
        );
        let key = SaKey { suite, sak: &sak, xpn, protection };
        self.both(
            at,
            |secy| secy.install_receive(sci(of), Box::new(sa.unwrap())).map_err(|(error, _)| error),
            |link| link.install_receive(sci(of), an(number), &key, pn(lowest), window),
        )
    }

    pub(crate) fn enable_receive(&mut self, at: usize, of: usize, number: usize) -> Result<(), InstallError> {
        self.both(
            at,
            |secy| secy.enable_receive(sci(of), an(number)),
            |link| link.enable_receive(sci(of), an(number)),
        )
    }

    pub(crate) fn raise(
        &mut self,
        at: usize,
        of: usize,
        number: usize,
        lowest: u64,
    ) -> Result<(), InstallError> {
        self.both(
            at,
            |secy| secy.raise_lowest(sci(of), an(number), pn(lowest)),
            |link| link.raise_lowest(sci(of), an(number), pn(lowest)),
        )
    }

    pub(crate) fn retire_receive(&mut self, at: usize, of: usize, number: usize) {
        let retire = |secy: &mut SecY| {
            let there = secy.receive_scs().any(|sc| sc.sci() == sci(of));
            drop(secy.retire_receive(sci(of), an(number)));
            there.then_some(()).ok_or(InstallError::UnknownSc)
        };
        let _ = self.both(at, retire, |link| link.retire_receive(sci(of), an(number)));
    }

    /// A frame of the machine behind `from`, through both.
    pub(crate) fn protect(&mut self, from: usize, frame: &[u8]) -> Outcome<TransmitDiscard> {
        let Gateway { rust, kernel, .. } = &mut self.gateways[from];
        let ran = kernel.run_outward(frame, 1).unwrap();
        let mut chunk = chunk(frame);
        let mut burst = [Outgoing::new(Frame::new(&mut chunk, HEADROOM, frame.len()).unwrap())];
        rust.protect(&mut burst);
        let [outgoing] = burst;
        let octets = outgoing.frame().octets().to_vec();
        let outcome = match outgoing.into_outcome() {
            Ok(_) => Outcome::Sent(octets),
            Err(discard) => Outcome::Discarded(discard),
        };
        agree(&outcome, &ran);
        self.compare();
        outcome
    }

    /// A frame of the network, at `to`, through both.
    pub(crate) fn verify(&mut self, to: usize, frame: &[u8]) -> Outcome<ReceiveDiscard> {
        let Gateway { rust, kernel, buffer } = &mut self.gateways[to];
        let ran = kernel.run_inward(frame, 1).unwrap();
        let mut chunk = chunk(frame);
        let mut burst = [Incoming::new(Frame::new(&mut chunk, HEADROOM, frame.len()).unwrap())];
        rust.verify(Instant::START, &mut burst, buffer);
        let [incoming] = burst;
        let octets = incoming.frame().octets().to_vec();
        let outcome = match incoming.into_outcome() {
            Ok(Delivered::Whole(_)) => Outcome::Sent(octets),
            Ok(other) => panic!("{other:?}"),
            Err(discard) => Outcome::Discarded(discard),
        };
        agree(&outcome, &ran);
        self.compare();
        outcome
    }

    /// Whether both count and hold the same. Only the programs have keystream ahead, and count frames with and without it.
    pub(crate) fn compare(&self) {
        for (station, Gateway { rust, kernel, .. }) in self.gateways.iter().enumerate() {
            assert_eq!(kernel.counters().unwrap().0, *rust.counters(), "station {station}");
            assert_eq!(
                without_ahead(kernel.transmit_counters().unwrap()),
                rust.transmit_counters(),
                "station {station}"
            );
            assert_eq!(kernel.last_unmatched().unwrap(), rust.last_unmatched(), "station {station}");
            for an in An::ALL {
                let (sa, pns) =
                    (rust.transmit_sas().find(|sa| sa.an() == an), kernel.transmit_pns(an).unwrap());
                assert_eq!(sa.is_some(), pns.is_some(), "station {station}");
                let (Some(sa), Some((pns, protects))) = (sa, pns) else { continue };
                assert_eq!(protects, rust.encoding_sa() == Some(an));
                assert_eq!((pns.next(), pns.reserved()), (sa.pns().next(), sa.pns().reserved()));
                assert_eq!(pns.next_action(), sa.pns().next_action(), "{:?}", sa.pns());
                assert_eq!(without_ahead(kernel.transmit_sa_counters(an).unwrap()), *sa.counters());
            }
            for sc in rust.receive_scs() {
                assert_eq!(
                    receive_without_ahead(kernel.receive_counters(sc.sci()).unwrap()),
                    sc.counters(),
                    "station {station}"
                );
                for an in An::ALL {
                    let (sa, window) =
                        (sc.sas().find(|sa| sa.an() == an), kernel.window(sc.sci(), an).unwrap());
                    assert_eq!(sa.is_some(), window.is_some(), "station {station}");
                    let (Some(sa), Some(window)) = (sa, window) else { continue };
                    assert_eq!(window.in_use, sa.in_use());
                    assert_eq!(
                        (window.highest, window.lowest),
                        (sa.window().highest(), sa.window().lowest())
                    );
                    assert_eq!(
                        receive_without_ahead(kernel.receive_sa_counters(sc.sci(), an).unwrap()),
                        *sa.counters()
                    );
                }
            }
        }
    }
}

fn without_ahead(counters: TransmitSaCounters) -> TransmitSaCounters {
    TransmitSaCounters { out_pkts_antedated: 0, out_pkts_not_antedated: 0, ..counters }
}

fn receive_without_ahead(counters: ReceiveSaCounters) -> ReceiveSaCounters {
    ReceiveSaCounters { in_pkts_antedated: 0, in_pkts_not_antedated: 0, ..counters }
}

fn agree<D: std::fmt::Debug>(outcome: &Outcome<D>, ran: &xdp::Ran) {
    match outcome {
        Outcome::Sent(octets) => {
            assert_eq!(ran.verdict, Verdict::Redirect, "{outcome:?}");
            assert_eq!(&ran.frame, octets);
        }
        Outcome::Discarded(reason) => assert_eq!(ran.verdict, Verdict::Drop, "{reason:?}"),
    }
}

fn chunk(frame: &[u8]) -> Vec<u8> {
    let mut chunk = vec![0xee; CHUNK];
    chunk[HEADROOM..HEADROOM + frame.len()].copy_from_slice(frame);
    chunk
}

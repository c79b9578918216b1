//! Static keys of a link: the PNs that they begin with, and a SecY with their SAs.

use std::path::PathBuf;

use control::{Gateway, ReceiveFloor, TransmitLease};
use pnstore::{LeaseError, LeaseName, LeaseStore, PnBlock, Reservation, UnmarkedKey};
use secy::{InstallError, ReceiveSa, SecY, TransmitSa};
use suite::{CipherSuite, Key, Sak};
use wire::Pn;

use super::RunError;
use super::link::bare_secy;
use config::check::Mtus;
use config::{Link, StaticSa, StaticSas};

/// Whose floors are kept.
pub(super) fn floors(sas: &StaticSas) -> Vec<ReceiveFloor> {
    let kept = sas.receive.iter().filter(|sa| sa.replay_floor);
    kept.map(|sa| ReceiveFloor { name: sa.lease_name(), sci: sa.sci, an: sa.an }).collect()
}

/// The first PNs of a link's transmit SA.
pub(super) struct Begun {
    pub(super) lease: TransmitLease,
    pub(super) block: PnBlock,
    /// A key that could not be marked as used.
    pub(super) unmarked: Option<UnmarkedKey>,
}

/// Request of static keys to the disk before their first frame; the disk's thread does it.
pub(super) struct Wanted {
    receive: Vec<(LeaseName, PathBuf)>,
    /// If the transmit SA is a new one.
    transmit: Option<(LeaseName, Pn, PathBuf)>,
}

/// The disk's answer.
pub(super) struct Granted {
    /// Where the receive SAs begin, in the order of the configuration.
    floors: Vec<Pn>,
    reservation: Option<Reservation>,
    unmarked: Option<UnmarkedKey>,
}

impl Wanted {
    pub(super) fn new(sas: &StaticSas, transmit: bool) -> Self {
        let begin = || (sas.transmit.lease_name(), sas.suite.last_pn(), sas.transmit.key_file.0.clone());
        Self {
            receive: sas.receive.iter().map(|sa| (sa.lease_name(), sa.key_file.0.clone())).collect(),
            transmit: transmit.then(begin),
        }
    }

    /// Writes down under which names frames may come from now on, before the first one can, and reserves the first block.
    pub(super) fn carry_out(self, leases: &mut LeaseStore) -> Result<Granted, LeaseError> {
        let names: Vec<_> = self.receive.iter().map(|(name, file)| (*name, file.as_path())).collect();
        let unmarked = leases.receive(&names)?;
        let floors = self.receive.iter().map(|(name, _)| leases.floor(*name)).collect();
        let Some((name, last, key_file)) = self.transmit else {
            return Ok(Granted { floors, reservation: None, unmarked });
        };
        let begin = leases.begin(name, last, &key_file)?;
        let unmarked = begin.unmarked.or(unmarked);
        Ok(Granted { floors, reservation: Some(begin.reservation), unmarked })
    }
}

impl Granted {
    /// The same before any link has frames: the disk may take its time.
    pub(super) fn at_start(sas: &StaticSas, control: &mut Gateway) -> Result<Self, LeaseError> {
        let wanted = Wanted::new(sas, true);
        control.on_disk_at_start(move |leases| wanted.carry_out(leases)).and_then(|granted| granted)
    }

    /// Has the disk do what is wanted, and waits for it, for two seconds at most.
    pub(super) fn of(sas: &StaticSas, transmit: bool, control: &mut Gateway) -> Result<Self, LeaseError> {
        let wanted = Wanted::new(sas, transmit);
        control.on_disk(move |leases| wanted.carry_out(leases)).and_then(|granted| granted)
    }

    /// Beginning of the transmit SA, if it is a new one.
    pub(super) fn begun(&mut self, link: &str, sas: &StaticSas) -> Result<Option<Begun>, RunError> {
        let Some(reservation) = self.reservation else { return Ok(None) };
        let Reservation::Block(block) = reservation else {
            return Err(RunError::PnExhausted { link: link.to_owned() });
        };
        let (name, last) = (sas.transmit.lease_name(), sas.suite.last_pn());
        let lease = TransmitLease { name, an: sas.transmit.an, last, through: block.last };
        Ok(Some(Begun { lease, block, unmarked: self.unmarked.take() }))
    }
}

/// A SecY with all its static SAs enabled: the transmit SA begins at the reserved block, receive SAs at their floors.
/// With `antedate` their keystreams are made ahead, those of the first [`SecY::ANTEDATED_SCS`] receive SCs.
/// Without a block there is no transmit SA: it is to be taken over from another SecY.
pub(super) fn secy(
    link: &Link,
    sas: &StaticSas,
    mtus: Mtus,
    block: Option<PnBlock>,
    granted: &Granted,
    antedate: bool,
) -> SecY {
    install(link, sas, mtus, block, granted, antedate).expect("invariant: a judged configuration installs")
}

fn install(
    link: &Link,
    sas: &StaticSas,
    mtus: Mtus,
    block: Option<PnBlock>,
    granted: &Granted,
    antedate: bool,
) -> Result<SecY, InstallError> {
    let StaticSa { an, sci, key: sak, xpn, .. } = &sas.transmit;
    let mut secy = bare_secy(link, *sci, mtus);
    if let Some(block) = block {
        let key = key(sas.suite, sak, antedate);
        let transmit = TransmitSa::new(*an, key, *xpn, link.protection, block.first, block.last)?;
        secy.install_transmit(Box::new(transmit)).map_err(|(error, _)| error)?;
        secy.enable_transmit(*an)?;
    }
    for (sa, floor) in sas.receive.iter().zip(&granted.floors) {
        let StaticSa { an, sci, key: sak, xpn, .. } = sa;
        if !secy.receive_scs().any(|sc| sc.sci() == *sci) {
            secy.install_receive_sc(*sci)?;
        }
        let lowest = if sa.replay_floor { *floor } else { Pn::FIRST };
        let at = secy.receive_scs().position(|sc| sc.sci() == *sci);
        let key = key(sas.suite, sak, antedate && at.is_some_and(|at| at < SecY::ANTEDATED_SCS));
        let receive = ReceiveSa::new(*an, key, *xpn, link.protection, lowest, link.replay_window)?;
        secy.install_receive(*sci, Box::new(receive)).map_err(|(error, _)| error)?;
        secy.enable_receive(*sci, *an)?;
    }
    Ok(secy)
}

fn key(suite: CipherSuite, sak: &Sak, antedate: bool) -> Key {
    let prepare = if antedate { Key::prepare_antedated } else { Key::prepare };
    prepare(suite, sak).expect("invariant: a key file was judged for the link's suite")
}

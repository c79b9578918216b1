//! Static keys of a link: the PNs that they begin with, and a SecY with their SAs.

use engine::control::{ReceiveFloor, TransmitLease};
use engine::lease::{Begin, LeaseError, LeaseStore, PnBlock, Reservation, Unmarked};
use secy::{InstallError, ReceiveSa, SecY, TransmitSa};
use suite::{CipherSuite, Key, Sak};
use wire::Pn;

use super::RunError;
use super::link::bare_secy;
use crate::check::Mtus;
use crate::config::{Link, StaticSa, StaticSas};

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
    pub(super) unmarked: Option<Unmarked>,
}

/// Writes down under which names frames may come from now on, before the first one can. A key that could not be marked.
pub(super) fn receive(sas: &StaticSas, leases: &mut LeaseStore) -> Result<Option<Unmarked>, LeaseError> {
    let names: Vec<_> = sas.receive.iter().map(|sa| (sa.lease_name(), sa.key_file.as_path())).collect();
    leases.receive(&names)
}

impl Begun {
    pub(super) fn new(link: &str, sas: &StaticSas, leases: &mut LeaseStore) -> Result<Self, RunError> {
        let unmarked_peer = receive(sas, leases)?;
        let (name, last) = (sas.transmit.lease_name(), sas.suite.last_pn());
        let Begin { reservation, unmarked } = leases.begin(name, last, &sas.transmit.key_file)?;
        let Reservation::Block(block) = reservation else {
            return Err(RunError::PnExhausted { link: link.to_owned() });
        };
        let lease = TransmitLease { name, an: sas.transmit.an, last, through: block.last };
        Ok(Self { lease, block, unmarked: unmarked.or(unmarked_peer) })
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
    leases: &LeaseStore,
    antedate: bool,
) -> SecY {
    install(link, sas, mtus, block, leases, antedate).expect("invariant: a judged configuration installs")
}

fn install(
    link: &Link,
    sas: &StaticSas,
    mtus: Mtus,
    block: Option<PnBlock>,
    leases: &LeaseStore,
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
    for sa in &sas.receive {
        let StaticSa { an, sci, key: sak, xpn, .. } = sa;
        if !secy.receive_scs().any(|sc| sc.sci() == *sci) {
            secy.install_receive_sc(*sci)?;
        }
        let lowest = if sa.replay_floor { leases.floor(sa.lease_name()) } else { Pn::FIRST };
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

//! Static keys of a link: the PNs that they begin with, and a SecY with their SAs.

use std::num::NonZeroU64;
use std::path::PathBuf;

use control::{ExpressPns, Gateway, ReceiveFloor, TransmitLease};
use pnstore::{
    FIRST_BLOCK_PNS, LeaseError, LeaseName, LeaseStore, PnBlock, Reservation, UnmarkedKey, UnusedPns,
};
use secy::{InstallError, ReceiveSa, ReceiveSc, SecY, TransmitSa};
use suite::{CipherSuite, Key, Sak};
use wire::Pn;

use super::RunError;
use super::link::bare_secy;
use config::check::Mtus;
use config::{Link, StaticSa, StaticSas};

/// Lists the receive SAs whose floors are kept, those of express SCs too.
pub(super) fn floors(link: &Link) -> Vec<ReceiveFloor> {
    let express = link.express_sas();
    let kept = link.static_sas().into_iter().chain(&express).flat_map(|sas| &sas.receive);
    let kept = kept.filter(|sa| sa.replay_floor);
    kept.map(|sa| ReceiveFloor { name: sa.lease_name(), sci: sa.sci, an: sa.an }).collect()
}

/// The first PNs of a link's transmit SA.
pub(super) struct Begun {
    pub(super) lease: TransmitLease,
    pub(super) block: PnBlock,
    /// A key that could not be marked as used.
    pub(super) unmarked: Option<UnmarkedKey>,
}

/// Transmit SAs of a link that are new ones: that of its express SC too, if it has one.
#[derive(Clone, Copy)]
pub(super) struct NewSas {
    pub(super) transmit: bool,
    pub(super) express: bool,
}

/// Name, last PN and key file of a transmit SA.
type Beginning = (LeaseName, Pn, PathBuf);

/// Request of static keys to the disk before their first frame; the disk's thread does it.
pub(super) struct Wanted {
    receive: Vec<(LeaseName, PathBuf)>,
    /// If the transmit SA is a new one.
    transmit: Option<Beginning>,
    /// If that of the express SC is.
    express: Option<Beginning>,
    /// PNs of the transmit SA's first block.
    block: NonZeroU64,
}

/// The disk's answer.
pub(super) struct Granted {
    /// Lowest PNs of the receive SAs, in the order of the configuration, and behind them those of express SCs.
    floors: Vec<Pn>,
    reservation: Option<Reservation>,
    express: Option<Reservation>,
    unmarked: Option<UnmarkedKey>,
}

impl Wanted {
    pub(super) fn new(link: &Link, sas: &StaticSas, new: NewSas) -> Self {
        let begin = |sas: &StaticSas| {
            (sas.transmit.lease_name(), sas.suite.last_pn(), sas.transmit.key_file.0.clone())
        };
        let express = link.express_sas();
        let receive = sas.receive.iter().chain(express.iter().flat_map(|sas| &sas.receive));
        Self {
            receive: receive.map(|sa| (sa.lease_name(), sa.key_file.0.clone())).collect(),
            transmit: new.transmit.then(|| begin(sas)),
            express: express.as_ref().filter(|_| new.express).map(begin),
            block: FIRST_BLOCK_PNS,
        }
    }

    /// Names of the transmit SAs.
    fn names(&self) -> [Option<LeaseName>; 2] {
        [&self.transmit, &self.express].map(|wanted| wanted.as_ref().map(|(name, ..)| *name))
    }

    /// Writes down under which names frames may come from now on, before the first one can, and reserves the first block.
    pub(super) fn carry_out(self, leases: &mut LeaseStore) -> Result<Granted, LeaseError> {
        let names: Vec<_> = self.receive.iter().map(|(name, file)| (*name, file.as_path())).collect();
        let unmarked = leases.receive(&names)?;
        let floors = self.receive.iter().map(|(name, _)| leases.floor(*name)).collect();
        let mut granted = Granted { floors, reservation: None, express: None, unmarked };
        let names = self.names();
        for (wanted, express, pns) in
            [(self.transmit, false, self.block), (self.express, true, FIRST_BLOCK_PNS)]
        {
            let Some((name, last, key_file)) = wanted else { continue };
            let begun = match leases.begin_with(name, last, &key_file, pns) {
                Ok(begun) => begun,
                Err(error) => {
                    granted.give_back(names, leases);
                    return Err(error);
                }
            };
            let of = if express { &mut granted.express } else { &mut granted.reservation };
            *of = Some(begun.reservation);
            granted.unmarked = begun.unmarked.or(granted.unmarked.take());
        }
        Ok(granted)
    }
}

impl Granted {
    /// That of a link that goes on with so many receive SAs: the disk knows its names, and what it has received comes with it. The second
    /// reservation is that of its express SC.
    pub(super) fn going_on(
        receive: usize,
        (reservation, express): (Reservation, Option<Reservation>),
        unmarked: Option<UnmarkedKey>,
    ) -> Self {
        Self { floors: vec![Pn::FIRST; receive], reservation: Some(reservation), express, unmarked }
    }

    /// The same before any link has frames: the disk may take its time.
    pub(super) fn at_start(link: &Link, sas: &StaticSas, control: &mut Gateway) -> Result<Self, LeaseError> {
        let wanted = Wanted::new(link, sas, NewSas { transmit: true, express: true });
        control.on_disk_at_start(move |leases| wanted.carry_out(leases)).and_then(|granted| granted)
    }

    /// Has the disk do what is wanted, and waits for it, for two seconds at most.
    pub(super) fn of(
        link: &Link,
        sas: &StaticSas,
        new: NewSas,
        control: &mut Gateway,
    ) -> Result<Self, LeaseError> {
        let wanted = Wanted { block: control.latest_block(&link.name), ..Wanted::new(link, sas, new) };
        let names = wanted.names();
        // The SA before may go on under the same name, and is to find its next block behind its own.
        let undo = move |leases: &mut LeaseStore, granted: Result<Self, LeaseError>| {
            granted.iter().for_each(|granted| granted.give_back(names, leases));
        };
        control.on_disk_or_undo(move |leases| wanted.carry_out(leases), undo).and_then(|granted| granted)
    }

    /// Gives its blocks back, of transmit SAs with these names that are not to be.
    fn give_back(&self, names: [Option<LeaseName>; 2], leases: &mut LeaseStore) {
        let unused = names.into_iter().zip([self.reservation, self.express]).filter_map(|of| match of {
            (Some(name), Some(Reservation::Block(PnBlock { first: next, last: through }))) => {
                Some(UnusedPns { name, next, through })
            }
            _ => None,
        });
        // A failed write loses them, as a crash does.
        let _ = leases.give_back(&unused.collect::<Vec<_>>());
    }

    /// Has its blocks given back, of transmit SAs of a link that are not to be: the SA before may go on under the same name, and is to find
    /// its next block behind its own.
    pub(super) fn return_blocks(self, link: &Link, sas: &StaticSas, control: &mut Gateway) {
        let express = link.express_sas().map(|sas| sas.transmit.lease_name());
        let names = [Some(sas.transmit.lease_name()), express];
        // Nobody waits for the answer: what is reserved next is so behind this.
        drop(control.begin_on_disk(move |leases| self.give_back(names, leases)));
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

    /// Beginning of the express SC's transmit SA, if it is a new one. Without PNs express frames go out on the other SC.
    pub(super) fn begun_express(&self, link: &Link) -> Option<ExpressPns> {
        let (reservation, sas) = (self.express?, link.express_sas()?);
        let (name, last) = (sas.transmit.lease_name(), sas.suite.last_pn());
        let (through, next) = match reservation {
            Reservation::Block(block) => (block.last, Some(block.first)),
            Reservation::Exhausted => (last, None),
        };
        Some(ExpressPns { lease: TransmitLease { name, an: sas.transmit.an, last, through }, next })
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
    let express = link.express_sas();
    let all = sas.receive.iter().chain(express.iter().flat_map(|sas| &sas.receive));
    for (at, (sa, floor)) in all.zip(&granted.floors).enumerate() {
        let StaticSa { an, sci, key: sak, xpn, .. } = sa;
        if !secy.receive_scs().any(|sc| sc.sci() == *sci) {
            // Express frames are whole.
            let reassemble = link.reassembles() && at < sas.receive.len();
            secy.install_prepared_sc(&mut Some(ReceiveSc::new(*sci, reassemble)))?;
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

//! A member that lies: it has the CAK, so its MKPDUs verify, and hears everything.

use std::sync::Arc;

use suite::{CipherSuite, Sak};
use wire::mkpdu::{
    ALGORITHM_AGILITY, BasicParameters, Capability, Confidentiality, DistributedSak, KeyUse, ParameterSet,
    PeerEntry, PeerList, SakUse, Writer,
};
use wire::{An, Ki, MacAddr, Mi, Sci};

use super::station::cak;

/// A lie of the member. It always says that it hears all.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Lie {
    /// It is the best key server there is, and gives no SAK.
    Claims,
    /// It is the best key server there is, and hands out a SAK that it made, always the same one.
    HandsOut,
    /// It is no key server, and hands out that SAK.
    Offers,
    /// It accepts and protects with the SAK in use, which it never got.
    Uses,
}

impl Lie {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Claims, Self::HandsOut, Self::Offers, Self::Uses];
}

/// Number of the member in its SCI and MI.
const NUMBER: u8 = 200;
/// MI of the member.
pub(super) const MI: Mi = Mi([NUMBER; 12]);
/// The CAK that it has.
const CAK: u8 = 1;

/// Its `mn`th MKPDU. `last`: the last ones of the others. `records`: those that handed SAKs out.
pub(super) fn mkpdu(
    lie: Lie,
    mn: u32,
    last: &[Option<Arc<[u8]>>],
    records: &[(Ki, Arc<[u8]>)],
) -> Option<Arc<[u8]>> {
    let entry = cak(CAK);
    let is_server = matches!(lie, Lie::Claims | Lie::HandsOut);
    let basic = BasicParameters {
        version: 3,
        priority: if is_server { 0 } else { 200 },
        key_server: is_server,
        macsec_desired: true,
        capability: Capability::Offsets,
        sci: Sci::new(MacAddr([2, 0, 0, 0, 0, NUMBER]), 1),
        mi: MI,
        mn,
        agility: ALGORITHM_AGILITY,
        ckn: entry.ckn,
    };
    let (mut buffer, mut room) = ([0; 1514], [0; 1024]);
    let mut writer =
        Writer::new(&mut buffer, MacAddr([1, 0x80, 0xc2, 0, 0, 3]), basic.sci.system(), 3, &basic).ok()?;
    let live = last.iter().flatten().filter_map(|octets| super::steps::sender(octets));
    let peers = PeerList::write(live.map(|(mi, mn)| PeerEntry { mi, mn }), &mut room);
    writer.push(&ParameterSet::LivePeers { key_server_ssci: 0, peers }).ok()?;
    let an = An::new(1)?;
    match lie {
        Lie::Claims => {}
        Lie::HandsOut | Lie::Offers => {
            let sak = Sak::new(CipherSuite::GcmAes128, &[NUMBER; 16]).ok()?;
            let (wrapped, octets) = entry.cak.kek(&entry.ckn).wrap(&sak);
            let confidentiality = Confidentiality::Zero;
            let sak = DistributedSak { an, confidentiality, kn: 1, suite: None, wrapped: &wrapped[..octets] };
            writer.push(&ParameterSet::DistributedSak(Some(sak))).ok()?;
        }
        Lie::Uses => {
            let (ki, _) = records.last()?;
            let latest = Some(KeyUse { ki: *ki, an, tx: true, rx: true, lowest_pn: 1 });
            let sak_use =
                SakUse { latest, old: None, plain_tx: false, plain_rx: false, delay_protect: false };
            writer.push(&ParameterSet::SakUse(sak_use)).ok()?;
        }
    }
    Some(Arc::from(writer.finish(false, |octets| entry.cak.ick(&entry.ckn).icv(octets)).ok()?))
}

//! An MKPDU as a KaY reads it: its parameter sets by name.

use arrayvec::ArrayVec;
use serde::{Deserialize, Serialize};
use wire::mkpdu::{BasicParameters, DistributedSak, Mkpdu, ParameterSet, PeerList, SakUse, Tlvs};
use wire::{An, Ki, Mi};

/// A key in use at a station.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Use {
    pub(crate) ki: Ki,
    pub(crate) an: An,
    pub(crate) tx: bool,
    pub(crate) rx: bool,
    pub(crate) lowest_pn: u64,
}

/// The latest key and the old one at most.
pub(crate) type Uses = ArrayVec<Use, 2>;

/// A parsed MKPDU, set by set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'f> {
    pub(crate) basic: BasicParameters,
    pub(crate) live: Option<PeerList<'f>>,
    potential: Option<PeerList<'f>>,
    sak_use: Option<SakUse>,
    lowest_pn_high: [u32; 2],
    /// `Some(None)`: the key server says that MACsec is not to be used.
    pub(crate) distributed: Option<Option<DistributedSak<'f>>>,
    pub(crate) announcement: Option<Tlvs<'f>>,
}

/// Entry of a station in another one's peer lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Listing {
    /// True if it is in the live list.
    pub(crate) live: bool,
    /// Last MN heard.
    pub(crate) mn: u32,
}

impl<'f> Message<'f> {
    pub(crate) fn of(mkpdu: &Mkpdu<'f>) -> Self {
        let mut message = Self {
            basic: mkpdu.basic,
            live: None,
            potential: None,
            sak_use: None,
            lowest_pn_high: [0; 2],
            distributed: None,
            announcement: None,
        };
        for set in mkpdu.sets() {
            match set {
                ParameterSet::LivePeers { peers, .. } => message.live = Some(peers),
                ParameterSet::PotentialPeers(peers) => message.potential = Some(peers),
                ParameterSet::SakUse(sak_use) => message.sak_use = Some(sak_use),
                ParameterSet::Xpn { latest_lowest_pn_high, old_lowest_pn_high, .. } => {
                    message.lowest_pn_high = [latest_lowest_pn_high, old_lowest_pn_high];
                }
                ParameterSet::DistributedSak(distributed) => message.distributed = Some(distributed),
                ParameterSet::Announcement(tlvs) => message.announcement = Some(tlvs),
                // CAKs come from files only; key management domains are for CAKs from EAP.
                ParameterSet::DistributedCak { .. } | ParameterSet::Kmd(_) | ParameterSet::Unknown { .. } => {
                }
            }
        }
        message
    }

    /// The sender's entry for this participant.
    pub(crate) fn listing(&self, mi: Mi) -> Option<Listing> {
        let find = |list: Option<PeerList<'f>>, live| {
            list?.iter().find(|heard| heard.mi == mi).map(|heard| Listing { live, mn: heard.mn })
        };
        find(self.live, true).or_else(|| find(self.potential, false))
    }

    /// Members that are live for the sender.
    pub(crate) fn live_members(&self) -> impl Iterator<Item = Mi> + use<'f> {
        self.live.into_iter().flat_map(|list| list.iter()).map(|heard| heard.mi)
    }

    /// The sender's keys.
    pub(crate) fn uses(&self) -> Uses {
        let Some(sak_use) = self.sak_use else { return Uses::new() };
        let [latest_high, old_high] = self.lowest_pn_high.map(|high| u64::from(high) << 32);
        [(sak_use.latest, latest_high), (sak_use.old, old_high)]
            .into_iter()
            .filter_map(|(key, high)| {
                let key = key?;
                let lowest_pn = high | u64::from(key.lowest_pn);
                Some(Use { ki: key.ki, an: key.an, tx: key.tx, rx: key.rx, lowest_pn })
            })
            .collect()
    }

    /// True if receivers may hold the sender to its lowest PNs.
    pub(crate) fn delay_protect(&self) -> bool {
        self.sak_use.is_some_and(|sak_use| sak_use.delay_protect)
    }
}

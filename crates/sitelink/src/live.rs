//! Stations of this LAN that are live in a key agreement across sites, as MKPDUs say that pass here.
//!
//! ```text
//!  MKPDU of the LAN ──── SCI and MI of its sender ─────────┐
//!  MKPDU of a peer ───── Live Peer List: MIs ──────────────┴─▶ SCIs of live stations ─▶ worker
//! ```
//!
//! A site has no CAK and verifies neither. But a station of another plant lists an MI only after an MKPDU with it has verified, which takes the CAK.
//! Whoever is in this LAN alone can say another's MI with an SCI of his own. If it is a station's of this LAN, nobody knows whose it is. If it is one
//! of another plant, whose stations list each other too, that says it itself, over the channel. So an MI is told of only when nobody else has said it for
//! [`ALONE`]. Flows of its station are admitted like those of others meanwhile.
//!
//! Left out on purpose: MKPDUs behind VLAN tags, those of plain peers, which the worker has, and stations that agree on keys within this LAN alone.

use std::time::Duration;

use dataplane::site::KNOWN_SENDERS;
use wire::mkpdu::{Mkpdu, ParameterSet};
use wire::{Instant, Mi, Sci};

/// Most MIs that are known: those of all senders that the worker knows, and as many others.
const MIS: usize = 2 * KNOWN_SENDERS;
/// Time for which an MI is known after its last MKPDU. A KaY is live for others for 6 s.
const FORGOTTEN: Duration = Duration::from_secs(20);
/// Time for which nobody else has to have said an MI: longer than others list one that is silent, 6 s, and what that takes on its way.
const ALONE: Duration = Duration::from_secs(10);
/// Interval at which it is told again that a station is live.
const AGAIN: Duration = Duration::from_secs(5);

/// MIs of this LAN.
#[derive(Debug, Default)]
pub(super) struct LiveStations {
    heard: Vec<Heard>,
}

#[derive(Debug)]
struct Heard {
    mi: Mi,
    sci: Sci,
    last: Instant,
    /// Time since which nobody else has said it.
    alone: Instant,
    /// Time at which it was told last that the station is live.
    told: Option<Instant>,
}

impl LiveStations {
    /// Notes the sender of an MKPDU of the LAN. One that is silent makes room for a new one; if there is none, that is not noted.
    pub(super) fn hear(&mut self, now: Instant, frame: &[u8]) {
        let Ok(mkpdu) = Mkpdu::parse(frame) else { return };
        let (mi, sci) = (mkpdu.basic.mi, mkpdu.basic.sci);
        if let Some(heard) = self.heard.iter_mut().find(|heard| heard.mi == mi) {
            if heard.sci != sci {
                (heard.sci, heard.alone) = (sci, now);
            }
            heard.last = now;
            return;
        }
        let fresh = Heard { mi, sci, last: now, alone: now, told: None };
        if self.heard.len() < MIS {
            self.heard.push(fresh);
        } else if let Some(silent) = self.heard.iter_mut().find(|heard| now.since(heard.last) > FORGOTTEN) {
            *silent = fresh;
        }
    }

    /// Tells the SCIs of stations that an MKPDU of a peer lists as live, each once in [`AGAIN`]. Its sender is none of this LAN. Work: a look at each
    /// known MI for each listed one.
    pub(super) fn read_list(&mut self, now: Instant, frame: &[u8], mut tell: impl FnMut(Sci)) {
        let Ok(mkpdu) = Mkpdu::parse(frame) else { return };
        if let Some(pretended) = self.heard.iter_mut().find(|heard| heard.mi == mkpdu.basic.mi) {
            pretended.alone = now;
        }
        for set in mkpdu.sets() {
            let ParameterSet::LivePeers { peers, .. } = set else { continue };
            for entry in peers.iter() {
                let known = self.heard.iter_mut().find(|heard| heard.mi == entry.mi);
                if let Some(heard) = known.filter(|heard| heard.is_due(now)) {
                    heard.told = Some(now);
                    tell(heard.sci);
                }
            }
        }
    }
}

impl Heard {
    fn is_due(&self, now: Instant) -> bool {
        now.since(self.last) <= FORGOTTEN
            && now.since(self.alone) >= ALONE
            && self.told.is_none_or(|told| now.since(told) >= AGAIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::mkpdu::{
        ALGORITHM_AGILITY, BasicParameters, Capability, EAPOL_VERSION, MKA_VERSION, PeerEntry, PeerList,
        Writer,
    };
    use wire::{Ckn, MacAddr};

    fn at(seconds: u64) -> Instant {
        Instant::after_start(Duration::from_secs(seconds))
    }

    fn sci(station: u16) -> Sci {
        let [high, low] = station.to_be_bytes();
        Sci::new(MacAddr([2, 0, 0, 0, high, low]), 1)
    }

    fn mi(number: u16) -> Mi {
        let mut octets = [7; 12];
        octets[..2].copy_from_slice(&number.to_be_bytes());
        Mi(octets)
    }

    /// An MKPDU of a station, with the MIs that it lists as live. Its ICV is none.
    fn mkpdu(station: u16, own: u16, live: &[u16]) -> Vec<u8> {
        let basic = BasicParameters {
            version: MKA_VERSION,
            priority: 16,
            key_server: false,
            macsec_desired: true,
            capability: Capability::Offsets,
            sci: sci(station),
            mi: mi(own),
            mn: 1,
            agility: ALGORITHM_AGILITY,
            ckn: Ckn::new(b"stations").expect("a name"),
        };
        let (mut buffer, mut room) = ([0; 1514], [0; 1024]);
        let to = MacAddr([1, 0x80, 0xc2, 0, 0, 3]);
        let mut writer =
            Writer::new(&mut buffer, to, sci(station).system(), EAPOL_VERSION, &basic).expect("room");
        let entries = live.iter().map(|&number| PeerEntry { mi: mi(number), mn: 1 });
        let peers = PeerList::write(entries, &mut room);
        if !peers.is_empty() {
            writer.push(&ParameterSet::LivePeers { key_server_ssci: 0, peers }).expect("room");
        }
        writer.finish(false, |_| [0xe0; 16]).expect("room").to_vec()
    }

    fn told(live: &mut LiveStations, seconds: u64, listed: &[u16]) -> Vec<Sci> {
        let mut all = Vec::new();
        live.read_list(at(seconds), &mkpdu(99, 99, listed), |sci| all.push(sci));
        all
    }

    #[test]
    fn a_station_is_told_if_it_was_heard_here_and_is_listed_there() {
        let mut live = LiveStations::default();
        assert_eq!(told(&mut live, 0, &[1, 2]), [], "nobody was heard");
        live.hear(at(0), &mkpdu(1, 1, &[2]));
        live.hear(at(0), &mkpdu(3, 3, &[]));
        // (seconds, MIs that are listed, stations that are told)
        let rows: [(u64, &[u16], &[u16]); 7] = [
            (9, &[1, 3], &[]),
            (10, &[2], &[]),
            (10, &[2, 1], &[1]),
            (14, &[1, 3], &[3]),
            (15, &[1, 3], &[1]),
            (20, &[1, 3], &[1, 3]),
            (25, &[1, 3], &[]),
        ];
        for (seconds, listed, stations) in rows {
            let expected: Vec<Sci> = stations.iter().map(|&station| sci(station)).collect();
            assert_eq!(told(&mut live, seconds, listed), expected, "{seconds} s");
        }
    }

    #[test]
    fn an_mi_that_two_say_is_nobodys() {
        let mut live = LiveStations::default();
        live.hear(at(0), &mkpdu(1, 1, &[]));
        for seconds in [11, 13] {
            live.hear(at(seconds), &mkpdu(66, 1, &[]));
            assert_eq!(told(&mut live, seconds, &[1]), []);
            live.hear(at(seconds + 1), &mkpdu(1, 1, &[]));
            assert_eq!(told(&mut live, seconds + 1, &[1]), []);
        }
        live.hear(at(23), &mkpdu(1, 1, &[]));
        assert_eq!(told(&mut live, 23, &[1]), []);
        assert_eq!(told(&mut live, 24, &[1]), [sci(1)]);
    }

    /// MIs of other plants are heard in this LAN, and their stations list each other.
    #[test]
    fn an_mi_of_another_plant_is_nobodys_here() {
        let mut live = LiveStations::default();
        for seconds in 0..60 {
            live.hear(at(seconds), &mkpdu(66, 2, &[]));
            if seconds % 2 == 1 {
                live.read_list(at(seconds), &mkpdu(2, 2, &[99]), |sci| panic!("{sci} was told"));
            }
            assert_eq!(told(&mut live, seconds, &[2]), [], "{seconds} s");
        }
    }

    #[test]
    fn what_is_no_mkpdu_and_who_finds_no_room_change_nothing() {
        let mut live = LiveStations::default();
        live.hear(at(0), &[0; 60]);
        live.read_list(at(0), &[0; 60], |sci| panic!("{sci} was told"));
        for number in 0..MIS as u16 + 1 {
            live.hear(at(0), &mkpdu(number, number, &[]));
        }
        let last = MIS as u16;
        assert_eq!((live.heard.len(), told(&mut live, 10, &[last, 0])), (MIS, vec![sci(0)]));
        // All are silent.
        live.hear(at(21), &mkpdu(last, last, &[]));
        assert_eq!((live.heard.len(), told(&mut live, 31, &[last, 0])), (MIS, vec![sci(last)]));
    }
}

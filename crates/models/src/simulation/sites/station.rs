//! A station of a site's LAN: it speaks MACsec with static keys to all others.

use secy::{
    ConfidentialityOffset, Delivered, Frame, Incoming, Outgoing, Protection, ReceiveSa, SduBuffer, SecY,
    TransmitSa,
};
use suite::{CipherSuite, Key, Sak};
use testkit::Chance;
use wire::{An, Instant, MacAddr, Pn, Sci};

/// Octets around a frame, for headers and ICV.
const ROOM: usize = 64;
const MTU: usize = 1532;
const PROTECTION: Protection = Protection::Encrypt(ConfidentialityOffset::Zero);
const AN: An = An::ALL[0];
/// PNs by which a frame may be late.
const REPLAY_WINDOW: u32 = 256;
/// Octets of addresses and EtherType, behind which a machine's data stands.
const FRONT: usize = 14;
pub(super) const BROADCAST: MacAddr = MacAddr([0xff; 6]);

pub(super) struct Station {
    pub(super) address: MacAddr,
    secy: SecY,
}

/// Stations with these addresses, all under keys of one SAK.
pub(super) fn all(chance: &mut Chance, addresses: &[MacAddr]) -> Result<Vec<Station>, String> {
    let suite = CipherSuite::GcmAes128;
    let sak = Sak::new(suite, &chance.octets()[..16]).map_err(|error| format!("{error:?}"))?;
    let key = || Key::prepare(suite, &sak).map_err(|error| format!("{error:?}"));
    let mut stations = Vec::new();
    for address in addresses {
        let settings = crate::simulation::strict_secy(MTU);
        let mut secy = SecY::new(Sci::new(*address, 1), settings);
        let sa = TransmitSa::new(AN, key()?, None, PROTECTION, Pn::FIRST, Pn::LAST_32);
        secy.install_transmit(Box::new(sa.map_err(|error| format!("{error:?}"))?))
            .map_err(|(error, _)| format!("{error:?}"))?;
        secy.enable_transmit(AN).map_err(|error| format!("{error:?}"))?;
        for peer in addresses.iter().filter(|peer| *peer != address) {
            let sci = Sci::new(*peer, 1);
            secy.install_receive_sc(sci).map_err(|error| format!("{error:?}"))?;
            let sa = ReceiveSa::new(AN, key()?, None, PROTECTION, Pn::FIRST, REPLAY_WINDOW);
            secy.install_receive(sci, Box::new(sa.map_err(|error| format!("{error:?}"))?))
                .map_err(|(error, _)| format!("{error:?}"))?;
            secy.enable_receive(sci, AN).map_err(|error| format!("{error:?}"))?;
        }
        stations.push(Station { address: *address, secy });
    }
    Ok(stations)
}

/// The frame with this number of a machine, with so many octets behind the number.
pub(super) fn sdu(to: MacAddr, from: MacAddr, count: u64, octets: usize) -> Vec<u8> {
    let mut frame = [&to.0[..], &from.0, &[0x88, 0x92], &count.to_be_bytes()].concat();
    frame.extend((0..octets).map(|octet| (octet as u64 * 7 + count) as u8));
    frame
}

/// The number that a machine's frame says that it has.
pub(super) fn count(sdu: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(*sdu.get(FRONT..)?.first_chunk()?))
}

impl Station {
    /// Protects a frame; nothing if it may not pass.
    pub(super) fn protect(&mut self, sdu: &[u8]) -> Option<Vec<u8>> {
        let mut chunk = room_around(sdu);
        let mut burst = [Outgoing::new(Frame::new(&mut chunk, ROOM, sdu.len())?)];
        self.secy.protect(&mut burst);
        let [outgoing] = burst;
        let octets = outgoing.frame().octets().to_vec();
        outgoing.into_outcome().is_ok().then_some(octets)
    }

    /// The frame that a received one delivers.
    pub(super) fn verify(&mut self, now: Instant, frame: &[u8]) -> Option<Vec<u8>> {
        let mut chunk = room_around(frame);
        let mut burst = [Incoming::new(Frame::new(&mut chunk, ROOM, frame.len())?)];
        self.secy.verify(now, &mut burst, &mut SduBuffer::none());
        let [incoming] = burst;
        let octets = incoming.frame().octets().to_vec();
        matches!(incoming.into_outcome(), Ok(Delivered::Whole(_))).then_some(octets)
    }
}

fn room_around(frame: &[u8]) -> Vec<u8> {
    let mut chunk = vec![0; ROOM + frame.len() + ROOM];
    chunk[ROOM..ROOM + frame.len()].copy_from_slice(frame);
    chunk
}

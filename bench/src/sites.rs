//! Two forwarding halves of sites that talk to each other, and a burst of frames between them: what the tunnel itself
//! costs, without any input or output.

use arrayvec::ArrayVec;
use suite::tunnel::EpochSecret;
use tunnel::{
    Arrival, Arrived, Command, Event, Forwarding, Generation, Limits, Mode, PeerId, PeerSettings, Settings,
};
use wire::Instant;

use crate::secys::BURST;

const PEER: PeerId = PeerId(0);
const GENERATION: Generation = Generation(1);
/// The path's UDP payload: no frame is divided.
const PATH_PAYLOAD: usize = 9000;
/// Octets of the longest frame.
const LAN_FRAME: usize = 2048;
/// Octets at the beginning of a body that may differ from those of a frame's end: all of what plain mode carries of
/// addresses and SecTAG.
const CHANGED: usize = PREFIX;
/// Octets of addresses and SecTAG in front of the body.
const PREFIX: usize = 28;

/// A site that sends, a site that receives, and a burst of one flow's frames with PNs that count up.
#[derive(Debug)]
pub struct Sites {
    sender: Forwarding,
    receiver: Forwarding,
    arrival: Arrival,
    frames: Vec<Vec<u8>>,
    packets: Vec<Vec<u8>>,
    pn: u32,
}

impl Sites {
    /// Sites in `mode`, whose frames have `octets`, without FCS; their flow is announced.
    ///
    /// # Panics
    /// If frames of `octets` are no MACsec frames, or the sites do not understand each other.
    pub fn new(mode: Mode, octets: usize) -> Self {
        assert!((PREFIX + 16..=LAN_FRAME).contains(&octets), "frames of {octets} octets");
        let site = || {
            Forwarding::new(Settings {
                peers: vec![PeerSettings { mode, path_payload: PATH_PAYLOAD }],
                lan_frame: LAN_FRAME,
                limits: Limits::default(),
                window: Settings::WINDOW,
                table_seed: [7; 16],
            })
        };
        let mut frame = vec![0x5a; octets];
        frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
        frame[12..16].copy_from_slice(&[0x88, 0xe5, 0x2c, 0]);
        frame[20..PREFIX].copy_from_slice(&[2, 0, 0, 0, 0, 1, 0, 1]);
        let arrival = match mode {
            Mode::Identifier => Arrival::Identifier,
            Mode::HeaderEncryption | Mode::Plain { .. } => Arrival::From(PEER),
        };
        let mut sites = Self {
            sender: site(),
            receiver: site(),
            arrival,
            frames: vec![frame; BURST],
            packets: vec![Vec::new(); BURST],
            pn: 0,
        };
        sites.agree();
        sites
    }

    /// What two managing halves would bring about.
    fn agree(&mut self) {
        let (peer, generation, epoch) = (PEER, GENERATION, 1);
        let secret = EpochSecret::new(&[0x3c; 32]);
        for site in [&mut self.sender, &mut self.receiver] {
            site.command(Instant::START, Command::Begin { peer, generation });
        }
        let install = Command::InstallReceive { peer, generation, epoch, secret: secret.clone(), lanes: 1 };
        self.receiver.command(Instant::START, install);
        for _ in 0..1024 {
            self.receiver.tend(Instant::START);
        }
        while self.receiver.poll_event().is_some() {}
        self.sender.command(Instant::START, Command::InstallTransmit { peer, generation, epoch, secret });
        // The first burst has the flow announced.
        self.number();
        self.take_in();
        while let Some(event) = self.sender.poll_event() {
            if let Event::Announce { index, flow, .. } = event {
                self.receiver.command(Instant::START, Command::AddFlow { peer, generation, index, flow });
                self.sender.command(Instant::START, Command::Announced { peer, generation, index });
            }
        }
        while self.sender.poll_released(Instant::START).is_some() {}
    }

    /// Gives the frames their next PNs: not to be measured.
    pub fn number(&mut self) {
        for frame in &mut self.frames {
            self.pn += 1;
            frame[16..20].copy_from_slice(&self.pn.to_be_bytes());
        }
    }

    /// Makes packets of the burst, headers written in front of the bodies where these lie, as the engine does.
    ///
    /// # Panics
    /// If a frame is none.
    pub fn send(&mut self) {
        assert_eq!(self.take_in(), BURST, "every frame goes, in one packet");
    }

    fn take_in(&mut self) -> usize {
        let mut sent = 0;
        for (frame, packet) in self.frames.iter().zip(&mut self.packets) {
            let Some(route) = self.sender.route(Instant::START, frame) else { continue };
            let packets: ArrayVec<_, 2> = self.sender.dispatch(Instant::START, &route, PEER, frame);
            if let [only] = &packets[..] {
                // A gateway writes the header where the body lies and touches none of its octets: neither does this,
                // but for the octets that changed, right behind the header.
                let body = &frame[only.body.clone()];
                packet.resize(only.header.len() + body.len(), 0x5a);
                packet[..only.header.len()].copy_from_slice(&only.header);
                let changed = body.len().min(CHANGED);
                packet[only.header.len()..][..changed].copy_from_slice(&body[..changed]);
                sent += 1;
            }
        }
        sent
    }

    /// Takes the packets of the last [`Sites::send`] in.
    ///
    /// # Panics
    /// If a packet gives no frame.
    pub fn receive(&mut self) {
        for packet in &self.packets {
            let arrived = self.receiver.inward(Instant::START, self.arrival, packet);
            assert!(matches!(arrived, Ok(Arrived::Frame { .. })), "{arrived:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_frame_of_every_burst_arrives() {
        for mode in [Mode::Identifier, Mode::HeaderEncryption, Mode::Plain { vni: 7 }] {
            for octets in [60, 1514] {
                let mut sites = Sites::new(mode, octets);
                for _ in 0..100 {
                    sites.number();
                    sites.send();
                    sites.receive();
                }
            }
        }
    }
}

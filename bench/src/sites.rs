//! Two forwarding halves of sites that talk to each other, and a burst of frames between them: what the tunnel itself
//! costs, without any input or output.

use arrayvec::ArrayVec;
use suite::tunnel::EpochSecret;
use tunnel::{
    Command, Delivery, Event, Forwarding, Generation, Limits, Mode, PacketSource, PeerId, PeerSettings,
    Settings,
};
use wire::Instant;

use speed::burst::BURST;

const GENERATION: Generation = Generation(1);
/// The path's UDP payload: no frame is fragmented.
const PATH_PAYLOAD: usize = 9000;
/// Octets of the longest frame.
const LAN_FRAME: usize = 2048;
/// Octets at the beginning of a body that may differ from those of a frame's end: all of what plain mode carries of
/// addresses and SecTAG.
const CHANGED: usize = PREFIX;
/// Octets of addresses and SecTAG in front of the body.
const PREFIX: usize = 28;

/// A site that sends, a site that receives, and a burst of frames with PNs that count up.
///
/// Many peers are played by the same two: each of them knows the other by as many names.
#[derive(Debug)]
pub struct Sites {
    sender: Forwarding,
    receiver: Forwarding,
    mode: Mode,
    peers: usize,
    flows: u32,
    /// The flow of the next frame.
    next: u32,
    frames: Vec<Vec<u8>>,
    /// To whom each frame of the burst goes.
    to: Vec<PeerId>,
    packets: Vec<Vec<u8>>,
    pn: u32,
}

impl Sites {
    /// Sites in `mode`, whose frames have `octets`, without FCS; all of one flow, which is announced.
    ///
    /// # Panics
    /// If frames of `octets` are no MACsec frames, or the sites do not understand each other.
    pub fn new(mode: Mode, octets: usize) -> Self {
        Self::many(mode, octets, 1, 1)
    }

    /// Flows towards one peer at most: there are twice as many numbers, so that none has to be given twice in an epoch.
    pub const FLOWS_OF_A_PEER: u32 = 32_768;

    /// The same with `flows` flows, each with an SCI and a source address of its own, spread over `peers` peers. All of
    /// them are announced, and come in turn.
    ///
    /// # Panics
    /// As [`Self::new`]; or if a peer has more than [`Self::FLOWS_OF_A_PEER`].
    pub fn many(mode: Mode, octets: usize, peers: usize, flows: u32) -> Self {
        assert!((PREFIX + 16..=LAN_FRAME).contains(&octets), "frames of {octets} octets");
        let most = flows as usize;
        assert!(flows.div_ceil(peers as u32) <= Self::FLOWS_OF_A_PEER, "{flows} flows for {peers} peers");
        let limits = Limits {
            flows: most.max(Limits::default().flows),
            new_flows_per_second: u32::MAX,
            stations: (2 * most).max(Limits::default().stations),
            ..Limits::default()
        };
        let site = || {
            Forwarding::new(Settings {
                peers: vec![PeerSettings { mode, path_payload: PATH_PAYLOAD }; peers],
                lan_frame: LAN_FRAME,
                limits,
                window: Settings::WINDOW,
                table_seed: [7; 16],
            })
        };
        let mut frame = vec![0x5a; octets];
        frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
        frame[12..16].copy_from_slice(&[0x88, 0xe5, 0x2c, 0]);
        frame[20..PREFIX].copy_from_slice(&[2, 0, 0, 0, 0, 1, 0, 1]);
        let mut sites = Self {
            sender: site(),
            receiver: site(),
            mode,
            peers,
            flows,
            next: 0,
            frames: vec![frame; BURST],
            to: vec![PeerId(0); BURST],
            packets: vec![Vec::new(); BURST],
            pn: 0,
        };
        sites.agree();
        sites
    }

    /// Effects of two sessions.
    fn agree(&mut self) {
        let (generation, epoch) = (GENERATION, 1);
        for number in 0..self.peers {
            let peer = PeerId(number as u16);
            let mut secret = [0x3c; 32];
            secret[..8].copy_from_slice(&(number as u64).to_be_bytes());
            let secret = EpochSecret::new(&secret);
            for site in [&mut self.sender, &mut self.receiver] {
                site.handle_command(Instant::START, Command::Begin { peer, generation });
            }
            let install =
                Command::InstallReceive { peer, generation, epoch, secret: secret.clone(), lanes: 1 };
            self.receiver.handle_command(Instant::START, install);
            for _ in 0..1024 {
                self.receiver.handle_timeout(Instant::START);
            }
            while self.receiver.poll_event().is_some() {}
            self.sender
                .handle_command(Instant::START, Command::InstallTransmit { peer, generation, epoch, secret });
        }
        // Each flow's first frame has it announced.
        for _ in 0..self.flows.div_ceil(BURST as u32) {
            self.number();
            self.take_in();
            // They are not known yet and travel in long form; taken in all the same, or the receiver's window would stay.
            for packet in self.packets.iter().filter(|packet| !packet.is_empty()) {
                let _ = self.receiver.handle_packet(Instant::START, self.arrival(PeerId(0)), packet);
            }
            while let Some(event) = self.sender.poll_event() {
                if let Event::Announce { peer, index, flow, request, .. } = event {
                    let known = Command::AddFlow { peer, generation, index, flow, request };
                    self.receiver.handle_command(Instant::START, known);
                    let known = Command::Announced { peer, generation, index, request };
                    self.sender.handle_command(Instant::START, known);
                }
            }
            while self.receiver.poll_event().is_some() {}
            while self.sender.poll_released(Instant::START).is_some() {}
        }
    }

    /// Gives the frames the next flows and their next PNs: not to be measured.
    pub fn number(&mut self) {
        for (frame, to) in self.frames.iter_mut().zip(&mut self.to) {
            self.pn += 1;
            frame[16..20].copy_from_slice(&self.pn.to_be_bytes());
            let flow = self.next.to_be_bytes();
            frame[8..11].copy_from_slice(&flow[1..]);
            frame[22..25].copy_from_slice(&flow[1..]);
            *to = PeerId((self.next as usize % self.peers) as u16);
            self.next = (self.next + 1) % self.flows;
        }
    }

    /// Makes packets of the burst, headers written in front of the bodies where these lie, as the engine does.
    ///
    /// # Panics
    /// If a frame is none.
    pub fn send(&mut self) {
        assert_eq!(self.take_in(), BURST, "every frame goes, in one packet");
    }

    const fn arrival(&self, from: PeerId) -> PacketSource {
        match self.mode {
            Mode::Identifier => PacketSource::Identifier,
            Mode::HeaderEncryption | Mode::Plain { .. } => PacketSource::From(from),
        }
    }

    fn take_in(&mut self) -> usize {
        let mut sent = 0;
        for ((frame, to), packet) in self.frames.iter().zip(&self.to).zip(&mut self.packets) {
            let Some(route) = self.sender.route(Instant::START, frame) else { continue };
            let packets: ArrayVec<_, 2> = self.sender.dispatch(Instant::START, &route, *to, frame);
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
        for (packet, from) in self.packets.iter().zip(&self.to) {
            let arrived = self.receiver.handle_packet(Instant::START, self.arrival(*from), packet);
            assert!(matches!(arrived, Ok(Delivery::Frame { .. })), "{arrived:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flow_comes_again_when_there_are_as_many_as_there_can_be() {
        let flows: u32 = 60_000;
        let mut sites =
            Sites::many(Mode::Identifier, 60, flows.div_ceil(Sites::FLOWS_OF_A_PEER) as usize, flows);
        for _ in 0..2 * flows.div_ceil(BURST as u32) {
            sites.number();
            sites.send();
            sites.receive();
        }
    }

    #[test]
    fn every_frame_of_every_burst_arrives() {
        for mode in [Mode::Identifier, Mode::HeaderEncryption, Mode::Plain { vni: 7 }] {
            for (octets, peers, flows) in [(60, 1, 1), (1514, 1, 1), (200, 8, 8), (200, 3, 300)] {
                let mut sites = Sites::many(mode, octets, peers, flows);
                for _ in 0..100 {
                    sites.number();
                    sites.send();
                    sites.receive();
                }
            }
        }
    }
}

//! Header-encryption mode: the first 32 octets of a frame are encrypted, nothing is added (wire formats,
//! section 3.2; tunnelling paper, section 4.3).
//!
//! ```text
//!  UDP | C1 16 | C2 16 | rest           C2 = AES-128(K, P2)
//!                                       C1 = AES-128(K, P1 xor P2 xor C2)
//! ```
//!
//! `outward` is the path from the LAN to the peer: `sealer` turns frames into packets, `waiting` holds the
//! frames of a flow until the peer knows it. `inward` is the path back: `opener` turns packets into frames.
//! The only integrity check is that decryption must yield the header of a flow that the peer has announced.
//! The octets behind the first 32 are not checked; the MACsec station rejects altered ones.
//!
//! The second block has to differ from packet to packet. The PN and the first four encrypted octets of the
//! frame ensure that. Extension headers may stand there instead: then encrypted octets behind them are added
//! (`header`). So this mode does not carry frames with E = 0 or without SCI. A confidentiality offset would make these four octets predictable too, and the tunnel cannot see it: `check`
//! warns whoever configures a site.

mod associations;
mod header;
mod inward;
mod known_flows;
mod opener;
mod outward;
mod sealer;
mod waiting;
mod window;

#[cfg(test)]
mod tests;

use arrayvec::ArrayVec;
use suite::tunnel::EpochSecret;
use wire::time::Instant;
use wire::tunnel::{FlowIndex, OuterTags};

use crate::counters::{InDiscard, OutDiscard, PeerCounters};
use crate::exchange::{Event, RequestId};
use crate::flows::Flows;
use crate::fragments::FragmentBuffer;
use crate::settings::{LaneShare, Limits};
use crate::site_state::{PeerContext, SiteState};

use known_flows::KnownFlows;
use opener::{EPOCHS, Opener};
use sealer::Sealer;
use waiting::Waiting;

pub(crate) use header::HEADER_OCTETS;
pub(crate) use inward::Rebuilt;
pub(crate) use window::MOST_LATE_PNS;

/// State of header-encryption mode towards one peer.
#[derive(Debug)]
pub(crate) struct HeaderEncryption {
    pub(crate) flows: Flows,
    pub(crate) known: KnownFlows,
    sealer: Sealer,
    waiting: Waiting,
    opener: Opener,
    pub(crate) fragments: FragmentBuffer,
    /// Last requested epoch's predecessor, and the time of the request.
    wanted: Option<(u32, Instant)>,
    /// Installed epochs of the peer without a readiness event yet.
    ready: ArrayVec<u32, EPOCHS>,
}

impl HeaderEncryption {
    /// All memory that is ever used: about 4 MB with the default limits.
    pub(crate) fn new(limits: &Limits, lan_frame: usize) -> Self {
        Self {
            flows: Flows::new(limits, LaneShare::WHOLE),
            known: KnownFlows::new(limits.flows),
            sealer: Sealer::new(),
            waiting: Waiting::new(lan_frame + OuterTags::OCTETS),
            opener: Opener::new(),
            fragments: FragmentBuffer::new(lan_frame),
            wanted: None,
            ready: ArrayVec::new(),
        }
    }

    /// Voids keys, windows and flows.
    pub(crate) fn void(&mut self, state: &SiteState, counters: &mut PeerCounters) {
        self.sealer.begin();
        self.opener.begin();
        self.flows.clear(&state.hasher);
        self.known.clear();
        (self.wanted, self.ready) = (None, ArrayVec::new());
        counters.count_out_times(OutDiscard::WaitVoided, self.waiting.clear());
        counters.count_in_times(InDiscard::PartRetired, self.fragments.clear());
    }

    /// Installs an epoch that the peer accepts.
    pub(crate) fn install_transmit(&mut self, now: Instant, epoch: u32, secret: &EpochSecret) {
        self.sealer.install(now, epoch, secret.header_key());
    }

    /// Installs a new epoch of the peer; [`HeaderEncryption::tell_ready`] reports it.
    pub(crate) fn install_receive(&mut self, epoch: u32, secret: &EpochSecret) {
        if self.opener.install(epoch, secret.header_key()) && !self.ready.contains(&epoch) {
            if self.ready.is_full() {
                self.ready.remove(0);
            }
            self.ready.push(epoch);
        }
    }

    /// Reports ready epochs. True if some reports found no room.
    pub(crate) fn tell_ready(&mut self, context: &PeerContext, state: &mut SiteState) -> bool {
        let (peer, generation) = (context.peer, context.generation);
        self.ready.retain(|&mut epoch| !state.events.tell(Event::ReceiveReady { peer, generation, epoch }));
        !self.ready.is_empty()
    }

    /// Records whether the peer knows a flow. True if waiting frames may go now.
    pub(crate) fn acknowledge(&mut self, index: FlowIndex, known: Option<RequestId>) -> bool {
        self.flows.acknowledge(index, known) && self.waiting.release(index)
    }

    /// Performs expiry. True while timed work is pending.
    pub(crate) fn watch(&mut self, now: Instant, counters: &mut PeerCounters) -> bool {
        counters.count_out_times(OutDiscard::WaitExpired, self.waiting.expire(now));
        counters.count_in_times(InDiscard::PartExpired, self.fragments.expire(now));
        self.opener.handle_timeout(now);
        !self.waiting.is_empty() || !self.fragments.is_empty() || self.opener.poll_timeout().is_some()
    }

    /// Transmit epoch; 0: none.
    pub(crate) fn transmit_epoch(&self) -> u32 {
        self.sealer.epoch().unwrap_or(0)
    }

    /// Receive epochs, the older one first.
    pub(crate) fn receive_epochs(&self) -> impl Iterator<Item = u32> {
        self.opener.epochs()
    }
}

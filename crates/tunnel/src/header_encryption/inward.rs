//! From the peer to the LAN. A packet changes nothing here, except that it uses up its PN, and a fragment
//! waits for its other half.

use wire::time::Instant;
use wire::tunnel::{FlowIndex, ParsedFrame};

use super::HeaderEncryption;
use super::header::{HEADER_OCTETS, PREFIX_OCTETS};
use super::window::FragmentKind;
use crate::counters::{InDiscard, PeerCounters};
use crate::fragments::{Fragment, FragmentPosition, JoinOutcome};
use crate::site_state::SiteState;

/// Frame or fragment rebuilt from a packet, without its flow's VLAN tags. The octets behind the packet's header follow it.
#[derive(Debug)]
pub(crate) enum Rebuilt {
    /// A frame, which begins with this.
    Whole(ParsedFrame, [u8; HEADER_OCTETS]),
    /// A frame that begins with this; its second fragment waits in this slot.
    First(ParsedFrame, [u8; HEADER_OCTETS], usize),
    /// A frame whose first fragment waits in this slot, without these addresses and SecTAG.
    Second(ParsedFrame, [u8; PREFIX_OCTETS], usize),
    /// A fragment that waits.
    Pending,
}

impl HeaderEncryption {
    /// Rebuilds the frame of a packet. The octets behind [`HEADER_OCTETS`] follow the result.
    pub(crate) fn inward(
        &mut self,
        now: Instant,
        counters: &mut PeerCounters,
        state: &mut SiteState,
        packet: &[u8],
    ) -> Result<Rebuilt, InDiscard> {
        let known = &self.known;
        let opened = self.opener.open(
            now,
            packet,
            |flow| known.has(&state.hasher, flow),
            |flow, number| known.tagged(flow, number),
        )?;
        state.watch |= self.opener.poll_timeout().is_some();
        let (taken, header) = (opened.taken, opened.header);
        let (position, seq) = match opened.kind {
            FragmentKind::Whole => return Ok(Rebuilt::Whole(taken, header)),
            FragmentKind::First => (FragmentPosition::First(taken.flow), 2 * opened.serial),
            FragmentKind::Second => (FragmentPosition::Second, 2 * opened.serial + 1),
        };
        let index = known.number(&state.hasher, &taken.flow).unwrap_or(FlowIndex(0));
        let fragment = Fragment { seq, position, index, fields: taken.fields };
        let (prefix, sample) = header.split_at(PREFIX_OCTETS);
        match self.fragments.insert(now, fragment, sample, &packet[HEADER_OCTETS..]) {
            JoinOutcome::Joined { slot, .. } if position != FragmentPosition::Second => {
                Ok(Rebuilt::First(taken, header, slot))
            }
            JoinOutcome::Joined { slot, .. } => {
                if !self.fragments.append(slot, sample) {
                    return Err(InDiscard::TooLong);
                }
                let prefix = *prefix.first_chunk().ok_or(InDiscard::TooShort)?;
                Ok(Rebuilt::Second(taken, prefix, slot))
            }
            JoinOutcome::Mismatched => {
                counters.count_in(InDiscard::PartMismatched);
                Err(InDiscard::PartMismatched)
            }
            JoinOutcome::TooLong => Err(InDiscard::TooLong),
            outcome => {
                if outcome == JoinOutcome::StoredEvicting {
                    counters.count_in(InDiscard::PartOverrun);
                }
                state.watch = true;
                Ok(Rebuilt::Pending)
            }
        }
    }
}

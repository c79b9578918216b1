//! Protection of frames of local stations.
//!
//! ```text
//!  DA 6 | SA 6 | [VLAN] | 0x8892 2    | FrameID 2                    | payload
//!  DA 6 | SA 6 | [VLAN] | EtherType 2 | FrameID 2 | KeyID 1 | Seq 4  | payload, encrypted or not | ICV 16
//!               meanwhile: DA 6 | SA 6 | FrameID 2 | KeyID 1 | Seq 4 | payload
//!                         └──────────────── AAD ────────────────────┴─ text, or AAD too ────────┘
//! ```
//!
//! This is PROFINET. Where a protocol's identification is derived, nothing stands between EtherType and payload, and the payload is all
//! that the machine's frame has behind its EtherType. The key, not the frame, says which protocol it is: `relation_key`.
//!
//! The AAD is contiguous in both modes. Until the frame is sealed, its addresses stand in front of the
//! FrameID, in place of EtherType and VLAN tags, which are restored afterwards. So no payload is copied. VLAN
//! tags and EtherType are not authenticated: switches may change the tags, and the EtherType is
//! configuration.
//!
//! A payload shorter than the minimum Ethernet frame is padded with zeros, under the ICV: padding by an
//! interface or a switch would hide the ICV. PROFINET has none so short.
//!
//! Work for a burst of n frames: n headers, n seals under n prepared keys, n counts; at most 23 octets of
//! padding a frame.

use arrayvec::ArrayVec;
use suite::{ICV_OCTETS, Nonce, SealJob};
use wire::Frame;
use wire::ethernet::{ADDRESSES_OCTETS, ETHERTYPE_OCTETS, HEADER_OCTETS, VLAN_TAG_OCTETS, VLAN_TAGS};
use wire::fieldbus::{HEADER_OCTETS as BEHIND_ETHERTYPE, Header, Protect};

use crate::direction::Direction;
use crate::discard::TransmitDiscard;
use crate::keys::{Epoch, KeyRef, TakenSeq};
use crate::member::Member;
use crate::relations::{GROUP, RelationMatch, Relations};
use crate::settings::Settings;

/// Octets of addresses, FrameID, KeyID and Seq.
pub(crate) const AAD_OCTETS: usize = ADDRESSES_OCTETS + BEHIND_ETHERTYPE;
/// Octets of the shortest Ethernet frame, without FCS.
const SHORTEST_FRAME: usize = 60;
/// Minimum payload; shorter ones are padded. With VLAN tags too, since a switch may remove them.
const SHORTEST_PAYLOAD: usize = SHORTEST_FRAME - HEADER_OCTETS - BEHIND_ETHERTYPE - ICV_OCTETS;

/// Proof that a frame was protected. Only [`Relations::protect`] makes one.
#[derive(PartialEq, Eq, Debug)]
pub struct Protected(());

/// A frame of a local station to be sent.
#[derive(Debug)]
pub struct Outgoing<'b> {
    frame: Frame<'b>,
    found: RelationMatch,
    seal: Option<Seal>,
    outcome: Result<Protected, TransmitDiscard>,
}

/// Result of pass 1 for the other passes.
#[derive(Debug)]
struct Seal {
    under: KeyRef,
    nonce: Nonce,
    aad: usize,
    text: usize,
    payload: usize,
    tags: ArrayVec<u8, { VLAN_TAGS * VLAN_TAG_OCTETS }>,
    sealed: bool,
}

impl<'b> Outgoing<'b> {
    /// A frame that [`Relations::find_outward`] found, to be protected. Its outcome is a discard until then.
    pub const fn new(frame: Frame<'b>, found: RelationMatch) -> Self {
        Self { frame, found, seal: None, outcome: Err(TransmitDiscard::NoSession) }
    }

    /// The frame, in its present state.
    pub const fn frame(&self) -> &Frame<'b> {
        &self.frame
    }

    /// Outcome of the protection.
    ///
    /// # Errors
    /// The reason for not sending it.
    pub fn into_outcome(self) -> Result<Protected, TransmitDiscard> {
        self.outcome
    }
}

impl Relations {
    /// Protects a burst of frames in place, in order.
    pub fn protect(&mut self, burst: &mut [Outgoing<'_>]) {
        for group in burst.chunks_mut(GROUP) {
            self.protect_group(group);
        }
    }

    fn protect_group(&mut self, group: &mut [Outgoing<'_>]) {
        self.prefetch(Direction::Outward, group.iter().map(|outgoing| outgoing.found));
        for Outgoing { frame, found, seal, outcome } in &mut *group {
            let (settings, member, events) = self.member_mut(found.relation());
            match admit(settings, member, frame, found) {
                Ok((admitted, begun)) => {
                    *seal = Some(admitted);
                    if let Some(begun) = begun {
                        member.sent.out_epochs += 1;
                        events.transmit_epoch(&mut member.events, found.relation(), begun);
                    }
                }
                Err(discard) => {
                    member.sent.count(discard);
                    *outcome = Err(discard);
                }
            }
        }
        for Outgoing { frame, found, seal, .. } in &mut *group {
            let Some(seal) = seal else { continue };
            let (_, member, _) = self.member_mut(found.relation());
            let Some(key) = member.keys.transmit_key(seal.under) else { continue };
            let Some((aad, text, icv)) = frame.sections(seal.aad, seal.text) else { continue };
            key.key.key().seal_each(core::iter::once(SealJob { nonce: seal.nonce, aad, text, icv }));
            seal.sealed = true;
        }
        for Outgoing { frame, found, seal, outcome } in group {
            let Some(seal) = seal.as_ref().filter(|seal| seal.sealed) else { continue };
            let (settings, member, _) = self.member_mut(found.relation());
            if put_back(settings, member, frame, &seal.tags).is_none() {
                continue;
            }
            member.sent.out_pkts_protected += 1;
            member.sent.out_octets_protected += seal.payload as u64;
            *outcome = Ok(Protected(()));
        }
    }
}

/// Pass 1: takes a Seq and writes the AAD. Takes the Seq last, so that no discarded frame spends one.
fn admit(
    settings: &Settings,
    member: &mut Member,
    frame: &mut Frame<'_>,
    found: &RelationMatch,
) -> Result<(Seal, Option<Epoch>), TransmitDiscard> {
    let tags_octets = found.vlan_tags() * VLAN_TAG_OCTETS;
    let front = found.front_octets();
    let given = frame.len().saturating_sub(front);
    let payload = given.max(SHORTEST_PAYLOAD);
    if BEHIND_ETHERTYPE + payload + ICV_OCTETS > settings.mtu {
        return Err(TransmitDiscard::TooLong);
    }
    let (start, len) = (frame.start(), frame.len());
    let tags = frame.octets().get(ADDRESSES_OCTETS..ADDRESSES_OCTETS + tags_octets);
    let tags = tags.and_then(|octets| octets.try_into().ok()).unwrap_or_default();
    // The frame will begin 7 octets earlier, or 5 where it has its identification, and the AAD no earlier than that.
    let fits = start >= BEHIND_ETHERTYPE;
    let aad_start =
        (start + front).checked_sub(AAD_OCTETS).filter(|_| fits).ok_or(TransmitDiscard::TooLong)?;
    frame.set_bounds(aad_start, AAD_OCTETS + payload + ICV_OCTETS).ok_or(TransmitDiscard::TooLong)?;
    let TakenSeq { under, key, seq, begun } = match member.keys.take_seq(settings.epoch_end) {
        Ok(taken) => taken,
        Err(discard) => {
            frame.set_bounds(start, len);
            return Err(discard);
        }
    };
    let header = Header { frame_id: member.outward.frame_id, key_id: key.key_id, seq: Some(seq) };
    let octets = frame.octets_mut();
    octets[..ADDRESSES_OCTETS].copy_from_slice(&member.outward.addresses);
    octets[ADDRESSES_OCTETS..AAD_OCTETS].copy_from_slice(&header.encode());
    octets[AAD_OCTETS + given..AAD_OCTETS + payload].fill(0);
    let (aad, text) = sections(settings.protection.protect, payload);
    let nonce = key.key.nonce(seq);
    Ok((Seal { under, nonce, aad, text, payload, tags, sealed: false }, begun))
}

/// Division of addresses, header and payload into AAD and text.
pub(crate) const fn sections(protect: Protect, payload: usize) -> (usize, usize) {
    match protect {
        Protect::Encrypt => (AAD_OCTETS, payload),
        Protect::Authenticate => (AAD_OCTETS + payload, 0),
    }
}

/// Pass 3: writes addresses, VLAN tags and EtherType in front of the FrameID.
fn put_back(settings: &Settings, member: &Member, frame: &mut Frame<'_>, tags: &[u8]) -> Option<()> {
    let more = tags.len() + ETHERTYPE_OCTETS;
    frame.set_bounds(frame.start().checked_sub(more)?, frame.len() + more)?;
    let (addresses, behind) = frame.octets_mut().split_at_mut_checked(ADDRESSES_OCTETS)?;
    let (behind_addresses, _) = behind.split_at_mut_checked(more)?;
    let (vlan, ethertype) = behind_addresses.split_at_mut(tags.len());
    addresses.copy_from_slice(&member.outward.addresses);
    vlan.copy_from_slice(tags);
    ethertype.copy_from_slice(&settings.ethertype.0.to_be_bytes());
    Some(())
}

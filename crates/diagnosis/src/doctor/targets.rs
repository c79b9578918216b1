//! Targets besides ordinary frames: destination addresses and EtherTypes that networks often drop.

use wire::MacAddr;

use super::frame::Envelope;

/// One combination.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, for people.
    pub name: &'static str,
    /// The destination; none is the other box's own address.
    pub to: Option<MacAddr>,
    /// The EtherType.
    pub envelope: Envelope,
    /// Why it matters.
    pub meaning: Meaning,
}

/// Consequence if frames of a target do not cross.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Meaning {
    /// Nothing works.
    All,
    /// The machines' frames of this protocol are lost.
    Machines,
    /// Switches keep these to themselves by the standard.
    Reserved,
    /// Key agreement, which a link with static keys does not need, and one with MKA to its destination only.
    KeyAgreement,
}

const fn reserved(last: u8) -> Option<MacAddr> {
    Some(MacAddr([0x01, 0x80, 0xc2, 0, 0, last]))
}

const fn target(name: &'static str, to: Option<MacAddr>, envelope: Envelope, meaning: Meaning) -> Target {
    Target { name, to, envelope, meaning }
}

/// All that is tried. Their places are part of the protocol: add at the end, up to 16.
pub const TARGETS: [Target; 16] = {
    use Envelope::{Eapol, Macsec};
    use Meaning::{All, KeyAgreement, Machines, Reserved};
    [
        target("MACsec frames (EtherType 0x88E5)", None, Macsec, All),
        target("broadcast", Some(MacAddr([0xff; 6])), Macsec, All),
        target("IPv6 multicast", Some(MacAddr([0x33, 0x33, 0, 0, 0, 1])), Macsec, Machines),
        target("PROFINET DCP", Some(MacAddr([0x01, 0x0e, 0xcf, 0, 0, 0])), Macsec, Machines),
        target("MRP", Some(MacAddr([0x01, 0x15, 0x4e, 0, 0, 1])), Macsec, Machines),
        target("PTP", Some(MacAddr([0x01, 0x1b, 0x19, 0, 0, 0])), Macsec, Machines),
        target("STP", reserved(0), Macsec, Reserved),
        target("LACP", reserved(2), Macsec, Reserved),
        target("LLDP and PTP peer delay", reserved(0x0e), Macsec, Reserved),
        target("01:80:c2:00:00:03", reserved(3), Eapol, KeyAgreement),
        target("01:80:c2:00:00:00", reserved(0), Eapol, KeyAgreement),
        target("01:80:c2:00:00:0e", reserved(0x0e), Eapol, KeyAgreement),
        target("01:80:c2:00:00:1f", reserved(0x1f), Eapol, KeyAgreement),
        target("the other box's own address", None, Eapol, KeyAgreement),
        target("01:80:c2:00:00:0b", reserved(0x0b), Eapol, KeyAgreement),
        target("ff:ff:ff:ff:ff:ff", Some(MacAddr([0xff; 6])), Eapol, KeyAgreement),
    ]
};

/// Those of one meaning, with their bits.
pub fn of(meaning: Meaning) -> impl Iterator<Item = (u16, &'static Target)> {
    let all = TARGETS.iter().enumerate().map(|(index, target)| (1 << index, target));
    all.filter(move |(_, target)| target.meaning == meaning)
}

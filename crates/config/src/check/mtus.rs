//! MTUs of a link's two sides.
//!
//! ```text
//! plain side:      DA 6 | SA 6 |              EtherType 2 | payload, at most the plain MTU
//! protected side:  DA 6 | SA 6 | SecTAG 8/16 | EtherType 2 | payload | ICV 16
//!                                 the protected MTU counts from behind the SecTAG's EtherType on
//! ```
//!
//! A frame needs `overhead` = SecTAG + ICV octets more MTU on the protected side. If that is not there, frames have to be
//! split (`fragment = "on"`); without it, a protected side that is too small for the plain side is an error, in `check`
//! and in `run`.

use std::path::Path;

use netdev::interface::{Interface, InterfaceError};
use netdev::queue_port::FRAMES_EACH;
use secy::fragment::MOST_FRAGMENTS;
use secy::{SDU_OCTETS, SciInclusion};
use suite::ICV_OCTETS;
use wire::ethernet::{ADDRESSES_OCTETS, HEADER_OCTETS, VLAN_TAG_OCTETS, VLAN_TAGS};

use super::padding;
use crate::padding::word;
use crate::{Finding, Keys, Link, Mtu, WholeSdus};

/// Reads the MTU of an interface, in octets.
pub type ReadMtu<'m> = &'m dyn Fn(&str) -> Result<usize, InterfaceError>;

/// The MTU of an interface that a gateway could use, in octets.
///
/// # Errors
///
/// [`InterfaceError`], but an XDP program or a gateway there is none: it may be the running gateway, whose next
/// configuration is being checked.
pub fn interface_mtu(interface: &str) -> Result<usize, InterfaceError> {
    Ok(Interface::as_it_is(interface)?.mtu() as usize)
}

/// Octets that a link's SecY adds to a frame: SecTAG and ICV; none if it does not protect, or is never reached.
pub fn overhead_octets(link: &Link) -> usize {
    if link.protect_frames && link.has_secy() { sectag_octets(link) + ICV_OCTETS } else { 0 }
}

pub(super) fn sectag_octets(link: &Link) -> usize {
    match link.sci_inclusion {
        SciInclusion::Always => 16,
        SciInclusion::Never | SciInclusion::EndStation => 8,
    }
}

/// The MTUs of a link's two sides, in octets behind DA, SA and EtherType. All SDUs of the plain side fit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mtus {
    /// Of the plain interface.
    pub plain: usize,
    /// Of the protected side: the interface's, or what is configured.
    pub protected: usize,
}

impl Mtus {
    /// Whether the protected side carries the longest payload of the plain side in one frame of this link.
    pub fn carry_whole(&self, link: &Link) -> bool {
        self.protected >= self.plain + overhead_octets(link)
    }

    /// Whether SDUs of this link need no fragments: its KaY announces that. A payload may stand behind a VLAN tag of the machine's, which the MTU
    /// of its interface does not count.
    pub fn need_no_fragments(&self, link: &Link) -> bool {
        match link.whole_sdus {
            WholeSdus::Demanded => self.carry_whole(link),
            WholeSdus::AsConfigured | WholeSdus::ForKernel => {
                self.protected >= self.plain + overhead_octets(link) + VLAN_TAG_OCTETS
            }
        }
    }

    /// Why SDUs do not stay whole for programs in the kernel, where that is left to the gateway.
    ///
    /// # Errors
    /// The reason, and what to set.
    pub fn keep_whole(&self, link: &Link) -> Result<(), String> {
        let overhead = overhead_octets(link) + VLAN_TAG_OCTETS;
        if link.whole_sdus != WholeSdus::ForKernel || self.need_no_fragments(link) {
            return Ok(());
        }
        Err(format!(
            "the protected side's MTU of {} splits payloads of {} octets with a VLAN tag; set it to {}, or the machine's MTU to {}",
            self.protected,
            self.plain,
            self.plain + overhead,
            self.protected.saturating_sub(overhead)
        ))
    }
}

/// Octets that a LAN's frame grows by on its way into a tunnel: SecTAG and ICV, and two VLAN tags that stand in front of its EtherType,
/// which the MTU of an interface does not count.
pub const IN_SITE_OCTETS: usize = 16 + ICV_OCTETS + VLAN_TAGS * VLAN_TAG_OCTETS;

/// The MTUs of a link inside of a site: the tunnel takes whatever the LAN does.
fn in_site(link: &Link, interface: usize) -> Mtus {
    let plain = match link.mtu {
        Mtu::Interface => interface,
        Mtu::Octets(octets) => usize::from(octets),
    };
    Mtus { plain, protected: plain + IN_SITE_OCTETS }
}

/// MTU of an interface, unless somebody changes it.
pub const ETHERNET_MTU: usize = 1500;

/// The MTUs that a link is taken to have while its interfaces are missing: those of Ethernet, or as configured.
pub fn usual_mtus(link: &Link) -> Mtus {
    if link.in_site {
        return in_site(link, ETHERNET_MTU);
    }
    let protected = match link.mtu {
        Mtu::Interface => ETHERNET_MTU + overhead_octets(link),
        Mtu::Octets(octets) => usize::from(octets),
    };
    Mtus { plain: ETHERNET_MTU, protected }
}

/// Refuses sizes of padded frames that the protected side does not carry, and such that payloads need too many of.
pub(super) fn fit_padding(link: &Link, mtus: Mtus) -> Result<(), String> {
    let sizes = link.padding();
    let (word, is_cover) = (word(&sizes), sizes.cover_rate().is_some());
    let largest = sizes.octets().last().map_or(0, |&octets| usize::from(octets));
    let carried = mtus.protected + HEADER_OCTETS;
    if largest > carried {
        return Err(format!(
            "{word} has {largest}, and the protected side carries frames of up to {carried} octets; use sizes up to that, or raise its MTU to {}",
            largest - HEADER_OCTETS
        ));
    }
    if sizes.is_none() {
        return Ok(());
    }
    let rules = padding::rules(link, mtus);
    // The queue between the SecY of a site and its tunnel has room for a burst of these.
    let fragments = if link.in_site { FRAMES_EACH.min(MOST_FRAGMENTS) } else { MOST_FRAGMENTS };
    // With cover the parts of a payload hold its addresses as well.
    let inside = if is_cover { ADDRESSES_OCTETS } else { 0 };
    let longest = HEADER_OCTETS + mtus.plain + VLAN_TAGS * VLAN_TAG_OCTETS;
    let fits = |size: usize| {
        padding::of_largest(rules, size).longest_of(fragments) >= longest.min(SDU_OCTETS) + inside
    };
    if fits(largest) {
        return Ok(());
    }
    let least = (largest..=carried).find(|size| fits(*size));
    let larger =
        least.map(|size| format!("have {size} or more as the largest size, or ")).unwrap_or_default();
    Err(format!(
        "{word} has sizes up to {largest}, and payloads of {} octets need more than {fragments} frames of that; {larger}lower the MTU of {}",
        mtus.plain, link.plain
    ))
}

/// The smallest MTU of a protected side that carries fragments.
const LEAST_PROTECTED_MTU: usize = 576;

/// Judges the interfaces of a link of the configuration `file`.
///
/// # Errors
///
/// Interfaces that are missing, or a protected side that is too small.
pub fn link_mtus(file: &Path, link: &Link, read_mtu: ReadMtu) -> Result<Mtus, Vec<Finding>> {
    let finding = |text: String| Finding {
        file: file.to_owned(),
        line: Some(link.line.0),
        text: format!("link {:?}: {text}", link.name),
    };
    let read = |interface: &str| read_mtu(interface).map_err(|error| finding(error.to_string()));
    if link.in_site {
        let interface = read(&link.plain).map_err(|error| vec![error])?;
        let mtus = in_site(link, interface);
        return fit_padding(link, mtus).map(|()| mtus).map_err(|text| vec![finding(text)]);
    }
    let (plain, interface) = match (read(&link.plain), read(&link.protected)) {
        (Ok(plain), Ok(interface)) => (plain, interface),
        (plain, protected) => return Err([plain.err(), protected.err()].into_iter().flatten().collect()),
    };
    let protected = match link.mtu {
        Mtu::Interface => interface,
        Mtu::Octets(octets) => usize::from(octets),
    };
    if protected > interface {
        return Err(vec![finding(format!(
            "mtu = {protected} is more than the {interface} of {}; set mtu to {interface} or less, or ip link set {} mtu {protected}",
            link.protected, link.protected
        ))]);
    }
    let overhead = overhead_octets(link);
    // Padded frames may have parts of SDUs. With MKA a peer may not take them.
    let padded = !link.padding().is_none() && link.static_sas().is_some();
    let fragment = padded || link.fragmentation.is_some_and(|fragmentation| fragmentation.fragment);
    if fragment && protected < LEAST_PROTECTED_MTU {
        return Err(vec![finding(format!(
            "MTU too small: fragments need {LEAST_PROTECTED_MTU}, and the protected side has {protected}; set its MTU to {LEAST_PROTECTED_MTU} or more"
        ))]);
    }
    // Frames that are too long for a cell keep no link from starting: `Plan` reports them.
    let mtus = Mtus { plain, protected };
    fit_padding(link, mtus).map_err(|text| vec![finding(text)])?;
    if link.has_secy() && !fragment && !mtus.carry_whole(link) {
        let fragment = match (link.whole_sdus, &link.keys) {
            (WholeSdus::Demanded, _) => "io = \"auto\" instead of \"kernel\", which splits nothing",
            (_, Keys::Static(_)) => "fragment = \"on\" at both ends",
            _ => "fragment = \"auto\" if all peers are Frameward's",
        };
        return Err(vec![finding(format!(
            "MTU too small: payloads of the machine have up to {plain} octets, the overhead is {overhead}, and the protected side has {protected}; set the protected side's MTU to {}, the machine's to {}, or {fragment}",
            plain + overhead,
            protected.saturating_sub(overhead)
        ))]);
    }
    Ok(mtus)
}

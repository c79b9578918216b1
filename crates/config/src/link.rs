//! `[[link]]`: a transparent bump in the wire.

mod validate;

use dataplane::fragmenter::FragmentConfig;
use secy::{
    ClearVlan, ConfidentialityOffset, FrameSizes, Protection, SciInclusion, Settings, ValidateFrames,
};
use suite::CipherSuite;
use wire::ethernet::EtherType;

pub(super) use validate::{mtu, validate_all};

use super::{Cell, Keys, Mka, Origin, Site, StaticSas, WholeSdus};

/// The MTU of a link's protected side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mtu {
    /// The interface's own.
    Interface,
    /// Octets behind DA, SA and EtherType.
    Octets(u16),
}

/// Effect of the loss of one side's carrier on the other side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkLoss {
    /// Nothing.
    Off,
    /// A protected side without carrier takes the plain side down: the machine sees at once that its cable is cut.
    Forward,
    /// That, and a plain side without carrier takes the protected side down.
    Both,
}

/// `[[link]]`: a transparent bump in the wire.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Link {
    /// See [`super::is_name`].
    pub name: String,
    /// The line of the configuration on which the link begins, from 1.
    pub line: Origin<usize>,
    /// The interface towards the machine.
    pub plain: String,
    /// The interface towards the insecure network; of a link inside of a site, "tunnel".
    pub protected: String,
    /// Its plain side is the LAN of the site of its name, and its protected one that site's tunnel: `protect = true`.
    pub in_site: bool,
    /// False: SDUs leave in clear.
    pub protect_frames: bool,
    /// Encryption with its offset, or integrity alone.
    pub protection: Protection,
    /// Whether frames carry the SCI.
    pub sci_inclusion: SciInclusion,
    /// Treatment of received frames that cannot be verified.
    pub validate_frames: ValidateFrames,
    /// Whether late and duplicate frames are discarded.
    pub replay_protect: bool,
    /// PNs that a frame may be late, at most [`secy::ReplayWindow::WIDEST`].
    pub replay_window: u32,
    /// The MTU of the protected side.
    pub mtu: Mtu,
    /// The rule for VLAN tags in front of a SecTAG.
    pub clear_vlan: ClearVlan,
    /// EtherTypes that pass in clear both ways. Never MACsec, EAPOL, MAC control or a VLAN tag.
    pub bypass: Vec<EtherType>,
    /// Whether SDUs may span frames and share them, and whether frames are padded; `None` if frames stay as the standard has them. With [`Keys::Agreed`]
    /// they do so as long as not all peers have announced that they understand it.
    pub fragmentation: Option<FragmentConfig>,
    /// Whether SDUs stay whole for programs in the kernel.
    pub whole_sdus: WholeSdus,
    /// Whether express frames have SCs of their own. With [`Keys::Agreed`] as long as all peers have announced that they receive
    /// them; with [`Keys::Static`] all ends have to be configured alike.
    pub express: bool,
    /// Effect of the loss of one side's carrier on the other side.
    pub link_loss: LinkLoss,
    /// Whether its interfaces may carry addresses or default routes of this box, which are cut off.
    pub allow_addresses: bool,
    /// Source of its keys.
    pub keys: Keys,
    /// Cell whose cyclic frames go around the SecY; always there without keys.
    pub cell: Option<Box<Cell>>,
}

impl Link {
    /// The link of a cell that drops the rest. Nothing reaches its SecY.
    pub(super) fn of_cell(cell: Cell, plain: String, protected: String, allow_addresses: bool) -> Self {
        Self {
            name: cell.name.clone(),
            line: cell.line,
            plain,
            protected,
            in_site: false,
            protect_frames: true,
            protection: Protection::Encrypt(ConfidentialityOffset::Zero),
            sci_inclusion: SciInclusion::Always,
            validate_frames: ValidateFrames::Strict,
            replay_protect: true,
            replay_window: 0,
            mtu: Mtu::Interface,
            clear_vlan: ClearVlan::Refuse,
            bypass: Vec::new(),
            fragmentation: None,
            whole_sdus: WholeSdus::AsConfigured,
            express: false,
            link_loss: LinkLoss::Forward,
            allow_addresses,
            keys: Keys::None,
            cell: Some(Box::new(cell)),
        }
    }

    /// Takes what is the site's to say. Frames may overtake each other in a tunnel by as much as packets may.
    pub(super) fn take_from_site(&mut self, site: &Site) {
        self.mtu = site.mtu;
        self.allow_addresses = site.allow_addresses;
        self.replay_window = u32::try_from(site.window).unwrap_or(u32::MAX);
    }

    /// Decides what is left to the gateway as programs in the kernel need it, for `io = "kernel"` lets no frame go another
    /// way. A link with a cell, or inside of a site, stays in user space all the same.
    pub(super) fn demand_kernel(&mut self) {
        if self.cell.is_some() || self.in_site {
            return;
        }
        if self.whole_sdus == WholeSdus::ForKernel {
            (self.fragmentation, self.whole_sdus) = (None, WholeSdus::Demanded);
        }
        if let Keys::Agreed(mka) = &mut self.keys
            && mka.suite == ::mka::SuiteRule::Any
        {
            mka.suite = ::mka::SuiteRule::Only(CipherSuite::ChaCha20Poly1305);
        }
    }

    /// The interfaces of this box that it has: the plain one, then the protected one.
    pub fn interfaces(&self) -> impl Iterator<Item = &String> {
        [&self.plain, &self.protected].into_iter().take(if self.in_site { 1 } else { 2 })
    }

    /// Whether one of its sides is this interface.
    pub fn has_interface(&self, interface: &str) -> bool {
        self.interfaces().any(|own| own == interface)
    }

    /// Whether its SecY takes frames with parts of SDUs, with several, and with padding. Inside of a site always: others may pad.
    pub const fn reassembles(&self) -> bool {
        self.fragmentation.is_some() || self.in_site
    }

    /// Settings of its SecY, above a protected side of this MTU.
    pub const fn secy_settings(&self, mtu: usize) -> Settings {
        Settings {
            protect_frames: self.protect_frames,
            sci_inclusion: self.sci_inclusion,
            validate_frames: self.validate_frames,
            replay_protect: self.replay_protect,
            clear_vlan: self.clear_vlan,
            reassemble: self.reassembles(),
            mtu,
        }
    }

    /// Sizes to which its frames are padded.
    pub fn padding(&self) -> FrameSizes {
        self.fragmentation.map(|how| how.padding).unwrap_or_default()
    }

    /// Whether anything reaches its SecY: not where a cell drops the rest.
    pub const fn has_secy(&self) -> bool {
        !matches!(self.keys, Keys::None)
    }

    /// Its SAs, if its keys are static.
    pub const fn static_sas(&self) -> Option<&StaticSas> {
        match &self.keys {
            Keys::Static(sas) => Some(sas),
            Keys::Agreed(_) | Keys::None => None,
        }
    }

    /// The SAs of its express SCs, if its keys are static and it has some.
    pub fn express_sas(&self) -> Option<StaticSas> {
        self.static_sas().filter(|_| self.express).and_then(StaticSas::express)
    }

    /// Settings of its key agreement, if it has one.
    pub fn mka(&self) -> Option<&Mka> {
        match &self.keys {
            Keys::Static(_) | Keys::None => None,
            Keys::Agreed(mka) => Some(mka),
        }
    }

    /// The cipher suite by name; none if the key server chooses it.
    pub fn suite(&self) -> Option<CipherSuite> {
        match &self.keys {
            Keys::Static(sas) => Some(sas.suite),
            Keys::Agreed(mka) => match mka.suite {
                ::mka::SuiteRule::Standard(_) | ::mka::SuiteRule::Any => None,
                ::mka::SuiteRule::Only(suite) => Some(suite),
            },
            Keys::None => None,
        }
    }

    /// Whether both say the same of all but the keys and the cell.
    pub fn is_like_but_for_keys(&self, other: &Self) -> bool {
        let others = |link: &Self| Self { keys: Keys::None, cell: None, ..link.clone() };
        others(self) == others(other)
    }
}

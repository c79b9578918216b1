//! A link's SecY in the kernel: what `secy::SecY` is in user space, protected and verified by `bpf/link.bpf.c`.
//!
//! SCs and SAs are installed, enabled and retired as there. A change is a program too, which control runs: it takes the lock of its SC or
//! SA as a frame does, so no PN is taken twice, and none that frames take meanwhile is lost.
//!
//! Keystream and Poly1305 keys of the next PNs are made ahead by a thread of the link's own ([`Link::keep_filling`]), for at most eight SAs. A
//! frame whose slot is not ready is computed whole, octet by octet the same.
//!
//! User space keeps fragments, `validate_frames` other than strict, and other suites. [`Link::suits`] says so. Of a link that splits frames
//! the programs can be the express SCs ([`Link::suits_express`]): the frames that are of an express class, and those of the peers' express SCs.
//! User space keeps the other SCs then.
//!
//! Work for a frame: the lock of its SA inward, and once more each way where no keystream is ready; a search among at most
//! [`SecY::RECEIVE_SCS`] SCs; and Poly1305, with ChaCha20 where no keystream is ready. A window's update is a write to one block of 64 PNs, however far it moves. Room: 6.6 MB
//! for keystream.

mod ahead;
mod layout;
mod look;
mod passed_on;
mod sas;
#[cfg(feature = "slots")]
mod slots;

use std::os::fd::{AsRawFd, OwnedFd};

use aya::maps::Array;
use fieldbus::Direction;
use secy::{
    ExpressClasses, InstallError, Protection, ReceiveSaCounters, ReplayWindow, SecY, SecYCounters, Settings,
    TransmitSaCounters, ValidateFrames, XpnBinding,
};
use suite::{CipherSuite, Sak};
use wire::ethernet::HEADER_OCTETS;
use wire::{An, EtherType, Sci};

use crate::error::XdpError;
use crate::programs::{Programs, Unclaimed};
use crate::run::Ran;
use ahead::Ahead;
pub use passed_on::PassedLink;
pub use sas::Switch;

/// Object file that a pinned clang makes of `bpf/link.bpf.c`.
static OBJECT: &[u8] = aya::include_bytes_aligned!("../bpf/link.bpf.o");
const PROGRAMS: [&str; 4] = ["outward", "inward", "change", "look"];
const RECEIVE_SCS: usize = SecY::RECEIVE_SCS;
/// Octets of the longest protected frame (`MOST_OCTETS`).
const LONGEST: usize = 2048;
const SECY: usize = SecYCounters::NAMES.len();
const SENT: usize = TransmitSaCounters::NAMES.len();
const RECEIVED: usize = ReceiveSaCounters::NAMES.len();
/// Counters of frames that go around the SecY.
const AROUND: usize = 4;

/// A key for an SA.
#[derive(Clone, Copy, Debug)]
pub struct SaKey<'k> {
    /// Its suite.
    pub suite: CipherSuite,
    /// The SAK.
    pub sak: &'k Sak,
    /// With XPN, and only then.
    pub xpn: Option<XpnBinding>,
    /// Protection of its frames.
    pub protection: Protection,
}

/// Frames that a link takes around its SecY, or drops in front of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AroundCounters {
    /// `OutPktsBypass`.
    pub out_bypass: u64,
    /// `InPktsBypass`.
    pub in_bypass: u64,
    /// `OutPktsMacControl`.
    pub out_mac_control: u64,
    /// `InPktsMacControl`.
    pub in_mac_control: u64,
}

/// The replay window of a receive SA at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// The SA is enabled.
    pub in_use: bool,
    /// Highest PN received, or the one below the first expected.
    pub highest: u64,
    /// Lowest PN that is not late.
    pub lowest: u64,
}

/// The programs, loaded once, and the SecY that they are. Dropping it detaches the programs, retires all SAs and frees the maps. What
/// somebody else has of [`Link::programs`] discards frames from then on.
pub struct Link {
    programs: Programs,
    /// Blocks of each replay window.
    ring: u32,
    /// Widest replay window.
    widest: u32,
    sci: Sci,
    /// As they stand in the map.
    settings: [u8; layout::SETTINGS],
    /// Receive SCs by their places in the maps.
    scis: [Option<Sci>; RECEIVE_SCS],
    /// Counters when an SA was installed: its own begin there.
    sent_before: [[u64; SENT]; An::COUNT],
    received_before: Vec<[u64; RECEIVED]>,
    /// Instance of the newest SA. [`HELD`] and what is below are none's.
    instance: u64,
    ahead: Option<Ahead>,
}

/// Id of a slot that somebody has (`HELD`): no SA's instance.
const HELD: u64 = 1;

impl Link {
    /// The largest MTU of a protected side.
    pub const MOST_MTU: usize = LONGEST - HEADER_OCTETS;
    /// The most EtherTypes that can be bypassed.
    pub const BYPASS: usize = layout::BYPASS;

    /// Loads the programs, with room for replay windows of so many PNs. This alone needs CAP_PERFMON. No frame passes yet.
    ///
    /// # Errors
    /// If the kernel does not take the programs.
    pub fn load(replay_window: u32) -> Result<Self, XdpError> {
        Self::load_object(OBJECT, replay_window)
    }

    /// [`Link::load`] with programs that another compiler has made, or that are broken on purpose: for tests.
    ///
    /// # Errors
    /// As [`Link::load`].
    pub fn load_object(object: &[u8], replay_window: u32) -> Result<Self, XdpError> {
        let widest = replay_window.min(ReplayWindow::WIDEST);
        // One block more than a window needs: that of the newest PN never stands for a PN inside the window.
        let ring = if widest == 0 { 1 } else { (widest.div_ceil(64) + 1).next_power_of_two() };
        let sas = RECEIVE_SCS * An::COUNT;
        let programs = Programs::load(object, &PROGRAMS, &[("blocks", ring * sas as u32)])?;
        Ok(Self {
            programs,
            ring,
            widest,
            sci: Sci::from_octets([0; 8]),
            settings: [0; layout::SETTINGS],
            scis: [None; RECEIVE_SCS],
            sent_before: [[0; SENT]; An::COUNT],
            received_before: vec![[0; RECEIVED]; sas],
            instance: HELD,
            ahead: None,
        })
    }

    /// Whether the programs do what a SecY of these settings does with frames of this suite.
    ///
    /// # Errors
    /// Why not.
    pub fn suits(settings: &Settings, suite: CipherSuite) -> Result<(), XdpError> {
        Self::suits_express(settings, suite)?;
        if settings.reassemble {
            return Err(XdpError::Setting("fragments; set fragment = \"off\" and concatenate = \"off\""));
        }
        Ok(())
    }

    /// Whether the programs can be the express SCs of a SecY of these settings, under SAKs of this suite.
    ///
    /// # Errors
    /// Why not.
    pub const fn suits_express(settings: &Settings, suite: CipherSuite) -> Result<(), XdpError> {
        if !is_for_kernel(suite) {
            return Err(XdpError::LinkSuite(suite.name()));
        }
        if !settings.protect_frames {
            return Err(XdpError::Setting("protect_frames = false"));
        }
        if !matches!(settings.validate_frames, ValidateFrames::Strict) {
            return Err(XdpError::Setting("validate_frames other than strict"));
        }
        if settings.mtu > Self::MOST_MTU {
            return Err(XdpError::Mtu { mtu: settings.mtu, most: Self::MOST_MTU });
        }
        Ok(())
    }

    /// PNs of the widest replay window that there is room for.
    pub const fn room(&self) -> u32 {
        self.widest
    }

    /// Whether there is room for replay windows of so many PNs.
    ///
    /// # Errors
    /// If there is not.
    pub fn has_room(&self, replay_window: u32) -> Result<(), XdpError> {
        let (wanted, room) = (replay_window.min(ReplayWindow::WIDEST), self.widest);
        if wanted > room { Err(XdpError::Window { wanted, room }) } else { Ok(()) }
    }

    /// Settings of the SecY, whose transmit SC is `sci`, and what goes past it (at most [`Link::BYPASS`]). SAs and counters stay. Frames
    /// without an SA are discarded, unless [`Link::share`] says otherwise.
    ///
    /// # Errors
    /// If it is no SecY for the kernel, or a map cannot be written.
    pub fn configure(
        &mut self,
        sci: Sci,
        settings: &Settings,
        bypass: &[EtherType],
        unclaimed: Unclaimed,
    ) -> Result<(), XdpError> {
        Self::suits(settings, CipherSuite::ChaCha20Poly1305)?;
        let mut octets = layout::settings(sci, settings, bypass, unclaimed.verdict(), self.ring, false);
        layout::set_shared(&mut octets, layout::is_shared(&self.settings));
        layout::set_aside(&mut octets, layout::is_aside(&self.settings));
        self.write_settings(octets)?;
        self.sci = sci;
        Ok(())
    }

    /// [`Link::configure`] for the express SCs of a link, of which `sci` is the own one; `classes`: the SDUs that it takes. All SCs that
    /// are installed are taken for express SCs. Frames of no express SC are the sockets', and all of them while no SA protects. Frames that
    /// come while the classes change are express by those before, by those behind, or by some of both.
    ///
    /// # Errors
    /// As [`Link::configure`].
    pub fn configure_express(
        &mut self,
        sci: Sci,
        settings: &Settings,
        (bypass, classes): (&[EtherType], &ExpressClasses),
        unclaimed: Unclaimed,
    ) -> Result<(), XdpError> {
        Self::suits_express(settings, CipherSuite::ChaCha20Poly1305)?;
        let mut octets = layout::settings(sci, settings, bypass, unclaimed.verdict(), self.ring, true);
        layout::set_shared(&mut octets, true);
        layout::set_aside(&mut octets, layout::is_aside(&self.settings));
        let of_classes = layout::express(classes);
        Array::<_, [u8; layout::EXPRESS]>::try_from(self.programs.map("express")?)?.set(0, of_classes, 0)?;
        self.write_settings(octets)?;
        self.sci = sci;
        Ok(())
    }

    /// Whether user space has SAs of the link too. Frames without an SA here are its own then, and go to the sockets.
    ///
    /// # Errors
    /// If a map cannot be written.
    pub fn share(&mut self, shared: bool) -> Result<(), XdpError> {
        let mut octets = self.settings;
        layout::set_shared(&mut octets, shared);
        self.write_settings(octets)
    }

    /// Whether the programs leave every frame to the sockets, as it came: they stand in front of ports, and do nothing there. One write to
    /// a map, which waits for nobody. A frame that has begun goes on as it was.
    ///
    /// # Errors
    /// If a map cannot be written.
    pub fn stand_aside(&mut self, aside: bool) -> Result<(), XdpError> {
        let mut octets = self.settings;
        layout::set_aside(&mut octets, aside);
        self.write_settings(octets)
    }

    fn write_settings(&mut self, octets: [u8; layout::SETTINGS]) -> Result<(), XdpError> {
        Array::<_, [u8; layout::SETTINGS]>::try_from(self.programs.map("settings")?)?.set(0, octets, 0)?;
        self.settings = octets;
        Ok(())
    }

    /// Retires all SAs and SCs, and begins to count anew: the programs can be another SecY. All keys are wiped.
    ///
    /// # Errors
    /// If a map cannot be written.
    pub fn clear(&mut self) -> Result<(), XdpError> {
        for an in An::ALL {
            self.retire_transmit(an)?;
        }
        for sci in self.scis.into_iter().flatten() {
            self.retire_receive_sc(sci)?;
        }
        self.programs.set_all("counted", 0, [0; SECY + AROUND])?;
        self.programs.set_all("last_unmatched", 0, [0; 3])?;
        for an in An::ALL {
            self.programs.set_all("sent", an.index() as u32, [0; SENT])?;
        }
        self.sent_before = [[0; SENT]; An::COUNT];
        self.stand_aside(false)?;
        self.share(false)
    }

    /// Has a thread of the link's own make keystream ahead, as long as there is the link: for SAs that are installed from now on, at most
    /// eight at a time. It calls `at_start` first.
    ///
    /// # Errors
    /// If the kernel does not share the memory, or there can be no thread. Frames are computed whole then.
    pub fn keep_filling(&mut self, at_start: fn()) -> Result<(), XdpError> {
        self.share_slots()?;
        let Some(ahead) = self.ahead.as_mut().filter(|ahead| !ahead.is_running()) else { return Ok(()) };
        ahead.start(self.programs.map_ref("wake")?, at_start)
    }

    /// Makes room for keystream ahead of SAs that are installed from now on, without a thread that fills it: for tests and benches.
    ///
    /// # Errors
    /// If the kernel does not share the memory.
    pub fn share_slots(&mut self) -> Result<(), XdpError> {
        if self.ahead.is_none() {
            let (slots, rings) = (self.programs.map_ref("slots")?, self.programs.map_ref("rings")?);
            self.ahead = Some(Ahead::new(slots, rings)?);
        }
        Ok(())
    }

    /// Makes what keystream is missing ahead, now, and says how many slots: for tests and benches.
    pub fn fill(&self) -> u32 {
        self.ahead.as_ref().map_or(0, Ahead::fill)
    }

    /// Says where verified and protected frames leave: interfaces of this network namespace, by their indexes.
    ///
    /// # Errors
    /// If there is no such interface.
    pub fn set_ports(&mut self, plain: u32, protected: u32) -> Result<(), XdpError> {
        self.programs.set_ports(plain, protected)
    }

    /// Has frames of the KaY that come to this receive queue of the plain or the protected interface go to a socket.
    ///
    /// # Errors
    /// If it is no AF_XDP socket of that queue.
    pub fn set_socket(&mut self, way: Direction, queue: u32, socket: impl AsRawFd) -> Result<(), XdpError> {
        self.programs.set_socket(way, queue, socket)
    }

    /// Puts the programs to work on two interfaces without ports, in their drivers, until this is dropped: for benches. Frames of the KaY
    /// end there.
    ///
    /// # Errors
    /// If an interface is gone, has a program already, or its driver takes none.
    pub fn attach(&mut self, plain: u32, protected: u32) -> Result<(), XdpError> {
        self.programs.attach(plain, protected)
    }

    /// The programs, for links of somebody else's: that of the plain interface, and that of the protected one.
    ///
    /// # Errors
    /// If a file descriptor cannot be had.
    pub fn programs(&mut self) -> Result<[OwnedFd; 2], XdpError> {
        self.programs.descriptors()
    }

    /// Has a frame of the machine go through the program as if it had come, `repeat` times: for tests and benches. It takes a PN, and is
    /// counted. At least 14 octets.
    ///
    /// # Errors
    /// If the kernel does not run it.
    pub fn run_outward(&self, frame: &[u8], repeat: u32) -> Result<Ran, XdpError> {
        self.programs.run_frame("outward", frame, repeat)
    }

    /// The same for a frame of the network.
    ///
    /// # Errors
    /// If the kernel does not run it.
    pub fn run_inward(&self, frame: &[u8], repeat: u32) -> Result<Ran, XdpError> {
        self.programs.run_frame("inward", frame, repeat)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // The maps live on with programs that somebody else has. Keystream is wiped behind this, whatever fails here.
        let _ = self.clear();
    }
}

impl SaKey<'_> {
    /// As `secy` takes keys.
    fn check(&self) -> Result<(), XdpError> {
        if !is_for_kernel(self.suite) {
            Err(XdpError::LinkSuite(self.suite.name()))
        } else if self.suite.is_xpn() != self.xpn.is_some() {
            Err(InstallError::XpnBinding.into())
        } else if self.xpn.is_some() && self.protection.has_offset() {
            Err(InstallError::OffsetWithXpn.into())
        } else {
            Ok(())
        }
    }
}

/// Suites that the programs have: AES needs instructions that BPF does not have.
const fn is_for_kernel(suite: CipherSuite) -> bool {
    matches!(suite, CipherSuite::ChaCha20Poly1305 | CipherSuite::ChaCha20Poly1305Xpn)
}

/// There is nothing to retire where there is nothing.
fn accept_unknown(retired: Result<(), XdpError>) -> Result<(), XdpError> {
    match retired {
        Err(XdpError::Install(InstallError::UnknownAn)) => Ok(()),
        other => other,
    }
}

fn since<const N: usize>(now: [u64; N], before: &[u64; N]) -> [u64; N] {
    let mut since = now;
    since.iter_mut().zip(before).for_each(|(now, before)| *now = now.wrapping_sub(*before));
    since
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("sci", &self.sci).field("scis", &self.scis).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

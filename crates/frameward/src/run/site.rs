//! One site, from its configuration to a worker's slot and a manager's thread.
//!
//! ```text
//!  fw-worker-N    moves the frames: dataplane::site::Site
//!  fw-site-NAME   the management channel: sitelink::Manager
//!  main thread    this file: starts and stops both, looks after the LAN's interface, logs their notices
//! ```
//!
//! The LAN's interface is prepared and put back as a link's are. While it is not there the site goes on without it: the
//! management channel stays up, so frames pass at once when the interface is back. Another MTU is another size of all
//! buffers, so it restarts the site. What cannot be started again is tried each second.

mod plain_peers;
pub(super) mod programs;
mod works;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use control::Gateway as Control;
use dataplane::site::SiteSnapshot;
use netdev::interface::{InterfaceError, LinkState};
use sitelink::{Floods, ManagerStatus, PlaceState};
use tracing::info;
use tunnel::standby::{DRAIN, Role};
use tunnel::{Mode, PacketOctets, PeerCounters, PeerId};

use super::interface_looks::Seen;
use super::interface_settings::{InterfaceSettings, OwnInterface};
use super::interface_watch::{PassageNews, RETRY};
use super::link::Waiting;
use super::upgrade::PassedSite;
use config::check::site::lan_mtu;
use config::check::{IN_SITE_OCTETS, interface_mtu};
use config::{Gateway, Mtu, Site, SitePeer};
use programs::Kernel;
use works::Works;

/// Pause between two looks at the role of a box that hands over.
const LOOK: Duration = Duration::from_millis(2);

/// A site of a running gateway.
pub(super) struct RunningSite {
    pub(super) config: Site,
    /// None: it could not be started again, which is tried each second.
    pub(super) works: Option<Works>,
    /// Why no frame passes, if none does.
    pub(super) waiting: Option<Waiting>,
    /// Its programs in the kernel, or why it has none.
    kernel: Kernel,
    settings: InterfaceSettings,
    /// Whether the LAN's interface had a link, as the worker was told. For a site that shares its LAN.
    told_link: bool,
    /// Places of each peer's frames, as told last.
    told_places: BTreeMap<String, String>,
    /// The latest figures that its worker has told.
    pub(super) snapshot: SiteSnapshot,
}

impl RunningSite {
    /// Prepares the LAN's interface, binds the sockets, and gives the site to a worker and a manager. If that fails the
    /// site has [`fallen`](Self::fallen), and is started by [`poll_interfaces`](Self::poll_interfaces) as soon as that can be done.
    /// Without the MTU of the LAN its interface is missing, and it waits for that. `passed`: it was in the program before this one.
    pub(super) fn start(
        gateway: &Gateway,
        config: Site,
        (lan_mtu, passed): (Option<usize>, Option<&PassedSite>),
        kernel: Kernel,
        control: &mut Control,
        settings: &InterfaceSettings,
    ) -> Self {
        let works = match lan_mtu {
            Some(lan_mtu) => Works::start(gateway, &config, (lan_mtu, passed), &kernel, control, settings),
            None => Err(missing(&config)),
        };
        let (works, waiting) = match works {
            Ok(works) => (Some(works), None),
            Err(why) => {
                let since = Instant::now();
                (None, Some(Waiting { since, why, try_at: since + RETRY }))
            }
        };
        let (settings, told_places) = (settings.clone(), BTreeMap::new());
        let snapshot = SiteSnapshot::default();
        Self { config, works, waiting, kernel, settings, told_link: true, told_places, snapshot }
    }

    /// Why it cannot begin anew in the next program of this process, if it cannot. `seen`: its LAN's interface as it is now.
    pub(super) fn why_not_anew(&self, seen: Option<LinkState>) -> Option<&'static str> {
        if self.kernel.is_ok() {
            return Some("it has programs in the kernel, which a start alone may load");
        }
        let is_elsewhere = |works: &Works| self.waiting.is_none() && works.is_elsewhere(seen);
        self.works.as_ref().is_some_and(is_elsewhere).then_some("its interface has changed")
    }

    /// What the next program of this process begins with.
    pub(super) fn pass_on(&self) -> PassedSite {
        let interface = self.works.as_ref().and_then(Works::pass_on);
        let why_user_space = self.kernel.as_ref().err().cloned().unwrap_or_default();
        PassedSite::new(self.config.name.clone(), interface, why_user_space)
    }

    /// Why it could not be started.
    pub(super) fn fallen(&self) -> Option<&str> {
        let waiting = self.waiting.as_ref().filter(|_| self.works.is_none())?;
        Some(&waiting.why)
    }

    /// Octets that its SecY, if it has one, and VLAN tags add to the MTU of its interface.
    pub(super) const fn added_octets(&self) -> usize {
        if self.config.protect { IN_SITE_OCTETS } else { 0 }
    }

    /// Whether it protects its LAN, which has another MTU than it was started for. Then its link is taken out before it is started again.
    pub(super) fn is_to_renew(&self, looks: &Seen) -> bool {
        let Some(works) = self.works.as_ref().filter(|_| self.config.protect) else { return false };
        let seen = looks.state(&self.config.lan).flatten();
        seen.is_some_and(|seen| {
            matches!(self.config.mtu, Mtu::Interface)
                && seen.mtu as usize + IN_SITE_OCTETS != works.about.lan_mtu
        })
    }

    /// Hands over to the other box of its LAN, if there is one that is ready, and waits until that forwards: the LAN does not notice that this
    /// one ends, if it lets pass for [`DRAIN`] what is under way to it. Whether it handed over. Takes up to twice its `takeover`.
    pub(super) fn leave(&self, control: &mut Control) -> bool {
        let Some(standby) = self.config.standby.as_ref().filter(|_| self.works.is_some()) else {
            return false;
        };
        let name = &self.config.name;
        if !matches!(control.hand_over(name), Ok(true)) {
            return false;
        }
        info!(
            event = "standby-hand-over",
            site = name,
            "hands over to the other box of its LAN, since it ends"
        );
        let end = Instant::now() + 2 * standby.takeover;
        let stays = |control: &mut Control| {
            let snapshots = control.site_snapshots();
            let of_site = snapshots.iter().find(|(site, _)| site == name);
            of_site.is_some_and(|(_, site)| site.standby.is_some_and(|standby| standby.role != Role::Standby))
        };
        while Instant::now() < end && stays(control) {
            std::thread::sleep(LOOK);
        }
        true
    }

    /// Takes it away from worker and manager, and puts the interface back. The peers are told. Takes up to a second, and one more if another
    /// box of its LAN goes on.
    pub(super) fn stop(self, control: &mut Control) -> Result<(), InterfaceError> {
        if self.leave(control) {
            std::thread::sleep(DRAIN);
        }
        self.works.map_or(Ok(()), |works| works.stop(&self.config.name, control))
    }

    /// Has the manager take its leave of the peers, and does not wait.
    pub(super) fn begin_to_end(&self) {
        if let Some(works) = &self.works {
            works.begin_to_stop();
        }
    }

    /// Stops the manager, before workers end; what is returned is to be put back behind them.
    pub(super) fn end(self) -> Option<OwnInterface> {
        self.works?.end()
    }

    /// The MTU of its LAN, as it was when it was last started.
    pub(super) fn lan_mtu(&self) -> Option<usize> {
        self.works.as_ref().map(|works| works.about.lan_mtu)
    }

    /// State of the management channel; none if all peers are plain.
    pub(super) fn status(&self) -> Option<ManagerStatus> {
        self.works.as_ref()?.status()
    }

    /// Has peers be told what this site has counted of their packets, in the order of the configuration.
    pub(super) fn tell_octets(&self, octets: impl Iterator<Item = PacketOctets>) {
        let numbers = self.numbered_peers().map(|(_, number)| number);
        let numbered = numbers.zip(octets).filter_map(|(number, octets)| Some((number?, octets)));
        if let Some(works) = &self.works {
            works.tell_octets(numbered.collect());
        }
    }

    /// Logs what there is to be said since the last time.
    pub(super) fn log_notices(&self) {
        let told = self.works.as_ref().map(Works::notices).unwrap_or_default();
        let site = &self.config.name;
        for (peer, text) in told {
            match peer.map(|peer| self.peer(peer)) {
                Some(Some(SitePeer { name, .. })) => info!(event = "site-peer", site, peer = name, "{text}"),
                // It has left.
                Some(None) => {}
                None => info!(event = "site-channel", site, "{text}"),
            }
        }
    }

    /// Logs where frames of peers go, if that is news.
    pub(super) fn log_places(&mut self) {
        let site = &self.config.name;
        let places: Vec<_> = self
            .numbered_peers()
            .filter_map(|(peer, number)| Some((peer.name.clone(), self.place_of(peer, number)?)))
            .collect();
        for (peer, place) in places {
            if self.told_places.get(&peer) != Some(&place) {
                info!(event = "site-path", site, peer, "known flows: {place}");
                self.told_places.insert(peer, place);
            }
        }
    }

    /// Returns the place of a peer's frames, in words; none if it has no number or encrypts headers.
    pub(super) fn place_of(&self, peer: &SitePeer, number: Option<PeerId>) -> Option<String> {
        if peer.mode == Mode::HeaderEncryption {
            return None;
        }
        let kernel = match &self.kernel {
            Ok(kernel) => kernel,
            Err(why) => return Some(format!("user space: {why}")),
        };
        if !peer.paths.is_empty() {
            return Some("user space: it has several paths".to_owned());
        }
        let way = |state: PlaceState| match state {
            Ok(()) => "kernel".to_owned(),
            Err(why) => format!("user space: {why}"),
        };
        let [outward, inward] = kernel.places(number?).map(way);
        Some(if outward == inward { outward } else { format!("sent: {outward}; received: {inward}") })
    }

    /// Counters of a peer's frames in the kernel.
    pub(super) fn kernel_counters(&self, number: Option<PeerId>) -> PeerCounters {
        let kernel = self.kernel.as_ref().ok();
        kernel.zip(number).map(|(kernel, number)| kernel.counters(number)).unwrap_or_default()
    }

    /// Strangers' packets that programs in the kernel dropped.
    pub(super) fn floods(&self) -> Floods {
        self.kernel.as_ref().map(|kernel| kernel.floods()).unwrap_or_default()
    }

    /// The peer of this number, if it has not left.
    pub(super) fn peer(&self, number: PeerId) -> Option<&SitePeer> {
        let numbers = self.works.as_ref()?.numbers();
        self.config.peers.get(numbers.iter().position(|known| *known == number)?)
    }

    /// The peers with their numbers; those of a site that could not be started have none.
    pub(super) fn numbered_peers(&self) -> impl Iterator<Item = (&SitePeer, Option<PeerId>)> {
        let numbers = self.works.iter().flat_map(|works| works.numbers().iter().copied().map(Some));
        self.config.peers.iter().zip(numbers.chain(std::iter::repeat(None)))
    }

    /// Says what was chosen.
    pub(super) fn announce(&self) {
        if let Some(works) = &self.works {
            works.announce(&self.config);
        }
    }

    /// Looks at the LAN's interface, and does what it needs. Returns what a person should know, if that has changed. `renew`: of a
    /// protected LAN, that it has another MTU, and its link was taken out.
    pub(super) fn poll_interfaces(
        &mut self,
        file: &Path,
        gateway: &Gateway,
        control: &mut Control,
        looks: &Seen,
        renew: bool,
        now: Instant,
    ) -> Option<PassageNews> {
        // If the kernel does not tell, nothing is known to have changed.
        let seen = looks.state(&self.config.lan)?;
        self.tell_link(seen, control);
        if self.waiting.is_none() {
            // The interface of a LAN that is protected is its link's.
            if self.works.as_ref().is_some_and(|works| works.is_on(seen)) || (self.config.protect && !renew) {
                return None;
            }
            // A worker that does not answer is told by its verdict.
            control.close_site(&self.config.name).ok()?;
            if let Some(works) = &self.works {
                works.lan_is_closed();
            }
            self.wait(String::new(), now);
        }
        if let Some(works) = &mut self.works {
            works.let_go(seen);
        }
        if self.waiting.as_ref().is_some_and(|waiting| now < waiting.try_at) {
            return None;
        }
        let taken_up = match seen {
            // The interface's original settings are recorded on disk.
            Some(_) => {
                let written = control.probe_disk(Instant::now())?.map_err(|error| error.to_string());
                written.and_then(|()| self.take_up(file, gateway, control))
            }
            None => Err(missing(&self.config)),
        };
        let (why, try_at) = match taken_up {
            Ok(()) => {
                self.waiting = None;
                let engine = self.works.as_ref().map_or("", |works| &works.about.engine);
                return Some(PassageNews::goes_on(format_args!("{} ({engine})", self.config.lan)));
            }
            Err(why) => (why, if seen.is_some() { now + RETRY } else { now }),
        };
        let known = self.waiting.as_ref().is_some_and(|waiting| waiting.why == why);
        let news = (!known).then(|| PassageNews::ends(&why));
        self.wait(why, try_at);
        news
    }

    /// Tells the worker whether the LAN's interface has a link: one of two boxes does not forward without.
    fn tell_link(&mut self, seen: Option<LinkState>, control: &mut Control) {
        let has_link = seen.is_some_and(|seen| seen.carrier);
        if self.config.standby.is_some()
            && self.works.is_some()
            && self.told_link != has_link
            && control.set_lan_link(&self.config.name, has_link).is_ok()
        {
            self.told_link = has_link;
        }
    }

    /// Opens the LAN port on the interface, which is there; starts the site anew if its MTU is another.
    fn take_up(&mut self, file: &Path, gateway: &Gateway, control: &mut Control) -> Result<(), String> {
        let name = &self.config.name;
        // As it is now: it may be another than when it was looked at.
        let mtu = lan_mtu(file, &self.config, &interface_mtu).map_err(|found| found.to_string())?;
        if let Some(works) = self.works.take_if(|works| works.about.lan_mtu != mtu) {
            works.stop(name, control).map_err(|error| error.to_string())?;
        }
        match &mut self.works {
            Some(_) if self.config.protect => Ok(()),
            Some(works) => works.take_up(&self.config, gateway, control, &self.settings),
            None => {
                self.works = Some(Works::start(
                    gateway,
                    &self.config,
                    (mtu, None),
                    &self.kernel,
                    control,
                    &self.settings,
                )?);
                self.told_link = true;
                Ok(())
            }
        }
    }

    fn wait(&mut self, why: String, try_at: Instant) {
        let since = self.waiting.as_ref().map_or_else(Instant::now, |before| before.since);
        self.waiting = Some(Waiting { since, why, try_at });
    }
}

fn missing(site: &Site) -> String {
    format!(
        "interface {} is missing ('ip link' lists those that are there); the site goes on when it is back",
        site.lan
    )
}

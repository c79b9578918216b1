//! One link, from its configuration to a SecY between two open ports.

mod programs;
mod start;

use std::time::Instant;

use control::LinkPlace;
use dataplane::link::Ports;
use dataplane::snapshot::LinkSnapshot;
use netdev::burst::BURST_FRAMES;
use netdev::interface::{Guard, InterfaceError, LinkState};
use netdev::passed_on::PassedInterface;
use pnstore::{PnBlock, UnmarkedKey};
use tracing::{info, warn};
use wire::{MacAddr, Pn, Sci};

use super::carrier_loss::{LossForwarding, Side};
use super::interface_settings::{InterfaceSettings, OwnInterface};
use config::change::needs_other_ports;
use config::check::{self, Mtus};
use config::{Gateway, Io, Keys, Link};
pub use programs::planned_link_place;
pub(super) use programs::{is_for_kernel, judge as judge_place, replay_windows, words as place_words};
use start::open_sides;
pub(super) use start::{
    NO_SITE, OTHER_CELL, ReadyLink, StartedLink, allowed, bare_secy, io, pipeline, try_to_go_on,
};

/// A link of a running gateway, without what its worker owns.
pub(super) struct RunningLink {
    pub(super) config: Link,
    pub(super) about: About,
    /// Whether a worker has it. Not so, it was never started, since an interface has been missing all the time.
    pub(super) is_seated: bool,
    /// Its interfaces, plain and protected, as far as they are there; to be restored when no port is open on them.
    prepared: [Option<OwnInterface>; 2],
    /// Why it has no ports, if it has none.
    pub(super) waiting: Option<Waiting>,
    /// Side that is to be held down.
    pub(super) loss: LossForwarding,
    /// Whether its sides had a carrier when they were looked at last: plain, protected.
    pub(super) carriers: Option<[bool; 2]>,
    /// Name of the machine's end of its cable, if it is on this box and leaves checksums unfilled.
    pub(super) machine_end: Option<String>,
    /// Why a side could not be taken down or up, and when that is tried again.
    pub(super) not_held: Option<(String, Instant)>,
    fallback: Option<String>,
    unmarked: Option<UnmarkedKey>,
    /// Whether its KaY was told that programs take its SAs.
    pub(super) kay_in_kernel: bool,
    /// Since when programs wait for its next SAK, and whether it was asked for.
    pub(super) awaits_sak: Option<(Instant, bool)>,
    /// Place of protection and verification, as told last.
    place_said: Option<LinkPlace>,
    /// The latest figures that its worker has told.
    pub(super) snapshot: LinkSnapshot,
}

/// A link that forwards nothing until its interfaces are there and its ports can be opened.
pub(super) struct Waiting {
    pub(super) since: Instant,
    /// The missing part, for people.
    pub(super) why: String,
    /// Not before then its ports are tried again.
    pub(super) try_at: Instant,
}

/// Its ports and interfaces.
pub(super) struct About {
    pub(super) mtus: Mtus,
    pub(super) plain_engine: String,
    pub(super) protected_engine: String,
    /// The SCI of the transmit SC.
    pub(super) sci: Sci,
    /// The address of the protected interface.
    pub(super) source: MacAddr,
    /// Start of the transmit SA and its first PN, if its key is static.
    pub(super) began: (Instant, Pn),
}

impl About {
    /// Of a link that was never started.
    fn unknown(link: &Link) -> Self {
        let source = MacAddr([0; 6]);
        let sci = match &link.keys {
            Keys::Static(sas) => sas.transmit.sci,
            Keys::Agreed(mka) => mka.sci_on(source),
            Keys::None => Sci::new(source, Sci::PORT_END_STATION),
        };
        let engine = String::from("not opened");
        Self {
            mtus: check::usual_mtus(link),
            plain_engine: engine.clone(),
            protected_engine: engine,
            sci,
            source,
            began: (Instant::now(), Pn::FIRST),
        }
    }

    fn new(mtus: Mtus, ports: &Ports, sci: Sci, source: MacAddr, began: (Instant, Pn)) -> Self {
        Self {
            mtus,
            sci,
            source,
            plain_engine: ports.plain.description().to_owned(),
            protected_engine: ports.protected.description().to_owned(),
            began,
        }
    }
}

impl RunningLink {
    /// A link that is not started yet, and why. Nothing of it is begun or prepared.
    pub(super) fn absent(link: Link, why: String) -> Self {
        let now = Instant::now();
        Self {
            about: About::unknown(&link),
            is_seated: false,
            prepared: [None, None],
            waiting: Some(Waiting { since: now, why, try_at: now }),
            loss: LossForwarding::new(link.link_loss, now),
            carriers: None,
            machine_end: None,
            not_held: None,
            fallback: None,
            unmarked: None,
            kay_in_kernel: false,
            awaits_sak: None,
            place_said: None,
            snapshot: LinkSnapshot::default(),
            config: link,
        }
    }

    /// Opens interfaces and ports anew, as the configuration says; no port may be open on those before. Interfaces
    /// that stay are not put back in between; without success some may be prepared.
    pub(super) fn reopen(
        &mut self,
        gateway: &Gateway,
        settings: &InterfaceSettings,
        mtus: Mtus,
    ) -> Result<Ports, String> {
        self.prepare(gateway, settings, [true; 2]).map_err(|error| error.to_string())?;
        let [Some(plain), protected] = &self.prepared else {
            unreachable!("invariant: it has just been prepared")
        };
        let opened = open_sides(plain, protected.as_deref(), gateway).map_err(|error| error.to_string())?;
        // The SCI stays, also on another interface: peers know it, and nobody else has it.
        let source = MacAddr(protected.as_ref().unwrap_or(plain).interface().mac());
        self.about = About::new(mtus, &opened.ports, self.about.sci, source, self.about.began);
        (self.waiting, self.fallback) = (None, opened.fallback);
        Ok(opened.ports)
    }

    /// Its prepared interfaces, as the next program of this process goes on with them.
    pub(super) fn pass_on(&self) -> Option<Vec<PassedInterface>> {
        let sides = self.prepared.iter().zip(self.config.interfaces());
        sides.map(|(prepared, _)| Some(prepared.as_ref()?.pass_on())).collect()
    }

    /// Why AF_XDP could not be had.
    pub(super) const fn fallback(&self) -> Option<&String> {
        self.fallback.as_ref()
    }

    /// The guards of its interfaces (plain, protected); empty where one is not prepared.
    pub(super) fn guards(&self) -> [&'static str; 2] {
        self.prepared.each_ref().map(|one| one.as_ref().map_or("", |prepared| prepared.guard().name()))
    }

    /// Prepares the interfaces that are there (plain, protected), each by itself; those that are prepared are looked
    /// at again. No port may be open on them.
    pub(super) fn prepare(
        &mut self,
        gateway: &Gateway,
        settings: &InterfaceSettings,
        there: [bool; 2],
    ) -> Result<(), InterfaceError> {
        let allowed = allowed(gateway, self.config.allow_addresses);
        let mut result = Ok(());
        for ((slot, name), there) in self.prepared.iter_mut().zip(self.config.interfaces()).zip(there) {
            let prepared = match slot.take() {
                _ if !there => Ok(None),
                Some(mut prepared) => prepared.renew().map(|()| Some(prepared)),
                None => settings.prepare(name, allowed).map(Some),
            };
            match prepared {
                Ok(prepared) => *slot = prepared,
                Err(error) => result = result.and(Err(error)),
            }
        }
        result
    }

    /// Whether one of its interfaces is there (plain, protected) and not prepared yet.
    pub(super) fn is_to_prepare(&self, there: [bool; 2]) -> bool {
        let sides = self.prepared.iter().zip(self.config.interfaces());
        sides.zip(there).any(|((prepared, _), there)| there && prepared.is_none())
    }

    /// Whether its ports are on these interfaces (plain, protected), as they are now.
    pub(super) fn is_on(&self, seen: [Option<LinkState>; 2]) -> bool {
        let sides = self.prepared.iter().zip(self.config.interfaces());
        sides.zip(seen).all(|((prepared, _), seen)| match (prepared, seen) {
            (Some(prepared), Some(seen)) => {
                let interface = prepared.interface();
                (interface.index(), interface.mtu()) == (seen.index, seen.mtu)
            }
            _ => false,
        })
    }

    /// Lets go of interfaces that are not there any more, or are others under the same name; no port may be open on
    /// them. What they need to be put back is done if they are somewhere else.
    pub(super) fn let_go(&mut self, seen: [Option<LinkState>; 2]) {
        for (slot, seen) in self.prepared.iter_mut().zip(seen) {
            let index = seen.map(|seen| seen.index);
            let gone = slot.take_if(|prepared| Some(prepared.interface().index()) != index);
            gone.into_iter().for_each(OwnInterface::let_go);
        }
    }

    /// Whether a side is to be taken down or brought up, as `loss` has it.
    pub(super) fn is_to_hold(&self) -> bool {
        Side::BOTH.into_iter().any(|side| self.is_to_change(side))
    }

    fn is_to_change(&self, side: Side) -> bool {
        let prepared = self.prepared[side.index()].as_ref();
        prepared.is_some_and(|prepared| prepared.is_held_down() != (self.loss.held() == Some(side)))
    }

    /// Takes a side down or brings it up, as `loss` has it.
    pub(super) fn hold_down(&mut self) -> Result<(), InterfaceError> {
        let held = self.loss.held();
        for side in Side::BOTH {
            let change = self.is_to_change(side);
            if let Some(prepared) = self.prepared[side.index()].as_mut().filter(|_| change) {
                prepared.hold_down(held == Some(side))?;
            }
        }
        Ok(())
    }

    /// The interface of a side.
    pub(super) fn interface(&self, side: Side) -> &str {
        match side {
            Side::Plain => &self.config.plain,
            Side::Protected => &self.config.protected,
        }
    }

    /// Why a side is held down, or is to be, if so.
    pub(super) fn why_held(&self) -> Option<String> {
        let side = self.loss.held()?;
        let (held, lost) = (self.interface(side), self.interface(side.other()));
        Some(match self.is_to_hold() {
            true => format!(
                "{lost} has no carrier, and {held} is held down as soon as the disk of the state directory has noted that"
            ),
            false => format!("{lost} has no carrier, so {held} is held down"),
        })
    }

    /// It has no ports, and why.
    pub(super) fn wait(&mut self, why: String, try_at: Instant) {
        let since = self.waiting.as_ref().map_or_else(Instant::now, |before| before.since);
        self.waiting = Some(Waiting { since, why, try_at });
    }

    /// The kinds of its ports.
    pub(super) fn engines(&self) -> String {
        let About { plain_engine, protected_engine, .. } = &self.about;
        let Link { plain, protected, .. } = &self.config;
        let fallback = self.fallback.as_ref().map(|reason| format!("; AF_XDP is not available: {reason}"));
        format!(
            "{plain} ({plain_engine}) to {protected} ({protected_engine}){}",
            fallback.unwrap_or_default()
        )
    }

    /// A key that could not be marked as used.
    pub(super) const fn unmarked(&self) -> Option<&UnmarkedKey> {
        self.unmarked.as_ref()
    }

    /// Warns if a key could not be marked as used.
    pub(super) fn warn_of_unmarked_key(&self) {
        let Some(UnmarkedKey { key_file, error }) = &self.unmarked else { return };
        if self.config.static_sas().is_none() {
            return;
        }
        warn!(
            event = "key-not-marked",
            link = self.config.name,
            "cannot mark {} as used ({error}), so the loss of the whole state directory would not be noticed; make a directory \"used\" beside the key, and let the gateway write there",
            key_file.display()
        );
    }

    /// Its transmit SA has just begun.
    pub(super) fn has_begun(&mut self, block: PnBlock, unmarked: Option<UnmarkedKey>) {
        (self.about.began, self.unmarked) = ((Instant::now(), block.first), unmarked);
    }

    /// Whether `io`, before and from here on, wants ports of another kind. Programs come and go in front of those of AF_XDP.
    pub(super) fn needs_other_ports(&self, io: [Io; 2]) -> bool {
        needs_other_ports(io, self.fallback.is_some())
    }

    /// Whether it has ports.
    pub(super) const fn is_open(&self) -> bool {
        self.waiting.is_none()
    }

    /// Its sides have just been brought up, or are others: nothing is known of their carriers.
    pub(super) fn let_settle(&mut self) {
        (self.loss, self.carriers) = (LossForwarding::new(self.config.link_loss, Instant::now()), None);
    }

    /// Puts its interfaces back, for it is to have others; no port may be open on them.
    pub(super) fn put_back(&mut self) -> Result<(), InterfaceError> {
        let prepared = std::mem::take(&mut self.prepared);
        self.let_settle();
        prepared.into_iter().flatten().map(OwnInterface::restore).fold(Ok(()), Result::and)
    }

    /// It is in no worker any more, and is started again as soon as it can be; its ports are closed.
    pub(super) fn unseat(&mut self, why: &str) -> Result<(), InterfaceError> {
        (self.is_seated, self.snapshot) = (false, LinkSnapshot::default());
        self.wait(why.to_owned(), Instant::now());
        self.put_back()
    }

    /// Puts its interfaces back; to be called when its ports are closed.
    pub(super) fn restore(mut self) -> Result<(), InterfaceError> {
        self.put_back()
    }

    /// Has its frames protected and verified in the kernel, as far as `io` and its own settings say; to be called when they change.
    pub(super) fn set_place(&self, control: &mut control::Gateway, io: Io) -> Result<(), String> {
        let Self { config, about, .. } = self;
        let Some(settings) = programs::settings(config, about.sci, about.mtus, io) else { return Ok(()) };
        let set = control.set_link_place(&config.name, &settings);
        set.map_err(|why| programs::refusal(&config.name, &why))
    }

    /// Logs where its frames are protected and verified, if that is news.
    pub(super) fn log_place(&mut self, control: &control::Gateway) {
        let place = control.link_place(&self.config.name).filter(|_| self.config.has_secy());
        if place != self.place_said {
            place.iter().for_each(|place| programs::log_place(&self.config.name, place));
            self.place_said = place;
        }
    }

    /// Says what was chosen.
    pub(super) fn announce(&self) {
        let link = &self.config;
        let name = &link.name;
        if let Some(reason) = &self.fallback {
            info!(
                event = "engine-fallback",
                link = name,
                "AF_XDP is not available, so AF_PACKET is used: {reason}"
            );
        }
        let About { plain_engine, protected_engine, .. } = &self.about;
        let (plain, protected) = (&link.plain, &link.protected);
        let from_to = format!("{plain} ({plain_engine}) to {protected} ({protected_engine})");
        let cell = link.cell.as_ref().map(|cell| (&cell.name, check::cell::summary(cell)));
        match (cell, &link.keys) {
            // A cell that drops the rest has no link but its own, which no other frame passes.
            (Some((cell, summary)), Keys::None) => {
                info!(event = "cell-started", cell, "{from_to}, {summary}, bursts of {BURST_FRAMES}");
            }
            (cell, _) => {
                let suite = check::keys::suite(link);
                info!(event = "link-started", link = name, "{from_to}, {suite}, bursts of {BURST_FRAMES}");
                if let Some((cell, summary)) = cell {
                    info!(event = "cell-started", cell, "in link {name:?}, {summary}");
                }
            }
        }
        self.warn_of_unmarked_key();
        for prepared in self.prepared.iter().flatten() {
            let interface = prepared.interface();
            if !interface.addresses().is_empty() {
                warn!(
                    event = "port-addresses",
                    link = name,
                    "{} has addresses ({}) that nobody can reach while the gateway runs; remove them",
                    interface.name(),
                    interface.addresses().join(", ")
                );
            }
            if prepared.guard() == Guard::None {
                warn!(
                    event = "port-unguarded",
                    link = name,
                    "{} is unguarded (unguarded = true): this box's own stack can receive and send there",
                    interface.name()
                );
            }
            for feature in prepared.remaining_offloads() {
                warn!(
                    event = "port-offload",
                    link = name,
                    "{} cannot switch {feature} off; if VLAN tags or frames are lost, use another interface",
                    interface.name()
                );
            }
        }
    }
}

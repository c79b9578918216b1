//! Steps of a reload: what becomes of each link.

use secy::CarryOver;
use tracing::warn;

use super::super::link::{About, RunningLink};
use config::check::Mtus;
use config::{Io, Keys, Link, Mka, StaticSas};

/// Change of one link by the new configuration.
pub(super) struct Step {
    pub(super) link: Link,
    pub(super) mtus: Mtus,
    pub(super) what: What,
}

pub(super) enum What {
    Keep,
    Change {
        keys: KeyChange,
        reopen: bool,
    },
    /// A running one of its name is stopped before.
    Add,
}

/// Change of a link's keys.
pub(super) enum KeyChange {
    Static(CarryOver),
    /// All SAs go on; the SecY's settings change if `pipeline` says so.
    Agreed {
        pipeline: bool,
    },
    /// There are none; the SecY's settings change if `pipeline` says so.
    None {
        pipeline: bool,
    },
    /// Nothing of them, nor of the SecY's settings: the cell is another one.
    Keep,
}

impl What {
    /// The link's line, if it is one that runs.
    pub(super) fn words(&self) -> Option<&'static str> {
        match self {
            Self::Change { reopen: true, .. } => Some("restarted, its SAs go on"),
            // Changes of a cell alone are logged relation by relation.
            Self::Change { keys: KeyChange::Keep, .. } | Self::Keep | Self::Add => None,
            Self::Change { .. } => Some("changed"),
        }
    }
}

impl Step {
    /// The step from the running link of its name, if there is one. `io`: before and from here on.
    pub(super) fn of(running: Option<&RunningLink>, link: Link, mtus: Mtus, io: [Io; 2]) -> Self {
        let Some(running) = running.filter(|running| running.is_seated) else {
            return Self { link, mtus, what: What::Add };
        };
        let (old, same_mtus) = (&running.config, running.about.mtus == mtus);
        // A link that goes into a site, or comes out of one, leaves its slot.
        if link.in_site != old.in_site {
            return Self { link, mtus, what: What::Add };
        }
        if link == *old && same_mtus && io[0] == io[1] {
            return Self { link, mtus, what: What::Keep };
        }
        let same_pipeline = link.is_like_but_for_keys(old) && same_mtus;
        let keys = match (&link.keys, &old.keys) {
            _ if same_pipeline && link.keys == old.keys => KeyChange::Keep,
            (Keys::None, Keys::None) => KeyChange::None { pipeline: !same_pipeline },
            (Keys::Static(sas), Keys::Static(old)) => KeyChange::Static(static_keys_go_on(&link, sas, old)),
            (Keys::Agreed(mka), Keys::Agreed(old_mka)) if keeps_sci(mka, old_mka, &running.about) => {
                KeyChange::Agreed { pipeline: !same_pipeline }
            }
            _ => return Self { link, mtus, what: What::Add },
        };
        let ports = |link: &Link| (link.plain.clone(), link.protected.clone(), link.mtu);
        let reopen = running.needs_other_ports(io) || ports(&link) != ports(old) || !same_mtus;
        Self { link, mtus, what: What::Change { keys, reopen } }
    }
}

/// Which of the old SAs go on as new ones: those with the same key and names.
fn static_keys_go_on(link: &Link, new: &StaticSas, old: &StaticSas) -> CarryOver {
    let same_suite = new.suite == old.suite;
    let transmit_stays = same_suite && new.transmit.goes_on_as(&old.transmit);
    let transmit = transmit_stays.then_some((new.transmit.an, link.protection));
    let mut carry_over = CarryOver { transmit, ..CarryOver::default() };
    for sa in &new.receive {
        let before = old.receive.iter().find(|before| (before.sci, before.an) == (sa.sci, sa.an));
        match before {
            Some(before) if same_suite && before.goes_on_as(sa) => carry_over.receive.push((sa.sci, sa.an)),
            Some(_) => warn!(
                event = "key-under-same-an",
                link = link.name,
                "AN {} of {} has another key, so frames on the way are lost; give a new key another an",
                sa.an,
                sa.sci
            ),
            None => {}
        }
    }
    carry_over
}

/// Whether the SCI of a link whose keys are agreed on stays as it is. Without a name it stays for the link's life.
fn keeps_sci(new: &Mka, old: &Mka, about: &About) -> bool {
    (new.sci, old.sci) == (None, None) || new.sci_on(about.source) == about.sci
}

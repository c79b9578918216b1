//! Steps of a reload: what becomes of each link.

use secy::CarryOver;
use tracing::warn;

use super::super::link::{About, RunningLink};
use config::change::{Around, KeysChange, LinkChange};
use config::check::Mtus;
use config::{Io, Keys, Link, Mka, StaticSas};

/// Change of one link by the new configuration.
pub(super) struct Step {
    pub(super) link: Link,
    pub(super) mtus: Mtus,
    pub(super) what: What,
    /// The link's line, if it is one that runs.
    pub(super) words: Option<&'static str>,
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

/// Whether the transmit SA of a link's express SC goes on, or there is none before and behind.
#[derive(Clone, Copy)]
pub(in crate::run) struct ExpressGoesOn(pub(in crate::run) bool);

/// Change of a link's keys.
pub(super) enum KeyChange {
    Static(CarryOver, ExpressGoesOn),
    Other(KeysChange),
}

impl Step {
    /// The step from the running link of its name, if there is one. `io`: before and from here on.
    pub(super) fn of(running: Option<&RunningLink>, link: Link, mtus: Mtus, io: [Io; 2]) -> Self {
        let Some(running) = running.filter(|running| running.is_seated) else {
            return Self { link, mtus, what: What::Add, words: None };
        };
        let keeps_sci = |new: &Mka, old: &Mka| keeps_sci(new, old, &running.about);
        let around = Around {
            same_mtus: running.about.mtus == mtus,
            io_changes: io[0] != io[1],
            other_ports: running.needs_other_ports(io),
            keeps_sci: &keeps_sci,
        };
        let change = LinkChange::of(&running.config, &link, around);
        let what = match change {
            LinkChange::Keep => What::Keep,
            LinkChange::Restart => What::Add,
            LinkChange::Change { keys, reopen } => {
                let keys = match (keys, &link.keys, &running.config.keys) {
                    (KeysChange::Static, Keys::Static(sas), Keys::Static(old)) => {
                        let mut carry_over = static_keys_go_on(&link, sas, old);
                        let express = express_goes_on(&link, &running.config, &mut carry_over);
                        KeyChange::Static(carry_over, express)
                    }
                    (other, ..) => KeyChange::Other(other),
                };
                What::Change { keys, reopen }
            }
        };
        Self { link, mtus, what, words: change.words() }
    }
}

/// Finds old SAs that go on as new ones: those with the same key and names.
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

/// The same for the SAs of express SCs, whose keys, SCIs and ANs follow those of the others.
fn express_goes_on(link: &Link, old: &Link, carry_over: &mut CarryOver) -> ExpressGoesOn {
    if let (true, true) = (link.express, old.express) {
        let express = carry_over.receive.iter().filter_map(|(sci, an)| Some((sci.express()?, *an)));
        let express: Vec<_> = express.collect();
        carry_over.receive.extend(express);
    }
    ExpressGoesOn(carry_over.transmit.is_some() && link.express == old.express)
}

/// Whether the SCI of a link whose keys are agreed on stays as it is. Without a name it stays for the link's life.
fn keeps_sci(new: &Mka, old: &Mka, about: &About) -> bool {
    (new.sci, old.sci) == (None, None) || new.sci_on(about.source) == about.sci
}

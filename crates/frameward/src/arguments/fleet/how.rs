//! Ways to publish a rendering, and what each of its gateways gets by that.

use fleet::publish::{Difference, Place};
use fleet::rendering::Rendered;
use fleet::{Draft, Kind, PublicIdentity};
use inventory::CutOff;

/// Manner in which a rendering is published.
#[derive(Clone, Copy)]
pub(super) struct How<'a> {
    pub(super) kind: Kind,
    pub(super) dry_run: bool,
    pub(super) anew: bool,
    pub(super) static_keys_are_new: bool,
    /// Also in the place of what is on none.
    pub(super) on_trial: bool,
    /// Nothing at all, if a gateway has anything else than these versions or the same files.
    pub(super) over: Option<&'a CutOff>,
}

impl<'a> How<'a> {
    /// Changes alone, as this kind of record.
    pub(super) const fn changes(kind: Kind, over: Option<&'a CutOff>) -> Self {
        Self { kind, dry_run: false, anew: false, static_keys_are_new: false, on_trial: false, over }
    }
}

/// A gateway of the rendering.
pub(super) struct Gateway {
    pub(super) rendered: Rendered,
    pub(super) member: PublicIdentity,
}

impl Gateway {
    pub(super) const fn draft(&self, kind: Kind) -> Draft<'_> {
        Draft { gateway: &self.rendered.name, member: &self.member, kind, files: &self.rendered.files }
    }

    /// Name and key: people compare the latter with what its box prints.
    pub(super) fn title(&self) -> String {
        format!("{} {}", self.rendered.name, self.member.key())
    }
}

impl How<'_> {
    /// A record that takes the place of one without a trial is on none either, unless the operator says so: who has not fetched that record
    /// would have the revoked gateway in its trial.
    pub(super) fn kind(self, place: &Place) -> Kind {
        match self.kind {
            Kind::Configuration if place.is_without_trial && !self.on_trial => Kind::ConfigurationToKeep,
            kind => kind,
        }
    }

    /// Treatment of a gateway. `is_recognized`: what the operator has published before is known as his own, if anything is.
    pub(super) fn turn(self, gateway: &Gateway, place: &Place, is_recognized: bool) -> Turn {
        if self.repeats_packet_numbers(gateway, place) {
            return Turn::Refused(
                "its box is another one, and does not know which packet numbers the static keys had; make new keys for both ends of the link, and apply with --static-keys-are-new",
            );
        }
        if !is_recognized && self.trusts_that_keys_are_new(gateway, place) {
            return Turn::Refused(
                "whether its static keys are new cannot be checked, as nothing in the directory is recognized: the signing key was moved into a token; apply first without --static-keys-are-new, then again, or give the box another name",
            );
        }
        match place.difference {
            Difference::Same { .. } if !self.anew => Turn::Stays,
            _ if self.dry_run => Turn::Stays,
            _ => Turn::Goes,
        }
    }

    /// True if a box without marks would get static keys that another one had: it would begin at packet number 1 again. What the other
    /// one had is sealed, so the operator has to say that keys in changed files are new.
    const fn repeats_packet_numbers(self, gateway: &Gateway, place: &Place) -> bool {
        gateway.rendered.has_static_keys
            && match place.difference {
                Difference::OtherIdentity { same_files, .. } => same_files || !self.static_keys_are_new,
                _ => false,
            }
    }

    /// True if a box gets static keys because the operator says that nobody had them.
    const fn trusts_that_keys_are_new(self, gateway: &Gateway, place: &Place) -> bool {
        self.static_keys_are_new
            && gateway.rendered.has_static_keys
            && matches!(place.difference, Difference::OtherIdentity { .. })
    }
}

/// Treatment of a gateway.
pub(super) enum Turn {
    /// Nothing, and why.
    Refused(&'static str),
    /// Nothing: it has what it gets, or would get this.
    Stays,
    /// A record is published.
    Goes,
}

/// A difference in words.
pub(super) fn planned(difference: &Difference) -> String {
    match difference {
        Difference::New => "new".to_owned(),
        Difference::Changed { version } => format!("changed since version {version}"),
        Difference::OtherIdentity { version, .. } => {
            format!("has another identity than in version {version}")
        }
        Difference::Ending { version } => {
            format!("unchanged; version {version} ends soon, has ended, or begins later")
        }
        Difference::Revoked { version } => format!("revoked in version {version}"),
        Difference::Foreign => "what is in the directory was not signed by this operator".to_owned(),
        Difference::Same { version } => format!("unchanged, version {version}"),
    }
}

/// A published version in words.
pub(super) fn published(place: &Place, version: u64) -> String {
    format!("published version {version}: {}", planned(&place.difference))
}

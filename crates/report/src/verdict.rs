//! The verdict on a link, its cell, or a site: the first thing that `status`, page, metrics and log say, made here and nowhere else.
//!
//! | state | level | what was seen |
//! |---|---|---|
//! | `protecting` | good | valid frames came lately; or the keys are agreed on with live peers |
//! | `idle` | idle | nothing came, and nothing was sent that would have been answered |
//! | `discards` | attention | valid frames come, and others are discarded |
//! | `weak settings` | attention | the configuration lets frames pass that were not verified, or replayed |
//! | `unfilled checksums` | attention | the machine leaves checksums to hardware that is not there: TCP does not work |
//! | `PNs run out` | attention | a quarter of the key's PNs is left |
//! | `forged headers` | attention | a peer's packets were changed on their way to a site |
//! | `no standby` | attention | the other box of a site's LAN is not heard, or does not take over from this one; or both forward |
//! | `cover gaps` | attention | with cover: more than one tick in a hundred of the last minute had no frame |
//! | `disk stalled` | attention | leases or floors cannot be written, or late |
//! | `unanswered` | attention | a site's peer that does not say what it got: frames are sent, and none comes |
//! | `express silent` | attention | express frames of a peer came, and come no more; others do |
//! | `partial mesh` | attention | not all of the group hear each other |
//! | `stranger` | attention, alarm | somebody has a CAK and is not known to belong to the link |
//! | `fallback CAK` | attention | keys are agreed on under another CAK than the preferred one |
//! | `fallback key` | attention | sessions of a cell do not rest on the preferred master key |
//! | `silent` | attention | frames are sent, and none that is valid comes any more |
//! | `peer absent` | attention, alarm | the same since the start; with key agreement: nobody is heard |
//! | `one way` | attention, alarm | the peer is there and sends, and nothing valid of it comes; or it does not hear this box |
//! | `keys differ` | alarm, attention | every frame of a peer fails its ICV |
//! | `late frames` | alarm, attention | every frame of a peer is late: it began anew, or somebody replays |
//! | `sci differs`, `an differs` | alarm, attention | frames come for which there is no SA |
//! | `sci in use` | alarm, attention | another station has the SCI of this one |
//! | `clear frames` | alarm, attention | frames come in clear, and no others; or beside valid ones or a peer: a stranger's, or of a bypassed gateway |
//! | `wrong CAK`, `wrong CKN` | alarm | MKPDUs under another key, or another name |
//! | `no keys` | alarm, attention | nothing is sent, or nothing can be verified: there is no SA |
//! | `PNs used up` | alarm | nothing is sent |
//! | `sends in clear` | alarm | `protect_frames = false`, shadow mode, a plain peer |
//! | `no session` | alarm | relations of a cell have none |
//! | `refused` | alarm | a site and its peer do not accept each other |
//! | `no channel` | attention, alarm | there is no management channel to a peer; to none of them |
//! | `waiting`, `cut` | alarm | an interface is missing; there is no carrier |
//!
//! Rows with two levels: the first is that of a link over which nothing valid comes, the second that of one where it does, or of one that is
//! idle. A stranger's frames are no reason for an alarm.

use serde::{Deserialize, Serialize};

/// State of a link, a cell or a site, in a word: the table above has them.
#[expect(missing_docs, reason = "the table above says each")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    Protecting,
    Idle,
    Discards,
    WeakSettings,
    UnfilledChecksums,
    PnsRunOut,
    ForgedHeaders,
    NoStandby,
    CoverGaps,
    DiskStalled,
    PartialMesh,
    Stranger,
    Fallback,
    FallbackKey,
    Unanswered,
    ExpressSilent,
    Silent,
    PeerAbsent,
    OneWay,
    KeysDiffer,
    LateFrames,
    SciDiffers,
    SciInUse,
    AnDiffers,
    ClearFrames,
    WrongCak,
    WrongCkn,
    NoKeys,
    PnsUsedUp,
    SendsInClear,
    NoSession,
    Refused,
    NoChannel,
    Waiting,
    Cut,
}

impl State {
    /// The word that all say.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Protecting => "protecting",
            Self::Idle => "idle",
            Self::Discards => "discards",
            Self::WeakSettings => "weak settings",
            Self::UnfilledChecksums => "unfilled checksums",
            Self::PnsRunOut => "PNs run out",
            Self::ForgedHeaders => "forged headers",
            Self::NoStandby => "no standby",
            Self::CoverGaps => "cover gaps",
            Self::DiskStalled => "disk stalled",
            Self::PartialMesh => "partial mesh",
            Self::Stranger => "stranger",
            Self::Fallback => "fallback CAK",
            Self::FallbackKey => "fallback key",
            Self::Unanswered => "unanswered",
            Self::ExpressSilent => "express silent",
            Self::Silent => "silent",
            Self::PeerAbsent => "peer absent",
            Self::OneWay => "one way",
            Self::KeysDiffer => "keys differ",
            Self::LateFrames => "late frames",
            Self::SciDiffers => "sci differs",
            Self::SciInUse => "sci in use",
            Self::AnDiffers => "an differs",
            Self::ClearFrames => "clear frames",
            Self::WrongCak => "wrong CAK",
            Self::WrongCkn => "wrong CKN",
            Self::NoKeys => "no keys",
            Self::PnsUsedUp => "PNs used up",
            Self::SendsInClear => "sends in clear",
            Self::NoSession => "no session",
            Self::Refused => "refused",
            Self::NoChannel => "no channel",
            Self::Waiting => "waiting",
            Self::Cut => "cut",
        }
    }

    /// Whether frames are not known to pass, though nothing is known to be wrong here.
    const fn is_unproven(self) -> bool {
        matches!(self, Self::Silent | Self::PeerAbsent | Self::OneWay)
    }
}

/// Severity of a state.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Valid frames come.
    Good,
    /// Nothing is wrong, and nothing shows that all is well.
    Idle,
    /// Somebody should look.
    Attention,
    /// Frames leave in clear, or do not pass.
    Alarm,
}

impl Level {
    /// For people, before the verdict's words.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Good => "PROTECTING",
            Self::Idle => "IDLE",
            Self::Attention => "ATTENTION",
            Self::Alarm => "NOT PROTECTING",
        }
    }
}

/// The verdict on a link, a cell or a site.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Verdict {
    /// The state, in a word.
    pub state: String,
    /// The severity of the state.
    pub level: Level,
    /// Frames pass and are protected, as far as was verified lately, or nothing was sent.
    pub protecting: bool,
    /// The state with its cause and its cure, in a sentence.
    pub text: String,
}

impl Verdict {
    /// Whether it is made of frames that come or do not come: a pause of the machines or a stranger in the network is enough for each of these,
    /// whatever their level.
    pub fn is_of_traffic(&self) -> bool {
        use State as S;
        [S::Silent, S::OneWay, S::ClearFrames, S::KeysDiffer, S::LateFrames, S::SciDiffers, S::AnDiffers]
            .iter()
            .any(|state| state.word() == self.state)
    }
}

impl Default for Verdict {
    /// Of a gateway that gives none: one of another release.
    fn default() -> Self {
        Self {
            state: "unknown".into(),
            level: Level::Idle,
            protecting: false,
            text: "The gateway gives no verdict: it has another release.".into(),
        }
    }
}

/// Something that is not as it should be.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Concern {
    /// Whether the link does not protect: frames leave in clear, or do not leave at all.
    pub grave: bool,
    /// Its text, in a sentence.
    pub text: String,
}

/// A state that was found, with how much it matters here, and its words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Finding {
    pub(crate) state: State,
    pub(crate) level: Level,
    pub(crate) text: String,
}

impl Finding {
    pub(crate) fn new(state: State, level: Level, text: impl Into<String>) -> Self {
        Self { state, level, text: text.into() }
    }

    pub(crate) fn alarm(state: State, text: impl Into<String>) -> Self {
        Self::new(state, Level::Alarm, text)
    }

    pub(crate) fn attention(state: State, text: impl Into<String>) -> Self {
        Self::new(state, Level::Attention, text)
    }
}

/// The worst finding is the verdict, the first of equal ones; all are concerns, the worst first. Without any it is
/// `otherwise`.
pub(crate) fn worst(mut findings: Vec<Finding>, otherwise: Finding) -> (Verdict, Vec<Concern>) {
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.level));
    let unproven = findings.iter().any(|finding| finding.state.is_unproven());
    let Finding { state, level, text } = findings.first().unwrap_or(&otherwise).clone();
    let verdict =
        Verdict { state: state.word().into(), level, protecting: level != Level::Alarm && !unproven, text };
    let concern = |Finding { level, text, .. }| Concern { grave: level == Level::Alarm, text };
    (verdict, findings.into_iter().map(concern).collect())
}

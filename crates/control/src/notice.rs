//! Notices of control to a person.

use std::path::PathBuf;
use std::time::Duration;

use pnstore::LeaseError;

/// Something that a person has to know.
#[derive(Debug)]
pub enum Notice {
    /// Three quarters of the PNs of this link's transmit SA are used.
    ChangeKeySoon {
        /// The link's name.
        link: String,
    },
    /// This link's transmit SA has no PN left: it discards what it should send.
    PnExhausted {
        /// The link's name.
        link: String,
    },
    /// PNs could not be reserved for this link; it is tried again every second.
    LeaseFailed {
        /// The link's name.
        link: String,
        /// Why.
        error: LeaseError,
    },
    /// Replay floors could not be written. Links go on; it is tried again every [`FLOOR_PERIOD`](crate::FLOOR_PERIOD), and told every minute.
    FloorsFailed {
        /// Why.
        error: LeaseError,
    },
    /// Replay floors came to disk too late: a crash meanwhile would have left more than a second open to replay.
    FloorsLate {
        /// The excess over a second.
        open: Duration,
    },
    /// The disk of the state directory does not answer. Links go on; told every minute.
    DiskSilent {
        /// The state directory.
        path: PathBuf,
        /// Duration of the silence.
        silent: Duration,
    },
    /// It answers again.
    DiskAnswers {
        /// The state directory.
        path: PathBuf,
        /// Duration of the silence.
        silent: Duration,
    },
    /// Something has changed in the key agreement of this link.
    KeyAgreement {
        /// The link's name.
        link: String,
        /// The change, and its reason.
        reason: mka::Reason,
        /// The same in words, with the names of members.
        words: String,
    },
    /// A SAK of this link is installed, but not for this peer: the SecY has no room for another receive SC. Its frames are
    /// discarded (`InPktsNoSAError`); the others are served.
    TooManyPeers {
        /// The link's name.
        link: String,
        /// The peer.
        sci: wire::Sci,
        /// The same, and its name if it has one.
        peer: String,
    },
    /// A SAK of this link cannot be installed, and is not used.
    SakRefused {
        /// The link's name.
        link: String,
        /// The SAK.
        ki: wire::Ki,
        /// Why.
        why: String,
    },
    /// The kernel does not do what it should for the SAs of this link, so its frames may not pass.
    LinkKernelFault {
        /// The link's name.
        link: String,
        /// The kernel's word for it.
        why: String,
    },
    /// Frames of this relation pass from here on, under the keys of a new session.
    CyclicSession {
        /// The cell's name.
        cell: String,
        /// The relation.
        relation: fieldbus::relation::Relation,
    },
    /// No verified frame of these relations came for as long as is an alarm. Told once a second at most, of all relations
    /// together.
    CyclicSilence {
        /// The cell's name.
        cell: String,
        /// The relations, in the order of the settings; at least one.
        relations: Vec<fieldbus::relation::Relation>,
        /// The longest time without a verified frame of any of them since this was told last; it may go on.
        gap: Duration,
    },
    /// The kernel does not do what it should for these relations of a cell, so their frames may not pass. Told once for each reason,
    /// and again when it is another one.
    KernelFault {
        /// The cell's name.
        cell: String,
        /// The relations, in the order of the settings; at least one.
        relations: Vec<fieldbus::relation::Relation>,
        /// The missing work, its reason, and its cure.
        why: String,
    },
    /// A worker has ended without being told to: its links forward nothing.
    WorkerEnded {
        /// The names of its links and sites.
        links: Vec<String>,
    },
}

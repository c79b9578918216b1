//! Errors of leases and floors, each with its cure.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::record::{MAX_RECORDS, RecordError};

/// Error of leases and floors. Every text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// The state directory cannot be made or opened.
    #[error("cannot open the state directory {}: {source}; create it and let the gateway write to it", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Another process holds the state directory.
    #[error("the state directory {} is in use by another gateway; stop that one, or give each its own `state`", path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// The records cannot be read.
    #[error("cannot read {}: {source}; let the gateway read it", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The records cannot be written; no PN was handed out.
    #[error("cannot write packet numbers to {}: {source}; make room and let the gateway write there", path.display())]
    Write {
        /// The directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Records are damaged, so nobody knows which PNs are used.
    #[error("{} is damaged ({reason}); {ANEW}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Its fault.
        reason: RecordError,
    },
    /// The records existed and are gone, so nobody knows which PNs are used.
    #[error("{} is lost, and with it the packet numbers already used; {ANEW}", path.display())]
    Lost {
        /// The file.
        path: PathBuf,
    },
    /// The records were written on another machine: a copied disk, whose origin may be counting on.
    #[error("{} was written on another machine (its machine-id differs); {ANEW}", path.display())]
    OtherMachine {
        /// The file.
        path: PathBuf,
    },
    /// Nobody can tell where this state has been meanwhile: perhaps it is a restored image.
    #[error(
        "the state in {} is {} hours old by this clock, and state_max_age allows {}; is the clock right? If it is, \
         the disk may have been restored: {ANEW}", path.display(), age.as_secs() / 3600, max_age.as_secs() / 3600
    )]
    Old {
        /// The directory.
        path: PathBuf,
        /// Since the last heartbeat.
        age: Duration,
        /// The age that is accepted.
        max_age: Duration,
    },
    /// The key was used before, and the state does not know it: the state is lost as a whole, or the key came from
    /// another box.
    #[error(
        "the key in {} has been used for sending, {} says, but {} does not know up to which packet number; \
         change the key at both ends: make a new one; a copy in another file is the same key", key_file.display(), mark.display(), path.display()
    )]
    KeyUsed {
        /// The key's file.
        key_file: PathBuf,
        /// The file that says so.
        mark: PathBuf,
        /// The state directory.
        path: PathBuf,
    },
    /// The machine went back to a snapshot while a gateway with static keys ran.
    #[error("{} shows that this machine returned to an earlier state, so packet numbers may have been used since; {ANEW}", path.display())]
    Restored {
        /// The file that says so.
        path: PathBuf,
    },
    /// This box has received under the name that it is to send under.
    #[error(
        "this box has received under this key and SCI before, {} says: the two boxes' configurations were exchanged; \
         {EXCHANGED}", record.display()
    )]
    Received {
        /// The file that says so.
        record: PathBuf,
    },
    /// This box has sent under the name that it is to receive under.
    #[error(
        "this box has sent under this key and SCI before, {} says: the two boxes' configurations were exchanged; \
         {EXCHANGED}", record.display()
    )]
    Sent {
        /// The file that says so.
        record: PathBuf,
    },
    /// Another gateway reads or writes the marks beside the keys, and does not end.
    #[error(
        "another gateway has locked {} for seconds, as a starting gateway does; stop it, or start this one again",
        marks.display()
    )]
    MarksHeld {
        /// The marks of the key.
        marks: PathBuf,
    },
    /// The disk does not answer; nothing is known to have been written.
    #[error(
        "the disk under {} has not answered for {} s; the kernel's log (dmesg) may show why", path.display(), silent.as_secs()
    )]
    Silent {
        /// The state directory.
        path: PathBuf,
        /// Duration of the silence.
        silent: Duration,
    },
    /// More keys than the file holds.
    #[error("{} is full ({MAX_RECORDS} keys); {ANEW}", path.display())]
    Full {
        /// The file.
        path: PathBuf,
    },
}

/// Cure when nobody knows which PNs are used.
const ANEW: &str = "change all static keys, then remove leases* and floors* from the state directory";

/// Cure when two boxes have each other's names.
const EXCHANGED: &str = "put them back, or make new keys on both";

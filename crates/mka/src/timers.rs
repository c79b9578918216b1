//! How long things take (IEEE 802.1X-2020 table 9-3), and how often something may be done beyond that.

use core::time::Duration;

use wire::Instant;

/// MKA Hello Time, 2 s, less a little: of three hellos in a life time the third then does not come just too late.
pub(crate) const HELLO: Duration = Duration::from_millis(1900);
/// MKA Bounded Hello Time: the same with delay protection, and while a SAK is being handed out: what is lost on the way is
/// then said again soon. And while nobody is heard: the line may come at any moment.
pub(crate) const BOUNDED_HELLO: Duration = Duration::from_millis(475);
/// MKA Life Time: who has not shown for so long to hear us is not live.
pub(crate) const LIFE: Duration = Duration::from_millis(6000);
/// How long a key server waits for all to receive (CP's transmitWhen).
pub(crate) const TRANSMIT_DELAY: Duration = LIFE;
/// SAK Retire Time: how long what was sent under the SAK before is still taken.
pub(crate) const SAK_RETIRE: Duration = Duration::from_millis(3000);
/// How much longer, if a peer goes on sending under it.
pub(crate) const SAK_RETIRE_MAX: Duration = Duration::from_millis(9000);
/// Data that was delayed by more is refused under delay protection (clause 9.10.1).
pub(crate) const DATA_DELAY: Duration = Duration::from_millis(2000);

/// Between two SAKs of one key server. Members that join in quick succession (a group that is powered up) then share
/// one, and a SAK takes effect before the next one comes: an exchange takes a few milliseconds on a LAN.
pub(crate) const SAK_GAP: Duration = Duration::from_millis(100);
/// A live peer that was not heard for so long has said something that was lost: we speak more often, so that it sees what
/// we have not heard, and says it again.
pub(crate) const OVERDUE: Duration = Duration::from_millis(2500);
/// An MKPDU that went out so long ago and that a live peer has not heard was lost: what it said is said again. So of many
/// that get lost, few cost a life.
pub(crate) const LOSS_DELAY: Duration = Duration::from_millis(250);
/// How long a new key server waits if no SAK is in use: stations that start together, after a power failure, hear each
/// other meanwhile, and have one key server and one SAK instead of several in quick succession.
pub(crate) const START_DELAY: Duration = Duration::from_millis(20);
/// How long a new key server leaves the SAK in use as it is: members that were lost together with the key server, by an
/// outage of all, are heard again by then, and are not left behind with the SAK before.
pub(crate) const TAKEOVER_DELAY: Duration = Duration::from_millis(2500);
/// How long a member that ought to be key server and does not say so is waited for: it has lost the key server before too,
/// and found out at most one hello and a half later.
pub(crate) const CLAIM_GRACE: Duration = Duration::from_millis(3000);
/// How long a candidate for key server has to hear fewer members than another one before it yields to that one, and as many
/// before it stands again: twice the time after which lists of members that have gone differ.
pub(crate) const REACHABILITY_HOLD: Duration = Duration::from_millis(12_000);
/// A SAK for a member that protects with another one is followed by the next such one not before this time, which doubles.
pub(crate) const STRAY_INTERVAL: Duration = Duration::from_millis(20_000);
/// At most so long.
pub(crate) const STRAY_INTERVAL_MAX: Duration = Duration::from_millis(600_000);
/// How long another participant has to be the better one before it becomes the principal one: MKPDUs that get lost do not
/// make two CAKs change places.
pub(crate) const PRINCIPAL_HOLD: Duration = Duration::from_millis(2000);
/// The same if the principal one has nobody.
pub(crate) const LONELY_HOLD: Duration = Duration::from_millis(200);
/// Who has been live for so long under a CAK, and is not known, is a stranger: a member that starts is live under one CAK
/// before it is under the other.
pub(crate) const STRANGER_DELAY: Duration = LIFE;
/// Between two strangers that are told.
pub(crate) const STRANGER_GAP: Duration = Duration::from_millis(10_000);
/// A member that has been live for so long with a key server, and has no SAK, begins anew: some key servers forget to make
/// one when a member restarts soon after a SAK.
pub(crate) const SAK_TIMEOUT: Duration = Duration::from_millis(15_000);
/// A member that has been live for so long with a key server that protects with a SAK, and does not get it, asks for another
/// one: a key server that has not forgotten it makes one with its next hello.
pub(crate) const FORGOTTEN_DELAY: Duration = Duration::from_millis(3000);
/// For so long what stands in the way (a wrong CAK heard) is told.
pub(crate) const FAULT_HOLD: Duration = Duration::from_millis(10_000);

/// The earliest of several moments.
#[derive(Debug, Default)]
pub(crate) struct Earliest(Option<Instant>);

impl Earliest {
    pub(crate) fn add(&mut self, moment: impl Into<Option<Instant>>) {
        self.0 = match (self.0, moment.into()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }

    pub(crate) const fn moment(&self) -> Option<Instant> {
        self.0
    }
}

//! Times of the protocol (IEEE 802.1X-2020 table 9-3), and our limits beyond them.

use core::time::Duration;

use wire::Instant;

/// MKA Hello Time, 2 s minus a margin: the third hello of a life time then arrives before its end.
pub(crate) const HELLO: Duration = Duration::from_millis(1900);
/// MKA Bounded Hello Time. Used with delay protection; while a SAK is distributed, so lost MKPDUs are soon
/// repeated; and without a live peer, since the link may come up at any moment.
pub(crate) const BOUNDED_HELLO: Duration = Duration::from_millis(475);
/// MKA Life Time: a peer without proof of hearing us for this long is not live.
pub(crate) const LIFE: Duration = Duration::from_millis(6000);
/// A key server's maximum wait for all members to receive (CP's transmitWhen).
pub(crate) const TRANSMIT_DELAY: Duration = LIFE;
/// SAK Retire Time: frames in flight under the previous SAK are accepted for this long.
pub(crate) const SAK_RETIRE: Duration = Duration::from_millis(3000);
/// Maximum of the SAK Retire Time, if a peer still sends under it.
pub(crate) const SAK_RETIRE_MAX: Duration = Duration::from_millis(9000);
/// A member's maximum wait, once the key server transmits, for peers that have only the SAK before. With an MKPDU that
/// was lost (MKA Hello Time, 2 s) it is shorter than the SAK Retire Time, so that the key server still accepts frames
/// under that one.
pub(crate) const FOLLOW_DELAY: Duration = Duration::from_millis(900);
/// Maximum delay of data under delay protection (clause 9.10.1).
pub(crate) const DATA_DELAY: Duration = Duration::from_millis(2000);

/// Minimum time between two SAKs of one key server. Members that join in quick succession (a group that is
/// powered up) share one SAK, and a SAK takes effect before the next: an exchange takes a few milliseconds on
/// a LAN.
pub(crate) const SAK_GAP: Duration = Duration::from_millis(100);
/// Silence of a live peer after which some of its MKPDUs must have been lost. We send more often then: the
/// peer sees what we have not heard, and repeats it.
pub(crate) const OVERDUE: Duration = Duration::from_millis(2500);
/// Age of a sent MKPDU after which a live peer without it has lost it. We repeat its contents, so losses
/// seldom cost a peer its life.
pub(crate) const LOSS_DELAY: Duration = Duration::from_millis(250);
/// Wait of a new key server if no SAK is in use. Stations that start together, after a power failure, hear
/// each other meanwhile and have one key server and one SAK.
pub(crate) const START_DELAY: Duration = Duration::from_millis(20);
/// Time for which a new key server keeps the SAK in use. Members lost together with the key server, in a
/// common outage, are heard again by then and are not left behind with the old SAK.
pub(crate) const TAKEOVER_DELAY: Duration = Duration::from_millis(2500);
/// Grace period for the expected key server to claim the role. It has lost the previous key server too, and
/// notices at most one hello and a half later.
pub(crate) const CLAIM_GRACE: Duration = Duration::from_millis(3000);
/// Time of hearing fewer members than another candidate before a candidate yields, and of the opposite before
/// it stands again: twice the time for which lists of departed members differ.
pub(crate) const REACHABILITY_HOLD: Duration = Duration::from_millis(12_000);
/// Minimum time between two SAKs for a member that protects with another one. Doubles each time.
pub(crate) const STRAY_INTERVAL: Duration = Duration::from_millis(20_000);
/// Maximum of that time.
pub(crate) const STRAY_INTERVAL_MAX: Duration = Duration::from_millis(600_000);
/// Time for which another participant has to be better before it becomes the principal one. Lost MKPDUs do
/// not swap CAKs.
pub(crate) const PRINCIPAL_HOLD: Duration = Duration::from_millis(2000);
/// The same if the principal participant has no live peer, and after a station was heard under the other CAK alone.
pub(crate) const LONELY_HOLD: Duration = Duration::from_millis(200);
/// Time of being live under a CAK after which an unknown station is a stranger. A starting member is live
/// under one CAK before the other.
pub(crate) const STRANGER_DELAY: Duration = LIFE;
/// Minimum time between two reports of strangers.
pub(crate) const STRANGER_GAP: Duration = Duration::from_millis(10_000);
/// Time that a member is live with a key server without a SAK before it restarts. Some key servers forget to
/// make one when a member restarts soon after a SAK.
pub(crate) const SAK_TIMEOUT: Duration = Duration::from_millis(15_000);
/// Time that a member is live with a transmitting key server without its SAK before it requests another. A
/// key server that has not forgotten the member makes one with its next hello.
pub(crate) const FORGOTTEN_DELAY: Duration = Duration::from_millis(3000);
/// Time for which an observed fault (a wrong CAK heard) is reported.
pub(crate) const FAULT_HOLD: Duration = Duration::from_millis(10_000);

/// Minimum of several moments.
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

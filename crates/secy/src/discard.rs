//! Reasons for discarding and delivering frames. Each has exactly one counter.

use wire::SecTagError;
use wire::extension::ExtensionError;

use crate::counters::{ReceiveSaCounters, SecYCounters};

/// Reason for not sending an SDU. Each has its counter in [`SecYCounters`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TransmitDiscard {
    /// Shorter than an Ethernet header.
    TooShort,
    /// With SecTAG and ICV it would exceed the protected side's MTU, or its chunk.
    TooLong,
    /// No transmit SA is enabled.
    NoSa,
    /// The next block of PNs is not reserved yet.
    PnUnreserved,
    /// The SA has no PN left.
    PnExhausted,
}

impl SecYCounters {
    pub(crate) fn count_transmit(&mut self, discard: TransmitDiscard) {
        *match discard {
            TransmitDiscard::TooShort => &mut self.out_pkts_too_short,
            TransmitDiscard::TooLong => &mut self.out_pkts_too_long,
            TransmitDiscard::NoSa => &mut self.out_pkts_no_sa,
            TransmitDiscard::PnUnreserved => &mut self.out_pkts_pn_unreserved,
            TransmitDiscard::PnExhausted => &mut self.out_pkts_pn_exhausted,
        } += 1;
    }
}

/// Reason for not delivering a received frame. Each has its counter, in [`SecYCounters`] or
/// [`ReceiveSaCounters`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ReceiveDiscard {
    /// Shorter than an Ethernet header.
    TooShort,
    /// Without SecTAG.
    NoTag,
    /// VLAN tags in clear precede the SecTAG.
    ClearVlan,
    /// The SecTAG breaks this rule of clause 9.
    BadTag(SecTagError),
    /// The PN field is 0, or with XPN the whole PN would be 0.
    PnZero,
    /// No SC for it, or no SA in use.
    NoSaError,
    /// Its PN is below `lowest_pn`.
    Late,
    /// Its PN was received before.
    Duplicate,
    /// Its ICV is wrong, or it is encrypted and `validate_frames` is disabled.
    NotValid,
    /// Its extension headers break this rule.
    Malformed(ExtensionError),
}

/// Reason for delivering a frame. Each has its counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Delivery {
    Untagged,
    NoSa,
    Ok,
    Unchecked,
    Delayed,
    Invalid,
}

/// Counter of an outcome.
pub(crate) enum Counter {
    SecY(fn(&mut SecYCounters) -> &mut u64),
    Sa(fn(&mut ReceiveSaCounters) -> &mut u64),
}

/// Mapping of outcomes of verification to counters, the only one.
pub(crate) const fn counter(outcome: Result<Delivery, ReceiveDiscard>) -> Counter {
    use Counter::{Sa, SecY};
    match outcome {
        Ok(Delivery::Untagged) => SecY(|counters| &mut counters.in_pkts_untagged),
        Ok(Delivery::NoSa) => SecY(|counters| &mut counters.in_pkts_no_sa),
        Ok(Delivery::Ok) => Sa(|counters| &mut counters.in_pkts_ok),
        Ok(Delivery::Unchecked) => Sa(|counters| &mut counters.in_pkts_unchecked),
        Ok(Delivery::Delayed) => Sa(|counters| &mut counters.in_pkts_delayed),
        Ok(Delivery::Invalid) => Sa(|counters| &mut counters.in_pkts_invalid),
        Err(ReceiveDiscard::TooShort) => SecY(|counters| &mut counters.in_pkts_too_short),
        Err(ReceiveDiscard::NoTag) => SecY(|counters| &mut counters.in_pkts_no_tag),
        Err(ReceiveDiscard::ClearVlan) => SecY(|counters| &mut counters.in_pkts_clear_vlan),
        Err(ReceiveDiscard::BadTag(_) | ReceiveDiscard::PnZero) => {
            SecY(|counters| &mut counters.in_pkts_bad_tag)
        }
        Err(ReceiveDiscard::NoSaError) => SecY(|counters| &mut counters.in_pkts_no_sa_error),
        Err(ReceiveDiscard::Late) => Sa(|counters| &mut counters.in_pkts_late),
        Err(ReceiveDiscard::Duplicate) => Sa(|counters| &mut counters.in_pkts_duplicate),
        Err(ReceiveDiscard::NotValid) => Sa(|counters| &mut counters.in_pkts_not_valid),
        Err(ReceiveDiscard::Malformed(_)) => Sa(|counters| &mut counters.in_pkts_malformed),
    }
}

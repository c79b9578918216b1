//! Cost of padding, in the plan: worked out by the sender's own plan of frames.

use std::fmt;

use dataplane::cover::queue_octets;
use dataplane::worker::TICK_LEAD;
use secy::ExpressClasses;
use secy::fragment::{Plan, Rules, Sdu};
use wire::ethernet::HEADER_OCTETS;
use wire::extension::EXTENSION_OCTETS;

use super::mtus::{Mtus, fit_padding, usual_mtus};
use crate::lifetime::{AROUND_OCTETS, USUAL_FRAMES_A_SECOND};
use crate::{Link, Mtu};

/// Payloads of which the cost is told: the shortest of Ethernet, one of middle length, a full one.
const PAYLOADS: [usize; 3] = [46, 512, 1500];
const SECONDS_A_DAY: u64 = 86_400;

/// Writes the sizes of a link's frames, and their cost.
pub(super) fn write(f: &mut fmt::Formatter<'_>, link: &Link, mtus: Option<&Mtus>) -> fmt::Result {
    let sizes = link.padding();
    if sizes.is_none() {
        return Ok(());
    }
    if let Some(rate) = sizes.cover_rate() {
        return write_cover(f, link, mtus, rate.get());
    }
    let words: Vec<_> = sizes.octets().iter().map(ToString::to_string).collect();
    let when = if link.mka().is_some() { ", if all peers announce that they take such frames" } else { "" };
    writeln!(f, "  padding    to frames of {} octets{when}", words.join(", "))?;
    let mtus = mtus.copied().unwrap_or_else(|| with_room(link));
    if let Err(why) = fit_padding(link, mtus) {
        return writeln!(f, "             {why}");
    }
    let rules = rules(link, mtus);
    let rules = Rules { concatenate: false, ..rules };
    for payload in PAYLOADS.into_iter().filter(|payload| *payload <= mtus.plain) {
        let Cost { frames, more } = Cost::of(payload, &rules);
        let kbits = more * 8 * USUAL_FRAMES_A_SECOND / 1000;
        let pns = frames * USUAL_FRAMES_A_SECOND * SECONDS_A_DAY;
        let s = if frames == 1 { "" } else { "s" };
        writeln!(
            f,
            "             a payload of {payload} octets: {frames} frame{s}, {more} octets more; at {USUAL_FRAMES_A_SECOND} a second {kbits} kbit/s more, and {pns} packet numbers a day"
        )?;
    }
    Ok(())
}

/// Writes rate and size of cover, and their cost.
fn write_cover(f: &mut fmt::Formatter<'_>, link: &Link, mtus: Option<&Mtus>, rate: u16) -> fmt::Result {
    let mtus = mtus.copied().unwrap_or_else(|| with_room(link));
    let (size, frames) = (link.padding().octets()[0], u64::from(rate));
    let when = if link.mka().is_some() { ", if all peers announce that they take such frames" } else { "" };
    writeln!(f, "  cover      {rate} frames of {size} octets a second, whatever is sent{when}")?;
    if let Err(why) = fit_padding(link, mtus) {
        return writeln!(f, "             {why}");
    }
    // A header in clear, and one for the only segment.
    let inside = rules(link, mtus).capacity.saturating_sub(2 * EXTENSION_OCTETS) as u64;
    let kbits = |octets: u64| octets * 8 * frames / 1000;
    writeln!(
        f,
        "             on the wire {} kbit/s at all times, and {} packet numbers a day; for the machines at most {} kbit/s",
        kbits(u64::from(size) + AROUND_OCTETS),
        frames * SECONDS_A_DAY,
        kbits(inside)
    )?;
    let waits = queue_octets(size, rate) as u64;
    let lead = TICK_LEAD.as_micros() as u64;
    writeln!(
        f,
        "             a frame waits up to {} us for its tick; while more comes than leaves, up to {} octets wait, for {} ms, and others are dropped",
        1_000_000 / frames + lead,
        waits,
        waits * 1000 / (inside * frames).max(1)
    )?;
    writeln!(
        f,
        "             its worker takes no frames for {lead} us before each tick, and watches the clock: up to {} % of a CPU",
        (100 * lead * frames).div_ceil(1_000_000).min(100)
    )
}

/// MTUs while nobody has looked at the interfaces: the protected side's carries the largest size, unless the configuration says which it is.
fn with_room(link: &Link) -> Mtus {
    let mtus = usual_mtus(link);
    let largest = link.padding().octets().last().map_or(0, |&octets| usize::from(octets));
    match link.mtu {
        Mtu::Interface => {
            Mtus { protected: mtus.protected.max(largest.saturating_sub(HEADER_OCTETS)), ..mtus }
        }
        Mtu::Octets(_) => mtus,
    }
}

/// Rules by which the link's frames are planned.
pub(super) fn rules(link: &Link, mtus: Mtus) -> Rules {
    let settings = link.secy_settings(mtus.protected);
    let is_cover = link.padding().cover_rate().is_some();
    let concatenate = is_cover || link.fragmentation.is_some_and(|how| how.concatenate);
    Rules::new(&settings, true, concatenate).padded(&settings, &link.padding())
}

/// These rules with this largest size.
pub(super) const fn of_largest(rules: Rules, size: usize) -> Rules {
    Rules { capacity: size.saturating_sub(rules.around), ..rules }
}

/// Cost of one payload.
struct Cost {
    /// Frames that hold it.
    frames: u64,
    /// Octets beyond those of one frame that is not padded.
    more: u64,
}

impl Cost {
    fn of(payload: usize, rules: &Rules) -> Self {
        let sdu = vec![0; HEADER_OCTETS + payload];
        let mut plan = Plan::new(1, rules);
        plan.make(rules, Sdu::of(&sdu, &ExpressClasses::NONE).as_slice());
        let frames = plan.frames().len();
        // Each frame has a header in clear, and one for its only segment.
        let headers = frames * 2 * EXTENSION_OCTETS;
        let around = frames.saturating_sub(1) * rules.around;
        Self { frames: frames as u64, more: (headers + around + plan.padding()) as u64 }
    }
}

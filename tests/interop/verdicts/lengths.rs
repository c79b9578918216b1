//! Short Length, padding, and frames cut off.

use super::super::craft::{Craft, EXT, MF};
use super::{RECEIVER, differ, judge, same};

pub(super) const PADDING: &str = "the kernel wants the frame to end with the ICV if there is an SL. So SDUs of fewer than 16 \
                                  octets behind their EtherType do not reach it over real Ethernet, which pads them";
const TELLS: &str = "to ours, what SL leaves over is padding, and the ICV decides";
const ABOVE: &str = "an SL of 48 to 63 does not exist (clause 9.7); the kernel takes it if it is the length";
const CUT: &str = "the kernel discards a frame that is too short for its SecTAG and ICV without counting it";

/// Frames with so many octets of secure data, and PNs in order.
fn data(octets: impl IntoIterator<Item = usize>) -> Vec<Craft> {
    octets.into_iter().zip(1..).map(|(octets, pn)| Craft::new(octets - 2, pn)).collect()
}

fn each(frames: Vec<Craft>, change: impl Fn(Craft) -> Craft) -> Vec<Craft> {
    frames.into_iter().map(change).collect()
}

#[test]
fn short_lengths() {
    let long = || data([100]).remove(0);
    judge(vec![
        same("every short length", RECEIVER, data(2..60), "+{58} OK 58"),
        differ(
            "short, padded to a whole Ethernet frame",
            RECEIVER,
            each(data([2, 10, 20, 27]), |craft| craft.padded(20)),
            ["-{4} BadTag 4", "+{4} OK 4"],
            PADDING,
        ),
        differ(
            "short, with one octet behind the ICV",
            RECEIVER,
            each(data([2, 46, 47]), |craft| craft.padded(1)),
            ["-{3} BadTag 3", "+{3} OK 3"],
            PADDING,
        ),
        same(
            "long, with octets behind the ICV",
            RECEIVER,
            each(data([48, 100]), |craft| craft.padded(4)),
            "-- NotValid 2",
        ),
        same("short, with SL 0", RECEIVER, each(data([2, 22, 47]), |craft| craft.length(0)), "-{3} BadTag 3"),
        same(
            "short, with SL 0, padded",
            RECEIVER,
            each(data([2, 22, 47]), |craft| craft.length(0).padded(46)),
            "-{3} NotValid 3",
        ),
        differ(
            "SL too small by 1",
            RECEIVER,
            vec![data([22]).remove(0).length(21)],
            ["- BadTag 1", "- NotValid 1"],
            TELLS,
        ),
        same("SL too large by 1", RECEIVER, vec![data([22]).remove(0).length(23)], "- BadTag 1"),
        differ(
            "SL in a long frame",
            RECEIVER,
            [1, 2, 22, 47].map(|sl| long().length(sl)).into(),
            ["-{4} BadTag 4", "-{4} BadTag 1, NotValid 3"],
            TELLS,
        ),
        same("SL 1", RECEIVER, vec![data([2]).remove(0).length(1)], "- BadTag 1"),
        differ(
            "SL above 47 that is right",
            RECEIVER,
            each(data(48..64), |craft| {
                let sl = craft.sdu().len() - 12;
                craft.length(sl as u8)
            }),
            ["+{16} OK 16", "-{16} BadTag 16"],
            ABOVE,
        ),
        same(
            "SL above 47 in a long frame",
            RECEIVER,
            [48, 63].map(|sl| long().length(sl)).into(),
            "-- BadTag 2",
        ),
        same("MF", RECEIVER, vec![long().length(MF), data([22]).remove(0).length(MF | 22)], "-- BadTag 2"),
        same("EXT", RECEIVER, vec![long().length(EXT), data([22]).remove(0).length(EXT | 22)], "-- BadTag 2"),
        same("MF and EXT", RECEIVER, vec![long().length(MF | EXT)], "- BadTag 1"),
    ]);
}

#[test]
fn cut_off_at_every_octet() {
    let cut = |octets: usize| (14..).map(move |at| data([octets]).remove(0).cut(at));
    judge(vec![
        differ(
            "a long frame",
            RECEIVER,
            cut(60).take(12 + 16 + 60 + 16 - 13).collect(),
            ["-{90}+ BadTag 62, NotValid 12, OK 1", "-{90}+ BadTag 78, NotValid 12, OK 1"],
            CUT,
        ),
        differ(
            "a short frame",
            RECEIVER,
            cut(22).take(12 + 16 + 22 + 16 - 13).collect(),
            ["-{52}+ BadTag 36, OK 1", "-{52}+ BadTag 52, OK 1"],
            CUT,
        ),
    ]);
}

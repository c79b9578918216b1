//! 64-bit PNs, of which frames carry the low half.

use suite::CipherSuite;

use super::{RECEIVER, Receiver, differ, judge, pns, same};

const DUPLICATE: &str = "the kernel does not remember which PNs of its window it has seen";
const BEFORE: &str = "the kernel gives a late frame from before the edge the high half of its newest frame: a wrong nonce, \
                      and so a wrong ICV; ours looks for the nearest PN (clause 10.6.2)";
const HALVES: &str = "the kernel compares low halves alone when it counts what is delayed";
const ZERO: &str = "ours names the rule: no frame has a PN of 0 as a whole (clause 9.8)";
const WRAP: &str = "the kernel's lowest PN wraps to 0 behind the last one, and all PNs are fresh again";

/// First PN with the next high half.
const EDGE: u64 = 1 << 32;

const fn xpn(lowest: u64, replay_window: Option<u32>) -> Receiver {
    Receiver { suite: CipherSuite::GcmAesXpn128, lowest, replay_window, ..RECEIVER }
}

#[test]
fn xpn_edges() {
    let edge = EDGE - 10;
    judge(vec![
        same(
            "in order over the edge",
            xpn(edge, Some(0)),
            pns(&[EDGE - 2, EDGE - 1, EDGE, EDGE + 1, EDGE + 2]),
            "+{5} OK 5",
        ),
        differ(
            "over the edge without replay protection",
            xpn(edge, None),
            pns(&[EDGE - 1, EDGE, EDGE - 1, EDGE + 1]),
            ["++-+ NotValid 1, OK 3", "+{4} Delayed 1, OK 3"],
            BEFORE,
        ),
        differ(
            "the edge lost",
            xpn(edge, Some(0)),
            pns(&[EDGE - 2, EDGE + 5]),
            ["++ Delayed 1, OK 1", "++ OK 2"],
            HALVES,
        ),
        differ(
            "late from before the edge, window 0",
            xpn(edge, Some(0)),
            pns(&[EDGE + 1, EDGE - 1]),
            ["+- Delayed 1, NotValid 1", "+- Late 1, OK 1"],
            BEFORE,
        ),
        differ(
            "late from before the edge, window 32",
            xpn(edge, Some(32)),
            pns(&[EDGE - 2, EDGE + 1, EDGE - 1, EDGE + 2]),
            ["++-+ Delayed 1, NotValid 1, OK 2", "+{4} OK 4"],
            BEFORE,
        ),
        differ(
            "late from before the edge without replay protection",
            xpn(edge, None),
            pns(&[EDGE + 1, EDGE - 1, EDGE + 2]),
            ["+-+ Delayed 1, NotValid 1, OK 1", "+{3} Delayed 1, OK 2"],
            BEFORE,
        ),
        differ(
            "duplicates at the edge, window 32",
            xpn(edge, Some(32)),
            pns(&[EDGE - 1, EDGE - 1, EDGE, EDGE, EDGE + 1, EDGE]),
            ["+-+{4} NotValid 1, OK 5", "+-+-+- Duplicate 3, OK 3"],
            DUPLICATE,
        ),
        differ("PN 0", xpn(1, Some(0)), pns(&[0, 1]), ["-+ Late 1, OK 1", "-+ BadTag 1, OK 1"], ZERO),
        differ(
            "PN 0 without replay protection",
            xpn(1, None),
            pns(&[0, 1]),
            ["-+ NotValid 1, OK 1", "-+ BadTag 1, OK 1"],
            ZERO,
        ),
        same("ahead by less than 2^31", xpn(1, Some(0)), pns(&[1, (1 << 31) - 1]), "++ OK 2"),
        same("ahead by 2^31", xpn(1, Some(0)), pns(&[1, 1 + (1 << 31), 2 + (1 << 31)]), "+{3} OK 3"),
        same("ahead by 2^32", xpn(1, Some(0)), pns(&[1, EDGE + 2, 2]), "+-+ NotValid 1, OK 2"),
        same(
            "in the middle, ahead by 2^31",
            xpn(1 << 33, Some(0)),
            pns(&[1 << 33, (1 << 33) + (1 << 31) - 1, (1 << 33) + (1 << 31), (1 << 33) + (1 << 31) + 1]),
            "+{4} OK 4",
        ),
        differ(
            "the last PN",
            xpn(u64::MAX - 4, Some(0)),
            pns(&[u64::MAX - 1, u64::MAX, u64::MAX, 1]),
            ["++-+ NotValid 1, OK 3", "++-- Late 2, OK 2"],
            WRAP,
        ),
    ]);
}

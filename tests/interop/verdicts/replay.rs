//! 32-bit PNs and the replay window.

use super::{RECEIVER, Receiver, differ, judge, pns, same, window};

const DUPLICATE: &str = "the kernel does not remember which PNs of its window it has seen: while a frame is in the window, \
                         a recording of it is delivered as often as it is sent";
const LAST: &str = "the kernel cannot say that the PN 2^32-1 was used, so that this frame never becomes late";

#[test]
fn replay() {
    let far = Receiver { lowest: 50, ..window(0) };
    judge(vec![
        same("in order", RECEIVER, pns(&[1, 2, 3]), "+{3} OK 3"),
        same("a duplicate without replay protection", RECEIVER, pns(&[5, 5, 4]), "+{3} Delayed 2, OK 1"),
        same("a duplicate, window 0", window(0), pns(&[5, 5, 6]), "+-+ Late 1, OK 2"),
        differ(
            "a duplicate, window 1",
            window(1),
            pns(&[5, 5, 6, 6]),
            ["+{4} OK 4", "+-+- Duplicate 2, OK 2"],
            DUPLICATE,
        ),
        differ(
            "a duplicate, window 32",
            window(32),
            pns(&[5, 5, 100, 100, 99, 99, 5]),
            ["+{6}- Late 1, OK 6", "+-+-+-- Duplicate 3, Late 1, OK 3"],
            DUPLICATE,
        ),
        same("late, window 0", window(0), pns(&[5, 4]), "+- Late 1, OK 1"),
        same("late, window 1", window(1), pns(&[5, 4, 3]), "+-- Late 2, OK 1"),
        same("late, window 32", window(32), pns(&[100, 69, 68, 67]), "++-- Late 2, OK 2"),
        same("below the first lowest_pn", far, pns(&[49, 50]), "-+ Late 1, OK 1"),
        same("PN 0", window(0), pns(&[0, 1]), "-+ BadTag 1, OK 1"),
        same("PN 2^31", window(0), pns(&[1 << 31, (1 << 31) + 1, (1 << 31) - 1]), "++- Late 1, OK 2"),
        differ(
            "the last PN, and then",
            window(0),
            pns(&[0xffff_fffe, 0xffff_ffff, 0xffff_ffff, 1, 2]),
            ["+{3}-- Late 2, OK 3", "++-{3} Late 3, OK 2"],
            LAST,
        ),
        differ(
            "the last PN, and then, window 32",
            window(32),
            pns(&[0xffff_ffff, 0xffff_ffff, 0xffff_fff0, 1]),
            ["+{3}- Late 1, OK 3", "+-+- Duplicate 1, Late 1, OK 2"],
            LAST,
        ),
        differ(
            "the last PN without replay protection",
            RECEIVER,
            pns(&[0xffff_ffff, 1, 0xffff_ffff]),
            ["+{3} OK 3", "+{3} Delayed 2, OK 1"],
            LAST,
        ),
    ]);
}

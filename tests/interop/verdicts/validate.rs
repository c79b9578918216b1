//! `validate_frames`: what becomes of frames that cannot be verified.

use secy::ValidateFrames::{self, Check, Disabled, Strict};
use wire::Sci;

use super::super::craft::{C, Craft, E, SC};
use super::super::kernel::OUR_MAC;
use super::{RECEIVER, Receiver, differ, judge, same};

const DECRYPTS: &str = "the kernel verifies and decrypts changed data even where validation is disabled; ours verifies \
                        nothing then, and cannot deliver what is encrypted";

const fn set(validate: ValidateFrames) -> Receiver {
    Receiver { validate, replay_window: Some(0), ..RECEIVER }
}

/// An encrypted frame, one with integrity alone, and one with C alone.
fn kinds(change: impl Fn(Craft) -> Craft) -> Vec<Craft> {
    [SC | E | C, SC, SC | C]
        .into_iter()
        .zip(1..)
        .map(|(bits, pn)| change(Craft::new(100, pn).bits(bits)))
        .collect()
}

#[test]
fn validation() {
    let other = Sci::new(OUR_MAC, 7);
    let unused = |validate| Receiver { in_use: false, ..set(validate) };
    judge(vec![
        same("strict: right", set(Strict), kinds(|craft| craft), "+{3} OK 3"),
        same("strict: wrong ICV", set(Strict), kinds(Craft::wrong_icv), "-{3} NotValid 3"),
        same("strict: untagged", set(Strict), vec![Craft::new(100, 1).clear()], "- NoTag 1"),
        same("check: right", set(Check), kinds(|craft| craft), "+{3} OK 3"),
        same("check: wrong ICV", set(Check), kinds(Craft::wrong_icv), "-+- Invalid 1, NotValid 2"),
        differ(
            "check: short, wrong ICV",
            set(Check),
            vec![Craft::new(20, 1).bits(SC).wrong_icv(), Craft::new(20, 2).bits(SC).wrong_icv().padded(9)],
            ["+- BadTag 1, Invalid 1", "++ Invalid 2"],
            super::lengths::PADDING,
        ),
        same("check: another SC", set(Check), kinds(|craft| craft.sci(other)), "-+- NoSA 1, NoSAError 2"),
        same("check: another AN", set(Check), kinds(|craft| craft.an(2)), "-+- NoSA 1, NoSAError 2"),
        same("check: an SA not in use", unused(Check), kinds(|craft| craft), "-+- NoSA 1, NoSAError 2"),
        same(
            "check: late",
            set(Check),
            vec![Craft::new(100, 9).bits(SC), Craft::new(100, 8).bits(SC), Craft::new(100, 7)],
            "+-- Late 2, OK 1",
        ),
        same(
            "check: a late frame of a wrong ICV",
            set(Check),
            vec![Craft::new(100, 9).bits(SC), Craft::new(100, 8).bits(SC).wrong_icv()],
            "+- Late 1, OK 1",
        ),
        same(
            "check: a wrong ICV moves no window",
            set(Check),
            vec![Craft::new(100, 900).bits(SC).wrong_icv(), Craft::new(100, 8).bits(SC)],
            "++ Invalid 1, OK 1",
        ),
        same(
            "check: a broken SecTAG",
            set(Check),
            vec![Craft::new(100, 1).bits(SC).length(50), Craft::new(100, 0).bits(SC)],
            "-- BadTag 2",
        ),
        same("check: untagged", set(Check), vec![Craft::new(100, 1).clear()], "+ Untagged 1"),
        differ(
            "disabled: right",
            set(Disabled),
            kinds(|craft| craft),
            ["+{3} OK 2, Unchecked 1", "-+- NotValid 2, Unchecked 1"],
            DECRYPTS,
        ),
        same("disabled: wrong ICV", set(Disabled), kinds(Craft::wrong_icv), "-+- NotValid 2, Unchecked 1"),
        same(
            "disabled: another SC",
            set(Disabled),
            kinds(|craft| craft.sci(other)),
            "-+- NoSA 1, NoSAError 2",
        ),
        same("disabled: an SA not in use", unused(Disabled), kinds(|craft| craft), "-+- NoSA 1, NoSAError 2"),
        same(
            "disabled: late",
            set(Disabled),
            vec![Craft::new(100, 9).bits(SC), Craft::new(100, 8).bits(SC)],
            "++ Unchecked 2",
        ),
        same("disabled: untagged", set(Disabled), vec![Craft::new(100, 1).clear()], "+ Untagged 1"),
    ]);
}

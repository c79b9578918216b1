//! Verdicts of the kernel's receiver and of ours on the same frames: a table of rows.
//!
//! A row's frames are given to both, one after the other. What became of each is a sign, and behind the signs stand the
//! counters that moved: `++- OK 2, Late 1` is two delivered and one not.
//!
//! | sign | the frame |
//! |---|---|
//! | `+` | was delivered: its SDU, octet for octet |
//! | `~` | was delivered with other octets |
//! | `-` | was not delivered |
//!
//! Three and more of a kind in a row are counted: `+{46}`.
//!
//! Names of counters stand without `InPkts`, and are those of 802.1AE-2018: the kernel has the four of 2006 that
//! `secy::counters` tells of. Where the two sentences differ, the row says why.

mod channels;
mod lengths;
mod replay;
mod validate;
mod xpn;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use secy::{ClearVlan, ReceiveSaCounters, SciInclusion, SecY, SecYCounters, Settings, ValidateFrames};
use suite::CipherSuite;

use super::craft::Craft;
use super::ends::{self, Books, Outcome};
use super::exchange::Bench;
use super::kernel::{self, Macsec, OURS};

/// Settings of both receivers.
#[derive(Clone, Copy)]
struct Receiver {
    suite: CipherSuite,
    validate: ValidateFrames,
    replay_window: Option<u32>,
    /// The `lowest_pn` of the SAs.
    lowest: u64,
    /// Whether a second SC is there, so that a frame has to name its own.
    second_sc: bool,
    /// Whether the SA under AN 0 is in use.
    in_use: bool,
    /// Ours alone: the kernel has no choice.
    clear_vlan: ClearVlan,
}

const RECEIVER: Receiver = Receiver {
    suite: CipherSuite::GcmAes128,
    validate: ValidateFrames::Strict,
    replay_window: None,
    lowest: 1,
    second_sc: true,
    in_use: true,
    clear_vlan: ClearVlan::Refuse,
};

/// Frames, and what becomes of them.
struct Row {
    what: &'static str,
    receiver: Receiver,
    frames: Vec<Craft>,
    kernel: &'static str,
    ours: &'static str,
    /// Why they differ; empty if they do not.
    why: &'static str,
}

/// A row of which both make the same.
fn same(what: &'static str, receiver: Receiver, frames: Vec<Craft>, both: &'static str) -> Row {
    Row { what, receiver, frames, kernel: both, ours: both, why: "" }
}

/// A row of which each makes something else, and why.
fn differ(
    what: &'static str,
    receiver: Receiver,
    frames: Vec<Craft>,
    [kernel, ours]: [&'static str; 2],
    why: &'static str,
) -> Row {
    Row { what, receiver, frames, kernel, ours, why }
}

/// Frames with SDUs of 100 octets and these PNs.
fn pns(pns: &[u64]) -> Vec<Craft> {
    pns.iter().map(|&pn| Craft::new(100, pn)).collect()
}

const fn window(replay_window: u32) -> Receiver {
    Receiver { replay_window: Some(replay_window), ..RECEIVER }
}

impl Receiver {
    fn macsec(&self) -> Macsec {
        let (suite, replay_window) = (self.suite, self.replay_window);
        Macsec { suite, encrypt: true, sci: SciInclusion::Always, replay_window }
    }

    /// Sets the kernel's receiver, with windows and counters of SCs begun anew.
    fn set(&self, bench: &mut Bench) {
        let macsec = self.macsec();
        let validate = match self.validate {
            ValidateFrames::Strict => "strict",
            ValidateFrames::Check => "check",
            ValidateFrames::Disabled => "disabled",
        };
        let replay = macsec.replay();
        let sci = kernel::channel(OURS);
        let sa = macsec.sa(&format!("rx {sci}"), 0, self.lowest, kernel::OUR_SSCI, kernel::OUR_SEED);
        let sa = if self.in_use { sa } else { sa.replace(" on key", " off key") };
        let other = kernel::channel(SECOND);
        let mut batch = vec![
            format!("link set macsec0 type macsec validate {validate} {replay}"),
            format!("macsec del macsec0 rx {sci}"),
            format!("macsec del macsec0 rx {other}"),
            format!("macsec add macsec0 rx {sci} on"),
            format!("macsec add macsec0 {sa}"),
        ];
        if self.second_sc {
            batch.push(format!("macsec add macsec0 rx {other} on"));
        }
        // An object that is to be deleted need not be there.
        bench.guest.run(&format!("printf '{}\\n' | ip -force -batch - 2>/dev/null; true", batch.join("\\n")));
    }

    fn ours(&self) -> SecY {
        let settings = Settings {
            validate_frames: self.validate,
            replay_protect: self.replay_window.is_some(),
            clear_vlan: self.clear_vlan,
            ..ends::SETTINGS
        };
        let mut secy = SecY::new(ends::HERE, settings);
        secy.install_receive_sc(OURS).unwrap();
        if self.second_sc {
            secy.install_receive_sc(SECOND).unwrap();
        }
        let sa = super::exchange::mirror_sa(self.suite, self.lowest, self.replay_window.unwrap_or(0));
        secy.install_receive(OURS, sa).unwrap();
        if self.in_use {
            secy.enable_receive(OURS, ends::an(0)).unwrap();
        }
        secy
    }
}

/// The SCI of the second SC, which has no SA.
const SECOND: wire::Sci = wire::Sci::new(wire::MacAddr([2, 0, 0, 0, 0, 0xd1]), 1);

/// The sign of what was delivered of a frame.
fn sign(craft: &Craft, delivered: Option<&[u8]>) -> char {
    match delivered {
        Some(octets) if octets == craft.sdu() => '+',
        Some(_) => '~',
        None => '-',
    }
}

/// A sentence about frames: signs, then counters that moved.
fn sentence(signs: &[char], moved: &BTreeMap<String, u64>) -> String {
    let mut text = String::new();
    for run in signs.chunk_by(|a, b| a == b) {
        match run {
            [sign, _, _, ..] => write!(text, "{sign}{{{}}}", run.len()).unwrap(),
            few => text.extend(few),
        }
    }
    for (index, (name, by)) in moved.iter().filter(|(_, by)| **by > 0).enumerate() {
        write!(text, "{}{name} {by}", if index == 0 { " " } else { ", " }).unwrap();
    }
    text
}

/// Verdict of the kernel on the frames of a row.
fn kernels_verdict(bench: &mut Bench, row: &Row) -> String {
    row.receiver.set(bench);
    let before = kernel::received(&mut bench.guest);
    let macsec = row.receiver.macsec();
    let mut signs = Vec::new();
    for craft in &row.frames {
        bench.protected.send(&craft.frame(&macsec));
        bench.settle();
        // Without strict validation our question is delivered too, as any untagged frame.
        let mut waiting =
            std::iter::from_fn(|| bench.plain.waiting()).filter(|frame| frame[12..14] != [8, 6]);
        signs.push(sign(craft, waiting.next().as_deref()));
        assert_eq!(waiting.next(), None, "{}: a frame was delivered twice", row.what);
    }
    let mut moved = moved(&before, &kernel::received(&mut bench.guest));
    let questions = (Bench::QUESTIONS * row.frames.len()) as u64;
    let counted = if row.receiver.validate == ValidateFrames::Strict { "NoTag" } else { "Untagged" };
    *moved.get_mut(counted).unwrap() -= questions;
    sentence(&signs, &moved)
}

/// Verdict of our SecY on the frames of a row.
fn our_verdict(row: &Row) -> String {
    let macsec = row.receiver.macsec();
    let mut secy = row.receiver.ours();
    let before = our_counters(&ends::books(&secy));
    let mut signs = Vec::new();
    for craft in &row.frames {
        signs.push(match ends::verify(&mut secy, &craft.frame(&macsec)) {
            Outcome::Passed(octets) => sign(craft, Some(&octets)),
            Outcome::Discarded(_) => sign(craft, None),
        });
    }
    sentence(&signs, &moved(&before, &our_counters(&ends::books(&secy))))
}

fn our_counters(books: &Books) -> BTreeMap<String, u64> {
    let of_secy = SecYCounters::NAMES.iter().zip(books.secy.values());
    let mut counters = BTreeMap::new();
    let mut add = |name: &&str, value: u64| {
        if let Some(name) = name.strip_prefix("InPkts") {
            *counters.entry(name.to_owned()).or_default() += value;
        }
    };
    of_secy.for_each(|(name, value)| add(name, value));
    for (_, channel) in &books.scs {
        ReceiveSaCounters::NAMES.iter().zip(channel.values()).for_each(|(name, value)| add(name, value));
    }
    counters
}

fn moved(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let by = |(name, value): (&String, &u64)| (name.clone(), value - before.get(name).unwrap_or(&0));
    after.iter().map(by).collect()
}

/// Gives all rows to both, and tells of every one that is not as it stands here.
fn judge(rows: Vec<Row>) {
    let mut bench = Bench::new();
    let first = rows[0].receiver;
    first.macsec().install(&mut bench.guest, 1, 1);
    kernel::join(&mut bench.guest);
    let mut wrong = String::new();
    for row in rows {
        assert_eq!(
            row.receiver.suite, first.suite,
            "{}: a suite of its own needs a guest of its own",
            row.what
        );
        let (kernel, ours) = (kernels_verdict(&mut bench, &row), our_verdict(&row));
        if (kernel.as_str(), ours.as_str()) != (row.kernel, row.ours) {
            let Row { what, kernel: stands, ours: our, .. } = row;
            writeln!(wrong, "{what}:\n  kernel {kernel:?}, not {stands:?}\n  ours   {ours:?}, not {our:?}")
                .unwrap();
        }
        assert_eq!(row.kernel == row.ours, row.why.is_empty(), "{}: a reason is of a difference", row.what);
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

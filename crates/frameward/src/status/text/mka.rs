//! A link's key agreement as text.

use std::fmt;
use std::time::Duration;

use super::{Detail, StatusText, Uptime};
use config::lifetime::Span;
use report::mka::{CakReport, ChangeReport, FragmentReport, MemberReport, MkaReport, SakReport, named};

/// Changes that are shown; all of them with [`Detail::All`].
const SHOWN: usize = 8;

impl StatusText<'_> {
    pub(super) fn mka(&self, f: &mut fmt::Formatter<'_>, mka: &MkaReport) -> fmt::Result {
        let MkaReport { mi, priority, destination, on_peer_loss, .. } = mka;
        let state = if mka.secured { "secured" } else { "NOT SECURED" };
        writeln!(f, "    key agreement: {state}, {}", KeyServer(mka))?;
        writeln!(
            f,
            "      own MI {mi}, priority {priority}, MKPDUs to {destination}, on_peer_loss {on_peer_loss}"
        )?;
        for (number, CakReport { ckn, key }) in mka.caks.iter().enumerate() {
            let word = if number == 0 { "CAK" } else { "fallback CAK" };
            let used = if mka.is_agreed_under(ckn) { ", its group agrees on the keys" } else { "" };
            writeln!(f, "      {word} {key}, ckn {ckn}{used}")?;
        }
        if mka.members.is_empty() {
            writeln!(f, "      no other member is heard")?;
        }
        mka.members.iter().try_for_each(|member| writeln!(f, "      {}", Member(member)))?;
        mka.saks.iter().try_for_each(|sak| writeln!(f, "      {}", Sak(sak)))?;
        if mka.secured {
            writeln!(f, "      {}", Fragmentation(&mka.fragmentation))?;
        }
        if let Some(seconds) = mka.next_rekey_seconds {
            writeln!(f, "      next key in {}", Span(Duration::from_secs(seconds)))?;
        }
        let shown = if self.detail == Detail::All { usize::MAX } else { SHOWN };
        let skipped = mka.changes.len().saturating_sub(shown);
        if !mka.changes.is_empty() {
            writeln!(f, "      what changed last")?;
        }
        for ChangeReport { ms_ago, text } in mka.changes.iter().skip(skipped) {
            writeln!(f, "        {} ago  {text}", Ago(*ms_ago))?;
        }
        self.counters(f, 6, &mka.counters)
    }
}

/// The key server.
pub(in crate::status) struct KeyServer<'r>(pub(in crate::status) &'r MkaReport);

impl fmt::Display for KeyServer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.key_server {
            _ if self.0.is_key_server => f.write_str("this box is key server"),
            Some(sci) => write!(f, "key server {}", named(sci, self.0.name_of(sci))),
            None => f.write_str("no key server"),
        }
    }
}

/// A member in a line.
pub(in crate::status) struct Member<'r>(pub(in crate::status) &'r MemberReport);

impl fmt::Display for Member<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MemberReport { sci, mi, priority, live, heard_ms_ago, announced, name, .. } = self.0;
        let named = name.as_ref().map(|name| format!(", named \"{name}\" by itself")).unwrap_or_default();
        let state = if *live { "live" } else { "heard, but has not shown that it hears this box" };
        let kind = if *announced { "" } else { ", a plain MACsec station" };
        write!(
            f,
            "member {sci}{named}, {state}, heard {} ago, priority {priority}, MI {mi}{kind}",
            Ago(*heard_ms_ago)
        )
    }
}

/// A SAK in a line.
pub(in crate::status) struct Sak<'r>(pub(in crate::status) &'r SakReport);

impl fmt::Display for Sak<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SakReport { ki, an, suite, confidentiality, seconds, transmits } = self.0;
        let how = match confidentiality.as_str() {
            "integrity" => "integrity only".to_owned(),
            "0" => "encrypted".to_owned(),
            offset => format!("encrypted behind the first {offset} octets"),
        };
        let used = if *transmits { "protects" } else { "only accepted" };
        write!(f, "SAK {ki}, AN {an}, {suite}, {how}, {used}, {} old", Uptime(*seconds))
    }
}

/// Whether SDUs are fragmented, in a line.
struct Fragmentation<'r>(&'r FragmentReport);

impl fmt::Display for Fragmentation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FragmentReport { fragment, concatenate, why_not, padded, covered, why_not_padded } = self.0;
        let on = |on: bool| if on { "on" } else { "off" };
        write!(f, "fragment {}, concatenate {}", on(*fragment), on(*concatenate))?;
        why_not.as_ref().map_or(Ok(()), |why| write!(f, ": {why}"))?;
        match why_not_padded {
            Some(why) => write!(f, "; not padded: {why}"),
            None if *covered => f.write_str("; padded, at a constant rate"),
            None if *padded => f.write_str("; padded"),
            None => Ok(()),
        }
    }
}

/// A time that has passed: tenths of seconds where they matter.
pub(in crate::status) struct Ago(pub(in crate::status) u64);

impl fmt::Display for Ago {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            milliseconds @ 0..10_000 => write!(f, "{:.1} s", milliseconds as f64 / 1000.0),
            milliseconds => write!(f, "{}", Span(Duration::from_millis(milliseconds))),
        }
    }
}

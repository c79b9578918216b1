//! The key agreement of a link, as its gateway tells it. Nothing here is secret: names, ages and reasons.

use serde::{Deserialize, Serialize};

use super::Counters;
use super::verdict::{Finding, Level, State};

/// The key agreement of a link.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MkaReport {
    /// A SAK protects what is sent.
    pub secured: bool,
    /// The obstacle, in words; none if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// The name of the CAK in whose group keys are agreed on, in hexadecimal digits; none if no CAK is spoken under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ckn: Option<String>,
    /// The CAKs that are spoken under, the preferred one first.
    pub caks: Vec<CakReport>,
    /// The own MI in that group, in hexadecimal digits.
    pub mi: String,
    /// The own key server priority.
    pub priority: u8,
    /// Destination address of MKPDUs.
    pub destination: String,
    /// `block` or `hold`.
    pub on_peer_loss: String,
    /// This box is key server.
    pub is_key_server: bool,
    /// The SCI of the key server; none if none is elected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_server: Option<String>,
    /// The others of the group.
    pub members: Vec<MemberReport>,
    /// Stations that have a CAK and are not known to belong to the link.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub strangers: Vec<MkaStrangerReport>,
    /// Keys are agreed on under another CAK than the preferred one.
    #[serde(default)]
    pub under_fallback: bool,
    /// Stations that the configuration names in `peers` and that are not live, each with the name that it last had.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// Members that do not hear each other, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_heard: Vec<String>,
    /// The latest SAK, and the one before as long as it is accepted.
    pub saks: Vec<SakReport>,
    /// Whether SDUs are fragmented, and why not.
    #[serde(rename = "dividing")]
    pub fragmentation: FragmentReport,
    /// Seconds until the SAK is followed by another because of its age, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_rekey_seconds: Option<u64>,
    /// Changes and their reasons, the newest last.
    pub changes: Vec<ChangeReport>,
    /// Counters of the KaY.
    pub counters: Counters,
}

/// A CAK that is spoken under.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CakReport {
    /// Its name, in hexadecimal digits.
    pub ckn: String,
    /// Its fingerprint, as `keygen` printed it.
    pub key: String,
}

/// A member of the group.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MemberReport {
    /// Its SCI.
    pub sci: String,
    /// Its MI, in hexadecimal digits.
    pub mi: String,
    /// Its key server priority.
    pub priority: u8,
    /// It has shown to hear this box; else it is only heard.
    pub live: bool,
    /// Milliseconds since it was heard last.
    pub heard_ms_ago: u64,
    /// It announced what only Frameward has.
    pub announced: bool,
    /// Name that it announces: printable, and no proof of anything. None if it announces none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The SAK that it protects with, and how far it is; none if it protects with none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sends_under: Option<SendsUnderReport>,
}

/// The SAK that a member protects with.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SendsUnderReport {
    /// Its KI.
    pub ki: String,
    /// The lowest PN that the member used in the last two seconds, as it tells: frames below it were sent before.
    pub lowest_pn: u64,
}

/// Somebody with a CAK who is not known to belong to the link.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MkaStrangerReport {
    /// Its SCI.
    pub sci: String,
    /// The name of its CAK, in hexadecimal digits.
    pub ckn: String,
    /// Name that it announces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// An SCI with the name of its station behind it in quotation marks.
pub fn named(sci: &str, name: Option<&str>) -> String {
    name.map_or_else(|| sci.to_owned(), |name| format!("{sci} \"{name}\""))
}

/// A SAK.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SakReport {
    /// Its KI: the key server's MI, and the number that it gave it.
    pub ki: String,
    /// Its AN.
    pub an: u8,
    /// The suite's name.
    pub suite: String,
    /// `integrity`, or the confidentiality offset: `0`, `30`, `50`.
    pub confidentiality: String,
    /// Seconds since it was installed.
    pub seconds: u64,
    /// It protects what is sent.
    pub transmits: bool,
}

/// Whether SDUs are fragmented under the SAK that protects.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FragmentReport {
    /// An SDU may span frames.
    pub fragment: bool,
    /// A frame may hold several SDUs.
    pub concatenate: bool,
    /// Why not, or not both; none if they are as the configuration requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
    /// Frames are padded.
    #[serde(default)]
    pub padded: bool,
    /// They leave at a constant rate.
    #[serde(default)]
    pub covered: bool,
    /// Why not, if the configuration requested it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_not_padded: Option<String>,
}

/// A change.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ChangeReport {
    /// Milliseconds since it happened.
    pub ms_ago: u64,
    /// The change, and why.
    pub text: String,
}

/// Requests of the configuration, which may not be met.
#[derive(Clone, Copy, Debug)]
pub struct Requested {
    /// `fragment` or `concatenate` is "on", not "auto".
    pub fragmentation: bool,
    /// Frames shall be encrypted, not only authenticated.
    pub encrypted: bool,
    /// Frames carry no SCI: `sci` is "never".
    pub no_sci: bool,
    /// The state that the KaY's trouble is.
    pub trouble: Option<State>,
}

impl MkaReport {
    /// Members that have shown to hear this box.
    pub fn live_peers(&self) -> usize {
        self.members.iter().filter(|member| member.live).count()
    }

    /// Whether keys are agreed on with a live peer: frames are protected, and somebody there has the SAK.
    pub fn is_agreed(&self) -> bool {
        self.secured && self.live_peers() > 0
    }

    /// Returns the name of the live member with this SCI. One that is only heard may be a recording of what had the SCI before.
    pub fn name_of(&self, sci: &str) -> Option<&str> {
        self.members.iter().find(|member| member.live && member.sci == sci)?.name.as_deref()
    }

    /// Whether the SAK that protects was agreed on under this CKN.
    pub fn is_agreed_under(&self, ckn: &str) -> bool {
        self.secured && self.ckn.as_deref() == Some(ckn)
    }

    /// The SAK that protects.
    pub fn sak(&self) -> Option<&SakReport> {
        self.saks.iter().find(|sak| sak.transmits)
    }

    /// Its findings.
    pub(crate) fn findings(&self, requested: Requested) -> Vec<Finding> {
        let mut findings = Vec::new();
        let state = requested.trouble.unwrap_or(State::NoKeys);
        // Frames that are secured pass, whatever stands in the way of others.
        let (state, level) = match (self.secured, state) {
            (true, State::NoKeys) => (State::PartialMesh, Level::Attention),
            (true, state) => (state, Level::Attention),
            (false, state) => (state, Level::Alarm),
        };
        findings.extend(match (&self.trouble, self.secured) {
            (Some(trouble), _) => Some(Finding::new(state, level, sentence(trouble))),
            (None, false) => Some(Finding::alarm(State::NoKeys, "No frame is sent: there is no key yet.")),
            (None, true) => None,
        });
        let mut say = |state, text: &str| findings.push(Finding::attention(state, text));
        // The first of them is the trouble itself, unless there is a worse one.
        for gap in self.not_heard.iter().filter(|gap| Some(*gap) != self.trouble.as_ref()) {
            say(State::PartialMesh, &sentence(gap));
        }
        // Without any live peer the trouble, or the line below, says it of all.
        if !self.missing.is_empty() && self.live_peers() > 0 {
            let text = format!(
                "Named in peers, and not in the group: {}. Check whether that box runs, its cable and its CAK; if it is gone for good, take it out of peers.",
                self.missing.join(", ")
            );
            say(State::PartialMesh, &text);
        }
        if self.secured && self.live_peers() == 0 {
            say(State::Silent, "All peers are gone; the last key stays in use (on_peer_loss = \"hold\").");
        }
        for MkaStrangerReport { sci, ckn, name } in &self.strangers {
            let station = named(sci, name.as_deref());
            let text = format!(
                "{station} has the CAK of ckn {ckn}, but is not known to belong to this link. If it does, give it the preferred CAK or name it in peers; else change that CAK."
            );
            say(State::Stranger, &text);
        }
        if self.under_fallback {
            say(
                State::Fallback,
                "The group uses the fallback CAK: some members lack the preferred one. Copy it to all members.",
            );
        }
        if let (true, Some(sak)) = (requested.encrypted, self.sak())
            && sak.confidentiality == "integrity"
        {
            say(
                State::WeakSettings,
                "Frames are authenticated, not encrypted: the key server decided so. Set encrypt = true there.",
            );
        }
        if let (true, true, Some(why)) = (requested.fragmentation, self.secured, &self.fragmentation.why_not)
        {
            say(State::WeakSettings, &format!("fragment or concatenate is \"on\", but not in use: {why}."));
        }
        if let (true, Some(why)) = (self.secured, &self.fragmentation.why_not_padded) {
            say(State::WeakSettings, &format!("Frames are not padded: {why}."));
        }
        if requested.no_sci && self.live_peers() > 1 {
            say(
                State::WeakSettings,
                "Frames carry no SCI (sci = \"never\"), and there is more than one peer: set sci = \"always\".",
            );
        }
        findings
    }
}

/// A reason as a sentence.
fn sentence(reason: &str) -> String {
    let mut letters = reason.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    let end = if reason.ends_with('.') { "" } else { "." };
    format!("{first}{}{end}", letters.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::sample_mka;

    #[test]
    fn each_weakness_is_said() {
        let requested = Requested { fragmentation: true, encrypted: true, no_sci: false, trouble: None };
        let said = |change: &dyn Fn(&mut MkaReport), requested| {
            let mut mka = sample_mka();
            change(&mut mka);
            let said = mka.findings(requested).into_iter();
            let said = said.map(|finding| (finding.level == Level::Alarm, finding.text));
            said.collect::<Vec<_>>()
        };
        assert_eq!(said(&|_| {}, requested), []);
        type Row<'r> = (&'r dyn Fn(&mut MkaReport), bool, &'r str);
        let rows: [Row<'_>; 10] = [
            (
                &|mka| (mka.secured, mka.trouble) = (false, Some("no peer is heard".into())),
                true,
                "No peer is heard.",
            ),
            (&|mka| mka.trouble = Some("one is not heard.".into()), false, "One is not heard."),
            (&|mka| mka.secured = false, true, "No frame is sent: there is no key yet."),
            (&|mka| mka.members.clear(), false, "All peers are gone; the last key stays in use"),
            (
                &|mka| mka.missing.push("02:00:00:00:00:0c/1 \"press-c\"".into()),
                false,
                "and not in the group: 02:00:00:00:00:0c/1 \"press-c\". Check",
            ),
            (&|mka| mka.under_fallback = true, false, "uses the fallback CAK"),
            (
                &|mka| {
                    mka.strangers.push(MkaStrangerReport {
                        sci: "02:00:00:00:00:07/1".into(),
                        ckn: "6f6c64".into(),
                        name: Some("press-c".into()),
                    })
                },
                false,
                "02:00:00:00:00:07/1 \"press-c\" has the CAK of ckn 6f6c64",
            ),
            (&|mka| mka.saks[0].confidentiality = "integrity".into(), false, "not encrypted"),
            (
                &|mka| mka.fragmentation.why_not = Some("x has not announced it".into()),
                false,
                "x has not announced it.",
            ),
            (
                &|mka| mka.fragmentation.why_not_padded = Some("peer x does not know it".into()),
                false,
                "Frames are not padded: peer x does not know it.",
            ),
        ];
        for (change, grave, words) in rows {
            let found = said(change, requested);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].0 == grave && found[0].1.contains(words), "{found:?}");
        }
        // Nobody is there at all: that is said once.
        let alone: &dyn Fn(&mut MkaReport) = &|mka| {
            mka.members.clear();
            mka.missing.push("02:00:00:00:00:0c/1".into());
        };
        let found = said(alone, requested);
        assert!(found.len() == 1 && found[0].1.contains("All peers are gone"), "{found:?}");
        let two: &dyn Fn(&mut MkaReport) = &|mka| mka.members.push(mka.members[0].clone());
        let never = Requested { fragmentation: false, encrypted: false, no_sci: true, trouble: None };
        assert!(said(two, never)[0].1.contains("more than one peer"));
        assert_eq!(said(&|mka| mka.saks[0].confidentiality = "integrity".into(), never), []);
    }
}

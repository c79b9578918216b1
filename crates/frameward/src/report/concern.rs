//! What a person should know about a link at once: judged here, and shown alike by status, page and metrics.

use serde::{Deserialize, Serialize};

use super::mka::{MkaReport, Wishes};
use super::{SecYReport, WaitingReport};

/// Of a suite with 32-bit PNs.
const PNS: u64 = 1 << 32;

/// Something about a link that is not as it should be.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Concern {
    /// Whether the link does not protect: frames leave in clear, or do not leave at all.
    pub grave: bool,
    /// What it is, in a sentence.
    pub text: String,
}

/// What is to be said of a link that may have no ports, and of its SecY's settings and SAs. Discards are not judged: whether they grow takes two reports.
/// Nothing reaches the SecY of a link whose cell drops the rest: then there is none.
pub(crate) fn concerns(
    secy: Option<&SecYReport>,
    waiting: Option<&WaitingReport>,
    mka: Option<(&MkaReport, Wishes)>,
) -> Vec<Concern> {
    let mut concerns = Vec::new();
    let mut say = |grave, text: String| concerns.push(Concern { grave, text });
    if let Some(WaitingReport { seconds, why }) = waiting {
        say(true, format!("No frame passes, for {seconds} s by now: {why}."));
    }
    let Some(secy) = secy else { return concerns };
    let mut say = |grave, text: String| concerns.push(Concern { grave, text });
    if let Some((mka, wishes)) = mka {
        // Keys come and go by themselves: what is missing is for it to say.
        mka.concerns(wishes).into_iter().for_each(|concern| say(concern.grave, concern.text));
    } else if !secy.protect_frames {
        say(true, "Frames leave in clear: protect_frames is false.".into());
    } else {
        match secy.transmit.sas.iter().find(|sa| sa.in_use) {
            None => say(true, "Nothing is sent: no transmit SA is in use.".into()),
            Some(sa) if sa.next_pn.is_none() => {
                say(
                    true,
                    "Nothing is sent: the key's packet numbers are used up. Change the key at both ends."
                        .into(),
                );
            }
            Some(sa) if sa.pns_left.is_some_and(|left| left < PNS / 4) => {
                let text =
                    "Three quarters of the key's packet numbers are used. Change the key at both ends.";
                say(false, text.into());
            }
            Some(_) => {}
        }
    }
    if mka.is_none() && !secy.receive.iter().any(|sc| sc.sas.iter().any(|sa| sa.in_use)) {
        say(false, "No receive SA is in use: no peer's frame can be verified.".into());
    }
    if secy.validate_frames != "strict" {
        let mode = &secy.validate_frames;
        say(false, format!("Frames that cannot be verified may be delivered: validate_frames is {mode}."));
    }
    if !secy.replay_protect {
        say(false, "Frames can be replayed: replay_protect is false.".into());
    }
    concerns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::sample;

    #[test]
    fn each_weakness_is_said() {
        let said = |change: &dyn Fn(&mut SecYReport)| {
            let mut secy = sample("g").links.remove(0).secy;
            secy.receive[0].sas[0].in_use = true;
            change(&mut secy);
            concerns(Some(&secy), None, None)
                .into_iter()
                .map(|concern| (concern.grave, concern.text))
                .collect::<Vec<_>>()
        };
        assert_eq!(said(&|_| {}), []);
        type Row<'r> = (&'r dyn Fn(&mut SecYReport), bool, &'r str);
        let rows: [Row<'_>; 7] = [
            (&|secy| secy.protect_frames = false, true, "Frames leave in clear"),
            (&|secy| secy.transmit.sas.clear(), true, "no transmit SA"),
            (&|secy| secy.transmit.sas[0].next_pn = None, true, "used up"),
            (&|secy| secy.transmit.sas[0].pns_left = Some(PNS / 4 - 1), false, "Three quarters"),
            (&|secy| secy.receive.clear(), false, "no peer's frame"),
            (&|secy| secy.validate_frames = "check".into(), false, "validate_frames is check"),
            (&|secy| secy.replay_protect = false, false, "replay_protect is false"),
        ];
        for (change, grave, words) in rows {
            let found = said(change);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].0 == grave && found[0].1.contains(words), "{found:?}");
        }
    }

    #[test]
    fn a_link_that_waits_is_grave() {
        let mut secy = sample("g").links.remove(0).secy;
        secy.receive[0].sas[0].in_use = true;
        let waiting = WaitingReport { seconds: 7, why: "interface eth1 is missing".into() };
        let found = concerns(Some(&secy), Some(&waiting), None);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].grave && found[0].text.contains("7 s") && found[0].text.contains("eth1"),
            "{found:?}"
        );
    }
}

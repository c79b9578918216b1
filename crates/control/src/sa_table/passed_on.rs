//! SAs of a link whose keys are agreed on, for the next program of its process: it makes them anew, each behind the last PN.
//!
//! SAKs are wrapped under the KEKs of their CAKs, as MKPDUs have them. Replay windows and counters are the SecY's to pass on.

use mka::{Admission, Association, FragmentAgreement, Kay};
use secy::SecY;
use serde::{Deserialize, Serialize};
use suite::CipherSuite;
use wire::mkpdu::Confidentiality;
use wire::{An, Ki, Pn, Sci, Ssci};

use super::{Installed, SaTable};
use crate::sa_changes::{SaChange, SaChanges};
use dataplane::link::Link;
use secy::ReceiveSc;

/// The SAs of a link.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PassedSas {
    saks: Vec<PassedSak>,
    scs: Vec<Sci>,
    enabled: Option<Ki>,
    newest: Option<Ki>,
    why_user_space: Option<String>,
}

/// A SAK with its SAs.
#[derive(Debug, Serialize, Deserialize)]
struct PassedSak {
    ki: Ki,
    an: An,
    suite: CipherSuite,
    wrapped: Vec<u8>,
    confidentiality: Confidentiality,
    /// Own SSCI, with an XPN suite.
    ssci: Option<Ssci>,
    receive: Vec<PassedReceiveSa>,
    /// Those of the peers' express SCs, if it is used on them too.
    express: Option<Vec<PassedReceiveSa>>,
    fragmentation: FragmentAgreement,
    whole: bool,
    /// The next PN of the transmit SA.
    next_pn: u64,
}

/// A peer that is admitted under a SAK.
#[derive(Debug, Serialize, Deserialize)]
struct PassedReceiveSa {
    admission: Admission,
    /// Width of the replay window, in PNs; none where there is no SA, for want of an SC.
    window: Option<u32>,
}

impl SaTable {
    /// All of it, as `secy` has it, which has left its worker. None if that cannot go on: changes are under way, SAs are in the kernel, or a
    /// SAK's PNs are used up or its CAK is gone. Without `secy` it is only to be judged: PNs and windows are those of SAs to come, and SAs that
    /// are in the kernel leave it before the link leaves its worker.
    pub(crate) fn pass_on(&self, kay: &Kay, secy: Option<&SecY>) -> Option<PassedSas> {
        let is_there = self.changes.list.is_empty()
            && self.changes.reports.is_empty()
            && self.saks.iter().all(|of| secy.is_none() || !of.in_kernel)
            && secy.is_none_or(|secy| self.is_of(secy));
        if !is_there {
            return None;
        }
        let saks = self.saks.iter().filter(|of| !of.express);
        let saks = saks.map(|Installed { sak, .. }| self.pass_on_sak(sak, kay, secy));
        Some(PassedSas {
            saks: saks.collect::<Option<_>>()?,
            scs: self.scs.clone(),
            enabled: self.enabled,
            newest: self.newest,
            why_user_space: self.why_user_space.clone(),
        })
    }

    /// True if the SecY has these SCs and SAs and no others.
    fn is_of(&self, secy: &SecY) -> bool {
        let enabled = self.enabled.and_then(|ki| self.find(ki)).map(|of| of.sak.an);
        let transmit = |an| secy.transmit_sas().any(|sa| sa.an() == an);
        let has = |sci: Sci, an: An| {
            let mut saks = self.saks.iter().filter(|of| of.sak.an == an);
            saks.any(|of| of.sak.receive.iter().any(|admission| admission.sci == sci))
        };
        secy.encoding_sa() == enabled
            && An::ALL.into_iter().all(|an| transmit(an) == self.saks.iter().any(|of| of.sak.an == an))
            && secy.receive_scs().count() == self.scs.len()
            && secy.receive_scs().all(|sc| {
                self.scs.contains(&sc.sci())
                    && sc.sas().all(|sa| sa.in_use())
                    && An::ALL.into_iter().all(|an| sc.sas().any(|sa| sa.an() == an) == has(sc.sci(), an))
            })
    }

    fn pass_on_sak(&self, sak: &Association, kay: &Kay, secy: Option<&SecY>) -> Option<PassedSak> {
        let transmit = secy.map(|secy| secy.transmit_sas().find(|sa| sa.an() == sak.an)?.pns().next());
        Some(PassedSak {
            ki: sak.ki,
            an: sak.an,
            suite: sak.suite,
            wrapped: kay.wrap_sak(sak.ki, &sak.sak)?,
            confidentiality: sak.confidentiality,
            ssci: sak.xpn.map(|(_, ssci)| ssci),
            receive: self.pass_on_receive(sak, secy),
            express: self.find_express(sak.ki).map(|of| self.pass_on_receive(&of.sak, secy)),
            fragmentation: sak.fragmentation,
            whole: sak.whole,
            next_pn: match transmit {
                None => 1,
                Some(next) => next?.number(),
            },
        })
    }

    /// The receive SAs under a SAK.
    fn pass_on_receive(&self, sak: &Association, secy: Option<&SecY>) -> Vec<PassedReceiveSa> {
        let window = |sci: Sci| {
            let sc = secy?.receive_scs().find(|sc| sc.sci() == sci)?;
            let sa = sc.sas().find(|sa| sa.an() == sak.an)?;
            Some(sa.window().width())
        };
        // To be judged, each SA has the window of one to come.
        let window = |sci: Sci| match secy {
            Some(_) => window(sci),
            None => self.scs.contains(&sci).then_some(self.replay_window),
        };
        let receive = sak.receive.iter();
        let receive =
            receive.map(|admission| PassedReceiveSa { admission: *admission, window: window(admission.sci) });
        receive.collect()
    }

    /// Goes on in a link whose SecY has no SC and SA.
    ///
    /// # Errors
    /// In words.
    pub(crate) fn go_on(&mut self, passed: PassedSas, kay: &Kay, link: &mut Link) -> Result<(), String> {
        let PassedSas { saks, scs, enabled, newest, why_user_space } = passed;
        // Express frames are whole.
        let is_express = |sci: Sci| {
            let mut express = saks.iter().filter_map(|of| of.express.as_ref()).flatten();
            express.any(|of| of.admission.sci == sci)
        };
        let prepare_sc = |sci: &Sci| {
            let sc = ReceiveSc::new(*sci, self.settings.reassemble && !is_express(*sci));
            SaChange::InstallReceiveSc(Box::new(Some(sc)))
        };
        let mut list: Vec<SaChange> = scs.iter().map(prepare_sc).collect();
        // An antedating key is told by the place of its SC.
        self.scs = scs;
        for passed in saks {
            let (sak, express) = self.go_on_with_sak(passed, kay, &mut list)?;
            let express = express.map(|sak| Installed { sak, express: true, in_kernel: false });
            self.saks.push(Installed { sak, express: false, in_kernel: false });
            self.saks.extend(express);
        }
        if let Some(ki) = enabled {
            let of = self.find(ki).ok_or("the SAK that protects is missing")?;
            list.push(SaChange::EnableTransmit {
                an: of.sak.an,
                fragmenter: self.fragmenter(&of.sak, &self.settings),
            });
        }
        (self.enabled, self.newest, self.why_user_space) = (enabled, newest, why_user_space);
        let mut changes = SaChanges { list, ..SaChanges::default() };
        changes.apply_to_link(link);
        changes.refused.map_or(Ok(()), |error| Err(super::describe(error).to_owned()))
    }

    fn go_on_with_sak(
        &self,
        passed: PassedSak,
        kay: &Kay,
        list: &mut Vec<SaChange>,
    ) -> Result<(Association, Option<Association>), String> {
        let PassedSak {
            ki,
            an,
            suite,
            wrapped,
            confidentiality,
            ssci,
            receive,
            express,
            fragmentation,
            whole,
            next_pn,
        } = passed;
        let sak = Association {
            ki,
            an,
            suite,
            sak: kay.unwrap_sak(ki, suite, &wrapped).ok_or("its SAK was wrapped under another CAK")?,
            confidentiality,
            xpn: ssci.map(|ssci| (suite::mka::salt(&ki), ssci)),
            receive: receive.iter().map(|of| of.admission).collect(),
            fragmentation,
            whole,
        };
        self.go_on_with_receive(&sak, &receive, list)?;
        let next = Pn::new(next_pn).ok_or("a PN is 0")?;
        list.push(SaChange::InstallTransmit { sa: Some(self.transmit_sa(&sak, next)?) });
        // The worker sends express frames as all others.
        let Some(receive) = express else { return Ok((sak, None)) };
        let Association { xpn, .. } = sak;
        let of_express = Association {
            ki,
            an,
            suite,
            sak: sak.sak.express(suite).ok_or("its suite has no express SCs")?,
            confidentiality,
            xpn,
            receive: receive.iter().map(|of| of.admission).collect(),
            fragmentation,
            whole: true,
        };
        self.go_on_with_receive(&of_express, &receive, list)?;
        Ok((sak, Some(of_express)))
    }

    fn go_on_with_receive(
        &self,
        sak: &Association,
        receive: &[PassedReceiveSa],
        list: &mut Vec<SaChange>,
    ) -> Result<(), String> {
        for PassedReceiveSa { admission, window } in receive {
            let Some(window) = window else { continue };
            let sa = self.receive_sa(sak, admission, Pn::FIRST, *window)?;
            list.push(SaChange::InstallReceive { sci: admission.sci, sa: Some(sa) });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PassedAgreement;
    use wire::Mi;

    /// Another form of it needs another [`PassedAgreement::FORM`], and then other words here.
    #[test]
    fn another_form_of_sas_is_another_number() {
        let ki = Ki { server: Mi([9; 12]), kn: 3 };
        let admission =
            Admission { sci: Sci::new(wire::MacAddr([2, 0, 0, 0, 0, 7]), 1), ssci: Some(Ssci(2)) };
        let fragmentation = FragmentAgreement {
            fragment: true,
            concatenate: false,
            pad: true,
            express: false,
            largest_sdu: 1500,
        };
        let sak = PassedSak {
            ki,
            an: An::ALL[1],
            suite: CipherSuite::GcmAesXpn128,
            wrapped: vec![4, 5],
            confidentiality: Confidentiality::Zero,
            ssci: Some(Ssci(1)),
            receive: vec![PassedReceiveSa { admission, window: Some(6) }],
            express: Some(vec![]),
            fragmentation,
            whole: true,
            next_pn: 8,
        };
        let sas = PassedSas {
            saks: vec![sak],
            scs: vec![admission.sci],
            enabled: Some(ki),
            newest: None,
            why_user_space: Some("w".into()),
        };
        let ki = r#"{"server":[9,9,9,9,9,9,9,9,9,9,9,9],"kn":3}"#;
        let expected = [
            r#"{"saks":[{"ki":"#,
            ki,
            r#","an":1,"suite":"GcmAesXpn128","wrapped":[4,5],"confidentiality":"Zero","ssci":1,"#,
            r#""receive":[{"admission":{"sci":[2,0,0,0,0,7,0,1],"ssci":2},"window":6}],"express":[],"#,
            r#""fragmentation":{"fragment":true,"concatenate":false,"pad":true,"express":false,"largest_sdu":1500},"#,
            r#""whole":true,"next_pn":8}],"scs":[[2,0,0,0,0,7,0,1]],"enabled":"#,
            ki,
            r#","newest":null,"why_user_space":"w"}"#,
        ];
        let now = serde_json::to_string(&sas).expect("JSON");
        assert_eq!((PassedAgreement::FORM, now), (2, expected.concat()));
    }
}

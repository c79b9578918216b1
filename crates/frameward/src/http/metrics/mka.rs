//! A link's key agreement as metrics.

use std::collections::BTreeSet;

use super::{Families, Labels};
use report::mka::MkaReport;

impl Families {
    pub(super) fn mka(&mut self, of_link: &Labels, mka: &MkaReport) {
        let help = "Whether an agreed SAK protects the frames that this box sends.";
        self.gauge("mka_secured", help, of_link, mka.secured.into());
        let help = "Other members of the group that have shown that they hear this box.";
        self.gauge("mka_live_peers", help, of_link, mka.live_peers() as u64);
        // An SCI comes once, though two of its MIs may be live: strict scrapers refuse a series that comes twice.
        let live: BTreeSet<&str> =
            mka.members.iter().filter(|member| member.live).map(|member| member.sci.as_str()).collect();
        for sci in live {
            let mut of_member = of_link.clone();
            let name = mka.name_of(sci).unwrap_or_default();
            of_member.extend([("sc", sci.to_owned()), ("name", name.to_owned())]);
            self.info("mka_member", "What a live member calls itself, by its SCI", of_member);
        }
        let help = "Whether keys are agreed on under another CAK than the preferred one.";
        self.gauge("mka_under_fallback", help, of_link, mka.under_fallback.into());
        let help = "Stations that have a CAK and are not known to belong to the link.";
        self.gauge("mka_strangers_present", help, of_link, mka.strangers.len() as u64);
        let help = "Whether this box is key server.";
        self.gauge("mka_is_key_server", help, of_link, mka.is_key_server.into());
        if let Some(sak) = mka.sak() {
            let help = "Seconds since the SAK in use was installed.";
            self.gauge("mka_sak_age_seconds", help, of_link, sak.seconds);
        }
        if let Some(seconds) = mka.next_rekey_seconds {
            let help = "Seconds until another SAK replaces this one because of its age.";
            self.gauge("mka_next_rekey_seconds", help, of_link, seconds);
        }
        let fragmentation = &mka.fragmentation;
        let help = "Whether a payload may span frames under the SAK in use.";
        self.gauge("mka_fragment", help, of_link, fragmentation.fragment.into());
        let help = "Whether a frame may hold several payloads under the SAK in use.";
        self.gauge("mka_concatenate", help, of_link, fragmentation.concatenate.into());
        let help = "Whether frames are padded under the SAK in use.";
        self.gauge("mka_padded", help, of_link, fragmentation.padded.into());
        self.counters("mka", of_link, &mka.counters);
    }
}

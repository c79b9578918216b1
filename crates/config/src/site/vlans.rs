//! `vlans`: the VLANs of a LAN that cross.
//!
//! | in the list | frames |
//! |---|---|
//! | `10` | of this VLAN |
//! | `"20-29"` | of these |
//! | `"untagged"` | of no VLAN, those with a priority tag alone included |

use std::ops::RangeInclusive;

use dataplane::site::{UNTAGGED, VLANS, VlanList};
use toml::Value;

use super::super::Io;
use super::super::findings::Findings;
use super::super::reference::RawSite;

/// The word for frames of no VLAN.
const WORD: &str = "untagged";

/// The list; none: all cross.
pub(super) fn validate(label: &str, raw: &RawSite, io: Io, findings: &mut Findings) -> Option<VlanList> {
    let values = raw.vlans.as_ref()?;
    let mut list = VlanList::EMPTY;
    if values.get_ref().is_empty() {
        let text = format!(
            "{label}vlans = [] lets nothing cross; list VLANs or \"untagged\", or remove vlans for all"
        );
        findings.error(values.span(), text);
    }
    for value in values.get_ref() {
        let entry = value.get_ref();
        match range(entry) {
            Some(vids) => {
                // All of them are added, whichever was there before.
                let again = vids.filter(|vid| !list.add(*vid)).count();
                if again > 0 {
                    findings.error(value.span(), format!("{label}vlans names {entry} twice; once is enough"));
                }
            }
            None => {
                let text = format!(
                    "{label}vlans has {entry}, which is no VLAN; use numbers from {} to {}, ranges such as \"20-29\", and \"untagged\"",
                    VLANS.start(),
                    VLANS.end()
                );
                findings.error(value.span(), text);
            }
        }
    }
    if io == Io::Kernel && !list.has(UNTAGGED) {
        let text = format!(
            "{label}vlans without \"untagged\" does not go with io = \"kernel\": the kernel's flows have no tag, so all frames pass through user space; use io = \"auto\", or add \"untagged\""
        );
        findings.error(values.span(), text);
    }
    Some(list)
}

/// The VIDs of an entry.
fn range(entry: &Value) -> Option<RangeInclusive<u16>> {
    let vlan = |vid: u16| VLANS.contains(&vid).then_some(vid);
    match entry {
        Value::Integer(vid) => {
            let vid = vlan(u16::try_from(*vid).ok()?)?;
            Some(vid..=vid)
        }
        Value::String(word) if word == WORD => Some(UNTAGGED..=UNTAGGED),
        Value::String(text) => {
            let (first, last) = text.split_once('-')?;
            let digits = |text: &str| text.bytes().all(|digit| digit.is_ascii_digit());
            let number = |text: &str| vlan(Some(text).filter(|text| digits(text))?.parse().ok()?);
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then_some(first..=last)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::super::check::Plan;
    use super::super::super::tests::{lines, validated};
    use super::*;

    fn text(gateway: &str, site: &str) -> String {
        format!(
            "[gateway]\nname = \"edge\"{gateway}\n[[site]]\nname = \"dresden\"\nlan = \"eth2\"\nbind = \"0.0.0.0:7787\"\nidentity = \"a.key\"\n{site}\n[[site.peer]]\nname = \"berlin\"\npublic_key = \"{}\"\n",
            "1".repeat(64)
        )
    }

    #[test]
    fn a_list_is_read_and_the_plan_says_it_and_where_frames_go() {
        for (line, list, in_kernel) in [
            ("", None, true),
            ("vlans = [10, \"20-29\", \"untagged\"]", Some("untagged, 10, 20-29"), true),
            ("vlans = [\"untagged\"]", Some("untagged"), true),
            ("vlans = [4094, 1]", Some("1, 4094"), false),
            ("vlans = [\"1-4094\"]", Some("1-4094"), false),
        ] {
            let (config, warnings) = validated(&text("", line)).map_err(|errors| lines(&errors)).unwrap();
            let site = &config.sites[0];
            assert_eq!(site.vlans.as_ref().map(ToString::to_string).as_deref(), list);
            assert_eq!((site.admits_untagged(), warnings.is_empty()), (in_kernel, true), "{line}");
            let plan = Plan::new(&config, Some(&|_| Ok(1500))).unwrap().to_string();
            let of_list = list.map(|list| format!("  vlans      {list}: frames of no other VLAN cross"));
            assert_eq!(plan.contains("  vlans      "), list.is_some(), "{plan}");
            assert!(of_list.is_none_or(|words| plan.contains(&words)), "{plan}");
            assert_eq!(plan.contains("kernel, if the drivers"), in_kernel, "{plan}");
        }
    }

    #[test]
    fn each_mistake_has_its_line() {
        let no_vlan = |entry: &str| {
            format!(
                "gw.toml:8: site \"dresden\": vlans has {entry}, which is no VLAN; use numbers from 1 to 4094, ranges such as \"20-29\", and \"untagged\""
            )
        };
        let twice =
            |entry: &str| format!("gw.toml:8: site \"dresden\": vlans names {entry} twice; once is enough");
        for (entries, expected) in [
            ("0", no_vlan("0")),
            ("4095", no_vlan("4095")),
            ("-1", no_vlan("-1")),
            ("65537", no_vlan("65537")),
            ("1.5", no_vlan("1.5")),
            ("\"10\"", no_vlan("\"10\"")),
            ("\"all\"", no_vlan("\"all\"")),
            ("\"29-20\"", no_vlan("\"29-20\"")),
            ("\"+1-5\"", no_vlan("\"+1-5\"")),
            ("\"0-5\"", no_vlan("\"0-5\"")),
            ("\"1-4095\"", no_vlan("\"1-4095\"")),
            ("\"1-2-3\"", no_vlan("\"1-2-3\"")),
            ("10, 10", twice("10")),
            ("\"untagged\", \"untagged\"", twice("\"untagged\"")),
            ("22, \"20-29\"", twice("\"20-29\"")),
            (
                "",
                "gw.toml:8: site \"dresden\": vlans = [] lets nothing cross; list VLANs or \"untagged\", or remove vlans for all".to_owned(),
            ),
        ] {
            let errors = validated(&text("", &format!("vlans = [{entries}]"))).unwrap_err();
            assert_eq!(lines(&errors), [expected], "{entries}");
        }
        let kernel = |vlans: &str| validated(&text("\nio = \"kernel\"", vlans)).map(|_| ());
        let errors = lines(&kernel("vlans = [10]").unwrap_err());
        assert!(
            errors[0].contains("gw.toml:9: site \"dresden\": vlans without \"untagged\" does not go with io")
        );
        assert!(kernel("vlans = [10, \"untagged\"]").is_ok());
    }

    #[test]
    fn a_site_goes_on_with_another_list_unless_flows_have_to_leave_the_kernel() {
        let site = |line: &str| validated(&text("", line)).unwrap().0.sites.remove(0);
        let old = site("vlans = [10, \"untagged\"]");
        for (line, goes_on) in [
            ("vlans = [\"untagged\", 10]", true),
            ("vlans = [\"untagged\", 11]", true),
            ("", true),
            ("vlans = [10]", false),
            ("vlans = [11, \"untagged\"]\ndscp = 1", false),
        ] {
            assert_eq!(old.goes_on_as(&site(line)), goes_on, "{line}");
        }
    }

    proptest! {
        /// Whatever is admitted is written again as it was, and admits the same.
        #[test]
        fn any_list_is_read_as_it_is_written(vids in prop::collection::btree_set(0_u16..=4094, 1..40)) {
            let entry = |vid: &u16| if *vid == 0 { "\"untagged\"".to_owned() } else { vid.to_string() };
            let line = format!("vlans = [{}]", vids.iter().map(entry).collect::<Vec<_>>().join(", "));
            let list = validated(&text("", &line)).unwrap().0.sites.remove(0).vlans.unwrap();
            prop_assert!((0..=u16::MAX).all(|vid| list.has(vid) == vids.contains(&vid)));
            let written = list.to_string();
            let quoted: Vec<_> = written.split(", ").map(|word| format!("\"{word}\"")).collect();
            let bare = quoted.iter().map(|word| match word.trim_matches('"').parse::<u16>() {
                Ok(vid) => vid.to_string(),
                Err(_) => word.clone(),
            });
            let line = format!("vlans = [{}]", bare.collect::<Vec<_>>().join(", "));
            prop_assert_eq!(validated(&text("", &line)).unwrap().0.sites.remove(0).vlans, Some(list));
        }
    }
}

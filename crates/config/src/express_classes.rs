//! `express_classes`: which SDUs of a link precede all others, and share no frame with them; which frames of a site go first at its uplink,
//! and over all paths.
//!
//! | word | SDUs, frames |
//! |---|---|
//! | `profinet`, `ethercat`, `goose`, `sv`, `powerlink`, `sercos`, `0x88cc` | of an EtherType |
//! | `pcp:6` | whose outermost VLAN tag has this priority |
//! | `dscp:46` | IPv4 and IPv6 |
//! | `udp:4840`, `tcp:102` | from or to this port |
//! | `default` | of all classes that a link or a site has which names none |

use std::fmt;

use dataplane::site::Copies;
use secy::ExpressClasses;
use secy::express::ExpressClass;
use toml::Spanned;
use wire::EtherType;

use super::findings::Findings;
use super::reference::{LINK, RawLink, RawSite, SITE};
use super::{Io, Site, SitePeer};

/// Classes that the gateway has without `express_classes`, and has by this word in it.
const DEFAULT: &str = "default";

const NAMED: [(&str, EtherType); 6] = [
    ("profinet", EtherType::PROFINET),
    ("ethercat", EtherType::ETHERCAT),
    ("goose", EtherType::GOOSE),
    ("sv", EtherType::SAMPLED_VALUES),
    ("powerlink", EtherType::POWERLINK),
    ("sercos", EtherType::SERCOS),
];

/// A class as `express_classes` spells it.
pub struct Named(pub ExpressClass);

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ExpressClass::EtherType(of) => match NAMED.iter().find(|(_, named)| *named == of) {
                Some((name, _)) => f.write_str(name),
                None => write!(f, "{of}"),
            },
            ExpressClass::Pcp(pcp) => write!(f, "pcp:{pcp}"),
            ExpressClass::Dscp(dscp) => write!(f, "dscp:{dscp}"),
            ExpressClass::Udp(port) => write!(f, "udp:{port}"),
            ExpressClass::Tcp(port) => write!(f, "tcp:{port}"),
        }
    }
}

/// Classes as a list, or `none`.
pub(super) fn listed(classes: impl Iterator<Item = ExpressClass>) -> String {
    let classes: Vec<_> = classes.map(|class| Named(class).to_string()).collect();
    if classes.is_empty() { "none".to_owned() } else { classes.join(", ") }
}

/// Judges the key of a link. `divides`: whether frames may be divided, without which no SDU precedes another.
pub(super) fn validate(label: &str, raw: &RawLink, divides: bool, findings: &mut Findings) -> ExpressClasses {
    let Some(list) = &raw.express_classes else { return ExpressClasses::DEFAULT };
    let name = LINK.express_classes.name;
    if !divides {
        let text = format!(
            "{label}{name} does nothing where frames are not split; set fragment = \"on\", or remove {name}"
        );
        findings.error(list.span(), text);
        return ExpressClasses::DEFAULT;
    }
    read(label, list, &ExpressClasses::DEFAULT, |_| None, findings)
}

/// Settings of a site that its classes have to go with.
pub(super) struct Around<'a> {
    pub(super) protects: bool,
    /// Of the gateway.
    pub(super) io: Io,
    pub(super) cells: Option<EtherType>,
    /// None: they are what is wrong.
    pub(super) peers: Option<&'a [SitePeer]>,
}

/// Judges the key of a site.
pub(super) fn validate_site(
    label: &str,
    raw: &RawSite,
    around: &Around<'_>,
    findings: &mut Findings,
) -> ExpressClasses {
    let Around { protects, io, cells, peers } = *around;
    let default = ExpressClasses::DEFAULT;
    let with_cells = cells.and_then(|of| default.with(ExpressClass::EtherType(of)).ok());
    let default = with_cells.unwrap_or(default);
    let Some(list) = &raw.express_classes else { return default };
    let name = SITE.express_classes.name;
    let asks =
        |peer: &SitePeer| peer.copies == Copies::Express || peer.paths.iter().any(|path| path.rate.is_some());
    let nobody_asks = raw.rate.is_none() && peers.is_some_and(|peers| !peers.iter().any(asks));
    let wrong = if io == Io::Kernel {
        Some(
            "does not go with io = \"kernel\": programs in the kernel let no packet wait and copy none, so no frame goes first there; use io = \"auto\"",
        )
    } else if nobody_asks {
        Some(
            "does nothing where no packet waits and none is copied by its class; add rate, or copies = \"express\" to a peer with paths",
        )
    } else {
        None
    };
    if let Some(wrong) = wrong {
        findings.error(list.span(), format!("{label}{name} {wrong}, or remove {name}"));
        return default;
    }
    read(label, list, &default, |class| if protects { None } else { hidden(class, cells) }, findings)
}

/// Classes of a site's frames that it can tell.
pub(super) fn in_sight(site: &Site) -> impl Iterator<Item = ExpressClass> {
    site.express.iter().filter(move |class| site.protect || hidden(*class, site.cells).is_none())
}

/// Why a site that does not protect its LAN cannot tell a class.
fn hidden(class: ExpressClass, cells: Option<EtherType>) -> Option<&'static str> {
    match class {
        ExpressClass::Pcp(_) => None,
        // By their groups.
        ExpressClass::EtherType(EtherType::GOOSE | EtherType::SAMPLED_VALUES) => None,
        ExpressClass::EtherType(of) if of == EtherType::MACSEC || Some(of) == cells => None,
        _ => Some(
            "stands behind the SecTAG of stations' frames, where nobody reads it here; use \"pcp:6\", \"goose\", \"sv\" or the EtherType of cells, or set protect = true",
        ),
    }
}

/// Judges a list. `default`: what that word stands for. `hidden`: why a class that is named cannot be told here.
fn read(
    label: &str,
    list: &Spanned<Vec<Spanned<String>>>,
    default: &ExpressClasses,
    hidden: impl Fn(ExpressClass) -> Option<&'static str>,
    findings: &mut Findings,
) -> ExpressClasses {
    let name = LINK.express_classes.name;
    let mut all = ExpressClasses::NONE;
    for value in list.get_ref() {
        let named = value.get_ref();
        let added = classes(named, default).and_then(|of| {
            // The default has them too, and nobody is told of it.
            if named != DEFAULT
                && let Some(why) = of.iter().find_map(|class| hidden(*class))
            {
                return Err(why.into());
            }
            let has = |class: &ExpressClass| all.iter().any(|known| known == *class);
            if of.iter().any(has) {
                return Err("is named twice; once is enough".into());
            }
            of.into_iter().try_fold(all, ExpressClasses::with).map_err(|_| {
                let most = ExpressClasses::LIST;
                format!(
                    "is one too many: there is room for {most} EtherTypes, {most} UDP and {most} TCP ports; remove some"
                )
            })
        });
        match added {
            Ok(with) => all = with,
            Err(why) => findings.error(value.span(), format!("{label}{name} {named:?} {why}")),
        }
    }
    all
}

/// The classes that a word stands for.
fn classes(text: &str, default: &ExpressClasses) -> Result<Vec<ExpressClass>, String> {
    if text == DEFAULT {
        return Ok(default.iter().collect());
    }
    if let Some((_, of)) = NAMED.iter().find(|(name, _)| *name == text) {
        return Ok(vec![ExpressClass::EtherType(*of)]);
    }
    let class = match text.split_once(':') {
        Some(("pcp", number)) => ExpressClass::Pcp(numbered(number, 0, 7)?),
        Some(("dscp", number)) => ExpressClass::Dscp(numbered(number, 0, 63)?),
        Some(("udp", number)) => ExpressClass::Udp(numbered(number, 1, u16::MAX)?),
        Some(("tcp", number)) => ExpressClass::Tcp(numbered(number, 1, u16::MAX)?),
        _ => ExpressClass::EtherType(ether_type(text)?),
    };
    Ok(vec![class])
}

/// A decimal number in this range.
fn numbered<N: std::str::FromStr + PartialOrd + fmt::Display>(
    digits: &str,
    from: N,
    to: N,
) -> Result<N, String> {
    let number = Some(digits).filter(|digits| digits.bytes().all(|octet| octet.is_ascii_digit()));
    let number = number.and_then(|digits| digits.parse().ok());
    number
        .filter(|number| (&from..=&to).contains(&number))
        .ok_or_else(|| format!("is out of range; use a number from {from} to {to}"))
}

fn ether_type(text: &str) -> Result<EtherType, String> {
    let digits = text.strip_prefix("0x").filter(|digits| digits.len() == 4 && !digits.starts_with('+'));
    match digits.and_then(|digits| u16::from_str_radix(digits, 16).ok()).map(EtherType) {
        None => {
            let names: Vec<_> = NAMED.iter().map(|(name, _)| *name).collect();
            Err(format!(
                "is no class; use default, {}, four digits such as \"0x88cc\", or \"pcp:6\", \"dscp:46\", \"udp:4840\", \"tcp:102\"",
                names.join(", ")
            ))
        }
        Some(EtherType(0..0x0600)) => Err("is a length, not an EtherType; use 0x0600 or above".into()),
        Some(EtherType::VLAN | EtherType::SERVICE_VLAN) => Err(
            "is a VLAN tag, behind which an EtherType is looked for; use \"pcp:6\", or the EtherType behind"
                .into(),
        ),
        Some(EtherType::MAC_CONTROL) => {
            Err("is MAC control (PAUSE), which no bridge forwards; remove it".into())
        }
        Some(of) => Ok(of),
    }
}

#[cfg(test)]
mod tests {
    use secy::express::ExpressClass::{Dscp, EtherType as Type, Pcp, Udp};

    use super::*;
    use crate::check::Plan;
    use crate::tests::{lines, validated};

    /// A site with a peer; line 8 is the first of `site`, unless `gateway` has lines.
    fn text(gateway: &str, site: &str, keys: &str, peer: &str) -> String {
        format!(
            "[gateway]\nname = \"edge\"{gateway}\n[[site]]\nname = \"dresden\"\nlan = \"eth2\"\nbind = \"0.0.0.0:7787\"\nidentity = \"a.key\"\n{site}\n{keys}\n[[site.peer]]\nname = \"berlin\"\npublic_key = \"{}\"\n{peer}\n",
            "1".repeat(64)
        )
    }

    const MKA: &str = "[site.mka]\ncak_file = \"c.256\"";
    const PATHS: &str = "paths = [{ endpoint = \"198.51.100.7:7787\", interface = \"wan1\" }, { endpoint = \"198.51.100.7:7787\", interface = \"wan2\" }]";

    fn with(classes: ExpressClasses, more: &[ExpressClass]) -> ExpressClasses {
        more.iter().fold(classes, |classes, class| classes.with(*class).unwrap())
    }

    #[test]
    fn a_site_has_the_classes_of_its_list_and_the_plan_says_those_in_sight() {
        let (default, none) = (ExpressClasses::DEFAULT, ExpressClasses::NONE);
        let cells = Type(EtherType(0x88b6));
        let default_in_front = "goose, sv, pcp:6, pcp:7, in front of the SecTAG";
        for (site, keys, expected, in_sight) in [
            ("", "", default, default_in_front),
            (
                "cells = 0x88b6",
                "",
                with(default, &[cells]),
                "goose, sv, 0x88b6, pcp:6, pcp:7, in front of the SecTAG",
            ),
            (
                "express_classes = [\"default\", \"pcp:5\"]",
                "",
                with(default, &[Pcp(5)]),
                "goose, sv, pcp:5, pcp:6, pcp:7, in front of the SecTAG",
            ),
            (
                "cells = 0x88b6\nexpress_classes = [\"0x88b6\", \"goose\", \"pcp:0\"]",
                "",
                with(none, &[cells, Type(EtherType::GOOSE), Pcp(0)]),
                "0x88b6, goose, pcp:0, in front of the SecTAG",
            ),
            (
                "cells = 0x88b6\nexpress_classes = [\"default\"]",
                "",
                with(default, &[cells]),
                "goose, sv, 0x88b6, pcp:6, pcp:7, in front of the SecTAG",
            ),
            ("express_classes = []", "", none, "none"),
            (
                "protect = true",
                MKA,
                default,
                "profinet, ethercat, goose, sv, powerlink, sercos, pcp:6, pcp:7, of machines",
            ),
            (
                "protect = true\nexpress_classes = [\"dscp:46\", \"udp:4840\", \"0x88b5\"]",
                MKA,
                with(none, &[Type(EtherType(0x88b5)), Dscp(46), Udp(4840)]),
                "0x88b5, dscp:46, udp:4840, of machines",
            ),
        ] {
            for (rate, peer) in [("rate = \"50M\"", ""), ("", "copies = \"express\"")] {
                let peer = if rate.is_empty() { format!("{peer}\n{PATHS}") } else { peer.to_owned() };
                let text = text("", &format!("{rate}\n{site}"), keys, &peer);
                let (config, warnings) = validated(&text).map_err(|errors| lines(&errors)).unwrap();
                assert_eq!((config.sites[0].express, warnings.len()), (expected, 0), "{site}");
                let plan = Plan::new(&config, Some(&|_| Ok(1500))).unwrap().to_string();
                let said = if rate.is_empty() {
                    format!(
                        "    so         express frames go over all paths, all others over the better one: {in_sight}; "
                    )
                } else {
                    format!("             express frames go first, up to three quarters of it: {in_sight}\n")
                };
                assert!(plan.contains(&said), "{said}\n{plan}");
            }
        }
    }

    #[test]
    fn what_a_site_cannot_tell_or_does_not_use_is_refused() {
        let hidden = |class: &str| {
            format!(
                "9: site \"dresden\": express_classes {class:?} stands behind the SecTAG of stations' frames, where nobody reads it here; use \"pcp:6\", \"goose\", \"sv\" or the EtherType of cells, or set protect = true"
            )
        };
        let nothing = "8: site \"dresden\": express_classes does nothing where no packet waits and none is copied by its class; add rate, or copies = \"express\" to a peer with paths, or remove express_classes";
        let of = |class: &str| format!("rate = \"50M\"\nexpress_classes = [{class:?}]");
        let mut rows: Vec<(&str, String, &str, String)> = vec![
            ("", "express_classes = [\"pcp:5\"]".into(), "", nothing.into()),
            ("", "express_classes = [\"pcp:5\"]".into(), PATHS, nothing.into()),
            (
                "\nio = \"kernel\"",
                "express_classes = [\"pcp:5\"]".into(),
                "",
                "9: site \"dresden\": express_classes does not go with io = \"kernel\": programs in the kernel let no packet wait and copy none, so no frame goes first there; use io = \"auto\", or remove express_classes".into(),
            ),
            ("", of("pcp:8"), "", "9: site \"dresden\": express_classes \"pcp:8\" is out of range; use a number from 0 to 7".into()),
        ];
        for class in
            ["profinet", "ethercat", "powerlink", "sercos", "0x88b5", "dscp:46", "udp:4840", "tcp:102"]
        {
            rows.push(("", of(class), "", hidden(class)));
        }
        for (gateway, site, peer, expected) in rows {
            let errors = lines(&validated(&text(gateway, &site, "", peer)).unwrap_err());
            assert_eq!(errors, [format!("gw.toml:{expected}")], "{site}");
        }
        // All of them are in sight where the site protects its LAN.
        let all = "rate = \"50M\"\nprotect = true\nexpress_classes = [\"profinet\", \"dscp:46\", \"udp:4840\", \"tcp:102\"]";
        assert!(validated(&text("", all, MKA, "")).is_ok());
    }
}

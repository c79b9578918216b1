//! `express_classes`: which SDUs precede all others, and share no frame with them.
//!
//! | word | SDUs |
//! |---|---|
//! | `profinet`, `ethercat`, `goose`, `sv`, `powerlink`, `sercos`, `0x88cc` | of an EtherType |
//! | `pcp:6` | whose outermost VLAN tag has this priority |
//! | `dscp:46` | IPv4 and IPv6 |
//! | `udp:4840`, `tcp:102` | from or to this port |
//! | `default` | of all classes that a link has which names none |

use std::fmt;

use secy::ExpressClasses;
use secy::express::ExpressClass;
use wire::EtherType;

use super::findings::Findings;
use super::reference::{LINK, RawLink};

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
    let mut all = ExpressClasses::NONE;
    for value in list.get_ref() {
        let named = value.get_ref();
        let added = classes(named).and_then(|of| {
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
fn classes(text: &str) -> Result<Vec<ExpressClass>, String> {
    if text == DEFAULT {
        return Ok(ExpressClasses::DEFAULT.iter().collect());
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

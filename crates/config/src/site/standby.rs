//! `[site.standby]`, and `standby_of` of peers: two boxes on one LAN.

use std::cmp::Ordering;
use std::time::Duration;

use suite::beat::BeatKey;
use toml::{Spanned, Value};
use tunnel::Mode;
use wire::Sci;

use super::super::findings::Findings;
use super::super::reference::{RawSite, SITE, STANDBY};
use super::super::static_keys::ssci;
use super::super::unique_names::label;
use super::{Site, SitePeer};

/// `[site.standby]`: the other box of the LAN.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Standby {
    /// The peer that it is.
    pub peer: String,
    /// Whether this box comes first.
    pub preferred: bool,
    /// Silence after which the other box takes over.
    pub takeover: Duration,
}

impl Site {
    /// Key of the beats that it exchanges with the other box of its LAN, if there is one.
    pub fn beat_key(&self) -> Option<BeatKey> {
        let standby = self.standby.as_ref()?;
        let peer = self.peers.iter().find(|peer| peer.name == standby.peer)?;
        BeatKey::of(self.identity.as_ref()?, peer.public_key?)
    }
}

/// The other box, if the section is there and right.
pub(super) fn validate(
    site: &str,
    raw: &RawSite,
    peers: Option<&[SitePeer]>,
    findings: &mut Findings,
) -> Option<Standby> {
    let section = raw.standby.as_ref()?;
    let (span, keys) = (section.span(), section.get_ref());
    let label = format!("{site}[site.standby]: ");
    if !SITE.protect.switch(&raw.protect) {
        let text = format!(
            "{label}works with protect = true alone: stations with a SecY of their own would have their frames delivered by both boxes; add protect = true, or remove [site.standby]"
        );
        findings.error(span.clone(), text);
    }
    let millis: u16 = STANDBY.takeover.number_or_default(&label, &keys.takeover, findings);
    if let Some(peer) = peers.into_iter().flatten().find(|peer| matches!(peer.mode, Mode::Plain { .. })) {
        let text = format!(
            "{label}peer {:?} has mode = \"plain\", which cannot tell it which of the two boxes forwards; use mode = \"identifier\" there, or remove [site.standby]",
            peer.name
        );
        findings.error(span.clone(), text);
    }
    let named = STANDBY.peer.required(&label, &span, &keys.peer, "; add peer = \"NAME\"", findings)?;
    let peers = peers?;
    let wrong = match peers.iter().find(|peer| peer.name == *named.get_ref()) {
        None => {
            "no peer of the site has that name; write the name of the other box, and add it as [[site.peer]]"
        }
        Some(peer) if peer.public_key.is_none() => {
            "that peer has no public key, under which beats could be verified; use mode = \"identifier\""
        }
        Some(_) if peers.len() == 1 => {
            "the site has no other peer, so there is nothing to forward to; add one"
        }
        Some(peer)
            if peers.iter().any(|other| other.standby_of.as_ref() == Some(&peer.name))
                || peer.standby_of.is_some() =>
        {
            "that peer is on this LAN, and standby_of says that it is on another peer's; remove standby_of"
        }
        Some(_) => {
            return Some(Standby {
                peer: named.get_ref().clone(),
                preferred: STANDBY.preferred.switch(&keys.preferred),
                takeover: Duration::from_millis(millis.into()),
            });
        }
    };
    findings.error(named.span(), format!("{label}peer = {:?}: {wrong}", named.get_ref()));
    None
}

/// Whether beats can have a key.
pub(super) fn judge_key(label: &str, site: &Site, raw: &RawSite, findings: &mut Findings) {
    if let (Some(section), Some(_)) = (&raw.standby, &site.standby)
        && site.identity.is_some()
        && site.beat_key().is_none()
    {
        let text = format!(
            "{label}[site.standby]: public_key of that peer is none of a box; copy the line that frameward keygen site printed there"
        );
        findings.error(section.span(), text);
    }
}

/// Judges `sci`: a section `[site.static]` that was copied from the other box has the wrong order, whatever is changed of it but the SCIs.
pub(super) fn judge_sci(label: &str, site: &Site, raw: &RawSite, findings: &mut Findings) {
    let Some((section, key)) = raw.standby.as_ref().zip(site.beat_key()) else { return };
    let label = format!("{label}[site.standby]: ");
    let (Some(keys), value) = (&raw.static_keys, &section.get_ref().sci) else {
        if let Some(value) = &section.get_ref().sci {
            let text = format!("{label}sci is of no use without [site.static]; remove it");
            findings.error(value.span(), text);
        }
        return;
    };
    let cure = "; add the SCI of the other box: sci = \"02:00:00:00:00:0b/1\"";
    let Some(value) = STANDBY.sci.required(&label, &section.span(), value, cure, findings) else { return };
    let own = keys.get_ref();
    let of =
        |text: &Option<Spanned<String>>| text.as_ref().and_then(|text| text.get_ref().parse::<Sci>().ok());
    let other = match value.get_ref().parse::<Sci>() {
        Ok(other) => other,
        Err(error) => {
            let text = format!("{label}sci = {:?} is {error}; correct it", value.get_ref());
            return findings.error(value.span(), text);
        }
    };
    let Some(peer) = own.peer.iter().map(Spanned::get_ref).find(|peer| of(&peer.sci) == Some(other)) else {
        let text = format!(
            "{label}sci = {:?}: no [[site.static.peer]] has that SCI; write the other box's, and add it there",
            value.get_ref()
        );
        return findings.error(value.span(), text);
    };
    let of = |text, number: &Option<Spanned<Value>>| {
        (of(text), number.as_ref().and_then(|number| ssci(number.get_ref())).map(|ssci| ssci.0))
    };
    let ((own_sci, own_ssci), (other_sci, other_ssci)) = (of(&own.sci, &own.ssci), of(&peer.sci, &peer.ssci));
    let (order, what) =
        if key.is_first() { (Ordering::Less, "lower") } else { (Ordering::Greater, "higher") };
    if own_sci.is_none_or(|own| own.cmp(&other) == order)
        && own_ssci.zip(other_ssci).is_none_or(|(own, other)| own.cmp(&other) == order)
        && other_sci.is_some()
    {
        return;
    }
    let text = format!(
        "{label}this box has the {what} public key of the two, so its SCI (XPN: SSCI too) in [site.static] has to be the {what} one; is the section a copy of the other box's? Give each its own key, and the {what} SCI to this one"
    );
    findings.error(keys.span(), text);
}

/// Judges `standby_of` of all peers.
pub(super) fn judge_twins(site: &str, raw: &RawSite, peers: &mut [SitePeer], findings: &mut Findings) {
    for (number, spanned) in raw.peer.iter().enumerate() {
        let Some(value) = &spanned.get_ref().standby_of else { continue };
        let label = format!("{site}{}", label("peer", &spanned.get_ref().name, number));
        let named = value.get_ref();
        let first = raw
            .peer
            .iter()
            .position(|peer| peer.get_ref().name.as_ref().is_some_and(|name| name.get_ref() == named));
        let says_the_same = |(other, peer): (usize, &Spanned<super::super::reference::RawSitePeer>)| {
            other != number
                && peer.get_ref().standby_of.as_ref().is_some_and(|other| other.get_ref() == named)
        };
        let wrong = match first {
            None => "no peer of the site has that name; write the name of the other box of its LAN",
            Some(first) if first == number => {
                "a peer is not the standby of itself; write the name of the other box of its LAN"
            }
            Some(first) if raw.peer[first].get_ref().standby_of.is_some() => {
                "that peer has standby_of itself; write it at one of the two"
            }
            Some(_) if raw.peer.iter().enumerate().any(says_the_same) => {
                "another peer is its standby already, and a LAN has two boxes at most; remove one"
            }
            Some(_) if !SITE.protect.switch(&raw.protect) => {
                "works with protect = true alone, as at the peer; add protect = true, or remove standby_of"
            }
            Some(first)
                if matches!(peers[first].mode, Mode::Plain { .. })
                    || matches!(peers[number].mode, Mode::Plain { .. }) =>
            {
                "mode = \"plain\" cannot tell which box a packet comes from; use identifier"
            }
            Some(_) => {
                peers[number].standby_of = Some(named.clone());
                continue;
            }
        };
        findings.error(value.span(), format!("{label}standby_of = {named:?}: {wrong}"));
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::check::Plan;
    use super::super::super::tests::{lines, validated};

    /// A key that somebody could have.
    const KEY: &str = "d04ab232742bb4ab3a1368bd4615e4e6d0224ab71a016baf8520a332c9778737";

    /// Two boxes, and another site; line 8 is the first of `section`.
    fn text(site: &str, section: &str, second: &str) -> String {
        format!(
            r#"[gateway]
name = "edge"
[[site]]
name = "dresden"
lan = "eth2"
bind = "0.0.0.0:7787"
identity = "a.key"
{site}
{section}
[[site.peer]]
name = "berlin"
public_key = "{:064x}"
[[site.peer]]
name = "second"
public_key = "{KEY}"
{second}
"#,
            1
        )
    }

    const PROTECT: &str = "protect = true\nmka.cak_file = \"c.256\"";

    #[test]
    fn a_box_has_a_partner_and_another_site_twins() {
        let section = "[site.standby]\npeer = \"second\"\npreferred = true\ntakeover = 100";
        let (config, _) = validated(&text(PROTECT, section, "")).map_err(|errors| lines(&errors)).unwrap();
        let site = &config.sites[0];
        let standby = site.standby.as_ref().unwrap();
        assert_eq!(
            (standby.peer.as_str(), standby.preferred, standby.takeover.as_millis()),
            ("second", true, 100)
        );
        assert!(site.has_twins() && site.beat_key().is_some());
        let plan = Plan::new(&config, Some(&|_| Ok(1500))).unwrap().to_string();
        let line =
            "  standby    one of two boxes on its LAN, with second: takes over after 100 ms, comes first\n";
        assert!(plan.contains(line), "{plan}");

        let twins = text(PROTECT, "", "standby_of = \"berlin\"");
        let (config, _) = validated(&twins).map_err(|errors| lines(&errors)).unwrap();
        let site = &config.sites[0];
        assert_eq!(site.twins().collect::<Vec<_>>(), [("berlin", "second")]);
        assert!(site.has_twins() && site.standby.is_none());
        let plan = Plan::new(&config, Some(&|_| Ok(1500))).unwrap().to_string();
        assert!(plan.contains("  twins      berlin and second are boxes of one LAN\n"), "{plan}");

        let default = text(PROTECT, "[site.standby]\npeer = \"second\"", "");
        let (config, _) = validated(&default).map_err(|errors| lines(&errors)).unwrap();
        let standby = config.sites[0].standby.as_ref().unwrap();
        assert_eq!((standby.preferred, standby.takeover.as_millis()), (false, 40));
        assert!(
            !validated(&text(PROTECT, "", "")).map_err(|errors| lines(&errors)).unwrap().0.sites[0]
                .has_twins()
        );
    }

    #[test]
    fn each_mistake_has_its_line() {
        let section = "[site.standby]\npeer = \"second\"";
        let plain =
            "[[site.peer]]\nname = \"hamburg\"\nmode = \"plain\"\nvni = 7\nendpoint = \"198.51.100.7:4789\"";
        for (site, section, second, expected) in [
            ("", section, "", "works with protect = true alone"),
            (PROTECT, "[site.standby]", "", "[site.standby]: peer is missing; add peer = \"NAME\""),
            (PROTECT, "[site.standby]\npeer = \"third\"", "", "no peer of the site has that name"),
            (PROTECT, "[site.standby]\npeer = \"second\"\ntakeover = 10", "", "takeover = 10"),
            (PROTECT, section, "standby_of = \"berlin\"", "that peer is on this LAN, and standby_of says"),
            (PROTECT, "", "standby_of = \"third\"", "no peer of the site has that name"),
            (PROTECT, "", "standby_of = \"second\"", "a peer is not the standby of itself"),
            ("", "", "standby_of = \"berlin\"", "works with protect = true alone, as at the peer"),
            (
                PROTECT,
                section,
                plain,
                "site \"dresden\": [site.standby]: peer \"hamburg\" has mode = \"plain\",",
            ),
        ] {
            let errors = lines(&validated(&text(site, section, second)).unwrap_err());
            assert!(
                errors.iter().any(|line| line.starts_with("gw.toml:") && line.contains(expected)),
                "{expected}: {errors:#?}"
            );
        }
        // Point of order 1: whoever agreed on a secret with it would have none.
        let none = text(PROTECT, section, "").replace(KEY, &format!("01{}", "00".repeat(31)));
        let errors = lines(&validated(&none).unwrap_err());
        let expected = "gw.toml:10: site \"dresden\": [site.standby]: public_key of that peer is none of a box; copy the line that frameward keygen site printed there";
        assert_eq!(errors, [expected]);
    }

    /// `[site.static]` with these SCIs (and SSCIs) of this box and of the other one, whose SCI `[site.standby]` has as `sci`.
    fn with_static_keys(suite: &str, own: &str, other: &str, sci: &str) -> String {
        let site = format!(
            "protect = true\nsuite = \"{suite}\"\n[site.static]\nan = 0\nkey_file = \"b.key\"\n{own}\n[[site.static.peer]]\nan = 0\nkey_file = \"d.key\"\n{other}"
        );
        text(&site, &format!("[site.standby]\npeer = \"second\"\n{sci}"), "")
    }

    /// The same key under the same SCI would repeat nonces, and the two boxes need never have heard each other.
    #[test]
    fn a_copy_of_the_other_boxs_static_keys_is_refused() {
        let (low, high) = ("sci = \"02:00:00:00:00:01/1\"", "sci = \"02:00:00:00:00:02/1\"");
        let is_right = |text: &str| validated(text).is_ok();
        let suite = "gcm-aes-128";
        let [one, two] = [(low, high), (high, low)]
            .map(|(own, other)| is_right(&with_static_keys(suite, own, other, other)));
        assert_ne!(one, two, "one of two boxes with these SCIs, and its public key says which");
        let (own, other, wrong_own, wrong_other) =
            if one { (low, high, high, low) } else { (high, low, low, high) };
        let errors =
            lines(&validated(&with_static_keys(suite, wrong_own, wrong_other, wrong_other)).unwrap_err());
        assert!(errors[0].contains("is the section a copy of the other box's?"), "{errors:#?}");
        for (sci, expected) in [
            ("", "[site.standby]: sci is missing; add the SCI of the other box"),
            ("sci = \"02:00:00:00:00:07/1\"", "no [[site.static.peer]] has that SCI"),
            ("sci = \"02:00\"", "sci = \"02:00\" is "),
        ] {
            let errors = lines(&validated(&with_static_keys(suite, own, other, sci)).unwrap_err());
            assert!(errors.iter().any(|line| line.contains(expected)), "{expected}: {errors:#?}");
        }
        let without = text(PROTECT, "[site.standby]\npeer = \"second\"\nsci = \"02:00:00:00:00:07/1\"", "");
        let errors = lines(&validated(&without).unwrap_err());
        assert!(errors[0].contains("sci is of no use without [site.static]"), "{errors:#?}");
        // Nonces of XPN are of key and SSCI.
        let salt = "salt = \"0102030405060708090a0b0c\"";
        let xpn = |own_ssci: u8, other_ssci: u8| {
            let line = |sci: &str, ssci: u8| format!("{sci}\nssci = {ssci}\n{salt}");
            with_static_keys("gcm-aes-xpn-128", &line(own, own_ssci), &line(other, other_ssci), other)
        };
        let (lower, higher) = if one { (1, 2) } else { (2, 1) };
        let right = validated(&xpn(lower, higher)).map_err(|errors| lines(&errors));
        assert!(right.is_ok(), "{:#?}", right.err());
        assert!(!is_right(&xpn(higher, lower)));
    }
}

//! `padding`: sizes to which the frames of a link, or of a LAN that a site protects, are padded.

use std::ops::Range;

use secy::{ConfidentialityOffset, FrameSizes, Protection};
use toml::Spanned;

use super::findings::Findings;
use super::reference::{Key, LINK, RawLink};

/// Sizes as they are written.
type Given = Option<Spanned<Vec<Spanned<i64>>>>;

/// Judges the sizes; none if frames are not padded.
pub(super) fn sizes(label: &str, key: Key, given: &Given, findings: &mut Findings) -> FrameSizes {
    let Some(given) = given else { return FrameSizes::NONE };
    let (from, to) = (FrameSizes::LEAST_OCTETS, FrameSizes::MOST_OCTETS);
    let in_range =
        |size: &Spanned<i64>| u16::try_from(*size.get_ref()).ok().filter(|size| (from..=to).contains(size));
    if let Some(wrong) = given.get_ref().iter().find(|size| in_range(size).is_none()) {
        let (name, size) = (key.name, wrong.get_ref());
        let text = format!("{label}{name} has {size}, and frames have {from} to {to} octets; use such sizes");
        findings.error(wrong.span(), text);
        return FrameSizes::NONE;
    }
    let sizes: Vec<u16> = given.get_ref().iter().filter_map(in_range).collect();
    FrameSizes::new(&sizes).unwrap_or_else(|_| {
        let (name, most) = (key.name, FrameSizes::MOST);
        let text = format!(
            "{label}{name} is no list of 1 to {most} ascending sizes; use such a list, or remove {name}"
        );
        findings.error(given.span(), text);
        FrameSizes::NONE
    })
}

/// Judges the key of a link, with the settings beside it.
pub(super) fn validate(
    label: &str,
    raw: &RawLink,
    protection: Protection,
    findings: &mut Findings,
) -> FrameSizes {
    let sizes = sizes(label, LINK.padding, &raw.padding, findings);
    let span: Range<usize> = raw.padding.as_ref().map_or(0..0, Spanned::span);
    let misfits = [
        (
            protection == Protection::Integrity,
            "everybody reads frames with encrypt = false; remove one of them",
        ),
        (
            matches!(
                protection,
                Protection::Encrypt(ConfidentialityOffset::Thirty | ConfidentialityOffset::Fifty)
            ),
            "the lengths would stand in clear; set confidentiality_offset = 0",
        ),
        (
            raw.validate_frames
                .as_ref()
                .is_some_and(|how| how.get_ref() != LINK.validate_frames.default_text()),
            "padded frames are taken in strict mode alone; set validate_frames = \"strict\"",
        ),
        (
            raw.protect_frames.as_ref().is_some_and(|on| !on.get_ref()),
            "frames leave in clear; remove protect_frames = false",
        ),
        (
            LINK.express.switch(&raw.express),
            "express frames would go through the kernel unpadded; remove express = true",
        ),
    ];
    for (_, cure) in misfits.iter().filter(|(wrong, _)| *wrong && !sizes.is_none()) {
        findings.error(span.clone(), format!("{label}padding hides nothing here: {cure}"));
    }
    sizes
}

#[cfg(test)]
mod tests {
    use dataplane::fragmenter::FragmentConfig;
    use secy::ExpressClasses;

    use super::super::tests::{lines, validated};
    use super::super::{Config, WholeSdus};
    use super::*;

    const MKA: &str = "[link.mka]\ncak_file = \"c.256\"";

    fn text(io: &str, link: &str, keys: &str) -> String {
        format!(
            "[gateway]\nname = \"edge\"\nio = \"{io}\"\n[[link]]\nname = \"press\"\nplain = \"eth0\"\nprotected = \"eth1\"\n{link}\n{keys}\n"
        )
    }

    fn config(link: &str, keys: &str) -> Config {
        validated(&text("auto", link, keys)).map_err(|errors| lines(&errors)).unwrap().0
    }

    #[test]
    fn padded_frames_leave_no_frame_to_the_kernel() {
        let sizes = FrameSizes::new(&[256, 1514]).unwrap();
        let padding = "padding = [256, 1514]";
        for (link, divides) in [
            (padding.to_owned(), (true, true)),
            (format!("{padding}\nfragment = \"off\"\nconcatenate = \"off\""), (false, false)),
        ] {
            let config = config(&link, MKA);
            let FragmentConfig { fragment, concatenate, padding, .. } =
                config.links[0].fragmentation.unwrap();
            assert_eq!(((fragment, concatenate), padding), (divides, sizes), "{link}");
            assert_eq!(config.links[0].whole_sdus, WholeSdus::AsConfigured, "{link}");
            assert!(config.links[0].reassembles());
        }
        let without = config("", MKA);
        assert!(without.links[0].fragmentation.unwrap().padding.is_none());
        let site = "[[site]]\nname = \"dresden\"\nlan = \"eth2\"\nbind = \"0.0.0.0:7787\"\nidentity = \"a.key\"\nprotect = true\npadding = [512]\nmka.cak_file = \"c.256\"\n[[site.peer]]\nname = \"berlin\"\npublic_key = \"0000000000000000000000000000000000000000000000000000000000000001\"";
        let text = format!("[gateway]\nname = \"edge\"\n{site}\n");
        let (config, _) = validated(&text).map_err(|errors| lines(&errors)).unwrap();
        let how = config.links[0].fragmentation.unwrap();
        assert_eq!(how.padding, FrameSizes::new(&[512]).unwrap());
        assert!(!how.fragment && !how.concatenate && how.hold.is_zero());
        assert_eq!(how.express, ExpressClasses::NONE, "the order of a LAN's frames is the tunnel's");
        let text = text.replace("padding = [512]\n", "");
        assert!(validated(&text).unwrap().0.links[0].reassembles(), "it takes what other sites pad");
    }

    #[test]
    fn what_hides_nothing_is_refused_with_line_cause_and_cure() {
        let rows = [
            (
                "auto",
                "padding = [100]",
                "padding has 100, and frames have 128 to 9230 octets; use such sizes",
            ),
            (
                "auto",
                "padding = [300, 200]",
                "padding is no list of 1 to 8 ascending sizes; use such a list, or remove padding",
            ),
            (
                "auto",
                "padding = []",
                "padding is no list of 1 to 8 ascending sizes; use such a list, or remove padding",
            ),
            (
                "auto",
                "padding = [200]\nencrypt = false",
                "padding hides nothing here: everybody reads frames with encrypt = false; remove one of them",
            ),
            (
                "auto",
                "padding = [200]\nsuite = \"gcm-aes-128\"\nconfidentiality_offset = 30",
                "padding hides nothing here: the lengths would stand in clear; set confidentiality_offset = 0",
            ),
            (
                "auto",
                "padding = [200]\nvalidate_frames = \"check\"",
                "padding hides nothing here: padded frames are taken in strict mode alone; set validate_frames = \"strict\"",
            ),
            (
                "auto",
                "padding = [200]\nsuite = \"any\"\nexpress = true",
                "padding hides nothing here: express frames would go through the kernel unpadded; remove express = true",
            ),
            (
                "kernel",
                "padding = [200]",
                "padding does not go with io = \"kernel\", whose programs pad no frames; use io = \"auto\"",
            ),
        ];
        for (io, link, expected) in rows {
            let errors = lines(&validated(&text(io, link, MKA)).unwrap_err());
            assert_eq!(errors, [format!("gw.toml:8: link \"press\": {expected}")], "{link}");
        }
        let site = "[gateway]\nname = \"edge\"\n[[site]]\nname = \"dresden\"\nlan = \"eth2\"\nbind = \"0.0.0.0:7787\"\nidentity = \"a.key\"\npadding = [512]\n[[site.peer]]\nname = \"berlin\"\npublic_key = \"0000000000000000000000000000000000000000000000000000000000000001\"";
        assert_eq!(
            lines(&validated(site).unwrap_err()),
            [
                "gw.toml:8: site \"dresden\": padding is of no use without protect = true; add protect = true, or remove it"
            ]
        );
    }
}

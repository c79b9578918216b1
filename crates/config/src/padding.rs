//! `padding`: sizes to which the frames of a link, or of a LAN that a site protects, are padded. `[link.cover]`: the one size of frames
//! that leave at a constant rate.

use std::num::NonZeroU16;
use std::ops::Range;

use secy::{ConfidentialityOffset, FrameSizes, Protection};
use toml::Spanned;

use super::findings::Findings;
use super::reference::{COVER, Key, LINK, RawLink};

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

/// Judges size and rate of `[link.cover]`.
fn cover(label: &str, raw: &RawLink, findings: &mut Findings) -> Option<FrameSizes> {
    let section = raw.cover.as_ref()?;
    let (span, keys) = (section.span(), section.get_ref());
    let label = format!("{label}[link.cover]: ");
    let rate = COVER.rate.required(&label, &span, &keys.rate, "; add rate = FRAMES_A_SECOND", findings);
    let size = COVER.size.required(&label, &span, &keys.size, "; add size = OCTETS", findings);
    let rate: Option<u16> = rate.and_then(|rate| COVER.rate.number(&label, rate, findings));
    let size: Option<u16> = size.and_then(|size| COVER.size.number(&label, size, findings));
    FrameSizes::cover(size?, NonZeroU16::new(rate?)?).ok()
}

/// Refuses what would leave between the ticks, or has no effect with them.
fn judge_cover(label: &str, raw: &RawLink, findings: &mut Findings) {
    let Some(section) = &raw.cover else { return };
    let bypass = raw.bypass.as_ref().filter(|list| !list.get_ref().is_empty());
    let beside = [
        (raw.padding.as_ref().map(Spanned::span), "padding", "all frames have the size of [link.cover]"),
        (
            bypass.map(Spanned::span),
            "bypass",
            "its frames would leave in clear, between those of [link.cover]",
        ),
        (raw.hold.as_ref().map(Spanned::span), "hold", "payloads wait for the ticks of [link.cover]"),
        (
            raw.express_classes.as_ref().map(Spanned::span),
            "express_classes",
            "payloads leave in the order in which they came with [link.cover]",
        ),
    ];
    for (span, key, why) in beside {
        if let Some(span) = span {
            findings.error(span, format!("{label}{key} does not go with cover: {why}; remove {key}"));
        }
    }
    for (key, value) in [("fragment", &raw.fragment), ("concatenate", &raw.concatenate)] {
        if value.as_ref().is_some_and(|value| value.get_ref() == "off") {
            let text = format!(
                "{label}{key} = \"off\" does not go with cover, which fills its frames with what waits; remove {key}"
            );
            findings.error(section.span(), text);
        }
    }
}

/// The word for what a link's frames get.
pub(super) const fn word(sizes: &FrameSizes) -> &'static str {
    if sizes.cover_rate().is_some() { "cover" } else { "padding" }
}

/// Judges the keys of a link, with the settings beside them.
pub(super) fn validate(
    label: &str,
    raw: &RawLink,
    protection: Protection,
    findings: &mut Findings,
) -> FrameSizes {
    judge_cover(label, raw, findings);
    let padding = sizes(label, LINK.padding, &raw.padding, findings);
    let sizes = cover(label, raw, findings).unwrap_or(padding);
    let padding_span: Range<usize> = raw.padding.as_ref().map_or(0..0, Spanned::span);
    let span = raw.cover.as_ref().map_or(padding_span, Spanned::span);
    let word = word(&sizes);
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
        findings.error(span.clone(), format!("{label}{word} hides nothing here: {cure}"));
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
    fn cover_is_one_size_at_a_rate_and_refuses_what_would_tell() {
        const COVER: &str = "cover = { rate = 500, size = 1514 }";
        let config = config(COVER, MKA);
        let how = config.links[0].fragmentation.unwrap();
        assert_eq!(how.padding, FrameSizes::cover(1514, NonZeroU16::new(500).unwrap()).unwrap());
        assert_eq!(config.links[0].whole_sdus, WholeSdus::AsConfigured);
        let rows = [
            ("auto", "cover = { size = 1514 }", "[link.cover]: rate is missing; add rate = FRAMES_A_SECOND"),
            ("auto", "cover = { rate = 500 }", "[link.cover]: size is missing; add size = OCTETS"),
            (
                "auto",
                "cover = { rate = 9, size = 1514 }",
                "[link.cover]: rate = 9 is out of range; use 10 to 10000",
            ),
            (
                "auto",
                "cover = { rate = 500, size = 127 }",
                "[link.cover]: size = 127 is out of range; use 128 to 9230",
            ),
            (
                "auto",
                "padding = [512]; cover",
                "padding does not go with cover: all frames have the size of [link.cover]; remove padding",
            ),
            (
                "auto",
                "bypass = [\"lldp\"]; cover",
                "bypass does not go with cover: its frames would leave in clear, between those of [link.cover]; remove bypass",
            ),
            (
                "auto",
                "express_classes = [\"goose\"]; cover",
                "express_classes does not go with cover: payloads leave in the order in which they came with [link.cover]; remove express_classes",
            ),
            (
                "auto",
                "hold = \"1ms\"; cover",
                "hold does not go with cover: payloads wait for the ticks of [link.cover]; remove hold",
            ),
            (
                "auto",
                "fragment = \"off\"; cover",
                "fragment = \"off\" does not go with cover, which fills its frames with what waits; remove fragment",
            ),
            (
                "auto",
                "encrypt = false; cover",
                "cover hides nothing here: everybody reads frames with encrypt = false; remove one of them",
            ),
            (
                "auto",
                "suite = \"any\"; express = true; cover",
                "cover hides nothing here: express frames would go through the kernel unpadded; remove express = true",
            ),
            (
                "kernel",
                "cover",
                "cover does not go with io = \"kernel\", whose programs send none; use io = \"auto\"",
            ),
        ];
        for (io, link, expected) in rows {
            let keys = link.split("; ").map(|key| if key == "cover" { COVER } else { key });
            let link = keys.collect::<Vec<_>>().join("\n");
            let errors: Vec<_> = validated(&text(io, &link, MKA))
                .unwrap_err()
                .iter()
                .map(|error| error.text.clone())
                .collect();
            assert_eq!(errors, [format!("link \"press\": {expected}")], "{link}");
        }
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

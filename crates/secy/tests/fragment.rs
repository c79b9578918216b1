//! Fragmenting SDUs: plans of every size, and what the frames made of them look like on the wire.

mod ends;

use ends::fragments::{
    BURST, IN_CLEAR, REASSEMBLING, carry_out, delivered, planned, protect_assembled, send, tags,
};
use ends::{A, MAC_A, MAC_B, Outcome, books, moved, receiver, sdu, sender};
use secy::fragment::{Rules, Sdu};
use secy::{ExpressClasses, SciInclusion, Settings, TransmitDiscard};
use suite::CipherSuite;
use testkit::frames;
use wire::extension::SEGMENT_OCTETS;
use wire::{EtherType, MacAddr, ScEncoding, Segments, ShortLength};

const SUITE: CipherSuite = CipherSuite::GcmAes128;
const MTUS: [usize; 10] = [576, 577, 1000, 1492, 1500, 1532, 2100, 3500, 9000, 9216];
/// Octets of the longest SDU behind its addresses.
const LONGEST: usize = 9010;
/// (fragment, concatenate)
const MODES: [(bool, bool); 3] = [(true, false), (false, true), (true, true)];
const INCLUSIONS: [SciInclusion; 2] = [SciInclusion::Always, SciInclusion::Never];

fn settings(mtu: usize, sci_inclusion: SciInclusion) -> Settings {
    Settings { mtu, sci_inclusion, ..REASSEMBLING }
}

fn all_rules() -> impl Iterator<Item = (Settings, Rules)> {
    MTUS.into_iter().flat_map(|mtu| {
        INCLUSIONS.into_iter().flat_map(move |inclusion| {
            let settings = settings(mtu, inclusion);
            MODES
                .into_iter()
                .map(move |(fragment, concatenate)| (settings, Rules::new(&settings, fragment, concatenate)))
        })
    })
}

/// Octets that a frame has for headers and data, counted from the format: what the MTU leaves behind DA and SA, less
/// SecTAG and ICV.
fn capacity(settings: &Settings) -> usize {
    let tag = if settings.sci_inclusion == SciInclusion::Always { 16 } else { 8 };
    settings.mtu + 14 - 12 - tag - 16
}

/// Holds a plan against the format: each SDU is covered once and in order, or too long; frames and headers are legal.
fn check(settings: &Settings, rules: &Rules, octets: &[usize], template: &[u8]) {
    let sdus: Vec<_> = octets.iter().map(|&octets| &template[..12 + octets]).collect();
    let plan = planned(rules, &sdus);
    let mut covered = vec![0; sdus.len()];
    let mut before: Option<(usize, u16)> = None;
    for frame in plan.frames() {
        let parts = plan.fragments(frame);
        let data: usize = parts.iter().map(|part| part.octets.len()).sum();
        let headers = frame.layout.map_or(0, |layout| layout.segments.header_octets());
        assert!(data + headers <= capacity(settings), "{octets:?} {settings:?} {rules:?}");
        assert!(parts.len() == 1 || rules.concatenate);
        assert!(frame.layout.is_none() || parts.iter().all(|part| octets[part.sdu] <= LONGEST), "whole only");
        for part in parts {
            assert_eq!(part.octets.start, covered[part.sdu]);
            assert!(!part.octets.is_empty());
            covered[part.sdu] = part.octets.end;
        }
        let ends = |sdu: usize| covered[sdu] == octets[sdu];
        let last = parts[parts.len() - 1].sdu;
        assert!(parts[..parts.len() - 1].iter().all(|part| ends(part.sdu)));
        let continues = parts[0].octets.start > 0;
        let expected_before = before.filter(|&(_, chain)| chain > 0).map(|(sdu, _)| sdu);
        assert_eq!(continues.then_some(parts[0].sdu), expected_before, "CF exactly behind MF");
        let chain = match frame.layout {
            None => {
                assert!(parts.len() == 1 && !continues && ends(last), "whole SDUs alone have no layout");
                0
            }
            Some(layout) => {
                assert!(parts.len() > 1 || continues || !ends(last));
                assert_eq!(layout.chain > 0, !ends(last), "MF exactly if the SDU goes on");
                assert_eq!(layout.segments.continues(), continues);
                let lengths: Vec<_> = parts.iter().map(|part| part.octets.len() as u16).collect();
                assert_eq!(layout.segments.lengths(), lengths);
                let mut out = [0; 64];
                layout.segments.encode(&mut out);
                assert_eq!(Segments::parse(&out[..headers], data), Ok(layout.segments));
                assert!(lengths[1..].iter().all(|&octets| usize::from(octets) <= SEGMENT_OCTETS));
                layout.chain
            }
        };
        if let Some((_, chain_before)) = before.filter(|&(_, chain)| chain > 0) {
            assert_eq!(chain, chain_before - 1, "a chain counts down");
        }
        before = Some((last, chain));
    }
    assert_eq!(before.map_or(0, |(_, chain)| chain), 0, "the last frame ends its SDU");
    let too_long = |octets| octets > capacity(settings) && (!rules.fragment || octets > LONGEST);
    for (&covered, &octets) in covered.iter().zip(octets) {
        assert_eq!(covered, if too_long(octets) { 0 } else { octets }, "{settings:?} {rules:?}");
    }
    assert_eq!(plan.too_long(), octets.iter().filter(|&&octets| too_long(octets)).count());
    let many =
        |sdu: usize| plan.frames().iter().filter(|f| plan.fragments(f).iter().any(|p| p.sdu == sdu)).count();
    let shared = |sdu: usize| {
        let of_sdu = |frame| plan.fragments(frame).iter().any(|part| part.sdu == sdu);
        plan.frames().iter().any(|frame| plan.fragments(frame).len() > 1 && of_sdu(frame))
    };
    assert_eq!(plan.fragmented(), (0..sdus.len()).filter(|&sdu| many(sdu) > 1).count());
    assert_eq!(plan.concatenated(), (0..sdus.len()).filter(|&sdu| shared(sdu)).count());
}

/// Sizes at which a frame more is needed, at a number of frames.
fn borders(settings: &Settings) -> Vec<usize> {
    let capacity = capacity(settings);
    let mut borders = vec![2, 48, SEGMENT_OCTETS, LONGEST];
    borders.extend((0..).map(|frames| capacity + frames * (capacity - 2)).take_while(|&b| b <= LONGEST));
    borders
}

#[test]
fn plans_of_every_size() {
    let template = sdu(LONGEST + 200, 0);
    for (settings, rules) in all_rules() {
        for octets in 2..=LONGEST + 200 {
            check(&settings, &rules, &[octets], &template);
        }
    }
}

#[test]
fn plans_of_bursts_of_every_size() {
    let template = sdu(LONGEST + 200, 0);
    for (settings, rules) in all_rules() {
        for octets in (2..=LONGEST + 1).step_by(397).chain(borders(&settings)).chain([9011, 9100, 9186]) {
            check(&settings, &rules, &[octets; 40], &template);
            check(&settings, &rules, &[60, octets, 2, octets, 1502, 9010], &template);
        }
    }
}

/// Around each border, and at steps between: what is sent is delivered, octet for octet.
#[test]
fn frames_of_every_size_come_back() {
    for (settings, rules) in all_rules() {
        let (mut tx, mut rx) = (sender(A, settings, SUITE, 1), receiver(settings, SUITE, 1, 0));
        let near = borders(&settings).into_iter().flat_map(|border| border.saturating_sub(3)..=border + 3);
        let sizes: Vec<_> =
            near.chain((2..=LONGEST).step_by(397)).filter(|octets| (2..=LONGEST).contains(octets)).collect();
        let longest = if rules.fragment { LONGEST } else { capacity(&settings) };
        let sdus: Vec<_> = sizes
            .iter()
            .filter(|&&octets| octets <= longest)
            .zip(0..)
            .map(|(&octets, number)| sdu(octets, number))
            .collect();
        for sdus in sdus.chunks(BURST).flat_map(|burst| [&burst[..1], &burst[1..]]) {
            let frames = send(&mut tx, &rules, sdus);
            assert!(frames.iter().all(|frame| frame.len() <= settings.mtu + 14));
            assert_eq!(delivered(&mut rx, &frames), sdus);
        }
    }
}

/// Rules of the standard and of section 2 of the wire formats for each frame of a burst.
#[test]
fn the_bits_of_frames() {
    for (settings, rules) in all_rules() {
        let mut tx = sender(A, (settings, IN_CLEAR.1), SUITE, 7);
        let longest = if rules.fragment { LONGEST } else { capacity(&settings) };
        let sizes = [48, 47, 2, 1502, 3, 9010, 64, 560, 560, 544, 46, 20];
        let fitting = sizes.iter().map(|&octets| octets.min(longest));
        let sdus: Vec<_> = fitting.zip(0..).map(|(octets, number)| sdu(octets, number)).collect();
        let assembled = carry_out(&planned(&rules, &sdus), &sdus);
        let frames = protect_assembled(&mut tx, &assembled).into_iter().map(Outcome::passed);
        let mut carry_over = false;
        for (number, (frame, (octets, layout))) in frames.zip(&assembled).enumerate() {
            let (tag, headers) = tags(&frame);
            assert_eq!(tag.pn, 7 + number as u32, "PNs follow one another");
            let data = octets.len() - 12;
            let header_octets = 2 * headers.len();
            assert_eq!(frame.len(), 12 + tag.octets() + header_octets + data + 16);
            assert!(frame.len() <= settings.mtu + 14);
            assert_eq!(tag.short_length, ShortLength::of(data), "SL counts no extension header");
            let explicit = settings.sci_inclusion == SciInclusion::Always;
            assert_eq!(tag.sc, if explicit { ScEncoding::Explicit(A) } else { ScEncoding::PointToPoint });
            // Against what the headers say, read by hand.
            let continues = headers.first().is_some_and(|header| header & 2 != 0);
            assert_eq!(continues, carry_over, "CF exactly behind MF");
            assert!(headers.iter().skip(1).all(|header| header & 2 == 0), "CF in the first header only");
            assert!(headers.iter().all(|header| header & 0x1c == 0), "reserved bits");
            let told: usize = headers.iter().map(|header| usize::from(header >> 5)).sum();
            let segments = layout.map_or(1, |layout| layout.segments.lengths().len());
            assert_eq!(headers.len(), if segments == 1 { usize::from(continues) } else { segments - 1 });
            assert!(told < data && (segments > 1) == (told > 0));
            assert_eq!(
                frame[12 + tag.octets() + header_octets..][..data],
                octets[12..],
                "the segments in clear"
            );
            carry_over = tag.more_fragments;
        }
        assert!(!carry_over);
    }
}

/// An SDU that fits a frame alone leaves as the standard says, whatever the rules.
#[test]
fn an_sdu_alone_that_fits_is_never_marked() {
    for (settings, rules) in all_rules() {
        let mut tx = sender(A, settings, SUITE, 1);
        for octets in [2, 47, 48, capacity(&settings).min(LONGEST)] {
            let frames = send(&mut tx, &rules, &[sdu(octets, 1)]);
            let (tag, _) = tags(&frames[0]);
            assert_eq!((frames.len(), tag.extended, tag.more_fragments), (1, false, false));
        }
    }
}

#[test]
fn vlan_tags_travel_inside_the_sdu() {
    for (settings, rules) in all_rules() {
        let (mut tx, mut rx) = (sender(A, settings, SUITE, 1), receiver(settings, SUITE, 1, 0));
        let longest = if rules.fragment { LONGEST } else { capacity(&settings) };
        let sizes = [2, 60, 540, 1494, 9002].map(|octets| octets.min(longest - 8));
        let tagged = |(octets, number)| {
            let inner =
                frames::tagged(&sdu(octets, number), EtherType::VLAN, 0x6001 + number as u16 % 2 * 0x1000);
            frames::tagged(&inner, EtherType::SERVICE_VLAN, 0x0fff)
        };
        let sdus: Vec<_> = sizes.into_iter().cycle().take(30).zip(0..).map(tagged).collect();
        let frames = send(&mut tx, &rules, &sdus);
        assert!(frames.iter().all(|frame| frame.len() <= settings.mtu + 14));
        assert_eq!(delivered(&mut rx, &frames), sdus);
    }
}

/// Stations that do not share DA and SA never share a frame; each keeps its own order.
#[test]
fn order_is_kept_for_each_pair_of_addresses() {
    for (settings, rules) in all_rules().filter(|(_, rules)| rules.fragment) {
        let (mut tx, mut rx) = (sender(A, settings, SUITE, 1), receiver(settings, SUITE, 1, 0));
        let stations: Vec<_> = (0..5).map(|number| MacAddr([2, 0, 0, 0, 1, number])).collect();
        let sdus: Vec<_> = (0..60_usize)
            .map(|number| {
                let (to, from) = if number % 7 < 3 {
                    (MAC_B, MAC_A)
                } else {
                    (stations[number % 5], stations[number % 2])
                };
                let payload = frames::payload(number * number * 2, number as u64);
                frames::ethernet(to, from, EtherType::IPV4, &payload)
            })
            .collect();
        let mut got = delivered(&mut rx, &send(&mut tx, &rules, &sdus));
        let mut sent = sdus.clone();
        // A stable sort leaves the order within a pair of addresses as it is.
        got.sort_by_key(|sdu| sdu[..12].to_vec());
        sent.sort_by_key(|sdu| sdu[..12].to_vec());
        assert_eq!(got, sent);
    }
}

/// Cyclic process data and the priorities 6 and 7 leave first, in their order, and share nothing.
#[test]
fn express_sdus_go_first_and_alone() {
    let cyclic = [EtherType::PROFINET, EtherType::ETHERCAT, EtherType::GOOSE];
    let mut express: Vec<_> = cyclic
        .into_iter()
        .map(|ethertype| frames::ethernet(MAC_B, MAC_A, ethertype, &frames::payload(40, 1)))
        .collect();
    for pcp in [6, 7] {
        express.push(frames::tagged(&sdu(60, pcp), EtherType::VLAN, (pcp as u16) << 13 | 5));
        let inner = frames::tagged(&sdu(60, pcp), EtherType::VLAN, 5);
        express.push(frames::tagged(&inner, EtherType::SERVICE_VLAN, (pcp as u16) << 13));
    }
    express.push(frames::tagged(&express[0], EtherType::VLAN, 0));
    let bulk: Vec<_> = (0..20)
        .map(|number| sdu(700, number))
        .chain([frames::tagged(&sdu(60, 1), EtherType::VLAN, 0xa005)])
        .collect();
    assert!(
        express.iter().all(|sdu| Sdu::of(sdu, &ExpressClasses::default()).expect("a frame").is_express())
    );
    assert!(bulk.iter().all(|sdu| !Sdu::of(sdu, &ExpressClasses::default()).expect("a frame").is_express()));
    let mixed: Vec<_> = bulk[..10].iter().chain(&express).chain(&bulk[10..]).cloned().collect();
    for (settings, rules) in all_rules().filter(|(settings, _)| settings.mtu >= 1000) {
        let (mut tx, mut rx) = (sender(A, settings, SUITE, 1), receiver(settings, SUITE, 1, 0));
        let frames = send(&mut tx, &rules, &mixed);
        for frame in &frames[..express.len()] {
            let (tag, _) = tags(frame);
            assert!(!tag.extended && !tag.more_fragments, "alone and whole");
        }
        let expected: Vec<_> = express.iter().chain(&bulk).cloned().collect();
        assert_eq!(delivered(&mut rx, &frames), expected);
    }
    // One that is too long for a frame is fragmented, but the tail is not shared.
    let settings = settings(576, SciInclusion::Always);
    let rules = Rules::new(&settings, true, true);
    let long = frames::ethernet(MAC_B, MAC_A, EtherType::PROFINET, &frames::payload(1000, 3));
    let plan = planned(&rules, &[sdu(60, 1), long, sdu(60, 2)]);
    let parts: Vec<Vec<_>> = plan
        .frames()
        .iter()
        .map(|frame| plan.fragments(frame).iter().map(|part| part.sdu).collect())
        .collect();
    assert_eq!(parts, [vec![1], vec![1], vec![0, 2]]);
}

/// A chain for which PNs do not suffice is refused whole, without using one up; what fits behind it goes on.
#[test]
fn an_sa_that_runs_out_is_never_left_inside_an_sdu() {
    let settings = settings(576, SciInclusion::Always);
    let rules = Rules::new(&settings, true, false);
    // Frames: 4 in a chain, 1, 3 in a chain, 2 in a chain, 1.
    let sdus = [sdu(2000, 0), sdu(500, 1), sdu(1500, 2), sdu(1000, 3), sdu(40, 4)];
    let of_sdu = [4, 1, 3, 2, 1];
    let assembled = carry_out(&planned(&rules, &sdus), &sdus);
    assert_eq!(assembled.len(), of_sdu.iter().sum::<usize>());
    let last = wire::Pn::LAST_32.number();
    // Whether PNs end because none is left, or none is reserved.
    for (exhausted, discard, counter) in [
        (true, TransmitDiscard::PnExhausted, "OutPktsPnExhausted"),
        (false, TransmitDiscard::PnUnreserved, "OutPktsPnUnreserved"),
    ] {
        for left in 1..=12 {
            let (first, reserved) = if exhausted { (last + 1 - left, last) } else { (100, 99 + left) };
            let left = left as usize;
            let mut tx = sender_with(&settings, first, reserved);
            let mut rx = receiver(settings, SUITE, first, 0);
            let before = books(&tx);
            let outcomes = protect_assembled(&mut tx, &assembled);
            // SDU by SDU: it goes if its whole chain fits what is left.
            let (mut room, mut expected, mut refused) = (left, Vec::new(), 0);
            for (sdu, frames) in sdus.iter().zip(of_sdu) {
                if frames <= room {
                    room -= frames;
                    expected.push(sdu.clone());
                } else {
                    refused += frames;
                }
            }
            let (mut sent, mut pns) = (Vec::new(), Vec::new());
            for outcome in outcomes {
                match outcome {
                    Outcome::Passed(frame) => {
                        pns.push(u64::from(tags(&frame).0.pn));
                        sent.push(frame);
                    }
                    Outcome::Discarded(reason) => assert_eq!(reason, discard),
                }
            }
            assert!(pns.iter().copied().eq(first..first + pns.len() as u64), "no PN is lost: {pns:?}");
            assert_eq!(delivered(&mut rx, &sent), expected, "{left} PNs left");
            let moved = moved(&before, &books(&tx));
            assert_eq!(moved.contains(counter), refused > 0);
            if refused > 0 {
                assert!(moved.contains(&format!("{counter} {refused}")), "{moved}");
            }
        }
    }
}

fn sender_with(settings: &Settings, first: u64, reserved: u64) -> secy::SecY {
    let mut tx = secy::SecY::new(A, *settings);
    ends::start_sending(&mut tx, ends::transmit_sa(SUITE, 0, first, ends::pn(reserved)));
    tx
}

/// Octets of SecTAG, extension headers and ICV in a plan's frames, with explicit SCI.
fn overhead(plan: &secy::fragment::Plan) -> usize {
    let headers =
        |frame: &secy::fragment::PlannedFrame| frame.layout.map_or(0, |d| d.segments.header_octets());
    plan.frames().iter().map(|frame| 16 + headers(frame) + 16).sum()
}

/// Thesis, equation 3.3: a frame of 1500 octets behind its EtherType carries 1468 of the 1502 octets of an SDU, and
/// costs 34 octets: 34.79 an SDU.
#[test]
fn overhead_of_full_sdus_is_that_of_the_thesis() {
    let rules = Rules::new(&settings(1500, SciInclusion::Always), true, true);
    let per_sdu = |count: u64| {
        let plan = planned(&rules, &ends::sdus(count, 1502));
        overhead(&plan) as f64 / count as f64
    };
    for count in [1000, 2000, 5000] {
        assert!((per_sdu(count) - 34.79).abs() < 0.2, "{count} SDUs: {}", per_sdu(count));
    }
    // A burst's last frame holds a lone tail: 66 frames for 64 SDUs instead of 65.5.
    assert_eq!(planned(&rules, &ends::sdus(64, 1502)).frames().len(), 66);
    assert_eq!(per_sdu(64), 35.0);
    // Jumbo frames would cost 32, fragments alone two frames an SDU, the second with a header.
    let alone = Rules { concatenate: false, ..rules };
    assert_eq!(overhead(&planned(&alone, &ends::sdus(64, 1502))), 64 * (32 + 34));
    let jumbo = Rules::new(&settings(1532, SciInclusion::Always), true, false);
    assert_eq!(overhead(&planned(&jumbo, &ends::sdus(64, 1502))), 64 * 32);
}

/// 1500 octets behind the EtherType less the other 14 of the SecTAG and the ICV are 1470: n SDUs of an EtherType and
/// 46 octets need 48 n + 2 (n - 1), so 29 take 1448, and a 30th does not fit.
#[test]
fn small_sdus_share_a_frame_by_29() {
    for (inclusion, fragment) in INCLUSIONS.into_iter().flat_map(|sci| [(sci, false), (sci, true)]) {
        let rules = Rules::new(&settings(1500, inclusion), fragment, true);
        let plan = planned(&rules, &ends::sdus(58, 48));
        let counts: Vec<_> = plan.frames().iter().map(|frame| plan.fragments(frame).len()).collect();
        assert_eq!(counts, [29, 29], "{inclusion:?}");
        let header_octets = plan.frames()[0].layout.expect("fragmented").segments.header_octets();
        assert_eq!(header_octets, 56);
    }
}

/// 33 segments are the most, however small they are.
#[test]
fn no_frame_has_more_than_33_segments() {
    let rules = Rules::new(&settings(9000, SciInclusion::Never), true, true);
    let plan = planned(&rules, &ends::sdus(64, 48));
    let counts: Vec<_> = plan.frames().iter().map(|frame| plan.fragments(frame).len()).collect();
    assert_eq!(counts, [33, 31]);
}

//! Messages of the management channel, as octets and back.

use std::net::{IpAddr, SocketAddr};

use proptest::collection;
use proptest::prelude::*;
use suite::tunnel::EpochSecret;
use tunnel::{FrameKinds, HelloMode, Instance, Message, MessageError, PacketOctets};
use wire::tunnel::{Flow, FlowIndex};

prop_compose! {
    fn flow()(octets in any::<[u8; 24]>(), bits in 0..8_u8) -> Flow {
        let mut octets = octets;
        (octets[0], octets[1], octets[2], octets[3]) = (bits << 4, 0, 0, 0);
        if bits & 2 == 0 {
            octets[16..].fill(0);
        }
        Flow::parse(&octets).expect("a flow")
    }
}

fn message() -> impl Strategy<Value = Message> {
    let index = || any::<u16>().prop_map(FlowIndex);
    prop_oneof![
        (any::<[u8; 16]>(), any::<u8>(), any::<u64>(), any::<u8>(), any::<u64>()).prop_map(
            |(instance, lanes, window, mode, frames)| Message::Hello {
                instance: Instance(instance),
                lanes,
                window,
                mode: HelloMode(mode),
                frames: FrameKinds(frames),
            }
        ),
        Just(Message::Welcome),
        (any::<u32>(), any::<[u8; 32]>(), any::<u8>()).prop_map(|(epoch, secret, lanes)| Message::Epoch {
            epoch,
            secret: EpochSecret::new(&secret),
            lanes
        }),
        any::<u32>().prop_map(|epoch| Message::EpochReady { epoch }),
        (index(), flow()).prop_map(|(index, flow)| Message::Announce { index, flow }),
        index().prop_map(|index| Message::Announced { index }),
        index().prop_map(|index| Message::Refused { index }),
        index().prop_map(|index| Message::Withdraw { index }),
        index().prop_map(|index| Message::Withdrawn { index }),
        index().prop_map(|index| Message::Unknown { index }),
        any::<(u32, u8)>().prop_map(|(epoch, lane)| Message::WhereIs { epoch, lane }),
        any::<(u32, u8, u64)>().prop_map(|(epoch, lane, seq)| Message::Position { epoch, lane, seq }),
        any::<u64>().prop_map(|token| Message::Ping { token }),
        any::<u64>().prop_map(|token| Message::Pong { token }),
        any::<(IpAddr, u16)>()
            .prop_map(|(ip, port)| Message::SeenAt { address: SocketAddr::new(ip.to_canonical(), port) }),
        (any::<IpAddr>(), any::<u16>()).prop_map(|(ip, port)| Message::ReachableAt {
            address: SocketAddr::new(ip.to_canonical(), port)
        }),
        any::<(u64, u64)>().prop_map(|(sent, accepted)| Message::Octets(PacketOctets { sent, accepted })),
    ]
}

/// The same octets are the same message: secrets have no equality of their own.
fn assert_same(left: &Message, right: &Message) {
    assert_eq!(left.encode(), right.encode());
}

proptest! {
    #[test]
    fn every_message_parses_to_itself_and_fits(message in message()) {
        let octets = message.encode();
        prop_assert!(octets.len() < 100);
        let parsed = Message::parse(&octets).expect("a message").expect("a known kind");
        assert_same(&parsed, &message);
        prop_assert_eq!(format!("{parsed:?}"), format!("{message:?}"));
    }

    #[test]
    fn a_message_cut_short_or_followed_by_octets_is_refused(message in message(), behind in collection::vec(any::<u8>(), 1..8)) {
        let mut octets = message.encode();
        for end in 0..octets.len() {
            prop_assert_eq!(Message::parse(&octets[..end]).err(), Some(MessageError::Truncated));
        }
        octets.extend(behind);
        prop_assert_eq!(Message::parse(&octets).err(), Some(MessageError::Trailing));
    }

    #[test]
    fn whatever_octets_come_reading_ends_and_what_is_read_encodes_to_itself(octets in collection::vec(any::<u8>(), 0..1100)) {
        if let Ok(Some(message)) = Message::parse(&octets) {
            let again = Message::parse(&message.encode()).expect("a message").expect("a known kind");
            assert_same(&again, &message);
        }
    }

    #[test]
    fn unknown_kinds_are_skipped_and_unknown_keys_tolerated(kind in 18..u64::MAX, key in 17..24_u8, value in nested()) {
        let mut unknown = vec![0xa2, 0x00, 0x1b];
        unknown.extend(kind.to_be_bytes());
        unknown.push(key);
        unknown.extend(&value);
        prop_assert!(matches!(Message::parse(&unknown), Ok(None)));
        let mut known = vec![0xa3, 0x00, 13, key];
        known.extend(&value);
        known.extend([0x0c, 7]);
        let parsed = Message::parse(&known);
        prop_assert!(matches!(parsed, Ok(Some(Message::Ping { token: 7 }))), "{:?}", parsed);
    }
}

/// CBOR of any kind, but for lengths left open.
fn nested() -> impl Strategy<Value = Vec<u8>> {
    let leaf = prop_oneof![
        (0..24_u8).prop_map(|number| vec![number]),
        any::<u32>().prop_map(|number| [&[0x3a][..], &number.to_be_bytes()].concat()),
        any::<u64>().prop_map(|float| [&[0xfb][..], &float.to_be_bytes()].concat()),
        collection::vec(any::<u8>(), 0..20)
            .prop_map(|octets| [&[0x40 | octets.len() as u8][..], &octets].concat()),
        Just(b"\x65hello".to_vec()),
        Just(vec![0xf6]),
    ];
    leaf.prop_recursive(4, 16, 3, |inner| {
        prop_oneof![
            collection::vec(inner.clone(), 0..3).prop_map(|items| [
                &[0x80 | items.len() as u8][..],
                &items.concat()
            ]
            .concat()),
            (inner.clone(), inner.clone()).prop_map(|(key, value)| [&[0xa1][..], &key, &value].concat()),
            inner.prop_map(|item| [&[0xc1][..], &item].concat()),
        ]
    })
}

/// The octets, so that another implementation can be held against them.
#[test]
fn the_encoding_is_deterministic_cbor() {
    assert_eq!(**Message::EpochReady { epoch: 1000 }.encode(), [0xa2, 0x00, 0x04, 0x06, 0x19, 0x03, 0xe8]);
    assert_eq!(**Message::Welcome.encode(), [0xa1, 0x00, 0x02]);
    let seen = Message::SeenAt { address: "192.0.2.1:7787".parse().expect("an address") };
    let octets = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 1, 0x1e, 0x6b];
    assert_eq!(**seen.encode(), [&[0xa2, 0x00, 0x0f, 0x0d, 0x52][..], &octets].concat());
    let hello = Message::Hello {
        instance: Instance([7; 16]),
        lanes: 1,
        window: 4096,
        mode: HelloMode::IDENTIFIER,
        frames: FrameKinds::default(),
    };
    let expected = [&[0xa6, 0, 1, 1, 2, 2, 0x50][..], &[7; 16], &[3, 1, 4, 0x19, 0x10, 0x00, 5, 1]].concat();
    assert_eq!(**hello.encode(), expected);
}

#[test]
fn what_is_no_message_is_refused_with_its_reason() {
    use MessageError::{Field, Malformed, Repeated, TooLong, Truncated, Version};
    let huge = |major: u8| [&[0xa2, 0, 13, 0x17, major | 27][..], &u64::MAX.to_be_bytes()].concat();
    for (octets, error) in [
        (&[][..], Truncated),
        (&[0x80], Malformed),
        (&[0xa0], Field { key: 0 }),
        // Lengths left open: the map's, a value's.
        (&[0xbf, 0, 2, 0xff], Malformed),
        (&[0xa2, 0, 2, 0x17, 0x9f, 0xff], Malformed),
        (&[0xa1, 0, 0xff], Malformed),
        (&[0xa1, 0, 0x1c], Malformed),
        (&[0xa2, 0, 2, 0, 2], Repeated),
        (&[0xa1, 0x00, 0x41, 0x02], Field { key: 0 }),
        // A Hello of another version, with nothing else; of ours, with nothing else; without any.
        (&[0xa2, 0, 1, 1, 1], Version { theirs: 1 }),
        (&[0xa2, 0, 1, 1, 2], Field { key: 2 }),
        (&[0xa1, 0, 1], Field { key: 1 }),
        // Numbers beyond their types, octets of another length, a flow with reserved bits.
        (&[0xa2, 0, 4, 6, 0x1b, 0, 0, 0, 1, 0, 0, 0, 0], Field { key: 6 }),
        (&[0xa3, 0, 3, 6, 1, 7, 0x41, 0], Field { key: 7 }),
        (&[0xa2, 0, 6, 8, 0x1a, 0, 1, 0, 0], Field { key: 8 }),
        (&[&[0xa3, 0, 5, 8, 1, 9, 0x58, 24, 1][..], &[0; 23]].concat(), Field { key: 9 }),
        // Lengths beyond all memory.
        (&huge(0x40), Truncated),
        (&huge(0x60), Truncated),
        (&huge(0x80), Truncated),
        (&huge(0xa0), Truncated),
        (&[&[0xbb][..], &u64::MAX.to_be_bytes()].concat(), Truncated),
        (&[0; Message::OCTETS + 1], TooLong),
    ] {
        assert_eq!(Message::parse(octets).err(), Some(error), "{octets:02x?}");
    }
}

/// As deep as it goes in 1024 octets: an array in an array, without a stack.
#[test]
fn depth_costs_no_stack() {
    let mut octets = vec![0xa2, 0, 2, 0x17];
    octets.resize(Message::OCTETS - 1, 0x81);
    octets.push(0);
    assert!(matches!(Message::parse(&octets), Ok(Some(Message::Welcome))));
}

#[test]
fn secrets_are_not_shown() {
    let message = Message::Epoch { epoch: 1, secret: EpochSecret::new(&[0xab; 32]), lanes: 1 };
    let text = format!("{message:?} {:?}", Message::parse(&message.encode()));
    assert!(!text.contains("171") && !text.to_lowercase().contains("abab"), "{text}");
}

use super::*;
use proptest::prelude::*;

fn key(octet: u8) -> MacKey {
    MacKey::derive(&[octet; 16], Sci::from_octets([octet; 8]))
}

fn purpose() -> impl Strategy<Value = Purpose> {
    prop_oneof![
        any::<u8>().prop_map(Purpose::Target),
        Just(Purpose::Size),
        Just(Purpose::Stream),
        Just(Purpose::Tag)
    ]
}

fn tag() -> impl Strategy<Value = Tag> {
    prop_oneof![Just(Tag::None), Just(Tag::Priority), Just(Tag::Vlan)]
}

fn status() -> impl Strategy<Value = Status> {
    let stage = prop_oneof![Just(Stage::Waiting), Just(Stage::Probing), Just(Stage::Finished)];
    let small = (stage, any::<[bool; 2]>(), any::<[u8; 2]>(), any::<[u8; 8]>());
    (small, any::<[u16; 5]>(), any::<[u32; 8]>()).prop_map(|((stage, bits, octets, suite), short, long)| {
        let [received, duplicates, reordered, displacement, damaged, tagged, looped, sent] = long;
        Status {
            stage,
            saw_finish: bits[0],
            hears_misfits: bits[1],
            fragmentation: octets[0],
            suite,
            plain_mtu: short[0],
            protected_mtu: short[1],
            largest: short[2],
            tried: short[3],
            crossed: short[4],
            tag_fate: octets[1],
            sent,
            record: ReceiveRecord { received, duplicates, reordered, displacement, damaged, tagged, looped },
        }
    })
}

fn frame() -> impl Strategy<Value = Frame> {
    let body = prop_oneof![
        status().prop_map(Body::Status),
        purpose().prop_map(Body::Probe),
        (purpose(), tag()).prop_map(|(purpose, tag)| Body::Echo(purpose, tag)),
    ];
    let envelope = prop_oneof![Just(Envelope::Experiment), Just(Envelope::Eapol), Just(Envelope::Macsec)];
    (any::<[[u8; 6]; 2]>(), envelope, any::<[u8; 8]>(), any::<[u64; 2]>(), any::<u32>(), body).prop_map(
        |([to, from], envelope, sender, [session, receiver], number, body)| Frame {
            to: MacAddr(to),
            from: MacAddr(from),
            envelope,
            sender: Sci::from_octets(sender),
            session,
            receiver,
            number,
            body,
        },
    )
}

proptest! {
    #[test]
    fn what_was_encoded_is_parsed(frame in frame(), octets in 0..2000usize, tci in any::<Option<u16>>(), pad in 0..50usize) {
        let mut encoded = frame.encode(octets, tci, &key(1));
        let behind = encoded.len() - 14 - if tci.is_some() { 4 } else { 0 };
        prop_assert_eq!(behind, octets.max(LEAST_OCTETS + frame.envelope.octets()));
        encoded.resize(encoded.len() + pad, 0);
        let received = Frame::parse(&encoded).unwrap();
        prop_assert_eq!(received.frame, frame);
        prop_assert_eq!(received.octets(), behind);
        let tag = match tci {
            None => Tag::None,
            Some(tci) if tci & 0x0fff == 0 => Tag::Priority,
            Some(_) => Tag::Vlan,
        };
        prop_assert_eq!(received.tag, tag);
        prop_assert!(received.fits(&key(1)) && !received.fits(&key(2)));
    }

    #[test]
    fn a_damaged_frame_is_never_believed(frame in frame(), bit in any::<prop::sample::Index>()) {
        let whole = frame.encode(0, None, &key(1));
        let mut damaged = whole.clone();
        let bit = bit.index(whole.len() * 8);
        damaged[bit / 8] ^= 1 << (bit % 8);
        match Frame::parse(&damaged) {
            Err(_) => {}
            // A flipped bit in what the envelope adds is seen by nobody; the EtherType may become another one of ours.
            Ok(received) => prop_assert!(
                !received.fits(&key(1)) || (received.frame.from == frame.from && received.frame.body == frame.body)
            ),
        }
    }

    #[test]
    fn any_octets_and_any_cut_are_borne(octets in prop::collection::vec(any::<u8>(), 0..200), frame in frame(), cut in any::<prop::sample::Index>()) {
        let _ = Frame::parse(&octets);
        let whole = frame.encode(0, None, &key(1));
        prop_assert!(Frame::parse(&whole[..cut.index(whole.len())]).is_err());
        let mut signed = [&whole[..12], &[0x88, 0xb5], SIGNATURE, &octets].concat();
        prop_assert!(!Frame::parse(&signed).is_ok_and(|received| received.fits(&key(1))));
        signed.truncate(22);
        let _ = Frame::parse(&signed);
    }
}

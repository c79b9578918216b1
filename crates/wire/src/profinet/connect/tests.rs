extern crate std;
use super::*;
use proptest::prelude::*;
use std::vec::Vec;

const AR: [u8; 16] = [7; 16];

fn block(kind: u16, body: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &(body.len() as u16 + 2).to_be_bytes(), &[1, 0], body].concat()
}

fn halves(halves: &[u16]) -> Vec<u8> {
    halves.iter().flat_map(|half| half.to_be_bytes()).collect()
}

fn ar_request(name: &[u8]) -> Vec<u8> {
    let tail = [&[0; 16][..], &[0, 0, 0, 0x11, 2, 0x58, 0x88, 0x92], &halves(&[name.len() as u16]), name];
    block(AR_REQUEST, &[&[0, 1][..], &AR, &[0, 9], &[2, 0, 0, 0, 1, 1], &tail.concat()].concat())
}

fn iocr_request(kind: u16, reference: u16, lt: u16, frame_id: u16, clock: u16, reduction: u16) -> Vec<u8> {
    let head = halves(&[kind, reference, lt, 0, 1, 40, frame_id, clock, reduction, 1, 0]);
    let tail = [&[0xff; 4][..], &halves(&[6, 6, 0xc000]), &[0; 8]].concat();
    block(IOCR_REQUEST, &[head, tail].concat())
}

fn datagram(kind: u8, is_little: bool, status: u32, blocks: &[u8]) -> Vec<u8> {
    let order = |octets: &[u8]| -> Vec<u8> {
        if is_little { octets.iter().rev().copied().collect() } else { octets.to_vec() }
    };
    let mut rpc = std::vec![4, kind, 0x20, 0, if is_little { LITTLE_ENDIAN } else { 0 }, 0, 0, 0];
    rpc.extend([0; 16]);
    rpc.extend([order(&[0xde, 0xa0, 0, 1]), order(&[0x6c, 0x97]), order(&[0x11, 0xd1])].concat());
    rpc.extend(DEVICE.3);
    rpc.extend([0; 40]);
    let length = order(&(blocks.len() as u32).to_be_bytes());
    let ndr =
        [order(&status.to_be_bytes()), length.clone(), length.clone(), std::vec![0; 4], length].concat();
    [rpc, ndr, blocks.to_vec()].concat()
}

fn request(is_little: bool) -> Vec<u8> {
    let blocks = [
        ar_request(b"plc-1"),
        iocr_request(1, 1, 0x8892, 0x8001, 32, 8),
        block(0x0103, &[0; 20]),
        iocr_request(2, 2, 0x8892, 0xffff, 32, 8),
        iocr_request(3, 3, 0x8892, 0xbc00, 32, 1),
        iocr_request(1, 4, 0x0800, 0x8002, 32, 1),
    ];
    datagram(REQUEST, is_little, 4096, &blocks.concat())
}

fn ar_response() -> Vec<u8> {
    block(AR_RESPONSE, &[&[0, 1][..], &AR, &[0, 9], &[2, 0, 0, 0, 2, 1], &[0x88, 0x92]].concat())
}

fn response(is_little: bool) -> Vec<u8> {
    let blocks = [
        ar_response(),
        block(IOCR_RESPONSE, &halves(&[1, 1, 0x8001])),
        block(IOCR_RESPONSE, &halves(&[2, 2, 0xc000])),
    ];
    datagram(RESPONSE, is_little, 0, &blocks.concat())
}

#[test]
fn request_and_response_tell_cycle_and_frame_ids() {
    for is_little in [false, true] {
        let request = request(is_little);
        let connect = Connect::parse(&request).unwrap();
        assert_eq!((connect.side, connect.ar, connect.session), (Side::Controller, AR, 9));
        assert_eq!(connect.station, MacAddr([2, 0, 0, 0, 1, 1]));
        assert_eq!(connect.name.map(|name| name.as_str()), Some("plc-1"));
        let iocrs: Vec<_> = connect.iocrs().map(|iocr| (iocr.way, iocr.reference, iocr.frame_id.0)).collect();
        let expected = [
            (Way::Input, 1, 0x8001),
            (Way::Output, 2, 0xffff),
            (Way::Other, 3, 0xbc00),
            (Way::Other, 4, 0x8002),
        ];
        assert_eq!(iocrs, expected);
        let first = connect.iocrs().next().unwrap();
        assert_eq!((first.cycle, first.watchdog), (Some(Duration::from_millis(8)), 6));
        let response = response(is_little);
        let connect = Connect::parse(&response).unwrap();
        assert_eq!((connect.side, connect.ar, connect.name), (Side::Device, AR, None));
        assert_eq!(connect.station, MacAddr([2, 0, 0, 0, 2, 1]));
        let ids: Vec<_> = connect.iocrs().map(|iocr| (iocr.way, iocr.frame_id.0, iocr.cycle)).collect();
        assert_eq!(ids, [(Way::Input, 0x8001, None), (Way::Output, 0xc000, None)]);
    }
}

#[test]
fn every_other_datagram_has_its_reason() {
    let refused = datagram(RESPONSE, true, 0xdb81_0101, &[]);
    assert_eq!(Connect::parse(&refused), Err(ConnectError::Refused));
    assert_eq!(Connect::parse(&datagram(REQUEST, false, 0, &[])), Err(ConnectError::Truncated));
    let no_ar = datagram(REQUEST, false, 0, &iocr_request(1, 1, 0x8892, 0x8001, 32, 8));
    assert_eq!(Connect::parse(&no_ar), Err(ConnectError::NoAr));
    let swapped = datagram(RESPONSE, false, 0, &ar_request(b"plc-1"));
    assert_eq!(Connect::parse(&swapped), Err(ConnectError::NoAr));
    // Version, type, byte order, interface, opnum, fragment.
    for (at, octet) in [(0, 5), (1, 4), (4, 0x10), (27, 2), (35, 0), (69, 2), (77, 1)] {
        let mut other = request(false);
        other[at] = octet;
        assert_eq!(Connect::parse(&other), Err(ConnectError::Other), "{at}");
    }
}

#[test]
fn impossible_cycles_are_none() {
    for (clock, reduction, cycle) in [
        (1, 1, Some(Duration::from_nanos(31_250))),
        (128, 512, Some(Duration::from_millis(2048))),
        (0, 1, None),
        (32, 0, None),
        (129, 1, None),
        (32, 513, None),
        (u16::MAX, u16::MAX, None),
    ] {
        let blocks = [ar_request(b"plc-1"), iocr_request(1, 1, 0x8892, 0x8001, clock, reduction)].concat();
        let datagram = datagram(REQUEST, false, 0, &blocks);
        let iocr = Connect::parse(&datagram).unwrap().iocrs().next().unwrap();
        assert_eq!(iocr.cycle, cycle, "{clock} {reduction}");
    }
}

#[test]
fn a_cut_datagram_tells_what_is_there_and_nothing_else() {
    let whole = request(true);
    let all: Vec<_> = Connect::parse(&whole).unwrap().iocrs().collect();
    let mut seen = 0;
    for octets in 0..whole.len() {
        match Connect::parse(&whole[..octets]) {
            Ok(connect) => {
                let there: Vec<_> = connect.iocrs().collect();
                assert!(all.starts_with(&there) && there.len() >= seen, "{octets}");
                assert!(connect.name.is_none_or(|name| name.as_str() == "plc-1"));
                seen = there.len();
            }
            Err(error) => {
                let is_other = octets < RPC_OCTETS;
                assert_eq!(error, if is_other { ConnectError::Other } else { ConnectError::Truncated });
            }
        }
    }
    assert_eq!(seen, all.len());
}

proptest! {
    /// Octets behind a true header, and any change of a true datagram: parsed or refused, in bounded steps.
    #[test]
    fn any_octets_are_borne(
        blocks in prop::collection::vec(any::<u8>(), 0..200),
        at in any::<prop::sample::Index>(),
        octet in any::<u8>(),
        is_response in any::<bool>(),
    ) {
        let mut changed = if is_response { response(false) } else { request(false) };
        let at = at.index(changed.len());
        changed[at] = octet;
        let (ar, kind) = if is_response { (ar_response(), RESPONSE) } else { (ar_request(b"x"), REQUEST) };
        for octets in [&changed, &datagram(kind, false, 0, &blocks), &datagram(kind, true, 0, &[ar, blocks].concat())] {
            if let Ok(connect) = Connect::parse(octets) {
                let count = connect.iocrs().count();
                prop_assert!(count * 6 <= octets.len(), "each takes octets of its own: {count}");
                for iocr in connect.iocrs() {
                    prop_assert!(iocr.cycle.is_none_or(|cycle| cycle >= CLOCK && cycle <= CLOCK * 65_536));
                }
            }
        }
    }
}

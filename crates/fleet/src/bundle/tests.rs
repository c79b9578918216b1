use super::*;
use proptest::prelude::*;

const NOW: u64 = 1_800_000_000;

fn operator(seed: u8) -> Operator {
    Operator::new(Identity::new(&[seed; 32]))
}

fn bundle(operator: &Operator, number: u64) -> Bundle {
    let validity = Validity { from: NOW - 10, until: NOW + 100 };
    let name = GatewayName::new("press").unwrap();
    let machine = Machine::Serial("SN 1/a".to_owned());
    Bundle::new(operator, &name, (number, validity), machine, "etcd://10.0.0.1", &[5; 32]).unwrap()
}

#[test]
fn each_bundle_that_is_not_for_this_box_now_is_refused_for_its_reason() {
    let machines = Machines { serial: Some("SN 1/a".to_owned()), ..Machines::default() };
    let (ours, theirs) = (operator(1), operator(2));
    let fleet = ours.fleet();
    let good = bundle(&ours, 7);
    assert_eq!(Bundle::parse(&good.text()), Ok(good.clone()));
    let used = good.judge(None, None, &machines, NOW).unwrap();
    assert_eq!(good.judge(Some(fleet), None, &machines, NOW), Ok(used));
    let judge = |bundle: &Bundle, used, now| bundle.judge(None, used, &machines, now);
    let foreign = BundleRefusal::Foreign { fleet: theirs.fleet() };
    assert_eq!(bundle(&theirs, 9).judge(Some(fleet), None, &machines, NOW), Err(foreign.clone()));
    assert_eq!(
        judge(&bundle(&theirs, 9), Some(&used), NOW),
        Err(foreign),
        "whom it belongs to is remembered"
    );
    let changed = Bundle { directory: "etcd://10.6.6.6".to_owned(), ..good.clone() };
    assert_eq!(judge(&changed, None, NOW), Err(BundleRefusal::NotSigned));
    let renamed = Bundle { fleet: theirs.fleet(), ..good.clone() };
    assert_eq!(judge(&renamed, None, NOW), Err(BundleRefusal::NotSigned));
    let other = good.judge(None, None, &Machines { id: machines.serial.clone(), ..Machines::default() }, NOW);
    assert_eq!(other, Err(BundleRefusal::OtherMachine(good.machine.clone())));
    assert_eq!(judge(&good, None, NOW - 11), Err(BundleRefusal::NotYetValid(Span(1))));
    assert_eq!(judge(&good, None, NOW + 101), Err(BundleRefusal::Expired(Span(1))));
    assert_eq!(judge(&good, Some(&used), NOW), Err(BundleRefusal::Replayed));
    assert_eq!(judge(&bundle(&ours, 6), Some(&used), NOW), Err(BundleRefusal::Older));
    assert!(judge(&bundle(&ours, 8), Some(&used), NOW).is_ok());
    assert_eq!(format!("{good:?}"), "Bundle { gateway: GatewayName(\"press\"), number: 7, .. }", "no token");
}

#[test]
fn other_texts_are_no_bundle_and_a_damaged_memory_is_none() {
    let text = bundle(&operator(1), 7).text();
    for bad in [
        "",
        PREFIX,
        "frameward-bundle-2:AAAA",
        &text[..text.len() - 3],
        &format!("{PREFIX}{}", "A".repeat(1 << 20)),
    ] {
        assert_eq!(Bundle::parse(bad), Err(BundleRefusal::Malformed), "{bad:.40}");
    }
    let machines = Machines { serial: Some("SN 1/a".to_owned()), ..Machines::default() };
    let octets = bundle(&operator(1), 7).judge(None, None, &machines, NOW).unwrap().encode();
    assert!(Enrolled::parse(&octets).is_some());
    for i in 0..octets.len() {
        let mut changed = octets.clone();
        changed[i] ^= 1;
        assert_eq!(Enrolled::parse(&changed), None, "octet {i}");
    }
    for text in ["serial:", "mac:02", "serial", "serial:a\nb", &format!("serial:{}", "a".repeat(2000))] {
        assert!(text.parse::<Machine>().is_err(), "{text:.20}");
    }
}

proptest! {
    // The signature is judged later, so most changes are read.
    #[test]
    fn what_is_read_encodes_to_itself(at in any::<prop::sample::Index>(), octet: u8, cut in 0..3_usize) {
        let valid = bundle(&operator(1), 7).encode().to_vec();
        prop_assert!(Bundle::parse_whole(&valid).is_ok());
        let mut octets = valid.clone();
        octets.truncate(valid.len() - cut);
        let at = at.index(octets.len());
        octets[at] = octet;
        match Bundle::parse_whole(&octets) {
            Ok(bundle) => prop_assert_eq!(bundle.encode().to_vec(), octets),
            Err(_) => prop_assert_ne!(octets, valid),
        }
    }
}

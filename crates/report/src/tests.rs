use super::samples::sample;
use super::*;

/// Whoever has the same name, his SCI stands before it.
#[test]
fn a_name_stands_behind_its_sci() {
    let mut report = samples::agreed("g");
    let mka = report.links[0].mka.as_mut().unwrap();
    mka.members.push(mka::MemberReport { sci: "02:00:00:00:00:03/1".into(), ..mka.members[0].clone() });
    let link = &report.links[0];
    assert_eq!(link.named("02:00:00:00:00:02/1"), "02:00:00:00:00:02/1 \"press-b\"");
    assert_eq!(link.named("02:00:00:00:00:03/1"), "02:00:00:00:00:03/1 \"press-b\"", "a name that two have");
    assert_eq!(link.named("02:00:00:00:00:02/32769"), "02:00:00:00:00:02/32769 \"press-b\"", "an express SC");
    assert_eq!(link.named("02:00:00:00:00:04/1"), "02:00:00:00:00:04/1");
}

/// A recording of last year, whose MI is only heard, may stand before the live member of that SCI.
#[test]
fn a_live_member_has_its_own_name_and_none_that_is_only_heard() {
    let mut report = samples::agreed("g");
    let mka = report.links[0].mka.as_mut().unwrap();
    let recorded =
        mka::MemberReport { live: false, name: Some("last-year".into()), ..mka.members[0].clone() };
    mka.members.insert(0, recorded);
    let link = &report.links[0];
    for sci in ["02:00:00:00:00:02/1", "02:00:00:00:00:02/32769"] {
        assert_eq!(link.named(sci), format!("{sci} \"press-b\""));
    }
    report.links[0].mka.as_mut().unwrap().members.remove(1);
    assert_eq!(report.links[0].named("02:00:00:00:00:02/1"), "02:00:00:00:00:02/1");
}

#[test]
fn counters_keep_their_order_and_their_names() {
    let json = serde_json::to_string(&sample("g").links[0].secy.counters).unwrap();
    assert_eq!(json, r#"{"OutPktsUntagged":0,"InPktsNoTag":5,"InPktsBadTag":6}"#);
    let back: Counters = serde_json::from_str(&json).unwrap();
    assert_eq!(back, sample("g").links[0].secy.counters);
}

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

#[test]
fn counters_keep_their_order_and_their_names() {
    let json = serde_json::to_string(&sample("g").links[0].secy.counters).unwrap();
    assert_eq!(json, r#"{"OutPktsUntagged":0,"InPktsNoTag":5,"InPktsBadTag":6}"#);
    let back: Counters = serde_json::from_str(&json).unwrap();
    assert_eq!(back, sample("g").links[0].secy.counters);
}

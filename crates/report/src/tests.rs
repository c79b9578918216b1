use super::samples::sample;
use super::*;

#[test]
fn counters_keep_their_order_and_their_names() {
    let json = serde_json::to_string(&sample("g").links[0].secy.counters).unwrap();
    assert_eq!(json, r#"{"OutPktsUntagged":0,"InPktsNoTag":5,"InPktsBadTag":6}"#);
    let back: Counters = serde_json::from_str(&json).unwrap();
    assert_eq!(back, sample("g").links[0].secy.counters);
}

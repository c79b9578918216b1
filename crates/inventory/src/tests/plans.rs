use super::*;
use crate::plan::{FleetPlan, What};

fn plan(place: &Place) -> FleetPlan {
    let (rendering, keys) = place.rendering().unwrap();
    FleetPlan::new(&rendering, &place.out(), &keys.drawn_fingerprints()).unwrap()
}

/// Says the plan for one change of the golden inventory.
fn after(name: &str, file: usize, from: &str, to: &str) -> String {
    let place = Place::golden(name);
    assert_eq!(plan(&place).changes.iter().filter(|change| change.what == What::Add).count(), 6);
    place.render().unwrap();
    assert!(plan(&place).is_empty());
    let (file, text) = GOLDEN[file];
    assert!(text.contains(from));
    place.put(file, &text.replace(from, to));
    plan(&place).to_string()
}

#[test]
fn a_plan_says_per_gateway_what_changes_and_what_that_interrupts() {
    let rows = [
        (
            1,
            "mka.rekey = \"4h\"",
            "mka.rekey = \"2h\"",
            "~ cabinet-1 (dresden)\n    link \"press\" mka rekey: was \"4h\", now \"2h\"\n    link \"press\": changed between two frames\n\
             ~ press-1 (dresden)\n    link \"press\" mka rekey: was \"4h\", now \"2h\"\n    link \"press\": changed between two frames\n\
             plan: 0 to add, 2 to change, 0 to remove, 4 unchanged; nothing is interrupted\n",
        ),
        (
            0,
            "plain = \"eth0\"",
            "plain = \"eth9\"",
            "~ robot-1 (dresden)\n    link \"press-2\" plain: was \"eth0\", now \"eth9\"\n  ! link \"press-2\": restarted, its SAs go on\n\
             plan: 0 to add, 1 to change, 0 to remove, 5 unchanged; 1 interrupted, marked with !\n",
        ),
        (
            1,
            "window   = 1024\n",
            "",
            "~ berlin (berlin)\n    site \"plants\" window: was 1024, now not set\n  ! site \"plants\": restarted; its peers agree on keys anew\n\
             ~ dresden (dresden)\n    site \"plants\" window: was 1024, now not set\n  ! site \"plants\": restarted; its peers agree on keys anew\n\
             ~ leipzig (leipzig)\n    site \"plants\" window: was 1024, now not set\n  ! site \"plants\": restarted; its peers agree on keys anew\n\
             plan: 0 to add, 3 to change, 0 to remove, 3 unchanged; 3 interrupted, marked with !\n",
        ),
        (
            0,
            "site     = \"dresden\"\nports    = { plain",
            "site     = \"dresden\"\npolling  = \"busy\"\nports    = { plain",
            "~ robot-1 (dresden)\n    gateway polling: was not set, now \"busy\"\n\
               ! gateway: polling in [gateway] cannot change while it runs: restart it, which interrupts all of it\n\
             plan: 0 to add, 1 to change, 0 to remove, 5 unchanged; 1 interrupted, marked with !\n",
        ),
    ];
    for (row, (file, from, to, expected)) in rows.into_iter().enumerate() {
        // Of each line the spaces in front count.
        let said = after(&format!("inventory-plan-{row}"), file, from, to);
        let trimmed = |text: &str| text.lines().map(|line| line.trim().to_owned()).collect::<Vec<_>>();
        assert_eq!(trimmed(&said), trimmed(expected), "{said}");
    }
}

#[test]
fn another_key_interrupts_and_is_not_shown() {
    let place = Place::golden("inventory-plan-key");
    place.render().unwrap();
    std::fs::remove_file(place.inventory().join("keys/ring.cak")).unwrap();
    let first = plan(&place).to_string();
    assert!(first.contains("link \"ring\" mka cak, its key's fingerprint: was "), "{first}");
    assert!(first.contains(", now a new key\n  ! link \"ring\": gets another key; nothing passes until its peers have it, too\n"), "{first}");
    assert_eq!(plan(&place).to_string(), first, "each plan draws another key and says the same");
    // With the key before as fallback nothing is interrupted.
    let place = Place::golden("inventory-plan-fallback");
    place.render().unwrap();
    let keys = place.inventory().join(KEYS);
    std::fs::rename(keys.join("ring.cak"), keys.join("old.cak")).unwrap();
    place.put(
        "shared.toml",
        &GOLDEN[1].1.replace(
            "suite     = \"gcm-aes-256\"",
            "suite     = \"gcm-aes-256\"\nmka.fallback_cak_file = \"old.cak\"",
        ),
    );
    let said = plan(&place).to_string();
    assert!(
        said.contains("link \"ring\": changed between two frames")
            && said.ends_with("nothing is interrupted\n"),
        "{said}"
    );
}

#[test]
fn gateways_come_and_go() {
    let place = Place::golden("inventory-plan-gone");
    place.render().unwrap();
    place.put(
        "shared.toml",
        &GOLDEN[1].1.replace("[\"dresden\", \"berlin\", \"leipzig\"]", "[\"dresden\", \"berlin\"]"),
    );
    let (start, _) = GOLDEN[0].1.split_once("[gateway.leipzig]").unwrap();
    place.put("gateways.toml", start);
    let said = plan(&place).to_string();
    for part in [
        "- leipzig\n  ! site \"plants\": stopped\n",
        "    site \"plants\": its peers change; frames to the others go on\n",
        "plan: 0 to add, 2 to change, 1 to remove, 3 unchanged; 1 interrupted, marked with !\n",
    ] {
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn a_folder_that_is_no_rendering_is_no_plan() {
    let place = Place::golden("inventory-plan-foreign");
    std::fs::create_dir_all(place.out().join("x")).unwrap();
    let (rendering, keys) = place.rendering().unwrap();
    let refused = FleetPlan::new(&rendering, &place.out(), &keys.drawn_fingerprints());
    assert!(refused.unwrap_err().to_string().contains("x has no frameward.toml"));
}

//! Names that gateways announce: members see them in status, log and JSON, and a reload changes them without a lost frame.

use super::mka::{Group, LINE, all, ki, mka, stop, until};
use super::reload::{reloaded, while_they_talk};

const SCI_B: &str = "02:00:00:00:00:b3/1";

fn announces(name: &str) -> String {
    format!("announce_name = \"{name}\"\n")
}

#[test]
fn two_gateways_see_each_others_names_and_a_reload_changes_them() {
    let group = Group::new();
    group.cak("line.cak", "line");
    let [a, b] = [("a", "press 1"), ("b", "Nord-2")].map(|(file, name)| {
        group.configure_with(&announces(name), file, LINE);
        group.start(file)
    });
    group.secured(&[&a, &b]);
    all([&a, &b], "names are known", |mka| mka.members[0].name.is_some());
    assert_eq!(mka(&b.report().unwrap()).members[0].name.as_deref(), Some("press 1"));
    let status = group.command(&["status", "a"]).stdout;
    for words in [
        format!("member {SCI_B}, named \"Nord-2\" by itself, live"),
        format!("receive SC {SCI_B} \"Nord-2\""),
        format!("member {SCI_B} \"Nord-2\" is live"),
    ] {
        assert!(status.contains(&words), "{words}: {status}");
    }
    let status = group.command(&["status", "b"]).stdout;
    assert!(status.contains(" \"press 1\"\n      own MI"), "the key server: {status}");
    let before = ki(&a);
    while_they_talk(&group.topology, || {
        group.configure_with(&announces("press-3"), "b", LINE);
        assert!(reloaded(&group.scratch, "b").contains("\"press\": changed"));
        until(&a, "the new name is known", |mka| mka.members[0].name.as_deref() == Some("press-3"));
        group.configure_with(&announces("off"), "b", LINE);
        reloaded(&group.scratch, "b");
        until(&a, "there is none", |mka| mka.members[0].name.is_none());
    });
    assert_eq!(ki(&a), before, "the SAK goes on");
    // Without a word it is the machine's own name, up to its first dot.
    group.configure_with("", "b", LINE);
    reloaded(&group.scratch, "b");
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let host = host.trim().split('.').next().unwrap();
    let host = if ["", "localhost"].contains(&host) { "b" } else { host };
    until(&a, "the host name", |mka| mka.members[0].name.as_deref() == Some(host));
    let said = a.stop().unwrap();
    let renamed = format!("member {SCI_B} \"press-3\" has another name: it was \"Nord-2\"");
    for words in [format!("member {SCI_B} \"Nord-2\" is live"), renamed] {
        assert!(said.contains(&words), "{words}: {said}");
    }
    stop([b]);
}

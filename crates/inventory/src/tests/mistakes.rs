use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// Two gateways that would do.
const BASE: &str = "[gateway.a]\nports = { plain = \"eth0\", protected = \"eth1\" }\n[gateway.b]\nports = { plain = \"eth0\", protected = \"eth1\" }\n";
const LINK: &str = "[[link]]\nname = \"x\"\ngateways = [\"a\", \"b\"]\n";

fn said(text: &str) -> Vec<String> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let name = format!("inventory-mistakes-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let place = Place::of(&name, &[("all.toml", text)]);
    let said = place.rendering().map(drop).expect_err(text);
    assert!(!place.inventory().join(KEYS).exists() && !place.out().exists(), "something was changed");
    said
}

#[test]
fn each_mistake_is_one_line_with_file_line_and_cure() {
    for (text, expected) in [
        ("", "all.toml:1: there is no gateway; add [gateway.NAME]"),
        (
            "[gateway.a]\n[gateway.b]\n[links]\n",
            "all.toml:3: \"links\" is no section of an inventory; did you mean \"link\"?",
        ),
        (
            "[gateway.a]\n[link]\n",
            "all.toml:2: link is written in double brackets, since there can be several; write [[link]]",
        ),
        (
            "[[gateway]]\nname = \"a\"\n",
            "all.toml:1: gateway needs a name behind a dot; write [gateway.NAME]",
        ),
        (
            "[gateway.a]\nname = \"a\"\n",
            "all.toml:2: gateway \"a\" has its name from [gateway.a]; remove this line",
        ),
        (
            "[gateway.A]\n",
            "all.toml:1: gateway \"A\" is not a valid name; use 1 to 32 of a-z, 0-9, _ and -, a letter or digit first",
        ),
        (
            "[gateway.a]\nio = 3\nhtttp = \"x\"\n",
            "all.toml:3: gateway \"a\": unknown key \"htttp\"; did you mean \"http\"?",
        ),
        (
            "[gateway.a]\ntemplate = \"lines\"\n[template.line]\n",
            "all.toml:2: there is no template \"lines\"; did you mean \"line\"?",
        ),
        (
            "[gateway.a]\n[template.x]\ntemplate = \"y\"\n[template.y]\ntemplate = \"x\"\n",
            "all.toml:5: templates take each other: x takes y takes x; remove one of these",
        ),
        (
            "[gateway.a]\nports = { plain = 1 }\n",
            "all.toml:2: port \"plain\" takes the name of an interface, in quotes",
        ),
        ("[gateway.a]\nvariables.x = [1]\n", "all.toml:2: variable \"x\" takes a text or a number"),
        (
            "[gateway.a]\nstate = \"/x/${lane}\"\nvariables.line = 1\n",
            "all.toml:2: variable ${lane} is not set for gateway \"a\"; did you mean line? Else set it in [gateway.a.variables]",
        ),
        (
            "[gateway.a]\nstate = \"/${site}\"\n",
            "all.toml:2: variable ${site} is not set for gateway \"a\"; add site = \"PLANT\" to [gateway.a]",
        ),
        (
            "[gateway.a]\n[[gateway.a.box.links]]\n",
            "all.toml:2: gateway \"a\": box holds [[gateway.a.box.link]], .site and .fieldbus, as in the configuration of the box; write one of these",
        ),
        ("[gateway.a]\nx = = 1\n", "all.toml:2: extra `=`, expected nothing; correct this line"),
    ] {
        assert_eq!(said(text), [expected], "{text}");
    }
}

#[test]
fn mistakes_in_what_gateways_share() {
    for (text, expected) in [
        ("[[link]]\ngateways = [\"a\", \"b\"]\n", "all.toml:5: link: name is missing; add name = \"NAME\""),
        (
            "[[link]]\nname = \"x\"\n",
            "all.toml:5: link \"x\": gateways is missing; add gateways = [\"ONE\", \"OTHER\"]",
        ),
        (
            "[[link]]\nname = \"x\"\ngateways = [\"a\", \"c\"]\n",
            "all.toml:7: link \"x\": there is no gateway \"c\"; use one of a, b",
        ),
        (
            "[[link]]\nname = \"x\"\ngateways = [\"a\"]\n",
            "all.toml:7: link \"x\": it names 1; a link has two gateways; name two, or make it a [[group]]",
        ),
        (
            "[[link]]\nname = \"x\"\ngateways = [\n  \"a\",\n  \"b\",\n  \"a\",\n]\n",
            "all.toml:10: link \"x\": gateway \"a\" is named twice; remove one",
        ),
        (
            "[[link]]\nname = \"x\"\ngateways = [\"a\", \"b\"]\nat.c.mtu = 1500\n",
            "all.toml:8: link \"x\": at.c: \"c\" is none of its gateways; use one of a, b",
        ),
        (
            "[[link]]\nname = \"x\"\ngateways = [\"a\", \"b\"]\nreplay_windw = 3\n",
            "all.toml:8: link \"x\": unknown key \"replay_windw\"; did you mean \"replay_window\"?",
        ),
        (
            "[[link]]\nname = \"x\"\ngateways = [\"a\", \"b\"]\nplain = \"uplink\"\n",
            "all.toml:8: link \"x\": gateway \"a\" has no port \"uplink\" for plain; use one of plain, protected",
        ),
        (
            "[[tunnel]]\nname = \"t\"\ngateways = [\"a\", \"b\"]\nhub = \"c\"\n",
            "all.toml:8: tunnel \"t\": hub = \"c\" is none of its gateways; use one of a, b",
        ),
    ] {
        let all = said(&format!("{BASE}{text}"));
        assert!(all.contains(&expected.to_owned()), "{text}{all:#?}");
    }
    let twice = said(&format!("{BASE}{LINK}{LINK}"));
    assert_eq!(twice, ["all.toml:8: link \"x\" is already at all.toml:5; give one of them another name"]);
}

/// Judged by the code of `check`, in lines that nobody wrote: told of those that somebody did.
#[test]
fn what_check_says_is_told_of_the_inventory() {
    for (text, expected) in [
        // The same ports twice.
        (
            "[[link]]\nname = \"y\"\ngateways = [\"a\", \"b\"]\n",
            vec![
                "all.toml:8: gateways \"a\", \"b\": link \"y\": plain = \"eth0\" is already used at all.toml:5; an interface serves one side of one link",
                "all.toml:8: gateways \"a\", \"b\": link \"y\": protected = \"eth1\" is already used at all.toml:5; an interface serves one side of one link",
            ],
        ),
        // A value of one gateway, and one of a template that both take.
        (
            "replay_window = -1\n",
            vec![
                "all.toml:8: gateways \"a\", \"b\": link \"x\": replay_window = -1 is out of range; use 0 to 1048576",
            ],
        ),
        (
            "at.b.mka.priority = 256\n",
            vec![
                "all.toml:8: gateway \"b\": link \"x\": priority = 256 is out of range; use 0 (first choice for key server) to 255 (never)",
            ],
        ),
        (
            "template = \"t\"\n[template.t]\nmtu = 3\n",
            vec![
                "all.toml:10: gateways \"a\", \"b\": link \"x\": mtu is neither \"interface\" nor 576 to 9216 octets; use one of them",
            ],
        ),
        (
            "mka.fallback_cak_file = \"../old.cak\"\n",
            vec![
                "all.toml:8: fallback_cak_file = \"../old.cak\" is no place in the gateway's folder; name a file, or an absolute path on the box",
            ],
        ),
    ] {
        assert_eq!(said(&format!("{BASE}{LINK}{text}")), expected, "{text}");
    }
    let missing = said(&format!("{BASE}{LINK}mka.fallback_cak_file = \"old.cak\"\n"));
    assert!(
        missing.len() == 1
            && missing[0].starts_with("all.toml:8: gateways \"a\", \"b\": ")
            && missing[0].contains("keys/old.cak"),
        "{missing:?}"
    );
    let unused = said(&format!("{BASE}{LINK}[gateway.c]\n"));
    assert_eq!(
        unused,
        ["all.toml:8: gateway \"c\": no [[link]], [[site]] or [[fieldbus]] is configured; add one"]
    );
}

#[test]
fn names_are_unique_over_all_files_and_all_mistakes_come_at_once() {
    let place = Place::of(
        "inventory-files",
        &[("a.toml", "[gateway.a]\n[gateway.b]\nhtp = 1\n"), ("b.toml", "\n[gateway.a]\n[[link]]\n")],
    );
    assert_eq!(
        place.rendering().map(drop).unwrap_err(),
        [
            "a.toml:3: gateway \"b\": unknown key \"htp\"; did you mean \"http\"?".to_owned(),
            "b.toml:2: gateway \"a\" is already at a.toml:1; give one of them another name".to_owned(),
            "b.toml:3: link: name is missing; add name = \"NAME\"".to_owned(),
        ]
    );
    let none = Place::of("inventory-none", &[]);
    let said = none.rendering().map(drop).unwrap_err();
    assert!(
        said.len() == 1 && said[0].ends_with(": has no *.toml; name the folder of an inventory"),
        "{said:?}"
    );
}

#[test]
fn tunnels_say_which_box_lacks_what() {
    let sites = "[gateway.a]\nports.lan = \"eth2\"\n[gateway.b]\nports.lan = \"eth2\"\n\
                 [[tunnel]]\nname = \"t\"\ngateways = [\"a\", \"b\"]\n";
    assert_eq!(
        said(sites),
        [
            "all.toml:5: tunnel \"t\": neither \"a\" nor \"b\" has an endpoint, so none can call the other; add endpoint = \"HOST:PORT\" to one of them",
            "all.toml:7: tunnel \"t\": gateway \"a\" has no public_key; run there: frameward keygen site --out /etc/frameward/a.key, and add the line that it prints to [gateway.a]",
            "all.toml:7: tunnel \"t\": gateway \"b\" has no public_key; run there: frameward keygen site --out /etc/frameward/b.key, and add the line that it prints to [gateway.b]",
        ]
    );
    let key = "public_key = \"4a3807d064d077181cc070989e76891d20dc5559548dc2c77c1a50273882b38d\"\n";
    let both = sites.replace("ports.lan", &format!("{key}endpoint = \"192.0.2.1:7787\"\nports.lan"));
    assert_eq!(
        said(&both),
        [
            "all.toml:6: this public_key is already at all.toml:2; each gateway makes its own: frameward keygen site"
        ]
    );
    let wrong = format!("{sites}at.a.peer.c.path_mtu = 1400\npeer.vnni = 3\n");
    let all = said(&wrong);
    for expected in [
        "all.toml:8: tunnel \"t\": at.a.peer.c is no other gateway of it; use one of b",
        "all.toml:9: tunnel \"t\": peer: unknown key \"vnni\"; did you mean \"vni\"?",
    ] {
        assert!(all.contains(&expected.to_owned()), "{all:#?}");
    }
}

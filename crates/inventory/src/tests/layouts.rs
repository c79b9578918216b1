use super::*;
use crate::{Connection, ConnectionKind, Layout, Placed};

fn connection(kind: ConnectionKind, name: &str, ends: &[(&str, &str)]) -> Connection {
    let ends = ends.iter().map(|(gateway, name)| ((*gateway).to_owned(), (*name).to_owned())).collect();
    Connection { kind, name: name.to_owned(), ends }
}

#[test]
fn the_layout_has_plants_and_connections_and_needs_no_key() {
    let place = Place::golden("inventory-layout");
    let layout = Inventory::read(&place.inventory()).unwrap().layout();
    assert!(!place.inventory().join(KEYS).exists());
    let http = "127.0.0.1:9464".parse().ok();
    let plants = [
        ("berlin", "berlin"),
        ("cabinet-1", "dresden"),
        ("dresden", "dresden"),
        ("leipzig", "leipzig"),
        ("press-1", "dresden"),
        ("robot-1", "dresden"),
    ];
    let placed = |(name, plant): (&str, &str)| {
        let (plant, announced) = (Some(plant.to_owned()), Some(name.to_owned()));
        (name.to_owned(), Placed { plant, http, announced })
    };
    assert_eq!(layout.gateways, plants.map(placed).into());
    let three = |name| [("dresden", name), ("berlin", name), ("leipzig", name)];
    let expected = [
        connection(ConnectionKind::Fieldbus, "cell-4", &[("robot-1", "cell-4"), ("cabinet-1", "cell-4")]),
        connection(ConnectionKind::Tunnel, "plants", &three("plants")),
        connection(ConnectionKind::Link, "press", &[("press-1", "press"), ("cabinet-1", "press")]),
        connection(ConnectionKind::Link, "press-2", &[("robot-1", "press-2"), ("cabinet-1", "press-2")]),
        connection(
            ConnectionKind::Group,
            "ring",
            &[("press-1", "ring"), ("robot-1", "ring"), ("cabinet-1", "ring")],
        ),
    ];
    assert_eq!(layout.connections, expected);
}

#[test]
fn a_connection_has_the_name_that_each_end_gives_it_and_a_page_is_where_others_reach_it() {
    let text = "[template.box]\nports = { plain = \"p\", protected = \"n\" }\nhttp = \"${address}:9464\"\n\
        [gateway.a]\ntemplate = \"box\"\nvariables = { address = \"10.0.0.1\" }\n\
        [gateway.b]\ntemplate = \"box\"\nvariables = { address = \"0.0.0.0\" }\n\
        [[link]]\nname = \"line\"\ngateways = [\"a\", \"b\"]\nat.b.name = \"to-a\"\n";
    let place = Place::of("inventory-layout-names", &[("all.toml", text)]);
    let Layout { gateways, connections } = Inventory::read(&place.inventory()).unwrap().layout();
    assert_eq!(connections, [connection(ConnectionKind::Link, "line", &[("a", "line"), ("b", "to-a")])]);
    let pages: Vec<_> = gateways.values().map(Placed::page).collect();
    assert_eq!(pages, ["10.0.0.1:9464".parse().ok(), None]);
    // The layout has the values that the gateway gets.
    let rendering = place.rendering().unwrap().0;
    assert_eq!(rendering.gateways["b"].config.links[0].name, "to-a");
    let http = rendering.gateways["a"].config.gateway.http.map(|http| http.address);
    assert_eq!(http, gateways["a"].http);
}

#[test]
fn a_gateway_is_placed_with_the_name_that_it_announces() {
    let ports = "ports = { plain = \"p\", protected = \"n\" }";
    let text = format!(
        "[gateway.a]\n{ports}\n[gateway.b]\n{ports}\nannounce_name = \"Halle ${{site}}\"\nsite = \"3\"\n\
        [gateway.c]\n{ports}\nannounce_name = \"off\"\n[gateway.off]\n{ports}\n\
        [[group]]\nname = \"ring\"\ngateways = [\"a\", \"b\", \"c\", \"off\"]\n"
    );
    let place = Place::of("inventory-layout-announced", &[("all.toml", &text)]);
    let gateways = Inventory::read(&place.inventory()).unwrap().layout().gateways;
    let announced = |name: &str| gateways[name].announced.as_deref();
    assert_eq!(["a", "b", "c", "off"].map(announced), [Some("a"), Some("Halle 3"), None, None]);
    let rendering = place.rendering().unwrap().0;
    for name in ["a", "b", "c"] {
        let rendered = &rendering.gateways[name].config.gateway.announced_name;
        assert_eq!(rendered.as_ref().map(ToString::to_string).as_deref(), announced(name), "{name}");
    }
}

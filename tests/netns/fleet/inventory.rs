//! `fleet`: an inventory of two gateways is rendered, and they run from what each got.

use std::path::Path;
use std::process::Command;

use lab::Topology;
use lab::topology::{PLAIN, PROTECTED};
use lab::traffic::{self, Ip};
use perf::demo::pair::{Scratch, Station};

use super::super::mka::{NARROW, all, ki, secured_with, stop};
use super::super::program;

/// `frameward fleet` with these arguments in a folder: its exit status and what it says.
fn fleet(folder: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(program()).arg("fleet").args(arguments).current_dir(folder).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(said).unwrap())
}

#[test]
fn two_gateways_run_from_a_rendering_and_take_over_the_next() {
    let topology = Topology::build(&NARROW).unwrap();
    let places = ["press-1", "cabinet-1"].map(|name| (name, Scratch::new().unwrap()));
    let controller = Scratch::new().unwrap();
    let inventory = controller.path().join("inventory");
    std::fs::create_dir(&inventory).unwrap();
    let gateways: String = places
        .iter()
        .map(|(name, scratch)| {
            let state = scratch.path().join("state").display().to_string();
            format!("[gateway.{name}]\ntemplate = \"box\"\nvariables.state = \"{state}\"\n")
        })
        .collect();
    let text = format!(
        "[template.box]\nstate = \"${{state}}\"\nio = \"af_packet\"\nports = {{ plain = \"{PLAIN}\", protected = \"{PROTECTED}\" }}\n{gateways}"
    );
    let link =
        "[[link]]\nname = \"press\"\ngateways = [\"press-1\", \"cabinet-1\"]\nat.press-1.mka.priority = 1\n";
    std::fs::write(inventory.join("gateways.toml"), text).unwrap();
    let put_link =
        |options: &str| std::fs::write(inventory.join("links.toml"), format!("{link}{options}")).unwrap();
    let carry = || {
        for (name, scratch) in &places {
            // The program under test finds a gateway by its file's name.
            for (file, there) in [("press.cak", "press.cak"), ("frameward.toml", &*format!("{name}.toml"))] {
                let from = controller.path().join("out").join(name).join(file);
                std::fs::copy(from, scratch.path().join(there)).unwrap();
            }
        }
    };
    let plan = || fleet(controller.path(), &["plan", "inventory", "--against", "out"]);
    let render = || fleet(controller.path(), &["render", "inventory", "--to", "out"]);

    // A mistake changes nothing.
    put_link("replay_window = -1\n");
    let (status, said) = render();
    assert_eq!(status, Some(2), "{said}");
    assert!(
        said.starts_with(
            "inventory/links.toml:5: gateways \"cabinet-1\", \"press-1\": link \"press\": replay_window = -1"
        ),
        "{said}"
    );
    assert!(!controller.path().join("out").exists() && !inventory.join("keys").exists());

    put_link("");
    assert_eq!(plan().0, Some(4));
    assert_eq!(render().0, Some(0));
    let (status, said) = plan();
    assert!(status == Some(0) && said.ends_with("2 unchanged; nothing is interrupted\n"), "{said}");
    carry();
    let [a, b] = [(&topology.gateway_a, &places[0]), (&topology.gateway_b, &places[1])].map(
        |(gateway, (name, scratch))| Station::start(program(), &gateway.namespace, scratch, name).unwrap(),
    );
    all([&a, &b], "it is secured", secured_with(1));
    traffic::ping(&topology.machine_a, &topology.machine_b, Ip::V4, 3, 1400).unwrap();

    // Gateways do what the plan foretells: the link goes on under the same SAK.
    put_link("replay_window = 64\n");
    let (status, said) = plan();
    assert_eq!(status, Some(4), "{said}");
    assert!(said.contains("~ press-1\n    link \"press\" replay_window: was not set, now 64\n    link \"press\": changed between two frames\n"), "{said}");
    let before = ki(&a);
    assert_eq!(render().0, Some(0));
    carry();
    for (station, (name, scratch)) in [&a, &b].into_iter().zip(&places) {
        let lines = reload(scratch, name);
        assert!(
            lines.contains("link \"press\" replay_window: was not set, now 64")
                && !lines.contains("restarted"),
            "{lines}"
        );
        assert_eq!(ki(station), before);
    }
    traffic::ping(&topology.machine_a, &topology.machine_b, Ip::V4, 3, 1400).unwrap();
    stop([a, b]);
}

/// `frameward reload`, and what it says.
fn reload(scratch: &Scratch, name: &str) -> String {
    let output = Command::new(program())
        .args(["reload", name])
        .env(report::RUNTIME_DIR_VARIABLE, scratch.path().join("run"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

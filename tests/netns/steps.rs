//! What somebody types on his first days with a gateway: names, and what they find.

use lab::Shape;
use lab::program::Output;
use perf::demo::pair::{Choice, Scratch};

use super::{DEADLINE, lab, program};

/// `frameward ARGUMENTS` beside the gateways of a laboratory.
fn frameward(scratch: &Scratch, arguments: &[&str]) -> Output {
    let variable = format!("FRAMEWARD_RUNTIME_DIR={}", scratch.path().join("run").display());
    let command = [&["env", &variable, program().to_str().unwrap()], arguments].concat();
    lab::Program::spawn(&command).unwrap().wait(DEADLINE).unwrap()
}

/// Two gateways on a box, both with a link `press`.
#[test]
fn one_name_finds_gateways_files_and_links() {
    let (_topology, pair) = lab(&Shape::default(), &Choice::default());
    let scratch = &pair.scratch;
    let ask = |arguments: &[&str]| frameward(scratch, arguments);
    let file = scratch.path().join("b.toml").display().to_string();
    for name in ["b", "frameward@b", "b.toml", &file] {
        let said = ask(&["status", name]);
        assert!(said.stdout.starts_with("gateway b, "), "{name}: {}{}", said.stdout, said.stderr);
    }
    let said = ask(&["reload", "b.toml"]);
    assert!(said.status.success() && said.stdout.contains("reloaded"), "{}{}", said.stdout, said.stderr);
    let said = ask(&["status", "press"]);
    assert_eq!(said.stderr, "frameward: \"press\" is found in several gateways; name one of a, b\n");
    let said = ask(&["status", "oven"]);
    let a = scratch.path().join("a.toml").display().to_string();
    assert_eq!(
        said.stderr,
        format!(
            "frameward: nothing that runs is named \"oven\"; what runs: gateway a (link press, file {a}); gateway b (link press, file {file})\n"
        )
    );
    assert_eq!(said.status.code(), Some(1));
    pair.a.stop().unwrap();
    let said = ask(&["status", "press"]);
    assert!(
        said.stdout.starts_with("gateway b, ") && said.stdout.contains("\nlink press\n"),
        "{}",
        said.stdout
    );
    let said = ask(&["status", "--json", "press"]);
    assert!(said.stdout.contains("\"name\": \"b\",\n"), "{}", said.stdout);
    // Its keys are static: the right gateway and link say so.
    assert!(ask(&["rekey", "press"]).stderr.contains("link \"press\" has static keys"));
    pair.b.stop().unwrap();
}

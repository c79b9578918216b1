//! The operator's signing key in a PKCS#11 token: Debian's SoftHSM, through its module.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output, Stdio};

use super::{APPLY, Fleet, Ran, fetch};

/// Path of the module of Debian's softhsm2.
const MODULE: &str = "/usr/lib/softhsm/libsofthsm2.so";
const KEY: &str =
    "pkcs11:token=fleet;object=operator?module-path=/usr/lib/softhsm/libsofthsm2.so&pin-source=pin";

/// A fleet whose operator has a token, with a PIN in a file.
struct Tokens(Fleet);

impl Tokens {
    fn new(test: &str) -> Self {
        assert!(fs::exists(MODULE).unwrap(), "{MODULE} is missing: scripts/setup.sh test");
        let tokens = Self(Fleet::new(test));
        fs::create_dir(tokens.0.path("tokens")).unwrap();
        let conf =
            format!("directories.tokendir = {}\nlog.level = ERROR\n", tokens.0.path("tokens").display());
        fs::write(tokens.0.path("softhsm2.conf"), conf).unwrap();
        tokens.init("fleet");
        tokens.put_pin("4711\n");
        tokens
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.0.0.path()).env("SOFTHSM2_CONF", self.0.path("softhsm2.conf"));
        command
    }

    fn init(&self, label: &str) {
        let made = self
            .command("softhsm2-util")
            .args(["--init-token", "--free", "--label", label, "--pin", "4711", "--so-pin", "081500"])
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }

    fn put_pin(&self, text: &str) {
        fs::write(self.0.path("pin"), text).unwrap();
        fs::set_permissions(self.0.path("pin"), fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn run(&self, arguments: &str) -> Ran {
        // Without a terminal: nobody can be asked.
        let mut command = self.command("setsid");
        command.args(["--wait", env!("CARGO_BIN_EXE_frameward"), "fleet"]).args(arguments.split_whitespace());
        let Output { status, stdout, stderr } = command.stdin(Stdio::null()).output().unwrap();
        (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
    }

    fn done(&self, arguments: &str) -> String {
        let (status, stdout, stderr) = self.run(arguments);
        assert_eq!((status, stderr.as_str()), (Some(0), ""), "{arguments}: {stdout}");
        stdout
    }

    /// The one line of a command that fails.
    fn failed(&self, status: i32, arguments: &str) -> String {
        let (code, stdout, stderr) = self.run(arguments);
        assert_eq!((code, stdout.as_str()), (Some(status), ""), "{arguments}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        stderr
    }

    fn make(&self) -> String {
        let made = self.done(&format!("operator --out {KEY}"));
        made.trim().strip_prefix("operator = \"").unwrap().trim_end_matches('"').to_owned()
    }
}

fn apply() -> String {
    APPLY.replace("operator.key", KEY)
}

#[test]
fn a_key_that_never_leaves_its_token_signs_all_that_boxes_accept() {
    let tokens = Tokens::new("token-fleet");
    let fleet = &tokens.0;
    let operator = tokens.make();
    assert_eq!(tokens.done(&format!("operator --show {KEY}")), format!("operator = \"{operator}\"\n"));
    let again = tokens.failed(1, &format!("operator --out {KEY}"));
    assert!(again.contains("key \"operator\" of the token with token=fleet is there already"), "{again}");
    for name in ["press", "crane"] {
        fleet.identity(name);
        fleet.render(name, "1");
    }
    assert_eq!(tokens.done(&apply()).lines().filter(|line| line.ends_with(": new")).count(), 2);
    // Another process recognizes what the token has signed.
    let again = tokens.done(&apply());
    assert_eq!(again.matches(": unchanged, version ").count(), 2, "{again}");
    assert!(fleet.done(&fetch(&operator, "press")).ends_with(" installed\n"));
    fleet.render("press", "2");
    let changed = tokens.done(&apply());
    assert_eq!(changed.matches(": changed since version ").count(), 1, "{changed}");
    assert!(fleet.done(&fetch(&operator, "press")).ends_with(" installed\n"));
    // A bundle, too.
    let bundle = format!(
        "bundle lathe --for machine-id:0d --directory fleet.redb --signing-key {KEY} --identities identities --out lathe.bundle"
    );
    assert!(tokens.done(&bundle).contains("for lathe of the box"));
    // A version that somebody signs with a file is of another fleet.
    fleet.operator("other.key");
    fleet.done(&APPLY.replace("operator.key", "other.key"));
    assert!(fleet.done(&fetch(&operator, "press")).ends_with(" unchanged\n"));
}

/// Records that were published before the key was moved into a token are not recognized, so whether static keys changed is not known.
#[test]
fn static_keys_are_not_taken_for_new_while_nothing_is_recognized() {
    let tokens = Tokens::new("token-static");
    let fleet = &tokens.0;
    tokens.make();
    fleet.static_keys("press", "1");
    fleet.identity("press");
    fleet.identity("crane");
    tokens.done(&apply());
    fs::remove_file(fleet.path("press.key")).unwrap();
    fleet.identity("press");
    fleet.static_keys("press", "3");
    let new = format!("{} --static-keys-are-new", apply());
    let refused = tokens.run(&new);
    assert_eq!(refused.0, Some(1), "{refused:?}");
    assert!(refused.2.contains("as nothing in the directory is recognized"), "{refused:?}");
    // Another box is applied first: then the records are this key's.
    fleet.render("crane", "1");
    assert_eq!(tokens.run(&apply()).0, Some(1), "the press is refused");
    assert!(tokens.done(&new).contains(": has another identity than in version "));
}

#[test]
fn what_is_wrong_with_a_token_is_one_line_with_its_cure() {
    let tokens = Tokens::new("token-mistakes");
    tokens.make();
    tokens.0.identity("press");
    tokens.0.render("press", "1");
    let with = |from: &str, to: &str| tokens.failed(2, &apply().replace(from, to));
    let told = with("token=fleet", "token=flet");
    assert!(
        told.contains(
            "the token with token=flet is not there; put it in, or correct the URI: there are \"fleet\""
        ),
        "{told}"
    );
    let told = with("object=operator", "object=operater");
    assert!(
        told.contains("key \"operater\" of the token with token=fleet is not there; correct object= or id="),
        "{told}"
    );
    let told = with(MODULE, "/usr/lib/softhsm/none.so");
    assert!(told.contains("cannot load the PKCS#11 module /usr/lib/softhsm/none.so: "), "{told}");
    // A library that is none of PKCS#11.
    let told = with(MODULE, "libc.so.6");
    assert!(
        told.contains("cannot load the PKCS#11 module libc.so.6: ") && told.contains("C_GetFunctionList"),
        "{told}"
    );
    let told = with("&pin-source=pin", "");
    assert!(told.contains("wants its PIN, and nobody can be asked here; add pin-source=file:FILE"), "{told}");
    let told = with("pin-source=pin", "pin-value=4711");
    assert!(told.contains("has a PIN in it, which others can read") && !told.contains("4711"), "{told}");
    // Nor does the audit log keep it.
    let kept = tokens.0.audit().pop().unwrap();
    assert!(kept["reason"].as_str().unwrap().contains("has a PIN in it"), "{kept}");
    assert!(!format!("{}{}", kept["objects"], kept["reason"]).contains("4711"), "{kept}");
    tokens.put_pin("1234");
    let told = with("x", "x");
    assert!(told.contains("the token with token=fleet refuses the PIN; "), "{told}");
    tokens.put_pin("\n");
    assert!(with("x", "x").contains("pin: is empty, or longer than a PIN; put the PIN alone into the file"));
    fs::set_permissions(tokens.0.path("pin"), fs::Permissions::from_mode(0o644)).unwrap();
    let told = with("x", "x");
    assert!(told.contains("the PIN cannot be read: pin") && told.contains("600"), "{told}");
    fs::remove_file(tokens.0.path("pin")).unwrap();
    assert!(with("x", "x").contains("the PIN cannot be read: "));
    tokens.put_pin("4711");
    // A token of the same name, and no attribute that tells them apart.
    tokens.init("fleet");
    let told = with("x", "x");
    assert!(told.contains("there are several of the token with token=fleet; add serial="), "{told}");
    assert!(!tokens.0.path("fleet.redb").exists(), "nothing is published");
}

#[test]
fn a_key_of_another_kind_or_without_its_public_half_is_refused() {
    let tokens = Tokens::new("token-kinds");
    let tool = |arguments: &[&str]| {
        let login = ["--module", MODULE, "--token-label", "fleet", "--login", "--pin", "4711"];
        let done = tokens.command("pkcs11-tool").args(login).args(arguments).output().unwrap();
        assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    };
    tool(&["--keypairgen", "--key-type", "EC:prime256v1", "--label", "operator", "--id", "01"]);
    let told = tokens.failed(2, &format!("operator --show {KEY}"));
    assert!(told.contains("is no Ed25519 key that can sign; name another one"), "{told}");
    tool(&["--keypairgen", "--key-type", "EC:edwards25519", "--label", "second", "--id", "02"]);
    let second = KEY.replace("object=operator", "id=%02");
    let shown = tokens.done(&format!("operator --show {second}"));
    assert!(shown.starts_with("operator = \""), "one that others made is taken");
    tool(&["--delete-object", "--type", "pubkey", "--id", "02"]);
    let told = tokens.failed(2, &format!("operator --show {second}"));
    assert!(told.contains("key 02 of the token with token=fleet has no public key beside it"), "{told}");
}

#[test]
fn the_pin_is_typed_where_no_file_is_named_and_is_not_shown() {
    let tokens = Tokens::new("token-typed");
    let operator = tokens.make();
    let uri = KEY.replace("&pin-source=pin", "");
    let typed = |pin: &str| {
        let shown = format!("'{}' fleet operator --show '{uri}'", env!("CARGO_BIN_EXE_frameward"));
        let mut child = tokens
            .command("script")
            .args(["--quiet", "--return", "--command", &shown, "/dev/null"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // Input that comes before the program asks is flushed: it is typed when it has asked.
        let mut output = child.stdout.take().unwrap();
        let mut said = Vec::new();
        let mut octet = [0];
        while !said.ends_with(b"PIN of fleet: ") && std::io::Read::read(&mut output, &mut octet).unwrap() == 1
        {
            said.push(octet[0]);
        }
        child.stdin.as_mut().unwrap().write_all(pin.as_bytes()).unwrap();
        std::io::Read::read_to_end(&mut output, &mut said).unwrap();
        (child.wait().unwrap().code(), String::from_utf8(said).unwrap())
    };
    // With a key too many, taken back.
    let (status, said) = typed("4712\x7f1\n");
    assert!(status == Some(0) && said.contains(&operator), "{said}");
    // A key's digits may be any.
    assert!(!said.replace(&operator, "").contains("471"), "{said}");
    let (status, said) = typed("1234\n");
    assert!(status == Some(2) && said.contains("refuses the PIN"), "{said}");
    let (status, said) = typed("47\x03");
    assert!(status == Some(2) && said.contains("nobody can be asked here"), "{said}");
}

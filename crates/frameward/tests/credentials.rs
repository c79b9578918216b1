//! Keys that a configuration names as credentials of systemd, by the program.
#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests too")]

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Command;

use testkit::TestDirectory;

const LINK: &str = r#"[gateway]
name = "press"
[[link]]
name = "press"
plain = "fw-no-plain"
protected = "fw-no-prot"
[link.mka]
cak_file = "credential:press.cak"
"#;
const STATIC: &str = r#"[gateway]
name = "press"
[[link]]
name = "press"
plain = "fw-no-plain"
protected = "fw-no-prot"
suite = "gcm-aes-128"
[link.static]
an = 0
sci = "02:00:00:00:00:01/1"
key_file = "credential:press.key"
[[link.static.peer]]
an = 0
sci = "02:00:00:00:00:02/1"
key_file = "credential:peer.key"
"#;

fn frameward(directory: &Path, credentials: Option<&Path>, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_frameward"));
    command.args(arguments).current_dir(directory).env_remove("CREDENTIALS_DIRECTORY");
    if let Some(credentials) = credentials {
        command.env("CREDENTIALS_DIRECTORY", credentials);
    }
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

#[test]
fn a_link_takes_its_cak_from_a_credential() {
    let place = TestDirectory::new("credentials-link");
    let (here, credentials) = (place.path(), place.path().join("credentials"));
    fs::create_dir(&credentials).unwrap();
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    mode(&credentials, 0o700);
    let cak = credentials.join("press.cak");
    let made = frameward(here, None, &["keygen", "cak", "--out", "credentials/press.cak"]);
    assert_eq!(made.0, Some(0), "{}", made.1);
    // As systemd leaves it where the file system has access control lists. Only root's may be so.
    mode(&cak, if fs::metadata(&cak).unwrap().uid() == 0 { 0o440 } else { 0o400 });
    fs::write(here.join("press.toml"), LINK).unwrap();
    let check = |credentials| frameward(here, credentials, &["check", "--offline", "press.toml"]);
    let (status, told) = check(Some(credentials.as_path()));
    assert_eq!(status, Some(0), "{told}");
    let refused = |credentials, expected: &str| {
        let (status, told) = check(credentials);
        assert_eq!(status, Some(2), "{told}");
        assert!(told.contains(expected) && told.contains("press.toml:8"), "{told}");
    };
    refused(None, "credential:press.cak is a credential, and $CREDENTIALS_DIRECTORY is not set");
    refused(Some(here), "press.cak is no credential of this unit; add LoadCredentialEncrypted=");
    mode(&cak, 0o444);
    refused(Some(credentials.as_path()), "can be read by others (mode 0444)");
    fs::write(here.join("press.toml"), LINK.replace(":press.cak", ":../credentials/press.cak")).unwrap();
    refused(Some(credentials.as_path()), "is no name of a credential");
}

#[test]
fn static_keys_are_no_credentials() {
    let place = TestDirectory::new("credentials-static");
    fs::write(place.path().join("press.toml"), STATIC).unwrap();
    let (status, told) = frameward(place.path(), Some(place.path()), &["check", "--offline", "press.toml"]);
    assert_eq!(status, Some(2), "{told}");
    assert_eq!(told.matches("static keys cannot be credentials").count(), 2, "{told}");
}

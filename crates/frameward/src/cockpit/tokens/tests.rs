use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use testkit::TestDirectory;

use super::*;

#[test]
fn a_token_that_was_made_is_known_and_its_file_does_not_have_it() {
    let place = TestDirectory::new("cockpit-tokens");
    let path = place.path().join("viewers");
    let (anna, bert) = (add(&path, "anna").unwrap(), add(&path, "bert").unwrap());
    assert_ne!(*anna, *bert);
    let text = fs::read_to_string(&path).unwrap();
    assert!(!text.contains(anna.as_str()) && text.starts_with("anna viewer "), "{text}");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let tokens = Tokens::read(&path).unwrap();
    assert!(tokens.has(&anna) && tokens.has(&bert) && tokens.has(&anna.to_uppercase()));
    let hash = text.split_whitespace().nth(2).unwrap();
    for other in ["", "anna", hash, &anna[..62], &format!("{}00", anna.as_str()), &"0".repeat(64)] {
        assert!(!tokens.has(other), "{other}");
    }
    // Without its line it is none any more.
    fs::write(&path, text.lines().nth(1).unwrap()).unwrap();
    assert!(!Tokens::read(&path).unwrap().has(&anna) && Tokens::read(&path).unwrap().has(&bert));
}

#[test]
fn a_file_with_a_mistake_is_refused_with_its_line_and_cure() {
    let place = TestDirectory::new("cockpit-tokens-mistakes");
    let path = place.path().join("viewers");
    let hash = "a".repeat(64);
    for (text, mode, expected) in [
        (format!("anna viewer {hash}\n"), 0o644, "viewers can be read by others (mode 0644); chmod 600"),
        (String::new(), 0o600, "has no token, so nobody could look"),
        ("# nobody\n\n".to_owned(), 0o600, "has no token, so nobody could look"),
        (format!("\nanna operator {hash}\n"), 0o600, "viewers:2: \"operator\" is no role"),
        ("anna viewer secret\n".to_owned(), 0o600, "viewers:1: the third word is no SHA-256"),
        (format!("anna {hash}\n"), 0o600, "viewers:1: a line is: NAME viewer SHA-256"),
        (format!("anna viewer {hash} more\n"), 0o600, "viewers:1: a line is: NAME viewer SHA-256"),
    ] {
        fs::write(&path, &text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let why = Tokens::read(&path).unwrap_err();
        assert!(why.contains(expected) && why.lines().count() == 1, "{text:?}: {why}");
    }
    fs::write(&path, format!("anna viewer {hash} # until summer\n")).unwrap();
    assert!(Tokens::read(&path).is_ok());
    assert!(
        add(&place.path().join("none/viewers"), "anna")
            .unwrap_err()
            .contains("name a file that this user can write")
    );
}

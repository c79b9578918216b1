use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use testkit::TestDirectory;

use super::*;

#[test]
fn a_token_that_was_made_is_known_and_its_file_does_not_have_it() {
    let place = TestDirectory::new("cockpit-tokens");
    let path = place.path().join("viewers");
    let (anna, bert) = (add(&path, "anna", Role::Viewer).unwrap(), add(&path, "bert", Role::Signer).unwrap());
    assert_ne!(*anna, *bert);
    let text = fs::read_to_string(&path).unwrap();
    assert!(!text.contains(anna.as_str()) && text.starts_with("anna viewer "), "{text}");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let tokens = Tokens::read(&path).unwrap();
    let owner = |token: &str| {
        let who = tokens.of_token(token);
        who.map(|who| (who.name.clone().unwrap(), who.role))
    };
    assert_eq!(owner(&anna), Some(("anna".to_owned(), Role::Viewer)));
    assert_eq!((owner(&anna.to_uppercase()), owner(&bert).unwrap().1), (owner(&anna), Role::Signer));
    let hash = text.split_whitespace().nth(2).unwrap();
    for other in ["", "anna", hash, &anna[..62], &format!("{}00", anna.as_str()), &"0".repeat(64)] {
        assert_eq!(owner(other), None, "{other}");
    }
    // Without its line it is none any more.
    fs::write(&path, text.lines().nth(1).unwrap()).unwrap();
    let tokens = Tokens::read(&path).unwrap();
    assert!(tokens.of_token(&anna).is_none() && tokens.of_token(&bert).is_some());
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
        (format!("\nanna admin {hash}\n"), 0o600, "viewers:2: \"admin\" is no role; write viewer"),
        (format!("Anna viewer {hash}\n"), 0o600, "viewers:1: \"Anna\" is no name"),
        ("anna viewer secret\n".to_owned(), 0o600, "viewers:1: the third word is no SHA-256"),
        (format!("anna {hash}\n"), 0o600, "viewers:1: a line is: NAME ROLE SHA-256"),
        (format!("anna viewer {hash} more\n"), 0o600, "viewers:1: a line is: NAME ROLE SHA-256"),
        (
            format!("anna viewer {hash}\n\nbert signer {}\n", "AA:".repeat(31) + "AA"),
            0o600,
            "viewers:3: this token or certificate has a line already, as anna viewer; remove one",
        ),
        (
            format!("anna viewer {hash}\nanna signer {}\n", "b".repeat(64)),
            0o600,
            "viewers:2: anna is signer here, and viewer in another line; remove the other line",
        ),
    ] {
        fs::write(&path, &text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let why = Tokens::read(&path).unwrap_err();
        assert!(why.contains(expected) && why.lines().count() == 1, "{text:?}: {why}");
    }
    fs::write(&path, format!("anna viewer {hash} # until summer\n")).unwrap();
    assert!(Tokens::read(&path).is_ok());
    assert!(
        add(&place.path().join("none/viewers"), "anna", Role::Viewer)
            .unwrap_err()
            .contains("name a file that this user can write")
    );
}

#[test]
fn a_file_that_is_not_there_is_to_be_made() {
    let why = Tokens::read(Path::new("none/viewers")).unwrap_err();
    assert!(
        why.ends_with("there is no such file; make a token: frameward fleet token NAME --to none/viewers"),
        "{why}"
    );
}

/// A certificate is known by what openssl x509 -fingerprint -sha256 prints of it.
#[test]
fn a_certificate_has_a_role_by_its_fingerprint() {
    let place = TestDirectory::new("cockpit-tokens-certificates");
    let path = place.path().join("viewers");
    let der = b"not looked into";
    let hash: [u8; 32] = Sha256::digest(der).into();
    let printed: Vec<_> = hash.iter().map(|octet| format!("{octet:02X}")).collect();
    fs::write(&path, format!("bert operator {}\n", printed.join(":"))).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let tokens = Tokens::read(&path).unwrap();
    assert_eq!(tokens.of(&hash).map(|who| who.role), Some(Role::Operator));
    assert_eq!(tokens.of_token(&hex::encode(hash)), None, "the hash of something is no token");
}

/// A person who is in the file twice has one role, and a token or certificate has one owner.
#[test]
fn a_second_line_that_says_otherwise_is_not_added() {
    let place = TestDirectory::new("cockpit-tokens-twice");
    let path = place.path().join("viewers");
    let first = add(&path, "anna", Role::Viewer).unwrap();
    let before = fs::read_to_string(&path).unwrap();
    let why = add(&path, "anna", Role::Signer).unwrap_err();
    assert!(why.contains("viewers: anna is signer here, and viewer in another line; remove"), "{why}");
    let hash = Sha256::digest(hex::decode(first.as_str()).unwrap()).into();
    let why = add_line(&path, "bert", Role::Signer, &hash).unwrap_err();
    assert!(why.contains("viewers: this token or certificate has a line already, as anna viewer"), "{why}");
    assert_eq!(fs::read_to_string(&path).unwrap(), before, "nothing was added");
    // A second token with the same role is no contradiction, also behind a line without its end.
    fs::write(&path, before.trim_end()).unwrap();
    let second = add(&path, "anna", Role::Viewer).unwrap();
    let tokens = Tokens::read(&path).unwrap();
    assert!([first, second].iter().all(|token| tokens.of_token(token).is_some()));
}

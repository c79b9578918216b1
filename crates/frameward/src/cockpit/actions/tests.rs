use suite::identity::PublicKey;

use super::*;

fn actions(signing: Option<SigningFiles>) -> Actions {
    let sources = Sources {
        fleet: PublicKey([1; 32]),
        directory: "fleet.redb".parse().unwrap(),
        identities: "identities".into(),
        inventory: "inventory".into(),
    };
    Actions::new(sources, signing)
}

fn signing() -> SigningFiles {
    SigningFiles { key: "operator.key".into(), rendering: "rendering".into(), keys: None }
}

#[test]
fn a_body_is_of_its_address_or_refused() {
    let code = "1234-5678-9012-3456";
    for (goal, body, expected) in [
        (Goal::Approve, format!(r#"{{"code":" {code} "}}"#), Ok(Change::Approve(code.parse().unwrap()))),
        (Goal::Approve, "{}".to_owned(), Err("the body is of another request")),
        (Goal::Approve, r#"{"code":"1234"}"#.to_owned(), Err("this is no code of a box")),
        (Goal::Approve, format!(r#"{{"code":"{code}","bundle":true}}"#), Err("the body is no such JSON")),
        (
            Goal::Note,
            r#"{"text":" the cable is replaced "}"#.to_owned(),
            Ok(Change::Note("the cable is replaced".to_owned())),
        ),
        (Goal::Note, r#"{"text":"  "}"#.to_owned(), Err("this is no note")),
        (Goal::Note, r#"{"text":"two\nlines"}"#.to_owned(), Err("this is no note")),
        (Goal::Note, format!(r#"{{"text":"{}"}}"#, "x".repeat(401)), Err("this is no note")),
        (Goal::Rotate, "{}".to_owned(), Ok(Change::Rotate)),
        (Goal::Rotate, String::new(), Err("the body is no such JSON")),
        (Goal::Rotate, r#"{"confirm":"press"}"#.to_owned(), Err("the body is of another request")),
        (Goal::Revoke, r#"{"confirm":"press"}"#.to_owned(), Ok(Change::Revoke)),
        (Goal::Revoke, r#"{"confirm":"crane"}"#.to_owned(), Err("was not confirmed")),
        (Goal::Revoke, "{}".to_owned(), Err("was not confirmed")),
    ] {
        let got = change(goal, "press", body.as_bytes());
        match expected {
            Ok(expected) => assert_eq!(got, Ok(expected), "{body}"),
            Err(cause) => assert!(
                got.as_ref()
                    .is_err_and(|(status, why, _)| *status == StatusCode::BAD_REQUEST && why.contains(cause)),
                "{body}: {got:?}"
            ),
        }
    }
}

/// The page shows these, and no other button.
#[test]
fn who_may_order_what_is_told() {
    let may = |role, signing| actions(signing).view(Who { name: None, role }).may;
    assert_eq!(may(Role::Viewer, Some(signing())), [""; 0]);
    assert_eq!(may(Role::Operator, Some(signing())), ["note", "stop"]);
    assert_eq!(may(Role::Signer, None), ["note", "stop", "approve"]);
    assert_eq!(may(Role::Signer, Some(signing())), ["note", "stop", "approve", "rotate", "revoke"]);
}

/// Words of a request are operands, whatever they begin with.
#[test]
fn no_word_of_a_request_becomes_a_switch() {
    let note = Change::Note("--operator=x".to_owned());
    for (change, object, operands) in [
        (note, "press", vec!["--operator=x"]),
        (
            Change::Approve("1234-5678-9012-3456".parse().unwrap()),
            "press",
            vec!["press", "1234-5678-9012-3456"],
        ),
        (Change::Rotate, "--due", vec!["--due", "inventory"]),
        (Change::Revoke, "--now", vec!["--now", "inventory"]),
    ] {
        let command = actions(Some(signing())).command(&change, object, "anna").unwrap();
        let arguments: Vec<_> = command.get_args().map(|one| one.to_str().unwrap()).collect();
        assert_eq!(arguments[..2], ["fleet", change.word()]);
        let end = arguments.iter().position(|one| *one == "--").unwrap();
        assert_eq!(arguments[end + 1..], operands);
        let by = arguments.iter().position(|one| *one == "--by").unwrap();
        assert_eq!(arguments[by + 1], "anna");
    }
    let refused = actions(None).command(&Change::Rotate, "line", "anna");
    assert!(refused.is_err_and(
        |(_, cause, cure)| cause.contains("no signing key") && cure.contains("fleet rotate line")
    ));
}

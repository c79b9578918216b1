use std::os::unix::ffi::OsStrExt as _;

use fleet::directory::Address;
use suite::identity::PublicKey;

use super::super::routes::Goal;
use super::*;

/// The longest time that anything takes here.
const DEADLINE: Duration = Duration::from_secs(20);

fn actions(signing: Option<SigningFiles>) -> Actions {
    actions_in("fleet.redb".parse().unwrap(), signing)
}

fn actions_in(directory: Address, signing: Option<SigningFiles>) -> Actions {
    let sources = Sources {
        fleet: PublicKey([1; 32]),
        directory,
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
        assert!(arguments[..end].contains(&"--by=anna"), "{arguments:?}");
    }
    let refused = actions(None).command(&Change::Rotate, "line", "anna");
    assert!(refused.is_err_and(
        |(_, cause, cure)| cause.contains("no signing key") && cure.contains("fleet rotate line")
    ));
}

/// The command speaks with the directory of the server, whatever its address is.
#[test]
fn a_command_gets_the_whole_address_of_the_directory() {
    let given = |address: Address, change: &Change| {
        let command = actions_in(address, Some(signing())).command(change, "press", "anna").unwrap();
        let prefix = b"--directory=";
        let mut arguments = command.get_args().map(OsStr::as_bytes);
        arguments.find_map(|one| one.strip_prefix(prefix)).map(<[u8]>::to_vec).unwrap()
    };
    let approve = Change::Approve("1234-5678-9012-3456".parse().unwrap());
    for change in [approve, Change::Rotate, Change::Revoke] {
        for text in [
            "fleet.redb",
            "-fleet.redb",
            "/srv/fleet?ca=x",
            "etcd://a",
            "etcd://a:1,[::1]:3",
            "etcds://a?ca=ca.pem",
            "etcds://a,b:1?key=k=k.pem&ca=/etc/ca.pem&certificate=c.pem",
        ] {
            let address: Address = text.parse().unwrap();
            let got = String::from_utf8(given(address.clone(), &change)).unwrap();
            assert_eq!(got.parse::<Address>(), Ok(address), "{text}: {got}");
        }
        // Paths are octets.
        let path = OsStr::from_bytes(b"fl\xffeet.redb");
        assert_eq!(given(Address::File(path.into()), &change), path.as_bytes());
    }
}

fn who(name: &str) -> Who {
    Who { name: Some(name.to_owned()), role: Role::Signer }
}

/// Starts a script in place of a command. Its number.
fn begun(actions: &Actions, script: &str) -> u64 {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    actions.start(command, "rotate", "line", &who("anna")).unwrap()
}

/// The newest action, once it has ended, and its lines.
fn ended(actions: &Actions) -> (ActionView, Vec<String>) {
    let since = Instant::now();
    loop {
        let view = actions.view(who("anna")).actions.pop().unwrap();
        if view.state != ActionState::Running {
            let lines = serde_json::from_value(serde_json::to_value(&view.lines).unwrap()).unwrap();
            return (view, lines);
        }
        assert!(since.elapsed() < DEADLINE, "{view:?}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// The cause of an error stands in the last line.
#[test]
fn the_end_of_a_long_output_is_shown() {
    let actions = actions(None);
    begun(
        &actions,
        "for i in 1 2 3 4 5 6 7 8 9 10; do printf '%s\\n' a b c d e f g h i j; done; echo cause >&2; exit 1",
    );
    let (view, lines) = ended(&actions);
    assert_eq!(view.state, ActionState::Failed);
    assert_eq!((lines[0].as_str(), lines.last().unwrap().as_str()), ("a", "cause"), "{lines:?}");
    assert!(lines.contains(&"(lines left out here: 37)".to_owned()), "{lines:?}");
}

/// A command that says nothing any more runs nevertheless, and can be stopped; the first who stops it is named.
#[test]
fn a_command_that_closes_its_output_has_not_ended() {
    let actions = actions(None);
    let number = begun(&actions, "exec >/dev/null 2>&1; exec sleep 60").to_string();
    thread::sleep(Duration::from_millis(500));
    let since = Instant::now();
    assert_eq!(actions.view(who("anna")).actions[0].state, ActionState::Running);
    assert!(actions.stop(&number, &who("bert")).is_ok());
    let _ = actions.stop(&number, &who("carl"));
    let (view, _) = ended(&actions);
    assert_eq!((view.state, view.stopped_by.as_deref()), (ActionState::Stopped, Some("bert")));
    assert!(since.elapsed() < DEADLINE);
}

/// A process that a command leaves behind holds its output open.
#[test]
fn a_command_has_ended_though_another_one_holds_its_output() {
    let actions = actions(None);
    let since = Instant::now();
    begun(&actions, "sleep 30 & echo last");
    let (view, lines) = ended(&actions);
    assert_eq!((view.state, lines), (ActionState::Done, vec!["last".to_owned()]));
    assert!(since.elapsed() < DEADLINE);
}

/// One that fails by itself was stopped by nobody, and no signal goes to a number that is no longer its own.
#[test]
fn what_has_ended_is_not_stopped() {
    let actions = actions(None);
    let mut child = Command::new("false").spawn().unwrap();
    child.wait().unwrap();
    let lines = Lines::default();
    let (time, by) = (1, Some("anna".to_owned()));
    let view = ActionView {
        number: 1,
        time,
        ended: None,
        by,
        action: "revoke",
        object: "press".to_owned(),
        state: ActionState::Running,
        stopped_by: None,
        lines,
    };
    locked(&actions.state).remember(view);
    locked(&actions.state).running = Some((1, Some(child)));
    let refused = |actions: &Actions| {
        let refused = actions.stop("1", &who("bert"));
        assert!(
            refused.as_ref().is_err_and(|(status, cause, _)| {
                *status == StatusCode::NOT_FOUND && cause == "action 1 has ended"
            }),
            "{refused:?}"
        );
    };
    refused(&actions);
    assert_eq!(locked(&actions.state).ended(), Some(ActionState::Failed));
    refused(&actions);
    locked(&actions.state).close(ActionState::Failed);
    let view = actions.view(who("anna")).actions.pop().unwrap();
    assert_eq!((view.state, view.stopped_by), (ActionState::Failed, None));
}

/// Whoever writes notes does not hide what others ordered.
#[test]
fn notes_push_out_notes_alone() {
    let mut state = State::default();
    let mut number = 0;
    let mut remember = |action: &'static str, times: usize| {
        for _ in 0..times {
            number += 1;
            state.remember(ActionView {
                number,
                time: 1,
                ended: Some(1),
                by: None,
                action,
                object: "press".to_owned(),
                state: ActionState::Done,
                stopped_by: None,
                lines: Lines::default(),
            });
        }
    };
    remember("revoke", 1);
    remember(NOTE, 2 * REMEMBERED);
    remember("rotate", REMEMBERED - 1);
    assert_eq!(state.actions[0].action, "revoke");
    assert_eq!(state.actions.len(), REMEMBERED + NOTES_REMEMBERED);
    assert!(state.actions.iter().is_sorted_by_key(|view| view.number), "the newest comes last");
}

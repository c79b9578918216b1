use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::sync::atomic::AtomicUsize;
use std::time::Instant;

use nix::unistd::getegid;

use super::*;
use crate::samples::sample;
use testkit::TestDirectory;

fn answer(request: Request) -> Reply<GatewayReport> {
    match request {
        Request::Status {} => Reply::Report(sample("line")),
        Request::Reload { dry_run } => Reply::Done(vec![format!("dry_run {dry_run}")]),
        Request::Clear {} | Request::Upgrade {} => Reply::Done(Vec::new()),
        Request::HandOver { site } => Reply::Refused(vec![format!("no site {site}")]),
        Request::Rekey { link } => Reply::Refused(vec![format!("no link {link}")]),
    }
}

/// Answers to these lines.
fn answers(may: bool, lines: &str) -> Vec<String> {
    let (mut client, server) = UnixStream::pair().unwrap();
    client.write_all(lines.as_bytes()).unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    let serving = std::thread::spawn(move || {
        let readers = Readers::default();
        converse(&server, (!may).then_some(&readers), &answer)
    });
    let mut text = String::new();
    // Input that the server has not read resets the connection.
    let _ = client.read_to_string(&mut text);
    serving.join().unwrap().unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn each_line_is_a_request_and_has_one_answer() {
    let lines = "{\"request\":\"status\"}\n{\"request\":\"reload\"}\n{\"request\":\"reload\",\"dry_run\":true}\n\
                 {\"request\":\"rekey\",\"link\":\"press\"}\n";
    let told = answers(true, lines);
    assert!(told[0].starts_with("{\"report\":{\"name\":\"line\","), "{}", told[0]);
    assert_eq!(
        told[1..],
        [
            "{\"done\":[\"dry_run false\"]}",
            "{\"done\":[\"dry_run true\"]}",
            "{\"refused\":[\"no link press\"]}"
        ]
    );
}

#[test]
fn who_may_only_read_changes_nothing() {
    let changes = [
        "{\"request\":\"reload\"}\n",
        "{\"request\":\"reload\",\"dry_run\":true}\n",
        "{\"request\":\"rekey\",\"link\":\"press\"}\n",
        "{\"request\":\"clear\"}\n",
    ];
    for line in changes {
        assert_eq!(
            answers(false, line),
            ["{\"error\":\"only root and the gateway's own user may do that\"}"]
        );
        assert!(!answers(true, line)[0].contains("error"));
    }
    assert!(answers(false, "{\"request\":\"status\"}\n")[0].starts_with("{\"report\":"));
    // Of a gateway that runs as user 990.
    let may = [0, 990, 1000, 65534].map(|uid| may_change(uid, 990));
    assert_eq!(may, [true, true, false, false]);
}

/// However many connections, and however many requests: reports are made as often as one reader may ask.
#[test]
fn readers_who_ask_without_pause_have_few_reports_made() {
    let (readers, made, begin) = (Readers::default(), AtomicUsize::new(0), Instant::now());
    let count = |request| {
        made.fetch_add(1, Ordering::Relaxed);
        answer(request)
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let (mut client, server) = UnixStream::pair().unwrap();
            client.write_all("{\"request\":\"status\"}\n".repeat(5).as_bytes()).unwrap();
            client.shutdown(std::net::Shutdown::Write).unwrap();
            let (readers, count) = (&readers, &count);
            scope.spawn(move || converse(&server, Some(readers), count).unwrap());
            scope.spawn(move || {
                let mut text = String::new();
                client.read_to_string(&mut text).unwrap();
                assert_eq!(text.matches("{\"report\":").count(), 5);
            });
        }
    });
    let took = begin.elapsed();
    assert!(took >= FRESH * 4, "five answers in {took:?}");
    let most = took.as_millis() / FRESH.as_millis() + 1;
    assert!(made.into_inner() as u128 <= most, "at most {most} in {took:?}");
}

#[test]
fn whatever_else_is_said_is_no_request() {
    for line in [
        "stop\n",
        "{}\n",
        "\n",
        "{\"request\":\"stop\"}\n",
        "{\"request\":\"status\",\"x\":1}\n",
        "{\"request\":\"rekey\"}\n",
        "[[[[[[\n",
    ] {
        let told = answers(true, line);
        assert!(
            told.len() == 1 && told[0].starts_with("{\"error\":\"this release does not know the request"),
            "{line:?}: {told:?}"
        );
    }
    // No line, or more of one than is read.
    for line in ["", "{\"request\":\"status\"}", &"[".repeat(1000)] {
        assert_eq!(answers(true, line), Vec::<String>::new());
    }
}

#[test]
fn clients_that_are_silent_hold_up_nobody() {
    let directory = TestDirectory::new("control-silent");
    let _server = ControlSocket::serve(directory.path(), "line", answer).unwrap();
    let path = socket_path(directory.path(), "line");
    let _silent: Vec<_> = (1..CONNECTIONS_OF_ONE).map(|_| UnixStream::connect(&path).unwrap()).collect();
    let began = Instant::now();
    crate::ask(directory.path(), "line").unwrap();
    assert!(began.elapsed() < PATIENCE / 2, "{:?}", began.elapsed());
}

#[test]
fn a_silent_client_is_closed_after_a_second() {
    let directory = TestDirectory::new("control-closed");
    let _server = ControlSocket::serve(directory.path(), "line", answer).unwrap();
    let mut silent = UnixStream::connect(socket_path(directory.path(), "line")).unwrap();
    silent.set_read_timeout(Some(10 * PATIENCE)).unwrap();
    let began = Instant::now();
    assert_eq!(silent.read(&mut [0; 1]).unwrap(), 0);
    assert!(began.elapsed() >= PATIENCE / 2, "{:?}", began.elapsed());
}

#[test]
fn readers_together_leave_room_for_root_and_the_gateways_user() {
    let (served, own) = (Served::default(), 990);
    let take = |uid| Place::take(&served, uid, own);
    let one: Vec<_> = (0..20).filter_map(|_| take(1000)).collect();
    assert_eq!(one.len(), CONNECTIONS_OF_ONE);
    let others: Vec<_> = (0..100).filter_map(|number| take(2000 + number)).collect();
    assert_eq!(one.len() + others.len(), CONNECTIONS);
    let kept = [take(0), take(own)];
    assert!(kept.iter().all(Option::is_some));
    assert!(take(3000).is_none());
    drop(one);
    assert!(take(3000).is_some(), "a place is free again");
}

#[test]
fn the_socket_is_for_its_user_and_its_group() {
    let directory = TestDirectory::new("control-mode");
    let _server = ControlSocket::serve(directory.path(), "line", answer).unwrap();
    let socket = fs::metadata(socket_path(directory.path(), "line")).unwrap();
    assert_eq!(socket.permissions().mode() & 0o777, 0o660);
    let groups = fs::read_to_string("/etc/group").unwrap();
    assert_eq!(socket.gid(), group_number(&groups, STATUS_GROUP).unwrap_or(getegid().as_raw()));
}

#[test]
fn a_group_is_found_by_its_whole_name() {
    let groups = "root:x:0:\nframeward:x:990:\nframeward-status:x:991:frameward,anna\n\nbroken\nfar:x:no:\n";
    let numbers = ["frameward", STATUS_GROUP, "frameward-statu", "far", "broken", ""]
        .map(|name| group_number(groups, name));
    assert_eq!(numbers, [Some(990), Some(991), None, None, None, None]);
}

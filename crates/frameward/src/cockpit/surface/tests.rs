use std::collections::BTreeMap;
use std::path::Path;

use suite::identity::PublicKey;

use super::super::logs::Heads;
use super::super::tokens::Role;
use super::*;

/// Neither the overview nor "nothing has changed", to who has seen one.
#[test]
fn a_controller_that_does_not_look_any_more_says_so() {
    let fleet = PublicKey([1; 32]);
    let audit = move || Audit::new(Path::new("none"), Ok(Heads::new()), fleet);
    let surface = Surface::new(Layout::default(), audit);
    let show = || {
        let overview = Overview::new(fleet, &Layout::default(), &BTreeMap::new(), 1_000);
        surface.show(overview, DirectoryView::default(), Vec::new());
    };
    show();
    let first = surface.overview(&Request::get("/api/overview").body(()).unwrap());
    assert_eq!(first.status(), StatusCode::OK);
    let again = Request::get("/api/overview").header(IF_NONE_MATCH, &first.headers()[ETAG]).body(()).unwrap();
    assert_eq!(surface.overview(&again).status(), StatusCode::NOT_MODIFIED);
    locked(&surface.board).age(Duration::from_secs(10));
    assert_eq!(surface.overview(&again).status(), StatusCode::SERVICE_UNAVAILABLE);
    show();
    assert_eq!(surface.overview(&again).status(), StatusCode::OK);
}

/// Each page that is open asks for them every few seconds.
#[test]
fn actions_that_the_caller_has_are_not_sent_again() {
    let fleet = PublicKey([1; 32]);
    let surface =
        Surface::new(Layout::default(), move || Audit::new(Path::new("none"), Ok(Heads::new()), fleet));
    let ask = |role, known: Option<&HeaderValue>| {
        let headers = known.map(|tag| (IF_NONE_MATCH, tag.clone())).into_iter().collect();
        surface.of_actions(&headers, Who { name: None, role })
    };
    let first = ask(Role::Viewer, None);
    assert_eq!(first.status(), StatusCode::OK);
    let tag = &first.headers()[ETAG];
    assert_eq!(ask(Role::Viewer, Some(tag)).status(), StatusCode::NOT_MODIFIED);
    // Another answer, as to somebody who has another role, has another tag.
    let other = ask(Role::Signer, Some(tag));
    assert_eq!(other.status(), StatusCode::OK);
    assert_ne!(&other.headers()[ETAG], tag);
}

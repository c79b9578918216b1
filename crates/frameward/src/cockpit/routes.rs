//! Addresses of the API, each with the role that it needs. The table is the one that answers, and a test goes through all of it with each role.

use hyper::Method;

use super::tokens::Role;

/// An address.
#[derive(Debug)]
pub(super) struct Route {
    /// `GET`, which `HEAD` is taken for, or `POST`.
    pub(super) method: Method,
    /// The path. `{name}` is the name of a gateway or connection, or the number of an action.
    pub(super) path: &'static str,
    /// The role that it needs; none: whoever asks.
    pub(super) role: Option<Role>,
    /// Content of the answer.
    pub(super) goal: Goal,
}

/// Content of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Goal {
    Description,
    Overview,
    History,
    Audit,
    Actions,
    Status,
    Note,
    Stop,
    Approve,
    Rotate,
    Revoke,
}

/// A route for a request.
#[derive(Debug)]
pub(super) enum Found<'p> {
    /// A route, and the name in the path.
    Route(&'static Route, &'p str),
    /// The path is there for this method alone.
    OtherMethod(&'static str),
    /// No such path.
    Nothing,
}

const fn read(path: &'static str, goal: Goal) -> Route {
    Route { method: Method::GET, path, role: Some(Role::Viewer), goal }
}

const fn change(path: &'static str, role: Role, goal: Goal) -> Route {
    Route { method: Method::POST, path, role: Some(role), goal }
}

/// All addresses below `/api/`.
pub(super) static ROUTES: [Route; 11] = [
    Route { method: Method::GET, path: "/api/openapi.json", role: None, goal: Goal::Description },
    read("/api/overview", Goal::Overview),
    read("/api/history", Goal::History),
    read("/api/audit", Goal::Audit),
    read("/api/actions", Goal::Actions),
    read("/api/gateways/{name}/status", Goal::Status),
    change("/api/gateways/{name}/note", Role::Operator, Goal::Note),
    change("/api/actions/{name}/stop", Role::Operator, Goal::Stop),
    change("/api/gateways/{name}/approve", Role::Signer, Goal::Approve),
    change("/api/connections/{name}/rotate", Role::Signer, Goal::Rotate),
    change("/api/gateways/{name}/revoke", Role::Signer, Goal::Revoke),
];

/// The route of a request.
pub(super) fn find<'p>(method: &Method, path: &'p str) -> Found<'p> {
    let Some((route, name)) = ROUTES.iter().find_map(|route| Some((route, name_in(route.path, path)?)))
    else {
        return Found::Nothing;
    };
    match (route.method == Method::POST, method) {
        (false, &Method::GET | &Method::HEAD) | (true, &Method::POST) => Found::Route(route, name),
        (false, _) => Found::OtherMethod("GET, HEAD"),
        (true, _) => Found::OtherMethod("POST"),
    }
}

/// The name in a path, if it is of this form.
fn name_in<'p>(form: &str, path: &'p str) -> Option<&'p str> {
    match form.split_once("{name}") {
        None => (form == path).then_some(""),
        Some((before, behind)) => path.strip_prefix(before)?.strip_suffix(behind),
    }
}

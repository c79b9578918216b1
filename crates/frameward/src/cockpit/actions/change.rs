//! Changes that can be ordered, out of requests.

use hyper::StatusCode;

use super::super::routes::Goal;
use super::{NOTE, Refused};

/// The longest note, in characters.
const LONGEST_NOTE: usize = 400;

/// A change, ready to be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::cockpit) enum Change {
    /// Takes the box that shows this code into the fleet.
    Approve(fleet::Code),
    /// Gives a link, group, cell or tunnel a new key.
    Rotate,
    /// Has nobody speak with a gateway any more.
    Revoke,
    /// Writes a line into the audit log.
    Note(String),
}

impl Change {
    pub(super) const fn word(&self) -> &'static str {
        match self {
            Self::Approve(_) => "approve",
            Self::Rotate => "rotate",
            Self::Revoke => "revoke",
            Self::Note(_) => NOTE,
        }
    }
}

/// A change out of a request's body.
///
/// # Errors
/// [`Refused`]: the body is something else.
pub(in crate::cockpit) fn change(goal: Goal, object: &str, body: &[u8]) -> Result<Change, Refused> {
    #[derive(serde::Deserialize, Default)]
    #[serde(deny_unknown_fields, default)]
    struct Body {
        code: Option<String>,
        text: Option<String>,
        confirm: Option<String>,
    }
    let wrong = |cause: String, cure: &str| Err((StatusCode::BAD_REQUEST, cause, cure.to_owned()));
    let body: Body = match serde_json::from_slice(body) {
        Ok(body) => body,
        Err(error) => return wrong(format!("the body is no such JSON: {error}"), "see /api/openapi.json"),
    };
    match (goal, body) {
        (Goal::Approve, Body { code: Some(code), text: None, confirm: None }) => match code.trim().parse() {
            Ok(code) => Ok(Change::Approve(code)),
            Err(_) => wrong("this is no code of a box".to_owned(), "type the 16 digits that the box shows"),
        },
        (Goal::Note, Body { text: Some(text), code: None, confirm: None }) => {
            let text = text.trim();
            let is_text = (1..=LONGEST_NOTE).contains(&text.chars().count());
            match is_text && !text.chars().any(char::is_control) {
                true => Ok(Change::Note(text.to_owned())),
                false => wrong("this is no note".to_owned(), "write a line of up to 400 characters"),
            }
        }
        (Goal::Rotate, Body { code: None, text: None, confirm: None }) => Ok(Change::Rotate),
        (Goal::Revoke, Body { confirm: Some(confirm), code: None, text: None }) if confirm == object => {
            Ok(Change::Revoke)
        }
        (Goal::Revoke, _) => wrong(
            "a revocation was not confirmed".to_owned(),
            "repeat the gateway's name: { \"confirm\": NAME }",
        ),
        _ => wrong("the body is of another request".to_owned(), "see /api/openapi.json"),
    }
}

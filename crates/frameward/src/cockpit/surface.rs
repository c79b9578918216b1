//! Content of the server, and a request's answer.
//!
//! | request | answer |
//! |---|---|
//! | a `Host` that is neither an IP address, `localhost`, this machine's name nor a name of `--host` | 421 |
//! | `/api/...` in the name of another site's page (`Sec-Fetch-Site`, `Origin`) | 403 |
//! | `/` | the page, which holds nothing of the fleet: it asks for the rest, and for a token if one is demanded |
//! | no address of the [table](super::routes::ROUTES), or another method than its own | 404, 405 |
//! | without a token or certificate, where those are demanded | 401 |
//! | a role that may less than the address needs | 403 |
//! | `/api/overview`, `/api/history`, `/api/audit`, `/api/actions` | the fleet; 304 if the client has that overview or those actions, 503 before the directory was read, or if nobody has looked for long |
//! | `/api/gateways/NAME/status` | that gateway's own status; 404, 502, 503 |
//! | POST of something else than JSON, or of too much | 415, 413 |
//! | POST of a change | 202 and its number; 400, 403, 404, 409 |
//!
//! A token goes into the field `Authorization`, which no form and no image of another site can send; there are no cookies. A browser shows a client
//! certificate by itself: [access](super::access) says why no other site can use it.

use std::error::Error;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Body, Bytes};
use hyper::header::{ALLOW, ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH, WWW_AUTHENTICATE};
use hyper::{Request, Response, StatusCode};
use inventory::Layout;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::access::{Access, Client, is_json, is_of_another_site};
use super::actions::{self, Actions, Refused};
use super::board::{Board, DirectoryView, NOT_LOOKED, Seen, document};
use super::follow::locked;
use super::gateway_status;
use super::logs::Audit;
use super::overview::Overview;
use super::routes::{self, Found, Goal};
use super::tokens::Who;
use crate::http::answer::{NOTHING, TEXT, response};
use crate::http::page::Page;

const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";
/// The description of the API, in OpenAPI 3.1.
pub const OPENAPI: &str = include_str!("openapi.json");
/// Time for which a look at the audit logs serves all who ask.
const FRESH: Duration = Duration::from_secs(5);
/// Gateways that are asked for their status at once.
const ASKED: usize = 8;
/// The longest body of a change, in octets, and the time in which it has to come.
const LONGEST_BODY: usize = 4096;
const BODY: Duration = Duration::from_secs(5);

type Answer = Response<Full<Bytes>>;

/// Makes a look at the audit logs.
type Look = Box<dyn Fn() -> Audit + Send + Sync>;
/// The last look at them, and its moment.
type LastLook = Mutex<Option<(Instant, Bytes)>>;

/// Content of the server. Nobody holds its locks while he waits for anything but the audit logs.
pub struct Surface {
    board: Mutex<Board>,
    layout: Mutex<Arc<Layout>>,
    audit: Arc<(Look, LastLook)>,
    asked: Semaphore,
    /// None: nothing can be changed here.
    actions: Option<Actions>,
    page: Page,
}

/// A change that has begun, or was stopped.
#[derive(Serialize)]
struct Begun {
    action: u64,
}

/// Refusal of an answer, with its reason.
#[derive(Serialize)]
struct Refusal<'a> {
    cause: &'a str,
    cure: &'a str,
}

impl fmt::Debug for Surface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Surface").field("board", &self.board).finish_non_exhaustive()
    }
}

impl Surface {
    /// Shows nothing yet. `audit` looks at the audit logs, and may take its time.
    pub fn new(layout: Layout, audit: impl Fn() -> Audit + Send + Sync + 'static) -> Self {
        Self {
            board: Mutex::default(),
            layout: Mutex::new(Arc::new(layout)),
            audit: Arc::new((Box::new(audit), Mutex::new(None))),
            asked: Semaphore::new(ASKED),
            actions: None,
            page: Page::cockpit(),
        }
    }

    /// Lets those who have the role for it order changes.
    #[must_use]
    pub fn with_actions(self, actions: Actions) -> Self {
        Self { actions: Some(actions), ..self }
    }

    /// Shows this from here on.
    pub fn show(&self, overview: Overview, directory: DirectoryView, problems: Vec<String>) {
        locked(&self.board).show(overview, directory, problems);
    }

    /// Says why nothing is shown yet.
    pub fn wait(&self, why: String) {
        locked(&self.board).wait(why);
    }

    /// The overview, for a caller with this revision.
    pub fn seen(&self, known: Option<u64>) -> Seen {
        locked(&self.board).seen(known)
    }

    /// The fleet as it is laid out.
    pub fn layout(&self) -> Arc<Layout> {
        Arc::clone(&locked(&self.layout))
    }

    /// The fleet is laid out like this from here on.
    pub fn lay_out(&self, layout: Layout) {
        *locked(&self.layout) = Arc::new(layout);
    }

    pub(super) async fn answer<B>(&self, request: Request<B>, access: &Access, client: &Client) -> Answer
    where
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let path = request.uri().path();
        if !access.hosts.has(request.headers()) {
            return refused(
                StatusCode::MISDIRECTED_REQUEST,
                "anybody could own this name",
                "ask by the controller's IP address, or start it with --host NAME",
            );
        }
        if path.starts_with("/api/") && is_of_another_site(request.headers()) {
            return refused(StatusCode::FORBIDDEN, "another site's page asks", "open the cockpit itself");
        }
        let (route, name) = match routes::find(request.method(), path) {
            Found::Route(route, name) => (route, name.to_owned()),
            Found::OtherMethod(allowed) => return other_method(allowed),
            Found::Nothing => return self.other(&request),
        };
        if let Some(role) = route.role {
            let Some(who) = access.who(&request, client) else { return unknown() };
            if who.role < role {
                let cause = format!("this needs the role {role}, and yours is {}", who.role);
                let cure = format!(
                    "ask with a token of that role: frameward fleet token NAME --role {role} --to FILE"
                );
                return refused(StatusCode::FORBIDDEN, &cause, &cure);
            }
            return self.of(route.goal, name, request, who).await;
        }
        json(Bytes::from_static(OPENAPI.as_bytes()))
    }

    /// The page, or the answer to who asks for nothing that is there.
    fn other<B>(&self, request: &Request<B>) -> Answer {
        match request.uri().path() {
            "/" if request.method().is_safe() => {
                response(StatusCode::OK, HTML, self.page.policy.clone(), self.page.html.clone())
            }
            "/" => other_method("GET, HEAD"),
            path if path.starts_with("/api/") => {
                refused(StatusCode::NOT_FOUND, "there is no such address", "see /api/openapi.json")
            }
            _ => {
                let text =
                    Bytes::from_static(b"There are / and /api/; /api/openapi.json describes the latter.\n");
                response(StatusCode::NOT_FOUND, TEXT, HeaderValue::from_static(NOTHING), text)
            }
        }
    }

    /// The answer to somebody who has the role for it.
    async fn of<B>(&self, goal: Goal, name: String, request: Request<B>, who: Who) -> Answer
    where
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        match goal {
            Goal::Description => json(Bytes::from_static(OPENAPI.as_bytes())),
            Goal::Overview => self.overview(&request),
            Goal::History => json(locked(&self.board).history()),
            Goal::Audit => self.audit().await,
            Goal::Status => self.gateway(&name).await,
            Goal::Actions => self.of_actions(request.headers(), who),
            Goal::Note | Goal::Stop | Goal::Approve | Goal::Rotate | Goal::Revoke => self
                .change(goal, &name, request, &who)
                .await
                .unwrap_or_else(|(status, cause, cure)| refused(status, &cause, &cure)),
        }
    }

    /// Begins or ends a change.
    async fn change<B>(
        &self,
        goal: Goal,
        name: &str,
        request: Request<B>,
        who: &Who,
    ) -> Result<Answer, Refused>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        if !is_json(request.headers()) {
            let cure = "send Content-Type: application/json";
            return Err(refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body is not said to be JSON", cure));
        }
        let Some(actions) = &self.actions else {
            let cure = "give the command on the operator's machine";
            return Err(refusal(StatusCode::FORBIDDEN, "this controller changes nothing", cure));
        };
        let body = body(request.into_body()).await?;
        let number = if goal == Goal::Stop {
            actions.stop(name, who)?
        } else {
            self.is_in_inventory(goal, name)?;
            actions.begin(&actions::change(goal, name, &body)?, name, who)?
        };
        let mut answer = json(document(&Begun { action: number }));
        *answer.status_mut() = StatusCode::ACCEPTED;
        Ok(answer)
    }

    /// Fails unless the inventory has the gateway or connection. One that is revoked is not there any more, and its second step may be due.
    fn is_in_inventory(&self, goal: Goal, name: &str) -> Result<(), Refused> {
        let layout = self.layout();
        let (what, is_there) = match goal {
            Goal::Rotate => ("connection", layout.connections.iter().any(|one| one.name == name)),
            Goal::Revoke => ("gateway", fleet::GatewayName::new(name).is_some()),
            _ => ("gateway", layout.gateways.contains_key(name)),
        };
        let cause = format!("the inventory has no such {what}");
        if is_there {
            Ok(())
        } else {
            Err(refusal(StatusCode::NOT_FOUND, &cause, "choose one of /api/overview"))
        }
    }

    fn overview<B>(&self, request: &Request<B>) -> Answer {
        let query = request.uri().query().unwrap_or_default();
        let since = query.split('&').find_map(|one| one.strip_prefix("since=")?.parse().ok());
        let board = locked(&self.board);
        if board.is_frozen() {
            let (cause, cure) = NOT_LOOKED;
            return refused(StatusCode::SERVICE_UNAVAILABLE, cause, cure);
        }
        let (Some(revision), Some(document)) = (board.revision(), board.overview(since)) else {
            let Some(why) = board.why() else {
                let cause = "the controller has just started";
                return refused(StatusCode::SERVICE_UNAVAILABLE, cause, "ask again in a second");
            };
            let otherwise = "see that the directory runs, and that this machine reaches it";
            let (cause, cure) = why.split_once("; ").unwrap_or((why, otherwise));
            return refused(StatusCode::SERVICE_UNAVAILABLE, cause, cure);
        };
        drop(board);
        // Of this revision, whatever it is compared with.
        tagged(request.headers(), &format!("\"{revision}\""), document)
    }

    /// Orders that were given, and those that the caller may give: 304 if he has just that.
    fn of_actions(&self, headers: &HeaderMap, who: Who) -> Answer {
        let view = match &self.actions {
            Some(actions) => actions.view(who),
            None => Actions::nothing(who),
        };
        let document = document(&view);
        let tag = format!("\"{}\"", hex::encode(Sha256::digest(&document)));
        tagged(headers, &tag, document)
    }

    async fn audit(&self) -> Answer {
        let audit = Arc::clone(&self.audit);
        let look = move || {
            let (look, last) = &*audit;
            let mut last = locked(last);
            match &*last {
                Some((at, bytes)) if at.elapsed() < FRESH => bytes.clone(),
                _ => {
                    let bytes = document(&look());
                    *last = Some((Instant::now(), bytes.clone()));
                    bytes
                }
            }
        };
        match spawn_blocking(look).await {
            Ok(bytes) => json(bytes),
            Err(_) => refused(
                StatusCode::INTERNAL_SERVER_ERROR,
                "looking at the audit logs failed",
                "please report this",
            ),
        }
    }

    /// The status of a gateway, by its name in the inventory.
    async fn gateway(&self, name: &str) -> Answer {
        let layout = self.layout();
        let Some(placed) = layout.gateways.get(name) else {
            let cure = "choose one of /api/overview";
            return refused(StatusCode::NOT_FOUND, "the inventory has no such gateway", cure);
        };
        let Some(address) = placed.page() else {
            let cure =
                "give it http = \"ADDRESS:PORT\" of a management network in the inventory, and apply it";
            return refused(StatusCode::NOT_FOUND, "it serves no status that the controller reaches", cure);
        };
        let Ok(_permit) = self.asked.try_acquire() else {
            let cure = "ask again in a second";
            return refused(StatusCode::SERVICE_UNAVAILABLE, "too many gateways are being asked", cure);
        };
        match gateway_status::ask(address).await {
            Ok(status) => json(status),
            Err(why) => refused(
                StatusCode::BAD_GATEWAY,
                &why,
                "see that the gateway runs, with this http, and that this machine reaches it",
            ),
        }
    }
}

/// The body of a change.
async fn body<B>(body: B) -> Result<Bytes, Refused>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    match timeout(BODY, Limited::new(body, LONGEST_BODY).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            Err(refusal(StatusCode::PAYLOAD_TOO_LARGE, "the body is too long", "send 4096 octets at most"))
        }
        _ => Err(refusal(StatusCode::REQUEST_TIMEOUT, "the body did not come", "send it again")),
    }
}

fn refusal(status: StatusCode, cause: &str, cure: &str) -> Refused {
    (status, cause.to_owned(), cure.to_owned())
}

fn other_method(allowed: &'static str) -> Answer {
    let cure = format!("use one of {allowed}");
    let mut refused = refused(StatusCode::METHOD_NOT_ALLOWED, "this address takes another method", &cure);
    refused.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    refused
}

fn unknown() -> Answer {
    let mut refused = refused(
        StatusCode::UNAUTHORIZED,
        "a token is needed, and this request has none that is known here",
        "send one that frameward fleet token made: Authorization: Bearer TOKEN",
    );
    refused.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    refused
}

fn json(document: Bytes) -> Answer {
    response(StatusCode::OK, JSON, HeaderValue::from_static(NOTHING), document)
}

/// A document with its tag; nothing if the client has the one of this tag.
fn tagged(headers: &HeaderMap, tag: &str, document: Bytes) -> Answer {
    let known = headers.get(IF_NONE_MATCH).and_then(|known| known.to_str().ok());
    let is_known = known.is_some_and(|known| known.split(',').any(|one| one.trim() == tag));
    let mut answer = if is_known { json(Bytes::new()) } else { json(document) };
    if is_known {
        *answer.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let tag = HeaderValue::from_str(tag).expect("invariant: digits are printable");
    answer.headers_mut().insert(ETAG, tag);
    answer
}

fn refused(status: StatusCode, cause: &str, cure: &str) -> Answer {
    response(status, JSON, HeaderValue::from_static(NOTHING), document(&Refusal { cause, cure }))
}

#[cfg(test)]
mod tests;

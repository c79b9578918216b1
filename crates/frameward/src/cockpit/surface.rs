//! Content of the server, and a request's answer.
//!
//! | request | answer |
//! |---|---|
//! | a `Host` that is neither an IP address, `localhost`, this machine's name nor a name of `--host` | 421 |
//! | `/api/...` in the name of another site's page (`Sec-Fetch-Site`) | 403 |
//! | another method than GET and HEAD | 405 |
//! | `/` | the page, which holds nothing of the fleet: it asks for the rest, and for a token if one is demanded |
//! | `/api/openapi.json` | the description of the rest |
//! | `/api/...` without a token, where tokens are demanded | 401 |
//! | `/api/overview`, `/api/history`, `/api/audit` | the fleet; 304 if the client has that overview, 503 before the directory was read, or if nobody has looked for long |
//! | `/api/gateways/NAME/status` | that gateway's own status; 404, 502, 503 |
//! | anything else | 404 |
//!
//! A token goes into the field `Authorization`, which no form and no image of another site can send; there are no cookies. So no site can ask
//! in the name of who visits it. Nothing here changes anything.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ALLOW, AUTHORIZATION, ETAG, HeaderValue, IF_NONE_MATCH, WWW_AUTHENTICATE};
use hyper::{Method, Request, Response, StatusCode};
use inventory::Layout;
use serde::Serialize;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::board::{Board, DirectoryView, NOT_LOOKED, Seen, document};
use super::follow::locked;
use super::gateway_status;
use super::logs::Audit;
use super::overview::Overview;
use super::tokens::Tokens;
use crate::http::answer::{NOTHING, TEXT, response};
use crate::http::host::Hosts;
use crate::http::page::Page;

const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";
/// The description of the API, in OpenAPI 3.1.
pub const OPENAPI: &str = include_str!("openapi.json");
/// Time for which a look at the audit logs serves all who ask.
const FRESH: Duration = Duration::from_secs(5);
/// Gateways that are asked for their status at once.
const ASKED: usize = 8;

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
    page: Page,
}

/// Names by which the server may be asked, and tokens that let clients in.
#[derive(Debug)]
pub(super) struct Access {
    pub(super) hosts: Hosts,
    /// None: whoever gets a connection.
    pub(super) tokens: Option<Tokens>,
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
            page: Page::cockpit(),
        }
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

    pub(super) async fn answer<B>(&self, request: &Request<B>, access: &Access) -> Answer {
        if !access.hosts.has(request.headers()) {
            return refused(
                StatusCode::MISDIRECTED_REQUEST,
                "anybody could own this name",
                "ask by the controller's IP address, or start it with --host NAME",
            );
        }
        if request.uri().path().starts_with("/api/") && is_of_another_site(request) {
            return refused(StatusCode::FORBIDDEN, "another site's page asks", "open the cockpit itself");
        }
        if ![Method::GET, Method::HEAD].contains(request.method()) {
            let mut refused = refused(StatusCode::METHOD_NOT_ALLOWED, "this is read-only", "use GET or HEAD");
            refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return refused;
        }
        let path = request.uri().path();
        if path == "/" {
            return response(StatusCode::OK, HTML, self.page.policy.clone(), self.page.html.clone());
        }
        if path == "/api/openapi.json" {
            return json(Bytes::from_static(OPENAPI.as_bytes()));
        }
        if !path.starts_with("/api/") {
            let text =
                Bytes::from_static(b"There are / and /api/; /api/openapi.json describes the latter.\n");
            return response(StatusCode::NOT_FOUND, TEXT, HeaderValue::from_static(NOTHING), text);
        }
        if !access.allows(request) {
            let mut refused = refused(
                StatusCode::UNAUTHORIZED,
                "a token is needed, and this request has none that is known here",
                "send one that frameward fleet token made: Authorization: Bearer TOKEN",
            );
            refused.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            return refused;
        }
        match path {
            "/api/overview" => self.overview(request),
            "/api/history" => json(locked(&self.board).history()),
            "/api/audit" => self.audit().await,
            _ => {
                let name = path.strip_prefix("/api/gateways/").and_then(|rest| rest.strip_suffix("/status"));
                match name {
                    Some(name) => self.gateway(name).await,
                    None => {
                        refused(StatusCode::NOT_FOUND, "there is no such address", "see /api/openapi.json")
                    }
                }
            }
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
            let why = board.why().unwrap_or("the controller has just started");
            return refused(StatusCode::SERVICE_UNAVAILABLE, why, "ask again in a second");
        };
        drop(board);
        // Of this revision, whatever it is compared with.
        let tag = format!("\"{revision}\"");
        let known = request.headers().get(IF_NONE_MATCH).and_then(|known| known.to_str().ok());
        let is_known = known.is_some_and(|known| known.split(',').any(|one| one.trim() == tag));
        let mut answer = if is_known { json(Bytes::new()) } else { json(document) };
        if is_known {
            *answer.status_mut() = StatusCode::NOT_MODIFIED;
        }
        let tag = HeaderValue::from_str(&tag).expect("invariant: digits are printable");
        answer.headers_mut().insert(ETAG, tag);
        answer
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

impl Access {
    fn allows<B>(&self, request: &Request<B>) -> bool {
        let Some(tokens) = &self.tokens else { return true };
        let field = request.headers().get(AUTHORIZATION).and_then(|field| field.to_str().ok());
        let token = field.and_then(|field| field.split_once(' '));
        token.is_some_and(|(scheme, token)| scheme.eq_ignore_ascii_case("Bearer") && tokens.has(token.trim()))
    }
}

/// True if a browser says so. It could not read the answer, but the controller would work for it.
fn is_of_another_site<B>(request: &Request<B>) -> bool {
    let site = request.headers().get("sec-fetch-site");
    site.is_some_and(|site| site == "cross-site" || site == "same-site")
}

fn json(document: Bytes) -> Answer {
    response(StatusCode::OK, JSON, HeaderValue::from_static(NOTHING), document)
}

fn refused(status: StatusCode, cause: &str, cure: &str) -> Answer {
    response(status, JSON, HeaderValue::from_static(NOTHING), document(&Refusal { cause, cure }))
}

#[cfg(test)]
mod tests;

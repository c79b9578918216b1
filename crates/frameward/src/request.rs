//! Asking a running gateway to do something: one line there, some lines back, over a socket of its own.
//!
//! ```text
//!  rekey press\n ──▶ NAME.requests, mode 0600: root and the gateway's user
//!  try reload\n      (what a reload would do)
//!                ◀── what is to be said, and done\n; or why not
//! ```
//!
//! Not over the status socket, which more people may use, and from whose clients nothing is read. A reload is asked for by
//! SIGHUP (`reload.rs`), which has no room for a link's name.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use config::is_name;
use report::{AskError, GatewayReport, ServeError, SocketServer};

/// The longest line that a gateway reads, in octets.
const LONGEST: u64 = 256;
/// The longest answer that is read, in octets.
const LONGEST_ANSWER: u64 = 1 << 20;
/// How long either side waits for the other's line.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long another SAK may take: a key server that is gone has to be noticed, and another one elected.
const REKEY_PATIENCE: Duration = Duration::from_secs(15);
const LOOK: Duration = Duration::from_millis(50);
const DONE: &str = "done";
const TRY_RELOAD: &str = "try reload";

/// What a gateway can be asked to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// To agree on another SAK for this link.
    Rekey(String),
    /// To say what a reload would do.
    TryReload,
}

/// What is said of it line by line, or why it was not done.
pub type Answer = Result<Vec<String>, String>;

/// What a reload would do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tried {
    /// It would be taken over.
    pub done: bool,
    /// What would be changed, or what is wrong, a line each.
    pub lines: Vec<String>,
}

/// Why it was not done.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The gateway cannot be asked.
    #[error(
        "gateway {name} cannot be asked on {}: {source}; is it running, and is this run as root or as the gateway's user?",
        path.display()
    )]
    Silent {
        /// The gateway.
        name: String,
        /// Its socket.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It says why not.
    #[error("{0}")]
    Refused(String),
    /// There is no report of it.
    #[error(transparent)]
    Report(#[from] AskError),
    /// It has several links, and none of its own name.
    #[error("gateway {name} has {} links whose keys are agreed on{}; name one: frameward rekey {name} LINK", .links.len(), among(.links))]
    WhichLink {
        /// The gateway.
        name: String,
        /// Its links.
        links: Vec<String>,
    },
    /// Nothing has come of it.
    #[error(
        "link {0:?}: asked for another SAK, and there is none yet; frameward status says what is in the way"
    )]
    Unanswered(String),
}

impl Request {
    fn parse(line: &str) -> Option<Self> {
        let line = line.strip_suffix('\n')?;
        if line == TRY_RELOAD {
            return Some(Self::TryReload);
        }
        let link = line.strip_prefix("rekey ")?;
        is_name(link).then(|| Self::Rekey(link.to_owned()))
    }

    fn line(&self) -> String {
        match self {
            Self::Rekey(link) => format!("rekey {link}\n"),
            Self::TryReload => format!("{TRY_RELOAD}\n"),
        }
    }
}

fn socket_path(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}.requests"))
}

/// Makes the request socket of the gateway `name`, and has `answer` say to each request whether it is done, or why not.
///
/// # Errors
/// As [`SocketServer::reports`].
pub fn serve(
    directory: &Path,
    name: &str,
    mut answer: impl FnMut(Request) -> Answer + Send + 'static,
) -> Result<SocketServer, ServeError> {
    let serve = move |client: UnixStream| {
        // A client that went away or does not speak is its own loss.
        let _ = deal(client, &mut answer);
    };
    SocketServer::start(directory, name, &socket_path(directory, name), 0o600, serve)
}

fn deal(mut client: UnixStream, answer: &mut impl FnMut(Request) -> Answer) -> io::Result<()> {
    client.set_read_timeout(Some(PATIENCE))?;
    client.set_write_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    (&client).take(LONGEST).read_to_string(&mut line)?;
    let answer = match Request::parse(&line) {
        Some(request) => answer(request),
        None => Err("this is no request that this release knows".into()),
    };
    let said = match answer {
        Ok(mut lines) => {
            lines.push(DONE.to_owned());
            lines.join("\n")
        }
        Err(why) => why,
    };
    client.write_all(format!("{said}\n").as_bytes())
}

/// Sends a request, and returns what is answered.
fn send(directory: &Path, name: &str, request: &Request) -> Result<Answer, RequestError> {
    let path = socket_path(directory, name);
    let ask = || {
        let mut socket = UnixStream::connect(&path)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.write_all(request.line().as_bytes())?;
        socket.shutdown(std::net::Shutdown::Write)?;
        let mut answer = String::new();
        socket.take(LONGEST_ANSWER).read_to_string(&mut answer)?;
        Ok(answer)
    };
    let silent = |source| RequestError::Silent { name: name.to_owned(), path: path.clone(), source };
    let answer = ask().map_err(silent)?;
    let mut lines: Vec<String> = answer.lines().map(str::to_owned).collect();
    Ok(match lines.pop_if(|last| last == DONE) {
        Some(_) => Ok(lines),
        None => Err(lines.join("\n")),
    })
}

/// Asks the gateway `name` what a reload would do.
///
/// # Errors
/// [`RequestError`]; a configuration that would be refused is none, but an answer that says so.
pub fn try_reload(directory: &Path, name: &str) -> Result<Tried, RequestError> {
    let answer = send(directory, name, &Request::TryReload)?;
    let done = answer.is_ok();
    let lines = answer.unwrap_or_else(|why| why.lines().map(str::to_owned).collect());
    Ok(Tried { done, lines })
}

/// Asks the gateway `name` for another SAK of a link, and waits until it protects. Returns its KI.
///
/// # Errors
/// [`RequestError`].
pub fn rekey(directory: &Path, name: &str, link: &str) -> Result<String, RequestError> {
    let reported = || -> Result<Option<String>, RequestError> {
        let document = report::ask(directory, name)?;
        Ok(transmitting(&report::parse(name, &document)?, link))
    };
    let before = reported()?;
    if let Err(why) = send(directory, name, &Request::Rekey(link.to_owned()))? {
        return Err(RequestError::Refused(why));
    }
    let give_up = Instant::now() + REKEY_PATIENCE;
    while Instant::now() < give_up {
        match reported()? {
            Some(ki) if Some(&ki) != before.as_ref() => return Ok(ki),
            _ => std::thread::sleep(LOOK),
        }
    }
    Err(RequestError::Unanswered(link.to_owned()))
}

fn among(links: &[String]) -> String {
    if links.is_empty() { String::new() } else { format!(" ({})", links.join(", ")) }
}

/// The link that is meant where the gateway `name` alone was named: its only one, or that of its own name.
///
/// # Errors
/// [`RequestError`].
pub fn only_link(directory: &Path, name: &str) -> Result<String, RequestError> {
    let report = report::parse(name, &report::ask(directory, name)?)?;
    let agreed = report.links.into_iter().filter(|link| link.mka.is_some()).map(|link| link.name);
    let links: Vec<String> = agreed.collect();
    match links.as_slice() {
        [only] => Ok(only.clone()),
        links if links.iter().any(|link| link == name) => Ok(name.to_owned()),
        _ => Err(RequestError::WhichLink { name: name.to_owned(), links }),
    }
}

/// The KI of the SAK that protects what a link sends.
fn transmitting(report: &GatewayReport, link: &str) -> Option<String> {
    let mka = report.links.iter().find(|report| report.name == link)?.mka.as_ref()?;
    Some(mka.sak()?.ki.clone())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::status;
    use report::samples::agreed;
    use testkit::TestDirectory;

    #[test]
    fn another_sak_is_asked_for_and_waited_for() {
        let directory = TestDirectory::new("rekey");
        let runtime = directory.path().join("run");
        let number = Arc::new(AtomicU32::new(7));
        let saks = Arc::clone(&number);
        let _reports = SocketServer::reports(&runtime, "line", move || {
            let mut report = agreed("line");
            let sak = &mut report.links[0].mka.as_mut().unwrap().saks[0];
            sak.ki = format!("0011/{}", saks.load(Ordering::Relaxed));
            report
        })
        .unwrap();
        let requests = serve(&runtime, "line", move |request| match request {
            Request::Rekey(link) if link != "press" => Err(format!("there is no link {link:?}")),
            Request::Rekey(_) => {
                number.fetch_add(1, Ordering::Relaxed);
                Ok(Vec::new())
            }
            Request::TryReload => Ok((0..100).map(|line| format!("changed: key {line}")).collect()),
        })
        .unwrap();
        let path = socket_path(&runtime, "line");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(status::find(&runtime, None).unwrap().gateway, "line", "it is no other gateway's");
        assert_eq!(rekey(&runtime, "line", "press").unwrap(), "0011/8");
        assert_eq!(only_link(&runtime, "line").unwrap(), "press");
        let tried = try_reload(&runtime, "line").unwrap();
        assert_eq!((tried.done, tried.lines.len(), tried.lines[99].as_str()), (true, 100, "changed: key 99"));
        let refused = rekey(&runtime, "line", "oven").unwrap_err();
        assert_eq!(refused.to_string(), "there is no link \"oven\"");
        drop(requests);
        assert!(matches!(rekey(&runtime, "line", "press"), Err(RequestError::Silent { .. })));
    }

    #[test]
    fn whatever_else_is_said_is_no_request() {
        assert_eq!(Request::parse("rekey press\n"), Some(Request::Rekey("press".into())));
        for line in [
            "",
            "rekey press",
            "rekey \n",
            "rekey ../x\n",
            "rekey a b\n",
            "stop\n",
            "rekey press\n\n",
            "try\n",
        ] {
            assert_eq!(Request::parse(line), None, "{line:?}");
        }
        let directory = TestDirectory::new("requests");
        let _server = serve(directory.path(), "line", |_| Ok(Vec::new())).unwrap();
        let mut socket = UnixStream::connect(socket_path(directory.path(), "line")).unwrap();
        // More than is read, and not text.
        socket.write_all(&[0xff; 300]).unwrap();
        socket.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        let _ = socket.read_to_string(&mut answer);
        assert_eq!(answer, "");
        let mut socket = UnixStream::connect(socket_path(directory.path(), "line")).unwrap();
        socket.write_all(b"stop\n").unwrap();
        socket.shutdown(std::net::Shutdown::Write).unwrap();
        socket.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "this is no request that this release knows\n");
    }
}

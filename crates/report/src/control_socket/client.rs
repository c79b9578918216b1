//! Asking a running gateway: for its report, or to do something.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::exchange::ask;
use super::{Outcome, Reply, Request};
use crate::client::AskError;
use crate::mka::MkaReport;
use crate::runtime_dir::{lock_path, socket_path};
use crate::{GatewayReport, LinkReport, UpgradeReport};
use pnstore::own_lock;

/// Time another SAK may take: a key server that is gone has to be noticed, and another one elected.
const REKEY_PATIENCE: Duration = Duration::from_secs(15);
/// Time a hand-over may take: twice the longest `takeover`, and its end if nobody took over.
const HAND_OVER: Duration = Duration::from_secs(10);
/// Time in which a new program runs.
const UPGRADE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(50);

/// Why it was not done.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The gateway cannot be asked.
    #[error(
        "gateway {name} cannot be asked on {}: {source}; check that it runs, and ask as root or as the gateway's user",
        path.display()
    )]
    Silent {
        /// The gateway.
        name: String,
        /// Its socket.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// It says why not.
    #[error("{0}")]
    Refused(String),
    /// The same, for something that ends by itself.
    #[error("{0}")]
    Busy(String),
    /// There is no report of it.
    #[error(transparent)]
    Status(#[from] AskError),
    /// It has several links and cells, and none of its own name.
    #[error("gateway {name} has {} links and fieldbuses whose keys are agreed on{}; name one: frameward rekey {name} LINK", .links.len(), among(.links))]
    WhichLink {
        /// The gateway.
        name: String,
        /// Its links and cells.
        links: Vec<String>,
    },
    /// None of its sites shares its LAN with another box, or several do.
    #[error("gateway {0} has no single site with [site.standby]; name one: frameward hand-over {0} SITE")]
    WhichSite(String),
    /// The new program does not say that it runs.
    #[error("gateway {0}: nobody says yet that the new program runs; look at its log")]
    NotUpgraded(String),
    /// Neither the old program nor the new one runs.
    #[error("gateway {0} has ended instead of becoming another program; its log says why; start it again")]
    EndedByUpgrade(String),
    /// Nobody is there to agree with.
    #[error("link {0:?} hears no live peer to agree on another SAK with; frameward status shows why")]
    NoPeer(String),
    /// Nothing has come of it.
    #[error("link {0:?}: asked for another SAK, but there is none yet; frameward status shows why")]
    Unanswered(String),
    /// Some relations have no new session.
    #[error(
        "fieldbus {0:?}: asked for new sessions, but {1} relations have none yet; frameward status shows why"
    )]
    NoSessions(String, usize),
}

impl RequestError {
    /// Whether the gateway refuses for something that ends by itself.
    pub const fn ends_by_itself(&self) -> bool {
        matches!(self, Self::Busy(_))
    }
}

/// New keys of a link or a cell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Rekeyed {
    /// The KI of the SAK that protects now.
    Sak(String),
    /// Number of relations that have new sessions.
    Sessions(usize),
}

/// Has the gateway do something.
fn change(directory: &Path, name: &str, request: &Request) -> Result<Outcome, RequestError> {
    let path = socket_path(directory, name);
    let silent = |source| RequestError::Silent { name: name.to_owned(), path: path.clone(), source };
    match ask(directory, name, request).map_err(silent)? {
        Reply::Done(lines) => Ok(Outcome { done: true, lines }),
        Reply::Refused(lines) => Ok(Outcome { done: false, lines }),
        Reply::Busy(why) => Err(RequestError::Busy(why)),
        Reply::Error(why) => Err(RequestError::Refused(format!("gateway {name}: {why}"))),
        Reply::Report(_) => Err(silent(io::ErrorKind::InvalidData.into())),
    }
}

/// Has the gateway `name` read its configuration again, or say what that would do, and waits until it has.
///
/// # Errors
/// [`RequestError`]; a configuration that is refused is none, but an outcome that says so.
pub fn reload(directory: &Path, name: &str, dry_run: bool) -> Result<Outcome, RequestError> {
    change(directory, name, &Request::Reload { dry_run })
}

/// Has the gateway `name` show its counters from here on.
///
/// # Errors
/// [`RequestError`].
pub fn clear(directory: &Path, name: &str) -> Result<Outcome, RequestError> {
    change(directory, name, &Request::Clear {})
}

/// Asks the gateway `name` for another SAK of a link, or for new sessions of a cell, and waits until they protect.
///
/// # Errors
/// [`RequestError`].
pub fn rekey(directory: &Path, name: &str, link: &str) -> Result<Rekeyed, RequestError> {
    let reported =
        || -> Result<GatewayReport, RequestError> { Ok(crate::parse(name, &crate::ask(directory, name)?)?) };
    let before = reported()?;
    let is_cell = sessions(&before, link).is_some();
    if !is_cell && mka(&before, link).is_some_and(|mka| mka.live_peers() == 0) {
        return Err(RequestError::NoPeer(link.to_owned()));
    }
    let Outcome { done, lines } = change(directory, name, &Request::Rekey { link: link.to_owned() })?;
    if !done {
        return Err(RequestError::Refused(lines.join("\n")));
    }
    let (sak, sessions) = (transmitting(&before, link), sessions(&before, link));
    let give_up = Instant::now() + REKEY_PATIENCE;
    loop {
        let now = reported()?;
        let (is_late, error) = (Instant::now() >= give_up, RequestError::Unanswered(link.to_owned()));
        match (&sessions, transmitting(&now, link)) {
            (Some(sessions), _) => match unchanged(sessions, self::sessions(&now, link)) {
                0 => return Ok(Rekeyed::Sessions(sessions.len())),
                old if is_late => return Err(RequestError::NoSessions(link.to_owned(), old)),
                _ => {}
            },
            (None, Some(ki)) if Some(&ki) != sak.as_ref() => return Ok(Rekeyed::Sak(ki)),
            (None, _) if is_late => return Err(error),
            (None, _) => {}
        }
        std::thread::sleep(LOOK);
    }
}

/// Has the gateway `name` become the program that is installed now, and waits until that runs. `tell` gets lines about what does not go on,
/// before it is done. Returns its version, and the milliseconds for which frames waited.
///
/// # Errors
/// [`RequestError`]; the gateway then goes on as it was, unless it says otherwise.
pub fn upgrade(
    directory: &Path,
    name: &str,
    tell: impl FnMut(String),
) -> Result<(String, u64), RequestError> {
    let reported =
        || -> Result<GatewayReport, RequestError> { Ok(crate::parse(name, &crate::ask(directory, name)?)?) };
    let count = |report: &GatewayReport| report.upgrade.as_ref().map_or(0, |upgrade| upgrade.count);
    let before = count(&reported()?);
    match change(directory, name, &Request::Upgrade {}) {
        Ok(Outcome { done: false, lines }) => return Err(RequestError::Refused(lines.join("\n"))),
        Ok(Outcome { done: true, lines }) => lines.into_iter().for_each(tell),
        // On a busy machine the old program may be gone before its answer is.
        Err(RequestError::Silent { source, .. })
            if matches!(source.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset) => {
        }
        Err(other) => return Err(other),
    }
    let give_up = Instant::now() + UPGRADE;
    while Instant::now() < give_up {
        std::thread::sleep(LOOK);
        let Ok(report) = reported() else {
            // Nobody answers while it begins. It has its lock all the while.
            if own_lock::is_taken(&lock_path(&socket_path(directory, name))).is_ok_and(|taken| !taken) {
                return Err(RequestError::EndedByUpgrade(name.to_owned()));
            }
            continue;
        };
        match &report.upgrade {
            Some(UpgradeReport { done: false, why, .. }) if count(&report) != before => {
                return Err(RequestError::Refused(why.clone().unwrap_or_default()));
            }
            Some(UpgradeReport { waited_ms: Some(waited), .. }) if count(&report) != before => {
                return Ok((report.version.clone(), *waited));
            }
            _ => {}
        }
    }
    Err(RequestError::NotUpgraded(name.to_owned()))
}

/// Has a site of the gateway `name` hand over to the other box of its LAN.
///
/// # Errors
/// [`RequestError`].
pub fn hand_over(directory: &Path, name: &str, site: &str) -> Result<(), RequestError> {
    let Outcome { done, lines } = change(directory, name, &Request::HandOver { site: site.to_owned() })?;
    if done { Ok(()) } else { Err(RequestError::Refused(lines.join("\n"))) }
}

/// Waits until the other box forwards, after [`hand_over`].
///
/// # Errors
/// [`RequestError`], also if this box forwards again.
pub fn await_hand_over(directory: &Path, name: &str, site: &str) -> Result<(), RequestError> {
    let end = Instant::now() + HAND_OVER;
    loop {
        let report = crate::parse(name, &crate::ask(directory, name)?)?;
        let of_site = report.sites.into_iter().find(|report| report.name == *site);
        let Some(standby) = of_site.and_then(|site| site.standby) else {
            return Err(RequestError::WhichSite(name.to_owned()));
        };
        match standby.role.as_str() {
            "standby" => return Ok(()),
            "leaving" | "listening" if Instant::now() < end => std::thread::sleep(LOOK),
            role => {
                return Err(RequestError::Refused(format!(
                    "site {site:?}: the other box did not take over, and this one is {role}: {}; look at the other one's frameward status",
                    standby.cause
                )));
            }
        }
    }
}

/// The site that is meant where the gateway `name` alone was named: its only one that shares its LAN.
///
/// # Errors
/// [`RequestError`].
pub fn only_shared_site(directory: &Path, name: &str) -> Result<String, RequestError> {
    let report = crate::parse(name, &crate::ask(directory, name)?)?;
    let mut shared = report.sites.into_iter().filter(|site| site.standby.is_some()).map(|site| site.name);
    match (shared.next(), shared.next()) {
        (Some(only), None) => Ok(only),
        _ => Err(RequestError::WhichSite(name.to_owned())),
    }
}

fn among(links: &[String]) -> String {
    if links.is_empty() { String::new() } else { format!(" ({})", links.join(", ")) }
}

/// The link that is meant where the gateway `name` alone was named: its only one, or that of its own name.
///
/// # Errors
/// [`RequestError`].
pub fn only_link(directory: &Path, name: &str) -> Result<String, RequestError> {
    let report = crate::parse(name, &crate::ask(directory, name)?)?;
    let names = |link: LinkReport| {
        let cell = link.fieldbus.map(|cell| cell.name);
        link.mka.map(|_| link.name).into_iter().chain(cell)
    };
    let links: Vec<String> = report.links.into_iter().flat_map(names).collect();
    match links.as_slice() {
        [only] => Ok(only.clone()),
        links if links.iter().any(|link| link == name) => Ok(name.to_owned()),
        _ => Err(RequestError::WhichLink { name: name.to_owned(), links }),
    }
}

/// The KI of the SAK that protects what a link sends.
fn transmitting(report: &GatewayReport, link: &str) -> Option<String> {
    Some(mka(report, link)?.sak()?.ki.clone())
}

fn mka<'r>(report: &'r GatewayReport, link: &str) -> Option<&'r MkaReport> {
    report.links.iter().find(|report| report.name == link)?.mka.as_ref()
}

/// The sessions that protect, by relation; `None` if it is no cell.
fn sessions(report: &GatewayReport, name: &str) -> Option<Vec<Option<u32>>> {
    let mut cells = report.links.iter().filter_map(|link| link.fieldbus.as_ref());
    let cell = cells.find(|cell| cell.name == name)?;
    Some(cell.relations.iter().map(|of| of.transmit_key.map(|key| key.session)).collect())
}

/// Number of relations that have the same session as before, or none.
fn unchanged(before: &[Option<u32>], now: Option<Vec<Option<u32>>>) -> usize {
    let now = now.unwrap_or_default().into_iter().chain(std::iter::repeat(None));
    before.iter().zip(now).filter(|(before, now)| now.is_none() || *before == now).count()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::control_socket::ControlSocket;
    use crate::samples::{agreed, sample_site};
    use testkit::TestDirectory;

    /// "Takes over" is said when it has.
    #[test]
    fn a_hand_over_is_waited_for() {
        let directory = TestDirectory::new("hand-over");
        let runtime = directory.path().join("run");
        for (roles, expected) in [
            (["leaving", "leaving", "standby"], None),
            (["leaving", "listening", "standby"], None),
            (
                ["leaving", "listening", "active"],
                Some(
                    "site \"dresden\": the other box did not take over, and this one is active: the other box forwards; look at the other one's frameward status",
                ),
            ),
        ] {
            let looks = AtomicU32::new(0);
            let gateway = ControlSocket::serve(&runtime, "line", move |_| {
                let look = looks.fetch_add(1, Ordering::Relaxed).min(2) as usize;
                let mut report = agreed("line");
                let mut site = sample_site();
                site.standby.as_mut().unwrap().role = roles[look].into();
                report.sites = vec![site];
                Reply::Report(report)
            })
            .unwrap();
            let waited = await_hand_over(&runtime, "line", "dresden");
            assert_eq!(waited.err().map(|error| error.to_string()).as_deref(), expected, "{roles:?}");
            drop(gateway);
        }
    }

    #[test]
    fn new_sessions_of_a_cell_are_asked_for_and_waited_for() {
        let directory = TestDirectory::new("rekey-cell");
        let runtime = directory.path().join("run");
        let looks = Arc::new(AtomicU32::new(0));
        let gateway = ControlSocket::serve(&runtime, "line", move |request| match request {
            Request::Status {} => {
                let mut report = agreed("line");
                let mut cell = crate::samples::sample_cell();
                // The session is another one from the third look on.
                let session = 1 + u32::from(looks.fetch_add(1, Ordering::Relaxed) >= 2);
                let key = cell.relations[0].transmit_key.as_mut().unwrap();
                key.session = session;
                report.links[0].fieldbus = Some(cell);
                Reply::Report(report)
            }
            Request::Rekey { link } if link == "cell-4" => Reply::Done(Vec::new()),
            _ => Reply::Refused(Vec::new()),
        })
        .unwrap();
        assert_eq!(rekey(&runtime, "line", "cell-4").unwrap(), Rekeyed::Sessions(1));
        assert!(only_link(&runtime, "line").unwrap_err().to_string().contains("2 links and fieldbuses"));
        drop(gateway);
    }

    /// Nobody waits for a peer that is away.
    #[test]
    fn a_sak_is_not_asked_for_where_no_peer_is_live() {
        let directory = TestDirectory::new("rekey-alone");
        let runtime = directory.path().join("run");
        let gateway = ControlSocket::serve(&runtime, "line", |request| match request {
            Request::Status {} => {
                let mut report = agreed("line");
                report.links[0]
                    .mka
                    .as_mut()
                    .unwrap()
                    .members
                    .iter_mut()
                    .for_each(|member| member.live = false);
                Reply::Report(report)
            }
            _ => Reply::Error("asked for what cannot be".into()),
        })
        .unwrap();
        let link = agreed("line").links[0].name.clone();
        let refused = rekey(&runtime, "line", &link).unwrap_err();
        assert!(matches!(refused, RequestError::NoPeer(_)), "{refused}");
        drop(gateway);
    }

    /// The gateway says so, whatever its sentence ends with: that of an older release is final.
    #[test]
    fn a_refusal_that_ends_by_itself_is_known_by_its_kind() {
        let busy: Reply<GatewayReport> = Reply::Busy("ask again".into());
        assert_eq!(serde_json::to_string(&busy).unwrap(), "{\"busy\":\"ask again\"}");
        let directory = TestDirectory::new("busy");
        let runtime = directory.path().join("run");
        let why = "a reload is under way; ask again";
        for is_busy in [true, false] {
            let gateway = ControlSocket::serve(&runtime, "line", move |request| match request {
                Request::Status {} => Reply::Report(agreed("line")),
                _ if is_busy => Reply::Busy(why.to_owned()),
                _ => Reply::Refused(vec![why.to_owned()]),
            })
            .unwrap();
            let refused = upgrade(&runtime, "line", |_| ()).unwrap_err();
            assert_eq!((refused.to_string().as_str(), refused.ends_by_itself()), (why, is_busy));
            drop(gateway);
        }
    }

    #[test]
    fn another_sak_is_asked_for_and_waited_for() {
        let directory = TestDirectory::new("rekey");
        let runtime = directory.path().join("run");
        let number = Arc::new(AtomicU32::new(7));
        let gateway = ControlSocket::serve(&runtime, "line", move |request| match request {
            Request::Status {} => {
                let mut report = agreed("line");
                let sak = &mut report.links[0].mka.as_mut().unwrap().saks[0];
                sak.ki = format!("0011/{}", number.load(Ordering::Relaxed));
                Reply::Report(report)
            }
            Request::Rekey { link } if link != "press" => {
                Reply::Refused(vec![format!("there is no link {link:?}")])
            }
            Request::Rekey { .. } => {
                number.fetch_add(1, Ordering::Relaxed);
                Reply::Done(Vec::new())
            }
            Request::Clear {} | Request::Upgrade {} => Reply::Done(Vec::new()),
            Request::HandOver { site } if site == "press" => Reply::Done(Vec::new()),
            Request::HandOver { site } => Reply::Refused(vec![format!("there is no site {site:?}")]),
            Request::Reload { .. } => {
                Reply::Done((0..100).map(|line| format!("changed: key {line}")).collect())
            }
        })
        .unwrap();
        assert!(socket_path(&runtime, "line").exists());
        hand_over(&runtime, "line", "press").unwrap();
        let refused = hand_over(&runtime, "line", "oven").unwrap_err();
        assert_eq!(refused.to_string(), "there is no site \"oven\"");
        assert_eq!(rekey(&runtime, "line", "press").unwrap(), Rekeyed::Sak("0011/8".into()));
        assert_eq!(only_link(&runtime, "line").unwrap(), "press");
        let tried = reload(&runtime, "line", true).unwrap();
        assert_eq!((tried.done, tried.lines.len(), tried.lines[99].as_str()), (true, 100, "changed: key 99"));
        let refused = rekey(&runtime, "line", "oven").unwrap_err();
        assert_eq!(refused.to_string(), "there is no link \"oven\"");
        drop(gateway);
        assert!(matches!(reload(&runtime, "line", false), Err(RequestError::Silent { .. })));
    }
}

//! Traffic that has to get through whatever is offered: the answers of the second box, a session on it, its key agreement.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use lab::Namespace;
use report::GatewayReport;

use crate::bench::BenchError;
use crate::demo::pair::PairError;

/// From one look to the next.
const PACE: Duration = Duration::from_millis(100);
/// A session that takes so long is broken.
const BROKEN: Duration = Duration::from_secs(30);

/// The longest times, since a witness began.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Longest {
    /// Until status was answered.
    pub(super) status: Duration,
    /// Until a keystroke came back, in a TCP session on the box.
    pub(super) session: Duration,
    /// From one MKPDU that the box takes to the next; none without key agreement.
    pub(super) mkpdu: Option<Duration>,
}

/// A running one.
pub(super) struct Witness {
    ends: Arc<AtomicBool>,
    thread: JoinHandle<Result<Longest, BenchError>>,
}

impl Witness {
    /// Begins to ask, and to type.
    pub(super) fn start(
        namespace: &Namespace,
        ask: impl Fn() -> Result<GatewayReport, PairError> + Send + 'static,
    ) -> Result<Self, BenchError> {
        let session = namespace.enter(echo)??;
        let ends = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&ends);
        let thread = std::thread::spawn(move || watch(&seen, session, &ask));
        Ok(Self { ends, thread })
    }

    /// Ends it.
    pub(super) fn stop(self) -> Result<Longest, BenchError> {
        self.ends.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| BenchError::Cells("a witness broke off".into()))?
    }
}

/// A session with somebody on the same box who says everything back.
fn echo() -> io::Result<TcpStream> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    let (mut far, _) = listener.accept()?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    near.set_read_timeout(Some(BROKEN))?;
    std::thread::spawn(move || {
        let mut key = [0];
        while far.read_exact(&mut key).and_then(|()| far.write_all(&key)).is_ok() {}
    });
    Ok(near)
}

fn watch(
    ends: &AtomicBool,
    mut session: TcpStream,
    ask: &dyn Fn() -> Result<GatewayReport, PairError>,
) -> Result<Longest, BenchError> {
    let mut longest = Longest::default();
    let mut heard: Option<(u64, Instant)> = None;
    while !ends.load(Ordering::Relaxed) {
        let typed = Instant::now();
        session.write_all(b"k")?;
        session.read_exact(&mut [0])?;
        longest.session = longest.session.max(typed.elapsed());
        let asked = Instant::now();
        let report = ask()?;
        longest.status = longest.status.max(asked.elapsed());
        if let Some(mka) = report.links.first().and_then(|link| link.mka.as_ref()) {
            let count =
                mka.counters.iter().find(|(name, _)| *name == "MkpdusRx").map_or(0, |(_, count)| count);
            let since = heard.filter(|(before, _)| *before == count).map_or(asked, |(_, since)| since);
            let gap = heard.map_or(Duration::ZERO, |(_, before)| before.elapsed());
            longest.mkpdu = Some(longest.mkpdu.unwrap_or_default().max(gap));
            heard = Some((count, since));
        }
        std::thread::sleep(PACE);
    }
    Ok(longest)
}

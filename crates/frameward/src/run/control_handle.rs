//! Requests of other threads to the main thread, and how it waits for them and for the workers.

use std::fs::File;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use super::RunError;
use super::report::without_links;
use report::control_socket::{ControlSocket, Reply, Request};
use report::{CountedReport, GatewayReport};

/// Time another thread waits for an answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// Time it waits for a reload: many links with new interfaces.
const RELOAD_PATIENCE: Duration = Duration::from_secs(30);

/// The least time between two turns. What wakes the main thread comes from the network, too, and a flood of it must leave
/// the CPU to the workers; with rings of 256 EAPOL frames, those of a quarter of a million frames a second are all heard.
const PAUSE: Duration = Duration::from_millis(1);

/// A request of another thread to the main thread, and where the answer goes.
pub(super) enum ControlRequest {
    /// For a report.
    Report(Sender<CountedReport>),
    /// A request by the control socket.
    Request(Request, Sender<Reply<GatewayReport>>),
    /// To end, to be started again; why.
    End(String),
}

/// Handle by which other threads ask the main thread.
#[derive(Clone, Debug)]
pub(super) struct ControlHandle {
    requests: Sender<ControlRequest>,
    main: Thread,
}

/// A request to the main thread.
pub(super) struct RequestQueue(Receiver<ControlRequest>);

/// A handle to the thread that calls this.
pub(super) fn open() -> (ControlHandle, RequestQueue) {
    let (requests, asked) = mpsc::channel();
    (ControlHandle { requests, main: thread::current() }, RequestQueue(asked))
}

impl ControlHandle {
    /// A report; none while the main thread starts or stops.
    pub(super) fn report(&self) -> Option<CountedReport> {
        self.ask(PATIENCE, ControlRequest::Report)
    }

    /// Has the gateway end, with a status by which it is started again.
    pub(super) fn ask_to_end(&self, why: String) {
        // It may have ended.
        drop(self.requests.send(ControlRequest::End(why)));
        self.main.unpark();
    }

    fn ask<T>(&self, patience: Duration, question: impl FnOnce(Sender<T>) -> ControlRequest) -> Option<T> {
        let (reply, answer) = mpsc::channel();
        self.requests.send(question(reply)).ok()?;
        self.main.unpark();
        answer.recv_timeout(patience).ok()
    }

    /// The answer to a request; none while the main thread starts or stops, or if it is too slow.
    pub(super) fn request(&self, request: Request) -> Option<Reply<GatewayReport>> {
        let patience = if matches!(request, Request::Reload { .. } | Request::Upgrade {}) {
            RELOAD_PATIENCE
        } else {
            PATIENCE
        };
        self.ask(patience, |reply| ControlRequest::Request(request, reply))
    }

    /// Answers of the control socket of the gateway `name`.
    fn answer(&self, name: &str, request: Request) -> Reply<GatewayReport> {
        let asked = request.clone();
        let reply = self.request(request);
        reply.unwrap_or_else(|| match asked {
            Request::Status {} => Reply::Report(without_links(name)),
            _ => {
                Reply::Error("it is starting or stopping, or did not answer in time; look at its log".into())
            }
        })
    }
}

impl RequestQueue {
    /// Waits for the next question; none if a worker woke this thread, or `most` has passed.
    pub(super) fn wait(&self, most: Duration) -> Option<ControlRequest> {
        let began = Instant::now();
        if let Ok(asked) = self.0.try_recv() {
            return Some(asked);
        }
        thread::park_timeout(most);
        thread::sleep(PAUSE.saturating_sub(began.elapsed()));
        self.0.try_recv().ok()
    }
}

/// Starts what answers on the control socket.
pub(super) fn serve(
    name: &str,
    runtime_dir: &Path,
    control_handle: &ControlHandle,
    lock: Option<File>,
) -> Result<ControlSocket, RunError> {
    let (handle, gateway) = (control_handle.clone(), name.to_owned());
    Ok(ControlSocket::serve_locked(runtime_dir, name, lock, move |request| handle.answer(&gateway, request))?)
}

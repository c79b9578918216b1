//! How other threads ask the main thread, and how that one waits for them and for the workers.

use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use super::RunError;
use super::report::without_links;
use crate::request::{self, Answer, Request};
use report::{GatewayReport, SocketServer};

/// How long the status thread waits for figures before it answers without links.
const REPORT_WAIT: Duration = Duration::from_secs(3);

/// The least time between two turns. What wakes the main thread comes from the network, too, and a flood of it must leave
/// the CPU to the workers; with rings of 256 EAPOL frames, those of a quarter of a million frames a second are all heard.
const PAUSE: Duration = Duration::from_millis(1);

/// What other threads ask the main thread, and where the answer goes.
pub(super) enum ControlRequest {
    /// For a report.
    Report(Sender<GatewayReport>),
    /// To do something; the answer is what is said of it, or why not.
    Request(Request, Sender<Answer>),
}

/// Where the main thread is asked.
#[derive(Clone)]
pub(super) struct ControlHandle {
    requests: Sender<ControlRequest>,
    main: Thread,
}

/// What the main thread is asked.
pub(super) struct RequestQueue(Receiver<ControlRequest>);

/// A handle to the thread that calls this.
pub(super) fn open() -> (ControlHandle, RequestQueue) {
    let (requests, asked) = mpsc::channel();
    (ControlHandle { requests, main: thread::current() }, RequestQueue(asked))
}

impl ControlHandle {
    /// The answer; none while the main thread starts or stops.
    pub(super) fn ask<T>(&self, question: impl FnOnce(Sender<T>) -> ControlRequest) -> Option<T> {
        let (reply, answer) = mpsc::channel();
        self.requests.send(question(reply)).ok()?;
        self.main.unpark();
        answer.recv_timeout(REPORT_WAIT).ok()
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

/// Starts what answers with figures on the status socket, and what takes requests.
pub(super) fn serve(
    name: &str,
    runtime_dir: &Path,
    control_handle: &ControlHandle,
) -> Result<(SocketServer, SocketServer), RunError> {
    let (nothing, of_reports) = (without_links(name), control_handle.clone());
    let answer = move || of_reports.ask(ControlRequest::Report).unwrap_or_else(|| nothing.clone());
    let server = SocketServer::reports(runtime_dir, name, answer)?;
    let of_requests = control_handle.clone();
    let answer = move |request| {
        let answer = of_requests.ask(|reply| ControlRequest::Request(request, reply));
        answer.unwrap_or_else(|| Err("the gateway is starting or stopping; try again".into()))
    };
    Ok((server, request::serve(runtime_dir, name, answer)?))
}

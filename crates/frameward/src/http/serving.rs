//! A server's listener, runtime and thread, for a gateway's HTTP and a fleet's cockpit: connections are bounded, so that nobody holds it up.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

/// An address that is listened on; nobody is answered yet.
#[derive(Debug)]
pub(crate) struct Listener {
    listener: TcpListener,
    runtime: Runtime,
}

impl Listener {
    /// Listens on `address`. `blocking` is the name of the one thread for answers that take their time: more would only wait for the same one.
    pub(crate) fn bind(address: SocketAddr, blocking: &str) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(1)
            .thread_name(blocking)
            .build()?;
        Ok(Self { listener, runtime })
    }

    /// The address at which clients find it.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves each client by `serve`, in a thread of this name. Of more than `connections` at a time of clients that are not known the oldest is
    /// closed; so it is with those that are known.
    pub(crate) fn start<Connection>(
        self,
        name: &str,
        connections: usize,
        serve: impl Fn(TcpStream, Known) -> Connection + Send + 'static,
    ) -> io::Result<Serving>
    where
        Connection: Future<Output = ()> + Send + 'static,
    {
        let Self { listener, runtime } = self;
        let (stop, stopped) = oneshot::channel::<Infallible>();
        let run = move || {
            runtime.block_on(async {
                // The listener can be used: it is one that listens, and this is inside of the runtime.
                if let Ok(listener) = tokio::net::TcpListener::from_std(listener) {
                    tokio::spawn(accept(listener, connections, serve));
                    let _ = stopped.await;
                }
            });
            // Nobody is waited for: neither clients nor their answers.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run)?;
        Ok(Serving { stop: Some(stop), thread: Some(thread) })
    }
}

/// True from the moment at which a connection's client has shown who it is: strangers do not crowd it out.
#[derive(Clone, Default, Debug)]
pub(crate) struct Known(Arc<AtomicBool>);

impl Known {
    /// The client has shown who it is.
    pub(crate) fn learn(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A running server. It goes when this is dropped.
#[derive(Debug)]
pub(crate) struct Serving {
    /// Dropped, it ends the thread.
    stop: Option<oneshot::Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn accept<Connection>(
    listener: tokio::net::TcpListener,
    most: usize,
    serve: impl Fn(TcpStream, Known) -> Connection,
) where
    Connection: Future<Output = ()> + Send + 'static,
{
    let mut connections = VecDeque::<(AbortHandle, Known)>::with_capacity(2 * most);
    loop {
        match listener.accept().await {
            Ok((client, _)) => {
                connections.retain(|(connection, _)| !connection.is_finished());
                make_room(&mut connections, most);
                let known = Known::default();
                let task = tokio::spawn(serve(client, known.clone()));
                connections.push_back((task.abort_handle(), known));
            }
            // Out of file descriptors, say: that passes, and must not become a busy loop.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

/// Closes the oldest connections of strangers until there is room for one more, and those of known clients that are more than `most`: the one that
/// comes is a stranger, and crowds out no known one.
fn make_room(connections: &mut VecDeque<(AbortHandle, Known)>, most: usize) {
    for (is_known, stay) in [(false, most.saturating_sub(1)), (true, most)] {
        let of_kind = |(_, known): &(AbortHandle, Known)| known.is() == is_known;
        while connections.iter().filter(|one| of_kind(one)).count() > stay {
            let oldest = connections.iter().position(of_kind).and_then(|at| connections.remove(at));
            let Some((oldest, _)) = oldest else { break };
            oldest.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many known clients as may be stay, whoever comes; one more closes the oldest of them.
    #[test]
    fn a_stranger_closes_no_connection_of_a_known_client() {
        let runtime = Builder::new_current_thread().build().unwrap();
        let connection =
            |known: &Known| (runtime.spawn(std::future::pending::<()>()).abort_handle(), known.clone());
        let clients: Vec<Known> = (0..7).map(|_| Known::default()).collect();
        let mut connections: VecDeque<_> = clients.iter().map(connection).collect();
        let there = |connections: &VecDeque<(AbortHandle, Known)>| {
            let is_there =
                |client: &Known| connections.iter().any(|(_, known)| Arc::ptr_eq(&known.0, &client.0));
            clients.iter().map(is_there).collect::<Vec<_>>()
        };
        // Three are known, and four are not: the oldest two of these make room.
        [0, 2, 4].iter().for_each(|at: &usize| clients[*at].learn());
        make_room(&mut connections, 3);
        assert_eq!(there(&connections), [true, false, true, false, true, true, true]);
        make_room(&mut connections, 3);
        assert_eq!(there(&connections), [true, false, true, false, true, true, true]);
        // A fourth one shows who it is.
        clients[6].learn();
        make_room(&mut connections, 3);
        assert_eq!(there(&connections), [false, false, true, false, true, true, true]);
    }
}

//! A way to a server on loopback that can fall silent, as a network does that drops packets: nothing is refused, and nothing comes.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Time between two looks at whether the way is whole again.
const LOOK: Duration = Duration::from_millis(5);

/// A proxy of TCP connections. Its threads end with the process.
#[derive(Debug)]
pub struct SilentProxy {
    port: u16,
    /// Connections below this number are silent; of all that there will be, if it is the greatest one.
    silent: Arc<AtomicU64>,
    opened: Arc<AtomicU64>,
}

impl SilentProxy {
    /// A way to a port on loopback.
    ///
    /// # Panics
    ///
    /// If there is no port left to listen on.
    pub fn new(to: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port on loopback");
        let port = listener.local_addr().expect("its address").port();
        let (silent, opened) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (is_silent, numbers) = (Arc::clone(&silent), Arc::clone(&opened));
        thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let Ok(far) = TcpStream::connect(("127.0.0.1", to)) else { continue };
                let number = numbers.fetch_add(1, Ordering::SeqCst);
                for (from, to) in [(&near, &far), (&far, &near)] {
                    let (Ok(from), Ok(to)) = (from.try_clone(), to.try_clone()) else { continue };
                    let silent = Arc::clone(&is_silent);
                    thread::spawn(move || carry(from, to, number, &silent));
                }
            }
        });
        Self { port, silent, opened }
    }

    /// The port that it listens on.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Number of connections opened so far.
    pub fn opened(&self) -> u64 {
        self.opened.load(Ordering::SeqCst)
    }

    /// Nothing passes from now on, on whatever connection.
    pub fn fall_silent(&self) {
        self.silent.store(u64::MAX, Ordering::SeqCst);
    }

    /// Nothing passes on connections that there are; new ones are whole.
    pub fn forget_connections(&self) {
        self.silent.store(self.opened.load(Ordering::SeqCst), Ordering::SeqCst);
    }

    /// All passes again, also what was held back.
    pub fn be_whole(&self) {
        self.silent.store(0, Ordering::SeqCst);
    }
}

/// Carries octets one way until either end closes.
fn carry(mut from: TcpStream, mut to: TcpStream, number: u64, silent: &AtomicU64) {
    let mut octets = [0; 4096];
    loop {
        let read = from.read(&mut octets);
        while silent.load(Ordering::SeqCst) > number {
            thread::sleep(LOOK);
        }
        match read {
            Ok(count) if count > 0 && to.write_all(&octets[..count]).is_ok() => {}
            _ => {
                let _ = to.shutdown(std::net::Shutdown::Both);
                return;
            }
        }
    }
}

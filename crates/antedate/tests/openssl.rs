//! OpenSSL at the other end: a session of DTLS 1.2 with AES-CCM-8. What its two ends send is read here, Finished included, and
//! what is written here goes on where the client left off.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use aes::Aes128;
use aes::cipher::KeyInit as _;
use antedate::dtls::{self, ReadError, Reader, RecordNumbering};
use antedate::{CacheHit, Ccm, Expected, Sender, TagLength};
use hmac::{Hmac, Mac as _};
use sha2::Sha256;

const PATIENCE: Duration = Duration::from_secs(60);
const PSK: &str = "000102030405060708090a0b0c0d0e0f";

/// One end. It ends with the test.
struct Peer {
    child: Child,
    lines: Receiver<String>,
}

impl Peer {
    fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new("openssl")
            .args(arguments)
            .args(["-dtls1_2", "-psk", PSK, "-cipher", "PSK-AES128-CCM8", "-quiet"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the package openssl is needed");
        let (sender, lines) = channel();
        let read = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || read.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, lines }
    }

    fn say(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Passes datagrams until it has printed this line.
    fn heard(&self, line: &str, relay: &mut Relay) {
        relay.pass_until(|_| self.lines.try_iter().any(|heard| heard == line), line);
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Records of both directions, in between.
struct Relay {
    socket: UdpSocket,
    server: SocketAddr,
    client: Option<SocketAddr>,
    /// From the client, and from the server.
    records: [Vec<Vec<u8>>; 2],
}

impl Relay {
    fn pass_until(&mut self, mut done: impl FnMut(&Self) -> bool, what: &str) {
        let begin = Instant::now();
        let mut buffer = [0; 2048];
        while !done(self) {
            assert!(begin.elapsed() < PATIENCE, "waited in vain: {what}");
            // Nothing came, or nobody listens yet: the client sends again.
            let Ok((octets, from)) = self.socket.recv_from(&mut buffer) else { continue };
            let from_server = from == self.server;
            if !from_server {
                self.client = Some(from);
            }
            let mut rest = &buffer[..octets];
            while let Some(record) = dtls::record_octets(rest) {
                self.records[usize::from(from_server)].push(rest[..record].to_vec());
                rest = &rest[record..];
            }
            let to = if from_server { self.client.unwrap() } else { self.server };
            let _ = self.socket.send_to(&buffer[..octets], to);
        }
    }
}

/// The key block of TLS 1.2 (RFC 5246 sections 5 and 6.3): keys of client and server, salts of client and server.
fn key_block(master: &[u8], server_random: &[u8], client_random: &[u8]) -> [u8; 40] {
    let mac = |parts: &[&[u8]]| {
        let mut mac = Hmac::<Sha256>::new_from_slice(master).unwrap();
        parts.iter().for_each(|part| mac.update(part));
        mac.finalize().into_bytes().to_vec()
    };
    let seed = [b"key expansion", server_random, client_random].concat();
    let first = mac(&[&seed]);
    let second = mac(&[&first]);
    let block = [mac(&[&first, &seed]), mac(&[&second, &seed])].concat();
    block[..40].try_into().unwrap()
}

#[test]
fn openssl_is_understood_and_understands() {
    let key_log = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("openssl.keys");
    let _ = fs::remove_file(&key_log);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    // A port that was free a moment ago.
    let server = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let through = socket.local_addr().unwrap().to_string();
    let mut relay = Relay { socket, server, client: None, records: [const { Vec::new() }; 2] };
    let (accept, log) = (server.to_string(), key_log.to_str().unwrap().to_owned());
    let mut of_server = Peer::start(&["s_server", "-nocert", "-accept", &accept, "-keylogfile", &log]);
    let mut of_client = Peer::start(&["s_client", "-connect", &through]);

    of_client.say("from the client");
    of_server.heard("from the client", &mut relay);
    of_server.say("from the server");
    of_client.heard("from the server", &mut relay);

    let log = fs::read_to_string(&key_log).unwrap();
    let line = log.lines().find(|line| line.starts_with("CLIENT_RANDOM")).expect("a logged key");
    let words: Vec<Vec<u8>> = line.split(' ').skip(1).map(|word| hex::decode(word).unwrap()).collect();
    // ServerHello: behind the heads of record and handshake, and the version.
    let hello = relay.records[1].iter().find(|record| (record[0], record[13]) == (22, 2)).unwrap();
    let block = key_block(&words[1], &hello[13 + 12 + 2..][..32], &words[0]);
    let ccm = |key: &[u8]| Ccm::new(Aes128::new_from_slice(key).unwrap(), TagLength::EIGHT);
    let (by_client, by_server) = (ccm(&block[..16]), ccm(&block[16..32]));
    let salts = [&block[32..36], &block[36..40]].map(|salt| <[u8; 4]>::try_from(salt).unwrap());

    let mut last = 0;
    for (end, ccm) in [&by_client, &by_server].into_iter().enumerate() {
        let mut reader = Reader::new(salts[end], 1, 0);
        let mut said = Vec::new();
        for record in &relay.records[end] {
            let mut forged = record.clone();
            *forged.last_mut().unwrap() ^= 1;
            let mut record = record.clone();
            match reader.read(ccm, &mut forged) {
                // Records in clear, before the keys.
                Err(ReadError::Epoch | ReadError::Malformed) => continue,
                refused => assert_eq!(refused, Err(ReadError::NotAuthentic)),
            }
            let read = reader.read(ccm, &mut record).unwrap();
            said.push((read.kind, read.number, read.data.to_vec()));
            if end == 0 {
                last = last.max(read.number);
            }
        }
        // Finished, which begins with its type, 20; then what was said.
        assert_eq!((said[0].0, said[0].1, said[0].2[0]), (22, 0, 20), "{said:?}");
        let line = [&b"from the client\n"[..], b"from the server\n"][end];
        // A line may come in pieces.
        let applied = said.iter().filter(|(kind, ..)| *kind == dtls::APPLICATION_DATA);
        let applied: Vec<u8> = applied.flat_map(|(.., data)| data.clone()).collect();
        assert_eq!(applied, line, "{said:?}");
        let record = relay.records[end].last().unwrap();
        assert_eq!(reader.read(ccm, &mut record.clone()), Err(ReadError::Replayed));
    }

    let numbering = RecordNumbering { salt: salts[0], epoch: 1, kind: dtls::APPLICATION_DATA };
    let mut sender = Sender::<_, _, 64, 32, 2>::new(&by_client, numbering, last + 1);
    for value in ["21.5", "21.7"] {
        let data = format!("temperature cell 4: {value}\n");
        assert!(sender.prepare(Expected::exactly(data.len()), b"temperature cell 4: "));
        let mut record = [0; 64];
        record[dtls::HEADER_OCTETS..][..data.len()].copy_from_slice(data.as_bytes());
        let written = dtls::write(&mut sender, &mut record, data.len()).unwrap();
        assert_eq!(written.hit, CacheHit::Full);
        relay.socket.send_to(&record[..written.octets], relay.server).unwrap();
        of_server.heard(data.trim_end(), &mut relay);
    }
}

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

use report::samples::sample;

use super::*;
use crate::http::{HttpServer, Listening};

fn asked(address: SocketAddr) -> Result<Bytes, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(ask(address))
}

/// Somebody who says this to who asks.
fn answering(answer: impl Into<Vec<u8>>) -> SocketAddr {
    let (listener, answer) = (TcpListener::bind("127.0.0.1:0").unwrap(), answer.into());
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut octet = [0];
            client.read_exact(&mut octet).unwrap();
            head.push(octet[0]);
        }
        // A reader that is sent too much goes away.
        let _ = client.write_all(&answer);
        std::thread::sleep(2 * PATIENCE);
    });
    address
}

#[test]
fn a_gateways_status_is_passed_on_as_it_is() {
    let http = config::Http { address: (Ipv4Addr::LOCALHOST, 0).into(), line: config::Origin(4) };
    let taken = TcpListener::bind(http.address).unwrap();
    let http = config::Http { address: taken.local_addr().unwrap(), ..http };
    drop(taken);
    let listening = Listening::start(Path::new("gw.toml"), http).unwrap();
    let _server = HttpServer::start(listening, || Some(sample("line").into())).unwrap();
    let status = asked(http.address).unwrap();
    assert_eq!(status, sample("line").document());
}

#[test]
fn what_is_no_status_is_refused_and_nobody_is_waited_for() {
    let head = |octets: usize| format!("HTTP/1.1 200 OK\r\nContent-Length: {octets}\r\n\r\n");
    let long = [head(STATUS_OCTETS + 2).as_bytes(), b"\"", &vec![b'a'; STATUS_OCTETS], b"\""].concat();
    for (answer, expected) in [
        (b"HTTP/1.1 503 Busy\r\nContent-Length: 2\r\n\r\n{}".to_vec(), "answers 503"),
        ([head(6).as_bytes(), b"<html>"].concat(), "no status of a gateway"),
        (b"SSH-2.0\r\n\r\n".to_vec(), "broke off"),
        (long, "length limit exceeded"),
        (Vec::new(), "does not answer within 5 s"),
        (head(100).into_bytes(), "does not answer within 5 s"),
    ] {
        let shown = String::from_utf8_lossy(&answer[..answer.len().min(40)]).into_owned();
        let why = asked(answering(answer)).unwrap_err();
        assert!(why.contains(expected), "{shown}: {why}");
    }
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert!(asked(closed).unwrap_err().contains("refused"));
}

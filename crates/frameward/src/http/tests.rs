use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::*;
use report::samples::sample;
use report::{Baseline, GatewayReport};

const LOOPBACK: Http =
    Http { address: SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0), line: config::Origin(4) };
/// Time limit for anything, on a busy machine.
const DEADLINE: Duration = Duration::from_secs(20);

fn serve_with(mut ask: impl FnMut() -> Option<GatewayReport> + Send + 'static) -> (HttpServer, SocketAddr) {
    serve_counted(move || ask().map(CountedReport::from))
}

fn serve_counted(ask: impl FnMut() -> Option<CountedReport> + Send + 'static) -> (HttpServer, SocketAddr) {
    let listening = Listening::start(Path::new("gw.toml"), LOOPBACK).unwrap();
    let address = listening.0.address().unwrap();
    (HttpServer::start(listening, ask).unwrap(), address)
}

fn connect(address: SocketAddr) -> std::net::TcpStream {
    let client = std::net::TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(DEADLINE)).unwrap();
    client
}

/// Sends octets and returns all that comes back, in lower case up to the body.
fn exchange(address: SocketAddr, request: &str) -> String {
    let mut client = connect(address);
    client.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    answer
}

fn get(address: SocketAddr, path: &str) -> String {
    exchange(address, &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n"))
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").unwrap().1
}

#[test]
fn every_address_says_what_it_is() {
    let (_server, address) = serve_with(|| Some(sample("line")));
    for (path, status, media_type, begin) in [
        ("/", 200, "text/html; charset=utf-8", "<!doctype html>"),
        ("/?x=1", 200, "text/html; charset=utf-8", "<!doctype html>"),
        ("/status", 200, "application/json", "{\n  \"name\": \"line\""),
        ("/metrics", 200, "application/openmetrics-text; version=1.0.0; charset=utf-8", "# HELP frameward_"),
        ("/etc/passwd", 404, "text/plain; charset=utf-8", "There are"),
        ("/../status", 404, "text/plain; charset=utf-8", "There are"),
    ] {
        let answer = get(address, path);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{path}: {answer}");
        assert!(body(&answer).starts_with(begin), "{path}: {answer}");
        for line in [
            &format!("content-type: {media_type}"),
            "cache-control: no-store",
            "x-content-type-options: nosniff",
            "x-frame-options: DENY",
            "referrer-policy: no-referrer",
            "cross-origin-resource-policy: same-origin",
            "connection: close",
        ] {
            assert!(answer.contains(&format!("\r\n{line}\r\n")), "{path}: {line} is not in {answer}");
        }
        assert!(answer.contains("content-security-policy: default-src 'none'"), "{answer}");
        assert!(!answer.to_ascii_lowercase().contains("access-control-allow"), "{answer}");
    }
    assert_eq!(body(&get(address, "/status")), sample("line").document());
}

#[test]
fn it_can_only_be_read() {
    let (_server, address) = serve_with(|| Some(sample("line")));
    let head = exchange(address, &format!("HEAD /status HTTP/1.1\r\nHost: {address}\r\n\r\n"));
    assert!(head.starts_with("HTTP/1.1 200 ") && body(&head).is_empty(), "{head}");
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "BREW"] {
        let answer = exchange(
            address,
            &format!("{method} / HTTP/1.1\r\nHost: {address}\r\nContent-Length: 0\r\n\r\n"),
        );
        assert!(answer.starts_with("HTTP/1.1 405 ") && answer.contains("allow: GET, HEAD"), "{answer}");
    }
}

#[test]
fn a_name_that_could_be_anybodys_is_refused() {
    let (_server, address) = serve_with(|| Some(sample("line")));
    let asked_as = |host: &str| exchange(address, &format!("GET /status HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    for host in [
        "127.0.0.1",
        "127.0.0.1:9464",
        "[::1]:9464",
        "192.0.2.1",
        "localhost:9464",
        "LOCALHOST",
        machine.trim(),
    ] {
        assert!(asked_as(host).starts_with("HTTP/1.1 200 "), "{host}");
    }
    for host in
        ["attacker.example", "127.0.0.1.attacker.example", "localhost.attacker.example:9464", "", "a b"]
    {
        let answer = asked_as(host);
        assert!(answer.starts_with("HTTP/1.1 421 ") && !answer.contains("press"), "{host}: {answer}");
    }
    assert!(exchange(address, "GET /status HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 421 "));
}

#[test]
fn however_many_ask_the_gateway_is_asked_ten_times_a_second() {
    static ASKED: AtomicU64 = AtomicU64::new(0);
    let (_server, address) = serve_with(|| {
        ASKED.fetch_add(1, Ordering::Relaxed);
        Some(sample("line"))
    });
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for path in ["/status", "/metrics", "/status"] {
            scope.spawn(move || {
                (0..50).for_each(|_| assert!(get(address, path).starts_with("HTTP/1.1 200 ")))
            });
        }
    });
    let most = 1 + begin.elapsed().as_nanos() / figures::FRESH.as_nanos();
    let asked = u128::from(ASKED.load(Ordering::Relaxed));
    assert!((1..=most).contains(&asked), "{asked} times, {most} allowed");
}

#[test]
fn a_gateway_without_figures_says_so() {
    let (_server, address) = serve_with(|| None);
    for path in ["/status", "/metrics"] {
        assert!(get(address, path).starts_with("HTTP/1.1 503 "));
    }
    assert!(get(address, "/").starts_with("HTTP/1.1 200 "));
}

#[test]
fn idle_and_dripping_clients_crowd_nobody_out() {
    let (server, address) = serve_with(|| Some(sample("line")));
    let mut slow = Vec::new();
    for number in 0..3 * CONNECTIONS {
        let mut client = connect(address);
        if number % 2 == 0 {
            client.write_all(b"GET /status HTTP/1.1\r\nHost: 127").unwrap();
        }
        slow.push(client);
    }
    assert!(get(address, "/status").starts_with("HTTP/1.1 200 "));
    // The oldest were closed for it, and the others are when their time is over.
    let mut rest = Vec::new();
    let _ = slow[0].read_to_end(&mut rest);
    assert!(!String::from_utf8_lossy(&rest).contains(" 200 "));
    let _ = slow.pop().unwrap().read_to_end(&mut rest);
    // A server with clients ends.
    drop(server);
    assert!(std::net::TcpStream::connect(address).is_err());
}

#[test]
fn heads_without_end_are_refused() {
    let (_server, address) = serve_with(|| Some(sample("line")));
    let long = format!("GET / HTTP/1.1\r\nHost: {address}\r\nX: {}\r\n\r\n", "x".repeat(4 * LONGEST_HEAD));
    let many = format!("GET / HTTP/1.1\r\nHost: {address}\r\n{}\r\n", "X: y\r\n".repeat(MOST_FIELDS));
    for request in [long, many, "\u{16}\u{3}\u{1} no HTTP\r\n\r\n".to_owned()] {
        let mut client = connect(address);
        // The server may close before it has read all.
        let _ = client.write_all(request.as_bytes());
        let mut answer = Vec::new();
        let _ = client.read_to_end(&mut answer);
        assert!(!String::from_utf8_lossy(&answer).contains("200 OK"), "{request}");
    }
    assert!(get(address, "/").starts_with("HTTP/1.1 200 "));
}

#[test]
fn an_address_that_cannot_be_had_is_told_with_its_line() {
    let taken = TcpListener::bind(LOOPBACK.address).unwrap();
    let taken = taken.local_addr().unwrap();
    let told = |address| {
        Listening::start(Path::new("gw.toml"), Http { address, line: config::Origin(4) })
            .unwrap_err()
            .to_string()
    };
    let in_use = told(taken);
    assert!(in_use.starts_with(&format!("gw.toml:4: cannot listen on http = \"{taken}\": ")), "{in_use}");
    assert!(
        in_use.ends_with("stop the program that uses it ('ss -ltnp' names it), or choose another port"),
        "{in_use}"
    );
    // 192.0.2.0/24 is for documents only.
    let absent = told("192.0.2.1:9464".parse().unwrap());
    assert!(absent.contains("no interface has this address"), "{absent}");
}

#[test]
fn cleared_counters_go_on_as_metrics() {
    let (_server, address) = serve_counted(|| {
        let report = sample("line");
        let baseline = Some(Arc::new(Baseline::of(report.clone())));
        Some(CountedReport { report, baseline })
    });
    let status = get(address, "/status");
    assert!(status.contains("\"cleared_seconds\": 0") && status.contains("\"InPktsOK\": 0"), "{status}");
    let metrics = get(address, "/metrics");
    let ok = metrics.lines().find(|line| line.starts_with("frameward_receive_sc_in_pkts_ok_total{"));
    assert!(ok.is_some_and(|line| line.ends_with("} 3")), "{metrics}");
}

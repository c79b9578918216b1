use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::time::Instant;

use inventory::{Layout, Placed};
use serde_json::Value;
use suite::identity::PublicKey;
use testkit::TestDirectory;

use super::super::board::DirectoryView;
use super::super::logs::{Audit, Heads};
use super::super::overview::{Overview, Verdict};
use super::super::routes::ROUTES;
use super::super::tokens::Role;
use super::super::{OPENAPI, tokens};
use super::*;

/// Time limit for anything, on a busy machine.
const DEADLINE: Duration = Duration::from_secs(20);
const FLEET: PublicKey = PublicKey([1; 32]);

fn loopback() -> Settings {
    Settings {
        address: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
        tls: None,
        client_ca: None,
        tokens: None,
        hosts: Vec::new(),
    }
}

fn layout(names: &[(&str, Option<&str>)]) -> Layout {
    let placed = |http: Option<&str>| Placed {
        plant: Some("dresden".to_owned()),
        http: http.map(|http| http.parse().unwrap()),
        announced: None,
    };
    let gateways = names.iter().map(|(name, http)| ((*name).to_owned(), placed(*http)));
    Layout { gateways: gateways.collect(), connections: Vec::new() }
}

/// A server of a fleet of these gateways, which shows nothing yet.
fn serve(settings: &Settings, layout: Layout) -> (Server, SocketAddr, Arc<Surface>) {
    let place = TestDirectory::new(
        &format!("cockpit-server-{:?}", std::thread::current().id()).replace(['(', ')'], "-"),
    );
    let surface = Arc::new(Surface::new(layout, move || Audit::new(place.path(), Ok(Heads::new()), FLEET)));
    let listening = Listening::start(settings).unwrap();
    let address = listening.address().unwrap();
    (Server::start(listening, Arc::clone(&surface)).unwrap(), address, surface)
}

fn show(surface: &Surface, time: u64, change: impl FnOnce(&mut Overview)) {
    let mut overview = Overview::new(FLEET, &surface.layout(), &BTreeMap::new(), time);
    change(&mut overview);
    surface.show(overview, DirectoryView::default(), Vec::new());
}

/// Sends octets and returns all that comes back.
fn exchange(address: SocketAddr, request: &str) -> String {
    let mut client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(DEADLINE)).unwrap();
    client.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    // A client that sent more than was read may find the connection reset behind the answer.
    let _ = client.read_to_string(&mut answer);
    answer
}

fn get(address: SocketAddr, path: &str, fields: &str) -> String {
    exchange(address, &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{fields}\r\n"))
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").unwrap().1
}

fn json(answer: &str) -> Value {
    serde_json::from_str(body(answer)).unwrap()
}

fn is(answer: &str, status: u16) -> bool {
    answer.starts_with(&format!("HTTP/1.1 {status} "))
}

#[test]
fn what_a_browser_has_is_not_sent_again() {
    let (_server, address, surface) = serve(&loopback(), layout(&[("crane", None), ("press", None)]));
    let early = get(address, "/api/overview", "");
    assert!(is(&early, 503) && json(&early)["cause"] == "the controller has just started", "{early}");
    surface.wait("directory etcd://x is away".to_owned());
    assert_eq!(json(&get(address, "/api/overview", ""))["cause"], "directory etcd://x is away");
    // A file that is not there does not come within a second.
    surface.wait("directory x: there is no such file; name the file that apply has written".to_owned());
    let away = json(&get(address, "/api/overview", ""));
    assert_eq!(
        (&away["cause"], &away["cure"]),
        (&"directory x: there is no such file".into(), &"name the file that apply has written".into())
    );
    show(&surface, 1_000, |_| ());
    let first = get(address, "/api/overview", "");
    let revision = json(&first)["revision"].as_u64().unwrap();
    let tag = format!("\"{revision}\"");
    assert!(is(&first, 200) && first.contains(&format!("\r\netag: {tag}\r\n")), "{first}");
    for known in [tag.clone(), format!("\"1\", {tag}")] {
        let again = get(address, "/api/overview", &format!("If-None-Match: {known}\r\n"));
        assert!(is(&again, 304) && body(&again).is_empty(), "{again}");
    }
    // A look that finds nothing new is told, too.
    assert_eq!(json(&first)["looked"], 1_000);
    show(&surface, 1_007, |_| ());
    let again = json(&get(address, &format!("/api/overview?since={revision}"), ""));
    assert_eq!((&again["looked"], &again["revision"]), (&1_007.into(), &revision.into()), "{again}");
    show(&surface, 1_008, |overview| overview.gateways[1].verdict = Verdict::Alarm);
    let since =
        get(address, &format!("/api/overview?x=1&since={revision}"), &format!("If-None-Match: {tag}\r\n"));
    assert!(is(&since, 200), "{since}");
    let since = json(&since);
    assert_eq!((&since["whole"], &since["gateways"][0]["name"]), (&Value::Bool(false), &"press".into()));
    assert_eq!(since["gateways"].as_array().unwrap().len(), 1);
    for all in ["", "?since=", "?since=x", "?since=-1", "?since=99999999999999999999"] {
        assert_eq!(json(&get(address, &format!("/api/overview{all}"), ""))["whole"], true, "{all}");
    }
}

/// No other site's page reads here, and no request changes anything.
#[test]
fn it_can_only_be_read_and_only_by_its_own_names() {
    let settings = Settings { hosts: vec!["cockpit.example".to_owned()], ..loopback() };
    let (_server, address, surface) = serve(&settings, layout(&[("press", None)]));
    show(&surface, 1_000, |_| ());
    for (host, status) in [
        ("127.0.0.1", 200),
        ("[::1]:9480", 200),
        ("localhost:9480", 200),
        ("cockpit.example", 200),
        ("evil.example", 421),
        ("cockpit.example.evil.example", 421),
        ("", 421),
    ] {
        let request = format!("GET /api/overview HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        assert!(is(&exchange(address, &request), status), "{host}");
    }
    for (site, status) in [("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)] {
        let field = format!("Sec-Fetch-Site: {site}\r\n");
        assert!(is(&get(address, "/api/overview", &field), status), "{site}");
        assert!(is(&get(address, "/", &field), 200), "{site}: a link to the page");
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"] {
        let answer = exchange(
            address,
            &format!(
                "{method} /api/overview HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
            ),
        );
        assert!(is(&answer, 405) && answer.contains("\r\nallow: GET, HEAD\r\n"), "{answer}");
    }
    for path in [
        "/",
        "/api/",
        "/api/overview",
        "/api/history",
        "/api/audit",
        "/api/openapi.json",
        "/api/gateways/x/status",
        "/../etc/passwd",
    ] {
        let answer = get(address, path, "");
        assert!(answer.contains("\r\nx-content-type-options: nosniff\r\n"), "{answer}");
        assert!(answer.contains("\r\ncontent-security-policy: default-src 'none'"), "{answer}");
        assert!(answer.contains("\r\ncross-origin-resource-policy: same-origin\r\n"), "{answer}");
        assert!(!answer.contains("access-control-allow") && !answer.contains("set-cookie"), "{answer}");
    }
}

#[test]
fn only_who_has_a_token_is_answered() {
    let place = TestDirectory::new("cockpit-server-tokens");
    let path = place.path().join("viewers");
    let token = tokens::add(&path, "anna", Role::Viewer).unwrap();
    let (_server, address, surface) =
        serve(&Settings { tokens: Some(path), ..loopback() }, layout(&[("press", None)]));
    show(&surface, 1_000, |_| ());
    let wrong = "0".repeat(64);
    for (field, status) in [
        (format!("Authorization: Bearer {}\r\n", token.as_str()), 200),
        (format!("authorization: bearer {}\r\n", token.as_str()), 200),
        (String::new(), 401),
        (format!("Authorization: Bearer {wrong}\r\n"), 401),
        (format!("Authorization: Basic {}\r\n", token.as_str()), 401),
        (format!("Authorization: {}\r\n", token.as_str()), 401),
        (format!("Cookie: token={}\r\n", token.as_str()), 401),
    ] {
        for path in ["/api/overview", "/api/history", "/api/audit"] {
            let answer = get(address, path, &field);
            assert!(is(&answer, status), "{path} {field}: {answer}");
            assert_eq!(answer.contains("\r\nwww-authenticate: Bearer\r\n"), status == 401);
            assert!(status == 200 || !answer.contains("press"), "{answer}");
        }
        let status = if status == 200 { 404 } else { 401 };
        assert!(is(&get(address, "/api/gateways/none/status", &field), status), "{field}");
    }
    assert!(
        is(&get(address, &format!("/api/overview?token={}", token.as_str()), ""), 401),
        "addresses stand in logs"
    );
}

/// A request names a gateway, and the address comes from the inventory alone.
#[test]
fn a_gateways_own_status_comes_through_the_controller() {
    let gateways = [
        ("far", Some("192.0.2.1:9")),
        ("here", Some("127.0.0.1:9464")),
        ("all", Some("0.0.0.0:9464")),
        ("mute", None),
    ];
    let (_server, address, surface) = serve(&loopback(), layout(&gateways));
    show(&surface, 1_000, |_| ());
    for (name, status, cause) in [
        ("none", 404, "the inventory has no such gateway"),
        ("10.0.0.1:80", 404, "the inventory has no such gateway"),
        ("%66ar", 404, "the inventory has no such gateway"),
        ("../far", 404, "the inventory has no such gateway"),
        ("here", 404, "serves no status that the controller reaches"),
        ("all", 404, "serves no status that the controller reaches"),
        ("mute", 404, "serves no status that the controller reaches"),
        ("far", 502, "192.0.2.1:9"),
    ] {
        let answer = get(address, &format!("/api/gateways/{name}/status"), "");
        assert!(is(&answer, status), "{name}: {answer}");
        let answer = json(&answer);
        assert!(
            answer["cause"].as_str().unwrap().contains(cause) && !answer["cure"].as_str().unwrap().is_empty(),
            "{name}: {answer}"
        );
    }
}

/// Silent clients crowd nobody out, and do not stay.
#[test]
fn idle_connections_crowd_nobody_out() {
    let (_server, address, surface) = serve(&loopback(), layout(&[("press", None)]));
    show(&surface, 1_000, |_| ());
    let mut idle: Vec<_> = (0..3 * CONNECTIONS).map(|_| TcpStream::connect(address).unwrap()).collect();
    assert!(is(&get(address, "/api/overview", ""), 200));
    let first = &mut idle[0];
    first.set_read_timeout(Some(DEADLINE)).unwrap();
    let closed = first.read(&mut [0]);
    assert!(
        matches!(closed, Ok(0)) || closed.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionReset)
    );
    // An idle connection is closed after a while, also if there is room.
    let last = idle.last_mut().unwrap();
    last.set_read_timeout(Some(DEADLINE)).unwrap();
    let since = Instant::now();
    let _ = last.read(&mut [0]);
    assert!(since.elapsed() < DEADLINE, "still open");
    // A head without an end.
    let long = exchange(address, &format!("GET /{} HTTP/1.1\r\n", "a".repeat(2 * LONGEST_HEAD)));
    assert!(!is(&long, 200) && long.len() < 1_000, "{long}");
}

/// A stranger who floods the address with connections keeps nobody out who has shown a token.
#[test]
fn strangers_crowd_out_nobody_who_is_known() {
    let place = TestDirectory::new("cockpit-server-strangers");
    let path = place.path().join("viewers");
    let token = tokens::add(&path, "anna", Role::Viewer).unwrap();
    let (_server, address, surface) =
        serve(&Settings { tokens: Some(path), ..loopback() }, layout(&[("press", None)]));
    show(&surface, 1_000, |_| ());
    let mut known = TcpStream::connect(address).unwrap();
    known.set_read_timeout(Some(DEADLINE)).unwrap();
    let request = format!(
        "GET /api/overview HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {}\r\n\r\n",
        token.as_str()
    );
    let mut asks = || {
        known.write_all(request.as_bytes()).unwrap();
        let mut octets = [0; 65_536];
        let count = known.read(&mut octets).unwrap();
        String::from_utf8_lossy(&octets[..count]).into_owned()
    };
    assert!(is(&asks(), 200));
    let strangers: Vec<_> = (0..3 * CONNECTIONS).map(|_| TcpStream::connect(address).unwrap()).collect();
    // The last of them was accepted when this one is answered.
    assert!(is(&get(address, "/", ""), 200));
    let answer = asks();
    assert!(is(&answer, 200), "{answer:?}");
    drop(strangers);
}

/// A request of a route, with a body that is JSON.
fn ask(address: SocketAddr, method: &str, path: &str, fields: &str) -> String {
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: 2\r\n{fields}\r\n{{}}"
    );
    exchange(address, &request)
}

/// Each address, with each role and without one.
#[test]
fn each_address_is_for_those_who_have_its_role() {
    let place = TestDirectory::new("cockpit-server-roles");
    let path = place.path().join("viewers");
    let tokens = Role::ALL.map(|role| (role, tokens::add(&path, role.word(), role).unwrap()));
    let (_server, address, surface) =
        serve(&Settings { tokens: Some(path), ..loopback() }, layout(&[("x", None)]));
    show(&surface, 1_000, |_| ());
    let api: Value = serde_json::from_str(OPENAPI).unwrap();
    assert_eq!(api["paths"].as_object().unwrap().len(), ROUTES.len(), "each is described");
    for route in &ROUTES {
        let described = &api["paths"][route.path][route.method.as_str().to_ascii_lowercase()];
        let role = described["security"][0]["token"][0].as_str();
        assert_eq!(role, route.role.map(Role::word), "{}", route.path);
        let (method, path) = (route.method.as_str(), route.path.replace("{name}", "x"));
        let json = "Content-Type: application/json\r\n";
        let without = ask(address, method, &path, json);
        assert_eq!(is(&without, 401), route.role.is_some(), "{method} {path}: {without}");
        for (role, token) in &tokens {
            let fields = format!("{json}Authorization: Bearer {}\r\n", token.as_str());
            let answer = ask(address, method, &path, &fields);
            let may = route.role.is_none_or(|needed| needed <= *role);
            let is_refused = answer.contains("this needs the role");
            assert_eq!(is_refused, !may, "{method} {path} as {role}: {answer}");
            assert_eq!(is_refused, is(&answer, 403) && !answer.contains("changes nothing"), "{answer}");
        }
        let other = if method == "GET" { "POST" } else { "GET" };
        let fields = format!("{json}Authorization: Bearer {}\r\n", tokens[2].1.as_str());
        assert!(is(&ask(address, other, &path, &fields), 405), "{other} {path}");
    }
}

/// Nobody has to show who he is on loopback, and nobody changes anything then.
#[test]
fn who_is_nobody_reads_and_no_more() {
    let (_server, address, surface) = serve(&loopback(), layout(&[("x", None)]));
    show(&surface, 1_000, |_| ());
    for route in &ROUTES {
        let path = route.path.replace("{name}", "x");
        let answer = ask(address, route.method.as_str(), &path, "Content-Type: application/json\r\n");
        let may = route.role.is_none_or(|needed| needed == Role::Viewer);
        assert_eq!(answer.contains("this needs the role"), !may, "{path}: {answer}");
    }
}

#[test]
fn a_connection_takes_several_requests() {
    let (_server, address, surface) = serve(&loopback(), layout(&[("press", None)]));
    show(&surface, 1_000, |_| ());
    let request = format!("GET /api/overview HTTP/1.1\r\nHost: {address}\r\n\r\n");
    let last = request.replacen("\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1);
    let answers = exchange(address, &format!("{request}{request}{last}"));
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 3, "{answers}");
}

#[test]
fn what_others_reach_needs_tls_and_who_may_look() {
    let [cert, key, file] = ["c.pem", "c.key", "f"].map(PathBuf::from);
    let of = |address: &str, tls: bool, client_ca: bool, tokens: bool| Settings {
        address: address.parse().unwrap(),
        tls: tls.then(|| (cert.clone(), key.clone())),
        client_ca: client_ca.then(|| file.clone()),
        tokens: tokens.then(|| file.clone()),
        hosts: Vec::new(),
    };
    for (settings, expected) in [
        (of("127.0.0.1:9480", false, false, false), None),
        (of("[::1]:9480", false, false, true), None),
        (of("10.0.0.1:9480", true, true, false), None),
        (of("10.0.0.1:9480", true, false, true), None),
        (of("10.0.0.1:9480", false, false, false), Some("add --tls-cert FILE")),
        (of("10.0.0.1:9480", false, false, true), Some("add --tls-cert FILE")),
        (of("0.0.0.0:9480", false, false, true), Some("add --tls-cert FILE")),
        (of("[::]:9480", true, false, false), Some("add --tokens FILE or --client-ca FILE")),
        (of("127.0.0.1:9480", false, true, false), Some("--client-ca needs --tls-cert")),
    ] {
        let judged = settings.judge();
        match expected {
            None => assert_eq!(judged, Ok(()), "{settings:?}"),
            Some(cure) => {
                assert!(judged.as_ref().is_err_and(|why| why.contains(cure)), "{settings:?}: {judged:?}")
            }
        }
    }
}

#[test]
fn files_that_cannot_be_used_are_told_by_name() {
    let place = TestDirectory::new("cockpit-server-files");
    let path = |name: &str| place.path().join(name);
    fs::write(path("c.pem"), "no certificate").unwrap();
    fs::write(path("c.key"), "no key").unwrap();
    let settings = || Settings { tls: Some((path("c.pem"), path("c.key"))), ..loopback() };
    let why = |settings: Settings| Listening::start(&settings).unwrap_err().to_string();
    fs::set_permissions(path("c.key"), fs::Permissions::from_mode(0o644)).unwrap();
    assert!(why(settings()).contains("c.key can be read by others"));
    fs::set_permissions(path("c.key"), fs::Permissions::from_mode(0o600)).unwrap();
    assert!(why(settings()).contains("c.key: "), "{}", why(settings()));
    assert!(why(Settings { tokens: Some(path("none")), ..loopback() }).contains("none"));
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    assert!(why(Settings { address, ..loopback() }).contains("stop the program that uses it"));
}

/// The description says all that the answers have, and nothing else.
#[test]
fn the_answers_are_as_the_description_says() {
    let api: Value = serde_json::from_str(OPENAPI).unwrap();
    let (_server, address, surface) = serve(&loopback(), layout(&[("press", Some("10.0.0.1:9464"))]));
    let line = inventory::Connection {
        kind: inventory::ConnectionKind::Link,
        name: "line".to_owned(),
        ends: [("press".to_owned(), "line".to_owned())].into(),
    };
    let mut all = (*surface.layout()).clone();
    all.connections.push(line);
    surface.lay_out(all);
    let part = |overview: &mut Overview| {
        let (kind, name) = ("link".to_owned(), "line".to_owned());
        let words = "cut".to_owned();
        overview.gateways[0].parts.push(super::super::overview::PartView {
            kind,
            name,
            verdict: Verdict::Alarm,
            words,
        });
    };
    show(&surface, 1_000, part);
    show(&surface, 1_001, |overview| {
        part(overview);
        overview.gateways[0].verdict = Verdict::Alarm;
    });
    for (path, schema) in [
        ("/api/overview", "Overview"),
        ("/api/history", "History"),
        ("/api/audit", "Audit"),
        ("/api/actions", "Actions"),
        ("/api/gateways/x/status", "Failure"),
    ] {
        let known = path.replace("/x/", "/{name}/");
        assert!(api["paths"].get(&known).is_some(), "{known}");
        described(&api, &api["components"]["schemas"][schema], &json(&get(address, path, "")), path);
    }
    assert_eq!(json(&get(address, "/api/openapi.json", "")), api);
    // A line of a log, with all that it can have.
    let line = fleet::audit::Line {
        operator: Some("00".to_owned()),
        objects: vec!["press".to_owned()],
        by: Some("anna".to_owned()),
        begun: Some(1),
        versions: [("press".to_owned(), 7)].into(),
        reason: "no".to_owned(),
        signature: Some("00".to_owned()),
        ..fleet::audit::Line::default()
    };
    let line = serde_json::to_value(line).unwrap();
    described(&api, &api["components"]["schemas"]["AuditEntry"], &line, "a line");
    assert_eq!(
        line.as_object().unwrap().len(),
        api["components"]["schemas"]["AuditEntry"]["properties"].as_object().unwrap().len()
    );
}

/// Sees that a value is of a schema.
fn described(api: &Value, schema: &Value, value: &Value, at: &str) {
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.strip_prefix("#/components/schemas/").unwrap();
        return described(api, &api["components"]["schemas"][name], value, at);
    }
    if let Some(words) = schema["enum"].as_array() {
        assert!(words.contains(value), "{at}: {value} is none of {words:?}");
    }
    let types: Vec<_> =
        schema["type"].as_array().map_or_else(|| vec![&schema["type"]], |all| all.iter().collect());
    let is = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_u64() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    assert!(types.iter().any(|known| *known == is), "{at}: {value} is no {types:?}");
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        described(api, &schema["items"], item, &format!("{at}[{index}]"));
    }
    let Some(fields) = value.as_object() else { return };
    if schema.get("additionalProperties").is_some() {
        return;
    }
    let known = schema["properties"].as_object().unwrap();
    for (name, value) in fields {
        let schema = known.get(name).unwrap_or_else(|| panic!("{at}: {name} is not described"));
        described(api, schema, value, &format!("{at}.{name}"));
    }
    for name in schema["required"].as_array().unwrap() {
        assert!(fields.contains_key(name.as_str().unwrap()), "{at}: {name} is missing");
    }
}

//! The cockpit's page in a real browser, before the real server with a fleet of 5,000 gateways. About a minute; root, for a network namespace.
//! Pictures are left in `target/screenshots`.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use browser::Browser;
use fleet::audit::{self, Line};
use fleet::{GatewayName, Heartbeat, Outcome, Part, PartKind, PartLevel, Parts, Standing};
use frameward::cockpit::logs::{Audit, Heads};
use frameward::cockpit::overview::Overview;
use frameward::cockpit::{DirectoryView, Listening, Seen, Server, Settings, Surface};
use inventory::{Connection, ConnectionKind, Layout, Placed};
use lab::Namespace;
use sha2::{Digest as _, Sha256};
use suite::identity::PublicKey;
use testkit::TestDirectory;

const FLEET: PublicKey = PublicKey([7; 32]);
/// An address of the namespace that is no loopback one: of a gateway with a status.
const BOX: &str = "10.44.0.1";
/// A name that would run if the page took it for markup.
const HOSTILE: &str = "<img src=x onerror=document.title='taken'>";

fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
}

/// A fleet that a test changes.
struct Plants {
    layout: Layout,
    standings: BTreeMap<String, Standing>,
    now: u64,
}

impl Plants {
    /// A fleet of these numbers of gateways and plants, all of them well. Each gateway has a link with the next one, and the first one of each plant a tunnel
    /// to the first plant.
    fn new(gateways: usize, plants: usize) -> Self {
        let mut fleet = Self { layout: Layout::default(), standings: BTreeMap::new(), now: now() };
        let name = |number: usize| format!("box-{number:04}");
        for number in 0..gateways {
            let plant = Some(format!("plant-{:02}", number % plants));
            fleet.layout.gateways.insert(name(number), Placed { plant, ..Placed::default() });
        }
        let mut connect = |kind, of: String, ends: &[usize]| {
            let ends = ends.iter().map(|number| (name(*number), of.clone())).collect();
            fleet.layout.connections.push(Connection { kind, name: of, ends });
        };
        // In one plant, since plants follow each other.
        for number in
            (0..gateways.saturating_sub(plants)).filter(|number| (number / plants).is_multiple_of(2))
        {
            connect(ConnectionKind::Link, format!("line-{number:04}"), &[number, number + plants]);
        }
        (1..plants).for_each(|plant| connect(ConnectionKind::Tunnel, format!("to-{plant:02}"), &[0, plant]));
        let names: Vec<_> = fleet.layout.gateways.keys().cloned().collect();
        for name in names {
            let of = fleet.layout.connections.iter().filter(|of| of.ends.contains_key(&name));
            let parts = of.map(|of| Part {
                kind: if of.kind == ConnectionKind::Tunnel { PartKind::Site } else { PartKind::Link },
                name: of.name.clone(),
                level: PartLevel::Good,
                state: "protecting".to_owned(),
                peers: None,
            });
            let standing = fleet.standing(&name, parts.collect());
            fleet.standings.insert(name, standing);
        }
        fleet
    }

    fn standing(&self, name: &str, parts: Vec<Part>) -> Standing {
        let version = self.now - 86_400;
        let heartbeat = Heartbeat {
            fleet: FLEET,
            gateway: GatewayName::new(name).unwrap(),
            member: PublicKey([8; 32]),
            counter: 1,
            time: self.now - 5,
            in_use: Some(version),
            outcome: Outcome::Confirmed,
            why: String::new(),
            unused: None,
            parts: Some(Parts::new(parts)),
        };
        Standing {
            published: Some(version),
            heartbeat: Some(heartbeat),
            refusal: None,
            hidden: None,
            is_withheld: false,
            newer: None,
        }
    }

    /// Changes where a gateway stands.
    fn change(&mut self, name: &str, how: impl FnOnce(&mut Standing, &mut Heartbeat)) {
        let standing = self.standings.get_mut(name).unwrap();
        let mut heartbeat = standing.heartbeat.take().unwrap();
        how(standing, &mut heartbeat);
        standing.heartbeat = Some(heartbeat);
    }

    /// Something of all that can be wrong.
    fn with_troubles(mut self) -> Self {
        let yesterday = self.now - 86_400;
        self.change("box-0007", |standing, heartbeat| {
            standing.published = Some(yesterday + 80_000);
            (heartbeat.outcome, heartbeat.why) = (Outcome::Refused, HOSTILE.to_owned());
        });
        self.change("box-0012", |_, heartbeat| heartbeat.time -= 5_000);
        self.change("box-0120", |standing, heartbeat| {
            standing.published = Some(yesterday + 80_000);
            (heartbeat.outcome, heartbeat.why) = (Outcome::TakenBack, "link press fell".to_owned());
        });
        for number in 300..420 {
            self.change(&format!("box-{number:04}"), |standing, _| {
                standing.published = Some(yesterday + 80_000)
            });
        }
        let level = |name: &str, level: PartLevel, state: &str| {
            let (kind, name, state) = (PartKind::Site, name.to_owned(), state.to_owned());
            Some(Parts::new(vec![Part { kind, name, level, state, peers: None }]))
        };
        self.change("box-0003", |_, heartbeat| heartbeat.parts = level("to-03", PartLevel::Alarm, "refused"));
        self.change("box-0021", |_, heartbeat| {
            heartbeat.parts = level("to-21", PartLevel::Attention, "forged headers");
        });
        self.standings.remove("box-0500");
        // Names that only an inventory or a directory under tampering would have.
        let hostile = Placed { plant: Some(HOSTILE.to_owned()), ..Placed::default() };
        self.layout.gateways.insert(HOSTILE.to_owned(), hostile);
        self.layout.gateways.get_mut("box-0001").unwrap().http = format!("{BOX}:9464").parse().ok();
        self
    }

    fn overview(&self) -> Overview {
        Overview::new(FLEET, &self.layout, &self.standings, self.now)
    }
}

/// A server in a namespace, and a browser before it.
struct Cockpit {
    browser: Browser,
    surface: Arc<Surface>,
    /// Held by the one test that shows something.
    showing: Arc<Mutex<()>>,
    server: Option<Server>,
    address: SocketAddr,
    // Last: they are gone when the others are.
    namespace: Namespace,
    _directory: TestDirectory,
}

impl Cockpit {
    fn start(test: &str, fleet: &Plants, tokens: Option<&str>) -> Self {
        let (directory, namespace) = (TestDirectory::new(test), Namespace::new(test).unwrap());
        namespace.ip(&["address", "add", &format!("{BOX}/32"), "dev", "lo"]).unwrap();
        let surface = Arc::new(audited(fleet, directory.path()));
        surface.show(fleet.overview(), answering(), Vec::new());
        let showing = Arc::new(Mutex::new(()));
        looks_each_second(&surface, &showing);
        let tokens = tokens.map(|text| {
            let file = directory.path().join("tokens");
            std::fs::write(&file, text).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
            file
        });
        let settings = Settings {
            address: "127.0.0.1:0".parse().unwrap(),
            tls: None,
            client_ca: None,
            tokens,
            hosts: Vec::new(),
        };
        let (server, address) = namespace
            .enter(|| {
                let listening = Listening::start(&settings).unwrap();
                let address = listening.address().unwrap();
                (Server::start(listening, Arc::clone(&surface)).unwrap(), address)
            })
            .unwrap();
        let mut browser = Browser::start(&namespace, directory.path());
        browser.shape(1280, 900, "light");
        Self { browser, surface, showing, server: Some(server), address, namespace, _directory: directory }
    }

    fn show(&self, overview: Overview, directory: DirectoryView, problems: Vec<String>) {
        let _showing = self.showing.lock().unwrap();
        self.surface.show(overview, directory, problems);
    }

    fn open(&mut self, path: &str) {
        let url = format!("http://{}/{path}", self.address);
        self.browser.open(&url);
        self.is_live();
    }

    fn is_live(&mut self) {
        self.browser.wait_for("document.getElementById('live').textContent === 'live'");
    }

    fn text(&mut self, selector: &str) -> String {
        let value = self.browser.value(&format!("document.querySelector(\"{selector}\").innerText"));
        value.as_str().unwrap().to_owned()
    }

    /// Waits until an element has some words.
    fn says(&mut self, selector: &str, words: &str) {
        self.browser.wait_for(&format!(
            "document.querySelector(\"{selector}\").innerText.includes({})",
            serde_json::json!(words)
        ));
    }

    fn type_in(&mut self, text: &str) {
        text.chars().for_each(|letter| self.browser.press(&letter.to_string()));
    }

    /// Looks at it on a telephone and on a desk, by day and by night.
    fn looks(&mut self, name: &str) {
        let mut grounds = Vec::new();
        for (width, height, device) in [(360, 780, "phone"), (1280, 900, "desk")] {
            for scheme in ["light", "dark"] {
                self.browser.shape(width, height, scheme);
                self.browser.wait_for(&format!("innerWidth === {width}"));
                let wide = self.browser.value("document.documentElement.scrollWidth").as_u64().unwrap();
                assert!(wide <= u64::from(width), "{name}: {wide} wide, of {width}");
                grounds.push(self.browser.value("getComputedStyle(document.body).backgroundColor"));
                self.browser.screenshot(&picture(&format!("cockpit-{name}-{device}-{scheme}.png")));
            }
        }
        assert_ne!(grounds[0], grounds[1], "dark is dark");
        self.browser.shape(1280, 900, "light");
        self.browser.wait_for("innerWidth === 1280");
    }

    /// Nothing was run, loaded or complained of that should not be.
    fn is_clean(&mut self) {
        assert_ne!(self.browser.value("document.title"), "taken");
        assert_eq!(self.browser.value("document.querySelectorAll('main img, main script').length"), 0);
        assert_eq!(self.browser.complaints(), Vec::<String>::new());
        let origin = format!("http://{}/", self.address);
        for url in self.browser.requests() {
            assert!(url.starts_with(&origin) || url.starts_with("data:"), "{url}");
        }
    }
}

/// Shows again what is shown, as a controller does that finds it unchanged, until nobody has the surface any more.
fn looks_each_second(surface: &Arc<Surface>, showing: &Arc<Mutex<()>>) {
    let (surface, showing) = (Arc::downgrade(surface), Arc::clone(showing));
    thread::spawn(move || {
        while let Some(surface) = surface.upgrade() {
            let one = showing.lock().unwrap();
            if let Seen::Shown { overview, directory, problems, .. } = surface.seen(None) {
                surface.show(*overview, directory, problems);
            }
            drop((one, surface));
            thread::sleep(Duration::from_secs(1));
        }
    });
}

fn answering() -> DirectoryView {
    DirectoryView { answered: Some(now()), away: None }
}

fn picture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("screenshots").join(name)
}

/// A surface whose audit log has a line that somebody hostile wrote.
fn audited(fleet: &Plants, identities: &Path) -> Surface {
    let line = Line {
        time: "2026-11-27T01:02:03Z".to_owned(),
        login: "anna".to_owned(),
        host: "controller".to_owned(),
        action: "apply".to_owned(),
        objects: vec![HOSTILE.to_owned()],
        outcome: audit::Outcome::Failed,
        reason: "the directory does not answer".to_owned(),
        ..Line::default()
    };
    audit::append(&identities.join("controller-anna.audit"), line, None).unwrap();
    let identities = identities.to_owned();
    Surface::new(fleet.layout.clone(), move || Audit::new(&identities, Ok(Heads::new()), FLEET))
}

#[test]
fn five_thousand_gateways_are_told_searched_and_opened() {
    let mut fleet = Plants::new(5_000, 50).with_troubles();
    let mut cockpit = Cockpit::start("cockpit-many", &fleet, None);
    cockpit.open("");
    let headline = cockpit.text("#headline");
    assert_eq!(
        headline,
        "4,874 of 5,001 gateways are fine; 120 are idle or waiting; 7 need somebody: 2 with a part that is not well, 2 never heard, 1 stale, 1 taken back, 1 refused."
    );
    cockpit.looks("gateways");

    // Of thousands, those are elements that are seen; their places say where they are.
    let count = cockpit.browser.value("document.querySelectorAll('#sheet .row').length").as_u64().unwrap();
    assert!((10..100).contains(&count), "{count} rows");
    assert_eq!(
        cockpit.browser.value("document.getElementById('grid').getAttribute('aria-rowcount')"),
        "5002"
    );
    cockpit.browser.value("document.getElementById('rows').scrollTop = 100000");
    let in_sight = "(() => { const box = document.getElementById('rows').getBoundingClientRect();
        const row = document.elementFromPoint(box.left + 30, box.top + 60).closest('.row');
        return Number(row.getAttribute('aria-rowindex')); })()";
    cockpit.browser.wait_for(&format!("{in_sight} > 2000"));
    let after = cockpit.browser.value("document.querySelectorAll('#sheet .row').length").as_u64().unwrap();
    assert_eq!(after, count, "no row more");

    // The keyboard: search, choose, open, back.
    cockpit.browser.press("/");
    cockpit.type_in("PLANT-07 box-01");
    cockpit.browser.wait_for("document.getElementById('count').textContent === '2 of 5,001 gateways'");
    cockpit.browser.press("ArrowDown");
    cockpit.browser.press("ArrowDown");
    cockpit.says("#sheet .row[aria-selected=true]", "box-0157");
    cockpit.browser.press("Enter");
    cockpit.says("#view-gateway h2", "box-0157");
    cockpit.says("#view-gateway", "It serves no status");
    cockpit.says("#view-gateway .tiles", "protecting");
    cockpit.browser.press("Escape");
    cockpit.browser.wait_for("document.activeElement.id === 'grid'");
    cockpit.says("#sheet .row[aria-selected=true]", "box-0157");
    cockpit.browser.press("/");
    cockpit.browser.press("Escape");
    cockpit.browser.wait_for("document.getElementById('count').textContent === '5,001 gateways'");

    // Filters and columns.
    cockpit.browser.value("[...document.querySelectorAll('#filters button')].find((one) => one.innerText.startsWith('Waiting')).click()");
    cockpit.browser.wait_for("document.getElementById('count').textContent === '120 of 5,001 gateways'");
    cockpit.browser.value("document.querySelector('#columns .name button').click()");
    cockpit.browser.value("document.querySelector('#columns .name button').click()");
    cockpit
        .browser
        .wait_for("document.querySelector('#columns .name').getAttribute('aria-sort') === 'descending'");
    cockpit.says("#row-0", "box-0419");
    cockpit.browser.value("document.querySelector('#filters button').click()");

    // A change comes without a reload, and one that removes something, too.
    cockpit.browser.value("window.mine = 1");
    fleet.change("box-0012", |_, heartbeat| heartbeat.time += 5_000);
    cockpit.show(fleet.overview(), answering(), Vec::new());
    cockpit.says("#headline", "4,875 of 5,001 gateways are fine");
    fleet.layout.gateways.remove(HOSTILE);
    cockpit.surface.lay_out(fleet.layout.clone());
    cockpit.show(fleet.overview(), answering(), Vec::new());
    cockpit.says("#count", "5,000 gateways");
    cockpit.says("#headline", "4,875 of 5,000 gateways are fine");
    assert_eq!(cockpit.browser.value("window.mine"), 1);
    cockpit.is_clean();
}

#[test]
fn each_view_shows_what_is_wrong_and_no_name_becomes_markup() {
    let fleet = Plants::new(600, 49).with_troubles();
    let mut cockpit = Cockpit::start("cockpit-views", &fleet, None);
    cockpit.open("");
    cockpit.says("#sheet", HOSTILE);
    cockpit.browser.value("location.hash = '#/map'");
    cockpit.says("#map-about", "50 plants; ");
    // Boxes of a map do not cover each other, and their letters can be read.
    let boxes = "[...document.querySelectorAll('#map a rect')].map((one) => one.getBoundingClientRect())";
    assert_eq!(
        cockpit.browser.value(&format!(
            "(() => {{ const all = {boxes}; return all.some((a, at) => all.some((b, other) => other > at &&
                a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)); }})()"
        )),
        false
    );
    let letters = "Math.min(...[...document.querySelectorAll('#map text')].map((one) => one.getBoundingClientRect().height))";
    assert!(cockpit.browser.value(letters).as_f64().unwrap() > 10.0);
    assert!(cockpit.browser.value("document.querySelectorAll('#map path.bad').length").as_u64().unwrap() > 0);
    cockpit.says("#troubled", "tunnel to-03");
    cockpit.looks("map");
    cockpit.browser.value("location.hash = '#/versions'");
    cockpit.says("#view-versions", "waiting 120");
    cockpit.looks("versions");
    cockpit.browser.value("location.hash = '#/audit'");
    cockpit.says("#view-audit", &format!("apply {HOSTILE}"));
    cockpit.says("#view-audit", "the directory does not answer");
    cockpit.says("#view-audit", "signed in part");
    cockpit.says("#view-audit", "a signature of this operator covers none of them");
    cockpit.looks("audit");
    cockpit.browser.value("location.hash = '#/history'");
    cockpit.says("#view-history", "has just begun");
    cockpit
        .browser
        .value(&format!("location.hash = '#/gateway/' + encodeURIComponent({})", serde_json::json!(HOSTILE)));
    cockpit.says("#view-gateway h2", HOSTILE);
    cockpit.browser.value("location.hash = '#/gateway/box-0007'");
    cockpit.says("#view-gateway .reasons", &format!("refused: {HOSTILE}"));
    cockpit.looks("gateway");
    cockpit.browser.value("location.hash = '#/gateway/nobody'");
    cockpit.says("#view-gateway", "The fleet has no gateway nobody");
    cockpit.browser.value("location.hash = '#/%'");
    cockpit.browser.wait_for("!document.getElementById('view-gateways').hidden");
    cockpit.is_clean();
}

#[test]
fn what_is_old_is_told_and_nothing_stays_green() {
    let fleet = Plants::new(6, 2);
    let mut cockpit = Cockpit::start("cockpit-old", &fleet, None);
    cockpit.open("");
    assert_eq!(cockpit.text("#headline"), "All 6 gateways are fine.");
    let is_grey = "getComputedStyle(document.querySelector('main')).filter === 'grayscale(1)'";
    assert_eq!(cockpit.browser.value(is_grey), false);
    let away = DirectoryView {
        answered: Some(now() - 100),
        away: Some("10.0.0.1 does not answer; see that it runs".to_owned()),
    };
    let problem = "inventory/plant.toml:3: unknown key; remove it".to_owned();
    cockpit.show(fleet.overview(), away, vec![problem.clone()]);
    cockpit.says("#stale", "10.0.0.1 does not answer; see that it runs");
    cockpit.browser.wait_for(is_grey);
    cockpit.says("#worst", &problem);
    assert_eq!(cockpit.text("#live"), "no directory");
    cockpit.show(fleet.overview(), answering(), Vec::new());
    cockpit.is_live();
    cockpit.browser.wait_for("document.getElementById('stale').hidden");
    cockpit.is_clean();
    drop(cockpit.server.take());
    cockpit.browser.wait_for("document.getElementById('live').textContent === 'no answer'");
    cockpit.browser.wait_for(is_grey);
    cockpit.says("#stale", "No answer since");
    cockpit.browser.screenshot(&picture("cockpit-old.png"));
}

#[test]
fn the_page_shows_a_gateways_own_status() {
    let mut fleet = Plants::new(6, 2);
    fleet.layout.gateways.get_mut("box-0001").unwrap().http = format!("{BOX}:9464").parse().ok();
    let mut cockpit = Cockpit::start("cockpit-status", &fleet, None);
    cockpit.open("#/gateway/box-0001");
    // It does not run yet.
    cockpit.says("#view-gateway", "see that the gateway runs");
    let http = config::Http { address: format!("{BOX}:9464").parse().unwrap(), line: config::Origin(1) };
    let running = cockpit
        .namespace
        .enter(|| {
            let listening = frameward::http::Listening::start(Path::new("box.toml"), http).unwrap();
            frameward::http::HttpServer::start(listening, || Some(report::samples::sample("box-0001").into()))
                .unwrap()
        })
        .unwrap();
    cockpit.says("#view-gateway", "link press");
    cockpit.says("#view-gateway", "no keys: ");
    cockpit.looks("own-status");
    drop(running);
}

#[test]
fn a_controller_with_tokens_asks_for_one() {
    let token = "09".repeat(32);
    let hash = hex::encode(Sha256::digest([9_u8; 32]));
    let mut cockpit =
        Cockpit::start("cockpit-token", &Plants::new(6, 2), Some(&format!("anna viewer {hash}\n")));
    let url = format!("http://{}/", cockpit.address);
    cockpit.browser.open(&url);
    cockpit.browser.wait_for("!document.getElementById('login').hidden");
    cockpit.says("#stale", "a token is needed");
    assert!(!cockpit.text("main").contains("box-"), "nothing is told without it");
    for (text, live) in [("f".repeat(64), false), (token, true)] {
        cockpit.browser.wait_for("document.activeElement.id === 'token'");
        cockpit.type_in(&text);
        cockpit.browser.press("Enter");
        let word = if live { "live" } else { "no answer" };
        cockpit.browser.wait_for(&format!("document.getElementById('live').textContent === '{word}'"));
        cockpit.browser.wait_for(&format!("document.getElementById('login').hidden === {live}"));
    }
    assert_eq!(cockpit.text("#headline"), "All 6 gateways are fine.");
}

/// The program with a fleet of its own, in the namespace of a browser.
struct Program {
    browser: Browser,
    child: Child,
    url: String,
    place: TestDirectory,
    // Last: it is gone when the others are.
    _namespace: Namespace,
}

impl Program {
    fn start(test: &str) -> Self {
        let (place, namespace) = (TestDirectory::new(test), Namespace::new(test).unwrap());
        let path = |name: &str| place.path().join(name);
        let key = frameward(place.path(), "operator --out operator.key");
        let operator = key.trim().strip_prefix("operator = ").unwrap().trim_matches('"').to_owned();
        for folder in ["inventory", "identities"] {
            std::fs::create_dir(path(folder)).unwrap();
        }
        let mut text = "[template.box]\nports = { plain = \"p\", protected = \"n\" }\n".to_owned();
        for name in ["press", "crane", "robot"] {
            let identity = frameward(place.path(), &format!("identity {name}.key"));
            std::fs::write(path(&format!("identities/{name}.identity")), identity).unwrap();
            text += &format!("[gateway.{name}]\ntemplate = \"box\"\n");
        }
        text += "[[group]]\nname = \"ring\"\ngateways = [\"press\", \"crane\", \"robot\"]\n";
        std::fs::write(path("inventory/plant.toml"), text).unwrap();
        frameward(place.path(), "render inventory --to rendering");
        let signed = "--signing-key operator.key --identities identities --directory fleet.redb";
        frameward(place.path(), &format!("apply rendering {signed}"));
        std::fs::write(path("tokens"), "").unwrap();
        std::fs::set_permissions(path("tokens"), std::fs::Permissions::from_mode(0o600)).unwrap();
        for role in ["viewer", "operator", "signer"] {
            let token = frameward(place.path(), &format!("token {role}-1 --role {role} --to tokens"));
            std::fs::write(path(role), token.trim()).unwrap();
        }
        let serve = format!(
            "fleet serve inventory --operator {operator} {signed} --to rendering --tokens tokens --listen 127.0.0.1:0"
        );
        let mut command = Command::new(env!("CARGO_BIN_EXE_frameward"));
        command.args(serve.split_whitespace()).current_dir(place.path()).stdout(Stdio::piped());
        let mut child = namespace.enter(|| command.spawn().unwrap()).unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().rsplit(' ').next().unwrap().to_owned();
        let mut browser = Browser::start(&namespace, place.path());
        browser.shape(1280, 900, "light");
        Self { browser, child, url, place, _namespace: namespace }
    }

    /// Opens a gateway's view as somebody.
    fn opens(&mut self, role: &str, gateway: &str) {
        let token = std::fs::read_to_string(self.place.path().join(role)).unwrap();
        self.browser.open(&self.url);
        self.browser.value(&format!("sessionStorage.setItem('frameward token', '{token}')"));
        self.browser.wait_for("document.getElementById('live').textContent === 'live'");
        self.browser.value(&format!("location.hash = '#/gateway/{gateway}'"));
        self.says("#view-gateway h2", gateway);
    }

    fn says(&mut self, selector: &str, words: &str) {
        self.browser.wait_for(&format!(
            "document.querySelector(\"{selector}\")?.innerText.includes({})",
            serde_json::json!(words)
        ));
    }

    /// Presses a button by the keyboard, once it is there, and waits for its dialog.
    fn orders(&mut self, label: &str) {
        let button = format!("document.querySelector(\"button[aria-label='{label}']\")");
        self.browser.wait_for(&format!("{button} !== null"));
        self.browser.value(&format!("{button}.focus()"));
        self.browser.press("Enter");
        self.browser.wait_for("document.getElementById('order').open");
    }

    fn types(&mut self, text: &str) {
        text.chars().for_each(|letter| self.browser.press(&letter.to_string()));
    }

    fn is_disabled(&mut self) -> bool {
        self.browser.value("document.getElementById('order-send').disabled").as_bool().unwrap()
    }

    /// Labels of the buttons of a gateway's view.
    fn buttons(&mut self) -> String {
        let all = "[...document.querySelectorAll('#view-gateway button.order')].map((one) => one.getAttribute('aria-label')).join('; ')";
        self.browser.value(all).as_str().unwrap().to_owned()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

/// Standard output of a command of the fleet that succeeds.
fn frameward(place: &Path, arguments: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_frameward"));
    command.arg("fleet").args(arguments.split_whitespace()).current_dir(place);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{arguments}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn who_has_the_role_orders_by_the_keyboard_and_others_have_no_button() {
    let mut program = Program::start("cockpit-orders");
    program.opens("viewer", "press");
    program.browser.wait_for("document.getElementById('view-actions').innerText !== '' || document.getElementById('view-actions').dataset.now !== undefined");
    assert_eq!(program.buttons(), "");
    assert_eq!(program.browser.value("document.getElementById('nav-actions').hidden"), true);
    program.opens("operator", "press");
    program.browser.wait_for("document.querySelector('#view-gateway button.order') !== null");
    assert_eq!(program.buttons(), "Note: press");
    program.opens("signer", "press");
    program.browser.wait_for("document.querySelectorAll('#view-gateway button.order').length > 1");
    assert_eq!(program.buttons(), "Note: press; Revoke: press; New key: ring");
    program.browser.screenshot(&picture("cockpit-orders-gateway.png"));

    // A note, by the keyboard.
    program.orders("Note: press");
    assert!(program.is_disabled(), "nothing is written yet");
    program.types("<b>the cable is replaced");
    program.browser.press("Enter");
    program.says("#view-actions", "note press");
    program.says("#view-actions", "done");
    program.says("#view-actions", "signer-1");

    // A revocation needs the name, letter by letter.
    program.browser.value("location.hash = '#/gateway/robot'");
    program.orders("Revoke: robot");
    program.types("robo");
    assert!(program.is_disabled());
    program.browser.press("Enter");
    assert_eq!(program.browser.value("document.getElementById('order').open"), true);
    program.browser.screenshot(&picture("cockpit-orders-revoke.png"));
    program.types("t");
    assert!(!program.is_disabled());
    program.browser.press("Enter");
    program.says("#view-actions", "revoke robot");
    program.browser.wait_for("document.querySelectorAll('#view-actions .lines > li').length === 2 && !document.getElementById('view-actions').innerText.includes('running')");
    program.says("#view-actions", "until then robot can speak");
    program.browser.screenshot(&picture("cockpit-orders-actions.png"));
    let logs = frameward(program.place.path(), "audit show --identities identities");
    assert!(logs.contains(" for signer-1: revoke robot: done"), "{logs}");
    assert!(logs.contains(" for signer-1: note press <b>the cable is replaced: done"), "{logs}");
    program.browser.value("location.hash = '#/audit'");
    program.says("#view-audit", "note press <b>the cable is replaced");
    // A new box; a wrong code is told, and nobody is taken.
    let inventory = program.place.path().join("inventory/plant.toml");
    let text = std::fs::read_to_string(&inventory).unwrap() + "[gateway.saw]\ntemplate = \"box\"\n";
    std::fs::write(&inventory, text).unwrap();
    program.browser.value("location.hash = '#/gateway/saw'");
    program.orders("Take into the fleet: saw");
    program.types("1234");
    program.browser.press("Enter");
    program.says("#order-trouble", "this is no code of a box; type the 16 digits that the box shows");
    program.browser.press("Escape");
    program.browser.wait_for("!document.getElementById('order').open");
    assert_eq!(program.browser.value("location.hash"), "#/gateway/saw", "the view stays");
    // Answers with a refusal, of which there were some.
    let is_refusal = |complaint: &String| complaint.contains("Failed to load resource");
    let complaints: Vec<_> =
        program.browser.complaints().into_iter().filter(|one| !is_refusal(one)).collect();
    assert_eq!(complaints, Vec::<String>::new());
}

//! Changes that are ordered from `fleet serve`: who has the role has the command run, and the audit log says who it was.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Fleet;
use super::keys::planted;
use super::serve::{DEADLINE, Served, client, openssl};

const SIGNING: &str = "--tokens people --signing-key operator.key --to rendering";

/// Fields of a request of somebody.
fn of(token: &str) -> String {
    format!("Content-Type: application/json\r\nAuthorization: Bearer {}\r\n", token.trim())
}

impl Served {
    fn post(&self, path: &str, fields: &str, body: &Value) -> (u16, Value) {
        let body = body.to_string();
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\nContent-Length: {}\r\n{fields}\r\n{body}",
            self.port,
            body.len()
        );
        let (status, body) = self.try_ask(&request).unwrap();
        (status, serde_json::from_str(&body).unwrap())
    }

    /// An action, once it is so.
    fn action(&self, fields: &str, number: &Value, is_so: impl Fn(&Value) -> bool) -> Value {
        let since = Instant::now();
        loop {
            let (status, body) = self.ask("/api/actions", fields);
            assert_eq!(status, 200, "{body}");
            let seen: Value = serde_json::from_str(&body).unwrap();
            let actions = seen["actions"].as_array().unwrap();
            let action = actions.iter().find(|one| one["number"] == *number).unwrap();
            if is_so(action) {
                return action.clone();
            }
            assert!(since.elapsed() < DEADLINE, "{body}");
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Orders something, and waits until it has ended.
    fn ordered(&self, path: &str, fields: &str, body: &Value) -> Value {
        let (status, begun) = self.post(path, fields, body);
        assert_eq!(status, 202, "{path}: {begun}");
        self.action(fields, &begun["action"], |action| action["state"] != "running")
    }
}

impl Fleet {
    fn token(&self, name: &str, role: &str) -> String {
        of(&self.done(&format!("token {name} --role {role} --to people")))
    }

    /// Lines of the audit log about an action, each with who asked for it, and the outcome.
    fn audited(&self, action: &str) -> Vec<(String, String, String)> {
        let lines: Value =
            serde_json::from_str(&self.done("audit show --json --identities identities")).unwrap();
        let word = |line: &Value, field: &str| line[field].as_str().unwrap_or_default().to_owned();
        let of = lines.as_array().unwrap().iter().filter(|line| line["action"] == action);
        of.map(|line| {
            let objects: Vec<_> =
                line["objects"].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
            (word(line, "by"), objects.join(" "), word(line, "outcome"))
        })
        .collect()
    }

    fn verifies(&self) {
        let operator = fs::read_to_string(self.path("operator.pub")).unwrap();
        self.done(&format!(
            "audit verify --operator {operator} --identities identities --directory fleet.redb"
        ));
    }
}

#[test]
fn what_is_ordered_is_a_command_and_the_audit_log_says_for_whom() {
    let fleet = planted("fleet-actions");
    let plant = fs::read_to_string(fleet.path("inventory/plant.toml")).unwrap();
    let saw = "[gateway.saw]\ntemplate = \"box\"\n";
    fs::write(fleet.path("inventory/plant.toml"), plant.replacen("[[link]]", &format!("{saw}[[link]]"), 1))
        .unwrap();
    let operator = fs::read_to_string(fleet.path("operator.pub")).unwrap();
    let shown = fleet
        .done(&format!("enrol --directory fleet.redb --operator {operator} --name saw --identity saw.key"));
    let code = shown.trim().rsplit_once(' ').unwrap().1.to_owned();
    let [anna, bert] = [("anna", "signer"), ("bert", "operator")].map(|(name, role)| fleet.token(name, role));
    let served = fleet.serve("fleet.redb", SIGNING);

    // A box that asks, by the code that it shows.
    let approve = "/api/gateways/saw/approve";
    let wrong = served.ordered(approve, &anna, &json!({ "code": "1234-5678-9012-3456" }));
    assert_eq!(wrong["state"], "failed");
    assert!(wrong["lines"][0].as_str().unwrap().contains("saw asks with another code"), "{wrong}");
    let (status, refused) = served.post(approve, &bert, &json!({ "code": code }));
    assert_eq!(
        (status, &refused["cause"]),
        (403, &"this needs the role signer, and yours is operator".into())
    );
    assert!(!fleet.path("identities/saw.identity").exists());
    let taken = served.ordered(approve, &anna, &json!({ "code": code }));
    assert_eq!((&taken["state"], &taken["by"]), (&"done".into(), &"anna".into()), "{taken}");
    assert!(fleet.path("identities/saw.identity").exists());
    let line =
        |by: &str, objects: &str, outcome: &str| (by.to_owned(), objects.to_owned(), outcome.to_owned());
    let approved = fleet.audited("approve");
    assert_eq!(approved[0], line("anna", "saw 1234-5678-9012-3456", "refused"));
    assert_eq!(approved.last().unwrap(), &line("anna", &format!("saw {code}"), "done"));

    // A note.
    let noted =
        served.ordered("/api/gateways/press/note", &bert, &json!({ "text": "the cable is replaced" }));
    assert_eq!(noted["state"], "done", "{noted}");
    assert_eq!(fleet.audited("note").last().unwrap(), &line("bert", "press the cable is replaced", "done"));
    let nowhere = served.post("/api/gateways/nobody/note", &bert, &json!({ "text": "x" }));
    assert_eq!((nowhere.0, &nowhere.1["cause"]), (404, &"the inventory has no such gateway".into()));

    // The box is for no link yet, and nothing is rendered for it.
    fs::write(fleet.path("inventory/plant.toml"), plant).unwrap();

    // A revocation is confirmed by the name.
    let revoke = "/api/gateways/robot/revoke";
    assert_eq!(served.post(revoke, &anna, &json!({ "confirm": "crane" })).0, 400);
    let revoked = served.ordered(revoke, &anna, &json!({ "confirm": "robot" }));
    assert_eq!(revoked["state"], "done", "{revoked}");
    // Its second step is due, so the same order is taken though the gateway is in the inventory no more.
    let again = served.ordered(revoke, &anna, &json!({ "confirm": "robot" }));
    assert!(
        again["state"] == "done" && again["lines"].to_string().contains("until then robot can speak"),
        "{again}"
    );
    let inventory = fs::read_to_string(fleet.path("inventory/plant.toml")).unwrap();
    assert!(
        inventory.contains("[revoked.robot]") || fleet.path("inventory/revoked.toml").exists(),
        "{inventory}"
    );
    assert_eq!(fleet.audited("revoke").last().unwrap(), &line("anna", "robot", "done"));

    // Keys, by the signing key that the controller has. The gateways are heard, and never confirm.
    ["press", "crane"].iter().for_each(|name| fleet.beats(name));
    let (status, begun) = served.post("/api/connections/line/rotate", &anna, &json!({}));
    assert_eq!(status, 202, "{begun}");
    let number = begun["action"].clone();
    served.action(&anna, &number, |action| {
        action["lines"].as_array().unwrap().iter().any(|line| line.as_str().unwrap().contains("waits up to"))
    });
    let (status, busy) = served.post("/api/connections/ring/rotate", &anna, &json!({}));
    assert_eq!((status, &busy["cause"]), (409, &"rotate line is under way".into()));
    // Whoever may not sign may stop.
    let (status, _) = served.post(&format!("/api/actions/{number}/stop"), &bert, &json!({}));
    assert_eq!(status, 202);
    let stopped = served.action(&anna, &number, |action| action["state"] != "running");
    assert_eq!((&stopped["state"], &stopped["stopped_by"]), (&"stopped".into(), &"bert".into()), "{stopped}");
    assert_eq!(fleet.audited("note").last().unwrap(), &line("bert", "stops rotate line", "done"));
    assert_eq!(fleet.audited("rotate"), [line("anna", "line", "begun")], "it was cut off");
    assert_eq!(served.post(&format!("/api/actions/{number}/stop"), &bert, &json!({})).0, 404);
    fleet.verifies();
}

/// A browser shows a client certificate by itself, in the name of whichever page.
#[test]
fn no_other_site_orders_anything() {
    let fleet = planted("fleet-actions-sites");
    let folder = fleet.path("");
    let curve = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2";
    openssl(&folder, &format!("req -x509 {curve} -keyout ca.key -out ca.pem -subj /CN=ca"));
    for name in ["cockpit", "bert", "carl"] {
        openssl(
            &folder,
            &format!(
                "req -x509 {curve} -CA ca.pem -CAkey ca.key -keyout {name}.key -out {name}.pem -subj /CN={name} -addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE"
            ),
        );
    }
    assert_eq!(fleet.done("token bert --role operator --certificate bert.pem --to people"), "");
    let tls = "--tls-cert cockpit.pem --tls-key cockpit.key --client-ca ca.pem --tokens people";
    let mut served = fleet.serve("fleet.redb", tls);
    let port = served.port;
    let here = format!(
        "Content-Type: application/json\r\nOrigin: https://127.0.0.1:{port}\r\nSec-Fetch-Site: same-origin\r\n"
    );
    let note = json!({ "text": "seen" });
    let path = "/api/gateways/press/note";
    // A certificate that the file of tokens does not know has no role.
    served.tls = Some(client(&folder, Some("carl")));
    assert_eq!(served.post(path, &here, &note).0, 401);
    served.tls = Some(client(&folder, Some("bert")));
    for (fields, status) in [
        // A form.
        ("Content-Type: text/plain\r\n".to_owned(), 415),
        ("Content-Type: application/x-www-form-urlencoded\r\n".to_owned(), 415),
        (String::new(), 415),
        (here.replace("same-origin", "cross-site"), 403),
        (here.replace("same-origin", "same-site"), 403),
        ("Content-Type: application/json\r\nOrigin: https://evil.example\r\n".to_owned(), 403),
        (format!("Content-Type: application/json\r\nOrigin: https://127.0.0.1:{}\r\n", port ^ 1), 403),
        // A page in a sandbox.
        ("Content-Type: application/json\r\nOrigin: null\r\n".to_owned(), 403),
    ] {
        let (got, why) = served.post(path, &fields, &note);
        assert_eq!(got, status, "{fields}: {why}");
    }
    // A script of another site asks before whether it may.
    let preflight = format!("OPTIONS {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n");
    assert_eq!(served.try_ask(&preflight).unwrap().0, 405);
    assert_eq!(served.post(path, &here, &json!({ "text": "x".repeat(5_000) })).0, 413);
    assert!(fleet.audited("note").is_empty(), "nothing was ordered");
    assert_eq!(served.ordered(path, &here, &note)["by"], "bert");
}

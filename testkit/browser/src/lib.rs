//! A headless Chromium in a network namespace, driven over its DevTools protocol: JSON messages that end with a NUL, over
//! two pipes that it has as file descriptors 3 and 4. No port, no driver beside it, no WebSocket.
//!
//! For tests: whatever goes wrong is a panic.
#![allow(clippy::unwrap_used)]

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use lab::{Namespace, Program};
use nix::sys::stat::Mode;
use serde_json::{Value, json};

/// Time limit of any browser operation: its start alone takes seconds on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

const FLAGS: &[&str] = &[
    "--headless",
    "--no-sandbox", // root has none
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
];

/// A browser with one page. It goes when dropped.
pub struct Browser {
    /// Held: dropping it ends the browser.
    _program: Program,
    to: File,
    from: Receiver<Value>,
    /// The page's, once there is one.
    session: Option<String>,
    calls: u64,
    /// All that it told without being asked.
    events: Vec<Value>,
}

impl Browser {
    /// Starts it in a namespace; it keeps its files below `directory`.
    ///
    /// # Panics
    /// If it does not start. So do all others here if it does not answer.
    pub fn start(namespace: &Namespace, directory: &Path) -> Self {
        let directory = directory.join("browser");
        std::fs::create_dir(&directory).unwrap();
        let pipes = ["to", "from"].map(|name| {
            let path = directory.join(name);
            nix::unistd::mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
            // Both ways, or opening would wait for the other end.
            OpenOptions::new().read(true).write(true).open(path).unwrap()
        });
        let [to, from] = pipes;
        let home = directory.display().to_string();
        let script = format!(
            "cd '{home}' && HOME='{home}' exec chromium {} --user-data-dir='{home}/profile' about:blank 3<to 4>from",
            FLAGS.join(" ")
        );
        let program = namespace.spawn(&["sh", "-c", &script]).unwrap();
        let (sender, received) = mpsc::channel();
        std::thread::spawn(move || {
            for message in BufReader::new(from).split(0) {
                let Ok(Ok(message)) = message.map(|octets| serde_json::from_slice(&octets)) else { return };
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let mut browser =
            Self { _program: program, to, from: received, session: None, calls: 0, events: Vec::new() };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let target = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", target);
        browser.session = Some(attached["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Calls a method of the protocol and returns its result.
    fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.calls += 1;
        let mut message = json!({ "id": self.calls, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.to.write_all(format!("{message}\0").as_bytes()).unwrap();
        let end = Instant::now() + PATIENCE;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let answer = self.from.recv_timeout(left);
            let answer = answer
                .unwrap_or_else(|_| panic!("chromium does not answer {method}: {}", self._program.stderr()));
            if answer["id"] == json!(self.calls) {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
            self.events.push(answer);
        }
    }

    /// Opens a page and waits until it is complete.
    ///
    /// # Panics
    /// If it cannot be opened.
    pub fn open(&mut self, url: &str) {
        let opened = self.call("Page.navigate", json!({ "url": url }));
        assert!(opened["errorText"].is_null(), "{opened}");
        // The first page of a browser is as complete as one can be.
        self.wait_for(&format!("document.readyState === 'complete' && location.href === '{url}'"));
    }

    /// The value of an expression in the page.
    ///
    /// # Panics
    /// If the expression throws.
    pub fn value(&mut self, expression: &str) -> Value {
        self.evaluate(expression).unwrap_or_else(|thrown| panic!("{expression}: {thrown}"))
    }

    /// The value of an expression, or what it threw.
    fn evaluate(&mut self, expression: &str) -> Result<Value, Value> {
        let parameters = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let result = self.call("Runtime.evaluate", parameters);
        match &result["exceptionDetails"] {
            Value::Null => Ok(result["result"]["value"].clone()),
            thrown => Err(thrown.clone()),
        }
    }

    /// Waits until an expression is true. One that throws is not true yet: the element that it looks at comes with the
    /// page's first answer from whom it asks.
    ///
    /// # Panics
    /// If it is not true in time.
    pub fn wait_for(&mut self, expression: &str) {
        let end = Instant::now() + PATIENCE;
        while self.evaluate(expression) != Ok(json!(true)) {
            assert!(Instant::now() < end, "never: {expression}\n{}", self.value("document.body.innerText"));
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Sets the window's width and the colours that the user prefers.
    pub fn shape(&mut self, width: u32, height: u32, scheme: &str) {
        let metrics =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.call("Emulation.setDeviceMetricsOverride", metrics);
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.call("Emulation.setEmulatedMedia", features);
    }

    /// Presses a key and lets it go: one by its name (`Enter`), or a letter, which is typed.
    ///
    /// # Panics
    /// If there is no such key.
    pub fn press(&mut self, key: &str) {
        let codes = [
            ("Enter", 13),
            ("Escape", 27),
            ("PageUp", 33),
            ("PageDown", 34),
            ("End", 35),
            ("Home", 36),
            ("ArrowUp", 38),
            ("ArrowDown", 40),
        ];
        let code = codes.iter().find(|(name, _)| *name == key).map(|(_, code)| *code);
        assert!(code.is_some() || key.chars().count() == 1, "no key {key}");
        for kind in ["keyDown", "keyUp"] {
            let mut event = json!({ "type": kind, "key": key, "windowsVirtualKeyCode": code.unwrap_or(0) });
            // Enter sends a form only as the character that it types.
            let text = if key == "Enter" { Some("\r") } else { Some(key).filter(|_| code.is_none()) };
            if let Some(text) = text.filter(|_| kind == "keyDown") {
                event["text"] = json!(text);
            }
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// Writes a picture of the whole page into a file, whose directory is made if it is missing.
    ///
    /// # Panics
    /// If the file cannot be written.
    pub fn screenshot(&mut self, file: &Path) {
        let size = &self.call("Page.getLayoutMetrics", json!({}))["cssContentSize"];
        let clip = json!({ "x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1 });
        let parameters = json!({ "format": "png", "captureBeyondViewport": true, "clip": clip });
        let picture = self.call("Page.captureScreenshot", parameters);
        let picture = BASE64_STANDARD.decode(picture["data"].as_str().unwrap()).unwrap();
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, picture).unwrap();
    }

    /// Faults in the page so far: exceptions, errors and warnings on its console.
    pub fn complaints(&self) -> Vec<String> {
        let wrong = |event: &&Value| match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Runtime.consoleAPICalled") => event["params"]["type"] != json!("log"),
            Some("Log.entryAdded") => event["params"]["entry"]["level"] != json!("info"),
            _ => false,
        };
        self.events.iter().filter(wrong).map(Value::to_string).collect()
    }

    /// Destinations of the page's requests so far.
    pub fn requests(&self) -> Vec<&str> {
        let sent = self.events.iter().filter(|event| event["method"] == json!("Network.requestWillBeSent"));
        sent.filter_map(|event| event["params"]["request"]["url"].as_str()).collect()
    }
}

//! A headless Chromium, driven through its protocol for developers. All tests share one process; each has
//! a profile of its own in it.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use leasehold_tests::waiting;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs the browser in a folder of its own. The shell's input ends with this process, however that
/// ends. Then the shell ends its whole process group, because Debian starts the browser by another
/// shell, and removes the folder.
const SCRIPT: &str = r#"
trap '' INT
for name in chromium-headless-shell chromium chromium-browser google-chrome; do
    browser=$(command -v "$name") && break
done
[ -n "$browser" ] || { echo "no browser" >&2; exit 1; }
folder=$(mktemp -d "${TMPDIR:-/tmp}/leasehold-browser.XXXXXX") && cd "$folder" || exit 1
HOME=$folder "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage \
    --no-first-run --disable-background-networking --disable-component-update \
    --hide-scrollbars --force-color-profile=srgb \
    --remote-debugging-port=0 --user-data-dir="$folder/profile" about:blank </dev/null &
exec 2>/dev/null
read -r _
trap '' TERM
kill -TERM 0
wait
sleep 1
cd / && rm -rf "$folder"
kill -KILL 0
"#;

/// The process, and the port and the path of its protocol for developers. It ends with the test's process.
struct Browser {
    _shell: Child,
    authority: String,
    path: String,
}

fn browser() -> &'static Browser {
    static BROWSER: OnceLock<Browser> = OnceLock::new();
    BROWSER.get_or_init(|| {
        let mut shell = Command::new("sh")
            .args(["-c", SCRIPT])
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("there is a shell");
        let mut log = BufReader::new(shell.stderr.take().expect("it is piped"));
        let mut said = String::new();
        for line in log.by_ref().lines().map_while(Result::ok) {
            let Some(address) = line.strip_prefix("DevTools listening on ws://") else {
                said.push_str(&line);
                continue;
            };
            let (authority, path) = address.split_once('/').expect("a path");
            let (authority, path) = (authority.to_owned(), format!("/{path}"));
            // The browser must never block on its log.
            thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
            return Browser { _shell: shell, authority, path };
        }
        panic!("no Chromium starts; `./tests/run` installs it: {said}");
    })
}

/// What a page has loaded, and what went wrong in it.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// The addresses of all requests.
    pub(super) requests: Vec<String>,
    /// Errors in the console, exceptions and dialogues.
    pub(super) errors: Vec<String>,
}

/// A tab in a profile of its own.
pub(super) struct Tab {
    socket: WebSocketStream<TcpStream>,
    session: Option<String>,
    calls: u64,
    events: VecDeque<Value>,
    report: Report,
}

impl Tab {
    pub(super) async fn open() -> Self {
        let Browser { authority, path, .. } = browser();
        let stream = TcpStream::connect(authority).await.expect("the browser listens");
        let address = format!("ws://{authority}{path}");
        let (socket, _) = client_async(address, stream).await.expect("it speaks DevTools");
        let (events, report) = (VecDeque::new(), Report::default());
        let mut tab = Self { socket, session: None, calls: 0, events, report };
        let profile =
            tab.call("Target.createBrowserContext", json!({ "disposeOnDetach": true })).await;
        let target =
            json!({ "url": "about:blank", "browserContextId": profile["browserContextId"] });
        let target = tab.call("Target.createTarget", target).await;
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = tab.call("Target.attachToTarget", attach).await;
        tab.session = Some(session["sessionId"].as_str().expect("a session").to_owned());
        for domain in ["Page", "Runtime", "Log", "Network"] {
            tab.call(&format!("{domain}.enable"), json!({})).await;
        }
        // Each tab takes the keyboard, whatever other tabs do.
        tab.call("Emulation.setFocusEmulationEnabled", json!({ "enabled": true })).await;
        tab.view(1_280, 800, false).await;
        tab
    }

    /// Calls a method of the browser.
    pub(super) async fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.calls += 1;
        let mut message = json!({ "id": self.calls, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.socket.send(Message::text(message.to_string())).await.expect("it is connected");
        loop {
            let message = self.receive().await;
            if message["id"] == self.calls {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].clone();
            }
        }
    }

    /// The next message. Events are kept.
    async fn receive(&mut self) -> Value {
        loop {
            let message = timeout(PATIENCE, self.socket.next()).await.expect("it answers");
            let Message::Text(text) = message.expect("it is connected").expect("a message") else {
                continue;
            };
            let message: Value = serde_json::from_str(&text).expect("JSON");
            self.note(&message);
            if message["method"].is_string() {
                self.events.push_back(message.clone());
            }
            return message;
        }
    }

    fn note(&mut self, message: &Value) {
        let event = &message["params"];
        match message["method"].as_str().unwrap_or_default() {
            "Network.requestWillBeSent" => {
                let address = event["request"]["url"].as_str().unwrap_or_default();
                self.report.requests.push(address.to_owned());
            }
            "Runtime.exceptionThrown" | "Page.javascriptDialogOpening" => {
                self.report.errors.push(event.to_string());
            }
            "Runtime.consoleAPICalled" => self.report.errors.push(event.to_string()),
            "Log.entryAdded" if event["entry"]["level"] != "verbose" => {
                self.report.errors.push(event.to_string());
            }
            _ => {}
        }
    }

    /// Waits until a page is loaded, after something that loads it.
    pub(super) async fn loaded(&mut self) {
        loop {
            if let Some(event) = self.events.pop_front() {
                if event["method"] == "Page.loadEventFired" {
                    return;
                }
            } else {
                self.receive().await;
            }
        }
    }

    pub(super) async fn go(&mut self, address: &str) {
        self.events.clear();
        let went = self.call("Page.navigate", json!({ "url": address })).await;
        assert!(went["errorText"].is_null(), "{address}: {went}");
        self.loaded().await;
    }

    /// The value of an expression, or of its promise.
    pub(super) async fn value(&mut self, expression: &str) -> Value {
        let parameters =
            json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let result = self.call("Runtime.evaluate", parameters).await;
        assert!(result["exceptionDetails"].is_null(), "{expression}: {result}");
        result["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    pub(super) async fn until(&mut self, expression: &str) {
        let seen = waiting::until(expression, async || self.value(expression).await == json!(true));
        if timeout(PATIENCE, seen).await.is_err() {
            let text = self.text().await;
            panic!("never: {expression}\n{text}");
        }
    }

    /// The text that one sees.
    pub(super) async fn text(&mut self) -> String {
        self.value("document.body.innerText").await.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until the page shows a text.
    pub(super) async fn sees(&mut self, text: &str) {
        self.until(&format!("document.body.innerText.includes({})", json!(text))).await;
    }

    pub(super) async fn press(&mut self, key: &str) {
        let (code, text) = match key {
            "Tab" => (9, ""),
            "Enter" => (13, "\r"),
            _ => panic!("{key}"),
        };
        for kind in ["keyDown", "keyUp"] {
            let text = if kind == "keyDown" { text } else { "" };
            let event = json!({
                "type": kind, "key": key, "code": key, "text": text,
                "windowsVirtualKeyCode": code,
            });
            self.call("Input.dispatchKeyEvent", event).await;
        }
    }

    /// Presses Tab until an element is focused that this expression, of `it`, selects.
    pub(super) async fn tab_to(&mut self, is_it: &str) {
        let expression = format!("(it => !!it && ({is_it}))(document.activeElement)");
        for _ in 0..60 {
            self.press("Tab").await;
            if self.value(&expression).await == json!(true) {
                return;
            }
        }
        panic!("the keyboard does not get to {is_it}: {}", self.text().await);
    }

    pub(super) async fn write(&mut self, text: &str) {
        self.call("Input.insertText", json!({ "text": text })).await;
    }

    /// The size of the screen.
    pub(super) async fn view(&mut self, width: u32, height: u32, is_phone: bool) {
        let metrics = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": is_phone,
        });
        self.call("Emulation.setDeviceMetricsOverride", metrics).await;
    }

    pub(super) async fn scheme(&mut self, scheme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features })).await;
    }

    /// What axe-core finds wrong with the page.
    pub(super) async fn violations(&mut self) -> Vec<String> {
        let axe = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "../target".to_owned());
        let axe = Path::new(&axe).join("axe/axe_core_python/axe.min.js");
        let axe = std::fs::read_to_string(&axe).unwrap_or_else(|error| {
            panic!("{}: {error}; `./tests/run console` downloads it", axe.display())
        });
        self.value(&format!("{axe};0")).await;
        let found = self.value("axe.run(document, { resultTypes: ['violations'] })").await;
        let found = found["violations"].as_array().expect("violations").iter();
        let nodes = |it: &Value| {
            let nodes = it["nodes"].as_array().expect("nodes").iter();
            let nodes = nodes.map(|node| format!("{} {}", node["html"], node["failureSummary"]));
            nodes.collect::<Vec<_>>().join("; ")
        };
        found.map(|it| format!("{}: {}", it["id"], nodes(it))).collect()
    }

    /// A picture of the screen, as PNG in base64.
    pub(super) async fn picture(&mut self) -> String {
        let picture = self.call("Page.captureScreenshot", json!({ "format": "png" })).await;
        picture["data"].as_str().expect("a picture").to_owned()
    }

    /// What was loaded and went wrong since the last report.
    pub(super) async fn report(&mut self) -> Report {
        // Events that came before this answer are noted.
        self.value("0").await;
        std::mem::take(&mut self.report)
    }
}

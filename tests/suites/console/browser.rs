//! The console in a real browser: `browser/drive.js` opens it in a window, has the server do things, and
//! looks at what the window shows. What it finds wrong goes to the browser's log, where the browser
//! itself writes errors, and what the content policy blocks.

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::middleware::map_response_with_state;
use axum::response::{Html, Response};
use axum::routing::get;
use futures_util::StreamExt;
use http::header::CONTENT_TYPE;
use leasehold::store::Store;
use leasehold::{Fault, Faults, Lease, Locks};
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::sync::watch;
use tokio::time::timeout;

use super::{app_with_force, client_on, hostile};

/// Runs a browser with a home of its own. It ends when the page is loaded; `/until-driven` keeps it from
/// that until the script is through, or until the server is gone with the test.
const BROWSER: &str = r#"
for name in chromium-headless-shell chromium chromium-browser google-chrome; do
    browser=$(command -v "$name") && break
done
: "${browser:?there is none, and ./tests/run installs one}"
home=$(mktemp -d "${TMPDIR:-/tmp}/leasehold-browser.XXXXXX")
HOME=$home "$browser" --headless --dump-dom --enable-logging=stderr --disable-popup-blocking --no-sandbox \
    --disable-gpu --disable-dev-shm-usage --no-first-run --disable-background-networking \
    --disable-component-update "$0"
rm -rf "$home"
"#;

struct App {
    locks: Locks,
    faults: Faults,
    leases: Mutex<HashMap<String, Lease>>,
    /// True while responses are cut.
    is_cut: watch::Sender<bool>,
}

/// What the script has the server do, to a lock or to all of them.
async fn act(State(app): State<Arc<App>>, Path((what, name)): Path<(String, String)>) {
    let held = app.leases.lock().unwrap().remove(&name);
    match &*what {
        "acquire" => {
            let mutex = app.locks.mutex(name.clone()).owner("<script>alert(2)</script>");
            let mutex = mutex.note("<img src=x onerror=alert(3)>\u{202e}");
            let lease = mutex.ttl(Duration::from_secs(60)).lock().await.unwrap();
            app.leases.lock().unwrap().insert(name, lease);
        }
        "release" => _ = held.unwrap().release().await.unwrap(),
        "fail" => app.faults.always(Fault::Refuse),
        "heal" => app.faults.heal(),
        _ => _ = app.is_cut.send_replace(what == "cut"),
    }
}

/// Ends each response of the console while connections are cut.
async fn cut(State(app): State<Arc<App>>, response: Response) -> Response {
    let mut is_cut = app.is_cut.subscribe();
    let cut = async move { drop(is_cut.wait_for(|is_cut| *is_cut).await) };
    response.map(|body| Body::from_stream(body.into_data_stream().take_until(Box::pin(cut))))
}

#[tokio::test]
async fn a_browser_shows_what_happens_and_runs_no_name() {
    let (_, faults) = Locks::in_memory_with_faults();
    let store: Arc<dyn Store> = faults.store().clone();
    let (service, host) = ("<script>alert(1)</script>", "<img src=http://evil.example/>");
    let locks = client_on(&store, service, host).await;
    let console = app_with_force(&locks);
    let (leases, is_cut) = (Mutex::default(), watch::Sender::new(false));
    let app = Arc::new(App { locks, faults, leases, is_cut });
    let longest = "\u{5d0}<b>".repeat(102);
    let names: Vec<_> = hostile::NAMES.into_iter().chain([&*longest]).collect();
    let names = serde_json::to_string(&names).unwrap();
    let script = format!("const NAMES = {names};\n{}", include_str!("browser/drive.js"));
    let page = "<!doctype html><link rel=icon href=data:,><img src=/until-driven>\
        <script src=/drive.js></script>";
    // Without the console's own header the script would not reach into the window.
    let page = ([("cross-origin-opener-policy", "same-origin")], Html(page));
    let app = console
        .layer(map_response_with_state(app.clone(), cut))
        .merge(Router::new().route("/act/{what}/{name}", get(act)).with_state(app))
        .route("/drive", get(async move || page))
        .route("/until-driven", get(std::future::pending::<()>))
        .route("/drive.js", get(async || ([(CONTENT_TYPE, "text/javascript")], script)));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/drive", listener.local_addr().unwrap());
    tokio::spawn(async { axum::serve(listener, app).await.unwrap() });

    let mut browser = Command::new("sh");
    browser
        .args(["-c", BROWSER, &address])
        .stdin(Stdio::null())
        .process_group(0)
        .kill_on_drop(true);
    // The script gives up far earlier, if it runs at all.
    let ended =
        timeout(Duration::from_secs(300), browser.output()).await.expect("it ends").unwrap();
    let log = String::from_utf8_lossy(&ended.stderr);
    let said: Vec<_> = log.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(matches!(said[..], [last] if last.contains("\"driven\"")), "{log}");
}

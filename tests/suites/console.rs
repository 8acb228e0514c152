//! The console: its pages, its live parts and its form, as an HTTP client sees them, and in a real
//! browser.

#[cfg(feature = "servers")]
mod browser;
mod clients;
#[cfg(feature = "servers")]
mod cost;
mod force;
mod forms;
mod hostile;
mod jobs;
mod limits;
mod live;
#[cfg(feature = "servers")]
mod on_servers;
mod outage;
mod pages;
mod place;
mod sorting;
mod times;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt;
use leasehold::Locks;
use leasehold::store::memory::MemoryStore;
use leasehold::store::{Ask, ClientId, ClientInfo, Store};
use leasehold_console::Console;
use tower::ServiceExt;

/// A response, read to its end.
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    text: String,
}

impl Answer {
    /// A header; empty if it is not there.
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

async fn send(app: &Router, request: Request<Body>) -> Answer {
    let response = app.clone().oneshot(request).await.unwrap();
    let (status, headers) = (response.status(), response.headers().clone());
    let text = response.into_body().collect().await.unwrap().to_bytes();
    Answer { status, headers, text: String::from_utf8(text.into()).unwrap() }
}

async fn get(app: &Router, path: &str) -> Answer {
    send(app, Request::get(path).body(Body::empty()).unwrap()).await
}

/// A console at its usual place.
fn app(locks: &Locks) -> Router {
    Router::new().nest("/locks", leasehold_console::console(locks))
}

/// The same, which may take locks.
fn app_with_force(locks: &Locks) -> Router {
    Router::new().nest("/locks", Console::new(locks).allow_force(true).router())
}

/// A query parameter with any text.
fn parameter(name: &str, value: &str) -> String {
    let bytes = value.bytes().map(|byte| format!("%{byte:02X}"));
    format!("{name}={}", bytes.collect::<String>())
}

/// The secret in the forms of a page.
async fn token(app: &Router, page: &str) -> String {
    let page = get(app, page).await.text;
    page.split("name=\"token\" value=\"").nth(1).map_or("", |it| &it[..36]).to_owned()
}

/// Sends a form as a browser does from a page of this site.
async fn sent(app: &Router, page: &str, site: &'static str, fields: &[(&str, &str)]) -> Answer {
    let fields = fields.iter().map(|(name, value)| parameter(name, value));
    let body = fields.collect::<Vec<_>>().join("&");
    let request = Request::post(page)
        .header("host", "app.example")
        .header("sec-fetch-site", site)
        .header("content-type", "application/x-www-form-urlencoded");
    send(app, request.body(Body::from(body)).unwrap()).await
}

/// The page of a lock.
fn lock_page(name: &str) -> String {
    format!("/locks/lock?{}", parameter("name", name))
}

/// A client in memory whose service and host have these names.
async fn client_as(service: &str, host: &str) -> Locks {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    client_on(&store, service, host).await
}

async fn client_on(store: &Arc<dyn Store>, service: &str, host: &str) -> Locks {
    let id = ClientId::random();
    let info = ClientInfo::new(id, service.to_owned(), host.to_owned(), 4_242);
    store.introduce(&info, std::time::Duration::MAX).await.unwrap();
    Locks::over_as(store.clone(), id)
}

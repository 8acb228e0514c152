//! An app with the console: a page that shows its locks, behind a password.
//!
//! ```sh
//! cargo run --example console
//! ```
//!
//! Then open <http://127.0.0.1:3000/locks>. Any name will do, and the password is `PASSWORD`, by
//! default `look`. A task of the app takes a lock again and again, so that there is something to
//! see.
//!
//! Without `REDIS_URL` it locks in memory, and shows the locks of this process alone.

use std::error::Error;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use leasehold::{LockError, Locks};
use leasehold_console::Console;
use tokio::net::TcpListener;
use tokio::time::sleep;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let locks = Locks::from_env_or_in_memory().await?;
    for worker in ["worker-1", "worker-2", "worker-3"] {
        tokio::spawn(work(locks.clone(), worker));
    }
    let console = Console::new(&locks).allow_force(true).router();
    let app = Router::new().nest("/locks", console).layer(from_fn(only_operators));

    let address = std::env::var("ADDR").unwrap_or_else(|_| "127.0.0.1:3000".to_owned());
    let listener = TcpListener::bind(&address).await?;
    println!("listening on http://{}/locks", listener.local_addr()?);
    axum::serve(listener, app).await?;
    Ok(())
}

/// HTTP's own login. Your app has a better one.
async fn only_operators(request: Request, next: Next) -> Response {
    let password = std::env::var("PASSWORD").unwrap_or_else(|_| "look".to_owned());
    let login = request.headers().get(header::AUTHORIZATION).and_then(|it| it.to_str().ok());
    let login = login.and_then(|it| STANDARD.decode(it.strip_prefix("Basic ")?).ok());
    let login = login.and_then(|it| String::from_utf8(it).ok()).unwrap_or_default();
    if login.split_once(':').is_some_and(|(_, given)| given == password) {
        return next.run(request).await;
    }
    let asks = HeaderValue::from_static("Basic realm=\"locks\"");
    (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, asks)]).into_response()
}

async fn work(locks: Locks, worker: &'static str) -> Result<(), LockError> {
    let order = locks.mutex("order:42").owner(worker).note("a worker's turn");
    loop {
        order.clone().wait(Duration::from_secs(600)).lock().await?.run(sleep(TURN)).await.ok();
    }
}

const TURN: Duration = Duration::from_secs(4);

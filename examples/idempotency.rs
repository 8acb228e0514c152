//! Payments that a client may send again, after Stripe: a repeat gets the first answer.
//!
//! ```sh
//! ADDR=127.0.0.1:3000 cargo run --example idempotency
//!
//! pay() { curl -i http://127.0.0.1:3000/payments -H 'authorization: Bearer ann' "$@"; }
//! pay -H 'idempotency-key: 1' --data '{"amount": 500}'
//! pay -H 'idempotency-key: 1' --data '{"amount": 500}' # the same answer; nothing is paid
//! pay -H 'idempotency-key: 1' --data '{"amount": 900}' # 422: that was another request
//! ```
//!
//! The first answer is a row, which the transaction of the payment writes. The row makes it right:
//! there is one for each caller and key, and it is there if the payment is. The lock keeps repeats
//! away from the database while the first request runs.
//!
//! `DATABASE` is a file; by default a new one is made. With `REDIS_URL` set, the locks are on that
//! server, and several processes can share both.

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Extension, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::routing::post;
use leasehold::layer::{Refusal, template_key};
use leasehold::{KeyPart, LockLayer, Locks};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;

const SCHEMA: &str = "
    PRAGMA journal_mode = WAL; -- who reads a first answer does not wait for a payment
    CREATE TABLE IF NOT EXISTS payments (
        id INTEGER PRIMARY KEY,
        caller TEXT NOT NULL,
        amount INTEGER NOT NULL
    );
    CREATE TABLE IF NOT EXISTS first_answers (
        caller TEXT NOT NULL,
        key TEXT NOT NULL,
        method TEXT NOT NULL,
        path TEXT NOT NULL,
        body_hash BLOB NOT NULL,
        status INTEGER, -- of the answer; no other transaction sees the row without one
        body TEXT,
        created_at INTEGER NOT NULL DEFAULT (unixepoch()),
        PRIMARY KEY (caller, key)
    );";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let locks = Locks::from_env_or_in_memory().await?;
    let database = Database::open()?;

    // The caller is a part of the key: nobody waits for another caller's request.
    let key = template_key("payment:{extension:caller}:{header:idempotency-key}");
    let answers = database.clone();
    let one_at_a_time = LockLayer::mutex(&locks, key.extension::<Caller>("caller")).on_refused(
        async move |refusal, parts| {
            let asked = match refusal {
                // The first request runs; or nobody knows.
                Refusal::Held(_) | Refusal::Lost(_) | Refusal::Unavailable(_) => {
                    parts.extensions.get::<Asked>().cloned()
                }
                _ => None,
            };
            let Some(asked) = asked else { return refusal.to_response() };
            match answers.run(move |database| first_answer(database, &asked)).await {
                Ok(Some(answer)) => answer.into_response(),
                // There is none yet, or the database fails.
                Ok(None) | Err(_) => refusal.to_response(),
            }
        },
    );

    // Each layer is inside of those after it: a request is authenticated first.
    let pay = post(pay)
        .route_layer(one_at_a_time)
        .route_layer(from_fn(read))
        .route_layer(from_fn(authenticate));
    let app = Router::new().route("/payments", pay).with_state(database);

    let address = std::env::var("ADDR").unwrap_or_else(|_| "127.0.0.1:3000".to_owned());
    let listener = TcpListener::bind(&address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app).await?;
    Ok(())
}

/// Who sends a request, as the server knows it.
#[derive(Clone, KeyPart)]
struct Caller(String);

/// A real one looks the token up.
async fn authenticate(mut request: Request, next: Next) -> Result<Response, StatusCode> {
    let token = request.headers().get(header::AUTHORIZATION);
    let token = token.and_then(|token| token.to_str().ok()?.strip_prefix("Bearer "));
    let caller = token.filter(|token| ["ann", "bob"].contains(token));
    let caller = Caller(caller.ok_or(StatusCode::UNAUTHORIZED)?.to_owned());
    request.extensions_mut().insert(caller);
    Ok(next.run(request).await)
}

/// A request, as far as the first answer is bound to it.
#[derive(Clone)]
struct Asked {
    caller: String,
    key: String,
    method: String,
    path: String,
    body_hash: Vec<u8>,
}

/// Reads the body before the lock is asked for: a slow client holds no lock meanwhile, and a repeat
/// that is refused has the hash of its body.
async fn read(
    Extension(Caller(caller)): Extension<Caller>,
    request: Request,
    next: Next,
) -> Result<Response, StatusCode> {
    let (mut parts, body) = request.into_parts();
    let body = to_bytes(body, 64 * 1024).await.map_err(|_| StatusCode::PAYLOAD_TOO_LARGE)?;
    let key = parts.headers.get("idempotency-key").and_then(|key| key.to_str().ok());
    // The layer answers a request without a key.
    if let Some(key) = key {
        let asked = Asked {
            caller,
            key: key.to_owned(),
            method: parts.method.to_string(),
            path: parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
            body_hash: Sha256::digest(&body).to_vec(),
        };
        parts.extensions.insert(asked);
    }
    Ok(next.run(Request::from_parts(parts, Body::from(body))).await)
}

async fn pay(
    State(database): State<Database>,
    Extension(asked): Extension<Asked>,
    body: Bytes,
) -> Response {
    let amount = serde_json::from_slice(&body)
        .ok()
        .and_then(|body: serde_json::Value| body["amount"].as_i64());
    // No work is begun, so nothing is kept.
    let Some(amount) = amount else { return failed(StatusCode::BAD_REQUEST) };
    match database.run(move |database| pay_once(database, &asked, amount)).await {
        Ok(answer) => answer.into_response().map(Body::from),
        // It is rolled back, and the answer with it: the client may send the request again.
        Err(_) => failed(StatusCode::INTERNAL_SERVER_ERROR),
    }
}

fn failed(status: StatusCode) -> Response {
    let mut response = Response::default();
    *response.status_mut() = status;
    response
}

/// Pays, unless the same request has an answer already. The payment and its answer are one
/// transaction.
fn pay_once(database: &mut Connection, asked: &Asked, amount: i64) -> rusqlite::Result<Answer> {
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // A second one waits here until the first is committed or rolled back, whoever has the lock.
    let is_first = transaction.execute(
        "INSERT INTO first_answers (caller, key, method, path, body_hash)
         VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (caller, key) DO NOTHING",
        params![asked.caller, asked.key, asked.method, asked.path, asked.body_hash],
    )? == 1;
    if !is_first {
        let answer = first_answer(&transaction, asked)?;
        return answer.ok_or(rusqlite::Error::QueryReturnedNoRows);
    }
    let (status, body) = if amount > 1_000 {
        (402, json!({ "declined": "more than the limit" })) // decided, so it is kept
    } else {
        transaction.execute(
            "INSERT INTO payments (caller, amount) VALUES (?1, ?2)",
            params![asked.caller, amount],
        )?;
        (201, json!({ "payment": transaction.last_insert_rowid(), "amount": amount }))
    };
    let answer = Answer { status, body: body.to_string(), is_repeat: false };
    transaction.execute(
        "UPDATE first_answers SET status = ?3, body = ?4 WHERE caller = ?1 AND key = ?2",
        params![asked.caller, asked.key, answer.status, answer.body],
    )?;
    transaction.commit()?;
    Ok(answer) // sent after the commit
}

/// The first answer to this request, or a refusal if its key was used for another request.
fn first_answer(database: &Connection, asked: &Asked) -> rusqlite::Result<Option<Answer>> {
    let first = database.query_row(
        "SELECT method = ?3 AND path = ?4 AND body_hash = ?5, status, body
         FROM first_answers WHERE caller = ?1 AND key = ?2",
        params![asked.caller, asked.key, asked.method, asked.path, asked.body_hash],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
    );
    let answer = first.optional()?.map(|(is_same, status, body)| {
        if is_same {
            return Answer { status, body, is_repeat: true };
        }
        let body = json!({ "error": "the idempotency key was used for another request" });
        Answer { status: 422, body: body.to_string(), is_repeat: false }
    });
    Ok(answer)
}

/// What the client gets.
struct Answer {
    status: u16,
    body: String,
    is_repeat: bool,
}

impl Answer {
    fn into_response(self) -> axum::http::Response<Bytes> {
        let mut response = axum::http::Response::new(Bytes::from(self.body));
        let status = StatusCode::from_u16(self.status);
        *response.status_mut() = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let json = header::HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        if self.is_repeat {
            let yes = header::HeaderValue::from_static("true");
            response.headers_mut().insert("idempotent-replayed", yes);
        }
        response
    }
}

/// A file of `SQLite`. Each task opens it for itself; a service would have a pool.
#[derive(Clone)]
struct Database(PathBuf);

impl Database {
    fn open() -> Result<Self, Box<dyn Error>> {
        let file = std::env::var_os("DATABASE").map_or_else(
            || std::env::temp_dir().join(format!("payments-{}.db", std::process::id())),
            PathBuf::from,
        );
        let database = Self(file);
        database.connect()?.execute_batch(SCHEMA)?;
        Ok(database)
    }

    fn connect(&self) -> rusqlite::Result<Connection> {
        let connection = Connection::open(&self.0)?;
        connection.busy_timeout(Duration::from_secs(10))?;
        Ok(connection)
    }

    /// Runs some statements where they block nobody. They go on if the client disconnects.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, Box<dyn Error + Send + Sync>> {
        let database = self.clone();
        Ok(tokio::task::spawn_blocking(move || work(&mut database.connect()?)).await??)
    }
}

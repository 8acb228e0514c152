//! A gateway in front of language models: how many streams run at a time, for each tenant by its plan,
//! for each model and in all, and how many requests and tokens a tenant may begin in a minute.
//!
//! ```sh
//! ADDR=127.0.0.1:3000 cargo run --example ai_gateway
//!
//! ask() { curl -iN http://127.0.0.1:3000/completions -H "authorization: Bearer $1" --data "$2"; }
//! ask pro-ann '{"model": "large", "prompt": "Hello", "max_tokens": 20}'
//! ask free-bob '{"model": "small", "prompt": "Hello", "max_tokens": 501}' # 400: more than its burst
//! ```
//!
//! With `REDIS_URL` set, all processes share the limits. `TOKEN_MS` is how long the model takes for a
//! token, and `LEASE_SECONDS` how long a killed process keeps its permits. Each stream writes two lines:
//! `begin REQUEST TENANT MODEL COST MICROSECONDS` and `end REQUEST MICROSECONDS`.

use std::convert::Infallible;
use std::error::Error;
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Extension, Request};
use axum::http::{StatusCode, header, request::Parts};
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::routing::post;
use futures_util::{Stream, StreamExt, stream};
use leasehold::layer::{LayerLock, SetKey, TemplateKey, template_key};
use leasehold::{KeyPart, LeaseSetHandle, LockLayer, Locks, Rate};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::time::sleep;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let locks = Locks::from_env_or_in_memory().await?;
    // The limits are inside of what says who calls: a stranger takes none of them.
    let complete = post(complete).route_layer(limits(&locks)).route_layer(from_fn(admit));
    let app = Router::new().route("/completions", complete);

    let told_to_end = told_to_end()?;
    let address = std::env::var("ADDR").unwrap_or_else(|_| "127.0.0.1:3000".to_owned());
    let listener = TcpListener::bind(&address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app).with_graceful_shutdown(told_to_end).await?; // streams go on to their ends
    println!("ended: {:?}", locks.shutdown().await);
    Ok(())
}

fn limits(locks: &Locks) -> LockLayer<SetKey> {
    let call = |parts: &Parts| parts.extensions.get::<Call>().cloned();
    let plan = move |parts: &Parts| call(parts).map(|call| call.plan);
    LockLayer::all(
        locks,
        [
            // A request that waits for a limit holds those whose names come before.
            LayerLock::permit(key("1:tenant:{extension:tenant}"), FREE.streams)
                .label("tenant")
                .limit_by(move |parts| plan(parts).map(|plan| plan.streams)),
            LayerLock::permit(key("2:model:{extension:model}"), 1)
                .label("model")
                .limit_by(move |parts| call(parts).map(|call| call.model_streams)),
            LayerLock::permit("3:all", 12).label("all"),
            LayerLock::rate(key("requests:{extension:tenant}"), FREE.requests)
                .label("requests")
                .rate_by(move |parts| plan(parts).map(|plan| plan.requests)),
            LayerLock::rate(key("tokens:{extension:tenant}:{extension:model}"), FREE.tokens)
                .label("tokens")
                .rate_by(move |parts| plan(parts).map(|plan| plan.tokens))
                .weight_by(move |parts| call(parts).map(|call| call.cost)),
        ],
    )
    .wait(Duration::from_secs(2))
    .max_waiters(32) // in each process
    .max_hold(Duration::from_secs(60 * 60)) // the longest stream
    .ttl(Duration::from_secs(number("LEASE_SECONDS", 30)))
}

fn key(template: &'static str) -> TemplateKey {
    let key = template_key(template);
    let key = if template.contains("tenant}") { key.extension::<Tenant>("tenant") } else { key };
    if template.contains("model}") { key.extension::<Model>("model") } else { key }
}

#[derive(Clone, KeyPart)]
struct Tenant(String);

#[derive(Clone, KeyPart)]
struct Model(&'static str);

#[derive(Clone, Copy)]
struct Plan {
    streams: u32,
    requests: Rate,
    tokens: Rate,
}

const FREE: Plan = Plan {
    streams: 2,
    requests: Rate::per_minute(120).burst(10),
    tokens: Rate::per_minute(3_000).burst(500),
};
const PRO: Plan = Plan {
    streams: 6,
    requests: Rate::per_minute(1_200).burst(60),
    tokens: Rate::per_minute(36_000).burst(1_000),
};

/// The models, and how many streams of each run at a time.
const MODELS: [(&str, u32); 2] = [("small", 8), ("large", 3)];

/// A request, as far as its limits depend on it.
#[derive(Clone)]
struct Call {
    id: String,
    plan: Plan,
    model_streams: u32,
    max_tokens: u32,
    /// In tokens, at most: those of the prompt, and those that the model may answer.
    cost: u32,
}

/// Says who calls, and what a call costs. It reads the body before the limits are taken, so that a slow
/// client holds none.
async fn admit(request: Request, next: Next) -> Result<Response, StatusCode> {
    let (mut parts, body) = request.into_parts();
    let text = |name| parts.headers.get(name).and_then(|text| text.to_str().ok());
    // A real one looks the token up. Here it is the tenant, which begins with its plan.
    let tenant = text(header::AUTHORIZATION).and_then(|token| token.strip_prefix("Bearer "));
    let (tenant, plan) = match tenant.and_then(|tenant| Some((tenant, tenant.split_once('-')?.0))) {
        Some((tenant, "free")) => (Tenant(tenant.to_owned()), FREE),
        Some((tenant, "pro")) => (Tenant(tenant.to_owned()), PRO),
        _ => return Err(StatusCode::UNAUTHORIZED),
    };
    let id = text(header::HeaderName::from_static("x-request-id")).unwrap_or("-").to_owned();

    let body = to_bytes(body, 256 * 1024).await.map_err(|_| StatusCode::PAYLOAD_TOO_LARGE)?;
    let asked: Value = serde_json::from_slice(&body).map_err(|_| StatusCode::BAD_REQUEST)?;
    let model = MODELS.into_iter().find(|(name, _)| asked["model"] == *name);
    let (model, model_streams) = model.ok_or(StatusCode::NOT_FOUND)?;
    let max_tokens = asked["max_tokens"].as_u64().and_then(|tokens| u32::try_from(tokens).ok());
    let max_tokens = max_tokens.ok_or(StatusCode::BAD_REQUEST)?;
    let prompt = asked["prompt"].as_str().map_or(0, str::len).div_ceil(4); // about 4 bytes a token
    let cost = u32::try_from(prompt).unwrap_or(u32::MAX).saturating_add(max_tokens);
    parts.extensions.insert(Call { id, plan, model_streams, max_tokens, cost });
    parts.extensions.insert(tenant);
    parts.extensions.insert(Model(model));
    Ok(next.run(Request::from_parts(parts, Body::from(body))).await)
}

/// Streams the answer. It holds its permits until the stream has ended, or the client has gone.
async fn complete(
    leases: LeaseSetHandle,
    Extension(call): Extension<Call>,
    Extension(Tenant(tenant)): Extension<Tenant>,
    Extension(Model(model)): Extension<Model>,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    println!("begin {} {tenant} {model} {} {}", call.id, call.cost, micros());
    let tokens = upstream(call.max_tokens, Logged(call.id));
    // A stream whose permits are lost, as by `max_hold`, must not go on without them.
    let tokens = tokens.take_until(async move { leases.lost().await });
    Sse::new(tokens.map(|token| Ok(Event::default().data(token)))).keep_alive(KeepAlive::default())
}

/// A made-up model.
fn upstream(max_tokens: u32, logged: Logged) -> impl Stream<Item = String> {
    let each = Duration::from_millis(number("TOKEN_MS", 50));
    stream::unfold((0, logged), move |(sent, logged)| async move {
        if sent > max_tokens {
            return None; // it is logged that it ends, and then it holds nothing
        }
        sleep(each).await;
        let token = if sent == max_tokens { "[DONE]".to_owned() } else { format!("token {sent}") };
        Some((token, (sent + 1, logged)))
    })
}

/// Logs that a stream has ended, or was dropped.
struct Logged(String);

impl Drop for Logged {
    fn drop(&mut self) {
        println!("end {} {}", self.0, micros());
    }
}

fn micros() -> u128 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_micros())
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Resolves on SIGTERM or ctrl-c. From the call on, neither ends the process by itself.
#[cfg(unix)]
fn told_to_end() -> std::io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};

    let (mut terminate, mut interrupt) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
    })
}

/// Resolves on ctrl-c.
#[cfg(windows)]
fn told_to_end() -> std::io::Result<impl Future<Output = ()>> {
    let mut ctrl_c = tokio::signal::windows::ctrl_c()?;
    Ok(async move {
        ctrl_c.recv().await;
    })
}

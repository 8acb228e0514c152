//! A web server with limits that hold over all servers together.
//!
//! ```sh
//! export REDIS_URL=redis://127.0.0.1/     # without it, each locks for itself
//! ADDR=127.0.0.1:3000 cargo run --example axum_app &
//! ADDR=127.0.0.1:3001 cargo run --example axum_app &
//!
//! curl -i -X POST http://127.0.0.1:3000/reports      # four at a time
//! curl -i -X PUT  http://127.0.0.1:3001/orders/42    # one at a time for each order
//! curl    http://127.0.0.1:3000/stats                # how many reports there were at a time
//! ```
//!
//! A fifth report at the same time is refused with status 429, a second change
//! of order 42 with 409; both say in `Retry-After` when to come back.

use std::env;
use std::error::Error;
use std::future::Future;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use axum::extract::{Path, Request, State};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router, http::StatusCode};
use leasehold::{LeaseHandle, LockLayer, Locks, path_key};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::time::sleep;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_writer(io::stderr).init();
    let locks = Locks::from_env_or_in_memory().await?;

    // All servers together build at most four reports at a time …
    let four_reports = LockLayer::semaphore(&locks, "reports", 4);
    // … and change an order one after the other. The key is made of the path.
    let one_per_order = LockLayer::mutex(&locks, path_key("order:{id}"));

    let app = Router::new()
        .route("/reports", post(build_report).route_layer(four_reports))
        .route("/orders/{id}", put(change_order).route_layer(one_per_order))
        .route("/stats", get(stats))
        .layer(from_fn(to_its_end))
        .with_state(Counts::from_env()?);

    let address = env::var("ADDR").unwrap_or_else(|_| "127.0.0.1:3000".to_owned());
    let listener = TcpListener::bind(address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    io::stdout().flush()?;
    let stop = async { tokio::signal::ctrl_c().await.expect("ctrl-c can be listened for") };
    axum::serve(listener, app).with_graceful_shutdown(stop).await?;
    Ok(())
}

async fn build_report(State(counts): State<Counts>) -> Result<&'static str, Failed> {
    counts.count(work()).await?;
    Ok("a report\n")
}

/// The layer hands the lease to whoever asks for it.
async fn change_order(Path(id): Path<u64>, lease: LeaseHandle) -> Result<String, Failed> {
    // With the token, the database can refuse a write of a server that stood
    // still for so long that another has the lock by now.
    let token = lease.fence()?;
    work().await;
    Ok(format!("order {id} was changed, with the fencing token {token}\n"))
}

async fn stats(State(counts): State<Counts>) -> Result<Json<Value>, Failed> {
    let [inside, most, served] = counts.read().await?;
    Ok(Json(json!({ "inside": inside, "most": most, "served": served })))
}

/// Stands for the work.
async fn work() {
    sleep(Duration::from_millis(20)).await;
}

/// Lets a request run to its end even if its client goes away.
///
/// By default a client that goes away stops the handler, and its lock is free.
/// Here the request runs on a task of its own, and so does its lock, which is
/// inside this: what has begun is finished, under the lock.
async fn to_its_end(request: Request, next: Next) -> Response {
    let task = tokio::spawn(next.run(request));
    task.await.unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
}

/// Any error, answered with status 500.
struct Failed(Box<dyn Error>);

impl<E: Error + 'static> From<E> for Failed {
    fn from(error: E) -> Self {
        Self(Box::new(error))
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        (StatusCode::INTERNAL_SERVER_ERROR, format!("{}\n", self.0)).into_response()
    }
}

// From here on it is about counting, to see that the limit holds.

/// How many build a report now, how many there were at most, and how many are
/// done: of all servers that share a Redis server, else of this one.
#[derive(Clone)]
enum Counts {
    Shared(redis::Client),
    Own(Arc<Own>),
}

#[derive(Default)]
struct Own {
    inside: AtomicU64,
    most: AtomicU64,
    served: AtomicU64,
}

const KEYS: [&str; 3] = ["axum_app:inside", "axum_app:most", "axum_app:served"];

/// Those inside are a set, each with the time after which it is not counted
/// any more: a server that is killed does not say goodbye. That is before its
/// permit ends, so nobody is missing while another could come in.
const ENTER: &str = "
local now = redis.call('TIME')[1]
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local number = redis.call('INCR', 'axum_app:begun')
redis.call('ZADD', KEYS[1], now + 10, number)
local inside = redis.call('ZCARD', KEYS[1])
if inside > tonumber(redis.call('GET', KEYS[2]) or 0) then
  redis.call('SET', KEYS[2], inside)
end
return number";

const LEAVE: &str = "
redis.call('ZREM', KEYS[1], ARGV[1])
return redis.call('INCR', KEYS[3])";

const READ: &str = "
local now = redis.call('TIME')[1]
local inside = redis.call('ZCOUNT', KEYS[1], '(' .. now, '+inf')
local most, served = redis.call('GET', KEYS[2]), redis.call('GET', KEYS[3])
return {inside, tonumber(most or 0), tonumber(served or 0)}";

impl Counts {
    fn from_env() -> redis::RedisResult<Self> {
        match env::var("REDIS_URL") {
            Ok(url) if !url.is_empty() => redis::Client::open(url).map(Self::Shared),
            _ => Ok(Self::Own(Arc::default())),
        }
    }

    /// Does the work, and counts it.
    async fn count(&self, work: impl Future<Output = ()>) -> redis::RedisResult<()> {
        match self {
            Self::Own(own) => {
                let _inside = own.enter();
                work.await;
                own.served.fetch_add(1, SeqCst);
            }
            Self::Shared(server) => {
                let number: u64 = run(server, ENTER, 0).await?;
                work.await;
                let _served: u64 = run(server, LEAVE, number).await?;
            }
        }
        Ok(())
    }

    async fn read(&self) -> redis::RedisResult<[u64; 3]> {
        match self {
            Self::Own(own) => Ok([&own.inside, &own.most, &own.served].map(|n| n.load(SeqCst))),
            Self::Shared(server) => run(server, READ, 0).await,
        }
    }
}

async fn run<T>(server: &redis::Client, script: &str, number: u64) -> redis::RedisResult<T>
where
    T: redis::FromRedisValue,
{
    let mut connection = server.get_multiplexed_async_connection().await?;
    redis::Script::new(script).key(&KEYS).arg(number).invoke_async(&mut connection).await
}

impl Own {
    fn enter(&self) -> Inside<'_> {
        let inside = self.inside.fetch_add(1, SeqCst) + 1;
        self.most.fetch_max(inside, SeqCst);
        Inside(self)
    }
}

/// Leaves when it is dropped, so also when the work is stopped midway.
struct Inside<'a>(&'a Own);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.inside.fetch_sub(1, SeqCst);
    }
}

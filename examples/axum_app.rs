//! Two limited routes: at most four reports are built at a time, and each order
//! is changed by one request at a time, in all processes together.
//!
//! In two terminals, and then in a third:
//!
//! ```sh
//! REDIS_URL=redis://127.0.0.1/ ADDR=127.0.0.1:3000 cargo run --example axum_app
//! REDIS_URL=redis://127.0.0.1/ ADDR=127.0.0.1:3001 cargo run --example axum_app
//!
//! curl -i -X POST http://127.0.0.1:3000/reports
//! curl -i -X PUT http://127.0.0.1:3001/orders/42 --data 'two chairs'
//! curl http://127.0.0.1:3000/stats
//! curl http://127.0.0.1:3000/health
//! ```
//!
//! On ctrl-c or SIGTERM the app takes no more requests, and finishes the requests that it
//! has, under their locks. Then it shuts its lock client down, and reports leases that are left.
//!
//! Without `REDIS_URL` it locks in memory, for one process alone.

use std::error::Error;
use std::io;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post, put};
use axum::{Json, Router};
use leasehold::{LeaseHandle, LockLayer, Locks, path_key};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::time::sleep;

use self::gauge::Gauge;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let locks = Locks::from_env_or_in_memory().await?;
    let four = LockLayer::semaphore(&locks, "reports", 4);
    let one_per_order = LockLayer::mutex(&locks, path_key("order:{id}"));

    let app = Router::new()
        .route("/reports", post(report).route_layer(four))
        .route("/orders/{id}", put(update).route_layer(one_per_order))
        .route("/stats", get(stats))
        .with_state(Gauge::from_env().await?)
        .route("/live", get(async || "alive\n")) // for liveness and readiness
        .route("/health", get(health).with_state(locks.clone())); // for people

    let told_to_end = told_to_end()?;
    let address = std::env::var("ADDR").unwrap_or_else(|_| "127.0.0.1:3000".to_owned());
    let listener =
        TcpListener::bind(&address).await.map_err(|error| format!("{address}: {error}"))?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app)
        .with_graceful_shutdown(told_to_end) // requests under way end under their locks
        .await?;
    let report = locks.shutdown().await; // waits until the last of them is released
    println!("ended: {report:?}");
    Ok(())
}

/// Resolves on SIGTERM, which is how a service manager or Kubernetes ends a process, or
/// on ctrl-c. From the call on, neither ends the process by itself.
#[cfg(unix)]
fn told_to_end() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};

    let (mut terminate, mut interrupt) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Resolves on ctrl-c.
#[cfg(windows)]
fn told_to_end() -> io::Result<impl Future<Output = ()>> {
    let mut ctrl_c = tokio::signal::windows::ctrl_c()?;
    Ok(async move {
        ctrl_c.recv().await;
    })
}

/// At most four at a time: the fifth is refused with 429 and a `Retry-After`.
async fn report(State(gauge): State<Gauge>) -> Result<&'static str, StatusCode> {
    let build = async {
        sleep(Duration::from_millis(20)).await; // a report is built
        "a report\n"
    };
    gauge.count(build).await.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
}

/// One at a time for each order: the second is refused with 409.
async fn update(
    Path(id): Path<u64>,
    lease: LeaseHandle,
    order: String,
) -> Result<String, StatusCode> {
    // Give the token to the database with the write, and let it refuse older ones.
    let fence = lease.fence().map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    sleep(Duration::from_millis(20)).await; // the order is changed
    Ok(format!("order {id} is changed, with the fencing token {fence}: {order}\n"))
}

/// The number of reports that are being built, the greatest number so far, and the number of
/// finished ones, in all processes together.
async fn stats(State(gauge): State<Gauge>) -> Result<Json<Value>, StatusCode> {
    let [inside, most, built] =
        gauge.read().await.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    Ok(Json(json!({ "inside": inside, "most": most, "built": built })))
}

/// Whether the lock store answers. Not for readiness: an outage of the store, which all instances
/// share, would take all of them out of service, with the routes that need no lock.
async fn health(State(locks): State<Locks>) -> Result<String, (StatusCode, String)> {
    match locks.ping().await {
        Ok(time) => Ok(format!("the lock store answers in {time:?}\n")),
        Err(error) => Err((StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n"))),
    }
}

/// Counts the requests inside, to show that the limit holds. It has nothing to do with
/// locking: an app of your own does not need it.
mod gauge {
    use std::sync::{Arc, Mutex, PoisonError};

    use redis::aio::MultiplexedConnection;
    use redis::{RedisResult, Script, cmd};

    const KEYS: [&str; 3] = ["axum_app:inside", "axum_app:most", "axum_app:built"];

    /// The number of requests inside, the greatest number so far, and the number that have left: on
    /// the server, for all apps together, or in memory.
    #[derive(Clone)]
    pub(super) enum Gauge {
        Redis(MultiplexedConnection),
        Memory(Arc<Mutex<[u64; 3]>>),
    }

    impl Gauge {
        pub(super) async fn from_env() -> RedisResult<Self> {
            match std::env::var("REDIS_URL") {
                Ok(url) if !url.is_empty() => {
                    let client = redis::Client::open(url)?;
                    Ok(Self::Redis(client.get_multiplexed_async_connection().await?))
                }
                _ => Ok(Self::Memory(Arc::default())),
            }
        }

        /// Runs the work, counted as inside until it ends or is dropped.
        pub(super) async fn count<T>(self, work: impl Future<Output = T>) -> RedisResult<T> {
            let mut inside = Inside(Some(self.clone()));
            self.enter().await?;
            let result = work.await;
            if let Some(gauge) = inside.0.take() {
                gauge.leave().await?;
            }
            Ok(result)
        }

        async fn enter(self) -> RedisResult<()> {
            match self {
                Self::Redis(mut redis) => {
                    let enter = Script::new(
                        "local inside = redis.call('INCR', KEYS[1])
                         local most = tonumber(redis.call('GET', KEYS[2]) or 0)
                         redis.call('SET', KEYS[2], math.max(inside, most))",
                    );
                    enter.key(&KEYS[..2]).invoke_async(&mut redis).await
                }
                Self::Memory(numbers) => {
                    let mut numbers = numbers.lock().unwrap_or_else(PoisonError::into_inner);
                    numbers[0] += 1;
                    numbers[1] = numbers[1].max(numbers[0]);
                    Ok(())
                }
            }
        }

        async fn leave(self) -> RedisResult<()> {
            match self {
                Self::Redis(mut redis) => {
                    let mut leave = redis::pipe();
                    leave.atomic().decr(KEYS[0], 1).incr(KEYS[2], 1);
                    leave.exec_async(&mut redis).await
                }
                Self::Memory(numbers) => {
                    let mut numbers = numbers.lock().unwrap_or_else(PoisonError::into_inner);
                    numbers[0] -= 1;
                    numbers[2] += 1;
                    Ok(())
                }
            }
        }

        pub(super) async fn read(self) -> RedisResult<[u64; 3]> {
            match self {
                Self::Redis(mut redis) => {
                    let numbers: [Option<u64>; 3] =
                        cmd("MGET").arg(&KEYS).query_async(&mut redis).await?;
                    Ok(numbers.map(Option::unwrap_or_default))
                }
                Self::Memory(numbers) => {
                    Ok(*numbers.lock().unwrap_or_else(PoisonError::into_inner))
                }
            }
        }
    }

    /// Counts one out even if its client went away and the work was dropped.
    struct Inside(Option<Gauge>);

    impl Drop for Inside {
        fn drop(&mut self) {
            if let Some(gauge) = self.0.take() {
                tokio::spawn(gauge.leave());
            }
        }
    }
}

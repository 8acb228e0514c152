//! Serves the metrics of locks for Prometheus, beside a route that is under a lock.
//!
//! ```sh
//! ADDR=127.0.0.1:3000 cargo run --example prometheus
//!
//! curl -X POST http://127.0.0.1:3000/orders/42
//! curl http://127.0.0.1:3000/metrics
//! ```

use std::error::Error;
use std::future::ready;

use axum::Router;
use axum::routing::{get, post};
use leasehold::{LockLayer, Locks, path_key};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use tokio::net::TcpListener;

/// A wait is a few milliseconds, or the time that others hold the lock. Without buckets the
/// exporter sends quantiles, which nobody can add up over several servers.
const SECONDS: &[f64] = &[0.001, 0.005, 0.02, 0.1, 0.5, 1.0, 5.0, 20.0, 60.0, 300.0];

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // Before the first client of locks, which describes the metrics.
    let prometheus = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), SECONDS)?
        .install_recorder()?;
    let locks = Locks::from_env_or_in_memory().await?;

    let one_per_order = LockLayer::mutex(&locks, path_key("order:{id}"));
    let app = Router::new()
        .route("/orders/{id}", post(|| async { "changed\n" }).route_layer(one_per_order))
        .route("/metrics", get(move || ready(prometheus.render())));

    let address = std::env::var("ADDR").unwrap_or_else(|_| "127.0.0.1:3000".to_owned());
    let listener = TcpListener::bind(&address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app).await?;
    Ok(())
}

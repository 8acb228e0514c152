//! Sends traces and metrics of locks to an OpenTelemetry collector, by OTLP over gRPC.
//!
//! ```sh
//! docker run --rm -p 4317:4317 otel/opentelemetry-collector
//! OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4317 cargo run --example opentelemetry
//! ```
//!
//! Two tellers pay out the same account at the same time. In the traces, the second has a span
//! `leasehold.acquire` with the event `queued`; what a teller does is inside `leasehold.hold`.

use std::error::Error;
use std::time::Duration;

use leasehold::{LockError, Locks, distributed_lock};
use metrics_exporter_otel::OpenTelemetryRecorder;
use opentelemetry::metrics::MeterProvider;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{MetricExporter, SpanExporter};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tokio::time::sleep;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;

#[distributed_lock(key = "account:{account}", ttl = "10s")]
async fn pay_out(account: u64, teller: &str) -> Result<(), LockError> {
    tracing::info!(teller, "pays out");
    sleep(Duration::from_millis(100)).await;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let resource = Resource::builder().with_service_name("payments").build();
    let traces = SdkTracerProvider::builder()
        .with_resource(resource.clone())
        .with_batch_exporter(SpanExporter::builder().with_tonic().build()?)
        .build();
    let meters = SdkMeterProvider::builder()
        .with_resource(resource)
        .with_periodic_exporter(MetricExporter::builder().with_tonic().build()?)
        .build();

    // Spans of locks are at `debug`, under a target of their own. Other events at `debug` may
    // name locks, and stay here.
    let exported = Targets::new()
        .with_default(LevelFilter::INFO)
        .with_target("leasehold::spans", LevelFilter::DEBUG);
    let spans = tracing_opentelemetry::layer().with_tracer(traces.tracer("payments"));
    tracing_subscriber::registry()
        .with(spans.with_filter(exported))
        .with(tracing_subscriber::fmt::layer().with_filter(LevelFilter::INFO))
        .init();
    // Before the first client of locks, which describes the metrics.
    metrics::set_global_recorder(OpenTelemetryRecorder::new(meters.meter("payments")))?;

    Locks::from_env_or_in_memory().await?.install();
    let (ada, bea) = tokio::join!(pay_out(42, "Ada"), pay_out(42, "Bea"));
    ada.and(bea)?;

    // Sends what is left. Without a collector, this says so.
    tokio::task::spawn_blocking(move || traces.shutdown().and(meters.shutdown())).await??;
    Ok(())
}

//! The examples that export metrics and traces: what arrives at a collector, and at Prometheus.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use leasehold_tests::process::{Process, example};
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::trace::v1::Span;
use tokio::net::TcpListener;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

use super::names::{exported, names};

/// A collector that keeps what it gets.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<(Vec<Span>, Vec<Metric>)>>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let scopes = request.into_inner().resource_spans.into_iter().flat_map(|it| it.scope_spans);
        self.0.lock().unwrap().0.extend(scopes.flat_map(|scope| scope.spans));
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

#[tonic::async_trait]
impl MetricsService for Collector {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        let resources = request.into_inner().resource_metrics.into_iter();
        let scopes = resources.flat_map(|it| it.scope_metrics);
        self.0.lock().unwrap().1.extend(scopes.flat_map(|scope| scope.metrics));
        Ok(Response::new(ExportMetricsServiceResponse::default()))
    }
}

fn attributes(of: &[KeyValue]) -> BTreeMap<&str, &str> {
    let texts = of.iter().filter_map(|it| match &it.value {
        Some(AnyValue { value: Some(Value::StringValue(text)) }) => Some((&*it.key, &**text)),
        _ => None,
    });
    texts.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn spans_and_metrics_arrive_at_a_collector() {
    let collector = Collector::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = Server::builder()
        .add_service(TraceServiceServer::new(collector.clone()))
        .add_service(MetricsServiceServer::new(collector.clone()))
        .serve_with_incoming(TcpIncoming::from(listener));
    let serving = tokio::spawn(serving);
    let ended = tokio::task::spawn_blocking(move || {
        let mut command = example("opentelemetry");
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{address}"));
        let mut process = Process::start(&mut command);
        (process.rest(), process.is_success())
    });
    let (lines, is_success) = ended.await.unwrap();
    assert!(is_success, "{lines:?}");
    serving.abort();

    let (spans, metrics) = std::mem::take(&mut *collector.0.lock().unwrap());
    let named = |name: &str| spans.iter().filter(|it| it.name == name).collect::<Vec<_>>();
    let (acquired, held) = (named("leasehold.acquire"), named("leasehold.hold"));
    assert_eq!([acquired.len(), held.len()], [2, 2], "{spans:#?}");
    for span in acquired.iter().chain(&held) {
        let attributes = attributes(&span.attributes);
        assert_eq!(attributes["lock"], "account:{account}", "{span:#?}");
        assert_eq!(attributes["kind"], "mutex");
    }
    let events = |span: &Span| span.events.iter().map(|it| it.name.clone()).collect::<Vec<_>>();
    let mut acquisitions: Vec<_> = acquired.into_iter().map(events).collect();
    acquisitions.sort();
    assert_eq!(acquisitions, [vec!["granted"], vec!["queued", "granted"]]);
    assert!(held.into_iter().all(|span| events(span) == ["pays out"]));

    let metric = |name: &str| metrics.iter().rev().find(|it| it.name == name).unwrap();
    let acquisitions = metric("leasehold_acquisitions_total");
    assert_eq!(acquisitions.description, "acquisitions that have ended");
    let Some(Data::Sum(sum)) = &acquisitions.data else { panic!("{acquisitions:?}") };
    let point = &sum.data_points[0];
    let labels = [("kind", "mutex"), ("lock", "account:{account}"), ("outcome", "acquired")];
    assert_eq!(attributes(&point.attributes), BTreeMap::from(labels));
    let waits = metric("leasehold_wait_seconds");
    assert_eq!(waits.unit, "s");
    let Some(Data::Histogram(waits)) = &waits.data else { panic!("{waits:?}") };
    assert_eq!(waits.data_points[0].count, 2);
    assert!(matches!(metric("leasehold_held").data, Some(Data::Gauge(_))));
}

#[tokio::test]
async fn prometheus_reads_the_metrics_of_a_route() {
    let mut process = Process::start(example("prometheus").env("ADDR", "127.0.0.1:0"));
    let line = process.line().unwrap();
    let url = line.strip_prefix("listening on ").unwrap().to_owned();
    let client = reqwest::Client::new();
    let order = client.post(format!("{url}/orders/42")).send().await.unwrap();
    assert_eq!(order.status(), 200);
    let text = client.get(format!("{url}/metrics")).send().await.unwrap().text().await.unwrap();
    let labels = r#"kind="mutex",lock="order:{id}""#;
    for line in [
        "# HELP leasehold_acquisitions_total acquisitions that have ended".to_owned(),
        format!(r#"leasehold_acquisitions_total{{{labels},outcome="acquired"}} 1"#),
        format!("leasehold_held{{{labels}}} 0"),
        format!(r#"leasehold_wait_seconds_bucket{{{labels},le="+Inf"}} 1"#),
    ] {
        assert!(text.lines().any(|it| it == line), "{line}: {text}");
    }
    let exported = exported();
    assert!(names(&text).iter().all(|name| exported.contains(name)), "{text}");
}

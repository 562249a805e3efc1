//! Traces for a collector that speaks OTLP over HTTP.
//!
//! Owns everything that knows OpenTelemetry: other crates write `tracing` spans and need not know where they go.
//! Refuses to choose what is traced; a span is worth exporting when somebody wrote it.

use std::collections::HashMap;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::registry::LookupSpan;

/// What its spans are called by, unless `OTEL_SERVICE_NAME` says otherwise.
const SERVICE: &str = "orrery";
/// How long the last spans may take when the program ends.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Why traces cannot be sent.
#[derive(Debug, thiserror::Error)]
#[error("traces cannot be sent to {endpoint}: {source}")]
pub struct Error {
    endpoint: String,
    source: opentelemetry_otlp::ExporterBuildError,
}

/// Sends spans in batches. Dropping it sends the last ones.
pub struct Exporter {
    provider: SdkTracerProvider,
}

impl Exporter {
    /// Sends to a collector, such as `http://127.0.0.1:4318`. Headers, timeouts and the sampler are taken from the
    /// usual `OTEL_…` variables.
    pub fn new(endpoint: &str, version: &'static str) -> Result<Self, Error> {
        let exporter = SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(format!("{}/v1/traces", endpoint.trim_end_matches('/')))
            .build()
            .map_err(|source| Error { endpoint: endpoint.to_owned(), source })?;
        let mut resource = Resource::builder().with_attribute(KeyValue::new("service.version", version));
        if std::env::var_os("OTEL_SERVICE_NAME").is_none() {
            resource = resource.with_service_name(SERVICE);
        }
        let provider =
            SdkTracerProvider::builder().with_resource(resource.build()).with_batch_exporter(exporter).build();
        Ok(Self { provider })
    }

    /// What hands spans over. Only our own: the exporter's requests would otherwise be traced and exported in turn.
    pub fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'span> LookupSpan<'span>,
    {
        let ours = Targets::new().with_target(SERVICE, LevelFilter::DEBUG);
        tracing_opentelemetry::layer().with_tracer(self.provider.tracer(SERVICE)).with_filter(ours)
    }
}

/// Goes on with the trace that a caller began, as its `traceparent` says; one that makes no sense begins a new trace. To
/// be called before the span is entered.
pub fn adopt(span: &tracing::Span, traceparent: &str) {
    let carrier = HashMap::from([("traceparent".to_owned(), traceparent.to_owned())]);
    let parent = TraceContextPropagator::new().extract(&carrier);
    // A span that nobody exports needs no parent.
    let _ = span.set_parent(parent);
}

impl Drop for Exporter {
    fn drop(&mut self) {
        if let Err(error) = self.provider.shutdown_with_timeout(LAST_WORDS) {
            tracing::warn!(%error, "the last traces were not sent");
        }
    }
}

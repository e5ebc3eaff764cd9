//! Spans on their way to an OpenTelemetry collector: OTLP over HTTP, in protobuf. Off unless the usual variables name one
//! (`OTEL_EXPORTER_OTLP_ENDPOINT` and its kin).
//!
//! A bounded queue, batches, a deadline: a collector that is slow or away costs spans and nothing else. The messages are
//! written by hand ([`protobuf`]): a handful of fields that have not changed since 2021, against four crates that change
//! every few months.

mod protobuf;

use anyhow::{Context, Result, bail};
use domain::{
    limits,
    metrics::Counter,
    trace::{Span, Spans},
};
use engine::egress::OperatorClient;
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::mpsc,
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

/// Takes spans, and says what became of them.
pub(crate) struct Exporter {
    queue: mpsc::Sender<Span>,
    pub(super) sent: Counter,
    pub(super) dropped: Counter,
}

impl Spans for Exporter {
    fn take(&self, span: Span) {
        if self.queue.try_send(span).is_err() {
            self.dropped.add(1);
        }
    }
}

/// The work behind it.
pub(crate) struct Exporting {
    spans: mpsc::Receiver<Span>,
    exporter: Arc<Exporter>,
    outlet: OperatorClient,
    resource: Vec<(String, String)>,
    /// What is being sent.
    batch: Vec<Span>,
    /// When it was last said that the collector does not take them.
    told_at: Option<Instant>,
}

/// Tries of one batch, and the pause after the first; it doubles.
const TRIES: u32 = 4;
const PAUSE: Duration = Duration::from_millis(250);
/// A collector that is away is not worth a line a second.
const TELL_EVERY: Duration = Duration::from_secs(60);

impl Exporting {
    /// As the variables say; None if they name no collector.
    pub(crate) fn from_env(
        variable: impl Fn(&str) -> Option<String>,
        node: &str,
        version: &str,
    ) -> Result<Option<(Arc<Exporter>, Self)>> {
        let said = |name: &str| variable(name).filter(|text| !text.trim().is_empty());
        let of_traces = |name: &str| {
            said(&format!("OTEL_EXPORTER_OTLP_TRACES_{name}"))
                .or_else(|| said(&format!("OTEL_EXPORTER_OTLP_{name}")))
        };
        let own = said("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
        let common = || {
            said("OTEL_EXPORTER_OTLP_ENDPOINT")
                .map(|base| format!("{}/v1/traces", base.trim_end_matches('/')))
        };
        let Some(url) = own.or_else(common) else { return Ok(None) };
        let off =
            |name: &str, value: &str| said(name).is_some_and(|text| text.trim().eq_ignore_ascii_case(value));
        if off("OTEL_SDK_DISABLED", "true") || off("OTEL_TRACES_EXPORTER", "none") {
            return Ok(None);
        }
        if let Some(protocol) = of_traces("PROTOCOL").filter(|protocol| protocol != "http/protobuf") {
            bail!(
                "OTEL_EXPORTER_OTLP_PROTOCOL is {protocol:?}: traces are sent as http/protobuf (port 4318, usually)"
            );
        }
        let mut headers = pairs(&of_traces("HEADERS").unwrap_or_default());
        headers.push(("content-type".into(), "application/x-protobuf".into()));
        headers.push(("user-agent".into(), format!("Posthaste/{version}")));
        let outlet = OperatorClient::new(&url, &headers).context("traces cannot be sent")?;
        let mut resource = vec![
            ("service.name".into(), said("OTEL_SERVICE_NAME").unwrap_or_else(|| "posthaste".into())),
            ("service.version".into(), version.into()),
            ("service.instance.id".into(), node.into()),
        ];
        for (name, value) in pairs(&said("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default()) {
            let named = said("OTEL_SERVICE_NAME").is_some() && name == "service.name";
            if !named {
                resource.retain(|(known, _): &(String, String)| *known != name);
                resource.push((name, value));
            }
        }
        let (queue, spans) = mpsc::channel(limits::SPAN_QUEUE);
        let exporter = Arc::new(Exporter { queue, sent: Counter::new(), dropped: Counter::new() });
        Ok(Some((
            exporter.clone(),
            Self { spans, exporter, outlet, resource, batch: Vec::new(), told_at: None },
        )))
    }

    /// Runs until `stop`; then sends what is left, once. What a life before could not even try to send is lost.
    pub(crate) async fn run(&mut self, stop: CancellationToken) {
        self.exporter.dropped.add(self.batch.len() as u64);
        self.batch.clear();
        let most = limits::SPAN_BATCH;
        while stop.run_until_cancelled(self.spans.recv_many(&mut self.batch, most)).await.is_some() {
            // Others may join until then.
            let gathered = async {
                while self.batch.len() < most {
                    let room = most - self.batch.len();
                    self.spans.recv_many(&mut self.batch, room).await;
                }
            };
            let _ = timeout(limits::SPAN_EVERY, stop.run_until_cancelled(gathered)).await;
            supervisor::failpoint();
            let mut pause = PAUSE;
            for tries_left in (0..TRIES).rev() {
                if self.send(tries_left == 0).await {
                    break;
                }
                let _ = timeout(pause, stop.cancelled()).await;
                pause *= 2;
            }
            self.batch.clear();
        }
        while let Ok(span) = self.spans.try_recv() {
            self.batch.push(span);
            if self.batch.len() == most {
                self.send(true).await;
                self.batch.clear();
            }
        }
        if !self.batch.is_empty() {
            self.send(true).await;
            self.batch.clear();
        }
    }

    /// False if it is worth another try, of which the last is none.
    async fn send(&mut self, last: bool) -> bool {
        let batch = &self.batch;
        let body = protobuf::request(&self.resource, batch);
        let answer = timeout(limits::SPAN_PATIENCE, self.outlet.post(body)).await;
        let (trouble, again) = match answer {
            Ok(Ok(200..=299)) => {
                self.exporter.sent.add(batch.len() as u64);
                return true;
            }
            Ok(Ok(status)) => (format!("it answered {status}"), matches!(status, 429 | 502 | 503 | 504)),
            Ok(Err(error)) => (error.to_string(), true),
            Err(_) => ("it did not answer in time".into(), true),
        };
        if again && !last {
            return false;
        }
        self.exporter.dropped.add(batch.len() as u64);
        if self.told_at.is_none_or(|at| at.elapsed() >= TELL_EVERY) {
            self.told_at = Some(Instant::now());
            tracing::warn!(spans = batch.len(), trouble, "the collector of traces did not take them");
        }
        true
    }
}

/// `name=value,…`; values may be percent-encoded, as the variables' specification has it.
fn pairs(text: &str) -> Vec<(String, String)> {
    let pair = |part: &str| {
        let (name, value) = part.split_once('=')?;
        let name = name.trim();
        (!name.is_empty()).then(|| (name.to_owned(), decoded(value.trim())))
    };
    text.split(',').filter_map(pair).collect()
}

fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = (bytes[at] == b'%').then(|| text.get(at + 1..at + 3)).flatten();
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                plain.push(byte);
                at += 3;
            }
            None => {
                plain.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(said: &[(&str, &str)]) -> Result<Option<Exporting>> {
        let variable =
            |name: &str| said.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        Ok(Exporting::from_env(variable, "node-1", "1.2.3")?.map(|(_, exporting)| exporting))
    }

    const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/");

    #[tokio::test]
    async fn without_a_collector_there_are_no_traces() {
        assert!(from(&[]).unwrap().is_none());
        assert!(from(&[ENDPOINT, ("OTEL_SDK_DISABLED", "true")]).unwrap().is_none());
        assert!(from(&[ENDPOINT]).unwrap().is_some());
    }

    #[tokio::test]
    async fn a_protocol_we_do_not_speak_is_named() {
        let error = from(&[ENDPOINT, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]).err().unwrap().to_string();
        assert!(error.contains("\"grpc\"") && error.contains("http/protobuf"), "{error}");
    }

    #[tokio::test]
    async fn the_resource_is_named_by_the_usual_variables() {
        let exporting = from(&[
            ENDPOINT,
            ("OTEL_SERVICE_NAME", "hooks"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other,deployment.environment.name=a%20b"),
        ]);
        let resource = exporting.unwrap().unwrap().resource;
        let value =
            |name: &str| resource.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        assert_eq!(value("service.name"), Some("hooks"));
        assert_eq!(value("deployment.environment.name"), Some("a b"));
        assert_eq!(value("service.instance.id"), Some("node-1"));
    }

    #[tokio::test]
    async fn headers_do_not_show_in_debug_output() {
        let exporting = from(&[ENDPOINT, ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=sesame")]);
        let shown = format!("{:?}", exporting.unwrap().unwrap().outlet);
        assert!(shown.contains("collector") && !shown.contains("sesame"), "{shown}");
    }
}

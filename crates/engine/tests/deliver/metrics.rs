//! What the engine tells of itself is what happened.

use crate::bench::{Bench, Wish, bench, bench_with, schedule};
use domain::{
    delivery::Status,
    metrics::Text,
    trace::{Span, Spans, TraceContext, Tracer},
};
use engine::EngineSettings;
use lab::{Reply, Script};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use store::Scraped;

const PATIENCE: Duration = Duration::from_secs(10);

/// The value of a sample; None if there is none.
async fn told(bench: &Bench, sample: &str) -> Option<f64> {
    let mut text = Text::default();
    bench.handle.scrape(true, &mut text).await;
    let line = text.as_str().lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    line.map(|value| value.parse().expect("a number"))
}

#[tokio::test]
async fn what_waits_for_a_slot_is_counted_once_and_what_is_open_is_in_flight() {
    let bench = bench().await;
    let destination = bench.destination("a", |it| it.settings.max_concurrency = Some(1)).await;
    bench.receiver.script("a", Reply::ok().after(Duration::from_millis(100)));
    for _ in 0..4 {
        bench.send(&[destination], b"{}").await;
    }
    assert!(bench.receiver.wait_for(1, PATIENCE).await);
    let labels = format!("destination_id=\"{destination}\",destination_name=\"a\"");
    let in_flight = format!("posthaste_delivery_inflight_per_destination{{{labels},max_concurrency=\"1\"}}");
    assert_eq!(told(&bench, &in_flight).await, Some(1.0));
    let oldest = told(&bench, "posthaste_queue_oldest_seconds").await.unwrap();
    assert!(oldest > 0.0 && oldest < 10.0, "{oldest}");
    assert!(bench.receiver.wait_for_succeeded(4, PATIENCE).await);
    let denied = format!("posthaste_delivery_concurrency_slot_denied_total{{{labels}}}");
    assert_eq!(told(&bench, &denied).await, Some(3.0), "the three that came while one was open");
    bench
        .until(|| async {
            let delivered = told(&bench, "posthaste_delivery_latency_seconds_count").await;
            (delivered == Some(4.0)).then_some(())
        })
        .await;
    assert_eq!(told(&bench, &in_flight).await, Some(0.0));
    assert_eq!(told(&bench, "posthaste_queue_oldest_seconds").await, Some(0.0));
    let ratio = format!("posthaste_destination_success_ratio{{{labels}}}");
    assert_eq!(told(&bench, &ratio).await, Some(1.0));
}

#[tokio::test]
async fn retries_and_dead_letters_are_counted_when_they_are_durable() {
    let bench = bench().await;
    let destination = bench.destination("a", |it| it.settings.retry_policy = schedule(&[1])).await;
    bench.receiver.script("a", Reply::status(500));
    bench.send(&[destination], b"{}").await;
    assert_eq!(bench.ended(destination).await, (Status::DeadLetter, Some("exhausted")));
    for (sample, value) in [
        ("posthaste_delivery_attempts_total{outcome=\"server_error\"}", 2.0),
        ("posthaste_delivery_attempts_total{outcome=\"success\"}", 0.0),
        ("posthaste_delivery_retries_total", 1.0),
        ("posthaste_dead_letters_total{reason=\"exhausted\"}", 1.0),
        ("posthaste_attempt_duration_seconds_count", 2.0),
        ("posthaste_delivery_latency_seconds_count", 0.0),
    ] {
        bench.until(|| async { (told(&bench, sample).await == Some(value)).then_some(()) }).await;
    }
}

#[derive(Default)]
struct Collected(Mutex<Vec<Span>>);

impl Spans for Collected {
    fn take(&self, span: Span) {
        self.0.lock().unwrap().push(span);
    }
}

#[tokio::test]
async fn every_attempt_is_a_span_of_its_own_and_its_destination_hears_of_it() {
    let collected = Arc::new(Collected::default());
    let settings = EngineSettings { tracer: Tracer::new(collected.clone()), ..EngineSettings::default() };
    let bench = bench_with(settings, None).await;
    let destination = bench.destination("a", |it| it.settings.retry_policy = schedule(&[1])).await;
    bench.receiver.script("a", Script::InTurn(vec![Reply::status(500), Reply::ok()]));
    bench.send(&[destination], b"{}").await;
    assert_eq!(bench.ended(destination).await, (Status::Delivered, None));
    let heard = |record: &lab::Record| {
        let kept = record.kept.as_ref().expect("headers are kept");
        let value = kept.headers.get("traceparent").expect("every request has one");
        TraceContext::parse(value.to_str().unwrap()).expect("a well-formed one")
    };
    let heard: Vec<TraceContext> = bench.receiver.snapshot().iter().map(heard).collect();
    let spans = collected.0.lock().unwrap().clone();
    assert_eq!(spans.iter().map(|span| span.context).collect::<Vec<_>>(), heard);
    assert_eq!(heard[0].trace_id, heard[1].trace_id);
    assert_ne!(heard[0].span_id, heard[1].span_id);
    assert_eq!((spans[0].error, spans[1].error), (Some("server_error"), None));
    assert_eq!(spans[0].parent, spans[1].parent);
}

#[tokio::test]
async fn the_state_of_a_trace_is_passed_on_beside_it() {
    const TRACED: &[(&str, &str)] = &[
        ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
        ("tracestate", "rojo=00f067aa0ba902b7, congo=t61rcWkgMzE"),
    ];
    let bench = bench().await;
    let destination = bench.destination("a", |_| {}).await;
    bench.send_as(destination, b"{}", Wish { headers: TRACED, ..Wish::default() }).await;
    assert_eq!(bench.ended(destination).await, (Status::Delivered, None));
    let heard = bench.receiver.snapshot().remove(0).kept.expect("headers are kept");
    assert_eq!(heard.headers["tracestate"], "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE");
    let shown = bench.attempts(destination).await.remove(0).detail.request_headers;
    assert!(shown.contains(&("tracestate".into(), "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE".into())));
}

//! What the node tells of itself: metrics, logs, traces; to whom, and what never.

use crate::node::{LONG, Node, Place, deliver_to, ended, text};
use client::{Client, NewDestination, NewRoute, NewSource, Publish};
use engine::egress::OperatorClient;
use lab::{Receiver, Recording, Reply, Script};
use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{KeyValue, any_value::Value},
    trace::v1::{Span, span::SpanKind, status::StatusCode},
};
use prost::Message;
use std::{
    collections::BTreeSet,
    fs::{self, File},
    net::TcpListener,
    path::Path,
    time::{Duration, Instant},
};

/// As the product promises them.
const PROMISED: [&str; 16] = [
    "posthaste_events_ingested_total",
    "posthaste_delivery_attempts_total",
    "posthaste_delivery_latency_seconds",
    "posthaste_attempt_duration_seconds",
    "posthaste_queue_depth",
    "posthaste_queue_oldest_seconds",
    "posthaste_delivery_concurrency_slot_denied_total",
    "posthaste_delivery_inflight_per_destination",
    "posthaste_destination_success_ratio",
    "posthaste_destination_held",
    "posthaste_destination_oldest_seconds",
    "posthaste_dead_letters_total",
    "posthaste_fanout_completion_ratio",
    "posthaste_fanout_partial_failure_ratio",
    "posthaste_fanout_lag_seconds",
    "posthaste_tasks",
];

async fn metrics(client: &Client) -> String {
    let bytes = client.raw("/metrics").await.expect("metrics");
    text(&bytes).to_owned()
}

/// The metrics of a node that has delivered one event and given up another. What was told is told again for a second.
async fn busy_metrics(client: &Client, receiver: &Receiver) -> String {
    let destination = deliver_to(client, &receiver.url("/hook")).await;
    receiver.script("/hook", Script::InTurn(vec![Reply::ok(), Reply::status(400)]));
    for _ in 0..2 {
        let accepted = client.publish(&Publish::json("some.thing", "{}").unwrap()).await.unwrap();
        ended(client, accepted.id).await;
    }
    let until = Instant::now() + LONG;
    loop {
        let text = metrics(client).await;
        if text.contains("posthaste_dead_letters_total{reason=\"rejected\"} 1\n") {
            assert!(text.contains(&destination.id.to_string()), "{text}");
            return text;
        }
        assert!(Instant::now() < until, "{text}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn metrics_have_every_name_that_was_promised_with_help_and_type() {
    let place = Place::new();
    let node = place.dev().await;
    let receiver = Receiver::local(Script::ok());
    let text = busy_metrics(&node.client(), &receiver).await;
    for name in PROMISED {
        for line in [format!("# HELP {name} "), format!("# TYPE {name} "), format!("\n{name}")] {
            assert!(text.contains(&line), "{line:?} is missing in {text}");
        }
    }
    for line in [
        "posthaste_events_ingested_total 2\n",
        "posthaste_delivery_attempts_total{outcome=\"success\"} 1\n",
        "posthaste_delivery_attempts_total{outcome=\"rejected\"} 1\n",
        "posthaste_delivery_latency_seconds_count 1\n",
        "posthaste_attempt_duration_seconds_count 2\n",
        "posthaste_queue_depth 0\n",
        "posthaste_queue_oldest_seconds 0\n",
        "destination_name=\"test\",max_concurrency=\"5\"} 0\n",
        "destination_name=\"test\"} 0.5\n",
    ] {
        assert!(text.contains(line), "{line:?} is missing in {text}");
    }
}

#[tokio::test]
async fn a_fan_out_that_failed_in_part_is_seen() {
    let place = Place::new();
    let node = place.dev().await;
    let receiver = Receiver::local(Script::ok());
    receiver.script("/bad", Reply::status(400));
    let client = node.client();
    deliver_to(&client, &receiver.url("/good")).await;
    deliver_to(&client, &receiver.url("/bad")).await;
    let accepted = client.publish(&Publish::json("some.thing", "{}").unwrap()).await.unwrap();
    ended(&client, accepted.id).await;
    let text = metrics(&client).await;
    assert!(text.contains("\nposthaste_fanout_completion_ratio 1\n"), "{text}");
    assert!(text.contains("\nposthaste_fanout_partial_failure_ratio 1\n"), "{text}");
    assert!(!text.contains("\nposthaste_fanout_lag_seconds 0\n"), "{text}");
}

#[tokio::test]
async fn what_dashboards_and_alerts_speak_of_is_there() {
    let place = Place::new();
    let node = place.dev().await;
    let receiver = Receiver::local(Script::ok());
    let text = busy_metrics(&node.client(), &receiver).await;
    let told: BTreeSet<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let deploy = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy"));
    for file in ["grafana/posthaste.json", "prometheus/alerts.yml"] {
        let spoken = fs::read_to_string(deploy.join(file)).unwrap();
        if file.ends_with(".json") {
            serde_json::from_str::<serde_json::Value>(&spoken).expect("a dashboard is JSON");
        }
        let names = spoken.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let names: BTreeSet<&str> = names.filter(|word| word.starts_with("posthaste_")).collect();
        assert!(names.len() >= 10, "{file} speaks of little: {names:?}");
        assert!(names.contains("posthaste_destination_held"), "{file} does not tell who is held");
        for name in names {
            let whole = ["_bucket", "_sum", "_count"].iter().find_map(|part| name.strip_suffix(part));
            let known = told.contains(name) || whole.is_some_and(|whole| told.contains(whole));
            assert!(known, "{file} speaks of {name}, which is not told");
        }
    }
}

struct Keys {
    master: String,
    api: String,
    operator: String,
}

impl Keys {
    async fn of(place: &Place) -> Self {
        Self {
            master: place.line(&["keys", "master"]).await,
            api: place.line(&["keys", "generate"]).await,
            operator: place.line(&["keys", "generate", "--kind", "operator"]).await,
        }
    }

    async fn serve(&self, place: &Place, arguments: &[&str]) -> Node {
        let mut command = place.command(&["serve", "--listen", "127.0.0.1:0"]);
        command
            .args(["--egress-allow", "127.0.0.0/8", "--egress-allow-http", "true"])
            .args(arguments)
            .env("POSTHASTE_MASTER_KEYS", &self.master)
            .env("POSTHASTE_BOOTSTRAP_API_KEY", &self.api)
            .env("POSTHASTE_BOOTSTRAP_OPERATOR_KEY", &self.operator);
        Node::start(command).await
    }
}

#[tokio::test]
async fn destinations_are_named_to_operators_only() {
    let place = Place::new();
    let keys = Keys::of(&place).await;
    let node = keys.serve(&place, &[]).await;
    let receiver = Receiver::local(Script::ok());
    let client = Client::new(&node.url, &keys.api).unwrap();
    let destination = deliver_to(&client, &receiver.url("/hook")).await.id.to_string();
    let accepted = client.publish(&Publish::json("some.thing", "{}").unwrap()).await.unwrap();
    ended(&client, accepted.id).await;

    let everybody = metrics(&Client::without_key(&node.url).unwrap()).await;
    assert!(
        everybody.contains("posthaste_delivery_inflight_per_destination{destination_id=\"other\""),
        "{everybody}"
    );
    assert!(!everybody.contains("dst_"), "{everybody}");
    let operator = metrics(&client.with_key(&keys.operator).unwrap()).await;
    assert!(operator.contains(&destination), "{operator}");
    let refused = client.raw("/metrics").await.unwrap_err();
    assert!(
        matches!(&refused, client::Error::Refused { problem, .. } if problem.status == 403),
        "{refused:?}"
    );
}

#[tokio::test]
async fn with_an_admin_address_the_other_one_knows_no_operators_and_tells_nothing() {
    let place = Place::new();
    let keys = Keys::of(&place).await;
    let admin = {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap().to_string()
    };
    let node = keys.serve(&place, &["--admin-listen", &admin]).await;
    let admin = format!("http://{admin}");
    let status = |result: Result<_, client::Error>| match result {
        Ok(_) => 200,
        Err(client::Error::Refused { problem, .. }) => problem.status,
        Err(other) => panic!("{other:?}"),
    };
    let nobody = Client::without_key(&node.url).unwrap();
    assert_eq!(status(nobody.raw("/metrics").await.map(drop)), 404);
    assert!(metrics(&Client::without_key(&admin).unwrap()).await.contains("posthaste_build_info"));
    let operator = |url: &str| Client::new(url, &keys.operator).unwrap();
    assert_eq!(status(operator(&node.url).accounts(None).await.map(drop)), 401);
    assert_eq!(status(operator(&admin).accounts(None).await.map(drop)), 200);
    assert_eq!(status(Client::new(&node.url, &keys.api).unwrap().own_account().await.map(drop)), 200);
}

#[tokio::test]
async fn every_attempt_has_its_line_and_no_line_has_a_secret() {
    let place = Place::new();
    let path = place.path().join("log");
    let mut command = place.command(&["serve", "--dev", "--listen", "127.0.0.1:0"]);
    command.env("POSTHASTE_LOG", "trace").stderr(File::create(&path).unwrap());
    let mut node = Node::start(command).await;
    let receiver = Receiver::local(Script::ok());
    let client = node.client();
    let mut destination = NewDestination::new("test", &receiver.url("/hook?token=canary-url"));
    destination.headers = [("x-canary".to_owned(), "canary-header".to_owned())].into();
    let destination = client.create_destination(&destination).await.unwrap();
    client.create_route(&NewRoute::to(destination.id)).await.unwrap();
    receiver.script("/hook", Script::InTurn(vec![Reply::status(400).body("canary-answer"), Reply::ok()]));
    let publish = || Publish::json("some.thing", "{\"secret\":\"canary-payload\"}").unwrap();
    let first = client.publish(&publish()).await.unwrap();
    let deliveries = ended(&client, first.id).await;
    let second = client.publish(&publish()).await.unwrap();
    ended(&client, second.id).await;
    let secret = client.raw(&format!("/v1/destinations/{}/secret", destination.id)).await.unwrap();
    let secret: serde_json::Value = serde_json::from_slice(&secret).unwrap();
    let key = node.key();
    let encoded = key.replace('_', "%5F");
    for path in
        [format!("/v1/events/{key}"), format!("/v1/events/{encoded}"), format!("/v1/events?key={encoded}")]
    {
        let refused = client.raw(&path).await.expect_err("a key in the URL");
        assert!(refused.to_string().contains("credential_in_url"), "{refused}");
    }
    assert!(node.signal("TERM").await.success());

    let log = fs::read_to_string(&path).unwrap();
    let lines: Vec<serde_json::Value> =
        log.lines().map(|line| serde_json::from_str(line).expect("every line is JSON")).collect();
    let of = |event: String| lines.iter().filter(move |line| line["event_id"] == event.as_str());
    let attempted: Vec<_> =
        of(first.id.to_string()).filter(|line| line["message"] == "delivery.attempted").collect();
    assert_eq!(attempted.len(), 1, "{log}");
    let line = attempted[0];
    assert_eq!(line["level"], "INFO");
    assert_eq!(line["delivery_id"], deliveries[0].id.to_string());
    assert_eq!(line["destination_id"], destination.id.to_string());
    assert_eq!((&line["attempt"], &line["outcome"]), (&1.into(), &"rejected".into()));
    assert_eq!((&line["http_status"], &line["ending"]), (&400.into(), &"dead_letter".into()));
    assert_eq!(line["reason"], "rejected");
    assert!(line["duration_us"].as_u64().is_some_and(|took| took > 0), "{line}");
    let answered = lines.iter().filter(|line| line["message"] == "request.answered");
    assert!(answered.clone().count() > 3);
    assert!(
        answered.clone().all(|line| line["request_id"].as_str().is_some_and(|id| id.starts_with("req_")))
    );
    let hidden = ["canary", &key[20..], secret["secret"].as_str().expect("the secret is shown")];
    for (n, line) in log.lines().enumerate() {
        for word in hidden {
            assert!(!line.contains(word), "line {n} has {word:?}: {line}");
        }
    }
}

const GIVEN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const TRACE: [u8; 16] = 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736_u128.to_be_bytes();

#[tokio::test]
async fn a_trace_goes_on_through_us_and_its_spans_reach_the_collector() {
    let place = Place::new();
    let collector = Receiver::local(Script::ok());
    collector.recording(Recording::FullWithBodies);
    let mut command = place.command(&["serve", "--dev", "--listen", "127.0.0.1:0"]);
    command
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url(""))
        .env("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=blue%20team")
        .env("OTEL_SERVICE_NAME", "hooks");
    let mut node = Node::start(command).await;
    let receiver = Receiver::local(Script::InTurn(vec![Reply::status(400), Reply::ok()]));
    receiver.recording(Recording::FullWithBodies);
    let client = node.client();
    let destination =
        client.create_destination(&NewDestination::new("test", &receiver.url("/hook"))).await.unwrap();
    let source = client.create_source(&NewSource::new("in")).await.unwrap();
    client.create_route(&NewRoute::from_source(source.id, destination.id)).await.unwrap();
    client.create_route(&NewRoute::to(destination.id)).await.unwrap();
    let header = ("traceparent".to_owned(), GIVEN.to_owned());
    let traced = OperatorClient::new(source.ingest_url.as_deref().unwrap(), &[header]).unwrap();
    assert_eq!(traced.post(b"{}".to_vec()).await.unwrap(), 202);
    assert!(receiver.wait_for_ended(1, LONG).await);
    let untraced = client.publish(&Publish::json("some.thing", "{}").unwrap()).await.unwrap();
    ended(&client, untraced.id).await;
    assert!(node.signal("TERM").await.success(), "it sends what is left");

    let sent: Vec<String> = receiver.snapshot().iter().map(traceparent).collect();
    assert!(
        sent[0].starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-") && sent[0].ends_with("-01"),
        "{sent:?}"
    );
    assert_ne!(sent[0], GIVEN, "a span of its own");
    let own = untraced.id.uuid().simple().to_string();
    assert!(sent[1].starts_with(&format!("00-{own}-")), "{sent:?} does not begin with {own}");

    let (resource, spans) = exported(&collector);
    assert_eq!(value(&resource, "service.name"), Some("hooks".into()));
    let named = |name: &str, trace: &[u8]| {
        let found: Vec<&Span> =
            spans.iter().filter(|span| span.name == name && span.trace_id == trace).collect();
        assert_eq!(found.len(), 1, "{name}: {spans:?}");
        found[0]
    };
    let (ingest, attempt) = (named("posthaste.ingest", &TRACE), named("posthaste.attempt", &TRACE));
    assert_eq!(ingest.parent_span_id, 0x00f0_67aa_0ba9_02b7_u64.to_be_bytes());
    assert_eq!(attempt.parent_span_id, ingest.span_id);
    assert_eq!((ingest.kind, attempt.kind), (SpanKind::Server as i32, SpanKind::Client as i32));
    let told = sent[0].split('-').nth(2).unwrap();
    assert_eq!(u64::from_str_radix(told, 16).unwrap().to_be_bytes(), attempt.span_id[..]);
    assert!(attempt.end_time_unix_nano > attempt.start_time_unix_nano);
    assert_eq!(attempt.status.as_ref().map(|status| status.code), Some(StatusCode::Error as i32));
    assert_eq!(value(&attempt.attributes, "posthaste.outcome"), Some("rejected".into()));
    assert_eq!(value(&attempt.attributes, "http.response.status_code"), Some("400".into()));
    let second = named("posthaste.attempt", untraced.id.uuid().as_bytes());
    assert_eq!(second.status, None);
    assert_eq!(value(&second.attributes, "posthaste.event_id"), Some(untraced.id.to_string()));
}

#[tokio::test]
async fn a_collector_that_hangs_holds_up_nothing() {
    let place = Place::new();
    let collector = Receiver::local(Script::Always(Reply::Hang));
    let mut command = place.command(&["serve", "--dev", "--listen", "127.0.0.1:0"]);
    command.env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", collector.url("/v1/traces"));
    let mut node = Node::start(command).await;
    let receiver = Receiver::local(Script::ok());
    let client = node.client();
    deliver_to(&client, &receiver.url("/hook")).await;
    let accepted = client.publish(&Publish::json("some.thing", "{}").unwrap()).await.unwrap();
    ended(&client, accepted.id).await;
    assert!(collector.wait_for(1, LONG).await, "it was asked");
    let began = Instant::now();
    assert!(node.signal("TERM").await.success());
    assert!(began.elapsed() < Duration::from_secs(10), "the stop took {:?}", began.elapsed());
}

fn traceparent(record: &lab::Record) -> String {
    let kept = record.kept.as_ref().expect("bodies and headers are kept");
    kept.headers.get("traceparent").expect("every request has one").to_str().unwrap().to_owned()
}

/// The resource, and all spans of all requests to the collector.
fn exported(collector: &Receiver) -> (Vec<KeyValue>, Vec<Span>) {
    let (mut resource, mut spans) = (Vec::new(), Vec::new());
    for record in collector.snapshot() {
        let kept = record.kept.as_ref().expect("bodies are kept");
        assert_eq!((kept.method.as_str(), kept.path.as_str()), ("POST", "/v1/traces"));
        assert_eq!(kept.headers["content-type"], "application/x-protobuf");
        assert_eq!(kept.headers["x-tenant"], "blue team");
        let request = ExportTraceServiceRequest::decode(kept.body.clone()).expect("a well-formed request");
        for of_resource in request.resource_spans {
            resource = of_resource.resource.expect("a resource").attributes;
            spans.extend(of_resource.scope_spans.into_iter().flat_map(|scope| scope.spans));
        }
    }
    (resource, spans)
}

fn value(attributes: &[KeyValue], name: &str) -> Option<String> {
    let found = attributes.iter().find(|pair| pair.key == name)?;
    match found.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text.clone()),
        Value::IntValue(number) => Some(number.to_string()),
        other => panic!("{other:?}"),
    }
}

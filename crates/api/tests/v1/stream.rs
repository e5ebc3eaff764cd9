//! The live stream: what happens is told as it happens, to the clients it concerns, and again to those that come back.

use crate::{
    on_every_store,
    world::{World, text},
};
use axum::body::Body;
use domain::{account::Scope, limits, outcome::Outcome};
use http::{Method, Request, header};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::{collections::BTreeSet, net::SocketAddr, time::Duration};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

/// Not the events themselves.
const CHANGES: &str = "?kind=delivery.changed&kind=destination.changed";
const PATIENCE: Duration = Duration::from_secs(20);

on_every_store! {
    async fn a_delivery_is_told_as_it_changes(world) {
        let served = Served::new(&world).await;
        let mut client = served.follow(&world.key, CHANGES, None).await;
        let (destination, route) = world.routed_destination().await;
        let event = world.publish("invoice.paid", json!({})).await;
        let delivery = world.delivery_of(&event).await;

        world.attempt(&destination, &delivery, Outcome::ServerError, 503).await;
        let told = client.next().await;
        assert_eq!(told.name, "delivery.changed");
        assert_eq!(told.data["id"], json!(delivery));
        assert_eq!((&told.data["event_id"], &told.data["event_type"]), (&json!(event), &json!("invoice.paid")));
        assert_eq!((&told.data["route_id"], &told.data["destination_id"]), (&json!(route), &json!(destination)));
        assert_eq!((&told.data["status"], &told.data["last_http_status"]), (&json!("retry_scheduled"), &json!(503)));
        assert_eq!(told.data["attempt"]["number"], 1);
        assert_eq!(told.data["attempt"]["outcome"], "server_error");
        assert!(told.data["next_attempt_at"].is_string(), "{}", told.data);

        world.tell(&format!("/v1/deliveries/{delivery}/cancel")).await.expect(200);
        let told = client.next().await;
        assert_eq!((&told.data["status"], &told.data["reason"]), (&json!("cancelled"), &json!("requested")));
        assert_eq!((&told.data["attempt"], &told.data["next_attempt_at"]), (&Value::Null, &Value::Null));
        assert!(told.data.get("payload").is_none());
    }

    async fn an_event_is_told_when_it_is_received(world) {
        let served = Served::new(&world).await;
        let (destination, _) = world.routed_destination().await;
        let mut all = served.follow(&world.key, "", None).await;
        let mut by_type = served.follow(&world.key, "?kind=event.received&type=order.**", None).await;
        let mut by_destination = served.follow(&world.key, &format!("?destination_id={destination}"), None).await;
        let narrow = world.key_with(&[Scope::DeliveriesRead]).await;
        let mut without_scope = served.follow(&narrow, "", None).await;

        let event = world.publish("invoice.paid", json!({ "n": 1 })).await;
        let told = all.next().await;
        assert_eq!(told.name, "event.received");
        let mut shown = world.get(&format!("/v1/events/{event}")).await.expect(200);
        for detail in ["headers", "payload", "deliveries"] {
            shown.as_object_mut().expect("an object").remove(detail);
        }
        assert_eq!(told.data, shown, "the event without what it carries");
        let delivery = world.delivery_of(&event).await;
        world.attempt(&destination, &delivery, Outcome::Success, 200).await;
        for client in [&mut all, &mut by_destination, &mut without_scope] {
            assert_eq!(client.next().await.data["id"], json!(delivery));
        }

        // A client that comes back has missed no event either.
        drop(all);
        let missed = world.publish("order.shipped", json!({})).await;
        let mut resumed = served.follow(&world.key, "", Some(&told.id)).await;
        let heard = BTreeSet::from([text(&resumed.next().await.data["id"]), text(&resumed.next().await.data["id"])]);
        assert_eq!(heard, BTreeSet::from([delivery, missed.clone()]));
        assert_eq!(by_type.next().await.data["id"], json!(missed));
    }

    async fn a_destination_is_told_of_when_a_hold_begins_and_when_it_ends(world) {
        let served = Served::new(&world).await;
        let (destination, _) = world.routed_destination().await;
        let mut client = served.follow(&world.key, "?kind=destination.changed", None).await;
        for (action, reason, status) in
            [("pause", "paused", "paused"), ("resume", "paused", "active"), ("disable", "disabled", "disabled")]
        {
            world.tell(&format!("/v1/destinations/{destination}/{action}")).await.expect(200);
            let told = client.next().await;
            assert_eq!(told.name, "destination.changed");
            let shown = world.get(&format!("/v1/destinations/{destination}")).await.expect(200);
            for field in ["id", "status", "hold", "throttled_until", "throttle_reason"] {
                assert_eq!(told.data[field], shown[field], "{action}: {field}");
            }
            assert_eq!(told.data["status"], status, "{action}");
            let change = &told.data["change"];
            assert_eq!(change["reason"], reason, "{action}");
            assert_eq!(change["ended_at"].is_string(), status == "active", "{action}: {change}");
        }
    }

    async fn a_client_that_comes_back_has_missed_nothing(world) {
        let served = Served::new(&world).await;
        let (destination, _) = world.routed_destination().await;
        let mut client = served.follow(&world.key, CHANGES, None).await;
        let first = world.delivered(&destination).await;
        let told = client.next().await;
        assert_eq!(told.data["id"], json!(first));
        drop(client);

        let mut missed = BTreeSet::new();
        for _ in 0..5 {
            missed.insert(world.delivered(&destination).await);
        }
        world.tell(&format!("/v1/destinations/{destination}/pause")).await.expect(200);
        let mut client = served.follow(&world.key, CHANGES, Some(&told.id)).await;
        let mut holds = 0;
        for _ in 0..6 {
            let told = client.next().await;
            match told.name.as_str() {
                "destination.changed" => holds += 1,
                _ => assert!(missed.remove(&text(&told.data["id"])), "{} once", told.data),
            }
        }
        assert_eq!((holds, missed.len()), (1, 0));
        let last = world.delivered(&destination).await;
        let told = client.next().await;
        assert_eq!(told.data["id"], json!(last), "and then what happens now");

        // The same by a parameter; a header is the later word.
        let by_parameter = format!("{CHANGES}&last_event_id={}", told.id);
        let mut client = served.follow(&world.key, &by_parameter, None).await;
        let next = world.delivered(&destination).await;
        assert_eq!(client.next().await.data["id"], json!(next));
    }

    async fn a_client_that_is_cut_before_its_first_event_has_missed_nothing(world) {
        let served = Served::new(&world).await;
        let (destination, _) = world.routed_destination().await;
        let mut client = served.follow(&world.key, CHANGES, None).await;
        let place = client.first_words().await;
        drop(client);
        let missed = world.delivered(&destination).await;
        let mut client = served.follow(&world.key, CHANGES, Some(&place)).await;
        assert_eq!(client.first_words().await, place, "who comes back is where it was");
        drop(client);
        let mut client = served.follow(&world.key, CHANGES, Some(&place)).await;
        assert_eq!(client.next().await.data["id"], json!(missed));
    }

    async fn only_what_is_asked_for_is_told(world) {
        let served = Served::new(&world).await;
        let (wanted, _) = world.routed_destination().await;
        let mut by_destination = served.follow(&world.key, &format!("?destination_id={wanted}"), None).await;
        let mut by_status = served.follow(&world.key, "?status=dead_letter&status=delivered", None).await;
        let mut by_type = served.follow(&world.key, "?kind=delivery.changed&type=order.**", None).await;
        let mut by_outcome = served.follow(&world.key, "?kind=delivery.changed&outcome=rejected", None).await;
        world.tell(&format!("/v1/destinations/{wanted}/pause")).await.expect(200);

        let retried = world.delivery_of(&world.publish("invoice.paid", json!({})).await).await;
        world.attempt(&wanted, &retried, Outcome::ServerError, 503).await;
        let dead = world.delivery_of(&world.publish("order.shipped.late", json!({})).await).await;
        world.attempt(&wanted, &dead, Outcome::Rejected, 404).await;

        // What a person does comes by another way than what is delivered: between the two there is no order.
        let (mut holds, mut deliveries) = (0, Vec::new());
        for _ in 0..3 {
            let told = by_destination.next().await;
            match told.name.as_str() {
                "destination.changed" => holds += usize::from(told.data["status"] == "paused"),
                _ => deliveries.push(text(&told.data["id"])),
            }
        }
        assert_eq!((holds, deliveries), (1, vec![retried, dead.clone()]));
        for client in [&mut by_status, &mut by_type, &mut by_outcome] {
            assert_eq!(client.next().await.data["id"], json!(dead));
        }
    }

    async fn another_account_hears_nothing_of_it(world) {
        let served = Served::new(&world).await;
        let (destination, _) = world.routed_destination().await;
        let mut foreign = served.follow(&world.foreign_key, CHANGES, None).await;
        let mut ours = served.follow(&world.key, CHANGES, None).await;
        world.delivered(&destination).await;
        world.tell(&format!("/v1/destinations/{destination}/pause")).await.expect(200);
        let (one, two) = (ours.next().await, ours.next().await);
        // The id of an event leads nowhere in another account but to its own present.
        let mut stolen = served.follow(&world.foreign_key, CHANGES, Some(&one.id)).await;
        foreign.beats(3).await;
        stolen.beats(3).await;
        assert_eq!((foreign.heard + stolen.heard, two.name.as_str()), (0, "destination.changed"));
    }

    async fn a_slow_client_misses_nothing_and_holds_no_other_up(world) {
        let (destination, _) = world.routed_destination().await;
        let request = || {
            let request = Request::builder().uri(format!("/v1/stream{CHANGES}")).header(header::AUTHORIZATION, format!("Bearer {}", world.key));
            request.body(Body::empty()).expect("a request")
        };
        let (slow, quick) = (world.begin(request()).await, world.begin(request()).await);
        let mut published = 0;
        let quick = tokio::spawn(collect(quick.into_body(), 3_000));
        while published < 3_000 {
            let event = json!({ "type": "invoice.paid", "data": {} });
            let batch = json!({ "events": vec![event; 100] });
            for _ in 0..5 {
                world.post("/v1/events/batch", batch.clone()).await.expect(202);
            }
            published += world.deliver_all(&destination).await;
        }
        // Nothing has been read from the slow one yet: what is buffered for it has a bound, so it has to catch up.
        let all = timeout(PATIENCE, quick).await.expect("it is not held up").expect("it reads on");
        let caught_up = timeout(PATIENCE, collect(slow.into_body(), 3_000)).await.expect("it catches up");
        assert_eq!((all.len(), caught_up), (3_000, all));
    }

    async fn there_are_so_many_seats(world) {
        let ask = || {
            let request = Request::builder().uri("/v1/stream").header(header::AUTHORIZATION, format!("Bearer {}", world.key));
            world.begin(request.body(Body::empty()).expect("a request"))
        };
        let mut open = Vec::new();
        for _ in 0..limits::STREAM_CLIENTS_PER_ACCOUNT {
            open.push(ask().await);
        }
        let refused = ask().await;
        assert_eq!(refused.status(), 429);
        assert_eq!(refused.headers()["retry-after"], "10");
        drop(open.pop());
        // A seat is free as soon as its task has noticed.
        while ask().await.status() == 429 {
            tokio::task::yield_now().await;
        }
    }

    async fn a_key_that_is_revoked_ends_its_streams(world) {
        let served = Served::new(&world).await;
        let made = world.post("/v1/api-keys", json!({ "name": "live", "scopes": ["deliveries:read"] })).await.expect(201);
        let mut client = served.follow(made["key"].as_str().unwrap(), "", None).await;
        world.delete(&format!("/v1/api-keys/{}", text(&made["id"]))).await.expect(204);
        assert!(client.rest().await.contains("not valid any more"));
    }

    async fn a_node_that_stops_ends_its_streams(world) {
        let served = Served::new(&world).await;
        let mut client = served.follow(&world.key, CHANGES, None).await;
        served.stop.cancel();
        assert!(client.rest().await.contains("stopping"));
        timeout(PATIENCE, served.serving).await.expect("no client is waited for").expect("it ends");
    }

    async fn what_cannot_be_followed_is_refused(world) {
        world.get("/v1/stream?colour=red").await.expect_invalid("/colour", "unknown_parameter");
        world.get("/v1/stream?destination_id=no%20uid").await.expect_invalid("/destination_id/0", "invalid_value");
        for (name, value) in [("destination_id", "evt_01"), ("source_id", "nobody"), ("route_id", "nobody")] {
            let refused = world.get(&format!("/v1/stream?{name}={value}")).await;
            refused.expect_invalid(&format!("/{name}/0"), "not_found");
        }
        world.get("/v1/stream?status=lost").await.expect_invalid("/status/0", "unknown_value");
        for never in ["queued", "delivering"] {
            let filter = format!("/v1/stream?status=delivered&status={never}");
            world.get(&filter).await.expect_invalid("/status/1", "not_allowed");
        }
        world.get("/v1/stream?kind=hold").await.expect_invalid("/kind/0", "unknown_value");
        for id in ["yesterday", "1_yesterday", "_", "1_n-1-2-3"] {
            let path = format!("/v1/stream?last_event_id={id}");
            world.get(&path).await.expect_problem(400, "invalid_cursor");
        }
        let key = world.key_with(&[Scope::EventsRead]).await;
        world.ask_as(&key, Method::GET, "/v1/stream", None).await.expect_problem(403, "scope_missing");
        let key = world.key_with(&[Scope::DeliveriesRead]).await;
        world.ask_as(&key, Method::GET, "/v1/stream?kind=destination.changed", None).await.expect_problem(403, "scope_missing");
        world.ask_as(&key, Method::GET, "/v1/stream?kind=event.received", None).await.expect_problem(403, "scope_missing");
        world.ask_as(&world.operator_key, Method::GET, "/v1/stream", None).await.expect_problem(400, "invalid_header");
    }

    async fn an_id_that_leads_nowhere_any_more_is_a_reset(world) {
        let served = Served::new(&world).await;
        let (destination, _) = world.routed_destination().await;
        let mut client = served.follow(&world.key, CHANGES, Some("1_n-5f5e100-7fffffffffff-0-0")).await;
        let told = client.next().await;
        assert_eq!((told.name.as_str(), &told.data["reason"]), ("reset", &json!("lost")));
        let delivery = world.delivered(&destination).await;
        assert_eq!(client.next().await.data["id"], json!(delivery), "it goes on from now");

        let mut client = served.follow(&world.key, CHANGES, Some("1_n-5f5e100-0-0-0")).await;
        assert_eq!(client.next().await.data["reason"], "pruned");
        assert_eq!(client.next().await.data["id"], json!(delivery), "what is kept is told");
    }
}

impl World {
    /// Publishes an event and delivers it; gives the delivery's id.
    async fn delivered(&self, destination: &str) -> String {
        let event = self.publish("invoice.paid", json!({})).await;
        let delivery = self.delivery_of(&event).await;
        self.attempt(destination, &delivery, Outcome::Success, 200).await;
        delivery
    }
}

/// The ids of so many deliveries that were told.
async fn collect(mut body: Body, wanted: usize) -> BTreeSet<String> {
    let (mut told, mut rest) = (BTreeSet::new(), String::new());
    while told.len() < wanted {
        let frame = body.frame().await.expect("it goes on").expect("a frame");
        rest.push_str(std::str::from_utf8(frame.data_ref().expect("data")).expect("text"));
        while let Some((line, after)) = rest.split_once('\n') {
            if let Some(data) = line.strip_prefix("data: ") {
                let data: Value = serde_json::from_str(data).expect("JSON");
                told.insert(text(&data["id"]));
            }
            rest = after.to_owned();
        }
    }
    told
}

/// The API behind a real socket.
pub(crate) struct Served {
    address: SocketAddr,
    stop: CancellationToken,
    serving: JoinHandle<()>,
}

impl Served {
    pub(crate) async fn new(world: &World) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let stop = CancellationToken::new();
        let serving = tokio::spawn(api::serve(listener, world.service.clone(), stop.clone(), PATIENCE * 2));
        Self { address, stop, serving }
    }

    pub(crate) async fn follow(&self, key: &str, query: &str, last: Option<&str>) -> Client {
        Client::open(self.address, key, query, last).await
    }
}

/// Server-sent events as a client reads them.
pub(crate) struct Client {
    lines: BufReader<TcpStream>,
    heard: usize,
}

pub(crate) struct Told {
    id: String,
    name: String,
    pub(crate) data: Value,
}

impl Client {
    #[expect(clippy::disallowed_methods, reason = "the client of these tests")]
    async fn open(address: SocketAddr, key: &str, query: &str, last: Option<&str>) -> Self {
        let mut stream = TcpStream::connect(address).await.expect("a connection");
        let last = last.map(|id| format!("last-event-id: {id}\r\n")).unwrap_or_default();
        let head = format!(
            "GET /v1/stream{query} HTTP/1.1\r\nhost: h\r\naccept: text/event-stream\r\n\
             authorization: Bearer {key}\r\n{last}\r\n"
        );
        stream.write_all(head.as_bytes()).await.expect("a request");
        let mut client = Self { lines: BufReader::new(stream), heard: 0 };
        assert_eq!(client.line().await, "HTTP/1.1 200 OK");
        let mut events = false;
        loop {
            let line = client.line().await;
            events |= line == "content-type: text/event-stream";
            if line.is_empty() {
                break;
            }
        }
        assert!(events, "it is no stream");
        client
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        let read = timeout(PATIENCE, self.lines.read_line(&mut line)).await.expect("something in time");
        assert!(read.expect("a line") > 0, "the stream has ended");
        line.trim_end().to_owned()
    }

    pub(crate) async fn next(&mut self) -> Told {
        let mut told = Told { id: String::new(), name: String::new(), data: Value::Null };
        loop {
            let line = self.line().await;
            if let Some(id) = line.strip_prefix("id: ") {
                told.id = id.into();
            } else if let Some(name) = line.strip_prefix("event: ") {
                told.name = name.into();
            } else if let Some(data) = line.strip_prefix("data: ") {
                told.data = serde_json::from_str(data).expect("JSON");
                self.heard += 1;
                return told;
            }
        }
    }

    /// What is said at once, before any event and any sign of life: gives the place in it.
    async fn first_words(&mut self) -> String {
        while self.line().await != "retry: 2000" {}
        let line = self.line().await;
        line.strip_prefix("id: ").unwrap_or_else(|| panic!("no place: {line:?}")).to_owned()
    }

    /// Waits for so many signs of life.
    async fn beats(&mut self, mut count: usize) {
        while count > 0 {
            let line = self.line().await;
            count -= usize::from(line == ": still here");
            self.heard += usize::from(line.starts_with("data: "));
        }
    }

    /// What is said until the stream is over.
    async fn rest(&mut self) -> String {
        let mut rest = String::new();
        loop {
            match self.line().await.as_str() {
                // The last chunk: the answer is complete.
                "0" => return rest,
                line => rest.push_str(line),
            }
        }
    }
}

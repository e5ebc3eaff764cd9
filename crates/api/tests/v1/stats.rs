//! Statistics: what was summed up, and what has happened since.

use crate::{
    on_every_store,
    world::{World, text},
};
use domain::{
    account::Scope,
    delivery::Ending,
    id::{DestinationId, NodeId},
    limits,
    outcome::Outcome,
    rollup::{BacklogSample, FanoutSums, LaneSums, Span, Sums},
    testing,
    time::{Clock as _, Timestamp},
};
use http::Method;
use serde_json::{Value, json};
use std::time::Duration;
use store::{Chore, Committed, LaneRollup, NewEvent, PreparedEvent, Rollup, RollupKind, RollupMark};

/// Sums of so many successes, a quarter of a second each.
fn successes(count: u64) -> Sums {
    let mut sums = Sums::default();
    sums.note_attempts(Outcome::Success, Some(200), Duration::from_millis(250), count);
    sums.note_endings(Ending::Delivered, count);
    sums
}

impl World {
    /// As the chore writes it.
    async fn summed_up(&self, destination: Option<&str>, kind: RollupKind, starts_at: Timestamp, doc: Value) {
        let destination_id: Option<DestinationId> = destination.map(|id| id.parse().expect("an id"));
        let term = self.store.take_chore(Chore::RollUp, self.node, self.clock.now(), limits::LEASE).await;
        let term = term.expect("no trouble").expect("nobody else has it");
        let (account_id, doc) = (self.account, doc.to_string());
        let row = Rollup { account_id, destination_id, kind, starts_at, doc };
        assert!(self.store.write_rollups(term, &[row]).await.expect("written"));
    }

    async fn closed(&self, mark: RollupMark, until: Timestamp) {
        let term = self.store.take_chore(Chore::RollUp, self.node, self.clock.now(), limits::LEASE).await;
        let term = term.expect("no trouble").expect("nobody else has it");
        assert!(self.store.write_mark(term, mark, until).await.expect("written"));
    }

    /// As an owner of lanes notes it.
    async fn noted(&self, node: u128, destination: Option<&str>, starts_at: Timestamp, sums: &LaneSums) {
        let destination_id: Option<DestinationId> = destination.map(|id| id.parse().expect("an id"));
        let row = LaneRollup { account_id: self.account, destination_id, starts_at, doc: sums.doc() };
        self.store.write_lane_minutes(NodeId::at(starts_at, node), &[row]).await.expect("written");
    }

    async fn points(&self, path: &str) -> Vec<Value> {
        let series = self.get(path).await.expect(200);
        series["points"].as_array().expect("points").clone()
    }

    /// Of another kind than any route wants.
    async fn many_events(&self, count: usize, at: Timestamp) {
        let account_version = self.store.account(self.account).await.expect("the account").version;
        let new = |n: usize| NewEvent {
            event: PreparedEvent::new(testing::event(self.account, at, n as u128)),
            account_version,
            deliveries: Vec::new(),
            other_routes: Vec::new(),
            expands: false,
            key: None,
        };
        let batch: Vec<NewEvent> = (0..count).map(new).collect();
        for few in batch.chunks(500) {
            let committed = self.store.commit(few, at).await.expect("committed");
            assert!(committed.iter().all(|committed| *committed == Committed::New));
        }
    }

    async fn ended(&self, destination: &str, outcome: Outcome, status: u16) {
        let event = self.publish("a.b", json!(1)).await;
        let delivery = self.delivery_of(&event).await;
        self.attempt(destination, &delivery, outcome, status).await;
    }
}

on_every_store! {
    async fn what_has_just_happened_is_counted(world) {
        let (destination, _) = world.routed_destination().await;
        world.ended(&destination, Outcome::Success, 200).await;
        world.ended(&destination, Outcome::Rejected, 404).await;
        world.ended(&destination, Outcome::ServerError, 503).await;
        world.publish("a.b", json!(2)).await;

        let stats = world.get("/v1/stats").await.expect(200);
        let totals = json!({
            "events": 4, "deliveries": 4, "delivered": 1, "dead_letter": 1, "cancelled": 0, "waiting": 2,
            "waiting_max": limits::BACKLOG_ROWS, "attempts": 3
        });
        let mut told = stats["totals"].clone();
        let due = told.as_object_mut().unwrap().remove("oldest_due_at").expect("it is told");
        assert!(text(&due).parse::<Timestamp>().unwrap() <= world.clock.now(), "{due}");
        assert_eq!(told, totals);
        let status = |status, count| json!({ "status": status, "count": count });
        let expected = [status("queued", 2), status("delivered", 1), status("dead_letter", 1), status("cancelled", 0)];
        assert_eq!(stats["by_status"], json!(expected));
        let today = world.clock.now().to_string()[..10].to_owned();
        let day = json!({ "date": today, "events": 4, "delivered": 1, "dead_letter": 1, "attempts": 3 });
        assert_eq!(stats["daily"], json!([day]));
        assert_eq!(stats["as_of"], stats["until"]);

        let path = format!("/v1/destinations/{destination}/stats");
        let of_destination = world.get(&path).await.expect(200);
        assert_eq!(of_destination["attempts"], 3);
        assert_eq!(of_destination["outcomes"], json!({ "success": 1, "rejected": 1, "server_error": 1 }));
        assert_eq!(of_destination["http_statuses"], json!({ "200": 1, "404": 1, "503": 1 }));
        let third = of_destination["success_ratio"].as_f64().unwrap();
        assert!((third - 1.0 / 3.0).abs() < 1e-9);
        let p50 = of_destination["latency_ms"]["p50"].as_u64().unwrap();
        assert!((98..=126).contains(&p50), "{p50} for 112");
        assert_eq!(of_destination["series"].as_array().map(Vec::len), Some(1));
        assert_eq!((&of_destination["series"][0]["ok"], &of_destination["series"][0]["failed"]), (&json!(1), &json!(2)));
    }

    async fn days_hours_minutes_and_the_rest_add_up(world) {
        let (destination, _) = world.routed_destination().await;
        let now = world.clock.now();
        let (today, hour, minute) = (Span::Day.start_of(now), Span::Hour.start_of(now), Span::Minute.start_of(now));
        let yesterday = today.minus(Duration::from_secs(86_400));
        for place in [None, Some(destination.as_str())] {
            let mut day = successes(1_000);
            day.events = if place.is_none() { 700 } else { 0 };
            world.summed_up(place, RollupKind::Sums(Span::Day), yesterday, json!(day)).await;
            // The same hour as part of the day must not count again.
            world.summed_up(place, RollupKind::Sums(Span::Hour), yesterday, json!(successes(5_000))).await;
            world.summed_up(place, RollupKind::Sums(Span::Hour), today, json!(successes(100))).await;
            world.summed_up(place, RollupKind::Sums(Span::Minute), today, json!(successes(6_000))).await;
            world.summed_up(place, RollupKind::Sums(Span::Minute), hour, json!(successes(10))).await;
        }
        world.closed(RollupMark::Sums(Span::Day), today).await;
        world.closed(RollupMark::Sums(Span::Hour), hour).await;
        world.closed(RollupMark::Sums(Span::Minute), minute).await;
        world.ended(&destination, Outcome::Rejected, 410).await;

        let expected = if hour == today { 1_010 } else { 1_110 };
        let stats = world.get("/v1/stats").await.expect(200);
        assert_eq!(stats["totals"]["delivered"], expected, "{stats}");
        assert_eq!(stats["totals"]["attempts"], expected + 1);
        assert_eq!(stats["totals"]["events"], 701);
        assert_eq!(stats["daily"].as_array().map(Vec::len), Some(2));
        assert_eq!(stats["daily"][0]["delivered"], 1_000);
        let since = today.to_string().replace('+', "%2B");
        let stats = world.get(&format!("/v1/stats?since={}&until={since}", yesterday)).await.expect(200);
        assert_eq!(stats["as_of"], stats["until"]);
        let path = format!("/v1/destinations/{destination}/stats?since={}", now.minus(Duration::from_secs(20 * 86_400)));
        let of_destination = world.get(&path).await.expect(200);
        assert_eq!(of_destination["attempts"], expected + 1);
        assert_eq!(of_destination["series"].as_array().map(Vec::len), Some(2), "{of_destination}");
        assert_eq!(of_destination["series"][0]["p95_ms"].as_u64().map(|p95| (220..=290).contains(&p95)), Some(true));
    }

    async fn where_more_has_happened_than_a_request_reads_the_open_minutes_are_told(world) {
        let (destination, _) = world.routed_destination().await;
        let now = world.clock.now();
        let minute = Span::Minute.start_of(now);
        let before = minute.minus(Duration::from_secs(60));
        world.closed(RollupMark::Sums(Span::Minute), before).await;
        for (place, starts_at, count) in [(None, before, 40), (None, minute, 2), (Some(destination.as_str()), minute, 3)] {
            world.summed_up(place, RollupKind::Sums(Span::Minute), starts_at, json!(successes(count))).await;
        }
        let since = before.minus(Duration::from_secs(600));
        let told = async |path: String| {
            let stats = world.get(&path).await.expect(200);
            let attempts = stats.get("attempts").or(stats["totals"].get("attempts")).cloned();
            let as_of = text(&stats["as_of"]).parse::<Timestamp>().expect("a time");
            (attempts, (stats["as_of"] != stats["until"]).then_some(as_of))
        };
        let (of_account, of_destination) =
            (format!("/v1/stats?since={since}"), format!("/v1/destinations/{destination}/stats?since={since}"));
        // A few are read here and now, whatever the open minutes say.
        let age = Duration::from_millis(1_500);
        world.closed(RollupMark::OpenAccounts, now.minus(age)).await;
        assert_eq!(told(of_account.clone()).await, (Some(json!(0)), None));
        assert_eq!(told(format!("{of_account}&until={minute}")).await, (Some(json!(40)), None));
        world.many_events(limits::STATS_TAIL, before.plus(Duration::from_secs(30))).await;
        assert_eq!(told(of_account.clone()).await, (Some(json!(42)), Some(now.minus(age))));
        // Of destinations nothing was added up, and nothing is claimed.
        assert_eq!(told(of_destination.clone()).await, (Some(json!(0)), None));
        assert_eq!(told(format!("{of_destination}&until={minute}")).await, (Some(json!(0)), Some(before)));
    }

    async fn fan_outs_are_told_from_hours_and_minutes(world) {
        let now = world.clock.now();
        let hour = Span::Hour.start_of(now);
        let earlier = hour.minus(Duration::from_secs(7_200));
        let cohort = |events, complete, partial| {
            let mut sums = FanoutSums { events, complete, partial, ..FanoutSums::default() };
            sums.lag.note(Duration::from_millis(100), complete);
            json!(sums)
        };
        let empty = world.get("/v1/stats/fanout").await.expect(200);
        assert_eq!((&empty["events"], &empty["completion_ratio"]), (&json!(0), &Value::Null));
        assert_eq!(empty["lag_ms"], json!({ "p50": null, "p95": null, "p99": null }));

        world.summed_up(None, RollupKind::Fanout(Span::Hour), earlier, cohort(100, 90, 9)).await;
        world.summed_up(None, RollupKind::Fanout(Span::Minute), earlier, cohort(100, 10, 10)).await;
        world.summed_up(None, RollupKind::Fanout(Span::Minute), hour, cohort(20, 10, 1)).await;
        world.closed(RollupMark::FanoutHour(1), hour).await;
        world.closed(RollupMark::FanoutMinute, Span::Minute.start_of(now)).await;
        let fanout = world.get("/v1/stats/fanout").await.expect(200);
        // In the first minute of an hour there is no minute of it yet.
        let (events, complete, partial) =
            if Span::Minute.start_of(now) == hour { (100, 90, 9) } else { (120, 100, 10) };
        assert_eq!((fanout["events"].as_u64(), fanout["complete"].as_u64()), (Some(events), Some(complete)));
        let ratio = |name: &str| fanout[name].as_f64().unwrap();
        assert!((ratio("completion_ratio") - complete as f64 / events as f64).abs() < 1e-9);
        assert!((ratio("partial_failure_ratio") - f64::from(partial) / complete as f64).abs() < 1e-9);
        assert!((88..=125).contains(&fanout["lag_ms"]["p95"].as_u64().unwrap()), "{fanout}");
        assert_eq!(text(&fanout["as_of"]), Span::Minute.start_of(now).to_string());
    }

    async fn a_series_tells_every_minute_up_to_now(world) {
        let (destination, _) = world.routed_destination().await;
        let now = world.clock.now();
        let minute = Span::Minute.start_of(now);
        let back = |minutes: u32| minute.minus(Span::Minute.length() * minutes);
        // Summed up for good, and just now.
        for (place, starts_at, count) in [
            (None, back(5), 50),
            (Some(destination.as_str()), back(5), 40),
            (None, back(1), 7),
            (Some(destination.as_str()), back(1), 6),
        ] {
            let mut sums = successes(count);
            sums.events = if place.is_none() { count } else { 0 };
            world.summed_up(place, RollupKind::Sums(Span::Minute), starts_at, json!(sums)).await;
        }
        world.closed(RollupMark::Sums(Span::Minute), minute).await;
        world.ended(&destination, Outcome::Success, 200).await;
        world.ended(&destination, Outcome::Rejected, 404).await;

        let path = format!("/v1/stats/series?since={}", back(10));
        let series = world.get(&path).await.expect(200);
        assert_eq!((&series["by"], &series["as_of"]), (&json!("minute"), &series["until"]));
        let points = world.points(&path).await;
        let told: Vec<_> = points
            .iter()
            .map(|point| (text(&point["at"]).to_owned(), point["events"].as_u64(), point["attempts"].as_u64()))
            .collect();
        let point = |at: Timestamp, events, attempts| (at.to_string(), Some(events), Some(attempts));
        let last = Span::Minute.start_of(world.clock.now());
        assert_eq!(told, [point(back(5), 50, 50), point(back(1), 7, 7), point(last, 2, 2)]);
        assert_eq!(points[2]["outcomes"], json!({ "success": 1, "rejected": 1 }));
        assert_eq!(points[2]["http_statuses"], json!({ "200": 1, "404": 1 }));
        let totals = &series["totals"];
        assert_eq!((&totals["events"], &totals["attempts"], &totals["delivered"]), (&json!(59), &json!(59), &json!(58)));
        assert_eq!(totals["success_ratio"], 58.0 / 59.0);
        assert!(totals["latency_ms"]["attempts"]["p50"].is_u64(), "{totals}");
        assert_eq!((&points[2]["delivered"], &points[2]["dead_letter"]), (&json!(1), &json!(1)));
        assert!(points[2]["latency_ms"]["deliveries"]["p50"].is_u64(), "{}", points[2]);
        assert!(points[0]["latency_ms"]["attempts"]["p99"].as_u64().is_some_and(|p99| (220..=290).contains(&p99)));
        assert_eq!((&points[0]["backlog"], &points[0]["in_flight"]), (&Value::Null, &json!(0.0)));

        let path = format!("/v1/destinations/{destination}/stats/series?by=minute&since={}", back(10));
        let points = world.points(&path).await;
        let told: Vec<_> = points.iter().map(|point| point["attempts"].as_u64().unwrap()).collect();
        assert_eq!(told, [40, 6, 2]);
        assert!(points[0].get("events").is_none());

        // As it is written a moment later: nothing counts twice.
        let mut open = Sums { events: 2, deliveries: 2, ..Sums::default() };
        open.note_attempts(Outcome::Success, Some(200), Duration::from_millis(112), 1);
        open.note_attempts(Outcome::Rejected, Some(404), Duration::from_millis(112), 1);
        world.summed_up(None, RollupKind::Sums(Span::Minute), last, json!(open)).await;
        let path = format!("/v1/stats/series?since={}", back(10));
        let points = world.points(&path).await;
        assert_eq!((&points[2]["attempts"], &points[2]["events"]), (&json!(2), &json!(2)));
        // Of more than a request reads, what the open minutes have is told, and how old it is.
        let added_up = world.clock.now();
        world.closed(RollupMark::OpenAccounts, added_up).await;
        world.many_events(limits::STATS_TAIL, added_up).await;
        let series = world.get(&path).await.expect(200);
        assert_eq!(series["points"][2]["events"], 2);
        assert!(text(&series["as_of"]).parse::<Timestamp>().unwrap() <= world.clock.now());
    }

    async fn a_series_tells_slots_and_backlogs_as_all_owners_saw_them(world) {
        let (destination, _) = world.routed_destination().await;
        let now = world.clock.now();
        let minute = Span::Minute.start_of(now);
        let back = |minutes: u32| minute.minus(Span::Minute.length() * minutes);
        let sums = |busy_seconds: u64, slots, denied, rows, at: Timestamp| LaneSums {
            busy_us: busy_seconds * 1_000_000,
            slots,
            denied,
            backlog: Some(BacklogSample { rows, at }),
        };
        let late = Duration::from_secs(50);
        for place in [None, Some(destination.as_str())] {
            world.noted(1, place, back(2), &sums(60, 4, 3, 90, back(2))).await;
            world.noted(2, place, back(2), &sums(30, 4, 2, 11, back(2).plus(late))).await;
            world.noted(1, place, back(1), &sums(120, 4, 0, 0, back(1))).await;
        }
        let of = |path: &str| format!("{path}?by=minute&since={}", back(5));
        let points = world.points(&of(&format!("/v1/destinations/{destination}/stats/series"))).await;
        let told = |point: &Value| {
            let member = |name: &str| point[name].clone();
            [member("in_flight"), member("max_concurrency"), member("slot_denied"), member("backlog")]
        };
        assert_eq!(told(&points[0]), [json!(1.5), json!(4), json!(5), json!(11)]);
        assert_eq!(told(&points[1]), [json!(2.0), json!(4), json!(0), json!(0)]);
        let points = world.points(&of("/v1/stats/series")).await;
        assert_eq!(told(&points[0]), [json!(1.5), json!(8), json!(5), json!(11)]);
        let series = world.get(&of("/v1/stats/series")).await.expect(200);
        assert_eq!((&series["totals"]["slot_denied"], &series["totals"]["success_ratio"]), (&json!(5), &Value::Null));

        // An hour is its minutes, until it is summed up.
        let hours = world.points("/v1/stats/series?by=hour").await;
        let denied: u64 = hours.iter().map(|point| point["slot_denied"].as_u64().unwrap()).sum();
        assert_eq!(denied, 5);
        assert_eq!(hours.last().unwrap()["backlog"], 0);
        let foreign = world.ask_as(&world.foreign_key, Method::GET, "/v1/stats/series", None).await.expect(200);
        assert_eq!(foreign["points"], json!([]));
    }

    async fn hours_and_days_of_a_series_are_those_that_are_summed_up_and_the_rest_by_minutes(world) {
        let now = world.clock.now();
        let (today, hour) = (Span::Day.start_of(now), Span::Hour.start_of(now));
        let yesterday = today.minus(Span::Day.length());
        world.summed_up(None, RollupKind::Sums(Span::Day), yesterday, json!(successes(1_000))).await;
        world.summed_up(None, RollupKind::Sums(Span::Hour), hour, json!(successes(100))).await;
        world.closed(RollupMark::Sums(Span::Day), today).await;
        world.closed(RollupMark::Sums(Span::Hour), hour).await;
        world.closed(RollupMark::Sums(Span::Minute), hour).await;
        world.summed_up(None, RollupKind::Sums(Span::Minute), Span::Minute.start_of(now), json!(successes(3))).await;
        let term = world.store.take_chore(Chore::RollUp, world.node, now, limits::LEASE).await.unwrap().unwrap();
        let lanes = LaneSums { busy_us: 86_400_000_000, slots: 5, denied: 8, backlog: None }.doc();
        let row = LaneRollup { account_id: world.account, destination_id: None, starts_at: yesterday, doc: lanes };
        assert!(world.store.write_lane_rollups(term, Span::Day, &[row]).await.unwrap());
        world.closed(RollupMark::Lanes(Span::Day), today).await;

        let days = world.points("/v1/stats/series?by=day").await;
        assert_eq!(days.len(), 2, "{days:?}");
        assert_eq!((&days[0]["delivered"], &days[1]["delivered"]), (&json!(1_000), &json!(3)));
        assert_eq!((&days[0]["in_flight"], &days[0]["slot_denied"]), (&json!(1.0), &json!(8)));
        assert_eq!(text(&days[1]["at"]), today.to_string());
        let hours = world.points(&format!("/v1/stats/series?by=hour&since={hour}")).await;
        assert_eq!((hours.len(), &hours[0]["delivered"]), (1, &json!(3)), "what is not summed up is told by minutes");
    }

    async fn a_series_of_too_much_is_refused_with_the_reason(world) {
        let destination = world.destination().await;
        let now = world.clock.now();
        for path in ["/v1/stats/series".to_owned(), format!("/v1/destinations/{destination}/stats/series")] {
            let ask = async |query: String| world.get(&format!("{path}?{query}")).await;
            let ago = |hours: u64| now.minus(Duration::from_secs(3_600 * hours));
            ask(format!("by=minute&since={}", ago(7))).await.expect_invalid("/since", "out_of_range");
            ask(format!("by=minute&since={}", ago(5))).await.expect(200);
            ask(format!("by=hour&since={}", ago(24 * 9))).await.expect_invalid("/since", "out_of_range");
            ask(format!("by=hour&since={}", ago(24 * 7))).await.expect(200);
            ask(format!("by=day&since={}", ago(24 * 1_400))).await.expect(200);
            let many = ask(format!("by=day&since={}", ago(24 * 1_600))).await;
            assert!(String::from_utf8_lossy(&many.bytes).contains("at most 1500 points"), "{many:?}");
            many.expect_invalid("/since", "out_of_range");
            ask(format!("since={}&until={}", now, ago(1))).await.expect_invalid("/since", "out_of_range");
            assert_eq!(ask("by=week".into()).await.status, 422);
            ask("limit=5".into()).await.expect_invalid("/limit", "unknown_parameter");
            let key = world.key_with(&[Scope::IngestWrite]).await;
            world.ask_as(&key, Method::GET, &path, None).await.expect_problem(403, "scope_missing");
        }
    }

    async fn one_account_counts_nothing_of_another(world) {
        let (destination, _) = world.routed_destination().await;
        world.ended(&destination, Outcome::Success, 200).await;
        let foreign = world.ask_as(&world.foreign_key, Method::GET, "/v1/stats", None).await.expect(200);
        assert_eq!(foreign["totals"]["events"], 0);
        assert_eq!(foreign["totals"]["attempts"], 0);
        assert_eq!(foreign["daily"], json!([]));
    }

    async fn what_cannot_be_asked_is_said(world) {
        let destination = world.destination().await;
        for path in ["/v1/stats".to_owned(), "/v1/stats/fanout".into(), format!("/v1/destinations/{destination}/stats")] {
            let query = "since=2026-04-03T00:00:00Z&until=2026-04-02T00:00:00Z";
            world.get(&format!("{path}?{query}")).await.expect_invalid("/since", "out_of_range");
            world.get(&format!("{path}?since=9000-01-01T00:00:00Z")).await.expect_invalid("/since", "out_of_range");
            world.get(&format!("{path}?limit=5")).await.expect_invalid("/limit", "unknown_parameter");
            let key = world.key_with(&[Scope::IngestWrite]).await;
            world.ask_as(&key, Method::GET, &path, None).await.expect_problem(403, "scope_missing");
        }
    }
}

//! Hazard: a retry too many, too few, too early or too late; or an ending with the wrong reason.
//!
//! One destination for every row of the table of outcomes that a receiver can bring about, with pauses of 1, 2 and 3
//! seconds and a jitter of a fifth, and a few with other settings: statuses made retryable, no retries, an age limit. Three
//! events (`--count`) for each of them.
//!
//! Holds if every delivery has exactly the attempts of its row, each with its outcome and status, and ends as its row says;
//! if every pause is what the schedule and the jitter, or Retry-After, allow, never shorter and at most a second longer;
//! and if 410 disables the destination, and what comes after it is neither sent nor lost.

use std::net::SocketAddr;

use client::{AuthInput, AuthKind};
use domain::destination::DisabledReason;
use domain::id::DestinationId;
use domain::retry::{RetryPolicy, RetryStatus};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::harness::prelude::*;
use crate::harness::testbed::free_addr;

const PAUSES: [f64; 3] = [1.0, 2.0, 3.0];
const JITTER: f64 = 0.2;
const ASKED_SECONDS: f64 = 3.0;
const LATE_SECONDS: f64 = 1.0;
/// An attempt's beginning and its duration are read from two clocks.
const CLOCKS_AGREE_SECONDS: f64 = 0.005;
const DRAINED_WITHIN: Duration = Duration::from_secs(40);

/// What a destination does, and what must become of its deliveries.
struct OutcomeRow {
    name: String,
    does: Behaviour,
    policy: RetryPolicy,
    outcome: &'static str,
    http_status: Option<u16>,
    attempts: std::ops::RangeInclusive<usize>,
    /// None: delivered.
    reason: Option<&'static str>,
    /// No pause is shorter.
    asked_seconds: f64,
}

enum Behaviour {
    Replies(Reply),
    /// Speaks, but not HTTP.
    Babbles,
    /// Nothing listens there.
    Refuses,
    /// Speaks HTTP where TLS is expected.
    NoTls,
    /// Nothing listens where its tokens are asked for.
    NoTokens,
    /// This is answered where its tokens are asked for.
    Tokens(u16),
}

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let mut testbed = TestbedPlan::new(options)?.start().await?;
    let (babbler, nobody) = (babble().await?, free_addr()?);
    let mut rows = Vec::new();
    for row in table() {
        let mut plan = testbed.destination(&row.name);
        plan.timeout_seconds = Some(1);
        plan.retry_policy = row.policy.clone().into();
        match &row.does {
            Behaviour::Replies(reply) => testbed.receiver.script(&row.name, reply.clone()),
            Behaviour::Babbles => plan.url = format!("http://{babbler}/"),
            Behaviour::Refuses => plan.url = format!("http://{nobody}/"),
            Behaviour::NoTls => plan.url = plan.url.replace("http:", "https:"),
            Behaviour::NoTokens => plan.auth = tokens_from(format!("http://{nobody}/")),
            Behaviour::Tokens(status) => {
                plan.auth = tokens_from(testbed.receiver.url(&format!("/d/tokens/status-{status}")));
            }
        }
        let id = testbed.add_destination(&plan, &[]).await?;
        rows.push((row, id));
    }
    testbed.receiver.script("429", throttled_for_a_while());
    let events = options.count(3);
    for _ in 0..events {
        testbed.client.publish(&Publish::json("any", "{}")?).await?;
    }
    testbed.must_drain(DRAINED_WITHIN, report).await?;
    // What comes when 410 has been said is not sent; the others see it like the rest.
    let (gone, gone_id) = rows.iter().find(|(row, _)| row.name == "410").context("410 has a row")?;
    let before = testbed.receiver.arrivals(&gone.name);
    testbed.client.publish(&Publish::json("any", "{}")?).await?;
    testbed.must_drain(DRAINED_WITHIN, report).await?;
    report.must_be("sent_after_410", testbed.receiver.arrivals(&gone.name) - before, 0);
    let id = testbed.database.literal(gone_id.bytes());
    let disabled = format!(
        "select count(*) from destinations where id = {id} and disabled_reason = '{}'",
        DisabledReason::Gone.as_str()
    );
    report.must_be("disabled_by_410", testbed.database.number(&disabled).await?, 1);

    let (mut attempts, mut widest, mut latest) = (0, 0.0f64, 0.0f64);
    for (row, id) in &rows {
        let deliveries = deliveries(&testbed, *id).await?;
        let all = deliveries.len() as u64 == events + 1;
        report.must(all, format!("{}: {} deliveries have ended", row.name, deliveries.len()));
        let mut made = 0;
        for facts in &deliveries {
            if row.outcome == "gone" && facts[0].outcome.is_none() {
                let reason = facts[0].reason.as_deref();
                report.must(reason == Some("destination_disabled"), format!("{}: {reason:?}", row.name));
                continue;
            }
            made += facts.len() as u64;
            if let Err(wrong) = row.judge(facts) {
                report.must(false, format!("{}: {wrong}", row.name));
            }
            for pause in row.pauses(facts) {
                report.must(pause.is_right(), format!("{}: {pause:?}", row.name));
                widest = widest.max(pause.seconds - pause.shortest);
                latest = latest.max(pause.seconds - pause.longest);
            }
        }
        attempts += made;
        if matches!(row.does, Behaviour::Replies(_)) {
            let arrived = testbed.receiver.arrivals(&row.name);
            report.must(arrived == made, format!("{}: {arrived} requests, {made} attempts", row.name));
        }
    }
    report.note("rows", rows.len());
    report.note("attempts", attempts);
    report.note("widest_pause_beyond_its_shortest_seconds", rounded(widest));
    report.must_be_at_most("latest_seconds", latest, LATE_SECONDS);
    let holds = "select count(*) from holds where reason = 'throttle'";
    report.note("holds_by_429", testbed.database.number(holds).await?);
    let wrong = "select count(distinct destination_id) from holds where reason = 'throttle'";
    report.must_be("destinations_held_by_429", testbed.database.number(wrong).await?, 1);
    TableAudit::of(&testbed.database).await?.must_hold(report);
    testbed.must_be_running(report);
    testbed.tear_down().await
}

fn table() -> Vec<OutcomeRow> {
    let answers = |status: u16| {
        OutcomeRow::new(&status.to_string(), Behaviour::Replies(Reply::status(status)), Some(status))
    };
    let mut rows = Vec::new();
    rows.extend([200, 201, 204].map(|status| answers(status).delivered()));
    rows.extend([301, 302, 307, 400, 401, 403, 404, 409, 413, 422].map(|status| answers(status).rejected()));
    rows.push(answers(410).ended("gone", 1, "gone"));
    rows.extend([408, 425].map(|status| answers(status).exhausted("timeout")));
    rows.extend([500, 502, 503, 504].map(|status| answers(status).exhausted("server_error")));
    // Twice 429, then 200: by a script of its own.
    rows.push(OutcomeRow { name: "429".into(), ..answers(200).throttled_twice() });

    let asks = Reply::status(503).header("retry-after", &ASKED_SECONDS.to_string());
    let asks = OutcomeRow::new("503-later", Behaviour::Replies(asks), Some(503)).exhausted("server_error");
    rows.push(OutcomeRow { asked_seconds: ASKED_SECONDS, ..asks });
    let says = |name: &str, status, word| {
        let reply = Reply::status(status).header("webhook-delivery", word);
        OutcomeRow::new(name, Behaviour::Replies(reply), Some(status))
    };
    rows.push(says("abort", 500, "abort-message").rejected());
    rows.push(says("disable", 200, "disable").ended("gone", 1, "gone"));

    rows.push(OutcomeRow::new("hang", Behaviour::Replies(Reply::Hang), None).exhausted("timeout"));
    rows.push(OutcomeRow::new("close", Behaviour::Replies(Reply::Close), None).exhausted("network_error"));
    rows.push(OutcomeRow::new("reset", Behaviour::Replies(Reply::Reset), None).exhausted("network_error"));
    rows.push(OutcomeRow::new("babble", Behaviour::Babbles, None).exhausted("network_error"));
    rows.push(OutcomeRow::new("refuse", Behaviour::Refuses, None).exhausted("network_error"));
    rows.push(OutcomeRow::new("no-tls", Behaviour::NoTls, None).ended("tls_error", 2, "tls"));
    rows.push(OutcomeRow::new("no-tokens", Behaviour::NoTokens, None).exhausted("token_error"));
    rows.push(OutcomeRow::new("tokens-503", Behaviour::Tokens(503), None).exhausted("token_error"));
    let refused = OutcomeRow::new("tokens-400", Behaviour::Tokens(400), None);
    rows.push(refused.ended("undeliverable", 1, "undeliverable"));

    let with = |name: &str, status, change: fn(&mut RetryPolicy)| {
        let mut row = OutcomeRow { name: name.into(), ..answers(status) };
        change(&mut row.policy);
        row
    };
    let retryable =
        |policy: &mut RetryPolicy| policy.retry_statuses = [307, 404].map(RetryStatus::Code).to_vec();
    let all = |policy: &mut RetryPolicy| policy.retry_statuses = vec![RetryStatus::Class(4)];
    rows.push(with("404-again", 404, retryable).exhausted("rejected"));
    rows.push(with("307-again", 307, retryable).exhausted("rejected"));
    rows.push(with("403-still", 403, retryable).rejected());
    rows.push(with("403-as-4xx", 403, all).exhausted("rejected"));
    rows.push(with("302-still", 302, all).rejected());
    rows.push(with("500-once", 500, |policy| policy.schedule.clear()).ended("server_error", 1, "exhausted"));
    // The second pause would end beyond the last age.
    let old = |policy: &mut RetryPolicy| {
        policy.schedule[1] = Duration::from_secs(10);
        policy.expire_after = Duration::from_secs(5);
    };
    rows.push(with("500-old", 500, old).ended("server_error", 2, "expired"));
    rows
}

impl OutcomeRow {
    fn new(name: &str, does: Behaviour, http_status: Option<u16>) -> OutcomeRow {
        let policy = RetryPolicy {
            schedule: PAUSES.map(Duration::from_secs_f64).to_vec(),
            jitter: JITTER,
            ..RetryPolicy::default()
        };
        OutcomeRow {
            name: name.into(),
            does,
            policy,
            outcome: "success",
            http_status,
            attempts: 1..=1,
            reason: None,
            asked_seconds: 0.0,
        }
    }

    fn delivered(self) -> OutcomeRow {
        self
    }

    fn rejected(self) -> OutcomeRow {
        self.ended("rejected", 1, "rejected")
    }

    fn exhausted(self, outcome: &'static str) -> OutcomeRow {
        self.ended(outcome, PAUSES.len() + 1, "exhausted")
    }

    fn ended(self, outcome: &'static str, attempts: usize, reason: &'static str) -> OutcomeRow {
        OutcomeRow { outcome, attempts: attempts..=attempts, reason: Some(reason), ..self }
    }

    fn throttled_twice(self) -> OutcomeRow {
        OutcomeRow { attempts: 1..=3, ..self }
    }

    /// What is wrong with a delivery, if anything is.
    fn judge(&self, facts: &[TimedAttempt]) -> Result<(), String> {
        let expect = |holds: bool, otherwise: String| if holds { Ok(()) } else { Err(otherwise) };
        expect(self.attempts.contains(&facts.len()), format!("{} attempts", facts.len()))?;
        let last = facts.last().ok_or("no attempt")?;
        expect(last.reason.as_deref() == self.reason, format!("ended for the reason {:?}", last.reason))?;
        let ending = if self.reason.is_some() { "dead_letter" } else { "delivered" };
        expect(last.ending.as_deref() == Some(ending), format!("ended as {:?}", last.ending))?;
        let spent = if self.name == "429" { 0 } else { facts.len() as i64 - 1 };
        expect(last.spent == spent, format!("{} retries spent in {} attempts", last.spent, facts.len()))?;
        for (at, fact) in facts.iter().enumerate() {
            // The one that is throttled is not throttled at last.
            let by_429 = self.name == "429" && at + 1 < facts.len();
            let outcome = if by_429 { "throttled" } else { self.outcome };
            let status = if by_429 { Some(429) } else { self.http_status };
            expect(fact.number == Some(at as i64 + 1), format!("attempt {:?} is not in turn", fact.number))?;
            expect(fact.outcome.as_deref() == Some(outcome), format!("the outcome {:?}", fact.outcome))?;
            expect(fact.http_status == status, format!("the status {:?}", fact.http_status))?;
        }
        Ok(())
    }

    /// The pauses between a delivery's attempts; those for 429 belong to the destination and are the business of `retry_after_obeyed`.
    fn pauses(&self, facts: &[TimedAttempt]) -> Vec<Pause> {
        let pairs = facts.windows(2).zip(&self.policy.schedule).filter(|_| self.name != "429");
        let pause = |(pair, planned): (&[TimedAttempt], &Duration)| {
            let planned = planned.as_secs_f64();
            Pause {
                seconds: pair[1].started - pair[0].ended,
                shortest: (planned * (1.0 - JITTER)).max(self.asked_seconds),
                longest: (planned * (1.0 + JITTER)).max(self.asked_seconds),
            }
        };
        pairs.map(pause).collect()
    }
}

#[derive(Debug)]
struct Pause {
    seconds: f64,
    shortest: f64,
    longest: f64,
}

impl Pause {
    fn is_right(&self) -> bool {
        self.seconds >= self.shortest - CLOCKS_AGREE_SECONDS && self.seconds <= self.longest + LATE_SECONDS
    }
}

/// A client of OAuth 2.0.
fn tokens_from(token_url: String) -> AuthInput {
    AuthInput {
        kind: AuthKind::Oauth2,
        token_url: Some(token_url),
        client_id: Some("check".into()),
        client_secret: Some("check".into()),
        ..AuthInput::default()
    }
}

/// 429 for the first two seconds of its life, each for a second.
fn throttled_for_a_while() -> lab::Script {
    lab::Script::FailUntil {
        until: std::time::Instant::now() + Duration::from_secs(2),
        fail: Reply::throttled(1),
        then: Reply::ok(),
    }
}

/// A row of `attempts`; times in seconds.
struct TimedAttempt {
    number: Option<i64>,
    spent: i64,
    started: f64,
    ended: f64,
    outcome: Option<String>,
    http_status: Option<u16>,
    ending: Option<String>,
    reason: Option<String>,
}

/// The facts of every delivery of a destination that has ended, in order.
async fn deliveries(testbed: &Testbed, destination: DestinationId) -> Result<Vec<Vec<TimedAttempt>>> {
    let id = testbed.database.literal(destination.bytes());
    let sql = format!(
        "select delivery_id, number, spent, started_at, duration_us, outcome, http_status, ending, reason
         from attempts where destination_id = {id} order by delivery_id, attempt_id"
    );
    let text = |cell: &SqlValue| cell.text().map(str::to_owned);
    let mut deliveries: Vec<(SqlValue, Vec<TimedAttempt>)> = Vec::new();
    for row in testbed.database.rows(&sql).await? {
        let started = row[3].number().unwrap_or(0) as f64 / 1e6;
        let fact = TimedAttempt {
            number: row[1].number(),
            spent: row[2].number().unwrap_or(0),
            started,
            ended: started + row[4].number().unwrap_or(0) as f64 / 1e6,
            outcome: text(&row[5]),
            http_status: row[6].number().map(|status| status as u16),
            ending: text(&row[7]),
            reason: text(&row[8]),
        };
        match deliveries.last_mut().filter(|(delivery, _)| *delivery == row[0]) {
            Some((_, facts)) => facts.push(fact),
            None => deliveries.push((row[0].clone(), vec![fact])),
        }
    }
    Ok(deliveries.into_iter().map(|(_, facts)| facts).collect())
}

/// A server that answers every request with something that is not HTTP.
async fn babble() -> Result<SocketAddr> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let addr = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).await;
            let _ = stream.write_all(b"\x00\x01 what did you say?\r\n\r\n").await;
        }
    });
    Ok(addr)
}

use super::*;
use domain::{
    attempt::{Attempt, AttemptError, Detail, Timing},
    delivery::{CancelReason, Delivery, Position},
    id::{AccountId, AttemptId, DeliveryId, DestinationId, EventId, NodeId, RouteId},
    outcome::{DeadReason, Outcome},
    trace::TraceContext,
};
use std::{
    fmt, io,
    sync::{Arc, Mutex},
    time::Duration,
};
use tracing_subscriber::{
    fmt::{
        MakeWriter,
        format::Writer,
        time::{FormatTime, SystemTime},
    },
    layer::SubscriberExt as _,
};

const NOW: Timestamp = Timestamp::from_micros(1_790_000_000_000_042);

/// What the formatter of all other lines makes of it.
fn by_the_formatter(format: LineFormat, line: &AttemptLine<'_>) -> String {
    let written = Written::default();
    let lines = tracing_subscriber::fmt::layer().with_writer(written.clone()).with_timer(Fixed);
    let registry = tracing_subscriber::registry();
    match format {
        LineFormat::Json => {
            let layer = lines.json().flatten_event(true).with_span_list(false);
            tracing::subscriber::with_default(registry.with(layer), || say(line));
        }
        LineFormat::Human { colours } => {
            tracing::subscriber::with_default(registry.with(lines.with_ansi(colours)), || say(line));
        }
    }
    written.text()
}

fn say(line: &AttemptLine<'_>) {
    let AttemptLine { delivery, attempt, settled, trace } = line;
    let (ending, next_attempt_at) = match *settled {
        Settled::Ended(ending) => (Some(ending), None),
        Settled::Waits { due_at, .. } => (None, Some(due_at)),
    };
    let timing = &attempt.detail.timing;
    tracing::info!(
        target: "posthaste::attempt",
        account_id = %delivery.account_id,
        event_id = %delivery.event_id,
        delivery_id = %delivery.id,
        destination_id = %delivery.destination_id,
        attempt_id = %attempt.id,
        attempt = attempt.number,
        trace_id = trace.map(|trace| tracing::field::display(TraceId(trace))),
        outcome = attempt.outcome.as_str(),
        http_status = attempt.http_status,
        duration_us = attempt.duration.as_micros() as u64,
        dns_us = timing.dns_us,
        connect_us = timing.connect_us,
        tls_us = timing.tls_us,
        first_byte_us = timing.first_byte_us,
        reused = attempt.detail.connection_reused,
        error_code = attempt.detail.error.as_ref().map(|error| error.code.as_str()),
        error = attempt.detail.error.as_ref().map(|error| error.message.as_str()),
        ending = ending.map(|ending| ending.status().as_str()),
        reason = ending.and_then(Ending::reason),
        next_attempt_at = next_attempt_at.map(tracing::field::display),
        "delivery.attempted"
    );
}

struct TraceId(TraceContext);

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0.trace_id)
    }
}

struct Fixed;

impl FormatTime for Fixed {
    fn format_time(&self, to: &mut Writer<'_>) -> fmt::Result {
        write!(to, "{NOW}")
    }
}

#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Written {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl<'a> MakeWriter<'a> for Written {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn delivery() -> Delivery {
    let id = DeliveryId::at(NOW, 3);
    Delivery {
        id,
        account_id: AccountId::at(NOW, 1),
        event_id: EventId::at(NOW, 2),
        destination_id: DestinationId::at(NOW, 4),
        route_id: RouteId::at(NOW, 5),
        replay_id: None,
        origin: id,
        position: Position::due(NOW, id),
        sequence: None,
        due_at: NOW,
        attempts: 1,
        spent: 0,
        tls_errors: 0,
        last_outcome: None,
        last_http_status: None,
        created_at: NOW,
        available_at: NOW,
        payload_bytes: 512,
    }
}

/// Attempts that differ in each member that a line may have or not.
fn attempts() -> Vec<(Attempt, Settled, Option<TraceContext>)> {
    let plain = Attempt {
        id: AttemptId::at(NOW, 6),
        delivery_id: DeliveryId::at(NOW, 3),
        number: 2,
        started_at: NOW,
        duration: Duration::from_micros(1_840),
        outcome: Outcome::Success,
        http_status: Some(204),
        detail: Detail { url: "https://user:secret@host/".into(), ..Detail::default() },
        node: NodeId::at(NOW, 7),
    };
    let timing =
        Timing { dns_us: Some(0), connect_us: Some(u32::MAX), tls_us: Some(12), first_byte_us: Some(1_790) };
    let timed = Attempt {
        outcome: Outcome::ServerError,
        http_status: Some(503),
        detail: Detail { timing, connection_reused: true, ..plain.detail.clone() },
        ..plain.clone()
    };
    let due_at = NOW.plus(Duration::from_secs(120));
    let waits = Settled::Waits { position: Position::due(due_at, plain.delivery_id), due_at, spent: 1 };
    let traced = Some(TraceContext { trace_id: 0x4bf9_2f35, span_id: 9, flags: 1 });
    let failed = |message: &str| {
        let error = AttemptError { code: "connect_error".into(), kind: None, message: message.into() };
        let detail = Detail { error: Some(error), ..plain.detail.clone() };
        let outcome = Outcome::NetworkError;
        Attempt { outcome, http_status: None, duration: Duration::ZERO, detail, ..plain.clone() }
    };
    let mut attempts = vec![
        (plain.clone(), Settled::Ended(Ending::Delivered), traced),
        (plain.clone(), Settled::Ended(Ending::Delivered), None),
        (plain.clone(), Settled::Ended(Ending::DeadLetter(DeadReason::Rejected)), traced),
        (plain.clone(), Settled::Ended(Ending::Cancelled(CancelReason::Requested)), traced),
        (timed, waits, traced),
    ];
    let every: String = (0..0x0250).filter_map(char::from_u32).chain("\u{2028}\u{feff}🦀".chars()).collect();
    for message in ["", "the connection was refused", "\"quoted\" \\ and\nmore\t\u{1b}[31mred", &every] {
        attempts.push((failed(message), waits, traced));
    }
    attempts
}

#[test]
fn a_line_is_what_the_formatter_of_all_others_would_write() {
    let delivery = delivery();
    for format in
        [LineFormat::Json, LineFormat::Human { colours: false }, LineFormat::Human { colours: true }]
    {
        for (attempt, settled, trace) in &attempts() {
            let line = AttemptLine { delivery: &delivery, attempt, settled: *settled, trace: *trace };
            let mut text = Vec::new();
            write(&mut text, format, NOW, &line);
            let text = String::from_utf8(text).unwrap();
            assert_eq!(text, by_the_formatter(format, &line), "{format:?}");
            assert!(!text.contains("secret"), "{text}");
            assert_eq!(text.matches('\n').count(), 1);
        }
    }
}

#[test]
fn times_are_written_as_all_other_lines_have_them() {
    let mut text = String::new();
    SystemTime.format_time(&mut Writer::new(&mut text)).unwrap();
    assert_eq!(text.parse::<Timestamp>().unwrap().to_string(), text);
}

#[test]
fn a_line_goes_where_all_others_go() {
    let written = Written::default();
    let (lines, flush) = Lines::to(written.clone(), Box::leak(Box::default())).unwrap();
    let delivery = delivery();
    let (attempt, settled, trace) = &attempts()[0];
    let line = AttemptLine { delivery: &delivery, attempt, settled: *settled, trace: *trace };
    let log = AttemptLines::new(lines, LineFormat::Json);
    log.attempted(&line);
    log.attempted(&line);
    drop(flush);
    let text = written.text();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[1]["delivery_id"], delivery.id.to_string());
}

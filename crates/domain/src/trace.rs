//! Traces: which one an event belongs to (W3C Trace Context), and what is told of it to a collector.
//!
//! Nothing is kept for it but the header a producer sent. The ids of our own spans are those we have already: an event
//! without a trace begins one that has the event's number, and the span of an event or an attempt has the last eight
//! bytes of its id. So an id is enough to name the span, on any node and after a restart.

use crate::{
    event::Event,
    id::{AttemptId, EventId},
    limits,
    time::Timestamp,
};
use std::{fmt, sync::Arc};

pub const TRACEPARENT: &str = "traceparent";
pub const TRACESTATE: &str = "tracestate";

/// Where a span stands: its trace, itself, and whether it is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceContext {
    pub trace_id: u128,
    pub span_id: u64,
    /// `trace-flags`; the lowest bit says that it is recorded.
    pub flags: u8,
}

impl TraceContext {
    /// A `traceparent` header. One of a later version is read as far as we know it; what is not well-formed is none.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim().split('-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let well_formed = version.len() == 2
            && trace.len() == 32
            && span.len() == 16
            && flags.len() == 2
            && [version, trace, span, flags].iter().all(|part| part.bytes().all(is_digit));
        if !well_formed || version == "ff" || (version == "00" && parts.next().is_some()) {
            return None;
        }
        let trace_id = u128::from_str_radix(trace, 16).ok().filter(|id| *id != 0)?;
        let span_id = u64::from_str_radix(span, 16).ok().filter(|id| *id != 0)?;
        Some(Self { trace_id, span_id, flags: u8::from_str_radix(flags, 16).ok()? })
    }

    /// What the producer sent with the event, if it was well-formed.
    pub fn received(event: &Event) -> Option<Self> {
        let (_, value) = event.headers.iter().find(|(name, _)| name == TRACEPARENT)?;
        Self::parse(value)
    }

    /// Where the event stands as our own span. One that came without a trace begins one, and it is recorded: a receiver
    /// would keep nothing of what its sender does not want.
    pub fn of_event(event: &Event) -> Self {
        let span_id = span_of_event(event.id);
        match Self::received(event) {
            Some(parent) => Self { span_id, ..parent },
            None => Self { trace_id: event.id.uuid().as_u128(), span_id, flags: SAMPLED },
        }
    }

    /// The same for an attempt of an event that came without a trace: two ids are all it takes.
    pub fn of_untraced(event: EventId, attempt: AttemptId) -> Self {
        Self { trace_id: event.uuid().as_u128(), span_id: attempt.uuid().as_u128() as u64, flags: SAMPLED }
    }

    /// Where an attempt to deliver this event stands: what its destination is told.
    pub fn of_attempt(event: &Event, attempt: AttemptId) -> Self {
        Self { span_id: attempt.uuid().as_u128() as u64, ..Self::of_event(event) }
    }

    pub fn is_sampled(self) -> bool {
        self.flags & SAMPLED != 0
    }
}

const SAMPLED: u8 = 1;

/// The `tracestate` that came with the event: what the systems before us have noted of the trace, the latest first. It goes
/// with a trace or not at all; what is too long loses its oldest entries.
pub fn state(event: &Event) -> Option<String> {
    TraceContext::received(event)?;
    let values = event.headers.iter().filter(|(name, _)| name == TRACESTATE);
    let entries =
        values.flat_map(|(_, value)| value.split(',')).map(str::trim).filter(|entry| is_entry(entry));
    let mut state = String::new();
    for entry in entries.take(limits::TRACESTATE_ENTRIES) {
        let comma = if state.is_empty() { "" } else { "," };
        if state.len() + comma.len() + entry.len() > limits::TRACESTATE_BYTES {
            break;
        }
        state.push_str(comma);
        state.push_str(entry);
    }
    (!state.is_empty()).then_some(state)
}

/// `key=value` in what a header may say.
fn is_entry(text: &str) -> bool {
    let named = text.split_once('=').is_some_and(|(key, value)| !key.is_empty() && !value.is_empty());
    named && text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// The span of an event's arrival. Never zero: an id has its variant in these bits.
pub fn span_of_event(id: EventId) -> u64 {
    id.uuid().as_u128() as u64
}

/// Capital letters are not allowed.
fn is_digit(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

impl fmt::Display for TraceContext {
    /// As a `traceparent` header of version 00, which knows the two lowest flags.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace_id, self.span_id, self.flags & 3)
    }
}

/// Something that took time, as a part of a trace.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    pub context: TraceContext,
    pub parent: Option<u64>,
    pub name: &'static str,
    pub kind: SpanKind,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
    pub attributes: Vec<(&'static str, Attribute)>,
    /// Why it failed, if it did.
    pub error: Option<&'static str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// We were asked.
    Server,
    /// We asked.
    Client,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Attribute {
    Text(String),
    Number(i64),
}

impl From<String> for Attribute {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Attribute {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<i64> for Attribute {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

/// Takes spans. Never waits: what it cannot take at once is lost, and counted.
pub trait Spans: Send + Sync {
    fn take(&self, span: Span);
}

/// The way to the collector of spans; usually there is none.
#[derive(Clone, Default)]
pub struct Tracer(Option<Arc<dyn Spans>>);

impl Tracer {
    pub fn new(spans: Arc<dyn Spans>) -> Self {
        Self(Some(spans))
    }

    /// Tells of a span that is wanted; one that is not is not even made.
    pub fn tell(&self, context: TraceContext, span: impl FnOnce() -> Span) {
        if let Some(spans) = self.0.as_ref().filter(|_| context.is_sampled()) {
            spans.take(span());
        }
    }

    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }
}

impl fmt::Debug for Tracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_on() { "Tracer(on)" } else { "Tracer(off)" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{id::AccountId, testing};

    const GIVEN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    const NOW: Timestamp = Timestamp::from_seconds(1_790_000_000);

    fn event(traceparent: Option<&str>) -> Event {
        Event {
            headers: traceparent.map(|value| (TRACEPARENT.into(), value.into())).into_iter().collect(),
            ..testing::event(AccountId::MIN, NOW, 7)
        }
    }

    #[test]
    fn a_traceparent_reads_back_as_itself() {
        assert_eq!(TraceContext::parse(GIVEN).unwrap().to_string(), GIVEN);
    }

    #[test]
    fn what_is_not_a_traceparent_is_none() {
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        let bad = [
            String::new(),
            "00".into(),
            GIVEN.to_uppercase(),
            format!("00-{trace}-0000000000000000-01"),
            format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32)),
            format!("ff-{trace}-00f067aa0ba902b7-01"),
            format!("{GIVEN}-more"),
            format!("00-{trace}-00f067aa0ba902b7-1"),
            format!("00-+{}-00f067aa0ba902b7-01", &trace[1..]),
        ];
        for text in bad {
            assert_eq!(TraceContext::parse(&text), None, "{text}");
        }
        let later = GIVEN.replacen("00", "cc", 1) + "-what-the-future-will-be-like";
        assert_eq!(TraceContext::parse(&later), TraceContext::parse(GIVEN));
    }

    #[test]
    fn an_attempt_goes_on_with_the_trace_of_its_event_as_a_span_of_its_own() {
        let event = event(Some(GIVEN));
        let (first, second) = (AttemptId::at(NOW, 1), AttemptId::at(NOW, 2));
        let sent = TraceContext::of_attempt(&event, first).to_string();
        assert!(sent.starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-") && sent.ends_with("-01"), "{sent}");
        assert_ne!(sent, TraceContext::of_attempt(&event, second).to_string());
        assert_ne!(TraceContext::of_attempt(&event, first).span_id, TraceContext::of_event(&event).span_id);
    }

    #[test]
    fn without_a_trace_the_event_begins_one() {
        for event in [event(None), event(Some("nonsense"))] {
            let context = TraceContext::of_event(&event);
            assert_eq!(context.trace_id, event.id.uuid().as_u128());
            let attempt = AttemptId::at(NOW, 3);
            let sent = TraceContext::of_attempt(&event, attempt);
            assert_eq!(sent, TraceContext::of_untraced(event.id, attempt));
            assert_eq!(TraceContext::parse(&context.to_string()), Some(context));
        }
    }

    #[test]
    fn the_state_of_a_trace_goes_with_it_as_far_as_512_characters_go() {
        let with = |traceparent, states: &[&str]| {
            let mut event = event(traceparent);
            event.headers.extend(states.iter().map(|state| (TRACESTATE.into(), (*state).into())));
            state(&event)
        };
        assert_eq!(with(Some(GIVEN), &["a=1, b=2", "c=3"]), Some("a=1,b=2,c=3".into()));
        assert_eq!(with(Some(GIVEN), &["a=1,,nonsense,=,\u{e9}=1"]), Some("a=1".into()));
        assert_eq!(with(Some(GIVEN), &[""]), None);
        assert_eq!(with(Some(GIVEN), &[]), None);
        assert_eq!(with(None, &["a=1"]), None, "without its trace it says nothing");
        assert_eq!(with(Some("nonsense"), &["a=1"]), None);
        let (first, last) = (format!("a={}", "x".repeat(506)), "b=1");
        assert_eq!(with(Some(GIVEN), &[&first, last]).unwrap().len(), 512);
        assert_eq!(with(Some(GIVEN), &[&format!("{first}x"), last]), Some(format!("{first}x")));
        assert_eq!(with(Some(GIVEN), &["a=1,"; 40]).unwrap().matches('=').count(), 32);
    }

    #[test]
    fn what_its_producer_does_not_record_is_not_told_of() {
        let unwanted = TraceContext::parse(&GIVEN.replace("-01", "-00")).unwrap();
        struct Nobody;
        impl Spans for Nobody {
            fn take(&self, _: Span) {
                panic!("nobody wanted it");
            }
        }
        Tracer::new(Arc::new(Nobody)).tell(unwanted, || unreachable!("it is not even made"));
        Tracer::default()
            .tell(TraceContext::parse(GIVEN).unwrap(), || unreachable!("there is nobody to tell"));
    }
}

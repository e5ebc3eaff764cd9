//! What a receiver answers, as data: a [`Reply`] is one reaction, a [`Script`] chooses one per request.
//!
//! A behaviour in the URL (`/d/orders/slow-200`) is the same thing in short; see [`Reply::parse`].

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

/// Chooses a reply for each request of a destination.
#[derive(Clone)]
pub enum Script {
    Always(Reply),
    /// The replies one after another, by arrival; then the last one for ever.
    InTurn(Vec<Reply>),
    /// Unwell until an instant, well afterwards.
    FailUntil {
        until: Instant,
        fail: Reply,
        then: Reply,
    },
    /// Answers before reading the body and closes: a destination that says 413 to a film.
    Early(Answer),
    Custom(Arc<dyn Fn(&ScriptedRequest<'_>) -> Reply + Send + Sync>),
}

/// A request as a custom script has it before it, body and all.
#[derive(Debug)]
pub struct ScriptedRequest<'a> {
    pub destination: &'a str,
    /// Its place among the destination's arrivals, from 1.
    pub arrival: u64,
    /// Requests open for this destination when it arrived, itself included.
    pub open: u32,
    /// `posthaste-attempt`; 0 if the header is missing.
    pub attempt: u32,
    pub method: &'a http::Method,
    pub path: &'a str,
    pub headers: &'a HeaderMap,
    pub body: &'a Bytes,
}

impl Script {
    pub fn ok() -> Script {
        Reply::ok().into()
    }

    pub fn custom(choose: impl Fn(&ScriptedRequest<'_>) -> Reply + Send + Sync + 'static) -> Script {
        Script::Custom(Arc::new(choose))
    }

    pub(crate) fn choose(&self, request: &ScriptedRequest<'_>) -> Reply {
        match self {
            Script::Always(reply) => reply.clone(),
            Script::InTurn(replies) => {
                let at = (request.arrival.saturating_sub(1) as usize).min(replies.len().saturating_sub(1));
                replies.get(at).cloned().unwrap_or_else(Reply::ok)
            }
            Script::FailUntil { until, fail, then } => {
                if Instant::now() < *until { fail } else { then }.clone()
            }
            Script::Early(answer) => Reply::Answer(answer.clone()),
            Script::Custom(choose) => choose(request),
        }
    }
}

impl From<Reply> for Script {
    fn from(reply: Reply) -> Script {
        Script::Always(reply)
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Script::Always(reply) => f.debug_tuple("Always").field(reply).finish(),
            Script::InTurn(replies) => f.debug_tuple("InTurn").field(replies).finish(),
            Script::FailUntil { until, .. } => f.debug_struct("FailUntil").field("until", until).finish(),
            Script::Early(answer) => f.debug_tuple("Early").field(answer).finish(),
            Script::Custom(_) => f.write_str("Custom"),
        }
    }
}

/// One reaction to one request.
#[derive(Debug, Clone)]
pub enum Reply {
    Answer(Answer),
    /// Never answers; ends when the other side gives up.
    Hang,
    /// Closes the connection without a word.
    Close,
    /// Resets the connection.
    Reset,
}

#[derive(Debug, Clone)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: Vec<(HeaderName, HeaderValue)>,
    pub body: Bytes,
    /// Counted from the moment the whole request was read.
    pub after: Latency,
}

impl Reply {
    pub fn ok() -> Reply {
        Reply::answer(StatusCode::OK)
    }

    /// # Panics
    /// If `status` is no HTTP status (100–999).
    pub fn status(status: u16) -> Reply {
        Reply::answer(StatusCode::from_u16(status).expect("a status between 100 and 999"))
    }

    /// 429 with `Retry-After` in seconds.
    pub fn throttled(retry_after_seconds: u64) -> Reply {
        Reply::status(429).header("retry-after", &retry_after_seconds.to_string())
    }

    /// Takes its time before it answers. Says nothing to the replies that never answer.
    pub fn after(self, latency: impl Into<Latency>) -> Reply {
        self.with(|answer| answer.after = latency.into())
    }

    /// Adds a header; a name given twice is sent twice.
    ///
    /// # Panics
    /// If the name or the value cannot be written in HTTP.
    pub fn header(self, name: &str, value: &str) -> Reply {
        let name: HeaderName = name.parse().expect("a header name");
        let value: HeaderValue = value.parse().expect("a header value");
        self.with(|answer| answer.headers.push((name, value)))
    }

    pub fn body(self, body: impl Into<Bytes>) -> Reply {
        self.with(|answer| answer.body = body.into())
    }

    /// `ok`, `slow-200` (milliseconds), `status-500`, `429`, `429-2` (Retry-After), `hang`, `close`, `reset`.
    pub fn parse(behaviour: &str) -> Option<Reply> {
        let (word, number) = match behaviour.split_once('-') {
            Some((word, number)) => (word, Some(number.parse::<u32>().ok()?)),
            None => (behaviour, None),
        };
        Some(match (word, number) {
            ("ok", None) => Reply::ok(),
            ("slow", Some(ms)) => Reply::ok().after(Duration::from_millis(ms.into())),
            ("status", Some(status @ 200..=999)) => Reply::status(status as u16),
            ("429", None) => Reply::status(429),
            ("429", Some(seconds)) => Reply::throttled(seconds.into()),
            ("hang", None) => Reply::Hang,
            ("close", None) => Reply::Close,
            ("reset", None) => Reply::Reset,
            _ => return None,
        })
    }

    fn answer(status: StatusCode) -> Reply {
        Reply::Answer(Answer { status, headers: Vec::new(), body: Bytes::new(), after: Latency::None })
    }

    fn with(mut self, change: impl FnOnce(&mut Answer)) -> Reply {
        if let Reply::Answer(answer) = &mut self {
            change(answer);
        }
        self
    }
}

/// How long an answer takes. Tokio's timer rounds up to the next millisecond.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Latency {
    None,
    Fixed(Duration),
    Uniform {
        from: Duration,
        to: Duration,
    },
    /// The usual shape of a web service: most answers near the median, a long tail. `sigma` 0.5 puts
    /// the p99 at 3.2 × the median.
    LogNormal {
        median: Duration,
        sigma: f64,
    },
}

impl Latency {
    /// No draw is longer than this; an unlucky tail must not outlive the check.
    pub const LONGEST: Duration = Duration::from_secs(3600);

    pub fn draw(&self) -> Duration {
        match *self {
            Latency::None => Duration::ZERO,
            Latency::Fixed(latency) => latency,
            Latency::Uniform { from, to } => from + to.saturating_sub(from).mul_f64(rand::random()),
            Latency::LogNormal { median, sigma } => {
                // Box–Muller; 1 - u keeps the logarithm away from zero.
                let radius = (-2.0 * (1.0 - rand::random::<f64>()).ln()).sqrt();
                let normal = radius * (std::f64::consts::TAU * rand::random::<f64>()).cos();
                let seconds = median.as_secs_f64() * (sigma * normal).exp();
                Duration::from_secs_f64(seconds.clamp(0.0, Latency::LONGEST.as_secs_f64()))
            }
        }
    }
}

impl From<Duration> for Latency {
    fn from(latency: Duration) -> Latency {
        Latency::Fixed(latency)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behaviours_in_a_url_are_replies_in_short() {
        let says = |behaviour| format!("{:?}", Reply::parse(behaviour).unwrap());
        assert!(says("ok").contains("200"));
        assert!(says("slow-200").contains("200ms"));
        assert!(says("status-503").contains("503"));
        assert!(says("429-2").contains("retry-after"));
        assert_eq!(says("hang"), "Hang");
        assert_eq!(says("close"), "Close");
        assert_eq!(says("reset"), "Reset");
        for unknown in ["", "status", "status-7", "slow", "slow-x", "ok-1", "teapot"] {
            assert!(Reply::parse(unknown).is_none(), "{unknown}");
        }
    }

    #[test]
    fn a_log_normal_latency_has_its_median_and_its_tail() {
        let latency = Latency::LogNormal { median: Duration::from_millis(100), sigma: 0.5 };
        let mut draws: Vec<_> = (0..20_000).map(|_| latency.draw().as_secs_f64()).collect();
        draws.sort_by(f64::total_cmp);
        assert!((0.09..0.11).contains(&draws[10_000]), "median {}", draws[10_000]);
        assert!((0.25..0.42).contains(&draws[19_800]), "p99 {}", draws[19_800]);
    }
}

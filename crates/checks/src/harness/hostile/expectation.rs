//! What must become of what is sent to a hostile receiver, and what did.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::atomic::Ordering::Relaxed;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use client::AttemptView;
use domain::limits;

use super::HostileLog;

/// The deadline of every request, and of making a connection, as the testbed has them.
pub(crate) const DEADLINE: f64 = 3.0;
pub(crate) const CONNECT: f64 = 1.0;
/// How far from it an attempt may end; a debug build is slow.
pub(crate) const SLACK: f64 = if cfg!(debug_assertions) { 0.5 } else { 0.2 };
/// Mistakes of one case that are told.
const TOLD: usize = 3;

#[derive(Debug, Clone)]
pub(crate) struct Expectation {
    /// What an attempt met: one of these.
    met: Vec<Met>,
    attempts: RangeInclusive<usize>,
    /// Why it is a dead letter. None: delivered.
    reason: Option<&'static str>,
    /// How long an attempt takes.
    seconds: RangeInclusive<f64>,
    /// Whether an attempt gets as far as being read.
    arrives: bool,
    /// What is kept of the answer's body begins so, and whether there was more.
    kept: Option<(Bytes, bool)>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Met {
    outcome: &'static str,
    status: Option<u16>,
    code: Option<&'static str>,
    message: Option<&'static str>,
}

impl Expectation {
    pub(crate) fn delivered(status: u16) -> Expectation {
        let met = Met { outcome: "success", status: Some(status), code: None, message: None };
        Expectation {
            met: vec![met],
            attempts: 1..=1,
            reason: None,
            seconds: 0.0..=DEADLINE,
            arrives: true,
            kept: None,
        }
    }

    /// An answer that ends it.
    pub(crate) fn rejected(status: u16) -> Expectation {
        let code = (300..400).contains(&status).then_some("redirect");
        let met = Met { outcome: "rejected", status: Some(status), code, message: None };
        Expectation { met: vec![met], reason: Some("rejected"), ..Expectation::delivered(status) }
    }

    /// No answer: tried once more, as the schedule has it, and given up.
    pub(crate) fn failed(outcome: &'static str, code: &'static str) -> Expectation {
        let met = Met { outcome, status: None, code: Some(code), message: None };
        Expectation {
            met: vec![met],
            attempts: 2..=2,
            reason: Some("exhausted"),
            ..Expectation::delivered(0)
        }
    }

    /// An answer with a status that means nothing.
    pub(crate) fn meaningless(status: u16) -> Expectation {
        let met = Met { outcome: "network_error", status: Some(status), code: None, message: None };
        Expectation { met: vec![met], ..Expectation::failed("network_error", "") }
    }

    pub(crate) fn not_http() -> Expectation {
        Expectation::failed("network_error", "protocol_error")
    }

    pub(crate) fn cut_off() -> Expectation {
        Expectation::failed("network_error", "connect_error")
    }

    pub(crate) fn timed_out(after: f64) -> Expectation {
        Expectation::failed("timeout", "timeout").takes(after - SLACK..=after + SLACK)
    }

    /// TLS is tried twice, and the reason is told.
    pub(crate) fn bad_tls(message: &'static str) -> Expectation {
        let failed = Expectation::failed("tls_error", "tls_error").never_arrives();
        let met = Met { message: Some(message), ..failed.met[0] };
        Expectation { met: vec![met], reason: Some("tls"), ..failed }
    }

    pub(crate) fn never_arrives(self) -> Expectation {
        Expectation { arrives: false, ..self }
    }

    pub(crate) fn takes(self, seconds: RangeInclusive<f64>) -> Expectation {
        Expectation { seconds, ..self }
    }

    /// Whatever it takes within its deadline: in a crowd nobody looks at the clock.
    pub(crate) fn at_leisure(self) -> Expectation {
        self.takes(0.0..=DEADLINE + 1.0)
    }

    /// This is the body, as far as it is kept.
    pub(crate) fn keeps(self, body: impl Into<Bytes>, truncated: bool) -> Expectation {
        Expectation { kept: Some((body.into(), truncated)), ..self }
    }

    /// An attempt may meet that as well; in the end it is as expected.
    pub(crate) fn or_at_first(mut self, other: Expectation, attempts: usize) -> Expectation {
        self.met.extend(other.met);
        Expectation { attempts: 1..=attempts, ..self }
    }

    /// What is wrong, if anything is: with the attempts at a receiver, in whatever order, and the ending of each delivery.
    pub(crate) fn judge(
        &self,
        attempts: &[AttemptView],
        endings: &HashMap<String, Ending>,
        log: &HostileLog,
    ) -> Vec<String> {
        let mut wrong: Vec<String> =
            attempts.iter().flat_map(|attempt| self.judge_attempt(attempt)).collect();
        let mut made: HashMap<String, usize> = HashMap::new();
        for attempt in attempts {
            *made.entry(attempt.delivery_id.to_string()).or_default() += 1;
        }
        for (delivery, ending) in endings {
            let count = made.get(delivery).copied().unwrap_or(0);
            if !self.attempts.contains(&count) {
                wrong.push(format!("{count} attempts"));
            }
            if ending.reason.as_deref() != self.reason {
                wrong.push(format!("ended as {ending:?}"));
            }
        }
        wrong.extend(self.judge_arrivals(attempts, log));
        let more = wrong.len().saturating_sub(TOLD);
        wrong.truncate(TOLD);
        if more > 0 {
            wrong.push(format!("and {more} more"));
        }
        wrong
    }

    fn judge_attempt(&self, attempt: &AttemptView) -> Vec<String> {
        let mut wrong = Vec::new();
        let error = attempt.error.as_ref();
        let is = |met: &Met| {
            met.outcome == attempt.outcome.as_str()
                && met.status == attempt.http_status
                && met.code == error.map(|error| error.code.as_str())
                && met.message.is_none_or(|message| error.is_some_and(|error| error.message == message))
        };
        if !self.met.iter().any(is) {
            let (outcome, status) = (attempt.outcome.as_str(), attempt.http_status);
            wrong.push(format!("met {outcome}, status {status:?}, error {error:?}"));
        }
        let seconds = attempt.duration_ms as f64 / 1e3;
        if !self.seconds.contains(&seconds) {
            wrong.push(format!("took {seconds} s"));
        }
        let Some(response) = &attempt.response else { return wrong };
        // Whoever answers names the attempt it answers.
        let own = format!("{}/{}", attempt.delivery_id, attempt.number);
        if let Some(nonce) = response.headers.get("x-nonce").filter(|nonce| *nonce != own) {
            wrong.push(format!("attempt {own} was given the answer to {nonce}"));
        }
        let body = match (&response.body, &response.body_base64) {
            (Some(text), _) => text.clone().into_bytes(),
            (None, Some(text)) => STANDARD.decode(text).unwrap_or_default(),
            (None, None) => Vec::new(),
        };
        if body.len() > limits::RESPONSE_BODY_KEPT_BYTES {
            wrong.push(format!("{} bytes of the answer were kept", body.len()));
        }
        if let Some((expected, truncated)) = &self.kept {
            let expected = &expected[..expected.len().min(limits::RESPONSE_BODY_KEPT_BYTES)];
            if body != expected || response.truncated != *truncated {
                wrong.push(format!("{} bytes are kept, truncated: {}", body.len(), response.truncated));
            }
        }
        wrong
    }

    /// Exactly one request for each attempt that was answered, at most one for one that was not, and none besides.
    fn judge_arrivals(&self, attempts: &[AttemptView], log: &HostileLog) -> Vec<String> {
        let mut wrong = Vec::new();
        let requests = log.requests().clone();
        let known: HashMap<(String, u32), bool> = attempts
            .iter()
            .map(|attempt| ((attempt.delivery_id.to_string(), attempt.number), attempt.http_status.is_some()))
            .collect();
        for (attempt, times) in &requests {
            if *times > 1 || !known.contains_key(attempt) {
                wrong.push(format!("{times} requests for attempt {} of {}", attempt.1, attempt.0));
            }
        }
        let unseen =
            known.iter().filter(|(attempt, answered)| **answered && !requests.contains_key(*attempt));
        if self.arrives {
            let unseen = unseen.count();
            if unseen > 0 {
                wrong.push(format!("{unseen} attempts have an answer to a request that was never read"));
            }
        } else if !requests.is_empty() {
            wrong.push(format!("{} requests arrived", requests.len()));
        }
        let encodings = log.asked_for_encodings.load(Relaxed);
        if encodings > 0 {
            wrong.push(format!("{encodings} requests ask for another encoding than identity"));
        }
        let in_the_clear = log.in_the_clear.load(Relaxed);
        if in_the_clear > 0 {
            wrong.push(format!("{in_the_clear} connections without TLS where TLS is expected"));
        }
        wrong
    }
}

/// How a delivery has ended.
#[derive(Debug, Clone)]
pub(crate) struct Ending {
    /// None: delivered.
    pub(crate) reason: Option<String>,
}

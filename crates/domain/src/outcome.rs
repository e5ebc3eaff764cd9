//! What an attempt met, and what follows from it: the whole table of outcomes, in one place.
//!
//! A classification looks at one attempt only. It does not know how many retries are left, how old the delivery
//! is or what its destination's hold is: `settle` and the lane join these with what is said here.

use crate::{retry::RetryPolicy, word::words};
use std::time::Duration;

words! {
    "an outcome",
    /// What an attempt met, as stored and shown.
    Outcome {
        Success = "success",
        Throttled = "throttled",
        ServerError = "server_error",
        Timeout = "timeout",
        Gone = "gone",
        Rejected = "rejected",
        NetworkError = "network_error",
        TlsError = "tls_error",
        Blocked = "blocked",
        InternalError = "internal_error",
        Undeliverable = "undeliverable",
        /// The token that its destination asks for could not be had.
        TokenError = "token_error",
    }
}

words! {
    "a dead-letter reason",
    /// Why a delivery ended undelivered.
    DeadReason {
        Exhausted = "exhausted",
        Rejected = "rejected",
        Gone = "gone",
        Tls = "tls",
        Blocked = "blocked",
        Undeliverable = "undeliverable",
        Expired = "expired",
        DestinationDisabled = "destination_disabled",
    }
}

words! {
    "a kind of failure",
    /// What exactly went wrong at a destination that may be called: the `error.kind` of an attempt. A blocked target and
    /// a name without an address have none: what stands behind those is not the account's to know.
    FailureKind {
        Refused = "refused",
        Unreachable = "unreachable",
        ConnectTimeout = "connect_timeout",
        AnswerTimeout = "answer_timeout",
        Reset = "reset",
        ClosedEarly = "closed_early",
        NotTls = "not_tls",
        SelfSigned = "self_signed",
        Expired = "expired",
        NotYetValid = "not_yet_valid",
        WrongName = "wrong_name",
        UnknownAuthority = "unknown_authority",
        BadCertificate = "bad_certificate",
        Protocol = "protocol",
        /// It refused the certificate that we showed, or wants one.
        ClientCertificate = "client_certificate",
    }
}

/// What the sender read of an answer, as far as it decides anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseFacts<'a> {
    pub status: u16,
    /// As `retry::parse_retry_after` understood it.
    pub retry_after: Option<Duration>,
    /// The response header `webhook-delivery`.
    pub delivery_control: Option<&'a str>,
}

/// Why there is no answer to look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    ConnectTimeout,
    ReadTimeout,
    Dns,
    Refused,
    Reset,
    /// There was an answer, and it was not HTTP.
    Protocol,
    Tls,
    BlockedTarget,
    /// Ours: a bug, caught.
    Panic,
    /// An undecryptable secret, an unusable URL or header: no request could be made.
    Unbuildable,
    /// The stored payload is not what was accepted: no request was made.
    Altered,
    /// The credential could not be had: no request was made.
    NoCredential,
}

/// What a destination answered that is not called by HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    Accepted,
    /// It asks for a pause, as long as it says.
    Throttled {
        retry_after: Option<Duration>,
    },
    /// Something is wrong with it, and another try may do.
    Failed {
        retry_after: Option<Duration>,
    },
    /// It will never take this delivery.
    Rejected,
    /// It will never take anything any more.
    Gone,
}

/// An outcome and what to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Classified {
    pub outcome: Outcome,
    pub next: Next,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// The delivery has ended, delivered.
    Deliver,
    /// The whole destination waits; this delivery keeps its place and spends no retry.
    Hold {
        retry_after: Option<Duration>,
    },
    /// By schedule, but not before the destination asked for.
    Retry {
        not_before: Option<Duration>,
    },
    /// By schedule, unless this delivery met the same before: then it is a dead letter, reason `tls`.
    RetryOnce,
    /// At once and without spending a retry, with another credential, unless the last attempt met the same: then it is a
    /// dead letter, reason `rejected`.
    RetryRenewed,
    /// Dead letter, reason `gone`, and the destination is disabled.
    Disable,
    DeadLetter(DeadReason),
}

/// An answer, judged. The receiver's own word (`webhook-delivery`) counts more than its status.
pub fn classify(response: &ResponseFacts<'_>, policy: &RetryPolicy) -> Classified {
    let control = response.delivery_control.unwrap_or_default().trim();
    if control.eq_ignore_ascii_case("disable") {
        return judged(Outcome::Gone, Next::Disable);
    }
    if control.eq_ignore_ascii_case("abort-message") {
        return judged(Outcome::Rejected, Next::DeadLetter(DeadReason::Rejected));
    }

    // Any answer we retry may say when: a destination that names a time is not called before it (RFC 9110 asks it of 503 only).
    let retry = Next::Retry { not_before: response.retry_after };
    match response.status {
        200..=299 => judged(Outcome::Success, Next::Deliver),
        429 => judged(Outcome::Throttled, Next::Hold { retry_after: response.retry_after }),
        410 => judged(Outcome::Gone, Next::Disable),
        408 | 425 => judged(Outcome::Timeout, retry),
        500..=599 => judged(Outcome::ServerError, retry),
        status @ 300..=499 if policy.retries(status) => judged(Outcome::Rejected, retry),
        300..=499 => judged(Outcome::Rejected, Next::DeadLetter(DeadReason::Rejected)),
        // An interim answer is not a last one, and beyond 599 there is no meaning to go by.
        _ => classify_fault(Fault::Protocol),
    }
}

/// The answer of a destination that is not called by HTTP, judged.
pub fn classify_reply(reply: Reply) -> Classified {
    match reply {
        Reply::Accepted => judged(Outcome::Success, Next::Deliver),
        Reply::Throttled { retry_after } => judged(Outcome::Throttled, Next::Hold { retry_after }),
        Reply::Failed { retry_after } => {
            judged(Outcome::ServerError, Next::Retry { not_before: retry_after })
        }
        Reply::Rejected => judged(Outcome::Rejected, Next::DeadLetter(DeadReason::Rejected)),
        Reply::Gone => judged(Outcome::Gone, Next::Disable),
    }
}

/// No answer, judged.
pub fn classify_fault(fault: Fault) -> Classified {
    let retry = Next::Retry { not_before: None };
    match fault {
        Fault::ConnectTimeout | Fault::ReadTimeout => judged(Outcome::Timeout, retry),
        Fault::Dns | Fault::Refused | Fault::Reset | Fault::Protocol => judged(Outcome::NetworkError, retry),
        Fault::Tls => judged(Outcome::TlsError, Next::RetryOnce),
        Fault::BlockedTarget => judged(Outcome::Blocked, Next::DeadLetter(DeadReason::Blocked)),
        Fault::Panic => judged(Outcome::InternalError, retry),
        Fault::NoCredential => judged(Outcome::TokenError, retry),
        Fault::Unbuildable | Fault::Altered => {
            judged(Outcome::Undeliverable, Next::DeadLetter(DeadReason::Undeliverable))
        }
    }
}

/// Whether an outcome is a sign that the destination is unwell.
///
/// A throttle has its own hold. A rejection is an answer. A bad certificate ends its deliveries by itself. What was
/// blocked, broke here, could not be built or had no token never reached the destination and says nothing about it.
pub fn feeds_breaker(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::ServerError | Outcome::Timeout | Outcome::NetworkError)
}

fn judged(outcome: Outcome, next: Next) -> Classified {
    Classified { outcome, next }
}

impl Fault {
    /// What is meant where nothing more is known.
    pub fn kind(self) -> Option<FailureKind> {
        match self {
            Fault::ConnectTimeout => Some(FailureKind::ConnectTimeout),
            Fault::ReadTimeout => Some(FailureKind::AnswerTimeout),
            Fault::Refused => Some(FailureKind::Unreachable),
            Fault::Reset => Some(FailureKind::ClosedEarly),
            Fault::Protocol => Some(FailureKind::Protocol),
            Fault::Tls
            | Fault::Dns
            | Fault::BlockedTarget
            | Fault::Panic
            | Fault::Unbuildable
            | Fault::Altered
            | Fault::NoCredential => None,
        }
    }

    /// The `error.code` of the attempt: as much as an account may know, never an address or a resolver's words.
    pub fn error_code(self) -> &'static str {
        match self {
            Fault::ConnectTimeout | Fault::ReadTimeout => "timeout",
            Fault::Dns => "dns_error",
            Fault::Refused | Fault::Reset => "connect_error",
            Fault::Protocol => "protocol_error",
            Fault::Tls => "tls_error",
            Fault::BlockedTarget => "blocked_target",
            Fault::Panic => "internal_error",
            Fault::NoCredential => "token_error",
            Fault::Unbuildable => "undeliverable",
            Fault::Altered => "payload_altered",
        }
    }
}

impl DeadReason {
    /// Whether only an attempt can end a delivery like this. The others may come before the first one, or in the place
    /// of one that could not be written down.
    pub const fn takes_an_attempt(self) -> bool {
        !matches!(self, DeadReason::Undeliverable | DeadReason::Expired | DeadReason::DestinationDisabled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retry::RetryStatus;

    const MINUTE: Option<Duration> = Some(Duration::from_secs(60));
    const RETRY: Next = Next::Retry { not_before: None };
    const REJECTED: Next = Next::DeadLetter(DeadReason::Rejected);

    fn answer(status: u16) -> ResponseFacts<'static> {
        ResponseFacts { status, retry_after: None, delivery_control: None }
    }

    fn check(response: ResponseFacts<'_>, outcome: Outcome, next: Next) {
        let found = classify(&response, &RetryPolicy::default());
        assert_eq!(found, Classified { outcome, next }, "{response:?}");
    }

    #[test]
    fn every_status_goes_the_way_of_the_contract() {
        let table = [
            (200..=299, Outcome::Success, Next::Deliver),
            (429..=429, Outcome::Throttled, Next::Hold { retry_after: None }),
            (408..=408, Outcome::Timeout, RETRY),
            (425..=425, Outcome::Timeout, RETRY),
            (500..=599, Outcome::ServerError, RETRY),
            (410..=410, Outcome::Gone, Next::Disable),
            (300..=407, Outcome::Rejected, REJECTED),
            (409..=409, Outcome::Rejected, REJECTED),
            (411..=424, Outcome::Rejected, REJECTED),
            (426..=428, Outcome::Rejected, REJECTED),
            (430..=499, Outcome::Rejected, REJECTED),
            (0..=199, Outcome::NetworkError, RETRY),
            (600..=999, Outcome::NetworkError, RETRY),
        ];
        let mut seen = 0;
        for (statuses, outcome, next) in table {
            for status in statuses {
                check(answer(status), outcome, next);
                seen += 1;
            }
        }
        assert_eq!(seen, 1000, "each status has exactly one row");
    }

    #[test]
    fn a_429_hands_its_retry_after_to_the_hold() {
        check(
            ResponseFacts { retry_after: MINUTE, ..answer(429) },
            Outcome::Throttled,
            Next::Hold { retry_after: MINUTE },
        );
    }

    #[test]
    fn a_503_is_not_retried_earlier_than_it_asks() {
        for (status, outcome) in
            [(503, Outcome::ServerError), (500, Outcome::ServerError), (408, Outcome::Timeout)]
        {
            check(
                ResponseFacts { retry_after: MINUTE, ..answer(status) },
                outcome,
                Next::Retry { not_before: MINUTE },
            );
        }
    }

    #[test]
    fn retry_statuses_make_a_rejection_retryable_and_nothing_else() {
        let codes = [404, 307, 410, 429, 200].map(RetryStatus::Code).to_vec();
        let policy = RetryPolicy { retry_statuses: codes, ..RetryPolicy::default() };
        let next = |status| classify(&answer(status), &policy);
        assert_eq!(next(404), judged(Outcome::Rejected, RETRY));
        assert_eq!(next(307), judged(Outcome::Rejected, RETRY));
        assert_eq!(next(403), judged(Outcome::Rejected, REJECTED));
        assert_eq!(next(410), judged(Outcome::Gone, Next::Disable));
        assert_eq!(next(429), judged(Outcome::Throttled, Next::Hold { retry_after: None }));
        assert_eq!(next(200), judged(Outcome::Success, Next::Deliver));
    }

    #[test]
    fn under_a_class_the_answers_with_a_meaning_of_their_own_keep_it() {
        let classes = [3, 4, 5, 2].map(RetryStatus::Class).to_vec();
        let policy = RetryPolicy { retry_statuses: classes, ..RetryPolicy::default() };
        let next = |status| classify(&answer(status), &policy);
        for status in [300, 302, 399, 400, 404, 409, 422, 499] {
            assert_eq!(next(status), judged(Outcome::Rejected, RETRY), "{status}");
        }
        assert_eq!(next(408), judged(Outcome::Timeout, RETRY));
        assert_eq!(next(410), judged(Outcome::Gone, Next::Disable));
        assert_eq!(next(429), judged(Outcome::Throttled, Next::Hold { retry_after: None }));
        assert_eq!(next(500), judged(Outcome::ServerError, RETRY));
        assert_eq!(next(200), judged(Outcome::Success, Next::Deliver));
        let only_redirects =
            RetryPolicy { retry_statuses: vec![RetryStatus::Class(3)], ..RetryPolicy::default() };
        assert_eq!(classify(&answer(404), &only_redirects), judged(Outcome::Rejected, REJECTED));
        let said = |word| ResponseFacts { delivery_control: Some(word), ..answer(404) };
        assert_eq!(classify(&said("disable"), &policy), judged(Outcome::Gone, Next::Disable));
        assert_eq!(classify(&said("abort-message"), &policy), judged(Outcome::Rejected, REJECTED));
    }

    #[test]
    fn delivery_control_counts_more_than_the_status() {
        for status in [200, 302, 404, 410, 429, 500, 503] {
            for word in ["disable", " Disable "] {
                let response = ResponseFacts { delivery_control: Some(word), ..answer(status) };
                check(response, Outcome::Gone, Next::Disable);
            }
            let response = ResponseFacts { delivery_control: Some("abort-message"), ..answer(status) };
            check(response, Outcome::Rejected, REJECTED);
        }
        for word in ["", "disabled", "abort", "disable, abort-message"] {
            check(
                ResponseFacts { delivery_control: Some(word), ..answer(200) },
                Outcome::Success,
                Next::Deliver,
            );
        }
    }

    #[test]
    fn every_fault_goes_the_way_of_the_contract() {
        let table = [
            (Fault::ConnectTimeout, Outcome::Timeout, RETRY, "timeout"),
            (Fault::ReadTimeout, Outcome::Timeout, RETRY, "timeout"),
            (Fault::Dns, Outcome::NetworkError, RETRY, "dns_error"),
            (Fault::Refused, Outcome::NetworkError, RETRY, "connect_error"),
            (Fault::Reset, Outcome::NetworkError, RETRY, "connect_error"),
            (Fault::Protocol, Outcome::NetworkError, RETRY, "protocol_error"),
            (Fault::Tls, Outcome::TlsError, Next::RetryOnce, "tls_error"),
            (Fault::BlockedTarget, Outcome::Blocked, Next::DeadLetter(DeadReason::Blocked), "blocked_target"),
            (Fault::Panic, Outcome::InternalError, RETRY, "internal_error"),
            (Fault::NoCredential, Outcome::TokenError, RETRY, "token_error"),
            (
                Fault::Unbuildable,
                Outcome::Undeliverable,
                Next::DeadLetter(DeadReason::Undeliverable),
                "undeliverable",
            ),
            (
                Fault::Altered,
                Outcome::Undeliverable,
                Next::DeadLetter(DeadReason::Undeliverable),
                "payload_altered",
            ),
        ];
        for (fault, outcome, next, code) in table {
            assert_eq!(classify_fault(fault), judged(outcome, next), "{fault:?}");
            assert_eq!(fault.error_code(), code);
        }
    }

    #[test]
    fn a_reply_means_what_the_status_means_that_says_the_same() {
        for (reply, status) in [
            (Reply::Accepted, 200),
            (Reply::Throttled { retry_after: MINUTE }, 429),
            (Reply::Failed { retry_after: MINUTE }, 503),
            (Reply::Rejected, 400),
            (Reply::Gone, 410),
        ] {
            let response = ResponseFacts { retry_after: MINUTE, ..answer(status) };
            assert_eq!(classify_reply(reply), classify(&response, &RetryPolicy::default()), "{reply:?}");
        }
    }

    #[test]
    fn only_an_unwell_destination_feeds_the_breaker() {
        let fed: Vec<_> = Outcome::ALL.into_iter().filter(|outcome| feeds_breaker(*outcome)).collect();
        assert_eq!(fed, [Outcome::ServerError, Outcome::Timeout, Outcome::NetworkError]);
    }
}

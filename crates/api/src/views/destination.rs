use super::{HeadersView, schema};
use domain::{
    destination::{Auth, Destination, OnDeadLetter, Ordering, RateLimit, Scheme, Signing},
    gate::{Hold, HoldEntry, HoldReason},
    id::DestinationId,
    limits,
    retry::RetryPolicy,
    time::Timestamp,
};
use serde::Serialize;
use store::{LaneView, SuccessRate};
use utoipa::ToSchema;

/// Where deliveries go, at what pace, and how it is doing.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Destination)]
pub struct DestinationView {
    #[schema(value_type = schema::DestinationId)]
    pub id: DestinationId,
    #[schema(required)]
    pub uid: Option<String>,
    pub name: String,
    pub url: String,
    pub status: DestinationStatus,
    /// Why its deliveries wait; null when they do not.
    #[schema(required)]
    pub hold: Option<HoldView>,
    #[schema(value_type = Option<schema::Timestamp>, required)]
    pub throttled_until: Option<Timestamp>,
    #[schema(required, example = "429 Too Many Requests")]
    pub throttle_reason: Option<String>,
    /// Deliveries that wait, those in flight not counted.
    pub queued_events: i64,
    /// False when there are more than `queued_events` says.
    pub queued_events_exact: bool,
    pub in_flight: u32,
    #[schema(value_type = Option<schema::Timestamp>, required)]
    pub oldest_queued_at: Option<Timestamp>,
    #[schema(minimum = 1, maximum = 1000)]
    pub max_concurrency: u32,
    #[schema(minimum = 1, maximum = 30)]
    pub timeout_seconds: u64,
    #[schema(required)]
    pub rate_limit: Option<RateLimitView>,
    #[schema(value_type = OrderingWord)]
    pub ordering: Ordering,
    #[schema(value_type = OnDeadLetterWord)]
    pub on_dead_letter: OnDeadLetter,
    #[schema(value_type = RetryPolicyView)]
    pub retry_policy: RetryPolicy,
    #[schema(value_type = schema::Headers)]
    pub headers: HeadersView,
    /// Inbound headers that are passed on.
    pub forward_headers: Vec<String>,
    pub auth: AuthView,
    pub signing: SigningView,
    /// Successes among its newest attempts of the last hour, at most 200, throttled ones left out; null without any.
    #[schema(required)]
    pub success_rate_1h: Option<f64>,
    #[schema(value_type = schema::Timestamp)]
    pub created_at: Timestamp,
    #[schema(value_type = schema::Timestamp)]
    pub updated_at: Timestamp,
}

/// The first that holds of disabled, paused, throttled, unhealthy, active.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DestinationStatus {
    Active,
    Throttled,
    Unhealthy,
    Paused,
    Disabled,
}

/// Why a destination's deliveries wait, and until when.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = Hold)]
pub struct HoldView {
    #[schema(value_type = HoldReasonWord)]
    pub reason: HoldReason,
    #[schema(value_type = schema::Timestamp)]
    pub since: Timestamp,
    #[schema(value_type = Option<schema::Timestamp>, required)]
    pub until: Option<Timestamp>,
    pub detail: String,
    /// How many holds in a row this is.
    #[schema(required)]
    pub step: Option<u32>,
    /// A single request is under way to see whether it may end.
    pub probing: bool,
}

/// A hold in a destination's history.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = HoldEntry)]
pub struct HoldEntryView {
    #[schema(value_type = HoldReasonWord)]
    pub reason: HoldReason,
    #[schema(value_type = schema::Timestamp)]
    pub since: Timestamp,
    /// Until when it was to last, as far as that was known.
    #[schema(value_type = Option<schema::Timestamp>, required)]
    pub until: Option<Timestamp>,
    /// Null while it goes on.
    #[schema(value_type = Option<schema::Timestamp>, required)]
    pub ended_at: Option<Timestamp>,
    pub detail: String,
    /// How many holds in a row this was.
    #[schema(required)]
    pub step: Option<u32>,
}

impl From<&HoldEntry> for HoldEntryView {
    fn from(hold: &HoldEntry) -> Self {
        let HoldEntry { reason, since, until, detail, step, ended_at } = hold.clone();
        Self { reason, since, until, ended_at, detail, step }
    }
}

/// So many requests in so many seconds.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[schema(as = RateLimit)]
pub struct RateLimitView {
    pub requests: u32,
    pub per_seconds: u32,
}

/// How often and for how long a delivery is tried.
#[derive(ToSchema)]
#[schema(as = RetryPolicy)]
#[expect(dead_code, reason = "describes domain::retry::RetryPolicy in the OpenAPI document")]
pub struct RetryPolicyView {
    /// The pause before each retry, each 1 second to 24 hours; an empty list means one attempt.
    #[schema(required, max_items = 20)]
    schedule_seconds: Vec<u64>,
    /// The part of a pause that chance may add or take away.
    #[schema(required, minimum = 0.0, maximum = 1.0)]
    jitter: f64,
    /// The age at which a delivery is given up.
    #[schema(required, minimum = 1, maximum = 7776000)]
    expire_after_seconds: u64,
    /// Answers from 300 to 499 that are worth a retry.
    #[schema(required, max_items = 32)]
    retry_statuses: Vec<u16>,
}

/// How often and for how long a delivery is to be tried. What is left out takes its default.
#[derive(ToSchema)]
#[schema(as = RetryPolicyInput)]
#[expect(dead_code, reason = "describes domain::retry::RetryPolicy in the OpenAPI document")]
pub(crate) struct RetryPolicyWord {
    #[schema(max_items = 20)]
    schedule_seconds: Option<Vec<u64>>,
    #[schema(minimum = 0.0, maximum = 1.0)]
    jitter: Option<f64>,
    #[schema(minimum = 1, maximum = 7776000)]
    expire_after_seconds: Option<u64>,
    #[schema(max_items = 32)]
    retry_statuses: Option<Vec<u16>>,
}

/// How we prove who we are. The values are write-only.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Auth)]
pub struct AuthView {
    #[serde(rename = "type")]
    pub kind: AuthKind,
    /// Of `basic` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// Of `headers` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header_names: Option<Vec<String>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = AuthType)]
pub enum AuthKind {
    None,
    Bearer,
    Basic,
    Headers,
}

/// How requests are signed.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Signing)]
pub struct SigningView {
    #[schema(value_type = SchemeWord)]
    pub scheme: Scheme,
    pub ed25519: bool,
    pub svix_headers: bool,
    /// Only in the answer to the request that made it; later at `GET …/{id}/secret`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD")]
    pub secret: Option<String>,
}

/// A destination's signing secret.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Secret)]
pub struct SecretView {
    #[schema(example = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD")]
    pub secret: String,
    /// Until when the secret before this one signs as well; null if none does.
    #[schema(value_type = Option<schema::Timestamp>, required)]
    pub previous_until: Option<Timestamp>,
}

#[derive(ToSchema)]
#[schema(as = Ordering, rename_all = "snake_case")]
#[expect(dead_code, reason = "describes domain::destination::Ordering in the OpenAPI document")]
pub(crate) enum OrderingWord {
    None,
    Strict,
    Key,
}

#[derive(ToSchema)]
#[schema(as = OnDeadLetter, rename_all = "snake_case")]
#[expect(dead_code, reason = "describes domain::destination::OnDeadLetter in the OpenAPI document")]
pub(crate) enum OnDeadLetterWord {
    Continue,
    Pause,
}

#[derive(ToSchema)]
#[schema(as = SigningScheme, rename_all = "snake_case")]
#[expect(dead_code, reason = "describes domain::destination::Scheme in the OpenAPI document")]
pub(crate) enum SchemeWord {
    Standard,
    None,
}

#[derive(ToSchema)]
#[schema(as = HoldReason, rename_all = "snake_case")]
#[expect(dead_code, reason = "describes domain::gate::HoldReason in the OpenAPI document")]
pub(crate) enum HoldReasonWord {
    Throttle,
    Breaker,
    Paused,
    Disabled,
}

/// What is known of a destination besides its settings.
#[derive(Debug, Clone, Default)]
pub struct LaneState {
    /// None where no lane runs.
    pub view: Option<LaneView>,
    /// Rows in the queue, counted up to one more than [`limits::QUEUED_EVENTS_EXACT`].
    pub rows: i64,
    pub oldest_queued_at: Option<Timestamp>,
    pub rate: SuccessRate,
}

impl LaneState {
    /// To four places.
    fn success_rate(&self) -> Option<f64> {
        let SuccessRate { successes, attempts } = self.rate;
        (attempts > 0).then(|| (f64::from(successes) / f64::from(attempts) * 10_000.0).round() / 10_000.0)
    }
}

impl DestinationView {
    pub fn new(destination: &Destination, lane: &LaneState) -> Self {
        let hold = hold(destination, lane.view.as_ref());
        let throttle = hold.as_ref().filter(|hold| hold.reason == HoldReason::Throttle);
        let in_flight = lane.view.as_ref().map_or(0, |view| view.in_flight);
        let exact = lane.rows <= limits::QUEUED_EVENTS_EXACT;
        let queued = if exact { lane.rows - i64::from(in_flight) } else { limits::QUEUED_EVENTS_EXACT };
        Self {
            id: destination.id,
            uid: destination.uid.clone(),
            name: destination.name.clone(),
            url: destination.url.clone(),
            status: status(hold.as_ref()),
            throttled_until: throttle.and_then(|hold| hold.until),
            throttle_reason: throttle.map(|hold| hold.detail.clone()),
            hold,
            queued_events: queued.max(0),
            queued_events_exact: exact,
            in_flight,
            oldest_queued_at: lane.oldest_queued_at,
            max_concurrency: destination.max_concurrency,
            timeout_seconds: destination.timeout.as_secs(),
            rate_limit: destination.rate_limit.map(RateLimitView::from),
            ordering: destination.ordering,
            on_dead_letter: destination.on_dead_letter,
            retry_policy: destination.retry_policy.clone(),
            headers: destination.headers.as_slice().into(),
            forward_headers: destination.forward_headers.clone(),
            auth: AuthView::from(&destination.auth),
            signing: SigningView::from(&destination.signing),
            success_rate_1h: lane.success_rate(),
            created_at: destination.created_at,
            updated_at: destination.updated_at,
        }
    }

    /// With the signing secret that has just been made.
    pub fn revealing(mut self, secret: &str) -> Self {
        self.signing.secret = Some(secret.into());
        self
    }
}

/// The switches count before what the lane says: they are durable, and a lane may not have read them yet.
pub(super) fn hold(destination: &Destination, lane: Option<&LaneView>) -> Option<HoldView> {
    if let Some(switched) = destination.holds().first() {
        return Some(switched.into());
    }
    let hold = lane?.hold.as_ref()?;
    // A lane that has not heard of a resume yet still shows the switch.
    matches!(hold.reason, HoldReason::Throttle | HoldReason::Breaker).then(|| hold.into())
}

pub(super) fn status(hold: Option<&HoldView>) -> DestinationStatus {
    match hold.map(|hold| hold.reason) {
        None => DestinationStatus::Active,
        Some(HoldReason::Throttle) => DestinationStatus::Throttled,
        Some(HoldReason::Breaker) => DestinationStatus::Unhealthy,
        Some(HoldReason::Paused) => DestinationStatus::Paused,
        Some(HoldReason::Disabled) => DestinationStatus::Disabled,
    }
}

impl From<&Hold> for HoldView {
    fn from(hold: &Hold) -> Self {
        Self {
            reason: hold.reason,
            since: hold.since,
            until: hold.until,
            detail: hold.detail.clone(),
            step: hold.step,
            probing: hold.probing,
        }
    }
}

/// A line of the history that goes on.
impl From<&HoldEntry> for HoldView {
    fn from(hold: &HoldEntry) -> Self {
        let HoldEntry { reason, since, until, detail, step, .. } = hold.clone();
        Self { reason, since, until, detail, step, probing: false }
    }
}

impl From<RateLimit> for RateLimitView {
    fn from(limit: RateLimit) -> Self {
        Self { requests: limit.requests, per_seconds: limit.per_seconds }
    }
}

impl From<&Auth> for AuthView {
    fn from(auth: &Auth) -> Self {
        let (kind, username, header_names) = match auth {
            Auth::None => (AuthKind::None, None, None),
            Auth::Bearer { .. } => (AuthKind::Bearer, None, None),
            Auth::Basic { username, .. } => (AuthKind::Basic, Some(username.clone()), None),
            Auth::Headers { headers } => {
                (AuthKind::Headers, None, Some(headers.iter().map(|(name, _)| name.clone()).collect()))
            }
        };
        Self { kind, username, header_names }
    }
}

impl From<&Signing> for SigningView {
    fn from(signing: &Signing) -> Self {
        Self {
            scheme: signing.scheme,
            ed25519: signing.ed25519,
            svix_headers: signing.svix_headers,
            secret: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::{
        destination::{Disabled, DisabledReason},
        id::AccountId,
    };

    const THEN: Timestamp = Timestamp::from_seconds(1_790_000_000);

    fn destination() -> Destination {
        let id = DestinationId::at(THEN, 1);
        Destination::new(id, AccountId::at(THEN, 2), "Orders", "https://example.com/hooks", THEN)
    }

    fn lane(hold: Option<HoldReason>) -> LaneState {
        let hold = hold.map(|reason| Hold {
            reason,
            since: THEN,
            until: Some(THEN),
            detail: "429 Too Many Requests".into(),
            step: Some(1),
            probing: false,
        });
        LaneState {
            view: Some(LaneView { in_flight: 2, hold }),
            rows: 7,
            oldest_queued_at: Some(THEN),
            rate: SuccessRate::default(),
        }
    }

    #[test]
    fn the_status_is_the_first_of_all_holds() {
        let mut destination = destination();
        let shown = |destination: &Destination, hold| DestinationView::new(destination, &lane(hold)).status;
        assert_eq!(shown(&destination, None), DestinationStatus::Active);
        assert_eq!(shown(&destination, Some(HoldReason::Breaker)), DestinationStatus::Unhealthy);
        assert_eq!(shown(&destination, Some(HoldReason::Throttle)), DestinationStatus::Throttled);
        destination.switch.paused_at = Some(THEN);
        assert_eq!(shown(&destination, Some(HoldReason::Throttle)), DestinationStatus::Paused);
        destination.switch.disabled = Some(Disabled { at: THEN, reason: DisabledReason::Gone });
        assert_eq!(shown(&destination, Some(HoldReason::Throttle)), DestinationStatus::Disabled);
    }

    #[test]
    fn a_lane_that_has_not_heard_of_a_resume_does_not_show_the_pause() {
        let view = DestinationView::new(&destination(), &lane(Some(HoldReason::Paused)));
        assert_eq!((view.status, view.hold), (DestinationStatus::Active, None));
    }

    #[test]
    fn what_is_in_flight_is_not_queued() {
        let view = DestinationView::new(&destination(), &lane(Some(HoldReason::Throttle)));
        assert_eq!((view.queued_events, view.in_flight, view.queued_events_exact), (5, 2, true));
        assert_eq!(view.throttled_until, Some(THEN));
        assert_eq!(view.throttle_reason.as_deref(), Some("429 Too Many Requests"));

        let many = LaneState { rows: limits::QUEUED_EVENTS_EXACT + 1, ..lane(None) };
        let view = DestinationView::new(&destination(), &many);
        assert_eq!((view.queued_events, view.queued_events_exact), (limits::QUEUED_EVENTS_EXACT, false));
    }
}

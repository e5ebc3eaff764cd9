use contract::{
    AuthKind, AuthView, DestinationStatus, DestinationView, HoldRecordView, HoldView, RetryPolicyFromView,
    SettingsFromView, SigningView,
};
use domain::{
    delivery_settings::EffectiveSettings,
    destination::{Auth, Destination, Secrets, Signing},
    gate::{Hold, HoldReason, HoldRecord},
    limits,
    seal::Sealed,
    time::Timestamp,
};
use store::{LaneView, SuccessRate};

pub(crate) fn hold_record(hold: &HoldRecord) -> HoldRecordView {
    let HoldRecord { reason, since, until, detail, step, ended_at } = hold.clone();
    HoldRecordView { reason, since, until, ended_at, detail, step }
}

/// What is known of a destination's lane: what waits there, and how its attempts went.
#[derive(Debug, Clone, Default)]
pub(crate) struct LaneSummary {
    /// None where no lane runs.
    pub(crate) view: Option<LaneView>,
    /// Rows in the queue, counted up to one more than [`limits::QUEUED_EVENTS_EXACT`].
    pub(crate) rows: i64,
    pub(crate) oldest_queued_at: Option<Timestamp>,
    pub(crate) rate: SuccessRate,
}

impl LaneSummary {
    /// To four places.
    fn success_rate(&self) -> Option<f64> {
        let SuccessRate { successes, attempts } = self.rate;
        (attempts > 0).then(|| (f64::from(successes) / f64::from(attempts) * 10_000.0).round() / 10_000.0)
    }
}

/// `settings` are what holds for it.
pub(crate) fn destination(
    destination: &Destination,
    settings: &EffectiveSettings,
    lane: &LaneSummary,
) -> DestinationView {
    let hold = hold(destination, lane.view.as_ref());
    let throttle = hold.as_ref().filter(|hold| hold.reason == HoldReason::Throttle);
    let in_flight = lane.view.as_ref().map_or(0, |view| view.in_flight);
    let exact = lane.rows <= limits::QUEUED_EVENTS_EXACT;
    let queued = if exact { lane.rows - i64::from(in_flight) } else { limits::QUEUED_EVENTS_EXACT };
    DestinationView {
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
        max_concurrency: settings.max_concurrency.value,
        timeout_seconds: settings.timeout.value.as_secs(),
        rate_limit: destination.rate_limit,
        ordering: destination.ordering,
        sequence: destination.sequence,
        on_dead_letter: destination.on_dead_letter,
        retry_policy: settings.retry_policy(),
        settings_from: settings_from(settings),
        headers: destination.headers.as_slice().into(),
        forward_headers: destination.forward_headers.clone(),
        auth: auth(&destination.auth),
        format: destination.format,
        signing: signing_with(&destination.signing, &destination.secret),
        success_rate_1h: lane.success_rate(),
        created_at: destination.created_at,
        updated_at: destination.updated_at,
    }
}

fn settings_from(settings: &EffectiveSettings) -> SettingsFromView {
    SettingsFromView {
        max_concurrency: settings.max_concurrency.from,
        timeout_seconds: settings.timeout.from,
        retry_policy: RetryPolicyFromView {
            schedule_seconds: settings.schedule.from,
            jitter: settings.jitter.from,
            expire_after_seconds: settings.expire_after.from,
            retry_statuses: settings.retry_statuses.from,
        },
    }
}

/// With the signing secret that has just been made.
pub(crate) fn revealing(mut view: DestinationView, secret: &str) -> DestinationView {
    view.signing.secret = Some(secret.into());
    view
}

/// The switches count before what the lane says: they are durable, and a lane may not have read them yet.
pub(super) fn hold(destination: &Destination, lane: Option<&LaneView>) -> Option<HoldView> {
    if let Some(switched) = destination.holds().first() {
        return Some(of_hold(switched));
    }
    let hold = lane?.hold.as_ref()?;
    // A lane that has not heard of a resume yet still shows the switch.
    matches!(hold.reason, HoldReason::Throttle | HoldReason::Breaker).then(|| of_hold(hold))
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

fn of_hold(hold: &Hold) -> HoldView {
    HoldView {
        reason: hold.reason,
        since: hold.since,
        until: hold.until,
        detail: hold.detail.clone(),
        step: hold.step,
        probing: hold.probing,
    }
}

/// A line of the history that goes on.
pub(super) fn going_on(hold: &HoldRecord) -> HoldView {
    let HoldRecord { reason, since, until, detail, step, .. } = hold.clone();
    HoldView { reason, since, until, detail, step, probing: false }
}

fn auth(auth: &Auth) -> AuthView {
    let names = |values: &[(String, Sealed)]| -> Option<Vec<String>> {
        Some(values.iter().map(|(name, _)| name.clone()).collect())
    };
    match auth {
        Auth::None => AuthView::of(AuthKind::None),
        Auth::Bearer { .. } => AuthView::of(AuthKind::Bearer),
        Auth::Basic { username, .. } => {
            AuthView { username: Some(username.clone()), ..AuthView::of(AuthKind::Basic) }
        }
        Auth::Headers { headers } => {
            AuthView { header_names: names(headers), ..AuthView::of(AuthKind::Headers) }
        }
        Auth::OAuth2(client) => AuthView {
            token_url: Some(client.token_url.clone()),
            client_id: Some(client.client_id.clone()),
            client_auth: Some(client.client_auth),
            scope: client.scope.clone(),
            audience: client.audience.clone(),
            param_names: names(&client.params),
            ..AuthView::of(AuthKind::Oauth2)
        },
        Auth::Mtls(certificate) => AuthView {
            subject: Some(certificate.subject.clone()),
            expires_at: Some(certificate.expires_at),
            ..AuthView::of(AuthKind::Mtls)
        },
        Auth::AwsSigv4(credentials) => AuthView {
            access_key_id: Some(credentials.access_key_id.clone()),
            region: Some(credentials.region.clone()),
            service: Some(credentials.service.clone()),
            ..AuthView::of(AuthKind::AwsSigv4)
        },
    }
}

pub(super) fn signing(signing: &Signing) -> SigningView {
    signing_with(signing, &Secrets::default())
}

/// With what may be told of the keys.
fn signing_with(signing: &Signing, secrets: &Secrets) -> SigningView {
    let previous_pair = secrets.previous_key_pair.as_ref();
    SigningView {
        scheme: signing.scheme,
        ed25519: signing.ed25519,
        svix_headers: signing.svix_headers,
        header: signing.own_header().map(str::to_owned),
        secret: None,
        previous_until: secrets.previous.as_ref().map(|previous| previous.until),
        public_key: secrets.key_pair.as_ref().map(|pair| pair.public.clone()),
        previous_public_key: previous_pair.map(|previous| previous.pair.public.clone()),
        previous_public_key_until: previous_pair.map(|previous| previous.until),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::{
        delivery_settings::DeliverySettings,
        destination::{Disabled, DisabledReason},
        id::{AccountId, DestinationId},
    };

    const THEN: Timestamp = Timestamp::from_seconds(1_790_000_000);

    fn orders() -> Destination {
        let id = DestinationId::at(THEN, 1);
        Destination::new(id, AccountId::at(THEN, 2), "Orders", "https://example.com/hooks", THEN)
    }

    fn shown(destination: &Destination, lane: &LaneSummary) -> DestinationView {
        let nothing = DeliverySettings::default();
        let settings = EffectiveSettings::new(&destination.settings, &nothing, &nothing);
        super::destination(destination, &settings, lane)
    }

    fn lane(hold: Option<HoldReason>) -> LaneSummary {
        let hold = hold.map(|reason| Hold {
            reason,
            since: THEN,
            until: Some(THEN),
            detail: "429 Too Many Requests".into(),
            step: Some(1),
            probing: false,
        });
        LaneSummary {
            view: Some(LaneView { in_flight: 2, hold }),
            rows: 7,
            oldest_queued_at: Some(THEN),
            rate: SuccessRate::default(),
        }
    }

    #[test]
    fn the_status_is_the_first_of_all_holds() {
        let mut orders = orders();
        let shown = |settings: &Destination, hold| shown(settings, &lane(hold)).status;
        assert_eq!(shown(&orders, None), DestinationStatus::Active);
        assert_eq!(shown(&orders, Some(HoldReason::Breaker)), DestinationStatus::Unhealthy);
        assert_eq!(shown(&orders, Some(HoldReason::Throttle)), DestinationStatus::Throttled);
        orders.switch.paused_at = Some(THEN);
        assert_eq!(shown(&orders, Some(HoldReason::Throttle)), DestinationStatus::Paused);
        orders.switch.disabled = Some(Disabled { at: THEN, reason: DisabledReason::Gone });
        assert_eq!(shown(&orders, Some(HoldReason::Throttle)), DestinationStatus::Disabled);
    }

    #[test]
    fn a_lane_that_has_not_heard_of_a_resume_does_not_show_the_pause() {
        let view = shown(&orders(), &lane(Some(HoldReason::Paused)));
        assert_eq!((view.status, view.hold), (DestinationStatus::Active, None));
    }

    #[test]
    fn what_is_in_flight_is_not_queued() {
        let view = shown(&orders(), &lane(Some(HoldReason::Throttle)));
        assert_eq!((view.queued_events, view.in_flight, view.queued_events_exact), (5, 2, true));
        assert_eq!(view.throttled_until, Some(THEN));
        assert_eq!(view.throttle_reason.as_deref(), Some("429 Too Many Requests"));

        let many = LaneSummary { rows: limits::QUEUED_EVENTS_EXACT + 1, ..lane(None) };
        let view = shown(&orders(), &many);
        assert_eq!((view.queued_events, view.queued_events_exact), (limits::QUEUED_EVENTS_EXACT, false));
    }
}

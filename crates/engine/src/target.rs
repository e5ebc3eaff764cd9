//! A destination made ready: URL parsed, headers built, secrets opened. Done once per change, used for every attempt.
//!
//! What cannot be made ready is not an error here: its deliveries end as `undeliverable`, with the reason.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use domain::{
    delivery::{CancelReason, Ending, Settled},
    destination::{Auth, Destination, OnDeadLetter, Ordering, Scheme, Signing, Switch},
    id::{AccountId, DestinationId, RouteId},
    lane::{LaneSettings, Mode},
    limits,
    outcome::DeadReason,
    retry::RetryPolicy,
    route::Route,
    seal::{DataKey, MasterKeys},
    signature::SigningSecret,
    time::Timestamp,
};
use http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use std::{collections::HashMap, sync::Arc, time::Duration};
use store::{Consequence, KeptGate, Target};

pub(crate) const USER_AGENT: &str = concat!("Posthaste/", env!("CARGO_PKG_VERSION"));

#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) account_id: AccountId,
    pub(crate) name: Arc<str>,
    /// The account's version when it was read: later changes are for the watch to find.
    pub(crate) account_version: i64,
    pub(crate) probed_at: Option<Timestamp>,
    /// What its lane's last owner kept.
    pub(crate) gate: Option<KeptGate>,
    pub(crate) lane: LaneSettings,
    on_dead_letter: OnDeadLetter,
    pub(crate) url: String,
    pub(crate) ready: Result<Ready, String>,
    policy: RetryPolicy,
    timeout: Duration,
    signing: Signing,
    /// Routes with settings of their own.
    overrides: HashMap<RouteId, Route>,
}

/// What every request to this destination has in common.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    /// The same headers as people may see them.
    pub(crate) shown: Vec<(String, String)>,
    pub(crate) forward: Vec<HeaderName>,
    secret: SigningSecret,
    previous: Option<(SigningSecret, Timestamp)>,
}

impl Prepared {
    pub(crate) fn new(target: Target, master_keys: &MasterKeys) -> Self {
        let (destination, unreadable) = match target.destination {
            Ok(destination) => (destination, None),
            Err(reason) => {
                let blank = Destination::new(target.id, target.account_id, "", "", Timestamp::MIN);
                (blank, Some(format!("its settings cannot be read: {reason}")))
            }
        };
        let ready = match unreadable {
            Some(reason) => Err(reason),
            None => master_keys
                .data_key(target.account_id, &target.data_key)
                .map_err(|error| format!("its account's data key: {error}"))
                .and_then(|key| Ready::new(&destination, &key)),
        };
        let overrides: HashMap<_, _> = target.overrides.into_iter().map(|route| (route.id, route)).collect();
        let own_age = |route: &Route| Some((route.id, route.retry_policy.as_ref()?.expire_after));
        let lane = LaneSettings {
            max_concurrency: destination.max_concurrency.clamp(1, limits::MAX_CONCURRENCY_MAX),
            rate_limit: destination.rate_limit,
            ordering: destination.ordering,
            mode: mode(&destination.switch),
            resumed_at: destination.switch.resumed_at,
            expire_after: destination.retry_policy.expire_after,
            expire_after_by_route: overrides.values().filter_map(own_age).collect(),
        };
        Self {
            account_id: target.account_id,
            name: destination.name.into(),
            account_version: target.account_version,
            probed_at: destination.switch.probed_at,
            gate: target.gate,
            on_dead_letter: destination.on_dead_letter,
            lane,
            url: destination.url,
            ready,
            policy: destination.retry_policy,
            timeout: destination.timeout.clamp(Duration::from_secs(1), limits::TIMEOUT_MAX),
            signing: destination.signing,
            overrides,
        }
    }

    /// A destination whose row is gone: nothing can be delivered to it any more.
    pub(crate) fn missing(id: DestinationId) -> Self {
        let mut blank = Destination::new(id, AccountId::MIN, "", "", Timestamp::MIN);
        blank.switch.deleted_at = Some(Timestamp::MIN);
        let target = Target {
            id,
            account_id: AccountId::MIN,
            account_version: 0,
            shard: id.shard(),
            destination: Ok(blank),
            data_key: Default::default(),
            overrides: Vec::new(),
            gate: None,
        };
        let no_keys = MasterKeys::parse(&STANDARD.encode([0; 32])).expect("32 bytes are a key");
        Self::new(target, &no_keys)
    }

    /// What follows for the destination when one of its deliveries is settled like this.
    pub(crate) fn consequence(&self, settled: Settled) -> Option<Consequence> {
        let dead = matches!(settled, Settled::Ended(Ending::DeadLetter(_)));
        let pauses = self.lane.mode == Mode::Deliver && self.lane.ordering != Ordering::None;
        (dead && pauses && self.on_dead_letter == OnDeadLetter::Pause).then_some(Consequence::Pauses)
    }

    pub(crate) fn policy(&self, route: RouteId) -> &RetryPolicy {
        self.overrides.get(&route).and_then(|route| route.retry_policy.as_ref()).unwrap_or(&self.policy)
    }

    pub(crate) fn timeout(&self, route: RouteId) -> Duration {
        self.overrides.get(&route).and_then(Route::timeout).unwrap_or(self.timeout)
    }

    pub(crate) fn signing(&self, route: RouteId) -> Signing {
        self.overrides.get(&route).and_then(|route| route.signing).unwrap_or(self.signing)
    }
}

impl Ready {
    fn new(destination: &Destination, key: &DataKey) -> Result<Self, String> {
        let uri = destination.url.parse::<Uri>().map_err(|_| "its URL cannot be used".to_owned())?;
        let mut headers = HeaderMap::new();
        let mut shown = Vec::new();
        headers.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        for (name, value) in &destination.headers {
            insert(&mut headers, name, value)?;
            shown.push((name.clone(), value.clone()));
        }
        for (name, value) in auth_headers(destination, key)? {
            insert(&mut headers, &name, &value)?;
            shown.push((name, "***".into()));
        }
        let forward = destination.forward_headers.iter().map(|name| name.parse::<HeaderName>());
        let forward =
            forward.collect::<Result<_, _>>().map_err(|_| "a forwarded header's name is not valid")?;
        let place = Destination::secret_place(destination.id);
        let open = |sealed| -> Result<SigningSecret, String> {
            let plain = key.open(&place, sealed).map_err(|error| format!("its signing secret: {error}"))?;
            let text = std::str::from_utf8(&plain).map_err(|_| "its signing secret is not text")?;
            text.parse().map_err(|error| format!("its signing secret: {error}"))
        };
        let previous = match &destination.secret.previous {
            Some(previous) => Some((open(&previous.secret)?, previous.until)),
            None => None,
        };
        Ok(Self { uri, headers, shown, forward, secret: open(&destination.secret.current)?, previous })
    }

    /// The new secret signs first; the old one signs too until the overlap ends.
    pub(crate) fn signature(
        &self,
        signing: Signing,
        id: &str,
        now: Timestamp,
        body: &[u8],
    ) -> Option<String> {
        if signing.scheme == Scheme::None {
            return None;
        }
        let previous = self.previous.as_ref().filter(|(_, until)| now < *until).map(|(secret, _)| secret);
        let secrets = std::iter::once(&self.secret).chain(previous);
        Some(domain::signature::sign(secrets, id, now.seconds(), body))
    }
}

fn mode(switch: &Switch) -> Mode {
    if let Some(since) = switch.deleted_at {
        Mode::End { with: Ending::Cancelled(CancelReason::DestinationDeleted), since }
    } else if let Some(disabled) = &switch.disabled {
        Mode::End { with: Ending::DeadLetter(DeadReason::DestinationDisabled), since: disabled.at }
    } else if let Some(since) = switch.paused_at {
        Mode::Paused { since }
    } else {
        Mode::Deliver
    }
}

fn auth_headers(destination: &Destination, key: &DataKey) -> Result<Vec<(String, String)>, String> {
    let place = Destination::auth_place(destination.id);
    let open = |sealed| -> Result<String, String> {
        let plain = key.open(&place, sealed).map_err(|error| format!("its credentials: {error}"))?;
        String::from_utf8(plain.to_vec()).map_err(|_| "its credentials are not text".into())
    };
    Ok(match &destination.auth {
        Auth::None => Vec::new(),
        Auth::Bearer { token } => vec![("authorization".into(), format!("Bearer {}", open(token)?))],
        Auth::Basic { username, password } => {
            let pair = STANDARD.encode(format!("{username}:{}", open(password)?));
            vec![("authorization".into(), format!("Basic {pair}"))]
        }
        Auth::Headers { headers } => {
            let opened = headers.iter().map(|(name, value)| Ok((name.clone(), open(value)?)));
            opened.collect::<Result<_, String>>()?
        }
    })
}

fn insert(headers: &mut HeaderMap, name: &str, value: &str) -> Result<(), String> {
    let name =
        name.parse::<HeaderName>().map_err(|_| format!("the header name `{name:.64}` is not valid"))?;
    let mut value =
        HeaderValue::from_str(value).map_err(|_| format!("the value of header `{name}` is not valid"))?;
    value.set_sensitive(true);
    headers.append(name, value);
    Ok(())
}

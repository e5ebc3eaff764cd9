//! A destination made ready: what its lane goes by, and its sink. Done once per change, used for every attempt.
//!
//! What cannot be made ready is not an error here: its deliveries end as `undeliverable`, with the reason.

use crate::sink::{Sink, Sinks, Unready};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use domain::{
    delivery::{CancelReason, Ending, Settled},
    delivery_settings::{DeliverySettings, EffectiveSettings},
    destination::{Destination, OnDeadLetter, Ordering, Signing, Switch},
    id::{AccountId, DestinationId, RouteId},
    lane::{LaneMode, LaneSettings},
    outcome::{DeadReason, Fault},
    retry::RetryPolicy,
    route::Route,
    seal::MasterKeys,
    time::Timestamp,
};
use std::{collections::HashMap, fmt, sync::Arc, time::Duration};
use store::{Consequence, DestinationRecord, KeptGate};

pub(crate) struct PreparedDestination {
    pub(crate) account_id: AccountId,
    pub(crate) name: Arc<str>,
    /// The account's version when it was read: later changes are for the watch to find.
    pub(crate) account_version: i64,
    pub(crate) probed_at: Option<Timestamp>,
    /// What its lane's last owner kept.
    pub(crate) gate: Option<KeptGate>,
    pub(crate) lane: LaneSettings,
    /// What is kept of an attempt is sealed.
    pub(crate) encrypts: bool,
    on_dead_letter: OnDeadLetter,
    pub(crate) url: String,
    pub(crate) sink: Result<Box<dyn Sink>, Unready>,
    policy: RetryPolicy,
    timeout: Duration,
    signing: Signing,
    /// Routes with settings of their own, and what holds for them.
    overrides: HashMap<RouteId, RouteSettings>,
}

struct RouteSettings {
    policy: RetryPolicy,
    timeout: Duration,
    signing: Signing,
}

impl fmt::Debug for PreparedDestination {
    /// Its URL and what its sink knows may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedDestination").field("name", &self.name).finish_non_exhaustive()
    }
}

impl PreparedDestination {
    /// `defaults` are the installation's.
    pub(crate) fn new(
        record: DestinationRecord,
        defaults: &DeliverySettings,
        master_keys: &MasterKeys,
        sinks: &Sinks,
    ) -> Self {
        let account_defaults = record.account_defaults;
        let (destination, unreadable) = match record.destination {
            Ok(destination) => (destination, None),
            Err(reason) => {
                let blank = Destination::new(record.id, record.account_id, "", "", Timestamp::MIN);
                (blank, Some(format!("its settings cannot be read: {reason}")))
            }
        };
        let unbuildable = |reason| Unready::new(Fault::Unbuildable, reason);
        let sink = match unreadable {
            Some(reason) => Err(unbuildable(reason)),
            None => master_keys
                .data_key(record.account_id, &record.data_key)
                .map_err(|error| unbuildable(format!("its account's data key: {error}")))
                .and_then(|key| sinks.prepare(&destination, &key)),
        };
        let found = EffectiveSettings::new(&destination.settings, &account_defaults, defaults);
        let of_route = |route: &Route| RouteSettings {
            policy: found.policy_by(route),
            timeout: found.timeout_by(route),
            signing: route.signing.clone().unwrap_or_else(|| destination.signing.clone()),
        };
        let overrides: HashMap<_, _> =
            record.overrides.iter().map(|route| (route.id, of_route(route))).collect();
        let own_ages = overrides.iter().map(|(id, route)| (*id, route.policy.expire_after));
        let own_ages = own_ages.filter(|(_, age)| *age != found.expire_after.value);
        let lane = LaneSettings {
            max_concurrency: found.max_concurrency.value,
            rate_limit: destination.rate_limit,
            ordering: destination.ordering,
            mode: mode(&destination.switch),
            resumed_at: destination.switch.resumed_at,
            expire_after: found.expire_after.value,
            expire_after_by_route: own_ages.collect(),
        };
        Self {
            account_id: record.account_id,
            name: destination.name.into(),
            account_version: record.account_version,
            probed_at: destination.switch.probed_at,
            gate: record.gate,
            on_dead_letter: destination.on_dead_letter,
            encrypts: record.encrypts,
            lane,
            url: destination.url,
            sink,
            policy: found.retry_policy(),
            timeout: found.timeout.value,
            signing: destination.signing,
            overrides,
        }
    }

    /// A destination whose row is gone: nothing can be delivered to it any more.
    pub(crate) fn missing(id: DestinationId) -> Self {
        let mut blank = Destination::new(id, AccountId::MIN, "", "", Timestamp::MIN);
        blank.switch.deleted_at = Some(Timestamp::MIN);
        let record = DestinationRecord {
            id,
            account_id: AccountId::MIN,
            account_version: 0,
            shard: id.shard(),
            destination: Ok(blank),
            account_defaults: DeliverySettings::default(),
            data_key: Default::default(),
            encrypts: false,
            overrides: Vec::new(),
            gate: None,
        };
        let no_keys = MasterKeys::parse(&STANDARD.encode([0; 32])).expect("32 bytes are a key");
        Self::new(record, &DeliverySettings::default(), &no_keys, &Sinks::default())
    }

    /// What an attempt takes of memory for a payload of so many bytes.
    pub(crate) fn memory_for(&self, payload_bytes: usize) -> usize {
        self.sink.as_ref().map_or(payload_bytes, |sink| sink.memory_for(payload_bytes))
    }

    /// What follows for the destination when one of its deliveries is settled like this.
    pub(crate) fn consequence(&self, settled: Settled) -> Option<Consequence> {
        let dead = matches!(settled, Settled::Ended(Ending::DeadLetter(_)));
        let pauses = self.lane.mode == LaneMode::Deliver && self.lane.ordering != Ordering::None;
        (dead && pauses && self.on_dead_letter == OnDeadLetter::Pause).then_some(Consequence::Pauses)
    }

    pub(crate) fn policy(&self, route: RouteId) -> &RetryPolicy {
        self.overrides.get(&route).map_or(&self.policy, |route| &route.policy)
    }

    pub(crate) fn timeout(&self, route: RouteId) -> Duration {
        self.overrides.get(&route).map_or(self.timeout, |route| route.timeout)
    }

    pub(crate) fn signing(&self, route: RouteId) -> &Signing {
        self.overrides.get(&route).map_or(&self.signing, |route| &route.signing)
    }
}

fn mode(switch: &Switch) -> LaneMode {
    if let Some(since) = switch.deleted_at {
        LaneMode::End { with: Ending::Cancelled(CancelReason::DestinationDeleted), since }
    } else if let Some(disabled) = &switch.disabled {
        LaneMode::End { with: Ending::DeadLetter(DeadReason::DestinationDisabled), since: disabled.at }
    } else if let Some(since) = switch.paused_at {
        LaneMode::Paused { since }
    } else {
        LaneMode::Deliver
    }
}

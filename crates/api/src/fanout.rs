//! Which deliveries an event gives rise to. The walk over the routes stops where it knows enough: a large fan-out is
//! admitted as fast as a small one, and made later, by an expansion.

use crate::{error::ApiError, matching::Matching, snapshot::Snapshot};
use domain::{
    delivery::Position,
    dice::Dice,
    event::Event,
    id::DeliveryId,
    limits,
    route::{Candidate, Route},
    time::Timestamp,
};
use std::sync::Arc;
use store::NewDelivery;

/// What an event is committed with.
#[derive(Debug)]
pub(crate) struct Matched {
    pub(crate) deliveries: Vec<NewDelivery>,
    /// There are more than one commit takes: an expansion makes all others.
    pub(crate) expands: bool,
}

impl Matching {
    /// One delivery per matching route, or an expansion.
    pub(crate) async fn match_event(
        &self,
        event: &Arc<Event>,
        snapshot: &Arc<Snapshot>,
        dice: &Arc<dyn Dice>,
        now: Timestamp,
    ) -> Result<Matched, ApiError> {
        let (routes, payload) = (snapshot.table.count(event.source_id), event.payload.len());
        let (event, snapshot, dice) = (event.clone(), snapshot.clone(), dice.clone());
        self.run(routes, payload, move || match_event(&event, &snapshot, &*dice, now)).await?
    }
}

fn match_event(
    event: &Event,
    snapshot: &Snapshot,
    dice: &dyn Dice,
    now: Timestamp,
) -> Result<Matched, ApiError> {
    let candidate = Candidate::of(event, &snapshot.table);
    // Where there may be more than an event may have, they must be counted.
    let exactly = snapshot.table.count(event.source_id) > limits::FANOUT;
    let enough = if exactly { limits::FANOUT } else { limits::FANOUT_INLINE };
    let (mut deliveries, mut count) = (Vec::new(), 0);
    for route in snapshot.table.of_source(event.source_id).filter(|route| route.takes(&candidate)) {
        count += 1;
        if count <= limits::FANOUT_INLINE {
            deliveries.push(promise(event, route, snapshot, dice, now));
        } else if count > enough {
            break;
        }
    }
    if count > limits::FANOUT {
        return Err(ApiError::quota_exceeded(format!(
            "the event matches more than {} routes",
            limits::FANOUT
        )));
    }
    let expands = count > limits::FANOUT_INLINE;
    if expands {
        deliveries = ordered(event, &candidate, snapshot, dice, now)?;
    }
    Ok(Matched { deliveries, expands })
}

/// The deliveries of a large event that are made at once: at an ordered destination, what is accepted later must not come
/// before it.
fn ordered(
    event: &Event,
    candidate: &Candidate<'_>,
    snapshot: &Snapshot,
    dice: &dyn Dice,
    now: Timestamp,
) -> Result<Vec<NewDelivery>, ApiError> {
    if snapshot.orderings.is_empty() {
        return Ok(Vec::new());
    }
    let routes = snapshot.table.of_source(event.source_id);
    let ordered = routes.filter(|route| snapshot.orderings.contains_key(&route.destination_id));
    let taken = ordered.filter(|route| route.takes(candidate)).take(limits::INGEST_BATCH_DELIVERIES + 1);
    let deliveries: Vec<_> = taken.map(|route| promise(event, route, snapshot, dice, now)).collect();
    if deliveries.len() > limits::INGEST_BATCH_DELIVERIES {
        let most = limits::INGEST_BATCH_DELIVERIES;
        return Err(ApiError::quota_exceeded(format!(
            "the event matches more than {most} ordered destinations"
        )));
    }
    Ok(deliveries)
}

fn promise(
    event: &Event,
    route: &Route,
    snapshot: &Snapshot,
    dice: &dyn Dice,
    now: Timestamp,
) -> NewDelivery {
    let due_at = event.deliver_at.map_or(now, |at| at.max(now));
    let id = DeliveryId::at(now, dice.bits());
    let ordering = snapshot.orderings.get(&route.destination_id).copied().unwrap_or_default();
    let (position, sequenced) = Position::new(ordering, event.ordering_key.as_deref(), due_at, now, id);
    NewDelivery {
        id,
        route_id: route.id,
        destination_id: route.destination_id,
        shard: route.destination_id.shard(),
        position,
        sequenced,
        due_at,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use domain::{
        id::{AccountId, DestinationId, RouteId},
        route::RouteTable,
        testing,
    };

    const NOW: Timestamp = Timestamp::from_seconds(1_790_000_000);

    struct Fixed;

    impl Dice for Fixed {
        fn bits(&self) -> u128 {
            7
        }
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(7);
        }
    }

    fn event() -> Event {
        testing::event(AccountId::MIN, NOW, 7)
    }

    /// So many routes, the last of which take everything and the others nothing.
    fn snapshot(count: usize, matching: usize) -> Snapshot {
        let route = |n: usize| Route {
            id: RouteId::at(NOW, (n as u128) << 16),
            account_id: AccountId::MIN,
            uid: None,
            name: None,
            enabled: true,
            source_id: None,
            destination_id: DestinationId::at(NOW, (n as u128) << 16),
            event_types: vec![if n < count - matching { "order.*" } else { "*" }.parse().expect("a pattern")],
            filter: None,
            retry_policy: None,
            timeout_seconds: None,
            signing: None,
            created_at: NOW,
            updated_at: NOW,
            version: 0,
        };
        Snapshot {
            version: 1,
            table: RouteTable::new((0..count).map(route).map(Arc::new)),
            orderings: Arc::default(),
        }
    }

    fn matched(count: usize, matching: usize) -> Result<(usize, bool), ApiError> {
        let matched = match_event(&event(), &snapshot(count, matching), &Fixed, NOW)?;
        Ok((matched.deliveries.len(), matched.expands))
    }

    #[test]
    fn a_fan_out_is_made_at_once_while_it_fits_into_one_commit() {
        let most = limits::FANOUT_INLINE;
        assert_eq!(matched(most, most).expect("few"), (most, false));
        assert_eq!(matched(most + 1, most + 1).expect("many"), (0, true));
        assert_eq!(matched(2 * most, most).expect("few of many"), (most, false));
    }

    #[test]
    fn a_fan_out_has_its_bound_however_many_routes_there_are() {
        let most = limits::FANOUT;
        assert_eq!(matched(most, most).expect("as many as may be"), (0, true));
        assert_eq!(matched(most + 2, most).expect("as many as may be, of more"), (0, true));
        assert_eq!(matched(most + 1, most + 1).expect_err("too many").code(), Code::QuotaExceeded);
    }
}

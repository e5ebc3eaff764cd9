//! What owners say about their lanes.

use crate::fixtures::*;
use domain::{
    destination::RateLimit,
    gate::{Hold, HoldReason},
    id::{DeliveryId, DestinationId},
    lane::Binding,
    time::Timestamp,
};
use std::time::Duration;
use store::LaneRow;

pub(crate) async fn a_lane_is_read_as_it_was_published(world: World) {
    let hold = |reason| Hold {
        reason,
        since: at(1),
        until: Some(at(60)),
        detail: "429 Too Many Requests".into(),
        step: Some(2),
        probing: true,
    };
    let reasons = [HoldReason::Throttle, HoldReason::Breaker, HoldReason::Paused, HoldReason::Disabled];
    let mut said = world.lanes(reasons.len() + 1).await;
    said.iter_mut().zip(reasons).for_each(|(lane, reason)| lane.hold = Some(hold(reason)));
    world.publish(&said, at(5)).await;
    let heard: Vec<LaneRow> = world.published(&said, at(4)).await.into_iter().flatten().collect();
    assert_eq!(heard, said);
}

pub(crate) async fn the_newest_word_about_a_lane_counts(world: World) {
    let first = world.lanes(1).await.remove(0);
    let later = LaneRow { in_flight: 7, ..first.clone() };
    world.publish(std::slice::from_ref(&first), at(5)).await;
    world.publish(std::slice::from_ref(&later), at(6)).await;
    assert_eq!(world.published(std::slice::from_ref(&first), at(0)).await, [Some(later.clone())]);
    world.publish(std::slice::from_ref(&first), at(5)).await;
    assert_eq!(world.published(&[first], at(0)).await, [Some(later)], "a former owner's late word");
}

pub(crate) async fn old_words_are_not_heard(world: World) {
    let said = world.lanes(1).await.remove(0);
    world.publish(std::slice::from_ref(&said), at(5)).await;
    let just_before = Timestamp::from_micros(at(5).micros() - 1);
    assert_eq!(world.published(std::slice::from_ref(&said), just_before).await, [Some(said.clone())]);
    assert_eq!(world.published(&[said], at(5)).await, [None]);
}

pub(crate) async fn lanes_are_answered_in_the_order_asked_for(world: World) {
    let said = world.lanes(300).await;
    world.publish(&said, at(5).plus(Duration::from_secs(1))).await;
    world.publish(&[], at(7)).await;
    let mut asked: Vec<LaneRow> = said.iter().rev().cloned().collect();
    asked.insert(150, lane(DestinationId::at(at(0), chance()), 0));
    let heard = world.published(&asked, at(5)).await;
    let expected = asked.iter().enumerate().map(|(place, lane)| (place != 150).then(|| lane.clone()));
    assert_eq!(heard, expected.collect::<Vec<_>>());
    assert_eq!(world.published(&[], at(5)).await, []);
}

pub(crate) async fn of_a_destination_that_is_gone_nothing_is_kept(world: World) {
    let said = lane(DestinationId::at(at(0), chance()), 1);
    world.publish(std::slice::from_ref(&said), at(5)).await;
    assert_eq!(world.published(&[said], at(0)).await, [None]);
}

impl World {
    /// Of so many destinations, each with other requests open.
    async fn lanes(&self, count: usize) -> Vec<LaneRow> {
        let account = self.account().await;
        let mut lanes = Vec::new();
        for in_flight in 0..count {
            lanes.push(lane(self.destination(&account).await.id, in_flight as u32));
        }
        lanes
    }

    async fn publish(&self, lanes: &[LaneRow], now: Timestamp) {
        self.store.publish_lanes(self.node.id, lanes, now).await.expect("they are written");
    }

    async fn published(&self, lanes: &[LaneRow], newer_than: Timestamp) -> Vec<Option<LaneRow>> {
        let ids: Vec<DestinationId> = lanes.iter().map(|lane| lane.destination_id).collect();
        self.store.published_lanes(&ids, newer_than).await.expect("they are read")
    }
}

fn binding() -> Binding {
    let rate = RateLimit { requests: 3, per_seconds: 60 };
    Binding {
        leaders: vec![(7, DeliveryId::MIN), (i64::MIN, DeliveryId::MAX)],
        full: Some((5, at(2))),
        ramps: true,
        paced: Some((rate, at(9))),
    }
}

fn lane(id: DestinationId, in_flight: u32) -> LaneRow {
    LaneRow {
        destination_id: id,
        shard: id.shard(),
        in_flight,
        hold: None,
        open: vec![DeliveryId::MAX],
        binding: binding(),
    }
}

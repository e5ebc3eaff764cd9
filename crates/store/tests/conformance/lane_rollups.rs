//! What the owners of lanes saw of them: each writes its own, and what is summed up is of all.

use crate::fixtures::{World, at, chance};
use domain::{id::NodeId, rollup::Span};
use std::time::Duration;
use store::{Chore, LanePlace, LaneRollup, Term};

const LEASE: Duration = Duration::from_secs(10);

pub(crate) async fn each_owner_writes_its_own_minutes(world: World) {
    let (ground, other) = (world.ground().await, world.ground().await);
    let (first, second) = (NodeId::at(at(0), 1), NodeId::at(at(0), 2));
    let row = |destination_id, seconds, doc: &str| LaneRollup {
        account_id: ground.account.id,
        destination_id,
        starts_at: at(seconds),
        doc: doc.into(),
    };
    let of = Some(ground.destination.id);
    world
        .store
        .write_lane_minutes(first, &[row(None, 0, "1"), row(of, 0, "2"), row(of, 60, "3")])
        .await
        .unwrap();
    world.store.write_lane_minutes(second, &[row(of, 0, "4")]).await.unwrap();
    world.store.write_lane_minutes(first, &[row(of, 0, "5")]).await.unwrap();
    world.store.write_lane_minutes(first, &[]).await.unwrap();
    let read = async |destination, from, to| {
        world
            .store
            .lane_rollups(ground.account.id, destination, Span::Minute, at(from), at(to))
            .await
            .unwrap()
    };
    assert_eq!(read(None, 0, 600).await, [(at(0), "1".into())]);
    assert_eq!(read(of, 0, 600).await, [(at(0), "5".into()), (at(0), "4".into()), (at(60), "3".into())]);
    assert_eq!(read(of, 1, 60).await, []);
    let foreign = world.store.lane_rollups(other.account.id, of, Span::Minute, at(0), at(600)).await.unwrap();
    assert_eq!(foreign, []);
    let hours = world.store.lane_rollups(ground.account.id, of, Span::Hour, at(0), at(600)).await.unwrap();
    assert_eq!(hours, [], "another span");
}

pub(crate) async fn a_minute_of_all_lanes_is_read_in_steps(world: World) {
    let mut grounds = [world.ground().await, world.ground().await];
    grounds.sort_by_key(|ground| ground.account.id);
    let node = NodeId::at(at(0), 1);
    let mut expected = Vec::new();
    for ground in &grounds {
        for destination_id in [None, Some(ground.destination.id)] {
            let account_id = ground.account.id;
            let row = LaneRollup { account_id, destination_id, starts_at: at(60), doc: "1".into() };
            world.store.write_lane_minutes(node, std::slice::from_ref(&row)).await.unwrap();
            let later = LaneRollup { starts_at: at(120), ..row };
            world.store.write_lane_minutes(node, &[later]).await.unwrap();
            expected.push((LanePlace { account_id, destination_id, node_id: node }, "1".to_owned()));
        }
    }
    for limit in [1, 3, 100] {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let step = world.store.lane_rollups_at(Span::Minute, at(60), after, limit).await.unwrap();
            let is_last = step.len() < limit;
            after = step.last().map(|(place, _)| *place);
            found.extend(step);
            if is_last {
                break;
            }
        }
        assert_eq!(found, expected, "{limit} a step");
    }
    assert_eq!(world.store.lane_rollups_at(Span::Minute, at(0), None, 9).await.unwrap(), []);
    assert_eq!(world.store.lane_rollups_at(Span::Hour, at(60), None, 9).await.unwrap(), []);
}

pub(crate) async fn hours_of_lanes_are_written_over_and_pruned_by_who_has_the_chore(world: World) {
    let ground = world.ground().await;
    let mine = term(&world).await;
    let row = |seconds, doc: &str| LaneRollup {
        account_id: ground.account.id,
        destination_id: None,
        starts_at: at(seconds),
        doc: doc.into(),
    };
    let node = NodeId::at(at(0), 1);
    world.store.write_lane_minutes(node, &[row(0, "minute")]).await.unwrap();
    let hours = [row(0, "1"), row(3_600, "2")];
    assert!(world.store.write_lane_rollups(mine, Span::Hour, &hours).await.unwrap());
    assert!(world.store.write_lane_rollups(mine, Span::Hour, &[row(0, "3")]).await.unwrap());
    let read =
        async |span| world.store.lane_rollups(ground.account.id, None, span, at(0), at(9_000)).await.unwrap();
    assert_eq!(read(Span::Hour).await, [(at(0), "3".into()), (at(3_600), "2".into())]);
    assert_eq!(read(Span::Day).await, []);
    assert_eq!(world.store.prune_lane_rollups(mine, Span::Hour, at(9_000), 1).await.unwrap(), Some(1));
    assert_eq!(world.store.prune_lane_rollups(mine, Span::Hour, at(3_600), 9).await.unwrap(), Some(0));
    assert_eq!(read(Span::Hour).await, [(at(3_600), "2".into())]);
    assert_eq!(read(Span::Minute).await, [(at(0), "minute".into())]);

    if !world.backend.has_many_nodes() {
        return;
    }
    let other = NodeId::at(at(0), chance());
    assert!(world.store.take_chore(Chore::RollUp, other, at(1_000), LEASE).await.unwrap().is_some());
    assert!(!world.store.write_lane_rollups(mine, Span::Hour, &[row(3_600, "4")]).await.unwrap());
    assert_eq!(world.store.prune_lane_rollups(mine, Span::Minute, at(9_000), 9).await.unwrap(), None);
    assert_eq!(read(Span::Hour).await, [(at(3_600), "2".into())]);
    assert_eq!(read(Span::Minute).await, [(at(0), "minute".into())]);
}

async fn term(world: &World) -> Term {
    let taken = world.store.take_chore(Chore::RollUp, world.node.id, at(0), LEASE).await.unwrap();
    taken.expect("nobody else has it")
}

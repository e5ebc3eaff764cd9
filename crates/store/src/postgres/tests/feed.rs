//! The feed and the order of commits: what becomes visible late is told late, and once.

use super::{World, delivered, open};
use crate::{
    Feed as _, FeedChange, Followed, Queue as _, Rollups as _,
    postgres::{feed::FEED_FACTS, rollup::SUM_FRESH, statement::params},
};
use domain::{id::AttemptId, limits, rollup::Span};
use std::{collections::BTreeSet, time::Duration};

/// Like an attempt that is there, of another delivery.
const COPY_A_FACT: &str = "insert into attempts (delivery_id, attempt_id, account_id, event_id, destination_id, route_id,
        origin, number, attempts, spent, started_at, duration_us, outcome, http_status, detail, node_id, ending, reason,
        ended_at, late)
    select $1, $2, account_id, event_id, destination_id, route_id, $1, number, attempts, spent, started_at, duration_us,
        outcome, http_status, detail, node_id, ending, reason, ended_at, late
    from attempts limit 1";

/// A transaction that began early, with the lower id, and ends after others have been told.
#[tokio::test]
async fn what_commits_late_is_told_although_its_id_is_lower() {
    let world = World::new().await;
    let ground = world.ground().await;
    world.commit(&ground.events(world.now, 3)).await;
    let lane = world.lane(&ground).await;
    let place = world.store.feed_end(world.now).await.expect("the end");
    world.store.settle(world.node, &[delivered(&lane[0], world.node)], world.now).await.expect("settled");

    // The second is written by hand, as the first was, by somebody who is slow to commit.
    let earlier = AttemptId::at(world.now.minus(Duration::from_secs(30)), 1).uuid();
    world.client.batch_execute("begin").await.expect("a transaction");
    world.client.execute(COPY_A_FACT, &[&lane[1].id.uuid(), &earlier]).await.expect("a fact");
    let followed = Followed { accounts: &[ground.account_id], events: false };
    let page = world.store.feed(followed, &place, 10, world.now).await.expect("a page");
    assert_eq!((page.entries.len(), page.more), (1, false));

    world.store.settle(world.node, &[delivered(&lane[2], world.node)], world.now).await.expect("settled");
    world.client.batch_execute("commit").await.expect("at last");
    let page = world.store.feed(followed, &page.next, 10, world.now).await.expect("a page");
    let told: BTreeSet<_> = page
        .entries
        .iter()
        .filter_map(|entry| match &entry.change {
            FeedChange::Delivery(fact) => Some(fact.delivery_id),
            FeedChange::Event(_) | FeedChange::Hold(..) => None,
        })
        .collect();
    assert_eq!(told, BTreeSet::from([lane[1].id, lane[2].id]));
    assert_eq!(world.store.feed(followed, &page.next, 10, world.now).await.expect("a page").entries, []);
    world.clean_up().await;
}

/// The same for sums: what was open when a minute was looked at is added to it once it is there, and nothing twice.
#[tokio::test]
async fn what_commits_late_is_added_to_its_minute() {
    let world = World::new().await;
    let ground = world.ground().await;
    world.commit(&ground.events(world.now, 3)).await;
    let lane = world.lane(&ground).await;
    let minute = Span::Minute.start_of(world.now);
    let end = minute.plus(Span::Minute.length());
    let mut place = None;
    let mut added = async || {
        let fresh = world.store.sum_fresh(minute, end, place.take()).await.expect("sums");
        assert!(!fresh.more);
        place = Some(fresh.place);
        fresh.sums.iter().map(|(_, sums)| sums.attempts()).sum::<u64>()
    };
    world.store.settle(world.node, &[delivered(&lane[0], world.node)], world.now).await.expect("settled");
    world.client.batch_execute("begin").await.expect("a transaction");
    let earlier = AttemptId::at(minute, 1).uuid();
    world.client.execute(COPY_A_FACT, &[&lane[1].id.uuid(), &earlier]).await.expect("a fact");
    assert_eq!(added().await, 1);
    world.store.settle(world.node, &[delivered(&lane[2], world.node)], world.now).await.expect("settled");
    assert_eq!(added().await, 1, "the other one is still being written");
    world.client.batch_execute("commit").await.expect("at last");
    assert_eq!((added().await, added().await), (1, 0));
    world.clean_up().await;
}

/// Three nodes settle and one follows, in pages that are too small.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_follows_several_nodes_at_work_hears_everything_once() {
    const EACH: usize = 150;
    let world = World::new().await;
    let ground = world.ground().await;
    world.commit(&ground.events(world.now, 3 * EACH)).await;
    let lane = world.lane(&ground).await;
    let mut place = world.store.feed_end(world.now).await.expect("the end");
    let mut nodes = tokio::task::JoinSet::new();
    for part in lane.chunks(EACH) {
        let settlements: Vec<_> = part.iter().map(|delivery| delivered(delivery, world.node)).collect();
        let (schema, node, now) = (world.schema.clone(), world.node, world.now);
        nodes.spawn(async move {
            let store = open(&schema, "").await.expect("another node opens");
            for few in settlements.chunks(7) {
                store.settle(node, few, now).await.expect("settled");
            }
        });
    }
    let (mut told, mut over) = (Vec::new(), false);
    loop {
        let page = world
            .store
            .feed(Followed { accounts: &[ground.account_id], events: true }, &place, 20, world.now)
            .await
            .expect("a page");
        told.extend(page.entries.iter().map(|entry| entry.stamp.0));
        let quiet = page.entries.is_empty() && !page.more;
        place = page.next;
        if over && quiet {
            break;
        }
        if quiet {
            over = nodes.join_next().await.is_none();
        }
    }
    assert_eq!(told.len(), 3 * EACH);
    world.clean_up().await;
}

/// The tail is found by block ranges, not by reading every day from its beginning.
#[tokio::test]
async fn a_look_at_the_feed_goes_by_block_ranges() {
    let world = World::new().await;
    let ground = world.ground().await;
    let sql = "insert into attempts (delivery_id, attempt_id, account_id, event_id, destination_id, route_id, origin,
                   attempts, spent, ending, reason, ended_at, late)
               select $1, overlay($2::text placing lpad(to_hex(n), 8, '0') from 1 for 8)::uuid, $3, $1, $4, $1, $1,
                   0, 0, 'cancelled', 'requested', 1, false
               from generate_series(1, 60000) n";
    let (id, account) = (AttemptId::at(world.now, 5).uuid(), ground.account_id.uuid());
    let text = id.to_string();
    world
        .client
        .execute(sql, &[&id, &text, &account, &ground.destination.id.uuid()])
        .await
        .expect("a long past");
    world.client.batch_execute("analyze attempts").await.expect("statistics");
    let minute = Span::Minute.length();
    world.store.sum_facts(Span::Minute, world.now.minus(minute), world.now, None).await.expect("a sum");
    let left = "select sum(brin_summarize_new_values(i.inhrelid))::bigint from pg_inherits i
                where i.inhparent = 'attempts_by_time'::regclass";
    let left: i64 = world.client.query_one(left, &[]).await.expect("summaries").get(0);
    assert_eq!(left, 0, "who sums up has the ranges summarised first");
    let from = AttemptId::at(world.now.minus(limits::FEED_LOOKBACK), 0).uuid();
    let params = params![
        account_ids: vec![account] => UUID_ARRAY, from_attempt_id: from => UUID,
        below_attempt_id: None::<uuid::Uuid> => UUID, seen_oldest: 1_i64 => INT8, seen_next: 2_i64 => INT8,
        seen_open: Vec::<i64>::new() => INT8_ARRAY, until_next: None::<i64> => INT8,
        until_open: None::<Vec<i64>> => INT8_ARRAY, limit: 500_i64 => INT8,
    ];
    let plan = world.explain(&FEED_FACTS, params).await;
    assert!(plan.contains("Bitmap Index Scan on attempts_"), "{plan}");
    let below = AttemptId::at(world.now.plus(minute), 0).uuid();
    let params = params![
        from_attempt_id: from => UUID, below_attempt_id: below => UUID, from_delivery_id: uuid::Uuid::nil() => UUID,
        bucket_bounds: vec![1_i64] => INT8_ARRAY, seen_oldest: Some(1_i64) => INT8, seen_next: Some(2_i64) => INT8,
        seen_open: Some(Vec::<i64>::new()) => INT8_ARRAY,
    ];
    let plan = world.explain(&SUM_FRESH, params).await;
    assert!(plan.contains("Bitmap Index Scan on attempts_"), "{plan}");
    world.clean_up().await;
}

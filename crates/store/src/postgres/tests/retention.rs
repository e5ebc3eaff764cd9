//! Days that go as a whole.

use super::{Ground, World, delivered};
use crate::{
    Chore, Chores as _, DeadLetters as _, Dismissal, EventWalk, FactWalk, GroupFilter, NewEvent,
    PreparedEvent, Retention as _, Term,
    postgres::{
        partitions::Day,
        retention::{
            DELIVERY_DAY_NEEDED, ENDED_OF_EVENTS, EVENT_DAY_NEEDED, FORGET_DELIVERIES, FORGET_EVENTS,
            FORGET_MADE, OLD_EVENTS, PRUNE_FACTS, STRAYED_FACTS,
        },
        rollup::FANOUTS,
        statement::params,
    },
};
use crate::{Ingest as _, Queue as _};
use domain::{
    event::Event,
    id::{DeliveryId, EventId},
    limits,
    testing::audit_entry,
    time::Timestamp,
};
use std::time::Duration;

const DAY: Duration = Duration::from_secs(86_400);

#[tokio::test]
async fn a_day_that_nothing_needs_is_dropped() {
    let world = World::new().await;
    let ground = world.ground().await;
    let old = world.now.minus(10 * DAY);
    world.days(old).await;
    world.ended(&ground, old, 20).await;
    world.ended(&ground, world.now, 5).await;
    assert_eq!(world.count("events").await, 25);
    let (events, attempts) = (world.tables("events").await, world.tables("attempts").await);

    world.prune_days(world.now.minus(8 * DAY)).await;
    assert_eq!((world.count("events").await, world.count("attempts").await), (5, 5));
    // The day and the one before it; the days made around it that lie beyond the horizon stay.
    assert!(world.tables("events").await < events && world.tables("attempts").await < attempts);
    world.clean_up().await;
}

#[tokio::test]
async fn a_day_that_is_dropped_takes_its_counts_along() {
    let world = World::new().await;
    let ground = world.ground().await;
    let old = world.now.minus(10 * DAY);
    world.days(old).await;
    world.ended(&ground, old, 3).await;
    world.ended(&ground, world.now, 2).await;
    let dead = "with gone as (delete from attempts returning *) \
                insert into attempts select (jsonb_populate_record(null::attempts, to_jsonb(gone) \
                || '{\"ending\": \"dead_letter\", \"reason\": \"exhausted\"}')).* from gone";
    world.client.batch_execute(dead).await.expect("they are dead letters");
    let counted = async || {
        let groups = world
            .store
            .dead_letter_groups(ground.account_id, GroupFilter::default(), None, 10)
            .await
            .expect("groups");
        groups.iter().map(|group| group.count).collect::<Vec<_>>()
    };
    assert_eq!(counted().await, [5]);
    // What was settled goes too, though not with its table.
    let all =
        world.client.query("select delivery_id from attempts order by delivery_id", &[]).await.expect("ids");
    let ids: Vec<_> = all.iter().map(|row| DeliveryId::from_uuid(row.get(0))).collect();
    let dismissal = Dismissal {
        account_id: ground.account_id,
        delivery_ids: vec![ids[0], ids[2], ids[3]],
        dismissed_by: domain::id::ApiKeyId::MIN.into(),
        note: None,
        at: world.now,
    };
    assert_eq!(world.store.dismiss(&dismissal, &audit_entry()).await.expect("a dismissal"), 3);
    assert_eq!((counted().await, world.count("settled_dead_letters").await), (vec![2], 3));
    world.prune_days(world.now.minus(8 * DAY)).await;
    assert_eq!((counted().await, world.count("settled_dead_letters").await), (vec![1], 1));
    world.clean_up().await;
}

#[tokio::test]
async fn a_day_that_is_dropped_takes_its_tags_along() {
    let world = World::new().await;
    let ground = world.ground().await;
    let old = world.now.minus(10 * DAY);
    world.days(old).await;
    let tag = async |at: Timestamp| {
        let new = ground.event(at, None);
        let event = Event { tags: vec!["a".into(), "b".into()], ..Event::clone(new.event.event()) };
        let new = NewEvent { event: PreparedEvent::new(event), deliveries: Vec::new(), ..new };
        world.commit(std::slice::from_ref(&new)).await;
    };
    let counts = async || (world.count("events").await, world.count("event_tags").await);
    tag(old).await;
    tag(world.now).await;
    assert_eq!(counts().await, (2, 4));
    assert_eq!(world.count("event_tags_default").await, 0);
    world.prune_days(world.now.minus(8 * DAY)).await;
    assert_eq!(counts().await, (1, 2));

    // A node of the version before makes no day for tags, and drops none.
    let older = world.now.minus(20 * DAY);
    world.days(older).await;
    tag(older).await;
    let day = older.to_string()[..10].replace('-', "");
    let next = format!("insert into event_tags select account_id, 'left', id from events_p{day}");
    world.client.batch_execute(&next).await.expect("written");
    let dropped = format!("alter table events detach partition events_p{day}; drop table events_p{day}");
    world.client.batch_execute(&dropped).await.expect("dropped");
    assert_eq!(counts().await, (1, 5));
    world.prune_days(world.now.minus(8 * DAY)).await;
    assert_eq!(counts().await, (1, 2), "what was left of it goes too");
    world.clean_up().await;
}

#[tokio::test]
async fn tags_that_have_no_day_go_with_their_events_day() {
    let world = World::new().await;
    let ground = world.ground().await;
    let old = world.now.minus(10 * DAY);
    world.days(old).await;
    let day = old.to_string()[..10].replace('-', "");
    let without =
        format!("alter table event_tags detach partition event_tags_p{day}; drop table event_tags_p{day}");
    world.client.batch_execute(&without).await.expect("dropped");
    let new = ground.event(old, None);
    let event = Event { tags: vec!["a".into()], ..Event::clone(new.event.event()) };
    let new = NewEvent { event: PreparedEvent::new(event), deliveries: Vec::new(), ..new };
    world.commit(std::slice::from_ref(&new)).await;
    assert_eq!(world.count("event_tags_default").await, 1);
    world.prune_days(world.now.minus(8 * DAY)).await;
    assert_eq!((world.count("events").await, world.count("event_tags").await), (0, 0));
    world.clean_up().await;
}

#[tokio::test]
async fn a_day_that_something_needs_stays_and_loses_the_rest_row_by_row() {
    let world = World::new().await;
    let ground = world.ground().await;
    let old = world.now.minus(10 * DAY);
    world.days(old).await;
    let waiting = ground.event(old, None);
    world.commit(std::slice::from_ref(&waiting)).await;
    let needed = world.lane(&ground).await.remove(0);
    world.ended(&ground, old, 10).await;

    world.prune_days(world.now.minus(2 * DAY)).await;
    assert_eq!((world.count("events").await, world.count("attempts").await), (11, 10), "nothing is dropped");
    world.prune_rows(&ground, world.now.minus(2 * DAY)).await;
    assert_eq!((world.count("events").await, world.count("attempts").await), (1, 0), "but what waits");
    assert!(world.store.payload(waiting.event.id).await.expect("a read").is_some());

    world.store.settle(world.node, &[delivered(&needed, world.node)], world.now).await.expect("settled");
    world.prune_days(world.now.minus(2 * DAY)).await;
    assert_eq!((world.count("events").await, world.count("attempts").await), (0, 0));
    world.clean_up().await;
}

#[tokio::test]
async fn a_kept_events_facts_in_later_days_stay() {
    let world = World::new().await;
    let ground = world.ground().await;
    let (old, next) = (world.now.minus(10 * DAY), world.now.minus(9 * DAY));
    world.days(old).await;
    world.days(next).await;
    // Two deliveries of one event: one ended the day after, one waits.
    let mut event = ground.event(old, None);
    let mut second = event.deliveries[0].clone();
    second.id = DeliveryId::at(next, rand::random());
    second.position.delivery_id = second.id;
    event.deliveries.push(second.clone());
    world.commit(std::slice::from_ref(&event)).await;
    let lane = world.lane(&ground).await;
    let ended = lane.iter().find(|delivery| delivery.id == second.id).expect("it waits");
    world.store.settle(world.node, &[delivered(ended, world.node)], world.now).await.expect("settled");

    world.prune_days(world.now.minus(2 * DAY)).await;
    assert_eq!((world.count("events").await, world.count("attempts").await), (1, 1));
    let first = lane.iter().find(|delivery| delivery.id != second.id).expect("it waits");
    world.store.settle(world.node, &[delivered(first, world.node)], world.now).await.expect("settled");
    world.prune_days(world.now.minus(2 * DAY)).await;
    assert_eq!((world.count("events").await, world.count("attempts").await), (0, 0), "strays go too");
    world.clean_up().await;
}

#[tokio::test]
async fn what_has_no_day_of_its_own_goes_row_by_row() {
    let world = World::new().await;
    let ground = world.ground().await;
    let old = world.now.minus(100 * DAY);
    world.ended(&ground, old, 10).await;
    assert_eq!(world.count("events_default").await, 10);
    world.prune_days(world.now.minus(90 * DAY)).await;
    world.prune_rows(&ground, world.now.minus(90 * DAY)).await;
    assert_eq!((world.count("events_default").await, world.count("attempts_default").await), (0, 0));
    world.clean_up().await;
}

#[tokio::test]
async fn a_day_that_somebody_reads_is_dropped_later_and_nobody_waits_for_it() {
    let world = World::new().await;
    let ground = world.ground().await;
    let old = world.now.minus(10 * DAY);
    world.days(old).await;
    world.ended(&ground, old, 3).await;
    let reader = super::connect(&world.schema).await;
    reader.batch_execute("begin; select count(*) from events").await.expect("a long read");
    let term = world.term().await;
    let pruning = world.store.prune_days(term, world.now.minus(2 * DAY));
    let ingest = async {
        let mut slowest = Duration::ZERO;
        for _ in 0..30 {
            let begun = std::time::Instant::now();
            world.store.commit(&ground.events(world.now, 1), world.now).await.expect("a commit");
            slowest = slowest.max(begun.elapsed());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        slowest
    };
    let (pruned, slowest) = tokio::join!(pruning, ingest);
    assert_eq!(pruned.expect("no trouble"), Some(0), "not while it is read");
    assert_eq!(world.count("events").await, 33);
    assert!(slowest < Duration::from_millis(500), "an event waited {slowest:?}");
    reader.batch_execute("rollback").await.expect("the reader is done");
    world.prune_days(world.now.minus(2 * DAY)).await;
    assert_eq!(world.count("attempts").await, 0);
    world.clean_up().await;
}

#[tokio::test]
async fn on_a_young_table_too_what_is_looked_for_is_found_by_keys() {
    let world = World::new().await;
    let ground = world.ground().await;
    let day = Day::named("p20260101").expect("a day");
    let (account, ids) = (ground.account_id.uuid(), vec![EventId::at(world.now, 1).uuid()]);
    let (from, to) = (EventId::MIN.uuid(), EventId::MAX.uuid());
    let node = world.node.uuid();
    let old = params![
        account_id: account => UUID, from_event_id: from => UUID, below_event_id: to => UUID,
        limit: 201_i64 => INT8,
    ];
    let ended = params![event_ids: ids => UUID_ARRAY, from_delivery_id: from => UUID, limit: 100_i64 => INT8];
    let made = params![
        account_id: account => UUID, replay_id: node => UUID, from_delivery_id: from => UUID,
        limit: 100_i64 => INT8,
    ];
    let fanouts = params![
        from_event_id: from => UUID, below_event_id: to => UUID, limit: 9_i64 => INT8,
        from_delivery_id: from => UUID, below_delivery_id: to => UUID,
    ];
    let strayed = params![from_id: day.from => UUID, below_id: day.to => UUID, limit: 200_i64 => INT8];
    let facts = params![
        chore: "prune" => TEXT, node_id: node => UUID, term: 1_i64 => INT8, from_delivery_id: from => UUID,
        below_delivery_id: to => UUID, limit: 500_i64 => INT8,
    ];
    let plans = [
        world.explain(&OLD_EVENTS, old).await,
        world.explain(&ENDED_OF_EVENTS, ended).await,
        world.explain(&FORGET_EVENTS, params![event_ids: ids => UUID_ARRAY]).await,
        world.explain(&FORGET_DELIVERIES, params![delivery_ids: ids => UUID_ARRAY]).await,
        world.explain(&FORGET_MADE, made).await,
        world.explain(&EVENT_DAY_NEEDED, day.params()).await,
        world.explain(&FANOUTS, fanouts).await,
        world.explain(&DELIVERY_DAY_NEEDED, day.params()).await,
        world.explain(&STRAYED_FACTS, strayed).await,
        world.explain(&PRUNE_FACTS, facts).await,
    ];
    for plan in plans {
        for table in ["events_p", "attempts_p", "queue"] {
            let scan = format!("Seq Scan on {}.{table}", world.schema);
            assert!(!plan.contains(&scan) && !plan.contains(&format!("Seq Scan on {table}")), "{plan}");
        }
    }
    world.clean_up().await;
}

impl World {
    async fn term(&self) -> Term {
        let taken = self.store.take_chore(Chore::Prune, self.node, self.now, limits::LEASE).await;
        taken.expect("no trouble").expect("nobody else has it")
    }

    /// Partitions around a day that is long gone.
    async fn days(&self, at: Timestamp) {
        self.store.make_partitions(at).await.expect("partitions");
    }

    async fn ended(&self, ground: &Ground, at: Timestamp, count: usize) {
        let new = ground.events(at, count);
        self.commit(&new).await;
        let ids: Vec<DeliveryId> = new.iter().map(|new| new.deliveries[0].id).collect();
        let lane = self.lane(ground).await.into_iter().filter(|delivery| ids.contains(&delivery.id));
        let settlements: Vec<_> = lane.map(|delivery| delivered(&delivery, self.node)).collect();
        self.store.settle(self.node, &settlements, at).await.expect("settled");
    }

    async fn prune_days(&self, before: Timestamp) {
        let term = self.term().await;
        while self.store.prune_days(term, before).await.expect("no trouble").expect("the term stands") > 0 {}
    }

    async fn prune_rows(&self, ground: &Ground, before: Timestamp) {
        let term = self.term().await;
        let mut walk = EventWalk {
            account_id: ground.account_id,
            from: EventId::MIN,
            before,
            events: limits::PRUNE_EVENTS,
            rows: limits::PRUNE_ROWS,
        };
        while let Some(next) =
            self.store.prune_events(term, walk).await.expect("pruned").expect("a term").next
        {
            walk.from = next;
        }
        let facts = FactWalk { from: DeliveryId::MIN, before, deliveries: 100 };
        self.store.prune_facts(term, facts).await.expect("pruned");
    }

    async fn count(&self, table: &str) -> i64 {
        let rows = self.client.query(&format!("select count(*) from {table}"), &[]).await.expect("counted");
        rows[0].get(0)
    }

    async fn tables(&self, parent: &str) -> i64 {
        let sql = "select count(*) from pg_inherits where inhparent = to_regclass(:parent)";
        self.run(sql, params![parent: parent => TEXT]).await[0].get(0)
    }
}

//! The hot statements go by their keys, on a table that is young as on one that is full, or that was empty when it was
//! looked at last: nothing may depend on the statistics having caught up.

use super::{Ground, World, delivered};
use crate::{
    BackfillChunk, BackfillSelection, BackfillWalk, Backfilled, Ingest as _, NewDelivery, NewEvent,
    Queue as _,
    postgres::{
        audit,
        backfill::{BACKFILL, BACKFILL_EVENTS, ChunkColumns, WalkColumns},
        catalog::DESTINATION_RECORDS,
        dead_letters::RESOLVE_CHAINS,
        expand::{NUMBERINGS_OF, ROUTES_AFTER},
        history::FANOUT_COUNTS,
        ingest::{COMMIT, COMMIT_KEYED, COMMIT_PLAIN, COMMIT_TAGGED},
        order::{TAKE_TURNS, TRACKS},
        planned::Planned,
        queue::{BACKLOG, FETCH, FETCH_EVENTS, LANES},
        settle::{SETTLE, SETTLE_REPLAYED, SETTLE_TOLD},
        statement::{Params, Statement, params},
    },
    shard_scan::ShardScan,
};
use domain::id::{DeliveryId, ReplayId};

/// The state of the tables when the plan is made.
const AGES: [&str; 4] = ["never analysed", "full", "analysed", "emptied"];

/// A row of the queue that is looked up by its id. As a bitmap: any other scan of an index may also be walked from its
/// beginning, which costs nothing in a table that is taken for empty.
const LOOKED_UP: &str = "Bitmap Index Scan on queue_account_id_delivery_id_key";

#[tokio::test]
async fn fetch_reads_ranges_of_the_key() {
    for_all_ages(&FETCH, |age, plan| {
        check(
            plan,
            age,
            &["Nested Loop", "Index Scan using queue_pkey"],
            &["Seq Scan", "Hash Join", "Bitmap"],
        );
    })
    .await;
}

#[tokio::test]
async fn events_are_read_from_their_own_days_only() {
    let world = World::new().await;
    let ground = world.ground().await;
    let ids: Vec<_> = ground.events(world.now, 50).iter().map(|new| new.event.id.uuid()).collect();
    let params = params![event_ids: ids => UUID_ARRAY, max_payload_bytes: 16_384_i32 => INT4];
    let plan = world.explain_for(&FETCH_EVENTS, params).await;
    assert_eq!(plan.matches(".events_p").count(), 1, "{plan}");
    check(&plan, "young", &[], &["events_default", "Append", "Seq Scan"]);
    world.clean_up().await;
}

#[tokio::test]
async fn settle_looks_up_each_delivery() {
    for_all_ages(&SETTLE, |age, plan| {
        check(plan, age, &["Nested Loop"], &["Seq Scan", "Hash Join", "Merge Join"]);
        assert_eq!(plan.matches(LOOKED_UP).count(), 2, "{age}: {plan}");
        // Else each settlement is looked for among all that moved.
        assert_eq!(plan.matches("(hashed SubPlan").count(), 2, "{age}: {plan}");
    })
    .await;
}

#[tokio::test]
async fn counting_dead_letters_looks_up_each_delivery_too() {
    for_all_ages(&SETTLE_TOLD, |age, plan| {
        check(plan, age, &["Nested Loop"], &["Seq Scan", "Hash Join", "Merge Join"]);
        assert_eq!(plan.matches(LOOKED_UP).count(), 2, "{age}: {plan}");
        assert_eq!(plan.matches("(hashed SubPlan").count(), 3, "{age}: {plan}");
    })
    .await;
}

#[tokio::test]
async fn counting_the_ends_of_replays_looks_up_each_delivery_too() {
    for_all_ages(&SETTLE_REPLAYED, |age, plan| {
        check(plan, age, &["Nested Loop"], &["Seq Scan", "Hash Join", "Merge Join"]);
        assert_eq!(plan.matches(LOOKED_UP).count(), 2, "{age}: {plan}");
        assert_eq!(plan.matches("(hashed SubPlan").count(), 4, "{age}: {plan}");
    })
    .await;
}

#[tokio::test]
async fn a_page_of_a_backfill_is_read_in_order_and_no_further() {
    let world = World::new().await;
    let ground = world.ground().await;
    for _ in 0..5 {
        world.store.commit(&ground.events(world.now, 200), world.now).await.expect("a commit");
    }
    for age in AGES {
        world.grow(&ground, age).await;
        let walk = BackfillWalk {
            account_id: ground.account_id,
            selection: BackfillSelection::default(),
            cursor: None,
            as_of: world.now.plus(std::time::Duration::from_secs(1)),
            limit: 20,
            payloads: true,
        };
        let steps = world.explain_analysed(&BACKFILL_EVENTS, WalkColumns::of(&walk).params()).await;
        check(&steps, age, &["account_id_id_idx"], &["Seq Scan", "Bitmap"]);
        let most = steps
            .lines()
            .filter(|line| line.contains(" Scan using "))
            .filter_map(|line| line.split("rows=").nth(1)?.split([' ', '.']).next()?.parse::<u32>().ok());
        assert_eq!(most.max(), Some(20), "{age}: {steps}");
    }
    world.clean_up().await;
}

#[tokio::test]
async fn a_chunk_of_a_backfill_finds_by_its_event_what_that_had() {
    let world = World::new().await;
    let ground = world.ground().await;
    let events = ground.events(world.now, 200);
    world.store.commit(&events, world.now).await.expect("a commit");
    let end = |new: &NewEvent| delivered(&new.deliveries[0].of(new.event.event()), world.node);
    let ended: Vec<_> = events.iter().map(end).collect();
    world.store.settle(world.node, &ended, world.now).await.expect("a settlement");
    let again = |new: &NewEvent| {
        let id = DeliveryId::at(world.now, rand::random());
        let delivery = NewDelivery::unordered(id, ground.route.id, ground.destination.id, world.now);
        Backfilled { event_id: new.event.id, delivery }
    };
    let chunk = BackfillChunk {
        replay_id: ReplayId::at(world.now, 1),
        account_id: ground.account_id,
        node: world.node,
        from: None,
        to: None,
        deliveries: events.iter().map(again).collect(),
        skipped: 0,
        done: false,
        now: world.now,
        until: world.now,
    };
    for age in AGES {
        world.grow(&ground, age).await;
        let plan = world.explain_for(&BACKFILL, ChunkColumns::of(&chunk).params()).await;
        check(&plan, age, &["_event_id_idx", "queue_by_event"], &["Seq Scan", "Hash Join", "Merge Join"]);
        // From a day on is no key: that is all there is of a young installation.
        let by_day = plan.lines().find(|line| line.contains("attempts_") && line.contains("_pkey"));
        assert_eq!(by_day, None, "{age}: {plan}");
    }
    world.clean_up().await;
}

#[tokio::test]
async fn lanes_skip_from_one_to_the_next() {
    let world = World::new().await;
    let ground = world.ground().await;
    for age in AGES {
        world.grow(&ground, age).await;
        let scan = ShardScan::over(&[1, 2, 3, 500]);
        let params = params![
            next_shards: scan.next_shards() => INT2_ARRAY, after_shard: -1_i16 => INT2,
            after_destination_id: uuid::Uuid::max() => UUID, limit: 1000_i64 => INT8,
        ];
        let plan = world.explain_planned(&LANES).await;
        let by_key = "Index Cond: (ROW(q.shard, q.destination_id) >";
        check(&plan, age, &["Recursive Union", "using queue_pkey", by_key], &["Seq Scan", "Sort"]);
        // Each lane of those four shards, and a step into the shard behind each: 20,000 lanes are passed over.
        let steps = world.explain_analysed(&LANES, params).await;
        let union = steps.lines().find(|line| line.contains("Recursive Union"));
        let rows = union.and_then(|line| line.split("rows=").nth(1)?.split([' ', '.']).next()?.parse().ok());
        let rows: u32 = rows.unwrap_or_else(|| panic!("no number in {union:?}"));
        assert!(rows <= 4 * 21, "{age}: {rows} steps");
    }
    world.clean_up().await;
}

#[tokio::test]
async fn commit_looks_up_each_account_once() {
    let world = World::new().await;
    let ground = world.ground().await;
    for age in AGES {
        world.grow(&ground, age).await;
        let whole = world.explain_planned(&COMMIT).await;
        let tagged = world.explain_planned(&COMMIT_TAGGED).await;
        let keyed = world.explain_planned(&COMMIT_KEYED).await;
        for plan in [&whole, &tagged, &keyed, &world.explain_planned(&COMMIT_PLAIN).await] {
            // Nested loops would look at each event for each delivery.
            check(plan, age, &["Index Scan using accounts_pkey", "Hash Join"], &["Seq Scan", "Nested Loop"]);
        }
        check(&whole, age, &["Conflict Arbiter Indexes: sequences_pkey"], &[]);
        // All keys are taken, in order, before the first event is written.
        check(&keyed, age, &["One-Time Filter", "Sort Key"], &[]);
    }
    world.clean_up().await;
}

#[tokio::test]
async fn a_page_of_routes_is_read_in_their_order() {
    let world = World::new().await;
    let plan = world.explain_planned(&ROUTES_AFTER).await;
    let by_key = "Index Scan using routes_to_destinations";
    check(&plan, AGES[0], &["Limit", by_key], &["Seq Scan", "Bitmap"]);
    assert_eq!(plan.matches("Sort Key").count(), 1, "only the page itself is sorted: {plan}");
    world.clean_up().await;
}

#[tokio::test]
async fn what_a_lane_needs_is_looked_up() {
    let world = World::new().await;
    for planned in [&*DESTINATION_RECORDS, &*NUMBERINGS_OF] {
        let plan = world.explain_planned(planned).await;
        check(&plan, AGES[0], &["destinations_pkey"], &["Seq Scan", "Hash Join", "Merge Join"]);
    }
    world.clean_up().await;
}

#[tokio::test]
async fn tracks_skip_from_one_to_the_next() {
    let world = World::new().await;
    let ground = world.ground().await;
    let id = ground.destination.id;
    for age in AGES {
        world.grow(&ground, age).await;
        if age == "full" || age == "emptied" {
            world.deepen(&ground, 20, 500).await;
        }
        let params = params![
            shard: id.shard() as i16 => INT2, destination_id: id.uuid() => UUID, from_track: i64::MIN => INT8,
            limit: 1000_i64 => INT8,
        ];
        let plan = world.explain_planned(&TRACKS).await;
        let by_key = "Index Cond: ((q_1.shard = ";
        check(
            &plan,
            age,
            &["Recursive Union", "using queue_pkey", by_key, "(q_1.track > heads"],
            &["Seq Scan", "Sort", "Bitmap"],
        );
        let steps = world.explain_analysed(&TRACKS, params).await;
        // What a scan reads, and what it read and threw away.
        assert!(!steps.contains("Rows Removed"), "{age}: {steps}");
    }
    world.clean_up().await;
}

#[tokio::test]
async fn what_waits_for_a_destination_is_counted_up_to_a_limit() {
    for_all_ages(&BACKLOG, |age, plan| {
        check(plan, age, &["Index Scan using queue_pkey"], &["Seq Scan", "Bitmap", "Sort"]);
    })
    .await;
}

#[tokio::test]
async fn fan_outs_are_counted_by_event() {
    for_all_ages(&FANOUT_COUNTS, |age, plan| {
        check(plan, age, &["Index Scan using queue_by_event"], &["Seq Scan", "Bitmap"]);
    })
    .await;
}

#[tokio::test]
async fn a_chain_is_found_by_its_event() {
    for_all_ages(&RESOLVE_CHAINS, |age, plan| {
        check(plan, age, &["event_id = c"], &["Seq Scan", "Hash Join", "Merge Join"]);
    })
    .await;
}

#[tokio::test]
async fn turns_look_up_each_delivery() {
    for_all_ages(&TAKE_TURNS, |age, plan| {
        check(plan, age, &["LockRows"], &["Seq Scan", "Hash Join", "Merge Join"]);
        assert_eq!(plan.matches(LOOKED_UP).count(), 2, "{age}: {plan}");
    })
    .await;
}

#[tokio::test]
async fn an_audit_walks_by_key() {
    let world = World::new().await;
    let ground = world.ground().await;
    for age in AGES {
        world.grow(&ground, age).await;
        let first = uuid::Uuid::nil();
        let params = params![
            from_shard: 0_i16 => INT2, from_destination_id: first => UUID, from_track: 0_i64 => INT8,
            limit: 1000_i64 => INT8,
        ];
        let plan = world.explain(&audit::AUDIT_HEADS, params).await;
        check(&plan, age, &["Index Scan using queue_pkey"], &["Seq Scan on", "Sort"]);
        let params = params![
            from_event_id: first => UUID, limit: 1000_i64 => INT8, max_deliveries: 20_000_i64 => INT8,
        ];
        let plan = world.explain(&audit::AUDIT_FAN_OUTS, params).await;
        if age != "never analysed" {
            check(&plan, age, &["queue_by_event"], &["Seq Scan on queue"]);
        }
        let params = params![
            from_delivery_id: first => UUID, from_attempt_id: first => UUID, limit: 1000_i64 => INT8,
        ];
        let plan = world.explain(&audit::AUDIT_FACTS, params).await;
        if age != "never analysed" {
            check(&plan, age, &["queue_account_id_delivery_id_key"], &["Seq Scan on queue"]);
        }
    }
    world.clean_up().await;
}

/// The plan of a statement at each age of the tables.
async fn for_all_ages(planned: &Planned, check: impl Fn(&str, &str)) {
    let world = World::new().await;
    let ground = world.ground().await;
    for age in AGES {
        world.grow(&ground, age).await;
        check(age, &world.explain_planned(planned).await);
    }
    world.clean_up().await;
}

fn check(plan: &str, age: &str, wanted: &[&str], unwanted: &[&str]) {
    for part in wanted {
        assert!(plan.contains(part), "{age}: no {part} in\n{plan}");
    }
    for part in unwanted {
        assert!(!plan.contains(part), "{age}: {part} in\n{plan}");
    }
}

impl World {
    /// Brings the queue to an age: nothing to do for a young one, then 20,000 rows of others, then statistics; then
    /// statistics of an empty one, and the rows again.
    async fn grow(&self, ground: &Ground, age: &str) {
        let fill = format!(
            "insert into queue (shard, destination_id, track, rank, delivery_id, account_id, event_id, route_id, \
             origin, due_at, attempts, spent, tls_errors, created_at, available_at, payload_bytes) \
             select n % 1024, gen_random_uuid(), 0, n, gen_random_uuid(), '{}', gen_random_uuid(), \
             gen_random_uuid(), gen_random_uuid(), n, 0, 0, 0, n, n, 2 from generate_series(1, 20000) n",
            ground.account_id.uuid()
        );
        let steps: &[&str] = match age {
            "full" => &[&fill],
            "analysed" => &["analyze queue", "analyze attempts", "analyze events"],
            "emptied" => &["delete from queue", "analyze queue", &fill],
            _ => &[],
        };
        for sql in steps {
            self.client.batch_execute(sql).await.expect("the tables change");
        }
    }

    /// Fills the lane with so many tracks of so many rows.
    async fn deepen(&self, ground: &Ground, tracks: i32, rows: i32) {
        let id = ground.destination.id;
        let fill = format!(
            "insert into queue (shard, destination_id, track, rank, delivery_id, account_id, event_id, route_id, \
             origin, due_at, attempts, spent, tls_errors, created_at, available_at, payload_bytes, sequence) \
             select {}, '{}', n % {tracks}, n, gen_random_uuid(), '{}', gen_random_uuid(), gen_random_uuid(), \
             gen_random_uuid(), n, 0, 0, 0, n, n, 2, n from generate_series(1, {}) n",
            id.shard(),
            id.uuid(),
            ground.account_id.uuid(),
            tracks * rows
        );
        self.client.batch_execute(&fill).await.expect("the lane fills");
    }

    /// The plan of a statement with these values, as the store would have it.
    pub(super) async fn explain(&self, statement: &Statement, params: Params<'_, '_>) -> String {
        let sql = format!("explain (costs off, verbose) {}", statement.text);
        lines(&self.client.query_typed(&sql, &statement.values(&params)).await.expect("a plan"))
    }

    /// The one plan of a function's statement, whatever its values.
    async fn explain_planned(&self, planned: &Planned) -> String {
        let Planned { definition, text, takes, .. } = planned;
        let settings = definition.settings.replace("set ", "; set local ");
        let nothing = vec!["null"; takes.len()].join(", ");
        let before = format!(
            "begin; set local plan_cache_mode = force_generic_plan {settings}; prepare it ({}) as {}",
            takes.join(", "),
            text
        );
        self.client.batch_execute(&before).await.expect("a statement");
        let plan = format!("explain (costs off, verbose) execute it ({nothing})");
        let rows = self.client.query_typed(&plan, &[]).await.expect("a plan");
        self.client.batch_execute("rollback; deallocate it").await.expect("nothing was written");
        lines(&rows)
    }

    /// The plan of a function's statement for these values.
    async fn explain_for(&self, planned: &Planned, params: Params<'_, '_>) -> String {
        self.explain_as("costs off, verbose", planned, params).await
    }

    /// The steps that a function's statement took with these values.
    async fn explain_analysed(&self, planned: &Planned, params: Params<'_, '_>) -> String {
        self.explain_as("analyze, costs off, timing off", planned, params).await
    }

    async fn explain_as(&self, how: &str, planned: &Planned, params: Params<'_, '_>) -> String {
        // Of several statements the last.
        let text = planned.text.split_once("return query").map_or(&*planned.text, |(_, last)| last);
        let sql = format!("explain ({how}) {}", text.trim_end().trim_end_matches(';'));
        let settings = planned.definition.settings.replace("set ", "; set local ");
        self.client.batch_execute(&format!("begin {settings}")).await.expect("settings");
        let rows = self.client.query_typed(&sql, &params.sorted()).await.expect("a plan");
        self.client.batch_execute("rollback").await.expect("nothing was written");
        lines(&rows)
    }
}

fn lines(rows: &[tokio_postgres::Row]) -> String {
    rows.iter().map(|row| row.get::<_, &str>(0)).collect::<Vec<_>>().join("\n")
}

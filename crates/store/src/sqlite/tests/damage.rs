//! What was damaged by hand, or written by a newer version: it is told, it ends, and it holds up nobody else.

use super::{Fixture, NOW, all_shards, window};
use crate::{
    AuditChains as _, AuditLog as _, Catalog as _, Checked, DeliveryFilter, DeliveryState, EventFilter, Fact,
    History as _, Page, Queue as _, Rollups as _, Settlement, StoreError, check_chain,
};
use domain::{
    attempt::{Attempt, Detail},
    audit::Broken,
    delivery::{Delivery, Ending, Position, Settled},
    id::{AttemptId, EventId, NodeId},
    outcome::{DeadReason, Outcome},
    testing::audit_entry,
};
use rusqlite::{Connection, ToSql};
use std::{cmp::Reverse, time::Duration};

/// Past the store and its checks.
fn damage(connection: &Connection, sql: &str, params: &[&dyn ToSql]) {
    connection.pragma_update(None, "ignore_check_constraints", true).expect("a setting");
    assert_eq!(connection.execute(sql, params).expect("damage"), 1);
}

#[tokio::test]
async fn a_delivery_that_does_not_read_back_holds_up_no_other() {
    let fixture = Fixture::new().await;
    let destination = fixture.destination(&fixture.account().await).await;
    let lane = fixture.commit(&destination, 4).await;
    let outsider = fixture.outsider();
    let unreadable = "update queue set route_id = x'00' where delivery_id = ?";
    damage(&outsider, unreadable, &[lane[0].id.bytes()]);
    let negative = "update queue set attempts = -1, last_outcome = 'timeout' where delivery_id = ?";
    damage(&outsider, negative, &[lane[1].id.bytes()]);
    let newer = "update queue set attempts = 1, last_outcome = 'from_the_future' where delivery_id = ?";
    damage(&outsider, newer, &[lane[2].id.bytes()]);

    let fetched = fixture.store.fetch(&[window(&destination, 2)]).await.expect("the rest").remove(0);
    let fetched: Vec<Delivery> = fetched.into_iter().map(|row| row.delivery).collect();
    assert_eq!(fetched, [Delivery { attempts: 1, ..lane[2].clone() }, lane[3].clone()]);
}

#[tokio::test]
async fn a_lane_that_does_not_read_back_hides_no_other() {
    let fixture = Fixture::new().await;
    let account = fixture.account().await;
    let (nobodys, first, second) = (
        fixture.destination(&account).await,
        fixture.destination(&account).await,
        fixture.destination(&account).await,
    );
    let outsider = fixture.outsider();
    let delivery = fixture.commit(&nobodys, 1).await.remove(0);
    damage(
        &outsider,
        "update queue set destination_id = x'00' where delivery_id = ?",
        &[delivery.id.bytes()],
    );
    let delivery = fixture.commit(&first, 1).await.remove(0);
    damage(&outsider, "update queue set delivery_id = x'00' where delivery_id = ?", &[delivery.id.bytes()]);
    let whole = fixture.commit(&second, 1).await.remove(0);

    let mut wanted = [(first.id, Position::START), (second.id, whole.position)];
    wanted.sort_by_key(|(id, _)| (id.shard(), *id));
    let heads = fixture.store.lanes(&all_shards(), None, 10).await.expect("the lanes");
    let heads: Vec<_> = heads.into_iter().map(|head| (head.destination_id, head.first)).collect();
    assert_eq!(heads, wanted);
}

#[tokio::test]
async fn an_event_that_does_not_read_back_is_as_good_as_missing() {
    for broken in ["headers = x'ff'", "headers = 'x'", "payload = 'text'", "account_id = x'00'"] {
        let fixture = Fixture::new().await;
        let account = fixture.account().await;
        let (theirs, ours) = (fixture.destination(&account).await, fixture.destination(&account).await);
        let delivery = fixture.commit(&theirs, 1).await.remove(0);
        fixture.commit(&ours, 1).await;
        let sql = format!("update events set {broken} where id = ?");
        damage(&fixture.outsider(), &sql, &[delivery.event_id.bytes()]);
        let windows = [window(&theirs, 10), window(&ours, 10)];
        let fetched = fixture.store.fetch(&windows).await.expect("both lanes");
        assert!(fetched[0][0].event.is_none(), "{broken}");
        assert!(fetched[1][0].event.is_some(), "{broken}");
    }
}

#[tokio::test]
async fn a_target_that_does_not_read_back_says_so_for_itself_alone() {
    for broken in [
        "update accounts set doc = 'x' where id = ?1",
        "update accounts set doc = x'ff' where id = ?1",
        "update destinations set doc = x'ff' where account_id = ?1",
        "update destinations set account_id = x'00' where account_id = ?1",
        "delete from accounts where id = ?1",
    ] {
        let fixture = Fixture::new().await;
        let account = fixture.account().await;
        let theirs = fixture.destination(&account).await;
        let ours = fixture.destination(&fixture.account().await).await;
        damage(&fixture.outsider(), broken, &[account.id.bytes()]);
        let records = fixture.store.destination_records(&[theirs.id, ours.id]).await.expect("both records");
        let destinations: Vec<bool> =
            records.iter().map(|record| record.as_ref().expect("a row").destination.is_ok()).collect();
        assert_eq!(destinations, [false, true], "{broken}");
    }
}

#[tokio::test]
async fn a_detail_that_does_not_read_back_is_told_with_its_attempt() {
    let fixture = Fixture::new().await;
    let destination = fixture.destination(&fixture.account().await).await;
    let delivery = fixture.commit(&destination, 1).await.remove(0);
    fixture.store.settle(NodeId::MIN, &[delivered(&delivery)], NOW).await.expect("settled");
    for broken in ["x''", "x'00'", "x'01'", "x'0120ff'", "''", "'x'"] {
        damage(&fixture.outsider(), &format!("update attempts set detail = {broken}"), &[]);
        let attempts = fixture.store.attempts_of_delivery(delivery.account_id, delivery.id, 10).await;
        let attempt = attempts.expect("a list").remove(0);
        assert_eq!(attempt.outcome, Outcome::Success, "{broken}");
        assert_eq!(attempt.detail.error.expect("what is wrong").code, "detail_unreadable", "{broken}");
    }
    // As the version before wrote it.
    let text = "update attempts set detail = '{\"url\":\"https://a.example/\",\"request_headers\":[],\"timing\":{}}'";
    damage(&fixture.outsider(), text, &[]);
    let attempts = fixture.store.attempts_of_delivery(delivery.account_id, delivery.id, 10).await;
    assert_eq!(attempts.expect("a list")[0].detail.url, "https://a.example/");
}

/// The version before wrote the delivery itself where we leave its origin empty.
#[tokio::test]
async fn an_origin_reads_the_same_whichever_version_wrote_it() {
    let fixture = Fixture::new().await;
    let destination = fixture.destination(&fixture.account().await).await;
    let delivery = fixture.commit(&destination, 1).await.remove(0);
    fixture.store.settle(NodeId::MIN, &[delivered(&delivery)], NOW).await.expect("settled");
    let later = NOW.plus(Duration::from_secs(60));
    let read = async || {
        let record = fixture.store.delivery(delivery.account_id, delivery.id).await.expect("a record");
        let (sums, _) = fixture.store.sum_fanouts(EventId::MIN, later, 10).await.expect("sums");
        (record.origin, sums)
    };
    let ours = read().await;
    assert_eq!((ours.0, ours.1.len()), (delivery.id, 1));
    let before = "update attempts set origin = delivery_id where origin = x''";
    damage(&fixture.outsider(), before, &[]);
    assert_eq!(read().await, ours);
}

#[tokio::test]
async fn our_own_damage_is_never_the_callers_fault() {
    for doc in ["'x'", "x'ff'"] {
        let fixture = Fixture::new().await;
        let account = fixture.account().await;
        let destination = fixture.destination(&account).await;
        let outsider = fixture.outsider();
        damage(&outsider, &format!("update accounts set doc = {doc}"), &[]);
        damage(&outsider, &format!("update destinations set doc = {doc}"), &[]);
        let answer = fixture.store.account(account.id).await;
        assert!(matches!(answer, Err(StoreError::Unreadable(_))), "{answer:?}");
        let answer = fixture.store.destination(account.id, destination.id).await;
        assert!(matches!(answer, Err(StoreError::Unreadable(_))), "{answer:?}");
    }
}

#[tokio::test]
async fn a_settlement_that_is_refused_ends_its_delivery() {
    let fixture = Fixture::new().await;
    let destination = fixture.destination(&fixture.account().await).await;
    let lane = fixture.commit(&destination, 3).await;
    let mut settlements: Vec<Settlement> = lane.iter().map(delivered).collect();
    let Fact::Attempted(attempt) = &mut settlements[1].fact else { panic!("an attempt") };
    // Attempts are counted from one: the table checks it.
    attempt.number = 0;
    for _ in 0..2 {
        let moved = fixture.store.settle(NodeId::MIN, &settlements, NOW).await.expect("settled");
        assert_eq!(moved, [true; 3]);
    }
    assert_eq!(fixture.lane(&destination).await, []);
    let mut endings = Vec::new();
    for delivery in &lane {
        let record = fixture.store.delivery(delivery.account_id, delivery.id).await.expect("a record");
        let DeliveryState::Ended { ending, .. } = record.state else { panic!("it waits") };
        endings.push(ending);
    }
    let dead = Ending::DeadLetter(DeadReason::Undeliverable);
    assert_eq!(endings, [Ending::Delivered, dead, Ending::Delivered]);
}

pub(super) fn delivered(delivery: &Delivery) -> Settlement {
    let attempt = Attempt {
        id: AttemptId::at(NOW, rand::random()),
        delivery_id: delivery.id,
        number: delivery.attempts + 1,
        started_at: NOW,
        duration: Duration::from_millis(5),
        outcome: Outcome::Success,
        http_status: Some(200),
        detail: Detail::default(),
        node: NodeId::MIN,
    };
    Settlement {
        delivery: delivery.clone(),
        shard: delivery.destination_id.shard(),
        fact: Fact::Attempted(Box::new(attempt)),
        settled: Settled::Ended(Ending::Delivered),
        consequence: None,
    }
}

#[tokio::test]
async fn a_list_goes_on_without_what_does_not_read() {
    let fixture = Fixture::new().await;
    let account = fixture.account().await;
    let mut destinations = Vec::new();
    for _ in 0..4 {
        destinations.push(fixture.destination(&account).await);
    }
    destinations.sort_by_key(|destination| Reverse(destination.id));
    let outsider = fixture.outsider();
    let broken = destinations.remove(1);
    damage(&outsider, "update destinations set doc = '{' where id = ?", &[broken.id.bytes()]);
    let ids = async |page| {
        let found = fixture.store.destinations(account.id, page).await.expect("a list");
        (Vec::from_iter(found.rows.into_iter().map(|destination| destination.id)), found.next)
    };
    let wanted = Vec::from_iter(destinations.iter().map(|destination| destination.id));
    assert_eq!(ids(Page { before: None, limit: 2 }).await, (vec![wanted[0]], Some(broken.id)));
    assert_eq!(ids(Page { before: Some(broken.id), limit: 2 }).await, (wanted[1..].to_vec(), None));
    assert_eq!(ids(Page { before: None, limit: 10 }).await, (wanted, None));
    let alone = fixture.store.destination(account.id, broken.id).await;
    assert!(matches!(alone, Err(StoreError::Unreadable(_))), "{alone:?}");
}

#[tokio::test]
async fn the_history_goes_on_without_what_does_not_read() {
    let fixture = Fixture::new().await;
    let account = fixture.account().await;
    let destination = fixture.destination(&account).await;
    for _ in 0..3 {
        fixture.commit(&destination, 1).await;
    }
    let lane = fixture.lane(&destination).await;
    let outsider = fixture.outsider();
    damage(&outsider, "update events set headers = x'ff' where id = ?", &[lane[0].event_id.bytes()]);
    damage(&outsider, "update queue set route_id = x'00' where delivery_id = ?", &[lane[1].id.bytes()]);
    for limit in [1, 2, 10] {
        let (mut events, mut deliveries, mut page) = (Vec::new(), Vec::new(), Page { before: None, limit });
        loop {
            let found =
                fixture.store.events(account.id, &EventFilter::default(), page).await.expect("a list");
            events.extend(found.rows.into_iter().map(|record| record.event.id));
            let Some(next) = found.next else { break };
            page.before = Some(next);
        }
        let mut page = Page { before: None, limit };
        loop {
            let filter = DeliveryFilter::default();
            let found = fixture.store.deliveries(account.id, &filter, page).await.expect("a list");
            deliveries.extend(found.rows.into_iter().map(|record| record.id));
            let Some(next) = found.next else { break };
            page.before = Some(next);
        }
        let mut wanted: Vec<_> = lane[1..].iter().map(|delivery| delivery.event_id).collect();
        wanted.sort_by_key(|id| Reverse(*id));
        assert_eq!(events, wanted, "{limit} at a time");
        let mut wanted = vec![lane[0].id, lane[2].id];
        wanted.sort_by_key(|id| Reverse(*id));
        assert_eq!(deliveries, wanted, "{limit} at a time");
    }
}

#[tokio::test]
async fn an_audit_entry_that_does_not_read_back_is_the_one_that_does_not_hold() {
    let broken = [
        "id = x'00'",
        "at = 'noon'",
        "actor = x'ff'",
        "key_id = 7",
        "action = 7",
        "object_id = x'ff'",
        "client = 1.5",
        "request_id = 'x'",
        "difference = x'ff'",
        "count = -1",
        "hash = 'none'",
    ];
    for broken in broken {
        let fixture = Fixture::new().await;
        let account = fixture.account().await;
        for _ in 0..3 {
            fixture.store.write_audit(Some(account.id), &audit_entry()).await.expect("written");
        }
        let written = fixture.store.audit_records(Some(account.id), 0, 10).await.expect("entries");
        let number = written[1].number;
        let sql = format!("update audit_entries set {broken} where account_id = ? and number = ?");
        damage(&fixture.outsider(), &sql, &[account.id.bytes(), &number]);
        let checked = check_chain(&fixture.store, Some(account.id)).await.expect("checked to the end");
        assert_eq!(checked, Checked::Breaks(Broken::Altered { number }), "{broken}");
        // And it keeps no other chain from being looked at.
        assert!(fixture.store.audit_chains(None, 10).await.expect("chains").contains(&Some(account.id)));
    }
}

//! What the version before has begun is gone on with.

use super::{Fixture, NOW, damage::delivered};
use crate::{Chunk, Committed, Expansions as _, History as _, Ingest as _, NewEvent, Queue as _};
use domain::id::NodeId;

#[tokio::test]
async fn an_expansion_of_the_version_before_is_taken_over_with_what_it_has_reached() {
    let fixture = Fixture::new().await;
    let account = fixture.account().await;
    let [waits, ended, left] = [
        fixture.destination(&account).await,
        fixture.destination(&account).await,
        fixture.destination(&account).await,
    ];
    let mut new = fixture.event(&waits, 1).await;
    new.deliveries.extend(fixture.event(&ended, 1).await.deliveries);
    assert_eq!(
        fixture.store.commit(std::slice::from_ref(&new), NOW).await.expect("a commit"),
        [Committed::New]
    );
    let end = delivered(&fixture.lane(&ended).await[0]);
    assert_eq!(fixture.store.settle(NodeId::MIN, &[end], NOW).await.expect("settled"), [true]);
    // As the version before leaves it: the cursor is a route.
    let NewEvent { event, account_version, deliveries, .. } = &new;
    let (id, cursor) = (event.id.bytes(), deliveries[0].route_id.bytes());
    let outsider = fixture.outsider();
    outsider
        .execute(
            "insert into expansions (event_id, account_id, account_version, cursor, deliveries, created_at)
             values (?1, ?2, ?3, ?4, 2, ?5)",
            (id, account.id.bytes(), account_version, cursor, NOW.micros()),
        )
        .expect("a row of before");
    outsider.execute("update events set deliveries = null where id = ?1", [id]).expect("it expands");

    assert!(fixture.store.take_over_expansion().await.expect("the oldest"));
    assert!(!fixture.store.take_over_expansion().await.expect("there was one"));
    let open = fixture.store.expansion(event.id).await.expect("an answer").expect("it goes on");
    let mut reached = open.inline_destinations.clone();
    reached.sort();
    let mut expected = [waits.id, ended.id];
    expected.sort();
    assert_eq!(reached, expected);
    assert_eq!((open.cursor, open.deliveries, open.account_version), (None, 2, *account_version));
    assert_eq!((open.account_id, open.created_at), (account.id, NOW));

    let last = fixture.event(&left, 1).await.deliveries;
    let chunk = Chunk {
        event_id: event.id,
        from: None,
        to: Some(left.id),
        deliveries: last,
        other_routes: Vec::new(),
        done: true,
    };
    assert!(fixture.store.expand(&chunk).await.expect("an answer"));
    let fanout = fixture.store.event(account.id, event.id).await.expect("the event").fanout;
    assert_eq!((fanout.total, fanout.waiting, fanout.delivered, fanout.expanding), (3, 2, 1, false));
}

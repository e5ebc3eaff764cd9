//! A full disk is waited out, a failed flush is the end. `max_page_count` makes SQLite believe that the disk is full.

use super::{
    super::{SqliteStore, Trouble, space::Space, writer::Priority},
    Fixture,
};
use crate::{Membership as _, StoreError};
use domain::limits;
use rusqlite::{Connection, ffi};

async fn cap(store: &SqliteStore, pages: i64) {
    let capped = store.write(Priority::Api, move |connection| {
        connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))?;
        Ok(())
    });
    capped.await.expect("a smaller disk");
}

async fn fill(store: &SqliteStore, turn: Priority, name: &'static str) -> Result<(), StoreError> {
    store
        .write(turn, move |connection| {
            connection.execute("insert into settings (name, value) values (?, zeroblob(1000000))", [name])?;
            Ok(())
        })
        .await
}

/// Without room it is not ready, as long as it knows of no room; but it has not failed.
async fn lives_on(store: &SqliteStore) {
    let health = store.health().await;
    assert!(matches!(health, Ok(()) | Err(StoreError::Unavailable(_))), "{health:?}");
    assert!(!store.failed());
}

#[tokio::test]
async fn on_a_full_disk_writes_are_unavailable_until_there_is_room() {
    let Fixture { store, folder: _kept } = Fixture::new().await;
    cap(&store, 1).await;
    for turn in [Priority::Ingest, Priority::Api, Priority::Bulk] {
        let refused = fill(&store, turn, "too much").await;
        assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    }
    lives_on(&store).await;
    cap(&store, 1_000_000).await;
    fill(&store, Priority::Api, "fits").await.expect("there is room again");
}

#[tokio::test]
async fn a_settlement_that_finds_no_room_takes_the_reserve() {
    let fixture = Fixture::new().await;
    let reserve = fixture.path().with_extension("db.reserve");
    assert_eq!(std::fs::metadata(&reserve).expect("a reserve").len(), limits::STORE_RESERVE_BYTES);
    cap(&fixture.store, 1).await;
    let refused = fill(&fixture.store, Priority::Api, "not for the API").await;
    assert!(refused.is_err() && reserve.exists(), "the reserve is for settlements");
    let refused = fill(&fixture.store, Priority::Settle, "too much").await;
    assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    assert!(!reserve.exists(), "the reserve was given up");
    lives_on(&fixture.store).await;
}

#[tokio::test]
async fn a_start_on_a_full_disk_takes_the_reserve_and_lets_no_event_in_for_it() {
    let Fixture { store, folder } = Fixture::new().await;
    drop(store);
    let reserve = folder.path().join("posthaste.db.reserve");
    let start = || Space::at_start(folder.path().into(), reserve.clone());
    start().make_room(Some(limits::STORE_START_BYTES));
    assert!(reserve.exists(), "there is room enough to start");
    start().make_room(Some(0));
    assert!(!reserve.exists(), "it was given up");
    start().make_room(Some(0));
    const { assert!(limits::STORE_START_BYTES + limits::STORE_RESERVE_BYTES < limits::INGEST_FREE_BYTES) };
}

#[tokio::test]
async fn a_neighbour_that_fills_the_disk_does_not_stop_a_settlement() {
    let fixture = std::sync::Arc::new(Fixture::new().await);
    let Fixture { store, .. } = &*fixture;
    let pages: i64 =
        fixture.outsider().pragma_query_value(None, "page_count", |row| row.get(0)).expect("a count");
    cap(store, pages + 8).await;
    let (too_much, settlement) = tokio::join!(
        fill(store, Priority::Api, "too much"),
        store.write(Priority::Settle, |connection| {
            connection.execute("insert into settings (name, value) values ('small', x'')", [])?;
            Ok(())
        }),
    );
    assert!(matches!(too_much, Err(StoreError::Unavailable(_))), "{too_much:?}");
    settlement.expect("there is room for it");
}

#[tokio::test]
async fn after_a_failed_flush_nothing_is_written_any_more() {
    let fixture = Fixture::new().await;
    let fails = |_: &Connection| -> Result<(), Trouble> {
        Err(rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_IOERR_FSYNC), None).into())
    };
    let failed = fixture.store.write(Priority::Api, fails).await;
    assert!(matches!(failed, Err(StoreError::Failed(_))), "{failed:?}");
    assert!(fixture.store.failed());
    let later = fixture.store.write(Priority::Settle, |_| Ok(())).await;
    assert!(matches!(later, Err(StoreError::Failed(_))), "{later:?}");
    assert!(matches!(fixture.store.health().await, Err(StoreError::Failed(_))));
    fixture.store.now().await.expect("reads go on");
}

//! Readers: the engine's are its own, and a read that dies is answered.

use super::{Fixture, all_shards, window};
use crate::{Catalog as _, Membership as _, Queue as _, StoreError};
use std::{sync::mpsc, time::Duration};
use tokio::{sync::oneshot, time::timeout};

#[tokio::test]
async fn a_crowd_of_reads_does_not_keep_the_engine_waiting() {
    let fixture = std::sync::Arc::new(Fixture::new().await);
    let destination = fixture.destination(&fixture.account().await).await;
    let delivery = fixture.commit(&destination, 1).await.remove(0);
    let mut crowd = Vec::new();
    for _ in 0..2 {
        let (let_go, wait) = mpsc::channel::<()>();
        let (started, has_started) = oneshot::channel();
        let fixture = fixture.clone();
        let read = tokio::spawn(async move {
            let held = fixture.store.read(move |_| {
                let _ = started.send(());
                let _ = wait.recv();
                Ok(())
            });
            held.await.expect("an empty read");
        });
        has_started.await.expect("a reader");
        crowd.push((let_go, read));
    }
    let reads = async {
        assert_eq!(fixture.store.fetch(&[window(&destination, 10)]).await.expect("a lane")[0].len(), 1);
        assert_eq!(fixture.store.lanes(&all_shards(), None, 10).await.expect("lanes").len(), 1);
        assert!(fixture.store.destination_records(&[destination.id]).await.expect("a record")[0].is_some());
        assert!(fixture.store.payload(delivery.event_id).await.expect("an event").is_some());
    };
    timeout(Duration::from_secs(10), reads).await.expect("the engine has readers of its own");
    for (let_go, read) in crowd {
        let_go.send(()).expect("the reader waits");
        read.await.expect("the read ends");
    }
}

#[tokio::test]
async fn a_read_that_panics_is_answered_as_our_trouble() {
    let fixture = Fixture::new().await;
    let answer = fixture.store.read(|_| -> Result<(), _> { panic!("on purpose") }).await;
    assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
    fixture.store.now().await.expect("the store lives on");
}

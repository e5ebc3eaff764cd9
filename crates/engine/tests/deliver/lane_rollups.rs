//! What the owner of a lane notes of its slots and its backlog is what happened.

use crate::bench::{Bench, bench_with};
use domain::{
    id::DestinationId,
    rollup::{LaneSums, Span},
    time::Timestamp,
};
use engine::EngineSettings;
use lab::Reply;
use std::time::Duration;
use store::LaneRollups as _;

const OFTEN: Duration = Duration::from_millis(50);

/// All minutes of a destination, or of its account, together.
async fn noted(bench: &Bench, destination: DestinationId, whole_account: bool) -> Option<LaneSums> {
    let of = (!whole_account).then_some(destination);
    let rows = bench
        .store
        .lane_rollups(bench.account, of, Span::Minute, Timestamp::MIN, Timestamp::MAX)
        .await
        .unwrap();
    let mut all: Option<LaneSums> = None;
    for (_, doc) in rows {
        all.get_or_insert_default().then(&LaneSums::read(&doc).unwrap());
    }
    all
}

#[tokio::test]
async fn slots_that_are_taken_and_denied_and_what_waits_are_noted_within_seconds() {
    let bench = bench_with(EngineSettings { rollup_every: OFTEN, ..EngineSettings::default() }, None).await;
    let destination = bench.destination("a", |it| it.settings.max_concurrency = Some(2)).await;
    bench.receiver.script("a", Reply::ok().after(Duration::from_millis(400)));
    for _ in 0..6 {
        bench.send(&[destination], b"{}").await;
    }
    for whole_account in [false, true] {
        bench
            .until(|| async {
                let noted = noted(&bench, destination, whole_account).await?;
                let waits = noted.backlog.is_some_and(|backlog| (1..=6).contains(&backlog.rows));
                (waits && noted.slots == 2 && noted.denied > 0).then_some(())
            })
            .await;
    }
    let done = bench
        .until(|| async {
            let noted = noted(&bench, destination, false).await?;
            (noted.backlog.map(|backlog| backlog.rows) == Some(0)).then_some(noted)
        })
        .await;
    // Six of them, two at a time: three times 0.4 s with both slots taken.
    assert!((2_300_000..=4_000_000).contains(&done.busy_us), "{done:?}");
    assert_eq!(done.denied, 4);
    let account = noted(&bench, destination, true).await.unwrap();
    assert_eq!((account.denied, account.slots), (4, 2));
    assert!(account.busy_us >= done.busy_us);
}

#[tokio::test]
async fn what_waits_in_the_store_alone_is_counted_there() {
    let bench = bench_with(EngineSettings { rollup_every: OFTEN, ..EngineSettings::default() }, None).await;
    let destination = bench.destination("a", |it| it.settings.max_concurrency = Some(1)).await;
    bench.receiver.script("a", Reply::throttled(600));
    for _ in 0..5 {
        bench.send(&[destination], b"{}").await;
    }
    // The lane is held, and has let go of all but its mark.
    bench
        .until(|| async {
            let noted = noted(&bench, destination, false).await?;
            (noted.backlog.map(|backlog| backlog.rows) == Some(5)).then_some(())
        })
        .await;
}

#[tokio::test]
async fn a_node_at_rest_notes_nothing() {
    let bench = bench_with(EngineSettings { rollup_every: OFTEN, ..EngineSettings::default() }, None).await;
    let destination = bench.destination("a", |_| {}).await;
    bench.send(&[destination], b"{}").await;
    bench.ended(destination).await;
    bench
        .until(|| async {
            let noted = noted(&bench, destination, false).await?;
            (noted.backlog.map(|backlog| backlog.rows) == Some(0)).then_some(())
        })
        .await;
    let before = noted(&bench, destination, false).await;
    tokio::time::sleep(4 * OFTEN).await;
    assert_eq!(noted(&bench, destination, false).await, before);
}

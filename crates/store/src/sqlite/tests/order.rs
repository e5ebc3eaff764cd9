//! Numbers are rows: whatever rolls back gives them back.

use super::{Fixture, NOW};
use crate::{Committed, Ingest as _};
use domain::{delivery::Position, id::SHARDS};

#[tokio::test]
async fn an_event_that_is_refused_takes_no_number() {
    let fixture = Fixture::new().await;
    let destination = fixture.destination(&fixture.account().await).await;
    let mut batch = Vec::new();
    for _ in 0..5 {
        let mut new = fixture.event(&destination, 2).await;
        for delivery in &mut new.deliveries {
            (delivery.sequenced, delivery.position.track) = (true, Position::STRICT);
        }
        batch.push(new);
    }
    // There is no such shard: the table checks it, after the first of the two has taken its number.
    batch[2].deliveries[1].shard = SHARDS;
    for _ in 0..2 {
        let committed = fixture.store.commit(&batch, NOW).await.expect("an answer");
        for (place, answer) in committed.iter().enumerate() {
            assert_eq!(matches!(answer, Committed::Refused(_)), place == 2, "{answer:?}");
        }
        let lane = fixture.lane(&destination).await;
        let told: Vec<_> = lane.iter().map(|delivery| (delivery.sequence, delivery.id)).collect();
        let written = batch.iter().enumerate().filter(|(place, _)| *place != 2);
        let ids = written.flat_map(|(_, new)| new.deliveries.iter().map(|delivery| delivery.id));
        assert_eq!(told, (1..).map(Some).zip(ids).collect::<Vec<_>>());
    }
}

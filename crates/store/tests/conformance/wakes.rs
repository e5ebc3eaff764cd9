//! What nodes tell each other. Where there can be one node only, nothing is ever heard.

use crate::fixtures::*;
use domain::{
    delivery::Position,
    id::{AccountId, DeliveryId, DestinationId},
};
use futures_util::FutureExt as _;
use std::{sync::Arc, time::Duration};
use store::{News, Store, Wake};
use tokio::time::timeout;

pub(crate) async fn missed_comes_first(world: World) {
    let Some(other) = world.other_nodes.open().await else {
        assert_eq!(world.store.hear().now_or_never().map(|_| ()), None);
        return;
    };
    other.tell(&[News::Roster]).await.unwrap();
    assert_eq!(hear(&world.store).await[0], News::Missed, "nobody knows what was told before");
}

pub(crate) async fn what_one_tells_the_others_hear(world: World) {
    let Some((second, third)) = two_others(&world).await else { return };
    let news = [
        News::Roster,
        News::Wakes(vec![wake(), wake()]),
        News::Shards(vec![7, 9]),
        News::Changed(AccountId::at(at(0), chance())),
    ];
    world.store.tell(&news).await.unwrap();
    for listener in [&second, &third] {
        assert_eq!(all(listener, news.len()).await, news);
    }
    second.tell(&news[..1]).await.unwrap();
    assert_eq!(hear(&third).await, news[..1]);
}

pub(crate) async fn nobody_hears_himself(world: World) {
    let Some((second, _)) = two_others(&world).await else {
        world.store.tell(&[News::Roster]).await.expect("there is nobody to tell, and that is fine");
        return;
    };
    second.tell(&[News::Shards(vec![1])]).await.unwrap();
    world.store.tell(&[News::Shards(vec![2])]).await.unwrap();
    assert_eq!(hear(&second).await, [News::Shards(vec![2])], "its own came before");
}

pub(crate) async fn a_wait_that_was_given_up_loses_nothing(world: World) {
    let Some((second, _)) = two_others(&world).await else { return };
    assert!(second.hear().now_or_never().is_none(), "nothing was told");
    world.store.tell(&[News::Shards(vec![1])]).await.unwrap();
    world.store.tell(&[News::Shards(vec![2])]).await.unwrap();
    assert_eq!(hear(&second).await, [News::Shards(vec![1])]);
    assert!(second.hear().now_or_never().is_none_or(|news| news.unwrap() == [News::Shards(vec![2])]));
    world.store.tell(&[News::Shards(vec![3])]).await.unwrap();
    let mut heard = hear(&second).await;
    if heard == [News::Shards(vec![2])] {
        heard = hear(&second).await;
    }
    assert_eq!(heard, [News::Shards(vec![3])]);
}

pub(crate) async fn lanes_too_many_to_name_are_still_heard_of(world: World) {
    let Some((second, _)) = two_others(&world).await else { return };
    let wakes: Vec<Wake> = (0..5_000).map(|_| wake()).collect();
    let mut shards: Vec<u16> = wakes.iter().map(|wake| wake.shard).collect();
    shards.sort_unstable();
    shards.dedup();
    world.store.tell(&[News::Wakes(wakes.clone())]).await.unwrap();
    let heard = hear(&second).await;
    assert!(heard == [News::Shards(shards)] || heard == [News::Wakes(wakes)], "{heard:?}");
}

/// Two more nodes, which listen already.
async fn two_others(world: &World) -> Option<(Arc<dyn Store>, Arc<dyn Store>)> {
    let (second, third) = (world.other_nodes.open().await?, world.other_nodes.open().await?);
    for listener in [&second, &third] {
        assert_eq!(hear(listener).await, [News::Missed]);
    }
    Some((second, third))
}

async fn hear(store: &Arc<dyn Store>) -> Vec<News> {
    timeout(Duration::from_secs(20), store.hear())
        .await
        .expect("something is heard")
        .expect("the line stands")
}

/// However they arrive.
async fn all(store: &Arc<dyn Store>, count: usize) -> Vec<News> {
    let mut heard = Vec::new();
    while heard.len() < count {
        heard.extend(hear(store).await);
    }
    heard
}

fn wake() -> Wake {
    let destination_id = DestinationId::at(at(0), chance());
    let from = Position::due(at(3), DeliveryId::at(at(2), chance()));
    Wake { destination_id, shard: destination_id.shard(), from }
}

//! Several nodes on one store: who owns what, what they tell each other, and what becomes of it when one goes.

use crate::{
    bench::{Bench, Peer, bench, bench_with, schedule},
    defaults::slots,
};
use domain::{
    delivery::Status,
    destination::{Destination, Ordering, RateLimit},
    gate::HoldReason,
    id::{DestinationId, NodeId},
    lane::{Explanation, WaitKind},
    member::Role,
    testing::audit_entry,
    time::Timestamp,
};
use engine::{Engine, EngineHandle, EngineSettings};
use lab::{Latency, Reply};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use store::{Announce, Catalog, Change, DeliveryState, History, Lanes, Membership, Queue, StoreError};
use tokio::time::Instant;

const PATIENCE: Duration = Duration::from_secs(10);

impl Bench {
    /// How many shards each member owns.
    async fn shares(&self) -> BTreeMap<NodeId, usize> {
        let mut shares = BTreeMap::new();
        for owner in self.store.roster().await.unwrap().shards.into_iter().filter_map(|row| row.owner) {
            *shares.entry(owner).or_default() += 1;
        }
        shares
    }

    /// Waits until these nodes, and no others, own everything in even shares.
    pub(crate) async fn settled(&self, nodes: &[NodeId]) {
        self.until(|| async {
            let shares = self.shares().await;
            let all = shares.keys().copied().collect::<BTreeSet<_>>() == nodes.iter().copied().collect();
            let even = shares.values().max()? - shares.values().min()? <= 1;
            (all && even && shares.values().sum::<usize>() == 1024).then_some(())
        })
        .await;
    }

    /// A destination whose lane runs on this node.
    pub(crate) async fn destination_of(&self, node: NodeId, name: &str) -> DestinationId {
        self.destination_with(node, name, |_| {}).await
    }

    pub(crate) async fn destination_with(
        &self,
        node: NodeId,
        name: &str,
        change: impl Fn(&mut Destination),
    ) -> DestinationId {
        let shards = self.store.roster().await.unwrap().shards;
        loop {
            let id = self.destination(name, &change).await;
            if shards[usize::from(id.shard())].owner == Some(node) {
                return id;
            }
            let now = self.now();
            self.store.delete_destination(self.account, id, now, &audit_entry()).await.unwrap();
        }
    }

    /// The nodes that made the attempts of this destination's deliveries.
    async fn sent_by(&self, destination: DestinationId) -> BTreeSet<NodeId> {
        let mut nodes = BTreeSet::new();
        for delivery in self.deliveries(destination).await {
            let attempts = self.store.attempts_of_delivery(self.account, delivery.id, 100).await.unwrap();
            nodes.extend(attempts.into_iter().filter(|attempt| !attempt.late).map(|attempt| attempt.node));
        }
        nodes
    }
}

pub(crate) async fn two() -> (Bench, Peer) {
    let bench = bench().await;
    let peer = bench.peer().await;
    bench.settled(&[bench.id, peer.id]).await;
    (bench, peer)
}

#[tokio::test]
async fn what_is_committed_on_one_node_is_sent_at_once_by_the_owner() {
    let (bench, peer) = two().await;
    let destination = bench.destination_of(peer.id, "a").await;
    let mut pauses = Vec::new();
    for n in 1..=10 {
        let sent_at = Instant::now();
        bench.send(&[destination], b"{}").await;
        assert!(bench.receiver.wait_for_arrivals("a", n, PATIENCE).await);
        pauses.push(sent_at.elapsed());
    }
    pauses.sort();
    assert!(pauses[5] < Duration::from_millis(50), "{pauses:?}");
    assert!(bench.receiver.wait_for_succeeded(10, PATIENCE).await);
    bench.until(|| async { (bench.sent_by(destination).await == [peer.id].into()).then_some(()) }).await;
    assert_eq!(bench.receiver.total(), 10);
}

#[tokio::test]
async fn nodes_that_join_take_over_without_losing_or_doubling_anything() {
    let bench = bench().await;
    bench.receiver.default_script(Reply::ok().after(Latency::Fixed(Duration::from_millis(5))));
    let mut destinations = Vec::new();
    for n in 0..60 {
        destinations
            .push(bench.destination(&format!("d{n}"), |it| it.settings.max_concurrency = Some(2)).await);
    }
    let traffic = async {
        for n in 0..400 {
            let some: Vec<_> = (0..3).map(|k| destinations[(n * 7 + k * 13) % 60]).collect();
            bench.send(&some, b"{}").await;
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
    };
    let joining = async {
        let second = bench.peer().await;
        bench.settled(&[bench.id, second.id]).await;
        let third = bench.peer().await;
        bench.settled(&[bench.id, second.id, third.id]).await;
        (second, third)
    };
    let ((), (second, third)) = tokio::join!(traffic, joining);
    assert!(
        bench.receiver.wait_for_succeeded(1_200, PATIENCE).await,
        "{} of 1200",
        bench.receiver.succeeded()
    );
    let mut senders = BTreeSet::new();
    for destination in &destinations {
        senders.extend(bench.sent_by(*destination).await);
    }
    assert_eq!(senders, [bench.id, second.id, third.id].into(), "all three have sent something");
    assert_eq!(bench.receiver.total(), 1_200, "nothing twice");
    for n in 0..60 {
        assert!(bench.receiver.max_open(&format!("d{n}")) <= 2, "the limit of d{n} was exceeded");
    }
}

#[tokio::test]
async fn a_stopped_nodes_shards_go_on_at_another_as_they_drain() {
    let (bench, peer) = two().await;
    let slow = bench.destination_of(peer.id, "slow").await;
    let quick = bench.destination_of(peer.id, "quick").await;
    bench.receiver.script("slow", Reply::ok().after(Latency::Fixed(Duration::from_millis(1_500))));
    bench.send(&[slow], b"{}").await;
    assert!(bench.receiver.wait_for_arrivals("slow", 1, PATIENCE).await);

    let Peer { engine, handle, .. } = peer;
    let stopping = engine.stop(Duration::from_secs(10));
    let using = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let sent_at = Instant::now();
        bench.send(&[quick], b"{}").await;
        assert!(bench.receiver.wait_for_arrivals("quick", 1, PATIENCE).await);
        assert!(
            sent_at.elapsed() < Duration::from_secs(1),
            "it waited for the slow one: {:?}",
            sent_at.elapsed()
        );
    };
    tokio::join!(stopping, using);
    bench.settled(&[bench.id]).await;
    assert_eq!(bench.ended(slow).await, (Status::Delivered, None));

    // Its handle outlives it: what is committed there even now is passed on.
    bench.send_through(&handle, &[quick, slow], b"{}").await;
    assert!(bench.receiver.wait_for_succeeded(4, PATIENCE).await);
    assert_eq!(bench.receiver.total(), 4, "nothing twice");
}

#[tokio::test]
async fn a_node_whose_row_is_gone_drops_everything_and_comes_back_as_another() {
    let (bench, peer) = two().await;
    let hanging = bench.destination_of(peer.id, "hanging").await;
    bench.receiver.script("hanging", Reply::ok().after(Latency::Fixed(Duration::from_secs(4))));
    bench.send(&[hanging], b"{}").await;
    assert!(bench.receiver.wait_for_arrivals("hanging", 1, PATIENCE).await);
    bench.receiver.script("hanging", Reply::ok());

    bench.store.leave(peer.id).await.unwrap();
    // Another has it, and sends what was cut off again.
    assert!(bench.receiver.wait_for_arrivals("hanging", 2, PATIENCE).await);
    assert_eq!(bench.ended(hanging).await, (Status::Delivered, None));
    let members = bench
        .until(|| async {
            let shares = bench.shares().await;
            let even = shares.values().max()? - shares.values().min()? <= 1;
            (shares.len() == 2 && even).then(|| shares.into_keys().collect::<BTreeSet<_>>())
        })
        .await;
    assert!(members.contains(&bench.id) && !members.contains(&peer.id), "it has joined under another id");
    let delivery = bench.deliveries(hanging).await.remove(0);
    let attempts = bench.store.attempts_of_delivery(bench.account, delivery.id, 10).await.unwrap();
    assert!(attempts.iter().all(|attempt| attempt.node != peer.id || attempt.late), "{attempts:?}");

    let reborn = members.into_iter().find(|id| *id != bench.id).unwrap();
    let destination = bench.destination_of(reborn, "after").await;
    bench.send(&[destination], b"{}").await;
    assert_eq!(bench.ended(destination).await, (Status::Delivered, None));
    assert_eq!(bench.sent_by(destination).await, [reborn].into());
}

#[tokio::test]
async fn defaults_changed_on_one_node_are_obeyed_by_the_owner_within_a_second_though_nobody_tells_it() {
    let (bench, peer) = two().await;
    bench.have_defaults(slots(1)).await;
    let destination = bench.destination_of(peer.id, "a").await;
    bench.receiver.script("a", Reply::Hang);
    for _ in 0..3 {
        bench.send(&[destination], b"{}").await;
    }
    bench.is_full(destination).await;
    assert_eq!(bench.receiver.max_open("a"), 1);

    bench.have_defaults(slots(2)).await;
    let changed_at = Instant::now();
    assert!(bench.receiver.wait_for_arrivals("a", 2, PATIENCE).await);
    assert!(changed_at.elapsed() < Duration::from_secs(1), "{:?}", changed_at.elapsed());
    assert_eq!(bench.sent_by(destination).await, BTreeSet::new(), "nothing has ended");
    assert_eq!(bench.receiver.max_open("a"), 2);
}

#[tokio::test]
async fn commands_given_on_one_node_reach_the_owner_within_a_second() {
    let (bench, peer) = two().await;
    let destination = bench.destination_of(peer.id, "a").await;
    bench.send(&[destination], b"{}").await;
    assert!(bench.receiver.wait_for_succeeded(1, PATIENCE).await);
    let changed = || bench.handle.changed(Change::Destinations(bench.account, vec![destination]));
    let soon = |since: Instant| assert!(since.elapsed() < Duration::from_secs(1), "{:?}", since.elapsed());

    // Pause, as the owner sees it and as the others do.
    let mut row = bench.store.destination(bench.account, destination).await.unwrap();
    row.switch.paused_at = Some(bench.now());
    bench.store.update_destination(&row, &audit_entry()).await.unwrap();
    let told_at = Instant::now();
    changed().await;
    let hold_at = |handle: Arc<engine::EngineHandle>| async move {
        handle.views(&[destination]).await.remove(0).and_then(|view| view.hold).map(|hold| hold.reason)
    };
    bench.until(|| async { (hold_at(peer.handle.clone()).await? == HoldReason::Paused).then_some(()) }).await;
    soon(told_at);
    bench
        .until(|| async { (hold_at(bench.handle.clone()).await? == HoldReason::Paused).then_some(()) })
        .await;
    bench.send(&[destination], b"{}").await;
    let waiting = || async {
        let rows = bench.deliveries(destination).await;
        let waiting = rows.into_iter().find_map(|row| match row.state {
            DeliveryState::Waiting(delivery) => Some(*delivery),
            DeliveryState::Ended { .. } => None,
        });
        waiting.expect("one waits")
    };
    let why = bench.handle.explain(vec![waiting().await]).await.remove(0).waits().unwrap();
    assert_eq!(why.kind, WaitKind::Paused);

    // Another URL, and on.
    let mut row = bench.store.destination(bench.account, destination).await.unwrap();
    row.switch.paused_at = None;
    row.switch.resumed_at = Some(bench.now());
    row.url = bench.receiver.url("/d/b");
    row.settings.retry_policy = schedule(&[3_600]);
    bench.store.update_destination(&row, &audit_entry()).await.unwrap();
    let told_at = Instant::now();
    changed().await;
    assert!(bench.receiver.wait_for_arrivals("b", 1, PATIENCE).await);
    soon(told_at);

    // Retry now.
    bench.receiver.script("b", Reply::status(500));
    bench.send(&[destination], b"{}").await;
    assert!(bench.receiver.wait_for_arrivals("b", 2, PATIENCE).await);
    let failed = bench.until(|| async { Some(waiting().await).filter(|it| it.attempts == 1) }).await;
    let told_at = Instant::now();
    let due =
        bench.store.retry_now(bench.account, failed.id, bench.now(), &audit_entry()).await.unwrap().unwrap();
    bench.handle.look(&[(destination, due.id, due.position)]).await;
    assert!(bench.receiver.wait_for_arrivals("b", 3, PATIENCE).await);
    soon(told_at);

    // Probe, without a word: the version tells.
    bench.receiver.script("b", Reply::throttled(3_600));
    bench.send(&[destination], b"{}").await;
    bench
        .until(|| async { (hold_at(peer.handle.clone()).await? == HoldReason::Throttle).then_some(()) })
        .await;
    bench.receiver.script("b", Reply::ok());
    let told_at = Instant::now();
    bench.store.probe(bench.account, destination, bench.now(), &audit_entry()).await.unwrap();
    assert!(bench.receiver.wait_for_arrivals("b", 5, PATIENCE).await);
    soon(told_at);
}

#[tokio::test]
async fn a_node_that_only_listens_owns_nothing_and_passes_everything_on() {
    let bench = bench().await;
    let api = bench.peer_with(|parts| parts.node.role = Role::Api).await;
    bench.until(|| async { (bench.store.roster().await.unwrap().members.len() == 2).then_some(()) }).await;
    let destination = bench.destination("a", |_| {}).await;
    bench.send_through(&api.handle, &[destination], b"{}").await;
    assert_eq!(bench.ended(destination).await, (Status::Delivered, None));
    assert_eq!(bench.shares().await, [(bench.id, 1024)].into());

    // Without a worker it says so.
    let waits = bench.destination("b", |it| it.switch.paused_at = Some(Timestamp::MIN)).await;
    bench.send_through(&api.handle, &[waits], b"{}").await;
    let DeliveryState::Waiting(delivery) = bench.deliveries(waits).await.remove(0).state else {
        panic!("it is paused")
    };
    let why = |kind| {
        let (handle, delivery) = (&api.handle, (*delivery).clone());
        async move { (handle.explain(vec![delivery]).await.remove(0).waits()?.kind == kind).then_some(()) }
    };
    bench.until(|| why(WaitKind::Paused)).await;
    // It would come back before any node has looked.
    bench.store.interrupt(|call| match call {
        "join" => Err(StoreError::Unavailable("not now".into())),
        _ => Ok(()),
    });
    bench.store.leave(bench.id).await.unwrap();
    bench.until(|| why(WaitKind::NoWorker)).await;
}

#[tokio::test]
async fn a_hold_goes_over_to_the_next_owner() {
    let (bench, peer) = two().await;
    let destination = bench.destination_of(peer.id, "a").await;
    bench.receiver.script("a", Reply::throttled(3_600));
    bench.send(&[destination], b"{}").await;
    assert!(bench.receiver.wait_for_ended(1, PATIENCE).await);
    peer.engine.stop(Duration::from_secs(5)).await;
    bench.settled(&[bench.id]).await;
    bench.send(&[destination], b"{}").await;
    bench
        .until(|| async {
            let view = bench.handle.views(&[destination]).await.remove(0)?;
            (view.hold?.reason == HoldReason::Throttle).then_some(())
        })
        .await;
    assert_eq!(bench.receiver.total(), 1);
}

#[tokio::test]
async fn what_is_being_delivered_elsewhere_is_seen_from_everywhere() {
    let (bench, peer) = two().await;
    let destination = bench.destination_of(peer.id, "a").await;
    bench.receiver.script("a", Reply::ok().after(Latency::Fixed(Duration::from_secs(5))));
    bench.send(&[destination], b"{}").await;
    assert!(bench.receiver.wait_for_arrivals("a", 1, PATIENCE).await);
    let DeliveryState::Waiting(delivery) = bench.deliveries(destination).await.remove(0).state else {
        panic!("it is open")
    };
    bench
        .until(|| async {
            let view = bench.handle.views(&[destination]).await.remove(0)?;
            let said = bench.handle.explain(vec![(*delivery).clone()]).await.remove(0);
            (view.in_flight == 1 && said == Explanation::Delivering).then_some(())
        })
        .await;
}

#[tokio::test]
async fn what_a_delivery_waits_for_is_said_the_same_everywhere() {
    let (bench, peer) = two().await;
    let slow = Reply::ok().after(Latency::Fixed(Duration::from_secs(20)));
    ["strict", "full", "paced"].into_iter().for_each(|name| bench.receiver.script(name, slow.clone()));
    let strict = |it: &mut Destination| it.ordering = Ordering::Strict;
    let full = |it: &mut Destination| it.settings.max_concurrency = Some(1);
    let paced = |it: &mut Destination| it.rate_limit = Some(RateLimit { requests: 1, per_seconds: 60 });
    for (destination, kind) in [
        (bench.destination_with(peer.id, "strict", strict).await, WaitKind::Order),
        (bench.destination_with(peer.id, "full", full).await, WaitKind::Concurrency),
        (bench.destination_with(peer.id, "paced", paced).await, WaitKind::Rate),
    ] {
        bench.send(&[destination], b"1").await;
        bench.send(&[destination], b"2").await;
        let said = async |handle: &Arc<EngineHandle>| {
            let waiting =
                bench.deliveries(destination).await.into_iter().filter_map(|record| match record.state {
                    DeliveryState::Waiting(delivery) => Some(*delivery),
                    DeliveryState::Ended { .. } => None,
                });
            let said = handle.explain(waiting.collect()).await;
            said.into_iter().filter_map(Explanation::waits).find(|why| why.kind == kind)
        };
        let owner = bench.until(|| said(&peer.handle)).await;
        let other = bench.until(|| said(&bench.handle)).await;
        assert_eq!(other, owner);
    }
}

/// A node that stands still for longer than its lease, as a stopped process does, and goes on.
#[tokio::test]
async fn a_node_that_thaws_after_its_lease_sends_nothing_in_its_old_name() {
    let lease = Duration::from_secs(4);
    let settings = EngineSettings { lease, ..EngineSettings::default() };
    let bench = bench_with(settings.clone(), None).await;
    let parts = bench.peer_parts(settings);
    let id = parts.node.id;
    let frozen = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let engine = frozen.spawn(async move { Engine::start(parts).await.unwrap() }).await.unwrap();
    bench.settled(&[bench.id, id]).await;
    let destination = bench.destination_of(id, "a").await;
    bench.receiver.script("a", Reply::ok().after(Latency::Fixed(Duration::from_millis(300))));
    for _ in 0..20 {
        bench.send_through(&engine.handle(), &[destination], b"{}").await;
    }
    assert!(bench.receiver.wait_for_arrivals("a", 5, PATIENCE).await);
    let frozen_at = bench.now();
    let thawed = frozen.spawn(async {
        // Not a sleeping test: this is the freeze.
        std::thread::sleep(Duration::from_secs(8));
    });
    // Within the lease and two seconds another node goes on.
    assert!(bench.receiver.wait_for_succeeded(20, PATIENCE).await);
    assert!(bench.now().since(frozen_at) < Duration::from_secs(8), "before it thaws");
    thawed.await.unwrap();
    // It finds out, and comes back under another name.
    bench
        .until(|| async {
            let shares = bench.shares().await;
            (shares.len() == 2 && !shares.contains_key(&id)).then_some(())
        })
        .await;
    for delivery in bench.deliveries(destination).await {
        let attempts = bench.store.attempts_of_delivery(bench.account, delivery.id, 10).await.unwrap();
        for attempt in attempts.iter().filter(|attempt| attempt.node == id) {
            let late = attempt.started_at.since(frozen_at);
            assert!(late < Duration::from_millis(500), "it began {late:?} after it stood still");
        }
    }
    assert!(bench.receiver.max_open("a") <= 10, "five of each at most: {}", bench.receiver.max_open("a"));
    frozen.shutdown_background();
}

//! Large fan-outs: more destinations than a node has lanes in memory.

use crate::bench::{Bench, bench_with};
use domain::{id::EventId, limits, testing};
use engine::{
    EngineSettings,
    sink::Sinks,
    transport::{HttpAnswer, HttpRequest, HttpResponse, Transport},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use store::{Announce, Catalog, Committed, Expansions, History, Ingest, NewEvent, PreparedEvent};
use tokio::time::Instant;

/// Everything arrives, after a while.
#[derive(Default)]
struct Welcoming {
    after: Duration,
    arrived: AtomicUsize,
    open: AtomicUsize,
    most_open: AtomicUsize,
}

impl Transport for Welcoming {
    async fn send(&self, _: HttpRequest) -> HttpAnswer {
        let open = 1 + self.open.fetch_add(1, Ordering::Relaxed);
        self.most_open.fetch_max(open, Ordering::Relaxed);
        tokio::time::sleep(self.after).await;
        self.open.fetch_sub(1, Ordering::Relaxed);
        self.arrived.fetch_add(1, Ordering::Relaxed);
        let (headers, body) = Default::default();
        let received = HttpResponse { status: 200, headers, body, truncated: false };
        HttpAnswer { result: Ok(received), connection: None, first_byte: None }
    }
}

impl Bench {
    /// Commits an event for every destination there is, and tells the engine if asked to.
    pub(crate) async fn send_to_all(&self, tell: bool) -> EventId {
        let now = self.now();
        let event = testing::event(self.account, now, rand::random());
        let id = event.id;
        let account_version = self.store.account(self.account).await.unwrap().version;
        let (event, deliveries) = (PreparedEvent::new(event), Vec::new());
        let new = NewEvent {
            event,
            account_version,
            deliveries,
            other_routes: Vec::new(),
            expands: true,
            key: None,
        };
        assert_eq!(self.store.commit(&[new], now).await.unwrap(), [Committed::New]);
        if tell {
            let expansion = self.store.expansion(id).await.unwrap().expect("just begun");
            self.handle.expanding(vec![expansion]).await;
        }
        id
    }

    /// Waits until the event has reached every destination, which are so many.
    pub(crate) async fn reached(&self, event: EventId, count: usize) {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let fanout = self.store.event(self.account, event).await.unwrap().fanout;
            if !fanout.expanding && fanout.delivered as usize == count {
                assert_eq!((fanout.total as usize, fanout.waiting), (count, 0));
                return;
            }
            assert!(Instant::now() < deadline, "{fanout:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test]
async fn an_event_reaches_more_destinations_than_a_node_keeps_lanes() {
    let welcoming = Arc::new(Welcoming::default());
    // The net is not needed: it would only hide a lane that was forgotten.
    let settings =
        EngineSettings { lanes_kept: 500, rescan: Duration::from_secs(3600), ..EngineSettings::default() };
    let bench = bench_with(settings, Some(Sinks::http(welcoming.clone()))).await;
    let count = 1_500;
    for at in 0..count {
        bench.destination(&at.to_string(), |_| {}).await;
    }
    let event = bench.send_to_all(true).await;
    bench.reached(event, count).await;
    assert_eq!(welcoming.arrived.load(Ordering::Relaxed), count, "each once");
}

#[tokio::test]
async fn a_crowd_is_sent_to_a_few_at_a_time() {
    let welcoming = Arc::new(Welcoming { after: Duration::from_millis(20), ..Welcoming::default() });
    let bench = bench_with(EngineSettings::default(), Some(Sinks::http(welcoming.clone()))).await;
    let count = 3_000;
    for at in 0..count {
        bench.destination(&at.to_string(), |_| {}).await;
    }
    let event = bench.send_to_all(true).await;
    bench.reached(event, count).await;
    // Besides what is counted there is one fetch under way, and what the least pace lets in.
    let most = limits::CROWD_BUSY + limits::FETCH_LANES + limits::LANES_A_SECOND as usize / 10;
    let open = welcoming.most_open.load(Ordering::Relaxed);
    assert!(open <= most, "{open} requests were open at once");
}

#[tokio::test]
async fn an_expansion_that_was_not_announced_is_found() {
    let welcoming = Arc::new(Welcoming::default());
    let bench = bench_with(EngineSettings::default(), Some(Sinks::http(welcoming.clone()))).await;
    for name in ["a", "b", "c"] {
        bench.destination(name, |_| {}).await;
    }
    let event = bench.send_to_all(false).await;
    bench.reached(event, 3).await;
    assert_eq!(welcoming.arrived.load(Ordering::Relaxed), 3);
}

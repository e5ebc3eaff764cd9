use super::*;
use crate::{Admission, IngestParts, IngestSettings, LongWork, PendingAnswer, idempotency_key};
use async_trait::async_trait;
use bytes::Bytes;
use domain::{
    account::Account,
    destination::Destination,
    id::RouteId,
    route::Route,
    seal::{MasterKeys, Sealed},
    testing::audit_entry,
    testing::{self, CountingDice, StandingClock},
    time::Timestamp,
};
use std::{
    collections::VecDeque as Script,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use store::{Catalog, Change, Expansion, PreparedEvent, Queue, StoredEvent, memory::MemoryStore};
use tokio::{
    task::{JoinHandle, yield_now},
    time::timeout,
};

fn master_keys() -> Arc<MasterKeys> {
    Arc::new(MasterKeys::parse("k1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=").expect("a key"))
}

const NOW: Timestamp = Timestamp::from_seconds(1_790_000_000);

/// What was observed.
#[derive(Default)]
struct Observed {
    committed: AtomicU64,
    store_failed: AtomicBool,
    /// Hearing of the next one panics.
    panics: AtomicBool,
}

impl Observer for Observed {
    fn committed(&self, _: &NewEvent) {
        assert!(!self.panics.swap(false, Ordering::Relaxed), "a bug between flush and answer");
        self.committed.fetch_add(1, Ordering::Relaxed);
    }
    fn store_failed(&self) {
        self.store_failed.store(true, Ordering::Relaxed);
    }
}

/// What happened, in order.
#[derive(Default)]
struct Log(Mutex<Vec<String>>);

impl Log {
    fn add(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }
    fn taken(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

#[async_trait]
impl Announce for Log {
    async fn expected(&self, deliveries: &[(DestinationId, DeliveryId)]) {
        self.add(format!("expected {}", deliveries.len()));
    }
    async fn arrived(&self, arrivals: Vec<Arrival>) {
        self.add(format!("arrived {}", arrivals.len()));
    }
    async fn forgotten(&self, deliveries: &[(DestinationId, DeliveryId)]) {
        self.add(format!("forgotten {}", deliveries.len()));
    }
    async fn look(&self, places: &[(DestinationId, DeliveryId, Position)]) {
        self.add(format!("look {}", places.len()));
    }
    async fn expanding(&self, expansions: Vec<Expansion>) {
        self.add(format!("expanding {}", expansions.len()));
    }
    async fn changed(&self, _: Change) {}
}

/// What the next commit does instead of committing, if anything.
enum Trouble {
    Away,
    Unknown,
    /// Committed, and then the answer was lost.
    UnknownAfterCommit,
    /// Of the first try nothing is known yet, and the routes change before the second.
    UnknownBeforeChange,
    Failed,
    Panics,
    /// It is committed when it is let.
    Held(Arc<Notify>),
}

/// A store that does as told, and then as it should.
struct Scripted {
    memory: Arc<MemoryStore>,
    log: Arc<Log>,
    script: Mutex<Script<Trouble>>,
}

#[async_trait]
impl Ingest for Scripted {
    async fn commit(&self, batch: &[NewEvent], now: Timestamp) -> Result<Vec<Committed>, StoreError> {
        self.log.add(format!("commit {}", batch.len()));
        let trouble = self.script.lock().unwrap().pop_front();
        match trouble {
            None => self.memory.commit(batch, now).await,
            Some(Trouble::Away) => Err(StoreError::Unavailable("away".into())),
            Some(Trouble::Unknown) => Err(StoreError::OutcomeUnknown("cut".into())),
            Some(Trouble::UnknownAfterCommit) => {
                self.memory.commit(batch, now).await?;
                Err(StoreError::OutcomeUnknown("cut".into()))
            }
            Some(Trouble::UnknownBeforeChange) => {
                let (account, route) = (batch[0].event.account_id, batch[0].deliveries[0].route_id);
                self.memory.delete_route(account, route, now, &audit_entry()).await?;
                Err(StoreError::OutcomeUnknown("cut".into()))
            }
            Some(Trouble::Failed) => Err(StoreError::Failed("flush".into())),
            Some(Trouble::Panics) => panic!("a bug in the store"),
            Some(Trouble::Held(let_go)) => {
                let_go.notified().await;
                self.memory.commit(batch, now).await
            }
        }
    }

    async fn prune_idempotency(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.memory.prune_idempotency(before, limit).await
    }
}

/// An account with one destination and one route that takes everything published.
struct World {
    memory: Arc<MemoryStore>,
    log: Arc<Log>,
    snapshots: Arc<Snapshots>,
    dice: Arc<CountingDice>,
    observed: Arc<Observed>,
    account: AccountId,
    route: Route,
}

impl World {
    async fn new() -> Self {
        let memory = Arc::new(MemoryStore::new(Arc::new(StandingClock(NOW))));
        let account = AccountId::at(NOW, 1);
        memory
            .create_account(&Account::new(account, "Acme", Sealed::default(), NOW), &audit_entry())
            .await
            .unwrap();
        let destination =
            Destination::new(DestinationId::at(NOW, 1), account, "there", "https://example.com", NOW);
        memory.create_destination(&destination, &audit_entry()).await.unwrap();
        let route = Route::new(RouteId::at(NOW, 1), account, destination.id, NOW);
        let route = memory.create_route(&route, &audit_entry()).await.unwrap();
        Self {
            snapshots: Arc::new(Snapshots::new(memory.clone(), master_keys(), LongWork::OnThreads)),
            memory,
            log: Arc::default(),
            dice: Arc::default(),
            observed: Arc::default(),
            account,
            route,
        }
    }

    /// With a store that does as the script says.
    fn open(&self, script: impl IntoIterator<Item = Trouble>, queue: usize) -> (Admission, Committer) {
        let script = Mutex::new(script.into_iter().collect());
        crate::open(IngestParts {
            store: Arc::new(Scripted { memory: self.memory.clone(), log: self.log.clone(), script }),
            catalog: self.memory.clone(),
            announce: self.log.clone(),
            clock: Arc::new(StandingClock(NOW)),
            dice: self.dice.clone(),
            observer: self.observed.clone(),
            tracer: Default::default(),
            master_keys: master_keys(),
            settings: IngestSettings { queue, ..IngestSettings::default() },
        })
    }

    fn event(&self, key: Option<&str>, payload: &'static str) -> Event {
        Event {
            idempotency_key: key.map(Into::into),
            payload: Bytes::from_static(payload.as_bytes()),
            ..testing::event(self.account, NOW, self.dice.bits())
        }
    }

    /// An event whose account is not there, or not any more.
    fn of_no_account(&self) -> NewEvent {
        let event = Event { account_id: AccountId::at(NOW, 2), ..self.event(None, "") };
        let event = PreparedEvent::new(event);
        NewEvent {
            event,
            account_version: 1,
            deliveries: Vec::new(),
            other_routes: Vec::new(),
            expands: false,
            key: None,
        }
    }

    /// As a handler would: matched now, committed later.
    async fn matched(&self, event: Event) -> NewEvent {
        let snapshot = self.snapshots.get(self.account).await.unwrap();
        let dice: Arc<dyn Dice> = self.dice.clone();
        let (event, FanOut { deliveries, other_routes, expands }) =
            Matcher::new(&IngestSettings::default()).prepare(event.into(), &snapshot, &dice).await.unwrap();
        let key = event.idempotency_key.as_deref();
        let key = key.map(|key| idempotency_key(self.account.uuid(), key, &event));
        NewEvent { event, account_version: snapshot.version, deliveries, other_routes, expands, key }
    }

    async fn many(&self, count: usize) -> Vec<NewEvent> {
        let mut many = Vec::new();
        for _ in 0..count {
            many.push(self.matched(self.event(None, "one of many")).await);
        }
        many
    }

    async fn two(&self) -> Vec<NewEvent> {
        vec![self.matched(self.event(None, "1")).await, self.matched(self.event(None, "2")).await]
    }

    /// Runs the committer over one event; gives its answer and what happened.
    async fn run_one(&self, script: impl IntoIterator<Item = Trouble>) -> (Answer, Vec<String>) {
        let event = self.matched(self.event(None, "1")).await;
        let (mut answers, log) = self.run(script, vec![event]).await;
        (answers.remove(0), log)
    }

    /// Runs the committer over these events, and gives their answers and what happened.
    async fn run(
        &self,
        script: impl IntoIterator<Item = Trouble>,
        events: Vec<NewEvent>,
    ) -> (Vec<Answer>, Vec<String>) {
        let (admission, mut committer) = self.open(script, limits::INGEST_QUEUE);
        let pending: Vec<_> = events.into_iter().map(|new| submit(&admission, new).unwrap()).collect();
        let stop = CancellationToken::new();
        stop.cancel();
        committer.run(stop).await;
        let mut answers = Vec::new();
        for pending in pending {
            answers.push(answer(pending).await);
        }
        (answers, self.log.taken())
    }
}

fn submit(admission: &Admission, new: NewEvent) -> Result<PendingAnswer, IngestError> {
    let reserved = admission.budget().reserve(new.event.account_id, 0)?;
    admission.enqueue(new, reserved)
}

/// Everything admitted is answered, in a while.
async fn answer(pending: PendingAnswer) -> Answer {
    pending.wait_until(tokio::time::Instant::now() + limits::ANSWER_PATIENCE).await
}

/// Said by the store, or by the committer because its first try may still be running.
fn is_outcome_unknown(answer: &Answer) -> bool {
    match answer {
        Err(IngestError::Unconfirmed) => true,
        Err(IngestError::Store(error)) => matches!(**error, StoreError::OutcomeUnknown(_)),
        _ => false,
    }
}

#[tokio::test]
async fn what_was_flushed_before_a_panic_is_looked_for() {
    let world = World::new().await;
    world.observed.panics.store(true, Ordering::Relaxed);
    let events = world.two().await;
    let (answers, log) = world.run([], events).await;
    assert!(answers.iter().all(is_outcome_unknown), "{answers:?}");
    assert_eq!(log, ["expected 2", "commit 2", "look 2"]);
}

#[tokio::test]
async fn whatever_waits_shares_one_flush_and_is_announced_around_it() {
    let world = World::new().await;
    let events = world.two().await;
    let ids: Vec<_> = events.iter().map(|new| new.event.id).collect();
    let (answers, log) = world.run([], events).await;
    assert_eq!(log, ["expected 2", "commit 2", "arrived 2"]);
    for (answer, id) in answers.into_iter().zip(ids) {
        let expected = Accepted { id, duplicate: false, deliveries: Some(1) };
        assert_eq!(answer.unwrap(), expected);
    }
}

/// A committer whose first flush, of as many events as were given, lasts as long as the trial.
struct HeldFlush {
    admission: Admission,
    let_go: Arc<Notify>,
    log: Arc<Log>,
    stop: CancellationToken,
    running: JoinHandle<()>,
}

impl HeldFlush {
    async fn of(world: &World, events: Vec<NewEvent>) -> Self {
        let let_go = Arc::new(Notify::new());
        let (admission, mut committer) = world.open([Trouble::Held(let_go.clone())], limits::INGEST_QUEUE);
        for new in events {
            submit(&admission, new).unwrap();
        }
        let stop = CancellationToken::new();
        let told = stop.clone();
        let running = tokio::spawn(async move { committer.run(told).await });
        let this = Self { admission, let_go, log: world.log.clone(), stop, running };
        this.settled().await;
        this
    }

    /// What has happened when nothing happens any more.
    async fn settled(&self) -> Vec<String> {
        for _ in 0..100 {
            yield_now().await;
        }
        self.log.taken()
    }

    async fn submit(&self, new: NewEvent) -> Vec<String> {
        submit(&self.admission, new).unwrap();
        self.settled().await
    }

    /// What happens once the first flush is over.
    async fn end(self) -> Vec<String> {
        self.let_go.notify_one();
        let log = self.settled().await;
        self.stop.cancel();
        self.running.await.unwrap();
        log
    }
}

const FEW: usize = limits::COMMIT_BESIDE_EVENTS;

#[tokio::test]
async fn a_second_commit_begins_beside_the_first_once_as_many_wait() {
    let world = World::new().await;
    let held = HeldFlush::of(&world, world.many(FEW + 1).await).await;
    for new in world.many(FEW).await {
        assert!(held.submit(new).await.is_empty());
    }
    let log = held.submit(world.matched(world.event(None, "last")).await).await;
    assert_eq!(log, ["expected 9", "commit 9", "arrived 9"], "all of it while the first is being flushed");
    assert_eq!(held.end().await, ["arrived 9"]);
}

#[tokio::test]
async fn where_few_events_come_they_wait_for_the_one_commit() {
    let world = World::new().await;
    let held = HeldFlush::of(&world, world.many(1).await).await;
    for new in world.many(FEW - 1).await {
        assert!(held.submit(new).await.is_empty());
    }
    assert_eq!(held.end().await, ["arrived 1", "expected 7", "commit 7", "arrived 7"]);
}

#[tokio::test]
async fn what_a_third_commit_would_have_waits_for_the_end_of_one() {
    let world = World::new().await;
    let (first, second) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let script = [Trouble::Held(first), Trouble::Held(second.clone())];
    let (admission, mut committer) = world.open(script, limits::INGEST_QUEUE);
    let mut pending = Vec::new();
    let running = tokio::spawn(async move { committer.run(CancellationToken::new()).await });
    for _ in 0..3 {
        for new in world.many(FEW).await {
            pending.push(submit(&admission, new).unwrap());
        }
        for _ in 0..100 {
            yield_now().await;
        }
    }
    assert_eq!(world.log.taken(), ["expected 8", "commit 8", "expected 8", "commit 8"]);
    second.notify_one();
    for pending in pending.drain(FEW..) {
        answer(pending).await.unwrap();
    }
    assert_eq!(world.log.taken(), ["arrived 8", "expected 8", "commit 8", "arrived 8"], "beside the first");
    running.abort();
}

#[tokio::test]
async fn beside_a_commit_that_gives_numbers_none_begins() {
    let world = World::new().await;
    let mut numbered = world.matched(world.event(None, "numbered")).await;
    numbered.deliveries.iter_mut().for_each(|delivery| delivery.sequenced = true);
    let held = HeldFlush::of(&world, vec![numbered]).await;
    for new in world.many(FEW).await {
        assert!(held.submit(new).await.is_empty());
    }
    assert_eq!(held.end().await, ["look 1", "expected 8", "commit 8", "arrived 8"]);
}

#[tokio::test]
async fn a_delivery_whose_number_only_the_store_knows_is_looked_for() {
    let world = World::new().await;
    let mut numbered = world.matched(world.event(None, "numbered")).await;
    numbered.deliveries.iter_mut().for_each(|delivery| delivery.sequenced = true);
    let plain = world.matched(world.event(None, "plain")).await;
    let (_, log) = world.run([], vec![numbered, plain]).await;
    assert_eq!(log, ["expected 2", "commit 2", "arrived 1", "look 1"]);
}

#[tokio::test]
async fn a_large_fan_out_is_committed_without_deliveries_and_announced_as_such() {
    let world = World::new().await;
    let large = NewEvent {
        deliveries: Vec::new(),
        expands: true,
        ..world.matched(world.event(Some("k"), "large")).await
    };
    let repeat = NewEvent { deliveries: Vec::new(), ..world.matched(world.event(Some("k"), "large")).await };
    let id = large.event.id;
    let (answers, log) = world.run([], vec![large, repeat]).await;
    assert_eq!(log, ["commit 2", "expanding 1"]);
    for (answer, duplicate) in answers.into_iter().zip([false, true]) {
        assert_eq!(answer.unwrap(), Accepted { id, duplicate, deliveries: None });
    }
    assert_eq!(world.observed.committed.load(Ordering::Relaxed), 1, "a repeat is no new event");
}

#[tokio::test]
async fn a_repeated_key_gives_the_first_event_and_its_deliveries_are_forgotten() {
    let world = World::new().await;
    let first = world.matched(world.event(Some("k"), "same")).await;
    let id = first.event.id;
    let repeat = world.matched(world.event(Some("k"), "same")).await;
    let other = world.matched(world.event(Some("k"), "other")).await;
    let (answers, log) = world.run([], vec![first, repeat, other]).await;
    assert_eq!(log, ["expected 3", "commit 3", "arrived 1", "forgotten 2"]);
    assert_eq!(answers[1].clone().unwrap(), Accepted { id, duplicate: true, deliveries: Some(1) });
    assert!(matches!(answers[2], Err(IngestError::KeyConflict { of }) if of == id), "{:?}", answers[2]);
}

#[tokio::test]
async fn an_event_matched_with_old_routes_is_matched_again() {
    let world = World::new().await;
    let event = world.matched(world.event(None, "1")).await;
    world.memory.delete_route(world.account, world.route.id, NOW, &audit_entry()).await.unwrap();
    let (answers, log) = world.run([], vec![event]).await;
    assert_eq!(log, ["expected 1", "commit 1", "forgotten 1", "commit 1"]);
    assert_eq!(answers[0].as_ref().unwrap().deliveries, Some(0));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_was_away_for_a_moment_is_asked_once_more() {
    let world = World::new().await;
    let (answer, log) = world.run_one([Trouble::Away]).await;
    assert_eq!(log, ["expected 1", "commit 1", "commit 1", "arrived 1"]);
    assert!(answer.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_store_that_stays_away_is_told_and_nothing_is_expected_any_more() {
    let world = World::new().await;
    let (answer, log) = world.run_one([Trouble::Away, Trouble::Away]).await;
    assert_eq!(log, ["expected 1", "commit 1", "commit 1", "forgotten 1"]);
    let away = |error: &StoreError| matches!(error, StoreError::Unavailable(_));
    assert!(matches!(&answer, Err(IngestError::Store(error)) if away(error)), "{answer:?}");
}

#[tokio::test(start_paused = true)]
async fn an_unknown_outcome_is_settled_by_the_same_batch_again() {
    let world = World::new().await;
    let (answer, log) = world.run_one([Trouble::UnknownAfterCommit]).await;
    assert_eq!(log, ["expected 1", "commit 1", "commit 1", "arrived 1"]);
    assert!(!answer.as_ref().unwrap().duplicate);
}

#[tokio::test(start_paused = true)]
async fn an_outcome_that_stays_unknown_is_said_and_looked_for() {
    for second in [Trouble::Unknown, Trouble::Away, Trouble::Panics] {
        let world = World::new().await;
        let (answer, log) = world.run_one([Trouble::Unknown, second]).await;
        assert_eq!(log, ["expected 1", "commit 1", "commit 1", "look 1"]);
        assert!(is_outcome_unknown(&answer), "{answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_may_be_there_is_looked_for_again_when_its_statement_has_ended() {
    let world = World::new().await;
    let (_, log) = world.run_one([Trouble::Unknown, Trouble::Unknown]).await;
    assert_eq!(log.last().unwrap(), "look 1");
    sleep(limits::STORE_STATEMENT * 2).await;
    assert_eq!(world.log.taken(), ["look 1"]);
}

#[tokio::test(start_paused = true)]
async fn what_may_be_there_is_never_matched_again() {
    let world = World::new().await;
    let (answer, log) = world.run_one([Trouble::UnknownBeforeChange]).await;
    assert_eq!(log, ["expected 1", "commit 1", "commit 1", "look 1"]);
    assert!(is_outcome_unknown(&answer), "{answer:?}");
}

#[tokio::test(start_paused = true)]
async fn no_event_waits_while_another_accounts_routes_are_read() {
    let world = World::new().await;
    let stale = world.matched(world.event(None, "1")).await;
    world.memory.delete_route(world.account, world.route.id, NOW, &audit_entry()).await.unwrap();
    let (admission, mut committer) = world.open([], limits::INGEST_QUEUE);
    let snapshots = committer.flusher.snapshots.clone();
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let running = tokio::spawn(async move { committer.run(stopped).await });
    let stale = submit(&admission, stale).unwrap();
    let meanwhile = async {
        while !world.log.taken().contains(&"forgotten 1".to_owned()) {
            yield_now().await;
        }
        let other = world.of_no_account();
        let other = timeout(Duration::from_secs(1), answer(submit(&admission, other).unwrap())).await;
        assert!(matches!(other.expect("no wait"), Err(IngestError::NoAccount(_))));
        // What was admitted is answered, though it must stop now.
        stop.cancel();
    };
    snapshots.while_reading(world.account, meanwhile).await;
    assert_eq!(answer(stale).await.unwrap().deliveries, Some(0));
    running.await.unwrap();
}

#[tokio::test]
async fn a_failed_flush_is_not_tried_again_and_the_node_says_so() {
    let world = World::new().await;
    let (answer, log) = world.run_one([Trouble::Failed]).await;
    assert_eq!(log, ["expected 1", "commit 1", "look 1"]);
    assert!(is_outcome_unknown(&answer), "{answer:?}");
    assert!(world.observed.store_failed.load(Ordering::Relaxed));
}

#[tokio::test]
async fn an_account_that_is_gone_is_not_found() {
    let world = World::new().await;
    let (answers, log) = world.run([], vec![world.of_no_account()]).await;
    assert_eq!(log, ["commit 1"]);
    assert!(matches!(answers[0], Err(IngestError::NoAccount(_))), "{:?}", answers[0]);
}

#[tokio::test]
async fn a_flush_is_bounded_by_its_bytes() {
    let world = World::new().await;
    let large = Bytes::from(vec![b'x'; limits::INGEST_BATCH_BYTES / 2 + 1]);
    let mut events = Vec::new();
    for _ in 0..3 {
        let event = Event { payload: large.clone(), ..world.event(None, "") };
        events.push(world.matched(event).await);
    }
    let (answers, log) = world.run([], events).await;
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(log.iter().filter(|line| *line == "commit 1").count(), 3, "{log:?}");
}

#[tokio::test]
async fn a_full_queue_is_told_at_once() {
    let world = World::new().await;
    let (admission, _committer) = world.open([], 1);
    submit(&admission, world.matched(world.event(None, "1")).await).unwrap();
    let refused = submit(&admission, world.matched(world.event(None, "2")).await);
    assert!(matches!(refused, Err(IngestError::Overloaded)));
}

#[tokio::test]
async fn the_queues_bytes_are_bounded_and_come_back_with_the_answers() {
    let world = World::new().await;
    let (admission, mut committer) = world.open([], limits::INGEST_QUEUE);
    let large = Bytes::from(vec![b'x'; limits::INGEST_QUEUE_BYTES / 4]);
    let event = async || world.matched(Event { payload: large.clone(), ..world.event(None, "") }).await;
    for _ in 0..2 {
        submit(&admission, event().await).unwrap();
    }
    assert!(
        matches!(submit(&admission, event().await), Err(IngestError::Overloaded)),
        "a third is for others"
    );
    let of_another = Event { account_id: AccountId::at(NOW, 2), ..Event::clone(&event().await.event) };
    submit(&admission, NewEvent { event: PreparedEvent::new(of_another), ..world.of_no_account() }).unwrap();
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let running = tokio::spawn(async move { committer.run(stopped).await });
    // Room comes back when the flush before is answered.
    let answered = async {
        loop {
            match submit(&admission, event().await) {
                Ok(pending) => return answer(pending).await,
                Err(_) => yield_now().await,
            }
        }
    };
    assert!(answered.await.is_ok());
    stop.cancel();
    running.await.unwrap();
}

#[tokio::test]
async fn an_event_is_in_the_next_flush_however_much_of_another_account_waits() {
    let world = World::new().await;
    let mut events = Vec::new();
    for _ in 0..limits::INGEST_BATCH + 50 {
        events.push(world.matched(world.event(None, "")).await);
    }
    events.push(world.of_no_account());
    // What is in the first flush is not known afterwards, and what is in the second is.
    let (answers, _) = world.run([Trouble::Failed], events).await;
    let (late, greedy) = answers.split_last().unwrap();
    assert!(is_outcome_unknown(late), "{late:?}");
    let first = greedy.iter().take_while(|answer| is_outcome_unknown(answer)).count();
    assert_eq!(first, limits::INGEST_BATCH - 1, "within an account it goes by order");
    assert!(greedy[first..].iter().all(Result::is_ok));
}

#[tokio::test]
async fn an_event_that_fills_a_flush_lets_one_flush_of_others_go_before() {
    let world = World::new().await;
    let large = Bytes::from(vec![b'x'; limits::INGEST_BATCH_BYTES + 1]);
    let large = Event { payload: large, ..world.event(None, "") };
    let mut events = Vec::new();
    for _ in 0..2 {
        events.push(world.matched(Event { id: world.event(None, "").id, ..large.clone() }).await);
    }
    events.extend([world.of_no_account(), world.of_no_account()]);
    // What is in the first flush is not known afterwards.
    let (answers, log) = world.run([Trouble::Failed], events).await;
    assert!(answers[..2].iter().all(Result::is_ok), "{answers:?}");
    assert!(answers[2..].iter().all(is_outcome_unknown), "{answers:?}");
    assert_eq!(log.iter().filter(|line| line.starts_with("commit")).count(), 3, "{log:?}");
}

#[tokio::test]
async fn an_event_that_was_prepared_before_its_account_encrypts_is_sealed_before_it_is_written() {
    let world = World::new().await;
    let event = world.matched(world.event(None, "a canary")).await;
    assert!(event.event.is_sealed_as(None));
    let (keys, dice) = (master_keys(), CountingDice::default());
    let mut account = world.memory.account(world.account).await.unwrap();
    account.data_key = keys.new_data_key(account.id, &dice);
    let account = account.with_encryption(true, NOW);
    let account = world.memory.update_account(&account, &audit_entry()).await.unwrap();
    let id = event.event.id;
    let (answers, log) = world.run([], vec![event]).await;
    assert_eq!(answers[0].as_ref().map(|accepted| accepted.id).ok(), Some(id), "{answers:?}");
    assert!(log.iter().filter(|line| line.starts_with("commit")).count() > 1, "it was stale: {log:?}");
    let stored = Queue::payload(&*world.memory, id).await.unwrap().expect("it is there");
    let StoredEvent::Sealed(sealed) = stored else { panic!("it is readable") };
    let key = keys.data_key(account.id, &account.data_key).unwrap();
    assert_eq!(sealed.open(&key).unwrap().payload, "a canary");
}

#[tokio::test]
async fn what_cannot_be_sealed_does_not_come_in() {
    let world = World::new().await;
    let account = world.memory.account(world.account).await.unwrap().with_encryption(true, NOW);
    world.memory.update_account(&account, &audit_entry()).await.unwrap();
    let (admission, _committer) = world.open([], limits::INGEST_QUEUE);
    let refused = admission.snapshots().newer_than(world.account, i64::MAX).await;
    assert!(matches!(refused, Err(StoreError::Unavailable(_))), "its data key does not open");
}

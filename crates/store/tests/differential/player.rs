//! Draws operations from a seed. It looks at the memory store to know what there is, so that most of what it asks for
//! makes sense, and some of it on purpose does not: old versions, foreign accounts, random ids, words said twice.

mod draw;

use crate::{
    backend::START,
    fixtures::{self, first},
    operation::Operation,
};
use domain::{
    account::Account,
    attempt::Attempt,
    delivery::{CancelReason, Delivery, Ending, Position, Settled},
    destination::{Destination, Disabled, DisabledReason},
    event::Event,
    id::{
        AccountId, ApiKeyId, AttemptId, DeliveryId, DestinationId, EventId, NodeId, ReplayId, RouteId,
        SourceId,
    },
    limits,
    outcome::{DeadReason, Outcome},
    retry::RetryPolicy,
    route::Route,
    source::Source,
    time::Timestamp,
};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::{collections::BTreeMap, time::Duration};
use store::{
    Consequence, DeliveryFilter, Dismissal, DueDelivery, EventFilter, Fact, GroupFilter, IdempotencyKey,
    NewDelivery, NewEvent, NewReplay, Page, PreparedEvent, ReplayKey, ReplaySwitch, SelectedDeliveries,
    Selection, Settlement, Store, Window,
};

const ACCOUNTS: usize = 2;
const TYPES: [&str; 4] = ["invoice.paid", "invoice.sent", "refund.card.done", "ping"];
const TRACKS: [i64; 4] = [0, 7, i64::MIN, i64::MAX];
const EVERYTHING: usize = 1_000;

pub(crate) struct Player {
    dice: StdRng,
    now: Timestamp,
    accounts: Vec<AccountId>,
    /// Everything that was ever created, gone or not.
    destinations: Vec<DestinationId>,
    sources: Vec<Source>,
    routes: Vec<RouteId>,
    events: Vec<EventId>,
    deliveries: Vec<DeliveryId>,
    api_keys: Vec<ApiKeyId>,
    batches: Vec<Vec<NewEvent>>,
    settlements: Vec<Settlement>,
    replays: Vec<(AccountId, ReplayId)>,
}

impl Player {
    pub(crate) fn new(seed: u64) -> Self {
        const DAY_MICROS: i64 = 24 * 3600 * 1_000_000;
        Self {
            dice: StdRng::seed_from_u64(seed),
            now: Timestamp::from_micros(START.micros() / DAY_MICROS * DAY_MICROS),
            accounts: Vec::new(),
            destinations: Vec::new(),
            sources: Vec::new(),
            routes: Vec::new(),
            events: Vec::new(),
            deliveries: Vec::new(),
            api_keys: Vec::new(),
            batches: Vec::new(),
            settlements: Vec::new(),
            replays: Vec::new(),
        }
    }

    // --- The parts of a game ---------------------------------------------------------------------------------------

    /// Accounts, and somewhere for their events to go.
    pub(crate) fn opening(&mut self) -> Vec<Operation> {
        let mut operations = Vec::new();
        for _ in 0..ACCOUNTS {
            let account = Account { id: AccountId::at(self.now, self.dice.random()), ..fixtures::account() };
            self.accounts.push(account.id);
            let destination = self.new_destination(account.id);
            let route = self.new_route(account.id, destination.id);
            operations.push(Operation::CreateAccount(account));
            operations.push(Operation::CreateDestination(destination));
            operations.push(Operation::CreateRoute(route));
        }
        operations
    }

    pub(crate) async fn next(&mut self, seen: &dyn Store) -> Operation {
        // Mostly seconds, sometimes no time at all, sometimes into the next day.
        let pause = match self.dice.random_range(0..20) {
            0..6 => 0,
            19 => 30_000_000_000,
            _ => self.dice.random_range(1..5_000_000),
        };
        self.now = self.now.plus(Duration::from_micros(pause));
        match self.dice.random_range(0..100) {
            0..20 => self.configure(seen).await,
            20..45 => self.ingest(seen).await,
            45..69 => self.work(seen).await,
            69..74 => self.replay(),
            74 => self.dismiss(),
            _ => self.read(seen).await,
        }
    }

    /// Reads all there is, and leaves nothing waiting and no key used.
    pub(crate) async fn closing(&mut self, seen: &dyn Store) -> Vec<Operation> {
        let mut operations =
            vec![Operation::Lanes(3), Operation::DestinationRecords(self.destinations.clone())];
        operations.push(Operation::Fetch(self.destinations.iter().map(|id| fixtures::window(*id)).collect()));
        operations.extend(self.destinations.iter().map(|id| Operation::Tracks(*id, 2)));
        for account in self.accounts.clone() {
            operations.extend([
                Operation::Account(account),
                Operation::Changes(account, 0),
                Operation::ApiKeys(account, EVERYTHING),
                Operation::Sources(account, first(EVERYTHING)),
                Operation::Destinations(account, first(EVERYTHING)),
                Operation::Routes(account, first(EVERYTHING)),
                Operation::Events(account, EventFilter::default(), 7),
                Operation::Deliveries(account, DeliveryFilter::default(), 7),
                Operation::DeadLetterGroups(account, GroupFilter::default(), 2),
                Operation::Replays(account, EVERYTHING),
            ]);
            let attempts = |id: &DestinationId| Operation::AttemptsOfDestination(account, *id, 7);
            operations.extend(self.destinations.iter().map(attempts));
            // By now there is most to be told apart.
            for _ in 0..4 {
                operations.push(Operation::Events(account, self.event_filter(), 7));
                operations.push(Operation::Deliveries(account, self.delivery_filter(), 7));
                operations.push(Operation::Survey(account, self.selection(), self.now));
            }
        }
        for delivery in self.waiting(seen).await {
            let fact = AttemptId::at(self.now, self.dice.random());
            operations.push(Operation::Cancel(delivery.account_id, delivery.id, fact, self.now));
        }
        // Other sequences look at what runs, too.
        let cancel = |(account, id)| Operation::SwitchReplay(account, id, ReplaySwitch::Cancel, self.now);
        operations.extend(self.replays.clone().into_iter().map(cancel));
        operations.extend([Operation::Lanes(3), Operation::Prune(Timestamp::MAX, EVERYTHING)]);
        operations
    }

    // --- Configuration ---------------------------------------------------------------------------------------------

    async fn configure(&mut self, seen: &dyn Store) -> Operation {
        let account = self.account();
        let sources = seen.sources(account, first(EVERYTHING)).await.expect("memory never fails").rows;
        let destinations =
            seen.destinations(account, first(EVERYTHING)).await.expect("memory never fails").rows;
        let routes = seen.routes(account, first(EVERYTHING)).await.expect("memory never fails").rows;
        let (source, destination, route) = (self.one(&sources), self.one(&destinations), self.one(&routes));
        let claimed = if self.chance(10) { self.account() } else { account };
        let now = self.now;
        match (self.dice.random_range(0..14), source, destination, route) {
            (0, ..) => {
                let mut account = seen.account(account).await.expect("it was created first");
                (account.uid, account.updated_at) = (self.account_uid(), now);
                account.version = self.version(account.version);
                Operation::UpdateAccount(account)
            }
            (1, ..) => Operation::CreateSource(self.new_source(account)),
            (2, Some(mut source), ..) => {
                (source.uid, source.enabled, source.account_id) = (self.uid(), self.chance(50), claimed);
                source.version = self.version(source.version);
                Operation::UpdateSource(source)
            }
            (3, Some(source), ..) => Operation::DeleteSource(claimed, source.id, now),
            (4, _, Some(mut destination), _) => {
                (destination.uid, destination.account_id) = (self.uid(), claimed);
                destination.switch.paused_at = self.chance(50).then_some(now);
                let disabled = Disabled { at: now, reason: DisabledReason::Requested };
                destination.switch.disabled = self.chance(30).then_some(disabled);
                destination.version = self.version(destination.version);
                Operation::UpdateDestination(destination)
            }
            (5, _, Some(destination), _) if self.chance(40) => {
                Operation::DeleteDestination(claimed, destination.id, now)
            }
            (6, source, Some(destination), _) => {
                let route = self.new_route(claimed, destination.id);
                let source_id = source.filter(|_| self.chance(50)).map(|source| source.id);
                Operation::CreateRoute(Route { source_id, ..route })
            }
            (7, _, destination, Some(mut route)) => {
                route.destination_id = destination.map_or(route.destination_id, |destination| destination.id);
                (route.uid, route.enabled, route.account_id) = (self.uid(), self.chance(50), claimed);
                route.version = self.version(route.version);
                Operation::UpdateRoute(route)
            }
            (8, _, _, Some(route)) => Operation::DeleteRoute(claimed, route.id, now),
            (9, ..) => {
                let lookup = format!("{:012}", self.dice.random_range(0..u64::MAX / 2));
                let owner = seen.account(account).await.expect("it was created first");
                let id = ApiKeyId::at(now, self.dice.random());
                self.api_keys.push(id);
                Operation::CreateApiKey(domain::account::ApiKey {
                    id,
                    ..fixtures::api_key(Some(&owner), &lookup)
                })
            }
            (10, ..) => match self.one(&self.api_keys.clone()) {
                Some(key) if self.chance(50) => Operation::RevokeApiKey(Some(account), key, now),
                Some(key) => Operation::TouchApiKey(key, now),
                None => Operation::ApiKeys(account, 2),
            },
            (11, ..) => {
                Operation::Setting(format!("setting-{}", self.dice.random_range(0..3)), vec![1, 2, 3])
            }
            _ => Operation::CreateDestination(self.new_destination(account)),
        }
    }

    fn new_source(&mut self, account: AccountId) -> Source {
        let id = SourceId::at(self.now, self.dice.random());
        let owner = Account { id: account, ..fixtures::account() };
        let token_hash = id.bytes().to_vec();
        let source =
            Source { id, uid: self.uid(), token_hash, created_at: self.now, ..fixtures::source(&owner) };
        self.sources.push(source.clone());
        source
    }

    fn new_destination(&mut self, account: AccountId) -> Destination {
        let id = DestinationId::at(self.now, self.dice.random());
        self.destinations.push(id);
        let mut destination =
            Destination::new(id, account, "Billing", "https://billing.example/hooks", self.now);
        destination.uid = self.uid();
        destination
    }

    fn new_route(&mut self, account: AccountId, destination: DestinationId) -> Route {
        let owner = Account { id: account, ..fixtures::account() };
        let to = Destination { id: destination, ..fixtures::destination(&owner) };
        let id = RouteId::at(self.now, self.dice.random());
        self.routes.push(id);
        Route {
            id,
            uid: self.uid(),
            event_types: vec![self.pattern()],
            retry_policy: self.chance(30).then(RetryPolicy::default).map(Into::into).unwrap_or_default(),
            timeout_seconds: self.chance(20).then_some(7),
            created_at: self.now,
            updated_at: self.now,
            ..fixtures::route(&to)
        }
    }

    // --- Ingest ----------------------------------------------------------------------------------------------------

    async fn ingest(&mut self, seen: &dyn Store) -> Operation {
        if self.chance(6) {
            let age = Duration::from_micros(self.dice.random_range(0..60_000_000));
            self.batches.clear();
            return Operation::Forget(self.account(), self.now.minus(age));
        }
        if self.chance(8) {
            // A batch is repeated seconds after it was lost; keys are pruned after a day.
            self.batches.clear();
            // All or none: which of two equally old keys goes first is each store's own business.
            return Operation::Prune(self.now, if self.chance(20) { 0 } else { EVERYTHING });
        }
        if self.chance(15)
            && let Some(batch) = self.one(&self.batches.clone())
        {
            return Operation::Commit(batch, self.now);
        }
        let mut batch = Vec::new();
        for _ in 0..self.dice.random_range(1..=4) {
            let new = self.new_event(seen).await;
            batch.push(new);
        }
        self.batches.push(batch.clone());
        Operation::Commit(batch, self.now)
    }

    async fn new_event(&mut self, seen: &dyn Store) -> NewEvent {
        let account = seen.account(self.account()).await.expect("it was created first");
        let routes = seen.routes(account.id, first(EVERYTHING)).await.expect("memory never fails").rows;
        let event = self.event(&account);
        self.events.push(event.id);
        let mut deliveries = Vec::new();
        for _ in 0..self.dice.random_range(0..=3) {
            if let Some(route) = self.one(&routes) {
                deliveries.push(self.promise(&route));
            }
        }
        let key = self.chance(40).then(|| IdempotencyKey {
            scope: account.id.uuid(),
            hash: [self.dice.random_range(0..4); 32],
            body_hash: [self.dice.random_range(0..2); 32],
        });
        NewEvent {
            account_version: self.version(account.version),
            event: PreparedEvent::new(event),
            deliveries,
            other_routes: Vec::new(),
            expands: false,
            key,
        }
    }

    fn event(&mut self, account: &Account) -> Event {
        let size = match self.dice.random_range(0..30) {
            0 => limits::CARRIED_BYTES + 1,
            1 => 0,
            _ => self.dice.random_range(0..60),
        };
        let mut payload = vec![0; size];
        self.dice.fill(&mut payload[..]);
        let ahead = Duration::from_secs(self.dice.random_range(0..100));
        Event {
            id: EventId::at(self.now, self.dice.random()),
            event_type: TYPES[self.dice.random_range(0..TYPES.len())].parse().expect("an event type"),
            source_id: if self.chance(40) {
                self.one(&self.sources.clone()).map(|source| source.id)
            } else {
                None
            },
            idempotency_key: self.chance(30).then(|| format!("key-{}", self.dice.random_range(0..3))),
            ordering_key: self.chance(20).then(|| "cart-7".into()),
            deliver_at: self.chance(20).then(|| self.now.plus(ahead)),
            payload: payload.into(),
            ..fixtures::event(account, self.now)
        }
    }

    fn promise(&mut self, route: &Route) -> NewDelivery {
        let id = DeliveryId::at(self.now, self.dice.random());
        self.deliveries.push(id);
        let due_at = self.now.plus(Duration::from_secs(self.dice.random_range(0..20)));
        let plain = NewDelivery {
            id,
            position: Position::due(due_at, id),
            due_at,
            ..fixtures::promise(route, self.now)
        };
        match self.dice.random_range(0..10) {
            0..3 => {
                NewDelivery { position: Position::ordered(self.track(), 0, id), sequenced: true, ..plain }
            }
            3..5 => NewDelivery { position: Position::awaits_time(due_at, id), ..plain },
            _ => plain,
        }
    }

    // --- The owner's work, and people's ----------------------------------------------------------------------------

    async fn work(&mut self, seen: &dyn Store) -> Operation {
        let mut waiting = self.waiting(seen).await;
        let now = self.now;
        match self.dice.random_range(0..12) {
            0 => {
                let account = self.account();
                Operation::RetryNow(account, self.delivery_id(), now)
            }
            1 => {
                let (account, id) = match self.one(&waiting) {
                    Some(delivery) if self.chance(70) => (delivery.account_id, delivery.id),
                    _ => (self.account(), self.delivery_id()),
                };
                Operation::Cancel(account, id, AttemptId::at(now, self.dice.random()), now)
            }
            2 => {
                let windows = self.destinations.clone().into_iter().map(|id| Window {
                    from: self.one(&waiting).map_or(Position::START, |delivery| delivery.position),
                    last_track: if self.chance(50) { i64::MAX } else { self.track() },
                    limit: self.dice.random_range(0..5),
                    ..fixtures::window(id)
                });
                Operation::Fetch(windows.collect())
            }
            3 => Operation::Backlog(self.destinations.clone(), self.dice.random_range(1..5)),
            4 => Operation::Tracks(self.destination_id(), self.dice.random_range(1..4)),
            5 => {
                let mut turns = Vec::new();
                for _ in 0..self.dice.random_range(0..=6) {
                    turns.extend(
                        self.one(&waiting).map(|delivery| DueDelivery { delivery, track: self.track() }),
                    );
                }
                Operation::TakeTurns(turns, now)
            }
            _ => {
                let mut batch: BTreeMap<DeliveryId, Settlement> = BTreeMap::new();
                for _ in 0..self.dice.random_range(1..=3).min(waiting.len()) {
                    let delivery = waiting.swap_remove(self.dice.random_range(0..waiting.len()));
                    let settlement = self.settlement(delivery);
                    batch.insert(settlement.delivery.id, settlement);
                }
                if self.chance(25)
                    && let Some(again) = self.one(&self.settlements.clone())
                {
                    batch.insert(again.delivery.id, again);
                }
                self.settlements.extend(batch.values().cloned());
                let mut batch: Vec<Settlement> = batch.into_values().collect();
                if self.chance(50) {
                    batch.reverse();
                }
                Operation::Settle(batch, now)
            }
        }
    }

    /// A replay is asked for, told to do something, or made.
    fn replay(&mut self) -> Operation {
        let now = self.now;
        let known = self.one(&self.replays.clone()).filter(|_| self.chance(60));
        let Some((account, id)) = known else {
            let (id, account_id) = (ReplayId::at(now, self.dice.random()), self.account());
            self.replays.push((account_id, id));
            let key = self.chance(20).then(|| ReplayKey {
                hash: [self.dice.random_range(0..4); 32],
                body_hash: [self.dice.random_range(0..2); 32],
            });
            return Operation::CreateReplay(NewReplay {
                id,
                account_id,
                selection: self.selection(),
                rate: 7,
                matched: self.dice.random_range(0..9),
                matched_exact: self.chance(50),
                created_by: ApiKeyId::at(now, 1).into(),
                created_at: now,
                key,
                at_once: None,
            });
        };
        match self.dice.random_range(0..10) {
            0 => Operation::SwitchReplay(account, id, ReplaySwitch::Pause, now),
            1 => Operation::SwitchReplay(account, id, ReplaySwitch::Cancel, now),
            2 | 3 => Operation::SwitchReplay(account, id, ReplaySwitch::Resume, now),
            4 => Operation::SwitchReplay(self.account(), id, ReplaySwitch::Pause, now),
            _ => Operation::FinishReplay(id, self.dice.random_range(1..6), now, self.dice.random()),
        }
    }

    /// Whatever it is, and whosever.
    fn dismiss(&mut self) -> Operation {
        let mut delivery_ids: Vec<_> =
            (0..self.dice.random_range(0..12)).map(|_| self.delivery_id()).collect();
        delivery_ids.sort();
        delivery_ids.dedup();
        Operation::Dismiss(Dismissal {
            account_id: self.account(),
            delivery_ids,
            dismissed_by: ApiKeyId::at(self.now, 1).into(),
            note: self.chance(50).then(|| "enough".into()),
            at: self.now,
        })
    }

    fn group_filter(&mut self) -> GroupFilter {
        GroupFilter {
            destination_id: self.chance(30).then(|| self.destination_id()),
            since: self.chance(30).then(|| self.moment()),
        }
    }

    fn selection(&mut self) -> Selection {
        if self.chance(70) {
            return Selection::Filter(self.delivery_filter());
        }
        let mut ids: Vec<_> = (0..self.dice.random_range(0..8)).map(|_| self.delivery_id()).collect();
        ids.sort();
        ids.dedup();
        let resolved = self.resolved();
        Selection::Deliveries(SelectedDeliveries { ids, resolved })
    }

    fn settlement(&mut self, mut delivery: Delivery) -> Settlement {
        // A former owner's word, now and then.
        if self.chance(15) {
            delivery.attempts = delivery.attempts.saturating_sub(1);
        }
        let now = self.now;
        if self.chance(10) {
            let ending = match self.chance(50) {
                true => Ending::DeadLetter(DeadReason::Expired),
                false => Ending::Cancelled(CancelReason::DestinationDeleted),
            };
            let ended = fixtures::ended_without(&delivery, now, ending);
            let id = AttemptId::at(now, self.dice.random());
            return Settlement {
                fact: Fact::EndedWithout { id, at: now, node: NodeId::MIN, ending },
                ..ended
            };
        }
        let due_at = now.plus(Duration::from_secs(self.dice.random_range(1..600)));
        let position = match delivery.sequence {
            Some(_) => delivery.position,
            None => Position::due(due_at, delivery.id),
        };
        let retry = Settled::Waits { position, due_at, spent: delivery.spent + 1 };
        let (outcome, status, settled) = match self.dice.random_range(0..8) {
            0..3 => (Outcome::Success, Some(200), Settled::Ended(Ending::Delivered)),
            3 => (Outcome::ServerError, Some(503), retry),
            4 => (Outcome::TlsError, None, retry),
            5 => {
                let position = Position { rank: delivery.position.rank + 1, ..delivery.position };
                let waits = Settled::Waits { position, due_at: delivery.due_at, spent: delivery.spent };
                (Outcome::Throttled, Some(429), waits)
            }
            6 => (Outcome::Rejected, Some(404), Settled::Ended(Ending::DeadLetter(DeadReason::Rejected))),
            _ => (Outcome::Gone, Some(410), Settled::Ended(Ending::DeadLetter(DeadReason::Gone))),
        };
        let attempt = Attempt {
            id: AttemptId::at(now, self.dice.random()),
            duration: Duration::from_micros(self.dice.random_range(0..9_000_000)),
            ..fixtures::attempt(&delivery, now, outcome, status)
        };
        let consequence = match outcome {
            Outcome::Gone => Some(Consequence::Disables),
            Outcome::Rejected => Some(Consequence::Pauses),
            _ => None,
        };
        Settlement { consequence, ..fixtures::settlement(&delivery, attempt, settled) }
    }

    // --- Reading ---------------------------------------------------------------------------------------------------

    async fn read(&mut self, seen: &dyn Store) -> Operation {
        let account = self.account();
        let limit = self.dice.random_range(1..6);
        match self.dice.random_range(0..19) {
            16 => Operation::DeadLetterGroups(account, self.group_filter(), limit),
            17 => Operation::Replays(account, limit),
            18 => Operation::Survey(account, self.selection(), self.moment()),
            0..3 => Operation::Events(account, self.event_filter(), limit),
            3..7 => Operation::Deliveries(account, self.delivery_filter(), limit),
            7 => Operation::Delivery(account, self.delivery_id()),
            8 => Operation::AttemptsOfDelivery(account, self.delivery_id(), limit),
            9 => Operation::AttemptsOfDestination(account, self.destination_id(), limit),
            10 => {
                let id = self.one(&self.events.clone()).unwrap_or(EventId::at(self.now, self.dice.random()));
                if self.chance(50) { Operation::Event(account, id) } else { Operation::Payload(id) }
            }
            11 => Operation::Lanes(limit),
            12 => {
                let version = seen.account(account).await.expect("it was created first").version;
                Operation::Changes(account, self.dice.random_range(0..=version))
            }
            13 => Operation::DestinationRecords(vec![self.destination_id(), self.destination_id()]),
            14 => match self.one(&self.sources.clone()) {
                Some(source) => Operation::SourceByToken(source.token_hash),
                None => Operation::Sources(account, first(limit)),
            },
            _ => {
                let before = self.chance(50).then(|| self.destination_id());
                Operation::Destinations(account, Page { before, limit })
            }
        }
    }

    /// Whatever waits for the destinations of this sequence, by memory's word.
    async fn waiting(&self, seen: &dyn Store) -> Vec<Delivery> {
        let windows: Vec<Window> = self.destinations.iter().map(|id| fixtures::window(*id)).collect();
        let lanes = seen.fetch(&windows).await.expect("memory never fails");
        lanes.into_iter().flatten().map(|fetched| fetched.delivery).collect()
    }
}

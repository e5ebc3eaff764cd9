//! Makes events of what is to be told: of each note (`store::OperationalEvents`) one event of the account that is told,
//! through the ordinary commit, past a full backlog and every rate limit.
//!
//! The note's id is the idempotency key of its event, and the note is deleted when the event is durable. So a node that
//! dies between the two leaves a note whose event is found the next time, and two nodes that tell the same make one event
//! of it: nobody has to be the only teller. An account is told so many in a minute; the rest waits.

use crate::app::App;
use domain::{
    event::Event,
    id::{AccountId, DestinationId, EventId, ReplayId},
    limits,
    operations::{ABOUT, OperationalKind, OperationalNote},
    time::Timestamp,
};
use ingest::IngestError;
use serde_json::{Value, json};
use std::{collections::HashMap, time::Duration};
use store::{StoreError, UntoldNote, failpoint};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use url::Url;

/// What a teller remembers from one round to the next.
#[derive(Default)]
pub struct Teller {
    /// The minute, and how many events each account was told in it.
    minute: Option<Timestamp>,
    told: HashMap<AccountId, u32>,
    /// Dead letters of minutes before this one are notes by now.
    summed_up: Option<Timestamp>,
    operator: OperatorLook,
}

/// Whether the store knows whose account the operator's is.
#[derive(Default)]
enum OperatorLook {
    #[default]
    Never,
    NotFound(Instant),
    Known,
}

/// Why a round ended early.
enum Stopped {
    Store(StoreError),
    /// It is not known whether the event is there, or there was no room for it: the note stays.
    Ingest(IngestError),
}

impl From<StoreError> for Stopped {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Until `stop`.
pub(crate) async fn run(app: &App, stop: CancellationToken) {
    let mut teller = Teller::default();
    loop {
        supervisor::failpoint();
        app.tell(&mut teller).await;
        let pause = async {
            tokio::select! {
                () = app.store.note_written() => {}
                () = sleep(limits::OPERATIONAL_LOOK) => {}
            }
        };
        if stop.run_until_cancelled(pause).await.is_none() {
            return;
        }
    }
}

impl App {
    /// Tells whatever is to be told by now.
    pub async fn tell(&self, teller: &mut Teller) {
        match self.tell_all(teller).await {
            Ok(()) => {}
            Err(Stopped::Store(error)) => {
                tracing::warn!(%error, "operational events could not be told; trying again");
            }
            Err(Stopped::Ingest(error)) => {
                tracing::warn!(%error, "an operational event was not confirmed; trying again");
            }
        }
    }

    async fn tell_all(&self, teller: &mut Teller) -> Result<(), Stopped> {
        self.look_for_operator(teller).await?;
        let now = self.now();
        let minute = now.floor(MINUTE);
        let over = now.minus(limits::DEAD_LETTERS_SUMMED_AFTER).floor(MINUTE);
        if teller.summed_up != Some(over) {
            let most = limits::DEAD_LETTERS_SUMMED;
            // When it is done tells apart what is summed up of one minute at two times.
            while self.store.sum_up_dead_letters(over, most, self.now().micros() as u128).await? == most {}
            teller.summed_up = Some(over);
        }
        if teller.minute.replace(minute) != Some(minute) {
            teller.told.clear();
            let old = now.minus(limits::OPERATIONAL_KEPT);
            let dropped = self.store.prune_notes(old, limits::PRUNE_STEP).await?;
            if dropped > 0 {
                tracing::warn!(dropped, "operational events waited for too long and are told to nobody");
            }
        }
        loop {
            let full = teller.told.iter().filter(|(_, count)| **count >= limits::OPERATIONAL_EVENTS_A_MINUTE);
            let passed_over: Vec<AccountId> = full.map(|(account, _)| *account).collect();
            let notes = self.store.untold(&passed_over, limits::OPERATIONAL_PAGE).await?;
            if notes.is_empty() {
                return Ok(());
            }
            for untold in notes {
                let count = teller.told.entry(untold.told).or_default();
                if *count < limits::OPERATIONAL_EVENTS_A_MINUTE {
                    *count += 1;
                    self.tell_one(untold).await?;
                }
            }
        }
    }

    async fn tell_one(&self, UntoldNote { told, note }: UntoldNote) -> Result<(), Stopped> {
        let event = self.event_of(told, &note).await?;
        let key = ingest::idempotency_key(note.id.uuid(), &told.to_string(), &event);
        let room = self.admission.budget().reserve(told, event.payload.len()).map_err(Stopped::Ingest)?;
        failpoint::hit("operations.before");
        match self.admission.admit(event, Some(key), room).await {
            // Told before, by a node that died or beside us: what its payload looks up may have changed since.
            Ok(_) | Err(IngestError::KeyConflict { .. }) => {}
            Err(
                error @ (IngestError::NoAccount(_)
                | IngestError::FanoutTooLarge { .. }
                | IngestError::Refused(_)),
            ) => {
                tracing::warn!(%error, account_id = %told, kind = %note.kind, "an operational event cannot be told");
            }
            Err(error) => return Err(Stopped::Ingest(error)),
        }
        failpoint::hit("operations.told");
        self.store.forget_note(told, note.id).await?;
        Ok(())
    }

    async fn event_of(&self, told: AccountId, note: &OperationalNote) -> Result<Event, StoreError> {
        let mut data = note.data.clone();
        data.insert("account_id".into(), json!(note.account_id));
        if let Some(id) = note.destination_id {
            data.insert("destination".into(), self.told_destination(note.account_id, id).await?);
        }
        if note.kind == OperationalKind::ReplayCompleted {
            let id = note.data.get("replay_id").and_then(Value::as_str).and_then(|id| id.parse().ok());
            data.extend(match id {
                Some(id) => self.told_replay(note.account_id, id).await?,
                None => serde_json::Map::new(),
            });
        }
        let now = self.now();
        let id = EventId::operational(now, self.dice.bits());
        let payload = serde_json::to_vec(&data).expect("texts and numbers are always JSON");
        let mut event = Event::new(id, told, note.kind.event_type(), payload.into(), now);
        if let Some(id) = note.destination_id {
            event.metadata.insert(ABOUT.into(), json!(id));
        }
        Ok(event)
    }

    /// As it is now; only its id if it is no longer there. Of its URL the origin: paths and queries may be secret.
    async fn told_destination(&self, account: AccountId, id: DestinationId) -> Result<Value, StoreError> {
        match self.store.destination(account, id).await {
            Ok(found) => {
                let origin = Url::parse(&found.url).map(|url| url.origin().ascii_serialization()).ok();
                Ok(json!({ "id": id, "uid": found.uid, "name": found.name, "origin": origin }))
            }
            Err(StoreError::NotFound { .. } | StoreError::Unreadable(_)) => Ok(json!({ "id": id })),
            Err(error) => Err(error),
        }
    }

    async fn told_replay(
        &self,
        account: AccountId,
        id: ReplayId,
    ) -> Result<serde_json::Map<String, Value>, StoreError> {
        let told = match self.store.replay(account, id).await {
            Ok(replay) => json!({
                "matched": replay.matched,
                "created": replay.created,
                "skipped": replay.skipped,
                "finished_at": replay.finished_at,
            }),
            Err(StoreError::NotFound { .. } | StoreError::Unreadable(_)) => json!({}),
            Err(error) => return Err(error),
        };
        let Value::Object(told) = told else { unreachable!("both are objects") };
        Ok(told)
    }

    /// The account that the settings name, by its id or its uid: it may be made after this node was started.
    async fn look_for_operator(&self, teller: &mut Teller) -> Result<(), StoreError> {
        match teller.operator {
            OperatorLook::Known => return Ok(()),
            OperatorLook::NotFound(at) if at.elapsed() < limits::OPERATIONS_ACCOUNT_LOOK => return Ok(()),
            OperatorLook::Never | OperatorLook::NotFound(_) => {}
        }
        let Some(named) = &self.config.operations_account else {
            self.store.set_operations_account(None).await?;
            teller.operator = OperatorLook::Known;
            return Ok(());
        };
        let found = match named.parse::<AccountId>() {
            Ok(id) => match self.store.account(id).await {
                Ok(account) => Some(account),
                Err(StoreError::NotFound { .. }) => None,
                Err(error) => return Err(error),
            },
            Err(_) => self.store.account_by_uid(named).await?,
        };
        teller.operator = match found {
            Some(account) => {
                self.store.set_operations_account(Some(account.id)).await?;
                OperatorLook::Known
            }
            None => {
                if matches!(teller.operator, OperatorLook::Never) {
                    tracing::warn!(account = %named, "operations.account is not there yet");
                }
                OperatorLook::NotFound(Instant::now())
            }
        };
        Ok(())
    }
}

const MINUTE: Duration = Duration::from_secs(60);

//! Events and attempts of accounts that have their payloads encrypted.

use crate::fixtures::*;
use domain::{
    account::Account,
    attempt::{Detail, Response},
    delivery::Delivery,
    event::Event,
    id::AttemptId,
    limits,
    outcome::Outcome,
    seal::{DataKey, MasterKeys, SealError},
    testing::{CountingDice, audit_entry},
};
use std::sync::Arc;
use store::{
    BackfillSelection, BackfillWalk, Committed, NewEvent, PreparedEvent, SealedEvent, StoreError,
    StoredEvent, Window, open_detail, seal_detail,
};

fn master() -> MasterKeys {
    MasterKeys::parse("k1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=").unwrap()
}

/// A key of this account, always the same.
fn key(account: &Account) -> DataKey {
    let (master, dice) = (master(), CountingDice::default());
    master.data_key(account.id, &master.new_data_key(account.id, &dice)).unwrap()
}

async fn sealed(world: &World, ground: &Ground, event: Event) -> Delivery {
    let received_at = event.received_at;
    let new = world.matched(event, vec![promise(&ground.route, received_at)]).await;
    let (key, dice) = (key(&ground.account), CountingDice::default());
    let event = PreparedEvent::sealed(Arc::clone(new.event.event()), &key, &dice);
    let new = NewEvent { event, ..new };
    assert_eq!(world.commit(&new).await, Committed::New);
    let rows = world.fetch(window(ground.destination.id)).await;
    let row = rows.into_iter().find(|row| row.delivery.id == new.deliveries[0].id);
    row.expect("it waits").delivery
}

fn secret(ground: &Ground, size: usize, second: u64) -> Event {
    Event {
        payload: b"a canary ".iter().copied().cycle().take(size).collect::<Vec<_>>().into(),
        headers: vec![("x-customer".into(), "Ann".into())],
        ..event(&ground.account, at(second))
    }
}

/// What is to be read of it without the key.
fn outside(event: &Event) -> Event {
    Event { payload: Default::default(), headers: Vec::new(), ..event.clone() }
}

pub(crate) async fn a_sealed_event_comes_back_as_it_was_accepted_with_its_key_alone(world: World) {
    let ground = world.ground().await;
    let (key, account) = (key(&ground.account), ground.account.id);
    for size in [0, 1, 100, 3_000, limits::CARRIED_BYTES + 1, 1_000_000] {
        let given = secret(&ground, size, 1);
        let delivery = sealed(&world, &ground, given.clone()).await;
        assert_eq!(delivery.payload_bytes as usize, size);
        for stored in [
            world.store.payload(given.id).await.unwrap().expect("it is there"),
            world.store.event_payload(account, given.id).await.unwrap(),
        ] {
            assert_eq!(*stored.outside(), outside(&given));
            assert_eq!(stored.clone().plain(), None);
            let StoredEvent::Sealed(event) = stored else { panic!("{size} bytes are readable") };
            assert_eq!(*event.open(&key).unwrap(), given);
        }
        let mut record = world.store.event(account, given.id).await.unwrap();
        assert_eq!((&record.event, record.size_bytes as usize), (&outside(&given), size));
        record.open(&key).unwrap();
        assert_eq!(record.event.headers, given.headers);
        let kept = world.store.kept_payload(account, given.id).await.unwrap();
        assert!(kept.whole().is_err() && kept.clone().pieces().is_err(), "it is sealed");
        let pieces: Vec<_> = kept.open(&key).unwrap().pieces().unwrap().map(Result::unwrap).collect();
        assert_eq!(pieces.concat(), given.payload);
        let kept = world.store.payload_size(account, given.id).await.unwrap();
        assert_eq!(kept.accepted, size);
        assert!(size < 3_000 || kept.kept < size / 2, "it is packed before it is sealed");
    }
    let another = world.account().await;
    let given = secret(&ground, 100, 2);
    sealed(&world, &ground, given.clone()).await;
    let Some(StoredEvent::Sealed(event)) = world.store.payload(given.id).await.unwrap() else {
        panic!("it is sealed")
    };
    assert_eq!(event.open(&self::key(&another)), Err(SealError::DoesNotOpen));
}

pub(crate) async fn sealed_payloads_come_sealed_with_their_deliveries(world: World) {
    let ground = world.ground().await;
    let given = secret(&ground, 100, 1);
    let first = sealed(&world, &ground, given.clone()).await;
    let open = event(&ground.account, at(2));
    world.commit_event(open.clone(), &[&ground.route]).await;
    let read = world.fetch(Window { from: first.position, ..window(ground.destination.id) }).await;
    assert!(!read[0].has_payload && read[1].has_payload && read[1].sealed.is_none());
    let opened =
        SealedEvent::clone(read[0].sealed.as_ref().expect("it comes sealed")).open(&key(&ground.account));
    assert_eq!(*opened.unwrap(), given);
    let large = secret(&ground, limits::CARRIED_BYTES + 1, 3);
    let last = sealed(&world, &ground, large).await;
    let read_large =
        world.fetch(Window { from: last.position, ..window(ground.destination.id) }).await.remove(0);
    assert!(!read_large.has_payload && read_large.sealed.is_none(), "too large to travel");
    assert_eq!(read[0].event.as_deref(), Some(&outside(&given)));
    assert_eq!(read[1].event.as_deref(), Some(&open), "one that was accepted before or after is as it was");

    let walk = BackfillWalk {
        account_id: ground.account.id,
        selection: BackfillSelection::default(),
        cursor: None,
        as_of: at(LATER),
        limit: 10,
        payloads: true,
    };
    let found = world.store.backfill_events(&walk).await.unwrap().events;
    assert_eq!(found.iter().map(|found| found.has_payload).collect::<Vec<_>>(), [false, true, false]);
    assert_eq!((&*found[0].event, found[0].payload_bytes), (&outside(&given), 100));
}

/// Later than anything in here.
const LATER: u64 = 100_000;

pub(crate) async fn a_sealed_payload_that_was_altered_is_said_to_be(world: World) {
    let ground = world.ground().await;
    let given = secret(&ground, 100, 1);
    sealed(&world, &ground, given.clone()).await;
    world.outside.alter_payload(given.id).await;
    let refused = world.store.payload(given.id).await;
    assert!(matches!(refused, Err(StoreError::Altered)), "{refused:?}");
    let refused = world.store.kept_payload(ground.account.id, given.id).await;
    assert!(matches!(refused, Err(StoreError::Altered)), "{refused:?}");
    let shown = world.store.event_payload(ground.account.id, given.id).await.unwrap();
    let StoredEvent::Sealed(shown) = shown else { panic!("it is sealed") };
    assert_eq!(shown.open(&key(&ground.account)), Err(SealError::DoesNotOpen));
}

pub(crate) async fn a_sealed_payload_is_erased_as_any_other(world: World) {
    let ground = world.ground().await;
    let (given, account) = (secret(&ground, 100, 1), ground.account.id);
    let delivery = sealed(&world, &ground, given.clone()).await;
    let key = key(&ground.account);
    let mut answered = delivered(&delivery, at(2));
    let mut attempt_id = AttemptId::MIN;
    let response = Response { body: Some("a canary".into()), ..Response::default() };
    let detail = Detail { response: Some(response), url: "https://example.com/".into(), ..Detail::default() };
    if let store::Fact::Attempted(attempt) = &mut answered.fact {
        attempt_id = attempt.id;
        attempt.detail = seal_detail(&detail, (delivery.id, attempt.id), &key, &CountingDice::default());
    }
    world.move_on(answered).await;
    let kept = async || world.store.attempts_of_delivery(account, delivery.id, 9).await.unwrap().remove(0);
    let Detail { sealed: Some(seal), response: None, .. } = kept().await.detail else {
        panic!("it is sealed")
    };
    assert_eq!(open_detail(&seal, (delivery.id, attempt_id), &key).unwrap(), detail);
    assert_eq!(kept().await.outcome, Outcome::Success);

    world.store.erase_payload(account, given.id, at(3), &audit_entry()).await.expect("nothing waits");
    world.store.erase_answers(given.id, None, 10).await.unwrap();
    assert_eq!(kept().await.detail, Detail::default(), "what was sealed is gone, whoever has the key");
    assert!(world.store.payload(given.id).await.unwrap().is_none());
    let record = world.store.event(account, given.id).await.unwrap();
    assert_eq!((record.sealed_headers, record.payload_erased_at), (None, Some(at(3))));
    let shown = world.store.event_payload(account, given.id).await.unwrap();
    assert_eq!(shown.plain().expect("there is nothing to open").payload.len(), 0);
}

pub(crate) async fn whoever_admits_and_delivers_is_told_that_an_account_encrypts(world: World) {
    let ground = world.ground().await;
    let id = ground.account.id;
    let told = async || {
        let record = world.store.destination_records(&[ground.destination.id]).await.unwrap().remove(0);
        let changes = world.store.changes(id, 0).await.unwrap();
        let kept = world.store.data_keys(None, 9).await.unwrap().remove(0);
        (record.expect("it is there").encrypts, changes.sealing.is_some(), kept.seals_events)
    };
    assert_eq!(told().await, (false, false, false));
    let mut account = world.store.account(id).await.unwrap();
    let before = account.version;
    account = account.with_encryption(true, at(5));
    account = world.store.update_account(&account, &audit_entry()).await.unwrap();
    assert_eq!(told().await, (true, true, true));
    assert_eq!(account.defaults_version, before + 1, "its lanes are read again");
    let sealing = world.store.changes(id, account.version).await.unwrap().sealing;
    assert_eq!(sealing.as_ref(), Some(&account.data_key));
    account = account.with_encryption(false, at(6));
    world.store.update_account(&account, &audit_entry()).await.unwrap();
    assert_eq!(told().await, (false, false, true), "what was sealed stays so");
}

pub(crate) async fn the_oldest_event_of_an_account_is_its_own(world: World) {
    let (ground, other) = (world.ground().await, world.ground().await);
    assert_eq!(world.store.oldest_event_of(ground.account.id).await.unwrap(), None);
    world.commit_event(event(&other.account, at(1)), &[]).await;
    let mut ids = Vec::new();
    for second in [3, 2, 4] {
        let event = event(&ground.account, at(second));
        ids.push(event.id);
        world.commit_event(event, &[]).await;
    }
    assert_eq!(world.store.oldest_event_of(ground.account.id).await.unwrap(), Some(ids[1]));
}

pub(crate) async fn a_deleted_account_has_no_key_from_the_first_transaction_on(world: World) {
    let ground = world.ground().await;
    let delivery = sealed(&world, &ground, secret(&ground, 100, 1)).await;
    let id = ground.account.id;
    world.store.delete_account(id, at(5), &audit_entry()).await.unwrap();
    is_not_found(world.store.account(id).await, "account");
    is_not_found(world.store.changes(id, 0).await, "account");
    assert!(world.store.data_keys(None, 9).await.unwrap().iter().all(|kept| kept.account_id != id));
    let records = world.store.destination_records(&[delivery.destination_id]).await.unwrap();
    assert!(
        records
            .into_iter()
            .flatten()
            .all(|record| record.data_key.0.is_empty() || record.destination.is_err())
    );
}

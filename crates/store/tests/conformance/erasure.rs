//! Erasing: an account with all that was its own, and the payload of an event.

use crate::fixtures::{
    Ground, World, api_key, at, chance, delivered, event, first, is_not_found, key, promise, rejected,
    retried,
};
use domain::{
    attempt::{Detail, Response},
    delivery::Delivery,
    event::Event,
    id::{AccountId, ApiKeyId, DeliveryId, NodeId, ReplayId},
    limits,
    testing::audit_entry,
    time::Timestamp,
};
use std::time::Duration;
use store::{
    BackfillSelection, BackfillWalk, Checked, Chore, Committed, DeliveryFilter, Erased, ErasurePhase,
    ErasureStep, EventFilter, Fact, GroupFilter, NewDelivery, NewEvent, NewReplay, ReplayStatus, Replayed,
    Rollup, RollupKind, Selection, Settlement, StoreError, Term, check_chain,
};

const LEASE: Duration = Duration::from_secs(10);

async fn term(world: &World, chore: Chore) -> Term {
    world.store.take_chore(chore, world.node.id, at(0), LEASE).await.unwrap().expect("it is free")
}

/// All phases, until one walk finds nothing; so many rows a step. Gives the steps that found something.
pub(crate) async fn erase(world: &World, account_id: AccountId, rows: usize) -> usize {
    let term = term(world, Chore::Erase).await;
    let mut steps = 0;
    loop {
        let mut found = false;
        for phase in ErasurePhase::ALL {
            let mut from = 0;
            loop {
                let step = ErasureStep { account_id, phase, from, rows };
                let Erased { rows, next } =
                    world.store.erase(term, &step).await.unwrap().expect("the term stands");
                steps += usize::from(rows > 0);
                found |= rows > 0;
                let Some(next) = next else { break };
                from = next;
            }
        }
        if !found {
            return steps;
        }
    }
}

/// An account that has something in every table, and a delivery that waits.
async fn furnished(world: &World) -> (Ground, Delivery) {
    let ground = world.ground().await;
    let account = &ground.account;
    world.source(account).await;
    world
        .store
        .create_api_key(&api_key(Some(account), &format!("k{}", chance())), &audit_entry())
        .await
        .unwrap();
    for second in 1..4 {
        let tagged = Event { tags: vec!["vip".into()], ..event(account, at(second)) };
        let gone = world.commit_event(tagged, &[&ground.route]).await.remove(0);
        world.move_on(retried(&gone, at(5), at(6))).await;
        let tried = world.lane(ground.destination.id).await.remove(0);
        world.move_on(if second == 1 { rejected(&tried, at(7)) } else { delivered(&tried, at(7)) }).await;
    }
    let keyed = world.matched(event(account, at(8)), Vec::new()).await;
    let keyed = NewEvent { key: Some(key(account, 1, 1)), ..keyed };
    assert_eq!(world.commit(&keyed).await, Committed::New);
    let expanding = world.matched(event(account, at(9)), Vec::new()).await;
    assert_eq!(world.commit(&NewEvent { expands: true, ..expanding }).await, Committed::New);
    let waiting = world.delivery(&ground, at(10)).await;
    world.store.create_replay(&new_replay(&ground), &audit_entry()).await.unwrap();
    let sums = term(world, Chore::RollUp).await;
    let row = Rollup {
        account_id: account.id,
        destination_id: Some(ground.destination.id),
        kind: RollupKind::Sums(domain::rollup::Span::Day),
        starts_at: at(0),
        doc: "{}".into(),
    };
    assert!(world.store.write_rollups(sums, &[row]).await.unwrap());
    (ground, waiting)
}

fn new_replay(ground: &Ground) -> NewReplay {
    NewReplay {
        id: ReplayId::at(at(20), chance()),
        account_id: ground.account.id,
        selection: Selection::Filter(DeliveryFilter::default()),
        rate: 30,
        matched: 1,
        matched_exact: true,
        created_by: ApiKeyId::at(at(0), 7).into(),
        created_at: at(20),
        key: None,
        at_once: None,
    }
}

async fn delete(world: &World, ground: &Ground, now: Timestamp) {
    world.store.delete_account(ground.account.id, now, &audit_entry()).await.expect("it is deleted");
}

pub(crate) async fn a_deleted_account_is_none(world: World) {
    let (ground, _) = furnished(&world).await;
    let (id, store) = (ground.account.id, &world.store);
    let named = domain::account::Account { uid: Some("acme".into()), ..store.account(id).await.unwrap() };
    store.update_account(&named, &audit_entry()).await.unwrap();
    let key = api_key(Some(&ground.account), "looked-up");
    store.create_api_key(&key, &audit_entry()).await.unwrap();
    let source = world.source(&ground.account).await;
    let replay = new_replay(&ground);
    store.create_replay(&replay, &audit_entry()).await.unwrap();

    delete(&world, &ground, at(30)).await;
    is_not_found(store.account(id).await, "account");
    assert_eq!(store.account_by_uid("acme").await.unwrap(), None);
    assert!(store.accounts(first(10)).await.unwrap().iter().all(|account| account.id != id));
    assert_eq!(store.versions(&[id]).await.unwrap(), [None]);
    is_not_found(store.changes(id, 0).await, "account");
    let found = store.api_key_by_lookup("looked-up").await.unwrap().expect("it is there, and dead");
    assert_eq!(found.revoked_at, Some(at(30)));
    assert_eq!(store.source_by_token(&source.token_hash).await.unwrap(), None);
    assert!(store.destination_records(&[ground.destination.id]).await.unwrap()[0].is_none());
    assert_eq!(store.replay(id, replay.id).await.unwrap().status, ReplayStatus::Cancelled);
    assert!(store.open_replays(10).await.unwrap().is_empty());

    let again = domain::account::Account { uid: Some("acme".into()), ..crate::fixtures::account() };
    store.create_account(&again, &audit_entry()).await.expect("its uid is free");
}

pub(crate) async fn nothing_is_accepted_for_a_deleted_account(world: World) {
    let ground = world.ground().await;
    let (account, store) = (&ground.account, &world.store);
    let ended = world.delivery(&ground, at(1)).await;
    world.move_on(delivered(&ended, at(2))).await;
    let matched = world.matched(event(account, at(3)), vec![promise(&ground.route, at(3))]).await;
    delete(&world, &ground, at(4)).await;
    assert_eq!(world.commit(&matched).await, Committed::NoAccount(account.id), "matched before");
    is_not_found(store.create_source(&crate::fixtures::source(account), &audit_entry()).await, "account");
    is_not_found(
        store.create_destination(&crate::fixtures::destination(account), &audit_entry()).await,
        "account",
    );
    is_not_found(store.create_api_key(&api_key(Some(account), "late"), &audit_entry()).await, "account");
    is_not_found(store.create_replay(&new_replay(&ground), &audit_entry()).await, "account");
    is_not_found(store.update_account(account, &audit_entry()).await, "account");
    assert!(world.lane(ground.destination.id).await.is_empty());
}

pub(crate) async fn deleting_again_changes_nothing(world: World) {
    let ground = world.ground().await;
    let id = ground.account.id;
    is_not_found(world.store.erasure(id).await, "account");
    let stranger = AccountId::at(at(0), chance());
    is_not_found(world.store.delete_account(stranger, at(1), &audit_entry()).await, "account");
    let first = world.store.delete_account(id, at(1), &audit_entry()).await.unwrap();
    let last = world.store.audit_ends(Some(id)).await.unwrap();
    assert_eq!(world.store.delete_account(id, at(2), &audit_entry()).await.unwrap(), first);
    assert_eq!(world.store.audit_ends(Some(id)).await.unwrap(), last, "it leaves no entry");
    assert_eq!((first.requested_at, first.finished_at), (at(1), None));
    assert_eq!(world.store.open_erasures(10).await.unwrap(), [first]);
    let term = term(&world, Chore::Erase).await;
    assert!(world.store.end_erasure(term, id, at(3)).await.unwrap());
    let ended = world.store.erasure(id).await.unwrap();
    assert_eq!((ended.finished_at, ended.requested_at), (Some(at(3)), at(1)));
    assert_eq!(world.store.delete_account(id, at(4), &audit_entry()).await.unwrap(), ended);
    assert!(world.store.open_erasures(10).await.unwrap().is_empty());
    let step = ErasureStep { account_id: id, phase: ErasurePhase::FIRST, from: 0, rows: 10 };
    assert_eq!(world.store.erase(term, &step).await.unwrap(), None, "it has ended");
}

pub(crate) async fn everything_of_an_account_is_erased_and_nothing_of_another(world: World) {
    let (ground, _) = furnished(&world).await;
    let (other, _) = furnished(&world).await;
    delete(&world, &ground, at(30)).await;
    let before = world.outside.rows_of(other.account.id).await;
    assert!(erase(&world, ground.account.id, 2).await > 5, "in small steps");

    let (id, store) = (ground.account.id, &world.store);
    assert!(store.events(id, &EventFilter::default(), first(100)).await.unwrap().rows.is_empty());
    assert!(store.deliveries(id, &DeliveryFilter::default(), first(100)).await.unwrap().rows.is_empty());
    assert!(store.destinations(id, first(10)).await.unwrap().rows.is_empty());
    assert!(store.api_keys(Some(id), first(10)).await.unwrap().is_empty());
    assert!(store.replays(id, first(10)).await.unwrap().rows.is_empty());
    assert!(store.dead_letter_groups(id, GroupFilter::default(), None, 10).await.unwrap().is_empty());
    let stays = ["accounts", "audit_chains", "audit_entries", "erasures"];
    for (table, rows) in world.outside.rows_of(id).await {
        assert!(rows == 0 || stays.contains(&table.as_str()), "{rows} rows of {table} are left");
    }
    assert!(store.erasure(id).await.unwrap().erased_rows > 10);
    let chain = check_chain(&**store, Some(id)).await.unwrap();
    assert!(matches!(chain, Checked::Holds(_)), "{chain:?}");

    assert_eq!(world.outside.rows_of(other.account.id).await, before);
    assert_eq!(world.events(&other.account, &EventFilter::default(), 100).await.len(), 6);
    assert_eq!(world.lane(other.destination.id).await.len(), 1);
}

pub(crate) async fn a_late_word_about_a_deleted_account_is_not_kept(world: World) {
    let ground = world.ground().await;
    let (a, b) = (world.delivery(&ground, at(1)).await, world.delivery(&ground, at(2)).await);
    delete(&world, &ground, at(3)).await;
    assert_eq!(world.settle(&[delivered(&a, at(4))], at(4)).await, [true], "what waits still ends");
    erase(&world, ground.account.id, 100).await;
    assert_eq!(world.settle(&[delivered(&b, at(5))], at(5)).await, [false]);
    let left = world.store.attempts_of_delivery(ground.account.id, b.id, 10).await.unwrap();
    assert!(left.is_empty(), "{left:?}");
    let row = Rollup {
        account_id: ground.account.id,
        destination_id: None,
        kind: RollupKind::Sums(domain::rollup::Span::Day),
        starts_at: at(0),
        doc: "{}".into(),
    };
    let sums = term(&world, Chore::RollUp).await;
    assert!(world.store.write_rollups(sums, &[row]).await.unwrap());
    assert_eq!(erase(&world, ground.account.id, 100).await, 0, "nothing came after it");
}

pub(crate) async fn an_earlier_term_erases_nothing(world: World) {
    if !world.backend.has_many_nodes() {
        return;
    }
    let ground = world.ground().await;
    delete(&world, &ground, at(1)).await;
    let mine = term(&world, Chore::Erase).await;
    let other = NodeId::at(at(0), chance());
    world.store.take_chore(Chore::Erase, other, at(60), LEASE).await.unwrap().expect("it is over");
    let step = ErasureStep { account_id: ground.account.id, phase: ErasurePhase::Routes, from: 0, rows: 10 };
    assert_eq!(world.store.erase(mine, &step).await.unwrap(), None);
    assert!(!world.store.end_erasure(mine, ground.account.id, at(61)).await.unwrap());
    assert_eq!(world.store.open_erasures(10).await.unwrap().len(), 1);
}

pub(crate) async fn what_was_stopped_in_the_middle_goes_on(world: World) {
    let (ground, _) = furnished(&world).await;
    delete(&world, &ground, at(30)).await;
    let term = term(&world, Chore::Erase).await;
    for phase in [ErasurePhase::Waiting, ErasurePhase::Events] {
        let step = ErasureStep { account_id: ground.account.id, phase, from: 0, rows: 1 };
        let erased = world.store.erase(term, &step).await.unwrap().expect("the term stands");
        assert!(erased.rows > 0 && erased.next.is_some(), "{phase}: {erased:?}");
    }
    let open = world.store.open_erasures(10).await.unwrap().remove(0);
    assert_eq!((open.phase, open.erased_rows > 1), (ErasurePhase::Events, true));
    erase(&world, ground.account.id, 1_000).await;
    assert!(
        world
            .store
            .events(ground.account.id, &EventFilter::default(), first(9))
            .await
            .unwrap()
            .rows
            .is_empty()
    );
}

// --- Payloads ------------------------------------------------------------------------------------------------------

/// A delivery that was answered.
fn answered(delivery: &Delivery, started_at: Timestamp) -> Settlement {
    let mut settlement = delivered(delivery, started_at);
    if let Fact::Attempted(attempt) = &mut settlement.fact {
        let response = Response { body: Some("thank you, Ann".into()), ..Response::default() };
        attempt.detail = Detail {
            url: "https://example.com/hooks".into(),
            request_headers: vec![("x-customer".into(), "Ann".into())],
            response: Some(response),
            ..Detail::default()
        };
    }
    settlement
}

async fn erase_payload(world: &World, delivery: &Delivery, now: Timestamp) -> Result<(), StoreError> {
    world.store.erase_payload(delivery.account_id, delivery.event_id, now, &audit_entry()).await
}

pub(crate) async fn an_erased_payload_is_gone_and_the_event_is_not(world: World) {
    let ground = world.ground().await;
    let mut new = event(&ground.account, at(1));
    new.headers = vec![("x-customer".into(), "Ann".into())];
    let size = new.payload.len() as u64;
    let delivery = world.commit_event(new, &[&ground.route]).await.remove(0);
    world.move_on(answered(&delivery, at(2))).await;
    let (account, id, store) = (ground.account.id, delivery.event_id, &world.store);
    let before = store.event(account, id).await.unwrap();
    assert_eq!(before.payload_erased_at, None);

    erase_payload(&world, &delivery, at(3)).await.expect("nothing waits");
    let last = store.audit_ends(Some(account)).await.unwrap();
    erase_payload(&world, &delivery, at(4)).await.expect("again");
    assert_eq!(store.audit_ends(Some(account)).await.unwrap(), last, "once");
    let after = store.event(account, id).await.unwrap();
    assert_eq!((after.payload_erased_at, after.size_bytes), (Some(at(3)), size));
    assert!(after.event.headers.is_empty());
    assert_eq!((after.fanout, after.event.event_type), (before.fanout, before.event.event_type));
    let listed = world.events(&ground.account, &EventFilter::default(), 10).await;
    assert_eq!(listed[0].payload_erased_at, Some(at(3)));
    assert!(matches!(store.kept_payload(account, id).await, Err(StoreError::PayloadErased)));
    assert!(matches!(store.payload_size(account, id).await, Err(StoreError::PayloadErased)));
    assert!(store.payload(id).await.unwrap().is_none());

    while let Some(_more) = store.erase_answers(id, Some(delivery.id), 10).await.unwrap() {}
    assert_eq!(store.erase_answers(id, None, 10).await.unwrap(), Some(delivery.id));
    let attempt = store.attempts_of_delivery(account, delivery.id, 10).await.unwrap().remove(0);
    assert_eq!((attempt.detail.response, attempt.detail.request_headers), (None, Vec::new()));
    assert_eq!(attempt.detail.url, "https://example.com/hooks", "what is no answer stays");

    assert_eq!(store.payload_erasures(at(3), 10).await.unwrap(), []);
    assert_eq!(store.payload_erasures(at(4), 10).await.unwrap(), [id]);
    store.end_payload_erasure(id).await.unwrap();
    assert_eq!(store.payload_erasures(at(4), 10).await.unwrap(), []);
    let stranger = world.account().await;
    is_not_found(store.erase_payload(stranger.id, id, at(5), &audit_entry()).await, "event");
}

pub(crate) async fn a_payload_in_use_is_not_erased(world: World) {
    let ground = world.ground().await;
    let delivery = world.delivery(&ground, at(1)).await;
    let in_use = |erased: Result<(), StoreError>| matches!(erased, Err(StoreError::PayloadInUse));
    assert!(in_use(erase_payload(&world, &delivery, at(2)).await));
    world.move_on(retried(&delivery, at(3), at(4))).await;
    assert!(in_use(erase_payload(&world, &delivery, at(5)).await), "a retry waits");
    assert_eq!(
        world.store.event(ground.account.id, delivery.event_id).await.unwrap().payload_erased_at,
        None
    );
    let expanding = world.matched(event(&ground.account, at(6)), Vec::new()).await;
    let expanding = NewEvent { expands: true, ..expanding };
    assert_eq!(world.commit(&expanding).await, Committed::New);
    let id = expanding.event.id;
    assert!(in_use(world.store.erase_payload(ground.account.id, id, at(7), &audit_entry()).await));
    world.move_on(delivered(&world.lane(ground.destination.id).await.remove(0), at(8))).await;
    erase_payload(&world, &delivery, at(9)).await.expect("all of it has ended");
}

pub(crate) async fn of_an_erased_payload_nothing_is_made_again(world: World) {
    let ground = world.ground().await;
    let delivery = world.delivery(&ground, at(1)).await;
    world.move_on(delivered(&delivery, at(2))).await;
    erase_payload(&world, &delivery, at(3)).await.unwrap();
    let id = DeliveryId::at(at(20), chance());
    let again = Replayed {
        origin: delivery.id,
        event_id: delivery.event_id,
        delivery: NewDelivery::unordered(id, ground.route.id, ground.destination.id, at(20)),
    };
    let new = NewReplay { at_once: Some(again), ..new_replay(&ground) };
    let refused = world.store.create_replay(&new, &audit_entry()).await;
    assert!(matches!(refused, Err(StoreError::PayloadErased)), "{refused:?}");
    let walk = BackfillWalk {
        account_id: ground.account.id,
        selection: BackfillSelection::default(),
        cursor: None,
        as_of: at(30),
        limit: 10,
        payloads: true,
    };
    let found = world.store.backfill_events(&walk).await.unwrap().events;
    assert_eq!(found.iter().map(|found| found.erased).collect::<Vec<_>>(), [true]);
    assert!(world.lane(ground.destination.id).await.is_empty());
}

pub(crate) async fn answers_are_erased_in_steps(world: World) {
    let ground = world.ground().await;
    let second = world.route(&world.destination(&ground.account).await).await;
    let third = world.route(&world.destination(&ground.account).await).await;
    let all = world.commit_event(event(&ground.account, at(1)), &[&ground.route, &second, &third]).await;
    for delivery in &all {
        world.move_on(answered(delivery, at(2))).await;
    }
    let id = all[0].event_id;
    assert_eq!(world.store.erase_answers(id, None, 2).await.unwrap(), None, "it was not erased");
    erase_payload(&world, &all[0], at(3)).await.unwrap();
    let (mut after, mut steps) = (None, 0);
    while let Some(last) = world.store.erase_answers(id, after, 2).await.unwrap() {
        (after, steps) = (Some(last), steps + 1);
    }
    assert_eq!(steps, 2);
    for delivery in &all {
        let left = world.store.attempts_of_delivery(ground.account.id, delivery.id, 10).await.unwrap();
        assert!(left[0].detail.response.is_none());
    }
}

pub(crate) async fn a_late_answer_to_an_erased_payload_is_not_kept(world: World) {
    let ground = world.ground().await;
    let delivery = world.delivery(&ground, at(1)).await;
    let fact = domain::id::AttemptId::at(at(2), chance());
    world.store.cancel(ground.account.id, delivery.id, fact, at(2), &audit_entry()).await.unwrap();
    erase_payload(&world, &delivery, at(3)).await.expect("it was cancelled");
    assert_eq!(world.settle(&[answered(&delivery, at(2))], at(4)).await, [false]);
    let left = world.store.attempts_of_delivery(ground.account.id, delivery.id, 10).await.unwrap();
    assert!(left.is_empty(), "{left:?}");
    assert!(
        limits::ERASURE_QUIET > limits::STORE_STATEMENT,
        "a statement ends before it is looked at once more"
    );
}

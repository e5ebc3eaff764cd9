//! What is written down about changes, in their transactions, and that nobody can change it unseen.

use crate::fixtures::{
    World, account, api_key, at, chance, destination, first, is_changed, is_not_found, is_taken, route,
    source,
};
use domain::{
    account::Account,
    audit::{Actor, AuditEntry, AuditRecord, Broken, ChainEnds},
    id::{ApiKeyId, AttemptId, AuditId, RequestId},
    time::Timestamp,
};
use futures_util::future::join_all;
use std::sync::Arc;
use store::{
    AuditActor, AuditFilter, ChainOwner, Checked, CreatedReplay, NewReplay, Page, ReplayKey, ReplaySwitch,
    Selection, Store, check_chain,
};

fn entry(action: &str, now: Timestamp) -> AuditEntry {
    AuditEntry::system(AuditId::at(now, chance()), action, None)
}

async fn chain(world: &World, owner: ChainOwner) -> Vec<AuditRecord> {
    world.store.audit_records(owner, 0, 1_000).await.expect("entries")
}

async fn actions(world: &World, owner: ChainOwner) -> Vec<String> {
    chain(world, owner).await.into_iter().map(|record| record.entry.action).collect()
}

async fn ends(world: &World, owner: ChainOwner) -> ChainEnds {
    match check_chain(&*world.store, owner).await.expect("a chain") {
        Checked::Holds(ends) => ends,
        Checked::Breaks(broken) => panic!("{broken}"),
    }
}

async fn broken(world: &World, owner: ChainOwner) -> Broken {
    match check_chain(&*world.store, owner).await.expect("a chain") {
        Checked::Breaks(broken) => broken,
        Checked::Holds(ends) => panic!("it holds: {ends:?}"),
    }
}

/// An account with so many entries, a second apart.
async fn written(world: &World, count: u64) -> (Account, Vec<AuditRecord>) {
    let account = account();
    for n in 0..count {
        world.store.write_audit(Some(account.id), &entry("act", at(n))).await.expect("written");
    }
    let records = chain(world, Some(account.id)).await;
    assert_eq!(records.len() as u64, count);
    (account, records)
}

pub(crate) async fn every_change_is_written_down_with_it(world: World) {
    let store = &world.store;
    let with = |action: &str| entry(action, at(0));
    let account = store.create_account(&account(), &with("create_account")).await.expect("an account");
    let account = store.update_account(&account, &with("update_account")).await.expect("an update");
    let key = api_key(Some(&account), "audited-key1");
    store.create_api_key(&key, &with("create_api_key")).await.expect("a key");
    store.revoke_api_key(Some(account.id), key.id, at(1), &with("revoke_api_key")).await.expect("revoked");
    let source = store.create_source(&source(&account), &with("create_source")).await.expect("a source");
    let source = store.update_source(&source, &with("update_source")).await.expect("an update");
    let made = store.create_destination(&destination(&account), &with("create_destination")).await;
    let destination = made.expect("a destination");
    let updated = store.update_destination(&destination, &with("update_destination")).await;
    let destination = updated.expect("an update");
    let route = store.create_route(&route(&destination), &with("create_route")).await.expect("a route");
    let route = store.update_route(&route, &with("update_route")).await.expect("an update");
    store.probe(account.id, destination.id, at(2), &with("probe")).await.expect("a probe");
    store.delete_route(account.id, route.id, at(3), &with("delete_route")).await.expect("deleted");
    store.delete_source(account.id, source.id, at(3), &with("delete_source")).await.expect("deleted");
    let deleted =
        store.delete_destination(account.id, destination.id, at(3), &with("delete_destination")).await;
    deleted.expect("deleted");
    let expected = [
        "create_account",
        "update_account",
        "create_api_key",
        "revoke_api_key",
        "create_source",
        "update_source",
        "create_destination",
        "update_destination",
        "create_route",
        "update_route",
        "probe",
        "delete_route",
        "delete_source",
        "delete_destination",
    ];
    assert_eq!(actions(&world, Some(account.id)).await, expected);
    assert_eq!(ends(&world, Some(account.id)).await.last.number, expected.len() as i64);
    // What is no account's is the installation's.
    store.create_api_key(&api_key(None, "audited-key2"), &with("create_api_key")).await.expect("a key");
    assert_eq!(actions(&world, None).await, ["create_api_key"]);
}

pub(crate) async fn what_people_ask_of_deliveries_is_written_down_with_it(world: World) {
    let ground = world.ground().await;
    let (store, account) = (&world.store, ground.account.id);
    let before = ends(&world, Some(account)).await.last.number as usize;
    let delivery = world.delivery(&ground, at(1)).await.id;
    let with = |action: &str| entry(action, at(2));
    let retried =
        store.retry_now(account, delivery, at(2), &with("retry_delivery")).await.expect("an answer");
    assert!(retried.is_some());
    let cancelled = store
        .cancel(account, delivery, AttemptId::at(at(3), chance()), at(3), &with("cancel_delivery"))
        .await
        .expect("an answer");
    assert!(cancelled.is_some());
    let new = replay(&ground.account, None);
    store.create_replay(&new, &with("create_replay")).await.expect("a replay");
    for to in [ReplaySwitch::Pause, ReplaySwitch::Resume, ReplaySwitch::Cancel] {
        store.switch_replay(account, new.id, to, at(5), &with(to.status().as_str())).await.expect("switched");
    }
    let written = actions(&world, Some(account)).await.split_off(before);
    assert_eq!(
        written,
        ["retry_delivery", "cancel_delivery", "create_replay", "paused", "running", "cancelled"]
    );
    ends(&world, Some(account)).await;
}

fn replay(account: &Account, key: Option<ReplayKey>) -> NewReplay {
    NewReplay {
        id: domain::id::ReplayId::at(at(4), chance()),
        account_id: account.id,
        selection: Selection::Filter(Default::default()),
        rate: 10,
        matched: 0,
        matched_exact: true,
        created_by: ApiKeyId::at(at(4), chance()).into(),
        created_at: at(4),
        key,
        at_once: None,
    }
}

pub(crate) async fn a_refused_change_leaves_no_entry(world: World) {
    let ground = world.ground().await;
    let (store, account) = (&world.store, &ground.account);
    let stranger =
        store.create_account(&crate::fixtures::account(), &entry("made", at(0))).await.expect("another");
    let before = ends(&world, Some(account.id)).await;
    let refused = || entry("refused", at(5));

    let stale = domain::destination::Destination { version: 0, ..ground.destination.clone() };
    is_changed(store.update_destination(&stale, &refused()).await);
    let foreign = store.delete_destination(stranger.id, ground.destination.id, at(5), &refused()).await;
    is_not_found(foreign, "destination");
    let uid = Some("taken".to_owned());
    let mut first_route = route(&ground.destination);
    first_route.uid = uid.clone();
    store.create_route(&first_route, &entry("made", at(5))).await.expect("a route");
    let mut second = route(&ground.destination);
    second.uid = uid;
    is_taken(store.create_route(&second, &refused()).await, "uid");
    let absent = store.revoke_api_key(Some(account.id), ApiKeyId::MIN, at(5), &refused()).await;
    is_not_found(absent, "api key");
    let delivery = world.delivery(&ground, at(1)).await.id;
    let of_another = store.retry_now(stranger.id, delivery, at(5), &refused()).await.expect("an answer");
    assert_eq!(of_another, None);
    let fact = AttemptId::at(at(5), chance());
    assert_eq!(store.cancel(stranger.id, delivery, fact, at(5), &refused()).await.expect("an answer"), None);

    let key = Some(ReplayKey { hash: [7; 32], body_hash: [8; 32] });
    let new = replay(account, key);
    store.create_replay(&new, &entry("made", at(5))).await.expect("a replay");
    let again = store.create_replay(&replay(account, key), &refused()).await.expect("an answer");
    assert!(matches!(again, CreatedReplay::Known { .. }));
    let cancel =
        store.switch_replay(account.id, new.id, ReplaySwitch::Cancel, at(6), &entry("made", at(6))).await;
    cancel.expect("cancelled");
    store
        .switch_replay(account.id, new.id, ReplaySwitch::Resume, at(7), &refused())
        .await
        .expect("as it was");

    let written = actions(&world, Some(account.id)).await.split_off(before.last.number as usize);
    assert_eq!(written, ["made", "made", "made"]);
    assert_eq!(actions(&world, Some(stranger.id)).await, ["made"]);
    assert_eq!(ends(&world, Some(account.id)).await.last.number, before.last.number + 3);
}

pub(crate) async fn an_entry_may_go_with_no_change(world: World) {
    let account = account();
    world.store.write_audit(Some(account.id), &entry("reveal", at(1))).await.expect("written");
    world.store.write_audit(None, &entry("refused", at(1))).await.expect("written");
    assert_eq!(actions(&world, Some(account.id)).await, ["reveal"]);
    assert_eq!(actions(&world, None).await, ["refused"]);
    let owners = world.store.audit_chains(None, 10).await.expect("chains");
    assert_eq!(owners, [None, Some(account.id)], "the installation's comes first");
    assert_eq!(world.store.audit_chains(Some(None), 10).await.expect("chains"), [Some(account.id)]);
    assert_eq!(world.store.audit_chains(None, 1).await.expect("chains"), [None]);
}

pub(crate) async fn every_member_of_an_entry_is_kept(world: World) {
    let account = account();
    let full = AuditEntry {
        id: AuditId::at(at(3), chance()),
        at: at(3),
        actor: Actor::Operator(ApiKeyId::at(at(0), chance())),
        action: "update_destination".into(),
        object_id: Some("dst_1".into()),
        client: Some("2001:db8::1".into()),
        request_id: Some(RequestId::at(at(3), chance())),
        difference: Some(r#"{"name":{"from":"Zürich \u0000 ","to":"x"}}"#.into()),
        count: Some(u32::MAX),
    };
    let by_key = AuditEntry { actor: Actor::Key(ApiKeyId::at(at(0), chance())), ..entry("a", at(4)) };
    for each in [&full, &by_key, &entry("b", at(5))] {
        world.store.write_audit(Some(account.id), each).await.expect("written");
    }
    let records = chain(&world, Some(account.id)).await;
    assert_eq!(records[0].entry, full);
    assert_eq!(records[1].entry, by_key);
    assert_eq!(records.iter().map(|record| record.number).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(records.iter().all(|record| record.account_id == Some(account.id)));
    let listed = world.store.audit_entries(Some(account.id), &AuditFilter::default(), first(10)).await;
    let mut listed = listed.expect("a list").rows;
    listed.reverse();
    assert_eq!(listed, records);
}

pub(crate) async fn entries_are_listed_newest_first(world: World) {
    let (account, records) = written(&world, 5).await;
    let (other, _) = written(&world, 1).await;
    let ids: Vec<AuditId> = records.iter().rev().map(|record| record.entry.id).collect();
    let everything = AuditFilter::default();
    let page = |before, limit| Page { before, limit };
    let list = async |owner, page| world.store.audit_entries(owner, &everything, page).await.expect("a list");
    let one = list(Some(account.id), page(None, 2)).await;
    assert_eq!(one.rows.iter().map(|row| row.entry.id).collect::<Vec<_>>(), ids[..2]);
    assert_eq!(one.next, Some(ids[1]));
    let two = list(Some(account.id), page(one.next, 10)).await;
    assert_eq!(two.rows.iter().map(|row| row.entry.id).collect::<Vec<_>>(), ids[2..]);
    assert_eq!(two.next, None);
    let all = list(None, page(None, 100)).await;
    assert!(all.rows.iter().any(|row| row.account_id == Some(other.id)));
    assert!(all.rows.len() > records.len());
    assert!(all.rows.is_sorted_by(|one, two| one.entry.id > two.entry.id));
}

pub(crate) async fn entries_are_found_by_what_they_say(world: World) {
    let account = account();
    let (key, operator) = (ApiKeyId::at(at(0), chance()), ApiKeyId::at(at(0), chance()));
    let entries = [
        AuditEntry { actor: Actor::Key(key), object_id: Some("dst_1".into()), ..entry("pause", at(1)) },
        AuditEntry { actor: Actor::Operator(operator), ..entry("pause", at(2)) },
        AuditEntry { object_id: Some("dst_2".into()), ..entry("resume", at(3)) },
    ];
    for each in &entries {
        world.store.write_audit(Some(account.id), each).await.expect("written");
    }
    let found = async |filter: AuditFilter| {
        let listed = world.store.audit_entries(Some(account.id), &filter, first(10)).await.expect("a list");
        let mut places: Vec<usize> = Vec::new();
        for row in listed.rows {
            places.extend(entries.iter().position(|each| each.id == row.entry.id));
        }
        places
    };
    let none = AuditFilter::default;
    assert_eq!(found(none()).await, [2, 1, 0]);
    assert_eq!(found(AuditFilter { action: Some("pause".into()), ..none() }).await, [1, 0]);
    assert_eq!(found(AuditFilter { object_id: Some("dst_2".into()), ..none() }).await, [2]);
    assert_eq!(found(AuditFilter { actor: Some(AuditActor::Key(key)), ..none() }).await, [0]);
    assert_eq!(found(AuditFilter { actor: Some(AuditActor::Key(operator)), ..none() }).await, [1]);
    assert_eq!(found(AuditFilter { actor: Some(AuditActor::AnyOperator), ..none() }).await, [1]);
    assert_eq!(found(AuditFilter { actor: Some(AuditActor::System), ..none() }).await, [2]);
    assert_eq!(found(AuditFilter { since: Some(at(2)), until: Some(at(3)), ..none() }).await, [1]);
    let both = AuditFilter { action: Some("pause".into()), object_id: Some("dst_2".into()), ..none() };
    assert_eq!(found(both).await, [0_usize; 0]);
}

pub(crate) async fn an_account_without_entries_has_a_chain_that_holds(world: World) {
    assert_eq!(ends(&world, Some(account().id)).await, ChainEnds::default());
}

pub(crate) async fn an_entry_that_was_changed_is_found(world: World) {
    let (account, records) = written(&world, 4).await;
    world.outside.alter_entry(Some(account.id), records[1].entry.id).await;
    assert_eq!(broken(&world, Some(account.id)).await, Broken::Altered { number: 2 });
    let (other, _) = written(&world, 2).await;
    ends(&world, Some(other.id)).await;
}

pub(crate) async fn an_entry_that_was_taken_out_is_found(world: World) {
    for place in 0..3 {
        let (account, records) = written(&world, 3).await;
        world.outside.lose_entry(Some(account.id), records[place].entry.id).await;
        assert_eq!(broken(&world, Some(account.id)).await, Broken::Missing { number: place as i64 + 1 });
    }
}

pub(crate) async fn the_last_entry_is_missed_too(world: World) {
    let (account, records) = written(&world, 2).await;
    for record in &records {
        world.outside.lose_entry(Some(account.id), record.entry.id).await;
    }
    assert_eq!(broken(&world, Some(account.id)).await, Broken::Missing { number: 1 });
    // And what is written behind it does not hide it.
    world.store.write_audit(Some(account.id), &entry("act", at(9))).await.expect("written");
    assert_eq!(broken(&world, Some(account.id)).await, Broken::Missing { number: 1 });
}

pub(crate) async fn entries_that_were_moved_are_found(world: World) {
    let (account, records) = written(&world, 4).await;
    let owner = Some(account.id);
    let (second, third) = (records[1].entry.id, records[2].entry.id);
    world.outside.move_entry(owner, second, -1).await;
    world.outside.move_entry(owner, third, 2).await;
    world.outside.move_entry(owner, second, 3).await;
    assert_eq!(broken(&world, owner).await, Broken::Altered { number: 2 });
}

pub(crate) async fn what_is_left_after_pruning_holds(world: World) {
    let (account, records) = written(&world, 10).await;
    let owner = Some(account.id);
    let prune = async |before, limit| world.store.prune_audit(before, limit).await.expect("pruned");
    assert_eq!(prune(at(0), 100).await, 0, "none is as old");
    assert_eq!(prune(at(6), 4).await, 4, "no more than a step takes");
    assert_eq!(prune(at(6), 4).await, 2);
    assert_eq!(prune(at(6), 4).await, 0);
    let kept = ends(&world, owner).await;
    assert_eq!((kept.forgotten.number, kept.forgotten.hash), (6, records[5].hash));
    assert_eq!(chain(&world, owner).await, records[6..]);
    world.store.write_audit(owner, &entry("act", at(20))).await.expect("written");
    assert_eq!(ends(&world, owner).await.last.number, 11);
    // All of them may go, and the chain goes on from there.
    assert_eq!(prune(at(100), 100).await, 5);
    world.store.write_audit(owner, &entry("act", at(200))).await.expect("written");
    let kept = ends(&world, owner).await;
    assert_eq!((kept.forgotten.number, kept.last.number), (11, 12));
    // And what is taken out of the rest is still found.
    let last = chain(&world, owner).await.remove(0);
    world.outside.alter_entry(owner, last.entry.id).await;
    assert_eq!(broken(&world, owner).await, Broken::Altered { number: 12 });
}

pub(crate) async fn an_old_entry_behind_a_newer_one_stays(world: World) {
    let account = account();
    for seconds in [1, 9, 2] {
        world.store.write_audit(Some(account.id), &entry("act", at(seconds))).await.expect("written");
    }
    assert_eq!(world.store.prune_audit(at(5), 100).await.expect("pruned"), 1);
    assert_eq!(world.store.prune_audit(at(5), 100).await.expect("pruned"), 0);
    assert_eq!(ends(&world, Some(account.id)).await.forgotten.number, 1);
    assert_eq!(world.store.prune_audit(at(10), 100).await.expect("pruned"), 2);
    ends(&world, Some(account.id)).await;
}

pub(crate) async fn a_chain_that_begins_in_the_future_keeps_no_other_from_being_pruned(world: World) {
    let (ahead, (other, _)) = (account(), written(&world, 3).await);
    for seconds in [1_000_000, 1, 1, 1, 1, 1] {
        world.store.write_audit(Some(ahead.id), &entry("act", at(seconds))).await.expect("written");
    }
    assert_eq!(world.store.prune_audit(at(5), 4).await.expect("pruned"), 3);
    assert_eq!(ends(&world, Some(other.id)).await.forgotten.number, 3);
    assert_eq!(ends(&world, Some(ahead.id)).await.forgotten.number, 0);
}

pub(crate) async fn an_entry_outside_of_its_chain_is_found(world: World) {
    for (number, pruned) in [(9, 0), (0, 0), (-3, 0), (1, 2), (i64::MAX, 2)] {
        let (account, records) = written(&world, 4).await;
        let owner = Some(account.id);
        world.store.prune_audit(at(pruned), 1_000).await.expect("pruned");
        ends(&world, owner).await;
        world.outside.copy_entry(owner, records[3].entry.id, number).await;
        assert_eq!(broken(&world, owner).await, Broken::Outside { number });
    }
}

pub(crate) async fn many_writers_at_once_make_one_chain(world: World) {
    let made = entry("made", at(0));
    let account = world.store.create_account(&account(), &made).await.expect("an account");
    let other: Arc<dyn Store> = world.other_nodes.open().await.unwrap_or_else(|| world.store.clone());
    let pairs: Vec<_> = (0..20).map(|_| (entry("change", at(1)), entry("reveal", at(1)))).collect();
    let destinations: Vec<_> = pairs.iter().map(|_| destination(&account)).collect();
    let work = pairs.iter().zip(&destinations).enumerate().map(|(n, ((change, reveal), destination))| {
        let (store, another) = if n % 2 == 0 { (&world.store, &other) } else { (&other, &world.store) };
        async move {
            let (made, written) = tokio::join!(
                store.create_destination(destination, change),
                another.write_audit(Some(destination.account_id), reveal)
            );
            made.expect("a destination");
            written.expect("an entry");
        }
    });
    join_all(work).await;
    let ends = ends(&world, Some(account.id)).await;
    assert_eq!(ends.last.number, 41);
    let numbers: Vec<i64> =
        chain(&world, Some(account.id)).await.iter().map(|record| record.number).collect();
    assert_eq!(numbers, (1..=41).collect::<Vec<_>>());
}

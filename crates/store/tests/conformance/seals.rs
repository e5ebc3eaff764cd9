//! What is sealed anew: data keys, settings, and the secrets of destinations and sources.

use crate::fixtures::*;
use domain::{
    account::Account,
    destination::{Auth, Destination, Previous, Secrets},
    id::{AccountId, DestinationId},
    seal::Sealed,
    testing::audit_entry,
};
use std::{collections::BTreeSet, sync::Arc};
use store::{
    DataKeyChange, KeptDataKey, ResealedRow, SealedRow, SealedRowId, SettingChange, Store, StoreError,
};

fn sealed(byte: u8) -> Sealed {
    Sealed(vec![1, byte, 0xfb, 0xff, byte])
}

fn change(account: &Account, from: Sealed, to: u8) -> DataKeyChange {
    DataKeyChange { account_id: account.id, from, to: sealed(to) }
}

async fn replaced(world: &World, changes: &[DataKeyChange]) -> usize {
    world.store.replace_data_keys(changes, &audit_entry()).await.unwrap()
}

/// Entries in the installation's own chain.
async fn entries(world: &World) -> usize {
    world.store.audit_records(None, i64::MIN, 100).await.unwrap().len()
}

pub(crate) async fn data_keys_are_walked_in_order(world: World) {
    let mut made = Vec::new();
    for _ in 0..5 {
        made.push(world.account().await);
    }
    world.store.delete_account(made[2].id, at(5), &audit_entry()).await.unwrap();
    let walk = async |after: Option<AccountId>, limit| world.store.data_keys(after, limit).await.unwrap();
    let of = |number: usize| KeptDataKey {
        account_id: made[number].id,
        data_key: Some(made[number].data_key.clone()),
        seals_events: false,
    };
    assert_eq!(walk(None, 2).await, [of(0), of(1)]);
    assert_eq!(walk(Some(made[1].id), 9).await, [of(3), of(4)], "what was deleted has none");
    assert_eq!(walk(Some(made[4].id), 9).await, []);
}

pub(crate) async fn a_data_key_is_replaced_only_where_it_is_the_one_that_was_read(world: World) {
    let mut first = account();
    // What looks like the key in a text of somebody's.
    first.name = r#""data_key":"AAEC/v8=""#.into();
    let first = world.store.create_account(&first, &audit_entry()).await.unwrap();
    let second = world.account().await;
    let before = entries(&world).await;
    let changes = [change(&first, first.data_key.clone(), 7), change(&second, sealed(99), 8)];
    assert_eq!(replaced(&world, &changes).await, 1);
    assert_eq!(entries(&world).await, before + 1, "one entry for all that was replaced");

    let now = world.store.account(first.id).await.unwrap();
    assert_eq!(now, Account { data_key: sealed(7), version: first.version + 1, ..first.clone() });
    assert_eq!(world.store.account(second.id).await.unwrap(), second);

    assert_eq!(replaced(&world, &changes).await, 0, "once");
    assert_eq!(entries(&world).await, before + 1, "nothing is written down where nothing was done");
    world.store.delete_account(first.id, at(5), &audit_entry()).await.unwrap();
    assert_eq!(replaced(&world, &[change(&first, sealed(7), 9)]).await, 0);
    assert_eq!(replaced(&world, &[change(&account(), Sealed(vec![0, 1, 2, 254, 255]), 9)]).await, 0);
}

pub(crate) async fn a_change_at_the_same_moment_does_not_bring_a_replaced_data_key_back(world: World) {
    let read = world.account().await;
    assert_eq!(replaced(&world, &[change(&read, read.data_key.clone(), 7)]).await, 1);
    let renamed = Account { name: "Beta".into(), ..read };
    is_changed(world.store.update_account(&renamed, &audit_entry()).await);
}

pub(crate) async fn of_many_that_replace_a_data_key_at_once_one_does(world: World) {
    let mut accounts = Vec::new();
    for _ in 0..8 {
        accounts.push(world.account().await);
    }
    let tasks: Vec<_> = (0..8u8)
        .map(|number| {
            let store: Arc<dyn Store> = world.store.clone();
            let mut changes: Vec<_> =
                accounts.iter().map(|account| change(account, account.data_key.clone(), number)).collect();
            // Whoever locks in the order it was told to would wait for ever.
            if number % 2 == 1 {
                changes.reverse();
            }
            tokio::spawn(async move { store.replace_data_keys(&changes, &audit_entry()).await.unwrap() })
        })
        .collect();
    let mut all = 0;
    for task in tasks {
        all += task.await.unwrap();
    }
    assert_eq!(all, accounts.len());
}

pub(crate) async fn settings_are_replaced_together_or_not_at_all(world: World) {
    for name in ["keys/b", "keys/a", "keyz", "Keys/a"] {
        world.store.setting_or_insert(name, name.as_bytes()).await.unwrap();
    }
    let under = async |prefix: &str| -> Vec<String> {
        let found = world.store.settings(prefix).await.unwrap();
        found
            .into_iter()
            .map(|(name, value)| format!("{name}={}", String::from_utf8(value).unwrap()))
            .collect()
    };
    assert_eq!(under("keys/").await, ["keys/a=keys/a", "keys/b=keys/b"]);

    let to = |name: &str, from: &str, to: Option<&str>| SettingChange {
        name: name.into(),
        from: from.into(),
        to: to.map(|to| to.as_bytes().to_vec()),
    };
    let replace = async |changes: &[SettingChange]| {
        world.store.replace_settings(changes, &audit_entry()).await.unwrap()
    };
    let before = entries(&world).await;
    let stale = [to("keyz", "keyz", Some("x")), to("keys/a", "other", None)];
    assert!(!replace(&stale).await);
    assert!(!replace(&[to("no such", "", None)]).await);
    assert_eq!(under("key").await, ["keys/a=keys/a", "keys/b=keys/b", "keyz=keyz"]);
    assert_eq!(entries(&world).await, before);

    assert!(replace(&[to("keyz", "keyz", Some("x")), to("keys/a", "keys/a", None)]).await);
    assert_eq!(under("key").await, ["keys/b=keys/b", "keyz=x"]);
    assert_eq!(entries(&world).await, before + 1);
}

/// With two signing secrets and two sealed headers.
async fn with_secrets(world: &World, account: &Account, byte: u8) -> Destination {
    let previous = Previous { secret: sealed(byte + 1), until: at(9) };
    let auth =
        Auth::Headers { headers: vec![("x-a".into(), sealed(byte + 2)), ("x-b".into(), sealed(byte + 3))] };
    let secret = Secrets { current: sealed(byte), previous: Some(previous), ..Secrets::default() };
    let given = Destination { secret, auth, ..destination(account) };
    world.store.create_destination(&given, &audit_entry()).await.unwrap()
}

async fn rows(world: &World, account: &Account, after: Option<SealedRowId>, limit: usize) -> Vec<SealedRow> {
    world.store.sealed_rows(account.id, after, limit).await.unwrap()
}

pub(crate) async fn sealed_rows_are_destinations_and_then_sources(world: World) {
    let (account, other) = (world.account().await, world.account().await);
    let source = world.source(&account).await;
    let first = with_secrets(&world, &account, 10).await;
    let deleted = with_secrets(&world, &account, 20).await;
    let (gone, _) = (world.source(&account).await, with_secrets(&world, &other, 30).await);
    world.store.delete_destination(account.id, deleted.id, at(1), &audit_entry()).await.unwrap();
    world.store.delete_source(account.id, gone.id, at(1), &audit_entry()).await.unwrap();

    let all = rows(&world, &account, None, 10).await;
    let ids: Vec<_> = all.iter().map(|row| row.id).collect();
    let expected = [
        SealedRowId::Destination(first.id),
        SealedRowId::Destination(deleted.id),
        SealedRowId::Source(source.id),
    ];
    assert_eq!(ids, expected, "a deleted destination may still be delivered to");
    let (secret, auth) = (Destination::secret_place(first.id), Destination::auth_place(first.id));
    let places = [(&secret, 10), (&secret, 11), (&auth, 12), (&auth, 13)];
    let places: Vec<_> = places.into_iter().map(|(place, byte)| (place.clone(), sealed(byte))).collect();
    assert_eq!(all[0], SealedRow { id: expected[0], version: first.version, sealed: Some(places) });
    assert_eq!(all[2].sealed.as_ref().map(Vec::len), Some(3), "its token and two secrets");

    for step in 1..4 {
        let (mut walked, mut after) = (Vec::new(), None);
        loop {
            let page = rows(&world, &account, after, step).await;
            after = page.last().map(|row| row.id);
            walked.extend_from_slice(&page);
            if page.len() < step {
                break;
            }
        }
        assert_eq!(walked, all, "by {step}");
    }
    is_not_found(world.store.sealed_rows(AccountId::at(at(0), chance()), None, 9).await, "account");
}

pub(crate) async fn a_row_is_sealed_anew_only_over_the_version_it_was_read_with(world: World) {
    let account = world.account().await;
    let (first, second) =
        (with_secrets(&world, &account, 10).await, with_secrets(&world, &account, 20).await);
    let source = world.source(&account).await;
    let paused = Destination { name: "Paused".into(), ..second.clone() };
    let paused = world.store.update_destination(&paused, &audit_entry()).await.unwrap();
    let row = |id, version, replaced: &[(u8, u8)]| ResealedRow {
        id,
        version,
        replaced: replaced.iter().map(|(from, to)| (sealed(*from), sealed(*to))).collect(),
    };
    let source_row = ResealedRow {
        id: SealedRowId::Source(source.id),
        version: source.version,
        replaced: vec![(source.token.clone(), sealed(90))],
    };
    let given = [
        row(SealedRowId::Destination(first.id), first.version, &[(10, 50), (11, 51), (13, 53)]),
        row(SealedRowId::Destination(second.id), second.version, &[(20, 60)]),
        row(SealedRowId::Destination(DestinationId::at(at(0), chance())), 1, &[(1, 2)]),
        source_row,
    ];
    let reseal =
        async |rows: &[ResealedRow]| world.store.reseal_rows(account.id, rows, &audit_entry()).await.unwrap();
    let written = async || world.store.audit_records(Some(account.id), i64::MIN, 100).await.unwrap().len();
    let before = written().await;
    assert_eq!(reseal(&given).await, 2);
    assert_eq!(written().await, before + 1);

    let now = world.store.destination(account.id, first.id).await.unwrap();
    assert!(now.version > paused.version, "whoever has it in memory reads it again");
    assert_eq!(now.version, world.version(&account).await);
    let secrets = Secrets {
        current: sealed(50),
        previous: Some(Previous { secret: sealed(51), until: at(9) }),
        ..Secrets::default()
    };
    let auth = Auth::Headers { headers: vec![("x-a".into(), sealed(12)), ("x-b".into(), sealed(53))] };
    assert_eq!(now, Destination { secret: secrets, auth, version: now.version, ..first.clone() });
    assert_eq!(world.store.destination(account.id, second.id).await.unwrap(), paused);
    assert_eq!(world.store.source(account.id, source.id).await.unwrap().token, sealed(90));
    is_changed(world.store.update_destination(&first, &audit_entry()).await);

    let version = world.version(&account).await;
    assert_eq!(reseal(&given).await, 0, "once");
    assert_eq!((written().await, world.version(&account).await), (before + 1, version));
    let foreign = world.account().await;
    let rows = [row(SealedRowId::Destination(first.id), now.version, &[(50, 70)])];
    let refused = world.store.reseal_rows(foreign.id, &rows, &audit_entry()).await.unwrap();
    assert_eq!(refused, 0, "another account's row is none");
    let gone = world.store.reseal_rows(AccountId::at(at(0), chance()), &rows, &audit_entry()).await;
    assert!(matches!(gone, Err(StoreError::NotFound { what: "account" })), "{gone:?}");
    let ids: BTreeSet<_> = rows_of(&world, &account).await;
    assert_eq!(ids.len(), 3);
}

async fn rows_of(world: &World, account: &Account) -> BTreeSet<SealedRowId> {
    rows(world, account, None, 100).await.into_iter().map(|row| row.id).collect()
}

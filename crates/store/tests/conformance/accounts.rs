//! The installation, its accounts and their keys.

use crate::fixtures::*;
use domain::{
    account::{Account, AccountLimits, ApiKey, KeyKind, Quotas, Scope},
    id::{AccountId, ApiKeyId, DestinationId, RouteId, SourceId},
    testing::audit_entry,
};
use std::sync::Arc;
use store::{Page, StoreError};

// --- The installation ----------------------------------------------------------------------------------------------

pub(crate) async fn a_setting_keeps_its_first_value(world: World) {
    let first = [0, 1, 255];
    assert_eq!(world.store.setting_or_insert("pepper", &first).await.unwrap(), first);
    assert_eq!(world.store.setting_or_insert("pepper", b"later").await.unwrap(), first);
    assert_eq!(world.store.setting_or_insert("other", b"later").await.unwrap(), b"later");
}

// --- Accounts ------------------------------------------------------------------------------------------------------

pub(crate) async fn an_account_reads_back_as_it_was_created(world: World) {
    let mut given = account();
    (given.uid, given.name, given.retention_days) = (Some("acme".into()), "Ácme \"& Söhne\"".into(), 7);
    let created = world.store.create_account(&given, &audit_entry()).await.unwrap();
    given.version = 1;
    assert_eq!(created, given);
    assert_eq!(world.store.account(given.id).await.unwrap(), given);
    is_not_found(world.store.account(AccountId::at(at(0), chance())).await, "account");
}

pub(crate) async fn accounts_are_listed_newest_first(world: World) {
    let mut made = Vec::new();
    for _ in 0..5 {
        made.push(world.account().await.id);
    }
    let ids = |accounts: Vec<Account>| accounts.iter().map(|account| account.id).collect::<Vec<_>>();
    assert_eq!(ids(world.store.accounts(first(2)).await.unwrap()), [made[4], made[3]]);
    let page = Page { before: Some(made[3]), limit: 10 };
    assert_eq!(ids(world.store.accounts(page).await.unwrap()), [made[2], made[1], made[0]]);
    assert_eq!(world.store.first_account().await.unwrap().map(|account| account.id), Some(made[0]));
}

pub(crate) async fn an_empty_store_has_no_first_account(world: World) {
    assert_eq!(world.store.first_account().await.unwrap(), None);
}

pub(crate) async fn an_account_is_updated_only_over_the_version_it_was_read_with(world: World) {
    let read = world.account().await;
    let mut wanted = read.clone();
    (wanted.name, wanted.retention_days, wanted.updated_at) = ("Beta".into(), 3, at(5));
    let updated = world.store.update_account(&wanted, &audit_entry()).await.unwrap();
    assert!(updated.version > read.version);
    wanted.version = updated.version;
    assert_eq!(updated, wanted);
    assert_eq!(world.store.account(read.id).await.unwrap(), wanted);

    is_changed(world.store.update_account(&read, &audit_entry()).await);
    is_not_found(world.store.update_account(&account(), &audit_entry()).await, "account");
}

pub(crate) async fn an_accounts_uid_is_its_own(world: World) {
    let named = |uid: &str| Account { uid: Some(uid.into()), ..account() };
    let acme = world.store.create_account(&named("acme"), &audit_entry()).await.unwrap();
    is_taken(world.store.create_account(&named("acme"), &audit_entry()).await, "uid");
    let mut beta = world.store.create_account(&named("beta"), &audit_entry()).await.unwrap();
    beta.uid = acme.uid.clone();
    is_taken(world.store.update_account(&beta, &audit_entry()).await, "uid");
    world.store.update_account(&acme, &audit_entry()).await.expect("it may keep its own");
    world.account().await;
    world.account().await;
}

pub(crate) async fn there_are_never_more_accounts_than_may_be(world: World) {
    world.account().await;
    let named = |uid: &str| Account { uid: Some(uid.into()), ..account() };
    let store = Arc::new(world.store);
    let all = (0..8).map(|n| {
        let (store, new) = (store.clone(), named(&format!("n-{n}")));
        tokio::spawn(async move { store.create_account_within(3, &new, &audit_entry()).await })
    });
    let (mut made, mut full) = (0, 0);
    for one in all.collect::<Vec<_>>() {
        match one.await.expect("it ends") {
            Ok(_) => made += 1,
            Err(StoreError::Full { what: "accounts" }) => full += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!((made, full), (2, 6));
    assert_eq!(store.accounts(first(10)).await.unwrap().len(), 3);
    let full = store.create_account_within(3, &named("n-0"), &audit_entry()).await;
    assert!(matches!(full, Err(StoreError::Full { what: "accounts" })), "{full:?}");
    store
        .create_account(&account(), &audit_entry())
        .await
        .expect("who does not count makes one all the same");
}

pub(crate) async fn of_those_who_make_an_account_of_one_uid_at_once_one_does(world: World) {
    let store = Arc::new(world.store);
    let all = (0..8).map(|_| {
        let (store, new) = (store.clone(), Account { uid: Some("acme".into()), ..account() });
        tokio::spawn(async move { store.create_account_within(100, &new, &audit_entry()).await })
    });
    let mut made = 0;
    for one in all.collect::<Vec<_>>() {
        match one.await.expect("it ends") {
            Ok(_) => made += 1,
            taken => is_taken(taken, "uid"),
        }
    }
    assert_eq!(made, 1);
}

pub(crate) async fn an_account_has_no_more_than_its_quotas(world: World) {
    let quotas = Quotas { destinations: Some(2), routes: Some(1), ..Quotas::default() };
    let ours = Account { quotas, rate_limit: Some(7), ..account() };
    let mut ours = world.store.create_account(&ours, &audit_entry()).await.unwrap();
    assert_eq!(world.store.account(ours.id).await.unwrap().quotas, quotas);
    let limits = AccountLimits { rate_limit: Some(7), quotas };
    assert_eq!(world.store.changes(ours.id, 0).await.unwrap().limits, limits);
    let to = world.store.create_destination(&destination(&ours), &audit_entry()).await.unwrap();
    world.store.create_destination(&destination(&ours), &audit_entry()).await.unwrap();
    let full = world.store.create_destination(&destination(&ours), &audit_entry()).await;
    assert!(matches!(full, Err(StoreError::Full { what: "destinations" })), "{full:?}");
    world.store.create_route(&route(&to), &audit_entry()).await.unwrap();
    let full = world.store.create_route(&route(&to), &audit_entry()).await;
    assert!(matches!(full, Err(StoreError::Full { what: "routes" })), "{full:?}");

    let before = world.store.account(ours.id).await.unwrap().version;
    (ours.version, ours.quotas, ours.rate_limit) = (before, Quotas::default(), None);
    world.store.update_account(&ours, &audit_entry()).await.unwrap();
    world.store.create_destination(&destination(&ours), &audit_entry()).await.expect("there is room again");
    assert_eq!(world.store.changes(ours.id, before).await.unwrap().limits, AccountLimits::default());
}

pub(crate) async fn a_uid_leads_to_what_has_it_in_its_account(world: World) {
    let (ours, theirs) = (world.account().await, world.account().await);
    let uid = || Some("orders".to_owned());
    let store = &world.store;
    let from = domain::source::Source { uid: uid(), ..source(&ours) };
    let from = store.create_source(&from, &audit_entry()).await.unwrap();
    let to = domain::destination::Destination { uid: uid(), ..destination(&ours) };
    let to = store.create_destination(&to, &audit_entry()).await.unwrap();
    let by = domain::route::Route { uid: uid(), ..route(&to) };
    let by = store.create_route(&by, &audit_entry()).await.unwrap();
    let found = async |account, uid: &str| -> (Option<SourceId>, Option<DestinationId>, Option<RouteId>) {
        let source = store.source_by_uid(account, uid).await.unwrap();
        let destination = store.destination_by_uid(account, uid).await.unwrap();
        (source, destination, store.route_by_uid(account, uid).await.unwrap())
    };
    assert_eq!(found(ours.id, "orders").await, (Some(from.id), Some(to.id), Some(by.id)));
    assert_eq!(found(ours.id, "Orders").await, (None, None, None));
    assert_eq!(found(theirs.id, "orders").await, (None, None, None));
    store.delete_destination(ours.id, to.id, at(1), &audit_entry()).await.unwrap();
    assert_eq!(found(ours.id, "orders").await, (Some(from.id), None, None), "its routes went with it");
}

// --- API keys ------------------------------------------------------------------------------------------------------

pub(crate) async fn an_api_key_is_found_by_its_lookup(world: World) {
    let account = world.account().await;
    let given = api_key(Some(&account), "abcdefghijkl");
    world.store.create_api_key(&given, &audit_entry()).await.unwrap();
    assert!(world.store.api_key_by_lookup("abcdefghijkl").await.unwrap() == Some(given));
    assert!(world.store.api_key_by_lookup("ABCDEFGHIJKL").await.unwrap().is_none());
}

pub(crate) async fn a_lookup_is_taken_once(world: World) {
    let account = world.account().await;
    world.store.create_api_key(&api_key(Some(&account), "abcdefghijkl"), &audit_entry()).await.unwrap();
    is_taken(world.store.create_api_key(&api_key(None, "abcdefghijkl"), &audit_entry()).await, "lookup");
    is_not_found(
        world
            .store
            .create_api_key(&api_key(Some(&crate::fixtures::account()), "other"), &audit_entry())
            .await,
        "account",
    );
}

pub(crate) async fn api_keys_are_listed_by_account_and_operator_keys_apart(world: World) {
    let (ours, theirs) = (world.account().await, world.account().await);
    let made: Vec<_> = (0..4).map(|n| api_key(Some(&ours), &format!("ours-{n}"))).collect();
    let operator = api_key(None, "operator");
    for key in made.iter().chain([&operator, &api_key(Some(&theirs), "theirs")]) {
        world.store.create_api_key(key, &audit_entry()).await.unwrap();
    }
    let ids = |keys: Vec<ApiKey>| keys.iter().map(|key| key.id).collect::<Vec<_>>();
    assert_eq!(
        ids(world.store.api_keys(Some(ours.id), first(3)).await.unwrap()),
        [made[3].id, made[2].id, made[1].id]
    );
    let page = Page { before: Some(made[1].id), limit: 3 };
    assert_eq!(ids(world.store.api_keys(Some(ours.id), page).await.unwrap()), [made[0].id]);
    assert_eq!(ids(world.store.api_keys(None, first(10)).await.unwrap()), [operator.id]);
}

pub(crate) async fn keys_of_platforms_are_kept_with_those_of_operators(world: World) {
    let scopes = vec![Scope::IngestWrite, Scope::AccountsRead, Scope::AccountsWrite];
    let platform = ApiKey { kind: KeyKind::Platform, scopes, ..api_key(None, "platform") };
    for key in [&platform, &api_key(None, "operator")] {
        world.store.create_api_key(key, &audit_entry()).await.unwrap();
    }
    let found = world.store.api_key_by_lookup("platform").await.unwrap();
    assert!(found == Some(platform.clone()), "{found:?}");
    assert_eq!(world.store.api_keys(None, first(10)).await.unwrap().len(), 2);
    world.store.revoke_api_key(None, platform.id, at(1), &audit_entry()).await.unwrap();
    let found = world.store.api_key_by_lookup("platform").await.unwrap();
    assert_eq!(found.and_then(|key| key.revoked_at), Some(at(1)));
}

pub(crate) async fn revoking_twice_keeps_the_first_time(world: World) {
    let account = world.account().await;
    let key = api_key(Some(&account), "abcdefghijkl");
    world.store.create_api_key(&key, &audit_entry()).await.unwrap();
    world.store.revoke_api_key(Some(account.id), key.id, at(1), &audit_entry()).await.unwrap();
    world.store.revoke_api_key(Some(account.id), key.id, at(2), &audit_entry()).await.unwrap();
    let kept =
        world.store.api_key_by_lookup("abcdefghijkl").await.unwrap().expect("revoked, and still found");
    assert_eq!(kept.revoked_at, Some(at(1)));
}

pub(crate) async fn a_key_is_revoked_by_its_owner_only(world: World) {
    let (ours, theirs) = (world.account().await, world.account().await);
    let key = api_key(Some(&ours), "abcdefghijkl");
    world.store.create_api_key(&key, &audit_entry()).await.unwrap();
    let foreign =
        world.store.revoke_api_key(Some(theirs.id), key.id, at(1), &audit_entry()).await.unwrap_err();
    let random = world
        .store
        .revoke_api_key(Some(ours.id), ApiKeyId::at(at(0), chance()), at(1), &audit_entry())
        .await
        .unwrap_err();
    let operators = world.store.revoke_api_key(None, key.id, at(1), &audit_entry()).await.unwrap_err();
    assert_eq!(foreign.to_string(), random.to_string());
    assert_eq!(operators.to_string(), random.to_string());
    assert_eq!(world.store.api_key_by_lookup("abcdefghijkl").await.unwrap().unwrap().revoked_at, None);
}

pub(crate) async fn using_a_key_is_noted(world: World) {
    let account = world.account().await;
    let key = api_key(Some(&account), "abcdefghijkl");
    world.store.create_api_key(&key, &audit_entry()).await.unwrap();
    world.store.touch_api_key(key.id, at(7)).await.unwrap();
    assert_eq!(
        world.store.api_key_by_lookup("abcdefghijkl").await.unwrap().unwrap().last_used_at,
        Some(at(7))
    );
    world.store.touch_api_key(ApiKeyId::at(at(0), chance()), at(7)).await.expect("nothing to note");
}

pub(crate) async fn an_account_is_found_by_its_uid(world: World) {
    let mut named = account();
    named.uid = Some("customer-7".into());
    let named = world.store.create_account(&named, &audit_entry()).await.expect("an account");
    world.account().await;
    assert_eq!(world.store.account_by_uid("customer-7").await.expect("an answer"), Some(named.clone()));
    assert_eq!(world.store.account_by_uid("customer-8").await.expect("an answer"), None);
    let renamed = domain::account::Account { uid: Some("customer-8".into()), ..named };
    let renamed = world.store.update_account(&renamed, &audit_entry()).await.expect("an update");
    assert_eq!(world.store.account_by_uid("customer-7").await.expect("an answer"), None);
    assert_eq!(world.store.account_by_uid("customer-8").await.expect("an answer"), Some(renamed));
}

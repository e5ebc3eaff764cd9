//! The installation, its accounts and their keys.

use crate::fixtures::*;
use domain::{
    account::{Account, ApiKey},
    id::{AccountId, ApiKeyId},
    testing::audit_entry,
};
use store::Page;

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

//! Requests that sources did not believe.

use crate::{erasure::erase, fixtures::*};
use bytes::Bytes;
use domain::{
    id::{AccountId, SourceId},
    limits,
    refused_request::RefusedRequest,
    source::Source,
    testing::audit_entry,
    verification::RefusalReason,
};

fn refused(source: &Source, second: u64) -> RefusedRequest {
    RefusedRequest {
        source_id: source.id,
        account_id: source.account_id,
        at: at(second),
        reason: RefusalReason::WrongSignature,
        client: "192.0.2.7".parse().expect("an address"),
        headers: vec![("x-hub-signature-256".into(), "sha256=abc… (71 characters)".into())],
        body_bytes: 70_000,
        body: Bytes::from_static(&[0, 255, b'{']),
        sealed: None,
    }
}

/// One that is told to keep what it does not believe.
async fn keeping(world: &World) -> Source {
    let account = world.account().await;
    let source = Source { keep_refused: true, ..source(&account) };
    world.store.create_source(&source, &audit_entry()).await.unwrap()
}

async fn kept(world: &World, account: AccountId, source: SourceId) -> Vec<RefusedRequest> {
    world.store.refused_requests(account, source).await.unwrap()
}

pub(crate) async fn a_refused_request_reads_back_as_it_was_kept(world: World) {
    let source = keeping(&world).await;
    assert!(world.store.source(source.account_id, source.id).await.unwrap().keep_refused);
    let given = refused(&source, 1);
    world.store.keep_refused(&given).await.unwrap();
    world
        .store
        .keep_refused(&RefusedRequest { body: Bytes::new(), ..given.clone() })
        .await
        .expect("the first stays");
    assert_eq!(kept(&world, source.account_id, source.id).await, [given]);
    let other = keeping(&world).await;
    assert_eq!(kept(&world, other.account_id, source.id).await, []);
    assert_eq!(kept(&world, other.account_id, other.id).await, []);
}

pub(crate) async fn of_refused_requests_a_source_keeps_the_newest(world: World) {
    let (source, other) = (keeping(&world).await, keeping(&world).await);
    world.store.keep_refused(&refused(&other, 0)).await.unwrap();
    let seconds = 1..=limits::REFUSED_KEPT as u64 + 5;
    for second in seconds.clone() {
        world.store.keep_refused(&refused(&source, second)).await.unwrap();
    }
    world
        .store
        .keep_refused(&refused(&source, 0))
        .await
        .expect("older than all of them, it is none of the newest");
    let newest: Vec<RefusedRequest> =
        seconds.rev().take(limits::REFUSED_KEPT).map(|at| refused(&source, at)).collect();
    assert_eq!(kept(&world, source.account_id, source.id).await, newest);
    assert_eq!(kept(&world, other.account_id, other.id).await.len(), 1);
}

pub(crate) async fn of_a_source_that_is_gone_no_refused_request_is_kept(world: World) {
    let (source, other) = (keeping(&world).await, keeping(&world).await);
    world.store.keep_refused(&refused(&source, 1)).await.unwrap();
    let foreign = RefusedRequest { account_id: other.account_id, ..refused(&source, 2) };
    world.store.keep_refused(&foreign).await.unwrap();
    assert_eq!(kept(&world, other.account_id, source.id).await, []);
    assert_eq!(kept(&world, source.account_id, source.id).await.len(), 1);
    world.store.delete_source(source.account_id, source.id, at(3), &audit_entry()).await.unwrap();
    world.store.keep_refused(&refused(&source, 4)).await.unwrap();
    assert_eq!(kept(&world, source.account_id, source.id).await, []);
}

pub(crate) async fn a_source_that_keeps_none_any_more_forgets_them(world: World) {
    let source = keeping(&world).await;
    world.store.keep_refused(&refused(&source, 1)).await.unwrap();
    let renamed = Source { name: "Shop, once more".into(), ..source };
    let renamed = world.store.update_source(&renamed, &audit_entry()).await.unwrap();
    assert_eq!(kept(&world, renamed.account_id, renamed.id).await.len(), 1);
    let silent = Source { keep_refused: false, ..renamed };
    let silent = world.store.update_source(&silent, &audit_entry()).await.unwrap();
    assert_eq!(kept(&world, silent.account_id, silent.id).await, []);
}

pub(crate) async fn a_deleted_account_has_no_refused_requests(world: World) {
    let source = keeping(&world).await;
    world.store.keep_refused(&refused(&source, 1)).await.unwrap();
    world.store.delete_account(source.account_id, at(2), &audit_entry()).await.unwrap();
    erase(&world, source.account_id, 100).await;
    assert_eq!(kept(&world, source.account_id, source.id).await, []);
}

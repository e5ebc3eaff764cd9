//! Master keys and data keys are changed while everything goes on.

use crate::{
    on_every_store,
    world::{World, text},
};
use api::{
    data_keys::{DataKeyPlan, DataKeyRotation, DataKeyStep},
    master_keys::{MasterKeyUses, RotationError, RotationStep, rotate_some},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use domain::{
    account::Scope,
    destination::Destination,
    id::{DestinationId, NodeId},
    limits,
    member::Role,
    seal::MasterKeys,
    testing::{CountingDice, audit_entry},
    time::Clock as _,
};
use http::Method;
use serde_json::{Value, json};
use std::time::Duration;
use store::{NodeRecord, SealedRow, Store};

/// As the node of these worlds has them, and a new one before it.
fn both() -> MasterKeys {
    let key = |name: &str, byte: u8| format!("{name}:{}", STANDARD.encode([byte; 32]));
    MasterKeys::parse(&format!("{},{}", key("k2", 2), key("k1", 7))).expect("two keys")
}

/// A walk over everything; how much was wrapped anew, and whether it is done.
async fn walk(store: &dyn Store, keys: &MasterKeys) -> (usize, bool) {
    let (dice, mut after, mut rewrapped) = (CountingDice::default(), None, 0);
    loop {
        let step = rotate_some(store, keys, after, &dice, &audit_entry()).await.expect("a step");
        rewrapped += step.rewrapped;
        after = step.next;
        if after.is_none() {
            return (rewrapped, step.done);
        }
    }
}

async fn ask(world: &World, method: Method, path: &str, body: Option<Value>) -> Value {
    world.ask_as(&world.operator_key, method, path, body).await.expect(200)
}

async fn join(world: &World, name: &str, master_keys: &str) -> NodeId {
    let id = NodeId::at(world.clock.now(), u128::from(name.as_bytes()[0]));
    let record = NodeRecord {
        id,
        label: name.into(),
        proof: name.into(),
        version: "0.0.0".into(),
        role: Role::All,
        address: None,
        master_keys: master_keys.into(),
    };
    world.store.join(&record, Duration::from_secs(3600)).await.expect("a node joins");
    id
}

/// Everything that is sealed of the first account.
async fn rows(world: &World) -> Vec<SealedRow> {
    world.store.sealed_rows(world.account, None, 1_000).await.expect("rows")
}

async fn step(world: &World, older_than: Option<Duration>) -> DataKeyStep {
    let entry = |_| audit_entry();
    let rotation = DataKeyRotation {
        store: &*world.store,
        master: world.secrets.master(),
        dice: &*world.dice,
        entry: &entry,
    };
    let plan = DataKeyPlan { now: world.clock.now(), after: None, older_than };
    rotation.step(&plan).await.expect("a step")
}

on_every_store! {
    async fn everything_is_sealed_by_the_new_master_key_and_stays_what_it_was(world) {
        let destination = world.destination().await;
        let path = format!("/v1/destinations/{destination}/secret");
        let before = world.get(&path).await.expect(200);
        // More than a step takes.
        for number in 0..limits::RESEALED_AT_ONCE {
            let account = json!({ "name": number.to_string() });
            world.ask_as(&world.operator_key, Method::POST, "/v1/accounts", Some(account)).await.expect(201);
        }
        let keys = both();
        let first = rotate_some(&*world.store, &keys, None, &CountingDice::default(), &audit_entry()).await.unwrap();
        assert_eq!((first.rewrapped, first.done), (limits::RESEALED_AT_ONCE, false));
        assert!(first.next.is_some());

        // Broken off, and begun again: what is done is not done again.
        let left = 2 + 1;
        assert_eq!(walk(&*world.store, &keys).await, (left, true), "two accounts and the pepper");
        let uses = MasterKeyUses::count(&*world.store).await.unwrap();
        assert_eq!(uses.by_key.into_iter().collect::<Vec<_>>(), [("k2".to_owned(), limits::RESEALED_AT_ONCE as u64 + 3)]);
        assert_eq!(walk(&*world.store, &keys).await, (0, true));
        assert_eq!(world.get(&path).await.expect(200), before, "data keys are what they were");
    }

    async fn a_node_that_would_not_understand_stands_in_the_way(world) {
        for (name, keys, why) in [
            ("old", "", "is of a version that does not tell its master keys"),
            ("other", "k9", "does not know the master key `k1`"),
            ("later", "k2,k1", "seals by the master key `k2`"),
        ] {
            let id = join(&world, name, keys).await;
            for path in ["/v1/master-keys/rotate", "/v1/data-keys/rotate"] {
                let refused = world.ask_as(&world.operator_key, Method::POST, path, None).await;
                let problem = refused.expect(409);
                assert_eq!(problem["code"], "not_rotated");
                let detail = text(&problem["detail"]);
                assert!(detail.contains(why) && detail.contains(name), "{detail}");
            }
            world.store.leave(id).await.unwrap();
            // On an embedded store the one before is gone since.
            join(&world, "test", "k1").await;
        }
        ask(&world, Method::POST, "/v1/master-keys/rotate", None).await;
    }

    async fn an_operator_sees_which_master_keys_are_needed(world) {
        world.store.setting_or_insert("master_key:k0", b"proof").await.unwrap();
        let listed = ask(&world, Method::GET, "/v1/master-keys", None).await;
        assert_eq!(listed["keys"], json!([
            { "name": "k1", "active": true, "configured": true, "sealed_count": 3, "needed": true },
            { "name": "k0", "active": false, "configured": false, "sealed_count": 0, "needed": true },
        ]));
        let done = ask(&world, Method::POST, "/v1/master-keys/rotate", Some(json!({ "after": null }))).await;
        assert_eq!(done, json!({ "master_key": "k1", "resealed_count": 0, "next": null, "done": true }));
        let listed = ask(&world, Method::GET, "/v1/master-keys", None).await;
        assert_eq!(listed["keys"].as_array().map(Vec::len), Some(1), "nothing is sealed by the other: it is forgotten");

        let key = world.key_with(&Scope::OF_ACCOUNT).await;
        for (method, path) in [
            (Method::GET, "/v1/master-keys"),
            (Method::POST, "/v1/master-keys/rotate"),
            (Method::POST, "/v1/data-keys/rotate"),
        ] {
            world.ask_as(&key, method, path, None).await.expect_problem(403, "scope_missing");
        }
    }

    async fn a_data_key_that_does_not_open_is_named_and_nothing_is_called_done(world) {
        let keys = MasterKeys::parse(&format!("k2:{}", STANDARD.encode([2; 32]))).unwrap();
        let refused = rotate_some(&*world.store, &keys, None, &CountingDice::default(), &audit_entry()).await;
        match refused {
            Err(RotationError::DataKey { account_id, why }) => {
                assert_eq!(account_id, world.account);
                assert!(why.to_string().contains("`k1`"), "{why}");
            }
            other => panic!("{other:?}"),
        }
    }

    async fn accounts_get_new_data_keys_and_lose_the_old_ones_when_nobody_uses_them(world) {
        let mut revealed = Vec::new();
        for auth in [json!({ "type": "none" }), json!({ "type": "bearer", "token": "t0ken" })] {
            let body = json!({ "name": "Orders", "url": "https://example.com/hooks", "auth": auth });
            let id = text(&world.post("/v1/destinations", body).await.expect(201)["id"]);
            revealed.push(format!("/v1/destinations/{id}/secret"));
        }
        let source = text(&world.post("/v1/sources", json!({ "name": "Shop" })).await.expect(201)["id"]);
        revealed.push(format!("/v1/sources/{source}/ingest-url"));
        let told = async || {
            let mut told = Vec::new();
            for path in &revealed {
                told.push(world.get(path).await.expect(200));
            }
            told
        };
        let (before, sealed_before) = (told().await, rows(&world).await);

        assert_eq!(step(&world, Some(limits::DATA_KEY_YOUNG)).await, DataKeyStep::default(), "they are young");
        let begun = step(&world, Some(Duration::ZERO)).await;
        assert_eq!((begun.begun, begun.resealed, begun.ended, begun.waiting), (2, 3, 0, 2));
        assert!(begun.wait > Duration::ZERO && begun.wait <= limits::DATA_KEY_SETTLED);
        assert_eq!(told().await, before, "a node that has the old keys in memory reads them again");
        for (then, now) in sealed_before.iter().zip(rows(&world).await) {
            for ((place, old), (same_place, new)) in then.sealed.iter().flatten().zip(now.sealed.iter().flatten()) {
                assert_eq!(place, same_place);
                assert!(old != new && new.0[0] == 2, "{place} is sealed by the second key");
            }
        }

        // Somebody who has not heard of it: sealed by the first key, after the walk.
        let late: DestinationId = revealed[0].split('/').nth(3).unwrap().parse().unwrap();
        let mut row = world.store.destination(world.account, late).await.unwrap();
        let SealedRow { sealed: Some(old), .. } = &sealed_before[0] else { panic!("it reads") };
        row.secret.current = old[0].1.clone();
        world.store.update_destination(&row, &audit_entry()).await.unwrap();

        world.clock.minutes_pass(3);
        let ended = step(&world, Some(Duration::ZERO)).await;
        assert_eq!((ended.begun, ended.resealed, ended.ended, ended.waiting), (0, 1, 2, 0));
        assert_eq!(told().await, before);
        let wrapped = world.store.account(world.account).await.unwrap().data_key;
        let key = world.secrets.master().data_key(world.account, &wrapped).unwrap();
        assert!(!key.has_older() && key.open(&Destination::secret_place(late), &old[0].1).is_err());

        // And once more, with numbers that grow.
        let again = step(&world, Some(Duration::ZERO)).await;
        assert_eq!((again.begun, again.resealed), (2, 3));
        assert_eq!(told().await, before);
    }

    async fn what_does_not_open_keeps_the_old_key(world) {
        let destination: DestinationId = world.destination().await.parse().unwrap();
        let mut row = world.store.destination(world.account, destination).await.unwrap();
        row.secret.current.0.reverse();
        row.secret.current.0[0] = 1;
        world.store.update_destination(&row, &audit_entry()).await.unwrap();
        step(&world, Some(Duration::ZERO)).await;
        world.clock.minutes_pass(3);
        let left = step(&world, None).await;
        assert_eq!((left.unreadable, left.waiting, left.ended, left.wait), (1, 1, 1, Duration::ZERO));
    }

    async fn data_keys_are_changed_step_by_step_by_whoever_asks(world) {
        let done = ask(&world, Method::POST, "/v1/data-keys/rotate", None).await;
        assert_eq!(done["begun_count"], 0, "young ones are left alone");
        let body = json!({ "older_than_seconds": 0 });
        let done = ask(&world, Method::POST, "/v1/data-keys/rotate", Some(body)).await;
        assert_eq!((&done["begun_count"], &done["waiting_count"], &done["next"]), (&json!(2), &json!(2), &json!(null)));
        assert!(done["wait_seconds"].as_u64().is_some_and(|wait| (1..=180).contains(&wait)), "{done}");
        let written = world.store.audit_records(None, i64::MIN, 1_000).await.unwrap();
        let written = written.iter().filter(|record| record.entry.action == "rotate_data_keys").count();
        assert_eq!(written, 2, "one entry for each account");
    }
}

#[tokio::test]
async fn a_step_does_not_call_done_what_somebody_else_is_still_at() {
    let (world, store) = World::forgetful().await;
    let keys = both();
    store.interrupt(|call| match call {
        "replace_data_keys" => Err(store::StoreError::Unavailable("away".into())),
        _ => Ok(()),
    });
    let failed = rotate_some(&*world.store, &keys, None, &CountingDice::default(), &audit_entry()).await;
    assert!(matches!(failed, Err(RotationError::Store(_))), "{failed:?}");
    store.interrupt(|_| Ok(()));
    assert_eq!(MasterKeyUses::count(&*world.store).await.unwrap().beside("k2"), 3, "nothing was half done");
    let step =
        rotate_some(&*world.store, &keys, None, &CountingDice::default(), &audit_entry()).await.unwrap();
    assert_eq!(step, RotationStep { rewrapped: 3, next: None, done: true });
}

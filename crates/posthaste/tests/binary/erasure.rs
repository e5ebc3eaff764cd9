//! An account is deleted while its receiver hangs, and the node is killed in the middle: nothing of it is left.

use crate::node::{Database, LONG, Place, deliver_to};
use client::{ApiKeyInput, Client, NewAccount, Publish};
use lab::{Receiver, Reply};
use serde_json::Value;
use std::time::Duration;
use tokio::time::{sleep, timeout};

const EVENTS: usize = 300;

#[tokio::test]
async fn an_account_is_erased_though_the_node_is_killed_on_sqlite() {
    an_account_is_erased_though_the_node_is_killed(Database::Sqlite).await;
}

#[tokio::test]
async fn an_account_is_erased_though_the_node_is_killed_on_postgres() {
    an_account_is_erased_though_the_node_is_killed(Database::Postgres).await;
}

async fn an_account_is_erased_though_the_node_is_killed(database: Database) {
    let place = Place::on(database);
    place.dev().await.kill().await;
    let operator = place.line(&["keys", "create", "--operator"]).await;
    let node = place.dev().await;
    let as_operator = |url: &str| Client::new(url, &operator).expect("a client");
    let admin = as_operator(&node.url);
    let account = admin.create_account(&NewAccount::new("Acme")).await.expect("an account").id;
    let key = ApiKeyInput { name: "ci".into(), account_id: Some(account), ..ApiKeyInput::default() };
    let key = admin.create_api_key(&key).await.expect("a key").key;
    let client = Client::new(&node.url, &key).expect("a client");

    let receiver = Receiver::local(Reply::ok().after(Duration::from_secs(120)));
    deliver_to(&client, &receiver.url("/hook")).await;
    for n in 0..EVENTS {
        client
            .publish(&Publish::json("order.paid", format!("{{\"n\":{n}}}")).unwrap())
            .await
            .expect("accepted");
    }
    timeout(LONG, async {
        while receiver.total() == 0 {
            sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .expect("a request hangs");

    admin.delete_account(account).await.expect("it is deleted");
    let refused = client.publish(&Publish::json("order.paid", "{}".to_owned()).unwrap()).await;
    assert!(refused.is_err(), "its keys are dead");
    timeout(LONG, async {
        while admin.account(account).await.expect("its tombstone").erasure.expect("it").erased_rows == 0 {
            sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("it has begun");
    node.kill().await;

    let node = place.dev().await;
    let admin = as_operator(&node.url);
    let ended = timeout(LONG, async {
        loop {
            let erasure = admin.account(account).await.expect("its tombstone").erasure.expect("it");
            if erasure.finished_at.is_some() {
                return erasure;
            }
            sleep(Duration::from_millis(100)).await;
        }
    });
    let ended = ended.await.expect("it goes on and ends");
    assert!(ended.phase.is_none() && ended.erased_rows >= EVENTS as u64, "{ended:?}");
    let told: Value = serde_json::from_str(&place.line(&["audit", "verify", "--json"]).await).unwrap();
    assert_eq!(told["ok"], true, "its log is there, and holds: {told}");
    drop(node);
    let rows = place.rows_of(account).await;
    for (table, rows) in rows {
        let stays = ["audit_chains", "audit_entries", "erasures"].contains(&table.as_str());
        assert!(stays || rows == 0, "{rows} rows of {table} are left");
    }
}

//! What the upgrade makes of the dead letters of the version before.

use super::{connect, drop_schema};
use crate::migrations;
use domain::{id::DeliveryId, time::Timestamp};
use tokio_postgres::Client;
use uuid::Uuid;

const DAY: i64 = 86_400_000_000;
const NOW: i64 = 1_790_000_000_000_000;

fn delivery(at: i64, n: u128) -> Uuid {
    DeliveryId::at(Timestamp::from_micros(at), n << 16).uuid()
}

/// An ending after one attempt.
async fn ended(client: &Client, id: Uuid, origin: Uuid, ended_at: i64, outcome: &str, reason: Option<&str>) {
    let ending = if reason.is_some() { "dead_letter" } else { "delivered" };
    let replay = (id != origin).then(Uuid::nil);
    client
        .execute(
            "insert into attempts (delivery_id, attempt_id, account_id, event_id, destination_id, route_id, replay_id,
                 origin, number, attempts, spent, started_at, duration_us, outcome, http_status, detail, node_id,
                 ending, reason, ended_at, late)
             values ($1, gen_random_uuid(), $2, $3, $2, $2, $4, $3, 1, 1, 0, 1, 1, $5, 404, '', $2, $6, $7, $8, false)",
            &[&id, &Uuid::nil(), &origin, &replay, &outcome, &ending, &reason, &ended_at],
        )
        .await
        .expect("a fact");
}

#[tokio::test]
async fn the_upgrade_counts_by_day_and_outcome_and_settles_what_was_delivered_again() {
    let schema = format!("t_{:x}", rand::random::<u128>());
    let client = connect(&schema).await;
    client.batch_execute(&format!("create schema {schema}")).await.expect("a schema");
    for migration in &migrations::POSTGRES[..7] {
        client.batch_execute(&migration.script()).await.expect("a migration");
    }
    let (replayed, open, later) = (delivery(NOW, 1), delivery(NOW, 2), delivery(NOW + DAY, 3));
    for id in [replayed, open, later] {
        ended(&client, id, id, NOW + 1, "rejected", Some("rejected")).await;
    }
    let timed_out = delivery(NOW, 4);
    ended(&client, timed_out, timed_out, NOW + 2, "timeout", Some("rejected")).await;
    let again = delivery(NOW + 7, 5);
    ended(&client, again, replayed, NOW + 9, "success", None).await;
    let made = "insert into replayed (replay_id, origin, delivery_id) values ($1, $2, $3)";
    client.execute(made, &[&Uuid::nil(), &replayed, &again]).await.expect("what a replay has made");
    client.batch_execute(&migrations::POSTGRES[7].script()).await.expect("the migration");

    let sql = "select delivery_id, resolved_at, delivered_by from settled_dead_letters";
    let settled = client.query_one(sql, &[]).await.expect("one row");
    assert_eq!((settled.get(0), settled.get(1), settled.get(2)), (replayed, NOW + 9, again));
    let counts = async || {
        let sql = "select outcome, day, count, oldest, newest from dead_letter_counts order by day, outcome";
        let rows = client.query(sql, &[]).await.expect("counts");
        let row = |row: &tokio_postgres::Row| {
            (row.get::<_, String>(0), row.get::<_, i32>(1), row.get::<_, i64>(2), row.get(3), row.get(4))
        };
        rows.iter().map(row).collect::<Vec<(String, i32, i64, Uuid, Uuid)>>()
    };
    let day = i32::try_from(NOW / DAY).expect("a day");
    let expected = [
        ("rejected".into(), day, 1, open, open),
        ("timeout".into(), day, 1, timed_out, timed_out),
        ("rejected".into(), day + 1, 1, later, later),
    ];
    assert_eq!(counts().await, expected);
    // What goes is subtracted where it is counted, and nowhere else.
    let going: &[Uuid] = &[replayed, timed_out];
    client.execute("delete from attempts where delivery_id = any($1)", &[&going]).await.expect("they go");
    assert_eq!(counts().await, [expected[0].clone(), expected[2].clone()]);
    let left = client.query_one("select count(*) from settled_dead_letters", &[]).await.expect("a count");
    assert_eq!(left.get::<_, i64>(0), 0);
    drop_schema(&schema).await;
}

//! What the upgrade makes of the dead letters of the version before, and what the counts do with many that are settled.

use crate::migrations;
use domain::{
    id::{AccountId, AttemptId, DeliveryId, DestinationId, EventId, ReplayId},
    time::Timestamp,
};
use rusqlite::{Connection, params};

const DAY: i64 = 86_400_000_000;
const NOW: i64 = 1_790_000_000_000_000;

fn delivery(at: i64, n: u128) -> DeliveryId {
    DeliveryId::at(Timestamp::from_micros(at), n << 16)
}

/// The tables of so many migrations.
fn tables(count: usize) -> Connection {
    let connection = Connection::open_in_memory().expect("a store");
    migrate(&connection, 0..count);
    connection
}

fn migrate(connection: &Connection, which: std::ops::Range<usize>) {
    for migration in &migrations::SQLITE[which] {
        connection.execute_batch(&migration.script()).expect("a migration");
    }
}

struct FactRow<'a> {
    id: DeliveryId,
    origin: Option<DeliveryId>,
    number: Option<u32>,
    outcome: Option<&'a str>,
    http_status: Option<u16>,
    ending: Option<(&'a str, Option<&'a str>)>,
    ended_at: i64,
}

fn write(connection: &Connection, fact: FactRow<'_>) {
    let event = fact.origin.unwrap_or(fact.id).bytes().to_vec();
    let tried = fact.number.map(|_| 1_i64);
    connection
        .execute(
            "insert into attempts (delivery_id, attempt_id, account_id, event_id, destination_id, route_id, replay_id,
                 origin, number, spent, started_at, duration_us, outcome, http_status, ending, reason, ended_at, late,
                 detail)
             values (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?, ?, ?, ?, ?, 0, ?)",
            params![
                fact.id.bytes(),
                AttemptId::at(Timestamp::from_micros(fact.ended_at), fact.number.unwrap_or(9).into()).bytes(),
                AccountId::MIN.bytes(),
                event,
                DestinationId::MIN.bytes(),
                DestinationId::MIN.bytes(),
                fact.origin.map(|_| *ReplayId::MIN.bytes()),
                fact.origin.map_or(Vec::new(), |id| id.bytes().to_vec()),
                fact.number,
                tried,
                tried,
                fact.outcome,
                fact.http_status,
                fact.ending.map(|(ending, _)| ending),
                fact.ending.and_then(|(_, reason)| reason),
                fact.ending.map(|_| fact.ended_at),
                tried.map(|_| "{}"),
            ],
        )
        .expect("a fact");
}

fn rejected(id: DeliveryId) -> FactRow<'static> {
    FactRow {
        id,
        origin: None,
        number: Some(1),
        outcome: Some("rejected"),
        http_status: Some(404),
        ending: Some(("dead_letter", Some("rejected"))),
        ended_at: NOW + 1,
    }
}

type Counted = (String, u16, String, i64, u32, Vec<u8>, Vec<u8>);

fn counts(connection: &Connection) -> Vec<Counted> {
    let sql = "select reason, http_status, outcome, day, count, oldest, newest from dead_letter_counts";
    let mut select = connection.prepare(sql).expect("counts");
    let rows = select.query_map([], |row| {
        let key = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok((key.0, key.1, key.2, row.get(3)?, row.get(4)?, row.get(5)?, row.get(6)?))
    });
    rows.expect("rows").map(|row| row.expect("a row")).collect()
}

#[test]
fn the_upgrade_counts_by_day_and_outcome_and_settles_what_was_delivered_again() {
    let connection = tables(7);
    let (replayed, open, later) = (delivery(NOW, 1), delivery(NOW, 2), delivery(NOW + DAY, 3));
    for id in [replayed, open, later] {
        write(&connection, rejected(id));
    }
    let expired = delivery(NOW, 4);
    let first =
        FactRow { outcome: Some("server_error"), http_status: Some(503), ending: None, ..rejected(expired) };
    write(&connection, first);
    let end = FactRow { number: None, outcome: None, http_status: Some(503), ..rejected(expired) };
    write(&connection, FactRow { ending: Some(("dead_letter", Some("expired"))), ended_at: NOW + 5, ..end });
    let again = delivery(NOW + 7, 5);
    let made = FactRow {
        origin: Some(replayed),
        outcome: Some("success"),
        http_status: Some(200),
        ..rejected(again)
    };
    write(&connection, FactRow { ending: Some(("delivered", None)), ended_at: NOW + 9, ..made });
    connection
        .execute(
            "insert into replayed (replay_id, origin, delivery_id) values (?, ?, ?)",
            params![ReplayId::MIN.bytes(), replayed.bytes(), again.bytes()],
        )
        .expect("what a replay has made");
    migrate(&connection, 7..8);

    let sql = "select delivery_id, resolved_at, delivered_by from settled_dead_letters";
    let settled: (Vec<u8>, i64, Vec<u8>) =
        connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).expect("one row");
    assert_eq!(settled, (replayed.bytes().to_vec(), NOW + 9, again.bytes().to_vec()));
    let (day, bytes) = (NOW / DAY, |id: DeliveryId| id.bytes().to_vec());
    let expected = [
        ("expired".into(), 503, "server_error".into(), day, 1, bytes(expired), bytes(expired)),
        ("rejected".into(), 404, "rejected".into(), day, 1, bytes(open), bytes(open)),
        ("rejected".into(), 404, "rejected".into(), day + 1, 1, bytes(later), bytes(later)),
    ];
    assert_eq!(counts(&connection), expected);
    // What goes is subtracted where it is counted, and nowhere else.
    for id in [expired, replayed] {
        for ending in ["and ending is not null", ""] {
            let delete = format!("delete from attempts where delivery_id = ? {ending}");
            connection.execute(&delete, [id.bytes()]).expect("it goes");
        }
    }
    assert_eq!(counts(&connection), expected[1..]);
    let left: i64 = connection
        .query_row("select count(*) from settled_dead_letters", [], |row| row.get(0))
        .expect("a count");
    assert_eq!(left, 0);
}

/// A thousand are looked at for the oldest that is left; beyond, it is found in steps and never wrong for good.
#[test]
fn the_oldest_that_is_left_is_found_behind_many_that_are_settled() {
    let connection = tables(8);
    let ids: Vec<DeliveryId> = (1..=2_500).map(|n| delivery(NOW, n)).collect();
    for id in &ids {
        write(&connection, rejected(*id));
    }
    connection
        .execute(
            "insert into dead_letter_counts values (?, ?, 'rejected', 404, 'rejected', ?, ?, ?, ?)",
            params![
                AccountId::MIN.bytes(),
                DestinationId::MIN.bytes(),
                NOW / DAY,
                ids.len() as u32,
                ids[0].bytes(),
                ids[ids.len() - 1].bytes()
            ],
        )
        .expect("counted");
    let settle = |id: DeliveryId| {
        connection
            .execute(
                "insert into settled_dead_letters (delivery_id, account_id, resolved_at, delivered_by)
                 values (?1, ?2, 1, ?1)",
                params![id.bytes(), AccountId::MIN.bytes()],
            )
            .expect("settled");
    };
    // From the second on, so that the first finds them all in its way.
    ids[1..2_200].iter().for_each(|id| settle(*id));
    let oldest = || {
        (counts(&connection)[0].4, EventId::from_bytes(counts(&connection)[0].5.clone().try_into().unwrap()))
    };
    assert_eq!(oldest(), (301, EventId::from_bytes(*ids[0].bytes())));
    settle(ids[0]);
    assert_eq!(oldest(), (300, EventId::from_bytes(*ids[1_000].bytes())), "as far as it was looked");
    settle(ids[2_499]);
    assert_eq!(counts(&connection)[0].6, ids[2_498].bytes());
    assert_eq!(counts(&connection)[0].4, 299);
}

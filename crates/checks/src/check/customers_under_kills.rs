//! Hazard: a platform acts for many customers while nodes die, and an event gets to another customer's destination, is lost or
//! comes twice; or of a customer that was deleted meanwhile something is left, or still goes out.
//!
//! Twenty-four customers (`--count`), each made by its own first event with the platform's one key. Each has a destination and
//! a route, made by its uid, and gets events in batches, on every node in turn (on PostgreSQL there are three), while every two
//! seconds one is killed (SIGKILL) and started again. Half way through, every third customer is deleted, and its events go on
//! being sent.
//!
//! Holds if every event that was accepted of a customer that stays has one delivery, which arrived at this customer's
//! destination and at no other; if repeats are only what a kill cut off; if events for a deleted customer are refused with 404
//! and nothing arrives for it once its deletion is old; and if in the end no table has a row of it but for those that are kept.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use client::{AcceptedStatus, ApiKeyInput, BatchResult, Client, NewRoute};
use domain::{
    account::KeyKind,
    id::{AccountId, EventId},
};
use lab::RequestEnd;
use tokio::sync::Mutex;

use crate::harness::{prelude::*, testbed::OPERATOR_KEY};

const BATCH: usize = 10;
const KILL_EVERY: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(120);
/// Two leases and some: whatever was under way at the deletion has ended, and nothing more is begun.
const OLD: Duration = Duration::from_secs(25);
/// What stays of a deleted customer: that it was, how far it is erased, and what was done.
const KEPT: [&str; 4] = ["accounts", "erasures", "audit_entries", "audit_chains"];

struct Customer {
    uid: String,
    id: AccountId,
    /// Deleted half way through.
    leaves: bool,
}

impl Customer {
    fn destination(&self) -> String {
        format!("of-{}", self.uid)
    }
}

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let mut testbed = TestbedPlan::of_several(options)?.start_balanced().await?;
    let key = platform_key(&testbed).await?;
    let mut customers = Vec::new();
    for n in 0..options.count(24) {
        customers.push(begin(&testbed, &key, n).await?);
    }
    let customers = Arc::new(customers);
    let accepted = Arc::new(Mutex::new(HashMap::<usize, HashSet<EventId>>::new()));
    let refused = Arc::new(Mutex::new(HashMap::<String, u64>::new()));

    let urls: Vec<String> = testbed.nodes.iter().map(|node| node.base_url()).collect();
    let span = options.seconds(30);
    let producers: Vec<_> = (0..customers.len())
        .map(|at| {
            let (customers, key, urls) = (customers.clone(), key.clone(), urls.clone());
            let (accepted, refused) = (accepted.clone(), refused.clone());
            tokio::spawn(
                async move { produce(&customers[at], at, &key, &urls, span, &accepted, &refused).await },
            )
        })
        .collect();

    let (began, mut kills, mut deleted_at_us) = (Instant::now(), 0_usize, None);
    while began.elapsed() < span {
        sleep(KILL_EVERY).await;
        let at = kills % testbed.nodes.len();
        testbed.kill_node(at).await?;
        testbed.start_node(at).await?;
        kills += 1;
        if deleted_at_us.is_none() && began.elapsed() > span / 2 {
            let platform = Client::new(&testbed.base_url(), &key)?;
            for customer in customers.iter().filter(|customer| customer.leaves) {
                platform.delete_account(customer.id).await?;
            }
            deleted_at_us = Some(testbed.receiver.now_us());
        }
    }
    for producer in producers {
        producer.await??;
    }
    report.note("kills", kills);
    let deleted_at_us = deleted_at_us.context("no customer was deleted")?;
    testbed.must_drain(PATIENCE, report).await?;
    erased(&testbed, &key, &customers, report).await?;

    let accepted = accepted.lock().await;
    let (mut events, mut lost, mut strangers, mut late) = (0_u64, 0_u64, 0_u64, 0_u64);
    let (mut arrived, mut repeats) = (0_u64, 0_u64);
    for (at, customer) in customers.iter().enumerate() {
        let records = testbed.receiver.records(&customer.destination());
        let own: HashSet<Arc<str>> =
            accepted.get(&at).into_iter().flatten().map(|id| id.to_string().into()).collect();
        let got: Vec<&Record> =
            records.iter().filter(|record| matches!(record.end, RequestEnd::Answered(200))).collect();
        let distinct: HashSet<&Arc<str>> = got.iter().map(|record| &record.event_id).collect();
        if customer.leaves {
            let old_us = deleted_at_us + OLD.as_micros() as u64;
            late += records.iter().filter(|record| record.start_us > old_us).count() as u64;
            continue;
        }
        events += own.len() as u64;
        lost += own.iter().filter(|id| !distinct.contains(id)).count() as u64;
        arrived += distinct.len() as u64;
        repeats += (got.len() - distinct.len()) as u64;
        // An event whose 202 was cut off by a kill is the customer's own as well.
        let known = customer_of(&testbed, &distinct).await?;
        strangers += distinct.iter().filter(|id| known.get(**id) != Some(&customer.id)).count() as u64;
    }
    report.note("events", events);
    report.note("arrived", arrived);
    report.must(events > 0, "nothing was accepted");
    report.must_be("lost", lost, 0);
    report.must_be("of_another_customer", strangers, 0);
    report.must_be("sent_long_after_the_deletion", late, 0);
    // Open at a kill, on one node: what its lanes had in flight.
    report.must_be_at_most("repeats", repeats as f64, (kills * customers.len() * 5) as f64);
    let refused = refused.lock().await;
    report.note("refused", json!(*refused));
    report.must(
        refused.get("404 not_found").is_some_and(|count| *count > 0),
        "events of a deleted customer were not refused",
    );
    TableAudit::of(&testbed.database).await?.must_hold(report);
    testbed.tear_down().await
}

async fn platform_key(testbed: &Testbed) -> Result<String> {
    let operator = Client::new(&testbed.base_url(), OPERATOR_KEY)?;
    let plan =
        ApiKeyInput { name: "platform".into(), kind: Some(KeyKind::Platform), ..ApiKeyInput::default() };
    Ok(operator.create_api_key(&plan).await?.key)
}

/// The customer's first event makes it; then it has a way for the others.
async fn begin(testbed: &Testbed, key: &str, n: u64) -> Result<Customer> {
    let uid = format!("customer-{n}");
    let client = Client::new(&testbed.base_url(), key)?.acting_for(&uid)?;
    let first = client.publish_to_new_account(&Publish::json("order.paid", "{}")?).await?;
    ensure!(first.status == AcceptedStatus::Unmatched, "the first event went somewhere");
    let customer = Customer { uid, id: client.own_account().await?.id, leaves: n % 3 == 2 };
    let plan = testbed.destination_with_slots(&customer.destination(), 5);
    let destination = client.create_destination(&plan).await?;
    client.create_route(&NewRoute::to(destination.id)).await?;
    Ok(customer)
}

/// Sends batches to one node after the other, whatever is answered.
async fn produce(
    customer: &Customer,
    at: usize,
    key: &str,
    urls: &[String],
    span: Duration,
    accepted: &Mutex<HashMap<usize, HashSet<EventId>>>,
    refused: &Mutex<HashMap<String, u64>>,
) -> Result<()> {
    let clients: Result<Vec<Client>, _> =
        urls.iter().map(|url| Client::new(url, key)?.acting_for(&customer.uid)).collect();
    let clients = clients?;
    let began = Instant::now();
    for batch in 0_usize.. {
        if began.elapsed() > span {
            break;
        }
        let events: Result<Vec<Publish>, _> = (0..BATCH)
            .map(|n| {
                let event = Publish::json("order.paid", json!({ "customer": customer.uid }).to_string())?;
                Ok::<_, client::NotJson>(event.with_key(format!("{batch}-{n}")))
            })
            .collect();
        match clients[batch % clients.len()].publish_batch(&events?).await {
            Ok(results) => {
                let ids = results.iter().filter_map(|result| match result {
                    BatchResult::Accepted(told) => Some(told.id),
                    BatchResult::Refused { .. } => None,
                });
                accepted.lock().await.entry(at).or_default().extend(ids);
            }
            Err(error) => {
                let told = error.problem().map(|problem| format!("{} {}", problem.status, problem.code));
                *refused.lock().await.entry(told.unwrap_or_else(|| "not reached".into())).or_default() += 1;
            }
        }
        sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}

/// Whose these events are, by the table.
async fn customer_of(testbed: &Testbed, events: &HashSet<&Arc<str>>) -> Result<HashMap<Arc<str>, AccountId>> {
    let mut known = HashMap::new();
    let all: Vec<&&Arc<str>> = events.iter().collect();
    for some in all.chunks(500) {
        let mut ids = Vec::new();
        for id in some {
            let id: EventId = id.parse().ok().context("an id that is none")?;
            ids.push(testbed.database.literal(id.bytes()));
        }
        let sql = format!("select id, account_id from events where id in ({})", ids.join(", "));
        for row in testbed.database.rows(&sql).await? {
            if let [event, account] = row.as_slice()
                && let (Some(event), Some(account)) = (event.id(), account.id())
            {
                let event = EventId::from_bytes(event).to_string();
                known.insert(event.into(), AccountId::from_bytes(account));
            }
        }
    }
    Ok(known)
}

/// Every deleted customer is erased in the end, from every table that names accounts but for those that are kept.
async fn erased(testbed: &Testbed, key: &str, customers: &[Customer], report: &mut Report) -> Result<()> {
    let platform = Client::new(&testbed.base_url(), key)?;
    let gone: Vec<&Customer> = customers.iter().filter(|customer| customer.leaves).collect();
    wait_until("a deleted customer is not erased", PATIENCE, 250, async || {
        for customer in &gone {
            let told = platform.account(customer.id).await?;
            if told.erasure.is_none_or(|erasure| erasure.finished_at.is_none()) {
                return Ok(false);
            }
        }
        Ok(true)
    })
    .await?;
    let tables = match testbed.database.kind() {
        StoreKind::Sqlite => {
            "select m.name from sqlite_master m, pragma_table_info(m.name) c
             where m.type = 'table' and c.name = 'account_id' order by 1"
        }
        StoreKind::Postgres => {
            "select c.table_name::text from information_schema.columns c
             join information_schema.tables t using (table_schema, table_name)
             where c.table_schema = current_schema() and c.column_name = 'account_id' and t.table_type = 'BASE TABLE'
             order by 1"
        }
    };
    let ids: Vec<String> =
        gone.iter().map(|customer| testbed.database.literal(customer.id.bytes())).collect();
    let (mut looked_at, mut left) = (0_u64, Vec::new());
    for row in testbed.database.rows(tables).await? {
        let table = row.first().and_then(SqlValue::text).context("no table's name")?;
        if KEPT.contains(&table) {
            continue;
        }
        looked_at += 1;
        let rows = format!("select count(*) from {table} where account_id in ({})", ids.join(", "));
        let rows = testbed.database.number(&rows).await?;
        if rows > 0 {
            left.push(format!("{table}: {rows}"));
        }
    }
    report.note("tables_looked_at", looked_at);
    report.must(looked_at > 5, "no table names accounts");
    report.note("left_in", &left);
    report.must_be("tables_with_something_left", left.len(), 0);
    Ok(())
}

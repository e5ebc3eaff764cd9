//! A long history written straight into the tables, while no node runs: a million events with their endings by API would
//! take an hour.
//!
//! Everything is copied from one event that the node itself has taken in and delivered, so the rows are as real as it
//! is. Of twenty deliveries one ends in a dead letter after two attempts, and one is delivered at the second.

use anyhow::{Context, Result, ensure};
use client::Publish;
use domain::id::EventId;
use domain::rollup::Span;
use domain::time::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;

use super::{Database, StoreKind, Testbed};

/// Events are spread evenly over these days, the last of which ended yesterday.
pub(crate) struct LongHistory {
    pub(crate) days: u64,
    pub(crate) events: u64,
    template: EventId,
}

const DESTINATIONS: usize = 50;
const DAY: Duration = Duration::from_secs(86_400);

impl LongHistory {
    /// Makes destinations and one delivered event, on a running node.
    pub(crate) async fn prepare(testbed: &Testbed, days: u64, events: u64) -> Result<LongHistory> {
        for at in 0..DESTINATIONS {
            let plan = testbed.destination(&format!("h{at:02}"));
            testbed.add_destination(&plan, &[&format!("history.{at}")]).await?;
        }
        // Half letters, half digits: what a compressor makes of it is what it makes of real JSON, about.
        let noise: String = (0..64).map(|_| format!("{:016x}", rand::random::<u64>())).collect();
        let data = format!("{{\"pad\":\"{}\"}}", &noise[..1_014]);
        let accepted = testbed.client.publish(&Publish::json("history.0", data)?).await?;
        ensure!(accepted.deliveries == Some(1), "the template has {:?} deliveries", accepted.deliveries);
        let left = testbed.quiesce(Duration::from_secs(20)).await?;
        ensure!(left == 0, "the template was not delivered");
        Ok(LongHistory { days, events, template: accepted.id })
    }

    /// Writes it, and leaves the tables as a store that has been up for a while would have them.
    pub(crate) async fn load(&self, database: &Database) -> Result<()> {
        let now = self.template.made_at();
        let first = Span::Day.start_of(now).minus(DAY * self.days as u32);
        let sql = HistorySql { kind: database.kind() };
        if sql.kind == StoreKind::Postgres {
            for day in 0..self.days {
                database.write(&partitions(first.plus(DAY * day as u32))).await?;
            }
        }
        let template = database.literal(self.template.bytes());
        for day in 0..self.days {
            let from = first.plus(DAY * day as u32);
            database.write(&sql.day(&template, from, day * self.each(), self.each())).await?;
        }
        if sql.kind == StoreKind::Sqlite {
            // The template was delivered after all of it: facts are appended in the order of time. And dead letters are
            // counted here, as on PostgreSQL the table itself does.
            let (first_day, last_day) =
                (first.seconds() / 86_400, first.seconds() / 86_400 + self.days as i64);
            let last = format!(
                "update attempts set rowid = (select max(rowid) + 1 from attempts) where event_id = {template};
                 delete from dead_letter_counts;
                 with recursive days (day) as (
                     select {first_day} union all select day + 1 from days where day < {last_day}
                 )
                 insert into dead_letter_counts
                     (account_id, destination_id, reason, http_status, outcome, day, count, oldest, newest)
                 select account_id, destination_id, reason, coalesce(http_status, 0), coalesce(outcome, ''), day,
                     count(*), min(delivery_id), max(delivery_id)
                 from days cross join attempts
                 where ending = 'dead_letter'
                   and delivery_id >= unhex(printf('%012X', day * 86400000))
                   and delivery_id < unhex(printf('%012X', (day + 1) * 86400000))
                 group by 1, 2, 3, 4, 5, 6;"
            );
            database.write(&last).await?;
        }
        let tables =
            ["events", "attempts", "dead_letter_counts"].map(|table| format!("vacuum analyze {table}"));
        database.tidy(&tables.each_ref().map(String::as_str)).await
    }

    /// No event of the second day has a smaller id.
    pub(crate) fn end_of_first_day(&self) -> EventId {
        let today = Span::Day.start_of(self.template.made_at());
        EventId::at(today.minus(DAY * (self.days as u32 - 1)), 0)
    }

    pub(crate) fn each(&self) -> u64 {
        self.events / self.days
    }

    /// Bytes on disk for each event of the history, with everything that belongs to it.
    pub(crate) async fn bytes_per_event(&self, database: &Database) -> Result<f64> {
        let bytes = match database {
            Database::Sqlite { file } => std::fs::metadata(file).context("the database file")?.len(),
            Database::Postgres { .. } => {
                let sql = "select coalesce(sum(pg_total_relation_size(inhrelid)), 0)::bigint from pg_inherits
                           where inhparent in (to_regclass('events'), to_regclass('attempts'))";
                database.number(sql).await?
            }
        };
        Ok(bytes as f64 / self.events as f64)
    }

    /// The same by table and index, of those in which it has a byte or more.
    pub(crate) async fn bytes_by_relation(&self, database: &Database) -> Result<BTreeMap<String, u64>> {
        let sql = match database.kind() {
            StoreKind::Sqlite => "select name, pgsize from dbstat where aggregate = 1",
            StoreKind::Postgres => {
                "select p.relname, sum(pg_table_size(i.inhrelid))::bigint
                 from pg_inherits i join pg_class p on p.oid = i.inhparent
                 where p.relnamespace = current_schema()::regnamespace
                 group by 1"
            }
        };
        let mut each = BTreeMap::new();
        for row in database.rows(sql).await? {
            let (name, bytes) = (row[0].text().context("a name")?, row[1].number().context("a size")?);
            each.insert(name.to_owned(), bytes as u64 / self.events);
        }
        each.retain(|_, bytes| *bytes > 0);
        Ok(each)
    }
}

fn partitions(day: Timestamp) -> String {
    let name = day.to_string()[..10].replace('-', "");
    let bound = |at: Timestamp| {
        let digits = format!("{:032x}", ((at.micros() / 1000) as u128) << 80);
        digits.parse::<uuid::Uuid>().expect("32 digits").to_string()
    };
    let (from, to) = (bound(day), bound(day.plus(DAY)));
    let one = |table: &str, options: &str| {
        format!(
            "do $$ begin
                 if to_regclass('{table}_p{name}') is null then
                     create table {table}_p{name} (like {table} including all) {options};
                     alter table {table} attach partition {table}_p{name} for values from ('{from}') to ('{to}');
                 end if;
             end $$;"
        )
    };
    one("events", "with (toast_tuple_target = 8160)") + &one("attempts", "")
}

/// What the two stores write differently.
struct HistorySql {
    kind: StoreKind,
}

impl HistorySql {
    /// A day of events and their facts, in the order of time.
    fn day(&self, template: &str, from: Timestamp, first: u64, count: u64) -> String {
        let step_ms = DAY.as_millis() as u64 / count.max(1);
        let begin_ms = from.micros() / 1000;
        let ms = format!("({begin_ms} + (n.i - {first} - 1) * {step_ms})");
        let (event, delivery) = (self.id(&ms, "7001"), self.id(&ms, "7002"));
        let attempt = self.id(&format!("({ms} + k.n * 2)"), "7003");
        let numbers = self.kind.numbers("n", first + 1, first + count);
        let no = if self.kind == StoreKind::Postgres { "false" } else { "0" };
        let destination = "(select id, row_number() over (order by id) - 1 as number from destinations where deleted_at is null) d";
        // Columns of one store alone, and what is in them.
        let (origin, columns, values) = match self.kind {
            StoreKind::Sqlite => ("a.origin", "", ""),
            StoreKind::Postgres => (delivery.as_str(), ", attempts, detail_packed", ", k.n, a.detail_packed"),
        };
        format!(
            "insert into events (id, account_id, source_id, type, idempotency_key, content_type, ordering_key,
                 received_at, deliver_at, deliveries, size_bytes, headers, metadata, payload, payload_crc)
             {numbers}
             select {event}, e.account_id, e.source_id, e.type, null, e.content_type, e.ordering_key,
                 {ms} * 1000, null, 1, e.size_bytes, e.headers, e.metadata, e.payload, e.payload_crc
             from n cross join (select * from events where id = {template}) e
             order by n.i;
             insert into attempts (delivery_id, attempt_id, account_id, event_id, destination_id, route_id, replay_id,
                 origin, number, spent, started_at, duration_us, outcome, http_status, node_id, ending, reason,
                 ended_at, late, detail{columns})
             {numbers}
             select {delivery}, {attempt}, a.account_id, {event}, d.id, a.route_id, null, {origin}, k.n,
                 k.n - 1, {ms} * 1000 + k.n * 2000, 5000 + n.i % 90000,
                 case when k.n < k.of or n.i % 20 = 7 then 'server_error' else 'success' end,
                 case when k.n < k.of or n.i % 20 = 7 then 500 + n.i / 20 % 5 else 200 end,
                 a.node_id,
                 case when k.n < k.of then null when n.i % 20 = 7 then 'dead_letter' else 'delivered' end,
                 case when k.n = k.of and n.i % 20 = 7 then 'exhausted' end,
                 case when k.n = k.of then {ms} * 1000 + k.n * 2000 + 5000 + n.i % 90000 end,
                 {no}, a.detail{values}
             from n
             join (select 1 as n, 1 as of union all select 1, 2 union all select 2, 2) k
               on k.of = case when n.i % 20 in (7, 13) then 2 else 1 end
             join {destination} on d.number = (n.i + n.i / 20) % {DESTINATIONS}
             cross join (select * from attempts where event_id = {template} and ending is not null limit 1) a
             order by n.i, k.n;"
        )
    }

    /// An id made at this millisecond; the number keeps those of one millisecond apart.
    fn id(&self, ms: &str, version: &str) -> String {
        let time = match self.kind {
            StoreKind::Sqlite => format!("printf('%012x', {ms})"),
            StoreKind::Postgres => format!("lpad(to_hex({ms}::bigint), 12, '0')"),
        };
        self.kind.id(&time, &format!("{version}8a00"), "n.i")
    }
}

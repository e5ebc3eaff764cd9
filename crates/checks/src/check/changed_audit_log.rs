//! Hazard: something is changed and nobody can see who did it, or what was written down is changed afterwards and nobody notices.
//!
//! A dozen changes and reveals by an account, each with the secrets it needs. Then, with the node stopped, entries of the log
//! are edited in the table, a member at a time, and taken out, from the beginning, the middle and the end.
//!
//! Holds if each act leaves one entry with its actor, its object, its request and the address it came from, and none of the secrets; if
//! the log holds before, and `audit verify` names the first entry that was tampered with after each edit, and holds again
//! once the entry is as it was.

use serde_json::Value;

use crate::harness::doctor::node_command;
use crate::harness::prelude::*;
use crate::harness::raw_http::{RawAnswer, json_request};
use crate::harness::testbed::API_KEY;

const LIMIT: Duration = Duration::from_secs(20);
const SECRET: &str = "hunter2-of-the-checks";

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let mut testbed = TestbedPlan::new(options)?.start().await?;
    acts(&testbed, report).await?;
    let database = testbed.database.clone();
    let owner = &database
        .rows("select account_id, count(*) from audit_entries group by account_id order by 2 desc limit 1")
        .await?[0][0];
    let owner = owner.id().context("the id of an account")?;
    let whose = format!("account_id = {}", database.literal(&owner));
    testbed.stop().await?;
    let last = database.number(&format!("select max(number) from audit_entries where {whose}")).await?;
    report.must_be_at_least("entries", last, 15);
    let (holds, said) = verify(&testbed).await?;
    report.must(holds, format!("before anything was done to it: {said}"));

    let mut unnoticed = Vec::new();
    let edits = [
        ("action", "'nothing'"),
        ("object_id", "'dst_00000000000000000000000000'"),
        ("client", "'192.0.2.1'"),
        ("difference", "'{}'"),
        ("at", "at + 1"),
        ("count", "7"),
    ];
    for (number, (column, value)) in
        [2, last / 2, last].into_iter().flat_map(|number| edits.map(|edit| (number, edit)))
    {
        let entry = format!("{whose} and number = {number}");
        database
            .write(&format!("create table kept_entry as select * from audit_entries where {entry}"))
            .await?;
        database.write(&format!("update audit_entries set {column} = {value} where {entry}")).await?;
        let (holds, said) = verify(&testbed).await?;
        if holds || !said.contains(&number.to_string()) {
            unnoticed.push(format!("{column} of {number}: {said}"));
        }
        let back =
            format!("update audit_entries set {column} = (select {column} from kept_entry) where {entry}");
        database.write(&format!("{back}; drop table kept_entry")).await?;
    }
    for number in [1, 2, last / 2, last] {
        let entry = format!("{whose} and number = {number}");
        database
            .write(&format!("create table kept_entry as select * from audit_entries where {entry}"))
            .await?;
        database.write(&format!("delete from audit_entries where {entry}")).await?;
        let (holds, said) = verify(&testbed).await?;
        let near = [number, number + 1].iter().any(|number| said.contains(&number.to_string()));
        if holds || !near {
            unnoticed.push(format!("{number} taken out: {said}"));
        }
        database.write("insert into audit_entries select * from kept_entry; drop table kept_entry").await?;
    }
    report.note("tampered_with", edits.len() * 3 + 4);
    report.must_be("unnoticed", unnoticed.len(), 0);
    report.must(unnoticed.is_empty(), format!("{unnoticed:?}"));
    let (holds, said) = verify(&testbed).await?;
    report.must(holds, format!("as it was again: {said}"));
    testbed.tear_down().await
}

/// Whether every chain holds, and what was said.
async fn verify(testbed: &Testbed) -> Result<(bool, String)> {
    let mut command = node_command(testbed, &["audit", "verify"]);
    command.env("POSTHASTE_DATABASE", testbed.database.url());
    let run = command.output().await?;
    let said = String::from_utf8_lossy(&run.stdout);
    let broken: Vec<&str> = said.lines().filter(|line| !line.contains("entries hold")).collect();
    match run.status.code() {
        Some(0) => Ok((true, said.into_owned())),
        Some(1) => Ok((false, broken.join("; "))),
        other => anyhow::bail!("audit verify ended with {other:?}: {}", String::from_utf8_lossy(&run.stderr)),
    }
}

struct Acts<'a> {
    testbed: &'a Testbed,
    done: u64,
    wrong: Vec<String>,
}

impl Acts<'_> {
    async fn entries(&self) -> Result<Vec<Value>> {
        let request = json_request("GET", "/v1/audit?limit=200", API_KEY, "");
        let listed: RawAnswer = raw_http::exchange(self.testbed.addr, &request, LIMIT).await?;
        let listed: Value = serde_json::from_str(listed.body())?;
        Ok(listed["data"].as_array().context("a list of entries")?.clone())
    }

    /// What was answered; it must have left one entry.
    async fn act(&mut self, action: &str, method: &str, path: &str, body: Value) -> Result<Value> {
        let before = self.entries().await?.len();
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = json_request(method, path, API_KEY, &body);
        let answer: RawAnswer = raw_http::exchange(self.testbed.addr, &request, LIMIT).await?;
        let entries = self.entries().await?;
        let entry = &entries[0];
        let request_id = answer.header("x-request-id").unwrap_or_default();
        let fits = answer.status.is_some_and(|status| (200..300).contains(&status))
            && entries.len() == before + 1
            && entry["action"] == action
            && entry["request_id"] == request_id
            && entry["actor"]["type"] == "key"
            && entry["object_id"].is_string()
            && entry["client"] == "127.0.0.1"
            && !entry.to_string().contains(SECRET);
        if !fits {
            self.wrong.push(format!(
                "{action}: {:?}, {} more: {entry}",
                answer.status,
                entries.len() - before
            ));
        }
        self.done += 1;
        Ok(serde_json::from_str(answer.body()).unwrap_or_default())
    }
}

async fn acts(testbed: &Testbed, report: &mut Report) -> Result<()> {
    let mut acts = Acts { testbed, done: 0, wrong: Vec::new() };
    let id = |made: &Value| made["id"].as_str().unwrap_or_default().to_owned();
    let source = json!({ "name": "in", "verification": { "type": "github", "secrets": [SECRET] } });
    let source = id(&acts.act("create_source", "POST", "/v1/sources", source).await?);
    let path = format!("/v1/sources/{source}");
    acts.act(
        "update_source",
        "PATCH",
        &path,
        json!({ "verification": { "secrets": [format!("{SECRET}3")] } }),
    )
    .await?;
    acts.act("get_source_ingest_url", "GET", &format!("{path}/ingest-url"), Value::Null).await?;
    acts.act("rotate_source_token", "POST", &format!("{path}/rotate-token"), Value::Null).await?;
    let mut destination = serde_json::to_value(testbed.destination("out"))?;
    destination["auth"] = json!({ "type": "bearer", "token": SECRET });
    destination["headers"] = json!({ "x-secret": SECRET });
    let destination = id(&acts.act("create_destination", "POST", "/v1/destinations", destination).await?);
    let path = format!("/v1/destinations/{destination}");
    acts.act("update_destination", "PATCH", &path, json!({ "auth": { "token": format!("{SECRET}4") } }))
        .await?;
    acts.act("get_destination_secret", "GET", &format!("{path}/secret"), Value::Null).await?;
    acts.act("rotate_destination_secret", "POST", &format!("{path}/rotate-secret"), Value::Null).await?;
    acts.act("pause_destination", "POST", &format!("{path}/pause"), Value::Null).await?;
    acts.act("resume_destination", "POST", &format!("{path}/resume"), Value::Null).await?;
    let route = json!({ "destination_id": destination, "event_types": ["lab.event"] });
    let route = id(&acts.act("create_route", "POST", "/v1/routes", route).await?);
    acts.act("delete_route", "DELETE", &format!("/v1/routes/{route}"), Value::Null).await?;
    let key = id(&acts.act("create_api_key", "POST", "/v1/api-keys", json!({ "name": "ci" })).await?);
    acts.act("revoke_api_key", "DELETE", &format!("/v1/api-keys/{key}"), Value::Null).await?;
    acts.act("update_own_account", "PATCH", "/v1/account", json!({ "name": "Renamed" })).await?;
    acts.act("delete_destination", "DELETE", &path, Value::Null).await?;
    acts.act("delete_source", "DELETE", &format!("/v1/sources/{source}"), Value::Null).await?;
    report.note("acts", acts.done);
    report.must_be("acts_without_their_entry", acts.wrong.len(), 0);
    report.must(acts.wrong.is_empty(), format!("{:?}", acts.wrong));
    Ok(())
}

//! Hazard: a master key can never be retired: what it sealed is forgotten, or is sealed anew so that deliveries fail meanwhile,
//! or it is let go before everything is done.
//!
//! Nodes under load, and a thousand accounts (`--count`) whose data keys are sealed by `k1`. All accounts get new data keys.
//! Then the nodes are restarted one by one with a second master key, and again with it as the active one; before each of them
//! has it, `keys rotate` is tried. Then it is run, killed (SIGKILL) as soon as the first keys are sealed anew, begun again by
//! a server that is killed too, and run to its end; the nodes are restarted one by one without the old key. At last the old
//! data keys are let go.
//!
//! Holds if nothing is lost, no attempt fails and every signature verifies; if a rotation that some node would not follow
//! changes nothing and names the node; if what was broken off is ended by the next run; if at the end nothing is sealed by the
//! old key; and if a node that has the old one only, or not the one that is needed, ends with 2, names the key and tells none.

use std::collections::{BTreeMap, HashMap};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use client::{Client, NewAccount, RotateDataKeys};
use domain::seal::Sealed;
use domain::signature::{SigningSecret, verify};
use serde_json::Value;

use crate::harness::doctor::{doctor, node_command};
use crate::harness::multi_node::{SLOW_ENOUGH, drain_and_settle, start_nodes};
use crate::harness::prelude::*;
use crate::harness::testbed::OPERATOR_KEY;

const OLD: &str = "k1:b2xkIGtleSBvZiBjaGVja3M6IDMyIGJ5dGVzIGxvbmc=";
const NEW: &str = "k2:bmV3IGtleSBvZiBjaGVja3M6IDMyIGJ5dGVzIGxvbmc=";
const VARIABLE: &str = "POSTHASTE_MASTER_KEY";
/// After this a data key that was changed may be let go.
const SETTLED: Duration = Duration::from_secs(181);
const CALM: Duration = Duration::from_secs(1);
const FAILED: i32 = 1;
const USAGE: i32 = 2;
const NOT_REACHED: i32 = 6;

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let plan = TestbedPlan::of_several(options)?.env(VARIABLE, OLD);
    let (mut testbed, source) = match options.store() {
        StoreKind::Postgres => start_nodes(plan, 20, 8).await?,
        StoreKind::Sqlite => {
            let testbed = plan.start().await?;
            let source = RoutedSource::make(&testbed, 20, 8).await?;
            testbed.receiver.default_script(Reply::ok().after(SLOW_ENOUGH));
            (testbed, source)
        }
    };
    testbed.receiver.recording(Recording::FullWithBodies);
    let operator = Client::new(&testbed.base_url(), OPERATOR_KEY)?;
    let accounts = options.count(1_000);
    for number in 0..accounts {
        operator.create_account(&NewAccount::new(&format!("Customer {number}"))).await?;
    }
    let mut secrets = HashMap::new();
    for (id, name) in source.destinations.iter().zip(&source.names) {
        let secret: SigningSecret = testbed.client.destination_secret(*id).await?.secret.parse()?;
        secrets.insert(name.clone(), secret);
    }
    let pump = Pump::start(source.pump(Until::Stopped).open(options.rate(200.0)))?;
    let mut faults = Vec::new();

    let begun = begin_data_keys(&operator).await?;
    let data_keys_changed = Instant::now();
    report.must_be("accounts_with_new_data_keys", begun, accounts + 1);

    refuse_until_all_nodes_follow(&mut testbed, &mut faults, report).await?;
    rotate_through_kills(&mut testbed, &mut faults, report).await?;
    report.must_be("sealed_by_the_old_key", uses(&testbed).await?.get("k1").copied().unwrap_or(0), 0);
    let known = "select count(*) from settings where name like 'master_key:%'";
    report.must_be("keys_the_store_knows", testbed.database.number(known).await?, 1);
    let found = doctor(&testbed, &[]).await?;
    let secrets_found = found.finding("secrets").map(|finding| finding.detail.clone()).unwrap_or_default();
    report.must(
        secrets_found.contains("`k1` may be left out"),
        format!("doctor does not say that the old key may go: {secrets_found}"),
    );

    restart_all(&mut testbed, &mut faults, NEW).await?;
    let again = rotated(node_rotation(&testbed, &[]).output().await?, report)?;
    report.must_be("sealed_anew_by_one_more_run", again, 0);
    refuse_to_start(&mut testbed, &mut faults, report).await?;

    let sent = pump.finish().await;
    if testbed.database.kind() == StoreKind::Postgres {
        drain_and_settle(&mut testbed, &source, &sent, faults, report).await?;
    } else {
        report.must_all_be_accepted(&sent);
        testbed.must_be_running(report);
        settle_accounts(&testbed, &source, source.evidence(&sent, faults), report).await?;
    }
    let failed = "select count(*) from attempts where outcome is not null and outcome <> 'success'";
    report.must_be("failed_attempts", testbed.database.number(failed).await?, 0);
    let dead = "select count(*) from attempts where ending = 'dead_letter'";
    report.must_be("dead_letters", testbed.database.number(dead).await?, 0);
    let began_us = lab::clock::unix_us() - testbed.receiver.now_us();
    let records = testbed.receiver.snapshot();
    let unsigned = records.iter().filter(|record| !verifies(&secrets, record, began_us)).count();
    report.note("requests", records.len());
    report.must_be("signatures_that_do_not_verify", unsigned, 0);

    let_old_data_keys_go(&testbed, data_keys_changed, accounts + 1, report).await?;
    for (id, name) in source.destinations.iter().zip(&source.names) {
        let secret: SigningSecret = testbed.client.destination_secret(*id).await?.secret.parse()?;
        let same = secrets.get(name).is_some_and(|before| *before.expose() == *secret.expose());
        report.must(same, "a secret changed");
    }
    testbed.must_be_running(report);
    testbed.tear_down().await
}

/// All accounts, and everything of theirs; how many.
async fn begin_data_keys(operator: &Client) -> Result<u64> {
    let (mut begun, mut after) = (0, None);
    loop {
        let done = operator.rotate_data_keys(&RotateDataKeys { after, older_than_seconds: Some(0) }).await?;
        begun += done.begun_count;
        after = done.next;
        if after.is_none() {
            return Ok(begun);
        }
    }
}

async fn let_old_data_keys_go(
    testbed: &Testbed,
    changed: Instant,
    accounts: u64,
    report: &mut Report,
) -> Result<()> {
    // On an embedded store the server does it; elsewhere either.
    let begun = Instant::now();
    let run = node_rotation(testbed, &["--data-keys"]).output().await?;
    ensure!(run.status.success(), "keys rotate --data-keys: {}", String::from_utf8_lossy(&run.stderr));
    let done: Value = serde_json::from_slice(&run.stdout)?;
    report.note("data_keys", &done);
    report.note("data_keys_waited_seconds", begun.elapsed().as_secs());
    report.must_be("old_data_keys_let_go", done["ended_count"].as_u64().unwrap_or(0), accounts);
    report.must_be("accounts_begun_once_more", done["begun_count"].as_u64().unwrap_or(u64::MAX), 0);
    report.must(
        changed.elapsed() >= SETTLED - CALM,
        "old data keys were let go before every node had done with them",
    );
    Ok(())
}

/// With a second key behind the first, and then before it: as long as one node would not follow, nothing is done.
async fn refuse_until_all_nodes_follow(
    testbed: &mut Testbed,
    faults: &mut Vec<Fault>,
    report: &mut Report,
) -> Result<()> {
    let (known, active) = (format!("{OLD},{NEW}"), format!("{NEW},{OLD}"));
    let nodes = testbed.nodes.len();
    let mut refused = 0;
    if nodes > 1 {
        refused += u64::from(refuses(testbed, &active, "node-0", "does not know the master key `k2`").await?);
    }
    restart_all(testbed, faults, &known).await?;
    if nodes > 1 {
        refused += u64::from(refuses(testbed, &active, "node-0", "seals by the master key `k1`").await?);
        for at in 0..nodes - 1 {
            restart(testbed, faults, at, &active).await?;
        }
        let last = format!("node-{}", nodes - 1);
        refused += u64::from(refuses(testbed, &active, &last, "seals by the master key `k1`").await?);
        restart(testbed, faults, nodes - 1, &active).await?;
        report.must_be("rotations_refused", refused, 3);
        let by_new = uses(testbed).await?.get("k2").copied().unwrap_or(0);
        report.must_be("sealed_anew_by_what_was_refused", by_new, 0);
    } else {
        restart(testbed, faults, 0, &active).await?;
    }
    Ok(())
}

/// Whether `keys rotate` with these keys changes nothing and says why.
async fn refuses(testbed: &Testbed, keys: &str, node: &str, why: &str) -> Result<bool> {
    let mut command = node_command(testbed, &["keys", "rotate", "--json"]);
    let run = command.env(VARIABLE, keys).output().await?;
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    let named = said.contains(why) && said.contains(node);
    ensure!(named && run.status.code() == Some(FAILED), "keys rotate ends with {:?}: {said}", run.status);
    Ok(true)
}

async fn rotate_through_kills(
    testbed: &mut Testbed,
    faults: &mut Vec<Fault>,
    report: &mut Report,
) -> Result<()> {
    let mut in_the_middle = 0;
    // The command itself, where it does the work; then the server that it asks.
    if testbed.nodes.len() > 1 {
        let mut command = node_command(testbed, &["keys", "rotate", "--json"]);
        let mut run = command.spawn()?;
        sealed_anew(testbed, 0).await?;
        run.start_kill()?;
        run.wait().await?;
        in_the_middle += u64::from(is_in_the_middle(testbed).await?);
    }
    let at = testbed.nodes.len() - 1;
    let before = by_new(testbed).await?;
    let mut command = node_command(testbed, &["keys", "rotate", "--json"]);
    command.args(["--server", &testbed.nodes[at].base_url(), "--key", OPERATOR_KEY]);
    let run = command.spawn()?;
    sealed_anew(testbed, before).await?;
    faults.push(testbed.kill_node(at).await?);
    let ended = run.wait_with_output().await?;
    report.must(
        ended.status.code() == Some(NOT_REACHED),
        format!("with its server killed, keys rotate ends with {:?}", ended.status.code()),
    );
    in_the_middle += u64::from(is_in_the_middle(testbed).await?);
    testbed.start_node(at).await?;
    report.note("killed_in_the_middle", in_the_middle);
    report.must(in_the_middle > 0, "it was never killed in the middle: ask for more accounts, by --count");
    let began = Instant::now();
    let resealed = rotated(node_rotation(testbed, &[]).output().await?, report)?;
    report.note("sealed_anew_by_the_last_run", resealed);
    report.note("last_run_ms", began.elapsed().as_millis() as u64);
    report.must(resealed > 0, "the last run found nothing to do");
    Ok(())
}

/// By the command itself where it may be beside the nodes, else by the node.
fn node_rotation(testbed: &Testbed, args: &[&str]) -> tokio::process::Command {
    let mut command = node_command(testbed, &["keys", "rotate", "--json"]);
    if testbed.database.kind() == StoreKind::Sqlite {
        command.args(["--server", &testbed.base_url(), "--key", OPERATOR_KEY]);
    }
    command.args(args);
    command
}

/// How much it says it has sealed anew.
fn rotated(run: std::process::Output, report: &mut Report) -> Result<u64> {
    ensure!(run.status.success(), "keys rotate: {}", String::from_utf8_lossy(&run.stderr));
    let said: Value = serde_json::from_slice(&run.stdout)?;
    report.must(said["done"] == true && said["master_key"] == "k2", format!("keys rotate says {said}"));
    said["resealed_count"].as_u64().context("no count")
}

/// Waits until more is sealed by the new key than so much.
async fn sealed_anew(testbed: &Testbed, before: u64) -> Result<()> {
    let more = async || Ok(by_new(testbed).await? > before);
    wait_until("nothing is sealed anew", Duration::from_secs(20), 1, more).await
}

/// How many data keys the new key wraps, in a moment: the name's last character is in the sixth of the text.
async fn by_new(testbed: &Testbed) -> Result<u64> {
    let place = match testbed.database.kind() {
        StoreKind::Sqlite => "instr(doc, '\"data_key\":\"')",
        StoreKind::Postgres => "strpos(doc, '\"data_key\":\"')",
    };
    let of_k2: Vec<String> = ('g'..='v').map(|letter| format!("'{letter}'")).collect();
    let sql =
        format!("select count(*) from accounts where substr(doc, {place} + 17, 1) in ({})", of_k2.join(", "));
    testbed.database.number(&sql).await
}

async fn is_in_the_middle(testbed: &Testbed) -> Result<bool> {
    let uses = uses(testbed).await?;
    Ok(uses.contains_key("k1") && uses.contains_key("k2"))
}

/// How many data keys, and the pepper, are wrapped by which key, by the tables.
async fn uses(testbed: &Testbed) -> Result<BTreeMap<String, u64>> {
    let mut uses = BTreeMap::new();
    let mut add = |sealed: Vec<u8>| {
        let name = Sealed(sealed).master_key().unwrap_or("none").to_owned();
        *uses.entry(name).or_default() += 1;
    };
    for row in testbed.database.rows("select doc from accounts").await? {
        let doc: Value = serde_json::from_str(row[0].text().context("a document")?)?;
        add(STANDARD.decode(doc["data_key"].as_str().context("a data key")?)?);
    }
    for row in testbed.database.rows("select value from settings where name = 'pepper'").await? {
        if let SqlValue::Bytes(pepper) = &row[0] {
            add(pepper.clone());
        }
    }
    Ok(uses)
}

async fn restart_all(testbed: &mut Testbed, faults: &mut Vec<Fault>, keys: &str) -> Result<()> {
    for at in 0..testbed.nodes.len() {
        restart(testbed, faults, at, keys).await?;
    }
    Ok(())
}

async fn restart(testbed: &mut Testbed, faults: &mut Vec<Fault>, at: usize, keys: &str) -> Result<()> {
    let pid = testbed.nodes[at].process()?.pid();
    faults.push(Fault::new(FaultKind::Terminate, testbed.receiver.now_us(), Some(pid)));
    testbed.nodes[at].stop().await?;
    testbed.nodes[at].set_env(VARIABLE, Some(keys));
    testbed.start_node(at).await?;
    testbed.wait_until_balanced(Duration::from_secs(30)).await?;
    sleep(CALM).await;
    Ok(())
}

/// The last node, with the old key only and with another one of the new one's name: it ends, and says which key is needed.
async fn refuse_to_start(testbed: &mut Testbed, faults: &mut Vec<Fault>, report: &mut Report) -> Result<()> {
    let at = testbed.nodes.len() - 1;
    let pid = testbed.nodes[at].process()?.pid();
    faults.push(Fault::new(FaultKind::Terminate, testbed.receiver.now_us(), Some(pid)));
    testbed.nodes[at].stop().await?;
    let impostor = OLD.replace("k1:", "k2:");
    for (what, keys) in [("old_key_only", OLD), ("another_key_of_that_name", &impostor)] {
        let before = testbed.nodes[at].log().len();
        testbed.nodes[at].set_env(VARIABLE, Some(keys));
        testbed.launch_node(at)?;
        report.must(
            testbed.nodes[at].wait_for_exit(Duration::from_secs(10)).await,
            format!("{what}: the node starts all the same"),
        );
        let said = testbed.nodes[at].log()[before..].to_owned();
        let secret =
            [OLD, NEW].iter().filter_map(|key| key.split_once(':')).any(|(_, key)| said.contains(key));
        report.must(said.contains("`k2`") && !secret, format!("{what}: the log says {said}"));
    }
    testbed.nodes[at].set_env(VARIABLE, Some(NEW));
    testbed.start_node(at).await?;
    let mut serve = node_command(testbed, &["doctor", "--json"]);
    let run = serve.env(VARIABLE, OLD).output().await?;
    report.must(run.status.code() == Some(FAILED), format!("doctor ends with {:?}", run.status.code()));
    let mut rotate = node_command(testbed, &["keys", "rotate", "--json"]);
    if testbed.database.kind() == StoreKind::Postgres {
        let run = rotate.env(VARIABLE, OLD).output().await?;
        report
            .must(run.status.code() == Some(USAGE), format!("keys rotate ends with {:?}", run.status.code()));
    }
    Ok(())
}

/// Whether it is signed with its destination's secret, whatever that is sealed by.
fn verifies(secrets: &HashMap<std::sync::Arc<str>, SigningSecret>, record: &Record, began_us: u64) -> bool {
    let (Some(kept), Some(secret)) = (&record.kept, secrets.get(&record.destination)) else { return false };
    let header =
        |name: &str| kept.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (id, timestamp, signature) =
        (header("webhook-id"), header("webhook-timestamp"), header("webhook-signature"));
    let now = (began_us + record.start_us) / 1_000_000;
    verify([secret], id, timestamp, signature, &kept.body, now as i64, 30).is_ok()
}

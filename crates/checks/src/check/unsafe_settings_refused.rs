//! Hazard: the database is set up to forget what it has acknowledged, and that is noticed at the first crash.
//!
//! `serve` and `doctor` are started on SQLite with `synchronous=normal`; and on PostgreSQL with `synchronous_commit` off
//! for the database, for the role and in the URL, then with `fsync` off and with `full_page_writes` off for the server.
//!
//! Holds if each time both end with code 4 and name the setting and what to do, and if with `--accept-data-loss` the node
//! serves and `/readyz` tells the setting; and if without such a setting it tells none.

use serde_json::Value;
use tokio::time::timeout;

use crate::harness::doctor::{diagnose, node_command};
use crate::harness::postgres_server::PostgresServer;
use crate::harness::prelude::*;

const UNSAFE: i32 = 4;

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    match options.store() {
        StoreKind::Sqlite => {
            let mut testbed = TestbedPlan::new(options)?.start().await?;
            safe(&testbed, report).await?;
            testbed.stop().await?;
            let url = format!("{}?synchronous=normal", testbed.database.url());
            unsafe_setting(&mut testbed, "synchronous = normal", Some(&url), report).await?;
            testbed.tear_down().await?;
        }
        StoreKind::Postgres => on_postgres(options, report).await?,
    }
    Ok(())
}

async fn on_postgres(options: &Options, report: &mut Report) -> Result<()> {
    // A database of its own: its settings concern no other.
    let server = PostgresServer::start().await?.with_new_database().await?;
    let database = Database::Postgres { server: server.clone(), schema: None };
    let mut testbed = TestbedPlan::new(options)?.database(database).start().await?;
    safe(&testbed, report).await?;
    testbed.stop().await?;
    let tried = try_all(&mut testbed, &server, report).await;
    // Whatever happened: the next check wants a server that keeps its word.
    for setting in ["fsync", "full_page_writes"] {
        server.execute(&format!("alter system reset {setting}")).await?;
    }
    server.execute("select pg_reload_conf()").await?;
    tried?;
    testbed.tear_down().await
}

async fn try_all(testbed: &mut Testbed, server: &PostgresServer, report: &mut Report) -> Result<()> {
    let (_, name) = server.url().rsplit_once('/').context("the server's URL has a database")?;
    let (_, rest) = server.url().split_once("://").context("the server's URL has a scheme")?;
    let (role, _) = rest.split_once('@').context("the server's URL has a user")?;
    let off = "synchronous_commit = off";
    for whose in [format!("database {name}"), format!("role {role} in database {name}")] {
        server.execute(&format!("alter {whose} set {off}")).await?;
        unsafe_setting(testbed, off, None, report).await.with_context(|| whose.clone())?;
        server.execute(&format!("alter {whose} reset synchronous_commit")).await?;
    }
    let url = format!("{}?options=-c%20synchronous_commit%3Doff", server.url());
    unsafe_setting(testbed, off, Some(&url), report).await.context("in the URL")?;
    for setting in ["fsync", "full_page_writes"] {
        server.execute(&format!("alter system set {setting} = off")).await?;
        server.execute("select pg_reload_conf()").await?;
        in_force(server, setting).await?;
        unsafe_setting(testbed, &format!("{setting} = off"), None, report).await.context(setting)?;
        server.execute(&format!("alter system reset {setting}")).await?;
        server.execute("select pg_reload_conf()").await?;
    }
    Ok(())
}

/// A reload takes a moment.
async fn in_force(server: &PostgresServer, setting: &str) -> Result<()> {
    let sql = format!("select (current_setting('{setting}') = 'off')::int::bigint");
    let is_off = async || Ok(server.number(&sql).await? == 1);
    wait_until(&format!("{setting} did not come into force"), Duration::from_secs(2), 20, is_off).await
}

/// Nothing is told where there is nothing to tell.
async fn safe(testbed: &Testbed, report: &mut Report) -> Result<()> {
    let told = told_by_readyz(testbed).await?;
    report.must(told == serde_json::json!([]), format!("/readyz tells {told} of a safe store"));
    let found = diagnose(node_command(testbed, &["doctor", "--json"])).await?;
    report.must(found.code == Some(0), format!("doctor ends with {:?}: {:?}", found.code, found.troubles()));
    Ok(())
}

async fn unsafe_setting(
    testbed: &mut Testbed,
    setting: &str,
    url: Option<&str>,
    report: &mut Report,
) -> Result<()> {
    let with_url = |mut command: tokio::process::Command| {
        command.envs(url.map(|url| ("POSTHASTE_DATABASE", url)));
        command
    };
    let mut serve = with_url(node_command(testbed, &["serve"]));
    let refused = timeout(Duration::from_secs(10), serve.output()).await.context("it serves")??;
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    let code = refused.status.code();
    report.must(code == Some(UNSAFE), format!("{setting}: serve ends with {code:?}: {said}"));
    for word in [setting, "--accept-data-loss"] {
        report.must(said.contains(word), format!("{setting}: {word:?} is not in {said:?}"));
    }
    let found = diagnose(with_url(node_command(testbed, &["doctor", "--json"]))).await?;
    report.must(found.code == Some(UNSAFE), format!("{setting}: doctor ends with {:?}", found.code));
    let finding = found.finding("store_settings").context("doctor has not looked at the settings")?;
    report.must(
        finding.level == "unsafe" && finding.detail.contains(setting) && finding.fix.is_some(),
        format!("{setting}: doctor says {finding:?}"),
    );

    let launch = &mut testbed.nodes[0].launch;
    let before = launch.clone();
    launch.args.push("--accept-data-loss".into());
    if let Some(url) = url {
        testbed.set_env("POSTHASTE_DATABASE", Some(url));
    }
    testbed.start().await.context("it was accepted")?;
    let told = told_by_readyz(testbed).await?;
    report.must(told == serde_json::json!([setting]), format!("{setting}: /readyz tells {told}"));
    testbed.stop().await?;
    testbed.nodes[0].launch = before;
    report.note(setting, "refused and, when accepted, told");
    Ok(())
}

async fn told_by_readyz(testbed: &Testbed) -> Result<Value> {
    let answer = testbed.get("/readyz").await?;
    let body: Value = serde_json::from_str(answer.body()).context("/readyz answers in JSON")?;
    Ok(body["unsafe_settings"].clone())
}

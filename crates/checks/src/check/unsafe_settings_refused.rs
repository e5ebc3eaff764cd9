//! Hazard: the database is set up to forget what it has acknowledged, and nobody notices before the first crash.
//!
//! `serve` and `doctor` are started on SQLite with `synchronous=normal`; and on PostgreSQL with `synchronous_commit` off
//! for the database, for the role and in the URL, then with `fsync` off and with `full_page_writes` off for the server.
//!
//! Holds if each time both end with code 4 and name the setting and what to do, and if with `--accept-data-loss` the node
//! serves and `/readyz` tells the setting; and if without such a setting it tells none.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tokio::time::timeout;

use crate::Ask;
use crate::harness::doctor::{node_command, verdict};
use crate::harness::server::Server;
use crate::harness::{Database, Plan, Report, Stage, StoreKind, wire};

const UNSAFE: i32 = 4;

pub(crate) async fn run(ask: &Ask, store: StoreKind) -> Result<Report> {
    let mut report = Report::default();
    match store {
        StoreKind::Sqlite => {
            let mut stage = Plan::new(ask, store)?.start().await?;
            safe(&stage, &mut report).await?;
            stage.stop().await?;
            let url = format!("{}?synchronous=normal", stage.database.url());
            unsafe_setting(&mut stage, "synchronous = normal", Some(&url), &mut report).await?;
            stage.strike().await?;
        }
        StoreKind::Postgres => on_postgres(ask, &mut report).await?,
    }
    Ok(report)
}

async fn on_postgres(ask: &Ask, report: &mut Report) -> Result<()> {
    // A database of its own: settings of one are nobody else's.
    let server = Server::start().await?.with_new_database().await?;
    let database = Database::Postgres { server: server.clone(), schema: None };
    let mut stage = Plan::new(ask, StoreKind::Postgres)?.database(database).start().await?;
    safe(&stage, report).await?;
    stage.stop().await?;
    let tried = try_all(&mut stage, &server, report).await;
    // Whatever happened: the next check wants a server that keeps its word.
    for setting in ["fsync", "full_page_writes"] {
        server.execute(&format!("alter system reset {setting}")).await?;
    }
    server.execute("select pg_reload_conf()").await?;
    tried?;
    stage.strike().await
}

async fn try_all(stage: &mut Stage, server: &Server, report: &mut Report) -> Result<()> {
    let (_, name) = server.url().rsplit_once('/').context("the server's URL has a database")?;
    let (_, rest) = server.url().split_once("://").context("the server's URL has a scheme")?;
    let (role, _) = rest.split_once('@').context("the server's URL has a user")?;
    let off = "synchronous_commit = off";
    for whose in [format!("database {name}"), format!("role {role} in database {name}")] {
        server.execute(&format!("alter {whose} set {off}")).await?;
        unsafe_setting(stage, off, None, report).await.with_context(|| whose.clone())?;
        server.execute(&format!("alter {whose} reset synchronous_commit")).await?;
    }
    let url = format!("{}?options=-c%20synchronous_commit%3Doff", server.url());
    unsafe_setting(stage, off, Some(&url), report).await.context("in the URL")?;
    for setting in ["fsync", "full_page_writes"] {
        server.execute(&format!("alter system set {setting} = off")).await?;
        server.execute("select pg_reload_conf()").await?;
        in_force(server, setting).await?;
        unsafe_setting(stage, &format!("{setting} = off"), None, report).await.context(setting)?;
        server.execute(&format!("alter system reset {setting}")).await?;
        server.execute("select pg_reload_conf()").await?;
    }
    Ok(())
}

/// A reload takes a moment.
async fn in_force(server: &Server, setting: &str) -> Result<()> {
    let sql = format!("select (current_setting('{setting}') = 'off')::int::bigint");
    for _ in 0..100 {
        if server.number(&sql).await? == 1 {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    bail!("{setting} did not come into force")
}

/// Nothing is told where there is nothing to tell.
async fn safe(stage: &Stage, report: &mut Report) -> Result<()> {
    let told = told_by_readyz(stage).await?;
    report.must(told == serde_json::json!([]), format!("/readyz tells {told} of a safe store"));
    let found = verdict(node_command(stage, &["doctor", "--json"])).await?;
    report.must(found.code == Some(0), format!("doctor ends with {:?}: {:?}", found.code, found.troubles()));
    Ok(())
}

async fn unsafe_setting(
    stage: &mut Stage,
    setting: &str,
    url: Option<&str>,
    report: &mut Report,
) -> Result<()> {
    let with_url = |mut command: tokio::process::Command| {
        command.envs(url.map(|url| ("POSTHASTE_DATABASE", url)));
        command
    };
    let mut serve = with_url(node_command(stage, &["serve"]));
    let refused = timeout(Duration::from_secs(10), serve.output()).await.context("it serves")??;
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    let code = refused.status.code();
    report.must(code == Some(UNSAFE), format!("{setting}: serve ends with {code:?}: {said}"));
    for word in [setting, "--accept-data-loss"] {
        report.must(said.contains(word), format!("{setting}: {word:?} is not in {said:?}"));
    }
    let found = verdict(with_url(node_command(stage, &["doctor", "--json"]))).await?;
    report.must(found.code == Some(UNSAFE), format!("{setting}: doctor ends with {:?}", found.code));
    let finding = found.finding("store_settings").context("doctor has not looked at the settings")?;
    report.must(
        finding.level == "unsafe" && finding.detail.contains(setting) && finding.fix.is_some(),
        format!("{setting}: doctor says {finding:?}"),
    );

    let launch = &mut stage.members[0].launch;
    let before = launch.clone();
    launch.args.push("--accept-data-loss".into());
    if let Some(url) = url {
        stage.set_env("POSTHASTE_DATABASE", Some(url));
    }
    stage.start().await.context("it was accepted")?;
    let told = told_by_readyz(stage).await?;
    report.must(told == serde_json::json!([setting]), format!("{setting}: /readyz tells {told}"));
    stage.stop().await?;
    stage.members[0].launch = before;
    report.note(setting, "refused and, when accepted, told");
    Ok(())
}

async fn told_by_readyz(stage: &Stage) -> Result<Value> {
    let ready = wire::request("GET", "/readyz", &[], b"");
    let answer = wire::exchange(stage.addr, &ready, Duration::from_secs(3)).await?;
    let body: Value = serde_json::from_str(answer.body()).context("/readyz answers in JSON")?;
    Ok(body["unsafe_settings"].clone())
}

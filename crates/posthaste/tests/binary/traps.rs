//! What an operator runs into on the first day: a role without rights, a database that is not there, a start that fails, a
//! pipe whose reader has gone. Each is told in a way that mends it, and leaves nothing behind.

use crate::node::{Database, LONG, Place, output, text};
use serde_json::Value;
use std::{fs, io, net::TcpListener, process::Stdio};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    time::timeout,
};
use tokio_postgres::NoTls;

/// A role of the test server that may log in and nothing else.
struct PlainRole {
    name: String,
    /// As the role, without a schema of its own.
    url: String,
}

impl PlainRole {
    async fn new(place: &Place) -> Self {
        let folder = place.path().file_name().and_then(|name| name.to_str()).expect("a plain name");
        let name: String = folder.chars().filter(char::is_ascii_alphanumeric).collect();
        let name = format!("trap_{}", name.to_lowercase());
        sql(&format!("create role {name} login")).await;
        let url = postgres().replacen("posthaste@", &format!("{name}@"), 1);
        Self { name, url }
    }

    async fn forget(self) {
        sql(&format!(
            "drop owned by {0} cascade; drop schema if exists {0} cascade; drop role {0}",
            self.name
        ))
        .await;
    }
}

fn postgres() -> String {
    std::env::var("POSTHASTE_TEST_POSTGRES").expect("PostgreSQL: scripts/postgres with cargo test")
}

/// As the owner of everything.
async fn sql(statements: &str) {
    let (client, connection) = tokio_postgres::connect(&postgres(), NoTls).await.expect("the test server");
    let driven = tokio::spawn(connection);
    client.batch_execute(statements).await.expect(statements);
    drop(client);
    driven.await.expect("no panic").expect("it ends well");
}

/// What each command says of this database: its exit code and its words.
async fn told_by_all(place: &Place, database: &str) -> [(Option<i32>, String); 3] {
    let key = place.line(&["keys", "master"]).await;
    let run = async |arguments: &[&str]| {
        let mut command = place.command(arguments);
        command.env("POSTHASTE_DATABASE", database).env("POSTHASTE_MASTER_KEYS", &key);
        let ended = output(command).await;
        (ended.status.code(), format!("{}{}", text(&ended.stdout), text(&ended.stderr)))
    };
    [run(&["serve", "--listen", "127.0.0.1:0"]).await, run(&["migrate"]).await, run(&["doctor"]).await]
}

#[tokio::test]
async fn a_role_that_may_make_no_tables_is_told_the_statement_that_lets_it() {
    let place = Place::new();
    let role = PlainRole::new(&place).await;
    let name = &role.name;
    sql(&format!("create schema {name}; revoke all on schema {name} from {name}, public")).await;
    let of_schema = format!("{}?schema={name}", role.url);
    let of_missing = format!("{}?schema={name}_missing", role.url);
    for (database, mend) in [
        (&role.url, format!("GRANT CREATE, USAGE ON SCHEMA public TO {name};")),
        (&of_schema, format!("GRANT CREATE, USAGE ON SCHEMA {name} TO {name};")),
        (&of_missing, format!("CREATE SCHEMA {name}_missing AUTHORIZATION {name};")),
    ] {
        let told = told_by_all(&place, database).await;
        for ((code, said), expected) in told.iter().zip([2, 2, 1]) {
            assert!(said.contains(&mend), "{database}: {said}");
            assert_eq!(*code, Some(expected), "{database}: {said}");
        }
    }

    sql(&format!("GRANT CREATE, USAGE ON SCHEMA {name} TO {name};")).await;
    let mut migrate = place.command(&["migrate"]);
    migrate.env("POSTHASTE_DATABASE", &of_schema);
    let migrated = output(migrate).await;
    assert!(migrated.status.success(), "what is told mends it: {migrated:?}");
    role.forget().await;
}

#[tokio::test]
async fn the_servers_own_reason_is_told_by_who_waits_for_it_and_by_doctor() {
    let place = Place::new();
    let role = PlainRole::new(&place).await;
    sql(&format!("alter role {} connection limit 0", role.name)).await;
    let reason = format!("too many connections for role \"{}\"", role.name);

    let mut serve = place.command(&["serve", "--dev", "--listen", "127.0.0.1:0"]);
    serve.env("POSTHASTE_DATABASE", &role.url);
    let mut waiting = serve.stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(waiting.stderr.take().unwrap()).lines();
    let told = timeout(LONG, lines.next_line()).await.expect("it tells in time").unwrap().expect("it waits");
    assert!(told.contains("waiting for it") && told.contains(&reason.replace('"', "\\\"")), "{told}");
    waiting.kill().await.unwrap();

    let mut doctor = place.command(&["doctor", "--json"]);
    doctor.env("POSTHASTE_DATABASE", &role.url);
    let told: Value = serde_json::from_slice(&output(doctor).await.stdout).unwrap();
    let found = told["findings"].as_array().unwrap().iter().find(|it| it["check"] == "schema").unwrap();
    assert!(found["detail"].as_str().unwrap().contains(&reason), "{found}");
    role.forget().await;
}

#[tokio::test]
async fn a_start_that_fails_leaves_no_folder_that_it_made() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let fails: [&[&str]; 3] = [
        &["serve", "--listen", "127.0.0.1:0"],
        &["serve", "--dev", "--listen", &taken],
        &[
            "serve",
            "--dev",
            "--listen",
            "127.0.0.1:0",
            "--database",
            "postgres://nobody@127.0.0.1:1/x?sslmode=no",
        ],
    ];
    for arguments in fails {
        let place = Place::new();
        let refused = place.run(arguments).await;
        assert!(!refused.status.success());
        assert!(!place.data_dir().exists(), "{arguments:?}");

        let deep = place.run(&[arguments, &["--data-dir", "a/b/c"]].concat()).await;
        assert!(!deep.status.success() && !place.path().join("a").exists(), "{arguments:?}");

        fs::create_dir_all(place.path().join("a/b")).unwrap();
        fs::write(place.path().join("a/kept"), "").unwrap();
        place.run(&[arguments, &["--data-dir", "a/b"]].concat()).await;
        assert!(place.path().join("a/b").exists(), "what was there stays: {arguments:?}");
    }
}

#[tokio::test]
async fn a_start_that_fails_takes_nothing_from_an_installation() {
    let place = Place::new();
    let mut node = place.dev().await;
    assert!(node.signal("TERM").await.success());
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    assert!(!place.run(&["serve", "--dev", "--listen", &address]).await.status.success());
    let key = node.key();
    assert_eq!(place.dev().await.key(), key);
}

#[tokio::test]
async fn a_reader_that_has_gone_is_a_quiet_end() {
    let place = Place::new();
    assert!(place.run(&["migrate"]).await.status.success());
    let commands: [&[&str]; 6] = [
        &["doctor"],
        &["doctor", "--json"],
        &["config", "show"],
        &["config", "template"],
        &["keys", "master"],
        &["migrate"],
    ];
    for arguments in commands {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let mut command = place.command(arguments);
        let running = command.stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        let ended = timeout(LONG, running.wait_with_output()).await.expect("it ends").unwrap();
        assert_eq!(text(&ended.stderr), "", "{arguments:?}");
        assert_eq!(ended.status.code(), Some(141), "{arguments:?}");
    }

    let doctor = format!("{} doctor 2>&1 | head -1", env!("CARGO_BIN_EXE_posthaste"));
    let mut piped = tokio::process::Command::new("sh");
    piped.args(["-c", &doctor]).current_dir(place.path()).env_remove("POSTHASTE_TEST_POSTGRES");
    let piped = output(piped).await;
    assert_eq!(text(&piped.stdout).lines().count(), 1, "{piped:?}");
    assert!(!text(&piped.stderr).contains("panicked"), "{piped:?}");
}

#[tokio::test]
async fn a_server_whose_greeting_nobody_reads_serves() {
    let place = Place::on(Database::Sqlite);
    let listen =
        format!("127.0.0.1:{}", TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port());
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    let mut command = place.command(&["serve", "--dev", "--listen", &listen]);
    command.env("POSTHASTE_LOG", "info").stdout(writer).stderr(Stdio::piped());
    let mut node = command.spawn().unwrap();
    let mut lines = BufReader::new(node.stderr.take().unwrap()).lines();
    let serving = async {
        while let Ok(Some(line)) = lines.next_line().await {
            if line.contains("serving") {
                return true;
            }
        }
        false
    };
    assert!(timeout(LONG, serving).await.expect("it tells in time"));
    tokio::process::Command::new("kill").arg(node.id().unwrap().to_string()).status().await.unwrap();
    let ended = timeout(LONG, node.wait()).await.expect("it ends").unwrap();
    assert_eq!(ended.code(), Some(0), "by the signal, and not before");
}

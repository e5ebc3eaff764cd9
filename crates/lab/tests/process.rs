//! A child process can be started, awaited, frozen, killed and measured.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use lab::{ChildProcess, Receiver, Reply, Script};

fn log_file(test: &str) -> PathBuf {
    std::env::temp_dir().join(format!("lab-{}-{test}.log", std::process::id()))
}

/// A process that greets in its log and then sleeps; returned when it has greeted.
async fn sleeper(test: &str) -> ChildProcess {
    // `exec`, so that the signal reaches the sleeper and not a shell in front of it.
    let args = ["-c", "echo $GREETING; exec sleep 60"];
    let node = ChildProcess::start("sh", &args, &[("GREETING", "hello")], log_file(test)).unwrap();
    while !std::fs::read_to_string(node.log_file()).unwrap().contains("hello") {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    node
}

#[tokio::test]
async fn it_starts_logs_and_stops() {
    let mut node = sleeper("restart").await;
    assert!(node.is_running() && node.rss_bytes().unwrap() > 0);
    assert!(node.cpu_time().unwrap() < Duration::from_secs(1));
    assert!(node.stop(Duration::from_secs(5)).await.unwrap().is_some());
    assert!(!node.is_running());
    node.kill9().await.unwrap();
    std::fs::remove_file(node.log_file()).unwrap();
}

#[tokio::test]
async fn a_frozen_process_does_not_heed_a_polite_stop_but_dies_of_a_kill() {
    let mut node = sleeper("freeze").await;
    node.freeze().await.unwrap();
    assert_eq!(node.stop(Duration::from_millis(50)).await.unwrap(), None);
    node.kill9().await.unwrap();
    assert!(!node.is_running());
    std::fs::remove_file(node.log_file()).unwrap();
}

#[tokio::test]
async fn readiness_is_a_200_and_an_early_death_is_said_at_once() {
    let receiver = Receiver::local(Script::InTurn(vec![Reply::Close, Reply::status(503), Reply::ok()]));
    let mut node = sleeper("ready").await;
    let limit = Duration::from_secs(5);
    node.wait_until_serving(receiver.addr(), "/d/readyz", limit).await.unwrap();
    assert_eq!(receiver.total(), 3);

    let nobody: SocketAddr = ([127, 0, 0, 1], 1).into();
    let mut dead = ChildProcess::start("sh", &["-c", "exit 3"], &[], log_file("dead")).unwrap();
    let error = dead.wait_until_serving(nobody, "/healthz", limit).await.unwrap_err();
    assert!(error.to_string().contains('3'), "{error}");
    std::fs::remove_file(dead.log_file()).unwrap();
    std::fs::remove_file(node.log_file()).unwrap();
}

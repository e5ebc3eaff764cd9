//! What `serve` wants before it starts, and how it ends.

use crate::node::{LONG, Node, Place, deliver_to, ended, output, text};
use client::{Client, Publish};
use domain::delivery::Status;
use lab::{Receiver, Reply, Script};
use std::{
    fs,
    os::unix::fs::{MetadataExt as _, symlink},
    path::Path,
    time::{Duration, Instant},
};
use tokio::time::timeout;

#[tokio::test]
async fn without_a_master_key_it_says_how_to_make_one() {
    let refused = Place::new().run(&["serve", "--listen", "127.0.0.1:0"]).await;
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("posthaste keys master"), "{refused:?}");
}

#[tokio::test]
async fn a_malformed_bootstrap_key_is_refused_with_the_reason() {
    let place = Place::new();
    let master = place.line(&["keys", "master"]).await;
    let mut command = place.command(&["serve", "--listen", "127.0.0.1:0"]);
    command.env("POSTHASTE_MASTER_KEY", &master).env("POSTHASTE_BOOTSTRAP_API_KEY", "phk_letmein");
    let refused = output(command).await;
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("bootstrap.api_key is not a well-formed key"), "{refused:?}");
}

#[tokio::test]
async fn a_set_up_by_script_names_its_keys_beforehand() {
    let place = Place::new();
    let master = place.line(&["keys", "master"]).await;
    let api_key = place.line(&["keys", "generate"]).await;
    let operator_key = place.line(&["keys", "generate", "--kind", "operator"]).await;
    let serve = |master: &str| {
        let mut command = place.command(&["serve", "--listen", "127.0.0.1:0"]);
        command.env("POSTHASTE_MASTER_KEYS", master);
        command
            .env("POSTHASTE_BOOTSTRAP_API_KEY", &api_key)
            .env("POSTHASTE_BOOTSTRAP_OPERATOR_KEY", &operator_key);
        command
    };
    for _ in 0..2 {
        let mut node = Node::start(serve(&master)).await;
        assert!(Client::new(&node.url, &api_key).unwrap().own_account().await.is_ok());
        let accounts = Client::new(&node.url, &operator_key).unwrap().accounts(None).await.unwrap();
        assert_eq!(accounts.data.len(), 1);
        assert!(node.signal("TERM").await.success());
    }
    let other = place.line(&["keys", "master"]).await;
    let refused = output(serve(&other)).await;
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(text(&refused.stderr).contains("master key"), "{refused:?}");
}

#[tokio::test]
async fn a_second_process_on_the_same_folder_ends_with_code_5_within_two_seconds() {
    let place = Place::new();
    let node = place.dev().await;
    let started = Instant::now();
    let second = place.run(&["serve", "--dev", "--listen", "127.0.0.1:0"]).await;
    assert!(started.elapsed() < Duration::from_secs(2), "it took {:?}", started.elapsed());
    assert_eq!(second.status.code(), Some(5));
    assert!(text(&second.stderr).contains(&format!("in use by process {}", node.pid())), "{second:?}");
    assert!(node.client().own_account().await.is_ok(), "the first goes on");
}

#[tokio::test]
async fn a_second_process_is_refused_by_whatever_path_it_comes_and_takes_no_lock_away() {
    let place = Place::new();
    let node = place.dev().await;
    let (file, master) = (place.data_dir().join("posthaste.db"), place.line(&["keys", "master"]).await);
    symlink(place.data_dir(), place.path().join("folder")).unwrap();
    symlink(&file, place.path().join("link.db")).unwrap();
    fs::hard_link(&file, place.path().join("name.db")).unwrap();
    for path in ["posthaste-data/posthaste.db", "folder/posthaste.db", "link.db", "name.db"] {
        let database = format!("sqlite:{path}");
        let serve = ["serve", "--listen", "127.0.0.1:0", "--data-dir", "own", "--database", &database];
        let mut second = place.command(&serve);
        second.env("POSTHASTE_MASTER_KEYS", &master);
        let started = Instant::now();
        let second = output(second).await;
        assert!(started.elapsed() < Duration::from_secs(2), "{path}: it took {:?}", started.elapsed());
        assert_eq!(second.status.code(), Some(5), "{path}: {second:?}");
        assert!(text(&second.stderr).contains("is in use by"), "{path}: {second:?}");
    }
    for (command, code) in [
        (&["doctor", "--audit"][..], 0),
        (&["backup", "copy.db"], 0),
        (&["keys", "list"], 5),
        (&["migrate"], 5),
    ] {
        let ended = place.run(command).await;
        assert_eq!(ended.status.code(), Some(code), "{command:?}: {ended:?}");
    }
    node.client().readiness().await.unwrap();
    for name in ["posthaste.db", "posthaste.db-shm"] {
        assert!(
            has_record_lock(node.pid(), &place.data_dir().join(name)),
            "SQLite has lost its lock on {name}"
        );
    }
}

/// SQLite's own, as the system knows them: a process loses them when it closes any descriptor of the file.
fn has_record_lock(pid: u32, file: &Path) -> bool {
    let inode = fs::metadata(file).unwrap().ino();
    let (pid, file) = (pid.to_string(), format!(":{inode}"));
    fs::read_to_string("/proc/locks").unwrap().lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        matches!(&words[..], [_, "POSIX", _, _, by, of, ..] if *by == pid && of.ends_with(&file))
    })
}

#[tokio::test]
async fn sigterm_finishes_what_is_under_way_and_exits_0() {
    let place = Place::new();
    let mut node = place.dev().await;
    let receiver = Receiver::local(Reply::ok().after(Duration::from_millis(500)));
    let client = node.client();
    deliver_to(&client, &receiver.url("/hook")).await;
    let accepted = client.publish(&Publish::json("slow.one", "{}").unwrap()).await.unwrap();
    assert!(receiver.wait_for(1, LONG).await);

    assert_eq!(node.signal("TERM").await.code(), Some(0));
    assert_eq!(receiver.succeeded(), 1, "it waited for the answer");

    let node = place.dev().await;
    let deliveries = ended(&node.client(), accepted.id).await;
    assert_eq!((deliveries[0].status, deliveries[0].attempt_count), (Status::Delivered, 1));
    assert_eq!(receiver.total(), 1);
}

#[tokio::test]
async fn a_stop_is_told_to_the_balancer_before_the_door_is_shut() {
    let place = Place::new();
    let delay = Duration::from_secs(2);
    let serve = ["serve", "--dev", "--listen", "127.0.0.1:0", "--shutdown-delay", "2s"];
    let mut node = Node::start(place.command(&serve)).await;
    let client = node.client();
    assert!(client.readiness().await.unwrap().ready);
    let asked = Instant::now();
    node.tell("TERM").await;
    let not_ready = async {
        while client.readiness().await.expect("the door is open").ready {
            // There is no signal for it: a balancer asks again, too.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(delay, not_ready).await.expect("it is told at once");
    client.publish(&Publish::json("late.one", "{}").unwrap()).await.expect("what still comes is taken");
    assert!(asked.elapsed() < delay, "the machine is too slow for this test");
    assert_eq!(node.ended().await.code(), Some(0));
    assert!(asked.elapsed() >= delay, "{:?}", asked.elapsed());
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once() {
    let place = Place::new();
    let mut node = place.dev().await;
    let receiver = Receiver::local(Script::Always(Reply::Hang));
    let client = node.client();
    deliver_to(&client, &receiver.url("/hook")).await;
    client.publish(&Publish::json("hung.one", "{}").unwrap()).await.unwrap();
    assert!(receiver.wait_for(1, LONG).await);

    node.tell("TERM").await;
    // The first has been heard when it takes nobody new; a second before that would be the same one to the kernel.
    while client.readiness().await.is_ok_and(|readiness| readiness.ready) {}
    let started = Instant::now();
    assert_eq!(node.signal("INT").await.code(), Some(1));
    assert!(started.elapsed() < Duration::from_secs(5), "the destination's timeout was waited for");
}

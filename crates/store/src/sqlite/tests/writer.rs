//! Group commit: one flush for many, and everybody's trouble is their own.

use super::{
    super::{
        Trouble,
        writer::{FailOnPanic, Priority},
    },
    Fixture,
};
use crate::{Membership as _, StoreError};
use domain::limits;
use futures_util::FutureExt as _;
use rusqlite::Connection;
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use tokio::sync::oneshot;

fn put(connection: &Connection, name: &str) -> Result<(), Trouble> {
    connection.execute("insert into settings (name, value) values (?, x'')", [name])?;
    Ok(())
}

fn names(connection: &Connection) -> Vec<String> {
    let mut select = connection.prepare("select name from settings order by name").expect("a statement");
    let names = select.query_map([], |row| row.get(0)).expect("rows");
    names.collect::<Result<_, _>>().expect("names")
}

/// Keeps the writer busy until it is let go: what is asked for meanwhile forms one group.
struct Busy {
    let_go: mpsc::Sender<()>,
    done: tokio::task::JoinHandle<()>,
}

impl Busy {
    async fn keep(fixture: &Arc<Fixture>) -> Self {
        let (let_go, wait) = mpsc::channel::<()>();
        let (started, has_started) = oneshot::channel();
        let (fixture, mut started) = (fixture.clone(), Some(started));
        let done = tokio::spawn(async move {
            let held = fixture.store.write(Priority::Settle, move |_| {
                let _ = started.take().map(|started| started.send(()));
                let _ = wait.recv();
                Ok(())
            });
            held.await.expect("an empty job");
        });
        has_started.await.expect("the writer runs");
        Self { let_go, done }
    }

    async fn let_go(self) {
        self.let_go.send(()).expect("the writer waits");
        self.done.await.expect("the job ends");
    }
}

#[tokio::test]
async fn jobs_that_wait_share_one_transaction() {
    let fixture = Arc::new(Fixture::new().await);
    let busy = Busy::keep(&fixture).await;
    let outsider = fixture.path();
    let first = fixture.store.write(Priority::Api, |connection| put(connection, "first"));
    let second = fixture.store.write(Priority::Api, move |connection| {
        let outside = Connection::open(&outsider)?;
        Ok((names(connection), names(&outside)))
    });
    let (first, second, ()) = tokio::join!(first, second, busy.let_go());
    first.expect("the first job");
    let (inside, outside) = second.expect("the second job");
    assert_eq!((inside, outside), (vec!["first".to_owned()], vec![]), "seen before it was committed");
    assert_eq!(names(&fixture.outsider()), ["first"]);
}

#[tokio::test]
async fn settlements_go_first_then_events_then_the_api_then_bulk() {
    let fixture = Arc::new(Fixture::new().await);
    let busy = Busy::keep(&fixture).await;
    let order = Arc::new(Mutex::new(Vec::new()));
    let job = |turn: Priority| {
        let order = order.clone();
        fixture.store.write(turn, move |_| {
            order.lock().expect("nobody panics").push(turn);
            Ok(())
        })
    };
    let (a, b, c, d, ()) = tokio::join!(
        job(Priority::Bulk),
        job(Priority::Api),
        job(Priority::Ingest),
        job(Priority::Settle),
        busy.let_go()
    );
    for done in [a, b, c, d] {
        done.expect("an empty job");
    }
    assert_eq!(
        *order.lock().expect("nobody panics"),
        [Priority::Settle, Priority::Ingest, Priority::Api, Priority::Bulk]
    );
}

#[tokio::test]
async fn a_job_that_fails_does_not_fail_its_neighbours() {
    let fixture = Arc::new(Fixture::new().await);
    let busy = Busy::keep(&fixture).await;
    let before = fixture.store.write(Priority::Api, |connection| put(connection, "before"));
    let fails = fixture.store.write(Priority::Api, |connection| {
        put(connection, "half-done")?;
        put(connection, "before") // taken
    });
    let decides = fixture.store.write(Priority::Api, |connection| {
        put(connection, "undone")?;
        Err::<(), _>(StoreError::Changed.into())
    });
    let after = fixture.store.write(Priority::Api, |connection| put(connection, "after"));
    let (before, fails, decides, after, ()) = tokio::join!(before, fails, decides, after, busy.let_go());
    assert!(before.is_ok() && after.is_ok());
    assert!(matches!(fails, Err(StoreError::Refused(_))), "{fails:?}");
    assert!(matches!(decides, Err(StoreError::Changed)), "{decides:?}");
    assert_eq!(names(&fixture.outsider()), ["after", "before"]);
}

#[tokio::test]
async fn a_panic_is_answered_and_leaves_nothing_behind() {
    let fixture = Arc::new(Fixture::new().await);
    let busy = Busy::keep(&fixture).await;
    let panics = fixture.store.write(Priority::Api, |connection| -> Result<(), Trouble> {
        put(connection, "half-done")?;
        panic!("on purpose");
    });
    let after = fixture.store.write(Priority::Api, |connection| put(connection, "after"));
    let (panics, after, ()) = tokio::join!(panics, after, busy.let_go());
    assert!(
        matches!(&panics, Err(StoreError::Refused(why)) if why.to_string().contains("on purpose")),
        "{panics:?}"
    );
    after.expect("the neighbour");
    assert_eq!(names(&fixture.outsider()), ["after"]);
    fixture.store.health().await.expect("the store lives on");
}

/// Panics in the thread that drops it.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("planted");
    }
}

#[tokio::test]
async fn a_writer_that_dies_takes_the_store_along() {
    let fixture = Arc::new(Fixture::new().await);
    let busy = Busy::keep(&fixture).await;
    // Nobody waits for the answer, so it is dropped where it was made.
    assert!(fixture.store.write(Priority::Api, |_| Ok(Bomb)).now_or_never().is_none());
    busy.let_go().await;
    while fixture.store.writer.failed().is_none() {
        tokio::task::yield_now().await;
    }
    assert_eq!(fixture.store.writer.failed(), Some("the writer of the store panicked"));
    assert!(matches!(fixture.store.health().await, Err(StoreError::Failed(_))), "for ever");
}

#[test]
fn a_copier_that_dies_takes_the_store_along() {
    let failed = Arc::new(OnceLock::new());
    let guard = FailOnPanic { failed: failed.clone(), thread: "copier" };
    let thread = std::thread::spawn(move || {
        let _guard = guard;
        panic!("planted");
    });
    assert!(thread.join().is_err());
    assert_eq!(failed.get().map(String::as_str), Some("the copier of the store panicked"));
}

#[tokio::test]
async fn what_was_asked_for_is_written_before_the_file_is_closed() {
    let fixture = Fixture::new().await;
    let (path, folder) = (fixture.path(), fixture.folder);
    let store = Arc::new(fixture.store);
    let write = tokio::spawn({
        let store = store.clone();
        async move { store.write(Priority::Api, |connection| put(connection, "last")).await }
    });
    write.await.expect("no panic").expect("written");
    drop(store);
    assert_eq!(names(&Connection::open(&path).expect("the file is there")), ["last"]);
    drop(folder);
}

#[tokio::test]
async fn the_log_is_copied_beside_the_writer_and_begins_again() {
    let fixture = Fixture::new().await;
    let (log, page) = (fixture.folder.path().join("posthaste.db-wal"), 4_096_u64);
    let mut longest = 0;
    for n in 0..3 * limits::CHECKPOINT_PAGES / 64 {
        let write = move |connection: &Connection| {
            connection
                .execute("insert into settings (name, value) values (?, zeroblob(?))", (n, 64 * 4_096))?;
            Ok(())
        };
        fixture.store.write(Priority::Api, write).await.expect("there is room");
        longest = longest.max(std::fs::metadata(&log).expect("a log").len() / page);
    }
    let written = std::fs::metadata(fixture.path()).expect("a database").len() / page;
    // It is looked at after a few groups, and grows while it is being copied.
    let most = (limits::CHECKPOINT_PAGES_WAIT * 5 / 4) as u64;
    assert!(longest < most, "the log had {longest} pages");
    assert!(written > limits::CHECKPOINT_PAGES as u64, "{written} pages are in the database");
}

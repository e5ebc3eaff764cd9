//! Copies made beside the writer, and looks at the file from outside.

use super::{Fixture, NOW, open};
use crate::{
    Committed, EventFilter, History as _, Ingest as _, OpenOptions, Page, PreparedEvent,
    sqlite::{BackupError, Depth, backup, check_integrity, is_in_use},
};
use domain::{event::Event, limits};
use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    time::{Duration, Instant},
};

const LONG: Duration = Duration::from_secs(60);
const LARGE: usize = 512 * 1024;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_copy_made_while_events_come_in_opens_and_is_whole() {
    let fixture = Fixture::new().await;
    let account = fixture.account().await;
    let destination = fixture.destination(&account).await;
    let before = fixture.commit(&destination, 50).await.len();
    let copy = fixture.folder.path().join("copy.db");
    let path = fixture.path();
    let copying = {
        let copy = copy.clone();
        tokio::spawn(async move { backup(&path, &copy, |_| ()).await })
    };
    let mut after = 0;
    while !copying.is_finished() {
        let new = fixture.event(&destination, 3).await;
        assert_eq!(fixture.store.commit(&[new], NOW).await.expect("a commit"), [Committed::New]);
        after += 1;
    }
    let bytes = copying.await.expect("no panic").expect("a copy");
    assert_eq!(fs::metadata(&copy).expect("the copy").len(), bytes);
    assert_eq!(fs::metadata(&copy).expect("the copy").permissions().mode() & 0o777, 0o600);
    let beside = |name: &str| fixture.folder.path().join(name).exists();
    assert!(!beside("copy.db.part") && !beside("copy.db-wal") && !beside("copy.db-shm"));

    let restored = fixture.folder.path().join("restored");
    fs::create_dir(&restored).expect("a folder");
    fs::rename(&copy, restored.join("posthaste.db")).expect("it moves");
    let store = open(&restored.join("posthaste.db"), false).await.expect("the copy opens");
    let page = Page { before: None, limit: 200 };
    let events = store.events(account.id, &EventFilter::default(), page).await.expect("its events").rows;
    let deliveries: u32 = events.iter().map(|event| event.fanout.total).sum();
    assert!(deliveries as usize >= before && deliveries as usize <= before + 3 * after, "{deliveries}");
    assert!(events.iter().all(|event| event.fanout.total == event.fanout.waiting), "whole fan-outs");
}

#[tokio::test]
async fn a_snapshot_that_is_held_holds_up_no_event() {
    let fixture = Fixture::new().await;
    let destination = fixture.destination(&fixture.account().await).await;
    let reader = fixture.outsider();
    reader.execute_batch("begin; select count(*) from events").expect("a snapshot");
    // The log grows past the length at which the writer would have it begin again.
    let pages = limits::CHECKPOINT_PAGES_WAIT as usize + 2_000;
    let mut slowest = Duration::ZERO;
    for _ in 0..pages * 4096 / LARGE {
        let mut new = fixture.event(&destination, 1).await;
        new.event = PreparedEvent::new(Event { payload: vec![7; LARGE].into(), ..Event::clone(&new.event) });
        let began = Instant::now();
        assert_eq!(fixture.store.commit(&[new], NOW).await.expect("a commit"), [Committed::New]);
        slowest = slowest.max(began.elapsed());
    }
    drop(reader);
    assert!(slowest < Duration::from_secs(3), "{slowest:?}");
}

#[tokio::test]
async fn a_copy_overwrites_nothing_and_leaves_nothing_behind() {
    let fixture = Fixture::new().await;
    let copy = fixture.folder.path().join("copy.db");
    fs::write(&copy, "dear").expect("a file");
    let refused = backup(&fixture.path(), &copy, |_| ()).await;
    assert!(matches!(refused, Err(BackupError::Exists(_))), "{refused:?}");
    assert_eq!(fs::read(&copy).expect("the file"), b"dear");
    assert!(!fixture.folder.path().join("copy.db.part").exists());

    // What a killed one has left is nobody's.
    let copy = fixture.folder.path().join("other.db");
    fs::write(fixture.folder.path().join("other.db.part"), [7; 100_000]).expect("a part");
    backup(&fixture.path(), &copy, |_| ()).await.expect("a copy");
    assert!(!fixture.folder.path().join("other.db.part").exists());
    let nowhere = fixture.folder.path().join("no/such/folder/copy.db");
    assert!(matches!(backup(&fixture.path(), &nowhere, |_| ()).await, Err(BackupError::Io { .. })));
}

#[tokio::test]
async fn a_damaged_file_is_named_and_not_copied() {
    let path = damaged().await;
    let copy = path.1.with_file_name("copy.db");
    let refused = backup(&path.1, &copy, |_| ()).await;
    assert!(matches!(refused, Err(BackupError::Damaged(_))), "{refused:?}");
    assert!(!copy.exists() && !path.1.with_file_name("copy.db.part").exists());
    for depth in [Depth::Whole, Depth::ByTable] {
        let found = check_integrity(&path.1, depth, LONG, |_, _, _| ()).await.expect("an examination");
        assert!(!found.damage.is_empty(), "{found:?}");
    }
}

#[tokio::test]
async fn a_look_beside_the_store_finds_it_whole_and_has_an_end() {
    let fixture = Fixture::new().await;
    let destination = fixture.destination(&fixture.account().await).await;
    fixture.commit(&destination, 50).await;
    for depth in [Depth::Whole, Depth::ByTable] {
        let found =
            check_integrity(&fixture.path(), depth, LONG, |_, _, _| ()).await.expect("an examination");
        assert!(found.damage.is_empty() && found.unfinished.is_empty(), "{found:?}");
        assert!(found.pages > 10 && found.page_bytes == 4096, "{found:?}");
        let hasty =
            check_integrity(&fixture.path(), depth, Duration::ZERO, |_, _, _| ()).await.expect("an end");
        assert!(!hasty.unfinished.is_empty(), "{hasty:?}");
    }
    let url = format!("sqlite:{}?synchronous=off", fixture.path().display());
    let options = OpenOptions { url, pool: 1, listen_url: None, accept_data_loss: false };
    let store = crate::open_read_only(&options).await.expect("a store");
    let schema = store.schema().await.expect("its schema");
    assert!(schema.found == crate::FoundTables::Version(schema.known) && schema.known > 0, "{schema:?}");
    assert_eq!(store.setting("no such").await.expect("none"), None);
    let settings: Vec<String> =
        store.unsafe_settings().await.expect("its settings").into_iter().map(|found| found.setting).collect();
    assert_eq!(settings, ["synchronous = off"]);
    assert!(!store.audit_roster().await.expect("the roster").has_workers());
}

#[tokio::test]
async fn a_file_is_in_use_as_long_as_a_process_has_it_whatever_its_rows_say() {
    let Fixture { store, folder } = Fixture::new().await;
    let path = folder.path().join("posthaste.db");
    assert!(is_in_use(&path));
    drop(store);
    assert!(!is_in_use(&path));
    assert!(!is_in_use(&folder.path().join("copy.db")));
}

/// A store whose table of events is damaged, and the folder it lives in.
async fn damaged() -> (tempfile::TempDir, PathBuf) {
    let fixture = Fixture::new().await;
    let destination = fixture.destination(&fixture.account().await).await;
    fixture.commit(&destination, 50).await;
    let path = fixture.path();
    let root: i64 = fixture
        .outsider()
        .query_row("select rootpage from sqlite_schema where name = 'queue'", [], |row| row.get(0))
        .expect("a root page");
    let Fixture { store, folder } = fixture;
    drop(store);
    let log = rusqlite::Connection::open(&path).expect("the file");
    log.query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(())).expect("the log is copied");
    drop(log);
    let mut bytes = fs::read(&path).expect("the file");
    let at = (root as usize - 1) * 4096;
    bytes[at + 3] ^= 0x10; // the number of its cells
    fs::write(&path, bytes).expect("the damage");
    (folder, path)
}

//! How much waits is known across restarts and is not spoiled by what was rolled back.

use super::{Fixture, open};
use crate::{AccountBacklog, Backlogs as _};
use std::time::Duration;

#[tokio::test]
async fn what_waited_before_is_counted_after_a_restart() {
    let fixture = Fixture::new().await;
    let account = fixture.account().await;
    let destination = fixture.destination(&account).await;
    fixture.commit(&destination, 3).await;
    let before = fixture.store.account_backlogs(10).await.expect("a look");
    assert_eq!(
        before.iter().map(|backlog| (backlog.account_id, backlog.rows)).collect::<Vec<_>>(),
        [(account.id, 3)]
    );

    let (path, Fixture { store, folder }) = (fixture.path(), fixture);
    drop(store);
    let fixture = Fixture { store: open(&path, false).await.expect("opened again"), folder };
    fixture.commit(&destination, 2).await;
    let per_row = before[0].bytes / 3;
    let expected = AccountBacklog { account_id: account.id, rows: 5, bytes: 5 * per_row };
    let counted = async {
        while fixture.store.account_backlogs(10).await.expect("a look") != [expected] {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), counted).await.expect("it is counted in the end");
}

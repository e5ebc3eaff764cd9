//! How much waits, by account. Few rows are counted by every store; only many are estimated by some.

use crate::fixtures::*;
use domain::{account::Account, event::Event, id::AttemptId, testing::audit_entry};
use store::AccountBacklog;

async fn check(world: &World, limit: usize, expected: &[(&Account, u64, u64)]) {
    let backlog = |(account, rows, bytes): &(&Account, u64, u64)| AccountBacklog {
        account_id: account.id,
        rows: *rows,
        bytes: *bytes,
    };
    let expected: Vec<_> = expected.iter().map(backlog).collect();
    assert_eq!(world.store.account_backlogs(limit).await.unwrap(), expected);
}

fn of_size(account: &Account, bytes: usize) -> Event {
    Event { payload: vec![b'x'; bytes].into(), ..event(account, at(1)) }
}

pub(crate) async fn backlogs_are_told_by_account_largest_first(world: World) {
    check(&world, 10, &[]).await;
    let (few, many) = (world.ground().await, world.ground().await);
    world.account().await;
    world.commit_event(of_size(&few.account, 1_000), &[&few.route]).await;
    world.commit_event(of_size(&many.account, 10), &[&many.route, &many.route]).await;
    world.commit_event(of_size(&many.account, 5), &[&many.route]).await;
    check(&world, 10, &[(&many.account, 3, 25), (&few.account, 1, 1_000)]).await;
    check(&world, 1, &[(&many.account, 3, 25)]).await;
}

pub(crate) async fn what_ends_waits_no_more(world: World) {
    let Ground { account, route, .. } = world.ground().await;
    let waiting = world.commit_event(of_size(&account, 100), &[&route, &route, &route, &route]).await;
    world.move_on(retried(&waiting[0], at(2), at(9))).await;
    check(&world, 10, &[(&account, 4, 400)]).await;
    world.move_on(delivered(&waiting[1], at(2))).await;
    world.move_on(rejected(&waiting[2], at(2))).await;
    check(&world, 10, &[(&account, 2, 200)]).await;
    let fact = AttemptId::at(at(3), chance());
    world
        .store
        .cancel(account.id, waiting[3].id, fact, at(3), &audit_entry())
        .await
        .unwrap()
        .expect("it waited");
    check(&world, 10, &[(&account, 1, 100)]).await;
}

//! Room that is given back, and steps that are short.

use super::{Fixture, NOW};
use crate::{
    Chore, Chores as _, EventWalk, Ingest as _, PreparedEvent, Retention as _, Term,
    sqlite::{
        history::INCOMPLETE_EVENTS,
        retention::{ENDED_OF_EVENTS, IS_NEEDED, MADE, OLD_EVENTS, OLD_FACTS, OLD_REPLAYS},
    },
};
use domain::{
    event::Event,
    id::{EventId, NodeId},
    limits,
};
use std::time::Duration;

#[tokio::test]
async fn a_new_file_gives_its_room_back() {
    let fixture = Fixture::new().await;
    let account = fixture.account().await;
    let destination = fixture.destination(&account).await;
    // Some sixteen megabytes.
    for _ in 0..16 {
        let mut batch = Vec::new();
        for _ in 0..256 {
            let mut new = fixture.event(&destination, 0).await;
            // Of noise nothing is saved by packing it.
            let noise: Vec<u8> = (0..500).flat_map(|_| rand::random::<u64>().to_le_bytes()).collect();
            new.event = PreparedEvent::new(Event { payload: noise.into(), ..Event::clone(&new.event) });
            batch.push(new);
        }
        fixture.store.commit(&batch, NOW).await.expect("committed");
    }
    let pages = |name: &str| -> i64 {
        fixture.outsider().pragma_query_value(None, name, |row| row.get(0)).expect("a number")
    };
    assert_eq!(pages("auto_vacuum"), 2);
    let full = pages("page_count");
    let (events, rows) = fixture.store.prune_step();
    let (account_id, before) = (account.id, NOW.plus(Duration::from_secs(1)));
    let mut walk = EventWalk { account_id, from: EventId::MIN, before, events, rows };
    while let Some(next) = fixture.store.prune_events(term(&fixture).await, walk).await.unwrap().unwrap().next
    {
        walk.from = next;
    }
    assert!(pages("freelist_count") > full / 2, "nothing is left");
    let mut steps = 1;
    while fixture.store.give_room_back().await.expect("given") {
        steps += 1;
    }
    let left = pages("page_count");
    let most = (full - left) / i64::from(limits::VACUUM_PAGES) + 2;
    assert!(steps <= most, "{steps} steps for {} pages", full - left);
    assert!(left < full / 2 && left >= limits::VACUUM_KEPT_PAGES, "{full} pages became {left}");
}

#[tokio::test]
async fn what_is_looked_for_is_found_by_keys() {
    let fixture = Fixture::new().await;
    for sql in [OLD_EVENTS, IS_NEEDED, ENDED_OF_EVENTS, OLD_FACTS, OLD_REPLAYS, MADE, INCOMPLETE_EVENTS] {
        let outsider = fixture.outsider();
        let mut select = outsider.prepare(&format!("explain query plan {sql}")).expect("a statement");
        let nothing = vec![rusqlite::types::Null; select.parameter_count()];
        let steps = select
            .query_map(rusqlite::params_from_iter(nothing), |row| row.get::<_, String>(3))
            .expect("a plan");
        for step in steps {
            let step = step.expect("a step");
            assert!(!step.starts_with("SCAN e") && !step.contains("TEMP B-TREE"), "{sql}: {step}");
        }
    }
}

async fn term(fixture: &Fixture) -> Term {
    let taken = fixture.store.take_chore(Chore::Prune, NodeId::MIN, NOW, limits::LEASE).await;
    taken.expect("no trouble").expect("we are alone")
}

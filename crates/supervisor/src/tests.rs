use super::*;
use std::{
    sync::{
        Mutex,
        atomic::{AtomicU32, AtomicUsize},
    },
    time::Duration,
};
use tokio::{sync::Notify, time::sleep};

/// Panics at these hits of a loop's failpoint, counted from 1.
fn dying(id: Loop, at: &'static [usize]) -> Supervisor {
    let hits = AtomicUsize::new(0);
    Supervisor::with_failpoint(move |reached| {
        if reached == id && at.contains(&(hits.fetch_add(1, Ordering::SeqCst) + 1)) {
            panic!("planted");
        }
    })
}

#[test]
fn every_loop_has_its_line_and_a_name_of_its_own() {
    for (place, entry) in TABLE.iter().enumerate() {
        assert_eq!(entry.id as usize, place, "{}", entry.name);
        assert!(TABLE.iter().filter(|other| other.name == entry.name).count() == 1, "{}", entry.name);
    }
}

#[tokio::test(start_paused = true)]
async fn a_loop_that_panics_is_down_for_a_pause_and_then_made_again() {
    let supervisor = dying(Loop::Expander, &[2]);
    let (stop, turns) = (CancellationToken::new(), Arc::new(AtomicU32::new(0)));
    let lives = Arc::new(Mutex::new(Vec::new()));
    let task = supervisor.start(Loop::Expander, &stop, {
        let (turns, lives) = (turns.clone(), lives.clone());
        move |life| {
            lives.lock().unwrap().push(life);
            let turns = turns.clone();
            async move {
                loop {
                    failpoint();
                    turns.fetch_add(1, Ordering::SeqCst);
                    sleep(Duration::from_secs(1)).await;
                }
            }
        }
    });
    sleep(Duration::from_millis(900)).await;
    assert!(supervisor.down().is_empty());
    sleep(Duration::from_millis(150)).await;
    assert_eq!(supervisor.down(), ["expander"]);
    sleep(Duration::from_millis(100)).await;
    assert!(supervisor.down().is_empty());
    assert_eq!((turns.load(Ordering::SeqCst), supervisor.deaths(Loop::Expander)), (2, 1));
    assert_eq!(*lives.lock().unwrap(), [Life::First, Life::Again]);
    let mut text = Text::default();
    supervisor.write(&mut text);
    assert!(
        text.as_str().contains("posthaste_loop_deaths_total{loop=\"expander\"} 1\n"),
        "{}",
        text.as_str()
    );
    assert!(text.as_str().contains("posthaste_loop_deaths_total{loop=\"rescan\"} 0\n"), "{}", text.as_str());
    stop.cancel();
    task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_loop_that_returns_before_the_stop_has_died_too() {
    let supervisor = Supervisor::default();
    let stop = CancellationToken::new();
    let task = supervisor.start(Loop::Prune, &stop, |_| async {});
    assert_eq!(supervisor.failed().await, "prune died 5 times within 10 minutes");
    task.await.unwrap();
    assert_eq!((supervisor.deaths(Loop::Prune), supervisor.down()), (5, vec!["prune"]));
}

#[tokio::test(start_paused = true)]
async fn the_node_ends_with_a_loop_that_cannot_be_made_again() {
    let supervisor = dying(Loop::Settler, &[1]);
    let task = supervisor.start_once(Loop::Settler, &CancellationToken::new(), async { failpoint() });
    assert_eq!(supervisor.failed().await, "settler panicked");
    task.await.unwrap();
    assert_eq!(supervisor.down(), ["settler"]);
    supervisor.start_once(Loop::Owner, &CancellationToken::new(), async {}).await.unwrap();
    assert_eq!(supervisor.failed().await, "settler panicked", "the first reason is the reason");
    assert_eq!(supervisor.down(), ["settler", "owner"]);
}

#[tokio::test(start_paused = true)]
async fn what_ends_after_the_stop_has_not_died() {
    let supervisor = Supervisor::default();
    let stop = CancellationToken::new();
    let once = supervisor.start_once(Loop::Dispatcher, &stop, stop.clone().cancelled_owned());
    let again = supervisor.start(Loop::Rescan, &stop, |_| std::future::pending());
    stop.cancel();
    once.await.unwrap();
    again.await.unwrap();
    assert!(supervisor.down().is_empty());
    assert_eq!(supervisor.failed().now_or_never(), None);
}

#[tokio::test(start_paused = true)]
async fn a_loop_that_dies_while_it_drains_is_made_again_at_once() {
    let supervisor = dying(Loop::Committer, &[1]);
    let (stop, left) = (CancellationToken::new(), Arc::new(AtomicU32::new(3)));
    let drained = Arc::new(Notify::new());
    let task = supervisor.start_draining(Loop::Committer, &stop, {
        let (stop, left, drained) = (stop.clone(), left.clone(), drained.clone());
        move |_| {
            let (stop, left, drained) = (stop.clone(), left.clone(), drained.clone());
            async move {
                stop.cancelled().await;
                failpoint();
                while left.load(Ordering::SeqCst) > 0 {
                    left.fetch_sub(1, Ordering::SeqCst);
                }
                drained.notify_one();
            }
        }
    });
    let begun = Instant::now();
    stop.cancel();
    drained.notified().await;
    task.await.unwrap();
    assert_eq!((supervisor.deaths(Loop::Committer), begun.elapsed()), (1, Duration::ZERO));
}

#[test]
fn outside_of_a_loop_a_failpoint_is_nothing() {
    failpoint();
}

//! Do the stores differ? Random operations, drawn from a seed, are done to memory, SQLite and PostgreSQL alike; every
//! answer must be the same, and at the end all that can be read.
//!
//! `POSTHASTE_SEQUENCES` says how many sequences to try (a few by default, 10,000 by hand); a difference prints its
//! seed, and `POSTHASTE_SEED` tries that one alone. Each sequence has accounts of its own and leaves nothing waiting,
//! so that it fails by itself as it failed among others (on the same day: ids and partitions go by the date).

#[path = "conformance/backend.rs"]
#[expect(dead_code, reason = "the conformance suite uses more of it")]
mod backend;
#[path = "conformance/fixtures.rs"]
#[expect(dead_code, reason = "the conformance suite uses more of them")]
mod fixtures;
#[path = "differential/operation.rs"]
mod operation;
#[path = "differential/player.rs"]
mod player;

use backend::{Backend, Opened};
use operation::Operation;
use player::Player;
use std::env;
use store::Store;

const SEQUENCES: u64 = 80;
const OPERATIONS: usize = 30;
/// Most of the time goes into flushes, and these can overlap.
const WORKERS: usize = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_sqlite_and_postgres_give_the_same_answers() {
    let number = |name: &str| env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let seeds = match number("POSTHASTE_SEED") {
        Some(seed) => vec![seed],
        None => (0..number("POSTHASTE_SEQUENCES").unwrap_or(SEQUENCES)).map(|_| rand::random()).collect(),
    };
    let shares =
        seeds.chunks(seeds.len().div_ceil(WORKERS)).map(|share| tokio::spawn(try_all(share.to_vec())));
    for share in shares.collect::<Vec<_>>() {
        if let Err(difference) = share.await.expect("no panic") {
            panic!("{difference}");
        }
    }
}

/// Tries one sequence after the other on stores of their own.
async fn try_all(seeds: Vec<u64>) -> Result<(), String> {
    let stores = Stores::open().await;
    let mut tried = Ok(());
    for seed in seeds {
        tried = stores.try_sequence(seed).await;
        if tried.is_err() {
            break;
        }
    }
    stores.close().await;
    tried
}

/// All three; the first is the specification.
struct Stores([Opened; 3]);

impl Stores {
    async fn open() -> Self {
        let opened = [Backend::Memory, Backend::Sqlite, Backend::Postgres].map(Opened::new);
        let [memory, sqlite, postgres] = opened;
        Self([memory.await, sqlite.await, postgres.await])
    }

    async fn close(self) {
        for opened in self.0 {
            opened.clean_up().await;
        }
    }

    /// The first difference, if there is any.
    async fn try_sequence(&self, seed: u64) -> Result<(), String> {
        let [memory, ..] = &self.0;
        let mut player = Player::new(seed);
        let mut played: Vec<Operation> = Vec::new();
        let opening = player.opening();
        let outcome = async {
            for operation in opening {
                played.push(operation);
                self.same_answers(played.last().expect("just pushed")).await?;
            }
            for _ in 0..OPERATIONS {
                played.push(player.next(memory.store.as_ref()).await);
                self.same_answers(played.last().expect("just pushed")).await?;
            }
            for operation in player.closing(memory.store.as_ref()).await {
                played.push(operation);
                self.same_answers(played.last().expect("just pushed")).await?;
            }
            Ok(())
        };
        outcome.await.map_err(|difference: String| {
            let story: Vec<String> = played.iter().map(Operation::name).collect();
            format!("POSTHASTE_SEED={seed} after {}:\n{difference}", story.join(", "))
        })
    }

    async fn same_answers(&self, operation: &Operation) -> Result<(), String> {
        let [memory, others @ ..] = &self.0;
        let expected = perform(memory, operation).await;
        for other in others {
            let answer = perform(other, operation).await;
            if answer != expected {
                let backend = format!("{:?}", other.backend);
                return Err(format!("{operation:?}\n  Memory: {expected}\n{backend:>8}: {answer}"));
            }
        }
        Ok(())
    }
}

async fn perform(opened: &Opened, operation: &Operation) -> String {
    let store: &dyn Store = opened.store.as_ref();
    operation.perform(store, opened.node.id).await
}

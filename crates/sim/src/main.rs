//! Runs many worlds and says what they found.

use anyhow::{Context, bail};
use clap::Parser;
use sim::{Options, PlantedBug, WorldReport, run};
use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Instant,
};

#[derive(Parser)]
#[command(
    about = "Worlds from seeds, around the real engine: prints one line of JSON, exits with 1 on a broken promise"
)]
struct Arguments {
    /// How many worlds.
    #[arg(long, default_value_t = 20_000)]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// This one only.
    #[arg(long)]
    seed: Option<u64>,
    /// Tell the story of the seed.
    #[arg(long)]
    trace: bool,
    /// With a bug planted.
    #[arg(long)]
    plant: Option<String>,
    /// Look for planted bugs: `all`, or the name of one; each must be found within 2,000 worlds.
    #[arg(long)]
    planted: Option<String>,
    /// On real SQLite instead of the memory store.
    #[arg(long)]
    sqlite: bool,
    #[arg(long, default_value_t = 2)]
    threads: usize,
}

/// Within so many worlds a planted bug must show.
const PLANTED_SEEDS: u64 = 2_000;
/// Every so many worlds one is told twice.
const TWICE: u64 = 100;
/// So many of the worlds that broke a promise are named.
const FAILURES_SHOWN: usize = 50;

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let plant = arguments.plant.as_deref().map(named).transpose()?;
    let options = Options { plant, sqlite: arguments.sqlite, ..Options::default() };
    if let Some(which) = &arguments.planted {
        return find_planted(which, &arguments);
    }
    if let Some(seed) = arguments.seed {
        return one(seed, options, arguments.trace);
    }
    let summary = many(arguments.from, arguments.seeds, options, arguments.threads, false);
    println!("{}", summary.json());
    for (seed, what) in summary.failures.iter().take(FAILURES_SHOWN) {
        eprintln!("seed {seed}: {what}");
    }
    if let Some(seed) = summary.failures.keys().next() {
        bail!("promises were broken; again: cargo run --release -p sim -- --seed {seed} --trace");
    }
    Ok(())
}

fn named(name: &str) -> anyhow::Result<PlantedBug> {
    let names = || PlantedBug::ALL.iter().map(|plant| plant.name()).collect::<Vec<_>>().join(", ");
    PlantedBug::named(name).with_context(|| format!("no such bug; there are: {}", names()))
}

fn one(seed: u64, options: Options, trace: bool) -> anyhow::Result<()> {
    let told = run(seed, options, trace);
    for line in &told.lines {
        println!("{line}");
    }
    for violation in &told.violations {
        println!("{violation} (at {:.3} ms)", violation.at as f64 / 1e3);
    }
    println!("hash {:016x}, {:.1} s", told.hash, told.lasted as f64 / 1e6);
    if told.violations.is_empty() { Ok(()) } else { bail!("{} promises broken", told.violations.len()) }
}

fn find_planted(which: &str, arguments: &Arguments) -> anyhow::Result<()> {
    let plants = if which == "all" { PlantedBug::ALL.to_vec() } else { vec![named(which)?] };
    let mut missed = Vec::new();
    for plant in plants {
        let options = Options { plant: Some(plant), sqlite: arguments.sqlite, ..Options::default() };
        let summary = many(arguments.from, PLANTED_SEEDS, options, arguments.threads, true);
        match summary.failures.first_key_value() {
            Some((seed, what)) => {
                println!("{:<24} found by seed {:>4}: {what}", plant.name(), seed - arguments.from)
            }
            None => {
                println!("{:<24} NOT found in {PLANTED_SEEDS} worlds", plant.name());
                missed.push(plant.name());
            }
        }
    }
    if missed.is_empty() { Ok(()) } else { bail!("not found: {}", missed.join(", ")) }
}

#[derive(Default)]
struct Summary {
    seeds: u64,
    violations: u64,
    twice: u64,
    seconds: f64,
    lasted: f64,
    counts: BTreeMap<&'static str, u64>,
    promises: BTreeMap<String, u64>,
    /// The seeds that broke a promise, and how.
    failures: BTreeMap<u64, String>,
}

impl Summary {
    fn add(&mut self, seed: u64, told: &WorldReport) {
        self.seeds += 1;
        self.lasted += told.lasted as f64 / 1e6;
        for (name, count) in &told.counts {
            *self.counts.entry(name).or_default() += count;
        }
        for violation in told.violations.iter().take(1) {
            *self.promises.entry(violation.promise.number()).or_default() += 1;
            self.failed(seed, violation.to_string());
        }
    }

    fn failed(&mut self, seed: u64, what: String) {
        self.violations += 1;
        self.failures.entry(seed).or_insert(what);
    }

    fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "check": "g01",
            "seeds": self.seeds,
            "violations": self.violations,
            "promises": self.promises,
            "told_twice": self.twice,
            "seconds": (self.seconds * 10.0).round() / 10.0,
            "seeds_per_second": (self.seeds as f64 / self.seconds).round(),
            "virtual_hours": (self.lasted / 360.0).round() / 10.0,
            "counts": self.counts,
        })
    }
}

fn many(from: u64, seeds: u64, options: Options, threads: usize, stop_at_first: bool) -> Summary {
    let (next, found) = (AtomicU64::new(from), AtomicBool::new(false));
    let summary = Mutex::new(Summary::default());
    let began = Instant::now();
    let work = || {
        loop {
            let seed = next.fetch_add(1, Relaxed);
            if seed >= from + seeds || (stop_at_first && found.load(Relaxed)) {
                return;
            }
            let told = run(seed, options, false);
            let twice = seed % TWICE == 0 && !options.sqlite;
            let differs = twice && run(seed, options, false).hash != told.hash;
            let mut summary = summary.lock().expect("never poisoned");
            summary.twice += u64::from(twice);
            summary.add(seed, &told);
            if differs {
                summary.failed(seed, "told twice, it is not the same story".into());
            }
            if !told.violations.is_empty() || differs {
                found.store(true, Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        (0..threads.max(1)).for_each(|_| drop(scope.spawn(work)));
    });
    let mut summary = summary.into_inner().expect("never poisoned");
    summary.seconds = began.elapsed().as_secs_f64();
    summary
}

//! What a bench ran on: without it, its figures say nothing.

use serde::{Deserialize, Serialize};
use std::fs;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Machine {
    pub(super) processor: String,
    pub(super) cores: usize,
    pub(super) memory_mib: u64,
    pub(super) kernel: String,
    pub(super) version: String,
}

impl Machine {
    pub(super) fn here() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let value = |text: &str, key: &str| {
            let line = text.lines().find(|line| line.starts_with(key));
            line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_owned())
        };
        let memory = value(&read("/proc/meminfo"), "MemTotal").unwrap_or_default();
        let kib: u64 = memory.trim_end_matches(" kB").parse().unwrap_or(0);
        Self {
            processor: value(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| "unknown".into()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_mib: kib / 1024,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

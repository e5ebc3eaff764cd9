//! Wall-clock microseconds that never jump: read once, then carried forward by the monotonic clock.
//!
//! Pump stamps a body with it and the receiver subtracts it, so within one process the difference is exact
//! even while a check shifts the system's clock.

use std::sync::OnceLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Microseconds since 1970, monotonic within this process.
pub fn unix_us() -> u64 {
    static ANCHOR: OnceLock<(Instant, u64)> = OnceLock::new();
    let (instant, unix) = ANCHOR.get_or_init(|| {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        (Instant::now(), since_epoch.as_micros() as u64)
    });
    unix + instant.elapsed().as_micros() as u64
}

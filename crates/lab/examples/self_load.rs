//! How much pump and receiver cost by themselves: the pump straight against the receiver.
//!
//! `cargo run --release -p lab --example self_load`

use std::time::Duration;

use lab::{PumpConfig, Receiver, Recording, Script, Target, Until, pump};

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    for (recording, connections) in
        [(Recording::Counts, 1), (Recording::Counts, 16), (Recording::Counts, 64), (Recording::Full, 64)]
    {
        let receiver = Receiver::start_with(([127, 0, 0, 1], 0).into(), Script::ok(), recording)?;
        let target = Target::Url(receiver.url("/d/x"));
        let mut config = PumpConfig::new(target, Until::Elapsed(Duration::from_secs(3)));
        config.connections = connections;
        config.keep_log = recording == Recording::Full;
        let report = pump::run(config).await?;
        println!("{recording:?}, {connections} connections: {report}");
        println!("  {:.1} µs of pump CPU an event, end to end {}", report.cpu_us_per_event(), {
            let end_to_end = receiver.end_to_end();
            format!("p50 {:?}, p99 {:?}", end_to_end.percentile(50.0), end_to_end.percentile(99.0))
        });
    }
    Ok(())
}

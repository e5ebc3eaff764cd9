//! Hazard: an event is acknowledged before it is on the disk.
//!
//! Load while strace watches every read and write of the node's sockets and every flush of its files.
//!
//! Holds if before every 202 written to a socket there is a flush of the log that began after the request was read
//! in full and had returned when the answer was written.

use std::collections::HashMap;

use crate::harness::prelude::*;
use crate::harness::strace::{Strace, SystemCall};

const WATCHED: &str = "trace=fdatasync,fsync,read,readv,recvfrom,recvmsg,write,writev,sendto,sendmsg";

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let testbed = TestbedPlan::new(options)?.start().await?;
    let source = RoutedSource::make(&testbed, 4, 4).await?;
    let strace = Strace::attach(&testbed, &["-e", WATCHED]).await?;
    let sent = Pump::start(source.pump(Until::Elapsed(options.seconds(20))).open(options.rate(50.0)))?
        .report()
        .await;
    testbed.quiesce(Duration::from_secs(30)).await?;
    let calls = strace.detach().await?;
    let seen = acknowledgements(&calls);
    report.note("accepted", sent.accepted);
    report.note("flushes", calls.iter().filter(|call| call.is_flush() && call.of_log()).count());
    report.must_be("acknowledgements_seen", seen.len(), sent.accepted);
    report.must_be("before_the_flush", seen.iter().filter(|flushed| !**flushed).count(), 0);
    report.must(sent.accepted > 0, "nothing was accepted");
    testbed.tear_down().await
}

/// For each 202 written: whether a flush lies between the end of its request and it.
fn acknowledgements(calls: &[SystemCall]) -> Vec<bool> {
    let flushes: Vec<&SystemCall> =
        calls.iter().filter(|call| call.is_flush() && call.of_log() && call.result == 0).collect();
    // Of each connection, where the last read of something had ended. Calls are in the order of their ends.
    let mut last_read: HashMap<&str, usize> = HashMap::new();
    let mut seen = Vec::new();
    for call in calls {
        let reads = matches!(call.name.as_str(), "read" | "readv" | "recvfrom" | "recvmsg");
        if reads && call.result > 0 {
            last_read.insert(call.descriptor(), call.ended);
        } else if !call.is_flush() && call.text.contains("\"HTTP/1.1 202") && call.result > 0 {
            let Some(read) = last_read.get(call.descriptor()).copied() else { continue };
            seen.push(flushes.iter().any(|flush| flush.began > read && flush.ended < call.began));
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, text: &str, began: usize, ended: usize) -> SystemCall {
        SystemCall { name: name.into(), text: text.into(), result: 1, began, ended, at_us: 0 }
    }

    #[test]
    fn a_flush_that_began_before_the_request_was_read_proves_nothing() {
        let flush =
            |began, ended| SystemCall { result: 0, ..call("fdatasync", "fdatasync(1<x-wal>)", began, ended) };
        let read = call("recvfrom", "recvfrom(5<TCP>, \"POST", 2, 2);
        let answer = call("sendto", "sendto(5<TCP>, \"HTTP/1.1 202", 6, 6);
        assert_eq!(acknowledgements(&[read.clone(), flush(3, 5), answer.clone()]), [true]);
        assert_eq!(acknowledgements(&[read.clone(), flush(1, 5), answer.clone()]), [false]);
        assert_eq!(acknowledgements(&[read, answer, flush(3, 7)]), [false]);
    }
}

//! Hazard: an event is acknowledged before it is on the disk.
//!
//! Load while strace watches every read and write of the node's sockets and every flush of its files.
//!
//! Holds if before every 202 written to a socket there is a flush of the log that began after the request was read
//! in full and had returned when the answer was written.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::Result;
use lab::{Pump, Until};

use crate::Ask;
use crate::harness::strace::{Call, Strace};
use crate::harness::{Fleet, Plan, Report, StoreKind};

const WATCHED: &str = "trace=fdatasync,fsync,read,readv,recvfrom,recvmsg,write,writev,sendto,sendmsg";

pub(crate) async fn run(ask: &Ask, store: StoreKind) -> Result<Report> {
    let mut report = Report::default();
    let stage = Plan::new(ask, store)?.start().await?;
    let fleet = Fleet::assemble(&stage, 4, 4).await?;
    let strace = Strace::attach(&stage, &["-e", WATCHED]).await?;
    let sent = Pump::start(fleet.pump(Until::Elapsed(ask.seconds(20))).open(ask.rate(50.0)))?.report().await;
    stage.quiesce(Duration::from_secs(30)).await?;
    let calls = strace.detach().await?;
    let seen = acknowledgements(&calls);
    report.note("accepted", sent.accepted);
    report.note("flushes", calls.iter().filter(|call| call.is_flush() && call.of_log()).count());
    report.exactly("acknowledgements_seen", seen.len() as u64, sent.accepted);
    report.exactly("before_the_flush", seen.iter().filter(|flushed| !**flushed).count() as u64, 0u64);
    report.must(sent.accepted > 0, "nothing was accepted");
    stage.strike().await?;
    Ok(report)
}

/// For each 202 written: whether a flush lies between the end of its request and it.
fn acknowledgements(calls: &[Call]) -> Vec<bool> {
    let flushes: Vec<&Call> =
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

    fn call(name: &str, text: &str, began: usize, ended: usize) -> Call {
        Call { name: name.into(), text: text.into(), result: 1, began, ended, at_us: 0 }
    }

    #[test]
    fn a_flush_that_began_before_the_request_was_read_proves_nothing() {
        let flush =
            |began, ended| Call { result: 0, ..call("fdatasync", "fdatasync(1<x-wal>)", began, ended) };
        let read = call("recvfrom", "recvfrom(5<TCP>, \"POST", 2, 2);
        let answer = call("sendto", "sendto(5<TCP>, \"HTTP/1.1 202", 6, 6);
        assert_eq!(acknowledgements(&[read.clone(), flush(3, 5), answer.clone()]), [true]);
        assert_eq!(acknowledgements(&[read.clone(), flush(1, 5), answer.clone()]), [false]);
        assert_eq!(acknowledgements(&[read, answer, flush(3, 7)]), [false]);
    }
}

//! Watching a node's system calls, and failing one of them.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use lab::ChildProcess;

use super::{Testbed, wait_until};

/// strace, attached to a testbed's node.
pub(crate) struct Strace {
    process: ChildProcess,
    output: PathBuf,
}

impl Strace {
    /// Follows all threads; `args` say which calls. Times are in the output, descriptors are shown with their file.
    pub(crate) async fn attach(testbed: &Testbed, args: &[&str]) -> Result<Strace> {
        let output = testbed.dir().join("strace.out");
        let (target, path) = (testbed.process()?.pid().to_string(), output.display().to_string());
        let mut all = vec!["-f", "-ttt", "-yy", "-s", "48", "-o", &path, "-p", &target];
        all.extend(args);
        let log = testbed.dir().join("strace.log");
        let mut process = ChildProcess::start("strace", &all, &[], &log)?;
        wait_until("strace is not attached", Duration::from_secs(10), 5, async || {
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            ensure!(process.is_running(), "strace could not attach: {said}");
            Ok(said.contains("attached"))
        })
        .await?;
        Ok(Strace { process, output })
    }

    /// Lets the node go.
    pub(crate) async fn detach(mut self) -> Result<Vec<SystemCall>> {
        self.process.stop(Duration::from_secs(10)).await?;
        self.calls()
    }

    /// What was seen so far.
    pub(crate) fn calls(&self) -> Result<Vec<SystemCall>> {
        Ok(parse(&std::fs::read_to_string(&self.output)?))
    }
}

/// A system call. `began` and `ended` are lines of the output: strace sees an effect after its cause, so their order
/// proves what clocks on several threads could not.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SystemCall {
    pub(crate) name: String,
    /// The whole text, arguments and result.
    pub(crate) text: String,
    pub(crate) result: i64,
    pub(crate) began: usize,
    pub(crate) ended: usize,
    /// When it ended or, if it was not interrupted, began; microseconds since 1970.
    pub(crate) at_us: u64,
}

impl SystemCall {
    /// The first argument, as shown: `9<TCP:[…]>`.
    pub(crate) fn descriptor(&self) -> &str {
        let arguments = self.text.split_once('(').map_or("", |(_, rest)| rest);
        arguments.split([',', ')']).next().unwrap_or("").trim()
    }

    pub(crate) fn is_flush(&self) -> bool {
        matches!(self.name.as_str(), "fdatasync" | "fsync")
    }

    pub(crate) fn of_log(&self) -> bool {
        self.descriptor().contains("-wal")
    }
}

fn parse(output: &str) -> Vec<SystemCall> {
    let mut open: HashMap<&str, (usize, String)> = HashMap::new();
    let mut calls = Vec::new();
    for (at, line) in output.lines().enumerate() {
        let Some((pid, rest)) = line.trim_start().split_once(char::is_whitespace) else { continue };
        let Some((time, text)) = rest.trim_start().split_once(char::is_whitespace) else { continue };
        if let Some(text) = text.strip_suffix("<unfinished ...>") {
            open.insert(pid, (at, text.to_owned()));
            continue;
        }
        let (began, text) = match text.strip_prefix("<... ").and_then(|rest| rest.split_once("resumed>")) {
            Some((_, rest)) => match open.remove(pid) {
                Some((began, first)) => (began, first + rest),
                None => continue,
            },
            None => (at, text.to_owned()),
        };
        let Some((name, _)) = text.split_once('(') else { continue };
        let result = text.rsplit_once(" = ").map_or("", |(_, result)| result);
        let result = result.split_whitespace().next().and_then(|number| number.parse().ok());
        let at_us = (time.parse::<f64>().unwrap_or(0.0) * 1e6) as u64;
        calls.push(SystemCall {
            name: name.into(),
            result: result.unwrap_or(-1),
            began,
            ended: at,
            at_us,
            text,
        });
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_call_is_put_together_again() {
        let calls = parse(
            "10 1.000001 fdatasync(7</d/posthaste.db-wal> <unfinished ...>\n\
             11 1.000002 sendto(9<TCP:[127.0.0.1:1->127.0.0.1:2]>, \"HTTP/1.1 202\", 12, 0, NULL, 0) = 12\n\
             10 1.000003 <... fdatasync resumed>) = -1 EIO (Input/output error) (INJECTED)\n",
        );
        assert_eq!(calls.len(), 2);
        assert_eq!((calls[0].name.as_str(), calls[0].result), ("sendto", 12));
        assert_eq!(calls[0].descriptor(), "9<TCP:[127.0.0.1:1->127.0.0.1:2]>");
        assert_eq!((calls[1].began, calls[1].ended, calls[1].result), (0, 2, -1));
        assert!(calls[1].is_flush() && calls[1].of_log());
    }
}

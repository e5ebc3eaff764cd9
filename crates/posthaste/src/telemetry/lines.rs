//! The way out for log lines: a bounded queue, and a thread that writes what is in it. A terminal, a pipe or a disk that
//! is slow costs lines and never a delivery; many lines are one write.

use domain::{limits, metrics::Counter};
use std::{
    io::{self, Write},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};
use tracing_subscriber::fmt::MakeWriter;

/// Lines that found no room.
pub(super) static DROPPED: Counter = Counter::new();

#[derive(Clone)]
pub(super) struct Lines {
    queue: SyncSender<LogEntry>,
    /// Bytes in the queue.
    waiting: Arc<AtomicUsize>,
    dropped: &'static Counter,
}

enum LogEntry {
    Line(Vec<u8>),
    /// Answered when everything before it has been written.
    Mark {
        done: SyncSender<()>,
        then: AfterMark,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum AfterMark {
    GoOn,
    /// Nothing is written after it.
    End,
}

/// Writes what is left when it is dropped.
pub(crate) struct Flush(Lines);

/// What is written at once, about.
const WRITE_BYTES: usize = 64 * 1024;
const LOOK_AGAIN: Duration = Duration::from_millis(5);

impl Lines {
    pub(super) fn start() -> io::Result<(Self, Flush)> {
        Self::to(io::stderr(), &DROPPED)
    }

    fn to(out: impl Write + Send + 'static, dropped: &'static Counter) -> io::Result<(Self, Flush)> {
        let (queue, entries) = sync_channel(limits::LOG_QUEUE);
        let waiting = Arc::<AtomicUsize>::default();
        let lines = Self { queue, waiting: Arc::clone(&waiting), dropped };
        thread::Builder::new().name("log".into()).spawn(move || write(&entries, &waiting, out))?;
        Ok((lines.clone(), Flush(lines)))
    }

    fn put(&self, line: &[u8]) {
        let before = self.waiting.fetch_add(line.len(), Ordering::Relaxed);
        let full = before > 0 && before + line.len() > limits::LOG_QUEUE_BYTES;
        let refused = if full {
            Some(None)
        } else {
            self.queue.try_send(LogEntry::Line(line.to_vec())).err().map(Some)
        };
        let Some(refused) = refused else { return };
        self.waiting.fetch_sub(line.len(), Ordering::Relaxed);
        match refused {
            // The process ends, and the thread that writes is gone.
            Some(TrySendError::Disconnected(_)) => drop(io::stderr().write_all(line)),
            Some(TrySendError::Full(_)) | None => self.dropped.add(1),
        }
    }
}

/// Ends with the queue, or when asked to. What cannot be written is lost: there is nowhere left to tell it.
fn write(entries: &Receiver<LogEntry>, waiting: &AtomicUsize, mut out: impl Write) {
    let mut text = Vec::new();
    while let Ok(first) = entries.recv() {
        let mut mark = None;
        let mut next = Some(first);
        while let Some(entry) = next {
            match entry {
                LogEntry::Line(line) => text.extend_from_slice(&line),
                LogEntry::Mark { done, then } => mark = Some((done, then)),
            }
            let more = mark.is_none() && text.len() < WRITE_BYTES;
            next = if more { entries.try_recv().ok() } else { None };
        }
        let _ = out.write_all(&text).and_then(|()| out.flush());
        waiting.fetch_sub(text.len(), Ordering::Relaxed);
        text.clear();
        if let Some((done, then)) = mark {
            let _ = done.send(());
            if then == AfterMark::End {
                return;
            }
        }
    }
}

impl Flush {
    /// Waits until everything that was said so far is written, for a reader of several streams; not for long.
    pub(crate) fn wait(&self) {
        self.until(AfterMark::GoOn);
    }

    fn until(&self, then: AfterMark) {
        let until = Instant::now() + limits::LOG_FLUSH;
        let (done, written) = sync_channel(1);
        // A full queue of a reader that hangs is not waited for any longer than that.
        while let Err(TrySendError::Full(_)) =
            self.0.queue.try_send(LogEntry::Mark { done: done.clone(), then })
        {
            if Instant::now() >= until {
                return;
            }
            thread::sleep(LOOK_AGAIN);
        }
        let _ = written.recv_timeout(until.saturating_duration_since(Instant::now()));
    }
}

impl Drop for Flush {
    fn drop(&mut self) {
        self.until(AfterMark::End);
    }
}

/// One line is one write.
impl<'a> MakeWriter<'a> for Lines {
    type Writer = &'a Self;

    fn make_writer(&'a self) -> &'a Self {
        self
    }
}

impl Write for &Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.put(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Condvar, Mutex};

    /// Takes nothing until it is told to.
    #[derive(Clone, Default)]
    struct Pipe(Arc<PipeState>);

    #[derive(Default)]
    struct PipeState {
        /// Open or not, and what went through.
        state: Mutex<(bool, Vec<u8>)>,
        changed: Condvar,
    }

    impl Pipe {
        fn open(&self) {
            self.0.state.lock().unwrap().0 = true;
            self.0.changed.notify_all();
        }

        fn text(&self) -> String {
            String::from_utf8(self.0.state.lock().unwrap().1.clone()).unwrap()
        }
    }

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let state = self.0.state.lock().unwrap();
            let mut state = self.0.changed.wait_while(state, |(open, _)| !*open).unwrap();
            state.1.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_hangs_costs_lines_and_no_time() {
        let pipe = Pipe::default();
        let (lines, flush) = Lines::to(pipe.clone(), Box::leak(Box::default())).unwrap();
        // Beyond the queue there is what the thread has in its hands.
        let count = (limits::LOG_QUEUE * 2 + WRITE_BYTES) as u64;
        for n in 0..count {
            (&lines).write_all(format!("{n}\n").as_bytes()).unwrap();
        }
        let dropped = lines.dropped.get();
        assert!((limits::LOG_QUEUE as u64..count).contains(&dropped), "{dropped}");
        pipe.open();
        drop(flush);
        let written: Vec<String> = pipe.text().lines().map(String::from).collect();
        assert_eq!(written.len() as u64, count - dropped);
        assert_eq!(written[0], "0");
        assert_eq!(lines.waiting.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn who_waits_finds_written_what_was_said_before_and_more_may_be_said() {
        let pipe = Pipe::default();
        pipe.open();
        let (lines, flush) = Lines::to(pipe.clone(), Box::leak(Box::default())).unwrap();
        for n in 0..50 {
            (&lines).write_all(format!("{n}\n").as_bytes()).unwrap();
            flush.wait();
            assert!(pipe.text().ends_with(&format!("{n}\n")));
        }
    }

    #[test]
    fn long_lines_are_bounded_by_their_bytes() {
        let pipe = Pipe::default();
        let (lines, flush) = Lines::to(pipe.clone(), Box::leak(Box::default())).unwrap();
        let line = vec![b'x'; limits::LOG_QUEUE_BYTES / 4];
        (0..20).for_each(|_| (&lines).write_all(&line).unwrap());
        assert!(lines.waiting.load(Ordering::Relaxed) <= limits::LOG_QUEUE_BYTES);
        pipe.open();
        drop(flush);
        assert_eq!(pipe.text().len() % line.len(), 0);
    }
}

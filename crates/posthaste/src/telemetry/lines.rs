//! The way out for log lines: a bounded text, and a thread that writes what has gathered in it. A terminal, a pipe or a disk
//! that is slow costs lines and never a delivery; many lines are one write.
//!
//! A line that comes alone is written at once; those that follow gather for a few milliseconds, and nobody has to wake the
//! thread for them.

use domain::{limits, metrics::Counter};
use std::{
    io::{self, Write},
    mem,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Instant,
};
use tracing_subscriber::fmt::MakeWriter;

/// Lines that found no room.
pub(super) static DROPPED: Counter = Counter::new();

#[derive(Clone)]
pub(super) struct Lines(Arc<SharedText>);

struct SharedText {
    gathered: Mutex<Gathered>,
    /// For the thread that writes: there is something to do.
    work: Condvar,
    /// For those who wait until what they said is written.
    written: Condvar,
    dropped: &'static Counter,
}

#[derive(Default)]
struct Gathered {
    /// Whole lines.
    text: Vec<u8>,
    /// Bytes that the thread has taken and not yet written.
    writing: usize,
    /// Bytes that were ever taken up, and that were written since.
    said: u64,
    done: u64,
    /// The thread waits for a first line, and has to be woken for it.
    idle: bool,
    /// Somebody waits: nothing gathers.
    hurry: bool,
    stage: Stage,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Stage {
    #[default]
    Open,
    /// The thread writes what is there, and ends.
    Ending,
    /// It has.
    Ended,
}

/// Writes what is left when it is dropped.
pub(crate) struct Flush(Lines);

/// What is worth a write before its time.
const WRITE_BYTES: usize = 64 * 1024;
/// What is kept of a text that was long once.
const KEPT_BYTES: usize = 4 * WRITE_BYTES;

impl Lines {
    pub(super) fn start() -> io::Result<(Self, Flush)> {
        Self::to(io::stderr(), &DROPPED)
    }

    pub(super) fn to(
        out: impl Write + Send + 'static,
        dropped: &'static Counter,
    ) -> io::Result<(Self, Flush)> {
        let shared =
            SharedText { gathered: Mutex::default(), work: Condvar::new(), written: Condvar::new(), dropped };
        let lines = Self(Arc::new(shared));
        let of_thread = lines.clone();
        thread::Builder::new().name("log".into()).spawn(move || of_thread.write(out))?;
        Ok((lines.clone(), Flush(lines)))
    }

    /// Takes a line up, or counts it as dropped; it never waits for who reads.
    pub(super) fn put(&self, line: &[u8]) {
        let mut gathered = self.lock();
        if gathered.stage == Stage::Ended {
            drop(gathered);
            // The process ends, and the thread that writes is gone.
            let _ = io::stderr().write_all(line);
            return;
        }
        let before = gathered.text.len();
        let waiting = before + gathered.writing;
        if waiting > 0 && waiting + line.len() > limits::LOG_QUEUE_BYTES {
            self.0.dropped.add(1);
            return;
        }
        gathered.text.extend_from_slice(line);
        gathered.said += line.len() as u64;
        let fills = before < WRITE_BYTES && gathered.text.len() >= WRITE_BYTES;
        if mem::take(&mut gathered.idle) || fills {
            self.0.work.notify_one();
        }
    }

    /// The thread. What cannot be written is lost: there is nowhere left to tell it.
    fn write(&self, mut out: impl Write) {
        let mut text = Vec::new();
        loop {
            let mut gathered = self.lock();
            while gathered.text.is_empty() && gathered.stage == Stage::Open {
                gathered.idle = true;
                gathered.hurry = false;
                gathered = self.0.work.wait(gathered).unwrap_or_else(PoisonError::into_inner);
            }
            gathered.idle = false;
            if gathered.text.is_empty() {
                gathered.stage = Stage::Ended;
                return;
            }
            mem::swap(&mut text, &mut gathered.text);
            gathered.writing = text.len();
            drop(gathered);
            let _ = out.write_all(&text).and_then(|()| out.flush());
            let mut gathered = self.lock();
            gathered.writing = 0;
            gathered.done += text.len() as u64;
            self.0.written.notify_all();
            text.clear();
            text.shrink_to(KEPT_BYTES);
            let gathers = |gathered: &mut Gathered| {
                gathered.text.len() < WRITE_BYTES && !gathered.hurry && gathered.stage == Stage::Open
            };
            drop(self.0.work.wait_timeout_while(gathered, limits::LOG_EVERY, gathers));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Gathered> {
        self.0.gathered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Flush {
    /// Waits until everything that was said so far is written, for a reader of several streams; not for long.
    pub(crate) fn wait(&self) {
        self.until_written(Stage::Open);
    }

    fn until_written(&self, then: Stage) {
        let Lines(shared) = &self.0;
        let until = Instant::now() + limits::LOG_FLUSH;
        let mut gathered = self.0.lock();
        let said = gathered.said;
        gathered.hurry = true;
        gathered.stage = then;
        shared.work.notify_one();
        // A reader that hangs is not waited for any longer than that.
        while gathered.done < said {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = shared.written.wait_timeout(gathered, left);
            gathered = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Flush {
    fn drop(&mut self) {
        self.until_written(Stage::Ending);
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

        /// Waits until so many bytes went through.
        fn until(&self, bytes: usize) {
            let state = self.0.state.lock().unwrap();
            drop(self.0.changed.wait_while(state, |(_, text)| text.len() < bytes).unwrap());
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
            self.0.changed.notify_all();
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
        let line = |n: usize| format!("{n:01023}\n");
        let (room, count) = (limits::LOG_QUEUE_BYTES / 1024, limits::LOG_QUEUE_BYTES / 512);
        for n in 0..count {
            (&lines).write_all(line(n).as_bytes()).unwrap();
        }
        let dropped = lines.0.dropped.get();
        assert_eq!(dropped, (count - room) as u64);
        pipe.open();
        drop(flush);
        let written: Vec<String> = pipe.text().lines().map(String::from).collect();
        assert_eq!(written.len(), room);
        assert!(written.iter().enumerate().all(|(n, text)| *text == line(n).trim_end()), "in their order");
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
        assert_eq!(lines.0.dropped.get(), 16);
        pipe.open();
        drop(flush);
        assert_eq!(pipe.text().len(), line.len() * 4);
    }

    #[test]
    fn a_line_that_no_buffer_holds_is_written_when_it_comes_alone() {
        let pipe = Pipe::default();
        pipe.open();
        let (lines, flush) = Lines::to(pipe.clone(), Box::leak(Box::default())).unwrap();
        let line = vec![b'x'; limits::LOG_QUEUE_BYTES + 1];
        (&lines).write_all(&line).unwrap();
        flush.wait();
        assert_eq!((pipe.text().len(), lines.0.dropped.get()), (line.len(), 0));
    }

    #[test]
    fn nobody_has_to_ask_for_what_has_gathered() {
        let pipe = Pipe::default();
        pipe.open();
        let (lines, _flush) = Lines::to(pipe.clone(), Box::leak(Box::default())).unwrap();
        for n in 0..3 {
            (0..100).for_each(|_| (&lines).write_all(b"line\n").unwrap());
            pipe.until((n + 1) * 500);
        }
    }

    #[test]
    fn what_many_threads_say_is_written_whole_and_once() {
        let pipe = Pipe::default();
        pipe.open();
        let (lines, flush) = Lines::to(pipe.clone(), Box::leak(Box::default())).unwrap();
        thread::scope(|scope| {
            for thread in 0..4 {
                let lines = &lines;
                scope.spawn(move || {
                    for n in 0..5_000 {
                        lines.put(format!("{}\n", thread * 5_000 + n).as_bytes());
                    }
                });
            }
        });
        drop(flush);
        let mut written: Vec<usize> = pipe.text().lines().map(|line| line.parse().unwrap()).collect();
        written.sort_unstable();
        assert!(written.into_iter().eq(0..20_000));
    }
}

//! A piece of writing, and the caller that waits for it.

use super::{
    super::trouble::{Reach, Trouble, reach},
    Priority,
};
use crate::StoreError;
use rusqlite::Connection;
use std::panic::{AssertUnwindSafe, catch_unwind};
use tokio::sync::oneshot;

pub(super) trait Job: Send {
    fn priority(&self) -> Priority;
    /// Runs it and keeps what came of it. An error is one that takes the whole transaction along.
    fn run(&mut self, connection: &Connection) -> rusqlite::Result<()>;
    /// Whether what it wrote shall stay.
    fn succeeded(&self) -> bool;
    /// Tells what came of it. Only after the flush.
    fn answer(self: Box<Self>);
    fn refuse(self: Box<Self>, error: StoreError);
}

pub(super) struct Task<T, F> {
    priority: Priority,
    work: F,
    result: Option<Result<T, StoreError>>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F> Task<T, F> {
    pub(super) fn new(priority: Priority, work: F, reply: oneshot::Sender<Result<T, StoreError>>) -> Self {
        Self { priority, work, result: None, reply }
    }
}

impl<T, F> Job for Task<T, F>
where
    T: Send,
    F: FnMut(&Connection) -> Result<T, Trouble> + Send,
{
    fn priority(&self) -> Priority {
        self.priority
    }

    fn run(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        // What it wrote is rolled back, by its savepoint or with the whole group: no reader sees anything half-done.
        let done = catch_unwind(AssertUnwindSafe(|| (self.work)(connection)));
        self.result = Some(match done {
            Ok(Ok(value)) => Ok(value),
            // SQLite has rolled back everything by itself where it is in autocommit mode again.
            Ok(Err(Trouble::Sql(error))) if reach(&error) != Reach::Row || connection.is_autocommit() => {
                return Err(error);
            }
            Ok(Err(trouble)) => Err(trouble.into()),
            Err(panic) => Err(StoreError::Refused(said(&*panic).into())),
        });
        Ok(())
    }

    fn succeeded(&self) -> bool {
        matches!(self.result, Some(Ok(_)))
    }

    fn answer(self: Box<Self>) {
        let missing = || Err(StoreError::Refused("the job was not run".into()));
        // The caller may have stopped waiting.
        let _ = self.reply.send(self.result.unwrap_or_else(missing));
    }

    fn refuse(self: Box<Self>, error: StoreError) {
        let _ = self.reply.send(Err(error));
    }
}

fn said(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    format!("a panic while writing: {text}")
}

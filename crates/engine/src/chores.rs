//! Periodic work.

mod expand;
mod prune;
mod replay;
mod rescan;
mod rollup;
mod term;
#[cfg(test)]
mod tests;

use crate::{board::Board, dispatcher::Message, start::EngineSettings};
use domain::{dice::Dice, limits, time::Clock};
use expand::Expander;
use futures_util::FutureExt as _;
use replay::{Backlog, Replayer};
use std::sync::Arc;
use store::{Expansion, Store};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub(crate) use rescan::Rescans;

/// What chores are done with.
pub(crate) struct Chores<'a> {
    pub(crate) store: &'a Arc<dyn Store>,
    pub(crate) clock: &'a Arc<dyn Clock>,
    pub(crate) dice: &'a Arc<dyn Dice>,
    pub(crate) settings: &'a EngineSettings,
    pub(crate) board: &'a Arc<Board>,
    pub(crate) rescans: &'a Arc<Rescans>,
    pub(crate) inbox: &'a mpsc::Sender<Message>,
}

impl Chores<'_> {
    /// Starts every chore; they end with `stop`.
    pub(crate) fn start(&self, stop: &CancellationToken) {
        let rescan = rescan::run(
            Arc::clone(self.rescans),
            Arc::clone(self.store),
            Arc::clone(self.dice),
            Arc::clone(self.board),
            self.settings.rescan,
            self.inbox.clone(),
        );
        let window = self.settings.idempotency_window;
        let prune = prune::run(Arc::clone(self.store), Arc::clone(self.clock), window);
        let replayer = Replayer {
            store: Arc::clone(self.store),
            clock: Arc::clone(self.clock),
            dice: Arc::clone(self.dice),
            board: Arc::clone(self.board),
            dispatcher: self.inbox.clone(),
            backlog: Backlog::new(self.settings.backlog),
        };
        let settings = prune::Settings { every: self.settings.prune_every, day: self.settings.retention_day };
        let lease = self.settings.lease;
        let retention = prune::Retention::new(self.store, self.clock, self.board, lease, settings);
        let roll_up = |part| {
            let every = self.settings.rollup_every;
            rollup::RollUp::new(part, self.store, self.clock, self.board, lease, every).run().boxed()
        };
        let (minutes, rest) = (roll_up(rollup::Part::Minutes), roll_up(rollup::Part::HoursAndDays));
        let forgetting = retention.run().boxed();
        for chore in [rescan.boxed(), prune.boxed(), forgetting, minutes, rest, replayer.run().boxed()] {
            let stop = stop.clone();
            tokio::spawn(async move { stop.run_until_cancelled(chore).await });
        }
    }
}

/// Starts the expander, which ends with `stop`; gives the way to tell it of new expansions.
pub(crate) fn start_expander(
    store: &Arc<dyn Store>,
    clock: &Arc<dyn Clock>,
    dice: &Arc<dyn Dice>,
    dispatcher: mpsc::Sender<Message>,
    stop: &CancellationToken,
) -> mpsc::Sender<Vec<Expansion>> {
    let (tell, begun) = mpsc::channel(limits::EXPANSIONS_HELD);
    let expander = Expander::new(Arc::clone(store), Arc::clone(clock), Arc::clone(dice), dispatcher);
    let stop = stop.clone();
    tokio::spawn(async move { stop.run_until_cancelled(expander.run(begun)).await });
    tell
}

//! Periodic work.

mod expand;
mod prune;
mod replay;
mod rescan;

use crate::{board::Board, dispatcher::Message, start::EngineSettings};
use domain::{dice::Dice, limits, time::Clock};
use expand::Expander;
use replay::Replayer;
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
        };
        let (stop_rescan, stop_prune, stop_replayer) = (stop.clone(), stop.clone(), stop.clone());
        tokio::spawn(async move { stop_rescan.run_until_cancelled(rescan).await });
        tokio::spawn(async move { stop_prune.run_until_cancelled(prune).await });
        tokio::spawn(async move { stop_replayer.run_until_cancelled(replayer.run()).await });
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

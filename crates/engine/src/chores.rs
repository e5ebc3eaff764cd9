//! Periodic work.

mod expand;
mod prune;
mod rescan;

use crate::{dispatcher::Message, start::EngineSettings};
use domain::{dice::Dice, limits, time::Clock};
use expand::Expander;
use std::sync::Arc;
use store::{Expansion, Store};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Starts every chore; they end with `stop`.
pub(crate) fn start(
    store: &Arc<dyn Store>,
    clock: &Arc<dyn Clock>,
    dice: &Arc<dyn Dice>,
    settings: &EngineSettings,
    inbox: mpsc::Sender<Message>,
    stop: &CancellationToken,
) {
    let rescan = rescan::run(Arc::clone(store), Arc::clone(dice), settings.rescan, inbox);
    let prune = prune::run(Arc::clone(store), Arc::clone(clock), settings.idempotency_window);
    let (stop_rescan, stop_prune) = (stop.clone(), stop.clone());
    tokio::spawn(async move { stop_rescan.run_until_cancelled(rescan).await });
    tokio::spawn(async move { stop_prune.run_until_cancelled(prune).await });
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

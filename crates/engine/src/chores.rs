//! Periodic work.

mod prune;
mod rescan;

use crate::{dispatcher::Message, start::EngineSettings};
use domain::{dice::Dice, time::Clock};
use std::sync::Arc;
use store::Store;
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

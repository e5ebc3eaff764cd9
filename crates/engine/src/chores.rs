//! Periodic work.

mod erase;
mod expand;
mod prune;
mod replay;
mod rescan;
mod rollup;
mod term;
#[cfg(test)]
mod tests;

use crate::{data_keys::DataKeys, dispatcher::Message, ownership_view::OwnershipView, start::EngineSettings};
use domain::{dice::Dice, limits, time::Clock};
use expand::Expander;
use futures_util::{FutureExt as _, future::BoxFuture};
use replay::{Backfiller, FullBacklogs, Replayer};
use std::sync::Arc;
use store::{Chore, Expansion, Store};
use supervisor::{Life, Loop, Supervisor};
use term::ChoreTerm;
use tokio::sync::{Mutex, mpsc};
use tokio_util::sync::CancellationToken;

pub(crate) use rescan::Rescans;

/// What chores are done with.
#[derive(Clone)]
pub(crate) struct Chores {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) data_keys: Arc<DataKeys>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) dice: Arc<dyn Dice>,
    pub(crate) settings: EngineSettings,
    pub(crate) ownership_view: Arc<OwnershipView>,
    pub(crate) rescans: Arc<Rescans>,
    pub(crate) inbox: mpsc::Sender<Message>,
}

impl Chores {
    /// Starts every chore; they end with `stop`. Gives the way to tell the expander of new expansions.
    pub(crate) fn start(
        &self,
        supervisor: &Supervisor,
        stop: &CancellationToken,
    ) -> mpsc::Sender<Vec<Expansion>> {
        // Outside of the expander: what it was told while it was down is told to the next one.
        let (tell, begun) = mpsc::channel(limits::EXPANSIONS_HELD);
        let (chores, begun) = (self.clone(), Arc::new(Mutex::new(begun)));
        supervisor.start(Loop::Expander, stop, move |_| {
            let (expander, begun) = (chores.expander(), Arc::clone(&begun));
            async move { expander.run(&mut *begun.lock().await).await }
        });
        let start = |id, make: fn(&Self, Life) -> BoxFuture<'static, ()>| {
            let chores = self.clone();
            supervisor.start(id, stop, move |life| make(&chores, life));
        };
        start(Loop::Rescan, |chores, life| chores.rescan(life).boxed());
        start(Loop::Prune, |chores, _| chores.prune().boxed());
        start(Loop::Retention, |chores, _| chores.retention().run().boxed());
        start(Loop::Eraser, |chores, _| chores.eraser().run().boxed());
        start(Loop::OpenRollup, |chores, _| chores.open_minutes().run().boxed());
        start(Loop::MinuteRollup, |chores, _| chores.roll_up(rollup::SpanGroup::Minutes).run().boxed());
        start(Loop::HourRollup, |chores, _| chores.roll_up(rollup::SpanGroup::HoursAndDays).run().boxed());
        start(Loop::Replayer, |chores, _| chores.replayer().run().boxed());
        tell
    }

    fn rescan(&self, life: Life) -> impl Future<Output = ()> + use<> {
        let (rescans, store) = (Arc::clone(&self.rescans), Arc::clone(&self.store));
        let (dice, ownership_view, every) =
            (Arc::clone(&self.dice), Arc::clone(&self.ownership_view), self.settings.rescan);
        rescan::run(life, rescans, store, dice, ownership_view, every, self.inbox.clone())
    }

    fn prune(&self) -> impl Future<Output = ()> + use<> {
        let kept = prune::Kept {
            idempotency_keys: self.settings.idempotency_window,
            audit_entries: self.settings.audit_kept,
        };
        prune::run(Arc::clone(&self.store), Arc::clone(&self.clock), kept)
    }

    fn retention(&self) -> prune::Retention {
        let settings =
            prune::RetentionSettings { every: self.settings.prune_every, day: self.settings.retention_day };
        prune::Retention::new(self.term(Chore::Prune), settings)
    }

    fn eraser(&self) -> erase::Eraser {
        erase::Eraser::new(self.term(Chore::Erase))
    }

    fn roll_up(&self, span_group: rollup::SpanGroup) -> rollup::RollUp {
        let times = match span_group {
            rollup::SpanGroup::Minutes => 1,
            rollup::SpanGroup::HoursAndDays => limits::ROLLUP_HOURS_EVERY_TIMES,
        };
        rollup::RollUp::new(span_group, self.term(Chore::RollUp), self.settings.rollup_every * times)
    }

    fn open_minutes(&self) -> rollup::open::OpenMinutes {
        rollup::open::OpenMinutes::new(self.term(Chore::RollUp), self.settings.rollup_every)
    }

    fn term(&self, chore: Chore) -> ChoreTerm {
        ChoreTerm::new(chore, &self.store, &self.clock, &self.ownership_view, self.settings.lease)
    }

    fn replayer(&self) -> Replayer {
        Replayer {
            store: Arc::clone(&self.store),
            data_keys: Arc::clone(&self.data_keys),
            clock: Arc::clone(&self.clock),
            dice: Arc::clone(&self.dice),
            ownership_view: Arc::clone(&self.ownership_view),
            dispatcher: self.inbox.clone(),
            backlog: FullBacklogs::new(self.settings.backlog),
            backfiller: Backfiller::default(),
        }
    }

    fn expander(&self) -> Expander {
        let (store, clock, dice) = (Arc::clone(&self.store), Arc::clone(&self.clock), Arc::clone(&self.dice));
        Expander::new(store, Arc::clone(&self.data_keys), clock, dice, self.inbox.clone())
    }
}

//! What a world begins with: a store, accounts, destinations and routes.

use super::World;
use crate::{
    commands::audit_entry,
    faulty::finish,
    internet,
    node::Shared,
    observations::KnownDestination,
    plan::ACCOUNTS,
    shared_world::SharedWorld,
    time::{Moment, calendar},
};
use domain::{
    account::Account,
    destination::Destination,
    dice::Dice,
    id::{AccountId, DestinationId, RouteId},
    retry::RetrySettings,
    route::Route,
    signature::SigningSecret,
};
use std::sync::Arc;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

impl World {
    /// Accounts, destinations and routes.
    pub(super) fn set_up(&mut self) {
        let now = calendar(0);
        let store = Arc::clone(&self.truth);
        for _ in 0..ACCOUNTS {
            let id = AccountId::at(now, self.chance.bits());
            let data_key = self.node_parts.keys.new_data_key(id, &self.chance);
            let account = Account::new(id, "sim", data_key, now);
            finish(store.create_account(&account, &audit_entry())).expect("an account");
            self.accounts.push(id);
        }
        let secret = SigningSecret::from_bytes(&[7; 32]).expect("long enough");
        for (number, planned) in self.plan.destinations.iter().enumerate() {
            let account_id = self.accounts[planned.account];
            let id = DestinationId::at(now, self.chance.bits());
            let mut destination =
                Destination::new(id, account_id, &format!("d{number}"), &internet::url(number), now);
            let account = finish(store.account(account_id)).expect("just made");
            let key = self.node_parts.keys.data_key(account_id, &account.data_key).expect("ours");
            destination.secret.current =
                key.seal(&Destination::secret_place(id), secret.expose().as_bytes(), &self.chance);
            destination.settings.max_concurrency = Some(planned.limit);
            destination.settings.timeout = Some(planned.timeout);
            destination.settings.retry_policy = planned.policy.clone().into();
            destination.ordering = planned.ordering;
            destination.sequence = planned.sequence;
            destination.rate_limit = planned.rate_limit;
            finish(store.create_destination(&destination, &audit_entry())).expect("a destination");
            self.shared.observed().add_destination(KnownDestination {
                id,
                account: account_id,
                limit: planned.limit,
                ordering: planned.ordering,
                sequence: planned.sequence,
                rate_limit: planned.rate_limit,
                retries: planned.policy.schedule.len() as u32,
                expire_after: planned.policy.expire_after,
                first_rung: self.plan.gate.ladder[0].as_micros() as Moment,
            });
            for patterns in &planned.routes {
                let route = self.route(account_id, id, patterns);
                finish(store.create_route(&route, &audit_entry())).expect("a route");
                self.routes.push((account_id, route.id));
            }
        }
    }

    fn route(&self, account_id: AccountId, id: DestinationId, patterns: &[&str]) -> Route {
        let now = calendar(0);
        Route {
            id: RouteId::at(now, self.chance.bits()),
            account_id,
            uid: None,
            name: None,
            enabled: true,
            source_id: None,
            destination_id: id,
            event_types: patterns.iter().map(|text| text.parse().expect("a pattern")).collect(),
            filter: None,
            retry_policy: RetrySettings::default(),
            timeout_seconds: None,
            signing: None,
            created_at: now,
            updated_at: now,
            version: 0,
        }
    }
}

/// Where a database is kept that lasts as long as its world.
pub(super) struct Disk {
    _folder: TempDir,
    /// SQLite's readers are threads of a runtime; this one is there when no node's is.
    pub(super) runtime: Runtime,
}

/// A real SQLite file in memory.
pub(super) fn sqlite() -> (Shared, Option<Disk>) {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder");
    let url = format!("sqlite:{}", folder.path().join("sim.db").display());
    let options = store::OpenOptions { url, pool: 1, listen_url: None, accept_data_loss: false };
    let store = runtime.block_on(store::open(&options)).expect("a new database opens");
    (Shared::Sqlite(store), Some(Disk { _folder: folder, runtime }))
}

/// The store's clock is the world's.
pub(super) struct WorldClock(pub(super) Arc<SharedWorld>);

impl domain::time::Clock for WorldClock {
    fn now(&self) -> domain::time::Timestamp {
        domain::time::Clock::now(&self.0.time)
    }
}

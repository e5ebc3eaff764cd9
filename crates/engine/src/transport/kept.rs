//! Connections that are kept for the next request.
//!
//! They are kept by where they lead and for whom they speak ([`ConnectionKey`]), the one that was used last is used first, and
//! one that the other side has closed is not used. A request that finds none makes one, unless another comes back before that
//! is done; what it has begun is then finished for others.

use super::connection::HttpConnection;
use crate::egress::{ConnectionKey, EgressError, Link};
use domain::limits;
use std::{
    collections::HashMap,
    mem,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};
use tokio::{sync::Notify, time::Instant};

#[derive(Default)]
pub(super) struct KeptConnections(Mutex<KeptByKey>);

#[derive(Default)]
struct KeptByKey {
    keys: HashMap<ConnectionKey, KeptOfKey>,
    /// Somebody looks after those that rest.
    are_looked_after: bool,
}

#[derive(Default)]
struct KeptOfKey {
    /// The last is the one that has rested for the shortest time.
    idle: Vec<IdleConnection>,
    /// Requests that make a connection meanwhile, and what tells them that one has come back.
    waiting: usize,
    came_back: Arc<Notify>,
}

struct IdleConnection {
    connection: HttpConnection,
    since: Instant,
}

impl IdleConnection {
    fn has_rested(&self) -> bool {
        self.since.elapsed() >= limits::IDLE_TIMEOUT
    }
}

/// A connection for a request, and whether it was there before.
pub(super) struct Obtained {
    pub(super) connection: HttpConnection,
    pub(super) is_kept: bool,
}

#[derive(Debug)]
pub(super) enum Unobtained {
    Egress(EgressError),
    Http(hyper::Error),
}

impl KeptConnections {
    /// One that is kept or, if there is none, what comes first: one that comes back, or the one that is being made.
    pub(super) async fn obtain(
        self: &Arc<Self>,
        key: &ConnectionKey,
        connect: impl FnOnce() -> Connecting,
        most: usize,
    ) -> Result<Obtained, Unobtained> {
        let kept = |connection| Ok(Obtained { connection, is_kept: true });
        if let Some(connection) = self.take(key) {
            return kept(connection);
        }
        let mut making = Box::pin(make(connect()));
        let waiting = Waiting::enter(self, key);
        loop {
            let came_back = pin!(waiting.came_back.notified());
            tokio::select! {
                biased;
                made = &mut making => {
                    return made.map(|connection| Obtained { connection, is_kept: false });
                }
                () = came_back => {}
            }
            if let Some(connection) = self.take(key) {
                let (this, key) = (Arc::downgrade(self), key.clone());
                tokio::spawn(async move {
                    if let (Ok(made), Some(this)) = (making.await, Weak::upgrade(&this)) {
                        this.give_back(&key, made, most);
                    }
                });
                return kept(connection);
            }
        }
    }

    /// Keeps it for the next request, if it may be used once more and is not one of more than are kept in all.
    pub(super) fn give_back(
        self: &Arc<Self>,
        key: &ConnectionKey,
        mut connection: HttpConnection,
        most: usize,
    ) {
        if !connection.rests() {
            return;
        }
        let facts = connection.facts();
        if facts.is_worn_out() || facts.is_one_too_many(most) {
            return connection.close();
        }
        let idle = IdleConnection { connection, since: Instant::now() };
        let mut kept = self.lock();
        let of_key = match kept.keys.get_mut(key) {
            Some(of_key) => of_key,
            None => kept.keys.entry(key.clone()).or_default(),
        };
        of_key.idle.push(idle);
        if of_key.waiting > 0 {
            of_key.came_back.notify_one();
        }
        if !mem::replace(&mut kept.are_looked_after, true) {
            drop(kept);
            tokio::spawn(LookAfter(Arc::downgrade(self)).run());
        }
    }

    fn take(&self, key: &ConnectionKey) -> Option<HttpConnection> {
        loop {
            let mut next = self.lock().keys.get_mut(key)?.idle.pop()?;
            if next.has_rested() {
                next.connection.close();
            } else if next.connection.rests() {
                return Some(next.connection);
            }
        }
    }

    /// Lets go of those that have rested for long enough, or that the other side has closed. False if nothing is left.
    fn look_after(&self) -> bool {
        let keys: Vec<ConnectionKey> = self.lock().keys.keys().cloned().collect();
        for key in keys {
            let mut gone = Vec::new();
            let mut kept = self.lock();
            if let Some(of_key) = kept.keys.get_mut(&key) {
                let is_gone = |idle: &mut IdleConnection| idle.has_rested() || !idle.connection.rests();
                gone.extend(of_key.idle.extract_if(.., is_gone));
                if of_key.idle.is_empty() && of_key.waiting == 0 {
                    kept.keys.remove(&key);
                }
            }
            drop(kept);
            gone.into_iter().for_each(|idle| idle.connection.close());
        }
        let mut kept = self.lock();
        kept.are_looked_after = !kept.keys.is_empty();
        kept.are_looked_after
    }

    fn lock(&self) -> MutexGuard<'_, KeptByKey> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection on its way.
pub(super) type Connecting = futures_util::future::BoxFuture<'static, Result<Link, EgressError>>;

async fn make(connecting: Connecting) -> Result<HttpConnection, Unobtained> {
    let link = connecting.await.map_err(Unobtained::Egress)?;
    HttpConnection::over(link).await.map_err(Unobtained::Http)
}

/// A request that makes a connection, and would take one that comes back before.
struct Waiting<'a> {
    kept: &'a KeptConnections,
    key: &'a ConnectionKey,
    came_back: Arc<Notify>,
}

impl<'a> Waiting<'a> {
    fn enter(kept: &'a KeptConnections, key: &'a ConnectionKey) -> Self {
        let mut all = kept.lock();
        let of_key = all.keys.entry(key.clone()).or_default();
        of_key.waiting += 1;
        Self { kept, key, came_back: Arc::clone(&of_key.came_back) }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut all = self.kept.lock();
        let Some(of_key) = all.keys.get_mut(self.key) else { return };
        of_key.waiting -= 1;
        if of_key.waiting == 0 && of_key.idle.is_empty() {
            all.keys.remove(self.key);
        }
    }
}

/// Is there as long as something rests, and begun anew by what rests next.
struct LookAfter(Weak<KeptConnections>);

impl LookAfter {
    async fn run(mut self) {
        while self.0.upgrade().is_some_and(|kept| kept.look_after()) {
            tokio::time::sleep(limits::IDLE_LOOK).await;
        }
        self.0 = Weak::new();
    }
}

impl Drop for LookAfter {
    /// One that was cut off: the next that rests has another look after it.
    fn drop(&mut self) {
        if let Some(kept) = self.0.upgrade() {
            kept.lock().are_looked_after = false;
        }
    }
}

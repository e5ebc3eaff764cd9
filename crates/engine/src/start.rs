//! Puts the engine together and takes it apart again.

use crate::{
    chores,
    dispatcher::{Dispatcher, Node},
    egress::{Egress, HickoryResolver, Resolve, SystemResolver, TcpDialer},
    fetcher::Fetcher,
    handle::EngineHandle,
    owner::{Owner, StartError},
    sender::Sender,
    settler::{self, Settler},
    transport::{HttpTransport, SharedTransport},
};
use domain::{address::AddressPolicy, dice::Dice, gate::GateSettings, limits, seal::MasterKeys, time::Clock};
use futures_util::{FutureExt, future::BoxFuture};
use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};
use store::{NodeRecord, Store};
use tokio::{
    sync::{Semaphore, mpsc, watch},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

/// What the engine is made of.
pub struct EngineParts {
    pub store: Arc<dyn Store>,
    pub clock: Arc<dyn Clock>,
    pub dice: Arc<dyn Dice>,
    pub master_keys: Arc<MasterKeys>,
    pub addresses: Arc<AddressPolicy>,
    pub node: NodeRecord,
    pub settings: EngineSettings,
}

#[derive(Debug, Clone)]
pub struct EngineSettings {
    pub max_in_flight: usize,
    pub connect_timeout: Duration,
    pub lease: Duration,
    pub rescan: Duration,
    pub gate: GateSettings,
    /// Ask the operating system for names instead of our own resolver.
    pub system_dns: bool,
    pub idempotency_window: Duration,
}

impl Default for EngineSettings {
    fn default() -> Self {
        Self {
            max_in_flight: limits::IN_FLIGHT,
            connect_timeout: limits::CONNECT_TIMEOUT,
            lease: limits::LEASE,
            rescan: limits::RESCAN,
            gate: GateSettings::default(),
            system_dns: false,
            idempotency_window: limits::IDEMPOTENCY_WINDOW,
        }
    }
}

/// A running engine.
pub struct Engine {
    handle: Arc<EngineHandle>,
    failed: watch::Receiver<Option<String>>,
    /// Stops lanes and chores; then the claim is given up.
    stop: CancellationToken,
    leave: CancellationToken,
    grace: watch::Sender<Duration>,
    dispatcher: JoinHandle<()>,
    settler: JoinHandle<()>,
    owner: JoinHandle<()>,
}

impl Engine {
    pub async fn start(parts: EngineParts) -> Result<Self, StartError> {
        let resolver: Arc<dyn Resolve> = match HickoryResolver::from_system() {
            Some(hickory) if !parts.settings.system_dns => Arc::new(hickory),
            _ => Arc::new(SystemResolver),
        };
        let timeout = parts.settings.connect_timeout;
        let egress = Egress::new(Arc::clone(&parts.addresses), resolver, Arc::new(TcpDialer), timeout)?;
        Self::start_with(parts, Arc::new(HttpTransport::new(egress))).await
    }

    /// With an internet of the caller's choice.
    pub async fn start_with(parts: EngineParts, transport: SharedTransport) -> Result<Self, StartError> {
        let EngineParts { store, clock, dice, master_keys, node, settings, .. } = parts;
        let (failed_sender, failed) = watch::channel(None);
        let failed_sender = Arc::new(failed_sender);
        let node_id = node.id;
        let owner = Owner::join(
            Arc::clone(&store),
            Arc::clone(&clock),
            Arc::clone(&dice),
            node,
            settings.lease,
            Arc::clone(&failed_sender),
        )
        .await?;
        let sender = Arc::new(Sender {
            store: Arc::clone(&store),
            transport,
            clock: Arc::clone(&clock),
            dice: Arc::clone(&dice),
            lease: Arc::clone(&owner.lease),
            node: node_id,
            large_payloads: Arc::new(Semaphore::new(limits::LARGE_PAYLOADS_BYTES / 1024)),
        });
        let (inbox, messages) = mpsc::channel(limits::DISPATCHER_INBOX);
        let (settling, waiting) = settler::channels();
        let settler = Settler {
            store: Arc::clone(&store),
            clock: Arc::clone(&clock),
            dice: Arc::clone(&dice),
            node: node_id,
            waiting,
            dispatcher: inbox.clone(),
        };
        let fetcher = Fetcher {
            store: Arc::clone(&store),
            master_keys: Arc::clone(&master_keys),
            dispatcher: inbox.downgrade(),
        };
        let node = Node::new(
            Arc::clone(&sender),
            settling,
            inbox.clone(),
            settings.gate.clone(),
            settings.max_in_flight,
        );
        let (stop, leave) = (CancellationToken::new(), CancellationToken::new());
        let (grace, grace_given) = watch::channel(limits::SHUTDOWN_GRACE);
        let dispatcher = Dispatcher::new(node, fetcher);
        chores::start(&store, &clock, &dice, &settings, inbox.clone(), &stop);
        let expansions = chores::start_expander(&store, &clock, &dice, inbox.clone(), &stop);
        let watched = |name, task| tokio::spawn(watched(name, task, Arc::clone(&failed_sender)));
        Ok(Self {
            dispatcher: watched(
                "the dispatcher",
                dispatcher.run(messages, stop.clone(), grace_given).boxed(),
            ),
            settler: watched("the settler", settler.run().boxed()),
            owner: watched("the owner", owner.run(leave.clone()).boxed()),
            handle: Arc::new(EngineHandle { inbox, expansions, sender, master_keys }),
            failed,
            stop,
            leave,
            grace,
        })
    }

    pub fn handle(&self) -> Arc<EngineHandle> {
        Arc::clone(&self.handle)
    }

    /// Waits until the node must end, and says why.
    pub async fn failed(&self) -> String {
        let mut failed = self.failed.clone();
        match failed.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or_default(),
            // The owner has left in peace: this is no failure, so never answer.
            Err(_) => std::future::pending().await,
        }
    }

    /// Starts nothing more, finishes what is open within `grace`, writes all results, gives up the claim.
    pub async fn stop(self, grace: Duration) {
        self.grace.send_replace(grace);
        self.stop.cancel();
        let drained = async {
            let _ = self.dispatcher.await;
            let _ = self.settler.await;
        };
        if tokio::time::timeout(grace + limits::LEASE_MARGIN, drained).await.is_err() {
            tracing::warn!("some results could not be written; their deliveries will be tried again");
        }
        self.leave.cancel();
        let _ = tokio::time::timeout(limits::LEASE_MARGIN, self.owner).await;
    }
}

/// Without one of its loops a node would accept events and deliver none: then it must end, and be started again.
async fn watched(name: &str, task: BoxFuture<'static, ()>, failed: Arc<watch::Sender<Option<String>>>) {
    if AssertUnwindSafe(task).catch_unwind().await.is_err() {
        tracing::error!("{name} panicked: this node must end");
        failed.send_replace(Some(format!("{name} panicked")));
    }
}

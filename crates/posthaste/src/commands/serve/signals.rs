//! SIGTERM and SIGINT: the first asks for a stop, the second for an end.

use crate::failure::Failure;
use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};

pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(super) fn install() -> Result<Self, Failure> {
        let install = |kind| signal(kind).context("signals cannot be received");
        Ok(Self {
            terminate: install(SignalKind::terminate())?,
            interrupt: install(SignalKind::interrupt())?,
        })
    }

    pub(super) async fn stop(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    /// An operator who asks twice does not want to wait. Nothing is lost: what is durable stays so.
    pub(super) fn exit_at_once_on_another(mut self) {
        tokio::spawn(async move {
            self.stop().await;
            std::process::exit(1);
        });
    }
}

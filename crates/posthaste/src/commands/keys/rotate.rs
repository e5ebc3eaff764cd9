//! `posthaste keys rotate`: everything sealed by the active master key, or accounts given new data keys. The work is done in
//! small steps, by this process beside the store, or by a server that is asked for one step after the other. Nothing is
//! remembered of how far it came: broken off, it is run again and finds what is left.

use super::configured_or_dev;
use crate::{
    commands::{
        bootstrap,
        open::{file, open_existing},
        print_json,
    },
    config::{Config, Dev, SettingFlags, parse_duration},
    dice::SystemDice,
    failure::{Code, Failure},
    output,
    progress::Progress,
};
use api::{
    data_keys::{DataKeyPlan, DataKeyRotation, DataKeyRotationError, DataKeyStep},
    installation_secrets::InstallationSecrets,
    master_keys::{MasterKeyUses, RotationError, RotationStep, check_nodes, rotate_some},
};
use clap::Args;
use client::{Client, MasterKeysView, RotateDataKeys, RotateMasterKey};
use domain::{id::AccountId, limits};
use serde_json::json;
use std::{sync::Arc, time::Duration};
use store::Store;

/// Walks that find nothing to do and are not the last: somebody else writes at the same time.
const IDLE_WALKS: u32 = 5;

#[derive(Debug, Args)]
pub(super) struct RotateArgs {
    /// Give accounts new data keys, and seal their secrets by them, instead of sealing their data keys by the active master
    /// key
    #[arg(long)]
    data_keys: bool,
    /// Leave out accounts whose data key is younger
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = parse_duration, requires = "data_keys")]
    older_than: Duration,
    /// Have the server at this URL do it, while it runs: with an embedded store there is no other way
    #[arg(long, value_name = "URL", requires = "key")]
    server: Option<String>,
    /// An operator's key, for the server
    #[arg(long, env = "POSTHASTE_OPERATOR_KEY", hide_env_values = true)]
    key: Option<String>,
    #[command(flatten)]
    settings: SettingFlags,
}

pub(super) async fn run(args: RotateArgs, json: bool) -> Result<(), Failure> {
    let worker = match (&args.server, &args.key) {
        (Some(url), Some(key)) => Worker::Server(Box::new(Client::new(url, key)?)),
        _ => Worker::beside(&args.settings.config(Dev::No)?).await?,
    };
    match args.data_keys {
        false => master_key(&worker, json).await,
        true => data_keys(&worker, args.older_than, json).await,
    }
}

/// Who does the steps.
enum Worker {
    Server(Box<Client>),
    Here { store: Arc<dyn Store>, secrets: Arc<InstallationSecrets>, has_nodes: bool },
}

impl Worker {
    async fn beside(config: &Config) -> Result<Self, Failure> {
        let master = bootstrap::master_keys(&configured_or_dev(config)?)?;
        let store = open_existing(config).await.map_err(|failure| match failure.code() {
            Code::InUse => Failure::new(
                Code::InUse,
                format!("{failure}. Have the server that uses it do it: --server URL --key pho_… (an operator's key)"),
            ),
            _ => failure,
        })?;
        let secrets = InstallationSecrets::open(store.as_ref(), master, &SystemDice).await;
        let secrets = Arc::new(secrets.map_err(bootstrap::secrets_failure)?);
        // Whoever opens the file of an embedded store is alone with it: the nodes it names are gone.
        let worker = Self::Here { store, secrets, has_nodes: file(config).is_none() };
        if let Self::Here { store, secrets, .. } = &worker {
            worker.check_nodes().await?;
            secrets.note_keys(store.as_ref(), &SystemDice).await?;
        }
        Ok(worker)
    }

    async fn check_nodes(&self) -> Result<(), Failure> {
        if let Self::Here { store, secrets, has_nodes: true } = self {
            check_nodes(secrets.master().active(), &store.roster().await?.members).map_err(of_rotation)?;
        }
        Ok(())
    }

    /// The active key, what is sealed by it, and what is sealed by others.
    async fn uses(&self) -> Result<(String, u64, u64), Failure> {
        match self {
            Self::Server(client) => {
                let MasterKeysView { keys, .. } = client.master_keys().await?;
                let active =
                    keys.iter().find(|key| key.active).map(|key| key.name.clone()).unwrap_or_default();
                let by =
                    |active| keys.iter().filter(|key| key.active == active).map(|key| key.sealed_count).sum();
                Ok((active, by(true), by(false)))
            }
            Self::Here { store, secrets, .. } => {
                let active = secrets.master().active();
                let uses = MasterKeyUses::count(store.as_ref()).await?;
                let by_active = uses.by_key.get(active).copied().unwrap_or(0);
                Ok((active.to_owned(), by_active, uses.beside(active)))
            }
        }
    }

    /// The name of the key that seals, and what was done.
    async fn rotate_master_key(&self, after: Option<AccountId>) -> Result<(String, RotationStep), Failure> {
        match self {
            Self::Server(client) => {
                let done = client.rotate_master_key(&RotateMasterKey { after }).await?;
                let rewrapped = done.resealed_count as usize;
                Ok((done.master_key, RotationStep { rewrapped, next: done.next, done: done.done }))
            }
            Self::Here { store, secrets, .. } => {
                self.check_nodes().await?;
                let master = secrets.master();
                let entry = bootstrap::entry(store.now().await?, "rotate_master_key", master.active());
                let step = rotate_some(store.as_ref(), master, after, &SystemDice, &entry).await;
                Ok((master.active().to_owned(), step.map_err(of_rotation)?))
            }
        }
    }

    async fn rotate_data_keys(
        &self,
        after: Option<AccountId>,
        older_than: Option<Duration>,
    ) -> Result<DataKeyStep, Failure> {
        match self {
            Self::Server(client) => {
                let older_than_seconds = older_than.map(|least| least.as_secs().min(u32::MAX.into()) as u32);
                let done = client.rotate_data_keys(&RotateDataKeys { after, older_than_seconds }).await?;
                Ok(DataKeyStep {
                    begun: done.begun_count as usize,
                    resealed: done.resealed_count as usize,
                    ended: done.ended_count as usize,
                    waiting: done.waiting_count as usize,
                    kept: done.kept_count as usize,
                    wait: Duration::from_secs(done.wait_seconds),
                    unreadable: done.unreadable_count as usize,
                    next: done.next,
                })
            }
            Self::Here { store, secrets, .. } => {
                self.check_nodes().await?;
                let now = store.now().await?;
                let entry = |account| bootstrap::entry(now, "rotate_data_keys", account);
                let rotation = DataKeyRotation {
                    store: store.as_ref(),
                    master: secrets.master(),
                    dice: &SystemDice,
                    entry: &entry,
                };
                let step = rotation.step(&DataKeyPlan { now, after, older_than }).await;
                step.map_err(|error| match error {
                    DataKeyRotationError::Store(error) => error.into(),
                    error @ DataKeyRotationError::DataKey { .. } => Failure::new(Code::Failed, error),
                })
            }
        }
    }
}

fn of_rotation(error: RotationError) -> Failure {
    match error {
        RotationError::Store(error) => error.into(),
        error => Failure::new(Code::Failed, error),
    }
}

async fn master_key(worker: &Worker, json: bool) -> Result<(), Failure> {
    let mut progress = Progress::new(json);
    let (active, by_active, by_others) = worker.uses().await?;
    let (mut after, mut resealed, mut idle, mut in_this_walk) = (None, 0, 0, 0);
    loop {
        let (name, step) = worker.rotate_master_key(after).await?;
        if name != active {
            return Err(Failure::new(
                Code::Failed,
                format!(
                    "one node seals by `{active}` and another by `{name}`: start all of them with the same master_keys, \
                     then run this again"
                ),
            ));
        }
        resealed += step.rewrapped as u64;
        in_this_walk += step.rewrapped;
        progress.say(|| {
            format!("{} of {} are sealed by `{active}`", by_active + resealed, by_active + by_others)
        });
        if step.done {
            break;
        }
        after = step.next;
        if after.is_none() {
            idle = if in_this_walk == 0 { idle + 1 } else { 0 };
            in_this_walk = 0;
            if idle == IDLE_WALKS {
                return Err(Failure::new(
                    Code::Failed,
                    format!(
                        "something is still sealed by another key than `{active}`: run this again in a moment"
                    ),
                ));
            }
        }
    }
    progress.clear();
    if json {
        return print_json(&json!({ "master_key": active, "resealed_count": resealed, "done": true }));
    }
    output::line(format_args!(
        "Everything is sealed by `{active}` now ({resealed} sealed anew). Other keys may be left out of master_keys: start \
         the nodes without them, and keep them as long as you keep backups that were made before."
    ));
    Ok(())
}

async fn data_keys(worker: &Worker, older_than: Duration, json: bool) -> Result<(), Failure> {
    let mut progress = Progress::new(json);
    let mut all = DataKeyStep::default();
    let mut least = Some(older_than);
    loop {
        let mut walk = DataKeyStep::default();
        let mut after = None;
        loop {
            let step = worker.rotate_data_keys(after, least).await?;
            walk.begun += step.begun;
            walk.resealed += step.resealed;
            walk.ended += step.ended;
            walk.waiting += step.waiting;
            walk.kept += step.kept;
            walk.wait = walk.wait.max(step.wait);
            walk.unreadable += step.unreadable;
            let (begun, resealed) = (all.begun + walk.begun, all.resealed + walk.resealed);
            progress.say(|| format!("{begun} accounts have new keys, {resealed} rows are sealed by them"));
            after = step.next;
            if after.is_none() {
                break;
            }
        }
        all = DataKeyStep {
            begun: all.begun + walk.begun,
            resealed: all.resealed + walk.resealed,
            ended: all.ended + walk.ended,
            ..walk
        };
        // What is begun is ended; nothing more is begun.
        least = None;
        if walk.waiting == 0 || walk.unreadable > 0 && walk.wait.is_zero() {
            break;
        }
        let (waiting, pause) = (walk.waiting, walk.wait.max(Duration::from_secs(1)));
        progress.say(|| {
            format!(
                "{waiting} accounts have both keys until every node has done with the old one: {} s",
                pause.as_secs()
            )
        });
        tokio::time::sleep(pause.min(limits::DATA_KEY_SETTLED)).await;
    }
    progress.clear();
    let DataKeyStep { begun, resealed, ended, waiting, kept, unreadable, .. } = all;
    if json {
        print_json(&json!({
            "begun_count": begun, "resealed_count": resealed, "ended_count": ended, "waiting_count": waiting,
            "kept_count": kept, "unreadable_count": unreadable,
        }))?;
    } else {
        output::line(format_args!(
            "{begun} accounts have new data keys; {resealed} sources and destinations were sealed anew, and {ended} old keys \
             are forgotten."
        ));
        if kept > 0 {
            output::line(format_args!(
                "{kept} accounts have payloads encrypted by older keys, which stay until those are forgotten: this command \
                 forgets them when it is run then."
            ));
        }
    }
    match unreadable {
        0 => Ok(()),
        _ => Err(Failure::new(
            Code::Failed,
            format!(
                "in {unreadable} sources and destinations something does not open or read, so the old keys of their \
                 {waiting} accounts stay: give them new secrets, or go back to a backup"
            ),
        )),
    }
}

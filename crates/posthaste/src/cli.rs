//! Every command and argument on one page; the settings among the flags come from the template.

use crate::{
    commands::{
        audit::AuditArgs, backup::BackupArgs, bench::BenchArgs, config::ConfigArgs, demo::DemoArgs,
        doctor::DoctorArgs, health::HealthArgs, keys::KeysArgs, listen::ListenArgs, send::SendArgs,
        serve::ServeArgs, sign::SignArgs, tail::TailArgs, verify::VerifyArgs,
    },
    config::{Config, ConfigError, Dev, Layers, Sayings, SettingFlags, check_variables},
};
use clap::{Args, Parser, Subcommand};

/// Webhook delivery: events in, every delivery ends well or says why.
#[derive(Debug, Parser)]
#[command(version, about, max_term_width = 110, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    /// Answer in JSON, for scripts.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 done, 1 failed, 2 usage or configuration, 3 store damaged, 4 unsafe store \
    settings, 5 data folder in use, 6 server not reached, 7 server refused, 141 nobody reads";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the server: take events in and deliver them.
    Serve(ServeArgs),
    /// See it at work: a server with four receivers, well and unwell, and a stream of events, in a folder of its own.
    Demo(DemoArgs),
    /// Bring the tables of the database up to date, as `serve` does by itself when it starts.
    Migrate(SettingFlags),
    /// Make, list and revoke keys, beside the store.
    Keys(KeysArgs),
    /// Measure how fast it is on this machine, beside a relay that does the least possible.
    Bench(BenchArgs),
    /// Publish an event.
    Send(SendArgs),
    /// Receive webhooks and print them, well-behaved or not.
    Listen(ListenArgs),
    /// Say which signature of a request is good, or why none is: exit code 1.
    Verify(VerifyArgs),
    /// Print the headers that sign a body, as a destination's requests have them.
    Sign(SignArgs),
    /// Print what happens as it happens: attempts, endings, holds.
    Tail(TailArgs),
    /// Ask a server whether it is ready: exit code 0, 1 if it is not, 6 if it was not reached.
    Health(HealthArgs),
    /// Print the settings, or check them.
    Config(ConfigArgs),
    /// Copy the embedded store to a file, while the server runs or not.
    Backup(BackupArgs),
    /// Check the audit log: whether it is what was written.
    Audit(AuditArgs),
    /// Look whether everything is in order, and say what to do if not; beside a running server too.
    Doctor(DoctorArgs),
}

/// Which server, and with which key.
#[derive(Debug, Args)]
pub(crate) struct ServerArgs {
    /// The server [default: the one that runs with the settings found here]
    #[arg(long, env = "POSTHASTE_URL")]
    pub(crate) url: Option<String>,
}

impl SettingFlags {
    /// The settings of this process: file, environment, these flags.
    pub(crate) fn config(&self, dev: Dev) -> Result<Config, ConfigError> {
        Config::from_layers(&self.layers(dev)?)
    }

    pub(crate) fn layers(&self, dev: Dev) -> Result<Layers, ConfigError> {
        check_variables()?;
        let said = Sayings { dev, file: self.file.as_deref(), flags: &self.given };
        Layers::stack(said, |name| std::env::var(name).ok())
    }
}

//! Settings: raw text from four layers in, checked values out. After this it does not matter where a value came from.
//!
//! [`template`] reads `config.default.toml`, the one list of all settings with their defaults; [`layers`] stacks file,
//! environment and flags on it and remembers where each value was set; [`values`] reads durations, sizes and lists;
//! [`variables`] refuses those that nobody reads.
//!
//! The layering is our own and not a library's: the sources of `config show`, the `*_FILE` variables, the nearest key
//! in an error and a `database` that is a URL as well as a table took more glue than it took code.

mod flags;
mod layers;
mod template;
mod values;
mod variables;

pub(crate) use flags::SettingFlags;
pub(crate) use layers::{Layers, Sayings};
pub(crate) use template::TEXT as TEMPLATE;

use crate::telemetry::LogFormat;
use domain::{
    address::{AddressPolicy, HostPattern},
    delivery_settings::DeliverySettings,
    gate::{BreakerSettings, GateSettings},
    limits,
    member::Role,
    retry::{self, RetrySettings},
};
use engine::egress::{Proxy, ProxyUrlError};
use ipnet::IpNet;
use std::{
    ffi::OsString,
    fmt,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};
use store::BacklogCap;
use values::{duration, durations, flag, hosts, networks, number, seconds, share, size};

/// Everything that can be set, checked.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) listen: SocketAddr,
    /// None: operators come in by the same address.
    pub(crate) admin_listen: Option<SocketAddr>,
    pub(crate) public_url: String,
    pub(crate) trusted_proxies: Vec<IpNet>,
    pub(crate) dashboard: bool,
    pub(crate) reveal: bool,
    pub(crate) data_dir: PathBuf,
    pub(crate) database: String,
    /// None: where the database is.
    pub(crate) listen_url: Option<String>,
    pub(crate) pool: usize,
    pub(crate) accept_data_loss: bool,
    pub(crate) role: Role,
    /// None: made from the host's name and the port.
    pub(crate) node_name: Option<String>,
    pub(crate) lease: Duration,
    pub(crate) rescan: Duration,
    pub(crate) stop_delay: Duration,
    pub(crate) grace: Duration,
    pub(crate) log_format: LogFormat,
    pub(crate) master_keys: Option<Secret>,
    pub(crate) bootstrap_api_key: Option<Secret>,
    pub(crate) bootstrap_operator_key: Option<Secret>,
    pub(crate) addresses: AddressPolicy,
    pub(crate) dns: Dns,
    pub(crate) proxy: Option<Proxy>,
    pub(crate) max_in_flight: usize,
    pub(crate) lanes_kept: usize,
    pub(crate) connect_timeout: Duration,
    pub(crate) gate: GateSettings,
    /// What destinations go by where neither they nor their account say anything.
    pub(crate) defaults: DeliverySettings,
    pub(crate) body_bytes: usize,
    pub(crate) backlog: BacklogCap,
    pub(crate) accounts: usize,
    pub(crate) idempotency_window: Duration,
    pub(crate) audit_kept: Duration,
    /// The operator's account, by its id or uid.
    pub(crate) operations_account: Option<String>,
    /// Where secrets were read from.
    pub(crate) secret_files: Vec<PathBuf>,
    /// Everybody on this machine can read it.
    pub(crate) password_in_arguments: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dns {
    Hickory,
    System,
}

/// Whether this is `serve --dev`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dev {
    No,
    Yes,
}

/// A text that prints as `***`.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

impl Secret {
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// What is wrong with the settings, and where it was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfigError(String);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

/// Networks a developer's own services live in; `--dev` allows them.
const DEV_NETWORKS: [&str; 6] =
    ["127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "::1/128", "fc00::/7"];
/// Names that only mean something on this machine or network.
const DEV_HOSTS: [&str; 2] = ["*.local", "*.internal"];

impl Config {
    pub(crate) fn from_layers(layers: &Layers) -> Result<Self, ConfigError> {
        let listen = layers.read("listen", values::address)?;
        let data_dir = layers.read("data_dir", folder)?;
        let config = Self {
            listen,
            admin_listen: layers.maybe("admin_listen", values::address)?,
            public_url: layers
                .maybe("public_url", values::web_address)?
                .unwrap_or_else(|| format!("http://{listen}")),
            trusted_proxies: layers.read("trusted_proxies", networks)?,
            dashboard: layers.read("dashboard", flag)?,
            reveal: layers.read("secrets.reveal", flag)?,
            database: layers.maybe("database", database)?.unwrap_or_else(|| default_database(&data_dir)),
            data_dir,
            listen_url: layers.maybe("database.listen_url", values::text)?,
            pool: layers.read("database.pool", |text| number(text, 1..=1_000))?,
            accept_data_loss: layers.read("database.accept_data_loss", flag)?,
            role: layers.read("role", role)?,
            node_name: layers.maybe("node.name", values::text)?,
            lease: layers.read("node.lease", |text| duration(text, Duration::from_secs(4)..=HOUR))?,
            rescan: layers.read("rescan", |text| duration(text, Duration::from_millis(100)..=HOUR))?,
            stop_delay: layers.read("shutdown.delay", |text| duration(text, Duration::ZERO..=HOUR))?,
            grace: layers.read("shutdown.grace", |text| duration(text, Duration::ZERO..=HOUR))?,
            log_format: layers.read("log.format", log_format)?,
            master_keys: layers.maybe("master_keys", values::text)?.map(Secret),
            bootstrap_api_key: layers.maybe("bootstrap.api_key", values::text)?.map(Secret),
            bootstrap_operator_key: layers.maybe("bootstrap.operator_key", values::text)?.map(Secret),
            addresses: addresses(layers)?,
            dns: layers.read("dns", dns)?,
            proxy: proxy(layers)?,
            max_in_flight: layers.read("delivery.max_in_flight", |text| number(text, 1..=1_000_000))?,
            lanes_kept: layers.read("delivery.lanes", |text| number(text, 1_000..=1_000_000))?,
            connect_timeout: layers
                .read("delivery.connect_timeout", |text| duration(text, MILLISECOND..=limits::TIMEOUT_MAX))?,
            gate: gate(layers)?,
            defaults: defaults(layers)?,
            body_bytes: layers.read("limits.body", |text| size(text, 1..=MAX_BODY_BYTES))?,
            backlog: BacklogCap {
                rows: layers.read("limits.backlog_rows", |text| number(text, 1..=MAX_BACKLOG_ROWS))?,
                bytes: layers.read("limits.backlog_bytes", |text| size(text, 1..=usize::MAX))? as u64,
            },
            accounts: layers.read("limits.accounts", |text| number(text, 1..=limits::ACCOUNTS_MAX))?,
            idempotency_window: layers.read("idempotency.window", |text| duration(text, HOUR..=365 * DAY))?,
            audit_kept: layers.read("audit.kept", |text| duration(text, DAY..=3_650 * DAY))?,
            operations_account: layers.maybe("operations.account", values::text)?,
            secret_files: layers.secret_files(),
            password_in_arguments: layers.password_in_arguments(),
        };
        config.check_role().map(|()| config)
    }

    /// One process owns an embedded store, so that it has to do everything.
    fn check_role(&self) -> Result<(), ConfigError> {
        if self.role == Role::All || !self.database.starts_with("sqlite:") {
            return Ok(());
        }
        Err(ConfigError(format!(
            "role = {:?} needs a PostgreSQL database, which several processes can share; an embedded store belongs to one \
             process, which does everything. Name one with --database postgres://…, or leave --role out",
            self.role.as_str()
        )))
    }

    /// The same on loopback only, with a developer's networks allowed.
    pub(crate) fn for_dev(mut self) -> Result<Self, ConfigError> {
        if let Some(open) =
            [Some(self.listen), self.admin_listen].into_iter().flatten().find(|at| !at.ip().is_loopback())
        {
            return Err(ConfigError(format!(
                "--dev listens on loopback only, because its keys are in plain sight; {open} is not. Name an address such \
                 as 127.0.0.1:8080, or leave --dev out"
            )));
        }
        let networks =
            DEV_NETWORKS.iter().map(|net| net.parse::<IpNet>().expect("written as networks above"));
        self.addresses.allow.extend(networks);
        let hosts = DEV_HOSTS.iter().map(|host| host.parse::<HostPattern>().expect("written as hosts above"));
        self.addresses.allow_hosts.extend(hosts);
        Ok(self)
    }
}

const MILLISECOND: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(24 * 3_600);
/// Every body is held in memory while it is committed.
pub(crate) const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;
/// More than any disk holds.
const MAX_BACKLOG_ROWS: u64 = 1_000_000_000_000;

/// A variable of this process that looks like a setting and is none is an error.
pub(crate) fn check_variables() -> Result<(), ConfigError> {
    let text = |(name, value): (OsString, OsString)| {
        Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
    };
    variables::check(std::env::vars_os().filter_map(text))
}

/// For flags that are no settings.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    duration(text, Duration::ZERO..=HOUR)
}

/// The same for what lasts.
pub(crate) fn parse_lifetime(text: &str) -> Result<Duration, String> {
    const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
    duration(text, Duration::from_secs(1)..=LONGEST)
}

fn default_database(data_dir: &Path) -> String {
    format!("sqlite:{}", data_dir.join("posthaste.db").display())
}

fn addresses(layers: &Layers) -> Result<AddressPolicy, ConfigError> {
    Ok(AddressPolicy {
        allow: layers.read("egress.allow", networks)?,
        deny: layers.read("egress.deny", networks)?,
        allow_hosts: layers.read("egress.allow_hosts", hosts)?,
        deny_hosts: layers.read("egress.deny_hosts", hosts)?,
        nat64: layers.read("egress.nat64", flag)?,
        allow_http: layers.read("egress.allow_http", flag)?,
    })
}

fn proxy(layers: &Layers) -> Result<Option<Proxy>, ConfigError> {
    let resolves = layers.read("egress.proxy_resolves", flag)?;
    let proxy = layers
        .maybe("egress.proxy", |text| text.parse().map_err(|error: ProxyUrlError| error.to_string()))?;
    Ok(proxy.map(|proxy: Proxy| proxy.resolving_names(resolves)))
}

fn gate(layers: &Layers) -> Result<GateSettings, ConfigError> {
    let pause = |text: &str| duration(text, MILLISECOND..=limits::RETRY_AFTER_MAX);
    Ok(GateSettings {
        ladder: layers
            .read("throttle.ladder", |text| durations(text, MILLISECOND..=limits::RETRY_AFTER_MAX))?,
        breaker: BreakerSettings {
            enabled: layers.read("breaker.enabled", flag)?,
            failures: layers.read("breaker.failures", |text| number(text, 1..=1_000_000))?,
            ratio: layers.read("breaker.ratio", share)?,
            min: layers.read("breaker.min", |text| number(text, 1..=1_000_000))?,
            window: layers.read("breaker.window", pause)?,
            open: layers.read("breaker.open", pause)?,
            max_open: layers.read("breaker.max_open", pause)?,
        },
    })
}

fn defaults(layers: &Layers) -> Result<DeliverySettings, ConfigError> {
    let retry_policy = RetrySettings {
        schedule: layers.maybe("defaults.retry_policy.schedule", |text| {
            values::pauses(text, retry::PAUSE_MIN..=retry::PAUSE_MAX, retry::SCHEDULE_MAX_STEPS)
        })?,
        jitter: layers.maybe("defaults.retry_policy.jitter", share)?,
        expire_after: layers.maybe("defaults.retry_policy.expire_after", |text| {
            seconds(text, retry::EXPIRE_AFTER_MIN..=retry::EXPIRE_AFTER_MAX)
        })?,
        retry_statuses: layers.maybe("defaults.retry_policy.retry_statuses", values::retry_statuses)?,
    };
    Ok(DeliverySettings {
        max_concurrency: layers
            .maybe("defaults.max_concurrency", |text| number(text, 1..=limits::MAX_CONCURRENCY_MAX))?,
        timeout: layers
            .maybe("defaults.timeout", |text| seconds(text, limits::TIMEOUT_MIN..=limits::TIMEOUT_MAX))?,
        retry_policy,
    })
}

fn folder(text: &str) -> Result<PathBuf, String> {
    if text.trim().is_empty() { Err("expected the path of a folder".into()) } else { Ok(text.into()) }
}

/// What it leads to is found out when it is opened.
fn database(text: &str) -> Result<String, String> {
    match text.split_once(':') {
        Some(("sqlite" | "postgres" | "postgresql", rest)) if !rest.is_empty() => Ok(text.into()),
        _ => Err("expected sqlite:PATH or postgres://USER@HOST/NAME".into()),
    }
}

fn log_format(text: &str) -> Result<LogFormat, String> {
    match text {
        "auto" => Ok(LogFormat::Auto),
        "human" => Ok(LogFormat::Human),
        "json" => Ok(LogFormat::Json),
        _ => Err("expected auto, human or json".into()),
    }
}

fn dns(text: &str) -> Result<Dns, String> {
    match text {
        "hickory" => Ok(Dns::Hickory),
        "system" => Ok(Dns::System),
        _ => Err("expected hickory or system".into()),
    }
}

fn role(text: &str) -> Result<Role, String> {
    text.parse().map_err(|_| "expected all, api or worker".into())
}

#[cfg(test)]
mod tests;

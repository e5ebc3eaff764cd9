//! `posthaste keys`: keys made, with what bounds them, listed and revoked beside the store, where a user who can read the master key is trusted.

mod rotate;

use crate::{
    clock::SystemClock,
    commands::{
        bootstrap,
        dev::DevKeys,
        open::{open, open_existing},
        print_json,
    },
    config::{Config, Dev, SettingFlags, parse_lifetime},
    dice::SystemDice,
    failure::Failure,
    output,
};
use api::{
    installation_secrets::InstallationSecrets,
    keys::{KeyText, shown},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use clap::{Args, Subcommand, ValueEnum};
use domain::{
    account::{ApiKey, KeyKind, Scope},
    address::network,
    dice::Dice,
    id::{AccountId, ApiKeyId, SourceId},
    limits,
    seal::MasterKeys,
    time::{Clock, Timestamp},
};
use ipnet::IpNet;
use serde_json::json;
use std::{sync::Arc, time::Duration};
use store::{Page, Store};

#[derive(Debug, Args)]
pub(crate) struct KeysArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Print a new master key, for POSTHASTE_MASTER_KEYS. Keep it: without it the store's secrets are lost.
    Master {
        /// What to call it: every key of an installation needs its own name
        #[arg(long, default_value = "k1")]
        name: String,
    },
    /// Print a well-formed key that no store knows yet, for POSTHASTE_BOOTSTRAP_API_KEY or …_OPERATOR_KEY.
    Generate {
        #[arg(long, value_enum, default_value_t = Kind::Account)]
        kind: Kind,
    },
    /// Make a key in the store and print it, this once.
    Create {
        #[command(flatten)]
        owner: Owner,
        /// What to call it
        #[arg(long, default_value = "command line")]
        name: String,
        #[command(flatten)]
        bounds: Bounds,
        #[command(flatten)]
        settings: SettingFlags,
    },
    /// List the keys of an account, of the operator, or of platforms.
    List {
        #[command(flatten)]
        owner: Owner,
        #[command(flatten)]
        settings: SettingFlags,
    },
    /// Seal everything by the active master key, so that the others may be left out of master_keys; or give accounts new data
    /// keys. While servers run; broken off, it is run again.
    Rotate(rotate::RotateArgs),
    /// Revoke a key: within a second nobody can use it.
    Revoke {
        /// key_…
        id: ApiKeyId,
        #[command(flatten)]
        owner: Owner,
        #[command(flatten)]
        settings: SettingFlags,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Kind {
    Account,
    Operator,
}

/// Whose key; the first account's by default.
#[derive(Debug, Args)]
struct Owner {
    /// The operator's, who runs the installation
    #[arg(long, conflicts_with = "account")]
    operator: bool,
    /// A platform's, which acts for any account that it names
    #[arg(long, conflicts_with_all = ["account", "operator"])]
    platform: bool,
    /// This account's [default: the first one's]
    #[arg(long, value_name = "acc_…")]
    account: Option<AccountId>,
}

/// What the key may do, for how long, and from where.
#[derive(Debug, Args)]
struct Bounds {
    /// What it may do; several with commas between [default: all that its kind may]
    #[arg(long = "scopes", value_name = "SCOPE", value_delimiter = ',', conflicts_with_all = ["operator", "source"])]
    scopes: Vec<Scope>,
    /// It only brings in events of this source of the account
    #[arg(long, value_name = "src_…", conflicts_with_all = ["operator", "platform"])]
    source: Option<SourceId>,
    /// When it ends: so long from now, as `90d`, or a moment, as `2027-01-01T00:00:00Z` [default: never]
    #[arg(long, value_name = "WHEN", value_parser = parse_end)]
    expires: Option<End>,
    /// It is taken from this address or network only; may be repeated
    #[arg(long = "allow-address", value_name = "ADDRESS", value_parser = parse_network)]
    allow_address: Vec<IpNet>,
    /// Events a second that it may bring in, on each node [default: no limit]
    #[arg(long, value_name = "PER-SECOND", conflicts_with = "operator",
          value_parser = clap::value_parser!(u32).range(1..=limits::RATE_LIMIT_MAX as i64))]
    rate_limit: Option<u32>,
}

#[derive(Debug, Clone, Copy)]
enum End {
    In(Duration),
    At(Timestamp),
}

impl End {
    fn since(self, now: Timestamp) -> Result<Timestamp, Failure> {
        match self {
            Self::In(length) => Ok(now.plus(length)),
            Self::At(at) if at > now => Ok(at),
            Self::At(_) => Err(Failure::configuration("--expires: it lies in the past")),
        }
    }
}

fn parse_end(text: &str) -> Result<End, String> {
    let at = text.parse().map(End::At);
    at.or_else(|_| parse_lifetime(text).map(End::In))
        .map_err(|_| "a length of time such as `90d`, or a moment such as `2027-01-01T00:00:00Z`".into())
}

fn parse_network(text: &str) -> Result<IpNet, String> {
    network(text).ok_or_else(|| "an address or a network, such as 192.0.2.0/24".into())
}

impl Owner {
    fn kind(&self) -> KeyKind {
        match (self.operator, self.platform) {
            (true, _) => KeyKind::Operator,
            (false, true) => KeyKind::Platform,
            (false, false) => KeyKind::Account,
        }
    }
}

pub(crate) async fn run(args: KeysArgs, json: bool) -> Result<(), Failure> {
    match args.what {
        What::Master { name } => master(&name, json),
        What::Generate { kind } => generate(kind, json),
        What::Create { owner, name, bounds, settings } => {
            create(&owner, &name, bounds, &settings, json).await
        }
        What::List { owner, settings } => list(&owner, &settings, json).await,
        What::Rotate(args) => rotate::run(args, json).await,
        What::Revoke { id, owner, settings } => revoke(id, &owner, &settings, json).await,
    }
}

/// `name:base64` of 32 random bytes.
pub(crate) fn new_master_key(name: &str) -> String {
    let mut bytes = [0; 32];
    SystemDice.fill(&mut bytes);
    format!("{name}:{}", STANDARD.encode(bytes))
}

fn master(name: &str, json: bool) -> Result<(), Failure> {
    let key = new_master_key(name);
    MasterKeys::parse(&key).map_err(Failure::configuration)?;
    if json {
        return print_json(&json!({ "master_key": key }));
    }
    output::line(key);
    Ok(())
}

fn generate(kind: Kind, json: bool) -> Result<(), Failure> {
    let kind = match kind {
        Kind::Account => KeyKind::Account,
        Kind::Operator => KeyKind::Operator,
    };
    let key = KeyText::generate(kind, &SystemDice);
    if json {
        return print_json(&json!({ "key": key.expose(), "kind": kind }));
    }
    output::line(key.expose());
    Ok(())
}

async fn create(
    owner: &Owner,
    name: &str,
    bounds: Bounds,
    settings: &SettingFlags,
    json: bool,
) -> Result<(), Failure> {
    if name.trim().is_empty()
        || name.chars().count() > limits::NAME_CHARS
        || name.chars().any(char::is_control)
    {
        let detail = format!("--name: 1 to {} characters, no control characters", limits::NAME_CHARS);
        return Err(Failure::configuration(detail));
    }
    let foreign = bounds.scopes.iter().find(|scope| !owner.platform && !scope.is_of_account());
    if let Some(scope) = foreign {
        return Err(Failure::configuration(format!("--scopes: {scope} is a scope of platforms")));
    }
    if bounds.allow_address.len() > limits::ALLOWED_ADDRESSES {
        return Err(Failure::configuration(format!(
            "--allow-address: at most {}",
            limits::ALLOWED_ADDRESSES
        )));
    }
    let config = settings.config(Dev::No)?;
    let master = bootstrap::master_keys(&configured_or_dev(&config)?)?;
    let store = open(&config).await?;
    let secrets = InstallationSecrets::open(store.as_ref(), master, &SystemDice)
        .await
        .map_err(bootstrap::secrets_failure)?;
    let account = account(owner, &store).await?;
    if let Some((account, source)) = account.zip(bounds.source) {
        store.source(account, source).await?;
    }
    let kind = if bounds.source.is_some() { KeyKind::Ingest } else { owner.kind() };
    let text = KeyText::generate(kind, &SystemDice);
    let now = bootstrap::now(&store).await?;
    let whole = text.kept(ApiKeyId::at(now, SystemDice.bits()), account, name, &secrets, now);
    let mut scopes = if bounds.scopes.is_empty() { whole.scopes.clone() } else { bounds.scopes };
    scopes.sort_unstable();
    scopes.dedup();
    let key = ApiKey {
        scopes,
        source_id: bounds.source,
        rate_limit: bounds.rate_limit,
        expires_at: bounds.expires.map(|end| end.since(now)).transpose()?,
        allowed_addresses: bounds.allow_address,
        ..whole
    };
    store.create_api_key(&key, &bootstrap::entry(now, "create_api_key", key.id)).await?;
    if json {
        return print_json(
            &json!({ "id": key.id, "kind": kind, "account_id": account, "key": text.expose() }),
        );
    }
    output::line(text.expose());
    Ok(())
}

async fn list(owner: &Owner, settings: &SettingFlags, json: bool) -> Result<(), Failure> {
    let store = open_existing(&settings.config(Dev::No)?).await?;
    let account = account(owner, &store).await?;
    let mut before = None;
    loop {
        let keys = store.api_keys(account, Page { before, limit: limits::PAGE_MAX }).await?;
        // Keys of operators and of platforms are kept together.
        let wanted = |key: &&ApiKey| account.is_some() || key.kind == owner.kind();
        keys.iter().filter(wanted).try_for_each(|key| print_key(key, json))?;
        match keys.last() {
            Some(last) if keys.len() == limits::PAGE_MAX => before = Some(last.id),
            _ => return Ok(()),
        }
    }
}

fn print_key(key: &ApiKey, json: bool) -> Result<(), Failure> {
    let shown = shown(key.kind, &key.lookup);
    if json {
        return print_json(&json!({
            "id": key.id, "name": key.name, "kind": key.kind, "prefix": shown, "scopes": key.scopes,
            "source_id": key.source_id, "rate_limit": key.rate_limit, "expires_at": key.expires_at,
            "allowed_addresses": key.allowed_addresses,
            "created_at": key.created_at, "last_used_at": key.last_used_at, "revoked_at": key.revoked_at,
        }));
    }
    output::line(format_args!("{}  {shown}  {}  {}", key.id, state(key, SystemClock.now()), key.name));
    Ok(())
}

fn state(key: &ApiKey, now: Timestamp) -> String {
    if let Some(at) = key.revoked_at {
        return format!("revoked {at}");
    }
    let until = match key.expires_at {
        Some(at) if at <= now => return format!("expired {at}"),
        Some(at) => format!("live until {at}"),
        None => "live".to_owned(),
    };
    if key.allowed_addresses.is_empty() {
        return until;
    }
    let networks: Vec<String> = key.allowed_addresses.iter().map(IpNet::to_string).collect();
    format!("{until} from {}", networks.join(","))
}

async fn revoke(id: ApiKeyId, owner: &Owner, settings: &SettingFlags, json: bool) -> Result<(), Failure> {
    let store = open_existing(&settings.config(Dev::No)?).await?;
    let account = account(owner, &store).await?;
    let now = SystemClock.now();
    store.revoke_api_key(account, id, now, &bootstrap::entry(now, "revoke_api_key", id)).await?;
    if json {
        return print_json(&json!({ "id": id, "revoked": true }));
    }
    output::line(format_args!("{id} is revoked"));
    Ok(())
}

/// None for operators and platforms.
async fn account(owner: &Owner, store: &Arc<dyn Store>) -> Result<Option<AccountId>, Failure> {
    match (owner.kind().is_of_installation(), owner.account) {
        (true, _) => Ok(None),
        (false, Some(id)) => Ok(Some(store.account(id).await?.id)),
        (false, None) => match store.first_account().await? {
            Some(account) => Ok(Some(account.id)),
            None => Err(Failure::configuration(
                "there is no account yet: make one with an operator key (keys create --operator, then POST \
                 /v1/accounts), or let serve make it (POSTHASTE_BOOTSTRAP_API_KEY)",
            )),
        },
    }
}

/// Beside a folder of `serve --dev`, its master key is the right one.
pub(crate) fn configured_or_dev(config: &Config) -> Result<String, Failure> {
    if let Some(keys) = &config.master_keys {
        return Ok(keys.expose().to_owned());
    }
    let dev = DevKeys::read(&config.data_dir)?.map(|keys| keys.master_key);
    dev.ok_or_else(bootstrap::no_master_key)
}

//! `posthaste audit`: whether the audit log is what was written. It only looks, beside a running server as well.

use crate::{
    commands::{open, print_json},
    config::{Config, Dev, SettingFlags},
    failure::{Code, Failure},
    output,
};
use clap::{Args, Subcommand};
use domain::{audit::ChainEnds, id::AccountId, limits};
use serde_json::{Value, json};
use std::sync::Arc;
use store::{ChainOwner, Checked, FoundTables, ReadOnlyStore, check_chain};

#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Check that no entry was changed, taken out or moved: exit code 0, or 1 with the first that does not hold.
    Verify {
        /// This account's chain [default: all, and the installation's own]
        #[arg(long, value_name = "acc_…")]
        account: Option<AccountId>,
        #[command(flatten)]
        settings: SettingFlags,
    },
}

pub(crate) async fn run(args: AuditArgs, json: bool) -> Result<(), Failure> {
    let What::Verify { account, settings } = args.what;
    let store = store_of(&settings.config(Dev::No)?).await?;
    let (mut chains, mut broken) = (Vec::new(), 0);
    let mut verify = async |owner: ChainOwner| {
        let checked = check_chain(&*store, owner).await?;
        broken += u32::from(matches!(checked, Checked::Breaks(_)));
        match json {
            true => chains.push(shown(owner, checked)),
            false => output::line(sentence(owner, checked)),
        }
        Ok::<(), Failure>(())
    };
    match account {
        Some(account) => {
            let owner = Some(account);
            let nothing = store.audit_ends(owner).await?.is_none()
                && store.audit_records(owner, i64::MIN, 1).await?.is_empty();
            if nothing {
                return Err(Failure::configuration(format!(
                    "nothing was ever written down of {account}: there is no such account here, or it is older than the \
                     audit log"
                )));
            }
            verify(owner).await?;
        }
        None => {
            let mut after = None;
            loop {
                let owners = store.audit_chains(after, limits::PAGE_MAX).await?;
                for owner in &owners {
                    verify(*owner).await?;
                }
                after = owners.last().copied();
                if owners.len() < limits::PAGE_MAX {
                    break;
                }
            }
        }
    }
    if json {
        print_json(&json!({ "ok": broken == 0, "chains": chains }))?;
    }
    match broken {
        0 => Ok(()),
        _ => Err(Failure::new(
            Code::Failed,
            format!(
                "{broken} of the chains do not hold: somebody has written to the database past this program, or it is \
                 damaged. Compare with a backup to see what was changed"
            ),
        )),
    }
}

/// With the tables that this program knows.
async fn store_of(config: &Config) -> Result<Arc<dyn ReadOnlyStore>, Failure> {
    open::must_exist(config)?;
    let store = store::open_read_only(&open::options(config)).await?;
    let schema = store.schema().await?;
    match schema.found {
        FoundTables::Version(found) if found == schema.known => Ok(store),
        _ => Err(Failure::configuration(
            "the tables are not those of this version: `posthaste doctor` says what to do about it",
        )),
    }
}

fn sentence(owner: ChainOwner, checked: Checked) -> String {
    let whose = owner.map_or_else(|| "the installation".to_owned(), |id| id.to_string());
    match checked {
        Checked::Holds(ChainEnds { forgotten, last }) => format!(
            "{whose}: {} entries hold, up to number {} with hash {}",
            last.number - forgotten.number,
            last.number,
            hexadecimal(&last.hash)
        ),
        Checked::Breaks(broken) => format!("{whose}: {broken}"),
    }
}

fn shown(owner: ChainOwner, checked: Checked) -> Value {
    match checked {
        Checked::Holds(ChainEnds { forgotten, last }) => json!({
            "account_id": owner, "ok": true, "entries": last.number - forgotten.number, "last_number": last.number,
            "last_hash": hexadecimal(&last.hash),
        }),
        Checked::Breaks(broken) => {
            json!({ "account_id": owner, "ok": false, "broken": broken.to_string() })
        }
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

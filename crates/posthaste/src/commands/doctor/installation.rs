//! What the store says: its tables, its settings, whether the master key opens it, its clock and the nodes', its file.

use super::{
    Chart,
    finding::{Finding, Level},
};
use crate::{
    clock::SystemClock,
    commands::{bootstrap, keys, open},
    config::Config,
    failure::Failure,
    progress::{Progress, size},
};
use api::{
    installation_secrets::{InstallationSecrets, KNOWN_MASTER_KEY, PEPPER},
    master_keys::MasterKeyUses,
};
use client::Client;
use domain::{
    limits,
    seal::MasterKeys,
    time::{Clock as _, Timestamp},
};
use std::{path::Path, sync::Arc, time::Duration};
use store::{
    Extent, FoundTables, KeptCertificate, Member, OpenError, ReadOnlyStore, SchemaVersion, StoreError,
    sqlite::{Depth, IntegrityReport, SqliteReadOnly},
};

pub(super) struct Installation {
    pub(super) store: Arc<dyn ReadOnlyStore>,
}

/// As long as anything takes.
const FOR_EVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// None where there is nothing more to look at; why is entered.
pub(super) async fn look(config: &Config, chart: &mut Chart) -> Result<Option<Installation>, Failure> {
    if let Err(missing) = open::must_exist(config) {
        let fix = "The first start makes one, unless this is the wrong place";
        chart.enter(Finding::bad("schema", Level::Warning, missing.to_string(), fix));
        return Ok(None);
    }
    let store = store::open_read_only(&open::options(config)).await?;
    match store.schema().await {
        Ok(schema) => {
            let finding = tables(schema);
            let goes_on = finding.level == Level::Ok && schema.found != FoundTables::None;
            chart.enter(finding);
            if open::file(config).is_none() {
                chart.enter(rights(store.as_ref()).await);
            }
            if !goes_on {
                return Ok(None);
            }
        }
        Err(error) => {
            chart.enter(trouble("schema", &error));
            return Ok(None);
        }
    }
    Ok(Some(Installation { store }))
}

/// Those that end within a month, the first of them first.
fn certificates(found: &[KeptCertificate], now: Timestamp) -> Vec<Finding> {
    let check = "certificates";
    let until = now.plus(limits::CERTIFICATE_WARNING);
    let mut ending: Vec<_> = found.iter().filter(|it| it.expires_at <= until).collect();
    if ending.is_empty() {
        let detail = format!("{} client certificates of destinations, none ends within a month", found.len());
        return vec![Finding::ok(check, detail)];
    }
    ending.sort_by_key(|it| it.expires_at);
    let finding = |it: &&KeptCertificate| {
        let detail = format!(
            "the client certificate of {} ({}) {} at {}",
            it.destination_id,
            it.destination_name,
            if it.expires_at <= now { "ended" } else { "ends" },
            it.expires_at
        );
        // One account's deliveries: the installation is well.
        Finding::bad(
            check,
            Level::Warning,
            detail,
            "Have it issued anew, and write it to the destination with its key",
        )
    };
    ending.iter().take(limits::CERTIFICATES_TOLD).map(finding).collect()
}

fn tables(SchemaVersion { found, known }: SchemaVersion) -> Finding {
    let check = "schema";
    let found = match found {
        FoundTables::None => {
            return Finding::ok(check, "there are no tables yet; the first start makes them");
        }
        FoundTables::Unreleased => {
            return Finding::bad(
                check,
                Level::Problem,
                "the tables are those of a development version, from before the first release",
                "Start with an empty folder, or an empty database: nothing leads from those tables to these",
            );
        }
        FoundTables::Version(found) => found,
    };
    match found {
        newer if newer > known => Finding::bad(
            check,
            Level::Problem,
            format!("the tables have version {found}, this program knows versions up to {known}"),
            "Use a newer version of this program",
        ),
        older if older < known => Finding::bad(
            check,
            Level::Problem,
            format!("the tables have version {found}, this program has {known}"),
            "Run `posthaste migrate`, or start `posthaste serve`, which does it by itself",
        ),
        _ => Finding::ok(check, format!("version {found}")),
    }
}

/// May our role make tables? Partitions are made every day, so that it is not a question of the first start alone.
async fn rights(store: &dyn ReadOnlyStore) -> Finding {
    let check = "rights";
    match store.missing_right().await {
        Ok(None) => Finding::ok(check, "the role may make tables"),
        Ok(Some(missing)) => {
            let fix = format!("As the owner of the database, run: {}", missing.grant);
            Finding::bad(check, Level::Problem, missing.what, fix)
        }
        Err(error) => trouble(check, &error),
    }
}

impl Installation {
    /// Can it lose what it has acknowledged?
    pub(super) async fn settings(&self, config: &Config, chart: &mut Chart) {
        let check = "store_settings";
        match self.store.unsafe_settings().await {
            Ok(found) if found.is_empty() => {
                chart.enter(Finding::ok(check, "what is acknowledged is on disk"));
            }
            Ok(found) => chart.enter_all(found.into_iter().map(|found| {
                let detail = format!("{}: {}", found.setting, found.harm);
                let level = if config.accept_data_loss { Level::Warning } else { Level::Unsafe };
                Finding::bad(check, level, detail, found.fix)
            })),
            Err(error) => chart.enter(trouble(check, &error)),
        }
    }

    /// Do the master keys open what the store has sealed?
    pub(super) async fn secrets(&self, config: &Config, chart: &mut Chart) {
        let check = "secrets";
        let keys = keys::configured_or_dev(config).and_then(|text| bootstrap::master_keys(&text));
        // That there is none was told.
        let Ok(keys) = keys else { return };
        let known = match self.store.settings(KNOWN_MASTER_KEY).await {
            Ok(known) => known,
            Err(error) => return chart.enter(trouble(check, &error)),
        };
        let finding = match self.store.setting(PEPPER).await {
            Ok(None) => Finding::ok(check, "nothing is sealed yet"),
            Ok(Some(kept)) => match InstallationSecrets::check(&keys, kept, &known) {
                Ok(()) => match MasterKeyUses::count(self.store.as_ref()).await {
                    Ok(uses) => sealed_by(&keys, &uses),
                    Err(error) => trouble(check, &error),
                },
                Err(error) => Finding::bad(
                    check,
                    Level::Problem,
                    error.to_string(),
                    "Set master_keys to the keys this store was made with; a lost key cannot be replaced",
                ),
            },
            Err(error) => trouble(check, &error),
        };
        chart.enter(finding);
    }

    /// Ids, due times and leases go by the database's clock, so that a wrong one of ours delays nothing; certificates
    /// are judged by it, and people read it in logs.
    pub(super) async fn clocks(&self, config: &Config, chart: &mut Chart) {
        let check = "clock";
        let before = SystemClock.now();
        let roster = match self.store.audit_roster().await {
            Ok(roster) => roster,
            Err(error) => return chart.enter(trouble(check, &error)),
        };
        let asked = before.plus(SystemClock.now().since(before) / 2);
        let fix = "Let a time service (chrony, systemd-timesyncd) keep the clock";
        let mut all_agree = true;
        // The clock of an embedded store is this machine's.
        if open::file(config).is_none()
            && let Some(off) = off(asked, roster.now)
        {
            all_agree = false;
            let detail = format!("this machine's clock is {off} the database's");
            chart.enter(Finding::bad(check, Level::Warning, detail, fix));
        }
        for Member { record, joined_at, .. } in &roster.members {
            // A node makes its id by its own clock, just before the database writes down when it joined.
            if let Some(off) = off(record.id.made_at(), *joined_at) {
                all_agree = false;
                let detail = format!("the clock of {} was {off} the store's when it started", record.label);
                chart.enter(Finding::bad(check, Level::Warning, detail, fix));
            }
        }
        if let Some(path) = open::url_path(config) {
            for finding in own_clock(config, &path, asked).await {
                all_agree = false;
                chart.enter(finding);
            }
        }
        if all_agree {
            chart.enter(Finding::ok(
                check,
                format!("agrees with the store and {} nodes", roster.members.len()),
            ));
        }
        let live = roster.members.iter().filter(|member| !member.expired).count();
        chart.enter(Finding::ok("nodes", format!("{live} running, {} rows", roster.members.len())));
    }

    /// Do client certificates of destinations end soon?
    pub(super) async fn certificates(&self, chart: &mut Chart) {
        let check = "certificates";
        match self.store.client_certificates(limits::CERTIFICATES_LOOKED_AT).await {
            Ok(found) => chart.enter_all(certificates(&found, SystemClock.now())),
            Err(error) => chart.enter(trouble(check, &error)),
        }
    }

    /// How large is it?
    pub(super) async fn extent(&self, chart: &mut Chart) {
        let check = "store_size";
        chart.enter(match self.store.extent().await {
            Ok(Extent::File { bytes, log_bytes }) => {
                Finding::ok(check, format!("{} in the file, {} in its log", size(bytes), size(log_bytes)))
            }
            Ok(Extent::Database { bytes, partitions }) => {
                Finding::ok(check, format!("{} in the database, {partitions} partitions", size(bytes)))
            }
            Err(error) => trouble(check, &error),
        });
    }

    /// Is the file of an embedded store whole, and how much of it is in use?
    pub(super) async fn file(
        &self,
        config: &Config,
        patience: Duration,
        progress: &mut Progress,
        chart: &mut Chart,
    ) -> Result<(), Failure> {
        let Some(path) = open::url_path(config) else { return Ok(()) };
        let in_use = store::sqlite::is_in_use(&path);
        let depth = if in_use { Depth::ByTable } else { Depth::Whole };
        let patience = if patience.is_zero() { FOR_EVER } else { patience };
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
        let says = move |table: &str, place: usize, of: usize| {
            let _ = tell.send(format!("looking through {table} ({place} of {of})"));
        };
        let mut checking = Box::pin(store::sqlite::check_integrity(&path, depth, patience, says));
        let checked = loop {
            tokio::select! {
                checked = &mut checking => break checked,
                Some(text) = told.recv() => progress.say(|| text),
            }
        };
        progress.clear();
        match checked {
            Ok(examination) => chart.enter_all(integrity(&examination, in_use)),
            Err(OpenError::Damaged(why)) => chart.enter(damaged(&[why])),
            Err(OpenError::Unavailable(error)) => chart.enter(trouble("integrity", &error)),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

/// Which master keys are needed, and by which something is sealed.
fn sealed_by(keys: &MasterKeys, uses: &MasterKeyUses) -> Finding {
    let (check, active) = ("secrets", keys.active());
    let of_others: Vec<String> = uses
        .by_key
        .iter()
        .filter(|(name, _)| *name != active)
        .map(|(name, count)| format!("{count} by `{name}`"))
        .collect();
    let missing: Vec<&String> =
        uses.by_key.keys().filter(|name| !keys.names().any(|known| known == *name)).collect();
    if let Some(name) = missing.first() {
        let detail = format!(
            "secrets of accounts are sealed by the master key `{name}`, which is not configured: they do not open, and \
             deliveries that need them end as undeliverable"
        );
        let fix = "Add it to master_keys behind the active one, start again, and run `posthaste keys rotate`";
        return Finding::bad(check, Level::Problem, detail, fix);
    }
    if !of_others.is_empty() {
        let detail = format!(
            "the master key opens them; of the data keys and the pepper {} are not sealed by the active one, `{active}`, yet",
            of_others.join(" and ")
        );
        let fix = "Run `posthaste keys rotate`; until then those keys must stay in master_keys";
        return Finding::bad(check, Level::Warning, detail, fix);
    }
    let spare: Vec<String> = keys
        .names()
        .filter(|name| *name != active && !uses.known.iter().any(|known| known == name))
        .map(|name| format!("`{name}`"))
        .collect();
    match spare.as_slice() {
        [] => Finding::ok(check, format!("everything is sealed by the master key `{active}`")),
        spare => Finding::ok(
            check,
            format!(
                "everything is sealed by the master key `{active}`; {} may be left out of master_keys",
                spare.join(", ")
            ),
        ),
    }
}

/// Of an embedded store: whether this machine's clock is behind what is stored, and what a running server says of it.
async fn own_clock(config: &Config, path: &Path, now: Timestamp) -> Vec<Finding> {
    let (check, mut found) = ("clock", Vec::new());
    let newest = match SqliteReadOnly::open(path) {
        Ok(store) => store.newest_at().await.ok().flatten(),
        Err(_) => None,
    };
    if let Some(newest) = newest.filter(|newest| newest.since(now) > limits::CLOCK_SKEW) {
        let detail = format!(
            "this machine's clock is behind the newest time in the store, {newest}: a start is not ready"
        );
        let fix = "Set the clock right; if it is right, start with --accept-clock: the store's time stays ahead of it";
        found.push(Finding::bad(check, Level::Problem, detail, fix));
    }
    let running = config.listen.port() != 0 && store::sqlite::is_in_use(path);
    if running && let Some(said) = said_by_server(config).await {
        let fix = "Let a time service (chrony, systemd-timesyncd) keep the clock";
        found.push(Finding::bad(check, Level::Warning, format!("the running server says: {said}"), fix));
    }
    found
}

/// What its `/readyz` says about the clock. A server that does not answer is not for this to judge.
async fn said_by_server(config: &Config) -> Option<String> {
    let client = Client::without_key(&format!("http://{}", config.listen)).ok()?;
    let answer = tokio::time::timeout(limits::READY_PATIENCE * 2, client.readiness()).await.ok()?.ok()?;
    Some(answer.detail.get("clock")?.as_str()?.to_owned())
}

/// How far a clock is from the other, in words; None if they agree.
fn off(clock: Timestamp, other: Timestamp) -> Option<String> {
    let (ahead, behind) = (clock.since(other), other.since(clock));
    match ahead.max(behind) {
        little if little <= limits::CLOCK_SKEW => None,
        much if ahead > behind => Some(format!("{} s ahead of", much.as_secs())),
        much => Some(format!("{} s behind", much.as_secs())),
    }
}

fn integrity(found: &IntegrityReport, in_use: bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !found.damage.is_empty() {
        findings.push(damaged(&found.damage));
    } else if found.unfinished.is_empty() {
        let how = if in_use { "every table and index" } else { "every page" };
        findings.push(Finding::ok(
            "integrity",
            format!("{how} is whole ({})", size(found.pages * found.page_bytes)),
        ));
    } else {
        let detail = format!("there was no time to look through {}", found.unfinished.join(", "));
        findings.push(Finding::bad(
            "integrity",
            Level::Warning,
            detail,
            "Give it more, with --patience 10m or 0s",
        ));
    }
    let (free, all) = (found.free_pages * found.page_bytes, found.pages * found.page_bytes);
    let detail = format!("{} of {} are free for new rows", size(free), size(all));
    findings.push(match free > all / 2 && free > MUCH_FREE {
        true => Finding::bad(
            "free_pages",
            Level::Warning,
            detail,
            "To give them back to the disk: stop the server, `sqlite3 posthaste.db vacuum`, start it",
        ),
        false => Finding::ok("free_pages", detail),
    });
    findings
}

/// Free pages worth giving back.
const MUCH_FREE: u64 = 1024 * 1024 * 1024;

fn damaged(words: &[String]) -> Finding {
    let mut finding = Finding::bad(
        "integrity",
        Level::Damaged,
        "the file is damaged",
        "Stop the server, put the file aside, and start on the last good backup (`posthaste backup`); then look at the \
         disk: a healthy one does not do this",
    );
    finding.count = Some(words.len() as u64);
    finding.examples = words.iter().take(limits::AUDIT_EXAMPLES).cloned().collect();
    finding
}

/// A store that cannot be asked.
pub(super) fn trouble(check: &'static str, error: &StoreError) -> Finding {
    match error {
        StoreError::Failed(error) => Finding { check, ..damaged(&[error.to_string()]) },
        error => Finding::bad(
            check,
            Level::Problem,
            error.to_string(),
            "Is the database there, and are its address and password right?",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::id::DestinationId;

    #[test]
    fn certificates_that_end_soon_are_told_the_first_of_them_first() {
        let now = Timestamp::from_seconds(1_790_000_000);
        let kept = |name: &str, expires_at| KeptCertificate {
            destination_id: DestinationId::MIN,
            destination_name: name.into(),
            expires_at,
        };
        let fine = kept("fine", now.plus(limits::CERTIFICATE_WARNING + Duration::from_secs(1)));
        assert_eq!(certificates(std::slice::from_ref(&fine), now)[0].level, Level::Ok);
        let soon = kept("soon", now.plus(limits::CERTIFICATE_WARNING));
        let over = kept("over", now);
        let told = certificates(&[fine, soon, over], now);
        let levels: Vec<Level> = told.iter().map(|finding| finding.level).collect();
        assert_eq!(levels, [Level::Warning; 2]);
        assert!(told[0].detail.contains("(over) ended at") && told[1].detail.contains("(soon) ends at"));
    }
}

//! For checks: days of retention that are seconds, and chores that look as often. Not part of the
//! configuration: set by accident, they would delete what is kept for ninety days in ninety seconds. So they count only
//! where a second variable says that this is meant, and are told at the start.

use crate::failure::Failure;
use engine::EngineSettings;
use std::time::Duration;

/// Has to be `1` where any of the others is set.
const MEANT: &str = "POSTHASTE_TEST";
const RETENTION_DAY: &str = "POSTHASTE_TEST_RETENTION_DAY_SECONDS";
const PRUNE_EVERY: &str = "POSTHASTE_TEST_PRUNE_EVERY_SECONDS";
const ROLLUP_EVERY: &str = "POSTHASTE_TEST_ROLLUP_EVERY_SECONDS";

pub(in crate::commands) fn engine_settings() -> Result<EngineSettings, Failure> {
    shortened(EngineSettings::default(), |name| std::env::var(name).ok())
}

fn shortened(
    usual: EngineSettings,
    said: impl Fn(&str) -> Option<String>,
) -> Result<EngineSettings, Failure> {
    let seconds = |name: &str| {
        let Some(text) = said(name) else { return Ok(None) };
        if said(MEANT).as_deref() != Some("1") {
            let why = format!(
                "{name} is in the environment: it is for checks, and deletes what has ended before its time. Unset it, or \
                 set {MEANT}=1 as well if nothing in this store is needed"
            );
            return Err(Failure::configuration(anyhow::anyhow!(why)));
        }
        let seconds = text.parse().ok().filter(|seconds| *seconds > 0).map(Duration::from_secs);
        let seconds = seconds.ok_or_else(|| anyhow::anyhow!("{name} is no number of seconds: {text}"));
        seconds.map(Some).map_err(Failure::configuration)
    };
    let (day, every, rollup) = (seconds(RETENTION_DAY)?, seconds(PRUNE_EVERY)?, seconds(ROLLUP_EVERY)?);
    if let Some(day) = day {
        let day_seconds = day.as_secs();
        tracing::warn!(day_seconds, "{RETENTION_DAY} is set: what has ended is DELETED before its time");
    }
    Ok(EngineSettings {
        retention_day: day.unwrap_or(usual.retention_day),
        prune_every: every.unwrap_or(usual.prune_every),
        rollup_every: rollup.unwrap_or(usual.rollup_every),
        ..usual
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(variables: &[(&str, &str)]) -> Result<EngineSettings, Failure> {
        shortened(EngineSettings::default(), |name| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, text)| (*text).to_owned())
        })
    }

    #[test]
    fn retention_is_shortened_only_where_that_is_said_twice() {
        let usual = EngineSettings::default();
        assert_eq!(with(&[]).unwrap().retention_day, usual.retention_day);
        assert_eq!(with(&[(MEANT, "1")]).unwrap().prune_every, usual.prune_every);
        for name in [RETENTION_DAY, PRUNE_EVERY, ROLLUP_EVERY] {
            assert!(with(&[(name, "2")]).is_err());
            assert!(with(&[(name, "2"), (MEANT, "0")]).is_err());
            assert!(with(&[(name, "soon"), (MEANT, "1")]).is_err());
            assert!(with(&[(name, "0"), (MEANT, "1")]).is_err());
        }
        let shortened = with(&[(RETENTION_DAY, "2"), (PRUNE_EVERY, "3"), (MEANT, "1")]).unwrap();
        let seconds = (shortened.retention_day.as_secs(), shortened.prune_every.as_secs());
        assert_eq!(seconds, (2, 3));
    }
}

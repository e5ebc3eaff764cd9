//! What a node says of itself at `/metrics`, read back.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::Report;
use super::test_node::TestNode;
use super::testbed::OPERATOR_KEY;

/// The promise is the release build's.
const SCRAPE_MS: f64 = if cfg!(debug_assertions) { 500.0 } else { 50.0 };

/// The samples of one scrape, or of several added up: by name and labels, as written.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scrape {
    samples: BTreeMap<(String, String), f64>,
    /// How long it took; the longest, of several.
    pub(crate) took: Duration,
}

impl Scrape {
    pub(crate) async fn of(node: &TestNode) -> Result<Scrape> {
        let client = node.client.with_key(OPERATOR_KEY)?;
        // The first opens the connection; what it tells is told again for a second.
        client.readiness().await?;
        let began = Instant::now();
        let text = client.raw("/metrics").await?;
        let took = began.elapsed();
        let text = std::str::from_utf8(&text)?;
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let samples = lines.map(sample).collect::<Result<_>>().context("metrics that cannot be read")?;
        Ok(Scrape { samples, took })
    }

    /// Adds what another node, or another life of a node, has counted.
    pub(crate) fn add(&mut self, other: &Scrape) {
        for (sample, value) in &other.samples {
            *self.samples.entry(sample.clone()).or_default() += value;
        }
        self.took = self.took.max(other.took);
    }

    pub(crate) fn must_be_quick(&self, report: &mut Report) {
        report.must_be_at_most("scrape_ms", self.took.as_secs_f64() * 1e3, SCRAPE_MS);
    }

    /// All samples of this name together.
    pub(crate) fn sum(&self, name: &str) -> f64 {
        self.of_name(name).map(|(_, value)| value).sum()
    }

    /// The one with this label; 0 if there is none.
    pub(crate) fn with(&self, name: &str, label: &str, value: &str) -> f64 {
        let wanted = format!("{label}=\"{value}\"");
        let found = self.of_name(name).filter(|(labels, _)| labels.split(',').any(|label| label == wanted));
        found.map(|(_, value)| value).sum()
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.of_name(name).next().is_some()
    }

    fn of_name(&self, name: &str) -> impl Iterator<Item = (&str, f64)> {
        let samples = self.samples.iter().filter(move |((known, _), _)| known == name);
        samples.map(|((_, labels), value)| (labels.as_str(), *value))
    }
}

/// `name{labels} value`; no label of ours holds a space or a comma.
fn sample(line: &str) -> Result<((String, String), f64)> {
    let (series, value) = line.rsplit_once(' ').with_context(|| line.to_owned())?;
    let (name, labels) = series.split_once('{').unwrap_or((series, ""));
    let value = value.parse().with_context(|| line.to_owned())?;
    Ok(((name.to_owned(), labels.trim_end_matches('}').to_owned()), value))
}

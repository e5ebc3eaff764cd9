//! Two results beside each other: what is more than the noise of their rounds is called better or worse.

use super::{
    figures::{Better, Figure},
    report::{BenchReport, shown},
};
use crate::{failure::Failure, output};
use anyhow::Context;
use serde::Serialize;
use std::{fs, path::Path};

#[derive(Debug, Clone, PartialEq, Serialize)]
struct Compared {
    scenario: String,
    figure: String,
    unit: String,
    before: f64,
    after: f64,
    /// In percent of what it was; None where that was nothing.
    change: Option<f64>,
    /// How far rounds were apart, in percent.
    noise: f64,
    verdict: Verdict,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Better,
    Worse,
    /// Within the noise, or a figure that is only there to be known.
    Same,
}

pub(super) fn run(before: &Path, after: &Path, json: bool) -> Result<(), Failure> {
    let (before, after) = (read(before)?, read(after)?);
    let compared = compare(&before, &after);
    if compared.is_empty() {
        return Err(Failure::configuration("the two results have no scenario in common"));
    }
    if json {
        return crate::commands::print_json(&compared);
    }
    let mut scenario = "";
    for one in &compared {
        if scenario != one.scenario {
            scenario = &one.scenario;
            output::line(format_args!("{scenario}"));
        }
        let change = one.change.map_or("–".to_owned(), |change| format!("{change:+.1} %"));
        let verdict = match one.verdict {
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::Same => "",
        };
        output::line(format_args!(
            "  {:<40} {:>10} → {:>10} {:<13} {change:>9} (noise {:.1} %) {verdict}",
            one.figure,
            shown(one.before),
            shown(one.after),
            one.unit,
            one.noise
        ));
    }
    Ok(())
}

fn read(path: &Path) -> Result<BenchReport, Failure> {
    let text = fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))?;
    serde_json::from_str(&text).map_err(|error| {
        Failure::configuration(format!(
            "{} is not what `posthaste bench --json` prints: {error}",
            path.display()
        ))
    })
}

fn compare(before: &BenchReport, after: &BenchReport) -> Vec<Compared> {
    let mut all = Vec::new();
    for old in &before.scenarios {
        let Some(new) = after.scenarios.iter().find(|new| new.name == old.name) else { continue };
        for figure in &old.figures {
            if let Some(now) = new.figures.iter().find(|now| now.name == figure.name) {
                all.push(compared(&old.name, figure, now));
            }
        }
    }
    all
}

fn compared(scenario: &str, before: &Figure, after: &Figure) -> Compared {
    let change = (before.median != 0.0).then(|| (after.median / before.median - 1.0) * 100.0);
    let noise = before.noise().max(after.noise()).min(10.0) * 100.0;
    let moved = change.map_or(after.median != 0.0, |change| change.abs() > noise);
    let verdict = match (before.better, after.median > before.median) {
        _ if !moved => Verdict::Same,
        (Better::Neither, _) => Verdict::Same,
        (Better::Higher, true) | (Better::Lower | Better::Zero, false) => Verdict::Better,
        _ => Verdict::Worse,
    };
    Compared {
        scenario: scenario.to_owned(),
        figure: before.name.clone(),
        unit: before.unit.clone(),
        before: before.median,
        after: after.median,
        change,
        noise,
        verdict,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::bench::figures::{Figures, Measured};

    fn figure(better: Better, rounds: [f64; 3]) -> Figure {
        let mut figures = Figures::default();
        for value in rounds {
            figures.add([Measured::new("it", "µs", better, value)]);
        }
        figures.summed_up().remove(0)
    }

    #[test]
    fn only_what_is_beyond_the_noise_is_called_better_or_worse() {
        let verdict =
            |better, before, after| compared("one", &figure(better, before), &figure(better, after)).verdict;
        let base = [98.0, 100.0, 102.0];
        assert_eq!(verdict(Better::Lower, base, [99.0, 101.0, 103.0]), Verdict::Same);
        assert_eq!(verdict(Better::Lower, base, [89.0, 90.0, 91.0]), Verdict::Better);
        assert_eq!(verdict(Better::Higher, base, [89.0, 90.0, 91.0]), Verdict::Worse);
        assert_eq!(verdict(Better::Zero, [0.0; 3], [0.0, 1.0, 1.0]), Verdict::Worse);
        assert_eq!(verdict(Better::Neither, base, [10.0; 3]), Verdict::Same);
    }
}

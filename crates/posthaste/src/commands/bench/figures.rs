//! What was measured: one value of each figure a round; told are the median and the spread.

use serde::{Deserialize, Serialize};

/// Which way a figure should go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Better {
    Higher,
    Lower,
    /// Anything but zero is a fault of the product.
    Zero,
    /// It is there to be known.
    Neither,
}

/// One value of one round.
#[derive(Debug, Clone, Copy)]
pub(super) struct Measured {
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    pub(super) better: Better,
    pub(super) value: f64,
}

impl Measured {
    pub(super) fn new(name: &'static str, unit: &'static str, better: Better, value: f64) -> Self {
        Self { name, unit, better, value }
    }
}

/// A figure of all rounds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Figure {
    pub(super) name: String,
    pub(super) unit: String,
    pub(super) better: Better,
    pub(super) median: f64,
    pub(super) least: f64,
    pub(super) most: f64,
    /// Of each round, in their order.
    pub(super) rounds: Vec<f64>,
}

impl Figure {
    /// How far a round may be from the median by chance, as a part of it.
    pub(super) fn noise(&self) -> f64 {
        (self.most - self.least) / 2.0 / self.median.abs().max(f64::EPSILON)
    }
}

/// The figures of a scenario, in the order in which they were named first.
#[derive(Debug, Default)]
pub(super) struct Figures(Vec<(Measured, Vec<f64>)>);

impl Figures {
    pub(super) fn add(&mut self, round: impl IntoIterator<Item = Measured>) {
        for measured in round {
            match self.0.iter_mut().find(|(known, _)| known.name == measured.name) {
                Some((_, values)) => values.push(measured.value),
                None => self.0.push((measured, vec![measured.value])),
            }
        }
    }

    pub(super) fn summed_up(self) -> Vec<Figure> {
        self.0.into_iter().map(|(measured, values)| figure(measured, values)).collect()
    }
}

fn figure(measured: Measured, rounds: Vec<f64>) -> Figure {
    let mut sorted = rounds.clone();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let median = match sorted.len() % 2 {
        0 => f64::midpoint(sorted[middle - 1], sorted[middle]),
        _ => sorted[middle],
    };
    Figure {
        name: measured.name.to_owned(),
        unit: measured.unit.to_owned(),
        better: measured.better,
        median,
        least: sorted[0],
        most: sorted[sorted.len() - 1],
        rounds,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_the_median_of_its_rounds_with_their_spread() {
        let mut figures = Figures::default();
        for value in [30.0, 10.0, 20.0] {
            figures.add([
                Measured::new("accepted", "/s", Better::Higher, value),
                Measured::new("lost", "", Better::Zero, 0.0),
            ]);
        }
        let all = figures.summed_up();
        assert_eq!((all[0].median, all[0].least, all[0].most, all[0].noise()), (20.0, 10.0, 30.0, 0.5));
        assert_eq!((all[1].name.as_str(), all[1].median), ("lost", 0.0));
    }
}

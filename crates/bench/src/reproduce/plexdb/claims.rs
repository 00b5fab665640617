//! The paper's claims, and a verdict on each.
//!
//! A number published as *about* another holds within a tenth of it.

mod reading;

use super::measured::Measured;
use super::points::{LEVELDB, LEVELED, Point, TIERED};
use crate::report::numbers::digits;
use crate::reproduce::report::{Claim, Verdict};

/// How far about is.
const ABOUT: f64 = 1.1;
/// The same policy at another threshold has to be so much better to be called better.
const NOISE: f64 = 1.02;

/// Returns all claims that the measured points can decide.
pub fn claims(points: &[Measured]) -> Vec<Claim> {
    let found = Found(points);
    let all = [
        found.baseline_space(),
        found.baseline_writes(),
        found.least_threshold_space(),
        found.least_threshold_writes(),
        found.writes_fall(),
        found.space_grows(),
        found.greatest_threshold_writes(),
        found.greatest_threshold_space(),
        reading::present(&found),
        reading::absent(&found),
        found.score(),
    ];
    all.into_iter().flatten().collect()
}

/// The measured points, found by their meaning.
struct Found<'a>(&'a [Measured]);

impl<'a> Found<'a> {
    fn named(&self, name: &str) -> Option<&'a Measured> {
        self.0.iter().find(|point| point.name == name)
    }

    /// Returns the paper's baseline, or the point that has its policy.
    fn baseline(&self) -> Option<&'a Measured> {
        self.named(LEVELDB).or_else(|| self.named(LEVELED))
    }

    /// Returns the points by thresholds, ascending.
    fn thresholds(&self) -> Vec<(f64, &'a Measured)> {
        let of = |point: &'a Measured| Some((Point::named(&point.name)?.threshold()?, point));
        self.0.iter().filter_map(of).collect()
    }

    fn at(&self, threshold: f64) -> Option<&'a Measured> {
        let thresholds = self.thresholds();
        let found = thresholds
            .iter()
            .find(|(at, _)| (at - threshold).abs() < 1e-9);
        found.map(|(_, point)| *point)
    }

    fn baseline_space(&self) -> Option<Claim> {
        let baseline = self.baseline()?;
        let space = space(baseline);
        Some(Claim {
            claim: "LevelDB takes 1.2 times the space of the distinct data".into(),
            paper: "1.2".into(),
            ours: named(baseline, space),
            verdict: held(is_about(space, 1.2)),
            because: stands_for(baseline),
        })
    }

    fn baseline_writes(&self) -> Option<Claim> {
        let baseline = self.baseline()?;
        let written = written(baseline);
        Some(Claim {
            claim: "LevelDB writes each byte near 10 times".into(),
            paper: "near 10".into(),
            ours: named(baseline, written),
            verdict: held(is_about(written, 10.0)),
            because: format!(
                "The more data there is for a write buffer, the more levels, and the more is written; the \
                 paper tells no buffer. {}",
                stands_for(baseline)
            ),
        })
    }

    fn least_threshold_space(&self) -> Option<Claim> {
        let (baseline, dedup) = (self.baseline()?, self.at(1.2)?);
        Some(Claim {
            claim: "At 1.2 PlexDB takes about LevelDB's space".into(),
            paper: "about 1.2".into(),
            ours: self.beside_leveled(dedup, baseline, space),
            verdict: held(space(dedup) <= space(baseline) * ABOUT),
            because: stands_for(baseline),
        })
    }

    fn least_threshold_writes(&self) -> Option<Claim> {
        let (baseline, dedup) = (self.baseline()?, self.at(1.2)?);
        Some(Claim {
            claim: "At 1.2 PlexDB writes less than LevelDB".into(),
            paper: "less, in a figure".into(),
            ours: self.beside_leveled(dedup, baseline, written),
            verdict: held(written(dedup) < written(baseline)),
            because: stands_for(baseline),
        })
    }

    /// Returns two numbers, and that of the same engine leveled where the baseline is another.
    fn beside_leveled(
        &self,
        dedup: &Measured,
        baseline: &Measured,
        read: fn(&Measured) -> f64,
    ) -> String {
        let leveled = self
            .named(LEVELED)
            .filter(|leveled| leveled.name != baseline.name);
        let shown = [Some(dedup), Some(baseline), leveled];
        let shown = shown.into_iter().flatten();
        let texts: Vec<String> = shown.map(|point| named(point, read(point))).collect();
        texts.join(", ")
    }

    fn writes_fall(&self) -> Option<Claim> {
        let written = self.by_threshold(written)?;
        Some(Claim {
            claim: "The higher the threshold, the less is written".into(),
            paper: "so, in a figure".into(),
            ours: listed(&written),
            verdict: held(written.windows(2).all(|pair| is_less(pair, NOISE))),
            because: String::new(),
        })
    }

    fn space_grows(&self) -> Option<Claim> {
        let space = self.by_threshold(space)?;
        let down: Vec<f64> = space.iter().rev().copied().collect();
        Some(Claim {
            claim: "The higher the threshold, the more space is taken".into(),
            paper: "so, from 1.2 to 2".into(),
            ours: listed(&space),
            verdict: held(down.windows(2).all(|pair| is_less(pair, NOISE))),
            because: String::new(),
        })
    }

    /// Returns the values of at least two thresholds, in their order.
    fn by_threshold(&self, read: fn(&Measured) -> f64) -> Option<Vec<f64>> {
        let thresholds = self.thresholds();
        let read: Vec<f64> = thresholds.iter().map(|(_, point)| read(point)).collect();
        (read.len() > 1).then_some(read)
    }

    fn greatest_threshold_writes(&self) -> Option<Claim> {
        let (tiered, dedup) = (self.named(TIERED)?, self.at(1.8)?);
        let mut ours = format!(
            "{}, {}",
            named(dedup, written(dedup)),
            named(tiered, written(tiered))
        );
        if let Some(lower) = self.at(1.6) {
            ours = format!("{}, {ours}", named(lower, written(lower)));
        }
        Some(Claim {
            claim: "Above 1.6 PlexDB writes as little as a tree that does not deduplicate".into(),
            paper: "about LSM-trie's, in a figure".into(),
            ours,
            verdict: held(written(dedup) <= written(tiered) * ABOUT),
            because: format!("{TIERED} stands for LSM-trie: tiered as well, in the same engine."),
        })
    }

    fn greatest_threshold_space(&self) -> Option<Claim> {
        let dedup = self.at(1.8)?;
        Some(Claim {
            claim: "At 1.8 PlexDB takes no more than about 2 times the space of the distinct data"
                .into(),
            paper: "about 2".into(),
            ours: named(dedup, space(dedup)),
            verdict: held(space(dedup) <= 2.0 * ABOUT),
            because: String::new(),
        })
    }

    /// Returns a claim that is not the paper's: the score makes more of the same space than its
    /// thresholds.
    fn score(&self) -> Option<Claim> {
        let of_score = |point: &&Measured| Point::named(&point.name)?.curve();
        let scores = self
            .0
            .iter()
            .filter(|point| of_score(point) == Some("score"));
        let scores: Vec<&Measured> = scores.collect();
        let thresholds = self.thresholds();
        let is_beaten = |score: &&&Measured| {
            let beats = |(_, dedup): &(f64, &Measured)| {
                space(dedup) <= space(score) && written(dedup) <= written(score)
            };
            thresholds.iter().any(beats)
        };
        let beaten = scores.iter().filter(is_beaten).count();
        (!scores.is_empty() && !thresholds.is_empty()).then(|| Claim {
            claim: "(Terrace's own) No threshold takes less space and writes less than a score"
                .into(),
            paper: "-".into(),
            ours: format!("{beaten} of {} are beaten in both", scores.len()),
            verdict: held(beaten == 0),
            because: String::new(),
        })
    }
}

fn space(point: &Measured) -> f64 {
    point.space.mean.median
}

fn written(point: &Measured) -> f64 {
    point.written.usual().median
}

fn is_about(value: f64, published: f64) -> bool {
    value <= published * ABOUT && value >= published / ABOUT
}

/// Returns whether a pair falls, or stays as it is but for noise.
fn is_less(pair: &[f64], noise: f64) -> bool {
    matches!(pair, [before, after] if *after <= before * noise)
}

fn held(holds: bool) -> Verdict {
    match holds {
        true => Verdict::Holds,
        false => Verdict::DoesNotHold,
    }
}

fn named(point: &Measured, value: f64) -> String {
    format!("{} {}", point.name, digits(value))
}

fn listed(values: &[f64]) -> String {
    let texts: Vec<String> = values.iter().map(|value| digits(*value)).collect();
    texts.join(", ")
}

fn stands_for(baseline: &Measured) -> String {
    match baseline.name == LEVELDB {
        true => String::new(),
        false => format!("{} stands for LevelDB, which is not here.", baseline.name),
    }
}

#[cfg(test)]
pub(super) mod tests;

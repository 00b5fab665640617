//! The paper's claims, and the verdict on each.

use super::Figures;
use super::experiment::{Experiment, size_name};
use super::measured::{Change, SMALL_PERCENT};
use super::paper;
use super::run::Run;
use super::setting::Memory;
use crate::report::numbers::digits;
use crate::reproduce::report::{Claim, Verdict, because};

/// Returns the claims under both regimes of memory.
pub fn claims(figures: &Figures, tells: bool) -> Vec<Claim> {
    let mut claims: Vec<Claim> = Vec::new();
    for memory in Memory::ALL {
        claims.extend(last_level_decides(figures, memory));
        claims.extend(upper_levels(figures, memory));
        claims.extend(nvme(figures, memory));
        claims.extend(sizes(figures, memory));
        claims.extend(fifth_level(figures, memory));
        claims.extend(cheapest(figures, memory));
    }
    claims.extend(levels_needed(figures));
    if !tells {
        for claim in &mut claims {
            claim.verdict = Verdict::CannotBeTold;
            claim.because = format!("So few nodes tell nothing. {}", claim.because);
        }
    }
    claims
}

/// Returns the published change between two placements, %.
fn published(ours: &str, theirs: &str) -> f64 {
    let rate = |name: &str| {
        let mut placements = paper::PLACEMENTS.iter();
        let found = placements.find(|one| one.name == name);
        found.and_then(|one| one.published).unwrap_or_default()
    };
    (rate(ours) / rate(theirs) - 1.0) * 100.0
}

fn condition(memory: Memory) -> String {
    format!("Emulated devices; {}.", memory.name())
}

/// Returns the claim that one case has more requests than another.
fn more(change: &Change, claim: &str, paper: String, memory: Memory) -> Claim {
    Claim {
        claim: format!("{claim}, {}", memory.name()),
        paper,
        ours: change.text(),
        verdict: match (change.exceeds_spread(), change.percent.median > 0.0) {
            (false, _) => Verdict::CannotBeTold,
            (true, true) => Verdict::Holds,
            (true, false) => Verdict::DoesNotHold,
        },
        because: because(change.repeats, change.exceeds_spread(), &condition(memory)),
    }
}

/// Returns the claim that one case has as many requests as another, but for a few percent.
fn alike(change: &Change, claim: &str, paper: String, memory: Memory) -> Claim {
    let condition = condition(memory);
    Claim {
        claim: format!("{claim}, {}", memory.name()),
        paper,
        ours: change.text(),
        verdict: match (change.repeats, change.is_small(), change.is_large()) {
            (1, ..) => Verdict::CannotBeTold,
            (_, true, _) => Verdict::Holds,
            (_, _, true) => Verdict::DoesNotHold,
            _ => Verdict::CannotBeTold,
        },
        because: match (change.is_small(), change.exceeds_spread()) {
            (false, false) => {
                format!(
                    "The repeats overlap, and differ by more than {SMALL_PERCENT} %. {condition}"
                )
            }
            _ => format!("Below {SMALL_PERCENT} % is alike. {condition}"),
        },
    }
}

fn placed(figures: &Figures) -> &[Run] {
    &figures.placements.runs
}

fn last_level_decides(figures: &Figures, memory: Memory) -> Option<Claim> {
    let change = Change::of(placed(figures), memory, "E", "D")?;
    let mut claim = more(
        &change,
        "The device of the last level decides: E over D",
        format!("{:.1} times", 1.0 + published("E", "D") / 100.0),
        memory,
    );
    claim.ours = format!("{} times ({})", digits(change.times()), change.text());
    Some(claim)
}

fn upper_levels(figures: &Figures, memory: Memory) -> Vec<Claim> {
    let pairs = [
        (
            "D",
            "A",
            "L0 to L2 on SATA flash gain nothing while the last level is on a hard disk: D over A",
        ),
        (
            "G",
            "E",
            "L0 and L1 on NVMe flash gain nothing over SATA flash: G over E",
        ),
        (
            "H",
            "E",
            "L0 to L2 on NVMe flash gain little over SATA flash: H over E",
        ),
    ];
    let claim = |(ours, theirs, claim): (&str, &str, &str)| {
        let change = Change::of(placed(figures), memory, ours, theirs)?;
        let paper = format!("{:+.1} %", published(ours, theirs));
        Some(alike(&change, claim, paper, memory))
    };
    pairs.into_iter().filter_map(claim).collect()
}

fn nvme(figures: &Figures, memory: Memory) -> Option<Claim> {
    let change = Change::of(placed(figures), memory, "I", "E")?;
    let paper = format!("{:+.1} %", published("I", "E"));
    Some(more(
        &change,
        "All levels on NVMe flash beat all on SATA flash: I over E",
        paper,
        memory,
    ))
}

fn sizes(figures: &Figures, memory: Memory) -> Vec<Claim> {
    let rate = |gb: f64| {
        let mut sizes = paper::SIZES.iter();
        sizes
            .find(|(size, _)| *size == gb)
            .map_or(0.0, |(_, rate)| *rate)
    };
    let change = |ours: f64, theirs: f64| {
        let (ours, theirs) = (size_name(ours), size_name(theirs));
        Change::of(&figures.sizes.runs, memory, &ours, &theirs)
    };
    let paper =
        |ours: f64, theirs: f64| format!("{:+.1} %", (rate(ours) / rate(theirs) - 1.0) * 100.0);
    let alike_size = change(28.0, 14.0).map(|change| {
        let claim = "While NVMe flash holds all, size does not matter: 28 GB over 14 GB";
        alike(&change, claim, paper(28.0, 14.0), memory)
    });
    // The smaller size has more requests.
    let slower = change(14.0, 56.0).map(|change| {
        let claim = "Beyond its capacity more data are slower: 14 GB over 56 GB";
        more(&change, claim, paper(14.0, 56.0), memory)
    });
    alike_size.into_iter().chain(slower).collect()
}

fn fifth_level(figures: &Figures, memory: Memory) -> Vec<Claim> {
    let runs = &figures.five_levels.runs;
    let upper = Change::of(runs, memory, "J5", "D5").map(|change| {
        let claim =
            "(Not the paper's) Of five levels the fourth on flash gains nothing: J5 over D5";
        alike(&change, claim, "-".into(), memory)
    });
    let last = Change::of(runs, memory, "E5", "J5").map(|change| {
        let claim = "(Not the paper's) Of five levels, too, the last decides: E5 over J5";
        more(&change, claim, "-".into(), memory)
    });
    upper.into_iter().chain(last).collect()
}

/// Returns the claim that the placement of the most requests is not the cheapest: the paper computes no cost.
fn cheapest(figures: &Figures, memory: Memory) -> Option<Claim> {
    let cases = Experiment::placements().cases;
    let measured = cases
        .iter()
        .filter_map(|case| figures.measured(&case.name, memory));
    let measured: Vec<_> = measured.collect();
    let cheapest = measured.iter().min_by(|one, other| {
        let price = |one: &super::Measured| one.price_per_million.median;
        price(one).total_cmp(&price(other))
    })?;
    let fastest = measured
        .iter()
        .max_by(|one, other| one.per_second.median.total_cmp(&other.per_second.median))?;
    let overlaps = cheapest.price_per_million.most >= fastest.price_per_million.least;
    Some(Claim {
        claim: format!(
            "(Not the paper's) A placement on slower devices makes a million requests cheaper than the fastest \
             one, {}",
            memory.name()
        ),
        paper: "not computed".into(),
        ours: format!(
            "{} for {}e-6, {} for {}e-6",
            cheapest.case,
            digits(cheapest.price_per_million.median * 1e6),
            fastest.case,
            digits(fastest.price_per_million.median * 1e6)
        ),
        verdict: match (figures.repeats(), cheapest.case == fastest.case || overlaps) {
            (1, _) => Verdict::CannotBeTold,
            (_, true) => Verdict::DoesNotHold,
            (_, false) => Verdict::Holds,
        },
        because: format!("Prices of the profiles, five years. {}", condition(memory)),
    })
}

fn levels_needed(figures: &Figures) -> Option<Claim> {
    let (_, level_bytes) = figures.placements.loaded.first()?;
    let deepest = level_bytes.iter().rposition(|bytes| *bytes > 0)?;
    Some(Claim {
        claim: "42 GB have levels 0 to 3 under a level 1 of 256 MB and a ratio of 10".into(),
        paper: "levels 0 to 3, though their targets need a level 4".into(),
        ours: format!("levels 0 to {deepest}"),
        verdict: match deepest {
            3 => Verdict::Holds,
            _ => Verdict::DoesNotHold,
        },
        because: "Targets count from below, so level 1 grows with the data.".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::tiers::experiment::Found;
    use crate::reproduce::tiers::measured::tests::run;

    /// Returns figures with three repeats of each placement, a percent apart.
    fn figures(rates: &[(&str, f64)]) -> Figures {
        let repeat = |(case, rate): &(&str, f64)| {
            let (case, rate) = (case.to_string(), *rate);
            (0..3).map(move |repeat| {
                let drift = 1.0 + f64::from(repeat) / 100.0;
                run(&case, Memory::Fits, repeat, rate * drift)
            })
        };
        let runs = rates.iter().flat_map(repeat).collect();
        Figures {
            placements: Found {
                runs,
                loaded: vec![("A".into(), vec![1, 2, 3, 4, 0, 0, 0])],
            },
            ..Figures::default()
        }
    }

    fn verdict(claims: &[Claim], part: &str) -> Verdict {
        let mut claims = claims.iter();
        claims
            .find(|claim| claim.claim.contains(part))
            .unwrap()
            .verdict
    }

    #[test]
    fn the_last_level_decides_where_the_repeats_lie_apart() {
        let published = paper::PLACEMENTS.map(|one| (one.name, one.published.unwrap()));
        let found = claims(&figures(&published), true);
        assert_eq!(verdict(&found, "E over D"), Verdict::Holds);
        assert_eq!(verdict(&found, "D over A"), Verdict::Holds);
        assert_eq!(verdict(&found, "I over E"), Verdict::Holds);
        assert_eq!(verdict(&found, "levels 0 to 3"), Verdict::Holds);
        let swapped = figures(&[("A", 100.0), ("D", 300.0), ("E", 200.0), ("I", 200.5)]);
        let found = claims(&swapped, true);
        assert_eq!(verdict(&found, "E over D"), Verdict::DoesNotHold);
        assert_eq!(verdict(&found, "D over A"), Verdict::DoesNotHold);
        assert_eq!(verdict(&found, "I over E"), Verdict::CannotBeTold);
    }

    #[test]
    fn a_tiny_run_tells_nothing() {
        let found = claims(&figures(&[("D", 100.0), ("E", 300.0)]), false);
        assert!(found.len() > 1);
        assert!(
            found
                .iter()
                .all(|claim| claim.verdict == Verdict::CannotBeTold)
        );
    }
}

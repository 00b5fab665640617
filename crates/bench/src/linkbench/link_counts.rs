//! The number of links of a node.

/// The share of nodes that have more than a number of links: published, but for the last one.
const EXCEEDING: [(f64, f64); 15] = [
    (0.0, 0.546_7),
    (1.0, 0.225_4),
    (2.0, 0.130_4),
    (3.0, 0.080_1),
    (4.0, 0.055_5),
    (5.0, 0.041_7),
    (10.0, 0.016_7),
    (20.0, 0.006_7),
    (50.0, 0.002_8),
    (100.0, 0.001_7),
    (500.0, 0.000_7),
    (1_000.0, 0.000_49),
    (5_000.0, 0.000_125),
    (10_000.0, 0.000_05),
    (MAX_LINKS as f64, MAX_EXCEEDING),
];

/// Maximum number of links of one node.
const MAX_LINKS: u64 = 961_963;

/// Share of nodes beyond the maximum if there were any. It makes the mean number of links 4.1 as published.
const MAX_EXCEEDING: f64 = 1.4e-8;

/// Returns the number of links of a node that a share of all nodes exceeds, from 0 to 1. Between two
/// published numbers it follows a power law.
pub(super) fn exceeded_by(share: f64) -> u64 {
    let next = EXCEEDING
        .iter()
        .position(|(_, exceeding)| *exceeding <= share);
    let Some(next) = next else {
        return MAX_LINKS;
    };
    let ((low, above_low), (high, above_high)) = match next.checked_sub(1) {
        None => return 0,
        Some(before) => (point(before), point(next)),
    };
    // Whole numbers: the greater one where there is none between.
    if high - low <= 1.0 {
        return high as u64;
    }
    let position = (above_low / share).ln() / (above_low / above_high).ln();
    let links = low.max(1.0) * (high / low.max(1.0)).powf(position);
    (links.ceil() as u64).clamp(low as u64 + 1, high as u64)
}

fn point(index: usize) -> (f64, f64) {
    EXCEEDING
        .get(index)
        .copied()
        .unwrap_or((MAX_LINKS as f64, MAX_EXCEEDING))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: u64 = 10_000_000;

    fn shares() -> impl Iterator<Item = f64> {
        (0..NODES).map(|rank| (rank as f64 + 0.5) / NODES as f64)
    }

    #[test]
    fn links_have_the_published_shares_and_mean() {
        let links: Vec<u32> = shares().map(|share| exceeded_by(share) as u32).collect();
        for (most, exceeding) in &EXCEEDING[..14] {
            let above = links
                .iter()
                .filter(|links| f64::from(**links) > *most)
                .count();
            let share = above as f64 / NODES as f64;
            assert!(
                (share - exceeding).abs() < 1e-6,
                "{most}: {share}, not {exceeding}"
            );
        }
        let mean = links.iter().map(|links| u64::from(*links)).sum::<u64>() as f64 / NODES as f64;
        assert!((4.09..4.11).contains(&mean), "{mean}");
        assert!(links.is_sorted_by(|more, fewer| more >= fewer));
    }

    #[test]
    fn ends_are_ends() {
        assert_eq!(exceeded_by(0.0), MAX_LINKS);
        assert_eq!(exceeded_by(1.0), 0);
        assert_eq!(exceeded_by(0.6), 0);
        assert_eq!(exceeded_by(0.5), 1);
    }
}

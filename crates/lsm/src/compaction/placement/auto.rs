//! The tiers of levels by their costs, for the placement `auto`.

use super::TierFacts;
use crate::compaction::cost::{
    Goal, LevelOrder, Load, Placement, TierCost, Traffic, best, feasible_placements,
    requests_per_second,
};

/// Factor by which another placement has to be faster before levels change their tiers: every change copies
/// whole levels.
const GAIN: f64 = 1.1;
/// Requests without which the traffic says too little.
const MIN_REQUESTS: u64 = 10_000;
/// Part of a capacity that is left for the outputs of compactions beside their inputs.
const FREE_PART: u64 = 10;

/// Returns the names of the tiers of levels 0, 1, 2, ... that serve the traffic best. `None` if those that were
/// chosen before are about as good, or if whole levels fit nowhere. `costs` are those of the tiers, in
/// their order.
pub fn choose(
    traffic: &Traffic,
    tiers: &[TierFacts],
    costs: &[TierCost],
    load: Load,
    chosen: &[String],
) -> Option<Vec<String>> {
    if traffic.requests < MIN_REQUESTS {
        return None;
    }
    let (level_bytes, room_bytes) = (traffic.level_bytes(), usable(tiers));
    let placements = feasible_placements(&level_bytes, &room_bytes, LevelOrder::Any);
    let (at, prediction) = best(traffic, costs, &placements, load, Goal::Throughput)?;
    let wanted = placements.get(at)?;
    // One that does not fit any more is none to stay with.
    let present = positions(chosen, tiers).filter(|now| now.fits(&level_bytes, &room_bytes));
    if let Some(present) = present {
        let now = requests_per_second(traffic, costs, &present, load);
        if prediction.requests_per_second < now * GAIN {
            return None;
        }
    }
    let name = |at: &usize| tiers.get(*at).map(|tier| tier.name.clone());
    let names: Vec<String> = wanted.levels.iter().map(name).collect::<Option<_>>()?;
    (names != chosen).then_some(names)
}

/// Returns the bytes of each tier that whole levels may take.
fn usable(tiers: &[TierFacts]) -> Vec<Option<u64>> {
    let usable = |tier: &TierFacts| match tier.is_open {
        true => tier.capacity_bytes.map(|bytes| bytes - bytes / FREE_PART),
        false => Some(0),
    };
    tiers.iter().map(usable).collect()
}

/// Returns the placement with these names; `None` if there are none, or if a tier is gone.
fn positions(names: &[String], tiers: &[TierFacts]) -> Option<Placement> {
    let position = |name: &String| tiers.iter().position(|tier| tier.name == *name);
    let levels: Vec<usize> = names.iter().map(position).collect::<Option<_>>()?;
    (!levels.is_empty()).then(|| Placement::new(levels))
}

#[cfg(test)]
mod tests {
    use terrace_storage::DeviceProfile;

    use super::*;
    use crate::compaction::cost::LevelTraffic;

    const GIB: u64 = 1 << 30;

    /// A small flash drive and a hard disk.
    fn tiers(flash_bytes: u64) -> ([TierFacts; 2], [TierCost; 2]) {
        let facts = |number, name: &str, capacity_bytes| TierFacts {
            number,
            name: name.to_owned(),
            capacity_bytes,
            room_bytes: 0,
            is_open: true,
        };
        let cost = |profile| TierCost {
            profile,
            capacity_bytes: None,
        };
        (
            [facts(1, "flash", Some(flash_bytes)), facts(2, "disk", None)],
            [
                cost(DeviceProfile::SSD_850_PRO),
                cost(DeviceProfile::WD10EZEX),
            ],
        )
    }

    /// Level 1 is written, and level 2 is read.
    fn traffic(reads: u64, written_bytes: u64) -> Traffic {
        let upper = LevelTraffic {
            stored_bytes: GIB,
            compaction_written_bytes: written_bytes,
            compaction_read_bytes: written_bytes,
            ..LevelTraffic::default()
        };
        let deep = LevelTraffic {
            stored_bytes: 8 * GIB,
            reads,
            read_bytes: reads * 4096,
            ..LevelTraffic::default()
        };
        Traffic {
            requests: 1_000_000,
            levels: vec![upper, deep],
            ..Traffic::default()
        }
    }

    const LOAD: Load = Load {
        threads: 8,
        processors: 4,
        cpu_us: 10.0,
        background_cpu_us: 0.0,
    };

    #[test]
    fn the_level_that_is_read_gets_the_flash() {
        let reads = traffic(500_000, GIB);
        let (facts, costs) = tiers(9 * GIB);
        let chosen = choose(&reads, &facts, &costs, LOAD, &[]).unwrap();
        assert_eq!(chosen, ["disk", "flash"]);
        assert_eq!(
            choose(&reads, &facts, &costs, LOAD, &chosen),
            None,
            "it stays"
        );
        // It does not fit: the writes are left to choose by.
        let (facts, costs) = tiers(2 * GIB);
        let writes = traffic(1, 100 * GIB);
        assert_eq!(
            choose(&writes, &facts, &costs, LOAD, &[]).unwrap()[0],
            "flash"
        );
    }

    #[test]
    fn levels_that_have_outgrown_their_tier_leave_it() {
        let reads = traffic(500_000, GIB);
        let chosen = ["disk".to_owned(), "flash".to_owned()];
        let (facts, costs) = tiers(4 * GIB);
        let wanted = choose(&reads, &facts, &costs, LOAD, &chosen).unwrap();
        assert_eq!(wanted[1], "disk");
    }

    #[test]
    fn little_traffic_and_little_gain_change_nothing() {
        let (facts, costs) = tiers(20 * GIB);
        let few = Traffic {
            requests: 9_999,
            ..traffic(9_000, 0)
        };
        assert_eq!(choose(&few, &facts, &costs, LOAD, &[]), None);
        let idle = traffic(0, 0);
        let flash = ["flash".to_owned()];
        assert_eq!(
            choose(&idle, &facts, &costs, LOAD, &flash),
            None,
            "as fast as the disk"
        );
        let gone = ["gone".to_owned()];
        assert!(choose(&idle, &facts, &costs, LOAD, &gone).is_some());
    }
}

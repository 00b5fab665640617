//! The space against a list of bools.

use proptest::prelude::*;

use super::*;

/// One bool a block: true if it is free.
struct Model {
    data: Extent,
    free: Vec<bool>,
    partition_blocks: usize,
}

impl Model {
    fn of(space: &Space) -> Self {
        Model {
            data: space.data,
            free: vec![true; space.data.blocks as usize],
            partition_blocks: space.partition_blocks as usize,
        }
    }

    fn part(&mut self, extent: Extent) -> &mut [bool] {
        let from = (extent.start - self.data.start) as usize;
        &mut self.free[from..from + extent.blocks as usize]
    }

    fn count(&self) -> u64 {
        self.free.iter().filter(|free| **free).count() as u64
    }

    /// Returns the lengths of all runs, the longest first. They end at the ends of partitions.
    fn runs(&self) -> Vec<u64> {
        let partitions = self.free.chunks(self.partition_blocks);
        let runs = partitions.flat_map(|partition| partition.split(|free| !free));
        let mut runs: Vec<u64> = runs
            .map(|run| run.len() as u64)
            .filter(|len| *len > 0)
            .collect();
        runs.sort_unstable_by(|a, b| b.cmp(a));
        runs
    }

    /// Returns the number of extents that `blocks` should lie in; none if there are too few.
    fn extents(&self, blocks: u64, most: usize) -> Option<usize> {
        let mut sum = 0;
        let runs = self.runs();
        let enough = runs.iter().take(most).position(|run| {
            sum += run;
            sum >= blocks
        });
        enough.map(|last| last + 1)
    }
}

#[derive(Clone, Debug)]
enum Command {
    Allocate(u64, usize, usize),
    /// One of the extents, and the part of it from a share of 16 on.
    Free(prop::sample::Index, u64),
    Reserve(u64, u64),
}

fn any_command() -> impl Strategy<Value = Command> {
    let blocks = prop_oneof![1..20_u64, 1..300_u64, 1..9_000_u64];
    prop_oneof![
        4 => (blocks.clone(), 0..5_usize, 1..8_usize).prop_map(|(b, f, m)| Command::Allocate(b, f, m)),
        4 => (any::<prop::sample::Index>(), 0..16_u64).prop_map(|(i, s)| Command::Free(i, s)),
        1 => (0..20_000_u64, blocks).prop_map(|(s, b)| Command::Reserve(s, b)),
    ]
}

fn run(space: &Space, model: &mut Model, held: &mut Vec<Extent>, command: Command) {
    match command {
        Command::Allocate(blocks, from, most) => {
            let taken = space.allocate(blocks, from, most);
            let count = taken.as_ref().map(Extents::len);
            assert_eq!(count, model.extents(blocks, most));
            let Some(taken) = taken else { return };
            assert_eq!(taken.blocks(), blocks);
            for extent in taken.iter() {
                assert!(model.part(extent).iter().all(|free| *free));
                model.part(extent).fill(false);
                held.push(extent);
            }
        }
        Command::Free(_, _) if held.is_empty() => {}
        Command::Free(index, share) => {
            let whole = held.swap_remove(index.index(held.len()));
            let kept = whole.blocks * share / 16;
            let freed = extent(whole.start + kept, whole.blocks - kept);
            if kept > 0 {
                held.push(extent(whole.start, kept));
            }
            space.free(freed);
            model.part(freed).fill(true);
        }
        Command::Reserve(start, blocks) => {
            let reserved = extent(start, blocks);
            let result = space.reserve(reserved);
            if start < space.data.start || reserved.end() > space.data.end() {
                assert_eq!(result, Err(Conflict::Outside(reserved)));
            } else if let Some(at) = model.part(reserved).iter().position(|free| !free) {
                assert_eq!(result, Err(Conflict::Used(start + at as u64)));
            } else {
                assert_eq!(result, Ok(()));
                model.part(reserved).fill(false);
                held.push(reserved);
            }
        }
    }
}

/// Returns the most free blocks of a zone that is not all free.
fn emptiest(model: &Model, zone_blocks: usize) -> Option<u64> {
    let zones = model.free.chunks(zone_blocks);
    let counts = zones.map(|zone| (zone.iter().filter(|free| **free).count(), zone.len()));
    let partly = counts.filter(|(free, size)| free > &0 && free < size);
    partly.map(|(free, _)| free as u64).max()
}

proptest! {
    #[test]
    fn the_space_is_a_list_of_bools(
        blocks in 1..20_000_u64,
        partitions in 1..6_usize,
        commands in prop::collection::vec(any_command(), 1..120),
    ) {
        let space = Space::new(extent(37, blocks), partitions);
        let (mut model, mut held) = (Model::of(&space), Vec::new());
        for command in commands {
            run(&space, &mut model, &mut held, command);
            prop_assert_eq!(space.free_blocks(), model.count());
        }
        prop_assert_eq!(space.largest_run(), model.runs().first().copied().unwrap_or(0));
        for (at, free) in model.free.iter().enumerate() {
            prop_assert_eq!(space.is_free(37 + at as u64), *free);
        }
        for zone_blocks in [64, 256, 4_096] {
            let found = space.emptiest_zone(zone_blocks, |_| false);
            prop_assert_eq!(found.map(|found| found.1), emptiest(&model, zone_blocks as usize));
            if let Some((zone, free)) = found {
                prop_assert_eq!(model.part(zone).iter().filter(|free| **free).count() as u64, free);
                let other = space.emptiest_zone(zone_blocks, |other| other == zone);
                prop_assert!(other.is_none_or(|other| other.0 != zone && other.1 <= free));
            }
        }
        for extent in held {
            space.free(extent);
        }
        prop_assert_eq!(space.free_blocks(), blocks);
    }
}

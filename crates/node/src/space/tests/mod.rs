mod model;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::*;

fn extent(start: u64, blocks: u64) -> Extent {
    Extent { start, blocks }
}

#[test]
fn extents_of_one_size_never_fragment() {
    for blocks in [1, 3, 16, 17, 256, 5_000] {
        let space = Space::new(extent(10, 400_000), 4);
        let mut held: Vec<Extent> = Vec::new();
        let most = space.data.blocks / blocks * 9 / 10;
        let rng = &mut SmallRng::seed_from_u64(blocks);
        for _ in 0..most {
            held.push(space.allocate(blocks, 0, 1).unwrap().first());
        }
        for _ in 0..100_000 {
            for _ in 0..rng.random_range(1..4) {
                let at = rng.random_range(0..held.len());
                space.free(held.swap_remove(at));
            }
            while (held.len() as u64) < most {
                let taken = space.allocate(blocks, rng.random_range(0..4), 1);
                held.push(taken.expect("a run of the size that was freed").first());
            }
        }
        assert_eq!(space.free_blocks(), 400_000 - most * blocks);
    }
}

/// Makes a space in which every second block is in use.
fn combed(blocks: u64, partitions: usize) -> Space {
    let space = Space::new(extent(1, blocks), partitions);
    for at in (1..blocks).step_by(2) {
        space.reserve(extent(1 + at, 1)).unwrap();
    }
    space
}

#[test]
fn a_fragmented_space_gives_several_extents_or_nothing() {
    let space = combed(20_000, 2);
    assert_eq!(space.allocate(65, 0, 64), None);
    assert_eq!(space.allocate(64, 0, 63), None);
    assert_eq!(space.free_blocks(), 10_000);
    space.free(extent(1 + 9_001, 1));
    let taken = space.allocate(64, 0, 64).unwrap();
    assert_eq!((taken.len(), taken.blocks()), (62, 64));
    assert!(taken.iter().any(|part| part == extent(1 + 9_000, 3)));
    for part in taken.iter() {
        space.free(part);
    }
    assert_eq!(space.free_blocks(), 10_001);
    assert_eq!(space.largest_run(), 3);
}

#[test]
fn the_last_free_block_is_found() {
    let space = Space::new(extent(5, 50_000), 3);
    space.reserve(extent(5, 50_000)).unwrap();
    assert_eq!(space.allocate(1, 0, 1), None);
    for block in [5, 5 + 4_095, 5 + 4_096, 30_000, 5 + 49_999] {
        space.free(extent(block, 1));
        assert_eq!(space.allocate(1, 1, 1), Some(extent(block, 1).into()));
        assert_eq!(space.allocate(1, 0, 64), None);
    }
}

#[test]
fn blocks_are_kept_back_for_the_cleaner() {
    let space = Space::new(extent(0, 1_000), 1);
    space.keep_back(16);
    assert_eq!(space.allocate(985, 0, 1), None);
    space.allocate(984, 0, 1).unwrap();
    assert_eq!(space.allocate(1, 0, 1), None);
    space.allocate_reserved(16, 0, 1).unwrap();
    assert_eq!((space.free_blocks(), space.kept_back()), (0, 16));
}

#[test]
fn hostile_extents_are_refused() {
    let space = Space::new(extent(10, 5_000), 2);
    for bad in [
        extent(9, 1),
        extent(10, 0),
        extent(10, 5_001),
        extent(5_010, 1),
        extent(u64::MAX, 1),
        extent(11, u64::MAX),
    ] {
        assert_eq!(space.reserve(bad), Err(Conflict::Outside(bad)));
    }
    assert_eq!(space.allocate(u64::MAX, 0, 64), None);
    assert_eq!(space.allocate(0, 0, 64), None);
    // Over the border of two partitions.
    space.reserve(extent(4_000, 1_000)).unwrap();
    assert_eq!(space.reserve(extent(10, 4_000)), Err(Conflict::Used(4_000)));
    space.reserve(extent(10, 3_990)).unwrap();
    space.free(extent(4_090, 20));
    assert_eq!(space.free_blocks(), 30);
}

#[test]
fn a_run_across_zones_and_the_start_of_a_search_is_found() {
    let space = Space::new(extent(0, 40_960), 1);
    space.allocate(20_000, 0, 1).unwrap();
    space.free(extent(0, 20_000));
    assert_eq!(space.allocate(40_960, 0, 1), Some(extent(0, 40_960).into()));
}

#[test]
fn a_nearly_full_space_is_not_scanned() {
    // 10^8 blocks: 1.6 million words of bitmap.
    let blocks = 100_000_000;
    let space = Space::new(extent(0, blocks), 16);
    assert!(space.memory_bytes() < blocks / 8 * 102 / 100);
    space.reserve(extent(0, blocks)).unwrap();
    space.free(extent(blocks - 1, 1));
    let looked = space.looked();
    assert_eq!(space.allocate(1, 0, 1), Some(extent(blocks - 1, 1).into()));
    let looked = space.looked() - looked;
    println!("words for the last block: {looked}");
    assert!(looked < 25_000, "{looked}");
    let rng = &mut SmallRng::seed_from_u64(3);
    let hole = |rng: &mut SmallRng| extent(rng.random_range(0..blocks / 16) * 16, 16);
    for _ in 0..2_000 {
        let hole = hole(rng);
        if !space.is_free(hole.start) {
            space.free(hole);
        }
    }
    let (mut most, rounds) = (0, 1_000);
    let before = space.looked();
    for round in 0..rounds {
        let looked = space.looked();
        let taken = space.allocate(16, round, 1).unwrap();
        most = most.max(space.looked() - looked);
        space.free(taken.first());
    }
    let mean = (space.looked() - before) / rounds as u64;
    println!("words for 16 blocks: {mean} in the mean, {most} at most");
    assert!(
        mean < 500 && most < 2_000,
        "{mean} in the mean, {most} at most"
    );

    // No run is long enough: the summaries say so.
    let looked = space.looked();
    assert_eq!(space.allocate(1_000, 0, 1), None);
    let looked = space.looked() - looked;
    println!("words for nothing: {looked}");
    assert!(looked < 250_000, "{looked}");
    let looked = space.looked();
    assert_eq!(space.allocate(1_000, 0, 64).unwrap().len(), 63);
    let looked = space.looked() - looked;
    println!("words for 63 extents: {looked}");
    assert!(looked < 100_000, "{looked}");
}

#[test]
fn threads_never_get_the_same_block() {
    let space = Space::new(extent(0, 40_000), 4);
    let owners: Vec<AtomicU64> = (0..40_000).map(|_| AtomicU64::new(0)).collect();
    let change = |part: Extent, from: u64, to: u64| {
        for owner in &owners[part.start as usize..part.end() as usize] {
            assert_eq!(owner.swap(to, Relaxed), from);
        }
    };
    std::thread::scope(|scope| {
        for thread in 1..5_u64 {
            let (space, change) = (&space, &change);
            scope.spawn(move || {
                let rng = &mut SmallRng::seed_from_u64(thread);
                let mut held: Vec<Extent> = Vec::new();
                for _ in 0..5_000 {
                    let blocks = rng.random_range(1..400);
                    match space.allocate(blocks, thread as usize, 64) {
                        Some(taken) => {
                            taken.iter().for_each(|part| change(part, 0, thread));
                            held.extend(taken.iter());
                        }
                        None => {
                            for part in held.drain(held.len() / 3..) {
                                change(part, thread, 0);
                                space.free(part);
                            }
                        }
                    }
                }
                for part in held {
                    change(part, thread, 0);
                    space.free(part);
                }
            });
        }
    });
    assert_eq!(space.free_blocks(), 40_000);
    assert_eq!(space.largest_run(), space.partition_blocks);
}

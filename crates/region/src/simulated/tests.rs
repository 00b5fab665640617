use std::collections::BTreeSet;

use super::*;

const SEEDS: u64 = 400;

fn outcomes(contents: &Contents, range: std::ops::Range<usize>) -> BTreeSet<Vec<u8>> {
    let cut = |seed| contents.after_power_cut(&mut StdRng::seed_from_u64(seed));
    (0..SEEDS)
        .map(|seed| cut(seed)[range.clone()].to_vec())
        .collect()
}

fn contents(kind: MemoryKind) -> Contents {
    Contents::new(kind, vec![0; 8192])
}

#[test]
fn a_copy_to_a_line_survives_in_any_part() {
    let mut contents = contents(MemoryKind::Dax);
    contents.store(0, &[1, 2], false);
    let expected = [[0, 0], [1, 0], [0, 2], [1, 2]].map(Vec::from);
    assert_eq!(outcomes(&contents, 0..2), BTreeSet::from(expected));
}

#[test]
fn a_word_is_whole_or_absent() {
    for kind in [MemoryKind::Dax, MemoryKind::PageCache] {
        let mut contents = contents(kind);
        contents.store(8, &[9; 8], true);
        let expected = [vec![0; 8], vec![9; 8]];
        assert_eq!(outcomes(&contents, 8..16), BTreeSet::from(expected));
    }
}

#[test]
fn lines_survive_independently_of_their_order() {
    let mut contents = contents(MemoryKind::Dax);
    contents.store(0, &[1; 128], false);
    let later_only = outcomes(&contents, 0..128)
        .into_iter()
        .any(|bytes| bytes[..64] == [0; 64] && bytes[64..] == [1; 64]);
    assert!(later_only);
}

#[test]
fn only_a_fenced_write_back_of_the_line_is_durable() {
    let mut contents = contents(MemoryKind::Dax);
    contents.store(0, &[1], false);
    contents.fence();
    assert_eq!(outcomes(&contents, 0..1).len(), 2, "not written back");
    contents.write_back(0, 1);
    assert_eq!(outcomes(&contents, 0..1).len(), 2, "not fenced");
    contents.store(1, &[2], false);
    contents.fence();
    let expected = [[1, 0], [1, 2]].map(Vec::from);
    assert_eq!(
        outcomes(&contents, 0..2),
        BTreeSet::from(expected),
        "stored after the write-back"
    );
    contents.write_back(1, 1);
    contents.write_back(64, 64);
    contents.fence();
    assert_eq!(outcomes(&contents, 0..2), BTreeSet::from([vec![1, 2]]));
}

#[test]
fn a_page_has_a_state_that_it_had_since_the_last_sync() {
    let mut contents = contents(MemoryKind::PageCache);
    contents.store(0, &[1], false);
    contents.store(1, &[2, 3], false);
    let expected = [[0, 0, 0], [1, 0, 0], [1, 2, 0], [1, 2, 3]].map(Vec::from);
    assert_eq!(outcomes(&contents, 0..3), BTreeSet::from(expected));
    contents.fence();
    contents.store(0, &[7], false);
    let expected = [[1, 2, 3], [7, 2, 3]].map(Vec::from);
    assert_eq!(outcomes(&contents, 0..3), BTreeSet::from(expected));
}

#[test]
fn pages_survive_independently_of_each_other() {
    let mut contents = contents(MemoryKind::PageCache);
    contents.store(0, &[1], false);
    contents.store(4096, &[2], false);
    let pairs: BTreeSet<_> = outcomes(&contents, 0..4097)
        .into_iter()
        .map(|bytes| (bytes[0], bytes[4096]))
        .collect();
    assert_eq!(pairs, BTreeSet::from([(0, 0), (1, 0), (0, 2), (1, 2)]));
}

fn slot_bytes(memory: &SimulatedMemory) -> Vec<u8> {
    memory.bytes(Operation::Read, 1).unwrap()
}

#[test]
fn a_kill_tears_the_copy_that_it_interrupts_and_drops_what_follows() {
    let mut lengths = BTreeSet::new();
    for seed in 0..100 {
        let switch = CrashSwitch::new();
        let memory = SimulatedMemory::new(MemoryKind::Dax, seed, switch.clone());
        memory.create(1, 8192).unwrap();
        let Attached { mut writer, medium } = memory.attach(1, 8192).unwrap();
        medium.store(&mut writer, 0, &[1; 4]).unwrap();
        switch.freeze_at(switch.count());
        assert!(medium.store(&mut writer, 4, &[2; 4]).is_err());
        assert!(medium.store(&mut writer, 8, &[3; 4]).is_err());
        assert!(medium.persist(0, 8).is_err());
        assert!(memory.attach(1, 8192).is_err());

        let bytes = slot_bytes(&memory.crash(CrashKind::Kill, seed, CrashSwitch::new()));
        assert_eq!(bytes[..4], [1; 4]);
        assert_eq!(bytes[8..12], [0; 4]);
        lengths.insert(bytes[4..8].iter().take_while(|byte| **byte == 2).count());
    }
    assert_eq!(lengths, BTreeSet::from([0, 1, 2, 3, 4]));
}

#[test]
fn a_power_cut_changes_the_boot_id_and_a_kill_does_not() {
    let memory = SimulatedMemory::new(MemoryKind::Dax, 0, CrashSwitch::new());
    let killed = memory.crash(CrashKind::Kill, 0, CrashSwitch::new());
    let cut = killed.crash(CrashKind::PowerCut, 0, CrashSwitch::new());
    assert_eq!(memory.boot_id(), killed.boot_id());
    assert_ne!(killed.boot_id(), cut.boot_id());
}

#[test]
fn a_removed_slot_may_be_back_after_a_power_cut_only() {
    let memory = SimulatedMemory::new(MemoryKind::Dax, 0, CrashSwitch::new());
    memory.create(1, 8192).unwrap();
    memory.remove(1).unwrap();
    let count = |kind| {
        let crashes = (0..20).map(|seed| memory.crash(kind, seed, CrashSwitch::new()));
        crashes
            .filter(|memory| memory.list().unwrap().len() == 1)
            .count()
    };
    assert_eq!(count(CrashKind::Kill), 0);
    assert!((1..20).contains(&count(CrashKind::PowerCut)));
}

#[test]
fn the_same_seed_gives_the_same_crash() {
    let memory = SimulatedMemory::new(MemoryKind::Dax, 0, CrashSwitch::new());
    memory.create(1, 8192).unwrap();
    let Attached { mut writer, medium } = memory.attach(1, 8192).unwrap();
    medium.store(&mut writer, 0, &[1; 8192]).unwrap();
    let cut = |seed| slot_bytes(&memory.crash(CrashKind::PowerCut, seed, CrashSwitch::new()));
    assert_eq!(cut(3), cut(3));
    assert!((0..20).any(|seed| cut(seed) != cut(3)));
}

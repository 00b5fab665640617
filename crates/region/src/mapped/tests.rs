use std::path::Path;

use terrace_storage::{
    Access, CrashSwitch, FailingStorage, Fault, FaultFilter, FaultPlan, RealStorage,
    SimulatedStorage,
};

use super::*;
use crate::{Arena, Frame, Placement, Region, WrittenOptions};

const ARENA_BYTES: u64 = 16384;
const STORE: [u8; 16] = [7; 16];

fn frame<'a>(number: u64, payload: &'a [&'a [u8]]) -> Frame<'a> {
    Frame {
        first_sequence: number,
        record_count: 1,
        persisted_until: 0,
        payload,
    }
}

/// Returns a directory on a disk's file system that takes mappings, if the tests run on one.
fn disk() -> Option<tempfile::TempDir> {
    let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let file_system = RealStorage.file_system(directory.path()).unwrap();
    (file_system.overwrites_in_place && file_system.survives_power_cut).then_some(directory)
}

/// Returns a directory in memory, if there is one.
fn memory() -> Option<tempfile::TempDir> {
    let directory = tempfile::tempdir_in("/dev/shm").ok()?;
    let file_system = RealStorage.file_system(directory.path()).unwrap();
    (file_system.name == "tmpfs").then_some(directory)
}

fn mapped(directory: &Path) -> Region {
    let options = MappedOptions::default();
    Region::mapped(
        Arc::new(RealStorage),
        directory,
        STORE,
        ARENA_BYTES,
        options,
    )
    .unwrap()
}

fn arena(region: &Region, generation: u64) -> Arc<Arena> {
    let slot = region.reserve(ARENA_BYTES).unwrap();
    region.activate(slot, generation).unwrap()
}

fn payloads(arena: &Arena) -> Vec<Vec<u8>> {
    let frames = arena.frames();
    frames.map(|f| f.unwrap().payload.to_vec()).collect()
}

#[test]
fn every_method_on_files_recovers_what_another_wrote() {
    for directory in [disk(), memory()].into_iter().flatten() {
        let path = directory.path();
        let written = || {
            let options = WrittenOptions::default();
            Region::written(Arc::new(RealStorage), path, STORE, ARENA_BYTES, options).unwrap()
        };
        let regions: [&dyn Fn() -> Region; 2] = [&|| mapped(path), &written];
        let mut generation = 0;
        for write in regions {
            for read in regions {
                generation += 1;
                let region = write();
                for slot in region.slots().unwrap() {
                    region.recycle(slot.number).unwrap();
                }
                let arena = arena(&region, generation);
                let text = format!("generation {generation}");
                let parts: [&[u8]; 2] = [b"of ", text.as_bytes()];
                arena.append(&frame(1, &parts)).unwrap();
                let slot = arena.slot();
                drop((arena, region));

                let found = read().recover(slot, generation).unwrap();
                assert!(found.is_activated && found.is_same_boot && !found.scan.is_damaged());
                assert_eq!(
                    payloads(&found.load(Placement::Mapping).unwrap()),
                    [parts.concat()]
                );
            }
        }
    }
}

#[test]
fn a_slot_is_not_used_again_while_its_arena_is_read() {
    let Some(directory) = disk().or_else(memory) else {
        return;
    };
    let region = mapped(directory.path());
    let old = arena(&region, 1);
    old.append(&frame(1, &[b"old"])).unwrap();
    region.recycle(old.slot()).unwrap();
    let new = arena(&region, 2);
    new.append(&frame(2, &[b"new"])).unwrap();
    assert_ne!(old.slot(), new.slot());
    assert_eq!(payloads(&old), [b"old"]);
    let slot = old.slot();
    drop(old);
    assert_eq!(arena(&region, 3).slot(), slot);
}

#[test]
fn memory_persists_only_where_that_is_emulated_and_said() {
    let Some(directory) = memory() else { return };
    let region = mapped(directory.path());
    assert!(!region.description().can_persist && !region.description().emulated);
    let first = arena(&region, 1);
    first.append(&frame(1, &[b"kept by the kernel"])).unwrap();
    assert!(matches!(
        first.persist(),
        Err(Error::PersistUnsupported { .. })
    ));
    let emulated = MappedOptions {
        emulate_power_safety: true,
    };
    let storage = Arc::new(RealStorage);
    let region = Region::mapped(storage, directory.path(), STORE, ARENA_BYTES, emulated).unwrap();
    assert!(region.description().can_persist && region.description().emulated);
    let second = arena(&region, 2);
    second.append(&frame(1, &[b"x"])).unwrap();
    second.persist().unwrap();
    assert!(second.is_persisted());
}

#[test]
fn a_failed_sync_is_never_healed_by_a_later_one() {
    let Some(directory) = disk() else { return };
    let syncs = FaultFilter::everything().operations(&[Operation::Sync]);
    let plan = FaultPlan::new(syncs);
    let storage = FailingStorage::new(Arc::new(RealStorage), plan.clone());
    let options = MappedOptions::default();
    let region = Region::mapped(
        Arc::new(storage),
        directory.path(),
        STORE,
        ARENA_BYTES,
        options,
    )
    .unwrap();
    let arena = arena(&region, 1);
    arena.append(&frame(1, &[b"x"])).unwrap();
    arena.persist().unwrap();
    arena.append(&frame(2, &[b"y"])).unwrap();
    plan.fail_from(0, Fault::Io);
    assert!(matches!(arena.persist(), Err(Error::PersistFailed(_))));
    plan.heal();
    assert!(matches!(arena.persist(), Err(Error::PersistFailed(_))));
    assert_eq!(payloads(&arena), [b"x", b"y"]);
}

#[test]
fn a_file_that_shrank_is_an_error_and_no_signal() {
    let Some(directory) = disk().or_else(memory) else {
        return;
    };
    let region = mapped(directory.path());
    let slot = region.reserve(ARENA_BYTES).unwrap();
    let path = region.file(slot.number());
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.set_len(ARENA_BYTES / 2).unwrap();
    assert!(matches!(
        region.activate(slot, 1),
        Err(Error::Corruption { .. })
    ));
}

#[test]
fn every_file_has_all_its_blocks_before_it_is_mapped() {
    use std::os::unix::fs::MetadataExt;
    for can_reserve in [true, false] {
        let Some(directory) = disk().or_else(memory) else {
            return;
        };
        let path = directory.path().join("arena-1");
        let found = std::fs::File::create(&path).unwrap();
        found.set_len(ARENA_BYTES).unwrap();
        let plan = FaultPlan::new(FaultFilter::everything().operations(&[Operation::Allocate]));
        if !can_reserve {
            plan.fail_from(0, Fault::Unsupported);
        }
        let storage = Arc::new(FailingStorage::new(Arc::new(RealStorage), plan.clone()));
        let options = MappedOptions::default();
        let region =
            Region::mapped(storage, directory.path(), STORE, ARENA_BYTES, options).unwrap();
        region.recycle(1).unwrap();
        let arenas = [1, 2].map(|generation| arena(&region, generation));
        assert_eq!(arenas[0].slot(), 1, "the one that was found is used");
        for arena in &arenas {
            let metadata = std::fs::metadata(arena.file()).unwrap();
            assert_eq!(metadata.len(), ARENA_BYTES);
            assert!(metadata.blocks() * 512 >= ARENA_BYTES, "{can_reserve}");
            arena.append(&frame(1, &[b"a store into it"])).unwrap();
        }
        assert_eq!(plan.count(), 2);
    }
}

#[test]
fn a_recovered_arena_has_all_its_blocks_before_it_is_mapped_again() {
    use std::os::unix::fs::MetadataExt;
    let Some(directory) = disk().or_else(memory) else {
        return;
    };
    let slot = {
        let region = mapped(directory.path());
        let arena = arena(&region, 1);
        arena.append(&frame(1, &[b"x"])).unwrap();
        arena.slot()
    };
    let region = mapped(directory.path());
    let mut options = std::fs::File::options();
    let file = options.write(true).open(region.file(slot)).unwrap();
    // As a copy may be that leaves out zeros.
    file.set_len(ARENA_BYTES / 2).unwrap();
    file.set_len(ARENA_BYTES).unwrap();
    let blocks_bytes = || file.metadata().unwrap().blocks() * 512;
    assert!(blocks_bytes() < ARENA_BYTES, "the file has a hole");
    let found = region.recover(slot, 1).unwrap();
    assert_eq!(payloads(&found.load(Placement::Mapping).unwrap()), [b"x"]);
    region.recycle(slot).unwrap();
    assert!(blocks_bytes() >= ARENA_BYTES);
}

/// The zeros of a larger file are written after its length was made durable.
#[test]
fn a_new_file_is_full_of_zeros() {
    let Some(directory) = disk().or_else(memory) else {
        return;
    };
    const LARGER_BYTES: u64 = 3 * ARENA_BYTES * 5;
    let options = MappedOptions::default();
    let storage = Arc::new(RealStorage);
    let region = Region::mapped(storage, directory.path(), STORE, LARGER_BYTES, options).unwrap();
    let slot = region.reserve(LARGER_BYTES).unwrap();
    let bytes = std::fs::read(region.file(slot.number())).unwrap();
    assert_eq!(bytes.len() as u64, LARGER_BYTES);
    assert!(bytes.iter().all(|&byte| byte == 0));
}

fn refused(name: &str) -> bool {
    let file_system = FileSystem {
        name: name.to_owned(),
        overwrites_in_place: matches!(name, "ext4" | "xfs" | "tmpfs"),
        survives_power_cut: true,
        has_descriptors: true,
    };
    refusal(&file_system).is_some()
}

#[test]
fn file_systems_that_do_not_overwrite_in_place_are_refused() {
    assert!(!refused("ext4") && !refused("xfs") && !refused("tmpfs"));
    for name in ["btrfs", "zfs", "overlay", "nfs", "fuse", "0x1234"] {
        assert!(refused(name), "{name}");
    }
    let error = mapped_on("overlay").unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("the persist method 'mapped' cannot be used on overlay: an overlay may"),
        "{error}"
    );
}

/// Returns a region on a file system of another name, with nothing behind it that the kernel could
/// map.
fn mapped_on(name: &str) -> Result<Region> {
    let storage = Arc::new(SimulatedStorage::new(0, CrashSwitch::new()));
    storage.create_directory(Path::new("/region")).unwrap();
    let file_system = FileSystem {
        name: name.to_owned(),
        ..storage.file_system(Path::new("/region")).unwrap()
    };
    let file_system = FileSystem {
        overwrites_in_place: name == "ext4",
        ..file_system
    };
    if let Some(advice) = refusal(&file_system) {
        return Err(unsupported(METHOD, &file_system, advice));
    }
    let directory = storage.directory(Path::new("/region"), Access::Owner)?;
    let options = MappedOptions::default();
    let device = FileDevice::open(&*storage, directory, file_system, Mapped { options })?;
    Region::open(Box::new(device), STORE, ARENA_BYTES)
}

#[test]
fn files_that_cannot_be_mapped_are_an_error_with_advice() {
    let region = mapped_on("ext4").unwrap();
    let slot = region.reserve(ARENA_BYTES).unwrap();
    let error = region.activate(slot, 1).unwrap_err();
    assert!(matches!(
        error,
        Error::MethodUnsupported {
            method: "mapped",
            ..
        }
    ));
}

/// Frames wait for their flush behind a full disk. They stay as they are for a reader of the
/// mapping when their slot is used again.
#[test]
fn a_resumed_arena_persists_and_outlives_its_slot() {
    for directory in [disk(), memory()].into_iter().flatten() {
        let path = directory.path();
        let regions: [&dyn Fn() -> Region; 2] = [&|| mapped(path), &|| {
            let options = WrittenOptions::default();
            Region::written(Arc::new(RealStorage), path, STORE, ARENA_BYTES, options).unwrap()
        }];
        for (generation, open) in (1..).zip(regions) {
            let region = open();
            let killed = arena(&region, generation);
            killed.append(&frame(1, &[b"one"])).unwrap();
            killed.append(&frame(2, &[b"two"])).unwrap();
            let slot = killed.slot();
            drop((killed, region));

            let region = open();
            let found = region.recover(slot, generation).unwrap();
            let resumed = region.resume(&found).unwrap();
            assert!(region.resume(&found).is_err(), "an arena holds the slot");
            assert!(resumed.append(&frame(3, &[b"three"])).is_err());
            if region.description().can_persist {
                resumed.persist().unwrap();
                assert!(resumed.is_persisted());
            }
            assert_eq!(payloads(&resumed), [b"one".to_vec(), b"two".to_vec()]);
            region.recycle(slot).unwrap();
            let next = arena(&region, generation + 10);
            next.append(&frame(1, &[b"another"])).unwrap();
            assert_eq!(payloads(&resumed), [b"one".to_vec(), b"two".to_vec()]);
            let next_slot = next.slot();
            drop((next, resumed));
            region.recycle(next_slot).unwrap();
        }
    }
}

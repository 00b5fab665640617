use std::path::Path;
use std::thread;
use std::time::Duration;

use terrace_region::{Frame, MappedOptions, MemoryKind, Placement, Region, SimulatedMemory};
use terrace_storage::{Access, CrashSwitch, RealStorage, Storage};

use super::*;

fn slow(latency_ns: u64, write_gbps: f64, read_gbps: f64) -> RegionModel {
    RegionModel {
        latency_ns,
        write_gbps,
        read_gbps,
    }
}

fn time(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

#[test]
fn models_are_read_as_they_are_written() {
    assert_eq!("optane".parse(), Ok(RegionModel::OPTANE));
    assert_eq!("300:2.5:6".parse(), Ok(slow(300, 2.5, 6.0)));
    let printed = RegionModel::OPTANE.to_string();
    assert_eq!(printed.parse(), Ok(RegionModel::OPTANE));
    for wrong in ["", "fast", "1:2", "1:0:2", "1:2:inf", "x:1:1", "1:2:3:4"] {
        assert!(wrong.parse::<RegionModel>().is_err(), "{wrong}");
    }
}

#[test]
fn a_delay_is_latency_and_bytes_by_bandwidth() {
    let bus = Bus::new(slow(2_000_000, 0.1, 1.0));
    // 2 ms and 1 MB at 100 MB/s; never less, and on a busy machine more.
    let writing = time(|| bus.write(1_000_000));
    assert!(writing >= Duration::from_millis(12), "{writing:?}");
    assert!(writing < Duration::from_secs(2), "{writing:?}");
    let reading = time(|| bus.read(1_000_000));
    assert!(reading >= Duration::from_millis(3), "{reading:?}");
    assert!(reading < Duration::from_secs(2), "{reading:?}");
}

#[test]
fn what_a_line_takes_is_not_lost_to_rounding() {
    let bus = Bus::new(slow(0, 3.0, 3.0));
    // 21.3 ns each: all together 2.13 ms.
    let took = time(|| (0..100_000).for_each(|_| bus.write(64)));
    assert!(took >= Duration::from_micros(2100), "{took:?}");
}

#[test]
fn writers_share_the_bandwidth_and_not_the_latency() {
    let bus = Bus::new(slow(0, 0.1, 1.0));
    let took = time(|| {
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| bus.write(500_000));
            }
        });
    });
    assert!(took >= Duration::from_millis(20), "{took:?}");
}

#[test]
fn a_frame_costs_its_delay_and_is_there_afterwards() {
    let memory = SimulatedMemory::new(MemoryKind::Dax, 7, CrashSwitch::new());
    let bus = Bus::new(slow(5_000_000, 1.0, 1.0));
    let device = ModelledDevice::new(Box::new(memory), bus);
    assert!(
        device
            .description()
            .medium
            .contains("modelled as 5000000:1:1")
    );
    let region = Region::open(Box::new(device), [0; 16], 16384).unwrap();
    let slot = region.reserve(16384).unwrap();
    let arena = region.activate(slot, 1).unwrap();
    let frame = Frame {
        first_sequence: 1,
        record_count: 1,
        persisted_until: 0,
        payload: &[b"payload"],
    };
    let mut place = None;
    let took = time(|| place = Some(arena.append(&frame).unwrap()));
    assert!(took >= Duration::from_millis(5), "{took:?}");
    let place = place.unwrap();
    let read = arena.read(place.payload_offset, place.payload_bytes);
    assert_eq!(read, Some(&b"payload"[..]));
    let persisting = time(|| arena.persist().unwrap());
    assert!(persisting >= Duration::from_millis(5), "{persisting:?}");
}

/// Whether the medium of the tests can be mapped at all; elsewhere it is refused in words.
#[test]
fn a_modelled_region_is_found_again() {
    let directory = tempfile::tempdir_in(".").unwrap();
    let open = |directory: &Path| {
        let directory = RealStorage.directory(directory, Access::Owner)?;
        let inner = Region::mapped_device(&RealStorage, directory, MappedOptions::default())?;
        let bus = Bus::new(slow(10, 1.0, 1.0));
        Region::open(Box::new(ModelledDevice::new(inner, bus)), [0; 16], 16384)
    };
    let Ok(region) = open(directory.path()) else {
        println!("SKIPPED: no mapping here");
        return;
    };
    let slot = region.reserve(16384).unwrap();
    let number = slot.number();
    let arena = region.activate(slot, 1).unwrap();
    let frame = Frame {
        first_sequence: 4,
        record_count: 1,
        persisted_until: 0,
        payload: &[b"kept"],
    };
    arena.append(&frame).unwrap();
    drop((arena, region));
    let recovered = open(directory.path()).unwrap().recover(number, 1).unwrap();
    let arena = recovered.load(Placement::Memory).unwrap();
    let payloads: Vec<_> = arena.frames().map(|f| f.unwrap().payload).collect();
    assert_eq!(payloads, [b"kept"]);
}

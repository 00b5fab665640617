//! The storage on a clock of its own: time passes while a caller waits, and at no other moment.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::speed::Place;
use super::*;
use crate::{
    Clock, CrashSwitch, DeviceProfile, ErrorKind, OpenMode, OpenOptions, Purpose, RealStorage,
    SimulatedStorage,
};

const OTHER: Purpose = Purpose::Other;
const MIB: usize = 1 << 20;

#[derive(Debug, Default)]
struct VirtualClock(AtomicU64);

impl Clock for VirtualClock {
    fn now_ns(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    fn sleep(&self, time: Duration) {
        self.0.fetch_add(time.as_nanos() as u64, Ordering::SeqCst);
    }
}

/// A clock, and devices and storages by it.
#[derive(Default)]
struct Machine(Arc<VirtualClock>);

impl Machine {
    fn device(&self, profile: DeviceProfile) -> EmulatedDevice {
        EmulatedDevice::new("test", profile).with_clock(Arc::clone(&self.0) as Arc<dyn Clock>)
    }

    /// Returns the milliseconds of a call.
    fn ms<T>(&self, call: impl FnOnce() -> T) -> f64 {
        let before_ns = self.0.now_ns();
        call();
        (self.0.now_ns() - before_ns) as f64 / 1e6
    }
}

fn simulated() -> Arc<SimulatedStorage> {
    Arc::new(SimulatedStorage::new(1, CrashSwitch::new()))
}

fn create(storage: &EmulatedStorage, path: &str) -> Arc<dyn File> {
    let options = OpenOptions::buffered(OpenMode::CreateNew);
    storage.open(Path::new(path), options).unwrap()
}

#[test]
fn calls_take_the_time_of_the_device() {
    let machine = Machine::default();
    let disk = Arc::new(machine.device(DeviceProfile::WD10EZEX));
    let storage = EmulatedStorage::new(simulated(), disk);
    let file = create(&storage, "/f");
    let megabyte = vec![1; 1_000_000];
    let write = || file.append(&megabyte, OTHER).unwrap();
    assert_eq!(machine.ms(|| (0..15).for_each(|_| _ = write())), 0.0);
    // 15 MB at 150 MB/s, a move of the head, and a flush.
    let sync_ms = machine.ms(|| file.sync(OTHER).unwrap());
    assert!((sync_ms - (100.0 + 5.285 + 12.0)).abs() < 0.01, "{sync_ms}");
    assert_eq!(machine.ms(|| file.sync(OTHER).unwrap()), 0.0);

    let mut buffer = vec![0; 1_000_000];
    let mut read = |bytes: usize, offset| {
        machine.ms(|| file.read_at(&mut buffer[..bytes], offset, OTHER).unwrap())
    };
    assert_eq!(read(4096, 8192), 13.0);
    assert_eq!(read(4096, 8192), 13.0);
    // The rotation read ahead.
    assert_eq!(read(4096, 12_288), 0.0);
    let in_order_ms: f64 = (0..3)
        .map(|part| read(1_000_000, 16_384 + part * 1_000_000))
        .sum();
    assert!((in_order_ms - 20.0).abs() < 1.0, "{in_order_ms}");
    // Of a buffer behind the end only the rest is read, and nothing takes no time.
    let tail_ms = read(100_000, 15_000_000 - 5_000);
    assert!((13.0..13.1).contains(&tail_ms), "{tail_ms}");
    assert_eq!(read(100_000, 15_000_000), 0.0);

    assert_eq!(
        machine.ms(|| storage.sync_directory(Path::new("/")).unwrap()),
        12.0
    );
    assert_eq!(machine.ms(|| storage.list(Path::new("/")).unwrap()), 0.0);
    let durable_ms = machine.ms(|| file.write_durable_at(&[1; 4096], 0, OTHER).unwrap());
    assert!((durable_ms - (5.313 + 12.0)).abs() < 0.01, "{durable_ms}");
}

#[test]
fn reads_under_way_make_each_other_longer() {
    let machine = Machine::default();
    let flash = Arc::new(machine.device(DeviceProfile::SSD_850_PRO));
    let turns: Vec<_> = (0..31)
        .map(|_| flash.read(4096, Place::Elsewhere))
        .collect();
    let last = flash.read(4096, Place::Elsewhere);
    assert_eq!(machine.ms(|| drop((turns, last))), 0.32);
    let alone = flash.read(4096, Place::Elsewhere);
    assert_eq!(machine.ms(|| drop(alone)), 0.1);
}

#[test]
fn storages_share_a_device_and_devices_share_nothing() {
    let machine = Machine::default();
    let qlc = Arc::new(machine.device(DeviceProfile::QLC));
    let (first, second) = (
        EmulatedStorage::new(simulated(), Arc::clone(&qlc)),
        EmulatedStorage::new(simulated(), qlc),
    );
    let fast = Arc::new(machine.device(DeviceProfile::NVME_GEN4));
    let other = EmulatedStorage::new(simulated(), fast);
    let files = [&first, &second, &other].map(|storage| create(storage, "/f"));
    let [first, second, other] = &files;
    // Half a second of writing, which nobody waits for.
    first.append(&vec![1; 40_000_000], OTHER).unwrap();
    first.start_write_back(0, 40_000_000).unwrap();
    let sync = |file: &Arc<dyn File>| {
        file.append(&[1; 4096], OTHER).unwrap();
        machine.ms(|| file.sync(OTHER).unwrap())
    };
    let other_ms = sync(other);
    assert!((0.6..0.61).contains(&other_ms), "{other_ms}");
    let second_ms = sync(second);
    assert!((500.0..505.0).contains(&second_ms), "{second_ms}");
}

#[test]
fn the_end_of_an_opening_sends_its_bytes() {
    let machine = Machine::default();
    let disk = Arc::new(machine.device(DeviceProfile::WD10EZEX));
    let storage = EmulatedStorage::new(simulated(), disk);
    let file = create(&storage, "/f");
    file.append(&vec![1; 30_000_000], OTHER).unwrap();
    assert_eq!(machine.ms(|| drop(file)), 0.0);
    let file = create(&storage, "/g");
    file.append(&[1; 4096], OTHER).unwrap();
    let sync_ms = machine.ms(|| file.sync(OTHER).unwrap());
    assert!((sync_ms - 222.6).abs() < 0.1, "{sync_ms}");
}

#[test]
fn nothing_leads_past_the_device() {
    let directory = tempfile::tempdir().unwrap();
    let device = Arc::new(Machine::default().device(DeviceProfile::QLC));
    let storage = EmulatedStorage::new(Arc::new(RealStorage), device);
    let path = directory.path().join("f");
    let file = create(&storage, path.to_str().unwrap());
    file.append(&[1; 8192], OTHER).unwrap();
    assert!(file.descriptor().is_none());
    assert!(!file.start_read(0, 8192));
    assert!(!storage.can_poll());
    let below = RealStorage.file_system(directory.path()).unwrap();
    let facts = storage.file_system(directory.path()).unwrap();
    assert_eq!(facts.name, "emulated test");
    assert!(facts.overwrites_in_place && !facts.has_descriptors);
    assert_eq!(facts.survives_power_cut, below.survives_power_cut);
    let free_bytes = storage.free_space_bytes(directory.path()).unwrap();
    assert!(free_bytes > 0);
}

#[test]
fn a_full_device_is_a_full_disk() {
    let inner = simulated();
    let device = Machine::default().device(DeviceProfile::QLC);
    let device = Arc::new(device.with_capacity_bytes(10 * MIB as u64));
    let storage = EmulatedStorage::new(inner.clone(), Arc::clone(&device));
    let other = EmulatedStorage::new(inner, device);
    let free = || storage.free_space_bytes(Path::new("/")).unwrap() / MIB as u64;
    let file = create(&storage, "/f");
    assert_eq!(free(), 10);
    file.append(&vec![1; 4 * MIB], OTHER).unwrap();
    // Bytes written again, second names and other openings count once.
    file.write_at(&vec![2; 2 * MIB], 0, OTHER).unwrap();
    storage.link(Path::new("/f"), Path::new("/g")).unwrap();
    assert_eq!(
        other.free_space_bytes(Path::new("/")).unwrap() / MIB as u64,
        6
    );
    let reserved = create(&other, "/reserved");
    reserved.allocate(5 * MIB as u64).unwrap();
    assert_eq!(free(), 1);
    let error = file.append(&vec![1; 2 * MIB], OTHER).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace);
    let error = reserved.allocate(7 * MIB as u64).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace);
    reserved.append(&vec![1; 5 * MIB], OTHER).unwrap();
    file.append(&vec![1; MIB], OTHER).unwrap();
    assert_eq!(free(), 0);
    file.truncate(3 * MIB as u64).unwrap();
    assert_eq!(free(), 2);
    storage.remove(Path::new("/reserved")).unwrap();
    file.append(&vec![1; 7 * MIB], OTHER).unwrap();
    assert_eq!(free(), 0);
}

#[test]
fn an_instant_device_takes_no_time_until_it_is_one_again() {
    let machine = Machine::default();
    let disk = Arc::new(machine.device(DeviceProfile::WD10EZEX));
    let storage = EmulatedStorage::new(simulated(), Arc::clone(&disk));
    disk.set_instant(true);
    let file = create(&storage, "/f");
    let load = || {
        file.append(&vec![7; MIB], OTHER).unwrap();
        file.start_write_back(0, MIB as u64).unwrap();
        file.sync(OTHER).unwrap();
        file.read_vec_at(4096, 8192, OTHER).unwrap()
    };
    assert_eq!(machine.ms(load), 0.0);
    disk.set_instant(false);
    // Nothing of the load is left to do: the bytes of a megabyte, a flush, and a seek.
    let ms = machine.ms(load);
    assert!((30.0..36.0).contains(&ms), "{ms}");
}

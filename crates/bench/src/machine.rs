//! The machine that figures are of.

use std::fs;
use std::path::Path;

use procfs::Current;

use crate::measure::device::Device;
use crate::outcome::Machine;

/// What can be told of the machine and of the medium under `directory`.
pub fn describe(directory: &Path) -> Machine {
    let memory_bytes = procfs::Meminfo::current().map_or(0, |memory| memory.mem_total);
    Machine {
        processor: processor().unwrap_or_else(|| std::env::consts::ARCH.into()),
        processors: std::thread::available_parallelism()
            .map_or(1, |count| u32::try_from(count.get()).unwrap_or(u32::MAX)),
        memory_bytes,
        kernel: rustix::system::uname()
            .release()
            .to_string_lossy()
            .into_owned(),
        file_system: medium(directory),
        harness: Vec::new(),
    }
}

fn processor() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_string())
}

/// File system, the device under it, and what the kernel reads ahead there: a store that maps its files is
/// charged for that with each fault.
fn medium(directory: &Path) -> String {
    let file_system = mount(directory).unwrap_or_else(|| "unknown file system".into());
    let Some(device) = Device::of(directory) else {
        return file_system;
    };
    match device.read_ahead_kib() {
        Some(kib) => format!("{file_system} on {}, read-ahead of {kib} KiB", device.name),
        None => format!("{file_system} on {}", device.name),
    }
}

/// Of all mounts that hold the directory, the one furthest down.
fn mount(directory: &Path) -> Option<String> {
    let directory = fs::canonicalize(directory).ok()?;
    let mounts = procfs::process::Process::myself().ok()?.mountinfo().ok()?;
    mounts
        .into_iter()
        .filter(|mount| directory.starts_with(&mount.mount_point))
        .max_by_key(|mount| mount.mount_point.as_os_str().len())
        .map(|mount| mount.fs_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_can_be_described() {
        let machine = describe(Path::new("."));
        assert!(machine.processors >= 1);
        assert!(machine.memory_bytes > 1 << 20);
        assert!(!machine.kernel.is_empty());
        assert!(
            !machine.file_system.starts_with("unknown"),
            "{}",
            machine.file_system
        );
    }
}

//! The machine that figures are of.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use terrace_storage::{RealStorage, Storage};

use crate::measure::device::Device;
use crate::outcome::Machine;

/// Describes the machine and the medium under `directory`, today.
pub fn describe(directory: &Path) -> Machine {
    Machine {
        processor: processor().unwrap_or_else(|| std::env::consts::ARCH.into()),
        processors: std::thread::available_parallelism()
            .map_or(1, |count| u32::try_from(count.get()).unwrap_or(u32::MAX)),
        memory_bytes: memory_bytes(),
        kernel: rustix::system::uname()
            .release()
            .to_string_lossy()
            .into_owned(),
        file_system: medium(directory),
        day: today(),
        harness: Vec::new(),
    }
}

fn today() -> String {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    now.split('T').next().unwrap_or_default().to_owned()
}

fn processor() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_string())
}

fn memory_bytes() -> u64 {
    let system = rustix::system::sysinfo();
    system.totalram.saturating_mul(system.mem_unit.into())
}

/// Describes the file system, the device under it, and the kernel's read-ahead there: a store that
/// maps its files is charged for that with each fault.
///
/// The kernel names the file system: the table of mounts lacks the root of a chroot.
fn medium(directory: &Path) -> String {
    let file_system = RealStorage
        .file_system(directory)
        .map_or_else(|_| "unknown file system".into(), |found| found.name);
    let Some(device) = Device::of(directory) else {
        return file_system;
    };
    match device.read_ahead_kib() {
        Some(kib) => format!("{file_system} on {}, read-ahead of {kib} KiB", device.name),
        None => format!("{file_system} on {}", device.name),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::process::{Command, Output};

    use super::*;

    #[test]
    fn this_machine_can_be_described() {
        let machine = describe(Path::new("."));
        assert!(machine.processors >= 1);
        assert!(machine.memory_bytes > 1 << 20);
        assert!(!machine.kernel.is_empty());
        let day: Vec<&str> = machine.day.split('-').collect();
        assert_eq!(
            day.iter().map(|part| part.len()).collect::<Vec<_>>(),
            [4, 2, 2]
        );
        assert!(
            !machine.file_system.starts_with("unknown"),
            "{}",
            machine.file_system
        );
    }

    /// Shared libraries of this process, its loader among them.
    fn libraries() -> Vec<PathBuf> {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let files = maps
            .lines()
            .filter_map(|line| Some(&line[line.find('/')?..]));
        let mut libraries: Vec<PathBuf> = files
            .filter(|file| file.contains(".so"))
            .map(PathBuf::from)
            .collect();
        libraries.dedup();
        libraries
    }

    fn in_chroot(root: &Path, program: &[&str]) -> Output {
        let as_root = rustix::process::geteuid().is_root();
        let wrapper: &[&str] = match as_root {
            true => &["env"],
            false => &["unshare", "--map-root-user"],
        };
        Command::new(wrapper[0])
            .args(&wrapper[1..])
            .arg("chroot")
            .arg(root)
            .args(program)
            .output()
            .unwrap()
    }

    #[test]
    fn a_chroot_without_proc_can_be_described_too() {
        let root = tempfile::tempdir().unwrap();
        let put = |from: &Path, to: &Path| {
            let to = root.path().join(to.strip_prefix("/").unwrap());
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(from, to).unwrap();
        };
        let libraries = libraries();
        libraries.iter().for_each(|library| put(library, library));
        put(&std::env::current_exe().unwrap(), Path::new("/tests"));
        let loader = libraries
            .iter()
            .find(|library| library.to_string_lossy().contains("/ld-"));
        let Some(loader) = loader.and_then(|loader| loader.to_str()) else {
            return;
        };
        if !in_chroot(root.path(), &[loader, "--version"])
            .status
            .success()
        {
            eprintln!("skipped: chroot(2) is not allowed here");
            return;
        }
        let test = "machine::tests::this_machine_can_be_described";
        let output = in_chroot(root.path(), &[loader, "/tests", "--exact", test]);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("1 passed"), "{text}");
    }
}

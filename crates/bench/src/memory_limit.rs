//! A bound for the memory of a run, page cache included: a memory cgroup, of version 1 or 2.
//!
//! The parent makes the group, the child enters it before it opens a store, and the parent removes
//! it when the child has gone. A group that cannot be made (no rights, no controller) is an error
//! that says so: an unbounded run in place of a bounded one would be worse than none.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use procfs::process::Process;
use terrace_storage::Escaped;

use crate::Result;

const MOUNT: &str = "/sys/fs/cgroup";

/// Returns the variable that bounded runs get in their environment: how many arenas glibc's
/// allocator has. By default it has one for nearly each thread, and memory that one thread frees
/// there is no room for another one's allocations. A cache grew to twice its budget as readers came
/// and went, until the kernel killed the store. The user's own value takes precedence.
pub fn allocator_arenas() -> (&'static str, String) {
    const NAME: &str = "MALLOC_ARENA_MAX";
    (NAME, env::var(NAME).unwrap_or_else(|_| "1".into()))
}

/// Names of the files of a version.
#[derive(Clone, Copy, Debug)]
struct Files {
    version: u32,
    limit: &'static str,
    /// Version 1 bounds memory and swap together, version 2 swap alone.
    swap: &'static str,
    peak: &'static str,
}

const VERSION_1: Files = Files {
    version: 1,
    limit: "memory.limit_in_bytes",
    swap: "memory.memsw.limit_in_bytes",
    peak: "memory.max_usage_in_bytes",
};
const VERSION_2: Files = Files {
    version: 2,
    limit: "memory.max",
    swap: "memory.swap.max",
    peak: "memory.peak",
};

impl Files {
    /// Returns the limit that leaves no swap beside `bytes` of memory.
    fn no_swap(&self, bytes: u64) -> u64 {
        if self.version == 1 { bytes } else { 0 }
    }
}

/// Groups that this process has made: each has a name of its own.
static MADE: AtomicU64 = AtomicU64::new(0);

/// A cgroup that bounds the memory of its processes; removed when dropped.
#[derive(Debug)]
pub struct MemoryLimit {
    directory: PathBuf,
    /// Whether swap is bounded, too.
    bounds_swap: bool,
}

impl MemoryLimit {
    /// Makes a group of at most `bytes` of memory and, where the kernel lets it, no swap.
    ///
    /// # Errors
    /// No memory controller, or no right to make a group.
    pub fn new(bytes: u64) -> Result<Self> {
        let (parent, files) = controller()?;
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let directory = parent.join(format!("terrace-bench-{}-{number}", process::id()));
        let refused = |error: io::Error| {
            format!(
                "cannot make the memory cgroup {}: {error}; run as root to have one",
                Escaped::path(&directory)
            )
        };
        // A group left by an earlier process of this number would count the reads of that process.
        let _ = fs::remove_dir(&directory);
        fs::create_dir(&directory).map_err(refused)?;
        let mut group = MemoryLimit {
            directory: directory.clone(),
            bounds_swap: false,
        };
        fs::write(directory.join(files.limit), bytes.to_string()).map_err(refused)?;
        // A kernel that counts no swap for groups has no such file.
        let swap = fs::write(directory.join(files.swap), files.no_swap(bytes).to_string());
        group.bounds_swap = swap.is_ok();
        Ok(group)
    }

    /// Returns the group's directory, for the process that is to [`enter`] it.
    pub fn path(&self) -> &Path {
        &self.directory
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        // The directory goes as soon as its last process has been waited for; one that stays does
        // no harm.
        let _ = fs::remove_dir(&self.directory);
    }
}

/// Puts this process into the group of a directory.
pub fn enter(group: &Path) -> Result<()> {
    fs::write(group.join("cgroup.procs"), process::id().to_string()).map_err(|error| {
        format!("cannot enter the cgroup {}: {error}", Escaped::path(group)).into()
    })
}

/// Checks whether a bound can be had here; the error says why not.
pub fn available() -> Result<()> {
    describe().map(drop)
}

/// Describes in words how memory is bounded here.
///
/// # Errors
/// The reason, where it cannot be bounded.
pub fn describe() -> Result<String> {
    const ENOUGH_BYTES: u64 = 64 << 20;
    let group = MemoryLimit::new(ENOUGH_BYTES)?;
    let swap = if group.bounds_swap {
        "no swap"
    } else {
        "swap not bounded"
    };
    let (_, files) = controller()?;
    Ok(format!(
        "a memory cgroup of version {}, page cache included, {swap}",
        files.version
    ))
}

/// Returns the most memory of this process's own group, if it is one of ours.
pub fn own_peak_bytes() -> Option<u64> {
    let (directory, files) = own()?;
    fs::read_to_string(directory.join(files.peak))
        .ok()?
        .trim()
        .parse()
        .ok()
}

/// Resets the peak, where the kernel can: in version 1. Version 2 (since Linux 6.12) does so only
/// for the descriptor that asks, which is closed here. There the peak is that of the process so
/// far, from the load of its store on.
pub fn reset_own_peak() {
    if let Some((directory, files)) = own() {
        let _ = fs::write(directory.join(files.peak), "0");
    }
}

fn own() -> Option<(PathBuf, Files)> {
    let (_, files) = controller().ok()?;
    let groups = Process::myself().ok()?.cgroups().ok()?;
    groups.into_iter().find_map(|group| {
        let ours = group.pathname.contains("/terrace-bench-");
        let memory = group.hierarchy == 0 || group.controllers.iter().any(|name| name == "memory");
        let mount = if group.hierarchy == 0 {
            PathBuf::from(MOUNT)
        } else {
            Path::new(MOUNT).join("memory")
        };
        (ours && memory).then(|| (mount.join(group.pathname.trim_start_matches('/')), files))
    })
}

/// Returns the place where groups with a memory controller can be made.
fn controller() -> Result<(PathBuf, Files)> {
    let version_1 = Path::new(MOUNT).join("memory");
    if version_1.join(VERSION_1.limit).exists() {
        return Ok((version_1, VERSION_1));
    }
    let root = PathBuf::from(MOUNT);
    let has_memory = |file: &str| {
        fs::read_to_string(root.join(file))
            .is_ok_and(|names| names.split_ascii_whitespace().any(|name| name == "memory"))
    };
    if !has_memory("cgroup.controllers") {
        return Err("there is no memory cgroup controller here".into());
    }
    if !has_memory("cgroup.subtree_control") {
        fs::write(root.join("cgroup.subtree_control"), "+memory").map_err(|error| {
            format!("cannot enable the memory controller: {error}; run as root")
        })?;
    }
    Ok((root, VERSION_2))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use super::*;

    /// A program that takes more than it may is killed; one that takes less is not. The page cache
    /// counts: reading a file larger than the bound does not, so that the group's peak stays below.
    #[test]
    fn a_bound_binds() {
        let bound = 48 << 20;
        let group = match MemoryLimit::new(bound) {
            Ok(group) => group,
            Err(error) => {
                let _ = writeln!(io::stderr(), "SKIPPED: {error}");
                return;
            }
        };
        let taking = |mib: u64| {
            let script = format!(
                "echo $$ > {}/cgroup.procs && head -c {mib}M /dev/zero | tail -c {mib}M | wc -c",
                group.path().display()
            );
            let output = Command::new("sh")
                .args(["-c", &script])
                .stderr(Stdio::null())
                .output()
                .unwrap();
            String::from_utf8_lossy(&output.stdout).trim() == (mib << 20).to_string()
        };
        assert!(taking(8));
        assert!(!taking(200));
        let path = group.path().to_path_buf();
        drop(group);
        assert!(!path.exists());
    }

    /// Swap would be memory beside the bound.
    #[test]
    fn swap_is_bounded_where_the_kernel_counts_it() {
        let bound = 48 << 20;
        let (Ok(group), Ok((_, files))) = (MemoryLimit::new(bound), controller()) else {
            let _ = writeln!(io::stderr(), "SKIPPED: no memory cgroup");
            return;
        };
        if let Ok(text) = fs::read_to_string(group.path().join(files.swap)) {
            assert_eq!(text.trim(), files.no_swap(bound).to_string());
            assert!(describe().unwrap().ends_with("no swap"));
        }
    }

    /// A second store must not pay for the page cache of a first one.
    #[test]
    fn each_group_is_new() {
        let groups = [MemoryLimit::new(48 << 20), MemoryLimit::new(48 << 20)];
        if let [Ok(one), Ok(other)] = groups {
            assert_ne!(one.path(), other.path());
        }
    }
}

//! The engine on real block devices: loop devices over temporary files.
//!
//! Where the system lets this process have no loop device, a test says so in a line that begins with
//! `SKIPPED`, and passes.

mod support;

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use support::{BUFFER_BYTES, Driver, value_of};
use tempfile::{NamedTempFile, TempDir};
use terrace_node::device::{
    Access, Backend, Device, Medium, NODE_NAME, Wait, open_device, signature,
};
use terrace_node::engine::{Condition, Failure, Node, Worker, create, verify};
use terrace_node::format::layout::NamespaceRequest;
use terrace_node::format::namespace::Domain;
use terrace_node::format::superblock::Superblock;
use terrace_node::{Error, Key};

const DEVICE_BYTES: u64 = 64 << 20;
const CHILD_DEVICE: &str = "TERRACE_NODE_LOOP_CHILD_DEVICE";
const PATIENCE: Duration = Duration::from_secs(10);
/// Sizes of values: in cells, in blocks, and in several pieces.
const SIZES: [usize; 8] = [0, 1, 2048, 2049, 4096, 70_000, 1 << 20, 3_000_000];

/// A loop device over a file of its own.
struct LoopDevice {
    path: PathBuf,
    /// The last close of the device detaches it, so a test that panics or dies leaves none behind.
    holder: File,
    file: NamedTempFile,
}

impl LoopDevice {
    /// Attaches a file of zeros; none if the system refuses.
    fn attach(sector_bytes: u32) -> Option<Self> {
        let file = NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a file");
        file.as_file().set_len(DEVICE_BYTES).expect("a sparse file");
        let sector_bytes = sector_bytes.to_string();
        let attached = run(
            "losetup",
            &["--find", "--show", "--sector-size", &sector_bytes],
            file.path(),
        );
        let path = match attached {
            Ok(path) => PathBuf::from(path.trim()),
            Err(why) => return skipped("no loop device", &why),
        };
        let holder = File::open(&path);
        // A device that is open is detached once it is closed.
        let detached = run("losetup", &["--detach"], &path);
        let holder = match holder {
            Ok(holder) => holder,
            Err(why) => return skipped("the loop device does not open", &why.to_string()),
        };
        detached.expect("a loop device that was attached is ours to detach");
        Some(LoopDevice { path, holder, file })
    }

    fn open(&self) -> Arc<Medium> {
        Arc::new(Medium::open(&self.path, Access::Write).expect("nobody else uses the device"))
    }
}

/// Says on standard error why something is not tested: the test harness hides the macros' output.
fn skipped<T>(what: &str, why: &str) -> Option<T> {
    let line = format!("SKIPPED: {what}: {}\n", why.trim());
    std::io::stderr()
        .write_all(line.as_bytes())
        .expect("stderr");
    None
}

/// Runs a program on a path and returns its output, or the reason why it failed.
fn run(program: &str, arguments: &[&str], path: &Path) -> Result<String, String> {
    let mut command = Command::new(program);
    // Tools of the administrator are not in every user's path.
    let paths = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    command.env("PATH", paths).args(arguments).arg(path);
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{program}: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

fn device(medium: &Arc<Medium>, backend: Backend) -> Box<dyn Device> {
    open_device(Arc::clone(medium), backend, 64).expect("a device")
}

fn create_node(medium: &Arc<Medium>) {
    let half = (DEVICE_BYTES / 4096 - 2) / 2 * 4096;
    let requests = [Domain::PowerSafe, Domain::CrashSafe].map(|domain| NamespaceRequest {
        domain,
        bytes: Some(half),
        ..NamespaceRequest::new(format!("{domain:?}"))
    });
    let superblock = Superblock::new(medium.bytes / 4096, &requests, &mut rand::rng());
    create(
        &mut *device(medium, Backend::Auto),
        &superblock.expect("the device is large enough"),
    )
    .expect("the device can be written");
}

fn open_node(medium: &Arc<Medium>, backend: Backend) -> Driver<Worker> {
    let node = Node::open(&mut *device(medium, backend)).expect("the node opens");
    let worker = Worker::new(&node, device(medium, backend), BUFFER_BYTES);
    Driver::new(worker.expect("a legal budget"))
}

fn key(number: u32) -> Key {
    Key::new(&number.to_be_bytes()).expect("four bytes")
}

fn value(number: u32) -> Vec<u8> {
    value_of(&key(number), 1, SIZES[number as usize % SIZES.len()])
}

fn damage(device: &LoopDevice) -> usize {
    let medium = Arc::new(Medium::open(&device.path, Access::ReadAlone).expect("it opens"));
    let report = verify(&mut *self::device(&medium, Backend::Auto), &mut |_| ());
    report.expect("the node opens").damaged.len()
}

#[test]
fn a_node_on_a_block_device_keeps_its_values() {
    for (sector_bytes, backend) in [(512, Backend::Auto), (4096, Backend::Threads)] {
        let Some(device) = LoopDevice::attach(sector_bytes) else {
            return;
        };
        let medium = device.open();
        assert!(medium.is_block_device);
        assert_eq!(medium.bytes, DEVICE_BYTES);
        assert_eq!(signature(&medium).expect("it can be read"), None);
        create_node(&medium);
        let mut driver = open_node(&medium, backend);
        for (number, nsid) in (0..16).flat_map(|number| [(number, 1), (number, 2)]) {
            driver.put(nsid, key(number), value(number)).expect("room");
            assert_eq!(driver.get(nsid, key(number)), Ok(value(number)));
        }
        driver.delete(1, key(0)).expect("it is there");
        // The loop ends with stores under way.
        let late: Vec<u32> = (100..108).collect();
        for &number in &late {
            driver.store(1, key(number), value(number), Condition::Always);
            driver.step(Wait::No);
        }
        drop(driver);
        drop(medium);
        assert_eq!(damage(&device), 0);

        let mut driver = open_node(&device.open(), backend);
        for (number, nsid) in (0..16).flat_map(|number| [(number, 1), (number, 2)]) {
            let expected = match (nsid, number) {
                (1, 0) => Err(Failure::NotFound),
                _ => Ok(value(number)),
            };
            assert_eq!(driver.get(nsid, key(number)), expected, "{nsid} {number}");
        }
        for number in late {
            let found = driver.get(1, key(number));
            let is_whole = found == Ok(value(number)) || found == Err(Failure::NotFound);
            assert!(is_whole, "{number} is neither whole nor absent");
        }
    }
}

/// The child's part: stores one value after another, and tells of each, until it is killed.
#[test]
#[ignore = "the child process of another test"]
fn child() {
    let Ok(path) = std::env::var(CHILD_DEVICE) else {
        return;
    };
    let medium = Arc::new(Medium::open(path, Access::Write).unwrap());
    let mut pipe = File::from(std::io::stdout().as_fd().try_clone_to_owned().unwrap());
    pipe.write_all(b"\n").unwrap();
    let mut driver = open_node(&medium, Backend::Auto);
    for number in 0_u32.. {
        // The node is never full: 64 keys have at most half of each namespace.
        let nsid = number % 2 + 1;
        let key = key(number % 64);
        driver
            .put(nsid, key, value_of(&key, number.into(), 40_000))
            .unwrap();
        pipe.write_all(format!("stored {number}\n").as_bytes())
            .unwrap();
    }
}

#[test]
fn a_killed_node_on_a_block_device_recovers() {
    let Some(device) = LoopDevice::attach(512) else {
        return;
    };
    create_node(&device.open());
    for wanted in [40, 150] {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["child", "--exact", "--ignored", "--nocapture"])
            .env(CHILD_DEVICE, &device.path)
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program starts again");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe"))
            .lines()
            .map_while(Result::ok)
            .filter_map(|line| line.strip_prefix("stored ")?.parse::<u32>().ok());
        let mut last = lines.by_ref().take(wanted).last();
        child.kill().expect("it is ours");
        let status = child.wait().expect("it is ours");
        assert_eq!(status.code(), None, "the child ended of itself");
        last = lines.last().or(last);
        let last = last.expect("the child has stored values");

        assert_eq!(damage(&device), 0);
        let mut driver = open_node(&device.open(), Backend::Auto);
        for number in last.saturating_sub(63)..=last {
            let key = key(number % 64);
            let found = driver
                .get(number % 2 + 1, key)
                .expect("it was acknowledged");
            // The store behind the last reported one may have overwritten the oldest key.
            let versions = [number, last + 1].map(|each| value_of(&key, each.into(), 40_000));
            assert!(versions.contains(&found), "{number} of {last}");
        }
    }
}

#[test]
fn a_device_that_holds_something_is_recognised() {
    let makers: [(&str, &[&str], &str); 4] = [
        ("mkfs.ext4", &["-q", "-F"], "an ext4 file system"),
        ("mkfs.xfs", &["-q", "-f"], "an XFS file system"),
        ("mkfs.btrfs", &["-q", "-f"], "a btrfs file system"),
        ("mkswap", &[], "swap space"),
    ];
    for (maker, arguments, name) in makers {
        let Some(device) = LoopDevice::attach(512) else {
            return;
        };
        match run(maker, arguments, &device.path) {
            Ok(_) => assert_eq!(
                signature(&device.open())
                    .expect("it can be read")
                    .as_deref(),
                Some(name)
            ),
            Err(why) => drop(skipped::<()>(name, &why)),
        }
    }
    let Some(device) = LoopDevice::attach(512) else {
        return;
    };
    create_node(&device.open());
    let found = signature(&device.open()).expect("it can be read");
    assert_eq!(found.as_deref(), Some(NODE_NAME));
}

#[test]
fn a_device_in_use_is_refused() {
    let Some(device) = LoopDevice::attach(512) else {
        return;
    };
    let is_refused = || {
        [Access::Write, Access::ReadAlone]
            .into_iter()
            .all(|access| {
                let opened = Medium::open(&device.path, access);
                matches!(opened, Err(Error::Occupied { .. }))
            })
    };
    assert!(!is_refused());
    let node = device.open();
    assert!(is_refused(), "a node has it");
    Medium::open(&device.path, Access::Read).expect("a reader without a claim");
    drop(node);
    let claim = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_EXCL)
        .open(&device.path);
    assert!(is_refused(), "another process has claimed it");
    drop(claim);
    assert!(!is_refused());
    if let Some(mounted) = Mount::of(&device) {
        assert!(
            is_refused(),
            "it is mounted at {}",
            mounted.0.path().display()
        );
    }
    assert!(!is_refused());
}

/// An ext4 file system that is mounted for as long as this lives.
struct Mount(TempDir);

impl Mount {
    fn of(device: &LoopDevice) -> Option<Self> {
        let directory = tempfile::tempdir().expect("a directory");
        let made = run("mkfs.ext4", &["-q", "-F"], &device.path);
        let path = device.path.to_str().expect("ASCII");
        let mounted = made.and_then(|_| run("mount", &["-t", "ext4", path], directory.path()));
        match mounted {
            Ok(_) => Some(Mount(directory)),
            Err(why) => skipped("no mounted device", &why),
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if let Err(why) = run("umount", &[], self.0.path()) {
            eprintln!("{} stays mounted: {why}", self.0.path().display());
        }
    }
}

#[test]
fn a_loop_device_is_detached_when_its_test_ends() {
    let Some(device) = LoopDevice::attach(512) else {
        return;
    };
    let LoopDevice { path, holder, file } = device;
    let is_attached = || {
        let devices = run("losetup", &["--associated"], file.path());
        !devices.expect("losetup works").is_empty()
    };
    assert!(is_attached());
    drop(holder);
    // The system may look at a closed device, and holds it meanwhile.
    let begun = Instant::now();
    while is_attached() {
        let waited = begun.elapsed();
        assert!(waited < PATIENCE, "{} stays attached", path.display());
        std::thread::sleep(PATIENCE / 100);
    }
}

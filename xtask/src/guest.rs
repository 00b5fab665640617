//! Tests that need a kernel of their own, in an emulated guest: `guest/` makes and boots it. It needs
//! qemu, a few Debian packages and, once, the network.

mod btrfs;
mod image;
mod machine;
mod node;

use std::path::{Path, PathBuf};
use std::process::Command;

use self::image::Kernel;
use self::machine::Machine;
use self::node::Node;
use crate::Outcome;
use crate::process::succeeds;

/// The guest prints this, and a node is killed and started again.
const PLEASE_RESTART: &str = "guest: please kill and restart the node";
/// The restarts that the guest asks for.
const RESTARTS: usize = 2;

/// Runs all parts. One that failed does not stop the others.
pub fn run(root: &Path) -> Outcome {
    Outcome::of_parts([dax(root), btrfs(root), nvme(root)])
}

/// Tests real persistent-memory mappings: `crates/terrace/tests/dax.rs`, on memory that is a DAX
/// device.
pub fn dax(root: &Path) -> Outcome {
    let directory = directory(root);
    if let Err(outcome) = prepare_test(root, &directory, "dax", "dax.sh") {
        return outcome;
    }
    Machine::new(root, &directory, "dax.sh").run()
}

/// Tests full disks of btrfs: `crates/terrace/tests/full_disk.rs`, on a kernel that may lock up.
pub fn btrfs(root: &Path) -> Outcome {
    let directory = directory(root);
    let made =
        btrfs::ready().and_then(|()| prepare_test(root, &directory, "full_disk", "btrfs.sh"));
    match made {
        Ok(()) => btrfs::run(root, &directory),
        Err(outcome) => outcome,
    }
}

fn directory(root: &Path) -> PathBuf {
    root.join("target/guest")
}

/// Prepares a guest with one of the engine's tests and the script that runs it.
fn prepare_test(root: &Path, directory: &Path, test: &str, script: &str) -> Result<(), Outcome> {
    ready()?;
    // The guest without the test first: a test that cannot run need not be built.
    image::prepare(root, directory, Kernel::Usual, &[])?;
    let name = format!("{test}-test");
    let program = image::test_program(root, directory, test, &name)?;
    let programs = [root.join("guest").join(script), program];
    image::prepare(root, directory, Kernel::Usual, &programs)
}

/// Tests a node on this machine and the guest's kernel: `crates/nvmf-passthrough/tests/kernel.rs`,
/// file systems and fio, with restarts of the node; then authentication, which needs a newer
/// kernel.
pub fn nvme(root: &Path) -> Outcome {
    let directory = directory(root);
    let run = || {
        let (terrace, test) = prepare_nvme(root, &directory)?;
        run_nvme(root, &directory, &terrace)?;
        match authenticate(root, &directory, &terrace, &test) {
            Err(Outcome::Skipped(why)) => {
                Ok(Outcome::PassedInPart(format!("authentication: {why}")))
            }
            other => other.map(|()| Outcome::Passed),
        }
    };
    run().unwrap_or_else(|outcome| outcome)
}

/// Returns the program `terrace` and the test. The guest has both.
fn prepare_nvme(root: &Path, directory: &Path) -> Result<(PathBuf, PathBuf), Outcome> {
    ready()?;
    image::prepare(root, directory, Kernel::Usual, &[])?;
    image::tools(root, directory)?;
    let test = image::test_program(root, directory, "kernel", "nvme-test")?;
    let terrace = node::program(root)?;
    let copy = image::stripped(&terrace, &directory.join("terrace"))?;
    let scripts = ["nvme_begin.sh", "nvme.sh"].map(|name| root.join("guest").join(name));
    let programs = [&scripts[..], &[test.clone(), copy]].concat();
    image::prepare(root, directory, Kernel::Usual, &programs)?;
    Ok((terrace, test))
}

fn run_nvme(root: &Path, directory: &Path, terrace: &Path) -> Result<(), Outcome> {
    let mut node = Node::start(terrace, &directory.join("node.img"), None)?;
    let machine = Machine::new(root, directory, "nvme.sh");
    let mut restarts = 0;
    machine.watch(&node.words(), |line| {
        if line == PLEASE_RESTART {
            restarts += 1;
            node.restart()?;
        }
        Ok(())
    })?;
    if restarts != RESTARTS {
        let what = format!("the guest asked for {restarts} restarts, not {RESTARTS}");
        return Err(Outcome::Failed(what));
    }
    node.stop()
}

/// Tests DH-HMAC-CHAP with the guest's kernel.
fn authenticate(root: &Path, directory: &Path, terrace: &Path, test: &Path) -> Result<(), Outcome> {
    let newer = directory.join("newer");
    let secrets = root.join("guest/secrets");
    let mut programs = ["nvme_begin.sh", "auth.sh"]
        .map(|name| root.join("guest").join(name))
        .to_vec();
    programs.extend([secrets.clone(), test.to_owned()]);
    image::prepare(root, &newer, Kernel::Newer, &programs)?;
    let tools = newer.join("tools.ext4");
    let _ = std::fs::remove_file(&tools);
    let linked = std::os::unix::fs::symlink(directory.join("tools.ext4"), &tools);
    linked.map_err(|error| Outcome::Failed(format!("{}: {error}", tools.display())))?;
    let node = Node::start(terrace, &newer.join("node.img"), Some(&secrets))?;
    let machine = Machine::new(root, &newer, "auth.sh");
    machine.watch(&node.words(), |_| Ok(()))?;
    node.stop()
}

/// Returns the reason why a guest cannot run here.
fn ready() -> Result<(), Outcome> {
    if !cfg!(target_arch = "x86_64") {
        return Err(Outcome::Skipped("the guest is an x86-64 machine".into()));
    }
    if !succeeds(Command::new("qemu-system-x86_64").arg("--version")) {
        let why = "qemu-system-x86_64 is not installed (package qemu-system-x86)";
        return Err(Outcome::Skipped(why.into()));
    }
    Ok(())
}

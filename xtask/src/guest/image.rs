//! The guest's kernel, file system and programs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Outcome;
use crate::process::{cargo, show};

/// The scripts say by this that something is not installed or cannot be fetched.
const MISSING: i32 = 3;

/// The kernel of a guest.
#[derive(Clone, Copy)]
pub enum Kernel {
    /// That of this release of Debian.
    Usual,
    /// A newer one, of the release's backports.
    Newer,
}

/// Makes kernel and file system, with `programs`.
pub fn prepare(
    root: &Path,
    directory: &Path,
    kernel: Kernel,
    programs: &[PathBuf],
) -> Result<(), Outcome> {
    let mut command = Command::new(root.join("guest/prepare.sh"));
    if let Kernel::Newer = kernel {
        command.env("GUEST_KERNELS", "backports");
    }
    script(command.arg(directory).args(programs), "guest/prepare.sh")
}

/// Makes the disk with programs that are not ours.
pub fn tools(root: &Path, directory: &Path) -> Result<(), Outcome> {
    let mut command = Command::new(root.join("guest/tools.sh"));
    script(command.arg(directory), "guest/tools.sh")
}

fn script(command: &mut Command, name: &str) -> Result<(), Outcome> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Outcome::Failed(format!("{name}: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    print!("{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8_lossy(&output.stdout);
    let why = said.lines().last().unwrap_or("it did not say why");
    Err(match output.status.code() {
        Some(MISSING) => Outcome::Skipped(why.to_owned()),
        _ => Outcome::Failed(format!("{name} ({}): {why}", output.status)),
    })
}

/// Copies a program without its debug information, which would fill the guest's memory.
pub fn stripped(program: &Path, copy: &Path) -> Result<PathBuf, Outcome> {
    let mut strip = Command::new("strip");
    match show(strip.arg("-o").arg(copy).arg(program)) {
        Outcome::Passed => Ok(copy.to_owned()),
        other => Err(other),
    }
}

/// Builds a test, and copies it under a name of its own.
pub fn test_program(
    root: &Path,
    directory: &Path,
    test: &str,
    name: &str,
) -> Result<PathBuf, Outcome> {
    let failed = |what: String| Outcome::Failed(what);
    let output = cargo(root)
        .args([
            "test",
            "--workspace",
            "--locked",
            "--no-run",
            "--test",
            test,
        ])
        .arg("--message-format=json-render-diagnostics")
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| failed(format!("cargo: {error}")))?;
    if !output.status.success() {
        return Err(failed(format!("the test {test} does not build")));
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let built = messages
        .rsplit_once("\"executable\":\"")
        .and_then(|(_, rest)| rest.split('"').next())
        .ok_or_else(|| failed("cargo does not say what it has built".into()))?;
    stripped(Path::new(built), &directory.join(name))
}

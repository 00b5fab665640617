//! Running other programs, shown and timed.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::Outcome;

/// The cargo that runs this program, in a directory.
pub fn cargo(directory: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(directory);
    command
}

/// Runs a command with its output on ours, preceded by the command line itself.
pub fn show(command: &mut Command) -> Outcome {
    println!("$ {}", line(command));
    match command.stdin(Stdio::null()).status() {
        Ok(status) if status.success() => Outcome::Passed,
        Ok(status) => Outcome::Failed(format!("{} ({status})", line(command))),
        Err(error) => Outcome::Failed(format!("{}: {error}", line(command))),
    }
}

/// Whether a command can be run and succeeds; its output is dropped.
pub fn succeeds(command: &mut Command) -> bool {
    let quiet = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// What a command printed on both streams, and how it ended (`None`: it ran past its time).
pub struct Captured {
    pub output: String,
    pub status: Option<ExitStatus>,
}

/// Runs a command for at most `limit`. A mutant may hang, and so may the children of its test:
/// the command gets a process group of its own, which is killed as a whole.
pub fn capture(command: &mut Command, limit: Duration) -> std::io::Result<Captured> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()?;
    let readers: Vec<_> = [
        child.stdout.take().map(collect),
        child.stderr.take().map(collect),
    ]
    .into_iter()
    .flatten()
    .collect();

    let deadline = Instant::now() + limit;
    let mut status = child.try_wait()?;
    while status.is_none() && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(20));
        status = child.try_wait()?;
    }
    if status.is_none() {
        let group = format!("-{}", child.id());
        Command::new("kill")
            .args(["-KILL", "--", &group])
            .status()?;
        child.wait()?;
    }
    let output = readers.into_iter().filter_map(|reader| reader.join().ok());
    Ok(Captured {
        output: output.collect(),
        status,
    })
}

fn collect(mut pipe: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // A pipe that breaks has told what it could.
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn line(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str());
    let settings = command
        .get_envs()
        .filter_map(|(name, value)| Some((name, value?)))
        .map(|(name, value)| format!("{}={:?}", name.to_string_lossy(), value));
    let words = std::iter::once(name)
        .chain(command.get_args())
        .map(|word| word.to_string_lossy().into_owned());
    settings.chain(words).collect::<Vec<_>>().join(" ")
}

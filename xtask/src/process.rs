//! Running other programs, shown and timed.

use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use crate::Outcome;

/// Returns the cargo that runs this program, in a directory.
pub fn cargo(directory: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(directory);
    command
}

/// Runs a command with its output on ours, preceded by the command line itself.
pub fn show(command: &mut Command) -> Outcome {
    println!("$ {}", line(command));
    let ended = command.stdin(Stdio::null()).status();
    outcome(command, ended)
}

fn outcome(command: &Command, ended: io::Result<ExitStatus>) -> Outcome {
    match ended {
        Ok(status) if status.success() => Outcome::Passed,
        Ok(status) => Outcome::Failed(format!("{} ({status})", line(command))),
        Err(error) => Outcome::Failed(format!("{}: {error}", line(command))),
    }
}

/// Runs a command like [`show`], and gives `see` both its streams in one, in the order of its writes.
pub fn show_to(command: &mut Command, mut see: impl FnMut(&[u8])) -> Outcome {
    println!("$ {}", line(command));
    let ended = read_from(command, |piece| {
        see(piece);
        let mut stdout = io::stdout();
        stdout.write_all(piece)?;
        stdout.flush()
    });
    outcome(command, ended)
}

/// Runs a command like [`show_to`] beside others: its output is shown in one piece when it ends.
pub fn show_at_end(command: &mut Command, mut see: impl FnMut(&[u8])) -> Outcome {
    let mut output = format!("$ {}\n", line(command)).into_bytes();
    let ended = read_from(command, |piece| {
        see(piece);
        output.extend_from_slice(piece);
        Ok(())
    });
    let shown = io::stdout().lock().write_all(&output);
    outcome(command, shown.and(ended))
}

/// Runs a command, and gives `take` both its streams in one.
fn read_from(
    command: &mut Command,
    mut take: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<ExitStatus> {
    let (mut reader, writer) = io::pipe()?;
    command
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer);
    let mut child = command.spawn()?;
    // The pipe ends with its last writer, of which the command would be one.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let (sender, pieces) = mpsc::channel();
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = reader.read(&mut buffer) {
            let piece = buffer.get(..length).unwrap_or_default();
            if sender.send(piece.to_vec()).is_err() {
                break;
            }
        }
    });
    loop {
        match pieces.recv_timeout(Duration::from_millis(100)) {
            Ok(piece) => take(&piece)?,
            Err(RecvTimeoutError::Disconnected) => return child.wait(),
            // A process that the command leaves behind may hold the pipe for long.
            Err(RecvTimeoutError::Timeout) => {
                if let Some(status) = child.try_wait()? {
                    return Ok(status);
                }
            }
        }
    }
}

/// Returns the results of two jobs that run beside each other.
pub fn beside<A, B: Send>(first: impl FnOnce() -> A, second: impl FnOnce() -> B + Send) -> (A, B) {
    thread::scope(|scope| {
        let second = scope.spawn(second);
        let first = first();
        match second.join() {
            Ok(second) => (first, second),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Returns true if a command can be run and succeeds; its output is dropped.
pub fn succeeds(command: &mut Command) -> bool {
    let quiet = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// Output of a command on both streams, and its status (`None`: it ran past its time).
pub struct Captured {
    pub output: String,
    pub status: Option<ExitStatus>,
}

/// Runs a command for at most `limit`. A mutant may hang, and so may the children of its test:
/// the command gets a process group of its own, which is killed as a whole.
pub fn capture(command: &mut Command, limit: Duration) -> io::Result<Captured> {
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
        // A pipe that breaks has given all that it had.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_streams_are_seen_in_the_order_of_their_writes() {
        let mut seen = Vec::new();
        let script = "echo one; echo two >&2; echo three; exit 3";
        let outcome = show_to(Command::new("sh").args(["-c", script]), |piece| {
            seen.extend_from_slice(piece);
        });
        assert_eq!(String::from_utf8(seen).unwrap(), "one\ntwo\nthree\n");
        assert!(matches!(outcome, Outcome::Failed(what) if what.contains("exit status: 3")));
    }

    #[test]
    fn a_process_left_behind_keeps_nobody_waiting() {
        let begun = Instant::now();
        let outcome = show_to(Command::new("sh").args(["-c", "sleep 30 & exit 0"]), |_| {});
        assert!(matches!(outcome, Outcome::Passed));
        assert!(begun.elapsed() < Duration::from_secs(30));
    }
}

//! Lines for operators: on standard error, with the time, or for journald with a priority.
//!
//! A thread of its own writes, so that no event loop waits for a reader. Each kind of line has a rate,
//! so that hostile hosts fill no disk. Names that come from hosts are quoted and escaped.

use std::fmt::Display;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use terrace_node::engine::Failure;
use terrace_node::{Escaped, thread_start};
use terrace_nvmf::target::{Ended, Notice, Observer, Party};
use terrace_nvmf::wire::Status;

/// Lines that wait for the writer; more are left out.
const WAITING: usize = 256;
/// The time that the last lines get when the log ends.
const LAST_TIME: Duration = Duration::from_secs(1);

/// The kinds of lines, each with a rate of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Start and end of the server.
    Life,
    /// Hosts that come and go.
    Host,
    /// Hosts that are refused.
    Refusal,
    /// Connections that violate the protocol, or do nothing.
    Connection,
    /// Hosts that cannot prove their names.
    Authentication,
    /// Values that cannot be read or written.
    Device,
    /// The end of all changes.
    ReadOnly,
}

const KINDS: usize = Kind::ReadOnly as usize + 1;

impl Kind {
    /// Returns the lines that may come at once, and the time after which there may be another.
    fn rate(self) -> (f64, Duration) {
        match self {
            Kind::Life => (1000.0, Duration::from_millis(1)),
            Kind::Host => (100.0, Duration::from_millis(500)),
            Kind::Refusal | Kind::Connection | Kind::Authentication | Kind::Device => {
                (20.0, Duration::from_secs(1))
            }
            Kind::ReadOnly => (1.0, Duration::from_secs(600)),
        }
    }
}

/// The weight of a line, as syslog numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weight {
    Error = 3,
    Warning = 4,
    Info = 6,
}

/// Lines that may come now.
struct Bucket {
    tokens: f64,
    since: Instant,
    left_out: u64,
}

/// Where lines go. A copy is the same log.
#[derive(Clone, Default)]
pub struct Log(Option<Arc<Inner>>);

struct Inner {
    /// None once the log ends.
    lines: Option<SyncSender<String>>,
    /// Tells of the writer's end.
    ended: Mutex<Receiver<()>>,
    buckets: Mutex<[Bucket; KINDS]>,
    is_for_journal: bool,
}

impl Log {
    /// Returns a log that nobody reads.
    pub fn none() -> Self {
        Log(None)
    }

    /// Returns a log on standard error. If that is journald's, lines begin with priorities and have no
    /// time, for journald has its own.
    pub fn standard_error() -> Self {
        Log::to(std::io::stderr(), is_journal())
    }

    fn to(mut output: impl Write + Send + 'static, is_for_journal: bool) -> Self {
        let (lines, waiting) = sync_channel::<String>(WAITING);
        let (end, ended) = channel();
        let write = move || {
            for line in waiting {
                // Nobody hears of a log that cannot be written.
                let _ = output.write_all(line.as_bytes());
            }
            let _ = end.send(());
        };
        if thread_start::start("terrace-log", write).is_err() {
            return Log::none();
        }
        let now = Instant::now();
        Log(Some(Arc::new(Inner {
            lines: Some(lines),
            ended: Mutex::new(ended),
            buckets: Mutex::new(std::array::from_fn(|_| Bucket {
                tokens: f64::INFINITY,
                since: now,
                left_out: 0,
            })),
            is_for_journal,
        })))
    }

    /// Writes a line on the life of the server.
    pub(crate) fn life(&self, what: impl Display) {
        self.line(Kind::Life, Weight::Info, what);
    }

    /// Writes a line on the end of the server by a failure.
    pub(crate) fn fatal(&self, what: impl Display) {
        self.line(Kind::Life, Weight::Error, what);
    }

    /// Writes a line on a command that the device failed.
    pub(crate) fn failure(&self, failure: &Failure) {
        match failure {
            Failure::Poisoned(why) => self.line(
                Kind::ReadOnly,
                Weight::Error,
                format_args!("changes are refused until the server is started again, since {why}"),
            ),
            Failure::WriteFailed(_) | Failure::Unrecovered(_) => {
                self.line(Kind::Device, Weight::Error, failure);
            }
            _ => {}
        }
    }

    fn line(&self, kind: Kind, weight: Weight, what: impl Display) {
        let Some(inner) = &self.0 else {
            return;
        };
        let Some(left_out) = inner.admit(kind, Instant::now()) else {
            return;
        };
        if left_out > 0 {
            let lines = format!("{left_out} lines like the next one were left out");
            inner.write(weight, &lines);
        }
        inner.write(weight, &what.to_string());
    }
}

impl Inner {
    /// Takes a line in, and returns how many of its kind were left out before. None leaves it out.
    fn admit(&self, kind: Kind, now: Instant) -> Option<u64> {
        let (most, interval) = kind.rate();
        let bucket = &mut self.buckets.lock()[kind as usize];
        let passed = now.saturating_duration_since(bucket.since);
        bucket.since = now;
        bucket.tokens += passed.as_secs_f64() / interval.as_secs_f64();
        bucket.tokens = bucket.tokens.min(most);
        if bucket.tokens < 1.0 {
            bucket.left_out += 1;
            return None;
        }
        bucket.tokens -= 1.0;
        Some(std::mem::take(&mut bucket.left_out))
    }

    fn write(&self, weight: Weight, what: &str) {
        // One line is one message.
        let what = Escaped::message(what);
        let line = match self.is_for_journal {
            true => format!("<{}>{what}\n", weight as u8),
            false => {
                let time = humantime::format_rfc3339_millis(SystemTime::now());
                let word = match weight {
                    Weight::Error => "error: ",
                    Weight::Warning => "warning: ",
                    Weight::Info => "",
                };
                format!("{time} {word}{what}\n")
            }
        };
        if let Some(lines) = &self.lines {
            // A reader that is slower than the rates misses lines; nobody waits for it.
            let _ = lines.try_send(line);
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.lines = None;
        // A reader that does not read keeps nobody.
        let _ = self.ended.lock().recv_timeout(LAST_TIME);
    }
}

/// Returns whether standard error is the journal's.
fn is_journal() -> bool {
    let named = std::env::var("JOURNAL_STREAM").unwrap_or_default();
    let own = std::fs::metadata("/proc/self/fd/2");
    own.is_ok_and(|own| named == format!("{}:{}", own.dev(), own.ino()))
}

impl Observer for Log {
    fn notice(&self, party: &Party<'_>, notice: Notice<'_>) {
        let peer = party.peer;
        let host = match party.host {
            // Quoted, with escapes of all that does not print.
            Some(host) => format!("host {host:?} from {peer}"),
            None => format!("a connection from {peer}"),
        };
        match notice {
            Notice::TooMany => {
                let what = format_args!("{host} refused: there are too many connections");
                self.line(Kind::Connection, Weight::Warning, what);
            }
            Notice::Refused(status) => self.refused(party, &host, status),
            Notice::Connected { is_authenticated } => {
                let proof = match is_authenticated {
                    true => "authenticated",
                    false => "not authenticated",
                };
                self.line(
                    Kind::Host,
                    Weight::Info,
                    format_args!("{host} connected, {proof}"),
                );
            }
            Notice::Disconnected { reason, connected } => {
                let time = humantime::format_duration(Duration::from_secs(connected.as_secs()));
                let reason = words(reason);
                let what = format_args!("{host} disconnected after {time}: {reason}");
                self.line(Kind::Host, Weight::Info, what);
            }
            Notice::Ended(reason @ Ended::Unauthenticated(_)) => {
                let reason = words(reason);
                let what = format_args!("{host}, {}: {reason}", queue(party));
                self.line(Kind::Authentication, Weight::Warning, what);
            }
            Notice::Ended(reason) => {
                let reason = words(reason);
                let what = format_args!("{host}, {}, ended: {reason}", queue(party));
                self.line(Kind::Connection, Weight::Warning, what);
            }
        }
    }
}

impl Log {
    fn refused(&self, party: &Party<'_>, host: &str, status: Status) {
        let subsystem = party.subsystem.unwrap_or_default();
        let what = format_args!("{host} refused by subsystem {subsystem:?}: {status}");
        self.line(Kind::Refusal, Weight::Warning, what);
    }
}

/// Returns the queue that a connection is, or is not yet.
fn queue(party: &Party<'_>) -> String {
    match party.host {
        Some(_) => format!("queue {}", party.queue),
        None => "no queue yet".to_owned(),
    }
}

fn words(reason: &Ended) -> String {
    match reason {
        Ended::ByHost => "the host closed the connection".to_owned(),
        Ended::Violation(what) => format!("the host violated the protocol: {what}"),
        Ended::Silence => "the host was silent or slow for too long".to_owned(),
        Ended::NoRoom => "no memory for a queue, or too many controllers".to_owned(),
        Ended::QueueTaken => "another connection is the same queue".to_owned(),
        Ended::ControllerGone => "its controller is gone".to_owned(),
        Ended::Stopping => "the server stops".to_owned(),
        Ended::Unauthenticated(failure) => format!("authentication failed: {failure}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// Returns the last lines of a log.
    fn written(is_for_journal: bool, work: impl FnOnce(&Log)) -> Vec<String> {
        let output = Shared::default();
        let log = Log::to(output.clone(), is_for_journal);
        work(&log);
        drop(log);
        let bytes = output.0.lock().clone();
        let text = String::from_utf8(bytes).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    fn party(host: &str) -> Party<'_> {
        Party {
            peer: "192.0.2.9:7".parse().unwrap(),
            host: Some(host),
            subsystem: Some("nqn.s"),
            queue: 0,
        }
    }

    #[test]
    fn lines_have_a_time_or_a_priority() {
        let work = |log: &Log| log.notice(&party("nqn.h"), Notice::TooMany);
        let lines = written(true, work);
        let expected = "<4>host \"nqn.h\" from 192.0.2.9:7 refused: there are too many connections";
        assert_eq!(lines, [expected]);
        let lines = written(false, work);
        let (time, rest) = lines[0].split_once(' ').unwrap();
        assert!(humantime::parse_rfc3339(time).is_ok(), "{time}");
        assert!(rest.starts_with("warning: host "), "{rest}");
    }

    #[test]
    fn hostile_names_stay_within_their_quotes_and_their_line() {
        let hostile = "a\"\n<0>root logged in\u{1b}[2J\u{202e}\u{7}";
        let lines = written(true, |log| {
            log.notice(
                &party(hostile),
                Notice::Refused(Status::CONNECT_INVALID_HOST),
            );
            let is_authenticated = true;
            log.notice(&party("nqn.h"), Notice::Connected { is_authenticated });
        });
        let expected = "<4>host \"a\\\"\\n<0>root logged in\\u{1b}[2J\\u{202e}\\u{7}\" from \
                        192.0.2.9:7 refused by subsystem \"nqn.s\": connect: the host is not \
                        allowed (184h)";
        assert_eq!(lines[0], expected);
        assert_eq!(
            lines[1],
            "<6>host \"nqn.h\" from 192.0.2.9:7 connected, authenticated"
        );
        assert_eq!(lines.len(), 2);
    }

    #[test]
    fn a_flood_leaves_lines_out_and_is_told_of() {
        let log = Log::to(Shared::default(), true);
        let inner = log.0.as_ref().unwrap();
        let start = Instant::now();
        let admitted = (0..1000)
            .filter(|_| inner.admit(Kind::Refusal, start).is_some())
            .count();
        assert_eq!(admitted, 20);
        // Others have their own rates.
        assert_eq!(inner.admit(Kind::Host, start), Some(0));
        let later = start + Duration::from_secs(1);
        assert_eq!(inner.admit(Kind::Refusal, later), Some(980));
        assert_eq!(inner.admit(Kind::Refusal, later), None);
    }

    #[test]
    fn a_node_that_is_read_only_says_so_once() {
        let lines = written(true, |log| {
            for _ in 0..5 {
                log.failure(&Failure::Poisoned("a flush failed".to_owned()));
                log.failure(&Failure::NotFound);
            }
        });
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].starts_with("<3>changes are refused"), "{lines:?}");
    }
}

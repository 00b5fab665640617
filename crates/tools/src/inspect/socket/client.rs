//! The client: one connection for each request. It waits for answers as long as the owner lives: a
//! merge may take long.
//!
//! An owner that ends hangs up, unless a child that it forked lives on. The child has a copy of the
//! socket, and of each connection, and serves none of them. So a client also watches the process
//! that listened. It cannot if that process is in a namespace of processes that its own does not
//! see.

use std::io::{BufRead, BufReader, Read, Write};
use std::ops::Bound;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf, absolute};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::process::{PidfdFlags, pidfd_open};
use serde::de::DeserializeOwned;

use terrace::offline::files::SOCKET;
use terrace::{Error, LevelsReport, Result, SequenceNumber, Statistics, TierOptions};
use terrace_lsm::key::MAX_KEY_BYTES;
use terrace_lsm::levels::Bounds;
use terrace_storage::Escaped;

use super::address;
use super::administration::{
    Administration, Done, Outcome, check_name, check_path, check_tier_name,
};
use super::protocol::{
    Answer, EventRequest, Line, MAX_REQUEST_BYTES, Request, VERSION, VersionOf, request_line,
};
use crate::explain::{Description, Explanation};
use crate::inspect::tiers::KeyspacePlacement;

/// Maximum length of an owner's line, in bytes; a longer one is none.
const MAX_ANSWER_BYTES: u64 = 1 << 30;

/// Asks the process that owns a store for the store's contents and work, in numbers.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("store");
/// use terrace::Options;
/// use terrace_tools::inspect;
///
/// let db = inspect::open(&path, Options::default())?;
/// db.put(b"key", b"value")?;
///
/// // Elsewhere, in another process:
/// assert_eq!(inspect::statistics(&path)?.sequences.visible, 1);
/// # Ok::<(), terrace::Error>(())
/// ```
///
/// # Errors
/// [`Error::NoAnswer`] if no owner answers; [`Error::Owner`] if the owner does not understand.
pub fn statistics(store: &Path) -> Result<Statistics> {
    match ask_once(store, &Request::Statistics)? {
        Answer::Statistics(statistics) => Ok(*statistics),
        other => Err(unexpected(&other)),
    }
}

/// Asks the process that owns a store for every table in its place.
///
/// # Errors
/// As [`statistics`].
pub fn levels(store: &Path) -> Result<LevelsReport> {
    match ask_once(store, &Request::Levels)? {
        Answer::Levels(levels) => Ok(levels),
        other => Err(unexpected(&other)),
    }
}

/// Explains the next merge of a store that another process owns, by asking it.
///
/// # Errors
/// As [`statistics`].
pub fn explain_compaction(store: &Path) -> Result<Explanation> {
    match ask_once(store, &Request::Explanation)? {
        Answer::Explanation(explanation) => Ok(*explanation),
        other => Err(unexpected(&other)),
    }
}

/// Asks the process that owns a store for the levels of a keyspace, with all that its policy goes
/// by. Without a name it is the default keyspace.
///
/// # Errors
/// [`Error::NoKeyspace`]; [`Error::InvalidArgument`] for a name that no keyspace can have, or for
/// levels that are too many to be described; otherwise as [`statistics`].
pub fn describe_compaction(store: &Path, keyspace: Option<&str>) -> Result<Description> {
    keyspace
        .map_or(Ok(()), check_name)
        .map_err(Error::InvalidArgument)?;
    let mut answers = ask(store, &Request::Description(keyspace.map(str::to_owned)))?;
    let line = answers.read_line()?.ok_or_else(hung_up)?;
    match parse_line(&line)? {
        Answer::Description(text) => Description::from_toml(&text),
        Answer::Error(_) => Err(refusal(&line)),
        other => Err(unexpected(&other)),
    }
}

/// Asks the process that owns a store for the tables of a keyspace, each with the reason for its tier.
/// Without a name it is for those of all keyspaces.
///
/// # Errors
/// [`Error::NoKeyspace`]; [`Error::InvalidArgument`] for a name that no keyspace can have; otherwise as
/// [`statistics`].
pub fn placed_tables(store: &Path, keyspace: Option<&str>) -> Result<Vec<KeyspacePlacement>> {
    keyspace
        .map_or(Ok(()), check_name)
        .map_err(Error::InvalidArgument)?;
    match ask_once(store, &Request::PlacedTables(keyspace.map(str::to_owned)))? {
        Answer::PlacedTables(placed) => Ok(placed),
        other => Err(unexpected(&other)),
    }
}

/// Asks the process that owns a store for its background work. The answers are events, and
/// statistics if they were asked for. They end after the last event, or when the store is closed.
///
/// # Errors
/// As [`statistics`].
pub fn events(store: &Path, wanted: EventRequest) -> Result<Answers> {
    ask(store, &Request::Events(wanted))
}

/// Writes everything acknowledged so far to tables, as [`Db::flush`](terrace::Db::flush) does, in the
/// process that owns the store.
///
/// # Errors
/// As [`statistics`]; [`Error::Owner`], too, for a failure there.
pub fn flush(store: &Path) -> Result<()> {
    administer(store, Administration::Flush).map(|_| ())
}

/// Merges tables in the process that owns the store, which may take long. With a range it merges a
/// keyspace's keys there, as [`Keyspace::compact_range`](terrace::Keyspace::compact_range) does.
/// With `None` it merges until no level of any keyspace is over its target, as
/// [`Db::compact`](terrace::Db::compact) does. Without a name it is the default keyspace. The merge
/// goes on if this process ends meanwhile.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("store");
/// use std::ops::Bound;
/// use terrace::Options;
/// use terrace_tools::inspect;
///
/// let db = inspect::open(&path, Options::default())?;
/// db.put(b"key", b"value")?;
/// db.delete(b"key")?;
///
/// // Elsewhere, in another process:
/// inspect::compact(&path, None, Some((Bound::Unbounded, Bound::Excluded(b"l"))))?;
/// assert_eq!(inspect::statistics(&path)?.sequences.flushed, 2);
/// # Ok::<(), terrace::Error>(())
/// ```
///
/// # Errors
/// [`Error::NoKeyspace`]; [`Error::InvalidArgument`] for a key or a name that no keyspace can have;
/// otherwise as [`flush`].
pub fn compact(store: &Path, keyspace: Option<&str>, range: Option<Bounds<'_>>) -> Result<()> {
    keyspace
        .map_or(Ok(()), check_name)
        .map_err(Error::InvalidArgument)?;
    let owned = |bound: Bound<&[u8]>| bound.map(<[u8]>::to_vec);
    let wanted = Administration::Compact {
        keyspace: keyspace.map(str::to_owned),
        range: range.map(|(lower, upper)| (owned(lower), owned(upper))),
    };
    administer(store, wanted).map(|_| ())
}

/// Makes a store in another directory, as [`Db::checkpoint`](terrace::Db::checkpoint) does, in the
/// process that owns the store. A relative path is one from this process's working directory.
/// Returns the number of the last write that the checkpoint holds.
///
/// # Errors
/// [`Error::InvalidArgument`] if the directory is not empty; otherwise as [`flush`].
pub fn checkpoint(store: &Path, directory: &Path) -> Result<SequenceNumber> {
    let directory = whole_path(directory)?;
    let done = administer(store, Administration::Checkpoint { directory })?;
    done.sequence.ok_or_else(|| {
        Error::Owner("the store's owner does not say what the checkpoint holds".to_owned())
    })
}

/// Returns a path as an owner with another working directory understands it.
fn whole_path(directory: &Path) -> Result<PathBuf> {
    let whole = absolute(directory).map_err(|error| {
        Error::invalid(format!(
            "{} names no directory: {error}",
            Escaped::path(directory)
        ))
    })?;
    check_path(&whole).map_err(Error::InvalidArgument)?;
    Ok(whole)
}

/// Gives a keyspace another name, as [`Db::rename_keyspace`](terrace::Db::rename_keyspace) does, in the
/// process that owns the store. That process goes on with its handles.
///
/// # Errors
/// [`Error::NoKeyspace`]; [`Error::InvalidArgument`] for the default keyspace, or for a name that a
/// keyspace has already or none can have; otherwise as [`flush`].
pub fn rename_keyspace(store: &Path, from: &str, to: &str) -> Result<()> {
    for name in [from, to] {
        check_name(name).map_err(Error::InvalidArgument)?;
    }
    let (from, to) = (from.to_owned(), to.to_owned());
    administer(store, Administration::RenameKeyspace { from, to }).map(|_| ())
}

/// Drops a keyspace, as [`Db::drop_keyspace`](terrace::Db::drop_keyspace) does, in the process that owns
/// the store. That process gets [`Error::NoKeyspace`] where it still uses the keyspace.
///
/// # Errors
/// [`Error::NoKeyspace`]; [`Error::InvalidArgument`] for the default keyspace; otherwise as [`flush`].
pub fn drop_keyspace(store: &Path, name: &str) -> Result<()> {
    check_name(name).map_err(Error::InvalidArgument)?;
    let name = name.to_owned();
    administer(store, Administration::DropKeyspace { name }).map(|_| ())
}

/// Makes a directory a tier of a store, as [`Db::add_tier`](terrace::Db::add_tier) does, in the process
/// that owns the store. A relative path is one from this process's working directory.
///
/// # Errors
/// [`Error::InvalidArgument`] for a name that is taken or that no tier can have, and for a tier without a
/// directory; [`Error::WrongTier`] for a directory that is another's or not empty; otherwise as [`flush`].
pub fn add_tier(store: &Path, tier: &TierOptions) -> Result<()> {
    check_tier_name(&tier.name).map_err(Error::InvalidArgument)?;
    let directory = tier.directory.as_deref().ok_or_else(|| {
        Error::invalid(
            "tiers.directory is unset; a tier that is added needs a directory of its own",
        )
    })?;
    if tier.cache_bytes > 0 {
        return Err(Error::invalid(
            "tiers.cache_bytes is for the options of an opening; add the tier without it, and name it there",
        ));
    }
    let directory = whole_path(directory)?;
    let wanted = TierOptions {
        directory: Some(directory.clone()),
        ..tier.clone()
    };
    let outcome = outcome(store, Administration::AddTier(wanted))?;
    if let Some(detail) = outcome.wrong_tier() {
        return Err(Error::WrongTier {
            store: store.to_path_buf(),
            directory,
            detail: detail.to_owned(),
        });
    }
    outcome.into_result().map(drop)
}

/// Has the tables of a tier go to other tiers, as [`Db::drain_tier`](terrace::Db::drain_tier) does, in the
/// process that owns the store. [`statistics`] tell how many are left.
///
/// # Errors
/// [`Error::InvalidArgument`] for a tier that is not there or that cannot be drained; otherwise as
/// [`flush`].
pub fn drain_tier(store: &Path, name: &str) -> Result<()> {
    check_tier_name(name).map_err(Error::InvalidArgument)?;
    let name = name.to_owned();
    administer(store, Administration::DrainTier { name }).map(drop)
}

/// Takes a tier from a store, as [`tiers::remove`](crate::inspect::tiers::remove) does, in the process that
/// owns the store. Returns the number of tables that are lost.
///
/// # Errors
/// [`Error::InvalidArgument`] for a tier that is not there or that holds files; otherwise as [`flush`].
pub fn remove_tier(store: &Path, name: &str, accept_loss: bool) -> Result<u64> {
    check_tier_name(name).map_err(Error::InvalidArgument)?;
    let name = name.to_owned();
    let done = administer(store, Administration::RemoveTier { name, accept_loss })?;
    Ok(done.lost_tables.unwrap_or(0))
}

fn administer(store: &Path, wanted: Administration) -> Result<Done> {
    outcome(store, wanted)?.into_result()
}

fn outcome(store: &Path, wanted: Administration) -> Result<Outcome> {
    let mut answers = ask(store, &Request::Administration(wanted))?;
    let line = answers.read_line()?.ok_or_else(hung_up)?;
    parse_line(&line)
}

/// The answers of an owner, as they come.
#[derive(Debug)]
pub struct Answers {
    lines: BufReader<UnixStream>,
    /// The process that listened; `None` where it cannot be watched.
    owner: Option<OwnedFd>,
    ended: bool,
}

impl Iterator for Answers {
    type Item = Result<Answer>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let answer = self.read().transpose();
        self.ended = !matches!(answer, Some(Ok(_)));
        answer
    }
}

impl Answers {
    fn read(&mut self) -> Result<Option<Answer>> {
        let Some(line) = self.read_line()? else {
            return Ok(None);
        };
        match parse_line(&line)? {
            Answer::Error(_) => Err(refusal(&line)),
            answer => Ok(Some(answer)),
        }
    }

    fn read_line(&mut self) -> Result<Option<Vec<u8>>> {
        let mut line = Vec::new();
        if self.lines.buffer().is_empty() {
            self.wait()?;
        }
        let mut limited = (&mut self.lines).take(MAX_ANSWER_BYTES);
        limited
            .read_until(b'\n', &mut line)
            .map_err(|error| Error::NoAnswer(format!("the store's owner went silent: {error}")))?;
        Ok((!line.is_empty()).then_some(line))
    }
}

impl Answers {
    /// Waits for the next bytes, or the end, while the owner lives.
    fn wait(&self) -> Result<()> {
        let Some(owner) = &self.owner else {
            return Ok(());
        };
        loop {
            let mut ready = [
                PollFd::new(self.lines.get_ref(), PollFlags::IN),
                PollFd::new(owner, PollFlags::IN),
            ];
            match poll(&mut ready, None) {
                Err(Errno::INTR) => continue,
                // The read gives the error.
                Err(_) => return Ok(()),
                Ok(_) => {}
            }
            let [answers, owner] = ready.map(|polled| polled.revents());
            // Answers that it wrote before it ended count.
            if !answers.is_empty() {
                return Ok(());
            }
            if !owner.is_empty() {
                return Err(ended());
            }
        }
    }
}

/// Opens a descriptor of the process that listens at the other end: it is ready once that has ended.
///
/// # Errors
/// [`Error::NoAnswer`] if it has ended.
fn watched(stream: &UnixStream) -> Result<Option<OwnedFd>> {
    let Ok(owner) = socket_peercred(stream) else {
        return Ok(None);
    };
    match pidfd_open(owner.pid, PidfdFlags::empty()) {
        Ok(owner) => Ok(Some(owner)),
        Err(Errno::SRCH) => Err(ended()),
        // A process that cannot be seen from here, a kernel before 5.3, a container that forbids it.
        Err(_) => Ok(None),
    }
}

fn ended() -> Error {
    Error::NoAnswer(
        "the store's owner has ended, and a process that it started holds its socket; end that \
         process, too, or open the store"
            .to_owned(),
    )
}

fn parse_line<A: DeserializeOwned>(line: &[u8]) -> Result<A> {
    let wrong = |error: serde_json::Error| {
        Error::Owner(format!(
            "the store's owner gave no answer that is known here: {error}"
        ))
    };
    let VersionOf { version } = serde_json::from_slice(line).map_err(wrong)?;
    if version != VERSION {
        return Err(Error::Owner(format!(
            "the store's owner answers in version {version}, version {VERSION} is known here; use \
             the release that it uses"
        )));
    }
    let line: Line<A> = serde_json::from_slice(line).map_err(wrong)?;
    Ok(line.answer)
}

/// Returns the error that an owner reports in a line.
fn refusal(line: &[u8]) -> Error {
    let outcome = parse_line::<Outcome>(line).and_then(Outcome::into_result);
    outcome.err().unwrap_or_else(hung_up)
}

fn ask_once(store: &Path, request: &Request) -> Result<Answer> {
    ask(store, request)?
        .next()
        .unwrap_or_else(|| Err(hung_up()))
}

fn hung_up() -> Error {
    Error::NoAnswer("the store's owner hung up before it answered".to_owned())
}

fn ask(store: &Path, request: &Request) -> Result<Answers> {
    let failed = |error: std::io::Error| {
        let socket = store.join(SOCKET);
        Error::NoAnswer(format!(
            "nobody answers at {}: {error}",
            Escaped::path(&socket)
        ))
    };
    let line = request_line(request);
    // Its end does not count.
    if line.len() > MAX_REQUEST_BYTES + 1 {
        return Err(Error::invalid(format!(
            "a request of {} bytes is too long; keys have at most {MAX_KEY_BYTES} bytes",
            line.len()
        )));
    }
    let mut stream = address::connect(store).map_err(failed)?;
    let owner = watched(&stream)?;
    // An owner with too many clients answers before it is asked, and hangs up.
    let asked = stream.write_all(line.as_bytes());
    match asked {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(failed(error)),
        _ => Ok(Answers {
            lines: BufReader::new(stream),
            owner,
            ended: false,
        }),
    }
}

fn unexpected(answer: &Answer) -> Error {
    let kind = match answer {
        Answer::Statistics(_) => "statistics",
        Answer::Levels(_) => "levels",
        Answer::Explanation(_) => "an explanation",
        Answer::Description(_) => "a description",
        Answer::PlacedTables(_) => "placed tables",
        Answer::Event(_) => "an event",
        Answer::Error(_) => "an error",
    };
    Error::Owner(format!(
        "the store's owner answered with {kind}, which was not asked for"
    ))
}

//! The texts of errors. Names, paths and texts from elsewhere are escaped for a terminal.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use terrace_storage::Escaped;

use crate::error::MissingTier;
use crate::things::things;
use crate::{Error, RegionLoss};

const CALLED_FROM_LISTENER: &str = "an event listener called what waits for the store, which waits \
    for the listener; hand the call to a thread of your own";
const WOULD_BLOCK: &str = "the answer is not in memory; read it without `memory_only` where waiting for a device does no harm";
const WOULD_STALL: &str = "flush or compaction is behind and the write would have to wait; try again \
    later, or write without no_stall";
const FORKED: &str = "the store belongs to the process that this one was forked from; fork before the \
    store is opened, or call exec and open it once that process has closed it";

/// The finding of an error, for those that need no advice.
struct Finding<'a>(&'a Error);

impl Error {
    /// Returns the text of the error. That of [`Error::Corruption`] ends before the advice to repair
    /// the store, which a report of a repair would give too late.
    pub fn finding(&self) -> impl fmt::Display + '_ {
        Finding(self)
    }
}

impl fmt::Display for Finding<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Error::Corruption {
                file,
                offset,
                detail,
            } => f.write_str(&damage(file, *offset, detail)),
            error => error.fmt(f),
        }
    }
}

fn damage(file: &Path, offset: u64, detail: &str) -> String {
    let (file, detail) = (Escaped::path(file), Escaped::message(detail));
    format!("{file} is damaged at byte {offset}: {detail}")
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Corruption {
                file,
                offset,
                detail,
            } => write_corruption(f, file, *offset, detail),
            Error::Unsupported { file, detail } => write_unsupported(f, file, detail),
            Error::NoSpace { path, needed_bytes } => write!(
                f,
                "no space left for {}: {needed_bytes} bytes are needed; free some and try again",
                Escaped::path(path)
            ),
            Error::TooManyFiles {
                path,
                process_limit,
                open_tables,
            } => write_too_many_files(f, path, *process_limit, *open_tables),
            Error::FileTooLarge { path, limit_bytes } => write_too_large(f, path, *limit_bytes),
            Error::NoThread(error) => write!(f, "cannot start the thread {error}"),
            Error::Io(error) => write!(f, "{error}"),
            Error::InvalidArgument(detail) => {
                write!(f, "invalid argument: {}", Escaped::message(detail))
            }
            Error::Busy {
                path,
                socket,
                waited,
            } => write_busy(f, path, socket.as_deref(), *waited),
            Error::OwnershipLost { path, detail } => {
                write!(
                    f,
                    "{} is not this store's any more: {}",
                    Escaped::path(path),
                    Escaped::message(detail)
                )
            }
            Error::NoStore { path, detail } => write!(
                f,
                "no store in {}: {}",
                Escaped::path(path),
                Escaped::message(detail)
            ),
            Error::NoKeyspace { name } => write!(
                f,
                "there is no keyspace {}; it was never made, or it has been dropped",
                Escaped::name(name)
            ),
            Error::RegionLost { path, loss } => write_region_lost(f, path, *loss),
            Error::WrongRegion {
                store,
                region,
                detail,
            } => write_wrong_region(f, store, region, detail),
            Error::TierLost { .. } | Error::WrongTier { .. } => write_tier(f, self),
            Error::Poisoned { cause } => write!(
                f,
                "writes are refused since an earlier failure: {cause}; close and reopen the store"
            ),
            Error::Panicked { step, message } => write_panicked(f, step, message),
            Error::NoInspection { path, detail } => write_no_inspection(f, path, detail),
            Error::Owner(what) | Error::NoAnswer(what) => Escaped::message(what).fmt(f),
            Error::CalledFromListener => f.write_str(CALLED_FROM_LISTENER),
            Error::Conflict { keyspace, key } => write_conflict(f, keyspace, key),
            Error::TransactionTooLarge { bytes, max_bytes } => {
                write_large_transaction(f, *bytes, *max_bytes)
            }
            Error::OtherType {
                keyspace,
                key,
                part,
                expected,
            } => write_other_type(f, keyspace, key, part, expected),
            Error::WouldStall => f.write_str(WOULD_STALL),
            Error::WouldBlock => f.write_str(WOULD_BLOCK),
            Error::Closed => f.write_str("the store is closed"),
            Error::Forked => f.write_str(FORKED),
        }
    }
}

fn write_conflict(f: &mut fmt::Formatter<'_>, keyspace: &str, key: &[u8]) -> fmt::Result {
    write!(
        f,
        "keyspace \"{}\": key \"{}\" was written after it was read; read it again and retry",
        Escaped::name(keyspace),
        Escaped::bytes(key)
    )
}

fn write_large_transaction(f: &mut fmt::Formatter<'_>, bytes: u64, max_bytes: u64) -> fmt::Result {
    write!(
        f,
        "the transaction would take {bytes} bytes, and {max_bytes} are allowed; commit it in parts, or \
         raise `TransactionOptions::max_transaction_bytes` (and `Options::memory_bytes`, where it is set)"
    )
}

fn write_no_inspection(f: &mut fmt::Formatter<'_>, path: &Path, detail: &str) -> fmt::Result {
    write!(
        f,
        "there can be no inspection socket at {}: {}",
        Escaped::path(path),
        Escaped::message(detail)
    )
}

fn write_panicked(f: &mut fmt::Formatter<'_>, step: &str, message: &str) -> fmt::Result {
    write!(
        f,
        "a panic in the step \"{}\": {}; this is a bug, please report it with this message",
        Escaped::message(step),
        Escaped::message(message)
    )
}

fn write_other_type(
    f: &mut fmt::Formatter<'_>,
    keyspace: &str,
    key: &[u8],
    part: &str,
    expected: &str,
) -> fmt::Result {
    let of = if part == "key" { "" } else { "the value of " };
    let (keyspace, key) = (Escaped::name(keyspace), Escaped::bytes(key));
    write!(
        f,
        "keyspace \"{keyspace}\": {of}key \"{key}\" is no {expected}: another type, or another version of it, wrote the bytes"
    )
}

fn write_corruption(
    f: &mut fmt::Formatter<'_>,
    file: &Path,
    offset: u64,
    detail: &str,
) -> fmt::Result {
    write!(
        f,
        "{}; restore the file from a copy, or see what else is affected with `terrace verify` and \
         go on with what can be read with `terrace repair`",
        damage(file, offset, detail)
    )
}

fn write_unsupported(f: &mut fmt::Formatter<'_>, file: &Path, detail: &str) -> fmt::Result {
    write!(
        f,
        "{} was written by a version this one does not know: {}; open it with the release that \
         wrote it, or a newer one",
        Escaped::path(file),
        Escaped::message(detail)
    )
}

fn write_wrong_region(
    f: &mut fmt::Formatter<'_>,
    store: &Path,
    region: &Path,
    detail: &str,
) -> fmt::Result {
    write!(
        f,
        "{} does not hold the arenas of {}: {}",
        Escaped::path(region),
        Escaped::path(store),
        Escaped::message(detail)
    )
}

fn write_tier(f: &mut fmt::Formatter<'_>, error: &Error) -> fmt::Result {
    match error {
        Error::TierLost {
            tier,
            path,
            missing,
        } => write_tier_lost(f, tier, path, missing),
        Error::WrongTier {
            store,
            directory,
            detail,
        } => write_wrong_tier(f, store, directory, detail),
        _ => Ok(()),
    }
}

fn write_wrong_tier(
    f: &mut fmt::Formatter<'_>,
    store: &Path,
    directory: &Path,
    detail: &str,
) -> fmt::Result {
    write!(
        f,
        "{} is not the tier of {}: {}",
        Escaped::path(directory),
        Escaped::path(store),
        Escaped::message(detail)
    )
}

/// Maximum number of files and of keyspaces that the message of a lost tier names.
const MAX_NAMED: usize = 5;

fn write_tier_lost(
    f: &mut fmt::Formatter<'_>,
    tier: &str,
    path: &Path,
    missing: &MissingTier,
) -> fmt::Result {
    let MissingTier {
        files,
        keyspaces,
        cause,
    } = missing;
    let (tier, path) = (Escaped::name(tier), Escaped::path(path));
    write!(f, "tier {tier} is missing, last seen at {path}")?;
    if !files.is_empty() {
        write!(
            f,
            "; the store needs {} there: ",
            things(files.len(), "file")
        )?;
        write_names(f, files)?;
        f.write_str(" of keyspaces ")?;
        write_names(f, keyspaces)?;
    }
    if let Some(cause) = cause {
        write!(f, "; {cause}")?;
    }
    f.write_str(match files.as_slice() {
        [] => "; mount it, and open the store again",
        _ => {
            "; mount it, or name its directory; with accept_tier_loss the store opens without it, and \
             reads of these keys fail until it is back"
        }
    })
}

fn write_names(f: &mut fmt::Formatter<'_>, names: &[String]) -> fmt::Result {
    for (at, name) in names.iter().take(MAX_NAMED).enumerate() {
        let separator = if at == 0 { "" } else { ", " };
        write!(f, "{separator}{}", Escaped::name(name))?;
    }
    match names.len().saturating_sub(MAX_NAMED) {
        0 => Ok(()),
        more => write!(f, " and {more} more"),
    }
}

fn write_too_many_files(
    f: &mut fmt::Formatter<'_>,
    path: &Path,
    process_limit: Option<u64>,
    open_tables: usize,
) -> fmt::Result {
    let path = Escaped::path(path);
    match process_limit {
        Some(limit) => write!(
            f,
            "no descriptor is left to open {path}: the process may have {limit} files open \
             (RLIMIT_NOFILE), and {open_tables} of them are tables; raise the limit (`ulimit -n`), \
             close other files, or lower max_open_tables"
        ),
        None => write!(
            f,
            "no descriptor is left to open {path}: the machine has as many files open as it may \
             (fs.file-max), {open_tables} of them are tables of this process; raise the limit, or \
             lower max_open_tables"
        ),
    }
}

fn write_too_large(
    f: &mut fmt::Formatter<'_>,
    path: &Path,
    limit_bytes: Option<u64>,
) -> fmt::Result {
    let path = Escaped::path(path);
    match limit_bytes {
        Some(limit) => write!(
            f,
            "{path} cannot grow: the file-size limit of the process (`ulimit -f`, RLIMIT_FSIZE) is \
             {}; raise it and try again",
            things(limit, "byte")
        ),
        None => write!(
            f,
            "{path} cannot grow: its file system holds no longer file; use another one"
        ),
    }
}

fn write_busy(
    f: &mut fmt::Formatter<'_>,
    path: &Path,
    socket: Option<&Path>,
    waited: Duration,
) -> fmt::Result {
    write!(
        f,
        "{} is open elsewhere (its LOCK is held",
        Escaped::path(path)
    )?;
    if !waited.is_zero() {
        write!(f, ", and was for {:.1} s", waited.as_secs_f64())?;
    }
    f.write_str("), in another process or twice in this one; close the other owner first")?;
    match socket {
        Some(socket) => write!(
            f,
            ", or ask it at {}, as `terrace stats`, `levels` and `events` do",
            Escaped::path(socket)
        ),
        None => Ok(()),
    }
}

fn write_region_lost(
    f: &mut fmt::Formatter<'_>,
    path: &Path,
    loss: Option<RegionLoss>,
) -> fmt::Result {
    write!(
        f,
        "{} is missing, and unflushed writes with it",
        Escaped::path(path)
    )?;
    if let Some(loss) = loss {
        write_known(f, loss)?;
    }
    f.write_str(
        "; mount or restore it and open again, or go on without those writes by \
         accept_region_loss (--accept-region-loss)",
    )
}

fn write_known(f: &mut fmt::Formatter<'_>, loss: RegionLoss) -> fmt::Result {
    let RegionLoss { kept, promised } = loss;
    match kept {
        0 => f.write_str("; no write is in a table")?,
        kept => write!(f, "; writes up to number {kept} are in tables")?,
    }
    match promised {
        promised if promised > kept => {
            write!(
                f,
                ", writes up to number {promised} were promised to survive"
            )
        }
        _ => Ok(()),
    }
}

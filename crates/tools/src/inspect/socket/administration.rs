//! Requests that an owner carries out, where others only read: a flush, a merge, a checkpoint,
//! another name of a keyspace or its end, a change of the tiers. The owner does as the method of the
//! same name does, on its own store.

use std::ffi::OsString;
use std::ops::Bound;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::{Deserialize, Serialize};
use terrace::offline::MAX_KEYSPACE_NAME_BYTES;
use terrace::{Db, Error, Result, SequenceNumber, TierOptions};
use terrace_lsm::keyspace_options::MAX_TIER_NAME_BYTES;
use terrace_lsm::levels::DEFAULT_NAME;
use terrace_lsm::serial::{key_form, key_of_form};

use crate::inspect::tiers;

/// Maximum number of requests that are carried out at a time. It is below the number of served
/// clients, so that requests under way keep no reading client from its answer.
const MAX_TURNS: usize = 4;
/// Maximum length of a path in the kernel. With a name's limit it keeps answers, which repeat the
/// request, short enough for a socket's buffer: sending one never waits for the client.
const MAX_PATH_BYTES: usize = 4095;

/// Keys from one bound to another.
pub(super) type Range = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// A request to carry out.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Administration {
    Flush,
    /// Without a range: until no level is over its target.
    Compact {
        keyspace: Option<String>,
        range: Option<Range>,
    },
    /// The path is absolute: the owner may have another working directory than the client.
    Checkpoint {
        directory: PathBuf,
    },
    RenameKeyspace {
        from: String,
        to: String,
    },
    DropKeyspace {
        name: String,
    },
    /// The directory is absolute, as that of a checkpoint is.
    AddTier(TierOptions),
    /// It ends before the tables are gone, so that a slow device takes no turn for hours.
    DrainTier {
        name: String,
    },
    RemoveTier {
        name: String,
        accept_loss: bool,
    },
}

impl Administration {
    /// Carries it out, however long that takes.
    pub(super) fn carry_out(&self, db: &Db) -> Result<Done> {
        let mut done = Done::default();
        match self {
            Administration::Flush => db.flush()?,
            Administration::Compact { keyspace, range } => {
                let name = keyspace.as_deref().unwrap_or(DEFAULT_NAME);
                let keyspace = db.keyspace(name)?;
                match range {
                    None => db.compact()?,
                    Some((lower, upper)) => {
                        let lower = lower.as_ref().map(Vec::as_slice);
                        let upper = upper.as_ref().map(Vec::as_slice);
                        keyspace.compact_range((lower, upper))?;
                    }
                }
            }
            Administration::Checkpoint { directory } => {
                done.sequence = Some(db.checkpoint(directory)?);
            }
            Administration::RenameKeyspace { from, to } => db.rename_keyspace(from, to)?,
            Administration::DropKeyspace { name } => db.drop_keyspace(name)?,
            Administration::AddTier(tier) => db.add_tier(tier)?,
            Administration::DrainTier { name } => db.drain_tier(name)?,
            Administration::RemoveTier { name, accept_loss } => {
                done.lost_tables = Some(tiers::remove(db, name, *accept_loss)?);
            }
        }
        Ok(done)
    }
}

/// Turns to carry out requests.
#[derive(Debug, Default)]
pub(super) struct Turns {
    taken: AtomicUsize,
}

/// A turn, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Turn<'a>(&'a Turns);

impl Turns {
    /// Takes a turn; `None` if all are taken.
    pub(super) fn take(&self) -> Option<Turn<'_>> {
        let more = |taken| (taken < MAX_TURNS).then_some(taken + 1);
        self.taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .ok()
            .map(|_| Turn(self))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A range as it is on the line; a missing end has no bound.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RangeForm {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    from: Option<BoundForm>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    to: Option<BoundForm>,
}

/// One end of a range: the key under one of two names, as in the levels' report.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BoundForm {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key_hex: Option<String>,
    /// Whether the key itself is left out.
    #[serde(default)]
    excluded: bool,
}

impl RangeForm {
    pub(super) fn of((from, to): &Range) -> Self {
        RangeForm {
            from: BoundForm::of(from),
            to: BoundForm::of(to),
        }
    }

    pub(super) fn range(self) -> std::result::Result<Range, String> {
        Ok((BoundForm::bound(self.from)?, BoundForm::bound(self.to)?))
    }
}

impl BoundForm {
    fn of(bound: &Bound<Vec<u8>>) -> Option<Self> {
        let (key, excluded) = match bound {
            Bound::Included(key) => (key, false),
            Bound::Excluded(key) => (key, true),
            Bound::Unbounded => return None,
        };
        let (key, key_hex) = key_form(key.clone());
        Some(BoundForm {
            key,
            key_hex,
            excluded,
        })
    }

    fn bound(form: Option<Self>) -> std::result::Result<Bound<Vec<u8>>, String> {
        let Some(form) = form else {
            return Ok(Bound::Unbounded);
        };
        if form.key.is_some() && form.key_hex.is_some() {
            return Err("a bound has one key, `key` or `key_hex`".to_owned());
        }
        let key = key_of_form(form.key, form.key_hex)?;
        Ok(match form.excluded {
            true => Bound::Excluded(key),
            false => Bound::Included(key),
        })
    }
}

/// Returns a path under one of two names, as a key is.
pub(super) fn path_form(path: &Path) -> (Option<String>, Option<String>) {
    key_form(path.as_os_str().as_bytes().to_vec())
}

/// Returns the path of a checkpoint or of a tier, or its fault in words.
pub(super) fn path_of_form(
    text: Option<String>,
    hex: Option<String>,
) -> std::result::Result<PathBuf, String> {
    let bytes = match (&text, &hex) {
        (None, None) | (Some(_), Some(_)) => {
            return Err("a request has one path, `directory` or `directory_hex`".to_owned());
        }
        _ => key_of_form(text, hex)?,
    };
    let path = PathBuf::from(OsString::from_vec(bytes));
    check_path(&path).map(|()| path)
}

pub(super) fn check_path(path: &Path) -> std::result::Result<(), String> {
    let length_bytes = path.as_os_str().len();
    if length_bytes > MAX_PATH_BYTES {
        return Err(format!(
            "a path has {length_bytes} bytes; it has at most {MAX_PATH_BYTES}"
        ));
    }
    if !path.is_absolute() {
        return Err("the path of a directory is absolute".to_owned());
    }
    Ok(())
}

/// Refuses a name that is too long for any keyspace.
pub(super) fn check_name(name: &str) -> std::result::Result<(), String> {
    if name.len() > MAX_KEYSPACE_NAME_BYTES {
        return Err(format!(
            "a keyspace's name has {} bytes; it has at most {MAX_KEYSPACE_NAME_BYTES}",
            name.len()
        ));
    }
    Ok(())
}

/// Takes a name that a request must have.
pub(super) fn required_name(
    name: Option<String>,
    field: &str,
) -> std::result::Result<String, String> {
    let name = name.ok_or_else(|| format!("`{field}`, the name of a keyspace, is missing"))?;
    check_name(&name).map(|()| name)
}

/// Takes the name of a tier, which a request must have. The store itself checks its letters.
pub(super) fn required_tier(name: Option<String>) -> std::result::Result<String, String> {
    let name = name.ok_or("`tier`, the name of a tier, is missing")?;
    check_tier_name(&name).map(|()| name)
}

/// Refuses a name that is too long for any tier.
pub(super) fn check_tier_name(name: &str) -> std::result::Result<(), String> {
    if name.len() > MAX_TIER_NAME_BYTES {
        return Err(format!(
            "a tier's name has {} bytes; it has at most {MAX_TIER_NAME_BYTES}",
            name.len()
        ));
    }
    Ok(())
}

/// Outcome of a request, as it is on the line. Every client understands the error. Its subject
/// stands beside it, for clients that tell such cases apart.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Outcome {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    done: Option<Done>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    no_keyspace: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    invalid_argument: Option<String>,
    /// Owner of a directory that was to be a tier. The client knows the rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    wrong_tier: Option<String>,
    /// The owner has no turn for it, or closes the store: nothing is wrong with the request.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    try_again: bool,
}

/// Facts about a request that was carried out.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Done {
    /// Number of the last write in a checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) sequence: Option<SequenceNumber>,
    /// Number of tables that were given up with a tier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) lost_tables: Option<u64>,
}

impl Outcome {
    pub(super) fn of(ended: Result<Done>) -> Self {
        let mut outcome = Outcome::default();
        match ended {
            Ok(done) => outcome.done = Some(done),
            Err(error) => {
                outcome.error = Some(error.to_string());
                match error {
                    Error::NoKeyspace { name } => outcome.no_keyspace = Some(name),
                    Error::InvalidArgument(detail) => outcome.invalid_argument = Some(detail),
                    Error::WrongTier { detail, .. } => outcome.wrong_tier = Some(detail),
                    Error::Closed => outcome.try_again = true,
                    _ => {}
                }
            }
        }
        outcome
    }

    /// Returns the outcome of a request for which the owner has no turn.
    pub(super) fn try_again(why: &str) -> Self {
        Outcome {
            error: Some(why.to_owned()),
            try_again: true,
            ..Outcome::default()
        }
    }

    /// Returns the owner of a directory that was to be a tier, if that is the failure.
    pub(super) fn wrong_tier(&self) -> Option<&str> {
        self.wrong_tier.as_deref()
    }

    /// Returns the result that the method would have returned.
    pub(super) fn into_result(self) -> Result<Done> {
        match self {
            Outcome {
                no_keyspace: Some(name),
                ..
            } => Err(Error::NoKeyspace { name }),
            Outcome {
                invalid_argument: Some(detail),
                ..
            } => Err(Error::InvalidArgument(detail)),
            Outcome {
                error: Some(what),
                try_again: true,
                ..
            } => Err(Error::NoAnswer(format!("the store's owner says: {what}"))),
            Outcome {
                error: Some(what), ..
            } => Err(Error::Owner(format!("the store's owner says: {what}"))),
            Outcome {
                done: Some(done), ..
            } => Ok(done),
            _ => Err(Error::Owner(
                "the store's owner does not say how it ended".to_owned(),
            )),
        }
    }
}

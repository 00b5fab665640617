//! The protocol: a line of JSON asks, one or more lines of JSON answer.
//!
//! | request | answer |
//! |---|---|
//! | `{"version":1,"request":"statistics"}` | `{"version":1,"statistics":{...}}` |
//! | `{"version":1,"request":"levels"}` | `{"version":1,"levels":{...}}` |
//! | `{"version":1,"request":"explain_compaction"}` | `{"version":1,"explanation":{...}}` |
//! | `{"version":1,"request":"describe_compaction"}` | `{"version":1,"description":TOML}` |
//! | `{"version":1,"request":"events"}` | `{"version":1,"event":{...}}` for each event that is kept |
//! | `{"version":1,"request":"flush"}` | `{"version":1,"done":{}}`, when it is |
//! | `{"version":1,"request":"compact"}` | the same |
//! | `{"version":1,"request":"checkpoint","directory":PATH}` | `{"version":1,"done":{"sequence":N}}` |
//! | `{"version":1,"request":"rename_keyspace","keyspace":NAME,"to":NAME}` | `{"version":1,"done":{}}` |
//! | `{"version":1,"request":"drop_keyspace","keyspace":NAME}` | the same |
//! | `{"version":1,"request":"placed_tables"}` | `{"version":1,"placed_tables":[...]}` |
//! | `{"version":1,"request":"add_tier","tier":NAME,"directory":PATH}` | `{"version":1,"done":{}}` |
//! | `{"version":1,"request":"drain_tier","tier":NAME}` | the same, before the tables are gone |
//! | `{"version":1,"request":"remove_tier","tier":NAME}` | `{"version":1,"done":{"lost_tables":N}}` |
//!
//! `events` takes `"after":N` (only events after number N), `"follow":true` (go on until one
//! side hangs up) and `"statistics_every_seconds":S` (statistics between the events, when followed).
//! `compact` takes `"keyspace":NAME` and `"range":{"from":{"key":KEY},"to":{"key":KEY}}`; either bound
//! may be missing, or have `"excluded":true`. A key that is not UTF-8 is in hexadecimal, as
//! `"key_hex"`, and such a path is, as `"directory_hex"`. `describe_compaction` and `placed_tables`
//! take `"keyspace":NAME`, too. `add_tier` takes `"capacity_bytes":N`, `"reserve_bytes":N` and
//! `"profile":{...}`, and `remove_tier` takes `"accept_loss":true`. An owner of an older release answers these with an
//! error: it does not know the names.
//!
//! A wrong request is answered by `{"version":1,"error":"..."}`, with `"try_again":true` beside it
//! if the owner's state is at fault and not the request. Then the owner hangs up: a connection is
//! for one request.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use terrace::{DeviceProfile, Event, LevelsReport, Statistics, TierOptions};

use super::administration::{
    Administration, Outcome, RangeForm, check_name, path_form, path_of_form, required_name,
    required_tier,
};
use crate::explain::Explanation;
use crate::inspect::tiers::KeyspacePlacement;

/// Raised when an old client could misread an answer, or an old owner a request.
pub(super) const VERSION: u32 = 1;
/// Maximum length of a request, in bytes: two keys of the greatest length, each byte escaped.
pub(super) const MAX_REQUEST_BYTES: usize = 1 << 20;
/// Maximum number of characters of a complaint about a request. It may quote all of the request.
const MAX_COMPLAINT_CHARACTERS: usize = 500;
/// Minimum interval between statistics.
const LEAST_INTERVAL: Duration = Duration::from_millis(100);
const LONGEST_INTERVAL: Duration = Duration::from_secs(86_400);

/// Request of a client.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Request {
    Statistics,
    Levels,
    Explanation,
    /// Levels of a keyspace; without a name, of the default one.
    Description(Option<String>),
    /// Tables of a keyspace with their tiers; without a name, of all.
    PlacedTables(Option<String>),
    Events(EventRequest),
    Administration(Administration),
}

/// Events that a client wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventRequest {
    /// Only those after this number; of these the last thousand are kept.
    pub after: u64,
    /// Go on with those to come, until the store is closed.
    pub follow: bool,
    /// Statistics too, at this interval, from 0.1 s to a day; only while following.
    pub statistics_every: Option<Duration>,
}

/// An event, as the owner of a store reports it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EventLine {
    /// Number from 1 on, in the order in which events were recorded; events in a gap were not kept.
    pub number: u64,
    /// Time in seconds since 1970.
    pub seconds: f64,
    /// The name of the thread that did it.
    pub thread: String,
    /// The name of its kind; see [`EventKind::name`](terrace::EventKind::name).
    pub kind: String,
    /// The event in words.
    pub event: String,
}

/// One line that the owner writes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Answer {
    /// Contents and work of the store, in numbers.
    Statistics(Box<Statistics>),
    /// Every table, in its place.
    Levels(LevelsReport),
    /// The merges that would begin now.
    Explanation(Box<Explanation>),
    /// A keyspace's levels as [`Description::to_toml`](crate::explain::Description::to_toml) writes them.
    Description(String),
    /// The tables of keyspaces, each with the reason for its tier.
    PlacedTables(Vec<KeyspacePlacement>),
    /// An event.
    Event(EventLine),
    /// Reason why there is no answer.
    Error(String),
}

/// An answer with its version, as it is on the line.
#[derive(Serialize, Deserialize)]
pub(super) struct Line<A> {
    pub(super) version: u32,
    #[serde(flatten)]
    pub(super) answer: A,
}

/// An answer, written without taking it apart first.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Told<'a> {
    Statistics(&'a Statistics),
    Levels(&'a LevelsReport),
    Explanation(&'a Explanation),
    Description(&'a str),
    PlacedTables(&'a [KeyspacePlacement]),
    Event(&'a Event),
    Error(&'a str),
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Name {
    Statistics,
    Levels,
    ExplainCompaction,
    DescribeCompaction,
    Events,
    Flush,
    Compact,
    Checkpoint,
    RenameKeyspace,
    DropKeyspace,
    PlacedTables,
    AddTier,
    DrainTier,
    RemoveTier,
}

/// A request as it is on the line.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestLine {
    version: u32,
    request: Name,
    #[serde(default)]
    after: u64,
    #[serde(default)]
    follow: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    statistics_every_seconds: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    keyspace: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    range: Option<RangeForm>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    directory: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    directory_hex: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tier: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    capacity_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "is_zero")]
    reserve_bytes: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    profile: Option<DeviceProfile>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    accept_loss: bool,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl RequestLine {
    fn new(request: Name) -> Self {
        RequestLine {
            version: VERSION,
            request,
            after: 0,
            follow: false,
            statistics_every_seconds: None,
            keyspace: None,
            to: None,
            range: None,
            directory: None,
            directory_hex: None,
            tier: None,
            capacity_bytes: None,
            reserve_bytes: 0,
            profile: None,
            accept_loss: false,
        }
    }

    fn of_tier(request: Name, tier: &str) -> Self {
        RequestLine {
            tier: Some(tier.to_owned()),
            ..RequestLine::new(request)
        }
    }
}

/// Read before the rest: a newer version may have any shape.
#[derive(Deserialize)]
pub(super) struct VersionOf {
    pub(super) version: u32,
}

/// Returns a request, or its fault in words.
pub(super) fn parse_request(line: &[u8]) -> Result<Request, String> {
    let wrong = |error: serde_json::Error| {
        let error = error.to_string();
        let told = error.chars().take(MAX_COMPLAINT_CHARACTERS);
        format!("not a request: {}", told.collect::<String>())
    };
    let VersionOf { version } = serde_json::from_slice(line).map_err(wrong)?;
    if version != VERSION {
        return Err(format!(
            "the request has version {version}, this store's owner knows version {VERSION}"
        ));
    }
    let line: RequestLine = serde_json::from_slice(line).map_err(wrong)?;
    request_of(line)
}

fn request_of(line: RequestLine) -> Result<Request, String> {
    Ok(match line.request {
        Name::Statistics => Request::Statistics,
        Name::Levels => Request::Levels,
        Name::ExplainCompaction => Request::Explanation,
        Name::DescribeCompaction => {
            line.keyspace.as_deref().map_or(Ok(()), check_name)?;
            Request::Description(line.keyspace)
        }
        Name::PlacedTables => {
            line.keyspace.as_deref().map_or(Ok(()), check_name)?;
            Request::PlacedTables(line.keyspace)
        }
        Name::Events => Request::Events(EventRequest {
            after: line.after,
            follow: line.follow,
            statistics_every: line.statistics_every_seconds.map(interval).transpose()?,
        }),
        Name::Flush => Request::Administration(Administration::Flush),
        Name::Compact => {
            line.keyspace.as_deref().map_or(Ok(()), check_name)?;
            Request::Administration(Administration::Compact {
                keyspace: line.keyspace,
                range: line.range.map(RangeForm::range).transpose()?,
            })
        }
        Name::Checkpoint => Request::Administration(Administration::Checkpoint {
            directory: path_of_form(line.directory, line.directory_hex)?,
        }),
        Name::RenameKeyspace => Request::Administration(Administration::RenameKeyspace {
            from: required_name(line.keyspace, "keyspace")?,
            to: required_name(line.to, "to")?,
        }),
        Name::DropKeyspace => Request::Administration(Administration::DropKeyspace {
            name: required_name(line.keyspace, "keyspace")?,
        }),
        Name::AddTier => Request::Administration(Administration::AddTier(TierOptions {
            name: required_tier(line.tier)?,
            directory: Some(path_of_form(line.directory, line.directory_hex)?),
            capacity_bytes: line.capacity_bytes,
            reserve_bytes: line.reserve_bytes,
            profile: line.profile,
            ..TierOptions::default()
        })),
        Name::DrainTier => Request::Administration(Administration::DrainTier {
            name: required_tier(line.tier)?,
        }),
        Name::RemoveTier => Request::Administration(Administration::RemoveTier {
            name: required_tier(line.tier)?,
            accept_loss: line.accept_loss,
        }),
    })
}

fn interval(seconds: f64) -> Result<Duration, String> {
    let interval = Duration::try_from_secs_f64(seconds)
        .map_err(|error| format!("statistics_every_seconds is {seconds}: {error}"))?;
    Ok(interval.clamp(LEAST_INTERVAL, LONGEST_INTERVAL))
}

/// Returns the line of a request, with its end.
pub(super) fn request_line(request: &Request) -> String {
    as_line(&match request {
        Request::Statistics => RequestLine::new(Name::Statistics),
        Request::Levels => RequestLine::new(Name::Levels),
        Request::Explanation => RequestLine::new(Name::ExplainCompaction),
        Request::Description(keyspace) => RequestLine {
            keyspace: keyspace.clone(),
            ..RequestLine::new(Name::DescribeCompaction)
        },
        Request::PlacedTables(keyspace) => RequestLine {
            keyspace: keyspace.clone(),
            ..RequestLine::new(Name::PlacedTables)
        },
        Request::Events(events) => RequestLine {
            after: events.after,
            follow: events.follow,
            statistics_every_seconds: events.statistics_every.map(|every| every.as_secs_f64()),
            ..RequestLine::new(Name::Events)
        },
        Request::Administration(wanted) => administration_line(wanted),
    })
}

fn administration_line(wanted: &Administration) -> RequestLine {
    match wanted {
        Administration::Flush => RequestLine::new(Name::Flush),
        Administration::Compact { keyspace, range } => RequestLine {
            keyspace: keyspace.clone(),
            range: range.as_ref().map(RangeForm::of),
            ..RequestLine::new(Name::Compact)
        },
        Administration::Checkpoint { directory } => {
            let (directory, directory_hex) = path_form(directory);
            RequestLine {
                directory,
                directory_hex,
                ..RequestLine::new(Name::Checkpoint)
            }
        }
        Administration::RenameKeyspace { from, to } => RequestLine {
            keyspace: Some(from.clone()),
            to: Some(to.clone()),
            ..RequestLine::new(Name::RenameKeyspace)
        },
        Administration::DropKeyspace { name } => RequestLine {
            keyspace: Some(name.clone()),
            ..RequestLine::new(Name::DropKeyspace)
        },
        Administration::AddTier(tier) => {
            let (directory, directory_hex) =
                tier.directory.as_deref().map_or((None, None), path_form);
            RequestLine {
                directory,
                directory_hex,
                capacity_bytes: tier.capacity_bytes,
                reserve_bytes: tier.reserve_bytes,
                profile: tier.profile,
                ..RequestLine::of_tier(Name::AddTier, &tier.name)
            }
        }
        Administration::DrainTier { name } => RequestLine::of_tier(Name::DrainTier, name),
        Administration::RemoveTier { name, accept_loss } => RequestLine {
            accept_loss: *accept_loss,
            ..RequestLine::of_tier(Name::RemoveTier, name)
        },
    }
}

/// Returns the line of an administrative request's outcome, with its end.
pub(super) fn outcome_line(outcome: &Outcome) -> String {
    as_line(&Line {
        version: VERSION,
        answer: outcome,
    })
}

/// Returns the line of an answer, with its end.
pub(super) fn answer_line(answer: Told<'_>) -> String {
    as_line(&Line {
        version: VERSION,
        answer,
    })
}

fn as_line(line: &impl Serialize) -> String {
    // None of these types has anything that JSON cannot say.
    let mut text = serde_json::to_string(line).unwrap_or_default();
    text.push('\n');
    text
}

/// Checks that any bytes are a request or an error, and that a request is the same when written.
pub fn fuzz_request(bytes: &[u8]) {
    if let Ok(request) = parse_request(bytes) {
        let again = parse_request(request_line(&request).trim_ascii_end().as_bytes());
        assert_eq!(again.as_ref(), Ok(&request));
    }
}

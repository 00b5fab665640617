//! An event: something that a store did in the background.

use std::fmt;
use std::time::{Duration, SystemTime};

use terrace_lsm::things::{Numbered, things};
use terrace_storage::Escaped;

use crate::stall_cause::StallCause;
use crate::{Error, KeyspaceId};

/// Receives the events of a store. See
/// [`Options::event_listener`](crate::Options::event_listener).
pub trait EventListener: fmt::Debug + Send + Sync {
    /// Receives an event in the thread that caused it. The thread goes on when this returns.
    ///
    /// The listener may read the store. A call that waits for the store, which waits for the
    /// listener, is [`Error::CalledFromListener`]: a flush, a compaction, a checkpoint, a close, the
    /// end of a bulk load, and a write as soon as it has to wait. Hand such calls to a thread of your
    /// own. If the listener drops the last handle, another thread closes the store.
    ///
    /// A panic here ends the calls to this listener, and nothing else: the store records
    /// [`EventKind::ListenerPanicked`] and goes on.
    fn event(&self, event: &Event);
}

/// Something that happened in the background of a store.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Event {
    /// Number from 1 on, in the order in which events were recorded.
    pub number: u64,
    /// Time of the event.
    pub time: SystemTime,
    /// Name of the thread; empty if it has none.
    pub thread: String,
    /// The event itself.
    pub kind: EventKind,
}

/// Kind of an event, with its details. Bytes are those of table files; keys are user keys.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum EventKind {
    /// Arenas are being written to tables of level 0.
    FlushBegun {
        /// Number of these arenas.
        arenas: usize,
    },
    /// The tables of arenas are installed.
    FlushEnded {
        /// Number of these arenas.
        arenas: usize,
        /// Tables written.
        tables: usize,
        /// Bytes of these tables.
        written_bytes: u64,
    },
    /// A merge has been divided into slices.
    MergeBegun {
        /// The number of the merge.
        job: u64,
        /// The keyspace.
        keyspace: KeyspaceId,
        /// Reason, in words.
        reason: String,
        /// The levels of the inputs, ascending.
        input_levels: Vec<u8>,
        /// The level of the outputs.
        output_level: u8,
        /// Tables read.
        tables: usize,
        /// Bytes of these tables.
        input_bytes: u64,
        /// Slices, each built and installed on its own.
        slices: usize,
    },
    /// A slice is being built.
    SliceBegun {
        /// The number of the merge.
        job: u64,
        /// The number of the slice, from 0 on.
        slice: usize,
        /// Its first key; `None`: the first of the inputs.
        from: Option<Vec<u8>>,
        /// The first key behind it; `None`: it ends with the inputs.
        to: Option<Vec<u8>>,
    },
    /// Readers find a slice's outputs in place of its inputs, durably.
    SliceInstalled {
        /// The number of the merge.
        job: u64,
        /// The number of the slice.
        slice: usize,
        /// Tables written.
        tables: usize,
        /// Bytes read, approximately.
        input_bytes: u64,
        /// Bytes written.
        written_bytes: u64,
    },
    /// A slice was thrown away, and those behind it with it. The policy decides again about the rest
    /// of the merge.
    SliceFailed {
        /// The number of the merge.
        job: u64,
        /// The number of the slice.
        slice: usize,
        /// Cause; [`Error::Closed`] if the store is being closed.
        error: Error,
    },
    /// No slice of a merge is under way any more.
    MergeEnded {
        /// The number of the merge.
        job: u64,
        /// Slices that were installed.
        installed: usize,
        /// Slices into which the merge was divided.
        slices: usize,
        /// Bytes written.
        written_bytes: u64,
        /// Entries that went in.
        entries: u64,
        /// Entries that were expected to be dropped, if the merge was chosen for that reason.
        predicted_dropped: Option<u64>,
        /// Entries that were dropped.
        dropped: u64,
        /// Whether fewer than half of the expected entries were dropped.
        setback: bool,
    },
    /// Tables changed their level and were not rewritten.
    TablesMoved {
        /// The keyspace.
        keyspace: KeyspaceId,
        /// Their numbers.
        tables: Vec<u64>,
        /// Their level now.
        output_level: u8,
    },
    /// Deleted ranges hide all entries of some tables: these are listed no longer.
    TablesRemoved {
        /// The keyspace.
        keyspace: KeyspaceId,
        /// Their numbers.
        tables: Vec<u64>,
        /// The bytes of their files.
        bytes: u64,
    },
    /// A table's file lies in another tier.
    TableMigrated {
        /// The keyspace.
        keyspace: KeyspaceId,
        /// Its number.
        table: u64,
        /// The name of the tier that it left.
        from: String,
        /// The name of the tier that it lies in.
        to: String,
        /// The bytes of its file.
        bytes: u64,
        /// The reason, in words.
        reason: String,
    },
    /// The disk is full, and a step that makes room got the reserve. The store refuses new values
    /// until it has made a reserve again.
    ReserveGivenBack {
        /// Its size.
        bytes: u64,
    },
    /// A reserve is there again.
    ReserveMade {
        /// Its size.
        bytes: u64,
    },
    /// Files of tables that no reader lists any more are deleted.
    TablesDeleted {
        /// Their numbers.
        tables: Vec<u64>,
    },
    /// Writers waited and could not go on before.
    WritersStopped {
        /// Cause of the wait.
        cause: StallCause,
        /// Length of the wait.
        time: Duration,
    },
    /// A step in the background failed; it is repeated, unless the store refuses writes since.
    StepFailed {
        /// The name of its worker.
        worker: String,
        /// Cause.
        error: Error,
    },
    /// The event listener panicked, and is not called any more.
    ListenerPanicked {
        /// The panic's message.
        message: String,
    },
}

impl EventKind {
    /// Returns the name of the kind, for scripts.
    pub fn name(&self) -> &'static str {
        match self {
            EventKind::FlushBegun { .. } => "flush_begun",
            EventKind::FlushEnded { .. } => "flush_ended",
            EventKind::MergeBegun { .. } => "merge_begun",
            EventKind::SliceBegun { .. } => "slice_begun",
            EventKind::SliceInstalled { .. } => "slice_installed",
            EventKind::SliceFailed { .. } => "slice_failed",
            EventKind::MergeEnded { .. } => "merge_ended",
            EventKind::TablesMoved { .. } => "tables_moved",
            EventKind::TablesRemoved { .. } => "tables_removed",
            EventKind::TableMigrated { .. } => "table_migrated",
            EventKind::ReserveGivenBack { .. } => "reserve_given_back",
            EventKind::ReserveMade { .. } => "reserve_made",
            EventKind::TablesDeleted { .. } => "tables_deleted",
            EventKind::WritersStopped { .. } => "writers_stopped",
            EventKind::StepFailed { .. } => "step_failed",
            EventKind::ListenerPanicked { .. } => "listener_panicked",
        }
    }
}

/// Writes number, time in seconds since 1970, thread, the name of the kind, and the text.
#[cfg(feature = "serde")]
impl serde::Serialize for Event {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        use std::time::UNIX_EPOCH;

        use serde::ser::SerializeStruct;

        let since_epoch = self.time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut fields = to.serialize_struct("Event", 5)?;
        fields.serialize_field("number", &self.number)?;
        fields.serialize_field("seconds", &since_epoch.as_secs_f64())?;
        fields.serialize_field("thread", &self.thread)?;
        fields.serialize_field("kind", self.kind.name())?;
        fields.serialize_field("event", &self.kind.to_string())?;
        fields.end()
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} {}",
            self.number,
            Escaped::message(&self.thread),
            self.kind
        )
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EventKind::FlushBegun { arenas } => {
                write!(f, "flush of {} begun", things(*arenas, "arena"))
            }
            EventKind::FlushEnded {
                arenas,
                tables,
                written_bytes,
            } => write!(
                f,
                "flush of {} ended: {}, {}",
                things(*arenas, "arena"),
                things(*tables, "table"),
                things(*written_bytes, "byte")
            ),
            EventKind::MergeBegun { .. } | EventKind::MergeEnded { .. } => self.fmt_merge(f),
            EventKind::SliceBegun { .. }
            | EventKind::SliceInstalled { .. }
            | EventKind::SliceFailed { .. } => self.fmt_slice(f),
            EventKind::TablesMoved {
                keyspace,
                tables,
                output_level,
            } => write!(
                f,
                "{} of keyspace {keyspace} moved to level {output_level}",
                Numbered("table", tables)
            ),
            EventKind::TablesRemoved {
                keyspace,
                tables,
                bytes,
            } => write!(
                f,
                "{} of keyspace {keyspace}, {}, removed: deleted ranges hide all entries",
                Numbered("table", tables),
                things(*bytes, "byte")
            ),
            EventKind::TableMigrated {
                keyspace,
                table,
                from,
                to,
                bytes,
                reason,
            } => write!(
                f,
                "table {table} of keyspace {keyspace}, {}, went from tier {} to {}: {reason}",
                things(*bytes, "byte"),
                Escaped::name(from),
                Escaped::name(to)
            ),
            EventKind::ReserveGivenBack { bytes } => write!(
                f,
                "the disk is full: the reserve of {bytes} bytes was given back, and new values are refused"
            ),
            EventKind::ReserveMade { bytes } => {
                write!(f, "a reserve of {bytes} bytes was made again")
            }
            EventKind::TablesDeleted { tables } => {
                write!(f, "{} deleted", Numbered("table", tables))
            }
            EventKind::WritersStopped { cause, time } => {
                write!(f, "writers stopped for {time:?}: {cause}")
            }
            EventKind::StepFailed { worker, error } => {
                write!(f, "a step of {} failed: {error}", Escaped::message(worker))
            }
            EventKind::ListenerPanicked { message } => write!(
                f,
                "the event listener panicked and is not called any more: {}",
                Escaped::message(message)
            ),
        }
    }
}

impl EventKind {
    /// Writes the text of an event of a whole merge. `fmt` passes no other kind.
    fn fmt_merge(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EventKind::MergeBegun {
                job,
                keyspace,
                reason,
                input_levels,
                output_level,
                tables,
                input_bytes,
                slices,
            } => write!(
                f,
                "merge {job} begun: keyspace {keyspace}, {} of {} with {} into level \
                 {output_level} in {}, because {}",
                things(*tables, "table"),
                Numbered("level", input_levels),
                things(*input_bytes, "byte"),
                things(*slices, "slice"),
                Escaped::message(reason)
            ),
            EventKind::MergeEnded {
                job,
                installed,
                slices,
                written_bytes,
                entries,
                predicted_dropped,
                dropped,
                setback,
            } => {
                write!(
                    f,
                    "merge {job} ended with {installed} of {}: {}, {dropped} of {} dropped",
                    things(*slices, "slice"),
                    things(*written_bytes, "byte"),
                    things(*entries, "entry")
                )?;
                if let Some(predicted) = predicted_dropped {
                    write!(f, " of {predicted} predicted")?;
                }
                f.write_str(if *setback { ", a setback" } else { "" })
            }
            other => f.write_str(other.name()),
        }
    }

    /// Writes the text of an event of one slice. `fmt` passes no other kind.
    fn fmt_slice(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EventKind::SliceBegun {
                job,
                slice,
                from,
                to,
            } => {
                write!(f, "slice {slice} of merge {job} begun")?;
                if let Some(from) = from {
                    write!(f, " from {}", from.escape_ascii())?;
                }
                if let Some(to) = to {
                    write!(f, " up to {}", to.escape_ascii())?;
                }
                Ok(())
            }
            EventKind::SliceInstalled {
                job,
                slice,
                tables,
                input_bytes,
                written_bytes,
            } => write!(
                f,
                "slice {slice} of merge {job} installed: {} to {} with {}",
                things(*input_bytes, "byte"),
                things(*tables, "table"),
                things(*written_bytes, "byte")
            ),
            EventKind::SliceFailed { job, slice, error } => {
                write!(f, "slice {slice} of merge {job} thrown away: {error}")
            }
            other => f.write_str(other.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_of_one_thing_has_no_plural() {
        let one = |kind: EventKind, text: &str| assert_eq!(kind.to_string(), text);
        one(
            EventKind::FlushEnded {
                arenas: 1,
                tables: 1,
                written_bytes: 1,
            },
            "flush of 1 arena ended: 1 table, 1 byte",
        );
        one(
            EventKind::MergeBegun {
                job: 1,
                keyspace: KeyspaceId::DEFAULT,
                reason: "it was asked for".into(),
                input_levels: vec![0],
                output_level: 1,
                tables: 1,
                input_bytes: 1,
                slices: 1,
            },
            "merge 1 begun: keyspace 1, 1 table of level 0 with 1 byte into level 1 in 1 slice, \
             because it was asked for",
        );
        one(
            EventKind::SliceInstalled {
                job: 1,
                slice: 0,
                tables: 1,
                input_bytes: 1,
                written_bytes: 1,
            },
            "slice 0 of merge 1 installed: 1 byte to 1 table with 1 byte",
        );
        one(
            EventKind::MergeEnded {
                job: 1,
                installed: 1,
                slices: 1,
                written_bytes: 1,
                entries: 1,
                predicted_dropped: None,
                dropped: 0,
                setback: false,
            },
            "merge 1 ended with 1 of 1 slice: 1 byte, 0 of 1 entry dropped",
        );
        one(
            EventKind::TablesDeleted { tables: vec![3] },
            "table 3 deleted",
        );
    }
}

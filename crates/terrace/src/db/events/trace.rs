//! The same events for programs that collect with `tracing`, and the two moments of a store that
//! are not background work: its opening and the failure after which it refuses writes. Without a
//! subscriber an event costs the load of one word.

use std::path::Path;

use tracing::{debug, error, info, warn};

use terrace_storage::Escaped;

use crate::db::recover::Recovery;
use crate::event::{Event, EventKind};
use crate::{Durability, Error};

pub(super) fn event(event: &Event) {
    let (number, kind) = (event.number, &event.kind);
    match kind {
        EventKind::SliceBegun { .. } | EventKind::TablesDeleted { .. } => {
            debug!(target: "terrace", number, "{kind}");
        }
        // A close gives slices up; that is no failure.
        EventKind::SliceFailed {
            error: Error::Closed,
            ..
        } => {
            debug!(target: "terrace", number, "{kind}");
        }
        EventKind::SliceFailed { .. }
        | EventKind::StepFailed { .. }
        | EventKind::WritersStopped { .. } => warn!(target: "terrace", number, "{kind}"),
        EventKind::ListenerPanicked { .. } => error!(target: "terrace", number, "{kind}"),
        _ => info!(target: "terrace", number, "{kind}"),
    }
}

pub(crate) fn opened(path: &Path, durability: Durability, recovery: &Recovery) {
    let (arenas, writes) = (recovery.arenas, recovery.writes);
    let is_whole = recovery.dropped.is_none() && recovery.region_loss.is_none();
    let path = Escaped::path(path);
    let clean = recovery.clean_close;
    if is_whole {
        info!(target: "terrace", %path, %durability, clean, arenas, writes, "store opened");
    } else {
        let dropped = recovery.dropped.as_ref();
        let loss = recovery.region_loss.map(tracing::field::display);
        warn!(target: "terrace", %path, arenas, writes, ?dropped, loss, "store opened with losses");
    }
}

pub(crate) fn poisoned(path: &Path, cause: &Error) {
    error!(target: "terrace", path = %Escaped::path(path), %cause, "writes are refused from now on");
}

//! What a store does in the background, a line for each event on standard error.

use std::time::UNIX_EPOCH;

use indicatif::ProgressBar;
use serde_json::json;
use terrace::{Event, EventListener};

/// Tells every event as it comes.
#[derive(Debug)]
pub struct Teller {
    /// Steps aside while a line is written.
    pub bar: ProgressBar,
    pub json: bool,
}

impl EventListener for Teller {
    fn event(&self, event: &Event) {
        let line = if self.json {
            as_json(event)
        } else {
            event.to_string()
        };
        self.bar.suspend(|| eprintln!("{line}"));
    }
}

fn as_json(event: &Event) -> String {
    let since_epoch = event.time.duration_since(UNIX_EPOCH).unwrap_or_default();
    json!({
        "number": event.number,
        "seconds": since_epoch.as_secs_f64(),
        "thread": event.thread,
        "event": event.kind.to_string(),
    })
    .to_string()
}

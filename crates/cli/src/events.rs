//! What a store does in the background, a line for each event on standard error.

use indicatif::ProgressBar;
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
            serde_json::to_string(event).unwrap_or_default()
        } else {
            event.to_string()
        };
        self.bar.suspend(|| eprintln!("{line}"));
    }
}

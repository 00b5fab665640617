//! Background work of a store, a line for each event on standard error.

use indicatif::ProgressBar;
use terrace::{Event, EventListener};

use crate::output::{tell, tell_json};

/// Tells every event as it comes.
#[derive(Debug)]
pub struct Teller {
    /// Steps aside while a line is written.
    pub bar: ProgressBar,
    pub json: bool,
}

impl EventListener for Teller {
    fn event(&self, event: &Event) {
        self.bar.suspend(|| match self.json {
            true => tell_json(event),
            false => tell(event.to_string()),
        });
    }
}

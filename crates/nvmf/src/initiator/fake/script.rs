//! A channel whose controller is a function.

use crate::initiator::connection::{Done, Transfer};
use crate::initiator::error::Result;
use crate::initiator::queue::Channel;
use crate::wire::command::SubmissionEntry;
use crate::wire::completion::CompletionEntry;
use crate::wire::status::Status;

/// The controller's answer: status, result and data.
pub type Reply = (Status, u64, Vec<u8>);

/// A channel that answers by a function, and keeps the commands.
pub struct Script<F> {
    pub commands: Vec<SubmissionEntry>,
    reply: F,
}

impl<F: FnMut(&SubmissionEntry) -> Reply> Script<F> {
    pub fn new(reply: F) -> Self {
        Script {
            commands: Vec::new(),
            reply,
        }
    }
}

impl<F: FnMut(&SubmissionEntry) -> Reply> Channel for Script<F> {
    fn execute(&mut self, entry: SubmissionEntry, _: Transfer) -> Result<Done> {
        self.commands.push(entry);
        let (status, result, data) = (self.reply)(&entry);
        Ok(Done {
            tag: 0,
            completion: CompletionEntry::new(0, 0, status, result),
            data,
        })
    }
}

/// Returns a reply of success.
pub fn number(result: u64) -> Reply {
    (Status::SUCCESS, result, Vec::new())
}

/// Returns a reply of success with data.
pub fn bytes(data: Vec<u8>) -> Reply {
    (Status::SUCCESS, 0, data)
}

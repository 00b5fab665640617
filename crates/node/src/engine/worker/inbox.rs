//! Messages between event loops.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::super::Failure;
use crate::block::Buffer;
use crate::device::Waker;

/// A message to a command of a loop.
pub(super) enum Message {
    /// The command owns its key now.
    KeyIsYours(u32),
    /// Its record is durable, or never will be. The buffer is its own.
    Committed(u32, Result<(), Failure>, Option<Buffer>),
    /// Space may have come free.
    LookForSpace(u32),
    /// No space will come.
    GiveUp(u32),
    /// A duty of the loop may go on.
    Nudge,
}

/// The messages of one loop.
pub(in crate::engine) struct Inbox {
    messages: Mutex<VecDeque<Message>>,
    is_filled: AtomicBool,
    waker: Waker,
}

impl Inbox {
    pub(super) fn new(waker: Waker) -> Self {
        Inbox {
            messages: Mutex::default(),
            is_filled: AtomicBool::new(false),
            waker,
        }
    }

    fn send(&self, message: Message) {
        self.messages.lock().push_back(message);
        // One wake for all that come before the loop looks.
        if !self.is_filled.swap(true, Ordering::AcqRel) {
            self.waker.wake();
        }
    }

    /// Moves the messages to the end of `ready`.
    pub(super) fn take(&self, ready: &mut VecDeque<Message>) {
        if self.is_filled.swap(false, Ordering::AcqRel) {
            ready.append(&mut self.messages.lock());
        }
    }
}

/// A command of some loop that waits for something.
#[derive(Clone)]
pub(in crate::engine) struct Waiter {
    inbox: Arc<Inbox>,
    slot: u32,
}

impl Waiter {
    pub(super) fn new(inbox: &Arc<Inbox>, slot: u32) -> Self {
        Waiter {
            inbox: Arc::clone(inbox),
            slot,
        }
    }

    /// Tells the command that it owns its key.
    pub(in crate::engine) fn own_key(&self) {
        self.inbox.send(Message::KeyIsYours(self.slot));
    }

    /// Tells the command how its record fared.
    pub(in crate::engine) fn committed(&self, result: Result<(), Failure>, buffer: Option<Buffer>) {
        self.inbox
            .send(Message::Committed(self.slot, result, buffer));
    }

    /// Tells the command that no space will come.
    pub(in crate::engine) fn give_up(&self) {
        self.inbox.send(Message::GiveUp(self.slot));
    }

    /// Has the loop look after its duties.
    pub(in crate::engine) fn nudge(&self) {
        self.inbox.send(Message::Nudge);
    }

    /// Returns true if both are the same command.
    pub(in crate::engine) fn is(&self, other: &Waiter) -> bool {
        self.slot == other.slot && Arc::ptr_eq(&self.inbox, &other.inbox)
    }

    /// Has the command look for space again.
    pub(in crate::engine) fn look_again(&self) {
        self.inbox.send(Message::LookForSpace(self.slot));
    }
}

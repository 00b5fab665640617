//! Commands as they come in: judged, begun, and led through the engine's trait.

use std::ops::ControlFlow;
use std::os::fd::BorrowedFd;

use super::super::namespace::Namespace;
use super::super::{Answer, Command, Engine, Event, Failure};
use super::{Active, Waiter, Work, Worker, blocks, commit, retrieve, store};
use crate::block::{BLOCK_BYTES, Buffer};
use crate::device::{Wait, Waker};
use crate::{Error, Key, Result};

impl Worker {
    fn begin_command(&mut self, tag: u64, at: usize, command: Command) {
        let namespace = self.namespace(at);
        let (key, work) = match command {
            Command::Exist { key } => {
                let hash = namespace.index.hash(&key);
                let exists = namespace.has_key(hash, &key);
                let answer = exists.then_some(Answer::Exists);
                return self.done(tag, answer.ok_or(Failure::NotFound));
            }
            Command::List { from, max_keys } => {
                let keys = list(&namespace, from.as_ref(), max_keys);
                return self.done(tag, Ok(Answer::Keys(keys)));
            }
            Command::Store {
                key,
                value_bytes,
                condition,
            } => (key, Work::Store(store::State::new(value_bytes, condition))),
            Command::Retrieve { key, max_bytes } => {
                (key, Work::Retrieve(retrieve::State::new(max_bytes)))
            }
            Command::Delete { key } => (key, Work::Delete(commit::DeleteState::default())),
            Command::Flush => (Key::new(b"-").expect("one byte"), Work::Flush),
            Command::Read { .. } | Command::Write { .. } => {
                return self.done(tag, Err(Failure::NoNamespace));
            }
        };
        let hash = namespace.index.hash(&key);
        let slot = self.commands.add(Active {
            tag,
            namespace: at,
            key,
            hash,
            work,
            failure: None,
        });
        self.by_tag.insert(tag, slot);
        match self.commands.get_mut(slot).map(|active| &active.work) {
            Some(Work::Retrieve(_)) => self.begin_retrieve(slot),
            Some(Work::Flush) => self.begin_flush(slot),
            _ => {
                let waiter = Waiter::new(&self.inbox, slot);
                if namespace.keys.acquire(hash, &key, waiter) {
                    self.key_is_owned(slot);
                }
            }
        }
    }

    fn begin_block_command(&mut self, tag: u64, at: usize, command: &Command) {
        let namespace = &self.node.block_namespaces()[at];
        let begun = match *command {
            Command::Read { first, blocks } => {
                namespace.place(first, blocks).map(blocks::State::read)
            }
            Command::Write {
                first,
                blocks,
                is_durable,
            } => namespace
                .place(first, blocks)
                .and_then(|place| namespace.poison.check().map(|()| place))
                .map(|place| blocks::State::write(place, is_durable)),
            Command::Flush => namespace.poison.check().map(|()| blocks::State::flush()),
            _ => Err(Failure::NoNamespace),
        };
        match begun {
            Ok(state) => self.begin_blocks(tag, at, state),
            Err(failure) => self.done(tag, Err(failure)),
        }
    }
}

impl Engine for Worker {
    fn submit(&mut self, tag: u64, nsid: u32, command: Command) {
        if let Some(at) = self.node.position(nsid) {
            self.begin_command(tag, at, command);
        } else if let Some(at) = self.node.block_position(nsid) {
            self.begin_block_command(tag, at, &command);
        } else {
            self.done(tag, Err(Failure::NoNamespace));
        }
    }

    fn supply(&mut self, tag: u64, buffer: Buffer) {
        let Some(&slot) = self.by_tag.get(&tag) else {
            return self.buffers.put(buffer);
        };
        match self.commands.get_mut(slot).map(|active| &active.work) {
            Some(Work::Blocks(_)) => self.blocks_supplied(slot, buffer),
            _ => self.piece_supplied(slot, buffer),
        }
    }

    fn give_back(&mut self, tag: u64, buffer: Buffer) {
        self.buffers.put(buffer);
        let Some(&slot) = self.by_tag.get(&tag) else {
            return;
        };
        match self.commands.get_mut(slot).map(|active| &mut active.work) {
            Some(Work::Store(state)) => {
                // The caller will not fill it.
                state.wanted.pop_front();
                self.fail_store(slot, Failure::Aborted);
            }
            Some(Work::Retrieve(state)) => {
                state.with_caller = state.with_caller.saturating_sub(1);
                self.read_pieces(slot);
            }
            Some(Work::Blocks(_)) => self.blocks_given_back(slot),
            _ => {}
        }
    }

    fn abort(&mut self, tag: u64) {
        let Some(&slot) = self.by_tag.get(&tag) else {
            return;
        };
        if self.stop_waiting_for_key(slot) {
            return self.finish(slot, Err(Failure::Aborted));
        }
        match self.commands.get_mut(slot).map(|active| &active.work) {
            Some(Work::Store(_)) => self.fail_store(slot, Failure::Aborted),
            Some(Work::Retrieve(_)) => self.fail_retrieve(slot, Failure::Aborted),
            Some(Work::Blocks(_)) => self.fail_blocks(slot, Failure::Aborted),
            _ => {}
        }
    }

    fn poll(&mut self, wait: Wait, events: &mut Vec<Event>) -> Result<()> {
        self.work();
        let may_sleep_elsewhere = wait == Wait::No;
        let wait = if self.events.is_empty() {
            wait
        } else {
            Wait::No
        };
        let mut completions = std::mem::take(&mut self.completions);
        let mut polled = self.device.poll(wait, &mut completions);
        for completion in completions.drain(..) {
            self.completed(completion);
        }
        self.completions = completions;
        // After the device's poll, which ends the readiness that a message brought.
        self.work();
        events.append(&mut self.events);
        if may_sleep_elsewhere && polled.is_ok() {
            polled = self.device.start();
        }
        polled.map_err(|error| Error::io("wait for the device", error))
    }

    fn readiness(&self) -> BorrowedFd<'_> {
        self.device.readiness()
    }

    fn waker(&self) -> Waker {
        self.device.waker()
    }

    fn buffer_bytes(&self) -> usize {
        self.buffers.budget() * BLOCK_BYTES
    }

    fn is_short_of_buffers(&self) -> bool {
        !self.buffer_waiters.is_empty()
    }
}

/// Returns keys in the order of their hashes.
fn list(namespace: &Namespace, from: Option<&Key>, max_keys: usize) -> Vec<Key> {
    let mut keys = Vec::new();
    if max_keys > 0 {
        namespace.index.list(from, |key| {
            keys.push(*key);
            if keys.len() == max_keys {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
    }
    keys
}

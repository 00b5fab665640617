//! The end of a connection, and the times that bring it.

use std::ops::DerefMut;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::action::{Action, Ended};
use super::connection::{Connection, Phase, SLOT_BITS, slot_of};

/// Half of the most time that a discovery controller has between two commands.
const DISCOVERY_MS: u32 = 300_000;

impl<B: DerefMut<Target = [u8]>> Connection<B> {
    /// Takes note of the connection's end. The first reason counts.
    pub fn end(&mut self, reason: Ended) {
        self.ended.get_or_insert(reason);
    }

    /// Gives all buffers back and takes all commands back, after the end. [`Connection::in_flight`]
    /// becomes 0 when the backend has ended them.
    pub fn close(&mut self, actions: &mut Vec<Action<B>>) {
        self.end(Ended::ByHost);
        self.tell_of_end();
        let flights = &mut self.flights;
        self.output.clear(|tag, buffer| {
            actions.push(Action::GiveBack { tag, buffer });
            flights.piece_left(slot_of(tag));
        });
        self.withdraw_all();
        let number = self.number;
        for (slot, flight) in self.flights.iter_mut() {
            let tag = number << SLOT_BITS | u64::from(slot);
            for wanted in flight.wanted.drain(..) {
                let buffer = wanted.buffer;
                // It may lack data.
                actions.push(Action::GiveBack { tag, buffer });
            }
            actions.push(Action::Abort { tag });
        }
        self.registry
            .release(std::mem::take(&mut self.reserved_bytes));
        let Some(controller) = &self.controller else {
            return;
        };
        if self.queue == 0 {
            return self.registry.remove(controller);
        }
        if self.has_number {
            let mut queues = controller.queues.lock();
            queues.connected.remove(&self.queue);
            queues.leaving.insert(self.queue);
        }
        self.give_number_back();
    }

    /// Takes the queue's number. False if another connection has it.
    pub(super) fn take_number(&mut self) -> bool {
        let Some(controller) = self.controller.as_ref().filter(|_| self.queue > 0) else {
            return true;
        };
        if !self.has_number {
            let mut queues = controller.queues.lock();
            let is_free = !queues.leaving.contains(&self.queue);
            self.has_number = is_free && queues.connected.insert(self.queue);
        }
        self.has_number
    }

    /// Lets another connection have the number of a queue that is lost, once the backend has ended all
    /// of its commands: such a command could overtake its own repetition.
    pub(super) fn give_number_back(&mut self) {
        let Some(controller) = self.controller.as_ref().filter(|_| self.has_number) else {
            return;
        };
        if self.flights.len() == 0 && controller.queues.lock().leaving.remove(&self.queue) {
            self.has_number = false;
        }
    }

    /// Ends the connection if its time is over.
    pub fn tick(&mut self, now: Instant, actions: &mut Vec<Action<B>>) {
        self.now = now;
        self.interrupt(actions);
        // The question may lie behind other output. The host hears it later, and is not read meanwhile.
        if std::mem::take(&mut self.has_sent) && !self.output.is_empty() {
            self.flights.ask_anew(now);
        }
        // It has its key and its buffers meanwhile, for which others wait.
        if self.flights.is_late(now, self.settings.transfer) {
            self.end(Ended::Silence);
            return;
        }
        let is_late = now.duration_since(self.began) > self.settings.handshake;
        if is_late && !matches!(self.phase, Phase::Ready) {
            self.end(Ended::Silence);
            return;
        }
        let Some(controller) = &self.controller else {
            return;
        };
        if controller.has_ended() {
            self.end(Ended::ControllerGone);
            return;
        }
        let mut keep_alive = controller.keep_alive_ms.load(Ordering::Relaxed);
        // A host that asks for the log has proved nothing, and may not stay.
        if controller.subsystem.is_none() && !(1..=DISCOVERY_MS).contains(&keep_alive) {
            keep_alive = DISCOVERY_MS;
        }
        // The host sends twice as often; its clock may be slower than this one.
        let limit = Duration::from_millis(u64::from(keep_alive) * 2);
        let is_silent = now.duration_since(self.last_command) > limit;
        if self.queue == 0 && keep_alive > 0 && is_silent {
            self.end(Ended::Silence);
        }
    }
}

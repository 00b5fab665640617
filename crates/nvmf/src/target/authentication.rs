//! Authentication of a queue's host, between Connect and the first other command.

use std::ops::DerefMut;

use super::action::Ended;
use super::connection::{Connection, Phase};
use super::controller::Controller;
use crate::auth::{self, Names, Outcome, Policy, Transfer};
use crate::wire::command::FABRICS;
use crate::wire::fabrics::{AUTHENTICATION_REQUIRED, kind, kind_of};
use crate::wire::{Status, SubmissionEntry, sgl};

/// The most bytes of a message or of the room for one: hosts that are not authenticated get little
/// memory. The capsule of a fabrics command has as much.
const MAX_BYTES: u32 = 8192;

/// Returns whether a command moves messages of authentication.
pub(super) fn is_authentication(entry: &SubmissionEntry) -> bool {
    let kind = kind_of(entry);
    entry.opcode == FABRICS
        && matches!(
            kind,
            kind::AUTHENTICATION_SEND | kind::AUTHENTICATION_RECEIVE
        )
}

impl<B: DerefMut<Target = [u8]>> Connection<B> {
    /// Enters the phase of a queue that has just connected. Returns the bits of Connect's result that
    /// demand authentication.
    pub(super) fn begin_authentication(&mut self, controller: &Controller) -> u32 {
        let subsystem = controller.subsystem.as_ref();
        let guarded =
            subsystem.and_then(|subsystem| Some((subsystem, subsystem.secrets.as_ref()?)));
        let Some((subsystem, secrets)) = guarded else {
            self.enter();
            return 0;
        };
        let names = Names {
            host: controller.host.clone(),
            subsystem: subsystem.nqn.clone(),
        };
        // Connect refuses hosts without secrets. Such a queue would stay in the phase, and useless.
        self.authentication = secrets.get(&controller.host).map(|pair| {
            let challenges = self.registry.challenges.clone();
            let policy = Policy::default();
            Box::new(auth::Controller::new(names, pair, policy, challenges))
        });
        self.phase = Phase::Authenticate;
        AUTHENTICATION_REQUIRED
    }

    /// Takes a message of the host out of the command's capsule.
    pub(super) fn authentication_send(&mut self, entry: &SubmissionEntry) {
        let command_id = entry.command_id.get();
        let Some(mut authentication) = self.authentication.take() else {
            return self.respond(command_id, Status::INVALID_OPCODE, 0);
        };
        let checked = check(entry, sgl::IN_CAPSULE);
        if checked.is_ok() {
            authentication.send(self.capsule());
        }
        let status = checked.err().unwrap_or(Status::SUCCESS);
        self.respond(command_id, status, 0);
        self.conclude(authentication);
    }

    /// Hands the next message to the host. Zeros fill the host's buffer behind the message: hosts of
    /// Linux take the whole buffer for the transfer.
    pub(super) fn authentication_receive(&mut self, entry: &SubmissionEntry) {
        let command_id = entry.command_id.get();
        let Some(mut authentication) = self.authentication.take() else {
            return self.respond(command_id, Status::INVALID_OPCODE, 0);
        };
        let message = check(entry, sgl::TRANSPORT).and_then(|room| {
            let message = authentication.receive(room, &mut rand::rng());
            let mut message = message.map_err(|_| Status::INVALID_FIELD)?;
            message.resize(room, 0);
            Ok(message)
        });
        match message {
            Ok(message) => {
                self.send_data(command_id, &message);
                self.respond(command_id, Status::SUCCESS, 0);
            }
            Err(status) => self.respond(command_id, status, 0),
        }
        self.conclude(authentication);
    }

    /// Makes the connection a queue. Its number is taken only now: a stranger keeps no host
    /// from its queues.
    fn enter(&mut self) {
        self.phase = Phase::Ready;
        if !self.take_number() {
            return self.end(Ended::QueueTaken);
        }
        if !self.take_place() {
            return self.end(Ended::NoRoom);
        }
        self.tell_of_entry();
    }

    /// Enters the phase that a step of authentication leads to, or ends the connection.
    fn conclude(&mut self, authentication: Box<auth::Controller>) {
        let is_ready = matches!(self.phase, Phase::Ready);
        match authentication.outcome() {
            Outcome::Authenticated(_) => self.enter(),
            Outcome::Running => {
                if is_ready {
                    // A new attempt failed, and the host is to fetch the reason in time.
                    self.began = self.last_command;
                }
                self.phase = Phase::Authenticate;
            }
            Outcome::Failed(failure) => {
                // The answer is in the output already. No other command follows it.
                self.phase = Phase::Authenticate;
                self.end(Ended::Unauthenticated(failure));
            }
        }
        self.authentication = Some(authentication);
    }
}

/// Checks the fields of a command whose data pointer must be of the type `pointer`. Returns the bytes
/// of the message, or of the room for one.
fn check(entry: &SubmissionEntry, pointer: u8) -> Result<usize, Status> {
    let transfer = Transfer::from_entry(entry);
    if entry.data.kind != pointer {
        return Err(Status::SGL_TYPE_INVALID);
    }
    if !transfer.is_valid() || transfer.bytes > MAX_BYTES {
        return Err(Status::INVALID_FIELD);
    }
    if transfer.bytes != entry.data.bytes.get() {
        return Err(Status::SGL_LENGTH_INVALID);
    }
    Ok(transfer.bytes as usize)
}

#[cfg(test)]
mod tests;

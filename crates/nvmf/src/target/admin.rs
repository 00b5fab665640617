//! Commands of the admin queue.

use std::ops::DerefMut;
use std::sync::atomic::Ordering;

use super::action::Action;
use super::connection::Connection;
use super::controller::Controller;
use super::identify::{EVENT_REQUESTS, identify, visible};
use super::log::log_page;
use super::subsystem::Kind;
use crate::wire::command::admin;
use crate::wire::features::{
    ASYNC_EVENTS, ERROR_ON_MISSING_DELETE, HOST_ID, KEEP_ALIVE, KEY_VALUE, NUMBER_OF_QUEUES,
};
use crate::wire::{Status, SubmissionEntry, sgl};

/// The namespace number that means all.
const ALL_NAMESPACES: u32 = u32::MAX;

impl<B: DerefMut<Target = [u8]>> Connection<B> {
    pub(super) fn admin_command(
        &mut self,
        entry: &SubmissionEntry,
        used_bytes: &dyn Fn(u32) -> u64,
        actions: &mut Vec<Action<B>>,
    ) {
        let command_id = entry.command_id.get();
        let Some(controller) = self.controller.clone() else {
            return self.respond(command_id, Status::SEQUENCE_ERROR, 0);
        };
        if !controller.is_ready() && entry.opcode != admin::KEEP_ALIVE {
            return self.respond(command_id, Status::SEQUENCE_ERROR, 0);
        }
        let answer = match entry.opcode {
            admin::IDENTIFY => identify(entry, &controller, &self.settings, used_bytes)
                .map(|data| (cut(data, entry), 0)),
            admin::GET_LOG_PAGE => {
                log_page(entry, &controller, &self.registry, self.ports.own).map(|data| (data, 0))
            }
            admin::KEEP_ALIVE => Ok((Vec::new(), 0)),
            admin::ASYNC_EVENT_REQUEST => {
                if self.event_requests.len() < usize::from(EVENT_REQUESTS) {
                    // It stays pending: no event is ever reported.
                    self.event_requests.push(command_id);
                    return;
                }
                Err(Status::TOO_MANY_EVENT_REQUESTS)
            }
            admin::ABORT => Ok((Vec::new(), u64::from(self.abort_command(entry, actions)))),
            admin::SET_FEATURES => self
                .set_feature(entry, &controller)
                .map(|result| (Vec::new(), u64::from(result))),
            admin::GET_FEATURES => self
                .get_feature(entry, &controller)
                .map(|(data, result)| (cut(data, entry), result)),
            _ => Err(Status::INVALID_OPCODE),
        };
        match answer {
            Ok((data, _)) if !data.is_empty() && entry.data.kind != sgl::TRANSPORT => {
                self.respond(command_id, Status::SGL_TYPE_INVALID, 0);
            }
            Ok((data, result)) => {
                self.send_data(command_id, &data);
                self.respond(command_id, Status::SUCCESS, result);
            }
            Err(status) => self.respond(command_id, status, 0),
        }
    }

    /// Takes a command of the admin queue back. Returns 1 if it was not: commands of other queues are
    /// on other connections and are let end.
    fn abort_command(&mut self, entry: &SubmissionEntry, actions: &mut Vec<Action<B>>) -> u32 {
        let (queue, command_id) = (entry.cdw10.get() as u16, (entry.cdw10.get() >> 16) as u16);
        if queue != 0 {
            return 1;
        }
        if let Some(at) = self.event_requests.iter().position(|&id| id == command_id) {
            self.event_requests.remove(at);
            self.respond(command_id, Status::ABORTED, 0);
            return 0;
        }
        u32::from(!self.abort(command_id, actions))
    }

    fn set_feature(&self, entry: &SubmissionEntry, controller: &Controller) -> Result<u32, Status> {
        let (cdw10, value) = (entry.cdw10.get(), entry.cdw11.get());
        let is_to_be_saved = cdw10 >> 31 != 0;
        if is_to_be_saved {
            return Err(Status::FEATURE_NOT_SAVEABLE);
        }
        match cdw10 as u8 {
            NUMBER_OF_QUEUES => self.number_of_queues(value),
            ASYNC_EVENTS => Ok(0),
            KEEP_ALIVE => {
                controller.keep_alive_ms.store(value, Ordering::Relaxed);
                Ok(0)
            }
            KEY_VALUE => {
                let is_strict = match value {
                    0 => false,
                    ERROR_ON_MISSING_DELETE => true,
                    _ => return Err(Status::INVALID_FIELD),
                };
                for nsid in key_namespaces(entry.nsid.get(), controller)? {
                    let mut strict = controller.strict_deletes.lock();
                    if is_strict {
                        strict.insert(nsid);
                    } else {
                        strict.remove(&nsid);
                    }
                }
                Ok(0)
            }
            // Connect has set it.
            HOST_ID => Err(Status::SEQUENCE_ERROR),
            _ => Err(Status::INVALID_FIELD),
        }
    }

    /// Grants queues, as many as the host asks for within the limit. Both numbers are 0's based.
    fn number_of_queues(&self, asked: u32) -> Result<u32, Status> {
        let (submission, completion) = (asked & 0xffff, asked >> 16);
        if submission == 0xffff || completion == 0xffff {
            return Err(Status::INVALID_FIELD);
        }
        let most = u32::from(self.settings.max_queues) - 1;
        Ok(submission.min(most) | completion.min(most) << 16)
    }

    fn get_feature(
        &self,
        entry: &SubmissionEntry,
        controller: &Controller,
    ) -> Result<(Vec<u8>, u64), Status> {
        let cdw10 = entry.cdw10.get();
        let select = cdw10 >> 8 & 0b111;
        if select > 1 {
            return Err(Status::INVALID_FIELD);
        }
        let is_default = select == 1;
        let value = match cdw10 as u8 {
            NUMBER_OF_QUEUES => {
                let most = u32::from(self.settings.max_queues) - 1;
                most | most << 16
            }
            ASYNC_EVENTS => 0,
            KEEP_ALIVE => controller.keep_alive_ms.load(Ordering::Relaxed),
            HOST_ID => return Ok((controller.host_id.to_vec(), 0)),
            KEY_VALUE => {
                let mut numbers = key_namespaces(entry.nsid.get(), controller)?.into_iter();
                let strict = controller.strict_deletes.lock();
                u32::from(!is_default && numbers.all(|nsid| strict.contains(&nsid)))
            }
            _ => return Err(Status::INVALID_FIELD),
        };
        Ok((Vec::new(), u64::from(value)))
    }
}

/// Returns the numbers of the namespaces of keys that a command means.
fn key_namespaces(nsid: u32, controller: &Controller) -> Result<Vec<u32>, Status> {
    let subsystem = controller.subsystem.as_ref().ok_or(Status::INVALID_FIELD)?;
    let of_keys = visible(subsystem, controller)
        .filter(|namespace| matches!(namespace.kind, Kind::Keys { .. }))
        .map(|namespace| namespace.nsid);
    let meant: Vec<u32> = of_keys
        .filter(|&number| nsid == ALL_NAMESPACES || number == nsid)
        .collect();
    match meant.is_empty() {
        true => Err(Status::INVALID_NAMESPACE),
        false => Ok(meant),
    }
}

/// Cuts data to the bytes that the host takes.
fn cut(mut data: Vec<u8>, entry: &SubmissionEntry) -> Vec<u8> {
    data.truncate(entry.data.bytes.get() as usize);
    data
}

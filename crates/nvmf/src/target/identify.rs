//! Answers to Identify.

use zerocopy::IntoBytes;

use super::controller::Controller;
use super::settings::Settings;
use super::subsystem::{Kind, Namespace, Subsystem};
use crate::wire::fabrics::DISCOVERY_NQN;
use crate::wire::identify::{
    AnyNamespace, BlockNamespace, Controller as ControllerBytes, Descriptors, IDENTIFY_BYTES,
    KIND_DISCOVERY, KIND_IO, KeyNamespace, SGL_SUPPORT, cns, descriptor, empty, namespace_list,
};
use crate::wire::properties::VERSION_2_0;
use crate::wire::{Status, SubmissionEntry, fill_text, kv};

/// Returns the structure that a command asks for.
pub(super) fn identify(
    entry: &SubmissionEntry,
    controller: &Controller,
    settings: &Settings,
    used_bytes: impl Fn(u32) -> u64,
) -> Result<Vec<u8>, Status> {
    let (what, command_set) = (entry.cdw10.get() as u8, (entry.cdw11.get() >> 24) as u8);
    if what == cns::CONTROLLER {
        return Ok(of_controller(controller, settings).as_bytes().to_vec());
    }
    let subsystem = controller.subsystem.as_ref();
    let subsystem = subsystem.ok_or(Status::INVALID_FIELD)?;
    let nsid = entry.nsid.get();
    let numbers = |is_wanted: &dyn Fn(&Namespace) -> bool| {
        let visible = visible(subsystem, controller).filter(|namespace| is_wanted(namespace));
        namespace_list(visible.map(|namespace| namespace.nsid), nsid)
    };
    let find = || {
        let mut visible = visible(subsystem, controller);
        let found = visible.find(|namespace| namespace.nsid == nsid);
        found.ok_or(Status::INVALID_NAMESPACE)
    };
    match (what, command_set) {
        (cns::ACTIVE_NAMESPACES, _) => Ok(numbers(&|_| true)),
        (cns::ACTIVE_NAMESPACES_OF_SET, set) => {
            Ok(numbers(&|namespace| namespace.command_set() == set))
        }
        (cns::NAMESPACE, _) => Ok(as_blocks(find()?, used_bytes(nsid))),
        (cns::NAMESPACE_OF_SET, set) => {
            let namespace = find()?;
            match namespace.kind {
                Kind::Keys {
                    max_value_bytes,
                    max_keys,
                } if set == kv::COMMAND_SET => {
                    let used = used_bytes(nsid);
                    Ok(as_keys(namespace, used, max_value_bytes, max_keys))
                }
                Kind::Blocks { .. } if set == 0 => Ok(vec![0; IDENTIFY_BYTES]),
                _ => Err(Status::INVALID_FIELD),
            }
        }
        (cns::CONTROLLER_OF_SET, 0 | kv::COMMAND_SET) => Ok(vec![0; IDENTIFY_BYTES]),
        (cns::DESCRIPTORS, _) => Ok(descriptors(find()?)),
        (cns::NAMESPACE_OF_ANY_SET, _) => {
            find()?;
            let mut bytes: AnyNamespace = empty();
            (bytes.sharing, bytes.status) = (1, 1);
            Ok(bytes.as_bytes().to_vec())
        }
        (cns::COMMAND_SETS, _) => {
            let mut bytes = vec![0; IDENTIFY_BYTES];
            bytes[0] = 0b11;
            Ok(bytes)
        }
        _ => Err(Status::INVALID_FIELD),
    }
}

/// Iterates over the namespaces that the host can use: without the choice of all command sets it
/// knows of blocks alone.
pub(super) fn visible<'a>(
    subsystem: &'a Subsystem,
    controller: &Controller,
) -> impl Iterator<Item = &'a Namespace> {
    let knows_keys = controller.knows_keys();
    let is_known = move |namespace: &&Namespace| knows_keys || namespace.command_set() == 0;
    subsystem.namespaces.iter().filter(is_known)
}

fn of_controller(controller: &Controller, settings: &Settings) -> ControllerBytes {
    let mut bytes: ControllerBytes = empty();
    bytes.controller_id = controller.id.into();
    bytes.version = VERSION_2_0.into();
    bytes.keep_alive_granularity = 10.into();
    bytes.submission_sizes = 0x66;
    bytes.completion_sizes = 0x44;
    bytes.max_commands = settings.queue_entries.into();
    bytes.sgl = SGL_SUPPORT.into();
    bytes.attributes = 1.into();
    // Hosts need the limit: without it they send values in one piece that the target refuses.
    bytes.max_transfer = settings.max_transfer_shift.saturating_sub(12);
    bytes.command_capsule = ((64 + settings.capsule_data_bytes) / 16).into();
    bytes.response_capsule = 1.into();
    bytes.max_descriptors = 1;
    (bytes.abort_limit, bytes.event_limit) = (3, EVENT_REQUESTS - 1);
    // Extended data of Get Log Page, and effects by command set.
    bytes.log_attributes = 1 << 2 | 1 << 1;
    let Some(subsystem) = &controller.subsystem else {
        bytes.kind = KIND_DISCOVERY;
        bytes.namespaces = 0.into();
        fill_text(&mut bytes.serial, "discovery", b' ');
        fill_text(&mut bytes.model, "discovery", b' ');
        fill_text(&mut bytes.firmware, "", b' ');
        fill_text(&mut bytes.subsystem, DISCOVERY_NQN, 0);
        return bytes;
    };
    bytes.kind = KIND_IO;
    let numbers = subsystem.namespaces.iter().map(|namespace| namespace.nsid);
    bytes.namespaces = numbers.max().unwrap_or(1).into();
    bytes.max_namespaces = bytes.namespaces;
    // Blocks that a host wrote are durable after a flush.
    bytes.write_cache = u8::from(subsystem.has_blocks());
    fill_text(&mut bytes.serial, &subsystem.serial, b' ');
    fill_text(&mut bytes.model, &subsystem.model, b' ');
    fill_text(&mut bytes.firmware, &subsystem.firmware, b' ');
    fill_text(&mut bytes.subsystem, &subsystem.nqn, 0);
    bytes
}

/// Event requests that a controller keeps.
pub(super) const EVENT_REQUESTS: u8 = 4;

/// Returns a namespace as the NVM command set has it. One of keys gets sizes as well: hosts of SPDK ask
/// for them and take zeros for a namespace that is not there.
fn as_blocks(namespace: &Namespace, used_bytes: u64) -> Vec<u8> {
    let shift = match namespace.kind {
        Kind::Blocks { block_shift } => block_shift,
        Kind::Keys { .. } => 12,
    };
    let blocks = (namespace.bytes >> shift).max(1);
    let mut bytes: BlockNamespace = empty();
    bytes.size = blocks.into();
    bytes.capacity = blocks.into();
    bytes.used = match namespace.kind {
        Kind::Blocks { .. } => blocks,
        Kind::Keys { .. } => used_bytes >> shift,
    }
    .into();
    bytes.sharing = 1;
    bytes.nguid = namespace.uuid;
    bytes.block_format = [0, 0, shift, 0];
    bytes.as_bytes().to_vec()
}

fn as_keys(namespace: &Namespace, used: u64, max_value_bytes: u32, max_keys: u32) -> Vec<u8> {
    let mut bytes: KeyNamespace = empty();
    bytes.size = namespace.bytes.into();
    bytes.used = used.into();
    bytes.sharing = 1;
    bytes.nguid = namespace.uuid;
    bytes.format.max_key = (kv::MAX_KEY_BYTES as u16).into();
    bytes.format.max_value = max_value_bytes.into();
    bytes.format.max_keys = max_keys.into();
    bytes.as_bytes().to_vec()
}

fn descriptors(namespace: &Namespace) -> Vec<u8> {
    let mut descriptors = Descriptors::default();
    descriptors.push(descriptor::NGUID, &namespace.uuid);
    descriptors.push(descriptor::UUID, &namespace.uuid);
    descriptors.push(descriptor::COMMAND_SET, &[namespace.command_set()]);
    descriptors.into_bytes()
}

//! The namespaces of a controller.

use super::{Controller, read};
use crate::initiator::error::{Error, Result};
use crate::initiator::queue::Channel;
use crate::wire::identify::{self, IDENTIFY_BYTES, cns};

/// The most lists of namespaces to read, of 1024 each: a hostile controller must not fill memory.
const MAX_LISTS: usize = 64;

impl<C: Channel> Controller<C> {
    /// Returns the numbers of the active namespaces, in ascending order.
    ///
    /// # Errors
    /// The controller refuses, or its list is not ascending.
    pub fn namespaces(&mut self) -> Result<Vec<u32>> {
        let mut numbers: Vec<u32> = Vec::new();
        for _ in 0..MAX_LISTS {
            let after = numbers.last().copied().unwrap_or(0);
            let list = self.identify(cns::ACTIVE_NAMESPACES, after, 0)?;
            let (words, _) = list.as_chunks::<4>();
            let listed = words.iter().map(|word| u32::from_le_bytes(*word));
            let before = numbers.len();
            for number in listed.take_while(|&number| number != 0) {
                if numbers.last().is_some_and(|&last| number <= last) {
                    return Err(Error::Malformed("list of namespaces"));
                }
                numbers.push(number);
            }
            if numbers.len() - before < IDENTIFY_BYTES / 4 {
                return Ok(numbers);
            }
        }
        Err(Error::Malformed("list of namespaces"))
    }

    /// Returns the identifiers of a namespace: kind and bytes of each.
    ///
    /// # Errors
    /// The controller refuses.
    pub fn descriptors(&mut self, nsid: u32) -> Result<Vec<(u8, Vec<u8>)>> {
        let data = self.identify(cns::DESCRIPTORS, nsid, 0)?;
        let descriptors = identify::descriptors(&data);
        Ok(descriptors.map(|(kind, id)| (kind, id.to_vec())).collect())
    }

    /// Returns the command set of a namespace; blocks if the controller does not say.
    ///
    /// # Errors
    /// The controller refuses.
    pub fn command_set(&mut self, nsid: u32) -> Result<u8> {
        let descriptors = self.descriptors(nsid)?;
        let set = descriptors
            .iter()
            .find(|(kind, _)| *kind == identify::descriptor::COMMAND_SET);
        Ok(set.and_then(|(_, id)| id.first().copied()).unwrap_or(0))
    }

    /// Returns a namespace of keys.
    ///
    /// # Errors
    /// The controller refuses.
    pub fn key_namespace(&mut self, nsid: u32) -> Result<Box<identify::KeyNamespace>> {
        let set = crate::wire::kv::COMMAND_SET;
        let data = self.identify(cns::NAMESPACE_OF_SET, nsid, set)?;
        read(&data).map(Box::new)
    }

    /// Returns a namespace of blocks.
    ///
    /// # Errors
    /// The controller refuses.
    pub fn block_namespace(&mut self, nsid: u32) -> Result<Box<identify::BlockNamespace>> {
        let data = self.identify(cns::NAMESPACE, nsid, 0)?;
        read(&data).map(Box::new)
    }

    /// Returns a namespace apart from its command set.
    ///
    /// # Errors
    /// The controller refuses.
    pub fn any_namespace(&mut self, nsid: u32) -> Result<Box<identify::AnyNamespace>> {
        let data = self.identify(cns::NAMESPACE_OF_ANY_SET, nsid, 0)?;
        read(&data).map(Box::new)
    }
}

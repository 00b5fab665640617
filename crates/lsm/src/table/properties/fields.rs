//! Parses a footer into its numbered fields, and refuses a wrong order.

use std::collections::BTreeMap;

use super::{FooterFault, field};
use crate::coding::Decoder;
use crate::key::InternalKey;
use crate::table::format::Malformed;

/// The fields of a footer by number.
pub(super) struct Fields<'a> {
    by_number: BTreeMap<u64, &'a [u8]>,
}

impl<'a> Fields<'a> {
    pub(super) fn parse(contents: &'a [u8]) -> Result<Self, FooterFault> {
        let mut by_number = BTreeMap::new();
        let mut last = 0;
        let mut decoder = Decoder::new(contents);
        while !decoder.is_empty() {
            let position = contents.len() - decoder.rest().len();
            let fault = |detail| FooterFault::Malformed(Malformed::new(position, detail));
            let (tag, bytes) = decoder
                .varint()
                .zip(decoder.bytes())
                .ok_or(fault("a field of the footer is cut short"))?;
            let (number, skippable) = (tag >> 1, tag & 1 == 1);
            if number <= last {
                return Err(fault("the fields of the footer are out of order"));
            }
            if number > field::LAST_KNOWN && !skippable {
                return Err(FooterFault::UnknownField(number));
            }
            by_number.insert(number, bytes);
            last = number;
        }
        Ok(Fields { by_number })
    }

    pub(super) fn get(&self, number: u64) -> Option<&'a [u8]> {
        self.by_number.get(&number).copied()
    }

    pub(super) fn number(&self, number: u64) -> Option<u64> {
        let mut decoder = Decoder::new(self.get(number)?);
        let value = decoder.varint()?;
        decoder.is_empty().then_some(value)
    }

    pub(super) fn key(&self, number: u64) -> Option<Vec<u8>> {
        let bytes = self.get(number)?;
        InternalKey::decode(bytes).map(|_| bytes.to_vec())
    }
}

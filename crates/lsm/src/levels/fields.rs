//! Tagged fields, of which manifest records are made, so that later versions can add to them.
//!
//! A field is `varint(tag << 1 | skippable)`, `varint(length)`, and that many bytes. A reader that
//! does not know a tag refuses the record unless the field is marked skippable.

use crate::coding::{Decoder, put_bytes, put_varint, varint_length};

/// Appends fields to a buffer.
#[derive(Debug, Default)]
pub(super) struct FieldWriter {
    bytes: Vec<u8>,
}

impl FieldWriter {
    pub(super) fn bytes(&mut self, tag: u32, bytes: &[u8]) {
        put_varint(&mut self.bytes, u64::from(tag) << 1);
        put_bytes(&mut self.bytes, bytes);
    }

    pub(super) fn number(&mut self, tag: u32, value: u64) {
        put_varint(&mut self.bytes, u64::from(tag) << 1);
        put_varint(&mut self.bytes, varint_length(value) as u64);
        put_varint(&mut self.bytes, value);
    }

    /// Writes a number that a reader may skip if it does not know the tag.
    pub(super) fn skippable_number(&mut self, tag: u32, value: u64) {
        put_varint(&mut self.bytes, u64::from(tag) << 1 | 1);
        put_varint(&mut self.bytes, varint_length(value) as u64);
        put_varint(&mut self.bytes, value);
    }

    /// Writes bytes that a reader may skip if it does not know the tag.
    pub(super) fn skippable_bytes(&mut self, tag: u32, bytes: &[u8]) {
        put_varint(&mut self.bytes, u64::from(tag) << 1 | 1);
        put_bytes(&mut self.bytes, bytes);
    }

    pub(super) fn optional_number(&mut self, tag: u32, value: Option<u64>) {
        if let Some(value) = value {
            self.number(tag, value);
        }
    }

    /// Writes a field that holds fields.
    pub(super) fn nested(&mut self, tag: u32, write: impl FnOnce(&mut FieldWriter)) {
        let mut inner = FieldWriter::default();
        write(&mut inner);
        self.bytes(tag, &inner.bytes);
    }

    /// Writes a field of fields that a reader may skip if it does not know the tag.
    pub(super) fn skippable_nested(&mut self, tag: u32, write: impl FnOnce(&mut FieldWriter)) {
        let mut inner = FieldWriter::default();
        write(&mut inner);
        put_varint(&mut self.bytes, u64::from(tag) << 1 | 1);
        put_bytes(&mut self.bytes, &inner.bytes);
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// Why a field cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FieldError {
    Malformed(String),
    /// A later version's.
    Unknown(String),
}

/// One field as it was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field<'a> {
    pub(super) tag: u32,
    skippable: bool,
    bytes: &'a [u8],
    what: &'static str,
}

impl<'a> Field<'a> {
    pub(super) fn malformed(&self) -> FieldError {
        FieldError::Malformed(format!("field {} of {} is malformed", self.tag, self.what))
    }

    /// Returns the bytes of the field.
    pub(super) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    pub(super) fn number(&self) -> Result<u64, FieldError> {
        let mut decoder = Decoder::new(self.bytes);
        decoder
            .varint()
            .filter(|_| decoder.is_empty())
            .ok_or_else(|| self.malformed())
    }

    pub(super) fn number_as<N: TryFrom<u64>>(&self) -> Result<N, FieldError> {
        N::try_from(self.number()?).map_err(|_| self.malformed())
    }

    /// Refuses a tag that is not known, unless the field may be skipped.
    pub(super) fn unknown(&self) -> Result<(), FieldError> {
        if self.tag != 0 && self.skippable {
            return Ok(());
        }
        Err(FieldError::Unknown(format!(
            "field {} of {}",
            self.tag, self.what
        )))
    }
}

/// Reads fields from untrusted bytes.
pub(super) struct Fields<'a> {
    decoder: Decoder<'a>,
    what: &'static str,
}

impl<'a> Fields<'a> {
    pub(super) fn new(bytes: &'a [u8], what: &'static str) -> Self {
        Fields {
            decoder: Decoder::new(bytes),
            what,
        }
    }

    fn field(&mut self) -> Option<Field<'a>> {
        let head = self.decoder.varint()?;
        Some(Field {
            tag: u32::try_from(head >> 1).ok()?,
            skippable: head & 1 == 1,
            bytes: self.decoder.bytes()?,
            what: self.what,
        })
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, FieldError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.decoder.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.decoder = Decoder::new(&[]);
        }
        Some(
            field.ok_or_else(|| {
                FieldError::Malformed(format!("a field of {} is cut short", self.what))
            }),
        )
    }
}

/// The fields of one nested structure, each at most once.
pub(super) struct Group<'a> {
    fields: Vec<Field<'a>>,
    what: &'static str,
}

impl<'a> Group<'a> {
    /// Reads all fields in `outer`; the tags from 1 to `largest_tag` are known.
    pub(super) fn read(
        outer: Field<'a>,
        what: &'static str,
        largest_tag: u32,
    ) -> Result<Self, FieldError> {
        Group::read_known(outer, what, |tag| (1..=largest_tag).contains(&tag))
    }

    /// Reads all fields in `outer`; the tags for which `is_known` holds are known.
    pub(super) fn read_known(
        outer: Field<'a>,
        what: &'static str,
        is_known: impl Fn(u32) -> bool,
    ) -> Result<Self, FieldError> {
        let mut fields = Vec::<Field<'a>>::new();
        for field in Fields::new(outer.bytes, what) {
            let field = field?;
            if !is_known(field.tag) {
                field.unknown()?;
            } else if fields.iter().any(|earlier| earlier.tag == field.tag) {
                return Err(field.malformed());
            } else {
                fields.push(field);
            }
        }
        Ok(Group { fields, what })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    fn field(&self, tag: u32) -> Option<&Field<'a>> {
        self.fields.iter().find(|field| field.tag == tag)
    }

    fn required(&self, tag: u32) -> Result<&Field<'a>, FieldError> {
        self.field(tag)
            .ok_or_else(|| FieldError::Malformed(format!("{} has no field {tag}", self.what)))
    }

    pub(super) fn bytes(&self, tag: u32) -> Result<&'a [u8], FieldError> {
        Ok(self.required(tag)?.bytes)
    }

    pub(super) fn bytes_if_present(&self, tag: u32) -> Option<&'a [u8]> {
        self.field(tag).map(|field| field.bytes)
    }

    pub(super) fn number<N: TryFrom<u64>>(&self, tag: u32) -> Result<N, FieldError> {
        self.required(tag)?.number_as()
    }

    /// Reads a number that is never 0.
    pub(super) fn nonzero<N: TryFrom<u64>>(&self, tag: u32) -> Result<N, FieldError> {
        let field = self.required(tag)?;
        if field.number()? == 0 {
            return Err(field.malformed());
        }
        field.number_as()
    }

    /// Reads a number that is never 0 where it is present; 0 where it is absent.
    pub(super) fn optional(&self, tag: u32) -> Result<u64, FieldError> {
        match self.field(tag) {
            None => Ok(0),
            Some(_) => self.nonzero(tag),
        }
    }

    pub(super) fn number_if_present(&self, tag: u32) -> Result<Option<u64>, FieldError> {
        self.field(tag).map(|field| field.number()).transpose()
    }

    /// Reads a flag: present with the value 1, or absent.
    pub(super) fn flag(&self, tag: u32) -> Result<bool, FieldError> {
        match self.field(tag) {
            None => Ok(false),
            Some(field) if field.number()? == 1 => Ok(true),
            Some(field) => Err(field.malformed()),
        }
    }

    pub(super) fn malformed(&self, tag: u32) -> FieldError {
        FieldError::Malformed(format!("field {tag} of {} is malformed", self.what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_tag_is_refused_unless_it_may_be_skipped() {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, 900 << 1);
        put_bytes(&mut bytes, b"later");
        put_varint(&mut bytes, 901 << 1 | 1);
        put_bytes(&mut bytes, b"later");
        let fields: Vec<_> = Fields::new(&bytes, "test").map(Result::unwrap).collect();
        assert_eq!(
            fields[0].unknown(),
            Err(FieldError::Unknown("field 900 of test".to_owned()))
        );
        assert_eq!((fields[1].tag, fields[1].unknown()), (901, Ok(())));
        assert!(
            Fields::new(&[1, 0], "test")
                .next()
                .unwrap()
                .unwrap()
                .unknown()
                .is_err()
        );
    }

    #[test]
    fn every_cut_inside_a_field_is_noticed() {
        let mut writer = FieldWriter::default();
        writer.number(3, 70_000);
        let bytes = writer.finish();
        for cut in 1..bytes.len() {
            let mut fields = Fields::new(&bytes[..cut], "test");
            assert!(fields.next().unwrap().is_err());
            assert!(fields.next().is_none());
        }
        let field = Fields::new(&bytes, "test").next().unwrap().unwrap();
        assert_eq!(field.number(), Ok(70_000));
        assert!(field.number_as::<u8>().is_err());
    }
}

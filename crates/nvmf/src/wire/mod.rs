//! The bytes of the specifications: structures, numbers and checksums.

pub mod command;
pub mod completion;
pub mod digest;
pub mod discovery;
pub mod fabrics;
pub mod features;
pub mod identify;
pub mod kv;
pub mod log;
pub mod pdu;
pub mod properties;
pub mod sgl;
pub mod status;

pub use self::command::SubmissionEntry;
pub use self::completion::CompletionEntry;
pub use self::status::Status;

/// Fills `field` with `text`, padded by `padding`. Text that is too long is cut off.
pub(crate) fn fill_text(field: &mut [u8], text: &str, padding: u8) {
    let bytes = text.as_bytes();
    let length = bytes.len().min(field.len());
    field.fill(padding);
    field[..length].copy_from_slice(&bytes[..length]);
}

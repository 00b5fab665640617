//! Reads and writes that go on until all bytes are moved.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Returns true if an operation that failed so is simply repeated.
pub(super) fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock
    )
}

/// Returns the error of a read that met the end.
pub(super) fn end_met(offset: u64) -> io::Error {
    let what = format!("the device ends at byte {offset}, before its size");
    io::Error::new(io::ErrorKind::UnexpectedEof, what)
}

/// Returns the error of a write that moved nothing.
pub(super) fn nothing_written(offset: u64) -> io::Error {
    let what = format!("no byte is accepted at byte {offset}");
    io::Error::new(io::ErrorKind::WriteZero, what)
}

/// Reads up to the end of the file; returns the number of bytes.
pub(super) fn read_up_to(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < bytes.len() {
        match file.read_at(&mut bytes[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Fills `bytes`.
pub(super) fn read_full(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    let done = read_up_to(file, bytes, offset)?;
    if done < bytes.len() {
        return Err(end_met(offset + done as u64));
    }
    Ok(())
}

/// Writes all of `bytes`.
pub(super) fn write_full(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match file.write_at(&bytes[done..], offset + done as u64) {
            Ok(0) => return Err(nothing_written(offset + done as u64)),
            Ok(count) => done += count,
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Makes durable all writes of the file that have completed.
pub(super) fn flush(file: &File) -> io::Result<()> {
    loop {
        match file.sync_data() {
            Err(error) if is_passing(&error) => {}
            result => return result,
        }
    }
}

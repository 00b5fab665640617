//! Damaged files, kept under names at which no store looks.
//!
//! A table gets a second name: it is never changed, and the store removes its own name only. An arena
//! is copied, since its file is used again.

use std::path::{Path, PathBuf};

use terrace_storage::{ErrorKind, OpenMode, OpenOptions, Purpose, Storage};

use super::arenas::ArenasFound;
use super::report::RepairReport;
use super::site::Site;
use super::state::Basis;
use super::tables::Examined;
use crate::Result;
use crate::db::files;
use crate::levels::{manifest_file_name, manifests};
use crate::table::table_path;

const PART_BYTES: usize = 1 << 20;

impl Site {
    /// Before the commit: keeps what will be thrown away after it.
    pub(super) fn put_aside(
        &self,
        basis: &Basis,
        tables: &Examined,
        arenas: &ArenasFound,
        report: &mut RepairReport,
    ) -> Result<()> {
        for (damaged, told) in tables.damaged.iter().zip(&mut report.damaged) {
            if damaged.is_there {
                told.kept_as = Some(self.link_aside(&table_path(&self.path, damaged.number))?);
            }
        }
        for file in &arenas.files_left {
            self.keep_aside(file)?;
        }
        if basis.manifest.is_err() {
            for number in manifests(&*self.storage, &self.path)? {
                self.link_aside(&self.path.join(manifest_file_name(number)))?;
            }
        }
        self.storage.sync_directory(&self.path)?;
        Ok(())
    }

    /// Whether a file has been put aside.
    pub(super) fn is_aside(&self, file: &Path) -> bool {
        self.same_bytes(file, &name_aside(file, 1)).unwrap_or(false)
    }

    fn link_aside(&self, file: &Path) -> Result<PathBuf> {
        let (aside, is_there) = self.free_name(file)?;
        if !is_there && self.storage.link(file, &aside).is_err() {
            self.copy(file, &aside)?;
        }
        Ok(aside)
    }

    /// Copies a file, if it is there.
    pub(super) fn keep_aside(&self, file: &Path) -> Result<()> {
        if self.length_bytes(file)?.is_none() {
            // A device of another kind has no files, and one may be gone.
            return Ok(());
        }
        let (aside, is_there) = self.free_name(file)?;
        if !is_there {
            self.copy(file, &aside)?;
        }
        if let Some(directory) = aside.parent() {
            self.storage.sync_directory(directory)?;
        }
        Ok(())
    }

    /// A name that is free, or that of the same bytes: an earlier repair has come so far.
    fn free_name(&self, file: &Path) -> Result<(PathBuf, bool)> {
        let mut number = 1;
        loop {
            let name = name_aside(file, number);
            if self.length_bytes(&name)?.is_none() {
                return Ok((name, false));
            }
            if self.same_bytes(file, &name)? {
                return Ok((name, true));
            }
            number += 1;
        }
    }

    fn length_bytes(&self, path: &Path) -> Result<Option<u64>> {
        match self
            .storage
            .open(path, OpenOptions::buffered(OpenMode::Read))
        {
            Ok(file) => Ok(Some(file.length_bytes()?)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn same_bytes(&self, one: &Path, other: &Path) -> Result<bool> {
        let open = |path| {
            self.storage
                .open(path, OpenOptions::buffered(OpenMode::Read))
        };
        let (one, other) = (open(one)?, open(other)?);
        let length_bytes = one.length_bytes()?;
        if other.length_bytes()? != length_bytes {
            return Ok(false);
        }
        for (offset, bytes) in parts(length_bytes) {
            let read = |file: &dyn terrace_storage::File| {
                file.read_vec_at(bytes, offset, Purpose::Recovery)
            };
            if read(&*one)? != read(&*other)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn copy(&self, from: &Path, to: &Path) -> Result<()> {
        let source = self
            .storage
            .open(from, OpenOptions::buffered(OpenMode::Read))?;
        let copy = OpenOptions::buffered(OpenMode::CreateNew);
        let copy = self.storage.open(to, copy)?;
        let copied = parts(source.length_bytes()?).try_for_each(|(offset, bytes)| {
            let bytes = source.read_vec_at(bytes, offset, Purpose::Recovery)?;
            copy.write_at(&bytes, offset, Purpose::Recovery)
        });
        if let Err(error) = copied.and_then(|()| copy.sync(Purpose::Recovery)) {
            // Half a copy would be taken for another file's.
            let _ = self.storage.remove(to);
            return Err(error.into());
        }
        Ok(())
    }
}

/// Offsets and lengths that make up a file.
fn parts(length_bytes: u64) -> impl Iterator<Item = (u64, usize)> {
    let offsets = (0..length_bytes).step_by(PART_BYTES);
    offsets.map(move |offset| {
        let rest = usize::try_from(length_bytes - offset).unwrap_or(usize::MAX);
        (offset, rest.min(PART_BYTES))
    })
}

fn name_aside(file: &Path, number: u32) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(files::DAMAGED);
    if number > 1 {
        name.push(format!("-{number}"));
    }
    name.into()
}

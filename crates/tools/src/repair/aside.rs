//! Damaged files, kept under names at which no store looks.
//!
//! A table gets a second name: it is never changed, and the store removes its own name only. An arena
//! is copied, since its file is used again.

use terrace::Result;
use terrace::offline::files;
use terrace_lsm::data_files::{FileId, Stage};
use terrace_lsm::levels::{manifest_file_name, manifests};
use terrace_storage::{Directory, ErrorKind, OpenMode, OpenOptions, Purpose};

use super::arenas::ArenasFound;
use super::report::{LeftFile, RepairReport};
use super::site::Site;
use super::state::Basis;
use super::tables::Examined;

const PART_BYTES: usize = 1 << 20;

impl Site {
    /// Keeps, before the commit, the files that will be thrown away after it.
    pub(super) fn put_aside(
        &self,
        basis: &Basis,
        tables: &Examined,
        arenas: &ArenasFound,
        report: &mut RepairReport,
    ) -> Result<()> {
        for (damaged, told) in tables.damaged.iter().zip(&mut report.damaged) {
            if damaged.is_there {
                let (directory, name) = self.data.at(damaged.placed)?;
                let aside = link_aside(&*directory, &name)?;
                told.kept_as = Some(directory.shown(&aside));
            }
        }
        for (left, told) in arenas.damaged.iter().zip(&mut report.left) {
            let (directory, name) = self.located(&left.file);
            let aside = self.keep_aside(directory, name)?;
            told.kept_as = aside.map(|aside| directory.shown(&aside));
        }
        for left in &mut report.left {
            if left.is_endangered() {
                self.keep_endangered(left)?;
            }
        }
        if basis.manifest.is_err() && !basis.is_extended {
            for number in manifests(&*self.directory)? {
                link_aside(&*self.directory, &manifest_file_name(number))?;
            }
        }
        self.data.sync()?;
        self.directory.sync()?;
        Ok(())
    }

    /// Keeps the bytes of a file that keeps its name or gets another one only after the commit. An arena's
    /// may be overwritten, so they are copied. A table of another release gets a second name under which
    /// that release can take it in.
    fn keep_endangered(&self, left: &mut LeftFile) -> Result<()> {
        let (directory, name) = self.located(&left.file);
        let aside = match files::table_number(name) {
            Some(number) => Some(self.link_unlisted(number)?),
            None => self.keep_aside(directory, name)?,
        };
        if left.stays() {
            left.kept_as = aside.map(|aside| directory.shown(&aside));
        }
        Ok(())
    }

    /// Gives a table the second name of one that a manifest may have listed, or that of a damaged file if
    /// another one has that.
    fn link_unlisted(&self, number: u64) -> Result<String> {
        let file = FileId::table(number);
        let (directory, name) = self.data.at(self.data.find(file, Stage::Listed))?;
        let directory = &*directory;
        let kept = file.name(Stage::Unlisted);
        if !is_there(directory, &kept)? {
            if directory.link(&name, directory, &kept).is_err() {
                copy(directory, &name, &kept)?;
            }
        } else if !same_bytes(directory, &name, &kept)? {
            return link_aside(directory, &name);
        }
        Ok(kept)
    }

    /// Gives, after the commit, arenas that are not this store's names at which no store looks. A
    /// repair that is cut short before leaves them to the next one.
    pub(super) fn rename_aside(&self, report: &mut RepairReport) -> Result<()> {
        let strangers = report.left.iter_mut();
        for stranger in strangers.filter(|left| left.kept_as.is_none() && !left.stays()) {
            let (directory, name) = self.located(&stranger.file);
            if !is_there(directory, name)? {
                continue;
            }
            let aside = rename_damaged(directory, name)?;
            directory.sync()?;
            stranger.kept_as = Some(directory.shown(&aside));
        }
        Ok(())
    }

    /// Returns whether a data file has been put aside.
    pub(super) fn is_aside(&self, file: FileId) -> bool {
        let at = self.data.at(self.data.find(file, Stage::Listed));
        at.and_then(|(directory, name)| same_bytes(&*directory, &name, &name_aside(&name, 1)))
            .unwrap_or(false)
    }

    /// Copies a file, if it is there. Returns the name of the copy.
    pub(super) fn keep_aside(
        &self,
        directory: &dyn Directory,
        name: &str,
    ) -> Result<Option<String>> {
        if !is_there(directory, name)? {
            // A device of another kind has no files, and one may be gone.
            return Ok(None);
        }
        let (aside, is_there) = free_name(directory, name)?;
        if !is_there {
            copy(directory, name, &aside)?;
        }
        directory.sync()?;
        Ok(Some(aside))
    }
}

/// Gives a file a second name, and returns that.
fn link_aside(directory: &dyn Directory, name: &str) -> Result<String> {
    let (aside, is_there) = free_name(directory, name)?;
    if !is_there && directory.link(name, directory, &aside).is_err() {
        copy(directory, name, &aside)?;
    }
    Ok(aside)
}

/// Gives a file another name, at which no store looks, and returns that.
pub(super) fn rename_damaged(directory: &dyn Directory, name: &str) -> Result<String> {
    let (aside, _) = free_name(directory, name)?;
    directory.rename(name, &aside)?;
    Ok(aside)
}

/// Finds a name that is free, or that of the same bytes: an earlier repair has come so far.
fn free_name(directory: &dyn Directory, name: &str) -> Result<(String, bool)> {
    let mut number = 1;
    loop {
        let aside = name_aside(name, number);
        if !is_there(directory, &aside)? {
            return Ok((aside, false));
        }
        if same_bytes(directory, name, &aside)? {
            return Ok((aside, true));
        }
        number += 1;
    }
}

/// Returns whether anything lies under a name.
fn is_there(directory: &dyn Directory, name: &str) -> Result<bool> {
    match directory.identity_of(name) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        // A directory: no file of a store, and in the way.
        Err(error) if error.kind() == ErrorKind::NotAFile => Ok(true),
        Err(error) => Err(error.into()),
    }
}

fn same_bytes(directory: &dyn Directory, one: &str, other: &str) -> Result<bool> {
    let open = |name| directory.open(name, OpenOptions::buffered(OpenMode::Read));
    let (one, other) = match (open(one), open(other)) {
        (Ok(one), Ok(other)) => (one, other),
        (Err(error), _) | (_, Err(error)) if error.kind() == ErrorKind::NotAFile => {
            return Ok(false);
        }
        (one, other) => (one?, other?),
    };
    let length_bytes = one.length_bytes()?;
    if other.length_bytes()? != length_bytes {
        return Ok(false);
    }
    for (offset, bytes) in parts(length_bytes) {
        let read =
            |file: &dyn terrace_storage::File| file.read_vec_at(bytes, offset, Purpose::Recovery);
        if read(&*one)? != read(&*other)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn copy(directory: &dyn Directory, from: &str, to: &str) -> Result<()> {
    let source = directory.open(from, OpenOptions::buffered(OpenMode::Read))?;
    let copy = directory.open(to, OpenOptions::buffered(OpenMode::CreateNew))?;
    let copied = parts(source.length_bytes()?).try_for_each(|(offset, bytes)| {
        let bytes = source.read_vec_at(bytes, offset, Purpose::Recovery)?;
        copy.write_at(&bytes, offset, Purpose::Recovery)
    });
    if let Err(error) = copied.and_then(|()| copy.sync(Purpose::Recovery)) {
        // Half a copy would be taken for another file's.
        let _ = directory.remove(to);
        return Err(error.into());
    }
    Ok(())
}

/// Returns offsets and lengths that make up a file.
fn parts(length_bytes: u64) -> impl Iterator<Item = (u64, usize)> {
    let offsets = (0..length_bytes).step_by(PART_BYTES);
    offsets.map(move |offset| {
        let rest = usize::try_from(length_bytes - offset).unwrap_or(usize::MAX);
        (offset, rest.min(PART_BYTES))
    })
}

fn name_aside(name: &str, number: u32) -> String {
    match number {
        1 => format!("{name}{}", files::DAMAGED),
        number => format!("{name}{}-{number}", files::DAMAGED),
    }
}

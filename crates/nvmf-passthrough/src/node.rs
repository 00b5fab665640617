//! The generic devices, and the one of a namespace.
//!
//! A device says by `ioctl(2)` of which namespace it is. Its directory in sysfs leads to the
//! controller, or to the subsystem of several ones, with the subsystem's name. There, too, is the
//! namespace's disk, hidden or not, with the limit of a transfer.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::error::OpenError;
use crate::ioctl;

/// The longest file of sysfs that is read.
const MAX_TEXT_BYTES: usize = 4096;

/// The place where the kernel shows its devices.
#[derive(Clone, Debug)]
pub struct Place {
    /// The directory of sysfs. Default `/sys`.
    pub sysfs: PathBuf,
    /// The directory of devices. Default `/dev`.
    pub devices: PathBuf,
}

impl Default for Place {
    fn default() -> Self {
        Place {
            sysfs: "/sys".into(),
            devices: "/dev".into(),
        }
    }
}

/// A namespace to look for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Number of the namespace.
    pub nsid: u32,
    /// Name of its subsystem; none is any.
    pub subsystem_nqn: Option<String>,
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "namespace {}", self.nsid)?;
        match &self.subsystem_nqn {
            Some(nqn) => write!(f, " of {}", nqn.escape_default()),
            None => Ok(()),
        }
    }
}

/// A generic device that is there.
#[derive(Debug)]
pub struct Found {
    /// The device.
    pub path: PathBuf,
    /// Name of the subsystem, as sysfs has it.
    pub subsystem_nqn: Option<String>,
    /// Number of the namespace, or the reason why the device does not tell. None if nobody asked: its
    /// subsystem is not wanted.
    pub nsid: Option<io::Result<u32>>,
    /// The most bytes of data of a command, as the kernel has it.
    pub max_transfer_bytes: Option<u64>,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (", self.path.display())?;
        match &self.nsid {
            Some(Ok(nsid)) => write!(f, "namespace {nsid}")?,
            Some(Err(error)) => write!(f, "{error}")?,
            None => write!(f, "not asked")?,
        }
        match &self.subsystem_nqn {
            Some(nqn) => write!(f, " of {})", nqn.escape_default()),
            None => write!(f, " of an unknown subsystem)"),
        }
    }
}

/// An open generic device.
#[derive(Debug)]
pub struct Node {
    pub(crate) file: File,
    pub(crate) path: PathBuf,
    pub(crate) nsid: u32,
    pub(crate) max_transfer_bytes: Option<u64>,
}

impl Node {
    /// Opens a device that was named, and checks that it is of the namespace.
    pub(crate) fn open(path: &Path, wanted: &Wanted, place: &Place) -> Result<Self, OpenError> {
        let nsid = wanted.nsid;
        let file = open(path).map_err(|source| OpenError::Io {
            what: "opening",
            path: path.into(),
            source,
        })?;
        let found = ioctl::namespace_id(&file).map_err(|source| OpenError::Io {
            what: "asking for the namespace's number",
            path: path.into(),
            source,
        })?;
        if found != nsid {
            return Err(OpenError::OtherNamespace {
                path: path.into(),
                nsid: found,
                wanted: nsid,
            });
        }
        // A link or another node of the same device may have any name, which sysfs does not know.
        let name = fs::canonicalize(path).unwrap_or_else(|_| path.into());
        let class = name.file_name().map(|name| class(place).join(name));
        // Again, for a device that was found may have got the number of another one.
        if wanted.subsystem_nqn.is_some() {
            let nqn = class.as_ref().and_then(|class| subsystem_nqn(class));
            if nqn != wanted.subsystem_nqn {
                return Err(OpenError::OtherSubsystem {
                    path: path.into(),
                    nqn,
                    wanted: wanted.clone(),
                });
            }
        }
        Ok(Node {
            file,
            path: path.into(),
            nsid,
            max_transfer_bytes: class.and_then(|class| max_transfer_bytes(&class, nsid)),
        })
    }

    /// Finds and opens the device of a namespace.
    pub(crate) fn find(place: &Place, wanted: &Wanted) -> Result<Self, OpenError> {
        let found = find(place, wanted, &|path| ioctl::namespace_id(&open(path)?))?;
        Node::open(&found.path, wanted, place)
    }
}

fn open(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).open(path)
}

fn class(place: &Place) -> PathBuf {
    place.sysfs.join("class/nvme-generic")
}

/// Finds the device of a namespace. `ask` returns the number of a device's namespace.
///
/// # Errors
/// [`OpenError::NotFound`] and [`OpenError::Ambiguous`] say which devices there are.
pub fn find(
    place: &Place,
    wanted: &Wanted,
    ask: &dyn Fn(&Path) -> io::Result<u32>,
) -> Result<Found, OpenError> {
    let all = list(place, wanted, ask)?;
    let is_match = |found: &Found| matches!(found.nsid, Some(Ok(nsid)) if nsid == wanted.nsid);
    let (mut matches, others): (Vec<_>, Vec<_>) = all.into_iter().partition(is_match);
    // Several devices of one subsystem are paths to the same namespace.
    let nqn = matches
        .first()
        .and_then(|found| found.subsystem_nqn.clone());
    let is_other = |found: &Found| found.subsystem_nqn.is_none() || found.subsystem_nqn != nqn;
    if matches.len() > 1 && matches.iter().any(is_other) {
        return Err(OpenError::Ambiguous {
            wanted: wanted.clone(),
            found: matches,
        });
    }
    if matches.is_empty() {
        return Err(OpenError::NotFound {
            wanted: wanted.clone(),
            found: others,
        });
    }
    Ok(matches.swap_remove(0))
}

/// Lists the generic devices in the order of their names.
fn list(
    place: &Place,
    wanted: &Wanted,
    ask: &dyn Fn(&Path) -> io::Result<u32>,
) -> Result<Vec<Found>, OpenError> {
    let class = class(place);
    let failed = |source| OpenError::Io {
        what: "listing devices",
        path: class.clone(),
        source,
    };
    let entries = match fs::read_dir(&class) {
        Ok(entries) => entries,
        // The kernel makes the directory with the first controller.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry.map_err(failed)?.file_name());
    }
    names.sort();
    let found = names.into_iter().map(|name| {
        let (path, directory) = (place.devices.join(&name), class.join(&name));
        let subsystem_nqn = subsystem_nqn(&directory);
        let is_wanted = wanted.subsystem_nqn.is_none() || wanted.subsystem_nqn == subsystem_nqn;
        let nsid = is_wanted.then(|| ask(&path));
        let max_transfer_bytes = match nsid {
            Some(Ok(nsid)) => max_transfer_bytes(&directory, nsid),
            _ => None,
        };
        Found {
            path,
            subsystem_nqn,
            nsid,
            max_transfer_bytes,
        }
    });
    Ok(found.collect())
}

/// Returns the name of a device's subsystem.
fn subsystem_nqn(directory: &Path) -> Option<String> {
    text(&directory.join("device/subsysnqn"))
}

/// Returns the most bytes of a transfer, of the namespace's disk beside a device.
fn max_transfer_bytes(directory: &Path, nsid: u32) -> Option<u64> {
    let entries = fs::read_dir(directory.join("device")).ok()?;
    for entry in entries.flatten() {
        let disk = entry.path();
        let is_of_namespace = number(&disk.join("nsid")) == Some(u64::from(nsid));
        if let Some(kib) = number(&disk.join("queue/max_hw_sectors_kb"))
            && is_of_namespace
        {
            return kib.checked_mul(1024);
        }
    }
    None
}

fn number(path: &Path) -> Option<u64> {
    text(path)?.parse().ok()
}

fn text(path: &Path) -> Option<String> {
    let mut text = fs::read_to_string(path).ok()?;
    if text.len() > MAX_TEXT_BYTES {
        return None;
    }
    text.truncate(text.trim_end().len());
    Some(text)
}

#[cfg(test)]
mod tests;

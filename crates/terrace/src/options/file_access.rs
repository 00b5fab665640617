//! The users that may open a store's files.

use terrace_storage::Access;

/// Users that may open the files and directories that a store makes. Existing ones keep their
/// modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum FileAccess {
    /// The user that runs the process: files have mode 0600, directories 0700.
    #[default]
    Owner,
    /// The users that the process's umask admits. Other users that may read the files can also lock
    /// them, and keep the store from opening.
    Umask,
}

impl From<FileAccess> for Access {
    fn from(access: FileAccess) -> Self {
        match access {
            FileAccess::Owner => Access::Owner,
            FileAccess::Umask => Access::Umask,
        }
    }
}

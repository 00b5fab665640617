//! The mark that a persist is under way or has failed.
//!
//! After a failed sync the kernel may take pages for clean that never reached the medium. A later
//! process reads their bytes from the page cache, and its own sync succeeds without writing them. So
//! the file `PERSISTS` says whether a sync of an arena is in doubt.
//!
//! Order of a persist: the file says that one is under way, then comes the sync, and after its success
//! the file says that none is. So a kill at any point leaves the doubt. The mark itself is not synced:
//! the next process reads it from the same page cache. After a power cut it may say either, and
//! nothing depends on it: all bytes that are read come from the medium.
//!
//! Only a whole record clears the doubt. A missing file is doubt. A file system that copies on write
//! may have no room for a record: then the file is removed, which takes none. It is removed after a
//! failed sync, too: the medium that failed may lose the page of the mark as well.

use std::sync::Arc;

use parking_lot::Mutex;
use terrace_storage::{Directory, ErrorKind, File, OpenMode, OpenOptions, Purpose};

use crate::front::{FRONT_BYTES, Front};
use crate::{Error, Result};

const NAME: &str = "PERSISTS";
const FRONT: Front = Front {
    magic: *b"TerrPers",
    version: 2,
};
const RECORD_BYTES: usize = FRONT_BYTES + 8;

/// The last word of a record.
const NONE_IN_DOUBT: u64 = 0;
const IN_DOUBT: u64 = 1;

/// The mark of the arenas in one directory. Only the owner of the directory asks and sets it.
#[derive(Debug)]
pub(crate) struct PersistMark {
    directory: Arc<dyn Directory>,
    /// `None` until the first question: an opening that only reads has none.
    state: Mutex<Option<State>>,
}

#[derive(Debug)]
struct State {
    /// Persists of this process that are under way or have failed.
    own: u64,
    /// Persists of earlier processes are in doubt.
    of_others: bool,
    /// `None` if there is no file that can be written.
    file: Option<Arc<dyn File>>,
    /// The next process would have doubts.
    is_marked: bool,
}

impl PersistMark {
    pub(crate) fn new(directory: Arc<dyn Directory>) -> Self {
        PersistMark {
            directory,
            state: Mutex::new(None),
        }
    }

    /// Syncs the file of an arena. The mark stands until that has succeeded.
    ///
    /// # Errors
    /// Those of the sync, and of the mark: then nothing was synced.
    pub(crate) fn sync(&self, arena: &dyn File) -> Result<()> {
        self.with(|state| self.begin(state))?;
        let synced = arena.sync(Purpose::Arena);
        self.with(|state| match synced {
            Ok(()) => {
                state.own -= 1;
                self.clear(state);
                Ok(())
            }
            Err(error) => {
                // The file still says that one is in doubt if it cannot be removed.
                let _ = self.remove(state);
                Err(error.into())
            }
        })
    }

    /// Returns whether bytes that earlier processes persisted may be in the page cache alone.
    pub(crate) fn doubts_others(&self) -> bool {
        self.with(|state| state.of_others)
    }

    /// Notes that nothing depends on persists of earlier processes any more.
    pub(crate) fn trust_others(&self) {
        self.with(|state| {
            state.of_others = false;
            self.clear(state);
        });
    }

    /// Makes the file if it is missing. Its name is durable after a sync of the directory. Without it the
    /// next process has doubts, so an error changes nothing else.
    pub(crate) fn make(&self) {
        self.with(|state| {
            if state.file.is_some() {
                return;
            }
            let options = OpenOptions::buffered(OpenMode::CreateNew);
            let Ok(file) = self.directory.open(NAME, options) else {
                return;
            };
            // A new file says nothing yet, so the doubt stands until the record is whole.
            state.is_marked = true;
            state.file = Some(Arc::clone(&file));
            self.clear(state);
            // After a power cut, half a record would be doubt without a reason.
            let _ = file.sync(Purpose::Other);
        });
    }

    fn with<T>(&self, ask: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock();
        ask(state.get_or_insert_with(|| self.look()))
    }

    /// Reads the mark of earlier processes.
    fn look(&self) -> State {
        let options = OpenOptions::buffered(OpenMode::ReadWrite);
        let (file, is_missing) = match self.directory.open(NAME, options) {
            Ok(file) => (Some(file), false),
            Err(error) => (None, error.kind() == ErrorKind::NotFound),
        };
        let mut record = [0; RECORD_BYTES];
        let read = file
            .as_ref()
            .map(|file| file.read_exact_at(&mut record, 0, Purpose::Other));
        let is_whole = matches!(read, Some(Ok(())));
        let is_in_doubt = !is_whole || !self.clears(&record);
        State {
            own: 0,
            of_others: is_in_doubt,
            // A file that cannot be opened or read may say anything.
            is_marked: is_missing || (is_whole && is_in_doubt),
            file,
        }
    }

    fn begin(&self, state: &mut State) -> Result<()> {
        if !state.is_marked {
            if !self.write(state, IN_DOUBT) {
                self.remove(state)?;
            }
            state.is_marked = true;
        }
        state.own += 1;
        Ok(())
    }

    fn remove(&self, state: &mut State) -> Result<()> {
        state.file = None;
        match self.directory.remove(NAME) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::Io(error)),
            _ => Ok(()),
        }
    }

    /// Takes the mark back if nothing is in doubt. A mark that stays does no harm.
    fn clear(&self, state: &mut State) {
        let is_in_doubt = state.own > 0 || state.of_others;
        if state.is_marked && !is_in_doubt && state.file.is_some() {
            // A write that fails may have been done.
            state.is_marked = false;
            self.write(state, NONE_IN_DOUBT);
        }
    }

    /// Returns whether the file has the word now. After a failure it may have either.
    fn write(&self, state: &State, word: u64) -> bool {
        let record = self.record(word);
        let file = state.file.as_ref();
        file.is_some_and(|file| file.write_at(&record, 0, Purpose::Other).is_ok())
    }

    fn record(&self, word: u64) -> Vec<u8> {
        [&FRONT.encode()[..], &word.to_le_bytes()].concat()
    }

    /// Returns whether a record leaves no doubt.
    fn clears(&self, record: &[u8; RECORD_BYTES]) -> bool {
        record[..] == self.record(NONE_IN_DOUBT)[..]
    }
}

#[cfg(test)]
mod tests;

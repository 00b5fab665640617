//! Making a damaged store openable again, with everything in it that can still be read.
//!
//! Goal: all readable data is there afterwards, in the order in which it was written. A repair that
//! is cut short can be run again. Unreadable data is named.
//!
//! Every block of a damaged table is kept that its index still leads to.
//!
//! There are two cases. If the manifest can be read, it says which tables count, and which writes
//! are in arenas alone. Then new tables with the readable entries replace damaged tables. If
//! acknowledged bytes of arenas are damaged, the writes before the damage go to tables. If the
//! manifest cannot be read, or may have lost its end, a new one is made. The order of the tables is
//! unknown then, so tables whose keys overlap are merged by the numbers of their entries. It is
//! also unknown which tables had been merged into others already, or which deletions were still to
//! be carried out, so deleted keys may be back.
//!
//! Invariants: (1) Nothing that was there is changed before it is committed: by an edit, or by the
//! new manifest that `CURRENT` is made to name. (Only a damaged `REGION` is rewritten before: then
//! it says the same as the manifest.) New tables are written as `N.table.new` and get their names
//! after the commit. A store that lists a table without its name refuses to open, and the next
//! repair finishes the renaming. The next repair removes new tables that are not listed. (2) Before
//! anything is committed, damaged files have a second name or a copy beside the store, with
//! `.damaged` behind their names.
//!
//! It does not go around an I/O error: a device that fails to read is to be copied first, and the
//! copy repaired.

mod arenas;
mod aside;
mod commit;
mod merge;
mod options;
mod owner;
mod report;
mod site;
mod state;
mod strangers;
mod tables;
mod unlisted;

use std::path::Path;

use terrace_storage::{Lock, SystemClock};

pub use options::RepairOptions;
pub use report::{DamagedTable, LeftFile, ManifestRepair, RepairReport};

use arenas::ArenasFound;
use site::Site;
use state::{Basis, Home};
use tables::Examined;
use terrace::offline::{check_options, wait_for_lock};
use terrace::{Background, Error, Options, Result};

/// Repairs a store that no process has open, and reports its work. A store without damage is left
/// as it is. If the arenas are in a directory of their own, name it as
/// [`region_dir`](Options::region_dir): a store without its manifest does not know. `progress`
/// hears of every table looked at, with how many there are.
///
/// Tables and region directories of another release are left under their names and reported in
/// [`left`](RepairReport::left); the repair goes on with the rest. A table that was listed is an unlisted
/// one from then on, which the repair of that release can take in.
///
/// Openings keep tables that a dropped end of the manifest may have listed. With
/// [`take_unlisted`](Options::take_unlisted) their entries are in the store again, each unless a
/// newer version of its key is there. Of a damaged one the readable entries are.
///
/// Deleted keys may be there again afterwards: deletions in a damaged block, or in a table that no
/// longer exists, cannot hide older versions any more. The report's
/// [`may_resurrect`](RepairReport::may_resurrect) says whether that can be.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("store");
/// # let db = terrace::Db::open(&path, terrace::Options::default())?;
/// # db.put(b"key", b"value")?;
/// # db.close()?;
/// std::fs::remove_file(path.join("CURRENT")).unwrap();
/// let report = terrace_tools::repair::repair(&path, terrace::Options::default(), |_, _| {})?;
/// assert!(report.is_changed() && report.may_resurrect());
/// let db = terrace::Db::open(&path, terrace::Options::default())?;
/// assert_eq!(db.get(b"key")?.as_deref(), Some(&b"value"[..]));
/// # Ok::<(), terrace::Error>(())
/// ```
///
/// Arenas of other stores are not taken and prove nothing; they are kept aside and reported.
///
/// # Errors
/// [`Error::NoStore`] if nothing of a store is there; [`Error::Busy`] if it is open;
/// [`Error::Unsupported`] for a manifest of another release, without which nothing is known;
/// [`Error::WrongRegion`] and [`Error::RegionLost`] as [`Db::open`](terrace::Db::open);
/// [`Error::Io`] and [`Error::NoSpace`]: run it again when the cause is gone.
pub fn repair(
    path: &Path,
    options: Options,
    progress: impl FnMut(usize, usize),
) -> Result<RepairReport> {
    repair_with(path, options, RepairOptions::default(), progress)
}

/// Repairs a store as [`repair`] does, with decisions that the files alone do not make.
///
/// # Errors
/// As [`repair`]; [`Error::InvalidArgument`] if another store's arenas are chosen while the
/// store's own may hold writes, or unlisted tables are to be taken in while only another release can
/// read the arenas.
pub fn repair_with(
    path: &Path,
    options: Options,
    decisions: RepairOptions,
    mut progress: impl FnMut(usize, usize),
) -> Result<RepairReport> {
    let options = Options {
        read_only: false,
        create_if_missing: false,
        background: Background::Inline,
        ..options
    };
    check_options(&options)?;
    let Owned {
        site,
        mut basis,
        is_resumed,
        home,
        _tier_locks,
    } = wait_for_lock(options.wait_for_lock, &SystemClock::new(), |_| {
        Owned::take(path, options.clone(), decisions.clone())
    })?;
    let (tables, mut arenas) = examine(&site, &mut basis, &home, &mut progress)?;
    let unlisted = site.unlisted(&basis, &arenas)?;
    let takes = site.options.take_unlisted && !unlisted.is_empty();
    if takes && basis.has_unread_arenas(&site) {
        return Err(Error::invalid(
            "unlisted tables cannot be taken in: the store's arenas may hold writes, and REGION is of \
             another release, which alone can read them; run its repair",
        ));
    }
    let mut report = RepairReport::new(
        &site,
        &basis,
        &tables,
        &arenas,
        &unlisted,
        is_resumed,
        home.damaged_region,
    );
    if !report.is_needed() && !takes {
        report.unlisted_tables = unlisted.names(false);
        return Ok(report);
    }
    // Before the commit: a new manifest does not show that the end of the last one was dropped.
    unlisted.keep(&site.data)?;
    report.unlisted_tables = unlisted.names(true);
    let mut taken = Vec::new();
    if takes {
        taken = site.open_unlisted(&unlisted)?;
        basis.extend();
        arenas.take_unflushed()?;
        report.takes_in(&basis, &arenas, &taken);
    }
    let written = site.write(&basis, &tables, &arenas, &taken)?;
    let entries_taken = written.entries_taken.clone();
    let mut report = site.commit(basis, &tables, &arenas, written, report)?;
    if takes {
        site.mark_taken(&taken, &entries_taken, &mut report)?;
    }
    Ok(report)
}

/// A store whose locks the repair holds, that of the region directory included.
struct Owned {
    site: Site,
    basis: Basis,
    /// Whether an earlier repair had been cut short.
    is_resumed: bool,
    home: Home,
    _tier_locks: Vec<Box<dyn Lock>>,
}

impl Owned {
    fn take(path: &Path, options: Options, decisions: RepairOptions) -> Result<Self> {
        let site = Site::take(path, options, decisions)?;
        let mut basis = Basis::find(&site)?;
        let tier_locks = basis.find_tiers(&site)?;
        site.skip_numbers_below(basis.state.next_table_number);
        let is_resumed = site.finish_earlier(basis.listed())?;
        let home = basis.home(&site)?;
        Ok(Owned {
            site,
            basis,
            is_resumed,
            home,
            _tier_locks: tier_locks,
        })
    }
}

/// Looks at tables and arenas, as the manifest lists them while it is believed.
fn examine(
    site: &Site,
    basis: &mut Basis,
    home: &Home,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<(Examined, ArenasFound)> {
    if let Some(version) = basis.listed() {
        let listed = Examined::listed(site, version, progress)?;
        let mut doubt = listed.doubt(site, basis)?;
        if doubt.is_none() {
            let arenas = ArenasFound::read(site, basis, &listed, home)?;
            doubt = arenas.doubt(site, basis)?;
            if doubt.is_none() {
                return Ok((listed, arenas));
            }
        }
        if let Some(why) = doubt {
            basis.distrust(why);
        }
    }
    let tables = Examined::all(site, basis, progress)?;
    let arenas = ArenasFound::read(site, basis, &tables, home)?;
    Ok((tables, arenas))
}

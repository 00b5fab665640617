//! What the store would merge now, asked of the policy as a worker asks it, and nothing begun.

use std::sync::Arc;

use crate::compaction::claim::Claim;
use crate::compaction::explain::keyspace::Asked;
use crate::compaction::explain::record::describe;
use crate::compaction::explain::{Description, Explanation, Settings, UnderWay};
use crate::compaction::policy::described_by;
use crate::db::Store;
use crate::db::monitor::Known;
use crate::levels::KeyspaceLevels;
use crate::{Error, KeyspaceId, Result};

/// What is known at one moment.
struct Moment {
    keyspaces: Vec<Arc<KeyspaceLevels>>,
    under_way: Vec<(KeyspaceId, Claim, UnderWay)>,
    known: Known,
}

impl Store {
    pub(crate) fn explain_compaction(&self) -> Explanation {
        let moment = self.moment();
        let keyspaces = moment.keyspaces.iter();
        let explained =
            keyspaces.map(|levels| self.ask_about(&moment, levels, |asked, _| asked.explain()));
        Explanation {
            keyspaces: explained.collect(),
        }
    }

    pub(crate) fn describe_compaction(&self, keyspace: &str) -> Result<Description> {
        let moment = self.moment();
        let mut keyspaces = moment.keyspaces.iter();
        let levels = keyspaces.find(|levels| levels.name == keyspace);
        let levels = levels.ok_or_else(|| Error::NoKeyspace {
            name: keyspace.to_owned(),
        })?;
        self.ask_about(&moment, levels, |asked, is_paid_for| {
            describe(asked, &self.options, self.form_of(levels), is_paid_for)
        })
    }

    fn moment(&self) -> Moment {
        // Files may have to be read.
        let known = self.known_duplicates();
        // The board before the version: claims are too large for a moment and never too small.
        let under_way = self.jobs.under_way();
        let version = Arc::clone(&self.view.load().version);
        Moment {
            keyspaces: version.keyspaces.values().cloned().collect(),
            under_way,
            known,
        }
    }

    /// Gives what the policy would be asked about a keyspace, and whether scans have paid for level 0.
    fn ask_about<T>(
        &self,
        moment: &Moment,
        levels: &KeyspaceLevels,
        ask: impl FnOnce(Asked<'_>, bool) -> T,
    ) -> T {
        let is_paid_for = self.level0_probes.have_paid(levels);
        let form = self.form_of(levels);
        let policy = described_by(&self.options, form, is_paid_for);
        let of_keyspace = moment.under_way.iter().filter(|(id, ..)| *id == levels.id);
        let under_way: Vec<(Claim, UnderWay)> = of_keyspace
            .map(|(_, claim, shown)| (claim.clone(), shown.clone()))
            .collect();
        let asked = Asked {
            levels,
            settings: Settings::of(&self.options, form),
            policy: &*policy,
            under_way: &under_way,
            estimates: &moment.known,
            shown: &self.read_sketches(levels),
            setbacks: self.monitor.setbacks_of(levels),
        };
        ask(asked, is_paid_for)
    }
}

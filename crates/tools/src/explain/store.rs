//! The explanation of an open store's choices.

use terrace::offline::{Claimed, PolicyMoment, PolicyQuestion};
use terrace::{Db, Error, Result};
use terrace_lsm::compaction::claim::Claim;

use super::keyspace::Asked;
use super::record::describe;
use super::{Description, Explanation, KeyspaceExplanation, Settings, UnderWay};

/// Explains the next merge of an open store, or why there is none: it asks the policy as the
/// merging threads do. It begins nothing and stops no thread; it reads the sketches of all tables.
pub fn explain_compaction(db: &Db) -> Explanation {
    let moment = PolicyMoment::of(db);
    moment.map(|moment| explained(&moment)).unwrap_or_default()
}

fn explained(moment: &PolicyMoment) -> Explanation {
    let explain = |levels| -> KeyspaceExplanation {
        moment.ask(levels, |question| {
            let under_way = shown(&question.under_way);
            asked(&question, &under_way).explain()
        })
    };
    Explanation {
        keyspaces: moment.keyspaces().map(explain).collect(),
    }
}

/// Describes the levels of a keyspace with all that its policy goes by, as a file that explains to the same
/// choice.
///
/// # Errors
/// [`Error::NoKeyspace`], [`Error::InvalidArgument`] for levels that are too many to be described.
pub fn describe_compaction(db: &Db, keyspace: &str) -> Result<Description> {
    let moment = PolicyMoment::of(db)?;
    let mut keyspaces = moment.keyspaces();
    let levels = keyspaces.find(|levels| levels.name == keyspace);
    let levels = levels.ok_or_else(|| Error::NoKeyspace {
        name: keyspace.to_owned(),
    })?;
    moment.ask(levels, |question| {
        let under_way = shown(&question.under_way);
        describe(
            asked(&question, &under_way),
            question.options,
            question.form,
            question.level0_is_paid_for,
        )
    })
}

fn asked<'a>(question: &PolicyQuestion<'a>, under_way: &'a [(Claim, UnderWay)]) -> Asked<'a> {
    Asked {
        levels: question.levels,
        settings: Settings::of(question.options, question.form),
        policy: question.policy,
        under_way,
        estimates: question.estimates,
        shown: question.shown,
        setbacks: question.setbacks.clone(),
        oldest_snapshot: question.oldest_snapshot,
    }
}

fn shown(under_way: &[Claimed]) -> Vec<(Claim, UnderWay)> {
    let shown = under_way.iter().map(|claimed| {
        let shown = UnderWay {
            job: claimed.job,
            reason: claimed.reason.clone(),
            tables: claimed.claim.inputs().collect(),
            output_level: claimed.claim.output().level,
            installed_slices: claimed.installed_slices,
            slices: claimed.slices,
        };
        (claimed.claim.clone(), shown)
    });
    shown.collect()
}

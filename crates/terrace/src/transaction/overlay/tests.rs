use proptest::prelude::*;
use terrace_lsm::cursor::testing::{Version, VersionsCursor};

use super::*;

/// A write to one of a few keys, or of a range of them.
#[derive(Clone, Debug)]
enum Step {
    Put(u8),
    Delete(u8),
    DeleteRange(u8, u8),
    Mark,
    RollBack,
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0u8..6).prop_map(Step::Put),
        2 => (0u8..6).prop_map(Step::Delete),
        1 => (0u8..6, 0u8..7).prop_map(|(from, to)| Step::DeleteRange(from.min(to), from.max(to))),
        1 => Just(Step::Mark),
        1 => Just(Step::RollBack),
    ]
}

/// The model: the versions of a keyspace, as they were written.
#[derive(Clone, Default)]
struct Model {
    versions: Vec<Version>,
    ranges: Vec<(u8, u8, u32)>,
    number: u32,
}

impl Model {
    fn newest(&self, key: u8) -> Own {
        let version = self
            .versions
            .iter()
            .rev()
            .find(|version| version.0 == [key]);
        let number = |version: &Version| (version.1.sequence() - MIN_OVERLAY_SEQUENCE) as u32;
        let covers = |&&(from, to, _): &&(u8, u8, u32)| from <= key && key < to;
        let deleted = self
            .ranges
            .iter()
            .rev()
            .find(covers)
            .map_or(0, |range| range.2);
        match version.filter(|version| number(version) > deleted) {
            Some((_, tag, value)) if tag.kind() == Some(Kind::Put) => Own::Value(value.clone()),
            Some(_) => Own::Deleted,
            None if deleted > 0 => Own::Deleted,
            None => Own::Nothing,
        }
    }
}

fn found(cursor: &dyn Cursor) -> Option<Version> {
    let key = cursor.key();
    cursor
        .valid()
        .then(|| (key.user_key.to_vec(), key.tag, cursor.value().to_vec()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..Default::default() })]

    /// Gets and cursors agree with a list of versions, through savepoints. A cursor shows the versions
    /// before it, while later ones come.
    #[test]
    fn an_overlay_reads_like_a_list_of_versions(
        steps in prop::collection::vec(any_step(), 1..40),
        at in 0usize..40,
        moves in prop::collection::vec((0u8..5, 0u8..6, 0u64..40), 1..40),
    ) {
        let keyspace = KeyspaceId::from_number(7);
        let overlay = Arc::new(Mutex::new(Overlay::default()));
        let (mut model, mut marks) = (Model::default(), Vec::new());
        let mut seen = None;
        for (step, number) in steps.iter().zip(0..) {
            if number == at {
                seen = Some((layer_of(&overlay, keyspace), model.clone()));
            }
            // From here on nothing is taken away: an iterator shares the overlay.
            let is_shared = seen.is_some();
            let mut held = overlay.lock();
            let mut push = |kind, key: &[u8], value: &[u8]| {
                held.push(None, keyspace, kind, key, value).unwrap();
            };
            match *step {
                Step::Put(key) => {
                    model.number += 1;
                    let value = vec![key; usize::from(key) + number];
                    let tag = Tag::new(MIN_OVERLAY_SEQUENCE + u64::from(model.number), Kind::Put);
                    push(Kind::Put, &[key], &value);
                    model.versions.push((vec![key], tag, value));
                }
                Step::Delete(key) => {
                    model.number += 1;
                    let tag = Tag::new(MIN_OVERLAY_SEQUENCE + u64::from(model.number), Kind::Delete);
                    push(Kind::Delete, &[key], &[]);
                    model.versions.push((vec![key], tag, Vec::new()));
                }
                Step::DeleteRange(from, to) => {
                    push(Kind::RangeDelete, &[from], &[to]);
                    if from < to {
                        model.number += 1;
                        model.ranges.push((from, to, model.number));
                    }
                }
                Step::Mark => marks.push((held.mark(), model.clone())),
                Step::RollBack if is_shared => {}
                Step::RollBack => {
                    if let Some((mark, before)) = marks.last() {
                        held.roll_back(mark);
                        model = before.clone();
                    }
                }
            }
            for key in 0..6 {
                prop_assert_eq!(held.get(keyspace, &[key]), model.newest(key));
                prop_assert_eq!(held.get(KeyspaceId::DEFAULT, &[key]), Own::Nothing);
            }
            prop_assert_eq!(held.last_number(), model.number);
        }
        let (layer, before) = seen.unwrap_or_else(|| (layer_of(&overlay, keyspace), model.clone()));
        let Some(layer) = layer else {
            prop_assert!(before.number == 0 || before.versions.is_empty());
            return Ok(());
        };
        let mut cursor = layer().cursor;
        let mut expected = VersionsCursor::new(before.versions);
        for (kind, key, number) in moves {
            let is_valid = expected.valid();
            match kind {
                0 => {
                    cursor.seek_to_first().unwrap();
                    expected.seek_to_first().unwrap();
                }
                1 => {
                    cursor.seek_to_last().unwrap();
                    expected.seek_to_last().unwrap();
                }
                2 => {
                    let key = [key];
                    let target = InternalKey::seek(&key, MIN_OVERLAY_SEQUENCE + number);
                    cursor.seek(target).unwrap();
                    expected.seek(target).unwrap();
                }
                3 if is_valid => {
                    cursor.next().unwrap();
                    expected.next().unwrap();
                }
                _ if is_valid => {
                    cursor.prev().unwrap();
                    expected.prev().unwrap();
                }
                _ => {}
            }
            let shown = expected.valid().then(|| found(&expected)).flatten();
            prop_assert_eq!(found(&*cursor), shown);
        }
    }
}

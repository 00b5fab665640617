//! The node's adaptors, through the wire.

use std::path::Path;

use crate::conformance;
use crate::keys::KeyForm;
use crate::settings::{DurabilityClass, Settings};
use crate::store::{Contestant, Opened};
use crate::values::Sizes;
use crate::workload::Dataset;

use super::{NODE, ON_BLOCKS};

fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in(".").unwrap()
}

fn opened(contestant: Contestant, directory: &Path, durability: DurabilityClass) -> Opened {
    let settings = Settings {
        durability,
        write_buffer_bytes: 1 << 20,
        cache_bytes: 1 << 20,
        expected_data_bytes: 1 << 20,
        ..Settings::default()
    };
    (contestant.open)(directory, &settings).unwrap()
}

#[test]
fn a_store_on_the_nodes_blocks_passes_what_every_adaptor_must_pass() {
    for class in [DurabilityClass::PowerCut, DurabilityClass::ProcessCrash] {
        let directory = directory();
        let first = opened(ON_BLOCKS, directory.path(), class);
        assert!(
            first.durability.contains("method written"),
            "{}",
            first.durability
        );
        conformance::check(first.store.as_ref()).unwrap();
        first.store.close().unwrap();
        let second = opened(ON_BLOCKS, directory.path(), class);
        conformance::check_reopened(second.store.as_ref()).unwrap();
        second.store.close().unwrap();
    }
}

/// The node has no order, so the common check does not fit it.
#[test]
fn the_nodes_keys_are_written_overwritten_deleted_and_found_again() {
    let dataset = Dataset {
        records: 600,
        key_form: KeyForm::FOUR_BYTES,
        sizes: Sizes::Fixed { bytes: 70_000 },
        compression_ratio: 1.0,
    };
    let values = dataset.values(5);
    let (directory, class) = (directory(), DurabilityClass::PowerCut);
    let first = opened(NODE, directory.path(), class);
    assert!(first.durability.starts_with("power cut"));
    let (mut key, mut value) = (Vec::new(), Vec::new());
    for (records, version) in [(0..600_u64, 0), (200..300, 1)] {
        for record in records {
            dataset.key_form.write(record, &mut key);
            values.write_into(record, version, &mut value);
            first.store.put(&key, &value).unwrap();
        }
    }
    for record in 0..100 {
        dataset.key_form.write(record, &mut key);
        first.store.delete(&key).unwrap();
    }
    first.store.delete(b"none").unwrap();
    first.store.settle().unwrap();
    let mut check = |opened: &Opened| {
        for record in 0..700_u64 {
            dataset.key_form.write(record, &mut key);
            let mut version = None;
            let found = opened.store.get(&key, &mut |bytes| {
                values.check(record, bytes).unwrap();
                values.write_into(record, 1, &mut value);
                version = Some(u32::from(value == bytes));
            });
            let expected = (100..600).contains(&record);
            assert_eq!(found.unwrap(), expected, "{record}");
            let newest = expected.then(|| u32::from((200..300).contains(&record)));
            assert_eq!(version, newest, "{record}");
        }
    };
    check(&first);
    first.store.close().unwrap();
    let second = opened(NODE, directory.path(), class);
    check(&second);
    second.store.close().unwrap();
}

#[test]
fn an_option_that_the_node_does_not_have_is_refused() {
    let directory = directory();
    let mut settings = Settings::default();
    settings.own.insert("threads".into(), "3".into());
    for contestant in [NODE, ON_BLOCKS] {
        let error = (contestant.open)(directory.path(), &settings)
            .err()
            .unwrap();
        assert!(error.to_string().contains("it has file"), "{error}");
    }
}

//! Bytes that are not what was written.

use super::*;

#[test]
fn every_truncation_is_a_prefix_or_an_error() {
    let storage = shared(&new_storage());
    let (_, states) = written(&storage, OPTIONS);
    let whole = bytes_of(&*storage, "MANIFEST-000001");
    let mut starts = record_starts(&whole);
    starts.push(whole.len());
    for length in 0..whole.len() {
        let loaded = load_at(&*store_of(&whole[..length]), directory());
        let records = starts.iter().filter(|&&start| start <= length).count();
        match loaded {
            Ok(loaded) => {
                assert_eq!(
                    summary(&loaded.state),
                    summary(&states[records - 2]),
                    "{length}"
                );
                let torn = loaded
                    .torn_tail
                    .map(|tail| (tail.offset, tail.length_bytes));
                let start = starts[records - 1];
                let tail = (start as u64, (length - start) as u64);
                assert_eq!(torn, (tail.1 > 0).then_some(tail), "{length}");
            }
            Err(Error::Corruption { file, .. }) => {
                assert!(length < starts[1], "{length}");
                assert!(file.ends_with("MANIFEST-000001"));
            }
            Err(error) => panic!("{length}: {error}"),
        }
    }
}

#[test]
fn every_bit_flip_is_an_error_or_a_torn_last_record() {
    let storage = shared(&new_storage());
    let (_, states) = written(&storage, OPTIONS);
    let whole = bytes_of(&*storage, "MANIFEST-000001");
    let last = *record_starts(&whole).last().unwrap();
    for bit in 0..whole.len() * 8 {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        match load_at(&*store_of(&bytes), directory()) {
            Ok(loaded) => {
                assert!(bit / 8 >= last, "bit {bit} was not noticed");
                assert_eq!(summary(&loaded.state), summary(&states[states.len() - 2]));
                let tail = loaded.torn_tail.expect("a dropped record is reported");
                assert_eq!(tail.offset, last as u64);
            }
            Err(Error::Corruption { offset, .. }) => {
                assert!(bit / 8 < last, "bit {bit}");
                assert!(offset <= (bit / 8) as u64, "bit {bit} found at {offset}");
            }
            Err(error) => panic!("bit {bit}: {error}"),
        }
    }
}

#[test]
fn a_record_of_another_place_or_manifest_is_not_taken() {
    let edit = issue(1);
    let first = ManifestState::first_edit(identity());
    let begin = |number| {
        let mut bytes = encode_header(number);
        let offset = bytes.len() as u64;
        bytes.extend(encode_record(number, offset, &first).unwrap());
        bytes
    };
    let whole = begin(1);
    let end = whole.len() as u64;
    for (number, offset, taken) in [(1, end, true), (2, end, false), (1, end + 8, false)] {
        let mut bytes = whole.clone();
        bytes.extend(encode_record(number, offset, &edit).unwrap());
        let loaded = load_at(&*store_of(&bytes), directory()).unwrap();
        assert_eq!(loaded.torn_tail.is_none(), taken, "{number} {offset}");
        assert_eq!(loaded.state.live_arenas.len(), usize::from(taken));
    }
    let renamed = load_at(&*store_of(&begin(2)), directory()).unwrap_err();
    assert!(
        renamed.to_string().contains("this is manifest 2, renamed"),
        "{renamed}"
    );
}

#[test]
fn damage_with_a_valid_record_behind_it_is_corruption() {
    let storage = shared(&new_storage());
    written(&storage, OPTIONS);
    let whole = bytes_of(&*storage, "MANIFEST-000001");
    let starts = record_starts(&whole);
    let mut bytes = whole.clone();
    bytes[starts[2]..starts[4]].fill(0);
    match load_at(&*store_of(&bytes), directory()) {
        Err(Error::Corruption { offset, detail, .. }) => {
            assert_eq!(offset, starts[2] as u64);
            assert!(
                detail.contains(&format!("follows at {}", starts[4])),
                "{detail}"
            );
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn bytes_made_to_look_like_records_do_not_cost_their_square() {
    const HALF: u32 = 2 << 20;
    let number = 1;
    let mut bytes = encode_header(number);
    let mut lookalike = HALF.to_le_bytes().to_vec();
    lookalike.extend_from_slice(&1u32.to_le_bytes());
    bytes.extend(lookalike.repeat(2 * HALF as usize / lookalike.len()));
    let mut records = Records::new(Path::new("MANIFEST-000001"), &bytes, number).unwrap();
    let error = records.next().unwrap().err().unwrap();
    assert!(error.to_string().contains("looks like records"), "{error}");
}

#[test]
fn nothing_is_appended_behind_a_torn_tail() {
    let storage = shared(&new_storage());
    let (_, states) = written(&storage, OPTIONS);
    let mut bytes = bytes_of(&*storage, "MANIFEST-000001");
    bytes.truncate(bytes.len() - 3);
    let storage = store_of(&bytes);
    let (mut manifest, state) = open_at(Arc::clone(&storage), directory(), OPTIONS).unwrap();
    assert!(manifest.torn_tail().is_some());
    assert_eq!(
        bytes_of(&*storage, "MANIFEST-000001"),
        bytes,
        "an open writes nothing"
    );
    assert_eq!(summary(&state), summary(&states[states.len() - 2]));
    let state = append(&mut manifest, &state, &issue(77)).unwrap();
    assert_eq!(names(&*storage), ["CURRENT", "MANIFEST-000002"]);
    let loaded = load_at(&*storage, directory()).unwrap();
    assert_eq!(
        (summary(&loaded.state), loaded.torn_tail),
        (summary(&state), None)
    );
}

#[test]
fn foreign_and_future_files_are_told_apart() {
    let whole = {
        let storage = shared(&new_storage());
        written(&storage, OPTIONS);
        bytes_of(&*storage, "MANIFEST-000001")
    };
    let load_bytes = |bytes: &[u8]| load_at(&*store_of(bytes), directory()).unwrap_err();
    assert!(load_bytes(b"").to_string().contains("the file is empty"));
    assert!(
        load_bytes(b"#!/bin/sh\n")
            .to_string()
            .contains("within its first 16 bytes")
    );
    assert!(
        load_bytes(&whole[..20])
            .to_string()
            .contains("header is cut short")
    );
    let mut future = encode_header(1);
    let front = terrace_region::Front {
        version: 3,
        ..record::FRONT
    };
    future[..16].copy_from_slice(&front.encode());
    match load_bytes(&future) {
        Error::Unsupported { file, detail } => {
            assert!(
                file.ends_with("MANIFEST-000001") && detail.contains("format 3"),
                "{detail}"
            );
        }
        error => panic!("{error}"),
    }
}

#[test]
fn a_field_of_a_later_version_is_unsupported_unless_it_may_be_skipped() {
    let first = encode_record(
        1,
        HEADER_BYTES as u64,
        &ManifestState::first_edit(identity()),
    );
    for (head, supported) in [([0xe8, 7], false), ([0xe9, 7], true)] {
        let mut bytes = encode_header(1);
        bytes.extend(first.as_ref().unwrap());
        let payload = [head[0], head[1], 2, 1, 2];
        bytes.extend(record::encode_payload(1, bytes.len() as u64, &payload));
        match load_at(&*store_of(&bytes), directory()) {
            Ok(loaded) => assert!(supported && loaded.torn_tail.is_none()),
            Err(Error::Unsupported { detail, .. }) => {
                assert!(
                    !supported && detail.contains("field 500 of an edit"),
                    "{detail}"
                );
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn an_edit_that_does_not_fit_is_corruption_at_its_record() {
    let first = ManifestState::first_edit(identity());
    let mut bytes = encode_header(1);
    bytes.extend(encode_record(1, HEADER_BYTES as u64, &first).unwrap());
    let offset = bytes.len() as u64;
    bytes.extend(encode_record(1, offset, &replace(&[9], vec![])).unwrap());
    match load_at(&*store_of(&bytes), directory()) {
        Err(Error::Corruption {
            offset: found,
            detail,
            ..
        }) => {
            assert_eq!(found, offset);
            assert!(detail.contains("table 9 is not in keyspace 1"), "{detail}");
        }
        other => panic!("{other:?}"),
    }
}

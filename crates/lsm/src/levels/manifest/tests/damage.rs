//! Bytes that differ from the written ones.

use super::*;

#[test]
fn every_truncation_is_a_prefix_or_an_error() {
    let (whole, states) = written_bytes();
    let places = edit_places(&whole);
    for length in 0..whole.len() {
        let edits = places.iter().filter(|(_, end)| *end <= length).count();
        match load_at(&*store_of(&whole[..length]), directory()) {
            Ok(loaded) => {
                let state = &states[edits - 1];
                assert_eq!(summary(&loaded.state), summary(state), "{length}");
                let next = places[edits - 1].1 + MARK_BYTES as usize;
                let tail = loaded.tail.map(|tail| {
                    assert!(tail.is_incomplete, "{length}");
                    (tail.offset as usize, tail.length_bytes as usize)
                });
                let rest = length.checked_sub(next).filter(|&rest| rest > 0);
                assert_eq!(tail, rest.map(|rest| (next, rest)), "{length}");
            }
            Err(Error::Corruption { file, .. }) => {
                assert_eq!(edits, 0, "{length}");
                assert!(file.ends_with("MANIFEST-000001"));
            }
            Err(error) => panic!("{length}: {error}"),
        }
    }
}

/// Number and checksum are good; the record's numbers leave no room for those to come.
#[test]
fn a_forged_number_near_the_end_of_its_range_is_damage_of_the_manifest() {
    let storage = shared(&new_storage());
    written(&storage, OPTIONS);
    let whole = bytes_of(&*storage, "MANIFEST-000001");
    for number in [1 << 56, (1 << 56) - 1, (1 << 56) - (1 << 39)] {
        let edit = Edit {
            flushed_sequence: Some(number),
            ..Edit::default()
        };
        let record = record::encode_record(1, whole.len() as u64, &edit).unwrap();
        let forged = [&*whole, &record].concat();
        match load_at(&*store_of(&forged), directory()) {
            Err(Error::Corruption { file, offset, .. }) => {
                assert!(file.ends_with("MANIFEST-000001"));
                assert_eq!(offset, whole.len() as u64);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn every_bit_flip_in_an_edit_is_an_error_and_in_a_mark_harmless() {
    let (whole, states) = written_bytes();
    let places = edit_places(&whole);
    for bit in 0..whole.len() * 8 {
        let at = bit / 8;
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (bit % 8);
        let is_edit = |(start, end): &(usize, usize)| (*start..*end).contains(&at);
        let edit = places.iter().copied().find(is_edit);
        let is_needed = at < HEADER_BYTES || edit.is_some();
        match load_at(&*store_of(&bytes), directory()) {
            Ok(loaded) => {
                assert!(!is_needed, "bit {bit} was not noticed");
                let state = states.last().unwrap();
                assert_eq!(summary(&loaded.state), summary(state), "bit {bit}");
                assert_eq!(loaded.tail, None, "bit {bit}");
            }
            Err(Error::Corruption { offset, .. }) => {
                assert!(is_needed, "bit {bit}");
                if let Some((start, _)) = edit {
                    assert_eq!(offset, start as u64, "bit {bit}");
                }
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
    let end = whole.len() as u64 + MARK_BYTES;
    for (number, offset, taken) in [(1, end, true), (2, end, false), (1, end + 8, false)] {
        let mut bytes = whole.clone();
        bytes.extend([0; MARK_BYTES as usize]);
        bytes.extend(encode_record(number, offset, &edit).unwrap());
        let loaded = load_at(&*store_of(&bytes), directory()).unwrap();
        assert_eq!(loaded.tail.is_none(), taken, "{number} {offset}");
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
    let places = edit_places(&whole);
    let (damaged, next) = (places[2].0, places[4].0);
    let mut bytes = whole.clone();
    bytes[damaged..next].fill(0);
    match load_at(&*store_of(&bytes), directory()) {
        Err(Error::Corruption { offset, detail, .. }) => {
            assert_eq!(offset, damaged as u64);
            assert!(detail.contains(&format!("follows at {next}")), "{detail}");
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
fn nothing_is_appended_behind_a_dropped_tail() {
    let (mut bytes, states) = written_bytes();
    bytes.truncate(bytes.len() - MARK_BYTES as usize - 3);
    let storage = store_of(&bytes);
    let (mut manifest, state) = open_at(Arc::clone(&storage), directory(), OPTIONS).unwrap();
    assert!(manifest.tail().is_some());
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
        (summary(&loaded.state), loaded.tail),
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
        version: record::FRONT.version + 1,
        ..record::FRONT
    };
    future[..16].copy_from_slice(&front.encode());
    match load_bytes(&future) {
        Error::Unsupported { file, detail } => {
            assert!(
                file.ends_with("MANIFEST-000001") && detail.contains("format 4"),
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
        bytes.extend([0; MARK_BYTES as usize]);
        let payload = [head[0], head[1], 2, 1, 2];
        let record = record::encode_payload(1, bytes.len() as u64, record::KIND_EDIT, &payload);
        bytes.extend(record);
        match load_at(&*store_of(&bytes), directory()) {
            Ok(loaded) => assert!(supported && loaded.tail.is_none()),
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
    bytes.extend([0; MARK_BYTES as usize]);
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

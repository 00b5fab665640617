//! Edits and their marks: which damage is found, and which bytes may be anything.

use super::*;

/// Returns a manifest whose last edit has no mark, and where that edit lies.
fn unmarked() -> (Vec<u8>, (usize, usize), Vec<ManifestState>) {
    let (mut bytes, states) = written_bytes();
    let last = *edit_places(&bytes).last().unwrap();
    bytes.truncate(last.1);
    (bytes, last, states)
}

fn corruption(bytes: &[u8]) -> (u64, String) {
    match load_at(&*store_of(bytes), directory()) {
        Err(Error::Corruption { offset, detail, .. }) => (offset, detail),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_mark_is_there_when_an_append_returns() {
    let storage = shared(&new_storage());
    let (mut manifest, mut state) =
        create_at(Arc::clone(&storage), directory(), identity(), OPTIONS).unwrap();
    for edit in edits() {
        let bytes = bytes_of(&*storage, "MANIFEST-000001");
        let records = Records::new(Path::new("MANIFEST-000001"), &bytes, 1).unwrap();
        assert!(records.map(Result::unwrap).all(|record| record.is_marked));
        state = append(&mut manifest, &state, &edit).unwrap();
    }
    let mut bytes = bytes_of(&*storage, "MANIFEST-000001");
    let (start, _) = *edit_places(&bytes).last().unwrap();
    bytes[start + 20] ^= 1;
    let (offset, detail) = corruption(&bytes);
    assert_eq!(offset, start as u64);
    assert!(detail.contains("its mark at"), "{detail}");
}

#[test]
fn without_its_mark_a_damaged_last_edit_is_dropped_and_not_called_incomplete() {
    let (whole, (start, end), states) = unmarked();
    for bit in start * 8..end * 8 {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let loaded = load_at(&*store_of(&bytes), directory()).unwrap();
        assert_eq!(
            summary(&loaded.state),
            summary(&states[states.len() - 2]),
            "bit {bit}"
        );
        let tail = loaded.tail.expect("a dropped edit is reported");
        assert_eq!(tail.offset, start as u64);
        assert!(!tail.is_incomplete, "bit {bit}: {tail}");
    }
    // A cut mark behind it changes nothing.
    let mut bytes = whole;
    bytes[start + 8] ^= 0x80;
    bytes.extend([0; 20]);
    let tail = load_at(&*store_of(&bytes), directory())
        .unwrap()
        .tail
        .unwrap();
    assert!(!tail.is_incomplete, "{tail}");
}

#[test]
fn an_edit_of_which_nothing_came_was_never_completed() {
    let (mut bytes, (start, _), _) = unmarked();
    bytes[start..].fill(0);
    let tail = load_at(&*store_of(&bytes), directory())
        .unwrap()
        .tail
        .unwrap();
    assert!(tail.to_string().contains("never completed"), "{tail}");
}

#[test]
fn a_mark_that_a_power_cut_took_is_no_damage() {
    let (whole, states) = written_bytes();
    let places = edit_places(&whole);
    for fill in [0, 0xa5] {
        let mut bytes = whole.clone();
        for &(_, end) in &places {
            bytes[end..end + MARK_BYTES as usize].fill(fill);
        }
        let loaded = load_at(&*store_of(&bytes), directory()).unwrap();
        let last = states.last().unwrap();
        assert_eq!(summary(&loaded.state), summary(last));
        assert_eq!(loaded.tail, None);
    }
}

#[test]
fn a_record_that_is_not_the_mark_of_the_edit_before_it_is_damage() {
    let (whole, states) = written_bytes();
    let (start, end) = *edit_places(&whole).last().unwrap();
    let edit = &whole[start..end];
    let mut other = edit.to_vec();
    other[0] ^= 1;
    let records = [
        encode_mark(1, start as u64, &other),
        encode_record(1, end as u64, &issue(99)).unwrap(),
    ];
    for record in records {
        let bytes = [&whole[..end], &record].concat();
        let (offset, detail) = corruption(&bytes);
        assert_eq!(offset, end as u64);
        assert!(detail.contains("is not its mark"), "{detail}");
    }
    let bytes = [&whole[..end], &encode_mark(1, start as u64, edit)].concat();
    let loaded = load_at(&*store_of(&bytes), directory()).unwrap();
    assert_eq!(summary(&loaded.state), summary(states.last().unwrap()));
}

#[test]
fn a_mark_in_place_of_an_edit_is_damage() {
    let (whole, _) = written_bytes();
    let (start, end) = *edit_places(&whole).last().unwrap();
    let next = whole.len();
    let payload = [start.to_le_bytes(), [1; 8]].concat();
    let stray = record::encode_payload(1, next as u64, record::KIND_MARK, &payload);
    let (offset, detail) = corruption(&[&whole[..], &stray].concat());
    assert_eq!(offset, next as u64);
    assert!(detail.contains("a mark stands where"), "{detail}");
    // Behind an edit that does not check, any mark is.
    let mut bytes = [&whole[..end], &[0; MARK_BYTES as usize], &stray].concat();
    bytes[start + 20] ^= 1;
    assert_eq!(corruption(&bytes).0, start as u64);
}

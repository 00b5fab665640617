//! The index against a `BTreeMap`.

use std::collections::BTreeMap;

use crate::format::location::CellLocation;
use crate::index::entry::pack;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Command {
    Insert(Key, Found, u8),
    Replace(Key, Found),
    Remove(Key),
    Touch(Key, u8),
}

fn any_key() -> impl Strategy<Value = Key> {
    // Few bytes of few values: keys meet again, and differ in zeros at the end alone.
    (
        prop::collection::vec(0..2_u8, 1..4),
        prop_oneof![4 => Just(0), 1 => 0..14_usize],
    )
        .prop_map(|(mut bytes, zeros)| {
            bytes.resize((bytes.len() + zeros).min(16), 0);
            Key::new(&bytes).unwrap()
        })
}

fn any_place() -> impl Strategy<Value = Place> {
    let extent = (0..1_u64 << 41, 1..3_000_u64);
    prop_oneof![
        2 => extent.clone().prop_map(|extent| extents(&[extent])),
        2 => prop::collection::vec(extent, 1..20).prop_map(|list| extents(&list)),
        2 => (0..1_u64 << 40, 1..1_usize << 13).prop_map(|(segment, offset)| {
            Place::Cell(CellLocation::new(segment, offset * 8).unwrap())
        }),
    ]
}

fn any_found() -> impl Strategy<Value = Found> {
    (
        any_place(),
        prop_oneof![0..5_000_u32, any::<u32>()],
        any::<u32>(),
    )
        .prop_map(|(place, value_bytes, check)| Found {
            value_bytes,
            check,
            place,
        })
}

fn any_command() -> impl Strategy<Value = Command> {
    prop_oneof![
        6 => (any_key(), any_found(), any::<u8>()).prop_map(|(k, f, a)| Command::Insert(k, f, a)),
        2 => (any_key(), any_found()).prop_map(|(k, f)| Command::Replace(k, f)),
        3 => any_key().prop_map(Command::Remove),
        1 => (any_key(), any::<u8>()).prop_map(|(k, a)| Command::Touch(k, a)),
    ]
}

type Model = BTreeMap<Key, (Found, u8)>;

fn extra_extents(model: &Model) -> u64 {
    let several = |found: &Found| match (&found.place, pack(&found.place, found.value_bytes)) {
        (_, Some(_)) => 0,
        (Place::Extents(extents), None) => extents.len() as u64,
        (Place::Cell(_), None) => 1,
    };
    model
        .values()
        .map(|(found, _)| {
            assert_eq!(found.extra_extents(), several(found));
            several(found)
        })
        .sum()
}

fn run(index: &Index, model: &mut Model, command: Command) {
    let of = |key: &Key| index.partition(index.hash(key)).lock();
    match command {
        Command::Insert(key, found, age) => {
            let result = of(&key).insert(index.hash(&key), &key, found.clone(), age);
            let earlier = model.insert(key, (found, age)).map(|(found, _)| found);
            assert_eq!(result, Ok(earlier));
        }
        Command::Replace(key, found) => {
            let result = of(&key).replace(index.hash(&key), &key, found.clone());
            let known = model.get_mut(&key);
            assert_eq!(
                result,
                known.map(|known| std::mem::replace(&mut known.0, found))
            );
        }
        Command::Remove(key) => {
            let expected = model.remove(&key).map(|(found, _)| found);
            assert_eq!(remove(index, &key), expected);
        }
        Command::Touch(key, age) => {
            let touched = of(&key).touch(index.hash(&key), &key, age);
            let known = model.get_mut(&key);
            assert_eq!(touched.as_ref(), known.as_ref().map(|known| &known.0));
            if let Some(known) = known {
                known.1 = age;
            }
        }
    }
}

fn compare(index: &Index, model: &Model) {
    assert_eq!(index.len(), model.len() as u64);
    let value_bytes = model.values().map(|known| u64::from(known.0.value_bytes));
    assert_eq!(index.value_bytes(), value_bytes.sum::<u64>());
    assert_eq!(index.extra_extents(), extra_extents(model));
    for (key, (found, age)) in model {
        assert_eq!(get(index, key).as_ref(), Some(found));
        let of = index.partition(index.hash(key)).lock();
        let near = (0..of.slots()).filter_map(|slot| of.near(slot));
        assert!(
            near.into_iter()
                .any(|near| near == (*key, found.clone(), *age))
        );
    }
    let mut walked = Model::new();
    index.walk(&mut WalkCursor::default(), usize::MAX, |key, found| {
        let earlier = walked.insert(*key, (found.clone(), model[key].1));
        assert_eq!(earlier, None);
    });
    assert_eq!(&walked, model);
}

proptest! {
    #[test]
    fn the_index_is_a_map(commands in prop::collection::vec(any_command(), 1..200)) {
        let (index, mut model) = (Index::new(1), Model::new());
        for command in commands {
            run(&index, &mut model, command);
        }
        compare(&index, &model);
        for key in model.into_keys() {
            remove(&index, &key).unwrap();
        }
        prop_assert_eq!((index.len(), index.value_bytes(), index.extra_extents()), (0, 0, 0));
    }
}

#[test]
fn threads_that_fill_the_index_count_each_key() {
    let index = Index::new(2);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let index = &index;
            scope.spawn(move || {
                for number in 0..3_000 {
                    let own = number * 4 + thread;
                    assert_eq!(insert(index, &key(own), found(own)), Ok(None));
                }
            });
        }
    });
    assert_eq!(index.len(), 12_000);
}

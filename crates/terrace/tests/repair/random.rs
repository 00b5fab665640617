//! Damage at random. `TERRACE_REPAIR_ROUNDS` sets how many stores are damaged.

use crate::image::{Image, STORE};
use crate::specimen::{BOOT, Scripted, contents, open, options};
use crate::support;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use terrace::Error;
use terrace_tools::inspect;
use terrace_tools::repair::repair;

#[test]
fn whatever_is_damaged_a_repair_gives_a_store_or_an_error() {
    let rounds = support::scale("TERRACE_REPAIR_ROUNDS", 300);
    let scripted: Vec<_> = (20..24)
        .map(|seed| Scripted::new(seed, 200, true))
        .collect();
    let (mut stores, mut errors) = (0, 0);
    for round in 0..rounds {
        let mut random = SmallRng::seed_from_u64(round);
        let scripted = &scripted[round as usize % scripted.len()];
        let mut image = scripted.image.clone();
        for _ in 0..random.random_range(1..6) {
            damage(&mut image, &mut random);
        }
        let holds_writes = |name: &str| name.ends_with(".table") || name.starts_with("arena-");
        let changed = scripted.image.names(|name| {
            holds_writes(name) && image.files.get(name) != scripted.image.files.get(name)
        });
        let disk = image.disk(BOOT);
        match repair(STORE.as_ref(), options(&disk), |_, _| {}) {
            Ok(_) => {
                let verified = inspect::verify(STORE.as_ref(), options(&disk), |_, _| {}).unwrap();
                assert!(
                    verified.problems.is_empty(),
                    "{round}: {:?}",
                    verified.problems
                );
                if changed.is_empty() {
                    scripted.check(&open(&disk), true);
                }
                for (keyspace, content) in contents(&open(&disk)) {
                    for (key, value) in content {
                        let values = scripted.ever.get(&(keyspace, key.clone()));
                        assert!(
                            values.is_some_and(|values| values.contains(&value)),
                            "{key:?}"
                        );
                    }
                }
                stores += 1;
            }
            Err(
                error @ (Error::Unsupported { .. }
                | Error::NoStore { .. }
                | Error::RegionLost { .. }),
            ) => {
                assert!(!error.to_string().is_empty());
                errors += 1;
            }
            Err(error) => panic!("{round}: {error}"),
        }
    }
    assert!(stores > errors, "{stores} stores, {errors} errors");
}

fn damage(image: &mut Image, random: &mut SmallRng) {
    let names: Vec<String> = image.files.keys().cloned().collect();
    let Some(name) = names.get(random.random_range(0..names.len().max(1))) else {
        return;
    };
    let bytes = image.files.get_mut(name).unwrap();
    let at = random.random_range(0..bytes.len().max(1));
    match random.random_range(0..6) {
        0 => {
            image.files.remove(name);
        }
        1 => bytes.truncate(at),
        2 => {
            let end = (at + 600).min(bytes.len());
            bytes[at..end].fill(0);
        }
        3 => bytes.extend([0xa5; 100]),
        _ if bytes.is_empty() => {}
        _ => {
            let used = bytes.len() - bytes.iter().rev().take_while(|byte| **byte == 0).count();
            bytes[at % used.max(1)] ^= 1 << random.random_range(0..8);
        }
    }
}

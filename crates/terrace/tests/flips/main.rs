//! Damage to every file of a store: flipped bits, truncations, garbage, missing and exchanged files.
//!
//! After any damage to a file, opening the store and reading all of it gives a typed error that
//! names the store, or exactly the right answer. Only above the highest number known to be
//! persisted may a tail be missing, and it must be reported. A store that was closed in order has
//! no such tail. An opening that fails, or a store that cannot be read in full, has destroyed
//! nothing: every table and arena is still there, byte for byte.
//!
//! The one case that no store can tell: damage to the *last* frame of a store that was not closed
//! looks as a write does that was cut short: the writes of this frame alone may be missing. That is
//! reported too, as a torn tail, unless the damage hit the very field by which a frame is
//! recognised. [`verdict::Verdict::LastFrame`] counts those, and the tests hold the damage to its place.
//!
//! `TERRACE_FLIP_STRIDE` sets how many bytes lie between two flips in tables and arenas (13 by
//! default; 1 flips a bit of every byte). Manifest, `CURRENT` and `TIER` are always flipped byte by byte.

#[path = "../image/mod.rs"]
mod image;
mod observation;
mod specimen;
#[path = "../support/mod.rs"]
mod support;
mod verdict;

use specimen::{End, Specimen, specimens, tiered};
use verdict::{Damage, Tally};

fn stride() -> usize {
    support::scale("TERRACE_FLIP_STRIDE", 13).max(1) as usize
}

fn is_small(name: &str) -> bool {
    name == "CURRENT" || name.starts_with("MANIFEST-") || name.ends_with("/TIER")
}

/// Flips a bit at every place of every file.
fn flip_bits(specimen: &Specimen) -> Tally {
    let mut tally = Tally::default();
    for (name, bytes) in &specimen.image.files {
        let step = if is_small(name) { 1 } else { stride() };
        // Bytes behind an arena's frames are never read; a few places will do.
        let used = bytes.len() - bytes.iter().rev().take_while(|byte| **byte == 0).count();
        let idle = (used..bytes.len()).step_by(step * 50);
        for offset in (0..used).step_by(step).chain(idle) {
            let bit = (offset * 5 + offset / 8) % 8;
            let damage = Damage {
                file: name,
                offset,
                what: format!("bit {bit} flipped"),
            };
            let damaged = specimen.image.with(name, |bytes| bytes[offset] ^= 1 << bit);
            let right = tally.right;
            specimen.try_damage(&damaged, &damage, &mut tally);
            // Every byte of a table and of `CURRENT` is under a checksum that reading verifies, but for
            // the sketches of a table, which no reader asks.
            let is_covered =
                name.ends_with(".table") || name == "CURRENT" || name.ends_with("/TIER");
            let is_found = tally.right == right || specimen.is_found_by_verify(&damaged);
            assert!(!is_covered || is_found, "{damage} is not found");
        }
    }
    tally
}

/// Cuts every file short, and lets it grow.
fn change_lengths(specimen: &Specimen) -> Tally {
    let mut tally = Tally::default();
    for (name, bytes) in &specimen.image.files {
        let step = if is_small(name) { 1 } else { stride() * 7 };
        for length in (0..bytes.len())
            .step_by(step)
            .chain(bytes.len().checked_sub(1))
        {
            let damage = Damage {
                file: name,
                offset: length,
                what: "cut off".to_owned(),
            };
            let damaged = specimen.image.with(name, |bytes| bytes.truncate(length));
            specimen.try_damage(&damaged, &damage, &mut tally);
        }
        for added in [
            vec![0; 1],
            vec![0; 4096],
            vec![0xa5; 1],
            vec![0xa5; 100],
            vec![0xff; 5000],
        ] {
            let what = format!("{} bytes {} appended", added.len(), added[0]);
            let damage = Damage {
                file: name,
                offset: bytes.len(),
                what,
            };
            let damaged = specimen.image.with(name, |bytes| bytes.extend(&added));
            specimen.try_damage(&damaged, &damage, &mut tally);
        }
    }
    tally
}

/// Removes files, empties them, and puts one in another's place.
fn exchange_files(specimen: &Specimen) -> Tally {
    let mut tally = Tally::default();
    let image = &specimen.image;
    for (name, bytes) in &image.files {
        let damage = |what: String| Damage {
            file: name,
            offset: 0,
            what,
        };
        specimen.try_damage(
            &image.without(name),
            &damage("removed".to_owned()),
            &mut tally,
        );
        let zeros = image.with(name, |bytes| bytes.fill(0));
        specimen.try_damage(&zeros, &damage("filled with zeros".to_owned()), &mut tally);
        for (other, content) in image.files.iter().filter(|(_, content)| *content != bytes) {
            let exchanged = image.with(name, |bytes| bytes.clone_from(content));
            specimen.try_damage(
                &exchanged,
                &damage(format!("replaced by {other}")),
                &mut tally,
            );
        }
    }
    tally
}

#[test]
fn an_undamaged_store_is_right() {
    for end in [End::Closed, End::Killed, End::PowerCut] {
        for specimen in specimens(end) {
            let mut tally = Tally::default();
            let damage = Damage {
                file: "none",
                offset: 0,
                what: "undamaged".to_owned(),
            };
            specimen.try_damage(&specimen.image, &damage, &mut tally);
            assert_eq!(tally.right, 2, "{tally:?}");
        }
    }
}

#[test]
fn a_flipped_bit_in_a_closed_store_is_found_or_harmless() {
    let specimen = specimens(End::Closed).next().unwrap();
    let tally = flip_bits(&specimen);
    println!("{tally:?}");
    assert!(tally.refused > 0 && tally.unreadable > 0);
}

#[test]
fn a_flipped_bit_in_a_killed_store_is_found_or_harmless() {
    let specimen = specimens(End::Killed).next().unwrap();
    let tally = flip_bits(&specimen);
    println!("{tally:?}");
    assert!(tally.refused > 0 && tally.unreadable > 0 && tally.dropped > 0);
    assert!(
        // Each damage is opened twice, by a reader and by an owner.
        tally.last_frame <= 2 * 8,
        "more than the generation's bytes: {tally:?}"
    );
}

#[test]
fn a_flipped_bit_after_a_power_cut_is_found_or_reported() {
    let specimen = specimens(End::PowerCut).next().unwrap();
    let tally = flip_bits(&specimen);
    println!("{tally:?}");
    assert!(tally.refused > 0 && tally.unreadable > 0 && tally.dropped > 0);
}

#[test]
fn a_flipped_bit_in_any_tier_is_found_or_harmless() {
    for end in [End::Closed, End::Killed] {
        let tally = flip_bits(&tiered(end));
        println!("{end:?}: {tally:?}");
        assert!(tally.refused > 0 && tally.unreadable > 0);
    }
}

#[test]
fn a_file_of_a_tier_that_is_cut_missing_or_exchanged_is_found() {
    let specimen = tiered(End::Closed);
    for tally in [change_lengths(&specimen), exchange_files(&specimen)] {
        println!("{tally:?}");
        assert!(tally.refused > 0);
    }
}

#[test]
fn a_file_of_the_wrong_length_is_found_or_harmless() {
    for end in [End::Closed, End::Killed, End::PowerCut] {
        for specimen in specimens(end) {
            let tally = change_lengths(&specimen);
            println!("{end:?}: {tally:?}");
            assert!(tally.refused > 0);
        }
    }
}

#[test]
fn a_missing_or_exchanged_file_is_found() {
    for end in [End::Closed, End::Killed, End::PowerCut] {
        for specimen in specimens(end) {
            let tally = exchange_files(&specimen);
            println!("{end:?}: {tally:?}");
            assert!(tally.refused > 0);
        }
    }
}

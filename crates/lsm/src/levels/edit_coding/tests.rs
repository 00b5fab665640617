use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::*;
use crate::keyspace_options::{KeyspaceOptions, Placement};
use crate::levels::edit::{ArenaHome, KeyspaceFormed};
use crate::levels::moments::Moment;
use crate::levels::state::ManifestState;
use crate::levels::testing::{added, flush_place, new_state};
use crate::levels::tiers::{TierRecord, TierUse};
use crate::table::Compression;

#[test]
fn the_options_of_a_keyspace_outlive_a_rewrite_and_bad_ones_are_refused() {
    let id = KeyspaceId(2);
    let formed = |level_ratio| Edit {
        keyspaces_created: vec![KeyspaceCreated {
            id,
            name: "second".to_owned(),
        }],
        keyspaces_formed: vec![KeyspaceFormed {
            id,
            options: KeyspaceOptions {
                level_ratio,
                compression: vec![Compression::Zstd],
                placement: Placement::Heat,
                pinned_tiers: vec!["a".into(), "b".into()],
                tier_ages_seconds: vec![60, 3600],
                ..KeyspaceOptions::default()
            },
        }],
        ..Edit::default()
    };
    let state = applied(&new_state(), &formed(7));
    let again = Edit::decode(&state.as_edit().encode()).unwrap();
    let again = ManifestState::begin(&again).unwrap();
    let options = again.version.keyspace(id).unwrap().options.clone();
    assert_eq!(*options.unwrap(), formed(7).keyspaces_formed[0].options);
    assert!(Edit::decode(&formed(1).encode()).is_err());
}

#[test]
fn a_new_name_outlives_a_rewrite_and_may_not_be_skipped() {
    let id = KeyspaceId(2);
    let created = Edit {
        keyspaces_created: vec![KeyspaceCreated {
            id,
            name: "second".to_owned(),
        }],
        keyspaces_formed: vec![KeyspaceFormed {
            id,
            options: KeyspaceOptions::default(),
        }],
        ..Edit::default()
    };
    let renamed = Edit {
        keyspaces_renamed: vec![KeyspaceRenamed {
            id,
            name: "zwei".to_owned(),
        }],
        ..Edit::default()
    };
    assert_eq!(renamed.to_string(), "rename keyspace 2 to \"zwei\"\n");
    // A tag whose lowest bit is not set: an older release refuses the manifest.
    let stored = [30 << 1, 9, 1 << 1, 1, 2, 2 << 1, 4, b'z', b'w', b'e', b'i'];
    assert_eq!(renamed.encode(), stored);
    let state = applied(&applied(&new_state(), &created), &renamed);
    let levels = state.version.keyspace(id).unwrap();
    assert_eq!(
        (levels.name.as_str(), levels.options.is_some()),
        ("zwei", true)
    );
    let again = state.as_edit();
    assert!(again.keyspaces_renamed.is_empty());
    let again = ManifestState::begin(&Edit::decode(&again.encode()).unwrap()).unwrap();
    assert_eq!(again.version.keyspace(id).unwrap().name, "zwei");
}

fn applied(state: &ManifestState, edit: &Edit) -> ManifestState {
    let read = Edit::decode(&edit.encode()).unwrap();
    assert_eq!(&read, edit);
    state.apply(&read).unwrap()
}

#[test]
fn the_bits_of_an_opening_and_what_an_arena_replaces_outlive_a_rewrite() {
    let issued = |generation, replaced| Edit {
        arenas_issued: vec![ArenaIssued {
            generation,
            slot: 3,
            capacity_bytes: 8192,
            replaced_generation: replaced,
        }],
        opening_bits: Some(0x0123_4567_89ab_cdef),
        ..Edit::default()
    };
    let edit = issued(9, Some(7));
    assert!(edit.to_string().contains("opening 0123456789abcdef"));
    let state = applied(&new_state(), &edit);
    // An edit of the same opening does not repeat them.
    let state = applied(&state, &Edit::default());
    let again = Edit::decode(&state.as_edit().encode()).unwrap();
    assert_eq!(again.arenas_issued, edit.arenas_issued);
    assert_eq!(again.opening_bits, edit.opening_bits);
    let field = [&[26 << 1, 8][..], &0x0123_4567_89ab_cdef_u64.to_le_bytes()].concat();
    assert!(edit.encode().ends_with(&field));
    assert!(Edit::decode(&edit.encode()[..edit.encode().len() - 1]).is_err());
    for possible in [None, Some(0), Some(8)] {
        applied(&new_state(), &issued(9, possible));
    }
    for impossible in [9, 10] {
        assert!(Edit::decode(&issued(9, Some(impossible)).encode()).is_err());
    }
}

#[test]
fn the_age_of_tombstones_outlives_a_rewrite_and_may_be_skipped() {
    let mut added = added(flush_place(1), 7, "a", "z");
    added.table.oldest_tombstone_seconds = Some(1_764_000_000);
    let edit = Edit {
        tables_added: vec![added],
        ..Edit::default()
    };
    assert!(edit.to_string().contains("the oldest of second 1764000000"));
    let state = applied(&new_state(), &edit);
    let again = Edit::decode(&state.as_edit().encode()).unwrap();
    assert_eq!(again.tables_added, edit.tables_added);
    // The tag has the bit by which older versions know that they may do without.
    let tag = u8::try_from(table::OLDEST_TOMBSTONE << 1 | 1).unwrap();
    let stored = [tag, 5, 0x80, 0x82, 0x92, 0xc9, 0x06];
    assert!(edit.encode().windows(7).any(|bytes| bytes == stored));
}

#[test]
fn the_note_of_superseded_versions_outlives_a_rewrite_and_may_be_skipped() {
    let noted = |versions, bytes, largest_by| {
        let mut added = added(flush_place(1), 7, "a", "z");
        added.table.superseded = Some(Superseded {
            versions,
            bytes,
            largest_by,
        });
        Edit {
            tables_added: vec![added],
            ..Edit::default()
        }
    };
    // The table has 10 entries, 100 bytes, and the number 8 as its largest.
    let edit = noted(10, 100, 8);
    assert!(
        edit.to_string()
            .contains("10 superseded of 100 bytes by 8 at most")
    );
    let state = applied(&new_state(), &edit);
    let again = Edit::decode(&state.as_edit().encode()).unwrap();
    assert_eq!(again.tables_added, edit.tables_added);
    let tag = u8::try_from(table::SUPERSEDED << 1 | 1).unwrap();
    let stored = [tag, 3, 10, 100, 8];
    assert!(edit.encode().ends_with(&stored));
    for impossible in [noted(11, 100, 8), noted(10, 101, 8), noted(10, 100, 9)] {
        assert!(Edit::decode(&impossible.encode()).is_err());
    }
}

#[test]
fn no_table_has_the_number_0_for_all_its_entries() {
    let edit = |sequence| {
        let mut added = added(flush_place(1), 7, "a", "z");
        added.table = added.table.assigned(sequence);
        Edit {
            tables_added: vec![added],
            ..Edit::default()
        }
    };
    assert!(Edit::decode(&edit(1).encode()).is_ok());
    assert!(Edit::decode(&edit(0).encode()).is_err());
}

#[test]
fn the_home_of_the_arenas_and_every_loss_outlive_a_rewrite() {
    let region = ArenaHome::Region {
        id: 0x0123,
        path: PathBuf::from(OsStr::from_bytes(b"/not \xff UTF-8")),
    };
    let lost = |kept, promised| RegionLoss { kept, promised };
    let mut state = new_state();
    for (home, loss) in [
        (Some(region.clone()), lost(3, 3)),
        (None, lost(4, 9)),
        (Some(ArenaHome::Store), lost(9, 9)),
    ] {
        let edit = Edit {
            arena_home: home.clone(),
            region_losses: vec![loss],
            ..Edit::default()
        };
        assert!(edit.to_string().contains("writes after number"));
        state = applied(&state, &edit);
        let again = Edit::decode(&state.as_edit().encode()).unwrap();
        let again = ManifestState::begin(&again).unwrap();
        assert_eq!(again.arena_home, state.arena_home);
        assert_eq!(again.region_losses, state.region_losses);
        if let Some(home) = home {
            assert_eq!(state.arena_home, home);
        }
    }
    assert_eq!(state.region_losses.len(), 3);
    let impossible = Edit {
        region_losses: vec![lost(2, 1)],
        ..Edit::default()
    };
    assert!(Edit::decode(&impossible.encode()).is_err());
}

#[test]
fn tiers_and_the_tiers_of_tables_outlive_a_rewrite() {
    let tier = TierRecord {
        number: 2,
        id: 0x0102,
        name: "hdd".to_owned(),
        path: "/mnt/hdd".into(),
        capacity_bytes: 1 << 40,
        reserve_bytes: 1 << 20,
        profile: Some(terrace_storage::DeviceProfile::WD10EZEX),
        state: TierUse::Open,
    };
    let mut listed = added(flush_place(1), 1, "a", "z");
    listed.table.tier = 2;
    let edit = Edit {
        tables_added: vec![listed.clone()],
        tiers: vec![tier.clone()],
        ..Edit::default()
    };
    let state = applied(&new_state(), &edit);
    let again = Edit::decode(&state.as_edit().encode()).unwrap();
    let again = ManifestState::begin(&again).unwrap();
    assert_eq!(again.tiers, std::slice::from_ref(&tier));
    let tier_of = |state: &ManifestState| state.version.tables().next().unwrap().1.tier;
    assert_eq!(tier_of(&again), 2);

    let migrated = Edit {
        tables_migrated: vec![TableMigrated {
            keyspace: KeyspaceId::DEFAULT,
            number: 1,
            tier: 1,
        }],
        ..Edit::default()
    };
    assert_eq!(
        migrated.to_string(),
        "migrate table 1 of keyspace 1 to tier 1\n"
    );
    let back = applied(&again, &migrated);
    assert_eq!(tier_of(&back), 1);
    assert!(back.apply(&migrated).is_err(), "it is there already");

    // A table in a tier that is not listed, or that was removed.
    assert!(
        new_state()
            .apply(&Edit {
                tiers: vec![],
                ..edit.clone()
            })
            .is_err()
    );
    let removed = TierRecord {
        state: TierUse::Removed,
        ..tier
    };
    let removal = Edit {
        tiers: vec![removed],
        ..Edit::default()
    };
    assert!(again.apply(&removal).is_err(), "a table lies there");
    applied(&back, &removal);
}

#[test]
fn moments_outlive_a_rewrite_and_may_be_skipped() {
    let moment = Moment {
        sequence: 300,
        seconds: 5,
    };
    let edit = Edit {
        moments: vec![moment],
        ..Edit::default()
    };
    assert_eq!(edit.to_string(), "sequence 300 at second 5\n");
    let bytes = edit.encode();
    assert_eq!(bytes[0], 31 << 1 | 1, "an older release goes on without it");
    assert_eq!(Edit::decode(&bytes).unwrap(), edit);
    let state = applied(&new_state(), &edit);
    let again = ManifestState::begin(&Edit::decode(&state.as_edit().encode()).unwrap()).unwrap();
    assert_eq!(again.moments.list(), [moment]);
    let never = Edit {
        moments: vec![Moment {
            seconds: 0,
            ..moment
        }],
        ..Edit::default()
    };
    assert!(Edit::decode(&never.encode()).is_err());
}

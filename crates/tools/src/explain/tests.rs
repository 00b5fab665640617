use proptest::prelude::*;
use terrace::internal::{merge_without_drops, reserve};
use terrace::{Background, Db, Error, Options};

use super::*;

/// A store that wrote the same keys again and again and merged nothing, to be read by other options.
fn written() -> Options {
    let options = Options {
        // So small that a flush takes no table of level 0 along.
        arena_bytes: 1 << 20,
        level0_merge: 100,
        level0_slowdown: 200,
        ..Options::in_memory()
    };
    let db = Db::open("/store", options.clone()).unwrap();
    for round in 0..6u32 {
        for key in 0..500u32 {
            let key = key * (round % 3 + 1);
            db.put(key.to_be_bytes(), [7; 20]).unwrap();
        }
        db.flush().unwrap();
    }
    db.close().unwrap();
    options
}

fn read_as(options: &Options, policy: CompactionPolicy) -> Db {
    let options = Options {
        read_only: true,
        compaction_policy: policy,
        level0_merge: 4,
        ..options.clone()
    };
    Db::open("/store", options).unwrap()
}

const POLICIES: [CompactionPolicy; 5] = [
    CompactionPolicy::Leveled,
    CompactionPolicy::Tiered,
    CompactionPolicy::Lazy,
    CompactionPolicy::Dedup,
    CompactionPolicy::Score,
];

#[test]
fn a_store_and_its_description_explain_the_same() {
    let options = written();
    for policy in POLICIES {
        let db = read_as(&options, policy);
        for _with_snapshot in [false, true] {
            let explained = explain_compaction(&db);
            let [keyspace] = explained.keyspaces.as_slice() else {
                panic!("{explained:?}");
            };
            let choice = keyspace.choice.as_ref().unwrap();
            assert!(
                choice.dropped_entries.unwrap() > 500,
                "{policy}: {choice:?}"
            );
            assert_eq!(keyspace.settings.policy, policy);
            let rate = keyspace.levels[0].duplicate_rate.unwrap();
            assert!((2.0..4.0).contains(&rate), "{rate}");
            let text = describe_compaction(&db, "default")
                .unwrap()
                .to_toml()
                .unwrap();
            let again = Description::from_toml(&text).unwrap();
            assert_eq!(again.explain().unwrap(), explained, "{policy}\n{text}");
            assert_eq!(again.to_toml().unwrap(), text);
            let _kept = db.snapshot();
        }
        assert!(matches!(
            describe_compaction(&db, "lakes"),
            Err(Error::NoKeyspace { .. })
        ));
    }
}

#[test]
fn what_a_description_holds_comes_from_the_tables() {
    let options = written();
    let db = read_as(&options, CompactionPolicy::Score);
    let explained = explain_compaction(&db).keyspaces.remove(0);
    let levels = db.levels().keyspaces.remove(0);
    let sub_levels = &explained.levels[0].sub_levels;
    assert_eq!(sub_levels.len(), levels.levels[0].len());
    for (shown, report) in sub_levels.iter().zip(&levels.levels[0]) {
        assert_eq!((shown.number, shown.age), (report.number, report.age));
        assert_eq!(shown.entries, report.tables[0].entries);
    }
    let chosen = explained
        .candidates
        .iter()
        .filter(|c| c.standing == WeighedStanding::Chosen);
    let chosen: Vec<_> = chosen.collect();
    assert_eq!(chosen.len(), 1);
    assert_eq!(chosen[0].plan, explained.choice);
    assert!(explained.candidates.len() > 5, "{:?}", explained.candidates);
}

fn write(db: &Db) {
    for key in 0..100u8 {
        db.put([key], b"value").unwrap();
    }
    db.flush().unwrap();
}

#[test]
fn what_is_under_way_is_told_with_what_waits_for_it() {
    let options = Options {
        compaction_policy: CompactionPolicy::Tiered,
        level0_merge: 2,
        background: Background::Inline,
        ..Options::in_memory()
    };
    let db = Db::open("/store", options).unwrap();
    write(&db);
    let reserved = reserve(&db, &[0], &[255]).unwrap();
    write(&db);
    let explanation = explain_compaction(&db);
    let keyspace = &explanation.keyspaces[0];
    assert_eq!(keyspace.under_way[0].reason, "tables are put there");
    assert_eq!(keyspace.choice, None);
    let waiting = keyspace.waiting.as_ref().unwrap();
    assert_eq!(
        (waiting.until.as_slice(), waiting.plan.entries),
        (&[0][..], 200)
    );
    let described = describe_compaction(&db, "default").unwrap();
    assert_eq!(described.explain().unwrap(), explanation);
    drop(reserved);
    let keyspace = explain_compaction(&db).keyspaces.remove(0);
    assert_eq!(keyspace.choice, keyspace.candidates[0].plan);
    assert_eq!(keyspace.choice.unwrap().read_bytes, waiting.plan.read_bytes);
}

#[test]
fn what_is_put_off_is_told_with_what_it_needs() {
    let options = Options {
        level0_merge: 10,
        // A flush takes no table along.
        arena_bytes: 1 << 20,
        ..Options::in_memory()
    };
    let db = Db::open("/store", options.clone()).unwrap();
    write(&db);
    write(&db);
    db.close().unwrap();
    let db = Db::open(
        "/store",
        Options {
            read_only: true,
            compaction_policy: CompactionPolicy::Score,
            ..options
        },
    );
    let db = db.unwrap();
    let before = explain_compaction(&db).keyspaces.remove(0);
    // An estimate, of hashes that differ from one process to the next.
    let dropped = before.choice.unwrap().dropped_entries.unwrap();
    assert!((97..=103).contains(&dropped), "{dropped}");
    let output = merge_without_drops(&db, 200, 100.0).unwrap();
    let explanation = explain_compaction(&db);
    let after = &explanation.keyspaces[0];
    let [setback] = after.setbacks.as_slice() else {
        panic!("{after:?}");
    };
    assert_eq!((setback.level, setback.age), output);
    assert_eq!(
        (setback.needed_entries, setback.present_entries),
        (250, 200)
    );
    assert_eq!(after.choice, None);
    let described = describe_compaction(&db, "default").unwrap();
    let described = described.explain().unwrap().keyspaces.remove(0);
    assert_eq!(described.choice, None);
    assert_eq!(described.levels, after.levels);
}
fn explained(text: &str) -> KeyspaceExplanation {
    let description = Description::from_toml(text).unwrap();
    description.explain().unwrap().keyspaces.remove(0)
}

/// A bound that is written beside the sizes that follow from it would count them twice.
#[test]
fn sizes_follow_from_a_bound_and_replace_it() {
    let bounded = "[options]\nmemory_bytes = 671088640\n";
    let text = Description::from_toml(bounded).unwrap().to_toml().unwrap();
    let form: toml::Table = text.parse().unwrap();
    let options = form["options"].as_table().unwrap();
    assert_eq!(options["level0_merge"].as_integer(), Some(12), "{text}");
    assert_eq!(options.get("memory_bytes"), None, "{text}");
    assert_eq!(explained(&text), explained(bounded));
}

/// A group of options ends the table that it lies in, unless its head names that table.
#[test]
fn groups_of_options_are_read_as_they_were_written() {
    let text = "[options.read_buffer]\nshare_percent = 25\n\
                [options.constants]\nlevel0_stop = 25\n";
    let written = Description::from_toml(text).unwrap().to_toml().unwrap();
    assert!(written.contains("level0_stop = 25"), "{written}");
    assert_eq!(explained(&written), explained(text), "{written}");
}

/// Describes sub-levels of a thousand versions, a byte each.
fn described(head: &str, levels: &[u8]) -> String {
    let sub_levels = levels
        .iter()
        .map(|level| format!("[[sub_levels]]\nlevel = {level}\nbytes = 1000\nentries = 1000\n"));
    format!("{head}\n{}", sub_levels.collect::<String>())
}

#[test]
fn where_nothing_is_due_the_nearest_is_told() {
    let options = "keys = 2000\n[options]\ncompaction_policy = \"dedup\"\ndedup_threshold = 2.0";
    let keyspace = explained(&described(options, &[0, 0, 1, 1]));
    assert_eq!((&keyspace.choice, &keyspace.waiting), (&None, &None));
    let nearest = &keyspace.candidates[keyspace.nearest.unwrap()];
    // 2000 versions of 1500 keys.
    let Measured::Duplicates { level: 1, rate, .. } = nearest.measure else {
        panic!("{nearest:?}");
    };
    assert!((rate - 2000.0 / 1500.0).abs() < 1e-9, "{rate}");
    assert!((nearest.due_share - 1.0 / 3.0).abs() < 1e-9);
    let nothing = explained("");
    assert_eq!((nothing.nearest, nothing.levels.len()), (None, 0));
}

#[test]
fn what_has_to_wait_names_what_it_waits_for() {
    let under_way = "under_way = [\n\
                     { tables = [4], level = 1, age = 900, keys = { smallest = \"b\", largest = \"c\" } },\n\
                     { tables = [1, 2], level = 1 },\n]\n\
                     [options]\ncompaction_policy = \"tiered\"\nlevel0_merge = 3";
    let keyspace = explained(&described(under_way, &[0, 0, 0]));
    assert_eq!(keyspace.choice, None);
    let waiting = keyspace.waiting.unwrap();
    assert_eq!(waiting.until, [1]);
    assert_eq!(waiting.plan.reason, "level 0 has 3 sub-levels");
    assert_eq!(keyspace.candidates[0].standing, WeighedStanding::Waits);
    assert_eq!(keyspace.under_way[1].tables, [1, 2]);
    let free = explained(&described(
        "[options]\ncompaction_policy = \"tiered\"\nlevel0_merge = 3",
        &[0, 0, 0],
    ));
    assert_eq!(free.choice, Some(waiting.plan));
}

/// A table's smallest and largest key, and its bytes.
type Listed<'a> = (&'a str, &'a str, u64);

/// Describes the tables of levels, numbered from 1.
fn of_tables(head: &str, levels: &[(u8, &[Listed<'_>])]) -> String {
    let table = |(smallest, largest, bytes): &Listed<'_>| {
        let keys = format!("{{ smallest = '{smallest}', largest = '{largest}' }}");
        format!("{{ bytes = {bytes}, entries = 1, keys = {keys} }}")
    };
    let sub_levels = levels.iter().map(|(level, tables)| {
        let tables: Vec<String> = tables.iter().map(table).collect();
        let tables = tables.join(", ");
        format!("[[sub_levels]]\nlevel = {level}\ntables = [{tables}]\n")
    });
    let options = "[options]\ndefault_keyspace.level1_bytes = 1024";
    format!("{head}\n{options}\n{}", sub_levels.collect::<String>())
}

/// A merge of other keys and other tables is in the way of no ordinary merge.
#[test]
fn a_leftover_names_all_that_is_under_way_as_what_it_waits_for() {
    let over_from_below_alone: [(u8, &[_]); 3] = [
        (1, &[("n", "z", 300)]),
        (2, &[("a", "m", 4900), ("n", "z", 4900)]),
        (3, &[("a", "m", 2500), ("n", "z", 2500)]),
    ];
    let unused: [(u8, &[_]); 3] = [
        (1, &[("h", "k", 10)]),
        (2, &[("c", "e", 10), ("m", "p", 10)]),
        (3, &[("a", "g", 300), ("h", "l", 300), ("m", "z", 300)]),
    ];
    for (levels, under_way, until, reason) in [
        (
            over_from_below_alone,
            "{ tables = [3, 5], level = 3 }, { tables = [1], level = 1 }",
            &[0, 1][..],
            "level 2 is at 590 % of its target",
        ),
        (
            unused,
            "{ tables = [2, 4], level = 3 }",
            &[0],
            "level 1 is not used in a store of this size",
        ),
    ] {
        let under_way = format!("under_way = [{under_way}]");
        let keyspace = explained(&of_tables(&under_way, &levels));
        assert_eq!(keyspace.choice, None, "{reason}");
        let waiting = keyspace.waiting.unwrap();
        assert_eq!(waiting.until, until, "{reason}");
        assert_eq!(waiting.plan.reason, reason);
        let mut weighed = keyspace.candidates.iter();
        assert!(weighed.any(|weighed| weighed.standing == WeighedStanding::Waits));
        let alone = explained(&of_tables("", &levels));
        assert_eq!((alone.choice, alone.waiting), (Some(waiting.plan), None));
    }
}

#[test]
fn a_description_of_an_earlier_release_is_understood() {
    let text = described(
        "[options]\ncompaction_policy = \"dedup\"\ninspect = true\n",
        &[1, 1],
    );
    let today = described("[options]\ncompaction_policy = \"dedup\"\n", &[1, 1]);
    assert_eq!(explained(&text), explained(&today));
    let refused = Description::from_toml("[options]\ninspect = 1\n").unwrap_err();
    assert!(refused.to_string().contains("line 2"), "{refused}");

    let former = "[options]\nlevel0_merge = 2\nlevel0_stop = 30\nslice_bytes = 4096\n";
    let today = "[options]\nlevel0_merge = 2\n\
                 [options.constants]\nlevel0_stop = 30\nslice_bytes = 4096\n";
    let explain = |options| explained(&described(options, &[0, 0]));
    assert_eq!(explain(former), explain(today));
    let former = "[options]\nlevel_ratio = 4\nlevel0_merge = 2\nlevel1_bytes = 1024\n\
                  restart_interval = 4\nbackground = \"inline\"\n";
    let today = "[options]\nlevel0_merge = 2\n[options.default_keyspace]\n\
                 level_ratio = 4\nlevel1_bytes = 1024\n[options.constants]\nrestart_interval = 4\n";
    assert_eq!(explain(former), explain(today));
    assert_ne!(explain(former), explain("[options]\nlevel0_merge = 2\n"));
    let wrong = "[options]\nlevel0_stop = 30\nlevel0_merge = true\n";
    let refused = Description::from_toml(wrong).unwrap_err();
    assert!(refused.to_string().contains("line 3"), "{refused}");
    let elsewhere = Description::from_toml("level0_stop = 30\n").unwrap_err();
    assert!(elsewhere.to_string().contains("level0_stop"), "{elsewhere}");
}

#[test]
fn a_snapshot_keeps_what_is_older_than_it() {
    let head = |snapshots: &str| {
        format!("keys = 1000\nsnapshots = {snapshots}\n[options]\ncompaction_policy = \"dedup\"")
    };
    let dropped = |snapshots| {
        let keyspace = explained(&described(&head(snapshots), &[1, 1, 1, 1]));
        keyspace.choice.and_then(|choice| choice.dropped_entries)
    };
    assert_eq!(dropped("[]"), Some(3000));
    assert_eq!(dropped("[2]"), Some(2000));
    assert_eq!(dropped("[0]"), Some(3000), "older than none");
    // 4000 versions for 3000 that would stay are below the threshold.
    assert_eq!(dropped("[1, 2, 3]"), None);
}

#[test]
fn a_run_that_is_put_off_is_shown_and_not_chosen() {
    let choice = |put_off: &str| {
        let runs = format!(
            "runs = [{{ from = 0, to = 1, droppable = 900.0{put_off} }}]\n\
             [options]\ncompaction_policy = \"dedup\""
        );
        let keyspace = explained(&described(&runs, &[1, 1]));
        assert!(keyspace.levels[0].duplicate_rate.unwrap() > 1.8);
        keyspace.choice
    };
    assert_eq!(choice("").unwrap().dropped_entries, Some(900));
    assert_eq!(choice(", put_off = true"), None);
}

#[test]
fn a_leveled_store_is_described_by_its_sizes() {
    let text = "[options]\ndefault_keyspace = { level1_bytes = 100_000_000, table_bytes = 10_000_000 }\nlevel0_merge = 2\n\
                [[sub_levels]]\nlevel = 0\nbytes = 1_000_000\nentries = 10_000\n\
                [[sub_levels]]\nlevel = 1\nbytes = 200_000_000\nentries = 2_000_000\n\
                [[sub_levels]]\nlevel = 2\nbytes = 900_000_000\nentries = 9_000_000\n";
    let keyspace = explained(text);
    assert_eq!(keyspace.levels[1].sub_levels[0].tables, 20);
    let choice = keyspace.choice.unwrap();
    assert_eq!(choice.reason, "level 1 is at 163 % of its target");
    assert_eq!((choice.output_level, choice.output_sub_level), (2, Some(2)));
    // One table of level 1, and the tables that it overlaps.
    let tables: Vec<usize> = choice.inputs.iter().map(|i| i.tables.len()).collect();
    assert_eq!(tables[0], 1);
    assert!((4..=6).contains(&tables[1]), "{tables:?}");
}

#[test]
fn what_is_wrong_with_a_description_is_named_with_what_would_be_right() {
    let sub_level = "[[sub_levels]]\nlevel = 1\nbytes = 1\nentries = 1\n";
    let huge = format!(
        "[[sub_levels]]\nlevel = 1\nbytes = {}\nentries = 1",
        i64::MAX
    );
    let many = sub_level.repeat(257);
    let upwards = format!("{sub_level}[[sub_levels]]\nlevel = 0\nbytes = 1\nentries = 1");
    let run = |run: &str| format!("runs = [{{ {run} }}]\n{sub_level}");
    let table = |table: &str| format!("[[sub_levels]]\nlevel = 1\ntables = [{table}]");
    let short = "{ bytes = 1, entries = 1, keys = { smallest = \"b\", largest = \"a\" } }";
    let over = "{ bytes = 1, entries = 1 }, { bytes = 1, entries = 1 }";
    for (text, names) in [
        ("sub_level = 1", &["`sub_level`", "`sub_levels`"][..]),
        ("keys = -1", &["keys", "-1"]),
        ("keys = 0", &["keys is 0", "from 1"]),
        (
            "[options.default_keyspace]\nlevel_ratio = 1",
            &["level_ratio", "from 2 to 1000"],
        ),
        ("[options]\ncompaction_policy = \"lsm\"", &["`tiered`"]),
        ("[options]\narena = 1", &["line 2", "`arena_bytes`"]),
        (
            "[[sub_levels]]\nlevel = 7\nbytes = 1\nentries = 1",
            &["sub_levels[0].level is 7", "to 6"],
        ),
        (
            "[[sub_levels]]\nlevel = 1\nbytes = 1",
            &["sub_levels[0].entries is missing"],
        ),
        (&huge, &["sub_levels", "from 0"]),
        (&many, &["257 sub_levels", "256"]),
        (&upwards, &["sub_levels[1]", "from the youngest"]),
        (
            &run("from = 0, to = 1, droppable = 1.0"),
            &["runs[0]", "from 0 to 0"],
        ),
        (
            &run("from = 0, to = 0, droppable = nan"),
            &["runs[0].droppable is NaN"],
        ),
        (&table(short), &["empty bounds"]),
        (&table(over), &["overlaps"]),
        (
            &table("{ bytes = 1, entries = 1, keys = { smallest_hex = \"0\" } }"),
            &["sub_levels[0]", "hexadecimal"],
        ),
        (
            "under_way = [{ tables = [9], level = 1 }]",
            &["under_way[0]", "none of its tables"],
        ),
        ("snapshots = [257]", &["snapshots is 257"]),
    ] {
        let error = Description::from_toml(text).unwrap_err();
        assert!(
            matches!(error, Error::InvalidArgument(_)),
            "{text}: {error:?}"
        );
        for name in names {
            assert!(error.to_string().contains(name), "{text}: {error}");
        }
    }
    let long = "#".repeat(17 << 20);
    assert!(
        Description::from_toml(&long)
            .unwrap_err()
            .to_string()
            .contains("at most 16777216")
    );
}

/// Makes values for fields, right and wrong.
fn number() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => (0..2000u64).prop_map(|n| n.to_string()),
        1 => (0..=i64::MAX as u64).prop_map(|n| n.to_string()),
        1 => prop::sample::select(vec!["-1", "4294967300", "4294967290", "64", "1.5", "'a'", "true"])
            .prop_map(str::to_owned),
    ]
}

fn sub_level() -> impl Strategy<Value = String> {
    let key = || prop::sample::select(vec!["", "a", "c", "f", "z"]);
    let table = (number(), number(), key(), key()).prop_map(|(bytes, entries, from, to)| {
        format!(
            "{{ bytes = {bytes}, entries = {entries}, keys = {{ smallest = '{from}', largest = '{to}' }} }}"
        )
    });
    let whole = (number(), number(), prop::option::weighted(0.2, number()));
    let whole = whole.prop_map(|(bytes, entries, age)| {
        let age = age.map_or(String::new(), |age| format!("age = {age}\n"));
        format!("bytes = {bytes}\nentries = {entries}\n{age}")
    });
    let tables = prop::collection::vec(table, 1..3);
    let tables = tables.prop_map(|tables| format!("tables = [{}]\n", tables.join(", ")));
    let held = prop_oneof![3 => whole, 1 => tables];
    held.prop_map(|held| format!("[[sub_levels]]\nlevel = LEVEL\n{held}"))
}

fn description() -> impl Strategy<Value = String> {
    let policy = prop::sample::select(vec!["leveled", "tiered", "lazy", "dedup", "score"]);
    let levels = prop::collection::vec((0..4u8, sub_level()), 0..8);
    let run = (0..8usize, 0..8usize, 0.0..2000.0f64, any::<bool>());
    let under_way = (
        prop::collection::vec(0..9u64, 0..4),
        0..8u8,
        prop::option::of(number()),
    );
    (
        policy,
        levels,
        prop::option::of(number()),
        prop::collection::vec(run, 0..2),
        prop::collection::vec(under_way, 0..2),
        any::<bool>(),
    )
        .prop_map(|(policy, mut levels, keys, runs, under_way, is_paid_for)| {
            levels.sort_by_key(|(level, _)| *level);
            let keys = keys.map_or(String::new(), |keys| format!("keys = {keys}\n"));
            let runs = runs.iter().map(|(from, length, droppable, put_off)| {
                let to = from + length / 2;
                format!(
                    "{{ from = {from}, to = {to}, droppable = {droppable:?}, put_off = {put_off} }}"
                )
            });
            let runs: Vec<String> = runs.collect();
            let under_way = under_way.iter().map(|(tables, level, age)| {
                let age = age
                    .as_ref()
                    .map_or(String::new(), |age| format!(", age = {age}"));
                format!("{{ tables = {tables:?}, level = {level}{age} }}")
            });
            let under_way: Vec<String> = under_way.collect();
            let levels = levels.iter();
            let levels = levels.map(|(level, text)| text.replace("LEVEL", &level.to_string()));
            format!(
                "{keys}level0_is_paid_for = {is_paid_for}\nruns = [{}]\nunder_way = [{}]\n\
                 [options]\ncompaction_policy = '{policy}'\nlevel0_merge = 2\n\
                 default_keyspace = {{ level_ratio = 2, level1_bytes = 1024 }}\n{}",
                runs.join(", "),
                under_way.join(", "),
                levels.collect::<String>()
            )
        })
}

proptest! {
    #[test]
    fn any_text_is_explained_or_refused(text in description()) {
        if let Ok(description) = Description::from_toml(&text)
            && let Ok(explained) = description.explain()
        {
            let written = description.to_toml().unwrap();
            let again = Description::from_toml(&written).unwrap();
            prop_assert_eq!(again.explain().unwrap(), explained);
            let keyspace = &again.explain().unwrap().keyspaces[0];
            let chosen = keyspace.candidates.iter().find(|c| c.plan.is_some());
            prop_assert_eq!(
                chosen.and_then(|c| c.plan.as_ref()),
                keyspace.choice.as_ref()
            );
        }
    }

    #[test]
    fn any_change_of_a_description_is_explained_or_refused(
        text in description(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut bytes = text.into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte & 0x7f;
        let changed = String::from_utf8(bytes).unwrap();
        let _ = Description::from_toml(&changed).and_then(|description| description.explain());
    }
}

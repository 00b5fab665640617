//! Every example runs to its end.

#[path = "../examples/backup.rs"]
mod backup;
#[path = "../examples/batches_and_snapshots.rs"]
mod batches_and_snapshots;
#[path = "../examples/bulk_load.rs"]
mod bulk_load;
#[path = "../examples/counters.rs"]
mod counters;
#[path = "../examples/first_store.rs"]
mod first_store;
#[path = "../examples/keyspaces.rs"]
mod keyspaces;
#[path = "../examples/ranges.rs"]
mod ranges;
#[path = "../examples/time_series.rs"]
mod time_series;
#[path = "../examples/transactions.rs"]
mod transactions;
#[path = "../examples/types.rs"]
mod types;

/// Makes a test of each example.
macro_rules! tests_of {
    ($($name:ident)*) => {
        mod runs {
            $(
                #[test]
                fn $name() {
                    super::$name::main().unwrap();
                }
            )*
        }

        const NAMES: &[&str] = &[$(stringify!($name)),*];
    };
}

tests_of!(backup batches_and_snapshots bulk_load counters first_store keyspaces ranges time_series transactions types);

#[test]
fn no_example_is_left_out() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");
    for file in std::fs::read_dir(directory).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(NAMES.contains(&name), "{name} has no test");
    }
}

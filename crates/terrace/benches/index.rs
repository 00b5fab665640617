//! One and several inserters into the index of a MemTable.
//!
//! `cargo bench -p terrace --bench index -- ENTRIES`; without arguments a tiny run.

use terrace::internal::index_insert_time;

fn main() {
    let mut arguments = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with("--"));
    let entries = arguments
        .next()
        .map_or(2_000, |text| text.parse().expect("a number is needed"));
    for _ in 0..if entries > 10_000 { 5 } else { 1 } {
        for threads in [1, 2] {
            let time = index_insert_time(entries, threads);
            let each = time.as_nanos() as f64 / entries as f64;
            println!("{entries} entries, {threads} inserters: {each:.0} ns an entry");
        }
    }
}

//! The stores that take part and the settings of all of them, from the arguments.

use std::collections::BTreeMap;

use crate::Result;
use crate::arguments::StoreArguments;
use crate::contest::Program;
use crate::settings::{DurabilityClass, Settings};
use crate::store::Contestant;

/// With less memory no store caches data that a workload needs again and again, like the indexes of
/// its tables.
pub const LEAST_CACHE_BYTES: u64 = 64 << 20;

/// Options of single contestants, by contestant.
pub type OwnOptions = BTreeMap<String, BTreeMap<String, String>>;

/// Returns the stores that were named, or those that take part when none is.
///
/// # Errors
/// A name that the program does not know.
pub fn contestants(program: &Program, asked: &StoreArguments) -> Result<Vec<Contestant>> {
    if !asked.names.is_empty() {
        return program.named(&asked.names);
    }
    let names = program.default_contestants.iter();
    program.named(&names.map(|name| name.to_string()).collect::<Vec<_>>())
}

/// Returns the options that `--set` gave to each store.
///
/// # Errors
/// An option of a store that does not take part.
pub fn own_options(asked: &StoreArguments, contestants: &[Contestant]) -> Result<OwnOptions> {
    let mut own = OwnOptions::new();
    for option in &asked.set {
        if !contestants
            .iter()
            .any(|contestant| contestant.name == option.store)
        {
            return Err(format!("--set names {}, which does not take part", option.store).into());
        }
        own.entry(option.store.clone())
            .or_default()
            .insert(option.name.clone(), option.value.clone());
    }
    Ok(own)
}

/// Returns the settings of all stores for `data_bytes` of data, all of which may be in memory.
pub fn settings(asked: &StoreArguments, tiny: bool, data_bytes: u64) -> Settings {
    let all = (data_bytes + data_bytes / 4).max(LEAST_CACHE_BYTES);
    Settings {
        durability: if asked.durable {
            DurabilityClass::PowerCut
        } else {
            DurabilityClass::ProcessCrash
        },
        cache_bytes: asked.cache_mib.map_or(all, |mib| mib << 20),
        direct_cache_bytes: asked.cache_mib.map_or(all, |mib| mib << 20),
        direct_write_buffer_bytes: write_buffer_bytes(asked, tiny),
        write_buffer_bytes: write_buffer_bytes(asked, tiny),
        write_buffers: asked.write_buffers,
        background_threads: asked.background_threads.max(2),
        filter_bits_per_key: asked.filter_bits,
        compressed: asked.compress,
        direct_io: asked.direct,
        expected_data_bytes: data_bytes,
        ..Settings::default()
    }
}

/// Returns the bytes of one write buffer; when tiny, so few that stores flush and merge.
fn write_buffer_bytes(asked: &StoreArguments, tiny: bool) -> u64 {
    const TINY_BYTES: u64 = 1 << 20;
    if tiny {
        TINY_BYTES
    } else {
        asked.write_buffer_mib << 20
    }
}

/// Returns the conditions that are the same for all, for people; [`memory`] describes memory.
pub fn conditions(asked: &StoreArguments) -> Vec<(String, String)> {
    let either = |chosen: bool, yes: &str, no: &str| if chosen { yes } else { no }.to_owned();
    [
        (
            "durability",
            either(
                asked.durable,
                "every write is synced",
                "survives the death of the process",
            ),
        ),
        (
            "background threads",
            asked.background_threads.max(2).to_string(),
        ),
        ("filter", format!("{} bits a key", asked.filter_bits)),
        (
            "compression",
            either(asked.compress, "LZ4 below the first levels", "none"),
        ),
        (
            "tables are read",
            either(
                asked.direct,
                "past the page cache, by stores that can",
                "through the page cache",
            ),
        ),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// Describes the memory that stores are to take, for people.
pub fn memory(settings: &Settings) -> String {
    let parts = |cache_bytes, write_buffer_bytes| {
        let (cache, buffer) = (mib(cache_bytes), mib(write_buffer_bytes));
        format!(
            "for reads {cache}, write buffers {} x {buffer}",
            settings.write_buffers
        )
    };
    let all = parts(settings.cache_bytes, settings.write_buffer_bytes);
    let direct = parts(
        settings.direct_cache_bytes,
        settings.direct_write_buffer_bytes,
    );
    if direct == all {
        return all;
    }
    format!("{all}; of stores that are advised to read past the page cache, {direct}")
}

/// Returns the size in words.
pub fn mib(bytes: u64) -> String {
    format!("{:.0} MiB", bytes as f64 / f64::from(1 << 20))
}

//! Figure 2.1: the bandwidth of the region in use, access by access.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use terrace_region::{Arena, Error as RegionError, Frame, Region};

use super::paper::{self, BANDWIDTHS, MIXED_READS_PERCENT};
use super::setting::Setting;
use super::stores::device;
use crate::draw::{Random, random, uniform};
use crate::reproduce::region_model::Bus;
use crate::reproduce::report::{Bar, Chart, Claim, Section, Table, Verdict, Whose};
use crate::{Error, Result};

/// More do not help a memory that is shared.
const MOST_THREADS: usize = 4;
/// Bytes of each thread and each kind of access.
const BYTES: u64 = 64 << 20;
const TINY_BYTES: u64 = 1 << 20;
const LARGEST_ACCESS: usize = 256;

/// Numbers of the figure.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Bandwidths {
    /// Threads side by side.
    pub threads: usize,
    /// The region, in its own words.
    pub region: String,
    /// Bandwidths by size of access.
    pub accesses: Vec<Found>,
    /// Time to make a full arena survive a power cut, ms; `None` where that cannot be.
    pub persist_arena_ms: Option<f64>,
}

/// Bandwidths of one size of access, GB/s of payload.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Found {
    /// Bytes of an access.
    pub access_bytes: usize,
    /// Reads at random places.
    pub read: f64,
    /// Frames appended, each of which survives as appended frames do.
    pub write: f64,
    /// The published mix of both.
    pub mixed: f64,
}

/// The region, and the accesses of one thread.
struct Load<'a> {
    region: &'a Region,
    /// The last one used.
    generations: &'a AtomicU64,
    bus: Option<&'a Bus>,
    access_bytes: usize,
    /// Bytes of payload.
    bytes: u64,
    reads_percent: u64,
}

/// Measures every kind of access.
///
/// # Errors
/// A region that fails, and a directory whose files cannot be mapped.
pub fn measure(setting: &Setting) -> Result<Bandwidths> {
    let directory = tempfile::tempdir_in(&setting.directory)?;
    let bus = setting.model.map(Bus::new);
    let device = device(directory.path(), bus.as_ref())?;
    let region = Region::open(device, [0; 16], setting.memtable_bytes)?;
    let threads = thread::available_parallelism().map_or(1, |count| count.get().min(MOST_THREADS));
    let generations = AtomicU64::new(0);
    let mut accesses = Vec::new();
    for published in &BANDWIDTHS {
        let at = |reads_percent| {
            let load = Load {
                region: &region,
                generations: &generations,
                bus: bus.as_deref(),
                access_bytes: published.access_bytes,
                bytes: if setting.tiny { TINY_BYTES } else { BYTES },
                reads_percent,
            };
            side_by_side(&load, threads)
        };
        accesses.push(Found {
            access_bytes: published.access_bytes,
            read: at(100)?,
            write: at(0)?,
            mixed: at(MIXED_READS_PERCENT)?,
        });
    }
    let description = region.description();
    Ok(Bandwidths {
        threads,
        region: format!("{} on {}", description.method, description.medium),
        accesses,
        persist_arena_ms: persist_arena(&region, generations.into_inner() + 1)?,
    })
}

/// GB/s of all threads together.
fn side_by_side(load: &Load<'_>, threads: usize) -> Result<f64> {
    let rates: Vec<Result<f64>> = thread::scope(|scope| {
        let spawn = |number| scope.spawn(move || load.run(random(7, number)));
        let threads: Vec<_> = (0..threads as u64).map(spawn).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| {
            thread
                .join()
                .unwrap_or_else(|_| Err("a thread panicked".into()))
        };
        threads.into_iter().map(join).collect()
    });
    rates.into_iter().sum()
}

impl Load<'_> {
    /// Reads and writes by one thread; returns their GB/s.
    fn run(&self, mut random: Random) -> Result<f64> {
        let payload = [0x5A; LARGEST_ACCESS];
        let payload = payload.get(..self.access_bytes).unwrap_or_default();
        let mut buffer = [0; LARGEST_ACCESS];
        let mut carried = 0;
        let mut nanoseconds = 0;
        while carried < self.bytes {
            let slot = self.region.reserve(self.region.arena_bytes())?;
            let number = slot.number();
            let generation = self.generations.fetch_add(1, Ordering::Relaxed) + 1;
            let arena = self.region.activate(slot, generation)?;
            let mut places = Vec::new();
            if self.reads_percent == 100 {
                while append(&arena, payload, &mut places)? {}
            }
            let start = Instant::now();
            carried += self.go_through(&arena, payload, &mut places, &mut buffer, &mut random)?;
            nanoseconds += start.elapsed().as_nanos();
            drop(arena);
            self.region.recycle(number)?;
        }
        // Bytes a nanosecond are GB/s.
        Ok(carried as f64 / (nanoseconds as f64).max(1.0))
    }

    /// Accesses frames until the arena is full, or was read as often as there are frames in it.
    fn go_through(
        &self,
        arena: &Arena,
        payload: &[u8],
        places: &mut Vec<usize>,
        buffer: &mut [u8; LARGEST_ACCESS],
        random: &mut Random,
    ) -> Result<u64> {
        let mut accesses = 0;
        let frames = places.len();
        loop {
            let reads = !places.is_empty() && uniform(random, 100) < self.reads_percent;
            if reads {
                let at = uniform(random, places.len() as u64) as usize;
                let at = places.get(at).copied().unwrap_or_default();
                self.read(arena, at, buffer)?;
            } else if !append(arena, payload, places)? {
                break;
            }
            accesses += 1;
            if frames > 0 && accesses == frames {
                break;
            }
        }
        Ok((accesses * self.access_bytes) as u64)
    }

    fn read(&self, arena: &Arena, at: usize, buffer: &mut [u8; LARGEST_ACCESS]) -> Result<()> {
        let wrong = || Error::from("a frame that was appended cannot be read");
        let bytes = arena.read(at, self.access_bytes).ok_or_else(wrong)?;
        let copy = buffer.get_mut(..self.access_bytes).ok_or_else(wrong)?;
        copy.copy_from_slice(bytes);
        black_box(&*copy);
        if let Some(bus) = self.bus {
            bus.read(self.access_bytes);
        }
        Ok(())
    }
}

/// Appends a frame; returns false when the arena is full.
fn append(arena: &Arena, payload: &[u8], places: &mut Vec<usize>) -> Result<bool> {
    let frame = Frame {
        first_sequence: places.len() as u64 + 1,
        record_count: 1,
        persisted_until: 0,
        payload: &[payload],
    };
    match arena.append(&frame) {
        Ok(appended) => {
            places.push(appended.payload_offset);
            Ok(true)
        }
        Err(RegionError::Full { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Fills an arena and times its persist.
fn persist_arena(region: &Region, generation: u64) -> Result<Option<f64>> {
    if !region.description().can_persist {
        return Ok(None);
    }
    let slot = region.reserve(region.arena_bytes())?;
    let number = slot.number();
    let arena = region.activate(slot, generation)?;
    let mut places = Vec::new();
    while append(&arena, &[0x5A; LARGEST_ACCESS], &mut places)? {}
    let start = Instant::now();
    arena.persist()?;
    let took = start.elapsed();
    drop(arena);
    region.recycle(number)?;
    Ok(Some(took.as_secs_f64() * 1e3))
}

/// Returns published and found, side by side: name, size, published, ours.
fn pairs(found: &Bandwidths) -> Vec<(&'static str, usize, f64, f64)> {
    let rows = BANDWIDTHS.iter().zip(&found.accesses);
    rows.flat_map(|(published, own)| {
        let size = published.access_bytes;
        [
            ("read", size, published.read, own.read),
            ("write", size, published.write, own.write),
            ("67:33 mix", size, published.mixed, own.mixed),
        ]
    })
    .collect()
}

/// Shows the bandwidths to people.
pub fn section(found: &Bandwidths, modelled: bool) -> Section {
    let mut table = Table::new(
        &format!("GB/s, {} threads, region {}", found.threads, found.region),
        &["access", "published", "here"],
    );
    let mut bars = Vec::new();
    for (name, size, published, own) in pairs(found) {
        let label = format!("{size} B {name}");
        table.rows.push(vec![
            label.clone(),
            format!("{published:.2}"),
            format!("{own:.2}"),
        ]);
        for (whose, value) in [(Whose::Paper, published), (Whose::Ours, own)] {
            let label = label.clone();
            bars.push(Bar {
                label,
                whose,
                value,
            });
        }
    }
    let persist = match found.persist_arena_ms {
        Some(ms) => format!("Making a full arena survive a power cut took {ms:.1} ms."),
        None => "Nothing on this medium survives a power cut.".into(),
    };
    Section {
        figure: "Figure 2.1".into(),
        title: "bandwidth of the region in use".into(),
        modelled,
        emulated: false,
        notes: vec![format!(
            "The thesis' numbers are of Optane memory, whose unit is 256 B (its \"256GB/64GB \
             granularity\" means bytes). Here a write is a frame appended to an arena, with a header \
             of 48 bytes and a checksum, so it survives the death of the process; a read copies a \
             payload from a random place. Counted are payloads, and appends in the thread's own \
             arena. {persist}"
        )],
        tables: vec![table],
        plots: Vec::new(),
        charts: vec![Chart {
            title: "Bandwidth".into(),
            unit: "GB/s".into(),
            bars,
        }],
    }
}

/// Returns the claim that only the memory itself could decide.
pub fn claims(found: &Bandwidths, modelled: bool) -> Vec<Claim> {
    let [large, small] = &paper::BANDWIDTHS;
    let own = |at: usize| found.accesses.get(at).map_or(0.0, |found| found.read);
    vec![Claim {
        claim: "Accesses of 256 B get about four times the bandwidth of accesses of 64 B".into(),
        paper: format!("{:.1} times for reads", large.read / small.read),
        ours: format!("{:.1} times for reads", own(0) / own(1).max(1e-9)),
        verdict: Verdict::CannotBeTold,
        because: if modelled {
            "It is a property of Optane memory, which is not here; the model knows no unit.".into()
        } else {
            "It is a property of Optane memory, which is not here.".into()
        },
    }]
}

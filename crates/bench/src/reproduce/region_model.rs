//! Persistent memory that is not there, as a model: a latency and two bandwidths.
//!
//! A [`ModelledDevice`] passes everything to the device under it (a mapped file in DRAM or in the
//! page cache, best on a tmpfs) and then waits as long as the modelled memory would have taken. It
//! does not model: reads of arenas, which readers do in place and without the device, so that gets
//! and flushes run at DRAM's speed; caches in the memory itself; writes smaller than its unit. Only
//! the figure of bandwidth asks for the delay of reads.
//!
//! Every result under a model must be labelled so.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use terrace_region::{
    Attached, Description, Device, DeviceSlot, HEADER_BYTES, ImageWriter, Medium, Result,
    SlotReader,
};

/// Properties of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RegionModel {
    /// Latency of each write that is to survive, and of each read, ns.
    pub latency_ns: u64,
    /// Bandwidth of all writers together, GB/s.
    pub write_gbps: f64,
    /// Bandwidth of all readers together, GB/s.
    pub read_gbps: f64,
}

impl RegionModel {
    /// The thesis' bandwidths at 256 B; the latency of a store that is written back, which
    /// publications on Optane memory put at about 100 ns.
    pub const OPTANE: RegionModel = RegionModel {
        latency_ns: 100,
        write_gbps: 3.0,
        read_gbps: 8.3,
    };
}

impl fmt::Display for RegionModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}:{}",
            self.latency_ns, self.write_gbps, self.read_gbps
        )
    }
}

impl FromStr for RegionModel {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?} is neither `optane` nor LATENCY_NS:WRITE_GBPS:READ_GBPS, as in 100:3.0:8.3"
            )
        };
        if text == "optane" {
            return Ok(Self::OPTANE);
        }
        let parts: Vec<&str> = text.split(':').collect();
        let [latency, write, read] = parts.as_slice() else {
            return Err(wrong());
        };
        let bandwidth = |text: &str| {
            let parsed = text.parse().ok();
            parsed.filter(|gbps: &f64| gbps.is_finite() && *gbps > 0.0)
        };
        Ok(RegionModel {
            latency_ns: latency.parse().map_err(|_| wrong())?,
            write_gbps: bandwidth(write).ok_or_else(wrong)?,
            read_gbps: bandwidth(read).ok_or_else(wrong)?,
        })
    }
}

/// The modelled memory's clock. All that use it share its bandwidth: a transfer begins when the one
/// before it has ended.
#[derive(Debug)]
pub struct Bus {
    model: RegionModel,
    origin: Instant,
    /// Until when the transfers that were asked for last, ps since the origin. (A line of 64 bytes
    /// takes a number of ns that is not whole.)
    writes_end: AtomicU64,
    reads_end: AtomicU64,
}

const PS_PER_NS: u64 = 1000;

impl Bus {
    /// Makes an idle bus.
    pub fn new(model: RegionModel) -> Arc<Self> {
        Arc::new(Bus {
            model,
            origin: Instant::now(),
            writes_end: AtomicU64::new(0),
            reads_end: AtomicU64::new(0),
        })
    }

    /// Waits until a write of this size would have survived.
    pub fn write(&self, bytes: usize) {
        self.transfer(&self.writes_end, bytes, self.model.write_gbps);
    }

    /// Waits until a read of this size would have ended.
    pub fn read(&self, bytes: usize) {
        self.transfer(&self.reads_end, bytes, self.model.read_gbps);
    }

    fn transfer(&self, ends: &AtomicU64, bytes: usize, gbps: f64) {
        let now = self.now_ps();
        // 1 GB/s is a byte each ns.
        let takes = (bytes as f64 / gbps * PS_PER_NS as f64) as u64;
        let end_of = |before: u64| before.max(now) + takes;
        let before = ends
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |before| {
                Some(end_of(before))
            })
            .unwrap_or(now);
        let due = end_of(before) + self.model.latency_ns * PS_PER_NS;
        // Below a microsecond nothing but reading the clock is exact.
        while self.now_ps() < due {
            std::hint::spin_loop();
        }
    }

    fn now_ps(&self) -> u64 {
        let nanoseconds = self.origin.elapsed().as_nanos();
        u64::try_from(nanoseconds).map_or(u64::MAX, |ns| ns.saturating_mul(PS_PER_NS))
    }
}

/// A device that takes as long as the model says, beside the time of the one below.
#[derive(Debug)]
pub struct ModelledDevice {
    inner: Box<dyn Device>,
    bus: Arc<Bus>,
}

impl ModelledDevice {
    /// Makes `inner` slower.
    pub fn new(inner: Box<dyn Device>, bus: Arc<Bus>) -> Self {
        ModelledDevice { inner, bus }
    }

    fn slower(&self, attached: Attached) -> Attached {
        Attached {
            writer: attached.writer,
            medium: Box::new(ModelledMedium {
                inner: attached.medium,
                bus: Arc::clone(&self.bus),
            }),
        }
    }
}

impl Device for ModelledDevice {
    fn description(&self) -> Description {
        let inner = self.inner.description();
        Description {
            medium: format!("{}, modelled as {}", inner.medium, self.bus.model),
            ..inner
        }
    }

    fn boot_id(&self) -> [u8; 16] {
        self.inner.boot_id()
    }

    fn file(&self, slot: u64) -> PathBuf {
        self.inner.file(slot)
    }

    fn reads_in_place(&self) -> bool {
        self.inner.reads_in_place()
    }

    fn list(&self) -> Result<Vec<DeviceSlot>> {
        self.inner.list()
    }

    fn create(&self, slot: u64, capacity_bytes: u64) -> Result<()> {
        self.inner.create(slot, capacity_bytes)
    }

    fn occupy(&self, slot: u64) -> Result<()> {
        self.inner.occupy(slot)
    }

    fn adopt(&self, slot: u64) -> Result<()> {
        self.inner.adopt(slot)
    }

    fn remove(&self, slot: u64) -> Result<()> {
        self.inner.remove(slot)
    }

    fn read_header(&self, slot: u64) -> Result<Vec<u8>> {
        self.inner.read_header(slot)
    }

    fn attach(&self, slot: u64, capacity_bytes: u64) -> Result<Attached> {
        Ok(self.slower(self.inner.attach(slot, capacity_bytes)?))
    }

    fn reader(&self, slot: u64) -> Result<Box<dyn SlotReader>> {
        Ok(Box::new(ModelledReader {
            inner: self.inner.reader(slot)?,
            bus: Arc::clone(&self.bus),
        }))
    }
}

/// A slot of it, read.
#[derive(Debug)]
struct ModelledReader {
    inner: Box<dyn SlotReader>,
    bus: Arc<Bus>,
}

impl SlotReader for ModelledReader {
    fn length_bytes(&self) -> Result<u64> {
        self.inner.length_bytes()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        self.inner.read_exact_at(buffer, offset)?;
        self.bus.read(buffer.len());
        Ok(())
    }
}

/// A slot of it. A part of a frame is in the processor's caches until the frame is complete: that is
/// when all of it is written back and waited for.
#[derive(Debug)]
struct ModelledMedium {
    inner: Box<dyn Medium>,
    bus: Arc<Bus>,
}

impl Medium for ModelledMedium {
    fn store_header(&self, image: &mut ImageWriter, header: &[u8; HEADER_BYTES]) -> Result<()> {
        self.inner.store_header(image, header)?;
        self.bus.write(header.len());
        Ok(())
    }

    fn store(&self, image: &mut ImageWriter, offset: usize, bytes: &[u8]) -> Result<()> {
        self.inner.store(image, offset, bytes)
    }

    fn complete(
        &self,
        image: &mut ImageWriter,
        offset: usize,
        length_word: u64,
        frame_bytes: usize,
    ) -> Result<()> {
        self.inner
            .complete(image, offset, length_word, frame_bytes)?;
        self.bus.write(frame_bytes);
        Ok(())
    }

    /// The bytes were charged when their frames were completed; a fence is left.
    fn persist(&self, from: usize, to: usize) -> Result<()> {
        self.inner.persist(from, to)?;
        self.bus.write(0);
        Ok(())
    }
}

#[cfg(test)]
mod tests;

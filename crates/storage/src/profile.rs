//! The speed of a device, as measured or as its maker gives it.

/// What a device does in a second, and how long one request takes. Bandwidths are in bytes per second,
/// latencies in microseconds. A cost that is not known is 0.
///
/// ```
/// use terrace_storage::DeviceProfile;
/// let disk = DeviceProfile::WD10EZEX;
/// let flash = DeviceProfile::SSD_850_PRO;
/// assert!(disk.read_latency_us > 50.0 * flash.read_latency_us);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceProfile {
    /// Bytes that sequential reads deliver in a second.
    pub read_bytes_per_second: f64,
    /// Bytes that sequential writes take in a second.
    pub write_bytes_per_second: f64,
    /// Median time of a random read of 4 KiB, one at a time.
    pub read_latency_us: f64,
    /// Median time of a random read of 4 KiB among 32 at a time.
    pub queued_read_latency_us: f64,
    /// Median time of a sync after a write of 4 KiB.
    pub sync_latency_us: f64,
    /// Price of 10^9 bytes, in any currency; the same for all devices that are compared.
    pub price_per_gb: f64,
    /// Times that the whole device may be written in its life; 0 if it does not wear.
    pub endurance_writes: f64,
}

impl DeviceProfile {
    /// Western Digital WD10EZEX, a hard disk of 1 TB with 7,200 turns a minute.
    pub const WD10EZEX: DeviceProfile = DeviceProfile {
        read_bytes_per_second: 150e6,
        write_bytes_per_second: 150e6,
        read_latency_us: 13_000.0,
        queued_read_latency_us: 170_000.0,
        sync_latency_us: 12_000.0,
        price_per_gb: 0.045,
        endurance_writes: 0.0,
    };
    /// Samsung 850 PRO of 512 GB, on SATA.
    pub const SSD_850_PRO: DeviceProfile = DeviceProfile {
        read_bytes_per_second: 550e6,
        write_bytes_per_second: 520e6,
        read_latency_us: 100.0,
        queued_read_latency_us: 320.0,
        sync_latency_us: 1_500.0,
        price_per_gb: 0.45,
        endurance_writes: 586.0,
    };
    /// Samsung 960 PRO of 512 GB, on NVMe.
    pub const NVME_960_PRO: DeviceProfile = DeviceProfile {
        read_bytes_per_second: 3_500e6,
        write_bytes_per_second: 2_100e6,
        read_latency_us: 71.0,
        queued_read_latency_us: 110.0,
        sync_latency_us: 1_200.0,
        price_per_gb: 0.60,
        endurance_writes: 781.0,
    };
    /// An NVMe drive of the fourth generation of PCI Express, with 1 TB.
    pub const NVME_GEN4: DeviceProfile = DeviceProfile {
        read_bytes_per_second: 7_000e6,
        write_bytes_per_second: 5_000e6,
        read_latency_us: 45.0,
        queued_read_latency_us: 60.0,
        sync_latency_us: 600.0,
        price_per_gb: 0.10,
        endurance_writes: 600.0,
    };
    /// A drive with four bits a cell on SATA, with 1 TB.
    pub const QLC: DeviceProfile = DeviceProfile {
        read_bytes_per_second: 560e6,
        write_bytes_per_second: 80e6,
        read_latency_us: 91.0,
        queued_read_latency_us: 327.0,
        sync_latency_us: 2_500.0,
        price_per_gb: 0.07,
        endurance_writes: 360.0,
    };
}

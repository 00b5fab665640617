//! The speed of a device, as measured or as its maker gives it.
//!
//! The presets follow the makers' data sheets. Latencies are the inverse of the operations a second there:
//! 10,000 at depth 1 are 100 us, 100,000 at depth 32 are 320 us. Three kinds of figures are in no sheet, and
//! are estimates: prices, syncs, and depth 32 where the sheet gives several threads of that depth.

/// What a device does in a second, and how long one request takes. Bandwidths are in bytes per second,
/// latencies in microseconds. A cost that is not known is 0.
///
/// ```
/// use terrace_storage::DeviceProfile;
/// let disk = DeviceProfile::WD10EZEX;
/// let flash = DeviceProfile::SSD_850_PRO;
/// assert!(disk.read_latency_us > 50.0 * flash.read_latency_us);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
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
    /// Returns the facts in the order of the fields.
    pub fn figures(&self) -> [f64; 7] {
        [
            self.read_bytes_per_second,
            self.write_bytes_per_second,
            self.read_latency_us,
            self.queued_read_latency_us,
            self.sync_latency_us,
            self.price_per_gb,
            self.endurance_writes,
        ]
    }

    /// Returns the profile with these facts; `None` if one is no number from 0 on.
    pub fn of_figures(figures: [f64; 7]) -> Option<DeviceProfile> {
        let [read, write, latency, queued, sync, price, endurance] = figures;
        let profile = DeviceProfile {
            read_bytes_per_second: read,
            write_bytes_per_second: write,
            read_latency_us: latency,
            queued_read_latency_us: queued,
            sync_latency_us: sync,
            price_per_gb: price,
            endurance_writes: endurance,
        };
        let is_figure = |figure: &f64| figure.is_finite() && *figure >= 0.0;
        figures.iter().all(is_figure).then_some(profile)
    }

    /// The profiles below with their names, from the slowest to the fastest read.
    pub const PRESETS: [(&str, DeviceProfile); 5] = [
        ("wd10ezex", DeviceProfile::WD10EZEX),
        ("850-pro", DeviceProfile::SSD_850_PRO),
        ("qlc", DeviceProfile::QLC),
        ("960-pro", DeviceProfile::NVME_960_PRO),
        ("nvme-gen4", DeviceProfile::NVME_GEN4),
    ];

    /// Returns the profile of [`DeviceProfile::PRESETS`] with a name.
    ///
    /// ```
    /// use terrace_storage::DeviceProfile;
    /// assert_eq!(DeviceProfile::named("qlc"), Some(DeviceProfile::QLC));
    /// assert_eq!(DeviceProfile::named("floppy"), None);
    /// ```
    pub fn named(name: &str) -> Option<DeviceProfile> {
        let mut presets = DeviceProfile::PRESETS.into_iter();
        presets.find_map(|(known, profile)| (known == name).then_some(profile))
    }

    /// Western Digital WD10EZEX, a hard disk of 1 TB with 7,200 turns a minute.
    ///
    /// WD Blue specification sheet: 150 MB/s. A read at random is a seek of 9 ms and half a turn; at depth
    /// 32 the disk's own order brings it to 190 a second. A sync is a turn and a short seek.
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
    ///
    /// 850 PRO data sheet: 550 and 520 MB/s, 10,000 reads a second at depth 1, 100,000 at depth 32, and
    /// 300 TB written (150 at the launch).
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
    ///
    /// 960 PRO data sheet: 3,500 and 2,100 MB/s, 14,000 reads a second at depth 1, 330,000 with four times
    /// depth 32, and 400 TB written.
    pub const NVME_960_PRO: DeviceProfile = DeviceProfile {
        read_bytes_per_second: 3_500e6,
        write_bytes_per_second: 2_100e6,
        read_latency_us: 71.0,
        queued_read_latency_us: 110.0,
        sync_latency_us: 1_200.0,
        price_per_gb: 0.60,
        endurance_writes: 781.0,
    };
    /// An NVMe drive of the fourth generation of PCI Express, with 1 TB: the Samsung 980 PRO.
    ///
    /// 980 PRO data sheet: 7,000 and 5,000 MB/s, 22,000 reads a second at depth 1, 1,000,000 with sixteen
    /// times depth 32, and 600 TB written.
    pub const NVME_GEN4: DeviceProfile = DeviceProfile {
        read_bytes_per_second: 7_000e6,
        write_bytes_per_second: 5_000e6,
        read_latency_us: 45.0,
        queued_read_latency_us: 60.0,
        sync_latency_us: 600.0,
        price_per_gb: 0.10,
        endurance_writes: 600.0,
    };
    /// A drive with four bits a cell on SATA, with 1 TB: the Samsung 870 QVO.
    ///
    /// 870 QVO data sheet: 560 MB/s, 11,000 reads a second at depth 1, 98,000 at depth 32, and 360 TB
    /// written. Writes are those behind the cache of one bit a cell: 80 MB/s instead of 530.
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

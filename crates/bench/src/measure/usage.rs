//! Cost of a phase, as the kernel counts it.

use std::fs;
use std::path::Path;
use std::time::Duration;

use procfs::process::Process;
use procfs::{CurrentSI, KernelStats};
use rustix::time::{ClockId, clock_gettime};

use crate::measure::device::{Device, DeviceCounts};
use crate::memory_limit;
use crate::outcome::Usage;
use crate::{Error, Result};

/// The counters of this process, of its store's device and of the machine, at one moment.
#[derive(Clone, Debug)]
pub struct Counters {
    user: Duration,
    system: Duration,
    io: Io,
    device: Option<DeviceCounts>,
    stolen: Option<Duration>,
}

/// Counts of `/proc/self/io`, see `proc_pid_io(5)`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Io {
    /// Pages dirtied and direct writes, bytes.
    pub write_bytes: u64,
    /// Bytes dropped of them before they were written.
    pub cancelled_write_bytes: u64,
    /// Fetched from the device.
    pub read_bytes: u64,
}

impl Io {
    /// Reads the counters now.
    pub fn now() -> Result<Self> {
        let io = Process::myself()?.io()?;
        Ok(Io {
            write_bytes: io.write_bytes,
            cancelled_write_bytes: io.cancelled_write_bytes,
            read_bytes: io.read_bytes,
        })
    }
}

impl Counters {
    /// Reads the counters now.
    pub fn now(device: Option<&Device>) -> Result<Self> {
        let (user, system) = processor_times()?;
        Ok(Counters {
            user,
            system,
            io: Io::now()?,
            device: device.and_then(Device::counts),
            stolen: stolen_time(),
        })
    }

    /// Returns the usage between `earlier` and this moment.
    pub fn since(&self, earlier: &Counters) -> Result<Usage> {
        let difference = |now: u64, before: u64| now.saturating_sub(before);
        let device = |field: fn(&DeviceCounts) -> u64| {
            Some(difference(
                field(self.device.as_ref()?),
                field(earlier.device.as_ref()?),
            ))
        };
        let stolen = || Some(self.stolen?.saturating_sub(earlier.stolen?).as_secs_f64());
        let io = |field: fn(&Io) -> u64| difference(field(&self.io), field(&earlier.io));
        Ok(Usage {
            user_s: self.user.saturating_sub(earlier.user).as_secs_f64(),
            system_s: self.system.saturating_sub(earlier.system).as_secs_f64(),
            write_bytes: io(|io| io.write_bytes),
            cancelled_write_bytes: io(|io| io.cancelled_write_bytes),
            read_bytes: io(|io| io.read_bytes),
            device_write_bytes: device(|counts| counts.write_bytes),
            device_read_bytes: device(|counts| counts.read_bytes),
            device_reads: device(|counts| counts.reads),
            peak_resident_bytes: peak_resident_bytes()?,
            peak_cgroup_bytes: memory_limit::own_peak_bytes(),
            stolen_s: stolen(),
        })
    }
}

/// Returns the processor time of this process so far, all threads: in user space and in the kernel.
/// The kernel divides by ticks, the sum is exact.
fn processor_times() -> Result<(Duration, Duration)> {
    let sum = processor_time()?;
    let stat = Process::myself()?.stat()?;
    let (user, system) = (stat.utime as f64, stat.stime as f64);
    let share = if user + system > 0.0 {
        user / (user + system)
    } else {
        1.0
    };
    let user = sum.mul_f64(share);
    Ok((user, sum.saturating_sub(user)))
}

/// Returns the processor time of this process so far, all threads.
pub fn processor_time() -> Result<Duration> {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).map_err(Error::from)
}

/// Returns the time so far in which a processor of this machine had something to run and its host
/// ran something else, in ticks, all processors; `None` where the kernel does not tell. A machine
/// that is not virtual has none.
fn stolen_time() -> Option<Duration> {
    let stolen_ms = KernelStats::current().ok()?.total.steal_ms()?;
    Some(Duration::from_millis(stolen_ms))
}

/// Returns the memory of this process, mapped files included, bytes.
pub fn resident_bytes() -> Result<u64> {
    let pages = Process::myself()?.statm()?.resident;
    Ok(pages.saturating_mul(rustix::param::page_size() as u64))
}

/// Returns the most since [`reset_peaks`].
fn peak_resident_bytes() -> Result<u64> {
    let peak = Process::myself()?.status()?.vmhwm;
    Ok(peak
        .ok_or("/proc/self/status has no VmHWM")?
        .saturating_mul(1024))
}

/// Resets the peak of memory, where the kernel lets a process do that.
pub fn reset_peaks() {
    const PEAK_RESIDENT: &str = "5";
    // Without it the peak is that of the whole run, which is no less right.
    let _ = fs::write(Path::new("/proc/self/clear_refs"), PEAK_RESIDENT);
    memory_limit::reset_own_peak();
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;
    use std::time::Instant;

    use super::*;

    #[test]
    fn usage_grows_with_what_is_used() {
        let before = Counters::now(None).unwrap();
        let file = tempfile::tempfile_in(".").unwrap();
        file.write_all_at(&[1; 1 << 20], 0).unwrap();
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(30) {
            std::hint::spin_loop();
        }
        let usage = Counters::now(None).unwrap().since(&before).unwrap();
        assert!(usage.write_bytes >= 1 << 20, "{usage:?}");
        // Other programs may have the processors for a part of the time.
        assert!(usage.user_s + usage.system_s > 0.001, "{usage:?}");
        assert!(usage.peak_resident_bytes > 1 << 20, "{usage:?}");
        assert_eq!(usage.device_reads, None);
    }

    #[test]
    fn what_was_stolen_is_a_difference_and_unknown_where_one_end_is() {
        let at = |stolen_ms: Option<u64>| Counters {
            stolen: stolen_ms.map(Duration::from_millis),
            ..Counters::now(None).unwrap()
        };
        let between = |from, to| at(to).since(&at(from)).unwrap().stolen_s;
        assert_eq!(between(Some(2000), Some(2250)), Some(0.25));
        assert_eq!(between(None, Some(2250)), None);
        assert_eq!(between(Some(2000), None), None);
    }
}

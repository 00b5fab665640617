//! The way of a request through the processors and the devices, and back to its thread.

use super::device::Device;
use super::quantiles::Quantiles;
use super::{Bound, Load, Placement, Traffic, US_PER_SECOND, ratio};

/// Part of its greatest throughput from which on a part of the store counts as busy.
const FULL: f64 = 0.98;

/// The devices under the requests of threads that share processors.
pub(super) struct Cycle<'a> {
    devices: &'a [Device],
    pub(super) threads: f64,
    processors: f64,
    cpu_us: f64,
    background_cpu_us: f64,
}

impl<'a> Cycle<'a> {
    pub(super) fn new(devices: &'a [Device], load: Load) -> Self {
        Cycle {
            devices,
            threads: f64::from(load.threads.max(1)),
            processors: f64::from(load.processors.max(1)),
            // A request without any time would give a throughput without bound.
            cpu_us: load.cpu_us.max(0.01),
            background_cpu_us: load.background_cpu_us.max(0.0),
        }
    }

    /// Returns the throughput in a second, and its bound.
    pub(super) fn throughput(&self) -> (f64, Bound) {
        let (most, bound) = self.saturation();
        if self.threads_at(most) <= self.threads {
            return (most, bound);
        }
        // The number of threads that a throughput needs rises with it.
        let (mut low, mut high) = (0.0, most);
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            match self.threads_at(middle) <= self.threads {
                true => low = middle,
                false => high = middle,
            }
        }
        match low > FULL * most {
            true => (low, bound),
            false => (low, self.longest_wait(low)),
        }
    }

    /// Returns the part of a request's time that is the longest.
    fn longest_wait(&self, per_second: f64) -> Bound {
        let devices = self.devices.iter().enumerate();
        let waits = devices.map(|(tier, device)| {
            let wait_us = device.wait_us(per_second, self.threads);
            (wait_us, Bound::Wait(tier))
        });
        let processor = (self.processor_us(per_second), Bound::Threads);
        let longest = waits.fold(processor, |longest, next| match next.0 > longest.0 {
            true => next,
            false => longest,
        });
        longest.1
    }

    /// Returns the throughput at which the busiest part has no idle time.
    fn saturation(&self) -> (f64, Bound) {
        let all_us = self.cpu_us + self.background_cpu_us;
        let processors = (self.processors / all_us, Bound::Processors);
        let devices = self.devices.iter().enumerate();
        let (per_us, bound) = devices
            .map(|(tier, device)| (1.0 / device.busy_us(), Bound::Tier(tier)))
            .fold(processors, |least, next| match next.0 < least.0 {
                true => next,
                false => least,
            });
        (per_us * US_PER_SECOND, bound)
    }

    /// Returns the threads that a throughput keeps waiting.
    fn threads_at(&self, per_second: f64) -> f64 {
        per_second * self.request_us(per_second) / US_PER_SECOND
    }

    /// Returns the mean time of a request at a throughput that leaves every part some idle time.
    fn request_us(&self, per_second: f64) -> f64 {
        self.processor_us(per_second) + self.wait_us(per_second)
    }

    /// Returns the time that a request waits for devices.
    fn wait_us(&self, per_second: f64) -> f64 {
        let devices = self.devices.iter();
        let waits = devices.map(|device| device.wait_us(per_second, self.threads));
        waits.sum()
    }

    /// Returns the time that a request is on a processor or waits for one.
    ///
    /// The processors count as a single one that is as fast as all together, and the rest of a request's time as a
    /// delay (Seidmann et al., 1987). Flushes and compactions take their part of it from all. Besides, only threads
    /// that outnumber the processors make others wait. The throughput that follows is within 4 % of the exact one
    /// on two processors or more, and within 8 % on one.
    fn processor_us(&self, per_second: f64) -> f64 {
        let share_us = self.cpu_us / self.processors;
        let busy = per_second * share_us / US_PER_SECOND;
        let background = per_second * self.background_cpu_us / self.processors / US_PER_SECOND;
        let others = (self.threads - self.processors).max(0.0) / self.threads;
        let free = 1.0 - background - others * busy;
        // A thread waits for no more than all threads.
        self.cpu_us - share_us + share_us / free.max(1.0 / self.threads)
    }

    /// Returns the distribution of a request's time.
    pub(super) fn quantiles(
        &self,
        per_second: f64,
        traffic: &Traffic,
        placement: &Placement,
    ) -> Quantiles {
        let mut quantiles = Quantiles::new(self.cpu_us);
        let requests = traffic.requests.max(1) as f64;
        for (number, level) in traffic.levels.iter().enumerate() {
            let tier = placement.tier_of(number);
            if let Some(device) = tier.and_then(|tier| self.devices.get(tier)) {
                let read_us = device.read_us(per_second, self.threads);
                quantiles.add(level.reads as f64 / requests, device.first_us(), read_us);
            }
        }
        for device in self.devices {
            quantiles.add(device.demand.syncs, device.sync_us(), device.sync_us());
            let scan_us = device.scan_us(per_second);
            quantiles.add_wait(scan_us);
        }
        // Writers that a saturated device holds back wait here, and threads for a processor.
        let mean_us = ratio(self.threads * US_PER_SECOND, per_second);
        quantiles.add_wait(mean_us - self.cpu_us - self.wait_us(per_second));
        quantiles
    }
}

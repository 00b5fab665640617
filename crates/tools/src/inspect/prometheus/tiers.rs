//! The families of tiers and of their caches.

use super::{Metrics, Text};

impl Metrics<'_> {
    pub(super) fn write_tiers(&self, text: &mut Text) {
        text.gauge(
            "tier_bytes",
            "Bytes of a tier: in files, reserved for files in progress, and left for jobs.",
        );
        for tier in &self.0.tiers {
            for (state, bytes) in [
                ("files", tier.files_bytes),
                ("reserved", tier.reserved_bytes),
                ("room", tier.room_bytes),
            ] {
                text.sample(
                    "tier_bytes",
                    &[("tier", &tier.name), ("state", state)],
                    bytes,
                );
            }
        }
        text.gauge(
            "tier_capacity_bytes",
            "Maximum bytes of a tier's tables, for tiers that have a maximum.",
        );
        for tier in &self.0.tiers {
            if let Some(bytes) = tier.capacity_bytes {
                text.sample("tier_capacity_bytes", &[("tier", &tier.name)], bytes);
            }
        }
        text.gauge("tier_tables", "Tables in a tier.");
        for tier in &self.0.tiers {
            text.sample("tier_tables", &[("tier", &tier.name)], tier.tables);
        }
        text.gauge(
            "tier_level_bytes",
            "Bytes of a tier's tables, by their levels.",
        );
        for tier in &self.0.tiers {
            for (level, bytes) in tier.level_bytes.iter().enumerate() {
                let level = level.to_string();
                let labels = [("tier", tier.name.as_str()), ("level", &level)];
                text.sample("tier_level_bytes", &labels, bytes);
            }
        }
        self.write_tier_caches(text);
    }

    fn write_tier_caches(&self, text: &mut Text) {
        let tiers = self.0.tiers.iter();
        let caches: Vec<_> = tiers
            .filter_map(|tier| Some((tier.name.as_str(), tier.cache.as_ref()?)))
            .collect();
        if caches.is_empty() {
            return;
        }
        text.gauge(
            "tier_cache_on",
            "Whether the cache of a tier is in use: 1, or 0 after failures and without room.",
        );
        for (tier, cache) in &caches {
            text.sample("tier_cache_on", &[("tier", tier)], u64::from(cache.is_on));
        }
        text.gauge(
            "tier_cache_bytes",
            "Bytes of the cache of a tier: its maximum, its blocks, and the memory that it takes.",
        );
        for (tier, cache) in &caches {
            for (kind, bytes) in [
                ("capacity", cache.capacity_bytes),
                ("blocks", cache.block_bytes),
                ("memory", cache.memory_bytes),
            ] {
                text.sample("tier_cache_bytes", &[("tier", tier), ("kind", kind)], bytes);
            }
        }
        text.gauge("tier_cache_blocks", "Blocks in the cache of a tier.");
        for (tier, cache) in &caches {
            text.sample("tier_cache_blocks", &[("tier", tier)], cache.blocks);
        }
        text.counter(
            "tier_cache_events_total",
            "Blocks of the cache of a tier: found, missed, taken in, refused, kept, evicted, damaged; failed operations.",
        );
        for (tier, cache) in &caches {
            for (event, count) in [
                ("hit", cache.hits),
                ("miss", cache.misses),
                ("admitted", cache.admitted),
                ("rejected", cache.rejected),
                ("kept", cache.kept),
                ("evicted", cache.evicted),
                ("damaged", cache.damaged),
                ("failure", cache.failures),
            ] {
                let labels = [("tier", *tier), ("event", event)];
                text.sample("tier_cache_events_total", &labels, count);
            }
        }
    }

    /// Writes the durations of a tier's operations, those that happened.
    pub(super) fn write_tier_latencies(&self, text: &mut Text) {
        let name = "tier_operation_seconds";
        let timed = |tier: &terrace::TierStatistics| {
            let all = tier.latencies.all().into_iter();
            all.filter(|(_, _, times)| times.count > 0)
        };
        if self.0.tiers.iter().all(|tier| timed(tier).next().is_none()) {
            return;
        }
        text.family(
            name,
            "summary",
            "Durations of reads, writes and syncs of a tier's files, by purpose.",
        );
        for tier in &self.0.tiers {
            for (operation, purpose, times) in timed(tier) {
                let labels = [
                    ("tier", tier.name.as_str()),
                    ("operation", operation),
                    ("purpose", purpose),
                ];
                text.summary(name, &labels, &times);
            }
        }
    }
}

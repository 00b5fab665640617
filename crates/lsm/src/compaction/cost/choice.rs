//! The placements that fit, and the best of them.

use super::{
    Cycle, Load, Placement, Prediction, TierCost, Traffic, devices, predict, price_of,
    price_per_million,
};

/// Number of placements that are looked at.
const MAX_PLACEMENTS: usize = 4096;
/// Number of levels to choose tiers for. A store has far fewer.
const MAX_CHOSEN: usize = 64;
/// Steps of the search for each placement that it may find. One placement takes up to [`MAX_CHOSEN`].
const STEPS_EACH: usize = MAX_CHOSEN;
/// Part of the greatest throughput from which on a placement counts as no slower.
const ALIKE: f64 = 0.99;

/// The order of levels on tiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LevelOrder {
    /// A level lies on the tier of the level above or on a slower one.
    FastestFirst,
    /// A level lies on any tier.
    Any,
}

/// The property by which a placement is the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// The most requests a second. Of placements within 1 % the one with the lowest price counts.
    Throughput,
    /// The lowest price for a million requests.
    PricePerMillion,
}

/// Returns the placements in which the levels of every tier fit into its capacity. `capacities` are those of the
/// tiers, from the fastest to the slowest; `None` has no bound.
///
/// An empty level lies on the tier of the level above, so it adds no placements. Level 0 has a choice even if it is
/// empty: flushes fill it again.
///
/// There are at most 4096 placements, which is any order of six levels on four tiers. Of more, each level is met
/// on each tier about as often, and the order of the search is the same every time. The search takes a bounded
/// number of steps: where nearly nothing fits, it may miss a placement. There are none for more than 64 levels with
/// tables.
///
/// A compaction needs room for its output beside its input. The caller takes that from the capacities.
///
/// ```
/// use terrace_lsm::compaction::cost::{LevelOrder, feasible_placements};
/// let placements = feasible_placements(&[10, 0, 100], &[Some(50), None], LevelOrder::FastestFirst);
/// let levels: Vec<_> = placements.iter().map(|placement| &placement.levels[..]).collect();
/// assert_eq!(levels, [[0, 0, 1], [1, 1, 1]]);
/// ```
pub fn feasible_placements(
    level_bytes: &[u64],
    capacities: &[Option<u64>],
    order: LevelOrder,
) -> Vec<Placement> {
    let levels = level_bytes.iter().copied().enumerate();
    let chosen: Vec<(usize, u64)> = levels
        .filter(|(level, bytes)| *level == 0 || *bytes > 0)
        .collect();
    let bytes: Vec<u64> = chosen.iter().map(|(_, bytes)| *bytes).collect();
    let fits_alone = |bytes: &u64| capacities.iter().any(|room| has_room(*room, *bytes));
    if bytes.is_empty() || bytes.len() > MAX_CHOSEN || !bytes.iter().all(fits_alone) {
        return Vec::new();
    }
    let above = |level: usize| chosen.iter().rposition(|(chosen, _)| *chosen <= level);
    let above: Vec<usize> = (0..level_bytes.len()).filter_map(above).collect();
    let mut found = found_tiers(&bytes, capacities, order);
    found.sort();
    let whole = |tiers: &Vec<usize>| {
        let levels = above.iter().filter_map(|&at| tiers.get(at).copied());
        Placement::new(levels.collect::<Vec<usize>>())
    };
    found.iter().map(whole).collect()
}

impl Placement {
    /// Returns whether the levels of every tier fit into its capacity.
    pub fn fits(&self, level_bytes: &[u64], capacities: &[Option<u64>]) -> bool {
        let bytes_on = |tier: usize| {
            let levels = level_bytes.iter().enumerate();
            let there = levels.filter(|(level, _)| self.tier_of(*level) == Some(tier));
            there.map(|(_, bytes)| *bytes).fold(0, u64::saturating_add)
        };
        let rooms = capacities.iter().enumerate();
        let mut rooms = rooms.filter_map(|(tier, room_bytes)| Some((tier, (*room_bytes)?)));
        rooms.all(|(tier, room_bytes)| bytes_on(tier) <= room_bytes)
    }
}

/// Returns whether a level fits into this room. Even an empty one needs some.
fn has_room(room_bytes: Option<u64>, bytes: u64) -> bool {
    room_bytes.is_none_or(|room_bytes| room_bytes >= bytes.max(1))
}

/// Returns the tiers of levels that are all chosen for.
fn found_tiers(
    level_bytes: &[u64],
    capacities: &[Option<u64>],
    order: LevelOrder,
) -> Vec<Vec<usize>> {
    let search = |is_fair| {
        let search = Search {
            level_bytes,
            order,
            is_fair,
            room_bytes: capacities.to_vec(),
            levels: Vec::new(),
            done: Effort::default(),
            turn: 0,
            found: Vec::new(),
        };
        search.run()
    };
    match search(false) {
        (all, false) => all,
        (first, true) => {
            let (fair, _) = search(true);
            match fair.len() < first.len().min(MAX_PLACEMENTS) {
                true => first,
                false => fair,
            }
        }
    }
}

/// The work of a search.
#[derive(Clone, Copy, Debug, Default)]
struct Effort {
    placements: usize,
    steps: usize,
}

impl Effort {
    const MOST: Effort = Effort {
        placements: MAX_PLACEMENTS,
        steps: MAX_PLACEMENTS * STEPS_EACH,
    };

    /// Returns whether nothing is left up to an end.
    fn is_at(self, end: Effort) -> bool {
        self.placements >= end.placements || self.steps >= end.steps
    }

    /// Returns the end of the first of several parts of the work up to an end.
    fn end_of_part(self, end: Effort, parts: usize) -> Effort {
        let part = |done: usize, end: usize| done + end.saturating_sub(done).div_ceil(parts);
        Effort {
            placements: part(self.placements, end.placements),
            steps: part(self.steps, end.steps),
        }
    }
}

/// Placements in the making.
struct Search<'a> {
    level_bytes: &'a [u64],
    order: LevelOrder,
    /// Whether the tiers of a level share the work. Otherwise the first of them may take it all.
    is_fair: bool,
    room_bytes: Vec<Option<u64>>,
    levels: Vec<usize>,
    done: Effort,
    turn: u64,
    found: Vec<Vec<usize>>,
}

impl Search<'_> {
    /// Returns what is found, and whether there may be more.
    fn run(mut self) -> (Vec<Vec<usize>>, bool) {
        // One more than the most shows whether there are more.
        let mut end = Effort::MOST;
        end.placements += usize::from(!self.is_fair);
        self.go_on(end);
        let is_cut = self.done.is_at(end);
        self.found.truncate(MAX_PLACEMENTS);
        (self.found, is_cut)
    }

    /// Places the next level on each tier in turn.
    fn go_on(&mut self, end: Effort) {
        self.done.steps += 1;
        let Some(&bytes) = self.level_bytes.get(self.levels.len()) else {
            self.found.push(self.levels.clone());
            self.done.placements += 1;
            return;
        };
        let tiers = self.tiers_for(bytes);
        for (at, &tier) in tiers.iter().enumerate() {
            if self.done.is_at(end) {
                return;
            }
            let part_end = match self.is_fair {
                true => self.done.end_of_part(end, tiers.len() - at),
                false => end,
            };
            self.go_on_with(tier, bytes, part_end);
        }
    }

    fn go_on_with(&mut self, tier: usize, bytes: u64, end: Effort) {
        let before = self.room_bytes.get(tier).copied().flatten();
        self.set_room(
            tier,
            before.map(|room_bytes| room_bytes.saturating_sub(bytes)),
        );
        self.levels.push(tier);
        self.go_on(end);
        self.levels.pop();
        self.set_room(tier, before);
    }

    /// Returns the tiers with room for the next level. A fair search starts anywhere among them, or the last
    /// levels would always lie on the first.
    fn tiers_for(&mut self, bytes: u64) -> Vec<usize> {
        let first = match self.order {
            LevelOrder::FastestFirst => self.levels.last().copied().unwrap_or(0),
            LevelOrder::Any => 0,
        };
        let rooms = self.room_bytes.iter().enumerate().skip(first);
        let rooms = rooms.filter(|(_, room)| has_room(**room, bytes));
        let mut tiers: Vec<usize> = rooms.map(|(tier, _)| tier).collect();
        if self.is_fair && !tiers.is_empty() {
            let start = self.next_turn() % tiers.len();
            tiers.rotate_left(start);
        }
        tiers
    }

    /// Returns the next of numbers without order, which are the same in every search.
    fn next_turn(&mut self) -> usize {
        let next = self.turn.wrapping_mul(6_364_136_223_846_793_005);
        self.turn = next.wrapping_add(1_442_695_040_888_963_407);
        (self.turn >> 33) as usize
    }

    fn set_room(&mut self, tier: usize, bytes: Option<u64>) {
        if let Some(room_bytes) = self.room_bytes.get_mut(tier) {
            *room_bytes = bytes;
        }
    }
}

/// Returns the position of the best of some placements with its prediction; `None` if there are none. Of equal
/// ones the first is the best.
///
/// ```
/// use terrace_lsm::compaction::cost::*;
/// use terrace_storage::DeviceProfile;
/// // All reads are hits in memory, so the cheap device is as good.
/// let level = LevelTraffic { stored_bytes: 1 << 30, ..LevelTraffic::default() };
/// let traffic = Traffic { requests: 1000, levels: vec![level], ..Traffic::default() };
/// let tier = |profile| TierCost { profile, capacity_bytes: None };
/// let tiers = [tier(DeviceProfile::NVME_960_PRO), tier(DeviceProfile::WD10EZEX)];
/// let load = Load { threads: 8, processors: 4, cpu_us: 10.0, background_cpu_us: 0.0 };
/// let placements = feasible_placements(&traffic.level_bytes(), &[None, None], LevelOrder::Any);
/// let (best, _) = best(&traffic, &tiers, &placements, load, Goal::Throughput).unwrap();
/// assert_eq!(placements[best].levels, [1]);
/// ```
pub fn best(
    traffic: &Traffic,
    tiers: &[TierCost],
    placements: &[Placement],
    load: Load,
    goal: Goal,
) -> Option<(usize, Prediction)> {
    let values = placements
        .iter()
        .map(|placement| Value::of_placement(traffic, tiers, placement, load));
    let values: Vec<Value> = values.collect();
    let at = best_value(&values, goal)?;
    let prediction = predict(traffic, tiers, placements.get(at)?, load);
    Some((at, prediction))
}

/// Returns the position of the best prediction.
pub fn best_of<'a>(predictions: impl Iterator<Item = &'a Prediction>, goal: Goal) -> Option<usize> {
    let values = predictions.map(|prediction| Value {
        per_second: prediction.requests_per_second,
        price: prediction.price,
        price_per_million: prediction.price_per_million,
    });
    best_value(&values.collect::<Vec<Value>>(), goal)
}

/// The figures by which a placement is chosen.
#[derive(Clone, Copy, Debug)]
struct Value {
    per_second: f64,
    price: f64,
    price_per_million: f64,
}

impl Value {
    fn of_placement(
        traffic: &Traffic,
        tiers: &[TierCost],
        placement: &Placement,
        load: Load,
    ) -> Value {
        let devices = devices(traffic, tiers, placement);
        let (per_second, _) = Cycle::new(&devices, load).throughput();
        let both = tiers.iter().zip(&devices);
        Value {
            per_second,
            price: both.map(|(cost, device)| price_of(cost, device)).sum(),
            price_per_million: price_per_million(tiers, &devices, per_second),
        }
    }

    fn price_by(&self, goal: Goal) -> f64 {
        match goal {
            Goal::Throughput => self.price,
            Goal::PricePerMillion => self.price_per_million,
        }
    }
}

/// Returns the position of the best value.
fn best_value(values: &[Value], goal: Goal) -> Option<usize> {
    let rates = values.iter().map(|value| value.per_second);
    let most = rates.fold(0.0, f64::max);
    let as_fast = values
        .iter()
        .enumerate()
        .filter(|(_, value)| goal != Goal::Throughput || value.per_second >= ALIKE * most);
    let found = as_fast.min_by(|(_, one), (_, other)| {
        let by_price = one.price_by(goal).total_cmp(&other.price_by(goal));
        by_price.then(other.per_second.total_cmp(&one.per_second))
    });
    found.map(|(at, _)| at)
}

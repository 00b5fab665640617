//! Places for names beside points, so that none lies on a point or on another name.

/// Approximate width of a letter.
const LETTER: f64 = 6.4;
const HEIGHT: f64 = 13.0;
/// Gap between a point and its name.
const GAP: f64 = 8.0;

/// Returns about the width of a text.
pub fn width(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER
}

/// A rectangle: left, right, top, bottom.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Area(f64, f64, f64, f64);

impl Area {
    fn meets(&self, other: &Area) -> bool {
        self.0 < other.1 && other.0 < self.1 && self.2 < other.3 && other.2 < self.3
    }
}

/// Areas that are taken already.
#[derive(Clone, Debug)]
pub struct Labels {
    taken: Vec<Area>,
    across: (f64, f64),
    down: (f64, f64),
}

impl Labels {
    /// Names will stand beside these points, between the ends across and down.
    pub fn beside(points: &[(f64, f64)], across: (f64, f64), down: (f64, f64)) -> Labels {
        let around = |(x, y): &(f64, f64)| Area(x - 5.0, x + 5.0, y - 5.0, y + 5.0);
        Labels {
            taken: points.iter().map(around).collect(),
            across,
            down,
        }
    }

    /// Returns the left end and the base line of a name: to the right of its point, to the left,
    /// above or below, and further up and down, wherever there is room first. Where there is none,
    /// the name stands to the right as far as the drawing goes.
    pub fn place(&mut self, (x, y): (f64, f64), name: &str) -> (f64, f64) {
        let width = width(name);
        let beside = [x + GAP, x - GAP - width, x - width / 2.0];
        let steps = [0.0, -1.0, 1.0, -2.0, 2.0, -3.0, 3.0];
        let areas = steps.iter().flat_map(|step| {
            let middle = y + step * HEIGHT;
            let (top, bottom) = (middle - HEIGHT / 2.0, middle + HEIGHT / 2.0);
            beside.map(|left| Area(left, left + width, top, bottom))
        });
        let all: Vec<Area> = areas.collect();
        let free = |area: &&Area| self.is_free(area);
        let left = (x + GAP).min(self.across.1 - width).max(self.across.0);
        let right = Area(left, left + width, y - HEIGHT / 2.0, y + HEIGHT / 2.0);
        let area = all.iter().find(free).copied().unwrap_or(right);
        self.taken.push(area);
        (area.0, area.3 - 3.0)
    }

    fn is_free(&self, area: &Area) -> bool {
        let inside = area.0 >= self.across.0
            && area.1 <= self.across.1
            && area.2 >= self.down.0
            && area.3 <= self.down.1;
        inside && !self.taken.iter().any(|taken| taken.meets(area))
    }
}

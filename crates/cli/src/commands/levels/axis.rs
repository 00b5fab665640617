//! The scale of the picture of levels: the share of the data at or below a key.

use terrace::TableReport;

/// Characters for all of the data.
const WIDTH: usize = 40;
/// Symbols of a key that tell where it lies between two others.
const SYMBOLS: usize = 8;

/// A scale on which each table takes the room of its bytes, and tables over the same keys lie over
/// each other. Where a key lies within a table is not known: its place between the table's first key
/// and its last one stands for that.
pub struct Axis<'a> {
    tables: Vec<&'a TableReport>,
    /// The bytes that keys at the ends of tables consist of.
    alphabet: Vec<u8>,
}

impl<'a> Axis<'a> {
    pub fn of(tables: impl Iterator<Item = &'a TableReport>) -> Self {
        let tables: Vec<_> = tables.collect();
        let mut alphabet = Vec::new();
        for table in &tables {
            alphabet.extend_from_slice(&table.smallest);
            alphabet.extend_from_slice(&table.largest);
            alphabet.sort_unstable();
            alphabet.dedup();
        }
        Axis { tables, alphabet }
    }

    /// Returns the first key and the last one.
    pub fn ends(&self) -> Option<(&'a [u8], &'a [u8])> {
        let first = self.tables.iter().map(|table| table.smallest.as_slice());
        let last = self.tables.iter().map(|table| table.largest.as_slice());
        Some((first.min()?, last.max()?))
    }

    /// Draws the tables of a sub-level. Neighbours alternate in shade.
    pub fn bar(&self, tables: &[TableReport]) -> String {
        let mut cells = [' '; WIDTH];
        for (position, table) in tables.iter().enumerate() {
            let shade = if position % 2 == 0 { '█' } else { '▓' };
            let from = self.share(&table.smallest, Side::Below) * WIDTH as f64;
            let to = self.share(&table.largest, Side::AtOrBelow) * WIDTH as f64;
            let first = (from.round() as usize).min(WIDTH - 1);
            // The smallest table is seen, too.
            let last = (to.round() as usize).clamp(first + 1, WIDTH);
            for cell in cells.get_mut(first..last).unwrap_or_default() {
                *cell = shade;
            }
        }
        cells.iter().collect()
    }

    /// Returns the share of the data on one side of a key.
    fn share(&self, key: &[u8], side: Side) -> f64 {
        let size = |table: &TableReport| table.size_bytes.max(1) as f64;
        let all: f64 = self.tables.iter().map(|table| size(table)).sum();
        let parts = self.tables.iter();
        let part: f64 = parts
            .map(|table| size(table) * self.share_of(table, key, side))
            .sum();
        part / all
    }

    /// Returns the same share of one table's data.
    fn share_of(&self, table: &TableReport, key: &[u8], side: Side) -> f64 {
        let (first, last) = (table.smallest.as_slice(), table.largest.as_slice());
        let is_behind = match side {
            Side::Below => key > last,
            Side::AtOrBelow => key >= last,
        };
        if is_behind {
            return 1.0;
        }
        if key <= first {
            return 0.0;
        }
        let both = first.iter().zip(last);
        let common = both.take_while(|(first, last)| first == last).count();
        let [first, key, last] = [first, key, last].map(|key| self.place(key, common));
        match last > first {
            true => ((key - first) / (last - first)).clamp(0.0, 1.0),
            false => 0.5,
        }
    }

    /// Returns a key as a number of few digits, without its first bytes.
    fn place(&self, key: &[u8], common: usize) -> f64 {
        let base = self.alphabet.len() as f64 + 1.0;
        let symbols = key.iter().skip(common).take(SYMBOLS);
        let digits =
            symbols.map(|symbol| self.alphabet.partition_point(|known| known < symbol) + 1);
        let mut weight = 1.0;
        let weighed = digits.map(|digit| {
            weight /= base;
            digit as f64 * weight
        });
        weighed.sum()
    }
}

/// Which data is meant: the key's own is counted or not.
#[derive(Clone, Copy)]
enum Side {
    Below,
    AtOrBelow,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(smallest: &str, largest: &str, size_bytes: u64) -> TableReport {
        serde_json::from_value(serde_json::json!({
            "number": 1, "size_bytes": size_bytes, "entries": 1, "tombstones": 0,
            "range_tombstones": 0, "smallest": smallest, "largest": largest, "narrowed": false,
            "first_sequence": 1, "last_sequence": 2,
        }))
        .unwrap()
    }

    /// Draws sub-levels, each from the first cell that is not empty to the last one.
    fn spans(sub_levels: &[Vec<TableReport>]) -> Vec<(usize, usize)> {
        let axis = Axis::of(sub_levels.iter().flatten());
        let span = |tables: &Vec<TableReport>| {
            let bar: Vec<char> = axis.bar(tables).chars().collect();
            let drawn = |cell: &char| *cell != ' ';
            let first = bar.iter().position(drawn).unwrap();
            (first, bar.iter().rposition(drawn).unwrap() + 1)
        };
        sub_levels.iter().map(span).collect()
    }

    #[test]
    fn two_tables_over_all_keys_are_both_drawn_full() {
        let drawn = spans(&[
            vec![table("large_ar/00012", "small_zh/99981", 7 << 20)],
            vec![table("large_ar/00034", "small_zh/99999", 9 << 20)],
        ]);
        assert_eq!(drawn, [(0, 40), (0, 40)]);
    }

    #[test]
    fn a_table_takes_the_room_of_its_bytes() {
        let drawn = spans(&[
            vec![table("a", "f", 1 << 20), table("g", "z", 3 << 20)],
            vec![table("g", "z", 4 << 20)],
        ]);
        assert_eq!(drawn, [(0, 40), (5, 40)]);
        let tables = [table("a", "f", 1), table("g", "z", 3)];
        assert_eq!(
            Axis::of(tables.iter()).bar(&tables),
            format!("{}{}", "█".repeat(10), "▓".repeat(30))
        );
    }

    #[test]
    fn a_table_of_one_key_takes_one_cell_where_the_key_lies() {
        let drawn = spans(&[
            vec![table("5", "5", 300)],
            vec![table("0", "9", 1 << 20)],
            vec![table("0", "0", 300)],
            vec![table("9", "9", 300)],
        ]);
        let (first, last) = drawn[0];
        assert!(last == first + 1 && (15..26).contains(&first), "{drawn:?}");
        assert_eq!(drawn[1..], [(0, 40), (0, 1), (39, 40)]);
        // Nothing but such tables: each takes its share.
        let drawn = spans(&[vec![table("a", "a", 300)], vec![table("b", "b", 300)]]);
        assert_eq!(drawn, [(0, 20), (20, 40)]);
    }
}

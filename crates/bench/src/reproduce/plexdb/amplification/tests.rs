use super::*;
use crate::reproduce::plexdb::claims::tests::{measured, point};

#[test]
fn published_numbers_stand_beside_their_points() {
    let section = section(&measured(), &[]);
    let [space, written] = &section.tables[..] else {
        panic!("{:?}", section.tables)
    };
    let row = |table: &Table, name: &str| {
        let mut rows = table.rows.iter();
        rows.find(|row| row[0] == name).unwrap().clone()
    };
    assert_eq!(
        row(space, "leveldb"),
        ["leveldb", "1.20", "1.20", "1.20", "about 1.20"]
    );
    assert_eq!(row(space, "terrace-dedup-1.8")[4], "about 2.00");
    assert_eq!(row(space, "terrace-dedup-1.4")[4], "-");
    assert_eq!(
        row(space, "(LSM-trie)"),
        ["(LSM-trie)", "-", "-", "-", "above 11.0"]
    );
    assert_eq!(row(written, "leveldb")[4], "about 10.0");
    assert!(!written.rows.iter().any(|row| row[0] == "(LevelDB)"));
    for table in &section.tables {
        assert!(table.rows.iter().all(|row| row.len() == table.header.len()));
    }
    let bars = section.charts[0].bars.iter();
    assert_eq!(bars.filter(|bar| bar.whose == Whose::Paper).count(), 4);
}

#[test]
fn thresholds_are_a_curve_and_the_paper_has_a_point_with_both_numbers() {
    let plot = plot("Space", &measured(), true);
    let curve = plot.points.iter().filter(|point| point.curve.is_some());
    assert_eq!(curve.count(), 4);
    let published: Vec<_> = plot
        .points
        .iter()
        .filter(|p| p.whose == Whose::Paper)
        .collect();
    assert_eq!(published.len(), 1);
    assert_eq!((published[0].across, published[0].up), (1.2, 10.0));
}

#[test]
fn a_store_without_a_count_of_its_own_is_told() {
    let mut silent = point("fjall", 1.3, 9.0);
    silent.written.settled_tables = None;
    let section = section(&[silent], &[]);
    assert!(
        section
            .notes
            .iter()
            .any(|note| note.contains("tables: fjall."))
    );
    assert_eq!(section.tables[1].rows[0][2], "-");
    assert!(
        section.charts[1]
            .bars
            .iter()
            .all(|bar| bar.whose == Whose::Paper)
    );
    assert_eq!(
        zipfian_section(&[point("fjall", 1.3, 9.0)]).tables[0]
            .header
            .len(),
        4
    );
}

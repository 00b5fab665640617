//! A made-up report for tests of how reports are shown: names try to be more than text.

use crate::outcome::Machine;
use crate::reproduce::report::{Bar, Chart, Claim, Reproduction, Section, Table, Verdict, Whose};

/// The report; the same each time.
pub fn reproduction() -> Reproduction<u32> {
    let bar = |label: &str, whose, value| Bar {
        label: label.into(),
        whose,
        value,
    };
    let mut table = Table::new("Gains", &["workload", "here %"]);
    table.rows.push(vec!["A<b>".into(), "-3.00".into()]);
    Reproduction {
        command: "terrace reproduce wbl </style><script>alert(1)</script>".into(),
        paper: "A paper & its \"numbers\"".into(),
        model: Some("100:3:8.3".into()),
        conditions: vec![("seed".into(), "42".into())],
        machine: Machine::default(),
        figures: 7,
        sections: vec![Section {
            figure: "Figure 1".into(),
            title: "gains".into(),
            modelled: true,
            notes: vec!["word ".repeat(60)],
            tables: vec![table],
            charts: vec![Chart {
                title: "Gain".into(),
                unit: "%".into(),
                bars: vec![bar("A", Whose::Paper, 6.0), bar("A", Whose::Ours, -3.0)],
            }],
        }],
        claims: vec![Claim {
            claim: "It is faster".into(),
            paper: "+6 %".into(),
            ours: "-3 %".into(),
            verdict: Verdict::DoesNotHold,
            because: "Here.".into(),
        }],
    }
}

//! A made-up report for tests of how reports are shown: names try to be more than text.

use crate::outcome::Machine;
use crate::reproduce::report::{
    Bar, Chart, Claim, Plot, Point, Reproduction, Section, Table, Verdict, Whose,
};

/// Makes the report; the same each time.
pub fn reproduction() -> Reproduction<u32> {
    let bar = |label: &str, whose, value| Bar {
        label: label.into(),
        whose,
        value,
    };
    let point = |label: &str, whose, across| Point {
        label: label.into(),
        whose,
        across,
        up: 10.0 / across,
        curve: (whose == Whose::Ours).then(|| "curve".into()),
    };
    let mut table = Table::new("Gains", &["workload", "here %"]);
    table.rows.push(vec!["A<b>".into(), "-3.00".into()]);
    Reproduction {
        command: "terrace reproduce wbl </style><script>alert(1)</script>".into(),
        paper: "A paper & its \"numbers\"".into(),
        model: Some("100:3:8.3".into()),
        conditions: vec![("seed".into(), "42".into())],
        machine: Machine {
            processor: "A processor <b>".into(),
            processors: 8,
            memory_bytes: 32 << 30,
            day: "2026-11-27".into(),
            ..Machine::default()
        },
        figures: 7,
        sections: vec![Section {
            figure: "Figure 1".into(),
            title: "gains".into(),
            modelled: true,
            emulated: false,
            notes: vec!["word ".repeat(60)],
            tables: vec![table],
            plots: vec![Plot {
                title: "Space and writes".into(),
                across: "space".into(),
                up: "written".into(),
                is_linear_up: false,
                points: vec![
                    point("B<b>", Whose::Paper, 1.2),
                    point("a rather long name of a point", Whose::Ours, 1.25),
                    point("C", Whose::Ours, 9.0),
                ],
            }],
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

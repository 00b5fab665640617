//! What a reproduction found, in a form that text, JSON and HTML are made of.

use serde::{Deserialize, Serialize};

use crate::outcome::Machine;

/// Why a single repeat decides no claim.
pub const ONE_REPEAT: &str = "Not clear: one repeat tells nothing.";

/// Puts the reason why repeats do not decide a claim, if they do not, before the conditions of its figures.
pub fn because(repeats: usize, exceeds_spread: bool, conditions: &str) -> String {
    match repeats {
        _ if exceeds_spread => conditions.to_owned(),
        1 => format!("{ONE_REPEAT} {conditions}"),
        _ => format!("The difference does not exceed the spread of its repeats. {conditions}"),
    }
}

/// All of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Reproduction<Figures> {
    /// What was run, as it would be typed.
    pub command: String,
    /// The publication, in words.
    pub paper: String,
    /// The model that stood in for memory that is not there; figures that it touched say so.
    pub model: Option<String>,
    /// Name and value of what was the same for all.
    pub conditions: Vec<(String, String)>,
    /// The machine.
    pub machine: Machine,
    /// The figures, as numbers.
    pub figures: Figures,
    /// The figures, for people.
    pub sections: Vec<Section>,
    /// What the publication claims, and what is left of it here.
    pub claims: Vec<Claim>,
}

/// A figure, or a few that belong together.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Section {
    /// Its name, as in `Figure 4.4`.
    pub figure: String,
    /// What it shows.
    pub title: String,
    /// Whether a model of memory had a part in its numbers.
    pub modelled: bool,
    /// What a reader must know to take the numbers for what they are.
    pub notes: Vec<String>,
    /// Numbers.
    pub tables: Vec<Table>,
    /// Some of them as bars.
    pub charts: Vec<Chart>,
    /// Some of them as one against another.
    #[serde(default)]
    pub plots: Vec<Plot>,
}

impl Section {
    /// The head of a section: its name, and whether its numbers are modelled.
    pub fn heading(&self) -> String {
        let label = if self.modelled { " [modelled]" } else { "" };
        format!("{}: {}{label}", self.figure, self.title)
    }
}

/// Rows under a header; the first column names them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Table {
    /// What it holds.
    pub title: String,
    /// Names of the columns.
    pub header: Vec<String>,
    /// As many cells each as the header.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty one.
    pub fn new(title: &str, header: &[&str]) -> Self {
        Table {
            title: title.into(),
            header: header.iter().map(|name| (*name).into()).collect(),
            rows: Vec::new(),
        }
    }
}

/// Bars of one unit.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// Of all values.
    pub unit: String,
    /// In order.
    pub bars: Vec<Bar>,
}

/// One value.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Bar {
    /// What it is of.
    pub label: String,
    /// Whose it is.
    pub whose: Whose,
    /// In the chart's unit; may be negative.
    pub value: f64,
}

/// Two quantities, both above zero, one against the other; in a page both axes are logarithmic, unless
/// it is said otherwise.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Plot {
    /// What it shows.
    pub title: String,
    /// The quantity from left to right.
    pub across: String,
    /// The quantity from bottom to top.
    pub up: String,
    /// Whether the axis from bottom to top is linear and begins at zero.
    #[serde(default)]
    pub is_linear_up: bool,
    /// In order.
    pub points: Vec<Point>,
}

/// A value of each.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Point {
    /// Its label. A point without a label only bends its curve.
    pub label: String,
    /// Whose it is.
    pub whose: Whose,
    /// From left to right.
    pub across: f64,
    /// From bottom to top.
    pub up: f64,
    /// Points of one name are joined by a line, in their order.
    pub curve: Option<String>,
}

/// Who measured a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Whose {
    /// The publication.
    Paper,
    /// Measured here.
    Ours,
}

/// One claim of a publication.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// What is claimed.
    pub claim: String,
    /// The publication's number.
    pub paper: String,
    /// Ours.
    pub ours: String,
    /// What is left of it.
    pub verdict: Verdict,
    /// Why no more can be said, or under which conditions it was found.
    pub because: String,
}

/// What is left of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Our numbers say the same.
    Holds,
    /// They say something else.
    DoesNotHold,
    /// They do not tell, or what would tell is not there.
    CannotBeTold,
}

impl Verdict {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Holds => "holds here",
            Verdict::DoesNotHold => "does not hold here",
            Verdict::CannotBeTold => "cannot be told here",
        }
    }
}

//! Findings of a reproduction, from which text, JSON and HTML are made.

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

/// A whole reproduction.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Reproduction<Figures> {
    /// The command, as you would type it.
    pub command: String,
    /// The publication, in words.
    pub paper: String,
    /// The model that stood in for memory that is not there; figures that it touched say so.
    pub model: Option<String>,
    /// Name and value of each condition that was the same for all.
    pub conditions: Vec<(String, String)>,
    /// The machine.
    pub machine: Machine,
    /// The figures, as numbers.
    pub figures: Figures,
    /// The figures, for people.
    pub sections: Vec<Section>,
    /// Claims of the publication, each with its verdict here.
    pub claims: Vec<Claim>,
}

/// A figure, or a few that belong together.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Section {
    /// Its name, as in `Figure 4.4`.
    pub figure: String,
    /// Its title.
    pub title: String,
    /// Whether a model of memory had a part in its numbers.
    pub modelled: bool,
    /// Whether devices that the machine lacks were emulated.
    #[serde(default)]
    pub emulated: bool,
    /// Notes that a reader needs in order to judge the numbers.
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
    /// Returns the head of a section: its name, and whether its numbers are modelled or emulated.
    pub fn heading(&self) -> String {
        let labels = self.labels().map(|label| format!(" [{label}]"));
        format!(
            "{}: {}{}",
            self.figure,
            self.title,
            labels.collect::<String>()
        )
    }

    /// Returns the words for numbers that are not of a device of this machine.
    pub fn labels(&self) -> impl Iterator<Item = &'static str> {
        let modelled = self.modelled.then_some("modelled");
        modelled
            .into_iter()
            .chain(self.emulated.then_some("emulated"))
    }
}

/// Rows under a header; the first column names them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Table {
    /// Its title.
    pub title: String,
    /// Names of the columns.
    pub header: Vec<String>,
    /// As many cells each as the header.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// Makes a table without rows.
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
    /// Its title.
    pub title: String,
    /// The unit of all values.
    pub unit: String,
    /// Bars in order.
    pub bars: Vec<Bar>,
}

/// One value.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Bar {
    /// Its label.
    pub label: String,
    /// Its source.
    pub whose: Whose,
    /// The value in the chart's unit; may be negative.
    pub value: f64,
}

/// Two quantities, both above zero, one against the other; in a page both axes are logarithmic, unless
/// it is said otherwise.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Plot {
    /// Its title.
    pub title: String,
    /// The quantity from left to right.
    pub across: String,
    /// The quantity from bottom to top.
    pub up: String,
    /// Whether the axis from bottom to top is linear and begins at zero.
    #[serde(default)]
    pub is_linear_up: bool,
    /// Points in order.
    pub points: Vec<Point>,
}

/// A value of each.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Point {
    /// Its label. A point without a label only bends its curve.
    pub label: String,
    /// Its source.
    pub whose: Whose,
    /// Place from left to right.
    pub across: f64,
    /// Place from bottom to top.
    pub up: f64,
    /// Points of one name are joined by a line, in their order.
    pub curve: Option<String>,
}

/// The source of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Whose {
    /// The publication.
    Paper,
    /// Measured here.
    Ours,
    /// Predicted here, by a model.
    Predicted,
}

/// One claim of a publication.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// The claim.
    pub claim: String,
    /// The publication's number.
    pub paper: String,
    /// Ours.
    pub ours: String,
    /// The verdict.
    pub verdict: Verdict,
    /// The reason why no more can be said, or the conditions of the measurement.
    pub because: String,
}

/// A verdict on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Our numbers say the same.
    Holds,
    /// They say something else.
    DoesNotHold,
    /// They decide nothing, or the means to decide is missing.
    CannotBeTold,
}

impl Verdict {
    /// Returns the verdict in words.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Holds => "holds here",
            Verdict::DoesNotHold => "does not hold here",
            Verdict::CannotBeTold => "cannot be told here",
        }
    }
}

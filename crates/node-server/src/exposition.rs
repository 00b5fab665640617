//! Lines of metrics in the text format of Prometheus (0.0.4).

use std::fmt::{Display, Write};

/// Lines of metrics, whose names begin with `terrace_node_`.
#[derive(Default)]
pub(crate) struct Exposition(String);

impl Exposition {
    pub(crate) fn into_text(self) -> String {
        self.0
    }

    /// Declares a family of figures that rise and fall.
    pub(crate) fn gauge(&mut self, name: &str, help: &str) {
        self.family(name, "gauge", help);
    }

    /// Declares a family of counters.
    pub(crate) fn counter(&mut self, name: &str, help: &str) {
        self.family(name, "counter", help);
    }

    /// Declares a family of histograms.
    pub(crate) fn histogram(&mut self, name: &str, help: &str) {
        self.family(name, "histogram", help);
    }

    fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!(
            "# HELP terrace_node_{name} {help}\n# TYPE terrace_node_{name} {kind}\n"
        ));
    }

    /// Adds a sample of the family that was declared last.
    pub(crate) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let labels: Vec<String> = labels
            .iter()
            .map(|(label, value)| format!("{label}=\"{}\"", escaped(value)))
            .collect();
        match labels.as_slice() {
            [] => self.line(format_args!("terrace_node_{name} {value}\n")),
            labels => self.line(format_args!(
                "terrace_node_{name}{{{}}} {value}\n",
                labels.join(",")
            )),
        }
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.0.write_fmt(line);
    }
}

fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let mut text = Exposition::default();
        text.gauge("keys", "Keys.");
        text.sample("keys", &[("name", "a\"b\\c\nd"), ("nsid", "1")], 7);
        let expected = "# HELP terrace_node_keys Keys.\n# TYPE terrace_node_keys gauge\n\
                        terrace_node_keys{name=\"a\\\"b\\\\c\\nd\",nsid=\"1\"} 7\n";
        assert_eq!(text.into_text(), expected);
    }
}

//! A reproduction as one page of HTML: tables, bars and plots, no script, nothing to be fetched.

use std::fmt::Write;

use super::plot;
use super::report::{Chart, Claim, Reproduction, Section, Table, Verdict, Whose};
use crate::report::html::escape;
use crate::report::numbers::digits;
use crate::report::table::{machine, machine_line};

const STYLE: &str = include_str!("page.css");

/// Returns the page. Writing to a `String` cannot fail, so results of `write!` are dropped.
pub fn page<Figures>(report: &Reproduction<Figures>) -> String {
    let heading = format!("Terrace reproduces: {}", report.paper);
    let place = machine_line(&report.machine);
    let title = escape(&format!("{heading}; {place}"));
    let (heading, place) = (escape(&heading), escape(&place));
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" \
         content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <h1>{heading}</h1>\n<p>{place}</p>\n<p><code>{}</code></p>\n",
        escape(&report.command)
    );
    if let Some(model) = &report.model {
        let _ = writeln!(
            page,
            "<p class=\"modelled\">Figures marked <b>modelled</b> are of modelled memory: {}.</p>",
            escape(model)
        );
    }
    write_claims(&mut page, &report.claims);
    for section in &report.sections {
        write_section(&mut page, section);
    }
    write_pairs(&mut page, "Conditions", &report.conditions);
    write_pairs(&mut page, "Machine", &machine(&report.machine));
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

fn write_claims(page: &mut String, claims: &[Claim]) {
    page.push_str(
        "<section>\n<h2>What is left of the claims</h2>\n<table class=\"claims\">\n<tr>\
         <th>claim</th><th>published</th><th>here</th><th>verdict</th></tr>\n",
    );
    for claim in claims {
        let class = match claim.verdict {
            Verdict::Holds => "holds",
            Verdict::DoesNotHold => "fails",
            Verdict::CannotBeTold => "open",
        };
        let _ = writeln!(
            page,
            "<tr><td>{}<div class=\"faint\">{}</div></td><td data-name=\"published\">{}</td>\
             <td data-name=\"here\">{}</td><td class=\"{class}\" data-name=\"verdict\">{}</td></tr>",
            escape(&claim.claim),
            escape(&claim.because),
            escape(&claim.paper),
            escape(&claim.ours),
            claim.verdict.name()
        );
    }
    page.push_str("</table>\n</section>\n");
}

fn write_section(page: &mut String, section: &Section) {
    let label: String = section
        .labels()
        .map(|label| format!(" <span class=\"modelled\">{label}</span>"))
        .collect();
    let _ = writeln!(
        page,
        "<section>\n<h2>{}: {}{label}</h2>",
        escape(&section.figure),
        escape(&section.title)
    );
    for chart in &section.charts {
        write_chart(page, chart);
    }
    for drawn in &section.plots {
        plot::write(page, drawn);
    }
    for table in &section.tables {
        write_table(page, table);
    }
    for note in &section.notes {
        let _ = writeln!(page, "<p class=\"faint\">{}</p>", escape(note));
    }
    page.push_str("</section>\n");
}

fn write_table(page: &mut String, table: &Table) {
    let cells = |tag: &str, cells: &[String]| -> String {
        let cell = |cell: &String| format!("<{tag}>{}</{tag}>", escape(cell));
        cells.iter().map(cell).collect()
    };
    let _ = writeln!(page, "<h3>{}</h3>", escape(&table.title));
    let _ = writeln!(
        page,
        "<div class=\"wide\"><table>\n<tr>{}</tr>",
        cells("th", &table.header)
    );
    for row in &table.rows {
        let _ = writeln!(page, "<tr>{}</tr>", cells("td", row));
    }
    page.push_str("</table></div>\n");
}

/// Bars from zero, which is at the left unless a value is below it.
fn write_chart(page: &mut String, chart: &Chart) {
    let values = || chart.bars.iter().map(|bar| bar.value);
    let least = values().fold(0.0, f64::min);
    let most = values().fold(0.0, f64::max);
    let span = (most - least).max(f64::MIN_POSITIVE);
    let _ = writeln!(
        page,
        "<h3>{}, {}</h3>\n<div class=\"chart\">",
        escape(&chart.title),
        escape(&chart.unit)
    );
    for bar in &chart.bars {
        let from = (bar.value.min(0.0) - least) / span * 100.0;
        let width = bar.value.abs() / span * 100.0;
        let (class, whose) = match bar.whose {
            Whose::Paper => ("paper", "published"),
            Whose::Ours => ("ours", "here"),
            Whose::Predicted => ("predicted", "predicted"),
        };
        let _ = writeln!(
            page,
            "<div class=\"name\">{} <span class=\"faint\">{whose}</span></div><div class=\"track\">\
             <div class=\"bar {class}\" style=\"margin-left:{from:.2}%;width:{width:.2}%\"></div>\
             </div><div class=\"value\">{}</div>",
            escape(&bar.label),
            digits(bar.value)
        );
    }
    page.push_str("</div>\n");
}

fn write_pairs(page: &mut String, title: &str, pairs: &[(String, String)]) {
    let _ = writeln!(page, "<section>\n<h2>{title}</h2>\n<table class=\"pairs\">");
    for (name, value) in pairs {
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td class=\"text\">{}</td></tr>",
            escape(name),
            escape(value)
        );
    }
    page.push_str("</table>\n</section>\n");
}

//! One quantity against another, drawn as SVG, within a page or as an image of its own. It shows
//! points with their names, and lines that join those of a curve. Axes are logarithmic, for a store
//! may take ten times as much as another; only the upward one can be linear, for parts of a whole.

mod labels;
mod scale;

use std::fmt::Write;

use self::labels::Labels;
use self::scale::Scale;
use super::report::{Plot, Point, Whose};
use crate::report::html::escape;
use crate::report::numbers::digits;

/// Size of a drawing.
#[derive(Clone, Copy)]
struct Size {
    width: f64,
    height: f64,
    /// A narrow drawing has no room for them.
    has_axis_names: bool,
}

/// For desks, and for images.
const BROAD: Size = Size {
    width: 720.0,
    height: 420.0,
    has_axis_names: true,
};
/// For phones, whose letters would be too small to read in the other one.
const NARROW: Size = Size {
    width: 340.0,
    height: 360.0,
    has_axis_names: false,
};
/// Room for names and numbers of the axes.
const LEFT: f64 = 56.0;
const BELOW: f64 = 44.0;
const MARGIN: f64 = 14.0;
const RADIUS: f64 = 4.5;
/// Classes of style sheets.
const CURVE_COLOURS: usize = 4;

/// Style that an image needs because it stands on no page of ours.
const IMAGE_STYLE: &str = include_str!("plot/image.css");

/// Draws it into a page, once for each width of screens, unless it has no points. Writing to a `String`
/// cannot fail, so results of `write!` are dropped.
pub fn write(page: &mut String, plot: &Plot) {
    let Some((broad, narrow)) = drawing(plot, BROAD).zip(drawing(plot, NARROW)) else {
        return;
    };
    let title = escape(&plot.title);
    let _ = writeln!(page, "<h3>{title}</h3>\n<div class=\"plot\">");
    for (class, Size { width, height, .. }, drawing) in
        [("broad", BROAD, broad), ("narrow", NARROW, narrow)]
    {
        let _ = writeln!(
            page,
            "<svg class=\"{class}\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
             aria-label=\"{title}\">\n{drawing}</svg>"
        );
    }
    let _ = writeln!(
        page,
        "</div>\n<p class=\"narrow faint\">Across: {}. Up: {}.</p>",
        escape(&plot.across),
        escape(&plot.up)
    );
}

/// Returns the image of a plot that has points, a whole SVG file.
pub fn image(plot: &Plot) -> Option<String> {
    let drawing = drawing(plot, BROAD)?;
    let Size { width, height, .. } = BROAD;
    Some(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\">\n\
         <title>{}</title>\n<style>\n{IMAGE_STYLE}</style>\n\
         <rect width=\"{width}\" height=\"{height}\"/>\n{drawing}</svg>\n",
        escape(&plot.title)
    ))
}

fn drawing(plot: &Plot, size: Size) -> Option<String> {
    let drawn = |point: &&Point| point.across > 0.0 && point.up > 0.0;
    let points: Vec<&Point> = plot.points.iter().filter(drawn).collect();
    let across = Scale::of(points.iter().map(|p| p.across), LEFT, size.width - MARGIN);
    let upward = points.iter().map(|p| p.up);
    let up = match plot.is_linear_up {
        true => Scale::linear(upward, size.height - BELOW, MARGIN),
        false => Scale::of(upward, size.height - BELOW, MARGIN),
    };
    let (across, up) = (across?, up?);
    let mut drawing = String::new();
    write_axes(&mut drawing, plot, size, (&across, &up));
    write_curves(&mut drawing, &points, &across, &up);
    write_points(&mut drawing, &points, size, (&across, &up));
    Some(drawing)
}

fn write_axes(page: &mut String, plot: &Plot, size: Size, (across, up): (&Scale, &Scale)) {
    let bottom = size.height - BELOW;
    let mut free_from = 0.0;
    for value in across.ticks() {
        let x = across.place(value);
        let half = labels::width(&tick(value)) / 2.0;
        if x - half < free_from {
            continue;
        }
        free_from = x + half + 4.0;
        let _ = writeln!(
            page,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{MARGIN}\" y2=\"{bottom}\"/><text class=\"axis\" \
             x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            bottom + 16.0,
            tick(value)
        );
    }
    for value in up.ticks() {
        let y = up.place(value);
        let _ = writeln!(
            page,
            "<line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/><text class=\"axis\" \
             x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            size.width - MARGIN,
            LEFT - 6.0,
            y + 4.0,
            tick(value)
        );
    }
    if size.has_axis_names {
        write_axis_names(page, plot, size);
    }
}

fn write_axis_names(page: &mut String, plot: &Plot, size: Size) {
    let bottom = size.height - BELOW;
    let _ = writeln!(
        page,
        "<text class=\"axis\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n\
         <text class=\"axis\" transform=\"translate(14 {:.1}) rotate(-90)\" \
         text-anchor=\"middle\">{}</text>",
        f64::midpoint(LEFT, size.width - MARGIN),
        size.height - 8.0,
        escape(&plot.across),
        f64::midpoint(MARGIN, bottom),
        escape(&plot.up)
    );
}

/// As short as it can be: `1.5`, `10`.
fn tick(value: f64) -> String {
    let text = digits(value);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').into(),
        false => text,
    }
}

fn write_curves(page: &mut String, points: &[&Point], across: &Scale, up: &Scale) {
    let mut names: Vec<&str> = points.iter().filter_map(|p| p.curve.as_deref()).collect();
    names.sort_unstable();
    names.dedup();
    for (index, name) in names.into_iter().enumerate() {
        let of_curve = points.iter().filter(|p| p.curve.as_deref() == Some(name));
        let places: Vec<String> = of_curve
            .map(|p| format!("{:.1},{:.1}", across.place(p.across), up.place(p.up)))
            .collect();
        let _ = writeln!(
            page,
            "<polyline points=\"{}\" class=\"curve-{}\"/>",
            places.join(" "),
            index % CURVE_COLOURS
        );
    }
}

fn write_points(page: &mut String, points: &[&Point], size: Size, (across, up): (&Scale, &Scale)) {
    let named = points.iter().filter(|point| !point.label.is_empty());
    let points: Vec<&Point> = named.copied().collect();
    let places: Vec<(f64, f64)> = points
        .iter()
        .map(|point| (across.place(point.across), up.place(point.up)))
        .collect();
    let mut labels = Labels::beside(&places, (LEFT, size.width), (0.0, size.height - BELOW));
    for (point, (x, y)) in points.iter().zip(&places) {
        let (class, whose) = match point.whose {
            Whose::Paper => ("paper", " (published)"),
            Whose::Ours => ("ours", ""),
            Whose::Predicted => ("predicted", " (predicted)"),
        };
        let label = format!("{}{whose}", point.label);
        let (left, baseline) = labels.place((*x, *y), &label);
        let _ = writeln!(
            page,
            "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{RADIUS}\"/>\
             <text x=\"{left:.1}\" y=\"{baseline:.1}\">{}</text>",
            escape(&label)
        );
    }
}

#[cfg(test)]
mod tests;

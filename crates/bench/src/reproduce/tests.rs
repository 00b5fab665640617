use super::report::Reproduction;
use super::sample::reproduction as sample;
use super::*;

#[test]
fn the_text_has_every_part_and_marks_what_is_modelled() {
    let text = text::text(&sample());
    assert!(text.contains("== Figure 1: gains [modelled]"), "{text}");
    assert!(text.contains("does not hold here: published +6 %, here -3 %. Here."));
    assert!(text.contains("Figures marked [modelled] are of modelled memory: 100:3:8.3."));
    assert!(
        text.contains("workload  here %\n----------------\nA<b>       -3.00\n"),
        "{text}"
    );
    assert!(
        text.lines().all(|line| line.chars().count() <= 100),
        "{text}"
    );
}

/// A terminal shows the end.
#[test]
fn the_verdicts_come_last() {
    let text = text::text(&sample());
    let place = |part: &str| text.rfind(part).unwrap();
    let verdicts = place("\n== What is left of the claims");
    assert!(place("\nConditions") < verdicts && place("\nMachine") < verdicts);
    assert!(place("  command  terrace reproduce wbl") < verdicts);
    assert!(text.ends_with("here -3 %. Here.\n"), "{text}");
}

#[test]
fn names_cannot_steer_a_terminal() {
    let mut report = sample();
    let places: [fn(&mut Reproduction<u32>) -> &mut String; 8] = [
        |report| &mut report.command,
        |report| &mut report.paper,
        |report| &mut report.conditions[0].1,
        |report| &mut report.sections[0].title,
        |report| &mut report.sections[0].notes[0],
        |report| &mut report.sections[0].tables[0].title,
        |report| &mut report.sections[0].tables[0].rows[0][0],
        |report| &mut report.claims[0].because,
    ];
    for place in places {
        place(&mut report).push_str("\u{1b}[2J\r\u{7}");
    }
    let text = text::text(&report);
    let mut controls = text.chars().filter(|letter| letter.is_control());
    assert!(controls.all(|letter| letter == '\n'), "{text:?}");
}

#[test]
fn the_page_is_text_and_bars_and_fetches_nothing() {
    let page = page::page(&sample());
    assert!(
        !page.contains("<script") && !page.contains("A<b>"),
        "{page}"
    );
    assert!(page.contains("A&lt;b&gt;"));
    let title = page.split_once("<title>").unwrap().1;
    assert!(
        title.starts_with("Terrace reproduces: A paper &amp; its")
            && title.contains(
                "A processor &lt;b&gt;, 8 processors in use, 32.0 GiB; 2026-11-27</title>"
            ),
        "{title}"
    );
    assert!(page.contains("default-src 'none'; style-src 'unsafe-inline'"));
    assert!(!page.contains("http://") && !page.contains("https://") && !page.contains("url("));
    assert!(page.contains("<span class=\"modelled\">modelled</span>"));
    assert!(page.contains("prefers-color-scheme: dark"));
    // Zero lies a third from the left; bars below zero end there.
    assert!(
        page.contains("bar paper\" style=\"margin-left:33.33%;width:66.67%\""),
        "{page}"
    );
    assert!(page.contains("bar ours\" style=\"margin-left:0.00%;width:33.33%\""));
    // Three points, two of them on a curve, for each of two widths.
    assert_eq!(page.matches("<circle").count(), 2 * 3);
    assert!(page.contains("B&lt;b&gt; (published)</text>") && !page.contains("B<b>"));
    assert_eq!(page.matches("<polyline").count(), 2);
}

#[test]
fn json_can_be_read_again() {
    let json = serde_json::to_string(&sample()).unwrap();
    let read: Reproduction<u32> = serde_json::from_str(&json).unwrap();
    assert_eq!(read.claims, sample().claims);
    assert!(json.contains("\"does_not_hold\""));
}

#[test]
fn stores_of_reproductions_have_names_of_their_own() {
    let program = Program {
        contestants: crate::stores::terrace::CONTESTANTS.to_vec(),
        default_contestants: Vec::new(),
        child_arguments: Vec::new(),
    };
    let mut names: Vec<_> = extended(&program)
        .contestants
        .iter()
        .map(|c| c.name)
        .collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all);
}

use super::*;

fn point(label: &str, across: f64, up: f64, curve: Option<&str>) -> Point {
    Point {
        label: label.into(),
        whose: Whose::Ours,
        across,
        up,
        curve: curve.map(str::to_string),
    }
}

fn drawn(points: Vec<Point>) -> String {
    let mut page = String::new();
    let plot = Plot {
        title: "Space & writes".into(),
        across: "space".into(),
        up: "written".into(),
        is_linear_up: false,
        points,
    };
    write(&mut page, &plot);
    // The other drawing has the same for phones.
    let (broad, narrow) = page
        .split_once("<svg class=\"narrow\"")
        .unwrap_or((&page, ""));
    assert_eq!(
        broad.matches("<circle").count(),
        narrow.matches("<circle").count()
    );
    broad.to_owned()
}

/// Numbers of all attributes of this name.
fn numbers(page: &str, attribute: &str) -> Vec<f64> {
    let before = format!(" {attribute}=\"");
    let parts = page.split(&before).skip(1);
    let number = |part: &str| part.split('"').next().unwrap().parse().unwrap();
    parts.map(number).collect()
}

#[test]
fn points_lie_as_their_logarithms_do_and_the_greater_is_further_up() {
    let page = drawn(vec![
        point("a", 1.0, 2.0, None),
        point("b", 2.0, 4.0, None),
        point("c", 4.0, 8.0, None),
    ]);
    let (x, y) = (numbers(&page, "cx"), numbers(&page, "cy"));
    assert!(
        (x[1] - x[0] - (x[2] - x[1])).abs() < 0.2 && x[0] < x[1],
        "{x:?}"
    );
    assert!(
        (y[1] - y[0] - (y[2] - y[1])).abs() < 0.2 && y[0] > y[1],
        "{y:?}"
    );
    assert!(x[0] > LEFT && x[2] < BROAD.width && y[0] < BROAD.height - BELOW && y[2] > 0.0);
    assert!(page.contains("<h3>Space &amp; writes</h3>"));
}

#[test]
fn only_points_of_one_curve_are_joined_in_their_order() {
    let page = drawn(vec![
        point("alone", 9.0, 2.0, None),
        point("low", 1.0, 8.0, Some("dedup")),
        point("high", 2.0, 4.0, Some("dedup")),
    ]);
    assert_eq!(page.matches("<polyline").count(), 1);
    let (_, line) = page.split_once("<polyline points=\"").unwrap();
    let line = line.split('"').next().unwrap();
    let (x, y) = (numbers(&page, "cx"), numbers(&page, "cy"));
    assert_eq!(
        line,
        format!("{:.1},{:.1} {:.1},{:.1}", x[1], y[1], x[2], y[2])
    );
}

#[test]
fn names_of_neighbours_do_not_meet() {
    let near = |number: u32| (300.0 + f64::from(number), 200.0 + f64::from(number));
    let points: Vec<_> = (0..5).map(near).collect();
    let mut labels = Labels::beside(&points, (0.0, 700.0), (0.0, 400.0));
    let mut lines: Vec<(f64, f64)> = Vec::new();
    for at in &points {
        let (left, baseline) = labels.place(*at, "a name");
        let meets = |(x, y): &(f64, f64)| (x - left).abs() < 38.0 && (y - baseline).abs() < 12.0;
        assert!(!lines.iter().any(meets), "{lines:?}: {left} {baseline}");
        lines.push((left, baseline));
    }
    // At the right end a name is on the left.
    let at_the_end = Labels::beside(&[], (0.0, 700.0), (0.0, 400.0)).place((690.0, 100.0), "name");
    assert!(at_the_end.0 < 690.0);
}

#[test]
fn a_name_without_room_ends_within_the_drawing() {
    let crowd: Vec<(f64, f64)> = (0..400)
        .map(|number| (f64::from(number % 20) * 10.0, f64::from(number / 20) * 10.0))
        .collect();
    let mut labels = Labels::beside(&crowd, (0.0, 200.0), (0.0, 200.0));
    let (left, _) = labels.place((190.0, 100.0), "a rather long name");
    assert!(left + 18.0 * 6.4 <= 200.0, "{left}");
}

#[test]
fn what_has_no_logarithm_is_left_out_and_nothing_draws_nothing() {
    assert_eq!(drawn(Vec::new()), "");
    assert_eq!(drawn(vec![point("zero", 0.0, 1.0, None)]), "");
    let page = drawn(vec![
        point("zero", 0.0, 1.0, None),
        point("one", 1.0, 1.0, None),
    ]);
    assert!(
        !page.contains("zero") && page.contains(">one</text>"),
        "{page}"
    );
}

#[test]
fn ticks_are_round_within_the_ends_and_more_than_one() {
    for (values, expected) in [
        (
            vec![1.3, 9.0],
            &[1.2, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0][..],
        ),
        (vec![0.9, 95.0], &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]),
    ] {
        let scale = Scale::of(values.into_iter(), 0.0, 1.0).unwrap();
        let ticks = scale.ticks();
        let near = |(tick, expected): (&f64, &f64)| (tick - expected).abs() < 1e-9;
        assert!(
            ticks.len() == expected.len() && ticks.iter().zip(expected).all(near),
            "{ticks:?}"
        );
    }
    assert_eq!([1.5, 10.0, 100.0].map(tick), ["1.5", "10", "100"]);
}

#[test]
fn an_image_is_a_file_of_its_own() {
    let plot = Plot {
        title: "Space & writes".into(),
        across: "space".into(),
        up: "written".into(),
        is_linear_up: false,
        points: vec![point("a", 1.0, 2.0, None), point("b", 2.0, 4.0, None)],
    };
    let image = image(&plot).unwrap();
    assert!(image.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
    assert!(
        image.contains("<title>Space &amp; writes</title>"),
        "{image}"
    );
    assert_eq!(image.matches("<circle").count(), 2);
    assert!(image.trim_end().ends_with("</svg>"), "{image}");
    let empty = Plot {
        points: Vec::new(),
        ..plot
    };
    assert_eq!(super::image(&empty), None);
}

#[test]
fn a_linear_axis_begins_at_zero_and_points_without_a_name_only_bend_their_curve() {
    let mut page = String::new();
    let plot = Plot {
        title: "Latency".into(),
        is_linear_up: true,
        points: vec![
            point("", 10.0, 0.25, Some("one")),
            point("one", 20.0, 0.5, Some("one")),
            point("", 40.0, 1.0, Some("one")),
            point("", 10.0, 1.0, Some("two")),
            point("two", 20.0, 1.0, Some("two")),
        ],
        ..Plot::default()
    };
    write(&mut page, &plot);
    assert_eq!(page.matches("<circle").count(), 2 * 2);
    assert!(page.contains("class=\"curve-0\"") && page.contains("class=\"curve-1\""));
    let line = page.split("<polyline points=\"").nth(1).unwrap();
    let places = line.split('"').next().unwrap().split(' ');
    let up: Vec<f64> = places
        .map(|place| place.split_once(',').unwrap().1.parse().unwrap())
        .collect();
    // Twice as much is twice as far from zero.
    let from_zero = |y: f64| BROAD.height - BELOW - y;
    assert!(
        (from_zero(up[1]) - 2.0 * from_zero(up[0])).abs() < 0.3,
        "{up:?}"
    );
    assert!(
        (from_zero(up[2]) - 4.0 * from_zero(up[0])).abs() < 0.5,
        "{up:?}"
    );
    let scale = Scale::linear([0.2, 1.0].into_iter(), 0.0, 1.0).unwrap();
    let ticks = scale.ticks();
    assert!(
        ticks.len() == 11 && (ticks[10] - 1.0).abs() < 1e-9,
        "{ticks:?}"
    );
}

use terrace_tools::simulate::SpaceAmplification;

use super::*;

/// As the paper has it.
fn published() -> Vec<Simulated> {
    let run = |updates: Updates, points: &[(&str, f64, f64)]| -> Vec<Simulated> {
        let one = |&(name, space, written): &(&str, f64, f64)| Simulated {
            name: name.into(),
            updates,
            buffer_bytes: 20 << 20,
            outcome: Outcome {
                settled_write_amplification: written,
                space: SpaceAmplification {
                    mean: space - 0.1,
                    peak: space + 1.0,
                    settled: space,
                },
                ..Outcome::default()
            },
        };
        points.iter().map(one).collect()
    };
    let usual = [
        (LEVELED, 1.2, 10.0),
        (DEDUP_1_6, 1.7, 4.0),
        ("terrace-dedup-1.8", 2.0, 3.1),
        (TRIE, 11.5, 3.0),
        (TRIE_32, 6.0, 3.2),
    ];
    let large = [
        (LEVELED, 2.0, 12.0),
        (DEDUP_1_6, 1.9, 5.0),
        (TRIE, 18.0, 3.5),
        (TRIE_32, 15.0, 3.5),
    ];
    [run(Updates::USUAL, &usual), run(Updates::LARGE, &large)].concat()
}

const CLAIMS: [&str; 5] = [
    "LSM-trie takes above 11",
    "Above 1.6 PlexDB writes",
    "LSM-trie takes near 18",
    "LevelDB and PlexDB, at 1.6",
    "goes up for all",
];

fn verdict(simulated: &[Simulated], claim: &str) -> Verdict {
    let claims = claims(simulated);
    let found = claims.iter().filter(|found| found.claim.contains(claim));
    let found: Vec<&Claim> = found.collect();
    assert_eq!(found.len(), 1, "{claim}");
    assert!(found[0].because.starts_with("By simulation."));
    found[0].verdict
}

#[test]
fn what_is_as_published_holds() {
    for claim in CLAIMS {
        assert_eq!(verdict(&published(), claim), Verdict::Holds, "{claim}");
    }
    assert_eq!(claims(&published()).len(), CLAIMS.len());
    assert!(claims(&[]).is_empty());
}

/// Each change makes one claim fail, and no other.
#[test]
fn each_claim_can_fail() {
    type Change = fn(&mut Vec<Simulated>);
    let changes: [(&str, Change); 5] = [
        (CLAIMS[0], |all| all[3].outcome.space.settled = 9.5),
        (CLAIMS[1], |all| {
            all[2].outcome.settled_write_amplification = 3.4;
        }),
        (CLAIMS[2], |all| all[7].outcome.space.settled = 16.0),
        (CLAIMS[3], |all| all[6].outcome.space.settled = 2.3),
        (CLAIMS[4], |all| {
            all[5].outcome.settled_write_amplification = 9.0;
        }),
    ];
    for (failing, change) in changes {
        let mut all = published();
        change(&mut all);
        for claim in CLAIMS {
            let fails = verdict(&all, claim) == Verdict::DoesNotHold;
            assert_eq!(fails, claim == failing, "{claim}, changed {failing}");
        }
    }
}

#[test]
fn what_is_simulated_is_labelled_and_stands_beside_what_is_published() {
    let section = section(&published());
    assert_eq!(section.figure, "By simulation");
    let [usual, large] = &section.tables[..] else {
        panic!("{:?}", section.tables)
    };
    for table in [usual, large] {
        assert!(table.title.ends_with("(simulated)"));
        assert!(table.rows.iter().all(|row| row.len() == table.header.len()));
    }
    assert_eq!(usual.rows[0][6..], ["about 1.20", "about 10.0"]);
    assert_eq!(usual.rows[3][6..], ["about 11.0", "-"]);
    assert_eq!(large.rows[2][6..], ["about 18.0", "-"]);
    let labels = section.plots.iter().flat_map(|plot| &plot.points);
    assert!(
        labels.clone().count() == 9 && labels.clone().all(|p| p.label.ends_with("(simulated)"))
    );
    let trie = trie_point(&published()).unwrap();
    assert_eq!((trie.across, trie.up), (11.4, 3.0));
}

/// Every point of both loads, at the paper's scale.
#[test]
fn the_papers_runs_are_simulated_at_full_scale() {
    let all = simulated().unwrap();
    let of = |updates| of_run(&all, updates).count();
    assert_eq!(
        (of(Updates::USUAL), of(Updates::LARGE)),
        (14, LARGE_POINTS.len())
    );
    for one in &all {
        let user_bytes = one.updates.full_bytes();
        assert!((one.outcome.user_bytes / user_bytes - 1.0).abs() < 0.01);
        assert!(one.outcome.space.settled > 1.0 && one.outcome.write_amplification > 1.0);
    }
    let find = |name: &str| {
        of_run(&all, Updates::USUAL)
            .find(|one| one.name == name)
            .unwrap()
    };
    let (leveled, tiered, trie) = (find(LEVELED), find(TIERED), find(TRIE));
    assert!(trie.outcome.space.mean > 2.0 * leveled.outcome.space.mean);
    assert!(tiered.outcome.write_amplification * 2.0 < leveled.outcome.write_amplification);
}

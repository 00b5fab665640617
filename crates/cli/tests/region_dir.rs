//! A store whose arenas are in a directory of their own, and that loses it.

mod support;

use std::fs;

use support::Shell;

#[test]
fn arenas_are_where_the_flag_says_and_a_lost_one_must_be_accepted() {
    let shell = Shell::new();
    let region = shell.path("region");
    let given = region.to_str().unwrap();
    shell.out(&["put", "oslo", "Norway", "--region-dir", given]);
    assert_eq!(
        shell.out(&["get", "oslo", "--region-dir", given]),
        "Norway\n"
    );
    let by_variable = shell
        .command(&["get", "oslo"])
        .env("TERRACE_REGION_DIR", given)
        .output()
        .unwrap();
    assert_eq!(by_variable.stdout, b"Norway\n");
    let stats = shell.json(&["stats", "--json", "--region-dir", given]);
    assert_eq!(stats["region_dir"], given);
    assert!(
        shell
            .out(&["verify", "--region-dir", given])
            .contains("1 write in 1 frame")
    );

    let ran = shell.run(&["get", "oslo"]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains(given), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("hint: check --region-dir"),
        "{}",
        ran.stderr
    );

    fs::remove_dir_all(&region).unwrap();
    for command in [&["get", "oslo"][..], &["put", "rome", "Italy"], &["verify"]] {
        let ran = shell.run(&[command, &["--region-dir", given]].concat());
        assert_eq!(ran.code, 3, "{}", ran.stderr);
        let said = ran.stderr + &ran.stdout;
        assert!(
            said.contains(given) && said.contains("--accept-region-loss"),
            "{said}"
        );
        assert!(!region.exists(), "{command:?} made a region");
    }
    let accept = ["--region-dir", given, "--accept-region-loss"];
    let verified = shell.out(&[&["verify"][..], &accept].concat());
    assert!(
        verified.contains("the region is lost, and accepted"),
        "{verified}"
    );
    shell.out(&[&["put", "rome", "Italy"][..], &accept].concat());
    assert_eq!(shell.out(&["scan", "--region-dir", given]), "rome\tItaly\n");
    let stats = shell.json(&["stats", "--json", "--region-dir", given]);
    assert_eq!(stats["region_losses"][0]["kept"], 0);
    assert!(
        shell
            .out(&["stats", "--region-dir", given])
            .contains("region lost")
    );
}

use proptest::prelude::*;

use super::*;
use crate::auth::testing::{HOST, hex};

/// The example of the Base Specification; the key has 32 bytes.
const EXAMPLE: &str = "ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n";
const EXAMPLE_KEY: &str = "89aeb31a874eaf84841b46736b0dfdf2ba58d30aa2a545a3e235a3521e07594c";

fn example(hash: &str) -> String {
    format!("DHHC-1:{hash}:{EXAMPLE}:")
}

#[test]
fn the_checksum_is_that_of_zlib() {
    assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    assert_eq!(crc32(b""), 0);
}

#[test]
fn a_secret_is_transformed_for_a_name() {
    // The values come from Python's hmac module.
    for (hash, key) in [
        ("00", EXAMPLE_KEY),
        (
            "01",
            "f832a35844996eef60c9348ee5668670e6c66ac90c27dd807654cac09aae414a",
        ),
        (
            "02",
            "5f16cf35b2497cd348479e4fd7e1eeb5869a823afd54c303c4ec2b7645ab8644\
             c08d13c576840dc68457ffd7d63aab26",
        ),
        (
            "03",
            "76c718782cc281510ab45390cf826c01546779f06d12c8641bd264825e0813af\
             5d3002331ecd3574a3a1e8e19e6936b9144c1975fc74f41d2d8cc0f1de46ccf3",
        ),
    ] {
        let secret = Secret::parse(&example(hash)).unwrap();
        assert_eq!(secret.key_of(HOST).as_bytes(), hex(key));
    }
}

#[test]
fn secrets_of_other_programs_are_read() {
    for (text, bytes) in [
        // The tests of nvme-cli, for the secret "pin:1234".
        (
            "DHHC-1:00:9wCYVQqDvADjGIZo6q/v2SfmXZqqkNa9TcvYu97Ly3Q/gajh:",
            32,
        ),
        // Published tests of other targets.
        (
            "DHHC-1:01:Ei7kUrD7iyrjzXDwIZ666sSPBswUk4wDjSQtodytVB5YiBru:",
            32,
        ),
        (
            "DHHC-1:02:ULMaRuJ40ui58nK4Qk5b0J89G3unbGb8mBUbt/XSrf18PBPvyL3sivZOINNh2o/fPpXbGg==:",
            48,
        ),
        (
            "DHHC-1:03:6EKZcEL86u4vzTE8sCETvskE3pLKE+qOorl9QxrRfLvfOEQ5GvqCzM41U8fFVAz1cs+T14PjSpd1J641rfeCC1x2VNg=:",
            64,
        ),
    ] {
        let secret = Secret::parse(text).unwrap();
        assert_eq!(secret.key.len(), bytes);
    }
}

#[test]
fn a_damaged_secret_is_refused() {
    let good = example("01");
    for (text, error) in [
        (String::new(), SecretError::Form),
        ("DHHC-1".into(), SecretError::Form),
        (good[..good.len() - 1].into(), SecretError::Form),
        (format!("{good}:"), SecretError::Form),
        (format!(" {good}"), SecretError::Form),
        (good.replace("DHHC-1", "DHHC-2"), SecretError::Form),
        (example("04"), SecretError::Hash),
        (example("1"), SecretError::Hash),
        (good.replace("ia6z", "ia 6z"), SecretError::Base64),
        (good.replace("aQ2n:", "aQ2:"), SecretError::Base64),
        (good.replace("aQ2n:", ":"), SecretError::Length),
        (good.replace("aQ2n:", "aQ2naQ2n:"), SecretError::Length),
        ("DHHC-1:00::".into(), SecretError::Length),
        (good.replace("ia6z", "ia6y"), SecretError::Checksum),
        (good.replace("aQ2n:", "aQ2o:"), SecretError::Checksum),
    ] {
        assert_eq!(Secret::parse(&text).unwrap_err(), error, "{text}");
    }
}

#[test]
fn a_file_is_read() {
    let (one, two) = (example("00"), example("03"));
    let text = format!("# hosts\r\n\nnqn.a {one}\n  nqn.b\t{one}  {two}\n  # end\n");
    let secrets = Secrets::parse(&text).unwrap();
    assert!(secrets.get("nqn.a").unwrap().controller.is_none());
    let both = secrets.get("nqn.b").unwrap();
    assert_eq!(
        both.controller.as_ref().unwrap().transform,
        Some(Hash::Sha512)
    );
    assert!(secrets.get("nqn.c").is_none() && !secrets.is_empty());
    assert!(Secrets::parse("# none\n").unwrap().is_empty());
}

#[test]
fn a_damaged_file_names_the_line_and_no_secret() {
    let good = example("00");
    let bad = good.replace("ia6z", "ia6y");
    let long = "n".repeat(220);
    for (line, defect) in [
        ("nqn.b".into(), LineDefect::Fields),
        (format!("nqn.b {good} {good} {good}"), LineDefect::Fields),
        (format!("{good} {good}"), LineDefect::Name),
        (format!("nqn.{long} {good}"), LineDefect::Name),
        (format!("nqn.a {good}"), LineDefect::Duplicate),
        (
            format!("nqn.b {bad}"),
            LineDefect::Host(SecretError::Checksum),
        ),
        (
            format!("nqn.b {good} {bad}"),
            LineDefect::Controller(SecretError::Checksum),
        ),
    ] {
        let text = format!("nqn.a {good}\n\n{line}\n");
        let error = Secrets::parse(&text).unwrap_err();
        assert_eq!(error, FileError { line: 3, defect });
        let printed = format!("{error} {error:?}");
        assert!(!printed.contains(&EXAMPLE[4..]), "{printed}");
    }
}

#[test]
fn no_debug_output_has_a_secret() {
    let text = format!("nqn.a {} {}\n", example("00"), example("01"));
    let printed = format!("{:?}", Secrets::parse(&text).unwrap());
    assert!(printed.contains("Secret(..)"));
    assert!(!printed.contains(EXAMPLE) && !printed.contains("137"));
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC*") {
        let _ = Secret::parse(&text);
        let _ = Secrets::parse(&text);
    }

    #[test]
    fn one_changed_character_is_refused(at in 0..58_usize, to in "[A-Za-z0-9+/:=]") {
        let good = example("00");
        let mut text = good.clone();
        // A different hash is a different secret, which no checksum covers.
        prop_assume!(at < good.len() && at != 8);
        text.replace_range(at..=at, &to);
        prop_assert_eq!(Secret::parse(&text).is_ok(), text == good);
    }
}

use clap::Parser;

use super::*;

#[derive(Parser)]
struct Typed {
    #[command(flatten)]
    asked: Plexdb,
}

fn setting(line: &str) -> Result<Setting> {
    let words = std::iter::once("plexdb").chain(line.split_whitespace());
    Setting::of(&Typed::try_parse_from(words).unwrap().asked)
}

#[test]
fn proportions_are_the_papers_at_every_scale() {
    for scale in ["0.01", "0.1", "1"] {
        let setting = setting(&format!("--scale {scale}")).unwrap();
        let volume = setting.scale * UPDATES.full_bytes();
        let data = setting.data_bytes() as f64;
        assert!((volume / data - 10.0).abs() < 0.01, "{setting:?}");
        let part = data / setting.buffer_bytes as f64;
        assert!((100.0..103.0).contains(&part), "{part}");
        assert!((setting.cache_bytes as f64 / volume - 0.05).abs() < 1e-6);
        assert_eq!(setting.settings().filter_bits_per_key, 16);
        assert!(setting.settings().direct_io);
    }
    assert_eq!(setting("").unwrap().scale, 0.1);
    let fewer = setting("--filter-bits 10").unwrap();
    assert_eq!(fewer.settings().filter_bits_per_key, 10);
}

#[test]
fn a_buffer_that_is_too_large_for_the_data_is_told() {
    let told = |line| {
        let conditions = setting(line).unwrap().conditions();
        let (_, told) = conditions
            .into_iter()
            .find(|(name, _)| name == "write buffer")
            .unwrap();
        told
    };
    assert!(
        told("--scale 0.1").contains("1/100 of the"),
        "{}",
        told("--scale 0.1")
    );
    assert!(setting("--scale 0.01").unwrap().tells());
    assert!(!setting("--tiny").unwrap().tells());
    assert!(
        told("--tiny").starts_with("64 KiB, 1/9 of the"),
        "{}",
        told("--tiny")
    );
}

#[test]
fn numbers_that_make_no_sense_are_refused() {
    for (line, what) in [
        ("--scale 0", "above 0"),
        ("--scale 1.5", "at most 1"),
        ("--scale nan", "above 0"),
        ("--repeats 0", "one repeat"),
        ("--rate 0", "--rate must be above 0"),
        ("--filter-bits 0", "from 1 to 32"),
        ("--filter-bits 33", "from 1 to 32"),
    ] {
        let error = setting(line).unwrap_err().to_string();
        assert!(error.contains(what), "{line}: {error}");
    }
}

//! Scripts of a pure function's answers, in tests/golden: lines of `measures => answer`, and others
//! between them, or behind a `#`, that are for people.

use std::path::Path;

/// Compares a crate's answers with those in the script, `least` or more; with `TERRACE_BLESS=1`
/// writes them again.
pub fn check_script(
    crate_directory: &str,
    name: &str,
    least: usize,
    answer: impl Fn(&str) -> String,
) {
    let directory = Path::new(crate_directory).join("tests/golden");
    let path = directory.join(name);
    let text = std::fs::read_to_string(&path).unwrap();
    let answered = text.lines().map(|line| match line.split_once(" => ") {
        Some((measures, _)) if !line.starts_with('#') => {
            format!("{measures} => {}\n", answer(measures))
        }
        _ => format!("{line}\n"),
    });
    let answered: String = answered.collect();
    if std::env::var_os("TERRACE_BLESS").is_some() {
        std::fs::write(&path, &answered).unwrap();
    } else {
        assert_eq!(answered, text, "{}", path.display());
    }
    assert!(text.lines().filter(|line| line.contains(" => ")).count() >= least);
}

//! Plots of a reproduction as files of their own, for documents that are not ours.

use std::fs;
use std::path::Path;

use super::plot;
use super::report::Section;
use crate::Result;
use crate::output::cannot_write;

/// Checks that images can be put there: before hours of work, not after.
pub fn check(directory: &Path) -> Result<()> {
    let path = directory.join(".try");
    let tried = fs::create_dir_all(directory).and_then(|()| fs::write(&path, []));
    tried
        .and_then(|()| fs::remove_file(&path))
        .map_err(|error| cannot_write(directory, &error))
}

/// Writes each plot that has points, named after its title.
pub fn write(directory: &Path, sections: &[Section]) -> Result<()> {
    for drawn in sections.iter().flat_map(|section| &section.plots) {
        let Some(image) = plot::image(drawn) else {
            continue;
        };
        let path = directory.join(format!("{}.svg", file_name(&drawn.title)));
        fs::write(&path, image).map_err(|error| cannot_write(&path, &error))?;
    }
    Ok(())
}

/// Words in small letters, with dashes between them.
fn file_name(title: &str) -> String {
    let lower = title.to_lowercase();
    let words = lower.split(|character: char| !character.is_ascii_alphanumeric());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::sample;

    #[test]
    fn a_plot_is_a_file_named_after_it() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path().join("plots");
        check(&directory).unwrap();
        write(&directory, &sample::reproduction().sections).unwrap();
        let files = fs::read_dir(&directory).unwrap();
        let names: Vec<_> = files.map(|file| file.unwrap().file_name()).collect();
        assert_eq!(names.len(), 1, "{names:?}");
        assert!(names[0].to_str().unwrap().ends_with(".svg"), "{names:?}");
        let below_a_file = directory.join(&names[0]).join("plots");
        let error = check(&below_a_file).unwrap_err().to_string();
        assert!(error.contains("cannot write"), "{error}");
    }

    #[test]
    fn a_name_has_letters_digits_and_dashes() {
        assert_eq!(
            file_name("Written, and space (20 GB)"),
            "written-and-space-20-gb"
        );
    }
}

//! Names that are near to one that is no option's.

use terrace::Result;

use super::of_store;

/// The largest number of names.
const MAX_NAMES: usize = 4;

/// Returns names of options that are near to a name which is none: first those that have most of its
/// words.
///
/// # Errors
/// As [`of_store`].
pub fn near(name: &str) -> Result<Vec<&'static str>> {
    let typed = name.to_lowercase();
    let options = of_store()?;
    let mut counted: Vec<(usize, &'static str)> = options
        .iter()
        .map(|option| (shared_words(&typed, option.name), option.name))
        .filter(|&(shared, _)| shared > 0)
        .collect();
    counted.sort_by_key(|&(shared, _)| std::cmp::Reverse(shared));
    Ok(counted
        .into_iter()
        .map(|(_, name)| name)
        .take(MAX_NAMES)
        .collect())
}

/// Returns the number of typed words that begin a word of a name or have one as their beginning.
fn shared_words(typed: &str, name: &str) -> usize {
    let of_name = words(name);
    let begins = |word: &&str| {
        let mut names = of_name.iter();
        names.any(|name| name.starts_with(*word) || word.starts_with(*name))
    };
    words(typed).iter().filter(|word| begins(word)).count()
}

/// Returns the words of a name that have three letters or more.
fn words(name: &str) -> Vec<&str> {
    let words = name.split(|c: char| !c.is_alphanumeric());
    words.filter(|word| word.len() > 2).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_share_most_words_come_first() {
        let arenas = near("arena-size").unwrap();
        assert_eq!(arenas.first(), Some(&"arena_bytes"));
        let buffer = near("buffer.share").unwrap();
        assert_eq!(buffer.first(), Some(&"read_buffer.share_percent"));
        assert!(near("xyzzy").unwrap().is_empty());
    }
}

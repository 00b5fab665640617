//! The habit that docs/english.md names first: a clause where a noun belongs ("What is read is pinned").
//! Its words are counted in comments and documents.

use std::path::Path;

use super::texts::tracked;

/// Words that begin such a clause, and are rare in sentences without one.
const CLAUSE_WORDS: [&str; 4] = ["what", "who", "whatever", "whoever"];

/// Words, and those of clauses among them.
#[derive(Default, Debug, PartialEq)]
struct Tally {
    words: usize,
    clauses: usize,
}

impl Tally {
    fn add(&mut self, text: &str) {
        let is_of_word = |c: char| c.is_ascii_alphabetic() || c == '\'' || c == '-';
        let words = text
            .split(|c| !is_of_word(c))
            .filter(|word| !word.is_empty());
        for word in words {
            self.words += 1;
            let is_clause = CLAUSE_WORDS
                .iter()
                .any(|clause| word.eq_ignore_ascii_case(clause));
            self.clauses += usize::from(is_clause);
        }
    }

    /// Adds the comments of a source that have lines of their own.
    fn add_comments(&mut self, source: &str) {
        let lines = source.lines().map(str::trim_start);
        for comment in lines.filter_map(|line| line.strip_prefix("//")) {
            self.add(comment);
        }
    }
}

/// Returns the words of clauses in 10,000 words of all sources and documents that git knows.
pub fn clause_words_per_10_000(root: &Path) -> Result<usize, String> {
    let mut tally = Tally::default();
    for (name, text) in tracked(root, &["*.rs", "*.md"])? {
        match name.ends_with(".rs") {
            true => tally.add_comments(&text),
            false => tally.add(&text),
        }
    }
    match tally.words {
        0 => Err("`git ls-files` lists no source and no document".into()),
        words => Ok((tally.clauses * 10_000).div_ceil(words)),
    }
}

/// Returns the reason why there are too many. A rate rises and falls with each page: there is no lower
/// limit.
pub fn refused(clause_words: usize, limit: usize) -> Vec<String> {
    let refused = (clause_words > limit).then(|| {
        format!("{clause_words} of 10,000 words are \"what\" or \"who\", the limit is {limit}: see docs/english.md")
    });
    refused.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_count_and_code_does_not() {
        let mut tally = Tally::default();
        tally.add_comments(
            "//! What is read is pinned.\nlet what = who();\n    // Readers pin it, whatever.\n",
        );
        let wanted = Tally {
            words: 9,
            clauses: 2,
        };
        assert_eq!(tally, wanted);
        tally.add("Who waits?");
        assert_eq!((tally.words, tally.clauses), (11, 3));
        assert_eq!((refused(8, 8).len(), refused(9, 8).len()), (0, 1));
    }
}

//! The length of sentences in ARCHITECTURE.md and in the documentation of the engine's crate. Each sentence
//! has one idea (docs/english.md), and long ones rarely do.

use std::path::Path;

use super::texts::tracked;

/// A sentence above this is a long one.
const MAX_WORDS: usize = 25;

/// Sentences and their words.
#[derive(Default, Debug, PartialEq)]
pub struct Sentences {
    pub count: usize,
    pub words: usize,
    /// Those of more than [`MAX_WORDS`] words, with their places.
    pub long: Vec<(String, usize)>,
}

impl Sentences {
    /// Reads those that the limits are about.
    pub fn of(root: &Path) -> Result<Self, String> {
        let mut sentences = Sentences::default();
        for (name, text) in tracked(root, &["ARCHITECTURE.md", "crates/terrace/src/*.rs"])? {
            match name.ends_with(".rs") {
                true => sentences.add(&name, documentation(&text)),
                false => sentences.add(&name, text.lines().map(str::to_string)),
            }
        }
        match sentences.count {
            0 => Err("`git ls-files` lists no sentence".into()),
            _ => Ok(sentences),
        }
    }

    /// Returns the words of a sentence on average, rounded up.
    pub fn mean_words(&self) -> usize {
        self.words.div_ceil(self.count.max(1))
    }

    /// Adds the sentences of lines of Markdown. Code, tables and headings are none.
    fn add(&mut self, place: &str, lines: impl Iterator<Item = String>) {
        let (mut is_code, mut paragraph) = (false, String::new());
        for line in lines {
            let line = line.trim();
            let is_fence = line.starts_with("```");
            is_code ^= is_fence;
            let is_prose = !is_code && !is_fence && !line.starts_with(['|', '#', '<']);
            let is_item = line.starts_with("- ") || line.starts_with("* ");
            if !is_prose || is_item || line.is_empty() {
                self.add_paragraph(place, &std::mem::take(&mut paragraph));
            }
            if is_prose {
                paragraph.push_str(line.trim_start_matches(['-', '*']));
                paragraph.push(' ');
            }
        }
        self.add_paragraph(place, &paragraph);
    }

    fn add_paragraph(&mut self, place: &str, paragraph: &str) {
        let (mut words, mut last) = (0, "");
        for word in paragraph.split_whitespace() {
            // A dash or a number of a list is no word.
            words += usize::from(word.contains(|c: char| c.is_alphabetic()));
            last = word;
            if word
                .trim_end_matches(['"', ')', '*', '`'])
                .ends_with(['.', '?', '!', ':'])
            {
                self.add_sentence(place, std::mem::take(&mut words), last);
            }
        }
        self.add_sentence(place, words, last);
    }

    fn add_sentence(&mut self, place: &str, words: usize, last: &str) {
        if words == 0 {
            return;
        }
        self.count += 1;
        self.words += words;
        if words > MAX_WORDS {
            self.long.push((format!("{place}: ... {last}"), words));
        }
    }

    /// Returns the reasons why they are too long.
    pub fn refused(&self, max_mean_words: usize, max_long: usize) -> Vec<String> {
        let mean = (self.mean_words() > max_mean_words).then(|| {
            let mean = self.mean_words();
            format!("a sentence has {mean} words on average, the limit is {max_mean_words}")
        });
        let long = (self.long.len() != max_long).then(|| {
            let count = self.long.len();
            format!("{count} sentences have more than {MAX_WORDS} words, the limit is {max_long}")
        });
        mean.into_iter().chain(long).collect()
    }
}

/// Returns the documentation in a source, with an empty line where one piece ends.
fn documentation(source: &str) -> impl Iterator<Item = String> {
    source.lines().map(|line| {
        let line = line.trim_start();
        let text = line.strip_prefix("///").or(line.strip_prefix("//!"));
        text.unwrap_or_default().to_string()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentences(text: &str) -> Sentences {
        let mut sentences = Sentences::default();
        sentences.add("a.md", text.lines().map(str::to_string));
        sentences
    }

    #[test]
    fn sentences_end_with_their_marks_and_their_paragraphs() {
        let found =
            sentences("# Head\n\nOne two. Three `a.b`\nfour (five!) Six\n\n- seven\n- 8 - nine\n");
        assert_eq!((found.count, found.words), (5, 9));
        assert_eq!(found.mean_words(), 2);
    }

    #[test]
    fn code_and_tables_are_no_sentences() {
        let found = sentences("| a | b |\n```rust\nlet x = 1. ;\n```\nOne.\n");
        assert_eq!((found.count, found.words), (1, 1));
    }

    #[test]
    fn long_ones_are_counted_and_the_count_is_held() {
        let long = "word ".repeat(26);
        let found = sentences(&format!("{long}end.\nShort."));
        assert_eq!(found.long, [("a.md: ... end.".to_string(), 27)]);
        assert_eq!(found.mean_words(), 14);
        assert!(found.refused(14, 1).is_empty());
        assert_eq!(found.refused(13, 1).len(), 1);
        assert_eq!(
            (found.refused(14, 0).len(), found.refused(14, 2).len()),
            (1, 1)
        );
    }

    #[test]
    fn documentation_is_read_and_code_is_not() {
        let source = "//! Head.\nlet x = \"No.\"; // No.\n    /// Two words.\nfn f() {}\n";
        let mut found = Sentences::default();
        found.add("a.rs", documentation(source));
        assert_eq!((found.count, found.words), (2, 3));
    }
}

//! The prose of a file: paragraphs of comments and of Markdown, their sentences and words. Headings, tables, addresses
//! of links and code are left out.

/// Consecutive lines of prose.
pub(super) struct Paragraph {
    /// The number of the first line, from one.
    pub(super) line: usize,
    /// The lines, joined by spaces.
    pub(super) text: String,
}

/// The paragraphs of a Rust file's comments, without comments that follow code on their line.
pub(super) fn comments(file: &str) -> Vec<Paragraph> {
    paragraphs(file.lines().map(|line| {
        let comment = line.trim_start().strip_prefix("//")?;
        Some(comment.strip_prefix(['/', '!']).unwrap_or(comment))
    }))
}

/// The paragraphs of a Markdown file.
pub(super) fn markdown(file: &str) -> Vec<Paragraph> {
    paragraphs(file.lines().map(Some))
}

/// The paragraphs of lines, where `None` is a line without prose.
fn paragraphs<'a>(lines: impl Iterator<Item = Option<&'a str>>) -> Vec<Paragraph> {
    let mut paragraphs: Vec<Paragraph> = Vec::new();
    let mut is_open = false;
    let mut in_code = false;
    for (index, line) in lines.enumerate() {
        let Some(line) = line.map(str::trim) else {
            (is_open, in_code) = (false, false);
            continue;
        };
        if line.starts_with("```") {
            (is_open, in_code) = (false, !in_code);
            continue;
        }
        if in_code || line.is_empty() || line.starts_with(['#', '|', '<']) {
            is_open = false;
            continue;
        }
        let item = list_item(line);
        match paragraphs.last_mut() {
            Some(last) if is_open && item.is_none() => {
                last.text.push(' ');
                last.text.push_str(line);
            }
            _ => paragraphs.push(Paragraph { line: index + 1, text: item.unwrap_or(line).to_owned() }),
        }
        is_open = true;
    }
    paragraphs
}

/// The text of a list's item, without its bullet or number.
fn list_item(line: &str) -> Option<&str> {
    let without_number = line.trim_start_matches(|character: char| character.is_ascii_digit());
    let numbered = without_number.strip_prefix(". ").filter(|_| without_number.len() < line.len());
    line.strip_prefix("- ").or_else(|| line.strip_prefix("* ")).or(numbered)
}

/// The sentences of a paragraph. A sentence ends before a capital letter, code or a link.
pub(super) fn sentences(paragraph: &str) -> Vec<&str> {
    let mut sentences = Vec::new();
    let mut start = 0;
    for (space, _) in paragraph.match_indices(' ') {
        let (before, after) = (&paragraph[..space], &paragraph[space + 1..]);
        let ends =
            before.trim_end_matches(['*', '"', ')', '`']).ends_with(['.', '!', '?']) && !before.ends_with("e.g.");
        let begins =
            after.starts_with(|first: char| first.is_uppercase() || matches!(first, '`' | '[' | '*' | '"' | '('));
        if ends && begins && space > start {
            sentences.push(&paragraph[start..space]);
            start = space + 1;
        }
    }
    sentences.push(&paragraph[start..]);
    sentences
}

/// The words of a sentence in lower case, without punctuation. Code between backticks is one word, as is a quotation.
pub(super) fn words(sentence: &str) -> Vec<String> {
    let mut prose = replace_between(&replace_between(sentence, '`', "code"), '"', "quotation");
    // The address of a link.
    while let Some(start) = prose.find("](") {
        let end = prose[start..].find(')').map_or(prose.len(), |end| start + end);
        prose.replace_range(start..end, "");
    }
    let is_part_of_word =
        |character: char| character.is_alphanumeric() || matches!(character, '_' | '\'' | '-' | '/' | '.');
    prose
        .split_whitespace()
        .map(|word| word.trim_matches(|character| !is_part_of_word(character)).trim_end_matches('.').to_lowercase())
        .filter(|word| word.contains(char::is_alphanumeric))
        .collect()
}

/// Replaces the text between each pair of delimiters.
fn replace_between(text: &str, delimiter: char, replacement: &str) -> String {
    text.split(delimiter).enumerate().map(|(index, part)| if index % 2 == 0 { part } else { replacement }).collect()
}

#[cfg(test)]
mod tests {
    use super::{comments, markdown, sentences, words};

    #[test]
    fn comments_become_paragraphs() {
        let file = "//! First line\n//! and second.\n\n/// - an item\n/// - another\n/// ```\n/// code\n/// ```\nfn f() {} // not this\n";
        let found: Vec<_> = comments(file).into_iter().map(|paragraph| (paragraph.line, paragraph.text)).collect();
        let expected = [(1, "First line and second."), (4, "an item"), (5, "another")];
        assert_eq!(found, expected.map(|(line, text)| (line, text.to_owned())));
    }

    #[test]
    fn headings_and_tables_are_no_prose() {
        let file = "# What is here\n\n| what is |\n|---|\n\nText.\n1. One item\n";
        let found: Vec<_> = markdown(file).into_iter().map(|paragraph| paragraph.text).collect();
        assert_eq!(found, ["Text.", "One item"]);
    }

    #[test]
    fn sentences_end_before_capitals_and_code() {
        assert_eq!(
            sentences("It is 1.5 MB, e.g. so. `Code` begins. And (so) on."),
            ["It is 1.5 MB, e.g. so.", "`Code` begins.", "And (so) on."]
        );
    }

    #[test]
    fn code_is_a_word_and_addresses_are_none() {
        assert_eq!(
            words("See [the docs](docs/a b.md), `let a = 1` and kube-apiserver."),
            ["see", "the", "docs", "code", "and", "kube-apiserver"]
        );
    }
}

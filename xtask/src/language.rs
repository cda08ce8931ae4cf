//! `cargo xtask language [PATH ...]`: finds sentences in comments and documents that break the rules of
//! CONTRIBUTING.md. Such a sentence has a pronoun or a clause where a noun belongs ("those of clients", "what was
//! written"), or more than 25 words.

mod prose;

use std::path::{Path, PathBuf};

use crate::{print_status, root};
use prose::Paragraph;

/// The maximum number of words in a sentence.
const MAX_WORDS: usize = 25;
/// The folders and files that are checked, from the root of the repository.
const CHECKED: &[&str] = &[
    "crates",
    "docs",
    "examples",
    "bench",
    "compare",
    "packages",
    "xtask",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CODE_OF_CONDUCT.md",
    "CONTRIBUTING.md",
    "README.md",
    "SECURITY.md",
];
/// Folders of generated files and of foreign files.
const SKIPPED_FOLDERS: &[&str] = &["target", "node_modules", ".venv", "build", "dist"];

/// Words after which "what" begins a clause that stands for a noun.
const BEFORE_WHAT: &[&str] = &[
    "of", "in", "by", "for", "with", "from", "to", "than", "on", "at", "as", "after", "before", "and", "or", "until",
    "while", "because", "if", "when", "that", "but", "about", "like", "into", "between", "beside", "except", "without",
];
/// Words after "what" with which the clause stands for a noun.
const AFTER_WHAT: &[&str] = &["is", "are", "was", "were", "has", "have", "had"];
/// Words after "those", "one" and "ones" with which the pronoun stands for a noun.
const AFTER_PRONOUN: &[&str] =
    &["that", "which", "who", "whose", "whom", "with", "without", "in", "from", "at", "for", "to", "by", "on"];

/// Checks the given paths, or all folders and files of [`CHECKED`].
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let paths: Vec<PathBuf> = match arguments {
        [] => CHECKED.iter().map(|path| root().join(path)).collect(),
        given => given.iter().map(PathBuf::from).collect(),
    };
    let mut files = Vec::new();
    for path in paths {
        collect_files(&path, &mut files)?;
    }
    files.sort();
    let mut count = 0;
    for file in &files {
        let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
        let is_rust = file.extension().is_some_and(|extension| extension == "rs");
        let paragraphs = if is_rust { prose::comments(&text) } else { prose::markdown(&text) };
        for Paragraph { line, text } in &paragraphs {
            for sentence in prose::sentences(text) {
                for problem in problems(sentence) {
                    count += 1;
                    let name = file.strip_prefix(root()).unwrap_or(file).display();
                    print_status(&format!("{name}:{line}: {problem}: {sentence}\n"));
                }
            }
        }
    }
    match count {
        0 => Ok(()),
        _ => Err(format!("{count} findings; CONTRIBUTING.md has the rules")),
    }
}

fn collect_files(path: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let describe = |error: std::io::Error| format!("{}: {error}", path.display());
    if path.is_dir() {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if SKIPPED_FOLDERS.contains(&name.as_ref()) {
            return Ok(());
        }
        for entry in std::fs::read_dir(path).map_err(describe)? {
            collect_files(&entry.map_err(describe)?.path(), files)?;
        }
    } else if path.extension().is_some_and(|extension| extension == "rs" || extension == "md") {
        files.push(path.to_path_buf());
    }
    Ok(())
}

/// The problems of a sentence.
fn problems(sentence: &str) -> Vec<String> {
    let words = prose::words(sentence);
    let mut problems = Vec::new();
    if words.len() > MAX_WORDS {
        problems.push(format!("{} words", words.len()));
    }
    let is_question = sentence.trim_end().ends_with('?');
    for (position, word) in words.iter().enumerate() {
        let before = position.checked_sub(1).and_then(|before| words.get(before)).map_or("", String::as_str);
        let after = words.get(position + 1).map_or("", String::as_str);
        let stands_for_noun = match word.as_str() {
            "that" => after == "of",
            "those" => after == "of" || AFTER_PRONOUN.contains(&after),
            "one" | "ones" => AFTER_PRONOUN[..6].contains(&after),
            "what" if is_question => false,
            "what" => position == 0 || BEFORE_WHAT.contains(&before) || AFTER_WHAT.contains(&after),
            "whoever" => true,
            _ => false,
        };
        if stands_for_noun {
            let quoted =
                [before, word, after].into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
            problems.push(format!("{quoted:?}"));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::problems;

    #[test]
    fn pronouns_and_clauses_that_stand_for_nouns_are_found() {
        for sentence in [
            "The locks are those of parking_lot.",
            "Its revision is newer than that of the cache.",
            "What was written is read again.",
            "It depends on what the client sends.",
            "A write that meets what is stored fails.",
            "The newest one that is served wins.",
            "Whoever reads first updates the index.",
        ] {
            assert_eq!(problems(sentence).len(), 1, "{sentence}");
        }
    }

    #[test]
    fn nouns_questions_and_indirect_questions_are_accepted() {
        for sentence in [
            "The locks of `parking_lot` do not poison.",
            "What does a create cost?",
            "Facts say what a level requires.",
            "One of the servers leads.",
            "Those servers lead.",
        ] {
            assert_eq!(problems(sentence), Vec::<String>::new(), "{sentence}");
        }
    }

    #[test]
    fn long_sentences_are_found() {
        let words = |count: usize| "word ".repeat(count);
        assert!(problems(&words(25)).is_empty());
        assert_eq!(problems(&words(26)), ["26 words"]);
    }
}

//! Tables of scenarios for tests: text files that have the expected outcome below each scenario.
//!
//! ```
//! let table = "# Addition.\n\n1 + 1\n= 2\n\n1 +\n! incomplete\n";
//! pintle_scenarios::check(table, &['=', '!'], |lines| match lines[0] {
//!     "1 + 1" => vec!["= 2".to_owned()],
//!     _ => vec!["! incomplete".to_owned()],
//! });
//! ```

use std::fs;
use std::path::Path;

/// Checks all scenarios of a table. Empty lines separate scenarios. The lines of the outcome begin with one of the
/// marks, and `#` begins a title or a comment. `run` gets the other lines and returns the lines of the actual outcome.
///
/// # Panics
/// An outcome differs. The message has all differences.
#[track_caller]
pub fn check(table: &str, marks: &[char], run: impl Fn(&[&str]) -> Vec<String>) {
    let mut failures = Vec::new();
    let mut count = 0;
    for scenario in table.split("\n\n") {
        let lines = scenario.lines().filter(|line| !line.is_empty());
        let (expect, lines): (Vec<&str>, Vec<&str>) = lines.partition(|line| line.starts_with(marks));
        let (_, lines): (Vec<&str>, Vec<&str>) = lines.into_iter().partition(|line| line.starts_with('#'));
        if lines.is_empty() {
            assert!(expect.is_empty(), "an outcome without a scenario: {scenario}");
            continue;
        }
        count += 1;
        let found = run(&lines);
        if found != expect {
            failures.push(format!("{scenario}\n  found\n{}\n", found.join("\n")));
        }
    }
    assert!(failures.is_empty(), "{} of {count} scenarios differ:\n{}", failures.len(), failures.join("\n"));
    assert!(count > 0, "the table has no scenarios");
}

/// Compares a file with the text that `run` makes of it: the same scenarios with their actual outcomes. With
/// `UPDATE_EXPECT` in the environment, this text replaces the file.
///
/// # Panics
/// The text differs, or the file is not readable. The message has the first difference.
#[track_caller]
pub fn check_file(path: impl AsRef<Path>, run: impl FnOnce(&str) -> String) {
    let path = path.as_ref();
    let table = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let found = run(&table);
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        return fs::write(path, found).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
    let lines = table.lines().zip(found.lines()).enumerate();
    for (number, (expect, found)) in lines {
        assert_eq!(found, expect, "{}:{}", path.display(), number + 1);
    }
    assert!(found == table, "{}: {} bytes expected, {} found", path.display(), table.len(), found.len());
}

/// Like [`check_file`], for all files of a folder.
///
/// # Panics
/// See [`check_file`]. The folder is empty.
#[track_caller]
pub fn check_folder(path: impl AsRef<Path>, mut run: impl FnMut(&str) -> String) {
    let path = path.as_ref();
    let mut files: Vec<_> = fs::read_dir(path)
        .and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect())
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(!files.is_empty(), "{} is empty", path.display());
    files.sort();
    files.iter().for_each(|file| check_file(file, &mut run));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "1 of 2 scenarios differ")]
    fn a_wrong_outcome_is_noticed() {
        check("a\n= 1\n\nb\n= 2\n", &['='], |_| vec!["= 1".to_owned()]);
    }

    #[test]
    #[should_panic(expected = "lib.rs:1")]
    fn a_wrong_line_is_noticed() {
        check_file(concat!(env!("CARGO_MANIFEST_DIR"), "/src/lib.rs"), |text| text.replacen("//!", "//", 1));
    }
}

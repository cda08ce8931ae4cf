//! The source text of an expression, locations in it, and issues reported about it. Locations count code points, and
//! reports have cel-go's format (upstream: cel-go `common/source.go` and `common/errors.go`).

use std::fmt;

/// The maximum length of a line that a report quotes.
const MAX_SNIPPET_LENGTH: usize = 16_384;
/// The maximum number of issues that are stored; further issues are only counted.
const MAX_ISSUES: usize = 100;

/// The text of an expression, addressed by code points.
#[derive(Clone, Debug)]
pub struct Source {
    chars: Vec<char>,
    /// The start offsets of the second and later lines.
    lines: Vec<u32>,
}

impl Source {
    /// Creates a source from a text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let chars: Vec<char> = text.chars().collect();
        let lines = chars.iter().zip(1..).filter(|(c, _)| **c == '\n').map(|(_, after)| after).collect();
        Self { chars, lines }
    }

    /// The code points.
    #[must_use]
    pub fn chars(&self) -> &[char] {
        &self.chars
    }

    /// The line and column of an offset.
    #[must_use]
    pub fn location(&self, offset: u32) -> Location {
        let before = self.lines.partition_point(|start| *start <= offset);
        let start = if before == 0 { 0 } else { self.lines[before - 1] };
        Location { line: before as i32 + 1, column: (offset - start) as i32 }
    }

    /// The text of a line, counted from 1, unless it is too long to be quoted.
    fn snippet(&self, line: i32) -> Option<String> {
        let index = usize::try_from(line).ok()?.checked_sub(1)?;
        if self.chars.is_empty() || index > self.lines.len() {
            return None;
        }
        let start = if index == 0 { 0 } else { self.lines[index - 1] as usize };
        let end = self.lines.get(index).map_or(self.chars.len(), |next| *next as usize - 1);
        if end - start > MAX_SNIPPET_LENGTH {
            return None;
        }
        Some(self.chars[start..end].iter().collect::<String>()).filter(|snippet| snippet.len() <= MAX_SNIPPET_LENGTH)
    }
}

/// A location: the line counted from 1, the column from 0. [`Location::NONE`] stands for the whole expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    /// The line, from 1; -1 for none.
    pub line: i32,
    /// The column in code points, from 0; -1 for none.
    pub column: i32,
}

impl Location {
    /// The whole expression.
    pub const NONE: Location = Location { line: -1, column: -1 };
}

/// An error in an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// The location.
    pub location: Location,
    /// The message, in cel-go's words.
    pub message: String,
}

/// The errors in an expression. `Display` writes cel-go's report: `ERROR: <input>:1:5: undeclared reference to 'x' (in
/// container '')`, then the line and a marker under the column.
#[derive(Clone, Debug)]
pub struct Issues {
    source: Source,
    issues: Vec<Issue>,
    count: usize,
}

impl Issues {
    /// An empty list of issues.
    #[must_use]
    pub fn new(source: Source) -> Self {
        Self { source, issues: Vec::new(), count: 0 }
    }

    /// Adds an issue.
    pub fn report(&mut self, location: Location, message: impl Into<String>) {
        self.count += 1;
        if self.count <= MAX_ISSUES {
            self.issues.push(Issue { location, message: message.into() });
        }
    }

    /// True if there are no issues.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The stored issues, in the order in which they were reported.
    #[must_use]
    pub fn all(&self) -> &[Issue] {
        &self.issues
    }
}

impl fmt::Display for Issues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sorted: Vec<&Issue> = self.issues.iter().collect();
        sorted.sort_by_key(|issue| issue.location);
        for (i, issue) in sorted.into_iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            let Location { line, column } = issue.location;
            write!(f, "ERROR: <input>:{line}:{}: {}", column + 1, issue.message)?;
            if let Some(snippet) = self.source.snippet(line) {
                write_marker(f, &snippet, column)?;
            }
        }
        if self.count > MAX_ISSUES {
            write!(f, "\n{} more errors were truncated", self.count - MAX_ISSUES)?;
        }
        Ok(())
    }
}

impl std::error::Error for Issues {}

/// Writes the line and, below it, dots up to the column. Non-ASCII characters get full-width dots.
fn write_marker(f: &mut fmt::Formatter<'_>, snippet: &str, column: i32) -> fmt::Result {
    write!(f, "\n | {}\n | ", snippet.replace('\t', " "))?;
    let mut chars = snippet.chars();
    for c in chars.by_ref().take(usize::try_from(column).unwrap_or(0)) {
        f.write_str(if c.is_ascii() { "." } else { "\u{ff0e}" })?;
    }
    f.write_str(if chars.next().is_none_or(|c| c.is_ascii()) { "^" } else { "\u{ff3e}" })
}

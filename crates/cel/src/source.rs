//! The text of an expression, places in it, and what is reported about it. Places are counted in code points, as
//! cel-go counts them, and reports are written as cel-go writes them.

use std::fmt;

/// A longer line is not repeated in a report.
const LONGEST_SNIPPET: usize = 16_384;
/// How many reports are kept; the rest is counted.
const MOST_ISSUES: usize = 100;

/// The text of an expression, addressed by code points.
#[derive(Clone, Debug)]
pub struct Source {
    chars: Vec<char>,
    /// Where the second and later lines begin.
    lines: Vec<u32>,
}

impl Source {
    /// Takes a text in.
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
        let before = self.lines.partition_point(|begin| *begin <= offset);
        let begin = if before == 0 { 0 } else { self.lines[before - 1] };
        Location { line: before as i32 + 1, column: (offset - begin) as i32 }
    }

    /// The text of a line, counted from 1.
    fn snippet(&self, line: i32) -> Option<String> {
        let index = usize::try_from(line).ok()?.checked_sub(1)?;
        if self.chars.is_empty() || index > self.lines.len() {
            return None;
        }
        let begin = if index == 0 { 0 } else { self.lines[index - 1] as usize };
        let end = self.lines.get(index).map_or(self.chars.len(), |next| *next as usize - 1);
        Some(self.chars[begin..end].iter().collect())
    }
}

/// A place: the line counted from 1, the column from 0. [`Location::NONE`] stands for the whole expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    /// The line, from 1; -1 where there is none.
    pub line: i32,
    /// The column in code points, from 0; -1 where there is none.
    pub column: i32,
}

impl Location {
    /// No particular place.
    pub const NONE: Location = Location { line: -1, column: -1 };
}

/// One thing that is wrong with an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// Where.
    pub location: Location,
    /// What, in cel-go's words.
    pub message: String,
}

/// What is wrong with an expression. Its `Display` is the report that users of Kubernetes know:
/// `ERROR: <input>:1:5: undeclared reference to 'x' (in container '')`, the line, and a mark under the place.
#[derive(Clone, Debug)]
pub struct Issues {
    source: Source,
    issues: Vec<Issue>,
    count: usize,
}

impl Issues {
    /// No issues yet.
    #[must_use]
    pub fn new(source: Source) -> Self {
        Self { source, issues: Vec::new(), count: 0 }
    }

    /// Adds one.
    pub fn report(&mut self, location: Location, message: impl Into<String>) {
        self.count += 1;
        if self.count <= MOST_ISSUES {
            self.issues.push(Issue { location, message: message.into() });
        }
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Those that are kept, in the order in which they were found.
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
            if let Some(snippet) = self.source.snippet(line).filter(|snippet| snippet.len() <= LONGEST_SNIPPET) {
                write_mark(f, &snippet, column)?;
            }
        }
        if self.count > MOST_ISSUES {
            write!(f, "\n{} more errors were truncated", self.count - MOST_ISSUES)?;
        }
        Ok(())
    }
}

impl std::error::Error for Issues {}

/// The line, and under it dots up to the place. Characters outside of ASCII get dots of their width.
fn write_mark(f: &mut fmt::Formatter<'_>, snippet: &str, column: i32) -> fmt::Result {
    write!(f, "\n | {}\n | ", snippet.replace('\t', " "))?;
    let mut chars = snippet.chars();
    for c in chars.by_ref().take(usize::try_from(column).unwrap_or(0)) {
        f.write_str(if c.is_ascii() { "." } else { "\u{ff0e}" })?;
    }
    f.write_str(if chars.next().is_none_or(|c| c.is_ascii()) { "^" } else { "\u{ff3e}" })
}

//! Lines of data files that hold in some versions.

use crate::{Minor, MinorRange};

/// The word before the range of a line.
const WORD: &str = " in=";

/// The number of levels of lines.
const LEVELS: usize = 4;

/// A line of a data file that holds in a version.
#[derive(Clone, Copy, Debug)]
pub struct DataLine<'a> {
    /// Its number, counted from 1.
    pub number: usize,
    /// The line without its range.
    pub text: &'a str,
    /// The versions in which it holds, with the lines to which it belongs.
    pub versions: MinorRange,
}

/// The lines of a data file that hold in a version, without their ranges. A line that does not hold in all versions ends
/// with its range: ` in=1.36..`. Empty lines and comments are left out.
///
/// A line belongs to the last line of each smaller level before it, and holds only where they do. There are at most four
/// levels, from 0 on. A range that is not one stays a part of the line, so that the parser of the file reports it.
pub fn nested_lines(text: &str, minor: Minor, level: fn(&str) -> usize) -> impl Iterator<Item = DataLine<'_>> {
    let mut ranges = [MinorRange::ALL; LEVELS];
    let lines = text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let lines = lines.map(move |(index, line)| {
        let (text, range) = split_range(line);
        let level = level(text).min(LEVELS - 1);
        ranges[level] = range;
        let versions = ranges[..=level].iter().fold(MinorRange::ALL, |all, range| all.intersection(*range));
        DataLine { number: index + 1, text, versions }
    });
    lines.filter(move |line| line.versions.contains(minor))
}

/// The lines of a data file without levels that hold in a version. See [`nested_lines`].
pub fn lines_of(text: &str, minor: Minor) -> impl Iterator<Item = DataLine<'_>> {
    nested_lines(text, minor, |_| 0)
}

/// Splits a line of a data file from its range.
#[must_use]
pub fn split_range(line: &str) -> (&str, MinorRange) {
    let parts = line.rsplit_once(WORD).and_then(|(rest, range)| Some((rest, range.parse().ok()?)));
    parts.unwrap_or((line, MinorRange::ALL))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_chosen_by_their_ranges() {
        let text = "# comment\n\na b in=1.36..\n  c\nd in=..1.35\ne in=what\nf in=1.36 in=1.37\n";
        let lines = |minor| -> Vec<(usize, &str)> {
            lines_of(text, Minor::new(minor)).map(|line| (line.number, line.text)).collect()
        };
        assert_eq!(lines(36), [(3, "a b"), (4, "  c"), (6, "e in=what")]);
        assert_eq!(lines(35), [(4, "  c"), (5, "d"), (6, "e in=what")]);
    }

    #[test]
    fn lines_hold_where_those_hold_to_which_they_belong() {
        let text = "a in=1.36..\n b\n b2 in=1.37..\n  c\n b3 in=..1.36\nd\n e\n";
        let lines = |minor| -> String {
            let level = |line: &str| line.len() - line.trim_start().len();
            let lines = nested_lines(text, Minor::new(minor), level);
            lines.map(|line| format!("{}({})", line.text.trim_start(), line.versions)).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(lines(35), "d(..) e(..)");
        assert_eq!(lines(36), "a(1.36..) b(1.36..) b3(1.36) d(..) e(..)");
        assert_eq!(lines(37), "a(1.36..) b(1.36..) b2(1.37..) c(1.37..) d(..) e(..)");
    }
}

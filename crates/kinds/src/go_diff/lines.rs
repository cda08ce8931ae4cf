//! Unified diffs of lines, as Python's `difflib` and its port to Go (`github.com/pmezard/go-difflib`) make them. Which
//! of several possible differences is shown depends on its search for the longest common blocks.

use std::collections::HashMap;
use std::fmt::Write;

/// The number of unchanged lines around a change.
const CONTEXT: usize = 3;
/// From this number of lines on, lines that are frequent are not looked for.
const POPULAR_FROM: usize = 200;
/// The maximum number of steps of the search: old lines that are looked up, and pairs of equal lines. Beyond it, all
/// lines that are left are shown as removed and added, so that no request takes long.
const MAX_STEPS: usize = 20_000_000;

/// A block of lines that both sides have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Block {
    old: usize,
    new: usize,
    length: usize,
}

/// A part of both sides that is equal or different.
#[derive(Clone, Copy, Debug)]
struct Part {
    is_equal: bool,
    old: (usize, usize),
    new: (usize, usize),
}

impl Part {
    /// The first unchanged lines of the part.
    fn head(self) -> Self {
        let end = |(start, end): (usize, usize)| (start, end.min(start + CONTEXT));
        Self { old: end(self.old), new: end(self.new), ..self }
    }

    /// The last unchanged lines of the part.
    fn tail(self) -> Self {
        let start = |(start, end): (usize, usize)| (start.max(end.saturating_sub(CONTEXT)), end);
        Self { old: start(self.old), new: start(self.new), ..self }
    }
}

/// Finds the blocks.
struct Matcher<'l> {
    old: &'l [&'l str],
    new: &'l [&'l str],
    /// Where lines are among the new ones.
    positions: Vec<Vec<usize>>,
    /// The old lines that are among the new ones, each with the index of its positions.
    common: Vec<(usize, usize)>,
    steps: usize,
    /// The lengths of the blocks that end at the previous old line, by the end among the new lines, shifted by one.
    lengths: Vec<usize>,
}

impl<'l> Matcher<'l> {
    fn new(old: &'l [&'l str], new: &'l [&'l str]) -> Self {
        let mut ids: HashMap<&str, usize> = HashMap::new();
        let mut positions: Vec<Vec<usize>> = Vec::new();
        for (index, line) in new.iter().enumerate() {
            let id = *ids.entry(line).or_insert(positions.len());
            positions.resize(positions.len().max(id + 1), Vec::new());
            positions[id].push(index);
        }
        let is_popular = |id: usize| new.len() >= POPULAR_FROM && positions[id].len() > new.len() / 100 + 1;
        let common = old.iter().enumerate().filter_map(|(index, line)| Some((index, *ids.get(line)?)));
        let common = common.filter(|(_, id)| !is_popular(*id)).collect();
        Self { old, new, positions, common, steps: 0, lengths: vec![0; new.len() + 1] }
    }

    /// The longest block in a part; of several, the first one.
    fn longest(&mut self, old: (usize, usize), new: (usize, usize)) -> Block {
        let mut best = Block { old: old.0, new: new.0, length: 0 };
        let mut touched: Vec<usize> = Vec::new();
        let mut previous = None;
        let start = self.common.partition_point(|(i, _)| *i < old.0);
        for &(i, id) in self.common[start..].iter().take_while(|(i, _)| *i < old.1) {
            if self.steps > MAX_STEPS {
                break;
            }
            if previous.replace(i).is_some_and(|previous| previous + 1 < i) {
                touched.drain(..).for_each(|j| self.lengths[j] = 0);
            }
            let found = &self.positions[id];
            let from = found.partition_point(|j| *j < new.0);
            let to = found.partition_point(|j| *j < new.1);
            self.steps += 1 + to - from;
            let ends: Vec<(usize, usize)> = found[from..to].iter().map(|j| (*j, self.lengths[*j] + 1)).collect();
            touched.drain(..).for_each(|j| self.lengths[j] = 0);
            for (j, length) in ends {
                self.lengths[j + 1] = length;
                touched.push(j + 1);
                if length > best.length {
                    best = Block { old: i + 1 - length, new: j + 1 - length, length };
                }
            }
        }
        touched.drain(..).for_each(|j| self.lengths[j] = 0);
        // Frequent lines belong to the block that they are next to.
        while best.old > old.0 && best.new > new.0 && self.old[best.old - 1] == self.new[best.new - 1] {
            best = Block { old: best.old - 1, new: best.new - 1, length: best.length + 1 };
        }
        while best.old + best.length < old.1
            && best.new + best.length < new.1
            && self.old[best.old + best.length] == self.new[best.new + best.length]
        {
            best.length += 1;
        }
        best
    }

    /// All blocks in order, and an empty one at the end.
    fn blocks(mut self) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut left = vec![((0, self.old.len()), (0, self.new.len()))];
        while let Some((old, new)) = left.pop() {
            let block = self.longest(old, new);
            if block.length == 0 {
                continue;
            }
            blocks.push(block);
            if old.0 < block.old && new.0 < block.new {
                left.push(((old.0, block.old), (new.0, block.new)));
            }
            let end = (block.old + block.length, block.new + block.length);
            if end.0 < old.1 && end.1 < new.1 {
                left.push(((end.0, old.1), (end.1, new.1)));
            }
        }
        blocks.sort_unstable();
        let mut joined: Vec<Block> = Vec::with_capacity(blocks.len() + 1);
        for block in blocks {
            match joined.last_mut() {
                Some(last) if last.old + last.length == block.old && last.new + last.length == block.new => {
                    last.length += block.length;
                }
                _ => joined.push(block),
            }
        }
        joined.push(Block { old: self.old.len(), new: self.new.len(), length: 0 });
        joined
    }
}

/// The equal and different parts, in order.
fn parts(old: &[&str], new: &[&str]) -> Vec<Part> {
    let mut parts = Vec::new();
    let (mut i, mut j) = (0, 0);
    for block in Matcher::new(old, new).blocks() {
        if i < block.old || j < block.new {
            parts.push(Part { is_equal: false, old: (i, block.old), new: (j, block.new) });
        }
        (i, j) = (block.old + block.length, block.new + block.length);
        if block.length > 0 {
            parts.push(Part { is_equal: true, old: (block.old, i), new: (block.new, j) });
        }
    }
    parts
}

/// The parts of each hunk.
fn hunks(mut parts: Vec<Part>) -> Vec<Vec<Part>> {
    if let Some(first) = parts.first_mut().filter(|part| part.is_equal) {
        *first = first.tail();
    }
    if let Some(last) = parts.last_mut().filter(|part| part.is_equal) {
        *last = last.head();
    }
    let (mut hunks, mut hunk) = (Vec::new(), Vec::new());
    for mut part in parts {
        if part.is_equal && part.old.1 - part.old.0 > 2 * CONTEXT {
            hunk.push(part.head());
            hunks.push(std::mem::take(&mut hunk));
            part = part.tail();
        }
        hunk.push(part);
    }
    hunks.push(hunk);
    hunks.retain(|hunk| hunk.iter().any(|part| !part.is_equal));
    hunks
}

fn range((start, end): (usize, usize)) -> String {
    match end - start {
        1 => format!("{}", start + 1),
        0 => format!("{start},0"),
        length => format!("{},{length}", start + 1),
    }
}

/// Returns the hunks of the difference of two texts, or an empty string if there is none.
pub(super) fn unified(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let mut out = String::new();
    for hunk in hunks(parts(&old, &new)) {
        let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else { continue };
        let (old_range, new_range) = (range((first.old.0, last.old.1)), range((first.new.0, last.new.1)));
        let _ = writeln!(out, "@@ -{old_range} +{new_range} @@");
        let mut write = |mark: char, lines: &[&str]| {
            for line in lines {
                let _ = writeln!(out, "{mark}{line}");
            }
        };
        for part in hunk {
            let (removed, added) = (&old[part.old.0..part.old.1], &new[part.new.0..part.new.1]);
            if part.is_equal {
                write(' ', removed);
            } else {
                write('-', removed);
                write('+', added);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(lines: &str) -> String {
        lines.chars().map(|line| format!("{line}\n")).collect()
    }

    /// The results of go-difflib, with a `|` for the end of each line.
    #[test]
    fn hunks_are_those_of_difflib() {
        for row in include_str!("difflib.txt").lines() {
            let [old, new, expect] = row.split('\t').collect::<Vec<_>>()[..] else {
                panic!("a row has three columns: {row}")
            };
            assert_eq!(unified(&text(old), &text(new)).replace('\n', "|"), expect, "{old} {new}");
        }
    }

    #[test]
    fn a_text_of_equal_lines_takes_no_long_time() {
        let lines = |repeated: &str| format!("{}{}", repeated.repeat(150_000), "x\n");
        let (old, new) = (lines("a\nb\n"), lines("b\na\na\n"));
        assert!(unified(&old, &new).starts_with("@@ -1,"));
    }
}

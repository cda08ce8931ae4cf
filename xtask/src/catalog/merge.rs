//! Merges the facts of several minor versions into one file: a line that does not hold in all of them gets a range.

use std::collections::BTreeSet;
use std::fmt::Write;

use pintle_versions::{Minor, MinorRange};

/// A line with the lines that belong to it: a package with its types, or a struct with its fields.
#[derive(Clone, Debug)]
struct Node {
    line: String,
    children: Vec<Node>,
}

/// A line that is the same in several versions, with its children in each of them.
struct Merged {
    line: String,
    children: Vec<(Minor, Vec<Node>)>,
}

/// Merges the files of versions, the oldest version first. They have the same comments at their head, except for the
/// lines of their sources.
pub(super) fn merge(files: &[(Minor, String)]) -> String {
    let mut out = String::new();
    let newest = files.last().map(|(_, text)| text.as_str()).unwrap_or_default();
    for line in newest.lines().take_while(|line| line.starts_with('#')) {
        match source(line) {
            None => out.push_str(line),
            Some((module, _)) => {
                let versions = files.iter().filter_map(|(_, text)| {
                    text.lines().filter_map(source).find(|(name, _)| *name == module).map(|(_, version)| version)
                });
                let versions: Vec<&str> = versions.collect();
                let _ = write!(out, "{SOURCE}{module} {}", versions.join(" "));
            }
        }
        out.push('\n');
    }
    let known: Vec<Minor> = files.iter().map(|(minor, _)| *minor).collect();
    write_merged(&mut out, &files.iter().map(|(minor, text)| (*minor, nodes(text))).collect::<Vec<_>>(), &known);
    out
}

const SOURCE: &str = "# source: ";

/// The module and the version of a line that names a source.
fn source(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix(SOURCE)?.split_once(' ')
}

/// The level of a line: a package, a type, or a field.
fn level(line: &str) -> usize {
    if line.starts_with("package ") { 0 } else { 1 + usize::from(line.starts_with("  ")) }
}

/// The packages of a file.
fn nodes(text: &str) -> Vec<Node> {
    let mut packages: Vec<Node> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let node = Node { line: line.to_owned(), children: Vec::new() };
        insert(&mut packages, level(line), node);
    }
    packages
}

/// Adds a line to the last line of the level above.
fn insert(siblings: &mut Vec<Node>, level: usize, node: Node) {
    match siblings.last_mut() {
        Some(parent) if level > 0 => insert(&mut parent.children, level - 1, node),
        _ => siblings.push(node),
    }
}

/// Writes the lines of one level of all versions. `parents` are the versions that the lines above hold in.
fn write_merged(out: &mut String, versions: &[(Minor, Vec<Node>)], parents: &[Minor]) {
    for merged in align(versions) {
        let own: BTreeSet<Minor> = merged.children.iter().map(|(minor, _)| *minor).collect();
        for run in runs(&own) {
            if merged.line.starts_with("package ") {
                out.push('\n');
            }
            out.push_str(&merged.line);
            if let (true, Some(&first), Some(&last)) = (run != parents, run.first(), run.last()) {
                let _ = write!(out, " in={}", MinorRange::of_known(first, last));
            }
            out.push('\n');
            let children: Vec<_> = merged.children.iter().filter(|(minor, _)| run.contains(minor)).cloned().collect();
            write_merged(out, &children, &run);
        }
    }
}

/// The lines of all versions in one order: each version's own order is kept. Among lines at the same place, older
/// versions come first.
fn align(versions: &[(Minor, Vec<Node>)]) -> Vec<Merged> {
    let mut all: Vec<Merged> = Vec::new();
    for (minor, nodes) in versions.iter().rev() {
        let pairs = common(&all, nodes);
        let mut aligned = Vec::new();
        let (mut known, mut own) = (all.into_iter(), nodes.iter());
        let (mut next_known, mut next_own) = (0, 0);
        let single = |node: &Node| Merged { line: node.line.clone(), children: vec![(*minor, node.children.clone())] };
        for (known_index, own_index) in pairs {
            aligned.extend(own.by_ref().take(own_index - next_own).map(single));
            aligned.extend(known.by_ref().take(known_index - next_known));
            if let (Some(mut merged), Some(node)) = (known.next(), own.next()) {
                merged.children.insert(0, (*minor, node.children.clone()));
                aligned.push(merged);
            }
            (next_known, next_own) = (known_index + 1, own_index + 1);
        }
        aligned.extend(own.map(single));
        aligned.extend(known);
        all = aligned;
    }
    all
}

/// The indices of the longest common subsequence of lines.
fn common(all: &[Merged], nodes: &[Node]) -> Vec<(usize, usize)> {
    let width = nodes.len() + 1;
    // The length of the longest common subsequence of the two rests, for each pair of indices.
    let mut lengths = vec![0_usize; (all.len() + 1) * width];
    for i in (0..all.len()).rev() {
        for j in (0..nodes.len()).rev() {
            lengths[i * width + j] = if all[i].line == nodes[j].line {
                lengths[(i + 1) * width + j + 1] + 1
            } else {
                lengths[(i + 1) * width + j].max(lengths[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j, mut pairs) = (0, 0, Vec::new());
    while i < all.len() && j < nodes.len() {
        if all[i].line == nodes[j].line {
            pairs.push((i, j));
            (i, j) = (i + 1, j + 1);
        } else if lengths[(i + 1) * width + j] >= lengths[i * width + j + 1] {
            i += 1;
        } else {
            j += 1;
        }
    }
    pairs
}

/// The runs of consecutive versions.
fn runs(versions: &BTreeSet<Minor>) -> Vec<Vec<Minor>> {
    let mut runs: Vec<Vec<Minor>> = Vec::new();
    for minor in versions {
        match runs.last_mut() {
            Some(run) if run.last().is_some_and(|last| last.next() == *minor) => run.push(*minor),
            _ => runs.push(vec![*minor]),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_versions::nested_lines;

    /// The body of a file in short: packages begin with p, structs with s, fields are single letters.
    fn file(body: &str) -> String {
        let mut text = "# head\n# source: m v\n".to_owned();
        for word in body.split(' ') {
            let _ = match word.as_bytes()[0] {
                b'p' => writeln!(text, "\npackage {word}"),
                b's' => writeln!(text, "struct {word}"),
                _ => writeln!(text, "  {word}"),
            };
        }
        text
    }

    fn check(bodies: [&str; 4], expect: &str) {
        let files: Vec<_> = Minor::known().zip(bodies).map(|(minor, body)| (minor, file(body))).collect();
        let merged = merge(&files);
        let body = |text: &str| -> String {
            let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
            let words =
                lines.map(|line| line.trim_start().trim_start_matches("package ").trim_start_matches("struct "));
            words.collect::<Vec<_>>().join("; ")
        };
        assert_eq!(body(&merged), expect);
        for (minor, text) in &files {
            let own: Vec<&str> = nested_lines(&merged, *minor, level).map(|line| line.text).collect();
            assert_eq!(body(&own.join("\n")), body(text), "{minor}");
        }
    }

    #[test]
    fn lines_get_the_range_of_their_versions() {
        check(["p1 s1 a b"; 4], "p1; s1; a; b");
        check(["p1 s1 a", "p1 s1 a b", "p1 s1 a b", "p1 s1 b"], "p1; s1; a in=..1.36; b in=1.35..");
        check(["p1 s1 a", "p1 s1 a", "p1 s1 c", "p1 s1 c"], "p1; s1; a in=..1.35; c in=1.36..");
        // The order of each version is kept.
        check(["p1 s1 a b", "p1 s1 a b", "p1 s1 a b", "p1 s1 b a"], "p1; s1; b in=1.37..; a; b in=..1.36");
        // A line that is missing in the middle.
        check(["p1 s1 a", "p1 s1", "p1 s1 a", "p1 s1 a"], "p1; s1; a in=..1.34; a in=1.36..");
        // The lines of a line have ranges only where they differ from it.
        check(["p1", "p1", "p1 s1 a", "p1 s1 a b"], "p1; s1 in=1.36..; a; b in=1.37..");
        check(["p2", "p1 s1 a p2", "p1 s1 a p2", "p2"], "p1 in=1.35..1.36; s1; a; p2");
    }
}

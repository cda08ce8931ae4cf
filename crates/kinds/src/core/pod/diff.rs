//! Formats the difference of two values as a unified diff of their JSON. Upstream reports forbidden changes of pods in
//! this form, with the fields of its internal type; Pintle shows those of the API.

use std::fmt::Write;

use pintle_value::Value;

/// The number of unchanged lines around a change.
const CONTEXT: usize = 3;
/// The maximum number of pairs of lines that are compared. Beyond this limit, all lines between the first and the last
/// difference are shown as removed and added.
const MAX_PAIRS: usize = 4_000_000;

/// Returns the hunks of the difference, or an empty string if there is none.
pub(crate) fn unified(old: &Value, new: &Value) -> String {
    let (old, new) = (lines(old), lines(new));
    let edits = diff_lines(&old, &new);
    let mut out = String::new();
    let mut i = 0;
    while i < edits.len() {
        let Some(first) = edits[i..].iter().position(|e| e.mark != ' ').map(|n| i + n) else { break };
        // A hunk continues until more unchanged lines follow than the context lines of two changes.
        let mut last = first;
        let mut next = first + 1;
        while next < edits.len() && next - last <= 2 * CONTEXT + 1 {
            if edits[next].mark != ' ' {
                last = next;
            }
            next += 1;
        }
        let start = first.saturating_sub(CONTEXT);
        let end = (last + CONTEXT + 1).min(edits.len());
        let hunk = &edits[start..end];
        let count = |mark: char| hunk.iter().filter(|e| e.mark != mark).count();
        let _ = writeln!(out, "@@ -{} +{} @@", range(hunk[0].old, count('+')), range(hunk[0].new, count('-')));
        for edit in hunk {
            let _ = writeln!(out, "{}{}", edit.mark, edit.line);
        }
        i = end;
    }
    out
}

fn range(start: usize, length: usize) -> String {
    match length {
        1 => format!("{}", start + 1),
        0 => format!("{start},0"),
        _ => format!("{},{length}", start + 1),
    }
}

/// One line of the diff, with the number of lines of both sides before it.
struct DiffLine<'l> {
    mark: char,
    line: &'l str,
    old: usize,
    new: usize,
}

fn diff_lines<'l>(old: &'l [String], new: &'l [String]) -> Vec<DiffLine<'l>> {
    let prefix = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let rest = old.len().min(new.len()) - prefix;
    let suffix = old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
    let (a, b) = (&old[prefix..old.len() - suffix], &new[prefix..new.len() - suffix]);

    // The length of the longest common subsequence of the remaining lines, for each pair of lines.
    let width = b.len() + 1;
    let compared = a.len().saturating_mul(b.len()) <= MAX_PAIRS;
    let mut common = vec![0u32; if compared { (a.len() + 1) * width } else { 0 }];
    if compared {
        for i in (0..a.len()).rev() {
            for j in (0..b.len()).rev() {
                common[i * width + j] = if a[i] == b[j] {
                    common[(i + 1) * width + j + 1] + 1
                } else {
                    common[(i + 1) * width + j].max(common[i * width + j + 1])
                };
            }
        }
    }

    let mut edits = Vec::with_capacity(old.len() + new.len());
    let (mut i, mut j) = (0, 0);
    while i < old.len() || j < new.len() {
        let (x, y) = (i.wrapping_sub(prefix), j.wrapping_sub(prefix));
        let inside = i >= prefix && j >= prefix && (x < a.len() || y < b.len());
        let mark = if !inside || (compared && x < a.len() && y < b.len() && a[x] == b[y]) {
            ' '
        } else if x < a.len() && (y >= b.len() || !compared || common[(x + 1) * width + y] >= common[x * width + y + 1])
        {
            '-'
        } else {
            '+'
        };
        let line = if mark == '+' { &new[j] } else { &old[i] };
        edits.push(DiffLine { mark, line, old: i, new: j });
        i += usize::from(mark != '+');
        j += usize::from(mark != '-');
    }
    edits
}

fn lines(value: &Value) -> Vec<String> {
    let mut out = String::new();
    write_value(&mut out, value, 0);
    out.lines().map(str::to_owned).collect()
}

/// Writes JSON with one space of indentation per level, like upstream's diff.
fn write_value(out: &mut String, value: &Value, level: usize) {
    let line = |out: &mut String, level: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', level));
    };
    match value {
        Value::Array(items) if !items.is_empty() => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                out.push_str(if i > 0 { "," } else { "" });
                line(out, level + 1);
                write_value(out, item, level + 1);
            }
            line(out, level);
            out.push(']');
        }
        Value::Object(object) if !object.is_empty() => {
            out.push('{');
            for (i, (key, item)) in object.iter().enumerate() {
                out.push_str(if i > 0 { "," } else { "" });
                line(out, level + 1);
                out.push_str(&crate::go_json::print(&Value::from(key)));
                out.push_str(": ");
                write_value(out, item, level + 1);
            }
            line(out, level);
            out.push('}');
        }
        scalar => out.push_str(&crate::go_json::print(scalar)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::object;

    #[test]
    fn hunks() {
        let check = |old: &str, new: &str, expect: &str| assert_eq!(unified(&object(old), &object(new)), expect);
        check(r#"{"a":1}"#, r#"{"a":1}"#, "");
        check(
            r#"{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6}"#,
            r#"{"a":1,"b":2,"c":3,"d":4,"e":9,"f":6}"#,
            "@@ -3,6 +3,6 @@\n  \"b\": 2,\n  \"c\": 3,\n  \"d\": 4,\n- \"e\": 5,\n+ \"e\": 9,\n  \"f\": 6\n }\n",
        );
        check(r#"{}"#, r#"{"a":[]}"#, "@@ -1 +1,3 @@\n-{}\n+{\n+ \"a\": []\n+}\n");
    }

    #[test]
    fn the_diff_reproduces_both_sides() {
        let old = object(r#"{"a":[1,2,3,4],"b":{"x":"y"},"c":[{"n":1},{"n":2}]}"#);
        let new = object(r#"{"a":[2,3,5],"b":{"x":"z","w":1},"c":[{"n":2}]}"#);
        let (old, new) = (lines(&old), lines(&new));
        let edits = diff_lines(&old, &new);
        let side = |skip: char| edits.iter().filter(|e| e.mark != skip).map(|e| e.line.to_owned()).collect::<Vec<_>>();
        assert_eq!(side('+'), old);
        assert_eq!(side('-'), new);
    }
}

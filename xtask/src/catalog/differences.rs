//! The changes that another version of Kubernetes makes to the types of the API. They concern kinds, types, fields, the
//! facts of each field, and the values of enums. A developer reads this list before the catalog moves to that version
//! (`docs/new-kubernetes-version.md`).

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::compare::Facts;

/// Facts that other changes imply: the position of a field changes with every field before it.
const IMPLIED: [&str; 1] = ["index"];

/// The differences as text, with a section for each sort of facts. Sections without differences are left out.
pub(super) fn list(older: &Facts, newer: &Facts) -> String {
    let mut text = String::new();
    let paths: BTreeSet<&str> = older.keys().chain(newer.keys()).map(String::as_str).collect();
    for (title, lines) in [
        ("Kinds", changes(&paths, older, newer, Sort::Kind)),
        ("Types", changes(&paths, older, newer, Sort::Type)),
        ("Fields", fields(&paths, older, newer)),
        ("Values of enums", changes(&paths, older, newer, Sort::Enum)),
    ] {
        if !lines.is_empty() {
            let _ = writeln!(text, "{title}\n{}\n", lines.join("\n"));
        }
    }
    text
}

/// The sort of facts that a path belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Kind,
    Type,
    Field,
    Enum,
}

fn sort_of(path: &str) -> Sort {
    match (path.split(' ').next(), path.split(' ').count()) {
        (Some("kind"), _) => Sort::Kind,
        (Some("enum"), _) => Sort::Enum,
        (_, 2) => Sort::Type,
        _ => Sort::Field,
    }
}

/// The changes of whole paths.
fn changes(paths: &BTreeSet<&str>, older: &Facts, newer: &Facts, sort: Sort) -> Vec<String> {
    let of_sort = paths.iter().filter(|path| sort_of(path) == sort);
    of_sort
        .filter_map(|path| {
            let name = path.split_once(' ').map_or(*path, |(_, name)| name);
            match (older.get(*path), newer.get(*path)) {
                (None, Some(value)) if sort == Sort::Enum => Some(format!("  + {name}: {value}")),
                (None, Some(_)) => Some(format!("  + {name}")),
                (Some(_), None) => Some(format!("  - {name}")),
                (Some(before), Some(after)) if before != after => Some(format!("  ~ {name}: {before} => {after}")),
                _ => None,
            }
        })
        .collect()
}

/// The changes of fields, a line for each. Fields of a type that only one side has are not listed: the type is new or
/// gone.
fn fields(paths: &BTreeSet<&str>, older: &Facts, newer: &Facts) -> Vec<String> {
    // The facts of a field: "struct TYPE FIELD" and then the fact's name, which may have two words.
    let field_of = |path: &str| path.match_indices(' ').nth(2).map(|(end, _)| path[..end].to_owned());
    let names: BTreeSet<String> =
        paths.iter().filter(|path| sort_of(path) == Sort::Field).filter_map(|path| field_of(path)).collect();
    let mut lines = Vec::new();
    for field in names {
        let owner = field.rsplit_once(' ').map_or(field.as_str(), |(owner, _)| owner);
        if !older.contains_key(owner) || !newer.contains_key(owner) {
            continue;
        }
        let facts_of = |facts: &Facts| -> Vec<(String, String)> {
            let prefix = format!("{field} ");
            let range = facts.range(prefix.clone()..).take_while(|(path, _)| path.starts_with(&prefix));
            let named = range.map(|(path, value)| (path[prefix.len()..].to_owned(), value.clone()));
            named.filter(|(name, _)| !IMPLIED.contains(&name.as_str())).collect()
        };
        let name = field.trim_start_matches("struct ").replace(' ', ".");
        let (before, after) = (facts_of(older), facts_of(newer));
        let text = |facts: &[(String, String)]| {
            facts.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
        };
        match (before.is_empty(), after.is_empty()) {
            _ if before == after => {}
            (true, _) => lines.push(format!("  + {name}: {}", text(&after))),
            (_, true) => lines.push(format!("  - {name}")),
            _ => {
                let only = |these: &[(String, String)], others: &[(String, String)]| {
                    let only: Vec<_> = these.iter().filter(|fact| !others.contains(fact)).cloned().collect();
                    if only.is_empty() { "nothing".to_owned() } else { text(&only) }
                };
                lines.push(format!("  ~ {name}: {} => {}", only(&before, &after), only(&after, &before)));
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(lines: &[(&str, &str)]) -> Facts {
        lines.iter().map(|(path, value)| ((*path).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn differences_are_listed_by_sort() {
        let older = facts(&[
            ("enum core/v1.Phase values", "A|B"),
            ("kind core/v1.Pod", "registered"),
            ("struct core/v1.Old", "declared"),
            ("struct core/v1.Old a type", "string"),
            ("struct core/v1.Pod", "declared"),
            ("struct core/v1.Pod gone type", "string"),
            ("struct core/v1.Pod kept index", "0"),
            ("struct core/v1.Pod kept type", "string"),
            ("struct core/v1.Pod list keys", "name"),
            ("struct core/v1.Pod list patch key", "name"),
        ]);
        let newer = facts(&[
            ("enum core/v1.Phase values", "A|B|C"),
            ("kind core/v1.Node", "registered"),
            ("kind core/v1.Pod", "registered"),
            ("struct core/v1.Pod", "declared"),
            ("struct core/v1.Pod added gates", "NewGate"),
            ("struct core/v1.Pod added type", "*int32"),
            ("struct core/v1.Pod kept index", "1"),
            ("struct core/v1.Pod kept type", "string"),
            ("struct core/v1.Pod list keys", "name,port"),
            ("struct core/v1.Pod list patch key", "name"),
        ]);
        let expect = "\
Kinds
  + core/v1.Node

Types
  - core/v1.Old

Fields
  + core/v1.Pod.added: gates NewGate, type *int32
  - core/v1.Pod.gone
  ~ core/v1.Pod.list: keys name => keys name,port

Values of enums
  ~ core/v1.Phase values: A|B => A|B|C

";
        assert_eq!(list(&older, &newer), expect);
        assert_eq!(list(&newer, &newer), "");
    }
}

//! `cargo xtask dependencies`: checks the licences and sources of all dependencies with the lists of `deny.toml`. It
//! also prints crates with several versions. cargo-deny checks the same, but takes minutes to compile.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::commands::{cargo, output};
use crate::{print_status, root};

/// A crate of the dependency graph.
#[derive(Debug)]
struct Dependency {
    name: String,
    version: String,
    licence: String,
    source: String,
}

/// The lists of `deny.toml`.
#[derive(Debug, Default, PartialEq)]
struct Rules {
    licences: BTreeSet<String>,
    registries: BTreeSet<String>,
}

/// Checks the dependencies of the workspace for all platforms.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    if let Some(unexpected) = arguments.first() {
        return Err(format!("unexpected argument {unexpected:?}"));
    }
    let path = root().join("deny.toml");
    let rules = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let rules =
        Rules { licences: list(&rules, "licenses", "allow")?, registries: list(&rules, "sources", "allow-registry")? };
    let metadata = output(&mut cargo(&["metadata", "--format-version", "1", "--locked", "--all-features"]))?;
    let dependencies = dependencies(&metadata)?;
    for (name, versions) in duplicates(&dependencies) {
        print_status(&format!("several versions of {name}: {}\n", versions.join(", ")));
    }
    let problems: Vec<String> = dependencies.iter().filter_map(|dependency| problem(dependency, &rules)).collect();
    if problems.is_empty() {
        print_status(&format!("the licences and sources of {} dependencies are allowed\n", dependencies.len()));
        return Ok(());
    }
    Err(format!("not allowed by deny.toml:\n  {}", problems.join("\n  ")))
}

/// The strings of a list in a table. `key = [` begins the list, and `]` ends it.
fn list(toml: &str, table: &str, key: &str) -> Result<BTreeSet<String>, String> {
    let table = toml.split_once(&format!("\n[{table}]")).map_or("", |(_, rest)| rest);
    let table = table.split("\n[").next().unwrap_or_default();
    let begin = format!("\n{key} = [");
    let (_, rest) = table.split_once(&begin).ok_or_else(|| format!("deny.toml has no list {key}"))?;
    let (list, _) = rest.split_once(']').ok_or_else(|| format!("the list {key} of deny.toml has no end"))?;
    let lines = list.lines().filter(|line| !line.trim_start().starts_with('#'));
    Ok(lines.flat_map(|line| line.split('"').skip(1).step_by(2)).map(str::to_owned).collect())
}

/// The crates that are not members of the workspace, from cargo's metadata.
fn dependencies(metadata: &str) -> Result<Vec<Dependency>, String> {
    let metadata: Value = serde_json::from_str(metadata).map_err(|error| format!("cargo metadata: {error}"))?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata has no packages")?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let dependency = |package: &Value| Dependency {
        name: text(&package["name"]),
        version: text(&package["version"]),
        licence: text(&package["license"]),
        source: text(&package["source"]),
    };
    // A crate of the workspace has no source.
    Ok(packages.iter().filter(|package| package["source"].is_string()).map(dependency).collect())
}

/// The crates with several versions.
fn duplicates(dependencies: &[Dependency]) -> BTreeMap<&str, Vec<&str>> {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for dependency in dependencies {
        versions.entry(&dependency.name).or_default().push(&dependency.version);
    }
    versions.retain(|_, versions| versions.len() > 1);
    versions
}

/// The reason why a dependency is not allowed.
fn problem(dependency: &Dependency, rules: &Rules) -> Option<String> {
    let Dependency { name, version, licence, source } = dependency;
    let registry = source.strip_prefix("registry+");
    if !registry.is_some_and(|registry| rules.registries.contains(registry)) {
        return Some(format!("{name} {version}: the source {source}"));
    }
    match is_allowed(licence, &rules.licences) {
        Some(true) => None,
        Some(false) => Some(format!("{name} {version}: the licence {licence:?}")),
        None => Some(format!("{name} {version}: the licence {licence:?} is no SPDX expression")),
    }
}

/// Evaluates an SPDX licence expression. `None` means that it cannot be parsed. A slash is an old spelling of OR.
fn is_allowed(expression: &str, allowed: &BTreeSet<String>) -> Option<bool> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = tokens.as_slice();
    let result = alternatives(&mut rest, allowed)?;
    rest.is_empty().then_some(result)
}

/// Terms with OR between them.
fn alternatives(tokens: &mut &[&str], allowed: &BTreeSet<String>) -> Option<bool> {
    let mut result = conjunction(tokens, allowed)?;
    while let Some(rest) = tokens.strip_prefix(&["OR"]) {
        *tokens = rest;
        result |= conjunction(tokens, allowed)?;
    }
    Some(result)
}

/// Terms with AND between them, which binds more tightly than OR.
fn conjunction(tokens: &mut &[&str], allowed: &BTreeSet<String>) -> Option<bool> {
    let mut result = term(tokens, allowed)?;
    while let Some(rest) = tokens.strip_prefix(&["AND"]) {
        *tokens = rest;
        result &= term(tokens, allowed)?;
    }
    Some(result)
}

/// A licence, a licence with an exception, or an expression in parentheses.
fn term(tokens: &mut &[&str], allowed: &BTreeSet<String>) -> Option<bool> {
    let (first, rest) = tokens.split_first()?;
    *tokens = rest;
    if *first == "(" {
        let result = alternatives(tokens, allowed)?;
        *tokens = tokens.strip_prefix(&[")"])?;
        return Some(result);
    }
    if let ["WITH", exception, rest @ ..] = *tokens {
        *tokens = rest;
        return Some(allowed.contains(&format!("{first} WITH {exception}")));
    }
    (!["AND", "OR", "WITH", ")"].contains(first)).then(|| allowed.contains(*first))
}

#[cfg(test)]
mod tests {
    use super::{Dependency, Rules, dependencies, duplicates, is_allowed, list, problem};

    const RULES: &str = r#"
[licenses]
allow = [
    "MIT",
    # Not "GPL-3.0".
    "Apache-2.0 WITH LLVM-exception",
]
[sources]
allow-registry = ["https://example.com/index"]
"#;

    fn rules() -> Rules {
        Rules {
            licences: list(RULES, "licenses", "allow").unwrap(),
            registries: list(RULES, "sources", "allow-registry").unwrap(),
        }
    }

    #[test]
    fn lists_are_read_without_comments() {
        let rules = rules();
        assert_eq!(rules.licences, ["Apache-2.0 WITH LLVM-exception", "MIT"].map(str::to_owned).into());
        assert_eq!(rules.registries, ["https://example.com/index".to_owned()].into());
        assert!(list(RULES, "licenses", "deny").is_err());
    }

    #[test]
    fn licence_expressions_are_evaluated() {
        let allowed = rules().licences;
        let check = |expression: &str, expect: Option<bool>| {
            assert_eq!(is_allowed(expression, &allowed), expect, "{expression}");
        };
        check("MIT", Some(true));
        check("GPL-3.0", Some(false));
        check("GPL-3.0 OR MIT", Some(true));
        check("GPL-3.0/MIT", Some(true));
        check("GPL-3.0 AND MIT", Some(false));
        check("MIT AND (GPL-3.0 OR MIT)", Some(true));
        check("MIT OR GPL-3.0 AND ISC", Some(true));
        check("(MIT OR GPL-3.0) AND ISC", Some(false));
        check("Apache-2.0 WITH LLVM-exception", Some(true));
        check("MIT WITH LLVM-exception", Some(false));
        for broken in ["", "MIT OR", "AND MIT", "(MIT", "MIT)", "MIT MIT", "MIT WITH"] {
            check(broken, None);
        }
    }

    #[test]
    fn foreign_sources_and_licences_are_problems() {
        let rules = rules();
        let check = |licence: &str, source: &str, expect: Option<&str>| {
            let [name, version, licence, source] = ["a", "1.0.0", licence, source].map(str::to_owned);
            let found = problem(&Dependency { name, version, licence, source }, &rules);
            assert_eq!(found.as_deref(), expect);
        };
        check("MIT", "registry+https://example.com/index", None);
        check("", "registry+https://example.com/index", Some("a 1.0.0: the licence \"\" is no SPDX expression"));
        check("ISC", "registry+https://example.com/index", Some("a 1.0.0: the licence \"ISC\""));
        check("MIT", "registry+https://example.org/", Some("a 1.0.0: the source registry+https://example.org/"));
        check("MIT", "git+https://example.com/index", Some("a 1.0.0: the source git+https://example.com/index"));
    }

    #[test]
    fn members_of_the_workspace_are_no_dependencies_and_duplicates_are_found() {
        let metadata = r#"{"packages": [
            {"name": "own", "version": "0.1.0", "license": null, "source": null},
            {"name": "a", "version": "1.0.0", "license": "MIT", "source": "registry+x"},
            {"name": "a", "version": "2.0.0", "license": "MIT", "source": "registry+x"},
            {"name": "b", "version": "1.0.0", "license": "MIT", "source": "registry+x"}
        ]}"#;
        let dependencies = dependencies(metadata).unwrap();
        assert_eq!(dependencies.len(), 3);
        assert_eq!(duplicates(&dependencies), [("a", vec!["1.0.0", "2.0.0"])].into());
    }
}

//! Scenarios: what several managers do to an object, one line each, and then the object and who owns what. They are in
//! `scenarios/*.txt` and read top to bottom; `UPDATE_EXPECT=1` writes what is found into them.
//!
//! `== name` begins a scenario, `schema atomic` or `schema deduced` changes the schema, `retire v2` takes a version away,
//! `ignore v1 {…}` says which fields do not count, `include v1 path` which alone do. `apply`, `force` and `update` are done
//! by `manager@version`. What an operation was refused for follows it after a `!`.

mod model;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use model::Model;
use pintle_apply::managers::{ConvertError, Managers, UpdateError, Updater, Versions};
use pintle_apply::path::PathElement;
use pintle_apply::set::{FieldSet, Filter, Step};
use pintle_apply::typed::{Duplicates, Place};
use pintle_value::{Str, Value, print};

/// The model, and what of requests counts.
struct Kind {
    model: Model,
    filters: BTreeMap<Str, Filter>,
}

impl Versions for Kind {
    fn place(&self, version: &str) -> Option<Place<'_>> {
        self.model.place(version)
    }

    fn convert(&self, object: &Value, from: &str, to: &str) -> Result<Value, ConvertError> {
        self.model.convert(object, from, to)
    }

    fn filter(&self, version: &str) -> Option<&Filter> {
        self.filters.get(version)
    }
}

struct State {
    kind: Kind,
    live: Value,
    version: String,
    managers: Managers<String>,
}

impl State {
    /// Does what a line says. Returns what it was refused for.
    fn run(&mut self, line: &str) -> Vec<String> {
        let mut words = line.splitn(3, ' ');
        let (verb, subject, rest) =
            (words.next().unwrap_or(""), words.next().unwrap_or(""), words.next().unwrap_or(""));
        match verb {
            "schema" => self.kind.model = if subject == "atomic" { Model::atomic() } else { Model::deduced() },
            "retire" => self.kind.model.retire(subject),
            "ignore" => {
                let fields = FieldSet::decode(rest).expect(line);
                self.kind.filters.insert(Str::from(subject), Filter::Exclude(fields));
            }
            "include" => {
                let step = |name: &str| if name == "*" { Step::Any } else { Step::Is(PathElement::field(name)) };
                let pattern = rest.split('.').map(step).collect();
                self.kind.filters.insert(Str::from(subject), Filter::Include(vec![pattern]));
            }
            "apply" | "force" | "update" => {
                let (manager, version) = subject.split_once('@').unwrap_or((subject, "v1"));
                let object = serde_json::from_str(rest).expect(line);
                return self.write(verb, manager, version, &object).err().unwrap_or_default();
            }
            _ => panic!("{line}"),
        }
        Vec::new()
    }

    fn write(&mut self, verb: &str, manager: &str, version: &str, object: &Value) -> Result<(), Vec<String>> {
        if self.version != version {
            self.live = self.kind.model.convert(&self.live, &self.version, version).expect(version);
            self.version = version.to_owned();
        }
        let duplicates = if verb == "update" { Duplicates::Allowed } else { Duplicates::Forbidden };
        let place = self.kind.model.at(version).expect(version);
        place.validate(object, duplicates).map_err(|e| e.to_string().lines().map(str::to_owned).collect::<Vec<_>>())?;
        let updater = Updater { versions: &self.kind };
        let (managers, name) = (self.managers.clone(), manager.to_owned());
        let done = if verb == "update" {
            let managers = updater.update(&self.live, object, version, managers, &name);
            managers.map(|managers| (Some(object.clone()), managers))
        } else {
            updater.apply(&self.live, object, version, managers, &name, verb == "force")
        };
        let (object, managers) = done.map_err(refusal)?;
        self.managers = managers;
        self.live = object.unwrap_or_else(|| self.live.clone());
        Ok(())
    }
}

fn refusal(error: UpdateError<String>) -> Vec<String> {
    match error {
        UpdateError::Conflicts(conflicts) => conflicts
            .into_iter()
            .map(|conflict| format!("conflict with {}: {}", conflict.manager, conflict.path))
            .collect(),
        UpdateError::Failed(message) => message.lines().map(str::to_owned).collect(),
    }
}

/// Runs a scenario and writes it down with what is found.
fn found(scenario: &str) -> String {
    let mut state = State {
        kind: Kind { model: Model::new(), filters: BTreeMap::new() },
        live: Value::object(),
        version: "v1".to_owned(),
        managers: Managers::new(),
    };
    let mut out = String::new();
    let is_operation = |line: &&str| line.starts_with(|c: char| c.is_ascii_lowercase()) && !line.contains(" owns ");
    for line in scenario.lines().filter(|line| line.starts_with("==") || is_operation(line)) {
        let _ = writeln!(out, "{line}");
        if !line.starts_with("==") {
            state.run(line).into_iter().for_each(|refused| writeln!(out, "! {refused}").expect("a string"));
        }
    }
    let _ = writeln!(out, "= {}", print::json(&state.live));
    for (manager, owned) in &state.managers {
        let applied = if owned.applied { "applied" } else { "updated" };
        let _ = write!(out, "{manager}@{} {applied} owns", owned.version);
        owned.set.paths().iter().for_each(|path| write!(out, " {path}").expect("a string"));
        out.push('\n');
    }
    out
}

#[track_caller]
fn check(file: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios").join(file);
    let expected = fs::read_to_string(&path).expect(file);
    let (head, scenarios) = expected.split_once("== ").expect("a scenario");
    let found: Vec<String> = scenarios.split("\n== ").map(|scenario| found(&format!("== {scenario}"))).collect();
    let found = format!("{head}{}", found.join("\n"));
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&path, &found).expect(file);
    }
    for (expected, found) in expected.split("\n== ").zip(found.split("\n== ")) {
        assert_eq!(found, expected, "{file}");
    }
    assert_eq!(found, expected, "{file}");
}

#[test]
fn leaves_and_structs() {
    check("leaves.txt");
}

#[test]
fn lists_and_sets() {
    check("lists.txt");
}

#[test]
fn maps_and_nesting() {
    check("maps.txt");
}

#[test]
fn duplicates_and_keys() {
    check("duplicates.txt");
}

#[test]
fn versions_schemas_and_filters() {
    check("versions.txt");
}

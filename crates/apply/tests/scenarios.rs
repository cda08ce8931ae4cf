//! Scenarios: operations of several managers on an object, one per line, followed by the object and the managed fields.
//! They are in `scenarios/*.txt` and read top to bottom. `UPDATE_EXPECT=1` updates the files.
//!
//! `== name` begins a scenario. `schema atomic` and `schema deduced` change the schema, `retire v2` removes a version,
//! `ignore v1 {...}` excludes fields, and `include v1 path` includes only a path. `apply`, `force` and `update` are run
//! by `manager@version`. A line with `!` shows the error of the operation before it.

mod model;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use model::Model;
use pintle_apply::merge::{ConvertError, ManagedFields, UpdateError, Updater, VersionConverter};
use pintle_apply::typed::{Duplicates, TypeRef};
use pintle_fieldpath::path::PathElement;
use pintle_fieldpath::set::{FieldSet, Filter, PathElementMatcher};
use pintle_value::{Str, Value, print};

/// The model with ignore filters.
struct FilteredModel {
    model: Model,
    filters: BTreeMap<Str, Filter>,
}

impl VersionConverter for FilteredModel {
    fn type_ref(&self, version: &str) -> Option<TypeRef<'_>> {
        self.model.type_ref(version)
    }

    fn convert(&self, object: &Value, from: &str, to: &str) -> Result<Value, ConvertError> {
        self.model.convert(object, from, to)
    }

    fn ignore_filter(&self, version: &str) -> Option<&Filter> {
        self.filters.get(version)
    }
}

struct ScenarioState {
    kind: FilteredModel,
    live: Value,
    version: String,
    managers: ManagedFields<String>,
}

impl ScenarioState {
    /// Runs one line. Returns the lines of the error.
    fn run(&mut self, line: &str) -> Vec<String> {
        let mut words = line.splitn(3, ' ');
        let (verb, subject, rest) =
            (words.next().unwrap_or(""), words.next().unwrap_or(""), words.next().unwrap_or(""));
        match verb {
            "schema" => self.kind.model = if subject == "atomic" { Model::atomic() } else { Model::deduced() },
            "retire" => self.kind.model.remove_version(subject),
            "ignore" => {
                let fields = FieldSet::decode(rest).expect(line);
                self.kind.filters.insert(Str::from(subject), Filter::Exclude(fields));
            }
            "include" => {
                let step = |name: &str| {
                    if name == "*" {
                        PathElementMatcher::Wildcard
                    } else {
                        PathElementMatcher::Element(PathElement::field(name))
                    }
                };
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
        let type_ref = self.kind.model.at(version).expect(version);
        type_ref
            .validate(object, duplicates)
            .map_err(|e| e.to_string().lines().map(str::to_owned).collect::<Vec<_>>())?;
        let updater = Updater { converter: &self.kind };
        let (managers, name) = (self.managers.clone(), manager.to_owned());
        let done = if verb == "update" {
            let managers = updater.update(&self.live, object, version, managers, &name);
            managers.map(|managers| (Some(object.clone()), managers))
        } else {
            updater.apply(&self.live, object, version, managers, &name, verb == "force")
        };
        let (object, managers) = done.map_err(error_lines)?;
        self.managers = managers;
        self.live = object.unwrap_or_else(|| self.live.clone());
        Ok(())
    }
}

fn error_lines(error: UpdateError<String>) -> Vec<String> {
    match error {
        UpdateError::Conflicts(conflicts) => conflicts
            .into_iter()
            .map(|conflict| format!("conflict with {}: {}", conflict.manager, conflict.path))
            .collect(),
        UpdateError::Failed(message) => message.lines().map(str::to_owned).collect(),
    }
}

/// Runs a scenario. Returns it with the actual outcome.
fn run_scenario(scenario: &str) -> String {
    let mut state = ScenarioState {
        kind: FilteredModel { model: Model::new(), filters: BTreeMap::new() },
        live: Value::object(),
        version: "v1".to_owned(),
        managers: ManagedFields::new(),
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
    pintle_scenarios::check_file(format!("{}/tests/scenarios/{file}", env!("CARGO_MANIFEST_DIR")), |table| {
        let (head, scenarios) = table.split_once("== ").expect("a scenario");
        let found: Vec<String> =
            scenarios.split("\n== ").map(|scenario| run_scenario(&format!("== {scenario}"))).collect();
        format!("{head}{}", found.join("\n"))
    });
}

#[test]
fn leaf_and_struct_scenarios() {
    check("leaves.txt");
}

#[test]
fn list_and_set_scenarios() {
    check("lists.txt");
}

#[test]
fn map_and_nesting_scenarios() {
    check("maps.txt");
}

#[test]
fn duplicate_and_key_scenarios() {
    check("duplicates.txt");
}

#[test]
fn version_schema_and_filter_scenarios() {
    check("versions.txt");
}

//! CEL validation rules: the validation of CRDs and of objects. The tables are in `rules/*.txt` and are read from top
//! to bottom. They contain the answers of kube-apiserver 1.36 (`tools/cel-rules`). `UPDATE_EXPECT=1` updates the files.
//!
//! `schema {...}` is the schema of an object. Alternatively, `field {...}` is the schema of its only field `a`, and
//! `rule ...` is one rule of the object (`rules [...]` several). A preceding `was {...}` is the schema that it
//! replaces. `scale {...}` is the CRD's scale subresource.
//!
//! `new {...}` is an object, and `val ...` is a value of the field. `from {...}` or `before ...` is the object that it
//! replaces. `status {...}` updates it through the status subresource. The indented lines that follow are the sorted
//! errors of the CRD or object, and warnings.
//!
//! `version 1.37` begins rows of that version; the others are of 1.36. After `compatible 1.37` the version is also the
//! minimum compatibility version.

mod served;
use std::sync::Arc;

use pintle_extensions::install_crd_validation;
use pintle_registry::{CostBudget, Resource, Strategy, StrategyContext};
use pintle_value::time::Time;
use pintle_value::{Errors, Object, Value, object};
use pintle_versions::{EffectiveVersion, Minor};
use served::crd;

fn read(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn in_field(value: Value) -> Value {
    Value::Object(Object::from_iter([("a", value)]))
}

fn context() -> StrategyContext {
    StrategyContext::for_user("u", Time { seconds: 1_700_000_000, nanos: 0 })
}

fn widget(mut object: Value) -> Value {
    object.set_default("apiVersion", "example.com/v1");
    object.set_default("kind", "Widget");
    object.set_default("metadata", object! { "name": "w", "resourceVersion": "1" });
    object
}

/// The state of a table.
struct TableState {
    version: EffectiveVersion,
    crds: Arc<dyn Strategy>,
    field: Value,
    was: Option<Value>,
    scale: Option<Value>,
    from: Option<Value>,
    kind: Option<Arc<Resource>>,
}

impl TableState {
    fn of(version: EffectiveVersion) -> Self {
        let mut resources = pintle_kinds::resources(pintle_catalog::shared());
        install_crd_validation(&mut resources, version);
        let crds = resources.iter().find(|resource| resource.plural == "customresourcedefinitions");
        let crds = crds.expect("CRDs are built in").strategy.clone();
        Self { version, crds, field: Value::Null, was: None, scale: None, from: None, kind: None }
    }

    /// Validates a CRD. Returns its errors.
    fn define(&mut self, schema: &Value) -> Vec<String> {
        let scale = self.scale.take();
        let new = crd(schema.clone(), scale.as_ref());
        let errors = match self.was.take() {
            None => self.crds.validate(&context(), &new),
            Some(was) => self.crds.validate_update(&context(), &new, &crd(was, None)),
        };
        self.kind = served::kind_of_version(&new, self.version);
        result_lines(errors, Vec::new())
    }

    /// Validates an object. Returns its errors and warnings.
    fn validate(&mut self, new: Value, through_status: bool) -> Vec<String> {
        let Some(kind) = &self.kind else { return vec!["unusable".to_owned()] };
        let (rules, mut new, old) = (&kind.strategy, widget(new), self.from.take().map(widget));
        let (mut errors, warnings);
        match &old {
            Some(old) if through_status => {
                let rules = rules.subresource("status").expect("there is a status");
                rules.prepare_for_update(&context(), &mut new, old);
                errors = rules.validate_update(&context(), &new, old);
                warnings = rules.validate_expensive(&new, old, &mut errors, CostBudget::Unlimited).unwrap_or_default();
            }
            Some(old) => {
                errors = rules.validate_update(&context(), &new, old);
                warnings =
                    rules.validate_expensive(&new, Some(old), &mut errors, CostBudget::Unlimited).unwrap_or_default();
            }
            None => {
                errors = rules.validate(&context(), &new);
                warnings = rules.validate_expensive(&new, None, &mut errors, CostBudget::Unlimited).unwrap_or_default();
            }
        }
        result_lines(errors, warnings)
    }

    fn schema_with_rules(&self, rules: Value) -> Value {
        object! { "type": "object", "properties": in_field(self.field.clone()), "x-kubernetes-validations": rules }
    }
}

fn result_lines(errors: Errors, warnings: Vec<String>) -> Vec<String> {
    let errors = errors.iter().map(|error| format!("error {error}"));
    let mut result_lines: Vec<String> =
        errors.chain(warnings.into_iter().map(|warning| format!("warning {warning}"))).collect();
    result_lines.sort_unstable();
    // The number in the name of a type varies.
    let line = |line: &String| line.replace('\n', "\\n").replace('\r', "\\r").replace("selfType0", "selfType");
    result_lines.iter().map(line).collect()
}

/// Runs a table. Returns the table with the actual results.
fn run(table: &str, rows: &mut usize) -> String {
    let mut state = TableState::of(EffectiveVersion::of(Minor::new(36)));
    let mut out = String::new();
    for line in table.lines().filter(|line| !line.starts_with("    ")) {
        out.push_str(line);
        out.push('\n');
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let found = match word {
            "schema" => state.define(&read(rest)),
            "rule" => {
                let schema = state.schema_with_rules(vec![object! { "rule": rest }].into());
                state.define(&schema)
            }
            "rules" => {
                let schema = state.schema_with_rules(read(rest));
                state.define(&schema)
            }
            "new" | "status" => state.validate(read(rest), word == "status"),
            "val" => state.validate(in_field(read(rest)), false),
            "version" | "compatible" => {
                let minor: Minor = rest.parse().expect("a version");
                let version = EffectiveVersion::of(minor);
                let compatible = version.compatible_with(minor).expect("a version");
                state = TableState::of(if word == "version" { version } else { compatible });
                continue;
            }
            "field" => {
                state.field = read(rest);
                continue;
            }
            "was" => {
                state.was = Some(read(rest));
                continue;
            }
            "scale" => {
                state.scale = Some(read(rest));
                continue;
            }
            "from" => {
                state.from = Some(read(rest));
                continue;
            }
            "before" => {
                state.from = Some(in_field(read(rest)));
                continue;
            }
            "" | "==" | "#" => continue,
            _ => panic!("{line}"),
        };
        *rows += 1;
        for found in found {
            out.push_str(&format!("    {found}\n"));
        }
    }
    out
}

#[test]
fn rules_are_evaluated_like_upstream() {
    let mut rows = 0;
    pintle_scenarios::check_folder(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/rules"), |table| run(table, &mut rows));
    assert!(rows >= 250, "{rows} rows");
}

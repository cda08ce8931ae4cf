//! Tests the validation of CustomResourceDefinitions against the errors and warnings of kube-apiserver 1.36.
//!
//! The test cases are text files. A case starts with `# title`. The following lines change a minimal CRD: `spec`,
//! `version` (the first one) and `meta` set fields; `schema` and `status` replace them. Lines that start with `was`
//! change the old CRD in the same way; without such lines, the CRD is created. `through status` updates the status.
//! Then follow the sorted errors (`!`) and the warnings (`~`).

use std::sync::Arc;

use pintle_gates::Gates;
use pintle_kinds::resources;
use pintle_registry::{Resource, Strategy, StrategyContext};
use pintle_schema::{Problems, normalise};
use pintle_value::time::Time;
use pintle_value::{FieldPath, Value};

const PLAIN: &str = r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.com"},
    "spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"widgets","kind":"Widget"},
    "versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}"#;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn context() -> StrategyContext {
    StrategyContext::for_user("u", Time { seconds: 1_700_000_000, nanos: 0 })
}

fn crds() -> Arc<Resource> {
    let mut all = resources(pintle_catalog::shared()).into_iter();
    all.find(|resource| resource.plural.as_str() == "customresourcedefinitions").expect("definitions are built in")
}

/// A test case.
struct TestCase {
    new: Value,
    old: Option<Value>,
    through_status: bool,
}

impl TestCase {
    fn parse(lines: &[&str]) -> Self {
        let mut case = TestCase { new: json(PLAIN), old: None, through_status: false };
        for line in lines {
            if *line == "through status" {
                case.through_status = true;
            } else if let Some(rest) = line.strip_prefix("was") {
                let old = case.old.get_or_insert_with(|| json(PLAIN));
                set(old, rest.trim());
            } else {
                set(&mut case.new, line);
            }
        }
        case
    }
}

fn set(crd: &mut Value, line: &str) {
    let Some((what, value)) = line.split_once(' ') else { return };
    let value = json(value);
    let part = match what {
        "schema" => return version(crd).set_at(&["schema", "openAPIV3Schema"], value),
        "status" => return crd.set("status", value),
        "version" => version(crd),
        "spec" => crd.get_mut("spec").expect("there is a spec"),
        "meta" => crd.get_mut("metadata").expect("there is metadata"),
        other => panic!("no line of a row starts with {other}"),
    };
    for (field, value) in value.entries_at(&[]) {
        part.set(field, value.clone());
    }
}

fn version(crd: &mut Value) -> &mut Value {
    let versions = crd.at_mut(&["spec", "versions"]).and_then(Value::as_array_mut);
    versions.and_then(|versions| versions.first_mut()).expect("there is a version")
}

/// Returns the errors and warnings of a write.
fn errors_and_warnings(resource: &Resource, case: &TestCase) -> Vec<String> {
    let strategy: &dyn Strategy = &*resource.strategy;
    let schema = &resource.schema;
    let decode = |crd: &Value| {
        let mut crd = crd.clone();
        normalise(&schema.types, schema.root, &mut crd, &mut Problems::default());
        strategy.defaults(&mut crd);
        crd
    };
    let (mut new, context) = (decode(&case.new), context());
    let old = case.old.as_ref().map(decode);
    let mut warnings = Vec::new();
    let errors = match &old {
        None => {
            strategy.prepare_for_create(&context, &mut new);
            warnings = strategy.warnings(&context, &new, None);
            let path = FieldPath::new("metadata.name");
            let mut errors = strategy.validate(&context, &new);
            let names = strategy.validate_object_name(&Gates::default(), &new, new.name(), false);
            names.into_iter().for_each(|message| errors.invalid(&path, new.name(), message));
            errors
        }
        Some(old) if case.through_status => {
            let status = strategy.subresource("status").expect("there is a status");
            status.prepare_for_update(&context, &mut new, old);
            status.validate_update(&context, &new, old)
        }
        Some(old) => {
            strategy.prepare_for_update(&context, &mut new, old);
            warnings = strategy.warnings(&context, &new, Some(old));
            strategy.validate_update(&context, &new, old)
        }
    };
    let mut errors: Vec<String> = errors.iter().map(|error| format!("! {error}").replace('\n', "\\n")).collect();
    errors.sort_unstable();
    warnings.sort_unstable();
    errors.extend(warnings.into_iter().map(|warning| format!("~ {warning}")));
    errors
}

/// Runs all cases of a file.
fn check(table: &str) {
    let resource = crds();
    pintle_scenarios::check(table, &['!', '~'], |lines| errors_and_warnings(&resource, &TestCase::parse(lines)));
}

#[test]
fn structural_schemas() {
    check(include_str!("structural.txt"));
}

#[test]
fn lists_and_maps() {
    check(include_str!("lists.txt"));
}

#[test]
fn rules() {
    check(include_str!("rules.txt"));
}

#[test]
fn specs() {
    check(include_str!("spec.txt"));
}

#[test]
fn changes() {
    check(include_str!("changes.txt"));
}

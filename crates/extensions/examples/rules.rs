//! Measures CEL validation rules. It prints the time of twenty ordinary rules on create and on update, and the memory
//! of a compiled rule. The object has about 2 KiB. `cargo run --release -p pintle-extensions --example rules`.

use std::hint::black_box;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Instant;

use pintle_extensions::build_resources;
use pintle_registry::{CostBudget, CrdSource, Resource};
use pintle_value::{Errors, Value, object};

/// Twenty rules: the path of the schema node and the rule.
const RULES: [(&str, &str); 20] = [
    ("spec", "self.replicas >= 0 && self.replicas <= 100"),
    ("spec", "!has(self.paused) || !self.paused || self.replicas == 0"),
    ("spec", "!has(self.strategy) || self.strategy in ['Rolling', 'Recreate']"),
    ("spec", "has(self.selector) && size(self.selector.matchLabels) > 0"),
    ("spec", "self.selector == oldSelf.selector"),
    ("spec", "self.containers.size() < 10"),
    ("spec", "self.containers.exists(c, c.name == 'web')"),
    ("spec", "self.containers.all(c, c.name != 'forbidden')"),
    (
        "spec",
        "!has(self.update) || !has(self.update.maxSurge) || type(self.update.maxSurge) == int || self.update.maxSurge.endsWith('%')",
    ),
    ("spec", "self.hosts.all(h, h.endsWith('.example.com'))"),
    ("spec", "!self.hosts.exists(h, h.startsWith('*.'))"),
    ("spec", "has(self.template) || self.replicas == 0"),
    ("spec", "!has(oldSelf.strategy) || has(self.strategy)"),
    ("spec.hosts", "self.size() <= 16"),
    ("spec.containers.*", "self.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')"),
    ("spec.containers.*", "!has(self.args) || self.args.size() <= 32"),
    ("spec.containers.*", "self.image.contains(':') && !self.image.endsWith(':latest')"),
    ("spec.containers.*", "!has(self.probe) || has(self.ports)"),
    ("spec.containers.*", "self.name == oldSelf.name"),
    ("", "self.metadata.name.size() <= 40"),
];

/// The source of the CRD's schema.
struct Source(Value);

impl CrdSource for Source {
    fn fingerprint(&self) -> &str {
        ""
    }

    fn schema(&self, _: &str) -> Option<Value> {
        Some(self.0.clone())
    }

    fn is_terminating(&self, _: u64, _: &[u8]) -> bool {
        false
    }
}

fn kind(schema: &Value) -> Option<Arc<Resource>> {
    let version = object! {
        "name": "v1", "served": true, "storage": true, "schema": object! { "openAPIV3Schema": schema.clone() },
    };
    let names = object! { "plural": "applications", "singular": "application", "kind": "Application" };
    let accepted = object! { "type": "NamesAccepted", "status": "True" };
    let crd = object! {
        "metadata": object! { "name": "applications.example.com" },
        "spec": object! { "group": "example.com", "names": names.clone(), "versions": vec![version] },
        "status": object! { "acceptedNames": names, "conditions": vec![accepted] },
    };
    build_resources(&crd, &(Arc::new(Source(schema.clone())) as Arc<dyn CrdSource>)).into_iter().next()
}

fn add(schema: &mut Value, path: &str, rule: &str) {
    let mut node = schema;
    for step in path.split('.').filter(|step| !step.is_empty()) {
        let way: &[&str] = if step == "*" { &["items"] } else { &["properties", step] };
        let Some(below) = node.at_mut(way) else { return };
        node = below;
    }
    node.set_default("x-kubernetes-validations", Value::Array(Vec::new()));
    let rules = node.get_mut("x-kubernetes-validations").and_then(Value::as_array_mut);
    rules.into_iter().for_each(|rules| rules.push(object! { "rule": rule }));
}

fn main() -> std::io::Result<()> {
    let plain: Value = serde_json::from_str(include_str!("../tests/data/application-schema.json"))?;
    let object: Value = serde_json::from_str(include_str!("../tests/data/application.json"))?;
    let mut schema = plain.clone();
    RULES.iter().for_each(|(path, rule)| add(&mut schema, path, rule));
    let no_kind = || std::io::Error::other("the CRD cannot be served");
    let ruled = kind(&schema).ok_or_else(no_kind)?;
    let validate = |kind: &Resource, old| {
        let mut errors = Errors::new();
        kind.strategy.validate_expensive(&object, old, &mut errors, CostBudget::Limited);
        errors
    };
    let mut out = std::io::stdout().lock();
    let start = Instant::now();
    let errors = validate(&ruled, None);
    writeln!(out, "compiling {} rules: {:.0} µs", RULES.len(), start.elapsed().as_secs_f64() * 1e6)?;
    writeln!(out, "errors: {:?}", errors.message())?;
    let mut time = |what: &str, work: &dyn Fn()| -> std::io::Result<()> {
        const ROUNDS: u32 = 20_000;
        (0..ROUNDS / 10).for_each(|_| work());
        let start = Instant::now();
        (0..ROUNDS).for_each(|_| work());
        writeln!(out, "{what}: {:.2} µs", start.elapsed().as_secs_f64() * 1e6 / f64::from(ROUNDS))
    };
    time("rules of a create", &|| drop(black_box(validate(&ruled, None))))?;
    time("rules of an update", &|| drop(black_box(validate(&ruled, Some(&object)))))?;

    // Measures the memory of many kinds with compiled rules.
    const KINDS: usize = 200;
    let kinds: Vec<_> = (0..KINDS).filter_map(|_| kind(&schema)).collect();
    let before = resident()?;
    kinds.iter().for_each(|kind| drop(validate(kind, None)));
    let rules = KINDS * RULES.len();
    writeln!(out, "memory: {} bytes per compiled rule, with how values are read", (resident()? - before) / rules)
}

/// The resident memory of the process, in bytes.
fn resident() -> std::io::Result<usize> {
    const PAGE: usize = 4096;
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok());
    pages.map(|pages| pages * PAGE).ok_or_else(|| std::io::Error::other("no statm"))
}

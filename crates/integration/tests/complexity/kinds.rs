//! The rules of every built-in kind, with each of its lists and maps made larger: defaults, preparation, validation and
//! warnings of creates and updates.

use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use pintle_codec::yaml;
use pintle_registry::{Resource, StrategyContext};
use pintle_schema::{Problems, Type, TypeId, normalise, static_defaults};
use pintle_value::time::Time;
use pintle_value::{Object, Str, Value};

use crate::growth::{self, FACTOR, Growth};
use crate::values;

/// The minimum number of items in a measurement.
const MIN_ITEMS: usize = 128;
/// The number of items is doubled until the work takes this time.
const MIN_TIME: Duration = Duration::from_millis(3);

/// A list or map in an object.
struct Collection {
    path: Vec<Step>,
    merge_key: Str,
}

#[derive(Clone, Debug)]
enum Step {
    Field(Str),
    /// The first item of a list.
    Item,
    /// An entry of a map.
    Entry,
}

impl Step {
    fn text(&self) -> String {
        match self {
            Self::Field(name) => format!(".{name}"),
            Self::Item => "[]".to_owned(),
            Self::Entry => "{}".to_owned(),
        }
    }
}

/// Finds the lists and maps of a kind whose struct has not been seen before.
struct CollectionFinder<'r> {
    resource: &'r Resource,
    seen: &'r mut HashSet<(Str, Str)>,
    found: Vec<Collection>,
}

impl CollectionFinder<'_> {
    fn find(&mut self, id: TypeId, path: &mut Vec<Step>, merge_key: &Str) {
        let types = self.resource.schema.types.clone();
        match types.get(id) {
            // `subjects::DEFINITIONS` has the schemas of CRDs.
            Type::Struct(ty) if ty.name.ends_with("JSONSchemaProps") => {}
            Type::Struct(ty) => {
                for field in &ty.fields {
                    // Metadata is the same in all kinds.
                    let is_metadata = path.is_empty() && field.name == "metadata";
                    if !is_metadata && self.seen.insert((ty.name.clone(), field.name.clone())) {
                        path.push(Step::Field(field.name.clone()));
                        self.find(field.ty, path, &field.patch.merge_key);
                        path.pop();
                    }
                }
            }
            Type::List(list) => self.collection(list.item, Step::Item, path, merge_key),
            Type::Map(map) => self.collection(map.value, Step::Entry, path, merge_key),
            _ => {}
        }
    }

    fn collection(&mut self, below: TypeId, step: Step, path: &mut Vec<Step>, merge_key: &Str) {
        self.found.push(Collection { path: path.clone(), merge_key: merge_key.clone() });
        path.push(step);
        self.find(below, path, &Str::default());
        path.pop();
    }
}

/// The sample of a kind; an empty object if there is none.
fn sample(resource: &Resource) -> Value {
    let group = if resource.group.is_empty() { "core" } else { &resource.group };
    let name = format!("{group}.{}.{}.yaml", resource.version, resource.plural);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/objects/every_kind/samples").join(name);
    let Ok(text) = std::fs::read_to_string(path) else { return Value::object() };
    let object = text.split("\n---\n").next().unwrap_or_default();
    yaml::decode(object.as_bytes()).expect("a sample").value
}

impl Collection {
    /// The object with items or entries from a number on.
    fn grown(&self, resource: &Resource, sample: &Value, numbers: impl Iterator<Item = usize>) -> Value {
        let types = &resource.schema.types;
        let mut object = sample.clone();
        let mut place = (&mut object, resource.schema.root);
        for step in &self.path {
            let (value, ty) = place;
            place = match (step, types.get(ty)) {
                (Step::Field(name), Type::Struct(ty)) => {
                    let field = ty.field(name).expect("a field");
                    let fields = value.or_object().expect("an object");
                    (fields.entry(name), field.ty)
                }
                (Step::Item, Type::List(list)) => {
                    if value.as_array().is_none_or(Vec::is_empty) {
                        *value = Value::Array(vec![values::value(types, list.item, 0)]);
                    }
                    (&mut value.as_array_mut().expect("a list")[0], list.item)
                }
                (Step::Entry, Type::Map(map)) => {
                    let entries = value.or_object().expect("an object");
                    if entries.is_empty() {
                        entries.insert("k", values::value(types, map.value, 0));
                    }
                    let key = entries.keys().next().expect("a key").to_owned();
                    (entries.entry(&key), map.value)
                }
                (step, _) => unreachable!("{step:?} leads nowhere"),
            };
        }
        let (value, ty) = place;
        *value = match types.get(ty) {
            Type::List(list) => {
                let sample = value.as_array().and_then(|items| items.first()).cloned();
                numbers
                    .map(|i| values::item(types, list, &self.merge_key, sample.as_ref(), i))
                    .collect::<Vec<_>>()
                    .into()
            }
            Type::Map(map) => {
                let entry = |i| (Str::from(format!("k{i}")), values::value(types, map.value, i));
                Value::Object(Object::from_entries(numbers.map(entry).collect()))
            }
            other => unreachable!("{other:?} is no collection"),
        };
        object
    }

    /// The time of the rules for a create and for updates of an object with this number of items.
    fn measure(&self, resource: &Resource, sample: &Value, items: usize) -> Duration {
        let object = self.grown(resource, sample, 0..items);
        let reversed = self.grown(resource, sample, (0..items).rev());
        let changed = self.grown(resource, sample, items..2 * items);
        let start = growth::thread_time();
        let context = StrategyContext::for_user("admin", Time { seconds: 1_700_000_000, nanos: 0 });
        let (strategy, types, root) = (&resource.strategy, &resource.schema.types, resource.schema.root);
        let decoded = |mut object: Value| {
            normalise(types, root, &mut object, &mut Problems::default());
            static_defaults(types, root, &mut object);
            strategy.defaults(&mut object);
            object
        };
        let mut stored = decoded(object);
        strategy.prepare_for_create(&context, &mut stored);
        std::hint::black_box(strategy.validate(&context, &stored));
        std::hint::black_box(strategy.warnings(&context, &stored, None));
        let changed = decoded(changed);
        for mut object in [stored.clone(), decoded(reversed), changed.clone()] {
            strategy.prepare_for_update(&context, &mut object, &stored);
            std::hint::black_box(strategy.validate_update(&context, &object, &stored));
            std::hint::black_box(strategy.warnings(&context, &object, Some(&stored)));
        }
        for rules in resource.subresources.iter().filter_map(|subresource| strategy.subresource(&subresource.name)) {
            let mut object = changed.clone();
            rules.prepare_for_update(&context, &mut object, &stored);
            std::hint::black_box(rules.validate_update(&context, &object, &stored));
        }
        growth::thread_time() - start
    }
}

#[test]
fn rules_of_every_kind_cost_no_more_than_n_log_n() {
    let _alone = growth::alone();
    let mut seen = HashSet::new();
    let mut problems = Vec::new();
    let mut count = 0;
    for resource in pintle_kinds::all_resources(pintle_catalog::complete()) {
        if resource.collection().is_none() || !resource.is_hub() {
            continue;
        }
        let mut finder = CollectionFinder { resource: &resource, seen: &mut seen, found: Vec::new() };
        finder.find(resource.schema.root, &mut Vec::new(), &Str::default());
        let found = finder.found;
        let sample = sample(&resource);
        for collection in found {
            count += 1;
            let path: String = collection.path.iter().map(Step::text).collect();
            let subject = format!("{} {path}", resource.kind);
            let mut items = MIN_ITEMS;
            let mut time = collection.measure(&resource, &sample, items);
            while time < MIN_TIME {
                items *= 2;
                time = collection.measure(&resource, &sample, items);
            }
            problems.extend(growth::check(&subject, || {
                let measure = |items| collection.measure(&resource, &sample, items);
                Growth::of(measure(items), measure(FACTOR * items))
            }));
        }
    }
    assert!(count > 300, "only {count} lists and maps are known");
    growth::report(&problems);
}

//! Declarative validation of writes: it runs at the version of the request, after the strategy's own validation
//! (upstream: `ValidateDeclarativelyWithMigrationChecks`).

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use pintle_codec::json::encode_typed;
use pintle_registry::{DeclarativeWrite, Resource, Strategy, StrategyContext};
use pintle_schema::{Type, TypeId, Types};
use pintle_value::{ErrorKind, Errors, FieldError, Value};

use super::validate::ApplicableRules;
use crate::conversion::from_hub;

/// Appends the errors of declarative validation of a write at the hub version. They replace the errors of code that
/// rules in beta cover.
pub(super) fn validate(
    context: &StrategyContext,
    rules: &ApplicableRules<'_>,
    errors: &mut Errors,
    object: &Value,
    old: Option<&Value>,
) {
    let resource = rules.resource;
    let Some(declarative) = &resource.declarative else { return };
    if !declarative.applies(&context.gates, rules.subresource_name) {
        return;
    }
    let strategy = &*rules.hub.strategy;
    let has_option = |option: &str| strategy.has_option(&context.gates, option, old);
    let object = at_version(resource, object);
    let old = match (rules.old_at_version, old) {
        (Some(old), Some(_)) => Some(Cow::Borrowed(old)),
        (None, Some(old)) => Some(at_version(resource, old)),
        (_, None) => None,
    };
    let write =
        DeclarativeWrite { gates: &context.gates, has_option: &has_option, object: &object, old: old.as_deref() };
    let mut found = declarative.validate(&write);
    if found.is_empty() {
        return;
    }
    let covered = Covered::by(strategy, &found, errors);
    errors.retain(|own| !covered.contains(own));
    found.iter_mut().for_each(|error| show_in_order(resource, error));
    errors.append(found);
}

/// A hub object at the version of a resource.
fn at_version<'v>(resource: &Resource, object: &'v Value) -> Cow<'v, Value> {
    if resource.is_hub() { Cow::Borrowed(object) } else { Cow::Owned(from_hub(resource, object.clone())) }
}

/// The errors of code that errors of rules in beta replace. They have the same type and field. Upstream also compares the
/// rules that found them. Several errors of type `Invalid` may have the same field, so their details are compared if
/// one of them has the same detail.
struct Covered<'e> {
    inlined: &'static [&'static str],
    by_field: HashMap<String, Vec<&'e FieldError>>,
    /// The fields with an error of code that has the detail of a rule's error.
    repeated: HashSet<String>,
}

impl<'e> Covered<'e> {
    fn by(strategy: &dyn Strategy, found: &'e Errors, own: &Errors) -> Self {
        let inlined = strategy.inlined_fields();
        let mut covered = Self { inlined, by_field: HashMap::new(), repeated: HashSet::new() };
        if own.is_empty() {
            return covered;
        }
        for error in found.iter().filter(|error| error.is_beta) {
            covered.by_field.entry(without(&error.field, inlined)).or_default().push(error);
        }
        let is_repeated = |own: &FieldError| covered.of(own).any(|error| error.detail == own.detail);
        let repeated = own.iter().filter(|own| own.kind == ErrorKind::Invalid && is_repeated(own));
        covered.repeated = repeated.map(|own| without(&own.field, inlined)).collect();
        covered
    }

    /// The errors of rules with the type and field of an error of code.
    fn of<'s>(&'s self, own: &FieldError) -> impl Iterator<Item = &'e FieldError> + use<'s, 'e> {
        let kind = own.kind;
        let found = self.by_field.get(&without(&own.field, self.inlined));
        found.into_iter().flatten().copied().filter(move |error| error.kind == kind)
    }

    fn contains(&self, own: &FieldError) -> bool {
        let compares_details =
            own.kind == ErrorKind::Invalid && self.repeated.contains(&without(&own.field, self.inlined));
        self.of(own).any(|error| !compares_details || error.detail == own.detail)
    }
}

/// A path without the names of some fields.
fn without(path: &str, fields: &[&str]) -> String {
    path.split('.').filter(|name| !fields.contains(name)).collect::<Vec<_>>().join(".")
}

/// Prints the value of an error like the JSON of its Go struct.
fn show_in_order(resource: &Resource, error: &mut FieldError) {
    if !matches!(error.value, Value::Object(_)) {
        return;
    }
    let schema = &resource.schema;
    if let Some(ty) = type_at(&schema.types, schema.root, &error.field) {
        let mut text = Vec::new();
        encode_typed(&error.value, &schema.types, ty, &mut text);
        error.shown = String::from_utf8(text).ok().map(|text| text.trim_end().to_owned());
    }
}

/// The type of the values at a path such as `spec.containers[0].env`.
fn type_at(types: &Types, root: TypeId, path: &str) -> Option<TypeId> {
    let (mut ty, mut rest) = (root, path);
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            ty = match types.get(ty) {
                Type::List(list) => list.item,
                Type::Map(map) => map.value,
                _ => return None,
            };
            rest = inner.split_once(']')?.1;
        } else {
            rest = rest.strip_prefix('.').unwrap_or(rest);
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            let Type::Struct(owner) = types.get(ty) else { return None };
            ty = owner.field(&rest[..end])?.ty;
            rest = &rest[end..];
        }
    }
    Some(ty)
}

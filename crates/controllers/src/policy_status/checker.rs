//! Type checks the expressions of a policy for the kinds that its rules name (upstream: `TypeChecker` of
//! `policy/validating/typechecking.go`).

use std::collections::BTreeSet;
use std::sync::Arc;

use pintle_admission_cel::TypeChecker;
use pintle_registry::{GroupVersion, GroupVersionKind, Registry, Resource};
use pintle_value::{Value, object};

use super::types::SchemaTypes;

/// The number of kinds after which no more are collected.
const MAX_KINDS: usize = 10;

/// The expression warnings of a policy, as its status has them.
pub(super) fn check(registry: &Registry, policy: &Value) -> Vec<Value> {
    let spec = &policy["spec"];
    let checkers: Vec<(GroupVersionKind, TypeChecker)> = kinds(registry, spec)
        .into_iter()
        .filter_map(|kind| Some((kind.clone(), checker(registry, spec, &kind)?)))
        .collect();
    let mut warnings = Vec::new();
    for (i, validation) in spec.items_at(&["validations"]).iter().enumerate() {
        for field in ["expression", "messageExpression"] {
            let expression = validation.str_at(&[field]);
            if expression.is_empty() && field == "messageExpression" {
                continue;
            }
            let found: Vec<String> = checkers
                .iter()
                .filter_map(|(kind, checker)| {
                    let GroupVersionKind { group, version, kind } = kind;
                    Some(format!("{group}/{version}, Kind={kind}: {}\n", checker.check(expression)?))
                })
                .collect();
            if !found.is_empty() {
                let path = format!("spec.validations[{i}].{field}");
                warnings.push(object! {"fieldRef": path, "warning": found.join("\n")});
            }
        }
    }
    warnings
}

/// The resources whose schemas decide about the warnings of a policy: the kinds that its rules name, and the kind of
/// its parameters.
pub(super) fn resources(registry: &Registry, policy: &Value) -> Vec<Arc<Resource>> {
    let spec = &policy["spec"];
    let named = kinds(registry, spec).into_iter();
    named.chain(param_kind(spec)).filter_map(|kind| registry.kind(&kind).cloned()).collect()
}

/// The kind of the parameters.
fn param_kind(spec: &Value) -> Option<GroupVersionKind> {
    let kind = spec.get("paramKind")?;
    let GroupVersion { group, version } = GroupVersion::parse(kind.str_at(&["apiVersion"]))?;
    Some(GroupVersionKind::new(group, version, kind.str_at(&["kind"])))
}

/// The checker for one kind. `None` if its schema is not known.
fn checker(registry: &Registry, spec: &Value, kind: &GroupVersionKind) -> Option<TypeChecker> {
    let mut types = SchemaTypes::default();
    let object = types.add(&kind.kind, &registry.kind(kind)?.schema);
    let params = param_kind(spec).map(|kind| {
        let found = registry.kind(&kind);
        found.map_or(pintle_cel::Type::Dyn, |found| types.add(&kind.kind, &found.schema))
    });
    let mut checker = TypeChecker::new(Arc::new(types), object, params);
    for variable in spec.items_at(&["variables"]) {
        checker.add_variable(variable.str_at(&["name"]), variable.str_at(&["expression"]));
    }
    Some(checker)
}

/// The kinds that the rules name, in order. Rules with wildcards name none, except for the resources beside a wildcard.
fn kinds(registry: &Registry, spec: &Value) -> BTreeSet<GroupVersionKind> {
    let mut kinds = BTreeSet::new();
    for rule in spec.items_at(&["matchConstraints", "resourceRules"]) {
        let sorted = |field: &str| {
            let mut texts: Vec<&str> = rule.items_at(&[field]).iter().filter_map(Value::as_str).collect();
            texts.sort_unstable();
            texts
        };
        let [groups, versions, mut resources] = ["apiGroups", "apiVersions", "resources"].map(sorted);
        resources.retain(|resource| !resource.contains(['*', '/']));
        if groups.iter().chain(&versions).any(|text| text.contains('*')) {
            continue;
        }
        let mut count = 0;
        for group in &groups {
            for version in &versions {
                for resource in &resources {
                    // As in upstream, the empty group stands for all groups.
                    let is_named = |found: &&Arc<Resource>| {
                        (group.is_empty() || found.group == **group)
                            && found.version == **version
                            && found.plural == **resource
                    };
                    for found in registry.resources().filter(is_named) {
                        kinds.insert(Resource::gvk(found));
                        count += 1;
                        if count == MAX_KINDS {
                            return kinds;
                        }
                    }
                }
            }
        }
    }
    kinds
}

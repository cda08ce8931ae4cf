//! Ratcheting: an update of a CustomResourceDefinition must pass only the checks that the old CRD passes (upstream: how
//! `ValidateCustomResourceDefinitionUpdate` fills `validationOptions`).

use std::collections::{HashMap, HashSet};

use pintle_value::{Errors, FieldPath, Value};

use super::conversion::{has_known_review_version, has_unreadable_bundle};
use super::schema::{Node, lists, openapi, structural, unsupported};
use super::selectable_fields::MAX_SELECTABLE;
use super::spec::{is_common, is_established, schemas, versions};
use super::validation_options::ValidationOptions;
use crate::generic::same_at;

/// Returns the options for an update of `old`.
pub(super) fn options_for_update(object: &Value, old: &Value) -> ValidationOptions {
    let conversion = &old["spec"]["conversion"];
    let any = |is: &mut dyn FnMut(Node<'_>) -> bool| schemas(old).any(|schema| schema.any(is));
    ValidationOptions {
        require_known_review_version: has_known_review_version(conversion),
        require_immutable_names: is_established(old),
        require_schemas: versions(old).iter().all(|version| version.at(&["schema", "openAPIV3Schema"]).is_some()),
        require_known_types: !any(&mut |node| {
            !matches!(node.text("type"), "") && !openapi::TYPES.contains(&node.text("type"))
        }),
        require_structural_schemas: schemas(old).all(is_structural),
        require_pruned_defaults: true,
        require_atomic_sets: !any(&mut |node| lists::non_atomic_set_item(node).is_some()),
        require_list_items: !any(&mut |node| {
            let mut errors = Errors::new();
            lists::validate_items(&mut errors, node, &FieldPath::root());
            !errors.is_empty()
        }),
        require_readable_bundle: is_established(old) && !has_unreadable_bundle(old),
        unchanged_schemas: unchanged_schemas(object, old),
        too_many_selectable_fields: too_many_selectable_fields(object, old),
    }
}

fn is_structural(schema: Node<'_>) -> bool {
    unsupported::fault(schema).is_none() && structural::validate(schema, &FieldPath::root()).is_empty()
}

/// Returns the versions that both CRDs have, with their names.
fn pairs<'v>(object: &'v Value, old: &'v Value) -> impl Iterator<Item = (&'v str, &'v Value, &'v Value)> {
    let before: HashMap<&str, &Value> =
        versions(old).iter().rev().map(|version| (version.str_at(&["name"]), version)).collect();
    versions(object).iter().filter_map(move |version| {
        let name = version.str_at(&["name"]);
        before.get(name).map(|old| (name, version, *old))
    })
}

fn unchanged_schemas(object: &Value, old: &Value) -> HashSet<String> {
    let same = pairs(object, old).filter(|(_, new, old)| same_at(new, old, &["schema"]));
    same.map(|(name, ..)| name.to_owned()).collect()
}

/// Returns the versions whose selectable fields exceed the limit but did not change. If all versions have the same
/// fields, the empty name stands for all of them.
fn too_many_selectable_fields(object: &Value, old: &Value) -> HashSet<String> {
    const FIELD: &str = "selectableFields";
    let kept = |new: &Value, old: &Value| old.items_at(&[FIELD]).len() > MAX_SELECTABLE && same_at(new, old, &[FIELD]);
    match (is_common(versions(object), FIELD), is_common(versions(old), FIELD)) {
        (true, true) if kept(&object["spec"]["versions"][0], &old["spec"]["versions"][0]) => [String::new()].into(),
        (false, false) => {
            pairs(object, old).filter(|(_, new, old)| kept(new, old)).map(|(name, ..)| name.to_owned()).collect()
        }
        _ => HashSet::new(),
    }
}

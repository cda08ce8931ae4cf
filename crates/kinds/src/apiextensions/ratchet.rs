//! What is asked of a definition: all of it of a new one; of a change only what the definition before it fulfilled
//! (upstream: `validationOptions` and how `ValidateCustomResourceDefinitionUpdate` fills them).

use std::collections::{HashMap, HashSet};

use pintle_value::{Errors, FieldPath, Value};

use super::conversion::{is_unreadable_bundle, knows_a_review};
use super::schema::{Node, lists, openapi, structural, unsupported};
use super::selectable::MAX_SELECTABLE;
use super::spec::{is_common, is_established, schemas, versions};
use crate::strategy::same_at;

/// What is asked.
#[derive(Debug)]
pub(super) struct Demands {
    /// A version of ConversionReview that the server knows.
    pub(super) known_review: bool,
    /// That scope and kind stay.
    pub(super) same_names: bool,
    /// A schema per version.
    pub(super) schemas: bool,
    /// Types that there are.
    pub(super) known_types: bool,
    /// Structural schemas.
    pub(super) structural: bool,
    /// Defaults without unknown fields.
    pub(super) pruned_defaults: bool,
    /// Items of sets that are values as a whole.
    pub(super) atomic_sets: bool,
    /// Items and keys of lists that are there.
    pub(super) list_items: bool,
    /// A CA bundle that can be read.
    pub(super) readable_bundle: bool,
    /// The versions whose schema is as it was.
    pub(super) unchanged: HashSet<String>,
    /// The versions with too many selectable fields, which may stay; the empty name stands for all.
    pub(super) too_many_selectable: HashSet<String>,
}

impl Demands {
    /// What is asked of a new definition. It is not established yet, and so its CA bundle is not looked at.
    pub(super) fn of_new() -> Self {
        Self {
            known_review: true,
            same_names: false,
            schemas: true,
            known_types: true,
            structural: true,
            pruned_defaults: true,
            atomic_sets: true,
            list_items: true,
            readable_bundle: false,
            unchanged: HashSet::new(),
            too_many_selectable: HashSet::new(),
        }
    }

    /// What is asked of a change of `old`.
    pub(super) fn of_change(object: &Value, old: &Value) -> Self {
        let conversion = &old["spec"]["conversion"];
        let any = |is: &mut dyn FnMut(Node<'_>) -> bool| schemas(old).any(|schema| schema.any(is));
        let unreadable = |bundle: &str| !bundle.is_empty() && is_unreadable_bundle(bundle);
        Self {
            known_review: knows_a_review(conversion),
            same_names: is_established(old),
            schemas: versions(old).iter().all(|version| version.at(&["schema", "openAPIV3Schema"]).is_some()),
            known_types: !any(&mut |node| {
                !matches!(node.text("type"), "") && !openapi::TYPES.contains(&node.text("type"))
            }),
            structural: schemas(old).all(is_structural),
            pruned_defaults: true,
            atomic_sets: !any(&mut |node| lists::set_item_fault(node).is_some()),
            list_items: !any(&mut |node| {
                let mut errors = Errors::new();
                lists::validate_items(&mut errors, node, &FieldPath::root());
                !errors.is_empty()
            }),
            readable_bundle: is_established(old)
                && !unreadable(conversion.str_at(&["webhook", "clientConfig", "caBundle"])),
            unchanged: unchanged(object, old),
            too_many_selectable: too_many_selectable(object, old),
        }
    }
}

fn is_structural(schema: Node<'_>) -> bool {
    unsupported::fault(schema).is_none() && structural::validate(schema, &FieldPath::root()).is_empty()
}

/// The versions of both, by name.
fn pairs<'v>(object: &'v Value, old: &'v Value) -> impl Iterator<Item = (&'v str, &'v Value, &'v Value)> {
    let before: HashMap<&str, &Value> =
        versions(old).iter().rev().map(|version| (version.str_at(&["name"]), version)).collect();
    versions(object).iter().filter_map(move |version| {
        let name = version.str_at(&["name"]);
        before.get(name).map(|old| (name, version, *old))
    })
}

fn unchanged(object: &Value, old: &Value) -> HashSet<String> {
    let same = pairs(object, old).filter(|(_, new, old)| same_at(new, old, &["schema"]));
    same.map(|(name, ..)| name.to_owned()).collect()
}

/// Selectable fields count as they are: of all versions where they are the same in all, or of each.
fn too_many_selectable(object: &Value, old: &Value) -> HashSet<String> {
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

//! The tree of templates of a workload: composite templates have composite templates and templates of pod groups
//! (upstream: `pkg/apis/scheduling/validation`). A workload has either templates of pod groups, or a tree.

use std::collections::HashMap;

use pintle_value::{Errors, FieldError, FieldPath, Value};

use crate::go_json::{self, GoType};

pub(super) const POD_GROUPS: &str = "podGroupTemplates";
pub(super) const COMPOSITES: &str = "compositePodGroupTemplates";

/// The number of levels of a tree. The last level has templates of pod groups only.
const MAX_DEPTH: usize = 4;

/// How upstream's internal type prints composite templates.
const COMPOSITE_LIST: GoType = GoType::List(&GoType::Of("scheduling/v1beta1.CompositePodGroupTemplate"));

/// Calls a function with each template below an owner: a workload's spec or a composite template. `true` is for
/// composite templates.
pub(super) fn each_template<'v>(owner: &'v Value, each: &mut dyn FnMut(&'v Value, bool)) {
    for composite in owner.items_at(&[COMPOSITES]) {
        each(composite, true);
        each_template(composite, each);
    }
    for template in owner.items_at(&[POD_GROUPS]) {
        each(template, false);
    }
}

/// Validates the templates of a workload's spec as a tree.
pub(super) fn validate_tree(errors: &mut Errors, spec: &Value) {
    let path = FieldPath::new("spec");
    if spec.items_at(&[POD_GROUPS]).is_empty() {
        UniqueNames::default().visit(errors, spec, &path);
    }
    let composites = path.child(COMPOSITES);
    for (i, root) in spec.items_at(&[COMPOSITES]).iter().enumerate() {
        if depth(root) >= MAX_DEPTH {
            let detail = format!("maximum template hierarchy depth is {MAX_DEPTH}");
            errors.push(go_json::invalid(&composites.index(i), &root[COMPOSITES], &COMPOSITE_LIST, &detail));
        }
    }
    validate_priorities(errors, spec, &path);
}

/// The number of levels of composite templates from a composite template on.
fn depth(composite: &Value) -> usize {
    1 + composite.items_at(&[COMPOSITES]).iter().map(depth).max().unwrap_or(0)
}

/// Requires that all templates have the same priority.
fn validate_priorities(errors: &mut Errors, spec: &Value, path: &FieldPath<'_>) {
    let mut priorities = Vec::new();
    each_template(spec, &mut |template, _| {
        priorities.push((template.str_at(&["priorityClassName"]), template.int_at(&["priority"])));
    });
    if priorities.windows(2).any(|pair| pair[0] != pair[1]) {
        errors.push(FieldError::invalid(path, Value::Null, "detected multiple priority configurations"));
    }
}

/// Requires that a name is used in one list only. Another rule reports names that a list has twice.
#[derive(Default)]
struct UniqueNames<'v> {
    /// The names, each with the list that has it.
    lists: HashMap<&'v str, usize>,
    count: usize,
}

impl<'v> UniqueNames<'v> {
    /// Visits the templates below an owner.
    fn visit(&mut self, errors: &mut Errors, owner: &'v Value, path: &FieldPath<'_>) {
        for (field, is_composite) in [(COMPOSITES, true), (POD_GROUPS, false)] {
            let path = path.child(field);
            self.count += 1;
            let list = self.count;
            for (i, template) in owner.items_at(&[field]).iter().enumerate() {
                let path = path.index(i);
                let name = template.str_at(&["name"]);
                if *self.lists.entry(name).or_insert(list) != list {
                    errors.duplicate(&path.child("name"), name);
                }
                if is_composite {
                    self.visit(errors, template, &path);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{messages, object};

    #[track_caller]
    fn check(spec: &str, expect: &[&str]) {
        let mut errors = Errors::new();
        validate_tree(&mut errors, &object(spec));
        assert_eq!(messages(&errors), expect);
    }

    /// A composite template with a composite template inside, and so on.
    fn nested(levels: usize) -> String {
        let inner = if levels > 1 { nested(levels - 1) } else { String::new() };
        format!(r#"{{"name":"c{levels}","compositePodGroupTemplates":[{inner}]}}"#)
    }

    #[test]
    fn names_are_unique_in_the_tree() {
        check(r#"{"podGroupTemplates":[{"name":"a"},{"name":"a"}]}"#, &[]);
        check(
            r#"{"compositePodGroupTemplates":[{"name":"a","podGroupTemplates":[{"name":"b"},{"name":"b"}],
                "compositePodGroupTemplates":[{"name":"c","podGroupTemplates":[{"name":"a"}]}]},{"name":"b"}]}"#,
            &[
                "spec.compositePodGroupTemplates[0].compositePodGroupTemplates[0].podGroupTemplates[0].name: Duplicate value: \"a\"",
                "spec.compositePodGroupTemplates[1].name: Duplicate value: \"b\"",
            ],
        );
    }

    #[test]
    fn the_depth_is_limited() {
        let spec = |levels| format!(r#"{{"compositePodGroupTemplates":[{}]}}"#, nested(levels));
        check(&spec(3), &[]);
        for levels in [4, 6] {
            let mut errors = Errors::new();
            validate_tree(&mut errors, &object(&spec(levels)));
            let found = messages(&errors);
            let (start, end) =
                ("spec.compositePodGroupTemplates[0]: Invalid value: [{", ": maximum template hierarchy depth is 4");
            assert!(found.len() == 1 && found[0].starts_with(start) && found[0].ends_with(end), "{found:?}");
        }
    }

    #[test]
    fn all_templates_have_one_priority() {
        check(r#"{"podGroupTemplates":[{"name":"a","priority":1},{"name":"b","priority":1}]}"#, &[]);
        let different = "spec: Invalid value: null: detected multiple priority configurations";
        check(r#"{"podGroupTemplates":[{"name":"a","priority":1},{"name":"b"}]}"#, &[different]);
        check(
            r#"{"compositePodGroupTemplates":[{"name":"a","priorityClassName":"x","podGroupTemplates":[{"name":"b"}]}]}"#,
            &[different],
        );
    }
}

//! The compiled rules of a schema: a tree of the nodes that have rules or descendants with rules (upstream:
//! `NewValidator` of apiextensions-apiserver's `pkg/apiserver/schema/cel`).

use std::sync::Arc;

use pintle_cel::Program;
use pintle_kinds::{SchemaStep, resolve_field_path};
use pintle_value::{Str, Value};

use super::compile::RuleEnvironments;
use super::decl_type::DeclType;
use super::value_adapter::ValueAdapter;
use crate::schema::{Additional, SchemaNode};

/// The compiled rules of a schema node and its descendants.
#[derive(Debug, Default)]
pub(crate) struct CelValidator {
    /// The rules in schema order.
    pub(super) rules: Box<[Rule]>,
    /// True if the node has rules but no CEL type.
    pub(super) has_untyped_rules: bool,
    /// The adapter for values; present if the node has rules.
    pub(super) adapter: Option<Arc<ValueAdapter>>,
    /// True if a rule uses `oldSelf`.
    pub(super) use_old_self: bool,
    pub(super) properties: Box<[(Str, CelValidator)]>,
    pub(super) items: Option<Box<CelValidator>>,
    pub(super) values: Option<Box<CelValidator>>,
}

/// A compiled rule. Its texts stay in the schema.
#[derive(Debug)]
pub(super) struct Rule {
    /// The program, or its compile error. `None` for an empty rule.
    pub(super) program: Option<Result<Program, Box<str>>>,
    pub(super) uses_old_self: bool,
    /// True if `oldSelf` is optional.
    pub(super) optional_old_self: bool,
    /// The message expression. It is `None`, too, if it does not compile.
    pub(super) message: Option<Program>,
    /// The relative path of the field that errors refer to (`fieldPath`).
    pub(super) field: Option<Box<str>>,
}

impl CelValidator {
    /// Compiles the rules of a schema node. Returns `None` if there are no rules. `resource` is true for the root and
    /// for embedded resources.
    pub(crate) fn of(node: SchemaNode<'_>, resource: bool) -> Option<Self> {
        if !node.has_rules_within() {
            return None;
        }
        Self::node(node, resource, DeclType::of(node, resource), None)
    }

    /// `adapter` is the node's adapter, if the parent has it.
    fn node(
        node: SchemaNode<'_>,
        resource: bool,
        decl_type: Option<Arc<DeclType>>,
        adapter: Option<Arc<ValueAdapter>>,
    ) -> Option<Self> {
        if !node.has_rules_within() {
            return None;
        }
        let adapter = adapter.or_else(|| (!node.rules().is_empty()).then(|| ValueAdapter::of(node, resource)));
        let below = |node: SchemaNode<'_>, step: SchemaStep<'_>| {
            let decl_type = decl_type.as_ref().and_then(|around| around.step(step)).cloned();
            Self::node(
                node,
                node.is_embedded_resource(),
                decl_type,
                adapter.as_ref().and_then(|adapter| adapter.step(step)),
            )
        };
        let properties = node.properties().filter_map(|(name, property)| {
            let step = SchemaStep::Property(name);
            let rules = if DeclType::can_name(name) {
                // Fields without a CEL type are skipped.
                decl_type.as_ref()?.step(step)?;
                below(property, step)
            } else {
                let resource = property.is_embedded_resource();
                Self::node(property, resource, Some(DeclType::of(property, resource)?), None)
            };
            Some((Str::from(name), rules?))
        });
        let properties: Box<[(Str, CelValidator)]> = properties.collect();
        let items = node.items().and_then(|items| below(items, SchemaStep::Items)).map(Box::new);
        let values = match node.additional() {
            Additional::Values(values) => below(values, SchemaStep::Values).map(Box::new),
            _ => None,
        };
        let has_untyped_rules = decl_type.is_none() && !node.rules().is_empty();
        let rules = decl_type.map_or_else(Default::default, |decl_type| compile(node, decl_type));
        let use_old_self = rules.iter().any(|rule| rule.uses_old_self);
        let nothing =
            rules.is_empty() && !has_untyped_rules && properties.is_empty() && items.is_none() && values.is_none();
        (!nothing).then_some(Self { rules, has_untyped_rules, adapter, use_old_self, properties, items, values })
    }
}

fn compile(node: SchemaNode<'_>, decl_type: Arc<DeclType>) -> Box<[Rule]> {
    let rules = node.rules();
    if rules.is_empty() {
        return Box::default();
    }
    let environments = RuleEnvironments::of(decl_type, None);
    rules.iter().map(|rule| Rule::of(rule, node, &environments)).collect()
}

impl Rule {
    fn of(rule: &Value, node: SchemaNode<'_>, environments: &RuleEnvironments) -> Self {
        let expression = environments.rule(rule);
        let compiles = matches!(expression, Some(Ok(_)));
        let uses_old_self = matches!(&expression, Some(Ok(expression)) if expression.uses_old_self);
        let message = if compiles { environments.message(rule) } else { None };
        let field = rule.str_at(&["fieldPath"]);
        let field = if field.is_empty() { None } else { resolve_field_path(field, node, true).ok() };
        Self {
            program: expression
                .map(|outcome| outcome.map(|expression| expression.program).map_err(String::into_boxed_str)),
            uses_old_self,
            optional_old_self: rule.bool_at(&["optionalOldSelf"]),
            message: message.and_then(Result::ok).map(|expression| expression.program),
            field: field.map(|field| field.path.into_boxed_str()),
        }
    }
}

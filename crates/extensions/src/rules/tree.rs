//! The rules of a schema, compiled: a tree of those nodes that have rules or have some below them (upstream:
//! `NewValidator` of apiextensions-apiserver's `pkg/apiserver/schema/cel`).

use std::sync::Arc;

use pintle_cel::Program;
use pintle_kinds::{Step, follow_field_path};
use pintle_value::{Str, Value};

use super::compile::Environments;
use super::declare::Declared;
use super::place::Place;
use crate::schema::{Additional, Part};

/// The rules of a part of a schema and of what is below it.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    /// In the order of the schema.
    pub(super) own: Box<[Rule]>,
    /// True if there are rules for something that expressions do not see.
    pub(super) unseen: bool,
    /// How values are read, where there are rules.
    pub(super) place: Option<Arc<Place>>,
    /// True if a rule asks for the old value.
    pub(super) use_old_self: bool,
    pub(super) properties: Box<[(Str, Rules)]>,
    pub(super) items: Option<Box<Rules>>,
    pub(super) values: Option<Box<Rules>>,
}

/// A rule. Its texts stay in the schema.
#[derive(Debug)]
pub(super) struct Rule {
    /// `None` for a rule that says nothing; the error of one that does not compile.
    pub(super) program: Option<Result<Program, Box<str>>>,
    pub(super) uses_old_self: bool,
    /// True if the old value is optional.
    pub(super) optional_old_self: bool,
    /// What says what is wrong; `None` also if that does not compile.
    pub(super) message: Option<Program>,
    /// The path of the field that is said to be wrong, from here.
    pub(super) field: Option<Box<str>>,
}

impl Rules {
    /// Compiles the rules of a part; `None` if there are none. `resource` is true for the whole object and for embedded
    /// ones.
    pub(crate) fn of(part: Part<'_>, resource: bool) -> Option<Self> {
        if !part.has_rules_within() {
            return None;
        }
        Self::node(part, resource, Declared::of(part, resource), None)
    }

    /// `place` is how the part is read, if that is known already.
    fn node(
        part: Part<'_>,
        resource: bool,
        declared: Option<Arc<Declared>>,
        place: Option<Arc<Place>>,
    ) -> Option<Self> {
        if !part.has_rules_within() {
            return None;
        }
        let place = place.or_else(|| (!part.rules().is_empty()).then(|| Place::of(part, resource)));
        let below = |part: Part<'_>, step: Step<'_>| {
            let declared = declared.as_ref().and_then(|around| around.step(step)).cloned();
            Self::node(part, part.is_embedded_resource(), declared, place.as_ref().and_then(|place| place.step(step)))
        };
        let properties = part.properties().filter_map(|(name, property)| {
            let step = Step::Property(name);
            let rules = if Declared::can_name(name) {
                // Fields that expressions do not see are left out altogether.
                declared.as_ref()?.step(step)?;
                below(property, step)
            } else {
                let resource = property.is_embedded_resource();
                Self::node(property, resource, Some(Declared::of(property, resource)?), None)
            };
            Some((Str::from(name), rules?))
        });
        let properties: Box<[(Str, Rules)]> = properties.collect();
        let items = part.items().and_then(|items| below(items, Step::Items)).map(Box::new);
        let values = match part.additional() {
            Additional::Values(values) => below(values, Step::Values).map(Box::new),
            _ => None,
        };
        let unseen = declared.is_none() && !part.rules().is_empty();
        let own = declared.map_or_else(Default::default, |declared| compile(part, declared));
        let use_old_self = own.iter().any(|rule| rule.uses_old_self);
        let nothing = own.is_empty() && !unseen && properties.is_empty() && items.is_none() && values.is_none();
        (!nothing).then_some(Self { own, unseen, place, use_old_self, properties, items, values })
    }
}

fn compile(part: Part<'_>, declared: Arc<Declared>) -> Box<[Rule]> {
    let rules = part.rules();
    if rules.is_empty() {
        return Box::default();
    }
    let environments = Environments::of(declared);
    rules.iter().map(|rule| Rule::of(rule, part, &environments)).collect()
}

impl Rule {
    fn of(rule: &Value, part: Part<'_>, environments: &Environments) -> Self {
        let expression = environments.rule(rule);
        let compiles = matches!(expression, Some(Ok(_)));
        let uses_old_self = matches!(&expression, Some(Ok(expression)) if expression.uses_old_self);
        let message = if compiles { environments.message(rule) } else { None };
        let field = rule.str_at(&["fieldPath"]);
        let field = if field.is_empty() { None } else { follow_field_path(field, part, true).ok() };
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

//! The bindings of one policy, and an index that finds the bindings whose rules and selector of namespaces may match.

use std::collections::HashMap;
use std::sync::Arc;

use pintle_selector::{LabelSelector, Operator};
use pintle_value::{Str, Value};

use super::params::ParamRef;
use crate::AdmissionAttributes;
use crate::matching::{MatcherIndex, RequestMatcher, sort};

/// A binding of a policy.
#[derive(Debug)]
pub(super) struct Binding {
    pub(super) name: Str,
    pub(super) policy: Str,
    /// Selects requests among the requests that match the policy; `None` for all.
    pub(super) matcher: Option<RequestMatcher>,
    pub(super) params: Option<ParamRef>,
    /// The actions when a validation fails; empty for mutating policies.
    pub(super) actions: Vec<Str>,
    /// A label that the namespace must have, with one of some values.
    required_label: Option<(Str, Vec<Str>)>,
}

impl Binding {
    /// Reads a stored binding.
    pub(super) fn of(object: &Value) -> Self {
        let spec = &object["spec"];
        let resources = spec.get("matchResources");
        let actions = spec.items_at(&["validationActions"]).iter().filter_map(Value::as_str);
        Self {
            name: object.name().into(),
            policy: spec.str_at(&["policyName"]).into(),
            matcher: resources.map(RequestMatcher::of_match_resources),
            params: spec.get("paramRef").map(ParamRef::of),
            actions: actions.map(Str::from).collect(),
            required_label: resources.and_then(|resources| required_label(&resources["namespaceSelector"])),
        }
    }
}

fn required_label(selector: &Value) -> Option<(Str, Vec<Str>)> {
    let selector = LabelSelector::from_label_selector(selector).ok()?;
    let is_set = |operator| matches!(operator, Operator::In | Operator::Equals | Operator::DoubleEquals);
    let requirement = selector.requirements().iter().find(|requirement| is_set(requirement.operator()))?;
    Some((requirement.key().into(), requirement.values().to_vec()))
}

/// The bindings of one policy, in the order of their names.
#[derive(Debug, Default)]
pub(super) struct PolicyBindings {
    all: Vec<Arc<Binding>>,
    /// The bindings that need a label of the namespace, by its key and value.
    by_label: HashMap<Str, HashMap<Str, MatcherIndex>>,
    /// The bindings that need no label.
    unlabelled: MatcherIndex,
}

impl PolicyBindings {
    pub(super) fn push(&mut self, binding: Arc<Binding>) {
        let (position, matcher) = (u32::try_from(self.all.len()).unwrap_or(u32::MAX), binding.matcher.as_ref());
        match &binding.required_label {
            None => self.unlabelled.add(position, matcher),
            Some((key, values)) => {
                let by_value = self.by_label.entry(key.clone()).or_default();
                for value in values {
                    by_value.entry(value.clone()).or_default().add(position, matcher);
                }
            }
        }
        self.all.push(binding);
    }

    /// The bindings that may match a request, in order. Every other binding has no rule for the request, or needs a
    /// label that the namespace does not have.
    pub(super) fn candidates(&self, attributes: &AdmissionAttributes<'_>, object: &Value) -> Candidates<'_> {
        let mut found = Vec::new();
        self.unlabelled.add_candidates(attributes, &mut found);
        let mut add = |key: &str, value: &str| {
            if let Some(index) = self.by_label.get(key).and_then(|by_value| by_value.get(value)) {
                index.add_candidates(attributes, &mut found);
            }
        };
        if !self.by_label.is_empty() && !attributes.matching.for_each_namespace_label(attributes, object, &mut add) {
            // The selectors of namespaces do not apply, or their error has to be reported.
            return Candidates::All(self.all.iter());
        }
        sort(&mut found);
        Candidates::Some(&self.all, found.into_iter())
    }
}

/// Bindings of a policy that may match.
pub(super) enum Candidates<'a> {
    /// All bindings.
    All(std::slice::Iter<'a, Arc<Binding>>),
    /// The bindings at these positions.
    Some(&'a [Arc<Binding>], std::vec::IntoIter<u32>),
}

impl<'a> Iterator for Candidates<'a> {
    type Item = &'a Binding;

    fn next(&mut self) -> Option<&'a Binding> {
        match self {
            Self::All(all) => all.next().map(|binding| &**binding),
            Self::Some(all, positions) => {
                positions.next().and_then(|position| all.get(position as usize)).map(|binding| &**binding)
            }
        }
    }
}

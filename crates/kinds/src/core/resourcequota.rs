//! The strategy for ResourceQuota: valid resources and scopes and their combinations (upstream:
//! `ValidateResourceQuota...`, `pkg/registry/core/resourcequota`).

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use pintle_registry::{Strategy, StrategyContext, SubresourceStrategy};
use pintle_value::metadata::IMMUTABLE_TEXT;
use pintle_value::{Errors, FieldError, FieldPath, Value};

use crate::core::pod::defaults::round_resource_list;
use crate::core::pod::resources::{INTEGER_RESOURCES, quantity, validate_name, validate_quantity};
use crate::generic::{StatusStrategy, reset_status};
use crate::go_json::{self, GoType};
use crate::validation::MAX_REPEATED_ERRORS;

/// Resources without a domain that a quota may limit, beside object counts and huge pages.
const MEASURED_RESOURCES: [&str; 10] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
];

const COMPUTE_RESOURCES: [&str; 7] =
    ["pods", "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];

const CONFLICTING_SCOPES: [[&str; 2]; 2] = [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]];

/// The strategy for ResourceQuota.
pub(crate) struct ResourceQuotaStrategy;

impl Strategy for ResourceQuotaStrategy {
    fn defaults(&self, object: &mut Value) {
        for list in [["spec", "hard"], ["status", "hard"], ["status", "used"]] {
            round_resource_list(object, &list);
        }
    }

    fn prepare_write(&self, _: &StrategyContext, object: &mut Value, old: Option<&Value>) {
        reset_status(object, old, Value::object());
    }

    fn validate_write(&self, _: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
        let mut errors = Errors::new();
        validate_spec(&mut errors, &object["spec"]);
        let Some(old) = old else {
            validate_status(&mut errors, object);
            return errors;
        };
        let scope_set =
            |quota: &Value| scopes_of(&quota["spec"]).into_iter().map(str::to_owned).collect::<BTreeSet<_>>();
        if scope_set(object) != scope_set(old) {
            let shown = object.at(&["spec", "scopes"]).cloned().unwrap_or_default();
            errors.invalid(&FieldPath::new("spec.scopes"), shown, IMMUTABLE_TEXT);
        }
        errors
    }

    fn warnings(&self, _: &StrategyContext, object: &Value, old: Option<&Value>) -> Vec<String> {
        if old.is_some() {
            return Vec::new();
        }
        let hard = |name: &str| object.at(&["spec", "hard", name]).map(quantity);
        let mut warnings = Vec::new();
        for name in ["cpu", "memory", "storage", "ephemeral-storage"] {
            let (mut request_name, limit_name) = (format!("requests.{name}"), format!("limits.{name}"));
            let mut request = hard(&request_name);
            if request.is_none() && matches!(name, "cpu" | "memory") {
                request = hard(name);
                name.clone_into(&mut request_name);
            }
            if let (Some(request), Some(limit)) = (request, hard(&limit_name))
                && request > limit
            {
                warnings.push(format!(
                    "ResourceQuota {request_name} ({request}) should be less than {limit_name} ({limit})"
                ));
            }
        }
        warnings
    }

    fn subresource(&self, name: &str) -> Option<&dyn SubresourceStrategy> {
        (name == "status").then_some(&STATUS as &dyn SubresourceStrategy)
    }
}

static STATUS: StatusStrategy = StatusStrategy::new(|_, object, _| {
    let mut errors = Errors::new();
    validate_status(&mut errors, object);
    errors
});

fn scopes_of(spec: &Value) -> Vec<&str> {
    spec.items_at(&["scopes"]).iter().filter_map(Value::as_str).collect()
}

fn is_standard(name: &str) -> bool {
    INTEGER_RESOURCES.contains(&name)
        || MEASURED_RESOURCES.contains(&name)
        || name.starts_with("hugepages-")
        || name.starts_with("requests.hugepages-")
}

fn is_standard_scope(scope: &str) -> bool {
    matches!(
        scope,
        "Terminating"
            | "NotTerminating"
            | "BestEffort"
            | "NotBestEffort"
            | "PriorityClass"
            | "VolumeAttributesClass"
            | "CrossNamespacePodAffinity"
    )
}

/// Returns true if a quota with this scope may limit the resource.
fn is_in_scope(scope: &str, resource: &str) -> bool {
    match scope {
        "Terminating" | "NotTerminating" | "NotBestEffort" | "PriorityClass" | "CrossNamespacePodAffinity" => {
            COMPUTE_RESOURCES.contains(&resource)
        }
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => matches!(resource, "persistentvolumeclaims" | "requests.storage"),
        _ => true,
    }
}

fn validate_list(errors: &mut Errors, list: &Value, path: &FieldPath<'_>) {
    for (name, amount) in list.entries_at(&[]) {
        let path = path.key(name);
        validate_name(errors, name, &path);
        if !name.contains('/') && !is_standard(name) {
            errors.invalid(&path, name, "must be a standard resource for quota");
        }
        validate_quantity(errors, name, &quantity(amount), &path);
    }
}

fn validate_status(errors: &mut Errors, object: &Value) {
    let status = FieldPath::new("status");
    for list in ["hard", "used"] {
        validate_list(errors, &object["status"][list], &status.child(list));
    }
}

fn validate_spec(errors: &mut Errors, spec: &Value) {
    let path = FieldPath::new("spec");
    validate_list(errors, &spec["hard"], &path.child("hard"));
    let hard: Vec<&str> = spec.entries_at(&["hard"]).map(|(name, _)| name).filter(|name| is_standard(name)).collect();

    let shown = spec.get("scopes").cloned().unwrap_or_default();
    let scopes_path = path.child("scopes");
    let scopes = scopes_of(spec);
    let outside = OutsideScopes::default();
    let faults = scopes.iter().flat_map(|scope| {
        let unknown = (!is_standard_scope(scope)).then_some("unsupported scope");
        let applied = std::iter::repeat_n("unsupported scope applied to resource", outside.count(scope, &hard));
        unknown.into_iter().chain(applied)
    });
    for fault in faults.take(MAX_REPEATED_ERRORS) {
        errors.invalid(&scopes_path, shown.clone(), fault);
    }
    validate_conflicts(errors, &scopes, &shown, &scopes_path);

    if let Some(selector) = spec.get("scopeSelector") {
        let path = path.child("scopeSelector");
        validate_selector(errors, selector, &hard, &shown, &path.child("matchExpressions"));
    }
}

/// Counts the resources that a scope may not limit, once for each scope.
#[derive(Default)]
struct OutsideScopes<'v>(RefCell<BTreeMap<&'v str, usize>>);

impl<'v> OutsideScopes<'v> {
    fn count(&self, scope: &'v str, hard: &[&str]) -> usize {
        if !is_standard_scope(scope) {
            return 0;
        }
        let count = || hard.iter().filter(|resource| !is_in_scope(scope, resource)).count();
        *self.0.borrow_mut().entry(scope).or_insert_with(count)
    }
}

fn validate_conflicts(errors: &mut Errors, scopes: &[&str], shown: &Value, path: &FieldPath<'_>) {
    for pair in CONFLICTING_SCOPES {
        if pair.iter().all(|scope| scopes.contains(scope)) {
            errors.invalid(path, shown.clone(), "conflicting scopes");
        }
    }
}

fn validate_selector(errors: &mut Errors, selector: &Value, hard: &[&str], shown_scopes: &Value, path: &FieldPath<'_>) {
    /// How upstream's internal type prints a scope selector.
    const SELECTOR: GoType = GoType::Of("core/v1.ScopeSelector");
    let expressions = selector.items_at(&["matchExpressions"]);
    let (outside, mut left) = (OutsideScopes::default(), MAX_REPEATED_ERRORS);
    // Upstream's paths do not contain the index of the expression.
    for expression in expressions {
        let (scope, operator) = (expression.str_at(&["scopeName"]), expression.str_at(&["operator"]));
        if !is_standard_scope(scope) {
            errors.invalid(&path.child("scopeName"), scope, "unsupported scope");
        }
        let repeated = outside.count(scope, hard).min(left);
        left -= repeated;
        for _ in 0..repeated {
            let error = FieldError::invalid(path, selector.clone(), "unsupported scope applied to resource");
            errors.push(error.showing(go_json::internal(Some(selector), &SELECTOR)));
        }
        let by_existence = is_standard_scope(scope) && !matches!(scope, "PriorityClass" | "VolumeAttributesClass");
        if by_existence && operator != "Exists" {
            let detail = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, \
                          ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort \
                          or ResourceQuotaScopeCrossNamespacePodAffinity";
            errors.invalid(&path.child("operator"), operator, detail);
        }
        let values = expression.get("values").filter(|values| !values.is_empty());
        match (operator, values) {
            ("In" | "NotIn", None) => {
                let detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
                errors.required(&path.child("values"), detail);
            }
            ("Exists" | "DoesNotExist", Some(values)) => {
                let detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                errors.invalid(&path.child("values"), values.clone(), detail);
            }
            ("In" | "NotIn" | "Exists" | "DoesNotExist", _) => {}
            _ => errors.invalid(&path.child("operator"), operator, "not a valid selector operator"),
        }
    }
    let scopes: Vec<&str> = expressions.iter().map(|e| e.str_at(&["scopeName"])).collect();
    validate_conflicts(errors, &scopes, shown_scopes, path);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, messages, object};

    #[test]
    fn quotas() {
        let check = |spec: &str, expect: &[&str]| {
            let quota = object(&format!(r#"{{"spec":{{{spec}}}}}"#));
            assert_eq!(messages(&ResourceQuotaStrategy.validate(&context(), &quota)), expect, "{spec}");
        };
        check(
            r#""hard":{"pods":"4","requests.cpu":"1","count/deployments.apps":"2","requests.example.com/gpu":"1"}"#,
            &[],
        );
        check(
            r#""hard":{"pods":"1500m","storage":"1","bad":"1"}"#,
            &[
                "spec.hard[bad]: Invalid value: \"bad\": must be a standard resource type or fully qualified",
                "spec.hard[bad]: Invalid value: \"bad\": must be a standard resource for quota",
                "spec.hard[pods]: Invalid value: \"1500m\": must be an integer",
                "spec.hard[storage]: Invalid value: \"storage\": must be a standard resource for quota",
            ],
        );
        check(
            r#""hard":{"services":"1"},"scopes":["BestEffort","NotBestEffort","x"]"#,
            &[
                "spec.scopes: Invalid value: [\"BestEffort\",\"NotBestEffort\",\"x\"]: unsupported scope applied to resource",
                "spec.scopes: Invalid value: [\"BestEffort\",\"NotBestEffort\",\"x\"]: unsupported scope applied to resource",
                "spec.scopes: Invalid value: [\"BestEffort\",\"NotBestEffort\",\"x\"]: unsupported scope",
                "spec.scopes: Invalid value: [\"BestEffort\",\"NotBestEffort\",\"x\"]: conflicting scopes",
            ],
        );
        check(
            r#""hard":{"pods":"1"},"scopeSelector":{"matchExpressions":[{"scopeName":"PriorityClass","operator":"In"},{"scopeName":"Terminating","operator":"In","values":["a"]}]}"#,
            &[
                "spec.scopeSelector.matchExpressions.values: Required value: must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
                "spec.scopeSelector.matchExpressions.operator: Invalid value: \"In\": must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity",
            ],
        );
    }

    #[test]
    fn scopes_are_immutable() {
        let old = object(r#"{"spec":{"scopes":["Terminating"]}}"#);
        let new = object(r#"{"spec":{"scopes":["NotTerminating"]}}"#);
        assert_eq!(
            messages(&ResourceQuotaStrategy.validate_update(&context(), &new, &old)),
            ["spec.scopes: Invalid value: [\"NotTerminating\"]: field is immutable"]
        );
    }

    #[test]
    fn requests_above_limits_warn() {
        let quota =
            object(r#"{"spec":{"hard":{"cpu":"2","limits.cpu":"1","requests.memory":"1Gi","limits.memory":"2Gi"}}}"#);
        assert_eq!(
            ResourceQuotaStrategy.warnings(&context(), &quota, None),
            ["ResourceQuota cpu (2) should be less than limits.cpu (1)"]
        );
    }
}

//! Match conditions: CEL expressions over the `SubjectAccessReviewSpec` of a request (upstream:
//! `apiserver/pkg/authorization/cel`).

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use pintle_cel::{Env, PER_CALL_COST_LIMIT, Program, Type, TypeProvider, Value as CelValue, untyped};
use pintle_value::{Errors, FieldError, FieldPath, Str, Value, object};
use pintle_versions::{EffectiveVersion, Minor};

use crate::rbac::aggregate;

/// Upstream's limit of the number of conditions.
const MAX_CONDITIONS: usize = 64;

/// The type of the variable `request`.
const REQUEST: &str = "kubernetes.SubjectAccessReviewSpec";

/// The CEL environment of match conditions.
static ENVIRONMENT: LazyLock<Env> = LazyLock::new(|| {
    Env::kubernetes_of(EffectiveVersion::of(Minor::DEFAULT))
        .type_provider(Arc::new(ReviewTypes))
        .variable("request", Type::object(REQUEST))
});

/// The types of a `SubjectAccessReviewSpec`.
struct ReviewTypes;

impl TypeProvider for ReviewTypes {
    fn has_type(&self, name: &str) -> bool {
        matches!(
            name,
            REQUEST
                | "kubernetes.ResourceAttributes"
                | "kubernetes.NonResourceAttributes"
                | "kubernetes.FieldSelectorAttributes"
                | "kubernetes.LabelSelectorAttributes"
                | "kubernetes.SelectorRequirement"
        )
    }

    fn field(&self, type_name: &str, field: &str) -> Option<Type> {
        let texts = || Type::list(Type::String);
        Some(match (type_name, field) {
            (REQUEST, "resourceAttributes") => Type::object("kubernetes.ResourceAttributes"),
            (REQUEST, "nonResourceAttributes") => Type::object("kubernetes.NonResourceAttributes"),
            (REQUEST, "user" | "uid")
            | (
                "kubernetes.ResourceAttributes",
                "namespace" | "verb" | "group" | "version" | "resource" | "subresource" | "name",
            )
            | ("kubernetes.NonResourceAttributes", "path" | "verb")
            | ("kubernetes.FieldSelectorAttributes" | "kubernetes.LabelSelectorAttributes", "rawSelector")
            | ("kubernetes.SelectorRequirement", "key" | "operator") => Type::String,
            (REQUEST, "groups") | ("kubernetes.SelectorRequirement", "values") => texts(),
            (REQUEST, "extra") => Type::map(Type::String, texts()),
            ("kubernetes.ResourceAttributes", "fieldSelector") => Type::object("kubernetes.FieldSelectorAttributes"),
            ("kubernetes.ResourceAttributes", "labelSelector") => Type::object("kubernetes.LabelSelectorAttributes"),
            ("kubernetes.FieldSelectorAttributes" | "kubernetes.LabelSelectorAttributes", "requirements") => {
                Type::list(Type::object("kubernetes.SelectorRequirement"))
            }
            _ => return None,
        })
    }
}

/// Compiled match conditions.
#[derive(Debug, Default)]
pub struct MatchConditions(Vec<(Str, Program)>);

/// Why match conditions cannot be evaluated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MatchError(pub String);

impl MatchConditions {
    /// Compiles expressions. Returns the valid expressions, and the errors of the others.
    #[must_use]
    pub fn compile(path: &FieldPath<'_>, expressions: &[Str]) -> (Self, Errors) {
        let mut errors = Errors::new();
        let path = path.child("matchConditions");
        if expressions.len() > MAX_CONDITIONS {
            errors.push(FieldError::too_many(&path, expressions.len(), MAX_CONDITIONS));
            return (Self::default(), errors);
        }
        let mut seen = HashSet::new();
        let mut programs = Vec::with_capacity(expressions.len());
        for (i, expression) in expressions.iter().enumerate() {
            let path = path.index(i);
            let path = path.child("expression");
            if expression.trim().is_empty() {
                errors.required(&path, "");
            } else if !seen.insert(expression) {
                errors.duplicate(&path, expression.as_str());
            } else {
                match compile(expression) {
                    Ok(program) => programs.push((expression.clone(), program)),
                    Err(why) => errors.invalid(&path, expression.as_str(), why),
                }
            }
        }
        (Self(programs), errors)
    }

    /// True if there are no conditions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether all conditions are true for a `SubjectAccessReviewSpec`. A false condition decides, whatever
    /// errors other conditions have.
    ///
    /// # Errors
    /// A condition cannot be evaluated, and none is false.
    pub fn matches(&self, spec: &Value) -> Result<bool, MatchError> {
        let request = complete(spec);
        let bindings = [untyped(&request)];
        let mut errors = Vec::new();
        for (expression, program) in &self.0 {
            match program.evaluate(&bindings, PER_CALL_COST_LIMIT).result {
                Ok(CelValue::Bool(true)) => {}
                Ok(CelValue::Bool(false)) => return Ok(false),
                Ok(_) => errors
                    .push(format!("cel evaluation error: expression '{expression}' eval result type should be bool")),
                Err(error) => {
                    errors.push(format!("cel evaluation error: expression '{expression}' resulted in error: {error}"));
                }
            }
        }
        aggregate(errors).map_or(Ok(true), |errors| Err(MatchError(errors)))
    }
}

fn compile(expression: &str) -> Result<Program, String> {
    let checked = ENVIRONMENT.check(expression).map_err(|issues| format!("compilation failed: {issues}"))?;
    let output = checked.output_type();
    if *output != Type::Bool {
        return Err(format!("must evaluate to bool but got {output}"));
    }
    ENVIRONMENT.program(&checked).map_err(|error| format!("program instantiation failed: {error}"))
}

/// A spec with all its texts and lists, so that conditions need not test whether they exist.
fn complete(spec: &Value) -> Value {
    let text = |path: &[&str]| Value::from(spec.str_at(path));
    let or = |path: &[&str], default: Value| spec.at(path).cloned().unwrap_or(default);
    let mut request = object! {
        "user": text(&["user"]),
        "groups": or(&["groups"], Value::Array(Vec::new())),
        "uid": text(&["uid"]),
        "extra": or(&["extra"], object! {}),
    };
    if let Some(attributes) = spec.get("resourceAttributes") {
        let mut complete = object! {};
        for field in ["namespace", "verb", "group", "version", "resource", "subresource", "name"] {
            complete.set(field, text(&["resourceAttributes", field]));
        }
        for selector in ["fieldSelector", "labelSelector"] {
            if let Some(value) = attributes.get(selector) {
                complete.set(selector, value.clone());
            }
        }
        request.set("resourceAttributes", complete);
    }
    if spec.get("nonResourceAttributes").is_some() {
        let part = |field: &str| text(&["nonResourceAttributes", field]);
        request.set("nonResourceAttributes", object! {"path": part("path"), "verb": part("verb")});
    }
    request
}

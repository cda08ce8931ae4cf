//! The types that expressions of admission know (upstream: `BuildRequestType` and `BuildNamespaceType` of
//! `plugin/cel/compile.go`, `pkg/cel/mutation`).

use std::collections::HashMap;
use std::sync::Arc;

use pintle_cel::{Type, TypeProvider};
use pintle_value::Str;

/// The type of `request`.
pub(crate) const REQUEST: &str = "kubernetes.AdmissionRequest";
/// The type of `namespaceObject`.
pub(crate) const NAMESPACE: &str = "kubernetes.Namespace";
/// The type of `variables`.
pub(crate) const VARIABLES: &str = "kubernetes.variables";
/// The type of an operation of a JSON patch.
pub(crate) const JSON_PATCH: &str = "JSONPatch";
/// The type of an object that a policy applies. Types of its fields have the path of the field as a suffix.
pub(crate) const OBJECT: &str = "Object";

const KIND: &str = "kubernetes.GroupVersionKind";
const RESOURCE: &str = "kubernetes.GroupVersionResource";
const USER: &str = "kubernetes.UserInfo";
const NAMESPACE_METADATA: &str = "kubernetes.NamespaceMetadata";
const NAMESPACE_SPEC: &str = "kubernetes.NamespaceSpec";
const NAMESPACE_STATUS: &str = "kubernetes.NamespaceStatus";
const NAMESPACE_CONDITION: &str = "kubernetes.NamespaceCondition";

/// The types of admission, and the types of the variables of one policy.
#[derive(Clone, Debug, Default)]
pub(crate) struct AdmissionTypes {
    /// The variables of the policy, if the policy can have variables.
    pub(crate) variables: Option<Arc<HashMap<Str, Type>>>,
    /// True if expressions can create patches.
    pub(crate) patches: bool,
}

impl TypeProvider for AdmissionTypes {
    fn has_type(&self, name: &str) -> bool {
        match name {
            REQUEST | KIND | RESOURCE | USER | NAMESPACE | NAMESPACE_METADATA | NAMESPACE_SPEC | NAMESPACE_STATUS
            | NAMESPACE_CONDITION => true,
            VARIABLES => self.variables.is_some(),
            name => self.is_patch_type(name),
        }
    }

    fn field(&self, type_name: &str, field: &str) -> Option<Type> {
        let strings = || Type::list(Type::String);
        Some(match (type_name, field) {
            (VARIABLES, name) => self.variables.as_ref()?.get(name)?.clone(),
            (REQUEST, "kind" | "requestKind") => Type::object(KIND),
            (REQUEST, "resource" | "requestResource") => Type::object(RESOURCE),
            (REQUEST, "userInfo") => Type::object(USER),
            (REQUEST, "dryRun") => Type::Bool,
            (REQUEST, "options") => Type::Dyn,
            (REQUEST, "subResource" | "requestSubResource" | "name" | "namespace" | "operation")
            | (KIND, "group" | "version" | "kind")
            | (RESOURCE, "group" | "version" | "resource")
            | (USER, "username" | "uid")
            | (NAMESPACE_METADATA, "name" | "generateName" | "namespace" | "UID" | "resourceVersion")
            | (NAMESPACE_STATUS, "phase")
            | (NAMESPACE_CONDITION, "status" | "type" | "message" | "reason") => Type::String,
            (USER, "groups") | (NAMESPACE_SPEC | NAMESPACE_METADATA, "finalizers") => strings(),
            (USER, "extra") => Type::map(Type::String, strings()),
            (NAMESPACE, "metadata") => Type::object(NAMESPACE_METADATA),
            (NAMESPACE, "spec") => Type::object(NAMESPACE_SPEC),
            (NAMESPACE, "status") => Type::object(NAMESPACE_STATUS),
            (NAMESPACE_METADATA, "labels" | "annotations") => Type::map(Type::String, Type::String),
            (NAMESPACE_METADATA, "creationTimestamp" | "deletionTimestamp")
            | (NAMESPACE_CONDITION, "lastTransitionTime") => Type::Timestamp,
            (NAMESPACE_METADATA, "deletionGracePeriodSeconds" | "generation") => Type::Int,
            (NAMESPACE_STATUS, "conditions") => Type::list(Type::object(NAMESPACE_CONDITION)),
            (JSON_PATCH, "op" | "from" | "path") if self.patches => Type::String,
            (JSON_PATCH, "value") if self.patches => Type::Dyn,
            // Upstream has no schema here, so an object can have any field.
            (name, _) if name != JSON_PATCH && self.is_patch_type(name) => Type::Dyn,
            _ => return None,
        })
    }

    fn can_construct(&self, name: &str) -> bool {
        self.is_patch_type(name)
    }
}

impl AdmissionTypes {
    fn is_patch_type(&self, name: &str) -> bool {
        self.patches
            && (matches!(name, JSON_PATCH | OBJECT)
                || name.strip_prefix(OBJECT).is_some_and(|rest| rest.starts_with('.')))
    }
}

/// The maximum nesting of a variable's type. Deeper types are dynamic, because types of variables that use variables
/// could nest without end.
const MAX_NESTING: usize = 32;

/// The type of a variable for the expressions after it. Basic types without a name of their own keep their type, and so
/// do lists and maps of them. Other types are dynamic (upstream: `convertCelTypeToDeclType`).
pub(crate) fn variable_type(ty: &Type) -> Type {
    limited_type(ty, MAX_NESTING)
}

fn limited_type(ty: &Type, nesting: usize) -> Type {
    let below = |ty: &Type| limited_type(ty, nesting.saturating_sub(1));
    match ty {
        Type::List(_) | Type::Map(_) if nesting == 0 => Type::Dyn,
        Type::Any
        | Type::Bool
        | Type::Bytes
        | Type::Double
        | Type::Duration
        | Type::Int
        | Type::Null
        | Type::String
        | Type::Timestamp
        | Type::Uint => ty.clone(),
        Type::List(element) => Type::list(below(element)),
        Type::Map(entry) => Type::map(below(&entry.0), below(&entry.1)),
        _ => Type::Dyn,
    }
}

/// The name of a type in messages about results. Some names differ from the names in messages of the type checker
/// (upstream: cel-go `types.Type.String`).
#[must_use]
pub fn result_type_name(ty: &Type) -> String {
    let parameters: Vec<String> = ty.parameters().into_iter().map(result_type_name).collect();
    match ty {
        Type::Param(name) => format!("<{name}>"),
        _ if parameters.is_empty() => ty.name().to_string(),
        _ => format!("{}({})", ty.name(), parameters.join(", ")),
    }
}

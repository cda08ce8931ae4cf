//! The environments of admission. All have the same slots, so that one array of values is bound for every expression of a
//! request (upstream: `mustBuildEnvs` of `plugin/cel/compile.go`).

use std::sync::{Arc, LazyLock};

use pintle_cel::library::json_patch;
use pintle_cel::{AuthorizationValue, Env, Type};
use pintle_versions::EffectiveVersion;

use crate::compiler::Declarations;
use crate::types::{AdmissionTypes, NAMESPACE, REQUEST, VARIABLES};

/// The number of slots.
pub(crate) const SLOTS: usize = 8;

/// The environment of stored expressions, without variables.
static BASE: LazyLock<Env> = LazyLock::new(Env::kubernetes);
/// The environment without variables, with the functions for patches.
static PATCHING: LazyLock<Env> = LazyLock::new(|| BASE.clone().library(&json_patch()));

/// The environment without variables.
pub(crate) fn untyped_environment() -> Env {
    BASE.clone()
}

/// The environment of an expression: of a new one in a version, or of a stored one.
pub(crate) fn environment(types: AdmissionTypes, declarations: Declarations, version: Option<EffectiveVersion>) -> Env {
    let composited = types.variables.is_some();
    let base = match version.map(Env::kubernetes_of) {
        Some(new) if types.patches => new.library(&json_patch()),
        Some(new) => new,
        None if types.patches => PATCHING.clone(),
        None => BASE.clone(),
    };
    let variables: [(&str, bool, Type); SLOTS] = [
        ("object", true, Type::Dyn),
        ("oldObject", true, Type::Dyn),
        ("namespaceObject", true, Type::object(NAMESPACE)),
        ("request", true, Type::object(REQUEST)),
        ("params", declarations.params, Type::Dyn),
        ("authorizer", declarations.authorizer, AuthorizationValue::authorizer_type()),
        ("authorizer.requestResource", declarations.authorizer, AuthorizationValue::resource_check_type()),
        ("variables", composited, Type::object(VARIABLES)),
    ];
    let env = variables.into_iter().fold(base, |env, (name, is_declared, ty)| {
        // The slot of a variable that is not declared has a name that no expression can contain.
        env.variable(if is_declared { name } else { "" }, ty)
    });
    env.type_provider(Arc::new(types))
}

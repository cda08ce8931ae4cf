//! Checks expressions against the types of the objects that a policy is for. Type errors are only warnings, since the
//! types may change (upstream: `policy/validating/typechecking.go`).

use std::collections::HashMap;
use std::sync::Arc;

use pintle_cel::{AuthorizationValue, Type, TypeProvider};
use pintle_value::Str;

use crate::environment::untyped_environment;
use crate::types::{AdmissionTypes, NAMESPACE, REQUEST, VARIABLES, variable_type};

/// The types that the expressions of a policy are checked with.
pub struct TypeChecker {
    types: Arc<dyn TypeProvider>,
    object: Type,
    params: Option<Type>,
    variables: Arc<HashMap<Str, Type>>,
}

/// The types of admission, and the types of the objects.
struct CheckedTypes {
    admission: AdmissionTypes,
    objects: Arc<dyn TypeProvider>,
}

impl TypeProvider for CheckedTypes {
    fn has_type(&self, name: &str) -> bool {
        self.admission.has_type(name) || self.objects.has_type(name)
    }

    fn field(&self, type_name: &str, field: &str) -> Option<Type> {
        self.admission.field(type_name, field).or_else(|| self.objects.field(type_name, field))
    }
}

impl TypeChecker {
    /// A checker with the type of `object` and `oldObject`, and with the type of `params` if the policy has parameters.
    #[must_use]
    pub fn new(types: Arc<dyn TypeProvider>, object: Type, params: Option<Type>) -> Self {
        Self { types, object, params, variables: Arc::default() }
    }

    /// Adds a variable. An ill-typed variable is dynamic.
    pub fn add_variable(&mut self, name: &str, expression: &str) {
        let ty = self.environment().check(expression).map_or(Type::Dyn, |checked| variable_type(checked.output_type()));
        Arc::make_mut(&mut self.variables).insert(name.into(), ty);
    }

    /// Checks an expression. Returns its errors in cel-go's format.
    #[must_use]
    pub fn check(&self, expression: &str) -> Option<String> {
        self.environment().check(expression).err().map(|issues| issues.to_string())
    }

    fn environment(&self) -> pintle_cel::Env {
        let admission = AdmissionTypes { variables: Some(self.variables.clone()), patches: false };
        let mut env = untyped_environment()
            .variable("namespaceObject", Type::object(NAMESPACE))
            .variable("request", Type::object(REQUEST))
            .variable("object", self.object.clone())
            .variable("oldObject", self.object.clone())
            // As in upstream, `authorizer.requestResource` is missing.
            .variable("authorizer", AuthorizationValue::authorizer_type())
            .variable("variables", Type::object(VARIABLES));
        if let Some(params) = &self.params {
            env = env.variable("params", params.clone());
        }
        env.type_provider(Arc::new(CheckedTypes { admission, objects: self.types.clone() }))
    }
}

//! The environment in which expressions are compiled: variables, functions, types and macros (upstream: cel-go
//! `cel/env.go`).

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use pintle_value::Str;

use crate::function::Function;
use crate::syntax::{Macro, ParserLimits};
use crate::types::Type;

/// Resolves types with fields for the checker. The crate that knows the schema implements it (upstream: cel-go
/// `types.Provider`).
pub trait TypeProvider: Send + Sync {
    /// True if the type exists.
    fn has_type(&self, name: &str) -> bool;

    /// The type of a field, by its name in expressions. The provider handles the escaping of names.
    fn field(&self, type_name: &str, field: &str) -> Option<Type>;

    /// True if expressions can create objects of the type.
    fn can_construct(&self, _type_name: &str) -> bool {
        false
    }
}

/// A provider without types.
struct NoTypes;

impl TypeProvider for NoTypes {
    fn has_type(&self, _: &str) -> bool {
        false
    }

    fn field(&self, _: &str, _: &str) -> Option<Type> {
        None
    }
}

/// A set of functions, macros and types (upstream: `cel.Library`).
#[derive(Clone, Debug, Default)]
pub struct Library {
    /// The functions. Overloads of existing functions are added to them.
    pub functions: Vec<Function>,
    /// The macros.
    pub macros: Vec<Macro>,
    /// The types that expressions can name.
    pub types: Vec<Type>,
}

impl Library {
    pub(crate) fn of(functions: Vec<Function>) -> Self {
        Self { functions, ..Self::default() }
    }
}

/// The environment in which expressions are compiled. It is cheap to clone, so that each use can extend a base
/// environment.
#[derive(Clone)]
pub struct Env {
    functions: Arc<HashMap<Str, Function>>,
    macros: Arc<Vec<Macro>>,
    type_idents: Arc<HashMap<Str, Type>>,
    variables: Vec<(Str, Type)>,
    provider: Arc<dyn TypeProvider>,
    container: Str,
    runs_validators: bool,
    parser_limits: ParserLimits,
}

impl Default for Env {
    /// An environment without any declarations.
    fn default() -> Self {
        Self {
            functions: Arc::default(),
            macros: Arc::default(),
            type_idents: Arc::default(),
            variables: Vec::new(),
            provider: Arc::new(NoTypes),
            container: Str::default(),
            runs_validators: false,
            parser_limits: ParserLimits::default(),
        }
    }
}

impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Env").field("variables", &self.variables).finish_non_exhaustive()
    }
}

impl Env {
    /// Adds a library.
    #[must_use]
    pub fn library(mut self, library: &Library) -> Self {
        let functions = Arc::make_mut(&mut self.functions);
        for function in &library.functions {
            match functions.get_mut(&function.name) {
                Some(existing) => existing.merge(function.clone()),
                None => {
                    functions.insert(function.name.clone(), function.clone());
                }
            }
        }
        if !library.macros.is_empty() {
            Arc::make_mut(&mut self.macros).extend(&library.macros);
        }
        if !library.types.is_empty() {
            let type_idents = Arc::make_mut(&mut self.type_idents);
            for t in &library.types {
                type_idents.insert(t.name(), Type::of_type(t.clone()));
                // `duration` and `timestamp` are also declared as type names, which cannot be used as values.
                if matches!(t, Type::Duration | Type::Timestamp) {
                    type_idents.insert(t.to_string().into(), Type::of_type(t.clone()));
                }
            }
        }
        self
    }

    /// Declares a variable. Its slot is the number of variables that were declared before it; programs take their
    /// bindings in slot order.
    #[must_use]
    pub fn variable(mut self, name: &str, variable: Type) -> Self {
        self.variables.push((name.into(), variable));
        self
    }

    /// Sets the provider of types with fields.
    #[must_use]
    pub fn type_provider(mut self, provider: Arc<dyn TypeProvider>) -> Self {
        self.provider = provider;
        self
    }

    /// Sets the container: names are resolved under this prefix and its parents first.
    #[must_use]
    pub fn container(mut self, container: &str) -> Self {
        self.container = container.into();
        self
    }

    /// Accepts names of fields in backticks.
    #[must_use]
    pub(crate) fn with_quoted_fields(mut self) -> Self {
        self.parser_limits.has_quoted_fields = true;
        self
    }

    /// Enables the validators of Kubernetes.
    #[must_use]
    pub(crate) fn with_validators(self) -> Self {
        Self { runs_validators: true, ..self }
    }

    pub(crate) fn runs_validators(&self) -> bool {
        self.runs_validators
    }

    pub(crate) fn macros(&self) -> &[Macro] {
        &self.macros
    }

    pub(crate) fn parser_limits(&self) -> ParserLimits {
        self.parser_limits
    }

    pub(crate) fn resolve_function(&self, name: &str) -> Option<&Function> {
        self.candidate_names(name).find_map(|name| self.functions.get(name.as_str()))
    }

    pub(crate) fn find_function(&self, name: &str) -> Option<&Function> {
        self.functions.get(name)
    }

    pub(crate) fn container_name(&self) -> &str {
        &self.container
    }

    pub(crate) fn provider(&self) -> &dyn TypeProvider {
        &*self.provider
    }

    /// The qualified names that a name can resolve to, longest first (upstream: `ResolveCandidateNames`).
    pub(crate) fn candidate_names<'n>(&'n self, name: &'n str) -> impl Iterator<Item = Str> + 'n {
        let (name, mut prefix) = match name.strip_prefix('.') {
            Some(absolute) => (absolute, None),
            None => (name, Some(&*self.container).filter(|container| !container.is_empty())),
        };
        let mut last = Some(name);
        std::iter::from_fn(move || {
            let Some(current) = prefix else { return last.take().map(Str::from) };
            prefix = current.rsplit_once('.').map(|(shorter, _)| shorter);
            Some(Str::from(format!("{current}.{name}")))
        })
    }

    /// Finds a variable and its slot by name.
    pub(crate) fn find_variable(&self, name: &str) -> Option<(usize, &Type)> {
        let slot = self.variables.iter().rposition(|(variable, _)| variable == name)?;
        Some((slot, &self.variables[slot].1))
    }

    pub(crate) fn variable_names(&self) -> Arc<[Str]> {
        self.variables.iter().map(|(name, _)| name.clone()).collect()
    }

    /// True if the name of the type can be used as a value.
    pub(crate) fn has_type_value(&self, name: &str) -> bool {
        !matches!(name, "duration" | "timestamp") && self.type_idents.contains_key(name)
    }

    /// Finds the type of a type name, which is `type(T)`.
    pub(crate) fn find_type(&self, name: &str) -> Option<Type> {
        if self.provider.has_type(name) {
            return Some(Type::of_type(Type::object(name)));
        }
        self.type_idents.get(name).cloned()
    }
}

//! The environment of expressions: variables, functions, types, macros.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use pintle_value::Str;

use crate::check::{Checked, check, validate};
use crate::cost::{CostEstimate, Sizes, estimate};
use crate::function::Function;
use crate::library::{self, Library};
use crate::program::{CompileError, Program};
use crate::source::{Issues, Source};
use crate::syntax::{Limits, Macro, parse};
use crate::types::Type;

/// What the checker asks about types with fields. The side that knows the schema implements it.
pub trait TypeProvider: Send + Sync {
    /// True if there is such a type.
    fn has_type(&self, name: &str) -> bool;

    /// The type of a field. Names are as expressions write them; escaping is up to the provider.
    fn field(&self, type_name: &str, field: &str) -> Option<Type>;

    /// True if expressions may make objects of a type.
    fn constructs(&self, _type_name: &str) -> bool {
        false
    }
}

/// No types with fields.
struct NoTypes;

impl TypeProvider for NoTypes {
    fn has_type(&self, _: &str) -> bool {
        false
    }

    fn field(&self, _: &str, _: &str) -> Option<Type> {
        None
    }
}

/// The environment in which expressions are compiled. Cloning one is cheap, so that a base can be extended per use.
#[derive(Clone)]
pub struct Env {
    functions: Arc<HashMap<Str, Function>>,
    macros: Arc<Vec<Macro>>,
    idents: Arc<HashMap<Str, Type>>,
    variables: Vec<(Str, Type)>,
    provider: Arc<dyn TypeProvider>,
    container: Str,
    pub(crate) strict: bool,
    limits: Limits,
}

impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Env").field("variables", &self.variables).finish_non_exhaustive()
    }
}

impl Env {
    /// An environment with CEL's standard functions and macros, nothing else.
    #[must_use]
    pub fn standard() -> Self {
        let empty = Self {
            functions: Arc::default(),
            macros: Arc::default(),
            idents: Arc::default(),
            variables: Vec::new(),
            provider: Arc::new(NoTypes),
            container: Str::default(),
            strict: false,
            limits: Limits::default(),
        };
        empty.library(&library::standard())
    }

    /// The environment of Kubernetes 1.36: its libraries, and aggregates of one type only. Making it takes a while;
    /// it is meant to be made once and extended per use.
    #[must_use]
    pub fn kubernetes() -> Self {
        let env = library::kubernetes().iter().fold(Self::standard(), |env, library| env.library(library));
        Self { strict: true, ..env }
    }

    /// Adds a library.
    #[must_use]
    pub fn library(mut self, library: &Library) -> Self {
        let functions = Arc::make_mut(&mut self.functions);
        for function in &library.functions {
            match functions.get_mut(&function.name) {
                Some(known) => known.merge(function.clone()),
                None => {
                    functions.insert(function.name.clone(), function.clone());
                }
            }
        }
        if !library.macros.is_empty() {
            Arc::make_mut(&mut self.macros).extend(&library.macros);
        }
        if !library.types.is_empty() {
            let idents = Arc::make_mut(&mut self.idents);
            for t in &library.types {
                idents.insert(t.name(), Type::of_type(t.clone()));
                // These two are also declared by their short names, which stand for no value.
                if matches!(t, Type::Duration | Type::Timestamp) {
                    idents.insert(t.to_string().into(), Type::of_type(t.clone()));
                }
            }
        }
        self
    }

    /// Declares a variable. Its slot is how many were declared before it; programs take their bindings in that order.
    #[must_use]
    pub fn variable(mut self, name: &str, variable: Type) -> Self {
        self.variables.push((name.into(), variable));
        self
    }

    /// Says where types with fields are found.
    #[must_use]
    pub fn types(mut self, provider: Arc<dyn TypeProvider>) -> Self {
        self.provider = provider;
        self
    }

    /// Names are looked up under this prefix and each shorter one first.
    #[must_use]
    pub fn container(mut self, container: &str) -> Self {
        self.container = container.into();
        self
    }

    /// Parses and checks an expression.
    pub fn check(&self, text: &str) -> Result<Checked, Box<Issues>> {
        let source = Source::new(text);
        let parsed = parse(&source, &self.macros, self.limits)?;
        let checked = check(self, source, parsed)?;
        if self.strict {
            validate(&checked)?;
        }
        Ok(checked)
    }

    /// Compiles an expression.
    pub fn compile(&self, text: &str) -> Result<Program, CompileError> {
        let checked = self.check(text).map_err(CompileError::Issues)?;
        self.program(&checked)
    }

    /// Makes a program of an expression that this environment has checked.
    pub fn program(&self, checked: &Checked) -> Result<Program, CompileError> {
        Program::new(self, checked)
    }

    /// What an evaluation of a checked expression may cost at least and at most, given what is known of the sizes of
    /// the variables.
    #[must_use]
    pub fn estimate(&self, checked: &Checked, sizes: &dyn Sizes) -> CostEstimate {
        estimate(self, checked, sizes)
    }

    pub(crate) fn function(&self, name: &str) -> Option<&Function> {
        self.candidates(name).find_map(|name| self.functions.get(name.as_str()))
    }

    pub(crate) fn function_named(&self, name: &str) -> Option<&Function> {
        self.functions.get(name)
    }

    pub(crate) fn container_name(&self) -> &str {
        &self.container
    }

    pub(crate) fn provider(&self) -> &dyn TypeProvider {
        &*self.provider
    }

    /// The names that a name may stand for, the longest first.
    pub(crate) fn candidates<'n>(&'n self, name: &'n str) -> impl Iterator<Item = Str> + 'n {
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

    /// The variable of a name, and its slot.
    pub(crate) fn variable_named(&self, name: &str) -> Option<(usize, &Type)> {
        let slot = self.variables.iter().rposition(|(variable, _)| variable == name)?;
        Some((slot, &self.variables[slot].1))
    }

    pub(crate) fn variable_names(&self) -> Arc<[Str]> {
        self.variables.iter().map(|(name, _)| name.clone()).collect()
    }

    /// True if the name of a type can be used as a value.
    pub(crate) fn has_type_value(&self, name: &str) -> bool {
        !matches!(name, "duration" | "timestamp") && self.idents.contains_key(name)
    }

    /// The type that a name stands for, as the type of the name.
    pub(crate) fn type_named(&self, name: &str) -> Option<Type> {
        if self.provider.has_type(name) {
            return Some(Type::of_type(Type::object(name)));
        }
        self.idents.get(name).cloned()
    }
}

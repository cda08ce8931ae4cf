//! The functions. Each library is a table of signatures with what they do and cost; an environment takes those that
//! it wants, and others (such as the authorizer of admission policies) can be made outside of this crate.

mod conversions;
mod equality;
mod format;
mod ip;
mod json_patch;
mod lists;
mod lists_ext;
mod operators;
mod optional;
mod quantity;
mod regex;
mod semver;
mod sets;
pub(crate) mod string_format;
mod strings;
mod text;
mod times;
mod two_var;
mod uri;
mod url;

use crate::function::Function;
use crate::syntax::{Macro, bind_macro};
use crate::types::Type;

pub use json_patch::json_patch;
pub use uri::is_request_uri;

/// Functions, macros and types that belong together.
#[derive(Clone, Debug, Default)]
pub struct Library {
    /// The functions. Overloads of functions that are there already are added to them.
    pub functions: Vec<Function>,
    /// The macros.
    pub macros: Vec<Macro>,
    /// The types that have names.
    pub types: Vec<Type>,
}

impl Library {
    fn of(functions: Vec<Function>) -> Self {
        Self { functions, ..Self::default() }
    }
}

/// CEL's own functions, types and macros.
#[must_use]
pub fn standard() -> Library {
    let mut functions = operators::functions();
    functions.extend(conversions::functions());
    functions.extend(text::functions());
    functions.extend(times::functions());
    let element = Type::param("A");
    let types = vec![
        Type::Bool,
        Type::Bytes,
        Type::Double,
        Type::Duration,
        Type::Int,
        Type::list(element.clone()),
        Type::map(element, Type::param("B")),
        Type::Null,
        Type::String,
        Type::Timestamp,
        Type::Type(None),
        Type::Uint,
    ];
    let macros = crate::syntax::standard_macros();
    Library { functions, macros: macros.into_iter().filter(|m| !two_var::is_two_var(m)).collect(), types }
}

/// What kube-apiserver 1.36 enables for every expression, apart from the authorizer, which belongs to admission.
#[must_use]
pub fn kubernetes() -> Vec<Library> {
    vec![
        url::library(),
        regex::library(),
        lists::library(),
        optional::library(),
        quantity::library(),
        strings::library(),
        sets::library(),
        ip::library(),
        ip::cidr_library(),
        format::library(),
        two_var::library(),
        semver::library(),
        lists_ext::library(),
        equality::library(),
    ]
}

/// `cel.bind`, which Kubernetes does not enable.
#[must_use]
pub fn bindings() -> Library {
    Library { macros: vec![bind_macro()], ..Library::default() }
}

/// Optional values, `cel.bind`, strings and loops over keys and values: what the public conformance tests use.
#[must_use]
pub fn extensions() -> Vec<Library> {
    vec![optional::library(), bindings(), strings::library(), two_var::library()]
}

//! Function libraries. Each library declares functions with implementations and costs. An environment adds the
//! libraries that it needs. Other crates can define their own libraries.

mod authz;
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
mod standard_strings;
mod string_format;
mod strings;
mod time_accessors;
mod two_var;
mod url;

use crate::env::{Env, Library};
use crate::syntax::bind_macro;
use crate::types::Type;

pub use json_patch::json_patch;
pub use pintle_value::url::is_request_uri;

impl Env {
    /// An environment with CEL's standard functions and macros only.
    #[must_use]
    pub fn standard() -> Self {
        Self::default().library(&standard())
    }

    /// The environment of Kubernetes 1.36: its libraries and its validators. Building it is expensive, so build it once
    /// and extend clones of it.
    #[must_use]
    pub fn kubernetes() -> Self {
        kubernetes().iter().fold(Self::standard(), |env, library| env.library(library)).with_validators()
    }
}

/// CEL's standard library.
#[must_use]
pub fn standard() -> Library {
    let mut functions = operators::functions();
    functions.extend(conversions::functions());
    functions.extend(standard_strings::functions());
    functions.extend(time_accessors::functions());
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

/// The libraries that kube-apiserver 1.36 enables for every expression.
#[must_use]
pub fn kubernetes() -> Vec<Library> {
    vec![
        url::library(),
        regex::library(),
        lists::library(),
        authz::library(),
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

/// The `cel.bind` macro, which Kubernetes does not enable.
#[must_use]
pub fn bindings() -> Library {
    Library { macros: vec![bind_macro()], ..Library::default() }
}

/// Optionals, `cel.bind`, strings and two-variable comprehensions, as the CEL conformance tests need them.
#[must_use]
pub fn extensions() -> Vec<Library> {
    vec![optional::library(), bindings(), strings::library(), two_var::library()]
}

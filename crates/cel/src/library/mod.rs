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

use std::sync::OnceLock;

use pintle_versions::{EffectiveVersion, Minor, MinorRange};

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

    /// The environment of Kubernetes for stored expressions: all libraries that any version allows, and the validators.
    #[must_use]
    pub fn kubernetes() -> Self {
        Self::shared(true, true)
    }

    /// The environment of a version of Kubernetes for new expressions: its libraries and its validators. It is cheap to
    /// clone, and each environment is built once.
    ///
    /// Other servers of the cluster must be able to evaluate a new expression, so the minimum compatibility version
    /// decides on libraries. The binary version decides on the syntax.
    #[must_use]
    pub fn kubernetes_of(version: EffectiveVersion) -> Self {
        Self::shared(QUOTED_FIELDS.contains(version.binary()), INCLUDES.contains(version.min_compatibility()))
    }

    /// A clone of the environment with these features.
    fn shared(has_quoted_fields: bool, has_includes: bool) -> Self {
        static ENVIRONMENTS: [[OnceLock<Env>; 2]; 2] = [const { [const { OnceLock::new() }; 2] }; 2];
        let environment = &ENVIRONMENTS[usize::from(has_quoted_fields)][usize::from(has_includes)];
        let build = || {
            let mut env = kubernetes().iter().fold(Self::standard(), |env, library| env.library(library));
            if has_includes {
                env = env.library(&lists::includes());
            }
            if has_quoted_fields {
                env = env.with_quoted_fields();
            }
            env.with_validators()
        };
        environment.get_or_init(build).clone()
    }
}

/// The versions of cel-go's parser that accept names of fields in backticks.
pub(crate) const QUOTED_FIELDS: MinorRange = MinorRange::since(Minor::new(37));
/// The versions whose expressions have the function `includes` of lists.
const INCLUDES: MinorRange = MinorRange::since(Minor::new(37));

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

/// The libraries that every version of kube-apiserver enables for every expression.
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

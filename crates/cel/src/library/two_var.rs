//! Two-variable comprehensions: `all`, `exists`, `existsOne` over keys and values, `transformList`, `transformMap`,
//! `transformMapEntry` (upstream: cel-go `ext/comprehensions.go`).

use super::Library;
use crate::error::EvalError;
use crate::eval::{insert_all, insert_entry};
use crate::function::{Function, Overload};
use crate::syntax::{Macro, standard_macros};
use crate::types::Type;

/// True for the macros of this library.
pub(super) fn is_two_var(m: &Macro) -> bool {
    m.function.starts_with("transform") || (m.arg_count == 3 && m.function != "map")
}

pub(super) fn library() -> Library {
    let map = Type::map(Type::param("K"), Type::param("V"));
    let insert = Function::new("cel.@mapInsert")
        .overload(
            Overload::global(
                "@mapInsert_map_key_value",
                &[map.clone(), Type::param("K"), Type::param("V")],
                map.clone(),
            )
            .binding(|args| match args {
                [map, key, value] => insert_entry(map.clone(), key.clone(), value.clone()),
                _ => Err(EvalError::no_overload()),
            }),
        )
        .overload(Overload::global("@mapInsert_map_map", &[map.clone(), map.clone()], map).binding(
            |args| match args {
                [map, other] => insert_all(map.clone(), other),
                _ => Err(EvalError::no_overload()),
            },
        ));
    let macros = standard_macros().into_iter().filter(is_two_var).collect();
    Library { functions: vec![insert], macros, types: Vec::new() }
}

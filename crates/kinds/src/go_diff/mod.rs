//! The differences that messages about forbidden updates show (upstream: apimachinery's `pkg/util/diff`). They are
//! unified diffs of the indented JSON of structs of the internal version, which have no JSON names.

mod lines;
mod structs;

use pintle_value::Value;

/// A struct of the API whose internal version is compared, by the name of its Go type.
pub(crate) use self::structs::GoStruct;

/// Returns the hunks of the difference of two structs, or an empty text if there is none.
pub(crate) fn structs(old: &Value, new: &Value, ty: GoStruct) -> String {
    lines::unified(&ty.print(old), &ty.print(new))
}

/// Returns the hunks of the difference of two lists of structs.
pub(crate) fn lists(old: &[Value], new: &[Value], item: GoStruct) -> String {
    lines::unified(&item.print_list(old), &item.print_list(new))
}

//! Writes JSON like Go's `encoding/json` writes structs: with fields in the order of their declaration. The order is
//! visible in annotations that contain objects of another version, and in values that error messages show.

use pintle_value::print::json_ordered;
use pintle_value::{FieldError, FieldPath, Value};

use crate::go_diff::GoStruct;

/// The fields of `metav1.LabelSelector` and its requirements, in order.
const LABEL_SELECTOR: &[&str] = &["matchLabels", "matchExpressions", "key", "operator", "values"];

/// Fields with maps, whose keys Go sorts.
const MAPS: &[&str] = &["matchLabels", "labels", "annotations", "nodeSelector", "limits", "requests"];

/// Returns the JSON of a value, with the fields of structs in the order of `order`. Fields that are not listed follow
/// in alphabetical order.
pub(crate) fn ordered(value: &Value, order: &[&str]) -> String {
    json_ordered(value, order, MAPS)
}

/// Returns a value as error messages show it, with label selectors in Go's field order.
pub(crate) fn print(value: &Value) -> String {
    ordered(value, LABEL_SELECTOR)
}

/// How a struct of an upstream internal version prints. These structs have no JSON names.
pub(crate) enum GoType {
    /// The internal version of a struct of the API, by its Go name (`core/v1.Taint`).
    Of(&'static str),
    /// A value with JSON names, or a scalar; prints as this text if absent.
    Plain(&'static str),
    /// A struct: Go names with the JSON names of the served version.
    Struct(&'static [(&'static str, &'static str, GoType)]),
    /// A pointer to a struct.
    Pointer(&'static GoType),
    /// A list.
    List(&'static GoType),
    /// A value with a custom format.
    Custom(fn(Option<&Value>) -> String),
}

impl GoType {
    /// A string.
    pub(crate) const STRING: Self = Self::Plain("\"\"");
    /// A pointer to a scalar, a list of scalars, or a pointer to a struct with JSON names.
    pub(crate) const NULLABLE: Self = Self::Plain("null");
}

/// Returns an `Invalid` error for a value that upstream shows as its internal struct.
pub(crate) fn invalid(path: &FieldPath<'_>, value: &Value, shape: &GoType, detail: &str) -> FieldError {
    FieldError::invalid(path, value.clone(), detail).showing(internal(Some(value), shape))
}

/// Returns an `Invalid` error for a value that upstream shows as JSON, because it is a pointer or has a named string
/// type.
pub(crate) fn invalid_pointer(path: &FieldPath<'_>, value: impl Into<Value>, detail: &str) -> FieldError {
    let value = value.into();
    let shown = print(&value);
    FieldError::invalid(path, value, detail).showing(shown)
}

/// Returns a value as Go prints its internal version.
pub(crate) fn internal(value: Option<&Value>, shape: &GoType) -> String {
    let value = value.filter(|value| !value.is_null());
    match (shape, value) {
        (GoType::Of(name), value) => GoStruct::newest(name).compact(value),
        (GoType::Plain(absent), value) => value.map_or_else(|| (*absent).to_owned(), print),
        (GoType::Struct(fields), value) => {
            let entries: Vec<String> = fields
                .iter()
                .map(|(go, json, shape)| format!("\"{go}\":{}", internal(value.and_then(|v| v.get(json)), shape)))
                .collect();
            format!("{{{}}}", entries.join(","))
        }
        (GoType::Custom(print), value) => print(value),
        (GoType::Pointer(_) | GoType::List(_), None) => "null".to_owned(),
        (GoType::Pointer(shape), value) => internal(value, shape),
        (GoType::List(shape), Some(list)) => {
            let items: Vec<String> = list.items_at(&[]).iter().map(|item| internal(Some(item), shape)).collect();
            format!("[{}]", items.join(","))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::object;

    #[test]
    fn internal_structs_print_with_go_names() {
        const SHAPE: GoType = GoType::Struct(&[
            ("Type", "type", GoType::STRING),
            ("Rolling", "rolling", GoType::Pointer(&GoType::Struct(&[("Max", "max", GoType::Plain("0"))]))),
        ]);
        let check = |json: &str, expect: &str| assert_eq!(internal(Some(&object(json)), &SHAPE), expect);
        check("{}", r#"{"Type":"","Rolling":null}"#);
        check(r#"{"type":"x","rolling":{}}"#, r#"{"Type":"x","Rolling":{"Max":0}}"#);
        check(r#"{"rolling":{"max":"5%"}}"#, r#"{"Type":"","Rolling":{"Max":"5%"}}"#);
    }

    #[test]
    fn fields_print_in_declaration_order() {
        let check = |json: &str, expect: &str| assert_eq!(print(&object(json)), expect);
        check(
            r#"{"matchExpressions":[{"values":["a"],"operator":"In","key":"k"}],"matchLabels":{"values":"1","key":"2"}}"#,
            r#"{"matchLabels":{"key":"2","values":"1"},"matchExpressions":[{"key":"k","operator":"In","values":["a"]}]}"#,
        );
        check(r#"["a<b>&\u0001\u2028",null,1,true]"#, r#"["a\u003cb\u003e\u0026\u0001\u2028",null,1,true]"#);
    }
}

//! The fields that a definition lets its objects be selected by (upstream: `registry/customresource/strategy.go`). Each
//! version names its own; what is kept of a stored object are those of all versions together.

use std::sync::Arc;

use pintle_registry::SelectableField;
use pintle_value::{Str, Value, print};

use crate::json_path::JsonPath;

/// The selectable fields of all versions of a definition.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selectable {
    fields: Arc<[Field]>,
    /// True if objects are in namespaces and so can be selected by them.
    pub(crate) namespaced: bool,
}

#[derive(Debug)]
struct Field {
    /// The path as selectors name it: without the dot at its start.
    name: Str,
    path: JsonPath,
}

impl Selectable {
    /// The fields that a definition names.
    pub(crate) fn of(definition: &Value) -> Self {
        let mut fields: Vec<Field> = Vec::new();
        for asked in definition.items_at(&["spec", "versions"]).iter().flat_map(paths) {
            let name = name(asked);
            if !fields.iter().any(|field| field.name == name)
                && let Some(path) = JsonPath::parse(asked)
            {
                fields.push(Field { name: name.into(), path });
            }
        }
        Self { fields: fields.into(), namespaced: definition.str_at(&["spec", "scope"]) == "Namespaced" }
    }

    /// The fields of one version.
    pub(crate) fn of_version(&self, version: &Value) -> Vec<SelectableField> {
        let field = |asked| {
            let index = self.fields.iter().position(|field| field.name == name(asked))?;
            Some(SelectableField { name: name(asked).into(), index })
        };
        paths(version).filter_map(field).collect()
    }

    /// What an object has in each field; nothing reads as an empty text.
    pub(crate) fn values(&self, object: &Value) -> Vec<Str> {
        let value = |field: &Field| match field.path.find(object).first() {
            None | Some(Value::Null) => Str::default(),
            Some(value) => print::plain(value).into(),
        };
        self.fields.iter().map(value).collect()
    }

    /// The paths of what [`Selectable::values`] looks at. Definitions may not write names in brackets here.
    pub(crate) fn sources(&self) -> Vec<&str> {
        self.fields.iter().map(|field| field.name.as_str()).collect()
    }
}

/// The paths that a version names.
fn paths(version: &Value) -> impl Iterator<Item = &str> {
    version.items_at(&["selectableFields"]).iter().map(|field| field.str_at(&["jsonPath"]))
}

fn name(path: &str) -> &str {
    path.strip_prefix('.').unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use pintle_value::object;

    use super::*;

    fn version(paths: &[&str]) -> Value {
        let fields: Vec<Value> = paths.iter().map(|path| object! { "jsonPath": *path }).collect();
        object! { "selectableFields": fields }
    }

    #[test]
    fn versions_share_places() {
        let versions = [version(&[".spec.size", ".spec.color"]), version(&[".spec.color", ".spec.on"]), version(&[])];
        let definition = object! { "spec": object! { "scope": "Namespaced", "versions": versions.to_vec() } };
        let selectable = Selectable::of(&definition);
        let check = |version: &Value, expect: &str| {
            let fields = selectable.of_version(version).into_iter().map(|f| format!("{}={}", f.name, f.index));
            assert_eq!(fields.collect::<Vec<_>>().join(" "), expect);
        };
        check(&versions[0], "spec.size=0 spec.color=1");
        check(&versions[1], "spec.color=1 spec.on=2");
        check(&versions[2], "");
        let check = |spec: Value, expect: [&str; 3]| {
            assert_eq!(selectable.values(&object! { "spec": spec }), expect);
        };
        check(object! { "size": 3, "color": "blue", "on": false }, ["3", "blue", "false"]);
        check(object! { "color": Value::Null }, ["", "", ""]);
        check(Value::Null, ["", "", ""]);
        assert_eq!(selectable.sources(), ["spec.size", "spec.color", "spec.on"]);
    }
}

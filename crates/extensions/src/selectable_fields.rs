//! Selectable fields of custom resources (upstream: `registry/customresource/strategy.go`). Each version declares its
//! own fields. The values of a stored object are indexed for the fields of all versions together.

use std::sync::Arc;

use pintle_registry::SelectableField;
use pintle_value::{Str, Value, print};

use crate::json_path::JsonPath;

/// The selectable fields of all versions of a CRD.
#[derive(Clone, Debug, Default)]
pub(crate) struct SelectableFields {
    fields: Arc<[Field]>,
    /// True if the resource is namespaced, so that `metadata.namespace` is selectable.
    pub(crate) namespaced: bool,
}

#[derive(Debug)]
struct Field {
    /// The name in field selectors: the path without its leading dot.
    name: Str,
    path: JsonPath,
}

impl SelectableFields {
    /// Collects the selectable fields of a CRD.
    pub(crate) fn of(crd: &Value) -> Self {
        let mut fields: Vec<Field> = Vec::new();
        for asked in crd.items_at(&["spec", "versions"]).iter().flat_map(paths) {
            let name = name(asked);
            if !fields.iter().any(|field| field.name == name)
                && let Some(path) = JsonPath::parse(asked)
            {
                fields.push(Field { name: name.into(), path });
            }
        }
        Self { fields: fields.into(), namespaced: crd.str_at(&["spec", "scope"]) == "Namespaced" }
    }

    /// Returns the selectable fields of one version.
    pub(crate) fn of_version(&self, version: &Value) -> Vec<SelectableField> {
        let field = |asked| {
            let index = self.fields.iter().position(|field| field.name == name(asked))?;
            Some(SelectableField { name: name(asked).into(), index })
        };
        paths(version).filter_map(field).collect()
    }

    /// Returns the value of each field of an object. A missing value is an empty string.
    pub(crate) fn values(&self, object: &Value) -> Vec<Str> {
        let value = |field: &Field| match field.path.find(object).first() {
            None | Some(Value::Null) => Str::default(),
            Some(value) => print::plain(value).into(),
        };
        self.fields.iter().map(value).collect()
    }

    /// The paths that [`SelectableFields::values`] reads. CRDs may not use brackets in these paths.
    pub(crate) fn sources(&self) -> Vec<&str> {
        self.fields.iter().map(|field| field.name.as_str()).collect()
    }
}

/// The paths that a version declares.
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
    fn versions_share_indexes() {
        let versions = [version(&[".spec.size", ".spec.color"]), version(&[".spec.color", ".spec.on"]), version(&[])];
        let crd = object! { "spec": object! { "scope": "Namespaced", "versions": versions.to_vec() } };
        let selectable_fields = SelectableFields::of(&crd);
        let check = |version: &Value, expect: &str| {
            let fields = selectable_fields.of_version(version).into_iter().map(|f| format!("{}={}", f.name, f.index));
            assert_eq!(fields.collect::<Vec<_>>().join(" "), expect);
        };
        check(&versions[0], "spec.size=0 spec.color=1");
        check(&versions[1], "spec.color=1 spec.on=2");
        check(&versions[2], "");
        let check = |spec: Value, expect: [&str; 3]| {
            assert_eq!(selectable_fields.values(&object! { "spec": spec }), expect);
        };
        check(object! { "size": 3, "color": "blue", "on": false }, ["3", "blue", "false"]);
        check(object! { "color": Value::Null }, ["", "", ""]);
        check(Value::Null, ["", "", ""]);
        assert_eq!(selectable_fields.sources(), ["spec.size", "spec.color", "spec.on"]);
    }
}

//! Merges the OpenAPI 2.0 documents of aggregated API servers into the server's own document, as kube-aggregator does
//! with kube-openapi's package `aggregator`.

use std::borrow::Cow;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{BuildHasher, Hash, Hasher, RandomState};

use pintle_value::{Object, Str, Value};

use crate::references::{DEFINITION, PARAMETER, References, used_definitions};
use crate::spec::Spec;

/// The extension that lists the kinds of a schema. Schemas that differ only in it are the same.
const KINDS: &str = "x-kubernetes-group-version-kind";

/// The part of an aggregated API server's document that belongs to an `APIService`. Copies share the schemas.
#[derive(Clone, Debug)]
pub struct RemoteSpec {
    /// The name of the `APIService`.
    name: String,
    paths: Object,
    definitions: Object,
    parameters: Object,
}

/// Why the document of an `APIService` is not in the merged document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("failed to merge the OpenAPI document of APIService {name}: {reason}")]
pub struct MergeError {
    /// The name of the `APIService`.
    pub name: String,
    /// The error.
    pub reason: String,
}

impl RemoteSpec {
    /// Keeps the paths below `/apis/GROUP/VERSION/` and drops the definitions that only other paths refer to. A
    /// definition to which no path refers is kept, and so is every parameter.
    #[must_use]
    pub fn new(name: impl Into<String>, group: &str, version: &str, spec: Spec) -> Self {
        let mut document = match spec.document {
            Value::Object(document) => document,
            _ => Object::new(),
        };
        let mut field = |key: &str| match document.remove(key) {
            Some(Value::Object(object)) => object,
            _ => Object::new(),
        };
        let (mut paths, mut definitions, parameters) = (field("paths"), field("definitions"), field("parameters"));
        paths.retain(|path, _| path.starts_with('/'));
        let prefix = format!("/apis/{group}/{version}/");
        if paths.keys().any(|path| !path.starts_with(&prefix)) {
            let used_before = used_definitions(paths.values(), &definitions, &parameters);
            paths.retain(|path, _| path.starts_with(&prefix));
            let used = used_definitions(paths.values(), &definitions, &parameters);
            definitions.retain(|name, _| used.contains(name) || !used_before.contains(name));
        }
        Self {
            name: name.into(),
            paths: shared(paths),
            definitions: shared(definitions),
            parameters: shared(parameters),
        }
    }

    /// The paths, sorted.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.paths.keys()
    }
}

/// Lets copies share the values.
fn shared(mut object: Object) -> Object {
    for (_, value) in object.iter_mut() {
        if let Value::Object(object) = value {
            *object = std::mem::take(object).into_shared(0..0);
        }
    }
    object
}

/// Merges documents into the server's own document, whose fields other than `paths`, `definitions` and `parameters` are
/// kept. `local` is a document that this crate has made. The documents of upstream's aggregator have this order: groups
/// by the greatest `groupPriorityMinimum` of their `APIServices`, greatest first; then names of `APIServices`.
/// `versionPriority` has no effect there.
///
/// A path that exists already is ignored. A definition or parameter that exists with another content gets the suffix
/// `_v2`, `_v3` and so on. A document with an error is left out; upstream's aggregator then publishes no document.
#[must_use]
pub fn merge_v2(local: Value, remotes: &[RemoteSpec]) -> (Value, Vec<MergeError>) {
    let Value::Object(mut document) = local else { return (local, Vec::new()) };
    let mut field = |key: &str| match document.remove(key) {
        Some(Value::Object(object)) => object.into_iter().collect(),
        _ => BTreeMap::new(),
    };
    let mut merged = Merged {
        paths: field("paths"),
        definitions: Models::new(field("definitions"), |key| key != KINDS),
        parameters: Models::new(field("parameters"), |_| true),
        kinds: HashMap::new(),
    };
    let mut errors = Vec::new();
    for remote in remotes {
        if let Err(reason) = merged.add(remote) {
            errors.push(MergeError { name: remote.name.clone(), reason });
        }
    }
    for (name, kinds) in merged.kinds {
        if let Some(definition) = merged.definitions.entries.get_mut(&name) {
            kinds.write(definition);
        }
    }
    let entries = |entries: BTreeMap<Str, Value>| Object::from_entries(entries.into_iter().collect());
    document.insert("paths", entries(merged.paths));
    for (key, models) in [("definitions", merged.definitions), ("parameters", merged.parameters)] {
        if !models.entries.is_empty() {
            document.insert(key, entries(models.entries));
        }
    }
    (Value::Object(document), errors)
}

/// The documents that were merged so far.
struct Merged {
    paths: BTreeMap<Str, Value>,
    definitions: Models,
    parameters: Models,
    /// The kinds of definitions that several documents have.
    kinds: HashMap<Str, Kinds>,
}

impl Merged {
    /// Adds a document, or nothing at an error.
    fn add(&mut self, remote: &RemoteSpec) -> Result<(), String> {
        let is_new = |path: &str| !self.paths.contains_key(path);
        let new_paths = || remote.paths.iter().filter(|(path, _)| is_new(path)).map(|(_, item)| item);
        let count = new_paths().count();
        if count == 0 {
            return Ok(());
        }
        let mut definitions = Cow::Borrowed(&remote.definitions);
        if count < remote.paths.len() {
            let used_before = used_definitions(remote.paths.values(), &definitions, &remote.parameters);
            let used = used_definitions(new_paths(), &definitions, &remote.parameters);
            definitions.to_mut().retain(|name, _| used.contains(name) || !used_before.contains(name));
        }
        // Parameters are compared after their references to definitions are replaced.
        let definition_names = self.definitions.new_names(&definitions);
        let mut parameters = Cow::Borrowed(&remote.parameters);
        if !definition_names.is_empty() {
            let mut rename = |reference: &str| renamed(reference, DEFINITION, &definition_names);
            let mut references = References(&mut rename);
            for (_, parameter) in parameters.to_mut().iter_mut() {
                if let Some(changed) = references.parameter(parameter) {
                    *parameter = changed;
                }
            }
        }
        let parameter_names = self.parameters.new_names(&parameters);
        self.add_kinds(&definitions, &definition_names)?;

        let mut rename_parameter = |reference: &str| renamed(reference, PARAMETER, &parameter_names);
        let mut references = References(&mut rename_parameter);
        self.parameters.add(&parameters, &parameter_names, |parameter| references.parameter(parameter));
        let mut rename = |reference: &str| {
            let definition = renamed(reference, DEFINITION, &definition_names);
            definition.or_else(|| renamed(reference, PARAMETER, &parameter_names))
        };
        let mut references = References(&mut rename);
        self.definitions.add(&definitions, &definition_names, |schema| references.schema(schema));
        for (path, item) in remote.paths.iter() {
            let place = self.paths.entry(Str::from(path));
            place.or_insert_with(|| references.path_item(item).unwrap_or_else(|| item.clone()));
        }
        Ok(())
    }

    /// Adds the kinds of definitions that exist already, under their new names, or nothing at an error.
    fn add_kinds(&mut self, definitions: &Object, new_names: &HashMap<Str, Str>) -> Result<(), String> {
        let (mut first_kinds, mut added_kinds) = (Vec::new(), Vec::new());
        for (name, schema) in definitions.iter() {
            let name = new_names.get(name).map_or(name, Str::as_str);
            let (existing, kinds) = (self.definitions.entries.get(name), schema.get(KINDS));
            let (Some(existing), Some(kinds)) = (existing, kinds) else { continue };
            match existing.get(KINDS) {
                None => first_kinds.push((Str::from(name), kinds.clone())),
                Some(known) => {
                    let known = match self.kinds.entry(Str::from(name)) {
                        Entry::Occupied(known) => known.into_mut(),
                        Entry::Vacant(place) => place.insert(Kinds::new(known)?),
                    };
                    let added = keyed_kinds(kinds)?.into_iter().filter(|(key, _)| !known.keys.contains(key));
                    added_kinds.push((Str::from(name), added.collect::<Vec<_>>()));
                }
            }
        }
        for (name, kinds) in first_kinds {
            if let Some(existing) = self.definitions.entries.get_mut(&name) {
                existing.set(KINDS, kinds);
            }
        }
        for (name, kinds) in added_kinds {
            if let Some(known) = self.kinds.get_mut(&name) {
                known.keys.extend(kinds.iter().map(|(key, _)| key.clone()));
                known.added.extend(kinds);
            }
        }
        Ok(())
    }
}

/// The new reference to a definition or parameter with another name.
fn renamed(reference: &str, start: &str, new_names: &HashMap<Str, Str>) -> Option<Str> {
    let name = new_names.get(reference.strip_prefix(start)?)?;
    Some(Str::from(format!("{start}{name}")))
}

/// Definitions or parameters by name.
struct Models {
    entries: BTreeMap<Str, Value>,
    /// Whether a member of an entry matters when entries are compared.
    matters: fn(&str) -> bool,
    /// Entries with a suffix, by the name without it.
    versions: HashMap<Str, Versions>,
    hasher: RandomState,
}

/// The entries with a name and the suffixes `_v2`, `_v3` and so on, without a gap.
struct Versions {
    /// The first suffix that does not exist.
    next: usize,
    /// The names by the hash of their content, so that many versions need not be compared one by one.
    names: HashMap<u64, Vec<Str>>,
}

impl Models {
    fn new(entries: BTreeMap<Str, Value>, matters: fn(&str) -> bool) -> Self {
        Self { entries, matters, versions: HashMap::new(), hasher: RandomState::new() }
    }

    /// Adds the entries that do not exist, under their new names and after a change.
    fn add(&mut self, added: &Object, new_names: &HashMap<Str, Str>, mut change: impl FnMut(&Value) -> Option<Value>) {
        for (name, value) in added.iter() {
            let place = self.entries.entry(Str::from(new_names.get(name).map_or(name, Str::as_str)));
            place.or_insert_with(|| change(value).unwrap_or_else(|| value.clone()));
        }
    }

    /// The new names of entries whose names are taken by other entries.
    fn new_names(&mut self, added: &Object) -> HashMap<Str, Str> {
        let mut result = HashMap::new();
        for (name, value) in added.iter() {
            let conflicts = |existing: &Value| !is_same(existing, value, self.matters);
            if self.entries.get(name).is_some_and(conflicts) {
                result.insert(Str::from(name), self.version(name, value, added));
            }
        }
        result
    }

    /// The name with the suffix of an equal entry, or else with a suffix that is free.
    fn version(&mut self, name: &str, value: &Value, added: &Object) -> Str {
        let Self { entries, matters, versions, hasher } = self;
        let hash = |value: &Value| {
            let mut hasher = hasher.build_hasher();
            for (key, value) in members(value, *matters) {
                key.hash(&mut hasher);
                hash_value(value, &mut hasher);
            }
            hasher.finish()
        };
        let with_suffix = |number: usize| Str::from(format!("{name}_v{number}"));
        let known = versions.entry(Str::from(name)).or_insert_with(|| Versions { next: 2, names: HashMap::new() });
        let mut free = with_suffix(known.next);
        while let Some(existing) = entries.get(&free) {
            known.names.entry(hash(existing)).or_default().push(free);
            known.next += 1;
            free = with_suffix(known.next);
        }
        let candidates = known.names.get(&hash(value)).into_iter().flatten();
        let mut equal = candidates.filter(|name| entries.get(*name).is_some_and(|old| is_same(old, value, *matters)));
        if let Some(equal) = equal.next() {
            return equal.clone();
        }
        let mut number = known.next;
        while entries.contains_key(&free) || added.contains_key(&free) {
            number += 1;
            free = with_suffix(number);
        }
        free
    }
}

/// Whether two entries are equal, apart from members that do not matter.
fn is_same(a: &Value, b: &Value, matters: fn(&str) -> bool) -> bool {
    a.shares_members(b) || members(a, matters).eq(members(b, matters))
}

/// The members of an entry that matter.
fn members(entry: &Value, matters: fn(&str) -> bool) -> impl Iterator<Item = (&str, &Value)> {
    entry.entries_at(&[]).filter(move |(key, _)| matters(key))
}

fn hash_value(value: &Value, hasher: &mut impl Hasher) {
    std::mem::discriminant(value).hash(hasher);
    match value {
        Value::Null => {}
        Value::Bool(flag) => flag.hash(hasher),
        Value::Int(number) => number.hash(hasher),
        // Zeros with different signs are equal.
        Value::Float(number) => (if *number == 0.0 { 0 } else { number.to_bits() }).hash(hasher),
        Value::String(text) => text.hash(hasher),
        Value::Array(items) => {
            items.len().hash(hasher);
            items.iter().for_each(|item| hash_value(item, hasher));
        }
        Value::Object(object) => {
            object.len().hash(hasher);
            for (key, value) in object.iter() {
                key.hash(hasher);
                hash_value(value, hasher);
            }
        }
    }
}

/// The kinds of a definition.
struct Kinds {
    keys: HashSet<String>,
    /// The kinds that the definition does not list yet. They are written once, however many documents add some.
    added: Vec<(String, Value)>,
}

impl Kinds {
    /// The kinds that a definition lists.
    fn new(listed: &Value) -> Result<Self, String> {
        Ok(Self { keys: keyed_kinds(listed)?.into_iter().map(|(key, _)| key).collect(), added: Vec::new() })
    }

    /// Adds the kinds to the definition and sorts its list, unless the list has all of them already.
    fn write(self, definition: &mut Value) {
        if self.added.is_empty() {
            return;
        }
        let mut all = keyed_kinds(&definition[KINDS]).unwrap_or_default();
        all.extend(self.added);
        all.sort_by(|(a, _), (b, _)| a.cmp(b));
        definition.set(KINDS, Value::Array(all.into_iter().map(|(_, kind)| kind).collect()));
    }
}

/// The kinds in the extension, each with the text by which kinds are compared.
fn keyed_kinds(value: &Value) -> Result<Vec<(String, Value)>, String> {
    let json = |value: &Value| String::from_utf8_lossy(&crate::json(value)).into_owned();
    let kinds = value.as_array();
    let kinds = kinds.ok_or_else(|| format!("expected slice of GroupVersionKinds, got: {}", json(value)))?;
    let keyed = |kind: &Value| match kind {
        Value::Object(_) => {
            let part = |key: &str| match &kind[key] {
                Value::String(text) => text.to_string(),
                other => json(other),
            };
            Ok((format!("{}/{}.{}", part("group"), part("version"), part("kind")), kind.clone()))
        }
        _ => {
            Err(format!(r#"expected {{"group": <group>, "kind": <kind>, "version": <version>}}, got: {}"#, json(kind)))
        }
    };
    kinds.iter().map(keyed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_value::object;

    const ERROR: &str = "expected slice of GroupVersionKinds, got: 1";

    /// A document with one path per version of the group `g`, whose response has the schema `A`.
    fn document(versions: &[&str], definitions: Value) -> Value {
        let response = object! { "description": "OK", "schema": object! { "$ref": "#/definitions/A" } };
        let operation = object! { "responses": object! { "200": response } };
        let path = |version: &&str| (format!("/apis/g/{version}/things"), object! { "get": operation.clone() });
        object! { "paths": versions.iter().map(path).collect::<Object>(), "definitions": definitions }
    }

    fn remote(version: &str, document: Value) -> RemoteSpec {
        RemoteSpec::new(format!("{version}.g"), "g", version, Spec::decode(document).expect("a valid document"))
    }

    fn described(text: &str) -> Value {
        object! { "description": text }
    }

    fn keys(value: &Value) -> Vec<&str> {
        value.entries_at(&[]).map(|(key, _)| key).collect()
    }

    fn reference(merged: &Value, version: &str) -> String {
        let path = format!("/apis/g/{version}/things");
        merged.str_at(&["paths", &path, "get", "responses", "200", "schema", "$ref"]).to_owned()
    }

    fn merged(local: Value, remotes: &[RemoteSpec]) -> Value {
        let (merged, errors) = merge_v2(local, remotes);
        assert_eq!(errors, []);
        merged
    }

    #[test]
    fn other_paths_and_their_definitions_are_dropped() {
        let refers = |name: &str| object! { "items": object! { "$ref": format!("#/definitions/{name}") } };
        let definitions =
            object! { "A": refers("A"), "B": refers("C"), "C": refers("B"), "Unused": refers("D"), "D": object! {} };
        let mut document = document(&["v1", "v1x"], definitions);
        document.set_at(&["paths", "/healthz", "get", "parameters"], vec![object! { "$ref": "#/parameters/p" }]);
        document.set_at(&["parameters", "p"], object! { "schema": object! { "$ref": "#/definitions/B" } });
        let merged = merged(object! {}, &[remote("v1", document)]);
        assert_eq!(keys(&merged["paths"]), ["/apis/g/v1/things"]);
        assert_eq!(keys(&merged["definitions"]), ["A", "D", "Unused"]);
        assert_eq!(keys(&merged["parameters"]), ["p"]);
    }

    #[test]
    fn conflicting_definitions_are_renamed() {
        let local = || document(&["v1"], object! { "A": described("local"), "B": object! {} });
        let remotes = [
            remote(
                "v2",
                document(&["v2"], object! { "A": described("two"), "A_v2": described("own"), "B": object! {} }),
            ),
            remote("v3", document(&["v3"], object! { "A": described("two") })),
            remote("v4", document(&["v4"], object! { "A": described("own") })),
            remote("v5", document(&["v5"], object! { "A": described("five") })),
            remote("v6", document(&["v6"], object! { "A": described("local") })),
        ];
        let merged = merged(local(), &remotes);
        assert_eq!(keys(&merged["definitions"]), ["A", "A_v2", "A_v3", "A_v4", "B"]);
        let names = ["v1", "v2", "v3", "v4", "v5", "v6"].map(|version| reference(&merged, version));
        let expect = ["A", "A_v3", "A_v3", "A_v2", "A_v4", "A"].map(|name| format!("#/definitions/{name}"));
        assert_eq!(names, expect);
    }

    #[test]
    fn conflicting_parameters_are_renamed() {
        let with = |version: &str, description: &str, used: Value| {
            let mut document = document(&[version], object! { "A": described(description) });
            document.set_at(&["paths", &format!("/apis/g/{version}/things"), "parameters"], vec![used]);
            document.set_at(
                &["parameters", "p"],
                object! { "name": description, "schema": object! { "$ref": "#/definitions/A" } },
            );
            document
        };
        let used = || object! { "$ref": "#/parameters/p" };
        let merged = merged(with("v1", "a", used()), &[remote("v2", with("v2", "b", used()))]);
        assert_eq!(merged.str_at(&["parameters", "p_v2", "schema", "$ref"]), "#/definitions/A_v2");
        assert_eq!(
            merged["paths"]["/apis/g/v2/things"]["parameters"],
            vec![object! { "$ref": "#/parameters/p_v2" }].into()
        );
        assert_eq!(merged["paths"]["/apis/g/v1/things"]["parameters"], vec![used()].into());
    }

    #[test]
    fn kinds_of_equal_definitions_are_merged() {
        let kind = |name: &str| object! { "group": "g", "version": "v1", "kind": name };
        let with = |version: &str, kinds: Option<Vec<Value>>| {
            let mut schema = described("same");
            if let Some(kinds) = kinds {
                schema.set(KINDS, kinds);
            }
            document(&[version], object! { "A": schema })
        };
        let remotes = [
            remote("v2", with("v2", Some(vec![kind("B"), kind("C")]))),
            remote("v3", with("v3", Some(vec![kind("A"), kind("C")]))),
            remote("v4", with("v4", None)),
        ];
        let merged = merged(with("v1", None), &remotes);
        assert_eq!(keys(&merged["definitions"]), ["A"]);
        assert_eq!(merged["definitions"]["A"][KINDS], vec![kind("A"), kind("B"), kind("C")].into());
    }

    #[test]
    fn a_document_with_an_error_is_left_out() {
        let with = |version: &str, kinds: Value| {
            let mut schema = described("same");
            schema.set(KINDS, kinds);
            let mut document = document(&[version], object! { "A": schema });
            document.set_at(&["definitions", version], object! {});
            document
        };
        let none = || Value::Array(Vec::new());
        let remotes = [remote("v2", with("v2", 1.into())), remote("v3", with("v3", none()))];
        let (merged, errors) = merge_v2(with("v1", none()), &remotes);
        assert_eq!(errors, [MergeError { name: "v2.g".to_owned(), reason: ERROR.to_owned() }]);
        assert_eq!(keys(&merged["paths"]), ["/apis/g/v1/things", "/apis/g/v3/things"]);
        assert_eq!(keys(&merged["definitions"]), ["A", "v1", "v3"]);
    }

    #[test]
    fn existing_paths_are_kept() {
        let local = document(&["v1"], object! { "A": object! {} });
        let remotes = [remote("v1", document(&["v1"], object! { "A": described("other"), "B": object! {} }))];
        assert_eq!(merged(local.clone(), &remotes), local);
    }

    #[test]
    fn a_merged_document_shares_what_it_does_not_change() {
        let definitions = object! {
            "A": described("two"),
            "B": object! { "items": object! { "$ref": "#/definitions/A" } },
            "C": described("alone"),
        };
        let remotes = [remote("v2", document(&["v2"], definitions))];
        let merged = merged(document(&["v1"], object! { "A": object! {} }), &remotes);
        let shares = |name: &str, new_name: &str| {
            let source = remotes[0].definitions.get(name).expect("a definition");
            merged["definitions"][new_name].shares_members(source)
        };
        assert!(shares("A", "A_v2") && shares("C", "C") && !shares("B", "B"));
        assert_eq!(merged["definitions"]["B"]["items"]["$ref"], Value::from("#/definitions/A_v2"));
    }
}

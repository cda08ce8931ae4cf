//! A kind for tests: every way in which values merge, at two versions with different field names.

#![allow(dead_code)] // Each test uses only a part.

use std::collections::BTreeMap;

use pintle_apply::merge::{ConvertError, VersionConverter};
use pintle_apply::typed::TypeRef;
use pintle_schema::{Field, List, ListTopology, Map, Omit, PatchMeta, Scalar, ScalarType, Struct, Type, TypeId, Types};
use pintle_value::{Str, Value};

/// The types of the kind.
pub(crate) struct Model {
    types: Types,
    roots: BTreeMap<&'static str, TypeId>,
    deduced: bool,
}

fn field(name: &str, ty: TypeId) -> Field {
    Field {
        name: Str::from(name),
        ty,
        pointer: false,
        omit: Omit::Empty,
        required: false,
        number: 0,
        embedded: 0,
        patch: PatchMeta::default(),
        default: None,
    }
}

impl Model {
    /// The kind with a schema.
    pub(crate) fn new() -> Self {
        Self::with(false)
    }

    /// The kind with a newer schema, in which some fields have become atomic.
    pub(crate) fn atomic() -> Self {
        Self::with(true)
    }

    /// The kind without a schema.
    pub(crate) fn deduced() -> Self {
        Self { deduced: true, ..Self::with(false) }
    }

    fn with(atomic: bool) -> Self {
        let mut types = Types::default();
        let mut scalar = |kind| types.add(Type::Scalar(ScalarType { kind, name: Str::default(), values: None }));
        let (numeric, string, raw) = (scalar(Scalar::Int64), scalar(Scalar::String), scalar(Scalar::RawExtension));
        let any = types.add(Type::Any);
        let list = |types: &mut Types, item, topology| {
            types.add(Type::List(List { item, pointers: false, topology, name: Str::default() }))
        };
        let map = |types: &mut Types, value, atomic| {
            types.add(Type::Map(Map { value, atomic, name: Str::default(), key: Str::default() }))
        };
        let structure = |types: &mut Types, atomic, fields: Vec<(&str, TypeId)>| {
            let fields = fields.into_iter().map(|(name, ty)| field(name, ty)).collect();
            let mut made = Struct::new("", "", fields);
            made.atomic = atomic;
            types.add(Type::Struct(made))
        };
        let keys = |names: &[&str]| ListTopology::Map(names.iter().map(|name| Str::from(*name)).collect());
        let atomic_or = |topology: ListTopology| if atomic { ListTopology::Atomic } else { topology };

        let set = list(&mut types, any, ListTopology::Set);
        let strings = list(&mut types, string, atomic_or(ListTopology::Set));
        let labels = map(&mut types, string, atomic);
        let atomic_map = map(&mut types, string, true);
        let lists = map(&mut types, set, false);
        let recursive = types.add(Type::Any);
        types.replace(
            recursive,
            Type::Map(Map { value: recursive, atomic: false, name: Str::default(), key: Str::default() }),
        );
        let inner = structure(&mut types, false, vec![("a", numeric), ("b", numeric)]);
        let mut protocol = field("protocol", string);
        protocol.default = Some(Value::from("TCP"));
        let port_fields = vec![field("port", numeric), protocol, field("name", string)];
        let port = types.add(Type::Struct(Struct::new("", "", port_fields)));
        let ports = list(&mut types, port, keys(&["port", "protocol"]));
        let item_fields = vec![
            ("name", string),
            ("value", numeric),
            ("more", numeric),
            ("set", set),
            ("inner", inner),
            ("ports", ports),
        ];
        let item = structure(&mut types, false, item_fields);
        let items = list(&mut types, item, keys(&["name"]));
        let merged = list(&mut types, item, ListTopology::Undeclared);
        let atomic_items = list(&mut types, item, ListTopology::Atomic);
        let switched = list(&mut types, item, atomic_or(keys(&["name"])));
        let mut open = Struct::new("", "", vec![field("known", numeric)]);
        open.preserve_unknown = true;
        let open = types.add(Type::Struct(open));

        let mut roots = BTreeMap::new();
        for (version, text, count) in [("v1", "string", "numeric"), ("v2", "text", "count")] {
            let fields = vec![(count, numeric), ("string", string), ("inner", inner)];
            let granular = structure(&mut types, atomic, fields);
            let whole = structure(&mut types, true, vec![("a", numeric), ("b", numeric)]);
            let mut by_patch = field("byPatch", merged);
            by_patch.patch = PatchMeta { merge: true, merge_key: Str::from("name"), ..PatchMeta::default() };
            let mut fields: Vec<Field> = [
                ("numeric", numeric),
                (text, string),
                ("bool", numeric),
                ("list", items),
                ("switched", switched),
                ("set", set),
                ("strings", strings),
                ("atomicList", atomic_items),
                ("labels", labels),
                ("atomicMap", atomic_map),
                ("lists", lists),
                ("recursive", recursive),
                ("struct", granular),
                ("whole", whole),
                ("any", any),
                ("raw", raw),
                ("open", open),
                ("ports", ports),
            ]
            .into_iter()
            .map(|(name, ty)| field(name, ty))
            .collect();
            fields.push(by_patch);
            roots.insert(version, types.add(Type::Struct(Struct::new("", "", fields))));
        }
        Self { types, roots, deduced: false }
    }

    /// The type at a version.
    pub(crate) fn at(&self, version: &str) -> Option<TypeRef<'_>> {
        let root = *self.roots.get(version)?;
        Some(if self.deduced { TypeRef::DEDUCED } else { TypeRef::new(&self.types, root) })
    }

    /// Removes a version.
    pub(crate) fn remove_version(&mut self, version: &str) {
        self.roots.remove(version);
    }
}

impl VersionConverter for Model {
    fn type_ref(&self, version: &str) -> Option<TypeRef<'_>> {
        self.at(version)
    }

    fn convert(&self, object: &Value, from: &str, to: &str) -> Result<Value, ConvertError> {
        let mut object = object.clone();
        let names = if (from, to) == ("v1", "v2") {
            [("string", "text"), ("numeric", "count")]
        } else {
            [("text", "string"), ("count", "numeric")]
        };
        rename(&mut object, names[0]);
        if let Some(inner) = object.get_mut("struct") {
            rename(inner, names[1]);
        }
        Ok(object)
    }
}

fn rename(object: &mut Value, (from, to): (&str, &str)) {
    if let Some(value) = object.remove(from) {
        object.set(to, value);
    }
}

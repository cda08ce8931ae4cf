//! Builds the schemas of types like kube-openapi's generator: every named type becomes a definition that other schemas
//! reference. Builds only the referenced definitions.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use pintle_catalog::{Catalog, Descriptions};
use pintle_gates::Change;
use pintle_registry::Resource;
use pintle_schema::{Field, ListTopology, Omit, PatchMeta, Scalar, ScalarType, Struct, Type, TypeId, Types, UnionKind};
use pintle_value::{Object, Str, Value, object};

use crate::kinds::KindsOfTypes;
use crate::names::custom_model;
use crate::operation::Model;
use crate::published::Publisher;

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const EXTENSIONS: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1";
const CONVENTIONS: &str = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";
const VERSION_INFO: &str = "io.k8s.apimachinery.pkg.version.Info";

/// The fields of `version.Info`. It is not an API type, so the catalog does not contain it. Optional fields end in "?".
const VERSION_FIELDS: &[&str] = &[
    "major",
    "minor",
    "emulationMajor?",
    "emulationMinor?",
    "minCompatibilityMajor?",
    "minCompatibilityMinor?",
    "gitVersion",
    "gitCommit",
    "gitTreeState",
    "buildDate",
    "goVersion",
    "compiler",
    "platform",
];

/// The version of OpenAPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Swagger 2.0: no defaults, `$ref` may have sibling keywords, one type per schema.
    V2,
    /// OpenAPI 3.0.
    V3,
}

impl Dialect {
    const fn prefix(self) -> &'static str {
        match self {
            Dialect::V2 => "#/definitions/",
            Dialect::V3 => "#/components/schemas/",
        }
    }
}

/// The keywords of a schema.
type Keywords = Vec<(Str, Value)>;

/// The published form of a type.
enum PublishedType {
    /// A reference to a definition.
    Reference(Str),
    /// An inline schema.
    Inline(Keywords),
}

/// The source of a definition that is referenced but not built yet.
enum PendingDefinition {
    Struct(TypeId),
    Leaf(Keywords),
    Custom(Arc<Resource>),
    CustomList(Arc<Resource>),
}

/// The definitions of one document.
pub(crate) struct Definitions<'a> {
    dialect: Dialect,
    catalog: &'a Catalog,
    texts: &'a Descriptions,
    kinds: KindsOfTypes,
    /// The definitions by name; `None` for a pending definition.
    built: BTreeMap<Str, Option<Value>>,
    pending: Vec<(Str, PendingDefinition)>,
    unions: HashMap<TypeId, Value>,
    /// The anonymous structs that are being built, to end the recursion of structs that contain themselves.
    in_progress: Vec<TypeId>,
}

fn keyword(key: &'static str, value: impl Into<Value>) -> (Str, Value) {
    (Str::const_new(key), value.into())
}

impl<'a> Definitions<'a> {
    pub(crate) fn new(dialect: Dialect, catalog: &'a Catalog, texts: &'a Descriptions, kinds: KindsOfTypes) -> Self {
        let unions = catalog.unions().iter().map(|u| (u.owner, union(u.discriminator, &u.members))).collect();
        Self {
            dialect,
            catalog,
            texts,
            kinds,
            built: BTreeMap::new(),
            pending: Vec::new(),
            unions,
            in_progress: Vec::new(),
        }
    }

    /// Returns the schema of a request or response body.
    pub(crate) fn model(&mut self, model: &Model) -> Value {
        let published_type = match model {
            Model::Struct(id) => self.published_type(self.catalog.types(), *id),
            Model::Custom(resource) => {
                let name = custom_model(&resource.group, &resource.version, &resource.kind);
                self.refer(name.into(), || PendingDefinition::Custom(resource.clone()))
            }
            Model::CustomList(resource) => {
                let name = custom_model(&resource.group, &resource.version, &resource.list_kind);
                self.refer(name.into(), || PendingDefinition::CustomList(resource.clone()))
            }
            Model::Patch => self.leaf(format!("{META}.Patch"), vec![keyword("type", "object")]),
            Model::Version => self.version_info(),
            Model::Text => PublishedType::Inline(vec![keyword("type", "string")]),
        };
        self.schema(published_type, Vec::new())
    }

    /// Builds all definitions that were referenced, by name.
    pub(crate) fn finish(mut self) -> Object {
        while let Some((name, definition_source)) = self.pending.pop() {
            let built = match definition_source {
                PendingDefinition::Struct(id) => self.definition(id),
                PendingDefinition::Leaf(mut keywords) => {
                    keywords.extend(self.texts.type_description(&name).map(|text| keyword("description", text)));
                    Value::Object(Object::from_entries(keywords))
                }
                PendingDefinition::Custom(resource) => self.custom(&resource),
                PendingDefinition::CustomList(resource) => self.custom_list(&resource),
            };
            self.built.insert(name, Some(built));
        }
        self.built.into_iter().filter_map(|(name, built)| Some((name, built?))).collect()
    }

    fn refer(&mut self, name: Str, definition_source: impl FnOnce() -> PendingDefinition) -> PublishedType {
        if !self.built.contains_key(&name) {
            self.built.insert(name.clone(), None);
            self.pending.push((name.clone(), definition_source()));
        }
        PublishedType::Reference(name)
    }

    fn leaf(&mut self, name: String, keywords: Keywords) -> PublishedType {
        self.refer(name.into(), || PendingDefinition::Leaf(keywords))
    }

    /// Combines a shape with further keywords. In v3, references must not have sibling keywords, so they are wrapped in
    /// `allOf`.
    fn schema(&self, published_type: PublishedType, mut keywords: Keywords) -> Value {
        match published_type {
            PublishedType::Inline(inner) => keywords.extend(inner),
            PublishedType::Reference(name) => {
                let mut target = Str::with_capacity(self.dialect.prefix().len() + name.len());
                target.push_str(self.dialect.prefix());
                target.push_str(&name);
                if self.dialect == Dialect::V2 || keywords.is_empty() {
                    keywords.push(keyword("$ref", target));
                } else {
                    keywords.push(keyword("allOf", Value::Array(vec![object! { "$ref": target }])));
                }
            }
        }
        Value::Object(Object::from_entries(keywords))
    }

    fn published_type(&mut self, types: &Types, id: TypeId) -> PublishedType {
        match types.get(id) {
            Type::Scalar(scalar) => self.scalar(scalar),
            Type::Struct(declared_type)
                if declared_type.model.is_empty() || !std::ptr::eq(types, &**self.catalog.types()) =>
            {
                if self.in_progress.contains(&id) {
                    return PublishedType::Inline(vec![keyword("type", "object")]);
                }
                self.in_progress.push(id);
                let keywords = self.structure(types, declared_type);
                self.in_progress.pop();
                PublishedType::Inline(keywords)
            }
            Type::Struct(declared_type) => {
                // If a field overrides the merge strategy of a struct, the struct is published as it is declared.
                let declared = self.catalog.struct_type(&declared_type.name).unwrap_or(id);
                self.refer(declared_type.model.clone(), || PendingDefinition::Struct(declared))
            }
            Type::Map(map) => {
                let value = self.element(types, map.value, false);
                PublishedType::Inline(vec![keyword("type", "object"), keyword("additionalProperties", value)])
            }
            Type::List(list) => {
                let item = self.element(types, list.item, list.pointers);
                PublishedType::Inline(vec![keyword("type", "array"), keyword("items", item)])
            }
            Type::Union(union) => {
                let name = match union.kind {
                    UnionKind::SchemaOrArray => "JSONSchemaPropsOrArray",
                    UnionKind::SchemaOrBool => "JSONSchemaPropsOrBool",
                    UnionKind::SchemaOrStringArray => "JSONSchemaPropsOrStringArray",
                };
                self.leaf(format!("{EXTENSIONS}.{name}"), Vec::new())
            }
            Type::Any => PublishedType::Inline(vec![keyword("type", "object")]),
        }
    }

    fn scalar(&mut self, scalar: &ScalarType) -> PublishedType {
        let simple = |ty: &'static str, format: &'static str| {
            let mut keywords = vec![keyword("type", ty)];
            if !format.is_empty() {
                keywords.push(keyword("format", format));
            }
            keywords
        };
        // Returns the form of types for which v3 allows several types.
        let one_of = |v2: Keywords, v3: [&'static str; 2]| match self.dialect {
            Dialect::V2 => v2,
            Dialect::V3 => {
                let shapes = v3.map(|ty| object! { "type": ty });
                vec![keyword("oneOf", Value::Array(shapes.to_vec()))]
            }
        };
        let (package, name, keywords) = match scalar.kind {
            Scalar::String => {
                let mut keywords = simple("string", "");
                keywords.extend(self.enum_values(scalar).map(|values| keyword("enum", values)));
                return PublishedType::Inline(keywords);
            }
            Scalar::Bool => return PublishedType::Inline(simple("boolean", "")),
            Scalar::Int32 => return PublishedType::Inline(simple("integer", "int32")),
            // kube-openapi has no formats for unsigned integers.
            Scalar::Int64 | Scalar::Uint32 | Scalar::Uint64 => {
                return PublishedType::Inline(simple("integer", "int64"));
            }
            Scalar::Uint8 => return PublishedType::Inline(simple("integer", "byte")),
            Scalar::Float64 => return PublishedType::Inline(simple("number", "double")),
            Scalar::Bytes => return PublishedType::Inline(simple("string", "byte")),
            Scalar::Time => (META, "Time", simple("string", "date-time")),
            Scalar::MicroTime => (META, "MicroTime", simple("string", "date-time")),
            Scalar::Duration => (META, "Duration", simple("string", "")),
            Scalar::FieldsV1 => (META, "FieldsV1", simple("object", "")),
            Scalar::Quantity => {
                let keywords = one_of(simple("string", ""), ["string", "number"]);
                ("io.k8s.apimachinery.pkg.api.resource", "Quantity", keywords)
            }
            Scalar::IntOrString => {
                let mut keywords = one_of(simple("string", ""), ["integer", "string"]);
                keywords.push(keyword("format", "int-or-string"));
                ("io.k8s.apimachinery.pkg.util.intstr", "IntOrString", keywords)
            }
            Scalar::RawExtension => ("io.k8s.apimachinery.pkg.runtime", "RawExtension", simple("object", "")),
            Scalar::Json => (EXTENSIONS, "JSON", Vec::new()),
        };
        self.leaf(format!("{package}.{name}"), keywords)
    }

    /// Returns the schema of the items of a list or the values of a map. These are never omitted, so Go's zero value is
    /// their default. Since 1.37 the default is not published.
    fn element(&mut self, types: &Types, id: TypeId, pointer: bool) -> Value {
        let published_type = self.published_type(types, id);
        let mut keywords = Vec::new();
        let has_default = !Change::ITEMS_HAVE_NO_DEFAULTS.versions().contains(self.catalog.minor());
        if self.dialect == Dialect::V3 && has_default && !pointer {
            keywords.extend(zero(types, id, false).map(|zero| keyword("default", zero)));
        }
        self.schema(published_type, keywords)
    }

    /// Builds the definition of a struct of the catalog.
    fn definition(&mut self, id: TypeId) -> Value {
        let catalog = self.catalog;
        let types: &Types = catalog.types();
        let Type::Struct(declared_type) = types.get(id) else { return Value::object() };
        let mut keywords = self.structure(types, declared_type);
        keywords.extend(self.texts.type_description(&declared_type.model).map(|text| keyword("description", text)));
        if declared_type.atomic {
            keywords.push(keyword("x-kubernetes-map-type", "atomic"));
        }
        if let Some(union) = self.unions.get(&id) {
            keywords.push(keyword("x-kubernetes-unions", Value::Array(vec![union.clone()])));
        }
        if let Some(kinds) = self.kinds.of(id) {
            keywords.push(keyword("x-kubernetes-group-version-kind", kinds));
        }
        Value::Object(Object::from_entries(keywords))
    }

    fn structure(&mut self, types: &Types, declared_type: &Struct) -> Keywords {
        let mut keywords = vec![keyword("type", "object")];
        let properties: Vec<_> = declared_type
            .fields
            .iter()
            .map(|field| (field.name.clone(), self.property(types, &declared_type.model, field)))
            .collect();
        if !properties.is_empty() {
            keywords.push(keyword("properties", Value::Object(Object::from_entries(properties))));
        }
        let required: Vec<&str> = declared_type.fields.iter().filter(|f| f.required).map(|f| f.name.as_str()).collect();
        if !required.is_empty() {
            keywords.push(keyword("required", required));
        }
        keywords
    }

    fn property(&mut self, types: &Types, model: &str, field: &Field) -> Value {
        let published_type = self.published_type(types, field.ty);
        let mut keywords = Vec::new();
        keywords.extend(self.description(types, model, field).map(|text| keyword("description", text)));
        if self.dialect == Dialect::V3 {
            let declared = field.default.clone();
            let enforced = if field.pointer { None } else { zero(types, field.ty, field.omit != Omit::Never) };
            keywords.extend(declared.or(enforced).map(|default| keyword("default", default)));
        }
        match types.get(field.ty) {
            Type::List(list) => match &list.topology {
                ListTopology::Undeclared => {}
                ListTopology::Atomic => keywords.push(keyword("x-kubernetes-list-type", "atomic")),
                ListTopology::Set => keywords.push(keyword("x-kubernetes-list-type", "set")),
                ListTopology::Map(keys) => {
                    keywords.push(keyword("x-kubernetes-list-type", "map"));
                    keywords.push(keyword("x-kubernetes-list-map-keys", keys.iter().collect::<Vec<_>>()));
                }
            },
            Type::Map(map) if map.atomic => keywords.push(keyword("x-kubernetes-map-type", "atomic")),
            Type::Struct(used) => {
                let declared = self.catalog.struct_type(&used.name).map(|id| self.catalog.types().get(id));
                if let Some(Type::Struct(declared)) = declared
                    && declared.atomic != used.atomic
                {
                    let how = if used.atomic { "atomic" } else { "granular" };
                    keywords.push(keyword("x-kubernetes-map-type", how));
                }
            }
            _ => {}
        }
        add_patch_extensions(&field.patch, &mut keywords);
        self.schema(published_type, keywords)
    }

    /// Returns the description of a field. The description of an enum also lists its values.
    fn description(&self, types: &Types, model: &str, field: &Field) -> Option<String> {
        let text = self.texts.field(model, &field.name).filter(|text| !text.is_empty());
        let values = match types.get(field.ty) {
            Type::Scalar(scalar) => self.enum_values(scalar),
            _ => None,
        };
        let Some(values) = values else { return text.map(str::to_owned) };
        let mut built = text.map(|text| format!("{text}\n\n")).unwrap_or_default();
        built.push_str("Possible enum values:");
        for value in values {
            built.push_str("\n - `\"");
            built.push_str(&value);
            built.push_str("\"`");
        }
        Some(built)
    }

    /// Returns the sorted enum values that the published schema of a string type lists.
    fn enum_values(&self, scalar: &ScalarType) -> Option<Vec<Str>> {
        let is_published = |values: &&pintle_schema::EnumValues| values.closed && self.catalog.publishes_enums();
        let mut values = scalar.values.as_ref().filter(is_published)?.values.clone();
        values.sort_unstable();
        Some(values)
    }

    fn version_info(&mut self) -> PublishedType {
        let fields = VERSION_FIELDS.iter().map(|field| field.strip_suffix('?').map_or((*field, true), |f| (f, false)));
        let mut required = Vec::new();
        let mut properties = Vec::new();
        for (name, needed) in fields {
            let mut keywords = vec![keyword("type", "string")];
            keywords.extend(self.texts.field(VERSION_INFO, name).map(|text| keyword("description", text)));
            if needed {
                required.push(name);
                if self.dialect == Dialect::V3 {
                    keywords.push(keyword("default", ""));
                }
            }
            properties.push((Str::const_new(name), Value::Object(Object::from_entries(keywords))));
        }
        let properties = Value::Object(Object::from_entries(properties));
        let keywords =
            vec![keyword("type", "object"), keyword("properties", properties), keyword("required", required)];
        self.leaf(VERSION_INFO.to_owned(), keywords)
    }

    /// Builds the definition of a custom resource: its published schema, with the object fields of the catalog.
    fn custom(&mut self, resource: &Resource) -> Value {
        let written = resource.crd.as_ref().and_then(|crd| crd.schema(&resource.version));
        let mut fields = Value::object();
        self.object_fields(&mut fields, "ObjectMeta", "io.k8s.api.core.v1.Pod");
        let publisher = Publisher { dialect: self.dialect, metadata: fields["metadata"].clone() };
        let mut built = match written.and_then(|written| publisher.object(&written)) {
            Some(mut built) => {
                for (name, field) in fields.entries_at(&[]) {
                    built.set_at(&["properties", name], field.clone());
                }
                built
            }
            None => object! { "type": "object" },
        };
        add_custom_extensions(&mut built, resource, &resource.kind);
        built
    }

    /// Builds the definition of the list of a custom resource.
    fn custom_list(&mut self, resource: &Arc<Resource>) -> Value {
        let item = self.model(&Model::Custom(resource.clone()));
        let about = format!("List of {}. More info: {CONVENTIONS}", resource.plural);
        let mut properties = object! { "items": object! { "description": about, "items": item, "type": "array" } };
        self.object_fields(&mut properties, "ListMeta", "io.k8s.api.core.v1.PodList");
        let mut built = object! {
            "description": format!("{} is a list of {}", resource.list_kind, resource.kind),
            "properties": properties,
            "required": vec!["items"],
            "type": "object",
        };
        add_custom_extensions(&mut built, resource, &resource.list_kind);
        built
    }

    /// Sets `apiVersion`, `kind` and `metadata`, with the descriptions of the model `texts_of`.
    fn object_fields(&mut self, properties: &mut Value, metadata: &str, texts_of: &str) {
        let texts = self.texts;
        let text = |name: &str| texts.field(texts_of, name).map(|text| keyword("description", text));
        for name in ["apiVersion", "kind"] {
            let keywords = text(name).into_iter().chain([keyword("type", "string")]).collect();
            properties.set(name, Value::Object(Object::from_entries(keywords)));
        }
        if let Some(id) = self.catalog.struct_type(&format!("meta/v1.{metadata}")) {
            let published_type = self.published_type(self.catalog.types(), id);
            let keywords = text("metadata").into_iter().collect();
            properties.set("metadata", self.schema(published_type, keywords));
        }
    }
}

/// Returns the default that represents Go's zero value: `{}` for structs, and the zero of basic types unless the field
/// is omitted when empty. Types with a custom JSON encoding, lists and maps have no default.
fn zero(types: &Types, id: TypeId, left_out: bool) -> Option<Value> {
    match types.get(id) {
        Type::Struct(_) => Some(Value::object()),
        Type::Scalar(scalar) if left_out || scalar.kind.is_go_struct() || scalar.kind == Scalar::Bytes => None,
        Type::Scalar(scalar) => Some(scalar.kind.zero()),
        Type::Map(_) | Type::List(_) | Type::Union(_) | Type::Any => None,
    }
}

fn add_patch_extensions(patch: &PatchMeta, keywords: &mut Keywords) {
    let set = [(patch.merge, "merge"), (patch.replace, "replace"), (patch.retain_keys, "retainKeys")];
    let strategies: Vec<&str> = set.iter().filter(|(set, _)| *set).map(|(_, name)| *name).collect();
    if !strategies.is_empty() {
        keywords.push(keyword("x-kubernetes-patch-strategy", strategies.join(",")));
    }
    if !patch.merge_key.is_empty() {
        keywords.push(keyword("x-kubernetes-patch-merge-key", &patch.merge_key));
    }
}

/// Adds the kind of a definition and its selectable fields.
fn add_custom_extensions(built: &mut Value, resource: &Resource, kind: &Str) {
    let kind = object! { "group": &resource.group, "kind": kind, "version": &resource.version };
    built.set("x-kubernetes-group-version-kind", vec![kind]);
    if !resource.selectable.is_empty() {
        let fields = resource.selectable.iter().map(|field| object! { "fieldPath": &field.name });
        built.set("x-kubernetes-selectable-fields", fields.collect::<Vec<_>>());
    }
}

/// Returns the published form of a union. Each member is identified by its capitalized Go name.
fn union(discriminator: Option<&str>, members: &[&str]) -> Value {
    let capital = |member: &str| {
        let mut chars = member.chars();
        chars.next().into_iter().flat_map(char::to_uppercase).chain(chars).collect::<String>()
    };
    let members: Object = members.iter().map(|member| (*member, capital(member))).collect();
    let mut built = object! { "fields-to-discriminateBy": members };
    if let Some(discriminator) = discriminator {
        built.set("discriminator", discriminator);
    }
    built
}

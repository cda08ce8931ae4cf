//! Parses an `openAPIV3Schema` into a structural schema.

use std::collections::HashMap;

use pintle_value::{Object, Str, Value};

use super::formats::Format;
use super::model::{
    Bound, Flags, IndexRange, Keyword, NameId, NodeData, NodeId, Pattern, Property, StructuralSchema, Type, to_index,
};

/// The reason why a schema is not structural. The validation of CRDs rejects such schemas.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// A JSON Schema field that structural schemas do not support.
    #[error("OpenAPIV3Schema '{0}' is not supported")]
    Unsupported(&'static str),
    /// `items` is a list of schemas.
    #[error("OpenAPIV3Schema 'items' must be a schema, but is an array")]
    ItemsArray,
    /// `x-kubernetes-preserve-unknown-fields` is `false`.
    #[error("internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined")]
    PreserveFalse,
}

/// The unsupported fields. They may be present if they are empty.
const UNSUPPORTED: [&str; 7] =
    ["id", "$schema", "$ref", "patternProperties", "dependencies", "additionalItems", "definitions"];

impl StructuralSchema {
    /// Parses the schema of a version of a valid CRD. Values of the wrong type are ignored. The schema itself prunes
    /// its defaults.
    ///
    /// # Errors
    /// Returns an error if the schema is not structural.
    pub fn parse(tree: &Value) -> Result<Self, ParseError> {
        let mut builder = Builder::default();
        builder.node(tree)?;
        let mut schema = builder.schema;
        schema.prune_defaults();
        schema.shrink();
        Ok(schema)
    }

    fn shrink(&mut self) {
        self.nodes.shrink_to_fit();
        self.properties.shrink_to_fit();
        self.keywords.shrink_to_fit();
        self.names.shrink_to_fit();
        self.lists.shrink_to_fit();
        self.branches.shrink_to_fit();
        self.values.shrink_to_fit();
        self.patterns.shrink_to_fit();
    }
}

#[derive(Default)]
struct Builder {
    schema: StructuralSchema,
    names: HashMap<Str, NameId>,
    patterns: HashMap<Str, u32>,
}

impl Builder {
    fn node(&mut self, tree: &Value) -> Result<NodeId, ParseError> {
        check_supported(tree)?;
        let id = NodeId(to_index(self.schema.nodes.len()));
        let ty = Type::named(tree.str_at(&["type"]));
        let flags = parse_flags(tree)?;
        self.schema.nodes.push(NodeData {
            properties: IndexRange::default(),
            keywords: 0,
            items: NodeId::NONE,
            additional: NodeId::NONE,
            flags,
            keyword_count: 0,
            ty,
        });
        let properties = self.properties(tree)?;
        let items = match tree.get("items") {
            Some(items @ Value::Object(_)) => self.node(items)?,
            Some(Value::Array(_)) => return Err(ParseError::ItemsArray),
            _ => NodeId::NONE,
        };
        let additional = match tree.get("additionalProperties") {
            Some(values @ Value::Object(_)) => self.node(values)?,
            _ => NodeId::NONE,
        };
        let keywords = self.keywords(tree, ty, flags)?;
        let descendant_flags = self.descendant_flags(properties, items, additional);
        if let Some(node) = self.schema.nodes.get_mut(id.0 as usize) {
            node.properties = properties;
            node.items = items;
            node.additional = additional;
            node.keywords = keywords.start;
            node.keyword_count = u8::try_from(keywords.len).unwrap_or(u8::MAX);
            node.flags.add(descendant_flags);
        }
        Ok(id)
    }

    /// The flags that the node inherits from its descendants.
    fn descendant_flags(&self, properties: IndexRange, items: NodeId, additional: NodeId) -> Flags {
        let children = properties.slice(&self.schema.properties).iter().map(|property| property.node);
        let mut descendant_flags = Flags::default();
        for child in children.chain([items, additional]).filter(|child| *child != NodeId::NONE) {
            if let Some(child) = self.schema.nodes.get(child.0 as usize) {
                descendant_flags.add(child.flags.and(Flags::WITHIN));
            }
        }
        descendant_flags
    }

    fn properties(&mut self, tree: &Value) -> Result<IndexRange, ParseError> {
        let mut properties = Vec::new();
        for (name, tree) in tree.get("properties").and_then(Value::as_object).into_iter().flat_map(Object::iter) {
            let name = self.name(name);
            properties.push(Property { name, node: self.node(tree)? });
        }
        Ok(IndexRange::append(&mut self.schema.properties, properties))
    }

    /// Parses the keywords, in the order in which kube-openapi validates them.
    fn keywords(&mut self, tree: &Value, ty: Option<Type>, flags: Flags) -> Result<IndexRange, ParseError> {
        let mut keywords = Vec::new();
        for (field, make) in [
            ("anyOf", Keyword::AnyOf as fn(IndexRange) -> Keyword),
            ("oneOf", Keyword::OneOf),
            ("allOf", Keyword::AllOf),
        ] {
            let branches = tree.items_at(&[field]);
            if !branches.is_empty() {
                let branches = branches.iter().map(|branch| self.node(branch)).collect::<Result<Vec<_>, _>>()?;
                keywords.push(make(IndexRange::append(&mut self.schema.branches, branches)));
            }
        }
        if let Some(not @ Value::Object(_)) = tree.get("not") {
            keywords.push(Keyword::Not(self.node(not)?));
        }
        let count = |field: &str| tree.int_at(&[field]);
        keywords.extend(count("maxLength").map(Keyword::MaxLength));
        keywords.extend(count("minLength").map(Keyword::MinLength));
        let pattern = tree.str_at(&["pattern"]);
        if !pattern.is_empty() {
            keywords.push(Keyword::Pattern(self.pattern(pattern)));
        }
        let format = tree.str_at(&["format"]);
        if !format.is_empty() {
            let of = if flags.has(Flags::INT_OR_STRING) { None } else { ty };
            keywords.push(Keyword::Format(self.name(format), Format::named(format, of)));
        }
        let limit = |field: &str| tree.get(field).and_then(Value::as_float);
        let bound = |field: &str| if tree.bool_at(&[field]) { Bound::Exclusive } else { Bound::Inclusive };
        keywords.extend(limit("multipleOf").map(Keyword::MultipleOf));
        keywords.extend(limit("minimum").map(|min| Keyword::Minimum(min, bound("exclusiveMinimum"))));
        keywords.extend(limit("maximum").map(|max| Keyword::Maximum(max, bound("exclusiveMaximum"))));
        keywords.extend(count("minItems").map(Keyword::MinItems));
        keywords.extend(count("maxItems").map(Keyword::MaxItems));
        keywords.extend(tree.bool_at(&["uniqueItems"]).then_some(Keyword::UniqueItems));
        let values = tree.items_at(&["enum"]);
        if !values.is_empty() {
            let range = IndexRange::append(&mut self.schema.values, values.iter().cloned());
            self.schema.enums.add(range, &self.schema.values);
            keywords.push(Keyword::Enum(range));
        }
        keywords.extend(count("minProperties").map(Keyword::MinProperties));
        keywords.extend(count("maxProperties").map(Keyword::MaxProperties));
        keywords.extend(self.list(tree.items_at(&["required"])).map(Keyword::Required));
        keywords.extend(self.list(tree.items_at(&["x-kubernetes-list-map-keys"])).map(Keyword::Keys));
        if let Some(default) = tree.get("default") {
            let at = IndexRange::append(&mut self.schema.values, [default.clone()]).start;
            keywords.push(Keyword::Default(at));
        }
        let rules = tree.items_at(&["x-kubernetes-validations"]);
        if !rules.is_empty() {
            keywords.push(Keyword::Rules(IndexRange::append(&mut self.schema.values, rules.iter().cloned())));
        }
        Ok(IndexRange::append(&mut self.schema.keywords, keywords))
    }

    fn list(&mut self, names: &[Value]) -> Option<IndexRange> {
        let names: Vec<NameId> = names.iter().filter_map(Value::as_str).map(|name| self.name(name)).collect();
        (!names.is_empty()).then(|| IndexRange::append(&mut self.schema.lists, names))
    }

    fn name(&mut self, name: &str) -> NameId {
        if let Some(id) = self.names.get(name) {
            return *id;
        }
        let id = NameId(to_index(self.schema.names.len()));
        self.schema.names.push(Str::from(name));
        self.names.insert(Str::from(name), id);
        id
    }

    fn pattern(&mut self, pattern: &str) -> u32 {
        if let Some(at) = self.patterns.get(pattern) {
            return *at;
        }
        let at = to_index(self.schema.patterns.len());
        self.schema.patterns.push(Pattern::new(pattern));
        self.patterns.insert(Str::from(pattern), at);
        at
    }
}

fn check_supported(tree: &Value) -> Result<(), ParseError> {
    for field in UNSUPPORTED {
        let set = match tree.get(field) {
            None => false,
            // The field `additionalItems` must not be present at all.
            Some(_) if field == "additionalItems" => true,
            Some(value) => !value.is_empty(),
        };
        if set {
            return Err(ParseError::Unsupported(if field == "$schema" { "schema" } else { field }));
        }
    }
    Ok(())
}

fn parse_flags(tree: &Value) -> Result<Flags, ParseError> {
    let mut flags = Flags::default();
    let mut add = |set: bool, flag: Flags| {
        if set {
            flags.add(flag);
        }
    };
    add(tree.bool_at(&["nullable"]), Flags::NULLABLE);
    match tree.get("x-kubernetes-preserve-unknown-fields") {
        Some(Value::Bool(false)) => return Err(ParseError::PreserveFalse),
        preserve => add(preserve == Some(&Value::Bool(true)), Flags::PRESERVE),
    }
    let embedded = tree.bool_at(&["x-kubernetes-embedded-resource"]);
    add(embedded, Flags::EMBEDDED);
    add(embedded, Flags::EMBEDDED_WITHIN);
    add(tree.bool_at(&["x-kubernetes-int-or-string"]), Flags::INT_OR_STRING);
    let list = tree.str_at(&["x-kubernetes-list-type"]);
    add(list == "atomic", Flags::LIST_ATOMIC);
    add(list == "set", Flags::LIST_SET);
    add(list == "map", Flags::LIST_MAP);
    add(matches!(list, "set" | "map"), Flags::UNIQUE_WITHIN);
    add(tree.str_at(&["x-kubernetes-map-type"]) == "atomic", Flags::MAP_ATOMIC);
    add(tree.get("additionalProperties") == Some(&Value::Bool(true)), Flags::ADDITIONAL_ANY);
    add(tree.get("additionalProperties") == Some(&Value::Bool(false)), Flags::ADDITIONAL_NONE);
    add(tree.get("default").is_some(), Flags::DEFAULTS_WITHIN);
    add(!tree.items_at(&["x-kubernetes-validations"]).is_empty(), Flags::RULES_WITHIN);
    Ok(flags)
}

//! Go type names for messages: `map[string]string`, `[]v1.Container`, `v1.Protocol`.

use crate::{Map, Scalar, Type, TypeId, Types};

impl Types {
    /// The Go type name as `reflect` prints it, with the last element of the package path (`v1.Pod`).
    #[must_use]
    pub fn go_name(&self, id: TypeId) -> String {
        match self.get(id) {
            Type::Scalar(scalar) if !scalar.name.is_empty() => short(&scalar.name).to_owned(),
            Type::Scalar(scalar) => scalar.kind.go_name().to_owned(),
            Type::Struct(ty) => short(&ty.name).to_owned(),
            Type::Map(map) if !map.name.is_empty() => short(&map.name).to_owned(),
            Type::Map(map) => format!("map[{}]{}", map.key_name(), self.go_name(map.value)),
            Type::List(list) if !list.name.is_empty() => short(&list.name).to_owned(),
            Type::List(list) => format!("[]{}{}", if list.pointers { "*" } else { "" }, self.go_name(list.item)),
            Type::Union(union) => union.kind.go_name().to_owned(),
            Type::Any => "interface {}".to_owned(),
        }
    }
}

impl Map {
    /// The Go type of the keys as `reflect` prints it.
    #[must_use]
    pub fn key_name(&self) -> &str {
        if self.key.is_empty() { Scalar::String.go_name() } else { short(&self.key) }
    }
}

/// Shortens `core/v1.Pod` to `v1.Pod`, as Go prints it.
fn short(name: &str) -> &str {
    name.rsplit_once('/').map_or(name, |(_, last)| last)
}

/// Shortens `core/v1.Pod` to `Pod`.
#[must_use]
pub fn bare_name(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(_, last)| last)
}

impl Scalar {
    /// The Go type name as `reflect` prints it.
    #[must_use]
    pub const fn go_name(self) -> &'static str {
        match self {
            Scalar::String => "string",
            Scalar::Bool => "bool",
            Scalar::Int32 => "int32",
            Scalar::Int64 => "int64",
            Scalar::Uint32 => "uint32",
            Scalar::Uint64 => "uint64",
            Scalar::Uint8 => "uint8",
            Scalar::Float64 => "float64",
            Scalar::Bytes => "[]uint8",
            Scalar::Time => "v1.Time",
            Scalar::MicroTime => "v1.MicroTime",
            Scalar::Duration => "v1.Duration",
            Scalar::Quantity => "resource.Quantity",
            Scalar::IntOrString => "intstr.IntOrString",
            Scalar::RawExtension => "runtime.RawExtension",
            Scalar::FieldsV1 => "v1.FieldsV1",
            Scalar::Json => "v1.JSON",
        }
    }

    /// True for types that are structs in Go, which `omitempty` never omits.
    #[must_use]
    pub const fn is_go_struct(self) -> bool {
        matches!(
            self,
            Scalar::Time
                | Scalar::MicroTime
                | Scalar::Duration
                | Scalar::Quantity
                | Scalar::IntOrString
                | Scalar::RawExtension
                | Scalar::FieldsV1
                | Scalar::Json
        )
    }

    /// The range of an integer type.
    #[must_use]
    pub const fn range(self) -> Option<(i64, i64)> {
        match self {
            Scalar::Int32 => Some((i32::MIN as i64, i32::MAX as i64)),
            Scalar::Int64 => Some((i64::MIN, i64::MAX)),
            Scalar::Uint32 => Some((0, u32::MAX as i64)),
            // Larger values are floats in the tree, and no API has them.
            Scalar::Uint64 => Some((0, i64::MAX)),
            Scalar::Uint8 => Some((0, u8::MAX as i64)),
            _ => None,
        }
    }
}

impl crate::UnionKind {
    const fn go_name(self) -> &'static str {
        match self {
            crate::UnionKind::SchemaOrArray => "v1.JSONSchemaPropsOrArray",
            crate::UnionKind::SchemaOrBool => "v1.JSONSchemaPropsOrBool",
            crate::UnionKind::SchemaOrStringArray => "v1.JSONSchemaPropsOrStringArray",
        }
    }
}

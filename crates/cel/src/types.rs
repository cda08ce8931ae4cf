//! The types of expressions and their notation in messages (upstream: cel-go `common/types/types.go`).

use std::fmt;
use std::sync::Arc;

use pintle_value::Str;

/// A type. It is cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// The type of an erroneous expression, which suppresses follow-up errors.
    Error,
    /// A type that is known at run time only.
    Dyn,
    /// `google.protobuf.Any`. It is like [`Type::Dyn`], but the two types are not equal, and `Any` cannot be the range
    /// of a comprehension.
    Any,
    /// The type of `null`.
    Null,
    /// `bool`
    Bool,
    /// `int`, 64 bits.
    Int,
    /// `uint`, 64 bits.
    Uint,
    /// `double`
    Double,
    /// `string`
    String,
    /// `bytes`
    Bytes,
    /// `google.protobuf.Duration`
    Duration,
    /// `google.protobuf.Timestamp`
    Timestamp,
    /// `list(T)`
    List(Arc<Type>),
    /// `map(K, V)`
    Map(Arc<(Type, Type)>),
    /// A type with fields, resolved by a [`TypeProvider`](crate::TypeProvider).
    Object(Str),
    /// A type without fields, such as `net.IP`, possibly with parameters, such as `optional_type(T)`.
    Opaque(Str, Arc<[Type]>),
    /// The type of a type value, and the type it denotes.
    Type(Option<Arc<Type>>),
    /// A type parameter of a declaration.
    Param(Str),
    /// A type variable of the checker.
    Var(u32),
}

/// The name of the type of optionals.
pub(crate) const OPTIONAL: &str = "optional_type";

impl Type {
    /// `list(element)`
    #[must_use]
    pub fn list(element: Type) -> Self {
        Self::List(Arc::new(element))
    }

    /// `map(key, value)`
    #[must_use]
    pub fn map(key: Type, value: Type) -> Self {
        Self::Map(Arc::new((key, value)))
    }

    /// `optional_type(value)`
    #[must_use]
    pub fn optional(value: Type) -> Self {
        Self::Opaque(OPTIONAL.into(), Arc::new([value]))
    }

    /// A type with fields.
    #[must_use]
    pub fn object(name: &str) -> Self {
        Self::Object(name.into())
    }

    /// A type without fields and parameters.
    #[must_use]
    pub fn opaque(name: &str) -> Self {
        Self::Opaque(name.into(), Arc::new([]))
    }

    /// A type parameter of a declaration.
    #[must_use]
    pub fn param(name: &str) -> Self {
        Self::Param(name.into())
    }

    /// The type of a type value.
    #[must_use]
    pub fn of_type(inner: Type) -> Self {
        Self::Type(Some(Arc::new(inner)))
    }

    /// True for the types that are known at run time only.
    #[must_use]
    pub fn is_dynamic(&self) -> bool {
        matches!(self, Self::Dyn | Self::Any)
    }

    /// Returns the type of an optional's content and true, or the type itself and false.
    #[must_use]
    pub fn unwrap_optional(&self) -> (&Type, bool) {
        match self {
            Self::Opaque(name, parameters) if name == OPTIONAL && parameters.len() == 1 => (&parameters[0], true),
            other => (other, false),
        }
    }

    /// The type parameters, such as the key and value of a map.
    #[must_use]
    pub fn parameters(&self) -> Vec<&Type> {
        match self {
            Self::List(element) => vec![element],
            Self::Map(entry) => vec![&entry.0, &entry.1],
            Self::Opaque(_, parameters) => parameters.iter().collect(),
            Self::Type(Some(inner)) => vec![inner],
            _ => Vec::new(),
        }
    }

    /// The name without parameters, as returned by `type(x)` at run time.
    #[must_use]
    pub fn name(&self) -> Str {
        match self {
            Self::Error => "error".into(),
            Self::Dyn => "dyn".into(),
            Self::Any => "google.protobuf.Any".into(),
            Self::Null => "null_type".into(),
            Self::Duration => "google.protobuf.Duration".into(),
            Self::Timestamp => "google.protobuf.Timestamp".into(),
            Self::Var(n) => format!("_var{n}").into(),
            Self::Object(name) | Self::Opaque(name, _) | Self::Param(name) => name.clone(),
            other => other.keyword().into(),
        }
    }

    fn keyword(&self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Type(_) => "type",
            _ => "",
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error => return f.write_str("!error!"),
            Self::Any => return f.write_str("any"),
            Self::Null => return f.write_str("null"),
            Self::Duration => return f.write_str("duration"),
            Self::Timestamp => return f.write_str("timestamp"),
            other => f.write_str(&other.name())?,
        }
        let parameters = self.parameters();
        for (i, parameter) in parameters.iter().enumerate() {
            write!(f, "{}{parameter}", if i == 0 { "(" } else { ", " })?;
        }
        if parameters.is_empty() { Ok(()) } else { f.write_str(")") }
    }
}

/// Formats a signature for messages: `target.(a, b)` or `(a, b)`.
pub(crate) fn signature(types: &[Type], on_target: bool) -> String {
    let (target, args) = types.split_at(usize::from(on_target));
    let args: Vec<String> = args.iter().map(ToString::to_string).collect();
    let args = args.join(", ");
    target.first().map_or_else(|| format!("({args})"), |target| format!("{target}.({args})"))
}

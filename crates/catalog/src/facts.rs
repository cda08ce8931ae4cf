//! Parses the type metadata in `data/types.txt`; the head of that file documents the format. The catalog builds types
//! from it, and the importer compares it with other sources.

use pintle_versions::{DataLine, Minor, nested_lines};

/// A syntax error in a data file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct FactsError {
    /// The line number, counted from 1.
    pub line: usize,
    /// The error message.
    pub problem: String,
}

impl FactsError {
    pub(crate) fn new(line: usize, problem: impl Into<String>) -> Self {
        Self { line, problem: problem.into() }
    }
}

/// A Go package.
#[derive(Clone, Debug, Default)]
pub struct Package<'a> {
    /// The name by which other packages refer to it (`core/v1`).
    pub name: &'a str,
    /// The Go import path.
    pub path: &'a str,
    /// The API group (empty for core), if the package is an API version.
    pub group: Option<&'a str>,
    /// The API version, if the package is one.
    pub version: &'a str,
    /// The prefix of the OpenAPI names of its types.
    pub model: &'a str,
    /// Named types other than structs.
    pub aliases: Vec<Alias<'a>>,
    /// Structs.
    pub structs: Vec<StructFacts<'a>>,
}

/// A named type that is not a struct.
#[derive(Clone, Debug, Default)]
pub struct Alias<'a> {
    /// The name in its package.
    pub name: &'a str,
    /// The underlying Go type.
    pub ty: &'a str,
    /// Whether it is a slice that is a Protobuf message with the items in field 1.
    pub message: bool,
    /// Whether the values are published as an enum.
    pub closed: bool,
    /// The constants of the type.
    pub values: Vec<&'a str>,
}

/// A struct.
#[derive(Clone, Debug, Default)]
pub struct StructFacts<'a> {
    /// The name in its package.
    pub name: &'a str,
    /// Whether it is registered as a kind of the package's group and version.
    pub kind: bool,
    /// Whether it has its own `MarshalJSON`.
    pub custom: bool,
    /// Whether it is atomic for server-side apply.
    pub atomic: bool,
    /// Whether at most one of its fields may be set.
    pub union: bool,
    /// The fields in declaration order.
    pub fields: Vec<FieldFacts<'a>>,
}

/// A field of a struct.
#[derive(Clone, Debug, Default)]
pub struct FieldFacts<'a> {
    /// The JSON name, the Go name if JSON does not have the field, or empty if the field is inlined.
    pub name: &'a str,
    /// The Go type. Types of the same package are unqualified.
    pub ty: &'a str,
    /// The Protobuf field number, or 0.
    pub number: u32,
    /// Whether it is an embedded struct whose fields are inlined in JSON.
    pub inline: bool,
    /// Whether JSON does not have the field.
    pub hidden: bool,
    /// `omitempty`
    pub omit_empty: bool,
    /// `omitzero`
    pub omit_zero: bool,
    /// Whether the published schema lists it as required.
    pub required: bool,
    /// `+listType`, or empty.
    pub list: &'a str,
    /// `+listMapKey`, comma-separated.
    pub list_keys: &'a str,
    /// `+mapType` or `+structType`, or empty.
    pub map: &'a str,
    /// `patchStrategy`, or empty.
    pub patch: &'a str,
    /// `patchMergeKey`, or empty.
    pub patch_key: &'a str,
    /// The feature gates of the field, comma-separated.
    pub gates: &'a str,
    /// Whether it is the discriminator of the union.
    pub discriminator: bool,
    /// Whether it is a member of a union.
    pub member: bool,
    /// `+default` as JSON.
    pub default: Option<&'a str>,
}

/// The level of a line: a package, a type, or a field.
pub(crate) fn level(line: &str) -> usize {
    if line.starts_with("package ") { 0 } else { 1 + usize::from(line.starts_with("  ")) }
}

/// Parses the type metadata of a version.
///
/// # Errors
/// Returns an error for the first line with a syntax error.
pub fn parse(text: &str, minor: Minor) -> Result<Vec<Package<'_>>, FactsError> {
    let mut packages: Vec<Package<'_>> = Vec::with_capacity(40);
    for DataLine { number, text: line, .. } in nested_lines(text, minor, level) {
        let fail = |problem: &str| FactsError::new(number, problem);
        if let Some(rest) = line.strip_prefix("package ") {
            packages.push(parse_package(rest).map_err(fail)?);
            continue;
        }
        let package = packages.last_mut().ok_or_else(|| fail("no preceding package"))?;
        if let Some(rest) = line.strip_prefix("  ") {
            let owner = package.structs.last_mut().ok_or_else(|| fail("a field outside a struct"))?;
            owner.fields.push(parse_field(rest).map_err(fail)?);
        } else if let Some(rest) = line.strip_prefix("struct ") {
            package.structs.push(parse_struct(rest).map_err(fail)?);
        } else if let Some(rest) = line.strip_prefix("alias ") {
            package.aliases.push(parse_alias(rest).map_err(fail)?);
        } else {
            return Err(fail("expected a package, alias, struct or field"));
        }
    }
    Ok(packages)
}

fn parse_package(line: &str) -> Result<Package<'_>, &'static str> {
    let mut words = line.split(' ');
    let mut package = Package {
        name: words.next().unwrap_or_default(),
        path: words.next().ok_or("missing package path")?,
        ..Package::default()
    };
    for word in words {
        match word.split_once('=') {
            Some(("group", value)) => package.group = Some(value.trim_matches('"')),
            Some(("version", value)) => package.version = value,
            Some(("model", value)) => package.model = value,
            _ => return Err("unknown attribute of a package"),
        }
    }
    Ok(package)
}

fn parse_alias(line: &str) -> Result<Alias<'_>, &'static str> {
    // Values may contain spaces, so the enum is the rest of the line.
    let (line, values) = match line.split_once(" enum=") {
        Some((line, values)) => (line, values.split('|').collect()),
        None => (line, Vec::new()),
    };
    let mut words = line.split(' ');
    let mut alias = Alias {
        name: words.next().unwrap_or_default(),
        ty: words.next().ok_or("missing type of the alias")?,
        values,
        ..Alias::default()
    };
    for word in words {
        match word {
            "message" => alias.message = true,
            "closed" => alias.closed = true,
            "custom" => {}
            _ => return Err("unknown attribute of an alias"),
        }
    }
    Ok(alias)
}

fn parse_struct(line: &str) -> Result<StructFacts<'_>, &'static str> {
    let mut words = line.split(' ');
    let mut structure = StructFacts { name: words.next().unwrap_or_default(), ..StructFacts::default() };
    for word in words {
        match word {
            "kind" => structure.kind = true,
            "custom" => structure.custom = true,
            "atomic" => structure.atomic = true,
            "union" => structure.union = true,
            _ => return Err("unknown attribute of a struct"),
        }
    }
    Ok(structure)
}

fn parse_field(line: &str) -> Result<FieldFacts<'_>, &'static str> {
    let (line, default) = match line.split_once(" default=") {
        Some((line, default)) => (line, Some(default)),
        None => (line, None),
    };
    let mut words = line.split(' ');
    let name = words.next().unwrap_or_default();
    let mut field = FieldFacts { default, ..FieldFacts::default() };
    if name == "=" {
        field.inline = true;
    } else if let Some(name) = name.strip_prefix('-') {
        (field.name, field.hidden) = (name, true);
    } else if let Some(name) = name.strip_suffix('?') {
        (field.name, field.omit_empty) = (name, true);
    } else if let Some(name) = name.strip_suffix('~') {
        (field.name, field.omit_zero) = (name, true);
    } else {
        (field.name, field.required) = (name, true);
    }
    field.ty = words.next().ok_or("missing field type")?;
    field.number = match words.next() {
        Some("-") => 0,
        Some(number) => number.parse().map_err(|_| "invalid field number")?,
        None => return Err("missing field number"),
    };
    for word in words {
        match word.split_once('=').unwrap_or((word, "")) {
            ("required", "") => field.required = true,
            ("optional", "") => field.required = false,
            ("discriminator", "") => field.discriminator = true,
            ("member", "") => field.member = true,
            ("list", value) => (field.list, field.list_keys) = split_keys(value),
            ("map", value) => field.map = value,
            ("patch", value) => (field.patch, field.patch_key) = split_keys(value),
            ("gate", value) => field.gates = value,
            _ => return Err("unknown attribute of a field"),
        }
    }
    Ok(field)
}

/// Splits `map(a,b)` into `map` and `a,b`.
fn split_keys(text: &str) -> (&str, &str) {
    match text.split_once('(') {
        Some((name, keys)) => (name, keys.trim_end_matches(')')),
        None => (text, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expect: &str) {
        let text = format!("package p k8s.io/p\nstruct S\n  {line}\n");
        let found = match parse(&text, Minor::DEFAULT) {
            Ok(packages) => {
                let f = &packages[0].structs[0].fields[0];
                let mut words = vec![f.name.to_owned(), f.ty.to_owned(), f.number.to_string()];
                let flags = [
                    (f.inline, "inline"),
                    (f.hidden, "hidden"),
                    (f.omit_empty, "omitempty"),
                    (f.omit_zero, "omitzero"),
                    (f.required, "required"),
                    (f.discriminator, "discriminator"),
                    (f.member, "member"),
                ];
                words.extend(flags.iter().filter(|(set, _)| *set).map(|(_, name)| (*name).to_owned()));
                for (key, value) in [
                    ("list", f.list),
                    ("keys", f.list_keys),
                    ("map", f.map),
                    ("patch", f.patch),
                    ("by", f.patch_key),
                    ("gate", f.gates),
                    ("default", f.default.unwrap_or_default()),
                ] {
                    if !value.is_empty() {
                        words.push(format!("{key}:{value}"));
                    }
                }
                words.join(" ")
            }
            Err(error) => error.to_string(),
        };
        assert_eq!(found, expect, "{line}");
    }

    #[test]
    fn field_lines_are_parsed() {
        check("name string 1", "name string 1 required");
        check("image? string 2", "image string 2 omitempty");
        check("creationTimestamp~ Time 8", "creationTimestamp Time 8 omitzero");
        check("= meta/v1.TypeMeta -", " meta/v1.TypeMeta 0 inline");
        check("-Raw []byte 1", "Raw []byte 1 hidden");
        check("token? string 1 required", "token string 1 omitempty required");
        check("names []string 1 optional list=atomic", "names []string 1 list:atomic");
        check(
            "ports? []P 6 list=map(a,b) patch=merge,retainKeys(a) gate=F,G member",
            "ports []P 6 omitempty member list:map keys:a,b patch:merge,retainKeys by:a gate:F,G",
        );
        check("p? string 4 default=\"a b\"", "p string 4 omitempty default:\"a b\"");
        check("p? string", "line 3: missing field number");
        check("p? string x", "line 3: invalid field number");
        check("p? string 1 what", "line 3: unknown attribute of a field");
    }
}

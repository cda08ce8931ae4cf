//! The type facts as `data/types.txt` has them, line by line; the head of that file documents the format. The loader
//! makes types of them, the importer compares them with other sources.

/// A line that is not of the format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct FactsError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub problem: String,
}

impl FactsError {
    pub(crate) fn new(line: usize, problem: impl Into<String>) -> Self {
        Self { line, problem: problem.into() }
    }
}

/// One Go package.
#[derive(Clone, Debug, Default)]
pub struct Package<'a> {
    /// The name that types of other packages use for it (`core/v1`).
    pub name: &'a str,
    /// The Go import path.
    pub path: &'a str,
    /// The API group (empty for core), if the package is a version of one.
    pub group: Option<&'a str>,
    /// The API version, if the package is one.
    pub version: &'a str,
    /// The prefix of OpenAPI names.
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
    /// The Go type that it stands for.
    pub ty: &'a str,
    /// True for a slice that is a Protobuf message with the items in field 1.
    pub message: bool,
    /// True if the values are published as an enum.
    pub closed: bool,
    /// The constants of the type.
    pub values: Vec<&'a str>,
}

/// A struct.
#[derive(Clone, Debug, Default)]
pub struct StructFacts<'a> {
    /// The name in its package.
    pub name: &'a str,
    /// True if it is registered as a kind of the package's group and version.
    pub kind: bool,
    /// True if it writes its JSON itself.
    pub custom: bool,
    /// True if apply owns it as a whole.
    pub atomic: bool,
    /// True if at most one of its members is set.
    pub union: bool,
    /// The fields in declaration order.
    pub fields: Vec<FieldFacts<'a>>,
}

/// A field of a struct.
#[derive(Clone, Debug, Default)]
pub struct FieldFacts<'a> {
    /// The JSON name; the Go name where JSON does not have the field; empty where it is inlined.
    pub name: &'a str,
    /// The Go type, with names of the same package standing alone.
    pub ty: &'a str,
    /// The Protobuf number, or 0.
    pub number: u32,
    /// True for a struct whose fields are the outer struct's fields in JSON.
    pub inline: bool,
    /// True if JSON does not have the field.
    pub hidden: bool,
    /// `omitempty`
    pub omit_empty: bool,
    /// `omitzero`
    pub omit_zero: bool,
    /// True if the published schema lists it as required.
    pub required: bool,
    /// `+listType`, or empty.
    pub list: &'a str,
    /// `+listMapKey`, separated by commas.
    pub list_keys: &'a str,
    /// `+mapType` or `+structType`, or empty.
    pub map: &'a str,
    /// `patchStrategy`, or empty.
    pub patch: &'a str,
    /// `patchMergeKey`, or empty.
    pub patch_key: &'a str,
    /// The feature gates that the field depends on, separated by commas.
    pub gates: &'a str,
    /// True for the field that tells which member of the union is set.
    pub discriminator: bool,
    /// True for a member of a union.
    pub member: bool,
    /// `+default` as JSON.
    pub default: Option<&'a str>,
}

/// Reads the type facts.
///
/// # Errors
/// The first line that is not of the format.
pub fn parse(text: &str) -> Result<Vec<Package<'_>>, FactsError> {
    let mut packages: Vec<Package<'_>> = Vec::with_capacity(40);
    for (i, line) in text.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let fail = |problem: &str| FactsError::new(i + 1, problem);
        if let Some(rest) = line.strip_prefix("package ") {
            packages.push(package(rest).map_err(fail)?);
            continue;
        }
        let package = packages.last_mut().ok_or_else(|| fail("no package before it"))?;
        if let Some(rest) = line.strip_prefix("  ") {
            let owner = package.structs.last_mut().ok_or_else(|| fail("a field outside of a struct"))?;
            owner.fields.push(field(rest).map_err(fail)?);
        } else if let Some(rest) = line.strip_prefix("struct ") {
            package.structs.push(structure(rest).map_err(fail)?);
        } else if let Some(rest) = line.strip_prefix("alias ") {
            package.aliases.push(alias(rest).map_err(fail)?);
        } else {
            return Err(fail("neither package, alias, struct nor field"));
        }
    }
    Ok(packages)
}

fn package(line: &str) -> Result<Package<'_>, &'static str> {
    let mut words = line.split(' ');
    let mut package = Package {
        name: words.next().unwrap_or_default(),
        path: words.next().ok_or("a package without its path")?,
        ..Package::default()
    };
    for word in words {
        match word.split_once('=') {
            Some(("group", value)) => package.group = Some(value.trim_matches('"')),
            Some(("version", value)) => package.version = value,
            Some(("model", value)) => package.model = value,
            _ => return Err("an unknown word of a package"),
        }
    }
    Ok(package)
}

fn alias(line: &str) -> Result<Alias<'_>, &'static str> {
    // Values may contain spaces, so the enum is the rest of the line.
    let (line, values) = match line.split_once(" enum=") {
        Some((line, values)) => (line, values.split('|').collect()),
        None => (line, Vec::new()),
    };
    let mut words = line.split(' ');
    let mut alias = Alias {
        name: words.next().unwrap_or_default(),
        ty: words.next().ok_or("an alias without its type")?,
        values,
        ..Alias::default()
    };
    for word in words {
        match word {
            "message" => alias.message = true,
            "closed" => alias.closed = true,
            "custom" => {}
            _ => return Err("an unknown word of an alias"),
        }
    }
    Ok(alias)
}

fn structure(line: &str) -> Result<StructFacts<'_>, &'static str> {
    let mut words = line.split(' ');
    let mut structure = StructFacts { name: words.next().unwrap_or_default(), ..StructFacts::default() };
    for word in words {
        match word {
            "kind" => structure.kind = true,
            "custom" => structure.custom = true,
            "atomic" => structure.atomic = true,
            "union" => structure.union = true,
            _ => return Err("an unknown word of a struct"),
        }
    }
    Ok(structure)
}

fn field(line: &str) -> Result<FieldFacts<'_>, &'static str> {
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
    field.ty = words.next().ok_or("a field without its type")?;
    field.number = match words.next() {
        Some("-") => 0,
        Some(number) => number.parse().map_err(|_| "a field number that is none")?,
        None => return Err("a field without its number"),
    };
    for word in words {
        match word.split_once('=').unwrap_or((word, "")) {
            ("required", "") => field.required = true,
            ("optional", "") => field.required = false,
            ("discriminator", "") => field.discriminator = true,
            ("member", "") => field.member = true,
            ("list", value) => (field.list, field.list_keys) = with_keys(value),
            ("map", value) => field.map = value,
            ("patch", value) => (field.patch, field.patch_key) = with_keys(value),
            ("gate", value) => field.gates = value,
            _ => return Err("an unknown word of a field"),
        }
    }
    Ok(field)
}

/// Splits `map(a,b)` into `map` and `a,b`.
fn with_keys(text: &str) -> (&str, &str) {
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
        let found = match parse(&text) {
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
    fn fields() {
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
        check("p? string", "line 3: a field without its number");
        check("p? string x", "line 3: a field number that is none");
        check("p? string 1 what", "line 3: an unknown word of a field");
    }
}

//! Resolves JSON paths to the field of a schema, such as `.spec.color` or `.metadata['x.y']` (upstream:
//! `ValidFieldPath` of apiextensions-apiserver's `pkg/apiserver/schema/cel/validation.go`).

use super::node::Node;

/// A schema that field paths can be resolved against.
pub trait PathSchema: Copy {
    /// Returns true if the schema declares properties.
    fn has_properties(self) -> bool;

    /// Returns the schema of a declared property.
    fn property(self, name: &str) -> Option<Self>;

    /// Returns the schema of the values of a map: `None` if the schema is no map, `Some(None)` if any value is allowed.
    fn map_values(self) -> Option<Option<Self>>;
}

impl PathSchema for Node<'_> {
    fn has_properties(self) -> bool {
        self.has("properties")
    }

    fn property(self, name: &str) -> Option<Self> {
        Node::property(self, name)
    }

    fn map_values(self) -> Option<Option<Self>> {
        self.keyword("additionalProperties").is_some().then(|| self.child("additionalProperties"))
    }
}

/// A resolved field path.
#[derive(Debug)]
pub struct ResolvedFieldPath<S> {
    /// The path in the form that error messages use.
    pub path: String,
    /// The first field of the path.
    pub first: String,
    /// The schema of the field, or `None` if any value is allowed there.
    pub schema: Option<S>,
}

const NO_FIELD: &str = "does not refer to a valid field";
const UNEXPECTED_END: &str = "unexpected end of JSON path";

/// Resolves a path against the schema of an object. `brackets` allows the form `['name']`.
///
/// # Errors
/// Returns upstream's message if the text is malformed or refers to no field.
pub fn resolve<S: PathSchema>(path: &str, root: S, brackets: bool) -> Result<ResolvedFieldPath<S>, String> {
    let mut resolved = ResolvedFieldPath { path: String::new(), first: String::new(), schema: Some(root) };
    let mut tokens = Tokens(path);
    while let Some(token) = tokens.next() {
        match token {
            "[" if !brackets => return Err("array notation is not allowed".to_owned()),
            "[" => {
                let name = quoted(tokens.next().ok_or(UNEXPECTED_END)?)?;
                resolved.step(&name)?;
                let end = tokens.next().ok_or(UNEXPECTED_END)?;
                if end != "]" {
                    return Err(format!("expected ] but got {end}"));
                }
            }
            "." => resolved.step(tokens.next().ok_or(UNEXPECTED_END)?)?,
            other => return Err(format!("expected [ or . but got: {other}")),
        }
    }
    Ok(resolved)
}

impl<S: PathSchema> ResolvedFieldPath<S> {
    fn step(&mut self, name: &str) -> Result<(), String> {
        let schema = self.schema.ok_or(NO_FIELD)?;
        let step;
        if schema.has_properties() {
            self.schema = Some(schema.property(name).ok_or(NO_FIELD)?);
            step = if self.path.is_empty() { name.to_owned() } else { format!(".{name}") };
        } else if let Some(values) = schema.map_values() {
            self.schema = values;
            step = format!("[{name}]");
        } else {
            return Err(NO_FIELD.to_owned());
        }
        if self.path.is_empty() {
            self.first.clone_from(&step);
        }
        self.path.push_str(&step);
        Ok(())
    }
}

/// Iterates over the tokens of a path: `.`, `[`, `]`, quoted strings, and plain names.
struct Tokens<'p>(&'p str);

impl<'p> Iterator for Tokens<'p> {
    type Item = &'p str;

    fn next(&mut self) -> Option<&'p str> {
        let rest = self.0;
        let end = if rest.starts_with('\'') {
            let bytes = rest.as_bytes();
            (1..bytes.len()).find(|&i| bytes[i] == b'\'' && bytes[i - 1] != b'\\').map(|i| i + 1)
        } else {
            rest.find(['.', '[', ']']).map(|i| i.max(1))
        };
        let (token, rest) = rest.split_at(end.unwrap_or(rest.len()));
        self.0 = rest;
        (!token.is_empty()).then_some(token)
    }
}

/// Returns the value of a string in single quotes.
fn quoted(token: &str) -> Result<String, String> {
    let inner = token.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
    let inner = inner.ok_or_else(|| format!("expected single quoted string but got {token}"))?;
    let mut text = String::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        // A backslash escapes the next character, unless that is a line break.
        let escaped = if c == '\\' { chars.clone().next().filter(|next| *next != '\n') } else { None };
        let Some(escaped) = escaped else {
            text.push(c);
            continue;
        };
        chars.next();
        text.push(match escaped {
            'a' => '\u{7}',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            '\'' | '\\' => escaped,
            other => return Err(format!("invalid string literal: invalid escape char \\{other}")),
        });
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::object;

    const SCHEMA: &str = r#"{"properties":{"a":{"properties":{"b.c":{"type":"string"},"it's":{"type":"string"}}},
        "m":{"additionalProperties":{"properties":{"x":{"type":"integer"}}}},"any":{"additionalProperties":true}}}"#;

    fn check(path: &str, brackets: bool, expect: &str) {
        let schema = object(SCHEMA);
        let resolved = match resolve(path, Node(&schema), brackets) {
            Ok(resolved) => format!("{} {}", resolved.path, resolved.schema.map_or("-", |node| node.type_name())),
            Err(error) => error,
        };
        assert_eq!(resolved, expect, "{path}");
    }

    #[test]
    fn field_paths_resolve_through_properties_and_maps() {
        check(".a", false, "a ");
        check(".a['b.c']", true, "a.b.c string");
        check("['a']['it\\'s']", true, "a.it's string");
        check(".m.k.x", false, "m[k].x integer");
        check(".m['k'].x", true, "m[k].x integer");
        check(".any.x", false, "any[x] -");
    }

    #[test]
    fn malformed_paths_are_rejected() {
        for (path, expect) in [
            (".", UNEXPECTED_END),
            (".z", NO_FIELD),
            (".any.x.y", NO_FIELD),
            (".a.z", NO_FIELD),
            ("a", "expected [ or . but got: a"),
            ("..", NO_FIELD),
            (".a[", UNEXPECTED_END),
            (".a[b]", "expected single quoted string but got b"),
            (".a[']", "expected single quoted string but got ']"),
            (".a['b.c'", UNEXPECTED_END),
            (".a['b.c'x", "expected ] but got x"),
            (".a['\\q']", "invalid string literal: invalid escape char \\q"),
        ] {
            check(path, true, expect);
        }
        check(".a['b.c']", false, "array notation is not allowed");
    }
}

//! Parses validation rules, such as the tags of upstream's types in `data/rules.txt`.
//! `docs/design/validation-rules.md` describes the format.

use pintle_versions::{DataLine, Minor, nested_lines, split_range};

use crate::facts::{FactsError, level};

/// The rules of the tags of the built-in types.
pub const IMPORTED: &str = include_str!("../data/rules.txt");

/// The rules of the types of a Go package.
#[derive(Clone, Debug, Default)]
pub struct PackageRules<'a> {
    /// The name of the package (`core/v1`).
    pub name: &'a str,
    /// The types with rules.
    pub types: Vec<TypeRules<'a>>,
}

/// The rules of a type.
#[derive(Clone, Debug, Default)]
pub struct TypeRules<'a> {
    /// The name in its package.
    pub name: &'a str,
    /// The underlying Go type of a type that is not a struct.
    pub underlying: Option<&'a str>,
    /// The rules of the type itself.
    pub rules: Vec<Rule<'a>>,
    /// The fields with rules, or with a type that has rules, in declaration order.
    pub fields: Vec<FieldRules<'a>>,
}

/// The rules of a field.
#[derive(Clone, Debug, Default)]
pub struct FieldRules<'a> {
    /// The JSON name, or empty if the field is inlined.
    pub name: &'a str,
    /// The Go type.
    pub ty: &'a str,
    /// The rules in the order in which they are applied.
    pub rules: Vec<Rule<'a>>,
}

/// A rule such as `maxItems=8` or `ifEnabled(Gate)=required`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule<'a> {
    /// The name.
    pub name: &'a str,
    /// The text between parentheses, or empty. The detail of an error begins with a quote.
    pub arguments: &'a str,
    /// The text or rule after the equals sign.
    pub value: RuleValue<'a>,
}

/// The value of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleValue<'a> {
    /// There is no equals sign.
    None,
    /// A value.
    Text(&'a str),
    /// The rule that the outer one restricts or applies elsewhere.
    Rule(Box<Rule<'a>>),
}

/// The rules whose value is another rule.
const OUTER: [&str; 9] =
    ["alpha", "beta", "eachKey", "eachVal", "ifDisabled", "ifEnabled", "item", "member", "subfield"];

/// The rules with a value.
const WITH_VALUE: [&str; 21] = [
    "check",
    "enum",
    "format",
    "greaterThan",
    "isSubresource",
    "listMapKey",
    "listType",
    "maxBytes",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "neq",
    "oneOf",
    "supportsSubresource",
    "unique",
    "update",
];

/// The rules without a value.
const WITHOUT_VALUE: [&str; 16] = [
    "customUnique",
    "customValidation",
    "dependentForbidden",
    "dependentRequired",
    "discriminator",
    "forbidden",
    "immutable",
    "monotonic",
    "nonEmpty",
    "optional",
    "port",
    "required",
    "unionDiscriminator",
    "unionMember",
    "wildcardAlone",
    "zeroOrOneOfMember",
];

/// Parses the rules of all packages in a version.
///
/// # Errors
/// Returns an error for the first line with a syntax error or an unknown rule.
pub fn parse(text: &str, minor: Minor) -> Result<Vec<PackageRules<'_>>, FactsError> {
    let mut packages: Vec<PackageRules<'_>> = Vec::new();
    for DataLine { number, text: line, .. } in nested_lines(text, minor, level) {
        let fail = |problem: String| FactsError::new(number, problem);
        if let Some(name) = line.strip_prefix("package ") {
            packages.push(PackageRules { name, types: Vec::new() });
            continue;
        }
        let package = packages.last_mut().ok_or_else(|| fail("no preceding package".to_owned()))?;
        let mut words = words(line.trim_start());
        if line.starts_with("  ") {
            let owner = package.types.last_mut().ok_or_else(|| fail("a field outside a struct".to_owned()))?;
            let name = words.next().map(|name| if name == "=" { "" } else { name }).unwrap_or_default();
            let ty = words.next().ok_or_else(|| fail("missing field type".to_owned()))?;
            owner.fields.push(FieldRules { name, ty, rules: parse_rules(words).map_err(fail)? });
            continue;
        }
        let kind = words.next().unwrap_or_default();
        let name = words.next().ok_or_else(|| fail("missing name of the type".to_owned()))?;
        let underlying = match kind {
            "struct" => None,
            "alias" => Some(words.next().ok_or_else(|| fail("missing type of the alias".to_owned()))?),
            _ => return Err(fail("expected a package, alias, struct or field".to_owned())),
        };
        let rules = parse_rules(words).map_err(fail)?;
        package.types.push(TypeRules { name, underlying, rules, fields: Vec::new() });
    }
    Ok(packages)
}

/// Parses the rules of one package in a version; `None` if there are none. The other packages are skipped.
///
/// # Errors
/// Returns an error for the first line of the package with a syntax error or an unknown rule.
pub fn parse_package<'a>(text: &'a str, name: &str, minor: Minor) -> Result<Option<PackageRules<'a>>, FactsError> {
    let is_head = |line: &str| split_range(line).0.strip_prefix("package ").is_some_and(|found| found == name);
    let Some(start) = text
        .split_inclusive('\n')
        .scan(0, |end, line| Some((std::mem::replace(end, *end + line.len()), line)))
        .find_map(|(start, line)| is_head(line.trim_end()).then_some(start))
    else {
        return Ok(None);
    };
    let section = &text[start..];
    let end = section.find("\n\n").unwrap_or(section.len());
    Ok(parse(&section[..end], minor)?.pop())
}

/// The words of a line. Spaces in quotes do not separate them.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    line.split(move |letter| {
        quoted ^= letter == '"';
        letter == ' ' && !quoted
    })
}

fn parse_rules<'a>(words: impl Iterator<Item = &'a str>) -> Result<Vec<Rule<'a>>, String> {
    words.map(parse_rule).collect()
}

fn parse_rule(word: &str) -> Result<Rule<'_>, String> {
    let name = &word[..word.find(['(', '=']).unwrap_or(word.len())];
    let rest = &word[name.len()..];
    let (arguments, rest) = match rest.strip_prefix('(') {
        Some(rest) => rest
            .split_once(if rest.starts_with('"') { "\")" } else { ")" })
            .ok_or_else(|| format!("no end of the arguments of {name}"))?,
        None => ("", rest),
    };
    let value = match rest.strip_prefix('=') {
        Some(inner) if OUTER.contains(&name) => RuleValue::Rule(Box::new(parse_rule(inner)?)),
        Some(text) if WITH_VALUE.contains(&name) => RuleValue::Text(text),
        None if rest.is_empty() && WITHOUT_VALUE.contains(&name) => RuleValue::None,
        _ => return Err(format!("unknown rule {word}")),
    };
    Ok(Rule { name, arguments, value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imported_rules_are_parsed() {
        let packages = parse(IMPORTED, Minor::DEFAULT).expect("valid rules");
        let types: usize = packages.iter().map(|package| package.types.len()).sum();
        let rules: usize = packages
            .iter()
            .flat_map(|package| &package.types)
            .map(|ty| ty.rules.len() + ty.fields.iter().map(|field| field.rules.len()).sum::<usize>())
            .sum();
        assert!(types > 100 && rules > 500, "{types} types, {rules} rules");
        for package in &packages {
            let alone = parse_package(IMPORTED, package.name, Minor::DEFAULT).expect("valid rules").expect("a package");
            assert_eq!(alone.types.len(), package.types.len(), "{}", package.name);
        }
        assert!(parse_package(IMPORTED, "core", Minor::DEFAULT).expect("valid rules").is_none());
    }

    #[test]
    fn lines_are_parsed() {
        let check = |line: &str, expect: &str| {
            let text = format!("package p/v1\nstruct S\n  {line}\n");
            let found = match parse(&text, Minor::DEFAULT) {
                Ok(packages) => {
                    let field = &packages[0].types[0].fields[0];
                    let rules: Vec<String> = field.rules.iter().map(shown).collect();
                    format!("{}:{} {}", field.name, field.ty, rules.join(" "))
                }
                Err(error) => error.to_string(),
            };
            assert_eq!(found, expect, "{line}");
        };
        check("a *int32 required minimum=1", "a:*int32 required[] minimum[]1");
        check("= D optional", ":D optional[]");
        check("a T alpha=ifEnabled(G)=format=k8s-x", "a:T alpha[](ifEnabled[G](format[]k8s-x))");
        check("a []T item(type:A)=zeroOrOneOfMember", "a:[]T item[type:A](zeroOrOneOfMember[])");
        check("a", "line 3: missing field type");
        check("a T nope", "line 3: unknown rule nope");
        check("a T minimum", "line 3: unknown rule minimum");
        check("a T required=1", "line 3: unknown rule required=1");
        check("a T alpha=nope", "line 3: unknown rule nope");
        check("a T item(a=required", "line 3: no end of the arguments of item");
        check("a T required(\"give a (b)\") minimum(\"c\")=1", "a:T required[\"give a (b)] minimum[\"c]1");
    }

    fn shown(rule: &Rule<'_>) -> String {
        let value = match &rule.value {
            RuleValue::None => String::new(),
            RuleValue::Text(text) => (*text).to_owned(),
            RuleValue::Rule(rule) => format!("({})", shown(rule)),
        };
        format!("{}[{}]{value}", rule.name, rule.arguments)
    }
}

//! Semantic versions, as `github.com/blang/semver` reads and orders them.

use std::any::Any;
use std::cmp::Ordering;

use pintle_value::print::quote;

use super::Library;
use super::quantity::{estimate_one, estimate_parse};
use crate::cost::charge;
use crate::error::EvalError;
use crate::function::{Eval, Function, Overload};
use crate::types::Type;
use crate::value::{Opaque, Outcome, Value};

const NAME: &str = "kubernetes.Semver";

/// A version. What follows a `+` does not take part in comparisons.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Version {
    numbers: [u64; 3],
    before: Prerelease,
}

/// The parts behind a `-`. A version without any is after those with some.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Prerelease(Vec<Part>);

/// A part: numbers come before words.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Number(u64),
    Word(String),
}

impl Ord for Prerelease {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.0.is_empty(), other.0.is_empty()) {
            (false, false) => self.0.cmp(&other.0),
            (a, b) => a.cmp(&b),
        }
    }
}

impl PartialOrd for Prerelease {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Opaque for Version {
    fn type_name(&self) -> &str {
        NAME
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.as_any().downcast_ref::<Self>() == Some(self)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Version {
    fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let (major, minor) = (number(major, "Major")?, number(minor, "Minor")?);
        let (rest, build) = rest.split_once('+').map_or((rest, None), |(rest, build)| (rest, Some(build)));
        let (patch, before) = rest.split_once('-').map_or((rest, None), |(patch, before)| (patch, Some(before)));
        let patch = number(patch, "Patch")?;
        let before = before.map_or(Ok(Vec::new()), |before| before.split('.').map(part).collect())?;
        for word in build.into_iter().flat_map(|build| build.split('.')) {
            if word.is_empty() {
                return Err("Build meta data is empty".to_owned());
            }
            if !is_word(word) {
                return Err(format!("Invalid character(s) found in build meta data {}", quote(word)));
            }
        }
        Ok(Self { numbers: [major, minor, patch], before: Prerelease(before) })
    }

    /// Reads a version that may lack parts and have a `v` in front and zeros before numbers.
    fn parse_lax(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(without_zeros).collect();
        if parts.len() < 3 {
            if parts.last().is_some_and(|last| last.contains(['+', '-'])) {
                return Err("short version cannot contain PreRelease/Build meta data".to_owned());
            }
            parts.resize(3, "0".to_owned());
        }
        Self::parse(&parts.join("."))
    }
}

fn without_zeros(part: &str) -> String {
    if part.len() <= 1 {
        return part.to_owned();
    }
    let rest = part.trim_start_matches('0');
    if rest.starts_with(|c: char| c.is_ascii_digit()) { rest.to_owned() } else { format!("0{rest}") }
}

fn is_word(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

fn number(text: &str, which: &str) -> Result<u64, String> {
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        let which = which.to_lowercase();
        return Err(format!("Invalid character(s) found in {which} number {}", quote(text)));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(format!("{which} number must not contain leading zeroes {}", quote(text)));
    }
    unsigned(text)
}

fn unsigned(text: &str) -> Result<u64, String> {
    let why = if text.is_empty() { "invalid syntax" } else { "value out of range" };
    text.parse().map_err(|_| format!("strconv.ParseUint: parsing {}: {why}", quote(text)))
}

fn part(text: &str) -> Result<Part, String> {
    if text.is_empty() {
        return Err("Prerelease is empty".to_owned());
    }
    if text.bytes().all(|b| b.is_ascii_digit()) {
        if text.len() > 1 && text.starts_with('0') {
            let text = quote(text);
            return Err(format!("Numeric PreRelease version must not contain leading zeroes {text}"));
        }
        return unsigned(text).map(Part::Number);
    }
    if !is_word(text) {
        return Err(format!("Invalid character(s) found in prerelease {}", quote(text)));
    }
    Ok(Part::Word(text.to_owned()))
}

pub(super) fn library() -> Library {
    let v = Type::object(NAME);
    let one = [v.clone()];
    let two = [v.clone(), v.clone()];
    let lax = [Type::String, Type::Bool];
    let member = |name, id, params: &[Type], result: Type, run: Eval| {
        Function::new(name)
            .overload(Overload::member(id, params, result).run(run))
            .charge(charge::one)
            .estimate(estimate_one)
    };
    Library::of(vec![
        Function::new("semver")
            .overload(Overload::global("string_to_semver", &[Type::String], v.clone()).run(read))
            .overload(Overload::global("string_bool_to_semver", &lax, v).run(read))
            .charge(charge::first)
            .estimate(estimate_parse),
        Function::new("isSemver")
            .overload(Overload::global("is_semver_string", &[Type::String], Type::Bool).run(is_version))
            .overload(Overload::global("is_semver_string_bool", &lax, Type::Bool).run(is_version))
            .charge(charge::first)
            .estimate(estimate_parse),
        member("isGreaterThan", "semver_is_greater_than", &two, Type::Bool, |args| {
            Ok(Value::Bool(order(args)? == Ordering::Greater))
        }),
        member("isLessThan", "semver_is_less_than", &two, Type::Bool, |args| {
            Ok(Value::Bool(order(args)? == Ordering::Less))
        }),
        member("compareTo", "semver_compare_to", &two, Type::Int, |args| Ok(Value::Int(order(args)? as i64))),
        member("major", "semver_major", &one, Type::Int, |args| component(args, 0)),
        member("minor", "semver_minor", &one, Type::Int, |args| component(args, 1)),
        member("patch", "semver_patch", &one, Type::Int, |args| component(args, 2)),
    ])
}

fn parsed(args: &[Value<'_>]) -> Outcome<Result<Version, String>> {
    match args {
        [Value::String(text)] | [Value::String(text), Value::Bool(false)] => Ok(Version::parse(text)),
        [Value::String(text), Value::Bool(true)] => Ok(Version::parse_lax(text)),
        _ => Err(EvalError::no_overload()),
    }
}

fn read<'a>(args: &[Value<'a>]) -> Outcome<Value<'a>> {
    parsed(args)?.map(Value::opaque).map_err(EvalError::new)
}

fn is_version<'a>(args: &[Value<'a>]) -> Outcome<Value<'a>> {
    Ok(Value::Bool(parsed(args)?.is_ok()))
}

fn order(args: &[Value<'_>]) -> Outcome<Ordering> {
    let [a, b] = args else { return Err(EvalError::no_overload()) };
    match (a.as_opaque::<Version>(), b.as_opaque::<Version>()) {
        (Some(a), Some(b)) => Ok(a.cmp(b)),
        _ => Err(EvalError::no_overload()),
    }
}

fn component<'a>(args: &[Value<'a>], index: usize) -> Outcome<Value<'a>> {
    let version = args.first().and_then(Value::as_opaque::<Version>);
    version.map(|version| Value::Int(version.numbers[index] as i64)).ok_or_else(EvalError::no_overload)
}

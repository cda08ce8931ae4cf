//! Semantic versions, parsed and ordered like `github.com/blang/semver` (upstream:
//! `apiserver/pkg/cel/library/semverlib.go`).

use std::any::Any;
use std::cmp::Ordering;

use pintle_value::print::quote;

use super::Library;
use super::quantity::{estimate_one, estimate_parse};
use crate::cost::tracker;
use crate::error::EvalError;
use crate::function::{Function, FunctionOp, Overload};
use crate::types::Type;
use crate::value::{EvalResult, Opaque, Value};

const TYPE_NAME: &str = "kubernetes.Semver";

/// A version. Build metadata (after `+`) is not compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Version {
    numbers: [u64; 3],
    prerelease: Prerelease,
}

/// The pre-release identifiers (after `-`). A version without such identifiers sorts after versions with some.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Prerelease(Vec<PrereleaseIdentifier>);

/// A pre-release identifier. Numbers sort before words.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PrereleaseIdentifier {
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
        TYPE_NAME
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
        let (patch, prerelease) =
            rest.split_once('-').map_or((rest, None), |(patch, prerelease)| (patch, Some(prerelease)));
        let patch = number(patch, "Patch")?;
        let prerelease = prerelease
            .map_or(Ok(Vec::new()), |prerelease| prerelease.split('.').map(parse_prerelease_identifier).collect())?;
        for word in build.into_iter().flat_map(|build| build.split('.')) {
            if word.is_empty() {
                return Err("Build meta data is empty".to_owned());
            }
            if !is_identifier(word) {
                return Err(format!("Invalid character(s) found in build meta data {}", quote(word)));
            }
        }
        Ok(Self { numbers: [major, minor, patch], prerelease: Prerelease(prerelease) })
    }

    /// Parses a version after normalization: a leading `v`, missing minor and patch numbers and leading zeros are
    /// allowed.
    fn parse_tolerant(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(trim_leading_zeros).collect();
        if parts.len() < 3 {
            if parts.last().is_some_and(|last| last.contains(['+', '-'])) {
                return Err("short version cannot contain PreRelease/Build meta data".to_owned());
            }
            parts.resize(3, "0".to_owned());
        }
        Self::parse(&parts.join("."))
    }
}

fn trim_leading_zeros(number: &str) -> String {
    if number.len() <= 1 {
        return number.to_owned();
    }
    let rest = number.trim_start_matches('0');
    if rest.starts_with(|c: char| c.is_ascii_digit()) { rest.to_owned() } else { format!("0{rest}") }
}

fn is_identifier(text: &str) -> bool {
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

fn parse_prerelease_identifier(text: &str) -> Result<PrereleaseIdentifier, String> {
    if text.is_empty() {
        return Err("Prerelease is empty".to_owned());
    }
    if text.bytes().all(|b| b.is_ascii_digit()) {
        if text.len() > 1 && text.starts_with('0') {
            let text = quote(text);
            return Err(format!("Numeric PreRelease version must not contain leading zeroes {text}"));
        }
        return unsigned(text).map(PrereleaseIdentifier::Number);
    }
    if !is_identifier(text) {
        return Err(format!("Invalid character(s) found in prerelease {}", quote(text)));
    }
    Ok(PrereleaseIdentifier::Word(text.to_owned()))
}

pub(super) fn library() -> Library {
    let v = Type::object(TYPE_NAME);
    let one = [v.clone()];
    let two = [v.clone(), v.clone()];
    let with_normalize = [Type::String, Type::Bool];
    let member = |name, id, params: &[Type], result: Type, binding: FunctionOp| {
        Function::new(name)
            .overload(Overload::member(id, params, result).binding(binding))
            .cost_tracker(tracker::one)
            .cost_estimator(estimate_one)
    };
    Library::of(vec![
        Function::new("semver")
            .overload(Overload::global("string_to_semver", &[Type::String], v.clone()).binding(parse_semver))
            .overload(Overload::global("string_bool_to_semver", &with_normalize, v).binding(parse_semver))
            .cost_tracker(tracker::traverse_first)
            .cost_estimator(estimate_parse),
        Function::new("isSemver")
            .overload(Overload::global("is_semver_string", &[Type::String], Type::Bool).binding(is_semver))
            .overload(Overload::global("is_semver_string_bool", &with_normalize, Type::Bool).binding(is_semver))
            .cost_tracker(tracker::traverse_first)
            .cost_estimator(estimate_parse),
        member("isGreaterThan", "semver_is_greater_than", &two, Type::Bool, |args| {
            Ok(Value::Bool(compare(args)? == Ordering::Greater))
        }),
        member("isLessThan", "semver_is_less_than", &two, Type::Bool, |args| {
            Ok(Value::Bool(compare(args)? == Ordering::Less))
        }),
        member("compareTo", "semver_compare_to", &two, Type::Int, |args| Ok(Value::Int(compare(args)? as i64))),
        member("major", "semver_major", &one, Type::Int, |args| version_number(args, 0)),
        member("minor", "semver_minor", &one, Type::Int, |args| version_number(args, 1)),
        member("patch", "semver_patch", &one, Type::Int, |args| version_number(args, 2)),
    ])
}

fn parse_args(args: &[Value<'_>]) -> EvalResult<Result<Version, String>> {
    match args {
        [Value::String(text)] | [Value::String(text), Value::Bool(false)] => Ok(Version::parse(text)),
        [Value::String(text), Value::Bool(true)] => Ok(Version::parse_tolerant(text)),
        _ => Err(EvalError::no_overload()),
    }
}

fn parse_semver<'a>(args: &[Value<'a>]) -> EvalResult<Value<'a>> {
    parse_args(args)?.map(Value::opaque).map_err(EvalError::new)
}

fn is_semver<'a>(args: &[Value<'a>]) -> EvalResult<Value<'a>> {
    Ok(Value::Bool(parse_args(args)?.is_ok()))
}

fn compare(args: &[Value<'_>]) -> EvalResult<Ordering> {
    let [a, b] = args else { return Err(EvalError::no_overload()) };
    match (a.as_opaque::<Version>(), b.as_opaque::<Version>()) {
        (Some(a), Some(b)) => Ok(a.cmp(b)),
        _ => Err(EvalError::no_overload()),
    }
}

fn version_number<'a>(args: &[Value<'a>], index: usize) -> EvalResult<Value<'a>> {
    let version = args.first().and_then(Value::as_opaque::<Version>);
    version.map(|version| Value::Int(version.numbers[index] as i64)).ok_or_else(EvalError::no_overload)
}

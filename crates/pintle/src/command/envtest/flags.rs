//! Command lines of the programs that this program replaces: which flags exist, and which of them have an effect here.
//! The parser follows the rules of kube-apiserver (upstream: `github.com/spf13/pflag`).

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;

use pintle_value::print::quote;
use pintle_value::time::Duration;
use pintle_versions::{EffectiveVersion, Minor, lines_of};

use super::integers;
use crate::command::string_slice::StringSlice;

/// Whether a flag needs a value, and how many of its values count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arity {
    /// The flag needs no value.
    Bool,
    /// The last value counts.
    Scalar,
    /// All values count.
    List,
}

/// The effect of a flag in this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// The same effect as in the original program.
    Honoured,
    /// No effect. The program starts nevertheless.
    Accepted,
    /// The program does not start, unless the value is the default.
    Refused,
}

/// One flag.
#[derive(Clone, Debug)]
pub(super) struct Flag {
    section: &'static str,
    pub(super) name: &'static str,
    /// The type of the value as help texts show it; empty for flags without one.
    pub(super) value_type: &'static str,
    pub(super) arity: Arity,
    pub(super) default: &'static str,
    description: &'static str,
    pub(super) effect: Effect,
    /// Why the flag is accepted or refused, or how its effect differs.
    pub(super) why: &'static str,
    /// The missing feature, after its area.
    pub(super) missing: &'static str,
}

/// The flags of a program, in the order of its help text.
#[derive(Debug)]
pub(super) struct FlagTable {
    pub(super) flags: Vec<Flag>,
    /// The version that the program reports.
    pub(super) version: Minor,
}

/// Why a command line is not accepted, as the original program words it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum FlagError {
    #[error("unknown flag: --{0}")]
    Unknown(String),
    #[error("unknown shorthand flag: {0:?} in -{1}")]
    UnknownShorthand(char, String),
    #[error("flag needs an argument: --{0}")]
    NoValue(String),
    #[error("bad flag syntax: {0}")]
    Syntax(String),
    #[error("invalid argument {} for \"--{name}\" flag: {error}", quote(value))]
    Value { name: &'static str, value: String, error: String },
    #[error("{program} does not take any arguments, got {}", arguments(.found))]
    Arguments { program: &'static str, found: Vec<String> },
    #[error("--{name} is not supported: {why}")]
    Refused { name: &'static str, why: &'static str },
    #[error("argument {0:?} is not UTF-8")]
    NotUtf8(OsString),
}

/// A list of strings as Go's `%q` prints it.
fn arguments(found: &[String]) -> String {
    let quoted: Vec<String> = found.iter().map(|argument| quote(argument)).collect();
    format!("[{}]", quoted.join(" "))
}

/// The flags of a command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FlagValues {
    /// The values by name, in the order in which they were given.
    values: BTreeMap<&'static str, Vec<String>>,
    /// All values that were given, including flags without an effect.
    pub(super) given: BTreeMap<&'static str, Vec<String>>,
    /// The flags that were given and have no effect, with the reason.
    pub(super) ignored: Vec<(&'static str, &'static str)>,
    /// The version that the program reports.
    version: Minor,
}

impl FlagValues {
    /// The value of a flag that was given.
    pub(super) fn value(&self, name: &str) -> Option<&str> {
        self.values.get(name)?.last().map(String::as_str)
    }

    /// Whether a flag was given, also with an empty value.
    pub(super) fn is_given(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// Whether a flag without a value was given.
    pub(super) fn is_set(&self, name: &str) -> bool {
        self.value(name) == Some("true")
    }

    /// The strings of all values of a flag.
    pub(super) fn list(&self, name: &str) -> Vec<String> {
        let values = self.values.get(name).into_iter().flatten();
        // The values were checked when they were added.
        let values: Vec<StringSlice> = values.filter_map(|value| value.parse().ok()).collect();
        StringSlice::concat(&values).iter().map(|string| string.trim().to_owned()).collect()
    }

    /// The honoured flags except some, as `--name=value`.
    pub(super) fn to_arguments(&self, except: &[&str]) -> Vec<String> {
        let given = self.values.iter().filter(|(name, _)| !except.contains(*name));
        given.flat_map(|(name, values)| values.iter().map(move |value| format!("--{name}={value}"))).collect()
    }
}

impl FlagTable {
    /// Reads a table with one line for each flag. Tabs separate section, name, type, arity, default, description,
    /// effect and reason. A table may have a last column with the missing feature. Lines that begin with `#` are
    /// comments. A line in another form is skipped, but a test checks that there is none.
    pub(super) fn from_tsv(text: &'static str, version: Minor) -> Self {
        let flag = |line: &'static str| {
            let columns: Vec<&'static str> = line.split('\t').collect();
            let [section, name, value_type, arity, default, description, effect, why, ref rest @ ..] =
                *columns.as_slice()
            else {
                return None;
            };
            let missing = match rest {
                [] => "",
                [missing] => missing,
                _ => return None,
            };
            let arity = match arity {
                "bool" => Arity::Bool,
                "scalar" => Arity::Scalar,
                "list" => Arity::List,
                _ => return None,
            };
            let effect = match effect {
                "honoured" => Effect::Honoured,
                "accepted" => Effect::Accepted,
                "refused" => Effect::Refused,
                _ => return None,
            };
            Some(Flag { section, name, value_type, arity, default, description, effect, why, missing })
        };
        Self { flags: lines_of(text, version).filter_map(|line| flag(line.text)).collect(), version }
    }

    /// The number of flags.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.flags.len()
    }

    /// The names of the flags that have an effect.
    #[cfg(test)]
    pub(super) fn honoured(&self) -> impl Iterator<Item = &'static str> {
        self.flags.iter().filter(|flag| flag.effect == Effect::Honoured).map(|flag| flag.name)
    }

    pub(super) fn find(&self, name: &str) -> Option<&Flag> {
        self.flags.iter().find(|flag| flag.name == name)
    }

    /// Parses a command line without the name of the program.
    ///
    /// # Errors
    /// A flag is unknown or refused, or has an invalid value, or there are arguments that are not flags.
    pub(super) fn parse(
        &self,
        program: &'static str,
        command_line: impl IntoIterator<Item = OsString>,
    ) -> Result<FlagValues, FlagError> {
        let mut values = FlagValues { version: self.version, ..FlagValues::default() };
        let mut rest = command_line.into_iter();
        let mut positional = Vec::new();
        while let Some(argument) = rest.next() {
            let argument = argument.into_string().map_err(FlagError::NotUtf8)?;
            if argument == "--" {
                for argument in rest {
                    positional.push(argument.into_string().map_err(FlagError::NotUtf8)?);
                }
                break;
            }
            let Some((name, value)) = flag_of(&argument)? else {
                positional.push(argument);
                continue;
            };
            let flag = self.find(&name).ok_or_else(|| FlagError::Unknown(name.clone()))?;
            let value = match (value, flag.arity) {
                (Some(value), _) => value,
                (None, Arity::Bool) => "true".to_owned(),
                (None, _) => {
                    let value = rest.next().ok_or(FlagError::NoValue(name))?;
                    value.into_string().map_err(FlagError::NotUtf8)?
                }
            };
            values.add(flag, value)?;
        }
        if positional.is_empty() {
            return Ok(values);
        }
        Err(FlagError::Arguments { program, found: positional })
    }

    /// The help text of the flags.
    pub(super) fn help(&self) -> String {
        let mut text = String::new();
        let mut section = "";
        let head = |flag: &Flag| format!("      --{} {}", flag.name, flag.value_type).trim_end().to_owned();
        let width = self.flags.iter().map(|flag| head(flag).len()).max().unwrap_or_default() + 3;
        for flag in &self.flags {
            if flag.section != section {
                section = flag.section;
                let _ = write!(text, "\n{section}:\n\n");
            }
            let _ = write!(text, "{:width$}{}.", head(flag), flag.description);
            match flag.effect {
                Effect::Honoured => {}
                Effect::Accepted => text.push_str(" No effect here."),
                Effect::Refused => text.push_str(" Not supported here."),
            }
            match flag.default {
                "" => text.push('\n'),
                default => {
                    let _ = writeln!(text, " (default {default})");
                }
            }
        }
        text
    }

    /// The flags as Markdown, with one table for each section.
    #[cfg(test)]
    pub(super) fn markdown(&self) -> String {
        let mut text = String::new();
        let mut section = "";
        for flag in &self.flags {
            if flag.section != section {
                section = flag.section;
                let _ = write!(text, "\n## {section}\n\n| flag | default | here | why |\n|---|---|---|---|\n");
            }
            let effect = match flag.effect {
                Effect::Honoured => "honoured",
                Effect::Accepted => "accepted",
                Effect::Refused => "refused",
            };
            let default = if flag.default.is_empty() { String::new() } else { format!("`{}`", flag.default) };
            let row = format!("| `--{}` | {default} | {effect} | {} |", flag.name, flag.why);
            let _ = writeln!(text, "{}", row.replace("|  |", "| |"));
        }
        text
    }
}

impl FlagValues {
    fn add(&mut self, flag: &Flag, value: String) -> Result<(), FlagError> {
        let invalid = |error: String| FlagError::Value { name: flag.name, value: value.clone(), error };
        let value = normal_value(self.version, flag, &value).map_err(invalid)?;
        self.given.entry(flag.name).or_default().push(value.clone());
        match flag.effect {
            _ if flag.effect != Effect::Honoured && is_default(flag, &value) => return Ok(()),
            Effect::Refused => return Err(FlagError::Refused { name: flag.name, why: flag.why }),
            Effect::Accepted => {
                if !self.ignored.iter().any(|(name, _)| *name == flag.name) {
                    self.ignored.push((flag.name, flag.why));
                }
                return Ok(());
            }
            Effect::Honoured => {}
        }
        let values = self.values.entry(flag.name).or_default();
        if flag.arity != Arity::List {
            values.clear();
        }
        // An empty list has no values, an empty text means none, and an empty address changes nothing.
        if !value.is_empty() || !matches!(flag.value_type, "string" | "strings" | "ip") {
            values.push(value);
        }
        Ok(())
    }
}

/// Splits an argument into the name of a flag and its value. `None` if it is not a flag.
fn flag_of(argument: &str) -> Result<Option<(String, Option<String>)>, FlagError> {
    let Some(dashed) = argument.strip_prefix('-').filter(|rest| !rest.is_empty()) else { return Ok(None) };
    let Some(long) = dashed.strip_prefix('-') else { return shorthand(dashed).map(Some) };
    if long.starts_with(['-', '=']) {
        return Err(FlagError::Syntax(argument.to_owned()));
    }
    let (name, value) = match long.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (long, None),
    };
    // As upstream's `WordSepNormalizeFunc`.
    Ok(Some((name.replace('_', "-"), value)))
}

/// A flag of one letter: `-h`, `-v 2`, `-v=2` or `-v2`.
fn shorthand(dashed: &str) -> Result<(String, Option<String>), FlagError> {
    let mut letters = dashed.chars();
    let name = match letters.next() {
        Some('h') => "help",
        Some('v') => "v",
        other => return Err(FlagError::UnknownShorthand(other.unwrap_or('-'), dashed.to_owned())),
    };
    let rest = letters.as_str();
    let value = (!rest.is_empty()).then(|| rest.strip_prefix('=').unwrap_or(rest).to_owned());
    Ok((name.to_owned(), value))
}

/// Checks a value against its type, and returns it in a canonical form.
fn normal_value(minor: Minor, flag: &Flag, value: &str) -> Result<String, String> {
    match (flag.arity, flag.value_type) {
        // A flag that no longer has an effect takes any value.
        (Arity::Bool, "ignored") => Ok("true".to_owned()),
        (Arity::Bool, "version[=true]") if value == "raw" => Ok(value.to_owned()),
        (Arity::Bool, "version[=true]") if value.starts_with('v') => {
            reported_version(minor, value).map(|()| "false".to_owned())
        }
        (Arity::Bool, _) => {
            pintle_value::parse_bool(value).map(|value| value.to_string()).map_err(|error| error.to_string())
        }
        (Arity::Scalar, value_type) if integers::is_integer(value_type) => {
            integers::parse(value, value_type).map(|number| number.to_string())
        }
        (Arity::List, "strings") => value.parse::<StringSlice>().map(|_| value.to_owned()),
        (Arity::Scalar, "duration") => {
            Duration::parse(value).map(|_| value.to_owned()).map_err(|error| error.to_string())
        }
        _ => Ok(value.to_owned()),
    }
}

/// Checks the version that the server should report (`--version`; upstream: `SetDynamicVersion`). Only the server's own
/// version is possible.
fn reported_version(minor: Minor, version: &str) -> Result<(), String> {
    let own = pintle_server::version(EffectiveVersion::of(minor));
    let own = own.str_at(&["gitVersion"]);
    if version == own {
        return Ok(());
    }
    if core_version(version)? != core_version(own)? {
        let (version, own) = (quote(version), quote(own));
        return Err(format!("version {version} must match major/minor/patch of default version {own}"));
    }
    Err(format!("the version that is reported cannot be set; it is {own}"))
}

/// The major, minor and patch version (upstream: `ParseSemantic`).
fn core_version(version: &str) -> Result<&str, String> {
    let core = version.strip_prefix('v').unwrap_or(version);
    let core = core.split_once(|c: char| !c.is_ascii_digit() && c != '.').map_or(core, |(core, _)| core);
    match core.split('.').collect::<Vec<_>>().as_slice() {
        ["", ..] => Err(format!("could not parse {} as version", quote(version))),
        [_, minor, patch] if !minor.is_empty() && !patch.is_empty() => Ok(core),
        _ => Err(format!("illegal version string {}", quote(version))),
    }
}

/// Whether a value is the default, which changes nothing.
fn is_default(flag: &Flag, value: &str) -> bool {
    let default = flag.default.trim_matches('"');
    let same_duration = || match (Duration::parse(value), Duration::parse(default)) {
        (Ok(given), Ok(default)) => given.0 == default.0,
        _ => false,
    };
    match flag.arity {
        Arity::Bool => value == if default.is_empty() { "false" } else { default },
        _ if flag.value_type == "duration" => same_duration() || (default.is_empty() && value == "0s"),
        _ => value == default || (default.is_empty() && value == "0" && integers::is_integer(flag.value_type)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "# comment\n\
        Generic flags\tsecure-port\tint\tscalar\t6443\tThe port\thonoured\t\n\
        Generic flags\tprofiling\t\tbool\ttrue\tProfiling\taccepted\tthere is no profiling\n\
        Generic flags\tencryption\tstring\tscalar\t\tEncryption\trefused\tnothing is encrypted\n\
        Other flags\tname\tstrings\tlist\t\tNames\thonoured\t\n\
        Other flags\tclaim\tmapStringString\tlist\t\tClaims\thonoured\t\n\
        Other flags\tversion\tversion[=true]\tbool\t\tVersion\thonoured\t\n\
        Other flags\tcurves\tint32Slice\tlist\t\tCurves\taccepted\tno curves\n\
        Other flags\tforce\tignored\tbool\t\tNothing\taccepted\tnothing\n\
        Other flags\thelp\t\tbool\t\tHelp\thonoured\t\n\
        Other flags\tttl\tduration\tscalar\t1h0m0s\tTime\taccepted\tno cache\n\
        Other flags\tv\tLevel\tscalar\t0\tVerbosity\thonoured\t\n";

    fn parse(command_line: &[&str]) -> Result<FlagValues, String> {
        let parsed =
            FlagTable::from_tsv(TABLE, Minor::DEFAULT).parse("kube-apiserver", command_line.iter().map(OsString::from));
        parsed.map_err(|error| error.to_string())
    }

    #[test]
    fn flags_have_values_after_an_equals_sign_or_in_the_next_argument() {
        let values = parse(&["--secure-port=1", "--secure_port", "2", "--name=a,b", "--name", "c", "-v3"]).unwrap();
        assert_eq!(values.value("secure-port"), Some("2"));
        assert_eq!(values.list("name"), ["a", "b", "c"]);
        assert_eq!(values.to_arguments(&["v"]), ["--name=a,b", "--name=c", "--secure-port=2"]);
        assert_eq!(values.value("v"), Some("3"));
        assert!(parse(&["-h"]).unwrap().is_set("help"));
    }

    #[test]
    fn lists_are_read_as_csv() {
        let values = parse(&["--name=\"a,b\",c", "--name=d"]).unwrap();
        assert_eq!(values.list("name"), ["a,b", "c", "d"]);
        assert_eq!(values.to_arguments(&[]), ["--name=\"a,b\",c", "--name=d"]);
        let error = "invalid argument \"a\\\"b\" for \"--name\" flag: parse error on line 1, column 2: bare \" in \
                     non-quoted field";
        assert_eq!(parse(&["--name=a\"b"]).unwrap_err(), error);
    }

    #[test]
    fn integers_have_the_forms_of_go() {
        for (value, expect) in [("0x1F90", "8080"), ("0b101", "5"), ("0o17", "15"), ("1_000", "1000"), ("-5", "-5")] {
            assert_eq!(parse(&["--secure-port", value]).unwrap().value("secure-port"), Some(expect));
        }
    }

    #[test]
    fn only_a_list_of_integers_without_values_is_the_default() {
        assert_eq!(parse(&["--curves="]).unwrap().ignored, []);
        assert_eq!(parse(&["--curves=0"]).unwrap().ignored, [("curves", "no curves")]);
    }

    #[test]
    fn flags_of_old_versions_take_any_value() {
        assert_eq!(parse(&["--force=always", "--force"]).unwrap().ignored, [("force", "nothing")]);
    }

    #[test]
    fn the_version_is_shown_raw_or_is_the_one_that_is_reported() {
        let own = pintle_server::version(EffectiveVersion::default());
        let own = own.str_at(&["gitVersion"]);
        for (value, expect) in [("--version", "true"), ("--version=raw", "raw"), ("--version=false", "false")] {
            assert_eq!(parse(&[value]).unwrap().value("version"), Some(expect));
        }
        assert_eq!(parse(&[&format!("--version={own}")]).unwrap().value("version"), Some("false"));
        let (core, _) = own.split_once('+').unwrap();
        for (version, expect) in [
            ("v1.2.3", format!("version \"v1.2.3\" must match major/minor/patch of default version \"{own}\"")),
            ("v1.2", "illegal version string \"v1.2\"".to_owned()),
            ("vx", "could not parse \"vx\" as version".to_owned()),
            (&format!("{core}+mine"), format!("the version that is reported cannot be set; it is {own}")),
        ] {
            let expect = format!("invalid argument \"{version}\" for \"--version\" flag: {expect}");
            assert_eq!(parse(&[&format!("--version={version}")]).unwrap_err(), expect);
        }
    }

    #[test]
    fn empty_values_are_no_values() {
        let values = parse(&["--name=", "--name=a", "--secure-port=1"]).unwrap();
        assert_eq!(values.list("name"), ["a"]);
        let values = parse(&["--name="]).unwrap();
        assert!(values.is_given("name") && values.list("name").is_empty());
        assert_eq!(values.to_arguments(&[]), [""; 0]);
        // The parser of pairs refuses an empty one.
        assert_eq!(parse(&["--claim="]).unwrap().to_arguments(&[]), ["--claim="]);
    }

    #[test]
    fn flags_without_effect_are_reported_unless_they_have_the_default() {
        let values = parse(&["--profiling", "--ttl=60m", "--encryption="]).unwrap();
        assert_eq!(values.ignored, []);
        let values = parse(&["--profiling=false", "--ttl=1s", "--ttl=2s"]).unwrap();
        assert_eq!(values.ignored, [("profiling", "there is no profiling"), ("ttl", "no cache")]);
    }

    #[test]
    fn errors_have_the_texts_of_the_original_program() {
        for (command_line, expect) in [
            (vec!["--foo=1"], "unknown flag: --foo"),
            (vec!["-x"], "unknown shorthand flag: 'x' in -x"),
            (vec!["--secure-port"], "flag needs an argument: --secure-port"),
            (vec!["--=x"], "bad flag syntax: --=x"),
            (
                vec!["--secure-port=x"],
                "invalid argument \"x\" for \"--secure-port\" flag: strconv.ParseInt: parsing \"x\": invalid syntax",
            ),
            (
                vec!["--profiling=maybe"],
                "invalid argument \"maybe\" for \"--profiling\" flag: strconv.ParseBool: parsing \"maybe\": invalid syntax",
            ),
            (vec!["a", "--", "--b"], "kube-apiserver does not take any arguments, got [\"a\" \"--b\"]"),
            (vec!["--encryption=f"], "--encryption is not supported: nothing is encrypted"),
        ] {
            assert_eq!(parse(&command_line).unwrap_err(), expect, "{command_line:?}");
        }
    }

    #[test]
    fn help_shows_each_flag_on_a_line_of_its_section() {
        let help = FlagTable::from_tsv(TABLE, Minor::DEFAULT).help();
        assert!(
            help.contains("\nGeneric flags:\n\n      --secure-port int          The port. (default 6443)\n"),
            "{help}"
        );
        assert!(
            help.contains("      --profiling                Profiling. No effect here. (default true)\n"),
            "{help}"
        );
        assert!(help.contains("\nOther flags:\n\n      --name strings"), "{help}");
    }
}

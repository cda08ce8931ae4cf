//! Validation by rules that are data: the tags of upstream's types (upstream: declarative validation), and rules in
//! `data/rules.txt` that upstream has as code. `docs/design/validation-rules.md` describes the format. Upstream
//! validates objects at the version of the request with its tags.

mod arguments;
mod formats;
mod functions;
mod of_kind;
mod program;
mod run;

use pintle_catalog::rules::IMPORTED;
use pintle_gates::{Change, Gates};
use pintle_value::{Errors, FieldPath, Value};
use pintle_versions::{Minor, PerVersion};

pub(crate) use self::of_kind::of_kind;
use self::program::{Compiler, Program, Shape};
use self::run::{Pair, Run};

/// The rules of types that upstream validates by code.
const OWN: &str = include_str!("../../data/rules.txt");

/// The rules of a type in all versions. They are compiled when they are first applied in a version.
pub(crate) struct Rules {
    package: &'static str,
    name: &'static str,
    text: &'static str,
    /// Whether the rules are those of tags. Then values that an update does not change are valid.
    is_imported: bool,
    programs: PerVersion<Program>,
}

impl Rules {
    /// The rules of a type of a package that a strategy enforces. They have no errors in versions in which declarative
    /// validation runs for every kind.
    pub(crate) const fn enforced(package: &'static str, name: &'static str) -> Self {
        Self { package, name, text: IMPORTED, is_imported: true, programs: PerVersion::new() }
    }

    /// The rules in `data/rules.txt` for a type of a package. All values are validated, as upstream's code does.
    pub(crate) const fn own(package: &'static str, name: &'static str) -> Self {
        Self { package, name, text: OWN, is_imported: false, programs: PerVersion::new() }
    }

    /// Validates a new object, or an update of an old one. The options are the feature gates.
    pub(crate) fn validate(&self, gates: &Gates, new: &Value, old: Option<&Value>) -> Errors {
        self.validate_with(gates, &|option| gates.is_enabled_by_name(option), new, old)
    }

    /// Validates with other options, by the rules of the server's version.
    pub(crate) fn validate_with(
        &self,
        gates: &Gates,
        has_option: &dyn Fn(&str) -> bool,
        new: &Value,
        old: Option<&Value>,
    ) -> Errors {
        let mut errors = Errors::new();
        if self.is_imported && gates.has(Change::DECLARATIVE_VALIDATION_FOR_EVERY_KIND) {
            return errors;
        }
        let conditions = Conditions { has_option, ratchets: self.is_imported, with_beta: true };
        run(self.program(gates.version().binary()), &mut errors, conditions, &FieldPath::root(), new, old);
        errors
    }

    /// Adds the errors of a part of an object, by rules that are the same in all versions.
    pub(crate) fn validate_part(&self, errors: &mut Errors, part: &Value, path: &FieldPath<'_>) {
        let conditions = Conditions { has_option: &|_| false, ratchets: self.is_imported, with_beta: true };
        run(self.program(Minor::NEWEST), errors, conditions, path, part, None);
    }

    fn program(&self, minor: Minor) -> &Program {
        #[expect(clippy::expect_used, reason = "the data files are compiled in, and a test compiles all rules")]
        self.programs.get_or_init(minor, |minor| self.compile(minor).expect("valid rules"))
    }

    fn compile(&self, minor: Minor) -> Result<Program, String> {
        let program = Compiler::new(self.text, minor, false).compile(self.package, self.name)?;
        if program.types.is_empty() { Err(format!("no type {}", self.name)) } else { Ok(program) }
    }
}

/// What decides which rules of a program apply.
struct Conditions<'c> {
    has_option: &'c dyn Fn(&str) -> bool,
    ratchets: bool,
    with_beta: bool,
}

/// Adds the errors of an object at a path, or of an update of an old one.
fn run(
    program: &Program,
    errors: &mut Errors,
    conditions: Conditions<'_>,
    path: &FieldPath<'_>,
    new: &Value,
    old: Option<&Value>,
) {
    let Conditions { has_option, ratchets, with_beta } = conditions;
    let run = Run { program, has_option, is_update: old.is_some(), ratchets, with_beta };
    let pair = Pair { shape: Shape::Struct, new: Some(new), old, has_old_owner: old.is_some() };
    run.validate(0, pair, path, errors);
}

#[cfg(test)]
mod tests;

//! Validation by rules that are data: the tags of upstream's types (upstream: declarative validation), and rules in
//! `data/rules.txt` that upstream has as code. `docs/design/validation-rules.md` describes the format. Upstream
//! validates objects at the version of the request with its tags.

mod arguments;
mod formats;
mod functions;
mod program;
mod run;

use std::sync::OnceLock;

use pintle_catalog::rules::{IMPORTED, parse_package};
use pintle_gates::Gates;
use pintle_value::{Errors, FieldPath, Value};

use self::program::{Compiler, Program, Shape};
use self::run::{Pair, Run};

/// The rules of types that upstream validates by code.
const OWN: &str = include_str!("../../data/rules.txt");

/// The rules of a type. They are compiled when they are first applied.
pub(crate) struct Rules {
    package: &'static str,
    name: &'static str,
    text: &'static str,
    /// Whether values that an update does not change are valid.
    ratchets: bool,
    program: OnceLock<Program>,
}

impl Rules {
    /// The rules that upstream enforces for a type of a package.
    pub(crate) const fn enforced(package: &'static str, name: &'static str) -> Self {
        Self { package, name, text: IMPORTED, ratchets: true, program: OnceLock::new() }
    }

    /// The rules in `data/rules.txt` for a type of a package. All values are validated, as upstream's code does.
    pub(crate) const fn own(package: &'static str, name: &'static str) -> Self {
        Self { package, name, text: OWN, ratchets: false, program: OnceLock::new() }
    }

    /// Validates a new object, or an update of an old one. The options are the feature gates.
    pub(crate) fn validate(&self, gates: &Gates, new: &Value, old: Option<&Value>) -> Errors {
        self.validate_with(&|option| gates.is_enabled_by_name(option), new, old)
    }

    /// Validates with other options.
    pub(crate) fn validate_with(&self, has_option: &dyn Fn(&str) -> bool, new: &Value, old: Option<&Value>) -> Errors {
        let mut errors = Errors::new();
        self.run(&mut errors, has_option, &FieldPath::root(), new, old);
        errors
    }

    /// Adds the errors of a part of an object.
    pub(crate) fn validate_part(&self, errors: &mut Errors, part: &Value, path: &FieldPath<'_>) {
        self.run(errors, &|_| false, path, part, None);
    }

    fn run(
        &self,
        errors: &mut Errors,
        has_option: &dyn Fn(&str) -> bool,
        path: &FieldPath<'_>,
        new: &Value,
        old: Option<&Value>,
    ) {
        let run = Run { program: self.program(), has_option, is_update: old.is_some(), ratchets: self.ratchets };
        let pair = Pair { shape: Shape::Struct, new: Some(new), old, has_old_owner: old.is_some() };
        run.validate(0, pair, path, errors);
    }

    fn program(&self) -> &Program {
        #[expect(clippy::expect_used, reason = "the data files are compiled in, and a test compiles all rules")]
        self.program.get_or_init(|| self.compile().expect("valid rules"))
    }

    fn compile(&self) -> Result<Program, String> {
        let package = parse_package(self.text, self.package).map_err(|error| error.to_string())?;
        Compiler::new(package.into_iter().collect(), false).compile(self.name)
    }
}

#[cfg(test)]
mod tests;

//! Declarative validation of kinds: the rules of the tags of their types run for every write.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use pintle_catalog::rules::IMPORTED;
use pintle_gates::{Change, Gates};
use pintle_registry::{DeclarativeValidation, DeclarativeWrite};
use pintle_schema::Type;
use pintle_value::{Errors, FieldPath};
use pintle_versions::{Minor, PerVersion};

use super::program::{Compiler, Program};
use super::{Conditions, run};

/// The rules of all types, by the names of the types (`core/v1.Pod`). They are compiled when a type is first written.
static ALL: LazyLock<HashMap<String, Arc<KindRules>>> = LazyLock::new(|| {
    let mut package = "";
    let mut all = HashMap::new();
    for line in IMPORTED.lines() {
        let mut words = line.split(' ');
        match (words.next(), words.next()) {
            (Some("package"), Some(name)) => package = name,
            (Some("struct"), Some(name)) => {
                let rules = KindRules { package, name, programs: PerVersion::new() };
                all.insert(format!("{package}.{name}"), Arc::new(rules));
            }
            _ => {}
        }
    }
    all
});

/// The rules of a type in all versions.
struct KindRules {
    package: &'static str,
    name: &'static str,
    programs: PerVersion<Program>,
}

/// Returns the declarative validation of a kind with this type. `None` if there are no tags, or if strategies call it.
pub(crate) fn of_kind(ty: &Type, gates: &Gates) -> Option<Arc<dyn DeclarativeValidation>> {
    let Type::Struct(ty) = ty else { return None };
    let rules = ALL.get(&*ty.name).filter(|_| gates.has(Change::DECLARATIVE_VALIDATION_FOR_EVERY_KIND))?;
    Some(Arc::clone(rules) as Arc<dyn DeclarativeValidation>)
}

impl KindRules {
    fn program(&self, minor: Minor) -> &Program {
        #[expect(clippy::expect_used, reason = "the data file is compiled in, and a test compiles all rules")]
        self.programs.get_or_init(minor, |minor| {
            Compiler::new(IMPORTED, minor, false).compile(self.package, self.name).expect("valid rules")
        })
    }
}

impl DeclarativeValidation for KindRules {
    fn applies(&self, gates: &Gates, subresource: &str) -> bool {
        let program = self.program(gates.version().binary());
        let supports = |path: &&str| path.strip_prefix('/') == Some(subresource);
        !program.is_empty() && (subresource.is_empty() || program.subresources.iter().any(|path| supports(&path)))
    }

    fn validate(&self, write: &DeclarativeWrite<'_>) -> Errors {
        let mut errors = Errors::new();
        let program = self.program(write.gates.version().binary());
        let with_beta = write.gates.is_enabled(pintle_gates::Feature::DECLARATIVE_VALIDATION_BETA);
        let conditions = Conditions { has_option: write.has_option, ratchets: true, with_beta };
        run(program, &mut errors, conditions, &FieldPath::root(), write.object, write.old);
        errors
    }
}

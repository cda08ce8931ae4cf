//! The operations of an environment on expressions: parsing, checking, planning and cost estimation.

use pintle_versions::EffectiveVersion;

use crate::check::{CheckedExpr, check, validate};
use crate::cost::{CostEstimate, SizeEstimator};
use crate::cost_estimator::estimate_cost;
use crate::env::Env;
use crate::library::QUOTED_FIELDS;
use crate::program::{CompileError, Program};
use crate::source::{Issues, Source};
use crate::syntax::{Expr, ParserLimits, parse};

/// Parses an expression without macros: all calls are left as they are.
///
/// # Errors
/// The text is not an expression. Returns the message of the first error.
pub fn parse_without_macros(text: &str, version: EffectiveVersion) -> Result<Expr, String> {
    let has_quoted_fields = QUOTED_FIELDS.contains(version.binary());
    let limits = ParserLimits { has_quoted_fields, ..ParserLimits::default() };
    let parsed = parse(&Source::new(text), &[], limits);
    parsed.map(|parsed| parsed.expr).map_err(|issues| {
        issues.all().first().map_or_else(|| "invalid expression".to_owned(), |issue| issue.message.clone())
    })
}

impl Env {
    /// Parses and type-checks an expression.
    pub fn check(&self, text: &str) -> Result<CheckedExpr, Box<Issues>> {
        let source = Source::new(text);
        let parsed = parse(&source, self.macros(), self.parser_limits())?;
        let checked = check(self, source, parsed)?;
        if self.runs_validators() {
            validate(&checked)?;
        }
        Ok(checked)
    }

    /// Compiles an expression to a program.
    pub fn compile(&self, text: &str) -> Result<Program, CompileError> {
        let checked = self.check(text).map_err(CompileError::Issues)?;
        self.program(&checked)
    }

    /// Creates the program of an expression that this environment has checked.
    pub fn program(&self, checked: &CheckedExpr) -> Result<Program, CompileError> {
        Program::new(self, checked)
    }

    /// Estimates the minimum and maximum cost of evaluating a checked expression, given the sizes of the variables.
    #[must_use]
    pub fn estimate_cost(&self, checked: &CheckedExpr, sizes: &dyn SizeEstimator) -> CostEstimate {
        estimate_cost(self, checked, sizes)
    }
}

//! A compiled policy and the evaluation of its expressions (upstream: `policy/mutating/compilation.go`).

use std::sync::OnceLock;

use pintle_admission_cel::{
    Declarations, EvaluationError, EvaluationInput, ExpressionKind, Expressions, MatchConditions, POLICY_BUDGET,
    UsedValues, apply_configuration, json_patch,
};
use pintle_value::Value;

use crate::plugins::policy::definition::{Definition, StoredPolicy, compiler};

/// A stored MutatingAdmissionPolicy.
#[derive(Debug)]
pub(crate) struct Policy {
    pub(super) definition: Definition,
    /// True if the policy runs again when the object has changed after its first run.
    pub(super) is_reinvocable: bool,
    spec: Value,
    /// The programs, compiled for the first request that matches.
    programs: OnceLock<Programs>,
}

/// The compiled expressions of a policy.
#[derive(Debug)]
struct Programs {
    conditions: MatchConditions,
    mutations: Vec<(MutationKind, Expressions)>,
    used: UsedValues,
}

/// The type of the result of a mutation's expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MutationKind {
    /// A configuration, which is merged into the object.
    ApplyConfiguration,
    /// A JSON patch.
    JsonPatch,
}

impl StoredPolicy for Policy {
    fn of(object: &Value) -> Self {
        let spec = object["spec"].clone();
        Self {
            definition: Definition::of(object),
            is_reinvocable: spec.str_at(&["reinvocationPolicy"]) == "IfNeeded",
            spec,
            programs: OnceLock::new(),
        }
    }

    fn definition(&self) -> &Definition {
        &self.definition
    }
}

impl Policy {
    fn programs(&self) -> &Programs {
        self.programs.get_or_init(|| Programs::compile(&self.spec))
    }

    /// The values that the expressions use.
    pub(super) fn used_values(&self) -> UsedValues {
        self.programs().used
    }

    /// How many mutations the policy has.
    pub(super) fn mutation_count(&self) -> usize {
        self.programs().mutations.len()
    }

    /// Evaluates the match conditions.
    ///
    /// # Errors
    /// The conditions fail, and failures are not ignored.
    pub(super) fn matches(&self, input: &EvaluationInput<'_>) -> Result<bool, String> {
        self.definition.matches(&self.programs().conditions, input)
    }

    /// Evaluates the expression of a mutation.
    ///
    /// # Errors
    /// The evaluation fails, or its result has no form in JSON.
    pub(super) fn evaluate(&self, index: usize, input: &EvaluationInput<'_>) -> Result<(MutationKind, Value), String> {
        let Some((kind, expressions)) = self.programs().mutations.get(index) else {
            return Err("policy evaluator is nil".to_owned());
        };
        let mut made = Ok(Value::Null);
        let evaluated = expressions.evaluate(input, POLICY_BUDGET, |_, result| {
            made = match result {
                Ok(value) => match kind {
                    MutationKind::ApplyConfiguration => apply_configuration(value),
                    MutationKind::JsonPatch => json_patch(value),
                },
                // Upstream does not evaluate such an expression, so its error has no prefix.
                Err(EvaluationError::Compilation(error)) => Err(error.to_string()),
                Err(error) => Err(error.to_string()),
            };
        });
        evaluated.map_err(|error| error.to_string())?;
        made.map(|made| (*kind, made))
    }
}

impl Programs {
    fn compile(spec: &Value) -> Self {
        let (compiler, declarations) = compiler(spec);
        let conditions = MatchConditions::compile(spec.items_at(&["matchConditions"]), &compiler, declarations);
        let with_patches = Declarations { patches: true, ..declarations };
        let mutation = |mutation: &Value| {
            let (kind, field, expression) = match mutation.str_at(&["patchType"]) {
                "JSONPatch" => (MutationKind::JsonPatch, "jsonPatch", ExpressionKind::JsonPatch),
                _ => (MutationKind::ApplyConfiguration, "applyConfiguration", ExpressionKind::ApplyConfiguration),
            };
            let text = mutation.str_at(&[field, "expression"]);
            (kind, Expressions::new(&compiler, vec![Some(compiler.compile(text, expression, with_patches))]))
        };
        let mutations: Vec<(MutationKind, Expressions)> = spec.items_at(&["mutations"]).iter().map(mutation).collect();
        let used = mutations.iter().map(|(_, expressions)| expressions.used_values());
        let used = used.fold(conditions.used_values(), UsedValues::or);
        Self { conditions, mutations, used }
    }
}

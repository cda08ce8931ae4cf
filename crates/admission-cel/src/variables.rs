//! The variables of a policy: each is evaluated when an expression uses it first, and its value is kept for the other
//! expressions of the same evaluation (upstream: `compositionContext`, `apiserver/pkg/cel/lazy`).

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use pintle_cel::{Budget, EvalError, EvalResult, LazyMap, Program, Value};
use pintle_value::Str;

use crate::compiler::{CompilationError, UsedValues};

/// A variable that has been compiled, or could not be.
#[derive(Clone, Debug)]
pub(crate) struct CompiledVariable {
    pub(crate) name: Str,
    pub(crate) program: Result<Arc<Program>, CompilationError>,
    pub(crate) used: UsedValues,
}

/// The value of a variable, once it has been evaluated.
#[derive(Default)]
struct VariableSlot<'a> {
    value: OnceLock<EvalResult<Value<'a>>>,
    is_evaluating: AtomicBool,
}

/// The variables of one evaluation.
pub(crate) struct Variables<'a> {
    compiled: &'a [CompiledVariable],
    /// The values that the expressions are evaluated with, these variables among them.
    bindings: OnceLock<&'a [Value<'a>]>,
    slots: Vec<VariableSlot<'a>>,
    cost: AtomicU64,
}

impl<'a> Variables<'a> {
    pub(crate) fn new(compiled: &'a [CompiledVariable]) -> Self {
        let slots = compiled.iter().map(|_| VariableSlot::default()).collect();
        Self { compiled, bindings: OnceLock::new(), slots, cost: AtomicU64::new(0) }
    }

    /// Sets the values that the variables are evaluated with.
    pub(crate) fn bind(&self, bindings: &'a [Value<'a>]) {
        // Bound once, after the values have been collected.
        let _ = self.bindings.set(bindings);
    }

    /// The cost of the variables that were evaluated since this was asked last.
    pub(crate) fn take_cost(&self) -> u64 {
        self.cost.swap(0, Ordering::Relaxed)
    }

    fn evaluate(&self, variable: &'a CompiledVariable) -> EvalResult<Value<'a>> {
        let name = &variable.name;
        let program = variable
            .program
            .as_ref()
            .map_err(|error| EvalError::new(format!("composited variable {name:?} fails to compile: {error}")))?;
        let bindings = self.bindings.get().copied().unwrap_or_default();
        let evaluation = program.evaluate(bindings, Budget::limit(Budget::PER_CALL));
        self.cost.fetch_add(evaluation.cost, Ordering::Relaxed);
        evaluation
            .result
            .map_err(|error| EvalError::new(format!("composited variable {name:?} fails to evaluate: {error}")))
    }
}

impl fmt::Debug for Variables<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.compiled.iter().map(|variable| &variable.name)).finish()
    }
}

impl LazyMap for Variables<'_> {
    fn field(&self, name: &str) -> Option<EvalResult<Value<'_>>> {
        let at = self.compiled.iter().position(|variable| variable.name == name)?;
        let (variable, slot) = (&self.compiled[at], &self.slots[at]);
        if let Some(value) = slot.value.get() {
            return Some(value.clone());
        }
        // A variable uses earlier ones only. But a later one may have the same name.
        if slot.is_evaluating.swap(true, Ordering::Relaxed) {
            let name = &variable.name;
            return Some(Err(EvalError::new(format!("composited variable {name:?} refers to itself"))));
        }
        let value = self.evaluate(variable);
        Some(slot.value.get_or_init(|| value).clone())
    }
}

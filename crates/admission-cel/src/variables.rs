//! The variables of a policy. A variable is evaluated when an expression first uses it. Its value is kept for the other
//! expressions of the same evaluation (upstream: `compositionContext`, `apiserver/pkg/cel/lazy`).

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use pintle_budget::KeptMemory;
use pintle_cel::{EvalError, EvalResult, LazyMap, MAX_EVALUATION_MEMORY, PER_CALL_COST_LIMIT, Program, Value};
use pintle_value::Str;

use crate::compiler::{CompilationError, UsedValues};

/// The maximum size of the stack for variables that are evaluated for each other, in bytes. A thread of the server has
/// a stack of 2 MiB.
const MAX_STACK: usize = 384 * 1024;

/// The approximate address of the end of the stack now.
#[inline(never)]
fn stack_address() -> usize {
    let here = 0_u8;
    std::ptr::from_ref(&here).addr()
}

/// A variable with its compiled expression, or with the compilation error.
#[derive(Clone, Debug)]
pub(crate) struct CompiledVariable {
    pub(crate) name: Str,
    pub(crate) program: Result<Arc<Program>, CompilationError>,
    pub(crate) used: UsedValues,
}

/// The variables of a policy, with different names.
#[derive(Clone, Debug, Default)]
pub(crate) struct CompiledVariables {
    all: Vec<CompiledVariable>,
    by_name: HashMap<Str, usize>,
}

impl CompiledVariables {
    /// Adds a variable. It replaces a variable with the same name.
    pub(crate) fn add(&mut self, variable: CompiledVariable) {
        match self.by_name.get(&variable.name) {
            Some(at) => self.all[*at] = variable,
            None => {
                self.by_name.insert(variable.name.clone(), self.all.len());
                self.all.push(variable);
            }
        }
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, CompiledVariable> {
        self.all.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }
}

/// The value of a variable, once it has been evaluated.
#[derive(Default)]
struct VariableSlot<'a> {
    value: OnceLock<EvalResult<Value<'a>>>,
    is_evaluating: AtomicBool,
}

/// The variables of one evaluation.
pub(crate) struct Variables<'a> {
    compiled: &'a CompiledVariables,
    /// The values that the expressions are evaluated with, these variables among them.
    bindings: OnceLock<&'a [Value<'a>]>,
    slots: Vec<VariableSlot<'a>>,
    /// The memory that the values hold.
    kept: KeptMemory,
    cost: AtomicU64,
    /// The maximum cost of the variables until the cost is taken.
    limit: AtomicU64,
    /// The end of the stack when the evaluation begins.
    stack_start: usize,
}

impl<'a> Variables<'a> {
    pub(crate) fn new(compiled: &'a CompiledVariables) -> Self {
        let slots = compiled.iter().map(|_| VariableSlot::default()).collect();
        Self {
            compiled,
            bindings: OnceLock::new(),
            slots,
            kept: KeptMemory::default(),
            cost: AtomicU64::new(0),
            limit: AtomicU64::new(0),
            stack_start: stack_address(),
        }
    }

    /// Sets the values that the variables are evaluated with.
    pub(crate) fn bind(&self, bindings: &'a [Value<'a>]) {
        // The values are bound once, after they have been collected.
        let _ = self.bindings.set(bindings);
    }

    /// Sets the rest of the budget. Once the variables have cost more, no further variables are evaluated.
    pub(crate) fn allow(&self, remaining: i64) {
        self.limit.store(u64::try_from(remaining).unwrap_or(0), Ordering::Relaxed);
    }

    /// The cost of the variables that were evaluated since the last call.
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
        let fails = |why: &str| EvalError::new(format!("composited variable {name:?} fails to evaluate: {why}"));
        if self.cost.load(Ordering::Relaxed) > self.limit.load(Ordering::Relaxed) {
            return Err(fails("the cost budget is exceeded"));
        }
        if stack_address().abs_diff(self.stack_start) > MAX_STACK {
            return Err(fails("variables use each other too deeply"));
        }
        let evaluation = program.evaluate(bindings, PER_CALL_COST_LIMIT);
        if let Ok(value) = &evaluation.result {
            self.kept.add(value.held_bytes(MAX_EVALUATION_MEMORY));
        }
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
        let at = *self.compiled.by_name.get(name)?;
        let (variable, slot) = (self.compiled.all.get(at)?, self.slots.get(at)?);
        if let Some(value) = slot.value.get() {
            return Some(value.clone());
        }
        // A variable uses earlier variables only. But a later one may have the same name.
        if slot.is_evaluating.swap(true, Ordering::Relaxed) {
            let name = &variable.name;
            return Some(Err(EvalError::new(format!("composited variable {name:?} refers to itself"))));
        }
        let value = self.evaluate(variable);
        Some(slot.value.get_or_init(|| value).clone())
    }
}

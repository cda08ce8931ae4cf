//! Test helpers of all kinds.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Waker};

use pintle_gates::Gates;
use pintle_registry::{Strategy, StrategyContext};
use pintle_value::{Errors, Value};
use pintle_versions::{EffectiveVersion, Minor};

/// Parses an object from JSON.
pub(crate) fn object(json: &str) -> Value {
    serde_json::from_str(json).expect("the test's JSON is well formed")
}

/// Runs a future that is always ready.
pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut TaskContext::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("the future waits"),
    }
}

/// Returns the messages of errors, in order.
pub(crate) fn messages(errors: &Errors) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

/// Returns a request context of an administrator at a fixed time.
pub(crate) fn context() -> StrategyContext {
    StrategyContext {
        now: pintle_value::time::Time { seconds: 1_700_000_000, nanos: 0 },
        user: "admin".into(),
        uid: "".into(),
        groups: vec!["system:masters".into()],
        extra: Vec::new(),
        dry_run: false,
        gates: Default::default(),
        allow_privileged: true,
    }
}

/// Returns the context of a server of another version.
pub(crate) fn context_in(minor: Minor) -> StrategyContext {
    StrategyContext { gates: Arc::new(Gates::of(EffectiveVersion::of(minor))), ..context() }
}

/// Returns the same context with other states of feature gates.
pub(crate) fn gated_context(gates: &[(&str, bool)]) -> StrategyContext {
    let overrides = gates.iter().map(|(name, enabled)| ((*name).to_owned(), *enabled)).collect();
    let (gates, _) = Gates::with_overrides(&overrides).expect("settable feature gates");
    StrategyContext { gates: Arc::new(gates), ..context() }
}

/// Returns the same context on a server of another version, with other states of feature gates.
pub(crate) fn context_of(minor: u8, gates: &[(&str, bool)]) -> StrategyContext {
    let overrides = gates.iter().map(|(name, enabled)| ((*name).to_owned(), *enabled)).collect();
    let defaults = Gates::of(EffectiveVersion::of(Minor::new(minor)));
    let (gates, _) = defaults.overridden(&overrides).expect("settable feature gates");
    StrategyContext { gates: Arc::new(gates), ..context() }
}

/// Compares the errors of validation with `expect`. Validates a new object after defaulting, or an update from `old`.
#[track_caller]
pub(crate) fn check_validation(rules: &dyn Strategy, new: &str, old: Option<&str>, expect: &[&str]) {
    check_validation_in(&context(), rules, new, old, expect);
}

/// Does the same in another context.
#[track_caller]
pub(crate) fn check_validation_in(
    context: &StrategyContext,
    rules: &dyn Strategy,
    new: &str,
    old: Option<&str>,
    expect: &[&str],
) {
    let mut new = object(new);
    rules.defaults(&mut new);
    let errors = match old {
        Some(old) => rules.validate_update(context, &new, &object(old)),
        None => rules.validate(context, &new),
    };
    assert_eq!(messages(&errors), expect);
}

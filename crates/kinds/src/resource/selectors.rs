//! The CEL selectors of devices: their environment, and the limits of their length and cost (upstream:
//! `k8s.io/dynamic-resource-allocation/cel`). Only schedulers evaluate them.
//!
//! Upstream compiles stored expressions in a more permissive environment. In 1.36 both environments have the same
//! libraries, so there is only one here.

use std::sync::{Arc, LazyLock};

use pintle_admission_cel::result_type_name;
use pintle_cel::{
    CallEstimate, CompileError, CostEstimate, Env, EvalError, EvalResult, Function, Library, Overload, SizeEstimate,
    SizeEstimator, Type, TypeProvider, Value as CelValue, equal, library,
};
use pintle_gates::{Feature, Gates};
use pintle_value::{Errors, FieldError, FieldPath, Str};
use pintle_versions::{EffectiveVersion, Minor};

/// The maximum length of an expression.
const MAX_EXPRESSION: usize = 10 * 1024;
/// The maximum cost of an expression, and of all derived attributes of a claim.
pub(super) const MAX_COST: u64 = 1_000_000;

/// The maximum number of attributes and capacities of a device.
pub(super) const MAX_ATTRIBUTES_AND_CAPACITIES: usize = 32;
/// The maximum number of values of all attributes of a device.
pub(super) const MAX_ATTRIBUTE_VALUES: usize = 48;
/// The maximum length of a text attribute.
pub(super) const MAX_ATTRIBUTE_LENGTH: usize = 64;

/// The type of `device`.
const DEVICE: &str = "kubernetes.DRADevice";
const QUANTITY: &str = "kubernetes.Quantity";

/// The environments of all combinations of features, by [`SelectorFeatures::index`].
static ENVIRONMENTS: LazyLock<[Env; 4]> = LazyLock::new(|| {
    let base = Env::kubernetes_of(EffectiveVersion::of(Minor::DEFAULT)).library(&library::bindings());
    let lists = base.clone().library(&includes());
    [(false, false), (false, true), (true, false), (true, true)].map(|(consumable_capacity, list_attributes)| {
        let base = if list_attributes { &lists } else { &base };
        let device = DeviceType(SelectorFeatures { consumable_capacity, list_attributes });
        base.clone().variable("device", Type::object(DEVICE)).type_provider(Arc::new(device))
    })
});

/// The features that decide which fields and functions selectors can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SelectorFeatures {
    /// `device.allowMultipleAllocations`.
    consumable_capacity: bool,
    /// Attributes that are lists.
    list_attributes: bool,
}

impl SelectorFeatures {
    /// The features of a server with these gates.
    pub(super) fn of(gates: &Gates) -> Self {
        Self {
            consumable_capacity: gates.is_enabled(Feature::DRA_CONSUMABLE_CAPACITY),
            list_attributes: gates.is_enabled(Feature::DRA_LIST_TYPE_ATTRIBUTES),
        }
    }

    fn index(self) -> usize {
        2 * usize::from(self.consumable_capacity) + usize::from(self.list_attributes)
    }

    /// Compiles the expression of a selector and returns its maximum cost.
    fn compile(self, expression: &str) -> Result<u64, SelectorError> {
        self.compile_as(expression, |ty| match ty {
            Type::Bool | Type::Any => Ok(()),
            Type::Dyn if self.list_attributes => Ok(()),
            other => Err(format!("must evaluate to bool or the unknown type, not {}", result_type_name(other))),
        })
    }

    /// Compiles the expression of a derived attribute and returns its maximum cost.
    fn compile_derived_attribute(self, expression: &str) -> Result<u64, SelectorError> {
        self.compile_as(expression, |ty| match ty {
            ty if is_scalar(ty) => Ok(()),
            Type::List(item) if self.list_attributes && is_scalar(item) => Ok(()),
            other => {
                let lists = if self.list_attributes { " or a list of these scalars" } else { "" };
                let scalars = "must evaluate to a primitive scalar (string, integer, boolean, semver)";
                Err(format!("{scalars}{lists}, not {}", result_type_name(other)))
            }
        })
    }

    /// Compiles an expression whose type is allowed, and returns its maximum cost.
    fn compile_as(
        self,
        expression: &str,
        check_type: impl FnOnce(&Type) -> Result<(), String>,
    ) -> Result<u64, SelectorError> {
        let env = &ENVIRONMENTS[self.index()];
        let checked =
            env.check(expression).map_err(|issues| SelectorError::Invalid(format!("compilation failed: {issues}")))?;
        check_type(checked.output_type()).map_err(SelectorError::Invalid)?;
        let instantiated = env.program(&checked).map(drop);
        instantiated
            .map_err(|error: CompileError| SelectorError::Internal(format!("program instantiation failed: {error}")))?;
        Ok(env.estimate_cost(&checked, &DeviceSizes).max)
    }
}

/// Whether a value of the type may be an attribute of a device.
fn is_scalar(ty: &Type) -> bool {
    const SEMVER: &str = "kubernetes.Semver";
    matches!(ty, Type::Bool | Type::Int | Type::String | Type::Any | Type::Dyn) || *ty == Type::object(SEMVER)
}

/// Why an expression is not valid.
#[derive(Debug)]
enum SelectorError {
    /// It is malformed or has a wrong type.
    Invalid(String),
    /// It is valid, but no program can be made of it.
    Internal(String),
}

/// Validates the expression of a selector.
pub(super) fn validate_expression(
    errors: &mut Errors,
    expression: &str,
    features: SelectorFeatures,
    path: &FieldPath<'_>,
) {
    validate_with(errors, expression, path, |expression| features.compile(expression));
}

/// Validates the expression of a derived attribute. Returns its maximum cost.
pub(super) fn validate_derived_attribute(
    errors: &mut Errors,
    expression: &str,
    features: SelectorFeatures,
    path: &FieldPath<'_>,
) -> u64 {
    validate_with(errors, expression, path, |expression| features.compile_derived_attribute(expression))
}

/// Validates an expression. Returns its maximum cost.
fn validate_with(
    errors: &mut Errors,
    expression: &str,
    path: &FieldPath<'_>,
    compile: impl FnOnce(&str) -> Result<u64, SelectorError>,
) -> u64 {
    if expression.len() > MAX_EXPRESSION {
        errors.push(FieldError::too_long(path, MAX_EXPRESSION));
        return 0;
    }
    match compile(expression) {
        Ok(cost) => {
            if cost > MAX_COST {
                errors.forbidden(path, "too complex, exceeds cost limit");
            }
            cost
        }
        Err(SelectorError::Invalid(detail)) => {
            errors.invalid(path, expression, detail);
            0
        }
        Err(SelectorError::Internal(detail)) => {
            errors.push(FieldError::internal(path, detail));
            0
        }
    }
}

/// The fields of `device`.
struct DeviceType(SelectorFeatures);

impl TypeProvider for DeviceType {
    fn has_type(&self, name: &str) -> bool {
        name == DEVICE
    }

    fn field(&self, type_name: &str, field: &str) -> Option<Type> {
        let by_domain = |value: Type| Type::map(Type::String, Type::map(Type::String, value));
        Some(match (type_name, field) {
            (DEVICE, "driver") => Type::String,
            (DEVICE, "attributes") if self.0.list_attributes => by_domain(Type::Dyn),
            (DEVICE, "attributes") => by_domain(Type::Any),
            (DEVICE, "capacity") => by_domain(Type::object(QUANTITY)),
            (DEVICE, "allowMultipleAllocations") if self.0.consumable_capacity => Type::Bool,
            _ => return None,
        })
    }

    fn can_construct(&self, type_name: &str) -> bool {
        type_name == DEVICE
    }
}

/// The sizes of a device and its parts.
struct DeviceSizes;

/// A part of a device whose size is known.
#[derive(Clone, Copy)]
enum DevicePart {
    Device,
    Driver,
    AllowMultipleAllocations,
    /// The attributes or capacities of all domains.
    Domains(PartKind),
    /// The attributes or capacities of one domain.
    Names(PartKind),
    Domain,
    Name,
    Attribute,
    Capacity,
}

/// Attributes or capacities.
#[derive(Clone, Copy)]
enum PartKind {
    Attributes,
    Capacity,
}

impl DevicePart {
    /// The part at a step of a path. Upstream knows the size of an attribute by any name. It knows the size of a
    /// capacity only if the index operator finds the capacity.
    fn step(self, step: &str) -> Option<Self> {
        Some(match (self, step) {
            (Self::Device, "driver") => Self::Driver,
            (Self::Device, "allowMultipleAllocations") => Self::AllowMultipleAllocations,
            (Self::Device, "attributes") => Self::Domains(PartKind::Attributes),
            (Self::Device, "capacity") => Self::Domains(PartKind::Capacity),
            (Self::Domains(kind), "@items" | "@values") => Self::Names(kind),
            (Self::Domains(_), "@keys") => Self::Domain,
            (Self::Names(_), "@keys") => Self::Name,
            (Self::Names(PartKind::Attributes), _) => Self::Attribute,
            (Self::Names(PartKind::Capacity), "@items" | "@values") => Self::Capacity,
            _ => return None,
        })
    }

    fn max_size(self) -> usize {
        match self {
            Self::Driver | Self::Domain => 63,
            Self::Name => 32,
            Self::Domains(_) | Self::Names(_) => MAX_ATTRIBUTES_AND_CAPACITIES,
            Self::Attribute => MAX_ATTRIBUTE_LENGTH.max(MAX_ATTRIBUTE_VALUES),
            Self::AllowMultipleAllocations => 1,
            Self::Device | Self::Capacity => 0,
        }
    }
}

impl SizeEstimator for DeviceSizes {
    fn estimate_size(&self, path: &[Str], _: &Type) -> Option<SizeEstimate> {
        let (root, steps) = path.split_first()?;
        if root != "device" {
            return None;
        }
        let part = steps.iter().try_fold(DevicePart::Device, |part, step| part.step(step))?;
        Some(SizeEstimate { min: 0, max: part.max_size() as u64 })
    }
}

/// The function `includes`, which is `in` for attributes that are lists, and equality for others.
fn includes() -> Library {
    const MAX: u64 = MAX_ATTRIBUTE_VALUES as u64;
    let overload = Overload::member("dra_includes_dyn_dyn", &[Type::Dyn, Type::Dyn], Type::Bool)
        .binding(evaluate_includes)
        .cost_estimator(|call| {
            call.target?;
            Some(CallEstimate::cost(CostEstimate { min: 0, max: MAX }))
        });
    Library { functions: vec![Function::new("includes").overload(overload)], ..Library::default() }
}

fn evaluate_includes<'a>(args: &[CelValue<'a>]) -> EvalResult<CelValue<'a>> {
    let [target, wanted] = args else { return Err(EvalError::no_overload()) };
    let CelValue::List(list) = target else { return Ok(CelValue::Bool(equal(target, wanted))) };
    if list.iter().take(MAX_ATTRIBUTE_VALUES).any(|item| equal(&item, wanted)) {
        return Ok(CelValue::Bool(true));
    }
    if list.len() > MAX_ATTRIBUTE_VALUES {
        return Err(EvalError::new(format!(
            "'includes' function cannot be applied to lists longer than {MAX_ATTRIBUTE_VALUES} values"
        )));
    }
    Ok(CelValue::Bool(false))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::messages;

    /// The answers of upstream about expressions: with the default gates, without `DRAConsumableCapacity`, and with
    /// `DRAListTypeAttributes`. A missing line equals the line before it.
    const RECORDED: &str = include_str!("selectors.txt");

    fn outcome(expression: &str, consumable_capacity: bool, list_attributes: bool) -> String {
        match (SelectorFeatures { consumable_capacity, list_attributes }).compile(expression) {
            Ok(cost) => format!("cost {cost}"),
            Err(SelectorError::Invalid(detail)) => detail.replace('\n', "\\n"),
            Err(SelectorError::Internal(detail)) => format!("internal: {}", detail.replace('\n', "\\n")),
        }
    }

    #[test]
    fn expressions_have_upstreams_costs_and_errors() {
        let mut different = Vec::new();
        let mut count = 0;
        for block in RECORDED.split("\n\n").filter(|block| !block.starts_with('#')) {
            let mut lines = block.trim_end().lines();
            let expression = lines.next().expect("an expression");
            let mut expected = ["", "", ""];
            for line in lines {
                let (which, text) = line.trim_start().split_once(": ").expect("an outcome");
                match which {
                    "default" => expected = [text; 3],
                    "exclusive" => expected[1] = text,
                    "lists" => expected[2] = text,
                    other => panic!("{other}"),
                }
            }
            let found = [(true, false), (false, false), (true, true)].map(|(c, l)| outcome(expression, c, l));
            count += 1;
            for (found, expected) in found.iter().zip(expected) {
                if found != expected {
                    different.push(format!("{expression}\n  found    {found}\n  expected {expected}"));
                }
            }
        }
        assert!(different.is_empty(), "{} of {count}:\n{}", different.len(), different.join("\n"));
    }

    #[test]
    fn expressions_are_limited() {
        let features = SelectorFeatures::of(&Gates::default());
        let check = |expression: &str, expect: &[&str]| {
            let mut errors = Errors::new();
            validate_expression(&mut errors, expression, features, &FieldPath::new("p"));
            assert_eq!(messages(&errors), expect);
        };
        let padded = |length: usize| format!("true{}", " ".repeat(length - 4));
        check(&padded(10_240), &[]);
        check(&padded(10_241), &["p: Too long: may not be more than 10240 bytes"]);
        let nested = |depth: usize| {
            let start: String = (0..depth).map(|i| format!("device.attributes.all(v{i}, ")).collect();
            format!("{start}v0 == v0{}", ")".repeat(depth))
        };
        check(&nested(2), &[]);
        check(&nested(4), &["p: Forbidden: too complex, exceeds cost limit"]);
        check(
            "device.driver",
            &["p: Invalid value: \"device.driver\": must evaluate to bool or the unknown type, not string"],
        );
    }
}

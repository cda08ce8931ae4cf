//! The strategy for ServiceCIDR, a range of cluster IPs (upstream: `pkg/apis/networking/validation`,
//! `pkg/registry/networking/servicecidr`).

use pintle_gates::Feature;
use pintle_registry::{Strategy, StrategyContext, SubresourceStrategy};
use pintle_value::ip::valid_cidr;
use pintle_value::metadata::IMMUTABLE_TEXT;
use pintle_value::{Errors, FieldError, FieldPath, Value};

use super::address::Network;
use crate::generic::{SPEC_AND_METADATA, StatusStrategy, no_validation, reset_status};
use crate::go_json;
use crate::validation::strings_at;

const CIDRS: [&str; 2] = ["spec", "cidrs"];

/// The strategy for ServiceCIDR.
pub(crate) struct ServiceCidrStrategy;

static STATUS: StatusStrategy = StatusStrategy::new(no_validation).preserving(SPEC_AND_METADATA);

impl Strategy for ServiceCidrStrategy {
    fn prepare_write(&self, context: &StrategyContext, object: &mut Value, old: Option<&Value>) {
        if wipes_status(context) {
            reset_status(object, old, Value::object());
        }
    }

    fn validate_write(&self, _: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
        let mut errors = Errors::new();
        let new = strings_at(object, &CIDRS);
        let Some(old) = old.map(|old| strings_at(old, &CIDRS)) else {
            check_ranges(&mut errors, &new);
            return errors;
        };
        let path = FieldPath::new("spec.cidrs");
        match (old.len(), new.len()) {
            (before, now) if before == now => {
                for (i, range) in new.iter().enumerate().filter(|(i, range)| old.get(*i) != Some(*range)) {
                    errors.invalid(&path.index(i), *range, IMMUTABLE_TEXT);
                }
            }
            // A second range of the other family may be added.
            (1, 2) => {
                if new.first() != old.first() {
                    errors.invalid(&path.index(0), new[0], IMMUTABLE_TEXT);
                }
                check_ranges(&mut errors, &new);
            }
            _ => errors.invalid(&path, array(&new), IMMUTABLE_TEXT),
        }
        errors
    }

    fn subresource(&self, name: &str) -> Option<&dyn SubresourceStrategy> {
        (name == "status").then_some(&STATUS as &dyn SubresourceStrategy)
    }
}

/// True if only the subresource writes the status. Upstream let other writes change it by an oversight.
fn wipes_status(context: &StrategyContext) -> bool {
    context.gates.is_enabled(Feature::SERVICE_CIDR_STATUS_FIELD_WIPING)
}

fn array(strings: &[&str]) -> Value {
    strings.iter().map(|s| Value::from(*s)).collect::<Vec<_>>().into()
}

fn check_ranges(errors: &mut Errors, ranges: &[&str]) {
    let path = FieldPath::new("spec.cidrs");
    if ranges.is_empty() {
        errors.required(&path, "at least one CIDR required");
        return;
    }
    if ranges.len() > 2 {
        // Upstream shows the whole spec, an internal struct.
        let mut spec = Value::object();
        spec.set("CIDRs", array(ranges));
        let shown = go_json::print(&spec);
        errors.push(FieldError::invalid(&path, spec, "may only hold up to 2 values").showing(shown));
        return;
    }
    for (i, range) in ranges.iter().enumerate() {
        errors.append(valid_cidr(&path.index(i), range));
    }
    if let [first, second] = ranges
        && let (Some(first), Some(second)) = (Network::parse(first), Network::parse(second))
        && first.family() == second.family()
    {
        let problem = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        errors.invalid(&path, array(ranges), problem);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, gated_context, messages, object};

    fn cidr(ranges: &str) -> Value {
        object(&format!(r#"{{"spec":{{"cidrs":{ranges}}}}}"#))
    }

    #[test]
    fn the_status_is_written_by_its_subresource_only() {
        let given = object(r#"{"spec":{},"status":{"conditions":[{"type":"a"}]}}"#);
        for (enabled, expect) in [(true, "{}"), (false, r#"{"conditions":[{"type":"a"}]}"#)] {
            let context = gated_context(&[("ServiceCIDRStatusFieldWiping", enabled)]);
            let mut new = given.clone();
            ServiceCidrStrategy.prepare_for_create(&context, &mut new);
            assert_eq!(new["status"], object(expect));
            let mut new = given.clone();
            ServiceCidrStrategy.prepare_for_update(&context, &mut new, &object(r#"{"spec":{},"status":{}}"#));
            assert_eq!(new["status"], object(expect));
        }
    }

    #[test]
    fn at_most_one_range_per_family() {
        let check = |ranges: &str, expect: &[&str]| {
            assert_eq!(messages(&ServiceCidrStrategy.validate(&context(), &cidr(ranges))), expect, "{ranges}");
        };
        check(r#"["10.0.0.0/24"]"#, &[]);
        check(r#"["10.0.0.0/24","fd00::/112"]"#, &[]);
        check("[]", &["spec.cidrs: Required value: at least one CIDR required"]);
        check(
            r#"["10.0.0.0/24","10.1.0.0/24"]"#,
            &[
                r#"spec.cidrs: Invalid value: ["10.0.0.0/24","10.1.0.0/24"]: may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"#,
            ],
        );
        check(
            r#"["a","b","c"]"#,
            &[r#"spec.cidrs: Invalid value: {"CIDRs":["a","b","c"]}: may only hold up to 2 values"#],
        );
        check(
            r#"["10.0.0.1/24"]"#,
            &["spec.cidrs[0]: Invalid value: \"10.0.0.1/24\": must not have bits set beyond the prefix length"],
        );
    }

    #[test]
    fn cidrs_are_immutable_except_that_a_second_family_may_be_added() {
        let check = |old: &str, new: &str, expect: &[&str]| {
            assert_eq!(messages(&ServiceCidrStrategy.validate_update(&context(), &cidr(new), &cidr(old))), expect);
        };
        check(r#"["10.0.0.0/24"]"#, r#"["10.0.0.0/24"]"#, &[]);
        check(r#"["10.0.0.0/24"]"#, r#"["10.0.0.0/24","fd00::/112"]"#, &[]);
        check(
            r#"["10.0.0.0/24"]"#,
            r#"["10.1.0.0/24"]"#,
            &["spec.cidrs[0]: Invalid value: \"10.1.0.0/24\": field is immutable"],
        );
        check(
            r#"["10.0.0.0/24","fd00::/112"]"#,
            r#"["10.0.0.0/24"]"#,
            &[r#"spec.cidrs: Invalid value: ["10.0.0.0/24"]: field is immutable"#],
        );
    }

    #[test]
    fn status_and_spec_are_written_separately() {
        let mut new = object(r#"{"spec":{"cidrs":["10.0.0.0/24"]},"status":{"conditions":[]}}"#);
        ServiceCidrStrategy.prepare_for_create(&context(), &mut new);
        assert_eq!(new, object(r#"{"spec":{"cidrs":["10.0.0.0/24"]},"status":{}}"#));
        let old = object(r#"{"metadata":{"labels":{"a":"b"}},"spec":{"cidrs":["10.0.0.0/24"]},"status":{}}"#);
        let mut new =
            object(r#"{"metadata":{"labels":{"c":"d"}},"spec":{},"status":{"conditions":[{"type":"Ready"}]}}"#);
        STATUS.prepare_for_update(&context(), &mut new, &old);
        assert_eq!(
            new,
            object(
                r#"{"metadata":{"labels":{"a":"b"}},"spec":{"cidrs":["10.0.0.0/24"]},"status":{"conditions":[{"type":"Ready"}]}}"#
            )
        );
    }
}

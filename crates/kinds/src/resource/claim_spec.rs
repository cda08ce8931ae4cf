//! The spec of claims, which claim templates have too: requests with their alternatives, constraints, configurations
//! (upstream: `validateDeviceClaim`, and `pkg/api/resourceclaimspec`).

use std::collections::BTreeMap;

use pintle_gates::{Feature, Gates};
use pintle_value::print::{json, quote};
use pintle_value::{Errors, FieldError, FieldPath, Value, names};

use super::collections::{validate_list, validate_set};
use super::derived_attributes::DerivedAttributes;
use super::identifiers::{validate_driver_name, validate_fully_qualified_name};
use super::selectors::{SelectorFeatures, validate_expression};
use crate::validation::{invalid_each, str_field, validate_dns_label, validate_dns_subdomain, validate_one_of};

/// The maximum number of requests. An allocation has as many results at most.
pub(super) const MAX_REQUESTS: usize = 32;
const MAX_CONSTRAINTS: usize = 32;
/// The maximum number of configurations of a claim or class.
pub(super) const MAX_CONFIGS: usize = 32;
const MAX_SELECTORS: usize = 32;
const MAX_ALTERNATIVES: usize = 8;
/// The maximum length of the parameters of a configuration, in bytes.
const MAX_PARAMETERS: usize = 10 * 1024;

const ALLOCATION_MODES: [&str; 2] = ["All", "ExactCount"];
const TOLERATION_OPERATORS: [&str; 2] = ["Equal", "Exists"];
/// The effects of taints, in the order of errors.
pub(super) const TAINT_EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];

const UNKNOWN_REQUEST: &str =
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";

/// Sets the defaults of the requests in a spec: exactly one device.
pub(super) fn set_request_defaults(spec: Option<&mut Value>) {
    for request in requests_mut(spec) {
        if let Some(exactly) = request.get_mut("exactly") {
            set_count_defaults(exactly);
        }
        let alternatives = request.get_mut("firstAvailable").and_then(Value::as_array_mut);
        alternatives.into_iter().flatten().for_each(set_count_defaults);
    }
}

/// Sets the defaults of a request that names one class, or of an alternative.
pub(super) fn set_count_defaults(request: &mut Value) {
    if request.str_at(&["allocationMode"]).is_empty() {
        request.set("allocationMode", "ExactCount");
    }
    if request.str_at(&["allocationMode"]) == "ExactCount" && request.int_at(&["count"]).unwrap_or(0) == 0 {
        request.set("count", 1);
    }
}

fn requests(spec: &Value) -> &[Value] {
    spec.items_at(&["devices", "requests"])
}

fn requests_mut(spec: Option<&mut Value>) -> impl Iterator<Item = &mut Value> {
    let requests = spec.and_then(|spec| spec.at_mut(&["devices", "requests"])).and_then(Value::as_array_mut);
    requests.into_iter().flatten()
}

/// True if a request that names one class, or an alternative of a request, satisfies `is_so`.
fn any_request(spec: &Value, is_so: impl Fn(&Value) -> bool) -> bool {
    let exact = |request: &Value| request.get("exactly").is_some_and(&is_so);
    requests(spec).iter().any(|request| exact(request) || request.items_at(&["firstAvailable"]).iter().any(&is_so))
}

/// True if a spec asks for capacity that devices share.
pub(super) fn uses_consumable_capacity(spec: &Value) -> bool {
    let constraints = spec.items_at(&["devices", "constraints"]);
    constraints.iter().any(|constraint| constraint.get("distinctAttribute").is_some())
        || any_request(spec, |request| request.get("capacity").is_some())
}

/// The names of the requests of a claim, each with the names of its alternatives.
pub(super) struct RequestNames<'v>(BTreeMap<&'v str, Vec<&'v str>>);

impl<'v> RequestNames<'v> {
    /// The requests in a spec.
    pub(super) fn of(spec: &'v Value) -> Self {
        let names = requests(spec).iter().map(|request| {
            let alternatives = request.items_at(&["firstAvailable"]).iter().map(|request| request.str_at(&["name"]));
            (request.str_at(&["name"]), alternatives.collect())
        });
        Self(names.collect())
    }

    /// Validates a reference: `request` or `request/alternative`.
    pub(super) fn validate_reference(&self, errors: &mut Errors, reference: &str, path: &FieldPath<'_>) {
        let segments: Vec<&str> = reference.split('/').collect();
        if segments.len() > 2 {
            errors.invalid(path, reference, UNKNOWN_REQUEST);
            return;
        }
        for segment in &segments {
            validate_dns_label(errors, path, segment);
        }
        let is_known = match *segments {
            [request, alternative] => self.0.get(request).is_some_and(|names| names.contains(&alternative)),
            _ => self.0.contains_key(reference),
        };
        if !is_known {
            errors.invalid(path, reference, UNKNOWN_REQUEST);
        }
    }

    /// Validates the field `requests` of a constraint or configuration.
    pub(super) fn validate_references(&self, errors: &mut Errors, object: &Value, path: &FieldPath<'_>) {
        validate_set(
            errors,
            object.items_at(&["requests"]),
            MAX_REQUESTS,
            &path.child("requests"),
            |errors, name, path| self.validate_reference(errors, name.as_str().unwrap_or_default(), path),
            |name| quote(name.as_str().unwrap_or_default()),
        );
    }
}

/// Returns the name of an object as errors about duplicates print it.
pub(super) fn quoted_name(object: &Value) -> String {
    quote(object.str_at(&["name"]))
}

/// Validates the spec of a claim.
pub(super) fn validate_claim_spec(errors: &mut Errors, gates: &Gates, spec: &Value, path: &FieldPath<'_>) {
    let path = path.child("devices");
    let names = RequestNames::of(spec);
    let features = SelectorFeatures::of(gates);
    let mut derived = DerivedAttributes::of(spec, features);
    validate_set(
        errors,
        requests(spec),
        MAX_REQUESTS,
        &path.child("requests"),
        |errors, request, path| validate_request(errors, request, features, &mut derived, path),
        quoted_name,
    );
    validate_list(
        errors,
        spec.items_at(&["devices", "constraints"]),
        MAX_CONSTRAINTS,
        &path.child("constraints"),
        |errors, constraint, path| {
            names.validate_references(errors, constraint, path);
            validate_constraint(errors, gates, constraint, path);
        },
    );
    validate_list(
        errors,
        spec.items_at(&["devices", "config"]),
        MAX_CONFIGS,
        &path.child("config"),
        |errors, config, path| {
            names.validate_references(errors, config, path);
            validate_configuration(errors, config, false, path);
        },
    );
    derived.validate_cost(errors, &path);
}

fn validate_request(
    errors: &mut Errors,
    request: &Value,
    features: SelectorFeatures,
    derived: &mut DerivedAttributes<'_>,
    path: &FieldPath<'_>,
) {
    let name = request.str_at(&["name"]);
    validate_dns_label(errors, &path.child("name"), name);
    let alternatives = request.items_at(&["firstAvailable"]);
    match (request.get("exactly"), alternatives.is_empty()) {
        (None, true) => errors.required(path, "exactly one of `exactly` or `firstAvailable` is required"),
        (Some(_), false) => {
            let detail = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set";
            errors.invalid(path, Value::Null, detail);
        }
        (Some(exactly), true) => {
            let path = path.child("exactly");
            validate_device_request(errors, exactly, features, &path, |errors| {
                derived.validate(errors, exactly, &[name], &path);
            });
        }
        (None, false) => validate_set(
            errors,
            alternatives,
            MAX_ALTERNATIVES,
            &path.child("firstAvailable"),
            |errors, alternative, path| {
                let own = alternative.str_at(&["name"]);
                validate_dns_label(errors, &path.child("name"), own);
                validate_device_request(errors, alternative, features, path, |errors| {
                    derived.validate(errors, alternative, &[name, &format!("{name}/{own}")], path);
                });
            },
            quoted_name,
        ),
    }
}

/// Validates the common fields of a request that names one class and an alternative.
fn validate_device_request(
    errors: &mut Errors,
    request: &Value,
    features: SelectorFeatures,
    path: &FieldPath<'_>,
    validate_derived_attributes: impl FnOnce(&mut Errors),
) {
    let class = request.str_at(&["deviceClassName"]);
    if class.is_empty() {
        errors.required(&path.child("deviceClassName"), "");
    } else {
        validate_dns_subdomain(errors, &path.child("deviceClassName"), class);
    }
    validate_selectors(errors, request.items_at(&["selectors"]), features, &path.child("selectors"));
    validate_derived_attributes(errors);
    let count = request.int_at(&["count"]).unwrap_or(0);
    let count_path = path.child("count");
    match request.str_at(&["allocationMode"]) {
        "All" if count != 0 => {
            errors.invalid(&count_path, count, "must not be specified when allocationMode is 'All'");
        }
        "ExactCount" if count <= 0 => errors.invalid(&count_path, count, "must be greater than zero"),
        mode => validate_one_of(errors, &path.child("allocationMode"), Some(mode), &ALLOCATION_MODES),
    }
    validate_tolerations(errors, request.items_at(&["tolerations"]), &path.child("tolerations"));
}

/// Validates the selectors of a request or class.
pub(super) fn validate_selectors(
    errors: &mut Errors,
    selectors: &[Value],
    features: SelectorFeatures,
    path: &FieldPath<'_>,
) {
    validate_list(errors, selectors, MAX_SELECTORS, path, |errors, selector, path| {
        let path = path.child("cel");
        match selector.get("cel") {
            None => errors.required(&path, ""),
            Some(cel) => {
                validate_expression(errors, cel.str_at(&["expression"]), features, &path.child("expression"));
            }
        }
    });
}

/// Validates the tolerations of a request or of an allocated device.
pub(super) fn validate_tolerations(errors: &mut Errors, tolerations: &[Value], list: &FieldPath<'_>) {
    for (i, toleration) in tolerations.iter().enumerate() {
        let path = list.index(i);
        let [key, value, effect] = ["key", "value", "effect"].map(|field| toleration.str_at(&[field]));
        if !key.is_empty() {
            invalid_each(errors, &path.child("key"), key, names::label_key(key));
        }
        match toleration.str_at(&["operator"]) {
            "Exists" if !value.is_empty() => {
                errors.invalid(&path.child("value"), value, "must be empty for operator `Exists`");
            }
            "Equal" => invalid_each(errors, &path.child("value"), value, names::label_value(value)),
            "" => errors.required(&path.child("operator"), ""),
            operator => validate_one_of(errors, &path.child("operator"), Some(operator), &TOLERATION_OPERATORS),
        }
        if !effect.is_empty() {
            validate_one_of(errors, &path.child("effect"), Some(effect), &TAINT_EFFECTS);
        }
    }
}

fn validate_constraint(errors: &mut Errors, gates: &Gates, constraint: &Value, path: &FieldPath<'_>) {
    // As upstream, the second attribute is ignored if there is a first one.
    for field in ["matchAttribute", "distinctAttribute"] {
        if let Some(attribute) = str_field(constraint, field) {
            return validate_fully_qualified_name(errors, attribute, &path.child(field));
        }
    }
    if gates.is_enabled(Feature::DRA_CONSUMABLE_CAPACITY) {
        let detail =
            "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set";
        errors.required(path, detail);
    } else {
        errors.required(&path.child("matchAttribute"), "");
    }
}

/// Validates a configuration of a claim, a class or an allocation. `stored` is true if the old object has it too.
pub(super) fn validate_configuration(errors: &mut Errors, config: &Value, stored: bool, path: &FieldPath<'_>) {
    let path = path.child("opaque");
    let Some(opaque) = config.get("opaque") else { return errors.required(&path, "") };
    validate_driver_name(errors, opaque.str_at(&["driver"]), &path.child("driver"));
    let max = if stored { usize::MAX } else { MAX_PARAMETERS };
    validate_raw(errors, opaque.get("parameters"), max, &path.child("parameters"));
}

/// Validates a `RawExtension`, which must be an object. Upstream limits the length that the client has sent, which is
/// unknown here. So the length of the JSON without spaces is limited.
pub(super) fn validate_raw(errors: &mut Errors, raw: Option<&Value>, max: usize, path: &FieldPath<'_>) {
    match raw {
        None | Some(Value::Null) => errors.required(path, ""),
        Some(raw) if max < usize::MAX && json(raw).len() > max => errors.push(FieldError::too_long(path, max)),
        Some(Value::Object(_)) => {}
        Some(_) => errors.invalid(path, "<value omitted>", "must be a valid JSON object"),
    }
}

#[cfg(test)]
mod tests {
    use pintle_registry::StrategyContext;

    use super::*;
    use crate::gated::{Part, drop_disabled};
    use crate::testing::{context, gated_context, messages, object};

    const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and \
         must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
         '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
    const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
         and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
         '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

    /// Compares the errors of a spec with these devices.
    #[track_caller]
    fn check(devices: &str, expect: &[&str]) {
        check_with(&context(), devices, expect);
    }

    #[track_caller]
    fn check_with(context: &StrategyContext, devices: &str, expect: &[&str]) {
        let mut spec = Value::object();
        spec.set("devices", object(devices));
        let mut errors = Errors::new();
        validate_claim_spec(&mut errors, &context.gates, &spec, &FieldPath::new("spec"));
        assert_eq!(messages(&errors), expect);
    }

    #[track_caller]
    fn check_request(fields: &str, expect: &[&str]) {
        let request = format!(
            r#"{{"requests":[{{"name":"r","exactly":{{"deviceClassName":"c","allocationMode":"ExactCount","count":1{fields}}}}}]}}"#
        );
        check(&request, expect);
    }

    fn list(count: usize, item: impl Fn(usize) -> String) -> String {
        format!("[{}]", (0..count).map(item).collect::<Vec<_>>().join(","))
    }

    #[test]
    fn requests_name_a_class_or_alternatives() {
        check("{}", &[]);
        check(
            r#"{"requests":[
                {"name":"a","exactly":{"deviceClassName":"c","allocationMode":"ExactCount","count":1}},
                {"name":"b","firstAvailable":[{"name":"x","deviceClassName":"c","allocationMode":"All"}]}]}"#,
            &[],
        );
        check(
            r#"{"requests":[{"name":"a"},{"name":"b","exactly":{},"firstAvailable":[{}]},{"name":"B_"},
                {"name":"a","exactly":{"allocationMode":"ExactCount","count":1}},
                {"name":"d","exactly":{"deviceClassName":"C_","allocationMode":"All"}}]}"#,
            &[
                "spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required",
                "spec.devices.requests[1]: Invalid value: null: exactly one of `exactly` or `firstAvailable` is required, \
                 but multiple fields are set",
                &format!("spec.devices.requests[2].name: Invalid value: \"B_\": {LABEL}"),
                "spec.devices.requests[2]: Required value: exactly one of `exactly` or `firstAvailable` is required",
                "spec.devices.requests[3].exactly.deviceClassName: Required value",
                &format!("spec.devices.requests[4].exactly.deviceClassName: Invalid value: \"C_\": {SUBDOMAIN}"),
                "spec.devices.requests[3]: Duplicate value: \"a\"",
            ],
        );
        check(
            r#"{"requests":[{"name":"a","firstAvailable":[
                {"name":"x","deviceClassName":"c","allocationMode":"All","count":2},
                {"name":"x","allocationMode":"ExactCount","count":-1},
                {"name":"","deviceClassName":"c","allocationMode":"Some"}]}]}"#,
            &[
                "spec.devices.requests[0].firstAvailable[0].count: Invalid value: 2: must not be specified when \
                 allocationMode is 'All'",
                "spec.devices.requests[0].firstAvailable[1].deviceClassName: Required value",
                "spec.devices.requests[0].firstAvailable[1].count: Invalid value: -1: must be greater than zero",
                &format!("spec.devices.requests[0].firstAvailable[2].name: Invalid value: \"\": {LABEL}"),
                "spec.devices.requests[0].firstAvailable[2].allocationMode: Unsupported value: \"Some\": supported values: \
                 \"All\", \"ExactCount\"",
                "spec.devices.requests[0].firstAvailable[1]: Duplicate value: \"x\"",
            ],
        );
    }

    #[test]
    fn lists_are_limited() {
        let request = |i: usize| {
            format!(r#"{{"name":"r{i}","exactly":{{"deviceClassName":"c","allocationMode":"ExactCount","count":1}}}}"#)
        };
        let constraint = |_| r#"{"matchAttribute":"d/a"}"#.to_owned();
        let config = |_| r#"{"opaque":{"driver":"d","parameters":{}}}"#.to_owned();
        let devices = |n: usize| {
            let (requests, constraints, configs) = (list(n, request), list(n, constraint), list(n, config));
            format!(r#"{{"requests":{requests},"constraints":{constraints},"config":{configs}}}"#)
        };
        check(&devices(32), &[]);
        check(
            &devices(33),
            &[
                "spec.devices.requests: Too many: 33: must have at most 32 items",
                "spec.devices.constraints: Too many: 33: must have at most 32 items",
                "spec.devices.config: Too many: 33: must have at most 32 items",
            ],
        );
        let alternative = |i| format!(r#"{{"name":"a{i}","deviceClassName":"c","allocationMode":"All"}}"#);
        check(
            &format!(r#"{{"requests":[{{"name":"r","firstAvailable":{}}}]}}"#, list(9, alternative)),
            &["spec.devices.requests[0].firstAvailable: Too many: 9: must have at most 8 items"],
        );
        let selectors = list(33, |_| r#"{"cel":{"expression":"true"}}"#.to_owned());
        check_request(
            &format!(r#","selectors":{selectors}"#),
            &["spec.devices.requests[0].exactly.selectors: Too many: 33: must have at most 32 items"],
        );
        let references = list(33, |_| "\"r\"".to_owned());
        check(
            &format!(r#"{{"constraints":[{{"matchAttribute":"d/a","requests":{references}}}]}}"#),
            &["spec.devices.constraints[0].requests: Too many: 33: must have at most 32 items"],
        );
    }

    #[test]
    fn selectors_are_compiled() {
        check_request(r#","selectors":[{"cel":{"expression":"device.driver == \"d\""}}]"#, &[]);
        check_request(
            r#","selectors":[{},{"cel":{"expression":"nothing"}},{"cel":{"expression":"device.driver"}},
                {"cel":{"expression":"device.attributes.all(a, device.attributes.all(b, device.attributes.all(c, device.attributes.all(d, a == b))))"}}]"#,
            &[
                "spec.devices.requests[0].exactly.selectors[0].cel: Required value",
                "spec.devices.requests[0].exactly.selectors[1].cel.expression: Invalid value: \"nothing\": compilation \
                 failed: ERROR: <input>:1:1: undeclared reference to 'nothing' (in container '')\n | nothing\n | ^",
                "spec.devices.requests[0].exactly.selectors[2].cel.expression: Invalid value: \"device.driver\": must \
                 evaluate to bool or the unknown type, not string",
                "spec.devices.requests[0].exactly.selectors[3].cel.expression: Forbidden: too complex, exceeds cost limit",
            ],
        );
    }

    #[test]
    fn what_selectors_can_use_depends_on_features() {
        let devices = |expression: &str| {
            format!(
                r#"{{"requests":[{{"name":"r","exactly":{{"deviceClassName":"c","allocationMode":"All",
                    "selectors":[{{"cel":{{"expression":"{expression}"}}}}]}}}}]}}"#
            )
        };
        let path = "spec.devices.requests[0].exactly.selectors[0].cel.expression";
        let multiple = devices("device.allowMultipleAllocations");
        check(&multiple, &[]);
        check_with(
            &gated_context(&[("DRAConsumableCapacity", false)]),
            &multiple,
            &[&format!(
                "{path}: Invalid value: \"device.allowMultipleAllocations\": compilation failed: ERROR: <input>:1:7: \
                 undefined field 'allowMultipleAllocations'\n | device.allowMultipleAllocations\n | ......^"
            )],
        );
        let includes = devices("device.attributes['d'].a.includes(1)");
        check_with(&gated_context(&[("DRAListTypeAttributes", true)]), &includes, &[]);
        check(
            &includes,
            &[&format!(
                "{path}: Invalid value: \"device.attributes['d'].a.includes(1)\": compilation failed: ERROR: \
                 <input>:1:34: undeclared reference to 'includes' (in container '')\n | \
                 device.attributes['d'].a.includes(1)\n | .................................^"
            )],
        );
    }

    #[test]
    fn tolerations() {
        check_request(
            r#","tolerations":[{"operator":"Exists"},{"key":"a/b","operator":"Equal","value":"c","effect":"NoSchedule"}]"#,
            &[],
        );
        check_request(
            r#","tolerations":[{"operator":"Exists","value":"v"},{"key":"a b","operator":"","effect":"Never"},
                {"operator":"Less","effect":"None"},{"operator":"Equal","value":"-"}]"#,
            &[
                "spec.devices.requests[0].exactly.tolerations[0].value: Invalid value: \"v\": must be empty for operator `Exists`",
                "spec.devices.requests[0].exactly.tolerations[1].key: Invalid value: \"a b\": name part must consist of \
                 alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. \
                 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
                 '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
                "spec.devices.requests[0].exactly.tolerations[1].operator: Required value",
                "spec.devices.requests[0].exactly.tolerations[1].effect: Unsupported value: \"Never\": supported values: \
                 \"NoExecute\", \"NoSchedule\", \"None\"",
                "spec.devices.requests[0].exactly.tolerations[2].operator: Unsupported value: \"Less\": supported values: \
                 \"Equal\", \"Exists\"",
                "spec.devices.requests[0].exactly.tolerations[3].value: Invalid value: \"-\": a valid label must be an empty \
                 string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
                 character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
                 '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
            ],
        );
    }

    #[test]
    fn constraints_and_configurations_refer_to_requests() {
        const REQUESTS: &str = r#""requests":[
            {"name":"a","exactly":{"deviceClassName":"c","allocationMode":"All"}},
            {"name":"b","firstAvailable":[{"name":"x","deviceClassName":"c","allocationMode":"All"}]}]"#;
        check(
            &format!(
                r#"{{{REQUESTS},"constraints":[{{"requests":["a","b","b/x"],"matchAttribute":"d.example.com/numa"}},
                    {{"distinctAttribute":"d.example.com/numa"}}],
                    "config":[{{"requests":["a"],"opaque":{{"driver":"d.example.com","parameters":{{"k":"v"}}}}}}]}}"#
            ),
            &[],
        );
        check(
            &format!(
                r#"{{{REQUESTS},"constraints":[{{"requests":["a","a","n","b/y","a/x","b/x/z"],"matchAttribute":"numa"}},
                    {{"distinctAttribute":"/numa"}},{{}}],
                    "config":[{{"requests":["?"]}},{{"opaque":{{"parameters":5}}}},{{"opaque":{{"driver":"D_"}}}}]}}"#
            ),
            &[
                &format!("spec.devices.constraints[0].requests[2]: Invalid value: \"n\": {UNKNOWN_REQUEST}"),
                &format!("spec.devices.constraints[0].requests[3]: Invalid value: \"b/y\": {UNKNOWN_REQUEST}"),
                &format!("spec.devices.constraints[0].requests[4]: Invalid value: \"a/x\": {UNKNOWN_REQUEST}"),
                &format!("spec.devices.constraints[0].requests[5]: Invalid value: \"b/x/z\": {UNKNOWN_REQUEST}"),
                "spec.devices.constraints[0].requests[1]: Duplicate value: \"a\"",
                "spec.devices.constraints[0].matchAttribute: Invalid value: \"numa\": a fully qualified name must be a domain \
                 and a name separated by a slash",
                "spec.devices.constraints[1].distinctAttribute: Invalid value: \"\": the domain must not be empty",
                "spec.devices.constraints[2]: Required value: exactly one of \"matchAttribute\" or \"distinctAttribute\" is \
                 required, but multiple fields are set",
                &format!("spec.devices.config[0].requests[0]: Invalid value: \"?\": {LABEL}"),
                &format!("spec.devices.config[0].requests[0]: Invalid value: \"?\": {UNKNOWN_REQUEST}"),
                "spec.devices.config[0].opaque: Required value",
                "spec.devices.config[1].opaque.driver: Required value",
                "spec.devices.config[1].opaque.parameters: Invalid value: \"<value omitted>\": must be a valid JSON object",
                &format!("spec.devices.config[2].opaque.driver: Invalid value: \"D_\": {SUBDOMAIN}"),
                "spec.devices.config[2].opaque.parameters: Required value",
            ],
        );
        check_with(
            &gated_context(&[("DRAConsumableCapacity", false)]),
            r#"{"constraints":[{}]}"#,
            &["spec.devices.constraints[0].matchAttribute: Required value"],
        );
    }

    #[test]
    fn parameters_are_limited() {
        let config = |length: usize| {
            let text = "x".repeat(length - r#"{"a":""}"#.len());
            format!(r#"{{"config":[{{"opaque":{{"driver":"d","parameters":{{"a":"{text}"}}}}}}]}}"#)
        };
        check(&config(10_240), &[]);
        check(
            &config(10_241),
            &["spec.devices.config[0].opaque.parameters: Too long: may not be more than 10240 bytes"],
        );
    }

    #[test]
    fn fields_of_disabled_features_are_dropped_unless_they_are_in_use() {
        const FULL: &str = r#"{"devices":{
            "requests":[
                {"name":"a","exactly":{"deviceClassName":"c","tolerations":[{"operator":"Exists"}],"capacity":{"requests":{"m":"1"}}}},
                {"name":"b","firstAvailable":[{"name":"x","tolerations":[{"operator":"Exists"}],"capacity":{"requests":{"m":"1"}}}]}],
            "constraints":[{"distinctAttribute":"d/a"}]}}"#;
        let check = |gates: &[(&str, bool)], old: Option<&str>, expect: &str| {
            let mut spec = object(FULL);
            drop_disabled(&gated_context(gates).gates, Part::DeviceClaim, &mut spec, old.map(object).as_ref());
            assert_eq!(spec, object(expect), "{gates:?} {old:?}");
        };
        check(&[], None, FULL);
        let alternatives = [("DRAPrioritizedList", false)];
        let without_alternatives = r#"{"devices":{
            "requests":[
                {"name":"a","exactly":{"deviceClassName":"c","tolerations":[{"operator":"Exists"}],"capacity":{"requests":{"m":"1"}}}},
                {"name":"b"}],
            "constraints":[{"distinctAttribute":"d/a"}]}}"#;
        check(&alternatives, None, without_alternatives);
        check(&alternatives, Some("{}"), without_alternatives);
        check(&alternatives, Some(r#"{"devices":{"requests":[{"firstAvailable":[{}]}]}}"#), FULL);
        let taints = [("DRADeviceTaints", false), ("DRADeviceTaintRules", false)];
        let without_tolerations = r#"{"devices":{
            "requests":[
                {"name":"a","exactly":{"deviceClassName":"c","capacity":{"requests":{"m":"1"}}}},
                {"name":"b","firstAvailable":[{"name":"x","capacity":{"requests":{"m":"1"}}}]}],
            "constraints":[{"distinctAttribute":"d/a"}]}}"#;
        check(&taints, None, without_tolerations);
        for used in [
            r#"{"devices":{"requests":[{"exactly":{"tolerations":[{}]}}]}}"#,
            r#"{"devices":{"requests":[{"firstAvailable":[{"tolerations":[{}]}]}]}}"#,
        ] {
            check(&taints, Some(used), FULL);
        }
        let capacity = [("DRAConsumableCapacity", false)];
        let without_capacity = r#"{"devices":{
            "requests":[
                {"name":"a","exactly":{"deviceClassName":"c","tolerations":[{"operator":"Exists"}]}},
                {"name":"b","firstAvailable":[{"name":"x","tolerations":[{"operator":"Exists"}]}]}],
            "constraints":[{}]}}"#;
        check(&capacity, None, without_capacity);
        for used in [
            r#"{"devices":{"requests":[{"exactly":{"capacity":{}}}]}}"#,
            r#"{"devices":{"requests":[{"firstAvailable":[{"capacity":{}}]}]}}"#,
            r#"{"devices":{"constraints":[{"distinctAttribute":"d/a"}]}}"#,
        ] {
            check(&capacity, Some(used), FULL);
        }
    }
}

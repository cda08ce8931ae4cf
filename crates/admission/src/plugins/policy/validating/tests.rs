//! The annotations that policies add to the audit event of a request. A row is the spec of a policy, and the
//! annotations or the error.

use std::sync::Arc;

use pintle_value::Value;

use super::Policy;
use crate::plugins::policy::plugin::PolicyPlugin;
use crate::plugins::{PluginOptions, TolerationSeconds};
use crate::testing::{Scenario, json};
use crate::{AdmissionPlugin, built_in_plugin};

const OBJECT: &str = r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "default"}}"#;

/// Validates the create of an object under a policy `p` with two bindings, each with a parameter object of its name.
fn audit(spec: &str, actions: &str, object: &str) -> Result<Vec<(String, String)>, String> {
    let plugin = built_in_plugin("ValidatingAdmissionPolicy").expect("a plugin");
    audit_with(&*plugin, spec, actions, object)
}

/// The plugin of a version.
fn plugin_of(minor: u8) -> Arc<dyn AdmissionPlugin> {
    let gates = crate::testing::gates_of(minor, &[]);
    let options = PluginOptions { text: None, toleration_seconds: TolerationSeconds::default(), gates: &gates };
    PolicyPlugin::<Policy>::build(&options).expect("a plugin")
}

/// Does the same with another plugin.
fn audit_with(
    plugin: &dyn AdmissionPlugin,
    spec: &str,
    actions: &str,
    object: &str,
) -> Result<Vec<(String, String)>, String> {
    let scenario = scenario(spec, actions);
    scenario.validate(plugin, &json(object)).map_err(|error| error.to_string())?;
    let annotations = scenario.annotations.lock().clone();
    Ok(annotations.into_iter().collect())
}

/// The create of an object under a policy with two bindings.
fn scenario(spec: &str, actions: &str) -> Scenario {
    let rules = r#"{"namespaceSelector": {}, "objectSelector": {}, "resourceRules": [
        {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]}"#;
    let group = "admissionregistration.k8s.io/v1";
    let mut scenario = Scenario::create("", "configmaps");
    scenario.stored = vec![
        json(r#"{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}"#),
        json(&format!(
            r#"{{"apiVersion": "{group}", "kind": "ValidatingAdmissionPolicy", "metadata": {{"name": "p"}},
                "spec": {{"paramKind": {{"apiVersion": "v1", "kind": "ConfigMap"}}, "matchConstraints": {rules}, {spec}}}}}"#
        )),
    ];
    for name in ["a", "b"] {
        let params = format!(
            r#"{{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {{"name": "{name}", "namespace": "default"}}}}"#
        );
        let binding = format!(
            r#"{{"apiVersion": "{group}", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {{"name": "{name}"}},
                "spec": {{"policyName": "p", "validationActions": {actions},
                    "paramRef": {{"name": "{name}", "parameterNotFoundAction": "Deny"}}}}}}"#
        );
        scenario.stored.extend([json(&params), json(&binding)]);
    }
    scenario
}

/// Since 1.37 parameters that the cache does not have yet are read from the storage.
#[test]
fn missing_parameters_are_read_directly() {
    let mut scenario =
        scenario(r#""validations": [{"expression": "params.metadata.name != 'b'", "message": "no"}]"#, r#"["Deny"]"#);
    let is_late = |object: &mut Value| object.kind() == "ConfigMap" && object.name() == "b";
    scenario.late = scenario.stored.extract_if(.., is_late).collect();
    assert_eq!(scenario.late.len(), 1);
    let refused = |binding: &str| {
        format!(
            "configmaps \"c\" is forbidden: ValidatingAdmissionPolicy 'p' with binding '{binding}' denied request: "
        )
    };
    let missing = format!(
        "{}failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction",
        refused("b")
    );
    scenario.check_validate(&*plugin_of(36), &json(OBJECT), Err(&missing));
    scenario.check_validate(&*plugin_of(37), &json(OBJECT), Err(&format!("{}no", refused("b"))));
    scenario.late.clear();
    scenario.check_validate(&*plugin_of(37), &json(OBJECT), Err(&missing));
}

/// Checks the value of the annotation `p/k`, which an expression makes.
#[track_caller]
fn check_value(expression: &str, failure_policy: &str, expect: Result<Option<&str>, &str>) {
    let spec = format!(
        r#""failurePolicy": "{failure_policy}", "auditAnnotations": [{{"key": "k", "valueExpression": "{expression}"}}]"#
    );
    let found = audit(&spec, r#"["Audit"]"#, OBJECT);
    let expect = expect.map(|value| value.map(|value| ("p/k".to_owned(), value.to_owned())).into_iter().collect());
    assert_eq!(found, expect.map_err(str::to_owned), "{expression}");
}

#[test]
fn failed_validations_are_annotated() {
    let spec =
        r#""validations": [{"expression": "true"}, {"expression": "params.metadata.name != 'b'", "message": "no"}]"#;
    let key = "validation.policy.admission.k8s.io/validation_failure".to_owned();
    let value =
        r#"[{"message":"no","policy":"p","binding":"b","expressionIndex":1,"validationActions":["Warn","Audit"]}]"#;
    assert_eq!(audit(spec, r#"["Warn", "Audit"]"#, OBJECT), Ok(vec![(key, value.to_owned())]));
    assert_eq!(audit(spec, r#"["Warn"]"#, OBJECT), Ok(Vec::new()));
}

/// Since 1.37 the annotation has the failures of all policies and bindings, up to a limit.
#[test]
fn all_failed_validations_are_annotated() {
    let count = |minor: u8, failures: usize| {
        let failing: Vec<String> =
            (0..failures).map(|i| format!(r#"{{"expression": "false", "message": "m{i}"}}"#)).collect();
        let spec = format!(r#""validations": [{}]"#, failing.join(","));
        let found = audit_with(&*plugin_of(minor), &spec, r#"["Audit"]"#, OBJECT).expect("allowed");
        let [(_, value)] = &found[..] else { panic!("{found:?}") };
        let failures = json(value);
        failures
            .as_array()
            .expect("a list")
            .iter()
            .map(|f| format!("{}{}", f.str_at(&["binding"]), f.str_at(&["message"])))
            .collect::<Vec<_>>()
    };
    assert_eq!(count(36, 2), ["am0"]);
    assert_eq!(count(37, 2), ["am0", "am1", "bm0", "bm1"]);
    let many = count(37, 30);
    assert_eq!((many.len(), many.last().map(String::as_str)), (50, Some("bm19")));
}

#[test]
fn values_of_all_bindings_are_joined() {
    check_value("'x'", "Fail", Ok(Some("x")));
    check_value("' of ' + params.metadata.name + ' '", "Fail", Ok(Some("of a, of b")));
    check_value("params.metadata.name == 'a' ? 'x' : ''", "Fail", Ok(Some("x")));
    check_value("null", "Fail", Ok(None));
    check_value("'  '", "Fail", Ok(None));
}

#[test]
fn errors_of_values_follow_the_failure_policy() {
    let why = "configmaps \"c\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'a' denied request: expression \
        'string(object.data.x)' resulted in error: no such key: data";
    check_value("string(object.data.x)", "Fail", Err(why));
    check_value("string(object.data.x)", "Ignore", Ok(None));
}

#[test]
fn long_values_are_cut() {
    let object =
        OBJECT.replace("\"metadata\"", &format!("\"data\": {{\"x\": \"{}\"}}, \"metadata\"", "x".repeat(20_000)));
    let spec = r#""auditAnnotations": [{"key": "k", "valueExpression": "string(object.data.x)"}]"#;
    let found = audit(spec, r#"["Audit"]"#, &object).expect("an annotation");
    assert_eq!(found, [("p/k".to_owned(), "x".repeat(10 * 1024))]);
}

//! Validates admission policies (upstream: `validateValidatingAdmissionPolicySpec`,
//! `validateMutatingAdmissionPolicySpec`).

use std::collections::BTreeSet;

use pintle_admission_cel::ExpressionKind;
use pintle_value::{Errors, FieldPath, Value, names};
use pintle_versions::EffectiveVersion;

use super::expressions::PolicyExpressions;
use super::match_resources::{MUTATING_OPERATIONS, validate_match, validate_operations};
use super::match_rules::{require_field_one_of, validate_conditions, validate_field_one_of};
use crate::generic::same_at;
use crate::go_json::{self, GoType};
use crate::validation::invalid_each;

const FAILURE_POLICIES: [&str; 2] = ["Fail", "Ignore"];
const REASONS: [&str; 3] = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
const REINVOCATION_POLICIES: [&str; 2] = ["IfNeeded", "Never"];
const PATCH_TYPES: [&str; 2] = ["ApplyConfiguration", "JSONPatch"];
const MAX_AUDIT_ANNOTATIONS: usize = 20;
const ANNOTATIONS: GoType = GoType::List(&GoType::Of("admissionregistration/v1.AuditAnnotation"));
const MAX_AUDIT_EXPRESSION: usize = 5 * 1024;

/// Validates a ValidatingAdmissionPolicy. `old` is the policy before an update.
pub(super) fn validate_validating_policy(object: &Value, old: Option<&Value>, version: EffectiveVersion) -> Errors {
    let mut errors = Errors::new();
    let spec = &object["spec"];
    let path = FieldPath::new("spec");
    let mut expressions = PolicyExpressions::of(spec, false, version);
    validate_common(&mut errors, spec, old, &mut expressions, None, &path);
    let (validations, annotations) = (spec.items_at(&["validations"]), spec.items_at(&["auditAnnotations"]));
    if validations.is_empty() && annotations.is_empty() {
        for field in ["validations", "auditAnnotations"] {
            let detail = "validations or auditAnnotations must contain at least one item";
            errors.required(&path.child(field), detail);
        }
    }
    let list = path.child("validations");
    for (i, validation) in validations.iter().enumerate() {
        validate_validation(&mut errors, validation, &expressions, &list.index(i));
    }
    let list = path.child("auditAnnotations");
    if annotations.len() > MAX_AUDIT_ANNOTATIONS {
        let detail = format!("must not have more than {MAX_AUDIT_ANNOTATIONS} auditAnnotations");
        errors.push(go_json::invalid(&list, &spec["auditAnnotations"], &ANNOTATIONS, &detail));
    }
    let mut keys = BTreeSet::new();
    for (i, annotation) in annotations.iter().enumerate() {
        let key = annotation.str_at(&["key"]);
        validate_audit_annotation(&mut errors, object.name(), annotation, &expressions, &list.index(i));
        if !keys.insert(key) {
            errors.duplicate(&list.index(i).child("key"), key);
        }
    }
    errors
}

/// Validates a MutatingAdmissionPolicy. `old` is the policy before an update.
pub(super) fn validate_mutating_policy(object: &Value, old: Option<&Value>, version: EffectiveVersion) -> Errors {
    let mut errors = Errors::new();
    let spec = &object["spec"];
    let path = FieldPath::new("spec");
    let mut expressions = PolicyExpressions::of(spec, true, version);
    validate_common(&mut errors, spec, old, &mut expressions, Some(&MUTATING_OPERATIONS), &path);
    let list = path.child("mutations");
    let mutations = spec.items_at(&["mutations"]);
    if mutations.is_empty() {
        errors.required(&list, "mutations must contain at least one item");
    }
    for (i, mutation) in mutations.iter().enumerate() {
        validate_mutation(&mut errors, mutation, &expressions, &list.index(i));
    }
    require_field_one_of(&mut errors, spec, "reinvocationPolicy", &REINVOCATION_POLICIES, &path);
    errors
}

/// Validates a mutation: it has the patch of its own type, and no patch of the other type.
fn validate_mutation(errors: &mut Errors, mutation: &Value, expressions: &PolicyExpressions, path: &FieldPath<'_>) {
    let patch_type = mutation.str_at(&["patchType"]);
    let (field, other, kind) = match patch_type {
        "JSONPatch" => ("jsonPatch", "applyConfiguration", ExpressionKind::JsonPatch),
        "ApplyConfiguration" => ("applyConfiguration", "jsonPatch", ExpressionKind::ApplyConfiguration),
        _ => return require_field_one_of(errors, mutation, "patchType", &PATCH_TYPES, path),
    };
    match mutation.get(field) {
        None => errors.required(&path.child(field), format!("must be specified when patchType is {patch_type}")),
        Some(patch) => {
            let path = path.child(field);
            match patch.str_at(&["expression"]).trim() {
                "" => errors.required(&path.child("expression"), ""),
                text => expressions.expression(errors, (text, text), kind, &path.child("expression")),
            }
        }
    }
    if mutation.get(other).is_some() {
        let detail = format!("must not be specified when patchType is {patch_type}");
        errors.invalid(&path.child(other), format!("{{{other}}}"), detail);
    }
}

/// Validates the common fields of both types of policies. The rules of mutating policies can only have some operations.
fn validate_common(
    errors: &mut Errors,
    spec: &Value,
    old: Option<&Value>,
    expressions: &mut PolicyExpressions,
    operations: Option<&[&str]>,
    path: &FieldPath<'_>,
) {
    require_field_one_of(errors, spec, "failurePolicy", &FAILURE_POLICIES, path);
    let kind = spec.get("paramKind");
    if let Some(kind) = kind {
        validate_param_kind(errors, kind, &path.child("paramKind"));
    }
    let constraints = path.child("matchConstraints");
    match spec.get("matchConstraints") {
        None => errors.required(&constraints, ""),
        Some(resources) => {
            validate_match(errors, resources, &constraints);
            if resources.items_at(&["resourceRules"]).is_empty() {
                errors.required(&constraints.child("resourceRules"), "");
            }
            validate_operations(errors, resources, operations, &constraints);
        }
    }
    let unchanged = |field| old.is_some_and(|old| same_at(spec, &old["spec"], &[field]));
    if !(unchanged("paramKind") && unchanged("matchConditions")) {
        let conditions = spec.items_at(&["matchConditions"]);
        let version = expressions.version();
        validate_conditions(errors, conditions, kind.is_some(), version, &path.child("matchConditions"));
    }
    let list = path.child("variables");
    for (i, variable) in spec.items_at(&["variables"]).iter().enumerate() {
        let path = list.index(i);
        let name = variable.str_at(&["name"]);
        if name.trim().is_empty() {
            errors.required(&path.child("name"), "name is not specified");
        } else if !is_identifier(name) {
            errors.invalid(&path.child("name"), name, "name is not a valid CEL identifier");
        }
        match variable.str_at(&["expression"]) {
            blank if blank.trim().is_empty() => {
                errors.required(&path.child("expression"), "expression is not specified");
            }
            text => expressions.variable(errors, name, text, &path.child("expression")),
        }
    }
}

/// Returns true if the name is a CEL identifier that is not reserved.
fn is_identifier(name: &str) -> bool {
    names::c_identifier(name).is_empty() && !pintle_cel::is_reserved(name)
}

fn validate_param_kind(errors: &mut Errors, param: &Value, path: &FieldPath<'_>) {
    let version_path = path.child("apiVersion");
    let api_version = param.str_at(&["apiVersion"]);
    let parts: Vec<&str> = api_version.split('/').collect();
    match parts[..] {
        [""] => errors.required(&version_path, ""),
        [version] => validate_version(errors, "", version, api_version, &version_path),
        [group, version] => validate_version(errors, group, version, api_version, &version_path),
        _ => {
            let detail = format!("unexpected GroupVersion string: {api_version}");
            errors.invalid(&version_path, api_version, detail);
        }
    }
    let kind = param.str_at(&["kind"]);
    let problems = names::dns1035_label(&kind.to_lowercase());
    if kind.is_empty() {
        errors.required(&path.child("kind"), "");
    } else if !problems.is_empty() {
        let detail = format!("may have mixed case, but should otherwise match: {}", problems.join(","));
        errors.invalid(&path.child("kind"), kind, detail);
    }
}

fn validate_version(errors: &mut Errors, group: &str, version: &str, api_version: &str, path: &FieldPath<'_>) {
    let problems = if group.is_empty() { Vec::new() } else { names::dns1123_subdomain(group) };
    if !problems.is_empty() {
        errors.invalid(path, group, problems.join(","));
    }
    let problems = names::dns1035_label(version);
    if version.is_empty() {
        errors.invalid(path, api_version, "version must be specified");
    } else if !problems.is_empty() {
        errors.invalid(path, version, problems.join(","));
    }
}

fn validate_validation(errors: &mut Errors, validation: &Value, expressions: &PolicyExpressions, path: &FieldPath<'_>) {
    match validation.str_at(&["expression"]) {
        blank if blank.trim().is_empty() => errors.required(&path.child("expression"), "expression is not specified"),
        text => expressions.expression(errors, (text, text), ExpressionKind::Condition, &path.child("expression")),
    }
    let blank = |text: &str| !text.is_empty() && text.trim().is_empty();
    let message_expression = validation.str_at(&["messageExpression"]);
    if blank(message_expression) {
        errors.invalid(&path.child("messageExpression"), message_expression, "must be non-empty if specified");
    } else if !message_expression.is_empty() {
        let text = (message_expression, message_expression);
        expressions.expression(errors, text, ExpressionKind::Message, &path.child("messageExpression"));
    }
    let message = validation.str_at(&["message"]);
    if blank(message) {
        errors.invalid(&path.child("message"), message, "message must be non-empty if specified");
    } else if message.trim().contains(['\n', '\r']) {
        errors.invalid(&path.child("message"), message, "message must not contain line breaks");
    }
    validate_field_one_of(errors, validation, "reason", &REASONS, path);
}

fn validate_audit_annotation(
    errors: &mut Errors,
    policy: &str,
    annotation: &Value,
    expressions: &PolicyExpressions,
    path: &FieldPath<'_>,
) {
    let key = annotation.str_at(&["key"]);
    if policy.is_empty() {
        errors.invalid(&path.child("key"), key, "requires metadata.name be non-empty");
    } else {
        // The audit annotation key consists of the policy's name and this key.
        let full = format!("{policy}/{key}");
        invalid_each(errors, &path.child("key"), &full, names::qualified_name(&full));
    }
    let written = annotation.str_at(&["valueExpression"]);
    let expression = written.trim();
    if expression.is_empty() {
        errors.required(&path.child("valueExpression"), "valueExpression is not specified");
    } else if expression.len() > MAX_AUDIT_EXPRESSION {
        let detail = format!("must not exceed {MAX_AUDIT_EXPRESSION} bytes in length");
        errors.required(&path.child("valueExpression"), detail);
    } else {
        let text = (expression, written);
        expressions.expression(errors, text, ExpressionKind::AuditAnnotation, &path.child("valueExpression"));
    }
}

#[cfg(test)]
mod tests {
    use pintle_registry::Strategy as _;
    use pintle_versions::Minor;

    use super::super::policy::{MutatingAdmissionPolicyStrategy, ValidatingAdmissionPolicyStrategy};
    use super::*;
    use crate::testing::{context, messages, object};

    #[test]
    fn validating_policies() {
        let check = |spec: &str, expect: &[&str]| {
            let mut policy = object(&format!(r#"{{"spec":{{{spec}}}}}"#));
            ValidatingAdmissionPolicyStrategy.defaults(&mut policy);
            assert_eq!(messages(&ValidatingAdmissionPolicyStrategy.validate(&context(), &policy)), expect, "{spec}");
        };
        let rules = r#""matchConstraints":{"resourceRules":[{"operations":["CREATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["pods"]}]}"#;
        check(&format!(r#"{rules},"validations":[{{"expression":"true"}}]"#), &[]);
        check(
            r#""failurePolicy":"x","paramKind":{"apiVersion":"a/b/c","kind":"1"},"matchConstraints":{}"#,
            &[
                "spec.failurePolicy: Unsupported value: \"x\": supported values: \"Fail\", \"Ignore\"",
                "spec.paramKind.apiVersion: Invalid value: \"a/b/c\": unexpected GroupVersion string: a/b/c",
                "spec.paramKind.kind: Invalid value: \"1\": may have mixed case, but should otherwise match: a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')",
                "spec.matchConstraints.resourceRules: Required value",
                "spec.validations: Required value: validations or auditAnnotations must contain at least one item",
                "spec.auditAnnotations: Required value: validations or auditAnnotations must contain at least one item",
            ],
        );
        check(
            &format!(
                r#"{rules},"validations":[{{"expression":" ","message":"a\nb","reason":"x"}}],"variables":[{{"name":"a b","expression":"1"}}]"#
            ),
            &[
                "spec.variables[0].name: Invalid value: \"a b\": name is not a valid CEL identifier",
                "spec.validations[0].expression: Required value: expression is not specified",
                "spec.validations[0].message: Invalid value: \"a\\nb\": message must not contain line breaks",
                "spec.validations[0].reason: Unsupported value: \"x\": supported values: \"Forbidden\", \"Invalid\", \"RequestEntityTooLarge\"",
            ],
        );
    }

    const RULES: &str = r#""matchConstraints":{"resourceRules":[{"operations":["CREATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["pods"]}]}"#;

    #[test]
    fn expressions_of_validating_policies() {
        let check = |spec: &str, expect: &[&str]| {
            let text = format!(r#"{{"metadata":{{"name":"p.example.com"}},"spec":{{{RULES},{spec}}}}}"#);
            let mut policy = object(&text);
            ValidatingAdmissionPolicyStrategy.defaults(&mut policy);
            assert_eq!(messages(&ValidatingAdmissionPolicyStrategy.validate(&context(), &policy)), expect, "{spec}");
        };
        check(
            r#""paramKind":{"apiVersion":"v1","kind":"ConfigMap"},
               "matchConditions":[{"name":"a","expression":"request.userInfo.username != params.data.user"}],
               "variables":[{"name":"n","expression":"object.spec.replicas"},{"name":"m","expression":"variables.n + 1"}],
               "validations":[{"expression":"variables.m < 5 || authorizer.group('').resource('pods').check('get').allowed()",
                 "messageExpression":"'at most ' + string(params.data.max)","reason":"Forbidden"}],
               "auditAnnotations":[{"key":"high","valueExpression":"variables.n > 3 ? 'high' : null"}]"#,
            &[
                "spec.auditAnnotations[0].valueExpression: Invalid value: \"variables.n > 3 ? 'high' : null\": compilation failed: ERROR: <input>:1:17: found no matching overload for '_?_:_' applied to '(bool, string, null)'\n | variables.n > 3 ? 'high' : null\n | ................^",
            ],
        );
        check(
            r#""matchConditions":[{"name":"a","expression":"params.x == 1"}],
               "validations":[{"expression":"object.a +","messageExpression":"1"},
                 {"expression":" object.spec ","messageExpression":"authorizer.path('/x').check('get').reason()"},
                 {"expression":"variables.x"}],
               "auditAnnotations":[{"key":"k","valueExpression":" 1 "}]"#,
            &[
                "spec.matchConditions[0].expression: Invalid value: \"params.x == 1\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'params' (in container '')\n | params.x == 1\n | ^",
                "spec.validations[0].expression: Invalid value: \"object.a +\": compilation failed: ERROR: <input>:1:11: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}\n | object.a +\n | ..........^",
                "spec.validations[0].messageExpression: Invalid value: \"1\": must evaluate to string but got int",
                "spec.validations[1].expression: Invalid value: \" object.spec \": must evaluate to bool but got dyn",
                "spec.validations[1].messageExpression: Invalid value: \"authorizer.path('/x').check('get').reason()\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'authorizer' (in container '')\n | authorizer.path('/x').check('get').reason()\n | ^",
                "spec.validations[2].expression: Invalid value: \"variables.x\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'variables' (in container '')\n | variables.x\n | ^",
                "spec.auditAnnotations[0].valueExpression: Invalid value: \" 1 \": must evaluate to one of [string null_type] but got int",
            ],
        );
        check(
            r#""variables":[{"name":"later","expression":"variables.n"},{"name":"n","expression":"'x'"}],
               "validations":[{"expression":"variables.n == 1"}]"#,
            &[
                "spec.variables[0].expression: Invalid value: \"variables.n\": compilation failed: ERROR: <input>:1:10: undefined field 'n'\n | variables.n\n | .........^",
                "spec.validations[0].expression: Invalid value: \"variables.n == 1\": compilation failed: ERROR: <input>:1:13: found no matching overload for '_==_' applied to '(string, int)'\n | variables.n == 1\n | ............^",
            ],
        );
    }

    #[test]
    fn match_conditions_that_do_not_change_are_not_validated() {
        let policy = |conditions: &str, kind: &str| {
            let text = format!(
                r#"{{"spec":{{{RULES},{kind}"matchConditions":[{{"name":"a","expression":"{conditions}"}}],"validations":[{{"expression":"true"}}]}}}}"#
            );
            let mut policy = object(&text);
            ValidatingAdmissionPolicyStrategy.defaults(&mut policy);
            policy
        };
        let errors = |new: &Value, old: &Value| {
            messages(&ValidatingAdmissionPolicyStrategy.validate_update(&context(), new, old)).len()
        };
        let broken = policy("params.x", r#""paramKind":{"apiVersion":"v1","kind":"ConfigMap"},"#);
        assert_eq!(errors(&broken, &broken), 0);
        assert_eq!(errors(&broken, &policy("true", "")), 1);
        assert_eq!(errors(&policy("params.x", ""), &broken), 1);
    }

    #[test]
    fn mutating_policies() {
        let check = |spec: &str, expect: &[&str]| {
            let mut policy = object(&format!(r#"{{"spec":{{"reinvocationPolicy":"Never",{spec}}}}}"#));
            MutatingAdmissionPolicyStrategy.defaults(&mut policy);
            assert_eq!(messages(&MutatingAdmissionPolicyStrategy.validate(&context(), &policy)), expect, "{spec}");
        };
        check(
            &format!(
                r#"{RULES},"variables":[{{"name":"n","expression":"object.metadata.name"}}],"mutations":[
                    {{"patchType":"ApplyConfiguration","applyConfiguration":{{"expression":"Object{{metadata: Object.metadata{{labels: {{'n': variables.n}}}}}}"}}}},
                    {{"patchType":"JSONPatch","jsonPatch":{{"expression":"[JSONPatch{{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a/b'), value: 'x'}}]"}}}}]"#
            ),
            &[],
        );
        check(
            &format!(
                r#"{},"mutations":[{{"patchType":"JSONPatch","applyConfiguration":{{"expression":"Object{{}}"}}}},
                    {{"patchType":"ApplyConfiguration","applyConfiguration":{{"expression":" "}},"jsonPatch":{{"expression":"[]"}}}},
                    {{"patchType":"x"}},{{}},{{"patchType":"ApplyConfiguration","applyConfiguration":{{"expression":"1"}}}},
                    {{"patchType":"JSONPatch","jsonPatch":{{"expression":"JSONPatch{{op: 1}}"}}}}]"#,
                RULES.replace("CREATE", "DELETE")
            ),
            &[
                "spec.matchConstraints.resourceRules.operations: Unsupported value: \"DELETE\": supported values: \"*\", \"CONNECT\", \"CREATE\", \"UPDATE\"",
                "spec.mutations[0].jsonPatch: Required value: must be specified when patchType is JSONPatch",
                "spec.mutations[0].applyConfiguration: Invalid value: \"{applyConfiguration}\": must not be specified when patchType is JSONPatch",
                "spec.mutations[1].applyConfiguration.expression: Required value",
                "spec.mutations[1].jsonPatch: Invalid value: \"{jsonPatch}\": must not be specified when patchType is ApplyConfiguration",
                "spec.mutations[2].patchType: Unsupported value: \"x\": supported values: \"ApplyConfiguration\", \"JSONPatch\"",
                "spec.mutations[3].patchType: Required value",
                "spec.mutations[4].applyConfiguration.expression: Invalid value: \"1\": must evaluate to Object but got int",
                "spec.mutations[5].jsonPatch.expression: Invalid value: \"JSONPatch{op: 1}\": compilation failed: ERROR: <input>:1:13: expected type of field 'op' is 'string' but provided type is 'int'\n | JSONPatch{op: 1}\n | ............^",
            ],
        );
    }

    /// The binary version decides on the syntax, the minimum compatibility version on libraries.
    #[test]
    fn expressions_depend_on_the_version() {
        let policy = |expression: &str| {
            object(&format!(
                r#"{{"metadata":{{"name":"p"}},"spec":{{"failurePolicy":"Fail","matchConstraints":{{"matchPolicy":"Exact",
                    "namespaceSelector":{{}},"objectSelector":{{}},"resourceRules":[{{"apiGroups":["*"],"apiVersions":["*"],
                    "operations":["*"],"resources":["*"],"scope":"*"}}]}},"validations":[{{"expression":"{expression}"}}]}}}}"#
            ))
        };
        let (older, newer) = (EffectiveVersion::of(Minor::new(36)), EffectiveVersion::of(Minor::new(37)));
        let newest = newer.compatible_with(Minor::new(37)).expect("a version");
        for (expression, valid) in [
            ("object.metadata.`a-b` == 'x'", [false, true, true]),
            ("object.spec.list.includes(1)", [false, false, true]),
            ("object.spec.list.indexOf(1) == 0", [true, true, true]),
        ] {
            let found =
                [older, newer, newest].map(|version| validate_validating_policy(&policy(expression), None, version));
            assert_eq!(found.map(|errors| errors.is_empty()), valid, "{expression}");
        }
    }
}

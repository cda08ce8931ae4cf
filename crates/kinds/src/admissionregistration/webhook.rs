//! The strategies for MutatingWebhookConfiguration and ValidatingWebhookConfiguration (upstream:
//! `SetDefaults_ValidatingWebhook` and similar, `pkg/apis/admissionregistration/validation`).

use std::collections::BTreeSet;

use pintle_registry::{Strategy, StrategyContext, UnservedVersion};
use pintle_value::{Errors, FieldPath, Value, names};
use pintle_versions::EffectiveVersion;

use super::match_rules::{set_rule_defaults, validate_conditions, validate_field_one_of, validate_rule};
use super::reserved_names;
use crate::generic::{same_at, set_generation};
use crate::labels;
use crate::validation::invalid_each;
use crate::webhook;

const FAILURE_POLICIES: [&str; 2] = ["Fail", "Ignore"];
const MATCH_POLICIES: [&str; 2] = ["Equivalent", "Exact"];
const REINVOCATION_POLICIES: [&str; 2] = ["IfNeeded", "Never"];
const NO_SIDE_EFFECTS: [&str; 2] = ["None", "NoneOnDryRun"];
const SIDE_EFFECTS: [&str; 4] = ["None", "NoneOnDryRun", "Some", "Unknown"];

/// The known versions of AdmissionReview. A webhook must accept at least one of them.
const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

const DEFAULT_PORT: i64 = 443;
const DEFAULT_TIMEOUT: i64 = 10;

/// The strategy for both kinds of webhook configurations.
pub(crate) struct WebhookConfigurationStrategy {
    /// True for MutatingWebhookConfiguration.
    pub(crate) mutating: bool,
}

/// The version with other defaults (upstream: `pkg/apis/admissionregistration/v1beta1`).
const V1BETA1: UnservedVersion = UnservedVersion::read("admissionregistration.k8s.io/v1beta1", |configuration| {
    for hook in configuration.get_mut("webhooks").and_then(Value::as_array_mut).into_iter().flatten() {
        hook.set_default("failurePolicy", "Ignore");
        hook.set_default("matchPolicy", "Exact");
        hook.set_default("sideEffects", "Unknown");
        hook.set_default("timeoutSeconds", 30);
        if hook.items_at(&["admissionReviewVersions"]).is_empty() {
            hook.set("admissionReviewVersions", vec![Value::from("v1beta1")]);
        }
    }
});

impl Strategy for WebhookConfigurationStrategy {
    fn unserved_versions(&self) -> &'static [UnservedVersion] {
        &[V1BETA1]
    }

    fn defaults(&self, object: &mut Value) {
        let hooks = object.at_mut(&["webhooks"]).and_then(Value::as_array_mut);
        for hook in hooks.into_iter().flatten() {
            hook.set_default("failurePolicy", "Fail");
            hook.set_default("matchPolicy", "Equivalent");
            hook.set_default("namespaceSelector", Value::object());
            hook.set_default("objectSelector", Value::object());
            hook.set_default("timeoutSeconds", DEFAULT_TIMEOUT);
            if self.mutating {
                hook.set_default("reinvocationPolicy", "Never");
            }
            if let Some(service) = hook.at_mut(&["clientConfig", "service"]) {
                service.set_default("port", DEFAULT_PORT);
            }
            set_rule_defaults(hook, "rules");
        }
    }

    fn prepare_write(&self, _: &StrategyContext, object: &mut Value, old: Option<&Value>) {
        set_generation(object, old, &[&["webhooks"]]);
    }

    fn validate_write(&self, context: &StrategyContext, object: &Value, old: Option<&Value>) -> Errors {
        let options =
            old.map_or_else(WebhookValidationOptions::default, |old| WebhookValidationOptions::of(object, old));
        let mut errors = self.validate_hooks(object, options, context.gates.version());
        reserved_names::validate(&mut errors, context, object, old);
        errors
    }

    fn warnings(&self, context: &StrategyContext, object: &Value, old: Option<&Value>) -> Vec<String> {
        reserved_names::warnings(context, object, old)
    }
}

/// Faults of the old configuration, which the new one may keep.
#[derive(Default)]
struct WebhookValidationOptions {
    side_effects: bool,
    unknown_reviews: bool,
    repeated_names: bool,
    label_values: bool,
    /// The match conditions of all webhooks, if none has changed.
    match_conditions: bool,
}

fn hooks(object: &Value) -> &[Value] {
    object.items_at(&["webhooks"])
}

fn review_versions(hook: &Value) -> Vec<&str> {
    hook.items_at(&["admissionReviewVersions"]).iter().filter_map(Value::as_str).collect()
}

impl WebhookValidationOptions {
    fn of(new: &Value, old: &Value) -> Self {
        let names: BTreeSet<&str> = hooks(old).iter().map(|hook| hook.str_at(&["name"])).collect();
        let unknown = |hook: &Value| {
            let versions = review_versions(hook);
            !versions.is_empty() && !versions.iter().any(|version| REVIEW_VERSIONS.contains(version))
        };
        let invalid = |hook: &Value| {
            ["namespaceSelector", "objectSelector"]
                .iter()
                .any(|field| !labels::validate_selector(hook.get(field), false, &FieldPath::root()).is_empty())
        };
        Self {
            side_effects: hooks(old).iter().any(|hook| !NO_SIDE_EFFECTS.contains(&hook.str_at(&["sideEffects"]))),
            unknown_reviews: hooks(old).iter().any(unknown),
            repeated_names: names.len() < hooks(old).len(),
            label_values: hooks(old).iter().any(invalid),
            match_conditions: hooks(new).len() == hooks(old).len()
                && hooks(new).iter().zip(hooks(old)).all(|(new, old)| same_at(new, old, &["matchConditions"])),
        }
    }
}

impl WebhookConfigurationStrategy {
    fn validate_hooks(&self, object: &Value, options: WebhookValidationOptions, version: EffectiveVersion) -> Errors {
        let mut errors = Errors::new();
        let list = FieldPath::new("webhooks");
        let mut seen = BTreeSet::new();
        for (i, hook) in hooks(object).iter().enumerate() {
            let path = list.index(i);
            self.validate_hook(&mut errors, hook, &options, &path);
            if !options.match_conditions {
                let conditions = hook.items_at(&["matchConditions"]);
                validate_conditions(&mut errors, conditions, false, version, &path.child("matchConditions"));
            }
            let versions = path.child("admissionReviewVersions");
            validate_review_versions(&mut errors, hook, options.unknown_reviews, &versions);
            let name = hook.str_at(&["name"]);
            if !name.is_empty() && !seen.insert(name) && !options.repeated_names {
                errors.duplicate(&path.child("name"), name);
            }
        }
        errors
    }

    fn validate_hook(
        &self,
        errors: &mut Errors,
        hook: &Value,
        options: &WebhookValidationOptions,
        path: &FieldPath<'_>,
    ) {
        errors.append(names::fully_qualified_name(&path.child("name"), hook.str_at(&["name"])));
        let list = path.child("rules");
        for (i, rule) in hook.items_at(&["rules"]).iter().enumerate() {
            validate_rule(errors, rule, &list.index(i));
        }
        validate_field_one_of(errors, hook, "failurePolicy", &FAILURE_POLICIES, path);
        validate_field_one_of(errors, hook, "matchPolicy", &MATCH_POLICIES, path);
        let allowed: &[&str] = if options.side_effects { &SIDE_EFFECTS } else { &NO_SIDE_EFFECTS };
        if hook.get("sideEffects").is_none() {
            let detail = format!("must specify one of {}", allowed.join(", "));
            errors.required(&path.child("sideEffects"), detail);
        }
        validate_field_one_of(errors, hook, "sideEffects", allowed, path);
        if let Some(seconds) = hook.int_at(&["timeoutSeconds"]).filter(|seconds| !(1..=30).contains(seconds)) {
            let detail = "the timeout value must be between 1 and 30 seconds";
            errors.invalid(&path.child("timeoutSeconds"), seconds, detail);
        }
        for field in ["namespaceSelector", "objectSelector"] {
            let any_value = options.label_values;
            errors.append(labels::validate_selector(hook.get(field), any_value, &path.child(field)));
        }
        if self.mutating {
            validate_field_one_of(errors, hook, "reinvocationPolicy", &REINVOCATION_POLICIES, path);
        }
        validate_client(errors, &hook["clientConfig"], &path.child("clientConfig"));
    }
}

fn validate_review_versions(errors: &mut Errors, hook: &Value, any: bool, path: &FieldPath<'_>) {
    let known = REVIEW_VERSIONS.join(", ");
    let versions = review_versions(hook);
    if versions.is_empty() {
        errors.required(path, format!("must specify one of {known}"));
        return;
    }
    let mut seen = BTreeSet::new();
    for (i, version) in versions.iter().enumerate() {
        if !seen.insert(version) {
            errors.invalid(&path.index(i), *version, "duplicate version");
            continue;
        }
        invalid_each(errors, &path.index(i), *version, names::dns1035_label(version));
    }
    if !any && !versions.iter().any(|version| REVIEW_VERSIONS.contains(version)) {
        errors.invalid(path, versions, format!("must include at least one of {known}"));
    }
}

fn validate_client(errors: &mut Errors, client: &Value, path: &FieldPath<'_>) {
    match (client.get("url").and_then(Value::as_str), client.get("service")) {
        (Some(url), None) => webhook::validate_url(errors, url, &path.child("url")),
        (None, Some(service)) => webhook::validate_service(errors, service, &path.child("service")),
        _ => errors.required(path, "exactly one of url or service is required"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, messages, object};

    const MUTATING: WebhookConfigurationStrategy = WebhookConfigurationStrategy { mutating: true };

    fn check(hook: &str, expect: &[&str]) {
        let mut configuration = object(&format!(r#"{{"webhooks":[{hook}]}}"#));
        MUTATING.defaults(&mut configuration);
        assert_eq!(messages(&MUTATING.validate(&context(), &configuration)), expect, "{hook}");
    }

    #[test]
    fn defaults() {
        let mut configuration =
            object(r#"{"webhooks":[{"clientConfig":{"service":{}},"rules":[{"operations":["*"]}]}]}"#);
        MUTATING.defaults(&mut configuration);
        assert_eq!(
            configuration["webhooks"][0],
            object(
                r#"{"clientConfig":{"service":{"port":443}},"rules":[{"operations":["*"],"scope":"*"}],"failurePolicy":"Fail",
                    "matchPolicy":"Equivalent","namespaceSelector":{},"objectSelector":{},"timeoutSeconds":10,"reinvocationPolicy":"Never"}"#
            )
        );
    }

    #[test]
    fn webhooks() {
        check(
            r#"{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://h/p"},
                "rules":[{"operations":["CREATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["pods","pods/*"]}]}"#,
            &[],
        );
        check(
            r#"{"name":"a.example.com","admissionReviewVersions":["v2","v2"],"clientConfig":{"url":"http://u@h?q#f"},"timeoutSeconds":31,
                "rules":[{"operations":["*","x"],"apiGroups":["*","a"],"resources":["*","pods","pods/*","pods/status"],"scope":"y"}]}"#,
            &[
                "webhooks[0].rules[0].operations: Invalid value: [\"*\",\"x\"]: if '*' is present, must not specify other operations",
                "webhooks[0].rules[0].operations[1]: Unsupported value: \"x\": supported values: \"*\", \"CONNECT\", \"CREATE\", \"DELETE\", \"UPDATE\"",
                "webhooks[0].rules[0].apiGroups: Invalid value: [\"*\",\"a\"]: if '*' is present, must not specify other API groups",
                "webhooks[0].rules[0].apiVersions: Required value",
                "webhooks[0].rules[0].resources[3]: Invalid value: \"pods/status\": if 'pods/*' is present, must not specify pods/status",
                "webhooks[0].rules[0].resources: Invalid value: [\"*\",\"pods\",\"pods/*\",\"pods/status\"]: if '*' is present, must not specify other resources without subresources",
                "webhooks[0].rules[0].scope: Unsupported value: \"y\": supported values: \"*\", \"Cluster\", \"Namespaced\"",
                "webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun",
                "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds",
                "webhooks[0].clientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: https://host[/path]",
                "webhooks[0].clientConfig.url: Invalid value: \"u\": user information is not permitted in the URL",
                "webhooks[0].clientConfig.url: Invalid value: \"f\": fragments are not permitted in the URL",
                "webhooks[0].clientConfig.url: Invalid value: \"q\": query parameters are not permitted in the URL",
                "webhooks[0].admissionReviewVersions[1]: Invalid value: \"v2\": duplicate version",
                "webhooks[0].admissionReviewVersions: Invalid value: [\"v2\",\"v2\"]: must include at least one of v1, v1beta1",
            ],
        );
        check(
            r#"{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"service":{"name":"s","path":"/a//B"}},
                "matchConditions":[{"name":"x","expression":" "},{"name":"x","expression":"true"}]}"#,
            &[
                "webhooks[0].clientConfig.service.name: Required value",
                "webhooks[0].clientConfig.service.path: Invalid value: \"/a//B\": segment[1] may not be empty",
                "webhooks[0].clientConfig.service.path: Invalid value: \"/a//B\": segment[2]: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
                "webhooks[0].matchConditions[0].expression: Required value",
                "webhooks[0].matchConditions[1].name: Duplicate value: \"x\"",
            ],
        );
        check(
            r#"{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://h/p"},
                "matchConditions":[{"name":"a","expression":" object.a == 1 && authorizer.requestResource.check('get').allowed() "},
                    {"name":"b","expression":" object.spec "},{"name":"c","expression":"variables.x || params.y"}]}"#,
            &[
                "webhooks[0].matchConditions[1].expression: Invalid value: \"object.spec\": must evaluate to bool but got dyn",
                "webhooks[0].matchConditions[2].expression: Invalid value: \"variables.x || params.y\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'variables' (in container '')\n | variables.x || params.y\n | ^\nERROR: <input>:1:16: undeclared reference to 'params' (in container '')\n | variables.x || params.y\n | ...............^",
            ],
        );
    }

    #[test]
    fn errors_of_the_old_configuration_are_tolerated() {
        let old = object(
            r#"{"webhooks":[{"name":"a.example.com","sideEffects":"Unknown","admissionReviewVersions":["v0"],"clientConfig":{"url":"https://h"}}]}"#,
        );
        assert!(MUTATING.validate_update(&context(), &old, &old).is_empty());
        assert!(!MUTATING.validate(&context(), &old).is_empty());
        let old = object(
            r#"{"webhooks":[{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"https://h"},
                "matchConditions":[{"name":"a","expression":"unknown()"}]}]}"#,
        );
        assert!(MUTATING.validate_update(&context(), &old, &old).is_empty());
        assert!(!MUTATING.validate(&context(), &old).is_empty());
    }
}

//! The plugin `PodNodeSelector` (upstream: `plugin/pkg/admission/podnodeselector`). Pods get the node selector of their
//! namespace, and may use only the labels in the whitelist of the namespace.

use std::collections::BTreeMap;

use pintle_registry::{ApiError, GroupResource};
use pintle_value::{FieldPath, Value, names};

use crate::{AdmissionAttributes, Phase, SyncPlugin};

/// The annotation of a namespace with its node selector.
const ANNOTATION: &str = "scheduler.alpha.kubernetes.io/node-selector";
/// The entry of the configuration with the node selector of namespaces without the annotation.
const DEFAULT: &str = "clusterDefaultNodeSelector";
/// The field of the configuration. Its case does not matter, as in Go's decoder.
const CONFIGURATION_FIELD: &str = "podNodeSelectorPluginConfig";

type Labels = BTreeMap<String, String>;

/// The admission plugin `PodNodeSelector`.
#[derive(Clone, Debug, Default)]
pub(crate) struct PodNodeSelector {
    /// The default selector, and the whitelists by namespace.
    selectors: Labels,
}

impl PodNodeSelector {
    /// The plugin with a configuration in YAML or JSON. As in upstream, a malformed configuration counts as empty.
    #[must_use]
    pub(crate) fn from_text(text: Option<&[u8]>) -> Self {
        let decoded = pintle_codec::yaml::decode(text.unwrap_or_default()).map(|decoded| decoded.value);
        let configuration = decoded.unwrap_or_default();
        let mut fields = configuration.entries_at(&[]);
        let field = fields.find(|(name, _)| name.eq_ignore_ascii_case(CONFIGURATION_FIELD));
        let entries = field.into_iter().flat_map(|(_, entries)| entries.entries_at(&[]));
        let selectors = entries.filter_map(|(name, selector)| Some((name.to_owned(), selector.as_str()?.to_owned())));
        Self { selectors: selectors.collect() }
    }

    fn selector(&self, name: &str) -> &str {
        self.selectors.get(name).map_or("", String::as_str)
    }

    /// The node selector of the namespace of a write.
    fn of_namespace(&self, attributes: &AdmissionAttributes<'_>) -> Result<Labels, ApiError> {
        let namespace = attributes.decode_namespace().map_err(|error| match error {
            // Upstream wraps its own error for a namespace that does not exist.
            ApiError::NotFound { .. } => {
                ApiError::Internal(format!("namespace {} does not exist", attributes.namespace))
            }
            error => error,
        })?;
        parse(namespace.annotation(ANNOTATION).unwrap_or_else(|| self.selector(DEFAULT)))
    }
}

/// The node selector of a pod.
fn labels(pod: &Value) -> impl Iterator<Item = (&str, &str)> {
    let selector = pod.entries_at(&["spec", "nodeSelector"]);
    selector.filter_map(|(key, value)| Some((key, value.as_str()?)))
}

/// Upstream names the pod by its name, even if the name is not generated yet.
fn refusal(pod: &Value, why: &str) -> ApiError {
    ApiError::Forbidden {
        resource: GroupResource::new("", "pods"),
        name: pod.name().into(),
        why: why.to_owned(),
        causes: Vec::new(),
    }
}

fn check_conflict(pod: &Value, selector: &Labels) -> Result<(), ApiError> {
    let differs = |(key, value): (&str, &str)| selector.get(key).is_some_and(|other| other != value);
    match labels(pod).any(differs) {
        true => Err(refusal(pod, "pod node label selector conflicts with its namespace node label selector")),
        false => Ok(()),
    }
}

/// Parses a node selector such as `a=b,c=d` (upstream: `ConvertSelectorToLabelsMap`).
fn parse(text: &str) -> Result<Labels, ApiError> {
    let mut labels = Labels::new();
    if text.is_empty() {
        return Ok(labels);
    }
    for label in text.split(',') {
        let parts: Vec<&str> = label.split('=').collect();
        let [key, value] = &*parts else {
            return Err(ApiError::Unclassified(format!("invalid selector: [{}]", parts.join(" "))));
        };
        let (key, value) = (key.trim(), value.trim());
        let mut errors = pintle_value::Errors::new();
        // Upstream has no path here, and prints `<nil>` for it.
        let path = FieldPath::new("<nil>");
        let (in_key, in_value) = (names::label_key(key), names::label_value(value));
        if !in_key.is_empty() {
            errors.invalid(&path, key, in_key.join("; "));
        } else if !in_value.is_empty() {
            errors.invalid(&FieldPath::new(&format!("[{key}]")), value, in_value.join("; "));
        }
        if let Some(error) = errors.iter().next() {
            return Err(ApiError::Unclassified(error.to_string()));
        }
        labels.insert(key.to_owned(), value.to_owned());
    }
    Ok(labels)
}

impl SyncPlugin for PodNodeSelector {
    const NAME: &'static str = "PodNodeSelector";
    const PHASES: &'static [Phase] = &[Phase::Mutating, Phase::Validating];

    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        attributes.creates("", "pods")
    }

    fn mutate(&self, attributes: &AdmissionAttributes<'_>, pod: &mut Value) -> Result<(), ApiError> {
        let mut selector = self.of_namespace(attributes)?;
        check_conflict(pod, &selector)?;
        selector.extend(labels(pod).map(|(key, value)| (key.to_owned(), value.to_owned())));
        if !selector.is_empty() {
            let selector: pintle_value::Object = selector.into_iter().collect();
            pod.set_at(&["spec", "nodeSelector"], selector);
        }
        self.validate(attributes, pod)
    }

    fn validate(&self, attributes: &AdmissionAttributes<'_>, pod: &Value) -> Result<(), ApiError> {
        check_conflict(pod, &self.of_namespace(attributes)?)?;
        let whitelist = parse(self.selector(attributes.namespace))?;
        if whitelist.is_empty() || labels(pod).all(|(key, value)| whitelist.get(key).is_some_and(|v| v == value)) {
            return Ok(());
        }
        Err(refusal(pod, "pod node label selector labels conflict with its namespace whitelist"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scenario, json};

    const CONFIGURATION: &str = "podNodeSelectorPluginConfig:\n  clusterDefaultNodeSelector: zone=any\n  \
                                 strict: zone=any,disk=ssd\n";

    fn check(namespace: &str, selector: &str, expect: Result<&str, &str>) {
        let namespaces =
            [("plain", ""), ("marked", "env=test, team=a"), ("empty", ""), ("strict", ""), ("broken", "a=b=c")];
        let stored = namespaces.map(|(name, selector)| {
            let mut namespace = json(&format!(r#"{{"kind":"Namespace","metadata":{{"name":"{name}"}}}}"#));
            if !selector.is_empty() || name == "empty" {
                namespace.annotate(ANNOTATION, selector);
            }
            namespace
        });
        let scenario = Scenario { stored: stored.to_vec(), ..Scenario::create("", "pods") };
        let pod = |selector: &str| {
            json(&format!(r#"{{"metadata":{{"name":"p","namespace":"{namespace}"}},"spec":{{{selector}}}}}"#))
        };
        let plugin = PodNodeSelector::from_text(Some(CONFIGURATION.as_bytes()));
        let expect = expect.map(pod);
        scenario.check_mutate(&plugin, pod(selector), expect.as_ref().map_err(|text| *text));
        if let Ok(pod) = &expect {
            scenario.check_validate(&plugin, pod, Ok(()));
        }
    }

    #[test]
    fn pods_get_the_selector_of_their_namespace() {
        check("plain", "", Ok(r#""nodeSelector":{"zone":"any"}"#));
        check("plain", r#""nodeSelector":{"a":"b"}"#, Ok(r#""nodeSelector":{"a":"b","zone":"any"}"#));
        check("marked", r#""nodeSelector":{"env":"test"}"#, Ok(r#""nodeSelector":{"env":"test","team":"a"}"#));
        check("empty", "", Ok(""));
        check("strict", r#""nodeSelector":{"disk":"ssd"}"#, Ok(r#""nodeSelector":{"disk":"ssd","zone":"any"}"#));
    }

    #[test]
    fn other_selectors_are_refused() {
        check(
            "marked",
            r#""nodeSelector":{"env":"prod"}"#,
            Err("pods \"p\" is forbidden: pod node label selector conflicts with its namespace node label selector"),
        );
        for selector in [r#"{"disk":"hdd"}"#, r#"{"other":"x"}"#] {
            check(
                "strict",
                &format!(r#""nodeSelector":{selector}"#),
                Err("pods \"p\" is forbidden: pod node label selector labels conflict with its namespace whitelist"),
            );
        }
        check("broken", "", Err("invalid selector: [a b c]"));
    }

    #[test]
    fn a_malformed_configuration_counts_as_empty() {
        for text in ["", "a: [", "podNodeSelectorPluginConfig: 3"] {
            assert!(PodNodeSelector::from_text(Some(text.as_bytes())).selectors.is_empty(), "{text}");
        }
        let json = br#"{"PodNodeSelectorPluginConfig": {"n": "a=b"}}"#;
        assert_eq!(PodNodeSelector::from_text(Some(json)).selector("n"), "a=b");
    }
}

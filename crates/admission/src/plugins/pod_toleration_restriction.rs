//! The plugin `PodTolerationRestriction` (upstream: `plugin/pkg/admission/podtolerationrestriction`). Pods get the
//! default tolerations of their namespace or of the cluster. They may have only tolerations of the whitelist.

use std::sync::LazyLock;

use pintle_auth::config_file::{ConfigScheme, ConfigTypes};
use pintle_gates::Gates;
use pintle_registry::ApiError;
use pintle_schema::Scalar;
use pintle_value::{FieldPath, Value, object};

use crate::{AdmissionAttributes, AdmissionOperation, Phase, PluginError, SyncPlugin, tolerations};

/// The annotation of a namespace with its default tolerations.
const DEFAULT_TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/defaultTolerations";
/// The annotation of a namespace with its whitelist.
const WHITELIST: &str = "scheduler.alpha.kubernetes.io/tolerationsWhitelist";
const MEMORY_PRESSURE: &str = "node.kubernetes.io/memory-pressure";

static SCHEME: LazyLock<ConfigScheme> = LazyLock::new(|| {
    let mut types = ConfigTypes::default();
    let (text, number) = (types.scalar(Scalar::String), types.scalar(Scalar::Int64));
    let fields = [("key", text), ("operator", text), ("value", text), ("effect", text), ("*tolerationSeconds", number)];
    let toleration = types.object("v1.Toleration", &fields);
    let list = types.list(toleration);
    let fields = [("kind", text), ("apiVersion", text), ("default", list), ("whitelist", list)];
    let configuration = types.object("v1alpha1.Configuration", &fields);
    let kinds = vec![("podtolerationrestriction.admission.k8s.io/v1alpha1", "Configuration", configuration)];
    let name = "k8s.io/kubernetes/plugin/pkg/admission/podtolerationrestriction/config.go:32";
    ConfigScheme { name, strict: false, types, kinds }
});

/// The admission plugin `PodTolerationRestriction`.
#[derive(Clone, Debug, Default)]
pub(crate) struct PodTolerationRestriction {
    /// The default tolerations of the cluster.
    default: Vec<Value>,
    /// The whitelist of the cluster.
    whitelist: Vec<Value>,
    /// The gates, on which the class of a pod depends.
    gates: Gates,
}

impl PodTolerationRestriction {
    /// The plugin with a configuration in YAML or JSON.
    ///
    /// # Errors
    /// The configuration is malformed or invalid.
    pub(crate) fn from_text(text: Option<&[u8]>, gates: &Gates) -> Result<Self, PluginError> {
        let gates = gates.clone();
        let Some(text) = text else { return Ok(Self { gates, ..Self::default() }) };
        let configuration = SCHEME.decode(text).map_err(|error| PluginError::Unreadable(error.to_string()))?.value;
        let list = |name: &str| configuration.items_at(&[name]).to_vec();
        let plugin = Self { default: list("default"), whitelist: list("whitelist"), gates };
        let path = FieldPath::new("podtolerationrestriction");
        let mut errors = pintle_kinds::validate_toleration_list(&plugin.default, &path.child("default"));
        errors.append(pintle_kinds::validate_toleration_list(&plugin.whitelist, &path.child("whitelist")));
        if errors.is_empty() {
            return Ok(plugin);
        }
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        Err(PluginError::Unreadable(format!("invalid config: [{}]", errors.join(" "))))
    }
}

/// The quality-of-service class that the client has sent. If there is none, the class follows from the resources.
fn qos_class<'p>(gates: &Gates, pod: &'p Value) -> &'p str {
    match pod.str_at(&["status", "qosClass"]) {
        "" => pintle_kinds::qos_class(gates, &pod["spec"]),
        class => class,
    }
}

/// The tolerations in an annotation of the namespace of a write; `None` without the annotation. An empty text is an
/// empty list.
fn of_namespace(attributes: &AdmissionAttributes<'_>, annotation: &str) -> Result<Option<Vec<Value>>, ApiError> {
    let namespace = attributes.decode_namespace()?;
    let Some(text) = namespace.annotation(annotation) else { return Ok(None) };
    if text.is_empty() {
        return Ok(Some(Vec::new()));
    }
    let decoded = pintle_codec::json::decode(text.as_bytes(), pintle_codec::json::DecodeOptions::default());
    let decoded = decoded.map_err(|error| ApiError::Unclassified(error.to_string()))?.value;
    match decoded {
        Value::Null => Ok(None),
        Value::Array(items) => items.iter().map(toleration).collect::<Result<_, _>>().map(Some),
        other => Err(mistyped(&other, "Go value of type []v1.Toleration")),
    }
}

fn mistyped(value: &Value, expected: &str) -> ApiError {
    ApiError::Unclassified(format!("json: cannot unmarshal {} into {expected}", value.json_type()))
}

/// A toleration as Go decodes it: without unknown fields, and with fields of the right types.
fn toleration(item: &Value) -> Result<Value, ApiError> {
    const FIELDS: [(&str, &str); 5] = [
        ("key", "string"),
        ("operator", "v1.TolerationOperator"),
        ("value", "string"),
        ("effect", "v1.TaintEffect"),
        ("tolerationSeconds", "int64"),
    ];
    if item.as_object().is_none() && !item.is_null() {
        return Err(mistyped(item, "Go value of type v1.Toleration"));
    }
    let mut toleration = Value::object();
    for (field, ty) in FIELDS {
        let Some(value) = item.get(field) else { continue };
        let fits = if ty == "int64" { value.as_int().is_some() } else { value.as_str().is_some() };
        if !fits {
            return Err(mistyped(value, &format!("Go struct field Toleration.{field} of type {ty}")));
        }
        toleration.set(field, value.clone());
    }
    Ok(toleration)
}

impl SyncPlugin for PodTolerationRestriction {
    const NAME: &'static str = "PodTolerationRestriction";
    const PHASES: &'static [Phase] = &[Phase::Mutating, Phase::Validating];

    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        attributes.creates_or_updates("", "pods")
    }

    fn mutate(&self, attributes: &AdmissionAttributes<'_>, pod: &mut Value) -> Result<(), ApiError> {
        let mut extra = Vec::new();
        if attributes.operation == AdmissionOperation::Create {
            extra = of_namespace(attributes, DEFAULT_TOLERATIONS)?.unwrap_or_else(|| self.default.clone());
        }
        if qos_class(&self.gates, pod) != "BestEffort" {
            extra.push(object! {"key": MEMORY_PRESSURE, "operator": "Exists", "effect": "NoSchedule"});
        }
        if !extra.is_empty() {
            let merged = tolerations::merge(pod.items_at(&["spec", "tolerations"]), &extra);
            pod.set_at(&["spec", "tolerations"], merged);
        }
        self.validate(attributes, pod)
    }

    fn validate(&self, attributes: &AdmissionAttributes<'_>, pod: &Value) -> Result<(), ApiError> {
        let given = pod.items_at(&["spec", "tolerations"]);
        if given.is_empty() {
            return Ok(());
        }
        let own = of_namespace(attributes, WHITELIST)?;
        let (whitelist, scope) = match &own {
            Some(whitelist) => (whitelist, "namespace"),
            None => (&self.whitelist, "cluster"),
        };
        if tolerations::are_listed(given, whitelist) {
            return Ok(());
        }
        Err(ApiError::Unclassified(format!(
            "pod tolerations (possibly merged with namespace default tolerations) conflict with its {scope} whitelist"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scenario, json};

    const CONFIGURATION: &str = "apiVersion: podtolerationrestriction.admission.k8s.io/v1alpha1\nkind: Configuration\n\
        default: [{key: cluster, operator: Exists}]\n\
        whitelist: [{key: cluster, operator: Exists}, {key: node.kubernetes.io/memory-pressure, operator: Exists}]\n";

    fn scenario(annotations: &str) -> Scenario {
        let namespace =
            json(&format!(r#"{{"kind":"Namespace","metadata":{{"name":"n","annotations":{{{annotations}}}}}}}"#));
        Scenario { stored: vec![namespace], ..Scenario::create("", "pods") }
    }

    fn pod(spec: &str) -> Value {
        json(&format!(r#"{{"metadata":{{"name":"p","namespace":"n"}},"spec":{spec}}}"#))
    }

    fn check(scenario: &Scenario, spec: &str, expect: Result<&str, &str>) {
        let plugin = PodTolerationRestriction::from_text(Some(CONFIGURATION.as_bytes()), &Gates::default())
            .expect("a configuration");
        let expect = expect.map(pod);
        scenario.check_mutate(&plugin, pod(spec), expect.as_ref().map_err(|text| *text));
    }

    const CLUSTER: &str = r#"{"key":"cluster","operator":"Exists"}"#;
    const PRESSURE: &str = r#"{"key":"node.kubernetes.io/memory-pressure","operator":"Exists","effect":"NoSchedule"}"#;

    #[test]
    fn pods_get_the_tolerations_of_their_namespace_or_of_the_cluster() {
        check(&scenario(""), "{}", Ok(&format!(r#"{{"tolerations":[{CLUSTER}]}}"#)));
        let empty = r#""scheduler.alpha.kubernetes.io/defaultTolerations":"""#;
        check(&scenario(empty), "{}", Ok("{}"));
        let own = r#""scheduler.alpha.kubernetes.io/defaultTolerations":"[{\"key\":\"own\",\"operator\":\"Exists\"}]",
            "scheduler.alpha.kubernetes.io/tolerationsWhitelist":"""#;
        let given = r#"{"key":"own","operator":"Equal","value":"v"}"#;
        check(
            &scenario(own),
            &format!(r#"{{"tolerations":[{given}]}}"#),
            Ok(r#"{"tolerations":[{"key":"own","operator":"Exists"}]}"#),
        );
        let update = Scenario { old: Some(pod("{}")), operation: AdmissionOperation::Update, ..scenario("") };
        check(&update, "{}", Ok("{}"));
    }

    #[test]
    fn pods_with_requests_tolerate_memory_pressure() {
        let containers = r#""containers":[{"resources":{"requests":{"memory":"1Gi"}}}]"#;
        check(
            &scenario(""),
            &format!("{{{containers}}}"),
            Ok(&format!(r#"{{{containers},"tolerations":[{CLUSTER},{PRESSURE}]}}"#)),
        );
    }

    #[test]
    fn other_tolerations_than_those_of_the_whitelist_are_refused() {
        let conflict = |scope: &str| {
            format!(
                "pod tolerations (possibly merged with namespace default tolerations) conflict with its {scope} whitelist"
            )
        };
        let other = r#"{"tolerations":[{"key":"other","operator":"Exists"}]}"#;
        check(&scenario(""), other, Err(&conflict("cluster")));
        let own =
            r#""scheduler.alpha.kubernetes.io/tolerationsWhitelist":"[{\"key\":\"own\",\"operator\":\"Exists\"}]""#;
        check(&scenario(own), "{}", Err(&conflict("namespace")));
        for (broken, expected) in [
            ("{}", "object into Go value of type []v1.Toleration"),
            ("[1]", "number into Go value of type v1.Toleration"),
            (r#"[{\"effect\":5}]"#, "number into Go struct field Toleration.effect of type v1.TaintEffect"),
            (
                r#"[{\"tolerationSeconds\":\"5\"}]"#,
                "string into Go struct field Toleration.tolerationSeconds of type int64",
            ),
        ] {
            let annotation = format!(r#""scheduler.alpha.kubernetes.io/tolerationsWhitelist":"{broken}""#);
            check(&scenario(&annotation), "{}", Err(&format!("json: cannot unmarshal {expected}")));
        }
        let scenario = Scenario { stored: Vec::new(), ..Scenario::create("", "pods") };
        check(&scenario, "{}", Err("namespaces \"n\" not found"));
    }

    #[test]
    fn invalid_configurations_are_errors() {
        let error = |text: &str| PodTolerationRestriction::from_text(Some(text.as_bytes()), &Gates::default()).err();
        let head = "apiVersion: podtolerationrestriction.admission.k8s.io/v1alpha1\nkind: Configuration\n";
        let expect = "invalid config: [podtolerationrestriction.default[0].operator: Invalid value: \"Equal\": operator must \
                      be Exists when `key` is empty, which means \"match all values and all keys\"]";
        assert_eq!(
            error(&format!("{head}default: [{{operator: Equal}}]")),
            Some(PluginError::Unreadable(expect.to_owned()))
        );
        assert!(error("a: [").is_some() && error(head).is_none());
    }
}

//! A custom resource as it is served.

use std::sync::Arc;

use pintle_extensions::build_resources;
use pintle_registry::{CrdSource, Resource};
use pintle_value::{Value, object};
use pintle_versions::{EffectiveVersion, Minor};

/// Creates a CRD whose names are accepted.
pub(crate) fn crd(schema: Value, scale: Option<&Value>) -> Value {
    let mut version = object! {
        "name": "v1", "served": true, "storage": true, "subresources": object! { "status": object! {} },
        "schema": object! { "openAPIV3Schema": schema },
    };
    if let Some(scale) = scale {
        version.set_at(&["subresources", "scale"], scale.clone());
    }
    let names = object! { "plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList" };
    let accepted = object! { "type": "NamesAccepted", "status": "True" };
    object! {
        "metadata": object! { "name": "widgets.example.com", "resourceVersion": "1" },
        "spec": object! {
            "group": "example.com", "scope": "Namespaced", "names": names.clone(), "versions": vec![version],
            "conversion": object! { "strategy": "None" },
        },
        "status": object! {
            "storedVersions": vec![Value::from("v1")], "acceptedNames": names, "conditions": vec![accepted],
        },
    }
}

/// Builds the resource of a CRD, if it can be served.
#[allow(dead_code, reason = "not every test is of the default version")]
pub(crate) fn kind(crd: &Value) -> Option<Arc<Resource>> {
    kind_of_version(crd, EffectiveVersion::of(Minor::DEFAULT))
}

/// Builds the resource of a CRD as a version of Kubernetes serves it.
#[allow(dead_code, reason = "not every test has versions")]
pub(crate) fn kind_of_version(crd: &Value, served_by: EffectiveVersion) -> Option<Arc<Resource>> {
    let schema = crd
        .items_at(&["spec", "versions"])
        .first()
        .and_then(|version| version.at(&["schema", "openAPIV3Schema"]).cloned());
    let source: Arc<dyn CrdSource> = Arc::new(Source { schema, served_by });
    build_resources(crd, &source).into_iter().next()
}

/// The source of the CRD's schema.
struct Source {
    schema: Option<Value>,
    served_by: EffectiveVersion,
}

impl CrdSource for Source {
    fn fingerprint(&self) -> &str {
        ""
    }

    fn schema(&self, _: &str) -> Option<Value> {
        self.schema.clone()
    }

    fn served_by(&self) -> EffectiveVersion {
        self.served_by
    }

    fn is_terminating(&self, _: u64, _: &[u8]) -> bool {
        false
    }
}

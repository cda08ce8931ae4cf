//! A custom resource as it is served.

use std::sync::Arc;

use pintle_extensions::build_resources;
use pintle_registry::{CrdSource, Resource};
use pintle_value::{Value, object};

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
pub(crate) fn kind(crd: &Value) -> Option<Arc<Resource>> {
    let schema = crd
        .items_at(&["spec", "versions"])
        .first()
        .and_then(|version| version.at(&["schema", "openAPIV3Schema"]).cloned());
    let source: Arc<dyn CrdSource> = Arc::new(Source(schema));
    build_resources(crd, &source).into_iter().next()
}

/// The source of the CRD's schema.
struct Source(Option<Value>);

impl CrdSource for Source {
    fn fingerprint(&self) -> &str {
        ""
    }

    fn schema(&self, _: &str) -> Option<Value> {
        self.0.clone()
    }

    fn is_terminating(&self, _: u64, _: &[u8]) -> bool {
        false
    }
}

//! The data beside the request that matching needs. Each part is computed when it is first needed, and at most once.

use std::sync::OnceLock;

use pintle_registry::{ApiError, EquivalentResource};
use pintle_value::{Str, Value};

use crate::AdmissionAttributes;

/// The equivalent resources of a request, and the labels of its namespace.
#[derive(Debug, Default)]
pub struct MatchingCache {
    equivalents: OnceLock<Vec<EquivalentResource>>,
    namespace: OnceLock<Result<Labels, ApiError>>,
}

/// Labels of a stored object.
#[derive(Debug)]
pub(super) struct Labels(Vec<(Str, Str)>);

impl Labels {
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(own, _)| own == key).map(|(_, value)| value.as_str())
    }
}

/// The labels that a selector of namespaces is compared with.
pub(super) enum RequestLabels<'a> {
    /// The labels of the new object, which is the namespace.
    OfObject,
    /// The labels of the stored namespace.
    Stored(&'a Labels),
}

impl MatchingCache {
    /// The other resources that serve the objects of a request.
    pub(super) fn equivalents(&self, attributes: &AdmissionAttributes<'_>) -> &[EquivalentResource] {
        self.equivalents
            .get_or_init(|| attributes.client.equivalent_resources(attributes.resource, attributes.subresource))
    }

    /// Calls `each` with every label that selectors of namespaces are compared with. Returns false if such selectors do
    /// not apply to this request, or if the namespace cannot be read.
    pub(crate) fn for_each_namespace_label(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: &Value,
        each: &mut dyn FnMut(&str, &str),
    ) -> bool {
        if attributes.namespace.is_empty() && attributes.resource.plural != "namespaces" {
            return false;
        }
        match self.namespace_labels(attributes) {
            Ok(RequestLabels::OfObject) => {
                let labels = object.entries_at(&["metadata", "labels"]);
                labels.for_each(|(key, value)| each(key, value.as_str().unwrap_or_default()));
            }
            Ok(RequestLabels::Stored(labels)) => labels.0.iter().for_each(|(key, value)| each(key, value)),
            Err(_) => return false,
        }
        true
    }

    /// The labels of the namespace of a request. A namespace that is created or updated is not stored yet.
    pub(super) fn namespace_labels(&self, attributes: &AdmissionAttributes<'_>) -> Result<RequestLabels<'_>, ApiError> {
        let is_namespace = attributes.resource.plural == "namespaces" && attributes.subresource.is_empty();
        if is_namespace && attributes.is_create_or_update() {
            return Ok(RequestLabels::OfObject);
        }
        let labels = self.namespace.get_or_init(|| read_labels(attributes));
        labels.as_ref().map(RequestLabels::Stored).map_err(Clone::clone)
    }
}

fn read_labels(attributes: &AdmissionAttributes<'_>) -> Result<Labels, ApiError> {
    let namespace = attributes.read_namespace()?;
    Ok(Labels(namespace.labels().map(|(key, value)| (Str::from(key), Str::from(value))).collect()))
}

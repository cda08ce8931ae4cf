//! The parameter objects of a binding (upstream: `CollectParams` of `policy/generic`).

use std::sync::Arc;

use pintle_registry::{GroupVersion, GroupVersionKind, Resource, Scope};
use pintle_selector::LabelSelector;
use pintle_value::{Str, Value};

use crate::AdmissionAttributes;

/// The kind of the parameters of a policy.
#[derive(Clone, Debug)]
pub(super) struct ParamKind(GroupVersionKind);

impl ParamKind {
    /// Reads a `paramKind`. `None` if its version is malformed, which validation refuses.
    pub(super) fn of(kind: &Value) -> Option<Self> {
        let GroupVersion { group, version } = GroupVersion::parse(kind.str_at(&["apiVersion"]))?;
        Some(Self(GroupVersionKind::new(group, version, kind.str_at(&["kind"]))))
    }

    /// The resource of the kind.
    ///
    /// # Errors
    /// The kind is not served.
    pub(super) fn resource(&self, attributes: &AdmissionAttributes<'_>) -> Result<Arc<Resource>, String> {
        let Self(GroupVersionKind { group, version, kind }) = self;
        attributes
            .client
            .resource_of_kind(&self.0)
            .ok_or_else(|| format!("failed to find resource referenced by paramKind: '{group}/{version}, Kind={kind}'"))
    }
}

/// A `paramRef`.
#[derive(Debug)]
pub(super) struct ParamRef {
    name: Str,
    namespace: Str,
    selector: Option<Result<LabelSelector, String>>,
    denies_missing: bool,
}

impl ParamRef {
    pub(super) fn of(reference: &Value) -> Self {
        let selector = reference.get("selector");
        Self {
            name: reference.str_at(&["name"]).into(),
            namespace: reference.str_at(&["namespace"]).into(),
            selector: selector
                .map(|selector| LabelSelector::from_label_selector(selector).map_err(|error| error.to_string())),
            denies_missing: reference.str_at(&["parameterNotFoundAction"]) == "Deny",
        }
    }

    /// True if the reference names an object.
    pub(super) fn is_named(&self) -> bool {
        !self.name.is_empty() && self.selector.is_none()
    }

    /// The parameter objects of a request, of the resource of the policy's `paramKind`.
    ///
    /// # Errors
    /// The reference does not fit the scope of the resource, objects cannot be read, or there are no objects
    /// and the reference denies that.
    pub(super) fn read(&self, attributes: &AdmissionAttributes<'_>, resource: &Resource) -> Result<Vec<Value>, String> {
        let namespace = match resource.scope {
            Scope::Namespaced if !self.namespace.is_empty() => &*self.namespace,
            Scope::Namespaced if attributes.namespace.is_empty() => {
                let why = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources";
                return Err(why.to_owned());
            }
            Scope::Namespaced => attributes.namespace,
            Scope::Cluster if !self.namespace.is_empty() => {
                return Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned());
            }
            Scope::Cluster => "",
        };
        let group_resource = resource.group_resource();
        let client = attributes.client;
        let mut params = Vec::new();
        if !self.name.is_empty() {
            if self.selector.is_some() {
                return Err("paramRef.name and paramRef.selector are mutually exclusive".to_owned());
            }
            params.extend(client.get(&group_resource, namespace, &self.name).map_err(|error| error.to_string())?);
        } else if let Some(selector) = &self.selector {
            let selector = selector.as_ref().map_err(Clone::clone)?;
            for object in client.read_all(&group_resource, namespace).map_err(|error| error.to_string())? {
                let matches =
                    selector.matches(|key| object.labels().find(|(own, _)| *own == key).map(|(_, value)| value));
                if matches {
                    params.push(object.decode().map_err(|error| error.to_string())?);
                }
            }
        } else {
            return Err("one of name or selector must be provided".to_owned());
        }
        if params.is_empty() && self.denies_missing {
            return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
        }
        Ok(params)
    }
}

//! The parts of a request that expressions see. Each part is made when the first expression needs it.

use std::borrow::Cow;
use std::sync::OnceLock;

use pintle_admission_cel::{AdmissionRequest, GroupVersionName, RequestAuthorizer, UsedValues};
use pintle_cel::ResourceTarget;
use pintle_registry::{ApiError, GroupVersionKind, GroupVersionResource};
use pintle_value::Value;

use super::access::RequestAccess;
use crate::matching::MatchedResource;
use crate::{AdmissionAttributes, AdmissionOperation};

/// The fields of a namespace that policies see, beside its `spec` and `status` (upstream: `CreateNamespaceObject`).
const NAMESPACE_METADATA: [&str; 12] = [
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "finalizers",
];

/// A request, as expressions see it.
pub(crate) struct ExpressionRequest<'a> {
    attributes: &'a AdmissionAttributes<'a>,
    access: RequestAccess<'a>,
    target: OnceLock<ResourceTarget>,
    /// The variable `request`, if the request matches as it is.
    requested: OnceLock<Value>,
    namespace: OnceLock<Result<Value, ApiError>>,
}

impl<'a> ExpressionRequest<'a> {
    pub(crate) fn new(attributes: &'a AdmissionAttributes<'a>) -> Self {
        Self {
            attributes,
            access: RequestAccess::new(attributes),
            target: OnceLock::new(),
            requested: OnceLock::new(),
            namespace: OnceLock::new(),
        }
    }

    /// `authorizer`.
    pub(crate) fn authorizer(&self) -> RequestAuthorizer<'_> {
        RequestAuthorizer { checker: &self.access, target: self.target.get_or_init(|| self.access.target()) }
    }

    /// `request`, for the validations and mutations of a policy. `request.kind` and `request.resource` are the kind and
    /// the resource that matched. Null if no expression uses it.
    pub(crate) fn matched(&self, matched: &MatchedResource<'_>, used: UsedValues) -> Cow<'_, Value> {
        match (matched, used.request) {
            (MatchedResource::Equivalent(_), true) => {
                Cow::Owned(self.describe(&matched.kind(self.attributes), &matched.resource(self.attributes)))
            }
            _ => Cow::Borrowed(self.requested(used)),
        }
    }

    /// `request`, for the match conditions of a policy. They see the same value as the match conditions of webhooks
    /// ([`at_kind`](Self::at_kind)).
    pub(crate) fn for_conditions(&self, matched: &MatchedResource<'_>, used: UsedValues) -> Cow<'_, Value> {
        match (matched, used.request) {
            (MatchedResource::Equivalent(_), true) => Cow::Owned(self.at_kind(&matched.kind(self.attributes), used)),
            _ => Cow::Borrowed(self.requested(used)),
        }
    }

    /// `request`, if the request matches as it is. Null if no expression uses it.
    fn requested(&self, used: UsedValues) -> &Value {
        match used.request {
            true => {
                self.requested.get_or_init(|| self.describe(&self.attributes.kind(), &self.attributes.resource.gvr()))
            }
            false => &Value::Null,
        }
    }

    /// `request`, for match conditions of webhooks: as in upstream, `request.kind` is the kind that matched, and
    /// `request.resource` the requested one.
    pub(crate) fn at_kind(&self, kind: &GroupVersionKind, used: UsedValues) -> Value {
        match used.request {
            true => self.describe(kind, &self.attributes.resource.gvr()),
            false => Value::Null,
        }
    }

    fn describe(&self, kind: &GroupVersionKind, resource: &GroupVersionResource) -> Value {
        let attributes = self.attributes;
        let (own_kind, own_resource) = (attributes.kind(), attributes.resource.gvr());
        let user = attributes.user;
        AdmissionRequest {
            kind: kind_name(kind),
            resource: resource_name(resource),
            request_kind: kind_name(&own_kind),
            request_resource: resource_name(&own_resource),
            subresource: attributes.subresource,
            name: attributes.name,
            namespace: attributes.namespace,
            operation: attributes.operation.text(),
            user: &user.name,
            uid: &user.uid,
            groups: &user.groups,
            extra: &user.extra,
            dry_run: attributes.dry_run,
            options: attributes.options.to_object(attributes.operation),
        }
        .to_json()
    }

    /// `namespaceObject`: null for cluster-scoped objects and for namespaces, or if no expression uses it.
    ///
    /// # Errors
    /// The namespace does not exist.
    pub(crate) fn namespace(&self, used: UsedValues) -> Result<&Value, ApiError> {
        let attributes = self.attributes;
        // The subresources of namespaces have the kind of namespaces.
        if attributes.namespace.is_empty() || attributes.kind() == GroupVersionKind::new("", "v1", "Namespace") {
            return Ok(&Value::Null);
        }
        if !used.namespace {
            // Upstream looks it up anyway, and fails if it does not exist.
            return match (attributes.operation, self.namespace.get()) {
                (AdmissionOperation::Create, _) | (_, Some(_)) => Ok(&Value::Null),
                _ => attributes.read_namespace().map(|_| &Value::Null),
            };
        }
        let namespace = self.namespace.get_or_init(|| Ok(visible(attributes.read_namespace()?.decode()?)));
        namespace.as_ref().map_err(Clone::clone)
    }
}

/// The parts of a namespace that policies see.
fn visible(mut namespace: Value) -> Value {
    if let Some(metadata) = namespace.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|field, _| NAMESPACE_METADATA.contains(&field));
    }
    if let Some(fields) = namespace.as_object_mut() {
        fields.retain(|field, _| matches!(field, "metadata" | "spec" | "status"));
    }
    namespace
}

fn kind_name(kind: &GroupVersionKind) -> GroupVersionName<'_> {
    GroupVersionName { group: &kind.group, version: &kind.version, name: &kind.kind }
}

fn resource_name(resource: &GroupVersionResource) -> GroupVersionName<'_> {
    GroupVersionName { group: &resource.group, version: &resource.version, name: &resource.resource }
}

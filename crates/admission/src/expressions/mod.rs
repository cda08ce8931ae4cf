//! What the CEL expressions of webhooks and policies see of a request beside its objects.

mod access;

use std::sync::OnceLock;

use pintle_admission_cel::RequestAuthorizer;
use pintle_admission_cel::{AdmissionRequest, EvaluationInput, GroupVersionName, MatchConditions, MatchOutcome};
use pintle_cel::ResourceTarget;
use pintle_registry::{GroupVersionKind, GroupVersionResource};
use pintle_value::Value;

use self::access::RequestAccess;
use crate::AdmissionAttributes;
use crate::objects::VersionedObjects;

/// A request, as expressions see it.
pub(crate) struct RequestView<'a> {
    attributes: &'a AdmissionAttributes<'a>,
    access: RequestAccess<'a>,
    target: OnceLock<ResourceTarget>,
}

impl<'a> RequestView<'a> {
    pub(crate) fn new(attributes: &'a AdmissionAttributes<'a>) -> Self {
        Self { attributes, access: RequestAccess::new(attributes), target: OnceLock::new() }
    }

    /// Evaluates match conditions for the objects at the version that matched. As in upstream, `request.kind` is that
    /// version, and `request.resource` is the one that is requested.
    pub(crate) fn evaluate<'c>(
        &self,
        conditions: &'c MatchConditions,
        objects: &VersionedObjects<'_>,
    ) -> MatchOutcome<'c> {
        let request = self.describe(&objects.kind);
        conditions.evaluate(&EvaluationInput {
            object: &objects.object,
            old_object: &objects.old,
            namespace: &Value::Null,
            request: &request,
            params: &Value::Null,
            authorizer: Some(RequestAuthorizer {
                checker: &self.access,
                target: self.target.get_or_init(|| self.access.target()),
            }),
        })
    }

    fn describe(&self, kind: &GroupVersionKind) -> Value {
        let attributes = self.attributes;
        let (own_kind, resource) = (attributes.kind(), attributes.resource.gvr());
        let user = attributes.user;
        AdmissionRequest {
            kind: kind_name(kind),
            resource: resource_name(&resource),
            request_kind: kind_name(&own_kind),
            request_resource: resource_name(&resource),
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
}

fn kind_name(kind: &GroupVersionKind) -> GroupVersionName<'_> {
    GroupVersionName { group: &kind.group, version: &kind.version, name: &kind.kind }
}

fn resource_name(resource: &GroupVersionResource) -> GroupVersionName<'_> {
    GroupVersionName { group: &resource.group, version: &resource.version, name: &resource.resource }
}

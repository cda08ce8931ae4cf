//! The audit of the server's own writes. Their events are as if the writes were requests over a loopback connection
//! (upstream: the loopback client, the clients of kube-controller-manager).

use std::sync::{Arc, OnceLock};

use http::StatusCode;
use pintle_audit::{Event, ObjectReference};
use pintle_auth::user::ALL_AUTHENTICATED;
use pintle_auth::{AuthorizationAttributes, UserInfo};
use pintle_registry::{ApiError, Resource};
use pintle_value::{Str, Value};

use super::writer::InternalWriter;
use crate::cluster::Cluster;
use crate::objects::encode::{Shape, json};
use crate::represent::status::error_status;
use crate::request::audit::{AuditStages, RequestAudit, now};

/// The address from which the server's own requests come.
const LOOPBACK: &str = "127.0.0.1";
const USER_AGENT: &str = "kube-apiserver";

/// A write of the server itself.
#[derive(Clone, Copy)]
pub(super) struct InternalWrite<'a> {
    pub(super) verb: &'static str,
    pub(super) resource: &'a Arc<Resource>,
    pub(super) subresource: &'a str,
    pub(super) namespace: &'a str,
    /// The name of the object; empty for a create.
    pub(super) name: &'a str,
    /// The body of the request, if it is not the object itself: a configuration, or the options of a delete.
    pub(super) body: Option<&'a Value>,
}

/// The audit of a write of the server itself.
pub(super) struct InternalAudit<'a> {
    write: InternalWrite<'a>,
    writer: &'a InternalWriter,
    audit: Option<Arc<RequestAudit>>,
}

impl<'a> InternalAudit<'a> {
    /// Begins the audit, if the policy selects the write.
    ///
    /// # Errors
    /// The first event cannot be recorded, and nothing may go unrecorded.
    pub(super) async fn begin(
        cluster: &Cluster,
        writer: &'a InternalWriter,
        write: InternalWrite<'a>,
    ) -> Result<Self, ApiError> {
        let mut started = Self { write, writer, audit: None };
        let Some(auditor) = &cluster.audit else { return Ok(started) };
        let user = audited_user(&writer.user);
        let decision = auditor.decide(Some(&user), &write.attributes());
        started.audit = RequestAudit::begin(auditor, decision, AuditStages::Complete, || Event {
            audit_id: uuid::Uuid::new_v4().to_string().into(),
            request_uri: write.path(),
            verb: write.verb.into(),
            user,
            source_ips: vec![LOOPBACK.into()],
            user_agent: USER_AGENT.into(),
            object_ref: Some(write.reference()),
            request_received_timestamp: now(),
            ..Event::default()
        });
        let Some(audit) = &started.audit else { return Ok(started) };
        if audit.records_request() {
            writer.recorder.keep_annotations_with_request();
        }
        if !audit.received(writer.recorder.annotations()).await {
            audit.discard();
            auditor.metrics().record_rejected();
            return Err(ApiError::Internal("failed to store audit event".to_owned()));
        }
        if let Some(body) = write.body {
            audit.set_patch(|| json(body, Shape::Untyped).into());
        }
        Ok(started)
    }

    /// Notes the object that is written, if it is the body of the request.
    pub(super) fn set_object(&self, object: &Value) {
        if let Some(audit) = self.audit.as_ref().filter(|_| self.write.body.is_none()) {
            audit.set_request_object(object, |object| json(object, Shape::of(self.write.resource)));
        }
    }

    /// Records the end of the write, with the object that the response would have, or its error.
    pub(super) async fn end(&self, result: Result<Option<&Value>, &ApiError>) {
        let Some(audit) = &self.audit else { return };
        let code = match result {
            Ok(object) => {
                if let Some(object) = object {
                    audit.encode_response_object(|| json(object, Shape::of(self.write.resource)));
                }
                if self.write.verb == "create" { StatusCode::CREATED } else { StatusCode::OK }
            }
            Err(error) => {
                let error = error_status(error);
                audit.set_status(&error.status);
                error.code
            }
        };
        self.writer.recorder.annotate_allowed();
        audit.started(code, || self.writer.recorder.annotations()).await;
        audit.set_annotations(self.writer.recorder.annotations());
        audit.complete_before_answer().await;
    }
}

/// The server's user as a loopback client has it.
fn audited_user(user: &UserInfo) -> UserInfo {
    static UID: OnceLock<Str> = OnceLock::new();
    let uid = UID.get_or_init(|| uuid::Uuid::new_v4().to_string().into()).clone();
    let groups = std::iter::once(Str::const_new(ALL_AUTHENTICATED)).chain(user.groups.iter().cloned());
    UserInfo { uid, groups: groups.collect(), ..user.clone() }
}

impl<'a> InternalWrite<'a> {
    /// An update of an object, through a subresource if `subresource` is not empty.
    pub(super) fn update(
        resource: &'a Arc<Resource>,
        subresource: &'a str,
        (namespace, name): (&'a str, &'a str),
    ) -> Self {
        Self { verb: "update", resource, subresource, namespace, name, body: None }
    }

    /// The namespace as in the path of a request: the namespace of a namespace is itself.
    fn namespace(&self) -> &'a str {
        if self.resource.is_namespaces() { self.name } else { self.namespace }
    }

    fn attributes(&self) -> AuthorizationAttributes<'_> {
        AuthorizationAttributes {
            verb: self.verb,
            group: &self.resource.group,
            version: &self.resource.version,
            resource: &self.resource.plural,
            subresource: self.subresource,
            namespace: self.namespace(),
            name: self.name,
            ..AuthorizationAttributes::default()
        }
    }

    fn reference(&self) -> ObjectReference {
        ObjectReference {
            resource: self.resource.plural.clone(),
            namespace: self.namespace().into(),
            name: self.name.into(),
            api_group: self.resource.group.clone(),
            api_version: self.resource.version.clone(),
            subresource: self.subresource.into(),
            ..ObjectReference::default()
        }
    }

    /// The path of the request that a client would send.
    fn path(&self) -> String {
        let Self { resource, subresource, namespace, name, .. } = self;
        let group = match &*resource.group {
            "" => "/api/".to_owned(),
            group => format!("/apis/{group}/"),
        };
        let mut path = format!("{group}{}", resource.version);
        if !namespace.is_empty() && !resource.is_namespaces() {
            path.push_str("/namespaces/");
            path.push_str(namespace);
        }
        for part in [&*resource.plural, name, subresource] {
            if !part.is_empty() {
                path.push('/');
                path.push_str(part);
            }
        }
        path
    }
}

//! Issues tokens of service accounts: creates of the subresource `serviceaccounts/token` (upstream:
//! `registry/core/serviceaccount/storage/token.go`).

use std::sync::Arc;

use http::StatusCode;
use pintle_admission::{AdmissionOperation, AdmissionRecorder};
use pintle_auth::service_account::{
    BoundObject, BoundTokenRequest, EXTENDED_EXPIRATION_SECONDS, WARN_ONLY_EXPIRATION_SECONDS, credential_id,
};
use pintle_gates::{Change, Feature};
use pintle_registry::{ApiError, GroupResource, GroupVersionKind, Resource};
use pintle_value::time::{Duration, Time};
use pintle_value::{Errors, FieldPath, Str, Value, object};

use super::internal_client::InternalClient;
use super::subresource::respond_typed;
use super::webhook_token::{self, WebhookReference};
use super::writer::Writer;
use crate::context::RequestContext;
use crate::http::Response;
use crate::request::query::WriteOptions;

/// The validity of a token if the request names none, in seconds.
const DEFAULT_EXPIRATION_SECONDS: i64 = 60 * 60;
/// The shortest validity that may be requested, in seconds.
const MIN_EXPIRATION_SECONDS: i64 = 10 * 60;
/// The longest validity that may be requested, in seconds.
const MAX_EXPIRATION_SECONDS: i64 = 1 << 32;

const GROUP: &str = "authentication.k8s.io";
const KIND: &str = "TokenRequest";
const EXPIRATION_SECONDS: [&str; 2] = ["spec", "expirationSeconds"];

/// A request for a token. It is complete and valid.
struct TokenRequest {
    account: Value,
    now: Time,
}

fn core(resource: &str) -> GroupResource {
    GroupResource::new("", resource)
}

/// The error for a conflict of uids. Upstream names the kind instead of a resource.
fn conflict(group: &str, kind: &str, name: &str, why: String) -> ApiError {
    ApiError::Conflict { resource: GroupResource::new(group, kind), name: name.into(), why }
}

fn invalid(name: &str, errors: Errors) -> Result<(), ApiError> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(ApiError::Invalid { kind: GroupVersionKind::new(GROUP, "v1", KIND), name: name.into(), errors })
}

/// Returns the current state of an object.
async fn get(request: &RequestContext, resource: &str, namespace: &str, name: &str) -> Result<Value, ApiError> {
    crate::cluster::check_key(name)?;
    request.cluster.catch_up().await?;
    let resource = core(resource);
    let found = request.cluster.get_object(&resource, namespace, name)?;
    found.ok_or_else(|| ApiError::NotFound { resource, name: name.into() })
}

/// Handles a request for a token.
pub(super) async fn create(
    request: &RequestContext,
    resource: &Arc<Resource>,
    mut object: Value,
    options: &WriteOptions,
) -> Result<Response, ApiError> {
    if object.int_at(&EXPIRATION_SECONDS).is_none() {
        object.set_at(&EXPIRATION_SECONDS, DEFAULT_EXPIRATION_SECONDS);
    }
    let writer = Writer::for_request(request, options, options.dry_run);
    let client = InternalClient(request.cluster.clone());
    let target = (&*request.info.subresource, &*request.info.namespace, &*request.info.name);
    let attributes = writer.attributes(AdmissionOperation::Create, resource, target, None, &client);
    writer.mutate(&attributes, &mut object).await?;
    let prepared = TokenRequest::prepare(request, &mut object).await?;
    writer.plugins.validate(&attributes, &object).await?;
    prepared.issue(request, &mut object).await?;
    let schema = request.cluster.served.catalog.kind_schema(GROUP, "v1", KIND).ok_or(ApiError::NoSuchPath)?;
    respond_typed(request, StatusCode::CREATED, &object, &schema)
}

impl TokenRequest {
    /// Completes a request with values that only the server sets (default audiences, name, namespace, creation time),
    /// and validates it.
    async fn prepare(request: &RequestContext, object: &mut Value) -> Result<Self, ApiError> {
        let (namespace, name) = (&*request.info.namespace, &*request.info.name);
        let mut errors = Errors::new();
        if !object.name().is_empty() && object.name() != name {
            let path = FieldPath::new("metadata");
            errors.invalid(&path.child("name"), object.name(), "must match the service account name if specified");
        }
        invalid(name, errors)?;
        let account = get(request, "serviceaccounts", namespace, name).await?;
        let uid = object.uid();
        if !uid.is_empty() && uid != account.uid() {
            let why = format!(
                "the UID in the token request ({uid}) does not match the UID of the service account ({})",
                account.uid()
            );
            if request.cluster.settings.gates.is_enabled(Feature::TOKEN_REQUEST_SERVICE_ACCOUNT_UID_VALIDATION) {
                return Err(conflict(GROUP, KIND, name, why));
            }
            request.recorder.annotate("authentication.k8s.io/token-request-uid-mismatch", why);
        }
        if object.items_at(&["spec", "audiences"]).is_empty() {
            object.set_at(&["spec", "audiences"], request.cluster.settings.service_accounts.audiences.clone());
        }
        object.set_at(&["metadata", "name"], name);
        object.set_at(&["metadata", "namespace"], namespace);
        let now = request.cluster.now();
        object.set_at(&["metadata", "creationTimestamp"], now.rfc3339());
        object.remove_at(&["status"]);
        let mut errors = Errors::new();
        let expiration = object.int_at(&EXPIRATION_SECONDS).unwrap_or_default();
        let path = FieldPath::new("spec");
        if expiration < MIN_EXPIRATION_SECONDS {
            let why = "may not specify a duration less than 10 minutes";
            errors.invalid(&path.child("expirationSeconds"), expiration, why);
        }
        if expiration > MAX_EXPIRATION_SECONDS {
            let why = "may not specify a duration larger than 2^32 seconds";
            errors.invalid(&path.child("expirationSeconds"), expiration, why);
        }
        if request.cluster.gates().has(Change::TOKENS_FOR_WEBHOOKS) {
            webhook_token::validate(&mut errors, &object["spec"]);
        }
        invalid("", errors)?;
        Ok(Self { account, now })
    }

    /// Issues the token. Sets the status of the request.
    async fn issue(self, request: &RequestContext, object: &mut Value) -> Result<(), ApiError> {
        let config = &request.cluster.settings.service_accounts;
        let bound = self.bound_object(request, object).await?;
        let mut expiration = object.int_at(&EXPIRATION_SECONDS).unwrap_or_default();
        if matches!(bound, Some(BoundObject::WebhookConfiguration { .. })) {
            expiration = expiration.min(webhook_token::MAX_EXPIRATION_SECONDS);
            object.set_at(&EXPIRATION_SECONDS, expiration);
        }
        if let Some(max) = config.max_expiration_seconds.filter(|max| expiration > *max) {
            request.warn(format!("requested expiration of {expiration} seconds shortened to {max} seconds"));
            object.set_at(&EXPIRATION_SECONDS, max);
            expiration = max;
        }
        let audiences: Vec<Str> =
            object.items_at(&["spec", "audiences"]).iter().filter_map(Value::as_str).map(Str::from).collect();
        // Clients that do not refresh the token of an injected volume get a warning first.
        let extends = config.extends_expiration
            && matches!(bound, Some(BoundObject::Pod { .. }))
            && expiration == WARN_ONLY_EXPIRATION_SECONDS
            && audiences.iter().all(|audience| config.audiences.contains(audience));
        let id = Str::from(uuid::Uuid::new_v4().to_string());
        let issued = config.issuer.issue(BoundTokenRequest {
            namespace: self.account.namespace().into(),
            name: self.account.name().into(),
            uid: self.account.uid().into(),
            bound,
            audiences,
            now: self.now,
            expiration_seconds: if extends { EXTENDED_EXPIRATION_SECONDS } else { expiration },
            warn_after_seconds: extends.then_some(expiration),
            id: id.clone(),
        });
        let token = issued.map_err(|error| ApiError::Internal(format!("failed to generate token: {error}")))?;
        let expires = self.now.plus(Duration::from_seconds(expiration));
        object.set("status", object! { "token": token.0, "expirationTimestamp": expires.rfc3339() });
        request.recorder.annotate("authentication.kubernetes.io/issued-credential-id", credential_id(&id));
        Ok(())
    }

    /// The object to which the token will be bound.
    async fn bound_object(&self, request: &RequestContext, object: &Value) -> Result<Option<BoundObject>, ApiError> {
        let Some(reference) = object.at(&["spec", "boundObjectRef"]).filter(|reference| !reference.is_null()) else {
            return Ok(None);
        };
        let text = |key: &str| reference.str_at(&[key]);
        let (kind, name, namespace) = (text("kind"), text("name"), &*request.info.namespace);
        // As in upstream, an apiVersion with too many parts has neither group nor version.
        let (group, version) = match text("apiVersion").split('/').collect::<Vec<_>>()[..] {
            [version] => ("", version),
            [group, version] => (group, version),
            _ => ("", ""),
        };
        let identity = |object: &Value| (Str::from(object.name()), Str::from(object.uid()));
        let (uid, bound) = match (group, kind) {
            ("", "Pod") => {
                let pod = get(request, "pods", namespace, name).await?;
                let account = self.account.name();
                if pod.str_at(&["spec", "serviceAccountName"]) != account {
                    let account = pintle_value::print::quote(account);
                    return Err(ApiError::BadRequest(format!(
                        "cannot bind token for serviceaccount {account} to pod running with different serviceaccount \
                         name."
                    )));
                }
                let node = node_of(request, &pod).await?;
                (Str::from(pod.uid()), BoundObject::Pod { pod: identity(&pod), node })
            }
            ("", "Node") => {
                let (name, uid) = identity(&get(request, "nodes", "", name).await?);
                (uid.clone(), BoundObject::Node(name, uid))
            }
            ("", "Secret") => {
                let (name, uid) = identity(&get(request, "secrets", namespace, name).await?);
                (uid.clone(), BoundObject::Secret(name, uid))
            }
            _ => match WebhookReference::of(request, &object["spec"]) {
                Some(reference) => reference.bind(request, &self.account, self.now).await?,
                None => {
                    let kind = format!("{group}/{version}, Kind={kind}");
                    return Err(ApiError::BadRequest(format!("cannot bind token to object of type {kind}")));
                }
            },
        };
        let requested = text("uid");
        if !requested.is_empty() && requested != uid {
            let why = format!(
                "the UID in the bound object reference ({requested}) does not match the UID in record. The object \
                 might have been deleted and then recreated"
            );
            return Err(conflict(group, kind, name, why));
        }
        Ok(Some(bound))
    }
}

/// The node on which a pod runs. If there is no such node, only the name is known.
async fn node_of(request: &RequestContext, pod: &Value) -> Result<Option<(Str, Str)>, ApiError> {
    let name = pod.str_at(&["spec", "nodeName"]);
    if name.is_empty() {
        return Ok(None);
    }
    match get(request, "nodes", "", name).await {
        Ok(node) => Ok(Some((name.into(), node.uid().into()))),
        Err(ApiError::NotFound { .. }) => Ok(Some((name.into(), Str::default()))),
        Err(error) => Err(ApiError::Internal(error.to_string())),
    }
}

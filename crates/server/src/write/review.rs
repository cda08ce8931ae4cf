//! Reviews, such as TokenReview and SubjectAccessReview: create requests that store no object (upstream:
//! `registry/authentication`, `registry/authorization`). They use the authenticator and authorizer of all requests.

mod selectors;

use http::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use pintle_auth::{
    Authentication, AuthenticationError, AuthenticationRequest, Authorization, AuthorizationAttributes, Authorizer,
    Decision, UserInfo,
};
use pintle_registry::{ApiError, Resource, Review};
use pintle_value::{Errors, FieldPath, Object, Str, Value, object};

use super::metadata;
use crate::context::RequestContext;

/// Checks a review before the validating phase of admission.
///
/// # Errors
/// Returns an error if the review is invalid.
pub(crate) fn check_review(
    request: &RequestContext,
    resource: &Resource,
    review: Review,
    object: &Value,
) -> Result<(), ApiError> {
    metadata::check_errors(resource, object, validate(review, object))?;
    let bad_request = |why: String| Err(ApiError::BadRequest(why));
    match review {
        Review::Token if object.str_at(&["spec", "token"]).is_empty() => {
            bad_request("token is required for TokenReview in authentication".to_owned())
        }
        Review::SelfRules if object.str_at(&["spec", "namespace"]).is_empty() => {
            bad_request("no namespace on request".to_owned())
        }
        Review::LocalAccess if object.namespace() != request.info.namespace => {
            let namespace = &request.info.namespace;
            bad_request(format!("spec.resourceAttributes.namespace must match namespace: {namespace}"))
        }
        _ => Ok(()),
    }
}

/// Fills the status of a valid review.
///
/// # Errors
/// Returns an error if the status cannot be determined.
pub(crate) async fn run_review(request: &RequestContext, review: Review, mut object: Value) -> Result<Value, ApiError> {
    match review {
        Review::SelfSubject => self_subject_review(request, &mut object),
        Review::Token => token_review(request, &mut object).await?,
        Review::SelfAccess => self_subject_access_review(request, &mut object).await,
        Review::Access | Review::LocalAccess => subject_access_review(request, &mut object).await,
        Review::SelfRules => self_subject_rules_review(request, &mut object).await,
    }
    Ok(object)
}

/// Validates an access review (upstream: `pkg/apis/authorization/validation`).
fn validate(review: Review, object: &Value) -> Errors {
    let mut errors = Errors::new();
    if !matches!(review, Review::SelfAccess | Review::Access | Review::LocalAccess) {
        return errors;
    }
    let spec = FieldPath::new("spec");
    let path = spec.child("nonResourceAttributes");
    let (resource_attributes, non_resource_attributes) =
        (object.at(&["spec", "resourceAttributes"]), object.at(&["spec", "nonResourceAttributes"]));
    match (resource_attributes, non_resource_attributes) {
        (Some(_), Some(value)) => {
            errors.invalid(&path, value.clone(), "cannot be specified in combination with resourceAttributes");
        }
        (None, None) => errors.invalid(
            &spec.child("resourceAttributes"),
            Value::Null,
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        ),
        _ => {}
    }
    let has_subject = !object.str_at(&["spec", "user"]).is_empty() || !object.items_at(&["spec", "groups"]).is_empty();
    if review != Review::SelfAccess && !has_subject {
        errors.invalid(&spec.child("user"), "", "at least one of user or group must be specified");
    }
    if let Some(attributes) = resource_attributes {
        errors.append(selectors::validate(attributes, &spec.child("resourceAttributes")));
    }
    let is_local = review == Review::LocalAccess;
    let has_other_metadata = object.entries_at(&["metadata"]).any(|(key, value)| match key {
        "namespace" if is_local => false,
        "managedFields" => false,
        _ => !value.is_empty(),
    });
    if has_other_metadata {
        let text = if is_local { "must be empty except for namespace" } else { "must be empty" };
        errors.invalid(&FieldPath::new("metadata"), object["metadata"].clone(), text);
    }
    if is_local {
        if non_resource_attributes.is_some() {
            errors.invalid(
                &path,
                object["spec"]["nonResourceAttributes"].clone(),
                "disallowed on this kind of request",
            );
        }
        let namespace = object.str_at(&["spec", "resourceAttributes", "namespace"]);
        if resource_attributes.is_some() && namespace != object.namespace() {
            let path = spec.child("resourceAttributes");
            errors.invalid(&path.child("namespace"), namespace, "must match metadata.namespace");
        }
    }
    errors
}

/// The `authentication.k8s.io/v1.UserInfo` of a user.
fn user_info(user: &UserInfo) -> Value {
    let mut info = Object::new();
    for (key, text) in [("username", &user.name), ("uid", &user.uid)] {
        if !text.is_empty() {
            info.insert(key, text);
        }
    }
    if !user.groups.is_empty() {
        info.insert("groups", user.groups.clone());
    }
    if !user.extra.is_empty() {
        let extra: Object = user.extra.iter().map(|(key, values)| (key.clone(), values.clone())).collect();
        info.insert("extra", extra);
    }
    Value::Object(info)
}

fn self_subject_review(request: &RequestContext, object: &mut Value) {
    object.set("status", object! { "userInfo": user_info(&request.user) });
}

async fn token_review(request: &RequestContext, object: &mut Value) -> Result<(), ApiError> {
    let token = object.str_at(&["spec", "token"]).to_owned();
    let audiences = texts(&object["spec"]["audiences"]);
    // An unknown token is a result of the review, not an error.
    let status = match authenticate(request, &token, &audiences).await {
        Ok(Some(authentication)) => {
            let requested =
                if audiences.is_empty() { &request.cluster.settings.service_accounts.audiences } else { &audiences };
            let is_for = |audience: &Str| requested.contains(audience);
            if !requested.is_empty() && !authentication.audiences.iter().any(is_for) {
                tracing::error!(?requested, found = ?authentication.audiences, "Failed to validate the audiences of a token");
                return Err(ApiError::Internal("error validating audiences".to_owned()));
            }
            let mut status = object! { "authenticated": true, "user": user_info(&authentication.user) };
            if !authentication.audiences.is_empty() {
                status.set("audiences", authentication.audiences);
            }
            status
        }
        Ok(None) => object! { "user": Value::object() },
        Err(error) => object! { "user": Value::object(), "error": error },
    };
    object.set("status", status);
    Ok(())
}

fn texts(value: &Value) -> Vec<Str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(Str::from).collect()
}

/// The error of a token that no authenticator knows.
const INVALID_TOKEN: &str = "invalid bearer token";

/// Authenticates a bearer token in the same way as the token of a request. Upstream first compares it with the token of
/// the server's own client. This adds an error to the errors of the other authenticators.
async fn authenticate(
    request: &RequestContext,
    token: &str,
    audiences: &[Str],
) -> Result<Option<Authentication>, String> {
    let mut headers = HeaderMap::new();
    let header = HeaderValue::from_bytes(format!("Bearer {token}").as_bytes()).map_err(|_| INVALID_TOKEN)?;
    headers.insert(AUTHORIZATION, header);
    let authentication_request = AuthenticationRequest { certificates: &[], headers: &headers, path: "", audiences };
    let found = request.access.authenticator.authenticate(&authentication_request).await;
    found.map_err(|AuthenticationError(error)| {
        if error == INVALID_TOKEN {
            return error;
        }
        let several = error.strip_prefix('[').and_then(|errors| errors.strip_suffix(']'));
        format!("[{INVALID_TOKEN}, {}]", several.unwrap_or(&error))
    })
}

/// Authorizes the attributes of a review's spec. Returns the status of the review.
async fn authorize(authorizer: &dyn Authorizer, user: &UserInfo, spec: &Value) -> Value {
    let text = |key: &str| spec.str_at(&["resourceAttributes", key]);
    let resource = &spec["resourceAttributes"];
    let (field_selector, label_selector) = (selectors::field_selector(resource), selectors::label_selector(resource));
    let attributes = if spec.at(&["resourceAttributes"]).is_some() {
        AuthorizationAttributes {
            verb: text("verb"),
            group: text("group"),
            version: text("version"),
            resource: text("resource"),
            subresource: text("subresource"),
            namespace: text("namespace"),
            name: text("name"),
            path: "",
            field_selector: &field_selector,
            label_selector: &label_selector,
        }
    } else {
        let text = |key: &str| spec.str_at(&["nonResourceAttributes", key]);
        AuthorizationAttributes { verb: text("verb"), path: text("path"), ..AuthorizationAttributes::default() }
    };
    let Authorization { decision, reason, error } = authorizer.authorize(user, &attributes).await;
    let mut status = object! { "allowed": decision == Decision::Allow };
    if decision == Decision::Deny {
        status.set("denied", true);
    }
    if !reason.is_empty() {
        status.set("reason", &*reason);
    }
    if let Some(error) = error {
        status.set("evaluationError", error);
    }
    status
}

async fn self_subject_access_review(request: &RequestContext, object: &mut Value) {
    let status = authorize(&*request.access.authorizer, &request.user, &object["spec"]).await;
    object.set("status", status);
}

async fn subject_access_review(request: &RequestContext, object: &mut Value) {
    let spec = &object["spec"];
    let user = UserInfo {
        name: spec.str_at(&["user"]).into(),
        uid: spec.str_at(&["uid"]).into(),
        groups: texts(&spec["groups"]),
        extra: spec.entries_at(&["extra"]).map(|(key, values)| (Str::from(key), texts(values))).collect(),
    };
    let status = authorize(&*request.access.authorizer, &user, spec).await;
    object.set("status", status);
}

async fn self_subject_rules_review(request: &RequestContext, object: &mut Value) {
    let namespace = object.str_at(&["spec", "namespace"]).to_owned();
    let rules = request.access.authorizer.rules(&request.user, &namespace).await;
    let resources: Vec<Value> = rules
        .resource_rules
        .into_iter()
        .map(|rule| {
            let mut value = object! { "verbs": rule.verbs, "apiGroups": rule.groups, "resources": rule.resources };
            if !rule.names.is_empty() {
                value.set("resourceNames", rule.names);
            }
            value
        })
        .collect();
    let paths: Vec<Value> = rules
        .non_resource_rules
        .into_iter()
        .map(|rule| object! { "verbs": rule.verbs, "nonResourceURLs": rule.paths })
        .collect();
    let mut status = object! { "resourceRules": resources, "nonResourceRules": paths, "incomplete": rules.incomplete };
    if let Some(error) = rules.error {
        status.set("evaluationError", error);
    }
    object.set("status", status);
}

//! Reviews: questions about who someone is and what they may do, asked by creating an object that is not kept
//! (upstream: `registry/authentication`, `registry/authorization`). They ask the same authenticator and authorizer that
//! every request passes.

use http::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use pintle_auth::{
    Authentication, AuthenticationRequest, Authorization, AuthorizationAttributes, Authorizer, Decision, UserInfo,
};
use pintle_registry::{ApiError, Resource, Review};
use pintle_value::{Errors, FieldPath, Object, Str, Value, object};

use super::metadata;
use crate::context::RequestContext;

/// Answers a review.
///
/// # Errors
/// It is malformed.
pub(crate) async fn review(
    call: &RequestContext,
    resource: &Resource,
    question: Review,
    mut object: Value,
) -> Result<Value, ApiError> {
    metadata::refuse(resource, object.name(), check(question, &object))?;
    match question {
        Review::SelfSubject => self_subject(call, &mut object),
        Review::Token => token(call, &mut object).await?,
        Review::SelfAccess => self_access(call, &mut object).await,
        Review::Access | Review::LocalAccess => access(call, &mut object).await,
        Review::SelfRules => self_rules(call, &mut object).await?,
    }
    Ok(object)
}

/// What is wrong with a review of access (upstream: `pkg/apis/authorization/validation`).
fn check(question: Review, object: &Value) -> Errors {
    let mut errors = Errors::new();
    if !matches!(question, Review::SelfAccess | Review::Access | Review::LocalAccess) {
        return errors;
    }
    let spec = FieldPath::new("spec");
    let path = spec.child("nonResourceAttributes");
    let (on_resource, on_path) =
        (object.at(&["spec", "resourceAttributes"]), object.at(&["spec", "nonResourceAttributes"]));
    match (on_resource, on_path) {
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
    let somebody = !object.str_at(&["spec", "user"]).is_empty() || !object.items_at(&["spec", "groups"]).is_empty();
    if question != Review::SelfAccess && !somebody {
        errors.invalid(&spec.child("user"), "", "at least one of user or group must be specified");
    }
    let local = question == Review::LocalAccess;
    let surplus = object.entries_at(&["metadata"]).any(|(key, value)| match key {
        "namespace" if local => false,
        "managedFields" => false,
        _ => !value.is_empty(),
    });
    if surplus {
        errors.invalid(&FieldPath::new("metadata"), object["metadata"].clone(), "must be empty");
    }
    if local {
        if on_path.is_some() {
            errors.invalid(
                &path,
                object["spec"]["nonResourceAttributes"].clone(),
                "disallowed on this kind of request",
            );
        }
        let namespace = object.str_at(&["spec", "resourceAttributes", "namespace"]);
        if on_resource.is_some() && namespace != object.namespace() {
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

fn self_subject(call: &RequestContext, object: &mut Value) {
    object.set("status", object! { "userInfo": user_info(&call.user) });
}

async fn token(call: &RequestContext, object: &mut Value) -> Result<(), ApiError> {
    let token = object.str_at(&["spec", "token"]).to_owned();
    if token.is_empty() {
        return Err(ApiError::BadRequest("token is required for TokenReview in authentication".to_owned()));
    }
    // A token that nobody knows is an answer, not an error.
    let status = match authenticate(call, &token).await {
        Some(authentication) => object! { "authenticated": true, "user": user_info(&authentication.user) },
        None => object! { "user": Value::object() },
    };
    object.set("status", status);
    Ok(())
}

/// Authenticates a bearer token as that of a request.
async fn authenticate(call: &RequestContext, token: &str) -> Option<Authentication> {
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, HeaderValue::from_str(&format!("Bearer {token}")).ok()?);
    let request = AuthenticationRequest { certificates: &[], headers: &headers, audiences: &[] };
    call.access.authenticator.authenticate(&request).await.ok().flatten()
}

/// Decides as for a request with the attributes of a review's spec.
async fn decide(authorizer: &dyn Authorizer, user: &UserInfo, spec: &Value) -> Value {
    let text = |key: &str| spec.str_at(&["resourceAttributes", key]);
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
            field_selector: spec.str_at(&["resourceAttributes", "fieldSelector", "rawSelector"]),
            label_selector: spec.str_at(&["resourceAttributes", "labelSelector", "rawSelector"]),
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

async fn self_access(call: &RequestContext, object: &mut Value) {
    let status = decide(&*call.access.authorizer, &call.user, &object["spec"]).await;
    object.set("status", status);
}

async fn access(call: &RequestContext, object: &mut Value) {
    let spec = &object["spec"];
    let texts = |value: &Value| -> Vec<Str> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(Str::from).collect()
    };
    let user = UserInfo {
        name: spec.str_at(&["user"]).into(),
        uid: spec.str_at(&["uid"]).into(),
        groups: texts(&spec["groups"]),
        extra: spec.entries_at(&["extra"]).map(|(key, values)| (Str::from(key), texts(values))).collect(),
    };
    let status = decide(&*call.access.authorizer, &user, spec).await;
    object.set("status", status);
}

async fn self_rules(call: &RequestContext, object: &mut Value) -> Result<(), ApiError> {
    let namespace = object.str_at(&["spec", "namespace"]).to_owned();
    if namespace.is_empty() {
        return Err(ApiError::BadRequest("no namespace on request".to_owned()));
    }
    let rules = call.access.authorizer.rules(&call.user, &namespace).await;
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
    Ok(())
}

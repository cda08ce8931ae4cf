//! Reviews: questions about who someone is and what they may do, asked by creating an object that is not kept
//! (upstream: `registry/authentication`, `registry/authorization`). They ask the same authenticator and authorizer that
//! every request passes.

use pintle_auth::{Attributes, Authorizer, Credentials, Decision, UserInfo};
use pintle_registry::{ApiError, Resource, Review};
use pintle_value::{Errors, FieldPath, Object, Str, Value, object};

use super::metadata;
use crate::pipeline::RequestContext;

/// Answers a review.
///
/// # Errors
/// It is malformed.
pub(crate) fn review(
    call: &RequestContext,
    resource: &Resource,
    question: Review,
    mut object: Value,
) -> Result<Value, ApiError> {
    metadata::refuse(resource, object.name(), check(question, &object))?;
    match question {
        Review::SelfSubject => self_subject(call, &mut object),
        Review::Token => token(call, &mut object)?,
        Review::SelfAccess => self_access(call, &mut object),
        Review::Access | Review::LocalAccess => access(call, &mut object),
        Review::SelfRules => self_rules(call, &mut object)?,
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

fn token(call: &RequestContext, object: &mut Value) -> Result<(), ApiError> {
    let token = object.str_at(&["spec", "token"]).to_owned();
    if token.is_empty() {
        return Err(ApiError::BadRequest("token is required for TokenReview in authentication".to_owned()));
    }
    let header = format!("Bearer {token}");
    let credentials = Credentials { certificates: &[], authorization: Some(&header) };
    // A token that nobody knows is an answer, not an error.
    let status = match call.cluster.authenticator.authenticate(&credentials) {
        Ok(Some(user)) => object! { "authenticated": true, "user": user_info(&user) },
        Ok(None) | Err(_) => object! { "user": Value::object() },
    };
    object.set("status", status);
    Ok(())
}

/// Decides as a request with these attributes would be.
fn decide(authorizer: &dyn Authorizer, user: &UserInfo, spec: &Value) -> Value {
    let text = |key: &str| spec.str_at(&["resourceAttributes", key]);
    let attributes = if spec.at(&["resourceAttributes"]).is_some() {
        Attributes {
            verb: text("verb"),
            group: text("group"),
            version: text("version"),
            resource: text("resource"),
            subresource: text("subresource"),
            namespace: text("namespace"),
            name: text("name"),
            path: "",
        }
    } else {
        let text = |key: &str| spec.str_at(&["nonResourceAttributes", key]);
        Attributes { verb: text("verb"), path: text("path"), ..Attributes::default() }
    };
    match authorizer.authorize(user, &attributes) {
        Decision::Allow => object! { "allowed": true },
        Decision::Deny(why) => status_of(why, true),
        Decision::NoOpinion(why) => status_of(why, false),
    }
}

fn status_of(why: String, denied: bool) -> Value {
    let mut status = object! { "allowed": false };
    if denied {
        status.set("denied", true);
    }
    if !why.is_empty() {
        status.set("reason", why);
    }
    status
}

fn self_access(call: &RequestContext, object: &mut Value) {
    let status = decide(&*call.cluster.authorizer, &call.user, &object["spec"]);
    object.set("status", status);
}

fn access(call: &RequestContext, object: &mut Value) {
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
    let status = decide(&*call.cluster.authorizer, &user, spec);
    object.set("status", status);
}

fn self_rules(call: &RequestContext, object: &mut Value) -> Result<(), ApiError> {
    let namespace = object.str_at(&["spec", "namespace"]).to_owned();
    if namespace.is_empty() {
        return Err(ApiError::BadRequest("no namespace on request".to_owned()));
    }
    let rules = call.cluster.authorizer.rules(&call.user, &namespace);
    let resources: Vec<Value> = rules
        .resources
        .into_iter()
        .map(|rule| {
            let mut value = object! { "verbs": rule.verbs, "apiGroups": rule.groups, "resources": rule.resources };
            if !rule.names.is_empty() {
                value.set("resourceNames", rule.names);
            }
            value
        })
        .collect();
    let paths: Vec<Value> =
        rules.paths.into_iter().map(|rule| object! { "verbs": rule.verbs, "nonResourceURLs": rule.paths }).collect();
    object.set(
        "status",
        object! { "resourceRules": resources, "nonResourceRules": paths, "incomplete": rules.incomplete },
    );
    Ok(())
}

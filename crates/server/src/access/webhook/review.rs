//! The `SubjectAccessReview` that a webhook gets, and its answer (upstream: `plugin/pkg/authorizer/webhook`).

use std::borrow::Cow;
use std::sync::LazyLock;

use pintle_auth::config_file::{ConfigScheme, ConfigTypes};
use pintle_auth::review::{ReviewKind, ReviewVersion};
use pintle_auth::{Authorization, AuthorizationAttributes, Decision, UserInfo};
use pintle_codec::json;
use pintle_schema::Scalar;
use pintle_selector::{FieldSelector, LabelSelector, Operator};
use pintle_value::{Str, Value, object};

/// The answer of a webhook.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ReviewStatus {
    pub(super) allowed: bool,
    denied: bool,
    reason: Str,
}

impl ReviewStatus {
    /// The decision.
    pub(super) fn authorization(&self) -> Authorization {
        let decision = match (self.denied, self.allowed) {
            (true, _) => Decision::Deny,
            (false, true) => Decision::Allow,
            (false, false) => Decision::NoOpinion,
        };
        let both = "webhook subject access review returned both allow and deny response";
        Authorization {
            decision,
            reason: Cow::Owned(self.reason.to_string()),
            error: (self.denied && self.allowed).then(|| both.to_owned()),
        }
    }
}

static SUBJECT_ACCESS_REVIEW: LazyLock<ReviewKind> = LazyLock::new(|| {
    let (kind, v1, v1beta1) = ("SubjectAccessReview", "authorization.k8s.io/v1", "authorization.k8s.io/v1beta1");
    let mut types = ConfigTypes::default();
    let (text, flag, any) = (types.scalar(Scalar::String), types.scalar(Scalar::Bool), types.any());
    let mut kinds = Vec::new();
    for (version, package) in [(v1, "v1"), (v1beta1, "v1beta1")] {
        let status = [("allowed", flag), ("denied", flag), ("reason", text), ("evaluationError", text)];
        let status = types.object(&format!("{package}.SubjectAccessReviewStatus"), &status);
        let fields = [("kind", text), ("apiVersion", text), ("metadata", any), ("spec", any), ("status", status)];
        kinds.push((version, kind, types.object(&format!("{package}.{kind}"), &fields)));
    }
    let name = "k8s.io/apiserver/plugin/pkg/authorizer/webhook/webhook.go:439";
    ReviewKind { kind, v1, v1beta1, scheme: ConfigScheme { name, strict: false, types, kinds } }
});

/// The spec of a review, in version 1, for a user and the attributes of the request. Empty fields are left out.
pub(super) fn spec(user: &UserInfo, attributes: &AuthorizationAttributes<'_>) -> Value {
    let mut spec = object! {};
    let AuthorizationAttributes { verb, group, version, resource, subresource, namespace, name, path, .. } =
        *attributes;
    if attributes.is_resource_request() {
        let mut resource_attributes = texts(&[
            ("namespace", namespace),
            ("verb", verb),
            ("group", group),
            ("version", version),
            ("resource", resource),
            ("subresource", subresource),
            ("name", name),
        ]);
        for (field, requirements) in [
            ("fieldSelector", field_requirements(attributes.field_selector)),
            ("labelSelector", label_requirements(attributes.label_selector)),
        ] {
            if !requirements.is_empty() {
                resource_attributes.set(field, object! {"requirements": Value::Array(requirements)});
            }
        }
        spec.set("resourceAttributes", resource_attributes);
    } else {
        spec.set("nonResourceAttributes", texts(&[("path", path), ("verb", verb)]));
    }
    for (field, value) in [("user", &user.name), ("uid", &user.uid)] {
        if !value.is_empty() {
            spec.set(field, value.clone());
        }
    }
    if !user.groups.is_empty() {
        spec.set("groups", list(&user.groups));
    }
    if !user.extra.is_empty() {
        let mut extra = object! {};
        user.extra.iter().for_each(|(key, values)| extra.set(key, list(values)));
        spec.set("extra", extra);
    }
    spec
}

/// An object with these text fields; empty texts are left out.
fn texts(fields: &[(&str, &str)]) -> Value {
    let mut value = object! {};
    fields.iter().filter(|(_, text)| !text.is_empty()).for_each(|(field, text)| value.set(field, *text));
    value
}

fn list(items: &[Str]) -> Value {
    Value::Array(items.iter().map(|item| Value::from(item.clone())).collect())
}

fn requirement(key: &str, operator: &str, values: &[Str]) -> Value {
    let mut requirement = object! {"key": key, "operator": operator};
    if !values.is_empty() {
        requirement.set("values", list(values));
    }
    requirement
}

/// The requirements of a field selector. A selector that cannot be parsed has no requirements, because selectors only
/// narrow a request.
fn field_requirements(text: &str) -> Vec<Value> {
    let Ok(selector) = FieldSelector::parse(text) else { return Vec::new() };
    let requirement = |found: &pintle_selector::FieldRequirement| {
        let values = Value::Array(vec![Value::from(found.value.clone())]);
        object! {"key": found.field.clone(), "operator": if found.negated { "NotIn" } else { "In" }, "values": values}
    };
    selector.requirements().iter().map(requirement).collect()
}

/// The requirements of a label selector. Requirements that reviews cannot express are left out.
fn label_requirements(text: &str) -> Vec<Value> {
    let Ok(selector) = LabelSelector::parse(text) else { return Vec::new() };
    let requirement = |found: &pintle_selector::LabelRequirement| {
        let operator = match found.operator() {
            Operator::Equals | Operator::DoubleEquals | Operator::In => "In",
            Operator::NotEquals | Operator::NotIn => "NotIn",
            Operator::Exists => "Exists",
            Operator::DoesNotExist => "DoesNotExist",
            Operator::GreaterThan | Operator::LessThan => return None,
        };
        Some(requirement(found.key(), operator, found.values()))
    };
    selector.requirements().iter().filter_map(requirement).collect()
}

/// The body of a request.
pub(super) fn encode(version: ReviewVersion, spec: &Value) -> Vec<u8> {
    let mut spec = spec.clone();
    // The older version has another name for groups.
    if version == ReviewVersion::V1Beta1
        && let Some(groups) = spec.remove("groups")
    {
        spec.set("group", groups);
    }
    json::encode(&object! {
        "kind": SUBJECT_ACCESS_REVIEW.kind,
        "apiVersion": SUBJECT_ACCESS_REVIEW.api_version(version),
        "metadata": object! {},
        "spec": spec,
        "status": object! {"allowed": false},
    })
}

/// Reads the body of a successful response.
///
/// # Errors
/// The body is not a review of this version.
pub(super) fn decode(version: ReviewVersion, body: &[u8]) -> Result<ReviewStatus, String> {
    let review = SUBJECT_ACCESS_REVIEW.decode(version, body)?;
    let text = |path: &[&str]| Str::from(review.str_at(path));
    Ok(ReviewStatus {
        allowed: review.bool_at(&["status", "allowed"]),
        denied: review.bool_at(&["status", "denied"]),
        reason: text(&["status", "reason"]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(text: &str) -> Value {
        json::decode(text.as_bytes(), json::DecodeOptions::default()).expect("JSON").value
    }

    #[test]
    fn a_review_says_who_wants_to_do_what() {
        let user = UserInfo {
            name: "jane".into(),
            uid: "1".into(),
            groups: vec!["dev".into()],
            extra: vec![("k".into(), vec!["a".into(), "b".into()])],
        };
        let list = AuthorizationAttributes {
            verb: "list",
            version: "v1",
            resource: "pods",
            namespace: "ns",
            path: "/api/v1/namespaces/ns/pods",
            field_selector: "spec.nodeName=n,status.phase!=Failed",
            label_selector: "a=1,b in (x,y),c!=2,d,!e,f>3",
            ..AuthorizationAttributes::default()
        };
        let found = spec(&user, &list);
        let expect = r#"{
            "user": "jane", "uid": "1", "groups": ["dev"], "extra": {"k": ["a", "b"]},
            "resourceAttributes": {
                "namespace": "ns", "verb": "list", "version": "v1", "resource": "pods",
                "fieldSelector": {"requirements": [
                    {"key": "spec.nodeName", "operator": "In", "values": ["n"]},
                    {"key": "status.phase", "operator": "NotIn", "values": ["Failed"]}
                ]},
                "labelSelector": {"requirements": [
                    {"key": "a", "operator": "In", "values": ["1"]},
                    {"key": "b", "operator": "In", "values": ["x", "y"]},
                    {"key": "c", "operator": "NotIn", "values": ["2"]},
                    {"key": "d", "operator": "Exists"},
                    {"key": "e", "operator": "DoesNotExist"}
                ]}
            }
        }"#;
        assert_eq!(found, tree(expect));
        let path = AuthorizationAttributes { verb: "get", path: "/healthz", ..AuthorizationAttributes::default() };
        let expect = tree(r#"{"nonResourceAttributes": {"path": "/healthz", "verb": "get"}}"#);
        assert_eq!(spec(&UserInfo::default(), &path), expect);
        for (version, groups) in [(ReviewVersion::V1, "groups"), (ReviewVersion::V1Beta1, "group")] {
            let body = json::decode(&encode(version, &found), json::DecodeOptions::default()).expect("JSON").value;
            let api_version = SUBJECT_ACCESS_REVIEW.api_version(version);
            assert_eq!((body.kind(), body.api_version()), ("SubjectAccessReview", api_version));
            assert_eq!(body.items_at(&["spec", groups]).len(), 1);
        }
    }

    #[test]
    fn a_selector_that_cannot_be_parsed_is_left_out() {
        let list = AuthorizationAttributes {
            verb: "list",
            resource: "pods",
            field_selector: "a",
            label_selector: "a in (",
            ..AuthorizationAttributes::default()
        };
        assert_eq!(
            spec(&UserInfo::default(), &list),
            tree(r#"{"resourceAttributes": {"verb": "list", "resource": "pods"}}"#)
        );
    }

    #[test]
    fn an_answer_is_a_review_of_the_same_version() {
        let decide = |body: &str| decode(ReviewVersion::V1, body.as_bytes()).map(|status| status.authorization());
        let found = |decision, reason: &'static str, error: Option<&str>| {
            Ok(Authorization { decision, reason: reason.into(), error: error.map(str::to_owned) })
        };
        let both = "webhook subject access review returned both allow and deny response";
        for (body, expect) in [
            (r#"{"status": {"allowed": true}}"#, found(Decision::Allow, "", None)),
            (r#"{"status": {"allowed": false, "reason": "no"}}"#, found(Decision::NoOpinion, "no", None)),
            (r#"{"status": {"denied": true, "reason": "no"}, "spec": {"x": 1}}"#, found(Decision::Deny, "no", None)),
            (r#"{"status": {"allowed": true, "denied": true}}"#, found(Decision::Deny, "", Some(both))),
            (r#"{"status": {"allowed": null, "evaluationError": "e"}, "other": 1}"#, found(Decision::NoOpinion, "", None)),
            (
                r#"{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "status": {"allowed": true}}"#,
                found(Decision::Allow, "", None),
            ),
            (
                r#"{"apiVersion": "authorization.k8s.io/v1beta1", "kind": "SubjectAccessReview", "status": {"allowed": true}}"#,
                Err("converting (v1beta1.SubjectAccessReview) to (v1.SubjectAccessReview): unknown conversion".to_owned()),
            ),
            (
                r#"{"apiVersion": "v1", "kind": "Status", "status": "Failure", "message": "broken"}"#,
                Err("broken".to_owned()),
            ),
            (
                r#"{"status": {"allowed": "yes"}}"#,
                Err("json: cannot unmarshal string into Go struct field SubjectAccessReviewStatus.status.allowed of type bool"
                    .to_owned()),
            ),
            ("{", Err("couldn't get version/kind; json parse error: unexpected end of JSON input".to_owned())),
        ] {
            assert_eq!(decide(body), expect, "{body}");
        }
    }
}

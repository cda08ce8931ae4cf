//! The request that expressions see, `admission.k8s.io/v1` without the objects (upstream: `CreateAdmissionRequest`).

use pintle_value::{Object, Str, Value as Json};

/// A group, a version, and the name of a kind or resource in this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupVersionName<'a> {
    /// The group.
    pub group: &'a str,
    /// The version.
    pub version: &'a str,
    /// The kind, or the plural name of the resource.
    pub name: &'a str,
}

/// A request. `kind` and `resource` are the names in the rules of the policy or webhook. `request_kind` and
/// `request_resource` are the names in the request itself.
#[derive(Clone, Debug)]
pub struct AdmissionRequest<'a> {
    /// The kind that was matched.
    pub kind: GroupVersionName<'a>,
    /// The resource that was matched.
    pub resource: GroupVersionName<'a>,
    /// The kind of the request.
    pub request_kind: GroupVersionName<'a>,
    /// The resource of the request.
    pub request_resource: GroupVersionName<'a>,
    /// The subresource, or empty.
    pub subresource: &'a str,
    /// The name of the object, or empty.
    pub name: &'a str,
    /// The namespace, or empty.
    pub namespace: &'a str,
    /// `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
    pub operation: &'a str,
    /// The name of the user.
    pub user: &'a str,
    /// The uid of the user, or empty.
    pub uid: &'a str,
    /// The groups of the user.
    pub groups: &'a [Str],
    /// Extra attributes of the user.
    pub extra: &'a [(Str, Vec<Str>)],
    /// True for a dry run.
    pub dry_run: bool,
    /// The options of the request.
    pub options: Json,
}

impl AdmissionRequest<'_> {
    /// The request as Go encodes it: empty texts and lists are left out.
    #[must_use]
    pub fn to_json(self) -> Json {
        let named = |named: GroupVersionName<'_>, field: &'static str| {
            Json::Object(Object::from_iter([
                ("group", Json::from(named.group)),
                ("version", Json::from(named.version)),
                (field, Json::from(named.name)),
            ]))
        };
        let texts = |texts: &[Str]| Json::Array(texts.iter().map(|text| Json::String(text.clone())).collect());
        let mut user = Json::object();
        let mut request = Json::object();
        for (key, text) in [("username", self.user), ("uid", self.uid)] {
            if !text.is_empty() {
                user.set(key, text);
            }
        }
        if !self.groups.is_empty() {
            user.set("groups", texts(self.groups));
        }
        if !self.extra.is_empty() {
            let extra: Object = self.extra.iter().map(|(key, values)| (key.as_str(), texts(values))).collect();
            user.set("extra", Json::Object(extra));
        }
        let optional = [
            ("subResource", self.subresource),
            ("requestSubResource", self.subresource),
            ("name", self.name),
            ("namespace", self.namespace),
        ];
        for (key, text) in optional {
            if !text.is_empty() {
                request.set(key, text);
            }
        }
        request.set("uid", "");
        request.set("kind", named(self.kind, "kind"));
        request.set("resource", named(self.resource, "resource"));
        request.set("requestKind", named(self.request_kind, "kind"));
        request.set("requestResource", named(self.request_resource, "resource"));
        request.set("operation", self.operation);
        request.set("userInfo", user);
        request.set("object", Json::Null);
        request.set("oldObject", Json::Null);
        request.set("dryRun", self.dry_run);
        request.set("options", self.options);
        request
    }
}

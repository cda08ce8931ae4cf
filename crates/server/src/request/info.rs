//! Request info: the verb and the target of a request, derived from its method and path (upstream:
//! `endpoints/request.RequestInfo`).

use http::Method;
use pintle_auth::UserInfo;
use pintle_flow_control::RequestAttributes;
use pintle_value::Str;
use pintle_value::names::path_segment_name;

use crate::request::query::{ListOptions, Query};

/// The verb and the target of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestInfo {
    /// True if the path is below a group and version.
    pub(crate) is_resource: bool,
    /// The decoded path.
    pub(crate) path: String,
    /// `get`, `list`, `create`, …, or empty for another method; for non-resource paths the lower-case HTTP method.
    pub(crate) verb: Str,
    /// The group, empty for the core group.
    pub(crate) group: Str,
    /// The version.
    pub(crate) version: Str,
    /// The namespace, or empty. Also set for requests about the namespace itself.
    pub(crate) namespace: Str,
    /// True if the path names a resource inside a namespace.
    pub(crate) in_namespace: bool,
    /// The plural resource name, or empty.
    pub(crate) resource: Str,
    /// The subresource, or empty.
    pub(crate) subresource: Str,
    /// The object's name, or empty.
    pub(crate) name: Str,
    /// The path segments after the subresource.
    pub(crate) rest: Vec<Str>,
    /// True for the deprecated `/watch/` paths.
    pub(crate) is_watch_path: bool,
    /// True for `/watch/` paths and for `/proxy/` paths, which are not served any more.
    is_verb_in_path: bool,
}

/// Maximum length of a method that is a verb, in bytes. Verbs are logged and sent to webhooks.
const MAX_METHOD: usize = 64;
/// Subresources of a namespace; any other segment below a namespace is a resource in it.
const NAMESPACE_SUBRESOURCES: [&str; 2] = ["status", "finalize"];

/// The subresources that connect clients with a pod, node or service. Their requests are long-running, and count as
/// `CONNECT` (upstream: `validConnectRequests`).
pub(crate) const CONNECT_SUBRESOURCES: [&str; 5] = ["log", "exec", "portforward", "attach", "proxy"];

impl RequestInfo {
    /// True for the read of one object, which takes long only if the object is large.
    pub(crate) fn is_read_of_object(&self) -> bool {
        self.is_resource && self.verb == "get" && self.subresource.is_empty() && !self.name.is_empty()
    }

    /// The request of a user as flow control classifies it.
    pub(crate) fn flow_attributes<'r>(&'r self, user: &'r UserInfo) -> RequestAttributes<'r> {
        RequestAttributes {
            user: &user.name,
            groups: &user.groups,
            verb: &self.verb,
            is_resource: self.is_resource,
            group: &self.group,
            version: &self.version,
            resource: &self.resource,
            subresource: &self.subresource,
            namespace: &self.namespace,
            name: &self.name,
            path: &self.path,
        }
    }

    /// Parses method, path and query.
    #[must_use]
    pub(crate) fn of(method: &Method, path: &str, query: &Query) -> Self {
        let path = percent_encoding::percent_decode_str(path).decode_utf8_lossy().into_owned();
        let mut info = RequestInfo { verb: method_verb(method), ..Self::default() };
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let rest: &[&str] = match parts.as_slice() {
            ["api", version, rest @ ..] if !rest.is_empty() => {
                info.version = (*version).into();
                rest
            }
            ["apis", group, version, rest @ ..] if !rest.is_empty() => {
                info.group = (*group).into();
                info.version = (*version).into();
                rest
            }
            _ => &[],
        };
        if !rest.is_empty() {
            info.parse_resource_path(method, rest, query);
        }
        info.path = path;
        info
    }

    /// True if the selectors of the query restrict the objects of the request.
    pub(crate) fn has_selectors(&self) -> bool {
        !self.is_verb_in_path && matches!(self.verb.as_str(), "list" | "watch" | "deletecollection")
    }

    /// True for requests without a time limit (upstream: `filters.BasicLongRunningRequestCheck` with the verbs and
    /// subresources of kube-apiserver).
    pub(crate) fn is_long_running(&self) -> bool {
        matches!(self.verb.as_str(), "watch" | "proxy")
            || (self.is_resource && CONNECT_SUBRESOURCES.contains(&self.subresource.as_str()))
            || (!self.is_resource && self.path.starts_with("/debug/pprof/"))
    }

    fn parse_resource_path(&mut self, method: &Method, mut parts: &[&str], query: &Query) {
        self.is_resource = true;
        self.verb = Str::const_new(match *method {
            Method::POST => "create",
            Method::GET | Method::HEAD => "get",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE => "delete",
            _ => "",
        });
        let verbs = ["watch", "proxy"];
        if let [first, rest @ ..] = parts
            && let Some(verb) = verbs.into_iter().find(|verb| verb == first)
            && !rest.is_empty()
        {
            self.is_watch_path = verb == "watch";
            self.is_verb_in_path = true;
            self.verb = Str::const_new(verb);
            parts = rest;
        }
        if let ["namespaces", namespace, rest @ ..] = parts {
            self.namespace = (*namespace).into();
            if let [first, ..] = rest
                && !NAMESPACE_SUBRESOURCES.contains(first)
            {
                parts = rest;
                self.in_namespace = true;
            }
        }
        let mut parts = parts.iter();
        self.resource = parts.next().map(|p| Str::from(*p)).unwrap_or_default();
        self.name = parts.next().map(|p| Str::from(*p)).unwrap_or_default();
        if self.verb != "proxy" {
            self.subresource = parts.next().map(|p| Str::from(*p)).unwrap_or_default();
        }
        self.rest = parts.map(|p| Str::from(*p)).collect();
        // Upstream also sets the name for `/watch/pods/x` and for lists whose field selector requires a name.
        if self.name.is_empty() && self.verb == "get" {
            self.verb = Str::const_new(if query.flag("watch") { "watch" } else { "list" });
            self.name = selected_name(query);
        }
        if self.name.is_empty() && self.verb == "delete" {
            self.verb = Str::const_new("deletecollection");
        }
    }
}

/// Returns the name that the field selector requires, or an empty name. As in upstream, options that can be parsed count
/// even if they are invalid.
fn selected_name(query: &Query) -> Str {
    // Fast path: most lists have no field selector.
    if query.get("fieldSelector").is_none_or(str::is_empty) {
        return Str::default();
    }
    let options = ListOptions::decode(query).unwrap_or_default();
    let name = options.fields.required_value("metadata.name").unwrap_or_default();
    if path_segment_name(name, false).is_empty() { name.into() } else { Str::default() }
}

/// The method in lower case. A method that is too long becomes the empty verb, like unusual methods of resource
/// requests. Only rules for all verbs allow the empty verb.
fn method_verb(method: &Method) -> Str {
    match method.as_str() {
        method if method.len() > MAX_METHOD => Str::default(),
        method => {
            let mut verb = Str::from(method);
            verb.make_ascii_lowercase();
            verb
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(method: Method, path: &str, expect: [&str; 7]) {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let info = RequestInfo::of(&method, path, &Query::parse(query));
        let found =
            [&info.verb, &info.group, &info.version, &info.namespace, &info.resource, &info.name, &info.subresource];
        assert_eq!(found, expect, "{path}");
    }

    #[test]
    fn paths_are_parsed_like_upstream() {
        check(Method::GET, "/api/v1/pods", ["list", "", "v1", "", "pods", "", ""]);
        check(Method::GET, "/api/v1/pods?watch=1", ["watch", "", "v1", "", "pods", "", ""]);
        check(Method::GET, "/api/v1/namespaces/d/pods/x/log", ["get", "", "v1", "d", "pods", "x", "log"]);
        check(Method::GET, "/api/v1/namespaces/d", ["get", "", "v1", "d", "namespaces", "d", ""]);
        check(Method::PUT, "/api/v1/namespaces/d/finalize", ["update", "", "v1", "d", "namespaces", "d", "finalize"]);
        check(Method::GET, "/apis/apps/v1/deployments", ["list", "apps", "v1", "", "deployments", "", ""]);
        check(Method::DELETE, "/api/v1/namespaces/d/pods", ["deletecollection", "", "v1", "d", "pods", "", ""]);
        check(Method::GET, "/api/v1/watch/namespaces/d/pods/x", ["watch", "", "v1", "d", "pods", "x", ""]);
        check(Method::POST, "/api/v1/proxy/namespaces/d/pods/x/y/z", ["proxy", "", "v1", "d", "pods", "x", ""]);
        check(Method::GET, "/apis/apps/v1", ["get", "", "", "", "", "", ""]);
        let (longest, too_long) = ("X".repeat(MAX_METHOD), "X".repeat(MAX_METHOD + 1));
        for (method, verb) in [
            ("CONNECT", "connect"),
            ("Brew", "brew"),
            ("get", "get"),
            ("X-Y!", "x-y!"),
            (&longest, &longest.to_ascii_lowercase()),
            (&too_long, ""),
        ] {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            check(method.clone(), "/healthz", [verb, "", "", "", "", "", ""]);
            check(method.clone(), "/api/v1/pods", ["", "", "v1", "", "pods", "", ""]);
            check(method, "/api/v1/watch/pods", ["watch", "", "v1", "", "pods", "", ""]);
        }
        for (selector, name) in [
            ("metadata.name%3Dx", "x"),
            ("metadata.name%3D%3Dx,status.phase%3DRunning", "x"),
            ("status.phase%3DRunning,metadata.name%3Dx", "x"),
            ("metadata.name!%3Dx", ""),
            ("metadata.name%3Dx/y", ""),
            ("metadata.name%3Dx&limit=y", ""),
            ("metadata.name%3D", ""),
            ("metadata.name%3Dy,metadata.name%3Dx", "x"),
            ("metadata.name%3Dx&resourceVersionMatch=Exact", "x"),
            ("metadata.name%3Dx&sendInitialEvents=true", "x"),
        ] {
            let list = format!("/api/v1/pods?fieldSelector={selector}");
            check(Method::GET, &list, ["list", "", "v1", "", "pods", name, ""]);
            check(Method::GET, &format!("{list}&watch=1"), ["watch", "", "v1", "", "pods", name, ""]);
            check(Method::DELETE, &list, ["deletecollection", "", "v1", "", "pods", "", ""]);
        }
    }
}

//! The labels of a request's metrics (upstream: `endpoints/metrics`). Labels only name resources of the registry or
//! come from a fixed set, so clients cannot create series.

use hashbrown::Equivalent;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Method};
use pintle_registry::{GroupVersion, Resource};
use pintle_value::Str;

use crate::request::info::{CONNECT_SUBRESOURCES, RequestInfo};
use crate::request::query::Query;

/// The component label of nearly all requests.
const COMPONENT: &str = "apiserver";

/// The data of a request from which its metrics are made.
pub(crate) struct RecordedRequest<'a> {
    pub(crate) info: &'a RequestInfo,
    pub(crate) method: &'a Method,
    pub(crate) query: &'a Query,
    pub(crate) headers: &'a HeaderMap,
}

/// The labels of a request, without the labels of its outcome.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RequestLabels {
    pub(super) verb: &'static str,
    pub(super) scope: &'static str,
    pub(super) component: &'static str,
    pub(super) group: Str,
    pub(super) version: Str,
    pub(super) resource: Str,
    pub(super) subresource: Str,
}

/// [`RequestLabels`] that borrow from the registry. The fields are in the same order, so both have the same hash.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct RequestTarget<'r> {
    pub(super) verb: &'static str,
    pub(super) scope: &'static str,
    pub(super) component: &'static str,
    pub(super) group: &'r str,
    pub(super) version: &'r str,
    pub(super) resource: &'r str,
    pub(super) subresource: &'r str,
}

impl Equivalent<RequestLabels> for RequestTarget<'_> {
    fn equivalent(&self, labels: &RequestLabels) -> bool {
        self.verb == labels.verb
            && self.scope == labels.scope
            && self.component == labels.component
            && self.group == labels.group
            && self.version == labels.version
            && self.resource == labels.resource
            && self.subresource == labels.subresource
    }
}

impl From<&RequestTarget<'_>> for RequestLabels {
    fn from(target: &RequestTarget<'_>) -> Self {
        RequestLabels {
            verb: target.verb,
            scope: target.scope,
            component: target.component,
            group: target.group.into(),
            version: target.version.into(),
            resource: target.resource.into(),
            subresource: target.subresource.into(),
        }
    }
}

impl<'r> RequestTarget<'r> {
    /// The labels of a request for a resource. An unknown subresource is left out.
    pub(crate) fn of_resource(request: &RecordedRequest<'_>, resource: &'r Resource) -> Self {
        Self::with_scope(request, resource, route_scope(request.info, resource))
    }

    /// The labels under which upstream counts a request outside of its handler, for long-running and terminated
    /// requests.
    pub(crate) fn of_filtered(request: &RecordedRequest<'_>, resource: &'r Resource) -> Self {
        Self::with_scope(request, resource, scope(request.info))
    }

    fn with_scope(request: &RecordedRequest<'_>, resource: &'r Resource, scope: &'static str) -> Self {
        let subresource = resource.subresource(&request.info.subresource).map_or("", |found| found.name.as_str());
        RequestTarget {
            verb: verb(request, scope, subresource),
            scope,
            component: COMPONENT,
            group: &resource.group,
            version: &resource.version,
            resource: &resource.plural,
            subresource,
        }
    }

    /// The labels of a request for a version that another API server serves. The names of its resources are not known
    /// for certain, so they are left out.
    pub(crate) fn of_api_service(request: &RecordedRequest<'_>, version: &'r GroupVersion) -> Self {
        let scope = scope(request.info);
        RequestTarget {
            verb: verb(request, scope, ""),
            scope,
            component: "aggregator",
            group: &version.group,
            version: &version.version,
            ..Self::of_other(request)
        }
    }

    /// The labels of a request for one of the paths that upstream counts in addition to resources. `None` for all other
    /// paths.
    pub(crate) fn of_path(request: &RecordedRequest<'r>, content_type: &'r str) -> Option<Self> {
        let is_aggregated_discovery = content_type.ends_with(";as=APIGroupDiscoveryList");
        let (subresource, component) = match request.info.path.as_str() {
            "/livez" => ("/livez", ""),
            "/readyz" => ("/readyz", ""),
            "/healthz" => ("/healthz", ""),
            "/openapi/v3" => ("openapi/v3", ""),
            path if path.starts_with("/openapi/v3/") => ("openapi/v3/", ""),
            "/api" if is_aggregated_discovery => ("/api", COMPONENT),
            "/apis" if is_aggregated_discovery => ("/apis", COMPONENT),
            "/statusz" | "/flagz" => return Some(Self::of_page(request, content_type)),
            _ => return None,
        };
        Some(Self { subresource, component, ..Self::of_other(request) })
    }

    /// The labels of `/statusz` and `/flagz`, which count as resources of the version that was negotiated.
    fn of_page(request: &RecordedRequest<'r>, content_type: &'r str) -> Self {
        let version = content_type.split(';').find_map(|parameter| parameter.strip_prefix("v="));
        Self {
            group: version.map_or("", |_| "config.k8s.io"),
            version: version.unwrap_or_default(),
            resource: request.info.path.trim_start_matches('/'),
            ..Self::of_other(request)
        }
    }

    /// The labels of a request that is for no resource.
    pub(crate) fn of_other(request: &RecordedRequest<'_>) -> Self {
        RequestTarget {
            verb: verb(request, "", ""),
            scope: "",
            component: COMPONENT,
            group: "",
            version: "",
            resource: "",
            subresource: "",
        }
    }

    /// True for `/statusz` and `/flagz`.
    pub(crate) fn is_page(&self) -> bool {
        matches!(self.resource, "statusz" | "flagz")
    }

    /// True for the deprecated version of `/statusz` and `/flagz`.
    pub(crate) fn is_deprecated_page(&self) -> bool {
        (self.group, self.version) == ("config.k8s.io", "v1alpha1")
    }

    /// The verb, as metrics and logs report it.
    pub(crate) fn verb(&self) -> &'static str {
        self.verb
    }

    /// True if sizes of responses are recorded. Only reads record them (upstream: `MonitorRequest`).
    pub(crate) fn has_response_size(&self) -> bool {
        matches!(self.verb, "GET" | "LIST")
    }
}

/// The scope of a request: one object, a namespace or the cluster (upstream: `metrics.CleanScope`).
fn scope(info: &RequestInfo) -> &'static str {
    if !info.name.is_empty() || info.verb == "create" {
        "resource"
    } else if !info.namespace.is_empty() {
        "namespace"
    } else {
        "cluster"
    }
}

/// The scope of the route of a request. The routes of built-in kinds are for a path (upstream:
/// `APIInstaller.registerResourceHandlers`). So a name that a field selector requires does not count.
fn route_scope(info: &RequestInfo, resource: &Resource) -> &'static str {
    let is_collection =
        matches!(info.verb.as_str(), "list" | "deletecollection") || info.verb == "watch" && !info.is_watch_path;
    match is_collection && resource.built_in {
        true if info.in_namespace => "namespace",
        true => "cluster",
        false => scope(info),
    }
}

/// The verb of a request, from a fixed set (upstream: `metrics.cleanVerb`).
fn verb(request: &RecordedRequest<'_>, scope: &str, subresource: &str) -> &'static str {
    if CONNECT_SUBRESOURCES.contains(&subresource) {
        return "CONNECT";
    }
    let is_apply = || request.headers.get(CONTENT_TYPE).is_some_and(|value| value == "application/apply-patch+yaml");
    match *request.method {
        Method::GET | Method::HEAD if request.info.is_watch_path => "WATCH",
        Method::GET if request.query.flag("watch") => "WATCH",
        Method::GET | Method::HEAD if matches!(scope, "namespace" | "cluster") => "LIST",
        Method::GET | Method::HEAD => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH if is_apply() => "APPLY",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::CONNECT => "CONNECT",
        _ => "other",
    }
}

/// The value of `dryRun`, from a fixed set (upstream: `cleanDryRun`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DryRun {
    /// The request has no `dryRun`.
    None,
    /// `All`.
    All,
    /// Anything else.
    Invalid,
}

impl DryRun {
    pub(super) const VALUES: [DryRun; 3] = [DryRun::None, DryRun::All, DryRun::Invalid];

    pub(crate) fn of(query: &Query) -> Self {
        match query.get("dryRun") {
            None => DryRun::None,
            Some(_) if query.all("dryRun").all(|value| value == "All") => DryRun::All,
            Some(_) => DryRun::Invalid,
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            DryRun::None => "",
            DryRun::All => "All",
            DryRun::Invalid => "invalid",
        }
    }
}

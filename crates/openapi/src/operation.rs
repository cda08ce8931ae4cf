//! The description of an operation, independent of the OpenAPI version, and the grouping of operations by path.

use std::collections::BTreeMap;
use std::sync::Arc;

use pintle_registry::{GroupVersionKind, Resource};
use pintle_schema::TypeId;

use crate::parameters::{Parameter, common, sort};

/// The type of a request or response body.
#[derive(Clone, Debug)]
pub(crate) enum Model {
    /// A struct of the catalog.
    Struct(TypeId),
    /// A custom resource.
    Custom(Arc<Resource>),
    /// The list of a custom resource.
    CustomList(Arc<Resource>),
    /// `metav1.Patch`, the body of every patch.
    Patch,
    /// `version.Info`.
    Version,
    /// A string.
    Text,
}

/// The request body of an operation.
#[derive(Clone, Debug)]
pub(crate) struct Body {
    pub(crate) model: Model,
    pub(crate) required: bool,
}

/// One operation.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub(crate) path: String,
    /// The HTTP method in lower case.
    pub(crate) method: &'static str,
    pub(crate) description: String,
    pub(crate) id: String,
    pub(crate) tag: String,
    /// `x-kubernetes-action`, for operations on resources.
    pub(crate) action: Option<&'static str>,
    /// `x-kubernetes-group-version-kind`, for operations on resources.
    pub(crate) kind: Option<GroupVersionKind>,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) body: Option<Body>,
    pub(crate) consumes: &'static [&'static str],
    pub(crate) produces: &'static [&'static str],
    /// Status codes with the models of their bodies. In addition, every operation has a 401 without a body.
    pub(crate) responses: Vec<(u16, Model)>,
}

/// Returns the description of a response.
pub(crate) const fn response_description(code: u16) -> &'static str {
    match code {
        201 => "Created",
        202 => "Accepted",
        401 => "Unauthorized",
        _ => "OK",
    }
}

/// The operations of one path, with the parameters that all of them share.
pub(crate) struct PathItem<'a> {
    pub(crate) path: &'a str,
    pub(crate) routes: Vec<&'a Route>,
    pub(crate) shared: Vec<&'a Parameter>,
}

impl<'a> PathItem<'a> {
    /// Returns the parameters of an operation that are not shared by the whole path, sorted.
    pub(crate) fn own(&self, route: &'a Route) -> Vec<&'a Parameter> {
        let is_shared = |p: &&Parameter| self.shared.iter().any(|s| s.name == p.name && s.location == p.location);
        let mut own: Vec<&Parameter> = route.parameters.iter().filter(|p| !is_shared(p)).collect();
        sort(&mut own);
        own
    }
}

/// Groups operations by path, sorted.
pub(crate) fn by_path(routes: &[Route]) -> Vec<PathItem<'_>> {
    let mut paths: BTreeMap<&str, Vec<&Route>> = BTreeMap::new();
    for route in routes {
        paths.entry(&route.path).or_default().push(route);
    }
    let mut items = Vec::with_capacity(paths.len());
    for (path, routes) in paths {
        let all: Vec<&[Parameter]> = routes.iter().map(|route| route.parameters.as_slice()).collect();
        items.push(PathItem { path, shared: common(&all), routes });
    }
    items
}

//! Derives all operations from the registry: verb × resource × subresource × scope, with the paths, ids, parameters and
//! responses of upstream's route installer (`endpoints/installer.go`).

use std::sync::Arc;

use pintle_catalog::{Catalog, Descriptions};
use pintle_registry::{GroupVersion, GroupVersionKind, Registry, Resource, Scope, Subresource, Verb};
use pintle_schema::TypeId;
use pintle_value::Str;

use crate::names::{WebService, article, title};
use crate::operation::{Body, Model, Route};
use crate::parameters::{Parameter, of_options};

/// The media types of built-in kinds.
const MEDIA_TYPES: &[&str] = &["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
const STREAM_TYPES: &[&str] = &[
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
];
const LOG_TYPES: &[&str] =
    &["text/plain", "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
const JSON: &[&str] = &["application/json"];
const CUSTOM_TYPES: &[&str] = &["application/json", "application/yaml"];
const ANY: &[&str] = &["*/*"];
const PATCH_TYPES: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];
const CUSTOM_PATCH_TYPES: &[&str] =
    &["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"];

/// The option parameters and models that many operations share.
pub(crate) struct RouteBuilder<'a> {
    catalog: &'a Catalog,
    texts: &'a Descriptions,
    list: Vec<Parameter>,
    create: Vec<Parameter>,
    update: Vec<Parameter>,
    patch: Vec<Parameter>,
    delete: Vec<Parameter>,
}

impl<'a> RouteBuilder<'a> {
    pub(crate) fn new(catalog: &'a Catalog, texts: &'a Descriptions) -> Self {
        let options =
            |name: &str| catalog.struct_type(name).map(|id| of_options(catalog, texts, id)).unwrap_or_default();
        Self {
            catalog,
            texts,
            list: options("meta/v1.ListOptions"),
            create: options("meta/v1.CreateOptions"),
            update: options("meta/v1.UpdateOptions"),
            patch: options("meta/v1.PatchOptions"),
            delete: options("meta/v1.DeleteOptions"),
        }
    }

    /// Returns the model of a struct of the meta package.
    fn meta(&self, name: &str) -> Model {
        self.catalog.struct_type(&format!("meta/v1.{name}")).map_or(Model::Text, Model::Struct)
    }

    fn kind(&self, kind: &GroupVersionKind) -> Option<Model> {
        self.catalog.kind_type(&kind.group, &kind.version, &kind.kind).map(Model::Struct)
    }

    /// Returns the discovery operation of a path.
    fn discovery(&self, service: &WebService, rest: &str, description: &str, model: Model) -> Route {
        Route {
            path: format!("{}/", service.root),
            method: "get",
            description: description.to_owned(),
            id: service.operation("get", rest),
            tag: service.tag.clone(),
            action: None,
            kind: None,
            parameters: Vec::new(),
            body: None,
            consumes: MEDIA_TYPES,
            produces: MEDIA_TYPES,
            responses: vec![(200, model)],
        }
    }

    /// The operation of `/api`.
    pub(crate) fn legacy_root(&self) -> Route {
        let service = WebService::of_group("");
        self.discovery(&service, "APIVersions", "get available API versions", self.meta("APIVersions"))
    }

    /// The operation of `/apis`.
    pub(crate) fn root(&self) -> Route {
        let service = WebService::of_path("apis");
        self.discovery(&service, "APIVersions", "get available API versions", self.meta("APIGroupList"))
    }

    /// The operation of a group's own path.
    pub(crate) fn group(&self, group: &str) -> Route {
        let service = WebService::of_group(group);
        self.discovery(&service, "APIGroup", "get information of a group", self.meta("APIGroup"))
    }

    /// The operation of `/version`.
    pub(crate) fn version(&self) -> Route {
        let service = WebService::of_path("version");
        let text = "get the version information for this server";
        let mut route = self.discovery(&service, "CodeVersion", text, Model::Version);
        (route.consumes, route.produces) = (JSON, JSON);
        route
    }

    /// The operations of the documents of the service account token issuer, each with the path of its document.
    pub(crate) fn issuer_documents(&self) -> [(&'static str, Route); 2] {
        let route = |path, text, id, produces| {
            let mut route = self.discovery(&WebService::of_path(path), id, text, Model::Text);
            // Upstream's route declares no media types of request bodies.
            (route.consumes, route.produces) = (&[], produces);
            (path, route)
        };
        [
            route(
                ".well-known/openid-configuration",
                "get service account issuer OpenID configuration, also known as the 'OIDC discovery doc'",
                "ServiceAccountIssuerOpenIDConfiguration",
                JSON,
            ),
            route(
                "openid/v1/jwks",
                "get service account issuer OpenID JSON Web Key Set (contains public token verification keys)",
                "ServiceAccountIssuerOpenIDKeyset",
                &["application/jwk-set+json"],
            ),
        ]
    }

    /// Returns all operations of the server.
    pub(crate) fn all(&self, registry: &Registry) -> Vec<Route> {
        let mut routes = vec![self.legacy_root(), self.root(), self.version()];
        routes.extend(self.issuer_documents().map(|(_, route)| route));
        routes.extend(documented_groups(registry).map(|group| self.group(&group)));
        routes.extend(registry.versions().flat_map(|version| self.of_version(registry, version)));
        routes
    }

    /// Returns the operations of a group and version.
    pub(crate) fn of_version(&self, registry: &Registry, version: &GroupVersion) -> Vec<Route> {
        let service = WebService::of_version(version);
        let text = "get available resources";
        let mut routes = Vec::new();
        if registry.resources_of(version).any(|resource| resource.built_in) {
            routes.push(self.discovery(&service, "APIResources", text, self.meta("APIResourceList")));
        }
        for resource in registry.resources_of(version) {
            let mut builder = ResourceRouteBuilder { shared: self, service: &service, resource, routes: &mut routes };
            builder.add_resource_operations();
            for subresource in &resource.subresources {
                builder.add_subresource_operations(subresource);
            }
        }
        routes
    }
}

/// Returns the groups with a documented discovery path. Like upstream, excludes groups that have only custom resources.
/// Also excludes the core group, which has another path.
pub(crate) fn documented_groups(registry: &Registry) -> impl Iterator<Item = Str> {
    let groups = registry.groups().filter(|group| !group.name().is_empty() && group.has_built_in());
    groups.map(|group| group.name().clone())
}

/// Builds the operations of one resource.
struct ResourceRouteBuilder<'a> {
    shared: &'a RouteBuilder<'a>,
    service: &'a WebService,
    resource: &'a Arc<Resource>,
    routes: &'a mut Vec<Route>,
}

/// The scope of a collection path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CollectionScope {
    /// The objects of a namespace, or of the cluster for cluster-scoped resources.
    Own,
    /// The objects of all namespaces.
    All,
}

impl ResourceRouteBuilder<'_> {
    /// Returns true for custom resources.
    fn is_custom(&self) -> bool {
        !self.resource.built_in || !Arc::ptr_eq(&self.resource.schema.types, self.shared.catalog.types())
    }

    fn is_namespaced(&self) -> bool {
        self.resource.scope == Scope::Namespaced
    }

    /// Returns the path after the root, with a leading slash.
    fn collection_path(&self, scope: CollectionScope) -> String {
        let plural = &self.resource.plural;
        if self.is_namespaced() && scope == CollectionScope::Own {
            format!("/namespaces/{{namespace}}/{plural}")
        } else {
            format!("/{plural}")
        }
    }

    fn item_path(&self) -> String {
        self.collection_path(CollectionScope::Own) + "/{name}"
    }

    /// Returns the kind as it appears in operation ids.
    fn noun(&self, scope: CollectionScope) -> String {
        let scope = if self.is_namespaced() && scope == CollectionScope::Own { "Namespaced" } else { "" };
        format!("{scope}{}", self.resource.kind)
    }

    fn suffix(&self, scope: CollectionScope) -> &'static str {
        if scope == CollectionScope::All { "ForAllNamespaces" } else { "" }
    }

    fn model(&self) -> Model {
        if self.is_custom() { Model::Custom(self.resource.clone()) } else { Model::Struct(self.resource.schema.root) }
    }

    fn list_model(&self) -> Model {
        let resource = self.resource;
        let kind = GroupVersionKind::new(resource.group.clone(), resource.version.clone(), resource.list_kind.clone());
        if self.is_custom() { None } else { self.shared.kind(&kind) }.unwrap_or(Model::CustomList(resource.clone()))
    }

    fn media_types(&self) -> &'static [&'static str] {
        if self.is_custom() { CUSTOM_TYPES } else { MEDIA_TYPES }
    }

    /// Creates a route with the path parameters and `pretty`.
    fn route(&self, path: &str, method: &'static str, action: &'static str, kind: &GroupVersionKind) -> Route {
        let mut parameters = Vec::new();
        if path.contains("{namespace}") {
            parameters.push(Parameter::namespace());
        }
        if path.contains("{name}") {
            parameters.push(Parameter::path("name", format!("name of the {}", kind.kind)));
        }
        if path.ends_with("/{path}") {
            parameters.push(Parameter::path("path", "path to the resource".to_owned()));
        }
        if action != "connect" {
            parameters.push(Parameter::pretty());
        }
        Route {
            path: format!("{}{path}", self.service.root),
            method,
            description: String::new(),
            id: String::new(),
            tag: self.service.tag.clone(),
            action: Some(action),
            kind: Some(kind.clone()),
            parameters,
            body: None,
            consumes: if self.is_custom() { CUSTOM_TYPES } else { ANY },
            produces: self.media_types(),
            responses: Vec::new(),
        }
    }

    fn push(&mut self, mut route: Route, description: String, verb: &str, rest: &str) {
        route.description = description;
        route.id = self.service.operation(verb, rest);
        self.routes.push(route);
    }

    /// Adds the operations on the resource itself.
    fn add_resource_operations(&mut self) {
        let resource = self.resource;
        let has = |verb| resource.verbs.has(verb);
        if has(Verb::List) {
            self.add_list(CollectionScope::Own);
        }
        if has(Verb::Create) {
            self.add_create(&self.collection_path(CollectionScope::Own), None);
        }
        if has(Verb::DeleteCollection) {
            self.add_delete_collection();
        }
        // Upstream publishes the deprecated watch paths only for built-in kinds.
        let watched = has(Verb::Watch) && !self.is_custom();
        if watched && has(Verb::List) {
            self.add_watch_list(CollectionScope::Own);
        }
        if has(Verb::Get) {
            self.add_get(None);
        }
        if has(Verb::Update) {
            self.add_update(None);
        }
        if has(Verb::Patch) {
            self.add_patch(None);
        }
        if has(Verb::Delete) {
            self.add_delete(None);
        }
        if watched {
            self.add_watch();
        }
        if self.is_namespaced() && has(Verb::List) {
            self.add_list(CollectionScope::All);
            if watched {
                self.add_watch_list(CollectionScope::All);
            }
        }
    }

    /// Adds the operations on a subresource.
    fn add_subresource_operations(&mut self, subresource: &Subresource) {
        let has = |verb| subresource.verbs.has(verb);
        // A subresource whose kind is an options type is a connection (upstream: `rest.Connecter`).
        if subresource.kind.kind.ends_with("Options") {
            self.add_connect(subresource);
            return;
        }
        if has(Verb::Create) {
            self.add_create(&format!("{}/{}", self.item_path(), subresource.name), Some(subresource));
        }
        if has(Verb::Get) {
            self.add_get(Some(subresource));
        }
        if has(Verb::Update) {
            self.add_update(Some(subresource));
        }
        if has(Verb::Patch) {
            self.add_patch(Some(subresource));
        }
        if has(Verb::Delete) {
            self.add_delete(Some(subresource));
        }
    }

    /// Returns the path, kind, model and name for the operations on an item.
    fn item(&self, subresource: Option<&Subresource>) -> ItemTarget {
        match subresource {
            None => ItemTarget {
                path: self.item_path(),
                kind: self.resource.gvk(),
                model: self.model(),
                noun: self.noun(CollectionScope::Own),
                of: format!("the specified {}", self.resource.kind),
            },
            Some(sub) => {
                let own = sub.kind == self.resource.gvk();
                let known = if own { None } else { self.shared.kind(&sub.kind) };
                ItemTarget {
                    path: format!("{}/{}", self.item_path(), sub.name),
                    // The subresources of custom resources are published with the kind of the resource.
                    kind: if self.is_custom() { self.resource.gvk() } else { sub.kind.clone() },
                    model: known.unwrap_or_else(|| self.model()),
                    noun: self.noun(CollectionScope::Own) + &title(&sub.name),
                    of: format!("{} of the specified {}", sub.name, self.resource.kind),
                }
            }
        }
    }

    fn add_list(&mut self, scope: CollectionScope) {
        let kind = self.resource.gvk();
        let mut route = self.route(&self.collection_path(scope), "get", "list", &kind);
        route.parameters.extend_from_slice(&self.shared.list);
        let watched = self.resource.verbs.has(Verb::Watch) && !self.is_custom();
        if !self.is_custom() {
            route.produces = STREAM_TYPES;
        }
        route.responses = vec![(200, self.list_model())];
        let what = if watched { "list or watch" } else { "list" };
        let rest = self.noun(scope) + self.suffix(scope);
        self.push(route, format!("{what} objects of kind {}", kind.kind), "list", &rest);
    }

    fn add_watch_list(&mut self, scope: CollectionScope) {
        let kind = self.resource.gvk();
        let path = format!("/watch{}", self.collection_path(scope));
        let mut route = self.route(&path, "get", "watchlist", &kind);
        route.parameters.extend_from_slice(&self.shared.list);
        route.produces = STREAM_TYPES;
        route.responses = vec![(200, self.shared.meta("WatchEvent"))];
        let text = format!(
            "watch individual changes to a list of {}. deprecated: use the 'watch' parameter with a list operation instead.",
            kind.kind
        );
        let rest = format!("{}List{}", self.noun(scope), self.suffix(scope));
        self.push(route, text, "watch", &rest);
    }

    fn add_watch(&mut self) {
        let kind = self.resource.gvk();
        let mut route = self.route(&format!("/watch{}", self.item_path()), "get", "watch", &kind);
        route.parameters.extend_from_slice(&self.shared.list);
        route.produces = STREAM_TYPES;
        route.responses = vec![(200, self.shared.meta("WatchEvent"))];
        let text = format!(
            "watch changes to an object of kind {}. deprecated: use the 'watch' parameter with a list operation instead, \
             filtered to a single item with the 'fieldSelector' parameter.",
            kind.kind
        );
        self.push(route, text, "watch", &self.noun(CollectionScope::Own));
    }

    fn add_create(&mut self, path: &str, subresource: Option<&Subresource>) {
        let (item, kind) = (self.item(subresource), &self.resource.kind);
        let mut route = self.route(path, "post", "post", &item.kind);
        route.parameters.extend_from_slice(&self.shared.create);
        route.body = Some(Body { model: item.model.clone(), required: true });
        route.responses = [200, 201, 202].map(|code| (code, item.model.clone())).to_vec();
        let text = match subresource {
            None => format!("create{}{kind}", article(kind)),
            Some(sub) => format!("create {} of{}{kind}", sub.name, article(kind)),
        };
        self.push(route, text, "create", &item.noun);
    }

    fn add_get(&mut self, subresource: Option<&Subresource>) {
        let item = self.item(subresource);
        let mut route = self.route(&item.path, "get", "get", &item.kind);
        route.responses = vec![(200, item.model.clone())];
        if self.is_custom() {
            let version = self.shared.list.iter().find(|p| p.name == "resourceVersion");
            route.parameters.extend(version.cloned());
        }
        // A subresource with an options type returns text (`pods/log` with PodLogOptions).
        if let Some(options) = subresource.and_then(|sub| self.options_of(sub)) {
            route.parameters.extend(of_options(self.shared.catalog, self.shared.texts, options));
            route.produces = LOG_TYPES;
            route.responses = vec![(200, Model::Text)];
        }
        self.push(route, format!("read {}", item.of), "read", &item.noun);
    }

    fn options_of(&self, subresource: &Subresource) -> Option<TypeId> {
        let resource = self.resource;
        let options = format!("{}{}Options", resource.kind, title(&subresource.name));
        self.shared.catalog.kind_type(&resource.group, &resource.version, &options)
    }

    fn add_update(&mut self, subresource: Option<&Subresource>) {
        let item = self.item(subresource);
        let mut route = self.route(&item.path, "put", "put", &item.kind);
        route.parameters.extend_from_slice(&self.shared.update);
        route.body = Some(Body { model: item.model.clone(), required: true });
        route.responses = [200, 201].map(|code| (code, item.model.clone())).to_vec();
        self.push(route, format!("replace {}", item.of), "replace", &item.noun);
    }

    fn add_patch(&mut self, subresource: Option<&Subresource>) {
        let item = self.item(subresource);
        let mut route = self.route(&item.path, "patch", "patch", &item.kind);
        route.parameters.extend_from_slice(&self.shared.patch);
        route.consumes = if self.is_custom() { CUSTOM_PATCH_TYPES } else { PATCH_TYPES };
        route.body = Some(Body { model: Model::Patch, required: true });
        let codes: &[u16] = if self.is_custom() { &[200] } else { &[200, 201] };
        route.responses = codes.iter().map(|code| (*code, item.model.clone())).collect();
        self.push(route, format!("partially update {}", item.of), "patch", &item.noun);
    }

    fn add_delete(&mut self, subresource: Option<&Subresource>) {
        let (item, kind) = (self.item(subresource), &self.resource.kind);
        let mut route = self.route(&item.path, "delete", "delete", &item.kind);
        route.parameters.extend_from_slice(&self.shared.delete);
        route.body = Some(Body { model: self.shared.meta("DeleteOptions"), required: false });
        // Upstream's storage of namespaces does not declare that deletion returns the object.
        let returns_status = self.resource.group.is_empty() && self.resource.plural == "namespaces";
        let returned = !returns_status && self.resource.collection().is_some_and(|c| c.returns_deleted);
        let model = if returned { item.model } else { self.shared.meta("Status") };
        route.responses = [200, 202].map(|code| (code, model.clone())).to_vec();
        let text = match subresource {
            None => format!("delete{}{kind}", article(kind)),
            Some(sub) => format!("delete {} of{}{kind}", sub.name, article(kind)),
        };
        self.push(route, text, "delete", &item.noun);
    }

    fn add_delete_collection(&mut self) {
        let kind = self.resource.gvk();
        let mut route = self.route(&self.collection_path(CollectionScope::Own), "delete", "deletecollection", &kind);
        if self.is_custom() {
            route.parameters.extend_from_slice(&self.shared.list);
        } else {
            route.parameters.extend_from_slice(&self.shared.delete);
            let watching = |p: &&Parameter| matches!(p.name.as_ref(), "watch" | "allowWatchBookmarks");
            route.parameters.extend(self.shared.list.iter().filter(|p| !watching(p)).cloned());
            route.body = Some(Body { model: self.shared.meta("DeleteOptions"), required: false });
        }
        route.responses = vec![(200, self.shared.meta("Status"))];
        let rest = format!("collection{}", self.noun(CollectionScope::Own));
        self.push(route, format!("delete collection of {}", kind.kind), "delete", &rest);
    }

    /// Adds the operations of a connection, one for each method. Proxies have the same operations below a path.
    fn add_connect(&mut self, subresource: &Subresource) {
        let proxy = subresource.kind.kind.ends_with("ProxyOptions");
        let options =
            self.shared.catalog.kind_type(&subresource.kind.group, &subresource.kind.version, &subresource.kind.kind);
        let parameters = options.map(|id| of_options(self.shared.catalog, self.shared.texts, id)).unwrap_or_default();
        let methods: &[(&'static str, Option<Verb>)] = &[
            ("delete", Some(Verb::Delete)),
            ("get", Some(Verb::Get)),
            ("head", None),
            ("options", None),
            ("patch", Some(Verb::Patch)),
            ("post", Some(Verb::Create)),
            ("put", Some(Verb::Update)),
        ];
        for below in [false, true] {
            if below && !proxy {
                break;
            }
            for (method, verb) in methods {
                // Discovery has no verbs for HEAD and OPTIONS, but proxies forward all methods.
                if !verb.map_or(proxy, |verb| subresource.verbs.has(verb)) {
                    continue;
                }
                let upper = method.to_ascii_uppercase();
                let path = format!("{}/{}{}", self.item_path(), subresource.name, if below { "/{path}" } else { "" });
                let mut route = self.route(&path, method, "connect", &subresource.kind);
                route.parameters.extend(parameters.iter().cloned());
                (route.consumes, route.produces) = (ANY, ANY);
                route.responses = vec![(200, Model::Text)];
                let text = format!("connect {upper} requests to {} of {}", subresource.name, self.resource.kind);
                let suffix = if below { "WithPath" } else { "" };
                let rest = format!("{}{}{suffix}", self.noun(CollectionScope::Own), title(&subresource.name));
                // The method follows the scope: `connectCoreV1GetNamespacedPodExec`.
                self.push(route, text, "connect", &format!("{}{rest}", title(method)));
            }
        }
    }
}

/// The target of operations on an item.
struct ItemTarget {
    path: String,
    kind: GroupVersionKind,
    model: Model,
    /// The name in operation ids.
    noun: String,
    /// The name in descriptions.
    of: String,
}

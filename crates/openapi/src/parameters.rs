//! The parameters of operations. Query parameters are the fields of the option types (`ListOptions`, `PatchOptions`,
//! ...) in the catalog, as upstream derives them from its Go structs (`AddObjectParams`).

use std::borrow::Cow;

use pintle_catalog::{Catalog, Descriptions};
use pintle_schema::{Scalar, Type, TypeId, Types};

/// The location of a parameter (`in`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ParameterLocation {
    Path,
    Query,
}

impl ParameterLocation {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            ParameterLocation::Path => "path",
            ParameterLocation::Query => "query",
        }
    }
}

/// A parameter of an operation other than its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parameter {
    pub(crate) name: Cow<'static, str>,
    pub(crate) location: ParameterLocation,
    pub(crate) ty: &'static str,
    pub(crate) description: String,
}

impl Parameter {
    /// A string in the path.
    pub(crate) fn path(name: &'static str, description: String) -> Self {
        Self { name: name.into(), location: ParameterLocation::Path, ty: "string", description }
    }

    /// The namespace in the path.
    pub(crate) fn namespace() -> Self {
        Self::path("namespace", "object name and auth scope, such as for teams and projects".to_owned())
    }

    /// The parameter `pretty`, which controls the formatting of the response.
    pub(crate) fn pretty() -> Self {
        let text = "Indents the answer if it is 'true'. Browsers, curl and wget get it indented without asking.";
        Self { name: "pretty".into(), location: ParameterLocation::Query, ty: "string", description: text.to_owned() }
    }
}

/// Returns the fields of an options type as query parameters. Struct fields are omitted, because they cannot be query
/// parameters.
pub(crate) fn of_options(catalog: &Catalog, texts: &Descriptions, options: TypeId) -> Vec<Parameter> {
    let types: &Types = catalog.types();
    let Type::Struct(options) = types.get(options) else { return Vec::new() };
    let fields = options.fields.iter().filter(|field| !matches!(field.name.as_str(), "apiVersion" | "kind"));
    fields
        .filter_map(|field| {
            let ty = query_type(types, field.ty)?;
            let text =
                texts.field(&options.model, &field.name).or_else(|| missing_description(&options.name, &field.name));
            let description = text.unwrap_or_default().to_owned();
            Some(Parameter { name: field.name.to_string().into(), location: ParameterLocation::Query, ty, description })
        })
        .collect()
}

/// Returns the type of a field as a query parameter. A list is a repeatable parameter with the type of its items.
fn query_type(types: &Types, id: TypeId) -> Option<&'static str> {
    match types.get(id) {
        Type::Scalar(scalar) => match scalar.kind {
            Scalar::Bool => Some("boolean"),
            Scalar::Int32 | Scalar::Int64 | Scalar::Uint32 | Scalar::Uint64 | Scalar::Uint8 => Some("integer"),
            Scalar::Float64 => Some("number"),
            Scalar::String => Some("string"),
            _ => None,
        },
        Type::List(list) => query_type(types, list.item),
        Type::Struct(_) | Type::Map(_) | Type::Union(_) | Type::Any => None,
    }
}

/// Returns the descriptions of options that the published descriptions lack.
fn missing_description(options: &str, field: &str) -> Option<&'static str> {
    Some(match (options, field) {
        ("meta/v1.PatchOptions", "fieldManager") => {
            "The name of the field manager that owns the changed fields, at most 128 printable characters. Required \
             for apply requests, optional for other patches."
        }
        (_, "fieldManager") => {
            "The name of the field manager that owns the changed fields, at most 128 printable characters."
        }
        (_, "dryRun") => {
            "With the value 'All', the server processes the request in all stages but does not store the result."
        }
        (_, "fieldValidation") => {
            "How the server handles unknown and duplicate fields in the body: 'Ignore' drops them, 'Warn' (the \
             default) drops them and sends a warning for each, 'Strict' rejects the request."
        }
        (_, "force") => {
            "Takes over fields of other managers that conflict with an apply request. Not allowed for other patches."
        }
        (_, "labelSelector") => "Selects objects by their labels. An empty selector selects all objects.",
        (_, "fieldSelector") => "Selects objects by their fields. An empty selector selects all objects.",
        (_, "watch") => "Returns a stream of changes that starts at resourceVersion, instead of a list.",
        (_, "allowWatchBookmarks") => {
            "Requests BOOKMARK events in a watch, which report its current resourceVersion. The server decides when \
             it sends them."
        }
        (_, "resourceVersion") => {
            "The resourceVersion that the request refers to. Its meaning depends on the request. See \
             https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions"
        }
        (_, "resourceVersionMatch") => {
            "How resourceVersion is applied to list requests. See \
             https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions"
        }
        (_, "timeoutSeconds") => "Timeout of the list or watch, in seconds, regardless of any activity.",
        (_, "limit") => {
            "The maximum number of objects in a response. If there are more, metadata.continue of the list is set, \
             and further requests can retrieve the rest from the same snapshot. Not supported for watches."
        }
        (_, "continue") => {
            "The metadata.continue of the previous response, to retrieve the next chunk of a list with a limit. All \
             other parameters must be unchanged. An expired token results in a 410 error. Not supported for watches."
        }
        (_, "sendInitialEvents") => {
            "Starts a watch with an ADDED event for every existing object, followed by a BOOKMARK event with the \
             annotation k8s.io/initial-events-end. Requires resourceVersionMatch=NotOlderThan."
        }
        (_, "shardSelector") => {
            "Selects objects by ranges of the hash of a field. Requires the feature ShardedListAndWatch, which is \
             disabled."
        }
        (_, "stdin") => "Redirects the standard input of the client to the container.",
        (_, "stdout") => "Redirects the standard output of the container to the client.",
        (_, "stderr") => "Redirects the standard error of the container to the client.",
        (_, "tty") => "Allocates a terminal for the process.",
        (_, "container") => "The name of the container. Optional if the pod has only one.",
        (_, "command") => "The command and its arguments, one value each. It is not executed in a shell.",
        (_, "ports") => "The ports to forward. Required for WebSocket connections.",
        (_, "path") => "The URL path to which the request is proxied.",
        (_, "follow") => "Streams new log lines as they are written.",
        (_, "previous") => "Returns the log of the previously terminated container.",
        (_, "sinceSeconds") => "Omits log lines that are older than this number of seconds.",
        (_, "timestamps") => "Prefixes every log line with a timestamp.",
        (_, "tailLines") => "The number of lines from the end of the log to return.",
        (_, "limitBytes") => "The maximum number of bytes of the log to return.",
        (_, "insecureSkipTLSVerifyBackend") => "Skips the verification of the kubelet's certificate.",
        (_, "stream") => "The log stream to return: 'All', 'Stdout' or 'Stderr'.",
        _ => return None,
    })
}

/// Returns the parameters that all operations of a path share. Upstream publishes them once, with the path. If
/// parameters have the same name and location, the description of the last parameter is used.
pub(crate) fn common<'a>(operations: &[&'a [Parameter]]) -> Vec<&'a Parameter> {
    let mut shared: Vec<&Parameter> = Vec::new();
    for parameter in operations.iter().copied().flatten() {
        let same = |p: &&Parameter| p.name == parameter.name && p.location == parameter.location;
        if operations.iter().all(|of_one| of_one.iter().any(|p| same(&p))) {
            match shared.iter_mut().find(|p| same(p)) {
                Some(slot) => *slot = parameter,
                None => shared.push(parameter),
            }
        }
    }
    sort(&mut shared);
    shared
}

/// Sorts parameters into the order in which they are published.
pub(crate) fn sort(parameters: &mut [&Parameter]) {
    parameters.sort_by(|a, b| (&a.name, a.location).cmp(&(&b.name, b.location)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(options: &str, expect: &str) {
        let catalog = pintle_catalog::shared();
        let texts = pintle_catalog::descriptions(catalog.minor());
        let id = catalog.struct_type(options).expect(options);
        let shared = of_options(catalog, &texts, id);
        let parameters_with_types: Vec<String> = shared.iter().map(|p| format!("{}:{}", p.name, p.ty)).collect();
        assert_eq!(parameters_with_types.join(" "), expect);
        assert!(shared.iter().all(|p| !p.description.is_empty()), "{shared:?}");
    }

    #[test]
    fn options() {
        check("meta/v1.CreateOptions", "dryRun:string fieldManager:string fieldValidation:string");
        check("meta/v1.PatchOptions", "dryRun:string force:boolean fieldManager:string fieldValidation:string");
        check(
            "meta/v1.DeleteOptions",
            "gracePeriodSeconds:integer orphanDependents:boolean propagationPolicy:string dryRun:string \
             ignoreStoreReadErrorWithClusterBreakingPotential:boolean",
        );
        check(
            "meta/v1.ListOptions",
            "labelSelector:string fieldSelector:string watch:boolean allowWatchBookmarks:boolean \
             resourceVersion:string resourceVersionMatch:string timeoutSeconds:integer limit:integer continue:string \
             sendInitialEvents:boolean shardSelector:string",
        );
        check(
            "core/v1.PodExecOptions",
            "stdin:boolean stdout:boolean stderr:boolean tty:boolean container:string command:string",
        );
    }

    #[test]
    fn shared_parameters_are_published_once() {
        let query = |name: &'static str| Parameter { name: name.into(), ..Parameter::pretty() };
        let (a, b) = ([query("z"), query("x"), query("y")], [query("x"), query("z")]);
        let names = |operations: &[&[Parameter]]| {
            common(operations).iter().map(|p| p.name.to_string()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names(&[&a, &b]), "x z");
        assert_eq!(names(&[&a]), "x y z");
        assert_eq!(names(&[&a, &[]]), "");
    }
}

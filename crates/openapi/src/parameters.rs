//! The parameters of operations. Query parameters are the fields of the option types (`ListOptions`, `PatchOptions`,
//! ...) in the catalog, as upstream derives them from its Go structs (`AddObjectParams`).

use std::borrow::Cow;

use pintle_catalog::{Catalog, Descriptions};
use pintle_schema::{Scalar, Type, TypeId, Types};

/// The location of a parameter (`in`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    Path,
    Query,
}

impl Place {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Place::Path => "path",
            Place::Query => "query",
        }
    }
}

/// A parameter of an operation other than its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parameter {
    pub(crate) name: Cow<'static, str>,
    pub(crate) place: Place,
    pub(crate) ty: &'static str,
    pub(crate) description: String,
}

impl Parameter {
    /// A string in the path.
    pub(crate) fn path(name: &'static str, description: String) -> Self {
        Self { name: name.into(), place: Place::Path, ty: "string", description }
    }

    /// The namespace in the path.
    pub(crate) fn namespace() -> Self {
        Self::path("namespace", "object name and auth scope, such as for teams and projects".to_owned())
    }

    /// The parameter `pretty`, which controls the formatting of the response.
    pub(crate) fn pretty() -> Self {
        let text = "Indents the answer if it is 'true'. Browsers, curl and wget get it indented without asking.";
        Self { name: "pretty".into(), place: Place::Query, ty: "string", description: text.to_owned() }
    }
}

/// Returns the fields of an options type as query parameters. Omits struct fields, which cannot be query parameters.
pub(crate) fn of_options(catalog: &Catalog, texts: &Descriptions, options: TypeId) -> Vec<Parameter> {
    let types: &Types = catalog.types();
    let Type::Struct(found) = types.get(options) else { return Vec::new() };
    let fields = found.fields.iter().filter(|field| !matches!(field.name.as_str(), "apiVersion" | "kind"));
    fields
        .filter_map(|field| {
            let ty = query_type(types, field.ty)?;
            let text = texts.field(&found.model, &field.name).or_else(|| own_text(&found.name, &field.name));
            let description = text.unwrap_or_default().to_owned();
            Some(Parameter { name: field.name.to_string().into(), place: Place::Query, ty, description })
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
fn own_text(options: &str, field: &str) -> Option<&'static str> {
    Some(match (options, field) {
        ("meta/v1.PatchOptions", "fieldManager") => {
            "Who makes the change: a name of at most 128 printable characters that owns the fields which are set. \
             Apply requests need it, other patches may leave it out."
        }
        (_, "fieldManager") => {
            "Who makes the change: a name of at most 128 printable characters that owns the fields which are set."
        }
        (_, "dryRun") => "With the value 'All' the request is worked through completely, but nothing is stored.",
        (_, "fieldValidation") => {
            "What to do about unknown and duplicate fields in the body: 'Ignore' drops them, 'Warn' (the default) drops \
             them and sends a warning for each, 'Strict' refuses the request."
        }
        (_, "force") => {
            "Takes over the fields of other managers that an apply request conflicts with. Not allowed for other patches."
        }
        (_, "labelSelector") => "Selects the objects by their labels. Empty selects all of them.",
        (_, "fieldSelector") => "Selects the objects by their fields. Empty selects all of them.",
        (_, "watch") => "Answers with a stream of changes, from resourceVersion on, in place of a list.",
        (_, "allowWatchBookmarks") => {
            "Asks for BOOKMARK events in a watch, which tell how far it has come. The server decides when it sends them."
        }
        (_, "resourceVersion") => {
            "The state that the request is about; what it means depends on the request. See \
             https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions"
        }
        (_, "resourceVersionMatch") => {
            "How resourceVersion restricts the state that a list shows. See \
             https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions"
        }
        (_, "timeoutSeconds") => "How many seconds the list or watch may take, whether anything happens or not.",
        (_, "limit") => {
            "The largest number of objects in one answer. The list's metadata.continue is the key to those that follow; \
             all parts together show one state. Not for watches."
        }
        (_, "continue") => {
            "The metadata.continue of the answer before, to go on with a list that has a limit; all other parameters must \
             be the same. After some minutes the server forgets it and answers 410. Not for watches."
        }
        (_, "sendInitialEvents") => {
            "A watch begins with an ADDED event for every object that there is, then a BOOKMARK with the annotation \
             k8s.io/initial-events-end. Needs resourceVersionMatch=NotOlderThan."
        }
        (_, "shardSelector") => {
            "Selects the objects by ranges of a hash of a field. It belongs to the feature ShardedListAndWatch, which is off."
        }
        (_, "stdin") => "Passes on what the client sends as standard input.",
        (_, "stdout") => "Passes on standard output to the client.",
        (_, "stderr") => "Passes on standard error to the client.",
        (_, "tty") => "Gives the process a terminal.",
        (_, "container") => "The container; may be left out where there is one.",
        (_, "command") => "The command and its arguments, one value each. It is not run in a shell.",
        (_, "ports") => "The ports to forward to. WebSocket connections need them.",
        (_, "path") => "The URL that the request is passed on to.",
        (_, "follow") => "Goes on with new lines as they are logged.",
        (_, "previous") => "The log of the container that ended before this one.",
        (_, "sinceSeconds") => "Leaves out lines that are older than this many seconds.",
        (_, "timestamps") => "Puts the time before every line.",
        (_, "tailLines") => "The number of lines from the end of the log to begin with.",
        (_, "limitBytes") => "The number of bytes to end after.",
        (_, "insecureSkipTLSVerifyBackend") => "Trusts the kubelet's certificate without a check.",
        (_, "stream") => "The stream to show: 'All', 'Stdout' or 'Stderr'.",
        _ => return None,
    })
}

/// Returns the parameters that all operations of a path share. Upstream publishes them once, with the path. If
/// parameters have the same name and location, the description of the last one is used.
pub(crate) fn common<'a>(operations: &[&'a [Parameter]]) -> Vec<&'a Parameter> {
    let mut found: Vec<&Parameter> = Vec::new();
    for parameter in operations.iter().copied().flatten() {
        let same = |p: &&Parameter| p.name == parameter.name && p.place == parameter.place;
        if operations.iter().all(|of_one| of_one.iter().any(|p| same(&p))) {
            match found.iter_mut().find(|p| same(p)) {
                Some(slot) => *slot = parameter,
                None => found.push(parameter),
            }
        }
    }
    sort(&mut found);
    found
}

/// Sorts parameters into the order in which they are published.
pub(crate) fn sort(parameters: &mut [&Parameter]) {
    parameters.sort_by(|a, b| (&a.name, a.place).cmp(&(&b.name, b.place)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(options: &str, expect: &str) {
        let catalog = pintle_catalog::shared();
        let texts = pintle_catalog::descriptions();
        let id = catalog.struct_type(options).expect(options);
        let found = of_options(catalog, &texts, id);
        let words: Vec<String> = found.iter().map(|p| format!("{}:{}", p.name, p.ty)).collect();
        assert_eq!(words.join(" "), expect);
        assert!(found.iter().all(|p| !p.description.is_empty()), "{found:?}");
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
    fn what_all_operations_have_is_common() {
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

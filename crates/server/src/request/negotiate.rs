//! Content negotiation: which media type an answer has and whether the object is transformed for it, and which media
//! type a body has (upstream: `endpoints/handlers/negotiation`).

use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use pintle_registry::ApiError;

use crate::request::query::Query;

/// The encodings that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Encoding {
    /// `application/json`
    Json,
    /// `application/yaml`
    Yaml,
    /// `application/vnd.kubernetes.protobuf`
    Protobuf,
    /// `application/cbor`
    Cbor,
}

impl Encoding {
    /// The media type.
    #[must_use]
    pub(crate) const fn media_type(self) -> &'static str {
        match self {
            Encoding::Json => "application/json",
            Encoding::Yaml => "application/yaml",
            Encoding::Protobuf => "application/vnd.kubernetes.protobuf",
            Encoding::Cbor => "application/cbor",
        }
    }

    /// The media type of a stream of watch events.
    #[must_use]
    pub(crate) const fn stream_type(self) -> &'static str {
        match self {
            Encoding::Json => "application/json",
            Encoding::Yaml => "application/yaml",
            Encoding::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
            Encoding::Cbor => "application/cbor-seq",
        }
    }

    /// How messages name its streams, if there are any.
    const fn named_stream(self) -> Option<&'static str> {
        match self {
            Encoding::Json => Some("application/json;stream=watch"),
            Encoding::Yaml => None,
            Encoding::Protobuf | Encoding::Cbor => Some(self.stream_type()),
        }
    }

    /// True if tables are shown in it. Protobuf cannot say values of any type; in CBOR upstream shows none either.
    const fn shows_tables(self) -> bool {
        matches!(self, Encoding::Json | Encoding::Yaml)
    }
}

/// All encodings in the order of upstream's serializers; the last is a feature of its own.
const ENCODINGS: [Encoding; 4] = [Encoding::Json, Encoding::Yaml, Encoding::Protobuf, Encoding::Cbor];

/// What an object is turned into for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Transform {
    /// A table of `meta.k8s.io` in this version.
    Table(MetaVersion),
    /// Only its metadata.
    Partial(MetaVersion),
    /// Only the metadata of a list's items.
    PartialList(MetaVersion),
}

/// A version of `meta.k8s.io`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum MetaVersion {
    /// `v1`
    V1,
    /// `v1beta1`
    V1Beta1,
}

impl MetaVersion {
    /// The `apiVersion`.
    #[must_use]
    pub(crate) const fn api_version(self) -> &'static str {
        match self {
            MetaVersion::V1 => "meta.k8s.io/v1",
            MetaVersion::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Accepted {
    /// The encoding.
    pub(crate) encoding: Encoding,
    /// What the object is turned into, if anything.
    pub(crate) transform: Option<Transform>,
    /// Indented, for people.
    pub(crate) pretty: bool,
}

/// What an endpoint can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// Objects can be transformed.
    pub(crate) transforms: bool,
    /// The answer is a stream of events.
    pub(crate) stream: bool,
    /// Objects that are not transformed have a Protobuf form.
    pub(crate) protobuf: bool,
    /// It is a collection's, which can be watched.
    pub(crate) collection: bool,
    /// There is a CBOR form.
    pub(crate) cbor: bool,
}

impl Endpoint {
    /// An endpoint that answers with plain objects.
    pub(crate) const PLAIN: Endpoint =
        Endpoint { transforms: false, stream: false, protobuf: true, collection: false, cbor: false };

    /// The encodings that the server has at all. Messages name them all, also to those who ask for custom kinds.
    fn served(self) -> impl Iterator<Item = Encoding> {
        ENCODINGS.into_iter().filter(move |encoding| self.cbor || *encoding != Encoding::Cbor)
    }

    /// The media types of single objects, as messages name them.
    fn wholes(self) -> impl Iterator<Item = &'static str> {
        self.served().map(Encoding::media_type)
    }

    /// The media types of streams, as messages name them.
    fn streams(self) -> impl Iterator<Item = &'static str> {
        self.served().filter_map(Encoding::named_stream)
    }

    /// The media types that the router knows of.
    fn routed(self) -> impl Iterator<Item = &'static str> {
        self.wholes().chain(self.streams().filter(move |_| self.collection))
    }

    /// True if the router finds one of the accepted media types, whatever its parameters, among those that it knows.
    fn routes(self, accept: &str) -> bool {
        accept.split(',').any(|clause| {
            let media_type = clause.split(';').next().unwrap_or_default().trim();
            media_type == "*/*" || self.routed().any(|known| known == media_type)
        })
    }
}

/// One clause of an `Accept` header.
#[derive(Debug, PartialEq)]
struct AcceptClause<'a> {
    kind: &'a str,
    subtype: &'a str,
    quality: f32,
    parameters: Vec<(&'a str, &'a str)>,
}

impl<'a> AcceptClause<'a> {
    /// Reads a clause as `goautoneg` does: what is malformed says nothing.
    fn read(text: &'a str) -> Option<Self> {
        let (media_type, parameters) = text.split_once(';').unwrap_or((text, ""));
        let (kind, subtype) = media_type.split_once('/').unwrap_or((media_type, ""));
        let (kind, subtype) = (kind.trim_matches(' '), subtype.trim_matches(' '));
        let subtype = match subtype {
            "" if kind == "*" => "*",
            "" => return None,
            subtype if subtype.contains('/') => return None,
            subtype => subtype,
        };
        let mut clause = Self { kind, subtype, quality: 1.0, parameters: Vec::new() };
        for parameter in parameters.split(';') {
            let Some((key, value)) = parameter.split_once('=') else { continue };
            match key.trim_matches(' ') {
                _ if value.is_empty() || value.contains('=') => {}
                "q" => clause.quality = value.parse().unwrap_or_default(),
                key => clause.parameters.push((key, value.trim_matches(' '))),
            }
        }
        Some(clause)
    }

    /// True if it is looked at before another one. What says more comes first, whatever its quality.
    fn before(&self, other: &Self) -> bool {
        self.quality > other.quality
            || (self.kind != "*" && other.kind == "*")
            || (self.subtype != "*" && other.subtype == "*")
    }
}

/// Up to so many clauses are put in order as Go does it with few, where the relation need not be an order.
const FEW: usize = 12;

fn clauses(header: &str) -> Vec<AcceptClause<'_>> {
    let mut clauses: Vec<AcceptClause<'_>> = header.split(',').filter_map(AcceptClause::read).collect();
    if clauses.len() > FEW {
        let wildness = |c: &AcceptClause<'_>| u8::from(c.kind == "*") + u8::from(c.subtype == "*");
        clauses.sort_by(|a, b| wildness(a).cmp(&wildness(b)).then(b.quality.total_cmp(&a.quality)));
        return clauses;
    }
    for end in 1..clauses.len() {
        for at in (1..=end).rev() {
            if !clauses[at].before(&clauses[at - 1]) {
                break;
            }
            clauses.swap(at, at - 1);
        }
    }
    clauses
}

/// Chooses the form of an answer.
///
/// # Errors
/// Nothing that the client accepts can be served.
pub(crate) fn output(headers: &HeaderMap, query: &Query, endpoint: Endpoint) -> Result<Accepted, ApiError> {
    // Of several headers Go's servers see the first.
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let pretty_wanted = pretty(headers, query);
    if accept.is_empty() {
        return Ok(Accepted { encoding: Encoding::Json, transform: None, pretty: pretty_wanted });
    }
    // For built-in kinds upstream's router has a look first, and knows whole media types only.
    if endpoint.protobuf && !endpoint.routes(accept) {
        return Err(unroutable(endpoint));
    }
    let clauses = clauses(accept);
    let accepted = clauses
        .iter()
        .find_map(|clause| endpoint.served().find_map(|encoding| accept_clause(clause, encoding, endpoint)));
    match accepted {
        // A watch is negotiated as if it were a list, and then as a stream.
        Some(accepted) if endpoint.stream && accepted.encoding.named_stream().is_none() => {
            Err(not_acceptable(endpoint.streams()))
        }
        Some(mut accepted) => {
            accepted.pretty |= pretty_wanted;
            Ok(accepted)
        }
        None => Err(not_acceptable(endpoint.wholes())),
    }
}

fn not_acceptable(types: impl Iterator<Item = &'static str>) -> ApiError {
    let types: Vec<_> = types.collect();
    ApiError::NotAcceptable(format!("only the following media types are accepted: {}", types.join(", ")))
}

/// The router's error, which says what could have been accepted.
fn unroutable(endpoint: Endpoint) -> ApiError {
    let types: Vec<_> = endpoint.routed().collect();
    ApiError::NotAcceptable(format!("406: Not Acceptable\n\nAvailable representations: {}", types.join(", ")))
}

fn accept_clause(clause: &AcceptClause<'_>, encoding: Encoding, endpoint: Endpoint) -> Option<Accepted> {
    let (kind, subtype) = encoding.media_type().split_once('/')?;
    let matches = (clause.kind == kind && (clause.subtype == subtype || clause.subtype == "*"))
        || (clause.kind == "*" && clause.subtype == "*");
    if !matches {
        return None;
    }
    let mut accepted = Accepted { encoding, transform: None, pretty: false };
    let (mut target, mut group, mut version) = (None, "", "");
    for (key, value) in &clause.parameters {
        match *key {
            "as" => target = Some(*value),
            "g" => group = value,
            "v" => version = value,
            "stream" if !value.is_empty() && (*value != "watch" || encoding.named_stream().is_none()) => return None,
            "pretty" => accepted.pretty = *value == "1",
            "sv" if !value.is_empty() => return None,
            _ => {}
        }
    }
    if target.is_none() && group.is_empty() && version.is_empty() {
        // Objects of custom kinds have no Protobuf form; what they are transformed into has.
        return (endpoint.protobuf || encoding != Encoding::Protobuf).then_some(accepted);
    }
    if !endpoint.transforms || group != "meta.k8s.io" {
        return None;
    }
    let version = match version {
        "v1" => MetaVersion::V1,
        "v1beta1" => MetaVersion::V1Beta1,
        _ => return None,
    };
    accepted.transform = Some(match target? {
        "Table" if encoding.shows_tables() => Transform::Table(version),
        "PartialObjectMetadata" => Transform::Partial(version),
        "PartialObjectMetadataList" => Transform::PartialList(version),
        _ => return None,
    });
    Some(accepted)
}

/// True if people look at the answer: `?pretty`, or a browser or command line tool without it.
fn pretty(headers: &HeaderMap, query: &Query) -> bool {
    if let Some(value) = query.get("pretty").filter(|v| !v.is_empty()) {
        return matches!(value, "1" | "t" | "T" | "true" | "TRUE" | "True");
    }
    let agent = headers.get(USER_AGENT).and_then(|v| v.to_str().ok()).unwrap_or_default();
    ["curl", "Wget", "Mozilla/5.0"].iter().any(|tool| agent.starts_with(tool))
}

/// The encoding of a body; JSON where the client does not say.
///
/// # Errors
/// The encoding is none that is read here.
pub(crate) fn input(headers: &HeaderMap, endpoint: Endpoint) -> Result<Encoding, ApiError> {
    let Some(media_type) = media_type(headers) else { return Ok(Encoding::Json) };
    let known = |encoding: &Encoding| endpoint.protobuf || *encoding != Encoding::Protobuf;
    let unsupported = || ApiError::UnsupportedMediaType(endpoint.wholes().map(str::to_owned).collect());
    endpoint.served().filter(known).find(|encoding| encoding.media_type() == media_type).ok_or_else(unsupported)
}

/// The media type of a body, in lower case and without parameters; `None` if there is none. What is malformed is a
/// media type that nobody knows (upstream: Go's `mime.ParseMediaType`).
#[must_use]
fn media_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(CONTENT_TYPE).filter(|value| !value.is_empty())?;
    let Ok(value) = value.to_str() else { return Some(String::new()) };
    let mut pieces = value.split(';');
    let media_type = pieces.next().unwrap_or_default().trim().to_ascii_lowercase();
    let mut pieces = pieces.map(str::trim).peekable();
    let mut seen = Vec::new();
    while let Some(piece) = pieces.next() {
        let parameter = piece.split_once('=').filter(|(key, value)| !key.is_empty() && !value.is_empty());
        match parameter {
            Some((key, _)) if !seen.contains(&key.to_ascii_lowercase()) => seen.push(key.to_ascii_lowercase()),
            None if piece.is_empty() && pieces.peek().is_none() => {}
            _ => return Some(String::new()),
        }
    }
    Some(media_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is chosen, in short, or the error's text.
    fn choose(accept: &str, endpoint: Endpoint) -> String {
        let mut headers = HeaderMap::new();
        if !accept.is_empty() {
            headers.insert(ACCEPT, accept.parse().expect("a header value"));
        }
        match output(&headers, &Query::default(), endpoint) {
            Ok(Accepted { encoding, transform, pretty }) => {
                let transform = transform.map(|transform| format!(" {transform:?}")).unwrap_or_default();
                format!("{encoding:?}{transform}{}", if pretty { " pretty" } else { "" })
            }
            Err(error) => error.to_string(),
        }
    }

    const OBJECTS: Endpoint = Endpoint { transforms: true, ..Endpoint::PLAIN };
    const CUSTOM: Endpoint = Endpoint { protobuf: false, ..OBJECTS };
    const WATCH: Endpoint = Endpoint { stream: true, collection: true, ..OBJECTS };
    const NONE: &str = "only the following media types are accepted: application/json, application/yaml, \
                        application/vnd.kubernetes.protobuf";
    const NO_STREAM: &str = "only the following media types are accepted: application/json;stream=watch, \
                             application/vnd.kubernetes.protobuf;stream=watch";

    fn check(endpoint: Endpoint, rows: &[(&str, &str)]) {
        for (accept, expect) in rows {
            assert_eq!(choose(accept, endpoint), *expect, "{accept}");
        }
    }

    #[test]
    fn what_clients_send_is_understood() {
        check(
            OBJECTS,
            &[
                ("", "Json"),
                ("*/*", "Json"),
                (
                    "*",
                    "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, application/vnd.kubernetes.protobuf",
                ),
                (
                    "application/*",
                    "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, application/vnd.kubernetes.protobuf",
                ),
                ("application/vnd.kubernetes.protobuf, application/json", "Protobuf"),
                ("application/vnd.kubernetes.protobuf,application/json;q=0.9", "Protobuf"),
                ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", "Json Table(V1)"),
                ("application/json;as=Table;v=v1beta1;g=meta.k8s.io", "Json Table(V1Beta1)"),
                ("application/json;as=Table;v=v2;g=meta.k8s.io", NONE),
                ("application/yaml;as=Table;v=v1;g=meta.k8s.io", "Yaml Table(V1)"),
                ("application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1, application/json", "Json"),
                (
                    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
                    "Protobuf Partial(V1)",
                ),
                ("application/json;pretty=1", "Json pretty"),
                ("application/json;pretty=0", "Json"),
                ("application/json;sv=v2,application/yaml", "Yaml"),
                ("application/json;stream=watch", "Json"),
                ("application/json;stream=other,application/yaml", "Yaml"),
                ("application/yaml;stream=watch", NONE),
                ("text/html,application/xhtml+xml,*/*;q=0.8", "Json"),
                ("application/json;charset=utf-8", "Json"),
            ],
        );
    }

    #[test]
    fn clauses_are_looked_at_in_gos_order() {
        check(
            OBJECTS,
            &[
                ("application/json;q=0.1, application/yaml", "Yaml"),
                ("application/json;q=0.5,application/yaml;q=0.6,application/vnd.kubernetes.protobuf;q=0.55", "Yaml"),
                // What is wild comes last, whatever its quality.
                ("*/*;q=0.9,application/yaml;q=0.1", "Yaml"),
                // What is no number is none.
                ("application/json;q=high,application/yaml;q=0.1", "Yaml"),
                ("application/json; q=1,application/yaml;q=0.5", "Json"),
                ("application/json;q= 1,application/yaml;q=0.5", "Yaml"),
                ("application/json;q=0,text/plain", "Json"),
                // Parameters without a value, or with two, are none.
                ("application/json;as", "Json"),
                ("application/json;as=a=b", "Json"),
                ("application/json;as=\"Table\";v=v1;g=meta.k8s.io,application/yaml", "Yaml"),
                (",;,application,application/a/b,application/json", "Json"),
            ],
        );
    }

    #[test]
    fn custom_objects_have_no_protobuf_and_their_metadata_has() {
        check(
            CUSTOM,
            &[
                ("application/vnd.kubernetes.protobuf", NONE),
                ("application/vnd.kubernetes.protobuf,application/json", "Json"),
                ("*", "Json"),
                ("application/*", "Json"),
                ("text/plain", NONE),
                (
                    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
                    "Protobuf PartialList(V1)",
                ),
                ("application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1", NONE),
            ],
        );
    }

    #[test]
    fn watches_are_negotiated_as_lists_and_then_as_streams() {
        check(
            WATCH,
            &[
                ("", "Json"),
                ("application/vnd.kubernetes.protobuf;stream=watch,application/json", "Protobuf"),
                ("application/yaml", NO_STREAM),
                ("application/yaml,application/json;q=0.5", NO_STREAM),
                ("application/json,application/yaml", "Json"),
                ("application/json;as=Table;v=v3;g=meta.k8s.io", NONE),
                ("application/json;as=Table;v=v1;g=meta.k8s.io", "Json Table(V1)"),
            ],
        );
    }

    #[test]
    fn what_is_not_transformed_is_chosen_without_transformations() {
        check(
            Endpoint::PLAIN,
            &[
                ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", "Json"),
                ("application/json;as=Table;v=v1;g=meta.k8s.io", NONE),
                (
                    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/yaml",
                    "Yaml",
                ),
            ],
        );
    }
}

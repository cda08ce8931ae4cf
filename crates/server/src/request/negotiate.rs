//! Content negotiation: the media type and transformation of a response, and the media type of a request body
//! (upstream: `endpoints/handlers/negotiation`).

use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use pintle_registry::ApiError;

use crate::http::header_text;
use crate::request::query::Query;

pub(crate) mod page;

/// The encodings of objects.
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

    /// The media type of streams in error messages. `None` if the encoding cannot be streamed.
    const fn negotiated_stream_type(self) -> Option<&'static str> {
        match self {
            Encoding::Json => Some("application/json;stream=watch"),
            Encoding::Yaml => None,
            Encoding::Protobuf | Encoding::Cbor => Some(self.stream_type()),
        }
    }

    /// True if tables can be encoded. Protobuf has no values of arbitrary type. For CBOR, upstream does not offer
    /// tables either.
    const fn has_tables(self) -> bool {
        matches!(self, Encoding::Json | Encoding::Yaml)
    }
}

/// All encodings in the order of upstream's serializers. CBOR is behind a feature gate.
const ENCODINGS: [Encoding; 4] = [Encoding::Json, Encoding::Yaml, Encoding::Protobuf, Encoding::Cbor];

/// The transformation of the objects of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Transform {
    /// A `Table` of this `meta.k8s.io` version.
    Table(MetaVersion),
    /// A `PartialObjectMetadata`.
    Partial(MetaVersion),
    /// A `PartialObjectMetadataList`.
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

/// The negotiated format of a response (upstream: `negotiation.MediaTypeOptions`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct MediaTypeOptions {
    /// The encoding.
    pub(crate) encoding: Encoding,
    /// The transformation, if any.
    pub(crate) transform: Option<Transform>,
    /// True if the output is indented.
    pub(crate) pretty: bool,
}

/// The formats that an endpoint supports (upstream: `negotiation.EndpointRestrictions`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndpointRestrictions {
    /// True if objects can be transformed.
    pub(crate) allows_transform: bool,
    /// True if the response is a stream of events.
    pub(crate) is_stream: bool,
    /// True if untransformed objects have a Protobuf encoding.
    pub(crate) has_protobuf: bool,
    /// True if upstream's router checks the `Accept` header first.
    pub(crate) has_router: bool,
    /// True for the endpoint of a collection, which can be watched.
    pub(crate) is_collection: bool,
    /// True if CBOR is enabled.
    pub(crate) has_cbor: bool,
}

impl EndpointRestrictions {
    /// An endpoint that returns plain objects.
    pub(crate) const PLAIN: EndpointRestrictions = EndpointRestrictions {
        allows_transform: false,
        is_stream: false,
        has_protobuf: true,
        has_router: true,
        is_collection: false,
        has_cbor: false,
    };

    /// The encodings that the server supports. Error messages list all of them, even for custom resources.
    fn encodings(self) -> impl Iterator<Item = Encoding> {
        ENCODINGS.into_iter().filter(move |encoding| self.has_cbor || *encoding != Encoding::Cbor)
    }

    /// The media types of single objects, for error messages.
    fn media_types(self) -> impl Iterator<Item = &'static str> {
        self.encodings().map(Encoding::media_type)
    }

    /// The media types of streams, for error messages.
    fn stream_media_types(self) -> impl Iterator<Item = &'static str> {
        self.encodings().filter_map(Encoding::negotiated_stream_type)
    }

    /// The media types that upstream's router knows.
    fn routed_media_types(self) -> impl Iterator<Item = &'static str> {
        self.media_types().chain(self.stream_media_types().filter(move |_| self.is_collection))
    }

    /// True if the router knows one of the accepted media types. Parameters are ignored.
    fn is_routable(self, accept: &str) -> bool {
        accept.split(',').any(|clause| {
            let media_type = clause.split(';').next().unwrap_or_default().trim();
            media_type == "*/*" || self.routed_media_types().any(|routed| routed == media_type)
        })
    }
}

/// One clause of an `Accept` header.
#[derive(Debug, PartialEq)]
struct AcceptClause<'a> {
    main_type: &'a str,
    subtype: &'a str,
    quality: f32,
    parameters: Vec<(&'a str, &'a str)>,
}

impl<'a> AcceptClause<'a> {
    /// Parses a clause like Go's `goautoneg`. Returns `None` for a malformed clause.
    fn parse(text: &'a str) -> Option<Self> {
        let (media_type, parameters) = text.split_once(';').unwrap_or((text, ""));
        let (main_type, subtype) = media_type.split_once('/').unwrap_or((media_type, ""));
        let (main_type, subtype) = (main_type.trim_matches(' '), subtype.trim_matches(' '));
        let subtype = match subtype {
            "" if main_type == "*" => "*",
            "" => return None,
            subtype if subtype.contains('/') => return None,
            subtype => subtype,
        };
        let mut clause = Self { main_type, subtype, quality: 1.0, parameters: Vec::new() };
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

    /// True if the clause accepts a media type. Parameters are ignored.
    fn accepts(&self, media_type: &str) -> bool {
        let Some((main_type, subtype)) = media_type.split_once('/') else { return false };
        (self.main_type == main_type && (self.subtype == subtype || self.subtype == "*"))
            || (self.main_type == "*" && self.subtype == "*")
    }

    /// True if the clause sorts before another clause. A more specific clause comes first, whatever its quality.
    fn sorts_before(&self, other: &Self) -> bool {
        self.quality > other.quality
            || (self.main_type != "*" && other.main_type == "*")
            || (self.subtype != "*" && other.subtype == "*")
    }
}

/// Go sorts up to this many elements by insertion sort. This matters because `sorts_before` is not a strict weak
/// ordering.
const MAX_INSERTION_SORT: usize = 12;

fn parse_accept(header: &str) -> Vec<AcceptClause<'_>> {
    let mut clauses: Vec<AcceptClause<'_>> = header.split(',').filter_map(AcceptClause::parse).collect();
    if clauses.len() > MAX_INSERTION_SORT {
        let wildcards = |c: &AcceptClause<'_>| u8::from(c.main_type == "*") + u8::from(c.subtype == "*");
        clauses.sort_by(|a, b| wildcards(a).cmp(&wildcards(b)).then(b.quality.total_cmp(&a.quality)));
        return clauses;
    }
    for end in 1..clauses.len() {
        for index in (1..=end).rev() {
            if !clauses[index].sorts_before(&clauses[index - 1]) {
                break;
            }
            clauses.swap(index, index - 1);
        }
    }
    clauses
}

/// The main types and subtypes of the first `Accept` header, in the order of preference. Without a header, all types
/// are accepted.
pub(crate) fn accepted_types(headers: &HeaderMap) -> Vec<(&str, &str)> {
    let accept = Some(header_text(headers, &ACCEPT)).filter(|accept| !accept.is_empty());
    parse_accept(accept.unwrap_or("*/*")).into_iter().map(|clause| (clause.main_type, clause.subtype)).collect()
}

/// The escaping of names that a scraper of metrics asks for (upstream: `expfmt.Negotiate`). Names of this server need
/// no escaping, so the response only repeats it in its media type.
pub(crate) fn exposition_escaping(headers: &HeaderMap) -> &'static str {
    let mut escaping = "underscores";
    for clause in parse_accept(header_text(headers, &ACCEPT)) {
        let parameter = |name| clause.parameters.iter().rev().find(|(key, _)| *key == name).map_or("", |(_, v)| *v);
        let known = ["allow-utf-8", "underscores", "dots", "values"].into_iter().find(|k| *k == parameter("escaping"));
        escaping = known.unwrap_or(escaping);
        if (clause.main_type, clause.subtype) == ("text", "plain") && matches!(parameter("version"), "" | "0.0.4") {
            break;
        }
    }
    escaping
}

/// Negotiates the format of a response.
///
/// # Errors
/// Returns `NotAcceptable` if the server supports none of the accepted media types.
pub(crate) fn output(
    headers: &HeaderMap,
    query: &Query,
    endpoint: EndpointRestrictions,
) -> Result<MediaTypeOptions, ApiError> {
    // The router matches complete media types only. As in Go's servers, only the first `Accept` header is used.
    let accept = header_text(headers, &ACCEPT);
    if endpoint.has_router && !accept.is_empty() && !endpoint.is_routable(accept) {
        return Err(router_not_acceptable(endpoint));
    }
    error_output(headers, query, endpoint)
}

/// Negotiates the encoding of an error. The router does not take part in this.
///
/// # Errors
/// Returns `NotAcceptable` if the server supports none of the accepted media types.
pub(crate) fn error_output(
    headers: &HeaderMap,
    query: &Query,
    endpoint: EndpointRestrictions,
) -> Result<MediaTypeOptions, ApiError> {
    // As in Go's servers, only the first `Accept` header is used.
    let accept = header_text(headers, &ACCEPT);
    let pretty = wants_pretty(headers, query);
    if accept.is_empty() {
        return Ok(MediaTypeOptions { encoding: Encoding::Json, transform: None, pretty });
    }
    let clauses = parse_accept(accept);
    let options = clauses
        .iter()
        .find_map(|clause| endpoint.encodings().find_map(|encoding| match_clause(clause, encoding, endpoint)));
    match options {
        // A watch is negotiated like a list first, then as a stream.
        Some(options) if endpoint.is_stream && options.encoding.negotiated_stream_type().is_none() => {
            Err(not_acceptable(endpoint.stream_media_types()))
        }
        Some(mut options) => {
            options.pretty |= pretty;
            Ok(options)
        }
        None => Err(not_acceptable(endpoint.media_types())),
    }
}

fn not_acceptable(types: impl Iterator<Item = &'static str>) -> ApiError {
    let types: Vec<_> = types.collect();
    ApiError::NotAcceptable(format!("only the following media types are accepted: {}", types.join(", ")))
}

/// The router's error. It lists the media types that the router knows.
fn router_not_acceptable(endpoint: EndpointRestrictions) -> ApiError {
    let types: Vec<_> = endpoint.routed_media_types().collect();
    ApiError::NotAcceptable(format!("406: Not Acceptable\n\nAvailable representations: {}", types.join(", ")))
}

fn match_clause(
    clause: &AcceptClause<'_>,
    encoding: Encoding,
    endpoint: EndpointRestrictions,
) -> Option<MediaTypeOptions> {
    if !clause.accepts(encoding.media_type()) {
        return None;
    }
    let mut options = MediaTypeOptions { encoding, transform: None, pretty: false };
    let (mut target, mut group, mut version) = (None, "", "");
    for (key, value) in &clause.parameters {
        match *key {
            "as" => target = Some(*value),
            "g" => group = value,
            "v" => version = value,
            "stream" if !value.is_empty() && (*value != "watch" || encoding.negotiated_stream_type().is_none()) => {
                return None;
            }
            "pretty" => options.pretty = *value == "1",
            "sv" if !value.is_empty() => return None,
            _ => {}
        }
    }
    if target.is_none() && group.is_empty() && version.is_empty() {
        // Custom resources have no Protobuf encoding, but their transformed objects do.
        return (endpoint.has_protobuf || encoding != Encoding::Protobuf).then_some(options);
    }
    if !endpoint.allows_transform || group != "meta.k8s.io" {
        return None;
    }
    let version = match version {
        "v1" => MetaVersion::V1,
        "v1beta1" => MetaVersion::V1Beta1,
        _ => return None,
    };
    options.transform = Some(match target? {
        "Table" if encoding.has_tables() => Transform::Table(version),
        "PartialObjectMetadata" => Transform::Partial(version),
        "PartialObjectMetadataList" => Transform::PartialList(version),
        _ => return None,
    });
    Some(options)
}

/// True if the output should be indented. This is the case if `?pretty` is set or, without it, if the client is a
/// browser or a command line tool.
fn wants_pretty(headers: &HeaderMap, query: &Query) -> bool {
    if let Some(value) = query.get("pretty").filter(|v| !v.is_empty()) {
        return pintle_value::parse_bool(value).unwrap_or_default();
    }
    let agent = header_text(headers, &USER_AGENT);
    ["curl", "Wget", "Mozilla/5.0"].iter().any(|tool| agent.starts_with(tool))
}

/// Returns the encoding of a request body; JSON if there is no `Content-Type`.
///
/// # Errors
/// Returns `UnsupportedMediaType` if the endpoint does not accept the media type.
pub(crate) fn input(headers: &HeaderMap, endpoint: EndpointRestrictions) -> Result<Encoding, ApiError> {
    let Some(media_type) = media_type(headers) else { return Ok(Encoding::Json) };
    let is_readable = |encoding: &Encoding| endpoint.has_protobuf || *encoding != Encoding::Protobuf;
    let unsupported = || ApiError::UnsupportedMediaType(endpoint.media_types().map(str::to_owned).collect());
    endpoint
        .encodings()
        .filter(is_readable)
        .find(|encoding| encoding.media_type() == media_type)
        .ok_or_else(unsupported)
}

/// The media type of a body in lower case, without parameters (upstream: Go's `mime.ParseMediaType`). `None` if there
/// is no header. A malformed header yields an empty type, which is not supported.
#[must_use]
pub(crate) fn media_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(CONTENT_TYPE).filter(|value| !value.is_empty())?;
    let Ok(value) = value.to_str() else { return Some(String::new()) };
    let mut parameters = value.split(';');
    let media_type = parameters.next().unwrap_or_default().trim().to_ascii_lowercase();
    let mut parameters = parameters.map(str::trim).peekable();
    let mut keys = Vec::new();
    while let Some(text) = parameters.next() {
        let parameter = text.split_once('=').filter(|(key, value)| !key.is_empty() && !value.is_empty());
        match parameter {
            Some((key, _)) if !keys.contains(&key.to_ascii_lowercase()) => keys.push(key.to_ascii_lowercase()),
            None if text.is_empty() && parameters.peek().is_none() => {}
            _ => return Some(String::new()),
        }
    }
    Some(media_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result of a negotiation in short form, or the error's text.
    fn choose(accept: &str, endpoint: EndpointRestrictions) -> String {
        let mut headers = HeaderMap::new();
        if !accept.is_empty() {
            headers.insert(ACCEPT, accept.parse().expect("a header value"));
        }
        match output(&headers, &Query::default(), endpoint) {
            Ok(MediaTypeOptions { encoding, transform, pretty }) => {
                let transform = transform.map(|transform| format!(" {transform:?}")).unwrap_or_default();
                format!("{encoding:?}{transform}{}", if pretty { " pretty" } else { "" })
            }
            Err(error) => error.to_string(),
        }
    }

    const OBJECTS: EndpointRestrictions =
        EndpointRestrictions { allows_transform: true, ..EndpointRestrictions::PLAIN };
    const CUSTOM: EndpointRestrictions = EndpointRestrictions { has_protobuf: false, has_router: false, ..OBJECTS };
    const WATCH: EndpointRestrictions = EndpointRestrictions { is_stream: true, is_collection: true, ..OBJECTS };
    const NONE: &str = "only the following media types are accepted: application/json, application/yaml, \
                        application/vnd.kubernetes.protobuf";
    const NO_STREAM: &str = "only the following media types are accepted: application/json;stream=watch, \
                             application/vnd.kubernetes.protobuf;stream=watch";

    fn check(endpoint: EndpointRestrictions, rows: &[(&str, &str)]) {
        for (accept, expect) in rows {
            assert_eq!(choose(accept, endpoint), *expect, "{accept}");
        }
    }

    #[test]
    fn accept_headers_of_clients_are_negotiated() {
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
    fn clauses_are_sorted_like_goautoneg() {
        check(
            OBJECTS,
            &[
                ("application/json;q=0.1, application/yaml", "Yaml"),
                ("application/json;q=0.5,application/yaml;q=0.6,application/vnd.kubernetes.protobuf;q=0.55", "Yaml"),
                // Wildcards come last, whatever their quality.
                ("*/*;q=0.9,application/yaml;q=0.1", "Yaml"),
                // A quality that is not a number counts as zero.
                ("application/json;q=high,application/yaml;q=0.1", "Yaml"),
                ("application/json; q=1,application/yaml;q=0.5", "Json"),
                ("application/json;q= 1,application/yaml;q=0.5", "Yaml"),
                ("application/json;q=0,text/plain", "Json"),
                // Parameters without a value or with two values are ignored.
                ("application/json;as", "Json"),
                ("application/json;as=a=b", "Json"),
                ("application/json;as=\"Table\";v=v1;g=meta.k8s.io,application/yaml", "Yaml"),
                (",;,application,application/a/b,application/json", "Json"),
            ],
        );
    }

    #[test]
    fn custom_resources_have_protobuf_for_metadata_only() {
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
    fn plain_endpoints_do_not_transform() {
        check(
            EndpointRestrictions::PLAIN,
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

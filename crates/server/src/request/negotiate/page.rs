//! The format of `/statusz` and `/flagz` (upstream: `statusz/negotiate` and `flagz/negotiate` of apiserver's
//! `pkg/server`). It is a text, or an object of `config.k8s.io` for clients that ask for it by group, version and kind.

use http::HeaderMap;
use http::header::ACCEPT;
use pintle_registry::ApiError;

use super::{AcceptClause, Encoding, not_acceptable, parse_accept, wants_pretty};
use crate::http::header_text;
use crate::request::query::Query;

/// The kind of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageKind {
    /// The facts about the process.
    Statusz,
    /// The flags of the process.
    Flagz,
}

impl PageKind {
    /// The kind of the page's object.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            PageKind::Statusz => "Statusz",
            PageKind::Flagz => "Flagz",
        }
    }
}

/// The format of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageFormat {
    /// A text for people.
    Text,
    /// An object of a version of `config.k8s.io`.
    Structured {
        /// The version.
        version: &'static str,
        /// The encoding.
        encoding: Encoding,
        /// True if the output is indented.
        pretty: bool,
    },
}

/// The versions of the objects.
const VERSIONS: [&str; 2] = ["v1alpha1", "v1beta1"];

/// A serializer of pages: an encoding of objects, or the text.
type Serializer = Option<Encoding>;

/// Negotiates the format of a page.
///
/// # Errors
/// Returns `NotAcceptable` if the page has none of the accepted formats.
pub(crate) fn negotiate(
    headers: &HeaderMap,
    query: &Query,
    kind: PageKind,
    has_cbor: bool,
) -> Result<PageFormat, ApiError> {
    let accept = header_text(headers, &ACCEPT);
    if accept.trim().is_empty() {
        return Ok(PageFormat::Text);
    }
    let mut serializers = vec![Some(Encoding::Json), Some(Encoding::Yaml), None];
    serializers.extend(has_cbor.then_some(Some(Encoding::Cbor)));
    let pretty = wants_pretty(headers, query);
    let clauses = parse_accept(accept);
    let format = clauses.iter().find_map(|clause| {
        serializers.iter().find_map(|serializer| match_serializer(clause, *serializer, kind, pretty))
    });
    format.ok_or_else(|| not_acceptable(serializers.iter().map(|serializer| media_type(*serializer))))
}

fn media_type(serializer: Serializer) -> &'static str {
    serializer.map_or("text/plain", Encoding::media_type)
}

/// The format that a clause of the `Accept` header asks for. `None` if the serializer does not have it.
fn match_serializer(
    clause: &AcceptClause<'_>,
    serializer: Serializer,
    kind: PageKind,
    pretty: bool,
) -> Option<PageFormat> {
    if !clause.accepts(media_type(serializer)) {
        return None;
    }
    let parameter = |name| clause.parameters.iter().rev().find(|(key, _)| *key == name).map(|(_, value)| *value);
    if parameter("stream").is_some() || parameter("sv").is_some() {
        return None;
    }
    let target = [parameter("g"), parameter("v"), parameter("as")];
    let Some(encoding) = serializer else {
        return target.iter().all(Option::is_none).then_some(PageFormat::Text);
    };
    if target[0] != Some("config.k8s.io") || target[2] != Some(kind.name()) {
        return None;
    }
    let version = VERSIONS.into_iter().find(|version| target[1] == Some(version))?;
    Some(PageFormat::Structured { version, encoding, pretty: pretty || parameter("pretty") == Some("1") })
}

//! Where the options of a delete come from: the body or else the query (upstream: `endpoints/handlers/delete.go`).

use pintle_registry::{ApiError, GroupVersion};

use crate::context::RequestContext;
use crate::objects::decode::{DecodeError, ExpectedKind, read};
use crate::request::negotiate;
use crate::request::query::DeleteOptions;

/// The options, from the body or else from the query.
pub(super) async fn options(call: &RequestContext) -> Result<DeleteOptions, ApiError> {
    let body = call.body().await?;
    if body.is_empty() {
        return DeleteOptions::from_query(&call.query, call.cluster.gates());
    }
    let encoding = negotiate::input(&call.headers, call.endpoint())?;
    let catalog = &call.cluster.catalog;
    let schema = catalog
        .struct_type("meta/v1.DeleteOptions")
        .map(|id| catalog.schema(id))
        .ok_or_else(|| ApiError::Internal("DeleteOptions are not known".to_owned()))?;
    let group_version = GroupVersion::new("", "v1");
    let expected = ExpectedKind::of_type(group_version, "DeleteOptions", &schema);
    let (value, _) =
        read(&body, encoding, &expected, &is_options).map_err(|error| ApiError::BadRequest(error.why()))?;
    DeleteOptions::from_body(&value, call.cluster.gates())
}

/// Options of other kinds that upstream knows in every group and version.
const UNVERSIONED: [&str; 7] =
    ["APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "CreateOptions", "Status", "UpdateOptions"];
/// Kinds of `meta.k8s.io/v1`.
const OF_META: [&str; 8] = [
    "GetOptions",
    "ListOptions",
    "PartialObjectMetadata",
    "PartialObjectMetadataList",
    "PatchOptions",
    "Table",
    "TableOptions",
    "WatchEvent",
];

/// Options may name any group and version that they like.
fn is_options(version: &GroupVersion, kind: &str) -> Result<(), DecodeError> {
    if kind == "DeleteOptions" {
        return Ok(());
    }
    let of_meta = version.group == "meta.k8s.io" && version.version == "v1" && OF_META.contains(&kind);
    let why = if of_meta || UNVERSIONED.contains(&kind) {
        format!("converting (v1.{kind}) to (v1.DeleteOptions): unknown conversion")
    } else {
        format!(
            "no kind \"{kind}\" is registered for version \"{version}\" in scheme \"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27\""
        )
    };
    Err(DecodeError::Unfit { kind: kind.to_owned(), version: version.version.clone(), why })
}

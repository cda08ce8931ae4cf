//! The options of a delete, from the body or the query (upstream: `endpoints/handlers/delete.go`).

use pintle_registry::{ApiError, GroupVersion};

use crate::context::RequestContext;
use crate::objects::decode::{DecodeError, ExpectedKind, decode_strict};
use crate::request::negotiate;
use crate::request::query::DeleteOptions;

/// Reads the options from the body or, if it is empty, from the query.
pub(super) async fn delete_options(request: &RequestContext) -> Result<DeleteOptions, ApiError> {
    let body = request.body().await?;
    if body.is_empty() {
        return DeleteOptions::from_query(&request.query, request.cluster.gates());
    }
    let encoding = negotiate::input(&request.headers, request.endpoint())?;
    let catalog = &request.cluster.served.catalog;
    let schema = catalog
        .struct_type("meta/v1.DeleteOptions")
        .map(|id| catalog.schema(id))
        .ok_or_else(|| ApiError::Internal("the type DeleteOptions is not in the catalog".to_owned()))?;
    let group_version = GroupVersion::new("meta.k8s.io", "v1");
    let expected = ExpectedKind::of_type(group_version, "DeleteOptions", &schema);
    let (value, _) = decode_strict(&body, encoding, &expected, &check_is_delete_options)
        .map_err(|error| ApiError::BadRequest(error.message(|| String::from_utf8_lossy(&body).into_owned())))?;
    if request.audit.is_some() {
        // As in upstream, the options are in the version that handlers use.
        let mut audited = value.clone();
        audited.set("kind", "DeleteOptions");
        audited.set("apiVersion", "meta.k8s.io/__internal");
        request.audit_object(&audited, expected.shape());
    }
    DeleteOptions::from_body(&value, request.cluster.gates())
}

/// Other kinds that upstream registers in every group and version.
const UNVERSIONED: [&str; 7] =
    ["APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "CreateOptions", "Status", "UpdateOptions"];
/// Kinds of `meta.k8s.io/v1`.
const META_KINDS: [&str; 8] = [
    "GetOptions",
    "ListOptions",
    "PartialObjectMetadata",
    "PartialObjectMetadataList",
    "PatchOptions",
    "Table",
    "TableOptions",
    "WatchEvent",
];

/// Checks that a body is a `DeleteOptions`, in any group and version.
fn check_is_delete_options(version: &GroupVersion, kind: &str) -> Result<(), DecodeError> {
    if kind == "DeleteOptions" {
        return Ok(());
    }
    let is_meta_kind = version.group == "meta.k8s.io" && version.version == "v1" && META_KINDS.contains(&kind);
    let why = if is_meta_kind || UNVERSIONED.contains(&kind) {
        format!("converting (v1.{kind}) to (v1.DeleteOptions): unknown conversion")
    } else {
        format!(
            "no kind \"{kind}\" is registered for version \"{version}\" in scheme \"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27\""
        )
    };
    Err(DecodeError::Undecodable { kind: kind.to_owned(), version: version.version.clone(), why })
}

//! The wire format of objects, lists and events. The most common format is JSON at the storage version, which is copied
//! from stored bytes. Other formats are encoded on demand.

mod event;
mod gzip;
mod item_encoder;
mod list;
mod list_writer;
mod message;
mod source;
pub(crate) mod status;
mod table;

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, StatusCode};
use pintle_cache::Object;
use pintle_registry::{ApiError, Resource};
use pintle_value::time::Time;
use pintle_value::{Value, object};

use crate::cluster::{Cluster, tree};
use crate::context::RequestContext;
use crate::conversion::{VersionView, from_hub};
use crate::http::{Body, Response};
use crate::objects::encode::{Shape, encode};
use crate::objects::model;
use crate::request::audit::RequestAudit;
use crate::request::negotiate::{self, Encoding, EndpointRestrictions, MediaTypeOptions, MetaVersion, Transform};

pub(crate) use gzip::{compress, compress_from, gzip_member, set_gzip_headers};
pub(crate) use list::ListHead;
pub(crate) use source::{ListMetrics, ObjectSource, RangeReader};

/// The part of an object that a table row includes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IncludeObject {
    /// Nothing.
    None,
    /// The metadata: the default.
    Metadata,
    /// The whole object.
    Object,
}

/// The format of a response: the resource, its version, and the negotiated media type.
#[derive(Clone)]
pub(crate) struct ResponseFormat {
    pub(crate) cluster: Arc<Cluster>,
    /// The resource at the request's version.
    pub(crate) resource: Arc<Resource>,
    /// The resource at its hub version, whose strategy and table apply.
    pub(crate) hub: Arc<Resource>,
    /// The view of stored objects at the hub version.
    pub(crate) view: VersionView,
    pub(crate) media_type: MediaTypeOptions,
    pub(crate) include: IncludeObject,
    /// The `includeObject` of a table, if it is not a known value.
    unknown_include: Option<String>,
    /// The audit of the request, if its events have the object of the response.
    audit: Option<Arc<RequestAudit>>,
}

impl ResponseFormat {
    /// Negotiates the format of a response.
    ///
    /// # Errors
    /// Returns an error if the client asks for an unsupported format.
    pub(crate) fn negotiate(
        request: &RequestContext,
        resource: &Arc<Resource>,
        is_stream: bool,
    ) -> Result<Self, ApiError> {
        let media_type = Self::negotiate_media_type(request, resource, is_stream)?;
        Ok(Self::new(request, resource, request.cluster.hub(resource), media_type))
    }

    /// Negotiates the media type of a response.
    ///
    /// # Errors
    /// The client accepts none of the served media types.
    pub(crate) fn negotiate_media_type(
        request: &RequestContext,
        resource: &Resource,
        is_stream: bool,
    ) -> Result<MediaTypeOptions, ApiError> {
        let is_collection = matches!(request.info.verb.as_str(), "list" | "watch" | "deletecollection");
        let endpoint = model(resource).endpoint(EndpointRestrictions {
            allows_transform: true,
            is_stream,
            is_collection,
            ..request.endpoint()
        });
        negotiate::output(&request.headers, &request.query, endpoint)
    }

    /// The format of responses with the object of a subresource that is a view of the resource (`Scale`). The view is a
    /// record with its own types and table.
    pub(crate) fn of_view(request: &RequestContext, view: Arc<Resource>, media_type: MediaTypeOptions) -> Self {
        Self::new(request, &view, view.clone(), media_type)
    }

    fn new(
        request: &RequestContext,
        resource: &Arc<Resource>,
        hub: Arc<Resource>,
        media_type: MediaTypeOptions,
    ) -> Self {
        let (include, unknown_include) = match request.query.get("includeObject").unwrap_or_default() {
            "" | "Metadata" => (IncludeObject::Metadata, None),
            "None" => (IncludeObject::None, None),
            "Object" => (IncludeObject::Object, None),
            other => {
                let is_table = matches!(media_type.transform, Some(Transform::Table(_)));
                (IncludeObject::Metadata, is_table.then(|| other.to_owned()))
            }
        };
        let view = VersionView::of(&request.cluster, &hub);
        Self {
            cluster: request.cluster.clone(),
            resource: resource.clone(),
            hub,
            view,
            media_type,
            include,
            unknown_include,
            audit: request.audit.clone().filter(|audit| audit.records_response()),
        }
    }

    /// The format of the same response in audit events.
    fn audited(&self) -> Self {
        let media_type = MediaTypeOptions { encoding: Encoding::Json, pretty: false, ..self.media_type };
        Self { media_type, audit: None, ..self.clone() }
    }

    /// True if the client gets the same bytes as an audit event.
    fn is_audited_form(&self) -> bool {
        self.media_type.encoding == Encoding::Json && !self.media_type.pretty
    }

    /// Notes an encoded response for the audit event, if the event has it. `encode` encodes it in another format.
    ///
    /// # Errors
    /// The error of `encode`.
    fn record(
        &self,
        encoded: Vec<u8>,
        encode: impl FnOnce(&Self) -> Result<Vec<u8>, ApiError>,
    ) -> Result<Bytes, ApiError> {
        let encoded = Bytes::from(encoded);
        if let Some(audit) = &self.audit {
            let json = if self.is_audited_form() { encoded.clone() } else { encode(&self.audited())?.into() };
            audit.set_response_object(json);
        }
        Ok(encoded)
    }

    /// Checks the options of a table. As in upstream, this check comes after the object was read or written.
    ///
    /// # Errors
    /// Returns an error for an unknown `includeObject`.
    pub(crate) fn check_table_options(&self) -> Result<(), ApiError> {
        self.unknown_include.as_ref().map_or(Ok(()), |unknown| {
            Err(ApiError::BadRequest(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {}: must be 'Metadata', 'Object', 'None', or empty",
                pintle_value::field::quote(unknown)
            )))
        })
    }

    /// True if objects are stored at the request's version.
    fn is_hub(&self) -> bool {
        self.resource.is_hub()
    }

    /// True if the client gets stored objects in this encoding, without conversion or transformation.
    fn is_stored(&self, encoding: Encoding) -> bool {
        self.media_type.encoding == encoding && self.media_type.transform.is_none() && self.is_hub()
    }

    /// Returns an object's tree at the request's version.
    ///
    /// # Errors
    /// Returns an error if the stored bytes cannot be decoded.
    pub(crate) fn tree(&self, object: &Object) -> Result<Value, ApiError> {
        Ok(from_hub(&self.resource, tree(object)?))
    }

    /// The shape of a whole object.
    pub(crate) fn shape(&self) -> Shape<'_> {
        Shape::of(&self.resource)
    }

    /// Encodes a single object.
    ///
    /// # Errors
    /// Returns an error if the stored bytes cannot be decoded, or if the format is a format of lists.
    pub(crate) fn encode_object(&self, object: &Arc<Object>) -> Result<Bytes, ApiError> {
        self.record(self.encode_stored(object)?, |format| format.encode_stored(object))
    }

    fn encode_stored(&self, object: &Arc<Object>) -> Result<Vec<u8>, ApiError> {
        let mut out = Vec::with_capacity(object.json.len() + 64);
        if self.is_stored(Encoding::Json) {
            object.write_json(0, object.revision, &mut out);
            if self.media_type.pretty {
                return Ok(pintle_codec::json::indent(&out));
            }
            out.push(b'\n');
            return Ok(out);
        }
        if self.is_stored(Encoding::Protobuf) {
            self.write_envelope(&mut out, |out| self.write_cached_message(object, out))?;
            return Ok(out);
        }
        if let (Encoding::Protobuf, Some(Transform::Partial(version))) =
            (self.media_type.encoding, self.media_type.transform)
        {
            self.write_partial_envelope(version, object, object.revision, &mut out)?;
            return Ok(out);
        }
        self.encode_transformed(self.tree(object)?)
    }

    /// Encodes a single object's tree at the request's version.
    ///
    /// # Errors
    /// Returns an error if the format is a format of lists.
    pub(crate) fn encode_tree(&self, object: Value) -> Result<Bytes, ApiError> {
        let audited = self.audit.as_ref().filter(|_| !self.is_audited_form()).map(|_| object.clone());
        self.record(self.encode_transformed(object)?, |format| format.encode_transformed(audited.unwrap_or_default()))
    }

    fn encode_transformed(&self, object: Value) -> Result<Vec<u8>, ApiError> {
        self.check_table_options()?;
        let MediaTypeOptions { encoding, transform, pretty } = self.media_type;
        let types = &self.cluster.served.catalog;
        match transform {
            None => Ok(encode(&object, self.shape(), encoding, pretty)),
            Some(Transform::Partial(version)) => {
                let partial = partial(&object, version);
                Ok(encode(&partial, Shape::partial(&self.resource, types), encoding, pretty))
            }
            Some(Transform::PartialList(_)) => Err(model(&self.resource).not_a_list_error(&self.resource)),
            Some(Transform::Table(version)) => {
                let head = ListHead { revision: object.resource_version().to_owned(), ..ListHead::default() };
                let rows = vec![self.row(version, &object)];
                let table = self.table(version, &head, rows, true);
                Ok(self.encode_table(table, encoding, pretty))
            }
        }
    }

    /// The time for ages in tables.
    pub(crate) fn now(&self) -> Time {
        self.cluster.now()
    }

    /// Responds with an encoded body.
    pub(crate) fn respond(&self, code: StatusCode, body: impl Into<Body>) -> Response {
        respond(code, self.media_type.encoding, body)
    }
}

impl ResponseFormat {
    /// Responds with an object that was written. An object that a dry run creates has revision 0.
    ///
    /// # Errors
    /// See [`ResponseFormat::encode_object`]; also returns an error if the object cannot be converted to the request's
    /// version.
    pub(crate) async fn respond_object(&self, code: StatusCode, object: &Arc<Object>) -> Result<Response, ApiError> {
        let object = self.view.convert_one(object).await?;
        if object.revision > 0 {
            return Ok(self.respond(code, self.encode_object(&object)?));
        }
        Ok(self.respond(code, self.encode_tree(self.tree(&object)?)?))
    }
}

/// Returns the `PartialObjectMetadata` of an object.
pub(crate) fn partial(object: &Value, version: MetaVersion) -> Value {
    object! {
        "kind": "PartialObjectMetadata",
        "apiVersion": version.api_version(),
        "metadata": object["metadata"].clone(),
    }
}

pub(crate) fn respond(code: StatusCode, encoding: Encoding, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(encoding.media_type()));
    response
}

/// Responds with a `Status`.
pub(crate) fn status_response(
    request: &RequestContext,
    code: StatusCode,
    status: &Value,
    encoding: Encoding,
    pretty: bool,
) -> Response {
    let shape = Shape::named(&request.cluster.served.catalog, "meta/v1.Status");
    if let Some(audit) = &request.audit {
        audit.set_status(status);
        audit.encode_response_object(|| crate::objects::encode::json(status, shape));
    }
    respond(code, encoding, encode(status, shape, encoding, pretty))
}

/// Responds to a failed request: a `Status` in the negotiated encoding, or in JSON if the client accepts none.
pub(crate) fn error_response(request: &RequestContext, error: &ApiError) -> Response {
    let mut endpoint = request.endpoint();
    // Upstream's routes give this answer, and they do not know CBOR.
    endpoint.has_cbor &= !matches!(error, ApiError::MethodNotAllowed);
    error_response_of(request, error, endpoint)
}

/// Responds to a request that failed at an endpoint with encodings of its own.
pub(crate) fn error_response_of(
    request: &RequestContext,
    error: &ApiError,
    endpoint: EndpointRestrictions,
) -> Response {
    let error_status = self::status::error_status(error);
    if let Some(observed) = &request.observed {
        observed.set_failure(&error_status.status);
    }
    let mut response = match negotiate::error_output(&request.headers, &request.query, endpoint) {
        Ok(media_type) => {
            status_response(request, error_status.code, &error_status.status, media_type.encoding, media_type.pretty)
        }
        Err(_) => raw_status(request, error_status.code, &error_status.status),
    };
    if let Some(seconds) = error_status.retry_after {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    if error_status.code == StatusCode::PAYLOAD_TOO_LARGE {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Responds with JSON that is not an API object. It is always indented, as by upstream's `WriteRawJSON`.
pub(crate) fn json_response(code: StatusCode, value: &Value) -> Response {
    respond(code, Encoding::Json, pintle_codec::json::encode_pretty(value))
}

/// Responds with a `Status` in JSON, to a client that accepts no encoding of a `Status`.
fn raw_status(request: &RequestContext, code: StatusCode, status: &Value) -> Response {
    let json = crate::objects::encode::json(status, Shape::named(&request.cluster.served.catalog, "meta/v1.Status"));
    respond(code, Encoding::Json, pintle_codec::json::indent(&json))
}

/// Responds with a `Status` of success, in the encoding negotiated for objects.
pub(crate) fn success(request: &RequestContext, format: &ResponseFormat, details: Value) -> Response {
    let value = self::status::success(details);
    status_response(request, StatusCode::OK, &value, format.media_type.encoding, format.media_type.pretty)
}

/// Responds with a `Status` of success for an object that no longer exists. As in upstream, this `Status` has a code.
pub(crate) fn success_with_code(
    request: &RequestContext,
    format: &ResponseFormat,
    code: StatusCode,
    details: Value,
) -> Response {
    let mut value = self::status::success(details);
    value.set("code", i64::from(code.as_u16()));
    status_response(request, code, &value, format.media_type.encoding, format.media_type.pretty)
}

/// Responds with an object of the type `name` (`meta/v1.APIGroup`), in the negotiated encoding.
pub(crate) fn respond_meta(
    request: &RequestContext,
    name: &str,
    value: Value,
    endpoint: EndpointRestrictions,
) -> Result<Response, ApiError> {
    let media_type = negotiate::output(&request.headers, &request.query, endpoint)?;
    let shape = Shape::named(&request.cluster.served.catalog, name);
    Ok(respond_shaped(request, media_type, StatusCode::OK, &value, shape))
}

/// Responds with an object in a negotiated format.
pub(crate) fn respond_shaped(
    request: &RequestContext,
    media_type: MediaTypeOptions,
    code: StatusCode,
    value: &Value,
    shape: Shape<'_>,
) -> Response {
    if let Some(audit) = &request.audit {
        audit.encode_response_object(|| crate::objects::encode::json(value, shape));
    }
    respond(code, media_type.encoding, encode(value, shape, media_type.encoding, media_type.pretty))
}

/// Encodes an object of the type `name` as JSON.
pub(crate) fn typed_json(cluster: &Cluster, name: &str, value: &Value) -> Vec<u8> {
    typed(cluster, name, value, Encoding::Json)
}

/// Encodes an object of the type `name`.
pub(crate) fn typed(cluster: &Cluster, name: &str, value: &Value, encoding: Encoding) -> Vec<u8> {
    encode(value, Shape::named(&cluster.served.catalog, name), encoding, false)
}

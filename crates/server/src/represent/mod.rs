//! How objects, lists and events look on the wire. What is asked for most, JSON at the version that objects are stored
//! at, is copied from finished bytes; every other form is made of the object's tree on demand.

mod event;
mod framing;
mod gzip;
mod items;
mod list;
mod message;
mod source;
pub(crate) mod status;
mod table;

use std::sync::Arc;

use http::header::{CONNECTION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, StatusCode};
use pintle_cache::Object;
use pintle_registry::{ApiError, Resource};
use pintle_value::time::Time;
use pintle_value::{Value, object};

use crate::cluster::{Cluster, tree};
use crate::context::RequestContext;
use crate::conversion::VersionView;
use crate::http::{Body, Response};
use crate::objects::encode::{Shape, encode};
use crate::objects::model;
use crate::request::negotiate::{self, Accepted, Encoding, Endpoint, MetaVersion, Transform};

pub(crate) use gzip::compress;
pub(crate) use list::ListHead;
pub(crate) use source::{Source, Walk};

/// How much of an object a table row carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IncludeObject {
    /// Nothing.
    None,
    /// Its metadata: the default.
    Metadata,
    /// All of it.
    Object,
}

/// The form in which a resource's objects are shown to one client.
#[derive(Clone)]
pub(crate) struct ResponseFormat {
    pub(crate) cluster: Arc<Cluster>,
    /// The record of the request's version.
    pub(crate) resource: Arc<Resource>,
    /// The record of the version that rules hold at.
    pub(crate) hub: Arc<Resource>,
    /// How stored objects come to that version.
    pub(crate) view: VersionView,
    pub(crate) accepted: Accepted,
    pub(crate) include: IncludeObject,
}

impl ResponseFormat {
    /// The form that a client asks for.
    ///
    /// # Errors
    /// It asks for something that there is not.
    pub(crate) fn negotiate(call: &RequestContext, resource: &Arc<Resource>, stream: bool) -> Result<Self, ApiError> {
        let collection = matches!(call.info.verb, "list" | "watch" | "deletecollection");
        let endpoint = model(resource).endpoint(Endpoint { transforms: true, stream, collection, ..call.endpoint() });
        let accepted = negotiate::output(&call.headers, &call.query, endpoint)?;
        let include = match call.query.get("includeObject").unwrap_or_default() {
            "" | "Metadata" => IncludeObject::Metadata,
            "None" => IncludeObject::None,
            "Object" => IncludeObject::Object,
            other if matches!(accepted.transform, Some(Transform::Table(_))) => {
                return Err(ApiError::BadRequest(format!(
                    "Unable to convert to Table as requested: includeObject: Invalid value: {}: must be 'Metadata', 'Object', 'None', or empty",
                    pintle_value::field::quote(other)
                )));
            }
            _ => IncludeObject::Metadata,
        };
        let hub = call.cluster.hub(resource);
        let view = VersionView::of(&call.cluster, &hub);
        Ok(Self { cluster: call.cluster.clone(), resource: resource.clone(), hub, view, accepted, include })
    }

    /// True if the request's version is the one that objects are stored at.
    fn is_hub(&self) -> bool {
        self.resource.is_hub()
    }

    /// True if an object's stored bytes are what the client gets in an encoding that it accepts.
    fn is_stored(&self, encoding: Encoding) -> bool {
        self.accepted.encoding == encoding && self.accepted.transform.is_none() && self.is_hub()
    }

    /// An object's tree at the request's version.
    ///
    /// # Errors
    /// The stored bytes cannot be read.
    pub(crate) fn tree(&self, object: &Object) -> Result<Value, ApiError> {
        Ok(from_hub(&self.resource, tree(object)?))
    }

    /// The shape of a whole object.
    pub(crate) fn shape(&self) -> Shape<'_> {
        Shape::of(&self.resource)
    }

    /// The finished body of a single object. `revision` is the resourceVersion to show.
    ///
    /// # Errors
    /// The stored bytes cannot be read, or the form is one of a list.
    pub(crate) fn body(&self, object: &Arc<Object>) -> Result<Vec<u8>, ApiError> {
        let mut out = Vec::with_capacity(object.json.len() + 64);
        if self.is_stored(Encoding::Json) {
            object.write_json(0, object.revision, &mut out);
            if self.accepted.pretty {
                out = pintle_codec::json::indent(&out);
            }
            out.push(b'\n');
            return Ok(out);
        }
        if self.is_stored(Encoding::Protobuf) {
            self.write_object(&mut out, |out| self.write_kept_message(object, out))?;
            return Ok(out);
        }
        if let (Encoding::Protobuf, Some(Transform::Partial(version))) =
            (self.accepted.encoding, self.accepted.transform)
        {
            self.write_partial_object(version, object, object.revision, &mut out)?;
            return Ok(out);
        }
        let tree = self.tree(object)?;
        self.body_of(tree)
    }

    /// The finished body of a single object's tree at the request's version.
    ///
    /// # Errors
    /// The form is one of a list.
    pub(crate) fn body_of(&self, object: Value) -> Result<Vec<u8>, ApiError> {
        let Accepted { encoding, transform, pretty } = self.accepted;
        let types = &self.cluster.catalog;
        match transform {
            None => Ok(encode(&object, self.shape(), encoding, pretty)),
            Some(Transform::Partial(version)) => {
                let partial = partial(&object, version);
                Ok(encode(&partial, Shape::named(types, "meta/v1.PartialObjectMetadata"), encoding, pretty))
            }
            Some(Transform::PartialList(_)) => Err(ApiError::NotAcceptable(format!(
                "you requested PartialObjectMetadataList, but the requested object is not a list (*{}.{})",
                self.resource.version, self.resource.kind
            ))),
            Some(Transform::Table(version)) => {
                let head = ListHead { revision: object.resource_version().to_owned(), ..ListHead::default() };
                let rows = vec![self.row(&object)];
                let table = self.table(version, &head, rows, true);
                Ok(encode(&table, Shape::named(types, "meta/v1.Table"), encoding, pretty))
            }
        }
    }

    /// The time that ages are counted to.
    pub(crate) fn now(&self) -> Time {
        self.cluster.now()
    }

    /// A body as an answer.
    pub(crate) fn respond(&self, code: StatusCode, body: impl Into<Body>) -> Response {
        respond(code, self.accepted.encoding, body)
    }
}

impl ResponseFormat {
    /// The response with an object that was written. That of a dry run has revision 0 and no resourceVersion.
    ///
    /// # Errors
    /// As [`ResponseFormat::body`], or the object cannot be shown at the version of the request.
    pub(crate) async fn answer(&self, code: StatusCode, object: &Arc<Object>) -> Result<Response, ApiError> {
        let object = self.view.convert_one(object).await?;
        if object.revision > 0 {
            return Ok(self.respond(code, self.body(&object)?));
        }
        let mut tree = self.tree(&object)?;
        tree.remove_at(&["metadata", "resourceVersion"]);
        Ok(self.respond(code, self.body_of(tree)?))
    }
}

/// Turns an object of the hub version into one of a record's version.
pub(crate) fn from_hub(resource: &Resource, mut object: Value) -> Value {
    if !resource.is_hub() {
        resource.strategy.convert_from_hub(&mut object);
        object.set("kind", resource.kind.as_str());
        object.set("apiVersion", resource.group_version().to_string());
    }
    object
}

/// Turns an object of a record's version into one of the hub version.
pub(crate) fn to_hub(resource: &Resource, hub: &Resource, mut object: Value) -> Value {
    if !resource.is_hub() {
        resource.strategy.convert_to_hub(&mut object);
        object.set("kind", hub.kind.as_str());
        object.set("apiVersion", hub.group_version().to_string());
    }
    object
}

/// An object's metadata alone.
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

/// A `Status` as an answer.
pub(crate) fn status_response(
    call: &RequestContext,
    code: StatusCode,
    status: &Value,
    encoding: Encoding,
    pretty: bool,
) -> Response {
    let shape = Shape::named(&call.cluster.catalog, "meta/v1.Status");
    respond(code, encoding, encode(status, shape, encoding, pretty))
}

/// The response to a failed request: a `Status` in the negotiated encoding, or in JSON if the client accepts none.
pub(crate) fn error_response(call: &RequestContext, error: &ApiError) -> Response {
    let failure = self::status::failure(error);
    let mut response = match negotiate::output(&call.headers, &call.query, call.endpoint()) {
        Ok(accepted) => status_response(call, failure.code, &failure.status, accepted.encoding, accepted.pretty),
        Err(_) => raw_status(call, failure.code, &failure.status),
    };
    if let Some(seconds) = failure.retry_after {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    if failure.code == StatusCode::PAYLOAD_TOO_LARGE {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// A response of JSON that is not an object of the API, or one whose encoding is not negotiated.
pub(crate) fn json_response(call: &RequestContext, code: StatusCode, value: &Value) -> Response {
    let accepted = negotiate::output(&call.headers, &call.query, Endpoint { protobuf: false, ..Endpoint::PLAIN });
    let pretty = accepted.is_ok_and(|a| a.pretty);
    let bytes = if pretty { pintle_codec::json::encode_pretty(value) } else { pintle_codec::json::encode(value) };
    respond(code, Encoding::Json, bytes)
}

/// A `Status` in JSON, for a client that accepts no encoding of it.
fn raw_status(call: &RequestContext, code: StatusCode, status: &Value) -> Response {
    let json = crate::objects::encode::json(status, Shape::named(&call.cluster.catalog, "meta/v1.Status"));
    respond(code, Encoding::Json, pintle_codec::json::indent(&json))
}

/// A `Status` of success, in the encoding in which the client accepts objects.
pub(crate) fn success(call: &RequestContext, form: &ResponseFormat, details: Value) -> Response {
    let value = self::status::success(details);
    status_response(call, StatusCode::OK, &value, form.accepted.encoding, form.accepted.pretty)
}

/// The same of something of which no more is there to show: with the code, as upstream fills it in then.
pub(crate) fn done(call: &RequestContext, form: &ResponseFormat, code: StatusCode, details: Value) -> Response {
    let mut value = self::status::success(details);
    value.set("code", i64::from(code.as_u16()));
    status_response(call, code, &value, form.accepted.encoding, form.accepted.pretty)
}

/// A document of the type `name` (`meta/v1.APIGroup`) as an answer, in the encoding that the client accepts.
pub(crate) fn meta(call: &RequestContext, name: &str, value: Value, endpoint: Endpoint) -> Result<Response, ApiError> {
    let accepted = negotiate::output(&call.headers, &call.query, endpoint)?;
    let bytes = encode(&value, Shape::named(&call.cluster.catalog, name), accepted.encoding, accepted.pretty);
    Ok(respond(StatusCode::OK, accepted.encoding, bytes))
}

/// A document of the type `name` as JSON.
pub(crate) fn typed_json(cluster: &Cluster, name: &str, value: &Value) -> Vec<u8> {
    encode(value, Shape::named(&cluster.catalog, name), Encoding::Json, false)
}

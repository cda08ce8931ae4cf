//! Objects as Protobuf messages. Messages of stored objects are cached with the objects while they are requested and
//! there is space.

use std::cell::RefCell;
use std::sync::Arc;

use pintle_cache::Object;
use pintle_codec::json::Tape;
use pintle_codec::protobuf;
use pintle_registry::ApiError;

use super::ResponseFormat;
use super::item_encoder::metadata_range;
use crate::objects::encode::Shape;
use crate::request::negotiate::MetaVersion;

/// Buffers for encoding, reused between messages.
#[derive(Default)]
struct Scratch {
    json: Vec<u8>,
    tape: Tape,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Maximum capacity of a buffer between two uses, in bytes.
const MAX_RETAINED_BYTES: usize = 64 * 1024;

/// The field number of `metadata` in the messages of all kinds.
const METADATA_FIELD: u32 = 1;

/// Appends the Protobuf message of the JSON object that `write` appends.
fn append_message(
    shape: Shape<'_>,
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>) -> Option<()>,
) -> Result<(), ApiError> {
    let result = SCRATCH.with_borrow_mut(|Scratch { json, tape }| {
        let Shape::Typed(types, id) = shape else { return None };
        json.clear();
        write(json)?;
        protobuf::encode_json(json, tape, types, id, out)?;
        json.shrink_to(MAX_RETAINED_BYTES);
        tape.shrink_to(MAX_RETAINED_BYTES);
        Some(())
    });
    result.ok_or_else(|| ApiError::Internal("failed to decode the stored object".to_owned()))
}

impl ResponseFormat {
    /// Appends the message of a stored object, and caches it if there is space.
    ///
    /// # Errors
    /// Returns an error if the stored bytes cannot be decoded.
    pub(super) fn write_cached_message(&self, object: &Arc<Object>, out: &mut Vec<u8>) -> Result<(), ApiError> {
        if object.encoding.with_bytes(|message| out.extend_from_slice(message)).is_some() {
            return Ok(());
        }
        let start = out.len();
        self.write_message(object, object.revision, out)?;
        self.cluster.stores.cache.encoding_cache().insert(object, &out[start..]);
        Ok(())
    }

    /// Appends the message of a stored object, with the given resourceVersion.
    ///
    /// # Errors
    /// Returns an error if the stored bytes cannot be decoded.
    pub(super) fn write_message(&self, object: &Object, revision: u64, out: &mut Vec<u8>) -> Result<(), ApiError> {
        if revision == object.revision && object.encoding.with_bytes(|message| out.extend_from_slice(message)).is_some()
        {
            return Ok(());
        }
        append_message(self.shape(), out, |json| {
            object.write_json(0, revision, json);
            Some(())
        })
    }

    /// Appends the envelope of an object at the request's version. `write` appends its message.
    ///
    /// # Errors
    /// Returns the error of `write`.
    pub(super) fn write_envelope(
        &self,
        out: &mut Vec<u8>,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), ApiError>,
    ) -> Result<(), ApiError> {
        let mut written = Ok(());
        let api_version = self.resource.group_version().to_string();
        protobuf::encode_envelope(&api_version, &self.resource.kind, out, |out| written = write(out));
        written
    }

    /// Appends the envelope and message of an object's `PartialObjectMetadata`.
    ///
    /// # Errors
    /// Returns an error if the stored bytes cannot be decoded.
    pub(super) fn write_partial_envelope(
        &self,
        version: MetaVersion,
        object: &Object,
        revision: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), ApiError> {
        let mut written = Ok(());
        protobuf::encode_envelope(version.api_version(), "PartialObjectMetadata", out, |out| {
            written = self.write_partial_message(object, revision, out);
        });
        written
    }

    /// Appends the message of an object's `PartialObjectMetadata`.
    ///
    /// # Errors
    /// Returns an error if the stored bytes cannot be decoded.
    pub(super) fn write_partial_message(
        &self,
        object: &Object,
        revision: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), ApiError> {
        // Cached messages begin with the metadata.
        if revision == object.revision
            && let Some(true) = object.encoding.with_bytes(|message| {
                protobuf::first_field(message, METADATA_FIELD).map(|metadata| out.extend_from_slice(metadata)).is_some()
            })
        {
            return Ok(());
        }
        append_message(Shape::named(&self.cluster.served.catalog, "meta/v1.PartialObjectMetadata"), out, |json| {
            json.push(b'{');
            object.write_json_range(metadata_range(object)?, revision, json);
            json.push(b'}');
            Some(())
        })
    }
}

//! Objects as Protobuf messages. Those of objects as they are stored are kept with the objects, for as long as they are asked
//! for and there is room.

use std::cell::RefCell;
use std::sync::Arc;

use pintle_cache::Object;
use pintle_codec::json::Tape;
use pintle_codec::protobuf;
use pintle_registry::ApiError;

use super::ResponseFormat;
use super::items::metadata_of;
use crate::objects::encode::Shape;
use crate::request::negotiate::MetaVersion;

/// What is needed to make a message, kept for the next one.
#[derive(Default)]
struct Work {
    json: Vec<u8>,
    tape: Tape,
}

thread_local! {
    static WORK: RefCell<Work> = RefCell::default();
}

/// How much room for a long object is kept for the next one, in bytes.
const KEPT: usize = 64 * 1024;

/// The number of `metadata` in the messages of all kinds.
const METADATA: u32 = 1;

/// Appends the message of the JSON that `write` appends.
fn append(shape: Shape<'_>, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> Option<()>) -> Result<(), ApiError> {
    let appended = WORK.with_borrow_mut(|Work { json, tape }| {
        let Shape::Typed(types, id) = shape else { return None };
        json.clear();
        write(json)?;
        protobuf::encode_json(json, tape, types, id, out)?;
        json.shrink_to(KEPT);
        tape.shrink_to(KEPT);
        Some(())
    });
    appended.ok_or_else(|| ApiError::Internal("the stored object cannot be read".to_owned()))
}

impl ResponseFormat {
    /// Appends the message of an object as it is stored, and keeps it if there is room.
    ///
    /// # Errors
    /// The stored bytes cannot be read.
    pub(super) fn write_kept_message(&self, object: &Arc<Object>, out: &mut Vec<u8>) -> Result<(), ApiError> {
        if object.encoding.with_bytes(|message| out.extend_from_slice(message)).is_some() {
            return Ok(());
        }
        let start = out.len();
        self.write_message(object, object.revision, out)?;
        self.cluster.cache.encoding_cache().insert(object, &out[start..]);
        Ok(())
    }

    /// Appends the message of an object as it is stored, at a revision.
    ///
    /// # Errors
    /// The stored bytes cannot be read.
    pub(super) fn write_message(&self, object: &Object, revision: u64, out: &mut Vec<u8>) -> Result<(), ApiError> {
        if revision == object.revision && object.encoding.with_bytes(|message| out.extend_from_slice(message)).is_some()
        {
            return Ok(());
        }
        append(self.shape(), out, |json| {
            object.write_json(0, revision, json);
            Some(())
        })
    }

    /// Appends the envelope of an object of the request's version around the message that `write` appends.
    ///
    /// # Errors
    /// Those of `write`.
    pub(super) fn write_object(
        &self,
        out: &mut Vec<u8>,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), ApiError>,
    ) -> Result<(), ApiError> {
        let mut written = Ok(());
        let api_version = self.resource.group_version().to_string();
        protobuf::encode_envelope(&api_version, &self.resource.kind, out, |out| written = write(out));
        written
    }

    /// Appends an object's metadata alone in an envelope.
    ///
    /// # Errors
    /// The stored bytes cannot be read.
    pub(super) fn write_partial_object(
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

    /// Appends the message of an object's metadata alone.
    ///
    /// # Errors
    /// The stored bytes cannot be read.
    pub(super) fn write_partial_message(
        &self,
        object: &Object,
        revision: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), ApiError> {
        // What is kept of an object begins with its metadata.
        if revision == object.revision
            && let Some(true) = object.encoding.with_bytes(|message| {
                protobuf::first_field(message, METADATA).map(|metadata| out.extend_from_slice(metadata)).is_some()
            })
        {
            return Ok(());
        }
        append(Shape::named(&self.cluster.catalog, "meta/v1.PartialObjectMetadata"), out, |json| {
            json.push(b'{');
            object.write_json_range(metadata_of(object)?, revision, json);
            json.push(b'}');
            Some(())
        })
    }
}

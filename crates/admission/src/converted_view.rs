//! The object of a write while webhooks or policies change it at another version than the version of the request.

use std::borrow::Cow;

use pintle_registry::{ApiError, GroupVersionKind};
use pintle_value::Value;

use crate::AdmissionAttributes;
use crate::matching::MatchedResource;
use crate::objects::{self, NOTHING, VersionedObjects};

/// The objects of a write at another version than the version of the request, while webhooks or policies see that
/// version (upstream: `admission.ConvertVersionedAttributes`).
#[derive(Default)]
pub(crate) struct ConvertedView(Option<Converted>);

struct Converted {
    kind: GroupVersionKind,
    object: Value,
    old: Value,
    /// True if the object has been changed since its conversion.
    is_changed: bool,
}

/// Why a view cannot change its version.
#[derive(Debug)]
pub(crate) enum ConversionError {
    /// The objects of the write cannot be converted to the version that matched.
    ToMatched(ApiError),
    /// The changed object cannot be converted back.
    ToRequested(ApiError),
}

/// Webhooks treat both errors alike.
impl From<ConversionError> for ApiError {
    fn from(error: ConversionError) -> Self {
        match error {
            ConversionError::ToMatched(error) | ConversionError::ToRequested(error) => internal(&error),
        }
    }
}

/// The error of a request whose object cannot be converted.
pub(crate) fn internal(error: &ApiError) -> ApiError {
    ApiError::Internal(error.to_string())
}

impl ConvertedView {
    /// The object at the version of the view. `object` is at the version of the request.
    pub(crate) fn object<'o>(&'o self, object: &'o Value) -> &'o Value {
        self.0.as_ref().map_or(object, |converted| &converted.object)
    }

    /// The old object at the version of the view; null for creates.
    pub(crate) fn old<'o>(&'o self, attributes: &'o AdmissionAttributes<'_>) -> &'o Value {
        let requested = attributes.old.unwrap_or(&NOTHING);
        self.0.as_ref().map_or(requested, |converted| &converted.old)
    }

    /// The kind with the version of the view.
    pub(crate) fn kind(&self, attributes: &AdmissionAttributes<'_>) -> GroupVersionKind {
        self.0.as_ref().map_or_else(|| attributes.kind(), |converted| converted.kind.clone())
    }

    /// The objects at the version of the view.
    pub(crate) fn objects<'o>(
        &'o self,
        attributes: &'o AdmissionAttributes<'_>,
        object: &'o Value,
    ) -> VersionedObjects<'o> {
        match &self.0 {
            Some(Converted { kind, object, old, .. }) => {
                VersionedObjects { kind: kind.clone(), object: Cow::Borrowed(object), old: Cow::Borrowed(old) }
            }
            None => VersionedObjects {
                kind: attributes.kind(),
                object: Cow::Borrowed(object),
                old: Cow::Borrowed(attributes.old.unwrap_or(&NOTHING)),
            },
        }
    }

    /// Replaces the object at the version of the view.
    pub(crate) fn replace(&mut self, object: &mut Value, new: Value) {
        match &mut self.0 {
            Some(converted) => (converted.object, converted.is_changed) = (new, true),
            None => *object = new,
        }
    }

    /// Changes to the version at which a write matched. A conversion that fails is an internal error.
    pub(crate) async fn enter(
        &mut self,
        attributes: &AdmissionAttributes<'_>,
        object: &mut Value,
        matched: &MatchedResource<'_>,
    ) -> Result<(), ConversionError> {
        if *matched == MatchedResource::Requested && self.0.is_none() {
            return Ok(());
        }
        let kind = matched.kind(attributes);
        if self.0.as_ref().is_some_and(|converted| converted.kind == kind) {
            return Ok(());
        }
        self.leave(attributes, object).await.map_err(ConversionError::ToRequested)?;
        if *matched != MatchedResource::Requested {
            let VersionedObjects { kind, object, old } =
                VersionedObjects::convert(attributes, object, kind).await.map_err(ConversionError::ToMatched)?;
            let (object, old) = (object.into_owned(), old.into_owned());
            self.0 = Some(Converted { kind, object, old, is_changed: false });
        }
        Ok(())
    }

    /// Returns to the version of the request. As in upstream, a failed conversion returns its own error, not an
    /// internal error.
    pub(crate) async fn leave(
        &mut self,
        attributes: &AdmissionAttributes<'_>,
        object: &mut Value,
    ) -> Result<(), ApiError> {
        if let Some(Converted { object: converted, is_changed: true, .. }) = self.0.take() {
            let kind = objects::kind_of(object);
            *object = objects::convert(attributes, Cow::Owned(converted), &kind).await?.into_owned();
        }
        Ok(())
    }
}

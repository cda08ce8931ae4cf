//! The `ConversionReview` request.

use pintle_codec::json;
use pintle_value::{Str, object};

/// A version of `ConversionReview`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewVersion {
    /// `v1`
    V1,
    /// `v1beta1`, whose responses need not repeat the UID of the request.
    V1Beta1,
}

impl ReviewVersion {
    /// Returns the first supported version in a list of names.
    #[must_use]
    pub fn first_supported(names: &[Str]) -> Option<Self> {
        names.iter().find_map(|name| match name.as_str() {
            "v1" => Some(Self::V1),
            "v1beta1" => Some(Self::V1Beta1),
            _ => None,
        })
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V1Beta1 => "v1beta1",
        }
    }
}

/// A `ConversionReview` request: objects and the version to convert them to.
#[derive(Clone, Copy, Debug)]
pub struct ConversionReview<'r> {
    /// The version of the request and of its response.
    pub version: ReviewVersion,
    /// The UID of the request.
    pub uid: &'r str,
    /// The desired API version (`example.com/v1`).
    pub desired: &'r str,
}

impl ConversionReview<'_> {
    /// Returns the request body for objects that are already encoded as JSON.
    #[must_use]
    pub fn body(&self, objects: &[Vec<u8>]) -> Vec<u8> {
        let head = object! {
            "kind": "ConversionReview",
            "apiVersion": format!("apiextensions.k8s.io/{}", self.version.name()),
            "request": object! { "uid": self.uid, "desiredAPIVersion": self.desired },
        };
        let mut out = Vec::with_capacity(512 + objects.iter().map(|object| object.len() + 1).sum::<usize>());
        json::encode_into(&head, &mut out);
        // Members are sorted. `request` is the last member, so removing its closing braces leaves it open for the
        // objects.
        out.truncate(out.len() - 2);
        out.extend_from_slice(b",\"objects\":[");
        for (i, object) in objects.iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            out.extend_from_slice(object);
        }
        out.extend_from_slice(br#"]},"response":{"uid":"","convertedObjects":null,"result":{"metadata":{}}}}"#);
        out
    }
}

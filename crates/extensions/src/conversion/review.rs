//! The question.

use pintle_codec::json;
use pintle_value::{Str, object};

/// A version of `ConversionReview`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewVersion {
    /// `v1`
    V1,
    /// `v1beta1`, whose answers are not held to be for the question.
    V1Beta1,
}

impl ReviewVersion {
    /// The first of these names that means one.
    #[must_use]
    pub fn first_known(names: &[Str]) -> Option<Self> {
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

/// A question to a webhook: objects, and the version that they are wanted at.
#[derive(Clone, Copy, Debug)]
pub struct Review<'r> {
    /// The version of the question and of its answer.
    pub version: ReviewVersion,
    /// Tells the question from others.
    pub uid: &'r str,
    /// The version that is wanted (`example.com/v1`).
    pub desired: &'r str,
}

impl Review<'_> {
    /// The body of the request about objects that are JSON already.
    #[must_use]
    pub fn body(&self, objects: &[Vec<u8>]) -> Vec<u8> {
        let head = object! {
            "kind": "ConversionReview",
            "apiVersion": format!("apiextensions.k8s.io/{}", self.version.name()),
            "request": object! { "uid": self.uid, "desiredAPIVersion": self.desired },
        };
        let mut out = Vec::with_capacity(512 + objects.iter().map(|object| object.len() + 1).sum::<usize>());
        json::encode_into(&head, &mut out);
        // Members are sorted: the request is the last one, and its braces stand open for the objects.
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

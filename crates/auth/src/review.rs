//! Reviews, which webhooks of authentication, authorization and admission get and answer. This module has their
//! versions and decodes answers.

use pintle_codec::json;
use pintle_value::Value;

use crate::config_file::ConfigScheme;

/// The version of a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewVersion {
    /// Version 1.
    V1,
    /// Version 1, beta 1.
    V1Beta1,
}

impl ReviewVersion {
    /// Parses the name of a version. `what` names the setting in messages.
    ///
    /// # Errors
    /// Returns upstream's message.
    pub fn parse(name: &str, what: &str) -> Result<Self, String> {
        match name {
            "v1" => Ok(Self::V1),
            "v1beta1" => Ok(Self::V1Beta1),
            name => Err(format!("unsupported {what} version {name:?}, supported versions are \"v1\", \"v1beta1\"")),
        }
    }
}

/// A kind of reviews.
#[derive(Debug)]
pub struct ReviewKind {
    /// The kind.
    pub kind: &'static str,
    /// The `apiVersion` of version 1.
    pub v1: &'static str,
    /// The `apiVersion` of version 1, beta 1.
    pub v1beta1: &'static str,
    /// The types of answers. The parts of the request that a webhook sends back do not matter.
    pub scheme: ConfigScheme,
}

impl ReviewKind {
    /// The `apiVersion` of a version.
    #[must_use]
    pub const fn api_version(&self, version: ReviewVersion) -> &'static str {
        match version {
            ReviewVersion::V1 => self.v1,
            ReviewVersion::V1Beta1 => self.v1beta1,
        }
    }

    /// Reads the body of a successful response.
    ///
    /// # Errors
    /// The body is not a review of this version.
    pub fn decode(&self, version: ReviewVersion, body: &[u8]) -> Result<Value, String> {
        let (kind, expected) = (self.kind, self.api_version(version));
        let decoded = match self.scheme.decode_as(body, (expected, kind)) {
            Ok(decoded) => decoded,
            Err(error) => return Err(status_message(body).unwrap_or_else(|| error.to_string())),
        };
        if decoded.api_version != expected {
            let short = |version: &str| version.rsplit_once('/').map_or(String::new(), |(_, short)| short.to_owned());
            let (from, to) = (short(&decoded.api_version), short(expected));
            return Err(format!("converting ({from}.{kind}) to ({to}.{kind}): unknown conversion"));
        }
        Ok(decoded.value)
    }
}

/// The message of a `Status` that reports a failure.
fn status_message(body: &[u8]) -> Option<String> {
    let value = json::decode(body, json::DecodeOptions::default()).ok()?.value;
    let is_failure = value.kind() == "Status" && value.str_at(&["status"]) != "Success";
    is_failure.then(|| value.str_at(&["message"]).to_owned())
}

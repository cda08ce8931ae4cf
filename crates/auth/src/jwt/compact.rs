//! Tokens in the compact serialization of a JSON Web Signature (RFC 7515, section 3.1).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{PublicKey, SignatureError, parse_claims};

/// Maximum size of a token, in bytes. It is Go's limit for all headers of a request.
pub const MAX_TOKEN_BYTES: usize = 1 << 20;

/// The reasons why a text is not a signed token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MalformedJws {
    /// The text is larger than [`MAX_TOKEN_BYTES`].
    #[error("the token is too large")]
    TooLarge,
    /// The text does not have three parts.
    #[error("compact JWS format must have three parts")]
    Parts,
    /// A part is not base64url without padding (RFC 7515, section 2), or has bits after its last byte.
    #[error("the token is not in base64url")]
    Base64,
    /// The header is not a JSON object that names an algorithm, or has a member twice.
    #[error("the header of the token is malformed")]
    Header,
    /// The header names extensions that must be understood.
    #[error("the header of the token has critical extensions")]
    CriticalExtensions,
}

/// The members of the header that the server reads.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct JwsHeader {
    /// The name of the algorithm.
    pub alg: String,
    /// The id of the key; may be empty.
    #[serde(default)]
    pub kid: String,
}

/// The header with the members that make a token unacceptable.
#[derive(Deserialize)]
struct ReceivedHeader {
    alg: String,
    #[serde(default)]
    kid: String,
    /// Extensions that a recipient must understand. This server understands none.
    crit: Option<IgnoredAny>,
}

/// A token whose signature is not verified yet.
#[derive(Clone, Debug)]
pub struct CompactJws<'t> {
    /// The signed text: header and payload as they were sent.
    signing_input: &'t str,
    header: JwsHeader,
    payload: Vec<u8>,
    signature: Vec<u8>,
}

impl<'t> CompactJws<'t> {
    /// Parses a token.
    ///
    /// # Errors
    /// See [`MalformedJws`].
    pub fn parse(token: &'t str) -> Result<Self, MalformedJws> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(MalformedJws::TooLarge);
        }
        let (signing_input, signature) = token.rsplit_once('.').ok_or(MalformedJws::Parts)?;
        let (header, payload) = signing_input.split_once('.').ok_or(MalformedJws::Parts)?;
        if payload.contains('.') {
            return Err(MalformedJws::Parts);
        }
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| MalformedJws::Base64);
        let ReceivedHeader { alg, kid, crit } = parse_claims(&decode(header)?).map_err(|_| MalformedJws::Header)?;
        if crit.is_some() {
            return Err(MalformedJws::CriticalExtensions);
        }
        let header = JwsHeader { alg, kid };
        Ok(Self { signing_input, header, payload: decode(payload)?, signature: decode(signature)? })
    }

    /// The header. It is not trusted, because anybody may have written it.
    #[must_use]
    pub fn header(&self) -> &JwsHeader {
        &self.header
    }

    /// The payload before its signature is verified. It is not trusted, because anybody may have written it.
    #[must_use]
    pub fn unverified_payload(&self) -> &[u8] {
        &self.payload
    }

    /// Verifies the signature. Returns the payload.
    ///
    /// # Errors
    /// The signature is not valid for the key, or the key does not allow the algorithm of the header.
    pub fn verify(&self, key: &PublicKey) -> Result<&[u8], SignatureError> {
        key.verify(&self.header.alg, self.signing_input.as_bytes(), &self.signature)?;
        Ok(&self.payload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode(part: &str) -> String {
        URL_SAFE_NO_PAD.encode(part)
    }

    #[track_caller]
    fn check(token: &str, expect: Result<(&str, &str, &str), MalformedJws>) {
        let found = CompactJws::parse(token);
        let found = found.as_ref().map(|jws| {
            let payload = std::str::from_utf8(jws.unverified_payload()).expect("UTF-8");
            (&*jws.header.alg, &*jws.header.kid, payload)
        });
        assert_eq!(found.map_err(|error| *error), expect, "{token}");
    }

    #[test]
    fn tokens_have_three_parts_in_strict_base64url() {
        let token = |header: &str| format!("{}.{}.AA", encode(header), encode("{}"));
        check(&token(r#"{"alg":"RS256","kid":"k","typ":"JWT","jwk":{}}"#), Ok(("RS256", "k", "{}")));
        check(&token(r#"{"alg":"none"}"#), Ok(("none", "", "{}")));
        check(&format!("{}..", encode(r#"{"alg":"ES256"}"#)), Ok(("ES256", "", "")));
        for text in ["", ".", "a.b", "a.b.c.d", "{}", "\u{fffd}"] {
            check(text, Err(MalformedJws::Parts));
        }
        let valid = token(r#"{"alg":"RS256"}"#);
        for malformed in [
            valid.replace(".AA", ".AA=="),
            valid.replace(".AA", ".A"),
            // With bits after the last byte, one signature could be written in several ways.
            valid.replace(".AA", ".AB"),
            valid.replace(".AA", ".+/AA"),
            valid.replace(".AA", ".A\nA"),
            valid.replace(".AA", ".A\u{fffd}"),
            format!(" {valid}"),
            format!("{valid} "),
        ] {
            check(&malformed, Err(MalformedJws::Base64));
        }
        check(&format!("{}.{}", "A".repeat(MAX_TOKEN_BYTES), "A.A"), Err(MalformedJws::TooLarge));
    }

    #[test]
    fn headers_are_read_strictly() {
        for header in [
            "",
            "{}",
            "null",
            "[]",
            r#"{"alg":null}"#,
            r#"["RS256","",null]"#,
            r#"{"alg":["RS256"]}"#,
            r#"{"ALG":"RS256"}"#,
            r#"{"alg":"RS256","alg":"none"}"#,
            r#"{"alg":"RS256","kid":"a","kid":"b"}"#,
            r#"{"alg":"RS256","kid":1}"#,
            r#"{"alg":"RS256"} {}"#,
        ] {
            check(&format!("{}..", encode(header)), Err(MalformedJws::Header));
        }
        let critical = encode(r#"{"alg":"RS256","crit":["b64"],"b64":false}"#);
        check(&format!("{critical}.."), Err(MalformedJws::CriticalExtensions));
    }
}

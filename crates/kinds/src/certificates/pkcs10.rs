//! Validates PKCS#10 certificate requests (RFC 2986), including the signature, which proves that the requester has the
//! private key. Clients see the error messages, so they equal the messages of Go's `crypto/x509`.
//!
//! RSA keys below 2048 bits, which Go supports, are rejected because `ring` does not support them.

use ring::digest;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::error::X509Error;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::FromDer;
use x509_parser::public_key::PublicKey;
use x509_parser::x509::AttributeTypeAndValue;

/// The minimum size of supported RSA keys, in bits.
const MIN_RSA_BITS: usize = 2048;
/// The maximum length of a value that Go accepts.
const MAX_LENGTH: usize = 1 << 23;

/// Validates a request in DER.
///
/// # Errors
/// Returns the message of Go's `crypto/x509`.
pub(super) fn check(der: &[u8]) -> Result<(), String> {
    let request = parse(der)?;
    let unknown = || "x509: cannot verify signature: algorithm unimplemented".to_owned();
    let verification_error = match request.certification_request_info.subject_pki.parsed() {
        Ok(PublicKey::RSA(key)) if key.key_size() < MIN_RSA_BITS => return Err(unknown()),
        Ok(PublicKey::RSA(_)) => "crypto/rsa: verification error",
        Ok(PublicKey::EC(_)) => "x509: ECDSA verification failure",
        _ => "x509: Ed25519 verification failure",
    };
    request.verify_signature().or_else(|error| match error {
        X509Error::SignatureUnsupportedAlgorithm => match is_signed_by_curve(&request) {
            Some(true) => Ok(()),
            Some(false) => Err(verification_error.to_owned()),
            None => Err(unknown()),
        },
        _ => Err(verification_error.to_owned()),
    })
}

/// Verifies an ECDSA signature that `ring` does not support: another curve, or another pair of curve and digest. `None`
/// for any other signature.
fn is_signed_by_curve(request: &X509CertificationRequest<'_>) -> Option<bool> {
    let Some(pintle_x509::PublicKey::Ecdsa(key)) =
        pintle_x509::PublicKey::of(&request.certification_request_info.subject_pki)
    else {
        return None;
    };
    let algorithm = match request.signature_algorithm.algorithm.to_id_string().as_str() {
        "1.2.840.10045.4.1" => &digest::SHA1_FOR_LEGACY_USE_ONLY,
        "1.2.840.10045.4.3.2" => &digest::SHA256,
        "1.2.840.10045.4.3.3" => &digest::SHA384,
        "1.2.840.10045.4.3.4" => &digest::SHA512,
        _ => return None,
    };
    let digest = digest::digest(algorithm, request.certification_request_info.raw);
    Some(key.verify(digest.as_ref(), &request.signature_value.data))
}

/// The public key of a request in DER. `None` if Go cannot parse the request or the key.
pub(super) fn public_key(der: &[u8]) -> Option<pintle_x509::PublicKey> {
    pintle_x509::PublicKey::of(&parse(der).ok()?.certification_request_info.subject_pki)
}

/// The names in the subject of a request, as Go's `pkix.Name` has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestedSubject {
    /// The last common name.
    pub common_name: String,
    /// The organizations.
    pub organizations: Vec<String>,
}

/// The subject of a request in DER.
///
/// # Errors
/// Returns the message of Go's `crypto/x509`.
pub(super) fn subject(der: &[u8]) -> Result<RequestedSubject, String> {
    let request = parse(der)?;
    let subject = &request.certification_request_info.subject;
    let text = |attribute: &AttributeTypeAndValue<'_>| {
        attribute.as_str().map(str::to_owned).map_err(|_| structure("invalid character string"))
    };
    Ok(RequestedSubject {
        common_name: subject.iter_common_name().last().map(text).transpose()?.unwrap_or_default(),
        organizations: subject.iter_organization().map(text).collect::<Result<_, _>>()?,
    })
}

/// The kinds of alternative names in a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct AlternativeNames {
    /// There are DNS names or IP addresses.
    pub(super) hosts: bool,
    /// There are mail addresses or URIs.
    pub(super) others: bool,
}

/// The kinds of alternative names in a request in DER. Other kinds are ignored, as in Go.
///
/// # Errors
/// The request cannot be read.
pub(super) fn alternative_names(der: &[u8]) -> Result<AlternativeNames, String> {
    let request = parse(der)?;
    let mut found = AlternativeNames::default();
    for extension in request.requested_extensions().into_iter().flatten() {
        match extension {
            ParsedExtension::SubjectAlternativeName(names) => {
                for name in &names.general_names {
                    match name {
                        GeneralName::DNSName(_) | GeneralName::IPAddress(_) => found.hosts = true,
                        GeneralName::RFC822Name(_) | GeneralName::URI(_) => found.others = true,
                        _ => {}
                    }
                }
            }
            ParsedExtension::ParseError { .. } => return Err(structure("malformed extension")),
            _ => {}
        }
    }
    Ok(found)
}

/// Parses a request in DER.
fn parse(der: &[u8]) -> Result<X509CertificationRequest<'_>, String> {
    let content = sequence(der, "certificateRequest")?;
    sequence(content, "tbsCertificateRequest")?;
    let (rest, request) =
        X509CertificationRequest::from_der(der).map_err(|_| structure("malformed certificate request"))?;
    if rest.is_empty() { Ok(request) } else { Err(syntax("trailing data")) }
}

fn syntax(why: &str) -> String {
    format!("asn1: syntax error: {why}")
}

fn structure(why: &str) -> String {
    format!("asn1: structure error: {why}")
}

/// Returns the content of the sequence at the start of `der`, which Go reads into a struct of this name.
fn sequence<'a>(der: &'a [u8], name: &str) -> Result<&'a [u8], String> {
    let Some((&first, rest)) = der.split_first() else { return Err(syntax("sequence truncated")) };
    let (class, compound, tag) = (first >> 6, first & 0x20 != 0, first & 0x1f);
    let (length, content) = length(rest)?;
    if (class, compound, tag) != (0, true, 16) {
        return Err(structure(&format!(
            "tags don't match (16 vs {{class:{class} tag:{tag} length:{length} isCompound:{compound}}}) \
             {{optional:false explicit:false application:false private:false defaultValue:<nil> tag:<nil> stringType:0 \
             timeType:0 set:false omitEmpty:false}} {name} @2"
        )));
    }
    content.get(..length).ok_or_else(|| syntax("data truncated"))
}

/// Reads a length. Returns it and the rest of the input.
fn length(der: &[u8]) -> Result<(usize, &[u8]), String> {
    let truncated = || syntax("truncated tag or length");
    let (&first, mut rest) = der.split_first().ok_or_else(truncated)?;
    if first < 0x80 {
        return Ok((usize::from(first), rest));
    }
    let bytes = first & 0x7f;
    if bytes == 0 {
        return Err(syntax("indefinite length found (not DER)"));
    }
    let mut length = 0;
    for _ in 0..bytes {
        let (&byte, behind) = rest.split_first().ok_or_else(truncated)?;
        if length >= MAX_LENGTH {
            return Err(structure("length too large"));
        }
        length = length << 8 | usize::from(byte);
        if length == 0 {
            return Err(structure("superfluous leading zeros in length"));
        }
        rest = behind;
    }
    if length < 0x80 { Err(structure("non-minimal length")) } else { Ok((length, rest)) }
}

#[cfg(test)]
mod tests {
    use pintle_schema::base64;

    use super::*;

    /// Requests that Go created, each with another type of key and signature.
    const GO_REQUESTS: &str = include_str!("pkcs10.txt");

    fn go_request(name: &str) -> Vec<u8> {
        let line = GO_REQUESTS.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).expect("a request");
        base64::decode(line.as_bytes()).expect("base64")
    }

    fn error_of(der: &[u8]) -> String {
        check(der).err().unwrap_or_default()
    }

    #[test]
    fn signatures_are_verified() {
        let unknown = "x509: cannot verify signature: algorithm unimplemented";
        let (rsa, ecdsa) = ("crypto/rsa: verification error", "x509: ECDSA verification failure");
        for (name, expect, forged) in [
            ("p256", "", ecdsa),
            ("p384", "", ecdsa),
            ("rsa", "", rsa),
            ("rsapss", "", rsa),
            ("rsa512", "", rsa),
            ("rsasha1", "", rsa),
            ("ed25519", "", "x509: Ed25519 verification failure"),
            ("p521", "", ecdsa),
            ("p224", "", ecdsa),
            ("rsa1024", unknown, unknown),
        ] {
            let mut der = go_request(name);
            assert_eq!(error_of(&der), expect, "{name}");
            if let Some(last) = der.last_mut() {
                *last ^= 1;
            }
            assert_eq!(error_of(&der), forged, "{name}, forged");
        }
    }

    #[test]
    fn malformed_requests_are_rejected() {
        let tags = |found: &str, name: &str| {
            structure(&format!(
                "tags don't match (16 vs {{{found}}}) {{optional:false explicit:false application:false private:false \
                 defaultValue:<nil> tag:<nil> stringType:0 timeType:0 set:false omitEmpty:false}} {name} @2"
            ))
        };
        let request = go_request("p256");
        let longer = [request.as_slice(), &[0]].concat();
        for (der, expect) in [
            (b"".as_slice(), syntax("sequence truncated")),
            (b"1", syntax("truncated tag or length")),
            (b"not DER", tags("class:1 tag:14 length:111 isCompound:true", "certificateRequest")),
            (&[0x30, 5, 1], syntax("data truncated")),
            (&[0x30, 0], syntax("sequence truncated")),
            (&[0x30, 3, 2, 1, 1], tags("class:0 tag:2 length:1 isCompound:false", "tbsCertificateRequest")),
            (&[0x30, 0x80, 0, 0], syntax("indefinite length found (not DER)")),
            (&[0x30, 0x81, 1, 0], structure("non-minimal length")),
            (&[0x30, 0x82, 0, 1, 0], structure("superfluous leading zeros in length")),
            (&[0x30, 0x85, 1, 1, 1, 1, 1], structure("length too large")),
            (&[0x30, 2, 0x30, 0], structure("malformed certificate request")),
            (&request[..request.len() - 3], syntax("data truncated")),
            (&longer, syntax("trailing data")),
        ] {
            assert_eq!(error_of(der), expect, "{der:02x?}");
        }
    }
}

//! The registered claims (RFC 7519, section 4.1) as go-jose reads and validates them.

use pintle_value::Str;
use pintle_value::time::Time;
use serde::de::{DeserializeOwned, Error, Unexpected};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The maximum difference between the clocks of issuer and server, in seconds (`jwt.DefaultLeeway`).
pub(crate) const LEEWAY_SECONDS: i64 = 60;

/// Claims that are not a JSON object of the expected form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed claims: {0}")]
pub struct MalformedClaims(String);

/// Reads claims. Members that `T` does not have are ignored.
///
/// # Errors
/// The claims are not a JSON object, or a member occurs twice or has another type.
pub fn parse_claims<T: DeserializeOwned>(payload: &[u8]) -> Result<T, MalformedClaims> {
    // `serde_json` would also read a structure from a list.
    if payload.trim_ascii_start().first() != Some(&b'{') {
        return Err(MalformedClaims("not an object".to_owned()));
    }
    serde_json::from_slice(payload).map_err(|error| MalformedClaims(error.to_string()))
}

/// A time in whole seconds since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NumericDate(pub i64);

impl Serialize for NumericDate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(self.0)
    }
}

impl<'de> Deserialize<'de> for NumericDate {
    /// Reads any number, without its fraction.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = serde_json::Number::deserialize(deserializer)?;
        let seconds = number.as_i64().or_else(|| {
            // Beyond this limit, seconds are not exact and times are not meaningful.
            number.as_f64().filter(|number| number.abs() < 1e15).map(|number| number as i64)
        });
        seconds.map(NumericDate).ok_or_else(|| {
            D::Error::invalid_value(Unexpected::Other("number out of range"), &"a number of seconds since the epoch")
        })
    }
}

/// The claim `aud`: one text or a list. It is written as a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audiences(pub Vec<Str>);

impl Serialize for Audiences {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(Str::as_str))
    }
}

impl<'de> Deserialize<'de> for Audiences {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "expected string or array value to unmarshal to Audience")]
        enum OneOrMany {
            One(String),
            Many(Vec<String>),
        }
        Ok(Self(match OneOrMany::deserialize(deserializer)? {
            OneOrMany::One(audience) => vec![audience.into()],
            OneOrMany::Many(audiences) => audiences.into_iter().map(Str::from).collect(),
        }))
    }
}

/// The registered claims. A claim that occurs twice is an error.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RegisteredClaims {
    /// The issuer.
    #[serde(rename = "iss", skip_serializing_if = "Str::is_empty", with = "text")]
    pub issuer: Str,
    /// The subject.
    #[serde(rename = "sub", skip_serializing_if = "Str::is_empty", with = "text")]
    pub subject: Str,
    /// The recipients of the token.
    #[serde(rename = "aud", skip_serializing_if = "is_empty")]
    pub audiences: Audiences,
    /// The time at which it expires.
    #[serde(rename = "exp", skip_serializing_if = "Option::is_none")]
    pub expiry: Option<NumericDate>,
    /// The time from which it is valid.
    #[serde(rename = "nbf", skip_serializing_if = "Option::is_none")]
    pub not_before: Option<NumericDate>,
    /// The time at which it was issued.
    #[serde(rename = "iat", skip_serializing_if = "Option::is_none")]
    pub issued_at: Option<NumericDate>,
    /// Its unique id.
    #[serde(rename = "jti", skip_serializing_if = "Str::is_empty", with = "text")]
    pub id: Str,
}

fn is_empty(audiences: &Audiences) -> bool {
    audiences.0.is_empty()
}

/// Texts, each of which may be null, read as Go reads them.
mod text {
    use super::{Deserialize, Deserializer, Serializer, Str};

    pub(super) fn serialize<S: Serializer>(text: &Str, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(text)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Str, D::Error> {
        Ok(Option::<String>::deserialize(deserializer)?.map(Str::from).unwrap_or_default())
    }
}

/// Why a token is not valid at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimsTimeError {
    /// The token is valid only from a later time on.
    NotValidYet,
    /// The token has expired.
    Expired,
    /// The token was issued at a later time.
    IssuedInTheFuture,
}

impl RegisteredClaims {
    /// Validates the times of a token. Clocks may differ by a minute. A missing time is not validated.
    ///
    /// # Errors
    /// See [`ClaimsTimeError`].
    pub fn validate_times(&self, now: Time) -> Result<(), ClaimsTimeError> {
        // As in go-jose, a token is valid at the second of `exp` itself, but not at a fraction of a second after it.
        let is_before = |date: NumericDate| (now.seconds + LEEWAY_SECONDS) < date.0;
        let is_after = |date: NumericDate| (now.seconds - LEEWAY_SECONDS, now.nanos) > (date.0, 0);
        if self.not_before.is_some_and(is_before) {
            return Err(ClaimsTimeError::NotValidYet);
        }
        if self.expiry.is_some_and(is_after) {
            return Err(ClaimsTimeError::Expired);
        }
        if self.issued_at.is_some_and(is_before) {
            return Err(ClaimsTimeError::IssuedInTheFuture);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_read_as_go_jose_does() {
        let check = |json: &str, expect: Option<RegisteredClaims>| {
            assert_eq!(parse_claims(json.as_bytes()).ok(), expect, "{json}");
        };
        let claims = |audiences: &[&str], expiry: Option<i64>| {
            let audiences = Audiences(audiences.iter().map(|audience| Str::from(*audience)).collect());
            Some(RegisteredClaims { audiences, expiry: expiry.map(NumericDate), ..RegisteredClaims::default() })
        };
        check("{}", claims(&[], None));
        check(r#"{"aud":"a","exp":1,"more":{"aud":1}}"#, claims(&["a"], Some(1)));
        check(r#"{"aud":["a","b"],"exp":1.9,"iss":null}"#, claims(&["a", "b"], Some(1)));
        check(r#"{"exp":null}"#, claims(&[], None));
        for json in [
            r#"{"aud":1}"#,
            r#"{"aud":[1]}"#,
            r#"{"aud":{}}"#,
            r#"{"exp":"1"}"#,
            r#"{"exp":1e300}"#,
            r#"{"exp":1,"exp":2}"#,
            r#"{"iss":1}"#,
            "[]",
            "",
        ] {
            check(json, None);
        }
    }

    #[test]
    fn times_are_validated_with_a_leeway_of_a_minute() {
        let now = Time { seconds: 1000, nanos: 1 };
        let check = |not_before, expiry, issued_at, expect: Result<(), ClaimsTimeError>| {
            let date = |seconds: Option<i64>| seconds.map(NumericDate);
            let claims = RegisteredClaims {
                not_before: date(not_before),
                expiry: date(expiry),
                issued_at: date(issued_at),
                ..RegisteredClaims::default()
            };
            assert_eq!(claims.validate_times(now), expect, "{claims:?}");
        };
        check(None, None, None, Ok(()));
        check(Some(1060), Some(941), Some(1060), Ok(()));
        check(Some(1061), Some(940), None, Err(ClaimsTimeError::NotValidYet));
        check(None, Some(940), Some(1061), Err(ClaimsTimeError::Expired));
        check(None, None, Some(1061), Err(ClaimsTimeError::IssuedInTheFuture));
    }
}

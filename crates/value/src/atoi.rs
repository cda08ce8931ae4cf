//! Go's `strconv.Atoi`, with its errors, which appear in API messages.

use crate::print::quote;

/// Why a text is not an integer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("strconv.Atoi: parsing {}: {}", quote(.text), if *.nearest == 0 { "invalid syntax" } else { "value out of range" })]
pub struct AtoiError {
    text: String,
    /// The value that Go returns besides the error: the nearest integer if the text is out of range, else 0.
    pub nearest: i64,
}

/// Parses a decimal integer with an optional sign.
pub fn atoi(text: &str) -> Result<i64, AtoiError> {
    let error = |nearest| AtoiError { text: text.to_owned(), nearest };
    let negative = text.starts_with('-');
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let limit = if negative { i64::MIN } else { i64::MAX };
    if digits.is_empty() {
        return Err(error(0));
    }
    let mut value = 0_u64;
    for b in digits.bytes() {
        if !b.is_ascii_digit() {
            return Err(error(0));
        }
        // Go stops here, whatever follows.
        let next = value.checked_mul(10).and_then(|v| v.checked_add(u64::from(b - b'0')));
        value = next.ok_or_else(|| error(limit))?;
    }
    let signed = if negative { 0_i64.checked_sub_unsigned(value) } else { i64::try_from(value).ok() };
    signed.ok_or_else(|| error(limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_parsed_as_in_go() {
        #[track_caller]
        fn check(text: &str, expect: Result<i64, (i64, &str)>) {
            let expect =
                expect.map_err(|(nearest, cause)| (nearest, format!("strconv.Atoi: parsing \"{text}\": {cause}")));
            assert_eq!(atoi(text).map_err(|e| (e.nearest, e.to_string())), expect);
        }
        check("0", Ok(0));
        check("+007", Ok(7));
        check("-9223372036854775808", Ok(i64::MIN));
        check("9223372036854775808", Err((i64::MAX, "value out of range")));
        check("-99999999999999999999x", Err((i64::MIN, "value out of range")));
        for text in ["", "-", "1_0", "0x1", "1 ", "+-1"] {
            check(text, Err((0, "invalid syntax")));
        }
    }
}

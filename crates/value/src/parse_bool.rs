//! Go's `strconv.ParseBool`, with its error, which appears in messages.

use crate::print::quote;

/// The error for a text that is not a boolean.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("strconv.ParseBool: parsing {}: invalid syntax", quote(.text))]
pub struct ParseBoolError {
    text: String,
}

/// Parses a boolean: `1`, `t`, `true`, `0`, `f` or `false`, each word in lower case, in capitals, or with one capital.
///
/// # Errors
///
/// Returns an error for all other texts.
pub fn parse_bool(text: &str) -> Result<bool, ParseBoolError> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(false),
        _ => Err(ParseBoolError { text: text.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn booleans_are_parsed_as_in_go() {
        for text in ["1", "t", "T", "TRUE", "true", "True"] {
            assert_eq!(parse_bool(text), Ok(true));
        }
        for text in ["0", "f", "F", "FALSE", "false", "False"] {
            assert_eq!(parse_bool(text), Ok(false));
        }
        for text in ["", " true", "tRUE", "yes", "on", "2"] {
            assert!(parse_bool(text).is_err(), "{text:?}");
        }
        let error = parse_bool("a\"\u{7f}").unwrap_err().to_string();
        assert_eq!(error, r#"strconv.ParseBool: parsing "a\"\x7f": invalid syntax"#);
    }
}

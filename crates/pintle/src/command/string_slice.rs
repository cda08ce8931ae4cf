//! Lists of strings in one value of a flag, as CSV (upstream: pflag's `StringSlice`, which reads the first record with
//! `encoding/csv`).

use std::str::FromStr;

/// The strings of one value of a flag.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StringSlice(Vec<String>);

impl StringSlice {
    /// The strings of all values of a flag.
    pub(crate) fn concat(values: &[Self]) -> Vec<String> {
        values.iter().flat_map(|value| &value.0).cloned().collect()
    }
}

impl FromStr for StringSlice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        let mut strings = Vec::new();
        // Lines without text are skipped.
        let record = text.trim_start_matches(['\r', '\n']);
        if record.is_empty() {
            return Err("EOF".to_owned());
        }
        let mut rest = record;
        loop {
            let (string, end) = match rest.strip_prefix('"') {
                Some(quoted) => read_quoted(record, quoted)?,
                None => read_plain(record, rest)?,
            };
            strings.push(string);
            match end.strip_prefix(',') {
                Some(more) => rest = more,
                None => return Ok(Self(strings)),
            }
        }
    }
}

/// An error at a position of the record. Columns count bytes from 1.
fn error_at(record: &str, rest: &str, message: &str) -> String {
    let before = record.get(..record.len() - rest.len()).unwrap_or_default();
    let (line, start) =
        before.char_indices().filter(|(_, c)| *c == '\n').fold((1, 0), |(line, _), (at, _)| (line + 1, at + 1));
    if line == 1 {
        return format!("parse error on line 1, column {}: {message}", before.len() + 1);
    }
    format!("record on line 1; parse error on line {line}, column {}: {message}", before.len() - start + 1)
}

/// A string without quotes, and the rest of the text.
fn read_plain<'a>(record: &str, text: &'a str) -> Result<(String, &'a str), String> {
    let end = text.find([',', '\n']).unwrap_or(text.len());
    let (string, rest) = text.split_at(end);
    if let Some(quote) = string.find('"') {
        return Err(error_at(record, &text[quote..], "bare \" in non-quoted field"));
    }
    let string = if rest.starts_with('\n') { string.strip_suffix('\r').unwrap_or(string) } else { string };
    Ok((string.to_owned(), rest))
}

/// A string after its opening quote, and the text after its closing quote. Two quotes stand for one quote.
fn read_quoted<'a>(record: &str, mut text: &'a str) -> Result<(String, &'a str), String> {
    let mut string = String::new();
    loop {
        let Some((part, rest)) = text.split_once('"') else {
            return Err(error_at(record, "", "extraneous or missing \" in quoted-field"));
        };
        string.push_str(part);
        match rest.as_bytes().first() {
            Some(b'"') => {
                string.push('"');
                text = &rest[1..];
            }
            None | Some(b',' | b'\n') => return Ok((string, rest)),
            Some(b'\r') if rest.starts_with("\r\n") => return Ok((string, &rest[1..])),
            Some(_) => {
                let quote = &text[part.len()..];
                return Err(error_at(record, quote, "extraneous or missing \" in quoted-field"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_read_as_csv() {
        for (text, expect) in [
            ("", &[][..]),
            ("a", &["a"]),
            ("a,b", &["a", "b"]),
            ("a, b ,", &["a", " b ", ""]),
            ("\"a,b\",c", &["a,b", "c"]),
            ("\"^a{1,3}$\",\"say \"\"hi\"\"\"", &["^a{1,3}$", "say \"hi\""]),
            ("\"\"", &[""]),
            ("\"a\nb\",c\nnext", &["a\nb", "c"]),
            ("\na\r\nb", &["a"]),
        ] {
            let found: StringSlice = text.parse().unwrap();
            assert_eq!(found.0, expect, "{text:?}");
        }
    }

    #[test]
    fn errors_have_the_texts_of_go() {
        for (text, expect) in [
            ("a\"b", "parse error on line 1, column 2: bare \" in non-quoted field"),
            ("a,b\"", "parse error on line 1, column 4: bare \" in non-quoted field"),
            ("\"a\"b", "parse error on line 1, column 3: extraneous or missing \" in quoted-field"),
            ("\"a", "parse error on line 1, column 3: extraneous or missing \" in quoted-field"),
            ("\n", "EOF"),
        ] {
            assert_eq!(text.parse::<StringSlice>().unwrap_err(), expect, "{text:?}");
        }
    }
}

//! Comma-separated values as Go reads them (`encoding/csv` with its defaults; RFC 4180). Spaces are part of a field,
//! and quoted fields may span several lines.

/// Why the records of a text cannot be read. Lines and columns count from 1. Columns are in bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CsvError {
    /// A field contains a quote, but does not begin with one.
    #[error("{0}: bare \" in non-quoted-field")]
    BareQuote(CsvPosition),
    /// A quoted field does not end, or goes on after its end.
    #[error("{0}: extraneous or missing \" in quoted-field")]
    Quote(CsvPosition),
}

/// Where a record is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CsvPosition {
    /// The line in which the record begins.
    pub record: usize,
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

impl std::fmt::Display for CsvPosition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { record, line, column } = self;
        if record != line {
            write!(f, "record on line {record}; ")?;
        }
        write!(f, "parse error on line {line}, column {column}")
    }
}

/// A text that is read line by line.
struct Lines<'t> {
    rest: &'t str,
    /// The number of the current line.
    number: usize,
    /// The current line, without its end.
    line: &'t str,
    /// Whether the current line has an end.
    is_ended: bool,
}

impl Lines<'_> {
    /// Reads the next line. Returns whether there is a next line.
    fn advance(&mut self) -> bool {
        let (line, is_ended) = match self.rest.split_once('\n') {
            Some((line, rest)) => {
                self.rest = rest;
                (line, true)
            }
            None => (std::mem::take(&mut self.rest), false),
        };
        let line = line.strip_suffix('\r').unwrap_or(line);
        if line.is_empty() && !is_ended {
            return false;
        }
        (self.line, self.is_ended, self.number) = (line, is_ended, self.number + 1);
        true
    }
}

/// The fields of the records of a text. Empty lines are skipped.
///
/// # Errors
/// A field has a quote in a wrong place.
pub(crate) fn read_records(text: &str) -> Result<Vec<Vec<String>>, CsvError> {
    let mut lines = Lines { rest: text, number: 0, line: "", is_ended: false };
    let mut records = Vec::new();
    while lines.advance() {
        if !lines.line.is_empty() {
            records.push(read_record(&mut lines)?);
        }
    }
    Ok(records)
}

/// Reads the record that begins with the current line.
fn read_record(lines: &mut Lines<'_>) -> Result<Vec<String>, CsvError> {
    let record = lines.number;
    let mut fields = Vec::new();
    // The start of the next field in the line.
    let mut start = 0;
    loop {
        let rest = &lines.line[start..];
        let (field, end) = if rest.starts_with('"') {
            read_quoted(lines, start + 1, record)?
        } else {
            let field = rest.split(',').next().unwrap_or_default();
            if let Some(quote) = field.find('"') {
                let column = start + quote + 1;
                return Err(CsvError::BareQuote(CsvPosition { record, line: lines.number, column }));
            }
            (field.to_owned(), start + field.len())
        };
        fields.push(field);
        // A comma or the end of the line ends a field.
        if end >= lines.line.len() {
            return Ok(fields);
        }
        start = end + 1;
    }
}

/// Reads a field whose opening quote is before `start`. Returns its end in the current line, which may be a later line.
fn read_quoted(lines: &mut Lines<'_>, mut start: usize, record: usize) -> Result<(String, usize), CsvError> {
    let mut field = String::new();
    loop {
        let rest = &lines.line[start..];
        let Some(quote) = rest.find('"') else {
            field.push_str(rest);
            let (line, column) = (lines.number, lines.line.len() + 1 + usize::from(lines.is_ended));
            if lines.is_ended {
                field.push('\n');
            }
            if !lines.advance() {
                return Err(CsvError::Quote(CsvPosition { record, line, column }));
            }
            start = 0;
            continue;
        };
        field.push_str(&rest[..quote]);
        let end = start + quote + 1;
        match lines.line.as_bytes().get(end) {
            Some(b'"') => field.push('"'),
            None | Some(b',') => return Ok((field, end)),
            Some(_) => return Err(CsvError::Quote(CsvPosition { record, line: lines.number, column: end })),
        }
        start = end + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: Result<&[&[&str]], &str>) {
        let expect = expect.map(|records| records.iter().map(|fields| fields.to_vec()).collect::<Vec<_>>());
        let found = read_records(text).map_err(|error| error.to_string());
        assert_eq!(
            found,
            expect
                .map(|records| {
                    records.iter().map(|fields| fields.iter().map(|field| (*field).to_owned()).collect()).collect()
                })
                .map_err(str::to_owned),
            "{text:?}"
        );
    }

    #[test]
    fn fields_are_those_that_go_reads() {
        check("", Ok(&[]));
        check("a,b\n\n\r\nc\r\n,", Ok(&[&["a", "b"], &["c"], &["", ""]]));
        check(" a , b\r", Ok(&[&[" a ", " b"]]));
        check("a\rb\r\r\n", Ok(&[&["a\rb\r"]]));
        check("\"a,\"\"b\"\"\",\"\"\n\"c\"", Ok(&[&["a,\"b\"", ""], &["c"]]));
        check("\"a\r\n\nb\",c\nd", Ok(&[&["a\n\nb", "c"], &["d"]]));
    }

    #[test]
    fn quotes_in_wrong_places_are_errors() {
        let bare = "bare \" in non-quoted-field";
        let quote = "extraneous or missing \" in quoted-field";
        for (text, place, error) in [
            ("a\nb, \"c\"", "parse error on line 2, column 4", bare),
            ("a\"", "parse error on line 1, column 2", bare),
            ("\"a\"b", "parse error on line 1, column 3", quote),
            ("\"a\" ,b", "parse error on line 1, column 3", quote),
            ("é,\"a\n\"b", "record on line 1; parse error on line 2, column 1", quote),
            ("\"", "parse error on line 1, column 2", quote),
            ("\"a\n", "parse error on line 1, column 4", quote),
            ("x\n\"a\nb", "record on line 2; parse error on line 3, column 2", quote),
            ("\"a\n\r", "parse error on line 1, column 4", quote),
        ] {
            check(text, Err(&format!("{place}: {error}")));
        }
    }
}

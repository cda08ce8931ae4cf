//! The syntax of format strings: formatting clauses and their expansion (upstream: cel-go `ext/formatting.go`).

/// A formatting clause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clause {
    /// `%s`
    String,
    /// `%d`
    Decimal,
    /// `%f`, with its precision.
    Fixed(usize),
    /// `%e`, with its precision, which is used as the width.
    Scientific(usize),
    /// `%b`
    Binary,
    /// `%x` and `%X`
    Hex {
        /// True for `%X`.
        upper: bool,
    },
    /// `%o`
    Octal,
}

impl Clause {
    /// The error message for an argument of an unsupported type.
    pub(crate) fn type_error(self, type_name: &str) -> String {
        let expected = match self {
            Self::String => {
                "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
            }
            Self::Decimal => "decimal clause can only be used on integers",
            Self::Fixed(_) => "fixed-point clause can only be used on doubles",
            Self::Scientific(_) => "scientific clause can only be used on doubles",
            Self::Binary => "only integers and bools can be formatted as binary",
            Self::Hex { .. } => "only integers, byte buffers, and strings can be formatted as hex",
            Self::Octal => "octal clause can only be used on integers",
        };
        format!("{expected}, was given {type_name}")
    }
}

/// The default precision.
pub(crate) const DEFAULT_PRECISION: usize = 6;
/// An upper bound on the precision, so that a format string cannot create texts of arbitrary length.
const MAX_PRECISION: usize = 100_000;

/// Expands a format string. `format_arg` is called with the index and the clause of each argument.
pub(crate) fn expand(
    template: &str,
    count: usize,
    mut format_arg: impl FnMut(usize, Clause) -> Result<String, String>,
) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = template;
    let mut next = 0;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        if next >= count {
            return Err(format!("index {next} out of range"));
        }
        if rest.is_empty() {
            return Err("unexpected end of string".to_owned());
        }
        let (clause, after) =
            parse_clause(rest).map_err(|message| format!("could not parse formatting clause: {message}"))?;
        out.push_str(&format_arg(next, clause).map_err(|message| format!("error during formatting: {message}"))?);
        rest = after;
        next += 1;
    }
    out.push_str(rest);
    Ok(out)
}

fn parse_clause(text: &str) -> Result<(Clause, &str), String> {
    let (precision, text) = match text.strip_prefix('.') {
        None => (DEFAULT_PRECISION, text),
        Some(rest) => {
            let error = |message: String| format!("error while parsing precision: {message}");
            let end = rest.find(|c: char| !c.is_ascii_digit());
            let end = end.ok_or_else(|| error("could not find end of precision specifier".to_owned()))?;
            let precision = pintle_value::atoi(&rest[..end])
                .map_err(|e| error(format!("error while converting precision to integer: {e}")))?;
            (usize::try_from(precision).unwrap_or(MAX_PRECISION).min(MAX_PRECISION), &rest[end..])
        }
    };
    let Some(c) = text.chars().next() else { return Err("unexpected end of string".to_owned()) };
    let clause = match c {
        's' => Clause::String,
        'd' => Clause::Decimal,
        'f' => Clause::Fixed(precision),
        'e' => Clause::Scientific(precision),
        'b' => Clause::Binary,
        'x' | 'X' => Clause::Hex { upper: c == 'X' },
        'o' => Clause::Octal,
        _ => {
            // cel-go reports a single byte.
            let byte = char::from(text.as_bytes()[0]);
            return Err(format!("unrecognized formatting clause \"{byte}\""));
        }
    };
    Ok((clause, &text[c.len_utf8()..]))
}

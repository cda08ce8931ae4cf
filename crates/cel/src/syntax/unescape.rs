//! Decodes string and bytes literals (upstream: cel-go `parser/unescape.go`).

/// Decodes a literal with its quotes and an optional `r` prefix; the caller has removed a `b` prefix. Returns bytes for
/// both kinds. The bytes of a string are valid UTF-8.
pub(super) fn unescape(literal: &str, is_bytes: bool) -> Result<Vec<u8>, &'static str> {
    const UNABLE: &str = "unable to unescape string";
    let literal = literal.replace("\r\n", "\n").replace('\r', "\n");
    let (raw, body) = match literal.strip_prefix(['r', 'R']) {
        Some(rest) => (true, rest),
        None => (false, literal.as_str()),
    };
    let quote = body.chars().next().filter(|c| matches!(c, '"' | '\'')).ok_or(UNABLE)?;
    let long: &str = if quote == '"' { "\"\"\"" } else { "'''" };
    let body = match body.strip_prefix(long).and_then(|rest| rest.strip_suffix(long)) {
        Some(inner) => inner,
        None => body.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)).ok_or(UNABLE)?,
    };
    if raw || !body.contains('\\') {
        return Ok(body.as_bytes().to_vec());
    }
    let mut out = Vec::with_capacity(body.len());
    let mut rest = body;
    while let Some(at) = rest.find('\\') {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        rest = unescape_sequence(&rest[at + 1..], is_bytes, &mut out).ok_or_else(|| {
            let digits = rest[at + 1..].starts_with(['x', 'X', 'u', 'U']);
            if digits && !is_bytes { "invalid unicode code point" } else { UNABLE }
        })?;
    }
    out.extend_from_slice(rest.as_bytes());
    Ok(out)
}

/// Decodes one escape sequence, after its backslash. Returns the rest of the text.
fn unescape_sequence<'t>(text: &'t str, is_bytes: bool, out: &mut Vec<u8>) -> Option<&'t str> {
    let c = text.chars().next()?;
    let rest = &text[c.len_utf8()..];
    let plain = match c {
        'a' => 0x07,
        'b' => 0x08,
        'f' => 0x0c,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => 0x0b,
        '\\' | '\'' | '"' | '`' | '?' => c as u8,
        _ => {
            let (digits, radix, rest) = match c {
                'x' | 'X' => (rest.get(..2)?, 16, rest.get(2..)?),
                'u' if !is_bytes => (rest.get(..4)?, 16, rest.get(4..)?),
                'U' if !is_bytes => (rest.get(..8)?, 16, rest.get(8..)?),
                '0'..='3' => (text.get(..3)?, 8, text.get(3..)?),
                _ => return None,
            };
            let code = u32::from_str_radix(digits, radix).ok()?;
            if is_bytes {
                out.push(u8::try_from(code).ok()?);
            } else {
                let mut buffer = [0; 4];
                out.extend_from_slice(char::from_u32(code)?.encode_utf8(&mut buffer).as_bytes());
            }
            return Some(rest);
        }
    };
    out.push(plain);
    Some(rest)
}

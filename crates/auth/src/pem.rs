//! Writes PEM (RFC 7468).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The number of characters of a line.
const LINE: usize = 64;

/// Encodes a block with a label, as Go's `pem.Encode` does.
#[must_use]
pub fn encode(label: &str, der: &[u8]) -> String {
    let base64 = STANDARD.encode(der);
    let mut pem = format!("-----BEGIN {label}-----\n");
    let mut rest = base64.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(LINE));
        pem.push_str(line);
        pem.push('\n');
        rest = after;
    }
    pem.push_str(&format!("-----END {label}-----\n"));
    pem
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_64_characters() {
        let line = "QUFB".repeat(LINE / 4);
        for (length, body) in [(0, String::new()), (48, format!("{line}\n")), (49, format!("{line}\nQQ==\n"))] {
            let expect = format!("-----BEGIN A B-----\n{body}-----END A B-----\n");
            assert_eq!(encode("A B", &vec![b'A'; length]), expect);
        }
    }
}

//! Which mail addresses Go's `mail.ParseAddress` accepts (RFC 5322): `a@b.c`, with or without a name before it.

/// Whether a text is one mail address.
pub(super) fn is_valid(text: &str) -> bool {
    let text = skip_space(text);
    let is_end = |rest: Option<&str>| rest.is_some_and(|rest| skip_space(rest).is_empty());
    is_end(address(text)) || is_end(named_address(text))
}

/// Parses `NAME <a@b.c>`. Returns the rest of the text.
fn named_address(text: &str) -> Option<&str> {
    let mut rest = text;
    while !rest.is_empty() && !rest.starts_with('<') {
        rest = if rest.starts_with('"') { quoted(rest)? } else { atom(rest)?.1 };
        rest = skip_space(rest);
    }
    address(rest.strip_prefix('<')?)?.strip_prefix('>')
}

/// Parses `a@b.c`. Returns the rest of the text.
fn address(text: &str) -> Option<&str> {
    let text = skip_space(text);
    let rest =
        if text.starts_with('"') { quoted(text).filter(|_| !text.starts_with("\"\""))? } else { dotted_atom(text)? };
    let domain = skip_space(skip_space(rest).strip_prefix('@')?);
    match domain.strip_prefix('[') {
        Some(literal) => {
            let (address, rest) = literal.split_once(']')?;
            address.parse::<std::net::IpAddr>().ok().map(|_| rest)
        }
        None => dotted_atom(domain),
    }
}

/// Parses atoms with single dots between them. Returns the rest of the text.
fn dotted_atom(text: &str) -> Option<&str> {
    let (atom, rest) = atom(text)?;
    let is_valid = !atom.starts_with('.') && !atom.ends_with('.') && !atom.contains("..");
    is_valid.then_some(rest)
}

/// Parses an atom, with or without dots. Returns the atom and the rest of the text.
fn atom(text: &str) -> Option<(&str, &str)> {
    const SPECIAL: &str = "()<>[]:;@\\,\"";
    let is_part = |c: char| !c.is_ascii_control() && c != ' ' && !SPECIAL.contains(c);
    let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

/// Parses a quoted string. Returns the rest of the text.
fn quoted(text: &str) -> Option<&str> {
    let mut characters = text.strip_prefix('"')?.char_indices();
    while let Some((i, c)) = characters.next() {
        match c {
            '"' => return Some(&text[i + 2..]),
            '\\' => drop(characters.next()?),
            '\r' | '\n' => return None,
            _ => {}
        }
    }
    None
}

fn skip_space(text: &str) -> &str {
    text.trim_start_matches([' ', '\t'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_local_part_and_a_domain() {
        for valid in [
            "a@b.c",
            "a.b+c@d",
            " a@b ",
            "\"a b\"@c",
            "\"a\\\"b\"@c",
            "a@[127.0.0.1]",
            "Jane Doe <a@b.c>",
            "\"Doe, Jane\" <a@b.c>",
            "<a@b.c>",
            "ä@ö",
        ] {
            assert!(is_valid(valid), "{valid}");
        }
        for invalid in [
            "", "a", "a@", "@b", "a@b@c", ".a@b", "a.@b", "a..b@c", "a@b.", "a@.b", "a b@c", "\"\"@c", "\"a@b",
            "a@[b]", "a@b, c@d", "a@b>", "<a@b", "Jane", "a@b\n",
        ] {
            assert!(!is_valid(invalid), "{invalid}");
        }
    }
}

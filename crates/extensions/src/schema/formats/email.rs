//! Email addresses, parsed like a single address in Go's `net/mail` (RFC 5322 with its extensions and without some
//! obsolete forms).

/// True for `user@host`, `Name <user@host>`, or a group of one address.
pub(super) fn is_address(text: &str) -> bool {
    let mut parser = AddressParser { rest: text };
    parser.address(true) == Some(1) && parser.skip_comments() && parser.rest.is_empty()
}

struct AddressParser<'t> {
    rest: &'t str,
}

impl<'t> AddressParser<'t> {
    /// Parses an address, or a group if allowed. Returns the number of addresses.
    fn address(&mut self, group: bool) -> Option<usize> {
        self.skip_space();
        let start = self.rest;
        if self.addr_spec().is_some() {
            self.skip_space();
            if self.rest.starts_with('(') && !self.comment() {
                return None;
            }
            return Some(1);
        }
        self.rest = start;
        if start.is_empty() {
            return None;
        }
        if !start.starts_with('<') {
            self.phrase()?;
        }
        self.skip_space();
        if group && self.take(':') {
            return self.group();
        }
        if !self.take('<') {
            return None;
        }
        self.addr_spec()?;
        self.take('>').then_some(1)
    }

    /// Parses the addresses of a group, after its name and colon.
    fn group(&mut self) -> Option<usize> {
        self.skip_space();
        let mut count = 0;
        if !self.take(';') {
            loop {
                count += self.address(false)?;
                if !self.skip_comments() {
                    return None;
                }
                if self.take(';') {
                    break;
                }
                if !self.take(',') {
                    return None;
                }
            }
        }
        self.skip_comments().then_some(count)
    }

    /// Parses `user@host`.
    fn addr_spec(&mut self) -> Option<()> {
        self.skip_space();
        if self.rest.starts_with('"') {
            let quoted = self.quoted()?;
            if quoted == 0 {
                return None;
            }
        } else {
            self.dot_atom()?;
        }
        if !self.take('@') {
            return None;
        }
        self.skip_space();
        if self.take('[') { self.literal() } else { self.dot_atom() }
    }

    /// Parses a phrase of one or more words: the display name before `<`.
    fn phrase(&mut self) -> Option<()> {
        let mut words = 0;
        loop {
            if words > 0 && !self.skip_comments() {
                return None;
            }
            self.skip_space();
            let word = if self.rest.is_empty() {
                None
            } else if self.rest.starts_with('"') {
                self.quoted().map(|_| ())
            } else {
                self.atom().map(|_| ())
            };
            match word {
                Some(()) => words += 1,
                None => return (words > 0).then_some(()),
            }
        }
    }

    /// Parses a quoted string. Returns the number of characters in it. Consumes nothing on failure.
    fn quoted(&mut self) -> Option<usize> {
        let inner = self.rest.strip_prefix('"')?;
        let mut count = 0;
        let mut escaped = false;
        for (i, c) in inner.char_indices() {
            match c {
                _ if escaped => {
                    if !is_visible(c) && !is_space(c) {
                        return None;
                    }
                    escaped = false;
                    count += 1;
                }
                '"' => {
                    self.rest = &inner[i + 1..];
                    return Some(count);
                }
                '\\' => escaped = true,
                c if is_visible(c) || is_space(c) => count += 1,
                _ => return None,
            }
        }
        None
    }

    /// Parses an atom that may contain dots anywhere.
    fn atom(&mut self) -> Option<&'t str> {
        let end = self.rest.find(|c| !is_atom(c)).unwrap_or(self.rest.len());
        let (atom, rest) = self.rest.split_at(end);
        self.rest = rest;
        (!atom.is_empty()).then_some(atom)
    }

    /// Parses atoms separated by single dots.
    fn dot_atom(&mut self) -> Option<()> {
        let atom = self.atom()?;
        (!atom.starts_with('.') && !atom.ends_with('.') && !atom.contains("..")).then_some(())
    }

    /// Parses an IP address and the closing bracket, after the opening one.
    fn literal(&mut self) -> Option<()> {
        let (address, rest) = self.rest.split_once(']')?;
        self.rest = rest;
        address.parse::<std::net::IpAddr>().ok().map(|_| ())
    }

    /// Parses a comment in parentheses, which may be nested.
    fn comment(&mut self) -> bool {
        let mut depth = 0_usize;
        let mut characters = self.rest.char_indices().peekable();
        while let Some((i, c)) = characters.next() {
            match c {
                '\\' if characters.peek().is_some() => {
                    characters.next();
                }
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                self.rest = &self.rest[i + 1..];
                return true;
            }
        }
        false
    }

    /// Skips spaces and comments. Returns false if a comment is not terminated.
    fn skip_comments(&mut self) -> bool {
        self.skip_space();
        while self.rest.starts_with('(') {
            if !self.comment() {
                return false;
            }
            self.skip_space();
        }
        true
    }

    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start_matches(is_space);
    }

    fn take(&mut self, c: char) -> bool {
        match self.rest.strip_prefix(c) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t')
}

fn is_visible(c: char) -> bool {
    c.is_ascii_graphic() || !c.is_ascii()
}

fn is_atom(c: char) -> bool {
    is_visible(c) && !matches!(c, '(' | ')' | '<' | '>' | '[' | ']' | ':' | ';' | '@' | '\\' | ',' | '"')
}

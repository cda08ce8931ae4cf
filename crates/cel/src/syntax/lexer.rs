//! Text to tokens. Each token is the longest that the grammar allows; what fits none is reported and skipped.

use super::tokens::{Kind, Token};

/// What the lexer found: tokens up to and with the end of the text, and the stretches that are no tokens.
pub(super) struct Lexed {
    pub(super) tokens: Vec<Token>,
    pub(super) errors: Vec<(u32, String)>,
}

pub(super) fn lex(chars: &[char]) -> Lexed {
    let mut lexed = Lexed { tokens: Vec::new(), errors: Vec::new() };
    let mut at = 0;
    while at < chars.len() {
        match (Scan { chars, start: at }).token() {
            Ok((kind, end)) => {
                if let Some(kind) = kind {
                    lexed.tokens.push(Token { kind, start: at as u32, end: end as u32 });
                }
                at = end;
            }
            Err(failed) => {
                let text: String = chars[at..(failed + 1).min(chars.len())].iter().collect();
                lexed.errors.push((at as u32, text));
                at = failed + 1;
            }
        }
    }
    let end = chars.len() as u32;
    lexed.tokens.push(Token { kind: Kind::Eof, start: end, end });
    lexed
}

/// Line breaks and tabs as messages show them.
pub(super) fn escape_whitespace(text: &str) -> String {
    text.replace('\n', "\\n").replace('\r', "\\r").replace('\t', "\\t")
}

struct Scan<'s> {
    chars: &'s [char],
    start: usize,
}

/// `Ok` with the end, or `Err` with the place of the first character that does not fit.
type Match = Result<usize, usize>;

impl Scan<'_> {
    fn at(&self, i: usize) -> Option<char> {
        self.chars.get(i).copied()
    }

    fn while_at(&self, mut i: usize, fits: impl Fn(char) -> bool) -> usize {
        while self.at(i).is_some_and(&fits) {
            i += 1;
        }
        i
    }

    /// The token at the start; `None` for what is skipped.
    fn token(&self) -> Result<(Option<Kind>, usize), usize> {
        let i = self.start;
        let Some(c) = self.at(i) else { return Err(i) };
        let next = self.at(i + 1);
        let one = |kind| Ok((Some(kind), i + 1));
        let two = |second: char, kind| if next == Some(second) { Ok((Some(kind), i + 2)) } else { Err(i + 1) };
        let either = |second: char, longer, shorter| {
            if next == Some(second) { Ok((Some(longer), i + 2)) } else { Ok((Some(shorter), i + 1)) }
        };
        match c {
            '\t' | ' ' | '\r' | '\n' | '\u{c}' => {
                Ok((None, self.while_at(i, |c| matches!(c, '\t' | ' ' | '\r' | '\n' | '\u{c}'))))
            }
            '/' if next == Some('/') => Ok((None, self.while_at(i, |c| c != '\n'))),
            '=' => two('=', Kind::Equals),
            '!' => either('=', Kind::NotEquals, Kind::Exclam),
            '<' => either('=', Kind::LessEquals, Kind::Less),
            '>' => either('=', Kind::GreaterEquals, Kind::Greater),
            '&' => two('&', Kind::And),
            '|' => two('|', Kind::Or),
            '[' => one(Kind::LeftBracket),
            ']' => one(Kind::RightBracket),
            '{' => one(Kind::LeftBrace),
            '}' => one(Kind::RightBrace),
            '(' => one(Kind::LeftParen),
            ')' => one(Kind::RightParen),
            '.' if next.is_some_and(|c| c.is_ascii_digit()) => Ok(self.number()),
            '.' => one(Kind::Dot),
            ',' => one(Kind::Comma),
            '-' => one(Kind::Minus),
            '?' => one(Kind::Question),
            ':' => one(Kind::Colon),
            '+' => one(Kind::Plus),
            '*' => one(Kind::Star),
            '/' => one(Kind::Slash),
            '%' => one(Kind::Percent),
            '"' | '\'' => self.string(i, c, false).map(|end| (Some(Kind::String), end)),
            '`' => self.escaped_ident().map(|end| (Some(Kind::EscapedIdent), end)),
            '0'..='9' => Ok(self.number()),
            'a'..='z' | 'A'..='Z' | '_' => Ok(self.word()),
            _ => Err(i),
        }
    }

    fn number(&self) -> (Option<Kind>, usize) {
        let i = self.start;
        let digit = |c: char| c.is_ascii_digit();
        let unsigned = |end: usize, kind| match self.at(end) {
            Some('u' | 'U') => (Some(Kind::Uint), end + 1),
            _ => (Some(kind), end),
        };
        if self.at(i) == Some('0')
            && self.at(i + 1) == Some('x')
            && self.at(i + 2).is_some_and(|c| c.is_ascii_hexdigit())
        {
            return unsigned(self.while_at(i + 2, |c| c.is_ascii_hexdigit()), Kind::Int);
        }
        let whole = self.while_at(i, digit);
        let mut end = whole;
        if self.at(whole) == Some('.') && self.at(whole + 1).is_some_and(digit) {
            end = self.while_at(whole + 1, digit);
        }
        if matches!(self.at(end), Some('e' | 'E')) {
            let sign = usize::from(matches!(self.at(end + 1), Some('+' | '-')));
            let digits = end + 1 + sign;
            if self.at(digits).is_some_and(digit) {
                end = self.while_at(digits, digit);
            }
        }
        if end > whole { (Some(Kind::Float), end) } else { unsigned(end, Kind::Int) }
    }

    /// A name, a keyword, or a string with a prefix.
    fn word(&self) -> (Option<Kind>, usize) {
        let i = self.start;
        let (prefix, bytes, raw) = match (self.at(i), self.at(i + 1)) {
            (Some('b' | 'B'), Some('r' | 'R')) => (2, true, true),
            (Some('b' | 'B'), _) => (1, true, false),
            (Some('r' | 'R'), _) => (1, false, true),
            _ => (0, false, false),
        };
        if prefix > 0
            && let Some(quote @ ('"' | '\'')) = self.at(i + prefix)
            && let Ok(end) = self.string(i + prefix, quote, raw)
        {
            return (Some(if bytes { Kind::Bytes } else { Kind::String }), end);
        }
        let end = self.while_at(i, |c| c.is_ascii_alphanumeric() || c == '_');
        let is = |word: &str| word.chars().eq(self.chars[i..end].iter().copied());
        let kind = match end - i {
            2 if is("in") => Kind::In,
            4 if is("true") => Kind::True,
            4 if is("null") => Kind::Null,
            5 if is("false") => Kind::False,
            _ => Kind::Ident,
        };
        (Some(kind), end)
    }

    fn escaped_ident(&self) -> Match {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/' | ' ');
        let end = self.while_at(self.start + 1, fits);
        if end > self.start + 1 && self.at(end) == Some('`') { Ok(end + 1) } else { Err(end) }
    }

    /// A string whose first quote is at `i`. Two quotes that begin no longer string are an empty one.
    fn string(&self, i: usize, quote: char, raw: bool) -> Match {
        if self.at(i + 1) == Some(quote) {
            return match self.at(i + 2) {
                Some(c) if c == quote => Ok(self.long_string(i + 3, quote, raw).unwrap_or(i + 2)),
                _ => Ok(i + 2),
            };
        }
        let mut i = i + 1;
        loop {
            match self.at(i) {
                Some(c) if c == quote => return Ok(i + 1),
                None | Some('\n' | '\r') => return Err(i),
                Some('\\') if !raw => i = self.escape(i)?,
                Some(_) => i += 1,
            }
        }
    }

    fn long_string(&self, mut i: usize, quote: char, raw: bool) -> Match {
        loop {
            match self.at(i) {
                None => return Err(i),
                Some(c) if c == quote && self.at(i + 1) == Some(quote) && self.at(i + 2) == Some(quote) => {
                    return Ok(i + 3);
                }
                Some('\\') if !raw => i = self.escape(i)?,
                Some(_) => i += 1,
            }
        }
    }

    /// The end of the escape sequence that begins at `i`.
    fn escape(&self, i: usize) -> Match {
        let digits = |from: usize, count: usize, fits: fn(char) -> bool| {
            (from..from + count).find(|at| !self.at(*at).is_some_and(fits)).map_or(Ok(from + count), Err)
        };
        let hex: fn(char) -> bool = |c| c.is_ascii_hexdigit();
        match self.at(i + 1) {
            Some('a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '"' | '\'' | '\\' | '?' | '`') => Ok(i + 2),
            Some('x' | 'X') => digits(i + 2, 2, hex),
            Some('u') => digits(i + 2, 4, hex),
            Some('U') => digits(i + 2, 8, hex),
            Some('0'..='3') => digits(i + 2, 2, |c| matches!(c, '0'..='7')),
            _ => Err(i + 1),
        }
    }
}

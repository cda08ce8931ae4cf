//! The lexer. Each token is the longest match of the grammar; text that matches no token is reported and skipped.

use super::tokens::{Token, TokenKind};

/// The result of lexing: the tokens, ending with end of file, and the texts that match no token.
pub(super) struct LexerOutput {
    pub(super) tokens: Vec<Token>,
    pub(super) errors: Vec<(u32, String)>,
}

pub(super) fn lex(chars: &[char]) -> LexerOutput {
    let mut output = LexerOutput { tokens: Vec::new(), errors: Vec::new() };
    let mut index = 0;
    while index < chars.len() {
        match (Lexer { chars, start: index }).token() {
            Ok((kind, end)) => {
                if let Some(kind) = kind {
                    output.tokens.push(Token { kind, start: index as u32, end: end as u32 });
                }
                index = end;
            }
            Err(failed) => {
                let text: String = chars[index..(failed + 1).min(chars.len())].iter().collect();
                output.errors.push((index as u32, text));
                index = failed + 1;
            }
        }
    }
    let end = chars.len() as u32;
    output.tokens.push(Token { kind: TokenKind::Eof, start: end, end });
    output
}

/// Escapes line breaks and tabs, as error messages do.
pub(super) fn escape_whitespace(text: &str) -> String {
    text.replace('\n', "\\n").replace('\r', "\\r").replace('\t', "\\t")
}

struct Lexer<'s> {
    chars: &'s [char],
    start: usize,
}

/// `Ok` with the end of the match, or `Err` with the index of the first character that does not match.
type MatchEnd = Result<usize, usize>;

impl Lexer<'_> {
    fn char_at(&self, i: usize) -> Option<char> {
        self.chars.get(i).copied()
    }

    fn skip_while(&self, mut i: usize, fits: impl Fn(char) -> bool) -> usize {
        while self.char_at(i).is_some_and(&fits) {
            i += 1;
        }
        i
    }

    /// Matches the token at the start. The kind is `None` for whitespace and comments.
    fn token(&self) -> Result<(Option<TokenKind>, usize), usize> {
        let i = self.start;
        let Some(c) = self.char_at(i) else { return Err(i) };
        let next = self.char_at(i + 1);
        let one = |kind| Ok((Some(kind), i + 1));
        let two = |second: char, kind| if next == Some(second) { Ok((Some(kind), i + 2)) } else { Err(i + 1) };
        let either = |second: char, longer, shorter| {
            if next == Some(second) { Ok((Some(longer), i + 2)) } else { Ok((Some(shorter), i + 1)) }
        };
        match c {
            '\t' | ' ' | '\r' | '\n' | '\u{c}' => {
                Ok((None, self.skip_while(i, |c| matches!(c, '\t' | ' ' | '\r' | '\n' | '\u{c}'))))
            }
            '/' if next == Some('/') => Ok((None, self.skip_while(i, |c| c != '\n'))),
            '=' => two('=', TokenKind::Equals),
            '!' => either('=', TokenKind::NotEquals, TokenKind::Exclam),
            '<' => either('=', TokenKind::LessEquals, TokenKind::Less),
            '>' => either('=', TokenKind::GreaterEquals, TokenKind::Greater),
            '&' => two('&', TokenKind::And),
            '|' => two('|', TokenKind::Or),
            '[' => one(TokenKind::LeftBracket),
            ']' => one(TokenKind::RightBracket),
            '{' => one(TokenKind::LeftBrace),
            '}' => one(TokenKind::RightBrace),
            '(' => one(TokenKind::LeftParen),
            ')' => one(TokenKind::RightParen),
            '.' if next.is_some_and(|c| c.is_ascii_digit()) => Ok(self.number()),
            '.' => one(TokenKind::Dot),
            ',' => one(TokenKind::Comma),
            '-' => one(TokenKind::Minus),
            '?' => one(TokenKind::Question),
            ':' => one(TokenKind::Colon),
            '+' => one(TokenKind::Plus),
            '*' => one(TokenKind::Star),
            '/' => one(TokenKind::Slash),
            '%' => one(TokenKind::Percent),
            '"' | '\'' => self.string(i, c, false).map(|end| (Some(TokenKind::String), end)),
            '`' => self.escaped_ident().map(|end| (Some(TokenKind::EscapedIdent), end)),
            '0'..='9' => Ok(self.number()),
            'a'..='z' | 'A'..='Z' | '_' => Ok(self.ident_or_string()),
            _ => Err(i),
        }
    }

    fn number(&self) -> (Option<TokenKind>, usize) {
        let i = self.start;
        let digit = |c: char| c.is_ascii_digit();
        let unsigned = |end: usize, kind| match self.char_at(end) {
            Some('u' | 'U') => (Some(TokenKind::Uint), end + 1),
            _ => (Some(kind), end),
        };
        if self.char_at(i) == Some('0')
            && self.char_at(i + 1) == Some('x')
            && self.char_at(i + 2).is_some_and(|c| c.is_ascii_hexdigit())
        {
            return unsigned(self.skip_while(i + 2, |c| c.is_ascii_hexdigit()), TokenKind::Int);
        }
        let whole = self.skip_while(i, digit);
        let mut end = whole;
        if self.char_at(whole) == Some('.') && self.char_at(whole + 1).is_some_and(digit) {
            end = self.skip_while(whole + 1, digit);
        }
        if matches!(self.char_at(end), Some('e' | 'E')) {
            let sign = usize::from(matches!(self.char_at(end + 1), Some('+' | '-')));
            let digits = end + 1 + sign;
            if self.char_at(digits).is_some_and(digit) {
                end = self.skip_while(digits, digit);
            }
        }
        if end > whole { (Some(TokenKind::Float), end) } else { unsigned(end, TokenKind::Int) }
    }

    /// Matches an identifier, a keyword, or a string with a prefix.
    fn ident_or_string(&self) -> (Option<TokenKind>, usize) {
        let i = self.start;
        let (prefix, bytes, raw) = match (self.char_at(i), self.char_at(i + 1)) {
            (Some('b' | 'B'), Some('r' | 'R')) => (2, true, true),
            (Some('b' | 'B'), _) => (1, true, false),
            (Some('r' | 'R'), _) => (1, false, true),
            _ => (0, false, false),
        };
        if prefix > 0
            && let Some(quote @ ('"' | '\'')) = self.char_at(i + prefix)
            && let Ok(end) = self.string(i + prefix, quote, raw)
        {
            return (Some(if bytes { TokenKind::Bytes } else { TokenKind::String }), end);
        }
        let end = self.skip_while(i, |c| c.is_ascii_alphanumeric() || c == '_');
        let is = |word: &str| word.chars().eq(self.chars[i..end].iter().copied());
        let kind = match end - i {
            2 if is("in") => TokenKind::In,
            4 if is("true") => TokenKind::True,
            4 if is("null") => TokenKind::Null,
            5 if is("false") => TokenKind::False,
            _ => TokenKind::Ident,
        };
        (Some(kind), end)
    }

    fn escaped_ident(&self) -> MatchEnd {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/' | ' ');
        let end = self.skip_while(self.start + 1, fits);
        if end > self.start + 1 && self.char_at(end) == Some('`') { Ok(end + 1) } else { Err(end) }
    }

    /// Matches a string whose opening quote is at `i`. Two quotes that do not start a long string are an empty string.
    fn string(&self, i: usize, quote: char, raw: bool) -> MatchEnd {
        if self.char_at(i + 1) == Some(quote) {
            return match self.char_at(i + 2) {
                Some(c) if c == quote => Ok(self.long_string(i + 3, quote, raw).unwrap_or(i + 2)),
                _ => Ok(i + 2),
            };
        }
        let mut i = i + 1;
        loop {
            match self.char_at(i) {
                Some(c) if c == quote => return Ok(i + 1),
                None | Some('\n' | '\r') => return Err(i),
                Some('\\') if !raw => i = self.escape(i)?,
                Some(_) => i += 1,
            }
        }
    }

    fn long_string(&self, mut i: usize, quote: char, raw: bool) -> MatchEnd {
        loop {
            match self.char_at(i) {
                None => return Err(i),
                Some(c) if c == quote && self.char_at(i + 1) == Some(quote) && self.char_at(i + 2) == Some(quote) => {
                    return Ok(i + 3);
                }
                Some('\\') if !raw => i = self.escape(i)?,
                Some(_) => i += 1,
            }
        }
    }

    /// Returns the end of the escape sequence that starts at `i`.
    fn escape(&self, i: usize) -> MatchEnd {
        let digits = |from: usize, count: usize, fits: fn(char) -> bool| {
            (from..from + count).find(|index| !self.char_at(*index).is_some_and(fits)).map_or(Ok(from + count), Err)
        };
        let hex: fn(char) -> bool = |c| c.is_ascii_hexdigit();
        match self.char_at(i + 1) {
            Some('a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '"' | '\'' | '\\' | '?' | '`') => Ok(i + 2),
            Some('x' | 'X') => digits(i + 2, 2, hex),
            Some('u') => digits(i + 2, 4, hex),
            Some('U') => digits(i + 2, 8, hex),
            Some('0'..='3') => digits(i + 2, 2, |c| matches!(c, '0'..='7')),
            _ => Err(i + 1),
        }
    }
}

//! Token kinds and sets of token kinds. Their order is the order of CEL's grammar, in which messages list them.

use std::fmt;

/// The kind of a token. The discriminants are the grammar's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum TokenKind {
    Eof = 0,
    Equals,
    NotEquals,
    In,
    Less,
    LessEquals,
    GreaterEquals,
    Greater,
    And,
    Or,
    LeftBracket,
    RightBracket,
    LeftBrace,
    RightBrace,
    LeftParen,
    RightParen,
    Dot,
    Comma,
    Minus,
    Exclam,
    Question,
    Colon,
    Plus,
    Star,
    Slash,
    Percent,
    True,
    False,
    Null,
    Float,
    Int,
    Uint,
    String,
    Bytes,
    Ident,
    EscapedIdent,
}

impl TokenKind {
    const ALL: [(TokenKind, &'static str); 36] = [
        (TokenKind::Eof, "<EOF>"),
        (TokenKind::Equals, "'=='"),
        (TokenKind::NotEquals, "'!='"),
        (TokenKind::In, "'in'"),
        (TokenKind::Less, "'<'"),
        (TokenKind::LessEquals, "'<='"),
        (TokenKind::GreaterEquals, "'>='"),
        (TokenKind::Greater, "'>'"),
        (TokenKind::And, "'&&'"),
        (TokenKind::Or, "'||'"),
        (TokenKind::LeftBracket, "'['"),
        (TokenKind::RightBracket, "']'"),
        (TokenKind::LeftBrace, "'{'"),
        (TokenKind::RightBrace, "'}'"),
        (TokenKind::LeftParen, "'('"),
        (TokenKind::RightParen, "')'"),
        (TokenKind::Dot, "'.'"),
        (TokenKind::Comma, "','"),
        (TokenKind::Minus, "'-'"),
        (TokenKind::Exclam, "'!'"),
        (TokenKind::Question, "'?'"),
        (TokenKind::Colon, "':'"),
        (TokenKind::Plus, "'+'"),
        (TokenKind::Star, "'*'"),
        (TokenKind::Slash, "'/'"),
        (TokenKind::Percent, "'%'"),
        (TokenKind::True, "'true'"),
        (TokenKind::False, "'false'"),
        (TokenKind::Null, "'null'"),
        (TokenKind::Float, "NUM_FLOAT"),
        (TokenKind::Int, "NUM_INT"),
        (TokenKind::Uint, "NUM_UINT"),
        (TokenKind::String, "STRING"),
        (TokenKind::Bytes, "BYTES"),
        (TokenKind::Ident, "IDENTIFIER"),
        (TokenKind::EscapedIdent, "ESC_IDENTIFIER"),
    ];
}

/// A set of token kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TokenSet(u64);

impl TokenSet {
    pub(super) const NONE: TokenSet = TokenSet(0);

    pub(super) const fn of(kinds: &[TokenKind]) -> Self {
        let mut bits = 0;
        let mut i = 0;
        while i < kinds.len() {
            bits |= 1 << kinds[i] as u64;
            i += 1;
        }
        Self(bits)
    }

    pub(super) const fn union(self, other: TokenSet) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) const fn contains(self, kind: TokenKind) -> bool {
        self.0 & (1 << kind as u64) != 0
    }
}

impl fmt::Display for TokenSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names = TokenKind::ALL.iter().filter(|(kind, _)| self.contains(*kind)).map(|(_, name)| *name);
        if self.0.count_ones() == 1 {
            return f.write_str(names.next().unwrap_or_default());
        }
        f.write_str("{")?;
        for (i, name) in names.enumerate() {
            write!(f, "{}{name}", if i > 0 { ", " } else { "" })?;
        }
        f.write_str("}")
    }
}

/// A token: its kind and the range of code points that it covers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    pub(super) start: u32,
    pub(super) end: u32,
}

pub(super) const RELATIONS: TokenSet = TokenSet::of(&[
    TokenKind::Less,
    TokenKind::LessEquals,
    TokenKind::GreaterEquals,
    TokenKind::Greater,
    TokenKind::Equals,
    TokenKind::NotEquals,
    TokenKind::In,
]);
pub(super) const CALCS: TokenSet =
    TokenSet::of(&[TokenKind::Star, TokenKind::Slash, TokenKind::Percent, TokenKind::Plus, TokenKind::Minus]);
pub(super) const PRIMARY: TokenSet = TokenSet::of(&[
    TokenKind::LeftBracket,
    TokenKind::LeftBrace,
    TokenKind::LeftParen,
    TokenKind::Dot,
    TokenKind::Minus,
    TokenKind::True,
    TokenKind::False,
    TokenKind::Null,
    TokenKind::Float,
    TokenKind::Int,
    TokenKind::Uint,
    TokenKind::String,
    TokenKind::Bytes,
    TokenKind::Ident,
]);
pub(super) const EXPR: TokenSet = PRIMARY.union(TokenSet::of(&[TokenKind::Exclam]));
pub(super) const OPTIONAL_EXPR: TokenSet = EXPR.union(TokenSet::of(&[TokenKind::Question]));
pub(super) const MEMBERS: TokenSet = TokenSet::of(&[TokenKind::Dot, TokenKind::LeftBracket]);
pub(super) const FIELD: TokenSet = TokenSet::of(&[TokenKind::Ident, TokenKind::EscapedIdent]);
pub(super) const OPTIONAL_FIELD: TokenSet = FIELD.union(TokenSet::of(&[TokenKind::Question]));
pub(super) const COMMA: TokenSet = TokenSet::of(&[TokenKind::Comma]);

//! Kinds of tokens and sets of them, in the order of CEL's grammar, which is the order in which messages list them.

use std::fmt;

/// A kind of token. The numbers are those of the grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
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

impl Kind {
    const ALL: [(Kind, &'static str); 36] = [
        (Kind::Eof, "<EOF>"),
        (Kind::Equals, "'=='"),
        (Kind::NotEquals, "'!='"),
        (Kind::In, "'in'"),
        (Kind::Less, "'<'"),
        (Kind::LessEquals, "'<='"),
        (Kind::GreaterEquals, "'>='"),
        (Kind::Greater, "'>'"),
        (Kind::And, "'&&'"),
        (Kind::Or, "'||'"),
        (Kind::LeftBracket, "'['"),
        (Kind::RightBracket, "']'"),
        (Kind::LeftBrace, "'{'"),
        (Kind::RightBrace, "'}'"),
        (Kind::LeftParen, "'('"),
        (Kind::RightParen, "')'"),
        (Kind::Dot, "'.'"),
        (Kind::Comma, "','"),
        (Kind::Minus, "'-'"),
        (Kind::Exclam, "'!'"),
        (Kind::Question, "'?'"),
        (Kind::Colon, "':'"),
        (Kind::Plus, "'+'"),
        (Kind::Star, "'*'"),
        (Kind::Slash, "'/'"),
        (Kind::Percent, "'%'"),
        (Kind::True, "'true'"),
        (Kind::False, "'false'"),
        (Kind::Null, "'null'"),
        (Kind::Float, "NUM_FLOAT"),
        (Kind::Int, "NUM_INT"),
        (Kind::Uint, "NUM_UINT"),
        (Kind::String, "STRING"),
        (Kind::Bytes, "BYTES"),
        (Kind::Ident, "IDENTIFIER"),
        (Kind::EscapedIdent, "ESC_IDENTIFIER"),
    ];
}

/// A set of kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Set(u64);

impl Set {
    pub(super) const NONE: Set = Set(0);

    pub(super) const fn of(kinds: &[Kind]) -> Self {
        let mut bits = 0;
        let mut i = 0;
        while i < kinds.len() {
            bits |= 1 << kinds[i] as u64;
            i += 1;
        }
        Self(bits)
    }

    pub(super) const fn or(self, other: Set) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) const fn has(self, kind: Kind) -> bool {
        self.0 & (1 << kind as u64) != 0
    }
}

impl fmt::Display for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names = Kind::ALL.iter().filter(|(kind, _)| self.has(*kind)).map(|(_, name)| *name);
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

/// A token: a kind and the code points that it covers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) start: u32,
    pub(super) end: u32,
}

pub(super) const RELATIONS: Set = Set::of(&[
    Kind::Less,
    Kind::LessEquals,
    Kind::GreaterEquals,
    Kind::Greater,
    Kind::Equals,
    Kind::NotEquals,
    Kind::In,
]);
pub(super) const CALCS: Set = Set::of(&[Kind::Star, Kind::Slash, Kind::Percent, Kind::Plus, Kind::Minus]);
pub(super) const PRIMARY: Set = Set::of(&[
    Kind::LeftBracket,
    Kind::LeftBrace,
    Kind::LeftParen,
    Kind::Dot,
    Kind::Minus,
    Kind::True,
    Kind::False,
    Kind::Null,
    Kind::Float,
    Kind::Int,
    Kind::Uint,
    Kind::String,
    Kind::Bytes,
    Kind::Ident,
]);
pub(super) const EXPR: Set = PRIMARY.or(Set::of(&[Kind::Exclam]));
pub(super) const OPTIONAL_EXPR: Set = EXPR.or(Set::of(&[Kind::Question]));
pub(super) const MEMBERS: Set = Set::of(&[Kind::Dot, Kind::LeftBracket]);
pub(super) const FIELD: Set = Set::of(&[Kind::Ident, Kind::EscapedIdent]);
pub(super) const OPTIONAL_FIELD: Set = FIELD.or(Set::of(&[Kind::Question]));
pub(super) const COMMA: Set = Set::of(&[Kind::Comma]);

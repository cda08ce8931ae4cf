//! The parser of label selectors (upstream: `labels.Parse`). It accepts everything that upstream accepts, such as
//! `a in (,b)` and `a=`, and reports upstream's errors.

use std::collections::BTreeSet;

use pintle_value::names::label_key;
use pintle_value::{Errors, Str, print};

use crate::{LabelRequirement, Operator, SelectorParseError};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    End,
    CloseParen,
    Comma,
    Not,
    DoubleEquals,
    Equals,
    Greater,
    Identifier,
    In,
    Less,
    NotEquals,
    NotIn,
    OpenParen,
}

impl Token {
    /// The token as a value. `in` and `notin` are ordinary words if a key or a value is expected.
    fn as_value(self) -> Self {
        if matches!(self, Token::In | Token::NotIn) { Token::Identifier } else { self }
    }
}

/// Splits the text into tokens; the last token is the end. A NUL byte ends a word, or the whole text between words.
fn lex(text: &str) -> Vec<(Token, &str)> {
    let bytes = text.as_bytes();
    let is_space = |b: u8| matches!(b, b' ' | b'\t' | b'\r' | b'\n');
    let is_symbol = |b: u8| matches!(b, b'=' | b'!' | b'(' | b')' | b',' | b'>' | b'<');
    let mut tokens = Vec::new();
    let mut at = 0;
    loop {
        while bytes.get(at).copied().is_some_and(is_space) {
            at += 1;
        }
        let (token, length) = match (bytes.get(at), bytes.get(at + 1)) {
            (None | Some(0), _) => {
                tokens.push((Token::End, ""));
                return tokens;
            }
            (Some(b'='), Some(b'=')) => (Token::DoubleEquals, 2),
            (Some(b'!'), Some(b'=')) => (Token::NotEquals, 2),
            (Some(b'='), _) => (Token::Equals, 1),
            (Some(b'!'), _) => (Token::Not, 1),
            (Some(b'('), _) => (Token::OpenParen, 1),
            (Some(b')'), _) => (Token::CloseParen, 1),
            (Some(b','), _) => (Token::Comma, 1),
            (Some(b'>'), _) => (Token::Greater, 1),
            (Some(b'<'), _) => (Token::Less, 1),
            _ => {
                let word = bytes[at..].iter().take_while(|b| **b != 0 && !is_space(**b) && !is_symbol(**b)).count();
                match &text[at..at + word] {
                    "in" => (Token::In, word),
                    "notin" => (Token::NotIn, word),
                    _ => (Token::Identifier, word),
                }
            }
        };
        tokens.push((token, &text[at..at + length]));
        at += length;
        // Upstream's lexer consumes the NUL byte that ended a word or a symbol.
        at += usize::from(bytes.get(at) == Some(&0));
    }
}

struct Parser<'a> {
    tokens: Vec<(Token, &'a str)>,
    position: usize,
}

/// Parses the requirements of a label selector.
pub(crate) fn parse(text: &str) -> Result<Vec<LabelRequirement>, SelectorParseError> {
    Parser { tokens: lex(text), position: 0 }.selector().map_err(SelectorParseError)
}

/// The text of validation errors.
fn join_errors(errors: Errors) -> String {
    errors.message()
}

impl<'a> Parser<'a> {
    fn peek(&self) -> (Token, &'a str) {
        self.tokens.get(self.position).copied().unwrap_or((Token::End, ""))
    }

    fn next(&mut self) -> (Token, &'a str) {
        let next = self.peek();
        self.position += 1;
        next
    }

    fn selector(&mut self) -> Result<Vec<LabelRequirement>, String> {
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                (Token::End, _) => return Ok(requirements),
                (token, _) if matches!(token.as_value(), Token::Identifier | Token::Not) => {
                    let requirement = self.requirement().map_err(|e| format!("unable to parse requirement: {e}"))?;
                    requirements.push(requirement);
                }
                (_, found) => {
                    return Err(format!("found '{found}', expected: !, identifier, or 'end of string'"));
                }
            }
            match self.next() {
                (Token::End, _) => return Ok(requirements),
                (Token::Comma, _) => {
                    let (token, found) = self.peek();
                    if !matches!(token.as_value(), Token::Identifier | Token::Not) {
                        return Err(format!("found '{found}', expected: identifier after ','"));
                    }
                }
                (_, found) => return Err(format!("found '{found}', expected: ',' or 'end of string'")),
            }
        }
    }

    fn requirement(&mut self) -> Result<LabelRequirement, String> {
        let mut first = self.next();
        let negated = first.0 == Token::Not;
        if negated {
            first = self.next();
        }
        let (token, key) = first;
        if token.as_value() != Token::Identifier {
            return Err(format!("found '{key}', expected: identifier"));
        }
        let problems = label_key(key);
        if !problems.is_empty() {
            // Upstream prints a nil path.
            return Err(format!("<nil>: Invalid value: {}: {}", print::quote(key), problems.join("; ")));
        }
        if negated {
            return LabelRequirement::new(key, Operator::DoesNotExist, Vec::new()).map_err(join_errors);
        }
        if matches!(self.peek().0, Token::End | Token::Comma) {
            return LabelRequirement::new(key, Operator::Exists, Vec::new()).map_err(join_errors);
        }
        let operator = self.operator()?;
        let values = match operator {
            Operator::In | Operator::NotIn => self.values()?,
            _ => BTreeSet::from([self.exact_value()?]),
        };
        let values = values.into_iter().map(Str::from).collect();
        LabelRequirement::new(key, operator, values).map_err(join_errors)
    }

    fn operator(&mut self) -> Result<Operator, String> {
        Ok(match self.next() {
            (Token::In, _) => Operator::In,
            (Token::NotIn, _) => Operator::NotIn,
            (Token::Equals, _) => Operator::Equals,
            (Token::DoubleEquals, _) => Operator::DoubleEquals,
            (Token::NotEquals, _) => Operator::NotEquals,
            (Token::Greater, _) => Operator::GreaterThan,
            (Token::Less, _) => Operator::LessThan,
            (_, found) => return Err(format!("found '{found}', expected: in, notin, =, ==, !=, gt, lt")),
        })
    }

    /// Parses the values in parentheses. A missing value is the empty value.
    fn values(&mut self) -> Result<BTreeSet<&'a str>, String> {
        match self.next() {
            (Token::OpenParen, _) => {}
            (_, found) => return Err(format!("found '{found}' expected: '('")),
        }
        match self.peek() {
            (Token::CloseParen, _) => {
                self.next();
                Ok(BTreeSet::from([""]))
            }
            (token, _) if matches!(token.as_value(), Token::Identifier | Token::Comma) => self.value_list(),
            (_, found) => Err(format!("found '{found}', expected: ',', ')' or identifier")),
        }
    }

    fn value_list(&mut self) -> Result<BTreeSet<&'a str>, String> {
        let mut values = BTreeSet::new();
        loop {
            let (token, found) = self.next();
            match (token.as_value(), self.peek().0) {
                (Token::Identifier, after) => {
                    values.insert(found);
                    match after {
                        Token::Comma => {}
                        Token::CloseParen => break,
                        _ => return Err(format!("found '{}', expected: ',' or ')'", self.peek().1)),
                    }
                }
                (Token::Comma, after) => {
                    if values.is_empty() || matches!(after, Token::CloseParen | Token::Comma) {
                        values.insert("");
                    }
                    if after == Token::CloseParen {
                        break;
                    }
                }
                _ => return Err(format!("found '{found}', expected: ',', or identifier")),
            }
        }
        self.next();
        Ok(values)
    }

    /// Parses the value after an operator that takes one value. A missing value is the empty value.
    fn exact_value(&mut self) -> Result<&'a str, String> {
        if matches!(self.peek().0, Token::End | Token::Comma) {
            return Ok("");
        }
        match self.next() {
            (token, value) if token.as_value() == Token::Identifier => Ok(value),
            (_, found) => Err(format!("found '{found}', expected: identifier")),
        }
    }
}

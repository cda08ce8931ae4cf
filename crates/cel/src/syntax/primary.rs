//! Values: names, calls, lists, maps, objects, literals, and what is in parentheses.

use pintle_value::Str;

use super::ast::{Entry, Expr, ExprKind, Literal};
use super::parser::{Node, Parser, Res, Rule, Stop, follow};
use super::tokens::{COMMA, EXPR, Kind, OPTIONAL_EXPR, OPTIONAL_FIELD, PRIMARY, Set};
use super::unescape::unescape;

/// Words that CEL keeps for itself.
const RESERVED: [&str; 21] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "package",
    "namespace",
    "null",
    "return",
    "true",
    "var",
    "void",
    "while",
];

/// True for a word that CEL keeps for itself, which names nothing.
#[must_use]
pub fn is_reserved(word: &str) -> bool {
    RESERVED.contains(&word)
}

impl Parser<'_> {
    pub(super) fn primary(&mut self) -> Res {
        self.enter(Rule::Primary)?;
        let mark = self.recovery.follow.len();
        let result = self.primary_body();
        self.leave(Rule::Primary);
        self.caught(Rule::Primary, mark, result, |parser| {
            parser.unfinished.take().unwrap_or_else(|| parser.unspecified())
        })
    }

    fn primary_body(&mut self) -> Res {
        self.sync(PRIMARY)?;
        let first = self.peek();
        match first.kind {
            Kind::LeftParen => {
                self.take();
                self.under(Set::of(&[Kind::RightParen]), false);
                let node = self.expr()?;
                self.recovery.follow.pop();
                let end = self.expect(Kind::RightParen, follow(Set::NONE, true));
                self.finished(end.map(drop), node)
            }
            Kind::LeftBracket => self.create_list(),
            Kind::LeftBrace => self.create_map(),
            Kind::Dot | Kind::Ident => self.named(),
            Kind::Minus if !(self.sees(1, Kind::Int) || self.sees(1, Kind::Float)) => Err(self.no_alternative(1)),
            kind if PRIMARY.has(kind) => Ok(Node::new(self.literal(), 0)),
            _ => Err(self.no_alternative(0)),
        }
    }

    /// A name, a call of a global function, or the creation of an object.
    fn named(&mut self) -> Res {
        let dot = usize::from(self.sees(0, Kind::Dot));
        if !self.sees(dot, Kind::Ident) {
            return Err(self.no_alternative(dot));
        }
        let mut ahead = dot + 1;
        while self.sees(ahead, Kind::Dot) && self.sees(ahead + 1, Kind::Ident) {
            ahead += 2;
        }
        if self.sees(ahead, Kind::LeftBrace) {
            return self.create_message();
        }
        let leading = self.take_if(Kind::Dot);
        let name = self.take();
        let text = self.text(name.start, name.end);
        let start = leading.unwrap_or(name).start;
        let reserved = is_reserved(&text);
        let full = if leading.is_some() { format!(".{text}") } else { text.clone() };
        if self.sees(0, Kind::LeftParen) {
            let open = self.take();
            if reserved {
                self.report(start, format!("reserved identifier: {text}"));
            }
            let id = self.id(open);
            let (mut args, mut height) = (Vec::new(), 0);
            let outcome = self.call_arguments(follow(Set::NONE, true), &mut args, &mut height);
            if let Err(stop @ Stop::Abort) = outcome {
                return Err(stop);
            }
            let node = Node::new(self.call_or_macro(id, full.into(), None, args), height);
            return self.finished(outcome, node);
        }
        if reserved {
            return Ok(Node::new(self.report(start, format!("reserved identifier: {text}")), 0));
        }
        let id = self.id(name);
        Ok(Node::new(Expr { id, kind: ExprKind::Ident(full.into()) }, 0))
    }

    fn create_list(&mut self) -> Res {
        let open = self.take();
        let id = self.id(open);
        let (mut elements, mut optional, mut height) = (Vec::new(), Vec::new(), 0);
        let outcome = self.elements(&mut elements, &mut optional, &mut height);
        self.finished(outcome, Node::new(Expr { id, kind: ExprKind::List { elements, optional } }, height))
    }

    /// What is in a list, and its end.
    fn elements(&mut self, elements: &mut Vec<Expr>, optional: &mut Vec<usize>, height: &mut u16) -> Res<()> {
        let tail = Set::of(&[Kind::RightBracket]).or(COMMA);
        self.sync(OPTIONAL_EXPR.or(tail))?;
        if OPTIONAL_EXPR.has(self.peek().kind) {
            self.under(tail, false);
            self.enter(Rule::ListInit)?;
            loop {
                self.under(COMMA, true);
                if self.take_if(Kind::Question).is_some() {
                    optional.push(elements.len());
                }
                let element = self.expr()?;
                self.recovery.follow.pop();
                *height = (*height).max(element.height);
                elements.push(*element.expr);
                if !(self.sees(0, Kind::Comma) && OPTIONAL_EXPR.has(self.peek_at(1).kind)) {
                    break;
                }
                self.take();
            }
            self.leave(Rule::ListInit);
            self.recovery.follow.pop();
        }
        self.end(Kind::RightBracket, tail)
    }

    /// The end of a list, map or object, perhaps behind a comma.
    fn end(&mut self, close: Kind, tail: Set) -> Res<()> {
        self.sync(tail)?;
        self.take_if(Kind::Comma);
        self.expect(close, follow(Set::NONE, true)).map(drop)
    }

    fn create_map(&mut self) -> Res {
        let open = self.take();
        let id = self.id(open);
        let (mut entries, mut height) = (Vec::new(), 0);
        let outcome = self.entries(&mut entries, &mut height);
        self.finished(outcome, Node::new(Expr { id, kind: ExprKind::Map(entries) }, height))
    }

    /// What is in a map, and its end.
    fn entries(&mut self, entries: &mut Vec<Entry<Expr>>, height: &mut u16) -> Res<()> {
        let tail = Set::of(&[Kind::RightBrace, Kind::Comma]);
        self.sync(OPTIONAL_EXPR.or(tail))?;
        if OPTIONAL_EXPR.has(self.peek().kind) {
            self.under(tail, false);
            let mark = self.recovery.follow.len();
            let result = self.map_entries(entries, height);
            self.caught(Rule::MapInit, mark, result, |_| ())?;
            self.recovery.follow.pop();
        }
        self.end(Kind::RightBrace, tail)
    }

    fn map_entries(&mut self, entries: &mut Vec<Entry<Expr>>, height: &mut u16) -> Res<()> {
        loop {
            let optional = self.take_if(Kind::Question).is_some();
            // The number of the entry is given out before those of its key, but its place is the colon.
            let id = self.id_at(None);
            self.under(Set::of(&[Kind::Colon]), false);
            let key = self.expr()?;
            self.recovery.follow.pop();
            let colon = self.expect(Kind::Colon, follow(EXPR, false))?;
            self.positions.set(id, colon.map(|colon| colon.start));
            self.under(COMMA, true);
            let value = self.expr()?;
            self.recovery.follow.pop();
            *height = (*height).max(key.height).max(value.height);
            entries.push(Entry { id, key: *key.expr, value: *value.expr, optional });
            if !(self.sees(0, Kind::Comma) && OPTIONAL_EXPR.has(self.peek_at(1).kind)) {
                return Ok(());
            }
            self.take();
        }
    }

    fn create_message(&mut self) -> Res {
        let mut name = String::new();
        while !self.sees(0, Kind::LeftBrace) {
            let token = self.take();
            name.push_str(&self.text(token.start, token.end));
        }
        let open = self.take();
        let id = self.id(open);
        let (mut fields, mut height) = (Vec::new(), 0);
        let outcome = self.message_fields(&mut fields, &mut height);
        self.finished(outcome, Node::new(Expr { id, kind: ExprKind::Struct { name: name.into(), fields } }, height))
    }

    /// What is in an object, and its end.
    fn message_fields(&mut self, fields: &mut Vec<Entry<Str>>, height: &mut u16) -> Res<()> {
        let tail = Set::of(&[Kind::RightBrace, Kind::Comma]);
        self.sync(OPTIONAL_FIELD.or(tail))?;
        if OPTIONAL_FIELD.has(self.peek().kind) {
            self.under(tail, false);
            let mark = self.recovery.follow.len();
            let result = self.fields(fields, height);
            self.caught(Rule::FieldInit, mark, result, |_| ())?;
            self.recovery.follow.pop();
        }
        self.end(Kind::RightBrace, tail)
    }

    fn fields(&mut self, fields: &mut Vec<Entry<Str>>, height: &mut u16) -> Res<()> {
        loop {
            self.under(Set::of(&[Kind::Colon]), false);
            let mark = self.recovery.follow.len();
            if let Err(stop) = self.sync(OPTIONAL_FIELD) {
                self.caught(Rule::OptField, mark, Err(stop), |_| ())?;
            }
            let optional = self.take_if(Kind::Question).is_some();
            let id = self.id_at(None);
            let (key, _) = self.escape_ident()?.unwrap_or_default();
            self.recovery.follow.pop();
            let colon = self.expect(Kind::Colon, follow(EXPR, false))?;
            self.positions.set(id, colon.map(|colon| colon.start));
            self.under(COMMA, true);
            let value = self.expr()?;
            self.recovery.follow.pop();
            *height = (*height).max(value.height);
            fields.push(Entry { id, key, value: *value.expr, optional });
            if !(self.sees(0, Kind::Comma) && OPTIONAL_FIELD.has(self.peek_at(1).kind)) {
                return Ok(());
            }
            self.take();
        }
    }

    fn literal(&mut self) -> Expr {
        let sign = self.take_if(Kind::Minus);
        let token = self.take();
        let start = sign.unwrap_or(token).start;
        let text = self.text(token.start, token.end);
        match literal(token.kind, sign.is_some(), &text) {
            Ok(literal) => Expr { id: self.id_at(Some(start)), kind: ExprKind::Literal(literal) },
            Err(message) => self.report(start, message),
        }
    }
}

fn literal(kind: Kind, negative: bool, text: &str) -> Result<Literal, &'static str> {
    Ok(match kind {
        Kind::True => Literal::Bool(true),
        Kind::False => Literal::Bool(false),
        Kind::Null => Literal::Null,
        Kind::Int => {
            let (digits, radix) = text.strip_prefix("0x").map_or((text, 10), |hex| (hex, 16));
            let signed = if negative { format!("-{digits}") } else { digits.to_owned() };
            Literal::Int(i64::from_str_radix(&signed, radix).map_err(|_| "invalid int literal")?)
        }
        Kind::Uint => {
            let text = &text[..text.len() - 1];
            let (digits, radix) = text.strip_prefix("0x").map_or((text, 10), |hex| (hex, 16));
            Literal::Uint(u64::from_str_radix(digits, radix).map_err(|_| "invalid uint literal")?)
        }
        Kind::Float => {
            let number: f64 = text.parse().map_err(|_| "invalid double literal")?;
            if number.is_infinite() {
                return Err("invalid double literal");
            }
            Literal::Double(if negative { -number } else { number })
        }
        Kind::Bytes => Literal::Bytes(unescape(&text[1..], true)?),
        _ => {
            let bytes = unescape(text, false)?;
            Literal::String(String::from_utf8(bytes).map_err(|_| "invalid unicode code point")?.into())
        }
    })
}

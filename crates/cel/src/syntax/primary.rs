//! The `primary` rule: identifiers, global calls, lists, maps, objects, literals and parentheses.

use pintle_value::Str;

use super::ast::{EntryExpr, Expr, ExprKind, Literal};
use super::parser::{GrammarRule, ParsedNode, Parser, RuleError, RuleResult, follow_set};
use super::tokens::{COMMA, EXPR, OPTIONAL_EXPR, OPTIONAL_FIELD, PRIMARY, TokenKind, TokenSet};
use super::unescape::unescape;

/// CEL's reserved words.
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

/// True for CEL's reserved words, which are not valid identifiers.
#[must_use]
pub fn is_reserved(word: &str) -> bool {
    RESERVED.contains(&word)
}

impl Parser<'_> {
    pub(super) fn primary(&mut self) -> RuleResult {
        self.enter(GrammarRule::Primary)?;
        let follow_depth = self.recovery.follow_stack.len();
        let result = self.primary_body();
        self.leave(GrammarRule::Primary);
        self.recover_or(GrammarRule::Primary, follow_depth, result, |parser| {
            parser.partial.take().unwrap_or_else(|| parser.placeholder())
        })
    }

    fn primary_body(&mut self) -> RuleResult {
        self.sync(PRIMARY)?;
        let first = self.peek();
        match first.kind {
            TokenKind::LeftParen => {
                self.consume();
                self.push_follow(TokenSet::of(&[TokenKind::RightParen]), false);
                let node = self.expr()?;
                self.recovery.follow_stack.pop();
                let end = self.expect(TokenKind::RightParen, follow_set(TokenSet::NONE, true));
                self.complete(end.map(drop), node)
            }
            TokenKind::LeftBracket => self.create_list(),
            TokenKind::LeftBrace => self.create_map(),
            TokenKind::Dot | TokenKind::Ident => self.ident_call_or_message(),
            TokenKind::Minus if !(self.peek_is(1, TokenKind::Int) || self.peek_is(1, TokenKind::Float)) => {
                Err(self.report_no_alternative(1))
            }
            kind if PRIMARY.contains(kind) => Ok(ParsedNode::new(self.literal(), 0)),
            _ => Err(self.report_no_alternative(0)),
        }
    }

    /// Parses an identifier, a call of a global function, or an object.
    fn ident_call_or_message(&mut self) -> RuleResult {
        let dot = usize::from(self.peek_is(0, TokenKind::Dot));
        if !self.peek_is(dot, TokenKind::Ident) {
            return Err(self.report_no_alternative(dot));
        }
        let mut ahead = dot + 1;
        while self.peek_is(ahead, TokenKind::Dot) && self.peek_is(ahead + 1, TokenKind::Ident) {
            ahead += 2;
        }
        if self.peek_is(ahead, TokenKind::LeftBrace) {
            return self.create_message();
        }
        let leading = self.consume_if(TokenKind::Dot);
        let name = self.consume();
        let text = self.text(name.start, name.end);
        let start = leading.unwrap_or(name).start;
        let reserved = is_reserved(&text);
        let qualified = if leading.is_some() { format!(".{text}") } else { text.clone() };
        if self.peek_is(0, TokenKind::LeftParen) {
            let open = self.consume();
            if reserved {
                self.report(start, format!("reserved identifier: {text}"));
            }
            let id = self.id(open);
            let (mut args, mut height) = (Vec::new(), 0);
            let outcome = self.call_arguments(follow_set(TokenSet::NONE, true), &mut args, &mut height);
            if let Err(error @ RuleError::LimitExceeded) = outcome {
                return Err(error);
            }
            let node = ParsedNode::new(self.call_or_macro(id, qualified.into(), None, args), height);
            return self.complete(outcome, node);
        }
        if reserved {
            return Ok(ParsedNode::new(self.report(start, format!("reserved identifier: {text}")), 0));
        }
        let id = self.id(name);
        Ok(ParsedNode::new(Expr { id, kind: ExprKind::Ident(qualified.into()) }, 0))
    }

    fn create_list(&mut self) -> RuleResult {
        let open = self.consume();
        let id = self.id(open);
        let (mut elements, mut optional, mut height) = (Vec::new(), Vec::new(), 0);
        let outcome = self.elements(&mut elements, &mut optional, &mut height);
        self.complete(outcome, ParsedNode::new(Expr { id, kind: ExprKind::List { elements, optional } }, height))
    }

    /// Parses the elements and the end of a list.
    fn elements(&mut self, elements: &mut Vec<Expr>, optional: &mut Vec<usize>, height: &mut u16) -> RuleResult<()> {
        let tail = TokenSet::of(&[TokenKind::RightBracket]).union(COMMA);
        self.sync(OPTIONAL_EXPR.union(tail))?;
        if OPTIONAL_EXPR.contains(self.peek().kind) {
            self.push_follow(tail, false);
            self.enter(GrammarRule::ListInit)?;
            loop {
                self.push_follow(COMMA, true);
                if self.consume_if(TokenKind::Question).is_some() {
                    optional.push(elements.len());
                }
                let element = self.expr()?;
                self.recovery.follow_stack.pop();
                *height = (*height).max(element.height);
                elements.push(*element.expr);
                if !(self.peek_is(0, TokenKind::Comma) && OPTIONAL_EXPR.contains(self.peek_at(1).kind)) {
                    break;
                }
                self.consume();
            }
            self.leave(GrammarRule::ListInit);
            self.recovery.follow_stack.pop();
        }
        self.closing_token(TokenKind::RightBracket, tail)
    }

    /// Parses an optional comma and the closing token of a list, map or object.
    fn closing_token(&mut self, close: TokenKind, tail: TokenSet) -> RuleResult<()> {
        self.sync(tail)?;
        self.consume_if(TokenKind::Comma);
        self.expect(close, follow_set(TokenSet::NONE, true)).map(drop)
    }

    fn create_map(&mut self) -> RuleResult {
        let open = self.consume();
        let id = self.id(open);
        let (mut entries, mut height) = (Vec::new(), 0);
        let outcome = self.entries(&mut entries, &mut height);
        self.complete(outcome, ParsedNode::new(Expr { id, kind: ExprKind::Map(entries) }, height))
    }

    /// Parses the entries and the end of a map.
    fn entries(&mut self, entries: &mut Vec<EntryExpr<Expr>>, height: &mut u16) -> RuleResult<()> {
        let tail = TokenSet::of(&[TokenKind::RightBrace, TokenKind::Comma]);
        self.sync(OPTIONAL_EXPR.union(tail))?;
        if OPTIONAL_EXPR.contains(self.peek().kind) {
            self.push_follow(tail, false);
            let follow_depth = self.recovery.follow_stack.len();
            let result = self.map_entries(entries, height);
            self.recover_or(GrammarRule::MapInit, follow_depth, result, |_| ())?;
            self.recovery.follow_stack.pop();
        }
        self.closing_token(TokenKind::RightBrace, tail)
    }

    fn map_entries(&mut self, entries: &mut Vec<EntryExpr<Expr>>, height: &mut u16) -> RuleResult<()> {
        loop {
            let optional = self.consume_if(TokenKind::Question).is_some();
            // The entry gets its id before its key does, but its location is the colon.
            let id = self.id_at(None);
            self.push_follow(TokenSet::of(&[TokenKind::Colon]), false);
            let key = self.expr()?;
            self.recovery.follow_stack.pop();
            let colon = self.expect(TokenKind::Colon, follow_set(EXPR, false))?;
            self.source_info.set(id, colon.map(|colon| colon.start));
            self.push_follow(COMMA, true);
            let value = self.expr()?;
            self.recovery.follow_stack.pop();
            *height = (*height).max(key.height).max(value.height);
            entries.push(EntryExpr { id, key: *key.expr, value: *value.expr, optional });
            if !(self.peek_is(0, TokenKind::Comma) && OPTIONAL_EXPR.contains(self.peek_at(1).kind)) {
                return Ok(());
            }
            self.consume();
        }
    }

    fn create_message(&mut self) -> RuleResult {
        let mut name = String::new();
        while !self.peek_is(0, TokenKind::LeftBrace) {
            let token = self.consume();
            name.push_str(&self.text(token.start, token.end));
        }
        let open = self.consume();
        let id = self.id(open);
        let (mut fields, mut height) = (Vec::new(), 0);
        let outcome = self.message_fields(&mut fields, &mut height);
        self.complete(
            outcome,
            ParsedNode::new(Expr { id, kind: ExprKind::Struct { name: name.into(), fields } }, height),
        )
    }

    /// Parses the fields and the end of an object.
    fn message_fields(&mut self, fields: &mut Vec<EntryExpr<Str>>, height: &mut u16) -> RuleResult<()> {
        let tail = TokenSet::of(&[TokenKind::RightBrace, TokenKind::Comma]);
        self.sync(OPTIONAL_FIELD.union(tail))?;
        if OPTIONAL_FIELD.contains(self.peek().kind) {
            self.push_follow(tail, false);
            let follow_depth = self.recovery.follow_stack.len();
            let result = self.fields(fields, height);
            self.recover_or(GrammarRule::FieldInit, follow_depth, result, |_| ())?;
            self.recovery.follow_stack.pop();
        }
        self.closing_token(TokenKind::RightBrace, tail)
    }

    fn fields(&mut self, fields: &mut Vec<EntryExpr<Str>>, height: &mut u16) -> RuleResult<()> {
        loop {
            self.push_follow(TokenSet::of(&[TokenKind::Colon]), false);
            let follow_depth = self.recovery.follow_stack.len();
            if let Err(error) = self.sync(OPTIONAL_FIELD) {
                self.recover_or(GrammarRule::OptField, follow_depth, Err(error), |_| ())?;
            }
            let optional = self.consume_if(TokenKind::Question).is_some();
            let id = self.id_at(None);
            let (key, _) = self.escape_ident()?.unwrap_or_default();
            self.recovery.follow_stack.pop();
            let colon = self.expect(TokenKind::Colon, follow_set(EXPR, false))?;
            self.source_info.set(id, colon.map(|colon| colon.start));
            self.push_follow(COMMA, true);
            let value = self.expr()?;
            self.recovery.follow_stack.pop();
            *height = (*height).max(value.height);
            fields.push(EntryExpr { id, key, value: *value.expr, optional });
            if !(self.peek_is(0, TokenKind::Comma) && OPTIONAL_FIELD.contains(self.peek_at(1).kind)) {
                return Ok(());
            }
            self.consume();
        }
    }

    fn literal(&mut self) -> Expr {
        let sign = self.consume_if(TokenKind::Minus);
        let token = self.consume();
        let start = sign.unwrap_or(token).start;
        let text = self.text(token.start, token.end);
        match literal(token.kind, sign.is_some(), &text) {
            Ok(literal) => Expr { id: self.id_at(Some(start)), kind: ExprKind::Literal(literal) },
            Err(message) => self.report(start, message),
        }
    }
}

fn literal(kind: TokenKind, negative: bool, text: &str) -> Result<Literal, &'static str> {
    Ok(match kind {
        TokenKind::True => Literal::Bool(true),
        TokenKind::False => Literal::Bool(false),
        TokenKind::Null => Literal::Null,
        TokenKind::Int => {
            let (digits, radix) = text.strip_prefix("0x").map_or((text, 10), |hex| (hex, 16));
            let signed = if negative { format!("-{digits}") } else { digits.to_owned() };
            Literal::Int(i64::from_str_radix(&signed, radix).map_err(|_| "invalid int literal")?)
        }
        TokenKind::Uint => {
            let text = &text[..text.len() - 1];
            let (digits, radix) = text.strip_prefix("0x").map_or((text, 10), |hex| (hex, 16));
            Literal::Uint(u64::from_str_radix(digits, radix).map_err(|_| "invalid uint literal")?)
        }
        TokenKind::Float => {
            let number: f64 = text.parse().map_err(|_| "invalid double literal")?;
            if number.is_infinite() {
                return Err("invalid double literal");
            }
            Literal::Double(if negative { -number } else { number })
        }
        TokenKind::Bytes => Literal::Bytes(unescape(&text[1..], true)?),
        _ => {
            let bytes = unescape(text, false)?;
            Literal::String(String::from_utf8(bytes).map_err(|_| "invalid unicode code point")?.into())
        }
    })
}

//! The `member` rule: field selections, member calls and indices.

use pintle_value::Str;

use super::ast::{Expr, ExprKind, Literal};
use super::parser::{FollowSet, GrammarRule, ParsedNode, Parser, RuleError, RuleResult, follow_set};
use super::tokens::{COMMA, EXPR, FIELD, MEMBERS, OPTIONAL_EXPR, TokenKind, TokenSet};

impl Parser<'_> {
    pub(super) fn member_operand(&mut self) -> RuleResult {
        self.push_follow(TokenSet::NONE, true);
        let node = self.member()?;
        self.recovery.follow_stack.pop();
        Ok(node)
    }

    /// `member = primary ('.' …, '[' … ']')*`
    fn member(&mut self) -> RuleResult {
        self.enter(GrammarRule::Member)?;
        let follow_depth = self.recovery.follow_stack.len();
        let depth = self.depth[GrammarRule::Member as usize];
        self.push_follow(MEMBERS, true);
        let primary = self.primary()?;
        self.recovery.follow_stack.pop();
        let mut node = primary;
        let mut result = Ok(());
        while MEMBERS.contains(self.peek().kind) {
            result = self.suffix(&mut node);
            node = self.limit_height(node);
            if result.is_err() {
                break;
            }
        }
        self.depth[GrammarRule::Member as usize] = depth - 1;
        self.recover_or(GrammarRule::Member, follow_depth, result, |_| ())?;
        Ok(node)
    }

    /// Parses one `.field`, `.?field`, `.call(…)`, `[index]` or `[?index]` and wraps the operand in it.
    fn suffix(&mut self, node: &mut ParsedNode) -> RuleResult<()> {
        if self.peek_is(0, TokenKind::LeftBracket) {
            return self.index(node);
        }
        match self.peek_at(1).kind {
            TokenKind::Ident if self.peek_is(2, TokenKind::LeftParen) => self.member_call(node),
            TokenKind::Ident | TokenKind::EscapedIdent | TokenKind::Question => self.select(node),
            _ => Err(self.report_no_alternative(1)),
        }
    }

    fn index(&mut self, node: &mut ParsedNode) -> RuleResult<()> {
        let open = self.consume();
        self.sync(OPTIONAL_EXPR)?;
        let optional = self.consume_if(TokenKind::Question).is_some();
        self.push_follow(TokenSet::of(&[TokenKind::RightBracket]), false);
        let id = self.id(open);
        let index = self.expr()?;
        self.recovery.follow_stack.pop();
        self.expect(TokenKind::RightBracket, follow_set(MEMBERS, true))?;
        let function = if optional { "_[?_]" } else { "_[_]" };
        node.height = 1 + node.height.max(index.height);
        let target = take_expr(&mut node.expr);
        *node.expr = self.call_or_macro(id, function.into(), None, vec![target, *index.expr]);
        Ok(())
    }

    fn member_call(&mut self, node: &mut ParsedNode) -> RuleResult<()> {
        self.consume();
        let name = self.consume();
        let open = self.consume();
        let id = self.id(open);
        let (mut args, mut height) = (Vec::new(), 0);
        let outcome = self.call_arguments(follow_set(MEMBERS, true), &mut args, &mut height);
        if let Err(RuleError::LimitExceeded) = outcome {
            return outcome;
        }
        node.height = 1 + node.height.max(height);
        let name = Str::from(self.text(name.start, name.end));
        let target = take_expr(&mut node.expr);
        *node.expr = self.call_or_macro(id, name, Some(target), args);
        outcome
    }

    fn select(&mut self, node: &mut ParsedNode) -> RuleResult<()> {
        let dot = self.consume();
        let optional = self.consume_if(TokenKind::Question).is_some();
        self.push_follow(MEMBERS, true);
        let offset = self.peek().start;
        let (field, offset) = match self.escape_ident()? {
            Some(field) => field,
            None => {
                self.report(offset, "unsupported ident kind");
                (Str::default(), offset)
            }
        };
        self.recovery.follow_stack.pop();
        node.height += 1;
        let operand = take_expr(&mut node.expr);
        *node.expr = if optional {
            let name = Expr { id: self.id_at(Some(offset)), kind: ExprKind::Literal(Literal::String(field)) };
            let id = self.id(dot);
            Expr { id, kind: ExprKind::Call { target: None, function: "_?._".into(), args: vec![operand, name] } }
        } else {
            let id = self.id(dot);
            Expr { id, kind: ExprKind::Select { operand: Box::new(operand), field, test_only: false } }
        };
        Ok(())
    }

    /// Parses a field name. Older versions do not accept names in backticks.
    pub(super) fn escape_ident(&mut self) -> RuleResult<Option<(Str, u32)>> {
        let follow_depth = self.recovery.follow_stack.len();
        let token = match self.sync(FIELD) {
            Ok(()) if FIELD.contains(self.peek().kind) => self.consume(),
            Ok(()) => {
                let error = self.report_no_alternative(0);
                return self.recover_or(GrammarRule::EscapeIdent, follow_depth, Err(error), |_| None);
            }
            Err(error) => return self.recover_or(GrammarRule::EscapeIdent, follow_depth, Err(error), |_| None),
        };
        if token.kind == TokenKind::EscapedIdent {
            if self.limits.has_quoted_fields {
                return Ok(Some((self.text(token.start + 1, token.end - 1).into(), token.start)));
            }
            self.report(token.start, "unsupported syntax: '`'");
        }
        Ok(Some((self.text(token.start, token.end).into(), token.start)))
    }

    /// Parses the arguments of a call and the closing parenthesis, after the opening one.
    pub(super) fn call_arguments(
        &mut self,
        after: FollowSet,
        args: &mut Vec<Expr>,
        height: &mut u16,
    ) -> RuleResult<()> {
        let close = TokenSet::of(&[TokenKind::RightParen]);
        self.sync(EXPR.union(close))?;
        if EXPR.contains(self.peek().kind) {
            self.push_follow(close, false);
            self.arguments(args, height)?;
            self.recovery.follow_stack.pop();
        }
        self.expect(TokenKind::RightParen, after)?;
        Ok(())
    }

    fn arguments(&mut self, args: &mut Vec<Expr>, height: &mut u16) -> RuleResult<()> {
        self.enter(GrammarRule::Arguments)?;
        loop {
            self.push_follow(COMMA, true);
            let arg = self.expr()?;
            self.recovery.follow_stack.pop();
            *height = (*height).max(arg.height);
            args.push(*arg.expr);
            if self.consume_if(TokenKind::Comma).is_none() {
                self.leave(GrammarRule::Arguments);
                return Ok(());
            }
        }
    }
}

fn take_expr(expr: &mut Expr) -> Expr {
    std::mem::replace(expr, Expr { id: 0, kind: ExprKind::Unspecified })
}

//! What follows a value: `.field`, `.call(…)`, `[index]`.

use pintle_value::Str;

use super::ast::{Expr, ExprKind, Literal};
use super::parser::{Node, Parser, Res, Rule, Stop, follow};
use super::recovery::Follow;
use super::tokens::{COMMA, EXPR, FIELD, Kind, MEMBERS, OPTIONAL_EXPR, Set};

impl Parser<'_> {
    pub(super) fn member_under(&mut self) -> Res {
        self.under(Set::NONE, true);
        let node = self.member()?;
        self.recovery.follow.pop();
        Ok(node)
    }

    /// `member = primary ('.' …, '[' … ']')*`
    fn member(&mut self) -> Res {
        self.enter(Rule::Member)?;
        let mark = self.recovery.follow.len();
        let depth = self.depth[Rule::Member as usize];
        self.under(MEMBERS, true);
        let primary = self.primary()?;
        self.recovery.follow.pop();
        let mut node = primary;
        let mut result = Ok(());
        while MEMBERS.has(self.peek().kind) {
            result = self.step(&mut node);
            node = self.bounded(node);
            if result.is_err() {
                break;
            }
        }
        self.depth[Rule::Member as usize] = depth - 1;
        self.caught(Rule::Member, mark, result, |_| ())?;
        Ok(node)
    }

    /// One `.field`, `.?field`, `.call(…)`, `[index]` or `[?index]`. The operand is changed in place.
    fn step(&mut self, node: &mut Node) -> Res<()> {
        if self.sees(0, Kind::LeftBracket) {
            return self.index(node);
        }
        match self.peek_at(1).kind {
            Kind::Ident if self.sees(2, Kind::LeftParen) => self.member_call(node),
            Kind::Ident | Kind::EscapedIdent | Kind::Question => self.select(node),
            _ => Err(self.no_alternative(1)),
        }
    }

    fn index(&mut self, node: &mut Node) -> Res<()> {
        let open = self.take();
        self.sync(OPTIONAL_EXPR)?;
        let optional = self.take_if(Kind::Question).is_some();
        self.under(Set::of(&[Kind::RightBracket]), false);
        let id = self.id(open);
        let index = self.expr()?;
        self.recovery.follow.pop();
        self.expect(Kind::RightBracket, follow(MEMBERS, true))?;
        let function = if optional { "_[?_]" } else { "_[_]" };
        node.height = 1 + node.height.max(index.height);
        let target = take_expr(&mut node.expr);
        *node.expr = self.call_or_macro(id, function.into(), None, vec![target, *index.expr]);
        Ok(())
    }

    fn member_call(&mut self, node: &mut Node) -> Res<()> {
        self.take();
        let name = self.take();
        let open = self.take();
        let id = self.id(open);
        let (mut args, mut height) = (Vec::new(), 0);
        let outcome = self.call_arguments(follow(MEMBERS, true), &mut args, &mut height);
        if let Err(Stop::Abort) = outcome {
            return outcome;
        }
        node.height = 1 + node.height.max(height);
        let name = Str::from(self.text(name.start, name.end));
        let target = take_expr(&mut node.expr);
        *node.expr = self.call_or_macro(id, name, Some(target), args);
        outcome
    }

    fn select(&mut self, node: &mut Node) -> Res<()> {
        let dot = self.take();
        let optional = self.take_if(Kind::Question).is_some();
        self.under(MEMBERS, true);
        let offset = self.peek().start;
        let (field, offset) = match self.escape_ident()? {
            Some(field) => field,
            None => {
                self.report(offset, "unsupported ident kind");
                (Str::default(), offset)
            }
        };
        self.recovery.follow.pop();
        node.height += 1;
        let operand = take_expr(&mut node.expr);
        *node.expr = if optional {
            let name = Expr { id: self.id_at(Some(offset)), kind: ExprKind::Literal(Literal::String(field)) };
            let id = self.id(dot);
            Expr { id, kind: ExprKind::Call { target: None, function: "_?._".into(), args: vec![operand, name] } }
        } else {
            let id = self.id(dot);
            Expr { id, kind: ExprKind::Select { operand: Box::new(operand), field, test: false } }
        };
        Ok(())
    }

    /// A field's name. Kubernetes does not let names be written in backticks.
    pub(super) fn escape_ident(&mut self) -> Res<Option<(Str, u32)>> {
        let mark = self.recovery.follow.len();
        let token = match self.sync(FIELD) {
            Ok(()) if FIELD.has(self.peek().kind) => self.take(),
            Ok(()) => {
                let stop = self.no_alternative(0);
                return self.caught(Rule::EscapeIdent, mark, Err(stop), |_| None);
            }
            Err(stop) => return self.caught(Rule::EscapeIdent, mark, Err(stop), |_| None),
        };
        if token.kind == Kind::EscapedIdent {
            self.report(token.start, "unsupported syntax: '`'");
        }
        Ok(Some((self.text(token.start, token.end).into(), token.start)))
    }

    /// The arguments of a call and its closing parenthesis, behind the opening one.
    pub(super) fn call_arguments(&mut self, after: Follow, args: &mut Vec<Expr>, height: &mut u16) -> Res<()> {
        let close = Set::of(&[Kind::RightParen]);
        self.sync(EXPR.or(close))?;
        if EXPR.has(self.peek().kind) {
            self.under(close, false);
            self.arguments(args, height)?;
            self.recovery.follow.pop();
        }
        self.expect(Kind::RightParen, after)?;
        Ok(())
    }

    fn arguments(&mut self, args: &mut Vec<Expr>, height: &mut u16) -> Res<()> {
        self.enter(Rule::Arguments)?;
        loop {
            self.under(COMMA, true);
            let arg = self.expr()?;
            self.recovery.follow.pop();
            *height = (*height).max(arg.height);
            args.push(*arg.expr);
            if self.take_if(Kind::Comma).is_none() {
                self.leave(Rule::Arguments);
                return Ok(());
            }
        }
    }
}

fn take_expr(expr: &mut Expr) -> Expr {
    std::mem::replace(expr, Expr { id: 0, kind: ExprKind::Unspecified })
}

//! The rules from whole expressions down to the operators with one operand.

use super::ast::{Expr, ExprId, ExprKind};
use super::parser::{Node, Parser, Res, Rule, follow};
use super::tokens::{CALCS, EXPR, Kind, PRIMARY, RELATIONS, Set};

impl Parser<'_> {
    /// `expr = conditionalOr ('?' conditionalOr ':' expr)?`
    pub(super) fn expr(&mut self) -> Res {
        self.enter(Rule::Expr)?;
        let mark = self.recovery.follow.len();
        let depth = self.depth;
        let start = self.peek().start;
        let result = self.conditional();
        self.depth = depth;
        self.leave(Rule::Expr);
        self.caught(Rule::Expr, mark, result, |parser| parser.rest_of(start))
    }

    fn conditional(&mut self) -> Res {
        self.under(Set::of(&[Kind::Question]), true);
        let condition = self.logic()?;
        self.recovery.follow.pop();
        let Some(op) = self.take_if(Kind::Question) else { return Ok(condition) };
        let id = self.id(op);
        self.under(Set::of(&[Kind::Colon]), false);
        let truthy = self.logic()?;
        self.recovery.follow.pop();
        if let Err(stop) = self.expect(Kind::Colon, follow(EXPR, false)) {
            let node = Node::new(Expr { id, kind: ExprKind::Unspecified }, 0);
            return self.finished(Err(stop), node);
        }
        self.under(Set::NONE, true);
        let falsy = self.expr()?;
        self.recovery.follow.pop();
        let height = 1 + condition.height.max(truthy.height).max(falsy.height);
        let expr = self.call_or_macro(id, "_?_:_".into(), None, vec![*condition.expr, *truthy.expr, *falsy.expr]);
        Ok(self.bounded(Node::new(expr, height)))
    }

    /// `conditionalOr` and `conditionalAnd` at once: terms of `&&` within terms of `||`.
    fn logic(&mut self) -> Res {
        let (mut ors, mut ands) = (Terms::new("_||_"), Terms::new("_&&_"));
        let mut height = 0;
        let (mut or, mut and) = (None, None);
        loop {
            self.under(Set::of(&[Kind::Or]), true);
            self.under(Set::of(&[Kind::And]), true);
            let term = self.relation(0)?;
            self.recovery.follow.pop();
            self.recovery.follow.pop();
            height = height.max(term.height);
            let id = and.take().map(|op| self.id(op));
            ands.push(id, *term.expr);
            if let Some(op) = self.take_if(Kind::And) {
                and = Some(op);
                continue;
            }
            let id = or.take().map(|op| self.id(op));
            ors.push(id, std::mem::replace(&mut ands, Terms::new("_&&_")).balanced());
            match self.take_if(Kind::Or) {
                Some(op) => or = Some(op),
                None => return Ok(Node::new(ors.balanced(), height)),
            }
        }
    }

    fn relation(&mut self, precedence: u8) -> Res {
        self.enter(Rule::Relation)?;
        self.under(RELATIONS, true);
        let mut left = self.calc(0)?;
        while precedence <= 1 && RELATIONS.has(self.peek().kind) {
            let op = self.take();
            let id = self.id(op);
            let right = self.relation(2)?;
            left = self.binary(id, op.kind, left, right);
        }
        self.recovery.follow.pop();
        self.leave(Rule::Relation);
        Ok(left)
    }

    fn calc(&mut self, precedence: u8) -> Res {
        self.enter(Rule::Calc)?;
        self.under(CALCS, true);
        let mut left = self.unary()?;
        loop {
            let binds = match self.peek().kind {
                Kind::Star | Kind::Slash | Kind::Percent => 2,
                Kind::Plus | Kind::Minus => 1,
                _ => break,
            };
            if binds < precedence {
                break;
            }
            let op = self.take();
            let id = self.id(op);
            let right = self.calc(binds + 1)?;
            left = self.binary(id, op.kind, left, right);
        }
        self.recovery.follow.pop();
        self.leave(Rule::Calc);
        Ok(left)
    }

    /// The node, or what stands in for it if it is too deep, so that chains without end do not make trees without end.
    pub(super) fn bounded(&mut self, node: Node) -> Node {
        if node.height <= self.limits.depth {
            return node;
        }
        self.too_deep = true;
        self.unspecified()
    }

    fn binary(&mut self, id: ExprId, op: Kind, left: Node, right: Node) -> Node {
        let function = match op {
            Kind::Less => "_<_",
            Kind::LessEquals => "_<=_",
            Kind::GreaterEquals => "_>=_",
            Kind::Greater => "_>_",
            Kind::Equals => "_==_",
            Kind::NotEquals => "_!=_",
            Kind::In => "@in",
            Kind::Star => "_*_",
            Kind::Slash => "_/_",
            Kind::Percent => "_%_",
            Kind::Plus => "_+_",
            _ => "_-_",
        };
        let height = 1 + left.height.max(right.height);
        let expr = self.call_or_macro(id, function.into(), None, vec![*left.expr, *right.expr]);
        self.bounded(Node::new(expr, height))
    }

    /// `unary = member | '!'+ member | '-'+ member`
    fn unary(&mut self) -> Res {
        self.enter(Rule::Unary)?;
        let mark = self.recovery.follow.len();
        let start = self.peek().start;
        let result = self.unary_body();
        self.leave(Rule::Unary);
        self.caught(Rule::Unary, mark, result, |parser| parser.rest_of(start))
    }

    fn unary_body(&mut self) -> Res {
        self.sync(EXPR)?;
        let first = self.peek();
        let number = |parser: &Self| parser.sees(1, Kind::Int) || parser.sees(1, Kind::Float);
        let mut odd = false;
        let function = match first.kind {
            Kind::Exclam => {
                while self.take_if(Kind::Exclam).is_some() {
                    odd = !odd;
                    self.sync_loop(EXPR)?;
                }
                "!_"
            }
            Kind::Minus if !number(self) => {
                while self.sees(0, Kind::Minus) {
                    if !PRIMARY.has(self.peek_at(1).kind) {
                        return Err(self.no_alternative(1));
                    }
                    self.take();
                    odd = !odd;
                }
                "-_"
            }
            _ => return self.member_under(),
        };
        // An even number of operators cancels out.
        if !odd {
            return self.member_under();
        }
        let id = self.id(first);
        let operand = self.member_under()?;
        let expr = self.call_or_macro(id, function.into(), None, vec![*operand.expr]);
        Ok(Node::new(expr, operand.height))
    }
}

/// The terms of `&&` or `||`, which become a balanced tree.
struct Terms {
    function: &'static str,
    ops: Vec<ExprId>,
    terms: Vec<Option<Expr>>,
}

impl Terms {
    fn new(function: &'static str) -> Self {
        Self { function, ops: Vec::new(), terms: Vec::new() }
    }

    fn push(&mut self, op: Option<ExprId>, term: Expr) {
        self.ops.extend(op);
        self.terms.push(Some(term));
    }

    fn balanced(mut self) -> Expr {
        let count = self.ops.len();
        self.between(0, count)
    }

    /// The tree of the operators from `low` to before `high`.
    fn between(&mut self, low: usize, high: usize) -> Expr {
        if low == high {
            return self.terms[low].take().unwrap_or(Expr { id: 0, kind: ExprKind::Unspecified });
        }
        let middle = usize::midpoint(low, high);
        let left = self.between(low, middle);
        let right = self.between(middle + 1, high);
        let function = self.function.into();
        Expr { id: self.ops[middle], kind: ExprKind::Call { target: None, function, args: vec![left, right] } }
    }
}

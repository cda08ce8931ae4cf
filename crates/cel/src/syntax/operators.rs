//! The rules of the grammar from `expr` down to `unary`.

use super::ast::{Expr, ExprId, ExprKind};
use super::parser::{GrammarRule, ParsedNode, Parser, RuleResult, follow_set};
use super::tokens::{CALCS, EXPR, PRIMARY, RELATIONS, TokenKind, TokenSet};

impl Parser<'_> {
    /// `expr = conditionalOr ('?' conditionalOr ':' expr)?`
    pub(super) fn expr(&mut self) -> RuleResult {
        self.enter(GrammarRule::Expr)?;
        let follow_depth = self.recovery.follow_stack.len();
        let depth = self.depth;
        let start = self.peek().start;
        let result = self.conditional();
        self.depth = depth;
        self.leave(GrammarRule::Expr);
        self.recover_or(GrammarRule::Expr, follow_depth, result, |parser| parser.partial_or_placeholder(start))
    }

    fn conditional(&mut self) -> RuleResult {
        self.push_follow(TokenSet::of(&[TokenKind::Question]), true);
        let condition = self.conditional_or()?;
        self.recovery.follow_stack.pop();
        let Some(op) = self.consume_if(TokenKind::Question) else { return Ok(condition) };
        let id = self.id(op);
        self.push_follow(TokenSet::of(&[TokenKind::Colon]), false);
        let truthy = self.conditional_or()?;
        self.recovery.follow_stack.pop();
        if let Err(error) = self.expect(TokenKind::Colon, follow_set(EXPR, false)) {
            let node = ParsedNode::new(Expr { id, kind: ExprKind::Unspecified }, 0);
            return self.complete(Err(error), node);
        }
        self.push_follow(TokenSet::NONE, true);
        let falsy = self.expr()?;
        self.recovery.follow_stack.pop();
        let height = 1 + condition.height.max(truthy.height).max(falsy.height);
        let expr = self.call_or_macro(id, "_?_:_".into(), None, vec![*condition.expr, *truthy.expr, *falsy.expr]);
        Ok(self.limit_height(ParsedNode::new(expr, height)))
    }

    /// Parses `conditionalOr` and `conditionalAnd` together: operands of `&&` within operands of `||`.
    fn conditional_or(&mut self) -> RuleResult {
        let (mut ors, mut ands) = (LogicTerms::new("_||_"), LogicTerms::new("_&&_"));
        let mut height = 0;
        let (mut or, mut and) = (None, None);
        loop {
            self.push_follow(TokenSet::of(&[TokenKind::Or]), true);
            self.push_follow(TokenSet::of(&[TokenKind::And]), true);
            let term = self.relation(0)?;
            self.recovery.follow_stack.pop();
            self.recovery.follow_stack.pop();
            height = height.max(term.height);
            let id = and.take().map(|op| self.id(op));
            ands.push(id, *term.expr);
            if let Some(op) = self.consume_if(TokenKind::And) {
                and = Some(op);
                continue;
            }
            let id = or.take().map(|op| self.id(op));
            ors.push(id, std::mem::replace(&mut ands, LogicTerms::new("_&&_")).into_balanced_tree());
            match self.consume_if(TokenKind::Or) {
                Some(op) => or = Some(op),
                None => return Ok(ParsedNode::new(ors.into_balanced_tree(), height)),
            }
        }
    }

    fn relation(&mut self, precedence: u8) -> RuleResult {
        self.enter(GrammarRule::Relation)?;
        self.push_follow(RELATIONS, true);
        let mut left = self.calc(0)?;
        while precedence <= 1 && RELATIONS.contains(self.peek().kind) {
            let op = self.consume();
            let id = self.id(op);
            let right = self.relation(2)?;
            left = self.binary(id, op.kind, left, right);
        }
        self.recovery.follow_stack.pop();
        self.leave(GrammarRule::Relation);
        Ok(left)
    }

    fn calc(&mut self, precedence: u8) -> RuleResult {
        self.enter(GrammarRule::Calc)?;
        self.push_follow(CALCS, true);
        let mut left = self.unary()?;
        loop {
            let op_precedence = match self.peek().kind {
                TokenKind::Star | TokenKind::Slash | TokenKind::Percent => 2,
                TokenKind::Plus | TokenKind::Minus => 1,
                _ => break,
            };
            if op_precedence < precedence {
                break;
            }
            let op = self.consume();
            let id = self.id(op);
            let right = self.calc(op_precedence + 1)?;
            left = self.binary(id, op.kind, left, right);
        }
        self.recovery.follow_stack.pop();
        self.leave(GrammarRule::Calc);
        Ok(left)
    }

    /// Returns the node, or a placeholder if it is too deep. This bounds the depth of trees for long chains of
    /// operators.
    pub(super) fn limit_height(&mut self, node: ParsedNode) -> ParsedNode {
        if node.height <= self.limits.max_recursion_depth {
            return node;
        }
        self.too_deep = true;
        self.placeholder()
    }

    fn binary(&mut self, id: ExprId, op: TokenKind, left: ParsedNode, right: ParsedNode) -> ParsedNode {
        let function = match op {
            TokenKind::Less => "_<_",
            TokenKind::LessEquals => "_<=_",
            TokenKind::GreaterEquals => "_>=_",
            TokenKind::Greater => "_>_",
            TokenKind::Equals => "_==_",
            TokenKind::NotEquals => "_!=_",
            TokenKind::In => "@in",
            TokenKind::Star => "_*_",
            TokenKind::Slash => "_/_",
            TokenKind::Percent => "_%_",
            TokenKind::Plus => "_+_",
            _ => "_-_",
        };
        let height = 1 + left.height.max(right.height);
        let expr = self.call_or_macro(id, function.into(), None, vec![*left.expr, *right.expr]);
        self.limit_height(ParsedNode::new(expr, height))
    }

    /// `unary = member | '!'+ member | '-'+ member`
    fn unary(&mut self) -> RuleResult {
        self.enter(GrammarRule::Unary)?;
        let follow_depth = self.recovery.follow_stack.len();
        let start = self.peek().start;
        let result = self.unary_body();
        self.leave(GrammarRule::Unary);
        self.recover_or(GrammarRule::Unary, follow_depth, result, |parser| parser.partial_or_placeholder(start))
    }

    fn unary_body(&mut self) -> RuleResult {
        self.sync(EXPR)?;
        let first = self.peek();
        let number = |parser: &Self| parser.peek_is(1, TokenKind::Int) || parser.peek_is(1, TokenKind::Float);
        let mut odd = false;
        let function = match first.kind {
            TokenKind::Exclam => {
                while self.consume_if(TokenKind::Exclam).is_some() {
                    odd = !odd;
                    self.sync_loop(EXPR)?;
                }
                "!_"
            }
            TokenKind::Minus if !number(self) => {
                while self.peek_is(0, TokenKind::Minus) {
                    if !PRIMARY.contains(self.peek_at(1).kind) {
                        return Err(self.report_no_alternative(1));
                    }
                    self.consume();
                    odd = !odd;
                }
                "-_"
            }
            _ => return self.member_operand(),
        };
        // An even number of operators cancels out.
        if !odd {
            return self.member_operand();
        }
        let id = self.id(first);
        let operand = self.member_operand()?;
        let expr = self.call_or_macro(id, function.into(), None, vec![*operand.expr]);
        Ok(ParsedNode::new(expr, operand.height))
    }
}

/// The operands of `&&` or `||`, which form a balanced tree (upstream: `logicManager`).
struct LogicTerms {
    function: &'static str,
    ops: Vec<ExprId>,
    terms: Vec<Option<Expr>>,
}

impl LogicTerms {
    fn new(function: &'static str) -> Self {
        Self { function, ops: Vec::new(), terms: Vec::new() }
    }

    fn push(&mut self, op: Option<ExprId>, term: Expr) {
        self.ops.extend(op);
        self.terms.push(Some(term));
    }

    fn into_balanced_tree(mut self) -> Expr {
        let count = self.ops.len();
        self.balanced_subtree(0, count)
    }

    /// Builds the tree of the operators in `low..high`.
    fn balanced_subtree(&mut self, low: usize, high: usize) -> Expr {
        if low == high {
            return self.terms[low].take().unwrap_or(Expr { id: 0, kind: ExprKind::Unspecified });
        }
        let middle = usize::midpoint(low, high);
        let left = self.balanced_subtree(low, middle);
        let right = self.balanced_subtree(middle + 1, high);
        let function = self.function.into();
        Expr { id: self.ops[middle], kind: ExprKind::Call { target: None, function, args: vec![left, right] } }
    }
}

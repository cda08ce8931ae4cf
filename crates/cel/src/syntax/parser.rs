//! The recursive descent parser: state and helpers of all rules. Each rule of CEL's grammar is a method, or a loop
//! within one, in `operators`, `members` or `primary` (upstream: cel-go `parser/parser.go` and `parser/gen/CEL.g4`).

use pintle_value::Str;

use super::ast::{Expr, ExprId, ExprKind, SourceInfo};
use super::lexer::lex;
use super::macros::{Macro, MacroExpansion, MacroExprFactory};
use super::tokens::{Token, TokenKind, TokenSet};
use crate::source::{Issues, Location, Source};

/// Limits of the parser, and optional syntax.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ParserLimits {
    /// The maximum number of code points.
    pub(crate) max_code_points: usize,
    /// The maximum recursion depth.
    pub(crate) max_recursion_depth: u16,
    /// True if names of fields can be in backticks.
    pub(crate) has_quoted_fields: bool,
}

impl Default for ParserLimits {
    fn default() -> Self {
        Self { max_code_points: 100_000, max_recursion_depth: 250, has_quoted_fields: false }
    }
}

/// A parsed expression.
#[derive(Clone, Debug)]
pub(crate) struct ParsedExpr {
    /// The tree.
    pub(crate) expr: Expr,
    /// The source offsets of its nodes.
    pub(crate) source_info: SourceInfo,
}

/// Parses a text and expands its macros.
pub(crate) fn parse(source: &Source, macros: &[Macro], limits: ParserLimits) -> Result<ParsedExpr, Box<Issues>> {
    let mut parser = Parser {
        source,
        tokens: Vec::new(),
        next: 0,
        issues: Issues::new(source.clone()),
        source_info: SourceInfo::default(),
        next_id: 1,
        macros,
        limits,
        depth: [0; RULE_COUNT],
        recovery: RecoveryState::default(),
        unrecognized: Vec::new(),
        partial: None,
        too_deep: false,
    };
    let size = source.chars().len();
    let expr = if size > limits.max_code_points {
        let limit = limits.max_code_points;
        let message = format!("expression code point size exceeds limit: size: {size}, limit {limit}");
        parser.issues.report(Location::NONE, message);
        None
    } else {
        parser.start()
    };
    match expr {
        Some(expr) if parser.issues.is_empty() => Ok(ParsedExpr { expr, source_info: parser.source_info }),
        _ => Err(Box::new(parser.issues)),
    }
}

/// An error that ends a rule early.
pub(super) enum RuleError {
    /// A syntax error that has been reported; the rule recovers from it.
    Syntax,
    /// A limit was exceeded; parsing ends.
    LimitExceeded,
}

/// The rules whose depth is limited or that recover from errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum GrammarRule {
    Start,
    Expr,
    Relation,
    Calc,
    Unary,
    Member,
    Primary,
    Arguments,
    ListInit,
    MapInit,
    FieldInit,
    OptField,
    EscapeIdent,
}
const RULE_COUNT: usize = 13;

/// A parsed expression and the depth to which cel-go's visitor descends in it. The expression is boxed to keep the
/// stack frames of the recursive rules small.
pub(super) struct ParsedNode {
    pub(super) expr: Box<Expr>,
    pub(super) height: u16,
}

pub(super) type RuleResult<T = ParsedNode> = Result<T, RuleError>;

/// The tokens that can follow the current position within an active rule.
#[derive(Clone, Copy)]
pub(super) struct FollowSet {
    pub(super) set: TokenSet,
    /// True if the rule can also end there.
    pub(super) may_end: bool,
}

/// The state of error recovery.
#[derive(Default)]
pub(super) struct RecoveryState {
    /// True after an error until the next token matches. No errors are reported meanwhile.
    pub(super) active: bool,
    pub(super) follow_stack: Vec<FollowSet>,
    pub(super) last_error: Option<usize>,
    pub(super) last_rules: Vec<GrammarRule>,
    pub(super) attempts: u32,
    pub(super) reported: u32,
}

pub(super) struct Parser<'s> {
    pub(super) source: &'s Source,
    tokens: Vec<Token>,
    next: usize,
    pub(super) issues: Issues,
    pub(super) source_info: SourceInfo,
    pub(super) next_id: ExprId,
    macros: &'s [Macro],
    pub(super) limits: ParserLimits,
    pub(super) depth: [u16; RULE_COUNT],
    pub(super) recovery: RecoveryState,
    /// The ranges of the text that match no token.
    pub(super) unrecognized: Vec<(u32, u32)>,
    /// An expression whose closing token is missing. The rule that recovers returns it.
    pub(super) partial: Option<ParsedNode>,
    /// True if the tree exceeds the maximum depth. Parsing continues in order to report syntax errors.
    pub(super) too_deep: bool,
}

impl ParsedNode {
    pub(super) fn new(expr: Expr, height: u16) -> Self {
        Self { expr: Box::new(expr), height }
    }
}

pub(super) const fn follow_set(set: TokenSet, may_end: bool) -> FollowSet {
    FollowSet { set, may_end }
}

impl Parser<'_> {
    pub(super) fn start(&mut self) -> Option<Expr> {
        let lexer_output = lex(self.source.chars());
        self.tokens = lexer_output.tokens;
        for (offset, text) in lexer_output.errors {
            self.unrecognized.push((offset, offset + text.chars().count() as u32));
            self.report_syntax_error(offset, &format!("token recognition error at: '{text}'")).ok()?;
        }
        let end = TokenSet::of(&[TokenKind::Eof]);
        self.recovery.follow_stack.push(follow_set(end, false));
        let node = self.expr().ok()?;
        self.recovery.follow_stack.pop();
        match self.expect(TokenKind::Eof, follow_set(TokenSet::NONE, false)) {
            Ok(_) => {}
            Err(RuleError::Syntax) => self.recover(GrammarRule::Start).ok()?,
            Err(RuleError::LimitExceeded) => return None,
        }
        if self.too_deep {
            self.issues.report(Location::NONE, "max recursion depth exceeded");
            return None;
        }
        Some(*node.expr)
    }

    // Tokens.

    pub(super) fn peek(&self) -> Token {
        self.peek_at(0)
    }

    pub(super) fn peek_at(&self, ahead: usize) -> Token {
        let last = self.tokens.len() - 1;
        self.tokens[(self.next + ahead).min(last)]
    }

    pub(super) fn peek_is(&self, ahead: usize, kind: TokenKind) -> bool {
        self.peek_at(ahead).kind == kind
    }

    pub(super) fn token_index(&self) -> usize {
        self.next
    }

    pub(super) fn advance(&mut self) {
        if self.next + 1 < self.tokens.len() {
            self.next += 1;
        }
    }

    pub(super) fn consume(&mut self) -> Token {
        let token = self.peek();
        self.end_recovery();
        self.advance();
        token
    }

    pub(super) fn consume_if(&mut self, kind: TokenKind) -> Option<Token> {
        self.peek_is(0, kind).then(|| self.consume())
    }

    // Node ids.

    pub(super) fn id_at(&mut self, offset: Option<u32>) -> ExprId {
        let id = self.next_id;
        self.source_info.set(id, offset);
        self.next_id += 1;
        id
    }

    pub(super) fn id(&mut self, token: Token) -> ExprId {
        self.id_at(Some(token.start))
    }

    /// Releases the id of a call that a macro has replaced.
    pub(super) fn release_id(&mut self, id: ExprId) {
        self.source_info.set(id, None);
        if id + 1 == self.next_id {
            self.next_id -= 1;
        }
    }

    pub(super) fn placeholder(&mut self) -> ParsedNode {
        let id = self.id_at(None);
        ParsedNode::new(Expr { id, kind: ExprKind::Unspecified }, 0)
    }

    /// Reports an error at an offset and returns a placeholder.
    pub(super) fn report(&mut self, offset: u32, message: impl Into<String>) -> Expr {
        let id = self.id_at(Some(offset));
        let location = self.source.location(offset);
        self.issues.report(location, message);
        Expr { id, kind: ExprKind::Unspecified }
    }

    // Rules.

    pub(super) fn enter(&mut self, rule: GrammarRule) -> RuleResult<()> {
        let depth = &mut self.depth[rule as usize];
        *depth += 1;
        if *depth > self.limits.max_recursion_depth {
            let message = format!("expression recursion limit exceeded: {}", self.limits.max_recursion_depth);
            self.issues.report(Location::NONE, message);
            return Err(RuleError::LimitExceeded);
        }
        Ok(())
    }

    pub(super) fn leave(&mut self, rule: GrammarRule) {
        self.depth[rule as usize] -= 1;
    }

    pub(super) fn push_follow(&mut self, set: TokenSet, may_end: bool) {
        self.recovery.follow_stack.push(follow_set(set, may_end));
    }

    /// Completes an expression. On a syntax error after it, stores it for the rule that recovers.
    pub(super) fn complete(&mut self, outcome: RuleResult<()>, node: ParsedNode) -> RuleResult {
        match outcome {
            Ok(()) => Ok(node),
            Err(RuleError::Syntax) => {
                self.partial = Some(node);
                Err(RuleError::Syntax)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the expression that was completed before the syntax error, or a placeholder.
    pub(super) fn partial_or_placeholder(&mut self, start: u32) -> ParsedNode {
        self.partial.take().unwrap_or_else(|| {
            let id = self.id_at(Some(start));
            ParsedNode::new(Expr { id, kind: ExprKind::Unspecified }, 0)
        })
    }

    /// Ends a rule that recovers: returns its result or, after a syntax error, `fallback`.
    pub(super) fn recover_or<T>(
        &mut self,
        rule: GrammarRule,
        follow_depth: usize,
        result: RuleResult<T>,
        fallback: impl FnOnce(&mut Self) -> T,
    ) -> RuleResult<T> {
        self.recovery.follow_stack.truncate(follow_depth);
        match result {
            Err(RuleError::Syntax) => {
                self.recover(rule)?;
                Ok(fallback(self))
            }
            other => other,
        }
    }

    // Calls.

    pub(super) fn call_or_macro(&mut self, id: ExprId, function: Str, target: Option<Expr>, args: Vec<Expr>) -> Expr {
        let expander = Macro::find(self.macros, &function, target.is_some(), args.len());
        let (target, args) = match expander {
            None => (target, args),
            Some(expand) => {
                let at = self.source_info.offset(id);
                match expand(&mut MacroExprFactory::new(&mut self.source_info, &mut self.next_id, at), target, args) {
                    Ok(MacroExpansion::Expanded(expr)) => {
                        self.release_id(id);
                        return expr;
                    }
                    Ok(MacroExpansion::NotApplicable { target, args }) => (target, args),
                    Err(error) => {
                        let offset = self.source_info.offset(error.id);
                        // A placeholder has no offset; cel-go reports it before the start of the first line.
                        let nowhere = Location { line: 1, column: -1 };
                        let location = offset.map_or(nowhere, |offset| self.source.location(offset));
                        self.release_id(id);
                        let placeholder_id = self.id_at(offset);
                        self.issues.report(location, error.message);
                        return Expr { id: placeholder_id, kind: ExprKind::Unspecified };
                    }
                }
            }
        };
        Expr { id, kind: ExprKind::Call { target: target.map(Box::new), function, args } }
    }
}

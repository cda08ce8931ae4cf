//! Tokens to a tree, by recursive descent: what the rules have in common. Every rule of CEL's grammar is a method, or
//! a loop within one, of the modules beside this one.

use pintle_value::Str;

use super::ast::{Expr, ExprId, ExprKind, Positions};
use super::lexer::lex;
use super::macros::{Expansion, Macro, MacroContext};
use super::recovery::{Follow, Recovery};
use super::tokens::{Kind, Set, Token};
use crate::source::{Issues, Location, Source};

/// Bounds on what is parsed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// How many code points an expression may have.
    pub(crate) code_points: usize,
    /// How deep rules may nest.
    pub(crate) depth: u16,
}

impl Default for Limits {
    fn default() -> Self {
        Self { code_points: 100_000, depth: 250 }
    }
}

/// A parsed expression.
#[derive(Clone, Debug)]
pub(crate) struct Parsed {
    /// The tree.
    pub(crate) expr: Expr,
    /// Where its nodes are.
    pub(crate) positions: Positions,
}

/// Parses a text. Macros are expanded; what is wrong is returned as a report.
pub(crate) fn parse(source: &Source, macros: &[Macro], limits: Limits) -> Result<Parsed, Box<Issues>> {
    let mut parser = Parser {
        source,
        tokens: Vec::new(),
        next: 0,
        issues: Issues::new(source.clone()),
        positions: Positions::default(),
        next_id: 1,
        macros,
        limits,
        depth: [0; RULES],
        recovery: Recovery::default(),
        skipped: Vec::new(),
        unfinished: None,
        too_deep: false,
    };
    let size = source.chars().len();
    let expr = if size > limits.code_points {
        let limit = limits.code_points;
        let message = format!("expression code point size exceeds limit: size: {size}, limit {limit}");
        parser.issues.report(Location::NONE, message);
        None
    } else {
        parser.start()
    };
    match expr {
        Some(expr) if parser.issues.is_empty() => Ok(Parsed { expr, positions: parser.positions }),
        _ => Err(Box::new(parser.issues)),
    }
}

/// Why a rule ended early.
pub(super) enum Stop {
    /// A syntax error, which was reported: the rule recovers.
    Syntax,
    /// A limit was reached: parsing ends.
    Abort,
}

/// The rules whose depth is counted or that recover from errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Rule {
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
const RULES: usize = 13;

/// A tree and how deep cel-go's visitor goes in it. The tree is boxed, so that the frames of the rules, which nest
/// deeply, stay small.
pub(super) struct Node {
    pub(super) expr: Box<Expr>,
    pub(super) height: u16,
}

pub(super) type Res<T = Node> = Result<T, Stop>;

pub(super) struct Parser<'s> {
    pub(super) source: &'s Source,
    tokens: Vec<Token>,
    next: usize,
    pub(super) issues: Issues,
    pub(super) positions: Positions,
    pub(super) next_id: ExprId,
    macros: &'s [Macro],
    pub(super) limits: Limits,
    pub(super) depth: [u16; RULES],
    pub(super) recovery: Recovery,
    /// The stretches that are no tokens.
    pub(super) skipped: Vec<(u32, u32)>,
    /// A value whose end is missing: it is looked at nevertheless.
    pub(super) unfinished: Option<Node>,
    /// True if the tree is deeper than it may be; the rest is parsed nevertheless, for its errors.
    pub(super) too_deep: bool,
}

impl Node {
    pub(super) fn new(expr: Expr, height: u16) -> Self {
        Self { expr: Box::new(expr), height }
    }
}

/// What may follow in the rule itself, which then may or may not end.
pub(super) const fn follow(set: Set, may_end: bool) -> Follow {
    Follow { set, may_end }
}

impl Parser<'_> {
    pub(super) fn start(&mut self) -> Option<Expr> {
        let lexed = lex(self.source.chars());
        self.tokens = lexed.tokens;
        for (offset, text) in lexed.errors {
            self.skipped.push((offset, offset + text.chars().count() as u32));
            self.report_syntax(offset, &format!("token recognition error at: '{text}'")).ok()?;
        }
        let end = Set::of(&[Kind::Eof]);
        self.recovery.follow.push(follow(end, false));
        let node = self.expr().ok()?;
        self.recovery.follow.pop();
        match self.expect(Kind::Eof, follow(Set::NONE, false)) {
            Ok(_) => {}
            Err(Stop::Syntax) => self.recover(Rule::Start).ok()?,
            Err(Stop::Abort) => return None,
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

    pub(super) fn sees(&self, ahead: usize, kind: Kind) -> bool {
        self.peek_at(ahead).kind == kind
    }

    pub(super) fn position(&self) -> usize {
        self.next
    }

    pub(super) fn skip(&mut self) {
        if self.next + 1 < self.tokens.len() {
            self.next += 1;
        }
    }

    pub(super) fn take(&mut self) -> Token {
        let token = self.peek();
        self.matched();
        self.skip();
        token
    }

    pub(super) fn take_if(&mut self, kind: Kind) -> Option<Token> {
        self.sees(0, kind).then(|| self.take())
    }

    // Numbers and positions of nodes.

    pub(super) fn id_at(&mut self, offset: Option<u32>) -> ExprId {
        let id = self.next_id;
        self.positions.set(id, offset);
        self.next_id += 1;
        id
    }

    pub(super) fn id(&mut self, token: Token) -> ExprId {
        self.id_at(Some(token.start))
    }

    /// Takes a number back that a macro call had.
    pub(super) fn drop_id(&mut self, id: ExprId) {
        self.positions.set(id, None);
        if id + 1 == self.next_id {
            self.next_id -= 1;
        }
    }

    pub(super) fn unspecified(&mut self) -> Node {
        let id = self.id_at(None);
        Node::new(Expr { id, kind: ExprKind::Unspecified }, 0)
    }

    /// Reports what is wrong at an offset, and stands in for it.
    pub(super) fn report(&mut self, offset: u32, message: impl Into<String>) -> Expr {
        let id = self.id_at(Some(offset));
        let location = self.source.location(offset);
        self.issues.report(location, message);
        Expr { id, kind: ExprKind::Unspecified }
    }

    // Rules.

    pub(super) fn enter(&mut self, rule: Rule) -> Res<()> {
        let depth = &mut self.depth[rule as usize];
        *depth += 1;
        if *depth > self.limits.depth {
            let message = format!("expression recursion limit exceeded: {}", self.limits.depth);
            self.issues.report(Location::NONE, message);
            return Err(Stop::Abort);
        }
        Ok(())
    }

    pub(super) fn leave(&mut self, rule: Rule) {
        self.depth[rule as usize] -= 1;
    }

    pub(super) fn under(&mut self, set: Set, may_end: bool) {
        self.recovery.follow.push(follow(set, may_end));
    }

    /// A value whose last part was read or not: if not, it is kept for the rule that recovers.
    pub(super) fn finished(&mut self, outcome: Res<()>, node: Node) -> Res {
        match outcome {
            Ok(()) => Ok(node),
            Err(Stop::Syntax) => {
                self.unfinished = Some(node);
                Err(Stop::Syntax)
            }
            Err(stop) => Err(stop),
        }
    }

    /// What stands in for a value: as much of it as was read.
    pub(super) fn rest_of(&mut self, start: u32) -> Node {
        self.unfinished.take().unwrap_or_else(|| {
            let id = self.id_at(Some(start));
            Node::new(Expr { id, kind: ExprKind::Unspecified }, 0)
        })
    }

    /// The end of a rule that recovers: what it read, or what stands in for it.
    pub(super) fn caught<T>(
        &mut self,
        rule: Rule,
        mark: usize,
        result: Res<T>,
        instead: impl FnOnce(&mut Self) -> T,
    ) -> Res<T> {
        self.recovery.follow.truncate(mark);
        match result {
            Err(Stop::Syntax) => {
                self.recover(rule)?;
                Ok(instead(self))
            }
            other => other,
        }
    }

    // Calls.

    pub(super) fn call_or_macro(&mut self, id: ExprId, function: Str, target: Option<Expr>, args: Vec<Expr>) -> Expr {
        let found = Macro::find(self.macros, &function, target.is_some(), args.len());
        let (target, args) = match found {
            None => (target, args),
            Some(expand) => {
                let at = self.positions.offset(id);
                match expand(&mut MacroContext::new(&mut self.positions, &mut self.next_id, at), target, args) {
                    Ok(Expansion::Done(expr)) => {
                        self.drop_id(id);
                        return expr;
                    }
                    Ok(Expansion::Declined { target, args }) => (target, args),
                    Err(error) => {
                        let offset = self.positions.offset(error.id);
                        // What stands in for an error is nowhere, which cel-go shows as before the first line's start.
                        let nowhere = Location { line: 1, column: -1 };
                        let location = offset.map_or(nowhere, |offset| self.source.location(offset));
                        self.drop_id(id);
                        let stand_in = self.id_at(offset);
                        self.issues.report(location, error.message);
                        return Expr { id: stand_in, kind: ExprKind::Unspecified };
                    }
                }
            }
        };
        Expr { id, kind: ExprKind::Call { target: target.map(Box::new), function, args } }
    }
}

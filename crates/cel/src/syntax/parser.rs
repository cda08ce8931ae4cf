//! Tokens to a tree, by recursive descent. Every rule of CEL's grammar is a method, or a loop within one.

use pintle_value::Str;

use super::ast::{Entry, Expr, ExprId, ExprKind, Literal, Positions};
use super::lexer::{escape_whitespace, lex};
use super::macros::{Expansion, Macro, MacroContext};
use super::recovery::{Follow, Recovery};
use super::tokens::{Kind, Set, Token};
use super::unescape::unescape;
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
struct Node {
    expr: Box<Expr>,
    height: u16,
}

type Res<T = Node> = Result<T, Stop>;

pub(super) struct Parser<'s> {
    pub(super) source: &'s Source,
    tokens: Vec<Token>,
    next: usize,
    pub(super) issues: Issues,
    pub(super) positions: Positions,
    pub(super) next_id: ExprId,
    macros: &'s [Macro],
    limits: Limits,
    depth: [u16; RULES],
    pub(super) recovery: Recovery,
    /// The stretches that are no tokens.
    pub(super) skipped: Vec<(u32, u32)>,
    /// A call whose end is missing: it is looked at nevertheless.
    unfinished: Option<Node>,
    /// True if the tree is deeper than it may be; the rest is parsed nevertheless, for its errors.
    too_deep: bool,
}

const RELATIONS: Set = Set::of(&[
    Kind::Less,
    Kind::LessEquals,
    Kind::GreaterEquals,
    Kind::Greater,
    Kind::Equals,
    Kind::NotEquals,
    Kind::In,
]);
const CALCS: Set = Set::of(&[Kind::Star, Kind::Slash, Kind::Percent, Kind::Plus, Kind::Minus]);
const PRIMARY: Set = Set::of(&[
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
const EXPR: Set = PRIMARY.or(Set::of(&[Kind::Exclam]));
const OPTIONAL_EXPR: Set = EXPR.or(Set::of(&[Kind::Question]));
const MEMBERS: Set = Set::of(&[Kind::Dot, Kind::LeftBracket]);
const FIELD: Set = Set::of(&[Kind::Ident, Kind::EscapedIdent]);
const OPTIONAL_FIELD: Set = FIELD.or(Set::of(&[Kind::Question]));
const COMMA: Set = Set::of(&[Kind::Comma]);

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

impl Node {
    fn new(expr: Expr, height: u16) -> Self {
        Self { expr: Box::new(expr), height }
    }
}

/// What may follow in the rule itself, which then may or may not end.
const fn follow(set: Set, may_end: bool) -> Follow {
    Follow { set, may_end }
}

impl Parser<'_> {
    fn start(&mut self) -> Option<Expr> {
        let lexed = lex(self.source.chars());
        self.tokens = lexed.tokens;
        for (offset, text) in lexed.errors {
            self.skipped.push((offset, offset + text.chars().count() as u32));
            let text = escape_whitespace(&text);
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

    fn sees(&self, ahead: usize, kind: Kind) -> bool {
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

    fn take_if(&mut self, kind: Kind) -> Option<Token> {
        self.sees(0, kind).then(|| self.take())
    }

    // Numbers and positions of nodes.

    pub(super) fn id_at(&mut self, offset: Option<u32>) -> ExprId {
        let id = self.next_id;
        self.positions.set(id, offset);
        self.next_id += 1;
        id
    }

    fn id(&mut self, token: Token) -> ExprId {
        self.id_at(Some(token.start))
    }

    /// Takes a number back that a macro call had.
    fn drop_id(&mut self, id: ExprId) {
        self.positions.set(id, None);
        if id + 1 == self.next_id {
            self.next_id -= 1;
        }
    }

    fn unspecified(&mut self) -> Node {
        let id = self.id_at(None);
        Node::new(Expr { id, kind: ExprKind::Unspecified }, 0)
    }

    /// Reports what is wrong at an offset, and stands in for it.
    fn report(&mut self, offset: u32, message: impl Into<String>) -> Expr {
        let id = self.id_at(Some(offset));
        let location = self.source.location(offset);
        self.issues.report(location, message);
        Expr { id, kind: ExprKind::Unspecified }
    }

    // Rules.

    fn enter(&mut self, rule: Rule) -> Res<()> {
        let depth = &mut self.depth[rule as usize];
        *depth += 1;
        if *depth > self.limits.depth {
            let message = format!("expression recursion limit exceeded: {}", self.limits.depth);
            self.issues.report(Location::NONE, message);
            return Err(Stop::Abort);
        }
        Ok(())
    }

    fn leave(&mut self, rule: Rule) {
        self.depth[rule as usize] -= 1;
    }

    fn under(&mut self, set: Set, may_end: bool) {
        self.recovery.follow.push(follow(set, may_end));
    }

    /// The end of a rule that recovers: what it read, or what stands in for it.
    fn caught<T>(&mut self, rule: Rule, mark: usize, result: Res<T>, instead: impl FnOnce(&mut Self) -> T) -> Res<T> {
        self.recovery.follow.truncate(mark);
        match result {
            Err(Stop::Syntax) => {
                self.recover(rule)?;
                Ok(instead(self))
            }
            other => other,
        }
    }

    /// `expr = conditionalOr ('?' conditionalOr ':' expr)?`
    fn expr(&mut self) -> Res {
        self.enter(Rule::Expr)?;
        let mark = self.recovery.follow.len();
        let depth = self.depth;
        let result = self.conditional();
        self.depth = depth;
        self.leave(Rule::Expr);
        self.caught(Rule::Expr, mark, result, Self::unspecified)
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
        self.expect(Kind::Colon, follow(EXPR, false))?;
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
    fn bounded(&mut self, node: Node) -> Node {
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
        let result = self.unary_body();
        self.leave(Rule::Unary);
        self.caught(Rule::Unary, mark, result, Self::unspecified)
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

    fn member_under(&mut self) -> Res {
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
    fn escape_ident(&mut self) -> Res<Option<(Str, u32)>> {
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
    fn call_arguments(&mut self, after: Follow, args: &mut Vec<Expr>, height: &mut u16) -> Res<()> {
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

    fn primary(&mut self) -> Res {
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
                self.expect(Kind::RightParen, follow(Set::NONE, true))?;
                Ok(node)
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
        let reserved = RESERVED.contains(&text.as_str());
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
            return match outcome {
                Ok(()) => Ok(node),
                Err(stop) => {
                    self.unfinished = Some(node);
                    Err(stop)
                }
            };
        }
        if reserved {
            return Ok(Node::new(self.report(start, format!("reserved identifier: {text}")), 0));
        }
        let id = self.id(name);
        Ok(Node::new(Expr { id, kind: ExprKind::Ident(full.into()) }, 0))
    }

    fn create_list(&mut self) -> Res {
        let open = self.take();
        let close = Set::of(&[Kind::RightBracket]);
        let tail = close.or(COMMA);
        self.sync(OPTIONAL_EXPR.or(tail))?;
        let id = self.id(open);
        let (mut elements, mut optional, mut height) = (Vec::new(), Vec::new(), 0);
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
                height = height.max(element.height);
                elements.push(*element.expr);
                if !(self.sees(0, Kind::Comma) && OPTIONAL_EXPR.has(self.peek_at(1).kind)) {
                    break;
                }
                self.take();
            }
            self.leave(Rule::ListInit);
            self.recovery.follow.pop();
        }
        self.sync(tail)?;
        self.take_if(Kind::Comma);
        self.expect(Kind::RightBracket, follow(Set::NONE, true))?;
        Ok(Node::new(Expr { id, kind: ExprKind::List { elements, optional } }, height))
    }

    fn create_map(&mut self) -> Res {
        let open = self.take();
        let tail = Set::of(&[Kind::RightBrace, Kind::Comma]);
        self.sync(OPTIONAL_EXPR.or(tail))?;
        let id = self.id(open);
        let (mut entries, mut height) = (Vec::new(), 0);
        if OPTIONAL_EXPR.has(self.peek().kind) {
            self.under(tail, false);
            let mark = self.recovery.follow.len();
            let result = self.map_entries(&mut entries, &mut height);
            self.caught(Rule::MapInit, mark, result, |_| ())?;
            self.recovery.follow.pop();
        }
        self.sync(tail)?;
        self.take_if(Kind::Comma);
        self.expect(Kind::RightBrace, follow(Set::NONE, true))?;
        Ok(Node::new(Expr { id, kind: ExprKind::Map(entries) }, height))
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
        let tail = Set::of(&[Kind::RightBrace, Kind::Comma]);
        self.sync(OPTIONAL_FIELD.or(tail))?;
        let id = self.id(open);
        let (mut fields, mut height) = (Vec::new(), 0);
        if OPTIONAL_FIELD.has(self.peek().kind) {
            self.under(tail, false);
            let mark = self.recovery.follow.len();
            let result = self.fields(&mut fields, &mut height);
            self.caught(Rule::FieldInit, mark, result, |_| ())?;
            self.recovery.follow.pop();
        }
        self.sync(tail)?;
        self.take_if(Kind::Comma);
        self.expect(Kind::RightBrace, follow(Set::NONE, true))?;
        Ok(Node::new(Expr { id, kind: ExprKind::Struct { name: name.into(), fields } }, height))
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

    // Calls.

    fn call_or_macro(&mut self, id: ExprId, function: Str, target: Option<Expr>, args: Vec<Expr>) -> Expr {
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

fn take_expr(expr: &mut Expr) -> Expr {
    std::mem::replace(expr, Expr { id: 0, kind: ExprKind::Unspecified })
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
